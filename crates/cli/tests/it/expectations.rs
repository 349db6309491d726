//! The expectations among the cases are all that can be written: every field, operator, key and root of the table is
//! used by one. And what they are is what the published schemas say.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::support::case::{self, Case};
use crate::support::{Outcome, Project};
use threadline_expect::table::{
    self, CHECKS, ExpectationKey, FIELDS, FILE, FieldTakes, LOGIC, OPERATORS, OPTIONS, ROOTS, Takes,
};
use threadline_expect::{LoadContext, load};
use threadline_lang::source::{SourceFile, TreeNode};
use threadline_lang::value::JsonStyle;
use threadline_lang::{Limits, PathStep, Value, data, parse_path};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn cases() -> Vec<Case> {
    case::all(&folder("tests/cases/expectations"))
}

/// The files of expectations that the commands of a case read; each names its own first.
fn files(case: &Case) -> Vec<SourceFile> {
    let names: BTreeSet<&str> = case
        .commands
        .iter()
        .filter_map(|line| line.strip_prefix("threadline expect ")?.split(' ').next())
        .collect();
    names.into_iter().map(|name| source(name, &case.file(name).expect("a file of the case"))).collect()
}

fn source(name: &str, text: &[u8]) -> SourceFile {
    let is_json = Path::new(name).extension().is_some_and(|extension| extension == "json");
    let format = if is_json { data::DataFormat::Json } else { data::DataFormat::Yaml };
    SourceFile::with_format(name, &String::from_utf8_lossy(text), format)
}

#[test]
fn every_key_of_the_table_is_used() {
    let mut used = Used::default();
    for case in cases() {
        for file in files(&case) {
            let tree = file.read_tree(&Limits::DEFAULT).expect("a file that can be read");
            used.begin(&case.name());
            used.file(&tree);
        }
    }
    let (table, unused) = used.table();
    println!("{table}");
    assert!(unused.is_empty(), "no case uses {}", unused.join(", "));
}

#[test]
fn every_case_is_met_and_not_met() {
    let cases = cases();
    assert!(cases.len() >= 60, "{} cases", cases.len());
    for case in &cases {
        let codes = case.file("exit").unwrap_or_default();
        assert_eq!(String::from_utf8_lossy(&codes), "0 1\n", "{}", case.name());
    }
    println!("{} cases, each with an answer that meets it and one that does not", cases.len());
}

// ---- what is used ---------------------------------------------------------------------------------------

/// The cases that use each key, by what sort of key it is.
#[derive(Default)]
struct Used {
    case: String,
    facts: Vec<String>,
    /// Whether the file lets unknown keys through.
    lenient: bool,
    by: BTreeMap<(Sort, String), BTreeSet<String>>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Sort {
    File,
    Logic,
    Check,
    Option,
    Field,
    Root,
    Operator,
    Folded,
    Negated,
}

impl Used {
    fn begin(&mut self, case: &str) {
        case.clone_into(&mut self.case);
        self.facts.clear();
        self.lenient = false;
    }

    fn add(&mut self, sort: Sort, name: &str) {
        self.by.entry((sort, name.to_owned())).or_default().insert(self.case.clone());
    }

    fn count(&self, sort: Sort, name: &str) -> usize {
        self.by.get(&(sort, name.to_owned())).map_or(0, BTreeSet::len)
    }

    fn file(&mut self, tree: &TreeNode) {
        let Some(expectations) = tree.get("expectations") else { return self.members(tree) };
        for (key, entry) in tree.entries() {
            self.add(Sort::File, key);
            self.lenient |= key == "unknown" && entry.node.value.as_str() == Some("warn");
            if key == "facts" {
                self.facts.extend(entry.node.entries().map(|(name, _)| name.to_owned()));
                self.facts.extend(
                    entry.node.items().iter().filter_map(|item| item.value.as_str()).map(str::to_owned),
                );
            }
        }
        match expectations.value.as_object() {
            Some(_) => expectations.entries().for_each(|(_, entry)| self.expectation(&entry.node)),
            None => self.members(expectations),
        }
    }

    fn members(&mut self, node: &TreeNode) {
        match node.value.as_list() {
            Some(_) => node.items().iter().for_each(|item| self.expectation(item)),
            None => self.expectation(node),
        }
    }

    fn expectation(&mut self, node: &TreeNode) {
        for (key, entry) in node.entries() {
            let inner = &entry.node;
            let is = |keys: &[ExpectationKey]| keys.iter().any(|known| known.name == key);
            if is(LOGIC) {
                self.add(Sort::Logic, key);
                self.members(inner);
            } else if is(CHECKS) {
                self.add(Sort::Check, key);
            } else if is(OPTIONS) {
                self.add(Sort::Option, key);
            } else if let Some(field) = table::field(key) {
                self.add(Sort::Field, key);
                match field.takes {
                    FieldTakes::Check => self.check(inner),
                    FieldTakes::Params => inner.entries().for_each(|(_, entry)| self.check(&entry.node)),
                    FieldTakes::Words | FieldTakes::Bool | FieldTakes::Text => {}
                }
            } else {
                self.path(key);
                self.check(inner);
            }
        }
    }

    fn path(&mut self, key: &str) {
        let first = parse_path(key).ok().and_then(|steps| steps.into_iter().next());
        let Some(root) = first.as_ref().and_then(PathStep::name) else {
            panic!("{}: `{key}` is no path", self.case)
        };
        let is_fact = key.starts_with("context") || self.facts.iter().any(|fact| fact == key);
        match table::root(root) {
            Some(root) => self.add(Sort::Root, root.name),
            None if is_fact => self.add(Sort::Root, "facts"),
            None => assert!(self.lenient, "{}: `{key}` is not known", self.case),
        }
    }

    fn check(&mut self, node: &TreeNode) {
        for (key, entry) in node.entries() {
            let inner = &entry.node;
            if let Some(named) = table::named(key) {
                let operator = named.operator;
                let sort = if named.fold { Sort::Folded } else { Sort::Operator };
                if key.starts_with("not-") {
                    self.add(Sort::Negated, operator.name);
                } else {
                    self.add(sort, operator.name);
                }
                match operator.takes {
                    Takes::Check => self.check(inner),
                    Takes::Count => inner.get("of").into_iter().for_each(|of| self.check(of)),
                    _ => {}
                }
                continue;
            }
            if LOGIC.iter().any(|known| known.name == key) {
                self.add(Sort::Logic, key);
            }
            inner.items().iter().for_each(|item| self.check(item));
            self.check(inner);
        }
    }

    /// How many cases use each key, and the keys that none uses.
    fn table(&self) -> (String, Vec<String>) {
        let mut table = String::from("| | key | cases | `i` form | `not-` form |\n|---|---|---|---|---|\n");
        let mut unused = Vec::new();
        let mut count = |sort: Sort, name: &str, shown: &str| {
            let count = self.count(sort, name);
            if count == 0 {
                unused.push(format!("`{shown}`"));
            }
            count.to_string()
        };
        let mut rows = Vec::new();
        let keys =
            [("file", Sort::File, FILE), ("logic", Sort::Logic, LOGIC), ("check", Sort::Check, CHECKS)];
        for (of, sort, keys) in keys.into_iter().chain([("option", Sort::Option, OPTIONS)]) {
            rows.extend(keys.iter().map(|key| (of, sort, key.name)));
        }
        rows.extend(FIELDS.iter().map(|field| ("field", Sort::Field, field.name)));
        rows.extend(ROOTS.iter().map(|root| ("root", Sort::Root, root.name)));
        for (of, sort, name) in rows {
            writeln!(table, "| {of} | `{name}` | {} | | |", count(sort, name, name)).expect("a text");
        }
        for operator in OPERATORS {
            let name = operator.name;
            let cases = count(Sort::Operator, name, name);
            let folded = table::folded_name(name);
            let folded = if operator.folds { count(Sort::Folded, name, &folded) } else { String::new() };
            // A name that is a negation already needs no second one.
            let negated = format!("not-{name}");
            let negated = if operator.negated { String::new() } else { count(Sort::Negated, name, &negated) };
            writeln!(table, "| operator | `{name}` | {cases} | {folded} | {negated} |").expect("a text");
        }
        (table, unused)
    }
}

// ---- schemas --------------------------------------------------------------------------------------------

/// The schema that `threadline schema KIND` prints.
fn schema(kind: &str) -> jsonschema::Validator {
    let Outcome { stdout, .. } = Project::new().run(&["schema", kind], b"");
    let schema = serde_json::from_str(&stdout).expect("a schema is JSON");
    jsonschema::validator_for(&schema).expect("a schema is one")
}

fn json(value: &Value) -> serde_json::Value {
    serde_json::from_str(&value.to_json(JsonStyle::Compact)).expect("a value is written as JSON")
}

fn yaml(text: &str) -> serde_json::Value {
    json(&source("e.yaml", text.as_bytes()).read_value(&Limits::DEFAULT).expect("YAML"))
}

#[test]
fn every_case_is_valid_by_the_schema() {
    let schema = schema("expectations");
    for case in cases() {
        // What is let through on request is still not in the schema.
        let lenient = ["files/lenient.case", "files/nothing_known.case"];
        let lenient = lenient.iter().any(|name| case.name().ends_with(name));
        for file in files(&case) {
            let value = json(&file.read_value(&Limits::DEFAULT).expect("a file that can be read"));
            let unknown = lenient && value.get("unknown").is_some();
            assert_eq!(schema.is_valid(&value), !unknown, "{} {}", case.name(), file.name());
        }
    }
}

#[test]
fn what_the_loader_refuses_the_schema_refuses_too() {
    let schema = schema("expectations");
    for text in [
        "shouldContian: hello",
        "responseTyp: text",
        "expectedAmount: {gte: 1, lessThan: 5}",
        "expectedAmount: {greaterThan: 5}",
        "value: {a: {$gt: 5}}",
        "value: {a: {not-equals: 5}}",
        "value.a: {gte: 1, b: 2}",
        "and: [{shouldContain: a}]",
        "all: []",
        "all: {shouldContain: a}",
        "shouldReject: 'yes'",
        "shouldContain: {a: b}",
        "value.a: {atLeast: {count: 2}}",
        "value.a: {approx: {value: 2, tolerance: 1, unit: m}}",
        "value.a: {exists: 1}",
        "any: [{not: {shouldContian: hello}}]",
        "expectations: {a: {shouldContian: hello}}",
        "{expectations: {a: {shouldContain: hello}}, distict: true}",
        "{expectations: {a: {shouldContain: hello}}, unknown: ignore}",
        "[{shouldContain: a}, 5]",
    ] {
        let (expectations, problems) = load(&source("e.yaml", text.as_bytes()), &LoadContext::DEFAULT);
        assert!(expectations.is_none() && !problems.is_empty(), "the loader takes `{text}`");
        assert!(!schema.is_valid(&yaml(text)), "the schema takes `{text}`");
    }
}

/// What the commands of a case say, for programs.
fn answers(case: &Case) -> Vec<serde_json::Value> {
    let project = case.project();
    let answer = |line: &String| {
        let words =
            line.split(' ').filter(|word| !matches!(*word, "--explain" | "--format" | "json" | "junit"));
        let line = words.collect::<Vec<_>>().join(" ").replace("--actual", "--format json --actual");
        let Outcome { stdout, stderr, exit } = project.run_line(&line);
        assert!(matches!(exit, 0 | 1), "{}: exit {exit}: {stderr}", case.name());
        serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{}: {error}", case.name()))
    };
    case.commands.iter().map(answer).collect()
}

#[test]
fn answers_are_valid_by_their_schema() {
    let schema = schema("outcomes");
    for case in cases() {
        for answer in answers(&case) {
            if let Err(error) = schema.validate(&answer) {
                panic!("{}: {error}", case.name());
            }
        }
    }
}

/// A key that stands somewhere is not yet one that decided something.
#[test]
fn every_field_and_operator_is_met_once_and_unmet_once() {
    let mut seen: BTreeSet<(String, String)> = BTreeSet::new();
    let mut open: Vec<serde_json::Value> = cases().iter().flat_map(answers).collect();
    while let Some(value) = open.pop() {
        match value {
            serde_json::Value::Array(items) => open.extend(items),
            serde_json::Value::Object(mut line) => {
                open.extend(line.remove("tree"));
                open.extend(line.remove("children"));
                let text = |key: &str| line.get(key).and_then(serde_json::Value::as_str).unwrap_or_default();
                // A line about one step of the plan has the names of all its fields.
                seen.extend(
                    text("operator").split(", ").map(|name| (name.to_owned(), text("result").to_owned())),
                );
            }
            _ => {}
        }
    }
    // What checks the length has a line, the length itself has none.
    let operators = table::operator_names().filter(|name| name != "length");
    let fields = FIELDS.iter().map(|field| field.name.to_owned());
    let wanted =
        operators.chain(fields).chain(["all", "any", "not", "when", "expr", "judge"].map(str::to_owned));
    let missing: Vec<String> = wanted
        .flat_map(|name| ["met", "unmet"].map(|result| (name.clone(), result.to_owned())))
        .filter(|wanted| !seen.contains(wanted))
        .map(|(name, result)| format!("`{name}` {result}"))
        .collect();
    assert!(missing.is_empty(), "no line of a case is {}", missing.join(", "));
}

// ---- templates ------------------------------------------------------------------------------------------

/// A template is valid, and there is a case of the same name that shows what meets it.
#[test]
fn templates_are_valid_and_can_be_met() {
    let entries = std::fs::read_dir(folder("templates/expectations")).expect("the folder of templates");
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    let (schema, cases) = (schema("expectations"), cases());
    for path in paths {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("a template");
        let (expectations, problems) = load(&source(&name, text.as_bytes()), &LoadContext::DEFAULT);
        assert!(expectations.is_some() && problems.is_empty(), "{name}: {problems:?}");
        assert!(schema.is_valid(&yaml(&text)), "{name} is not valid by the schema");
        assert!(
            text.starts_with("# ") && text.contains(&format!("threadline expect {name} --actual ")),
            "{name}"
        );
        let shown = cases.iter().find(|case| case.file(&name).is_some());
        let shown = shown.unwrap_or_else(|| panic!("no case shows {name}"));
        assert_eq!(shown.file(&name), Some(text.into_bytes()), "{} shows another {name}", shown.name());
    }
}
