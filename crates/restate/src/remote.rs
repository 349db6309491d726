//! The coordinator's side: programs of a run are asked for at a Restate server, and what came of them is waited for.
//!
//! Every act has a key, and the server answers the same to the same key. So it does not matter how often it is asked: after
//! a lost connection, a restart of the server or a crash of the coordinator the same request finds what went on meanwhile.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ecow::EcoString;
use threadline_engine::event::Address;
use threadline_engine::execute::effect::{
    EffectKey, EffectLimits, EffectResult, EffectText, ProcessEnding, ProcessSpec, Role,
};
use threadline_flow::fields::{Failure, FailureKind};
use threadline_lang::{Limits, data};
use threadline_runner::process::{Asked, Control};
use threadline_runner::workplace::{ActWatch, WorkOrder, Workplace};
use threadline_store::StoreError;

use crate::address::ServerAddress;
use crate::blobs::Blobs;
use crate::key::SharedKey;
use crate::wire::{self, ActRequest, RequestHead, WorkerAnswer, WorkerRequest};

/// How long the server remembers an act after its end. A worker asks for that when it is registered.
pub(crate) const MEMORY: Duration = Duration::from_hours(7 * 24);

/// The service that workers offer.
pub(crate) const SERVICE: &str = "ThreadlineAct";

/// What of it performs a program.
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
}

/// Workers, behind a Restate server.
pub struct Remote {
    address: ServerAddress,
    key: SharedKey,
    /// The folder of the project, which the workers have too.
    root: PathBuf,
    blobs: Blobs,
    /// Names this process.
    session: String,
    agent: ureq::Agent,
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
    /// Looks whether a worker is there that has the key and the folder of the project.
    pub fn connect(
        address: ServerAddress,
        key: SharedKey,
        root: &Path,
        store: &Path,
    ) -> Result<Self, ConnectError> {
        let agent = ureq::Agent::config_builder()
            .proxy(None)
            .user_agent(concat!("threadline/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_connect(Some(SHORT))
            .build()
            .into();
        let session = uuid::Uuid::new_v4().simple().to_string();
        let blobs = Blobs::of_store(store);
        let remote = Self { address, key, root: root.to_owned(), blobs, session, agent };
        remote.check_server()?;
        remote.check_worker(store)?;
        remote.blobs.sweep(MEMORY);
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
        Err(ConnectError {
            message: format!("no Restate server takes requests at `{}`: {why}", self.address),
            hint: "start `restate-server`, give the address of its ingress and not of its admin port, or leave `--on` out"
                .to_owned(),
        })
    }

    /// Has a worker look for a file that only this project has.
    fn check_worker(&self, store: &Path) -> Result<(), ConnectError> {
        let elsewhere = |message: String, hint: &str| Err(ConnectError { message, hint: hint.to_owned() });
        let Ok(inside) = store.strip_prefix(&self.root) else {
            let message = format!("the store `{}` is not in the folder of the project", store.display());
            return elsewhere(message, "workers reach only what is in that folder");
        };
        let name = format!("probe-{}", uuid::Uuid::new_v4().simple());
        let path = store.join(&name);
        if let Err(error) = fs::write(&path, "") {
            return elsewhere(format!("`{}` cannot be written: {error}", path.display()), "make room for it");
        }
        let text = |text: &str| vec![EffectText::Text(text.to_owned())];
        let spec = ProcessSpec {
            program: text("test"),
            arguments: vec![text("-f"), text(&inside.join(&name).display().to_string())],
            files: Vec::new(),
            env: Vec::new(),
            cwd: None,
            stdin: None,
            reports_usage: false,
            limits: EffectLimits { timeout: Some(PROBE), idle_timeout: None, max_output: 1 << 10 },
        };
        let at = Address::default();
        let key = EffectKey { at, as_of: 0, attempt: 1, role: Role::Act, exchange: 0 };
        let started = name.clone();
        let request = ActRequest { started, not_after: None, folder: String::new(), key, spec };
        let body = wire::signed(&self.key, &self.head(&name, false), &WorkerRequest::Act(Box::new(request)));
        let heard = self.post(PERFORM, Some(&name), &body, Some(PROBE));
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
            Ok(WorkerAnswer::Done(_, result)) if exited(&result) == Some(0) => Ok(()),
            Ok(WorkerAnswer::Done(worker, _)) => elsewhere(
                format!(
                    "worker `{worker}` does not see the folder of this project, `{}`",
                    self.root.display()
                ),
                "all machines share that folder; a worker is told with `--dir` where it has it",
            ),
            Ok(WorkerAnswer::Refused(why)) => elsewhere(
                format!("a worker behind `{at}` refuses the request: {why}"),
                "coordinator and workers need the same key, and versions that know each other",
            ),
            Ok(_) => elsewhere(format!("a worker behind `{at}` did nothing"), "try again"),
            Err(why) => elsewhere(
                format!("a worker behind `{at}` says what is not understood: {why}"),
                "coordinator and workers need versions that know each other",
            ),
        }
    }

    fn head(&self, key: &str, once: bool) -> RequestHead {
        RequestHead { once, session: self.session.clone(), key: key.to_owned() }
    }

    /// What a worker is asked for.
    fn request(&self, act: &WorkOrder<'_>) -> Result<WorkerRequest, Failure> {
        let refused = |message: String| Failure::new(FailureKind::Start, message);
        if act.has_secrets {
            let message = "it reads secrets, and these do not travel to workers: let the worker's own environment have \
                           them, or run the workflow without `--on`";
            return Err(refused(message.to_owned()));
        }
        let around = &act.surroundings;
        let Ok(folder) = around.folder.strip_prefix(&self.root) else {
            let message = format!("its folder `{}` is outside of the project", around.folder.display());
            return Err(refused(message));
        };
        let Some(folder) = folder.to_str() else {
            return Err(refused("the name of its folder is not UTF-8".to_owned()));
        };
        let mut spec = act.spec.clone();
        let changes = around.env.changes().map_err(|name| {
            refused(format!("the variable `{}` is not UTF-8, and cannot travel", name.display()))
        })?;
        // What the step says counts more, and comes last.
        spec.env = changes.into_iter().chain(spec.env).collect();
        let request = ActRequest {
            started: act.started.as_str().to_owned(),
            not_after: act.not_after,
            folder: folder.to_owned(),
            key: act.key.clone(),
            spec,
        };
        let text = wire::act_text(&request);
        if text.len() <= MOST_INLINE {
            return Ok(WorkerRequest::Act(Box::new(request)));
        }
        self.blobs.put(&text).map(WorkerRequest::Blob).map_err(refused)
    }

    /// Asks until there is an answer, or until somebody wants it to end.
    fn ask(&self, key: &str, body: &Arc<str>, watch: &ActWatch<'_>) -> Heard {
        let mut pause = FIRST_PAUSE;
        let mut failing_since = None;
        let mut was_told = false;
        loop {
            let began = Instant::now();
            let why = match self.post_aside(key, body, watch.control) {
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
                (watch.tell)(format!("no worker answers ({why}); it is asked for again until one does"));
            }
            if !wait(pause, watch.control) {
                return Heard::Ended;
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn post_aside(&self, key: &str, body: &Arc<str>, control: &Control) -> Heard {
        let (agent, url) = (self.agent.clone(), self.url(PERFORM));
        let (key, body) = (key.to_owned(), Arc::clone(body));
        match control.child().aside(move || post(&agent, &url, Some(&key), &body, None)) {
            Ok(Some(Ok((status, text)))) => Heard::Response(status, text),
            Ok(Some(Err(why))) => Heard::Nothing(why),
            Ok(None) if control.asked() != Asked::Nothing => Heard::Ended,
            Ok(None) => Heard::Nothing("the request was cut off".to_owned()),
            Err(error) => Heard::Nothing(error.to_string()),
        }
    }

    fn url(&self, handler: &str) -> String {
        self.address.url(&format!("/{SERVICE}/{handler}"))
    }

    fn post(
        &self,
        handler: &str,
        key: Option<&str>,
        body: &str,
        timeout: Option<Duration>,
    ) -> Result<(u16, String), String> {
        post(&self.agent, &self.url(handler), key, body, timeout)
    }

    /// Ends an act on whichever worker performs it. One that has not reached the server yet never begins.
    fn cancel(&self, key: &str) -> Result<(), String> {
        let abandoned = wire::signed(&self.key, &self.head(key, false), &WorkerRequest::Abandoned);
        let (status, text) = self.post(&format!("{PERFORM}/send"), Some(key), &abandoned, Some(SHORT))?;
        let found = data::json::read_value(&text, &Limits::DEFAULT).ok();
        let found = found.as_ref().and_then(|answer| answer.get("invocationId")?.as_str());
        let Some(invocation) = found else { return Err(format!("status {status}: {}", first_line(&text))) };
        let request = WorkerRequest::Cancel(invocation.to_owned());
        let (status, text) = self.post(
            CANCEL,
            None,
            &wire::signed(&self.key, &self.head(invocation, false), &request),
            Some(SHORT),
        )?;
        match wire::read_answer(&text) {
            Ok(WorkerAnswer::Cancelled) => Ok(()),
            Ok(WorkerAnswer::Refused(why)) => Err(why),
            _ => Err(format!("status {status}: {}", first_line(&text))),
        }
    }

    /// The answer that a response holds.
    fn answer(&self, text: &str) -> Result<WorkerAnswer, String> {
        match wire::read_answer(text)? {
            WorkerAnswer::Blob(blob) => wire::read_answer(&self.blobs.get(&blob)?),
            answer => Ok(answer),
        }
    }
}

impl Workplace for Remote {
    fn perform(&self, act: &WorkOrder<'_>, watch: &mut ActWatch<'_>) -> Result<EffectResult, StoreError> {
        let refused = |message: String| EffectResult::Refused(Failure::new(FailureKind::Start, message));
        let request = match self.request(act) {
            Ok(request) => request,
            Err(failure) => return Ok(EffectResult::Refused(failure)),
        };
        for again in 0_u32.. {
            let key = act_key(act, again);
            let body: Arc<str> = wire::signed(&self.key, &self.head(&key, act.once), &request).into();
            let answer = match self.ask(&key, &body, watch) {
                Heard::Response(200, text) => self.answer(&text),
                Heard::Response(409, _) => Ok(WorkerAnswer::Cancelled),
                Heard::Response(status, text) => {
                    let message = format!("the Restate server refuses it with status {status}");
                    return Ok(refused(format!("{message}: {}", first_line(&text))));
                }
                Heard::Nothing(why) => Err(why),
                Heard::Ended => {
                    if let Err(why) = self.cancel(&key) {
                        (watch.tell)(format!(
                            "a worker may go on with it, because it could not be told to end: {why}"
                        ));
                    }
                    return Ok(EffectResult::Cancelled);
                }
            };
            let why = match answer {
                Ok(WorkerAnswer::Done(worker, result)) => return Ok(done_by(&worker, *result)),
                Ok(WorkerAnswer::Refused(why)) => {
                    return Ok(refused(format!("the worker refuses it: {why}")));
                }
                Ok(WorkerAnswer::Blob(_)) => {
                    return Ok(refused("the answer of the worker names another one".to_owned()));
                }
                Err(why) => return Ok(refused(format!("the answer of the worker cannot be read: {why}"))),
                Ok(WorkerAnswer::Cancelled) if watch.control.asked() != Asked::Nothing => {
                    return Ok(EffectResult::Cancelled);
                }
                // It was told to end, before or by somebody else: that is no result of the step.
                Ok(WorkerAnswer::Cancelled) => "it was told to end",
                // Somebody has decided about an end that was known before, and about no later one.
                Ok(WorkerAnswer::Interrupted(session)) if session != self.session => {
                    "its worker died while it ran"
                }
                Ok(WorkerAnswer::Interrupted(_)) => {
                    return Ok(EffectResult::Interrupted("its worker died while it ran".to_owned()));
                }
            };
            if act.once && !act.repeats {
                return Ok(EffectResult::Interrupted(why.to_owned()));
            }
        }
        Ok(refused("it was told to end too often".to_owned()))
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
fn done_by(worker: &str, result: EffectResult) -> EffectResult {
    match result {
        EffectResult::Process(Ok(mut end)) => {
            end.worker = Some(EcoString::from(worker));
            EffectResult::Process(Ok(end))
        }
        result => result,
    }
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

fn first_line(text: &str) -> &str {
    let line = text.lines().next().unwrap_or_default();
    line.char_indices().nth(300).map_or(line, |(end, _)| &line[..end])
}

/// Sends a message, and reads the whole answer.
fn post(
    agent: &ureq::Agent,
    url: &str,
    key: Option<&str>,
    body: &str,
    timeout: Option<Duration>,
) -> Result<(u16, String), String> {
    let mut request = agent.post(url).header("content-type", "application/json");
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    let sent = request.config().timeout_global(timeout).build().send(body);
    let mut response = sent.map_err(|error| error.to_string())?;
    let status = response.status().as_u16();
    let text = response.body_mut().with_config().limit(2 * MOST_INLINE as u64).read_to_string();
    Ok((status, text.map_err(|error| error.to_string())?))
}

/// What the server knows an act by. An execution that begins again starts the same address with attempt 1 again, so the
/// event that made it ready is a part of it; and `again` counts how often it was ended before.
fn act_key(act: &WorkOrder<'_>, again: u32) -> String {
    let EffectKey { at, as_of, attempt, role, exchange } = act.key;
    let run = act.run.as_str();
    let key = format!("{run}/{at}/{as_of}/{attempt}/{}/{exchange}/{again}", role.name());
    plain_key(run, &key)
}

/// A key in the characters of a header; a long one by its hash.
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
    fn a_key_fits_into_a_header_and_names_one_act() {
        assert_eq!(plain_key("r", "r/map[0]/1/7/1/act/0/0"), "r/map[0]/1/7/1/act/0/0");
        assert_eq!(plain_key("r", "r/größe x%/1"), "r/gr%C3%B6%C3%9Fe%20x%25/1");
        let long = |last: &str| plain_key("r", &format!("r/{}{last}", "x".repeat(300)));
        assert!(long("1").len() < 100 && long("1").starts_with("r/"));
        assert_ne!(long("1"), long("2"));
    }
}
