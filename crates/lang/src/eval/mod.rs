//! The one evaluator: a program, a scope and a session in, a value or an error out.
//!
//! It borrows what it can: a path into the scope gives the value where it lies. It never parses text that came
//! from data, and never looks at a result again.

mod call;
mod check;
mod explain;
mod infer;
mod path;
mod session;
mod stream;

use std::ops::Deref;

use crate::diag::error::{Error, ErrorKind, ValueRead};
use crate::diag::{Fix, Span};
use crate::limits::Limit;
use crate::scope::Scope;
use crate::syntax::{NodeId, NodeRange, Program, RootKind, SyntaxNode, TemplatePart};
use crate::value::{Object, Oversized, Type, Value, ops, ops::BinaryOp};

pub(crate) use check::check;
pub use explain::Explanation;
pub use infer::Inferred;
pub(crate) use infer::{infer, infer_parts};
pub use session::{Resolution, Session, TracedExpression, Undefined, Warning};

/// How deep an evaluation may go, through the nesting of expressions and definitions together.
pub(crate) const MAX_EVALUATION_DEPTH: u32 = 500;

/// A value, borrowed from where it lies or made just now.
pub(crate) enum Val<'a> {
    Ref(&'a Value),
    Own(Value),
}

impl Val<'_> {
    pub(crate) fn into_owned(self) -> Value {
        match self {
            Self::Ref(value) => value.clone(),
            Self::Own(value) => value,
        }
    }
}

impl Deref for Val<'_> {
    type Target = Value;

    #[inline]
    fn deref(&self) -> &Value {
        match self {
            Self::Ref(value) => value,
            Self::Own(value) => value,
        }
    }
}

impl From<Value> for Val<'_> {
    fn from(value: Value) -> Self {
        Self::Own(value)
    }
}

/// The evaluation of one program.
pub(crate) struct ProgramEvaluator<'e, 'w, 'a> {
    pub session: &'e mut Session<'w>,
    pub program: &'a Program,
    pub scope: &'a Scope,
    /// The element that an element expression is about.
    pub element: Option<Value>,
    /// Operations that elements cost within an element expression: the next element does not get them back.
    pub spent_on_elements: u64,
}

impl<'e, 'w, 'a> ProgramEvaluator<'e, 'w, 'a> {
    pub(crate) fn new(session: &'e mut Session<'w>, program: &'a Program, scope: &'a Scope) -> Self {
        Self { session, program, scope, element: None, spent_on_elements: 0 }
    }

    /// Appends text with references to `out`.
    pub(crate) fn text(&mut self, parts: &'a [TemplatePart], out: &mut String) -> Result<(), Error> {
        let start = out.len();
        let max = self.session.limits.text_result;
        for part in parts {
            match part {
                TemplatePart::Lit(span) => out.push_str(self.program.text(*span)),
                TemplatePart::Owned(text) => out.push_str(text),
                TemplatePart::Ref(node, span) => {
                    if let Some(value) = at_hand(self.program, *node, self.scope, self.session)
                        && value.size() <= max as u64
                    {
                        value.write_text(out);
                        if out.len() - start <= max {
                            continue;
                        }
                        return Err(self.session.limit(Limit::TextResult, *span));
                    }
                    let value = self.reference(*node, *span)?;
                    if value.size() > max as u64 {
                        return Err(self.session.limit(Limit::TextResult, *span));
                    }
                    value.write_text(out);
                }
            }
            if out.len() - start > max {
                return Err(self.session.limit(Limit::TextResult, part_span(part)));
            }
        }
        Ok(())
    }

    /// One reference of a text or value field, under the policy for what has no value.
    pub(crate) fn reference(&mut self, node: NodeId, span: Span) -> Result<Val<'a>, Error> {
        let found = match self.node(node) {
            Ok(value) => Ok(value),
            Err(error) => self.undefined(error, span),
        };
        self.trace_whole(span, found.as_deref());
        found
    }

    /// Records what a whole reference gave, where that is traced.
    #[inline]
    pub(crate) fn trace_whole(&mut self, span: Span, found: Result<&Value, &Error>) {
        if self.session.traces() {
            let text = self.program.text(span);
            self.session.trace_expression(text, span, found.ok().cloned());
        }
    }

    #[cold]
    fn undefined(&mut self, error: Error, span: Span) -> Result<Val<'a>, Error> {
        if !self.session.tolerates(&error) {
            return Err(error);
        }
        Ok(match self.session.undefined {
            Undefined::Keep => Value::from(self.program.text(span)).into(),
            Undefined::Error | Undefined::Empty => Value::NULL.into(),
        })
    }

    /// One node. Literals and paths are no operations of their own.
    #[inline]
    pub(crate) fn node(&mut self, id: NodeId) -> Result<Val<'a>, Error> {
        match self.program.node(id) {
            SyntaxNode::Path(path) if self.session.unwatched => self.path(path, id),
            SyntaxNode::Const(value) if self.session.unwatched => Ok(Val::Ref(value)),
            _ => self.inner_node(id),
        }
    }

    fn inner_node(&mut self, id: NodeId) -> Result<Val<'a>, Error> {
        if self.session.fuel == 0 {
            return Err(self.session.limit(Limit::Operations, self.program.span(id)));
        }
        self.session.fuel -= 1;
        self.session.enter(self.program.span(id))?;
        let result = self.dispatch(id);
        self.session.leave();
        if !self.session.unwatched {
            self.record(id, &result);
        }
        result
    }

    fn dispatch(&mut self, id: NodeId) -> Result<Val<'a>, Error> {
        match self.program.node(id) {
            SyntaxNode::Const(value) => Ok(Val::Ref(value)),
            SyntaxNode::Path(path) => self.path(path, id),
            SyntaxNode::Binary(op, left, right) => self.binary(id, *op, *left, *right),
            SyntaxNode::And(operands) => self.logic(*operands, false),
            SyntaxNode::Or(operands) => self.logic(*operands, true),
            SyntaxNode::Not(operand) => {
                let value = self.bool(*operand, "`not`")?;
                Ok(Value::from(!value).into())
            }
            SyntaxNode::If { condition, yes, no } => {
                let condition = self.bool(*condition, "the condition of `if`")?;
                self.node(if condition { *yes } else { *no })
            }
            SyntaxNode::Terms(first, rest) => self.terms(id, *first, *rest),
            SyntaxNode::Chain(links) => self.chain(*links),
            SyntaxNode::Neg(operand) => self.negate(id, *operand),
            SyntaxNode::Text(parts) => self.text_node(*parts),
            SyntaxNode::OrText(head, parts) => self.or_text(*head, *parts),
            SyntaxNode::Element(steps) => self.element_path(id, *steps),
            SyntaxNode::Walk(base, steps) => self.walk_node(*base, *steps),
            SyntaxNode::Index(base, index) => self.index(id, *base, *index),
            SyntaxNode::Slice(..) => self.settled_node(id),
            SyntaxNode::Call { function, args, element } => self.call(id, function, *args, *element),
            SyntaxNode::Compute { kind, args } => self.computed(id, kind.as_str(), *args),
            SyntaxNode::List(items) => {
                let items = self.values(*items)?;
                Value::list(items).map(Val::Own).map_err(|oversized| self.oversized(id, oversized))
            }
            SyntaxNode::Object(keys, values) => {
                let values = self.values(*values)?;
                match Object::new(keys.clone(), values) {
                    Ok(object) => Ok(Value::from(object).into()),
                    Err(oversized) => Err(self.oversized(id, oversized)),
                }
            }
        }
    }

    fn oversized(&self, id: NodeId, oversized: Oversized) -> Error {
        Error::oversized(oversized, self.program.span(id))
    }

    pub(crate) fn values(&mut self, nodes: NodeRange) -> Result<Vec<Value>, Error> {
        self.program.list(nodes).iter().map(|node| Ok(self.node(*node)?.into_owned())).collect()
    }

    #[inline(never)]
    fn text_node(&mut self, parts: NodeRange) -> Result<Val<'a>, Error> {
        let parts: &'a [TemplatePart] = &self.program.parts[parts.range()];
        let mut out = String::new();
        let policy = std::mem::replace(&mut self.session.undefined, Undefined::Error);
        let result = self.text(parts, &mut out);
        self.session.undefined = policy;
        result?;
        Ok(Value::from(out).into())
    }

    /// `head:-text`: the text stands in for missing, null and empty text.
    #[inline(never)]
    fn or_text(&mut self, head: NodeId, parts: NodeRange) -> Result<Val<'a>, Error> {
        let from = self.session.trace_len();
        match self.node(head) {
            Ok(value) if !value.is_null() && value.as_str() != Some("") => return Ok(value),
            Err(error) if !error.is_covered() => return Err(error),
            Ok(_) | Err(_) => self.session.mark_defaulted(from),
        }
        self.text_node(parts)
    }

    #[inline]
    fn binary(&mut self, id: NodeId, op: BinaryOp, left: NodeId, right: NodeId) -> Result<Val<'a>, Error> {
        if matches!(op, BinaryOp::In | BinaryOp::NotIn) {
            return self.membership(id, op, left, right);
        }
        let left_value = self.node(left)?;
        let right_value = self.node(right)?;
        self.operate(id, op, &left_value, &right_value, (left, right)).map(Val::Own)
    }

    #[inline]
    fn operate(
        &mut self,
        id: NodeId,
        op: BinaryOp,
        left: &Value,
        right: &Value,
        nodes: (NodeId, NodeId),
    ) -> Result<Value, Error> {
        if matches!(op, BinaryOp::Eq | BinaryOp::Ne) {
            self.note_types(id, op, left, right);
        }
        let value = ops::binary(op, left, right, self.session.limits.text_result)
            .map_err(|error| self.operands_error(id, op, &error, left, right, nodes))?;
        if matches!(op, BinaryOp::Add | BinaryOp::Mul) {
            self.spend_size(id, &value)?;
        }
        Ok(value)
    }

    /// Making a long text or list costs operations: one for each KiB.
    fn spend_size(&mut self, id: NodeId, value: &Value) -> Result<(), Error> {
        match self.session.fuel.checked_sub(value.size() >> 10) {
            Some(left) => {
                self.session.fuel = left;
                Ok(())
            }
            None => Err(self.session.limit(Limit::Operations, self.program.span(id))),
        }
    }

    #[cold]
    fn operands_error(
        &self,
        id: NodeId,
        op: BinaryOp,
        error: &ops::OpError,
        left: &Value,
        right: &Value,
        (left_node, right_node): (NodeId, NodeId),
    ) -> Error {
        let source = |node| self.program.print_expression(node);
        let (left_source, right_source) = (source(left_node), source(right_node));
        let advice = conversion(op, (&left_source, left), (&right_source, right));
        let max = self.session.limits.text_result as u64;
        let span = self.program.span(id);
        let (hint, fix) = self.advise(span, &left_source, advice);
        Error::operands(op.symbol(), error, span, hint, max).with_reads(self.reads(id)).with_fix(fix)
    }

    /// Values of two types are never equal. That is worth a note, unless one asks for null.
    #[inline]
    fn note_types(&mut self, id: NodeId, op: BinaryOp, left: &Value, right: &Value) {
        let same = std::mem::discriminant(&left.0) == std::mem::discriminant(&right.0);
        if !same && !left.is_null() && !right.is_null() {
            self.warn_types(id, op, left.kind(), right.kind());
        }
    }

    #[cold]
    fn warn_types(&mut self, id: NodeId, op: BinaryOp, left: Type, right: Type) {
        let answer = if op == BinaryOp::Eq { "false" } else { "true" };
        let message = format!("`{}` between {left} and {right} is always {answer}", op.symbol());
        let hint = match (left, right) {
            (Type::Text, Type::Int | Type::Decimal) | (Type::Int | Type::Decimal, Type::Text) => {
                Some("convert one of them: `number(...)` or `text(...)`".to_owned())
            }
            _ => None,
        };
        self.session.warn("types-never-equal", self.program.span(id), message, hint);
    }

    /// `and` stops at the first false, `or` at the first true. All but the last must be bools.
    fn logic(&mut self, operands: NodeRange, stop_at: bool) -> Result<Val<'a>, Error> {
        let operands = self.program.list(operands);
        // The parser makes none without operands.
        let Some((last, rest)) = operands.split_last() else { return Ok(Value::from(!stop_at).into()) };
        let place = if stop_at { "the left side of `or`" } else { "the left side of `and`" };
        for operand in rest {
            if self.bool(*operand, place)? == stop_at {
                return Ok(Value::from(stop_at).into());
            }
        }
        self.node(*last)
    }

    /// `a < b < c`: each operand is evaluated once, up to the first link that does not hold.
    fn chain(&mut self, links: NodeRange) -> Result<Val<'a>, Error> {
        let mut before = None;
        for id in self.program.list(links) {
            let Some((op, left, right)) = self.program.link(*id) else { continue };
            let left_value = match before.take() {
                Some(value) => value,
                None => self.node(left)?,
            };
            let right_value = self.node(right)?;
            let result = self.operate(*id, op, &left_value, &right_value, (left, right)).map(Val::Own);
            if !self.session.unwatched {
                self.record(*id, &result);
            }
            if result?.as_bool() == Some(false) {
                return Ok(Value::from(false).into());
            }
            before = Some(right_value);
        }
        Ok(Value::from(true).into())
    }

    /// A node that must be a bool. What is nearest at hand needs no value of its own.
    pub(crate) fn bool(&mut self, id: NodeId, place: &str) -> Result<bool, Error> {
        if self.session.unwatched && self.session.fuel > 0 {
            match self.program.node(id) {
                SyntaxNode::Binary(op, left, right) => {
                    if let Some(left) = at_hand(self.program, *left, self.scope, self.session)
                        && let Some(right) = at_hand(self.program, *right, self.scope, self.session)
                        && let Some(answer) = ops::compare(*op, left, right)
                    {
                        self.session.fuel -= 1;
                        return Ok(answer);
                    }
                }
                SyntaxNode::And(operands) => return self.all(*operands, place),
                SyntaxNode::Path(_) => {
                    let value = at_hand(self.program, id, self.scope, self.session);
                    if let Some(answer) = value.and_then(Value::as_bool) {
                        return Ok(answer);
                    }
                }
                _ => {}
            }
        }
        let value = self.node(id)?;
        match value.as_bool() {
            Some(bool) => Ok(bool),
            None => Err(self.not_a_bool(id, place, &value)),
        }
    }

    /// `a and b and c` where a bool is needed.
    fn all(&mut self, operands: NodeRange, place: &str) -> Result<bool, Error> {
        self.session.fuel -= 1;
        let operands = self.program.list(operands);
        for (at, operand) in operands.iter().enumerate() {
            let place = if at + 1 < operands.len() { "the left side of `and`" } else { place };
            if !self.bool(*operand, place)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    #[cold]
    pub(crate) fn not_a_bool(&self, id: NodeId, place: &str, value: &Value) -> Error {
        let source = self.program.print_expression(id);
        let spelling = match value.kind() {
            Type::Text if matches!(value.as_str(), Some("true" | "false")) => format!("bool({source})"),
            Type::Text => format!("{source} != \"\""),
            Type::Int | Type::Decimal => format!("{source} != 0"),
            Type::List | Type::Object => format!("len({source}) > 0"),
            Type::Null | Type::Bool => format!("{source} != null"),
        };
        let offer = if spelling.starts_with("bool(") { "write" } else { "write a comparison, such as" };
        let hint = format!("{offer} `{spelling}`");
        let kind = ErrorKind::Expected {
            place: place.to_owned(),
            expected: "a bool",
            got: value.kind(),
            hint: Some(hint),
        };
        let fix = self.rewritten(self.program.span(id), &source, spelling);
        Error::new(kind, self.program.span(id)).with_reads(self.reads(id)).with_fix(fix)
    }

    /// A hint that shows what to write in place of a part of the text, and the replacement.
    fn advise(&self, span: Span, source: &str, advice: Option<Advice>) -> (Option<String>, Option<Fix>) {
        let Some((offer, spelling)) = advice else { return (None, None) };
        (Some(format!("{offer} `{spelling}`")), self.rewritten(span, source, spelling))
    }

    /// The replacement of a part of the text, unless the part stands in a text with escapes, whose places are not kept.
    fn rewritten(&self, span: Span, source: &str, spelling: String) -> Option<Fix> {
        let begins_quoted = |text: &str| text.starts_with(['"', '\'']);
        let kept = begins_quoted(self.program.text(span)) == begins_quoted(source);
        kept.then(|| Fix::new(span, spelling))
    }

    fn terms(&mut self, id: NodeId, first: NodeId, rest: NodeRange) -> Result<Val<'a>, Error> {
        let mut value = self.node(first)?.into_owned();
        let start = self.program.span(id).start;
        let mut end = self.program.span(first).end;
        for (op, right) in &self.program.terms[rest.range()] {
            if self.session.fuel == 0 {
                return Err(self.session.limit(Limit::Operations, self.program.span(id)));
            }
            self.session.fuel -= 1;
            let right_value = self.node(*right)?;
            let right_span = self.program.span(*right);
            value =
                ops::binary(*op, &value, &right_value, self.session.limits.text_result).map_err(|error| {
                    let left = self.program.text(Span { start, end }).trim();
                    let advice =
                        conversion(*op, (left, &value), (self.program.text(right_span), &right_value));
                    let span = Span { start, end: right_span.end };
                    let max = self.session.limits.text_result as u64;
                    let (hint, fix) = self.advise(span, left, advice);
                    Error::operands(op.symbol(), &error, span, hint, max)
                        .with_reads(self.reads(id))
                        .with_fix(fix)
                })?;
            self.spend_size(id, &value)?;
            end = right_span.end;
        }
        Ok(value.into())
    }

    fn negate(&mut self, id: NodeId, operand: NodeId) -> Result<Val<'a>, Error> {
        let value = self.node(operand)?;
        let span = self.program.span(id);
        match value.as_number().map(crate::value::Number::neg) {
            Some(Ok(number)) => Ok(Value::from(number).into()),
            Some(Err(error)) => Err(Error::operands("-", &error.into(), span, None, 0)),
            None => {
                let kind = ErrorKind::Expected {
                    place: "`-`".to_owned(),
                    expected: "a number",
                    got: value.kind(),
                    hint: None,
                };
                Err(Error::new(kind, span).with_reads(self.reads(id)))
            }
        }
    }

    /// The references in a part of the program, with the values they have now. Computed values are not asked for.
    #[cold]
    pub(crate) fn reads(&self, id: NodeId) -> Vec<ValueRead> {
        let mut reads: Vec<ValueRead> = Vec::new();
        self.program.visit(id, &mut |node, _place| {
            let value = match self.program.node(node) {
                SyntaxNode::Path(path) => self.peek(path),
                SyntaxNode::Element(steps) => self
                    .element
                    .as_ref()
                    .and_then(|element| path::follow(element, self.program.steps(*steps))),
                _ => None,
            };
            let reference = self.program.text(self.program.span(node));
            if let Some(value) = value
                && !reads.iter().any(|read| read.reference == reference)
            {
                reads.push(ValueRead { reference: reference.into(), value: value.clone() });
            }
        });
        reads
    }
}

/// The value of a literal, or of a path that leads straight to one; nothing where somebody watches.
#[inline]
pub(crate) fn at_hand<'a>(
    program: &'a Program,
    id: NodeId,
    scope: &'a Scope,
    session: &Session<'_>,
) -> Option<&'a Value> {
    if !session.unwatched {
        return None;
    }
    match program.node(id) {
        SyntaxNode::Const(value) => Some(value),
        SyntaxNode::Path(path) if path.kind == RootKind::Named => {
            path::follow(scope.plain(path.root, program, &path.last)?, program.steps(path.steps))
        }
        _ => None,
    }
}

fn part_span(part: &TemplatePart) -> Span {
    match part {
        TemplatePart::Lit(span) | TemplatePart::Ref(_, span) => *span,
        TemplatePart::Owned(_) => Span::default(),
    }
}

/// The words of a hint before what it shows, and what it shows.
type Advice = (&'static str, String);

/// What to write when one side is text that could be a number, or a number that could be text.
fn conversion(
    op: BinaryOp,
    (left_source, left): (&str, &Value),
    (right_source, right): (&str, &Value),
) -> Option<Advice> {
    let numeric = |kind| matches!(kind, Type::Int | Type::Decimal);
    let symbol = op.symbol();
    if matches!(op, BinaryOp::In | BinaryOp::NotIn) {
        let in_text = right.kind() == Type::Text && !matches!(left.kind(), Type::List | Type::Object);
        return in_text.then(|| ("write", format!("text({left_source}) {symbol} {right_source}")));
    }
    match (left.kind(), right.kind()) {
        (Type::Text, right) if numeric(right) && op == BinaryOp::Add => {
            Some(("to join texts write", format!("{left_source} + text({right_source})")))
        }
        (left, Type::Text) if numeric(left) && op == BinaryOp::Add => {
            Some(("to join texts write", format!("text({left_source}) + {right_source}")))
        }
        (Type::Text, right) if numeric(right) => {
            Some(("write", format!("number({left_source}) {symbol} {right_source}")))
        }
        (left, Type::Text) if numeric(left) => {
            Some(("write", format!("{left_source} {symbol} number({right_source})")))
        }
        (Type::Null, _) => {
            Some(("give a default:", format!("default({left_source}, 0) {symbol} {right_source}")))
        }
        (_, Type::Null) => {
            Some(("give a default:", format!("{left_source} {symbol} default({right_source}, 0)")))
        }
        _ => None,
    }
}
