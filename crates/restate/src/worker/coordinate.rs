//! A run that a worker coordinates: the coordinator is a process of its own, and the Restate server remembers how it
//! ended. When the worker dies, the server has the run driven by another one.
//!
//! As with acts, the handler asks for the same entries in the same order however often it runs: what came of the
//! coordinator, and the two ways in which somebody may want it to stop.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use restate_sdk::prelude::{
    ContextPromises as _, ContextSideEffects as _, HandlerError, RunFuture as _, SharedWorkflowContext,
    TerminalError, WorkflowContext, workflow,
};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::sync::oneshot;

use super::coordinator_journal;
use crate::detached::{DetachedEnd, DetachedRun, WORKFLOW, verified_stop};
use crate::key::SharedKey;

/// The promise that somebody keeps who wants the run to stop, and the one who wants its steps to end, too.
const STOP: &str = "stop";
const STOP_NOW: &str = "stop-now";

/// The exit code of a coordinator that could not begin: it may be able to a little later.
const NOT_STARTED: i32 = 3;

/// That of one that was told to stop.
const INTERRUPTED: i32 = 130;

/// The pauses before a coordinator is started again that was killed or could not begin, and for how long that is tried.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_mins(1);

/// So much of what a coordinator said last is remembered.
const SAID: u64 = 2_000;

/// Makes the command that drives a run.
pub type CoordinatorCommand = Arc<dyn Fn(&DetachedRun) -> io::Result<Command> + Send + Sync>;

/// The workflow that a worker offers.
pub(super) struct ThreadlineRun {
    pub(super) key: SharedKey,
    /// The name of the worker.
    pub(super) name: String,
    pub(super) command: CoordinatorCommand,
}

#[expect(clippy::unused_async, reason = "a handler is asynchronous, also one that waits for nothing")]
#[workflow(name = "ThreadlineRun")]
impl ThreadlineRun {
    /// Drives a run until it ends or stops.
    #[handler(name = "run")]
    async fn run(&self, ctx: WorkflowContext<'_>, message: Vec<u8>) -> Result<Vec<u8>, HandlerError> {
        debug_assert_eq!(WORKFLOW, "ThreadlineRun");
        let id = ctx.key().to_owned();
        let state = Arc::new(Coordinator::default());
        let (of_run, command, name) = (Arc::clone(&state), Arc::clone(&self.command), self.name.clone());
        let request = DetachedRun::verified(&self.key, &id, &message);
        let driven = ctx.run(move || async move {
            let end = match request {
                Ok(run) => drive(of_run, command, run).await,
                Err(why) => {
                    CoordinatorEnd { code: NOT_STARTED, said: format!("the worker refuses it: {why}") }
                }
            };
            let end = DetachedEnd { code: end.code.into(), worker: name, said: end.said };
            Ok(end.text().into_bytes())
        });
        let driven = driven.name("coordinator");
        // Asked for at once, so that it is always the same entries, and waited for one after the other: of two that wait
        // side by side only one hears of anything.
        let (stop, now) = (ctx.promise::<bool>(STOP), ctx.promise::<bool>(STOP_NOW));
        let wishes = async {
            let asked = stop.await;
            state.ask(Wish::Stop);
            asked?;
            let asked = now.await;
            state.ask(Wish::Now);
            asked?;
            // What is wanted more is said by nobody.
            std::future::pending::<Result<(), TerminalError>>().await
        };
        tokio::pin!(driven, wishes);
        tokio::select! {
            biased;
            end = &mut driven => Ok(end?),
            cancelled = &mut wishes => {
                // The invocation was cancelled: a promise that is not kept says so.
                cancelled?;
                Err(TerminalError::new_with_code(409, "cancelled").into())
            }
        }
    }

    /// Wants a run to stop. Answers why that is refused, or nothing.
    #[handler(name = "stop")]
    async fn stop(&self, ctx: SharedWorkflowContext<'_>, message: Vec<u8>) -> Result<Vec<u8>, HandlerError> {
        Ok(match verified_stop(&self.key, ctx.key(), &message) {
            Ok(now) => {
                ctx.resolve_promise(STOP, true);
                if now {
                    ctx.resolve_promise(STOP_NOW, true);
                }
                Vec::new()
            }
            Err(why) => why.into_bytes(),
        })
    }
}

/// What somebody wants of a coordinator.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum Wish {
    #[default]
    GoOn,
    /// Running steps finish.
    Stop,
    /// Running steps end.
    Now,
    /// It ends at once: nobody waits for it any more.
    Kill,
}

/// A coordinator, as whoever waits for it and whoever wants it to stop share it.
#[derive(Default)]
struct Coordinator(Mutex<CoordinatorState>);

#[derive(Default)]
struct CoordinatorState {
    wanted: Wish,
    /// Its process, as long as nobody has waited for it.
    process: Option<Pid>,
}

impl Coordinator {
    fn state(&self) -> MutexGuard<'_, CoordinatorState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, wanted: Wish) {
        let mut state = self.state();
        let before = state.wanted;
        if wanted <= before {
            return;
        }
        state.wanted = wanted;
        if let Some(process) = state.process {
            signal(process, before, wanted);
        }
    }

    fn has_process(&self, process: Option<Pid>) {
        let mut state = self.state();
        state.process = process;
        if let Some(process) = process {
            signal(process, Wish::GoOn, state.wanted);
        }
    }
}

/// The first signal means that nothing new begins, the second that what runs ends.
fn signal(process: Pid, before: Wish, wanted: Wish) {
    let send = |signal| {
        // It has not been waited for, so the number is its own.
        let _ = kill_process(process, signal);
    };
    if wanted == Wish::Kill {
        return send(Signal::KILL);
    }
    if before < Wish::Stop && wanted >= Wish::Stop {
        send(Signal::TERM);
    }
    if wanted >= Wish::Now {
        // Another one, because two of the same at once would be one.
        send(Signal::INT);
    }
}

/// Ends a coordinator when nobody waits for it any more: the connection is gone, and the Restate server has the run
/// driven elsewhere.
struct KillWhenDropped(Arc<Coordinator>);

impl Drop for KillWhenDropped {
    fn drop(&mut self) {
        self.0.ask(Wish::Kill);
    }
}

/// How a coordinator ended.
struct CoordinatorEnd {
    code: i32,
    said: String,
}

/// Drives a run on a thread of its own, which is the parent of the coordinator for as long as that lives.
async fn drive(state: Arc<Coordinator>, command: CoordinatorCommand, run: DetachedRun) -> CoordinatorEnd {
    let _guard = KillWhenDropped(Arc::clone(&state));
    let (done, ended) = oneshot::channel();
    std::thread::spawn(move || {
        // Nobody may be left who wants it.
        let _ = done.send(supervise(&state, &command, &run));
    });
    ended.await.unwrap_or_else(|_| CoordinatorEnd {
        code: NOT_STARTED,
        said: "the thread of the coordinator died".to_owned(),
    })
}

/// Keeps a coordinator running until it ends by itself.
fn supervise(state: &Coordinator, command: &CoordinatorCommand, run: &DetachedRun) -> CoordinatorEnd {
    let (began, mut pause) = (Instant::now(), FIRST_PAUSE);
    loop {
        let tried = Instant::now();
        let (code, said) = match attempt(state, command, run) {
            Ok((status, said)) => (status.code(), said),
            Err(error) => (Some(NOT_STARTED), format!("the coordinator cannot be started: {error}")),
        };
        let is_over = match code {
            // It was killed; nobody else knows that.
            None => false,
            Some(NOT_STARTED) => began.elapsed() > PATIENCE,
            Some(_) => true,
        };
        // One that is told to stop before it listens is killed by that.
        let wanted = state.state().wanted;
        if is_over || wanted != Wish::GoOn {
            if wanted != Wish::Kill {
                // All of it is in the blob store; what stays only takes up space.
                let _ = std::fs::remove_dir_all(coordinator_journal(&run.run));
            }
            return CoordinatorEnd { code: code.unwrap_or(INTERRUPTED), said };
        }
        if tried.elapsed() > LONGEST_PAUSE {
            pause = FIRST_PAUSE;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn attempt(
    state: &Coordinator,
    command: &CoordinatorCommand,
    run: &DetachedRun,
) -> io::Result<(ExitStatus, String)> {
    let mut errors = unnamed_file()?;
    let mut child = command(run)?
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(errors.try_clone()?)
        .spawn()?;
    let pid = Pid::from_child(&child);
    state.has_process(Some(pid));
    // Known to have ended before it is waited for: then its number is nobody's, and nobody signals it any more.
    let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
    state.has_process(None);
    let status = child.wait()?;
    let length = errors.seek(SeekFrom::End(0))?;
    errors.seek(SeekFrom::Start(length.saturating_sub(SAID)))?;
    let mut said = Vec::new();
    errors.read_to_end(&mut said)?;
    Ok((status, String::from_utf8_lossy(&said).trim().to_owned()))
}

/// A file without a name, which is gone with whoever has it open.
fn unnamed_file() -> io::Result<File> {
    let path = std::env::temp_dir().join(format!("threadline-{}", uuid::Uuid::new_v4().simple()));
    let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}
