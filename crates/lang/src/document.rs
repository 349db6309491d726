//! Documents: data with templates in its texts, compiled once and resolved to new data with types kept.
//!
//! What holds no reference is shared with the result, not copied. Keys are literal.

use std::sync::Arc;

use ecow::EcoString;

use crate::data::{Format, KeyTables, ReadError, ReadErrorKind, Sink, Style};
use crate::diag::Span;
use crate::diag::error::{Error, ErrorKind, Origin};
use crate::eval::Session;
use crate::limits::Limit;
use crate::scope::Scope;
use crate::syntax::{self, Reference, Syntax, push_key};
use crate::template::Template;
use crate::value::{Key, Keys, MAX_DEPTH, Number, Object, TooDeep, Value};

/// Data with templates in its texts.
#[derive(Clone)]
pub struct Document {
    root: Node,
}

#[derive(Clone)]
enum Node {
    /// No reference in it.
    Fixed(Value),
    /// A text with references.
    Leaf(Arc<Leaf>),
    List(Vec<Node>),
    Object(Arc<Keys>, Vec<Node>),
    /// A definition, evaluated in its table.
    Defined(Arc<Definitions>, usize),
}

struct Leaf {
    template: Template,
    origin: Origin,
    /// A block of YAML: the final line break does not count beside a single reference.
    block: bool,
}

/// Why a text is no document.
#[derive(Clone)]
pub enum DocumentError {
    /// It is not the data it should be.
    Read(ReadError),
    /// Templates in it do not parse.
    Templates {
        /// Every problem.
        errors: Vec<Error>,
        /// The rest of the document, with null where a template did not parse, to look for more problems in.
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

impl Document {
    /// Compiles the templates in a value's texts. Every problem is reported.
    pub fn from_value(value: &Value, syntax: &Syntax) -> Result<Self, Vec<Error>> {
        let mut compiler = Compiler { syntax, path: Vec::new(), errors: Vec::new() };
        let root = compiler.compile(value);
        if compiler.errors.is_empty() { Ok(Self { root }) } else { Err(compiler.errors) }
    }

    /// A document that is just this value: texts in it are not looked into.
    pub fn fixed(value: Value) -> Self {
        Self { root: Node::Fixed(value) }
    }

    /// Reads a text and compiles the templates in it on the way. Every problem of the templates is reported.
    pub fn read(text: &str, format: Format, syntax: &Syntax) -> Result<Self, DocumentError> {
        let mut sink = DocumentSink::new(syntax);
        crate::data::read(text, format, &syntax.limits, &mut sink).map_err(DocumentError::Read)?;
        sink.finish()
    }

    /// The document with every reference resolved. Every problem is reported.
    pub fn resolve(&self, scope: &Scope, session: &mut Session<'_>) -> Result<Value, Vec<Error>> {
        let mut errors = Vec::new();
        let origin = session.origin.take();
        let value = self.root.resolve(scope, session, &mut errors);
        session.origin = origin;
        match value {
            Some(value) => Ok(value),
            None => Err(distinct(errors)),
        }
    }

    /// The value, when there is no reference in it.
    pub fn as_fixed(&self) -> Option<&Value> {
        match &self.root {
            Node::Fixed(value) => Some(value),
            _ => None,
        }
    }

    /// Everything that resolving can read, with the place of each.
    pub fn references(&self) -> Vec<(Origin, Reference)> {
        let mut found = Vec::new();
        self.root.each_leaf(&mut |leaf| {
            found.extend(
                leaf.template.references().into_iter().map(|reference| (leaf.origin.clone(), reference)),
            );
        });
        found
    }

    /// Checks the names of every reference against a scope, as [`Template::check`] does.
    pub fn check(&self, scope: &Scope) -> Vec<Error> {
        let mut errors = Vec::new();
        self.root.each_leaf(&mut |leaf| {
            errors
                .extend(leaf.template.check(scope).into_iter().map(|error| error.with_origin(&leaf.origin)));
        });
        errors
    }

    /// Replaces what stands at a path by a value, which is not looked into. Objects on the way are made.
    pub fn set(&mut self, path: &[PathStep], value: Value) -> Result<(), SetError> {
        self.root.set(path, value)
    }

    /// Whether there is such a top-level key.
    pub fn has(&self, key: &str) -> bool {
        match &self.root {
            Node::Fixed(value) => value.get(key).is_some(),
            Node::Object(keys, _) => keys.position(&Key::new(key)).is_some(),
            _ => false,
        }
    }

    /// Makes the entries of a top-level key definitions that may refer to each other: each is evaluated when it
    /// is read, once. The document then has their values there.
    pub fn define(&mut self, key: &str) -> Option<Arc<Definitions>> {
        let Node::Object(keys, nodes) = self.root.opened() else { return None };
        let at = keys.position(&Key::new(key))?;
        let Node::Object(names, entries) = nodes[at].clone().opened() else { return None };
        let count = entries.len();
        let definitions = Arc::new(Definitions { keys: Arc::clone(&names), entries });
        let mut nodes = nodes;
        nodes[at] =
            Node::Object(names, (0..count).map(|at| Node::Defined(Arc::clone(&definitions), at)).collect());
        self.root = Node::Object(keys, nodes);
        Some(definitions)
    }
}

/// A step of a path that data is set at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathStep {
    /// A key of an object.
    Key(EcoString),
    /// A position in a list.
    Index(i64),
}

/// The steps of a path such as `a.b[0]["any key"]`; the error says why it is none.
pub fn parse_path(path: &str) -> Result<Vec<PathStep>, String> {
    crate::func::json::path_steps(path)
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

impl Node {
    fn resolve(&self, scope: &Scope, session: &mut Session<'_>, errors: &mut Vec<Error>) -> Option<Value> {
        match self {
            Self::Fixed(value) => Some(value.clone()),
            Self::Leaf(leaf) => match leaf.resolve(scope, session) {
                Ok(value) => Some(value),
                Err(error) => {
                    let all = leaf.template.all_errors(error, scope);
                    errors.extend(all.into_iter().map(|error| error.with_origin(&leaf.origin)));
                    None
                }
            },
            Self::List(nodes) => {
                let items = resolve_all(nodes, scope, session, errors)?;
                Value::list(items).map_err(|TooDeep| errors.push(too_deep())).ok()
            }
            Self::Object(keys, nodes) => {
                let values = resolve_all(nodes, scope, session, errors)?;
                let object = Object::new(Arc::clone(keys), values).map_err(|TooDeep| errors.push(too_deep()));
                object.ok().map(Value::from)
            }
            Self::Defined(definitions, at) => {
                let value = session.definition(definitions, *at, scope, Span::default());
                value.map_err(|error| errors.push(error)).ok()
            }
        }
    }

    fn each_leaf(&self, visit: &mut dyn FnMut(&Leaf)) {
        match self {
            Self::Fixed(_) => {}
            Self::Leaf(leaf) => visit(leaf),
            Self::List(nodes) | Self::Object(_, nodes) => nodes.iter().for_each(|node| node.each_leaf(visit)),
            Self::Defined(definitions, at) => definitions.entries[*at].each_leaf(visit),
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

    /// The place of a step, made when an object lacks it; null counts as an object without entries.
    fn step(&mut self, step: &PathStep) -> Option<&mut Self> {
        if matches!(self, Self::Fixed(value) if value.is_null()) {
            *self = Self::Object(Arc::default(), Vec::new());
        }
        *self = self.opened();
        match (self, step) {
            (Self::List(nodes), PathStep::Key(digits)) => nodes.get_mut(digits.parse::<usize>().ok()?),
            (Self::List(nodes), PathStep::Index(index)) => {
                let len = i64::try_from(nodes.len()).ok()?;
                let at = if *index < 0 { len + index } else { *index };
                nodes.get_mut(usize::try_from(at).ok()?)
            }
            (Self::Object(keys, nodes), PathStep::Key(name)) => {
                let key = Key::new(name.clone());
                let at = match keys.position(&key) {
                    Some(at) => at,
                    None => {
                        let mut names = keys.as_slice().to_vec();
                        names.push(key);
                        *keys = Arc::new(Keys::new(names).ok()?);
                        nodes.push(Self::Fixed(Value::NULL));
                        nodes.len() - 1
                    }
                };
                nodes.get_mut(at)
            }
            _ => None,
        }
    }
}

fn too_deep() -> Error {
    Error::new(ErrorKind::Limit { limit: Limit::DataDepth, max: u64::from(MAX_DEPTH) }, Span::default())
}

/// All of them even when one fails, so that every problem is found.
fn resolve_all(
    nodes: &[Node],
    scope: &Scope,
    session: &mut Session<'_>,
    errors: &mut Vec<Error>,
) -> Option<Vec<Value>> {
    session.enter(Span::default()).map_err(|error| errors.push(error)).ok()?;
    let mut values = Vec::with_capacity(nodes.len());
    for node in nodes {
        values.extend(node.resolve(scope, session, errors));
    }
    session.leave();
    (values.len() == nodes.len()).then_some(values)
}

impl Leaf {
    fn resolve(&self, scope: &Scope, session: &mut Session<'_>) -> Result<Value, Error> {
        let origin = session.traces().then(|| session.origin.replace(self.origin.clone()));
        let result = if self.block {
            self.template.block_value(scope, session)
        } else {
            self.template.value(scope, session)
        };
        if let Some(outer) = origin {
            session.origin = outer;
        }
        session.place_warnings(&self.origin);
        result.map_err(|error| error.with_origin(&self.origin))
    }
}

/// Named documents that may refer to each other, evaluated when they are read.
pub struct Definitions {
    keys: Arc<Keys>,
    entries: Vec<Node>,
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

    pub(crate) fn position(&self, key: &Key) -> Option<usize> {
        self.keys.position(key)
    }

    pub(crate) fn name(&self, at: usize) -> &EcoString {
        self.keys.as_slice()[at].name()
    }

    pub(crate) fn object(&self, values: Vec<Value>) -> Result<Value, TooDeep> {
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
        let value = self.entries[at].resolve(scope, session, &mut errors);
        value.ok_or_else(|| errors.into_iter().next().unwrap_or_else(too_deep))
    }
}

/// Compiles a value that is already in memory.
struct Compiler<'a> {
    syntax: &'a Syntax,
    path: Vec<PathStep>,
    errors: Vec<Error>,
}

impl Compiler<'_> {
    fn compile(&mut self, value: &Value) -> Node {
        if let Some(text) = value.as_str() {
            if !syntax::has_reference(text) {
                return Node::Fixed(value.clone());
            }
            let origin = Origin { path: path_text(&self.path), span: Span::default(), style: Style::Json };
            return leaf(text, origin, false, self.syntax, &mut self.errors);
        }
        if let Some(items) = value.as_list() {
            let nodes = self.children(items, |at| PathStep::Index(i64::try_from(at).unwrap_or(i64::MAX)));
            return if all_fixed(&nodes) { Node::Fixed(value.clone()) } else { Node::List(nodes) };
        }
        if let Some(object) = value.as_object() {
            let keys = object.keys().as_slice();
            let nodes = self.children(object.values(), |at| PathStep::Key(keys[at].name().clone()));
            return if all_fixed(&nodes) {
                Node::Fixed(value.clone())
            } else {
                Node::Object(Arc::clone(object.keys()), nodes)
            };
        }
        Node::Fixed(value.clone())
    }

    fn children(&mut self, values: &[Value], step: impl Fn(usize) -> PathStep) -> Vec<Node> {
        let mut nodes = Vec::with_capacity(values.len());
        for (at, value) in values.iter().enumerate() {
            self.path.push(step(at));
            nodes.push(self.compile(value));
            self.path.pop();
        }
        nodes
    }
}

fn all_fixed(nodes: &[Node]) -> bool {
    nodes.iter().all(|node| matches!(node, Node::Fixed(_)))
}

/// A text with `${` in it: a template, or plain text when all of them are escaped.
fn leaf(text: &str, origin: Origin, block: bool, syntax: &Syntax, errors: &mut Vec<Error>) -> Node {
    match Template::parse(text, syntax) {
        Ok(template) => match template.as_plain() {
            Some(plain) => Node::Fixed(Value::from(&*plain)),
            None => Node::Leaf(Arc::new(Leaf { template, origin, block })),
        },
        Err(problems) => {
            errors.extend(problems.into_iter().map(|error| error.with_origin(&origin)));
            Node::Fixed(Value::NULL)
        }
    }
}

/// A path as it is written in a reference, without a root.
fn path_text(steps: &[PathStep]) -> EcoString {
    let mut text = String::new();
    for step in steps {
        match step {
            PathStep::Key(key) => push_key(&mut text, key),
            PathStep::Index(index) => {
                text.push('[');
                text.push_str(itoa::Buffer::new().format(*index));
                text.push(']');
            }
        }
    }
    text.strip_prefix('.').unwrap_or(&text).into()
}

/// Builds a document from a reader's events.
struct DocumentSink<'a> {
    syntax: &'a Syntax,
    nodes: Vec<Node>,
    open: Vec<Open>,
    keys: KeyTables,
    anchor: Option<usize>,
    kept: Vec<Option<Node>>,
    errors: Vec<Error>,
}

struct Open {
    first_node: usize,
    anchor: Option<usize>,
    span: Span,
    /// The key of the entry being read; nothing in a list.
    key: Option<EcoString>,
}

impl<'a> DocumentSink<'a> {
    fn new(syntax: &'a Syntax) -> Self {
        Self {
            syntax,
            nodes: Vec::new(),
            open: Vec::new(),
            keys: KeyTables::new(),
            anchor: None,
            kept: Vec::new(),
            errors: Vec::new(),
        }
    }

    fn finish(mut self) -> Result<Document, DocumentError> {
        let document = Document { root: self.nodes.pop().unwrap_or(Node::Fixed(Value::NULL)) };
        if self.errors.is_empty() {
            Ok(document)
        } else {
            Err(DocumentError::Templates { errors: self.errors, rest: document })
        }
    }

    fn push(&mut self, node: Node) {
        if let Some(id) = self.anchor.take() {
            if self.kept.len() <= id {
                self.kept.resize_with(id + 1, || None);
            }
            self.kept[id] = Some(node.clone());
        }
        self.nodes.push(node);
    }

    fn begin(&mut self, span: Span) {
        self.open.push(Open { first_node: self.nodes.len(), anchor: self.anchor.take(), span, key: None });
    }

    fn end(&mut self) -> (Vec<Node>, Option<usize>, Span) {
        match self.open.pop() {
            Some(open) => (self.nodes.split_off(open.first_node), open.anchor, open.span),
            // A reader ends only what it began.
            None => (Vec::new(), None, Span::default()),
        }
    }

    fn path(&self) -> EcoString {
        let ends = self.open.iter().skip(1).map(|open| open.first_node).chain([self.nodes.len()]);
        let steps: Vec<PathStep> = self
            .open
            .iter()
            .zip(ends)
            .map(|(open, end)| match &open.key {
                Some(key) => PathStep::Key(key.clone()),
                None => PathStep::Index(i64::try_from(end - open.first_node).unwrap_or(i64::MAX)),
            })
            .collect();
        path_text(&steps)
    }

    fn close(
        &mut self,
        node: Result<Node, TooDeep>,
        anchor: Option<usize>,
        span: Span,
    ) -> Result<(), ReadError> {
        let node = node.map_err(|TooDeep| ReadError::new(ReadErrorKind::Limit(Limit::DataDepth), span))?;
        self.anchor = anchor;
        self.push(node);
        Ok(())
    }
}

fn fixed_values(nodes: Vec<Node>) -> Vec<Value> {
    nodes
        .into_iter()
        .filter_map(|node| match node {
            Node::Fixed(value) => Some(value),
            _ => None,
        })
        .collect()
}

impl Sink for DocumentSink<'_> {
    type Error = ReadError;

    fn null(&mut self, _span: Span) -> Result<(), ReadError> {
        self.push(Node::Fixed(Value::NULL));
        Ok(())
    }

    fn bool(&mut self, bool: bool, _span: Span) -> Result<(), ReadError> {
        self.push(Node::Fixed(bool.into()));
        Ok(())
    }

    fn number(&mut self, number: Number, _span: Span) -> Result<(), ReadError> {
        self.push(Node::Fixed(number.into()));
        Ok(())
    }

    fn text(&mut self, text: &str, style: Style, span: Span) -> Result<(), ReadError> {
        let node = if syntax::has_reference(text) {
            let origin = Origin { path: self.path(), span, style };
            let block = matches!(style, Style::Literal | Style::Folded);
            leaf(text, origin, block, self.syntax, &mut self.errors)
        } else {
            Node::Fixed(text.into())
        };
        self.push(node);
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
        let (nodes, anchor, span) = self.end();
        let node = if all_fixed(&nodes) {
            Value::list(fixed_values(nodes)).map(Node::Fixed)
        } else {
            Ok(Node::List(nodes))
        };
        self.close(node, anchor, span)
    }

    fn begin_object(&mut self, span: Span) -> Result<(), ReadError> {
        self.keys.begin();
        self.begin(span);
        Ok(())
    }

    fn end_object(&mut self, _span: Span) -> Result<(), ReadError> {
        let keys = self.keys.end()?;
        let (nodes, anchor, span) = self.end();
        let node = if all_fixed(&nodes) {
            Object::new(keys, fixed_values(nodes)).map(|object| Node::Fixed(Value::from(object)))
        } else {
            Ok(Node::Object(keys, nodes))
        };
        self.close(node, anchor, span)
    }

    fn anchor(&mut self, id: usize) {
        self.anchor = Some(id);
    }

    fn alias(&mut self, id: usize, span: Span) -> Result<(), ReadError> {
        let kept = self.kept.get(id).cloned().flatten();
        let node = kept.ok_or_else(|| ReadError::new(ReadErrorKind::AliasNotAllowed, span))?;
        self.push(node);
        Ok(())
    }
}
