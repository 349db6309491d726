//! Why a data file cannot be read. The wording of every such error is in this file.

use std::fmt;

use ecow::EcoString;

use crate::diag::{Fix, Span, words};
use crate::limits::Limit;
use crate::value::{MAX_DEPTH, MAX_DIGITS, MAX_SIZE};

/// Why a text is not the data it should be, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadError {
    /// What is wrong.
    pub kind: ReadErrorKind,
    /// The bytes it is about.
    pub span: Span,
    /// What to do about it, when there is one thing to do.
    pub hint: Option<&'static str>,
    /// The change that does it.
    pub fix: Option<Box<Fix>>,
}

/// What is wrong with a data file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadErrorKind {
    /// Something else should stand here.
    Syntax {
        /// What should stand here, in words.
        expected: &'static str,
        /// What stands here.
        found: UnexpectedText,
    },
    /// A key stands twice in one object.
    DuplicateKey {
        /// The key that is repeated.
        key: EcoString,
        /// Where it stood first.
        first: Span,
    },
    /// A limit was passed.
    Limit(Limit),
    /// What begins like a number and is none.
    InvalidNumber(EcoString),
    /// Not a number, or an infinite one: no value here can be that.
    NotANumber,
    /// A `\u` escape that is half of a surrogate pair.
    LoneSurrogate,
    /// A backslash sequence that the format does not have.
    InvalidEscape,
    /// A control character that must be escaped.
    ControlCharacter(char),
    /// Something follows after the end of the data.
    TrailingText,
    /// An alias where nothing can be shared.
    AliasNotAllowed,
    /// An alias inside the value that it repeats.
    AliasInItself,
    /// Aliases that repeat more than a document may hold.
    TooManyAliases,
    /// A YAML merge key.
    MergeKey,
    /// A key that is something else than a text.
    KeyNotText(&'static str),
    /// A YAML tag that means nothing here.
    UnknownTag(EcoString),
    /// A YAML tag on something else.
    TagMismatch {
        /// The tag without its exclamation marks.
        tag: EcoString,
        /// What it stands on.
        found: &'static str,
    },
    /// A reference whose end YAML takes for something else.
    CutReference,
    /// More than one document in a file.
    SeveralDocuments,
    /// A file that asks for another version of YAML.
    OtherVersion,
    /// Any other mistake in YAML, in words.
    Yaml(EcoString),
    /// YAML, in a program that was built without it.
    NoYaml,
}

/// What stands where something else was expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnexpectedText {
    /// The end of the text.
    End,
    /// A word or a character.
    Text(EcoString),
}

/// The longest word that an error repeats.
const LONGEST_WORD: usize = 32;

impl UnexpectedText {
    /// The word or character at a place.
    pub(super) fn at(text: &str, offset: usize) -> Self {
        let rest = text.get(offset..).unwrap_or("");
        let word = |c: char| c.is_alphanumeric() || c == '_';
        let Some(first) = rest.chars().next() else { return Self::End };
        let count = rest.chars().take_while(|c| word(*c)).take(LONGEST_WORD).count();
        if count == 0 { Self::Text(first.into()) } else { Self::Text(rest.chars().take(count).collect()) }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::End => 0,
            Self::Text(text) => text.len(),
        }
    }
}

impl ReadError {
    /// What is wrong, without a word of the text it is wrong in: a text that came from data may be a secret, and an
    /// error shows values only where they can be masked.
    pub(crate) fn without_text(&self) -> String {
        match &self.kind {
            ReadErrorKind::Syntax { expected, found: UnexpectedText::Text(_) } => {
                format!("expected {expected}")
            }
            ReadErrorKind::DuplicateKey { .. } => "a key stands twice in one object".to_owned(),
            ReadErrorKind::InvalidNumber(_) => "this is not a number".to_owned(),
            ReadErrorKind::UnknownTag(_) | ReadErrorKind::TagMismatch { .. } => {
                "a tag has no meaning here".to_owned()
            }
            ReadErrorKind::Yaml(_) => "it is not well formed".to_owned(),
            kind => kind.to_string(),
        }
    }
}

impl ReadError {
    /// An error without a hint.
    pub fn new(kind: ReadErrorKind, span: Span) -> Self {
        Self { kind, span, hint: None, fix: None }
    }

    /// What to do about it, as precisely as it can be told without a word of the text.
    pub fn advice(&self) -> Option<String> {
        let spaces =
            self.fix.as_ref().filter(|fix| !fix.text.is_empty() && fix.text.trim_matches(' ').is_empty());
        match spaces {
            Some(fix) => Some(format!("indent this line by {}", words::count(fix.text.len(), "space"))),
            None => self.hint.map(str::to_owned),
        }
    }

    /// The same error with a hint.
    #[must_use]
    pub fn with_hint(self, hint: &'static str) -> Self {
        Self { hint: Some(hint), ..self }
    }

    /// The first byte it is about.
    pub fn offset(&self) -> usize {
        self.span.start as usize
    }

    /// `expected` should stand at a place where something else does.
    #[cold]
    pub(super) fn syntax(text: &str, offset: usize, expected: &'static str) -> Self {
        let found = UnexpectedText::at(text, offset);
        let span = Span::new(offset, offset + found.len());
        Self::new(ReadErrorKind::Syntax { expected, found }, span)
    }

    #[cold]
    pub(super) fn invalid_number(text: &str, span: Span) -> Self {
        let number = text[span.range()].chars().take(LONGEST_WORD).collect();
        Self::new(ReadErrorKind::InvalidNumber(number), span)
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.kind, f)
    }
}

impl std::error::Error for ReadError {}

impl fmt::Display for ReadErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax { expected, found } => write!(f, "expected {expected}, found {found}"),
            Self::DuplicateKey { key, .. } => write!(f, "the key `{key}` stands twice in one object"),
            Self::Limit(limit) => match limit {
                Limit::DataDepth => f.write_str(&limit.passed(u64::from(MAX_DEPTH))),
                Limit::DataSize => f.write_str(&limit.passed(MAX_SIZE)),
                Limit::Digits => f.write_str(&limit.passed(MAX_DIGITS as u64)),
                limit => write!(f, "over the limit: {}", limit.name()),
            },
            Self::InvalidNumber(text) => write!(f, "`{text}` is not a number"),
            Self::NotANumber => f.write_str("NaN and infinity are no values here"),
            Self::LoneSurrogate => f.write_str("this escape is half of a surrogate pair"),
            Self::InvalidEscape => f.write_str("there is no such escape"),
            Self::ControlCharacter(c) => {
                write!(f, "the control character U+{:04X} must be escaped", u32::from(*c))
            }
            Self::TrailingText => f.write_str("the data ended before this"),
            Self::AliasNotAllowed => f.write_str("an alias cannot stand here"),
            Self::AliasInItself => f.write_str("an alias cannot stand inside the value that it repeats"),
            Self::TooManyAliases => f.write_str("the aliases repeat more than a document may hold"),
            Self::MergeKey => f.write_str("merge keys (`<<`) are not YAML 1.2; write the keys out"),
            Self::KeyNotText(found) => write!(f, "a key must be a text, found {found}"),
            Self::UnknownTag(tag) => write!(f, "the tag `{tag}` has no meaning here"),
            Self::TagMismatch { tag, found } => write!(f, "`!!{tag}` cannot stand before this {found}"),
            Self::CutReference => f.write_str("YAML ends this value before the reference ends"),
            Self::SeveralDocuments => f.write_str("a file holds one document; a second one begins here"),
            Self::OtherVersion => f.write_str("only YAML 1.2 is read"),
            Self::Yaml(message) => f.write_str(message),
            Self::NoYaml => f.write_str("this program was built without YAML (feature `yaml`)"),
        }
    }
}

impl fmt::Display for UnexpectedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::End => f.write_str("the end of the text"),
            Self::Text(text) if text.chars().all(is_unseen) => {
                text.chars().try_for_each(|c| write!(f, "U+{:04X}", u32::from(c)))
            }
            Self::Text(text) => write!(f, "`{text}`"),
        }
    }
}

fn is_unseen(c: char) -> bool {
    c.is_control() || c.is_whitespace() || c == '\u{feff}'
}
