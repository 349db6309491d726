//! What a YAML scalar without quotes is: the core schema of YAML 1.2, no more and no less.

use std::borrow::Cow;

use num_bigint::BigInt;

use crate::data::ReadErrorKind;
use crate::limits::Limit;
use crate::value::{MAX_DIGITS, Number, NumberError};

/// The tags that may be written.
pub(super) const TAGS: [&str; 7] = ["str", "int", "float", "bool", "null", "seq", "map"];

/// What a scalar stands for.
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Number(Number),
    /// Its text as it is.
    Text,
}

/// What a plain scalar stands for.
pub(super) fn resolve(text: &str) -> Result<Scalar, ReadErrorKind> {
    // Most texts begin like none of the others.
    match text.as_bytes().first() {
        None | Some(b'~' | b'n' | b'N' | b't' | b'T' | b'f' | b'F') => Ok(word(text).unwrap_or(Scalar::Text)),
        Some(b'0'..=b'9' | b'+' | b'-' | b'.') => Ok(number(text)?.map_or(Scalar::Text, Scalar::Number)),
        Some(_) => Ok(Scalar::Text),
    }
}

/// What a scalar with a core tag stands for: nothing for another tag, and nothing when it is not of that type.
pub(super) fn resolve_as(tag: &str, text: &str) -> Option<Result<Option<Scalar>, ReadErrorKind>> {
    Some(match tag {
        "str" => Ok(Some(Scalar::Text)),
        "null" => Ok(word(text).filter(|scalar| matches!(scalar, Scalar::Null))),
        "bool" => Ok(word(text).filter(|scalar| matches!(scalar, Scalar::Bool(_)))),
        "int" => number(text).map(|number| number.filter(Number::is_int).map(Scalar::Number)),
        "float" => float(text).map(|number| number.map(Scalar::Number)),
        "seq" | "map" => Ok(None),
        _ => return None,
    })
}

fn word(text: &str) -> Option<Scalar> {
    Some(match text {
        "" | "~" | "null" | "Null" | "NULL" => Scalar::Null,
        "true" | "True" | "TRUE" => Scalar::Bool(true),
        "false" | "False" | "FALSE" => Scalar::Bool(false),
        _ => return None,
    })
}

/// The number a text is, when it is one.
fn number(text: &str) -> Result<Option<Number>, ReadErrorKind> {
    if let Some(digits) = text.strip_prefix("0x") {
        return radix(digits, 16);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return radix(digits, 8);
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return Err(ReadErrorKind::NotANumber);
    }
    match normal(text) {
        Some(normal) => parsed(Number::parse(&normal)),
        None => Ok(None),
    }
}

/// The number a text is, as a decimal also where it is written as an int.
fn float(text: &str) -> Result<Option<Number>, ReadErrorKind> {
    match number(text)? {
        Some(int) if int.is_int() => parsed(int.to_decimal()),
        other => Ok(other),
    }
}

fn parsed(number: Result<Number, NumberError>) -> Result<Option<Number>, ReadErrorKind> {
    match number {
        Ok(number) => Ok(Some(number)),
        Err(NumberError::TooLarge) => Err(ReadErrorKind::Limit(Limit::Digits)),
        Err(_) => Ok(None),
    }
}

fn radix(digits: &str, radix: u32) -> Result<Option<Number>, ReadErrorKind> {
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return Ok(None);
    }
    let significant = digits.trim_start_matches('0');
    if significant.is_empty() {
        return Ok(Some(Number::int(0)));
    }
    if significant.len() > MAX_DIGITS * 2 {
        return Err(ReadErrorKind::Limit(Limit::Digits));
    }
    match BigInt::parse_bytes(significant.as_bytes(), radix) {
        Some(int) => parsed(Number::big_int(int)),
        None => Ok(None),
    }
}

/// A decimal number as JSON would write it: no `+`, no leading zeros, digits on both sides of the point.
fn normal(text: &str) -> Option<Cow<'_, str>> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => unsigned.split_at(at),
        None => (unsigned, ""),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let some_digit = !whole.is_empty() || fraction.is_some_and(|part| !part.is_empty());
    if !some_digit || !digits(whole) || !fraction.is_none_or(digits) || !is_exponent(exponent) {
        return None;
    }
    let significant = whole.trim_start_matches('0');
    if significant == whole && !text.starts_with('+') && fraction != Some("") && !whole.is_empty() {
        return Some(Cow::Borrowed(text));
    }
    let mut normal = String::with_capacity(text.len() + 2);
    normal.push_str(if negative { "-" } else { "" });
    normal.push_str(if significant.is_empty() { "0" } else { significant });
    match fraction {
        Some("") if exponent.is_empty() => normal.push_str(".0"),
        Some("") | None => {}
        Some(fraction) => {
            normal.push('.');
            normal.push_str(fraction);
        }
    }
    normal.push_str(exponent);
    Some(Cow::Owned(normal))
}

/// Whether this is nothing, or an exponent with its `e`.
fn is_exponent(text: &str) -> bool {
    let Some(exponent) = text.strip_prefix(['e', 'E']) else { return text.is_empty() };
    let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}
