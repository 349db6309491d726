//! The JSON Schema of files of expectations, for editors: made of the same table that the loader reads.

use threadline_lang::Value;

use crate::table::{
    self, CHECKS, ELSEWHERE, FIELDS, FILE, Field, FieldTakes, Key, LOGIC, OPERATORS, OPTIONS, ROOTS, Takes,
};

type Entries = Vec<(String, Value)>;

/// The JSON Schema of a file of expectations.
pub fn schema() -> Value {
    let whole = vec![reference("expectation"), list_of("expectation"), reference("file")];
    object(vec![
        entry("$schema", "https://json-schema.org/draft/2020-12/schema"),
        entry("title", "Expectations of Threadline"),
        entry("anyOf", list(whole)),
        entry(
            "$defs",
            object(vec![
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
    let key = |key: &Key| {
        let shape = match key.name {
            "distinct" => typed("boolean"),
            "unknown" => object(vec![entry("enum", list(vec!["error".into(), "warn".into()]))]),
            "depth" => typed("integer"),
            "expectations" | "facts" => types(&["object", "array"]),
            _ => typed("string"),
        };
        (key.name.to_owned(), described(&shape, key.doc))
    };
    let of = |name: &str| {
        let named = object(vec![entry("type", "object"), entry("additionalProperties", reference(name))]);
        let several = object(vec![entry("anyOf", list(vec![named, list_of(name)]))]);
        object(vec![entry("properties", object(vec![entry("expectations", several)]))])
    };
    object(vec![
        entry("type", "object"),
        entry("properties", object(FILE.iter().map(key).collect())),
        entry("required", list(vec!["expectations".into()])),
        entry("additionalProperties", false),
        entry("if", object(vec![entry("required", list(vec!["facts".into()]))])),
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
    object(vec![
        entry("type", "object"),
        entry("properties", object(fields.chain(roots).chain(logic).chain(checks).chain(options).collect())),
        entry(
            "patternProperties",
            object(vec![entry(&paths, reference("check")), entry("^context[A-Z]", reference("check"))]),
        ),
        entry("additionalProperties", others),
    ])
}

fn of_field(field: &Field) -> Value {
    match field.takes {
        FieldTakes::Check => reference("check"),
        FieldTakes::Params => {
            object(vec![entry("type", "object"), entry("additionalProperties", reference("check"))])
        }
        FieldTakes::Words => reference("words"),
        FieldTakes::Bool => typed("boolean"),
        FieldTakes::Text => typed("string"),
    }
}

fn of_logic(key: &Key, of: &str) -> Value {
    match key.name {
        "all" | "any" => {
            let mut shape = vec![entry("type", "array"), entry("items", reference(of))];
            shape.push(entry("minItems", 1));
            object(shape)
        }
        _ => reference(of),
    }
}

fn of_option(key: &Key) -> Value {
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
    let operator = list(vec![
        object(vec![entry("enum", list(names.into_iter().map(Value::from).collect()))]),
        object(vec![entry("pattern", prefixed)]),
    ]);
    let no_operator = object(vec![entry("not", object(vec![entry("anyOf", operator)]))]);
    let paths = object(vec![
        entry("type", "object"),
        entry("propertyNames", no_operator),
        entry("additionalProperties", reference("check")),
    ]);
    let value = types(&["null", "boolean", "number", "string", "array"]);
    object(vec![entry("anyOf", list(vec![reference("operators"), value, paths]))])
}

fn known_names() -> impl Iterator<Item = String> {
    table::operator_names().chain(LOGIC.iter().map(|key| key.name.to_owned()))
}

fn operators() -> Value {
    let mut properties = Entries::new();
    for operator in OPERATORS {
        properties.push((operator.name.to_owned(), described(&of_operator(operator.takes), operator.doc)));
        if operator.folds {
            let doc = format!("{}, in capitals or small letters", operator.doc);
            properties
                .push((table::folded_name(operator.name), described(&of_operator(operator.takes), &doc)));
        }
    }
    let names: Vec<String> = table::operator_names().collect();
    let negated = format!("^not-({})$", names.join("|"));
    properties
        .extend(LOGIC.iter().map(|key| (key.name.to_owned(), described(&of_logic(key, "check"), key.doc))));
    object(vec![
        entry("type", "object"),
        entry("properties", object(properties)),
        entry("patternProperties", object(vec![entry(&negated, object(Vec::new()))])),
        entry("additionalProperties", false),
    ])
}

fn of_operator(takes: Takes) -> Value {
    match takes {
        Takes::Value | Takes::Items | Takes::Schema => object(Vec::new()),
        // A reference may stand for anything.
        Takes::Values | Takes::Range => types(&["array", "string"]),
        Takes::Number => types(&["number", "string"]),
        Takes::Pattern | Takes::Time => typed("string"),
        Takes::Text => types(&["string", "number"]),
        Takes::Bool => types(&["boolean", "string"]),
        Takes::Types => types(&["string", "array", "null"]),
        Takes::Container => types(&["array", "object", "string"]),
        Takes::Check => reference("check"),
        Takes::Count => object(vec![
            entry("type", "object"),
            entry(
                "properties",
                object(vec![entry("count", typed("integer")), entry("of", reference("check"))]),
            ),
            entry("required", list(vec!["count".into(), "of".into()])),
            entry("additionalProperties", false),
        ]),
        Takes::Approx => {
            let number = || types(&["number", "string"]);
            object(vec![
                entry("type", "object"),
                entry("properties", object(vec![entry("value", number()), entry("tolerance", number())])),
                entry("required", list(vec!["value".into(), "tolerance".into()])),
                entry("additionalProperties", false),
            ])
        }
    }
}

fn words() -> Value {
    let word = || types(&["string", "number"]);
    let several = object(vec![entry("type", "array"), entry("items", word()), entry("minItems", 1)]);
    object(vec![entry("anyOf", list(vec![word(), several]))])
}

// ---- shapes ---------------------------------------------------------------------------------------------

fn entry(key: &str, value: impl Into<Value>) -> (String, Value) {
    (key.to_owned(), value.into())
}

fn object(entries: Entries) -> Value {
    // A schema is a handful of levels.
    Value::object(entries.into_iter().map(|(key, value)| (key.into(), value))).unwrap_or_default()
}

fn list(items: Vec<Value>) -> Value {
    Value::list(items).unwrap_or_default()
}

fn reference(name: &str) -> Value {
    object(vec![entry("$ref", format!("#/$defs/{name}"))])
}

fn list_of(name: &str) -> Value {
    object(vec![entry("type", "array"), entry("items", reference(name))])
}

fn typed(kind: &str) -> Value {
    object(vec![entry("type", kind)])
}

fn types(kinds: &[&str]) -> Value {
    object(vec![entry("type", list(kinds.iter().map(|kind| Value::from(*kind)).collect()))])
}

fn described(shape: &Value, doc: &str) -> Value {
    let shape = shape.as_object().into_iter().flat_map(|shape| shape.iter());
    let shape = shape.map(|(key, value)| (key.as_str().to_owned(), value.clone()));
    object(std::iter::once(entry("description", doc)).chain(shape).collect())
}
