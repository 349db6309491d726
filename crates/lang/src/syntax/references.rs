//! What a program can read, without evaluating it.

use ecow::EcoString;

use super::{NodeId, Program, StepView, SyntaxNode, TemplatePart};
use crate::diag::Span;
use crate::func::Body;

/// Something that a template or expression can read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The root of the path, or the kind of computed value.
    pub root: EcoString,
    /// The path as it is written, or the computed value's source.
    pub path: EcoString,
    /// The first step of the path, when it is a key: the name in a table of names.
    pub first: Option<EcoString>,
    /// What it reads.
    pub kind: ReferenceKind,
    /// Whether `default`, `exists` or `:-` stand ready for its being missing.
    pub guarded: bool,
    /// What takes part in making something of it, the innermost last: names of functions and kinds, signs of operators.
    pub uses: Vec<EcoString>,
    /// Where it stands.
    pub span: Span,
}

/// What a reference reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReferenceKind {
    /// A name of the scope, or a built-in root.
    Path,
    /// A computed value.
    Computed,
}

/// What is known of the place of a node.
#[derive(Clone, Copy)]
pub(crate) struct NodeReach {
    /// A default stands ready for what is missing there.
    pub guarded: bool,
    /// Every evaluation comes to it.
    pub sure: bool,
}

impl Program {
    /// The references under a node.
    pub(crate) fn references(&self, id: NodeId, out: &mut Vec<Reference>) {
        self.references_in(id, false, &mut Vec::new(), out);
    }

    fn references_in(&self, id: NodeId, guarded: bool, uses: &mut Vec<EcoString>, out: &mut Vec<Reference>) {
        let span = self.span(id);
        let found = match self.node(id) {
            SyntaxNode::Path(path) => {
                let first = self.steps(path.steps).first().and_then(StepView::key).map(EcoString::from);
                Some((self.name(path.root).into(), first, ReferenceKind::Path))
            }
            SyntaxNode::Compute { kind, .. } => Some((kind.name().clone(), None, ReferenceKind::Computed)),
            _ => None,
        };
        if let Some((root, first, kind)) = found {
            let path = self.text(span).into();
            out.push(Reference { root, path, first, kind, guarded, uses: uses.clone(), span });
        }
        let mut at = 0;
        self.children(id, &mut |child| {
            let made = self.use_of(id, at);
            uses.extend(made.clone());
            self.references_in(child, self.guards(id, at, guarded), uses, out);
            if made.is_some() {
                uses.pop();
            }
            at += 1;
        });
    }

    /// What a node makes of its child at a position; nothing where the child is the result or a part of its text.
    fn use_of(&self, id: NodeId, at: usize) -> Option<EcoString> {
        Some(match self.node(id) {
            SyntaxNode::Walk(..) => ".".into(),
            SyntaxNode::Index(..) | SyntaxNode::Slice(..) => "[]".into(),
            SyntaxNode::Not(_) => "not".into(),
            SyntaxNode::Neg(_) => "-".into(),
            SyntaxNode::And(_) => "and".into(),
            SyntaxNode::Or(_) => "or".into(),
            SyntaxNode::List(_) | SyntaxNode::Object(..) => "{}".into(),
            SyntaxNode::Binary(operator, ..) => operator.symbol().into(),
            // The operator before it; the first has the one behind it.
            SyntaxNode::Terms(_, rest) => {
                self.terms[rest.range()].get(at.saturating_sub(1))?.0.symbol().into()
            }
            SyntaxNode::Chain(_) => "==".into(),
            // The condition stands between what it chooses from.
            SyntaxNode::If { .. } if at == 1 => "if".into(),
            SyntaxNode::Const(_)
            | SyntaxNode::Path(_)
            | SyntaxNode::Element(_)
            | SyntaxNode::Text(_)
            | SyntaxNode::OrText(..)
            | SyntaxNode::If { .. } => return None,
            SyntaxNode::Call { function, .. } => function.name.into(),
            SyntaxNode::Compute { kind, .. } => kind.name().clone(),
        })
    }

    /// Calls `visit` for a node and all below it, with what is known of its place.
    pub(crate) fn visit(&self, id: NodeId, visit: &mut dyn FnMut(NodeId, NodeReach)) {
        self.visit_in(id, NodeReach { guarded: false, sure: true }, visit);
    }

    fn visit_in(&self, id: NodeId, place: NodeReach, visit: &mut dyn FnMut(NodeId, NodeReach)) {
        visit(id, place);
        let mut at = 0;
        self.children(id, &mut |child| {
            let place = NodeReach {
                guarded: self.guards(id, at, place.guarded),
                // What is missing before it may end the matter, where a default stands ready.
                sure: place.sure && self.always_reads(id, at) && !(place.guarded && at > 0),
            };
            at += 1;
            self.visit_in(child, place, visit);
        });
    }

    /// Whether a default stands ready for the child at a position, when one does for the node or not.
    fn guards(&self, id: NodeId, at: usize, guarded: bool) -> bool {
        match self.node(id) {
            SyntaxNode::OrText(..) => guarded || at == 0,
            SyntaxNode::Call { function, .. } => match function.body {
                Body::Exists => true,
                Body::Default => guarded || at == 0,
                // Only the first argument is what a default around the call is about.
                _ => guarded && at == 0,
            },
            _ => guarded,
        }
    }

    /// Whether evaluating a node evaluates its child at a position, whatever the values are.
    fn always_reads(&self, id: NodeId, at: usize) -> bool {
        match self.node(id) {
            SyntaxNode::And(_) | SyntaxNode::Or(_) | SyntaxNode::OrText(..) => at == 0,
            SyntaxNode::Chain(_) => at < 2,
            // The condition stands between what it chooses from.
            SyntaxNode::If { .. } => at == 1,
            SyntaxNode::Call { function, args, .. } => match function.body {
                Body::Default => at == 0,
                _ => at < args.len as usize,
            },
            _ => true,
        }
    }

    /// Calls `visit` for each node directly below one, in the order they are written.
    pub(crate) fn children(&self, id: NodeId, visit: &mut dyn FnMut(NodeId)) {
        match self.node(id) {
            SyntaxNode::Const(_) | SyntaxNode::Path(_) | SyntaxNode::Element(_) => {}
            SyntaxNode::Text(parts) => parts_children(&self.parts[parts.range()], visit),
            SyntaxNode::OrText(head, parts) => {
                visit(*head);
                parts_children(&self.parts[parts.range()], visit);
            }
            SyntaxNode::Walk(node, _) | SyntaxNode::Not(node) | SyntaxNode::Neg(node) => visit(*node),
            SyntaxNode::Index(a, b) | SyntaxNode::Binary(_, a, b) => {
                visit(*a);
                visit(*b);
            }
            SyntaxNode::Slice(base, from, to) => {
                visit(*base);
                from.iter().chain(to).for_each(|node| visit(*node));
            }
            SyntaxNode::And(run)
            | SyntaxNode::Or(run)
            | SyntaxNode::List(run)
            | SyntaxNode::Object(_, run)
            | SyntaxNode::Compute { args: run, .. } => {
                self.list(*run).iter().for_each(|node| visit(*node));
            }
            // The operand that two links share is visited once.
            SyntaxNode::Chain(links) => {
                let operands = self.list(*links).iter().filter_map(|link| self.link(*link));
                for (at, (_, left, right)) in operands.enumerate() {
                    if at == 0 {
                        visit(left);
                    }
                    visit(right);
                }
            }
            SyntaxNode::Terms(first, rest) => {
                visit(*first);
                self.terms[rest.range()].iter().for_each(|(_, node)| visit(*node));
            }
            SyntaxNode::If { condition, yes, no } => {
                visit(*yes);
                visit(*condition);
                visit(*no);
            }
            SyntaxNode::Call { args, element, .. } => {
                self.list(*args).iter().for_each(|node| visit(*node));
                if let Some(element) = element {
                    visit(*element);
                }
            }
        }
    }
}

fn parts_children(parts: &[TemplatePart], visit: &mut dyn FnMut(NodeId)) {
    for part in parts {
        if let TemplatePart::Ref(node, _) = part {
            visit(*node);
        }
    }
}
