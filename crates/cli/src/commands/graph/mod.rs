//! `threadline graph`: draws a workflow or a run as text, Mermaid, Graphviz or SVG, without another program.

mod states;
mod text;

use std::path::Path;

use threadline_flow::plan::Plan;
use threadline_inspect::graph::WorkflowDrawing;
use threadline_inspect::graph::states::{TakenRoutes, drawing};
use threadline_inspect::run_state::RunState;
use threadline_inspect::timeline::RunTimeline;

use super::history::{History, reader};
use super::{print, print_styled};
use crate::arguments::{GraphArguments, GraphFormat};
use crate::exit::CommandFailure;
use crate::inputs;
use crate::prepare::{plan_file, problem_reports};

pub(crate) fn graph(call: &GraphArguments) -> Result<(), CommandFailure> {
    let drawn = drawn(call)?;
    match (&drawn, call.format) {
        (_, GraphFormat::Svg) => print(&drawn.svg()),
        (WorkflowDrawing::Steps(drawing), GraphFormat::Text) => print_styled(&text::text(drawing)),
        (WorkflowDrawing::Steps(drawing), GraphFormat::Mermaid) => print_styled(&text::mermaid(drawing)),
        (WorkflowDrawing::Steps(drawing), GraphFormat::Dot) => print_styled(&text::dot(drawing)),
        (WorkflowDrawing::Loop(drawing), GraphFormat::Text) => print_styled(&states::text(drawing)),
        (WorkflowDrawing::Loop(drawing), GraphFormat::Mermaid) => print_styled(&states::mermaid(drawing)),
        (WorkflowDrawing::Loop(drawing), GraphFormat::Dot) => print_styled(&states::dot(drawing)),
    }
}

/// Draws a file if there is one of this name, otherwise a run.
fn drawn(call: &GraphArguments) -> Result<WorkflowDrawing, CommandFailure> {
    let path = Path::new(&call.what);
    if call.what == "-" || path.is_file() {
        if call.at.is_some() {
            let message = format!("`--at` is about a run, and `{}` is a file", call.what);
            return Err(CommandFailure::Usage(message));
        }
        let file = inputs::read_workflow(path)?;
        let (planned, problems) = plan_file(&file);
        let planned = planned.ok_or_else(|| CommandFailure::NotStarted(problem_reports(&file, &problems)))?;
        return Ok(WorkflowDrawing::of_plan(&planned));
    }
    let reader = reader(call.dir.as_deref())?;
    let history = History::open(&reader, &call.what)?;
    let timeline = RunTimeline::read(&reader, &history.info.id, &history.plan)?;
    let state = RunState::at_event(&history, &timeline, call.at)?;
    Ok(WorkflowDrawing::of_state(&timeline, &state))
}

/// The states of a run as text with the routes it took, if it is the run of a loop.
pub(super) fn loop_text(plan: &Plan, path: &TakenRoutes) -> Option<String> {
    plan.states.as_ref().map(|_| states::text(&drawing(plan, Some(path))))
}
