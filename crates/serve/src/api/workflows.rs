//! The workflows of a project that can be started, and what they take. A request names one of these; no text of a request
//! becomes a path.

use std::collections::BTreeSet;
use std::path::Path;

use threadline_flow::model::{Input, Workflow};
use threadline_lang::Value;

use crate::answer::HttpAnswer;
use crate::problem::Problem;
use crate::projects::ServedProject;
use crate::server::{PageServer, RouteCall};

/// How deep folders are looked into, and how many files at most.
const DEEPEST: usize = 3;
const MOST_FILES: usize = 500;

/// The largest file that is looked into to see whether it is a workflow.
const LARGEST: u64 = 1 << 20;

/// Folders that hold what others made.
const LEFT_OUT: [&str; 3] = ["node_modules", "target", "vendor"];

/// A workflow that can be started.
pub(crate) struct StartableWorkflow {
    /// Its file, from the folder of the project.
    pub(crate) file: String,
    pub(crate) workflow: Workflow,
}

/// The workflows of a project, by their files.
pub(crate) fn all(server: &PageServer, project: &ServedProject) -> Vec<StartableWorkflow> {
    let root = project.project.root();
    let mut files = BTreeSet::new();
    collect(root, "", DEEPEST, &mut files);
    let load = |file: String| {
        let workflow = (server.read_workflow)(&root.join(&file))?;
        Some(StartableWorkflow { file, workflow })
    };
    files.into_iter().filter_map(load).collect()
}

/// The workflow with this file; it is one of all.
pub(crate) fn named(
    server: &PageServer,
    project: &ServedProject,
    file: &str,
) -> Result<StartableWorkflow, Problem> {
    let found = all(server, project).into_iter().find(|known| known.file == file);
    found.ok_or_else(|| Problem::missing("the project has no such workflow"))
}

/// Finds files that may be workflows. Links are not followed.
fn collect(root: &Path, folder: &str, depth: usize, files: &mut BTreeSet<String>) {
    let Ok(entries) = std::fs::read_dir(root.join(folder)) else { return };
    let mut names: Vec<_> = entries
        .flatten()
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.file_type().ok()?, entry)))
        .collect();
    names.sort_by(|one, two| one.0.cmp(&two.0));
    for (name, kind, entry) in names {
        if name.starts_with('.') || files.len() >= MOST_FILES {
            continue;
        }
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        if kind.is_dir() && depth > 0 && !LEFT_OUT.contains(&name.as_str()) {
            collect(root, &path, depth - 1, files);
        }
        let is_named = [".yaml", ".yml"].iter().any(|ending| name.ends_with(ending));
        if kind.is_file() && is_named && entry.metadata().is_ok_and(|file| file.len() <= LARGEST) {
            files.insert(path);
        }
    }
}

pub(crate) fn workflows(call: &RouteCall) -> Result<HttpAnswer, Problem> {
    let found = all(&call.server, call.project()?);
    let workflows = found.iter().map(|StartableWorkflow { file, workflow }| {
        Value::record([
            ("file", Value::from(file.as_str())),
            ("name", workflow.name.as_str().into()),
            ("inputs", Value::sequence(workflow.inputs.iter().map(input))),
        ])
    });
    Ok(HttpAnswer::json(&Value::record([("workflows", Value::sequence(workflows))])))
}

fn input(input: &Input) -> Value {
    Value::record([
        ("name", Value::from(input.name.as_str())),
        ("type", input.kind.map_or(Value::NULL, |kind| kind.name().into())),
        ("required", input.required.into()),
        ("default", input.default.clone().unwrap_or_default()),
        ("description", input.description.as_deref().map_or(Value::NULL, Value::from)),
    ])
}
