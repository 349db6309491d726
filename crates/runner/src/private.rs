//! Files for values that are too large for memory or the environment of a child. Nobody else can read them, and they
//! are gone when the step is done.

use std::io::{Read as _, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

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

    /// What a program wrote into the only file, of at most so many bytes. A file that is gone holds nothing.
    pub(crate) fn read_back(&self, most: u64) -> Result<String, String> {
        let Some(path) = self.paths.first() else { return Ok(String::new()) };
        // Whoever was given the path may have put something else there, which is neither followed nor waited for.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(file) => std::fs::File::from(file),
            Err(Errno::NOENT) => return Ok(String::new()),
            Err(Errno::LOOP) => return Err("it is a link now".to_owned()),
            Err(error) => return Err(error.to_string()),
        };
        if !file.metadata().is_ok_and(|of| of.is_file()) {
            return Err("it is no regular file any more".to_owned());
        }
        let mut bytes = Vec::new();
        file.take(most + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        if bytes.len() as u64 > most {
            return Err(format!("it has more than {most} bytes"));
        }
        String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())
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
