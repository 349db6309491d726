//! Expectations of something that has not happened yet: what they compare with is settled before, as far as it can be.
//!
//! What reads only names of the caller becomes a value now. What reads the actual document waits for it, with the
//! entries of `context` that it reads evaluated now: nothing is computed afterwards.

use ecow::EcoString;
use threadline_lang::{Error, Expression, Origin, Reference, ReferenceKind, Scope, Session, Syntax, Value};

use crate::actual::DocumentKind;
use crate::model::{Dynamic, ExpectationLine, Expectations, LineKind, Operand};
use crate::operand;
use crate::table;

/// Expectations that wait only for their actual document.
#[derive(Clone)]
pub struct Settled {
    /// The expectations with every expected value known.
    pub expectations: Expectations,
    /// The names that they see beside those of the document.
    pub scope: Scope,
}

impl std::fmt::Debug for Settled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settled").field("expectations", &self.expectations).finish_non_exhaustive()
    }
}

/// An expected value that cannot be settled.
#[derive(Debug, Clone)]
pub struct Unsettled {
    /// Where it stands.
    pub origin: Origin,
    /// Why the value is not known.
    pub why: UnsettledWhy,
}

/// Why an expected value cannot be settled.
#[derive(Debug, Clone)]
pub enum UnsettledWhy {
    /// A reference failed.
    Language(Error),
    /// The operator does not take the value.
    Unfit {
        /// What is wrong with it.
        message: String,
        /// The value that the reference gave.
        value: Value,
    },
}

impl Expectations {
    /// Settles what does not read the actual document, which will be of this kind.
    pub fn settle(
        &self,
        kind: DocumentKind,
        scope: &Scope,
        session: &mut Session<'_>,
    ) -> Result<Settled, Vec<Unsettled>> {
        let mut settled = self.clone();
        let mut settling = Settler { kind, scope, session, problems: Vec::new() };
        settled.members.iter_mut().for_each(|member| settling.node(&mut member.node));
        let mut entries: Vec<(EcoString, Value)> = Vec::new();
        for (origin, reference) in settled.late_references() {
            if reference.root == CONTEXT
                && let Some(name) = &reference.first
                && !entries.iter().any(|(known, _)| known == name)
            {
                entries.extend(settling.context(name, &origin).map(|value| (name.clone(), value)));
            }
        }
        if !settling.problems.is_empty() {
            return Err(settling.problems);
        }
        let scope =
            match Value::object(entries).and_then(|entries| Value::object([(CONTEXT.into(), entries)])) {
                Ok(context) => context.as_object().map(|context| scope.with_values(CONTEXT, context.clone())),
                Err(_) => None,
            };
        let scope = scope.unwrap_or_else(|| settling.scope.clone());
        Ok(Settled { expectations: settled, scope })
    }

    /// What is read when the actual document is there, with the place of each.
    pub fn late_references(&self) -> Vec<(Origin, Reference)> {
        let mut found = Vec::new();
        for dynamic in self.dynamics() {
            match dynamic {
                Dynamic::Value(field) => {
                    // Origins inside the value are told from its own.
                    found.extend(field.value.references());
                }
                Dynamic::Expression(field) => {
                    let references = field.value.references().into_iter();
                    found.extend(references.map(|reference| (field.origin.clone(), reference)));
                }
            }
        }
        found
    }

    /// Every expected value, in the order of the file.
    pub fn values(&self) -> Vec<(&EcoString, &Value)> {
        let mut found = Vec::new();
        for member in &self.members {
            member.node.visit(&mut |node| {
                if let Some(Operand::Fixed(_, value)) = operand_of(&node.what) {
                    found.push((&node.written, value));
                }
            });
        }
        found
    }

    /// Whether something of it is a question for a judge.
    pub fn asks_a_judge(&self) -> bool {
        let mut asks = false;
        for member in &self.members {
            member.node.visit(&mut |node| asks |= matches!(node.what, LineKind::Judge(_)));
        }
        asks
    }
}

impl Dynamic<'_> {
    /// Whether it can be evaluated only when the actual document, of this kind, is there.
    pub fn is_late(&self, kind: DocumentKind) -> bool {
        match self {
            Self::Value(field) => {
                field.value.references().iter().any(|(_, reference)| reads_actual(kind, reference))
            }
            Self::Expression(_) => true,
        }
    }
}

/// Whether a reference reads the actual document.
pub fn reads_actual(kind: DocumentKind, reference: &Reference) -> bool {
    reference.kind == ReferenceKind::Path && kind.roots().any(|root| root == reference.root)
}

const CONTEXT: &str = "context";

fn operand_of(what: &LineKind) -> Option<&Operand> {
    match what {
        LineKind::Test(test) => Some(&test.operand),
        LineKind::Rule(rule) => Some(&rule.operand),
        LineKind::Judge(operand) => Some(operand),
        _ => None,
    }
}

struct Settler<'s, 'w> {
    kind: DocumentKind,
    scope: &'s Scope,
    session: &'s mut Session<'w>,
    problems: Vec<Unsettled>,
}

impl Settler<'_, '_> {
    fn node(&mut self, node: &mut ExpectationLine) {
        match &mut node.what {
            LineKind::Together(nodes) | LineKind::Any(nodes) | LineKind::Step(nodes) => {
                for node in nodes {
                    self.node(node);
                }
            }
            LineKind::All(group) => group.members.iter_mut().for_each(|member| self.node(&mut member.node)),
            LineKind::Not(node) | LineKind::At(_, node) => self.node(node),
            LineKind::Inner(inner) => self.node(&mut inner.check),
            LineKind::When(when) => {
                self.node(&mut when.condition);
                when.then.iter_mut().chain(&mut when.otherwise).for_each(|node| self.node(node));
            }
            LineKind::Test(test) => self.operand(test.named, &mut test.operand),
            LineKind::Rule(_) | LineKind::Judge(_) | LineKind::Expression(_) | LineKind::LeftOut(_) => {}
        }
    }

    fn operand(&mut self, named: table::NamedOperator, operand: &mut Operand) {
        let Operand::Dynamic(field) = operand else { return };
        if Dynamic::Value(field).is_late(self.kind) {
            return;
        }
        let origin = field.origin.clone();
        self.session.set_origin(Some(origin.clone()));
        match field.value.resolve(self.scope, self.session) {
            Err(errors) => {
                let unsettled =
                    |error| Unsettled { origin: origin.clone(), why: UnsettledWhy::Language(error) };
                self.problems.extend(errors.into_iter().map(unsettled));
            }
            Ok(value) => match operand::prepare(named, &value) {
                Ok(prepared) => *operand = Operand::Fixed(prepared.into(), value),
                Err(unfit) => {
                    let why = UnsettledWhy::Unfit { message: unfit.message, value };
                    self.problems.push(Unsettled { origin, why });
                }
            },
        }
    }

    /// An entry of `context` that is read later.
    fn context(&mut self, name: &str, origin: &Origin) -> Option<Value> {
        let mut path = CONTEXT.to_owned();
        threadline_lang::push_key(&mut path, name);
        let entry = Expression::parse(path, &Syntax::DEFAULT).ok()?;
        self.session.set_origin(Some(origin.clone()));
        let value = entry.value(self.scope, self.session);
        let unsettled = |error| Unsettled { origin: origin.clone(), why: UnsettledWhy::Language(error) };
        value.map_err(|error| self.problems.push(unsettled(error))).ok()
    }
}
