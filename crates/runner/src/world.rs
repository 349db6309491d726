//! The real world: environment, files of the project, commands, the clock, randomness.

use std::cell::RefCell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use threadline_engine::agent::thread::THREAD;
use threadline_flow::model::ComputedKind;
use threadline_flow::shell::{
    BindError, Dialect, ShellProblem, UnknownPolicy, analyse_command, analyse_command_call,
};
use threadline_lang::diag::{Severity, nearest, words};
use threadline_lang::value::JsonStyle;
use threadline_lang::{ComputeError, Limits, Syntax, Value, World, data};

use crate::private::PrivateFiles;
use crate::process::{self, ChildEnding, Control, EndedChild, Environment, Spec, Stdin};
use crate::project::{FileError, MAX_FILE, Project, plain};
use crate::secrets::masks::Masks;

/// A command is ended after this time.
const COMMAND_TIMEOUT: Duration = Duration::from_mins(1);
/// The time between the request to end and force.
const GRACE: Duration = Duration::from_secs(2);

/// The number of lines of stderr that the error of a command has.
const STDERR_LINES: usize = 5;

/// Gives the values that only the machine knows.
pub struct RealWorld<'a> {
    /// The project that files are read in.
    pub project: &'a Project,
    /// The folder that relative paths are meant from, and that commands run in.
    pub folder: Folder,
    /// The environment that commands see.
    pub env: Environment,
    /// Whether `cmd:` may run, and what to write to let it.
    pub commands: Commands,
    /// The computed kinds that the workflow declares.
    pub computed: &'a [ComputedKind],
    /// Ends what runs.
    pub control: Control,
    /// The folder where output goes that is too large for memory.
    pub spool: PathBuf,
    /// What finds secrets: a computed value is recorded, so it cannot hold one.
    pub masks: Option<Arc<Masks>>,
    /// Gives what was said in a thread; without it every thread begins.
    pub threads: Option<&'a ThreadReading<'a>>,
}

/// Gives what was said in a thread of this name.
pub type ThreadReading<'t> = dyn Fn(&str) -> Result<Value, ComputeError> + 't;

/// A folder that somebody may leave for another while values are computed: a step's `cwd` may itself be computed.
#[derive(Debug, Clone)]
pub struct Folder(Rc<RefCell<PathBuf>>);

impl Folder {
    /// Begins in a folder.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(Rc::new(RefCell::new(path.into())))
    }

    /// From now on another folder is meant.
    pub fn enter(&self, path: impl Into<PathBuf>) {
        *self.0.borrow_mut() = path.into();
    }

    fn path(&self) -> PathBuf {
        self.0.borrow().clone()
    }
}

/// Whether commands may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commands {
    /// Commands may be run.
    Allowed,
    /// They may not; what to do about it.
    Refused(&'static str),
}

impl World for RealWorld<'_> {
    fn compute(&mut self, name: &str, args: &[Value]) -> Result<Value, ComputeError> {
        let computed = self.ask(name, args);
        let Some(masks) = &self.masks else { return computed };
        match computed {
            Ok(value) => match &masks.mask_value(&value).1[..] {
                [] => Ok(value),
                [secret, ..] => Err(holds_secret(secret)),
            },
            Err(ComputeError::Failed { message, hint }) => {
                Err(ComputeError::Failed { message: masks.masked_text(&message), hint })
            }
            Err(error) => Err(error),
        }
    }
}

/// What is recorded cannot hold a secret.
fn holds_secret(secret: &str) -> ComputeError {
    let hint = format!("read it as `${{secrets.{secret}}}`");
    failed(format!("this holds the secret `{secret}`, and would be recorded"), Some(&hint))
}

impl RealWorld<'_> {
    fn ask(&mut self, name: &str, args: &[Value]) -> Result<Value, ComputeError> {
        match name {
            "env" => self.variable(text(args, 0)?),
            "file" => self.file(text(args, 0)?),
            "cmd" => match self.commands {
                Commands::Allowed => {
                    if let Some(bound @ [_, values @ ..]) = args.first().and_then(Value::as_list) {
                        return self.bound_command(text(bound, 0)?, values);
                    }
                    let arguments: Vec<String> = args.iter().skip(1).map(Value::to_string).collect();
                    self.command(text(args, 0)?, &arguments)
                }
                Commands::Refused(hint) => Err(failed("commands are not allowed", Some(hint))),
            },
            THREAD => self.threads.map_or(Ok(Value::NULL), |read| read(text(args, 0)?)),
            "now" => Ok(Value::from(format!("{:.3}", jiff::Timestamp::now()))),
            "uuid" => Ok(Value::from(uuid::Uuid::new_v4().to_string())),
            name => match self.computed.iter().find(|declared| declared.name == name) {
                Some(declared) => self.declared(declared, args),
                None => Err(failed("this kind is not declared", None)),
            },
        }
    }

    fn variable(&self, name: &str) -> Result<Value, ComputeError> {
        if let Some(value) = self.env.get(name.as_ref()) {
            return match value.to_str() {
                Some(value) => Ok(Value::from(value)),
                None => Err(failed(format!("the variable `{name}` is not valid UTF-8"), None)),
            };
        }
        let names: Vec<String> =
            self.env.names().filter_map(|name| Some(name.to_str()?.to_owned())).collect();
        let nearest = nearest(name, names.iter().map(String::as_str)).map(Into::into);
        Err(ComputeError::Missing { nearest })
    }

    fn file(&self, name: &str) -> Result<Value, ComputeError> {
        let mut content = self.project.read(name, &self.folder.path()).map_err(of_file)?;
        if content.ends_with('\n') {
            content.pop();
            if content.ends_with('\r') {
                content.pop();
            }
        }
        Ok(Value::from(content))
    }

    /// The output of a command without its final line breaks. Values are its positional parameters, never its text.
    fn command(&self, command: &str, arguments: &[String]) -> Result<Value, ComputeError> {
        if command.contains('\0') || arguments.iter().any(|argument| argument.contains('\0')) {
            return Err(failed("a command cannot hold a NUL character", None));
        }
        // What the text does with its arguments is looked at here, too: not every caller checks a file first.
        let (argv, problems) = analyse_command_call(command, arguments.len(), UnknownPolicy::Trust);
        let refused = problems.into_iter().find(|problem| problem.severity == Severity::Error);
        let refused = refused.or_else(|| argv.check_values(arguments.iter().map(String::as_str)));
        if let Some(problem) = refused {
            return Err(failed(&*problem.message, problem.hint.as_deref()));
        }
        self.shell(command, arguments, &self.env, command)
    }

    /// The output of a command with references, each value bound in its place.
    fn bound_command(&self, command: &str, values: &[Value]) -> Result<Value, ComputeError> {
        let kinds = self.computed.iter().map(|declared| declared.name.clone()).collect();
        let syntax = Syntax { kinds, ..Syntax::DEFAULT };
        let dialect = if shell(&self.env).0 == "bash" { Dialect::Bash } else { Dialect::Posix };
        let (script, problems) = analyse_command(command, dialect, &syntax);
        let refused = |problem: &ShellProblem| failed(&*problem.message, problem.hint.as_deref());
        if let Some(problem) = problems.iter().find(|problem| problem.severity == Severity::Error) {
            return Err(refused(problem));
        }
        if script.len() != values.len() {
            let hint = "pass values as arguments: `cmd(\"wc -l \\\"$1\\\"\", item.path)`";
            return Err(failed("its references cannot be told from what is the shell's", Some(hint)));
        }
        let bound = script.bind_values(|at, _| Ok(values[at].clone())).map_err(|errors| {
            match errors.first() {
                Some(BindError::Refused(problem)) => refused(problem),
                // The values are there already.
                _ => failed("a value cannot be bound", None),
            }
        })?;
        let mut files = PrivateFiles::new(&self.spool);
        let mut written = Vec::new();
        for (at, variable) in bound.files() {
            let value = files.write(variable.value.as_bytes());
            value
                .map_err(|error| failed(format!("a value could not be written: {}", plain(&error)), None))?;
            written.push(at);
        }
        let file_of = |at| files.path(written.iter().position(|known| *known == at).unwrap_or(usize::MAX));
        let mut env = self.env.clone();
        for (name, value) in bound.environment() {
            env.set(name, value);
        }
        self.shell(&bound.script(file_of), &[], &env, command)
    }

    fn shell(
        &self,
        script: &str,
        arguments: &[String],
        env: &Environment,
        shown: &str,
    ) -> Result<Value, ComputeError> {
        let (program, options) = shell(&self.env);
        let mut args: Vec<OsString> = options.iter().map(OsString::from).collect();
        args.extend(["-c", script, program].map(OsString::from));
        args.extend(arguments.iter().map(OsString::from));
        let ended = self.run(program.into(), args, env, Stdin::Null, COMMAND_TIMEOUT, shown)?;
        let mut text = output_text(&ended, shown)?;
        text.truncate(text.trim_end_matches(['\n', '\r']).len());
        Ok(Value::from(text))
    }

    /// A declared kind: its arguments as JSON on stdin, JSON back.
    fn declared(&self, declared: &ComputedKind, args: &[Value]) -> Result<Value, ComputeError> {
        let [program, rest @ ..] = &declared.command[..] else {
            return Err(failed(format!("`{}` has no command", declared.name), None));
        };
        let argument = match args {
            [one] => one.clone(),
            several => {
                Value::list(several.to_vec()).map_err(|_| failed("its arguments are too large", None))?
            }
        };
        let stdin = Stdin::Bytes(argument.to_json(JsonStyle::Compact).into_bytes().into());
        let timeout = declared.timeout.unwrap_or(COMMAND_TIMEOUT);
        let args = rest.iter().map(|word| OsString::from(word.as_str())).collect();
        let ended = self.run(program.as_str().into(), args, &self.env, stdin, timeout, program)?;
        let text = output_text(&ended, program)?;
        data::json::read_value(&text, &Limits::DEFAULT).map_err(|error| {
            let hint = "a command that computes a value prints one JSON document: text in quotes";
            failed(format!("the output of `{program}` is not JSON: {error}"), Some(hint))
        })
    }

    fn run(
        &self,
        program: OsString,
        args: Vec<OsString>,
        env: &Environment,
        stdin: Stdin,
        timeout: Duration,
        shown: &str,
    ) -> Result<EndedChild, ComputeError> {
        let spec = Spec {
            program,
            args,
            env: env.clone(),
            cwd: self.folder.path(),
            stdin,
            timeout: Some(timeout),
            idle_timeout: None,
            max_output: MAX_FILE,
            grace: GRACE,
            spool: self.spool.clone(),
            masks: self.masks.clone(),
        };
        let ended = process::run(&spec, &self.control.child(), &mut |_, _| {})
            .map_err(|error| failed(error.to_string(), None))?;
        if let Some(secret) = ended.secrets.first() {
            return Err(holds_secret(secret));
        }
        let how = match ended.how {
            ChildEnding::Exited(0) => return Ok(ended),
            ChildEnding::Exited(code) => format!("exit code {code}"),
            ChildEnding::TimedOut | ChildEnding::Silent => {
                format!("no end after {}", words::duration(timeout))
            }
            ChildEnding::Signalled(signal) => format!("ended by signal {signal}"),
            ChildEnding::Cancelled => "it was stopped".to_owned(),
            ChildEnding::OutputTooLarge(_) => "it printed more than 64 MiB".to_owned(),
            ChildEnding::OutputNotKept(_, kind) => format!("its output could not be kept: {kind}"),
            ChildEnding::NeedsTerminal => "it asked for a terminal".to_owned(),
        };
        let stderr = ended.stderr.read().unwrap_or_default();
        let stderr = String::from_utf8_lossy(&stderr);
        let stderr = words::last_lines(&stderr, STDERR_LINES).join("\n");
        let detail = if stderr.is_empty() { String::new() } else { format!(": {stderr}") };
        Err(failed(format!("`{shown}` failed, {how}{detail}"), None))
    }
}

/// The shell that runs text, strictly: bash, or sh where there is none.
fn shell(env: &Environment) -> (&'static str, &'static [&'static str]) {
    if on_path("bash", env) { ("bash", &["-e", "-o", "pipefail"]) } else { ("sh", &["-e"]) }
}

fn on_path(program: &str, env: &Environment) -> bool {
    let path = env.get("PATH".as_ref()).unwrap_or_default();
    std::env::split_paths(path).any(|folder| Path::new(&folder).join(program).is_file())
}

fn output_text(ended: &EndedChild, shown: &str) -> Result<String, ComputeError> {
    let bytes = ended.stdout.read().map_err(|error| failed(error.to_string(), None))?;
    String::from_utf8(bytes).map_err(|_| failed(format!("the output of `{shown}` is not valid UTF-8"), None))
}

fn failed(message: impl Into<String>, hint: Option<&str>) -> ComputeError {
    ComputeError::Failed { message: message.into(), hint: hint.map(str::to_owned) }
}

fn of_file(error: FileError) -> ComputeError {
    ComputeError::Failed { message: error.message, hint: error.hint }
}

fn text(args: &[Value], at: usize) -> Result<&str, ComputeError> {
    let value = args.get(at).ok_or_else(|| failed("an argument is missing", None))?;
    value.as_str().ok_or_else(|| failed(format!("its argument is text, not {}", value.kind()), None))
}
