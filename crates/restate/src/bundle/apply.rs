//! What an act changed in its copy of a project, made in the project: all of it or nothing, and once.
//!
//! Where something else has changed the same path since the act began, the change is refused. What was begun and not
//! finished, because the coordinator was killed, is finished when the same answer is found again: what stands in the
//! project is then what stood there before or what is to stand there, and both are right.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use threadline_lang::value::JsonStyle;
use threadline_lang::{Limits, Value, data};
use threadline_runner::process::Environment;
use threadline_runner::worktrees::{RepositoryCarrier, WorktreeError};

use super::copy::{finish_file, make_folder};
use super::{BundleChange, BundleEntry, EntryChange};
use crate::blobs::{BlobError, BlobRef, BlobStore};
use crate::wire::{fields, text_of};

/// Why a change was not made.
#[derive(Debug)]
pub(crate) enum ApplyError {
    /// Something else has changed the same, and that is this.
    Conflict(String),
    /// Something in the project.
    Project(String),
    /// The blob store.
    Store(BlobError),
}

impl From<BlobError> for ApplyError {
    fn from(error: BlobError) -> Self {
        match error {
            BlobError::File(why) => Self::Project(why),
            error => Self::Store(error),
        }
    }
}

/// What the acts of a run have changed, in a file beside the journal.
#[derive(Debug)]
pub(crate) struct ChangeLog {
    file: fs::File,
    path: PathBuf,
    /// The acts whose changes were made in full.
    made: BTreeSet<String>,
    /// Who wrote a path last.
    writers: BTreeMap<String, String>,
    /// All paths that were written, by the folders that they are in.
    written: BTreeMap<String, BTreeSet<String>>,
}

impl ChangeLog {
    /// The log in a file, which is made.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let failed = |error: io::Error| format!("`{}`: {error}", path.display());
        make_folder(path.parent().unwrap_or(path))?;
        let text = match fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(failed(error)),
        };
        let mut file = fs::File::options().append(true).create(true).open(path).map_err(failed)?;
        if text.last().is_some_and(|last| *last != b'\n') {
            // A line that was cut off says nothing.
            file.write_all(b"\n").map_err(failed)?;
        }
        let mut log = Self {
            file,
            path: path.to_owned(),
            made: BTreeSet::new(),
            writers: BTreeMap::new(),
            written: BTreeMap::new(),
        };
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let Some(value) = std::str::from_utf8(line)
                .ok()
                .and_then(|line| data::json::read_value(line, &Limits::DEFAULT).ok())
            else {
                continue;
            };
            log.take(&value).map_err(|why| format!("`{}`: {why}", path.display()))?;
        }
        Ok(log)
    }

    fn take(&mut self, line: &Value) -> Result<(), String> {
        let [act, at, folder, paths] = fields(line, ["act", "at", "folder", "paths"])?;
        let (act, at, folder) = (text_of(act, "act")?, text_of(at, "at")?, text_of(folder, "folder")?);
        if paths.is_null() {
            self.made.insert(act.to_owned());
            return Ok(());
        }
        for path in paths.as_list().ok_or("`paths` is no list")? {
            let path = text_of(path, "paths")?;
            self.writers.insert(format!("{folder}\0{path}"), at.to_owned());
            self.written.entry(folder.to_owned()).or_default().insert(path.to_owned());
        }
        Ok(())
    }

    fn note(&mut self, line: &Value) -> Result<(), ApplyError> {
        let failed = |error: io::Error| ApplyError::Project(format!("`{}`: {error}", self.path.display()));
        let text = format!("{}\n", line.to_json(JsonStyle::Compact));
        self.file.write_all(text.as_bytes()).map_err(failed)?;
        self.file.sync_data().map_err(failed)?;
        self.take(line).map_err(ApplyError::Project)
    }

    /// The paths in a folder that acts of the run have written.
    pub(crate) fn written(&self, folder: &str) -> BTreeSet<String> {
        self.written.get(folder).cloned().unwrap_or_default()
    }

    /// Whether the change of an act was made in full.
    pub(crate) fn has_made(&self, act: &str) -> bool {
        self.made.contains(act)
    }

    fn writer(&self, folder: &str, path: &str) -> Option<&str> {
        self.writers.get(&format!("{folder}\0{path}")).map(String::as_str)
    }
}

/// Who changed something, and where.
pub(crate) struct Changed<'c> {
    /// Names the act.
    pub(crate) act: &'c str,
    /// The execution, for people.
    pub(crate) at: &'c str,
    /// The folder that the change is made in.
    pub(crate) root: &'c Path,
    /// The same folder in the log: where a project is does not matter there.
    pub(crate) folder: &'c str,
    /// What git is called with.
    pub(crate) env: &'c Environment,
}

/// New contents that a change needs, in files beside the project.
pub(crate) struct Contents {
    folder: PathBuf,
    files: BTreeMap<BlobRef, PathBuf>,
    /// New objects of the repository.
    pack: Option<Vec<u8>>,
}

impl Contents {
    /// Fetches the contents of a change into a folder of the store.
    pub(crate) fn fetch(change: &BundleChange, within: &Path, store: &BlobStore) -> Result<Self, ApplyError> {
        let folder = within.join(uuid::Uuid::new_v4().simple().to_string());
        make_folder(&folder).map_err(ApplyError::Project)?;
        let pack = change.repository.as_ref().and_then(|repository| repository.pack.as_ref());
        let pack = pack.map(|pack| store.get(pack)).transpose()?;
        let mut contents = Self { folder, files: BTreeMap::new(), pack };
        for entry in &change.entries {
            let Some(BundleEntry::File { content, .. }) = &entry.after else { continue };
            if is_same_content(entry.before.as_ref(), content) || contents.files.contains_key(content) {
                continue;
            }
            let path = contents.folder.join(contents.files.len().to_string());
            let failed = |error: io::Error| ApplyError::Project(format!("`{}`: {error}", path.display()));
            let mut file = fs::File::create_new(&path).map_err(failed)?;
            store.get_into(content, &mut file)?;
            file.sync_data().map_err(failed)?;
            contents.files.insert(content.clone(), path);
        }
        Ok(contents)
    }
}

impl Drop for Contents {
    fn drop(&mut self) {
        // What is left is removed with the folder around it when a run begins.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn is_same_content(before: Option<&BundleEntry>, content: &BlobRef) -> bool {
    matches!(before, Some(BundleEntry::File { content: before, .. }) if before == content)
}

/// Makes a change. Nobody else may make one in the same folder meanwhile.
pub(crate) fn apply(
    changed: &Changed<'_>,
    change: &BundleChange,
    contents: &mut Contents,
    log: &mut ChangeLog,
) -> Result<(), ApplyError> {
    if change.entries.is_empty() && change.repository.is_none() {
        return Ok(());
    }
    if let Some(conflict) = conflict(changed, change, log)? {
        // What was made before somebody else went on from there is not made again. Where the project was put back to
        // what it was before the act, it is.
        return if log.has_made(changed.act) { Ok(()) } else { Err(ApplyError::Conflict(conflict)) };
    }
    let line = |paths: Value| {
        Value::record([
            ("act", changed.act.into()),
            ("at", changed.at.into()),
            ("folder", changed.folder.into()),
            ("paths", paths),
        ])
    };
    let of_git = |error: WorktreeError| ApplyError::Project(error.to_string());
    let carrier = RepositoryCarrier::new(changed.root, changed.env);
    if let Some(repository) = &change.repository {
        // All of its references move, or none: so it stands before what cannot fail for what others did.
        let pack = contents.pack.take();
        let against = carrier.change(repository.before.as_ref(), &repository.after, pack).map_err(of_git)?;
        if let Some(against) = against {
            return if log.has_made(changed.act) {
                Ok(())
            } else {
                Err(ApplyError::Conflict(format!(
                    "the repository: {against} since step `{}` began",
                    changed.at
                )))
            };
        }
    }
    let paths = change.entries.iter().map(|entry| entry.path.as_str().into());
    log.note(&line(Value::sequence(paths)))?;
    make(changed.root, change, contents)?;
    if let Some(repository) = &change.repository {
        carrier.change_staged(repository.before.as_ref(), &repository.after).map_err(of_git)?;
    }
    log.note(&line(Value::NULL))
}

/// What stands under a path now.
fn entry_at(root: &Path, path: &str) -> Result<Option<BundleEntry>, ApplyError> {
    let place = root.join(path);
    let failed = |error: io::Error| ApplyError::Project(format!("`{path}`: {error}"));
    let metadata = match fs::symlink_metadata(&place) {
        Ok(metadata) => metadata,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(failed(error)),
    };
    let mode = metadata.permissions().mode() & 0o7777;
    Ok(Some(if metadata.is_dir() {
        BundleEntry::Folder { mode }
    } else if metadata.is_symlink() {
        BundleEntry::Link { target: fs::read_link(&place).map_err(failed)?.display().to_string() }
    } else if metadata.is_file() {
        let content = BlobRef::of_reader(fs::File::open(&place).map_err(failed)?).map_err(failed)?;
        BundleEntry::File { mode, content, changed: 0 }
    } else {
        return Err(ApplyError::Project(format!("`{path}` is neither a file nor a folder nor a link")));
    }))
}

/// Whether two states of a path read the same.
fn is_same(now: Option<&BundleEntry>, other: Option<&BundleEntry>) -> bool {
    match (now, other) {
        (None, None) => true,
        (Some(now), Some(other)) => now.reads_as(other),
        _ => false,
    }
}

/// What else has changed what a change is about; none where it can be made.
fn conflict(
    changed: &Changed<'_>,
    change: &BundleChange,
    log: &ChangeLog,
) -> Result<Option<String>, ApplyError> {
    let about: BTreeMap<&str, &EntryChange> =
        change.entries.iter().map(|entry| (entry.path.as_str(), entry)).collect();
    let by = |path: &str| match log.writer(changed.folder, path) {
        Some(at) if at != changed.at => {
            format!("step `{at}` has changed it since step `{}` began", changed.at)
        }
        _ => format!("something else has changed it since step `{}` began", changed.at),
    };
    for EntryChange { path, before, after } in &change.entries {
        // A link on the way would lead elsewhere.
        for (end, _) in path.match_indices('/') {
            let folder = &path[..end];
            let now = fs::symlink_metadata(changed.root.join(folder)).ok();
            let comes = about
                .get(folder)
                .is_some_and(|entry| matches!(entry.after, Some(BundleEntry::Folder { .. })));
            let goes = after.is_none();
            if !now.is_some_and(|now| now.is_dir()) && !comes && !goes {
                return Ok(Some(format!("`{path}`: its folder `{folder}` is gone; {}", by(folder))));
            }
        }
        let now = entry_at(changed.root, path)?;
        if !is_same(now.as_ref(), before.as_ref()) && !is_same(now.as_ref(), after.as_ref()) {
            return Ok(Some(format!("`{path}`: {}", by(path))));
        }
        let is_emptied = matches!(before, Some(BundleEntry::Folder { .. }))
            && !matches!(after, Some(BundleEntry::Folder { .. }));
        if is_emptied && matches!(now, Some(BundleEntry::Folder { .. })) {
            let inside = fs::read_dir(changed.root.join(path));
            let inside = inside.map_err(|error| ApplyError::Project(format!("`{path}`: {error}")))?;
            for name in inside.flatten().map(|entry| entry.file_name().display().to_string()) {
                let child = format!("{path}/{name}");
                if about.get(child.as_str()).is_none_or(|entry| entry.after.is_some()) {
                    return Ok(Some(format!(
                        "`{path}` was removed, and holds `{child}`, which was not in its copy"
                    )));
                }
            }
        }
    }
    Ok(None)
}

/// Makes a change that nothing stands against.
fn make(root: &Path, change: &BundleChange, contents: &Contents) -> Result<(), ApplyError> {
    let is_kept_folder = |entry: &EntryChange| {
        matches!(
            (&entry.before, &entry.after),
            (Some(BundleEntry::Folder { .. }), Some(BundleEntry::Folder { .. }))
        )
    };
    // What goes away, or becomes something else: what is in a folder before the folder.
    for entry in change.entries.iter().rev() {
        let becomes_other = match (&entry.before, &entry.after) {
            (Some(_), None) => true,
            (Some(BundleEntry::Folder { .. }), Some(after)) => !matches!(after, BundleEntry::Folder { .. }),
            (Some(_), Some(after)) => matches!(after, BundleEntry::Folder { .. }),
            (None, _) => false,
        };
        if becomes_other && !is_same(entry_at(root, &entry.path)?.as_ref(), entry.after.as_ref()) {
            remove(&root.join(&entry.path)).map_err(|error| in_project(&entry.path, &error))?;
        }
    }
    for EntryChange { path, before, after } in &change.entries {
        let Some(after) = after else { continue };
        let target = root.join(path);
        let done = match after {
            BundleEntry::Folder { .. } => match fs::create_dir(&target) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                made => made,
            },
            BundleEntry::Link { target: leads_to } => put_link(leads_to, &target, contents),
            BundleEntry::File { mode, content, changed } => {
                put_file(content, (*mode, *changed), before.as_ref(), &target, contents)
            }
        };
        done.map_err(|error| in_project(path, &error))?;
    }
    // Permissions of folders last, so that all could be written.
    for entry in change.entries.iter().rev() {
        if let Some(BundleEntry::Folder { mode }) = &entry.after
            && (!is_kept_folder(entry) || entry.before != entry.after)
        {
            let set = fs::set_permissions(root.join(&entry.path), fs::Permissions::from_mode(*mode));
            set.map_err(|error| in_project(&entry.path, &error))?;
        }
    }
    Ok(())
}

fn in_project(path: &str, error: &io::Error) -> ApplyError {
    ApplyError::Project(format!("`{path}`: {error}"))
}

fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(())
        }
        removed => removed,
    }
}

fn put_link(leads_to: &str, target: &Path, contents: &Contents) -> io::Result<()> {
    let unfinished = contents.folder.join(uuid::Uuid::new_v4().simple().to_string());
    std::os::unix::fs::symlink(leads_to, &unfinished)?;
    fs::rename(&unfinished, target)
}

fn put_file(
    content: &BlobRef,
    (mode, changed): (u32, i64),
    before: Option<&BundleEntry>,
    target: &Path,
    contents: &Contents,
) -> io::Result<()> {
    if is_same_content(before, content) {
        return finish_file(target, mode, changed).map(drop);
    }
    let Some(source) = contents.files.get(content) else { return Err(io::ErrorKind::NotFound.into()) };
    // Several paths may have the same content.
    let unfinished = contents.folder.join(uuid::Uuid::new_v4().simple().to_string());
    fs::copy(source, &unfinished)?;
    finish_file(&unfinished, mode, changed)?;
    match fs::rename(&unfinished, target) {
        // The store may be on another disk than the project.
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            let beside = target.with_file_name(format!(".threadline-{}", uuid::Uuid::new_v4().simple()));
            let copied = fs::copy(&unfinished, &beside)
                .and_then(|_| finish_file(&beside, mode, changed))
                .and_then(|_| fs::rename(&beside, target));
            if copied.is_err() {
                let _ = fs::remove_file(&beside);
            }
            copied
        }
        renamed => renamed,
    }
}
