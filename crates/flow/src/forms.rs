//! Scalars of a workflow that the language does not have: durations, sizes, file modes, names.
//!
//! The loader reads literal values with these functions, and the engine reads the values of references.
//! Nothing here knows a key.

use std::time::Duration;

use threadline_lang::func::duration_seconds;
use threadline_lang::{Number, Value, is_plain_name};

/// What a duration is, for messages.
pub const DURATION_FORM: &str = "a duration such as `500ms`, `30s`, `5m`, `1h30m`, or a number of seconds";
/// What a size is, for messages.
pub const SIZE_FORM: &str = "a size such as `64MiB`, `10kB`, or a number of bytes";

/// What a fraction is, for messages.
pub const FRACTION_FORM: &str = "a fraction from 0 to 1 such as `0.1`, or a percentage such as `10%`";

/// The maximum duration in seconds: a hundred years.
const LONGEST: f64 = 100.0 * 366.0 * 86_400.0;

/// The units of sizes, with their number of bytes.
const SIZE_UNITS: [(&str, u64); 7] = [
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

/// The fields of a cron expression: their names, their limits, and the names of their values.
const CRON: [(&str, u32, u32, &[&str]); 5] = [
    ("minute", 0, 59, &[]),
    ("hour", 0, 23, &[]),
    ("day of the month", 1, 31, &[]),
    ("month", 1, 12, &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]),
    ("day of the week", 0, 7, &["sun", "mon", "tue", "wed", "thu", "fri", "sat"]),
];

/// Why a value is not a cron expression, if it is not.
pub fn not_cron(value: &Value) -> Option<String> {
    let Some(text) = value.as_str() else { return Some("takes text".to_owned()) };
    let fields: Vec<&str> = text.split_whitespace().collect();
    if fields.len() != CRON.len() {
        return Some(format!("has {} fields, not 5", fields.len()));
    }
    let wrong =
        fields.iter().zip(CRON).find(|(field, about)| !field.split(',').all(|part| is_cron(part, about)));
    wrong.map(|(field, (name, least, most, _))| {
        format!("has `{field}` as its {name}, which must be between {least} and {most}")
    })
}

/// Checks `*`, `5`, `1-5` or `mon-fri`, optionally followed by `/2`.
fn is_cron(part: &str, (_, least, most, names): &(&str, u32, u32, &[&str])) -> bool {
    let (range, step) = part.split_once('/').map_or((part, None), |(range, step)| (range, Some(step)));
    let number = |text: &str| {
        let digits =
            (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok());
        let by_name = names.iter().position(|name| name.eq_ignore_ascii_case(text));
        digits
            .flatten()
            .or_else(|| Some(u32::try_from(by_name?).ok()? + least))
            .filter(|n| (least..=most).contains(&n))
    };
    let fits = match range.split_once('-') {
        _ if range == "*" => true,
        Some((from, to)) => number(from).zip(number(to)).is_some_and(|(from, to)| from <= to),
        None => number(range).is_some(),
    };
    let steps = |step: &str| step.parse::<u32>().is_ok_and(|step| step > 0 && step <= *most);
    fits && step.is_none_or(steps)
}

/// Reads a duration: a text with units, or a number of seconds.
pub fn duration(value: &Value) -> Option<Duration> {
    let seconds = match value.as_str() {
        Some(text) => duration_seconds(text).or_else(|| Number::parse(text.trim()).ok())?,
        None => value.as_number()?.clone(),
    };
    let seconds = seconds.to_f64();
    (0.0..=LONGEST).contains(&seconds).then(|| Duration::from_secs_f64(seconds))
}

/// Reads a size in bytes: a text with a unit, or a number.
pub fn size(value: &Value) -> Option<u64> {
    let Some(text) = value.as_str() else { return count(value) };
    let text = text.trim();
    let end = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let unit = unit.trim_start();
    let (_, bytes) =
        SIZE_UNITS.iter().find(|(name, _)| unit.eq_ignore_ascii_case(name) || unit.is_empty())?;
    digits.parse::<u64>().ok()?.checked_mul(*bytes)
}

/// Reads a whole number that is not negative, also from text.
pub fn count(value: &Value) -> Option<u64> {
    match value.as_str() {
        Some(text) => text.trim().parse().ok(),
        None => value.as_i64().and_then(|int| u64::try_from(int).ok()),
    }
}

/// Reads the mode of a file: octal digits, optionally after `0o`.
pub fn mode(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("0o").unwrap_or(text);
    let octal = !digits.is_empty() && digits.len() <= 5 && digits.bytes().all(|byte| byte.is_ascii_digit());
    u32::from_str_radix(digits, 8).ok().filter(|mode| octal && *mode <= 0o7777)
}

/// Words that the language does not read as names.
const KEYWORDS: [&str; 12] =
    ["and", "or", "not", "in", "if", "else", "true", "false", "null", "True", "False", "None"];

/// Whether a text is a valid id or capture: letters, digits, `_` and `-`, and not a word of the language.
pub fn is_name(text: &str) -> bool {
    is_plain_name(text)
        && text.len() <= 100
        && !text.bytes().all(|byte| byte.is_ascii_digit())
        && !KEYWORDS.contains(&text)
}

/// Whether a text is a valid name of an environment variable.
pub fn is_variable(text: &str) -> bool {
    let first = text.chars().next();
    first.is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && text.chars().all(|char| char.is_ascii_alphanumeric() || char == '_')
}

/// Whether the name of a variable says that its value is a secret.
pub fn is_secret_name(name: &str) -> bool {
    const PARTS: [&str; 6] = ["TOKEN", "SECRET", "PASSW", "PASSPHRASE", "CREDENTIAL", "APIKEY"];
    const ENDS: [&str; 5] = ["_KEY", "_KEYS", "_PAT", "_PWD", "_AUTH"];
    let name = name.to_ascii_uppercase();
    PARTS.iter().any(|part| name.contains(part)) || ENDS.iter().any(|end| name.ends_with(end))
}

/// Reads a fraction: a number from 0 to 1, or a percentage.
pub fn fraction(value: &Value) -> Option<Number> {
    let of = |text: &str| Number::parse(text.trim()).ok();
    let part = match value.as_str() {
        Some(text) => match text.trim().strip_suffix('%') {
            Some(percent) => of(percent)?.mul(&Number::decimal(1, 2).ok()?).ok()?,
            None => of(text)?,
        },
        None => value.as_number()?.clone(),
    };
    (Number::int(0)..=Number::int(1)).contains(&part).then_some(part)
}

/// A sort key, as written.
#[derive(Debug, PartialEq, Eq)]
pub struct WrittenKey<'t> {
    /// The expression to sort by.
    pub by: &'t str,
    /// Whether `DESC` reverses the order.
    pub descending: bool,
    /// `NULLS FIRST` or `NULLS LAST`
    pub nulls_first: Option<bool>,
}

/// Splits `item.a DESC NULLS LAST, item.b` into its keys, each with its position. A comma inside quotes or
/// brackets is part of its key.
pub fn sort_keys(text: &str) -> Vec<(WrittenKey<'_>, usize)> {
    let (mut keys, mut from, mut depth, mut quote) = (Vec::new(), 0, 0_u32, None);
    for (at, char) in text.char_indices() {
        match (quote, char) {
            (Some(open), _) => quote = Some(open).filter(|open| *open != char),
            (None, '"' | '\'') => quote = Some(char),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                keys.push(sort_key(text, from, at));
                from = at + 1;
            }
            _ => {}
        }
    }
    keys.push(sort_key(text, from, text.len()));
    keys
}

fn sort_key(text: &str, from: usize, to: usize) -> (WrittenKey<'_>, usize) {
    let whole = &text[from..to];
    let at = from + (whole.len() - whole.trim_start().len());
    let mut by = whole.trim();
    let mut ends_with = |words: &[&str]| {
        let mut rest = by;
        for word in words.iter().rev() {
            let cut = rest.len().checked_sub(word.len()).filter(|cut| rest.is_char_boundary(*cut));
            let Some((before, last)) = cut.map(|cut| rest.split_at(cut)) else { return false };
            if !last.eq_ignore_ascii_case(word) || !before.ends_with(char::is_whitespace) {
                return false;
            }
            rest = before.trim_end();
        }
        by = rest;
        true
    };
    let nulls_first = if ends_with(&["NULLS", "FIRST"]) {
        Some(true)
    } else if ends_with(&["NULLS", "LAST"]) {
        Some(false)
    } else {
        None
    };
    let descending = ends_with(&["DESC"]);
    if !descending {
        ends_with(&["ASC"]);
    }
    (WrittenKey { by, descending, nulls_first }, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, millis) in
            [("500ms", 500), ("30s", 30_000), ("1h30m", 5_400_000), ("300", 300_000), ("0.5", 500)]
        {
            assert_eq!(duration(&text.into()), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "5 apples", "-1s", "1e300", "99999999h", "s"] {
            assert_eq!(duration(&text.into()), None, "{text}");
        }
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [("64MiB", 64 << 20), ("10kB", 10_000), ("10 KB", 10_000), ("7", 7), ("7b", 7)] {
            assert_eq!(size(&text.into()), Some(bytes), "{text}");
        }
        for text in ["", "MiB", "-1", "1.5MiB", "10XB", "99999999999999GiB"] {
            assert_eq!(size(&text.into()), None, "{text}");
        }
    }

    #[test]
    fn modes() {
        for text in ["644", "0644", "0o644"] {
            assert_eq!(mode(text), Some(0o644), "{text}");
        }
        for text in ["", "8", "rw", "-644", "+644", "177777"] {
            assert_eq!(mode(text), None, "{text}");
        }
    }
}
