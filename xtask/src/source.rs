//! Rust text, split into code, comments and literals: enough to tell them apart, not a parser.

use std::ops::Range;

/// A file with the places of its comments and literals.
pub(crate) struct SourceText<'a> {
    text: &'a str,
    comments: Vec<Range<usize>>,
    literals: Vec<Range<usize>>,
}

impl<'a> SourceText<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let mut splitter = Splitter { text, position: 0, comments: Vec::new(), literals: Vec::new() };
        splitter.split();
        Self { text, comments: splitter.comments, literals: splitter.literals }
    }

    /// The text with blanks for comments and literals. Offsets and line breaks are those of the file.
    pub(crate) fn code(&self) -> String {
        blank(&self.without_comments(), &self.literals)
    }

    /// The text with blanks for comments.
    pub(crate) fn without_comments(&self) -> String {
        blank(self.text, &self.comments)
    }

    /// The text with blanks for literals.
    pub(crate) fn code_and_comments(&self) -> String {
        blank(self.text, &self.literals)
    }

    /// The literals of strings and characters: where they begin, and their text without quotes.
    pub(crate) fn literals(&self) -> impl Iterator<Item = (usize, &'a str)> {
        let text = self.text;
        self.literals.iter().map(move |range| {
            let literal = text[range.clone()].trim_start_matches(['b', 'c', 'r', '#']);
            let literal = literal.trim_end_matches('#');
            let end = literal.len().saturating_sub(1).max(1);
            (range.start, literal.get(1..end).unwrap_or_default())
        })
    }

    /// The number of the line of an offset.
    pub(crate) fn line(&self, offset: usize) -> usize {
        self.text[..offset].matches('\n').count() + 1
    }
}

fn blank(text: &str, ranges: &[Range<usize>]) -> String {
    let mut blanked = String::with_capacity(text.len());
    let mut position = 0;
    for range in ranges {
        blanked.push_str(&text[position..range.start]);
        let bytes = text[range.clone()].bytes();
        blanked.extend(bytes.map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
        position = range.end;
    }
    blanked.push_str(&text[position..]);
    blanked
}

struct Splitter<'a> {
    text: &'a str,
    position: usize,
    comments: Vec<Range<usize>>,
    literals: Vec<Range<usize>>,
}

impl<'a> Splitter<'a> {
    fn split(&mut self) {
        while let Some(next) = self.rest().chars().next() {
            let before_word = self.position;
            let word = self.word();
            let start = self.position;
            let literal_start = match word {
                "b" | "c" | "r" | "br" | "cr" => before_word,
                _ => start,
            };
            if self.comment() {
                self.comments.push(start..self.position);
            } else if self.raw_string(word) || self.string() || self.character() {
                self.literals.push(literal_start..self.position);
            } else if word.is_empty() {
                self.position += next.len_utf8();
            }
        }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.position..]
    }

    /// Goes on by so many bytes, to the end for `None`.
    fn skip(&mut self, bytes: Option<usize>) {
        self.position += bytes.unwrap_or(self.rest().len());
    }

    /// Takes a name, number or keyword, so that an `r` at its end begins no raw string.
    fn word(&mut self) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|character: char| !character.is_alphanumeric() && character != '_');
        self.skip(end);
        &rest[..end.unwrap_or(rest.len())]
    }

    /// Takes a comment, if there is one.
    fn comment(&mut self) -> bool {
        let rest = self.rest();
        if rest.starts_with("//") {
            self.skip(rest.find('\n'));
        } else if rest.starts_with("/*") {
            self.block_comment();
        }
        self.rest().len() < rest.len()
    }

    /// Reads a block comment, in which others may stand.
    fn block_comment(&mut self) {
        let mut depth = 0;
        loop {
            let rest = self.rest();
            if rest.starts_with("/*") {
                depth += 1;
                self.skip(Some(2));
            } else if rest.starts_with("*/") {
                depth -= 1;
                self.skip(Some(2));
            } else {
                self.skip(rest.chars().next().map(char::len_utf8));
            }
            if depth == 0 || self.rest().is_empty() {
                return;
            }
        }
    }

    /// Takes what follows the prefix of a raw string, but no raw name.
    fn raw_string(&mut self, prefix: &str) -> bool {
        let rest = self.rest();
        let quoted = rest.trim_start_matches('#');
        if !matches!(prefix, "r" | "br" | "cr") || !quoted.starts_with('"') {
            return false;
        }
        let hashes = rest.len() - quoted.len();
        let end = format!("\"{}", "#".repeat(hashes));
        let body = &quoted[1..];
        self.skip(body.find(&end).map(|at| hashes + 1 + at + end.len()));
        true
    }

    fn string(&mut self) -> bool {
        let found = self.rest().starts_with('"');
        if found {
            self.quoted('"');
        }
        found
    }

    /// Takes a quoted text with its escapes.
    fn quoted(&mut self, quote: char) {
        let mut escaped = false;
        let end = self.rest().char_indices().skip(1).find(|&(_, character)| {
            let ends = character == quote && !escaped;
            escaped = character == '\\' && !escaped;
            ends
        });
        self.skip(end.map(|(at, _)| at + 1));
    }

    /// Takes a character, but no lifetime.
    fn character(&mut self) -> bool {
        let mut characters = self.rest().chars();
        let open = characters.next() == Some('\'');
        let is_character = open
            && match characters.next() {
                Some('\\') => true,
                _ => characters.next() == Some('\''),
            };
        if is_character {
            self.quoted('\'');
        }
        is_character
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, code: &str, literals: &[&str]) {
        let source = SourceText::new(text);
        assert_eq!(source.code(), code);
        let found: Vec<&str> = source.literals().map(|(_, literal)| literal).collect();
        assert_eq!(found, literals);
    }

    #[test]
    fn comments_are_blank() {
        check("a // b\nc", "a     \nc", &[]);
        check("a /* b /* c */ d */ e", "a                   e", &[]);
        check("a /* \n", "a    \n", &[]);
    }

    #[test]
    fn strings_are_literals() {
        check(r#"f("a\"b", c)"#, "f(      , c)", &[r#"a\"b"#]);
        check(r##"f(r#"a"b"#)"##, "f(        )", &[r#"a"b"#]);
        check(r#"f(b"a", "// no")"#, "f(    ,        )", &["a", "// no"]);
        check("var // r", "var     ", &[]);
        check("x//\"", "x   ", &[]);
    }

    #[test]
    fn characters_are_not_lifetimes() {
        check("x::<'a>('b', '\\'', b'\"')", "x::<'a>(   ,     ,     )", &["b", "\\'", "\""]);
        check("&'static str", "&'static str", &[]);
        check("r#type 'é'", "r#type     ", &["é"]);
    }

    #[test]
    fn lines_are_counted_from_one() {
        let source = SourceText::new("a\nb\nc");
        assert_eq!([source.line(0), source.line(2), source.line(4)], [1, 2, 3]);
    }
}
