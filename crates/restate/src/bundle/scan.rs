//! A project becomes a bundle: what is in its folder now, with the contents in the blob store.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use threadline_runner::process::Environment;
use threadline_runner::worktrees::{self, RepositoryCarrier};

use super::copy::make_folder;
use super::{Bundle, BundleEntry, FileStamp, FoundEntry, MOST_BYTES, MOST_ENTRIES, SentRepository, look};
use crate::blobs::{BlobError, BlobRef, BlobStore};

/// So many files are put into the store at once.
const AT_ONCE: usize = 8;

/// A file that was written so recently may be written again without a change that its stamp shows.
const TOO_RECENT: Duration = Duration::from_secs(2);

/// After so many packs, all but the first are put together.
const MOST_PACKS: usize = 16;

/// Why a project could not become a bundle.
#[derive(Debug)]
pub(crate) enum ScanError {
    /// Something in the project.
    Project(String),
    /// The blob store.
    Store(BlobError),
}

/// What was found in a project before, so that a file is read again only when it was written.
#[derive(Default)]
pub(crate) struct Scanner {
    known: BTreeMap<String, (FileStamp, BlobRef)>,
    /// What is in the store for certain.
    put: HashSet<BlobRef>,
    /// The list that was put in last.
    last: Option<(Bundle, BlobRef)>,
    /// The packs with the objects of the repository, each with what all up to it reach.
    packs: Vec<(BlobRef, BTreeSet<String>)>,
}

impl Scanner {
    /// What the project holds now, and the list in the store. What git ignores is left out, unless it is `written` by the
    /// run itself.
    pub(crate) fn scan(
        &mut self,
        root: &Path,
        env: &Environment,
        written: &BTreeSet<String>,
        store: &BlobStore,
        spool: &Path,
    ) -> Result<(Bundle, BlobRef), ScanError> {
        let ignored = Ignored::of(root, env).map_err(ScanError::Project)?;
        let repository = self.repository(root, env, store, spool)?;
        let mut bundle = Bundle { repository, ..Bundle::default() };
        let (mut files, mut bytes) = (Vec::new(), 0_u64);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let leaves_out = |path: &str| ignored.has(path) && !is_way_to(written, path);
        look(root, &leaves_out, &mut |path, seen| {
            match seen {
                FoundEntry::Folder { mode } => {
                    bundle.entries.insert(path, BundleEntry::Folder { mode });
                }
                FoundEntry::Link { target } => {
                    bundle.entries.insert(path, BundleEntry::Link { target });
                }
                FoundEntry::File(stamp, mode) => {
                    bytes = bytes.saturating_add(stamp.length);
                    files.push((path, stamp, mode));
                }
                FoundEntry::Other => {}
            }
            let count = bundle.entries.len() + files.len();
            if count > MOST_ENTRIES {
                return Err(format!(
                    "the project has more than {MOST_ENTRIES} files and folders; what git ignores is not sent"
                ));
            }
            if bytes > MOST_BYTES {
                let most = MOST_BYTES >> 30;
                return Err(format!(
                    "the files of the project have more than {most} GiB; what git ignores is not sent"
                ));
            }
            Ok(())
        })
        .map_err(ScanError::Project)?;
        let known = std::mem::take(&mut self.known);
        let unknown: Vec<PathBuf> = files
            .iter()
            .filter(|(path, stamp, _)| !known.get(path).is_some_and(|(found, _)| found == stamp))
            .map(|(path, ..)| root.join(path))
            .collect();
        let mut put = put_all(&unknown, store, &self.put)?.into_iter();
        for (path, stamp, mode) in files {
            let content = match known.get(&path) {
                Some((found, content)) if *found == stamp => content.clone(),
                _ => match put.next().flatten() {
                    Some(content) => content,
                    // It was removed while the project was looked at.
                    None => continue,
                },
            };
            self.put.insert(content.clone());
            let age = now.saturating_sub(Duration::from_nanos(stamp.changed().max(0).unsigned_abs()));
            if age > TOO_RECENT {
                self.known.insert(path.clone(), (stamp, content.clone()));
            }
            let entry = BundleEntry::File { mode, content, changed: stamp.changed() };
            bundle.entries.insert(path, entry);
        }
        if let Some((last, list)) = &self.last
            && *last == bundle
        {
            return Ok((bundle, list.clone()));
        }
        let list = store.put(bundle.text().as_bytes()).map_err(ScanError::Store)?;
        self.last = Some((bundle.clone(), list.clone()));
        Ok((bundle, list))
    }
}

impl Scanner {
    /// What git knows of a working tree, with its objects in the store.
    fn repository(
        &mut self,
        root: &Path,
        env: &Environment,
        store: &BlobStore,
        spool: &Path,
    ) -> Result<Option<SentRepository>, ScanError> {
        let failed = |error: worktrees::WorktreeError| ScanError::Project(error.to_string());
        let repository = RepositoryCarrier::new(root, env);
        let Some(carried) = repository.describe().map_err(failed)? else { return Ok(None) };
        let tips = carried.tips();
        if self.packs.len() > MOST_PACKS {
            self.packs.truncate(1);
        }
        let mut known = self.packs.last().map(|(_, known)| known.clone()).unwrap_or_default();
        if !tips.is_subset(&known) {
            let folder = spool.join(format!("packs-{}", uuid::Uuid::new_v4().simple()));
            make_folder(&folder).map_err(ScanError::Project)?;
            let packed = repository.pack(&tips, &known, &folder).map_err(failed);
            let put = packed.and_then(|pack| match pack {
                Some(pack) => store.put_file(&pack).map(Some).map_err(ScanError::Store),
                None => Ok(None),
            });
            // What is left is removed with the spool.
            let _ = fs::remove_dir_all(&folder);
            known.extend(tips);
            match put? {
                Some(pack) => self.packs.push((pack, known)),
                None => {
                    if let Some(last) = self.packs.last_mut() {
                        last.1 = known;
                    }
                }
            }
        }
        let packs = self.packs.iter().map(|(pack, _)| pack.clone()).collect();
        Ok(Some(SentRepository { carried, packs }))
    }
}

/// Whether a path was written, or leads to what was written.
fn is_way_to(written: &BTreeSet<String>, path: &str) -> bool {
    if written.contains(path) {
        return true;
    }
    let inside = format!("{path}/");
    written.range(inside.clone()..).next().is_some_and(|found| found.starts_with(&inside))
}

/// The place of a file, and its content in the store; none where it is gone.
type PutFile = (usize, Result<Option<BlobRef>, ScanError>);

/// Puts the contents of files into the store. None for a file that is gone.
fn put_all(
    paths: &[PathBuf],
    store: &BlobStore,
    there: &HashSet<BlobRef>,
) -> Result<Vec<Option<BlobRef>>, ScanError> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<PutFile>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..paths.len().min(AT_ONCE) {
            scope.spawn(|| {
                while let Some((at, path)) = {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    paths.get(at).map(|path| (at, path))
                } {
                    let put = put_one(path, store, there);
                    let failed = put.is_err();
                    done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((at, put));
                    if failed {
                        return;
                    }
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, put)| put).collect()
}

fn put_one(path: &Path, store: &BlobStore, there: &HashSet<BlobRef>) -> Result<Option<BlobRef>, ScanError> {
    let opened = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(ScanError::Project(format!("`{}`: {error}", path.display()))),
    };
    let failed = |error: std::io::Error| ScanError::Project(format!("`{}`: {error}", path.display()));
    let content = BlobRef::of_reader(opened).map_err(failed)?;
    if there.contains(&content) {
        return Ok(Some(content));
    }
    match store.put_file(path) {
        Ok(content) => Ok(Some(content)),
        Err(BlobError::File(why)) => Err(ScanError::Project(why)),
        Err(error) => Err(ScanError::Store(error)),
    }
}

/// What git ignores in a project.
struct Ignored {
    paths: HashSet<String>,
}

impl Ignored {
    fn of(root: &Path, env: &Environment) -> Result<Self, String> {
        let listed = worktrees::ignored(root, env).map_err(|error| error.to_string())?;
        // A folder of which nothing is kept ends with a slash.
        let paths = listed.into_iter().map(|path| path.trim_end_matches('/').to_owned()).collect();
        Ok(Self { paths })
    }

    /// Whether a path is ignored, or in a folder that is.
    fn has(&self, path: &str) -> bool {
        let folders = path.match_indices('/').map(|(end, _)| &path[..end]);
        folders.chain([path]).any(|path| self.paths.contains(path))
    }
}
