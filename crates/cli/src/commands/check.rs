//! `threadline check`: prints every problem of workflow files. No step runs.

use threadline_flow::model::Action;
use threadline_flow::plan::Plan;
use threadline_flow::problem::Problem;
use threadline_lang::source::SourceFile;

use super::file_check::{FileFindings, FileKind, check_files};
use super::history::project;
use crate::arguments::CheckArguments;
use crate::exit::CommandFailure;
use crate::prepare::plan_file;

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
    let (planned, problems) = plan_file(file);
    (planned.map(|plan| count_steps(&plan)), problems)
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
