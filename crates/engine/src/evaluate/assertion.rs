//! `assert`: expectations about a document, with what judges said of it.
//!
//! Pure: the document, the facts and the rulings are values. Nobody is asked here; what only a judge can answer is a
//! question in the result.

use ecow::EcoString;
use threadline_expect::{
    Actual, DocumentKind, Evaluation, ExpectationAnswer, ExpectationOutcome, FactsError, OpenQuestions,
    Opinion, Panel, RuleJudge, Ruling, Settled,
};
use threadline_flow::fields::{Failure, FailureKind, field_names as names};
use threadline_flow::model::Assertion;
use threadline_lang::diag::words;
use threadline_lang::{Limits, NoWorld, Session, Value, data};

use super::fields::FieldOutcomes;
use crate::execute::result::{StepResult, describe_unmet};

/// An `assert` with every value in its place.
#[derive(Debug, Clone)]
pub struct ResolvedAssertion {
    /// What the document is of.
    pub kind: DocumentKind,
    /// The document.
    pub document: Value,
    /// What is known beside it; null for nothing.
    pub facts: Value,
    /// How long the answer took, where it does not say so itself; null if that is not known.
    pub latency: Value,
    /// The expectations.
    pub expect: Settled,
    /// What judges said; null for nothing.
    pub rulings: Value,
    /// So many judges must agree.
    pub quorum: Option<u64>,
    /// Whether the step succeeds although only a judge can say more.
    pub keeps_open: bool,
}

impl FieldOutcomes<'_> {
    pub(super) fn assertion(&self, assertion: &Assertion) -> Option<ResolvedAssertion> {
        Some(ResolvedAssertion {
            kind: assertion.kind,
            document: self.value("assert")?,
            facts: self.value("assert.facts").unwrap_or_default(),
            latency: self.value("assert.latency").unwrap_or_default(),
            expect: self.expectations("assert.expect")?,
            rulings: self.value("assert.rulings").unwrap_or_default(),
            quorum: assertion.quorum,
            keeps_open: assertion.keeps_open,
        })
    }
}

impl ResolvedAssertion {
    /// What each expectation comes to, and why; none where the document or the rulings cannot be read.
    pub fn outcomes(&self) -> Vec<ExpectationOutcome> {
        let prepared = self.actual().and_then(|actual| Ok((actual, self.panel()?)));
        prepared.map(|(actual, panel)| self.compare(&actual, panel.as_ref()).0).unwrap_or_default()
    }

    /// What each expectation comes to, and the questions that no judge has answered.
    fn compare(&self, actual: &Actual, panel: Option<&Panel>) -> (Vec<ExpectationOutcome>, Vec<EcoString>) {
        let mut judge = PanelOrOpen { panel, open: OpenQuestions::default() };
        let mut world = NoWorld;
        let mut session = Session::new(&mut world);
        let mut evaluation = Evaluation::new(actual, &self.expect.scope, &mut session, &mut judge);
        let outcomes = evaluation.explain_all(&self.expect.expectations);
        (outcomes, judge.open.into_questions())
    }

    /// What the step leaves: what each expectation came to, also where the step fails because of it.
    pub(crate) fn result(&self) -> StepResult {
        let failed = |message: String| StepResult::failed(Failure::new(FailureKind::Expectation, message));
        let (actual, panel) = match self.actual().and_then(|actual| Ok((actual, self.panel()?))) {
            Ok(prepared) => prepared,
            Err(why) => return failed(why),
        };
        let wrong = self.expect.expectations.wrong_facts(&actual);
        if !wrong.is_empty() {
            return failed(wrong.join("\n"));
        }
        let (outcomes, open) = self.compare(&actual, panel.as_ref());
        let value = report(&outcomes, &open, panel.as_ref(), actual.document());
        let is_unmet = outcomes.iter().any(|outcome| outcome.answer == ExpectationAnswer::Unmet);
        let is_unsaid = outcomes.iter().any(|outcome| outcome.answer == ExpectationAnswer::NotEvaluable);
        // What is unmet stays so, whatever a judge says.
        if !is_unmet && (!is_unsaid || self.keeps_open && !open.is_empty()) {
            return StepResult::silent(Ok(value));
        }
        let unmet = outcomes.iter().filter(|outcome| outcome.answer != ExpectationAnswer::Met);
        let message = unmet.map(|outcome| describe_unmet("assert", outcome)).collect::<Vec<_>>().join("\n");
        StepResult { output: Some(value), ..failed(message) }
    }

    fn actual(&self) -> Result<Actual, String> {
        let too_large = |_| "the document is nested too deep, or too large".to_owned();
        let actual = match self.kind {
            DocumentKind::Answer => {
                let answer = Actual::answer(self.document.clone())?;
                answer.with_latency(&self.latency).map_err(too_large)?
            }
            kind => Actual::new(kind, self.document.clone()).map_err(too_large)?,
        };
        if self.facts.is_null() {
            return Ok(actual);
        }
        actual.with_facts(&self.facts).map_err(|error| match error {
            FactsError::NotAnObject => {
                format!("`facts` is an object, not {}", self.facts.kind().with_article())
            }
            FactsError::Differs(name) => {
                format!("the fact `{name}` is in the document, too, with another value")
            }
            FactsError::TooLarge => "the facts are nested too deep, or too large".to_owned(),
        })
    }

    fn panel(&self) -> Result<Option<Panel>, String> {
        if self.rulings.is_null() {
            return Ok(None);
        }
        Panel::read(&self.rulings, self.quorum).map(Some).map_err(|why| format!("`rulings`: {why}"))
    }
}

/// Lets a panel answer what it was asked, and writes down what it was not.
struct PanelOrOpen<'p> {
    panel: Option<&'p Panel>,
    open: OpenQuestions,
}

impl RuleJudge for PanelOrOpen<'_> {
    fn judge(&mut self, question: &str, document: &Value) -> Ruling {
        match self.panel {
            Some(panel) if panel.questions().iter().any(|known| *known == question) => {
                panel.clone().judge(question, document)
            }
            _ => self.open.judge(question, document),
        }
    }
}

/// What all expectations came to, as a value.
fn report(
    outcomes: &[ExpectationOutcome],
    open: &[EcoString],
    panel: Option<&Panel>,
    document: &Value,
) -> Value {
    let count = |answer: ExpectationAnswer| {
        let count = outcomes.iter().filter(|outcome| outcome.answer == answer).count();
        Value::from(count as u64)
    };
    let vacuous = outcomes
        .iter()
        .filter(|outcome| outcome.answer == ExpectationAnswer::Met && outcome.tree.vacuous() > 0)
        .count();
    let opinions = panel.into_iter().flat_map(|panel| {
        panel.questions().into_iter().flat_map(|question| {
            let of_judge = |opinion: Opinion| opinion_value(question, &opinion);
            panel.opinions(question, document).into_iter().map(of_judge).collect::<Vec<_>>()
        })
    });
    Value::record([
        (names::MET, count(ExpectationAnswer::Met)),
        (names::UNMET, count(ExpectationAnswer::Unmet)),
        (names::NOT_EVALUABLE, count(ExpectationAnswer::NotEvaluable)),
        (names::VACUOUS, Value::from(vacuous as u64)),
        (names::OUTCOMES, Value::sequence(outcomes.iter().map(outcome_value))),
        (names::OPEN, Value::sequence(open.iter().map(|question| Value::from(question.as_str())))),
        (names::OPINIONS, Value::sequence(opinions)),
    ])
}

fn opinion_value(question: &EcoString, opinion: &Opinion) -> Value {
    let Opinion { judge, yes, no, misquoted, reason } = opinion;
    Value::record([
        ("question", Value::from(question.as_str())),
        ("judge", judge.as_str().into()),
        ("yes", (*yes as u64).into()),
        ("no", (*no as u64).into()),
        ("misquoted", (*misquoted as u64).into()),
        ("flaky", opinion.is_flaky().into()),
        ("reason", reason.as_str().into()),
    ])
}

/// What one expectation came to. A tree that is deeper than a value can be is its text.
fn outcome_value(outcome: &ExpectationOutcome) -> Value {
    let mut json = String::new();
    outcome.write_json(&mut json);
    let whole = data::json::read_value(&json, &Limits::DEFAULT).ok();
    // It stands in a list in an object.
    let fits = |tree: &Value| {
        let list = Value::list([tree.clone()].into());
        list.is_ok_and(|list| Value::object([("outcomes".into(), list)]).is_ok())
    };
    whole.filter(fits).unwrap_or_else(|| {
        Value::record([
            ("name", Value::from(outcome.name.as_str())),
            ("result", outcome.answer.name().into()),
            ("reason", outcome.reason.as_str().into()),
            ("tree", words::one_line(&outcome.tree.to_string()).as_ref().into()),
        ])
    })
}
