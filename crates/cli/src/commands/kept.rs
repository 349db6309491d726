//! Runs whose journals are in a blob store: found there, brought into a journal of this machine, shown from it, handed
//! over to workers, and stopped.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use threadline_engine::event::RemoteService;
use threadline_runner::driver::Stop;
use threadline_runner::process::Control;
use threadline_store::{JournalReader, ReplicaNotice, ReplicaWatch, RunId, SegmentEnd, Store};

#[cfg(feature = "restate")]
pub(super) use self::built::coordinator;
pub(super) use self::built::{KeptRuns, end_with_worker};
use super::history::{self, of_store};
use crate::arguments::{KeptArguments, StoredRunArguments};
use crate::exit::CommandFailure;
use crate::report::{self, Report};

/// How often a run in this project is looked at, and one in a blob store.
const POLL: Duration = Duration::from_millis(100);
const POLL_ELSEWHERE: Duration = Duration::from_secs(1);

/// Runs that can be shown: those of a project, or one of a blob store.
pub(super) struct StoredRuns {
    reader: JournalReader,
    kept: Option<ImportedRun>,
}

/// A run of a blob store, and the journal of this machine that it was brought into.
struct ImportedRun {
    runs: KeptRuns,
    store: Store,
    run: RunId,
}

impl Deref for StoredRuns {
    type Target = JournalReader;

    fn deref(&self) -> &JournalReader {
        &self.reader
    }
}

/// The run that somebody names, and whatever it is read from.
pub(super) fn stored(which: &StoredRunArguments) -> Result<StoredRuns, CommandFailure> {
    let Some(runs) = KeptRuns::of(&which.kept)? else {
        return Ok(StoredRuns { reader: history::reader(which.dir.as_deref())?, kept: None });
    };
    let run = runs.find(&which.run)?;
    let store = runs.open_cache()?;
    let kept = ImportedRun { runs, store, run };
    let stored = StoredRuns { reader: kept.store.reader().clone(), kept: Some(kept) };
    stored.refresh()?;
    stored.tell_failure()?;
    Ok(stored)
}

impl StoredRuns {
    /// Brings what happened since here, if it is kept elsewhere.
    pub(super) fn refresh(&self) -> Result<(), CommandFailure> {
        self.kept.as_ref().map_or(Ok(()), |ImportedRun { runs, store, run }| {
            let is_driven = runs.is_driven(run)?;
            runs.import(store, run)?;
            self.reader.note_driven(run, is_driven);
            Ok(())
        })
    }

    /// Says why nobody drives a run that has not ended, if a worker could not.
    fn tell_failure(&self) -> Result<(), CommandFailure> {
        let Some(ImportedRun { runs, run, .. }) = &self.kept else { return Ok(()) };
        let status = self.reader.run(run).map_err(|error| of_store(&error))?.status;
        if status == "running"
            && let Some(failure) = runs.failure(run)?
        {
            report::print_note(&failure);
        }
        Ok(())
    }

    /// What names the run in them that somebody wants.
    pub(super) fn name<'n>(&'n self, which: &'n StoredRunArguments) -> &'n str {
        match &self.kept {
            // A called run was brought here with the one that somebody started.
            Some(kept) if !which.run.contains('-') => kept.run.as_str(),
            _ => &which.run,
        }
    }

    /// The time between two looks.
    pub(super) fn pause(&self) -> Duration {
        if self.kept.is_some() { POLL_ELSEWHERE } else { POLL }
    }

    /// The arguments that name the same runs, behind a command.
    pub(super) fn arguments(&self) -> String {
        self.kept.as_ref().map_or(String::new(), |kept| kept.runs.arguments())
    }
}

/// Brings a run here that somebody wants to go on with. One of which nothing is kept is another one.
pub(super) fn bring(kept: &KeptRuns, store: &Store, run: &RunId) -> Result<SegmentEnd, CommandFailure> {
    let end = kept.import(store, run)?;
    if end != SegmentEnd::none() {
        return Ok(end);
    }
    let message = format!("the blob store has nothing of run `{run}`");
    let hint = "give `--blobs` the store that the run began with";
    Err(CommandFailure::NotStarted(vec![Report::with_hint(message, hint)]))
}

/// Who watches the replica of a run that this process drives: it says when the run waits, and ends what it does when
/// another process drives the run.
pub(super) fn watch(control: &Control, stop: &Stop) -> ReplicaWatch {
    let (of_fence, of_patience, stop) = (control.clone(), control.clone(), stop.clone());
    ReplicaWatch {
        owner: format!("{}/{}", built::machine_name(), uuid::Uuid::new_v4().simple()),
        tell: Box::new(move |notice| match notice {
            ReplicaNotice::Waits(why) => {
                report::print_note(&format!("the run waits, because its journal cannot be kept: {why}"));
            }
            ReplicaNotice::GoesOn => report::print_note("the journal can be kept again: the run goes on"),
            ReplicaNotice::Fenced => {
                of_fence.abandon();
                stop.ask();
            }
        }),
        gives_up: Box::new(move || of_patience.asked() != threadline_runner::process::Asked::Nothing),
    }
}

#[cfg(feature = "restate")]
mod built {
    use std::path::Path;
    use std::time::Duration;

    use threadline_engine::event::KeySource;
    use threadline_restate::address::ServerAddress;
    use threadline_restate::blobs::{BlobError, BlobStore};
    use threadline_restate::detached::{DetachedRun, DetachedRuns, DetachedState};
    use threadline_restate::key::SharedKey;
    use threadline_restate::segments::{BlobSegments, can_have_runs, kept_runs};
    use threadline_restate::worker::CoordinatorCommand;
    use threadline_store::{SegmentStore, Seq, StoreError};

    use super::{
        Arc, CommandFailure, KeptArguments, POLL_ELSEWHERE, PathBuf, RemoteService, Report, RunId,
        SegmentEnd, Store, history, of_store,
    };
    use crate::arguments::WorkerArguments;
    use crate::commands::elsewhere::{key_source, read_key, without_key};

    /// For how long somebody waits who finds another process at work on the same run.
    const MOST_TRIES: u32 = 500;

    /// Brings a run here that this process drives, or is about to: one that is driven here already is a failure.
    fn import(store: &Store, run: &RunId, segments: &dyn SegmentStore) -> Result<SegmentEnd, CommandFailure> {
        let mut tries = 0;
        loop {
            match store.import(run, segments) {
                Err(StoreError::Busy { .. }) if tries < MOST_TRIES => {
                    tries += 1;
                    std::thread::sleep(Duration::from_millis(10));
                }
                imported => return imported.map_err(|error| of_store(&error)),
            }
        }
    }

    /// The folder of this machine for journals of a blob store.
    fn cache_folder(url: &str) -> Result<PathBuf, CommandFailure> {
        let variable =
            |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
        let Some(cache) = cache else {
            let message = "there is no folder for journals of other machines";
            let hint = "set `XDG_CACHE_HOME` or `HOME` to an absolute path";
            return Err(CommandFailure::NotStarted(vec![Report::with_hint(message, hint)]));
        };
        let hash = threadline_engine::Hash::of(url.as_bytes()).to_string();
        Ok(cache.join("threadline").join("runs").join(&hash[..16]))
    }

    pub(super) fn machine_name() -> String {
        threadline_restate::worker::machine_name()
    }

    pub(crate) fn end_with_worker() {
        threadline_restate::worker::end_with_worker();
    }

    /// The runs of a blob store.
    pub(crate) struct KeptRuns {
        blobs: BlobStore,
        key: SharedKey,
        key_source: KeySource,
        /// Where workers drive them, if somebody says that.
        on: Option<(String, DetachedRuns)>,
    }

    fn of_blobs(error: &BlobError) -> CommandFailure {
        CommandFailure::NotStarted(vec![match error {
            BlobError::Address(_) => Report::plain(error),
            _ => Report::with_hint(error, "is `--blobs` the store of these runs, and may this user read it?"),
        }])
    }

    fn of_server(why: &str) -> CommandFailure {
        CommandFailure::NotStarted(vec![Report::plain(why)])
    }

    impl KeptRuns {
        /// Those that a command names; none where it is about the project.
        pub(crate) fn of(kept: &KeptArguments) -> Result<Option<Self>, CommandFailure> {
            let key = key_source(&kept.key);
            let Some(url) = &kept.blobs else {
                return match (&kept.on, key) {
                    (None, None) => Ok(None),
                    (Some(_), _) => Err(CommandFailure::Usage("`--on` needs `--blobs`".to_owned())),
                    (None, Some(_)) => {
                        Err(CommandFailure::Usage("a key is used only with `--blobs`".to_owned()))
                    }
                };
            };
            let key = key.ok_or_else(|| without_key("--blobs"))?;
            if !can_have_runs(url) {
                return Err(CommandFailure::NotStarted(vec![Report::plain(format!(
                    "there is no blob store at `{url}`"
                ))]));
            }
            Self::open(url, &key, kept.on.as_deref()).map(Some)
        }

        /// Those of a run that is replicated; none for other runs.
        pub(crate) fn of_service(service: Option<&RemoteService>) -> Result<Option<Self>, CommandFailure> {
            match service {
                Some(RemoteService { address, key, blobs: Some(url), replicated: true, .. }) => {
                    Self::open(url, key, Some(address)).map(Some)
                }
                _ => Ok(None),
            }
        }

        fn open(url: &str, key_source: &KeySource, on: Option<&str>) -> Result<Self, CommandFailure> {
            let key = read_key(key_source)?;
            let on = on.map(|address| -> Result<_, CommandFailure> {
                let server = ServerAddress::parse(address).map_err(CommandFailure::Usage)?;
                Ok((address.to_owned(), DetachedRuns::new(server, key.clone())))
            });
            let blobs = BlobStore::open(url).map_err(|error| of_blobs(&error))?;
            Ok(Self { blobs, key, key_source: key_source.clone(), on: on.transpose()? })
        }

        /// The journal of this machine for these runs.
        pub(crate) fn open_cache(&self) -> Result<Store, CommandFailure> {
            Store::open(&self.cache()?).map_err(|error| of_store(&error))
        }

        /// The folder of that.
        pub(crate) fn cache(&self) -> Result<PathBuf, CommandFailure> {
            cache_folder(self.blobs.url())
        }

        /// The segments of a run.
        pub(crate) fn segments(&self, run: &RunId) -> Arc<dyn SegmentStore> {
            Arc::new(BlobSegments::new(self.blobs.clone(), self.key.clone(), run.clone()))
        }

        /// All of them, the newest first.
        pub(crate) fn all(&self) -> Result<Vec<RunId>, CommandFailure> {
            kept_runs(&self.blobs).map_err(|error| of_blobs(&error))
        }

        /// The run with this id or prefix, or the newest by `last`. That of a called run names the run that it is a part
        /// of.
        pub(crate) fn find(&self, name: &str) -> Result<RunId, CommandFailure> {
            let all = self.all()?;
            let missing = || of_store(&StoreError::NoSuchRun { name: name.chars().take(80).collect() });
            if name == "last" {
                let nothing = || format!("there is no run in the blob store `{}` yet", self.blobs.url());
                return all.into_iter().next().ok_or_else(|| history::cannot_start(&nothing()));
            }
            let started = name.split_once('-').map_or(name, |(started, _)| started);
            let mut found: Vec<RunId> =
                all.into_iter().filter(|run| run.as_str().starts_with(started)).collect();
            if let Some(exact) = found.iter().position(|run| run.as_str() == started) {
                return Ok(found.swap_remove(exact));
            }
            if found.len() > 1 {
                let name = name.to_owned();
                return Err(of_store(&StoreError::Ambiguous { name, runs: found }));
            }
            found.pop().ok_or_else(missing)
        }

        /// Whether a worker drives a run. Nobody knows where nobody says which server to ask.
        pub(crate) fn is_driven(&self, run: &RunId) -> Result<bool, CommandFailure> {
            let Some((_, server)) = &self.on else { return Ok(false) };
            Ok(server.state(run).map_err(|why| of_server(&why))? == DetachedState::Going)
        }

        /// Brings a run into a journal of this machine.
        pub(crate) fn import(&self, store: &Store, run: &RunId) -> Result<SegmentEnd, CommandFailure> {
            import(store, run, &*self.segments(run))
        }

        /// Hands a run over to workers.
        pub(crate) fn hand_over(&self, run: &RunId, since: Seq, failed: bool) -> Result<(), CommandFailure> {
            let (address, server) = self.server()?;
            let (address, blobs) = (address.clone(), self.blobs.url().to_owned());
            let detached = DetachedRun { run: run.clone(), blobs, address, since, failed };
            server.hand_over(&detached).map_err(|why| {
                let hint =
                    format!("`threadline resume {run}{} --detach` hands it over again", self.arguments());
                CommandFailure::NotStarted(vec![Report::with_hint(&why, &hint)])
            })
        }

        /// Asks the worker that drives a run to stop it, and waits until it has.
        pub(crate) fn stop(&self, run: &RunId, now: bool) -> Result<(), CommandFailure> {
            let (_, server) = self.server()?;
            server.stop(run, now).map_err(|why| of_server(&why))?;
            while server.state(run).map_err(|why| of_server(&why))? == DetachedState::Going {
                std::thread::sleep(POLL_ELSEWHERE / 4);
            }
            Ok(())
        }

        /// What the coordinator said last of a run that could not go on; nothing of one that did, or that goes on.
        pub(crate) fn failure(&self, run: &RunId) -> Result<Option<String>, CommandFailure> {
            let Some((_, server)) = &self.on else { return Ok(None) };
            Ok(match server.state(run).map_err(|why| of_server(&why))? {
                DetachedState::Stopped(end) if matches!(end.code, 2 | 3) => {
                    Some(format!("worker `{}` could not drive run `{run}`: {}", end.worker, end.said))
                }
                _ => None,
            })
        }

        fn server(&self) -> Result<&(String, DetachedRuns), CommandFailure> {
            self.on.as_ref().ok_or_else(|| {
                CommandFailure::Usage("`--on` has to say which Restate server to ask".to_owned())
            })
        }

        /// The arguments that name the same runs, behind a command.
        pub(crate) fn arguments(&self) -> String {
            let on = self.on.as_ref().map_or(String::new(), |(address, _)| format!(" --on {address}"));
            let key = match &self.key_source {
                KeySource::File(path) => format!("--key-file {path}"),
                KeySource::Variable(name) => format!("--key-variable {name}"),
            };
            format!("{on} --blobs {} {key}", self.blobs.url())
        }
    }

    /// The command with which a worker drives a run.
    pub(crate) fn coordinator(call: &WorkerArguments, project: &Path) -> CoordinatorCommand {
        let (key, blobs, project) = (call.key.clone(), call.blobs.clone(), project.to_owned());
        Arc::new(move |run: &DetachedRun| {
            let mut command = std::process::Command::new(std::env::current_exe()?);
            command.arg("resume").arg(run.run.as_str());
            command.args(["--on", &run.address, "--blobs", blobs.as_deref().unwrap_or(&run.blobs)]);
            match (&key.key_file, &key.key_variable) {
                (Some(file), _) => command.arg("--key-file").arg(file),
                (None, Some(name)) => command.args(["--key-variable", name]),
                (None, None) => &mut command,
            };
            command.arg("--dir").arg(&project);
            command.arg("--journal").arg(threadline_restate::worker::coordinator_journal(&run.run));
            command.args(["--since", &run.since.to_string()]);
            if run.failed {
                command.arg("--failed");
            }
            Ok(command)
        })
    }
}

#[cfg(not(feature = "restate"))]
mod built {
    use std::convert::Infallible;

    use threadline_store::{SegmentStore, Seq};

    use super::{Arc, CommandFailure, KeptArguments, PathBuf, RemoteService, RunId, SegmentEnd, Store};
    use crate::commands::elsewhere::not_built;

    pub(super) fn machine_name() -> String {
        String::new()
    }

    pub(crate) fn end_with_worker() {}

    pub(crate) use self::NoKeptRuns as KeptRuns;

    /// There are none.
    pub(crate) struct NoKeptRuns(Infallible);

    impl NoKeptRuns {
        pub(crate) fn of(kept: &KeptArguments) -> Result<Option<Self>, CommandFailure> {
            match kept {
                KeptArguments { on: None, blobs: None, .. } => Ok(None),
                _ => Err(not_built()),
            }
        }

        pub(crate) fn of_service(service: Option<&RemoteService>) -> Result<Option<Self>, CommandFailure> {
            if service.is_some_and(|service| service.replicated) { Err(not_built()) } else { Ok(None) }
        }

        pub(crate) fn open_cache(&self) -> Result<Store, CommandFailure> {
            match self.0 {}
        }

        pub(crate) fn cache(&self) -> Result<PathBuf, CommandFailure> {
            match self.0 {}
        }

        pub(crate) fn segments(&self, _run: &RunId) -> Arc<dyn SegmentStore> {
            match self.0 {}
        }

        pub(crate) fn all(&self) -> Result<Vec<RunId>, CommandFailure> {
            match self.0 {}
        }

        pub(crate) fn find(&self, _name: &str) -> Result<RunId, CommandFailure> {
            match self.0 {}
        }

        pub(crate) fn is_driven(&self, _run: &RunId) -> Result<bool, CommandFailure> {
            match self.0 {}
        }

        pub(crate) fn import(&self, _store: &Store, _run: &RunId) -> Result<SegmentEnd, CommandFailure> {
            match self.0 {}
        }

        pub(crate) fn hand_over(&self, _: &RunId, _: Seq, _: bool) -> Result<(), CommandFailure> {
            match self.0 {}
        }

        pub(crate) fn stop(&self, _run: &RunId, _now: bool) -> Result<(), CommandFailure> {
            match self.0 {}
        }

        pub(crate) fn failure(&self, _run: &RunId) -> Result<Option<String>, CommandFailure> {
            match self.0 {}
        }

        pub(crate) fn arguments(&self) -> String {
            match self.0 {}
        }
    }
}
