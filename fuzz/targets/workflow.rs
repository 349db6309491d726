//! Any text as a workflow file: no panic, no hang, no stack overflow, and every problem points into the text.
//!
//! A file without a workflow or without a plan has an error, and a plan knows each of its steps. Lines `-- NAME --`
//! part the text into files, which the first may be made of or call.

#![no_main]

use std::collections::BTreeMap;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use threadline_flow::files::{self, Unread};
use threadline_flow::load::{expanded, load};
use threadline_flow::plan::Plan;
use threadline_flow::problem::Problem;
use threadline_fuzz::prepare;
use threadline_lang::data::DataFormat;
use threadline_lang::source::SourceFile;

fuzz_target!(init: prepare(), |data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for format in [DataFormat::Yaml, DataFormat::Json] {
        workflow(text, format);
    }
});

fn workflow(text: &str, format: DataFormat) {
    let (first, others) = parted(text);
    let read = |name: &str| {
        let missing = || Unread { message: format!("there is no `{name}`"), hint: None, nearest: None };
        let text = others.get(name).ok_or_else(missing)?;
        Ok(SourceFile::with_format(name, text, format))
    };
    let file = files::assemble(SourceFile::with_format("workflow", first, format), &read);
    let (tree, problems) = expanded(&file);
    assert!(
        tree.is_some() || problems.iter().any(Problem::is_error),
        "neither a tree nor an error: {text:?}"
    );
    let (workflow, problems) = load(file.clone());
    point_into(&file, &problems);
    let Some(workflow) = workflow else {
        return assert!(problems.iter().any(Problem::is_error), "neither a workflow nor an error: {text:?}");
    };
    let (planned, found) = files::plan(Arc::new(workflow), &read);
    point_into(&file, &found);
    match planned {
        None => assert!(
            problems.iter().chain(&found).any(Problem::is_error),
            "neither a plan nor an error: {text:?}"
        ),
        Some(planned) => is_whole(&planned),
    }
}

/// The first file of a text, and the others by their names.
fn parted(text: &str) -> (&str, BTreeMap<&str, &str>) {
    let mut parts = text.split("\n-- ");
    let first = parts.next().unwrap_or_default();
    (first, parts.filter_map(|part| part.split_once(" --\n")).collect())
}

/// A problem of another file names it.
fn point_into(file: &SourceFile, problems: &[Problem]) {
    for problem in problems {
        let text = problem.file.as_ref().unwrap_or(file).text();
        assert!(text.get(problem.span.range()).is_some(), "{problem:?} in {text:?}");
    }
}

/// Every step stands in one list, where its number says, and every list in one step.
fn is_whole(plan: &Plan) {
    let listed: usize = plan.lists.iter().map(|list| list.steps.len()).sum();
    assert_eq!(listed, plan.steps.len());
    for (at, list) in (0..).zip(&plan.lists) {
        assert!(list.steps.iter().all(|step| plan.steps[*step as usize].list == at));
        if let Some((owner, part)) = list.parent {
            assert_eq!(plan.part(owner, part), Some(at));
        }
    }
}
