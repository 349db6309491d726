//! What a run is given that stands in no file of its own: the variables of its environment files, and its secrets.
//!
//! Both are read when a run begins and when it goes on, for the workflow and for all that it calls. The values of secrets
//! are kept in memory, for effects that are about to be performed, and are written nowhere. [`masks`] finds them in what
//! comes back.

pub mod env_file;
pub mod masks;
mod results;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::time::Duration;

use ecow::EcoString;
use threadline_flow::model::{Secret, SecretSource, Workflow};
use threadline_flow::plan::Plan;
use threadline_flow::problem::Problem;
use threadline_lang::diag::{Span, nearest, words};
use threadline_lang::{Scope, ScopeEntry, Value};

use crate::process::{self, ChildEnding, Control, Environment, Spec, Stdin};
use crate::project::Project;
use masks::Masks;

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
type Unreadable = (String, Option<String>);

/// Whether programs that print secrets are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretReading {
    /// All secrets are read, and one that cannot be is a problem.
    All,
    /// All secrets are read, and one that cannot be is left out: whatever reads it fails.
    AsFarAsPossible,
    /// Nothing is run, and what cannot be read is left out.
    WithoutPrograms,
}

/// What a run is given, with all that it calls.
#[derive(Debug, Clone, Default)]
pub struct RunSurroundings {
    /// By the names of the files of workflows.
    workflows: BTreeMap<EcoString, WorkflowSurroundings>,
    masks: Option<Arc<Masks>>,
}

/// What one workflow is given.
#[derive(Clone, Default)]
struct WorkflowSurroundings {
    /// Of its environment files; of two with one name the later one holds.
    variables: Vec<(String, String)>,
    secrets: Vec<(EcoString, String)>,
}

impl std::fmt::Debug for WorkflowSurroundings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let secrets: Vec<_> = self.secrets.iter().map(|(name, _)| name).collect();
        f.debug_struct("WorkflowSurroundings").field("secrets", &secrets).finish_non_exhaustive()
    }
}

impl RunSurroundings {
    /// Reads what a workflow and all that it calls are given. Every problem is reported.
    pub fn read(plan: &Plan, project: &Project, reading: SecretReading) -> Result<Self, Vec<Problem>> {
        let mut reader = SurroundingsReader {
            project,
            reading,
            inherited: Environment::inherited(),
            workflows: BTreeMap::new(),
            problems: Vec::new(),
        };
        reader.workflow(plan, true);
        let SurroundingsReader { workflows, problems, .. } = reader;
        if !problems.is_empty() {
            return Err(problems);
        }
        let all = workflows.values().flat_map(|given: &WorkflowSurroundings| &given.secrets);
        let all: Vec<(&EcoString, &str)> = all.map(|(name, value)| (name, value.as_str())).collect();
        let masks = if all.is_empty() { None } else { Some(Masks::new(all)) };
        let masks = masks.transpose().map_err(|_| {
            let message = "the secrets are too large together: nothing could look for all of them";
            vec![Problem::error("secret", Span::default(), message)]
        })?;
        Ok(Self { workflows, masks: masks.map(Arc::new) })
    }

    /// What finds the secrets, if there are any.
    pub fn masks(&self) -> Option<&Arc<Masks>> {
        self.masks.as_ref()
    }

    /// The environment of a workflow: what is there already wins over its files.
    pub fn environment(&self, workflow: &Workflow, mut env: Environment) -> Environment {
        let given = self.workflows.get(workflow.file.name());
        for (name, value) in given.into_iter().flat_map(|given| &given.variables) {
            if env.get(OsStr::new(name)).is_none() {
                env.set(name, value);
            }
        }
        env
    }

    /// A scope of a workflow in which secrets have their values.
    pub fn reveal(&self, workflow: &Workflow, scope: &Scope) -> Scope {
        let given = self.workflows.get(workflow.file.name());
        let secrets = given.into_iter().flat_map(|given| &given.secrets);
        let secrets = secrets.map(|(name, value)| (name.clone(), Value::from(value.as_str())));
        let entry = ("secrets".into(), ScopeEntry::Plain(Value::record(secrets)));
        // One name stands once.
        scope.with_entries("secrets", [entry]).unwrap_or_else(|_| scope.clone())
    }
}

struct SurroundingsReader<'r> {
    project: &'r Project,
    reading: SecretReading,
    inherited: Environment,
    workflows: BTreeMap<EcoString, WorkflowSurroundings>,
    problems: Vec<Problem>,
}

impl SurroundingsReader<'_> {
    fn workflow(&mut self, plan: &Plan, is_asked: bool) {
        let workflow = &plan.workflow;
        if self.workflows.contains_key(workflow.file.name()) {
            return;
        }
        let known = self.problems.len();
        let mut given = WorkflowSurroundings::default();
        for file in &workflow.env_files {
            match self.variables(&file.value) {
                Ok(variables) => {
                    for (name, value) in variables {
                        given.variables.retain(|(known, _)| *known != name);
                        given.variables.push((name, value));
                    }
                }
                Err(problems) => {
                    let told = problems.into_iter().map(|why| problem("env-file", file.origin.span, why));
                    self.problems.extend(told);
                }
            }
        }
        let mut env = self.inherited.clone();
        for (name, value) in &given.variables {
            if env.get(OsStr::new(name)).is_none() {
                env.set(name, value);
            }
        }
        for secret in &workflow.secrets {
            let value = self.secret(secret, &env).and_then(|value| checked(secret, value));
            match value {
                Ok(value) => given.secrets.push((secret.name.clone(), value)),
                Err(_) if self.reading != SecretReading::All => {}
                Err(why) => self.problems.push(problem("secret", secret.span, why)),
            }
        }
        self.workflows.insert(workflow.file.name().into(), given);
        if !is_asked {
            for problem in &mut self.problems[known..] {
                problem.file.get_or_insert_with(|| workflow.file.clone());
            }
        }
        for callee in plan.callees() {
            self.workflow(callee, false);
        }
    }

    /// The variables of a file, or what is wrong with it, with how to mend it.
    fn variables(&self, path: &str) -> Result<Vec<(String, String)>, Vec<Unreadable>> {
        let text = self.project.read(path, self.project.here());
        let text = text.map_err(|error| vec![(error.message, error.hint)])?;
        env_file::read(&text).map_err(|errors| {
            let told = |error: env_file::EnvFileError| {
                (format!("`{path}`, line {}: {}", error.line, error.message), None)
            };
            errors.into_iter().map(told).collect()
        })
    }

    fn secret(&self, secret: &Secret, env: &Environment) -> Result<String, Unreadable> {
        let name = &secret.name;
        match &secret.source {
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
                let text = self.project.read(path, self.project.here());
                let mut text =
                    text.map_err(|error| (format!("the secret `{name}`: {}", error.message), error.hint))?;
                let end = text.strip_suffix('\n').map(|text| text.strip_suffix('\r').unwrap_or(text));
                let end = end.map_or(text.len(), str::len);
                text.truncate(end);
                Ok(text)
            }
            SecretSource::Command(command) => self
                .printed(command, env)
                .map_err(|why| (format!("the secret `{name}`: `{}` {why}", command[0]), None)),
        }
    }

    /// What a program prints, without final line breaks.
    fn printed(&self, command: &[EcoString], env: &Environment) -> Result<String, String> {
        if self.reading == SecretReading::WithoutPrograms {
            return Err("is not run".to_owned());
        }
        let spec = Spec {
            program: OsString::from(command[0].as_str()),
            args: command[1..].iter().map(|word| OsString::from(word.as_str())).collect(),
            env: env.clone(),
            cwd: self.project.here().to_owned(),
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

fn problem(id: &'static str, span: Span, (message, hint): Unreadable) -> Problem {
    hint.into_iter().fold(Problem::error(id, span, message), Problem::hint)
}

/// A secret that can be looked for.
fn checked(secret: &Secret, value: String) -> Result<String, Unreadable> {
    let name = &secret.name;
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
