//! The verdict on what a state left, and the state that follows.
//!
//! Pure: what is looked at was loaded before. What cannot be determined is the verdict `error`, with the reason; no
//! route but that for errors takes it.

mod ask;
mod convergence;
mod output;

use std::sync::Arc;

use ecow::{EcoString, eco_format};
use threadline_flow::fields::field_names as names;
use threadline_flow::model::{self, Evaluate, Evaluator, Field, Shape, State, Step};
use threadline_flow::plan::{Plan, ResolvedRoutes, StepNumber};
use threadline_lang::{Document, Envelope, Error, Expression, Scope, ScopeEntry, Session, Value};

pub use ask::Question;
pub use convergence::{Converging, verdict as convergence};

use crate::evaluate::{self, FieldErrors};
use crate::event::{ERROR, LoopReason, Status};
use crate::execute::result::{describe_exit_code, is_abnormal_exit};
use crate::hash::Hash;
use crate::view::StateView;

/// What a judge says about a state.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// The word itself, such as `yes`.
    pub verdict: EcoString,
    /// How sure it is, where that is known.
    pub confidence: Option<Value>,
    /// Why it is that, in words.
    pub reason: EcoString,
    /// What it was made of, an object.
    pub details: Value,
    /// The number that was measured, where it will be compared with the next.
    pub measured: Option<Value>,
}

/// A verdict, and where it leads.
#[derive(Debug, Clone)]
pub struct Judgement {
    /// The verdict that was reached.
    pub verdict: Verdict,
    /// The state that follows; none when no route fits.
    pub to: Option<EcoString>,
    /// What led there; none when no route fits.
    pub by: Option<Rule>,
    /// What the state came to: equal when nothing has changed since the last time.
    pub fingerprint: Hash,
}

/// What leads from a state to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// A condition of `route`, by its number from 0.
    Condition(usize),
    /// The route of the verdict.
    Verdict,
    /// `_` or `next`: every verdict that has no other route.
    Otherwise,
    /// The route of errors.
    Error,
    /// The route of `on_retry_exhausted`.
    Exhausted,
}

impl Rule {
    /// The rule in words, for people.
    pub fn text(self, verdict: &str) -> EcoString {
        match self {
            Self::Condition(at) => eco_format!("condition {} of `route`", at + 1),
            Self::Verdict => eco_format!("the route of `{verdict}`"),
            Self::Otherwise => "the route of every other verdict".into(),
            Self::Error => "the route of errors".into(),
            Self::Exhausted => "`on_retry_exhausted`".into(),
        }
    }
}

/// Says whether a condition of `route` holds, in a scope in which the verdict is known.
pub type Holds<'h> = dyn FnMut(usize, &Field<Arc<Expression>>, &Scope) -> Result<bool, Error> + 'h;

impl Verdict {
    pub(crate) fn new(verdict: impl Into<EcoString>, reason: impl Into<EcoString>) -> Self {
        let details = Value::empty_object();
        Self { verdict: verdict.into(), confidence: None, reason: reason.into(), details, measured: None }
    }

    /// Nothing can be said.
    pub fn error(reason: impl Into<EcoString>) -> Self {
        Self::new(ERROR, reason)
    }

    /// Whether nothing can be said.
    pub fn is_error(&self) -> bool {
        self.verdict == ERROR
    }

    fn of(holds: bool, reason: impl Into<EcoString>) -> Self {
        Self::new(if holds { "yes" } else { "no" }, reason)
    }

    fn with_details(self, details: impl IntoIterator<Item = (EcoString, Value)>) -> Self {
        Self { details: Value::record(details), ..self }
    }
}

/// What is judged.
pub struct JudgedState<'j> {
    /// The plan of the workflow.
    pub plan: &'j Plan,
    /// The number of the state's step.
    pub step: StepNumber,
    /// What the state may read.
    pub scope: &'j Scope,
    /// What it left; nothing when it does nothing.
    pub result: Option<&'j Envelope>,
    /// How often it has followed itself, and the rest that is known of it.
    pub state: &'j StateView,
}

/// What a state may read while it is judged: its own values too, which are made of what it saw when it acted, where that
/// was something else. Where one of those has none, the verdict that it is.
pub fn scope_of(
    plan: &Plan,
    step: StepNumber,
    acting: Option<&Scope>,
    scope: &Scope,
    session: &mut Session<'_>,
) -> (Scope, Option<Verdict>) {
    match evaluate::with_params(&plan.steps[step as usize].step, acting.unwrap_or(scope), scope, session) {
        Ok(scope) => (scope, None),
        Err(errors) => (scope.clone(), Some(unresolved(plan, &errors))),
    }
}

/// The verdict on fields without a value.
fn unresolved(plan: &Plan, errors: &FieldErrors) -> Verdict {
    let text = plan.workflow.file.text();
    let why: Vec<String> = errors.iter().map(|error| error.problem(text).message).collect();
    Verdict::error(why.join("; "))
}

impl JudgedState<'_> {
    fn step(&self) -> &Step {
        &self.plan.steps[self.step as usize].step
    }

    /// The verdict. That of a judge is found by asking, [`JudgedState::question`].
    pub fn verdict(&self, session: &mut Session<'_>) -> Verdict {
        self.found(session).unwrap_or_else(|error| error)
    }

    /// The verdict, or the error that it is.
    fn found(&self, session: &mut Session<'_>) -> Result<Verdict, Verdict> {
        let Some(evaluator) = self.step().evaluator() else { return Ok(self.by_outcome()) };
        if let Evaluator::Outcome = evaluator {
            return Ok(self.by_outcome());
        }
        if let Some(failed) = self.failed() {
            return Err(failed);
        }
        match evaluator {
            Evaluator::Outcome => Ok(self.by_outcome()),
            Evaluator::ExitCode { yes, no } => self.by_exit_code(yes, no, session),
            Evaluator::Expression(expression) => {
                session.set_origin(Some(expression.origin.clone()));
                let value =
                    expression.value.value(self.scope, session).map_err(|error| not_evaluable(&error))?;
                Ok(of_value(&value, expression.value.source()))
            }
            Evaluator::Numeric { key, compared } => self.by_number(key.as_ref(), compared, session),
            Evaluator::Json { path, compared } => self.by_json(path.as_ref(), compared, session),
            Evaluator::Contains(contains) => self.by_pattern(contains, session),
            Evaluator::Convergence(convergence) => self.by_convergence(convergence, session),
            Evaluator::Classify { verdicts } => self.by_last_line(verdicts, session),
            Evaluator::Expect(expect) => self.by_expectation(&expect.value, session),
            Evaluator::Agent(_) => Err(Verdict::error("nobody was asked")),
        }
    }

    fn evaluate(&self) -> Option<&Evaluate> {
        self.step().state.as_ref().and_then(|state| state.evaluate.as_ref())
    }

    /// The value of a field; without one the verdict is an error.
    fn value(&self, field: &Field<Document>, session: &mut Session<'_>) -> Result<Value, Verdict> {
        session.set_origin(Some(field.origin.clone()));
        field.value.resolve(self.scope, session).map_err(|errors| {
            let why: Vec<String> = errors.iter().map(ToString::to_string).collect();
            let key = field.origin.path.rsplit('.').next().unwrap_or_default();
            Verdict::error(eco_format!("`{key}` has no value: {}", why.join("; ")))
        })
    }

    fn optional(
        &self,
        field: Option<&Field<Document>>,
        session: &mut Session<'_>,
    ) -> Result<Option<Value>, Verdict> {
        field.map(|field| self.value(field, session)).transpose()
    }

    /// Why fields have no value.
    fn unresolved(&self, errors: &FieldErrors) -> Verdict {
        unresolved(self.plan, errors)
    }

    /// Where a verdict leads, and why when that is nowhere.
    pub fn route(&self, verdict: Verdict, session: &mut Session<'_>) -> Judgement {
        self.route_where(verdict, &mut |_, condition, scope| {
            session.set_origin(Some(condition.origin.clone()));
            condition.value.condition(scope, session)
        })
    }

    /// The same, where somebody else says which conditions hold.
    pub fn route_where(&self, verdict: Verdict, holds: &mut Holds<'_>) -> Judgement {
        let position = self.plan.lists[0].steps.iter().position(|step| *step == self.step);
        let ways = self.plan.states.as_ref().zip(position).and_then(|(states, at)| states.routes.get(at));
        let fingerprint = self.fingerprint(&verdict);
        let (Some(ways), Some(position)) = (ways, position) else {
            return Judgement { verdict, to: None, by: None, fingerprint };
        };
        let (verdict, way) = self.way(verdict, ways, holds);
        let state = self.step().state.as_ref();
        let most = state.and_then(|state| state.max_retries).filter(|most| self.state.in_a_row >= *most);
        let (verdict, way) = match (most, way) {
            (Some(most), Some((to, _))) if to == position => {
                let reason = eco_format!("{}; it has followed itself {most} times", verdict.reason);
                (Verdict { reason, ..verdict }, ways.exhausted.map(|to| (to, Rule::Exhausted)))
            }
            (_, way) => (verdict, way),
        };
        let to = way.map(|(to, _)| self.plan.lists[0].word(to));
        Judgement { verdict, to, by: way.map(|(_, by)| by), fingerprint }
    }

    fn way(
        &self,
        verdict: Verdict,
        ways: &ResolvedRoutes,
        holds: &mut Holds<'_>,
    ) -> (Verdict, Option<(usize, Rule)>) {
        let error = ways.error.map(|to| (to, Rule::Error));
        if verdict.is_error() {
            return (verdict, error);
        }
        let state = self.step().state.as_ref();
        let conditions = state.into_iter().flat_map(|state| &state.routes.conditions);
        let scope = self.with_verdict(&verdict);
        for (at, ((condition, _), to)) in conditions.zip(&ways.conditions).enumerate() {
            match holds(at, condition, &scope) {
                Ok(false) => {}
                Ok(true) => return (verdict, Some((*to, Rule::Condition(at)))),
                Err(why) => {
                    let why = eco_format!("a condition of `route` cannot be evaluated: {why}");
                    return (Verdict::error(why), error);
                }
            }
        }
        let on = ways.on.iter().find(|(known, _)| *known == verdict.verdict);
        let on = on.map(|(_, to)| (*to, Rule::Verdict));
        (verdict, on.or(ways.otherwise.map(|to| (to, Rule::Otherwise))))
    }

    /// A scope in which the verdict is known.
    fn with_verdict(&self, verdict: &Verdict) -> Scope {
        let fields = self.result.and_then(|result| result.also.as_ref()).and_then(Value::as_object);
        let fields = fields.into_iter().flat_map(|fields| fields.iter());
        let fields = fields.map(|(key, value)| (key.name().clone(), value.clone()));
        let own = [
            (EcoString::from("verdict"), Value::from(verdict.verdict.as_str())),
            ("confidence".into(), verdict.confidence.clone().unwrap_or_default()),
            ("reason".into(), Value::from(verdict.reason.as_str())),
            ("evidence".into(), verdict.details.get("evidence").cloned().unwrap_or_default()),
            ("details".into(), verdict.details.clone()),
        ];
        let also = Value::object(fields.chain(own)).ok();
        let (value, meta) = self
            .result
            .map_or((Value::NULL, Value::NULL), |result| (result.value.clone(), result.meta.clone()));
        let result = Envelope { also, ..Envelope::new(value, meta) };
        let entries = [("result".into(), ScopeEntry::Output(result.into()))];
        self.scope.with_entries("verdict", entries).unwrap_or_else(|_| self.scope.clone())
    }

    /// What the state came to, where that is compared.
    fn fingerprint(&self, verdict: &Verdict) -> Hash {
        let compared = matches!(&self.plan.workflow.shape, Shape::Loop(of) if of.max_stall.is_some());
        let printed = self.result.filter(|_| compared).map(|result| {
            let output = result.also.as_ref().and_then(|also| also.get(names::OUTPUT));
            let output = output.filter(|output| !output.is_null()).unwrap_or(&result.value);
            output.to_string()
        });
        let verdict = if compared { verdict.verdict.as_str() } else { "" };
        Hash::of(format!("{verdict}\n{}", printed.unwrap_or_default()).as_bytes())
    }

    // ---- evaluators ------------------------------------------------------------------------------------

    fn meta(&self, name: &str) -> Option<&Value> {
        self.result.and_then(|result| result.meta.get(name)).filter(|value| !value.is_null())
    }

    /// The verdict on an action that did not come to its end.
    fn failed(&self) -> Option<Verdict> {
        if self.meta(names::STATUS).and_then(Value::as_str) != Some(Status::Failed.name()) {
            return None;
        }
        let why = self.meta(names::ERROR).and_then(Value::as_str).unwrap_or("the action failed");
        Some(Verdict::error(why))
    }

    fn by_outcome(&self) -> Verdict {
        let Some(failed) = self.failed() else {
            let code = self.meta(names::EXIT_CODE).and_then(Value::as_i64).filter(|code| *code != 0);
            return code
                .map_or_else(|| Verdict::of(true, "the action is done"), |code| self.by_failure(code));
        };
        // A called loop came to its end, and that was none to be glad of.
        let ended = self.meta(names::ENDED_BY).and_then(Value::as_str) == Some(LoopReason::Terminal.name());
        if ended { Verdict::of(false, failed.reason) } else { failed }
    }

    /// The verdict on a command that ended with an exit code other than 0 where no code is expected. A state that
    /// only goes on does so, unless it has a route for errors; one that ends the loop has not ended it.
    fn by_failure(&self, code: i64) -> Verdict {
        let state = self.step().state.as_ref();
        let has_route = |state: &State| state.routes.error.is_some() && !state.routes.judges();
        let is_error = state.is_some_and(|state| state.terminal.is_some() || has_route(state));
        let reason = describe_exit_code(code);
        let verdict = if is_error || is_abnormal_exit(code) {
            Verdict::error(reason)
        } else {
            Verdict::of(false, reason)
        };
        verdict.with_details([("exit_code".into(), Value::from(code))])
    }

    fn by_exit_code(&self, yes: &[i64], no: &[i64], session: &mut Session<'_>) -> Result<Verdict, Verdict> {
        let source = self.evaluate().and_then(|evaluate| evaluate.source.as_ref());
        let code = if let Some(value) = self.optional(source, session)? {
            let number = model::number("source", &value).map_err(Verdict::error)?;
            let shown = threadline_lang::diag::excerpt(&value);
            let unfit = || Verdict::error(eco_format!("`source` is {shown}, which is no exit code"));
            number.as_i64().ok_or_else(unfit)?
        } else {
            let code = self.meta(names::EXIT_CODE).and_then(Value::as_i64);
            code.ok_or_else(|| Verdict::error("there is no exit code"))?
        };
        let (yes, no) = (if yes.is_empty() { &[0] } else { yes }, if no.is_empty() { &[1] } else { no });
        let reason = eco_format!("exit code {code}");
        let verdict = if yes.contains(&code) {
            Verdict::of(true, reason)
        } else if no.contains(&code) {
            Verdict::of(false, reason)
        } else {
            Verdict::error(eco_format!("exit code {code} is neither yes nor no"))
        };
        Ok(verdict.with_details([("exit_code".into(), Value::from(code))]))
    }
}

/// What a value says: a bool is yes or no, a text the verdict itself.
fn of_value(value: &Value, source: &str) -> Verdict {
    let shown = threadline_lang::diag::preview(value);
    let reason = eco_format!("`{}` is {shown}", source.trim());
    match (value.as_bool(), value.as_str()) {
        (Some(holds), _) => Verdict::of(holds, reason),
        (None, Some(text)) if model::is_verdict(text.trim()) => Verdict::new(text.trim(), reason),
        (None, Some(_)) => {
            Verdict::error(eco_format!("{reason}, which is no verdict: {}", model::VERDICT_FORM))
        }
        _ => Verdict::error(eco_format!("{reason}, which is no verdict")),
    }
}

/// Words in a sentence.
fn listed(words: &[EcoString]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

fn not_evaluable(error: &Error) -> Verdict {
    Verdict::error(eco_format!("{error}"))
}
