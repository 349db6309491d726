//! Values: null, bool, int, decimal, text, list, object.
//!
//! A value is 24 bytes, cheap to clone whatever its size, `Send` and `Sync`. Containers know their depth, and data
//! refuses to be nested deeper than [`MAX_DEPTH`], so that dropping, comparing and printing may recurse.
//! This module never reads a template: a text that holds `${...}` is just a text.

mod canonical;
mod number;
mod object;
pub mod ops;
mod print;
pub(crate) use print::{quote, quoted};

use std::fmt;
use std::sync::Arc;

use ecow::EcoString;

use crate::limits::Limit;

pub use number::{MAX_DIGITS, Number, NumberError};
pub use object::{Key, KeyTable, Object, Repeated};
pub(crate) use object::{LastPosition, hash};
pub use print::JsonStyle;

/// How deep data may be nested.
pub const MAX_DEPTH: u8 = 200;

/// The name of a value's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Type {
    /// Nothing, on purpose.
    Null,
    /// `true` or `false`.
    Bool,
    /// A whole number of any size.
    Int,
    /// An exact decimal.
    Decimal,
    /// A sequence of Unicode code points.
    Text,
    /// Values in order.
    List,
    /// Values by key, in the order they were written.
    Object,
}

impl Type {
    /// Every type, in the order tables show them.
    pub const ALL: [Self; 7] =
        [Self::Null, Self::Bool, Self::Int, Self::Decimal, Self::Text, Self::List, Self::Object];

    /// The name users see.
    pub fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Decimal => "decimal",
            Self::Text => "text",
            Self::List => "list",
            Self::Object => "object",
        }
    }
}

impl Type {
    /// The type in a sentence: "a list", "an int", "text".
    pub fn with_article(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool => "a bool",
            Self::Int => "an int",
            Self::Decimal => "a decimal",
            Self::Text => "text",
            Self::List => "a list",
            Self::Object => "an object",
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How large data may be when it is written out, in bytes: a value that shares its parts can be small in memory
/// and without end on paper.
pub const MAX_SIZE: u64 = 512 << 20;

/// A container would be nested deeper than [`MAX_DEPTH`], or be larger than [`MAX_SIZE`]; which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Oversized(pub Limit);

/// A value of the language, cheap to clone.
#[derive(Clone, Default)]
pub struct Value(pub(crate) ValueRepr);

#[derive(Clone, Default)]
pub(crate) enum ValueRepr {
    #[default]
    Null,
    Bool(bool),
    Number(Number),
    Text(EcoString),
    List(Arc<ListValue>),
    Object(Arc<Object>),
}

/// The items of a list value.
pub struct ListValue {
    extent: Extent,
    items: Vec<Value>,
}

/// How deep a container is, and about how many bytes it is written out.
#[derive(Clone, Copy)]
struct Extent {
    depth: u8,
    size: u64,
}

/// The extent of an empty container.
impl Default for Extent {
    fn default() -> Self {
        Self { depth: 1, size: 2 }
    }
}

impl Extent {
    /// Of a container with these children, where it is data.
    fn of(children: &[Value]) -> Result<Self, Oversized> {
        let around = Self::around(children);
        if around.depth > MAX_DEPTH {
            return Err(Oversized(Limit::DataDepth));
        }
        around.of_known_depth()
    }

    /// The same, where something else has counted how deep it is.
    fn of_known_depth(self) -> Result<Self, Oversized> {
        if self.size > MAX_SIZE { Err(Oversized(Limit::DataSize)) } else { Ok(self) }
    }

    /// Of a container with these children, whatever the limits of data are.
    fn around(children: &[Value]) -> Self {
        let (mut depth, mut size) = (0, 2_u64);
        for child in children {
            let extent = child.extent();
            depth = depth.max(extent.depth);
            size = size.saturating_add(extent.size).saturating_add(1);
        }
        Self { depth: depth.saturating_add(1), size }
    }
}

impl Value {
    /// The value null.
    pub const NULL: Self = Self(ValueRepr::Null);

    /// A list of these items.
    pub fn list(items: Vec<Self>) -> Result<Self, Oversized> {
        Ok(Self(ValueRepr::List(Arc::new(ListValue { extent: Extent::of(&items)?, items }))))
    }

    /// An object of these entries. Of two entries with one key the later wins, in the earlier one's place.
    pub fn object(entries: impl IntoIterator<Item = (EcoString, Self)>) -> Result<Self, Oversized> {
        let (keys, values) = merged(entries);
        Ok(Self::from(Object::new(keys, values)?))
    }

    /// An object that a program builds of a few fields that it knows, around data. Repeated keys are treated as in
    /// [`Value::object`].
    ///
    /// It may be nested a few levels deeper than data, and be larger: what is said of data that reaches its limits is
    /// said, too. It is no data itself. No container of data takes it in, and no reference gives it.
    #[must_use]
    pub fn record(fields: impl IntoIterator<Item = (impl Into<EcoString>, Self)>) -> Self {
        let (keys, values) = merged(fields.into_iter().map(|(name, value)| (name.into(), value)));
        Self::from(Object::around(keys, values))
    }

    /// The limit of data that this is over, as a record around data may be.
    #[inline]
    pub(crate) fn oversized(&self) -> Option<Oversized> {
        let extent = self.extent();
        match (extent.depth > MAX_DEPTH, extent.size > MAX_SIZE) {
            (false, false) => None,
            (true, _) => Some(Oversized(Limit::DataDepth)),
            (false, true) => Some(Oversized(Limit::DataSize)),
        }
    }

    /// The object without fields.
    pub fn empty_object() -> Self {
        Self::from(Object::default())
    }

    /// A list that a program builds of elements that it knows, with as few limits as [`Value::record`].
    #[must_use]
    pub fn sequence(elements: impl IntoIterator<Item = Self>) -> Self {
        let items: Vec<Self> = elements.into_iter().collect();
        Self(ValueRepr::List(Arc::new(ListValue { extent: Extent::around(&items), items })))
    }

    /// A list of a text whose reader has counted how deep it is.
    pub(crate) fn read_list(items: Vec<Self>) -> Result<Self, Oversized> {
        let extent = Extent::around(&items).of_known_depth()?;
        Ok(Self(ValueRepr::List(Arc::new(ListValue { extent, items }))))
    }

    /// The type of the value.
    #[inline]
    pub fn kind(&self) -> Type {
        match &self.0 {
            ValueRepr::Null => Type::Null,
            ValueRepr::Bool(_) => Type::Bool,
            ValueRepr::Number(number) if number.is_int() => Type::Int,
            ValueRepr::Number(_) => Type::Decimal,
            ValueRepr::Text(_) => Type::Text,
            ValueRepr::List(_) => Type::List,
            ValueRepr::Object(_) => Type::Object,
        }
    }

    /// Whether this is null.
    pub fn is_null(&self) -> bool {
        matches!(self.0, ValueRepr::Null)
    }

    /// The bool, when it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self.0 {
            ValueRepr::Bool(bool) => Some(bool),
            _ => None,
        }
    }

    /// The number, when it is one.
    pub fn as_number(&self) -> Option<&Number> {
        match &self.0 {
            ValueRepr::Number(number) => Some(number),
            _ => None,
        }
    }

    /// The int, when it is one that fits.
    pub fn as_i64(&self) -> Option<i64> {
        self.as_number().and_then(Number::as_i64)
    }

    /// The text, when it is one.
    #[inline]
    pub fn as_str(&self) -> Option<&str> {
        match &self.0 {
            ValueRepr::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The items, when it is a list.
    #[inline]
    pub fn as_list(&self) -> Option<&[Self]> {
        match &self.0 {
            ValueRepr::List(list) => Some(&list.items),
            _ => None,
        }
    }

    /// The object, when it is one.
    #[inline]
    pub fn as_object(&self) -> Option<&Arc<Object>> {
        match &self.0 {
            ValueRepr::Object(object) => Some(object),
            _ => None,
        }
    }

    /// The value of a key, when this is an object that has it.
    pub fn get(&self, name: &str) -> Option<&Self> {
        self.as_object().and_then(|object| object.get_str(name))
    }

    /// How many containers stand in each other: 0 for what is none.
    pub fn depth(&self) -> u8 {
        self.extent().depth
    }

    /// About how many bytes it is written out, shared parts counted as often as they occur.
    pub fn size(&self) -> u64 {
        self.extent().size
    }

    #[inline]
    fn extent(&self) -> Extent {
        match &self.0 {
            ValueRepr::List(list) => list.extent,
            ValueRepr::Object(object) => object.extent(),
            ValueRepr::Text(text) => Extent { depth: 0, size: text.len() as u64 },
            _ => Extent { depth: 0, size: 4 },
        }
    }

    /// Whether both are one and the same container or text in memory.
    pub fn is_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (ValueRepr::List(a), ValueRepr::List(b)) => Arc::ptr_eq(a, b),
            (ValueRepr::Object(a), ValueRepr::Object(b)) => Arc::ptr_eq(a, b),
            (ValueRepr::Text(a), ValueRepr::Text(b)) => std::ptr::eq(a.as_str(), b.as_str()),
            _ => false,
        }
    }
}

/// The table of the keys of these entries, with their values. Of two entries with one key the later wins, in the earlier
/// one's place.
fn merged(entries: impl IntoIterator<Item = (EcoString, Value)>) -> (Arc<KeyTable>, Vec<Value>) {
    let (mut keys, mut values): (Vec<Key>, Vec<Value>) = (Vec::new(), Vec::new());
    for (name, value) in entries {
        keys.push(Key::new(name));
        values.push(value);
    }
    loop {
        match KeyTable::new(std::mem::take(&mut keys)) {
            Ok(table) => return (Arc::new(table), values),
            Err(rejected) => (keys, values) = merge_repeated(rejected, values),
        }
    }
}

/// Drops the entry at `rejected` after moving its value to the earlier entry of the same key.
fn merge_repeated(rejected: Repeated, mut values: Vec<Value>) -> (Vec<Key>, Vec<Value>) {
    let Repeated { at, keys: mut entries } = rejected;
    let key = entries.remove(at);
    let value = values.remove(at);
    if let Some(first) = entries.iter().position(|entry| *entry == key) {
        values[first] = value;
    }
    (entries, values)
}

/// Equality by value: ints and decimals compare as numbers, lists in order, objects whatever their order.
impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (ValueRepr::Null, ValueRepr::Null) => true,
            (ValueRepr::Bool(a), ValueRepr::Bool(b)) => a == b,
            (ValueRepr::Number(a), ValueRepr::Number(b)) => a == b,
            (ValueRepr::Text(a), ValueRepr::Text(b)) => a == b,
            (ValueRepr::List(a), ValueRepr::List(b)) => StructuralEquality::default().lists(a, b),
            (ValueRepr::Object(a), ValueRepr::Object(b)) => StructuralEquality::default().objects(a, b),
            _ => false,
        }
    }
}

impl Eq for Value {}

/// A comparison of two containers. They may hold one part many times over: after so many pairs it remembers what it
/// compared, so that no pair is compared twice from there on.
#[derive(Default)]
struct StructuralEquality {
    pairs: usize,
    compared: hashbrown::HashSet<(usize, usize), foldhash::fast::FixedState>,
}

impl StructuralEquality {
    const UNREMEMBERED: usize = 1000;

    fn values(&mut self, a: &Value, b: &Value) -> bool {
        match (&a.0, &b.0) {
            (ValueRepr::List(a), ValueRepr::List(b)) => self.lists(a, b),
            (ValueRepr::Object(a), ValueRepr::Object(b)) => self.objects(a, b),
            _ => a == b,
        }
    }

    fn lists(&mut self, a: &Arc<ListValue>, b: &Arc<ListValue>) -> bool {
        if Arc::ptr_eq(a, b) || self.is_known(Arc::as_ptr(a).addr(), Arc::as_ptr(b).addr()) {
            return true;
        }
        a.items.len() == b.items.len() && a.items.iter().zip(&b.items).all(|(a, b)| self.values(a, b))
    }

    fn objects(&mut self, a: &Arc<Object>, b: &Arc<Object>) -> bool {
        if Arc::ptr_eq(a, b) || self.is_known(Arc::as_ptr(a).addr(), Arc::as_ptr(b).addr()) {
            return true;
        }
        let mut entries = a.iter();
        a.len() == b.len()
            && entries.all(|(key, value)| b.get(key).is_some_and(|other| self.values(value, other)))
    }

    /// Whether the pair was met before. It was equal then: the first pair that is not ends the comparison.
    fn is_known(&mut self, a: usize, b: usize) -> bool {
        self.pairs += 1;
        self.pairs > Self::UNREMEMBERED && !self.compared.insert((a, b))
    }
}

/// Equal values hash alike. Only so many parts are hashed: a value may hold one part many times over.
impl std::hash::Hash for Value {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.hash_parts(&mut 100, state);
    }
}

impl Value {
    fn hash_parts<H: std::hash::Hasher>(&self, left: &mut u32, state: &mut H) {
        use std::hash::Hash as _;
        match &self.0 {
            ValueRepr::Null => state.write_u8(0),
            ValueRepr::Bool(bool) => state.write_u8(1 + u8::from(*bool)),
            ValueRepr::Number(number) => number.hash(state),
            ValueRepr::Text(text) => text.hash(state),
            ValueRepr::List(list) => {
                state.write_usize(list.items.len());
                for item in &list.items {
                    if *left == 0 {
                        return;
                    }
                    *left -= 1;
                    item.hash_parts(left, state);
                }
            }
            // Order must not matter, so only the size is hashed and equality does the rest.
            ValueRepr::Object(object) => state.write_usize(object.len()),
        }
    }
}

impl From<bool> for Value {
    fn from(bool: bool) -> Self {
        Self(ValueRepr::Bool(bool))
    }
}

impl From<i64> for Value {
    fn from(int: i64) -> Self {
        Self(ValueRepr::Number(Number::int(int)))
    }
}

impl From<i32> for Value {
    fn from(int: i32) -> Self {
        Self::from(i64::from(int))
    }
}

impl From<u64> for Value {
    fn from(int: u64) -> Self {
        Self(ValueRepr::Number(Number::from(int)))
    }
}

impl From<u32> for Value {
    fn from(int: u32) -> Self {
        Self::from(i64::from(int))
    }
}

impl From<usize> for Value {
    fn from(count: usize) -> Self {
        // No platform has a larger `usize`.
        Self::from(count as u64)
    }
}

impl From<Number> for Value {
    fn from(number: Number) -> Self {
        Self(ValueRepr::Number(number))
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self(ValueRepr::Text(text.into()))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self(ValueRepr::Text(text.into()))
    }
}

impl From<&EcoString> for Value {
    fn from(text: &EcoString) -> Self {
        Self(ValueRepr::Text(text.clone()))
    }
}

impl From<EcoString> for Value {
    fn from(text: EcoString) -> Self {
        Self(ValueRepr::Text(text))
    }
}

impl From<Object> for Value {
    fn from(object: Object) -> Self {
        Self(ValueRepr::Object(Arc::new(object)))
    }
}

impl From<Arc<Object>> for Value {
    fn from(object: Arc<Object>) -> Self {
        Self(ValueRepr::Object(object))
    }
}

/// The text form.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        self.write_text(&mut out);
        f.write_str(&out)
    }
}

/// Compact JSON, for tests and logs.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_json(JsonStyle::Compact))
    }
}
