//! `threadline simulate`: a loop walked with invented results. Nothing is run and nothing is written.

mod script;
mod told;

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
use super::preview::PreviewWorld;
use super::run::{Prepared, prepare};
use super::{print, print_styled};
use crate::arguments::{Simulate, Simulated};
use crate::exit::Failure;
use crate::inputs;
use crate::report::{Report, Source};

/// So many walks are made when nobody says how many, and with this seed.
const WALKS: u64 = 100;
const SEED: u64 = 1;

/// Walks of one loop, and how they came about.
pub(super) struct Rehearsed<'p> {
    plan: &'p Plan,
    /// What was invented, in words.
    how: String,
    seed: Option<u64>,
    walks: Vec<Walked>,
}

/// `threadline simulate`
pub(crate) fn simulate(call: &Simulate) -> Result<(), Failure> {
    let file = inputs::read_workflow(&call.what.file)?;
    let Prepared { plan, inputs, .. } = prepare(&file, &call.what)?;
    if plan.states.is_none() {
        let message = format!("`{}` is no loop: it has no `states`", file.name());
        let hint = "`threadline preview` shows what its steps would do";
        return Err(Failure::NotStarted(vec![Report::with_hint(message, hint)]));
    }
    let states = script::states(call, &plan)?;
    let scripted = !states.is_empty();
    let others = others(call, scripted);
    let project =
        project(call.dir.as_deref())?.allow(plan.workflow.allow.files.iter().map(EcoString::as_str));
    let mut world = PreviewWorld(RealWorld {
        folder: Folder::new(project.here()),
        project: &project,
        env: Environment::inherited(),
        commands: Commands::Refused("a simulation runs nothing"),
        computed: &[],
        control: Control::new(),
        spool: std::env::temp_dir(),
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
            let source = Source::of(&file);
            let report = |error: &threadline_engine::evaluate::FieldError| {
                Report::problem(source, &error.problem(source.text))
            };
            Failure::Failed(errors.iter().map(report).collect())
        })?);
    }
    let rehearsed = Rehearsed { plan: &plan, how: how(call, others, scripted, count), seed, walks };
    if call.json {
        print(&format!("{}\n", rehearsed.json().to_json(JsonStyle::Compact)))?;
    } else {
        print_styled(&rehearsed.text())?;
    }
    match rehearsed.code() {
        0 => Ok(()),
        code => Err(Failure::Shown(code)),
    }
}

/// Walks of one seed share nothing.
const WALK_APART: u64 = 0x9e37_79b9_7f4a_7c15 << 1 | 1;

fn others(call: &Simulate, scripted: bool) -> Others {
    let random = call.random || call.seed.is_some() || call.runs.is_some();
    match call.all {
        Some(Simulated::No) => Others::No,
        Some(Simulated::Error) => Others::Error,
        None if call.alternating => Others::Alternating,
        None if random || !scripted => Others::Random(call.seed.unwrap_or(SEED)),
        Some(Simulated::Yes) | None => Others::Yes,
    }
}

fn how(call: &Simulate, others: Others, scripted: bool, count: u64) -> String {
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

impl Rehearsed<'_> {
    /// 0 when every walk came to a state that ends the loop, 4 when a limit ended one, 1 when one failed.
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
