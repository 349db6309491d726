//! The JSON Schema of files of expectations, for editors: made of the same table that the loader reads.

use threadline_lang::Value;

use crate::table::{
    self, CHECKS, ELSEWHERE, ExpectationKey, FIELDS, FILE, FieldSpec, FieldTakes, LOGIC, OPERATORS, OPTIONS,
    ROOTS, Takes,
};

type Entries = Vec<(String, Value)>;

/// The JSON Schema of a file of expectations.
pub fn schema() -> Value {
    let whole = vec![reference("expectation"), list_of("expectation"), reference("file")];
    Value::record([
        entry("$schema", "https://json-schema.org/draft/2020-12/schema"),
        entry("title", "Expectations of Threadline"),
        entry("anyOf", Value::sequence(whole)),
        entry(
            "$defs",
            Value::record([
                entry("file", file()),
                entry("expectation", expectation("expectation", false.into())),
                // Facts that a file declares are names like any other, and only the loader knows them.
                entry("expectation_with_facts", expectation("expectation_with_facts", reference("check"))),
                entry("check", check()),
                entry("operators", operators()),
                entry("words", words()),
            ]),
        ),
    ])
}

fn file() -> Value {
    let key = |key: &ExpectationKey| {
        let shape = match key.name {
            "distinct" => typed("boolean"),
            "unknown" => Value::record([entry("enum", Value::sequence(["error".into(), "warn".into()]))]),
            "depth" => typed("integer"),
            "expectations" | "facts" => types(&["object", "array"]),
            _ => typed("string"),
        };
        (key.name.to_owned(), described(&shape, key.doc))
    };
    let of = |name: &str| {
        let named = Value::record([entry("type", "object"), entry("additionalProperties", reference(name))]);
        let several = Value::record([entry("anyOf", Value::sequence([named, list_of(name)]))]);
        Value::record([entry("properties", Value::record([entry("expectations", several)]))])
    };
    Value::record([
        entry("type", "object"),
        entry("properties", Value::record(FILE.iter().map(key))),
        entry("required", Value::sequence(["expectations".into()])),
        entry("additionalProperties", false),
        entry("if", Value::record([entry("required", Value::sequence(["facts".into()]))])),
        entry("then", of("expectation_with_facts")),
        entry("else", of("expectation")),
    ])
}

/// An expectation; `name` is what its members are called, `others` what stands behind other names.
fn expectation(name: &str, others: Value) -> Value {
    let roots = ROOTS.iter().map(|root| (root.name.to_owned(), described(&reference("check"), root.doc)));
    let fields = FIELDS.iter().map(|field| (field.name.to_owned(), described(&of_field(field), field.doc)));
    let logic = LOGIC.iter().map(|key| (key.name.to_owned(), described(&of_logic(key, name), key.doc)));
    let checks = CHECKS.iter().map(|key| (key.name.to_owned(), described(&typed("string"), key.doc)));
    let options = OPTIONS.iter().map(|key| (key.name.to_owned(), described(&of_option(key), key.doc)));
    let names: Vec<&str> = ROOTS.iter().map(|root| root.name).collect();
    let paths = format!(r"^({})[.\[]", names.join("|"));
    Value::record([
        entry("type", "object"),
        entry("properties", Value::record(fields.chain(roots).chain(logic).chain(checks).chain(options))),
        entry(
            "patternProperties",
            Value::record([entry(&paths, reference("check")), entry("^context[A-Z]", reference("check"))]),
        ),
        entry("additionalProperties", others),
    ])
}

fn of_field(field: &FieldSpec) -> Value {
    match field.takes {
        FieldTakes::Check => reference("check"),
        FieldTakes::Params => {
            Value::record([entry("type", "object"), entry("additionalProperties", reference("check"))])
        }
        FieldTakes::Words => reference("words"),
        FieldTakes::Bool => typed("boolean"),
        FieldTakes::Text => typed("string"),
    }
}

fn of_logic(key: &ExpectationKey, of: &str) -> Value {
    match key.name {
        "all" | "any" => {
            let mut shape = vec![entry("type", "array"), entry("items", reference(of))];
            shape.push(entry("minItems", 1));
            Value::record(shape)
        }
        _ => reference(of),
    }
}

fn of_option(key: &ExpectationKey) -> Value {
    match key.name {
        "weight" | "threshold" => typed("number"),
        "must" | "distinct" => typed("boolean"),
        _ => typed("string"),
    }
}

/// A value, operators, or paths further in.
fn check() -> Value {
    // Names that are operators, or are elsewhere, lead nowhere.
    let elsewhere = ELSEWHERE.iter().map(|(name, _)| (*name).to_owned());
    let names: Vec<String> = known_names().chain(elsewhere).collect();
    let prefixed = format!(r"^(\$|not-)({})$", names.join("|"));
    let operator = Value::sequence([
        Value::record([entry("enum", Value::sequence(names.into_iter().map(Value::from)))]),
        Value::record([entry("pattern", prefixed)]),
    ]);
    let no_operator = Value::record([entry("not", Value::record([entry("anyOf", operator)]))]);
    let paths = Value::record([
        entry("type", "object"),
        entry("propertyNames", no_operator),
        entry("additionalProperties", reference("check")),
    ]);
    let value = types(&["null", "boolean", "number", "string", "array"]);
    Value::record([entry("anyOf", Value::sequence([reference("operators"), value, paths]))])
}

fn known_names() -> impl Iterator<Item = String> {
    table::operator_names().chain(LOGIC.iter().map(|key| key.name.to_owned()))
}

fn operators() -> Value {
    let mut properties = Entries::new();
    for operator in OPERATORS {
        properties.push((operator.name.to_owned(), described(&of_operator(operator.takes), operator.doc)));
        if operator.folds {
            let doc = format!("{}, in upper or lower case", operator.doc);
            properties
                .push((table::folded_name(operator.name), described(&of_operator(operator.takes), &doc)));
        }
    }
    let names: Vec<String> = table::operator_names().collect();
    let negated = format!("^not-({})$", names.join("|"));
    properties
        .extend(LOGIC.iter().map(|key| (key.name.to_owned(), described(&of_logic(key, "check"), key.doc))));
    Value::record([
        entry("type", "object"),
        entry("properties", Value::record(properties)),
        entry("patternProperties", Value::record([entry(&negated, Value::empty_object())])),
        entry("additionalProperties", false),
    ])
}

fn of_operator(takes: Takes) -> Value {
    match takes {
        Takes::Value | Takes::Items | Takes::Schema => Value::empty_object(),
        // A reference may stand for anything.
        Takes::Values | Takes::Range => types(&["array", "string"]),
        Takes::Number => types(&["number", "string"]),
        Takes::Pattern | Takes::Time => typed("string"),
        Takes::Text => types(&["string", "number"]),
        Takes::Bool => types(&["boolean", "string"]),
        Takes::Types => types(&["string", "array", "null"]),
        Takes::Container => types(&["array", "object", "string"]),
        Takes::Check => reference("check"),
        Takes::Count => Value::record([
            entry("type", "object"),
            entry(
                "properties",
                Value::record([entry("count", typed("integer")), entry("of", reference("check"))]),
            ),
            entry("required", Value::sequence(["count".into(), "of".into()])),
            entry("additionalProperties", false),
        ]),
        Takes::Approx => {
            let number = || types(&["number", "string"]);
            Value::record([
                entry("type", "object"),
                entry("properties", Value::record([entry("value", number()), entry("tolerance", number())])),
                entry("required", Value::sequence(["value".into(), "tolerance".into()])),
                entry("additionalProperties", false),
            ])
        }
    }
}

fn words() -> Value {
    let word = || types(&["string", "number"]);
    let several = Value::record([entry("type", "array"), entry("items", word()), entry("minItems", 1)]);
    Value::record([entry("anyOf", Value::sequence([word(), several]))])
}

// ---- shapes ---------------------------------------------------------------------------------------------

fn entry(key: &str, value: impl Into<Value>) -> (String, Value) {
    (key.to_owned(), value.into())
}

fn reference(name: &str) -> Value {
    Value::record([entry("$ref", format!("#/$defs/{name}"))])
}

fn list_of(name: &str) -> Value {
    Value::record([entry("type", "array"), entry("items", reference(name))])
}

fn typed(kind: &str) -> Value {
    Value::record([entry("type", kind)])
}

fn types(kinds: &[&str]) -> Value {
    Value::record([entry("type", Value::sequence(kinds.iter().map(|kind| Value::from(*kind))))])
}

fn described(shape: &Value, doc: &str) -> Value {
    let shape = shape.as_object().into_iter().flat_map(|shape| shape.iter());
    let shape = shape.map(|(key, value)| (key.as_str().to_owned(), value.clone()));
    Value::record(std::iter::once(entry("description", doc)).chain(shape))
}
