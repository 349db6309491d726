//! Calls of built-ins and computed values.

use super::stream::ValueOrElements;
use super::{ProgramEvaluator, Resolution, Val};
use crate::diag::Span;
use crate::diag::error::{Error, ErrorKind};
use crate::func::{Body, FuncError, Function, FunctionCall};
use crate::limits::Limit;
use crate::syntax::{NodeId, NodeRange};
use crate::value::Value;

impl<'a> ProgramEvaluator<'_, '_, 'a> {
    pub(super) fn call(
        &mut self,
        id: NodeId,
        function: &'static Function,
        args: NodeRange,
        element: Option<NodeId>,
    ) -> Result<Val<'a>, Error> {
        match function.body {
            Body::Plain(_) | Body::Fold(_) => self.plain_call(id, function, args, element),
            Body::Each(_) => self.settled_node(id),
            Body::Default => {
                let source = self.default_source(args)?;
                self.settled(id, source)
            }
            Body::Exists => self.exists(args),
            // The parser refuses these outside shell and argv fields.
            Body::Binding => Err(self.session.limit(Limit::Operations, self.program.span(id))),
        }
    }

    /// Whether the first argument has a value; null is one.
    fn exists(&mut self, args: NodeRange) -> Result<Val<'a>, Error> {
        let first = self.program.list(args)[0];
        let found = match self.source(first) {
            Ok(ValueOrElements::Elements(stream)) => self.finish(&stream),
            found => found.map(|_| ()),
        };
        match found {
            Ok(()) => Ok(Value::from(true).into()),
            Err(error) if error.is_covered() => Ok(Value::from(false).into()),
            Err(error) => Err(error),
        }
    }

    /// The first argument, or the second where the first is missing or null.
    #[inline]
    pub(super) fn default_source(&mut self, args: NodeRange) -> Result<ValueOrElements<'a>, Error> {
        let (first, second) = (self.program.list(args)[0], self.program.list(args)[1]);
        let from = self.session.trace_len();
        match self.source(first) {
            Ok(ValueOrElements::Value(value)) if value.is_null() => self.session.mark_defaulted(from),
            Err(error) if error.is_covered() => self.session.mark_defaulted(from),
            found => return found,
        }
        self.source(second)
    }

    #[inline(never)]
    fn plain_call(
        &mut self,
        id: NodeId,
        function: &'static Function,
        args: NodeRange,
        element: Option<NodeId>,
    ) -> Result<Val<'a>, Error> {
        let nodes = self.program.list(args);
        let mut values = Vec::with_capacity(nodes.len());
        if let Some((first, rest)) = nodes.split_first() {
            match self.source(*first)? {
                ValueOrElements::Value(value) => values.push(value.into_owned()),
                ValueOrElements::Elements(stream) => {
                    return self.stream_call(id, function, args, element, &stream);
                }
            }
            self.more_arguments(rest, &mut values)?;
        }
        self.invoke(id, function, args, element, &values)
    }

    /// The arguments behind the first.
    pub(super) fn more_arguments(&mut self, nodes: &[NodeId], values: &mut Vec<Value>) -> Result<(), Error> {
        for node in nodes {
            // What is missing in an argument beside the first is not what a later `default` is about.
            values.push(self.node(*node).map_err(Error::seal)?.into_owned());
        }
        Ok(())
    }

    /// Carries a function out, with these values for its arguments.
    pub(super) fn invoke(
        &mut self,
        id: NodeId,
        function: &'static Function,
        args: NodeRange,
        element: Option<NodeId>,
        values: &[Value],
    ) -> Result<Val<'a>, Error> {
        if let Some(error) = function.refuse(values) {
            return Err(self.function_error(id, function, args, element, error));
        }
        let limits = self.session.limits;
        let mut patterns = self.session.lend_patterns();
        let before = self.session.fuel;
        let mut fuel = before;
        let mut failed = None;
        let element_node = element;
        let result = {
            let mut apply = |index: usize, value: &Value| {
                self.apply(function, element, index, value).map_err(|error| {
                    failed = Some(error);
                    FuncError::Element
                })
            };
            let element =
                element.map(|_| &mut apply as &mut dyn FnMut(usize, &Value) -> Result<Value, FuncError>);
            let (fuel, patterns) = (&mut fuel, &mut patterns);
            let mut call =
                FunctionCall { args: values, stream: None, room: u64::MAX, element, limits, fuel, patterns };
            function.body.run(&mut call)
        };
        self.session.return_patterns(patterns);
        self.session.fuel = self.session.fuel.saturating_sub(before - fuel);
        if let Some(error) = failed {
            return Err(error);
        }
        result.map(Val::Own).map_err(|error| self.function_error(id, function, args, element_node, error))
    }

    /// Carries a function out on values alone, to see what it says of them.
    pub(super) fn attempt(
        &mut self,
        function: &'static Function,
        values: &[Value],
    ) -> Result<Value, FuncError> {
        let limits = self.session.limits;
        let mut patterns = self.session.lend_patterns();
        let (mut fuel, patterns_lent) = (self.session.fuel, &mut patterns);
        let mut call = FunctionCall {
            args: values,
            stream: None,
            room: u64::MAX,
            element: None,
            limits,
            fuel: &mut fuel,
            patterns: patterns_lent,
        };
        let result = function.body.run(&mut call);
        self.session.return_patterns(patterns);
        result
    }

    /// An element expression, for one element.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "every element of every list passes here")]
    pub(super) fn apply(
        &mut self,
        function: &'static Function,
        element: Option<NodeId>,
        index: usize,
        value: &Value,
    ) -> Result<Value, Error> {
        let Some(node) = element else { return Ok(value.clone()) };
        let outer = self.element.replace(value.clone());
        let outcomes = self.session.set_outcomes(None);
        let result = self.node(node).map(Val::into_owned);
        self.session.set_outcomes(outcomes);
        self.element = outer;
        result.map_err(|error| {
            let (span, reads) = (error.span(), error.reads().to_vec());
            let kind = ErrorKind::Element { function: function.name, index, cause: Box::new(error) };
            Error::new(kind, span).with_reads(reads)
        })
    }

    #[cold]
    pub(super) fn function_error(
        &self,
        id: NodeId,
        function: &'static Function,
        args: NodeRange,
        element: Option<NodeId>,
        error: FuncError,
    ) -> Error {
        let span = self.program.span(id);
        let arg_span =
            |at: usize| self.program.list(args).get(at).map_or(span, |node| self.program.span(*node));
        let parameter = |at: usize| function.parameter(at).map_or("value", |param| param.name);
        let (kind, span) = match error {
            FuncError::Missing(why) => {
                return Error::new(ErrorKind::Nothing { function: function.name, why }, span);
            }
            FuncError::Type { arg, expected, got } => {
                let place = function.place(arg);
                (ErrorKind::Expected { place, expected, got, hint: None }, arg_span(arg))
            }
            FuncError::Op(operator, error) => {
                let max = self.session.limits.text_result as u64;
                return Error::operands(operator, &error, span, None, max).with_reads(self.reads(id));
            }
            FuncError::Value { arg, why, hint } => {
                let kind =
                    ErrorKind::Argument { function: function.name, parameter: parameter(arg), why, hint };
                (kind, arg_span(arg))
            }
            FuncError::ElementType { index, expected, got } => {
                let span = element.map_or(span, |element| self.program.span(element));
                let place = "the expression".to_owned();
                let cause = Error::new(ErrorKind::Expected { place, expected, got, hint: None }, span);
                (ErrorKind::Element { function: function.name, index, cause: Box::new(cause) }, span)
            }
            FuncError::Number(error) => (ErrorKind::Number(error), span),
            FuncError::Limit(limit) => return self.session.limit(limit, span),
            FuncError::Feature(feature) => {
                let kind = ErrorKind::Computed {
                    kind: function.name.into(),
                    message: format!("this build leaves out the feature `{feature}`"),
                    hint: None,
                };
                (kind, span)
            }
            // The evaluator keeps the error itself and returned it already.
            FuncError::Element => return self.session.limit(Limit::Operations, span),
        };
        Error::new(kind, span).with_reads(self.reads(id))
    }

    #[inline(never)]
    pub(super) fn computed(&mut self, id: NodeId, kind: &str, args: NodeRange) -> Result<Val<'a>, Error> {
        let span = self.program.span(id);
        let values = self.values(args)?;
        if let ("file" | "cmd", Some(value)) = (kind, values.first())
            && value.as_str().is_none()
            && self.program.bound_command(id).is_none()
        {
            let kind = ErrorKind::Expected {
                place: format!("`{kind}`"),
                expected: "text",
                got: value.kind(),
                hint: None,
            };
            return Err(Error::new(kind, span).with_reads(self.reads(id)));
        }
        let result = match kind {
            "date" => self.date(&values, id, span),
            _ => self.session.compute(kind, values, span),
        };
        if self.session.traces() {
            let resolution = Resolution {
                reference: self.program.text(span).into(),
                root: kind.into(),
                first: None,
                path: self.program.text(span).to_owned(),
                scope: kind.into(),
                value: result.as_ref().ok().cloned(),
                is_paged: false,
                computed: true,
                span,
                origin: self.session.origin.as_deref().cloned(),
                within: self.session.within(),
                defaulted: false,
            };
            self.session.trace().get_or_insert(&mut Vec::new()).push(resolution);
        }
        result.map(Val::Own)
    }

    /// The time of the evaluation, formatted.
    fn date(&mut self, args: &[Value], id: NodeId, span: Span) -> Result<Value, Error> {
        let now = self.session.compute("now", Vec::new(), span)?;
        let text = |at: usize| match args.get(at) {
            None => Ok(None),
            Some(value) => value.as_str().map(Some).ok_or_else(|| {
                let place = if at == 0 { "the format of `date`" } else { "the zone of `date`" };
                let kind = ErrorKind::Expected {
                    place: place.into(),
                    expected: "text",
                    got: value.kind(),
                    hint: None,
                };
                Error::new(kind, span).with_reads(self.reads(id))
            }),
        };
        let (format, zone) = (text(0)?.unwrap_or("%Y-%m-%d"), text(1)?);
        let failed = |message: String, hint: Option<String>| {
            Error::new(ErrorKind::Computed { kind: "date".into(), message, hint }, span)
        };
        match crate::func::strftime(now.as_str().unwrap_or_default(), format, zone) {
            Ok(text) => Ok(Value::from(text)),
            Err(FuncError::Value { why, hint, .. }) => Err(failed(why, hint)),
            Err(FuncError::Feature(feature)) => {
                Err(failed(format!("this build leaves out the feature `{feature}`"), None))
            }
            Err(FuncError::Limit(limit)) => Err(self.session.limit(limit, span)),
            Err(_) => Err(failed("this format gives no text".to_owned(), None)),
        }
    }
}
