//! From a place in a text back to its place in the file: escapes, doubled quotes, folded lines, indentation.
//!
//! Templates are parsed from decoded text; their diagnostics point into the file. The walk decodes the source
//! once and notes where each stretch of the decoded text begins in it, so that many places of one long text
//! cost one walk.

use crate::data::{Style, json};
use crate::diag::Span;

/// Where the byte at `offset` of a decoded text stands in the source. For a character that an escape stands
/// for, that is where the escape begins; for a line break or space that folding made, the end of the line.
/// An offset past the end gives the end of the scalar.
pub fn locate(source: &str, scalar: Span, style: Style, offset: usize) -> usize {
    ScalarPlaces::new(source, scalar, style).locate(offset)
}

/// Where each stretch of the decoded text of one scalar stands in the source.
pub struct ScalarPlaces {
    stretches: Vec<Stretch>,
    /// The length of the decoded text.
    decoded: usize,
    /// Where the scalar ends in the source.
    end: usize,
}

/// A part of the decoded text that begins at `decoded` and stands at `source`.
struct Stretch {
    decoded: usize,
    source: usize,
    /// Whether its bytes stand for themselves; otherwise all of them come from one place.
    plain: bool,
}

impl ScalarPlaces {
    /// Walks the scalar once.
    pub fn new(source: &str, scalar: Span, style: Style) -> Self {
        let (start, end) = (scalar.start as usize, scalar.end as usize);
        let Some(whole) = source.get(start..end) else {
            return Self { stretches: Vec::new(), decoded: 0, end: start };
        };
        let quote = usize::from(matches!(style, Style::Json | Style::Double | Style::Single));
        let text = whole.get(quote..whole.len().saturating_sub(quote)).unwrap_or("");
        let mut walk = ScalarWalk { text, start: start + quote, at: 0, decoded: 0, stretches: Vec::new() };
        match style {
            Style::Json => walk.flow(json_escape),
            Style::Double => walk.flow(yaml_escape),
            Style::Single => walk.flow(doubled_quote),
            Style::Plain => walk.flow(|_| None),
            Style::Literal | Style::Folded => {
                walk.block(&Block::new(&source[..start], style == Style::Folded));
            }
        }
        Self { stretches: walk.stretches, decoded: walk.decoded, end }
    }

    /// As [`locate`] says.
    pub fn locate(&self, offset: usize) -> usize {
        let after = self.stretches.partition_point(|stretch| stretch.decoded <= offset);
        match after.checked_sub(1).and_then(|at| self.stretches.get(at)) {
            Some(stretch) if offset < self.decoded => {
                stretch.source + if stretch.plain { offset - stretch.decoded } else { 0 }
            }
            _ => self.end,
        }
    }
}

struct ScalarWalk<'t> {
    text: &'t str,
    /// Where the text begins in the source.
    start: usize,
    /// Where the walk is in the text.
    at: usize,
    /// How many decoded bytes the walk has made.
    decoded: usize,
    stretches: Vec<Stretch>,
}

/// The lengths, decoded and in the source, of what stands at the start of a text for something else.
type Escape = fn(&str) -> Option<(usize, usize)>;

impl ScalarWalk<'_> {
    /// A step that makes `decoded` bytes from `source` ones.
    fn step(&mut self, decoded: usize, source: usize) {
        self.go(decoded, source, false);
    }

    /// A step over bytes that stand for themselves.
    fn plain(&mut self, len: usize) {
        self.go(len, len, true);
    }

    fn go(&mut self, decoded: usize, len: usize, plain: bool) {
        let source = self.start + self.at;
        let continues = plain
            && self
                .stretches
                .last()
                .is_some_and(|last| last.plain && source - last.source == self.decoded - last.decoded);
        if decoded > 0 && !continues {
            self.stretches.push(Stretch { decoded: self.decoded, source, plain });
        }
        self.decoded += decoded;
        self.at += len;
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or("")
    }

    /// A text whose lines are folded, with or without quotes.
    fn flow(&mut self, escape: Escape) {
        while let Some(c) = self.rest().chars().next() {
            let blank = self.rest().len() - self.rest().trim_start_matches([' ', '\t']).len();
            if line_break(&self.rest()[blank..]) > 0 {
                let (lines, len) = fold(&self.rest()[blank..]);
                self.step(lines.max(1), blank + len);
            } else if blank > 0 {
                self.plain(blank);
            } else if let Some((decoded, len)) = escape(self.rest()) {
                let continues = c == '\\' && line_break(&self.rest()[1..]) > 0;
                let (decoded, folded) = if continues { fold(&self.rest()[1..]) } else { (decoded, len - 1) };
                self.step(decoded, 1 + folded);
            } else {
                self.plain(c.len_utf8());
            }
        }
    }

    /// A block after `|` or `>`.
    fn block(&mut self, block: &Block) {
        self.step(block.blank_lines, 0);
        let mut blank = begins_blank(self.rest());
        loop {
            let line = self.rest().find(['\n', '\r']).unwrap_or(self.rest().len());
            self.plain(line);
            let (empty_lines, len) = block.to_next_line(self.rest());
            let next_blank = begins_blank(&self.rest()[len..]);
            let folded = block.folded && !blank && !next_blank;
            let made = if folded { empty_lines.max(1) } else { 1 + empty_lines };
            self.step(made, len);
            if len == 0 {
                return;
            }
            blank = next_blank;
        }
    }
}

/// What is to be known about a block before its first line.
struct Block {
    folded: bool,
    indent: usize,
    /// The empty lines between the header and the first line.
    blank_lines: usize,
}

impl Block {
    fn new(before: &str, folded: bool) -> Self {
        let content = before.trim_end_matches(' ');
        let header = content.trim_end_matches([' ', '\t', '\n', '\r']);
        let breaks = breaks(&content[header.len()..]);
        Self { folded, indent: before.len() - content.len(), blank_lines: breaks.saturating_sub(1) }
    }

    /// From the end of a line to the text of the next that has any: the empty lines, and the length.
    fn to_next_line(&self, text: &str) -> (usize, usize) {
        let mut at = line_break(text);
        let mut empty_lines = 0;
        while at < text.len() {
            let rest = &text[at..];
            let spaces = (rest.len() - rest.trim_start_matches(' ').len()).min(self.indent);
            let len = line_break(&rest[spaces..]);
            at += spaces;
            if len == 0 {
                break;
            }
            at += len;
            empty_lines += 1;
        }
        (empty_lines, at)
    }
}

fn begins_blank(text: &str) -> bool {
    text.starts_with([' ', '\t'])
}

fn breaks(mut text: &str) -> usize {
    let mut count = 0;
    while let Some(at) = text.find(['\n', '\r']) {
        text = &text[at + line_break(&text[at..])..];
        count += 1;
    }
    count
}

/// The length of the line break that a text begins with.
fn line_break(text: &str) -> usize {
    match text.as_bytes() {
        [b'\r', b'\n', ..] => 2,
        [b'\r' | b'\n', ..] => 1,
        _ => 0,
    }
}

/// A line break and the blank lines and indentation after it: how many blank lines, and the length.
fn fold(text: &str) -> (usize, usize) {
    let mut at = line_break(text);
    let mut lines = 0;
    loop {
        at += text[at..].len() - text[at..].trim_start_matches([' ', '\t']).len();
        match line_break(&text[at..]) {
            0 => return (lines, at),
            len => at += len,
        }
        lines += 1;
    }
}

fn json_escape(text: &str) -> Option<(usize, usize)> {
    text.starts_with('\\').then(|| json::escape(text, 0).ok()).flatten().map(|(c, len)| (c.len_utf8(), len))
}

fn doubled_quote(text: &str) -> Option<(usize, usize)> {
    text.starts_with("''").then_some((1, 2))
}

/// The escape that a YAML text in double quotes begins with.
pub(super) fn yaml_escape(text: &str) -> Option<(usize, usize)> {
    let escape = text.strip_prefix('\\')?;
    let digits = match escape.chars().next()? {
        'x' => 2,
        'u' => return json_escape(text),
        'U' => 8,
        '\n' | '\r' => return Some((0, 1 + line_break(escape))),
        'N' | '_' => return Some((2, 2)),
        'L' | 'P' => return Some((3, 2)),
        '0' | 'a' | 'b' | 't' | '\t' | 'n' | 'v' | 'f' | 'r' | 'e' | ' ' | '"' | '/' | '\\' => {
            return Some((1, 2));
        }
        _ => return None,
    };
    let code =
        escape.get(1..=digits).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
    let c = char::from_u32(u32::from_str_radix(code, 16).ok()?)?;
    Some((c.len_utf8(), 2 + digits))
}
