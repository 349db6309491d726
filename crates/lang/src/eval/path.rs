//! Paths: who answers for a root, envelopes and their aliases, steps into values, indexes and slices.

use ecow::EcoString;

use super::{Eval, Resolution, Val};
use crate::diag::Span;
use crate::diag::error::{Error, ErrorKind};
use crate::document::Definitions;
use crate::envelope::{Envelope, MOVED_TO_META, OPTIONAL_META};
use crate::limits::Limit;
use crate::scope::{EntryRef, Scope};
use crate::syntax::{NodeId, Path, RootKind, Run, Step, StepKind};
use crate::value::{Key, Type, Value};

/// Follows steps as far as they go: the value at the end, or the value where they stopped and how many were
/// taken.
#[inline]
fn steps_into<'v>(mut value: &'v Value, steps: &[Step]) -> Result<&'v Value, (usize, &'v Value)> {
    for (taken, step) in steps.iter().enumerate() {
        let next = match &step.kind {
            StepKind::Name(key) | StepKind::Quoted(key) => {
                value.as_object().and_then(|object| object.get(key))
            }
            StepKind::Digits(key, index) => match value.as_list() {
                Some(items) => element(items, *index),
                None => value.as_object().and_then(|object| object.get(key)),
            },
            StepKind::Index(index) => value.as_list().and_then(|items| element(items, *index)),
        };
        match next {
            Some(next) => value = next,
            None => return Err((taken, value)),
        }
    }
    Ok(value)
}

/// The value at the end of the steps, when there is one.
pub(super) fn follow<'v>(value: &'v Value, steps: &[Step]) -> Option<&'v Value> {
    steps_into(value, steps).ok()
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

impl<'a> Eval<'_, '_, 'a> {
    /// A path from a root of the scope.
    #[inline]
    pub(super) fn path(&mut self, path: &'a Path, id: NodeId) -> Result<Val<'a>, Error> {
        if path.kind == RootKind::Named
            && self.session.trace.is_none()
            && let Some(found) = self.scope.lookup(&path.root)
            && let EntryRef::Plain(value) = found.entry
        {
            let steps = self.program.steps(path.steps);
            return match steps_into(value, steps) {
                Ok(value) => Ok(Val::Ref(value)),
                Err((taken, at)) => Err(self.step_error(path.root.as_str(), steps, taken, at)),
            };
        }
        self.any_path(path, id)
    }

    /// Whether a path leads to a value, as far as that can be told without evaluating a definition.
    pub(super) fn check_path(&mut self, path: &'a Path, id: NodeId) -> Result<(), Error> {
        if path.kind == RootKind::Named
            && let Some(found) = self.scope.lookup(&path.root)
            && let EntryRef::Definitions(definitions) = found.entry
        {
            let first = self.program.steps(path.steps).first();
            let at = first.map(|first| definition_position(definitions, path.root.as_str(), first));
            return at.transpose().map(|_| ());
        }
        self.path(path, id).map(|_| ())
    }

    #[inline(never)]
    fn any_path(&mut self, path: &'a Path, id: NodeId) -> Result<Val<'a>, Error> {
        let span = self.program.span(id);
        let steps = self.program.steps(path.steps);
        let mut answer = Answer { scope: EcoString::new(), path: None, computed: false };
        let result = match path.kind {
            RootKind::Env => self.env(steps, span, &mut answer),
            RootKind::Uuid => {
                answer.computed = true;
                answer.scope = "uuid".into();
                self.computed_root("uuid", steps, span)
            }
            RootKind::Nodes => self.nodes(steps, span, &mut answer),
            RootKind::Named => self.named(path, steps, span, &mut answer),
        };
        if self.session.trace.is_some() {
            self.trace(path, steps, span, answer, result.as_deref().ok());
        }
        result
    }

    fn named(
        &mut self,
        path: &'a Path,
        steps: &'a [Step],
        span: Span,
        answer: &mut Answer,
    ) -> Result<Val<'a>, Error> {
        let Some(found) = self.scope.lookup(&path.root) else {
            return Err(self.unknown_root(&path.root, span));
        };
        answer.scope = found.label.clone();
        let root = path.root.as_str();
        match found.entry {
            EntryRef::Plain(value) => self.walk(value, root, steps).map(Val::Ref),
            EntryRef::Output(envelope) => self.output(envelope, root, steps, span, answer),
            EntryRef::Definitions(definitions) => self.defined(definitions, root, steps, found.scope, span),
            EntryRef::Unset(why) => {
                Err(Error::new(ErrorKind::Unset { path: path_text(root, steps), why: why.clone() }, span))
            }
        }
    }

    fn walk<'v>(&self, value: &'v Value, prefix: &str, steps: &[Step]) -> Result<&'v Value, Error> {
        steps_into(value, steps).map_err(|(taken, at)| self.step_error(prefix, steps, taken, at))
    }

    /// The value of a path without asking the world or evaluating definitions.
    pub(super) fn peek(&self, path: &Path) -> Option<&'a Value> {
        let steps = self.program.steps(path.steps);
        match self.scope.lookup(&path.root)?.entry {
            EntryRef::Plain(value) => follow(value, steps),
            EntryRef::Output(envelope) => match steps.split_first() {
                None => Some(&envelope.value),
                Some((Step { kind: StepKind::Name(key), .. }, rest)) => match key.as_str() {
                    "value" | "result" => follow(&envelope.value, rest),
                    "meta" => follow(&envelope.meta, rest),
                    _ => None,
                },
                Some(_) => None,
            },
            EntryRef::Definitions(_) | EntryRef::Unset(_) => None,
        }
    }

    #[cold]
    fn unknown_root(&self, root: &Key, span: Span) -> Error {
        let name = root.name().clone();
        let mut available = self.scope.names();
        available.sort_unstable();
        let span = Span { start: span.start, end: span.start + u32::try_from(name.len()).unwrap_or(0) };
        let hint =
            available.is_empty().then(|| "give names with `--data`, `--outputs` or `--set`".to_owned());
        Error::new(ErrorKind::UnknownRoot { name, available, hint }, span)
    }

    // ---- outputs ---------------------------------------------------------------------------------------

    fn nodes(&mut self, steps: &'a [Step], span: Span, answer: &mut Answer) -> Result<Val<'a>, Error> {
        let Some((
            Step { kind: StepKind::Name(id) | StepKind::Quoted(id) | StepKind::Digits(id, _), .. },
            rest,
        )) = steps.split_first()
        else {
            // The parser lets no other first step through.
            return Err(self.unknown_root(&Key::new("nodes"), span));
        };
        let Some((envelope, label)) = self.scope.output(id) else {
            let mut available = self.scope.output_ids();
            available.sort_unstable();
            return Err(Error::new(ErrorKind::NodeNotFound { id: id.name().clone(), available }, span));
        };
        answer.scope = label.clone();
        let root = path_text("nodes", &steps[..1]);
        self.output(envelope, &root, rest, span, answer)
    }

    /// A path into an envelope: `value` and its alias `result`, `meta`, and the older spellings.
    fn output(
        &mut self,
        envelope: &'a Envelope,
        root: &str,
        steps: &'a [Step],
        span: Span,
        answer: &mut Answer,
    ) -> Result<Val<'a>, Error> {
        let Some((first, rest)) = steps.split_first() else {
            answer.path = Some(format!("{root}.value"));
            return Ok(Val::Ref(&envelope.value));
        };
        let name = match &first.kind {
            StepKind::Name(key) | StepKind::Quoted(key) => key.as_str(),
            StepKind::Digits(key, _) => key.as_str(),
            StepKind::Index(_) => "",
        };
        match name {
            "value" | "result" => {
                let rest =
                    if name == "result" { self.doubled_result(envelope, root, rest, span) } else { rest };
                answer.path = Some(path_text(&format!("{root}.value"), rest));
                self.walk(&envelope.value, &format!("{root}.{name}"), rest).map(Val::Ref)
            }
            "meta" => {
                answer.path = Some(path_text(&format!("{root}.meta"), rest));
                self.meta(envelope, root, rest)
            }
            _ => self.old_field(envelope, root, name, steps, span, answer),
        }
    }

    /// `.result.result` reads a field called `result` when there is one; else the second is the old spelling.
    fn doubled_result<'s>(
        &mut self,
        envelope: &Envelope,
        root: &str,
        rest: &'s [Step],
        span: Span,
    ) -> &'s [Step] {
        let doubled =
            matches!(rest.first(), Some(Step { kind: StepKind::Name(key), .. }) if key.as_str() == "result");
        if !doubled || envelope.value.get("result").is_some() {
            return rest;
        }
        let new = path_text(&format!("{root}.result"), &rest[1..]);
        self.session.warn(
            "deprecated-result-result",
            span,
            format!("`{}` is deprecated", path_text(&format!("{root}.result"), rest)),
            Some(format!("write `${{{new}}}`")),
        );
        &rest[1..]
    }

    fn meta(&mut self, envelope: &'a Envelope, root: &str, rest: &[Step]) -> Result<Val<'a>, Error> {
        if let [Step { kind: StepKind::Name(key) | StepKind::Quoted(key), .. }] = rest
            && envelope.meta.get(key.as_str()).is_none()
            && OPTIONAL_META.contains(&key.as_str())
        {
            return Ok(Value::NULL.into());
        }
        self.walk(&envelope.meta, &format!("{root}.meta"), rest).map(Val::Ref)
    }

    /// A field beside `value` and `meta`: one that moved to `meta`, or one of an output in an older shape.
    fn old_field(
        &mut self,
        envelope: &'a Envelope,
        root: &str,
        name: &str,
        steps: &'a [Step],
        span: Span,
        answer: &mut Answer,
    ) -> Result<Val<'a>, Error> {
        let rest = &steps[1..];
        let moved = MOVED_TO_META.contains(&name) && envelope.meta.get(name).is_some();
        let found = if moved {
            Some((envelope.meta.get(name), format!("{root}.meta.{name}")))
        } else {
            let legacy = envelope.legacy.as_ref().and_then(|legacy| follow(legacy, &steps[..1]));
            legacy.map(|value| (Some(value), new_spelling(envelope, root, name, &steps[..1])))
        };
        let Some((Some(value), new)) = found else {
            return Err(self.not_in_envelope(envelope, root, steps));
        };
        let old = path_text(root, steps);
        self.session.warn(
            "deprecated-field",
            span,
            format!("`{old}` is deprecated"),
            Some(format!("write `${{{}}}`", path_text(&new, rest))),
        );
        answer.path = Some(path_text(&new, rest));
        self.walk(value, &path_text(root, &steps[..1]), rest).map(Val::Ref)
    }

    #[cold]
    fn not_in_envelope(&self, envelope: &Envelope, root: &str, steps: &[Step]) -> Error {
        let written = path_text("", &steps[..1]);
        let in_value = follow(&envelope.value, steps).is_some();
        let hint = if in_value {
            format!("did you mean `${{{root}.result{}}}`", path_text("", steps))
        } else {
            format!("an output has `value`, its alias `result`, and `meta`: `${{{root}.result{written}}}`")
        };
        let field = written.trim_start_matches('.').into();
        let available = ["value", "result", "meta"].map(EcoString::from).to_vec();
        let kind = ErrorKind::FieldNotFound { path: root.to_owned(), field, available, hint: Some(hint) };
        Error::new(kind, steps[0].span)
    }

    // ---- the world and definitions ---------------------------------------------------------------------

    fn env(&mut self, steps: &[Step], span: Span, answer: &mut Answer) -> Result<Val<'a>, Error> {
        answer.computed = true;
        answer.scope = "env".into();
        let Some((
            Step { kind: StepKind::Name(name) | StepKind::Quoted(name) | StepKind::Digits(name, _), .. },
            rest,
        )) = steps.split_first()
        else {
            // The parser lets no other first step through.
            return Err(self.unknown_root(&Key::new("env"), span));
        };
        let value = self.session.compute("env", vec![Value::from(name.name().clone())], span)?;
        self.walk(&value, &path_text("env", &steps[..1]), rest).map(|value| Val::Own(value.clone()))
    }

    fn computed_root(&mut self, name: &str, steps: &[Step], span: Span) -> Result<Val<'a>, Error> {
        let value = self.session.compute(name, Vec::new(), span)?;
        self.walk(&value, name, steps).map(|value| Val::Own(value.clone()))
    }

    fn defined(
        &mut self,
        definitions: &'a Definitions,
        root: &str,
        steps: &[Step],
        scope: &'a Scope,
        span: Span,
    ) -> Result<Val<'a>, Error> {
        let Some((first, rest)) = steps.split_first() else {
            let values: Result<Vec<Value>, Error> = (0..definitions.len())
                .map(|at| self.session.definition(definitions, at, scope, span))
                .collect();
            return definitions
                .object(values?)
                .map(Val::Own)
                .map_err(|_| self.session.limit(Limit::DataDepth, span));
        };
        let at = definition_position(definitions, root, first)?;
        let value = self.session.definition(definitions, at, scope, span)?;
        self.walk(&value, &path_text(root, &steps[..1]), rest).map(|value| Val::Own(value.clone()))
    }

    // ---- steps on values that have no root -------------------------------------------------------------

    pub(super) fn element_path(&mut self, id: NodeId, steps: Run) -> Result<Val<'a>, Error> {
        let steps = self.program.steps(steps);
        match &self.element {
            Some(element) => self.walk(element, "it", steps).map(|value| Val::Own(value.clone())),
            // An element expression is only ever evaluated with an element.
            None => Err(self.unknown_root(&Key::new("it"), self.program.span(id))),
        }
    }

    pub(super) fn walk_node(&mut self, base: NodeId, steps: Run) -> Result<Val<'a>, Error> {
        let value = self.node(base)?;
        let prefix = self.program.text(self.program.span(base));
        let steps = self.program.steps(steps);
        match value {
            Val::Ref(value) => self.walk(value, prefix, steps).map(Val::Ref),
            Val::Own(value) => self.walk(&value, prefix, steps).map(|value| Val::Own(value.clone())),
        }
    }

    pub(super) fn index(&mut self, id: NodeId, base: NodeId, index: NodeId) -> Result<Val<'a>, Error> {
        let value = self.node(base)?;
        let key = self.node(index)?;
        let span = self.program.span(index);
        let kind = match (key.as_str(), key.as_i64()) {
            (Some(name), _) => StepKind::Quoted(Key::new(name)),
            (_, Some(index)) => StepKind::Index(index),
            _ => {
                let expected = if super::is_object(&value) { "text" } else { "an int" };
                let kind = ErrorKind::Expected {
                    place: "an index".to_owned(),
                    expected,
                    got: key.kind(),
                    hint: None,
                };
                return Err(Error::new(kind, span).with_reads(self.reads(id)));
            }
        };
        let steps = [Step { kind, span }];
        let prefix = self.program.text(self.program.span(base));
        match value {
            Val::Ref(value) => self.walk(value, prefix, &steps).map(Val::Ref),
            Val::Own(value) => self.walk(&value, prefix, &steps).map(|value| Val::Own(value.clone())),
        }
    }

    /// Elements or characters from one position to before another, clamped to what there is.
    pub(super) fn slice(
        &mut self,
        id: NodeId,
        base: NodeId,
        from: Option<NodeId>,
        to: Option<NodeId>,
    ) -> Result<Val<'a>, Error> {
        let value = self.node(base)?;
        let from = self.bound(from)?;
        let to = self.bound(to)?;
        if let Some(items) = value.as_list() {
            let range = clamp(from, to, items.len());
            return Value::list(items[range].to_vec()).map(Val::Own).map_err(|_| self.too_deep(id));
        }
        if let Some(text) = value.as_str() {
            let range = clamp(from, to, text.chars().count());
            let start = byte_of(text, range.start);
            let end = start + byte_of(&text[start..], range.len());
            return Ok(Value::from(&text[start..end]).into());
        }
        let kind = ErrorKind::Expected {
            place: "a slice".to_owned(),
            expected: "a list or text",
            got: value.kind(),
            hint: None,
        };
        Err(Error::new(kind, self.program.span(id)).with_reads(self.reads(id)))
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

    /// The error of a step that could not be taken from `at`.
    #[cold]
    fn step_error(&self, prefix: &str, steps: &[Step], taken: usize, at: &Value) -> Error {
        let path = path_text(prefix, &steps[..taken]);
        let step = &steps[taken];
        let written = path_text("", std::slice::from_ref(step));
        let kind = match (&step.kind, at.kind()) {
            (_, Type::Null) => ErrorKind::StepIntoNull { path, step: path_text("", &steps[taken..]) },
            (StepKind::Name(key) | StepKind::Quoted(key) | StepKind::Digits(key, _), Type::Object) => {
                let keys = at.as_object().map(|object| object.keys().as_slice()).unwrap_or_default();
                let available = keys.iter().map(|key| key.name().clone()).collect();
                ErrorKind::FieldNotFound { path, field: key.name().clone(), available, hint: None }
            }
            (StepKind::Index(index) | StepKind::Digits(_, index), Type::List) => {
                let len = at.as_list().map_or(0, <[Value]>::len);
                ErrorKind::IndexNotFound { path, index: *index, len }
            }
            (StepKind::Index(index), Type::Object) => {
                let hint = Some(format!("a key is text: `{path}[\"{index}\"]`"));
                ErrorKind::StepIntoType { path, step: written, kind: Type::Object, hint }
            }
            (StepKind::Name(key) | StepKind::Quoted(key), Type::List) => {
                let hint = list_step_hint(&path, key.as_str(), at);
                ErrorKind::StepIntoType { path, step: written, kind: Type::List, hint }
            }
            (StepKind::Index(_) | StepKind::Digits(..), Type::Text) => {
                let hint = Some(format!("a part of a text is a slice: `{path}[0:1]`"));
                ErrorKind::StepIntoType { path, step: written, kind: Type::Text, hint }
            }
            (_, Type::Text) => {
                let hint = Some(format!("for JSON in a text write `from_json({path}){written}`"));
                ErrorKind::StepIntoType { path, step: written, kind: Type::Text, hint }
            }
            (_, kind) => ErrorKind::StepIntoType { path, step: written, kind, hint: None },
        };
        let shows_value = !matches!(kind, ErrorKind::FieldNotFound { .. });
        let error = Error::new(kind, step.span);
        if !shows_value || at.is_null() {
            return error;
        }
        let reference = path_text(prefix, &steps[..taken]).into();
        error.with_reads(vec![crate::diag::error::Read { reference, value: at.clone() }])
    }

    // ---- trace -----------------------------------------------------------------------------------------

    fn trace(&mut self, path: &Path, steps: &[Step], span: Span, answer: Answer, value: Option<&Value>) {
        let resolution = Resolution {
            reference: self.program.text(span).into(),
            path: answer.path.unwrap_or_else(|| path_text(path.root.as_str(), steps)),
            scope: answer.scope,
            value: value.cloned(),
            computed: answer.computed,
            span,
            origin: self.session.origin.clone(),
        };
        if let Some(trace) = &mut self.session.trace {
            trace.push(resolution);
        }
    }
}

/// Which definition a step names.
fn definition_position(definitions: &Definitions, root: &str, step: &Step) -> Result<usize, Error> {
    let key = match &step.kind {
        StepKind::Name(key) | StepKind::Quoted(key) | StepKind::Digits(key, _) => Some(key),
        StepKind::Index(_) => None,
    };
    key.and_then(|key| definitions.position(key)).ok_or_else(|| {
        let available = definitions.names();
        let field = path_text("", std::slice::from_ref(step)).trim_start_matches('.').into();
        let kind = ErrorKind::FieldNotFound { path: root.to_owned(), field, available, hint: None };
        Error::new(kind, step.span)
    })
}

/// Who answered a reference, for the trace.
struct Answer {
    scope: EcoString,
    path: Option<String>,
    computed: bool,
}

/// The path as it would be written.
fn path_text(prefix: &str, steps: &[Step]) -> String {
    let mut text = prefix.to_owned();
    steps.iter().for_each(|step| step.write(&mut text));
    text
}

/// Where a field of an older shape stands now.
fn new_spelling(envelope: &Envelope, root: &str, name: &str, steps: &[Step]) -> String {
    if follow(&envelope.value, steps).is_some() {
        return path_text(&format!("{root}.result"), steps);
    }
    if envelope.meta.get(name).is_some() {
        return format!("{root}.meta.{name}");
    }
    format!("{root}.result")
}

fn list_step_hint(path: &str, key: &str, list: &Value) -> Option<String> {
    let first = list.as_list().and_then(<[Value]>::first)?;
    first.get(key)?;
    Some(format!("of one element: `{path}[0].{key}`; of all: `{path} | collect(\"{key}\")`"))
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
