//! Types before values: which shape a program can give, and where it can only fail.
//!
//! Operators are asked with a sample of each type, and what is written out is evaluated: the evaluator itself says what it
//! takes. Only what fails whatever the values will be is reported, and what fails for a type that the file itself allows
//! for: null where a value may be left out, and the type of a default.

use super::path::{follow, refused_step};
use super::{ProgramEvaluator, Session, Warning};
use crate::diag::error::{Error, ErrorKind};
use crate::func::{Body, FuncError, Function, ParamKind, strftime};
use crate::limits::Limits;
use crate::scope::{EntryRef, Promise, PromisedShape, Scope};
use crate::shape::{Types, ValueShape};
use crate::syntax::{
    NodeId, NodeRange, Program, ReferencePath, RootKind, StepView, Steps, SyntaxNode, TemplatePart,
};
use crate::value::ops::{BinaryOp, OpError, binary};
use crate::value::{Key, Number, NumberError, Type, Value};
use crate::world::NoWorld;

/// What is known of a value before it is there.
#[derive(Debug)]
pub struct Inferred {
    /// What it will be.
    pub shape: ValueShape,
    /// Where evaluating it can only fail.
    pub errors: Vec<Error>,
    /// What works and can hardly be meant.
    pub warnings: Vec<Warning>,
}

impl Inferred {
    /// Nothing but a shape.
    pub(crate) fn just(shape: ValueShape) -> Self {
        Self { shape, errors: Vec::new(), warnings: Vec::new() }
    }

    /// The types that the value may have.
    pub fn types(&self) -> Types {
        self.shape.types
    }
}

/// So many operations may be spent on what is written out; what needs more is left to the run.
const TRIAL: Limits = Limits { operations: 20_000, text_result: 1 << 16, ..Limits::DEFAULT };

/// What is known of a node's value; where a bool is needed, the place in words.
pub(crate) fn infer(program: &Program, id: NodeId, scope: &Scope, condition: Option<&str>) -> Inferred {
    let mut world = NoWorld;
    let mut session = Session::new(&mut world).limits(&TRIAL);
    let mut inference = Inference {
        eval: ProgramEvaluator::new(&mut session, program, scope),
        errors: Vec::new(),
        guarded: false,
        decided: false,
        element: None,
    };
    let shape = inference.node(id);
    if let Some(place) = condition {
        inference.bool(id, &shape, place);
    }
    let errors = inference.errors;
    let mut warnings = session.take_warnings();
    warnings.extend(old_spellings(program, id));
    Inferred { shape, errors, warnings }
}

/// What an older system spells so in a reference, which means the same.
fn old_spellings(program: &Program, id: NodeId) -> impl Iterator<Item = Warning> {
    let within = program.span(id);
    let found = program.old_spellings.iter();
    let found = found.filter(move |fix| (within.start..=within.end).contains(&fix.span.start));
    found.map(|fix| {
        let (old, new) = (program.text(fix.span), fix.text.as_str());
        let message = format!("`{old}` is the spelling of an older system");
        let hint = if new.is_empty() {
            "remove it: every value in a command is one word".to_owned()
        } else {
            format!("write `{new}`")
        };
        Warning {
            id: "deprecated-spelling",
            message,
            hint: Some(hint),
            span: fix.span,
            origin: None,
            fix: Some(fix.clone()),
        }
    })
}

struct Inference<'e, 'w, 'a> {
    eval: ProgramEvaluator<'e, 'w, 'a>,
    errors: Vec<Error>,
    /// Whether a default stands ready for what is missing.
    guarded: bool,
    /// Whether a condition decides that it is evaluated: it may have asked for null.
    decided: bool,
    /// The element of an element expression.
    element: Option<ValueShape>,
}

impl Inference<'_, '_, '_> {
    fn node(&mut self, id: NodeId) -> ValueShape {
        let program = self.eval.program;
        match program.node(id) {
            SyntaxNode::Const(value) => ValueShape::of(value),
            SyntaxNode::Path(path) => path_shape(program, path, self.eval.scope),
            SyntaxNode::Element(steps) => {
                let element = self.element.clone().unwrap_or(ValueShape::ANY);
                self.walk(element, program.steps(*steps), "it")
            }
            SyntaxNode::Text(parts) => {
                self.parts(*parts);
                ValueShape::one(Type::Text)
            }
            SyntaxNode::OrText(head, parts) => {
                let head = self.guarded(*head);
                self.parts(*parts);
                head.or_fallback(&ValueShape::one(Type::Text))
            }
            SyntaxNode::Walk(base, steps) => {
                let prefix = program.text(program.span(*base)).to_owned();
                let base = self.node(*base);
                self.walk(base, program.steps(*steps), &prefix)
            }
            SyntaxNode::Index(base, index) => self.index(*base, *index),
            SyntaxNode::Slice(base, from, to) => {
                let base = self.node(*base);
                for bound in from.iter().chain(to) {
                    self.node(*bound);
                }
                self.slice(id, &base)
            }
            SyntaxNode::Not(operand) => {
                let shape = self.node(*operand);
                self.bool(*operand, &shape, "`not`");
                ValueShape::one(Type::Bool)
            }
            SyntaxNode::Neg(operand) => {
                let shape = self.node(*operand);
                self.needs(*operand, &shape, Types::NUMBER, "`-`", "a number");
                self.result_of(id, ValueShape::of_types(Types::NUMBER))
            }
            SyntaxNode::And(operands) => self.logic(*operands, "the left side of `and`"),
            SyntaxNode::Or(operands) => self.logic(*operands, "the left side of `or`"),
            SyntaxNode::Binary(op, left, right) => {
                let shapes = (self.node(*left), self.node(*right));
                let types = self.binary(id, *op, (&shapes.0, &shapes.1), (*left, *right));
                let joined = joined_lists(*op, &shapes.0, &shapes.1);
                self.result_of(id, joined.unwrap_or(ValueShape::of_types(types)))
            }
            SyntaxNode::Terms(first, rest) => self.terms(id, *first, *rest),
            SyntaxNode::Chain(links) => {
                for link in program.list(*links) {
                    self.node(*link);
                }
                ValueShape::one(Type::Bool)
            }
            SyntaxNode::If { condition, yes, no } => {
                let shape = self.node(*condition);
                self.bool(*condition, &shape, "the condition of `if`");
                let before = std::mem::replace(&mut self.decided, true);
                let shape = self.node(*yes).or(&self.node(*no));
                self.decided = before;
                shape.tolerant()
            }
            SyntaxNode::Call { function, args, element } => self.call(id, function, *args, *element),
            SyntaxNode::Compute { kind, args } => self.compute(id, kind.as_str(), *args),
            SyntaxNode::List(items) => {
                ValueShape::list(program.list(*items).iter().map(|item| self.node(*item)).collect())
            }
            SyntaxNode::Object(keys, items) => {
                let shapes = program.list(*items).iter().map(|item| self.node(*item)).collect::<Vec<_>>();
                let names = keys.as_slice().iter().map(|key| key.name().clone());
                ValueShape::object(names.zip(shapes).collect())
            }
        }
    }

    fn parts(&mut self, parts: NodeRange) {
        for part in &self.eval.program.parts[parts.range()] {
            if let TemplatePart::Ref(node, _) = part {
                self.node(*node);
            }
        }
    }

    /// A node for which a default stands ready.
    fn guarded(&mut self, id: NodeId) -> ValueShape {
        let before = std::mem::replace(&mut self.guarded, true);
        let shape = self.node(id);
        self.guarded = before;
        shape
    }

    /// The shape behind steps; an error where no value of the shape has them.
    fn walk(&mut self, mut shape: ValueShape, steps: Steps<'_>, prefix: &str) -> ValueShape {
        for (taken, step) in steps.views().enumerate() {
            match shape.step(step) {
                Ok(next) => shape = next,
                Err(refusal) => {
                    let error = refused_step(refusal, steps.to(taken).text(prefix), steps.after(taken));
                    if !(self.guarded && error.is_missing()) {
                        self.errors.push(error);
                    }
                    return ValueShape::ANY;
                }
            }
        }
        shape
    }

    fn index(&mut self, base: NodeId, index: NodeId) -> ValueShape {
        let (shape, key) = (self.node(base), self.node(index));
        let object = shape.types.may_be(Type::Object);
        let takes = match (object, shape.types.may_be(Type::List)) {
            (true, true) => Types::TEXT.or(Types::one(Type::Int)),
            (true, false) => Types::TEXT,
            (false, true) => Types::one(Type::Int),
            (false, false) => return ValueShape::ANY,
        };
        let words = if object { "text" } else { "an int" };
        // A number may be whole.
        let takes = if takes.may_be(Type::Int) { takes.or(Types::NUMBER) } else { takes };
        self.needs(index, &key, takes, "an index", words);
        if object { ValueShape::ANY } else { shape.element() }
    }

    fn slice(&mut self, id: NodeId, base: &ValueShape) -> ValueShape {
        let sliceable = Types::one(Type::List).or(Types::TEXT);
        self.needs(id, base, sliceable, "a slice", "a list or text");
        let types = base.types.and(sliceable);
        if types == Types::one(Type::List) {
            return ValueShape::list_of(base.element());
        }
        ValueShape::of_types(if types.is_none() { Types::ANY } else { types })
    }

    /// A node that must be a bool.
    fn bool(&mut self, id: NodeId, shape: &ValueShape, place: &str) {
        let takes = Types::one(Type::Bool);
        let Some(kind) = unfit(shape, takes) else { return };
        let error = self.eval.not_a_bool(id, place, &sample(kind));
        self.report(error, id, shape, takes, kind);
    }

    /// A node that must be of one of these types.
    fn needs(&mut self, id: NodeId, shape: &ValueShape, takes: Types, place: &str, words: &'static str) {
        let Some(got) = unfit(shape, takes) else { return };
        let kind = ErrorKind::Expected { place: place.to_owned(), expected: words, got, hint: None };
        let error = Error::new(kind, self.eval.program.span(id));
        self.report(error, id, shape, takes, got);
    }

    /// Reports a type that does not fit: as it is where no type of the shape does, else as one that the value may have.
    fn report(&mut self, error: Error, id: NodeId, shape: &ValueShape, takes: Types, kind: Type) {
        if shape.types.and(takes).is_none() {
            self.errors.push(error);
        } else {
            self.may_be(error, id, kind);
        }
    }

    /// Reports a type that the file allows for and that does not fit.
    fn may_be(&mut self, cause: Error, id: NodeId, kind: Type) {
        if self.decided {
            return;
        }
        let path = self.eval.program.print_expression(id);
        let span = cause.span();
        self.errors.push(Error::new(ErrorKind::MayBe { path, kind, cause: Box::new(cause) }, span));
    }

    fn logic(&mut self, operands: NodeRange, place: &str) -> ValueShape {
        let operands = self.eval.program.list(operands);
        let before = self.decided;
        let mut last = ValueShape::one(Type::Bool);
        for (at, operand) in operands.iter().enumerate() {
            last = self.node(*operand);
            if at + 1 < operands.len() {
                self.bool(*operand, &last, place);
                self.decided = true;
            }
        }
        self.decided = before;
        last.or(&ValueShape::one(Type::Bool))
    }

    fn terms(&mut self, id: NodeId, first: NodeId, rest: NodeRange) -> ValueShape {
        let program = self.eval.program;
        let (mut shape, mut left) = (self.node(first), first);
        for (op, right) in &program.terms[rest.range()] {
            let right_shape = self.node(*right);
            let types = self.binary(id, *op, (&shape, &right_shape), (left, *right));
            let joined = joined_lists(*op, &shape, &right_shape);
            shape = joined.unwrap_or(ValueShape::of_types(types));
            left = *right;
        }
        self.result_of(id, shape)
    }

    /// What an operator gives for the types on its sides, asked with a sample of each.
    fn binary(
        &mut self,
        id: NodeId,
        op: BinaryOp,
        (left, right): (&ValueShape, &ValueShape),
        nodes: (NodeId, NodeId),
    ) -> Types {
        let mut gives = Types::NONE;
        let mut refused: Vec<(Type, Type)> = Vec::new();
        for a in left.types.each() {
            for b in right.types.each() {
                match binary(op, &sample(a), &sample(b), MAX_SAMPLE) {
                    Ok(value) => gives = gives.or(of_result(&value)),
                    Err(OpError::Types(..)) => refused.push((a, b)),
                    // The types are right, and another value will do.
                    Err(_) => gives = gives.or(Types::NUMBER),
                }
            }
        }
        if let (true, Some((a, b))) = (gives.is_none(), refused.first()) {
            let error = self.refused_operands(id, op, (*a, *b), nodes);
            self.errors.push(error);
            return Types::ANY;
        }
        // A type that the file allows for and that no type of the other side goes with.
        let works = |a: Type, b: Type| !refused.contains(&(a, b));
        let fit = left.types.each().flat_map(|a| right.types.each().map(move |b| (a, b)));
        let Some((fit_left, fit_right)) = fit.into_iter().find(|(a, b)| works(*a, *b)) else { return gives };
        let alone_left = left.allowed.each().find(|a| !right.types.each().any(|b| works(*a, b)));
        let alone_right = right.allowed.each().find(|b| !left.types.each().any(|a| works(a, *b)));
        if let Some(a) = alone_left {
            let error = self.refused_operands(id, op, (a, fit_right), nodes);
            self.may_be(error, nodes.0, a);
        } else if let Some(b) = alone_right {
            let error = self.refused_operands(id, op, (fit_left, b), nodes);
            self.may_be(error, nodes.1, b);
        }
        if matches!(op, BinaryOp::Div | BinaryOp::FloorDiv | BinaryOp::Rem)
            && right.literal.as_ref().and_then(Value::as_number).is_some_and(Number::is_zero)
        {
            let kind = ErrorKind::Number(NumberError::DivisionByZero);
            self.errors.push(Error::new(kind, self.eval.program.span(id)));
            return gives;
        }
        self.never_equal(id, op, left.types, right.types);
        gives
    }

    fn refused_operands(
        &self,
        id: NodeId,
        op: BinaryOp,
        (a, b): (Type, Type),
        nodes: (NodeId, NodeId),
    ) -> Error {
        let error = OpError::Types(a, b);
        self.eval.operands_error(id, op, &error, &sample(a), &sample(b), nodes)
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

    // ---- calls -----------------------------------------------------------------------------------------

    fn call(
        &mut self,
        id: NodeId,
        function: &'static Function,
        args: NodeRange,
        element: Option<NodeId>,
    ) -> ValueShape {
        let nodes = self.eval.program.list(args);
        let before = self.errors.len();
        match (function.body, nodes) {
            (Body::Exists, [path, ..]) => {
                self.guarded(*path);
                return ValueShape::one(Type::Bool);
            }
            (Body::Default, [path, fallback, ..]) => {
                let path = self.guarded(*path);
                let fallback = self.node(*fallback);
                return path.or_fallback(&fallback);
            }
            _ => {}
        }
        let shapes = self.arguments(nodes);
        self.argument_types(function, nodes, &shapes);
        let each = self.element_expression(function, &shapes, element);
        if self.errors.len() == before {
            self.elements(id, function, &shapes, each.as_ref(), element);
        }
        if self.errors.len() > before {
            return function.returns.shape(&shapes, each.as_ref());
        }
        let shape = function.returns.shape(&shapes, each.as_ref());
        let result = self.result_of(id, shape);
        if self.errors.len() == before && result.literal.is_none() && function.body.is_plain() {
            self.try_literals(id, function, args, nodes, element.is_some());
        }
        result
    }

    /// The arguments. A default around a call is about the first of them only.
    fn arguments(&mut self, nodes: &[NodeId]) -> Vec<ValueShape> {
        let guarded = self.guarded;
        let mut shapes = Vec::with_capacity(nodes.len());
        for (at, node) in nodes.iter().enumerate() {
            self.guarded = guarded && at == 0;
            shapes.push(self.node(*node));
        }
        self.guarded = guarded;
        shapes
    }

    fn argument_types(&mut self, function: &'static Function, nodes: &[NodeId], shapes: &[ValueShape]) {
        for (at, (node, shape)) in nodes.iter().zip(shapes).enumerate() {
            let Some(takes) = function.takes(at, nodes.len()) else { continue };
            let Some(got) = unfit(shape, takes.types) else { continue };
            let place = function.place(at);
            let kind = ErrorKind::Expected { place, expected: takes.words, got, hint: None };
            let error = Error::new(kind, self.eval.program.span(*node));
            self.report(error, *node, shape, takes.types, got);
        }
    }

    /// What an element expression gives.
    fn element_expression(
        &mut self,
        function: &'static Function,
        shapes: &[ValueShape],
        element: Option<NodeId>,
    ) -> Option<ValueShape> {
        let node = element?;
        let list = shapes.first().cloned().unwrap_or(ValueShape::ANY);
        let outer = self.element.replace(list.element().tolerant());
        let guarded = std::mem::take(&mut self.guarded);
        let before = self.errors.len();
        let shape = self.node(node);
        self.guarded = guarded;
        self.element = outer;
        if list.elements().is_some_and(<[ValueShape]>::is_empty) {
            // An empty list asks for nothing.
            self.errors.truncate(before);
        }
        for error in self.errors.split_off(before) {
            let (span, kind) = (error.span(), function.name);
            let kind = ErrorKind::Element { function: kind, index: 0, cause: Box::new(error) };
            self.errors.push(Error::new(kind, span));
        }
        Some(shape)
    }

    /// The elements of a list, or what the expression makes of them.
    fn elements(
        &mut self,
        id: NodeId,
        function: &'static Function,
        shapes: &[ValueShape],
        each: Option<&ValueShape>,
        element: Option<NodeId>,
    ) {
        let (takes, given) = match (each, shapes.first()) {
            (Some(each), _) => {
                let param = function.params.iter().find(|param| param.kind == ParamKind::Element);
                (param.map(|param| param.takes), each.clone())
            }
            (None, Some(list)) => {
                let takes = function.takes(0, shapes.len()).and_then(|takes| takes.elements);
                if list.elements().is_some_and(<[ValueShape]>::is_empty) || !list.types.may_be(Type::List) {
                    return;
                }
                (takes.copied(), list.element())
            }
            (None, None) => return,
        };
        let Some(takes) = takes else { return };
        if let Some(got) = given.types.each().next()
            && given.types.and(takes.types).is_none()
        {
            let error = FuncError::ElementType { index: 0, expected: takes.words, got };
            let program = self.eval.program;
            let SyntaxNode::Call { args, .. } = program.node(id) else { return };
            let error = self.eval.function_error(id, function, *args, element, error);
            self.errors.push(error);
        }
    }

    /// Whatever a node reads is written out, so that nothing that is still to come changes what it gives.
    fn is_fixed(&self, id: NodeId) -> bool {
        let program = self.eval.program;
        let (mut fixed, mut count) = (true, 0);
        program.visit(id, &mut |node, _| {
            count += 1;
            fixed &= match program.node(node) {
                SyntaxNode::Path(_) | SyntaxNode::Compute { .. } => false,
                SyntaxNode::Call { function, .. } => !matches!(function.body, Body::Binding),
                _ => true,
            };
        });
        fixed && count <= 500 && self.element.is_none()
    }

    /// The value of a node in which all is written out, or else a shape.
    fn result_of(&mut self, id: NodeId, shape: ValueShape) -> ValueShape {
        if !self.errors.is_empty() || !self.is_fixed(id) {
            return shape;
        }
        match self.eval.node(id) {
            Ok(value) => ValueShape::of(&value),
            Err(error) => {
                let excused =
                    self.guarded && error.is_missing() || matches!(error.kind(), ErrorKind::Limit { .. });
                if !excused {
                    self.errors.push(error);
                }
                shape
            }
        }
    }

    /// Reports the literal arguments that will not do whatever the others are, such as an order, a pattern or a zone.
    fn try_literals(
        &mut self,
        id: NodeId,
        function: &'static Function,
        args: NodeRange,
        nodes: &[NodeId],
        has_element: bool,
    ) {
        let program = self.eval.program;
        let literal = |node: &NodeId| match program.node(*node) {
            SyntaxNode::Const(value) => Some(value.clone()),
            _ => None,
        };
        let literals: Vec<Option<Value>> = nodes.iter().map(literal).collect();
        if has_element || literals.iter().all(Option::is_none) {
            return;
        }
        let values: Option<Vec<Value>> = literals
            .iter()
            .enumerate()
            .map(|(at, literal)| literal.clone().or_else(|| function.takes(at, nodes.len())?.sample()))
            .collect();
        let Some(values) = values else { return };
        if let Err(FuncError::Value { arg, why, hint }) = self.eval.attempt(function, &values)
            && literals.get(arg).is_some_and(Option::is_some)
        {
            let error = FuncError::Value { arg, why, hint };
            let error = self.eval.function_error(id, function, args, None, error);
            self.errors.push(error);
        }
    }

    fn compute(&mut self, id: NodeId, kind: &str, args: NodeRange) -> ValueShape {
        let program = self.eval.program;
        for arg in program.list(args) {
            self.node(*arg);
        }
        let literal = |at: usize| match program.list(args).get(at).map(|arg| program.node(*arg)) {
            Some(SyntaxNode::Const(value)) => value.as_str(),
            _ => None,
        };
        if kind == "date"
            && let Some(why) = bad_date(literal(0).unwrap_or("%Y"), literal(1))
        {
            let kind = ErrorKind::Computed { kind: "date".into(), message: why, hint: None };
            self.errors.push(Error::new(kind, program.span(id)));
        }
        match kind {
            "file" | "cmd" | "date" => ValueShape::one(Type::Text),
            _ => ValueShape::ANY,
        }
    }
}

/// Samples make nothing longer.
const MAX_SAMPLE: usize = 1000;

fn bad_date(format: &str, zone: Option<&str>) -> Option<String> {
    strftime(crate::func::SAMPLE_TIME, format, zone).err().and_then(FuncError::why)
}

/// The type of a shape that is not among these: the first where none is, else one that the file allows for.
fn unfit(shape: &ValueShape, takes: Types) -> Option<Type> {
    if shape.types.and(takes).is_none() {
        return shape.types.each().next();
    }
    shape.allowed.without(takes).each().next()
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

/// Two lists in a row.
fn joined_lists(op: BinaryOp, left: &ValueShape, right: &ValueShape) -> Option<ValueShape> {
    let list = Types::one(Type::List);
    (op == BinaryOp::Add && left.types == list && right.types == list)
        .then(|| ValueShape::list_of(left.element().or(&right.element())))
}

fn path_shape(program: &Program, path: &ReferencePath, scope: &Scope) -> ValueShape {
    let steps = program.steps(path.steps);
    match path.kind {
        RootKind::Env if steps.steps.len() == 1 => ValueShape::one(Type::Text),
        RootKind::Uuid if steps.steps.is_empty() => ValueShape::one(Type::Text),
        RootKind::Named => match scope.lookup(path.root, program, &path.last) {
            Some(found) => entry_shape(found.entry, steps),
            None => ValueShape::ANY,
        },
        RootKind::Nodes => match steps.first().and_then(StepView::key).and_then(|id| scope.output(id)) {
            Some(found) => entry_shape(found.entry, steps.after(1)),
            None => ValueShape::ANY,
        },
        RootKind::Env | RootKind::Uuid => ValueShape::ANY,
    }
}

fn entry_shape(entry: EntryRef<'_>, steps: Steps<'_>) -> ValueShape {
    let none_left = steps.steps.is_empty();
    match entry {
        EntryRef::Promised(promise) => promise_shape(promise, steps),
        EntryRef::Plain(value) => follow(value, steps).map_or(ValueShape::ANY, ValueShape::of),
        EntryRef::Names(_) | EntryRef::Definitions(_) if none_left => ValueShape::one(Type::Object),
        EntryRef::Paged(_) if none_left => ValueShape::one(Type::List),
        EntryRef::Names(names) => {
            match steps.first().and_then(StepView::key).and_then(|name| names.find(name)) {
                Some(found) => entry_shape(found.entry, steps.after(1)),
                None => ValueShape::ANY,
            }
        }
        EntryRef::Definitions(definitions) => {
            let at =
                steps.first().and_then(StepView::key).and_then(|name| definitions.position(&Key::new(name)));
            let value = at.and_then(|at| definitions.fixed(at));
            let value = value.and_then(|value| follow(value, steps.after(1)));
            value.map_or(ValueShape::ANY, ValueShape::of)
        }
        EntryRef::Output(_)
        | EntryRef::Unset(_)
        | EntryRef::Lapsed(_)
        | EntryRef::Item(_)
        | EntryRef::Paged(_) => ValueShape::ANY,
    }
}

/// The shape behind steps, as far as they lead.
fn behind(shape: &ValueShape, steps: Steps<'_>) -> ValueShape {
    let mut shape = shape.clone();
    for step in steps.views() {
        match shape.step(step) {
            Ok(next) => shape = next,
            Err(_) => return ValueShape::ANY,
        }
    }
    shape
}

fn promise_shape(promise: &Promise, steps: Steps<'_>) -> ValueShape {
    let field = |fields: &[(&str, Types)], name: &str| {
        let field = fields.iter().find(|(field, _)| *field == name)?;
        Some(behind(&ValueShape::of_types(field.1), steps.after(1)))
    };
    let name = steps.first().and_then(StepView::key);
    match (&promise.shape, name) {
        (PromisedShape::Value(shape), _) => behind(shape.get(), steps),
        (PromisedShape::Item { own, value }, name) => {
            let name = name.filter(|_| matches!(steps.first(), Some(StepView::Name(_))));
            name.and_then(|name| field(own, name)).unwrap_or_else(|| behind(value.get(), steps))
        }
        (PromisedShape::Output { value, .. }, None) => behind(value.get(), steps),
        (PromisedShape::Output { value, .. }, Some("value" | "result")) => {
            behind(value.get(), steps.after(1))
        }
        (PromisedShape::Output { meta, .. }, Some("meta")) => behind(meta.get(), steps.after(1)),
        (PromisedShape::Output { also, .. }, Some(name)) => field(also, name).unwrap_or(ValueShape::ANY),
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
    let mut found = Inferred::just(ValueShape::one(Type::Text));
    for part in parts {
        if let TemplatePart::Ref(node, _) = part {
            let part = infer(program, *node, scope, None);
            found.errors.extend(part.errors);
            found.warnings.extend(part.warnings);
        }
    }
    found
}
