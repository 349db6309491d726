//! The items of a list: where they come from with every value in its place, which are taken, and what holds for them.
//!
//! Nothing is read here: whoever does asks for each element whether it is taken and what it is sorted by.

use std::time::Duration;

use threadline_expect::{Actual, DocumentKind, Evaluation, ExpectationAnswer, NoJudge};
use threadline_flow::model::{
    Action, Backoff, Field, Filter, ForEach, OnItemFailure, Phase, Shape, Source, SourceFormat,
};
use threadline_flow::plan::{Plan, StepNumber};
use threadline_flow::shell::BoundScript;
use threadline_lang::{Document, Error, Origin, Scope, Session, Value};

use crate::evaluate::{Cause, FieldError, FieldErrors, Fields, RetryPlan, with_params};
use crate::event::Rules;
use crate::view::{ItemRef, ItemView, with_item};

/// A list before its elements are looked at.
#[derive(Debug, Clone)]
pub struct Expansion {
    /// Where the elements come from.
    pub source: Found,
    /// So many are left out at the beginning.
    pub offset: u64,
    /// No more are taken.
    pub max_items: Option<u64>,
    /// So many run at once.
    pub parallel: u64,
    pub(crate) retry: RetryPlan,
    pub(crate) timeout: Option<Duration>,
    pub(crate) max_failures: Option<u64>,
    pub(crate) failure_threshold: Option<f64>,
    pub(crate) stops: bool,
    pub(crate) goes_on: bool,
}

/// Where the elements of a list come from, resolved.
#[derive(Debug, Clone)]
pub enum Found {
    /// They are here.
    List(Value),
    /// A file.
    File {
        /// Its path.
        path: String,
        /// How it is read.
        format: Option<SourceFormat>,
    },
    /// What a command prints.
    Shell {
        /// The text with its values bound.
        bound: Box<BoundScript>,
        /// Variables to set, or to take away.
        env: Vec<(ecow::EcoString, Option<String>)>,
        /// How it is read.
        format: Option<SourceFormat>,
    },
}

/// The fields of a step with items that are evaluated before the elements are known.
pub fn expand(
    plan: &Plan,
    number: StepNumber,
    scope: &Scope,
    session: &mut Session<'_>,
) -> Result<Expansion, FieldErrors> {
    let planned = &plan.steps[number as usize];
    let Action::ForEach(each) = &planned.step.action else { return Err(Vec::new()) };
    let scope = &with_params(&planned.step, scope, scope, session)?;
    let mut fields = Fields::new(scope, session);
    let source = match &each.source {
        Source::Value(items) => fields.document(items).and_then(|value| match value.as_str() {
            Some(path) if each.is_map => Some(Found::File { path: path.to_owned(), format: None }),
            // A path leads to items in any value.
            _ if value.as_list().is_some() || each.json_path.is_some() => Some(Found::List(value)),
            _ => {
                let expected = match (each.is_map, value.as_object()) {
                    (true, Some(_)) => "a list, the path of a file, or `json_path` beside it",
                    (false, Some(_)) => "a list, or `json_path` beside it",
                    (true, None) => "a list, or the path of a file",
                    (false, None) => "a list",
                };
                fields.unfit(&items.origin, expected, value);
                None
            }
        }),
        Source::File { path, format } => {
            let path = fields.text(&path.value, &path.origin);
            path.map(|path| Found::File { path, format: *format })
        }
        Source::Shell { text, format } => planned.script.as_ref().and_then(|script| {
            fields.session.set_origin(Some(text.origin.clone()));
            let bound = script.bind(scope, fields.session);
            let bound = fields.bound(bound, &text.origin)?;
            let mut env = Vec::new();
            for variable in &plan.workflow.env {
                fields.variable(variable, &mut env);
            }
            Some(Found::Shell { bound: Box::new(bound), env, format: *format })
        }),
    };
    let parallel = each.parallel.as_ref().and_then(|setting| fields.ordinal(setting));
    let max_items = each.max_items.as_ref().and_then(|setting| fields.count(setting));
    let offset = each.offset.as_ref().and_then(|setting| fields.count(setting));
    let policy = &each.policy;
    let retry = match (&policy.retry, policy.on_item_failure) {
        (Some(retry), _) => fields.retry(retry),
        (None, OnItemFailure::Retry) => RetryPlan { attempts: 2, backoff: Backoff::Fixed, ..RetryPlan::ONCE },
        (None, _) => RetryPlan::ONCE,
    };
    let timeout = policy.timeout.as_ref().and_then(|setting| fields.time_limit(setting));
    let max_failures = policy.max_failures.as_ref().and_then(|setting| fields.count(setting));
    let failure_threshold = policy.failure_threshold.as_ref().and_then(|setting| fields.fraction(setting));
    let errors = fields.errors;
    match source {
        Some(source) if errors.is_empty() => Ok(Expansion {
            source,
            offset: offset.unwrap_or(0),
            max_items,
            parallel: parallel.unwrap_or(1),
            retry,
            timeout,
            max_failures,
            failure_threshold,
            stops: policy.on_item_failure == OnItemFailure::Stop,
            goes_on: policy.continue_on_failure,
        }),
        _ => Err(errors),
    }
}

impl Expansion {
    /// A list of which nothing but the source is said.
    pub(crate) fn plain(source: Found) -> Self {
        Self {
            source,
            offset: 0,
            max_items: None,
            parallel: 1,
            retry: RetryPlan::ONCE,
            timeout: None,
            max_failures: None,
            failure_threshold: None,
            stops: true,
            goes_on: false,
        }
    }

    /// What holds for each of so many items.
    pub fn rules(&self, total: u64) -> Rules {
        // A part of a count that fits into memory is exact enough, and below the count.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
        let part = self.failure_threshold.map(|part| (part * total as f64).floor() as u64);
        let none = self.stops.then_some(0);
        let most_failed = [none, self.max_failures, part].into_iter().flatten().min();
        Rules { retry: self.retry, timeout: self.timeout, most_failed, goes_on: self.goes_on }
    }
}

/// What is asked of each element of a list.
pub struct Elements<'e> {
    each: &'e ForEach,
    scope: &'e Scope,
}

impl<'e> Elements<'e> {
    /// The elements of a step's list, in the scope of the step.
    pub fn new(each: &'e ForEach, scope: &'e Scope) -> Self {
        Self { each, scope }
    }

    /// Whether an element is taken.
    pub fn keeps(&self, value: &Value, index: u64, session: &mut Session<'_>) -> Result<bool, FieldError> {
        match &self.each.filter {
            None => Ok(true),
            Some(Filter::Condition(filter)) => {
                session.set_origin(Some(filter.origin.clone()));
                let scope = self.scope_of(value, index);
                filter.value.condition(&scope, session).map_err(|error| of_item(error, &filter.origin, value))
            }
            Some(Filter::Expectation(filter)) => {
                let unfit = || FieldError {
                    origin: filter.origin.clone(),
                    cause: Cause::Unfit {
                        expected: "an item that is not nested too deep",
                        value: Value::NULL,
                    },
                };
                let actual = Actual::new(DocumentKind::Plain, value.clone()).map_err(|_| unfit())?;
                let (outside, mut judge) = (Scope::new(), NoJudge);
                let mut evaluation = Evaluation::new(&actual, &outside, session, &mut judge);
                match evaluation.answer_all(&filter.value) {
                    ExpectationAnswer::Met => Ok(true),
                    ExpectationAnswer::Unmet => Ok(false),
                    ExpectationAnswer::NotEvaluable => {
                        let outcomes = evaluation.explain_all(&filter.value);
                        let why = outcomes
                            .into_iter()
                            .find(|outcome| outcome.answer == ExpectationAnswer::NotEvaluable);
                        let why = why.map(|outcome| outcome.reason).unwrap_or_default();
                        let message = format!("item {index} cannot be judged: {why}");
                        let cause = Cause::Expected { message, value: value.clone() };
                        Err(FieldError { origin: filter.origin.clone(), cause })
                    }
                }
            }
        }
    }

    /// What an element is sorted by.
    pub fn keys(&self, value: &Value, session: &mut Session<'_>) -> Result<Vec<Value>, FieldError> {
        let scope = self.scope_of(value, 0);
        self.each.sort_by.iter().map(|key| evaluated(&key.by, value, &scope, session)).collect()
    }

    /// What makes an element the same as another.
    pub fn identity(&self, value: &Value, session: &mut Session<'_>) -> Result<Value, FieldError> {
        match &self.each.distinct {
            Some(distinct) => evaluated(distinct, value, &self.scope_of(value, 0), session),
            None => Ok(Value::NULL),
        }
    }

    fn scope_of(&self, value: &Value, index: u64) -> Scope {
        let of = ItemRef { list: 0, index };
        let item = ItemView { item: of, attempt: 1, runner: 0, has_agent: false, error: None };
        with_item(self.scope, &item, value.clone(), None, None)
    }
}

fn evaluated(
    field: &Field<std::sync::Arc<threadline_lang::Expression>>,
    item: &Value,
    scope: &Scope,
    session: &mut Session<'_>,
) -> Result<Value, FieldError> {
    session.set_origin(Some(field.origin.clone()));
    field.value.value(scope, session).map_err(|error| of_item(error, &field.origin, item))
}

fn of_item(error: Error, origin: &Origin, item: &Value) -> FieldError {
    FieldError { origin: origin.clone(), cause: Cause::OfItem { error, item: item.clone() } }
}

/// The values that a phase gives to later ones, an object.
pub fn variables(phase: &Phase, scope: &Scope, session: &mut Session<'_>) -> Result<Value, FieldErrors> {
    named(&phase.variables, scope, session)
}

/// What is made of the results of a map, an object.
pub fn aggregates(plan: &Plan, scope: &Scope, session: &mut Session<'_>) -> Result<Value, FieldErrors> {
    match &plan.workflow.shape {
        Shape::MapReduce { aggregates } => named(aggregates, scope, session),
        _ => named(&[], scope, session),
    }
}

/// Values by name, an object.
pub(crate) fn named(
    values: &[(ecow::EcoString, Field<Document>)],
    scope: &Scope,
    session: &mut Session<'_>,
) -> Result<Value, FieldErrors> {
    let mut fields = Fields::new(scope, session);
    let mut entries = Vec::new();
    for (name, document) in values {
        entries.extend(fields.document(document).map(|value| (name.clone(), value)));
    }
    let (errors, last) = (fields.errors, values.last());
    match (Value::object(entries), last) {
        (Ok(value), _) if errors.is_empty() => Ok(value),
        (Err(_), Some((_, last))) if errors.is_empty() => {
            let cause =
                Cause::Unfit { expected: "values that are not too large together", value: Value::NULL };
            Err(vec![FieldError { origin: last.origin.clone(), cause }])
        }
        _ => Err(errors),
    }
}
