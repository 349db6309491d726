//! `threadline check`: prints every problem of workflow files. No step runs.

use std::collections::BTreeMap;
use std::path::Path;

use threadline_flow::model::Action;
use threadline_flow::plan::Plan;
use threadline_flow::problem::Problem;
use threadline_lang::ValueShape;
use threadline_lang::source::SourceFile;
use threadline_runner::reload;
use threadline_store::JournalReader;

use super::file_check::{FileFindings, FileKind, check_files};
use super::history::{own_store, project};
use crate::arguments::CheckArguments;
use crate::exit::CommandFailure;
use crate::prepare::{plan_file, plan_file_with};

pub(crate) fn check(call: &CheckArguments) -> Result<(), CommandFailure> {
    if !call.tools {
        let kind = FileKind { check: &check_steps, unit: "step", units: "steps" };
        return check_files(&call.files, call.format(), &kind);
    }
    let project = project(None)?;
    let with_tools = |file: &SourceFile| {
        let (planned, mut problems) = plan_file(file);
        if let Some(plan) = &planned {
            problems.extend(super::tools::problems(file, plan, &project));
        }
        let sound = !problems.iter().any(Problem::is_error);
        (planned.filter(|_| sound).map(|plan| count_steps(&plan)), problems)
    };
    check_files(&call.files, call.format(), &FileKind { check: &with_tools, unit: "step", units: "steps" })
}

fn check_steps(file: &SourceFile) -> FileFindings {
    let (planned, mut problems) = plan_file(file);
    if let Some(plan) = &planned {
        problems.extend(stored_problems(file, plan));
    }
    let sound = !problems.iter().any(Problem::is_error);
    (planned.filter(|_| sound).map(|plan| count_steps(&plan)), problems)
}

/// The problems that follow from what the store of the project knows of servers and of other workflows.
fn stored_problems(file: &SourceFile, plan: &Plan) -> Vec<Problem> {
    let workflow = &plan.workflow;
    if workflow.servers.is_empty() && workflow.imports.is_empty() {
        return Vec::new();
    }
    // Without a store of the user's own there is nothing to know.
    let Ok(project) = project(None) else { return Vec::new() };
    let Some(store) = own_store(&project) else { return Vec::new() };
    let mut problems = super::tools::kept_problems(file, plan, &project, &store);
    problems.extend(import_problems(file, plan, &store));
    problems
}

/// Checks what is read of imports against what the last completed runs exported.
fn import_problems(file: &SourceFile, plan: &Plan, store: &Path) -> Vec<Problem> {
    if plan.workflow.imports.is_empty() {
        return Vec::new();
    }
    let Ok(reader) = JournalReader::open(store) else { return Vec::new() };
    let Ok(imported) = reload::imports(&plan.workflow, &BTreeMap::new(), &reader) else { return Vec::new() };
    let planned = plan_file_with(file, |workflow| {
        for import in &mut workflow.imports {
            import.exports = imported.values.get(&import.name).map(ValueShape::of);
        }
        Ok(())
    });
    // Without them there was no error, so all errors are about them.
    let problems = planned.map_or_else(|_| Vec::new(), |(_, problems)| problems);
    let why = "this is what the last completed run exported";
    problems.into_iter().filter(Problem::is_error).map(|problem| problem.note(why)).collect()
}

/// The number of steps, as people count them: without the phases and the map around them.
fn count_steps(plan: &Plan) -> usize {
    let is_step = |action: &Action| match action {
        Action::Phase(_) => false,
        Action::ForEach(each) => !each.is_map,
        _ => true,
    };
    plan.steps.iter().filter(|step| is_step(&step.step.action)).count()
}
