//! The description of the API as `OpenAPI` 3.1, made of the table of routes.

mod answer_schemas;

use threadline_lang::Value;

use crate::parameters::{ParameterKind, RouteParameter};
use crate::routes::{BodyKind, ROUTES, Route, RouteEffect};
use crate::whole::CUT_KEYS;

/// What may go wrong with any request.
const PROBLEMS: [(&str, &str); 5] = [
    ("400", "a parameter or the body cannot be understood"),
    ("401", "the token is missing or wrong"),
    ("403", "another site has sent it, or nothing can be changed"),
    ("404", "what is asked for is not there"),
    ("421", "the name of the host is not that of the server"),
];

/// The description, with the schemas of answers by their names.
pub fn description(schemas: &[(&'static str, Value)]) -> Value {
    described(schemas, "")
}

/// The same, where paths begin with something.
pub(crate) fn described(schemas: &[(&'static str, Value)], base: &str) -> Value {
    let mut paths: Vec<(&str, Vec<(String, Value)>)> = Vec::new();
    for route in ROUTES {
        let operation = (route.method.as_str().to_ascii_lowercase(), operation(route));
        match paths.iter_mut().find(|(path, _)| *path == route.path) {
            Some((_, operations)) => operations.push(operation),
            None => paths.push((route.path, vec![operation])),
        }
    }
    let paths = paths.into_iter().map(|(path, operations)| (path, record(operations)));
    let known = schemas.iter().map(|(name, schema)| {
        let cut = CUT_KEYS.iter().find(|(known, _)| known == name);
        (*name, cut.map_or_else(|| schema.clone(), |(_, keys)| with_cuts(schema, keys)))
    });
    let bearer = Value::record([
        ("type", Value::from("http")),
        ("scheme", "bearer".into()),
        ("description", "the token that `threadline serve` prints, or that of `--token-file`".into()),
    ]);
    Value::record([
        ("openapi", Value::from("3.1.1")),
        (
            "info",
            Value::record([
                ("title", Value::from("Threadline")),
                ("version", env!("CARGO_PKG_VERSION").into()),
                ("description", "Every value of every run, as `threadline serve` answers it".into()),
            ]),
        ),
        ("servers", Value::sequence([Value::record([("url", Value::from(format!("{base}/")))])])),
        ("security", Value::sequence([Value::record([("token", Value::sequence([]))])])),
        ("paths", Value::record(paths)),
        (
            "components",
            Value::record([
                ("schemas", Value::record(known.chain(answer_schemas::all()))),
                ("securitySchemes", Value::record([("token", bearer)])),
            ]),
        ),
    ])
}

/// A schema whose properties of these names may be cut.
fn with_cuts(schema: &Value, keys: &[&str]) -> Value {
    if let Some(list) = schema.as_list() {
        return Value::sequence(list.iter().map(|schema| with_cuts(schema, keys)));
    }
    let Some(object) = schema.as_object() else { return schema.clone() };
    let entries = object.iter().map(|(key, schema)| {
        let shown = match (key.as_str(), schema.as_object()) {
            ("properties", Some(properties)) => Value::record(properties.iter().map(|(name, schema)| {
                let shown = if keys.contains(&name.as_str()) {
                    Value::record([("anyOf", Value::sequence([schema.clone(), reference("cut")]))])
                } else {
                    with_cuts(schema, keys)
                };
                (name.name().clone(), shown)
            })),
            _ => with_cuts(schema, keys),
        };
        (key.name().clone(), shown)
    });
    Value::record(entries)
}

fn record(entries: Vec<(String, Value)>) -> Value {
    Value::record(entries.into_iter().map(|(name, value)| (ecow::EcoString::from(name), value)))
}

fn operation(route: &Route) -> Value {
    let parameters = route.parameters().map(|parameter| described_parameter(route, parameter));
    let (kind, schema) = route.answer;
    let schema = match schema {
        Some(name) => reference(name),
        None => Value::record([("description", Value::from("as its media type says"))]),
    };
    let content = [(kind.media_type(), Value::record([("schema", schema)]))];
    let well = Value::record([
        ("description", Value::from("what is asked for")),
        ("content", Value::record(content)),
    ]);
    let problems = PROBLEMS.iter().map(|(status, about)| {
        let content = [("application/problem+json", Value::record([("schema", reference("problem"))]))];
        (*status, Value::record([("description", Value::from(*about)), ("content", Value::record(content))]))
    });
    let mut entries = vec![
        ("operationId", Value::from(route.name)),
        ("summary", route.about.into()),
        ("parameters", Value::sequence(parameters)),
        ("responses", Value::record(std::iter::once(("200", well)).chain(problems))),
    ];
    if route.effect == RouteEffect::Opens {
        entries.push(("security", Value::sequence([])));
    }
    if route.body != BodyKind::None {
        let content = [(route.body.media_type(), Value::record([("schema", route.body.schema())]))];
        let body = Value::record([("required", Value::from(true)), ("content", Value::record(content))]);
        entries.push(("requestBody", body));
    }
    Value::record(entries)
}

fn reference(name: &str) -> Value {
    Value::record([("$ref", Value::from(format!("#/components/schemas/{name}")))])
}

/// The id of a run.
fn run_schema() -> Value {
    Value::record([("type", Value::from("string")), ("pattern", "^[a-z0-9][a-z0-9-]{0,63}$".into())])
}

fn described_parameter(route: &Route, parameter: &RouteParameter) -> Value {
    let is_in_path = route.is_in_path(parameter);
    let words = |known: &[&str]| {
        let known = Value::sequence(known.iter().map(|word| Value::from(*word)));
        Value::record([("type", Value::from("string")), ("enum", known)])
    };
    let of_type = |name: &str| Value::record([("type", Value::from(name))]);
    let schema = match parameter.kind {
        ParameterKind::Number(least, most) => Value::record([
            ("type", Value::from("integer")),
            ("minimum", Value::from(least)),
            ("maximum", Value::from(most)),
        ]),
        ParameterKind::Flag => of_type("boolean"),
        ParameterKind::Word(known) => words(known),
        ParameterKind::Words(known) => {
            Value::record([("type", Value::from("array")), ("items", words(known))])
        }
        ParameterKind::Run => run_schema(),
        ParameterKind::Runs => Value::record([("type", Value::from("array")), ("items", run_schema())]),
        ParameterKind::Text | ParameterKind::Moment | ParameterKind::Project | ParameterKind::Asset => {
            of_type("string")
        }
    };
    Value::record([
        ("name", Value::from(parameter.name)),
        ("in", if is_in_path { "path" } else { "query" }.into()),
        ("required", is_in_path.into()),
        ("description", parameter.about.into()),
        ("schema", schema),
    ])
}
