//! Answers of agents that are kept between runs, in the store: a file for each question, named by its hash.
//!
//! Nothing of a run depends on them: what was used of one stands in the journal of the run that used it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use threadline_engine::agent::exchange::{Answered, ExchangeRequest};
use threadline_lang::value::JsonStyle;
use threadline_lang::{Limits, Value, data};

/// The kept answers of a store.
#[derive(Debug, Clone)]
pub struct KeptAnswers {
    folder: PathBuf,
}

/// Files of a store that were removed, or would be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FilesRemoved {
    /// The number of files.
    pub count: u64,
    /// The size of all of them together.
    pub bytes: u64,
}

impl KeptAnswers {
    /// Those of a store.
    pub fn of_store(store: &Path) -> Self {
        Self { folder: store.join("answers") }
    }

    /// The answer to exactly this, which counts as used now.
    pub(crate) fn read(&self, asked: &ExchangeRequest) -> Option<Answered> {
        let path = self.file(asked);
        let text = fs::read_to_string(&path).ok()?;
        // A file that cannot be read answers nothing; it is written again.
        let kept = data::json::read_value(&text, &Limits::DEFAULT).ok()?;
        // Two questions with one hash are not to be expected, and would be told apart.
        if kept.get("asked") != Some(asked.value()) {
            return None;
        }
        let touched = fs::File::options().append(true).open(&path);
        // At worst it goes earlier.
        let _ = touched.and_then(|file| file.set_modified(SystemTime::now()));
        kept.get("answered").cloned().map(Answered::of_value)
    }

    /// Keeps an answer. One that cannot be written is asked for again.
    pub(crate) fn keep(&self, asked: &ExchangeRequest, answered: &Answered) {
        let kept = Value::record([("asked", asked.value().clone()), ("answered", answered.value().clone())]);
        let file = self.file(asked);
        let new = file.with_extension(format!("{}.new", uuid::Uuid::new_v4()));
        let written = fs::create_dir_all(&self.folder)
            .and_then(|()| fs::write(&new, kept.to_json(JsonStyle::Compact)))
            .and_then(|()| fs::rename(&new, &file));
        if written.is_err() {
            let _ = fs::remove_file(&new);
        }
    }

    /// Removes the answers that were not used since, or only counts them.
    pub fn remove_unused_since(&self, since: SystemTime, only_count: bool) -> io::Result<FilesRemoved> {
        remove_unused_since(&self.folder, since, only_count)
    }

    fn file(&self, asked: &ExchangeRequest) -> PathBuf {
        self.folder.join(format!("{}.json", asked.hash()))
    }
}

/// Removes the files of a folder that were not written or used since, or only counts them.
pub(crate) fn remove_unused_since(
    folder: &Path,
    since: SystemTime,
    only_count: bool,
) -> io::Result<FilesRemoved> {
    let mut removed = FilesRemoved::default();
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(removed),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let Ok(meta) = entry.metadata() else { continue };
        if !meta.is_file() || meta.modified()? >= since {
            continue;
        }
        removed.count += 1;
        removed.bytes += meta.len();
        if !only_count {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(removed)
}
