//! A bundle becomes a private copy of a project for one act, and what the act did there becomes a change.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use threadline_runner::process::Environment;
use threadline_runner::worktrees::{RepositoryCarrier, WorktreeError};

use super::{
    Bundle, BundleChange, BundleEntry, EntryChange, FileStamp, FoundEntry, RepositoryChange, check_path, look,
};
use crate::blobs::{BlobError, BlobRef, BlobStore};

/// Contents that a worker keeps, because the next act will want most of them, too.
#[derive(Debug)]
pub(crate) struct ContentCache {
    folder: PathBuf,
}

/// A content that nobody asked for in this time is removed.
const UNUSED: Duration = Duration::from_hours(7 * 24);

/// What was used is noted no more often than this.
const NOTED: Duration = Duration::from_hours(1);

impl ContentCache {
    /// The cache in a folder, which is made.
    pub(crate) fn open(folder: &Path) -> Result<Self, String> {
        make_folder(folder)?;
        Ok(Self { folder: folder.to_owned() })
    }

    fn path(&self, blob: &BlobRef) -> PathBuf {
        self.folder.join(blob.hash.get(..2).unwrap_or_default()).join(&blob.hash)
    }

    /// A file with a content, which belongs to the cache and is not to be written.
    pub(crate) fn file(&self, blob: &BlobRef, store: &BlobStore) -> Result<PathBuf, BlobError> {
        if !blob.is_plain() {
            return Err(BlobError::Damaged(blob.hash.clone()));
        }
        let path = self.path(blob);
        if let Ok(found) = fs::metadata(&path)
            && found.len() == blob.length
        {
            note_use(&path);
            return Ok(path);
        }
        let failed = |error: std::io::Error| BlobError::File(format!("`{}`: {error}", path.display()));
        let folder = path.parent().unwrap_or(&self.folder);
        make_folder(folder).map_err(BlobError::File)?;
        let unfinished = folder.join(format!("{}.part", uuid::Uuid::new_v4().simple()));
        let fetched = fs::File::create_new(&unfinished)
            .map_err(failed)
            .and_then(|mut file| store.get_into(blob, &mut file))
            .and_then(|()| fs::rename(&unfinished, &path).map_err(failed));
        if let Err(error) = fetched {
            let _ = fs::remove_file(&unfinished);
            return Err(error);
        }
        Ok(path)
    }

    /// A folder of objects of git with those of a pack.
    fn objects(&self, pack: &BlobRef, store: &BlobStore, env: &Environment) -> Result<PathBuf, BlobError> {
        let failed = |error: std::io::Error| BlobError::File(error.to_string());
        // It stands beside the contents and is as old as it was made: packs are few.
        let objects = self.folder.join("packs").join(&pack.hash);
        if !pack.is_plain() {
            return Err(BlobError::Damaged(pack.hash.clone()));
        }
        if objects.exists() {
            note_use(&objects);
            return Ok(objects);
        }
        let unfinished = self.folder.join("packs").join(uuid::Uuid::new_v4().simple().to_string());
        let folder = unfinished.join("pack");
        make_folder(&folder).map_err(BlobError::File)?;
        let file = folder.join(format!("pack-{}.pack", &pack.hash[..40]));
        let made = fs::copy(self.file(pack, store)?, &file)
            .map_err(failed)
            .and_then(|_| RepositoryCarrier::index_pack(&file, env).map_err(|error| of_git(&error)));
        match made.and_then(|()| fs::rename(&unfinished, &objects).map_err(failed)) {
            Ok(()) => Ok(objects),
            Err(error) => {
                remove_all(&unfinished);
                // Another act may have made the same.
                if objects.exists() { Ok(objects) } else { Err(error) }
            }
        }
    }

    /// Removes what nobody asked for in a while.
    pub(crate) fn sweep(&self) {
        let folders = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        for entry in folders.flat_map(|folder| fs::read_dir(folder.path()).into_iter().flatten().flatten()) {
            let age = entry.metadata().and_then(|of| of.modified()).ok().and_then(|time| time.elapsed().ok());
            if age.is_some_and(|age| age > UNUSED) {
                // Another worker may have removed it.
                let _ = if entry.path().is_dir() {
                    fs::remove_dir_all(entry.path())
                } else {
                    fs::remove_file(entry.path())
                };
            }
        }
    }
}

/// Notes that something in the cache was used.
fn note_use(path: &Path) {
    let age = fs::metadata(path).and_then(|of| of.modified()).ok().and_then(|time| time.elapsed().ok());
    if age.is_some_and(|age| age > NOTED) {
        // What is not noted is fetched again later.
        let _ = fs::File::open(path).and_then(|file| file.set_modified(SystemTime::now()));
    }
}

/// Makes a folder that belongs to this user.
pub(crate) fn make_folder(folder: &Path) -> Result<(), String> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| format!("the folder `{}` cannot be made: {error}", folder.display()))
}

/// A copy of a project for one act. It is removed when it is dropped.
#[derive(Debug)]
pub(crate) struct PrivateCopy {
    /// What is removed with it.
    outer: PathBuf,
    root: PathBuf,
    bundle: Bundle,
    stamps: BTreeMap<String, FileStamp>,
    /// What git is called with.
    env: Environment,
}

fn of_git(error: &WorktreeError) -> BlobError {
    BlobError::File(error.to_string())
}

impl PrivateCopy {
    /// Makes a copy within a folder, under the name that the project has.
    pub(crate) fn make(
        within: &Path,
        name: &str,
        bundle: Bundle,
        cache: &ContentCache,
        store: &BlobStore,
        env: &Environment,
    ) -> Result<Self, BlobError> {
        if name.contains('/') || check_path(name).is_err() {
            return Err(BlobError::File(format!("`{}` is no name of a project", name.escape_debug())));
        }
        let outer = within.join(uuid::Uuid::new_v4().simple().to_string());
        let root = outer.join(name);
        make_folder(&root).map_err(BlobError::File)?;
        let (stamps, env) = (BTreeMap::new(), env.clone());
        let mut copy = Self { outer, root, bundle: Bundle::default(), stamps, env };
        for (path, entry) in &bundle.entries {
            copy.place(path, entry, cache, store)?;
        }
        if let Some(repository) = &bundle.repository {
            let packs = repository.packs.iter().map(|pack| cache.objects(pack, store, &copy.env));
            let packs = packs.collect::<Result<Vec<_>, _>>()?;
            let carrier = RepositoryCarrier::new(&copy.root, &copy.env);
            carrier.make(&repository.carried, &packs).map_err(|error| of_git(&error))?;
        }
        // Last, so that all could be written: folders within before those around them.
        for (path, entry) in bundle.entries.iter().rev() {
            if let BundleEntry::Folder { mode } = entry {
                let set = fs::set_permissions(copy.root.join(path), fs::Permissions::from_mode(*mode));
                set.map_err(|error| BlobError::File(format!("`{path}`: {error}")))?;
            }
        }
        copy.bundle = bundle;
        Ok(copy)
    }

    fn place(
        &mut self,
        path: &str,
        entry: &BundleEntry,
        cache: &ContentCache,
        store: &BlobStore,
    ) -> Result<(), BlobError> {
        let target = self.root.join(path);
        let failed = |error: std::io::Error| BlobError::File(format!("`{path}`: {error}"));
        match entry {
            BundleEntry::Folder { .. } => fs::create_dir(&target).map_err(failed),
            BundleEntry::Link { target: leads_to } => {
                std::os::unix::fs::symlink(leads_to, &target).map_err(failed)
            }
            BundleEntry::File { mode, content, changed } => {
                let source = cache.file(content, store)?;
                fs::copy(source, &target).map_err(failed)?;
                let metadata = finish_file(&target, *mode, *changed).map_err(failed)?;
                self.stamps.insert(path.to_owned(), FileStamp::of(&metadata));
                Ok(())
            }
        }
    }

    /// The folder of the copy.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// What was changed in it, with the new contents in the store.
    pub(crate) fn change(&self, store: &BlobStore) -> Result<BundleChange, BlobError> {
        let mut change = BundleChange::default();
        let mut gone = self.bundle.entries.clone();
        let put = |path: &str| store.put_file(&self.root.join(path));
        let mut failed = None;
        let looked = look(&self.root, &|_| false, &mut |path, seen| {
            let before = gone.remove(&path);
            let after = match seen {
                FoundEntry::Folder { mode } => BundleEntry::Folder { mode },
                FoundEntry::Link { target } => BundleEntry::Link { target },
                FoundEntry::File(stamp, _) if self.stamps.get(&path) == Some(&stamp) => return Ok(()),
                FoundEntry::File(stamp, mode) => match put(&path) {
                    Ok(content) => BundleEntry::File { mode, content, changed: stamp.changed() },
                    Err(error) => {
                        failed = Some(error);
                        return Err(String::new());
                    }
                },
                FoundEntry::Other => {
                    change.left_out.push(path);
                    return Ok(());
                }
            };
            if before.as_ref() != Some(&after) {
                change.entries.push(EntryChange { path, before, after: Some(after) });
            }
            Ok(())
        });
        match (looked, failed) {
            (_, Some(error)) => return Err(error),
            (Err(why), None) => return Err(BlobError::File(why)),
            (Ok(()), None) => {}
        }
        let removed = gone.into_iter();
        change.entries.extend(removed.map(|(path, before)| EntryChange {
            path,
            before: Some(before),
            after: None,
        }));
        change.entries.sort_by(|a, b| a.path.cmp(&b.path));
        change.repository = self.repository_change(store)?;
        Ok(change)
    }

    /// What was changed in its repository.
    fn repository_change(&self, store: &BlobStore) -> Result<Option<RepositoryChange>, BlobError> {
        let carrier = RepositoryCarrier::new(&self.root, &self.env);
        let before = self.bundle.repository.as_ref().map(|repository| &repository.carried);
        let Some(after) = carrier.describe().map_err(|error| of_git(&error))? else {
            return if before.is_none() {
                Ok(None)
            } else {
                Err(BlobError::File("the repository was removed, and that does not travel".to_owned()))
            };
        };
        if let Some(what) = carrier.unfinished().map_err(|error| of_git(&error))? {
            return Err(BlobError::File(format!(
                "git is in the middle of something (`{what}`), and that does not travel: finish or abort it in the step \
                 that begins it"
            )));
        }
        if before == Some(&after) {
            return Ok(None);
        }
        let known = before.map(threadline_runner::worktrees::CarriedRepository::tips).unwrap_or_default();
        // Beside the copy, so that it is removed with it.
        let pack = carrier.pack(&after.tips(), &known, &self.outer).map_err(|error| of_git(&error))?;
        let pack = pack.map(|pack| store.put_file(&pack)).transpose()?;
        Ok(Some(RepositoryChange { before: before.cloned(), after, pack }))
    }
}

/// Gives a file its permissions and the time when it was changed.
pub(super) fn finish_file(path: &Path, mode: u32, changed: i64) -> std::io::Result<fs::Metadata> {
    let time = SystemTime::UNIX_EPOCH + Duration::from_nanos(changed.max(0).unsigned_abs());
    let file = fs::File::open(path)?;
    file.set_modified(time)?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.metadata()
}

impl Drop for PrivateCopy {
    fn drop(&mut self) {
        remove_all(&self.outer);
    }
}

/// Removes a folder and all in it, also where its owner may not write.
pub(crate) fn remove_all(folder: &Path) {
    if fs::remove_dir_all(folder).is_ok() {
        return;
    }
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let _ = fs::set_permissions(&folder, fs::Permissions::from_mode(0o700));
        let inside = fs::read_dir(&folder).into_iter().flatten().flatten();
        folders.extend(
            inside
                .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                .map(|entry| entry.path()),
        );
    }
    // What cannot be removed now is removed when the worker is started again.
    let _ = fs::remove_dir_all(folder);
}
