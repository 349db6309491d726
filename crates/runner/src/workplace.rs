//! Where the acts of a run are performed, programs and requests: here, or wherever else somebody performs them.
//!
//! What performs an act knows no run: it is given the program or the request, its surroundings, and a name for what it
//! does. So the driver of a run and a worker on another machine perform acts with the same code.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use threadline_engine::agent::stream;
use threadline_engine::event::Millis;
use threadline_engine::execute::effect::{
    Effect, EffectKey, EffectLimits, EffectResult, EffectText, MAX_USAGE_REPORT, NoResponse, ProcessEnd,
    ProcessSpec, RequestSpec, StartFailure, USAGE_VARIABLE,
};
use threadline_engine::execute::result::Timing;
use threadline_flow::fields::{Failure, FailureKind, ProviderName};
use threadline_flow::shell::quoted;
use threadline_flow::worker_labels::WorkerLabels;
use threadline_store::{RunId, StoreError};

use crate::clock::now;
use crate::http;
use crate::private::PrivateFiles;
use crate::process::{self, ChildEnding, Control, EndedChild, Environment, Spec, StartError, Stdin, Stream};
use crate::secrets::RunSurroundings;
use crate::secrets::masks::Masks;

/// The time between the request to end and force.
const GRACE: Duration = Duration::from_secs(5);

/// Where the acts of a run are performed.
pub trait Workplace: Send + Sync {
    /// Performs an act, or finds what came of it when the same was asked for before.
    fn perform(&self, act: &WorkOrder<'_>, watch: &mut ActWatch<'_>) -> Result<EffectResult, StoreError>;

    /// Whether it looks up secrets itself: then it is told their names, and what it performs is made with those.
    fn looks_up_secrets(&self) -> bool {
        false
    }

    /// How long it remembers what was asked for: so long a run that was killed finds what went on meanwhile. Nothing
    /// where a program ends with the run.
    fn remembers(&self) -> Option<Duration> {
        None
    }

    /// How many programs run at once where nobody says, and nothing else bounds them.
    fn most_at_once(&self) -> usize;
}

/// An act that a run wants to be performed.
pub struct WorkOrder<'a> {
    /// The run that somebody started: processes carry its mark.
    pub started: &'a RunId,
    /// The run whose journal has the execution: the same, or one that it called.
    pub run: &'a RunId,
    /// Names it among all acts of that run.
    pub key: &'a EffectKey,
    /// Whether it may begin at most once.
    pub once: bool,
    /// Whether somebody has decided that what was cut off before may begin again.
    pub repeats: bool,
    /// The time that it may not outlast, of the item, phase, loop or run around it.
    pub not_after: Option<Millis>,
    /// What to perform: a program or a request.
    pub effect: &'a Effect,
    /// The same with words in place of secrets, where it is given some and somebody else looks them up.
    pub named: Option<&'a Effect>,
    /// All secrets of the run.
    pub secrets: &'a RunSurroundings,
    /// Whose model a request asks.
    pub model: Option<ProviderName>,
    /// The limit on how many are performed at once, for all runs.
    pub limit: Option<ActLimit>,
    /// The labels that whoever performs it must have.
    pub labels: Option<&'a WorkerLabels>,
    /// What is around it.
    pub surroundings: &'a ActSurroundings,
}

/// A limit on how many acts are performed at once, whoever drives their runs.
pub struct ActLimit {
    /// What is counted together. It may hold a secret.
    pub name: String,
    /// How many may be performed at once.
    pub most: u64,
}

/// What is around an act, whoever wants it to be performed.
pub struct ActSurroundings {
    /// The project, or the worktree of an item.
    pub root: PathBuf,
    /// The folder of the run; that of the program is relative to it.
    pub folder: PathBuf,
    /// The environment of the run, with its mark.
    pub env: Environment,
    /// The folder for values that the program reads from files.
    pub value_folder: PathBuf,
    /// The folder where output goes that is too large for memory.
    pub spool: PathBuf,
    /// What masks its output as it arrives.
    pub masks: Option<Arc<Masks>>,
}

impl ActSurroundings {
    /// A result with masks in place of secrets.
    pub fn masked(&self, result: EffectResult) -> EffectResult {
        match &self.masks {
            Some(masks) => masks.mask_result(result),
            None => result,
        }
    }
}

/// Is told what a program prints or a server responds, as it comes.
pub type ActPrinter = Box<dyn FnMut(Stream, &[u8]) + Send>;

/// Who watches an act, and ends it.
pub struct ActWatch<'w> {
    /// Ends it.
    pub control: &'w Control,
    /// Is told what comes of it.
    pub print: ActPrinter,
    /// Is told why it has not begun yet.
    pub tell: &'w dyn Fn(String),
}

/// This machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct Here;

impl Workplace for Here {
    fn perform(&self, act: &WorkOrder<'_>, watch: &mut ActWatch<'_>) -> Result<EffectResult, StoreError> {
        let print = std::mem::replace(&mut watch.print, Box::new(|_, _| {}));
        perform_act(act.effect, act.model, act.surroundings, watch.control, print)
    }

    fn most_at_once(&self) -> usize {
        std::thread::available_parallelism().map_or(1, std::num::NonZero::get).max(4)
    }
}

/// Performs an act on this machine, to its end.
pub fn perform_act(
    effect: &Effect,
    model: Option<ProviderName>,
    around: &ActSurroundings,
    control: &Control,
    mut print: ActPrinter,
) -> Result<EffectResult, StoreError> {
    match effect {
        Effect::Process(spec) => perform_process(spec, around, control, &mut *print),
        Effect::Request(spec) => Ok(send_request(spec, model, around, control, print)),
        _ => Ok(EffectResult::Refused(Failure::new(FailureKind::Start, "it is no program and no request"))),
    }
}

/// Sends a request from this machine, and reads the response.
fn send_request(
    spec: &RequestSpec,
    model: Option<ProviderName>,
    around: &ActSurroundings,
    control: &Control,
    mut print: ActPrinter,
) -> EffectResult {
    let clock = Clock::start();
    let limits = http::RequestLimits { timeout: spec.limits.timeout, max_answer: spec.limits.max_output };
    let request = spec.request.clone();
    let send = move || {
        let mut heard = 0;
        http::send(&request, limits, &mut |read| {
            print(Stream::Stdout, &read[std::mem::replace(&mut heard, read.len())..]);
        })
    };
    let response = match control.child().aside(send) {
        Ok(None) => return EffectResult::Cancelled,
        Ok(Some(response)) => response,
        Err(error) => {
            let message = format!("no request can be made: {error}");
            Err(NoResponse::unsent(Failure::new(FailureKind::Http, message)))
        }
    };
    let timing = clock.timing();
    // A secret that came in pieces is found in the whole.
    let response = match model.filter(|_| around.masks.is_some()) {
        Some(model) => response.map(|response| stream::joined(model, response)),
        None => response,
    };
    around.masked(EffectResult::Response(response, timing))
}

/// When something began, on both clocks.
pub(crate) struct Clock {
    started: Millis,
    instant: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { started: now(), instant: Instant::now() }
    }

    pub(crate) fn timing(&self) -> Timing {
        Timing { started: self.started, finished: now(), elapsed: self.instant.elapsed() }
    }
}

/// Runs a program on this machine, to its end.
fn perform_process(
    effect: &ProcessSpec,
    around: &ActSurroundings,
    control: &Control,
    print: &mut dyn FnMut(Stream, &[u8]),
) -> Result<EffectResult, StoreError> {
    let no_file = |message: String| {
        let failure = StartFailure { message, hint: None, is_missing: false, kind: FailureKind::File };
        EffectResult::Process(Err(failure))
    };
    let mut files = PrivateFiles::new(&around.value_folder);
    for content in &effect.files {
        if let Err(error) = files.write(render(content, &files).as_bytes()) {
            check_room(error.kind())?;
            return Ok(no_file(format!("a value for the step could not be written: {error}")));
        }
    }
    let mut report = PrivateFiles::new(&around.value_folder);
    if effect.reports_usage
        && let Err(error) = report.write(b"")
    {
        check_room(error.kind())?;
        return Ok(no_file(format!("the file for what it uses could not be made: {error}")));
    }
    let mut env = around.env.clone();
    env.change(&effect.env);
    if effect.reports_usage {
        env.change(&[(USAGE_VARIABLE.into(), Some(report.path(0)))]);
    }
    env.keep_mark(&around.env);
    let EffectLimits { timeout, idle_timeout, max_output } = effect.limits;
    let spec = Spec {
        program: render(&effect.program, &files).into(),
        args: effect.arguments.iter().map(|word| OsString::from(render(word, &files))).collect(),
        env,
        cwd: folder(&around.folder, effect.cwd.as_deref()),
        stdin: match &effect.stdin {
            Some(text) => Stdin::Bytes(text.as_bytes().into()),
            None => Stdin::Null,
        },
        timeout,
        idle_timeout,
        max_output,
        grace: GRACE,
        spool: around.spool.clone(),
        masks: around.masks.clone(),
    };
    let ended = process::run(&spec, &control.child(), print);
    if let Ok(EndedChild { how: ChildEnding::OutputNotKept(_, kind), .. }) = &ended {
        check_room(*kind)?;
    }
    Ok(match ended {
        Ok(ended) if ended.how == ChildEnding::Cancelled => EffectResult::Cancelled,
        Ok(ended) => {
            let mut end = process_end(&ended);
            end.usage = effect.reports_usage.then(|| report.read_back(MAX_USAGE_REPORT)).map(|read| {
                let masks = around.masks.as_ref();
                read.map(|text| masks.map_or_else(|| text.clone(), |masks| masks.masked_text(&text)))
            });
            let end = EffectResult::Process(Ok(end));
            if ended.secrets.is_empty() { end } else { EffectResult::Leaked(Box::new(end), ended.secrets) }
        }
        Err(error) => EffectResult::Process(Err(StartFailure {
            is_missing: matches!(error, StartError::NotOnPath { .. }),
            message: error.to_string(),
            hint: error.hint(),
            kind: FailureKind::Start,
        })),
    })
}

/// The folder of a step in that of its run.
pub(crate) fn folder(here: &Path, cwd: Option<&str>) -> PathBuf {
    cwd.map_or_else(|| here.to_owned(), |cwd| here.join(cwd))
}

fn render(pieces: &[EffectText], files: &PrivateFiles) -> String {
    let mut text = String::new();
    for piece in pieces {
        match piece {
            EffectText::Text(piece) => text.push_str(piece),
            EffectText::PathOf(file) => text.push_str(&files.path(*file)),
            EffectText::QuotedPathOf(file) => text.push_str(&quoted(&files.path(*file))),
        }
    }
    text
}

/// Fails if there is no room on the disk: that is no failure of a step, and the journal would meet it next.
fn check_room(kind: io::ErrorKind) -> Result<(), StoreError> {
    match kind {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Err(StoreError::Full),
        _ => Ok(()),
    }
}

fn process_end(ended: &EndedChild) -> ProcessEnd {
    ProcessEnd {
        ending: ended.how.into(),
        stdout: ended.stdout.read().map_err(|error| error.to_string()),
        stderr: ended.stderr.read().unwrap_or_default(),
        cpu_time: ended.usage.cpu_time,
        max_memory: ended.usage.max_memory,
        usage: None,
        timing: Timing {
            started: ended.started.as_millisecond(),
            finished: ended.finished.as_millisecond(),
            elapsed: ended.elapsed,
        },
        worker: None,
    }
}
