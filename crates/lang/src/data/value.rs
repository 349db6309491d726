//! Builds a value from events.

use crate::data::{KeyTables, ReadError, ReadErrorKind, Sink, Style};
use crate::diag::Span;
use crate::value::{Number, Object, Oversized, Value};

/// Builds a [`Value`]. Records of one shape share their key table, aliases share their value. The reader counts how deep
/// containers are nested.
pub struct ValueSink {
    /// The values of all open containers, the outermost first.
    values: Vec<Value>,
    open: Vec<OpenValueContainer>,
    keys: KeyTables,
    /// Where the value that begins next is to be kept.
    anchor: Option<usize>,
    kept: Vec<Option<Value>>,
}

struct OpenValueContainer {
    first_value: usize,
    anchor: Option<usize>,
    span: Span,
}

impl ValueSink {
    /// Nothing read yet.
    pub fn new() -> Self {
        // Room for a small document, which would otherwise spend its time growing these.
        Self {
            values: Vec::with_capacity(32),
            open: Vec::with_capacity(16),
            keys: KeyTables::new(),
            anchor: None,
            kept: Vec::new(),
        }
    }

    /// The value; null when there was none.
    pub fn finish(mut self) -> Value {
        self.values.pop().unwrap_or_default()
    }

    #[inline]
    fn push(&mut self, value: Value) {
        if let Some(id) = self.anchor.take() {
            self.keep(id, value.clone());
        }
        self.values.push(value);
    }

    #[cold]
    fn keep(&mut self, id: usize, value: Value) {
        if self.kept.len() <= id {
            self.kept.resize_with(id + 1, || None);
        }
        self.kept[id] = Some(value);
    }

    #[inline]
    fn begin(&mut self, span: Span) {
        self.open.push(OpenValueContainer {
            first_value: self.values.len(),
            anchor: self.anchor.take(),
            span,
        });
    }

    /// The values of the innermost container, and what to know about it.
    #[inline]
    fn end(&mut self) -> (Vec<Value>, OpenValueContainer) {
        let open = self.open.pop().unwrap_or(OpenValueContainer {
            first_value: 0,
            anchor: None,
            span: Span::default(),
        });
        (self.values.split_off(open.first_value), open)
    }

    fn close(&mut self, value: Result<Value, Oversized>, open: &OpenValueContainer) -> Result<(), ReadError> {
        let value =
            value.map_err(|Oversized(limit)| ReadError::new(ReadErrorKind::Limit(limit), open.span))?;
        self.anchor = open.anchor;
        self.push(value);
        Ok(())
    }
}

impl Default for ValueSink {
    fn default() -> Self {
        Self::new()
    }
}

impl Sink for ValueSink {
    type Error = ReadError;

    #[inline]
    fn null(&mut self, _span: Span) -> Result<(), ReadError> {
        self.push(Value::NULL);
        Ok(())
    }

    #[inline]
    fn bool(&mut self, bool: bool, _span: Span) -> Result<(), ReadError> {
        self.push(bool.into());
        Ok(())
    }

    #[inline]
    fn number(&mut self, number: Number, _span: Span) -> Result<(), ReadError> {
        self.push(number.into());
        Ok(())
    }

    #[inline]
    fn text(&mut self, text: &str, _style: Style, _span: Span) -> Result<(), ReadError> {
        self.push(text.into());
        Ok(())
    }

    #[inline]
    fn key(&mut self, key: &str, _style: Style, span: Span) -> Result<(), ReadError> {
        self.keys.key(key, span);
        Ok(())
    }

    #[inline]
    fn begin_list(&mut self, span: Span) -> Result<(), ReadError> {
        self.begin(span);
        Ok(())
    }

    #[inline]
    fn end_list(&mut self, _span: Span) -> Result<(), ReadError> {
        let (values, open) = self.end();
        self.close(Value::read_list(values), &open)
    }

    #[inline]
    fn begin_object(&mut self, span: Span) -> Result<(), ReadError> {
        self.keys.begin();
        self.begin(span);
        Ok(())
    }

    #[inline]
    fn end_object(&mut self, _span: Span) -> Result<(), ReadError> {
        let keys = self.keys.end()?;
        let (values, open) = self.end();
        self.close(Object::read(keys, values).map(Value::from), &open)
    }

    fn anchor(&mut self, id: usize) {
        self.anchor = Some(id);
    }

    fn alias(&mut self, id: usize, span: Span) -> Result<(), ReadError> {
        let kept = self.kept.get(id).cloned().flatten();
        let value = kept.ok_or_else(|| ReadError::new(ReadErrorKind::AliasNotAllowed, span))?;
        self.push(value);
        Ok(())
    }
}
