//! Files for values that are too large for memory or the environment of a child. Nobody else can read them, and they
//! are gone when the step is done.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Files that only this user can read, gone when they are dropped.
pub(crate) struct PrivateFiles {
    folder: PathBuf,
    paths: Vec<PathBuf>,
}

impl PrivateFiles {
    /// No file yet, in a folder that exists.
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), paths: Vec::new() }
    }

    /// Writes a value into a file of its own.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let path = self.folder.join(format!("threadline-value-{}", uuid::Uuid::new_v4().simple()));
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        self.paths.push(path);
        file.write_all(bytes)
    }

    /// The path of the file that was written at this position.
    pub(crate) fn path(&self, at: usize) -> String {
        self.paths.get(at).map_or(String::new(), |path| path.display().to_string())
    }
}

impl Drop for PrivateFiles {
    fn drop(&mut self) {
        for path in &self.paths {
            // Whoever was given the path may have moved the file away.
            let _ = std::fs::remove_file(path);
        }
    }
}
