//! Workflows of step lists and of phases, made of a seed: every key that changes what runs when, nested.

use std::fmt::Write;

use threadline_engine::random::Random;

/// How large and how wild a workflow may be.
#[derive(Clone, Copy)]
pub(crate) struct Style {
    /// About so many steps.
    pub(crate) steps: u64,
    /// Whether `on_crash` is something else than `rerun`.
    pub(crate) on_crash: bool,
    /// What becomes of items that fail.
    pub(crate) policies: Policies,
    /// Whether it is a map-reduce.
    pub(crate) phases: bool,
}

/// What becomes of items that fail.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Policies {
    /// The first one ends its list.
    Strict,
    /// They are tried again, let fail, or end their list.
    Any,
    /// They are let fail.
    Lenient,
}

/// The text of a workflow.
pub(crate) fn workflow(seed: u64, style: Style) -> String {
    let mut random = Random::new(seed);
    let left = 2 + random.below(style.steps);
    let mut generator = Generator { random, style, text: String::new(), left, next: 1 };
    generator.text.push_str("inputs: {go: {type: bool, default: true}, list: {type: list, default: [1]}}\n");
    generator.text.push_str("agents:\n  helper: {command: [help]}\n");
    generator.text.push_str(
        "  caller: {provider: openai, base_url: 'http://localhost', model: m, tools: [files, read_file]}\n",
    );
    generator.text.push_str("servers: {files: {command: [serve]}}\n");
    if style.phases {
        generator.phases();
    } else {
        generator.text.push_str("steps:\n");
        generator.list(1, &mut Names::default(), 0);
    }
    for (part, percent) in [("finally", 40), ("on_failure", 50), ("on_success", 40)] {
        if generator.random.percent(percent) {
            generator.text.push_str(part);
            generator.text.push_str(":\n");
            generator.left = generator.left.max(4);
            // Any step may not have run by then.
            generator.list(1, &mut Names { outcome: true, ..Names::default() }, 0);
        }
    }
    generator.text
}

/// The names that a step may read.
#[derive(Default, Clone)]
struct Names {
    ids: Vec<String>,
    captures: Vec<String>,
    /// In how many `foreach` it stands.
    items: u64,
    /// Whether there is a step before for sure.
    prev: bool,
    /// What of the phases can be read.
    phases: Vec<&'static str>,
    /// Whether the outcome of the run is known.
    outcome: bool,
}

struct Generator {
    random: Random,
    style: Style,
    text: String,
    /// So many more steps.
    left: u64,
    next: u64,
}

const CAPTURES: [&str; 3] = ["one", "two", "three"];

impl Generator {
    fn phases(&mut self) {
        let mut names = Names::default();
        if self.random.percent(70) {
            self.phase("setup", &mut names);
            names.phases.push("setup.output");
        }
        self.line(0, "map:");
        self.line(1, "input: ${inputs.list}");
        if self.random.percent(70) {
            let parallel = 1 + self.random.below(4);
            self.line(1, &format!("max_parallel: {parallel}"));
        }
        if self.random.percent(if self.style.policies == Policies::Lenient { 20 } else { 60 }) {
            let attempts = 2 + self.random.below(2);
            let delay = self.delay();
            self.line(1, &format!("retry: {{attempts: {attempts}, delay: {delay}, backoff: exponential}}"));
        }
        if self.random.percent(25) {
            self.line(1, "worktree: true");
        }
        self.line(1, "agent_template:");
        let mut inner = Names { items: 1, ..names.clone() };
        inner.phases.push("map.total");
        self.left = self.left.max(3);
        self.list(2, &mut inner, 1);
        self.policy(0);
        names.phases.push("map.successful");
        if self.random.percent(80) {
            self.phase("reduce", &mut names);
            names.phases.push("reduce.output");
        }
        if self.random.percent(50) {
            self.phase("merge", &mut names);
        }
    }

    /// A phase, short or with names that go on.
    fn phase(&mut self, phase: &str, names: &mut Names) {
        self.line(0, &format!("{phase}:"));
        self.left = self.left.max(2);
        let mut inner = Names { prev: false, ..names.clone() };
        let first = self.next;
        if self.random.percent(50) {
            return self.list(1, &mut inner, 0);
        }
        self.line(1, "steps:");
        self.list(2, &mut inner, 0);
        if self.random.percent(80) {
            let exported = format!("s{first}");
            self.line(1, &format!("exports: [{exported}]"));
            names.ids.push(exported);
        }
    }

    /// What becomes of items that fail.
    fn policy(&mut self, indent: usize) {
        if self.style.policies == Policies::Lenient {
            return self.line(indent, "error_policy: {continue_on_failure: true, max_failures: 4}");
        }
        if self.random.percent(20) {
            return;
        }
        let failure = ["skip", "stop", "retry"][usize::try_from(self.random.below(3)).unwrap_or(0)];
        let mut policy = format!("on_item_failure: {failure}");
        if failure != "stop" && self.random.percent(70) {
            policy.push_str(", continue_on_failure: true");
        }
        if self.random.percent(30) {
            let _ = write!(policy, ", max_failures: {}", self.random.below(3));
        }
        self.line(indent, &format!("error_policy: {{{policy}}}"));
    }

    fn delay(&mut self) -> &'static str {
        ["0s", "1s", "1h"][usize::try_from(self.random.below(3)).unwrap_or(0)]
    }

    fn list(&mut self, indent: usize, names: &mut Names, depth: u64) {
        let length = 1 + self.random.below(3 + 2 * u64::from(depth == 0));
        for _ in 0..length {
            self.step(indent, names, depth);
            if self.left == 0 {
                return;
            }
        }
    }

    fn step(&mut self, indent: usize, names: &mut Names, depth: u64) {
        self.left = self.left.saturating_sub(1);
        let id = format!("s{}", self.next);
        self.next += 1;
        self.line(indent, &format!("- id: {id}"));
        let indent = indent + 1;
        let conditional = self.random.percent(30);
        if conditional {
            let condition = match names.ids.first() {
                Some(id) if self.random.percent(50) => format!("'${{{id}}} != 3'"),
                _ => "inputs.go".to_owned(),
            };
            self.line(indent, &format!("when: {condition}"));
        }
        let capture = CAPTURES[usize::try_from(self.random.below(3)).unwrap_or(0)];
        // An inner name would hide an outer one before it is set.
        let capture = self.random.percent(30).then(|| format!("{capture}{}", names.items));
        if let Some(capture) = &capture {
            self.line(indent, &format!("capture: {capture}"));
        }
        if self.random.percent(25) {
            self.line(indent, "continue_on_error: true");
        }
        let nests = depth < 3 && self.left > 0;
        if nests && self.random.percent(30) {
            self.for_each(indent, names, depth);
        } else {
            self.action(indent, names);
        }
        names.ids.push(id);
        names.captures.extend(capture);
        // A step that is skipped is not the one before.
        names.prev |= !conditional;
        for part in ["on_failure", "on_success", "finally"] {
            if depth < 3 && self.left > 0 && self.random.percent(15) {
                self.line(indent, &format!("{part}:"));
                self.list(indent + 1, &mut names.clone(), depth + 1);
            }
        }
    }

    fn for_each(&mut self, indent: usize, names: &Names, depth: u64) {
        self.line(indent, "foreach: ${inputs.list}");
        if self.random.percent(60) {
            let parallel = 1 + self.random.below(4);
            self.line(indent, &format!("parallel: {parallel}"));
        }
        if self.style.policies != Policies::Strict && self.random.percent(60) {
            self.policy(indent);
        }
        self.line(indent, "do:");
        let mut inner = Names { items: names.items + 1, prev: false, ..names.clone() };
        self.list(indent + 1, &mut inner, depth + 1);
    }

    fn action(&mut self, indent: usize, names: &Names) {
        let read = self.read(names);
        match self.random.below(5) {
            0 => return self.line(indent, &format!("value: '{read}'")),
            1 => self.line(indent, &format!("write_file: {{path: out, content: 'x {read}'}}")),
            2 => {
                let read = read.replace("} ", " | to_json} ");
                // Bits that decide nothing else.
                let bits = self.random.clone().number() / 700;
                let agent = if (bits / 2).is_multiple_of(2) { "helper" } else { "caller" };
                self.line(indent, &format!("agent: {agent}\n{:1$}message: 'x {read}'", "", 2 * indent));
                if bits.is_multiple_of(2) {
                    self.line(indent, "output: int");
                }
                // Whatever is not in items goes on one after the other.
                if names.items == 0 && (bits / 4).is_multiple_of(2) {
                    self.line(indent, "thread: talk");
                }
                if agent == "caller" && !self.style.on_crash {
                    self.line(indent, "on_crash: rerun");
                }
            }
            _ => {
                // A list has to say how it becomes an argument.
                let read = read.replace("} ", " | to_json} ");
                self.line(indent, &format!("argv: [work, '{read}']"));
            }
        }
        if self.random.percent(30) {
            let attempts = 2 + self.random.below(2);
            let delay = self.delay();
            let conditions = ["", "", "", ", on: [Signal]", ", on: [Timeout, File]", ", not_on: Signal"];
            // Bits that decide nothing else.
            let bits = self.random.clone().number() / 100 % 6;
            let conditions = conditions[usize::try_from(bits).unwrap_or(0)];
            self.line(
                indent,
                &format!("retry: {{attempts: {attempts}, delay: {delay}, backoff: exponential{conditions}}}"),
            );
        }
        if self.style.on_crash && self.random.percent(50) {
            let on_crash = ["rerun", "fail", "ask"][usize::try_from(self.random.below(3)).unwrap_or(0)];
            self.line(indent, &format!("on_crash: {on_crash}"));
        }
    }

    /// A text that reads something.
    fn read(&mut self, names: &Names) -> String {
        let mut text = String::new();
        for id in &names.ids {
            if self.random.percent(25) {
                let _ = write!(text, "${{{id}}} ");
            }
        }
        if names.items > 0 && self.random.percent(70) {
            text.push_str("${item} ");
        }
        for phase in &names.phases {
            if self.random.percent(40) {
                let _ = write!(text, "${{{phase}}} ");
            }
        }
        if names.outcome && self.random.percent(40) {
            text.push_str("${run.status} ${run.failed} ");
        }
        if names.prev && self.random.percent(30) {
            text.push_str("${prev} ");
        }
        if let Some(capture) = names.captures.last().filter(|_| self.random.percent(50)) {
            let _ = write!(text, "${{captured.{capture} | default(0)}} ");
        }
        text
    }

    fn line(&mut self, indent: usize, line: &str) {
        // Writing into a text cannot fail.
        let _ = writeln!(self.text, "{:1$}{line}", "", 2 * indent);
    }
}
