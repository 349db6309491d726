//! The project: the folder that a workflow may read and write in, and where its store is.
//!
//! A path is judged twice: by its text, so that nothing can be learnt about files elsewhere, and by where its
//! links lead.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::OFlags;
use threadline_engine::view::{RUN_FOLDERS, run_folder};
use threadline_lang::diag::words;

use crate::file_pattern::FilePattern;
use crate::protected::ProtectedFolder;

/// Files may be this large.
pub const MAX_FILE: u64 = 64 << 20;

/// The name of the folder of the store.
pub const STORE: &str = ".threadline";

/// Where a workflow may read and write.
#[derive(Debug, Clone)]
pub struct Project {
    root: PathBuf,
    here: PathBuf,
    allowed: Vec<PathBuf>,
    store: PathBuf,
    /// The folder of the journal, where it is not in that of the store.
    journal: Option<PathBuf>,
}

/// Why a file could not be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    /// What happened, in words.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

impl FileError {
    /// The message is one line, whatever the name of a file holds.
    pub(crate) fn new(message: impl AsRef<str>) -> Self {
        Self { message: words::one_line(message.as_ref()).into_owned(), hint: None }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl Project {
    /// The project of a folder: the nearest folder above that has a store or a repository, else the folder
    /// itself.
    pub fn of(here: &Path) -> io::Result<Self> {
        let here = here.canonicalize()?;
        let marked = |folder: &&Path| folder.join(STORE).is_dir() || folder.join(".git").exists();
        let root = here.ancestors().find(marked).unwrap_or(&here).to_owned();
        let store = root.join(STORE);
        Ok(Self { root, here, allowed: Vec::new(), store, journal: None })
    }

    /// A worktree of the project's repository in its place; the store stays where it is.
    #[must_use]
    pub fn in_worktree(&self, root: PathBuf, here: PathBuf) -> Self {
        Self { root, here, ..self.clone() }
    }

    /// The same project with another folder for steps, and without folders outside.
    pub fn at(&self, here: &Path) -> io::Result<Self> {
        let here = here.canonicalize()?;
        if !here.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self { here, allowed: Vec::new(), ..self.clone() })
    }

    /// With folders outside that may be used, too. A relative one is meant from the folder that steps run in.
    #[must_use]
    pub fn allow<'a>(mut self, folders: impl IntoIterator<Item = &'a str>) -> Self {
        let folders = folders.into_iter().map(|folder| {
            let path = self.here.join(folder);
            path.canonicalize().unwrap_or_else(|_| plain_path(&path))
        });
        let folders: Vec<PathBuf> = folders.collect();
        self.allowed.extend(folders);
        self
    }

    /// The folder that steps run in.
    pub fn here(&self) -> &Path {
        &self.here
    }

    /// The folder that steps run in, relative to the project; `.` for the project itself. A run keeps it like this, so that
    /// it goes on in a project that was moved or copied.
    pub fn relative_here(&self) -> String {
        match self.here.strip_prefix(&self.root) {
            Ok(path) if path.as_os_str().is_empty() => ".".to_owned(),
            Ok(path) => path.display().to_string(),
            Err(_) => self.here.display().to_string(),
        }
    }

    /// The same project with another folder for steps, as [`Self::relative_here`] gave it.
    pub fn return_to(&self, relative: &str) -> io::Result<Self> {
        self.at(&self.root.join(relative))
    }

    /// The folder of the store.
    pub fn store(&self) -> PathBuf {
        self.store.clone()
    }

    /// The same project with its journal somewhere else: in a folder of this machine, where other machines share the
    /// project.
    #[must_use]
    pub fn with_journal(self, folder: PathBuf) -> Self {
        Self { journal: Some(folder), ..self }
    }

    /// The folder of the journal, which is that of the store unless somebody said otherwise.
    pub fn journal(&self) -> PathBuf {
        self.journal.clone().unwrap_or_else(|| self.store.clone())
    }

    /// Makes the folder of the store, for a project whose journal is elsewhere.
    pub fn make_store(&self) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.store)
    }

    /// Where the worktrees of a run are. The id was checked: it is one plain name.
    pub fn worktrees(&self, run: &str) -> PathBuf {
        self.all_worktrees().join(run)
    }

    /// Where the worktrees of all runs are, each in a folder of its own.
    pub fn all_worktrees(&self) -> PathBuf {
        self.store().join("worktrees")
    }

    /// The folder of the project.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Keeps the store, which is there by now, out of the project's repository.
    pub fn ignore_store(&self) {
        let ignore = self.store().join(".gitignore");
        // Without it everything works, and somebody may have to ignore the folder by hand.
        let _ = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(ignore)
            .and_then(|mut file| file.write_all(b"*\n"));
    }

    /// Makes the folder of a run, which is kept out of the project's repository.
    pub(crate) fn make_run_folder(&self, run: &str) -> io::Result<()> {
        let all = self.here.join(RUN_FOLDERS);
        fs::create_dir_all(self.here.join(run_folder(run).as_str()))?;
        let ignore = fs::OpenOptions::new().write(true).create_new(true).open(all.join(".gitignore"));
        match ignore.and_then(|mut file| file.write_all(b"*\n")) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes the folder of a run, if there is one.
    pub fn remove_run_folder(&self, run: &str) -> io::Result<()> {
        for folder in [&self.root, &self.here] {
            match fs::remove_dir_all(folder.join(run_folder(run).as_str())) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// The text of a file of the project.
    pub fn read(&self, name: &str, from: &Path) -> Result<String, FileError> {
        let file = self.open(name, from)?;
        let mut bytes = Vec::new();
        file.take(MAX_FILE + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| FileError::new(format!("`{name}`: {}", plain(&error))))?;
        if bytes.len() as u64 > MAX_FILE {
            return Err(FileError::new(format!("`{name}` is larger than 64 MiB")));
        }
        String::from_utf8(bytes).map_err(|error| {
            FileError::new(format!(
                "`{name}` is not valid UTF-8 at byte {}",
                error.utf8_error().valid_up_to()
            ))
        })
    }

    /// A file of the project, to be read bit by bit, of any size.
    pub fn open(&self, name: &str, from: &Path) -> Result<fs::File, FileError> {
        let shown = |error: io::Error| FileError::new(format!("`{name}`: {}", plain(&error)));
        let path = self.by_name(name, from)?.canonicalize().map_err(shown)?;
        self.check(name, &path)?;
        // To open a pipe waits for a writer, who may never come.
        let without_waiting = OFlags::NONBLOCK.bits().cast_signed();
        let file =
            fs::OpenOptions::new().read(true).custom_flags(without_waiting).open(&path).map_err(shown)?;
        if !file.metadata().map_err(shown)?.is_file() {
            return Err(FileError::new(format!("`{name}` is not a regular file")));
        }
        Ok(file)
    }

    /// The files that a pattern names, in the order of their paths. `*` and `?` stand for characters of a name, `**` for
    /// folders; neither stands for what begins with a dot.
    pub fn matching(&self, pattern: &str) -> Result<Vec<String>, FileError> {
        FilePattern::new(pattern).files(self)
    }

    /// Writes a file of the project: all of it or nothing, whatever happens in between.
    pub fn write(&self, name: &str, content: &str, how: &WriteHow<'_>) -> Result<PathBuf, FileError> {
        let shown = |error: io::Error| FileError::new(format!("`{name}`: {}", plain(&error)));
        let path = self.by_name(name, how.from)?;
        self.check_written(name, &path)?;
        let file_name =
            path.file_name().ok_or_else(|| FileError::new(format!("`{name}` is not the name of a file")))?;
        let folder = path.parent().unwrap_or(&self.here);
        self.check_written(name, &existing(folder))?;
        if how.create_dirs {
            fs::create_dir_all(folder).map_err(shown)?;
        }
        let folder = folder.canonicalize().map_err(|error| FileError {
            hint: (error.kind() == io::ErrorKind::NotFound)
                .then(|| "`create_dirs: true` makes the folders on the way".to_owned()),
            ..shown(error)
        })?;
        self.check(name, &folder)?;
        // A link is written through only where it stays inside.
        let target = match folder.join(file_name).canonicalize() {
            Ok(target) => target,
            Err(_) => folder.join(file_name),
        };
        self.check_written(name, &target)?;
        if target.is_dir() {
            return Err(FileError::new(format!("`{name}` is a folder")));
        }
        let mode =
            how.mode.or_else(|| fs::metadata(&target).ok().map(|found| found.permissions().mode() & 0o7777));
        replace(&target, content.as_bytes(), mode).map_err(shown)?;
        Ok(target)
    }

    /// Where a path of the project leads, whether or not there is anything. A relative one is meant from the
    /// folder that steps run in.
    pub fn place(&self, name: &str) -> Result<PathBuf, FileError> {
        let path = existing(&self.by_name(name, &self.here)?);
        self.check(name, &path)?;
        // For the system, the parent of a link is that of the folder that it leads to.
        self.check(name, &existing(&self.here.join(name)))?;
        Ok(path)
    }

    /// The path by its text alone, when it stays inside.
    pub(crate) fn by_name(&self, name: &str, from: &Path) -> Result<PathBuf, FileError> {
        if name.is_empty() || name.contains('\0') {
            return Err(FileError::new("a path is not empty and holds no NUL character"));
        }
        let path = plain_path(&from.join(name));
        self.check(name, &path)?;
        Ok(path)
    }

    /// Whether a file may be written there, which is less than what may be read.
    fn check_written(&self, name: &str, path: &Path) -> Result<(), FileError> {
        self.check(name, path)?;
        let mut folders = std::iter::once(&self.root).chain(&self.allowed);
        let below = folders.find_map(|folder| path.strip_prefix(folder).ok()).unwrap_or(path);
        let (folder, whose) = match ProtectedFolder::on_way(below) {
            None => return Ok(()),
            Some(ProtectedFolder::Git) => (".git", "git runs the programs that its files name"),
            Some(ProtectedFolder::Store) => (".threadline", "a store belongs to Threadline"),
        };
        let message = format!("`{name}` leads into `{folder}`, and {whose}");
        Err(FileError::new(message).hint("`write_file` does not write there, a `shell` step can"))
    }

    /// Whether a path without links may be used.
    pub(crate) fn check(&self, name: &str, path: &Path) -> Result<(), FileError> {
        if path.starts_with(self.root.join(STORE)) {
            return Err(FileError::new(format!("`{name}` is in the store, which belongs to Threadline")));
        }
        if path.starts_with(&self.root) || self.allowed.iter().any(|allowed| path.starts_with(allowed)) {
            return Ok(());
        }
        let hint = format!(
            "files are used only inside the project, {}; `allow: {{files: [...]}}` adds folders",
            self.root.display()
        );
        Err(FileError::new(format!("`{name}` is outside the project")).hint(hint))
    }
}

/// How a file is written.
pub struct WriteHow<'a> {
    /// The folder that a relative path is meant from.
    pub from: &'a Path,
    /// The permissions of the file, if they are given.
    pub mode: Option<u32>,
    /// Whether folders on the way are made.
    pub create_dirs: bool,
}

/// Writes beside it, then takes its place: nobody ever sees half a file.
pub(crate) fn replace(target: &Path, content: &[u8], mode: Option<u32>) -> io::Result<()> {
    let folder = target.parent().unwrap_or(Path::new("/"));
    let beside = folder.join(format!(".threadline-{}", uuid::Uuid::new_v4().simple()));
    let written = (|| {
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(mode.unwrap_or(0o666)).open(&beside)?;
        if let Some(mode) = mode {
            file.set_permissions(fs::Permissions::from_mode(mode))?;
        }
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&beside, target)
    })();
    if written.is_err() {
        // It may never have been made.
        let _ = fs::remove_file(&beside);
    }
    written
}

/// Where the part of a path that exists leads to, with the rest behind it.
fn existing(path: &Path) -> PathBuf {
    for ancestor in path.ancestors() {
        if let (Ok(found), Ok(rest)) = (ancestor.canonicalize(), path.strip_prefix(ancestor)) {
            return found.join(rest);
        }
    }
    path.to_owned()
}

/// Whether a file or folder, which may not be there yet, is the store of the project that it is in, or stands in that.
pub fn is_in_store(path: &Path) -> bool {
    let Ok(path) = std::path::absolute(path) else { return false };
    let place = existing(&path);
    let folder = place.ancestors().skip(1).find(|folder| folder.is_dir());
    let project = folder.and_then(|folder| Project::of(folder).ok());
    project.is_some_and(|project| place.starts_with(project.store()))
}

/// The path without `.` and `..`, by its text alone.
fn plain_path(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

/// The system's words without its number.
pub fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let end = text.find(" (os error").unwrap_or(text.len());
    let mut chars = text[..end].chars();
    chars.next().map_or(String::new(), |first| first.to_lowercase().chain(chars).collect())
}
