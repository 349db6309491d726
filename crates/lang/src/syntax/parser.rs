//! Templates and references: finding `${`, counting dollars, heads, filters, defaults and raw text.
//!
//! Every problem of a template is reported, not only the first: after a bad reference the parser goes on behind
//! the brace that closes it.

use ecow::EcoString;

use super::{
    IN_POOL, Name, NodeId, NodeRange, Program, ReferencePath, RootKind, StepKind, StepSort, Syntax,
    SyntaxNode, SyntaxStep, TemplatePart,
};
use crate::diag::error::{Error, ParseClass};
use crate::diag::{Fix, Span, words};
use crate::embedded::Binding;
use crate::limits::Limit;
use crate::value::LastPosition;

pub(super) type Parsed<T> = Result<T, Box<SyntaxError>>;

/// A problem found while parsing; it becomes an [`Error`] at the boundary.
pub(crate) struct SyntaxError {
    pub class: ParseClass,
    pub span: Span,
    pub message: String,
    pub hint: Option<String>,
    pub fix: Option<Fix>,
}

/// The maximum length of a message in characters: a name in it may be as long as the text.
pub(super) const MAX_MESSAGE: usize = 400;

/// How an older system begins a default.
const OLD_DEFAULT: &str = ":default=";

/// How another older system begins a default.
const OLD_FILTER: &str = "|default:";

/// How an older system says that a value is one word of a command, which every value is here.
const OLD_QUOTING: &str = ":shell}";

/// So many problems are reported of one template; the rest would not be read.
const MAX_PROBLEMS: usize = 1_000;

/// Parses text with references. A problem does not hide those behind it.
pub(crate) fn parse_template(source: EcoString, syntax: &Syntax) -> (Program, Vec<TemplatePart>, Vec<Error>) {
    let mut program = Program::default();
    if source.len() > syntax.limits.source {
        let error = Error::limit(Limit::Source, syntax.limits.source as u64, Span::new(0, 0));
        return (program, Vec::new(), vec![error]);
    }
    let first = find_dollar_brace(source.as_bytes(), 0, source.len());
    let Some(first) = first else {
        let parts =
            if source.is_empty() { Vec::new() } else { vec![TemplatePart::Lit(Span::new(0, source.len()))] };
        program.source = source;
        return (program, parts, Vec::new());
    };
    let mut parser = Parser::new(&source, &mut program, syntax);
    let mut parts = Vec::with_capacity((source.len() / 12 + 2).min(64));
    let errors = parser.template(first, &mut parts);
    program.source = source;
    (program, parts, errors)
}

/// Parses one expression.
pub(crate) fn parse_expression(
    source: EcoString,
    syntax: &Syntax,
) -> Result<(Program, NodeId), (EcoString, Error)> {
    let mut program = Program::default();
    if source.len() > syntax.limits.expression {
        let error = Error::limit(Limit::Expression, syntax.limits.expression as u64, Span::new(0, 0));
        return Err((source, error));
    }
    let mut parser = Parser::new(&source, &mut program, syntax);
    let parsed = parser.whole_expression();
    match parsed {
        Ok(root) => {
            program.source = source;
            Ok((program, root))
        }
        Err(problem) => Err((source, Error::parse(*problem))),
    }
}

/// Where the reference ends, and the way of binding that its last filter names.
type Bound = (NodeId, usize, Option<Binding>);

/// Parses the one reference whose `${` stands at `at`, in a text of another language.
pub(crate) fn parse_embedded(
    source: &EcoString,
    at: usize,
    syntax: &Syntax,
) -> (Program, Result<Bound, (Error, usize)>) {
    let mut program = Program::default();
    if source.len() > syntax.limits.source {
        let error = Error::limit(Limit::Source, syntax.limits.source as u64, Span::new(at, at));
        return (program, Err((error, source.len())));
    }
    let mut parser = Parser::unreserved(source, &mut program, syntax);
    parser.pos = at + 2;
    parser.may_bind = true;
    let parsed = parser.reference_inside(at + 2);
    let (end, binding) = (parser.pos, parser.binding);
    let result = match parsed {
        Ok(node) => Ok((node, end, binding)),
        Err(problem) => Err((Error::parse(*problem), parser.after_balanced(at + 2))),
    };
    program.source = source.clone();
    (program, result)
}

/// A position in a text or table of a program. A source has at most 64 MiB, and everything in a program at least a byte
/// of it.
#[inline]
pub(super) fn position(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// Whether there is a `${` in a text at all.
pub(crate) fn has_reference(text: &str) -> bool {
    find_dollar_brace(text.as_bytes(), 0, text.len()).is_some()
}

/// Where the next `${` of a text begins.
pub(crate) fn next_reference(text: &str, from: usize) -> Option<usize> {
    find_dollar_brace(text.as_bytes(), from, text.len())
}

/// Where the next `${` begins.
#[inline]
fn find_dollar_brace(bytes: &[u8], from: usize, end: usize) -> Option<usize> {
    let mut at = from;
    while let Some(found) = memchr::memchr(b'$', &bytes[at..end]) {
        if bytes.get(at + found + 1) == Some(&b'{') && at + found + 1 < end {
            return Some(at + found);
        }
        at += found + 1;
    }
    None
}

/// The ASCII characters of a name in a path.
static NAME_BYTES: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0u8;
    while byte < 128 {
        table[byte as usize] = byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        byte += 1;
    }
    table
};

pub(super) struct Parser<'s, 'p> {
    pub text: &'s str,
    pub pos: usize,
    /// Where the text to parse ends; an element expression ends before its quote.
    pub end: usize,
    pub program: &'p mut Program,
    pub syntax: &'p Syntax,
    pub depth: usize,
    /// Bare names are fields of the element.
    pub element: bool,
    /// Set when the text is not the program's source: every span is then this one.
    pub flat: Option<Span>,
    /// An operand behind this position makes an expression too long.
    pub limit_at: usize,
    /// The last filter of the reference may be a way of binding.
    pub may_bind: bool,
    /// The way of binding that was read.
    pub binding: Option<Binding>,
}

impl<'s, 'p> Parser<'s, 'p> {
    fn new(text: &'s str, program: &'p mut Program, syntax: &'p Syntax) -> Self {
        // One reference in about this many bytes, each with a few steps: mostly right, so nothing grows twice.
        let references = (text.len() / 24 + 1).min(32);
        program.nodes.reserve_exact(references);
        program.steps.reserve_exact(3 * references);
        Self::unreserved(text, program, syntax)
    }

    fn unreserved(text: &'s str, program: &'p mut Program, syntax: &'p Syntax) -> Self {
        Self {
            text,
            pos: 0,
            end: text.len(),
            program,
            syntax,
            depth: 0,
            element: false,
            flat: None,
            limit_at: usize::MAX,
            may_bind: false,
            binding: None,
        }
    }

    // ---- positions -------------------------------------------------------------------------------------

    #[inline]
    pub(super) fn peek(&self) -> Option<u8> {
        if self.pos < self.end { Some(self.text.as_bytes()[self.pos]) } else { None }
    }

    #[inline]
    pub(super) fn peek_at(&self, ahead: usize) -> Option<u8> {
        let at = self.pos + ahead;
        if at < self.end { Some(self.text.as_bytes()[at]) } else { None }
    }

    pub(super) fn peek_char(&self) -> Option<char> {
        self.text[self.pos..self.end].chars().next()
    }

    #[inline]
    pub(super) fn starts_with(&self, token: &str) -> bool {
        self.text.as_bytes()[self.pos..self.end].starts_with(token.as_bytes())
    }

    #[inline]
    pub(super) fn eat(&mut self, token: &str) -> bool {
        let found = self.starts_with(token);
        if found {
            self.pos += token.len();
        }
        found
    }

    #[inline]
    pub(super) fn skip_space(&mut self) {
        if let Some(b'!'..=b'~') = self.peek() {
            return;
        }
        self.skip_some_space();
    }

    fn skip_some_space(&mut self) {
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' => self.pos += 1,
                128.. => match self.peek_char() {
                    Some(char) if char.is_whitespace() => self.pos += char.len_utf8(),
                    _ => return,
                },
                _ => return,
            }
        }
    }

    #[inline]
    pub(super) fn span(&self, start: usize, end: usize) -> Span {
        self.flat.unwrap_or_else(|| Span::new(start, end))
    }

    pub(super) fn span_from(&self, start: usize) -> Span {
        self.span(start, self.pos)
    }

    /// The span of the next character, or of the end.
    pub(super) fn here(&self) -> Span {
        let width = self.peek_char().map_or(0, char::len_utf8);
        self.span(self.pos, self.pos + width)
    }

    // ---- nodes -----------------------------------------------------------------------------------------

    #[inline]
    pub(super) fn push(&mut self, node: SyntaxNode, span: Span) -> NodeId {
        let id = position(self.program.nodes.len());
        self.program.nodes.push((node, span));
        id
    }

    pub(super) fn push_list(&mut self, items: &[NodeId]) -> NodeRange {
        let start = position(self.program.lists.len());
        self.program.lists.extend_from_slice(items);
        NodeRange { start, len: position(items.len()) }
    }

    pub(super) fn push_parts(&mut self, parts: Vec<TemplatePart>) -> NodeRange {
        let start = position(self.program.parts.len());
        let len = position(parts.len());
        self.program.parts.extend(parts);
        NodeRange { start, len }
    }

    pub(super) fn steps_from(&self, start: usize) -> NodeRange {
        NodeRange { start: position(start), len: position(self.program.steps.len() - start) }
    }

    /// Counts a level of nesting for the length of `parse`.
    pub(super) fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.deeper()?;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    pub(super) fn deeper(&mut self) -> Parsed<()> {
        let max = self.syntax.limits.syntax_depth.min(128);
        if self.depth >= max {
            return Err(Box::new(SyntaxError {
                class: ParseClass::Limit(Limit::SyntaxDepth, max as u64),
                span: self.here(),
                message: String::new(),
                hint: None,
                fix: None,
            }));
        }
        self.depth += 1;
        Ok(())
    }

    // ---- problems --------------------------------------------------------------------------------------

    #[expect(clippy::unused_self, reason = "problems are raised by the parser, wherever it stands")]
    pub(super) fn problem<T>(&self, class: ParseClass, span: Span, message: impl Into<String>) -> Parsed<T> {
        Err(Box::new(SyntaxError {
            class,
            span,
            message: words::shorten(&message.into(), MAX_MESSAGE).into_owned(),
            hint: None,
            fix: None,
        }))
    }

    /// A hint that repeats a long text helps nobody and is left out.
    #[expect(clippy::unused_self, reason = "problems are raised by the parser, wherever it stands")]
    pub(super) fn problem_with<T>(
        &self,
        class: ParseClass,
        span: Span,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Parsed<T> {
        let hint = Some(hint.into()).filter(|hint| hint.len() <= MAX_MESSAGE);
        Err(Box::new(SyntaxError {
            class,
            span,
            message: words::shorten(&message.into(), MAX_MESSAGE).into_owned(),
            hint,
            fix: None,
        }))
    }

    /// A problem whose hint is one replacement: `offer` and, in backticks, what to write in place of what stands at `at`.
    pub(super) fn problem_to_fix<T>(
        &self,
        class: ParseClass,
        span: Span,
        message: impl Into<String>,
        offer: &str,
        (at, spelling): (Span, impl Into<String>),
    ) -> Parsed<T> {
        let spelling = spelling.into();
        let problem = self.problem_with(class, span, message, format!("{offer} `{spelling}`"));
        problem.map_err(|problem| {
            // Positions in a text that stands inside another one are not those of the file.
            let fix = (self.flat.is_none() && problem.hint.is_some()).then(|| Fix::new(at, spelling));
            Box::new(SyntaxError { fix, ..*problem })
        })
    }

    /// "expected X, found Y", with the next character as it is written. Operators of other languages get the word for
    /// them here.
    pub(super) fn expected<T>(&self, what: &str) -> Parsed<T> {
        let found = match self.peek_char() {
            Some('`') => "a backquote".to_owned(),
            Some(char) => format!("`{}`", char.escape_debug()),
            None if self.element || self.flat.is_some() => "the end of the text".to_owned(),
            None => "the end".to_owned(),
        };
        let message = format!("expected {what}, found {found}");
        if let Some((back, len, spelling)) = self.foreign_operator() {
            let at = self.span(self.pos - back, self.pos - back + len);
            return self.problem_to_fix(ParseClass::Syntax, self.here(), message, "write", (at, spelling));
        }
        let rest = &self.text[self.pos..self.end];
        let hint = match self.peek() {
            Some(b'?') if rest.starts_with("??") || rest.starts_with("?:") => "write `default(value, other)`",
            Some(b'?') => "write `yes if condition else no`",
            Some(b'~') => "write `matches(text, \"pattern\")`",
            _ if rest.starts_with("contains ") => "write `part in whole`",
            _ => return self.problem(ParseClass::Syntax, self.here(), message),
        };
        self.problem_with(ParseClass::Syntax, self.here(), message, hint)
    }

    /// An operator of other languages that ends or begins here: how far back it begins, its length, and ours.
    fn foreign_operator(&self) -> Option<(usize, usize, &'static str)> {
        let (before, rest) = (&self.text[..self.pos], &self.text[self.pos..self.end]);
        match self.peek()? {
            b'=' if before.ends_with("==") => Some((2, 3, "==")),
            b'=' if before.ends_with("!=") => Some((2, 3, "!=")),
            b'>' if before.ends_with('<') => Some((1, 2, "!=")),
            b'&' => Some((0, 1 + usize::from(rest.starts_with("&&")), "and")),
            _ => {
                let words = [("AND ", "and "), ("OR ", "or "), ("is not ", "!= "), ("is ", "== ")];
                let (word, ours) = words.into_iter().find(|(word, _)| rest.starts_with(word))?;
                Some((0, word.len() - 1, ours.trim_end()))
            }
        }
    }

    // ---- templates -------------------------------------------------------------------------------------

    /// The whole text from its first `${`, every problem reported.
    fn template(&mut self, first: usize, parts: &mut Vec<TemplatePart>) -> Vec<Error> {
        let mut errors = Vec::new();
        let mut literal = 0;
        let mut next = Some(first);
        while let Some(at) = next {
            if errors.len() >= MAX_PROBLEMS {
                break;
            }
            self.pos = at;
            if let Some(start) = self.dollars(&mut literal, parts) {
                let parsed = self.reference();
                match parsed {
                    Ok(node) => parts.push(TemplatePart::Ref(node, Span::new(start, self.pos))),
                    Err(problem) => {
                        self.pos = self.after_balanced(start + 2);
                        self.depth = 0;
                        errors.push(Error::parse(*problem));
                    }
                }
                literal = self.pos;
            }
            next = find_dollar_brace(self.text.as_bytes(), self.pos, self.end);
        }
        if literal < self.end {
            parts.push(TemplatePart::Lit(Span::new(literal, self.end)));
        }
        errors
    }

    /// At the last dollar before a `{`: emits the text before it, with half of the dollars. An odd dollar starts a
    /// reference: its position is returned and the parser stands behind the brace.
    fn dollars(&mut self, literal: &mut usize, parts: &mut Vec<TemplatePart>) -> Option<usize> {
        let at = self.pos;
        let bytes = self.text.as_bytes();
        let mut first = at;
        while first > *literal && bytes[first - 1] == b'$' {
            first -= 1;
        }
        let count = at - first + 1;
        let text_end = first + count / 2;
        if text_end > *literal {
            parts.push(self.literal(*literal, text_end));
        }
        if count % 2 == 1 {
            self.pos = at + 2;
            return Some(at);
        }
        *literal = at + 1;
        self.pos = at + 2;
        None
    }

    fn literal(&self, start: usize, end: usize) -> TemplatePart {
        match self.flat {
            None => TemplatePart::Lit(Span::new(start, end)),
            Some(_) => TemplatePart::Owned(self.text[start..end].into()),
        }
    }

    /// The position behind the brace that closes a reference whose inside begins at `from`, as well as it can be
    /// told in broken text.
    pub(super) fn after_balanced(&self, from: usize) -> usize {
        let mut depth = 1;
        for (at, byte) in self.text.as_bytes()[from..self.end].iter().enumerate() {
            match byte {
                b'{' => depth += 1,
                b'}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return from + at + 1;
            }
        }
        self.end
    }

    /// Text up to the brace that closes the reference around it; references inside parse themselves. The parser
    /// is left on that brace.
    pub(super) fn raw(&mut self, opened: usize, kind: Option<&str>) -> Parsed<Vec<TemplatePart>> {
        let mut parts = Vec::new();
        let mut literal = self.pos;
        let mut depth = 0usize;
        loop {
            match self.peek() {
                None => return self.unclosed(opened),
                Some(b'}') if depth == 0 => break,
                Some(b'}') => depth -= 1,
                Some(b'{') => depth += 1,
                Some(b'|') if kind.is_some_and(|kind| kind != "cmd") => {
                    return self.pipe_in_raw(opened, kind.unwrap_or_default());
                }
                Some(b'$') if kind == Some("cmd") && self.is_the_shells() => {
                    depth += 1;
                    self.pos += 2;
                    continue;
                }
                Some(b'$') if self.peek_at(1) == Some(b'{') => {
                    if let Some(start) = self.dollars(&mut literal, &mut parts) {
                        let node = self.nested(Self::reference)?;
                        parts.push(TemplatePart::Ref(node, self.span_from(start)));
                        literal = self.pos;
                    } else {
                        // The brace behind an escaped dollar is text, and balances like any other.
                        depth += 1;
                    }
                    continue;
                }
                Some(_) => {}
            }
            self.pos += 1;
        }
        if self.pos > literal {
            parts.push(self.literal(literal, self.pos));
        }
        Ok(parts)
    }

    /// Whether a `${` of a command is the shell's own: an upper-case name, a parameter, or an operator follows.
    fn is_the_shells(&self) -> bool {
        let Some(rest) = self.text[self.pos..self.end].strip_prefix("${") else { return false };
        if self.text[..self.pos].ends_with('$') {
            return false;
        }
        let name = rest.split(|char: char| !char.is_ascii_alphanumeric() && char != '_').next().unwrap_or("");
        match rest.bytes().next() {
            Some(b'#' | b'!' | b'?' | b'*' | b'@' | b'$') => true,
            _ => !name.is_empty() && !name.bytes().any(|byte| byte.is_ascii_lowercase()),
        }
    }

    fn pipe_in_raw<T>(&self, opened: usize, kind: &str) -> Parsed<T> {
        let span = self.span(self.pos, self.pos + 1);
        let raw = self.text[opened..self.pos].split_once(':').map_or("", |(_, raw)| raw.trim());
        let rest = self.text[self.pos + 1..self.after_balanced(self.pos + 1)].trim_end_matches('}').trim();
        self.problem_with(
            ParseClass::Syntax,
            span,
            format!("`|` in the text of `{kind}:`"),
            format!(
                "to filter the result write `${{{kind}({}) | {rest}}}`, for the character `${{{kind}({})}}`",
                crate::value::quoted(raw),
                crate::value::quoted(&format!("{raw}|{rest}"))
            ),
        )
    }

    pub(super) fn unclosed<T>(&self, opened: usize) -> Parsed<T> {
        let start = opened.saturating_sub(2);
        self.problem_with(
            ParseClass::Unclosed,
            self.span(start, opened),
            "this `${` is never closed",
            "close it with `}`, or write `$${` for the text `${`",
        )
    }

    // ---- references ------------------------------------------------------------------------------------

    /// A reference, from behind its `${` to behind its `}`.
    pub(super) fn reference(&mut self) -> Parsed<NodeId> {
        let opened = self.pos;
        let element = std::mem::replace(&mut self.element, false);
        let may_bind = std::mem::replace(&mut self.may_bind, false);
        let parsed = self.reference_inside(opened);
        self.element = element;
        self.may_bind = may_bind;
        parsed
    }

    pub(super) fn reference_inside(&mut self, opened: usize) -> Parsed<NodeId> {
        self.skip_space();
        if self.peek() == Some(b'=') {
            self.pos += 1;
            return self.expression_reference(opened);
        }
        if self.peek() == Some(b'}') {
            return self.problem_with(
                ParseClass::InvalidPath,
                self.span(opened - 2, self.pos + 1),
                "a reference without a name",
                "name what it refers to, or write `$${` for the text `${`",
            );
        }
        let start = self.pos;
        let name = self.path_name();
        if name.is_empty() {
            return self.not_a_path(opened);
        }
        let node = match self.peek() {
            Some(b':') if self.peek_at(1) != Some(b'-') && !self.is_old_tail(name) => {
                return self.kind_reference(opened, start, name);
            }
            Some(b'(') => self.limited(opened, |parser| parser.named_call(start, name))?,
            _ => self.reference_path(opened, start, name)?,
        };
        self.reference_tail(opened, start, node)
    }

    fn expression_reference(&mut self, opened: usize) -> Parsed<NodeId> {
        self.limited(opened, |parser| {
            let node = parser.nested(Self::expression)?;
            parser.skip_space();
            if let Some(binding) = parser.binding_ahead() {
                parser.take_binding(binding);
            }
            match parser.peek() {
                Some(b'}') => {
                    parser.pos += 1;
                    Ok(node)
                }
                None => parser.unclosed(opened),
                Some(_) => parser.expected("an operator or `}`"),
            }
        })
    }

    /// Parses what may hold an expression, and goes no further than an expression may be long.
    fn limited<T>(&mut self, opened: usize, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        let last = opened + self.syntax.limits.expression;
        if self.limit_at != usize::MAX || last >= self.end {
            return parse(self);
        }
        self.limit_at = last;
        let parsed = parse(self);
        self.limit_at = usize::MAX;
        if parsed.is_ok() && self.pos > last + 1 {
            return self.too_long();
        }
        parsed
    }

    pub(super) fn too_long<T>(&self) -> Parsed<T> {
        let max = self.syntax.limits.expression as u64;
        self.problem(ParseClass::Limit(Limit::Expression, max), self.here(), "")
    }

    /// Filters, a default, and the closing brace.
    fn reference_tail(&mut self, opened: usize, start: usize, mut node: NodeId) -> Parsed<NodeId> {
        let depth = self.depth;
        loop {
            self.skip_space();
            match self.peek() {
                Some(b'}') => {
                    self.pos += 1;
                    self.depth = depth;
                    return Ok(node);
                }
                Some(b'|') if self.is_ahead(OLD_FILTER) && self.peek_at(OLD_FILTER.len()) != Some(b' ') => {
                    self.take_old(OLD_FILTER, ":-");
                    node = self.default_text(opened, start, node)?;
                }
                Some(b'|') if self.peek_at(1) != Some(b'|') => {
                    if let Some(binding) = self.binding_ahead() {
                        self.take_binding(binding);
                        continue;
                    }
                    self.pos += 1;
                    self.deeper()?;
                    node = self.limited(opened, |parser| parser.filter(start, node))?;
                }
                Some(b':') if self.peek_at(1) == Some(b'-') => {
                    self.pos += 2;
                    node = self.default_text(opened, start, node)?;
                }
                Some(b':') if self.is_ahead(OLD_DEFAULT) => {
                    self.take_old(OLD_DEFAULT, ":-");
                    node = self.default_text(opened, start, node)?;
                }
                Some(b':') if self.is_ahead(OLD_QUOTING) => self.take_old(":shell", ""),
                Some(b'?') if self.is_ahead("?}") => {
                    self.take_old("?", ":-");
                    let parts = self.push_parts(Vec::new());
                    let span = self.span_from(start);
                    node = self.push(SyntaxNode::OrText(node, parts), span);
                }
                None => return self.unclosed(opened),
                Some(_) => return self.needs_expression(opened),
            }
        }
    }

    /// Behind `:-`: the text that stands ready, up to the closing brace.
    fn default_text(&mut self, opened: usize, start: usize, node: NodeId) -> Parsed<NodeId> {
        let parts = self.raw(opened, None)?;
        let parts = self.push_parts(parts);
        let span = self.span_from(start);
        Ok(self.push(SyntaxNode::OrText(node, parts), span))
    }

    fn is_ahead(&self, text: &str) -> bool {
        self.text[self.pos..self.end].starts_with(text)
    }

    /// Whether what an older system writes behind a path stands behind a name that is no kind.
    fn is_old_tail(&self, name: &str) -> bool {
        !self.syntax.is_kind(name) && (self.is_ahead(OLD_DEFAULT) || self.is_ahead(OLD_QUOTING))
    }

    /// Goes behind the spelling of an older system, and notes what stands for it today.
    fn take_old(&mut self, old: &str, new: &str) {
        let at = self.pos;
        self.pos += old.len();
        let fix = Fix::new(self.span_from(at), new);
        self.program.old_spellings.push(fix);
    }

    /// At `|`: the way of binding that stands behind it as the last filter, where one may.
    pub(super) fn binding_ahead(&self) -> Option<Binding> {
        if !self.may_bind || self.element {
            return None;
        }
        let rest = self.text.get(self.pos..self.end)?.strip_prefix('|')?.trim_start();
        let end = rest.find(|char: char| char != '_' && !char.is_ascii_lowercase())?;
        rest[end..].trim_start().starts_with('}').then(|| Binding::of(&rest[..end]))?
    }

    /// At `|` before a way of binding: takes it, and leaves the brace behind it.
    fn take_binding(&mut self, binding: Binding) {
        self.binding = Some(binding);
        while self.peek().is_some_and(|byte| byte != b'}') {
            self.pos += 1;
        }
    }

    /// The path of a reference; names may hold `-`, white space may not stand in it.
    fn reference_path(&mut self, opened: usize, start: usize, name: &str) -> Parsed<NodeId> {
        if matches!(name, "true" | "false" | "null" | "True" | "False" | "None")
            && self.peek_char().is_some_and(|char| char.is_whitespace() || matches!(char, '}' | '|'))
        {
            return self.problem_with(
                ParseClass::InvalidPath,
                self.span_from(start),
                format!("`{name}` is a value, not a name"),
                format!("write `${{= {name} }}`"),
            );
        }
        if name.bytes().all(|byte| byte.is_ascii_digit()) {
            return self.problem_with(
                ParseClass::InvalidPath,
                self.span_from(start),
                format!("`{name}` is a number, not a name"),
                format!("write `${{= {name} }}`"),
            );
        }
        let first_step = self.program.steps.len();
        loop {
            match self.peek() {
                Some(b'.') => self.dotted_step()?,
                Some(b'[') => self.bracket_step(opened)?,
                _ => break,
            }
        }
        let span = self.span_from(start);
        self.push_path(name, start, first_step, span)
    }

    pub(super) fn path(&self, root: Name, kind: RootKind, first_step: usize) -> ReferencePath {
        ReferencePath { root, last: LastPosition::default(), kind, steps: self.steps_from(first_step) }
    }

    /// A name that stands in the text at `start`.
    #[inline]
    pub(super) fn source_name(&mut self, name: &str, start: usize) -> Name {
        if self.flat.is_some() {
            return self.pooled_name(name);
        }
        Name { hash: crate::value::hash(name), start: position(start), len: position(name.len()) }
    }

    /// A name that does not stand in the source as it is.
    pub(super) fn pooled_name(&mut self, name: &str) -> Name {
        let start = position(self.program.pool.len()) | IN_POOL;
        self.program.pool.push_str(name);
        Name { hash: crate::value::hash(name), start, len: position(name.len()) }
    }

    /// A path whose name stands at `start` and whose steps are those from `first_step` on.
    #[inline]
    pub(super) fn push_path(
        &mut self,
        name: &str,
        start: usize,
        first_step: usize,
        span: Span,
    ) -> Parsed<NodeId> {
        let kind = RootKind::of(name);
        if kind != RootKind::Named {
            self.check_literal_first(name, kind, first_step, span)?;
        }
        let root = self.source_name(name, start);
        let steps = self.steps_from(first_step);
        let id = position(self.program.nodes.len());
        let path = ReferencePath { root, last: LastPosition::default(), kind, steps };
        self.program.nodes.push((SyntaxNode::Path(path), span));
        Ok(id)
    }

    /// `env` and `nodes` are tables of names: the first step names an entry.
    fn check_literal_first(&self, root: &str, kind: RootKind, first_step: usize, span: Span) -> Parsed<()> {
        match (kind, self.program.steps.get(first_step).map(SyntaxStep::kind)) {
            (RootKind::Env | RootKind::Nodes, None) => self.problem_with(
                ParseClass::InvalidPath,
                span,
                format!("`{root}` alone is not a value"),
                if root == "env" {
                    "name the variable: `env.HOME`"
                } else {
                    "name the node: `nodes[\"id\"]`"
                },
            ),
            (RootKind::Env | RootKind::Nodes, Some(StepKind::Index(_))) => self.problem_with(
                ParseClass::InvalidPath,
                span,
                format!("`{root}` has names, not positions"),
                format!("write `{root}[\"0\"]` for a name made of digits"),
            ),
            _ => Ok(()),
        }
    }

    fn dotted_step(&mut self) -> Parsed<()> {
        let start = self.pos;
        self.pos += 1;
        let name = self.path_name();
        if name.is_empty() {
            return match self.peek() {
                Some(b'.') => self.problem(
                    ParseClass::InvalidPath,
                    self.span(start, self.pos + 1),
                    "two dots in a row: a name is missing between them",
                ),
                Some(b'}' | b' ' | b'|' | b':') | None => self.problem(
                    ParseClass::InvalidPath,
                    self.span(start, self.pos),
                    "a name is missing after the dot",
                ),
                _ => self.expected_in_path(),
            };
        }
        let sort = if name.as_bytes()[0].is_ascii_digit() && name.bytes().all(|byte| byte.is_ascii_digit()) {
            self.index_of(name, start + 1)?;
            StepSort::Digits
        } else {
            StepSort::Name
        };
        let (name, span) = (self.source_name(name, start + 1), self.span_from(start + 1));
        self.program.steps.push(SyntaxStep::new(sort, name, span));
        Ok(())
    }

    fn expected_in_path<T>(&self) -> Parsed<T> {
        let found = self.peek_char().map_or(String::new(), |char| char.escape_debug().to_string());
        self.problem_with(
            ParseClass::InvalidPath,
            self.here(),
            format!("`{found}` cannot begin a name"),
            "a key with other characters is written `[\"any key\"]`",
        )
    }

    pub(super) fn index_of(&self, digits: &str, start: usize) -> Parsed<i64> {
        digits.parse().or_else(|_| {
            self.problem(
                ParseClass::InvalidPath,
                self.span(start, start + digits.len()),
                "an index this large has no element",
            )
        })
    }

    /// `[0]`, `[-1]` or `["any key"]`; anything else needs an expression.
    fn bracket_step(&mut self, opened: usize) -> Parsed<()> {
        match self.try_literal_step()? {
            Some(()) => Ok(()),
            None if self.peek_at(1) == Some(b']') => self.problem(
                ParseClass::InvalidPath,
                self.span(self.pos, self.pos + 2),
                "an index is missing between the brackets",
            ),
            None => self.needs_expression(opened),
        }
    }

    /// At `[`: takes a literal index or key with its `]`, or leaves everything where it is.
    pub(super) fn try_literal_step(&mut self) -> Parsed<Option<()>> {
        let start = self.pos;
        let step = match self.peek_at(1) {
            Some(b'0'..=b'9' | b'-') => {
                let digits_at = start + 1 + usize::from(self.peek_at(1) == Some(b'-'));
                let digits = self.text[digits_at..self.end].bytes().take_while(u8::is_ascii_digit).count();
                let close = digits_at + digits;
                if digits == 0 || close >= self.end || self.text.as_bytes()[close] != b']' {
                    return Ok(None);
                }
                self.pos = close + 1;
                let index = self.index_of(&self.text[start + 1..close], start + 1)?;
                SyntaxStep::index(index, self.span_from(start))
            }
            Some(b'"' | b'\'') => {
                self.pos += 1;
                let key = self.key_literal()?;
                if self.peek() != Some(b']') {
                    self.pos = start;
                    return Ok(None);
                }
                self.pos += 1;
                SyntaxStep::new(StepSort::Quoted, self.pooled_name(&key), self.span_from(start))
            }
            _ => return Ok(None),
        };
        self.program.steps.push(step);
        Ok(Some(()))
    }

    /// Characters of a name in a path; empty when there is none, or when it begins with `-`.
    #[inline]
    pub(super) fn path_name(&mut self) -> &'s str {
        let start = self.pos;
        if self.peek() == Some(b'-') {
            return "";
        }
        loop {
            let bytes = &self.text.as_bytes()[..self.end];
            while self.pos < bytes.len() && NAME_BYTES[usize::from(bytes[self.pos])] {
                self.pos += 1;
            }
            if self.peek().is_none_or(|byte| byte.is_ascii()) {
                return &self.text[start..self.pos];
            }
            match self.peek_char() {
                Some(char) if unicode_ident::is_xid_continue(char) => self.pos += char.len_utf8(),
                _ => return &self.text[start..self.pos],
            }
        }
    }
}
