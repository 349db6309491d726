//! Checking names: the evaluator without a world, for what it would meet for sure.

use super::{ProgramEvaluator, Session};
use crate::diag::error::Error;
use crate::scope::Scope;
use crate::syntax::{NodeId, Program, RootKind, SyntaxNode};
use crate::world::NoWorld;

/// The errors of the references under a node: every unknown root, and a missing value where evaluation comes to it for
/// sure and no default stands ready.
pub(crate) fn check(program: &Program, id: NodeId, scope: &Scope) -> Vec<Error> {
    let mut world = NoWorld;
    let mut session = Session::new(&mut world);
    let mut errors = Vec::new();
    program.visit(id, &mut |node, place| {
        let SyntaxNode::Path(path) = program.node(node) else { return };
        if !matches!(path.kind, RootKind::Named | RootKind::Nodes) {
            return;
        }
        if let Err(error) = ProgramEvaluator::new(&mut session, program, scope).check_path(path, node) {
            let excused = place.guarded && error.is_missing() || !place.sure && !error.is_unknown_name();
            if !excused {
                errors.push(error);
            }
        }
    });
    errors
}
