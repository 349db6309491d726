//! Printing a program in one canonical spelling that parses back to the same program.

use super::{NodeId, NodeRange, Program, ReferencePath, StepView, SyntaxNode, TemplatePart};
use crate::func::ParamKind;
use crate::value::{JsonStyle, Value};

/// How tightly an expression binds; a looser one in a tighter place is put in parentheses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Precedence {
    If,
    Or,
    And,
    Not,
    Comparison,
    Sum,
    Term,
    Unary,
    Power,
    Postfix,
}

impl Program {
    /// A template's canonical spelling.
    pub(crate) fn print_template(&self, parts: &[TemplatePart]) -> String {
        let mut out = String::new();
        self.print_parts(parts, &mut out);
        out
    }

    fn print_parts(&self, parts: &[TemplatePart], out: &mut String) {
        for (at, part) in parts.iter().enumerate() {
            let next = parts.get(at + 1);
            match part {
                TemplatePart::Lit(span) => print_text(self.text(*span), self.takes_dollars(next), out),
                TemplatePart::Owned(text) => print_text(text, self.takes_dollars(next), out),
                TemplatePart::Ref(node, _) => self.print_reference(*node, out),
            }
        }
    }

    /// Whether dollars before this part would belong to it: it is a reference, or begins with a brace.
    fn takes_dollars(&self, part: Option<&TemplatePart>) -> bool {
        match part {
            None => false,
            Some(TemplatePart::Ref(..)) => true,
            Some(TemplatePart::Lit(span)) => self.text(*span).starts_with('{'),
            Some(TemplatePart::Owned(text)) => text.starts_with('{'),
        }
    }

    /// An expression's canonical spelling.
    pub(crate) fn print_expression(&self, id: NodeId) -> String {
        let mut out = String::new();
        Printer { program: self, element: false }.node(id, Precedence::If, &mut out);
        out
    }

    fn print_reference(&self, id: NodeId, out: &mut String) {
        let printer = Printer { program: self, element: false };
        match self.node(id) {
            SyntaxNode::Path(path) => {
                out.push_str("${");
                printer.path(path, out);
                out.push('}');
            }
            SyntaxNode::OrText(head, parts) => printer.or_text(*head, *parts, out),
            _ if self.bound_command(id).is_some() => printer.bare(id, out),
            _ => {
                out.push_str("${= ");
                printer.node(id, Precedence::If, out);
                out.push_str(" }");
            }
        }
    }
}

/// Text of a template: dollars before a brace are doubled, and those at the end where what follows would take them.
fn print_text(text: &str, double_last: bool, out: &mut String) {
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let dollars = rest[at..].bytes().take_while(|byte| *byte == b'$').count();
        out.push_str(&rest[..at + dollars]);
        rest = &rest[at + dollars..];
        if rest.starts_with('{') || (rest.is_empty() && double_last) {
            (0..dollars).for_each(|_| out.push('$'));
        }
    }
    out.push_str(rest);
}

struct Printer<'a> {
    program: &'a Program,
    element: bool,
}

impl Printer<'_> {
    fn node(&self, id: NodeId, within: Precedence, out: &mut String) {
        let binding = self.binding(id);
        if binding < within {
            out.push('(');
            self.bare(id, out);
            out.push(')');
        } else {
            self.bare(id, out);
        }
    }

    fn binding(&self, id: NodeId) -> Precedence {
        use crate::value::ops::BinaryOp as Op;
        match self.program.node(id) {
            SyntaxNode::If { .. } => Precedence::If,
            SyntaxNode::Or(_) => Precedence::Or,
            SyntaxNode::And(_) => Precedence::And,
            SyntaxNode::Not(_) => Precedence::Not,
            SyntaxNode::Binary(Op::Add | Op::Sub, ..) => Precedence::Sum,
            SyntaxNode::Binary(Op::Mul | Op::Div | Op::FloorDiv | Op::Rem, ..) => Precedence::Term,
            SyntaxNode::Binary(Op::Pow, ..) => Precedence::Power,
            SyntaxNode::Binary(..) | SyntaxNode::Chain(_) => Precedence::Comparison,
            SyntaxNode::Terms(_, rest) => match self.program.terms[rest.range()][0].0 {
                Op::Add | Op::Sub => Precedence::Sum,
                _ => Precedence::Term,
            },
            SyntaxNode::Neg(_) => Precedence::Unary,
            SyntaxNode::Const(value) if value.as_number().is_some_and(crate::value::Number::is_negative) => {
                Precedence::Unary
            }
            _ => Precedence::Postfix,
        }
    }

    fn bare(&self, id: NodeId, out: &mut String) {
        let program = self.program;
        match program.node(id) {
            SyntaxNode::Const(value) => constant(value, out),
            SyntaxNode::Path(path) => {
                if self.element || !is_expression_path(program, path) {
                    out.push_str("${");
                    self.path(path, out);
                    out.push('}');
                } else {
                    self.path(path, out);
                }
            }
            SyntaxNode::Element(steps) => {
                out.push_str("it");
                self.steps(*steps, out);
            }
            SyntaxNode::Text(parts) => self.quoted(*parts, out),
            SyntaxNode::OrText(head, parts) => self.or_text(*head, *parts, out),
            SyntaxNode::Walk(base, steps) => {
                self.base(*base, self.takes_dot(*base), out);
                self.steps(*steps, out);
            }
            SyntaxNode::Index(base, index) => {
                let mut text = String::new();
                self.node(*index, Precedence::If, &mut text);
                self.base(*base, self.takes_literal(*base, &text), out);
                out.push('[');
                out.push_str(&text);
                out.push(']');
            }
            SyntaxNode::Slice(base, from, to) => {
                let mut text = String::new();
                if let Some(from) = from {
                    self.node(*from, Precedence::If, &mut text);
                }
                self.base(*base, text.starts_with('"') && self.takes_literal(*base, &text), out);
                out.push('[');
                out.push_str(&text);
                out.push(':');
                if let Some(to) = to {
                    self.node(*to, Precedence::If, out);
                }
                out.push(']');
            }
            SyntaxNode::Not(operand) => {
                out.push_str("not ");
                self.node(*operand, Precedence::Not, out);
            }
            SyntaxNode::Neg(operand) => {
                out.push_str("- ");
                self.node(*operand, Precedence::Unary, out);
            }
            SyntaxNode::And(run) => self.joined(*run, " and ", Precedence::Not, out),
            SyntaxNode::Or(run) => self.joined(*run, " or ", Precedence::And, out),
            SyntaxNode::Binary(op, left, right) => {
                let (left_binding, right_binding) = sides(self.binding(id));
                self.node(*left, left_binding, out);
                out.push(' ');
                out.push_str(op.symbol());
                out.push(' ');
                self.node(*right, right_binding, out);
            }
            SyntaxNode::Chain(links) => {
                let links = program.list(*links).iter().filter_map(|link| program.link(*link));
                for (at, (op, left, right)) in links.enumerate() {
                    if at == 0 {
                        self.node(left, Precedence::Sum, out);
                    }
                    out.push(' ');
                    out.push_str(op.symbol());
                    out.push(' ');
                    self.node(right, Precedence::Sum, out);
                }
            }
            SyntaxNode::Terms(first, rest) => {
                let (left_binding, right_binding) = sides(self.binding(id));
                self.node(*first, left_binding, out);
                for (op, node) in &program.terms[rest.range()] {
                    out.push(' ');
                    out.push_str(op.symbol());
                    out.push(' ');
                    self.node(*node, right_binding, out);
                }
            }
            SyntaxNode::If { condition, yes, no } => {
                self.node(*yes, Precedence::Or, out);
                out.push_str(" if ");
                self.node(*condition, Precedence::Or, out);
                out.push_str(" else ");
                self.node(*no, Precedence::If, out);
            }
            SyntaxNode::Call { function, args, element } => self.call(function.name, *args, *element, out),
            SyntaxNode::Compute { kind, args } => match program.bound_command(id) {
                Some(command) => {
                    out.push_str("${cmd:");
                    out.push_str(command);
                    out.push('}');
                }
                None => self.call(kind.as_str(), *args, None, out),
            },
            SyntaxNode::List(run) => {
                out.push('[');
                self.joined(*run, ", ", Precedence::If, out);
                out.push(']');
            }
            SyntaxNode::Object(keys, run) => {
                out.push('{');
                for (at, (key, value)) in keys.as_slice().iter().zip(program.list(*run)).enumerate() {
                    out.push_str(if at > 0 { ", " } else { "" });
                    quote(key.as_str(), out);
                    out.push_str(": ");
                    self.node(*value, Precedence::If, out);
                }
                out.push('}');
            }
        }
    }

    fn base(&self, id: NodeId, parentheses: bool, out: &mut String) {
        if parentheses || self.is_table(id) {
            out.push('(');
            self.node(id, Precedence::If, out);
            out.push(')');
        } else {
            self.node(id, Precedence::Postfix, out);
        }
    }

    /// Whether a bracket behind this node must be literal: it is a table of names, bare.
    fn is_table(&self, id: NodeId) -> bool {
        matches!(self.program.node(id), SyntaxNode::Path(path)
            if path.steps.len == 0 && super::TABLES.contains(&self.program.name(path.root)))
    }

    /// Whether a dot behind this node would become a part of it: of a path, which may then mean something else, or of a
    /// number.
    fn takes_dot(&self, id: NodeId) -> bool {
        match self.program.node(id) {
            SyntaxNode::Path(_) => true,
            SyntaxNode::Const(value) => value.as_number().is_some(),
            _ => false,
        }
    }

    /// Whether an index behind this node would be read as a literal step of its path.
    fn takes_literal(&self, id: NodeId, index: &str) -> bool {
        let digits = index.strip_prefix('-').unwrap_or(index);
        let literal = index.starts_with('"') || digits.bytes().all(|byte| byte.is_ascii_digit());
        literal
            && matches!(
                self.program.node(id),
                SyntaxNode::Path(_) | SyntaxNode::Element(_) | SyntaxNode::Walk(..)
            )
    }

    fn joined(&self, run: NodeRange, separator: &str, within: Precedence, out: &mut String) {
        for (at, node) in self.program.list(run).iter().enumerate() {
            out.push_str(if at > 0 { separator } else { "" });
            self.node(*node, within, out);
        }
    }

    /// The element expression stands second, after what the function is applied to.
    fn call(&self, name: &str, args: NodeRange, element: Option<NodeId>, out: &mut String) {
        let params = crate::func::find(name).map_or(&[][..], |function| function.params);
        out.push_str(name);
        out.push('(');
        for (at, node) in self.program.list(args).iter().enumerate() {
            out.push_str(if at > 0 { ", " } else { "" });
            let mut text = String::new();
            self.node(*node, Precedence::If, &mut text);
            // A text here that is no element expression must not look like one.
            let is_element = params.get(at).is_some_and(|param| param.kind == ParamKind::Element);
            if is_element && element.is_none() && text.starts_with('"') {
                text = format!("({text})");
            }
            out.push_str(&text);
            if at == 0
                && let Some(element) = element
            {
                let mut text = String::new();
                Printer { program: self.program, element: true }.node(element, Precedence::If, &mut text);
                out.push_str(", ");
                quote_verbatim(&text, out);
            }
        }
        out.push(')');
    }

    fn path(&self, path: &ReferencePath, out: &mut String) {
        out.push_str(self.program.name(path.root));
        self.steps(path.steps, out);
    }

    fn steps(&self, steps: NodeRange, out: &mut String) {
        for step in self.program.steps(steps).views() {
            match step {
                StepView::Quoted(name) => bracketed(name, out),
                StepView::Name(name) if !is_expression_name(name) => bracketed(name, out),
                step => step.write(out),
            }
        }
    }

    fn or_text(&self, head: NodeId, parts: NodeRange, out: &mut String) {
        out.push_str("${");
        match self.program.node(head) {
            SyntaxNode::Path(path) => self.path(path, out),
            SyntaxNode::Call { function, args, element } => self.call(function.name, *args, *element, out),
            SyntaxNode::Compute { kind, args } => self.call(kind.as_str(), *args, None, out),
            // Only a path or a call may stand before a default.
            _ => self.bare(head, out),
        }
        out.push_str(":-");
        self.program.print_parts(&self.program.parts[parts.range()], out);
        out.push('}');
    }

    fn quoted(&self, parts: NodeRange, out: &mut String) {
        out.push('"');
        let program = self.program;
        let parts = &program.parts[parts.range()];
        for (at, part) in parts.iter().enumerate() {
            let next = program.takes_dollars(parts.get(at + 1));
            match part {
                TemplatePart::Lit(span) => escape(program.text(*span), next, out),
                TemplatePart::Owned(text) => escape(text, next, out),
                TemplatePart::Ref(node, _) => program.print_reference(*node, out),
            }
        }
        out.push('"');
    }
}

/// What the left and right operands of an operator of this binding must bind at least as tightly as.
fn sides(binding: Precedence) -> (Precedence, Precedence) {
    match binding {
        Precedence::Comparison => (Precedence::Sum, Precedence::Sum),
        Precedence::Sum => (Precedence::Term, Precedence::Term),
        Precedence::Term => (Precedence::Unary, Precedence::Unary),
        // `2 ** -1` needs no parentheses, `(-1) ** 2` does.
        Precedence::Power => (Precedence::Postfix, Precedence::Unary),
        other => (other, other),
    }
}

fn is_expression_name(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|first| first == '_' || unicode_ident::is_xid_start(first))
        && chars.all(unicode_ident::is_xid_continue)
}

/// Whether a path can stand bare in an expression.
fn is_expression_path(program: &Program, path: &ReferencePath) -> bool {
    const RESERVED: [&str; 12] =
        ["and", "or", "not", "in", "if", "else", "true", "false", "null", "True", "False", "None"];
    let root = program.name(path.root);
    is_expression_name(root) && !RESERVED.contains(&root)
}

fn constant(value: &Value, out: &mut String) {
    match value.as_str() {
        Some(text) => quote(text, out),
        None => value.write_json(out, JsonStyle::Compact),
    }
}

fn bracketed(name: &str, out: &mut String) {
    out.push('[');
    quote(name, out);
    out.push(']');
}

/// A text in quotes, which is a template.
fn quote(text: &str, out: &mut String) {
    out.push('"');
    escape(text, false, out);
    out.push('"');
}

/// Escapes for a text in quotes, dollars before a brace included.
fn escape(text: &str, double_last: bool, out: &mut String) {
    let mut doubled = String::new();
    print_text(text, double_last, &mut doubled);
    escape_quotes(&doubled, out);
}

/// A literal that is not a template: a key or an element expression.
fn quote_verbatim(text: &str, out: &mut String) {
    out.push('"');
    escape_quotes(text, out);
    out.push('"');
}

fn escape_quotes(text: &str, out: &mut String) {
    for char in text.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            char => out.push(char),
        }
    }
}
