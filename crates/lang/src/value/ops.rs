//! Every operator of the language, once. The evaluator, the functions and later the expectations use these.

use std::cmp::Ordering;

use ecow::EcoString;

use crate::limits::Limit;

use super::{Number, NumberError, Oversized, Type, Value, ValueRepr};

/// The operators that take two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinaryOp {
    /// The operator `+`.
    Add,
    /// The operator `-`.
    Sub,
    /// The operator `*`.
    Mul,
    /// The operator `/`.
    Div,
    /// The operator `//`.
    FloorDiv,
    /// The operator `%`.
    Rem,
    /// The operator `**`.
    Pow,
    /// The operator `==`.
    Eq,
    /// The operator `!=`.
    Ne,
    /// The operator `<`.
    Lt,
    /// The operator `<=`.
    Le,
    /// The operator `>`.
    Gt,
    /// The operator `>=`.
    Ge,
    /// The operator `in`.
    In,
    /// The operator `not in`.
    NotIn,
}

impl BinaryOp {
    /// Every operator, in the order tables show them.
    pub const ALL: [Self; 15] = [
        Self::Add,
        Self::Sub,
        Self::Mul,
        Self::Div,
        Self::FloorDiv,
        Self::Rem,
        Self::Pow,
        Self::Eq,
        Self::Ne,
        Self::Lt,
        Self::Le,
        Self::Gt,
        Self::Ge,
        Self::In,
        Self::NotIn,
    ];

    /// The operator as it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Sub => "-",
            Self::Mul => "*",
            Self::Div => "/",
            Self::FloorDiv => "//",
            Self::Rem => "%",
            Self::Pow => "**",
            Self::Eq => "==",
            Self::Ne => "!=",
            Self::Lt => "<",
            Self::Le => "<=",
            Self::Gt => ">",
            Self::Ge => ">=",
            Self::In => "in",
            Self::NotIn => "not in",
        }
    }
}

/// Why an operator gave no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpError {
    /// The operator does not take these types.
    Types(Type, Type),
    /// The arithmetic failed.
    Number(NumberError),
    /// The text or list would be longer than the limit.
    TooLong,
    /// The result would be nested too deep, or be too large.
    Oversized(Limit),
}

impl From<NumberError> for OpError {
    fn from(error: NumberError) -> Self {
        Self::Number(error)
    }
}

impl From<Oversized> for OpError {
    fn from(Oversized(limit): Oversized) -> Self {
        Self::Oversized(limit)
    }
}

/// Applies an operator. `max_len` bounds the bytes of a text and the items of a list that it makes.
#[inline]
pub fn binary(op: BinaryOp, left: &Value, right: &Value, max_len: usize) -> Result<Value, OpError> {
    match op {
        BinaryOp::Eq => Ok(Value::from(left == right)),
        BinaryOp::Ne => Ok(Value::from(left != right)),
        BinaryOp::Lt => order(left, right).map(|order| Value::from(order == Ordering::Less)),
        BinaryOp::Le => order(left, right).map(|order| Value::from(order != Ordering::Greater)),
        BinaryOp::Gt => order(left, right).map(|order| Value::from(order == Ordering::Greater)),
        BinaryOp::Ge => order(left, right).map(|order| Value::from(order != Ordering::Less)),
        BinaryOp::In => contains(right, left).map(Value::from),
        BinaryOp::NotIn => contains(right, left).map(|found| Value::from(!found)),
        BinaryOp::Add => add(left, right, max_len),
        BinaryOp::Mul => multiply(left, right, max_len),
        BinaryOp::Sub => numbers(left, right, Number::sub),
        BinaryOp::Div => numbers(left, right, Number::div),
        BinaryOp::FloorDiv => numbers(left, right, Number::floor_div),
        BinaryOp::Rem => numbers(left, right, Number::rem),
        BinaryOp::Pow => numbers(left, right, Number::pow),
    }
}

/// The answer of a comparison between two values of one sort; nothing where there is more to say.
#[inline]
pub(crate) fn compare(op: BinaryOp, left: &Value, right: &Value) -> Option<bool> {
    let order = match (&left.0, &right.0) {
        (ValueRepr::Number(a), ValueRepr::Number(b)) => a.cmp(b),
        (ValueRepr::Text(a), ValueRepr::Text(b)) => match op {
            BinaryOp::Eq => return Some(a == b),
            BinaryOp::Ne => return Some(a != b),
            _ => a.as_str().cmp(b.as_str()),
        },
        _ => return None,
    };
    Some(match op {
        BinaryOp::Eq => order == Ordering::Equal,
        BinaryOp::Ne => order != Ordering::Equal,
        BinaryOp::Lt => order == Ordering::Less,
        BinaryOp::Le => order != Ordering::Greater,
        BinaryOp::Gt => order == Ordering::Greater,
        BinaryOp::Ge => order != Ordering::Less,
        _ => return None,
    })
}

/// The order of two numbers or two texts; nothing else has one.
#[inline]
pub fn order(left: &Value, right: &Value) -> Result<Ordering, OpError> {
    match (&left.0, &right.0) {
        (ValueRepr::Number(a), ValueRepr::Number(b)) => Ok(a.cmp(b)),
        (ValueRepr::Text(a), ValueRepr::Text(b)) => Ok(a.as_str().cmp(b.as_str())),
        _ => Err(OpError::Types(left.kind(), right.kind())),
    }
}

/// Whether a list has an item, a text a part, an object a key.
pub fn contains(container: &Value, item: &Value) -> Result<bool, OpError> {
    match (&container.0, &item.0) {
        (ValueRepr::List(list), _) => Ok(list.items.contains(item)),
        (ValueRepr::Text(text), ValueRepr::Text(part)) => Ok(text.contains(part.as_str())),
        (ValueRepr::Object(object), ValueRepr::Text(key)) => Ok(object.get_str(key).is_some()),
        _ => Err(OpError::Types(item.kind(), container.kind())),
    }
}

fn numbers(
    left: &Value,
    right: &Value,
    op: impl Fn(&Number, &Number) -> Result<Number, NumberError>,
) -> Result<Value, OpError> {
    match (&left.0, &right.0) {
        (ValueRepr::Number(a), ValueRepr::Number(b)) => Ok(Value::from(op(a, b)?)),
        _ => Err(OpError::Types(left.kind(), right.kind())),
    }
}

fn add(left: &Value, right: &Value, max_len: usize) -> Result<Value, OpError> {
    match (&left.0, &right.0) {
        (ValueRepr::Text(a), ValueRepr::Text(b)) => {
            if a.len() + b.len() > max_len {
                return Err(OpError::TooLong);
            }
            let mut text = EcoString::with_capacity(a.len() + b.len());
            text.push_str(a);
            text.push_str(b);
            Ok(Value::from(text))
        }
        (ValueRepr::List(a), ValueRepr::List(b)) => {
            if a.items.len() + b.items.len() > max_len {
                return Err(OpError::TooLong);
            }
            Ok(Value::list(a.items.iter().chain(&b.items).cloned().collect())?)
        }
        _ => numbers(left, right, Number::add),
    }
}

fn multiply(left: &Value, right: &Value, max_len: usize) -> Result<Value, OpError> {
    match (&left.0, &right.0) {
        (ValueRepr::Text(text), ValueRepr::Number(count))
        | (ValueRepr::Number(count), ValueRepr::Text(text))
            if count.is_int() =>
        {
            let count = repeat_count(count, text.len(), max_len)?;
            Ok(Value::from(text.repeat(count)))
        }
        (ValueRepr::List(list), ValueRepr::Number(count))
        | (ValueRepr::Number(count), ValueRepr::List(list))
            if count.is_int() =>
        {
            let count = repeat_count(count, list.items.len(), max_len / size_of::<Value>())?;
            let items = std::iter::repeat_n(&list.items, count).flatten().cloned().collect();
            Ok(Value::list(items)?)
        }
        _ => numbers(left, right, Number::mul),
    }
}

fn repeat_count(count: &Number, len: usize, max_len: usize) -> Result<usize, OpError> {
    if count.is_negative() || len == 0 {
        return Ok(0);
    }
    let count = count.as_i64().and_then(|count| usize::try_from(count).ok()).ok_or(OpError::TooLong)?;
    if count.saturating_mul(len) > max_len { Err(OpError::TooLong) } else { Ok(count) }
}
