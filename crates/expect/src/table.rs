//! The one table of keys: fields, operators, logic and options. The loader, the schema for editors and the reference
//! read it.
//!
//! Nothing here evaluates; what a field means is written down as the expectation it stands for.

/// What an operator asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Op {
    /// Equal to the operand.
    Eq,
    /// Greater than the operand.
    Gt,
    /// Greater than or equal to the operand.
    Gte,
    /// Less than the operand.
    Lt,
    /// Less than or equal to the operand.
    Lte,
    /// From one number to another, both included.
    Between,
    /// A regular expression.
    Matches,
    /// One of several values.
    In,
    /// Whether there is a value.
    Exists,
    /// Whether the value is null.
    IsNull,
    /// The type of the value.
    Type,
    /// Whether there is nothing in it.
    Empty,
    /// How much there is in it.
    Length,
    /// The beginning of a text.
    StartsWith,
    /// The end of a text.
    EndsWith,
    /// A part of a text, an item of a list, a key of an object.
    Contains,
    /// Several of them.
    ContainsAll,
    /// One of several.
    ContainsAny,
    /// Every item of a list meets a check.
    Each,
    /// At least one item.
    Some,
    /// So many items.
    AtLeast,
    /// Nothing beyond these.
    Subset,
    /// A JSON Schema.
    Schema,
    /// About as much.
    Approx,
    /// A time before the operand.
    Before,
    /// A time after the operand.
    After,
}

/// How what stands behind an operator is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// A value of any type.
    Value,
    /// A list of values.
    Values,
    /// A number, or a text that holds one, with or without a unit.
    Number,
    /// Two of them.
    Range,
    /// A regular expression, or `/pattern/flags`.
    Pattern,
    /// `true` or `false`.
    Bool,
    /// The name of a type, or several.
    Types,
    /// A text, or a number for its text.
    Text,
    /// A list of values, or one.
    Items,
    /// A check of another value.
    Check,
    /// An object `{count, of}`.
    Count,
    /// A list or an object.
    Container,
    /// A JSON Schema.
    Schema,
    /// An object `{value, tolerance}`.
    Approx,
    /// A time or a date.
    Time,
}

impl Takes {
    /// In a sentence.
    pub fn expected(self) -> &'static str {
        match self {
            Self::Value => "a value",
            Self::Values => "a list of values",
            Self::Number => "a number, or a number with a unit such as `5 DOT`",
            Self::Range => "a list of two numbers, the smaller one first",
            Self::Pattern => "a regular expression, or `/pattern/flags`",
            Self::Bool => "`true` or `false`",
            Self::Types => "the name of a type, or a list of names",
            Self::Text => "text",
            Self::Items => "a value, or a list of values",
            Self::Check => "a value or an object of operators",
            Self::Count => "an object with `count` and `of`",
            Self::Container => "a list or an object",
            Self::Schema => "a JSON Schema",
            Self::Approx => "an object with `value` and `tolerance`",
            Self::Time => "a time such as `2024-05-06T07:08:09Z`, or a date such as `2024-05-06`",
        }
    }
}

/// One operator as it is written.
#[derive(Debug)]
pub struct Operator {
    /// The name as it is written in files.
    pub name: &'static str,
    /// What it asks.
    pub op: Op,
    /// Whether it asks for the opposite.
    pub negated: bool,
    /// Whether it has a form with `i` that does not tell capitals from small letters.
    pub folds: bool,
    /// What stands behind it.
    pub takes: Takes,
    /// One line for the reference.
    pub doc: &'static str,
}

const fn operator(name: &'static str, op: Op, takes: Takes, doc: &'static str) -> Operator {
    Operator { name, op, negated: false, folds: false, takes, doc }
}

impl Operator {
    const fn negated(self) -> Self {
        Self { negated: true, ..self }
    }

    const fn folds(self) -> Self {
        Self { folds: true, ..self }
    }
}

/// Every operator, in the order of the reference.
pub static OPERATORS: &[Operator] = &[
    operator(
        "eq",
        Op::Eq,
        Takes::Value,
        "equal: texts are compared as texts, and as exact decimals if either side is a number",
    )
    .folds(),
    operator("ne", Op::Eq, Takes::Value, "not equal").negated().folds(),
    operator("gt", Op::Gt, Takes::Number, "a larger number with the same unit"),
    operator("gte", Op::Gte, Takes::Number, "a number that is at least this, with the same unit"),
    operator("lt", Op::Lt, Takes::Number, "a smaller number with the same unit"),
    operator("lte", Op::Lte, Takes::Number, "a number that is at most this, with the same unit"),
    operator("between", Op::Between, Takes::Range, "a number from the first to the second, both included"),
    operator(
        "approx",
        Op::Approx,
        Takes::Approx,
        "a number that differs from `value` by at most `tolerance`, which is a number or a percentage",
    ),
    operator("in", Op::In, Takes::Values, "equal to one of these").folds(),
    operator("notIn", Op::In, Takes::Values, "equal to none of these").negated().folds(),
    operator(
        "matches",
        Op::Matches,
        Takes::Pattern,
        "a text, or the text of a number, that the regular expression matches",
    )
    .folds(),
    operator("startsWith", Op::StartsWith, Takes::Text, "a text that starts with this").folds(),
    operator("endsWith", Op::EndsWith, Takes::Text, "a text that ends with this").folds(),
    operator(
        "contains",
        Op::Contains,
        Takes::Value,
        "a text with this part, a list with this item or an object with this key",
    )
    .folds(),
    operator("containsAll", Op::ContainsAll, Takes::Items, "it contains all of these").folds(),
    operator("containsAny", Op::ContainsAny, Takes::Items, "it contains at least one of these").folds(),
    operator("exists", Op::Exists, Takes::Bool, "there is a value, which may be null"),
    operator("absent", Op::Exists, Takes::Bool, "there is no value").negated(),
    operator("isNull", Op::IsNull, Takes::Bool, "the value is null"),
    operator(
        "type",
        Op::Type,
        Takes::Types,
        "the value has this type, or one of these types: null bool int decimal number text list object",
    ),
    operator("empty", Op::Empty, Takes::Bool, "a text, list or object with nothing in it"),
    operator("length", Op::Length, Takes::Check, "the number of characters, items or keys meets the check"),
    operator("each", Op::Each, Takes::Check, "every item of the list meets the check"),
    operator("some", Op::Some, Takes::Check, "at least one item of the list meets the check"),
    operator("none", Op::Some, Takes::Check, "no item of the list meets the check").negated(),
    operator("atLeast", Op::AtLeast, Takes::Count, "at least `count` items of the list meet the check `of`"),
    operator(
        "subset",
        Op::Subset,
        Takes::Container,
        "a list with no items other than these, or an object with no entries other than these",
    ),
    operator("schema", Op::Schema, Takes::Schema, "the value is valid according to this JSON Schema"),
    operator("before", Op::Before, Takes::Time, "an earlier time; a date means its first moment in UTC"),
    operator("after", Op::After, Takes::Time, "a later time; a date means its first moment in UTC"),
];

/// An operator with its prefixes read.
#[derive(Debug, Clone, Copy)]
pub struct NamedOperator {
    /// The operator without them.
    pub operator: &'static Operator,
    /// Whether, all in all, it asks for the opposite.
    pub negated: bool,
    /// Whether capitals and small letters are the same.
    pub fold: bool,
}

/// The operator of a name: `not-` may stand before any, `i` before those that fold.
pub fn named(name: &str) -> Option<NamedOperator> {
    let (inner, not) = name.strip_prefix("not-").map_or((name, false), |rest| (rest, true));
    let plain = |name: &str| OPERATORS.iter().find(|operator| operator.name == name);
    if let Some(operator) = plain(inner) {
        return Some(NamedOperator { operator, negated: operator.negated != not, fold: false });
    }
    let mut rest = inner.strip_prefix('i')?.chars();
    let first = rest.next().filter(char::is_ascii_uppercase)?.to_ascii_lowercase();
    let operator = OPERATORS.iter().filter(|operator| operator.folds).find(|operator| {
        let mut name = operator.name.chars();
        name.next() == Some(first) && name.eq(rest.clone())
    })?;
    Some(NamedOperator { operator, negated: operator.negated != not, fold: true })
}

/// The form of an operator that does not tell capitals from small letters.
pub fn folded_name(name: &str) -> String {
    let mut rest = name.chars();
    let first = rest.next().map(|first| first.to_ascii_uppercase());
    std::iter::once('i').chain(first).chain(rest).collect()
}

/// Every name an operator can have without `not-`.
pub fn operator_names() -> impl Iterator<Item = String> {
    let folded =
        OPERATORS.iter().filter(|operator| operator.folds).map(|operator| folded_name(operator.name));
    OPERATORS.iter().map(|operator| operator.name.to_owned()).chain(folded)
}

/// Names that operators have elsewhere, and what they are called here.
pub const ELSEWHERE: &[(&str, &str)] = &[
    ("==", "eq"),
    ("=", "eq"),
    ("!=", "ne"),
    (">", "gt"),
    (">=", "gte"),
    ("<", "lt"),
    ("<=", "lte"),
    ("equals", "eq"),
    ("equal", "eq"),
    ("is", "eq"),
    ("notEquals", "ne"),
    ("neq", "ne"),
    ("greaterThan", "gt"),
    ("lessThan", "lt"),
    ("ge", "gte"),
    ("le", "lte"),
    ("range", "between"),
    ("regex", "matches"),
    ("regexp", "matches"),
    ("match", "matches"),
    ("pattern", "matches"),
    ("oneOf", "in"),
    ("anyOf", "any"),
    ("allOf", "all"),
    ("includes", "contains"),
    ("include", "contains"),
    ("every", "each"),
    ("nin", "notIn"),
    ("not_in", "notIn"),
    ("len", "length"),
    ("null", "isNull"),
    ("hasLength", "length"),
    ("isEmpty", "empty"),
    ("missing", "absent"),
    ("and", "all"),
    ("or", "any"),
    ("if", "when"),
    ("otherwise", "else"),
];

/// Fields of other systems and files, with the field that checks the same.
pub(crate) const OTHER_FIELDS: &[(&str, &str)] = &[
    ("shouldNotMention", "shouldNotContain"),
    ("shouldNotInclude", "shouldNotContain"),
    ("mustNotContain", "shouldNotContain"),
    ("notContains", "shouldNotContain"),
    ("shouldInclude", "shouldContain"),
    ("mustContain", "shouldContain"),
];

/// A field of the expectations of agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FieldName {
    /// The field `responseType` of an expectation.
    ResponseType,
    /// The field `expectedAgent` of an expectation.
    Agent,
    /// The field `expectedFunction` of an expectation.
    Function,
    /// The field `expectedParams` of an expectation.
    Params,
    /// The field `expectedAmount` of an expectation.
    Amount,
    /// The field `expectedRecipient` of an expectation.
    Recipient,
    /// The field `shouldContain` of an expectation.
    Contain,
    /// The field `shouldNotContain` of an expectation.
    NotContain,
    /// The field `shouldMention` of an expectation.
    Mention,
    /// The field `shouldAskFor` of an expectation.
    AskFor,
    /// The field `shouldWarn` of an expectation.
    Warn,
    /// The field `shouldReject` of an expectation.
    Reject,
    /// The field `shouldExplain` of an expectation.
    Explain,
    /// The field `shouldMaintainRole` of an expectation.
    MaintainRole,
    /// The field `shouldHandle` of an expectation.
    Handle,
    /// The field `expectedBehavior` of an expectation.
    Behavior,
}

/// How what stands behind a field is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldTakes {
    /// A value or an object of operators.
    Check,
    /// Names of parameters, and a check behind each.
    Params,
    /// A text or a list of texts.
    Words,
    /// `true` or `false`.
    Bool,
    /// A single text.
    Text,
}

impl FieldTakes {
    /// In a sentence.
    pub fn expected(self) -> &'static str {
        match self {
            Self::Check => Takes::Check.expected(),
            Self::Params => "names of parameters with a check behind each",
            Self::Words => "text, or a list of texts",
            Self::Bool => Takes::Bool.expected(),
            Self::Text => Takes::Text.expected(),
        }
    }
}

/// A field of the expectations of agents, defined as a check over the actual document.
pub struct FieldSpec {
    /// The name as it is written in files.
    pub name: &'static str,
    /// The field that the loader dispatches on.
    pub field: FieldName,
    /// What stands behind it.
    pub takes: FieldTakes,
    /// The expectation it stands for; `X` is what stands behind it. Nothing where it is a rule of its own.
    pub means: Option<&'static str>,
    /// One line for the reference.
    pub doc: &'static str,
}

/// Every field, in the order of the reference: first those that any assistant uses, then those for plans.
pub static FIELDS: &[FieldSpec] = &[
    FieldSpec {
        name: "responseType",
        field: FieldName::ResponseType,
        takes: FieldTakes::Check,
        means: Some("{type: X}"),
        doc: "the kind of answer: `execution`, `text`, `json`, `clarification` or `error`",
    },
    FieldSpec {
        name: "shouldContain",
        field: FieldName::Contain,
        takes: FieldTakes::Words,
        means: Some("{text: {iContainsAll: X}}"),
        doc: "the text contains all of these, in upper or lower case",
    },
    FieldSpec {
        name: "shouldNotContain",
        field: FieldName::NotContain,
        takes: FieldTakes::Words,
        means: Some("{text: {not-iContainsAny: X}}"),
        doc: "the text contains none of these",
    },
    FieldSpec {
        name: "shouldMention",
        field: FieldName::Mention,
        takes: FieldTakes::Words,
        means: Some("{text: {iContainsAll: X}}"),
        doc: "the same as `shouldContain`, for names and subjects",
    },
    FieldSpec {
        name: "shouldAskFor",
        field: FieldName::AskFor,
        takes: FieldTakes::Words,
        means: Some("{any: [{type: clarification}, {text: {contains: '?'}}], text: {iContainsAll: X}}"),
        doc: "the answer is a clarification or has a question mark, and mentions all of these",
    },
    FieldSpec {
        name: "shouldWarn",
        field: FieldName::Warn,
        takes: FieldTakes::Words,
        means: Some("{text: {iContainsAll: X}}"),
        doc: "the text contains all of these warnings, word for word",
    },
    FieldSpec {
        name: "shouldReject",
        field: FieldName::Reject,
        takes: FieldTakes::Bool,
        means: None,
        doc: "whether the answer refuses: it plans nothing, and is an error or contains a word of refusal",
    },
    FieldSpec {
        name: "shouldExplain",
        field: FieldName::Explain,
        takes: FieldTakes::Words,
        means: None,
        doc: "each of these is explained: it occurs in a sentence with a word of explanation",
    },
    FieldSpec {
        name: "shouldMaintainRole",
        field: FieldName::MaintainRole,
        takes: FieldTakes::Text,
        means: None,
        doc: "the agent keeps its role",
    },
    FieldSpec {
        name: "shouldHandle",
        field: FieldName::Handle,
        takes: FieldTakes::Words,
        means: None,
        doc: "the system dealt with this: `facts.handled` lists it",
    },
    FieldSpec {
        name: "expectedBehavior",
        field: FieldName::Behavior,
        takes: FieldTakes::Words,
        means: None,
        doc: "the system did this: `facts.behavior` lists it",
    },
    FieldSpec {
        name: "expectedAgent",
        field: FieldName::Agent,
        takes: FieldTakes::Check,
        means: Some("{plan: {some: {agent: X}}}"),
        doc: "the agent of the step of the plan",
    },
    FieldSpec {
        name: "expectedFunction",
        field: FieldName::Function,
        takes: FieldTakes::Check,
        means: Some("{plan: {some: {function: X}}}"),
        doc: "the function of the step of the plan",
    },
    FieldSpec {
        name: "expectedParams",
        field: FieldName::Params,
        takes: FieldTakes::Params,
        means: Some("{plan: {some: {params: X}}}"),
        doc: "the parameters of the step of the plan, by name",
    },
    FieldSpec {
        name: "expectedAmount",
        field: FieldName::Amount,
        takes: FieldTakes::Check,
        means: Some("{plan: {some: {params.amount: X}}}"),
        doc: "short for `expectedParams: {amount: X}`",
    },
    FieldSpec {
        name: "expectedRecipient",
        field: FieldName::Recipient,
        takes: FieldTakes::Check,
        means: Some("{plan: {some: {params.recipient: X}}}"),
        doc: "short for `expectedParams: {recipient: X}`",
    },
];

/// The field of a name.
pub fn field(name: &str) -> Option<&'static FieldSpec> {
    FIELDS.iter().find(|field| field.name == name)
}

/// The kinds of answers that `responseType` knows.
pub const RESPONSE_TYPES: [&str; 5] = ["execution", "text", "json", "clarification", "error"];

/// A key of an expectation that is neither a field nor a path.
pub struct ExpectationKey {
    /// The name as it is written in files.
    pub name: &'static str,
    /// What stands behind it, in a sentence.
    pub takes: &'static str,
    /// One line for the reference.
    pub doc: &'static str,
}

/// Logic: how expectations are put together.
pub static LOGIC: &[ExpectationKey] = &[
    ExpectationKey { name: "all", takes: "a list of expectations", doc: "every one is met" },
    ExpectationKey { name: "any", takes: "a list of expectations", doc: "at least one is met" },
    ExpectationKey { name: "not", takes: "an expectation", doc: "it is unmet" },
    ExpectationKey { name: "when", takes: "an expectation", doc: "the condition of `then` and `else`" },
    ExpectationKey { name: "then", takes: "an expectation", doc: "what must be met if `when` is met" },
    ExpectationKey { name: "else", takes: "an expectation", doc: "what must be met if `when` is unmet" },
];

/// Checks that are neither fields nor paths.
pub static CHECKS: &[ExpectationKey] = &[
    ExpectationKey {
        name: "expr",
        takes: "an expression",
        doc: "a condition over the actual document, such as `value.score >= 80`",
    },
    ExpectationKey {
        name: "judge",
        takes: "a question",
        doc: "a question that only a judge can answer; not evaluable without a judge",
    },
];

/// What can stand beside the checks of an expectation.
pub static OPTIONS: &[ExpectationKey] = &[
    ExpectationKey { name: "name", takes: "text", doc: "what to call it" },
    ExpectationKey { name: "description", takes: "text", doc: "what it is for" },
    ExpectationKey {
        name: "rejectionReason",
        takes: "text",
        doc: "beside `shouldReject`: why the request is to be rejected, for readers; nothing is compared with it",
    },
    ExpectationKey {
        name: "weight",
        takes: "a number above 0",
        doc: "its weight in the score of the `all` that it is a member of",
    },
    ExpectationKey {
        name: "must",
        takes: "`true` or `false`",
        doc: "as a member of a scored `all`: it must be met, whatever the score is",
    },
    ExpectationKey {
        name: "threshold",
        takes: "a number from 0 to 1",
        doc: "beside `all`: the share of the weight that must be met, instead of every member",
    },
    ExpectationKey {
        name: "distinct",
        takes: "`true` or `false`",
        doc: "beside `all`: every member needs its own step of the plan",
    },
];

/// The keys of a file with several expectations.
pub static FILE: &[ExpectationKey] = &[
    ExpectationKey {
        name: "expectations",
        takes: "names with expectations, or a list",
        doc: "the expectations",
    },
    ExpectationKey {
        name: "facts",
        takes: "names with types, or a list of names",
        doc: "the facts that may be read; if given, any other fact is an error",
    },
    ExpectationKey {
        name: "distinct",
        takes: "`true` or `false`",
        doc: "no two expectations may be met by the same step of the plan",
    },
    ExpectationKey {
        name: "unknown",
        takes: "`error` or `warn`",
        doc: "how unknown keys are treated: as errors, or ignored with a warning",
    },
    ExpectationKey {
        name: "depth",
        takes: "a whole number from 1 to 50",
        doc: "the maximum depth of nested logic (default: 5)",
    },
    ExpectationKey { name: "name", takes: "text", doc: "what to call the file" },
    ExpectationKey { name: "description", takes: "text", doc: "what it is for" },
];

/// A name at the root of an actual document.
pub struct Root {
    /// The name at the root of the document.
    pub name: &'static str,
    /// Which documents have it.
    pub kinds: &'static [crate::actual::DocumentKind],
    /// One line for the reference.
    pub doc: &'static str,
}

use crate::actual::DocumentKind::{Answer, Plain, Step};

/// Every root, in the order of the reference.
pub static ROOTS: &[Root] = &[
    Root { name: "text", kinds: &[Answer], doc: "the text of the answer" },
    Root {
        name: "type",
        kinds: &[Answer],
        doc: "the kind of answer: `execution`, `text`, `json`, `clarification` or `error`",
    },
    Root {
        name: "plan",
        kinds: &[Answer],
        doc: "the planned steps: a list of `{agent, function, params, description}`",
    },
    Root {
        name: "tools",
        kinds: &[Answer],
        doc: "the tools that the agent called, in order: a list of `{name, arguments, result, is_error}`",
    },
    Root { name: "usage", kinds: &[Answer], doc: "what it cost, such as `{tokens, cost}`" },
    Root { name: "latency", kinds: &[Answer], doc: "how long the answer took, in seconds" },
    Root {
        name: "value",
        kinds: &[Answer, Step, Plain],
        doc: "the value of the step, or the structured part of the answer; for other documents, the whole document",
    },
    Root { name: "output", kinds: &[Step], doc: "what the step printed, as text" },
    Root { name: "exit_code", kinds: &[Step], doc: "the exit code of its program" },
    Root { name: "meta", kinds: &[Step], doc: "the step's meta data" },
    Root {
        name: "facts",
        kinds: &[Answer, Step, Plain],
        doc: "facts that are known in addition to the document",
    },
];

/// The root of a name.
pub fn root(name: &str) -> Option<&'static Root> {
    ROOTS.iter().find(|root| root.name == name)
}
