//! Text in, program out: one hand-written parser for templates, references and expressions.
//!
//! A [`Program`] is a flat arena: nodes refer to each other by index, names carry their hashes, and nothing in it
//! knows a scope. The parser is bounded in depth, so everything that walks a program may recurse.

mod calls;
mod expression;
mod foreign;
mod not_a_path;
mod parser;
mod print;
mod quoted;
mod references;

use std::sync::Arc;

use ecow::EcoString;

use crate::diag::{Fix, Span};
use crate::func::Function;
use crate::limits::Limits;
use crate::value::{Key, KeyTable, LastPosition, Value, ops::BinaryOp};

pub use foreign::ForeignReference;
pub(crate) use parser::{
    SyntaxError, has_reference, next_reference, parse_embedded, parse_expression, parse_template,
};
pub use references::{Reference, ReferenceKind};

/// What the parser needs to know besides the text.
#[derive(Debug, Clone, Default)]
pub struct Syntax {
    /// The limits in force.
    pub limits: Limits,
    /// Declared kinds of computed values, beside `file`, `cmd`, `json` and `date`.
    pub kinds: Vec<EcoString>,
}

impl Syntax {
    /// The language without declared kinds, under the default limits.
    pub const DEFAULT: Self = Self { limits: Limits::DEFAULT, kinds: Vec::new() };

    pub(crate) fn is_kind(&self, name: &str) -> bool {
        BUILT_IN_KINDS.contains(&name) || self.kinds.iter().any(|kind| kind == name)
    }
}

/// The kinds of computed values that need no declaration.
pub const BUILT_IN_KINDS: [&str; 4] = ["cmd", "date", "file", "json"];

/// The roots that no data can hide.
pub const BUILT_IN_ROOTS: [&str; 3] = ["env", "nodes", "uuid"];

/// Roots that are tables of names: the first step into one is literal.
pub(crate) const TABLES: [&str; 7] = ["captured", "context", "env", "imports", "inputs", "nodes", "secrets"];

/// The index of a node.
pub(crate) type NodeId = u32;

/// A run of entries in one of a program's tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodeRange {
    pub start: u32,
    pub len: u32,
}

impl NodeRange {
    #[inline]
    pub(crate) fn range(self) -> std::ops::Range<usize> {
        self.start as usize..(self.start + self.len) as usize
    }
}

#[derive(Default)]
pub(crate) struct Program {
    pub source: EcoString,
    /// Names that do not stand in the source as they are.
    pub pool: String,
    /// Each node and where it stands.
    pub nodes: Vec<(SyntaxNode, Span)>,
    pub steps: Vec<SyntaxStep>,
    pub lists: Vec<NodeId>,
    pub terms: Vec<(BinaryOp, NodeId)>,
    pub parts: Vec<TemplatePart>,
    /// What is written as an older system does, each with what stands for it today.
    pub old_spellings: Vec<Fix>,
}

/// One node of a program. Children are indexes into the tables of the program.
pub(crate) enum SyntaxNode {
    /// A literal value.
    Const(Value),
    /// A path from a root of the scope.
    Path(ReferencePath),
    /// A path from the element of an element expression.
    Element(NodeRange),
    /// Text with references.
    Text(NodeRange),
    /// Steps into a value that is not named by a root.
    Walk(NodeId, NodeRange),
    Index(NodeId, NodeId),
    Slice(NodeId, Option<NodeId>, Option<NodeId>),
    Not(NodeId),
    Neg(NodeId),
    /// `a and b and c`
    And(NodeRange),
    /// `a or b or c`
    Or(NodeRange),
    /// One operator between two operands.
    Binary(BinaryOp, NodeId, NodeId),
    /// Several operators of one precedence, from the left.
    Terms(NodeId, NodeRange),
    /// `a < b < c`: the links `a < b` and `b < c`, which share the operand between them.
    Chain(NodeRange),
    /// `yes if condition else no`
    If {
        condition: NodeId,
        yes: NodeId,
        no: NodeId,
    },
    /// A built-in; an element expression stands apart from the arguments.
    Call {
        function: &'static Function,
        args: NodeRange,
        element: Option<NodeId>,
    },
    /// A computed value.
    Compute {
        kind: Key,
        args: NodeRange,
    },
    OrText(NodeId, NodeRange),
    List(NodeRange),
    Object(Arc<KeyTable>, NodeRange),
}

/// A path from a root.
pub(crate) struct ReferencePath {
    pub root: Name,
    pub last: LastPosition,
    pub kind: RootKind,
    pub steps: NodeRange,
}

/// Who answers for a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RootKind {
    /// A name of the scope.
    Named,
    /// The world's environment.
    Env,
    /// The outputs in the scope, by id.
    Nodes,
    /// `uuid`, which the world computes.
    Uuid,
}

impl RootKind {
    fn of(name: &str) -> Self {
        match name {
            "env" => Self::Env,
            "nodes" => Self::Nodes,
            "uuid" => Self::Uuid,
            _ => Self::Named,
        }
    }
}

/// A name in a program's source, or in its pool of decoded names, with its hash.
#[derive(Clone, Copy)]
pub(crate) struct Name {
    pub hash: u32,
    start: u32,
    len: u32,
}

/// Set in the start of a name that stands in the pool.
const IN_POOL: u32 = 1 << 31;

/// One step of a path. It is flat, so that the parser writes it straight into its table.
pub(crate) struct SyntaxStep {
    sort: StepSort,
    /// The name; of an index its two halves, in place of position and length.
    name: Name,
    pub last: LastPosition,
    pub span: Span,
}

/// How a step is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepSort {
    Name,
    Quoted,
    Digits,
    Index,
}

pub(crate) enum StepKind {
    Name(Name),
    Quoted(Name),
    /// `.0`: an index of a list, a key of an object.
    Digits(Name),
    Index(i64),
}

/// A step with its name at hand.
#[derive(Clone, Copy)]
pub(crate) enum StepView<'p> {
    Name(&'p str),
    Quoted(&'p str),
    Digits(&'p str),
    Index(i64),
}

/// Steps of a program, or some of them.
#[derive(Clone, Copy)]
pub(crate) struct Steps<'p> {
    pub program: &'p Program,
    pub steps: &'p [SyntaxStep],
}

/// A piece of a template.
pub(crate) enum TemplatePart {
    /// A range of the source.
    Lit(Span),
    /// Text that is not in the source as it stands.
    Owned(EcoString),
    /// A reference and where it stands, braces included.
    Ref(NodeId, Span),
}

impl Program {
    #[inline]
    pub(crate) fn node(&self, id: NodeId) -> &SyntaxNode {
        &self.nodes[id as usize].0
    }

    #[inline]
    pub(crate) fn span(&self, id: NodeId) -> Span {
        self.nodes[id as usize].1
    }

    #[inline]
    pub(crate) fn list(&self, run: NodeRange) -> &[NodeId] {
        &self.lists[run.range()]
    }

    /// The operands of a link of a chain.
    pub(crate) fn link(&self, id: NodeId) -> Option<(BinaryOp, NodeId, NodeId)> {
        match self.node(id) {
            SyntaxNode::Binary(op, left, right) => Some((*op, *left, *right)),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn steps(&self, run: NodeRange) -> Steps<'_> {
        Steps { program: self, steps: &self.steps[run.range()] }
    }

    /// The text of a command with references, when a node is one.
    pub(crate) fn bound_command(&self, id: NodeId) -> Option<&str> {
        let SyntaxNode::Compute { kind, args } = self.node(id) else { return None };
        let ("cmd", [arg]) = (kind.as_str(), self.list(*args)) else { return None };
        let SyntaxNode::List(list) = self.node(*arg) else { return None };
        let first = self.list(*list).first()?;
        match self.node(*first) {
            SyntaxNode::Const(text) => text.as_str(),
            _ => None,
        }
    }

    /// The text of a command that takes arguments, and the number of these.
    pub(crate) fn command_call(&self, id: NodeId) -> Option<(&str, usize)> {
        let SyntaxNode::Compute { kind, args } = self.node(id) else { return None };
        let ("cmd", [command, arguments @ ..]) = (kind.as_str(), self.list(*args)) else { return None };
        match self.node(*command) {
            SyntaxNode::Const(text) => Some((text.as_str()?, arguments.len())),
            _ => None,
        }
    }

    /// The text of a name.
    #[inline]
    pub(crate) fn name(&self, name: Name) -> &str {
        let text = if name.start & IN_POOL == 0 { self.source.as_str() } else { &self.pool };
        let start = (name.start & !IN_POOL) as usize;
        // Names are only ever made of the source or the pool, which never shrinks.
        text.get(start..start + name.len as usize).unwrap_or("")
    }

    /// The source of a span.
    pub(crate) fn text(&self, span: Span) -> &str {
        self.source.get(span.range()).unwrap_or("")
    }
}

impl SyntaxStep {
    #[inline]
    pub(crate) fn new(sort: StepSort, name: Name, span: Span) -> Self {
        Self { sort, name, last: LastPosition::default(), span }
    }

    pub(crate) fn index(index: i64, span: Span) -> Self {
        let [start, len] = [index >> 32, index & 0xffff_ffff].map(|half| {
            // Half of the bits, as they are.
            u32::try_from(half & 0xffff_ffff).unwrap_or(0)
        });
        Self::new(StepSort::Index, Name { hash: 0, start, len }, span)
    }

    #[inline]
    pub(crate) fn kind(&self) -> StepKind {
        match self.sort {
            StepSort::Name => StepKind::Name(self.name),
            StepSort::Quoted => StepKind::Quoted(self.name),
            StepSort::Digits => StepKind::Digits(self.name),
            StepSort::Index => {
                let bits = u64::from(self.name.start) << 32 | u64::from(self.name.len);
                StepKind::Index(bits.cast_signed())
            }
        }
    }
}

impl<'p> Steps<'p> {
    /// The first `count` of them.
    pub(crate) fn to(self, count: usize) -> Self {
        Self { steps: self.steps.get(..count).unwrap_or(self.steps), ..self }
    }

    /// Those behind the first `count`.
    pub(crate) fn after(self, count: usize) -> Self {
        Self { steps: self.steps.get(count..).unwrap_or_default(), ..self }
    }

    pub(crate) fn first(self) -> Option<StepView<'p>> {
        self.steps.first().map(|step| self.view(step))
    }

    /// Where the first of them stands.
    pub(crate) fn span(self) -> Span {
        self.steps.first().map_or(Span::default(), |step| step.span)
    }

    pub(crate) fn views(self) -> impl Iterator<Item = StepView<'p>> {
        self.steps.iter().map(move |step| self.view(step))
    }

    fn view(self, step: &SyntaxStep) -> StepView<'p> {
        match step.kind() {
            StepKind::Name(name) => StepView::Name(self.program.name(name)),
            StepKind::Quoted(name) => StepView::Quoted(self.program.name(name)),
            StepKind::Digits(name) => StepView::Digits(self.program.name(name)),
            StepKind::Index(index) => StepView::Index(index),
        }
    }

    /// The path from a prefix, as it would be written.
    pub(crate) fn text(self, prefix: &str) -> String {
        let mut text = prefix.to_owned();
        self.views().for_each(|step| step.write(&mut text));
        text
    }
}

impl<'p> StepView<'p> {
    /// The key of an object that it names.
    pub(crate) fn key(self) -> Option<&'p str> {
        match self {
            Self::Name(name) | Self::Quoted(name) | Self::Digits(name) => Some(name),
            Self::Index(_) => None,
        }
    }

    /// Appends the step as it would be written in a path.
    pub(crate) fn write(self, out: &mut String) {
        match self {
            Self::Name(name) | Self::Digits(name) => {
                out.push('.');
                out.push_str(name);
            }
            Self::Quoted(name) => {
                out.push('[');
                crate::value::quote(name, out);
                out.push(']');
            }
            Self::Index(index) => {
                out.push('[');
                out.push_str(itoa::Buffer::new().format(index));
                out.push(']');
            }
        }
    }
}

impl std::fmt::Display for StepView<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = String::new();
        self.write(&mut text);
        f.write_str(&text)
    }
}

/// Whether a name may stand after a dot in a reference.
pub fn is_plain_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('-')
        && name.chars().all(|char| char == '-' || unicode_ident::is_xid_continue(char))
}

/// Appends a key to the text of a path: behind a dot if it is a plain name, otherwise in brackets and quotes.
pub fn push_key(out: &mut String, key: &str) {
    if is_plain_name(key) {
        if !out.is_empty() {
            out.push('.');
        }
        out.push_str(key);
    } else {
        out.push('[');
        crate::value::quote(key, out);
        out.push(']');
    }
}
