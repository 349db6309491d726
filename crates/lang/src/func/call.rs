//! What the bodies share: reading arguments, spending operations, keeping texts within the limit.
//!
//! An argument that was not given reads as null, so that a body never indexes past its arguments.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use super::measure::{self, MeasuredForm};
use super::{FuncError, FunctionCall};
use crate::limits::Limit;
use crate::value::{JsonStyle, Number, Object, Type, Value};

/// Scanning or making this many bytes of text costs one operation.
const BYTES_PER_OPERATION: usize = 1024;

/// What is done with each element in a call.
type VisitIn<'v, C> = &'v mut dyn FnMut(&mut C, usize, &Value, Value) -> Result<(), FuncError>;

static NULL: Value = Value::NULL;

impl<'a> FunctionCall<'a> {
    /// Counts `operations` against the limit.
    pub(crate) fn spend(&mut self, operations: usize) -> Result<(), FuncError> {
        match self.fuel.checked_sub(operations as u64) {
            Some(left) => {
                *self.fuel = left;
                Ok(())
            }
            None => Err(FuncError::Limit(Limit::Operations)),
        }
    }

    /// Counts the work on a text against the limit.
    pub(super) fn spend_bytes(&mut self, bytes: usize) -> Result<(), FuncError> {
        self.spend(bytes / BYTES_PER_OPERATION)
    }

    pub(super) fn arg(&self, index: usize) -> &'a Value {
        self.args.get(index).unwrap_or(&NULL)
    }

    /// The argument, when it was given.
    pub(super) fn given(&self, index: usize) -> Option<&'a Value> {
        self.args.get(index)
    }

    pub(super) fn wrong_type(&self, arg: usize, expected: &'static str) -> FuncError {
        FuncError::Type { arg, expected, got: self.arg(arg).kind() }
    }

    /// A text argument; reading it is paid for.
    pub(super) fn text(&mut self, index: usize) -> Result<&'a str, FuncError> {
        let text = self.arg(index).as_str();
        let text = text.ok_or_else(|| self.wrong_type(index, "text"))?;
        self.spend_bytes(text.len())?;
        Ok(text)
    }

    /// A text argument that may be left out.
    pub(super) fn optional_text(&mut self, index: usize) -> Result<Option<&'a str>, FuncError> {
        if self.given(index).is_none() {
            return Ok(None);
        }
        self.text(index).map(Some)
    }

    /// One of a few words, or the first of them when the argument is left out.
    pub(super) fn word(&mut self, index: usize, words: [&'static str; 2]) -> Result<&'static str, FuncError> {
        let Some(text) = self.optional_text(index)? else {
            return Ok(words[0]);
        };
        let found = words.into_iter().find(|word| *word == text);
        let [first, second] = words;
        found.ok_or_else(|| FuncError::value(index, format!("must be `{first}` or `{second}`"), None))
    }

    /// A count that may be left out.
    pub(super) fn optional_count(&self, index: usize, most: u32, default: u32) -> Result<u32, FuncError> {
        let Some(value) = self.given(index) else {
            return Ok(default);
        };
        if value.kind() != Type::Int {
            return Err(self.wrong_type(index, "an int"));
        }
        let count = value.as_i64().and_then(|count| u32::try_from(count).ok());
        let count = count.filter(|count| *count <= most);
        count.ok_or_else(|| FuncError::value(index, format!("must be from 0 to {most}"), None))
    }

    pub(super) fn list(&self, index: usize) -> Result<&'a [Value], FuncError> {
        self.arg(index).as_list().ok_or_else(|| self.wrong_type(index, "a list"))
    }

    pub(super) fn object(&self, index: usize) -> Result<&'a Arc<Object>, FuncError> {
        self.arg(index).as_object().ok_or_else(|| self.wrong_type(index, "an object"))
    }

    pub(super) fn number(&self, index: usize) -> Result<&'a Number, FuncError> {
        self.arg(index).as_number().ok_or_else(|| self.wrong_type(index, "a number"))
    }

    /// Visits the elements of the list that is the first argument, each with what the element expression makes
    /// of it, or with itself when there is none.
    pub(super) fn each(
        &mut self,
        mut visit: impl FnMut(&mut Self, usize, &Value, Value) -> Result<(), FuncError>,
    ) -> Result<(), FuncError> {
        if self.stream.is_some() {
            return self.each_streamed(0..usize::MAX, &mut visit);
        }
        for (index, item) in self.list(0)?.iter().enumerate() {
            self.spend(1)?;
            let result = match &mut self.element {
                Some(element) => element(index, item)?,
                None => item.clone(),
            };
            visit(self, index, item, result)?;
        }
        Ok(())
    }

    /// Visits the elements themselves.
    pub(super) fn each_item(
        &mut self,
        mut visit: impl FnMut(&mut Self, usize, &Value) -> Result<(), FuncError>,
    ) -> Result<(), FuncError> {
        if self.stream.is_some() {
            return self.each_streamed(0..usize::MAX, &mut |call, index, item, _| visit(call, index, item));
        }
        for (index, item) in self.list(0)?.iter().enumerate() {
            self.spend(1)?;
            visit(self, index, item)?;
        }
        Ok(())
    }

    /// Visits elements, each with what the element expression makes of it.
    #[inline(never)]
    fn each_streamed(&mut self, part: Range<usize>, visit: VisitIn<'_, Self>) -> Result<(), FuncError> {
        let fuel = *self.fuel;
        let Some(stream) = &mut self.stream else { return Ok(()) };
        let (refills, Some(each)) = (stream.refills, stream.each.take()) else { return Ok(()) };
        each(part, &mut |index, item, result| {
            if refills {
                *self.fuel = fuel;
            }
            self.spend(1)?;
            visit(self, index, item, result)
        })?;
        if refills {
            *self.fuel = fuel;
        }
        Ok(())
    }

    /// How many elements there are in the list that is the first argument.
    pub(super) fn len(&mut self) -> Result<usize, FuncError> {
        let Some(stream) = &self.stream else { return Ok(self.list(0)?.len()) };
        if let Some(len) = stream.len {
            return Ok(len);
        }
        let mut len = 0;
        self.each_item(|_, _, _| {
            len += 1;
            Ok(())
        })?;
        Ok(len)
    }

    /// The element at one end: the only one in a part of the list, or of elements whose number is not known the one that
    /// replaces those before it.
    pub(super) fn end(
        &mut self,
        part: impl FnOnce(usize) -> Range<usize>,
        replaces: impl Fn(&Value) -> bool,
    ) -> Result<Option<Value>, FuncError> {
        let Some(stream) = &self.stream else {
            let list = self.list(0)?;
            return Ok(list.get(part(list.len())).and_then(<[Value]>::first).cloned());
        };
        let (part, mut found) = (stream.len.map_or(0..usize::MAX, part), None);
        self.each_streamed(part, &mut |_, _, member, _| {
            if found.as_ref().is_none_or(&replaces) {
                found = Some(member.clone());
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// All elements; of elements as many as may be kept.
    pub(super) fn elements(&mut self) -> Result<Cow<'a, [Value]>, FuncError> {
        if self.stream.is_none() {
            return self.list(0).map(Cow::Borrowed);
        }
        let mut items = Vec::new();
        self.each_streamed(0..usize::MAX, &mut |call, _, member, _| {
            items.push(call.keep(member)?);
            Ok(())
        })?;
        Ok(Cow::Owned(items))
    }

    /// Whether an element expression was given.
    pub(super) fn has_element(&self) -> bool {
        self.element.is_some() || self.stream.as_ref().is_some_and(|stream| stream.element)
    }

    /// A part of the elements that is kept. Of a list it is there already; of elements only so much is.
    #[inline]
    pub(super) fn keep(&mut self, value: &Value) -> Result<Value, FuncError> {
        if self.stream.is_some() {
            self.make_room(value.size())?;
        }
        Ok(value.clone())
    }

    /// Counts bytes that are kept.
    pub(super) fn make_room(&mut self, bytes: u64) -> Result<(), FuncError> {
        self.room = self.room.checked_sub(bytes).ok_or(FuncError::Limit(Limit::Elements))?;
        Ok(())
    }

    /// An element, or what the element expression made of it, is not what the function takes.
    pub(super) fn wrong_element(&self, index: usize, expected: &'static str, got: Type) -> FuncError {
        if self.has_element() {
            return FuncError::ElementType { index, expected, got };
        }
        let why = format!("the element at index {index} is {}, not {expected}", got.with_article());
        let convertible = got == Type::Text && expected == "a number";
        let hint = convertible.then(|| "`number(...)` reads a text as a number".to_owned());
        FuncError::Value { arg: 0, why, hint }
    }

    /// Makes a text of `size` bytes, once that is known to be within the limit.
    pub(super) fn make_text(
        &mut self,
        size: usize,
        write: impl FnOnce(&mut String),
    ) -> Result<Value, FuncError> {
        if size > self.limits.text_result {
            return Err(FuncError::Limit(Limit::TextResult));
        }
        self.spend_bytes(size)?;
        let mut out = String::with_capacity(size);
        write(&mut out);
        Ok(Value::from(out))
    }

    /// Makes the text form or the JSON of a value.
    pub(super) fn make_form(&mut self, value: &Value, form: MeasuredForm) -> Result<Value, FuncError> {
        let size = self.measured(value, form, 0)?;
        self.make_text(size, |out| match form {
            MeasuredForm::Text => value.write_text(out),
            MeasuredForm::Compact => value.write_json(out, JsonStyle::Compact),
            MeasuredForm::Pretty | MeasuredForm::Block => value.write_json(out, JsonStyle::Pretty),
        })
    }

    /// The size of a value in a form, when `before` bytes and it are within the limit.
    pub(super) fn measured(
        &self,
        value: &Value,
        form: MeasuredForm,
        before: usize,
    ) -> Result<usize, FuncError> {
        let most = self.limits.text_result.checked_sub(before);
        let size = most.and_then(|most| measure::size(value, form, most));
        size.ok_or(FuncError::Limit(Limit::TextResult))
    }
}

impl FuncError {
    pub(super) fn value(arg: usize, why: impl Into<String>, hint: Option<&str>) -> Self {
        Self::Value { arg, why: why.into(), hint: hint.map(str::to_owned) }
    }
}
