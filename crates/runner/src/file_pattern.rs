//! Which files of the project a pattern such as `cases/**/*.json` names.
//!
//! A folder is looked at once, with all parts of the pattern that its entries may match, so that no pattern takes longer
//! than the tree is large. Links to folders are followed only where a part of the pattern names them, and never out of
//! the project.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use crate::project::{FileError, Project, plain};

/// The largest number of entries of folders that one pattern looks at.
const MAX_ENTRIES: usize = 1_000_000;

/// What stands for any number of folders.
const FOLDERS: &str = "**";

/// A pattern of paths.
pub(crate) struct FilePattern<'p> {
    text: &'p str,
    /// The parts, without those that mean nothing.
    parts: Vec<&'p str>,
}

/// What is found on the way.
struct Search<'s> {
    project: &'s Project,
    found: Vec<String>,
    seen: usize,
}

impl<'p> FilePattern<'p> {
    pub(crate) fn new(text: &'p str) -> Self {
        let mut parts: Vec<&str> = Vec::new();
        for part in text.split('/').filter(|part| !matches!(*part, "" | ".")) {
            if part != FOLDERS || parts.last() != Some(&FOLDERS) {
                parts.push(part);
            }
        }
        if parts.last() == Some(&FOLDERS) {
            parts.push("*");
        }
        Self { text, parts }
    }

    /// The files in the order of their paths, which begin as the pattern does.
    pub(crate) fn files(&self, project: &Project) -> Result<Vec<String>, FileError> {
        let fixed = self.parts.iter().take_while(|part| !part.contains(['*', '?'])).count();
        // The last part names files, even without a wildcard.
        let fixed = fixed.min(self.parts.len().saturating_sub(1));
        if self.parts[fixed..].contains(&"..") {
            let message = format!("`{}`: `..` cannot stand behind a wildcard", self.text);
            return Err(FileError::new(message));
        }
        let root = if self.text.starts_with('/') { "/" } else { "" };
        let prefix = format!("{root}{}", self.parts[..fixed].join("/"));
        let base = project.by_name(if prefix.is_empty() { "." } else { &prefix }, project.here())?;
        let mut search = Search { project, found: Vec::new(), seen: 0 };
        let separator = if prefix.is_empty() || prefix.ends_with('/') { "" } else { "/" };
        let positions = self.with_skipped(BTreeSet::from([fixed]));
        self.search(&base, &format!("{prefix}{separator}"), &positions, &mut search)?;
        let mut found = search.found;
        if found.is_empty() {
            let hint = "`*` and `?` stand for characters of a name, `**` for folders; a name that begins with a dot \
                        has to be named";
            return Err(FileError::new(format!("no file matches `{}`", self.text)).hint(hint));
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Positions with those behind a `**`, which may stand for no folder at all.
    fn with_skipped(&self, mut positions: BTreeSet<usize>) -> BTreeSet<usize> {
        let behind = positions.iter().filter(|at| self.parts.get(**at) == Some(&FOLDERS));
        let behind: Vec<usize> = behind.map(|at| at + 1).collect();
        positions.extend(behind);
        positions
    }

    /// Looks at a folder whose entries are matched by the parts at these positions.
    fn search(
        &self,
        folder: &Path,
        prefix: &str,
        positions: &BTreeSet<usize>,
        search: &mut Search<'_>,
    ) -> Result<(), FileError> {
        let shown = if prefix.is_empty() { "." } else { prefix };
        let refused = |error: io::Error| FileError::new(format!("`{shown}`: {}", plain(&error)));
        let real = folder.canonicalize().map_err(refused)?;
        search.project.check(shown, &real)?;
        for entry in fs::read_dir(&real).map_err(refused)? {
            let entry = entry.map_err(refused)?;
            search.seen += 1;
            if search.seen > MAX_ENTRIES {
                let message = format!("`{}` looks at more than {MAX_ENTRIES} files and folders", self.text);
                return Err(FileError::new(message).hint("name the folder more closely"));
            }
            let name = entry.file_name();
            let lossy = name.to_string_lossy();
            // The parts for what is in it: behind one that names it, and those that stand for any folder.
            let (mut behind_name, mut any_folder) = (BTreeSet::new(), BTreeSet::new());
            for &at in positions {
                let Some(part) = self.parts.get(at) else { continue };
                if *part == FOLDERS {
                    any_folder.extend(Some(at).filter(|_| !lossy.starts_with('.')));
                } else if matches(part, &lossy) {
                    behind_name.insert(at + 1);
                }
            }
            let is_match = behind_name.remove(&self.parts.len());
            if !is_match && behind_name.is_empty() && any_folder.is_empty() {
                continue;
            }
            let Some(name) = name.to_str() else {
                let message = format!("the name of `{prefix}{lossy}` is not valid UTF-8");
                return Err(FileError::new(message));
            };
            let is_link = entry.file_type().map_err(refused)?.is_symlink();
            let path = entry.path();
            let Ok(metadata) = fs::metadata(&path) else {
                // A link that leads nowhere.
                continue;
            };
            if metadata.is_file() && is_match {
                search.found.push(format!("{prefix}{name}"));
            } else if metadata.is_dir() {
                let mut next = behind_name;
                if !is_link {
                    next.append(&mut any_folder);
                }
                if !next.is_empty() {
                    self.search(&path, &format!("{prefix}{name}/"), &self.with_skipped(next), search)?;
                }
            }
        }
        Ok(())
    }
}

/// Whether a part of a pattern matches a name.
fn matches(part: &str, name: &str) -> bool {
    if name.starts_with('.') && !part.starts_with('.') {
        return false;
    }
    let (part, name): (Vec<char>, Vec<char>) = (part.chars().collect(), name.chars().collect());
    let (mut at, mut in_name) = (0, 0);
    // Where the last `*` stands, and where what it stands for ends.
    let mut star: Option<(usize, usize)> = None;
    while in_name < name.len() {
        match part.get(at) {
            Some('*') => {
                star = Some((at, in_name));
                at += 1;
            }
            Some(char) if *char == '?' || *char == name[in_name] => {
                at += 1;
                in_name += 1;
            }
            _ => {
                let Some((star_at, end)) = star else { return false };
                star = Some((star_at, end + 1));
                (at, in_name) = (star_at + 1, end + 1);
            }
        }
    }
    part[at..].iter().all(|char| *char == '*')
}
