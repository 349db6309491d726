//! What a request can do: start, stop and resume runs. Each is a command of the same program, in the folder of the project,
//! so that nothing is decided here, and a run outlives the server that started it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use hyper::StatusCode;
use threadline_lang::value::JsonStyle;
use threadline_lang::{Limits, Value, data};
use threadline_runner::project::plain;

use super::run::run_of;
use super::workflows;
use crate::answer::HttpAnswer;
use crate::problem::Problem;
use crate::server::RouteCall;

/// This program, also when another file has taken its place.
const PROGRAM: &str = "/proc/self/exe";

/// How long it is waited for the first event of a run, or for the end of a command.
const PATIENCE: Duration = Duration::from_secs(20);

/// The most of what a command says that is answered.
const LONGEST_MESSAGE: usize = 8 << 10;

/// The entries of the body of a request.
struct BodyEntries(Vec<(String, Value)>);

impl BodyEntries {
    /// Reads the body: an object with no other entries than these.
    fn read(call: &RouteCall, known: &[&str]) -> Result<Self, Problem> {
        let text = std::str::from_utf8(&call.body).map_err(|_| Problem::bad("the body is not UTF-8"))?;
        let text = if text.trim().is_empty() { "{}" } else { text };
        let read = data::json::read_value(text, &Limits::DEFAULT);
        let read = read.map_err(|error| Problem::bad(&format!("the body is not JSON: {error}")))?;
        let object = read.as_object().ok_or_else(|| Problem::bad("the body is a JSON object"))?;
        let entries: Vec<_> =
            object.iter().map(|(key, value)| (key.as_str().to_owned(), value.clone())).collect();
        match entries.iter().find(|(key, _)| !known.contains(&key.as_str())) {
            Some((key, _)) => {
                let key: String = key.chars().take(80).collect();
                Err(Problem::bad(&format!("the body has no entry `{key}`"))
                    .hint(&format!("it may have {}", known.join(", "))))
            }
            None => Ok(Self(entries)),
        }
    }

    fn get(&self, key: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| value)
    }

    fn flag(&self, key: &str) -> Result<bool, Problem> {
        let value = self.get(key).map(|value| value.as_bool().ok_or(()));
        value
            .transpose()
            .map(Option::unwrap_or_default)
            .map_err(|()| Problem::bad(&format!("`{key}` is a bool")))
    }
}

/// Starts a workflow.
pub(crate) fn start(call: &RouteCall) -> Result<HttpAnswer, Problem> {
    let project = call.project()?;
    let body = BodyEntries::read(call, &["workflow", "inputs", "texts"])?;
    let file = body.get("workflow").and_then(Value::as_str);
    let file = file.ok_or_else(|| Problem::bad("`workflow` is the file of a workflow of the project"))?;
    let file = workflows::named(&call.server, project, file)?.file;
    let inputs = body.get("inputs").cloned().unwrap_or_else(Value::empty_object);
    if inputs.as_object().is_none() {
        return Err(Problem::bad("`inputs` is an object of inputs"));
    }
    let mut arguments: Vec<String> = ["run", "--json", "--inputs", "-"].map(str::to_owned).to_vec();
    let texts = body
        .get("texts")
        .map(|texts| texts.as_object().ok_or_else(|| Problem::bad("`texts` is an object of texts")));
    for (name, text) in texts.transpose()?.into_iter().flat_map(|texts| texts.iter()) {
        let text = text.as_str().filter(|_| !name.as_str().contains('='));
        let text =
            text.ok_or_else(|| Problem::bad("`texts` is an object of texts, by the names of inputs"))?;
        arguments.push(format!("--input={}={text}", name.as_str()));
    }
    arguments.extend(["--".to_owned(), format!("./{file}")]);
    let started = StartedCommand::new(call, &arguments, Some(&inputs.to_json(JsonStyle::Compact)))?;
    match started.first_line()? {
        FirstLine::Printed(line) => {
            let event = data::json::read_value(&line, &Limits::DEFAULT).unwrap_or_default();
            let run = event.get("data").and_then(|data| data.get("run")).cloned();
            Ok(accepted(run.unwrap_or_default()))
        }
        FirstLine::Ended(_, said) => Err(refused(&said)),
        FirstLine::Late => Ok(accepted(Value::NULL)),
    }
}

/// Goes on with a run.
pub(crate) fn resume(call: &RouteCall) -> Result<HttpAnswer, Problem> {
    let run = known_run(call)?;
    let body = BodyEntries::read(call, &["failed"])?;
    let mut arguments: Vec<String> = ["resume", "--json"].map(str::to_owned).to_vec();
    arguments.extend(body.flag("failed")?.then(|| "--failed".to_owned()));
    arguments.extend(["--".to_owned(), run.clone()]);
    match StartedCommand::new(call, &arguments, None)?.first_line()? {
        FirstLine::Ended(status, said) if !status.success() => Err(refused(&said)),
        _ => Ok(accepted(run.into())),
    }
}

/// Stops a run.
pub(crate) fn stop(call: &RouteCall) -> Result<HttpAnswer, Problem> {
    let run = known_run(call)?;
    let body = BodyEntries::read(call, &["now"])?;
    let mut arguments = vec!["stop".to_owned()];
    arguments.extend(body.flag("now")?.then(|| "--now".to_owned()));
    arguments.extend(["--".to_owned(), run.clone()]);
    match StartedCommand::new(call, &arguments, None)?.first_line()? {
        FirstLine::Ended(status, said) if !status.success() => Err(refused(&said)),
        // Steps that run may take their time to finish.
        _ => Ok(accepted(run.into())),
    }
}

/// The run that a request is about, which is there.
fn known_run(call: &RouteCall) -> Result<String, Problem> {
    let run = run_of(call)?;
    call.project()?.read(run, |reader| Ok(reader.run(run)?.id.to_string()))
}

fn accepted(run: Value) -> HttpAnswer {
    HttpAnswer::json(&Value::record([("run", run)])).status(StatusCode::ACCEPTED)
}

/// The command refused what was asked for, and says why.
fn refused(said: &str) -> Problem {
    let said = said.strip_prefix("error: ").unwrap_or(said);
    Problem::new(StatusCode::CONFLICT, if said.is_empty() { "the command failed" } else { said })
}

/// A command that was started.
struct StartedCommand {
    child: Child,
}

/// What a command did first.
enum FirstLine {
    /// It printed a line, and goes on.
    Printed(String),
    /// It ended without one, with what it said on stderr.
    Ended(ExitStatus, String),
    /// It takes its time.
    Late,
}

impl StartedCommand {
    fn new(call: &RouteCall, arguments: &[String], stdin: Option<&str>) -> Result<Self, Problem> {
        let failed = |error: std::io::Error| {
            let detail = format!("the command cannot be started: {}", plain(&error));
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, &detail)
        };
        let mut child = Command::new(PROGRAM)
            .arg0("threadline")
            .args(arguments)
            .current_dir(call.project()?.project.root())
            // Ctrl-C at the terminal of the server is not for the runs.
            .process_group(0)
            .env("NO_COLOR", "1")
            .stdin(if stdin.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        if let Some((text, mut pipe)) = stdin.zip(child.stdin.take()) {
            // A command that refuses its arguments reads nothing.
            let _ = pipe.write_all(text.as_bytes());
        }
        Ok(Self { child })
    }

    /// Waits for the first line that it prints, or for its end. Whatever else it prints is read and forgotten, so that it
    /// never waits for a reader.
    fn first_line(mut self) -> Result<FirstLine, Problem> {
        let (told, first) = mpsc::channel();
        let (Some(stdout), Some(stderr)) = (self.child.stdout.take(), self.child.stderr.take()) else {
            return Ok(FirstLine::Late);
        };
        let said = std::thread::spawn(move || {
            let (mut said, mut stderr) = (Vec::new(), stderr);
            let _ = stderr.by_ref().take(LONGEST_MESSAGE as u64).read_to_end(&mut said);
            let _ = std::io::copy(&mut stderr, &mut std::io::sink());
            String::from_utf8_lossy(&said).trim().to_owned()
        });
        std::thread::spawn(move || {
            let (mut stdout, mut line) = (BufReader::new(stdout), String::new());
            if stdout.read_line(&mut line).is_ok_and(|length| length > 0) {
                // Nobody may wait for it any more.
                let _ = told.send(FirstLine::Printed(line));
            }
            let _ = std::io::copy(&mut stdout, &mut std::io::sink());
            let status = self.child.wait();
            let said = said.join().unwrap_or_default();
            if let Ok(status) = status {
                let _ = told.send(FirstLine::Ended(status, said));
            }
        });
        match first.recv_timeout(PATIENCE) {
            Ok(first) => Ok(first),
            Err(RecvTimeoutError::Timeout) => Ok(FirstLine::Late),
            Err(RecvTimeoutError::Disconnected) => {
                Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the command cannot be waited for"))
            }
        }
    }
}
