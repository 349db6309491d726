//! `--watch`: tries a file of scenarios again when it changes, or a file that it names.
//!
//! The files are looked at twice a second. A file names another one where its text has the path of a file that is
//! there: of a program that a target starts, of cases, of a workflow.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, SystemTime};

use threadline_lang::diag::words;
use threadline_runner::process::Control;
use threadline_runner::signals::Listener;

use super::results::TestedFile;
use super::{TestSession, TriedFiles};
use crate::commands::history::cannot_start;
use crate::exit::CommandFailure;
use crate::inputs;
use crate::report;

/// The time between two looks at the files.
const INTERVAL: Duration = Duration::from_millis(500);

/// The most words of a file that are looked up as paths, and the most files of a pattern.
const MAX_WORDS: usize = 20_000;
const MAX_MATCHES: usize = 1_000;

/// What is remembered of a file: when it changed last and its size; nothing where it is not there.
type Stamp = Option<(SystemTime, u64)>;

/// The files that a file of scenarios depends on, as they were before it was tried.
type Watched = BTreeMap<PathBuf, Stamp>;

pub(super) fn watch(session: &TestSession<'_>) -> Result<(), CommandFailure> {
    let interrupts = Interrupts::listen()?;
    let mut watched: BTreeMap<PathBuf, Watched> = BTreeMap::new();
    let mut tested: Vec<TestedFile> = Vec::new();
    let mut all_refused: BTreeSet<PathBuf> = BTreeSet::new();
    let mut files = session.files()?;
    loop {
        for file in &files {
            watched.insert(file.clone(), session.stamps(file));
        }
        let TriedFiles { tested: new, refused, stopped } = session.try_files(&files, true)?;
        if let Some(failure) = stopped {
            session.report(&new)?;
            return Err(failure);
        }
        session.report_watched(&mut tested, new)?;
        all_refused.retain(|file| !files.contains(file) && file.exists());
        all_refused.extend(refused);
        let has_failed = tested.iter().flat_map(|file| &file.cases).any(|case| case.result.is_bad());
        let is_bad = has_failed || !all_refused.is_empty();
        let paths: BTreeSet<&PathBuf> = watched.values().flat_map(BTreeMap::keys).collect();
        report::print_note(&format!("watching {}; Ctrl-C ends", words::count(paths.len(), "file")));
        loop {
            if interrupts.wait(INTERVAL) {
                return if is_bad { Err(CommandFailure::Shown(1)) } else { Ok(()) };
            }
            let all = session.files().unwrap_or_default();
            let is_changed = |file: &&PathBuf| {
                let known = watched.get(*file);
                known.is_none_or(|known| known.iter().any(|(path, stamp)| stamp_of(path) != *stamp))
            };
            files = all.iter().filter(is_changed).cloned().collect();
            if !files.is_empty() {
                break;
            }
        }
    }
}

/// The signals that end the watching.
struct Interrupts {
    came: Receiver<()>,
    _listener: Listener,
}

impl Interrupts {
    fn listen() -> Result<Self, CommandFailure> {
        let (sender, came) = channel();
        let listener = Listener::start(Control::new(), move |_| {
            // Nobody listens only when the command ends anyway.
            let _ = sender.send(());
        });
        let listener = listener.map_err(|error| cannot_start(&format!("signals: {error}")))?;
        Ok(Self { came, _listener: listener })
    }

    /// Waits for a signal, at most so long; whether one came.
    fn wait(&self, time: Duration) -> bool {
        !matches!(self.came.recv_timeout(time), Err(RecvTimeoutError::Timeout))
    }
}

impl TestSession<'_> {
    /// What a file depends on, as it is now.
    fn stamps(&self, file: &Path) -> Watched {
        let mut paths = BTreeSet::from([file.to_owned()]);
        if let Ok(source) = inputs::read_workflow(file) {
            let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
            let parent = parent.unwrap_or(Path::new(".")).canonicalize();
            let mut folders = vec![self.folder().to_owned()];
            folders.extend(parent.ok().filter(|parent| parent.as_path() != self.folder()));
            named_files(source.own_text(), &folders, &mut paths);
            for part in source.parts() {
                paths.insert(PathBuf::from(part.name()));
                named_files(part.own_text(), &folders, &mut paths);
            }
        }
        paths.into_iter().map(|path| (path.clone(), stamp_of(&path))).collect()
    }
}

fn stamp_of(path: &Path) -> Stamp {
    let data = path.metadata().ok()?;
    Some((data.modified().ok()?, data.len()))
}

/// Adds the files whose paths stand in a text, relative to one of some folders.
fn named_files(text: &str, folders: &[PathBuf], found: &mut BTreeSet<PathBuf>) {
    let is_of_path = |char: char| char.is_alphanumeric() || "/._-+~@%*".contains(char);
    let words: BTreeSet<&str> =
        text.split(|char| !is_of_path(char)).filter(|word| !word.is_empty()).collect();
    for word in words.into_iter().take(MAX_WORDS) {
        for folder in folders {
            if let Some((before, _)) = word.split_once('*') {
                // All files of the folder: which of them are cases, the run decides.
                let inside = before.rsplit_once('/').map_or("", |(inside, _)| inside);
                let entries = std::fs::read_dir(folder.join(inside)).into_iter().flatten().flatten();
                let files = entries.map(|entry| entry.path()).filter(|path| path.is_file());
                found.extend(files.take(MAX_MATCHES));
            } else if folder.join(word).is_file() {
                found.insert(folder.join(word));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_in_the_text_of_a_file() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut found = BTreeSet::new();
        named_files(
            "argv: [sh, Cargo.toml, \"${prompt}\"]\ncases: 'src/s*.rs'\n",
            &[here.to_owned()],
            &mut found,
        );
        assert!(found.contains(&here.join("Cargo.toml")), "{found:?}");
        assert!(found.contains(&here.join("src/stats.rs")), "{found:?}");
        assert!(!found.contains(&here.join("sh")), "{found:?}");
    }
}
