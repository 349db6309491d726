//! The built-in functions, each also a filter: one table that the parser, the evaluator and the reference read.
//!
//! A body is an ordinary function from values to a value. It knows no scope and no world; what needs a clock or
//! a file is a computed value, not a function. No argument makes one panic, overflow the stack or run without
//! bound: loops spend operations, texts are measured before they are made.

mod binding;
mod call;
mod codec;
#[cfg(feature = "codec")]
pub use codec::percent_encode;
mod collection;
mod convert;
mod distinct;
pub(crate) mod json;
pub(crate) mod measure;
mod missing;
mod number;
mod order;
mod other_names;
mod parameter;
#[cfg(feature = "regex")]
mod pattern;
#[cfg(test)]
mod tests;
mod text;
pub(crate) mod time;

pub(crate) use other_names::{instead, meant};
pub use parameter::{ArgumentTypes, Param, ParamKind, Returns};
#[cfg(feature = "regex")]
pub(crate) use pattern::PatternCache;
pub use time::duration_seconds;
#[cfg(feature = "time")]
pub use time::instant;
pub(crate) use time::{SAMPLE_TIME, strftime};

use std::ops::Range;

use crate::limits::{Limit, Limits};
use crate::value::{NumberError, Oversized, Type, Value, ops::OpError};

/// A built-in function, as the evaluator and the reference need it.
pub struct Function {
    /// The name, as a call and as a filter.
    pub name: &'static str,
    /// The chapter of the reference it stands in.
    pub group: FunctionGroup,
    /// Its parameters; the first is what a filter is applied to.
    pub params: &'static [Param],
    /// How many of them must be given.
    pub required: usize,
    /// What the result is.
    pub returns: Returns,
    /// One line for the reference.
    pub doc: &'static str,
    /// Examples: an expression and its value as JSON, run by a test.
    pub examples: &'static [(&'static str, &'static str)],
    /// What it does.
    pub(crate) body: Body,
}

/// The chapters of the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FunctionGroup {
    /// Functions for missing values: `exists` and `default`.
    Missing,
    /// Functions on numbers.
    Number,
    /// Conversions between types.
    Convert,
    /// Functions on text.
    Text,
    /// Lists and objects.
    Collection,
    /// Formats and encodings.
    Codec,
    /// Dates and durations.
    Time,
    /// Ways of binding in shell and argv fields.
    Binding,
}

/// How a function is carried out.
#[derive(Clone, Copy)]
pub(crate) enum Body {
    /// By a function from values to a value.
    Plain(fn(&mut FunctionCall<'_>) -> Result<Value, FuncError>),
    /// The same, and it visits the list that is its first argument only through [`FunctionCall::each`] and the like: elements may
    /// stand in its place.
    Fold(fn(&mut FunctionCall<'_>) -> Result<Value, FuncError>),
    /// Element by element, to a list.
    Each(Gives),
    /// By the evaluator, because the first argument may be missing.
    Exists,
    /// By the evaluator, because the first argument may be missing.
    Default,
    /// By the binder of shell and argv fields; an error anywhere else.
    Binding,
}

/// What a function that works element by element gives for each of them.
#[derive(Clone, Copy)]
pub(crate) enum Gives {
    /// The element, when the element expression is true.
    Element,
    /// What the element expression makes of it.
    Result,
}

/// Without regular expressions there is nothing to keep.
#[cfg(not(feature = "regex"))]
#[derive(Default)]
pub(crate) struct PatternCache;

#[cfg(not(feature = "regex"))]
impl PatternCache {
    #[expect(clippy::unused_self, reason = "the cache with patterns has the same method")]
    pub(crate) fn is_empty(&self) -> bool {
        true
    }
}

/// An element expression, applied to the element at an index.
pub(crate) type ElementFn<'a> = &'a mut dyn FnMut(usize, &Value) -> Result<Value, FuncError>;

/// What is done with each element: its index, itself, and what the element expression makes of it.
pub(crate) type ElementVisitor<'v> = &'v mut dyn FnMut(usize, &Value, Value) -> Result<(), FuncError>;

/// Visits the elements of a range.
pub(crate) type EachRow<'a> = &'a mut dyn FnMut(Range<usize>, ElementVisitor<'_>) -> Result<(), FuncError>;

/// Elements in the place of a list.
pub(crate) struct ElementArgument<'a> {
    /// How many there are, when nothing has to be read to know it.
    pub len: Option<usize>,
    /// Whether there is an element expression, which is applied before a element is visited.
    pub element: bool,
    /// Whether each element begins with the operations that were left when the first was read.
    pub refills: bool,
    /// The elements; taken out while they are visited.
    pub each: Option<EachRow<'a>>,
}

/// One call of a function.
pub(crate) struct FunctionCall<'a> {
    /// The arguments, without the element expression.
    pub args: &'a [Value],
    /// The elements that stand in the place of the first argument, which is an empty list then.
    pub stream: Option<ElementArgument<'a>>,
    /// How many bytes of the elements may be kept.
    pub room: u64,
    /// The element expression, when one was given.
    pub element: Option<ElementFn<'a>>,
    /// The limits in force.
    pub limits: &'a Limits,
    /// Operations left in this evaluation.
    pub fuel: &'a mut u64,
    /// The patterns compiled in this evaluation.
    #[cfg_attr(not(feature = "regex"), expect(dead_code, reason = "only regular expressions are cached"))]
    pub patterns: &'a mut PatternCache,
}

impl Body {
    /// Whether it is an ordinary function of its arguments.
    pub(crate) fn is_plain(self) -> bool {
        matches!(self, Self::Plain(_) | Self::Fold(_))
    }

    /// Carries out a call. What the evaluator and the binder carry out comes to nothing here.
    pub(crate) fn run(self, call: &mut FunctionCall<'_>) -> Result<Value, FuncError> {
        match self {
            Self::Plain(body) | Self::Fold(body) => body(call),
            Self::Each(gives) => collection::list_of(call, gives),
            Self::Exists | Self::Default | Self::Binding => Ok(Value::NULL),
        }
    }
}

/// Why a function gave no value. Values are carried as data, so that every sink can mask them; a `why` names
/// places and types, and only the readers repeat the word that they stumbled over. `arg` is an index into [`FunctionCall::args`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FuncError {
    /// There is nothing to give, such as the first of an empty list; `default` covers it.
    Missing(&'static str),
    /// The argument at this index has the wrong type; what is expected, in words.
    Type { arg: usize, expected: &'static str, got: Type },
    /// Two values that have no order, or that an operator does not take.
    Op(&'static str, OpError),
    /// The argument at this index has the right type and a value that will not do; why, and a hint.
    Value { arg: usize, why: String, hint: Option<String> },
    /// The element expression gave the wrong type for the element at this index.
    ElementType {
        /// The index of the element.
        index: usize,
        /// What is expected, in words.
        expected: &'static str,
        /// What it gave.
        got: Type,
    },
    /// The arithmetic has no result.
    Number(NumberError),
    /// A limit was passed.
    Limit(Limit),
    /// The function is not in this build; the cargo feature that it needs.
    #[cfg_attr(
        all(feature = "regex", feature = "time", feature = "codec", feature = "yaml"),
        expect(dead_code)
    )]
    Feature(&'static str),
    /// The element expression failed; the evaluator keeps the error itself.
    Element,
}

impl FuncError {
    /// Why a value will not do, when that is what it says.
    pub(crate) fn why(self) -> Option<String> {
        match self {
            Self::Value { why, .. } => Some(why),
            _ => None,
        }
    }
}

impl From<NumberError> for FuncError {
    fn from(error: NumberError) -> Self {
        match error {
            NumberError::TooLarge => Self::Limit(Limit::Digits),
            error => Self::Number(error),
        }
    }
}

impl From<Oversized> for FuncError {
    fn from(Oversized(limit): Oversized) -> Self {
        Self::Limit(limit)
    }
}

/// Every built-in, sorted by name.
pub static FUNCTIONS: &[Function] = &[
    number::ABS,
    binding::AS_FILE,
    number::AVG,
    codec::BASE64,
    convert::BOOL,
    collection::COLLECT,
    text::CONTAINS,
    collection::COUNT,
    missing::DEFAULT,
    time::DURATION,
    collection::EACH,
    text::ENDS_WITH,
    missing::EXISTS,
    text::EXTRACT,
    collection::FIRST,
    collection::FLATTEN,
    convert::FLOAT,
    time::FORMAT_DATE,
    codec::FROM_JSON,
    codec::FROM_YAML,
    collection::GROUP_BY,
    convert::INT,
    collection::ITEMS,
    text::JOIN,
    codec::JSON,
    collection::KEYS,
    collection::LAST,
    collection::LEN,
    text::LINES,
    text::LOWER,
    text::MATCHES,
    number::MAX,
    number::MEDIAN,
    number::MIN,
    convert::NUMBER,
    binding::RAW,
    text::REPLACE,
    collection::REVERSE,
    number::ROUND,
    time::SECONDS_BETWEEN,
    codec::SHA256,
    text::SLUG,
    collection::SORT,
    collection::SORT_BY,
    text::SPLIT,
    text::STARTS_WITH,
    number::SUM,
    convert::TEXT,
    codec::TO_JSON,
    codec::TO_YAML,
    text::TRIM,
    collection::UNIQUE,
    text::UPPER,
    codec::URL,
    collection::VALUES,
    collection::WHERE,
    binding::WORDS,
];

/// The built-in of a name.
pub fn find(name: &str) -> Option<&'static Function> {
    FUNCTIONS.binary_search_by(|function| function.name.cmp(name)).ok().map(|at| &FUNCTIONS[at])
}

impl Function {
    /// The parameter of an argument in [`FunctionCall::args`], where element expressions are not counted.
    pub(crate) fn parameter(&self, arg: usize) -> Option<&Param> {
        let mut params = self.params.iter().filter(|param| param.kind != ParamKind::Element);
        params.nth(arg).or(self.params.last())
    }

    /// Whether several values may stand in the place of a list.
    pub(crate) fn takes_several(&self) -> bool {
        self.params.last().is_some_and(|last| last.kind == ParamKind::Rest)
    }

    /// What an argument must be. Where several values may stand in the place of a list, all of several are such values.
    pub(crate) fn takes(&self, arg: usize, given: usize) -> Option<&ArgumentTypes> {
        let last = self.params.last().filter(|_| self.takes_several() && given > 1);
        last.or_else(|| self.parameter(arg)).map(|param| &param.takes)
    }

    /// The argument that the function does not take, whatever it is to be done with it.
    pub(crate) fn refuse(&self, args: &[Value]) -> Option<FuncError> {
        let refused = |(arg, value): (usize, &Value)| {
            let takes = self.takes(arg, args.len())?;
            let (expected, got) = (takes.words, value.kind());
            (!takes.types.may_be(got)).then_some(FuncError::Type { arg, expected, got })
        };
        args.iter().enumerate().find_map(refused)
    }

    /// An argument in a sentence.
    pub(crate) fn place(&self, arg: usize) -> String {
        match self.parameter(arg).filter(|_| arg > 0) {
            Some(param) => format!("the {} of `{}`", param.name, self.name),
            None => format!("`{}`", self.name),
        }
    }
}

/// How a function is called, for messages and the reference.
pub fn signature(function: &Function) -> String {
    let params = function.params.iter().enumerate().map(|(at, param)| {
        let name =
            if param.kind == ParamKind::Rest { format!("{}...", param.name) } else { param.name.to_owned() };
        if at < function.required { name } else { format!("{name}?") }
    });
    format!("{}({})", function.name, params.collect::<Vec<_>>().join(", "))
}
