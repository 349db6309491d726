//! Workflows that call others: each file is read once, and a name means the same file from wherever it is called.

#![expect(clippy::unwrap_used, reason = "a file that cannot be planned fails the test")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use threadline_flow::files::{self, Unread, name_from};
use threadline_flow::load::load;
use threadline_flow::plan::Plan;
use threadline_lang::source::SourceFile;

/// Plans the first of these files, and says which were read.
fn planned(texts: &[(&str, &str)]) -> (Option<Plan>, Vec<String>, Vec<String>) {
    let known: BTreeMap<&str, &str> = texts.iter().copied().collect();
    let read = RefCell::new(Vec::new());
    let source = |name: &str| SourceFile::new(name, known[name].as_bytes().to_vec()).unwrap();
    let reader = |name: &str| {
        read.borrow_mut().push(name.to_owned());
        let missing = Unread { message: format!("no {name}"), hint: None, nearest: None };
        if known.contains_key(name) { Ok(source(name)) } else { Err(missing) }
    };
    let workflow = load(source(texts[0].0)).0.unwrap();
    let (plan, problems) = files::plan(Arc::new(workflow), &reader);
    let place = |problem: &threadline_flow::problem::Problem| {
        let file = problem.file.as_ref().map_or(texts[0].0, SourceFile::name);
        format!("{file}: {}", problem.message)
    };
    let problems = problems.iter().map(place).collect();
    (plan, problems, read.into_inner())
}

#[test]
fn a_path_is_meant_from_the_folder_of_the_file_that_has_it() {
    let cases = [
        ("main.yaml", "a.yaml", "a.yaml"),
        ("./main.yaml", "./a.yaml", "a.yaml"),
        ("flows/main.yaml", "a.yaml", "flows/a.yaml"),
        ("flows/main.yaml", "../a.yaml", "a.yaml"),
        ("flows/main.yaml", "../../a.yaml", "../a.yaml"),
        ("flows/main.yaml", "b/./c/../a.yaml", "flows/b/a.yaml"),
        ("../main.yaml", "../a.yaml", "../../a.yaml"),
        ("/flows/main.yaml", "../../a.yaml", "/a.yaml"),
        ("/main.yaml", "a.yaml", "/a.yaml"),
        ("flows/main.yaml", "/a//b.yaml", "/a/b.yaml"),
        ("<stdin>", "a.yaml", "a.yaml"),
    ];
    for (caller, path, name) in cases {
        assert_eq!(name_from(caller, path), name, "{path} from {caller}");
    }
}

#[test]
fn a_file_is_read_once_however_often_it_is_called() {
    let (plan, problems, read) = planned(&[
        ("main.yaml", "- {workflow: a/one.yaml}\n- {workflow: two.yaml}\n- {workflow: ./a/../two.yaml}"),
        ("a/one.yaml", "- {workflow: ../two.yaml}"),
        ("two.yaml", "- {shell: ls}"),
    ]);
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!(read, ["a/one.yaml", "two.yaml"]);
    let plan = plan.unwrap();
    let called: Vec<_> = plan.steps.iter().map(|step| step.calls.clone().unwrap()).collect();
    let inside = called[0].steps[0].calls.clone().unwrap();
    assert!(Arc::ptr_eq(&called[1], &called[2]) && Arc::ptr_eq(&called[1], &inside));
    assert_eq!(plan.other_files().into_keys().collect::<Vec<_>>(), ["a/one.yaml", "two.yaml"]);
}

#[test]
fn a_workflow_that_calls_a_broken_one_has_no_plan() {
    let (plan, problems, _) = planned(&[
        ("main.yaml", "- {workflow: one.yaml}"),
        ("one.yaml", "- {workflow: two.yaml}"),
        ("two.yaml", "- {value: '${nope}'}"),
    ]);
    assert!(plan.is_none());
    assert_eq!(problems, ["two.yaml: unknown name `nope`"]);
}

#[test]
fn a_workflow_that_calls_itself_is_found_under_any_spelling() {
    let (plan, problems, _) = planned(&[("./main.yaml", "- {workflow: x/../main.yaml}")]);
    assert!(plan.is_none());
    assert_eq!(problems, ["./main.yaml: `x/../main.yaml` calls itself"]);
}
