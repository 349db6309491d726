//! What `explain` says is what the steps received.
//!
//! Every `explain/NAME.yaml` is run as `explain/NAME.references` says, and every reference of every evaluation of the
//! run must stand there: nothing may be left out. The format:
//!
//! ```text
//! $ 0 run NAME.yaml --input who=Ana           the exit code and a command; -2 is a signal
//! STEP[@ATTEMPT]  FIELD  REFERENCE  TYPE  MAKER  RECEIVED
//! = STEP[@ATTEMPT] FIELD RECEIVED             what a whole field came to
//! ```
//!
//! Columns are two spaces apart. MAKER is `step:LABEL`, `item:INDEX:LABEL`, `input:NAME`, `context:NAME`,
//! `computed:KIND`, `run` or `nobody`. RECEIVED is a file that the step wrote, `out/file#3` the third of the texts in
//! it that end with NUL, `=text` a text, `=?` whatever it was. A line without an attempt is about all of them.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::support::{self, Project};
use threadline_engine::event::Address;
use threadline_lang::{Limits, Value, data};

/// A reference, as `explain` tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Told {
    step: String,
    attempt: i64,
    field: String,
    reference: String,
    kind: String,
    maker: String,
    value: String,
}

/// A whole field, as `explain` tells it.
struct Field {
    step: String,
    attempt: i64,
    name: String,
    value: Value,
}

/// A line of an expectation, in words.
struct Line<'a> {
    step: &'a str,
    attempt: Option<i64>,
    field: &'a str,
    rest: Vec<&'a str>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/explain")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_reference_is_told_as_it_was_received() {
    let entries = std::fs::read_dir(folder()).expect("the folder of workflows");
    let mut cases: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    cases.retain(|path| path.extension().is_some_and(|extension| extension == "references"));
    cases.sort();
    assert!(cases.len() >= 12, "only {} workflows", cases.len());
    let failures: Vec<String> = cases.iter().flat_map(|case| check(case)).collect();
    support::report(&failures, cases.len());
}

fn check(case: &Path) -> Vec<String> {
    let name = case.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let project = project();
    let text = read(case);
    let mut failures = Vec::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("$ ")) {
        let (exit, command) = line.split_once(' ').expect("an exit code and a command");
        let outcome = project.run_line(&format!("threadline {command}"));
        if outcome.exit.to_string() != exit {
            let (stdout, stderr) = (outcome.stdout, outcome.stderr);
            return vec![format!("{name}: `{command}` ended with {}\n{stdout}{stderr}", outcome.exit)];
        }
    }
    assert!(project.read("out/attacked").is_none(), "{name}: a value was run");
    let (told, fields) = explained(&project, &mut failures);
    let mut covered = vec![false; told.len()];
    for line in text.lines().filter(|line| !line.starts_with("$ ") && !line.is_empty()) {
        let failed = match line.strip_prefix("= ") {
            Some(line) => check_field(&project, &fields, line),
            None => check_reference(&project, &told, &mut covered, line),
        };
        failures.extend(failed.map(|why| format!("{name}: {line}\n  {why}\n")));
    }
    let left_out = told.iter().zip(covered).filter(|(_, covered)| !covered);
    failures.extend(left_out.map(|(told, _)| format!("{name}: nothing is expected of {told:?}\n")));
    failures
}

fn project() -> Project {
    let project = Project::new();
    for entry in std::fs::read_dir(folder()).expect("the folder of workflows").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        project.write(&name, read(&entry.path()).as_bytes());
        if !name.contains('.') {
            let path = project.path().join(&name);
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("a script");
        }
    }
    std::fs::create_dir(project.path().join("out")).expect("a folder");
    project
}

fn json(text: &str) -> Value {
    data::json::read_value(text, &Limits::DEFAULT).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_else(|| panic!("`{key}` is no text in {value}"))
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value.get(key).and_then(Value::as_list).unwrap_or_else(|| panic!("`{key}` is no list in {value}"))
}

/// Everything that is told of every execution of the last run.
fn explained(project: &Project, failures: &mut Vec<String>) -> (Vec<Told>, Vec<Field>) {
    let events = project.run(&["show", "last", "--json"], b"");
    assert_eq!(events.exit, 0, "{}", events.stderr);
    let mut places: Vec<String> = Vec::new();
    for event in events.stdout.lines().map(json) {
        let place = event.get("at").and_then(Value::as_str).unwrap_or_default();
        // An item is no execution of a step.
        let is_step = !place.is_empty() && !place.ends_with(']');
        if is_step && !places.iter().any(|known| known == place) {
            places.push(place.to_owned());
        }
    }
    let (mut told, mut fields) = (Vec::new(), Vec::new());
    for place in places {
        let outcome = project.run(&["explain", "last", &place, "--json"], b"");
        assert_eq!(outcome.exit, 0, "{place}: {}{}", outcome.stdout, outcome.stderr);
        for evaluation in list(&json(&outcome.stdout), "evaluations") {
            assert_eq!(text(evaluation, "at"), place);
            let reproducible = evaluation.get("reproducible").cloned().unwrap_or_default();
            if reproducible == Value::from(false) {
                failures.push(format!("`{place}` is not reproducible: {evaluation}\n"));
            }
            tell(evaluation, &mut told, &mut fields);
        }
    }
    (told, fields)
}

fn tell(evaluation: &Value, told: &mut Vec<Told>, fields: &mut Vec<Field>) {
    let step = format!("{}{}", text(evaluation, "step"), items(text(evaluation, "at")));
    let attempt = evaluation.get("attempt").and_then(Value::as_i64).unwrap_or(0);
    for field in list(evaluation, "fields") {
        let name = text(field, "field").to_owned();
        for reference in list(field, "references") {
            let kind = reference.get("type").and_then(Value::as_str).unwrap_or("none").to_owned();
            let one = Told {
                step: step.clone(),
                attempt,
                field: name.clone(),
                reference: text(reference, "reference").to_owned(),
                kind,
                maker: maker(reference.get("maker").expect("a maker")),
                value: reference.get("value").expect("a value").to_string(),
            };
            if !told.contains(&one) {
                told.push(one);
            }
        }
        let value = field.get("value").cloned().unwrap_or_default();
        fields.push(Field { step: step.clone(), attempt, name, value });
    }
}

/// The items of an execution: `[1]` of `3[1]/2`.
fn items(at: &str) -> String {
    Address::parse(at).expect("an address").item_suffix()
}

fn maker(maker: &Value) -> String {
    let name = |key: &str| maker.get(key).map_or(String::new(), Value::to_string);
    match text(maker, "kind") {
        "step" => format!("step:{}", name("step")),
        "item" => {
            let list = maker.get("list").expect("the list of an item");
            format!("item:{}:{}", name("index"), text(list, "step"))
        }
        "input" => format!("input:{}", name("name")),
        "context" => format!("context:{}", name("name")),
        "computed" => format!("computed:{}", name("by")),
        other => other.to_owned(),
    }
}

fn words<'l>(line: &'l str, between: &str) -> Line<'l> {
    let mut words = line.split(between).map(str::trim).filter(|word| !word.is_empty());
    let step = words.next().expect("a step");
    let (step, attempt) = match step.split_once('@') {
        Some((step, attempt)) => (step, Some(attempt.parse().expect("the number of an attempt"))),
        None => (step, None),
    };
    let field = words.next().expect("a field");
    Line { step, attempt, field, rest: words.collect() }
}

fn check_reference(project: &Project, told: &[Told], covered: &mut [bool], line: &str) -> Option<String> {
    let Line { step, attempt, field, rest } = words(line, "  ");
    let [reference, kind, maker, received] = rest[..] else { return Some("six columns".to_owned()) };
    let mut found = false;
    for (one, covered) in told.iter().zip(covered) {
        let meant = one.step == step && one.field == field && one.reference == reference;
        if !meant || attempt.is_some_and(|attempt| attempt != one.attempt) {
            continue;
        }
        (found, *covered) = (true, true);
        let received = received_text(project, received);
        if one.kind != kind || one.maker != maker || received.is_some_and(|text| text != one.value) {
            return Some(format!("it is told as {one:?}"));
        }
    }
    (!found).then(|| format!("it is not told; there are {told:#?}"))
}

fn check_field(project: &Project, fields: &[Field], line: &str) -> Option<String> {
    let (head, received) = match line.split_once(" =") {
        Some((head, _)) => (head, &line[head.len() + 1..]),
        None => line.rsplit_once(' ').expect("a step, a field and what it received"),
    };
    let Line { step, attempt, field, .. } = words(head, " ");
    let mut found = false;
    for one in fields.iter().filter(|one| one.step == step && one.name == field) {
        if attempt.is_some_and(|attempt| attempt != one.attempt) {
            continue;
        }
        found = true;
        let expected = received_text(project, received).unwrap_or_default();
        let actual = match one.value.as_list() {
            // A command: what its program received, behind its name and the file it writes to.
            Some(words) if !received.starts_with('=') => {
                words.iter().skip(2).fold(String::new(), |text, word| text + &word.to_string() + "\0")
            }
            _ => one.value.to_string(),
        };
        if expected != actual {
            return Some(format!("told {actual:?}, received {expected:?}"));
        }
    }
    (!found).then(|| "there is no such field".to_owned())
}

/// What a step received; nothing when that is not asked.
fn received_text(project: &Project, received: &str) -> Option<String> {
    if let Some(text) = received.strip_prefix('=') {
        return (text != "?").then(|| text.to_owned());
    }
    let (file, at) = match received.split_once('#') {
        Some((file, at)) => (file, Some(at.parse::<usize>().expect("a number"))),
        None => (received, None),
    };
    let content = project.read(file).unwrap_or_else(|| panic!("{file} was not written"));
    Some(match at {
        Some(at) => content.split('\0').nth(at - 1).unwrap_or("(nothing)").to_owned(),
        None => content,
    })
}
