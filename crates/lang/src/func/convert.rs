//! Conversions between types. None of them guesses: what does not read as the type is an error.

use super::measure::MeasuredForm;
use super::parameter as param;
use super::{Body, FuncError, Function, FunctionCall, FunctionGroup, Returns};
use crate::value::{Number, NumberError, Value, ValueRepr};

pub(super) const BOOL: Function = Function {
    name: "bool",
    group: FunctionGroup::Convert,
    params: &[param::bool_or_text("value")],
    required: 1,
    returns: Returns::Bool,
    doc: "the bool for the text `true` or `false`; a bool is unchanged; anything else is an error",
    examples: &[(r#"bool("true")"#, "true"), ("bool(1 > 2)", "false")],
    body: Body::Plain(bool),
};

pub(super) const FLOAT: Function = Function {
    name: "float",
    group: FunctionGroup::Convert,
    params: &[param::number_or_text("value")],
    required: 1,
    returns: Returns::Decimal,
    doc: "a number, or the number written in a text, as a decimal: an int gets one place after the point, a decimal is unchanged",
    examples: &[("float(3)", "3.0"), (r#"float("2.50")"#, "2.50"), ("float(0.1) == 0.1", "true")],
    body: Body::Plain(float),
};

pub(super) const INT: Function = Function {
    name: "int",
    group: FunctionGroup::Convert,
    params: &[param::numeric("value")],
    required: 1,
    returns: Returns::Int,
    doc: "the int for a whole number, a text with one, or a bool (1 or 0); a fractional part is an error, `round` drops it",
    examples: &[(r#"int("42")"#, "42"), ("int(85.0)", "85"), ("int(true)", "1"), ("int(round(2.7))", "3")],
    body: Body::Plain(int),
};

pub(super) const NUMBER: Function = Function {
    name: "number",
    group: FunctionGroup::Convert,
    params: &[param::number_or_text("value")],
    required: 1,
    returns: Returns::Number,
    doc: "the number written in a text, with every digit; surrounding white space is ignored; a number is unchanged",
    examples: &[
        (r#"number("42")"#, "42"),
        (r#"number(" 3.10 ")"#, "3.10"),
        (r#"number("0.1") + number("0.2")"#, "0.3"),
    ],
    body: Body::Plain(number),
};

pub(super) const TEXT: Function = Function {
    name: "text",
    group: FunctionGroup::Convert,
    params: &[param::value("value")],
    required: 1,
    returns: Returns::Text,
    doc: "the text form: text is unchanged, null is empty, numbers are as written, lists and objects are compact JSON",
    examples: &[("text(85.0)", r#""85.0""#), ("text(null)", r#""""#), ("text([1, true])", r#""[1,true]""#)],
    body: Body::Plain(text),
};

fn bool(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    match &call.arg(0).0 {
        ValueRepr::Bool(bool) => Ok(Value::from(*bool)),
        ValueRepr::Text(text) => match text.as_str() {
            "true" => Ok(Value::from(true)),
            "false" => Ok(Value::from(false)),
            _ => Err(FuncError::value(0, "the text is neither `true` nor `false`", None)),
        },
        _ => Err(call.wrong_type(0, "a bool or text")),
    }
}

fn float(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    Ok(Value::from(read(call, "a number or text")?.to_decimal()?))
}

fn int(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    if let Some(bool) = call.arg(0).as_bool() {
        return Ok(Value::from(i64::from(bool)));
    }
    let number = read(call, "a number, text or a bool")?;
    let whole = number.truncate()?;
    if whole != number {
        let hint = "`round(...)` gives the nearest int";
        return Err(FuncError::value(0, "the number is not whole", Some(hint)));
    }
    Ok(Value::from(whole))
}

fn number(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    read(call, "a number or text").map(Value::from)
}

fn text(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    let value = call.arg(0);
    if value.as_str().is_some() { Ok(value.clone()) } else { call.make_form(value, MeasuredForm::Text) }
}

fn read(call: &mut FunctionCall<'_>, expected: &'static str) -> Result<Number, FuncError> {
    let value = call.arg(0);
    if let Some(number) = value.as_number() {
        return Ok(number.clone());
    }
    if value.as_str().is_none() {
        return Err(call.wrong_type(0, expected));
    }
    Number::parse(call.text(0)?.trim()).map_err(|error| match error {
        NumberError::Syntax => {
            let hint = "numbers are written like `42`, `-3.10` or `1e6`";
            FuncError::value(0, "the text is not a number", Some(hint))
        }
        error => error.into(),
    })
}
