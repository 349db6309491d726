//! YAML 1.2 with the core schema: one document per file, text keys only.
//!
//! Aliases share the value they name. Merge keys, directives for other versions and tags other than the core
//! ones are refused, and so is what YAML would silently read otherwise than its author meant it. The parser
//! itself is a library; nothing outside this folder knows which.

mod core_schema;
mod misread;
mod write;

use ecow::EcoString;
use granit_parser::{Event, ScalarStyle, Tag};

use crate::data::{ReadError, ReadErrorKind, Sink, Style, check_size, value_of};
use crate::diag::{Fix, Span};
use crate::limits::{Limit, Limits};
use crate::value::{MAX_DEPTH, Value};
use core_schema::Scalar;

pub use write::write;

/// Reads one YAML document into a sink. An empty text is null.
pub fn read<S: Sink>(text: &str, limits: &Limits, sink: &mut S) -> Result<(), S::Error> {
    check_size(text, limits)?;
    let mut parser = granit_parser::Parser::new_from_str_with_options(text, parser_options());
    let mut reader = YamlReader {
        text,
        sink,
        open: Vec::new(),
        anchors: Anchors::new(limits),
        anchored_keys: Vec::new(),
        documents: 0,
    };
    while let Some(next) = parser.next_event() {
        let (event, span) = next.map_err(|error| misread::explain(text, &error))?;
        reader.event(event, span)?;
    }
    if reader.documents == 0 {
        reader.sink.null(Span::default())?;
    }
    Ok(())
}

fn parser_options() -> granit_parser::Options {
    let mut options = granit_parser::options! {
        flow_nesting_limit: usize::from(MAX_DEPTH) + 1,
        block_nesting_limit: usize::from(MAX_DEPTH) + 1,
    };
    options.set_emit_comments(false);
    options
}

/// Reads one YAML document as a value.
pub fn read_value(text: &str, limits: &Limits) -> Result<Value, ReadError> {
    value_of(|sink| read(text, limits, sink))
}

struct YamlReader<'t, 's, S> {
    text: &'t str,
    sink: &'s mut S,
    open: Vec<OpenYamlContainer>,
    anchors: Anchors,
    /// The keys that have an anchor: an alias of one is its text.
    anchored_keys: Vec<(usize, String, Style)>,
    documents: usize,
}

/// What comes next in an open container.
#[derive(Clone, Copy, PartialEq)]
enum OpenYamlContainer {
    /// An item of a list.
    Item,
    /// A key of an object.
    Key,
    /// The value of the key before it.
    Value,
}

/// What stands before a node.
struct Properties<'e> {
    anchor: usize,
    tag: Option<(&'e Tag, Span)>,
}

impl<'e> Properties<'e> {
    fn new(anchor: usize, tag: Option<&'e Tag>, span: &granit_parser::Span) -> Self {
        let tag_span = bytes(&span.tag_span().unwrap_or(*span));
        Self { anchor, tag: tag.map(|tag| (tag, tag_span)) }
    }
}

impl<S: Sink> YamlReader<'_, '_, S> {
    fn event(&mut self, event: Event<'_>, at: granit_parser::Span) -> Result<(), S::Error> {
        let span = bytes(&at);
        match event {
            Event::DocumentStart(_, version) => {
                let other = version.is_some_and(|version| (version.major, version.minor) != (1, 2));
                self.begin_document(other, span).map_err(S::Error::from)
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.scalar(&text, style_of(style), &Properties::new(anchor, tag.as_deref(), &at), span)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.begin(OpenYamlContainer::Item, &Properties::new(anchor, tag.as_deref(), &at), span)
            }
            Event::MappingStart(_, anchor, tag) => {
                self.begin(OpenYamlContainer::Key, &Properties::new(anchor, tag.as_deref(), &at), span)
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(span),
            Event::Alias(id) => self.alias(id, span),
            _ => Ok(()),
        }
    }

    fn begin_document(&mut self, other_version: bool, span: Span) -> Result<(), ReadError> {
        self.documents += 1;
        if self.documents > 1 {
            return Err(ReadError::new(ReadErrorKind::SeveralDocuments, span));
        }
        if other_version {
            return Err(ReadError::new(ReadErrorKind::OtherVersion, span));
        }
        Ok(())
    }

    fn scalar(
        &mut self,
        text: &str,
        style: Style,
        properties: &Properties<'_>,
        span: Span,
    ) -> Result<(), S::Error> {
        if style == Style::Plain {
            misread::check_cut(self.text, span, self.key_is_next())?;
            misread::check_comment(self.text, span)?;
        }
        let scalar = resolve(text, style, properties, span)?;
        if self.key_is_next() {
            return self.key(text, style, &scalar, properties, span);
        }
        self.anchor(properties);
        match scalar {
            Scalar::Null => self.sink.null(span)?,
            Scalar::Bool(bool) => self.sink.bool(bool, span)?,
            Scalar::Number(number) => self.sink.number(number, span)?,
            Scalar::Text => self.sink.text(text, style, span)?,
        }
        self.anchors.scalar(properties.anchor, text.len());
        self.expect_after_value();
        Ok(())
    }

    fn key(
        &mut self,
        text: &str,
        style: Style,
        scalar: &Scalar,
        properties: &Properties<'_>,
        span: Span,
    ) -> Result<(), S::Error> {
        let kind = match scalar {
            Scalar::Null => ReadErrorKind::KeyNotText("null"),
            Scalar::Text if text == "<<" && style == Style::Plain => ReadErrorKind::MergeKey,
            _ => {
                self.anchors.count(text.len());
                if properties.anchor > 0 {
                    self.anchors.scalar(properties.anchor, text.len());
                    self.anchored_keys.push((properties.anchor, text.to_owned(), style));
                }
                self.expect(OpenYamlContainer::Value);
                return self.sink.key(text, style, span);
            }
        };
        let hint = matches!(kind, ReadErrorKind::KeyNotText(_)).then_some("quote this key");
        Err(ReadError { hint, ..ReadError::new(kind, span) }.into())
    }

    fn begin(
        &mut self,
        next: OpenYamlContainer,
        properties: &Properties<'_>,
        span: Span,
    ) -> Result<(), S::Error> {
        let (tag, found) = if next == OpenYamlContainer::Item { ("seq", "list") } else { ("map", "object") };
        if self.key_is_next() {
            return Err(ReadError::new(ReadErrorKind::KeyNotText(found), span).into());
        }
        check_container_tag(properties, tag, found)?;
        if self.open.len() >= usize::from(MAX_DEPTH) {
            return Err(ReadError::new(ReadErrorKind::Limit(Limit::DataDepth), span).into());
        }
        self.anchor(properties);
        self.open.push(next);
        self.anchors.begin(properties.anchor, self.open.len());
        self.anchors.count(0);
        if next == OpenYamlContainer::Item {
            self.sink.begin_list(span)
        } else {
            self.sink.begin_object(span)
        }
    }

    fn end(&mut self, span: Span) -> Result<(), S::Error> {
        match self.open.pop() {
            Some(OpenYamlContainer::Item) => self.sink.end_list(span)?,
            _ => self.sink.end_object(span)?,
        }
        self.anchors.end(self.open.len() + 1);
        self.expect_after_value();
        Ok(())
    }

    fn alias(&mut self, id: usize, span: Span) -> Result<(), S::Error> {
        if self.key_is_next() {
            return Err(ReadError::new(ReadErrorKind::KeyNotText("alias"), span).into());
        }
        self.anchors.repeat(id, self.open.len()).map_err(|kind| ReadError::new(kind, span))?;
        if let Some(at) = self.anchored_keys.iter().position(|(key, ..)| *key == id) {
            let (_, text, style) = self.anchored_keys[at].clone();
            return self.scalar(&text, style, &Properties { anchor: 0, tag: None }, span);
        }
        self.sink.alias(id, span)?;
        self.expect_after_value();
        Ok(())
    }

    fn anchor(&mut self, properties: &Properties<'_>) {
        if properties.anchor > 0 {
            self.sink.anchor(properties.anchor);
        }
    }

    fn key_is_next(&self) -> bool {
        self.open.last() == Some(&OpenYamlContainer::Key)
    }

    fn expect_after_value(&mut self) {
        if self.open.last() == Some(&OpenYamlContainer::Value) {
            self.expect(OpenYamlContainer::Key);
        }
    }

    fn expect(&mut self, next: OpenYamlContainer) {
        if let Some(open) = self.open.last_mut() {
            *open = next;
        }
    }
}

/// How much each anchored value holds, so that aliases are refused before they add up.
struct Anchors {
    /// What the aliases so far have repeated.
    repeated: usize,
    limit: usize,
    /// What has been read, aliases counted with all they repeat.
    total: usize,
    values: Vec<Anchored>,
    open: Vec<OpenAnchor>,
}

#[derive(Clone, Copy, Default)]
struct Anchored {
    complete: bool,
    size: usize,
    /// How deep the containers in it are nested.
    height: usize,
}

struct OpenAnchor {
    id: usize,
    /// How many containers were open when it had begun, itself counted.
    depth: usize,
    deepest: usize,
    total: usize,
}

impl Anchors {
    /// What a node counts as, beside the bytes of its text.
    const NODE: usize = 8;

    fn new(limits: &Limits) -> Self {
        Self { repeated: 0, limit: limits.source, total: 0, values: Vec::new(), open: Vec::new() }
    }

    fn count(&mut self, len: usize) {
        self.total = self.total.saturating_add(len).saturating_add(Self::NODE);
    }

    fn scalar(&mut self, id: usize, len: usize) {
        self.count(len);
        if id > 0 {
            self.set(id, Anchored { complete: true, size: len + Self::NODE, height: 0 });
        }
    }

    fn begin(&mut self, id: usize, depth: usize) {
        self.reach(depth);
        if id > 0 {
            self.set(id, Anchored::default());
            self.open.push(OpenAnchor { id, depth, deepest: depth, total: self.total });
        }
    }

    /// The container at a depth ends.
    fn end(&mut self, depth: usize) {
        if let Some(open) = self.open.pop_if(|open| open.depth == depth) {
            let height = open.deepest - open.depth + 1;
            self.set(open.id, Anchored { complete: true, size: self.total - open.total, height });
            self.reach(open.deepest);
        }
    }

    fn repeat(&mut self, id: usize, depth: usize) -> Result<(), ReadErrorKind> {
        let anchored = self.values.get(id).copied().unwrap_or_default();
        if !anchored.complete {
            return Err(ReadErrorKind::AliasInItself);
        }
        if depth + anchored.height > usize::from(MAX_DEPTH) {
            return Err(ReadErrorKind::Limit(Limit::DataDepth));
        }
        self.repeated = self.repeated.saturating_add(anchored.size);
        if self.repeated > self.limit {
            return Err(ReadErrorKind::TooManyAliases);
        }
        self.total = self.total.saturating_add(anchored.size);
        self.reach(depth + anchored.height);
        Ok(())
    }

    fn reach(&mut self, depth: usize) {
        if let Some(open) = self.open.last_mut() {
            open.deepest = open.deepest.max(depth);
        }
    }

    fn set(&mut self, id: usize, anchored: Anchored) {
        if self.values.len() <= id {
            self.values.resize(id + 1, Anchored::default());
        }
        self.values[id] = anchored;
    }
}

/// What a scalar is, from its tag or else from how it is written.
fn resolve(text: &str, style: Style, properties: &Properties<'_>, span: Span) -> Result<Scalar, ReadError> {
    let left_out = span.start == span.end;
    let Some((tag, tag_span)) = properties.tag else {
        return match style {
            Style::Plain if left_out => Ok(Scalar::Null),
            Style::Plain => core_schema::resolve(text).map_err(|kind| quotable(kind, text, span)),
            _ => Ok(Scalar::Text),
        };
    };
    let Some(name) = tag.core_suffix() else {
        return Err(unknown_tag(tag, tag_span));
    };
    let text = if left_out { "" } else { text };
    let fits = core_schema::resolve_as(name, text).ok_or_else(|| unknown_tag(tag, tag_span))?;
    let fits = fits.map_err(|kind| ReadError::new(kind, span))?;
    fits.ok_or_else(|| ReadError::new(ReadErrorKind::TagMismatch { tag: name.into(), found: "text" }, span))
}

fn check_container_tag(
    properties: &Properties<'_>,
    expected: &str,
    found: &'static str,
) -> Result<(), ReadError> {
    match properties.tag {
        None => Ok(()),
        Some((tag, _)) if tag.core_suffix() == Some(expected) => Ok(()),
        Some((tag, span)) => Err(match tag.core_suffix() {
            Some(name) if core_schema::TAGS.contains(&name) => {
                ReadError::new(ReadErrorKind::TagMismatch { tag: name.into(), found }, span)
            }
            _ => unknown_tag(tag, span),
        }),
    }
}

fn unknown_tag(tag: &Tag, span: Span) -> ReadError {
    let kind = ReadErrorKind::UnknownTag(EcoString::from(tag.original()));
    ReadError::new(kind, span).with_hint(misread::QUOTE)
}

/// A value that can be read once it stands in quotes.
fn quotable(kind: ReadErrorKind, text: &str, span: Span) -> ReadError {
    let fix = Fix::new(span, misread::quoted(text));
    ReadError { hint: Some(misread::QUOTE), fix: Some(Box::new(fix)), ..ReadError::new(kind, span) }
}

fn bytes(span: &granit_parser::Span) -> Span {
    span.byte_range().map_or_else(Span::default, |range| Span::new(range.start, range.end))
}

fn style_of(style: ScalarStyle) -> Style {
    match style {
        ScalarStyle::Plain => Style::Plain,
        ScalarStyle::SingleQuoted => Style::Single,
        ScalarStyle::DoubleQuoted => Style::Double,
        ScalarStyle::Literal => Style::Literal,
        ScalarStyle::Folded => Style::Folded,
    }
}
