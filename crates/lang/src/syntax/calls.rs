//! Calls: kinds of computed values, built-ins, filters and methods, and how many arguments each takes.

use ecow::EcoString;

use super::parser::{Parsed, Parser};
use super::{BUILT_IN_KINDS, NodeId, RootKind, StepSort, SyntaxNode, SyntaxStep, TemplatePart};
use crate::diag::error::ParseClass;
use crate::diag::{Span, nearest, words};
use crate::func::{self, Body, Function};
use crate::value::{Key, Value};

impl Parser<'_, '_> {
    pub(super) fn kind_reference(&mut self, opened: usize, start: usize, name: &str) -> Parsed<NodeId> {
        if !self.syntax.is_kind(name) {
            return self.unknown_kind(opened, start, name);
        }
        self.pos += 1;
        let raw_start = self.pos;
        let mut parts = self.raw(opened, Some(name))?;
        let raw_end = self.pos;
        self.pos += 1;
        trim_parts(&mut parts, self.text);
        let span = self.span(start, raw_end);
        let raw_span = self.span(raw_start, raw_end);
        if parts.is_empty() {
            return self.problem(
                ParseClass::Syntax,
                span,
                format!("`{name}:` needs a text behind the colon"),
            );
        }
        let literals = parts.iter().map(|part| match part {
            TemplatePart::Lit(span) => Some(&self.text[span.range()]),
            TemplatePart::Owned(text) => Some(text.as_str()),
            TemplatePart::Ref(..) => None,
        });
        let fixed: Option<EcoString> = literals.collect();
        if fixed.is_none() && name == "cmd" {
            let text = EcoString::from(self.text[raw_start..raw_end].trim());
            return Ok(self.bound_command(text, &parts, raw_span, span));
        }
        let arg = if let Some(text) = fixed {
            self.push(SyntaxNode::Const(Value::from(text)), raw_span)
        } else {
            let parts = self.push_parts(parts);
            self.push(SyntaxNode::Text(parts), raw_span)
        };
        self.compute(name, span, &[arg])
    }

    /// A command with references: its text as it is written, and what the references give. Whoever runs it binds each
    /// value in its place; nothing is pasted.
    fn bound_command(
        &mut self,
        text: EcoString,
        parts: &[TemplatePart],
        raw_span: Span,
        span: Span,
    ) -> NodeId {
        let mut list = vec![self.push(SyntaxNode::Const(Value::from(text)), raw_span)];
        list.extend(parts.iter().filter_map(|part| match part {
            TemplatePart::Ref(node, _) => Some(*node),
            TemplatePart::Lit(_) | TemplatePart::Owned(_) => None,
        }));
        let list = self.push_list(&list);
        let arg = self.push(SyntaxNode::List(list), raw_span);
        let args = self.push_list(&[arg]);
        self.push(SyntaxNode::Compute { kind: Key::new("cmd"), args }, span)
    }

    fn unknown_kind<T>(&self, opened: usize, start: usize, name: &str) -> Parsed<T> {
        let span = self.span(start, self.pos);
        let known = BUILT_IN_KINDS.iter().copied().chain(self.syntax.kinds.iter().map(EcoString::as_str));
        let message = format!("unknown kind `{name}:`");
        if let Some(near) = nearest(name, known) {
            let at = self.span(start, start + name.len() + 1);
            let fix = (at, format!("{near}:"));
            return self.problem_to_fix(ParseClass::UnknownKind, span, message, "did you mean", fix);
        }
        let end = self.after_balanced(opened);
        // Shells write `:=` for a default that they also keep.
        let rest = &self.text[self.pos + 1..end];
        let hint = format!("for a default write `${{{name}:-{}`", rest.strip_prefix('=').unwrap_or(rest));
        self.problem_with(ParseClass::UnknownKind, span, message, hint)
    }

    /// A computed value; `json` is a function whose source is the output of the step before unless one is given.
    fn compute(&mut self, kind: &str, span: Span, args: &[NodeId]) -> Parsed<NodeId> {
        match kind {
            "json" => self.json(span, args),
            "cmd" => {
                self.fixed_command(args)?;
                let args = self.push_list(args);
                Ok(self.push(SyntaxNode::Compute { kind: Key::new(kind), args }, span))
            }
            _ => {
                let max = match kind {
                    "date" => 2,
                    "file" => 1,
                    _ => usize::MAX,
                };
                if args.is_empty() || args.len() > max {
                    let wanted = if max == 1 { "one argument" } else { "one or two arguments" };
                    let wanted = if max == usize::MAX { "an argument" } else { wanted };
                    return self.problem(
                        ParseClass::Arguments,
                        span,
                        format!("`{kind}` takes {wanted}, {} given", args.len()),
                    );
                }
                let args = self.push_list(args);
                Ok(self.push(SyntaxNode::Compute { kind: Key::new(kind), args }, span))
            }
        }
    }

    /// A command is its author's text: what a reference gives is passed beside it, never pasted into it.
    fn fixed_command(&self, args: &[NodeId]) -> Parsed<()> {
        let Some(&command) = args.first() else {
            return self.problem(
                ParseClass::Arguments,
                self.here(),
                "`cmd` takes a command, 0 arguments given",
            );
        };
        if matches!(self.program.node(command), SyntaxNode::Const(value) if value.as_str().is_some()) {
            return Ok(());
        }
        self.problem_with(
            ParseClass::Syntax,
            self.program.span(command),
            "a command is fixed text, without references in it",
            "pass values as arguments: `cmd(\"wc -l \\\"$1\\\"\", item.path)`",
        )
    }

    fn json(&mut self, span: Span, args: &[NodeId]) -> Parsed<NodeId> {
        let function = func::find("json");
        let (Some(function), 1..=2) = (function, args.len()) else {
            let message = format!("`json` takes a path and a source, {} arguments given", args.len());
            return self.problem(ParseClass::Arguments, span, message);
        };
        let mut args = args.to_vec();
        let path = match self.program.node(args[0]) {
            SyntaxNode::Const(value) => value.as_str().map(EcoString::from),
            _ => None,
        };
        if let (1, Some((path, source))) =
            (args.len(), path.as_ref().and_then(|path| path.split_once(":from:")))
        {
            let path_node = self.push(SyntaxNode::Const(Value::from(path)), span);
            let source_node = self.sub_reference(source.trim(), span)?;
            args = vec![path_node, source_node];
        }
        if args.len() == 1 {
            let first_step = self.program.steps.len();
            let output = self.pooled_name("output");
            self.program.steps.push(SyntaxStep::new(StepSort::Name, output, span));
            let prev = self.pooled_name("prev");
            let path = self.path(prev, RootKind::Named, first_step);
            let prev = self.push(SyntaxNode::Path(path), span);
            args.push(prev);
        }
        let args = self.push_list(&args);
        Ok(self.push(SyntaxNode::Call { function, args, element: None }, span))
    }

    /// Parses the inside of a reference that stands in another text.
    fn sub_reference(&mut self, text: &str, span: Span) -> Parsed<NodeId> {
        let whole = format!("${{{text}}}");
        let mut parser = Parser {
            text: &whole,
            pos: 2,
            end: whole.len(),
            program: self.program,
            syntax: self.syntax,
            depth: self.depth + 1,
            element: false,
            flat: Some(span),
            limit_at: usize::MAX,
            may_bind: false,
            binding: None,
        };
        let node = parser.reference_inside(2)?;
        if parser.pos < parser.end { parser.expected("the end of the reference") } else { Ok(node) }
    }

    // ---- calls and filters -----------------------------------------------------------------------------

    /// At `(` behind a name: a kind or a function.
    pub(super) fn named_call(&mut self, start: usize, name: &str) -> Parsed<NodeId> {
        if self.syntax.is_kind(name) {
            let args = self.nested(|parser| parser.arguments(None, None))?.0;
            let span = self.span_from(start);
            return self.compute(name, span, &args);
        }
        let Some(function) = func::find(name) else {
            return self.unknown_function(start, name);
        };
        let (args, element) = self.nested(|parser| parser.arguments(Some((function, 0)), None))?;
        self.call(start, function, &args, element)
    }

    fn unknown_function<T>(&self, start: usize, name: &str) -> Parsed<T> {
        let span = self.span(start, start + name.len());
        let names = func::FUNCTIONS.iter().map(|function| function.name);
        let message = format!("unknown function `{name}`");
        match func::meant(name).or_else(|| nearest(name, names)) {
            Some(near) => {
                let fix = (span, near);
                self.problem_to_fix(ParseClass::UnknownFunction, span, message, "did you mean", fix)
            }
            None => self.problem_with(
                ParseClass::UnknownFunction,
                span,
                message,
                func::instead(name).unwrap_or("the reference lists the functions, each also a filter"),
            ),
        }
    }

    /// Behind `|`: a filter applied to what stands before it. Its result has no path of its own.
    pub(super) fn filter(&mut self, start: usize, input: NodeId) -> Parsed<NodeId> {
        self.skip_space();
        let node = self.apply(start, input)?;
        if !matches!(self.peek(), Some(b'.' | b'[')) {
            return Ok(node);
        }
        let before = self.text[start..self.pos].trim();
        let rest = self.rest_of_path();
        let hint = if self.element || !self.text[..start].trim_end().ends_with("${") {
            format!("put it in parentheses: `({before}){rest}`")
        } else {
            format!("put it in parentheses: `${{= ({before}){rest} }}`")
        };
        self.problem_with(ParseClass::Syntax, self.here(), "a path cannot follow a filter", hint)
    }

    /// A function applied to what stands before it: a filter or a method.
    pub(super) fn apply(&mut self, start: usize, input: NodeId) -> Parsed<NodeId> {
        let name_at = self.pos;
        let name = self.name();
        if name.is_empty() {
            return self.expected("the name of a filter");
        }
        let Some(function) = func::find(name) else {
            return self.unknown_function(name_at, name);
        };
        let (mut args, element) = if self.peek() == Some(b'(') {
            self.nested(|parser| parser.arguments(Some((function, 1)), Some(input)))?
        } else {
            (Vec::new(), None)
        };
        args.insert(0, input);
        self.call(start, function, &args, element)
    }

    fn rest_of_path(&self) -> &str {
        let rest = &self.text[self.pos..self.end];
        let end = rest.find(|char: char| char.is_whitespace() || "}|),".contains(char)).unwrap_or(rest.len());
        &rest[..end]
    }

    pub(super) fn call(
        &mut self,
        start: usize,
        function: &'static Function,
        args: &[NodeId],
        element: Option<NodeId>,
    ) -> Parsed<NodeId> {
        let span = self.span_from(start);
        if matches!(function.body, Body::Binding) {
            return self.problem_with(
                ParseClass::Syntax,
                span,
                format!("`{}` is a way of binding a value into a command", function.name),
                "it may stand only last in a reference of a shell or argv field",
            );
        }
        let given = args.len() + usize::from(element.is_some());
        let rest = function.takes_several();
        if given < function.required || (given > function.params.len() && !rest) {
            return self.wrong_count(function, given, span);
        }
        let args = self.push_list(args);
        Ok(self.push(SyntaxNode::Call { function, args, element }, span))
    }

    fn wrong_count<T>(&self, function: &Function, given: usize, span: Span) -> Parsed<T> {
        let (least, most) = (function.required, function.params.len());
        let wanted = match (least, most) {
            (least, most) if least == most => words::count(least, "argument"),
            (least, most) => format!("{least} to {most} arguments"),
        };
        self.problem_with(
            ParseClass::Arguments,
            span,
            format!("`{}` takes {wanted}, {given} given", function.name),
            format!("write `{}`", func::signature(function)),
        )
    }
}

/// White space at either end of raw text does not count.
fn trim_parts(parts: &mut Vec<TemplatePart>, text: &str) {
    let trim = |part: &mut TemplatePart, side: fn(&str) -> &str| match part {
        TemplatePart::Lit(span) => {
            let raw = &text[span.range()];
            let trimmed = side(raw);
            let start = span.start as usize + (trimmed.as_ptr() as usize - raw.as_ptr() as usize);
            *span = Span::new(start, start + trimmed.len());
            trimmed.is_empty()
        }
        TemplatePart::Owned(owned) => {
            *owned = side(owned).into();
            owned.is_empty()
        }
        TemplatePart::Ref(..) => false,
    };
    if parts.first_mut().is_some_and(|part| trim(part, str::trim_start)) {
        parts.remove(0);
    }
    if parts.last_mut().is_some_and(|part| trim(part, str::trim_end)) {
        parts.pop();
    }
}
