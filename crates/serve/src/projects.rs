//! The projects that are shown, the readers of their journals, and the runs that were opened last.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use threadline_inspect::history::History;
use threadline_inspect::run_state::RunState;
use threadline_inspect::runs::RunDetails;
use threadline_inspect::timeline::RunTimeline;
use threadline_runner::project::Project;
use threadline_store::{JournalReader, RunId, RunInfo, StoreError};

use crate::problem::Problem;

/// The most readers that are kept open for each project.
const KEPT_READERS: usize = 8;

/// The most events that are kept of runs that were opened, together; the run that was opened last is kept however long it
/// is.
const KEPT_EVENTS: u64 = 1 << 20;

/// The most runs that are kept.
const KEPT_RUNS: usize = 64;

/// A run with no more events than this is read while a list is made; what a longer one says is known a moment later.
const READ_AT_ONCE: u64 = 20_000;

/// The most runs of which it is kept what their events say.
const KEPT_DETAILS: usize = 10_000;

/// A project that is shown.
pub(crate) struct ServedProject {
    /// Its name in paths: that of its folder, of plain letters.
    pub(crate) name: String,
    pub(crate) project: Project,
    /// Readers that nobody uses. Each has a connection of its own, so that requests do not wait for each other.
    readers: Mutex<Vec<JournalReader>>,
    opened: Mutex<Vec<OpenedRun>>,
    details: Mutex<KnownDetails>,
}

/// What the events of runs say of them, as far as they were read.
#[derive(Default)]
struct KnownDetails {
    /// By the run: the number of its events then, and what they said.
    known: HashMap<RunId, (u64, RunDetails)>,
    /// The runs that are being read.
    pending: HashSet<RunId>,
}

/// What happened in a run, as far as it was read.
#[derive(Clone)]
struct OpenedRun {
    run: RunId,
    /// The number of its events when it was looked at last.
    events: u64,
    timeline: Arc<Mutex<Option<RunTimeline>>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ServedProject {
    /// Projects with their names, which are different from each other.
    pub(crate) fn all(projects: Vec<Project>) -> Vec<Arc<Self>> {
        let mut served: Vec<Arc<Self>> = Vec::new();
        for project in projects {
            let plain = plain_name(&project);
            let mut name = plain.clone();
            let mut count = 1;
            while served.iter().any(|known| known.name == name) {
                count += 1;
                name = format!("{plain}-{count}");
            }
            let (readers, opened, details) = (Mutex::default(), Mutex::default(), Mutex::default());
            served.push(Arc::new(Self { name, project, readers, opened, details }));
        }
        served
    }

    /// The folder, for people.
    pub(crate) fn folder(&self) -> String {
        self.project.root().display().to_string()
    }

    /// Calls `read` with a reader of the journal; with none as long as the project has no run.
    pub(crate) fn try_read<T>(
        &self,
        read: impl FnOnce(Option<&JournalReader>) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let opened = match self.kept_reader() {
            Some(reader) => Some(reader),
            None => match JournalReader::open(&self.project.journal()) {
                Ok(reader) => Some(reader),
                Err(StoreError::NoJournal { .. }) => None,
                Err(error) => return Err(error.into()),
            },
        };
        let answer = read(opened.as_ref());
        // One that is too many is closed, and may be closed: it is still that of the journal.
        if let Some(reader) = opened.filter(JournalReader::is_current) {
            let mut kept = locked(&self.readers);
            if kept.len() < KEPT_READERS {
                kept.push(reader);
            }
        }
        answer
    }

    /// A reader that nobody uses. Where somebody has removed the store, what was read of it is forgotten.
    fn kept_reader(&self) -> Option<JournalReader> {
        let mut readers = locked(&self.readers);
        while let Some(reader) = readers.pop() {
            if reader.is_current() {
                return Some(reader);
            }
            locked(&self.opened).clear();
            *locked(&self.details) = KnownDetails::default();
        }
        None
    }

    /// Calls `read` with a reader of the journal, to look for a run.
    pub(crate) fn read<T>(
        &self,
        run: &RunId,
        read: impl FnOnce(&JournalReader) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        self.try_read(|reader| match reader {
            Some(reader) => read(reader),
            None => Err(StoreError::NoSuchRun { name: run.to_string() }.into()),
        })
    }

    /// Opens a run by its whole id, with what happened in it up to now. Requests about one run take turns.
    pub(crate) fn open<T>(
        &self,
        run: &RunId,
        read: impl FnOnce(&History<'_>, &RunTimeline) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        self.read(run, |reader| {
            let info = reader.run(run)?;
            let kept = self.kept(run, info.events);
            let mut timeline = locked(&kept);
            let plan = timeline.as_ref().map(|timeline| Arc::clone(timeline.plan()));
            let history = History::with_plan(reader, info, plan.as_ref())?;
            let timeline = match &mut *timeline {
                Some(timeline) => {
                    timeline.read_on(reader)?;
                    timeline
                }
                nothing => nothing.insert(RunTimeline::read(reader, run, &history.plan)?),
            };
            read(&history, timeline)
        })
    }

    /// What all events of a run say of it. That of a long run may be what was known a moment before, or nothing yet.
    pub(crate) fn details(self: &Arc<Self>, reader: &JournalReader, run: &RunInfo) -> Option<RunDetails> {
        let mut details = locked(&self.details);
        let known = details.known.get(&run.id);
        let earlier = match known {
            Some((events, known)) if *events == run.events => return Some(known.clone()),
            Some((_, earlier)) => Some(earlier.clone()),
            None => None,
        };
        if run.events > READ_AT_ONCE {
            if details.pending.insert(run.id.clone()) {
                let (project, run) = (Arc::clone(self), run.id.clone());
                tokio::task::spawn_blocking(move || project.read_details(&run));
            }
            return earlier;
        }
        drop(details);
        // What is wrong with a run is said where it is opened.
        let read = RunDetails::read(reader, &run.id).ok()?;
        locked(&self.details).keep(&run.id, run.events, &read);
        Some(read)
    }

    fn read_details(&self, run: &RunId) {
        let read = self.open(run, |history, timeline| {
            Ok((timeline.last(), RunDetails::of(history, &RunState::now(timeline))?))
        });
        let mut details = locked(&self.details);
        details.pending.remove(run);
        if let Ok((events, read)) = read {
            details.keep(run, events, &read);
        }
    }

    /// The place of a run among those that were opened. Those that nobody has opened for the longest time make room.
    fn kept(&self, run: &RunId, events: u64) -> Arc<Mutex<Option<RunTimeline>>> {
        let mut opened = locked(&self.opened);
        let known = opened.iter().position(|known| known.run == *run).map(|at| opened.remove(at));
        let timeline = known.map(|known| known.timeline).unwrap_or_default();
        opened.insert(0, OpenedRun { run: run.clone(), events, timeline: Arc::clone(&timeline) });
        let mut room = KEPT_EVENTS;
        let fits = opened.iter().take(KEPT_RUNS).take_while(|known| {
            let left = room.checked_sub(known.events);
            room = left.unwrap_or(0);
            left.is_some()
        });
        let kept = fits.count().max(1);
        opened.truncate(kept);
        timeline
    }
}

impl KnownDetails {
    fn keep(&mut self, run: &RunId, events: u64, details: &RunDetails) {
        if self.known.len() >= KEPT_DETAILS {
            self.known.clear();
        }
        self.known.insert(run.clone(), (events, details.clone()));
    }
}

/// The name of a project in paths.
fn plain_name(project: &Project) -> String {
    let root = PathBuf::from(project.root());
    let name = root.file_name().unwrap_or_default().to_string_lossy();
    let plain = |char: char| if char.is_ascii_alphanumeric() { char.to_ascii_lowercase() } else { '-' };
    let name: String = name.chars().take(60).map(plain).collect();
    let name = name.trim_matches('-');
    if name.is_empty() { "project".to_owned() } else { name.to_owned() }
}
