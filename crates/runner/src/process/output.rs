//! What a child wrote: in memory while it is small, in a file as soon as it is not.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Up to here output stays in memory.
const IN_MEMORY: usize = 64 * 1024;

/// All that a child wrote to one stream, exact to the byte.
#[derive(Debug)]
pub enum Captured {
    /// At most 64 KiB.
    Memory(Vec<u8>),
    /// More than that.
    File(Spooled),
}

impl Captured {
    /// How many bytes there are.
    pub fn len(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::File(spooled) => spooled.len,
        }
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of it in memory, wherever it was.
    pub fn read(&self) -> io::Result<Vec<u8>> {
        match self {
            Self::Memory(bytes) => Ok(bytes.clone()),
            Self::File(spooled) => fs::read(&spooled.path),
        }
    }
}

/// A file with the output of a child. It is removed when this is dropped, unless it was taken.
#[derive(Debug)]
pub struct Spooled {
    path: PathBuf,
    len: u64,
    taken: bool,
}

impl Spooled {
    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many bytes it has.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// A spooled output is more than fits in memory, so this is false.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Leaves the file to the caller.
    pub fn take(mut self) -> PathBuf {
        self.taken = true;
        std::mem::take(&mut self.path)
    }
}

impl Drop for Spooled {
    fn drop(&mut self) {
        if !self.taken {
            // A file that is gone already, or cannot be removed, only takes place in a folder of temporary files.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Takes output as it arrives.
pub(super) struct Collector {
    memory: Vec<u8>,
    file: Option<(File, Spooled)>,
}

impl Collector {
    pub(super) fn new() -> Self {
        Self { memory: Vec::new(), file: None }
    }

    pub(super) fn len(&self) -> u64 {
        self.file.as_ref().map_or(self.memory.len() as u64, |(_, spooled)| spooled.len)
    }

    /// Adds a piece. `folder` is where a file would be made.
    pub(super) fn add(&mut self, piece: &[u8], folder: &Path) -> io::Result<()> {
        if self.file.is_none() {
            if self.memory.len() + piece.len() <= IN_MEMORY {
                self.memory.extend_from_slice(piece);
                return Ok(());
            }
            let (mut file, mut spooled) = create(folder)?;
            file.write_all(&self.memory)?;
            spooled.len = self.memory.len() as u64;
            self.memory = Vec::new();
            self.file = Some((file, spooled));
        }
        if let Some((file, spooled)) = &mut self.file {
            file.write_all(piece)?;
            spooled.len += piece.len() as u64;
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Captured {
        match self.file {
            Some((_, spooled)) => Captured::File(spooled),
            None => Captured::Memory(self.memory),
        }
    }
}

/// A new private file in the folder, with a name that no other process or thread uses.
fn create(folder: &Path) -> io::Result<(File, Spooled)> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("output-{}-{number}", std::process::id()));
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => return Ok((file, Spooled { path, len: 0, taken: false })),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}
