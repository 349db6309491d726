//! The coordinator's side: programs of a run are asked for at a Restate server, and what came of them is waited for.
//!
//! Every act has a key, and the server answers the same to the same key. So it does not matter how often it is asked: after
//! a lost connection, a restart of the server or a crash of the coordinator the same request finds what went on meanwhile.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ecow::EcoString;
use threadline_engine::event::Address;
use threadline_engine::execute::effect::{
    Effect, EffectKey, EffectLimits, EffectResult, EffectText, ProcessEnding, ProcessSpec, Role,
};
use threadline_engine::execute::inquiry::{ActNews, Inquiry};
use threadline_flow::fields::{Failure, FailureKind};
use threadline_flow::worker_labels::WorkerLabels;
use threadline_lang::func::percent_encode;
use threadline_lang::{Limits, data};
use threadline_runner::process::{Asked, Control};
use threadline_runner::workplace::{ActWatch, WorkOrder, Workplace};
use threadline_store::StoreError;

use crate::address::ServerAddress;
use crate::blobs::{BlobError, BlobStore};
use crate::bundle::SentBundle;
use crate::bundle::apply::ApplyError;
use crate::bundle::project::SentProject;
use crate::bundle::scan::ScanError;
use crate::key::SharedKey;
use crate::labels::service_of;
use crate::values;
use crate::wire::{
    self, ActRequest, DoneAct, LimitedAct, RequestHead, SentSecret, SentSecrets, WorkerAnswer, WorkerRequest,
};

/// How long the server remembers an act after its end. A worker asks for that when it is registered.
pub(crate) const MEMORY: Duration = Duration::from_hours(7 * 24);

/// What of a service performs an act.
pub(crate) const PERFORM: &str = "v1";

/// What of it ends one.
pub(crate) const CANCEL: &str = "cancel";

/// What is larger stands in a file, so that no message is larger than the server takes.
pub(crate) const MOST_INLINE: usize = 256 << 10;

/// So many programs run at once where nothing else bounds them.
const SIDE_BY_SIDE: usize = 64;

/// The first pause before the same is asked again, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// So long nobody is told that there is no answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// So long one request waits for an answer. Then the same is asked again: nobody is told that a machine on the way lost
/// its power, and asking twice costs nothing.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// The time between two looks whether somebody wants it to end.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// The time that a server has to say that it is there, or to take that something ends.
const SHORT: Duration = Duration::from_secs(5);

/// The time that a worker has for the first act of a run, which does next to nothing.
const PROBE: Duration = Duration::from_secs(20);

/// Why programs cannot be performed elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectError {
    /// The reason in words.
    pub message: String,
    /// How to mend it.
    pub hint: String,
    /// The labels that no worker has.
    pub labels: WorkerLabels,
}

impl ConnectError {
    fn new(message: String, hint: &str) -> Self {
        Self { message, hint: hint.to_owned(), labels: WorkerLabels::default() }
    }
}

/// What workers know of the files of a run.
#[derive(Debug, Clone)]
pub struct FilesOfWorkers {
    /// The folder of the project.
    pub root: PathBuf,
    /// The folder of the store.
    pub store: PathBuf,
    /// The URL of the blob store, when it is not in the folder of the store.
    pub blobs: Option<String>,
    /// Whether they are sent copies of the project, and share no folder.
    pub bundle: bool,
}

/// The folder of blobs in that of the store, where nobody says another place.
pub(crate) const BLOBS: &str = "blobs";

/// Workers, behind a Restate server.
pub struct Remote {
    address: ServerAddress,
    key: SharedKey,
    files: FilesOfWorkers,
    /// The project, when workers do not share its folder.
    sent: Option<SentProject>,
    blobs: BlobStore,
    /// Names this process.
    session: String,
    agent: ureq::Agent,
}

/// Why nobody was asked, or no answer could be used.
enum NotAsked {
    Refused(Failure),
    /// Somebody wants it to end.
    Ended,
}

impl From<NotAsked> for EffectResult {
    fn from(why: NotAsked) -> Self {
        match why {
            NotAsked::Refused(failure) => Self::Refused(failure),
            NotAsked::Ended => Self::Cancelled,
        }
    }
}

/// A service that is asked, and the labels that it is for.
struct AskedService<'l> {
    name: String,
    labels: Option<&'l WorkerLabels>,
}

/// What came of a request.
enum Heard {
    /// The server answered with this status and text.
    Response(u16, String),
    /// There was no answer.
    Nothing(String),
    /// Somebody wants it to end.
    Ended,
}

impl Remote {
    /// Looks whether workers are there that have the key, the folder of the project, and the labels of each of these.
    pub fn connect<'l>(
        address: ServerAddress,
        key: SharedKey,
        files: FilesOfWorkers,
        asked: impl IntoIterator<Item = &'l WorkerLabels>,
    ) -> Result<Self, ConnectError> {
        let agent = agent_for_server();
        let session = uuid::Uuid::new_v4().simple().to_string();
        let blobs = match &files.blobs {
            Some(url) => BlobStore::open(url),
            None => BlobStore::of_folder(&files.store.join(BLOBS)),
        };
        let blobs = blobs.map_err(|error| {
            ConnectError::new(
                error.to_string(),
                "`--blobs URL` names a store that coordinator and workers reach",
            )
        })?;
        let sent = files.bundle.then(|| SentProject::new(&files.root, &files.store, blobs.clone()));
        let remote = Self { address, key, files, sent, blobs, session, agent };
        remote.check_server()?;
        for labels in asked {
            remote.check_worker(labels).map_err(|error| ConnectError { labels: labels.clone(), ..error })?;
        }
        let swept = remote.blobs.clone();
        // Whoever cannot do it now leaves it to others.
        std::thread::spawn(move || drop(swept.sweep()));
        Ok(remote)
    }

    fn check_server(&self) -> Result<(), ConnectError> {
        let health = self.agent.get(self.address.url("/restate/health")).config();
        let answer = health.timeout_global(Some(SHORT)).build().call();
        let why = match answer {
            Ok(answer) if answer.status().is_success() => return Ok(()),
            Ok(answer) => format!("it answers with status {}", answer.status().as_u16()),
            Err(error) => error.to_string(),
        };
        Err(ConnectError::new(
            format!("no Restate server takes requests at `{}`: {why}", self.address),
            "start `restate-server`, give the address of its ingress and not of its admin port, or leave `--on` out",
        ))
    }

    /// Has a worker look for a file that only this project has, or take a copy of the project.
    fn check_worker(&self, labels: &WorkerLabels) -> Result<(), ConnectError> {
        let elsewhere = |message: String, hint: &str| Err(ConnectError::new(message, hint));
        let service = service_of(labels);
        let bundle = match &self.sent {
            None => None,
            Some(sent) => Some(sent.send(&self.files.root, None).map_err(|error| match error {
                ScanError::Project(message) => ConnectError::new(
                    format!("the project cannot be sent to workers: {message}"),
                    "`--bundle` sends what is in the folder of the project and not ignored by git",
                ),
                ScanError::Store(error) => self.not_put(&error),
            })?),
        };
        let FilesOfWorkers { root, store, .. } = &self.files;
        let Ok(inside) = store.strip_prefix(root) else {
            let message = format!("the store `{}` is not in the folder of the project", store.display());
            return elsewhere(message, "workers reach only what is in that folder");
        };
        let name = format!("probe-{}", uuid::Uuid::new_v4().simple());
        let path = store.join(&name);
        if let Err(error) = fs::write(&path, "") {
            return elsewhere(format!("`{}` cannot be written: {error}", path.display()), "make room for it");
        }
        let text = |text: &str| vec![EffectText::Text(text.to_owned())];
        let looked_for = inside.join(&name).display().to_string();
        let spec = ProcessSpec {
            program: text("test"),
            // The store is not in a copy.
            arguments: if bundle.is_some() {
                vec![text("-d"), text(".")]
            } else {
                vec![text("-f"), text(&looked_for)]
            },
            files: Vec::new(),
            env: Vec::new(),
            cwd: None,
            stdin: None,
            reports_usage: false,
            limits: EffectLimits { timeout: Some(PROBE), idle_timeout: None, max_output: 1 << 10 },
        };
        let at = Address::default();
        let key = EffectKey { at, as_of: 0, attempt: 1, role: Role::Act, exchange: 0 };
        let request = ActRequest {
            started: name.clone(),
            not_after: None,
            folder: String::new(),
            key,
            effect: Effect::Process(spec),
            model: None,
            secrets: None,
            values: Vec::new(),
            bundle,
        };
        let request = if self.files.blobs.is_some() {
            // So it is tried at once whether both use the same store.
            let put = self.blobs.put(wire::act_text(&request).as_bytes());
            WorkerRequest::Blob(put.map_err(|error| self.not_put(&error))?)
        } else {
            WorkerRequest::Act(Box::new(request))
        };
        let body = wire::signed(&self.key, &self.head(&service, &name, false), &request);
        let heard = self.post((&service, &name), PERFORM, &body, PROBE);
        let _ = fs::remove_file(&path);
        let at = &self.address;
        let (status, text) = match heard {
            Ok(heard) => heard,
            Err(why) => {
                let message = format!("no worker behind `{at}` answers: {why}");
                return elsewhere(
                    message,
                    "is one of the registered workers running, and reachable for the server?",
                );
            }
        };
        match status {
            200 => {}
            404 if !labels.is_empty() => {
                let message = format!("no worker with the labels `{labels}` is registered at `{at}`");
                return elsewhere(
                    message,
                    "`threadline worker --label NAME=VALUE --register ADMIN_URL ...` starts and registers one",
                );
            }
            404 => {
                let message = format!("no worker is registered at `{at}`");
                return elsewhere(
                    message,
                    "`threadline worker --listen ADDR --register ADMIN_URL --key-file FILE` starts and registers one",
                );
            }
            _ => {
                let message = format!("`{at}` answers with status {status}: {}", first_line(&text));
                return elsewhere(message, "look into the log of the Restate server");
            }
        }
        match wire::read_answer(&text) {
            Ok(WorkerAnswer::Done(done)) if exited(&done.result) == Some(0) => Ok(()),
            Ok(WorkerAnswer::Done(done)) => elsewhere(
                format!(
                    "worker `{}` does not see the folder of this project, `{}`",
                    done.worker,
                    root.display()
                ),
                "all machines share that folder; a worker is told with `--dir` where it has it",
            ),
            Ok(WorkerAnswer::Refused(why)) => elsewhere(
                format!("a worker behind `{at}` refuses the request: {why}"),
                if self.files.blobs.is_some() {
                    "coordinator and workers need the same key, the same blob store (`--blobs`), and versions that know \
                     each other"
                } else {
                    "coordinator and workers need the same key, and versions that know each other"
                },
            ),
            Ok(_) => elsewhere(format!("a worker behind `{at}` did nothing"), "try again"),
            Err(why) => elsewhere(
                format!("a worker behind `{at}` says what is not understood: {why}"),
                "coordinator and workers need versions that know each other",
            ),
        }
    }

    fn not_put(&self, error: &BlobError) -> ConnectError {
        ConnectError::new(
            format!("nothing can be put into `{}`: {error}", self.blobs.url()),
            "the environment of the coordinator says who may use the blob store",
        )
    }

    fn head(&self, service: &str, key: &str, once: bool) -> RequestHead {
        let (session, service) = (self.session.clone(), service.to_owned());
        RequestHead { limit: None, once, session, service, key: key.to_owned() }
    }

    /// What a worker is asked for.
    fn request(&self, act: &WorkOrder<'_>, watch: &ActWatch<'_>) -> Result<WorkerRequest, NotAsked> {
        let refused = |message: String| NotAsked::Refused(Failure::new(FailureKind::Start, message));
        let around = &act.surroundings;
        // A copy is one of the worktree of an item, where it has one.
        let root = if self.sent.is_some() { &around.root } else { &self.files.root };
        let Ok(folder) = around.folder.strip_prefix(root) else {
            let message = format!("its folder `{}` is outside of the project", around.folder.display());
            return Err(refused(message));
        };
        let Some(folder) = folder.to_str() else {
            return Err(refused("the name of its folder is not UTF-8".to_owned()));
        };
        let bundle = match act.effect {
            Effect::Process(_) => self.bundle(act, watch)?,
            _ => None,
        };
        let (mut effect, secrets) = self.without_secrets(act).map_err(refused)?;
        let values = match &mut effect {
            Effect::Process(spec) => {
                let (small, values) = self.patiently(watch, || values::of_program(spec, &self.blobs))?;
                *spec = small;
                values
            }
            _ => Vec::new(),
        };
        let request = ActRequest {
            started: act.started.as_str().to_owned(),
            not_after: act.not_after,
            folder: folder.to_owned(),
            key: act.key.clone(),
            effect,
            model: act.model,
            secrets,
            values,
            bundle,
        };
        let text = wire::act_text(&request);
        if text.len() <= MOST_INLINE {
            return Ok(WorkerRequest::Act(Box::new(request)));
        }
        self.patiently(watch, || self.blobs.put(text.as_bytes())).map(WorkerRequest::Blob)
    }

    /// What is performed, with words in place of secrets, and the secrets without their values.
    fn without_secrets(&self, act: &WorkOrder<'_>) -> Result<(Effect, Option<SentSecrets>), String> {
        let variables = act.surroundings.env.changes();
        let variables = variables
            .map_err(|name| format!("the variable `{}` is not UTF-8, and cannot travel", name.display()))?;
        // What the step says counts more, and comes last.
        let with = |effect: &Effect, variables: Vec<(EcoString, Option<String>)>| {
            let mut effect = effect.clone();
            if let Effect::Process(spec) = &mut effect {
                spec.env.splice(..0, variables);
            }
            effect
        };
        if act.secrets.masks().is_none() {
            return Ok((with(act.effect, variables), None));
        }
        let mut named_variables = variables.clone();
        act.secrets.name_in_variables(&mut named_variables);
        let real = with(act.effect, variables);
        let named = with(act.named.unwrap_or(act.effect), named_variables);
        let travelling = act.secrets.travelling(&real, &named)?;
        let list = travelling.secrets.iter().map(|secret| SentSecret {
            reference: secret.reference.clone(),
            proof: SentSecret::proof_of(&self.key, &secret.reference.name, secret.value),
            is_needed: secret.is_needed,
        });
        let secrets = SentSecrets { nonce: travelling.nonce, list: list.collect() };
        Ok((travelling.effect, Some(secrets).filter(|secrets| !secrets.list.is_empty())))
    }

    /// The project as it is now, where workers do not share its folder.
    fn bundle(&self, act: &WorkOrder<'_>, watch: &ActWatch<'_>) -> Result<Option<SentBundle>, NotAsked> {
        let Some(sent) = &self.sent else { return Ok(None) };
        let run = act.started.as_str();
        let sent = self.patiently(watch, || match sent.send(&act.surroundings.root, Some(run)) {
            Ok(bundle) => Ok(Ok(bundle)),
            Err(ScanError::Project(why)) => Ok(Err(why)),
            Err(ScanError::Store(error)) => Err(error),
        })?;
        sent.map(Some).map_err(|why| {
            let message = format!("the project cannot be sent to workers: {why}");
            NotAsked::Refused(Failure::new(FailureKind::File, message))
        })
    }

    /// Makes what an act changed in its copy of the project in the project.
    fn take_change(&self, act: &WorkOrder<'_>, done: &DoneAct, watch: &ActWatch<'_>) -> Result<(), NotAsked> {
        let refused = |message: String| NotAsked::Refused(Failure::new(FailureKind::File, message));
        if done.change.is_empty() {
            return Ok(());
        }
        let Some(sent) = &self.sent else {
            return Err(refused("the worker changed a copy of the project, and was sent none".to_owned()));
        };
        if let [first, more @ ..] = &done.change.left_out[..] {
            let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
            (watch.tell)(format!(
                "`{first}`{more} stays on worker `{}`: a socket, a pipe or a device is not sent back",
                done.worker
            ));
        }
        let (root, run) = (&act.surroundings.root, act.started.as_str());
        let first = Inquiry::new(act.once, act.repeats).key(act.run.as_str(), act.key);
        let (name, at) = (plain_key(act.run.as_str(), &first), act.key.at.as_str());
        let made = self.patiently(watch, || match sent.change(root, run, (&name, at), &done.change) {
            Ok(()) => Ok(Ok(())),
            Err(ApplyError::Store(error)) => Err(error),
            Err(ApplyError::Conflict(what)) => Ok(Err(format!(
                "what the step wrote is not in the project, because another one wrote the same: {what}; let one run \
                 after the other, or each write files of its own"
            ))),
            Err(ApplyError::Project(why)) => {
                Ok(Err(format!("what the step wrote cannot be put into the project: {why}")))
            }
        })?;
        made.map_err(refused)
    }

    /// Uses the blob store, again and again while it is out of reach: that is nobody's failure.
    fn patiently<T>(
        &self,
        watch: &ActWatch<'_>,
        mut attempt: impl FnMut() -> Result<T, BlobError>,
    ) -> Result<T, NotAsked> {
        let mut was_told = false;
        loop {
            match attempt() {
                Ok(done) => return Ok(done),
                Err(BlobError::Unavailable(why)) => {
                    if !was_told {
                        was_told = true;
                        let store = self.blobs.url();
                        (watch.tell)(format!(
                            "`{store}` cannot be used ({why}); it is tried again until it can"
                        ));
                    }
                    if !wait(LONGEST_PAUSE, watch.control) {
                        return Err(NotAsked::Ended);
                    }
                }
                Err(error) => {
                    return Err(NotAsked::Refused(Failure::new(FailureKind::Start, error.to_string())));
                }
            }
        }
    }

    /// Asks until there is an answer, or until somebody wants it to end.
    fn ask(&self, asked: &AskedService<'_>, key: &str, body: &Arc<str>, watch: &ActWatch<'_>) -> Heard {
        let mut pause = FIRST_PAUSE;
        let mut failing_since = None;
        let mut was_told = false;
        loop {
            let began = Instant::now();
            let why = match self.post_aside((&asked.name, key), body, LONGEST_WAIT, watch.control) {
                Heard::Nothing(_) if began.elapsed() >= LONGEST_WAIT => {
                    match self.knock(&asked.name, watch.control) {
                        // It takes its time, or waits for a slot.
                        Heard::Response(200, _) => continue,
                        Heard::Response(status, text) => format!("status {status}: {}", first_line(&text)),
                        Heard::Nothing(why) => why,
                        Heard::Ended => return Heard::Ended,
                    }
                }
                Heard::Response(status, text) if passes(status) => {
                    format!("status {status}: {}", first_line(&text))
                }
                Heard::Nothing(why) => why,
                heard => return heard,
            };
            // It was under way for a while: this is a new trouble.
            if began.elapsed() > LONGEST_PAUSE {
                (pause, failing_since) = (FIRST_PAUSE, None);
            }
            let since = *failing_since.get_or_insert(began);
            if !was_told && since.elapsed() > PATIENCE {
                was_told = true;
                let who =
                    asked.labels.map_or_else(String::new, |labels| format!(" with the labels `{labels}`"));
                (watch.tell)(format!("no worker{who} answers ({why}); it is asked for again until one does"));
            }
            if !wait(pause, watch.control) {
                return Heard::Ended;
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Whether a worker is there that offers a service: it answers at once to what was given up.
    fn knock(&self, service: &str, control: &Control) -> Heard {
        let key = format!("knock-{}", uuid::Uuid::new_v4().simple());
        let body = wire::signed(&self.key, &self.head(service, &key, false), &WorkerRequest::Abandoned);
        self.post_aside((service, &key), &body.into(), PROBE, control)
    }

    fn post_aside(
        &self,
        (service, key): (&str, &str),
        body: &Arc<str>,
        timeout: Duration,
        control: &Control,
    ) -> Heard {
        let (agent, url) = (self.agent.clone(), self.url((service, key), PERFORM));
        let attach = self.address.url(&format!("/restate/workflow/{service}/{}/attach", in_url(key)));
        let body = Arc::clone(body);
        let ask = move || match post(&agent, &url, &body, Some(timeout))? {
            // It was asked for before, by whoever it was: what comes of it is waited for.
            (409, _) => get(&agent, &attach, timeout),
            answer => Ok(answer),
        };
        match control.child().aside(ask) {
            Ok(Some(Ok((status, text)))) => Heard::Response(status, text),
            Ok(Some(Err(why))) => Heard::Nothing(why),
            Ok(None) if control.asked() != Asked::Nothing => Heard::Ended,
            Ok(None) => Heard::Nothing("the request was cut off".to_owned()),
            Err(error) => Heard::Nothing(error.to_string()),
        }
    }

    fn url(&self, (service, key): (&str, &str), handler: &str) -> String {
        self.address.url(&format!("/{service}/{}/{handler}", in_url(key)))
    }

    fn post(
        &self,
        act: (&str, &str),
        handler: &str,
        body: &str,
        timeout: Duration,
    ) -> Result<(u16, String), String> {
        post(&self.agent, &self.url(act, handler), body, Some(timeout))
    }

    /// Ends an act on whichever worker performs it. One that has not reached the server yet never begins.
    fn cancel(&self, service: &str, key: &str) -> Result<(), String> {
        let abandoned = wire::signed(&self.key, &self.head(service, key, false), &WorkerRequest::Abandoned);
        let handler = format!("{PERFORM}/send");
        let (status, text) = self.post((service, key), &handler, &abandoned, SHORT)?;
        let found = data::json::read_value(&text, &Limits::DEFAULT).ok();
        let found = found.as_ref().and_then(|answer| answer.get("invocationId")?.as_str());
        let Some(invocation) = found else { return Err(format!("status {status}: {}", first_line(&text))) };
        let request = WorkerRequest::Cancel(invocation.to_owned());
        let body = wire::signed(&self.key, &self.head(service, invocation, false), &request);
        let (status, text) = self.post((service, key), CANCEL, &body, SHORT)?;
        match wire::read_answer(&text) {
            Ok(WorkerAnswer::Cancelled) => Ok(()),
            Ok(WorkerAnswer::Refused(why)) => Err(why),
            _ => Err(format!("status {status}: {}", first_line(&text))),
        }
    }

    /// The answer that a response holds.
    fn answer(&self, text: &str, watch: &ActWatch<'_>) -> Result<WorkerAnswer, NotAsked> {
        let wrong = |why: String| {
            let message = format!("the answer of the worker cannot be read: {why}");
            NotAsked::Refused(Failure::new(FailureKind::Start, message))
        };
        let mut answer = wire::read_answer(text).map_err(wrong)?;
        if let WorkerAnswer::Blob(blob) = &answer {
            let text = self.patiently(watch, || self.blobs.get(blob))?;
            let text = String::from_utf8(text).map_err(|error| wrong(error.to_string()))?;
            answer = wire::read_answer(&text).map_err(wrong)?;
        }
        if let WorkerAnswer::Done(done) = &mut answer {
            let DoneAct { result, values, .. } = &mut **done;
            self.patiently(watch, || values::into_result(result, values, &self.blobs))?;
        }
        Ok(answer)
    }
}

impl Workplace for Remote {
    fn perform(&self, act: &WorkOrder<'_>, watch: &mut ActWatch<'_>) -> Result<EffectResult, StoreError> {
        let refused = |message: String| EffectResult::Refused(Failure::new(FailureKind::Start, message));
        let request = match self.request(act, watch) {
            Ok(request) => request,
            Err(why) => return Ok(why.into()),
        };
        let labels = act.labels.filter(|labels| !labels.is_empty());
        let asked = AskedService { name: service_of(&labels.cloned().unwrap_or_default()), labels };
        let limit = act.limit.as_ref().map(|limit| LimitedAct {
            // Which account it is tells nobody without the key.
            name: self.key.sign(format!("limit\n{}", limit.name).as_bytes())[..32].to_owned(),
            run: act.started.as_str().to_owned(),
            most: limit.most,
        });
        let mut inquiry = Inquiry::new(act.once, act.repeats);
        let mut expired = 0;
        loop {
            let run = act.run.as_str();
            let key = plain_key(run, &inquiry.key(run, act.key));
            let head = RequestHead { limit: limit.clone(), ..self.head(&asked.name, &key, act.once) };
            let body: Arc<str> = wire::signed(&self.key, &head, &request).into();
            let answer = match self.ask(&asked, &key, &body, watch) {
                Heard::Response(200, text) => match self.answer(&text, watch) {
                    Ok(answer) => answer,
                    Err(why) => return Ok(why.into()),
                },
                Heard::Response(409, _) => WorkerAnswer::Cancelled,
                Heard::Response(status, text) => {
                    let message = format!("the Restate server refuses it with status {status}");
                    return Ok(refused(format!("{message}: {}", first_line(&text))));
                }
                Heard::Nothing(why) => return Ok(refused(format!("there is no answer: {why}"))),
                Heard::Ended if watch.control.asked() == Asked::Abandon => {
                    return Ok(EffectResult::Cancelled);
                }
                Heard::Ended => {
                    if let Err(why) = self.cancel(&asked.name, &key) {
                        (watch.tell)(format!(
                            "a worker may go on with it, because it could not be told to end: {why}"
                        ));
                    }
                    return Ok(EffectResult::Cancelled);
                }
            };
            let news = match answer {
                WorkerAnswer::Done(done) => match self.take_change(act, &done, watch) {
                    Ok(()) => ActNews::Done(Box::new(done_by(*done))),
                    Err(why) => return Ok(why.into()),
                },
                WorkerAnswer::Cancelled => ActNews::Ended,
                // It was asked for long ago, perhaps by another process, and is asked for anew.
                WorkerAnswer::Expired if expired == 0 => {
                    expired += 1;
                    ActNews::Ended
                }
                WorkerAnswer::Expired => {
                    let message = "the worker refuses it: it seems to be signed long ago, so the clocks of the \
                                   coordinator and of the worker differ";
                    return Ok(refused(message.to_owned()));
                }
                WorkerAnswer::Interrupted(session) => {
                    ActNews::Interrupted { is_new: session == self.session }
                }
                WorkerAnswer::Refused(why) => {
                    return Ok(refused(format!("the worker refuses it: {why}")));
                }
                WorkerAnswer::Blob(_) => {
                    return Ok(refused("the answer of the worker names another one".to_owned()));
                }
            };
            if let Some(result) = inquiry.hear(news, watch.control.asked() != Asked::Nothing) {
                return Ok(result);
            }
        }
    }

    fn looks_up_secrets(&self) -> bool {
        true
    }

    fn remembers(&self) -> Option<Duration> {
        // An hour less, for clocks that differ.
        Some(MEMORY.saturating_sub(Duration::from_hours(1)))
    }

    fn most_at_once(&self) -> usize {
        SIDE_BY_SIDE
    }
}

/// The result with the name of who performed it.
fn done_by(done: DoneAct) -> EffectResult {
    let DoneAct { worker, mut result, leaked, .. } = done;
    let worker = Some(EcoString::from(worker));
    match &mut result {
        EffectResult::Process(Ok(end)) => end.worker = worker,
        EffectResult::Response(Ok(response), _) => response.worker = worker,
        _ => {}
    }
    if leaked.is_empty() { result } else { EffectResult::Leaked(Box::new(result), leaked) }
}

fn exited(result: &EffectResult) -> Option<i32> {
    match result {
        EffectResult::Process(Ok(end)) => match end.ending {
            ProcessEnding::Exited(code) => Some(code),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a status is one of a server or worker that is not there yet, or not there any more.
fn passes(status: u16) -> bool {
    matches!(status, 404 | 408 | 425 | 429 | 500..=599)
}

/// Waits, unless somebody wants it to end before.
fn wait(pause: Duration, control: &Control) -> bool {
    let until = Instant::now() + pause;
    while control.asked() == Asked::Nothing {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(BETWEEN_LOOKS));
    }
    false
}

/// What sends requests to a Restate server.
pub(crate) fn agent_for_server() -> ureq::Agent {
    ureq::Agent::config_builder()
        .proxy(None)
        .user_agent(concat!("threadline/", env!("CARGO_PKG_VERSION")))
        .http_status_as_error(false)
        .max_redirects(0)
        .timeout_connect(Some(SHORT))
        .build()
        .into()
}

pub(crate) fn first_line(text: &str) -> &str {
    let line = text.lines().next().unwrap_or_default();
    line.char_indices().nth(300).map_or(line, |(end, _)| &line[..end])
}

/// Sends a message, and reads the whole answer.
pub(crate) fn post(
    agent: &ureq::Agent,
    url: &str,
    body: &str,
    timeout: Option<Duration>,
) -> Result<(u16, String), String> {
    let request = agent.post(url).header("content-type", "application/json");
    answer_of(request.config().timeout_global(timeout).build().send(body))
}

fn get(agent: &ureq::Agent, url: &str, timeout: Duration) -> Result<(u16, String), String> {
    answer_of(agent.get(url).config().timeout_global(Some(timeout)).build().call())
}

fn answer_of(sent: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<(u16, String), String> {
    let mut response = sent.map_err(|error| error.to_string())?;
    let status = response.status().as_u16();
    let text = response.body_mut().with_config().limit(2 * MOST_INLINE as u64).read_to_string();
    Ok((status, text.map_err(|error| error.to_string())?))
}

/// A key in the path of a URL.
fn in_url(key: &str) -> String {
    let mut encoded = String::new();
    percent_encode(key, &mut encoded);
    encoded
}

/// What the server knows an act by: its key in plain characters, or the hash of a long one.
fn plain_key(run: &str, key: &str) -> String {
    const LONGEST: usize = 200;
    let mut plain = String::with_capacity(key.len());
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/[]#".contains(&byte) {
            plain.push(char::from(byte));
        } else {
            // Writing into a text cannot fail.
            let _ = write!(plain, "%{byte:02X}");
        }
    }
    if plain.len() <= LONGEST { plain } else { format!("{run}/{}", blake3::hash(key.as_bytes()).to_hex()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_plain_and_names_one_act() {
        assert_eq!(plain_key("r", "r/map[0]/1/7/1/act/0/0"), "r/map[0]/1/7/1/act/0/0");
        assert_eq!(plain_key("r", "r/größe x%/1"), "r/gr%C3%B6%C3%9Fe%20x%25/1");
        let long = |last: &str| plain_key("r", &format!("r/{}{last}", "x".repeat(300)));
        assert!(long("1").len() < 100 && long("1").starts_with("r/"));
        assert_ne!(long("1"), long("2"));
    }
}
