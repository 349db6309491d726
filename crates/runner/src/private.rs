//! Files for values that are too large for memory or the environment of a child. Nobody else can read them, and they
//! are gone when the step is done.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::process::make_private;

/// Files that only this user can read, gone when they are dropped.
pub(crate) struct PrivateFiles(Vec<(usize, PathBuf)>);

impl PrivateFiles {
    /// Writes values under the indexes they have.
    pub(crate) fn write<'v>(
        folder: &Path,
        values: impl Iterator<Item = (usize, &'v [u8])>,
    ) -> std::io::Result<Self> {
        let mut files = Self(Vec::new());
        for (at, bytes) in values {
            make_private(folder)?;
            let path = folder.join(format!("value-{}", uuid::Uuid::new_v4().simple()));
            let mut file =
                std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
            files.0.push((at, path));
            file.write_all(bytes)?;
        }
        Ok(files)
    }

    /// The file of an index.
    pub(crate) fn path(&self, at: usize) -> String {
        let found = self.0.iter().find(|(index, _)| *index == at);
        found.map_or(String::new(), |(_, path)| path.display().to_string())
    }
}

impl Drop for PrivateFiles {
    fn drop(&mut self) {
        for (_, path) in &self.0 {
            // Whoever was given the path may have moved the file away.
            let _ = std::fs::remove_file(path);
        }
    }
}
