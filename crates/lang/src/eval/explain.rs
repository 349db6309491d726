//! Why an expression came to its value: the tree with each part's value.

use std::ops::Range;

use super::{ProgramEvaluator, Val};
use crate::diag::error::Error;
use crate::diag::{Span, excerpt};
use crate::syntax::{NodeId, Program, SyntaxNode};
use crate::value::Value;

/// One part of an expression and what it came to.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// The part as it is written.
    pub source: String,
    /// Where it stands.
    pub span: Span,
    /// Its value, its error, or nothing when it was not evaluated.
    pub outcome: Option<Result<Value, Error>>,
    /// Whether it was evaluated for each element of a list, so that there is no one value.
    pub for_each: bool,
    /// The parts it was made of; literals are left out.
    pub parts: Vec<Explanation>,
}

impl Explanation {
    /// The text it was parsed from, with what was read in place of the references.
    pub fn in_source(&self, source: &str) -> String {
        let mut read = Vec::new();
        self.leaves(&mut read);
        read.sort_by_key(|(span, _)| std::cmp::Reverse(span.start));
        let mut text = source.to_owned();
        for (span, value) in read {
            let range = with_braces(&text, span.range());
            if text.get(range.clone()).is_some() {
                text.replace_range(range, &value);
            }
        }
        text
    }

    /// The parts that are made of no others, with their values.
    fn leaves(&self, found: &mut Vec<(Span, String)>) {
        if self.parts.is_empty()
            && let Some(Ok(value)) = &self.outcome
        {
            found.push((self.span, excerpt(value)));
        }
        self.parts.iter().for_each(|part| part.leaves(found));
    }
}

/// A reference with the `${` and `}` around it, where they are there.
fn with_braces(text: &str, range: Range<usize>) -> Range<usize> {
    let before = text.get(..range.start).and_then(|before| before.trim_end().strip_suffix("${"));
    let behind = text.get(range.end..).and_then(|behind| behind.trim_start().strip_prefix('}'));
    match (before, behind) {
        (Some(before), Some(behind)) => before.len()..text.len() - behind.len(),
        _ => range,
    }
}

impl ProgramEvaluator<'_, '_, '_> {
    pub(super) fn record(&mut self, id: NodeId, result: &Result<Val<'_>, Error>) {
        let outcome = match result {
            Ok(value) => Ok((**value).clone()),
            Err(error) => Err(error.clone()),
        };
        self.record_outcome(id, outcome);
    }

    pub(super) fn record_outcome(&mut self, id: NodeId, outcome: Result<Value, Error>) {
        if let Some(slot) = self.session.outcomes().and_then(|outcomes| outcomes.get_mut(id as usize)) {
            *slot = Some(outcome);
        }
    }

    /// Evaluates a node and says what each of its parts came to.
    pub(crate) fn explain(&mut self, id: NodeId) -> Explanation {
        self.session.set_outcomes(Some(vec![None; self.program.nodes.len()]));
        // The outcome of the whole is recorded like that of every part.
        let _ = self.node(id);
        let outcomes = self.session.set_outcomes(None).unwrap_or_default();
        explanation(self.program, id, &outcomes)
    }
}

fn explanation(program: &Program, id: NodeId, outcomes: &[Option<Result<Value, Error>>]) -> Explanation {
    let outcome = outcomes.get(id as usize).cloned().flatten();
    let element = match program.node(id) {
        SyntaxNode::Call { element, .. } if outcome.is_some() => *element,
        _ => None,
    };
    let mut parts = Vec::new();
    if let SyntaxNode::Chain(links) = program.node(id) {
        for (at, link) in program.list(*links).iter().enumerate() {
            let mut shown = Explanation {
                source: program.text(program.span(*link)).to_owned(),
                span: program.span(*link),
                outcome: outcomes.get(*link as usize).cloned().flatten(),
                for_each: false,
                parts: Vec::new(),
            };
            // The operand between two links is shown with the first of them.
            let operands = program.link(*link).map(|(_, left, right)| [left, right]);
            for operand in operands.iter().flatten().skip(usize::from(at > 0)) {
                if !matches!(program.node(*operand), SyntaxNode::Const(_)) {
                    shown.parts.push(explanation(program, *operand, outcomes));
                }
            }
            parts.push(shown);
        }
        let source = program.text(program.span(id)).to_owned();
        return Explanation { source, span: program.span(id), outcome, for_each: false, parts };
    }
    program.children(id, &mut |child| {
        if Some(child) == element {
            // Its parts were evaluated with it, each time anew.
            let span = program.span(child);
            let source = program.text(span).to_owned();
            parts.push(Explanation { source, span, outcome: None, for_each: true, parts: Vec::new() });
        } else if !matches!(program.node(child), SyntaxNode::Const(_)) {
            parts.push(explanation(program, child, outcomes));
        }
    });
    let source = program.text(program.span(id)).to_owned();
    Explanation { source, span: program.span(id), outcome, for_each: false, parts }
}
