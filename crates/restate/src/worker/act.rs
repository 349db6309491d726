//! One act on a worker: what is recorded of it at the Restate server, in which order, and its program.
//!
//! What is recorded has to be the same whenever the server has the handler run again, wherever that is. So the handler
//! decides nothing on the way: it asks for the same entries in the same order, and whatever it has to find out it finds
//! out inside of one of them.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use restate_sdk::context::RequestTarget;
use restate_sdk::endpoint::{ContextInternal, Error};
use restate_sdk::prelude::{
    ContextAwakeables as _, ContextClient as _, ContextSideEffects as _, HandlerError,
};
use restate_sdk::prelude::{RunFuture as _, SharedWorkflowContext, TerminalError, WorkflowContext, workflow};
use restate_sdk::service::macro_support::{ServiceBoxFuture, service_definition};
use restate_sdk::service::{Discoverable, Service, ServiceDefinition};
use threadline_engine::event::Millis;
use threadline_engine::execute::effect::{
    Effect, EffectResult, NoResponse, ProcessEnd, ProcessEnding, ProcessSpec, RequestSpec, USAGE_VARIABLE,
};
use threadline_engine::execute::result::{Timing, timed_out};
use threadline_runner::process::{Asked, Control, Environment};
use threadline_runner::project::STORE;
use threadline_runner::workplace::{ActSurroundings, perform_act};
use tokio::sync::Notify;

use super::WorkerSettings;
use super::limits::{GIVE_BACK, LIMIT, TAKE, waiting_text};
use super::secrets::WorkerSecrets;
use super::slots::FairSlots;
use crate::blobs::{BlobError, BlobStore};
use crate::bundle::copy::{ContentCache, PrivateCopy, make_folder, remove_all};
use crate::bundle::{Bundle, BundleChange, SentBundle};
use crate::key::SharedKey;
use crate::remote::{BLOBS, CANCEL, MOST_INLINE, PERFORM};
use crate::values;
use crate::wire::{self, ActRequest, DoneAct, LimitedAct, RequestRefusal, WorkerAnswer, WorkerRequest, now};

/// The variable that names the act to its program: the same for the same act, however often it is begun.
const ACT_VARIABLE: &str = "THREADLINE_ACT";

/// How long it is tried to keep what a program left, and the pause between.
const KEEPING: Duration = Duration::from_mins(5);
const BETWEEN_TRIES: Duration = Duration::from_secs(2);

/// A service that a worker offers, for what asks for some of its labels. It is a workflow of the Restate server: one is run
/// once for each key, and the key is told to the handler by the server.
#[derive(Clone)]
pub(super) struct ThreadlineAct {
    pub(super) performer: Arc<Performer>,
    /// Its name at the server.
    pub(super) service: Arc<str>,
}

impl ThreadlineAct {
    /// The service under its own name: that of the macro is one name for all.
    pub(super) fn definition(self) -> Result<ServiceDefinition, String> {
        let mut discovery = <Self as Discoverable>::discover();
        discovery.name =
            (*self.service).try_into().map_err(|_| format!("`{}` names no service", self.service))?;
        Ok(service_definition(self, discovery))
    }
}

impl Service for ThreadlineAct {
    type Future = ServiceBoxFuture;

    fn handle(&self, ctx: ContextInternal) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            let handler = ctx.handler_name().to_owned();
            let is_known = handler == PERFORM || handler == CANCEL;
            if !is_known {
                return Err(Error::unknown_handler(ctx.service_name(), &handler));
            }
            let (message, metadata) = ctx.input::<Vec<u8>>().await;
            let done = if handler == PERFORM {
                service.perform((&ctx, metadata).into(), message).await
            } else {
                service.cancel((&ctx, metadata).into(), message).await
            };
            ctx.handle_handler_result(done);
            ctx.end();
            Ok(())
        })
    }
}

#[expect(clippy::unused_async, reason = "a handler is asynchronous, also one that waits for nothing")]
#[workflow(name = "ThreadlineAct")]
impl ThreadlineAct {
    /// Performs an act.
    #[handler(name = "v1")]
    async fn perform(&self, ctx: WorkflowContext<'_>, message: Vec<u8>) -> Result<Vec<u8>, HandlerError> {
        debug_assert_eq!(PERFORM, "v1");
        let head = wire::head(&message);
        // What the server knows it by: it begins nothing twice for the same key.
        let key = ctx.key().to_owned();
        let turn = match &head.limit {
            Some(limit) => self.wait_for_turn(&ctx, limit, &key, &message).await?,
            None => None,
        };
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
        let (performer, of_act) = (Arc::clone(&self.performer), Arc::clone(&state));
        let service = Arc::clone(&self.service);
        let act = ctx.run(move || async move {
            let answer = if began_here {
                performer.answer((&service, &key), &message, of_act).await
            } else {
                wire::answer_text(&WorkerAnswer::Interrupted(head.session))
            };
            Ok(answer.into_bytes())
        });
        let act = act.name("act");
        tokio::pin!(act);
        let done = tokio::select! {
            biased;
            answer = &mut act => Ok(answer?),
            _ = cancelled => {
                state.control.cancel();
                state.wait_until_ended().await;
                Err(TerminalError::new_with_code(409, "cancelled").into())
            }
        };
        if let Some(turn) = turn {
            turn.give_back(&ctx);
        }
        done
    }

    /// Ends what an invocation performs.
    #[handler(name = "cancel")]
    async fn cancel(
        &self,
        ctx: SharedWorkflowContext<'_>,
        message: Vec<u8>,
    ) -> Result<Vec<u8>, HandlerError> {
        debug_assert_eq!(CANCEL, "cancel");
        let invocation = wire::named_invocation(&message);
        let answer = match wire::verified(&self.performer.key, &self.service, &invocation, &message) {
            Ok(WorkerRequest::Cancel(invocation)) => {
                ctx.invocation_handle(invocation).cancel();
                WorkerAnswer::Cancelled
            }
            Ok(_) => WorkerAnswer::Refused("this ends invocations, and performs nothing".to_owned()),
            Err(why) => WorkerAnswer::Refused(why.into()),
        };
        Ok(wire::answer_text(&answer).into_bytes())
    }
}

impl ThreadlineAct {
    /// Waits until fewer acts of a limit are performed. Nobody without the key waits for a turn.
    async fn wait_for_turn(
        &self,
        ctx: &WorkflowContext<'_>,
        limit: &LimitedAct,
        key: &str,
        message: &[u8],
    ) -> Result<Option<LimitTurn>, HandlerError> {
        let is_signed = wire::verified(&self.performer.key, &self.service, key, message).is_ok();
        let waits: bool = ctx.run(|| async move { Ok(is_signed) }).name("waits").await?;
        if !waits {
            return Ok(None);
        }
        let (awakeable, has_turn) = ctx.awakeable::<()>();
        let target = RequestTarget::object(LIMIT, &limit.name, TAKE);
        ctx.request::<Vec<u8>, ()>(target, waiting_text(&awakeable, limit)).send();
        let turn = LimitTurn { limit: limit.name.clone(), awakeable };
        match has_turn.await {
            Ok(()) => Ok(Some(turn)),
            Err(cancelled) => {
                turn.give_back(ctx);
                Err(cancelled.into())
            }
        }
    }
}

/// The turn that an act has, or waits for.
struct LimitTurn {
    limit: String,
    awakeable: String,
}

impl LimitTurn {
    fn give_back(self, ctx: &WorkflowContext<'_>) {
        let target = RequestTarget::object(LIMIT, self.limit, GIVE_BACK);
        ctx.request::<Vec<u8>, ()>(target, self.awakeable.into_bytes()).send();
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
    /// The blob store, opened when it is needed where it is in the folder of the project.
    blobs: OnceLock<BlobStore>,
    /// Whether somebody named the store: only then it can be that of a coordinator elsewhere.
    has_store: bool,
    /// The folder for the files of projects that are not shared.
    cache: PathBuf,
    /// The folder for private copies, which belongs to this worker alone.
    copies: PathBuf,
    /// The environment of the worker, without its key.
    env: Environment,
    /// The folder for values and large outputs, on this machine.
    spool: PathBuf,
    secrets: WorkerSecrets,
    slots: FairSlots,
}

impl Performer {
    pub(super) fn new(settings: &WorkerSettings, identity: &str) -> Result<Self, String> {
        let root = settings.project.canonicalize();
        let root = root.map_err(|error| format!("the folder `{}`: {error}", settings.project.display()))?;
        let mut env = Environment::inherited();
        for name in ["THREADLINE_RUN", USAGE_VARIABLE] {
            env.remove(name);
        }
        if let Some(name) = &settings.key_variable {
            env.remove(name);
        }
        let blobs = OnceLock::new();
        if let Some(url) = &settings.blobs {
            let _ = blobs.set(BlobStore::open(url).map_err(|error| error.to_string())?);
        }
        let copies = settings.cache.join("copies").join(identity);
        // Whoever listened here before is dead.
        if copies.exists() {
            remove_all(&copies);
        }
        let spool = std::env::temp_dir().join(format!("threadline-worker-{}", uuid::Uuid::new_v4().simple()));
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&spool)
            .map_err(|error| format!("the folder `{}`: {error}", spool.display()))?;
        Ok(Self {
            key: settings.key.clone(),
            name: settings.name.clone(),
            blobs,
            has_store: settings.blobs.is_some(),
            cache: settings.cache.clone(),
            copies,
            root,
            env,
            spool,
            secrets: WorkerSecrets::default(),
            slots: FairSlots::new(settings.slots),
        })
    }

    /// Performs what a message asks for, as soon as there is a slot for it.
    async fn answer(
        self: Arc<Self>,
        (service, key): (&Arc<str>, &str),
        message: &[u8],
        state: Arc<ActState>,
    ) -> String {
        let reader = Arc::clone(&self);
        let (of_service, of_key, of_message) = (Arc::clone(service), key.to_owned(), message.to_owned());
        let request = move || reader.request(&of_service, &of_key, &of_message);
        let request = tokio::task::spawn_blocking(request).await;
        let act = match request.unwrap_or_else(|error| Err(error.to_string().into())) {
            Ok(Some(act)) => act,
            Ok(None) => return wire::answer_text(&WorkerAnswer::Cancelled),
            Err(RequestRefusal::Expired) => return wire::answer_text(&WorkerAnswer::Expired),
            Err(RequestRefusal::Wrong(why)) => return wire::answer_text(&WorkerAnswer::Refused(why)),
        };
        let waiting = self.slots.take(&act.started);
        let slot = match act.not_after {
            Some(until) => tokio::time::timeout(left(until), waiting).await.ok(),
            None => Some(waiting.await),
        };
        let Some(slot) = slot else { return wire::answer_text(&self.too_late(&act.effect)) };
        state.runs.store(true, Ordering::SeqCst);
        let _guard = EndWhenDropped(Arc::clone(&state));
        let key = key.to_owned();
        let performed = tokio::task::spawn_blocking(move || {
            let _slot = slot;
            let said = SayEnded(Arc::clone(&state));
            let answer = self.perform(&key, act, &state.control);
            let text = self.text_of(answer, &state.control);
            drop(said);
            text
        });
        performed.await.unwrap_or_else(|error| {
            wire::answer_text(&WorkerAnswer::Refused(format!("performing it failed: {error}")))
        })
    }

    /// The act that a message asks for; none where it was given up before.
    fn request(
        &self,
        service: &str,
        key: &str,
        message: &[u8],
    ) -> Result<Option<ActRequest>, RequestRefusal> {
        match wire::verified(&self.key, service, key, message)? {
            WorkerRequest::Act(act) => Ok(Some(*act)),
            WorkerRequest::Blob(blob) => {
                let text = self.blobs()?.get(&blob).map_err(|error| self.of_store(&error))?;
                let text = String::from_utf8(text).map_err(|error| error.to_string())?;
                Ok(wire::read_act_text(&text).map(Some)?)
            }
            WorkerRequest::Abandoned => Ok(None),
            WorkerRequest::Cancel(_) => Err("this performs programs, and ends none".to_owned().into()),
        }
    }

    fn blobs(&self) -> Result<&BlobStore, String> {
        if let Some(blobs) = self.blobs.get() {
            return Ok(blobs);
        }
        let opened = BlobStore::of_folder(&self.root.join(STORE).join(BLOBS));
        let opened = opened.map_err(|error| error.to_string())?;
        Ok(self.blobs.get_or_init(|| opened))
    }

    /// An error of the blob store, with the store: coordinator and worker may mean different ones.
    fn of_store(&self, error: &BlobError) -> String {
        let url = self.blobs.get().map(BlobStore::url).unwrap_or_default();
        format!("{error} (its blob store is `{url}`)")
    }

    fn perform(&self, key: &str, act: ActRequest, control: &Control) -> WorkerAnswer {
        let ActRequest { started, not_after, folder, key: of, mut effect, model, secrets, values, bundle } =
            act;
        if !values.is_empty()
            && let Effect::Process(spec) = &mut effect
        {
            let given = self.blobs().and_then(|blobs| values::into_program(spec, &values, blobs));
            if let Err(why) = given {
                return WorkerAnswer::Refused(why);
            }
        }
        let inside = Path::new(&folder).components().all(|part| matches!(part, Component::Normal(_)));
        if !inside {
            return WorkerAnswer::Refused(format!("its folder `{folder}` is not in the project"));
        }
        let copy = match bundle.map(|bundle| self.copy(&bundle, control)).transpose() {
            Ok(copy) => copy,
            Err(why) => return WorkerAnswer::Refused(why),
        };
        if let Some(until) = not_after {
            let left = left(until);
            if left.is_zero() {
                return self.too_late(&effect);
            }
            if let Effect::Process(ProcessSpec { limits, .. }) | Effect::Request(RequestSpec { limits, .. }) =
                &mut effect
            {
                limits.timeout = Some(limits.timeout.map_or(left, |own: Duration| own.min(left)));
            }
        }
        let root = copy.as_ref().map_or(self.root.as_path(), PrivateCopy::root).to_owned();
        let folder = root.join(folder);
        let given = secrets.map_or(Ok(None), |secrets| {
            self.secrets.put_in_place(&mut effect, &secrets, &self.key, (&folder, &self.env))
        });
        let masks = match given {
            Ok(masks) => masks,
            Err(why) => return WorkerAnswer::Refused(why),
        };
        let mut env = self.env.clone();
        env.set(ACT_VARIABLE, key);
        env.mark(&started, of.at.as_str());
        let (value_folder, spool) = (self.value_folder(masks.is_some()), self.spool.clone());
        let surroundings = ActSurroundings { root, folder, env, value_folder, spool, masks };
        match perform_act(&effect, model, &surroundings, control, Box::new(|_, _| {})) {
            Ok(EffectResult::Cancelled) => WorkerAnswer::Cancelled,
            Ok(result) => {
                let result = surroundings.masked(result);
                match copy.map(|copy| self.patiently(control, |blobs| copy.change(blobs))).transpose() {
                    Ok(change) => self.done(result, change.unwrap_or_default()),
                    Err(why) => WorkerAnswer::Refused(format!("what it wrote could not be kept: {why}")),
                }
            }
            Err(error) => WorkerAnswer::Refused(error.to_string()),
        }
    }

    /// The time around the act was over before it began.
    fn too_late(&self, effect: &Effect) -> WorkerAnswer {
        let now = now();
        let timing = Timing { started: now, finished: now, elapsed: Duration::ZERO };
        if let Effect::Request(spec) = effect {
            let never = NoResponse::unsent(timed_out(spec.limits.timeout, None));
            return self.done(EffectResult::Response(Err(never), timing), BundleChange::default());
        }
        let end = ProcessEnd {
            ending: ProcessEnding::TimedOut,
            stdout: Ok(Vec::new()),
            stderr: Vec::new(),
            cpu_time: Duration::ZERO,
            max_memory: 0,
            usage: None,
            timing,
            worker: None,
        };
        self.done(EffectResult::Process(Ok(end)), BundleChange::default())
    }

    fn done(&self, result: EffectResult, change: BundleChange) -> WorkerAnswer {
        let (worker, values) = (self.name.clone(), Vec::new());
        let (result, leaked) = result.split_leaked();
        WorkerAnswer::Done(Box::new(DoneAct { worker, result, leaked, values, change }))
    }

    /// The folder for values that a program reads from files. Secrets are not written to a disk where that can be avoided.
    fn value_folder(&self, has_secrets: bool) -> PathBuf {
        let memory = Path::new("/dev/shm");
        if has_secrets && memory.is_dir() { memory.to_owned() } else { self.spool.clone() }
    }

    /// A private copy of a project.
    fn copy(&self, sent: &SentBundle, control: &Control) -> Result<PrivateCopy, String> {
        if !self.has_store {
            return Err("it has no blob store, and so no way to the files of the project: start it with `--blobs URL`"
                .to_owned());
        }
        own_folder(&self.cache)?;
        make_folder(&self.copies)?;
        let cache = ContentCache::open(&self.cache.join("content"))?;
        let list = self.patiently(control, |blobs| blobs.get(&sent.list))?;
        let list = String::from_utf8(list).map_err(|error| error.to_string())?;
        let bundle = Bundle::read(&list)?;
        self.patiently(control, |blobs| {
            PrivateCopy::make(&self.copies, &sent.name, bundle.clone(), &cache, blobs, &self.env)
        })
    }

    /// Removes what nobody needs any more.
    pub(super) fn sweep_cache(&self) {
        let folder = self.cache.join("content");
        if let (true, Ok(cache)) = (folder.is_dir(), ContentCache::open(&folder)) {
            cache.sweep();
        }
    }

    /// An answer as text, or where that is written if it is too large for a message.
    fn text_of(&self, mut answer: WorkerAnswer, control: &Control) -> String {
        let not_kept = |why: String| {
            wire::answer_text(&WorkerAnswer::Refused(format!("what it left could not be kept: {why}")))
        };
        if let WorkerAnswer::Done(done) = &mut answer
            && values::has_large(&mut done.result)
        {
            let DoneAct { result, values, .. } = &mut **done;
            match self.patiently(control, |blobs| values::of_result(result, blobs)) {
                Ok(large) => *values = large,
                Err(why) => return not_kept(why),
            }
        }
        let text = wire::answer_text(&answer);
        if text.len() <= MOST_INLINE {
            return text;
        }
        match self.patiently(control, |blobs| blobs.put(text.as_bytes())) {
            Ok(blob) => wire::answer_text(&WorkerAnswer::Blob(blob)),
            Err(why) => not_kept(why),
        }
    }

    /// Uses the blob store, again and again for a while: what a program did should not be lost because it is out of reach.
    fn patiently<T>(
        &self,
        control: &Control,
        mut attempt: impl FnMut(&BlobStore) -> Result<T, BlobError>,
    ) -> Result<T, String> {
        let began = Instant::now();
        loop {
            match attempt(self.blobs()?) {
                Ok(done) => return Ok(done),
                Err(BlobError::Unavailable(_))
                    if began.elapsed() < KEEPING && control.asked() == Asked::Nothing =>
                {
                    std::thread::sleep(BETWEEN_TRIES);
                }
                Err(error) => return Err(self.of_store(&error)),
            }
        }
    }
}

impl Drop for Performer {
    fn drop(&mut self) {
        // Whatever is left in it is nobody's.
        let _ = std::fs::remove_dir_all(&self.spool);
    }
}

/// Makes the folder of a cache, or fails if it is somebody else's: what is in it becomes files of projects.
fn own_folder(folder: &Path) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt as _;
    make_folder(folder)?;
    let found = std::fs::metadata(folder).map_err(|error| format!("`{}`: {error}", folder.display()))?;
    let is_own = found.uid() == rustix::process::getuid().as_raw() && found.mode() & 0o022 == 0;
    if is_own {
        return Ok(());
    }
    Err(format!("others can write into the cache `{}`: name another folder with `--cache`", folder.display()))
}

/// The time that is left until then.
fn left(until: Millis) -> Duration {
    Duration::from_millis(until.saturating_sub(now()).max(0).unsigned_abs())
}
