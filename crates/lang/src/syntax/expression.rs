//! Expressions: precedence, postfix, literals, text with templates in it, and element expressions.

use std::sync::Arc;

use super::parser::{Parsed, Parser, position};
use super::{NodeId, NodeRange, StepSort, SyntaxNode, SyntaxStep};
use crate::diag::Span;
use crate::diag::error::ParseClass;
use crate::func::{Function, ParamKind};
use crate::value::{Key, KeyTable, Number, NumberError, Value, ops::BinaryOp};

/// Words that are not names in an expression.
const KEYWORDS: [&str; 12] =
    ["and", "or", "not", "in", "if", "else", "true", "false", "null", "True", "False", "None"];

/// A bracket of a postfix: an index or a slice.
enum Bracket {
    Index(NodeId),
    Slice(Option<NodeId>, Option<NodeId>),
}

impl<'s> Parser<'s, '_> {
    /// The whole text as one expression.
    pub(super) fn whole_expression(&mut self) -> Parsed<NodeId> {
        self.skip_space();
        if self.pos == self.end {
            return self.problem(ParseClass::Syntax, self.span(0, self.end), "the expression is empty");
        }
        let node = self.expression()?;
        self.skip_space();
        if self.pos < self.end {
            return self.trailing();
        }
        Ok(node)
    }

    fn trailing<T>(&self) -> Parsed<T> {
        match self.peek() {
            Some(b'=') if self.peek_at(1) == Some(b'~') => self.problem_with(
                ParseClass::Syntax,
                self.span(self.pos, self.pos + 2),
                "`=~` does not compare",
                "write `matches(text, \"pattern\")`",
            ),
            Some(b'=') => {
                let (len, meant) = match self.peek_at(1) {
                    Some(b'>') => (2, ">="),
                    Some(b'<') => (2, "<="),
                    Some(b'!') => (2, "!="),
                    _ => (1, "=="),
                };
                let span = self.span(self.pos, self.pos + len);
                let message = format!("`{}` does not compare", &self.text[self.pos..self.pos + len]);
                self.problem_to_fix(ParseClass::Syntax, span, message, "write", (span, meant))
            }
            Some(b'#') => self.problem(ParseClass::Syntax, self.here(), "expressions have no comments"),
            Some(b')' | b']' | b'}') => self.expected("the end of the expression"),
            _ => self.expected("an operator"),
        }
    }

    /// `a if c else b`, the loosest of all.
    pub(super) fn expression(&mut self) -> Parsed<NodeId> {
        let start = self.start();
        let yes = self.or()?;
        if !self.eat_word("if") {
            return Ok(yes);
        }
        let condition = self.or()?;
        if !self.eat_word("else") {
            self.skip_space();
            return self.expected("`else`");
        }
        let no = self.nested(Self::expression)?;
        let span = self.span_from(start);
        Ok(self.push(SyntaxNode::If { condition, yes, no }, span))
    }

    fn or(&mut self) -> Parsed<NodeId> {
        self.joined(Self::and, "or", "||", SyntaxNode::Or)
    }

    fn and(&mut self) -> Parsed<NodeId> {
        self.joined(Self::not, "and", "&&", SyntaxNode::And)
    }

    /// Operands joined by one word or its symbol.
    fn joined(
        &mut self,
        operand: fn(&mut Self) -> Parsed<NodeId>,
        word: &str,
        symbol: &str,
        node: fn(NodeRange) -> SyntaxNode,
    ) -> Parsed<NodeId> {
        let start = self.start();
        let first = operand(self)?;
        if !self.eat_operator(word, symbol) {
            return Ok(first);
        }
        // Room for a few more, so that most lists of operands are made once.
        let mut operands = Vec::with_capacity(4);
        operands.push(first);
        operands.push(operand(self)?);
        while self.eat_operator(word, symbol) {
            operands.push(operand(self)?);
        }
        let run = self.push_list(&operands);
        let span = self.span_from(start);
        Ok(self.push(node(run), span))
    }

    fn not(&mut self) -> Parsed<NodeId> {
        let start = self.start();
        let symbol = self.peek() == Some(b'!') && self.peek_at(1) != Some(b'=');
        if symbol {
            self.pos += 1;
        } else if !self.eat_word("not") {
            return self.comparison();
        }
        let operand = self.nested(Self::not)?;
        let span = self.span_from(start);
        Ok(self.push(SyntaxNode::Not(operand), span))
    }

    /// Comparisons chain; `in` does not.
    fn comparison(&mut self) -> Parsed<NodeId> {
        let start = self.start();
        let mut left = self.sum()?;
        if let Some(op) = self.membership() {
            let right = self.sum()?;
            let span = self.span_from(start);
            let node = self.push(SyntaxNode::Binary(op, left, right), span);
            return if self.comparison_follows() { self.membership_chain() } else { Ok(node) };
        }
        let Some(op) = self.relation() else { return Ok(left) };
        let mut link_start = self.start();
        let right = self.sum()?;
        let span = self.span_from(start);
        let first = self.push(SyntaxNode::Binary(op, left, right), span);
        left = right;
        let mut links = Vec::new();
        while let Some(op) = self.relation() {
            let right_start = self.start();
            let right = self.sum()?;
            let span = self.span_from(link_start);
            links.push(self.push(SyntaxNode::Binary(op, left, right), span));
            (left, link_start) = (right, right_start);
        }
        if self.membership_follows() {
            return self.membership_chain();
        }
        if links.is_empty() {
            return Ok(first);
        }
        links.insert(0, first);
        let run = self.push_list(&links);
        let span = self.span_from(start);
        Ok(self.push(SyntaxNode::Chain(run), span))
    }

    fn membership_chain<T>(&mut self) -> Parsed<T> {
        self.skip_space();
        self.problem_with(
            ParseClass::Syntax,
            self.here(),
            "`in` does not chain with another comparison",
            "put one of them in parentheses, or join them with `and`",
        )
    }

    fn membership_follows(&mut self) -> bool {
        let (pos, found) = (self.pos, self.membership().is_some());
        self.pos = pos;
        found
    }

    fn comparison_follows(&mut self) -> bool {
        let pos = self.pos;
        let found = self.membership().is_some() || self.relation().is_some();
        self.pos = pos;
        found
    }

    fn membership(&mut self) -> Option<BinaryOp> {
        let pos = self.pos;
        if self.eat_word("in") {
            return Some(BinaryOp::In);
        }
        if self.eat_word("not") && self.eat_word("in") {
            return Some(BinaryOp::NotIn);
        }
        self.pos = pos;
        None
    }

    fn relation(&mut self) -> Option<BinaryOp> {
        let end = self.pos;
        self.skip_space();
        let found = self.relation_here();
        self.pos = found.map_or(end, |(_, len)| self.pos + len);
        found.map(|(op, _)| op)
    }

    fn relation_here(&self) -> Option<(BinaryOp, usize)> {
        Some(match (self.peek()?, self.peek_at(1)) {
            (b'=', Some(b'=')) => (BinaryOp::Eq, 2),
            (b'!', Some(b'=')) => (BinaryOp::Ne, 2),
            (b'<', Some(b'=')) => (BinaryOp::Le, 2),
            (b'>', Some(b'=')) => (BinaryOp::Ge, 2),
            (b'<', _) => (BinaryOp::Lt, 1),
            (b'>', _) => (BinaryOp::Gt, 1),
            _ => return None,
        })
    }

    fn sum(&mut self) -> Parsed<NodeId> {
        self.terms(Self::term, |parser| match parser.peek()? {
            b'+' => Some((BinaryOp::Add, 1)),
            b'-' => Some((BinaryOp::Sub, 1)),
            _ => None,
        })
    }

    fn term(&mut self) -> Parsed<NodeId> {
        self.terms(Self::unary, |parser| match (parser.peek()?, parser.peek_at(1)) {
            (b'*', Some(b'*')) => None,
            (b'*', _) => Some((BinaryOp::Mul, 1)),
            (b'/', Some(b'/')) => Some((BinaryOp::FloorDiv, 2)),
            (b'/', _) => Some((BinaryOp::Div, 1)),
            (b'%', _) => Some((BinaryOp::Rem, 1)),
            _ => None,
        })
    }

    /// Operands and operators of one precedence, from the left, however many: a flat node, so that a long sum is
    /// not a deep tree.
    fn terms(
        &mut self,
        operand: fn(&mut Self) -> Parsed<NodeId>,
        operator: fn(&Self) -> Option<(BinaryOp, usize)>,
    ) -> Parsed<NodeId> {
        let start = self.start();
        let first = operand(self)?;
        let mut rest = Vec::new();
        loop {
            let end = self.pos;
            self.skip_space();
            let Some((op, len)) = operator(self) else {
                self.pos = end;
                break;
            };
            self.pos += len;
            self.skip_space();
            rest.push((op, operand(self)?));
        }
        if rest.is_empty() {
            return Ok(first);
        }
        let span = self.span_from(start);
        Ok(if let [(op, right)] = rest[..] {
            self.push(SyntaxNode::Binary(op, first, right), span)
        } else {
            let run = NodeRange { start: position(self.program.terms.len()), len: position(rest.len()) };
            self.program.terms.extend(rest);
            self.push(SyntaxNode::Terms(first, run), span)
        })
    }

    fn unary(&mut self) -> Parsed<NodeId> {
        let start = self.start();
        if self.peek() == Some(b'+') {
            return self.problem(ParseClass::Syntax, self.here(), "`+` needs a value before it");
        }
        if self.peek() != Some(b'-') {
            return self.power();
        }
        self.pos += 1;
        let glued = self.peek().is_some_and(|byte| byte.is_ascii_digit());
        let operand = self.nested(Self::unary)?;
        let span = self.span_from(start);
        if let SyntaxNode::Const(value) = self.program.node(operand)
            && let Some(Ok(negated)) = value.as_number().map(Number::neg)
            && glued
        {
            return Ok(self.push(SyntaxNode::Const(Value::from(negated)), span));
        }
        Ok(self.push(SyntaxNode::Neg(operand), span))
    }

    fn power(&mut self) -> Parsed<NodeId> {
        let start = self.start();
        let base = self.pipe()?;
        let end = self.pos;
        self.skip_space();
        if !self.eat("**") {
            self.pos = end;
            return Ok(base);
        }
        self.skip_space();
        let exponent = self.nested(Self::unary)?;
        let span = self.span_from(start);
        Ok(self.push(SyntaxNode::Binary(BinaryOp::Pow, base, exponent), span))
    }

    /// Filters bind to the nearest postfix.
    fn pipe(&mut self) -> Parsed<NodeId> {
        let start = self.start();
        let depth = self.depth;
        let mut node = self.postfix(start)?;
        loop {
            let end = self.pos;
            self.skip_space();
            let filters = self.peek() == Some(b'|') && self.peek_at(1) != Some(b'|');
            if !filters || self.binding_ahead().is_some() {
                self.pos = end;
                self.depth = depth;
                return Ok(node);
            }
            self.pos += 1;
            self.deeper()?;
            node = self.filter(start, node)?;
        }
    }

    fn postfix(&mut self, start: usize) -> Parsed<NodeId> {
        let depth = self.depth;
        let mut node = self.primary(start)?;
        loop {
            let end = self.pos;
            match self.peek() {
                Some(b'.') => node = self.dot(start, node)?,
                Some(b'[') => {
                    let bracket = self.nested(Self::bracket)?;
                    let span = self.span_from(start);
                    node = match bracket {
                        Bracket::Index(index) => self.push(SyntaxNode::Index(node, index), span),
                        Bracket::Slice(from, to) => self.push(SyntaxNode::Slice(node, from, to), span),
                    };
                }
                _ => {
                    self.pos = end;
                    self.depth = depth;
                    return Ok(node);
                }
            }
            self.deeper()?;
        }
    }

    /// `.name`, `.0` or `.method(...)` on any value.
    fn dot(&mut self, start: usize, base: NodeId) -> Parsed<NodeId> {
        if let Some((name_at, name)) = self.method_ahead() {
            self.pos = name_at;
            return self.method(start, base, name_at, name);
        }
        let first_step = self.program.steps.len();
        self.dot_steps()?;
        let run = self.steps_from(first_step);
        let span = self.span_from(start);
        Ok(self.push(SyntaxNode::Walk(base, run), span))
    }

    /// At `.`: a name and an opening parenthesis behind it.
    fn method_ahead(&self) -> Option<(usize, &'s str)> {
        let name_at = self.pos + 1;
        let rest = &self.text[name_at..self.end];
        let len = name_len(rest);
        (len > 0 && rest[len..].starts_with('(')).then(|| (name_at, &rest[..len]))
    }

    fn method(&mut self, start: usize, base: NodeId, name_at: usize, name: &str) -> Parsed<NodeId> {
        self.pos = name_at;
        self.apply(start, base).map_err(|mut problem| {
            let is_this = problem.span.start as usize == name_at;
            if problem.class == ParseClass::UnknownFunction && is_this {
                problem.message = format!("unknown method `{name}`");
            }
            problem
        })
    }

    /// Dotted and literal bracket steps, as far as they go; stops before a method.
    fn dot_steps(&mut self) -> Parsed<()> {
        loop {
            match self.peek() {
                Some(b'.') if self.method_ahead().is_none() => self.expression_step()?,
                Some(b'[') => {
                    if self.try_literal_step()?.is_none() {
                        return Ok(());
                    }
                }
                _ => return Ok(()),
            }
        }
    }

    /// `.name` or `.0`: after a dot there are no keywords.
    fn expression_step(&mut self) -> Parsed<()> {
        self.pos += 1;
        let name_at = self.pos;
        let digits = self.text[name_at..self.end].bytes().take_while(u8::is_ascii_digit).count();
        let (sort, name) = if digits > 0 {
            self.pos += digits;
            let text = &self.text[name_at..self.pos];
            if !self.name().is_empty() {
                let name = &self.text[name_at..self.pos];
                return self.problem_to_fix(
                    ParseClass::InvalidPath,
                    self.span(name_at, self.pos),
                    format!("`{name}` is neither a name nor an index"),
                    "write",
                    (self.span(name_at - 1, self.pos), format!("[\"{name}\"]")),
                );
            }
            self.index_of(text, name_at)?;
            (StepSort::Digits, text)
        } else {
            let name = self.name();
            if name.is_empty() {
                return self.expected("a name after the dot");
            }
            (StepSort::Name, name)
        };
        let (name, span) = (self.source_name(name, name_at), self.span_from(name_at));
        self.program.steps.push(SyntaxStep::new(sort, name, span));
        self.refuse_glued_dash(name_at)
    }

    /// `a-b`: a name with a dash, or a difference? Both spellings are offered, none is guessed.
    fn refuse_glued_dash(&mut self, start: usize) -> Parsed<()> {
        if self.peek() != Some(b'-') {
            return Ok(());
        }
        let rest = &self.text[self.pos + 1..self.end];
        let Some(next) = rest.chars().next() else { return Ok(()) };
        if !(unicode_ident::is_xid_continue(next) || next == '_' || next == '(' || next == '$') {
            return Ok(());
        }
        let path_start = self.path_start(start);
        let left = &self.text[path_start..self.pos];
        let (end, whole) = {
            let mut ahead = self.pos;
            let bytes = self.text.as_bytes();
            while ahead < self.end
                && (bytes[ahead] == b'-'
                    || bytes[ahead] == b'.'
                    || bytes[ahead] == b'_'
                    || bytes[ahead].is_ascii_alphanumeric()
                    || bytes[ahead] >= 128)
            {
                ahead += 1;
            }
            (ahead, &self.text[path_start..ahead])
        };
        let right = &self.text[self.pos + 1..end.max(self.pos + 1)];
        let right = if right.is_empty() { "..." } else { right };
        self.problem_with(
            ParseClass::Syntax,
            self.span(path_start, end.max(self.pos + 1)),
            "a `-` without spaces between two names",
            if right.starts_with(|first: char| first.is_ascii_digit()) && Number::parse(right).is_err() {
                format!("write `${{{whole}}}` for the name")
            } else {
                format!("write `${{{whole}}}` for the name, or `{left} - {right}` for the difference")
            },
        )
    }

    fn path_start(&self, from: usize) -> usize {
        let bytes = self.text.as_bytes();
        let mut start = from;
        while start > 0
            && (bytes[start - 1] == b'.'
                || bytes[start - 1] == b'_'
                || bytes[start - 1].is_ascii_alphanumeric()
                || bytes[start - 1] >= 128)
        {
            start -= 1;
        }
        start
    }

    fn bracket(&mut self) -> Parsed<Bracket> {
        let open = self.pos;
        self.pos += 1;
        self.skip_space();
        if self.peek() == Some(b']') {
            return self.problem(
                ParseClass::Syntax,
                self.span(open, self.pos + 1),
                "an index is missing between the brackets",
            );
        }
        let from = if self.peek() == Some(b':') { None } else { Some(self.expression()?) };
        self.skip_space();
        let bracket = match (from, self.eat(":")) {
            (Some(index), false) => Bracket::Index(index),
            (from, _) => {
                self.skip_space();
                let to = if self.peek() == Some(b']') { None } else { Some(self.expression()?) };
                self.skip_space();
                Bracket::Slice(from, to)
            }
        };
        if self.eat("]") { Ok(bracket) } else { self.expected("`]`") }
    }

    fn primary(&mut self, start: usize) -> Parsed<NodeId> {
        if start > self.limit_at {
            return self.too_long();
        }
        match self.peek() {
            Some(b'0'..=b'9') => self.number(),
            Some(b'"' | b'\'') => self.string(),
            Some(b'(') => self.nested(|parser| {
                parser.pos += 1;
                let inner = parser.expression()?;
                parser.skip_space();
                if parser.eat(")") { Ok(inner) } else { parser.expected("`)`") }
            }),
            Some(b'[') => self.nested(Self::list),
            Some(b'{') => self.nested(Self::object),
            Some(b'$') if self.peek_at(1) == Some(b'{') => {
                self.pos += 2;
                let node = self.nested(Self::reference)?;
                if self.peek() == Some(b'$') {
                    return self.expected("an operator");
                }
                Ok(node)
            }
            Some(b'.') if self.peek_at(1).is_some_and(|byte| byte.is_ascii_digit()) => {
                let digits = &self.text[self.pos + 1..self.end];
                let len = digits.bytes().take_while(u8::is_ascii_digit).count();
                let span = self.span(self.pos, self.pos + 1 + len);
                let message = "a number needs a digit before the point";
                let spelling = format!("0.{}", &digits[..len]);
                self.problem_to_fix(ParseClass::Syntax, span, message, "write", (span, spelling))
            }
            _ => self.word(start),
        }
    }

    /// A keyword value, a call, or a path.
    fn word(&mut self, start: usize) -> Parsed<NodeId> {
        let name = self.name();
        if name.is_empty() {
            return self.expected("a value");
        }
        let constant = match name {
            "true" | "True" => Some(Value::from(true)),
            "false" | "False" => Some(Value::from(false)),
            "null" | "None" => Some(Value::NULL),
            _ => None,
        };
        if let Some(value) = constant {
            let span = self.span_from(start);
            return Ok(self.push(SyntaxNode::Const(value), span));
        }
        if KEYWORDS.contains(&name) {
            self.pos = start;
            return self.problem(
                ParseClass::Syntax,
                self.span(start, start + name.len()),
                format!("expected a value, found the word `{name}`"),
            );
        }
        let end = self.pos;
        self.skip_space();
        if self.peek() == Some(b'(') {
            return self.named_call(start, name);
        }
        self.pos = end;
        self.refuse_glued_dash(start)?;
        let first_step = self.program.steps.len();
        if self.element && name != "it" {
            let span = self.span_from(start);
            let field = self.source_name(name, start);
            self.program.steps.push(SyntaxStep::new(StepSort::Name, field, span));
        }
        self.dot_steps()?;
        self.refuse_glued_dash(start)?;
        let span = self.span_from(start);
        if self.element {
            let run = self.steps_from(first_step);
            return Ok(self.push(SyntaxNode::Element(run), span));
        }
        if self.peek() == Some(b'[')
            && self.program.steps.len() == first_step
            && super::TABLES.contains(&name)
        {
            return self.problem_with(
                ParseClass::InvalidPath,
                self.here(),
                format!("the first index of `{name}` is literal, so that names are known beforehand"),
                format!("name the entry: `{name}.NAME` or `{name}[\"any name\"]`"),
            );
        }
        self.push_path(name, start, first_step, span)
    }

    fn number(&mut self) -> Parsed<NodeId> {
        let start = self.pos;
        let rest = &self.text[start..self.end];
        let len = rest.char_indices().find(|&(at, char)| match char {
            '+' | '-' => !matches!(rest.as_bytes()[at - 1], b'e' | b'E'),
            '.' | '_' => false,
            char => !unicode_ident::is_xid_continue(char),
        });
        let text = &rest[..len.map_or(rest.len(), |(at, _)| at)];
        self.pos += text.len();
        let span = self.span_from(start);
        match Number::parse(text) {
            Ok(number) => Ok(self.push(SyntaxNode::Const(Value::from(number)), span)),
            Err(NumberError::TooLarge) => {
                let limit = ParseClass::Limit(crate::limits::Limit::Digits, crate::value::MAX_DIGITS as u64);
                self.problem(limit, span, "")
            }
            Err(_) => self.bad_number(text, span),
        }
    }

    fn bad_number<T>(&self, text: &str, span: Span) -> Parsed<T> {
        let message = format!("`{text}` is not a number");
        let to_fix = |offer: &str, spelling: String| {
            self.problem_to_fix(ParseClass::Syntax, span, message.clone(), offer, (span, spelling))
        };
        let hint = if text.contains('_') && text.replace('_', "").bytes().all(|byte| byte.is_ascii_digit()) {
            return to_fix("write", text.replace('_', ""));
        } else if text.matches('.').count() > 1 {
            return to_fix("quote it:", format!("\"{text}\""));
        } else if let Some(whole) = text.strip_suffix('.') {
            format!("write `{whole}.0` or `{whole}`")
        } else if text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit()) {
            let bare = text.trim_start_matches('0');
            format!("write `{}`, or quote it: `\"{text}\"`", if bare.is_empty() { "0" } else { bare })
        } else {
            return to_fix("quote it:", format!("\"{text}\""));
        };
        self.problem_with(ParseClass::Syntax, span, message, hint)
    }

    fn list(&mut self) -> Parsed<NodeId> {
        let start = self.pos;
        self.pos += 1;
        let items = self.comma_separated(b']', "`,` or `]`", Self::expression)?;
        let run = self.push_list(&items);
        let span = self.span_from(start);
        Ok(self.push(SyntaxNode::List(run), span))
    }

    fn object(&mut self) -> Parsed<NodeId> {
        let start = self.pos;
        self.pos += 1;
        let entries = self.comma_separated(b'}', "`,` or `}`", Self::object_entry)?;
        let spans: Vec<Span> = entries.iter().map(|(_, span, _)| *span).collect();
        let (keys, values): (Vec<Key>, Vec<NodeId>) =
            entries.into_iter().map(|(key, _, value)| (key, value)).unzip();
        let keys = match KeyTable::new(keys) {
            Ok(keys) => Arc::new(keys),
            Err(repeated) => {
                let message = format!("the key `{}` stands twice", repeated.keys[repeated.at].as_str());
                return self.problem(ParseClass::Syntax, spans[repeated.at], message);
            }
        };
        let span = self.span_from(start);
        let run = self.push_list(&values);
        Ok(self.push(SyntaxNode::Object(keys, run), span))
    }

    fn object_entry(&mut self) -> Parsed<(Key, Span, NodeId)> {
        let start = self.pos;
        let key = match self.peek() {
            Some(b'"' | b'\'') => self.key_literal()?,
            _ => self.name().to_owned(),
        };
        if key.is_empty() && !matches!(self.text.as_bytes().get(self.pos.wrapping_sub(1)), Some(b'"' | b'\''))
        {
            return self.expected("a key");
        }
        let span = self.span_from(start);
        self.skip_space();
        if !self.eat(":") {
            return self.expected("`:` after the key");
        }
        Ok((Key::new(key), span, self.expression()?))
    }

    /// Items up to a closing character; a comma may stand behind the last.
    fn comma_separated<T>(
        &mut self,
        close: u8,
        expected: &str,
        item: fn(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        let mut items = Vec::new();
        loop {
            self.skip_space();
            if self.peek() == Some(close) {
                self.pos += 1;
                return Ok(items);
            }
            items.push(item(self)?);
            self.skip_space();
            if !self.eat(",") && self.peek() != Some(close) {
                return self.expected(expected);
            }
        }
    }

    /// At `(`: the arguments of a call. `skip` parameters are already given, by a filter's input.
    pub(super) fn arguments(
        &mut self,
        function: Option<(&'static Function, usize)>,
        input: Option<NodeId>,
    ) -> Parsed<(Vec<NodeId>, Option<NodeId>)> {
        self.pos += 1;
        let mut args = Vec::new();
        let mut element = None;
        let mut at = function.map_or(0, |(_, skip)| skip);
        loop {
            self.skip_space();
            if self.eat(")") {
                return Ok((args, element));
            }
            let kind = function.and_then(|(function, _)| function.params.get(at)).map(|param| param.kind);
            // Behind a text only other values can stand, where several are taken.
            let first = input.or(args.first().copied()).map(|first| self.program.node(first));
            let several = matches!(first, Some(SyntaxNode::Const(value)) if value.as_str().is_some())
                && function.is_some_and(|(function, _)| function.takes_several());
            match function {
                Some((function, _)) if kind == Some(ParamKind::Element) && !several => {
                    match self.element_argument(function)? {
                        Some(node) => element = Some(node),
                        None => args.push(self.expression()?),
                    }
                }
                _ => args.push(self.expression()?),
            }
            at += 1;
            self.skip_space();
            if !self.eat(",") && self.peek() != Some(b')') {
                return self.expected("`,` or `)`");
            }
        }
    }

    /// An element expression is a literal, parsed where it stands. A function that also takes any number of plain
    /// values reads anything else as one of those.
    fn element_argument(&mut self, function: &Function) -> Parsed<Option<NodeId>> {
        let open = self.pos;
        if !matches!(self.peek(), Some(b'"' | b'\'')) {
            if function.takes_several() {
                return Ok(None);
            }
            return self.problem_with(
                ParseClass::ElementExpression,
                self.here(),
                format!("`{}` takes its expression as a literal text", function.name),
                format!("write it in quotes: `{}(\"score >= 80\")`", function.name),
            );
        }
        let (text, span) = self.key_text()?;
        let close = self.pos;
        let in_place = self.text[open + 1..close - 1] == *text;
        let node = if in_place {
            let (end, element) = (self.end, self.element);
            (self.pos, self.end, self.element) = (open + 1, close - 1, true);
            let node = self.nested(Self::whole_element);
            (self.pos, self.end, self.element) = (close, end, element);
            node?
        } else {
            let mut parser = Parser {
                text: &text,
                pos: 0,
                end: text.len(),
                program: self.program,
                syntax: self.syntax,
                depth: self.depth + 1,
                element: true,
                flat: Some(span),
                limit_at: usize::MAX,
                may_bind: false,
                binding: None,
            };
            parser.whole_element()?
        };
        Ok(Some(node))
    }

    fn whole_element(&mut self) -> Parsed<NodeId> {
        self.skip_space();
        if self.pos == self.end {
            return self.problem(ParseClass::ElementExpression, self.here(), "the expression is empty");
        }
        let node = self.expression()?;
        self.skip_space();
        if self.pos < self.end { self.trailing() } else { Ok(node) }
    }

    // ---- words -----------------------------------------------------------------------------------------

    fn start(&mut self) -> usize {
        self.skip_space();
        self.pos
    }

    /// A name of an expression; empty when there is none.
    pub(super) fn name(&mut self) -> &'s str {
        let rest = &self.text[self.pos..self.end];
        let len = name_len(rest);
        self.pos += len;
        &rest[..len]
    }

    /// A word that is not the beginning of a longer name.
    #[inline]
    fn eat_word(&mut self, word: &str) -> bool {
        let end = self.pos;
        self.skip_space();
        let found = self.starts_with(word) && name_len(&self.text[self.pos..self.end]) == word.len();
        self.pos = if found { self.pos + word.len() } else { end };
        found
    }

    fn eat_operator(&mut self, word: &str, symbol: &str) -> bool {
        if self.eat_word(word) {
            return true;
        }
        let end = self.pos;
        self.skip_space();
        let found = self.eat(symbol);
        if !found {
            self.pos = end;
        }
        found
    }
}

/// How many bytes of a text are one name.
#[inline]
pub(super) fn name_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    let ascii = bytes.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
    if bytes.get(ascii).is_some_and(|byte| !byte.is_ascii()) {
        return unicode_name_len(text);
    }
    if bytes.first().is_some_and(u8::is_ascii_digit) { 0 } else { ascii }
}

fn unicode_name_len(text: &str) -> usize {
    let mut chars = text.char_indices();
    match chars.next() {
        Some((_, first)) if first == '_' || unicode_ident::is_xid_start(first) => {}
        _ => return 0,
    }
    chars.find(|(_, char)| !unicode_ident::is_xid_continue(*char)).map_or(text.len(), |(at, _)| at)
}
