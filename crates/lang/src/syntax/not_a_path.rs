//! What to say about braces that hold no path: how it would be written, as well as that can be told.

use super::expression::name_len;
use super::parser::{MAX_MESSAGE, Parsed, Parser, parse_expression};
use crate::diag::Span;
use crate::diag::error::ParseClass;

impl Parser<'_, '_> {
    /// What stands in the braces is an expression: say how to write it.
    pub(super) fn needs_expression<T>(&self, opened: usize) -> Parsed<T> {
        if !self.is_closed(opened) {
            return self.unclosed(opened);
        }
        let inside = self.inside(opened);
        let before = self.text[opened.min(self.pos)..self.pos].chars().next_back();
        let glued = before.is_some_and(|before| !before.is_whitespace());
        let operator = ["if", "and", "or", "in", "not", "else"].contains(&self.next_word());
        match self.peek_char() {
            Some('.' | '[') if !glued && before.is_some() => {
                let tight: String = inside.split_whitespace().collect();
                return self.problem_to_fix(
                    ParseClass::InvalidPath,
                    self.here(),
                    "no white space may stand in a path",
                    "write",
                    (self.whole(opened), format!("${{{tight}}}")),
                );
            }
            Some(char) if !operator && (char.is_alphanumeric() || char == '_') => {
                return self.problem_with(
                    ParseClass::InvalidPath,
                    self.here(),
                    "two names without anything between them",
                    "a key with a space in it is written `[\"two words\"]`",
                );
            }
            Some('.') if before == Some(')') => {}
            Some(char) if glued && !"+-*/%<>=!&|?:([{".contains(char) => {
                return self.not_in_a_name(inside, char);
            }
            _ => {}
        }
        if self.peek() == Some(b':') {
            return self.problem_with(
                ParseClass::InvalidPath,
                self.here(),
                "a `:` here is neither a kind nor a default",
                "a default is written `:-text`, and ends the reference",
            );
        }
        self.no_path_but(opened, inside)
    }

    /// An expression gets the braces of one. What is none is written as it was probably meant.
    fn no_path_but<T>(&self, opened: usize, inside: &str) -> Parsed<T> {
        let class = ParseClass::InvalidPath;
        let message = "a reference is a path with filters, not an expression";
        let is_expression = || parse_expression(inside.into(), self.syntax).is_ok();
        // The hint of a longer text is left out.
        if inside.len() > MAX_MESSAGE || is_expression() {
            let spelling = format!("${{= {inside} }}");
            return self.problem_to_fix(class, self.here(), message, "write", (self.whole(opened), spelling));
        }
        let rest = self.text[self.pos..self.end].split('}').next().unwrap_or_default().trim();
        let message = "what stands in the braces is neither a path with filters nor an expression";
        let hint = match rest.strip_prefix('?') {
            Some("" | "?") => {
                let path = inside.trim_end_matches('?').trim_end();
                let spelling = (self.whole(opened), format!("${{{path}:-}}"));
                let offer = "where it may have no value, write";
                return self.problem_to_fix(class, self.here(), message, offer, spelling);
            }
            Some(rest) if rest.starts_with('.') => {
                let spelling = (self.whole(opened), format!("${{{}:-}}", inside.replace("?.", ".")));
                let offer = "where it may have no value, write";
                return self.problem_to_fix(class, self.here(), message, offer, spelling);
            }
            Some(rest) if rest.starts_with(['?', ':']) => "write `${= default(value, other) }`",
            Some(_) => "write `${= yes if condition else no }`",
            None => return self.problem(class, self.here(), message),
        };
        self.problem_with(class, self.here(), message, hint)
    }

    /// Whether a brace closes what was opened before a place.
    fn is_closed(&self, opened: usize) -> bool {
        let rest = &self.text[opened.min(self.end)..self.end];
        let mut depth = 1_usize;
        rest.bytes().any(|byte| {
            match byte {
                b'{' => depth += 1,
                b'}' => depth -= 1,
                _ => {}
            }
            depth == 0
        })
    }

    /// A reference with its braces.
    fn whole(&self, opened: usize) -> Span {
        self.span(opened.saturating_sub(2), self.after_balanced(opened))
    }

    /// The word that begins here.
    fn next_word(&self) -> &str {
        let rest = &self.text[self.pos..self.end];
        &rest[..name_len(rest)]
    }

    /// A character that is neither of a name nor an operator: the key it is meant for needs quotes.
    fn not_in_a_name<T>(&self, inside: &str, char: char) -> Parsed<T> {
        let (before, name) = inside.rsplit_once('.').unwrap_or(("", inside));
        let name = name.split(['|', '}']).next().unwrap_or(name).trim();
        let message = format!("`{}` cannot stand in a name", char.escape_debug());
        if before.is_empty() {
            return self.problem(ParseClass::InvalidPath, self.here(), message);
        }
        let hint = format!("write the key in quotes: `${{{before}[{}]}}`", crate::value::quoted(name));
        self.problem_with(ParseClass::InvalidPath, self.here(), message, hint)
    }

    pub(super) fn not_a_path<T>(&self, opened: usize) -> Parsed<T> {
        match self.peek_char() {
            None => self.unclosed(opened),
            Some('{') if self.inside(opened).ends_with('}') => {
                let inside = self.inside(opened);
                let inner = inside[1..inside.len() - 1].trim();
                self.problem_to_fix(
                    ParseClass::InvalidPath,
                    self.here(),
                    "one brace opens a reference",
                    "write",
                    (self.whole(opened), format!("${{{inner}}}")),
                )
            }
            Some('(' | '[' | '{' | '"' | '\'' | '!' | '-' | '+' | '$') => self.needs_expression(opened),
            Some(char) => self.problem_with(
                ParseClass::InvalidPath,
                self.here(),
                format!("`{}` cannot begin a name", char.escape_debug()),
                "write `$${` for the text `${`",
            ),
        }
    }

    /// The text between the braces, as far as they can be told.
    fn inside(&self, opened: usize) -> &str {
        let rest = &self.text[opened.min(self.end)..self.end];
        let mut depth = 0;
        for (at, char) in rest.char_indices() {
            match char {
                '{' => depth += 1,
                '}' if depth == 0 => return rest[..at].trim(),
                '}' => depth -= 1,
                _ => {}
            }
        }
        rest.trim()
    }
}
