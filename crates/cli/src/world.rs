//! The real world: environment, files of the project, commands, the clock, randomness.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Component, Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use threadline_lang::diag::nearest;
use threadline_lang::{ComputeError, Value, World};

/// Files and outputs of commands may be this large.
const MAX_BYTES: u64 = 64 << 20;
/// A command is ended after this time.
const COMMAND_TIMEOUT: Duration = Duration::from_mins(1);

/// Gives the values that only the machine knows.
pub(crate) struct RealWorld {
    allow_commands: bool,
}

impl RealWorld {
    pub(crate) fn new(allow_commands: bool) -> Self {
        Self { allow_commands }
    }
}

impl World for RealWorld {
    fn compute(&mut self, name: &str, args: &[Value]) -> Result<Value, ComputeError> {
        match name {
            "env" => environment(text(args, 0)?),
            "file" => read_file(text(args, 0)?),
            "cmd" => {
                if !self.allow_commands {
                    return Err(failed(
                        "commands are not allowed",
                        Some("allow them with `--allow-commands`"),
                    ));
                }
                let arguments: Vec<String> = args.iter().skip(1).map(Value::to_string).collect();
                run(text(args, 0)?, &arguments)
            }
            "now" => Ok(Value::from(format!("{:.3}", jiff::Timestamp::now()))),
            "uuid" => Ok(Value::from(uuid::Uuid::new_v4().to_string())),
            _ => Err(failed("this kind is not declared", None)),
        }
    }
}

fn failed(message: impl Into<String>, hint: Option<&str>) -> ComputeError {
    ComputeError::Failed { message: message.into(), hint: hint.map(str::to_owned) }
}

fn text(args: &[Value], at: usize) -> Result<&str, ComputeError> {
    let value = args.get(at).ok_or_else(|| failed("an argument is missing", None))?;
    value.as_str().ok_or_else(|| failed(format!("its argument is text, not {}", value.kind()), None))
}

fn environment(name: &str) -> Result<Value, ComputeError> {
    if let Some(value) = std::env::var_os(name) {
        match value.into_string() {
            Ok(value) => Ok(Value::from(value)),
            Err(_) => Err(failed(format!("the variable `{name}` is not valid UTF-8"), None)),
        }
    } else {
        let names: Vec<String> =
            std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect();
        let nearest = nearest(name, names.iter().map(String::as_str)).map(Into::into);
        Err(ComputeError::Missing { nearest })
    }
}

/// The text of a file of the project, without its final line break. Links are followed before the check.
fn read_file(name: &str) -> Result<Value, ComputeError> {
    let shown = |error: std::io::Error| failed(format!("`{name}`: {}", plain(&error)), None);
    let here = std::env::current_dir().map_err(shown)?;
    let root = project_root(&here).canonicalize().map_err(shown)?;
    let outside = || {
        let hint = format!("files are read only inside the project, {}", root.display());
        failed(format!("`{name}` is outside the project"), Some(&hint))
    };
    // First by its name, so that nothing can be learnt about files outside; then by where its links lead.
    if !plain_path(&here.canonicalize().map_err(shown)?.join(name)).starts_with(&root) {
        return Err(outside());
    }
    let path = here.join(name).canonicalize().map_err(shown)?;
    if !path.starts_with(&root) {
        return Err(outside());
    }
    let file = std::fs::File::open(&path).map_err(shown)?;
    let metadata = file.metadata().map_err(shown)?;
    if !metadata.is_file() {
        return Err(failed(format!("`{name}` is not a regular file"), None));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(shown)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(failed(format!("`{name}` is larger than 64 MiB"), None));
    }
    let mut content = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        failed(format!("`{name}` is not valid UTF-8 at byte {at}"), None)
    })?;
    strip_line_break(&mut content);
    Ok(Value::from(content))
}

/// The nearest folder above that has a store or a repository, else the current one.
fn project_root(here: &Path) -> PathBuf {
    let marked = |folder: &&Path| folder.join(".threadline").is_dir() || folder.join(".git").exists();
    here.ancestors().find(marked).unwrap_or(here).to_owned()
}

/// The path without `.` and `..`, by its text alone.
fn plain_path(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

fn strip_line_break(text: &mut String) {
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
}

/// The output of a command without its final line breaks. Values are its positional parameters, never its text.
fn run(command: &str, arguments: &[String]) -> Result<Value, ComputeError> {
    if command.contains('\0') || arguments.iter().any(|argument| argument.contains('\0')) {
        return Err(failed("a command cannot hold a NUL character", None));
    }
    let child = spawn(command, arguments).map_err(|error| failed(plain(&error), None))?;
    let output = wait(child)?;
    let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    if !output.status.success() {
        let status = match output.status.code() {
            Some(code) => format!("exit code {code}"),
            None => "ended by a signal".to_owned(),
        };
        let stderr = shown(&output.stderr);
        let detail = if stderr.is_empty() { String::new() } else { format!(": {}", last_lines(&stderr, 5)) };
        return Err(failed(format!("`{command}` failed, {status}{detail}"), None));
    }
    let mut text = String::from_utf8(output.stdout)
        .map_err(|_| failed(format!("the output of `{command}` is not valid UTF-8"), None))?;
    text.truncate(text.trim_end_matches(['\n', '\r']).len());
    Ok(Value::from(text))
}

/// With bash strictly, or with sh where there is none.
fn spawn(command: &str, arguments: &[String]) -> std::io::Result<Child> {
    let start = |program: &str, options: &[&str]| {
        Command::new(program)
            .args(options)
            .arg("-c")
            .arg(command)
            .arg(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
    };
    match start("bash", &["-e", "-o", "pipefail"]) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => start("sh", &["-e"]),
        result => result,
    }
}

struct Output {
    status: std::process::ExitStatus,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

/// Reads both pipes at once, so that neither blocks the command, and ends the whole group when time is up or a
/// pipe gives too much.
fn wait(mut child: Child) -> Result<Output, ComputeError> {
    let group = rustix::process::Pid::from_child(&child);
    let (sender, receiver) = mpsc::channel();
    let read = |pipe: Option<Box<dyn Read + Send>>, stdout: bool| {
        let sender = sender.clone();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let result = pipe.map_or(Ok(0), |pipe| pipe.take(MAX_BYTES + 1).read_to_end(&mut bytes));
            // The receiver is gone only when the command was given up.
            let _ = sender.send((stdout, result.map(|_| bytes)));
        });
    };
    read(child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>), true);
    read(child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>), false);
    let deadline = std::time::Instant::now() + COMMAND_TIMEOUT;
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let mut give_up = |message: String| {
        // The group may have ended by itself in the meantime.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = child.wait();
        failed(message, None)
    };
    for _ in 0..2 {
        let left = deadline.saturating_duration_since(std::time::Instant::now());
        match receiver.recv_timeout(left) {
            Ok((_, Err(error))) => return Err(give_up(format!("reading its output: {}", plain(&error)))),
            Ok((_, Ok(bytes))) if bytes.len() as u64 > MAX_BYTES => {
                return Err(give_up("the command printed more than 64 MiB".to_owned()));
            }
            Ok((true, Ok(bytes))) => stdout = bytes,
            Ok((false, Ok(bytes))) => stderr = bytes,
            Err(_) => return Err(give_up(format!("no end after {} s", COMMAND_TIMEOUT.as_secs()))),
        }
    }
    let status = child.wait().map_err(|error| failed(plain(&error), None))?;
    Ok(Output { status, stdout, stderr })
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// The system's words without its number.
pub(crate) fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    let end = text.find(" (os error").unwrap_or(text.len());
    let mut chars = text[..end].chars();
    chars.next().map_or(String::new(), |first| first.to_lowercase().chain(chars).collect())
}
