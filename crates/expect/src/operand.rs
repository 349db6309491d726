//! What stands behind an operator, prepared once; and the operators themselves.
//!
//! An operator says yes, no, or why it can say neither. There is one implementation of each, for expected values of
//! the file and for those that are known only when they are compared.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, DefaultHasher};

use ecow::EcoString;
use regex::Regex;
use threadline_lang::diag::{excerpt, words};
use threadline_lang::func::instant;
use threadline_lang::{Number, Type, Value};

use crate::checks::Check;
use crate::fold::{Needle, SearchedText, TextPosition};
use crate::pattern;
use crate::quantity::{OtherUnit, Quantity};
use crate::schema::JsonSchema;
use crate::table::{NamedOperator, Op, Takes};

/// So many values are compared one by one with numbers and units in mind; larger ones are not.
const MAX_COMPARED: u32 = 1_000_000;

/// An expected value in the form that its operator works with.
#[derive(Debug, Clone)]
pub(crate) enum PreparedOperand {
    Value(ExpectedValue),
    Values(Vec<ExpectedValue>),
    Number(Quantity<EcoString>),
    Range(Quantity<EcoString>, Quantity<EcoString>),
    Approx { value: Quantity<EcoString>, tolerance: Number },
    Pattern(Regex),
    Bool(bool),
    Types(Vec<TypeName>),
    Container(Value),
    Schema(JsonSchema),
    Time(i128),
}

/// A value to be equal to, or to be found.
#[derive(Debug, Clone)]
pub(crate) struct ExpectedValue {
    value: Value,
    /// Its number, where it is one.
    number: Option<Quantity<EcoString>>,
    /// Its text, to look for in texts.
    needle: Option<Needle>,
    /// Whether capitals and small letters are the same.
    fold: bool,
}

/// A type by the name an expectation gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TypeName {
    One(Type),
    Number,
}

/// The names of types, and those of JSON Schema for them.
pub(crate) const TYPES: [(&str, TypeName); 13] = [
    ("null", TypeName::One(Type::Null)),
    ("bool", TypeName::One(Type::Bool)),
    ("int", TypeName::One(Type::Int)),
    ("decimal", TypeName::One(Type::Decimal)),
    ("number", TypeName::Number),
    ("text", TypeName::One(Type::Text)),
    ("list", TypeName::One(Type::List)),
    ("object", TypeName::One(Type::Object)),
    ("string", TypeName::One(Type::Text)),
    ("boolean", TypeName::One(Type::Bool)),
    ("integer", TypeName::One(Type::Int)),
    ("array", TypeName::One(Type::List)),
    ("float", TypeName::One(Type::Decimal)),
];

impl TypeName {
    pub(crate) fn of(name: &str) -> Option<Self> {
        TYPES.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }

    /// The first of its names.
    pub(crate) fn name(self) -> &'static str {
        TYPES.iter().find(|(_, kind)| *kind == self).map_or("any", |(name, _)| name)
    }

    pub(crate) fn is(self, kind: Type) -> bool {
        match self {
            Self::One(one) => one == kind,
            Self::Number => matches!(kind, Type::Int | Type::Decimal),
        }
    }
}

/// Why a value cannot stand behind an operator.
#[derive(Debug, Clone)]
pub(crate) struct UnfitOperand {
    pub check: Check,
    pub message: String,
    pub hint: Option<String>,
    /// The bytes of the text that are to blame, where it is a part of a text.
    pub at: Option<std::ops::Range<usize>>,
}

impl UnfitOperand {
    fn new(check: Check, message: impl Into<String>) -> Self {
        Self { check, message: message.into(), hint: None, at: None }
    }

    fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    fn wrong_type(named: NamedOperator, value: &Value) -> Self {
        let (name, expected) = (named.operator.name, named.operator.takes.expected());
        let found = value.kind().with_article();
        Self::new(Check::WrongType, format!("`{name}` takes {expected}, not {found}"))
    }
}

/// Why an operator says neither yes nor no.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoAnswerReason {
    /// Ordering needs a number.
    NotANumber,
    /// The units differ.
    OtherUnit,
    /// It takes a text.
    NotText,
    /// It takes a text or a number.
    NoText,
    /// It takes a list, a text or an object.
    NoContainer,
    /// It takes a list.
    NotAList,
    /// It takes a list or an object, the same as what is expected.
    OtherContainer,
    /// A text can contain only texts.
    NotAPart,
    /// It takes a time.
    NotATime,
    /// The value is too large for it.
    TooLarge,
}

/// Prepares what stands behind an operator.
pub(crate) fn prepare(named: NamedOperator, value: &Value) -> Result<PreparedOperand, UnfitOperand> {
    let takes = named.operator.takes;
    let wrong = || UnfitOperand::wrong_type(named, value);
    let quantity = |value: &Value| quantity(named, value);
    let fold = named.fold;
    Ok(match takes {
        Takes::Value => PreparedOperand::Value(ExpectedValue::new(value, fold)),
        Takes::Values => {
            let items =
                value.as_list().ok_or_else(|| wrong().hint(format!("write `[{}]`", excerpt(value))))?;
            PreparedOperand::Values(
                some(named, items)?.iter().map(|item| ExpectedValue::new(item, fold)).collect(),
            )
        }
        Takes::Items => match value.as_list() {
            Some(items) => PreparedOperand::Values(
                some(named, items)?.iter().map(|item| ExpectedValue::new(item, fold)).collect(),
            ),
            None => PreparedOperand::Values(vec![ExpectedValue::new(value, fold)]),
        },
        Takes::Number => PreparedOperand::Number(quantity(value)?),
        Takes::Range => match value.as_list() {
            Some([low, high]) => range(quantity(low)?, quantity(high)?)?,
            Some(items) => {
                let message = format!("`between` takes two numbers, not {}", items.len());
                return Err(UnfitOperand::new(Check::WrongType, message));
            }
            None => return Err(wrong()),
        },
        Takes::Approx => approx(named, value)?,
        Takes::Pattern => {
            let text = value.as_str().ok_or_else(wrong)?;
            PreparedOperand::Pattern(pattern::compile(text, fold).map_err(|bad| UnfitOperand {
                check: Check::BadPattern,
                message: bad.message,
                hint: bad.hint.map(str::to_owned),
                at: Some(bad.at),
            })?)
        }
        Takes::Bool => PreparedOperand::Bool(value.as_bool().ok_or_else(wrong)?),
        Takes::Types => types(value)?,
        Takes::Text => {
            let expected = ExpectedValue::new(value, fold);
            if expected.needle.is_none() {
                return Err(wrong());
            }
            PreparedOperand::Value(expected)
        }
        Takes::Container => match value.kind() {
            Type::List | Type::Object => PreparedOperand::Container(value.clone()),
            _ => return Err(wrong()),
        },
        Takes::Schema => PreparedOperand::Schema(
            JsonSchema::compile(value).map_err(|message| UnfitOperand::new(Check::BadSchema, message))?,
        ),
        Takes::Time => PreparedOperand::Time(value.as_str().and_then(instant).ok_or_else(|| {
            match value.as_str() {
                Some(text) => UnfitOperand::new(Check::WrongType, format!("`{text}` is no time"))
                    .hint("a time is written like `2024-05-06T07:08:09Z`, a date like `2024-05-06`"),
                None => wrong(),
            }
        })?),
        // These are checks of their own, never operands.
        Takes::Check | Takes::Count => return Err(wrong()),
    })
}

/// The items of a list that has some.
fn some(named: NamedOperator, items: &[Value]) -> Result<&[Value], UnfitOperand> {
    if items.is_empty() {
        let message = format!("`{}` needs at least one value", named.operator.name);
        return Err(UnfitOperand::new(Check::NoMembers, message));
    }
    Ok(items)
}

fn quantity(named: NamedOperator, value: &Value) -> Result<Quantity<EcoString>, UnfitOperand> {
    Quantity::of(value).map(|quantity| quantity.owned()).ok_or_else(|| match value.as_str() {
        Some(text) => UnfitOperand::new(Check::WrongType, format!("`{text}` is no number")).hint(
            "a number is written like `5`, `0.25` or `5 DOT`; for times there are `before` and `after`",
        ),
        None if named.operator.takes == Takes::Number => UnfitOperand::wrong_type(named, value),
        None => UnfitOperand::new(Check::WrongType, format!("{} is no number", excerpt(value))),
    })
}

fn range(low: Quantity<EcoString>, high: Quantity<EcoString>) -> Result<PreparedOperand, UnfitOperand> {
    match low.order(&high) {
        Err(OtherUnit) => {
            Err(UnfitOperand::new(Check::EmptyRange, "the two ends of the range have different units"))
        }
        Ok(Ordering::Greater) => {
            let message = "the range is reversed: nothing is at least the first and at most the second";
            Err(UnfitOperand::new(Check::EmptyRange, message).hint("write the smaller number first"))
        }
        Ok(_) => Ok(PreparedOperand::Range(low, high)),
    }
}

fn approx(named: NamedOperator, value: &Value) -> Result<PreparedOperand, UnfitOperand> {
    let object = value.as_object().ok_or_else(|| UnfitOperand::wrong_type(named, value))?;
    if let Some((key, _)) = object.iter().find(|(key, _)| !matches!(key.as_str(), "value" | "tolerance")) {
        return Err(UnfitOperand::new(Check::WrongType, format!("`approx` has no key `{}`", key.as_str()))
            .hint("write `approx: {value: 10, tolerance: 0.5}`"));
    }
    let part = |name: &str| {
        let lacks = || UnfitOperand::new(Check::WrongType, format!("`approx` needs a `{name}`"));
        quantity(named, value.get(name).ok_or_else(lacks)?)
    };
    let (value, given) = (part("value")?, part("tolerance")?);
    if given.number.is_negative() {
        return Err(UnfitOperand::new(Check::WrongType, "a tolerance cannot be below 0"));
    }
    let too_large = |_| UnfitOperand::new(Check::WrongType, "the numbers are too large");
    let tolerance = match given.unit.as_str() {
        "%" => {
            let share = value.number.abs().and_then(|number| number.mul(&given.number)).map_err(too_large)?;
            share.mul(&Number::decimal(1, 2).map_err(too_large)?).map_err(too_large)?
        }
        unit if unit.is_empty() || unit == value.unit => given.number,
        unit => {
            let message = format!("the tolerance is in `{unit}`, the value is not");
            return Err(UnfitOperand::new(Check::WrongType, message));
        }
    };
    Ok(PreparedOperand::Approx { value, tolerance })
}

fn types(value: &Value) -> Result<PreparedOperand, UnfitOperand> {
    let name = |value: &Value| {
        // Without quotes YAML reads `null` as null.
        let no_type = || UnfitOperand::new(Check::WrongType, format!("{} is no type", excerpt(value)));
        let name = if value.is_null() { "null" } else { value.as_str().ok_or_else(no_type)? };
        TypeName::of(name).ok_or_else(|| {
            let names = TYPES[..8].iter().map(|(name, _)| *name);
            let hint = words::suggest(name, names.clone());
            UnfitOperand::new(Check::WrongType, format!("`{name}` is no type"))
                .hint(hint.unwrap_or_else(|| format!("types are {}", words::names(names))))
        })
    };
    let names: Result<Vec<TypeName>, UnfitOperand> = match value.as_list() {
        Some([]) => return Err(UnfitOperand::new(Check::NoMembers, "`type` needs at least one name")),
        Some(items) => items.iter().map(name).collect(),
        None => Ok(vec![name(value)?]),
    };
    names.map(PreparedOperand::Types)
}

impl ExpectedValue {
    fn new(value: &Value, fold: bool) -> Self {
        let text = match value.kind() {
            Type::Text => value.as_str().map(EcoString::from),
            Type::Int | Type::Decimal => Some(value.to_string().into()),
            _ => None,
        };
        Self {
            number: Quantity::of(value).map(|quantity| quantity.owned()),
            needle: text.map(|text| Needle::new(&text, fold)),
            value: value.clone(),
            fold,
        }
    }

    /// Whether a value is equal to it.
    fn is(&self, actual: &Value, scratch: &mut String) -> Result<bool, NoAnswerReason> {
        match (actual.as_str(), actual.as_number(), self.value.as_str(), self.value.as_number()) {
            (Some(text), _, Some(_), _) => Ok(self
                .needle
                .as_ref()
                .is_some_and(|needle| needle.is_in(text, TextPosition::Whole, scratch))),
            (_, Some(actual), _, Some(number)) => Ok(actual == number),
            // A number on one side, a text on the other.
            (Some(_), _, _, Some(_)) | (_, Some(_), Some(_), _) => {
                match (&self.number, Quantity::of(actual)) {
                    (Some(number), Some(actual)) => actual
                        .order(number)
                        .map(Ordering::is_eq)
                        .map_err(|OtherUnit| NoAnswerReason::OtherUnit),
                    _ => Ok(false),
                }
            }
            _ => same(actual, &self.value, self.fold, &mut 0),
        }
    }

    /// Whether a text, list or object contains it.
    fn is_within(&self, actual: &Value, scratch: &mut String) -> Result<bool, NoAnswerReason> {
        match (actual.as_str(), actual.as_list(), actual.as_object()) {
            (Some(text), ..) => self.is_within_text(&SearchedText::new(text), scratch),
            (_, Some(items), _) => any(items.iter().map(|item| self.is(item, scratch))),
            (.., Some(object)) => match &self.needle {
                Some(needle) => {
                    Ok(object.iter().any(|(key, _)| needle.is_in(key.as_str(), TextPosition::Whole, scratch)))
                }
                None => Err(NoAnswerReason::NotAPart),
            },
            _ => Err(NoAnswerReason::NoContainer),
        }
    }

    fn is_within_text(&self, text: &SearchedText<'_>, scratch: &mut String) -> Result<bool, NoAnswerReason> {
        let needle = self.needle.as_ref().ok_or(NoAnswerReason::NotAPart)?;
        Ok(needle.is_in_text(text, TextPosition::Anywhere, scratch))
    }
}

/// A value in which several others are looked for.
struct SearchedValue<'v> {
    actual: &'v Value,
    text: Option<SearchedText<'v>>,
    equal: Option<Lookup<'v>>,
    compared: usize,
}

impl<'v> SearchedValue<'v> {
    fn new(actual: &'v Value, values: usize) -> Self {
        let equal = actual.as_list().and_then(|items| lookup(items, values));
        Self { actual, text: actual.as_str().map(SearchedText::new), equal, compared: 0 }
    }

    fn has(&mut self, value: &ExpectedValue, scratch: &mut String) -> Result<bool, NoAnswerReason> {
        if let Some(text) = &self.text {
            return value.is_within_text(text, scratch);
        }
        if self.equal.as_ref().is_some_and(|equal| equal.contains(&value.value)) {
            return Ok(true);
        }
        self.compared += self.actual.as_list().map_or(0, <[Value]>::len);
        if self.equal.is_some() && self.compared > MAX_COMPARED as usize {
            return Err(NoAnswerReason::TooLarge);
        }
        value.is_within(self.actual, scratch)
    }
}

/// Values by their hash, which is the same each time.
type Lookup<'v> = HashSet<&'v Value, BuildHasherDefault<DefaultHasher>>;

/// The items of a list, to find equal ones among them at once; only where so many are looked for that it pays.
fn lookup(items: &[Value], wanted: usize) -> Option<Lookup<'_>> {
    (items.len().saturating_mul(wanted) > 10_000).then(|| items.iter().collect())
}

/// Equality of values of any shape: numbers and texts in them as [`ExpectedValue::is`] compares them.
fn same(actual: &Value, expected: &Value, fold: bool, compared: &mut u32) -> Result<bool, NoAnswerReason> {
    // The usual equality is the quick answer, and one that knows parts that are shared.
    if actual == expected {
        return Ok(true);
    }
    *compared = compared.saturating_add(1);
    if *compared > MAX_COMPARED {
        return Err(NoAnswerReason::TooLarge);
    }
    if let (Some(actual), Some(expected)) = (actual.as_list(), expected.as_list()) {
        if actual.len() != expected.len() {
            return Ok(false);
        }
        return all(actual
            .iter()
            .zip(expected)
            .map(|(actual, expected)| same(actual, expected, fold, compared)));
    }
    if let (Some(actual), Some(expected)) = (actual.as_object(), expected.as_object()) {
        if actual.len() != expected.len() {
            return Ok(false);
        }
        return all(actual.iter().map(|(key, actual)| match expected.get(key) {
            Some(expected) => same(actual, expected, fold, compared),
            None => Ok(false),
        }));
    }
    if let (true, Some(actual), Some(expected)) = (fold, actual.as_str(), expected.as_str()) {
        return Ok(Needle::new(expected, true).is_in(actual, TextPosition::Whole, &mut String::new()));
    }
    let mixed = actual.as_number().is_some() != expected.as_number().is_some();
    match (Quantity::of(actual), Quantity::of(expected)) {
        (Some(actual), Some(expected)) if mixed => {
            actual.order(&expected).map(Ordering::is_eq).map_err(|OtherUnit| NoAnswerReason::OtherUnit)
        }
        _ => Ok(false),
    }
}

/// Three-valued: yes when one says so, else the first that cannot be said, else no.
pub(crate) fn any(
    answers: impl Iterator<Item = Result<bool, NoAnswerReason>>,
) -> Result<bool, NoAnswerReason> {
    let mut unknown = None;
    for answer in answers {
        match answer {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            // So much was compared that going on would take too long.
            Err(NoAnswerReason::TooLarge) => return Err(NoAnswerReason::TooLarge),
            Err(why) => unknown = unknown.or(Some(why)),
        }
    }
    unknown.map_or(Ok(false), Err)
}

/// Three-valued: no when one says so, else the first that cannot be said, else yes.
fn all(answers: impl Iterator<Item = Result<bool, NoAnswerReason>>) -> Result<bool, NoAnswerReason> {
    any(answers.map(|answer| answer.map(|yes| !yes))).map(|no| !no)
}

/// What an operator says of a value that is there, before `not-`.
pub(crate) fn holds(
    op: Op,
    prepared: &PreparedOperand,
    actual: &Value,
    scratch: &mut String,
) -> Result<bool, NoAnswerReason> {
    match (op, prepared) {
        (Op::Eq, PreparedOperand::Value(expected)) => expected.is(actual, scratch),
        (Op::In, PreparedOperand::Values(values)) => {
            any(values.iter().map(|value| value.is(actual, scratch)))
        }
        (Op::Gt | Op::Gte | Op::Lt | Op::Lte, PreparedOperand::Number(number)) => {
            let order = order(actual, number)?;
            Ok(match op {
                Op::Gt => order.is_gt(),
                Op::Gte => order.is_ge(),
                Op::Lt => order.is_lt(),
                _ => order.is_le(),
            })
        }
        (_, PreparedOperand::Range(low, high)) => {
            Ok(order(actual, low)?.is_ge() && order(actual, high)?.is_le())
        }
        (_, PreparedOperand::Approx { value, tolerance }) => {
            let actual = Quantity::of(actual).ok_or(NoAnswerReason::NotANumber)?;
            actual.order(value).map_err(|OtherUnit| NoAnswerReason::OtherUnit)?;
            let distance = actual.number.sub(&value.number).and_then(|distance| distance.abs());
            distance.map(|distance| distance <= *tolerance).map_err(|_| NoAnswerReason::TooLarge)
        }
        (_, PreparedOperand::Pattern(regex)) => match (actual.as_str(), actual.as_number()) {
            (Some(text), _) => Ok(regex.is_match(text)),
            (_, Some(number)) => {
                scratch.clear();
                number.write(scratch);
                Ok(regex.is_match(scratch))
            }
            _ => Err(NoAnswerReason::NoText),
        },
        (Op::Exists, PreparedOperand::Bool(asked)) => Ok(*asked),
        (Op::IsNull, PreparedOperand::Bool(asked)) => Ok(actual.is_null() == *asked),
        (Op::Empty, PreparedOperand::Bool(asked)) => Ok((length(actual)? == 0) == *asked),
        (_, PreparedOperand::Types(types)) => Ok(types.iter().any(|kind| kind.is(actual.kind()))),
        (
            Op::StartsWith | Op::EndsWith,
            PreparedOperand::Value(ExpectedValue { needle: Some(needle), .. }),
        ) => {
            let place = if op == Op::StartsWith { TextPosition::Start } else { TextPosition::End };
            Ok(needle.is_in(actual.as_str().ok_or(NoAnswerReason::NotText)?, place, scratch))
        }
        (Op::Contains, PreparedOperand::Value(expected)) => expected.is_within(actual, scratch),
        (Op::ContainsAll, PreparedOperand::Values(values)) => {
            let mut within = SearchedValue::new(actual, values.len());
            all(values.iter().map(|value| within.has(value, scratch)))
        }
        (Op::ContainsAny, PreparedOperand::Values(values)) => {
            let mut within = SearchedValue::new(actual, values.len());
            any(values.iter().map(|value| within.has(value, scratch)))
        }
        (_, PreparedOperand::Container(container)) => subset(actual, container),
        (_, PreparedOperand::Schema(schema)) => Ok(schema.is_valid(actual)),
        (Op::Before | Op::After, PreparedOperand::Time(expected)) => {
            let time = actual.as_str().and_then(instant).ok_or(NoAnswerReason::NotATime)?;
            Ok(if op == Op::Before { time < *expected } else { time > *expected })
        }
        // Operands are prepared for their operator.
        _ => Err(NoAnswerReason::TooLarge),
    }
}

/// Whether a value can be equal to both of two expected ones.
pub(crate) fn can_be_both(one: (&PreparedOperand, &Value), other: (&PreparedOperand, &Value)) -> bool {
    let is = |(prepared, _): (&PreparedOperand, &Value), value: &Value| {
        holds(Op::Eq, prepared, value, &mut String::new()) == Ok(true)
    };
    // `5` and `"5"`, `"abc"` and `ABC` in any case; and the number 5 is both `"5"` and `"5.0"`.
    is(one, other.1)
        || is(other, one.1)
        || Quantity::of(one.1).is_some_and(|number| {
            Quantity::of(other.1).is_some_and(|other| number.order(&other) == Ok(Ordering::Equal))
        })
}

/// Which of several values a container does not contain, or does.
pub(crate) fn found(prepared: &PreparedOperand, actual: &Value, present: bool) -> Vec<Value> {
    let PreparedOperand::Values(values) = prepared else { return Vec::new() };
    let (mut scratch, mut within) = (String::new(), SearchedValue::new(actual, values.len()));
    let found = values.iter().filter(|value| within.has(value, &mut scratch) == Ok(present));
    found.map(|value| value.value.clone()).collect()
}

/// What a value has beyond a container: items, or keys of entries.
pub(crate) fn beyond(prepared: &PreparedOperand, actual: &Value) -> Vec<Value> {
    let PreparedOperand::Container(container) = prepared else { return Vec::new() };
    let mut compared = 0;
    if let (Some(items), Some(allowed)) = (actual.as_list(), container.as_list()) {
        let known = allowances(items, allowed).take_while(|(_, is)| *is != Err(NoAnswerReason::TooLarge));
        return known.filter(|(_, is)| *is == Ok(false)).map(|(item, _)| item.clone()).collect();
    }
    let (Some(object), Some(allowed)) = (actual.as_object(), container.as_object()) else {
        return Vec::new();
    };
    let mut is_allowed =
        |key, value| allowed.get(key).is_some_and(|one| same(value, one, false, &mut compared) == Ok(true));
    let beyond = object.iter().filter(|(key, value)| !is_allowed(key, value));
    beyond.filter_map(|(key, value)| Value::object([(key.name().clone(), value.clone())]).ok()).collect()
}

/// How much there is in a value.
pub(crate) fn length(value: &Value) -> Result<usize, NoAnswerReason> {
    match (value.as_str(), value.as_list(), value.as_object()) {
        (Some(text), ..) => Ok(text.chars().count()),
        (_, Some(items), _) => Ok(items.len()),
        (.., Some(object)) => Ok(object.len()),
        _ => Err(NoAnswerReason::NoContainer),
    }
}

fn order(actual: &Value, expected: &Quantity<EcoString>) -> Result<Ordering, NoAnswerReason> {
    if let (Some(number), "") = (actual.as_number(), expected.unit.as_str()) {
        return Ok(number.cmp(&expected.number));
    }
    let actual = Quantity::of(actual).ok_or(NoAnswerReason::NotANumber)?;
    actual.order(expected).map_err(|OtherUnit| NoAnswerReason::OtherUnit)
}

/// Items, and whether each is among the allowed ones.
fn allowances<'v>(
    items: &'v [Value],
    allowed: &'v [Value],
) -> impl Iterator<Item = (&'v Value, Result<bool, NoAnswerReason>)> {
    let (equal, mut compared) = (lookup(allowed, items.len()), 0);
    items.iter().map(move |item| {
        if equal.as_ref().is_some_and(|equal| equal.contains(item)) {
            return (item, Ok(true));
        }
        (item, any(allowed.iter().map(|allowed| same(item, allowed, false, &mut compared))))
    })
}

fn subset(actual: &Value, container: &Value) -> Result<bool, NoAnswerReason> {
    let mut compared = 0;
    match (actual.as_list(), container.as_list(), actual.as_object(), container.as_object()) {
        (Some(items), Some(allowed), ..) => all(allowances(items, allowed).map(|(_, is)| is)),
        (.., Some(object), Some(allowed)) => all(object.iter().map(|(key, value)| match allowed.get(key) {
            Some(allowed) => same(value, allowed, false, &mut compared),
            None => Ok(false),
        })),
        _ => Err(NoAnswerReason::OtherContainer),
    }
}
