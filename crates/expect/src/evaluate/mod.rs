//! Evaluation: an expectation and an actual document in, an answer out, with its tree where somebody wants to read it.
//!
//! There is one evaluator for both: whether lines are written down is a type parameter, so an answer that nobody reads
//! costs nothing more. Members of `all` and `any` and the branches of `when` are evaluated only as far as they are
//! needed; keys side by side are all looked at when the answer is explained, so that every reason is there at once.

mod compare;
mod distinct;
mod record;
mod sentence;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use threadline_lang::diag::excerpt;
use threadline_lang::source::Field;
use threadline_lang::value::Key;
use threadline_lang::{Document, Number, PathStep, Scope, Session, Trail, TrailStep, Value};

use crate::actual::Actual;
use crate::judge::{self, RuleDecision, RuleJudge, Ruling};
use crate::model::{
    Expectation, ExpectationLine, Expectations, FieldRule, InnerCheck, InnerKind, LineKind, MemberGroup,
    Operand, Test, When,
};
use crate::operand::{self, NoAnswerReason, PreparedOperand};
use crate::path::ActualPath;
use crate::table::{NamedOperator, Op};
use crate::tree::{ExpectationAnswer, ExpectationOutcome, STEP, Tree};
pub use compare::{BadComparison, Comparison};
use record::{NoTree, TreeLines, TreeRecorder};

/// The evaluation of expectations against one actual document.
pub struct Evaluation<'a, 'w> {
    actual: &'a Actual,
    outer: &'a Scope,
    /// Made when the first reference needs it.
    scope: Option<Scope>,
    session: &'a mut Session<'w>,
    judge: &'a mut dyn RuleJudge,
    /// Operands with references, by their address.
    resolved: BTreeMap<usize, (Arc<Field<Document>>, ResolvedOperand)>,
    scratch: String,
    evaluated: u64,
}

/// An operand whose references were resolved, and its value; or why it has none.
type ResolvedOperand = Result<(Arc<PreparedOperand>, Value), String>;

/// What a line looks at.
#[derive(Clone, Copy)]
enum Subject<'v> {
    Value(&'v Value),
    /// Nothing is there: the last value on the way, and the step that leads nowhere.
    Missing(&'v Value, &'v PathStep),
}

impl<'v> Subject<'v> {
    fn value(self) -> Option<&'v Value> {
        match self {
            Self::Value(value) => Some(value),
            Self::Missing(..) => None,
        }
    }
}

impl<'a, 'w> Evaluation<'a, 'w> {
    /// Of this document. References in expected values see its names, and those of `outer` behind them.
    pub fn new(
        actual: &'a Actual,
        outer: &'a Scope,
        session: &'a mut Session<'w>,
        judge: &'a mut dyn RuleJudge,
    ) -> Self {
        let (resolved, scratch) = (BTreeMap::new(), String::new());
        Self { actual, outer, scope: None, session, judge, resolved, scratch, evaluated: 0 }
    }

    /// How many operators, rules and expressions were evaluated so far.
    pub fn evaluated(&self) -> u64 {
        self.evaluated
    }

    /// What an expectation comes to.
    pub fn answer(&mut self, expectation: &Expectation) -> ExpectationAnswer {
        let document = self.actual.document();
        self.check(&expectation.node, Subject::Value(document), &Trail::ROOT, &mut NoTree)
    }

    /// What an expectation comes to, and why.
    pub fn explain(&mut self, expectation: &Expectation) -> ExpectationOutcome {
        let mut lines = TreeLines::default();
        let document = self.actual.document();
        self.check(&expectation.node, Subject::Value(document), &Trail::ROOT, &mut lines);
        let tree = lines.finish();
        let answer = tree.answer.unwrap_or(ExpectationAnswer::NotEvaluable);
        ExpectationOutcome {
            name: expectation.name.clone(),
            answer,
            reason: sentence::reason_of(&tree),
            tree,
        }
    }

    /// Whether all expectations of a file are met; the first unmet one ends it.
    pub fn answer_all(&mut self, expectations: &Expectations) -> ExpectationAnswer {
        let mut all = ExpectationAnswer::Met;
        for expectation in &expectations.members {
            match self.answer(expectation) {
                ExpectationAnswer::Met => {}
                ExpectationAnswer::Unmet => return ExpectationAnswer::Unmet,
                ExpectationAnswer::NotEvaluable => all = ExpectationAnswer::NotEvaluable,
            }
        }
        if expectations.distinct {
            let nodes: Vec<&ExpectationLine> =
                expectations.members.iter().map(|member| &member.node).collect();
            all = both(all, self.distinct(&nodes).answer());
        }
        all
    }

    /// What every expectation of a file comes to, and why.
    pub fn explain_all(&mut self, expectations: &Expectations) -> Vec<ExpectationOutcome> {
        let mut outcomes: Vec<ExpectationOutcome> =
            expectations.members.iter().map(|expectation| self.explain(expectation)).collect();
        if expectations.distinct {
            let nodes: Vec<&ExpectationLine> =
                expectations.members.iter().map(|member| &member.node).collect();
            let assigned = self.distinct(&nodes);
            for (at, outcome) in outcomes.iter_mut().enumerate() {
                let name = |other: usize| format!("`{}`", expectations.members[other].name);
                if let Some((answer, reason)) = assigned.refuses(at, name)
                    && both(outcome.answer, answer) != outcome.answer
                {
                    outcome.answer = answer;
                    outcome.reason.clone_from(&reason);
                    let line = Tree { operator: "distinct".into(), reason, ..sentence::line(Some(answer)) };
                    let tree = std::mem::replace(&mut outcome.tree, line);
                    outcome.tree.children.push(tree);
                }
            }
        }
        outcomes
    }

    fn check<'v, R: TreeRecorder>(
        &mut self,
        node: &'v ExpectationLine,
        subject: Subject<'v>,
        at: &Trail<'_>,
        record: &mut R,
    ) -> ExpectationAnswer {
        match &node.what {
            LineKind::Test(test) => self.test(node, test, subject, at, record),
            LineKind::At(path, child) => {
                let subject = walk(path, subject);
                let trail = at.down(TrailStep::Path(path.steps()));
                match &child.what {
                    // What is asked of one value needs no line of its own above it.
                    LineKind::Together(nodes) => self.together(nodes, subject, &trail, record),
                    _ => self.check(child, subject, &trail, record),
                }
            }
            LineKind::Together(nodes) => {
                record.open();
                let answer = self.together(nodes, subject, at, record);
                record.close(|children| sentence::together(answer, at.text(), node, children));
                answer
            }
            LineKind::All(group) => self.all(node, group, subject, at, record),
            LineKind::Any(nodes) => self.any(node, nodes, subject, at, record),
            LineKind::Not(inner) => {
                record.open();
                let answer = self.check(inner, subject, at, record).negated_if(true);
                record.close(|lines| sentence::not(answer, at.text(), node, lines));
                answer
            }
            LineKind::When(when) => self.when(node, when, subject, at, record),
            LineKind::Inner(inner) => self.inner(node, inner, subject, at, record),
            LineKind::Step(nodes) => self.step(node, nodes, record),
            LineKind::Rule(rule) => self.rule(node, rule, record),
            LineKind::Judge(operand) => self.question(node, operand, record),
            LineKind::Expression(field) => {
                self.evaluated += 1;
                let scope = self.scope.get_or_insert_with(|| self.actual.scope(self.outer));
                let result = field.value.condition(scope, self.session);
                let answer = result
                    .as_ref()
                    .map_or(ExpectationAnswer::NotEvaluable, |met| ExpectationAnswer::of(*met));
                if R::READ {
                    let explanation = field.value.explain(scope, self.session);
                    record.line(|| sentence::expression(answer, node, &explanation, result));
                }
                answer
            }
            LineKind::LeftOut(why) => {
                record.line(|| Tree {
                    operator: node.written.clone(),
                    path: at.text(),
                    reason: why.to_string(),
                    ..sentence::line(None)
                });
                // Nothing was asked: whoever has nothing else cannot be met by it.
                ExpectationAnswer::NotEvaluable
            }
        }
    }

    /// Lines side by side. One that was left out does not count, unless it is all there is.
    fn together<'v, R: TreeRecorder>(
        &mut self,
        nodes: &'v [ExpectationLine],
        subject: Subject<'v>,
        at: &Trail<'_>,
        record: &mut R,
    ) -> ExpectationAnswer {
        let mut all = None;
        for node in nodes {
            let answer = self.check(node, subject, at, record);
            if matches!(node.what, LineKind::LeftOut(_)) {
                continue;
            }
            all = Some(both(all.unwrap_or(ExpectationAnswer::Met), answer));
            if !R::READ && answer == ExpectationAnswer::Unmet {
                break;
            }
        }
        all.unwrap_or(ExpectationAnswer::NotEvaluable)
    }

    fn all<'v, R: TreeRecorder>(
        &mut self,
        node: &'v ExpectationLine,
        group: &'v MemberGroup,
        subject: Subject<'v>,
        at: &Trail<'_>,
        record: &mut R,
    ) -> ExpectationAnswer {
        record.open();
        if let Some(score) = &group.score {
            let answers: Vec<ExpectationAnswer> =
                group.members.iter().map(|member| self.check(&member.node, subject, at, record)).collect();
            let counted = AnsweredWeight::of(group, &answers);
            let answer = counted.answer(score.threshold.as_ref());
            record.close(|_| sentence::scored(answer, at.text(), node, &counted, score.threshold.as_ref()));
            return answer;
        }
        let mut all = ExpectationAnswer::Met;
        let mut decided = None;
        for (position, member) in group.members.iter().enumerate() {
            if let Some(decided) = decided {
                record.line(|| {
                    sentence::not_evaluated(&member.node, at.text(), decided, ExpectationAnswer::Unmet)
                });
                continue;
            }
            all = both(all, self.check(&member.node, subject, at, record));
            if all == ExpectationAnswer::Unmet {
                decided = Some(position);
                if !R::READ {
                    break;
                }
            }
        }
        let mut why = None;
        if group.distinct && all != ExpectationAnswer::Unmet {
            let nodes: Vec<&ExpectationLine> = group.members.iter().map(|member| &member.node).collect();
            let assigned = self.distinct(&nodes);
            let refused = (0..nodes.len()).find_map(|at| {
                let (answer, why) = assigned.refuses(at, sentence::ordinal)?;
                let why = format!("{} has no step of its own: {why}", sentence::ordinal(at));
                (answer == assigned.answer()).then_some(why)
            });
            why = refused.filter(|_| both(all, assigned.answer()) != all);
            all = both(all, assigned.answer());
        }
        let count = group.members.len();
        record.close(|_| sentence::all(all, at.text(), node, count, decided, why));
        all
    }

    fn any<'v, R: TreeRecorder>(
        &mut self,
        node: &'v ExpectationLine,
        nodes: &'v [ExpectationLine],
        subject: Subject<'v>,
        at: &Trail<'_>,
        record: &mut R,
    ) -> ExpectationAnswer {
        record.open();
        let mut any = ExpectationAnswer::Unmet;
        let mut decided = None;
        for (position, member) in nodes.iter().enumerate() {
            if let Some(decided) = decided {
                record.line(|| sentence::not_evaluated(member, at.text(), decided, ExpectationAnswer::Met));
                continue;
            }
            any = either(any, self.check(member, subject, at, record));
            if any == ExpectationAnswer::Met {
                decided = Some(position);
                if !R::READ {
                    break;
                }
            }
        }
        record.close(|_| sentence::any(any, at.text(), node, nodes.len(), decided));
        any
    }

    fn when<'v, R: TreeRecorder>(
        &mut self,
        node: &'v ExpectationLine,
        when: &'v When,
        subject: Subject<'v>,
        at: &Trail<'_>,
        record: &mut R,
    ) -> ExpectationAnswer {
        record.open();
        let condition = self.check(&when.condition, subject, at, record);
        let (taken, left) = match condition {
            ExpectationAnswer::Met => (when.then.as_ref(), when.otherwise.as_ref()),
            ExpectationAnswer::Unmet => (when.otherwise.as_ref(), when.then.as_ref()),
            ExpectationAnswer::NotEvaluable => (None, None),
        };
        let answer = match (condition, taken) {
            (ExpectationAnswer::NotEvaluable, _) => ExpectationAnswer::NotEvaluable,
            (_, Some(branch)) => self.check(branch, subject, at, record),
            (_, None) => ExpectationAnswer::Met,
        };
        if condition == ExpectationAnswer::NotEvaluable {
            for branch in when.then.iter().chain(&when.otherwise) {
                record.line(|| sentence::branch_not_evaluated(branch, at.text(), condition));
            }
        }
        if let Some(branch) = left {
            record.line(|| sentence::branch_not_evaluated(branch, at.text(), condition));
        }
        record.close(|_| sentence::when(answer, at.text(), node, condition, taken.is_some()));
        answer
    }

    // ---- operators --------------------------------------------------------------------------------------

    fn test<'v, R: TreeRecorder>(
        &mut self,
        node: &'v ExpectationLine,
        test: &Test,
        subject: Subject<'v>,
        at: &Trail<'_>,
        record: &mut R,
    ) -> ExpectationAnswer {
        self.evaluated += 1;
        let resolved;
        let operand = match &test.operand {
            Operand::Fixed(prepared, expected) => Ok((&**prepared, expected)),
            Operand::Dynamic(field) => {
                resolved = self.resolved(test.named, field);
                resolved.as_ref().map(|(prepared, expected)| (&**prepared, expected))
            }
        };
        let result = match operand {
            Ok((prepared, _)) => apply(test.named, prepared, subject, &mut self.scratch),
            Err(_) => Err(NoAnswer::Missing),
        };
        let answer = answer_of(result, test.named.negated);
        record.line(|| sentence::test(answer, node, test.named, operand, subject, at.text(), result));
        answer
    }

    /// An operand with its references resolved: once, however many items it is compared with.
    fn resolved(&mut self, named: NamedOperator, field: &Arc<Field<Document>>) -> ResolvedOperand {
        let known = self.resolved.get(&Arc::as_ptr(field).addr());
        if let Some((_, resolved)) = known {
            return resolved.clone();
        }
        let resolved = self.resolve(field).and_then(|value| {
            let prepared = operand::prepare(named, &value)
                .map_err(|unfit| format!("{}: it is {}", unfit.message, excerpt(&value)))?;
            Ok((prepared.into(), value))
        });
        // As long as it is held, nothing else has its address.
        self.resolved.insert(Arc::as_ptr(field).addr(), (field.clone(), resolved.clone()));
        resolved
    }

    fn value<'o>(&mut self, operand: &'o Operand) -> Result<Cow<'o, Value>, String> {
        match operand {
            Operand::Fixed(_, value) => Ok(Cow::Borrowed(value)),
            Operand::Dynamic(field) => self.resolve(field).map(Cow::Owned),
        }
    }

    fn resolve(&mut self, field: &Field<Document>) -> Result<Value, String> {
        let scope = self.scope.get_or_insert_with(|| self.actual.scope(self.outer));
        self.session.set_origin(Some(field.origin.clone()));
        let resolved = field.value.resolve(scope, self.session);
        self.session.set_origin(None);
        resolved.map_err(|errors| {
            let messages: Vec<String> = errors.iter().map(ToString::to_string).collect();
            messages.join("; ")
        })
    }

    fn inner<'v, R: TreeRecorder>(
        &mut self,
        node: &'v ExpectationLine,
        inner: &'v InnerCheck,
        subject: Subject<'v>,
        at: &Trail<'_>,
        record: &mut R,
    ) -> ExpectationAnswer {
        let found = match (inner.kind, subject) {
            (_, Subject::Missing(..)) => Err(NoAnswer::Missing),
            (InnerKind::Length, Subject::Value(value)) => {
                return match operand::length(value) {
                    Ok(length) => self.length(node, inner, length, at, record),
                    Err(why) => {
                        record.line(|| sentence::inner_failed(node, subject, at.text(), NoAnswer::Why(why)));
                        ExpectationAnswer::NotEvaluable
                    }
                };
            }
            (_, Subject::Value(value)) => value.as_list().ok_or(NoAnswer::Why(NoAnswerReason::NotAList)),
        };
        let items = match found {
            Ok(items) => items,
            Err(failed) => {
                record.line(|| sentence::inner_failed(node, subject, at.text(), failed));
                return ExpectationAnswer::NotEvaluable;
            }
        };
        record.open();
        let mut counts = AnswerCounts { wanted: wanted(inner.kind, items.len()), ..AnswerCounts::default() };
        for (index, item) in items.iter().enumerate() {
            if counts.decided(items.len() - index).is_some() {
                record.line(|| sentence::rest_not_evaluated(&at.text(), "", index, items.len()));
                break;
            }
            let trail = at.down(TrailStep::Index(index));
            let answer = self.check(&inner.check, Subject::Value(item), &trail, record);
            counts.add(answer, index);
        }
        let plain = counts.decided(0).unwrap_or(ExpectationAnswer::NotEvaluable);
        let answer = plain.negated_if(inner.negated);
        record
            .close(|lines| sentence::quantified(answer, at.text(), node, inner, items.len(), &counts, lines));
        answer
    }

    /// The check of a number that is not part of the document.
    fn length<R: TreeRecorder>(
        &mut self,
        node: &ExpectationLine,
        inner: &InnerCheck,
        length: usize,
        at: &Trail<'_>,
        record: &mut R,
    ) -> ExpectationAnswer {
        let length = Value::from(length);
        let trail = at.down(TrailStep::Verbatim(" | len"));
        if !inner.negated {
            return match &inner.check.what {
                LineKind::Together(nodes) => self.together(nodes, Subject::Value(&length), &trail, record),
                _ => self.check(&inner.check, Subject::Value(&length), &trail, record),
            };
        }
        record.open();
        let answer = self.check(&inner.check, Subject::Value(&length), &trail, record).negated_if(true);
        record.close(|lines| sentence::not(answer, at.text(), node, lines));
        answer
    }

    // ---- the plan ---------------------------------------------------------------------------------------

    /// Whether one step of the plan meets all checks.
    fn step<'v, R: TreeRecorder>(
        &mut self,
        node: &'v ExpectationLine,
        checks: &'v [ExpectationLine],
        record: &mut R,
    ) -> ExpectationAnswer
    where
        'a: 'v,
    {
        let plan = match self.plan() {
            Ok(plan) => plan,
            Err(why) => {
                record.line(|| sentence::no_plan(node, why));
                return ExpectationAnswer::NotEvaluable;
            }
        };
        record.open();
        let (trail, mut any, mut met) =
            (Trail::ROOT.down(TrailStep::Key("plan")), ExpectationAnswer::Unmet, None);
        for (index, step) in plan.iter().enumerate() {
            let trail = trail.down(TrailStep::Index(index));
            record.open();
            let answer = self.together(checks, Subject::Value(step), &trail, record);
            record.close(|children| sentence::candidate(answer, trail.text(), children));
            any = either(any, answer);
            if any == ExpectationAnswer::Met {
                met = Some(index);
                if index + 1 < plan.len() {
                    record.line(|| sentence::rest_not_evaluated("plan", STEP, index + 1, plan.len()));
                }
                break;
            }
        }
        record.close(|children| sentence::step(any, node, met, children));
        any
    }

    fn plan(&self) -> Result<&'a [Value], &'static str> {
        static PLAN: LazyLock<Key> = LazyLock::new(|| Key::new("plan"));
        let document = self.actual.document().as_object();
        let plan = document.and_then(|document| document.get(&PLAN));
        let plan = plan.ok_or("the actual document has no `plan`")?;
        plan.as_list().ok_or("the `plan` of the actual document is not a list")
    }

    // ---- rules and judges -------------------------------------------------------------------------------

    fn rule<R: TreeRecorder>(
        &mut self,
        node: &ExpectationLine,
        rule: &FieldRule,
        record: &mut R,
    ) -> ExpectationAnswer {
        self.evaluated += 1;
        let operand = match self.value(&rule.operand) {
            Ok(operand) => operand.into_owned(),
            Err(why) => {
                record.line(|| sentence::ruled(ExpectationAnswer::NotEvaluable, node, None, why));
                return ExpectationAnswer::NotEvaluable;
            }
        };
        let document = self.actual.document();
        let (answer, reason) = match judge::decide(rule.field, &operand, document) {
            RuleDecision::Yes(why) => (ExpectationAnswer::Met, why),
            RuleDecision::No(why) => (ExpectationAnswer::Unmet, why),
            RuleDecision::Missing(what) => {
                (ExpectationAnswer::NotEvaluable, format!("the actual document has no `{what}`").into())
            }
            RuleDecision::Open { question, why } => match self.judge.judge(&question, document) {
                Ruling::Yes(said) => {
                    let to = format!("yes to \"{question}\"");
                    (ExpectationAnswer::Met, sentence::judged(&to, &said).into())
                }
                Ruling::No(said) => {
                    let to = format!("no to \"{question}\"");
                    (ExpectationAnswer::Unmet, sentence::judged(&to, &said).into())
                }
                Ruling::Open(nobody) => (
                    ExpectationAnswer::NotEvaluable,
                    format!("{why}; \"{question}\" is for a judge, and {nobody}").into(),
                ),
            },
        };
        record.line(|| sentence::ruled(answer, node, Some(operand), reason.into_owned()));
        answer
    }

    fn question<R: TreeRecorder>(
        &mut self,
        node: &ExpectationLine,
        operand: &Operand,
        record: &mut R,
    ) -> ExpectationAnswer {
        self.evaluated += 1;
        let question = match self.value(operand) {
            Ok(question) => question.into_owned(),
            Err(why) => {
                record.line(|| sentence::ruled(ExpectationAnswer::NotEvaluable, node, None, why));
                return ExpectationAnswer::NotEvaluable;
            }
        };
        let (answer, reason) = match self.judge.judge(&question.to_string(), self.actual.document()) {
            Ruling::Yes(said) => (ExpectationAnswer::Met, sentence::judged("yes", &said)),
            Ruling::No(said) => (ExpectationAnswer::Unmet, sentence::judged("no", &said)),
            Ruling::Open(nobody) => {
                (ExpectationAnswer::NotEvaluable, format!("only a judge can say, and {nobody}"))
            }
        };
        record.line(|| sentence::ruled(answer, node, Some(question), reason));
        answer
    }
}

/// Why a test says neither yes nor no.
#[derive(Debug, Clone, Copy)]
enum NoAnswer {
    Missing,
    Why(NoAnswerReason),
}

/// What an operator says of a value, before `not-`.
fn apply(
    named: NamedOperator,
    prepared: &PreparedOperand,
    subject: Subject<'_>,
    scratch: &mut String,
) -> Result<bool, NoAnswer> {
    match (subject, named.operator.op, prepared) {
        (Subject::Value(value), op, _) => operand::holds(op, prepared, value, scratch).map_err(NoAnswer::Why),
        (Subject::Missing(..), Op::Exists, PreparedOperand::Bool(asked)) => Ok(!asked),
        (Subject::Missing(..), ..) => Err(NoAnswer::Missing),
    }
}

fn answer_of(result: Result<bool, NoAnswer>, negated: bool) -> ExpectationAnswer {
    match result {
        Ok(met) => ExpectationAnswer::of(met).negated_if(negated),
        Err(_) => ExpectationAnswer::NotEvaluable,
    }
}

fn walk<'v>(path: &'v ActualPath, subject: Subject<'v>) -> Subject<'v> {
    let Subject::Value(mut value) = subject else { return subject };
    for step in path.steps() {
        match step.take(value) {
            Some(next) => value = next,
            None => return Subject::Missing(value, step),
        }
    }
    Subject::Value(value)
}

/// Both are met: three-valued.
fn both(one: ExpectationAnswer, other: ExpectationAnswer) -> ExpectationAnswer {
    match (one, other) {
        (ExpectationAnswer::Unmet, _) | (_, ExpectationAnswer::Unmet) => ExpectationAnswer::Unmet,
        (ExpectationAnswer::Met, ExpectationAnswer::Met) => ExpectationAnswer::Met,
        _ => ExpectationAnswer::NotEvaluable,
    }
}

/// One of them is met: three-valued.
fn either(one: ExpectationAnswer, other: ExpectationAnswer) -> ExpectationAnswer {
    both(one.negated_if(true), other.negated_if(true)).negated_if(true)
}

/// How many items a quantifier wants.
fn wanted(kind: InnerKind, items: usize) -> usize {
    match kind {
        InnerKind::Each => items,
        InnerKind::Some | InnerKind::Length => 1,
        InnerKind::AtLeast(count) => usize::try_from(count).unwrap_or(usize::MAX),
    }
}

/// What the items of a list came to.
#[derive(Default)]
struct AnswerCounts {
    wanted: usize,
    met: usize,
    unmet: usize,
    unknown: usize,
    first_met: Option<usize>,
    first_unmet: Option<usize>,
    first_unknown: Option<usize>,
}

impl AnswerCounts {
    fn add(&mut self, answer: ExpectationAnswer, index: usize) {
        let (count, first) = match answer {
            ExpectationAnswer::Met => (&mut self.met, &mut self.first_met),
            ExpectationAnswer::Unmet => (&mut self.unmet, &mut self.first_unmet),
            ExpectationAnswer::NotEvaluable => (&mut self.unknown, &mut self.first_unknown),
        };
        *count += 1;
        first.get_or_insert(index);
    }

    /// Whether enough are met, when so many are left.
    fn decided(&self, left: usize) -> Option<ExpectationAnswer> {
        if self.met >= self.wanted {
            return Some(ExpectationAnswer::Met);
        }
        (self.met + self.unknown + left < self.wanted).then_some(ExpectationAnswer::Unmet)
    }
}

/// The weight of the members of a group by what they came to.
struct AnsweredWeight {
    total: Number,
    met: Number,
    unknown: Number,
    /// A member that has to be met and is not, and what it came to.
    must: Option<(usize, ExpectationAnswer)>,
    all: ExpectationAnswer,
}

impl AnsweredWeight {
    fn of(group: &MemberGroup, answers: &[ExpectationAnswer]) -> Self {
        let zero = || Number::int(0);
        let mut counted =
            Self { total: zero(), met: zero(), unknown: zero(), must: None, all: ExpectationAnswer::Met };
        // Weights are short numbers, so their sum is one.
        let add = |sum: &mut Number, weight: &Number| *sum = sum.add(weight).unwrap_or_else(|_| sum.clone());
        for (at, (member, answer)) in group.members.iter().zip(answers).enumerate() {
            add(&mut counted.total, &member.weight);
            match answer {
                ExpectationAnswer::Met => add(&mut counted.met, &member.weight),
                ExpectationAnswer::Unmet => {}
                ExpectationAnswer::NotEvaluable => add(&mut counted.unknown, &member.weight),
            }
            counted.all = both(counted.all, *answer);
            if member.must && *answer != ExpectationAnswer::Met {
                let worse = matches!(counted.must, Some((_, ExpectationAnswer::Unmet)));
                if !worse {
                    counted.must = Some((at, *answer));
                }
            }
        }
        counted
    }

    /// Met when the threshold is reached and every must is met; without a threshold when every member is.
    fn answer(&self, threshold: Option<&Number>) -> ExpectationAnswer {
        let Some(threshold) = threshold else { return self.all };
        let needed = self.total.mul(threshold).unwrap_or_else(|_| self.total.clone());
        let possible = self.met.add(&self.unknown).unwrap_or_else(|_| self.met.clone());
        let reached = if self.met >= needed {
            ExpectationAnswer::Met
        } else if possible < needed {
            ExpectationAnswer::Unmet
        } else {
            ExpectationAnswer::NotEvaluable
        };
        both(reached, self.must.map_or(ExpectationAnswer::Met, |(_, answer)| answer))
    }

    /// The share of the weight that is met.
    fn score(&self) -> Option<Number> {
        self.met.div(&self.total).ok()
    }
}
