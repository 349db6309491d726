//! Types before values: which a program can give, and where it can only fail.
//!
//! Operators are asked with a sample of each type, and literals are evaluated: the evaluator itself says what it takes.
//! Only what fails whatever the values will be is reported.

use super::{ProgramEvaluator, Session, Warning};
use crate::diag::error::{Error, ErrorKind};
use crate::func::{Body, Function, strftime};
use crate::scope::{EntryRef, Promise, PromisedShape, Scope};
use crate::syntax::{
    NodeId, NodeRange, Program, ReferencePath, RootKind, StepView, Steps, SyntaxNode, TemplatePart,
};
use crate::value::ops::{BinaryOp, OpError, binary};
use crate::value::{Key, Number, Type, Value};
use crate::world::NoWorld;

/// The types that a value may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Types(u8);

impl Types {
    /// The set of all types.
    pub const ANY: Self = Self(0x7f);
    const NONE: Self = Self(0);
    const NUMBER: Self = Self(1 << Type::Int as u8 | 1 << Type::Decimal as u8);

    /// Just this type.
    pub const fn one(kind: Type) -> Self {
        Self(1 << kind as u8)
    }

    /// What a promise of a type says. A decimal stands for any number.
    fn promised(kind: Option<Type>) -> Self {
        match kind {
            None => Self::ANY,
            Some(Type::Decimal) => Self::NUMBER,
            Some(kind) => Self::one(kind),
        }
    }

    fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn without(self, kind: Type) -> Self {
        Self(self.0 & !Self::one(kind).0)
    }

    /// Whether it may be this one.
    pub fn may_be(self, kind: Type) -> bool {
        self.0 & Self::one(kind).0 != 0
    }

    /// The one type it can be, when there is one. Any number is a decimal.
    pub fn only(self) -> Option<Type> {
        if self == Self::NUMBER {
            return Some(Type::Decimal);
        }
        Type::ALL.into_iter().find(|kind| self == Self::one(*kind))
    }

    fn each(self) -> impl Iterator<Item = Type> {
        Type::ALL.into_iter().filter(move |kind| self.may_be(*kind))
    }
}

/// What is known of a value before it is there.
#[derive(Debug)]
pub struct Inferred {
    /// The types it may have.
    pub types: Types,
    /// Where evaluating it can only fail.
    pub errors: Vec<Error>,
    /// What works and can hardly be meant.
    pub warnings: Vec<Warning>,
}

impl Inferred {
    /// Nothing but a type.
    pub(crate) fn just(types: Types) -> Self {
        Self { types, errors: Vec::new(), warnings: Vec::new() }
    }
}

/// What is known of a node's value; where a bool is needed, the place in words.
pub(crate) fn infer(program: &Program, id: NodeId, scope: &Scope, condition: Option<&str>) -> Inferred {
    let mut world = NoWorld;
    let mut session = Session::new(&mut world);
    let mut inference =
        Inference { eval: ProgramEvaluator::new(&mut session, program, scope), errors: Vec::new() };
    let types = inference.node(id);
    if let Some(place) = condition {
        inference.bool(id, types, place);
    }
    let errors = inference.errors;
    Inferred { types, errors, warnings: session.take_warnings() }
}

struct Inference<'e, 'w, 'a> {
    eval: ProgramEvaluator<'e, 'w, 'a>,
    errors: Vec<Error>,
}

impl Inference<'_, '_, '_> {
    fn node(&mut self, id: NodeId) -> Types {
        let program = self.eval.program;
        match program.node(id) {
            SyntaxNode::Const(value) => Types::one(value.kind()),
            SyntaxNode::Path(path) => path_types(program, path, self.eval.scope),
            SyntaxNode::Element(_) => Types::ANY,
            SyntaxNode::Text(parts) => {
                self.parts(*parts);
                Types::one(Type::Text)
            }
            SyntaxNode::OrText(head, parts) => {
                let head = self.node(*head);
                self.parts(*parts);
                head.without(Type::Null).or(Types::one(Type::Text))
            }
            SyntaxNode::Walk(base, _) => {
                self.node(*base);
                Types::ANY
            }
            SyntaxNode::Index(base, index) => {
                self.node(*base);
                self.node(*index);
                Types::ANY
            }
            SyntaxNode::Slice(base, from, to) => {
                let base = self.node(*base);
                for bound in from.iter().chain(to) {
                    self.node(*bound);
                }
                let sliced = Types(base.0 & Types::one(Type::List).or(Types::one(Type::Text)).0);
                if sliced == Types::NONE { Types::ANY } else { sliced }
            }
            SyntaxNode::Not(operand) => {
                let types = self.node(*operand);
                self.bool(*operand, types, "`not`");
                Types::one(Type::Bool)
            }
            SyntaxNode::Neg(operand) => self.negation(id, *operand),
            SyntaxNode::And(operands) => self.logic(*operands, "the left side of `and`"),
            SyntaxNode::Or(operands) => self.logic(*operands, "the left side of `or`"),
            SyntaxNode::Binary(op, left, right) => {
                let types = (self.node(*left), self.node(*right));
                self.binary(id, *op, types, (*left, *right))
            }
            SyntaxNode::Terms(first, rest) => self.terms(id, *first, *rest),
            SyntaxNode::Chain(links) => {
                for link in program.list(*links) {
                    self.node(*link);
                }
                Types::one(Type::Bool)
            }
            SyntaxNode::If { condition, yes, no } => {
                let types = self.node(*condition);
                self.bool(*condition, types, "the condition of `if`");
                self.node(*yes).or(self.node(*no))
            }
            SyntaxNode::Call { function, args, element } => self.call(id, function, *args, *element),
            SyntaxNode::Compute { kind, args } => self.compute(id, kind.as_str(), *args),
            SyntaxNode::List(items) => self.all(*items, Type::List),
            SyntaxNode::Object(_, items) => self.all(*items, Type::Object),
        }
    }

    fn all(&mut self, nodes: NodeRange, kind: Type) -> Types {
        for node in self.eval.program.list(nodes) {
            self.node(*node);
        }
        Types::one(kind)
    }

    fn parts(&mut self, parts: NodeRange) {
        for part in &self.eval.program.parts[parts.range()] {
            if let TemplatePart::Ref(node, _) = part {
                self.node(*node);
            }
        }
    }

    /// A node that must be a bool.
    fn bool(&mut self, id: NodeId, types: Types, place: &str) {
        if let Some(kind) = types.each().next()
            && !types.may_be(Type::Bool)
        {
            self.errors.push(self.eval.not_a_bool(id, place, &sample(kind)));
        }
    }

    fn logic(&mut self, operands: NodeRange, place: &str) -> Types {
        let operands = self.eval.program.list(operands);
        let mut last = Types::one(Type::Bool);
        for (at, operand) in operands.iter().enumerate() {
            last = self.node(*operand);
            if at + 1 < operands.len() {
                self.bool(*operand, last, place);
            }
        }
        last.or(Types::one(Type::Bool))
    }

    fn negation(&mut self, id: NodeId, operand: NodeId) -> Types {
        let types = self.node(operand);
        if let Some(got) = types.each().next()
            && Types(types.0 & Types::NUMBER.0) == Types::NONE
        {
            let kind = ErrorKind::Expected { place: "`-`".to_owned(), expected: "a number", got, hint: None };
            self.errors.push(Error::new(kind, self.eval.program.span(id)));
        }
        Types::NUMBER
    }

    fn terms(&mut self, id: NodeId, first: NodeId, rest: NodeRange) -> Types {
        let program = self.eval.program;
        let (mut types, mut left) = (self.node(first), first);
        for (op, right) in &program.terms[rest.range()] {
            let right_types = self.node(*right);
            types = self.binary(id, *op, (types, right_types), (left, *right));
            left = *right;
        }
        types
    }

    /// What an operator gives for the types on its sides, asked with a sample of each.
    fn binary(
        &mut self,
        id: NodeId,
        op: BinaryOp,
        (left, right): (Types, Types),
        nodes: (NodeId, NodeId),
    ) -> Types {
        let mut gives = Types::NONE;
        let mut refused = None;
        for a in left.each() {
            for b in right.each() {
                match binary(op, &sample(a), &sample(b), MAX_SAMPLE) {
                    Ok(value) => gives = gives.or(of_result(&value)),
                    Err(OpError::Types(..)) => refused = refused.or(Some((a, b))),
                    // The types are right, and another value will do.
                    Err(_) => gives = gives.or(Types::NUMBER),
                }
            }
        }
        match refused {
            Some((a, b)) if gives == Types::NONE => {
                let (a, b) = (sample(a), sample(b));
                let error = OpError::Types(a.kind(), b.kind());
                self.errors.push(self.eval.operands_error(id, op, &error, &a, &b, nodes));
                Types::ANY
            }
            _ => {
                self.never_equal(id, op, left, right);
                gives
            }
        }
    }

    /// Notes a comparison of two types of which no value is equal to one of the other.
    fn never_equal(&mut self, id: NodeId, op: BinaryOp, left: Types, right: Types) {
        if !matches!(op, BinaryOp::Eq | BinaryOp::Ne) || left.may_be(Type::Null) || right.may_be(Type::Null) {
            return;
        }
        if let (Some(left), Some(right)) = (left.only(), right.only()) {
            let numbers = Types::NUMBER.may_be(left) && Types::NUMBER.may_be(right);
            if left != right && !numbers {
                self.eval.warn_types(id, op, left, right);
            }
        }
    }

    fn call(
        &mut self,
        id: NodeId,
        function: &'static Function,
        args: NodeRange,
        element: Option<NodeId>,
    ) -> Types {
        let program = self.eval.program;
        let before = self.errors.len();
        let types: Vec<Types> = program.list(args).iter().map(|arg| self.node(*arg)).collect();
        match (function.body, &types[..]) {
            (Body::Exists, _) => return Types::one(Type::Bool),
            (Body::Default, [first, second, ..]) => return first.without(Type::Null).or(*second),
            _ => {}
        }
        let literal = |node: &NodeId| matches!(program.node(*node), SyntaxNode::Const(_));
        if element.is_none() && self.errors.len() == before && program.list(args).iter().all(literal) {
            // Nothing that is still to come changes what this gives.
            if let Err(error) = self.eval.node(id) {
                self.errors.push(error);
            }
        } else if let Some(why) = self.bad_literal(function, args) {
            let [_, argument, ..] = program.list(args) else { return Types::ANY };
            let parameter = function.parameter(1).map_or("", |parameter| parameter.name);
            let kind = ErrorKind::Argument { function: function.name, parameter, why, hint: None };
            self.errors.push(Error::new(kind, program.span(*argument)));
        }
        returned(function.returns)
    }

    /// Why a literal pattern or format will not do, whatever it is applied to.
    fn bad_literal(&self, function: &Function, args: NodeRange) -> Option<String> {
        let [_, literal, ..] = self.eval.program.list(args) else { return None };
        let SyntaxNode::Const(literal) = self.eval.program.node(*literal) else { return None };
        let literal = literal.as_str()?;
        match function.name {
            "matches" => crate::func::bad_pattern(literal),
            "format_date" => bad_format(literal),
            _ => None,
        }
    }

    fn compute(&mut self, id: NodeId, kind: &str, args: NodeRange) -> Types {
        let program = self.eval.program;
        for arg in program.list(args) {
            self.node(*arg);
        }
        if kind == "date"
            && let Some(SyntaxNode::Const(format)) = program.list(args).first().map(|arg| program.node(*arg))
            && let Some(why) = format.as_str().and_then(bad_format)
        {
            let kind = ErrorKind::Computed { kind: "date".into(), message: why, hint: None };
            self.errors.push(Error::new(kind, program.span(id)));
        }
        match kind {
            "file" | "cmd" | "date" => Types::one(Type::Text),
            _ => Types::ANY,
        }
    }
}

/// Any time will do to try a format.
const SAMPLE_TIME: &str = "2024-05-06T07:08:09Z";
/// Samples make nothing longer.
const MAX_SAMPLE: usize = 1000;

fn bad_format(format: &str) -> Option<String> {
    strftime(SAMPLE_TIME, format, None).err().and_then(crate::func::FuncError::why)
}

/// A value of a type, so that no operator fails for another reason than its type.
fn sample(kind: Type) -> Value {
    match kind {
        Type::Null => Value::NULL,
        Type::Bool => true.into(),
        Type::Int => 2.into(),
        Type::Decimal => Number::decimal(25, 1).map_or(Value::NULL, Value::from),
        Type::Text => "a".into(),
        // An empty container is never too deep.
        Type::List => Value::sequence(Vec::new()),
        Type::Object => Value::empty_object(),
    }
}

/// The types that a result stands for: which kind of number it is depends on the values.
fn of_result(value: &Value) -> Types {
    if value.as_number().is_some() { Types::NUMBER } else { Types::one(value.kind()) }
}

/// The types of a function's results, from the word for them.
fn returned(words: &str) -> Types {
    match words {
        "text" => Types::one(Type::Text),
        "bool" => Types::one(Type::Bool),
        "int" => Types::one(Type::Int),
        words if words.starts_with("list") => Types::one(Type::List),
        words if words.starts_with("object") => Types::one(Type::Object),
        "number" | "decimal" | "int, or decimal when digits are asked for" => Types::NUMBER,
        "number or text" => Types::NUMBER.or(Types::one(Type::Text)),
        _ => Types::ANY,
    }
}

fn path_types(program: &Program, path: &ReferencePath, scope: &Scope) -> Types {
    let steps = program.steps(path.steps);
    match path.kind {
        RootKind::Env if steps.steps.len() == 1 => Types::one(Type::Text),
        RootKind::Uuid if steps.steps.is_empty() => Types::one(Type::Text),
        RootKind::Named => match scope.lookup(path.root, program, &path.last) {
            Some(found) => entry_types(found.entry, steps),
            None => Types::ANY,
        },
        RootKind::Nodes => match steps.first().and_then(StepView::key).and_then(|id| scope.output(id)) {
            Some(found) => entry_types(found.entry, steps.after(1)),
            None => Types::ANY,
        },
        RootKind::Env | RootKind::Uuid => Types::ANY,
    }
}

fn entry_types(entry: EntryRef<'_>, steps: Steps<'_>) -> Types {
    let none_left = steps.steps.is_empty();
    match entry {
        EntryRef::Promised(promise) => promise_types(promise, steps),
        EntryRef::Plain(value) => {
            super::path::follow(value, steps).map_or(Types::ANY, |value| Types::one(value.kind()))
        }
        EntryRef::Names(_) | EntryRef::Definitions(_) if none_left => Types::one(Type::Object),
        EntryRef::Paged(_) if none_left => Types::one(Type::List),
        EntryRef::Names(names) => {
            match steps.first().and_then(StepView::key).and_then(|name| names.find(name)) {
                Some(found) => entry_types(found.entry, steps.after(1)),
                None => Types::ANY,
            }
        }
        EntryRef::Definitions(definitions) => {
            let at =
                steps.first().and_then(StepView::key).and_then(|name| definitions.position(&Key::new(name)));
            let value = at.and_then(|at| definitions.fixed(at));
            let value = value.and_then(|value| super::path::follow(value, steps.after(1)));
            value.map_or(Types::ANY, |value| Types::one(value.kind()))
        }
        EntryRef::Output(_)
        | EntryRef::Unset(_)
        | EntryRef::Lapsed(_)
        | EntryRef::Item(_)
        | EntryRef::Paged(_) => Types::ANY,
    }
}

fn promise_types(promise: &Promise, steps: Steps<'_>) -> Types {
    let field = |fields: &[(&str, Option<Type>)], name: &str| {
        let field = fields.iter().find(|(field, _)| *field == name);
        field.map_or(Types::ANY, |(_, kind)| Types::promised(*kind))
    };
    let name = steps.first().and_then(StepView::key);
    match (&promise.shape, steps.steps.len(), name) {
        (PromisedShape::Value(kind) | PromisedShape::Output { value: kind, .. }, 0, _)
        | (PromisedShape::Output { value: kind, .. }, 1, Some("value" | "result")) => Types::promised(*kind),
        (PromisedShape::Output { also, .. }, 1, Some(name)) => field(also, name),
        (PromisedShape::Item { own }, 1, Some(name)) => field(own, name),
        (PromisedShape::Elements { .. }, 0, _) => Types::one(Type::List),
        (PromisedShape::Elements { fields }, 2, _) => {
            steps.after(1).first().and_then(StepView::key).map_or(Types::ANY, |name| field(fields, name))
        }
        _ => Types::ANY,
    }
}

/// The types of a text with references: of exactly one reference its own.
pub(crate) fn infer_parts(program: &Program, parts: &[TemplatePart], scope: &Scope, block: bool) -> Inferred {
    let whole = match parts {
        [TemplatePart::Ref(node, _)] => Some(*node),
        [TemplatePart::Ref(node, _), TemplatePart::Lit(span)] if block && program.text(*span) == "\n" => {
            Some(*node)
        }
        _ => None,
    };
    if let Some(node) = whole {
        return infer(program, node, scope, None);
    }
    let mut found = Inferred::just(Types::one(Type::Text));
    for part in parts {
        if let TemplatePart::Ref(node, _) = part {
            let part = infer(program, *node, scope, None);
            found.errors.extend(part.errors);
            found.warnings.extend(part.warnings);
        }
    }
    found
}
