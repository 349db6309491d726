//! What is known of a value before it is there: the types that it can have, and what a list or an object has inside.
//!
//! A shape only ever says too little: a value of any other kind than its shape says never comes.

use std::sync::{Arc, OnceLock};

use ecow::EcoString;

use crate::syntax::StepView;
use crate::value::{Type, Value};

/// The types that a value may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Types(u8);

impl Types {
    /// The set of all types.
    pub const ANY: Self = Self(0x7f);
    /// The set of no type.
    pub const NONE: Self = Self(0);
    /// Nothing but null.
    pub const NULL: Self = Self::one(Type::Null);
    /// Nothing but text.
    pub const TEXT: Self = Self::one(Type::Text);
    /// Ints and decimals.
    pub const NUMBER: Self = Self::one(Type::Int).or(Self::one(Type::Decimal));

    /// Just this type.
    pub const fn one(kind: Type) -> Self {
        Self(1 << kind as u8)
    }

    /// A type that a file names, where it names one. A decimal is any number.
    pub const fn named(kind: Option<Type>) -> Self {
        match kind {
            None => Self::ANY,
            Some(Type::Decimal) => Self::NUMBER,
            Some(kind) => Self::one(kind),
        }
    }

    /// The types of both sets.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The types that are in both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The types that are not in the other set.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether it may be this one.
    pub fn may_be(self, kind: Type) -> bool {
        self.0 & Self::one(kind).0 != 0
    }

    /// Whether there is no type in it.
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// The one type it can be, when there is one. Any number is a decimal.
    pub fn only(self) -> Option<Type> {
        if self == Self::NUMBER {
            return Some(Type::Decimal);
        }
        Type::ALL.into_iter().find(|kind| self == Self::one(*kind))
    }

    /// Each of its types.
    pub fn each(self) -> impl Iterator<Item = Type> {
        Type::ALL.into_iter().filter(move |kind| self.may_be(*kind))
    }

    /// The types in a sentence, such as "a number" or "text or null".
    pub fn in_words(self) -> String {
        if self == Self::ANY {
            return "any value".to_owned();
        }
        let number = self.and(Self::NUMBER) == Self::NUMBER;
        let mut words: Vec<&str> = Vec::new();
        for kind in self.each() {
            match kind {
                Type::Int if number => words.push("a number"),
                Type::Decimal if number => {}
                kind => words.push(kind.with_article()),
            }
        }
        match words.split_last() {
            None => "nothing".to_owned(),
            Some((last, [])) => (*last).to_owned(),
            Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        }
    }
}

/// What is known of a value before it is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueShape {
    /// The types that it may have.
    pub types: Types,
    /// Those of them that the file itself allows for, so that whoever takes the value must take them: null where an input
    /// may be left out or a step be skipped, and the type of a default.
    pub allowed: Types,
    /// The value itself, where it is written out and small.
    pub literal: Option<Value>,
    list: Option<Arc<ListShape>>,
    object: Option<Arc<Vec<(EcoString, ValueShape)>>>,
}

#[derive(Debug, PartialEq, Eq)]
enum ListShape {
    Each(ValueShape),
    Exactly(Vec<ValueShape>),
}

/// Longer lists are known by the shape of all their elements, and deeper values not at all.
const MAX_KNOWN: usize = 200;
const MAX_KNOWN_DEPTH: u8 = 8;

/// Why a step cannot be taken into any value of a shape.
pub(crate) enum StepRefusal {
    /// An object has only these fields.
    NoField(Vec<EcoString>),
    /// A list has only so many elements.
    NoElement(usize),
    /// The type has no such steps; of a list, the fields that its elements have.
    Type { types: Types, fields: Vec<EcoString> },
}

impl ValueShape {
    /// A value of which nothing is known.
    pub const ANY: Self = Self::of_types(Types::ANY);

    /// A value of one of these types.
    pub const fn of_types(types: Types) -> Self {
        Self { types, allowed: Types::NONE, literal: None, list: None, object: None }
    }

    /// A value of this type.
    pub const fn one(kind: Type) -> Self {
        Self::of_types(Types::one(kind))
    }

    /// A list of such elements.
    pub fn list_of(element: Self) -> Self {
        Self { list: Some(Arc::new(ListShape::Each(element))), ..Self::one(Type::List) }
    }

    /// A list of exactly these elements.
    pub fn list(elements: Vec<Self>) -> Self {
        let list = if elements.len() > MAX_KNOWN {
            ListShape::Each(union(&elements))
        } else {
            ListShape::Exactly(elements)
        };
        Self { list: Some(Arc::new(list)), ..Self::one(Type::List) }
    }

    /// An object of exactly these fields.
    pub fn object(fields: Vec<(EcoString, Self)>) -> Self {
        Self { object: Some(Arc::new(fields)), ..Self::one(Type::Object) }
    }

    /// The shape of a value that is there.
    pub fn of(value: &Value) -> Self {
        Self::of_nested(value, 0)
    }

    fn of_nested(value: &Value, depth: u8) -> Self {
        let kind = value.kind();
        match (value.as_list(), value.as_object()) {
            (None, None) => {
                let small = value.as_str().is_none_or(|text| text.len() <= MAX_KNOWN);
                Self { literal: small.then(|| value.clone()), ..Self::one(kind) }
            }
            _ if depth >= MAX_KNOWN_DEPTH => Self::one(kind),
            (Some(items), _) if items.len() > MAX_KNOWN => Self::one(kind),
            (Some(items), _) => {
                Self::list(items.iter().map(|item| Self::of_nested(item, depth + 1)).collect())
            }
            (_, Some(object)) if object.len() > MAX_KNOWN => Self::one(kind),
            (_, Some(object)) => {
                let fields =
                    object.iter().map(|(key, value)| (key.name().clone(), Self::of_nested(value, depth + 1)));
                Self::object(fields.collect())
            }
        }
    }

    /// What is known of a value that is one or the other.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        if self == other {
            return self.clone();
        }
        let list = match (self.types.may_be(Type::List), other.types.may_be(Type::List)) {
            (true, true) => match (&self.list, &other.list) {
                (Some(a), Some(b)) if a == b => Some(Arc::clone(a)),
                (Some(_), Some(_)) => Some(Arc::new(ListShape::Each(self.element().or(&other.element())))),
                _ => None,
            },
            (true, false) => self.list.clone(),
            (false, _) => other.list.clone(),
        };
        let object = match (self.types.may_be(Type::Object), other.types.may_be(Type::Object)) {
            (true, true) => match (&self.object, &other.object) {
                (Some(a), Some(b)) => Some(Arc::new(either_fields(a, b))),
                _ => None,
            },
            (true, false) => self.object.clone(),
            (false, _) => other.object.clone(),
        };
        let literal = self.literal.clone().filter(|literal| other.literal.as_ref() == Some(literal));
        Self {
            types: self.types.or(other.types),
            allowed: self.allowed.or(other.allowed),
            literal,
            list,
            object,
        }
    }

    /// The same, or null where something went wrong.
    #[must_use]
    pub fn nullable(mut self) -> Self {
        self.types = self.types.or(Types::NULL);
        self.literal = None;
        self
    }

    /// The same, or null because the file allows for it.
    #[must_use]
    pub fn optional(self) -> Self {
        let shape = self.nullable();
        Self { allowed: shape.allowed.or(Types::NULL), ..shape }
    }

    /// The same where it is not null.
    #[must_use]
    pub fn present(mut self) -> Self {
        let types = self.types.without(Types::NULL);
        self.types = if types.is_none() { self.types } else { types };
        self.allowed = self.allowed.without(Types::NULL);
        self
    }

    /// The same, without types that whoever takes it must take.
    #[must_use]
    pub fn tolerant(mut self) -> Self {
        self.allowed = Types::NONE;
        self
    }

    /// The value, or the fallback in its place. Whoever takes it must take the fallback too.
    #[must_use]
    pub fn or_fallback(self, fallback: &Self) -> Self {
        let both = self.present().or(fallback);
        Self { allowed: both.allowed.or(fallback.types.without(Types::NULL)), ..both }
    }

    /// What every element of a list has in common.
    #[must_use]
    pub fn element(&self) -> Self {
        match self.list.as_deref() {
            Some(ListShape::Each(element)) => element.clone(),
            Some(ListShape::Exactly(elements)) => union(elements),
            None => Self::ANY,
        }
    }

    /// Each element of a list that is written out.
    pub(crate) fn elements(&self) -> Option<&[Self]> {
        match self.list.as_deref() {
            Some(ListShape::Exactly(elements)) => Some(elements),
            _ => None,
        }
    }

    /// The fields of an object, when they are all known.
    pub fn fields(&self) -> Option<&[(EcoString, Self)]> {
        self.object.as_ref().map(|fields| fields.as_slice())
    }

    /// The shape behind a step.
    pub(crate) fn step(&self, step: StepView<'_>) -> Result<Self, StepRefusal> {
        let by_key = |key: &str| -> Result<Self, StepRefusal> {
            let Some(fields) = self.fields() else { return Ok(Self::ANY) };
            let found = fields.iter().find(|(name, _)| name == key).map(|(_, shape)| shape.clone());
            found.ok_or_else(|| StepRefusal::NoField(fields.iter().map(|(name, _)| name.clone()).collect()))
        };
        let by_index = |index: i64| -> Result<Self, StepRefusal> {
            let Some(elements) = self.elements() else { return Ok(self.element()) };
            let at = if index < 0 {
                elements.len().checked_sub(usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX))
            } else {
                usize::try_from(index).ok()
            };
            at.and_then(|at| elements.get(at)).cloned().ok_or(StepRefusal::NoElement(elements.len()))
        };
        let (object, list) = (self.types.may_be(Type::Object), self.types.may_be(Type::List));
        let found = match step {
            StepView::Name(key) | StepView::Quoted(key) if object => by_key(key),
            StepView::Digits(key) if object && list => by_key(key).and(Ok(Self::ANY)),
            StepView::Digits(key) if object => by_key(key),
            StepView::Digits(digits) if list => by_index(digits.parse().unwrap_or(i64::MAX)),
            StepView::Index(index) if list => by_index(index),
            _ => {
                let types = self.types.without(Types::NULL);
                // A step into null is missing, as any other.
                if types.is_none() {
                    return Ok(Self::ANY);
                }
                let element = self.element();
                let fields = element.fields().unwrap_or_default().iter().map(|(name, _)| name.clone());
                Err(StepRefusal::Type { types, fields: fields.collect() })
            }
        };
        // Where the value may be left out, so may what is in it.
        let optional = self.allowed.may_be(Type::Null);
        found.map(|shape| if optional { shape.optional() } else { shape })
    }
}

fn union(shapes: &[ValueShape]) -> ValueShape {
    let mut shapes = shapes.iter();
    let Some(first) = shapes.next() else { return ValueShape::ANY };
    shapes.fold(first.clone(), |all, shape| all.or(shape))
}

/// The fields that one of two objects has; one that only one of them has may be missing.
fn either_fields(
    a: &[(EcoString, ValueShape)],
    b: &[(EcoString, ValueShape)],
) -> Vec<(EcoString, ValueShape)> {
    let find = |fields: &[(EcoString, ValueShape)], name: &str| {
        fields.iter().find(|(known, _)| known == name).map(|(_, shape)| shape.clone())
    };
    let mut both: Vec<(EcoString, ValueShape)> = a
        .iter()
        .map(|(name, shape)| {
            let shape = match find(b, name) {
                Some(other) => shape.or(&other),
                None => shape.clone().nullable(),
            };
            (name.clone(), shape)
        })
        .collect();
    let only_there = b.iter().filter(|(name, _)| find(a, name).is_none());
    both.extend(only_there.map(|(name, shape)| (name.clone(), shape.clone().nullable())));
    both
}

/// The shape of a value that is found out while a plan is made: until then nothing is known of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShapeCell(Arc<OnceLock<ValueShape>>);

impl ShapeCell {
    /// What is known by now.
    pub fn get(&self) -> &ValueShape {
        static UNKNOWN: ValueShape = ValueShape::ANY;
        self.0.get().unwrap_or(&UNKNOWN)
    }

    /// Fills the cell; a shape that is there stays.
    pub fn set(&self, shape: ValueShape) {
        let _ = self.0.set(shape);
    }
}

impl From<ValueShape> for ShapeCell {
    fn from(shape: ValueShape) -> Self {
        let cell = Self::default();
        cell.set(shape);
        cell
    }
}

impl From<Types> for ShapeCell {
    fn from(types: Types) -> Self {
        ValueShape::of_types(types).into()
    }
}
