//! The order of elements: all numbers or all texts.
//!
//! A mixed list is never put into some order that nobody asked for; it is an error with the index.

use std::cmp::Ordering;

use super::{FuncError, FunctionCall};
use crate::value::{Type, Value, ops};

/// Checks element after element that all have an order with the first.
#[derive(Default)]
pub(super) struct Ordered {
    first: Option<(usize, Type)>,
}

impl Ordered {
    pub(super) fn admit(
        &mut self,
        call: &FunctionCall<'_>,
        index: usize,
        key: &Value,
    ) -> Result<(), FuncError> {
        let kind = key.kind();
        if !matches!(kind, Type::Int | Type::Decimal | Type::Text) {
            return Err(call.wrong_element(index, "a number or text", kind));
        }
        match self.first {
            None => self.first = Some((index, kind)),
            Some((at, first)) if (first == Type::Text) != (kind == Type::Text) => {
                return Err(mixed(at, first, index, kind));
            }
            Some(_) => {}
        }
        Ok(())
    }
}

fn mixed(first: usize, first_kind: Type, index: usize, kind: Type) -> FuncError {
    let (a, b) = (first_kind.with_article(), kind.with_article());
    let why = format!("{a} at index {first} and {b} at index {index} have no order");
    let hint = "make them alike with `number(...)` or `text(...)`";
    FuncError::value(0, why, Some(hint))
}

/// The order of two values that were admitted.
pub(super) fn compare(a: &Value, b: &Value) -> Ordering {
    ops::order(a, b).unwrap_or(Ordering::Equal)
}

/// The list that is the first argument, sorted by its keys: equal ones keep their places, nulls come last.
pub(super) fn sorted(call: &mut FunctionCall<'_>, order_arg: usize) -> Result<Value, FuncError> {
    let descending = call.word(order_arg, ["asc", "desc"])? == "desc";
    let (mut keyed, mut nulls) = (Vec::new(), Vec::new());
    let mut ordered = Ordered::default();
    call.each(|call, index, item, key| {
        if key.is_null() {
            nulls.push(call.keep(item)?);
            return Ok(());
        }
        ordered.admit(call, index, &key)?;
        keyed.push((key, call.keep(item)?));
        Ok(())
    })?;
    keyed.sort_by(|(a, _), (b, _)| if descending { compare(b, a) } else { compare(a, b) });
    Ok(Value::list(keyed.into_iter().map(|(_, item)| item).chain(nulls).collect())?)
}
