//! Any text as a workflow file: no panic, no hang, no stack overflow, and every problem points into the text.
//!
//! A file without a workflow or without a plan has an error, and a plan knows each of its steps.

#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use threadline_flow::load::load;
use threadline_flow::plan::{Plan, plan};
use threadline_flow::problem::Problem;
use threadline_fuzz::prepare;
use threadline_lang::data::Format;
use threadline_lang::source::SourceFile;

fuzz_target!(init: prepare(), |data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for format in [Format::Yaml, Format::Json] {
        workflow(text, SourceFile::with_format("workflow", text, format));
    }
});

fn workflow(text: &str, file: SourceFile) {
    let (workflow, problems) = load(file);
    point_into(text, &problems);
    let Some(workflow) = workflow else {
        return assert!(problems.iter().any(Problem::is_error), "neither a workflow nor an error: {text:?}");
    };
    let (planned, found) = plan(Arc::new(workflow));
    point_into(text, &found);
    match planned {
        None => assert!(found.iter().any(Problem::is_error), "neither a plan nor an error: {text:?}"),
        Some(planned) => is_whole(&planned),
    }
}

fn point_into(text: &str, problems: &[Problem]) {
    for problem in problems {
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
