//! The limits that keep every evaluation bounded, each with a name that its error shows.

use crate::value::MAX_DEPTH;

/// What may be bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Limit {
    /// Bytes of an expression's source.
    Expression,
    /// Bytes of a template or document.
    Source,
    /// Nesting of the syntax.
    SyntaxDepth,
    /// Nesting of data.
    DataDepth,
    /// Bytes of data when it is written out.
    DataSize,
    /// Nesting of an evaluation, through definitions that refer to each other.
    EvaluationDepth,
    /// Operations of one evaluation.
    Operations,
    /// Digits of a number.
    Digits,
    /// Bytes of a text result.
    TextResult,
    /// Bytes of a compiled regular expression.
    Regex,
    /// Computed values kept during one evaluation.
    Computed,
    /// Bytes of the elements of a paged list that are kept in memory.
    Elements,
}

impl Limit {
    /// The name that errors show.
    pub fn name(self) -> &'static str {
        match self {
            Self::Expression => "expression size",
            Self::Source => "template or document size",
            Self::SyntaxDepth => "nesting of an expression",
            Self::DataDepth => "nesting of data",
            Self::DataSize => "size of data",
            Self::EvaluationDepth => "nesting of an evaluation",
            Self::Operations => "operations per evaluation",
            Self::Digits => "digits of a number",
            Self::TextResult => "size of a text or list",
            Self::Regex => "size of a compiled pattern",
            Self::Computed => "computed values per evaluation",
            Self::Elements => "elements kept in a list",
        }
    }
}

impl Limit {
    /// That a limit of this size was passed, in words.
    pub(crate) fn passed(self, max: u64) -> String {
        let bytes = matches!(
            self,
            Self::Expression
                | Self::Source
                | Self::TextResult
                | Self::Regex
                | Self::DataSize
                | Self::Elements
        );
        let size = match (bytes, max) {
            (true, max) if max >= 1 << 20 && max.is_multiple_of(1 << 20) => format!("{} MiB", max >> 20),
            (true, max) if max >= 1 << 10 && max.is_multiple_of(1 << 10) => format!("{} KiB", max >> 10),
            (true, max) => format!("{max} bytes"),
            (false, max) => max.to_string(),
        };
        format!("over the limit: {}, at most {size}", self.name())
    }
}

/// The limits in force; [`Limits::default`] is what the binary uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of an expression's source: 64 KiB.
    pub expression: usize,
    /// Bytes of a template or document: 64 MiB.
    pub source: usize,
    /// Nesting of the syntax: 128. More than 128 is not accepted.
    pub syntax_depth: usize,
    /// Nesting of a JSON text: 200. What was written around data can be read back with more.
    pub data_depth: u8,
    /// Operations of one evaluation: 1,000,000.
    pub operations: u64,
    /// Bytes of a text result, and of the elements of paged lists that are kept: 64 MiB.
    pub text_result: usize,
    /// Bytes of a compiled regular expression: 1 MiB.
    pub regex: usize,
    /// Computed values kept during one evaluation: 10,000.
    pub computed: usize,
    /// Bytes of the computed values kept during one evaluation: 256 MiB.
    pub computed_bytes: usize,
}

impl Limits {
    /// The default limits.
    pub const DEFAULT: Self = Self {
        expression: 64 << 10,
        source: 64 << 20,
        syntax_depth: 128,
        data_depth: MAX_DEPTH,
        operations: 1_000_000,
        text_result: 64 << 20,
        regex: 1 << 20,
        computed: 10_000,
        computed_bytes: 256 << 20,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
