//! A step with shell text, planned as `check` plans it and bound as a run binds it.

use std::collections::BTreeSet;
use std::path::Path;

use threadline_flow::load;
use threadline_flow::plan::{self, Plan};
use threadline_flow::problem::Problem;
use threadline_flow::shell::{BindError, BoundScript};
use threadline_lang::source::SourceFile;
use threadline_lang::{NoWorld, Session, Value};

use super::shells::{Folder, Names, Shell, scope};

/// A shell text, the entries of its `env:`, and the shell that runs it.
pub(crate) struct ShellStep<'a> {
    pub(crate) text: &'a str,
    /// `env:` of the step.
    pub(crate) environment: &'a [(String, String)],
    /// `env:` of the workflow.
    pub(crate) outer: &'a [(String, String)],
    pub(crate) shell: Shell,
}

/// The plan of a step, or at least one error.
pub(crate) struct CheckedStep {
    plan: Option<Plan>,
    pub(crate) problems: Vec<Problem>,
}

/// A script with its values, and the values of `env:`.
pub(crate) struct BoundStep {
    pub(crate) script: BoundScript,
    pub(crate) environment: Vec<(String, String)>,
}

impl ShellStep<'_> {
    /// Plans a workflow that has this step last, and everything before it that its names need.
    pub(crate) fn check(&self, names: &Names) -> CheckedStep {
        let file = SourceFile::new("w.yaml", self.workflow(names).into_bytes()).unwrap();
        let (workflow, mut problems) = load::load(file);
        let (plan, planned) = workflow.map_or((None, Vec::new()), |workflow| plan::plan(workflow.into()));
        problems.extend(planned);
        CheckedStep { plan, problems }
    }

    fn workflow(&self, names: &Names) -> String {
        let roots: BTreeSet<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
        let mut inputs = vec!["\"all\": {}".to_owned()];
        let given =
            names.iter().filter(|(name, _)| name == "inputs").filter_map(|(_, value)| value.as_object());
        inputs.extend(
            given.flat_map(|given| given.iter().map(|(name, _)| format!("{}: {{}}", quoted(name.as_str())))),
        );
        let before: Vec<String> = roots
            .iter()
            .filter(|name| !matches!(**name, "inputs" | "item" | "prev"))
            .map(|name| {
                format!("{{\"shell\": \"cat\", \"capture\": {}, \"capture_format\": \"json\"}}", quoted(name))
            })
            .collect();
        let mut step = format!(
            "{{\"shell\": {}, \"shell_program\": {}, \"env\": {}}}",
            quoted(self.text),
            quoted(self.shell.name),
            variables(self.environment)
        );
        if roots.contains("prev") {
            step = format!("{{\"shell\": \"cat\", \"capture_format\": \"json\"}}, {step}");
        }
        if roots.contains("item") {
            step = format!("{{\"foreach\": \"${{inputs.all}}\", \"do\": [{step}]}}");
        }
        format!(
            "{{\"inputs\": {{{}}}, \"env\": {}, \"steps\": [{}]}}",
            inputs.join(", "),
            variables(self.outer),
            before.into_iter().chain([step]).collect::<Vec<_>>().join(", ")
        )
    }
}

fn variables(entries: &[(String, String)]) -> String {
    let entries = entries.iter().map(|(name, value)| format!("{}: {}", quoted(name), quoted(value)));
    format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
}

/// A text in double quotes, as JSON and YAML read it.
fn quoted(text: &str) -> String {
    let list = Value::list(vec![Value::from(text)]).unwrap().to_string();
    list[1..list.len() - 1].to_owned()
}

impl CheckedStep {
    /// The errors for which nothing runs.
    pub(crate) fn errors(&self) -> impl Iterator<Item = &Problem> {
        self.problems.iter().filter(|problem| problem.is_error())
    }

    /// Binds values; the ids of the problems where one is refused.
    pub(crate) fn bind(&self, names: &Names) -> Result<BoundStep, Vec<&'static str>> {
        let plan = self.plan.as_ref().unwrap();
        let step = plan.steps.iter().rfind(|step| step.script.is_some()).unwrap();
        let scope = scope(names);
        let mut world = NoWorld;
        let mut session = Session::new(&mut world);
        let script = step.script.as_ref().unwrap().bind(&scope, &mut session);
        let script = script.map_err(|errors| errors.iter().map(id).collect::<Vec<_>>())?;
        let mut environment = Vec::new();
        for variable in plan.workflow.env.iter().chain(&step.step.env) {
            let Some(field) = &variable.value else { continue };
            let mut text = String::new();
            field.value.text(&scope, &mut session, &mut text).map_err(|error| vec![error.diagnostic().id])?;
            let refusal = step.script.as_ref().unwrap().check_environment(&variable.name, &text);
            refusal.map_or(Ok(()), |problem| Err(vec![problem.id]))?;
            environment.push((variable.name.to_string(), text));
        }
        Ok(BoundStep { script, environment })
    }
}

impl BoundStep {
    /// Runs it without a look at its output.
    pub(crate) fn run_silently(&self, shell: Shell, folder: &Path) {
        let private = Folder::new();
        for (index, variable) in self.script.files() {
            std::fs::write(private.0.join(index.to_string()), &variable.value).unwrap();
        }
        let path = |index: usize| private.0.join(index.to_string()).to_str().unwrap().to_owned();
        let values = self.script.environment().map(|(name, value)| (name, value.to_owned()));
        let environment: Vec<_> = self.environment.iter().cloned().chain(values).collect();
        shell.run_silently(&self.script.script(path), &environment, folder);
    }
}

fn id(error: &BindError) -> &'static str {
    match error {
        BindError::Refused(problem) => problem.id,
        BindError::Evaluation(error) => error.diagnostic().id,
    }
}
