//! The same checks as JSON Schema and as `JsonLogic`. The document is a `serde_json::Value`, made before.
//!
//! A schema is compiled once, with the faster of the two engines for patterns. `jsonlogic-rs` has nothing to compile: a
//! rule is read as it is applied. Its `in` knows capitals from small letters, so it does a little less than the others.

use std::process::ExitCode;

use jsonschema::{PatternOptions, Validator};
use threadline_bench_shared::{self as shared, Contestant, Json, json};

fn main() -> ExitCode {
    shared::serve(|workload, name| match (workload, name) {
        ("E1", "jsonschema") => Some(validated(&[flat_schema()], shared::answer())),
        ("E1", "jsonlogic") => Some(applied(vec![flat_rule()], shared::answer())),
        ("E1wide", "jsonschema") => Some(validated(&[flat_schema()], shared::wide_answer())),
        ("E1wide", "jsonlogic") => Some(applied(vec![flat_rule()], shared::wide_answer())),
        ("E2", "jsonschema") => Some(validated(&[logical_schema()], shared::answer())),
        ("E2", "jsonlogic") => Some(applied(vec![logical_rule()], shared::answer())),
        ("E3", "jsonschema") => Some(validated(&many(schema_of_many), shared::answer())),
        ("E3", "jsonlogic") => Some(applied(many(rule_of_many), shared::answer())),
        ("E4", "jsonschema") => Some(explained(&flat_schema())),
        ("E5", "jsonschema") => Some(compiled(&flat_schema())),
        _ => None,
    })
}

// ---- what is asked --------------------------------------------------------------------------------------

fn flat_schema() -> Json {
    json!({
        "required": ["type", "plan", "text"],
        "properties": {
            "type": {"const": "execution"},
            "plan": {"contains": {
                "required": ["agent", "function", "params"],
                "properties": {
                    "agent": {"const": "AssetTransferAgent"},
                    "function": {"const": "transfer"},
                    "params": {
                        "required": ["amount", "recipient"],
                        "properties": {"amount": {"const": "0.1"}, "recipient": {"const": "Alice"}},
                    },
                },
            }},
            "text": {
                "allOf": [{"pattern": "(?i)balance"}, {"pattern": "(?i)DOT"}],
                "not": {"pattern": "(?i)error|failed"},
            },
        },
    })
}

fn flat_rule() -> Json {
    json!({"and": [
        {"===": [{"var": "type"}, "execution"]},
        {"some": [{"var": "plan"}, {"and": [
            {"===": [{"var": "agent"}, "AssetTransferAgent"]},
            {"===": [{"var": "function"}, "transfer"]},
            {"===": [{"var": "params.amount"}, "0.1"]},
            {"===": [{"var": "params.recipient"}, "Alice"]},
        ]}]},
        {"in": ["balance", {"var": "text"}]},
        {"in": ["DOT", {"var": "text"}]},
        {"!": [{"in": ["error", {"var": "text"}]}]},
        {"!": [{"in": ["failed", {"var": "text"}]}]},
    ]})
}

/// A schema of one part of the document, which has to be there.
fn at(path: &[&str], schema: Json) -> Json {
    path.iter().rev().fold(schema, |schema, name| json!({"required": [name], "properties": {*name: schema}}))
}

fn logical_schema() -> Json {
    let balance = ["facts", "contextBalance"];
    json!({"allOf": [
        at(&["type"], json!({"const": "execution"})),
        {"anyOf": [
            at(&balance, json!({"exclusiveMaximum": 1})),
            {"not": {"allOf": [
                at(&["facts", "network"], json!({"enum": ["polkadot", "kusama"]})),
                {
                    "if": at(&balance, json!({"minimum": 10, "maximum": 1000})),
                    "then": at(&["usage", "cost"], json!({"exclusiveMinimum": 0.01})),
                    "else": at(&["text"], json!({"pattern": "(?i)insufficient"})),
                },
            ]}},
        ]},
    ]})
}

fn logical_rule() -> Json {
    let balance = json!({"var": "facts.contextBalance"});
    json!({"and": [
        {"===": [{"var": "type"}, "execution"]},
        {"or": [
            {"<": [balance, 1]},
            {"!": [{"and": [
                {"in": [{"var": "facts.network"}, ["polkadot", "kusama"]]},
                {"if": [
                    {"<=": [10, balance, 1000]},
                    {">": [{"var": "usage.cost"}, 0.01]},
                    {"in": ["insufficient", {"var": "text"}]},
                ]},
            ]}]},
        ]},
    ]})
}

fn many(of: fn(u32) -> Json) -> Vec<Json> {
    (0..shared::MANY).map(of).collect()
}

fn schema_of_many(index: u32) -> Json {
    let (word, low, high) = shared::one_of_many(index);
    json!({
        "required": ["type", "plan", "facts", "text"],
        "properties": {
            "type": {"const": "execution"},
            "plan": {"contains": {
                "required": ["function", "params"],
                "properties": {
                    "function": {"const": "transfer"},
                    "params": {"required": ["recipient"], "properties": {"recipient": {"const": "Alice"}}},
                },
            }},
            "facts": {
                "required": ["contextBalance"],
                "properties": {"contextBalance": {"minimum": low, "maximum": high}},
            },
            "text": {"pattern": format!("(?i){word}"), "not": {"pattern": "(?i)error|failed"}},
        },
    })
}

fn rule_of_many(index: u32) -> Json {
    let (word, low, high) = shared::one_of_many(index);
    json!({"and": [
        {"===": [{"var": "type"}, "execution"]},
        {"some": [{"var": "plan"}, {"and": [
            {"===": [{"var": "function"}, "transfer"]},
            {"===": [{"var": "params.recipient"}, "Alice"]},
        ]}]},
        {"<=": [low, {"var": "facts.contextBalance"}, high]},
        {"in": [word, {"var": "text"}]},
        {"!": [{"in": ["error", {"var": "text"}]}]},
        {"!": [{"in": ["failed", {"var": "text"}]}]},
    ]})
}

// ---- how it is done -------------------------------------------------------------------------------------

fn said(of: impl Fn(&Json) -> bool) -> Json {
    shared::documents().iter().map(of).collect()
}

fn validator(schema: &Json) -> Validator {
    let options = jsonschema::options().with_pattern_options(PatternOptions::regex());
    options.build(schema).expect("the samples are schemas")
}

fn validated(schemas: &[Json], document: Json) -> Contestant {
    let compile = || schemas.iter().map(validator).collect::<Vec<_>>();
    let (validators, checked) = (compile(), compile());
    let all = |validators: &[Validator], document: &Json| {
        validators.iter().all(|validator| validator.is_valid(document))
    };
    assert!(all(&checked, &document), "the answer meets everything");
    Contestant::new(move || all(&validators, &document), move || said(|document| all(&checked, document)))
}

fn applied(rules: Vec<Json>, document: Json) -> Contestant {
    let checked = rules.clone();
    let all = |rules: &[Json], document: &Json| {
        rules.iter().all(|rule| jsonlogic_rs::apply(rule, document).expect("a rule") == Json::Bool(true))
    };
    assert!(all(&checked, &document), "the answer meets everything");
    Contestant::new(move || all(&rules, &document), move || said(|document| all(&checked, document)))
}

fn explained(schema: &Json) -> Contestant {
    let (validator, checked) = (validator(schema), validator(schema));
    let document = shared::documents().swap_remove(shared::UNMET);
    let problems = |validator: &Validator, document: &Json| {
        validator.iter_errors(document).map(|error| error.to_string()).collect::<Vec<String>>()
    };
    Contestant::new(
        move || problems(&validator, &document),
        move || said(|document| problems(&checked, document).is_empty()),
    )
}

fn compiled(schema: &Json) -> Contestant {
    let text = schema.to_string();
    let compile = move || validator(&serde_json::from_str(&text).expect("the samples are JSON"));
    let again = compile.clone();
    Contestant::new(compile, move || said(|document| again().is_valid(document)))
}
