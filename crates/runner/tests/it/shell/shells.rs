//! The shells that are installed, and how a bound script is run in one.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use threadline_flow::shell::{AnalysisContext, BindError, BoundScript, Dialect, ShellProblem, analyse};
use threadline_lang::diag::Severity;
use threadline_lang::{NoWorld, Scope, ScopeEntry, Session, Syntax, Value};

use super::random::is_long;

/// A shell of this machine.
#[derive(Clone, Copy)]
pub(crate) struct Shell {
    pub(crate) name: &'static str,
    command: &'static [&'static str],
    pub(crate) dialect: Dialect,
}

pub(crate) const SHELLS: [Shell; 4] = [
    Shell { name: "bash", command: &["bash", "--norc", "--noprofile"], dialect: Dialect::Bash },
    Shell { name: "dash", command: &["dash"], dialect: Dialect::Posix },
    Shell { name: "busybox", command: &["busybox", "sh"], dialect: Dialect::Posix },
    Shell { name: "zsh", command: &["zsh", "-f"], dialect: Dialect::Zsh },
];

/// The shells that can be run here; bash always must.
pub(crate) fn installed() -> Vec<Shell> {
    SHELLS.into_iter().filter(|shell| shell.name == "bash" || found(shell.command[0])).collect()
}

impl Shell {
    /// Of so many tries, how many this shell gets: all of them, or by default a fifth if it is not bash.
    pub(crate) fn share(self, tries: usize) -> usize {
        if is_long() || self.dialect == Dialect::Bash { tries } else { tries.div_ceil(5) }
    }
}

/// Most people have UTF-8; every second run of the long form tries how bytes fare without.
fn locale() -> &'static str {
    if is_long() && std::process::id().is_multiple_of(2) { "C" } else { "C.UTF-8" }
}

/// Whether a program is in the search path.
pub(crate) fn found(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// An empty folder of its own, removed when it is dropped.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("threadline-shell-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// The names of the files in it.
    pub(crate) fn files(&self) -> Vec<OsString> {
        std::fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Shell {
    /// Runs a text as it is.
    pub(crate) fn run(&self, text: &str, environment: &[(String, &str)], folder: &Path) -> Output {
        let mut command = Command::new(self.command[0]);
        command.args(&self.command[1..]).arg("-c").arg(text).current_dir(folder);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
            .env("HOME", "/home/user")
            .env("LC_ALL", locale())
            .env("TMPDIR", folder.parent().unwrap_or(folder));
        command.envs(environment.iter().map(|(name, value)| (name, value))).stdin(Stdio::null());
        command.output().unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    /// Runs a bound script, its private files in a folder of their own.
    pub(crate) fn run_bound(&self, bound: &BoundScript, folder: &Path) -> Output {
        self.run_bound_in(bound, &[], folder)
    }

    /// Runs a bound script with more variables in its environment.
    pub(crate) fn run_bound_in(
        &self,
        bound: &BoundScript,
        environment: &[(String, String)],
        folder: &Path,
    ) -> Output {
        let private = Folder::new();
        for (index, variable) in bound.files() {
            std::fs::write(private.0.join(index.to_string()), &variable.value).unwrap();
        }
        let script = bound.script(|index| private.0.join(index.to_string()).to_str().unwrap().to_owned());
        let given = environment.iter().map(|(name, value)| (name.clone(), value.as_str()));
        self.run(&script, &given.chain(bound.environment()).collect::<Vec<_>>(), folder)
    }
}

impl Shell {
    /// Runs a text whose output does not matter, with a time limit: a hostile value may make it wait for ever.
    pub(crate) fn run_silently(&self, text: &str, environment: &[(String, String)], folder: &Path) {
        let (program, options) = self.command.split_first().unwrap();
        // A value may be the search path.
        let mut command = Command::new(locate("timeout"));
        command.args(["-s", "KILL", "20"]).arg(locate(program)).args(options).arg("-c").arg(text);
        command.current_dir(folder).env_clear().env("PATH", search_path());
        command
            .env("HOME", "/nonexistent")
            .env("LC_ALL", locale())
            .env("TERM", "xterm")
            .env("SHELL", "/bin/sh");
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().unwrap_or_else(|error| panic!("{}: {error}", self.name));
    }
}

/// The path of a program.
fn locate(program: &str) -> PathBuf {
    let path = search_path();
    let mut paths = std::env::split_paths(&path).map(|folder| folder.join(program));
    paths.find(|path| path.is_file()).unwrap_or_else(|| panic!("{program} is not installed"))
}

/// The search path without the folders of version managers, whose stand-ins are slow.
fn search_path() -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).filter(|folder| !folder.ends_with("shims"));
    std::env::join_paths(folders).unwrap()
}

/// Writes a program that can be run.
pub(crate) fn write_program(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    let mut permissions = std::fs::metadata(path).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o755);
    std::fs::set_permissions(path, permissions).unwrap();
}

/// Names and their values.
pub(crate) type Names = [(String, Value)];

pub(crate) fn scope(names: &Names) -> Scope {
    let entries = names.iter().map(|(name, value)| (name.as_str().into(), ScopeEntry::Plain(value.clone())));
    Scope::new().with_entries("data", entries).ok().unwrap()
}

/// Analyses and binds a text; the problems of either as data.
pub(crate) fn bind(text: &str, dialect: Dialect, names: &Names) -> Result<BoundScript, Vec<ShellProblem>> {
    let syntax = Syntax::DEFAULT;
    let known: BTreeSet<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
    let roots = |name: &str| known.contains(name);
    let (script, problems) = analyse(text, &AnalysisContext::new(dialect, &syntax, &roots));
    let mut world = NoWorld;
    match script.bind(&scope(names), &mut Session::new(&mut world)) {
        Ok(bound) => {
            assert!(problems.iter().all(|problem| problem.severity == Severity::Warning), "{problems:?}");
            Ok(bound)
        }
        Err(errors) => Err(errors.into_iter().map(told).collect()),
    }
}

fn told(error: BindError) -> ShellProblem {
    match error {
        BindError::Refused(problem) => problem,
        BindError::Evaluation(error) => panic!("{error:?}"),
    }
}
