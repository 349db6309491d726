//! Steps of a file: what each does, and the keys around it.

use std::sync::Arc;

use ecow::EcoString;
use threadline_expect::Expectations;
use threadline_lang::Origin;

use super::Steps;
use super::read::{Fields, Loader, Place, head, shown, span_of};
use super::tools::tool_name;
use crate::checks::Check;
use crate::fields::{ActionName, ObjectSpec, RETRY, STEP, WRITE_FILE};
use crate::forms;
use crate::model::{
    Action, Backoff, CaptureFormat, Field, FileFormat, ForEach, OnCrash, Retry, Step, WriteFile,
};

impl Loader {
    /// The steps behind a key.
    pub(super) fn steps_of(&mut self, fields: &Fields<'_>, name: &str) -> Steps {
        match fields.get(name) {
            Some(place) => self.steps(&place, name),
            None => Vec::new(),
        }
    }

    /// A list of steps, or one step.
    pub(super) fn steps(&mut self, place: &Place<'_>, name: &str) -> Steps {
        if place.node.value.as_list().is_some() {
            let steps: Steps = place.items().filter_map(|item| self.step(item)).collect();
            if place.node.items().is_empty() {
                self.problem(Check::NoSteps.at(place.node.span, format!("`{name}` has no step")));
            }
            return steps;
        }
        if place.node.value.as_object().is_some() {
            return self.step(place.clone()).into_iter().collect();
        }
        let message = format!("`{name}` takes a list of steps, not {}", shown(&place.node.value));
        self.problem(Check::WrongType.at(place.node.span, message));
        Vec::new()
    }

    fn step(&mut self, place: Place<'_>) -> Option<Arc<Step>> {
        self.step_in(place, false)
    }

    /// A step of a list, or a node of a graph.
    pub(super) fn step_in(&mut self, place: Place<'_>, is_node: bool) -> Option<Arc<Step>> {
        if let Some(text) = place.node.value.as_str() {
            let message = format!("a step is an object, not the text `{text}`");
            let hint = "write what it does before it, such as `shell: ...`";
            self.problem(Check::WrongType.at(place.node.span, message).hint(hint));
            return None;
        }
        let origin = place.origin();
        let fields = self.fields(place, &STEP)?;
        if !is_node {
            self.nodes_only(&fields);
        }
        let action = self.action_name(&fields);
        if let Some(action) = action {
            self.check_applies(&fields, action);
        }
        let action = action.and_then(|action| self.action(&fields, action));
        let step = self.step_with(&fields, origin, action);
        Some(Arc::new(step))
    }

    /// A step that does this; where what it does is missing or wrong, it stays with what is known of it: others may
    /// read it.
    pub(super) fn step_with(&mut self, fields: &Fields<'_>, origin: Origin, action: Option<Action>) -> Step {
        let is_step = fields.object.name == STEP.name;
        let capture_format = self.capture_format(fields);
        let (action, format) = match action {
            Some(action) => (action, capture_format),
            None => (nothing(fields), CaptureFormat::Json),
        };
        let mut lists = |key: &str| if is_step { self.steps_of(fields, key) } else { Vec::new() };
        let (on_failure, on_success) = (lists("on_failure"), lists("on_success"));
        let finally = lists("finally");
        Step {
            id: self.name(fields, "id"),
            name: self.text(fields, "name"),
            when: self.expression(fields, "when"),
            capture: self.capture(fields),
            format,
            timeout: self.time_limit(fields, "timeout").or_else(|| self.http_timeout(fields)),
            idle_timeout: self.time_limit(fields, "idle_timeout"),
            retry: self.retry(fields),
            on_crash: match self.choice(fields, "on_crash") {
                Some("fail") => OnCrash::Fail,
                Some("ask") => OnCrash::Ask,
                _ => OnCrash::Rerun,
            },
            on_failure,
            on_success,
            finally,
            continue_on_error: is_step && self.bool(fields, "continue_on_error"),
            env: self.variables(fields),
            cwd: self.template_of(fields, "cwd"),
            shell_program: self.shell_program(fields),
            strict_shell: self.bool(fields, "strict_shell"),
            max_output: self.size(fields, "max_output"),
            expect: self.expectations(fields, &action),
            needs: self.needs(fields),
            tool: if matches!(action, Action::Tool(_)) { None } else { tool_name(fields) },
            origin,
            action,
            state: None,
        }
    }

    // ---- what it does ----------------------------------------------------------------------------------

    /// What the step does: exactly one of the actions.
    pub(super) fn action_name(&mut self, fields: &Fields<'_>) -> Option<ActionName> {
        let named = |action: &ActionName| match action {
            ActionName::Agent => fields.found("agent").or_else(|| fields.found("claude")),
            action => fields.found(action.key()),
        };
        let found: Vec<_> =
            ActionName::ALL.iter().filter_map(|action| Some((*action, named(action)?))).collect();
        match &found[..] {
            [(action, _)] => Some(*action),
            [] => {
                self.no_action(fields);
                None
            }
            [(_, first), (_, second), ..] => {
                let message = format!("a step does one thing: `{}` or `{}`", first.written, second.written);
                let span = second.entry.key_span;
                self.problem(Check::ConflictingKeys.at(span, message).hint("make two steps of it"));
                None
            }
        }
    }

    fn no_action(&mut self, fields: &Fields<'_>) {
        // An unknown key was reported, and may be what the step does.
        if fields.place.node.entries().any(|(key, _)| STEP.key(key).is_none()) {
            return;
        }
        let needs = [("message", "agent"), ("do", "foreach"), ("params", "tool"), ("with", "workflow")];
        for (key, action) in needs {
            if let Some(found) = fields.found(key) {
                let message = format!("`{key}` needs `{action}` beside it");
                self.problem(Check::MissingKey.at(found.entry.key_span, message));
                return;
            }
        }
        let keys: Vec<String> = ActionName::ALL.iter().map(|action| format!("`{}`", action.key())).collect();
        let message = "the step does nothing";
        let span = head(fields.place.node);
        self.problem(Check::MissingKey.at(span, message).hint(format!("give it one of {}", keys.join(", "))));
    }

    pub(super) fn action(&mut self, fields: &Fields<'_>, action: ActionName) -> Option<Action> {
        match action {
            ActionName::Shell => {
                let place = fields.get("shell")?;
                let interpolate = self.bool(fields, "interpolate");
                let text = self.scalar_text(&place, "shell")?;
                Some(Action::Shell { text: place.field(text), interpolate })
            }
            ActionName::Argv => {
                let argv = self.arguments(fields, "argv")?;
                if argv.is_empty() {
                    let span = fields.get("argv")?.node.span;
                    self.problem(
                        Check::WrongType.at(span, "`argv` takes a program and its arguments, this is empty"),
                    );
                    return None;
                }
                Some(Action::Argv(argv))
            }
            ActionName::Agent => self.agent(fields),
            ActionName::Http => self.http(fields),
            ActionName::Tool => self.tool(fields),
            ActionName::WriteFile => self.write_file(fields),
            ActionName::Value => Some(Action::Value(self.document_of(fields, "value")?)),
            ActionName::Workflow => self.call(fields),
            ActionName::ForEach => self.for_each(fields),
            ActionName::Condition => Some(Action::Condition(self.conditional(fields)?)),
            ActionName::Trigger => Some(Action::Trigger(self.trigger(fields)?)),
            // No key of a step makes it a phase.
            ActionName::Phase | ActionName::Nothing => None,
        }
    }

    fn agent(&mut self, fields: &Fields<'_>) -> Option<Action> {
        let Some(short) = fields.found("claude") else {
            let agent = self.name(fields, "agent");
            if fields.found("message").is_none() {
                let span = fields.found("agent")?.entry.key_span;
                self.problem(Check::MissingKey.at(span, "`agent` needs `message` beside it"));
            }
            let message = self.template_of(fields, "message");
            return Some(Action::Agent { agent: agent?, message: message? });
        };
        for key in ["agent", "message"] {
            if let Some(found) = fields.found(key) {
                let message =
                    format!("`claude` stands for an agent and its message: `{key}` cannot stand beside it");
                self.problem(Check::ConflictingKeys.at(found.entry.key_span, message));
            }
        }
        let place = fields.get("claude")?;
        let message = self.template(&place, "claude")?;
        let mut agent = place.field(EcoString::from("claude"));
        agent.origin.span = short.entry.key_span;
        Some(Action::Agent { agent, message })
    }

    fn write_file(&mut self, fields: &Fields<'_>) -> Option<Action> {
        let inner = self.fields(fields.get("write_file")?, &WRITE_FILE)?;
        let path = self.template_of(&inner, "path");
        let content = self.document_of(&inner, "content");
        let format = match self.choice(&inner, "format") {
            Some("json") => FileFormat::Json,
            Some("yaml") => FileFormat::Yaml,
            _ => FileFormat::Text,
        };
        let mode = self.mode(&inner);
        let create_dirs = self.bool(&inner, "create_dirs");
        Some(Action::WriteFile(WriteFile { path: path?, content: content?, format, mode, create_dirs }))
    }

    /// The mode of a file. YAML takes `0644` for the number 644, so the digits count as they are written.
    fn mode(&mut self, fields: &Fields<'_>) -> Option<u32> {
        let place = fields.get("mode")?;
        let written = match place.node.value.as_str() {
            Some(text) => text.to_owned(),
            None => self.written(place.node).trim().to_owned(),
        };
        let mode = forms::mode(&written);
        if mode.is_none() {
            let message =
                format!("`mode` takes the mode of a file such as `0644`, not {}", shown(&place.node.value));
            self.problem(Check::BadMode.at(span_of(place.node), message));
        }
        mode
    }

    fn for_each(&mut self, fields: &Fields<'_>) -> Option<Action> {
        let source = fields.get("foreach").and_then(|place| self.source(&place, "foreach", false));
        let steps = self.steps_of(fields, "do");
        if fields.found("do").is_none() {
            let span = fields.found("foreach")?.entry.key_span;
            self.problem(
                Check::MissingKey.at(span, "`foreach` needs `do` beside it: the steps for each item"),
            );
        }
        let each = self.selection(fields, source?, "parallel");
        // Without a word about it the first failure ends the list.
        let policy = if fields.found("error_policy").is_some() { self.policy(fields) } else { each.policy };
        Some(Action::ForEach(Box::new(ForEach { steps, policy, ..each })))
    }

    // ---- the keys around it ----------------------------------------------------------------------------

    fn capture(&mut self, fields: &Fields<'_>) -> Option<Field<EcoString>> {
        let place = fields.get("capture")?;
        if place.node.value.as_bool().is_some() {
            let key = fields.found("capture")?.written;
            let message = format!("`{key}` takes a name, not `{}`", self.written(place.node).trim());
            let hint = format!(
                "write `{key}: NAME` and read `${{NAME}}`; the next step has it as `${{prev}}` anyway"
            );
            self.problem(Check::OldKey.at(place.node.span, message).hint(hint));
            return None;
        }
        self.name(fields, "capture")
    }

    fn capture_format(&mut self, fields: &Fields<'_>) -> CaptureFormat {
        self.capture_format_of(fields, "capture_format")
    }

    /// What an output is read as.
    pub(super) fn capture_format_of(&mut self, fields: &Fields<'_>, key: &str) -> CaptureFormat {
        match self.choice(fields, key) {
            Some("json") => CaptureFormat::Json,
            Some("lines") => CaptureFormat::Lines,
            Some("number") => CaptureFormat::Number,
            Some("boolean") => CaptureFormat::Boolean,
            _ => CaptureFormat::Text,
        }
    }

    fn shell_program(&mut self, fields: &Fields<'_>) -> Option<Field<EcoString>> {
        let place = fields.get("shell_program")?;
        let text = self.scalar_text(&place, "shell_program")?;
        Some(place.field(text))
    }

    /// What must hold of what the step left.
    pub(super) fn expectations(
        &mut self,
        fields: &Fields<'_>,
        action: &Action,
    ) -> Option<Field<Arc<Expectations>>> {
        let place = fields.get("expect")?;
        let context = threadline_expect::LoadContext {
            kind: Some(threadline_expect::DocumentKind::Step),
            syntax: &self.syntax,
            ..threadline_expect::LoadContext::DEFAULT
        };
        let (expectations, problems) =
            threadline_expect::load_part(place.node, &place.path, self.file.text(), &context);
        for problem in problems {
            self.problem(problem);
        }
        let span = fields.found("expect").map_or(place.node.span, |found| found.entry.key_span);
        let without: &[&str] = match action {
            Action::Shell { .. } | Action::Argv(_) | Action::Agent { .. } => &[],
            Action::Http(_) | Action::Tool(_) => &["exit_code"],
            _ => &["exit_code", "output"],
        };
        for root in without.iter().filter(|root| expectations.reads(root)) {
            let message = format!("`expect` reads `{root}`, and a step that runs no program has none");
            self.problem(Check::KeyNotHere.at(span, message).hint("check its `value`"));
        }
        if expectations.reads("facts") {
            let problem =
                Check::NotInVersion.at(span, "`expect` reads `facts`, which steps have not in this version");
            self.problem(problem.hint("compare with `${inputs.NAME}` or `${context.NAME}`"));
        }
        if expectations.asks_a_judge() {
            let message = "`expect` asks a judge, which steps have not in this version";
            self.problem(Check::NotInVersion.at(span, message));
        }
        Some(place.field(Arc::new(expectations)))
    }

    /// `retry: n`, or an object about it.
    fn retry(&mut self, fields: &Fields<'_>) -> Option<Retry> {
        self.retry_of(fields, &STEP)
    }

    /// `retry` of a step or of the items of a map.
    pub(super) fn retry_of(&mut self, fields: &Fields<'_>, object: &'static ObjectSpec) -> Option<Retry> {
        let place = fields.get("retry")?;
        let short = place.node.value.as_object().is_none();
        let inner =
            if short { Fields::none(place.clone(), &RETRY) } else { self.fields(place.clone(), &RETRY)? };
        let attempts =
            if short { self.count_at(&place, object.known("retry")) } else { self.count(&inner, "attempts") };
        let backoff = match self.choice(&inner, "backoff") {
            Some("linear") => Backoff::Linear,
            Some("exponential") => Backoff::Exponential,
            _ => Backoff::Fixed,
        };
        let (delay, max_delay) = (self.duration(&inner, "delay"), self.duration(&inner, "max_delay"));
        let jitter = self.bool(&inner, "jitter");
        Some(Retry { attempts: attempts?, backoff, delay: delay?, max_delay: max_delay?, jitter })
    }
}

/// Stands for an action that could not be read, in a workflow that cannot run.
fn nothing(fields: &Fields<'_>) -> Action {
    Action::Shell { text: fields.place.field(EcoString::new()), interpolate: false }
}
