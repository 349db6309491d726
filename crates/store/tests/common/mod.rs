//! What the tests of the journal share: folders of their own, runs, events, and other processes.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use threadline_store::{Draft, NewRun, Reader, Record, RunId, StoreError};

/// A folder for one test; removed with all that is in it when dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(test: &str) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("threadline-store-{test}-{}-{number}", std::process::id()));
        // A process of the same number may have been killed before it could clean up.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    /// Where the journal is.
    pub(crate) fn journal(&self) -> PathBuf {
        self.0.join(threadline_store::FOLDER)
    }
}

impl std::ops::Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn id(text: &str) -> RunId {
    RunId::new(text).unwrap()
}

pub(crate) fn new_run(text: &str) -> NewRun {
    NewRun {
        id: id(text),
        name: "deploy".into(),
        file: "flows/deploy.yaml".into(),
        started_at: "2026-01-01T00:00:00.000Z".into(),
    }
}

/// The event number `n` of a run, different from all others.
pub(crate) fn draft(n: u64) -> Draft {
    Draft::new(if n.is_multiple_of(2) { "started" } else { "finished" }, format!("2026-01-01T00:00:{n:02}Z"))
        .at(format!("step-{n}"))
        .with(format!(r#"{{"n":{n}}}"#))
}

/// All events of a run, or the first error.
pub(crate) fn events(reader: &Reader, run: &str) -> Result<Vec<Record>, StoreError> {
    reader.read(&id(run), 1)?.collect()
}

/// Whether a record is what `draft(n)` became.
pub(crate) fn is_draft(record: &Record, n: u64) -> bool {
    let draft = draft(n);
    (&*record.kind, &record.place, &record.time, &record.payload)
        == (&*draft.kind, &draft.place, &draft.time, &draft.payload)
}

/// What a test gives to itself when it runs again as another process.
pub(crate) const ROLE: &str = "THREADLINE_STORE_TEST_ROLE";

/// The role of this process, if it is not the first.
pub(crate) fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// This test program again, for one test, in a role.
pub(crate) fn again(test: &str, role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(ROLE, role);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    command
}

/// Ends a process the hard way.
pub(crate) fn kill(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Numbers that look random, the same for the same seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % end
    }
}
