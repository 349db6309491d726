//! The items of a list: where they come from with every value in its place, which are taken, and what holds
//! for them.
//!
//! Nothing is read here: whoever does asks for each element whether it is taken and what it is sorted by.

use std::time::Duration;

use threadline_expect::{Actual, DocumentKind, Evaluation, ExpectationAnswer, NoJudge};
use threadline_flow::model::{
    Action, Backoff, Field, Filter, ForEach, Moment, OnItemFailure, Phase, SOURCE, Shape, Source,
    SourceFormat, step_fields,
};
use threadline_flow::plan::{Plan, StepNumber};
use threadline_flow::shell::BoundScript;
use threadline_lang::{Document, Error, Number, Origin, Scope, Session, Value};

use crate::evaluate::{
    Cause, FieldError, FieldErrors, FieldOutcome, FieldValue, Fields, RetryPlan, with_params,
};
use crate::event::Rules;
use crate::view::{ItemRef, ItemView, with_item};

/// A list before its elements are looked at.
#[derive(Debug, Clone)]
pub struct Expansion {
    /// Where the elements come from.
    pub source: ResolvedSource,
    /// So many are left out at the beginning.
    pub offset: u64,
    /// No more are taken.
    pub max_items: Option<u64>,
    /// So many run at once.
    pub parallel: u64,
    pub(crate) retry: RetryPlan,
    pub(crate) timeout: Option<Duration>,
    pub(crate) max_failures: Option<u64>,
    pub(crate) failure_threshold: Option<Number>,
    pub(crate) stops: bool,
    pub(crate) goes_on: bool,
}

/// Where the elements of a list come from, resolved.
#[derive(Debug, Clone)]
pub enum ResolvedSource {
    /// They are here.
    List(Value),
    /// The items are read from a file.
    File {
        /// The path of the file.
        path: String,
        /// How it is read.
        format: Option<SourceFormat>,
    },
    /// Each file of a pattern is an item.
    Files(String),
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

/// Resolves the fields of a list that are evaluated before its items are read.
pub fn expand(
    plan: &Plan,
    number: StepNumber,
    scope: &Scope,
    session: &mut Session<'_>,
) -> Result<Expansion, FieldErrors> {
    expand_fields(plan, number, scope, session).1
}

/// The same, with what each field came to.
pub fn expand_fields(
    plan: &Plan,
    number: StepNumber,
    scope: &Scope,
    session: &mut Session<'_>,
) -> (Vec<FieldOutcome>, Result<Expansion, FieldErrors>) {
    let planned = &plan.steps[number as usize];
    let Action::ForEach(each) = &planned.step.action else { return (Vec::new(), Err(Vec::new())) };
    let scope = &match with_params(&planned.step, scope, scope, session) {
        Ok(scope) => scope,
        Err(errors) => return (Vec::new(), Err(errors)),
    };
    let mut fields = Fields::new(scope, session);
    let own = step_fields(&plan.workflow, &planned.step).into_iter();
    let outcomes = fields.evaluate_all(Some(planned), own.filter(|field| field.moment == Moment::List));
    let source = match (&each.source, outcomes.get(SOURCE)) {
        (Source::Value(_), Some(FieldValue::Value(value))) => match value.as_str() {
            Some(path) if each.is_map => Some(ResolvedSource::File { path: path.to_owned(), format: None }),
            _ => Some(ResolvedSource::List(value.clone())),
        },
        (Source::File { format, .. }, Some(FieldValue::Text(path))) => {
            Some(ResolvedSource::File { path: path.clone(), format: *format })
        }
        (Source::Files(_), Some(FieldValue::Text(pattern))) => Some(ResolvedSource::Files(pattern.clone())),
        (Source::Shell { format, .. }, Some(FieldValue::Shell(bound))) => {
            let (bound, env) = (Box::new(bound.clone()), outcomes.variables("env"));
            Some(ResolvedSource::Shell { bound, env, format: *format })
        }
        _ => None,
    };
    let policy = &each.policy;
    let retry = match (&policy.retry, policy.on_item_failure) {
        (Some(retry), _) => outcomes.retry(retry),
        (None, OnItemFailure::Retry) => RetryPlan { attempts: 2, backoff: Backoff::Fixed, ..RetryPlan::ONCE },
        (None, _) => RetryPlan::ONCE,
    };
    let errors = fields.errors;
    let expansion = match source {
        Some(source) if errors.is_empty() => Ok(Expansion {
            source,
            offset: outcomes.count("offset").unwrap_or(0),
            max_items: outcomes.count("max_items"),
            parallel: outcomes.count("parallel").unwrap_or(1),
            retry,
            timeout: outcomes.duration("timeout"),
            max_failures: outcomes.count("error_policy.max_failures"),
            failure_threshold: outcomes.fraction("error_policy.failure_threshold"),
            stops: policy.on_item_failure == OnItemFailure::Stop,
            goes_on: policy.continue_on_failure,
        }),
        _ => Err(errors),
    };
    (outcomes.into_owned(), expansion)
}

impl Expansion {
    /// A list of which nothing but the source is said.
    pub(crate) fn plain(source: ResolvedSource) -> Self {
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
        // A part of a count is not above the count, so it fits.
        let part = self.failure_threshold.as_ref().map(|part| {
            let part = part.mul(&Number::from(total)).and_then(|part| part.truncate()).ok();
            part.and_then(|part| u64::try_from(part.as_i64()?).ok()).unwrap_or(total)
        });
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
        if self.each.named.as_ref().is_some_and(|named| !named.has(value)) {
            return Ok(false);
        }
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
            Err(vec![FieldError { origin: last.origin.clone(), cause: Cause::TooLarge }])
        }
        _ => Err(errors),
    }
}
