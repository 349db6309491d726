//! References as other systems write them, `{{ name }}` and `${{ name }}`: found in text for a warning, never evaluated.

use super::expression::name_len;
use crate::diag::Span;

/// A reference of another system in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignReference {
    /// Where it stands, with its braces and the dollar before them.
    pub span: Span,
    /// What stands between the braces.
    pub inside: String,
    /// The name that it begins with.
    pub root: String,
    /// Whether a dollar stands before the braces.
    pub has_dollar: bool,
}

impl ForeignReference {
    /// Those of a text. What begins with something else than a name, as `{{.Names}}` does, is none.
    pub fn all_in(text: &str) -> Vec<Self> {
        let mut found = Vec::new();
        let mut from = 0;
        while let Some(open) = text[from..].find("{{").map(|at| from + at) {
            from = open + 2;
            let line = text[from..].split('\n').next().unwrap_or("");
            let Some(close) = line.find("}}") else { continue };
            let inside = line[..close].trim();
            let root = &inside[..name_len(inside)];
            if root.is_empty() || root.starts_with(|first: char| first.is_ascii_digit()) {
                continue;
            }
            let before = &text[..open];
            let has_dollar = before.ends_with('$') && !before.ends_with("$$");
            let start = open - usize::from(has_dollar);
            from += close + 2;
            found.push(Self {
                span: Span::new(start, from),
                inside: inside.to_owned(),
                root: root.to_owned(),
                has_dollar,
            });
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_in_two_braces_are_found() {
        let found = |text: &str| -> Vec<String> {
            ForeignReference::all_in(text)
                .into_iter()
                .map(|found| text[found.span.range()].to_owned())
                .collect()
        };
        assert_eq!(found("a {{ b }} and ${{ c.d }}, ${e}"), ["{{ b }}", "${{ c.d }}"]);
        assert_eq!(found("{{.Names}} {{ 1 }} {{}} {{ a\n}} {{{x"), [""; 0]);
        assert_eq!(found("{{"), [""; 0]);
        assert_eq!(found("ä{{ü}}"), ["{{ü}}"]);
    }
}
