//! What a run has for itself while it is driven: the paths and names of `locks`.
//!
//! They are taken before the run begins or goes on, all at once or none, and end with the process. A run that is called
//! in another shares what that has.

use std::time::{Duration, Instant};

use ecow::EcoString;
use threadline_engine::evaluate;
use threadline_engine::execute::result::time_text;
use threadline_engine::view::RunNames;
use threadline_flow::plan::Plan;
use threadline_flow::problem::Problem;
use threadline_lang::{NoWorld, Session};
use threadline_store::{LockConflict, LockRequest, LockTarget, ProjectLocks, RunId, Store, StoreError};

use crate::clock::now;
use crate::process;
use crate::project::Project;
use crate::stop::Stop;

/// What stands before a name that is no path.
const NAME: &str = "name:";

/// The time that processes of a run that was killed have to end before another takes over what it had.
const GRACE: Duration = Duration::from_secs(2);

/// So long is waited before it is asked again whether another run has ended.
const BETWEEN_QUESTIONS: Duration = Duration::from_millis(50);

/// How long is waited for what another run has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Patience {
    /// Not at all.
    #[default]
    None,
    /// At most for this time.
    For(Duration),
    /// Until it is there.
    Forever,
}

/// What came of taking what a run wants for itself.
pub enum Locked {
    /// It has that.
    Taken(ProjectLocks),
    /// Another run has it.
    Held(Box<LockConflict>),
    /// Threadline was asked to stop while it waited.
    Stopped,
}

/// What a run wants for itself, or everything that is wrong with it.
pub fn wanted(plan: &Plan, names: &RunNames, project: &Project) -> Result<Vec<LockTarget>, Vec<Problem>> {
    let workflow = &plan.workflow;
    if workflow.locks.is_empty() {
        return Ok(Vec::new());
    }
    let scope = names.scope(plan);
    let mut world = NoWorld;
    let mut session = Session::new(&mut world).limits(&workflow.syntax.limits).undefined(workflow.undefined);
    let texts = evaluate::locks(workflow, &scope, &mut session).map_err(|errors| {
        errors.iter().map(|error| error.problem(workflow.file.text())).collect::<Vec<Problem>>()
    })?;
    let (mut all, mut problems) = (Vec::new(), Vec::new());
    for (origin, text) in texts {
        match claimed(&text, project) {
            Ok(claimed) => all.push(claimed),
            Err((message, hint)) => {
                let problem = Problem::error("bad-lock", origin.span, message);
                problems.push(match hint {
                    Some(hint) => problem.hint(hint),
                    None => problem,
                });
            }
        }
    }
    if problems.is_empty() { Ok(all) } else { Err(problems) }
}

fn claimed(text: &str, project: &Project) -> Result<LockTarget, (String, Option<String>)> {
    let Some(name) = text.strip_prefix(NAME) else {
        let path = project.place(text).map_err(|error| (error.message, error.hint))?;
        return Ok(LockTarget::Path(path));
    };
    if name.trim().is_empty() || name.chars().any(char::is_control) {
        let message = format!("a lock needs a name after `{NAME}`, without control characters");
        return Err((message, None));
    }
    Ok(LockTarget::Name(name.into()))
}

/// Takes what a run wants for itself; waits for it, when that is asked. `told` hears once what is waited for.
pub fn take(
    store: &Store,
    run: &RunId,
    workflow: &EcoString,
    of: Vec<LockTarget>,
    patience: Patience,
    stop: &Stop,
    told: impl FnOnce(&LockConflict),
) -> Result<Locked, StoreError> {
    let since = Instant::now();
    let mut told = Some(told);
    let mut request =
        LockRequest { run: run.clone(), workflow: workflow.clone(), since: EcoString::new(), targets: of };
    loop {
        let rings = stop.bell().rings();
        if stop.asked() {
            return Ok(Locked::Stopped);
        }
        request.since = time_text(now()).into();
        // What a killed Threadline left behind must not work beside its successor.
        let taken = store.lock(&request, |died| {
            process::end_left_over(died.as_str(), GRACE);
        })?;
        let taken = match taken {
            Ok(holding) => return Ok(Locked::Taken(holding)),
            Err(taken) => taken,
        };
        let left = match patience {
            Patience::None => return Ok(Locked::Held(taken)),
            Patience::For(time) => time.saturating_sub(since.elapsed()),
            Patience::Forever => BETWEEN_QUESTIONS,
        };
        if left.is_zero() {
            return Ok(Locked::Held(taken));
        }
        if let Some(told) = told.take() {
            told(&taken);
        }
        stop.bell().wait(rings, Some(left.min(BETWEEN_QUESTIONS)));
    }
}

/// Who has what, in words.
pub fn held(taken: &LockConflict, project: &Project) -> String {
    let shown = |claimed: &LockTarget| match claimed {
        LockTarget::Path(path) => {
            let path = path.strip_prefix(project.here()).unwrap_or(path);
            let path = if path.as_os_str().is_empty() { ".".into() } else { path.display().to_string() };
            format!("`{path}`")
        }
        LockTarget::Name(name) => format!("`{NAME}{name}`"),
    };
    let LockConflict { wanted, locked: has, by, .. } = taken;
    let through = if wanted == has { String::new() } else { format!(" by its lock on {}", shown(has)) };
    format!("run `{}` of `{}` has {}{through} since {}", by.run, by.workflow, shown(wanted), by.since)
}
