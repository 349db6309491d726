//! The errors of the language, as data that a caller can match.

use std::fmt;

use ecow::EcoString;

use super::{Fix, Span};
use crate::data::Style;
use crate::limits::Limit;
use crate::shape::Types;
use crate::syntax::SyntaxError;
use crate::value::{NumberError, Oversized, Type, Value, ops::OpError};

/// What went wrong, where, and the values that were read there.
#[derive(Clone)]
pub struct Error(Box<Details>);

#[derive(Clone)]
struct Details {
    kind: ErrorKind,
    span: Span,
    origin: Option<Origin>,
    reads: Vec<ValueRead>,
    fix: Option<Fix>,
    sealed: bool,
}

/// The place in a document where a template stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The keys and indexes that lead there, such as `steps[0].message`.
    pub path: EcoString,
    /// The scalar in the file.
    pub span: Span,
    /// How the scalar is written, to map positions in its text back to the file.
    pub style: Style,
}

impl Origin {
    /// The same place of a document that itself stands somewhere.
    #[must_use]
    pub(crate) fn below(self, path: &str) -> Self {
        let join =
            if path.is_empty() || self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        Self { path: ecow::eco_format!("{path}{join}{}", self.path), ..self }
    }
}

/// A reference that the failing part read, with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueRead {
    /// The reference as it is written.
    pub reference: EcoString,
    /// What it gave.
    pub value: Value,
}

/// What went wrong.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The text is not in the language.
    Parse {
        /// What sort of mistake it is.
        class: ParseClass,
        /// What is wrong, in words.
        message: String,
        /// How to write it instead.
        hint: Option<String>,
    },
    /// The first name of a path is not in scope.
    UnknownRoot {
        /// The name that was not found.
        name: EcoString,
        /// The names there are.
        available: Vec<EcoString>,
        /// Set when the name is a node's that stands as data, or the like.
        hint: Option<String>,
    },
    /// There is no output of a node with this id.
    NodeNotFound {
        /// The id that was not found.
        id: EcoString,
        /// The ids there are.
        available: Vec<EcoString>,
    },
    /// An object has no such key. `default`, `exists` and `:-` cover it.
    FieldNotFound {
        /// The path so far.
        path: String,
        /// The key that was not found.
        field: EcoString,
        /// The keys there are.
        available: Vec<EcoString>,
        /// Another spelling that would work.
        hint: Option<String>,
    },
    /// A list has no such element. `default`, `exists` and `:-` cover it.
    IndexNotFound {
        /// The path so far.
        path: String,
        /// The index, as a number in full.
        index: EcoString,
        /// How many elements there are.
        len: usize,
    },
    /// A step into null. `default`, `exists` and `:-` cover it.
    StepIntoNull {
        /// The path that is null.
        path: String,
        /// The step, as written.
        step: String,
    },
    /// An environment variable is not set. `default`, `exists` and `:-` cover it.
    EnvNotSet {
        /// The name of the variable.
        name: EcoString,
        /// A variable with a similar name.
        nearest: Option<EcoString>,
    },
    /// A name that exists has no value now. `default`, `exists` and `:-` cover it.
    Unset {
        /// The path that leads to the name.
        path: String,
        /// Why, in words.
        why: EcoString,
    },
    /// A function has nothing to give. `default`, `exists` and `:-` cover it.
    Nothing {
        /// The name of the function.
        function: &'static str,
        /// Why, in words.
        why: &'static str,
    },
    /// A step that this type does not have.
    StepIntoType {
        /// The path so far.
        path: String,
        /// The step, as written.
        step: String,
        /// The types that the value at the path can have.
        types: Types,
        /// How to write it instead.
        hint: Option<String>,
    },
    /// Operands that an operator does not take.
    Operands {
        /// The operator as it is written.
        operator: &'static str,
        /// The type on the left.
        left: Type,
        /// The type on the right.
        right: Type,
        /// How to write it instead.
        hint: Option<String>,
    },
    /// Something other than what is needed in a place.
    Expected {
        /// The place, such as "the condition of `if`".
        place: String,
        /// What is needed.
        expected: &'static str,
        /// What it was.
        got: Type,
        /// How to write it instead.
        hint: Option<String>,
    },
    /// An argument of the right type that will not do.
    Argument {
        /// The name of the function.
        function: &'static str,
        /// The name of the parameter.
        parameter: &'static str,
        /// Why, in words.
        why: String,
        /// How to write it instead.
        hint: Option<String>,
    },
    /// A type that a value may have, because the file allows for it, and that does not fit.
    MayBe {
        /// The expression of the value.
        path: String,
        /// The type of the value.
        kind: Type,
        /// What goes wrong then.
        cause: Box<Error>,
    },
    /// Arithmetic without a result.
    Number(NumberError),
    /// An element expression failed.
    Element {
        /// The name of the function.
        function: &'static str,
        /// The element's index.
        index: usize,
        /// What went wrong there.
        cause: Box<Error>,
    },
    /// A limit was passed.
    Limit {
        /// The limit that was exceeded.
        limit: Limit,
        /// The size of the limit.
        max: u64,
    },
    /// A computed value could not be had.
    Computed {
        /// The kind of computed value, such as `file`.
        kind: EcoString,
        /// What happened, as a fragment of a message.
        message: String,
        /// What to do.
        hint: Option<String>,
    },
    /// Definitions that need each other.
    Cycle {
        /// The chain, its first name repeated at the end.
        chain: Vec<EcoString>,
    },
}

/// The sorts of mistakes in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParseClass {
    /// Not the grammar.
    Syntax,
    /// A brace or quote that is never closed.
    Unclosed,
    /// What stands in the braces is not a path.
    InvalidPath,
    /// A function or filter that does not exist.
    UnknownFunction,
    /// Too few or too many arguments.
    Arguments,
    /// A kind of computed value that does not exist.
    UnknownKind,
    /// An element expression that is not a literal, or empty.
    ElementExpression,
    /// A limit of the parser.
    Limit(Limit, u64),
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, span: Span) -> Self {
        Self(Box::new(Details { kind, span, origin: None, reads: Vec::new(), fix: None, sealed: false }))
    }

    pub(crate) fn limit(limit: Limit, max: u64, span: Span) -> Self {
        Self::new(ErrorKind::Limit { limit, max }, span)
    }

    pub(crate) fn oversized(Oversized(limit): Oversized, span: Span) -> Self {
        let max = match limit {
            Limit::DataDepth => u64::from(crate::value::MAX_DEPTH),
            _ => crate::value::MAX_SIZE,
        };
        Self::limit(limit, max, span)
    }

    pub(crate) fn parse(problem: SyntaxError) -> Self {
        let SyntaxError { class, span, message, hint, fix } = problem;
        match class {
            ParseClass::Limit(limit, max) => Self::limit(limit, max, span),
            class => Self::new(ErrorKind::Parse { class, message, hint }, span).with_fix(fix),
        }
    }

    pub(crate) fn operands(
        operator: &'static str,
        error: &OpError,
        span: Span,
        hint: Option<String>,
        text_limit: u64,
    ) -> Self {
        match *error {
            OpError::Types(left, right) => {
                Self::new(ErrorKind::Operands { operator, left, right, hint }, span)
            }
            OpError::Number(NumberError::TooLarge) => {
                Self::limit(Limit::Digits, crate::value::MAX_DIGITS as u64, span)
            }
            OpError::Number(error) => Self::new(ErrorKind::Number(error), span),
            OpError::TooLong => Self::limit(Limit::TextResult, text_limit, span),
            OpError::Oversized(limit) => Self::oversized(Oversized(limit), span),
        }
    }

    /// What went wrong.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// Where, in the text of the template or expression.
    pub fn span(&self) -> Span {
        self.0.span
    }

    /// The place in the document, when the template stands in one.
    pub fn origin(&self) -> Option<&Origin> {
        self.0.origin.as_ref()
    }

    /// The references that the failing part read, with their values.
    pub fn reads(&self) -> &[ValueRead] {
        &self.0.reads
    }

    /// Whether a root or a node does not exist at all: that is an error wherever it stands, also where evaluation would
    /// not come to it.
    pub fn is_unknown_name(&self) -> bool {
        matches!(self.0.kind, ErrorKind::UnknownRoot { .. } | ErrorKind::NodeNotFound { .. })
    }

    /// Whether a value is missing, rather than wrong.
    pub fn is_missing(&self) -> bool {
        matches!(
            self.0.kind,
            ErrorKind::FieldNotFound { .. }
                | ErrorKind::IndexNotFound { .. }
                | ErrorKind::StepIntoNull { .. }
                | ErrorKind::EnvNotSet { .. }
                | ErrorKind::Unset { .. }
                | ErrorKind::Nothing { .. }
        )
    }

    /// Whether `default`, `exists` or `:-` cover it: missing, and not inside an argument.
    pub(crate) fn is_covered(&self) -> bool {
        self.is_missing() && !self.0.sealed
    }

    /// From here on no default covers it.
    pub(crate) fn seal(mut self) -> Self {
        self.0.sealed = true;
        self
    }

    pub(crate) fn with_origin(mut self, origin: &Origin) -> Self {
        self.0.origin.get_or_insert_with(|| origin.clone());
        self
    }

    /// What its hint says, as a change of the text.
    pub(super) fn written_fix(&self) -> Option<&Fix> {
        self.0.fix.as_ref()
    }

    pub(crate) fn with_fix(mut self, fix: Option<Fix>) -> Self {
        self.0.fix = fix;
        self
    }

    pub(crate) fn with_reads(mut self, reads: Vec<ValueRead>) -> Self {
        if self.0.reads.is_empty() {
            self.0.reads = reads;
        }
        self
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({self} at {}..{})", self.0.span.start, self.0.span.end)
    }
}

impl std::error::Error for Error {}
