//! Files that one process at a time may hold. The operating system keeps the lock and releases it when the process ends,
//! however it ends. Whether a process is alive is never guessed from its id.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The maximum number of further attempts to lock a file, a millisecond apart.
const MAX_RETRIES: u32 = 10;

/// A file that this process holds. Dropping it removes the file, then gives the lock back.
#[derive(Debug)]
pub(crate) struct LockedFile {
    file: File,
    path: PathBuf,
}

impl LockedFile {
    /// Locks a file, which is created if it does not exist. Returns `None` if another process holds it.
    pub(crate) fn acquire(path: &Path) -> io::Result<Option<Self>> {
        let mut asked = 0;
        loop {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(path)?;
            match file.try_lock() {
                Ok(()) => {}
                // A process that only asks whether the file is held locks it for an instant.
                Err(TryLockError::WouldBlock) if asked < MAX_RETRIES => {
                    asked += 1;
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                }
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
            // Between opening and locking, the holder may have removed the file: then this is the lock of a file that
            // nobody else can find, and worth nothing.
            if still_there(&file, path)? {
                return Ok(Some(Self { file, path: path.to_owned() }));
            }
        }
    }

    /// Writes the id of this process into the file, for people who meet the lock.
    pub(crate) fn sign(&mut self) -> io::Result<()> {
        let id = std::process::id().to_string();
        self.file.write_all(id.as_bytes())?;
        // Some file systems write a file to the disk when it is closed after it was cut to nothing, which takes milliseconds.
        if self.file.metadata()?.len() > id.len() as u64 {
            self.file.set_len(id.len() as u64)?;
        }
        Ok(())
    }

    /// The open file.
    pub(crate) fn file(&mut self) -> &mut File {
        &mut self.file
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // It is removed while it is locked, so it cannot be the file of another process. A failure does no harm.
        let _ = fs::remove_file(&self.path);
    }
}

/// Whether a process holds a file.
pub(crate) fn is_held(path: &Path) -> io::Result<bool> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    // SharedConnection and given back at once: what it tells is over when it is told.
    match file.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// The process that signed a file.
pub(crate) fn signature(path: &Path) -> Option<u32> {
    let mut text = String::new();
    File::open(path).ok()?.take(16).read_to_string(&mut text).ok()?;
    text.parse().ok()
}

fn still_there(file: &File, path: &Path) -> io::Result<bool> {
    let ours = file.metadata()?;
    match fs::metadata(path) {
        Ok(found) => Ok((ours.dev(), ours.ino()) == (found.dev(), found.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
