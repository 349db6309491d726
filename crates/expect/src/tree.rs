//! The answer to an expectation as a tree: path, operator, expected, actual, and a sentence for every line.

use std::collections::BTreeSet;
use std::fmt;

use ecow::EcoString;
use threadline_lang::value::JsonStyle;
use threadline_lang::{Number, Value};

/// What an expectation came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExpectationAnswer {
    /// It is met.
    Met,
    /// It is not met.
    Unmet,
    /// It cannot be said, for a reason that the tree gives.
    NotEvaluable,
}

impl ExpectationAnswer {
    /// The name in files: `met`, `unmet`, `not_evaluable`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Unmet => "unmet",
            Self::NotEvaluable => "not_evaluable",
        }
    }

    /// In a sentence.
    pub fn words(self) -> &'static str {
        match self {
            Self::NotEvaluable => "not evaluable",
            other => other.name(),
        }
    }

    pub(crate) fn of(met: bool) -> Self {
        if met { Self::Met } else { Self::Unmet }
    }

    pub(crate) fn negated_if(self, negated: bool) -> Self {
        match self {
            Self::Met if negated => Self::Unmet,
            Self::Unmet if negated => Self::Met,
            answer => answer,
        }
    }
}

/// What a line about one step of a plan is called.
pub(crate) const STEP: &str = "step";

/// One line, and those below it.
#[derive(Debug, Clone, PartialEq)]
pub struct Tree {
    /// What it came to; nothing where it was not evaluated.
    pub answer: Option<ExpectationAnswer>,
    /// Where in the actual document it looked; empty for the document as a whole.
    pub path: String,
    /// The field, operator or logic as it is written.
    pub operator: EcoString,
    /// What it compared with.
    pub expected: Option<Value>,
    /// What it found; nothing where there is none.
    pub actual: Option<Value>,
    /// The reason in one sentence.
    pub reason: String,
    /// Whether it asks for the opposite of the lines below.
    pub negates: bool,
    /// Whether it is met only because nothing was asked.
    pub vacuous: bool,
    /// The share of the weight that is met, where it was asked for.
    pub score: Option<Number>,
    /// The lines below.
    pub children: Vec<Tree>,
}

impl Tree {
    /// The lines that say why it is not met, from the top: those that were decisive and have none below them.
    pub fn causes(&self) -> Vec<&Self> {
        let mut found: Vec<&Self> = Vec::new();
        self.collect(&mut found);
        let mut told = BTreeSet::new();
        found.retain(|cause| told.insert(&cause.reason));
        found
    }

    fn collect<'t>(&'t self, found: &mut Vec<&'t Self>) {
        let before = found.len();
        if self.score.is_some() {
            found.push(self);
        }
        if self.operator == "when" {
            // The condition is to blame only when it cannot be evaluated; else the branch that was taken is.
            if let Some(last) = self.children.iter().rfind(|child| child.answer == self.answer) {
                last.collect(found);
            }
        } else if !self.negates || self.answer == Some(ExpectationAnswer::NotEvaluable) {
            let decisive = |tree: &&Self| tree.answer == self.answer;
            match self.nearest_step() {
                Some(step) => step.collect(found),
                None => self.children.iter().filter(decisive).for_each(|child| child.collect(found)),
            }
        }
        if found.len() == before {
            found.push(self);
        }
    }

    /// Of steps of a plan, none of which is met, the one with the most lines that are.
    fn nearest_step(&self) -> Option<&Self> {
        let steps = self.children.iter().all(|child| child.operator == STEP);
        let met = |step: &&Self| {
            step.children.iter().filter(|line| line.answer == Some(ExpectationAnswer::Met)).count()
        };
        let decisive = self.children.iter().filter(|step| step.answer == self.answer);
        // Of those that are equally near, the first.
        decisive.rev().max_by_key(met).filter(|_| steps)
    }

    /// How many of the lines were met without anything being asked.
    pub fn vacuous(&self) -> usize {
        usize::from(self.vacuous) + self.children.iter().map(Self::vacuous).sum::<usize>()
    }

    /// What the line is about, for people.
    pub fn title(&self) -> &str {
        if self.operator.is_empty() || self.operator == STEP { &self.path } else { &self.operator }
    }

    /// Itself and every line below, with how deep each is.
    pub fn lines(&self) -> Vec<(usize, &Self)> {
        let mut lines = Vec::new();
        self.push_lines(0, &mut lines);
        lines
    }

    fn push_lines<'t>(&'t self, depth: usize, lines: &mut Vec<(usize, &'t Self)>) {
        lines.push((depth, self));
        self.children.iter().for_each(|child| child.push_lines(depth + 1, lines));
    }
}

/// Every line, those below a line further to the right.
impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (depth, line)) in self.lines().into_iter().enumerate() {
            let (end, answer) =
                (if at > 0 { "\n" } else { "" }, line.answer.map_or("-", ExpectationAnswer::words));
            let title = line.title();
            let colon = if title.is_empty() { "" } else { ": " };
            write!(f, "{end}{:width$}{answer} {title}{colon}{}", "", line.reason, width = 2 * depth)?;
        }
        Ok(())
    }
}

/// What one expectation came to.
#[derive(Debug, Clone, PartialEq)]
pub struct ExpectationOutcome {
    /// What it is called.
    pub name: EcoString,
    /// What it came to.
    pub answer: ExpectationAnswer,
    /// Why, in one sentence.
    pub reason: String,
    /// Line by line.
    pub tree: Tree,
}

impl ExpectationOutcome {
    /// Writes it as JSON, piece by piece: a tree may be deeper than a value can be.
    pub fn write_json(&self, out: &mut String) {
        out.push('{');
        push(out, "name", &self.name.clone().into());
        push(out, "result", &self.answer.name().into());
        push(out, "reason", &self.reason.as_str().into());
        out.push_str(",\"tree\":");
        push_tree(out, &self.tree);
        out.push('}');
    }
}

fn push(out: &mut String, key: &str, value: &Value) {
    out.push_str(if out.ends_with('{') { "\"" } else { ",\"" });
    out.push_str(key);
    out.push_str("\":");
    value.write_json(out, JsonStyle::Compact);
}

fn push_tree(out: &mut String, tree: &Tree) {
    out.push('{');
    push(out, "result", &tree.answer.map_or("not_evaluated", ExpectationAnswer::name).into());
    push(out, "path", &tree.path.as_str().into());
    push(out, "operator", &tree.operator.clone().into());
    for (key, value) in [("expected", &tree.expected), ("actual", &tree.actual)] {
        if let Some(value) = value {
            push(out, key, value);
        }
    }
    push(out, "reason", &tree.reason.as_str().into());
    if tree.vacuous {
        push(out, "vacuous", &true.into());
    }
    if let Some(score) = &tree.score {
        push(out, "score", &score.clone().into());
    }
    if !tree.children.is_empty() {
        out.push_str(",\"children\":[");
        for (at, child) in tree.children.iter().enumerate() {
            out.push_str(if at > 0 { "," } else { "" });
            push_tree(out, child);
        }
        out.push(']');
    }
    out.push('}');
}
