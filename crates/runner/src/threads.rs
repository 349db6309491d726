//! Threads of a project: what was said last in each, for the runs that continue it, and who continues it in this run.
//!
//! A thread follows from the journal: what the event of a step has, which continued it last, stands in a file of the
//! store as well, so that it is found without a search and outlives its run. The file is written behind the event, and
//! once more when a run goes on that was killed in between.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use threadline_engine::Hash;
use threadline_engine::event::{Address, ContinuedThread, EventKind, Millis, Seq};
use threadline_engine::replay::output_of;
use threadline_lang::value::JsonStyle;
use threadline_lang::{ComputeError, Limits, Value, data};

use crate::driver::{DriveError, DrivenRun};
use crate::exchanges::ThreadRecord;

/// The threads of a store.
#[derive(Debug, Clone)]
pub struct ThreadFiles {
    folder: PathBuf,
}

/// What was said last in a thread, and by whom.
struct LatestThread {
    /// The run that continued it last.
    run: String,
    event: Seq,
    time: Millis,
    conversation: Value,
}

impl ThreadFiles {
    /// Those of a store.
    pub fn of_store(store: &Path) -> Self {
        Self { folder: store.join("threads") }
    }

    fn read(&self, name: &str) -> io::Result<Option<LatestThread>> {
        let text = match fs::read_to_string(self.file(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text?,
        };
        let unfit = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
        let kept =
            data::json::read_value(&text, &Limits::DEFAULT).map_err(|error| unfit(error.to_string()))?;
        let number = |key: &str| kept.get(key).and_then(Value::as_i64);
        let run = kept.get("run").and_then(Value::as_str).map(str::to_owned);
        let event = number("event").and_then(|event| Seq::try_from(event).ok());
        match (run, event, number("time"), kept.get("conversation")) {
            (Some(run), Some(event), Some(time), Some(conversation)) => {
                Ok(Some(LatestThread { run, event, time, conversation: conversation.clone() }))
            }
            _ => Err(unfit("it is not the file of a thread".to_owned())),
        }
    }

    fn write(&self, name: &str, latest: &LatestThread) -> io::Result<()> {
        let kept = Value::record([
            ("thread", Value::from(name)),
            ("run", latest.run.as_str().into()),
            ("event", latest.event.into()),
            ("time", latest.time.into()),
            ("conversation", latest.conversation.clone()),
        ]);
        fs::create_dir_all(&self.folder)?;
        let file = self.file(name);
        let new = file.with_extension(format!("{}.new", uuid::Uuid::new_v4()));
        let written =
            fs::write(&new, kept.to_json(JsonStyle::Compact)).and_then(|()| fs::rename(&new, &file));
        if written.is_err() {
            let _ = fs::remove_file(&new);
        }
        written
    }

    /// Removes the threads that nobody continued since, or only counts them.
    pub fn remove_unused_since(
        &self,
        since: SystemTime,
        only_count: bool,
    ) -> io::Result<crate::answers::FilesRemoved> {
        crate::answers::remove_unused_since(&self.folder, since, only_count)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{}.json", &Hash::of(name.as_bytes()).to_string()[..32]))
    }
}

/// Which executions of a run continue which threads now.
#[derive(Debug, Default)]
pub(crate) struct ThreadClaims(Mutex<BTreeMap<String, Address>>);

impl ThreadClaims {
    /// Claims a thread for an execution, or says who has it.
    fn claim(&self, name: &str, at: &Address) -> Result<(), Address> {
        let mut claims = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match claims.get(name) {
            Some(holder) if holder != at => Err(holder.clone()),
            _ => {
                claims.insert(name.to_owned(), at.clone());
                Ok(())
            }
        }
    }

    /// An execution is over, or pauses.
    pub(crate) fn release(&self, at: &Address) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|_, holder| holder != at);
    }
}

/// Whether the attempt of an execution is over with an event.
pub(crate) fn ends_attempt(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Finished { .. } | EventKind::Retrying { .. } | EventKind::Unresolved { .. })
}

fn failed(message: String, hint: Option<&str>) -> ComputeError {
    ComputeError::Failed { message, hint: hint.map(str::to_owned) }
}

impl DrivenRun<'_> {
    /// What was said in a thread before an attempt of an execution continues it.
    pub(crate) fn thread(&self, name: &str, at: &Address, attempt: u32) -> Result<Value, ComputeError> {
        if let Err(holder) = self.threads.claim(name, at) {
            let holder = holder.shown(&self.plan);
            let message = format!("the thread `{name}` is continued by `{holder}` at this time");
            let hint =
                "give each its own, as in `thread: review-${item.index}`, or let one wait for the other";
            return Err(failed(message, Some(hint)));
        }
        // Nobody else has said anything in a thread with the name of this run, so there is nothing to record.
        let files = self.exchanges.as_ref().filter(|_| !name.contains(self.journal.run().as_str()));
        let record = files.map(|files| ThreadRecord { files, plan: &self.plan, at, attempt, name });
        if let Some(recorded) = record.as_ref().and_then(ThreadRecord::find) {
            return recorded.map_err(|message| failed(message, None));
        }
        let before =
            self.said_before(name).map_err(|error| failed(format!("the thread `{name}`: {error}"), None))?;
        if let Some(record) = record {
            record.keep(&before).map_err(|message| failed(message, None))?;
        }
        Ok(before)
    }

    /// What this run said last, or what it began with; else what any run said last.
    fn said_before(&self, name: &str) -> Result<Value, String> {
        let in_words = |error: DriveError| match error {
            DriveError::Journal(error) => error.to_string(),
            _ => "the journal cannot be read".to_owned(),
        };
        let files = ThreadFiles::of_store(&self.project.store());
        let latest = files.read(name).map_err(|error| error.to_string())?;
        let own = self.continued_thread(name).map_err(in_words)?;
        let family = self.started.as_str();
        // What a run says that this one calls, or that calls it, is said by one run that somebody started.
        let of_family = latest.as_ref().is_some_and(|latest| {
            latest.run.split('-').next() == Some(family)
                && own.as_ref().is_none_or(|own| latest.run != own.run || latest.event >= own.event)
        });
        if let Some(latest) = latest.as_ref().filter(|_| of_family) {
            return Ok(latest.conversation.clone());
        }
        if let Some(own) = own {
            return Ok(own.conversation);
        }
        if let Some(earlier) = &self.earlier
            && let Some(first) = earlier.first_of_thread(name).map_err(in_words)?
        {
            return Ok(first);
        }
        Ok(latest.map_or(Value::NULL, |latest| latest.conversation))
    }

    /// The thread as this run left it last.
    fn continued_thread(&self, name: &str) -> Result<Option<LatestThread>, DriveError> {
        let Some(seq) = self.thread_event(name) else { return Ok(None) };
        self.wait_synced(seq)?;
        let reader = self.journal.store().reader();
        let event = reader.event(self.journal.run(), seq)?;
        let thread = output_of(&event).and_then(|output| output.thread.as_deref());
        let Some(ContinuedThread { conversation, .. }) = thread else { return Ok(None) };
        let conversation = reader.load(conversation)?;
        let run = self.journal.run().as_str().to_owned();
        Ok(Some(LatestThread { run, event: seq, time: event.time, conversation }))
    }

    /// Lets other runs continue a thread behind an event that is on disk. What is replayed was said before.
    pub(crate) fn publish(&self, at: &Address, name: &str) -> Result<(), DriveError> {
        if self.exchanges.as_ref().is_some_and(|files| files.is_replayed(&self.plan, at)) {
            return Ok(());
        }
        if let Some(latest) = self.continued_thread(name)? {
            self.write_thread(at, name, &latest);
        }
        Ok(())
    }

    fn write_thread(&self, at: &Address, name: &str, latest: &LatestThread) {
        if let Err(error) = ThreadFiles::of_store(&self.project.store()).write(name, latest) {
            let message = format!("other runs cannot continue the thread `{name}` from here: {error}");
            self.warn(at, "thread", message);
        }
    }

    /// Lets other runs continue what this one said before it was killed, unless another one said something since.
    pub(crate) fn publish_again(&self, threads: &[(String, Seq)]) -> Result<(), DriveError> {
        let files = ThreadFiles::of_store(&self.project.store());
        for (name, seq) in threads {
            let Some(own) = self.continued_thread(name)? else { continue };
            let is_known = match files.read(name) {
                Ok(Some(latest)) if latest.run == own.run => latest.event >= *seq,
                Ok(Some(latest)) => latest.time > own.time,
                _ => false,
            };
            if !is_known {
                let event = self.journal.store().reader().event(self.journal.run(), *seq)?;
                self.publish(&event.at, name)?;
            }
        }
        Ok(())
    }
}
