//! Where the value of a secret is looked up: a variable, a file, or a program that prints it.
//!
//! A run looks its secrets up when it begins. A worker looks up those of an act that it performs, in its own environment
//! and its own files: it is told where, and never what.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use ecow::EcoString;
use threadline_flow::model::SecretSource;
use threadline_lang::diag::{nearest, words};

use super::env_file;
use crate::process::{self, ChildEnding, Control, Environment, Spec, Stdin};

/// A shorter secret would be found everywhere, and everything would be masked.
const SHORTEST: usize = 4;

/// A longer text is no secret, and would be slow to look for.
const LONGEST: usize = 64 << 10;

/// How long a program may take to print a secret: it may ask somebody.
const COMMAND_TIMEOUT: Duration = Duration::from_mins(1);
const GRACE: Duration = Duration::from_secs(2);

/// The number of lines of stderr that the error of a program has.
const STDERR_LINES: usize = 5;

/// Why something cannot be read, and how to mend it.
pub(super) type Unreadable = (String, Option<String>);

/// A secret without its value: what it is called, and where it is looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretReference {
    /// Its name: `secrets.NAME`.
    pub name: EcoString,
    /// Where the value comes from.
    pub source: SecretSource,
    /// The environment files that may have its variable, relative to the folder of the run.
    pub env_files: Vec<EcoString>,
}

impl SecretReference {
    /// Looks the value up on this machine, from a folder. Without `runs_programs` one that a program prints is not found.
    pub fn look_up(&self, folder: &Path, env: &Environment, runs_programs: bool) -> Result<String, String> {
        let read = |path: &str| {
            let found = std::fs::metadata(folder.join(path)).and_then(|found| {
                if found.len() > LONGEST as u64 {
                    return Err(std::io::Error::other("it is larger than 64 KiB"));
                }
                std::fs::read_to_string(folder.join(path))
            });
            found.map_err(|error| (format!("`{path}`: {error}"), None))
        };
        let mut env = env.clone();
        if matches!(self.source, SecretSource::Variable(_) | SecretSource::Command(_)) {
            // What is not there has no variables.
            let files = self.env_files.iter().filter_map(|path| read(path).ok());
            let files: Vec<_> = files.filter_map(|text| env_file::read(&text).ok()).collect();
            for (name, value) in files.into_iter().rev().flatten() {
                if env.get(OsStr::new(&name)).is_none() {
                    env.set(name, value);
                }
            }
        }
        let lookup = SecretLookup { read: &read, folder, env: &env, runs_programs };
        let found = lookup.value(&self.name, &self.source);
        found.map_err(|(message, hint)| hint.map_or(message.clone(), |hint| format!("{message}; {hint}")))
    }
}

/// Where secrets are looked up.
pub(super) struct SecretLookup<'r> {
    /// Reads a file.
    pub(super) read: &'r dyn Fn(&str) -> Result<String, Unreadable>,
    /// The folder that programs run in.
    pub(super) folder: &'r Path,
    /// The environment, with the variables of environment files.
    pub(super) env: &'r Environment,
    /// Whether programs are run that print secrets.
    pub(super) runs_programs: bool,
}

impl SecretLookup<'_> {
    /// The value of a secret that can be looked for in what comes back.
    pub(super) fn value(&self, name: &EcoString, source: &SecretSource) -> Result<String, Unreadable> {
        self.found(name, source).and_then(|value| checked(name, value))
    }

    fn found(&self, name: &EcoString, source: &SecretSource) -> Result<String, Unreadable> {
        let env = self.env;
        match source {
            SecretSource::Variable(variable) => {
                if let Some(value) = env.get(OsStr::new(variable.as_str())) {
                    let message =
                        format!("the secret `{name}`: the variable `{variable}` is not valid UTF-8");
                    return value.to_str().map(str::to_owned).ok_or((message, None));
                }
                let names: Vec<String> =
                    env.names().filter_map(|name| Some(name.to_str()?.to_owned())).collect();
                let near = nearest(variable, names.iter().map(String::as_str));
                let near = near.map_or(String::new(), |near| format!("; there is `{near}`"));
                let message = format!("the secret `{name}`: the variable `{variable}` is not set{near}");
                let hint = "set it where Threadline is started, or in a file of `env_file:`";
                Err((message, Some(hint.to_owned())))
            }
            SecretSource::File(path) => {
                let text = (self.read)(path);
                let mut text = text.map_err(|(why, hint)| (format!("the secret `{name}`: {why}"), hint))?;
                let end = text.strip_suffix('\n').map(|text| text.strip_suffix('\r').unwrap_or(text));
                let end = end.map_or(text.len(), str::len);
                text.truncate(end);
                Ok(text)
            }
            SecretSource::Command(command) => self
                .printed(command)
                .map_err(|why| (format!("the secret `{name}`: `{}` {why}", command[0]), None)),
        }
    }

    /// What a program prints, without final line breaks.
    fn printed(&self, command: &[EcoString]) -> Result<String, String> {
        if !self.runs_programs {
            return Err("is not run".to_owned());
        }
        let spec = Spec {
            program: OsString::from(command[0].as_str()),
            args: command[1..].iter().map(|word| OsString::from(word.as_str())).collect(),
            env: self.env.clone(),
            cwd: self.folder.to_owned(),
            stdin: Stdin::Null,
            timeout: Some(COMMAND_TIMEOUT),
            idle_timeout: None,
            // Up to here nothing is written to a file.
            max_output: LONGEST as u64,
            grace: GRACE,
            spool: std::env::temp_dir(),
            masks: None,
        };
        let ended = process::run(&spec, &Control::new(), &mut |_, _| {});
        let ended = ended.map_err(|error| format!("could not be started: {error}"))?;
        let how = match ended.how {
            ChildEnding::Exited(0) => {
                let bytes =
                    ended.stdout.read().map_err(|error| format!("printed what cannot be read: {error}"))?;
                let mut text =
                    String::from_utf8(bytes).map_err(|_| "printed what is not valid UTF-8".to_owned())?;
                text.truncate(text.trim_end_matches(['\n', '\r']).len());
                return Ok(text);
            }
            ChildEnding::Exited(code) => format!("failed, exit code {code}"),
            ChildEnding::Signalled(signal) => format!("was ended by signal {signal}"),
            ChildEnding::OutputTooLarge(_) => "printed more than 64 KiB".to_owned(),
            ChildEnding::TimedOut | ChildEnding::Silent => {
                format!("did not end in {}", words::duration(COMMAND_TIMEOUT))
            }
            ChildEnding::NeedsTerminal => "asked for a terminal".to_owned(),
            ChildEnding::Cancelled => "was stopped".to_owned(),
            ChildEnding::OutputNotKept(_, kind) => format!("printed what could not be kept: {kind}"),
        };
        let stderr = ended.stderr.read().unwrap_or_default();
        let stderr = String::from_utf8_lossy(&stderr);
        let stderr = words::last_lines(&stderr, STDERR_LINES).join("\n");
        Err(if stderr.is_empty() { how } else { format!("{how}: {stderr}") })
    }
}

/// A secret that can be looked for.
fn checked(name: &EcoString, value: String) -> Result<String, Unreadable> {
    let length = value.chars().count();
    let refused = |message: String| Err((message, None));
    if value.trim().is_empty() {
        return refused(format!("the secret `{name}` is empty"));
    }
    if length < SHORTEST {
        return refused(format!(
            "the secret `{name}` has {}: a mask would stand wherever these occur, so it needs at least {SHORTEST}",
            words::count(length, "character")
        ));
    }
    if value.len() > LONGEST {
        return refused(format!("the secret `{name}` is larger than 64 KiB"));
    }
    if value.contains('\0') {
        return refused(format!("the secret `{name}` contains a NUL character"));
    }
    Ok(value)
}
