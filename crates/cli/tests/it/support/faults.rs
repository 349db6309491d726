//! Lets the program fail, or end, at a chosen write to its store: a small library in C is loaded before it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

/// The library, compiled once for all tests.
static LIBRARY: LazyLock<PathBuf> = LazyLock::new(|| {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support/faults.c");
    // The folder is that of the binary, and goes with it.
    let library = Path::new(env!("CARGO_BIN_EXE_threadline")).with_file_name("threadline-faults.so");
    let fresh = library.with_extension(std::process::id().to_string());
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&fresh).arg(source).args(["-ldl", "-lpthread"]);
    assert!(compiler.status().expect("a C compiler").success());
    std::fs::rename(&fresh, &library).expect("the library");
    library
});

/// The binary in a folder, with the library.
fn command(arguments: &[&str], folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_threadline"));
    command.args(arguments).current_dir(folder).env_clear().stdin(Stdio::null());
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.envs([("HOME", "/home/user"), ("NO_COLOR", "1")]).env("LD_PRELOAD", &*LIBRARY);
    command
}

/// A call that changed the store, or told somebody something.
#[derive(Clone)]
pub(crate) struct RecordedCall {
    /// `W` writes, `T` cuts to a length, `F` syncs, `R` renames, `U` removes, `O` prints.
    pub(crate) sort: char,
    /// The number of the file.
    pub(crate) file: u64,
    pub(crate) at: u64,
    pub(crate) path: PathBuf,
    /// What was written; of a name, the new one.
    pub(crate) data: Vec<u8>,
}

/// Runs the binary, which must do well, and records every call that changes its store.
pub(crate) fn record(arguments: &[&str], folder: &Path) -> Vec<RecordedCall> {
    let record = folder.join("recorded-calls");
    let output =
        command(arguments, folder).env("THREADLINE_RECORD", &record).output().expect("the binary starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let bytes = std::fs::read(&record).expect("the record");
    std::fs::remove_file(&record).expect("the record");
    let (mut rest, mut calls) = (bytes.as_slice(), Vec::new());
    while let Some((sort, after)) = rest.split_first() {
        let mut after = after;
        let mut number = || {
            let (bytes, others) = after.split_at(8);
            after = others;
            u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
        };
        let [file, at, path, length] = [number(), number(), number(), number()];
        let (path, after) = after.split_at(usize::try_from(path).expect("a length"));
        let (data, after) = after.split_at(usize::try_from(length).expect("a length"));
        let path = PathBuf::from(String::from_utf8_lossy(path).into_owned());
        calls.push(RecordedCall { sort: char::from(*sort), file, at, path, data: data.to_vec() });
        rest = after;
    }
    calls
}

/// What a command did that was to meet a fault.
pub(crate) struct FaultyRun {
    /// The exit code; none if it was killed.
    pub(crate) exit: Option<i32>,
    pub(crate) stderr: String,
    /// Whether it made so many calls that it met the fault.
    pub(crate) is_met: bool,
}

/// Runs the binary in a folder; the call number `number` that changes its store or opens a file of it, from 1, fails with an error of this
/// name, writes a part and then fails (`SHORT`), or is the end of the process (`KILL`).
pub(crate) fn run(arguments: &[&str], folder: &Path, number: usize, what: &str) -> FaultyRun {
    let note = folder.join("met-the-fault");
    let _ = std::fs::remove_file(&note);
    let mut command = command(arguments, folder);
    command.env("THREADLINE_FAULT", format!("{number}:{what}")).env("THREADLINE_FAULT_NOTE", &note);
    let output = command.output().expect("the binary starts");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    FaultyRun { exit: output.status.code(), stderr, is_met: note.exists() }
}
