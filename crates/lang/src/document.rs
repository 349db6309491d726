//! Documents: data with templates in its texts, compiled once and resolved to new data with types kept.
//!
//! What holds no reference is shared with the result, not copied. Keys are literal.

use std::sync::Arc;

use ecow::EcoString;

use crate::data::{DataFormat, KeyTables, ReadError, ReadErrorKind, Sink, Style};
use crate::data_path::{PathStep, position};
use crate::diag::Span;
use crate::diag::error::{Error, Origin};
use crate::eval::{Inferred, Session};
use crate::limits::Limit;
use crate::scope::Scope;
use crate::shape::ValueShape;
use crate::syntax::{self, Reference, Syntax};
use crate::template::Template;
use crate::trail::{Trail, TrailStep};
use crate::value::{Key, KeyTable, MAX_DEPTH, Number, Object, Oversized, Value};

/// Data with templates in its texts.
#[derive(Clone)]
pub struct Document {
    root: DocumentNode,
}

#[derive(Clone)]
enum DocumentNode {
    /// No reference in it.
    Fixed(Value),
    /// A text with references.
    Leaf(Arc<Leaf>),
    List(Vec<DocumentNode>),
    Object(Arc<KeyTable>, Vec<DocumentNode>),
    /// A definition, evaluated in its table.
    Defined(Arc<Definitions>, usize),
}

struct Leaf {
    template: Template,
    span: Span,
    style: Style,
}

/// Why a text is no document.
#[derive(Clone)]
pub enum DocumentError {
    /// It is not the data it should be.
    Read(ReadError),
    /// Templates in it do not parse.
    Templates {
        /// The problems of all templates, in the order of the text.
        errors: Vec<Error>,
        /// The document with what could be made of the templates, to look for more problems in.
        rest: Document,
    },
}

impl std::fmt::Debug for DocumentError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Read(error) => f.debug_tuple("Read").field(error).finish(),
            Self::Templates { errors, .. } => f.debug_tuple("Templates").field(errors).finish(),
        }
    }
}

impl std::fmt::Display for DocumentError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Read(error) => error.fmt(f),
            Self::Templates { errors, .. } => {
                let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
                f.write_str(&shown.join("; "))
            }
        }
    }
}

impl std::error::Error for DocumentError {}

impl std::fmt::Debug for Document {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Document").field("references", &self.references().len()).finish()
    }
}

impl Document {
    /// Compiles the templates in a value's texts. Every problem is reported.
    pub fn from_value(value: &Value, syntax: &Syntax) -> Result<Self, Vec<Error>> {
        let mut compiler = Compiler { syntax, errors: Vec::new() };
        let root = compiler.compile(value, &Trail::ROOT);
        if compiler.errors.is_empty() { Ok(Self { root }) } else { Err(compiler.errors) }
    }

    /// A document that is just this value: texts in it are not looked into.
    pub fn fixed(value: Value) -> Self {
        Self { root: DocumentNode::Fixed(value) }
    }

    /// Reads a text and compiles the templates in it on the way. Every problem of the templates is reported.
    pub fn read(text: &str, format: DataFormat, syntax: &Syntax) -> Result<Self, DocumentError> {
        let mut sink = DocumentSink::new(syntax);
        crate::data::read(text, format, &syntax.limits, &mut sink).map_err(DocumentError::Read)?;
        sink.finish()
    }

    /// Compiles what `feed` gives to a sink, such as a part of a larger file that was read before.
    pub fn compile(
        syntax: &Syntax,
        feed: impl FnOnce(&mut DocumentSink<'_>) -> Result<(), ReadError>,
    ) -> Result<Self, DocumentError> {
        let mut sink = DocumentSink::new(syntax);
        feed(&mut sink).map_err(DocumentError::Read)?;
        sink.finish()
    }

    /// The document with every reference resolved. Every problem is reported.
    pub fn resolve(&self, scope: &Scope, session: &mut Session<'_>) -> Result<Value, Vec<Error>> {
        let mut errors = Vec::new();
        let origin = session.origin.take();
        let (from, expressions_from) = (session.trace_len(), session.expressions_len());
        let value = self.root.resolve(&Trail::ROOT, scope, session, &mut errors);
        if let Some(origin) = &origin {
            session.place_trace(from, expressions_from, &origin.path);
        }
        session.origin = origin;
        match value {
            Some(value) => Ok(value),
            None => Err(distinct(errors)),
        }
    }

    /// The value, when there is no reference in it.
    pub fn as_fixed(&self) -> Option<&Value> {
        match &self.root {
            DocumentNode::Fixed(value) => Some(value),
            _ => None,
        }
    }

    /// Everything that resolving can read, with the place of each.
    pub fn references(&self) -> Vec<(Origin, Reference)> {
        let mut found = Vec::new();
        self.root.each_leaf(&Trail::ROOT, &mut |leaf, trail| {
            let origin = leaf.origin(trail);
            found.extend(leaf.template.references().into_iter().map(|reference| (origin.clone(), reference)));
        });
        found
    }

    /// Checks the names of every reference against a scope, as [`Template::check`] does.
    pub fn check(&self, scope: &Scope) -> Vec<Error> {
        let mut errors = Vec::new();
        self.root.each_leaf(&Trail::ROOT, &mut |leaf, trail| {
            let found = leaf.template.check(scope);
            errors.extend(found.into_iter().map(|error| error.with_origin(&leaf.origin(trail))));
        });
        errors
    }

    /// What is known of its value before the names of a scope have theirs.
    pub fn infer(&self, scope: &Scope) -> Inferred {
        let mut found = Inferred::just(ValueShape::ANY);
        found.shape = self.root.infer(&Trail::ROOT, scope, &mut found);
        found
    }

    /// Replaces what stands at a path by a value, which is not looked into. Objects on the way are made.
    pub fn set(&mut self, path: &[PathStep], value: Value) -> Result<(), SetError> {
        self.root.set(path, value)
    }

    /// Whether there is such a top-level key.
    pub fn has(&self, key: &str) -> bool {
        match &self.root {
            DocumentNode::Fixed(value) => value.get(key).is_some(),
            DocumentNode::Object(keys, _) => keys.position(&Key::new(key)).is_some(),
            _ => false,
        }
    }

    /// Makes the entries of a top-level key definitions that may refer to each other: each is evaluated when it
    /// is read, once. The document then has their values there.
    ///
    /// The error says what stands there when it is neither an object nor null.
    pub fn define(&mut self, key: &str) -> Result<Option<Arc<Definitions>>, &'static str> {
        let DocumentNode::Object(keys, nodes) = self.root.opened() else { return Ok(None) };
        let Some(at) = keys.position(&Key::new(key)) else { return Ok(None) };
        let (names, entries) = match nodes[at].opened() {
            DocumentNode::Object(names, entries) => (names, entries),
            DocumentNode::Fixed(value) if value.is_null() => return Ok(None),
            DocumentNode::Fixed(value) => return Err(value.kind().with_article()),
            DocumentNode::List(_) => return Err("a list"),
            DocumentNode::Leaf(_) | DocumentNode::Defined(..) => return Err("a reference"),
        };
        let count = entries.len();
        let definitions = Arc::new(Definitions { root: key.into(), keys: Arc::clone(&names), entries });
        let mut nodes = nodes;
        nodes[at] = DocumentNode::Object(
            names,
            (0..count).map(|at| DocumentNode::Defined(Arc::clone(&definitions), at)).collect(),
        );
        self.root = DocumentNode::Object(keys, nodes);
        Ok(Some(definitions))
    }
}

/// Why a value could not be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetError {
    /// A step leads into something that has no such place.
    NoSuchPlace {
        /// How many steps could be taken.
        taken: usize,
    },
    /// The data would be nested too deep.
    TooDeep,
}

/// One problem in a definition shows up wherever the definition is read; it is reported once.
fn distinct(errors: Vec<Error>) -> Vec<Error> {
    let mut distinct: Vec<Error> = Vec::new();
    let mut seen = hashbrown::HashSet::with_hasher(foldhash::fast::FixedState::default());
    for error in errors {
        let path = error.origin().map(|origin| origin.path.clone());
        if seen.insert((path, error.span(), error.to_string())) {
            distinct.push(error);
        }
    }
    distinct
}

impl DocumentNode {
    fn resolve(
        &self,
        trail: &Trail<'_>,
        scope: &Scope,
        session: &mut Session<'_>,
        errors: &mut Vec<Error>,
    ) -> Option<Value> {
        match self {
            Self::Fixed(value) => Some(value.clone()),
            Self::Leaf(leaf) => match leaf.resolve(trail, scope, session) {
                Ok(value) => Some(value),
                Err(error) => {
                    let origin = leaf.origin(trail);
                    let all = leaf.template.all_errors(error, scope, session);
                    errors.extend(all.into_iter().map(|error| error.with_origin(&origin)));
                    None
                }
            },
            Self::List(nodes) => {
                let items =
                    resolve_all(nodes, |at| trail.down(TrailStep::Index(at)), scope, session, errors)?;
                Value::list(items).map_err(|oversized| errors.push(oversized_at(oversized, trail))).ok()
            }
            Self::Object(keys, nodes) => {
                let names = keys.as_slice();
                let down = |at: usize| trail.down(TrailStep::Key(names[at].as_str()));
                let values = resolve_all(nodes, down, scope, session, errors)?;
                let object = Object::new(Arc::clone(keys), values);
                object.map_err(|oversized| errors.push(oversized_at(oversized, trail))).ok().map(Value::from)
            }
            Self::Defined(definitions, at) => {
                let value = session.definition(definitions, *at, scope, Span::default());
                value.map_err(|error| errors.push(error)).ok()
            }
        }
    }

    fn each_leaf(&self, trail: &Trail<'_>, visit: &mut dyn FnMut(&Leaf, &Trail<'_>)) {
        match self {
            Self::Fixed(_) => {}
            Self::Leaf(leaf) => visit(leaf, trail),
            Self::List(nodes) => {
                for (at, node) in nodes.iter().enumerate() {
                    node.each_leaf(&trail.down(TrailStep::Index(at)), visit);
                }
            }
            Self::Object(keys, nodes) => {
                for (key, node) in keys.as_slice().iter().zip(nodes) {
                    node.each_leaf(&trail.down(TrailStep::Key(key.as_str())), visit);
                }
            }
            Self::Defined(definitions, at) => definitions.entries[*at].each_leaf(trail, visit),
        }
    }

    /// The same, with a fixed container opened one level.
    fn opened(&self) -> Self {
        let fixed = |values: &[Value]| values.iter().cloned().map(Self::Fixed).collect();
        match self {
            Self::Fixed(value) => match (value.as_list(), value.as_object()) {
                (Some(items), _) => Self::List(fixed(items)),
                (_, Some(object)) => Self::Object(Arc::clone(object.keys()), fixed(object.values())),
                _ => self.clone(),
            },
            _ => self.clone(),
        }
    }

    fn set(&mut self, path: &[PathStep], value: Value) -> Result<(), SetError> {
        let mut node = self;
        for (taken, step) in path.iter().enumerate() {
            if taken >= usize::from(MAX_DEPTH) {
                return Err(SetError::TooDeep);
            }
            node = node.step(step).ok_or(SetError::NoSuchPlace { taken })?;
        }
        *node = Self::Fixed(value);
        Ok(())
    }

    /// What is known of its value; problems and warnings are noted beside.
    fn infer(&self, trail: &Trail<'_>, scope: &Scope, found: &mut Inferred) -> ValueShape {
        match self {
            Self::Fixed(value) => ValueShape::of(value),
            Self::Leaf(leaf) => {
                let inferred = match leaf.style {
                    Style::Literal | Style::Folded => leaf.template.infer_block(scope),
                    _ => leaf.template.infer(scope),
                };
                let origin = leaf.origin(trail);
                found.errors.extend(inferred.errors.into_iter().map(|error| error.with_origin(&origin)));
                found.warnings.extend(inferred.warnings.into_iter().map(|mut warning| {
                    warning.origin = Some(origin.clone());
                    warning
                }));
                inferred.shape
            }
            Self::List(nodes) => {
                let shapes = nodes
                    .iter()
                    .enumerate()
                    .map(|(at, node)| node.infer(&trail.down(TrailStep::Index(at)), scope, found));
                ValueShape::list(shapes.collect())
            }
            Self::Object(keys, nodes) => {
                let fields = keys.as_slice().iter().zip(nodes).map(|(key, node)| {
                    (key.name().clone(), node.infer(&trail.down(TrailStep::Key(key.as_str())), scope, found))
                });
                ValueShape::object(fields.collect())
            }
            Self::Defined(definitions, at) => {
                definitions.entries[*at].infer(trail, scope, found);
                ValueShape::ANY
            }
        }
    }

    /// The place of a step, made when an object lacks it; null counts as an object without entries.
    fn step(&mut self, step: &PathStep) -> Option<&mut Self> {
        if matches!(self, Self::Fixed(value) if value.is_null()) {
            *self = Self::Object(Arc::default(), Vec::new());
        }
        *self = self.opened();
        match (self, step) {
            (Self::List(nodes), PathStep::Key { number, .. }) => nodes.get_mut((*number)?),
            (Self::List(nodes), PathStep::Index(index)) => {
                let at = position(*index, nodes.len())?;
                nodes.get_mut(at)
            }
            (Self::Object(keys, nodes), PathStep::Key { key, .. }) => {
                let at = if let Some(at) = keys.position(key) {
                    at
                } else {
                    let mut names = keys.as_slice().to_vec();
                    names.push(key.clone());
                    *keys = Arc::new(KeyTable::new(names).ok()?);
                    nodes.push(Self::Fixed(Value::NULL));
                    nodes.len() - 1
                };
                nodes.get_mut(at)
            }
            _ => None,
        }
    }
}

fn oversized_at(oversized: Oversized, trail: &Trail<'_>) -> Error {
    let origin = Origin { path: trail.text().into(), span: Span::default(), style: Style::Json };
    Error::oversized(oversized, Span::default()).with_origin(&origin)
}

/// All of them even when one fails, so that every problem is found.
#[inline]
fn resolve_all<'t>(
    nodes: &[DocumentNode],
    down: impl Fn(usize) -> Trail<'t>,
    scope: &Scope,
    session: &mut Session<'_>,
    errors: &mut Vec<Error>,
) -> Option<Vec<Value>> {
    session.enter(Span::default()).map_err(|error| errors.push(error)).ok()?;
    let mut values = Vec::with_capacity(nodes.len());
    for (at, node) in nodes.iter().enumerate() {
        match node {
            // Cloned straight into its place.
            DocumentNode::Fixed(value) => values.extend_from_slice(std::slice::from_ref(value)),
            node => values.extend(node.resolve(&down(at), scope, session, errors)),
        }
    }
    session.leave();
    (values.len() == nodes.len()).then_some(values)
}

impl Leaf {
    fn resolve(&self, trail: &Trail<'_>, scope: &Scope, session: &mut Session<'_>) -> Result<Value, Error> {
        let traced = session.traces();
        let outer = if traced { session.origin.replace(Box::new(self.origin(trail))) } else { None };
        let result = match self.style {
            Style::Literal | Style::Folded => self.template.block_value(scope, session),
            _ => self.template.value(scope, session),
        };
        if traced {
            session.origin = outer;
        }
        if session.has_unplaced_warnings() {
            session.place_warnings(&self.origin(trail));
        }
        result
    }

    fn origin(&self, trail: &Trail<'_>) -> Origin {
        Origin { path: trail.text().into(), span: self.span, style: self.style }
    }
}

/// Named documents that may refer to each other, evaluated when they are read.
pub struct Definitions {
    /// The key they stand under, and the root they are read by.
    root: EcoString,
    keys: Arc<KeyTable>,
    entries: Vec<DocumentNode>,
}

impl Definitions {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The names in order.
    pub fn names(&self) -> Vec<EcoString> {
        self.keys.as_slice().iter().map(|key| key.name().clone()).collect()
    }

    /// The same with a value in one place: the first step of the path is one of the names. The value is not looked
    /// into.
    pub fn with(&self, path: &[PathStep], value: Value) -> Result<Self, SetError> {
        let missing = SetError::NoSuchPlace { taken: 0 };
        let Some((PathStep::Key { key, .. }, rest)) = path.split_first() else { return Err(missing) };
        let at = self.keys.position(key).ok_or(missing)?;
        let mut entries = self.entries.clone();
        entries[at].set(rest, value).map_err(|error| match error {
            SetError::NoSuchPlace { taken } => SetError::NoSuchPlace { taken: taken + 1 },
            SetError::TooDeep => SetError::TooDeep,
        })?;
        Ok(Self { root: self.root.clone(), keys: Arc::clone(&self.keys), entries })
    }

    pub(crate) fn position(&self, key: &Key) -> Option<usize> {
        self.keys.position(key)
    }

    /// The value of one without a reference in it.
    pub(crate) fn fixed(&self, at: usize) -> Option<&Value> {
        match &self.entries[at] {
            DocumentNode::Fixed(value) => Some(value),
            _ => None,
        }
    }

    pub(crate) fn name(&self, at: usize) -> &EcoString {
        self.keys.as_slice()[at].name()
    }

    pub(crate) fn object(&self, values: Vec<Value>) -> Result<Value, Oversized> {
        Ok(Value::from(Object::new(Arc::clone(&self.keys), values)?))
    }

    /// The value of one, evaluated now; of several problems the first.
    pub(crate) fn evaluate(
        &self,
        at: usize,
        scope: &Scope,
        session: &mut Session<'_>,
    ) -> Result<Value, Error> {
        let mut errors = Vec::new();
        let root = Trail::ROOT.down(TrailStep::Key(&self.root));
        let trail = root.down(TrailStep::Key(self.name(at)));
        let value = self.entries[at].resolve(&trail, scope, session, &mut errors);
        value.ok_or_else(|| {
            errors
                .into_iter()
                .next()
                .unwrap_or_else(|| Error::oversized(Oversized(Limit::DataDepth), Span::default()))
        })
    }
}

/// Compiles a value that is already in memory.
struct Compiler<'a> {
    syntax: &'a Syntax,
    errors: Vec<Error>,
}

impl Compiler<'_> {
    fn compile(&mut self, value: &Value, trail: &Trail<'_>) -> DocumentNode {
        if let Some(text) = value.as_str() {
            if !syntax::has_reference(text) {
                return DocumentNode::Fixed(value.clone());
            }
            return match Template::parse(text, self.syntax) {
                Ok(template) => leaf(template, Span::default(), Style::Json),
                Err(problems) => {
                    let origin =
                        Origin { path: trail.text().into(), span: Span::default(), style: Style::Json };
                    self.errors.extend(problems.into_iter().map(|error| error.with_origin(&origin)));
                    DocumentNode::Fixed(Value::NULL)
                }
            };
        }
        if let Some(items) = value.as_list() {
            let nodes = items.iter().enumerate();
            let nodes: Vec<DocumentNode> =
                nodes.map(|(at, item)| self.compile(item, &trail.down(TrailStep::Index(at)))).collect();
            return if all_fixed(&nodes) {
                DocumentNode::Fixed(value.clone())
            } else {
                DocumentNode::List(nodes)
            };
        }
        if let Some(object) = value.as_object() {
            let nodes = object.iter();
            let nodes: Vec<DocumentNode> = nodes
                .map(|(key, value)| self.compile(value, &trail.down(TrailStep::Key(key.as_str()))))
                .collect();
            return if all_fixed(&nodes) {
                DocumentNode::Fixed(value.clone())
            } else {
                DocumentNode::Object(Arc::clone(object.keys()), nodes)
            };
        }
        DocumentNode::Fixed(value.clone())
    }
}

fn all_fixed(nodes: &[DocumentNode]) -> bool {
    nodes.iter().all(|node| matches!(node, DocumentNode::Fixed(_)))
}

/// A template as a leaf, or its plain text when every `${` in it is escaped.
fn leaf(template: Template, span: Span, style: Style) -> DocumentNode {
    match template.as_plain() {
        Some(plain) => DocumentNode::Fixed(Value::from(&*plain)),
        None => DocumentNode::Leaf(Arc::new(Leaf { template, span, style })),
    }
}

/// Builds a document from a reader's events.
pub struct DocumentSink<'a> {
    syntax: &'a Syntax,
    /// The children of the open containers that hold no reference so far.
    values: Vec<Value>,
    /// The children of the open containers that do.
    nodes: Vec<DocumentNode>,
    open: Vec<OpenDocumentContainer>,
    keys: KeyTables,
    anchor: Option<usize>,
    kept: Vec<Option<DocumentNode>>,
    errors: Vec<Error>,
}

struct OpenDocumentContainer {
    first_value: usize,
    first_node: usize,
    /// Whether its children are nodes, because one of them holds a reference.
    mixed: bool,
    anchor: Option<usize>,
    span: Span,
    /// The key of the entry being read; nothing in a list.
    key: Option<EcoString>,
}

impl OpenDocumentContainer {
    fn root() -> Self {
        Self { first_value: 0, first_node: 0, mixed: false, anchor: None, span: Span::default(), key: None }
    }
}

impl<'a> DocumentSink<'a> {
    fn new(syntax: &'a Syntax) -> Self {
        Self {
            syntax,
            values: Vec::new(),
            nodes: Vec::new(),
            open: vec![OpenDocumentContainer::root()],
            keys: KeyTables::new(),
            anchor: None,
            kept: Vec::new(),
            errors: Vec::new(),
        }
    }

    fn finish(mut self) -> Result<Document, DocumentError> {
        let value = self.values.pop().map(DocumentNode::Fixed);
        let root = self.nodes.pop().or(value).unwrap_or(DocumentNode::Fixed(Value::NULL));
        let document = Document { root };
        if self.errors.is_empty() {
            Ok(document)
        } else {
            Err(DocumentError::Templates { errors: self.errors, rest: document })
        }
    }

    #[inline]
    fn push_value(&mut self, value: Value) {
        if let Some(id) = self.anchor.take() {
            self.keep(id, DocumentNode::Fixed(value.clone()));
        }
        if self.open.last().is_some_and(|open| open.mixed) {
            self.nodes.push(DocumentNode::Fixed(value));
        } else {
            self.values.push(value);
        }
    }

    fn push_node(&mut self, node: DocumentNode) {
        let node = match node {
            DocumentNode::Fixed(value) => return self.push_value(value),
            node => node,
        };
        if let Some(id) = self.anchor.take() {
            self.keep(id, node.clone());
        }
        if let Some(open) = self.open.last_mut()
            && !open.mixed
        {
            open.mixed = true;
            self.nodes.extend(self.values.drain(open.first_value..).map(DocumentNode::Fixed));
        }
        self.nodes.push(node);
    }

    #[cold]
    fn keep(&mut self, id: usize, node: DocumentNode) {
        if self.kept.len() <= id {
            self.kept.resize_with(id + 1, || None);
        }
        self.kept[id] = Some(node);
    }

    fn begin(&mut self, span: Span) {
        let (first_value, first_node) = (self.values.len(), self.nodes.len());
        let anchor = self.anchor.take();
        self.open.push(OpenDocumentContainer {
            first_value,
            first_node,
            mixed: false,
            anchor,
            span,
            key: None,
        });
    }

    /// Closes the innermost container: `fixed` makes it a value, `mixed` a node.
    fn end(
        &mut self,
        fixed: impl FnOnce(Vec<Value>) -> Result<Value, Oversized>,
        mixed: impl FnOnce(Vec<DocumentNode>) -> DocumentNode,
    ) -> Result<(), ReadError> {
        // A reader ends only what it began.
        let open = self.open.pop().unwrap_or_else(OpenDocumentContainer::root);
        self.anchor = open.anchor;
        if open.mixed {
            let nodes = self.nodes.split_off(open.first_node);
            self.push_node(mixed(nodes));
            return Ok(());
        }
        let values = self.values.split_off(open.first_value);
        let value = fixed(values)
            .map_err(|Oversized(limit)| ReadError::new(ReadErrorKind::Limit(limit), open.span))?;
        self.push_value(value);
        Ok(())
    }

    /// The path to the value that is being read.
    fn path(&self) -> EcoString {
        let containers = self.open.get(1..).unwrap_or_default();
        let mut text = String::new();
        for (at, open) in containers.iter().enumerate() {
            let step = if let Some(key) = &open.key {
                TrailStep::Key(key)
            } else {
                let inner = containers.get(at + 1);
                let values_end = inner.map_or(self.values.len(), |inner| inner.first_value);
                let nodes_end = inner.map_or(self.nodes.len(), |inner| inner.first_node);
                TrailStep::Index(if open.mixed {
                    nodes_end - open.first_node
                } else {
                    values_end - open.first_value
                })
            };
            step.write(&mut text);
        }
        text.into()
    }

    fn template(&mut self, text: &str, style: Style, span: Span) {
        let (template, problems) = Template::parse_all(text, self.syntax);
        if !problems.is_empty() {
            let origin = Origin { path: self.path(), span, style };
            self.errors.extend(problems.into_iter().map(|error| error.with_origin(&origin)));
        }
        // What parses of it is checked with the rest of the document.
        self.push_node(leaf(template, span, style));
    }
}

impl Sink for DocumentSink<'_> {
    type Error = ReadError;

    fn null(&mut self, _span: Span) -> Result<(), ReadError> {
        self.push_value(Value::NULL);
        Ok(())
    }

    fn bool(&mut self, bool: bool, _span: Span) -> Result<(), ReadError> {
        self.push_value(bool.into());
        Ok(())
    }

    fn number(&mut self, number: Number, _span: Span) -> Result<(), ReadError> {
        self.push_value(number.into());
        Ok(())
    }

    fn text(&mut self, text: &str, style: Style, span: Span) -> Result<(), ReadError> {
        if syntax::has_reference(text) {
            self.template(text, style, span);
        } else {
            self.push_value(text.into());
        }
        Ok(())
    }

    fn key(&mut self, key: &str, _style: Style, span: Span) -> Result<(), ReadError> {
        self.keys.key(key, span);
        if let Some(open) = self.open.last_mut() {
            open.key = Some(key.into());
        }
        Ok(())
    }

    fn begin_list(&mut self, span: Span) -> Result<(), ReadError> {
        self.begin(span);
        Ok(())
    }

    fn end_list(&mut self, _span: Span) -> Result<(), ReadError> {
        self.end(Value::list, DocumentNode::List)
    }

    fn begin_object(&mut self, span: Span) -> Result<(), ReadError> {
        self.keys.begin();
        self.begin(span);
        Ok(())
    }

    fn end_object(&mut self, _span: Span) -> Result<(), ReadError> {
        let keys = self.keys.end()?;
        let for_node = Arc::clone(&keys);
        self.end(
            |values| Object::new(keys, values).map(Value::from),
            |nodes| DocumentNode::Object(for_node, nodes),
        )
    }

    fn anchor(&mut self, id: usize) {
        self.anchor = Some(id);
    }

    fn alias(&mut self, id: usize, span: Span) -> Result<(), ReadError> {
        let kept = self.kept.get(id).cloned().flatten();
        let node = kept.ok_or_else(|| ReadError::new(ReadErrorKind::AliasNotAllowed, span))?;
        self.push_node(node);
        Ok(())
    }
}
