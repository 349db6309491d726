//! What is too large for a message, in files of the folder that all machines share.
//!
//! A file is named by the hash of its content, so what is read is what was written. Files are removed by their age:
//! when no request can name them any more.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The folder of the files, in that of the store.
const FOLDER: &str = "blobs";

/// A text in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlobRef {
    /// The hash of the text.
    pub(crate) hash: String,
    /// Its length in bytes.
    pub(crate) length: u64,
}

/// The folder with the files.
#[derive(Debug, Clone)]
pub(crate) struct Blobs {
    folder: PathBuf,
}

impl Blobs {
    /// Those of a store.
    pub(crate) fn of_store(store: &Path) -> Self {
        Self { folder: store.join(FOLDER) }
    }

    /// Writes a text into a file, whole or not at all.
    pub(crate) fn put(&self, text: &str) -> Result<BlobRef, String> {
        let hash = blake3::hash(text.as_bytes()).to_hex().to_string();
        let path = self.folder.join(&hash);
        let write = || {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
            let unfinished = self.folder.join(format!("{}.part", uuid::Uuid::new_v4().simple()));
            let mut file =
                fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&unfinished, &path)
        };
        write().map_err(|error| format!("`{}` cannot be written: {error}", path.display()))?;
        Ok(BlobRef { hash, length: text.len() as u64 })
    }

    /// The text in a file.
    pub(crate) fn get(&self, blob: &BlobRef) -> Result<String, String> {
        if blob.hash.len() != 64 || !blob.hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(format!("`{}` is no hash", blob.hash));
        }
        let path = self.folder.join(&blob.hash);
        let text = fs::read_to_string(&path);
        let text = text.map_err(|error| format!("`{}` cannot be read: {error}", path.display()))?;
        if text.len() as u64 != blob.length || *blake3::hash(text.as_bytes()).to_hex() != *blob.hash {
            return Err(format!("`{}` does not hold what was written into it", path.display()));
        }
        Ok(text)
    }

    /// Removes files that are older than anybody remembers.
    pub(crate) fn sweep(&self, memory: Duration) {
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        for entry in entries.filter_map(Result::ok) {
            let age = entry.metadata().and_then(|of| of.modified()).ok().and_then(|time| time.elapsed().ok());
            if age.is_some_and(|age| age > memory * 2) {
                // Somebody else may have removed it.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_what_was_written() {
        let folder = std::env::temp_dir().join(format!("threadline-blobs-{}", std::process::id()));
        let blobs = Blobs::of_store(&folder);
        let blob = blobs.put("a text").unwrap();
        assert_eq!(blobs.get(&blob), Ok("a text".to_owned()));
        blobs.sweep(Duration::from_hours(1));
        let path = blobs.folder.join(&blob.hash);
        fs::write(&path, "a texu").unwrap();
        assert_eq!(
            blobs.get(&blob),
            Err(format!("`{}` does not hold what was written into it", path.display()))
        );
        let outside = BlobRef { hash: "../journal".to_owned(), length: 1 };
        assert_eq!(blobs.get(&outside), Err("`../journal` is no hash".to_owned()));
        fs::remove_dir_all(&folder).unwrap();
    }
}
