//! One comparison outside of an expectation: an operator and what it compares with, both given by code.
//!
//! The operators are those of expectations, and so are the sentences; nothing is compared here in another way.

use std::ops::Range;

use threadline_lang::diag::words;
use threadline_lang::{Trail, TrailStep, Value};

use super::{Subject, answer_of, apply, sentence, walk};
use crate::model::{ExpectationLine, LineKind};
use crate::operand::{self, PreparedOperand};
use crate::path::ActualPath;
use crate::table::{self, ELSEWHERE, NamedOperator, Op, Takes};
use crate::tree::Tree;

/// An operator and what it compares with.
#[derive(Debug, Clone)]
pub struct Comparison {
    named: NamedOperator,
    prepared: PreparedOperand,
    expected: Value,
}

/// Why there is no such comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadComparison {
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// Whether the operator is to blame, and not what it compares with.
    pub of_operator: bool,
    /// The bytes of the expected text that are to blame.
    pub at: Option<Range<usize>>,
}

impl Comparison {
    /// The operator of a name, also of one that it has elsewhere: `>=` is `gte`.
    pub fn operator(name: &str) -> Result<NamedOperator, BadComparison> {
        let elsewhere = ELSEWHERE.iter().find(|(other, _)| *other == name).map(|(_, here)| *here);
        let named = table::named(name).or_else(|| table::named(elsewhere?));
        let bad = |message, hint| Err(BadComparison { message, hint, of_operator: true, at: None });
        match named {
            Some(NamedOperator { operator, .. }) if matches!(operator.takes, Takes::Check | Takes::Count) => {
                let message = format!("`{name}` is a check of parts of a value, and takes no single value");
                bad(message, Some("write it as an expectation".to_owned()))
            }
            Some(named) => Ok(named),
            None => {
                let known: Vec<String> = table::operator_names().collect();
                let hint = words::suggest(name, known.iter().map(String::as_str));
                bad(format!("there is no operator `{name}`"), hint)
            }
        }
    }

    /// Of an operator by its name, and what it compares with.
    pub fn new(operator: &str, expected: &Value) -> Result<Self, BadComparison> {
        let named = Self::operator(operator)?;
        let prepared = operand::prepare(named, expected).map_err(|unfit| BadComparison {
            message: unfit.message,
            hint: unfit.hint,
            of_operator: false,
            at: unfit.at,
        })?;
        Ok(Self { named, prepared, expected: expected.clone() })
    }

    /// What it asks.
    pub fn asks(&self) -> Op {
        self.named.operator.op
    }

    /// What it comes to for a part of a document, and why. The document has this name in the sentence; the path is
    /// empty for all of it. The error says why the path is none.
    pub fn check(&self, name: &str, document: &Value, path: &str) -> Result<Tree, String> {
        let path = if path.is_empty() { ActualPath::of(&[]) } else { ActualPath::parse(path)? };
        let root = Trail::ROOT.down(TrailStep::Verbatim(name));
        let trail = root.down(TrailStep::Path(path.steps()));
        let subject = walk(&path, Subject::Value(document));
        let result = apply(self.named, &self.prepared, subject, &mut String::new());
        let answer = answer_of(result, self.named.negated);
        // What a line is made of is its name.
        let node = ExpectationLine {
            written: self.named.operator.name.into(),
            span: threadline_lang::diag::Span::default(),
            what: LineKind::Together(Vec::new()),
        };
        let operand = Ok((&self.prepared, &self.expected));
        Ok(sentence::test(answer, &node, self.named, operand, subject, trail.text(), result))
    }
}
