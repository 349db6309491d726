//! Provenance against an oracle: what `explain --back --json` says of a value is exactly the set of literals
//! whose change changes it.
//!
//! Workflows of every shape are generated. Each step adds a number of its own to what it reads, so a value
//! changes if and only if a number is changed that it was made of: the workflow is run again with each number
//! changed, and the changes are compared with the chain. `THREADLINE_LONG=1` tries forty times as many;
//! `THREADLINE_SEED=n` begins with that seed.

#![expect(clippy::unwrap_used, reason = "a run that cannot be read fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use threadline_engine::random::Random;
use threadline_lang::{Limits, Value, data};

use crate::support::{Project, is_long, seed};

/// The literals of a workflow, each with who holds it.
struct Literals {
    random: Random,
    /// Who holds each number, in the order in which the numbers are written.
    holders: Vec<String>,
    /// The one that is changed.
    changed: Option<usize>,
}

impl Literals {
    /// The next number, which is 1 more if it is the one that is changed.
    fn number(&mut self, holder: &str) -> u64 {
        let index = self.holders.len();
        self.holders.push(holder.to_owned());
        100 + 7 * index as u64 + u64::from(self.changed == Some(index))
    }

    /// A sum of a number of its own and some of what can be read.
    fn sum(&mut self, holder: &str, readable: &[String]) -> String {
        let own = self.number(holder);
        self.sum_of(&own.to_string(), readable)
    }

    /// A sum of a term and some of what can be read.
    fn sum_of(&mut self, first: &str, readable: &[String]) -> String {
        let mut sum = first.to_owned();
        for _ in 0..self.random.below(4) {
            if let Some(read) = pick(&mut self.random, readable) {
                let _ = write!(sum, " + {read}");
            }
        }
        format!("\"${{= {sum} }}\"")
    }
}

fn pick<'r>(random: &mut Random, readable: &'r [String]) -> Option<&'r String> {
    let at = random.below(readable.len().max(1) as u64);
    readable.get(usize::try_from(at).unwrap())
}

/// A workflow, and the names whose values are looked at.
struct Generated {
    files: Vec<(&'static str, String)>,
    targets: Vec<String>,
    holders: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    List,
    Graph,
    ForEach,
    Map,
    Loop,
    Call,
}

/// The workflow of a seed, with one of its numbers changed.
fn generate(shape: Shape, seed: u64, changed: Option<usize>) -> Generated {
    let mut literals = Literals { random: Random::new(seed), holders: Vec::new(), changed };
    let mut text = "name: main\n".to_owned();
    let mut readable = Vec::new();
    text.push_str("inputs:\n");
    for index in 0..2 {
        let name = format!("in{index}");
        let _ =
            writeln!(text, "  {name}: {{type: int, default: {}}}", literals.number(&format!("input {name}")));
        readable.push(format!("inputs.{name}"));
    }
    text.push_str("context:\n");
    for index in 0..3 {
        let name = format!("entry{index}");
        let sum = literals.sum(&format!("context {name}"), &readable);
        let _ = writeln!(text, "  {name}: {sum}");
        readable.push(format!("context.{name}"));
    }
    let mut files = Vec::new();
    let targets = match shape {
        Shape::List => list(&mut literals, &mut text, &readable),
        Shape::Graph => graph(&mut literals, &mut text, &readable),
        Shape::ForEach => foreach(&mut literals, &mut text, &readable),
        Shape::Map => map(&mut literals, &mut text, &readable),
        Shape::Loop => loop_of_states(&mut literals, &mut text, &readable),
        Shape::Call => {
            let (targets, inner) = call(&mut literals, &mut text, &readable);
            files.push(("inner.yaml", inner));
            targets
        }
    };
    files.push(("main.yaml", text));
    Generated { files, targets, holders: literals.holders }
}

/// A few steps of which some leave objects.
fn value_steps(
    literals: &mut Literals,
    text: &mut String,
    readable: &mut Vec<String>,
    prefix: &str,
    count: u64,
    write: impl Fn(&mut String, &str, &str),
) -> Vec<String> {
    let mut targets = Vec::new();
    for index in 0..count {
        let id = format!("{prefix}{index}");
        let holder = format!("step {id}");
        if literals.random.percent(30) {
            let own = literals.number(&holder).to_string();
            let (x, y) = (literals.sum_of(&own, readable), literals.sum_of(&own, readable));
            write(text, &id, &format!("{{x: {x}, y: {y}}}"));
            readable.push(format!("{id}.result.x"));
            readable.push(format!("{id}.result.y"));
        } else {
            let sum = literals.sum(&holder, readable);
            write(text, &id, &sum);
            readable.push(id.clone());
        }
        targets.push(id);
    }
    targets
}

fn write_step(text: &mut String, id: &str, value: &str) {
    let _ = writeln!(text, "- {{id: {id}, value: {value}}}");
}

fn list(literals: &mut Literals, text: &mut String, readable: &[String]) -> Vec<String> {
    text.push_str("steps:\n");
    value_steps(literals, text, &mut readable.to_vec(), "s", 6, write_step)
}

fn graph(literals: &mut Literals, text: &mut String, readable: &[String]) -> Vec<String> {
    text.push_str("nodes:\n");
    let write = |text: &mut String, id: &str, value: &str| {
        let _ = writeln!(text, "  {id}: {{value: {value}}}");
    };
    value_steps(literals, text, &mut readable.to_vec(), "n", 6, write)
}

fn foreach(literals: &mut Literals, text: &mut String, readable: &[String]) -> Vec<String> {
    text.push_str("steps:\n");
    let mut readable = readable.to_vec();
    let mut targets = value_steps(literals, text, &mut readable, "s", 2, write_step);
    for index in 0..2 {
        let id = format!("each{index}");
        let first = literals.number(&format!("step {id}"));
        let list = if literals.random.percent(50) {
            let read = pick(&mut literals.random, &readable).unwrap();
            format!("[{first}, \"${{= {read} + {first} }}\"]")
        } else {
            format!("[{first}, {}]", first + 1000)
        };
        let inner = format!("inner{index}");
        let mut inside = readable.clone();
        let own = literals.number(&format!("step {inner}a"));
        let sum = literals.sum_of(&format!("item + {own}"), &inside);
        let _ = writeln!(text, "- id: {id}\n  foreach: {list}\n  do:");
        let _ = writeln!(text, "  - {{id: {inner}a, value: {sum}}}");
        inside.push(format!("{inner}a"));
        let own = literals.number(&format!("step {inner}b"));
        let sum = literals.sum_of(&format!("{inner}a + {own}"), &inside);
        let _ = writeln!(text, "  - {{id: {inner}b, value: {sum}}}");
        readable.push(format!("sum({id})"));
        readable.push(format!("{id}.result[1]"));
        targets.push(id);
    }
    targets.extend(value_steps(literals, text, &mut readable, "end", 3, write_step));
    targets
}

fn map(literals: &mut Literals, text: &mut String, readable: &[String]) -> Vec<String> {
    text.push_str("setup:\n  steps:\n");
    let mut inside = readable.to_vec();
    for index in 0..2 {
        let id = format!("set{index}");
        let sum = literals.sum(&format!("step {id}"), &inside);
        let _ = writeln!(text, "  - {{id: {id}, capture: var{index}, value: {sum}}}");
        inside.push(id);
    }
    // Which of two items is taken depends on whether this is odd.
    let odd = literals.number("step odd");
    let _ = writeln!(text, "  - {{id: odd, capture: parity, value: {odd}}}");
    let made = literals.sum_of("var0", &inside);
    let _ = writeln!(text, "  variables: {{made: {made}}}");
    let mut readable = readable.to_vec();
    readable.extend(["var0", "var1", "made"].map(|name| format!("setup.variables.{name}")));
    let first = literals.number("step map");
    let _ = writeln!(text, "map:\n  input: [{first}, {}]", first + 1001);
    text.push_str("  filter: (item + setup.variables.parity) % 2 == 0\n  steps:\n");
    let own = literals.number("step work");
    let sum = literals.sum_of(&format!("item + {own}"), &readable);
    let _ = writeln!(text, "  - {{id: work, value: {sum}}}");
    text.push_str("aggregates:\n  total: \"${map.results | sum('value')}\"\nreduce:\n");
    readable.extend(["aggregates.total", "map.results[0].value"].map(str::to_owned));
    let mut targets = vec!["set1".to_owned()];
    targets.extend(value_steps(literals, text, &mut readable, "end", 4, write_step));
    targets
}

fn loop_of_states(literals: &mut Literals, text: &mut String, readable: &[String]) -> Vec<String> {
    text.push_str("initial: s0\nmax_iterations: 2\nstates:\n");
    let mut readable = readable.to_vec();
    let mut targets = Vec::new();
    for index in 0..4 {
        let id = format!("s{index}");
        let mut sum = literals.number(&format!("step {id}")).to_string();
        if index > 0 {
            sum.push_str(" + prev.value");
        }
        if literals.random.percent(40) {
            let _ = write!(sum, " + default(captured.c{index}.previous.value, 0)");
        }
        let sum = literals.sum_of(&sum, &readable);
        let next = format!("s{}", index + 1);
        let _ = writeln!(text, "  {id}: {{value: {sum}, capture: c{index}, next: {next}}}");
        readable.push(format!("c{index}"));
        targets.push(id);
    }
    let sum = literals.sum("step s4", &readable);
    let _ = writeln!(text, "  s4: {{value: {sum}, capture: c4, next: again}}");
    text.push_str("  again: {evaluate: {expression: state.iteration >= 2}, on_yes: done, on_no: s0}\n");
    text.push_str("  done: {terminal: true}\n");
    targets.push("s4".to_owned());
    targets
}

fn call(literals: &mut Literals, text: &mut String, readable: &[String]) -> (Vec<String>, String) {
    text.push_str("steps:\n");
    let mut readable = readable.to_vec();
    let mut targets = value_steps(literals, text, &mut readable, "s", 3, write_step);
    let (with0, with1) = (literals.sum("input arg0", &readable), literals.sum("input arg1", &readable));
    let _ = writeln!(text, "- id: called\n  workflow: inner.yaml\n  with: {{arg0: {with0}, arg1: {with1}}}");
    let mut inner = "name: inner\ninputs: {arg0: {type: int}, arg1: {type: int}}\nsteps:\n".to_owned();
    let mut inside = vec!["inputs.arg0".to_owned(), "inputs.arg1".to_owned()];
    value_steps(literals, &mut inner, &mut inside, "deep", 4, write_step);
    let (one, two) =
        (pick(&mut literals.random, &inside).unwrap(), pick(&mut literals.random, &inside).unwrap());
    let _ = writeln!(inner, "exports: {{one: \"${{{one}}}\", two: \"${{{two}}}\"}}");
    readable.extend(["called.result.one", "called.result.two"].map(str::to_owned));
    targets.extend(value_steps(literals, text, &mut readable, "end", 3, write_step));
    (targets, inner)
}

/// The JSON that a command prints.
#[track_caller]
fn json(project: &Project, arguments: &[&str]) -> Value {
    let outcome = project.run(arguments, b"");
    assert_eq!(outcome.exit, 0, "{arguments:?}\n{}{}", outcome.stdout, outcome.stderr);
    data::json::read_value(&outcome.stdout, &Limits::DEFAULT).unwrap()
}

/// Runs a workflow, and gives the last values of its names.
fn values(project: &Project, generated: &Generated) -> BTreeMap<String, String> {
    for (name, text) in &generated.files {
        project.write(name, text.as_bytes());
    }
    let outcome = project.run(&["run", "main.yaml"], b"");
    let text = || shown(&generated.files);
    assert_eq!(outcome.exit, 0, "{}{}\n{}", outcome.stdout, outcome.stderr, text());
    let names = json(project, &["vars", "last", "--json"]);
    let names = names.get("names").unwrap().as_list().unwrap();
    let mut values = BTreeMap::new();
    for name in names {
        let label = name.get("step").and_then(Value::as_str).unwrap_or_default();
        values.insert(plain_label(label), name.get("value").unwrap().to_string());
    }
    values
}

/// The name of a step without its item or visit.
fn plain_label(label: &str) -> String {
    let label = label.trim();
    label.split(['[', '#']).next().unwrap_or_default().to_owned()
}

/// Who holds the literals that a value was made of, as `explain` says it.
fn claimed(project: &Project, target: &str) -> BTreeSet<String> {
    let chain = json(project, &["explain", "last", target, "--back", "--json"]);
    let text =
        |value: &Value, name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let links = chain.get("chain").and_then(Value::as_list).unwrap().iter();
    // What decided that a step ran is no part of its value.
    let links = links.filter(|link| text(link, "kind") == "value");
    let makers = links.map(|link| {
        let from = link.get("from").unwrap();
        match text(from, "kind").as_str() {
            "step" | "item" => format!("step {}", plain_label(&text(from, "step"))),
            kind @ ("input" | "context") => format!("{kind} {}", text(from, "name")),
            kind => kind.to_owned(),
        }
    });
    makers.collect()
}

#[track_caller]
fn check(shape: Shape, seed: u64) {
    let generated = generate(shape, seed, None);
    let before = Project::new();
    let first = values(&before, &generated);
    let mut changing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (index, holder) in generated.holders.iter().enumerate() {
        let after = values(&Project::new(), &generate(shape, seed, Some(index)));
        for target in &generated.targets {
            if after.get(target) != first.get(target) {
                changing.entry(target).or_default().insert(holder);
            }
        }
    }
    let holders: BTreeSet<&str> = generated.holders.iter().map(String::as_str).collect();
    for target in &generated.targets {
        let own = format!("step {target}");
        let claimed = claimed(&before, target);
        let claimed: BTreeSet<&str> = claimed
            .iter()
            .map(String::as_str)
            .filter(|maker| holders.contains(maker) && *maker != own)
            .collect();
        let mut expected = changing.remove(target.as_str()).unwrap_or_default();
        expected.remove(own.as_str());
        let text = shown(&generated.files);
        assert_eq!(claimed, expected, "{shape:?}, seed {seed}: what `{target}` was made of\n{text}");
    }
}

fn check_shape(shape: Shape) {
    let first = seed();
    for seed in first..first + if is_long() { 40 } else { 1 } {
        check(shape, seed);
    }
}

#[test]
fn a_list_of_steps() {
    check_shape(Shape::List);
}

#[test]
fn a_graph() {
    check_shape(Shape::Graph);
}

#[test]
fn items_of_foreach() {
    check_shape(Shape::ForEach);
}

#[test]
fn a_map() {
    check_shape(Shape::Map);
}

#[test]
fn a_loop() {
    check_shape(Shape::Loop);
}

#[test]
fn a_called_workflow() {
    check_shape(Shape::Call);
}

/// Files as a report shows them.
fn shown(files: &[(&'static str, String)]) -> String {
    files.iter().fold(String::new(), |text, (name, content)| text + "# " + name + "\n" + content)
}
