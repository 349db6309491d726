//! Reads steps: their actions, and the keys around them.

use std::sync::Arc;

use ecow::EcoString;
use threadline_expect::Expectations;
use threadline_lang::diag::{nearest, words};
use threadline_lang::{Origin, Type};

use super::StepList;
use super::read::{LocatedNode, ObjectFields, WorkflowLoader, head, shown, span_of};
use super::tools::tool_name;
use crate::checks::Check;
use crate::fields::{ActionName, FailureKind, MAP, ObjectSpec, RETRY, STEP, WRITE_FILE};
use crate::forms;
use crate::model::{
    ASK_AGAIN, Action, AnswerFormat, Backoff, CaptureFormat, FailureMatch, Field, FileFormat, ForEach,
    OnCrash, Policy, Retry, RetryConditions, SecretOutput, ShortFormError, Step, WriteFile, is_schema,
    schema_of,
};
use crate::problem::Problem;

impl WorkflowLoader {
    /// Reads the steps of a key.
    pub(super) fn read_steps_of(&mut self, fields: &ObjectFields<'_>, name: &str) -> StepList {
        match fields.get(name) {
            Some(place) => self.read_steps(&place, name),
            None => Vec::new(),
        }
    }

    /// Reads a list of steps, or one step.
    pub(super) fn read_steps(&mut self, place: &LocatedNode<'_>, name: &str) -> StepList {
        if place.node.value.as_list().is_some() {
            let steps: StepList = place.items().filter_map(|item| self.read_step(item)).collect();
            if place.node.items().is_empty() {
                self.report(Check::NoSteps.at(place.node.span, format!("`{name}` is empty")));
            }
            return steps;
        }
        if place.node.value.as_object().is_some() {
            return self.read_step(place.clone()).into_iter().collect();
        }
        let message = format!("`{name}` takes a list of steps, not {}", shown(&place.node.value));
        self.report(Check::WrongType.at(place.node.span, message));
        Vec::new()
    }

    fn read_step(&mut self, place: LocatedNode<'_>) -> Option<Arc<Step>> {
        self.read_step_in(place, false)
    }

    /// Reads a step of a list, or a node of a graph.
    pub(super) fn read_step_in(&mut self, place: LocatedNode<'_>, is_node: bool) -> Option<Arc<Step>> {
        if let Some(text) = place.node.value.as_str() {
            let message = format!("a step is an object, not the text `{text}`");
            let hint = "write the action as a key, such as `shell: ...`";
            self.report(Check::WrongType.at(place.node.span, message).hint(hint));
            return None;
        }
        let origin = place.origin();
        let mut fields = self.read_fields(place, &STEP)?;
        if !is_node {
            self.refuse_node_keys(&fields);
        }
        let action = self.find_action(&fields);
        let defaults = self.defaults.clone();
        if let Some(action) = action {
            self.check_applies(&fields, action);
            fields = fields.with_defaults(defaults.as_deref(), action);
        }
        let action = action.and_then(|action| self.read_action(&fields, action));
        let step = self.read_step_with(&fields, origin, action);
        Some(Arc::new(step))
    }

    /// Reads a step with this action. If the action is missing or wrong, the step is kept without it, because
    /// others may read it.
    pub(super) fn read_step_with(
        &mut self,
        fields: &ObjectFields<'_>,
        origin: Origin,
        action: Option<Action>,
    ) -> Step {
        let is_step = fields.object.name == STEP.name;
        let capture_format = self.read_capture_format(fields);
        let (action, format) = match action {
            Some(action) => (action, capture_format),
            None => (nothing(fields), CaptureFormat::Json),
        };
        let mut lists = |key: &str| if is_step { self.read_steps_of(fields, key) } else { Vec::new() };
        let (on_failure, on_success) = (lists("on_failure"), lists("on_success"));
        let finally = lists("finally");
        Step {
            id: self.read_name(fields, "id"),
            name: self.read_text(fields, "name"),
            when: self.read_expression(fields, "when"),
            capture: self.read_capture(fields),
            format,
            timeout: self.read_time_limit(fields, "timeout").or_else(|| self.read_http_timeout(fields)),
            idle_timeout: self.read_time_limit(fields, "idle_timeout"),
            retry: self.read_retry(fields),
            budget: self.read_budget(fields),
            on_crash: self.read_choice(fields, "on_crash").map(|word| match word {
                "fail" => OnCrash::Fail,
                "ask" => OnCrash::Ask,
                _ => OnCrash::Rerun,
            }),
            labels: self.read_labels(fields),
            on_failure,
            on_success,
            finally,
            continue_on_error: is_step && self.read_bool(fields, "continue_on_error"),
            env: self.read_variables(fields),
            cwd: self.read_template_of(fields, "cwd"),
            shell_program: self.read_shell_program(fields),
            strict_shell: self.read_bool(fields, "strict_shell"),
            trust: self.read_text(fields, "trust"),
            max_output: self.read_size(fields, "max_output"),
            secret_output: match self.read_choice(fields, "secret_output") {
                Some("mask") => SecretOutput::Mask,
                _ => SecretOutput::Fail,
            },
            expect: self.read_expectations(fields, &action),
            needs: self.read_needs(fields),
            tool: if matches!(action, Action::Tool(_)) { None } else { tool_name(fields) },
            origin,
            action,
            state: None,
        }
    }

    // ---- what it does ----------------------------------------------------------------------------------

    /// Finds the action of a step; it must have exactly one.
    pub(super) fn find_action(&mut self, fields: &ObjectFields<'_>) -> Option<ActionName> {
        let named = |action: &ActionName| match action {
            ActionName::Agent => fields.found("agent").or_else(|| fields.found("claude")),
            action => fields.found(action.key()),
        };
        let found: Vec<_> =
            ActionName::ALL.iter().filter_map(|action| Some((*action, named(action)?))).collect();
        match &found[..] {
            [(action, _)] => Some(*action),
            [] => {
                self.report_no_action(fields);
                None
            }
            [(_, first), (_, second), ..] => {
                let message =
                    format!("a step has one action: either `{}` or `{}`", first.written, second.written);
                let span = second.entry.key_span;
                self.report(Check::ConflictingKeys.at(span, message).hint("split it into two steps"));
                None
            }
        }
    }

    fn report_no_action(&mut self, fields: &ObjectFields<'_>) {
        // An unknown key was reported, and may be the action.
        if fields.place.node.entries().any(|(key, _)| STEP.key(key).is_none()) {
            return;
        }
        let needs = [("message", "agent"), ("do", "foreach"), ("params", "tool"), ("with", "workflow")];
        for (key, action) in needs {
            if let Some(found) = fields.found(key) {
                let message = format!("`{key}` needs `{action}`");
                self.report(Check::MissingKey.at(found.entry.key_span, message));
                return;
            }
        }
        let keys = words::code_list(ActionName::ALL.iter().map(|action| action.key()), "or");
        let message = "the step has no action";
        let span = head(fields.place.node);
        self.report(Check::MissingKey.at(span, message).hint(format!("add {keys}")));
    }

    pub(super) fn read_action(&mut self, fields: &ObjectFields<'_>, action: ActionName) -> Option<Action> {
        match action {
            ActionName::Shell => {
                let place = fields.get("shell")?;
                let interpolate = self.read_bool(fields, "interpolate");
                let text = self.read_scalar_text(&place, "shell")?;
                Some(Action::Shell { text: place.field(text), interpolate })
            }
            ActionName::Argv => {
                let argv = self.read_arguments(fields, "argv")?;
                if argv.is_empty() {
                    let span = fields.get("argv")?.node.span;
                    self.report(
                        Check::WrongType.at(span, "`argv` takes a program and its arguments, but is empty"),
                    );
                    return None;
                }
                Some(Action::Argv(argv))
            }
            ActionName::Agent => self.read_agent(fields),
            ActionName::Http => self.read_http(fields),
            ActionName::Tool => self.read_tool(fields),
            ActionName::WriteFile => self.read_write_file(fields),
            ActionName::Value => Some(Action::Value(self.read_document_of(fields, "value")?)),
            ActionName::Assert => self.read_assertion(fields),
            ActionName::Wait => Some(Action::Wait(self.read_duration(fields, "wait")?)),
            ActionName::Fail => {
                if let Some(found) = fields.found("expect") {
                    let message = "`expect` has nothing to check: a `fail` step never succeeds";
                    self.report(Check::KeyNotHere.at(found.entry.key_span, message).hint("remove it"));
                }
                let place = fields.get("fail")?;
                if place.node.value.as_str().is_some_and(|text| text.trim().is_empty()) {
                    let problem =
                        Check::WrongType.at(place.node.span, "`fail` needs a message, but is empty");
                    self.report(problem.hint("say why the step fails: `fail: the report has no totals`"));
                    return None;
                }
                Some(Action::Fail(self.read_template_of(fields, "fail")?))
            }
            ActionName::Workflow => self.read_call(fields),
            ActionName::ForEach => self.read_for_each(fields),
            ActionName::Condition => Some(Action::Condition(self.read_conditional(fields)?)),
            ActionName::Trigger => Some(Action::Trigger(self.read_trigger(fields)?)),
            // No key of a step selects a phase.
            ActionName::Phase | ActionName::Nothing => None,
        }
    }

    fn read_agent(&mut self, fields: &ObjectFields<'_>) -> Option<Action> {
        let Some(short) = fields.found("claude") else {
            let agent = self.read_agent_name(fields);
            if fields.found("message").is_none() {
                let span = fields.found("agent")?.entry.key_span;
                self.report(Check::MissingKey.at(span, "`agent` needs `message`"));
            }
            let message = self.read_template_of(fields, "message");
            let answer = self.read_answer(fields);
            let thread = self.read_template_of(fields, "thread");
            let cache = self.read_given_bool(fields, "cache");
            return Some(Action::Agent { agent: agent?, message: message?, answer, thread, cache });
        };
        for key in ["agent", "message"] {
            if let Some(found) = fields.found(key) {
                let message = format!(
                    "`claude` already is an agent with its message, so it cannot be combined with `{key}`"
                );
                self.report(Check::ConflictingKeys.at(found.entry.key_span, message));
            }
        }
        let place = fields.get("claude")?;
        let message = self.read_template(&place, "claude")?;
        let mut agent = place.field(EcoString::from("claude"));
        agent.origin.span = short.entry.key_span;
        let answer = self.read_answer(fields);
        let thread = self.read_template_of(fields, "thread");
        let cache = self.read_given_bool(fields, "cache");
        Some(Action::Agent { agent, message, answer, thread, cache })
    }

    /// Reads `output` and `ask_again`: the form that the answer of an agent must have.
    pub(super) fn read_answer(&mut self, fields: &ObjectFields<'_>) -> Option<Arc<AnswerFormat>> {
        let ask_again = self.read_fixed_count(fields, "ask_again");
        let Some(place) = fields.get("output") else {
            if let Some(found) = fields.found("ask_again") {
                let message = "`ask_again` needs `output`: without it every answer fits";
                self.report(Check::MissingKey.at(found.entry.key_span, message));
            }
            return None;
        };
        if let Some(found) = fields.found("capture_format") {
            let message = "`output` says what the answer is, so it cannot be combined with `capture_format`";
            self.report(Check::ConflictingKeys.at(found.entry.key_span, message).hint("remove it"));
        }
        let written = &place.node.value;
        let schema = if is_schema(written) { Ok(written.clone()) } else { schema_of(written) };
        let schema = match schema {
            Ok(schema) => AnswerFormat::of_schema(schema),
            Err(ShortFormError { message, hint, path }) => {
                let node = path.iter().rev().try_fold(place.node, |node, key| {
                    if key.is_empty() { node.items().first() } else { node.get(key) }
                });
                let span = span_of(node.unwrap_or(place.node));
                let problem = Check::WrongType.at(span, format!("`output`: {message}"));
                self.report(hint.into_iter().fold(problem, Problem::hint));
                // What reads it was not wrong.
                return AnswerFormat::any().map(Arc::new);
            }
        };
        match schema {
            Ok(mut format) => {
                format.ask_again = ask_again.unwrap_or(ASK_AGAIN);
                Some(Arc::new(format))
            }
            Err(why) => {
                self.report(Check::WrongType.at(span_of(place.node), format!("`output`: {why}")));
                AnswerFormat::any().map(Arc::new)
            }
        }
    }

    fn read_write_file(&mut self, fields: &ObjectFields<'_>) -> Option<Action> {
        let inner = self.read_fields(fields.get("write_file")?, &WRITE_FILE)?;
        let path = self.read_template_of(&inner, "path");
        let content = self.read_document_of(&inner, "content");
        let format = match self.read_choice(&inner, "format") {
            Some("json") => FileFormat::Json,
            Some("yaml") => FileFormat::Yaml,
            _ => FileFormat::Text,
        };
        let mode = self.read_mode(&inner);
        let create_dirs = self.read_bool(&inner, "create_dirs");
        Some(Action::WriteFile(WriteFile { path: path?, content: content?, format, mode, create_dirs }))
    }

    /// Reads the mode of a file. YAML reads `0644` as the number 644, so the digits count as written.
    fn read_mode(&mut self, fields: &ObjectFields<'_>) -> Option<u32> {
        let place = fields.get("mode")?;
        let written = match place.node.value.as_str() {
            Some(text) => text.to_owned(),
            None => self.written_text(place.node).trim().to_owned(),
        };
        let mode = forms::mode(&written);
        if mode.is_none() {
            let message =
                format!("`mode` takes the mode of a file such as `0644`, not {}", shown(&place.node.value));
            self.report(Check::BadMode.at(span_of(place.node), message));
        }
        mode
    }

    fn read_for_each(&mut self, fields: &ObjectFields<'_>) -> Option<Action> {
        let source = fields.get("foreach").and_then(|place| self.read_source(&place, "foreach", false));
        let steps = self.read_steps_of(fields, "do");
        // Of `steps` in its place that was told.
        if fields.found("do").is_none() && fields.place.node.get("steps").is_none() {
            let span = fields.found("foreach")?.entry.key_span;
            self.report(Check::MissingKey.at(span, "`foreach` needs `do`: the steps for each item"));
        }
        let each = self.read_selection(fields, source?, "parallel");
        // By default, the first failure ends the list.
        let policy =
            if fields.found("error_policy").is_some() { self.read_policy(fields) } else { each.policy };
        let policy = Policy { timeout: self.read_time_limit(fields, "item_timeout"), ..policy };
        Some(Action::ForEach(Box::new(ForEach { steps, policy, ..each })))
    }

    // ---- the keys around it ----------------------------------------------------------------------------

    fn read_capture(&mut self, fields: &ObjectFields<'_>) -> Option<Field<EcoString>> {
        let place = fields.get("capture")?;
        if place.node.value.as_bool().is_some() {
            let key = fields.found("capture")?.written;
            let message = format!("`{key}` takes a name, not `{}`", self.written_text(place.node).trim());
            let hint =
                format!("write `{key}: NAME` and read `${{NAME}}`; the next step can also read `${{prev}}`");
            self.report(Check::OldKey.at(place.node.span, message).hint(hint));
            return None;
        }
        self.read_name(fields, "capture")
    }

    fn read_capture_format(&mut self, fields: &ObjectFields<'_>) -> CaptureFormat {
        self.read_capture_format_of(fields, "capture_format")
    }

    /// Reads how an output is parsed.
    pub(super) fn read_capture_format_of(&mut self, fields: &ObjectFields<'_>, key: &str) -> CaptureFormat {
        match self.read_choice(fields, key) {
            Some("json") => CaptureFormat::Json,
            Some("lines") => CaptureFormat::Lines,
            Some("number") => CaptureFormat::Number,
            Some("boolean") => CaptureFormat::Boolean,
            _ => CaptureFormat::Text,
        }
    }

    fn read_shell_program(&mut self, fields: &ObjectFields<'_>) -> Option<Field<EcoString>> {
        let place = fields.get("shell_program")?;
        let text = self.read_scalar_text(&place, "shell_program")?;
        Some(place.field(text))
    }

    /// Reads the expectation about the result of a step.
    pub(super) fn read_expectations(
        &mut self,
        fields: &ObjectFields<'_>,
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
            self.report(problem);
        }
        let span = fields.found("expect").map_or(place.node.span, |found| found.entry.key_span);
        let without: &[&str] = match action {
            Action::Shell { .. } | Action::Argv(_) | Action::Agent { .. } => &[],
            Action::Http(_) | Action::Tool(_) => &["exit_code"],
            _ => &["exit_code", "output"],
        };
        for root in without.iter().filter(|root| expectations.reads(root)) {
            let message = format!("`expect` reads `{root}`, but a step that runs no program has none");
            self.report(Check::KeyNotHere.at(span, message).hint("check its `value`"));
        }
        if expectations.reads("facts") {
            let problem = Check::NotInVersion
                .at(span, "`expect` reads `facts`, which are not available in steps in this version");
            self.report(problem.hint("compare with `${inputs.NAME}` or `${context.NAME}`"));
        }
        if expectations.asks_a_judge() {
            let message = "`expect` asks a judge, which is not available in steps in this version";
            self.report(Check::NotInVersion.at(span, message));
        }
        Some(place.field(Arc::new(expectations)))
    }

    /// Reads `retry` of a step: a number, or an object.
    fn read_retry(&mut self, fields: &ObjectFields<'_>) -> Option<Retry> {
        self.read_retry_of(fields, &STEP)
    }

    /// Reads `retry` of a step, or of the items of a map.
    pub(super) fn read_retry_of(
        &mut self,
        fields: &ObjectFields<'_>,
        object: &'static ObjectSpec,
    ) -> Option<Retry> {
        let place = fields.get("retry")?;
        let short = place.node.value.as_object().is_none();
        let inner = if short {
            ObjectFields::none(place.clone(), &RETRY)
        } else {
            self.read_fields(place.clone(), &RETRY)?
        };
        let attempts = if short {
            self.read_count_at(&place, object.known("retry"))
        } else {
            self.read_count(&inner, "attempts")
        };
        let backoff = match self.read_choice(&inner, "backoff") {
            Some("linear") => Backoff::Linear,
            Some("exponential") => Backoff::Exponential,
            _ => Backoff::Fixed,
        };
        let (delay, max_delay) =
            (self.read_duration(&inner, "delay"), self.read_duration(&inner, "max_delay"));
        let jitter = self.read_bool(&inner, "jitter");
        let conditions = RetryConditions {
            on: self.read_failures(&inner, "on"),
            not_on: self.read_failures(&inner, "not_on").unwrap_or_default(),
        };
        let fix = self.read_fix(&inner, fields.object);
        let attempts = attempts?;
        if !fix.is_empty() && attempts.known().is_none() {
            let span = inner.found("attempts").map_or(place.node.span, |found| found.entry.node.span);
            let message = "`attempts` is a number where `fix` says what to do between them";
            self.report(Check::WrongType.at(span, message).hint("write the number, without a reference"));
        }
        Some(Retry { attempts, backoff, delay: delay?, max_delay: max_delay?, jitter, conditions, fix })
    }

    /// Reads `fix`: steps that run between two attempts of a step.
    fn read_fix(&mut self, retry: &ObjectFields<'_>, object: &'static ObjectSpec) -> Vec<Arc<Step>> {
        let Some(found) = retry.found("fix") else { return Vec::new() };
        let span = found.entry.key_span;
        if object.name != STEP.name {
            let message = format!("`fix` does not apply to {}: it is about one step", object.title);
            let hint = if object.name == MAP.name {
                "write it under `retry:` of the step that fails"
            } else {
                "write a state that mends, and lead to it with `on_no:` or `on_error:`"
            };
            self.report(Check::KeyNotHere.at(span, message).hint(hint));
            return Vec::new();
        }
        for key in ["backoff", "delay", "max_delay", "jitter", "on", "not_on"] {
            if let Some(other) = retry.found(key) {
                let message =
                    format!("`{key}` has no effect beside `fix`: the step is tried again behind its steps");
                self.report(Check::KeyNotHere.at(other.entry.key_span, message).hint("remove it"));
            }
        }
        self.read_steps_of(retry, "fix")
    }

    /// Reads the failures that `retry` is about: one, or a list of them.
    fn read_failures(&mut self, fields: &ObjectFields<'_>, key: &str) -> Option<Vec<FailureMatch>> {
        let place = fields.get(key)?;
        let is_list = place.node.value.as_list().is_some();
        let named: Vec<LocatedNode<'_>> = if is_list { place.items().collect() } else { vec![place.clone()] };
        if named.is_empty() {
            let message = format!(
                "`{key}` names no failure, so {}",
                match key {
                    "on" => "nothing would be tried again",
                    _ => "it has no effect",
                }
            );
            self.report(Check::WrongType.at(span_of(place.node), message).hint("remove it"));
        }
        Some(named.iter().filter_map(|place| self.read_failure(place, key)).collect())
    }

    fn read_failure(&mut self, place: &LocatedNode<'_>, key: &str) -> Option<FailureMatch> {
        let span = span_of(place.node);
        if place.node.value.kind() == Type::Int {
            let code = self.written_text(place.node).trim().to_owned();
            let message =
                format!("`{key}` takes failures, and `{code}` alone may be an exit code or a status");
            self.report(
                Check::UnknownChoice.at(span, message).hint(format!("write `exit {code}` or `http {code}`")),
            );
            return None;
        }
        let text = self.read_scalar_text(place, key)?;
        match FailureMatch::parse(&text) {
            Some(FailureMatch::Kind(kind @ (FailureKind::Crash | FailureKind::Cancelled))) => {
                let message = format!("`{kind}` is never tried again");
                self.report(Check::UnknownChoice.at(span, message).note(kind.meaning()));
                None
            }
            Some(named) => Some(named),
            None => {
                let message = format!(
                    "`{key}` takes error types such as `Timeout`, `exit 75`, `http 503` and `http 5xx`, not `{text}`"
                );
                let problem = Check::UnknownChoice.at(span, message);
                let near = nearest(&text, FailureKind::ALL.into_iter().map(FailureKind::name));
                self.report(if let Some(near) = near {
                    problem.did_you_mean(near)
                } else {
                    let kinds = words::names(FailureKind::ALL.into_iter().map(FailureKind::name));
                    problem.note(format!("error types: {kinds}"))
                });
                None
            }
        }
    }
}

/// The placeholder for an action that could not be read. The workflow cannot run.
fn nothing(fields: &ObjectFields<'_>) -> Action {
    Action::Shell { text: fields.place.field(EcoString::new()), interpolate: false }
}
