//! What went wrong and where: spans, typed errors, and the diagnostics that people read.
//!
//! Nothing here prints. An [`error::Error`] carries values as data; whoever shows it decides what to mask.

pub mod error;
mod message;
pub mod words;

pub use message::{Diagnostic, Fix, Severity, excerpt, preview};

/// A range of bytes in a source text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// The byte after the last.
    pub end: u32,
}

impl Span {
    /// The range from `start` to before `end`. Sources are limited to 64 MiB, so positions fit.
    #[inline]
    pub fn new(start: usize, end: usize) -> Self {
        let clamp = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Self { start: clamp(start), end: clamp(end) }
    }

    /// As a range to index a text with.
    #[inline]
    pub fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }

    /// From the start of this one to the end of the other.
    #[must_use]
    pub fn to(self, other: Self) -> Self {
        Self { start: self.start, end: other.end }
    }
}

/// The known name that a misspelt one most likely meant.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = name.chars().count();
    // Another name of one letter is just another name.
    let allowed = if length < 2 { 0 } else { (length / 3).clamp(1, 3) };
    known
        .into_iter()
        .filter(|candidate| *candidate != name && candidate.chars().count().abs_diff(length) <= allowed)
        .filter(|candidate| negates(candidate) == negates(name))
        .map(|candidate| {
            let distance =
                if candidate.eq_ignore_ascii_case(name) { 0 } else { strsim::osa_distance(name, candidate) };
            (distance, candidate)
        })
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Whether a name says no, as `shouldNotContain`, `not_in` and `not-matches` do: to offer one name that does for another
/// that does not would turn a file into its opposite.
fn negates(name: &str) -> bool {
    let begins = name.strip_prefix("not").is_some_and(|rest| rest.starts_with(char::is_uppercase));
    begins || name.contains("Not") || name.split(['_', '-', '.', ' ']).any(|word| word == "not")
}

/// Defines `Check`: the sorts of problems that a kind of file can have, each with a stable id, a line of documentation and
/// how bad it is.
#[macro_export]
macro_rules! checks {
    ($($(#[doc = $doc:literal])+ $name:ident $id:literal $severity:ident)*) => {
        /// A sort of problem.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Check {
            $($(#[doc = $doc])+ $name,)*
        }

        impl Check {
            /// Every sort, in the order of the reference.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Its stable name.
            pub fn id(self) -> &'static str {
                match self { $(Self::$name => $id,)* }
            }

            /// How bad it is, unless a place makes it milder.
            pub fn severity(self) -> $crate::diag::Severity {
                match self { $(Self::$name => $crate::diag::Severity::$severity,)* }
            }

            /// What it is, in one line.
            pub fn doc(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+).trim_ascii(),)* }
            }

            /// A problem of this sort at a place.
            pub fn at(self, span: $crate::diag::Span, message: impl Into<String>) -> $crate::diag::Diagnostic {
                let problem = $crate::diag::Diagnostic::error(self.id(), span, message);
                $crate::diag::Diagnostic { severity: self.severity(), ..problem }
            }
        }
    };
}
