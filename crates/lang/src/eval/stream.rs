//! Calls over elements: element by element, so that memory is bounded by the result and not by the elements.
//!
//! A stream is elements and the calls of `where`, `each` and `collect` over them. Whoever reads it as a list gets one, when
//! it is not too large; an aggregate gets one element after the other. The answer is that of the same calls over a list.
//!
//! Operations: each element begins with those that were left when the first was read, so that a million elements are no more
//! than one. What reads elements within an element expression is different: every such element costs an operation, and neither
//! it nor what is done with it is given back to the next element.

use std::ops::Range;

use super::{ProgramEvaluator, Val, at_hand};
use crate::diag::error::{Error, ErrorKind};
use crate::diag::{Span, words};
use crate::func::{Body, ElementArgument, ElementVisitor, FuncError, Function, FunctionCall, Gives};
use crate::limits::Limit;
use crate::paged_list::PagedList;
use crate::syntax::{NodeId, NodeRange, SyntaxNode};
use crate::value::{Value, ops::BinaryOp};
use crate::world::ComputeError;

/// The range of all elements of a stream.
pub(super) const ALL: Range<usize> = 0..usize::MAX;

/// A value, or elements that nobody has read yet.
pub(crate) enum ValueOrElements<'a> {
    Value(Val<'a>),
    Elements(Box<ElementStream<'a>>),
}

/// Elements, and what each of them passes through.
pub(crate) struct ElementStream<'a> {
    list: &'a dyn PagedList,
    /// Where the path to the elements stands.
    span: Span,
    /// The part of them that is meant.
    part: Range<usize>,
    stages: Vec<StreamStage>,
}

/// A call of a function that works element by element.
struct StreamStage {
    id: NodeId,
    function: &'static Function,
    gives: Gives,
    args: NodeRange,
    element: Option<NodeId>,
    /// How deep in the evaluation the call stands.
    depth: u32,
}

impl<'a> ElementStream<'a> {
    pub(super) fn new(list: &'a dyn PagedList, span: Span) -> Self {
        Self { list, span, part: 0..element_count(list), stages: Vec::new() }
    }

    /// How many elements there are, when none has to be read to know it.
    pub(super) fn len(&self) -> Option<usize> {
        self.stages.is_empty().then_some(self.part.len())
    }

    /// A part of the elements; only of those that pass through nothing.
    pub(super) fn narrow(&mut self, part: &Range<usize>) {
        self.part = self.whole(part);
    }

    /// The elements that a part of this stream's elements is.
    fn whole(&self, part: &Range<usize>) -> Range<usize> {
        let at = |bound: usize| self.part.start.saturating_add(bound).min(self.part.end);
        at(part.start)..at(part.end)
    }
}

/// The state of a stage, or of what stands behind the last one.
#[derive(Default, Clone, Copy)]
struct StageProgress {
    seen: usize,
    given: usize,
}

/// What is done with a element behind the last stage; an error ends it, and is kept by whoever gave it.
type LastStep<'v, E> = &'v mut dyn FnMut(&mut E, &Value) -> Result<(), ()>;

impl<'a> ProgramEvaluator<'_, '_, 'a> {
    /// One node, whose value may be left to be read element by element.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "what is at hand must cost no more than it did as a node")]
    pub(super) fn source(&mut self, id: NodeId) -> Result<ValueOrElements<'a>, Error> {
        match at_hand(self.program, id, self.scope, self.session) {
            Some(value) => Ok(ValueOrElements::Value(Val::Ref(value))),
            None => self.other_source(id),
        }
    }

    #[inline(never)]
    fn other_source(&mut self, id: NodeId) -> Result<ValueOrElements<'a>, Error> {
        match self.program.node(id) {
            SyntaxNode::Path(path) if self.session.unwatched => self.path_source(path, id),
            SyntaxNode::Path(_) | SyntaxNode::Slice(..) => self.inner_source(id),
            SyntaxNode::Call { function, .. } if matches!(function.body, Body::Each(_) | Body::Default) => {
                self.inner_source(id)
            }
            _ => self.node(id).map(ValueOrElements::Value),
        }
    }

    fn inner_source(&mut self, id: NodeId) -> Result<ValueOrElements<'a>, Error> {
        let span = self.program.span(id);
        if self.session.fuel == 0 {
            return Err(self.session.limit(Limit::Operations, span));
        }
        self.session.fuel -= 1;
        self.session.enter(span)?;
        let result = self.dispatch_source(id);
        self.session.leave();
        if !self.session.unwatched {
            let outcome = match &result {
                Ok(ValueOrElements::Value(value)) => Ok((**value).clone()),
                // How many come out of the last stage is known when they have passed.
                Ok(ValueOrElements::Elements(stream)) => Ok(stream.len().map_or(Value::NULL, counted)),
                Err(error) => Err(error.clone()),
            };
            self.record_outcome(id, outcome);
        }
        result
    }

    fn dispatch_source(&mut self, id: NodeId) -> Result<ValueOrElements<'a>, Error> {
        match self.program.node(id) {
            SyntaxNode::Path(path) => self.path_source(path, id),
            SyntaxNode::Slice(base, from, to) => self.slice(id, *base, *from, *to),
            SyntaxNode::Call { function, args, .. } if matches!(function.body, Body::Default) => {
                self.default_source(*args)
            }
            SyntaxNode::Call { function, args, element } => self.each_call(id, function, *args, *element),
            // No other is asked.
            _ => self.node(id).map(ValueOrElements::Value),
        }
    }

    /// A call of a function that works element by element.
    fn each_call(
        &mut self,
        id: NodeId,
        function: &'static Function,
        args: NodeRange,
        element: Option<NodeId>,
    ) -> Result<ValueOrElements<'a>, Error> {
        match (self.source(self.program.list(args)[0])?, function.body) {
            (ValueOrElements::Elements(mut stream), Body::Each(gives)) => {
                let depth = self.session.depth;
                stream.stages.push(StreamStage { id, function, gives, args, element, depth });
                Ok(ValueOrElements::Elements(stream))
            }
            (source, _) => {
                let value = self.settled(id, source)?.into_owned();
                self.invoke(id, function, args, element, &[value]).map(ValueOrElements::Value)
            }
        }
    }

    /// A node whose value elements may stand for; they become a list.
    #[inline(never)]
    pub(super) fn settled_node(&mut self, id: NodeId) -> Result<Val<'a>, Error> {
        let source = self.dispatch_source(id)?;
        self.settled(id, source)
    }

    /// The value of a source; elements become a list.
    #[inline]
    pub(super) fn settled(&mut self, id: NodeId, source: ValueOrElements<'a>) -> Result<Val<'a>, Error> {
        match source {
            ValueOrElements::Value(value) => Ok(value),
            ValueOrElements::Elements(stream) => self.list(&stream, ALL, self.program.span(id)).map(Val::Own),
        }
    }

    /// All of some elements, as a list.
    pub(super) fn read_all(&mut self, list: &'a dyn PagedList, span: Span) -> Result<Value, Error> {
        self.list(&ElementStream::new(list, span), ALL, span)
    }

    /// The elements in a part of a stream, as a list.
    #[inline(never)]
    pub(super) fn list(
        &mut self,
        stream: &ElementStream<'a>,
        part: Range<usize>,
        span: Span,
    ) -> Result<Value, Error> {
        let max = self.session.limits.text_result as u64;
        let (mut items, mut size, mut index) = (Vec::new(), 0, 0);
        let (read, kept) = if stream.len().is_some() { (part, ALL) } else { (ALL, part) };
        self.run(stream, &read, &mut |_, value| {
            if kept.contains(&index) {
                size += value.size() + 1;
                if size > max {
                    return Err(());
                }
                items.push(value.clone());
            }
            index += 1;
            Ok(())
        })?;
        self.spend_on_elements(size >> 10, span)?;
        if size > max {
            return Err(self.session.limit(Limit::Elements, span));
        }
        Value::list(items).map_err(|oversized| Error::oversized(oversized, span))
    }

    /// A call over elements: an aggregate gets one after the other, anything else the list.
    #[inline(never)]
    pub(super) fn stream_call(
        &mut self,
        id: NodeId,
        function: &'static Function,
        args: NodeRange,
        element: Option<NodeId>,
        stream: &ElementStream<'a>,
    ) -> Result<Val<'a>, Error> {
        let (nodes, limits) = (self.program.list(args), self.session.limits);
        if !matches!(function.body, Body::Fold(_)) {
            let mut values = vec![self.list(stream, ALL, self.program.span(nodes[0]))?];
            self.more_arguments(&nodes[1..], &mut values)?;
            return self.invoke(id, function, args, element, &values);
        }
        // An empty list is neither too deep nor too large.
        let mut values = vec![Value::sequence(Vec::new())];
        if let Err(error) = self.more_arguments(&nodes[1..], &mut values) {
            return self.finish(stream).and(Err(error));
        }
        let mut patterns = self.session.lend_patterns();
        let before = self.session.fuel;
        let (mut fuel, mut failed, mut ran) = (before, None, false);
        let refills = self.element.is_none();
        let result = {
            let mut each = |part: Range<usize>, visit: ElementVisitor<'_>| {
                ran = true;
                let (mut index, mut refused) = (part.start, Ok(()));
                let passed = self.run(stream, &part, &mut |eval, member| {
                    let result = match element {
                        None => Ok(member.clone()),
                        Some(_) => eval.apply_to_element(function, element, index, member).map_err(|error| {
                            failed = Some(error);
                            FuncError::Element
                        }),
                    };
                    refused = result.and_then(|result| visit(index, member, result));
                    index += 1;
                    refused.as_ref().map_err(|_| ()).copied()
                });
                match passed {
                    Ok(()) => refused,
                    // What went wrong before comes before what went wrong here.
                    Err(error) => {
                        failed = Some(error);
                        Err(FuncError::Element)
                    }
                }
            };
            let argument = ElementArgument {
                len: stream.len(),
                element: element.is_some(),
                refills,
                each: Some(&mut each),
            };
            let (fuel, patterns, room) = (&mut fuel, &mut patterns, limits.text_result as u64);
            let mut call = FunctionCall {
                args: &values,
                stream: Some(argument),
                room,
                element: None,
                limits,
                fuel,
                patterns,
            };
            function.body.run(&mut call)
        };
        self.session.return_patterns(patterns);
        let used = before.saturating_sub(fuel);
        self.session.fuel = self.session.fuel.saturating_sub(used);
        if !refills {
            self.spent_on_elements += used;
        }
        if !ran {
            self.finish(stream)?;
        }
        if let Some(error) = failed {
            return Err(error);
        }
        result.map(Val::Own).map_err(|error| self.function_error(id, function, args, element, error))
    }

    /// `in` and `not in`.
    #[inline(never)]
    pub(super) fn membership(
        &mut self,
        id: NodeId,
        op: BinaryOp,
        left: NodeId,
        right: NodeId,
    ) -> Result<Val<'a>, Error> {
        let item = self.node(left)?;
        match self.source(right)? {
            ValueOrElements::Value(container) => {
                self.operate(id, op, &item, &container, (left, right)).map(Val::Own)
            }
            ValueOrElements::Elements(stream) => {
                let mut found = false;
                self.run(&stream, &ALL, &mut |_, member| {
                    found |= *member == *item;
                    Ok(())
                })?;
                Ok(Value::from(found == (op == BinaryOp::In)).into())
            }
        }
    }

    /// One of the elements, from the start or from the end.
    pub(super) fn element_at(
        &mut self,
        stream: &ElementStream<'a>,
        index: i64,
    ) -> Result<Option<Value>, Error> {
        let size = usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX);
        let at = if index < 0 { stream.part.len().checked_sub(size) } else { Some(size) };
        let Some(at) = at.filter(|at| *at < stream.part.len()) else { return Ok(None) };
        self.spend_on_elements(1, stream.span)?;
        let page = self.page(stream, stream.part.start + at)?;
        Ok(page.as_list().and_then(|members| members.first()).cloned())
    }

    /// Passes elements that nobody wants through the stages, for the errors of these.
    pub(super) fn finish(&mut self, stream: &ElementStream<'a>) -> Result<(), Error> {
        if stream.stages.is_empty() {
            return Ok(());
        }
        self.run(stream, &ALL, &mut |_, _| Err(()))
    }

    /// Passes the elements of a part through the stages, and what comes out to `last`. An error is that of a stage.
    pub(super) fn run(
        &mut self,
        stream: &ElementStream<'a>,
        part: &Range<usize>,
        last: LastStep<'_, Self>,
    ) -> Result<(), Error> {
        let (before, spent) = (self.session.fuel, self.spent_on_elements);
        let is_inner = self.element.is_some();
        if !is_inner {
            self.spent_on_elements = 0;
        }
        let mut passed = vec![StageProgress::default(); stream.stages.len()];
        let result = self.pass(stream, stream.whole(part), &mut passed, before, last);
        if is_inner {
            self.spent_on_elements = spent + before.saturating_sub(self.session.fuel);
        } else {
            self.session.fuel = before.saturating_sub(self.spent_on_elements);
        }
        if !self.session.unwatched {
            self.record_stages(stream, &passed, result.as_ref().err());
        }
        result.map_err(|(_, error)| error)
    }

    /// A list goes through one stage after the other, so that an error of an earlier one comes before those of later
    /// ones. Here the elements that are left show whether there is one: they pass through the stages before the error.
    fn pass(
        &mut self,
        stream: &ElementStream<'a>,
        part: Range<usize>,
        passed: &mut [StageProgress],
        fuel: u64,
        last: LastStep<'_, Self>,
    ) -> Result<(), (usize, Error)> {
        let (mut failed, mut alive) = (None, stream.stages.len() + 1);
        let traced = self.session.trace_len();
        let mut at = part.start;
        while at < part.end {
            let page = self.page(stream, at).map_err(|error| (0, error))?;
            let members = page.as_list().unwrap_or_default();
            for member in members.iter().take(part.end - at) {
                if self.element.is_none() {
                    self.session.fuel = fuel.saturating_sub(self.spent_on_elements);
                } else {
                    self.spend(1, stream.span).map_err(|error| (0, error))?;
                }
                let behind = self.session.trace_len();
                let out = self.pass_element(&stream.stages[..alive.min(stream.stages.len())], passed, member);
                match out {
                    Ok(Some(member)) if alive > stream.stages.len() => {
                        if last(self, &member).is_err() {
                            alive = stream.stages.len();
                        }
                    }
                    Ok(_) => {}
                    Err((stage, error)) => {
                        alive = stage;
                        failed = Some((stage, error));
                    }
                }
                if behind > traced {
                    self.session.drop_repeated(traced, behind);
                }
                if alive == 0 {
                    return failed.map_or(Ok(()), Err);
                }
            }
            at += members.len();
        }
        failed.map_or(Ok(()), Err)
    }

    /// What comes out of the stages for one element; an error with its stage.
    fn pass_element(
        &mut self,
        stages: &[StreamStage],
        passed: &mut [StageProgress],
        member: &Value,
    ) -> Result<Option<Value>, (usize, Error)> {
        let mut value = member.clone();
        for (at, (stage, passed)) in stages.iter().zip(passed).enumerate() {
            let index = passed.seen;
            passed.seen += 1;
            match self.stage(stage, index, &value).map_err(|error| (at, error))? {
                Some(result) => value = result,
                None => return Ok(None),
            }
            passed.given += 1;
        }
        Ok(Some(value))
    }

    fn stage(&mut self, stage: &StreamStage, index: usize, value: &Value) -> Result<Option<Value>, Error> {
        self.spend(1, self.program.span(stage.id))?;
        let depth = std::mem::replace(&mut self.session.depth, stage.depth);
        let result = self.apply_to_element(stage.function, stage.element, index, value);
        self.session.depth = depth;
        stage
            .gives
            .of(index, value, result?)
            .map_err(|error| self.function_error(stage.id, stage.function, stage.args, stage.element, error))
    }

    #[inline(never)]
    fn apply_to_element(
        &mut self,
        function: &'static Function,
        element: Option<NodeId>,
        index: usize,
        member: &Value,
    ) -> Result<Value, Error> {
        self.apply(function, element, index, member)
    }

    /// What each stage came to, for an explanation.
    #[cold]
    fn record_stages(
        &mut self,
        stream: &ElementStream<'a>,
        passed: &[StageProgress],
        failed: Option<&(usize, Error)>,
    ) {
        for (at, (stage, passed)) in stream.stages.iter().zip(passed).enumerate() {
            let outcome = match failed {
                Some((stage, error)) if at >= *stage => Err(error.clone()),
                _ => Ok(counted(passed.given)),
            };
            self.record_outcome(stage.id, outcome);
        }
    }

    fn spend(&mut self, operations: u64, span: Span) -> Result<(), Error> {
        match self.session.fuel.checked_sub(operations) {
            Some(left) => {
                self.session.fuel = left;
                Ok(())
            }
            None => Err(self.session.limit(Limit::Operations, span)),
        }
    }

    /// Counts the reading of elements; within an element expression the next element does not get it back.
    fn spend_on_elements(&mut self, operations: u64, span: Span) -> Result<(), Error> {
        if self.element.is_some() {
            self.spent_on_elements += operations;
        }
        self.spend(operations, span)
    }

    /// The elements from one on, at least one of them.
    fn page(&self, stream: &ElementStream<'a>, from: usize) -> Result<Value, Error> {
        let (message, hint) = match stream.list.page(from as u64) {
            Ok(page) if page.as_list().is_some_and(|members| !members.is_empty()) => return Ok(page),
            Ok(_) | Err(ComputeError::Missing { .. }) => {
                (format!("element {from} of {} is not there", element_count(stream.list)), None)
            }
            Err(ComputeError::Failed { message, hint }) => (message, hint),
        };
        let kind = self.program.text(stream.span).into();
        Err(Error::new(ErrorKind::Computed { kind, message, hint }, stream.span))
    }
}

fn element_count(list: &dyn PagedList) -> usize {
    usize::try_from(list.len()).unwrap_or(usize::MAX)
}

/// What explanations and traces show of elements.
pub(super) fn counted(elements: usize) -> Value {
    Value::from(words::count(elements, "element"))
}
