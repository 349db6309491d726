//! Functions that compute with numbers, over a list or over their arguments.
//!
//! Sums are exact. Averages and medians are decimals, rounded as quotients are.

use std::cmp::Ordering;

use super::order::{Ordered, compare};
use super::parameter as param;
use super::{Body, FuncError, Function, FunctionCall, FunctionGroup, Returns};
use crate::value::{MAX_DIGITS, Number, Type, Value};

pub(super) const EMPTY: FuncError = FuncError::Missing("the list is empty");

pub(super) const ABS: Function = Function {
    name: "abs",
    group: FunctionGroup::Number,
    params: &[param::number("number")],
    required: 1,
    returns: Returns::Number,
    doc: "the number without its sign",
    examples: &[("abs(-3)", "3"), ("abs(-2.50)", "2.50"), ("abs(4)", "4")],
    body: Body::Plain(abs),
};

pub(super) const AVG: Function = Function {
    name: "avg",
    group: FunctionGroup::Number,
    params: &[param::numbers("list"), param::number_of("expression")],
    required: 1,
    returns: Returns::Decimal,
    doc: "the average of a list of numbers, or of an expression over its elements; missing if the list is empty",
    examples: &[
        ("avg([1, 2])", "1.5"),
        ("avg([0.1, 0.2, 0.3])", "0.2"),
        (r#"[{"score": 80}, {"score": 90}] | avg("score")"#, "85.0"),
        ("[] | avg | default(0)", "0"),
    ],
    body: Body::Fold(avg),
};

pub(super) const MAX: Function = Function {
    name: "max",
    group: FunctionGroup::Number,
    params: &[param::ordered("list"), param::ordered_by("expression"), param::rest("value")],
    required: 1,
    returns: Returns::Extreme,
    doc: "the largest element of a list of numbers or texts, the largest result of an expression over its elements, or the largest of several values; missing if the list is empty",
    examples: &[
        ("max([3, 1, 2])", "3"),
        ("max(1, 2.5, 2)", "2.5"),
        (r#"[{"n": 3}, {"n": 5}] | max("n")"#, "5"),
        (r#"max(["b", "a"])"#, r#""b""#),
    ],
    body: Body::Fold(max),
};

pub(super) const MEDIAN: Function = Function {
    name: "median",
    group: FunctionGroup::Number,
    params: &[param::numbers("list"), param::number_of("expression")],
    required: 1,
    returns: Returns::Decimal,
    doc: "the median of a list of numbers, or of an expression over its elements; the average of the middle two if their number is even; missing if the list is empty",
    examples: &[
        ("median([5, 1, 3])", "3.0"),
        ("median([4, 1, 2, 3])", "2.5"),
        (r#"[{"ms": 12}, {"ms": 40}, {"ms": 20}] | median("ms")"#, "20.0"),
    ],
    body: Body::Fold(median),
};

pub(super) const MIN: Function = Function {
    name: "min",
    group: FunctionGroup::Number,
    params: &[param::ordered("list"), param::ordered_by("expression"), param::rest("value")],
    required: 1,
    returns: Returns::Extreme,
    doc: "the smallest element of a list of numbers or texts, the smallest result of an expression over its elements, or the smallest of several values; missing if the list is empty",
    examples: &[
        ("min([3, 1, 2])", "1"),
        ("min(3, 1 + 1)", "2"),
        (r#"[{"n": 3}, {"n": 1}] | min("n")"#, "1"),
        ("[] | min | default(0)", "0"),
    ],
    body: Body::Fold(min),
};

pub(super) const ROUND: Function = Function {
    name: "round",
    group: FunctionGroup::Number,
    params: &[param::number("number"), param::count("digits")],
    required: 1,
    returns: Returns::Rounded,
    doc: "the number rounded to a number of digits after the point (default: 0), half away from zero",
    examples: &[
        ("round(2.5)", "3"),
        ("round(-2.5)", "-3"),
        ("round(2.345, 2)", "2.35"),
        ("round(1 / 3, 3)", "0.333"),
        ("round(7, 2)", "7"),
    ],
    body: Body::Plain(round),
};

pub(super) const SUM: Function = Function {
    name: "sum",
    group: FunctionGroup::Number,
    params: &[param::numbers("list"), param::number_of("expression")],
    required: 1,
    returns: Returns::Number,
    doc: "the exact sum of a list of numbers, or of an expression over its elements; 0 if the list is empty",
    examples: &[
        ("sum([1, 2.5])", "3.5"),
        ("sum([0.1, 0.2]) == 0.3", "true"),
        (r#"[{"score": 80}, {"score": 5}] | sum("score")"#, "85"),
        (r#"[{"n": 2, "price": 1.50}] | sum("n * price")"#, "3.00"),
        ("sum([])", "0"),
    ],
    body: Body::Fold(sum),
};

fn abs(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    Ok(Value::from(call.number(0)?.abs()?))
}

fn round(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    let digits = call.optional_count(1, u32::try_from(MAX_DIGITS).unwrap_or(u32::MAX), 0)?;
    Ok(Value::from(call.number(0)?.round(digits)?))
}

fn sum(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    Ok(Value::from(total(call)?.0))
}

fn avg(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    match total(call)? {
        (_, 0) => Err(EMPTY),
        (sum, count) => Ok(Value::from(sum.div(&Number::int(count))?)),
    }
}

fn median(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    let mut numbers = Vec::new();
    each_number(call, |call, number| {
        call.make_room(size_of::<Number>() as u64)?;
        numbers.push(number.clone());
        Ok(())
    })?;
    numbers.sort_unstable();
    let middle = numbers.len() / 2;
    let above = numbers.get(middle).ok_or(EMPTY)?;
    if numbers.len() % 2 == 1 {
        return Ok(Value::from(above.to_decimal()?));
    }
    Ok(Value::from(numbers[middle - 1].add(above)?.div(&Number::int(2))?))
}

fn min(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    extreme(call, Ordering::Less)
}

fn max(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    extreme(call, Ordering::Greater)
}

/// The first of the values that no other one is before, in this direction.
fn extreme(call: &mut FunctionCall<'_>, wanted: Ordering) -> Result<Value, FuncError> {
    if call.args.len() > 1 {
        return extreme_argument(call, wanted);
    }
    if call.arg(0).as_list().is_none() {
        let expected = if call.has_element() {
            "a list before an expression over its elements"
        } else {
            "a list or several values"
        };
        return Err(call.wrong_type(0, expected));
    }
    let mut best: Option<Value> = None;
    let mut ordered = Ordered::default();
    call.each(|call, index, _, key| {
        ordered.admit(call, index, &key)?;
        if best.as_ref().is_none_or(|best| compare(&key, best) == wanted) {
            best = Some(key);
        }
        Ok(())
    })?;
    best.ok_or(EMPTY)
}

fn extreme_argument(call: &mut FunctionCall<'_>, wanted: Ordering) -> Result<Value, FuncError> {
    if call.has_element() {
        let why = "nothing may follow the expression over the elements";
        return Err(FuncError::value(1, why, Some("put the values into a list")));
    }
    call.spend(call.args.len())?;
    let expected = match call.arg(0).kind() {
        Type::Int | Type::Decimal => "a number, as the first is",
        Type::Text => "text, as the first is",
        _ => return Err(call.wrong_type(0, "a number or text")),
    };
    let mut best = call.arg(0);
    for (index, value) in call.args.iter().enumerate() {
        if (value.as_str().is_some(), value.as_number().is_some())
            != (best.as_str().is_some(), best.as_number().is_some())
        {
            return Err(call.wrong_type(index, expected));
        }
        if compare(value, best) == wanted {
            best = value;
        }
    }
    Ok(best.clone())
}

fn total(call: &mut FunctionCall<'_>) -> Result<(Number, i64), FuncError> {
    let (mut sum, mut count) = (Number::int(0), 0);
    each_number(call, |_, number| {
        sum = sum.add(number)?;
        count += 1;
        Ok(())
    })?;
    Ok((sum, count))
}

fn each_number<'a>(
    call: &mut FunctionCall<'a>,
    mut visit: impl FnMut(&mut FunctionCall<'a>, &Number) -> Result<(), FuncError>,
) -> Result<(), FuncError> {
    call.each(|call, index, _, result| match result.as_number() {
        Some(number) => visit(call, number),
        None => Err(call.wrong_element(index, "a number", result.kind())),
    })
}
