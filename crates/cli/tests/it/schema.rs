//! What `threadline schema workflow` prints says of workflow files what the loader says: it takes every sound one, and
//! refuses what a table of keys can refuse.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::support::{self, Project, case};
use threadline_flow::files::{self, Unread};
use threadline_flow::load::load;
use threadline_flow::model::Shape;
use threadline_flow::problem::Problem;
use threadline_lang::source::SourceFile;
use threadline_lang::value::JsonStyle;
use threadline_lang::{Limits, data};

fn schema() -> jsonschema::Validator {
    let printed = Project::new().run(&["schema", "workflow"], b"").stdout;
    let schema = serde_json::from_str(&printed).expect("a schema is JSON");
    jsonschema::validator_for(&schema).expect("a schema is one")
}

fn source(name: &str, text: &str) -> SourceFile {
    SourceFile::with_format(name, text, data::DataFormat::Yaml)
}

/// A text as a program sees it that knows no workflows.
fn yaml(text: &str) -> serde_json::Value {
    let value = source("workflow.yaml", text).read_value(&Limits::DEFAULT).expect("YAML");
    serde_json::from_str(&value.to_json(JsonStyle::Compact)).expect("a value is written as JSON")
}

/// Whether one of several files is a sound workflow, and whether a loop.
fn sound(name: &str, texts: &BTreeMap<String, String>) -> Option<bool> {
    let read = |name: &str| {
        let missing = || Unread { message: format!("no {name}"), hint: None, nearest: None };
        let user = (name == files::USER_AGENTS).then(files::no_user_agents);
        texts.get(name).map(|text| source(name, text)).or(user).ok_or_else(missing)
    };
    let (workflow, problems) = load(files::assemble(source(name, &texts[name]), &read));
    let workflow = workflow.filter(|_| !problems.iter().any(Problem::is_error))?;
    let is_loop = matches!(workflow.shape, Shape::Loop(_));
    let (plan, _) = files::plan(Arc::new(workflow), &read);
    plan.map(|_| is_loop)
}

/// Whether a file is read as one of an older system: an editor points at what is written otherwise today.
fn is_older(name: &str, text: &str) -> bool {
    let (_, problems) = load(source(name, text));
    problems.iter().any(|problem| ["ignored-key", "old-spelling"].contains(&problem.id))
}

/// The texts of all YAML files below a folder, by their paths from there.
fn texts_below(folder: &Path, inside: &str, texts: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = format!("{inside}{}", path.file_name().expect("a name").to_string_lossy());
        if path.is_dir() {
            texts_below(&path, &format!("{name}/"), texts);
        } else if is_yaml(&name) {
            texts.insert(name, std::fs::read_to_string(&path).expect("a text"));
        }
    }
}

fn is_yaml(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "yaml" || extension == "yml")
}

/// What the schema has against the sound files of a project; how many of them there are, and how many loops.
fn refused(
    of: &str,
    texts: &BTreeMap<String, String>,
    schema: &jsonschema::Validator,
) -> (Vec<String>, usize, usize) {
    let (mut failures, mut count, mut loops) = (Vec::new(), 0, 0);
    for (name, text) in texts {
        let Some(is_loop) = sound(name, texts) else { continue };
        if is_older(name, text) {
            continue;
        }
        count += 1;
        loops += usize::from(is_loop);
        failures.extend(
            schema
                .validate(&yaml(text))
                .err()
                .map(|error| format!("{of} {name}: {error} at `{}`\n", error.instance_path())),
        );
    }
    (failures, count, loops)
}

#[test]
fn every_example_is_valid() {
    let schema = schema();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let (mut failures, mut all) = (Vec::new(), 0);
    for entry in std::fs::read_dir(folder).expect("the examples") {
        let folder = entry.expect("an entry").path();
        if !folder.join("workflow.yaml").is_file() {
            continue;
        }
        let mut texts = BTreeMap::new();
        texts_below(&folder, "", &mut texts);
        let of = folder.to_string_lossy();
        assert!(sound("workflow.yaml", &texts).is_some(), "{of} is not sound");
        failures.extend(refused(&of, &texts, &schema).0);
        all += 1;
    }
    assert!(all > 0, "no example");
    support::report(&failures, all);
}

#[test]
fn every_sound_file_of_the_cases_is_valid() {
    let schema = schema();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let (mut failures, mut all, mut all_loops) = (Vec::new(), 0, 0);
    for case in case::all(&folder) {
        let bytes = |name: &str| Some((name.to_owned(), String::from_utf8(case.file(name)?).ok()?));
        let texts = case.files().filter(|name| is_yaml(name)).filter_map(bytes).collect();
        let (found, count, loops) = refused(&case.name(), &texts, &schema);
        failures.extend(found);
        (all, all_loops) = (all + count, all_loops + loops);
    }
    assert!(all_loops > 0, "no loop");
    support::report(&failures, all);
}

#[test]
fn what_the_loader_refuses_the_schema_refuses_too() {
    let schema = schema();
    let state = |keys: &str| format!("{{initial: a, states: {{a: {{{keys}}}}}}}");
    let evaluate = |keys: &str| state(&format!("shell: a, next: a, evaluate: {{{keys}}}"));
    for text in [
        state("shell: a, on_yes: [a]"),
        state("shell: a, on_blocked: [a]"),
        state("shell: a, nxt: a"),
        state("id: a, terminal: true"),
        state("terminal: maybe"),
        state("shell: a, route: [{when: true}]"),
        evaluate("type: exit_code, pattern: a"),
        evaluate("type: llm_structured, yes_codes: [0]"),
        evaluate("type: output_contains, patern: a"),
        evaluate("type: exit_code, yes_codes: [a]"),
        "{constraints: [{name: a, check: a}]}".to_owned(),
        "{until: {passes: true}, steps: [a]}".to_owned(),
        "{fragments: {a: {fragment: b}}, initial: a, states: {a: {terminal: true}}}".to_owned(),
    ] {
        let texts = BTreeMap::from([("workflow.yaml".to_owned(), text.clone())]);
        assert_eq!(sound("workflow.yaml", &texts), None, "the loader takes `{text}`");
        assert!(!schema.is_valid(&yaml(&text)), "the schema takes `{text}`");
    }
    let sound_one =
        state("shell: a, on_blocked: a, evaluate: {type: classify, verdicts: [blocked]}, next: a");
    assert!(schema.is_valid(&yaml(&sound_one)));
}

/// The kind of schema of what a command prints as JSON, one value per line.
fn kind_of_output(line: &str) -> Option<&'static str> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let has = |word: &str| words.contains(&word);
    let has_json = has("--json") || line.contains("--format json") || line.contains("--format=json");
    let ["threadline", command, ..] = words[..] else { return None };
    // The stored form has no schema.
    if !has_json || has("--stored") || line.contains(['|', '>', '<']) {
        return None;
    }
    Some(match command {
        "resume" | "rerun" if has("--dry-run") => "continuation",
        "run" | "resume" | "rerun" => "events",
        "show" if has("--failed") => "failures",
        "show" if !has("--expanded") => "events",
        "explain" if has("--back") || has("--forward") => "chain",
        // The names of values that no step made are explained by their chains.
        "explain"
            if words.iter().any(|word| word.starts_with("context.") || word.starts_with("exports.")) =>
        {
            "chain"
        }
        "explain" => "explanation",
        "diff" => "diff",
        "vars" => "names",
        "preview" => "preview",
        "check" => "problems",
        "expect" if has("--check") => "problems",
        "expect" => "outcomes",
        "test" => "tests",
        "tools" => "tools",
        "logs" => "logs",
        "runs" => "runs",
        "simulate" => "simulation",
        "clean" | "rm" => "cleaning",
        _ => return None,
    })
}

/// What every case prints as JSON is as its schema says.
#[test]
fn every_output_of_the_cases_is_valid() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut schemas: BTreeMap<&str, jsonschema::Validator> = BTreeMap::new();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut failures = Vec::new();
    for case in case::all(&folder) {
        if !case.commands.iter().any(|line| kind_of_output(line).is_some()) {
            continue;
        }
        let project = case.project();
        for line in &case.commands {
            let printed = project.run_line(line);
            let Some(kind) = kind_of_output(line) else { continue };
            let schema = schemas.entry(kind).or_insert_with(|| {
                let schema = Project::new().run(&["schema", kind], b"").stdout;
                let schema = serde_json::from_str(&schema).expect("a schema is JSON");
                jsonschema::validator_for(&schema).expect("a schema is one")
            });
            for value in serde_json::Deserializer::from_str(&printed.stdout).into_iter() {
                let value: serde_json::Value = match value {
                    Ok(value) => value,
                    // This reader gives up at 128 levels, and a value may have 200.
                    Err(error) if error.to_string().contains("recursion limit") => break,
                    Err(error) => panic!("what is printed as JSON is JSON: {error}"),
                };
                *counts.entry(kind).or_default() += 1;
                failures.extend(schema.validate(&value).err().map(|error| {
                    format!("{}: {line}\n  {error} at `{}`\n", case.name(), error.instance_path())
                }));
            }
        }
    }
    println!("{counts:?}");
    for kind in [
        "continuation",
        "events",
        "explanation",
        "chain",
        "diff",
        "names",
        "preview",
        "problems",
        "tools",
        "logs",
        "runs",
        "cleaning",
    ] {
        assert!(counts.contains_key(kind), "no case prints `{kind}`");
    }
    support::report(&failures, counts.values().sum());
}
