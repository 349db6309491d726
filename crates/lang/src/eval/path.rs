//! Paths: who answers for a root, envelopes and their aliases, steps into values, indexes and slices.

use ecow::{EcoString, eco_format};

use super::stream::{ALL, ElementStream, ValueOrElements, counted};
use super::{ProgramEvaluator, Resolution, Val};
use crate::diag::error::{Error, ErrorKind, ValueRead};
use crate::diag::{Span, words};
use crate::document::Definitions;
use crate::envelope::{Envelope, MOVED_TO_META, OPTIONAL_META};
use crate::paged_list::PagedList;
use crate::scope::{EngineItem, EntryRef, FieldTypes, Lapsed, Promise, PromisedShape, Scope};
use crate::shape::{StepRefusal, Types, ValueShape};
use crate::syntax::{NodeId, NodeRange, ReferencePath, RootKind, StepKind, StepView, Steps};
use crate::value::{Key, Type, Value};

/// Follows steps as far as they go: the value at the end, or the value where they stopped and how many were
/// taken.
#[inline]
fn steps_into<'v>(mut value: &'v Value, steps: Steps<'_>) -> Result<&'v Value, (usize, &'v Value)> {
    for (taken, step) in steps.steps.iter().enumerate() {
        let next = match step.kind() {
            StepKind::Name(name) | StepKind::Quoted(name) => value
                .as_object()
                .and_then(|object| object.get_near(name.hash, || steps.program.name(name), &step.last)),
            StepKind::Digits(name) => match value.as_list() {
                Some(items) => element(items, digits(steps.program.name(name))),
                None => value.get(steps.program.name(name)),
            },
            StepKind::Index(index) => value.as_list().and_then(|items| element(items, index)),
        };
        match next {
            Some(next) => value = next,
            None => return Err((taken, value)),
        }
    }
    Ok(value)
}

/// The value at the end of the steps, when there is one.
#[inline]
pub(super) fn follow<'v>(value: &'v Value, steps: Steps<'_>) -> Option<&'v Value> {
    steps_into(value, steps).ok()
}

/// The index that a name made of digits is; the parser has made sure that it is one.
fn digits(name: &str) -> i64 {
    name.parse().unwrap_or(i64::MAX)
}

/// The element of an index; negative ones count from the end.
fn element(items: &[Value], index: i64) -> Option<&Value> {
    let at = if index < 0 {
        items.len().checked_sub(usize::try_from(index.unsigned_abs()).ok()?)?
    } else {
        usize::try_from(index).ok()?
    };
    items.get(at)
}

impl<'a> ProgramEvaluator<'_, '_, 'a> {
    /// A path from a root of the scope.
    #[inline]
    pub(super) fn path(&mut self, path: &'a ReferencePath, id: NodeId) -> Result<Val<'a>, Error> {
        if path.kind == RootKind::Named
            && self.session.unwatched
            && let Some(value) = self.scope.plain(path.root, self.program, &path.last)
        {
            let steps = self.program.steps(path.steps);
            return match steps_into(value, steps) {
                Ok(value) => match value.oversized() {
                    None => Ok(Val::Ref(value)),
                    Some(oversized) => Err(self.oversized(id, oversized)),
                },
                Err((taken, at)) => Err(step_error(
                    steps.to(taken).text(self.program.name(path.root)),
                    steps.after(taken),
                    at,
                )),
            };
        }
        self.any_path(path, id)
    }

    /// Whether a path leads to a value, as far as that can be told without evaluating a definition.
    pub(super) fn check_path(&mut self, path: &'a ReferencePath, id: NodeId) -> Result<(), Error> {
        let (root, steps) = (self.program.name(path.root), self.program.steps(path.steps));
        let found = match path.kind {
            RootKind::Named => self.scope.lookup(path.root, self.program, &path.last),
            RootKind::Nodes => steps.first().and_then(StepView::key).and_then(|id| self.scope.output(id)),
            RootKind::Env | RootKind::Uuid => return Ok(()),
        };
        match (path.kind, found.map(|found| found.entry)) {
            (RootKind::Named, Some(EntryRef::Definitions(definitions))) => {
                if steps.first().is_none() {
                    return Ok(());
                }
                let at = definition_position(definitions, &|| root.to_owned(), steps)?;
                // What is written out can be followed.
                match definitions.fixed(at) {
                    Some(value) => walk(value, steps.after(1), || steps.to(1).text(root)).map(|_| ()),
                    None => Ok(()),
                }
            }
            (RootKind::Named, Some(EntryRef::Names(names))) => {
                let (mut names, mut taken) = (names, 0);
                while let Some(step) = steps.after(taken).first() {
                    let Some(found) = step.key().and_then(|name| names.find(name)) else {
                        return Err(name_not_found(names, steps.to(taken).text(root), steps.after(taken)));
                    };
                    taken += 1;
                    match found.entry {
                        EntryRef::Names(inner) => names = inner,
                        EntryRef::Promised(promise) => {
                            return check_promise(promise, &steps.to(taken).text(root), steps.after(taken));
                        }
                        _ => return self.path_source(path, id).map(|_| ()),
                    }
                }
                Ok(())
            }
            (RootKind::Nodes, Some(EntryRef::Promised(promise))) => {
                check_promise(promise, &steps.to(1).text(root), steps.after(1))
            }
            (_, Some(EntryRef::Promised(promise))) => check_promise(promise, root, steps),
            _ => self.path_source(path, id).map(|_| ()),
        }
    }

    #[inline(never)]
    fn any_path(&mut self, path: &'a ReferencePath, id: NodeId) -> Result<Val<'a>, Error> {
        let source = self.path_source(path, id)?;
        self.settled(id, source)
    }

    /// A path from a root of the scope, which may lead to elements.
    pub(super) fn path_source(
        &mut self,
        path: &'a ReferencePath,
        id: NodeId,
    ) -> Result<ValueOrElements<'a>, Error> {
        let span = self.program.span(id);
        let steps = self.program.steps(path.steps);
        let mut answer = PathAnswer { traced: self.session.traces(), ..PathAnswer::default() };
        let program = self.program;
        let root = || program.name(path.root).to_owned();
        let mut rest = PathRest { root: &root, steps, span, answer: &mut answer };
        let result = match path.kind {
            RootKind::Env => self.env(&mut rest),
            RootKind::Uuid => self.uuid(&mut rest),
            RootKind::Nodes => self.nodes(rest),
            RootKind::Named => self.named(path, rest),
        };
        let list = answer.list;
        if answer.traced {
            let shown = list.map(shown_list);
            let value = shown.as_ref().or(result.as_deref().ok()).filter(|_| result.is_ok());
            self.trace(path, steps, span, answer, value);
        }
        match list {
            Some(list) if result.is_ok() => {
                Ok(ValueOrElements::Elements(Box::new(ElementStream::new(list, span))))
            }
            _ => {
                let value = result?;
                match value.oversized() {
                    None => Ok(ValueOrElements::Value(value)),
                    Some(oversized) => Err(self.oversized(id, oversized)),
                }
            }
        }
    }

    fn named(&mut self, path: &'a ReferencePath, rest: PathRest<'_, 'a>) -> Result<Val<'a>, Error> {
        let Some(found) = self.scope.lookup(path.root, self.program, &path.last) else {
            return Err(self.unknown_root(self.program.name(path.root), rest.span));
        };
        rest.answer.is_in(found.label);
        match found.entry {
            EntryRef::Definitions(definitions) => self.defined(definitions, found.scope, &rest),
            entry => self.entry(entry, rest),
        }
    }

    /// A path from what a name stands for.
    fn entry(&mut self, entry: EntryRef<'a>, rest: PathRest<'_, 'a>) -> Result<Val<'a>, Error> {
        let first = rest.steps.first();
        match entry {
            EntryRef::Plain(value) => rest.walk(value).map(Val::Ref),
            EntryRef::Output(envelope) => self.output(envelope, rest),
            EntryRef::Names(names) => self.of_names(names, rest),
            EntryRef::Item(item) => self.item(item, &rest),
            EntryRef::Paged(list) => match first {
                None => {
                    rest.answer.list = Some(list);
                    Ok(Value::NULL.into())
                }
                Some(first) => self.of_paged_list(list, first, &rest),
            },
            EntryRef::Lapsed(lapsed)
                if first.and_then(StepView::key).is_some_and(|name| lapsed.also.get(name).is_some()) =>
            {
                rest.walk(&lapsed.also).map(Val::Ref)
            }
            EntryRef::Promised(Promise { why, .. })
            | EntryRef::Unset(why)
            | EntryRef::Lapsed(Lapsed { why, .. }) => {
                Err(Error::new(ErrorKind::Unset { path: rest.text(), why: why.clone() }, rest.span))
            }
            // Definitions stand in a scope, never in a table of names.
            EntryRef::Definitions(_) => Err(self.unknown_root(&(rest.root)(), rest.span)),
        }
    }

    /// A path from a table of names.
    fn of_names(&mut self, names: &'a Scope, rest: PathRest<'_, 'a>) -> Result<Val<'a>, Error> {
        let Some(first) = rest.steps.first() else { return self.all_names(names, &rest) };
        let Some(found) = first.key().and_then(|name| names.find(name)) else {
            return Err(name_not_found(names, (rest.root)(), rest.steps));
        };
        rest.answer.is_in(found.label);
        let PathRest { root, steps, span, answer } = rest;
        let root = || steps.to(1).text(&root());
        self.entry(found.entry, PathRest { root: &root, steps: steps.after(1), span, answer })
    }

    /// A table of names as a value: an object of what each of them gives.
    fn all_names(&mut self, names: &'a Scope, rest: &PathRest<'_, 'a>) -> Result<Val<'a>, Error> {
        let PathRest { root, steps, span, .. } = *rest;
        let mut entries = Vec::new();
        for name in names.names() {
            let Some(found) = names.find(&name) else { continue };
            let mut answer = PathAnswer::default();
            let mut value = self.entry(found.entry, PathRest { root, steps, span, answer: &mut answer })?;
            if let Some(list) = answer.list {
                value = self.read_all(list, span)?.into();
            }
            entries.push((name, value.clone()));
        }
        Value::object(entries).map(Val::Own).map_err(|oversized| Error::oversized(oversized, span))
    }

    /// A path from an item: in dot form the engine's names win.
    fn item(&mut self, item: &'a EngineItem, rest: &PathRest<'_, 'a>) -> Result<Val<'a>, Error> {
        if let Some(StepView::Name(name)) = rest.steps.first()
            && let Some(own) = item.own.get(name)
        {
            if item.value.get(name).is_some() {
                let root = (rest.root)();
                let message =
                    format!("`{root}.{name}` is the engine's, and the item has a field of that name");
                let hint = format!("the item's own is `{root}[\"{name}\"]`");
                self.session.warn("item-field-hidden", rest.span, message, Some(hint));
            }
            return rest.walk_on(own).map(Val::Ref);
        }
        rest.walk(&item.value).map(Val::Ref)
    }

    /// A path from elements: the first step is an index.
    fn of_paged_list(
        &mut self,
        list: &'a dyn PagedList,
        first: StepView<'a>,
        rest: &PathRest<'_, 'a>,
    ) -> Result<Val<'a>, Error> {
        let PathRest { root, steps, .. } = *rest;
        let stream = ElementStream::new(list, rest.span);
        let index = match first {
            StepView::Index(index) => index,
            StepView::Digits(name) => digits(name),
            step => return Err(self.step_into_paged_list(&stream, root(), step, steps.span())?),
        };
        let Some(found) = self.element_at(&stream, index)? else {
            let index = if let StepView::Digits(name) = first { name.into() } else { eco_format!("{index}") };
            let kind = ErrorKind::IndexNotFound { path: root(), index, len: stream.len().unwrap_or(0) };
            return Err(Error::new(kind, steps.span()));
        };
        rest.walk_on(&found).map(|value| Val::Own(value.clone()))
    }

    /// The error of a step into elements that is no index.
    #[cold]
    fn step_into_paged_list(
        &mut self,
        stream: &ElementStream<'a>,
        path: String,
        step: StepView<'_>,
        span: Span,
    ) -> Result<Error, Error> {
        // The first element shows what is meant.
        let first = self.list(stream, 0..1, span)?;
        let hint = step_hint(&path, step, &first);
        let kind =
            ErrorKind::StepIntoType { path, step: step.to_string(), types: Types::one(Type::List), hint };
        Ok(Error::new(kind, span))
    }

    /// The value of a path without asking the world or evaluating definitions.
    pub(super) fn peek(&self, path: &ReferencePath) -> Option<&'a Value> {
        let steps = self.program.steps(path.steps);
        match self.scope.lookup(path.root, self.program, &path.last)?.entry {
            EntryRef::Plain(value) => follow(value, steps),
            EntryRef::Output(envelope) => match steps.first() {
                None => Some(&envelope.value),
                Some(StepView::Name("value" | "result")) => follow(&envelope.value, steps.after(1)),
                Some(StepView::Name("meta")) => follow(&envelope.meta, steps.after(1)),
                Some(_) => None,
            },
            EntryRef::Item(item) => follow(&item.value, steps),
            EntryRef::Names(_)
            | EntryRef::Paged(_)
            | EntryRef::Definitions(_)
            | EntryRef::Unset(_)
            | EntryRef::Lapsed(_)
            | EntryRef::Promised(_) => None,
        }
    }

    #[cold]
    fn unknown_root(&self, name: &str, span: Span) -> Error {
        let mut available = self.scope.names();
        available.sort_unstable();
        let hint = match name {
            "prev" if self.program.text(span).starts_with("json") => Some(
                "`json` reads the output of the step before; of something else: `json(\"a.b\", source)`"
                    .to_owned(),
            ),
            "date" => Some("the time is a computed value: `${date:%Y-%m-%d}`".to_owned()),
            "file" | "cmd" | "json" => {
                Some(format!("a computed value has a text behind a colon: `${{{name}:...}}`"))
            }
            _ => None,
        };
        // The name alone, where it stands in the source as it is.
        let narrow = Span { start: span.start, end: span.start + u32::try_from(name.len()).unwrap_or(0) };
        let span = if self.program.text(narrow) == name { narrow } else { span };
        Error::new(ErrorKind::UnknownRoot { name: name.into(), available, hint }, span)
    }

    // ---- outputs ---------------------------------------------------------------------------------------

    fn nodes(&mut self, rest: PathRest<'_, 'a>) -> Result<Val<'a>, Error> {
        let PathRest { root, steps, span, answer } = rest;
        // The parser lets no path without a name of a node through.
        let id = steps.first().and_then(StepView::key).unwrap_or_default();
        let Some(found) = self.scope.output(id) else {
            let mut available = self.scope.output_ids();
            available.sort_unstable();
            return Err(Error::new(ErrorKind::NodeNotFound { id: id.into(), available }, span));
        };
        answer.is_in(found.label);
        let root = || steps.to(1).text(&root());
        self.entry(found.entry, PathRest { root: &root, steps: steps.after(1), span, answer })
    }

    /// A path into an envelope: `value` and its alias `result`, `meta`, and the older spellings.
    fn output(&mut self, envelope: &'a Envelope, rest: PathRest<'_, 'a>) -> Result<Val<'a>, Error> {
        let PathRest { root, steps, span, .. } = rest;
        let inside = steps.after(1);
        match steps.first().map(|step| step.key().unwrap_or_default()) {
            None => {
                rest.answer.is(|| format!("{}.value", root()));
                Ok(Val::Ref(&envelope.value))
            }
            Some(name @ ("value" | "result")) => {
                let inside =
                    if name == "result" { self.doubled_result(envelope, root, inside, span) } else { inside };
                rest.answer.is(|| inside.text(&format!("{}.value", root())));
                walk(&envelope.value, inside, || format!("{}.{name}", root())).map(Val::Ref)
            }
            Some("meta") => {
                rest.answer.is(|| inside.text(&format!("{}.meta", root())));
                meta(envelope, root, inside)
            }
            Some(name) => match envelope.also.as_ref().and_then(|also| also.get(name)) {
                Some(field) => rest.walk_on(field).map(Val::Ref),
                None => self.old_field(envelope, name, rest),
            },
        }
    }

    /// `.result.result` reads a field called `result` when there is one; else the second is the old spelling.
    fn doubled_result<'s>(
        &mut self,
        envelope: &Envelope,
        root: &dyn Fn() -> String,
        rest: Steps<'s>,
        span: Span,
    ) -> Steps<'s> {
        let doubled = matches!(rest.first(), Some(StepView::Name("result")));
        if !doubled || envelope.value.get("result").is_some() {
            return rest;
        }
        let result = format!("{}.result", root());
        self.session.warn(
            "deprecated-result-result",
            span,
            format!("`{}` is deprecated", rest.text(&result)),
            Some(format!("write `${{{}}}`", rest.after(1).text(&result))),
        );
        rest.after(1)
    }

    /// A field beside `value` and `meta`: one that moved to `meta`, or one of an output in an older shape.
    fn old_field(
        &mut self,
        envelope: &'a Envelope,
        name: &str,
        rest: PathRest<'_, 'a>,
    ) -> Result<Val<'a>, Error> {
        let PathRest { root, steps, span, answer } = rest;
        let root = root();
        let moved = if MOVED_TO_META.contains(&name) { envelope.meta.get(name) } else { None };
        let found = if let Some(value) = moved {
            Some((value, format!("{root}.meta.{name}")))
        } else {
            let legacy = envelope.legacy.as_ref().and_then(|legacy| follow(legacy, steps.to(1)));
            legacy.map(|value| (value, new_spelling(envelope, &root, name, steps.to(1))))
        };
        let Some((value, new)) = found else {
            return Err(not_in_envelope(envelope, &root, steps));
        };
        let new = match trigger_spelling(name, steps) {
            Some(spelling) => format!("{root}{spelling}"),
            None => steps.after(1).text(&new),
        };
        self.session.warn(
            "deprecated-field",
            span,
            format!("`{}` is deprecated", steps.text(&root)),
            Some(format!("write `${{{new}}}`")),
        );
        answer.is(|| new);
        walk(value, steps.after(1), || steps.to(1).text(&root)).map(Val::Ref)
    }

    // ---- the world and definitions ---------------------------------------------------------------------

    fn env(&mut self, rest: &mut PathRest<'_, 'a>) -> Result<Val<'a>, Error> {
        rest.answer.is_computed("env");
        // The parser lets no path without a name of a variable through.
        let name = rest.steps.first().and_then(StepView::key).unwrap_or_default();
        let value = self.session.compute("env", vec![Value::from(name)], rest.span)?;
        rest.walk_on(&value).map(|value| Val::Own(value.clone()))
    }

    fn uuid(&mut self, rest: &mut PathRest<'_, 'a>) -> Result<Val<'a>, Error> {
        rest.answer.is_computed("uuid");
        let value = self.session.compute("uuid", Vec::new(), rest.span)?;
        rest.walk(&value).map(|value| Val::Own(value.clone()))
    }

    fn defined(
        &mut self,
        definitions: &'a Definitions,
        scope: &'a Scope,
        rest: &PathRest<'_, 'a>,
    ) -> Result<Val<'a>, Error> {
        let PathRest { root, steps, span, .. } = *rest;
        if steps.steps.is_empty() {
            let values: Result<Vec<Value>, Error> = (0..definitions.len())
                .map(|at| self.session.definition(definitions, at, scope, span))
                .collect();
            let object = definitions.object(values?);
            return object.map(Val::Own).map_err(|oversized| Error::oversized(oversized, span));
        }
        let at = definition_position(definitions, root, steps)?;
        let value = self.session.definition(definitions, at, scope, span)?;
        rest.walk_on(&value).map(|value| Val::Own(value.clone()))
    }

    // ---- steps on values that have no root -------------------------------------------------------------

    pub(super) fn element_path(&mut self, id: NodeId, steps: NodeRange) -> Result<Val<'a>, Error> {
        let steps = self.program.steps(steps);
        match &self.element {
            Some(element) => walk(element, steps, || "it".to_owned())
                .map(|value| Val::Own(value.clone()))
                .map_err(|error| self.name_outside(error, id, steps)),
            // An element expression is only ever evaluated with an element.
            None => Err(self.unknown_root("it", self.program.span(id))),
        }
    }

    /// In an element expression a bare name is a field of the element. Where it would be a name of the scope, the hint says
    /// how that is written.
    #[cold]
    fn name_outside(&self, error: Error, id: NodeId, steps: Steps<'_>) -> Error {
        let ErrorKind::FieldNotFound { path, field, available, hint: None } = error.kind() else {
            return error;
        };
        let first = steps.first().and_then(StepView::key);
        if path != "it" || first != Some(field.as_str()) || self.scope.find(field).is_none() {
            return error;
        }
        let written = self.program.text(self.program.span(id));
        let hint = format!("a name outside of the element is a reference: `${{{written}}}`");
        let (path, field, available) = (path.clone(), field.clone(), available.clone());
        Error::new(ErrorKind::FieldNotFound { path, field, available, hint: Some(hint) }, error.span())
    }

    pub(super) fn walk_node(&mut self, base: NodeId, steps: NodeRange) -> Result<Val<'a>, Error> {
        let value = self.node(base)?;
        let steps = self.program.steps(steps);
        let prefix = || self.program.text(self.program.span(base)).to_owned();
        match value {
            Val::Ref(value) => walk(value, steps, prefix).map(Val::Ref),
            Val::Own(value) => walk(&value, steps, prefix).map(|value| Val::Own(value.clone())),
        }
    }

    pub(super) fn index(&mut self, id: NodeId, base: NodeId, index: NodeId) -> Result<Val<'a>, Error> {
        let value = match self.source(base)? {
            ValueOrElements::Elements(stream) if stream.len().is_some() => {
                return self.index_of_stream(id, &stream, base, index);
            }
            source => self.settled(base, source)?,
        };
        let key = self.node(index)?;
        let step = match (key.as_str(), key.as_i64()) {
            (Some(name), _) => StepView::Quoted(name),
            (_, Some(index)) => StepView::Index(index),
            // No list has an element there.
            _ if key.kind() == Type::Int && value.as_list().is_some() => {
                let path = self.program.text(self.program.span(base)).to_owned();
                let kind =
                    ErrorKind::IndexNotFound { path, index: key.to_string().into(), len: list_len(&value) };
                return Err(Error::new(kind, self.program.span(index)));
            }
            _ => {
                let expected = if value.as_object().is_some() { "text" } else { "an int" };
                let kind = ErrorKind::Expected {
                    place: "an index".to_owned(),
                    expected,
                    got: key.kind(),
                    hint: None,
                };
                return Err(Error::new(kind, self.program.span(index)).with_reads(self.reads(id)));
            }
        };
        let found = match (&value, step) {
            (Val::Ref(value), step) => taken(value, step).map(Val::Ref),
            (Val::Own(value), step) => taken(value, step).map(|value| Val::Own(value.clone())),
        };
        found.ok_or_else(|| {
            let path = self.program.text(self.program.span(base)).to_owned();
            stopped(path, step, "", self.program.span(index), &value)
        })
    }

    fn index_of_stream(
        &mut self,
        id: NodeId,
        stream: &ElementStream<'a>,
        base: NodeId,
        index: NodeId,
    ) -> Result<Val<'a>, Error> {
        let (key, span) = (self.node(index)?, self.program.span(index));
        let path = self.program.text(self.program.span(base)).to_owned();
        if let Some(name) = key.as_str() {
            return Err(self.step_into_paged_list(stream, path, StepView::Quoted(name), span)?);
        }
        if key.kind() != Type::Int {
            let place = "an index".to_owned();
            let kind = ErrorKind::Expected { place, expected: "an int", got: key.kind(), hint: None };
            return Err(Error::new(kind, span).with_reads(self.reads(id)));
        }
        let found = key.as_i64().map(|index| self.element_at(stream, index)).transpose()?.flatten();
        found.map(Val::Own).ok_or_else(|| {
            let (index, len) = (key.to_string().into(), stream.len().unwrap_or(0));
            Error::new(ErrorKind::IndexNotFound { path, index, len }, span)
        })
    }

    /// Elements or characters from one position to before another, clamped to what there is.
    pub(super) fn slice(
        &mut self,
        id: NodeId,
        base: NodeId,
        from: Option<NodeId>,
        to: Option<NodeId>,
    ) -> Result<ValueOrElements<'a>, Error> {
        let value = match self.source(base)? {
            ValueOrElements::Value(value) => value,
            ValueOrElements::Elements(stream) => return self.slice_of_stream(id, stream, from, to),
        };
        let from = self.bound(from)?;
        let to = self.bound(to)?;
        if let Some(items) = value.as_list() {
            let range = clamp(from, to, items.len());
            return Value::list(items[range].to_vec())
                .map(|list| ValueOrElements::Value(Val::Own(list)))
                .map_err(|oversized| self.oversized(id, oversized));
        }
        if let Some(text) = value.as_str() {
            let range = clamp(from, to, text.chars().count());
            let start = byte_of(text, range.start);
            let end = start + byte_of(&text[start..], range.len());
            return Ok(ValueOrElements::Value(Value::from(&text[start..end]).into()));
        }
        let kind = ErrorKind::Expected {
            place: "a slice".to_owned(),
            expected: "a list or text",
            got: value.kind(),
            hint: None,
        };
        Err(Error::new(kind, self.program.span(id)).with_reads(self.reads(id)))
    }

    fn slice_of_stream(
        &mut self,
        id: NodeId,
        mut stream: Box<ElementStream<'a>>,
        from: Option<NodeId>,
        to: Option<NodeId>,
    ) -> Result<ValueOrElements<'a>, Error> {
        let bounds = self.bound(from).and_then(|from| Ok((from, self.bound(to)?)));
        let (from, to) = match bounds {
            Ok(bounds) => bounds,
            Err(error) => return self.finish(&stream).and(Err(error)),
        };
        if let Some(len) = stream.len() {
            stream.narrow(&clamp(from, to, len));
            return Ok(ValueOrElements::Elements(stream));
        }
        let span = self.program.span(id);
        let from_start = from.is_none_or(|from| from >= 0) && to.is_none_or(|to| to >= 0);
        if from_start {
            let part = clamp(from, to, usize::MAX);
            return self.list(&stream, part, span).map(|list| ValueOrElements::Value(list.into()));
        }
        let list = self.list(&stream, ALL, span)?;
        let items = list.as_list().unwrap_or_default();
        Value::list(items[clamp(from, to, items.len())].to_vec())
            .map(|list| ValueOrElements::Value(list.into()))
            .map_err(|oversized| self.oversized(id, oversized))
    }

    fn bound(&mut self, node: Option<NodeId>) -> Result<Option<i64>, Error> {
        let Some(node) = node else { return Ok(None) };
        let value = self.node(node)?;
        match value.as_i64() {
            Some(bound) => Ok(Some(bound)),
            None if value.is_null() => Ok(None),
            None => {
                let kind = ErrorKind::Expected {
                    place: "the bound of a slice".to_owned(),
                    expected: "an int",
                    got: value.kind(),
                    hint: None,
                };
                Err(Error::new(kind, self.program.span(node)).with_reads(self.reads(node)))
            }
        }
    }

    // ---- trace -----------------------------------------------------------------------------------------

    fn trace(
        &mut self,
        path: &ReferencePath,
        steps: Steps<'_>,
        span: Span,
        answer: PathAnswer<'_>,
        value: Option<&Value>,
    ) {
        let resolution = Resolution {
            reference: self.program.text(span).into(),
            root: self.program.name(path.root).into(),
            first: steps.first().and_then(StepView::key).map(EcoString::from),
            path: answer.path.unwrap_or_else(|| steps.text(self.program.name(path.root))),
            scope: answer.scope,
            value: value.cloned(),
            is_paged: answer.list.is_some(),
            computed: answer.computed,
            span,
            origin: self.session.origin.as_deref().cloned(),
            within: self.session.within(),
            defaulted: false,
        };
        if let Some(trace) = self.session.trace() {
            trace.push(resolution);
        }
    }
}

/// The error of a path that no value which keeps the promise can have.
fn check_promise(promise: &Promise, root: &str, steps: Steps<'_>) -> Result<(), Error> {
    let known =
        |own: FieldTypes, name: &str| own.iter().find(|(own, _)| *own == name).map(|(_, types)| *types);
    let first = || (steps.to(1).text(root), steps.after(1));
    let name = steps.first().and_then(StepView::key);
    match (&promise.shape, name) {
        (PromisedShape::Value(shape), _) => check_shape(shape.get(), root, steps),
        (PromisedShape::Item { own, value }, name) => {
            let name = name.filter(|_| matches!(steps.first(), Some(StepView::Name(_))));
            match name.and_then(|name| known(own, name)) {
                Some(types) => {
                    let (path, rest) = first();
                    check_shape(&ValueShape::of_types(types), &path, rest)
                }
                None => check_shape(value.get(), root, steps),
            }
        }
        (PromisedShape::Output { .. }, None) if steps.first().is_none() => Ok(()),
        (PromisedShape::Output { value, .. }, Some(name @ ("value" | "result"))) => {
            let (path, rest) = first();
            // The second of two is an older spelling, where the value has no such field.
            let doubled = name == "result" && matches!(rest.first(), Some(StepView::Name("result")));
            let own = value.get().step(StepView::Name("result")).is_ok();
            check_shape(value.get(), &path, if doubled && !own { rest.after(1) } else { rest })
        }
        (PromisedShape::Output { meta, .. }, Some("meta")) => {
            let (path, rest) = first();
            check_shape(meta.get(), &path, rest)
        }
        (PromisedShape::Output { also, .. }, Some(name)) if known(also, name).is_some() => {
            let (path, rest) = first();
            check_shape(&ValueShape::of_types(known(also, name).unwrap_or(Types::ANY)), &path, rest)
        }
        (PromisedShape::Output { .. }, Some(name)) if MOVED_TO_META.contains(&name) => Ok(()),
        (PromisedShape::Output { value, also, .. }, _) => {
            let nothing = |name: &EcoString| (name.clone(), Value::NULL);
            let also = Value::object(also.iter().map(|(name, _)| nothing(&EcoString::from(*name)))).ok();
            let fields = value.get().fields().unwrap_or_default().iter().map(|(name, _)| nothing(name));
            let value = Value::object(fields).unwrap_or_default();
            let envelope = Envelope { also, ..Envelope::new(value, Value::NULL) };
            Err(not_in_envelope(&envelope, root, steps))
        }
    }
}

/// The error of steps that no value of a shape has.
fn check_shape(shape: &ValueShape, root: &str, steps: Steps<'_>) -> Result<(), Error> {
    let mut shape = shape.clone();
    for (taken, step) in steps.views().enumerate() {
        match shape.step(step) {
            Ok(next) => shape = next,
            Err(refusal) => {
                return Err(refused_step(refusal, steps.to(taken).text(root), steps.after(taken)));
            }
        }
    }
    Ok(())
}

/// The error of the first of these steps, which no value of the shape of `path` has.
pub(super) fn refused_step(refusal: StepRefusal, path: String, steps: Steps<'_>) -> Error {
    // A step was refused, so there is one.
    let step = steps.first().unwrap_or(StepView::Index(0));
    let kind = match refusal {
        StepRefusal::NoField(available) => {
            let field = step.key().unwrap_or_default().into();
            ErrorKind::FieldNotFound { path, field, available, hint: None }
        }
        StepRefusal::NoElement(len) => {
            let index = match step {
                StepView::Index(index) => eco_format!("{index}"),
                step => step.key().unwrap_or_default().into(),
            };
            ErrorKind::IndexNotFound { path, index, len }
        }
        StepRefusal::Type { types, fields } => {
            let sample = match types.each().next().unwrap_or(Type::Null) {
                Type::Text => Value::from(""),
                Type::Object => Value::empty_object(),
                Type::List => {
                    let first = Value::object(fields.into_iter().map(|name| (name, Value::NULL)));
                    first.and_then(|first| Value::list(vec![first])).unwrap_or_default()
                }
                _ => Value::NULL,
            };
            let hint = step_hint(&path, step, &sample);
            ErrorKind::StepIntoType { path, step: step.to_string(), types, hint }
        }
    };
    Error::new(kind, steps.span())
}

fn name_not_found(names: &Scope, path: String, steps: Steps<'_>) -> Error {
    let field = steps.to(1).text("").trim_start_matches('.').into();
    let available = names.names();
    Error::new(ErrorKind::FieldNotFound { path, field, available, hint: None }, steps.span())
}

/// Which definition the first step names.
fn definition_position(
    definitions: &Definitions,
    root: &dyn Fn() -> String,
    steps: Steps<'_>,
) -> Result<usize, Error> {
    let key = steps.first().and_then(StepView::key).map(Key::new);
    key.and_then(|key| definitions.position(&key)).ok_or_else(|| {
        let available = definitions.names();
        let field = steps.to(1).text("").trim_start_matches('.').into();
        let kind = ErrorKind::FieldNotFound { path: root(), field, available, hint: None };
        Error::new(kind, steps.span())
    })
}

/// A path on its way: what is left of it, and who answers for it.
struct PathRest<'p, 'a> {
    /// How it is written up to here.
    root: &'p dyn Fn() -> String,
    /// The steps that are left.
    steps: Steps<'a>,
    /// The whole path in the source.
    span: Span,
    /// Who answered, as far as that is known.
    answer: &'p mut PathAnswer<'a>,
}

impl PathRest<'_, '_> {
    fn text(&self) -> String {
        self.steps.text(&(self.root)())
    }

    /// The value at the end of all steps.
    fn walk<'v>(&self, value: &'v Value) -> Result<&'v Value, Error> {
        walk(value, self.steps, self.root)
    }

    /// The value at the end of the steps behind the first, which led to this value.
    fn walk_on<'v>(&self, value: &'v Value) -> Result<&'v Value, Error> {
        walk(value, self.steps.after(1), || self.steps.to(1).text(&(self.root)()))
    }
}

/// A list that is read page by page as a trace shows it: the list itself if one page holds it, else how long
/// it is.
fn shown_list(list: &dyn PagedList) -> Value {
    let whole = list
        .page(0)
        .ok()
        .filter(|page| page.as_list().map(<[Value]>::len) == usize::try_from(list.len()).ok());
    whole.unwrap_or_else(|| counted(usize::try_from(list.len()).unwrap_or(usize::MAX)))
}

/// Who answered a reference, for the trace.
#[derive(Default)]
struct PathAnswer<'a> {
    traced: bool,
    scope: EcoString,
    path: Option<String>,
    computed: bool,
    /// The elements that the path leads to.
    list: Option<&'a dyn PagedList>,
}

impl PathAnswer<'_> {
    /// The scope that has the name, when somebody wants to know.
    fn is_in(&mut self, scope: &EcoString) {
        if self.traced {
            self.scope = scope.clone();
        }
    }

    fn is_computed(&mut self, kind: &str) {
        self.computed = true;
        self.scope = kind.into();
    }

    /// The path that was meant, when somebody wants to know.
    fn is(&mut self, path: impl FnOnce() -> String) {
        if self.traced {
            self.path = Some(path());
        }
    }
}

/// The value at the end of the steps; the error says how far they led from `prefix`.
fn walk<'v>(value: &'v Value, steps: Steps<'_>, prefix: impl FnOnce() -> String) -> Result<&'v Value, Error> {
    steps_into(value, steps)
        .map_err(|(taken, at)| step_error(steps.to(taken).text(&prefix()), steps.after(taken), at))
}

fn meta<'a>(envelope: &'a Envelope, root: &dyn Fn() -> String, rest: Steps<'_>) -> Result<Val<'a>, Error> {
    if let (1, Some(name)) = (rest.steps.len(), rest.first().and_then(StepView::key))
        && envelope.meta.get(name).is_none()
        && OPTIONAL_META.contains(&name)
    {
        return Ok(Value::NULL.into());
    }
    walk(&envelope.meta, rest, || format!("{}.meta", root())).map(Val::Ref)
}

#[cold]
fn not_in_envelope(envelope: &Envelope, root: &str, steps: Steps<'_>) -> Error {
    let written = steps.to(1).text("");
    let name = steps.first().and_then(StepView::key).unwrap_or_default();
    let keys = |value: &Value| -> Vec<EcoString> {
        let keys = value.as_object().map(|object| object.keys().as_slice()).unwrap_or_default();
        keys.iter().map(|key| key.name().clone()).collect()
    };
    let fields = keys(&envelope.value);
    let near = crate::diag::nearest(name, fields.iter().map(EcoString::as_str));
    let mut available = ["value", "result", "meta"].map(EcoString::from).to_vec();
    available.extend(envelope.also.as_ref().map(keys).unwrap_or_default());
    let own = crate::diag::nearest(name, available.iter().map(EcoString::as_str));
    let hint = if follow(&envelope.value, steps).is_some() {
        words::did_you_mean(format_args!("${{{root}.result{}}}", steps.text("")))
    } else if MOVED_TO_META.contains(&name) {
        words::did_you_mean(format_args!("${{{root}.meta.{name}}}"))
    } else if let Some(own) = own {
        words::did_you_mean(format_args!("${{{root}.{own}}}"))
    } else if let Some(near) = near {
        let mut path = format!("{root}.result");
        crate::syntax::push_key(&mut path, near);
        words::did_you_mean(format_args!("${{{path}}}"))
    } else {
        format!("an output has `value`, its alias `result`, and `meta`: `${{{root}.result{written}}}`")
    };
    let field = if name.is_empty() { written.as_str().into() } else { name.into() };
    let kind = ErrorKind::FieldNotFound { path: root.to_owned(), field, available, hint: Some(hint) };
    Error::new(kind, steps.span())
}

/// Where a field of an older shape stands now.
fn new_spelling(envelope: &Envelope, root: &str, name: &str, step: Steps<'_>) -> String {
    if follow(&envelope.value, step).is_some() {
        return step.text(&format!("{root}.result"));
    }
    if envelope.meta.get(name).is_some() {
        return format!("{root}.meta.{name}");
    }
    format!("{root}.result")
}

/// Where what stood in the `config` of a trigger's output stands now.
fn trigger_spelling(name: &str, steps: Steps<'_>) -> Option<String> {
    let mut rest = steps.after(1).views();
    match (name, rest.next(), rest.next()) {
        ("config", Some(StepView::Name("trigger")), Some(StepView::Name("type"))) => {
            Some(steps.after(3).text(".meta.trigger_type"))
        }
        ("config", Some(StepView::Name("trigger")), Some(StepView::Name("config"))) => {
            Some(steps.after(3).text(".meta.trigger_config"))
        }
        ("config", ..) => Some(".meta".to_owned()),
        _ => None,
    }
}

/// One step from a value.
fn taken<'v>(value: &'v Value, step: StepView<'_>) -> Option<&'v Value> {
    match step {
        StepView::Index(index) => value.as_list().and_then(|items| element(items, index)),
        StepView::Name(name) | StepView::Quoted(name) | StepView::Digits(name) => value.get(name),
    }
}

/// The error of the first of these steps, which cannot be taken from `at`, the value of `path`.
#[cold]
fn step_error(path: String, steps: Steps<'_>, at: &Value) -> Error {
    // Steps that stopped have one that could not be taken.
    let step = steps.first().unwrap_or(StepView::Index(0));
    stopped(path, step, &steps.after(1).text(""), steps.span(), at)
}

/// The error of a step that cannot be taken from `at`; `rest` is what was to follow it.
#[cold]
fn stopped(path: String, step: StepView<'_>, rest: &str, span: Span, at: &Value) -> Error {
    let written = step.to_string();
    let read = ValueRead { reference: path.as_str().into(), value: at.clone() };
    let kind = match (step, at.kind()) {
        (_, Type::Null) => {
            return Error::new(ErrorKind::StepIntoNull { path, step: format!("{written}{rest}") }, span);
        }
        (StepView::Name(key) | StepView::Quoted(key) | StepView::Digits(key), Type::Object) => {
            let keys = at.as_object().map(|object| object.keys().as_slice()).unwrap_or_default();
            let available = keys.iter().map(|key| key.name().clone()).collect();
            return Error::new(
                ErrorKind::FieldNotFound { path, field: key.into(), available, hint: None },
                span,
            );
        }
        (StepView::Index(index), Type::List) => {
            ErrorKind::IndexNotFound { path, index: index.to_string().into(), len: list_len(at) }
        }
        (StepView::Digits(name), Type::List) => {
            ErrorKind::IndexNotFound { path, index: name.into(), len: list_len(at) }
        }
        (step, kind) => {
            let hint = step_hint(&path, step, at);
            ErrorKind::StepIntoType { path, step: written, types: Types::one(kind), hint }
        }
    };
    Error::new(kind, span).with_reads(vec![read])
}

fn list_len(value: &Value) -> usize {
    value.as_list().map_or(0, <[Value]>::len)
}

/// What to write instead of a step that a type does not have.
fn step_hint(path: &str, step: StepView<'_>, at: &Value) -> Option<String> {
    match (step, at.kind()) {
        (StepView::Index(index), Type::Object) => Some(format!("a key is text: `{path}[\"{index}\"]`")),
        (StepView::Name(key) | StepView::Quoted(key), Type::List) => {
            at.as_list().and_then(<[Value]>::first)?.get(key)?;
            Some(format!("of one element: `{path}[0].{key}`; of all: `{path} | collect(\"{key}\")`"))
        }
        (StepView::Index(_) | StepView::Digits(_), Type::Text) => {
            Some(format!("a part of a text is a slice: `{path}[0:1]`"))
        }
        (step, Type::Text) => Some(format!("for JSON in a text write `from_json({path}){step}`")),
        _ => None,
    }
}

fn clamp(from: Option<i64>, to: Option<i64>, len: usize) -> std::ops::Range<usize> {
    let position = |bound: i64| {
        let size = usize::try_from(bound.unsigned_abs()).unwrap_or(usize::MAX);
        if bound < 0 { len.saturating_sub(size) } else { size.min(len) }
    };
    let start = from.map_or(0, position);
    let end = to.map_or(len, position);
    start..end.max(start)
}

fn byte_of(text: &str, char: usize) -> usize {
    text.char_indices().nth(char).map_or(text.len(), |(at, _)| at)
}
