//! Where the project is, and how programs are started in it. It knows no task.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::failure::Failure;

/// The source tree and the folder for everything that is made from it.
pub(crate) struct Project {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
}

impl Project {
    pub(crate) fn find() -> Result<Self, Failure> {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = manifest.parent().unwrap_or(manifest).to_owned();
        let target = match std::env::var_os("CARGO_TARGET_DIR") {
            None => root.join("target"),
            Some(folder) => std::path::absolute(folder).map_err(|error| {
                Failure::new(format!("CARGO_TARGET_DIR is not a path: {error}"), "unset it or name a folder")
            })?,
        };
        Ok(Self { root, target })
    }

    /// The cargo that started this program, in the project's folder.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Command {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
        self.program(cargo, arguments)
    }

    pub(crate) fn program(&self, name: impl Into<OsString>, arguments: &[&str]) -> Command {
        let mut command = Command::new(name.into());
        command.current_dir(&self.root).args(arguments);
        command
    }

    /// The packages outside the workspace that are there.
    pub(crate) fn outside_packages(&self) -> Vec<&'static str> {
        let has_manifest = |folder: &&str| self.root.join(folder).join("Cargo.toml").exists();
        ["bench", "fuzz"].into_iter().filter(has_manifest).collect()
    }
}

/// Every file of the tree, in order, without what is built and what is hidden.
pub(crate) fn files(root: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(|error| Failure::unreadable(&folder, &error))? {
            let path = entry.map_err(|error| Failure::unreadable(&folder, &error))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with('.') || name == "target" {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Runs a command with its output on the screen; anything but success is a failure.
pub(crate) fn run(command: &mut Command, hint: &str) -> Result<(), Failure> {
    let status = command.status().map_err(|error| not_started(command, &error))?;
    if status.success() {
        return Ok(());
    }
    let message = format!("`{}` ended with {status}", shown(command));
    Err(Failure::new(message, hint))
}

/// Runs a command and gives what it wrote to stdout; its stderr stays on the screen.
pub(crate) fn output(command: &mut Command, hint: &str) -> Result<String, Failure> {
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| not_started(command, &error))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let message = format!("`{}` ended with {}", shown(command), output.status);
    Err(Failure::new(message, hint))
}

/// Whether a command can be started and succeeds; nothing is shown.
pub(crate) fn works(command: &mut Command) -> bool {
    let silent = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    silent.status().is_ok_and(|status| status.success())
}

/// The command as a person would type it.
pub(crate) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_stem().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}

fn not_started(command: &Command, error: &std::io::Error) -> Failure {
    let program = command.get_program().to_string_lossy();
    let hint = match error.kind() {
        ErrorKind::NotFound => "install it, or put its folder into PATH",
        _ => "see whether you can start it yourself",
    };
    Failure::new(format!("`{program}` did not start: {error}"), hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_typed() {
        let mut command = Command::new("/usr/bin/cargo");
        command.args(["fmt", "--check"]);
        assert_eq!(shown(&command), "cargo fmt --check");
    }

    #[test]
    fn a_program_that_is_not_there_is_a_failure() {
        let mut command = Command::new("no-such-program-here");
        assert!(!works(&mut command));
        let failure = run(&mut command, "").unwrap_err();
        assert!(failure.message.starts_with("`no-such-program-here` did not start"));
    }
}
