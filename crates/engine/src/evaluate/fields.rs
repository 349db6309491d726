//! What the fields of a step come to, one by one, and what is made of them together.

use std::sync::Arc;
use std::time::Duration;

use ecow::EcoString;
use threadline_expect::{DocumentKind, Expectations, Settled, Unsettled, UnsettledWhy};
use threadline_flow::fields::{DEFAULT_PROVIDER, SettingForm};
use threadline_flow::forms;
use threadline_flow::model::{
    self, Action, AgentTool, Condition, Field, FieldKind, FieldOwner, ForEach, Given, Http, Input, Retry,
    Setting, SortKey, StepField, Variable, Workflow,
};
use threadline_flow::plan::{Plan, PlannedStep};
use threadline_flow::shell::{Argument, BindError, BoundScript};
use threadline_flow::url;
use threadline_lang::value::JsonStyle;
use threadline_lang::{
    ComputeError, Document, Error, Explanation, Number, Origin, Scope, Session, Template, Type, Value,
};

use crate::agent::thread::{ResolvedThread, THREAD, Thread};
use crate::agent::tools::{OfferedWorkflow, ToolOffer};
use crate::agent::{ResolvedAgent, ResolvedSetting};

use super::{
    Cause, EnteredFolder, FieldError, FieldErrors, HostPolicy, Request, ResolvedCall, ResolvedReach,
    ResolvedServer, RetryPlan, file_text, language, url_text,
};

/// What a field came to.
#[derive(Debug, Clone)]
pub enum FieldValue {
    /// Text: also a URL, a path, the content of a file, or shell text that is used as it is.
    Text(String),
    /// The value of a variable; `None` takes the variable away.
    Variable(Option<String>),
    /// A program with its arguments, as texts.
    Words(Vec<String>),
    /// A program with its arguments, values bound.
    Arguments(Vec<Argument>),
    /// Shell text, values bound.
    Shell(BoundScript),
    /// A value of any type.
    Value(Value),
    /// A whole number, or a size in bytes.
    Count(u64),
    /// A length of time.
    Duration(Duration),
    /// A part of a whole.
    Fraction(Number),
    /// A condition, and why it is what it is.
    Condition(Explanation),
    /// The branch that a conditional takes: the value and the meta data of the step.
    Branch {
        /// The value that was found.
        value: Value,
        /// The meta data.
        meta: Vec<(&'static str, Value)>,
        /// Why it takes that branch.
        explanation: Explanation,
    },
    /// Expectations with what they compare with.
    Expectations(Settled),
}

/// A field of a step, and what it came to.
#[derive(Debug, Clone)]
pub struct FieldOutcome {
    /// Its key in the table of keys.
    pub key: &'static str,
    /// Its name inside the step.
    pub name: EcoString,
    /// Where it stands, if it is written.
    pub origin: Option<Origin>,
    /// What it came to; nothing if it has no value.
    pub value: Option<FieldValue>,
    /// Whether it is a number or duration that the file fixes.
    pub fixed: bool,
}

impl FieldOutcome {
    pub(super) fn new(field: &StepField<'_>, value: Option<FieldValue>) -> Self {
        let origin = field.kind.origin().cloned();
        let fixed = match field.kind {
            FieldKind::Count(setting, _) | FieldKind::Size(setting) => setting.known().is_some(),
            FieldKind::TimeLimit(setting) | FieldKind::Pause(setting) => setting.known().is_some(),
            FieldKind::Fraction(setting) => setting.known().is_some(),
            _ => false,
        };
        Self { key: field.key, name: field.name.clone(), origin, value, fixed }
    }
}

/// What one field of a step comes to.
pub fn evaluate_field(
    planned: &PlannedStep,
    kind: FieldKind<'_>,
    scope: &Scope,
    session: &mut Session<'_>,
) -> Result<FieldValue, FieldErrors> {
    let mut fields = Fields::new(scope, session);
    let value = fields.evaluate(Some(planned), kind);
    value.ok_or(fields.errors)
}

/// What several fields came to, in the order of their evaluation.
pub(crate) struct FieldOutcomes<'f>(Vec<(StepField<'f>, Option<FieldValue>)>);

impl FieldOutcomes<'_> {
    pub(crate) fn into_owned(self) -> Vec<FieldOutcome> {
        self.0.into_iter().map(|(field, value)| FieldOutcome::new(&field, value)).collect()
    }

    /// What a field came to. A setting of an agent may have the key of a field of the step, and is not that.
    pub(crate) fn get(&self, key: &str) -> Option<&FieldValue> {
        let is_it = |field: &StepField<'_>| field.key == key && field.owner != FieldOwner::Agent;
        self.0.iter().find(|(field, _)| is_it(field))?.1.as_ref()
    }

    pub(crate) fn text(&self, key: &str) -> Option<String> {
        match self.get(key)? {
            FieldValue::Text(text) => Some(text.clone()),
            _ => None,
        }
    }

    pub(crate) fn words(&self, key: &str) -> Option<Vec<String>> {
        match self.get(key)? {
            FieldValue::Words(words) => Some(words.clone()),
            _ => None,
        }
    }

    pub(crate) fn value(&self, key: &str) -> Option<Value> {
        match self.get(key)? {
            FieldValue::Value(value) => Some(value.clone()),
            _ => None,
        }
    }

    pub(crate) fn count(&self, key: &str) -> Option<u64> {
        match self.get(key)? {
            FieldValue::Count(count) => Some(*count),
            _ => None,
        }
    }

    pub(crate) fn duration(&self, key: &str) -> Option<Duration> {
        match self.get(key)? {
            FieldValue::Duration(duration) => Some(*duration),
            _ => None,
        }
    }

    pub(crate) fn fraction(&self, key: &str) -> Option<Number> {
        match self.get(key)? {
            FieldValue::Fraction(fraction) => Some(fraction.clone()),
            _ => None,
        }
    }

    pub(crate) fn expectations(&self, key: &str) -> Option<Settled> {
        match self.get(key)? {
            FieldValue::Expectations(settled) => Some(settled.clone()),
            _ => None,
        }
    }

    pub(crate) fn retry(&self, retry: &Retry) -> RetryPlan {
        RetryPlan {
            attempts: self.count("retry.attempts").unwrap_or(1),
            backoff: retry.backoff,
            delay: self.duration("retry.delay").unwrap_or_default(),
            max_delay: self.duration("retry.max_delay").unwrap_or(Duration::MAX),
            jitter: retry.jitter,
        }
    }

    /// Variables by name; of two with one name the later one holds.
    pub(crate) fn variables(&self, key: &str) -> Vec<(EcoString, Option<String>)> {
        let mut variables: Vec<(EcoString, Option<String>)> = Vec::new();
        for (field, value) in self.0.iter().filter(|(field, _)| field.key == key) {
            if let (FieldKind::Variable(variable), Some(FieldValue::Variable(value))) = (field.kind, value) {
                variables.retain(|(name, _)| *name != variable.name);
                variables.push((variable.name.clone(), value.clone()));
            }
        }
        variables
    }

    fn headers(&self, key: &str) -> Vec<(EcoString, String)> {
        let headers = self.0.iter().filter(|(field, _)| field.key == key);
        let line = |(field, value): &(StepField<'_>, Option<FieldValue>)| match (field.kind, value) {
            (FieldKind::Header { name, .. }, Some(FieldValue::Text(text))) => {
                Some((name.clone(), text.clone()))
            }
            _ => None,
        };
        headers.filter_map(line).collect()
    }

    pub(super) fn request(&self, http: &Http, hosts: HostPolicy) -> Option<Request> {
        let mut url = self.text("url")?;
        let mut headers = self.headers("headers");
        let body = self.value("body").filter(|value| !value.is_null()).map(|value| {
            let (kind, text) = match value.as_str() {
                Some(text) => ("text/plain; charset=utf-8", text.to_owned()),
                None => ("application/json", value.to_json(JsonStyle::Compact)),
            };
            if !headers.iter().any(|(name, _)| name == "content-type") {
                headers.push(("content-type".into(), kind.to_owned()));
            }
            text
        });
        let query = self.value("query").map(|query| query_pairs(&query)).unwrap_or_default();
        url::add_query(&mut url, query.iter().map(|(name, value)| (name.as_str(), value.clone())));
        Some(Request { method: http.method, url, headers, body, hosts })
    }

    pub(super) fn server(&self, workflow: &Workflow, server: &model::Server) -> Option<ResolvedServer> {
        // An agent may have the tools of several servers, whose fields have the same keys.
        let is_its = |field: &StepField<'_>| field.owner == FieldOwner::Server(&server.name);
        let own = FieldOutcomes(self.0.iter().filter(|(field, _)| is_its(field)).cloned().collect());
        let reach = match &server.reach {
            model::Reach::Program { cwd, .. } => {
                let folder = own.text("server.cwd");
                if cwd.is_some() && folder.is_none() {
                    return None;
                }
                let command = own.words("server.command")?;
                ResolvedReach::Program { command, env: own.variables("server.env"), cwd: folder }
            }
            model::Reach::Url { url, .. } => ResolvedReach::Url {
                hosts: HostPolicy::of(workflow, None, &url.value),
                url: own.text("server.url")?,
                headers: own.headers("server.headers"),
            },
        };
        Some(ResolvedServer { name: server.name.clone(), reach })
    }

    /// The agent that is asked, with what its settings came to.
    pub(super) fn agent(&self, workflow: &Workflow, name: &EcoString) -> ResolvedAgent {
        let provider = workflow.agent(name).map_or(DEFAULT_PROVIDER, |agent| agent.provider);
        let settings = self.0.iter().filter(|(field, _)| field.owner == FieldOwner::Agent);
        let settings = settings.filter_map(|(field, value)| {
            let setting = match value.as_ref()? {
                FieldValue::Words(words) => ResolvedSetting::Program(words.clone()),
                FieldValue::Text(text) => ResolvedSetting::Text(text.clone()),
                FieldValue::Value(value) => ResolvedSetting::Value(value.clone()),
                _ => return None,
            };
            Some((field.key, setting))
        });
        let base_url = workflow.agent(name).and_then(|agent| agent.text("base_url"));
        let hosts = base_url.map(|url| HostPolicy::of(workflow, None, &url.value)).unwrap_or_default();
        let tools = Vec::new();
        ResolvedAgent { name: name.clone(), provider, settings: settings.collect(), hosts, tools }
    }

    /// What an agent may call.
    pub(super) fn agent_tools(&self, plan: &Plan, name: &str) -> Option<Vec<ToolOffer>> {
        let tools = plan.workflow.agent(name).map_or(&[][..], |agent| &agent.tools);
        let offer = |tool: &AgentTool| {
            Some(match tool {
                AgentTool::Server { server, allow, deny } => {
                    let server = self.server(&plan.workflow, plan.workflow.server(&server.value)?)?;
                    let names = |fields: &[Field<EcoString>]| {
                        fields.iter().map(|field| field.value.clone()).collect()
                    };
                    ToolOffer::Server { server, allow: names(allow), deny: names(deny) }
                }
                AgentTool::BuiltIn(tool) => {
                    let hosts = HostPolicy { is_data: true, known: plan.workflow.known_hosts() };
                    ToolOffer::BuiltIn { tool: *tool, hosts }
                }
                AgentTool::Workflow { path, name, description } => {
                    let workflow = OfferedWorkflow(Arc::clone(&plan.tools.get(&path.value)?.workflow));
                    ToolOffer::Workflow { name: name.clone(), description: description.clone(), workflow }
                }
            })
        };
        tools.iter().map(offer).collect()
    }

    /// What a call gives, and the inputs of the called workflow.
    pub(super) fn call(&self, planned: &PlannedStep, call: &model::Call) -> Option<ResolvedCall> {
        let callee = &planned.calls.as_deref()?.workflow;
        let mut given = Vec::with_capacity(call.with.len());
        for (field, value) in &self.0 {
            if let (FieldKind::Given(Given { name, .. }), Some(FieldValue::Value(value))) =
                (field.kind, value)
            {
                given.push((name.clone(), value.clone()));
            }
        }
        let (inputs, with) = (callee.inputs_of(&given).ok()?, Value::object(given).ok()?);
        Some(ResolvedCall { file: callee.file.name().into(), with, inputs })
    }
}

/// Evaluates fields and keeps every problem.
pub(crate) struct Fields<'a, 's, 'w> {
    scope: &'a Scope,
    session: &'s mut Session<'w>,
    pub(crate) errors: FieldErrors,
}

impl<'a, 's, 'w> Fields<'a, 's, 'w> {
    pub(crate) fn new(scope: &'a Scope, session: &'s mut Session<'w>) -> Self {
        Self { scope, session, errors: Vec::new() }
    }

    /// What was said before in the thread that a step continues.
    pub(super) fn read_thread(&mut self, step: &model::Step, thread: &mut ResolvedThread) {
        let Action::Agent { thread: Some(field), .. } = &step.action else { return };
        let (message, hint) = match self.session.ask(THREAD, &[Value::from(thread.name.as_str())]) {
            Ok(before) => {
                thread.before = Thread::of_value(&before);
                return;
            }
            Err(ComputeError::Failed { message, hint }) => (message, hint),
            Err(ComputeError::Missing { .. }) => (format!("there is no thread `{}`", thread.name), None),
        };
        self.errors.push(FieldError { origin: field.origin.clone(), cause: Cause::Thread { message, hint } });
    }
}

impl Fields<'_, '_, '_> {
    pub(crate) fn evaluate_all<'f>(
        &mut self,
        planned: Option<&PlannedStep>,
        fields: impl IntoIterator<Item = StepField<'f>>,
    ) -> FieldOutcomes<'f> {
        let evaluated = fields.into_iter().map(|field| {
            let value = self.evaluate_field(planned, &field);
            (field, value)
        });
        FieldOutcomes(evaluated.collect())
    }

    /// The same; `enter` is called with a folder before the fields behind it are evaluated.
    pub(super) fn evaluate_in_folder<'f>(
        &mut self,
        plan: &Plan,
        planned: &PlannedStep,
        fields: impl IntoIterator<Item = StepField<'f>>,
        mut enter: impl FnMut(EnteredFolder<'_>) -> Result<(), String>,
    ) -> FieldOutcomes<'f> {
        let mut outcomes = FieldOutcomes(Vec::new());
        for field in fields {
            let value = self.evaluate_field(Some(planned), &field);
            if field.owner != FieldOwner::Agent
                && let ("cwd" | "server.cwd", FieldKind::Text(written), Some(FieldValue::Text(path))) =
                    (field.key, field.kind, &value)
            {
                let (workflow, references) = (&plan.workflow, written.value.references());
                let is_literal = |reference| workflow.is_literal(Some(&planned.step), reference);
                let is_data = !references.iter().all(is_literal);
                let entered = enter(EnteredFolder { path, is_data, is_of_step: field.key == "cwd" });
                let refused = entered.err().map(|message| FieldError {
                    origin: written.origin.clone(),
                    cause: Cause::Folder { message },
                });
                self.errors.extend(refused);
            }
            outcomes.0.push((field, value));
        }
        outcomes
    }

    /// What a field comes to. A setting of an agent must have its form before the agent is asked.
    fn evaluate_field(&mut self, planned: Option<&PlannedStep>, field: &StepField<'_>) -> Option<FieldValue> {
        let value = self.evaluate(planned, field.kind)?;
        if field.owner == FieldOwner::Agent
            && let (Some(form), FieldKind::Value(written), FieldValue::Value(found)) =
                (SettingForm::of(field.key), field.kind, &value)
            && !form.fits(found)
        {
            self.unfit(&written.origin, form.expected(), found.clone());
            return None;
        }
        Some(value)
    }

    /// What the value of a field comes to.
    fn evaluate(&mut self, planned: Option<&PlannedStep>, kind: FieldKind<'_>) -> Option<FieldValue> {
        Some(match kind {
            FieldKind::Name(name) => {
                // A called workflow is known by its file.
                let callee = planned.and_then(|planned| planned.calls.as_deref());
                let file = callee.map(|callee| callee.workflow.file.name());
                FieldValue::Text(file.unwrap_or(&name.value).to_owned())
            }
            FieldKind::Word(word, _) => FieldValue::Text(word.to_owned()),
            FieldKind::Text(field) => FieldValue::Text(self.text(field)?),
            FieldKind::Variable(Variable { name, value, .. }) => FieldValue::Variable(match value {
                Some(field) => {
                    let text = self.text(field)?;
                    // The script may use the variable where only some values are safe.
                    let script = planned.and_then(|planned| planned.script.as_ref());
                    let refusal = script.and_then(|script| script.check_environment(name, &text));
                    if let Some(problem) = refusal {
                        return self.bound(Err(vec![BindError::Refused(problem)]), &field.origin);
                    }
                    Some(text)
                }
                None => None,
            }),
            FieldKind::Command(words) => {
                let words: Vec<Option<String>> = words.iter().map(|word| self.text(word)).collect();
                FieldValue::Words(words.into_iter().collect::<Option<_>>()?)
            }
            FieldKind::Argv(words) => FieldValue::Arguments(self.argv(planned?, words)?),
            FieldKind::Script { text, interpolate } => {
                match planned?.script.as_ref().filter(|_| interpolate) {
                    Some(script) => {
                        self.session.set_origin(Some(text.origin.clone()));
                        let bound = script.bind(self.scope, self.session);
                        FieldValue::Shell(self.bound(bound, &text.origin)?)
                    }
                    None => FieldValue::Text(text.value.to_string()),
                }
            }
            FieldKind::Url(field) => {
                let url = url_text(&field.value, &field.origin, self.scope, self.session);
                FieldValue::Text(url.map_err(|error| self.errors.push(error)).ok()?)
            }
            FieldKind::Header { name, value } => FieldValue::Text(self.header(name, value)?),
            FieldKind::Value(field) => FieldValue::Value(self.document(field)?),
            FieldKind::Query(field) => FieldValue::Value(self.query(field)?),
            FieldKind::Params(field) => FieldValue::Value(self.params(field)?),
            FieldKind::Given(given) => FieldValue::Value(self.given(planned?, given)?),
            FieldKind::Content(field, format) => FieldValue::Text(file_text(&self.document(field)?, format)),
            FieldKind::Items(field, each) => FieldValue::Value(self.items(field, each)?),
            FieldKind::Count(setting, least) => {
                let expected = match least {
                    0 => "a whole number of at least 0",
                    1 => "a whole number of at least 1",
                    _ => "a whole number of at least 2",
                };
                let read = |value: &Value| forms::count(value).filter(|count| *count >= least);
                FieldValue::Count(self.setting(setting, expected, read)?)
            }
            FieldKind::Size(setting) => {
                FieldValue::Count(self.setting(setting, "a size such as `64MiB`", forms::size)?)
            }
            FieldKind::TimeLimit(setting) => {
                let above_zero = |value: &Value| forms::duration(value).filter(|time| !time.is_zero());
                let expected = "a duration above 0, such as `30s`";
                FieldValue::Duration(self.setting(setting, expected, above_zero)?)
            }
            FieldKind::Pause(setting) => {
                FieldValue::Duration(self.setting(setting, "a duration such as `30s`", forms::duration)?)
            }
            FieldKind::Fraction(setting) => {
                FieldValue::Fraction(self.setting(setting, forms::FRACTION_FORM, forms::fraction)?)
            }
            FieldKind::Condition(field) => {
                self.session.set_origin(Some(field.origin.clone()));
                FieldValue::Condition(field.value.explain(self.scope, self.session))
            }
            FieldKind::Branch(condition) => self.branch(condition)?,
            FieldKind::Expression(field) | FieldKind::SortKey(SortKey { by: field, .. }) => {
                self.session.set_origin(Some(field.origin.clone()));
                let value = field.value.value(self.scope, self.session);
                FieldValue::Value(
                    value.map_err(|error| self.errors.push(language(error, &field.origin))).ok()?,
                )
            }
            FieldKind::Expectations(field, kind) => {
                FieldValue::Expectations(self.settled(&field.value, kind)?)
            }
        })
    }

    pub(crate) fn text(&mut self, field: &Field<Template>) -> Option<String> {
        let mut text = String::new();
        self.session.set_origin(Some(field.origin.clone()));
        let result = field.value.text(self.scope, self.session, &mut text);
        result.map_err(|error| self.errors.push(language(error, &field.origin))).ok()?;
        Some(text)
    }

    pub(crate) fn document(&mut self, field: &Field<Document>) -> Option<Value> {
        self.session.set_origin(Some(field.origin.clone()));
        let resolved = field.value.resolve(self.scope, self.session);
        let failed = |errors: Vec<Error>| {
            self.errors.extend(errors.into_iter().map(|error| language(error, &field.origin)));
        };
        resolved.map_err(failed).ok()
    }

    fn setting<T: Clone>(
        &mut self,
        setting: &Setting<T>,
        expected: &'static str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Option<T> {
        let Setting::Dynamic(field) = setting else { return setting.known() };
        let value = self.document(field)?;
        let read = read(&value);
        if read.is_none() {
            self.unfit(&field.origin, expected, value);
        }
        read
    }

    fn header(&mut self, name: &str, field: &Field<Template>) -> Option<String> {
        let text = self.text(field)?;
        if !url::is_header_value(&text) {
            let message = format!("the header `{name}` contains a line break or another control character");
            self.refused(&field.origin, message, None);
        } else if name.eq_ignore_ascii_case("authorization") && !text.is_ascii() {
            let message = format!("the header `{name}` contains a character that is not ASCII");
            let hint = "a server expects it encoded: `| base64` does that";
            self.refused(&field.origin, message, Some(hint));
        }
        Some(text)
    }

    /// An object of scalars and lists of them.
    fn query(&mut self, field: &Field<Document>) -> Option<Value> {
        let value = self.document(field)?;
        let Some(object) = value.as_object() else {
            self.unfit(&field.origin, "an object of names and values", value);
            return None;
        };
        for (name, value) in object.iter() {
            for item in value.as_list().unwrap_or(std::slice::from_ref(value)) {
                if matches!(item.kind(), Type::List | Type::Object) {
                    let message = format!("`{}` of the query is {}", name.name(), item.kind().with_article());
                    self.refused(&field.origin, message, Some("make text of it: `| to_json`"));
                }
            }
        }
        Some(value)
    }

    fn params(&mut self, field: &Field<Document>) -> Option<Value> {
        let value = self.document(field)?;
        match value.kind() {
            Type::Object => Some(value),
            Type::Null => Some(Value::empty_object()),
            _ => {
                self.unfit(&field.origin, "an object", value);
                None
            }
        }
    }

    /// A value of the type that the called workflow asks for.
    fn given(&mut self, planned: &PlannedStep, given: &Given) -> Option<Value> {
        let value = self.document(&given.value)?;
        let inputs = planned.calls.iter().flat_map(|callee| &callee.workflow.inputs);
        let kind = inputs.filter(|input| input.name == given.name).find_map(|input| input.kind);
        match kind.filter(|kind| !Input::accepts(*kind, &value)) {
            Some(kind) => {
                self.unfit(&given.value.origin, kind.with_article(), value);
                None
            }
            None => Some(value),
        }
    }

    /// A list; of a map also the path of a file; any value that a `json_path` leads into.
    fn items(&mut self, field: &Field<Document>, each: &ForEach) -> Option<Value> {
        let value = self.document(field)?;
        let is_path = each.is_map && value.as_str().is_some();
        if is_path || value.as_list().is_some() || each.json_path.is_some() {
            return Some(value);
        }
        let expected = match (each.is_map, value.as_object()) {
            (true, Some(_)) => "a list, the path of a file, or `json_path` beside it",
            (false, Some(_)) => "a list, or `json_path` beside it",
            (true, None) => "a list, or the path of a file",
            (false, None) => "a list",
        };
        self.unfit(&field.origin, expected, value);
        None
    }

    /// The branch that a conditional takes, and why.
    fn branch(&mut self, condition: &Condition) -> Option<FieldValue> {
        let Field { value: expression, origin } = &condition.expression;
        self.session.set_origin(Some(origin.clone()));
        let explanation = expression.explain(self.scope, self.session);
        let known = explanation.outcome.as_ref().and_then(|outcome| outcome.as_ref().ok()?.as_bool());
        let result = match known {
            Some(result) => result,
            // It fails again, and says as a condition why.
            None => match expression.condition(self.scope, self.session) {
                Ok(result) => result,
                Err(error) => {
                    self.errors.push(language(error, origin));
                    return None;
                }
            },
        };
        let value =
            Value::record([("condition_result", result.into()), ("branch", result.to_string().into())]);
        let meta = vec![
            ("condition", condition.written.clone().into()),
            ("resolved_condition", explanation.in_source(expression.source()).into()),
            ("evaluation_method", "expression".into()),
        ];
        Some(FieldValue::Branch { value, meta, explanation })
    }

    pub(super) fn settled(&mut self, expectations: &Expectations, kind: DocumentKind) -> Option<Settled> {
        let failed = |unsettled: Vec<Unsettled>| {
            self.errors.extend(unsettled.into_iter().map(|Unsettled { origin, why }| {
                let cause = match why {
                    UnsettledWhy::Language(error) => Cause::Language(error),
                    UnsettledWhy::Unfit { message, value } => Cause::Expected { message, value },
                };
                FieldError { origin, cause }
            }));
        };
        expectations.settle(kind, self.scope, self.session).map_err(failed).ok()
    }

    fn argv(&mut self, planned: &PlannedStep, words: &[Field<Template>]) -> Option<Vec<Argument>> {
        let argv = planned.argv.as_ref()?;
        let place = |at: usize, session: &mut Session<'_>| session.set_origin(Some(words[at].origin.clone()));
        let failed = |errors: Vec<(usize, BindError)>| {
            self.errors.extend(errors.into_iter().map(|(at, error)| FieldError {
                origin: words[at].origin.clone(),
                cause: Cause::Binding(error),
            }));
        };
        argv.bind(self.scope, self.session, place).map_err(failed).ok()
    }

    fn bound<T>(&mut self, bound: Result<T, Vec<BindError>>, origin: &Origin) -> Option<T> {
        let failed = |errors: Vec<BindError>| {
            let errors = errors.into_iter();
            self.errors.extend(
                errors.map(|error| FieldError { origin: origin.clone(), cause: Cause::Binding(error) }),
            );
        };
        bound.map_err(failed).ok()
    }

    fn refused(&mut self, origin: &Origin, message: String, hint: Option<&'static str>) {
        self.errors.push(FieldError { origin: origin.clone(), cause: Cause::Request { message, hint } });
    }

    fn unfit(&mut self, origin: &Origin, expected: &'static str, value: Value) {
        self.errors.push(FieldError { origin: origin.clone(), cause: Cause::Unfit { expected, value } });
    }
}

/// The names and values of a query; a list has its name before each of its values, null is left out.
fn query_pairs(query: &Value) -> Vec<(EcoString, String)> {
    let entries = query.as_object().into_iter().flat_map(|object| object.iter());
    let pairs = entries.flat_map(|(name, value)| {
        let values = value.as_list().unwrap_or(std::slice::from_ref(value)).iter();
        values.filter(|value| !value.is_null()).map(|value| (name.name().clone(), value.to_string()))
    });
    pairs.collect()
}
