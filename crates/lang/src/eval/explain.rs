//! Why an expression came to its value: the tree with each part's value.

use super::{Eval, Val};
use crate::diag::Span;
use crate::diag::error::Error;
use crate::syntax::{Node, NodeId, Program};
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
    /// The parts it was made of; literals are left out.
    pub parts: Vec<Explanation>,
}

impl Eval<'_, '_, '_> {
    pub(super) fn record(&mut self, id: NodeId, result: &Result<Val<'_>, Error>) {
        let outcome = match result {
            Ok(value) => Ok((**value).clone()),
            Err(error) => Err(error.clone()),
        };
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
    if let Node::Chain(links) = program.node(id) {
        return chain(program, id, program.list(*links), outcomes);
    }
    let mut parts = Vec::new();
    program.children(id, &mut |child| {
        if !matches!(program.node(child), Node::Const(_)) {
            parts.push(explanation(program, child, outcomes));
        }
    });
    explained(program, id, parts, outcomes)
}

/// A chain is made of its links; the operand that two of them share is explained in the first.
fn chain(
    program: &Program,
    id: NodeId,
    links: &[NodeId],
    outcomes: &[Option<Result<Value, Error>>],
) -> Explanation {
    let parts = links.iter().enumerate().filter_map(|(at, link)| {
        let (_, left, right) = program.link(*link)?;
        let operands = [(at == 0).then_some(left), Some(right)].into_iter().flatten();
        let operands = operands.filter(|operand| !matches!(program.node(*operand), Node::Const(_)));
        let operands = operands.map(|operand| explanation(program, operand, outcomes)).collect();
        Some(explained(program, *link, operands, outcomes))
    });
    explained(program, id, parts.collect(), outcomes)
}

fn explained(
    program: &Program,
    id: NodeId,
    parts: Vec<Explanation>,
    outcomes: &[Option<Result<Value, Error>>],
) -> Explanation {
    Explanation {
        source: program.text(program.span(id)).to_owned(),
        span: program.span(id),
        outcome: outcomes.get(id as usize).cloned().flatten(),
        parts,
    }
}
