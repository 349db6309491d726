//! A server that is a program: messages are lines on its stdin and stdout.
//!
//! It runs as every child does, in its own process group and with the mark of its run, on a thread of its own. Another
//! thread writes, so that a server that does not read keeps nobody waiting longer than they want to.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use ecow::EcoString;
use rustix::pipe::{PipeFlags, pipe_with};
use threadline_engine::execute::effect::EffectLimits;
use threadline_engine::execute::result::process_failure;
use threadline_flow::fields::{Failure, FailureKind};
use threadline_lang::Value;

use super::message::{self, Arrived, ExchangeError};
use super::{ServerSurroundings, lock};
use crate::process::{self, ChildEnding, Control, Spec, Stdin, Stream};

/// How long a server whose stdin was closed may take to end by itself.
const FAREWELL: Duration = Duration::from_secs(1);
/// The time between the request to end and force.
const GRACE: Duration = Duration::from_secs(2);
/// A message is at most so long.
const MAX_MESSAGE: usize = 64 << 20;
/// So much of what a server printed to stderr is kept, for the message when it ends.
const LAST_WORDS: usize = 2 << 10;

/// A program that is spoken to.
pub(super) struct Stdio {
    /// What is to be written; nothing once it was asked to end.
    lines: Mutex<Option<mpsc::Sender<String>>>,
    shared: Arc<Conversation>,
    control: Control,
    ended: Mutex<mpsc::Receiver<()>>,
    next: AtomicI64,
}

#[derive(Default)]
struct Conversation {
    /// Who waits for which answer; nobody once it ended.
    waiting: Mutex<PendingReply>,
}

enum PendingReply {
    For(BTreeMap<i64, mpsc::Sender<Result<Value, ExchangeError>>>),
    EndedChild(ExchangeError),
}

impl Default for PendingReply {
    fn default() -> Self {
        Self::For(BTreeMap::new())
    }
}

impl Stdio {
    pub(super) fn start(
        surroundings: &ServerSurroundings,
        name: &str,
        command: &[String],
        env: &[(EcoString, Option<String>)],
        cwd: Option<&str>,
    ) -> Result<Self, ExchangeError> {
        let refused = |error: rustix::io::Errno| {
            ExchangeError::Failure(Failure::new(FailureKind::Start, error.to_string()))
        };
        let (theirs, ours) = pipe_with(PipeFlags::CLOEXEC).map_err(refused)?;
        let mut environment = surroundings.env.clone();
        for (name, value) in env {
            match value {
                Some(value) => environment.set(name.as_str(), value),
                None => environment.remove(name.as_str()),
            }
        }
        environment.mark(&surroundings.run, &format!("servers.{name}"));
        let mut words = command.iter();
        let spec = Spec {
            program: words.next().map(Into::into).unwrap_or_default(),
            args: words.map(Into::into).collect(),
            env: environment,
            cwd: cwd.map_or_else(|| surroundings.here.clone(), |cwd| surroundings.here.join(cwd)),
            stdin: Stdin::Pipe(Arc::new(theirs)),
            timeout: None,
            idle_timeout: None,
            max_output: 0,
            grace: GRACE,
            spool: surroundings.spool.clone(),
            masks: surroundings.masks.clone(),
        };
        let (lines, to_write) = mpsc::channel();
        std::thread::spawn(move || write(ours, &to_write));
        let (shared, control) = (Arc::<Conversation>::default(), surroundings.control.child());
        let (over, ended) = mpsc::channel();
        let (of_thread, to_end, replies) = (Arc::clone(&shared), control.clone(), lines.clone());
        std::thread::spawn(move || {
            serve(&spec, &to_end, &of_thread, &replies);
            // Nobody may wait for it.
            let _ = over.send(());
        });
        let next = AtomicI64::new(1);
        Ok(Self { lines: Mutex::new(Some(lines)), shared, control, ended: Mutex::new(ended), next })
    }

    pub(super) fn request(
        &self,
        method: &str,
        params: Value,
        deadline: Option<Instant>,
    ) -> Result<Value, ExchangeError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = mpsc::channel();
        match &mut *lock(&self.shared.waiting) {
            PendingReply::For(waiting) => waiting.insert(id, sender),
            PendingReply::EndedChild(failed) => return Err(failed.clone()),
        };
        self.write(message::request(id, method, params));
        let answered = match deadline {
            Some(deadline) => answer.recv_timeout(deadline.saturating_duration_since(Instant::now())),
            None => answer.recv().map_err(Into::into),
        };
        answered.unwrap_or_else(|error| {
            if let mpsc::RecvTimeoutError::Timeout = error {
                if let PendingReply::For(waiting) = &mut *lock(&self.shared.waiting) {
                    waiting.remove(&id);
                }
                self.notify("notifications/cancelled", Value::record([("requestId", id.into())]));
                return Err(ExchangeError::Timeout);
            }
            match &*lock(&self.shared.waiting) {
                PendingReply::EndedChild(failed) => Err(failed.clone()),
                PendingReply::For(_) => Err(ExchangeError::Ended("without a word".to_owned())),
            }
        })
    }

    pub(super) fn notify(&self, method: &str, params: Value) {
        self.write(message::notification(method, params));
    }

    fn write(&self, line: String) {
        // One that has ended is noticed where its answers are.
        let _ = lock(&self.lines).as_ref().map(|lines| lines.send(line));
    }

    pub(super) fn lives(&self) -> bool {
        matches!(&*lock(&self.shared.waiting), PendingReply::For(_))
    }

    /// Closes its stdin, which tells a server to end.
    pub(super) fn ask_to_end(&self) {
        // The thread that reads can write, too, so the end is a line of its own.
        let _ = lock(&self.lines).take().map(|lines| lines.send(String::new()));
    }

    /// Waits until it and all that it started is gone, by force if need be.
    pub(super) fn wait_for_end(&self) {
        let ended = lock(&self.ended);
        if ended.recv_timeout(FAREWELL) == Err(mpsc::RecvTimeoutError::Timeout) {
            self.control.cancel();
            // It comes when the child is gone.
            let _ = ended.recv();
        }
    }
}

/// Writes lines until nobody has any, or the server reads no more.
fn write(pipe: OwnedFd, lines: &mpsc::Receiver<String>) {
    let mut pipe = File::from(pipe);
    while let Ok(line) = lines.recv() {
        if line.is_empty() || pipe.write_all(format!("{line}\n").as_bytes()).is_err() {
            return;
        }
    }
}

/// Runs the program, and gives every answer to whoever waits for it.
fn serve(spec: &Spec, control: &Control, shared: &Conversation, replies: &mpsc::Sender<String>) {
    let (mut line, mut words) = (Vec::new(), Vec::new());
    let mut take = |stream: Stream, bytes: &[u8]| match stream {
        Stream::Stderr => {
            words.extend_from_slice(bytes);
            let surplus = words.len().saturating_sub(LAST_WORDS);
            words.drain(..surplus);
        }
        Stream::Stdout => {
            for byte in bytes {
                if *byte != b'\n' {
                    line.push(*byte);
                    continue;
                }
                arrived(&line, shared, replies);
                line.clear();
            }
            if line.len() > MAX_MESSAGE {
                // Whoever waits is told by the end of its channel.
                *lock(&shared.waiting) = PendingReply::EndedChild(ExchangeError::TooLarge(MAX_MESSAGE));
                control.kill();
            }
        }
    };
    let ended = process::run(spec, control, &mut take);
    let failed = match ended {
        Ok(ended) => ExchangeError::Ended(how(ended.how, &words)),
        Err(error) => {
            let hint = error.hint().map_or(String::new(), |hint| format!("; {hint}"));
            ExchangeError::Failure(Failure::new(FailureKind::Start, format!("{error}{hint}")))
        }
    };
    let mut waiting = lock(&shared.waiting);
    if let PendingReply::For(_) = &*waiting {
        // Whoever waits is told by the end of its channel.
        *waiting = PendingReply::EndedChild(failed);
    }
}

fn arrived(line: &[u8], shared: &Conversation, replies: &mpsc::Sender<String>) {
    match message::read(line) {
        Arrived::Answer(id, answer) => {
            let waiting = match &mut *lock(&shared.waiting) {
                PendingReply::For(waiting) => waiting.remove(&id),
                PendingReply::EndedChild(_) => None,
            };
            // Who waited may have left.
            let _ = waiting.map(|waiting| waiting.send(answer));
        }
        Arrived::Unreadable(id, why) => {
            let PendingReply::For(waiting) = &mut *lock(&shared.waiting) else { return };
            // Where it does not say whom it answers, nobody can rely on an answer of their own.
            let failed = match id.filter(|id| waiting.contains_key(id)) {
                Some(id) => waiting.remove(&id).into_iter().collect(),
                None => std::mem::take(waiting).into_values().collect::<Vec<_>>(),
            };
            for call in failed {
                // Who waited may have left.
                let _ = call.send(Err(ExchangeError::Unreadable(why.clone())));
            }
        }
        Arrived::Asked(id, method) => {
            // Nobody writes any more when it is about to end.
            let _ = replies.send(message::reply(id, &method));
        }
        Arrived::Told => {}
    }
}

/// How it ended, and the last line that it printed to stderr.
fn how(how: ChildEnding, words: &[u8]) -> String {
    let how = match how {
        ChildEnding::Exited(0) => "exit code 0".to_owned(),
        how => {
            let limits = EffectLimits { timeout: None, idle_timeout: None, max_output: 0 };
            process_failure(&how.into(), &limits, None).map_or(String::new(), |failure| failure.message)
        }
    };
    let words = String::from_utf8_lossy(words);
    match words.trim().lines().next_back() {
        Some(last) => format!("{how}: {last}"),
        None => how,
    }
}
