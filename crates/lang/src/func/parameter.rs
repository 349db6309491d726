//! What functions take and give: one table for the evaluator, the checker and the reference.

use ecow::EcoString;

use super::time::SAMPLE_TIME;
use crate::shape::{Types, ValueShape};
use crate::value::{Type, Value};

/// A parameter of a function.
pub struct Param {
    /// The name the reference and the errors use.
    pub name: &'static str,
    /// What may stand there.
    pub kind: ParamKind,
    /// What the argument must be; of an element expression, what it must give.
    pub takes: ArgumentTypes,
}

/// What an argument is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParamKind {
    /// An expression that is evaluated before the call.
    Value,
    /// A literal text that is an expression over the elements, parsed with the template. An argument that is
    /// not a literal text belongs to the next parameter, where there is one: `min(a, b)`.
    Element,
    /// Any number of further expressions; only as the last parameter.
    Rest,
}

/// What a parameter takes: anything else is refused before the function begins.
#[derive(Debug, Clone, Copy)]
pub struct ArgumentTypes {
    /// The types that it takes.
    pub types: Types,
    /// The types in words.
    pub words: &'static str,
    /// What the elements of a list must be, unless an element expression stands for them.
    pub(crate) elements: Option<&'static ArgumentTypes>,
    /// A text that is one of its kind, where not every text is.
    example: Option<&'static str>,
}

impl ArgumentTypes {
    const fn new(types: Types, words: &'static str) -> Self {
        Self { types, words, elements: None, example: None }
    }

    /// A value that it takes.
    pub(crate) fn sample(&self) -> Option<Value> {
        Some(match self.types.each().last()? {
            Type::Null => Value::NULL,
            Type::Bool => true.into(),
            Type::Int | Type::Decimal => 2.into(),
            Type::Text => self.example.unwrap_or("a").into(),
            Type::List => Value::sequence(Vec::new()),
            Type::Object => Value::empty_object(),
        })
    }
}

const LIST: Types = Types::one(Type::List);
const BOOL: Types = Types::one(Type::Bool);

const ANY: ArgumentTypes = ArgumentTypes::new(Types::ANY, "any value");
const TEXT: ArgumentTypes = ArgumentTypes::new(Types::TEXT, "text");
const NUMBER: ArgumentTypes = ArgumentTypes::new(Types::NUMBER, "a number");
const ORDERED: ArgumentTypes = ArgumentTypes::new(Types::NUMBER.or(Types::TEXT), "a number or text");

const fn param(name: &'static str, takes: ArgumentTypes) -> Param {
    Param { name, kind: ParamKind::Value, takes }
}

const fn over_elements(name: &'static str, takes: ArgumentTypes) -> Param {
    Param { name, kind: ParamKind::Element, takes }
}

/// A parameter that takes any expression.
pub(super) const fn value(name: &'static str) -> Param {
    param(name, ANY)
}

/// A parameter that takes a text.
pub(super) const fn text(name: &'static str) -> Param {
    param(name, TEXT)
}

/// A point in time, as text.
pub(super) const fn time(name: &'static str) -> Param {
    param(name, ArgumentTypes { example: Some(SAMPLE_TIME), ..TEXT })
}

/// A parameter that takes any number.
pub(super) const fn number(name: &'static str) -> Param {
    param(name, NUMBER)
}

/// A whole number that is not negative.
pub(super) const fn count(name: &'static str) -> Param {
    param(name, ArgumentTypes::new(Types::one(Type::Int), "an int"))
}

/// A bool, or a text that is one.
pub(super) const fn bool_or_text(name: &'static str) -> Param {
    param(name, ArgumentTypes::new(BOOL.or(Types::TEXT), "a bool or text"))
}

/// A number, or a text that is one.
pub(super) const fn number_or_text(name: &'static str) -> Param {
    param(name, ArgumentTypes::new(Types::NUMBER.or(Types::TEXT), "a number or text"))
}

/// The same for what is mostly text.
pub(super) const fn text_or_number(name: &'static str) -> Param {
    param(name, ArgumentTypes::new(Types::NUMBER.or(Types::TEXT), "text or a number"))
}

/// What stands for a number.
pub(super) const fn numeric(name: &'static str) -> Param {
    param(name, ArgumentTypes::new(Types::NUMBER.or(Types::TEXT).or(BOOL), "a number, text or a bool"))
}

/// A parameter that takes an object.
pub(super) const fn object(name: &'static str) -> Param {
    param(name, ArgumentTypes::new(Types::one(Type::Object), "an object"))
}

/// What has a length, and what something can be in.
pub(super) const fn container(name: &'static str) -> Param {
    let types = Types::TEXT.or(LIST).or(Types::one(Type::Object));
    param(name, ArgumentTypes::new(types, "text, a list or an object"))
}

/// Text, or what is turned into text first.
pub(super) const fn scalar(name: &'static str) -> Param {
    param(name, ArgumentTypes::new(Types::TEXT.or(Types::NUMBER).or(BOOL), "text, a number or a bool"))
}

/// A list of any values.
pub(super) const fn list(name: &'static str) -> Param {
    param(name, ArgumentTypes::new(LIST, "a list"))
}

/// A list of numbers.
pub(super) const fn numbers(name: &'static str) -> Param {
    param(name, ArgumentTypes { elements: Some(&NUMBER), ..ArgumentTypes::new(LIST, "a list") })
}

/// A list of values that have an order.
pub(super) const fn ordered(name: &'static str) -> Param {
    param(name, ArgumentTypes { elements: Some(&ORDERED), ..ArgumentTypes::new(LIST, "a list") })
}

/// An expression over the elements.
pub(super) const fn element(name: &'static str) -> Param {
    over_elements(name, ANY)
}

/// An expression over the elements that gives a bool.
pub(super) const fn condition(name: &'static str) -> Param {
    over_elements(name, ArgumentTypes::new(BOOL, "a bool"))
}

/// An expression over the elements that gives a number.
pub(super) const fn number_of(name: &'static str) -> Param {
    over_elements(name, NUMBER)
}

/// An expression over the elements that gives what has an order.
pub(super) const fn ordered_by(name: &'static str) -> Param {
    over_elements(name, ORDERED)
}

/// An expression over the elements that gives the name of a group.
pub(super) const fn group_key(name: &'static str) -> Param {
    let types = Types::TEXT.or(Types::NUMBER).or(BOOL).or(Types::NULL);
    over_elements(name, ArgumentTypes::new(types, "text, a number, a bool or null"))
}

/// Any number of further values that have an order.
pub(super) const fn rest(name: &'static str) -> Param {
    Param { name, kind: ParamKind::Rest, takes: ORDERED }
}

/// What a function gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Returns {
    /// A value of any type.
    Any,
    /// True or false.
    Bool,
    /// Text of any length.
    Text,
    /// A whole number.
    Int,
    /// An int or a decimal.
    Number,
    /// Always a decimal.
    Decimal,
    /// A whole number, or a decimal of as many digits as are asked for.
    Rounded,
    /// One of the values that are compared.
    Extreme,
    /// An element of the list.
    Element,
    /// A list of elements of the list.
    Same,
    /// A list of what the expression gives.
    Results,
    /// A list whose elements that are lists are opened.
    Flattened,
    /// An object of lists of elements.
    Groups,
    /// A list of texts.
    Texts,
    /// A list of objects with a key and a value.
    Entries,
    /// A list of the values of an object.
    Values,
    /// Nothing: it says how a value is bound.
    Binding,
}

impl Returns {
    /// The result in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Any | Self::Element => "any",
            Self::Bool => "bool",
            Self::Text => "text",
            Self::Int => "int",
            Self::Number => "number",
            Self::Decimal => "decimal",
            Self::Rounded => "int, or decimal when digits are asked for",
            Self::Extreme => "number or text",
            Self::Same | Self::Results | Self::Flattened | Self::Values => "list",
            Self::Groups => "object of lists",
            Self::Texts => "list of texts",
            Self::Entries => "list of objects",
            Self::Binding => "a binding",
        }
    }

    /// What is known of the result for such arguments and, where there is an element expression, such results of it.
    pub(crate) fn shape(self, args: &[ValueShape], each: Option<&ValueShape>) -> ValueShape {
        let first = || args.first().cloned().unwrap_or(ValueShape::ANY);
        let element = || first().element().tolerant();
        match self {
            Self::Any | Self::Binding => ValueShape::ANY,
            Self::Bool => ValueShape::one(Type::Bool),
            Self::Text => ValueShape::one(Type::Text),
            Self::Int => ValueShape::one(Type::Int),
            Self::Number | Self::Rounded => ValueShape::of_types(Types::NUMBER),
            Self::Decimal => ValueShape::one(Type::Decimal),
            Self::Extreme => {
                let compared = match (each, args) {
                    (Some(each), _) => each.types,
                    (None, [list]) => list.element().types,
                    (None, all) => all.iter().fold(Types::NONE, |types, shape| types.or(shape.types)),
                };
                ValueShape::of_types(compared.and(ORDERED.types))
            }
            Self::Element => element(),
            Self::Same => ValueShape::list_of(element()),
            Self::Results => ValueShape::list_of(each.cloned().unwrap_or(ValueShape::ANY).tolerant()),
            Self::Flattened if args.len() == 1 && element().types == LIST => {
                ValueShape::list_of(element().element().tolerant())
            }
            Self::Flattened => ValueShape::one(Type::List),
            Self::Groups => ValueShape::one(Type::Object),
            Self::Texts => ValueShape::list_of(ValueShape::one(Type::Text)),
            Self::Entries => {
                let key = (EcoString::from("key"), ValueShape::one(Type::Text));
                let value = (EcoString::from("value"), any_field(&first()));
                ValueShape::list_of(ValueShape::object(vec![key, value]))
            }
            Self::Values => ValueShape::list_of(any_field(&first())),
        }
    }
}

/// What the fields of an object have in common.
fn any_field(object: &ValueShape) -> ValueShape {
    let fields = object.fields().unwrap_or_default().iter().map(|(_, shape)| shape.clone());
    fields.reduce(|all, shape| all.or(&shape)).unwrap_or(ValueShape::ANY).tolerant()
}
