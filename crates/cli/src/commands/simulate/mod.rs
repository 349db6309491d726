//! `threadline simulate`: walks through a loop with invented results. No step runs and nothing is written.

mod explanation;
mod script;

use std::path::Path;

use ecow::EcoString;
use threadline_engine::machine::Outcome;
use threadline_engine::rehearsal::{self, End, Others, Script, Walked};
use threadline_engine::view::RunNames;
use threadline_flow::plan::Plan;
use threadline_lang::Value;
use threadline_lang::value::JsonStyle;
use threadline_runner::process::{Control, Environment};
use threadline_runner::world::{Commands, Folder, RealWorld};

use super::history::project;
use super::known_surroundings;
use super::preview::PreviewWorld;
use super::{print, print_styled};
use crate::arguments::{InventedResult, SimulateArguments};
use crate::exit::CommandFailure;
use crate::inputs;
use crate::prepare::{PreparedWorkflow, prepare};
use crate::report::{Report, ReportSource};

/// The default number of walks, and the default seed.
const WALKS: u64 = 100;
const SEED: u64 = 1;

/// Simulated walks of one loop.
pub(super) struct SimulatedLoop<'p> {
    plan: &'p Plan,
    /// A description of the invented results.
    how: String,
    seed: Option<u64>,
    walks: Vec<Walked>,
}

pub(crate) fn simulate(call: &SimulateArguments) -> Result<(), CommandFailure> {
    let file = inputs::read_workflow(&call.what.file)?;
    let PreparedWorkflow { plan, inputs, .. } = prepare(&file, &call.what)?;
    if plan.states.is_none() {
        let message = format!("`{}` is no loop: it has no `states`", file.name());
        let hint = "`threadline preview` shows what its steps would do";
        return Err(CommandFailure::NotStarted(vec![Report::with_hint(message, hint)]));
    }
    let states = script::states(call, &plan)?;
    let scripted = !states.is_empty();
    let others = others(call, scripted);
    let project =
        project(call.dir.as_deref())?.allow(plan.workflow.allow.files.iter().map(EcoString::as_str));
    let surroundings = known_surroundings(&plan, &project)?;
    let mut world = PreviewWorld(RealWorld {
        folder: Folder::new(project.here()),
        project: &project,
        env: surroundings.environment(&plan.workflow, Environment::inherited()),
        commands: Commands::Refused("a simulation runs nothing"),
        computed: &[],
        control: Control::new(),
        spool: std::env::temp_dir(),
        masks: surroundings.masks().cloned(),
        threads: None,
    });
    let names = RunNames {
        inputs,
        imports: Value::NULL,
        payload: Value::NULL,
        workflow: plan.workflow.name.clone(),
        run: "simulation".into(),
        start_time: "1970-01-01T00:00:00.000Z".into(),
    };
    let (seed, count) = match others {
        Others::Random(seed) => (Some(seed), call.runs.unwrap_or(WALKS)),
        _ => (None, 1),
    };
    let mut walks = Vec::new();
    let mut script = Script { states, others };
    for walk in 0..count {
        if let Some(seed) = seed {
            script.others = Others::Random(seed.wrapping_add(walk.wrapping_mul(WALK_APART)));
        }
        let walked = rehearsal::walk(&plan, &names, &script, &mut world);
        walks.push(walked.map_err(|errors| {
            let source = ReportSource::of(&file);
            let report = |error: &threadline_engine::evaluate::FieldError| {
                Report::problem(source, &error.problem(source.text))
            };
            CommandFailure::Failed(errors.iter().map(report).collect())
        })?);
    }
    let rehearsed = SimulatedLoop { plan: &plan, how: how(call, others, scripted, count), seed, walks };
    if call.json {
        print(&format!("{}\n", rehearsed.json().to_json(JsonStyle::Compact)))?;
    } else {
        print_styled(&rehearsed.text())?;
    }
    match rehearsed.code() {
        0 => Ok(()),
        code => Err(CommandFailure::Shown(code)),
    }
}

/// The walks of one seed are independent of each other.
const WALK_APART: u64 = 0x9e37_79b9_7f4a_7c15 << 1 | 1;

fn others(call: &SimulateArguments, scripted: bool) -> Others {
    let random = call.random || call.seed.is_some() || call.runs.is_some();
    match call.all {
        Some(InventedResult::No) => Others::No,
        Some(InventedResult::Error) => Others::Error,
        None if call.alternating => Others::Alternating,
        None if random || !scripted => Others::Random(call.seed.unwrap_or(SEED)),
        Some(InventedResult::Yes) | None => Others::Yes,
    }
}

fn how(call: &SimulateArguments, others: Others, scripted: bool, count: u64) -> String {
    let seed = call.seed.unwrap_or(SEED);
    let words = match others {
        Others::Yes => "every state comes to `yes`".to_owned(),
        Others::No => "every state comes to `no`".to_owned(),
        Others::Error => "every state comes to `error`".to_owned(),
        Others::Alternating => "every state comes to `no` and `yes` in turn".to_owned(),
        Others::Random(_) => {
            let walks = if count == 1 { "1 walk".to_owned() } else { format!("{count} walks") };
            format!("{walks} with random verdicts, seed {seed}")
        }
    };
    if scripted { format!("{words}, but for the script") } else { words }
}

impl SimulatedLoop<'_> {
    /// The exit code: 0 if every walk reached a terminal state, 4 if a limit ended one, 1 if one failed.
    fn code(&self) -> u8 {
        let code = |walk: &Walked| match &walk.end {
            End::Ended(Outcome::Failed, None) => 1,
            End::Ended(Outcome::Stopped, _) | End::GivenUp => 4,
            End::Ended(Outcome::Completed | Outcome::Failed, _) => 0,
        };
        let codes: Vec<u8> = self.walks.iter().map(code).collect();
        [1, 4].into_iter().find(|code| codes.contains(code)).unwrap_or(0)
    }
}

/// The path of a script, for messages.
fn shown(path: &Path) -> String {
    path.display().to_string()
}
