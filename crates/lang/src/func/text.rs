//! Functions on text. They count code points, fold nothing and normalise nothing.

use super::measure::MeasuredForm;
use super::parameter as param;
use super::{Body, FuncError, Function, FunctionCall, FunctionGroup, Returns};
use crate::value::{Value, ops};

pub(super) const CONTAINS: Function = Function {
    name: "contains",
    group: FunctionGroup::Text,
    params: &[param::container("container"), param::value("item")],
    required: 2,
    returns: Returns::Bool,
    doc: "whether a text contains a part, a list an element or an object a key; the same as `item in container`",
    examples: &[
        (r#"contains("abc", "b")"#, "true"),
        ("[1, 2] | contains(2.0)", "true"),
        (r#"{"a": null} | contains("a")"#, "true"),
    ],
    body: Body::Fold(contains),
};

pub(super) const ENDS_WITH: Function = Function {
    name: "ends_with",
    group: FunctionGroup::Text,
    params: &[param::text("text"), param::text("end")],
    required: 2,
    returns: Returns::Bool,
    doc: "whether the text ends with another text",
    examples: &[(r#""a.rs" | ends_with(".rs")"#, "true"), (r#"ends_with("a", "A")"#, "false")],
    body: Body::Plain(ends_with),
};

pub(super) const EXTRACT: Function = Function {
    name: "extract",
    group: FunctionGroup::Text,
    params: &[param::text("text"), param::text("pattern")],
    required: 2,
    returns: Returns::Any,
    doc: "the first part of the text that the regular expression matches, or of that its first group; \
          null if nothing matches",
    examples: &[
        (r#"extract("error 42 in line 7", '\d+')"#, r#""42""#),
        (r#""version=1.4.0;" | extract('version=([^;]+)')"#, r#""1.4.0""#),
        (r#"extract("none", '\d+') | default(0)"#, "0"),
    ],
    body: Body::Plain(extract),
};

pub(super) const JOIN: Function = Function {
    name: "join",
    group: FunctionGroup::Text,
    params: &[param::list("list"), param::text("separator")],
    required: 1,
    returns: Returns::Text,
    doc: "the text forms of the elements joined by the separator (default: none)",
    examples: &[
        (r#"["a", "b"] | join(", ")"#, r#""a, b""#),
        (r#"[1, null, true] | join("-")"#, r#""1--true""#),
        ("join([1, 2])", r#""12""#),
    ],
    body: Body::Fold(join),
};

pub(super) const LINES: Function = Function {
    name: "lines",
    group: FunctionGroup::Text,
    params: &[param::text("text")],
    required: 1,
    returns: Returns::Texts,
    doc: "the lines of a text, without their ends (`\\n` or `\\r\\n`); a final line end adds no empty line",
    examples: &[(r#""a\nb\n" | lines"#, r#"["a","b"]"#), (r#"lines("")"#, "[]")],
    body: Body::Plain(lines),
};

pub(super) const LOWER: Function = Function {
    name: "lower",
    group: FunctionGroup::Text,
    params: &[param::text("text")],
    required: 1,
    returns: Returns::Text,
    doc: "the text in lower case",
    examples: &[(r#"lower("ÀB")"#, r#""àb""#)],
    body: Body::Plain(lower),
};

pub(super) const MATCHES: Function = Function {
    name: "matches",
    group: FunctionGroup::Text,
    params: &[param::text("text"), param::text("pattern")],
    required: 2,
    returns: Returns::Bool,
    doc: "whether the regular expression matches anywhere in the text; `^` and `$` anchor it to the ends",
    examples: &[
        (r#"matches("error 42", '\d+')"#, "true"),
        (r#""v1.2" | matches('^v\d+\.\d+$')"#, "true"),
        (r#"matches("Abc", "abc")"#, "false"),
        (r#"matches("Abc", "(?i)abc")"#, "true"),
    ],
    body: Body::Plain(matches),
};

pub(super) const REPLACE: Function = Function {
    name: "replace",
    group: FunctionGroup::Text,
    params: &[param::text("text"), param::text("from"), param::text("to")],
    required: 3,
    returns: Returns::Text,
    doc: "the text with every occurrence of a literal text replaced by another",
    examples: &[(r#""a-b-c" | replace("-", "_")"#, r#""a_b_c""#), (r#"replace("1.5", ".", "")"#, r#""15""#)],
    body: Body::Plain(replace),
};

pub(super) const SLUG: Function = Function {
    name: "slug",
    group: FunctionGroup::Text,
    params: &[param::text("text")],
    required: 1,
    returns: Returns::Text,
    doc: "the ASCII letters (in lower case) and digits of a text, with a single dash in place of everything between them; an error if there are none",
    examples: &[
        (r#"slug("Fix: the  Parser!")"#, r#""fix-the-parser""#),
        (r#""v1.2_beta" | slug"#, r#""v1-2-beta""#),
    ],
    body: Body::Plain(slug),
};

pub(super) const SPLIT: Function = Function {
    name: "split",
    group: FunctionGroup::Text,
    params: &[param::text("text"), param::text("separator")],
    required: 1,
    returns: Returns::Texts,
    doc: "the parts of a text between separators; without a separator, the words between white space, without empty ones",
    examples: &[
        (r#""a,b,,c" | split(",")"#, r#"["a","b","","c"]"#),
        (r#"split("  two  words ")"#, r#"["two","words"]"#),
        (r#"split("", ",")"#, r#"[""]"#),
    ],
    body: Body::Plain(split),
};

pub(super) const STARTS_WITH: Function = Function {
    name: "starts_with",
    group: FunctionGroup::Text,
    params: &[param::text("text"), param::text("start")],
    required: 2,
    returns: Returns::Bool,
    doc: "whether the text starts with another text",
    examples: &[(r#""feature/x" | starts_with("feature/")"#, "true"), (r#"starts_with("a", "")"#, "true")],
    body: Body::Plain(starts_with),
};

pub(super) const TRIM: Function = Function {
    name: "trim",
    group: FunctionGroup::Text,
    params: &[param::text("text")],
    required: 1,
    returns: Returns::Text,
    doc: "the text without leading and trailing white space",
    examples: &[(r#"trim("  a b \n")"#, r#""a b""#)],
    body: Body::Plain(trim),
};

pub(super) const UPPER: Function = Function {
    name: "upper",
    group: FunctionGroup::Text,
    params: &[param::text("text")],
    required: 1,
    returns: Returns::Text,
    doc: "the text in upper case",
    examples: &[(r#"upper("abc")"#, r#""ABC""#), (r#""straße" | upper"#, r#""STRASSE""#)],
    body: Body::Plain(upper),
};

fn contains(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    let (container, item) = (call.arg(0), call.arg(1));
    if call.stream.is_some() {
        let mut found = false;
        call.each_item(|_, _, member| {
            found |= member == item;
            Ok(())
        })?;
        return Ok(Value::from(found));
    }
    match (container.as_list(), container.as_str()) {
        (Some(list), _) => call.spend(list.len())?,
        (_, Some(text)) => call.spend_bytes(text.len())?,
        _ if container.as_object().is_some() => {}
        _ => return Err(call.wrong_type(0, "text, a list or an object")),
    }
    let found = ops::contains(container, item);
    found.map(Value::from).map_err(|error| FuncError::Op("in", error))
}

fn starts_with(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    Ok(Value::from(call.text(0)?.starts_with(call.text(1)?)))
}

fn ends_with(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    Ok(Value::from(call.text(0)?.ends_with(call.text(1)?)))
}

fn trim(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    let text = call.text(0)?;
    let trimmed = text.trim();
    Ok(if trimmed.len() == text.len() { call.arg(0).clone() } else { Value::from(trimmed) })
}

fn upper(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    let text = call.text(0)?;
    let size = text.chars().flat_map(char::to_uppercase).map(char::len_utf8).sum();
    call.make_text(size, |out| *out = text.to_uppercase())
}

fn lower(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    let text = call.text(0)?;
    let size = text.chars().flat_map(char::to_lowercase).map(char::len_utf8).sum();
    call.make_text(size, |out| *out = text.to_lowercase())
}

fn join(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    call.list(0)?;
    let separator = call.optional_text(1)?.unwrap_or("");
    let mut out = String::new();
    call.each_item(|call, index, item| {
        let separator = if index > 0 { separator } else { "" };
        let size = call.measured(item, MeasuredForm::Text, out.len().saturating_add(separator.len()))?;
        out.reserve(separator.len() + size);
        out.push_str(separator);
        item.write_text(&mut out);
        Ok(())
    })?;
    call.spend_bytes(out.len())?;
    Ok(Value::from(out))
}

fn replace(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    let (text, from, to) = (call.text(0)?, call.text(1)?, call.text(2)?);
    if from.is_empty() {
        return Err(FuncError::value(1, "the text to replace is empty", None));
    }
    let count = text.matches(from).count();
    if count == 0 {
        return Ok(call.arg(0).clone());
    }
    let size = (text.len() - count * from.len()).saturating_add(count.saturating_mul(to.len()));
    call.make_text(size, |out| {
        for (index, part) in text.split(from).enumerate() {
            if index > 0 {
                out.push_str(to);
            }
            out.push_str(part);
        }
    })
}

fn split(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    let text = call.text(0)?;
    match call.optional_text(1)? {
        Some("") => Err(FuncError::value(1, "the separator is empty", None)),
        Some(separator) => texts(call, text.split(separator)),
        None => texts(call, text.split_whitespace()),
    }
}

fn lines(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    let text = call.text(0)?;
    texts(call, text.lines())
}

fn texts<'t>(call: &mut FunctionCall<'_>, parts: impl Iterator<Item = &'t str>) -> Result<Value, FuncError> {
    let mut items = Vec::new();
    for part in parts {
        call.spend(1)?;
        items.push(Value::from(part));
    }
    Ok(Value::list(items)?)
}

fn slug(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    let mut slug = String::new();
    for char in call.text(0)?.chars() {
        if char.is_ascii_alphanumeric() {
            slug.push(char.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    if slug.is_empty() {
        return Err(FuncError::value(0, "no ASCII letter or digit to keep", None));
    }
    slug.truncate(slug.trim_end_matches('-').len());
    Ok(Value::from(slug))
}

#[cfg(feature = "regex")]
fn matches(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    let text = call.text(0)?;
    let pattern = call.text(1)?;
    let pattern = call.patterns.compiled(pattern, call.limits.regex)?;
    Ok(Value::from(pattern.is_match(text)))
}

#[cfg(feature = "regex")]
fn extract(call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    let text = call.text(0)?;
    let pattern = call.text(1)?;
    let pattern = call.patterns.compiled(pattern, call.limits.regex)?;
    let Some(found) = pattern.captures(text) else { return Ok(Value::NULL) };
    let part = found.get(usize::from(found.len() > 1));
    Ok(part.map_or(Value::NULL, |part| Value::from(part.as_str())))
}

#[cfg(not(feature = "regex"))]
fn extract(_: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    Err(FuncError::Feature("regex"))
}

#[cfg(not(feature = "regex"))]
fn matches(_: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
    Err(FuncError::Feature("regex"))
}
