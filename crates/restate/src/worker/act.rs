//! One act on a worker: what is recorded of it at the Restate server, in which order, and its program.
//!
//! What is recorded has to be the same whenever the server has the handler run again, wherever that is. So the handler
//! decides nothing on the way: it asks for the same entries in the same order, and whatever it has to find out it finds
//! out inside of one of them.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use restate_sdk::prelude::{Context, ContextAwakeables as _, ContextClient as _, ContextSideEffects as _};
use restate_sdk::prelude::{HandlerError, RunFuture as _, TerminalError, service};
use threadline_engine::event::Millis;
use threadline_engine::execute::effect::{
    EffectLimits, EffectResult, ProcessEnd, ProcessEnding, Stream, USAGE_VARIABLE,
};
use threadline_engine::execute::result::Timing;
use threadline_runner::process::{Asked, Control, Environment};
use threadline_runner::project::STORE;
use threadline_runner::workplace::{ProcessSurroundings, perform_process};
use tokio::sync::{Notify, Semaphore};

use super::WorkerSettings;
use crate::blobs::Blobs;
use crate::key::SharedKey;
use crate::remote::{CANCEL, MOST_INLINE, PERFORM};
use crate::wire::{self, ActRequest, WorkerAnswer, WorkerRequest};

/// The variable that names the act to its program: the same for the same act, however often it is begun.
const ACT_VARIABLE: &str = "THREADLINE_ACT";

/// What a program printed beyond this does not travel.
const MOST_TRAVELS: usize = 128 << 20;

/// The service that a worker offers.
pub(super) struct ThreadlineAct(pub(super) Arc<Performer>);

#[expect(clippy::unused_async, reason = "a handler is asynchronous, also one that waits for nothing")]
#[service(name = "ThreadlineAct")]
impl ThreadlineAct {
    /// Performs a program.
    #[handler(name = "v1")]
    async fn perform(&self, ctx: Context<'_>, message: Vec<u8>) -> Result<Vec<u8>, HandlerError> {
        debug_assert_eq!(PERFORM, "v1");
        let head = wire::head(&message);
        // What the server knows it by, as far as the server says that: by its protocol, or in a header.
        let told = ctx.idempotency_key().map(str::to_owned);
        let told = told.or_else(|| ctx.headers().get("idempotency-key").cloned());
        let key = told.unwrap_or_else(|| head.key.clone());
        let began_here = if head.once {
            let own = uuid::Uuid::new_v4().simple().to_string();
            let token = own.clone();
            let first: String = ctx.run(|| async move { Ok(token) }).name("began").await?;
            first == own
        } else {
            true
        };
        // Nobody resolves it: it is heard of only when the invocation is cancelled.
        let (_, cancelled) = ctx.awakeable::<()>();
        let state = Arc::new(ActState::default());
        let (performer, of_act) = (Arc::clone(&self.0), Arc::clone(&state));
        let act = ctx.run(move || async move {
            let answer = if began_here {
                performer.answer(&key, &message, of_act).await
            } else {
                wire::answer_text(&WorkerAnswer::Interrupted(head.session))
            };
            Ok(answer.into_bytes())
        });
        let act = act.name("act");
        tokio::pin!(act);
        tokio::select! {
            biased;
            answer = &mut act => Ok(answer?),
            _ = cancelled => {
                state.control.cancel();
                state.wait_until_ended().await;
                Err(TerminalError::new_with_code(409, "cancelled").into())
            }
        }
    }

    /// Ends what an invocation performs.
    #[handler(name = "cancel")]
    async fn cancel(&self, ctx: Context<'_>, message: Vec<u8>) -> Result<Vec<u8>, HandlerError> {
        debug_assert_eq!(CANCEL, "cancel");
        let invocation = wire::named_invocation(&message);
        let answer = match wire::verified(&self.0.key, &invocation, &message) {
            Ok(WorkerRequest::Cancel(invocation)) => {
                ctx.invocation_handle(invocation).cancel();
                WorkerAnswer::Cancelled
            }
            Ok(_) => WorkerAnswer::Refused("this ends invocations, and performs nothing".to_owned()),
            Err(why) => WorkerAnswer::Refused(why),
        };
        Ok(wire::answer_text(&answer).into_bytes())
    }
}

/// What is known of an act while its program runs.
#[derive(Default)]
struct ActState {
    control: Control,
    runs: AtomicBool,
    ended: Notify,
}

impl ActState {
    async fn wait_until_ended(&self) {
        loop {
            let ended = self.ended.notified();
            if !self.runs.load(Ordering::SeqCst) {
                return;
            }
            ended.await;
        }
    }
}

/// Ends a program by force when nobody waits for it any more: the connection is gone, and the Restate server has the act
/// performed again.
struct EndWhenDropped(Arc<ActState>);

impl Drop for EndWhenDropped {
    fn drop(&mut self) {
        if self.0.control.asked() == Asked::Nothing {
            self.0.control.kill();
        }
    }
}

/// Says that a program has ended, also when performing it panicked.
struct SayEnded(Arc<ActState>);

impl Drop for SayEnded {
    fn drop(&mut self) {
        self.0.runs.store(false, Ordering::SeqCst);
        self.0.ended.notify_waiters();
    }
}

/// Performs programs.
pub(super) struct Performer {
    key: SharedKey,
    name: String,
    root: PathBuf,
    blobs: Blobs,
    /// The environment of the worker, without its key.
    env: Environment,
    /// The folder for values and large outputs, on this machine.
    spool: PathBuf,
    slots: Arc<Semaphore>,
}

impl Performer {
    pub(super) fn new(settings: &WorkerSettings) -> Result<Self, String> {
        let root = settings.project.canonicalize();
        let root = root.map_err(|error| format!("the folder `{}`: {error}", settings.project.display()))?;
        let mut env = Environment::inherited();
        for name in ["THREADLINE_RUN", USAGE_VARIABLE] {
            env.remove(name);
        }
        if let Some(name) = &settings.key_variable {
            env.remove(name);
        }
        let spool = std::env::temp_dir().join(format!("threadline-worker-{}", uuid::Uuid::new_v4().simple()));
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&spool)
            .map_err(|error| format!("the folder `{}`: {error}", spool.display()))?;
        Ok(Self {
            key: settings.key.clone(),
            name: settings.name.clone(),
            blobs: Blobs::of_store(&root.join(STORE)),
            root,
            env,
            spool,
            slots: Arc::new(Semaphore::new(settings.slots)),
        })
    }

    /// Performs what a message asks for, as soon as there is a slot for it.
    async fn answer(self: Arc<Self>, key: &str, message: &[u8], state: Arc<ActState>) -> String {
        let act = match self.request(key, message) {
            Ok(Some(act)) => act,
            Ok(None) => return wire::answer_text(&WorkerAnswer::Cancelled),
            Err(why) => return wire::answer_text(&WorkerAnswer::Refused(why)),
        };
        let waiting = Arc::clone(&self.slots).acquire_owned();
        let slot = match act.not_after {
            Some(until) => tokio::time::timeout(left(until), waiting).await.ok(),
            None => Some(waiting.await),
        };
        let Some(slot) = slot else { return wire::answer_text(&self.too_late()) };
        state.runs.store(true, Ordering::SeqCst);
        let _guard = EndWhenDropped(Arc::clone(&state));
        let key = key.to_owned();
        let performed = tokio::task::spawn_blocking(move || {
            let _slot = slot;
            let said = SayEnded(Arc::clone(&state));
            let answer = self.perform(&key, act, &state.control);
            let text = self.text_of(&answer);
            drop(said);
            text
        });
        performed.await.unwrap_or_else(|error| {
            wire::answer_text(&WorkerAnswer::Refused(format!("performing it failed: {error}")))
        })
    }

    /// The act that a message asks for; none where it was given up before.
    fn request(&self, key: &str, message: &[u8]) -> Result<Option<ActRequest>, String> {
        match wire::verified(&self.key, key, message)? {
            WorkerRequest::Act(act) => Ok(Some(*act)),
            WorkerRequest::Blob(blob) => wire::read_act_text(&self.blobs.get(&blob)?).map(Some),
            WorkerRequest::Abandoned => Ok(None),
            WorkerRequest::Cancel(_) => Err("this performs programs, and ends none".to_owned()),
        }
    }

    fn perform(&self, key: &str, act: ActRequest, control: &Control) -> WorkerAnswer {
        let ActRequest { started, not_after, folder, key: effect, mut spec } = act;
        let inside = Path::new(&folder).components().all(|part| matches!(part, Component::Normal(_)));
        if !inside {
            return WorkerAnswer::Refused(format!("its folder `{folder}` is not in the project"));
        }
        if let Some(until) = not_after {
            let left = left(until);
            if left.is_zero() {
                return self.too_late();
            }
            spec.limits.timeout = Some(spec.limits.timeout.map_or(left, |own: Duration| own.min(left)));
        }
        let mut env = self.env.clone();
        env.set(ACT_VARIABLE, key);
        env.mark(&started, effect.at.as_str());
        let (value_folder, spool) = (self.spool.clone(), self.spool.clone());
        let folder = self.root.join(folder);
        let surroundings = ProcessSurroundings { folder, env, value_folder, spool, masks: None };
        match perform_process(&spec, &surroundings, control, &mut |_, _| {}) {
            Ok(EffectResult::Cancelled) => WorkerAnswer::Cancelled,
            Ok(result) => WorkerAnswer::Done(self.name.clone(), Box::new(fitting(result, spec.limits))),
            Err(error) => WorkerAnswer::Refused(error.to_string()),
        }
    }

    /// The time around the act was over before it began.
    fn too_late(&self) -> WorkerAnswer {
        let now = now();
        let end = ProcessEnd {
            ending: ProcessEnding::TimedOut,
            stdout: Ok(Vec::new()),
            stderr: Vec::new(),
            cpu_time: Duration::ZERO,
            max_memory: 0,
            usage: None,
            timing: Timing { started: now, finished: now, elapsed: Duration::ZERO },
            worker: None,
        };
        WorkerAnswer::Done(self.name.clone(), Box::new(EffectResult::Process(Ok(end))))
    }

    /// An answer as text, or where that is written if it is too large for a message.
    fn text_of(&self, answer: &WorkerAnswer) -> String {
        let text = wire::answer_text(answer);
        if text.len() <= MOST_INLINE {
            return text;
        }
        wire::answer_text(&match self.blobs.put(&text) {
            Ok(blob) => WorkerAnswer::Blob(blob),
            Err(why) => WorkerAnswer::Refused(format!("what it printed could not be kept: {why}")),
        })
    }
}

impl Drop for Performer {
    fn drop(&mut self) {
        // Whatever is left in it is nobody's.
        let _ = std::fs::remove_dir_all(&self.spool);
    }
}

/// A result that is small enough to travel: one that is not is a failure, never an error, which would have the program
/// performed again and again.
fn fitting(mut result: EffectResult, limits: EffectLimits) -> EffectResult {
    if let EffectResult::Process(Ok(end)) = &mut result {
        let stdout = end.stdout.as_ref().map_or(0, Vec::len);
        if stdout.saturating_add(end.stderr.len()) > MOST_TRAVELS {
            let stream = if stdout >= end.stderr.len() { Stream::Stdout } else { Stream::Stderr };
            let why = format!(
                "a worker sends at most {} MiB, and `max_output` allows {} bytes",
                MOST_TRAVELS >> 20,
                limits.max_output
            );
            end.ending = ProcessEnding::OutputNotKept(stream, why);
            end.stdout = Ok(Vec::new());
            end.stderr = Vec::new();
        }
    }
    result
}

fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}

/// The time that is left until then.
fn left(until: Millis) -> Duration {
    Duration::from_millis(until.saturating_sub(now()).max(0).unsigned_abs())
}
