//! What is seen of loops afterwards and beforehand, for every example: judgements are made again exactly as they were, and
//! simulations are as their schema says.

use std::path::{Path, PathBuf};

use crate::support::Project;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// A loop in a project of its own.
struct Example {
    name: String,
    project: Project,
    /// The file and the caller's values, as the first line of the file has them.
    arguments: Vec<String>,
}

impl Example {
    /// What a command prints of it.
    fn printed(&self, command: &[&str]) -> String {
        let own = self.arguments.iter().map(String::as_str);
        let arguments: Vec<&str> = command.iter().copied().chain(own).collect();
        let outcome = self.project.run(&arguments, b"");
        assert!(!outcome.stdout.is_empty(), "{} {arguments:?}: {}", self.name, outcome.stderr);
        outcome.stdout
    }
}

/// The examples that are loops.
fn loops() -> Vec<Example> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder()).expect("the examples") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if !name.starts_with("loop-") {
            continue;
        }
        let project = Project::new();
        copy(&path, &project, "");
        let text = project.read("workflow.yaml").expect("a workflow");
        let command = text.lines().next().and_then(|line| line.strip_prefix("# threadline run "));
        let arguments = command.expect("how it is run").split_whitespace().map(str::to_owned).collect();
        found.push(Example { name, project, arguments });
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(found.len() >= 10, "{} loops", found.len());
    found
}

fn copy(from: &Path, project: &Project, inside: &str) {
    for entry in std::fs::read_dir(from).expect("an example") {
        let path = entry.expect("an entry").path();
        let name = format!("{inside}{}", path.file_name().expect("a name").to_string_lossy());
        if path.is_dir() {
            copy(&path, project, &format!("{name}/"));
        } else {
            project.write(&name, &std::fs::read(&path).expect("a file"));
        }
    }
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn judgements_are_made_again_exactly() {
    let mut judged = 0;
    for example in loops() {
        example.printed(&["run"]);
        let Example { name, project, .. } = &example;
        let events = project.run(&["show", "last", "--json"], b"").stdout;
        let mut states: Vec<String> = events
            .lines()
            .map(json)
            .filter(|event| event["kind"] == "judged")
            .map(|event| event["at"].as_str().expect("an execution").to_owned())
            .collect();
        assert!(!states.is_empty(), "{name} was not judged");
        // The last of many is as good as all of them.
        let kept = states.split_off(states.len().saturating_sub(4));
        for at in kept {
            let explained = project.run(&["explain", "last", &at, "--json"], b"").stdout;
            for one in json(&explained)["evaluations"].as_array().expect("evaluations") {
                assert_ne!(one["reproducible"], false, "{name} {at}: {one}");
                judged += usize::from(one["evaluated"] == "judgement");
            }
        }
    }
    assert!(judged > 20, "{judged} judgements");
}

#[test]
fn simulations_are_as_their_schema_says() {
    let printed = Project::new().run(&["schema", "simulation"], b"").stdout;
    let schema = jsonschema::validator_for(&json(&printed)).expect("a schema is one");
    for example in loops() {
        for how in [["--all", "yes"], ["--all", "no"], ["--all", "error"], ["--runs", "5"]] {
            let printed = json(&example.printed(&["simulate", "--json", how[0], how[1]]));
            let errors: Vec<String> = schema.iter_errors(&printed).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{} {how:?}: {errors:?}", example.name);
        }
        // Nothing is run, so nothing is written.
        assert!(
            !example.project.path().join(".threadline/journal.db").exists(),
            "{} wrote a journal",
            example.name
        );
    }
}

#[test]
fn a_simulation_is_the_same_for_the_same_seed() {
    for example in loops() {
        let walks = || example.printed(&["simulate", "--seed", "9", "--json"]);
        assert_eq!(walks(), walks(), "{}", example.name);
    }
}
