//! Numbers as people write them: `5`, `"5"`, `"5 DOT"`. Exact, and comparable only with the same unit.
//!
//! Nothing here guesses: `abc` is no number, and `5 DOT` is not 5.

use std::cmp::Ordering;

use ecow::EcoString;
use threadline_lang::{Number, Value};

/// A number and its unit, which is empty where there is none.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Quantity<U> {
    pub number: Number,
    pub unit: U,
}

/// Two quantities whose units differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OtherUnit;

/// The number that a value is, and its unit, which is empty where there is none: of a number, or of a text that holds
/// one as `5` or `5 DOT`.
pub fn quantity(value: &Value) -> Option<(Number, &str)> {
    Quantity::of(value).map(|quantity| (quantity.number, quantity.unit))
}

impl<'v> Quantity<&'v str> {
    /// Of a number, or of a text that is one.
    pub(crate) fn of(value: &'v Value) -> Option<Self> {
        match (value.as_number(), value.as_str()) {
            (Some(number), _) => Some(Self { number: number.clone(), unit: "" }),
            (_, Some(text)) => Self::read(text),
            _ => None,
        }
    }

    fn read(text: &'v str) -> Option<Self> {
        let text = text.trim();
        let digits = text.strip_prefix('+').unwrap_or(text);
        let end = number_end(digits)?;
        let (number, unit) = digits.split_at(end);
        let unit = unit.trim_start();
        is_unit(unit).then_some(())?;
        Some(Self { number: Number::parse(number).ok()?, unit })
    }
}

impl<U: AsRef<str>> Quantity<U> {
    /// The order of two numbers of one unit.
    pub(crate) fn order<V: AsRef<str>>(&self, other: &Quantity<V>) -> Result<Ordering, OtherUnit> {
        let (unit, other_unit) = (self.unit.as_ref(), other.unit.as_ref());
        // Most have no unit, and comparing empty texts is not free.
        if (!unit.is_empty() || !other_unit.is_empty()) && unit != other_unit {
            return Err(OtherUnit);
        }
        Ok(self.number.cmp(&other.number))
    }

    /// The same with a unit of its own.
    pub(crate) fn owned(&self) -> Quantity<EcoString> {
        Quantity { number: self.number.clone(), unit: self.unit.as_ref().into() }
    }
}

/// Where the number at the beginning of a text ends.
fn number_end(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let digits = |mut at: usize| {
        while bytes.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        at
    };
    let start = usize::from(bytes.first() == Some(&b'-'));
    let mut end = digits(start);
    if end == start {
        return None;
    }
    if bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit) {
        end = digits(end + 1);
    }
    // An `e` without digits behind it is the beginning of a unit.
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent > end + 1 + sign {
            end = exponent;
        }
    }
    Some(end)
}

/// One word that begins with a letter or a sign of a unit, and has no digit in it.
fn is_unit(text: &str) -> bool {
    let begins =
        |first: char| first.is_alphabetic() || matches!(first, '%' | '°' | '$' | '€' | '£' | '¥' | 'µ');
    text.chars().next().is_none_or(begins)
        && !text.contains(|char: char| char.is_whitespace() || char.is_numeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn read(text: &str) -> Option<(String, String)> {
        let value = Value::from(text);
        Quantity::of(&value).map(|it| (Value::from(it.number).to_string(), it.unit.to_owned()))
    }

    #[test]
    fn numbers_with_and_without_a_unit() {
        for (text, number, unit) in [
            ("5", "5", ""),
            (" -0.10 ", "-0.10", ""),
            ("+3", "3", ""),
            ("1e5", "1e5", ""),
            ("5 DOT", "5", "DOT"),
            ("5DOT", "5", "DOT"),
            ("12.5%", "12.5", "%"),
            ("5 eur", "5", "eur"),
            ("5e", "5", "e"),
            ("20 °C", "20", "°C"),
            ("9007199254740993", "9007199254740993", ""),
        ] {
            assert_eq!(read(text), Some((number.to_owned(), unit.to_owned())), "{text}");
        }
    }

    #[test]
    fn what_is_no_number() {
        for text in [
            "",
            "abc",
            "-",
            ".",
            ".5",
            "5.",
            "007",
            "1,000",
            "10:30",
            "2024-05-06",
            "5 DOT a day",
            "$5",
            "5 x2",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
