//! The tree of a source: every value with its place, every key with its own.
//!
//! A tree holds what was read and where, never what it means.

use std::sync::Arc;

use ecow::EcoString;

use crate::data::{self, DataFormat, KeyTables, ReadError, ReadErrorKind, Sink, Style};
use crate::diag::Span;
use crate::limits::Limits;
use crate::value::{Key, Number, Object, Oversized, Value};

/// A value and where it stands. Cheap to clone.
#[derive(Debug, Clone)]
pub struct TreeNode {
    /// The bytes of the value; those of the alias where it stands through one. Empty where YAML leaves a value
    /// out.
    pub span: Span,
    /// How it is written, when it is a text.
    pub style: Option<Style>,
    /// The value itself.
    pub value: Value,
    children: Children,
}

/// An entry of an object.
#[derive(Debug, Clone)]
pub struct TreeEntry {
    /// The bytes of the key, with its quotes.
    pub key_span: Span,
    /// How the key is written.
    pub key_style: Style,
    /// The value of the key.
    pub node: TreeNode,
}

#[derive(Debug, Clone)]
enum Children {
    None,
    Items(Arc<[TreeNode]>),
    Entries(Arc<[TreeEntry]>),
}

/// One step of a path from a node to one inside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeStep<'a> {
    /// Into the value of a key.
    Key(&'a str),
    /// Into an item of a list.
    Index(usize),
}

impl<'a> From<&'a str> for TreeStep<'a> {
    fn from(key: &'a str) -> Self {
        Self::Key(key)
    }
}

impl From<usize> for TreeStep<'_> {
    fn from(index: usize) -> Self {
        Self::Index(index)
    }
}

impl TreeNode {
    /// The node at the end of a path.
    pub fn at<'a>(&self, path: impl IntoIterator<Item = TreeStep<'a>>) -> Option<&Self> {
        path.into_iter().try_fold(self, |node, step| match step {
            TreeStep::Key(key) => node.get(key),
            TreeStep::Index(index) => node.items().get(index),
        })
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.entry(key).map(|entry| &entry.node)
    }

    /// The entry of a key.
    pub fn entry(&self, key: &str) -> Option<&TreeEntry> {
        let at = self.value.as_object()?.position(key)?;
        self.children_by_key().get(at)
    }

    /// The items of a list; none for anything else.
    pub fn items(&self) -> &[Self] {
        match &self.children {
            Children::Items(items) => items,
            _ => &[],
        }
    }

    /// The keys and entries of an object in order; none for anything else.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &TreeEntry)> {
        let keys = self.value.as_object().map_or(&[][..], |object| object.keys().as_slice());
        keys.iter().map(Key::as_str).zip(self.children_by_key())
    }

    /// Gives what the node holds to a sink, every part with its place in the file.
    pub fn feed<S: Sink>(&self, sink: &mut S) -> Result<(), S::Error> {
        let begin = Span { end: self.span.start, ..self.span };
        match &self.children {
            Children::Items(items) => {
                sink.begin_list(begin)?;
                items.iter().try_for_each(|item| item.feed(sink))?;
                sink.end_list(begin)
            }
            Children::Entries(_) => {
                sink.begin_object(begin)?;
                for (key, entry) in self.entries() {
                    sink.key(key, entry.key_style, entry.key_span)?;
                    entry.node.feed(sink)?;
                }
                sink.end_object(begin)
            }
            Children::None => self.feed_scalar(sink),
        }
    }

    fn feed_scalar<S: Sink>(&self, sink: &mut S) -> Result<(), S::Error> {
        if let Some(text) = self.value.as_str() {
            return sink.text(text, self.style.unwrap_or(Style::Json), self.span);
        }
        match (self.value.as_bool(), self.value.as_number()) {
            (Some(bool), _) => sink.bool(bool, self.span),
            (_, Some(number)) => sink.number(number.clone(), self.span),
            _ => sink.null(self.span),
        }
    }

    fn children_by_key(&self) -> &[TreeEntry] {
        match &self.children {
            Children::Entries(entries) => entries,
            _ => &[],
        }
    }
}

/// Reads a text that stands behind others as a tree: its places are counted from `base`, those of an error from the
/// beginning of the text.
pub(super) fn read(
    text: &str,
    format: DataFormat,
    limits: &Limits,
    base: usize,
) -> Result<TreeNode, ReadError> {
    let base = Span::new(base, base).start;
    let mut sink = TreeSink { base, ..TreeSink::default() };
    data::read(text, format, limits, &mut sink)?;
    let nothing = TreeNode::leaf(Value::NULL, None, Span { start: base, end: base });
    Ok(sink.nodes.pop().unwrap_or(nothing))
}

impl TreeEntry {
    /// An entry that nobody wrote, for something that stands in a file.
    pub fn made(key_span: Span, node: TreeNode) -> Self {
        Self { key_span, key_style: Style::Plain, node }
    }
}

impl TreeNode {
    /// A text that nobody wrote, for something that stands in a file.
    pub fn made_text(text: &str, span: Span) -> Self {
        Self::leaf(text.into(), Some(Style::Plain), span)
    }

    /// A number or a bool that nobody wrote, for something that stands in a file.
    pub fn made_scalar(value: Value, span: Span) -> Self {
        Self::leaf(value, None, span)
    }

    /// Null, for something that stands in a file.
    pub fn made_null(span: Span) -> Self {
        Self::leaf(Value::NULL, None, span)
    }

    /// A list of nodes, for something that stands in a file.
    pub fn made_list(items: Vec<Self>, span: Span) -> Result<Self, Oversized> {
        let value = Value::list(items.iter().map(|item| item.value.clone()).collect())?;
        Ok(Self { span, style: None, value, children: Children::Items(items.into()) })
    }

    /// An object of entries, no key twice, for something that stands in a file.
    pub fn made_object(entries: Vec<(EcoString, TreeEntry)>, span: Span) -> Result<Self, Oversized> {
        let values = entries.iter().map(|(key, entry)| (key.clone(), entry.node.value.clone()));
        let value = Value::object(values)?;
        let entries = entries.into_iter().map(|(_, entry)| entry).collect();
        Ok(Self { span, style: None, value, children: Children::Entries(entries) })
    }

    fn leaf(value: Value, style: Option<Style>, span: Span) -> Self {
        Self { span, style, value, children: Children::None }
    }
}

/// Builds a tree from events.
#[derive(Default)]
struct TreeSink {
    /// Where the text begins among those that it stands behind.
    base: u32,
    /// The nodes of all open containers, the outermost first.
    nodes: Vec<TreeNode>,
    /// Where the keys of all open objects stand.
    keys: Vec<(Span, Style)>,
    tables: KeyTables,
    open: Vec<OpenTreeNode>,
    anchor: Option<usize>,
    kept: Vec<Option<TreeNode>>,
}

struct OpenTreeNode {
    first_node: usize,
    first_key: usize,
    span: Span,
    anchor: Option<usize>,
}

impl TreeSink {
    fn placed(&self, span: Span) -> Span {
        Span { start: span.start.saturating_add(self.base), end: span.end.saturating_add(self.base) }
    }

    fn push(&mut self, node: TreeNode) {
        let node = TreeNode { span: self.placed(node.span), ..node };
        if let Some(id) = self.anchor.take() {
            if self.kept.len() <= id {
                self.kept.resize_with(id + 1, || None);
            }
            self.kept[id] = Some(node.clone());
        }
        self.nodes.push(node);
    }

    fn begin(&mut self, span: Span) {
        let (first_node, first_key) = (self.nodes.len(), self.keys.len());
        self.open.push(OpenTreeNode { first_node, first_key, span, anchor: self.anchor.take() });
    }

    fn end(
        &mut self,
        end: Span,
        build: impl FnOnce(Vec<TreeNode>, Vec<(Span, Style)>) -> Result<(Value, Children), Oversized>,
    ) -> Result<(), ReadError> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        let nodes = self.nodes.split_off(open.first_node);
        // A YAML block has no bracket at its end: it ends where its last value does.
        let of_last =
            |node: &TreeNode| Span { start: node.span.start - self.base, end: node.span.end - self.base };
        let end = if end.start == end.end { nodes.last().map_or(end, of_last) } else { end };
        let span = open.span.to(end);
        let (value, children) = build(nodes, self.keys.split_off(open.first_key))
            .map_err(|Oversized(limit)| ReadError::new(ReadErrorKind::Limit(limit), span))?;
        self.anchor = open.anchor;
        self.push(TreeNode { span, style: None, value, children });
        Ok(())
    }
}

impl Sink for TreeSink {
    type Error = ReadError;

    fn null(&mut self, span: Span) -> Result<(), ReadError> {
        self.push(TreeNode::leaf(Value::NULL, None, span));
        Ok(())
    }

    fn bool(&mut self, bool: bool, span: Span) -> Result<(), ReadError> {
        self.push(TreeNode::leaf(bool.into(), None, span));
        Ok(())
    }

    fn number(&mut self, number: Number, span: Span) -> Result<(), ReadError> {
        self.push(TreeNode::leaf(number.into(), None, span));
        Ok(())
    }

    fn text(&mut self, text: &str, style: Style, span: Span) -> Result<(), ReadError> {
        self.push(TreeNode::leaf(text.into(), Some(style), span));
        Ok(())
    }

    fn key(&mut self, key: &str, style: Style, span: Span) -> Result<(), ReadError> {
        self.tables.key(key, span);
        self.keys.push((self.placed(span), style));
        Ok(())
    }

    fn begin_list(&mut self, span: Span) -> Result<(), ReadError> {
        self.begin(span);
        Ok(())
    }

    fn end_list(&mut self, span: Span) -> Result<(), ReadError> {
        self.end(span, |nodes, _| {
            let value = Value::list(nodes.iter().map(|node| node.value.clone()).collect())?;
            Ok((value, Children::Items(nodes.into())))
        })
    }

    fn begin_object(&mut self, span: Span) -> Result<(), ReadError> {
        self.tables.begin();
        self.begin(span);
        Ok(())
    }

    fn end_object(&mut self, span: Span) -> Result<(), ReadError> {
        let table = self.tables.end()?;
        self.end(span, |nodes, keys| {
            let object = Object::new(table, nodes.iter().map(|node| node.value.clone()).collect())?;
            let entry = |(node, (key_span, key_style))| TreeEntry { key_span, key_style, node };
            Ok((object.into(), Children::Entries(nodes.into_iter().zip(keys).map(entry).collect())))
        })
    }

    fn anchor(&mut self, id: usize) {
        self.anchor = Some(id);
    }

    fn alias(&mut self, id: usize, span: Span) -> Result<(), ReadError> {
        let kept = self.kept.get(id).cloned().flatten();
        let node = kept.ok_or_else(|| ReadError::new(ReadErrorKind::AliasNotAllowed, span))?;
        self.push(TreeNode { span, ..node });
        Ok(())
    }
}
