//! Whose store it is. The journal of a store decides which programs a resumed run starts, so a store is used
//! only if this user made it, as far as the file system and git can tell, or says so.
//!
//! What Threadline makes is a real folder with mode 0700 and a journal with mode 0600, and both belong to the
//! user. A clone, an archive and another user do not leave that: git knows neither of these modes, and tracks
//! what it brings. Nothing is remembered about a store that passes. One that does not is used after
//! `--trust-store`, which is remembered in the state folder of the user, where no repository can write.
//!
//! It reads no journal and starts no run.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::process::Environment;
use crate::project::{plain, replace};
use crate::worktrees;

/// The file of the state folder with the stores that the user trusts: a line for each.
const TRUSTED: &str = "trusted-stores";

/// The permissions of others.
const OTHERS: u32 = 0o077;

/// What a command is about to do with a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StoreUse {
    /// Show what is in it.
    Read,
    /// Add a run to it.
    Write,
    /// Do what its journal says.
    Resume,
}

/// Why a store may not be the user's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreDoubt {
    /// It, or a part of it, is a link.
    Link(PathBuf),
    /// It, or a part of it, belongs to somebody else.
    Owner(PathBuf),
    /// Others may change a folder or a journal.
    Writable(PathBuf),
    /// Others may read a journal: Threadline makes it private.
    Readable(PathBuf),
    /// Git brought it.
    Tracked(PathBuf),
}

impl fmt::Display for StoreDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link(path) => write!(f, "`{}` is a link, and a store is a folder", path.display()),
            Self::Owner(path) => write!(f, "`{}` belongs to another user", path.display()),
            Self::Writable(path) => write!(f, "other users may change `{}`", path.display()),
            Self::Readable(path) => write!(
                f,
                "other users may read `{}`, so Threadline did not make it here: a journal has mode 0600",
                path.display()
            ),
            Self::Tracked(path) => {
                write!(f, "git tracks `{}`, so the store came with the repository", path.display())
            }
        }
    }
}

impl std::error::Error for StoreDoubt {}

/// Checks that a store is the user's own. One that is not there yet is; one with a folder that is too open is
/// closed.
pub fn check(store: &Path, purpose: StoreUse) -> Result<(), StoreDoubt> {
    let Ok(found) = fs::symlink_metadata(store) else { return Ok(()) };
    if is_trusted(store) {
        return Ok(());
    }
    if found.is_symlink() {
        return Err(StoreDoubt::Link(store.to_owned()));
    }
    check_owner(store, &found)?;
    if purpose > StoreUse::Read && found.mode() & OTHERS != 0 {
        // Where there are no permissions, this changes nothing.
        let _ = fs::set_permissions(store, fs::Permissions::from_mode(0o700));
    }
    let now = fs::symlink_metadata(store).map_or(0, |found| found.mode());
    if now & 0o022 != 0 {
        return Err(StoreDoubt::Writable(store.to_owned()));
    }
    // What cannot be listed cannot be opened either, and that says why.
    for entry in fs::read_dir(store).into_iter().flatten().flatten() {
        check_entry(&entry.path(), purpose)?;
    }
    if purpose == StoreUse::Resume && worktrees::is_tracked(store, &Environment::inherited()) {
        return Err(StoreDoubt::Tracked(store.to_owned()));
    }
    Ok(())
}

fn check_entry(path: &Path, purpose: StoreUse) -> Result<(), StoreDoubt> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    if found.is_symlink() {
        return Err(StoreDoubt::Link(path.to_owned()));
    }
    check_owner(path, &found)?;
    let is_journal = path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"journal."));
    match found.mode() & OTHERS {
        // The folder around it closes everything else.
        _ if !is_journal => Ok(()),
        others if others & 0o022 != 0 => Err(StoreDoubt::Writable(path.to_owned())),
        others if others != 0 && purpose > StoreUse::Read => Err(StoreDoubt::Readable(path.to_owned())),
        _ => Ok(()),
    }
}

fn check_owner(path: &Path, found: &Metadata) -> Result<(), StoreDoubt> {
    let user = rustix::process::geteuid();
    let behind_sudo = || std::env::var("SUDO_UID").ok()?.parse::<u32>().ok();
    // Whoever may become root has nothing to gain from a journal that root resumes.
    let is_own = found.uid() == user.as_raw() || (user.is_root() && behind_sudo() == Some(found.uid()));
    if is_own { Ok(()) } else { Err(StoreDoubt::Owner(path.to_owned())) }
}

/// Uses a store from now on, whoever made it. Where that cannot be remembered it holds for this process
/// alone, and the error says why.
pub fn trust(store: &Path) -> io::Result<()> {
    let Some(line) = line_of(store) else { return Ok(()) };
    if is_listed(&line) {
        return Ok(());
    }
    let refused = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, why.to_owned());
    if line.contains(&b'\n') {
        return Err(refused("its path has a line break"));
    }
    let folder = state_folder().ok_or_else(|| refused("neither XDG_STATE_HOME nor HOME is set"))?;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
    let file = folder.join(TRUSTED);
    let mut lines = fs::read(&file).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(Vec::new()),
        _ => Err(error),
    })?;
    lines.extend_from_slice(&line);
    lines.push(b'\n');
    replace(&file, &lines, Some(0o600))
}

/// What an error of [`trust`] means, in words.
pub fn describe_untold(error: &io::Error) -> String {
    format!("the store is trusted for this command only: {}", plain(error))
}

fn is_trusted(store: &Path) -> bool {
    line_of(store).is_some_and(|line| is_listed(&line))
}

fn is_listed(line: &[u8]) -> bool {
    let known = state_folder().and_then(|folder| fs::read(folder.join(TRUSTED)).ok()).unwrap_or_default();
    known.split(|byte| *byte == b'\n').any(|known| known == line)
}

/// How a store is listed: the folder itself, so that another one in its place is not trusted.
fn line_of(store: &Path) -> Option<Vec<u8>> {
    let path = store.canonicalize().ok()?;
    let found = fs::metadata(&path).ok()?;
    let mut line = format!("{} {} ", found.dev(), found.ino()).into_bytes();
    line.extend_from_slice(path.as_os_str().as_bytes());
    Some(line)
}

fn state_folder() -> Option<PathBuf> {
    let absolute = |name: &str| {
        let path = PathBuf::from(std::env::var_os(name)?);
        path.is_absolute().then_some(path)
    };
    let base = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(base.join(OsStr::new("threadline")))
}
