//! What a run is given that stands in no file of its own: the variables of its environment files, and its secrets.
//!
//! Both are read when a run begins and when it goes on, for the workflow and for all that it calls. The values of secrets
//! are kept in memory, for effects that are about to be performed, and are written nowhere. [`masks`] finds them in what
//! comes back.

pub mod env_file;
pub mod lookup;
pub mod masks;
pub mod named;
mod results;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::sync::Arc;

use ecow::EcoString;
use threadline_flow::model::Workflow;
use threadline_flow::plan::Plan;
use threadline_flow::problem::Problem;
use threadline_lang::diag::Span;
use threadline_lang::{Scope, ScopeEntry, Value};

use crate::process::Environment;
use crate::project::Project;
use lookup::{SecretLookup, SecretReference, Unreadable};
use masks::Masks;

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
    /// All secrets of all of them, each once.
    secrets: Vec<HeldSecret>,
    masks: Option<Arc<Masks>>,
    /// What the words begin with that stand for secrets: nobody else can know it.
    nonce: String,
}

/// A secret with its value.
#[derive(Clone)]
struct HeldSecret {
    reference: SecretReference,
    value: String,
}

impl std::fmt::Debug for HeldSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("HeldSecret").field(&self.reference.name).finish()
    }
}

/// What one workflow is given.
#[derive(Clone, Default)]
struct WorkflowSurroundings {
    /// Of its environment files; of two with one name the later one holds.
    variables: Vec<(String, String)>,
    /// Its secrets, by their places among all.
    secrets: Vec<usize>,
}

impl std::fmt::Debug for WorkflowSurroundings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkflowSurroundings").field("secrets", &self.secrets).finish_non_exhaustive()
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
            secrets: Vec::new(),
            problems: Vec::new(),
        };
        reader.workflow(plan, true);
        let SurroundingsReader { workflows, secrets, problems, .. } = reader;
        if !problems.is_empty() {
            return Err(problems);
        }
        let all = secrets.iter().map(|held: &HeldSecret| (&held.reference.name, held.value.as_str()));
        let all: Vec<(&EcoString, &str)> = all.collect();
        let masks = if all.is_empty() { None } else { Some(Masks::new(all)) };
        let masks = masks.transpose().map_err(|_| {
            let message = "the secrets are too large together: nothing could look for all of them";
            vec![Problem::error("secret", Span::default(), message)]
        })?;
        let nonce = uuid::Uuid::new_v4().simple().to_string();
        Ok(Self { workflows, secrets, masks: masks.map(Arc::new), nonce })
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
        self.with_secrets(workflow, scope, |place| Value::from(self.secrets[place].value.as_str()))
    }

    fn with_secrets(&self, workflow: &Workflow, scope: &Scope, value: impl Fn(usize) -> Value) -> Scope {
        let given = self.workflows.get(workflow.file.name());
        let secrets = given.into_iter().flat_map(|given| &given.secrets);
        let secrets = secrets.map(|place| (self.secrets[*place].reference.name.clone(), value(*place)));
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
    secrets: Vec<HeldSecret>,
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
        let project = self.project;
        let read =
            |path: &str| project.read(path, project.here()).map_err(|error| (error.message, error.hint));
        let runs_programs = self.reading != SecretReading::WithoutPrograms;
        let lookup = SecretLookup { read: &read, folder: project.here(), env: &env, runs_programs };
        let env_files: Vec<EcoString> = workflow.env_files.iter().map(|file| file.value.clone()).collect();
        for secret in &workflow.secrets {
            match lookup.value(&secret.name, &secret.source) {
                Ok(value) => {
                    let (name, source) = (secret.name.clone(), secret.source.clone());
                    let reference = SecretReference { name, source, env_files: env_files.clone() };
                    let known = self.secrets.iter().position(|held| held.reference == reference);
                    given.secrets.push(known.unwrap_or_else(|| {
                        self.secrets.push(HeldSecret { reference, value });
                        self.secrets.len() - 1
                    }));
                }
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
}

fn problem(id: &'static str, span: Span, (message, hint): Unreadable) -> Problem {
    hint.into_iter().fold(Problem::error(id, span, message), Problem::hint)
}
