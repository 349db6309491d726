//! The project of a run at its coordinator: sent to workers as it is now, and changed as they have changed it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use threadline_runner::process::Environment;

use super::apply::{ApplyError, ChangeLog, Changed, Contents, apply};
use super::copy::remove_all;
use super::scan::{ScanError, Scanner};
use super::{BundleChange, SentBundle};
use crate::blobs::{BlobRef, BlobStore};

/// The folder with the logs of changes, in that of the store.
const CHANGES: &str = "changes";

/// The folder for contents on their way into the project, in that of the store.
const INCOMING: &str = "incoming";

/// A log is kept for so long after its last change: by then nobody remembers what came of an act.
const KEPT: Duration = Duration::from_hours(60 * 24);

/// A project whose folder workers do not have. A worktree of an item is a folder of its own.
pub(crate) struct SentProject {
    root: PathBuf,
    /// The folder of the store.
    store: PathBuf,
    blobs: BlobStore,
    env: Environment,
    folders: Mutex<BTreeMap<PathBuf, Arc<Mutex<SentFolder>>>>,
    logs: Mutex<BTreeMap<String, Arc<Mutex<ChangeLog>>>>,
    /// Counts what is asked for, so that those who wait for the same look at a folder share it.
    clock: AtomicU64,
}

/// What is known of a folder. Who holds it looks at the folder or changes it.
#[derive(Default)]
struct SentFolder {
    scanner: Scanner,
    /// The list that was made last, and when that began.
    last: Option<(u64, BlobRef)>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Whoever panicked left what the next look finds.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SentProject {
    pub(crate) fn new(root: &Path, store: &Path, blobs: BlobStore) -> Self {
        let project = Self {
            root: root.to_owned(),
            store: store.to_owned(),
            blobs,
            env: Environment::inherited(),
            folders: Mutex::default(),
            logs: Mutex::default(),
            clock: AtomicU64::new(1),
        };
        project.tidy();
        project
    }

    /// Removes what no run needs any more.
    fn tidy(&self) {
        let old = |path: &Path, kept: Duration| {
            let age =
                fs::metadata(path).and_then(|of| of.modified()).ok().and_then(|time| time.elapsed().ok());
            age.is_some_and(|age| age > kept)
        };
        let inside = |folder: &str| fs::read_dir(self.store.join(folder)).into_iter().flatten().flatten();
        for log in inside(CHANGES).filter(|log| old(&log.path(), KEPT)) {
            let _ = fs::remove_file(log.path());
        }
        for left in inside(INCOMING).filter(|left| old(&left.path(), Duration::from_hours(24))) {
            remove_all(&left.path());
        }
    }

    fn folder(&self, root: &Path) -> Arc<Mutex<SentFolder>> {
        Arc::clone(lock(&self.folders).entry(root.to_owned()).or_default())
    }

    fn log(&self, run: &str) -> Result<Arc<Mutex<ChangeLog>>, String> {
        let mut logs = lock(&self.logs);
        if let Some(log) = logs.get(run) {
            return Ok(Arc::clone(log));
        }
        let path = self.store.join(CHANGES).join(format!("{run}.jsonl"));
        let log = Arc::new(Mutex::new(ChangeLog::open(&path)?));
        logs.insert(run.to_owned(), Arc::clone(&log));
        Ok(log)
    }

    /// How a folder is called in the log.
    fn name_in_log(&self, root: &Path) -> String {
        root.strip_prefix(&self.root).unwrap_or(root).display().to_string()
    }

    /// What a folder holds now. `run` is the run that somebody started; what it wrote is sent even if git ignores it.
    pub(crate) fn send(&self, root: &Path, run: Option<&str>) -> Result<SentBundle, ScanError> {
        let name = root.file_name().map_or("project".into(), |name| name.to_string_lossy().into_owned());
        let written = match run {
            Some(run) => lock(&*self.log(run).map_err(ScanError::Project)?).written(&self.name_in_log(root)),
            None => BTreeSet::new(),
        };
        let asked = self.clock.fetch_add(1, Ordering::SeqCst);
        let folder = self.folder(root);
        let mut folder = lock(&folder);
        if let Some((began, list)) = &folder.last
            && *began > asked
        {
            return Ok(SentBundle { name, list: list.clone() });
        }
        let began = self.clock.fetch_add(1, Ordering::SeqCst);
        let (_, list) =
            folder.scanner.scan(root, &self.env, &written, &self.blobs, &self.store.join(INCOMING))?;
        folder.last = Some((began, list.clone()));
        Ok(SentBundle { name, list })
    }

    /// Makes the change of an act.
    pub(crate) fn change(
        &self,
        root: &Path,
        run: &str,
        (act, at): (&str, &str),
        change: &BundleChange,
    ) -> Result<(), ApplyError> {
        let log = self.log(run).map_err(ApplyError::Project)?;
        let mut contents = Contents::fetch(change, &self.store.join(INCOMING), &self.blobs)?;
        let changed = Changed { act, at, root, folder: &self.name_in_log(root), env: &self.env };
        let folder = self.folder(root);
        let mut folder = lock(&folder);
        folder.last = None;
        apply(&changed, change, &mut contents, &mut lock(&log))
    }
}
