//! An expectation that was read: checked keys, prepared operands, templates compiled.
//!
//! A model holds no actual document. What can be decided when a file is read has been.

use std::sync::Arc;

use ecow::EcoString;
use threadline_lang::diag::Span;
use threadline_lang::source::Field;
use threadline_lang::{Document, Expression, Number, Value};

use crate::actual::Actual;
use crate::operand::{PreparedOperand, TypeName};
use crate::path::ActualPath;
use crate::table::{FieldName, NamedOperator};

/// The expectations of a file.
#[derive(Debug, Clone)]
pub struct Expectations {
    pub(crate) members: Vec<Expectation>,
    /// No two of them may be met by one step of the plan.
    pub(crate) distinct: bool,
    /// The types of facts, where the file declares them.
    pub(crate) facts: Vec<(EcoString, TypeName)>,
}

impl Expectations {
    /// Each of them.
    pub fn members(&self) -> &[Expectation] {
        &self.members
    }

    /// The facts of a document that are of another type than declared, each as a sentence.
    pub fn wrong_facts(&self, actual: &Actual) -> Vec<String> {
        let facts = actual.document().get("facts");
        let wrong = self.facts.iter().filter_map(|(name, declared)| {
            let found = facts?.get(name)?.kind();
            let sentence = || {
                let declared = declared.name();
                format!("the fact `{name}` is declared as {declared}, but is {}", found.with_article())
            };
            (!declared.is(found)).then(sentence)
        });
        wrong.collect()
    }
}

/// A declared check with a name and prepared operands.
#[derive(Debug, Clone)]
pub struct Expectation {
    pub(crate) name: EcoString,
    pub(crate) description: Option<EcoString>,
    pub(crate) span: Span,
    pub(crate) node: ExpectationLine,
}

impl Expectation {
    /// What it is called.
    pub fn name(&self) -> &EcoString {
        &self.name
    }

    /// What it is for.
    pub fn description(&self) -> Option<&EcoString> {
        self.description.as_ref()
    }

    /// Where it stands in its file.
    pub fn span(&self) -> Span {
        self.span
    }
}

/// One line of an expectation.
#[derive(Debug, Clone)]
pub(crate) struct ExpectationLine {
    /// The key as it is written.
    pub written: EcoString,
    pub span: Span,
    pub what: LineKind,
}

/// What a line asks.
#[derive(Debug, Clone)]
pub(crate) enum LineKind {
    /// Lines side by side: each of them.
    Together(Vec<ExpectationLine>),
    All(MemberGroup),
    Any(Vec<ExpectationLine>),
    Not(Box<ExpectationLine>),
    When(Box<When>),
    /// The same of a part of the value.
    At(ActualPath, Box<ExpectationLine>),
    Test(Test),
    Inner(InnerCheck),
    /// One step of the plan meets all of these.
    Step(Vec<ExpectationLine>),
    Rule(FieldRule),
    /// A question for a judge.
    Judge(Operand),
    Expression(Arc<Field<Expression>>),
    /// A key that is not known, where that is no error.
    LeftOut(EcoString),
}

/// The members of `all`.
#[derive(Debug, Clone)]
pub(crate) struct MemberGroup {
    pub members: Vec<WeightedMember>,
    /// How they are counted; none where every one must be met.
    pub score: Option<Score>,
    /// Each has a step of the plan of its own.
    pub distinct: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct WeightedMember {
    pub node: ExpectationLine,
    pub weight: Number,
    pub must: bool,
}

/// How the members of a group are counted.
#[derive(Debug, Clone)]
pub(crate) struct Score {
    /// So much of the weight has to be met; none where every member must be.
    pub threshold: Option<Number>,
}

#[derive(Debug, Clone)]
pub(crate) struct When {
    pub condition: ExpectationLine,
    pub then: Option<ExpectationLine>,
    pub otherwise: Option<ExpectationLine>,
}

/// An operator and what stands behind it.
#[derive(Debug, Clone)]
pub(crate) struct Test {
    pub named: NamedOperator,
    pub operand: Operand,
}

/// What an operator compares with.
#[derive(Debug, Clone)]
pub(crate) enum Operand {
    /// Known from the file.
    Fixed(Arc<PreparedOperand>, Value),
    /// Known when its references are.
    Dynamic(Arc<Field<Document>>),
}

/// A check of what is in a value.
#[derive(Debug, Clone)]
pub(crate) struct InnerCheck {
    pub kind: InnerKind,
    pub negated: bool,
    pub check: Box<ExpectationLine>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InnerKind {
    Each,
    Some,
    AtLeast(u64),
    Length,
}

/// A field that is decided by a rule of its own.
#[derive(Debug, Clone)]
pub(crate) struct FieldRule {
    pub field: FieldName,
    pub operand: Operand,
}

/// Something of an expectation that reads names: an expected value, or an expression.
pub enum Dynamic<'e> {
    /// An expected value with references.
    Value(&'e Field<Document>),
    /// The expression of an `expr`.
    Expression(&'e Field<Expression>),
}

impl Expectations {
    /// Everything that reads names, in the order of the file.
    pub fn dynamics(&self) -> Vec<Dynamic<'_>> {
        let mut found = Vec::new();
        for member in &self.members {
            member.node.visit(&mut |node| match &node.what {
                LineKind::Test(Test { operand: Operand::Dynamic(field), .. })
                | LineKind::Rule(FieldRule { operand: Operand::Dynamic(field), .. })
                | LineKind::Judge(Operand::Dynamic(field)) => found.push(Dynamic::Value(field)),
                LineKind::Expression(field) => found.push(Dynamic::Expression(field)),
                _ => {}
            });
        }
        found
    }

    /// Whether a path of it leads into this name at the root of the actual document.
    pub fn reads(&self, root: &str) -> bool {
        let mut reads = false;
        for member in &self.members {
            member.node.visit(&mut |node| {
                reads |= match &node.what {
                    LineKind::At(path, _) => path.root() == Some(root),
                    _ => false,
                }
            });
        }
        let expression =
            |field: &Field<Expression>| field.value.references().iter().any(|found| found.root == root);
        reads
            || self
                .dynamics()
                .iter()
                .any(|dynamic| matches!(dynamic, Dynamic::Expression(field) if expression(field)))
    }
}

impl ExpectationLine {
    /// Itself and every line below.
    pub(crate) fn visit<'n>(&'n self, seen: &mut impl FnMut(&'n Self)) {
        seen(self);
        self.each_child(&mut |child| child.visit(seen));
    }

    fn each_child<'n>(&'n self, seen: &mut impl FnMut(&'n Self)) {
        match &self.what {
            LineKind::Together(nodes) | LineKind::Any(nodes) | LineKind::Step(nodes) => {
                nodes.iter().for_each(seen);
            }
            LineKind::All(group) => group.members.iter().for_each(|member| seen(&member.node)),
            LineKind::Not(node) | LineKind::At(_, node) => seen(node),
            LineKind::Inner(inner) => seen(&inner.check),
            LineKind::When(when) => {
                seen(&when.condition);
                when.then.iter().chain(&when.otherwise).for_each(seen);
            }
            LineKind::Test(_)
            | LineKind::Rule(_)
            | LineKind::Judge(_)
            | LineKind::Expression(_)
            | LineKind::LeftOut(_) => {}
        }
    }
}
