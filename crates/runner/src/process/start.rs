//! Starting a child: finding its program, and saying what went wrong in words for people.
//!
//! Everything here keeps the standard library on `posix_spawn`, which does not copy the page tables of this process:
//! no `pre_exec`, and a program that is named by its path, because a search through a changed `PATH` would need a fork.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Seek as _, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;

use super::{Environment, Spec, Stdin};

/// Where programs are looked for when the child has no `PATH`, as the C library does.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Why a child could not be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartError {
    /// No folder of `PATH` has a program of this name.
    NotOnPath {
        /// The program as it was named.
        program: OsString,
        /// A file of that name that may not be executed.
        not_executable: Option<PathBuf>,
        /// Whether the folder of the step has an executable file of that name.
        in_folder: bool,
    },
    /// There is no such file.
    NoSuchFile(PathBuf),
    /// The file is there, the interpreter of its first line is not.
    NoInterpreter {
        /// The script that names an interpreter.
        script: PathBuf,
        /// What its first line names.
        interpreter: OsString,
    },
    /// The file may not be executed.
    NotExecutable(PathBuf),
    /// The program is a folder.
    IsFolder(PathBuf),
    /// The file is neither a program for this machine nor a script with a `#!` line.
    NotAProgram(PathBuf),
    /// The file is being written by someone.
    Busy(PathBuf),
    /// The folder to run in is not there.
    NoFolder(PathBuf),
    /// The folder to run in cannot be entered.
    FolderRefused(PathBuf),
    /// The arguments and the environment are more than the system takes.
    TooLarge {
        /// All arguments together.
        arguments: usize,
        /// All variables together.
        environment: usize,
    },
    /// A zero byte in the program's name or an argument.
    ZeroByte,
    /// A variable that no environment can hold.
    BadVariable(OsString),
    /// The limit of processes is reached.
    TooManyProcesses,
    /// The limit of open files is reached.
    TooManyFiles,
    /// There is no memory for another process.
    NoMemory,
    /// Anything else, in the system's words.
    Other {
        /// The program that was found.
        program: OsString,
        /// What the system said.
        error: String,
    },
}

impl StartError {
    /// Whether the same call may work later, with nothing changed by anyone here.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::TooManyProcesses | Self::TooManyFiles | Self::NoMemory | Self::Busy(_))
    }

    /// How to put it right.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NotOnPath { not_executable: Some(file), .. } | Self::NotExecutable(file) => {
                format!("make it executable: `chmod +x {}`", file.display())
            }
            Self::NotOnPath { program, in_folder: true, .. } => {
                format!("a file of the step's folder is named with its path: `./{}`", program.display())
            }
            // What this says is kept with the run, and the environment is not.
            Self::NotOnPath { .. } => "no folder of `PATH` has it".into(),
            Self::NotAProgram(_) => "a script names its interpreter in its first line: `#!/bin/sh`".into(),
            Self::NoFolder(_) => "create it in an earlier step, or correct `cwd`".into(),
            Self::TooLarge { .. } => "give large values with `| as_file`, or through standard input".into(),
            Self::TooManyProcesses => "run less at a time, or raise the limit: `ulimit -u`".into(),
            Self::TooManyFiles => "run less at a time, or raise the limit: `ulimit -n`".into(),
            Self::NoMemory => "run less at a time".into(),
            _ => return None,
        })
    }

    /// What an error of the system means for this child.
    pub(super) fn from_system(error: &io::Error, spec: &Spec) -> Self {
        let program = program_path(spec);
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::PERM) => {
                not_there(error, spec, program)
            }
            Some(Errno::TOOBIG) => {
                let arguments = spec.args.iter().chain([&spec.program]).map(|arg| arg.len() + 1).sum();
                let variables = spec.env.variables();
                let environment = variables.map(|(name, value)| name.len() + value.len() + 2).sum();
                Self::TooLarge { arguments, environment }
            }
            Some(Errno::NOEXEC) => Self::NotAProgram(program),
            Some(Errno::TXTBSY) => Self::Busy(program),
            Some(Errno::AGAIN) => Self::TooManyProcesses,
            Some(Errno::MFILE | Errno::NFILE) => Self::TooManyFiles,
            Some(Errno::NOMEM) => Self::NoMemory,
            _ if error.kind() == io::ErrorKind::InvalidInput => Self::ZeroByte,
            _ => Self::Other { program: spec.program.clone(), error: error.to_string() },
        }
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOnPath { program, not_executable: Some(file), .. } => {
                write!(f, "cannot run `{}`: `{}` is not executable", program.display(), file.display())
            }
            Self::NotOnPath { program, .. } => {
                write!(f, "cannot find the program `{}`", program.display())
            }
            Self::NoSuchFile(path) => write!(f, "cannot run `{}`: there is no such file", path.display()),
            Self::NoInterpreter { script, interpreter } => {
                let interpreter = interpreter.display();
                write!(f, "cannot run `{}`: its interpreter `{interpreter}` is not there", script.display())
            }
            Self::NotExecutable(path) => write!(f, "cannot run `{}`: it is not executable", path.display()),
            Self::IsFolder(path) => write!(f, "cannot run `{}`: it is a folder", path.display()),
            Self::NotAProgram(path) => {
                write!(
                    f,
                    "cannot run `{}`: it is neither a program nor a script with a `#!` line",
                    path.display()
                )
            }
            Self::Busy(path) => write!(f, "cannot run `{}`: it is being written", path.display()),
            Self::NoFolder(path) => write!(f, "the folder `{}` is not there", path.display()),
            Self::FolderRefused(path) => write!(f, "the folder `{}` cannot be entered", path.display()),
            Self::TooLarge { arguments, environment } => write!(
                f,
                "the arguments ({arguments} bytes) and the environment ({environment} bytes) are more than the \
                 system takes"
            ),
            Self::ZeroByte => f.write_str("an argument holds a zero byte"),
            Self::BadVariable(name) => {
                write!(
                    f,
                    "the variable `{}` has a name or a value that no environment can hold",
                    name.display()
                )
            }
            Self::TooManyProcesses => f.write_str("the limit of processes is reached"),
            Self::TooManyFiles => f.write_str("the limit of open files is reached"),
            Self::NoMemory => f.write_str("there is no memory for another process"),
            Self::Other { program, error } => write!(f, "cannot run `{}`: {error}", program.display()),
        }
    }
}

impl std::error::Error for StartError {}

/// The command for the standard library, with nothing left to look up. `child` is the name in its mark.
pub(super) fn command(spec: &Spec, child: &OsStr) -> Result<Command, StartError> {
    if let Some(name) = spec.env.impossible_name() {
        return Err(StartError::BadVariable(name.to_owned()));
    }
    let mut command = if is_path(&spec.program) {
        Command::new(&spec.program)
    } else {
        let mut command = Command::new(search(&spec.program, &spec.env, &spec.cwd)?);
        command.arg0(&spec.program);
        command
    };
    command.args(&spec.args).current_dir(&spec.cwd).process_group(0).env_clear();
    command.envs(spec.env.variables()).envs(spec.env.mark_of(child));
    command.stdin(match &spec.stdin {
        Stdin::Bytes(bytes) if !bytes.is_empty() => {
            whole_input(bytes).map_err(|error| StartError::from_system(&error, spec))?.into()
        }
        Stdin::Pipe(end) => end.try_clone().map_err(|error| StartError::from_system(&error, spec))?.into(),
        _ => Stdio::null(),
    });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

/// A file in memory with all that a child reads, at its beginning. Whatever becomes of this process, the child finds
/// either all of it or is not started: it never acts upon a part of what it was to be told.
fn whole_input(bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create("stdin", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}

fn is_path(program: &OsStr) -> bool {
    program.as_bytes().contains(&b'/')
}

/// Looks for a program where the child's own `PATH` says.
fn search(program: &OsStr, env: &Environment, cwd: &Path) -> Result<PathBuf, StartError> {
    let path = env.get(OsStr::new("PATH")).unwrap_or(OsStr::new(DEFAULT_PATH));
    let mut not_executable = None;
    if !program.is_empty() {
        for folder in std::env::split_paths(path) {
            let candidate = cwd.join(folder).join(program);
            match fs::metadata(&candidate) {
                Ok(file) if !file.is_file() => {}
                Ok(file) if file.permissions().mode() & 0o111 != 0 => return Ok(candidate),
                Ok(_) => not_executable = not_executable.or(Some(candidate)),
                Err(_) => {}
            }
        }
    }
    let in_folder = !program.is_empty() && executable_file(&cwd.join(program));
    Err(StartError::NotOnPath { program: program.to_owned(), not_executable, in_folder })
}

fn executable_file(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// The file that would be executed, for messages.
fn program_path(spec: &Spec) -> PathBuf {
    if is_path(&spec.program) {
        return spec.cwd.join(&spec.program);
    }
    search(&spec.program, &spec.env, &spec.cwd).unwrap_or_else(|_| PathBuf::from(&spec.program))
}

/// The system says the same of a folder, a program and an interpreter: look which one it was.
fn not_there(error: &io::Error, spec: &Spec, program: PathBuf) -> StartError {
    match fs::metadata(&spec.cwd) {
        Ok(folder) if !folder.is_dir() => return StartError::NoFolder(spec.cwd.clone()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return StartError::FolderRefused(spec.cwd.clone());
        }
        Err(_) => return StartError::NoFolder(spec.cwd.clone()),
        Ok(_) => {}
    }
    if fs::metadata(spec.cwd.join(".")).is_err() {
        return StartError::FolderRefused(spec.cwd.clone());
    }
    match fs::metadata(&program) {
        Ok(file) if file.is_dir() => StartError::IsFolder(program),
        Ok(_) if error.kind() == io::ErrorKind::NotFound => match interpreter(&program) {
            Some(interpreter) => StartError::NoInterpreter { script: program, interpreter },
            None => StartError::NotAProgram(program),
        },
        Ok(_) => StartError::NotExecutable(program),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => StartError::NotExecutable(program),
        Err(_) => StartError::NoSuchFile(program),
    }
}

/// What the `#!` line of a script names.
fn interpreter(script: &Path) -> Option<OsString> {
    use std::io::Read;
    let mut start = Vec::new();
    File::open(script).ok()?.take(256).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let name = line.trim_ascii_start().split(|byte| matches!(byte, b' ' | b'\t')).next()?;
    Some(OsStr::from_bytes(name).to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn limits_of_the_system_are_named_and_may_pass() {
        let spec = Spec {
            program: "/bin/sh".into(),
            args: Vec::new(),
            env: Environment::empty(),
            cwd: "/".into(),
            stdin: Stdin::Null,
            timeout: None,
            idle_timeout: None,
            max_output: 0,
            grace: Duration::ZERO,
            spool: "/".into(),
            masks: None,
        };
        for (code, message) in [
            (Errno::AGAIN, "the limit of processes is reached"),
            (Errno::MFILE, "the limit of open files is reached"),
            (Errno::NFILE, "the limit of open files is reached"),
            (Errno::NOMEM, "there is no memory for another process"),
            (Errno::TXTBSY, "cannot run `/bin/sh`: it is being written"),
        ] {
            let error = StartError::from_system(&code.into(), &spec);
            assert_eq!(error.to_string(), message);
            assert!(error.is_temporary());
        }
    }
}
