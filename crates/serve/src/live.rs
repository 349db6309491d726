//! The events of runs as they come. Of each run that somebody watches, one reader looks for what was written since, however
//! many streams there are; each stream remembers the number of the last event that it sent, and nothing else. So a stream
//! that begins again behind a number misses nothing and repeats nothing, and one whose client is slow costs nothing.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use threadline_engine::event::Seq;
use threadline_inspect::history::time_text;
use threadline_lang::Value;
use threadline_lang::value::JsonStyle;
use threadline_store::{EventMark, JournalReader, RunId};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};

use crate::problem::Problem;
use crate::projects::ServedProject;

/// How often it is looked for events of a run that a process drives, and of one that may be resumed.
const DRIVEN_PAUSE: Duration = Duration::from_millis(100);
const QUIET_PAUSE: Duration = Duration::from_secs(1);

/// How many of the last events are kept in memory for the streams of a run.
const KEPT_EVENTS: usize = 1_024;

/// How many events are sent at once.
const EVENTS_AT_ONCE: u64 = 512;

/// After so long without an event, a line shows that the stream is still there.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// After how many milliseconds a browser connects again.
const RECONNECT: u32 = 1_000;

/// What a stream waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RunMark {
    /// The number of the last event.
    last: Seq,
    /// Whether a process drives the run.
    is_driven: bool,
    /// Whether the run cannot be read any more: somebody has removed it.
    is_gone: bool,
}

/// The runs that somebody watches.
#[derive(Default)]
pub(crate) struct WatchedRuns(Mutex<HashMap<(String, RunId), Weak<LiveRun>>>);

/// A run that somebody watches.
struct LiveRun {
    project: Arc<ServedProject>,
    run: RunId,
    mark: watch::Sender<RunMark>,
    recent: Mutex<RecentEvents>,
}

/// The last events of a run, as they are sent.
#[derive(Default)]
struct RecentEvents {
    lines: VecDeque<String>,
    /// The number of the last of them.
    last: Seq,
}

impl WatchedRuns {
    /// The events of a run behind a number, and those that are still to come.
    pub(crate) fn follow(
        &self,
        project: &Arc<ServedProject>,
        run: &RunId,
        after: Seq,
    ) -> Result<mpsc::Receiver<Bytes>, Problem> {
        let live = self.watch(project, run)?;
        let last = live.mark.borrow().last;
        if after > last {
            return Err(Problem::missing(&format!("run `{run}` has no event {after}"))
                .hint(&format!("its events are 1 to {last}")));
        }
        // A client that reads nothing holds up its own stream after two messages.
        let (sender, lines) = mpsc::channel(1);
        Handle::current().spawn(feed(live, after, sender));
        Ok(lines)
    }

    fn watch(&self, project: &Arc<ServedProject>, run: &RunId) -> Result<Arc<LiveRun>, Problem> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (project.name.clone(), run.clone());
        let live = known.get(&key).and_then(Weak::upgrade);
        if let Some(live) = live.filter(|live| !live.mark.borrow().is_gone) {
            return Ok(live);
        }
        let mark = project.read(run, |reader| mark_of(reader, run))?;
        let recent = RecentEvents { lines: VecDeque::new(), last: mark.last };
        let live = Arc::new(LiveRun {
            project: Arc::clone(project),
            run: run.clone(),
            mark: watch::Sender::new(mark),
            recent: Mutex::new(recent),
        });
        known.retain(|_, live| live.strong_count() > 0);
        known.insert(key, Arc::downgrade(&live));
        Handle::current().spawn(look(Arc::downgrade(&live)));
        Ok(live)
    }
}

fn mark_of(reader: &JournalReader, run: &RunId) -> Result<RunMark, Problem> {
    // Asked first: what a run writes before it ends is there afterwards.
    let is_driven = reader.is_driven(run)?;
    Ok(RunMark { last: reader.run(run)?.events, is_driven, is_gone: false })
}

/// Looks for new events of a run as long as somebody watches it.
async fn look(live: Weak<LiveRun>) {
    loop {
        let Some(watched) = live.upgrade() else { return };
        let looked = tokio::task::spawn_blocking(move || watched.look_once()).await;
        let Ok(Some(is_driven)) = looked else { return };
        tokio::time::sleep(if is_driven { DRIVEN_PAUSE } else { QUIET_PAUSE }).await;
    }
}

impl LiveRun {
    /// Takes what was written since; nothing where the run cannot be read any more, and its streams end.
    fn look_once(&self) -> Option<bool> {
        let known = *self.mark.borrow();
        let found = self.project.read(&self.run, |reader| {
            let mark = mark_of(reader, &self.run)?;
            let mut lines = Vec::new();
            // What is far behind is read by each stream itself.
            if mark.last - known.last <= KEPT_EVENTS as u64 {
                reader
                    .scan_range(&self.run, known.last + 1, mark.last, &[], |mark| lines.push(line(mark)))?;
            }
            Ok((mark, lines))
        });
        let Ok((mark, lines)) = found else {
            self.mark.send_replace(RunMark { is_gone: true, ..known });
            return None;
        };
        {
            let mut recent = self.recent();
            if mark.last - known.last > KEPT_EVENTS as u64 {
                recent.lines.clear();
            }
            recent.lines.extend(lines);
            let surplus = recent.lines.len().saturating_sub(KEPT_EVENTS);
            recent.lines.drain(..surplus);
            recent.last = mark.last;
        }
        self.mark.send_if_modified(|known| std::mem::replace(known, mark) != mark);
        Some(mark.is_driven)
    }

    fn recent(&self) -> MutexGuard<'_, RecentEvents> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Some events behind a number, up to another, and the number of the last of them.
    fn events(&self, after: Seq, to: Seq) -> Result<(Bytes, Seq), Problem> {
        let to = to.min(after + EVENTS_AT_ONCE);
        {
            let recent = self.recent();
            let before = recent.last - recent.lines.len() as u64;
            if after >= before && to <= recent.last {
                let [skip, count] =
                    [after - before, to - after].map(|count| usize::try_from(count).unwrap_or(0));
                let text: String = recent.lines.iter().skip(skip).take(count).map(String::as_str).collect();
                return Ok((text.into(), to));
            }
        }
        let text = self.project.read(&self.run, |reader| {
            let mut text = String::new();
            reader.scan_range(&self.run, after + 1, to, &[], |mark| text.push_str(&line(mark)))?;
            Ok(text)
        })?;
        Ok((text.into(), to))
    }
}

/// An event as it is sent: its number, and what the journal says of it beside its values.
fn line(mark: &EventMark<'_>) -> String {
    let text = |text: Option<&str>| text.map_or(Value::NULL, Value::from);
    let time = mark.time.and_then(|time| time.parse().ok()).map(time_text);
    let data = Value::record([
        ("seq", Value::from(mark.seq)),
        ("time", text(time.as_deref())),
        ("kind", mark.kind.into()),
        ("at", text(mark.address.filter(|at| !at.is_empty()))),
    ]);
    format!("id: {}\ndata: {}\n\n", mark.seq, data.to_json(JsonStyle::Compact))
}

/// Sends the events of a run behind a number, until its client is gone.
async fn feed(live: Arc<LiveRun>, after: Seq, sender: mpsc::Sender<Bytes>) {
    let (mut marks, mut sent, mut told) = (live.mark.subscribe(), after, None);
    let mut begin = format!("retry: {RECONNECT}\n\n");
    loop {
        let mark = *marks.borrow_and_update();
        if mark.is_gone {
            return;
        }
        while sent < mark.last {
            let reading = Arc::clone(&live);
            let read = tokio::task::spawn_blocking(move || reading.events(sent, mark.last)).await;
            let Ok(Ok((lines, last))) = read else { return };
            let lines = if begin.is_empty() { lines } else { [begin.as_bytes(), &lines].concat().into() };
            begin.clear();
            if sender.send(lines).await.is_err() {
                return;
            }
            sent = last;
        }
        // Without a number: it is no event of the journal.
        if told.replace(mark.is_driven) != Some(mark.is_driven) {
            let _ = write!(begin, "event: driven\ndata: {{\"driven\":{}}}\n\n", mark.is_driven);
        }
        if !begin.is_empty() && sender.send(std::mem::take(&mut begin).into()).await.is_err() {
            return;
        }
        tokio::select! {
            changed = marks.changed() => if changed.is_err() { return },
            () = sender.closed() => return,
            () = tokio::time::sleep(HEARTBEAT) => begin.push_str(":\n\n"),
        }
    }
}
