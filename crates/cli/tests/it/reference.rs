//! The generated parts of the reference, made from the program itself.
//!
//! A part stands between `<!-- generated: NAME -->` and `<!-- end of NAME -->`. A test fails when the file has
//! something else there; with `THREADLINE_UPDATE=1` it writes the file.
#![expect(clippy::unwrap_used, reason = "a page that cannot be made fails the test")]

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use threadline_flow::checks::Check;
use threadline_flow::fields::{self, Becomes, FailureKind, Form, KeyKind, KeySpec, NodeType, OlderSystem};
use threadline_lang::diag::Severity;
use threadline_lang::func::{FUNCTIONS, Function, FunctionGroup, signature};
use threadline_lang::value::ops::BinaryOp;
use threadline_lang::value::{JsonStyle, Type};
use threadline_lang::{Error, ErrorKind, Expression, Limits, NoWorld, Scope, Session, Syntax, Value, data};

#[test]
fn operators_page_is_up_to_date() {
    check("operators.md", "operators", &operators());
}

#[test]
fn functions_page_is_up_to_date() {
    check("functions.md", "functions", &functions());
}

#[test]
fn workflows_page_is_up_to_date() {
    check("workflows.md", "keys", &keys());
}

#[test]
fn pages_of_older_systems_are_up_to_date() {
    check("older-loops.md", "keys", &older(OlderSystem::Loop));
    check("older-map-reduces.md", "keys", &older(OlderSystem::MapReduce));
    check("older-graphs.md", "keys", &older(OlderSystem::Graph));
}

#[test]
fn checks_page_is_up_to_date() {
    check("checks.md", "checks", &checks());
}

#[test]
fn runs_page_is_up_to_date() {
    check("runs.md", "events", &events());
}

#[test]
fn steps_page_is_up_to_date() {
    check("steps.md", "failures", &failures());
}

#[test]
fn outputs_of_steps() {
    check("steps.md", "values", &values());
    check("steps.md", "meta", &meta());
}

#[test]
fn names_of_the_engine() {
    check("outputs.md", "names", &engine_names());
}

#[test]
fn answers_page_is_up_to_date() {
    check("expectations-answers.md", "answers", &answers());
}

#[test]
fn expectations_page_is_up_to_date() {
    for (part, generated) in [
        ("roots", expectations::roots()),
        ("keys", expectations::keys()),
        ("fields", expectations::fields()),
        ("operators", expectations::operators()),
        ("words", expectations::words()),
        ("checks", expectations::checks()),
    ] {
        check("expectations.md", part, &generated);
    }
}

/// A section shows a file with the problem and one without; that both are so is for the test of the pages.
#[test]
fn every_check_has_a_section() {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../spec/checks.md"].iter().collect();
    let page = std::fs::read_to_string(&path).unwrap();
    let sections: Vec<&str> = page.split("\n## ").skip(1).collect();
    let titles: Vec<&str> = sections.iter().map(|section| section.lines().next().unwrap()).collect();
    let ids: Vec<&str> = Check::ALL.iter().map(|check| check.id()).collect();
    assert_eq!(titles[1..], ids, "the sections of spec/checks.md, after the list of all");
    for (section, check) in sections[1..].iter().zip(Check::ALL) {
        let (id, severity) = (check.id(), severity(*check));
        assert!(section.contains(&format!("{severity}[{id}]")), "{id}: no example of the problem");
        assert!(section.contains(&format!("{id}-right.yaml: ok")), "{id}: no example without it");
    }
}

/// Compares the generated part of a page, or writes it.
fn check(page: &str, part: &str, generated: &str) {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../spec", page].iter().collect();
    let text = std::fs::read_to_string(&path).unwrap();
    let (open, close) = (format!("<!-- generated: {part} -->\n"), format!("<!-- end of {part} -->\n"));
    let (before, rest) = text.split_once(&open).unwrap();
    let (_, after) = rest.split_once(&close).unwrap();
    let expected = format!("{before}{open}\n{}\n\n{close}{after}", generated.trim());
    if text == expected {
        return;
    }
    if std::env::var_os("THREADLINE_UPDATE").is_some() {
        std::fs::write(&path, expected).unwrap();
        return;
    }
    let line = text.lines().zip(expected.lines()).position(|(is, wanted)| is != wanted);
    let line = line.unwrap_or_else(|| text.lines().count().min(expected.lines().count())) + 1;
    panic!("spec/{page}:{line} is not what the program does; THREADLINE_UPDATE=1 cargo test writes it");
}

/// The value of each type of step, and the fields of those that are objects of the engine's own.
fn values() -> String {
    let mut table = "| `node_type` | field | value |\n|---|---|---|\n".to_owned();
    for node_type in NodeType::ALL {
        let output = node_type.output();
        writeln!(table, "| `{}` | | {} |", node_type.name(), output.doc).unwrap();
        for field in output.value {
            writeln!(table, "| | `{}` | {} |", field.name, field.doc).unwrap();
        }
    }
    table
}

/// The fields of `meta`, with the types of steps that have them.
fn meta() -> String {
    let mut table = "| meta | of | |\n|---|---|---|\n".to_owned();
    for field in &fields::META {
        writeln!(table, "| `{}` | all | {} |", field.name, field.doc).unwrap();
    }
    let mut told = Vec::new();
    for field in NodeType::ALL.into_iter().flat_map(NodeType::meta) {
        if told.contains(&field.name) {
            continue;
        }
        told.push(field.name);
        let has = |node_type: &NodeType| node_type.meta().any(|other| other.name == field.name);
        let of = NodeType::ALL.into_iter().filter(has).map(|node_type| format!("`{}`", node_type.name()));
        let of: Vec<String> = of.collect();
        writeln!(table, "| `{}` | {} | {} |", field.name, of.join(", "), field.doc).unwrap();
    }
    table
}

fn engine_names() -> String {
    let mut table = "| name | known | field | |\n|---|---|---|---|\n".to_owned();
    for (name, known, fields) in fields::engine_names() {
        for (at, field) in fields.iter().enumerate() {
            let (name, known) = if at == 0 { (format!("`{name}`"), known) } else { (String::new(), "") };
            writeln!(table, "| {name} | {known} | `{}` | {} |", field.name, field.doc).unwrap();
        }
    }
    table
}

fn failures() -> String {
    let mut table = "| `error_type` | |\n|---|---|\n".to_owned();
    for kind in FailureKind::ALL {
        writeln!(table, "| `{kind}` | {} |", kind.meaning()).unwrap();
    }
    table
}

/// The value of an expression over the names `a` and `b`.
fn evaluate(source: &str, a: &Value, b: &Value) -> Result<Value, Error> {
    let names = Value::object([("a".into(), a.clone()), ("b".into(), b.clone())]).unwrap();
    let scope = Scope::new().with_values("data", Arc::clone(names.as_object().unwrap()));
    let expression = Expression::parse(source, &Syntax::DEFAULT)?;
    expression.value(&scope, &mut Session::new(&mut NoWorld))
}

// ---- operators -----------------------------------------------------------------------------------------

/// Values of each type, so chosen that every type of result shows up.
fn samples(kind: Type) -> Vec<Value> {
    let sources: &[&str] = match kind {
        Type::Null => &["null"],
        Type::Bool => &["true", "false"],
        Type::Int => &["2", "-3"],
        Type::Decimal => &["2.0", "-0.5"],
        Type::Text => &["'a'", "'2'"],
        Type::List => &["[]", "[1, 'a']"],
        Type::Object => &["{}", "{'a': 1}"],
    };
    sources.iter().map(|source| evaluate(source, &Value::NULL, &Value::NULL).unwrap()).collect()
}

/// What an expression over `a` and `b` gives for two types: the types of its results, or `error`.
fn cell(source: &str, left: Type, right: Type) -> String {
    let mut results: Vec<Type> = Vec::new();
    let mut refused = false;
    for a in samples(left) {
        for b in samples(right) {
            match evaluate(source, &a, &b) {
                Ok(value) => results.push(value.kind()),
                // Such as a negative number to the power of a half: the types are right.
                Err(error) if matches!(error.kind(), ErrorKind::Number(_)) => {}
                Err(error) => {
                    assert_eq!(error.id(), "type", "{source} with {a:?} and {b:?}: {error}");
                    refused = true;
                }
            }
        }
    }
    assert!(results.is_empty() || !refused, "{source}: only some values of {left} and {right} are taken");
    results.sort_unstable();
    results.dedup();
    let names: Vec<&str> = results.into_iter().map(Type::name).collect();
    if names.is_empty() { "error".to_owned() } else { names.join(" or ") }
}

/// Rows are the type of `a`, columns that of `b`.
fn table(corner: &str, source: &str) -> String {
    let header: Vec<&str> = Type::ALL.into_iter().map(Type::name).collect();
    let mut out = format!("| {corner} | {} |\n|---|{}\n", header.join(" | "), "---|".repeat(header.len()));
    for left in Type::ALL {
        let cells: Vec<String> = Type::ALL.into_iter().map(|right| cell(source, left, right)).collect();
        writeln!(out, "| **{left}** | {} |", cells.join(" | ")).unwrap();
    }
    out
}

/// Of one operand: a column for each operator.
fn unary_table() -> String {
    let operators =
        [("`-a`", "-a"), ("`not a`", "not a"), ("`1 if a else 2`", "1 if a else 2"), ("`a[0:1]`", "a[0:1]")];
    let header: Vec<&str> = operators.into_iter().map(|(shown, _)| shown).collect();
    let mut out = format!("| `a` | {} |\n|---|{}\n", header.join(" | "), "---|".repeat(operators.len()));
    for kind in Type::ALL {
        let cells: Vec<String> = operators.map(|(_, source)| cell(source, kind, Type::Null)).to_vec();
        writeln!(out, "| **{kind}** | {} |", cells.join(" | ")).unwrap();
    }
    out
}

fn operators() -> String {
    // Operators whose tables are equal share one.
    let mut families: Vec<(String, Vec<&str>)> = Vec::new();
    let symbols = BinaryOp::ALL.into_iter().map(BinaryOp::symbol).chain(["and", "or"]);
    for symbol in symbols {
        let table = table("left", &format!("a {symbol} b"));
        match families.iter_mut().find(|(known, _)| *known == table) {
            Some((_, symbols)) => symbols.push(symbol),
            None => families.push((table, vec![symbol])),
        }
    }
    let mut out = String::new();
    for (table, symbols) in families {
        let heading: Vec<String> = symbols.iter().map(|symbol| format!("`{symbol}`")).collect();
        writeln!(out, "## {}\n\n{table}", heading.join(" ")).unwrap();
    }
    writeln!(out, "## One operand\n\n{}", unary_table()).unwrap();
    out
}

// ---- expectations --------------------------------------------------------------------------------------

/// The table that the tests of expectations hold the operators to, a chapter for each of its headings.
fn answers() -> String {
    let table = include_str!("../../../expect/tests/answers.txt");
    let mut lines = table.lines().filter(|line| line.contains(" | ") || line.starts_with('#'));
    let code = |cell: &str| format!("`{}`", cell.trim());
    let values: Vec<String> = lines.next().unwrap().split(" | ").skip(1).map(code).collect();
    let mut out = String::new();
    for line in lines {
        let mut cells = line.split(" | ");
        let check = cells.next().unwrap();
        if let Some(heading) = check.strip_prefix("# ") {
            let rule = "---|".repeat(values.len());
            write!(out, "\n## {heading}\n\n| | {} |\n|---|{rule}\n", values.join(" | ")).unwrap();
            continue;
        }
        let said = cells.map(|cell| match cell.trim() {
            "+" => "**met**",
            "-" => "unmet",
            _ => "?",
        });
        let said: Vec<&str> = said.collect();
        writeln!(out, "| {} | {} |", code(check), said.join(" | ")).unwrap();
    }
    out
}

// ---- workflow files ------------------------------------------------------------------------------------

/// What becomes of the keys of an older system, from the rows that the loader and `migrate` read.
fn older(system: OlderSystem) -> String {
    let mut out = String::from("| key | of | here |\n|---|---|---|\n");
    for row in fields::OLDER_KEYS.iter().filter(|row| row.system == system) {
        let here = match row.becomes {
            Becomes::Key(ours) => format!("`{ours}`"),
            Becomes::Form(form) => form.to_owned(),
            Becomes::Nothing(why) => format!("a comment: {why}"),
            Becomes::Without(instead) => format!("a comment, and the run goes without it; {instead}"),
            Becomes::Else(instead) => format!("an error; {instead}"),
        };
        writeln!(out, "| `{}` | {} | {} |", row.key, row.object.replace('_', " "), here.replace('|', "\\|"))
            .unwrap();
    }
    out
}

fn checks() -> String {
    let mut out = String::from("| name | | |\n|---|---|---|\n");
    for check in Check::ALL {
        let (id, doc) = (check.id(), check.doc().trim_end_matches('.'));
        writeln!(out, "| [{id}](#{id}) | {} | {} |", severity(*check), lower(doc)).unwrap();
    }
    out
}

fn severity(check: Check) -> &'static str {
    match check.severity() {
        Severity::Error => "error",
        Severity::Warning => "warning",
    }
}

fn keys() -> String {
    let mut out = String::new();
    for object in fields::objects() {
        writeln!(out, "### {}\n\n{}.\n", object.name, capitalised(object.doc)).unwrap();
        if !object.keys.is_empty() {
            out.push_str("| key | type | description |\n|---|---|---|\n");
        }
        for key in object.keys {
            writeln!(out, "| `{}` | {} | {} |", key.name, kind(&key.kind), describe(key)).unwrap();
        }
        if let Some(base) = object.base.as_ref().filter(|base| base.only_shareable) {
            let keys: Vec<&str> = object.all_keys().map(|key| key.name).collect();
            writeln!(out, "These keys of [{0}](#{0}): {1}.", base.object.name, code_list(&keys)).unwrap();
        } else if let Some(base) = &object.base {
            let without = if base.without.is_empty() {
                String::new()
            } else {
                format!(", except {}", code_list(base.without))
            };
            writeln!(out, "\nAlso every key of [{0}](#{0}){without}.", base.object.name).unwrap();
        }
        out.push('\n');
    }
    out
}

fn kind(kind: &KeyKind) -> String {
    match kind {
        KeyKind::Fixed(Form::OneOf(choices)) => {
            choices.iter().map(|choice| format!("`{}`", choice.name)).collect::<Vec<_>>().join(" ")
        }
        KeyKind::Fixed(form) => match form {
            Form::Text => "literal text".to_owned(),
            form => word(*form).to_owned(),
        },
        KeyKind::Setting(form) => format!("{}, or a reference", word(*form)),
        KeyKind::Text => "text".to_owned(),
        KeyKind::Value => "value".to_owned(),
        KeyKind::Expression => "condition".to_owned(),
        KeyKind::Shell => "shell".to_owned(),
        KeyKind::Expectation => "expectation".to_owned(),
        KeyKind::Nodes => "nodes".to_owned(),
        KeyKind::Steps => "steps".to_owned(),
        KeyKind::Agent => "[agent](#agent)".to_owned(),
        KeyKind::Object(object) => format!("[{0}](#{0})", object.name),
        KeyKind::Map(inner) => format!("object of {}", self::kind(inner)),
        KeyKind::List(inner) => format!("list of {}", self::kind(inner)),
        KeyKind::Either(kinds) => kinds.iter().map(self::kind).collect::<Vec<_>>().join(", or "),
    }
}

fn word(form: Form) -> &'static str {
    match form {
        Form::Text => "text",
        Form::Name => "name",
        Form::Any => "any value",
        Form::Bool => "`true` or `false`",
        Form::Count(_) => "whole number",
        Form::Duration => "duration",
        Form::Size => "size",
        Form::Fraction => "fraction",
        Form::Mode => "octal digits",
        Form::OneOf(_) => "one of several words",
    }
}

/// The description of a key: its text, then whether it is required, its default, its aliases and where it applies.
fn describe(key: &KeySpec) -> String {
    let mut parts = vec![key.doc.to_owned()];
    if key.required {
        parts.push("Required".to_owned());
    }
    parts.extend(key.default.map(|default| format!("Default: `{default}`")));
    if !key.aliases.is_empty() {
        let label = if key.aliases.len() == 1 { "Alias" } else { "Aliases" };
        parts.push(format!("{label}: {}", code_list(key.aliases)));
    }
    // A key that applies only to the action it selects says so by its name.
    if !key.on.is_empty() && key.on.iter().all(|action| action.key() != key.name) {
        let actions: Vec<&str> = key.on.iter().map(|action| action.key()).collect();
        parts.push(format!("Only for {}", code_list(&actions)));
    }
    if !key.types.is_empty() && key.types != [key.name] {
        parts.push(format!("Only for {}", code_list(key.types)));
    }
    parts.join(". ")
}

fn code_list(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// A schema of a workflow is a schema: every reference in it leads to a definition.
#[test]
fn schema_is_closed() {
    let schema = fields::schema();
    let definitions = schema.get("$defs").unwrap().as_object().unwrap().clone();
    let mut open = vec![schema];
    while let Some(value) = open.pop() {
        if let Some(target) = value.get("$ref").and_then(Value::as_str) {
            let name = target.strip_prefix("#/$defs/").unwrap();
            assert!(definitions.get_str(name).is_some(), "{target} leads nowhere");
        }
        open.extend(value.as_list().into_iter().flatten().cloned());
        open.extend(value.as_object().into_iter().flat_map(|object| object.values()).cloned());
    }
}

fn lower(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(char::to_lowercase).into_iter().flatten();
    first.chain(chars).collect()
}

// ---- functions -----------------------------------------------------------------------------------------

const CHAPTERS: [(FunctionGroup, &str); 8] = [
    (FunctionGroup::Missing, "Missing values"),
    (FunctionGroup::Convert, "Conversions"),
    (FunctionGroup::Number, "Numbers"),
    (FunctionGroup::Text, "Text"),
    (FunctionGroup::Collection, "Lists and objects"),
    (FunctionGroup::Codec, "Formats and encodings"),
    (FunctionGroup::Time, "Dates and durations"),
    (FunctionGroup::Binding, "Binding into commands"),
];

fn functions() -> String {
    let chapters = CHAPTERS.map(|(group, title)| {
        let members: Vec<&Function> = FUNCTIONS.iter().filter(|function| function.group == group).collect();
        (title, members)
    });
    let listed: usize = chapters.iter().map(|(_, members)| members.len()).sum();
    assert_eq!(listed, FUNCTIONS.len(), "a group has no chapter");
    let mut out = String::new();
    for (title, members) in chapters {
        writeln!(out, "## {title}\n").unwrap();
        for member in members {
            function(member, &mut out);
        }
    }
    out
}

fn function(function: &Function, out: &mut String) {
    writeln!(out, "### {}\n\n`{}` → {}\n", function.name, signature(function), function.returns.words())
        .unwrap();
    writeln!(out, "{}.\n", capitalised(function.doc)).unwrap();
    if function.examples.is_empty() {
        return;
    }
    out.push_str("```expr\n");
    for (source, expected) in function.examples {
        let value = evaluate(source, &Value::NULL, &Value::NULL).unwrap().to_json(JsonStyle::Compact);
        assert_eq!(value, *expected, "{source}");
        assert_eq!(
            data::json::read_value(expected, &Limits::DEFAULT).unwrap().to_json(JsonStyle::Compact),
            value
        );
        writeln!(out, "{source} → {expected}").unwrap();
    }
    out.push_str("```\n\n");
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

fn events() -> String {
    let mut text = "| kind | what it says |\n|---|---|\n".to_owned();
    for (kind, about) in threadline_store::wire::KINDS {
        writeln!(text, "| `{kind}` | {about} |").unwrap();
    }
    text
}

// ---- expectations --------------------------------------------------------------------------------------

mod expectations {
    use std::fmt::Write as _;

    use threadline_expect::table::{
        self, CHECKS, ExpectationKey, FIELDS, FILE, LOGIC, OPERATORS, OPTIONS, ROOTS,
    };
    use threadline_expect::{
        CLEAR_REFUSALS, Check, DEFINITIONS, DocumentKind, EXPLANATIONS, FIRST_REFUSALS, NOT_EXPLAINED,
        NOT_REFUSED, REFUSALS, ROLE_CHANGES, ROLE_DOUBTS, ROLE_KEPT, ROLE_LEFT, ROLE_TAKEN,
    };

    use super::{Severity, lower};

    pub(super) fn roots() -> String {
        let mut out = String::from("| root | answer | step | plain | |\n|---|---|---|---|---|\n");
        for root in ROOTS {
            let has = |kind: DocumentKind| if root.kinds.contains(&kind) { "yes" } else { "" };
            let [answer, step, plain] =
                [DocumentKind::Answer, DocumentKind::Step, DocumentKind::Plain].map(has);
            writeln!(out, "| `{}` | {answer} | {step} | {plain} | {} |", root.name, root.doc).unwrap();
        }
        out
    }

    pub(super) fn keys() -> String {
        let mut out = String::new();
        let tables: [(&str, &[ExpectationKey]); 4] = [
            ("in an expectation", LOGIC),
            ("in an expectation", CHECKS),
            ("beside the checks of an expectation", OPTIONS),
            ("in a file", FILE),
        ];
        for (place, keys) in tables {
            if keys.as_ptr() != CHECKS.as_ptr() {
                writeln!(out, "\n| {place} | takes | |\n|---|---|---|").unwrap();
            }
            for key in keys {
                writeln!(out, "| `{}` | {} | {} |", key.name, key.takes, key.doc).unwrap();
            }
        }
        out
    }

    pub(super) fn fields() -> String {
        let mut out = String::from("| field | takes | | stands for |\n|---|---|---|---|\n");
        for field in FIELDS {
            let means =
                field.means.map_or("a [rule](#rules-and-judges)".to_owned(), |means| format!("`{means}`"));
            writeln!(out, "| `{}` | {} | {} | {means} |", field.name, field.takes.expected(), field.doc)
                .unwrap();
        }
        out
    }

    pub(super) fn operators() -> String {
        let mut out = String::from("| operator | `i` form | takes | meaning |\n|---|---|---|---|\n");
        for operator in OPERATORS {
            let folded = if operator.folds {
                format!("`{}`", table::folded_name(operator.name))
            } else {
                String::new()
            };
            let (takes, doc) = (operator.takes.expected(), operator.doc);
            writeln!(out, "| `{}` | {folded} | {takes} | {doc} |", operator.name).unwrap();
        }
        out
    }

    pub(super) fn words() -> String {
        let quoted =
            |words: &[&str]| words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" ");
        let mut out = String::from("| words | |\n|---|---|\n");
        for (name, words) in [
            ("that refuse", CLEAR_REFUSALS),
            ("that refuse at the beginning of a sentence", FIRST_REFUSALS),
            ("behind which nothing is refused", NOT_REFUSED),
            ("that may refuse", REFUSALS),
            ("of explanation", EXPLANATIONS),
            ("of explanation right behind a topic", DEFINITIONS),
            ("behind which nothing is explained", NOT_EXPLAINED),
            ("of another role", ROLE_CHANGES),
            ("before the name of another role", ROLE_TAKEN),
            ("before a role that is given up", ROLE_LEFT),
            ("that may be of another role", ROLE_DOUBTS),
            ("before the role", ROLE_KEPT),
        ] {
            writeln!(out, "| {name} | {} |", quoted(words)).unwrap();
        }
        out
    }

    pub(super) fn checks() -> String {
        let mut out = String::from("| name | | |\n|---|---|---|\n");
        for check in Check::ALL {
            let severity = if check.severity() == Severity::Error { "error" } else { "warning" };
            let doc = lower(check.doc().trim_end_matches('.'));
            writeln!(out, "| {} | {severity} | {doc} |", check.id()).unwrap();
        }
        out
    }
}
