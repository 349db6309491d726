//! Templates and expressions: parsed once, evaluated often.

use std::borrow::Cow;

use ecow::EcoString;

use crate::diag::error::{Error, Origin};
use crate::eval::{Explanation, Inferred, ProgramEvaluator, Session};
use crate::scope::Scope;
use crate::syntax::{self, NodeId, Program, Reference, Syntax, TemplatePart};
use crate::value::Value;

/// Text with references, parsed.
pub struct Template {
    program: Program,
    parts: Vec<TemplatePart>,
}

impl Template {
    /// Parses text; every problem in it is reported.
    pub fn parse(source: impl Into<EcoString>, syntax: &Syntax) -> Result<Self, Vec<Error>> {
        let (template, errors) = Self::parse_all(source, syntax);
        if errors.is_empty() { Ok(template) } else { Err(errors) }
    }

    /// Parses text; beside its problems comes what could be made of the rest, to look for more problems in.
    pub fn parse_all(source: impl Into<EcoString>, syntax: &Syntax) -> (Self, Vec<Error>) {
        let (program, parts, errors) = syntax::parse_template(source.into(), syntax);
        (Self { program, parts }, errors)
    }

    /// The text it was parsed from.
    pub fn source(&self) -> &str {
        &self.program.source
    }

    /// The text without evaluation, when there is no reference in it.
    pub fn as_plain(&self) -> Option<Cow<'_, str>> {
        match &self.parts[..] {
            [] => Some(Cow::Borrowed("")),
            [TemplatePart::Lit(span)] => Some(Cow::Borrowed(self.program.text(*span))),
            parts if parts.iter().all(|part| !matches!(part, TemplatePart::Ref(..))) => {
                let literals = parts.iter().map(|part| match part {
                    TemplatePart::Lit(span) => self.program.text(*span),
                    TemplatePart::Owned(text) => text.as_str(),
                    TemplatePart::Ref(..) => "",
                });
                Some(Cow::Owned(literals.collect()))
            }
            _ => None,
        }
    }

    /// Appends the text to `out`. On an error `out` is as it was.
    pub fn text(&self, scope: &Scope, session: &mut Session<'_>, out: &mut String) -> Result<(), Error> {
        session.begin();
        let start = out.len();
        let result = ProgramEvaluator::new(session, &self.program, scope).text(&self.parts, out);
        if result.is_err() {
            out.truncate(start);
        }
        result.map_err(|error| at_origin(error, session.origin.as_deref()))
    }

    /// The text part by part, for a text whose references are not simply put in: `part` is told whether what
    /// it is given came from a reference.
    pub fn text_parts(
        &self,
        scope: &Scope,
        session: &mut Session<'_>,
        part: &mut dyn FnMut(bool, &str),
    ) -> Result<(), Error> {
        session.begin();
        let mut text = String::new();
        for one in &self.parts {
            text.clear();
            let result = ProgramEvaluator::new(session, &self.program, scope)
                .text(std::slice::from_ref(one), &mut text);
            result.map_err(|error| at_origin(error, session.origin.as_deref()))?;
            part(matches!(one, TemplatePart::Ref(..)), &text);
        }
        Ok(())
    }

    /// What is written, part by part; nothing where a reference stands.
    pub fn written_parts(&self) -> impl Iterator<Item = Option<&str>> {
        self.parts.iter().map(|part| match part {
            TemplatePart::Lit(span) => Some(self.program.text(*span)),
            TemplatePart::Owned(text) => Some(text.as_str()),
            TemplatePart::Ref(..) => None,
        })
    }

    /// The value: that of the reference when the template is exactly one, else text.
    #[inline]
    pub fn value(&self, scope: &Scope, session: &mut Session<'_>) -> Result<Value, Error> {
        // Most values are one path that leads straight to what it names.
        if let [TemplatePart::Ref(node, _)] = &self.parts[..]
            && let Some(value) = crate::eval::at_hand(&self.program, *node, scope, session)
        {
            return Ok(value.clone());
        }
        self.value_of(&self.parts, scope, session)
    }

    /// Like [`Template::value`] for a block of YAML: its final line break does not count when a reference is
    /// all there is.
    pub(crate) fn block_value(&self, scope: &Scope, session: &mut Session<'_>) -> Result<Value, Error> {
        match &self.parts[..] {
            [reference @ TemplatePart::Ref(..), TemplatePart::Lit(span)]
                if self.program.text(*span) == "\n" =>
            {
                self.value_of(std::slice::from_ref(reference), scope, session)
            }
            parts => self.value_of(parts, scope, session),
        }
    }

    fn value_of(
        &self,
        parts: &[TemplatePart],
        scope: &Scope,
        session: &mut Session<'_>,
    ) -> Result<Value, Error> {
        session.begin();
        let result = if let [TemplatePart::Ref(node, span)] = parts {
            let mut eval = ProgramEvaluator::new(session, &self.program, scope);
            eval.reference(*node, *span).map(crate::eval::Val::into_owned)
        } else {
            let mut buffer = std::mem::take(&mut session.buffer);
            buffer.clear();
            let mut eval = ProgramEvaluator::new(session, &self.program, scope);
            let result = eval.text(parts, &mut buffer).map(|()| Value::from(buffer.as_str()));
            session.buffer = buffer;
            result
        };
        result.map_err(|error| at_origin(error, session.origin.as_deref()))
    }

    /// Everything that evaluation can read.
    pub fn references(&self) -> Vec<Reference> {
        let mut references = Vec::new();
        for part in &self.parts {
            if let TemplatePart::Ref(node, _) = part {
                self.program.references(*node, &mut references);
            }
        }
        references
    }

    /// The references that stand before the written text, taken together, is enough. It is asked about the
    /// text so far, and whether a reference stands at the very beginning.
    pub fn references_until(&self, is_enough: impl Fn(&str, bool) -> bool) -> Vec<Reference> {
        let (mut references, mut written) = (Vec::new(), String::new());
        let begins_with_value = matches!(self.parts.first(), Some(TemplatePart::Ref(..)));
        for part in &self.parts {
            match part {
                TemplatePart::Lit(span) => written.push_str(self.program.text(*span)),
                TemplatePart::Owned(text) => written.push_str(text),
                TemplatePart::Ref(node, _) if !is_enough(&written, begins_with_value) => {
                    self.program.references(*node, &mut references);
                }
                TemplatePart::Ref(..) => break,
            }
        }
        references
    }

    /// Checks the names of every reference against a scope: unknown roots, and the errors that evaluation
    /// would meet for sure. The world is not asked, and definitions are not evaluated.
    pub fn check(&self, scope: &Scope) -> Vec<Error> {
        let nodes = self.parts.iter().filter_map(|part| match part {
            TemplatePart::Ref(node, _) => Some(*node),
            TemplatePart::Lit(_) | TemplatePart::Owned(_) => None,
        });
        nodes.flat_map(|node| crate::eval::check(&self.program, node, scope)).collect()
    }

    /// What is known of its value before the names of a scope have theirs.
    pub fn infer(&self, scope: &Scope) -> Inferred {
        crate::eval::infer_parts(&self.program, &self.parts, scope, false)
    }

    /// Like [`Template::infer`] for a block of YAML.
    pub(crate) fn infer_block(&self, scope: &Scope) -> Inferred {
        crate::eval::infer_parts(&self.program, &self.parts, scope, true)
    }

    /// The error that evaluation met, and those that it would have met behind it for sure.
    pub fn all_errors(&self, met: Error, scope: &Scope, session: &Session<'_>) -> Vec<Error> {
        beside(met, self.check(scope), session)
    }

    /// The one canonical spelling; it parses back to the same template.
    pub fn print(&self) -> String {
        self.program.print_template(&self.parts)
    }
}

impl std::fmt::Debug for Template {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Template").field(&self.source()).finish()
    }
}

impl std::fmt::Debug for Expression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Expression").field(&self.source()).finish()
    }
}

fn at_origin(error: Error, origin: Option<&Origin>) -> Error {
    match origin {
        Some(origin) => error.with_origin(origin),
        None => error,
    }
}

/// The error that was met, then the others in the order of the text.
fn beside(met: Error, others: Vec<Error>, session: &Session<'_>) -> Vec<Error> {
    let span = met.span();
    let mut errors = vec![met];
    errors.extend(others.into_iter().filter(|error| error.span() != span && !session.tolerates(error)));
    errors.sort_by_key(|error| error.span().start);
    errors
}

/// A condition or computation, parsed.
pub struct Expression {
    program: Program,
    root: NodeId,
}

impl Expression {
    /// Parses an expression.
    pub fn parse(source: impl Into<EcoString>, syntax: &Syntax) -> Result<Self, Error> {
        let (program, root) = syntax::parse_expression(source.into(), syntax).map_err(|(_, error)| error)?;
        Ok(Self { program, root })
    }

    /// The text it was parsed from.
    pub fn source(&self) -> &str {
        &self.program.source
    }

    /// Whether it is nothing but one reference.
    pub fn is_reference(&self) -> bool {
        let [reference] = &self.references()[..] else { return false };
        let written = self.source().trim();
        let bare = written.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')).unwrap_or(written);
        self.source().get(reference.span.range()) == Some(bare.trim())
    }

    /// The text of `cmd("text", arguments...)`, and the number of its arguments.
    pub fn command_call(&self) -> Option<(&str, usize)> {
        self.program.command_call(self.root)
    }

    /// Evaluates the expression. The first problem is the error.
    pub fn value(&self, scope: &Scope, session: &mut Session<'_>) -> Result<Value, Error> {
        session.begin();
        let mut evaluator = ProgramEvaluator::new(session, &self.program, scope);
        let found = evaluator.node(self.root);
        evaluator.trace_whole(self.program.span(self.root), found.as_deref());
        found.map(crate::eval::Val::into_owned)
    }

    /// The answer of a condition: a bool, or an error.
    pub fn condition(&self, scope: &Scope, session: &mut Session<'_>) -> Result<bool, Error> {
        session.begin();
        ProgramEvaluator::new(session, &self.program, scope).bool(self.root, "a condition")
    }

    /// What the whole and each of its parts came to.
    pub fn explain(&self, scope: &Scope, session: &mut Session<'_>) -> Explanation {
        session.begin();
        ProgramEvaluator::new(session, &self.program, scope).explain(self.root)
    }

    /// Everything that evaluation can read.
    pub fn references(&self) -> Vec<Reference> {
        let mut references = Vec::new();
        self.program.references(self.root, &mut references);
        references
    }

    /// Checks the names of every reference against a scope, as [`Template::check`] does.
    pub fn check(&self, scope: &Scope) -> Vec<Error> {
        crate::eval::check(&self.program, self.root, scope)
    }

    /// What is known of its value before the names of a scope have theirs.
    pub fn infer(&self, scope: &Scope) -> Inferred {
        crate::eval::infer(&self.program, self.root, scope, None)
    }

    /// Like [`Expression::infer`] for a condition, which must be a bool.
    pub fn infer_condition(&self, scope: &Scope) -> Inferred {
        crate::eval::infer(&self.program, self.root, scope, Some("a condition"))
    }

    /// The error that evaluation met, and those that it would have met behind it for sure.
    pub fn all_errors(&self, met: Error, scope: &Scope, session: &Session<'_>) -> Vec<Error> {
        beside(met, self.check(scope), session)
    }

    /// The one canonical spelling; it parses back to the same expression.
    pub fn print(&self) -> String {
        self.program.print_expression(self.root)
    }
}

/// Text with its references resolved, in one go. Text without a reference comes back borrowed.
pub fn render<'t>(
    text: &'t str,
    scope: &Scope,
    session: &mut Session<'_>,
) -> Result<Cow<'t, str>, Vec<Error>> {
    if !syntax::has_reference(text) {
        return Ok(Cow::Borrowed(text));
    }
    let mut out = String::with_capacity(text.len());
    render_template(text, scope, session, &mut out)?;
    Ok(Cow::Owned(out))
}

/// Appends text with its references resolved, in one go. On an error `out` is as it was.
pub fn render_into(
    text: &str,
    scope: &Scope,
    session: &mut Session<'_>,
    out: &mut String,
) -> Result<(), Vec<Error>> {
    if syntax::has_reference(text) {
        return render_template(text, scope, session, out);
    }
    out.push_str(text);
    Ok(())
}

fn render_template(
    text: &str,
    scope: &Scope,
    session: &mut Session<'_>,
    out: &mut String,
) -> Result<(), Vec<Error>> {
    let (template, errors) = Template::parse_all(text, &Syntax::DEFAULT);
    if !errors.is_empty() {
        return Err(errors);
    }
    template.text(scope, session, out).map_err(|error| vec![error])
}
