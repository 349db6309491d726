//! What is compared. A workload is data, an expected output and a list of contestants; one line adds a contestant.

use serde_json::Value as Json;

use crate::contestants::{
    CEL, EVALEXPR, FLOOR, JSONLOGIC, JSONSCHEMA, MINIJINJA, PLAIN, REGEX_WALK, TERA, UPON,
};
use crate::contestants::{cel, evalexpr, floor, minijinja, plain, program, regex_walk, tera, upon};
use crate::harness::{Workload, keep};
use crate::ours::OURS;
use crate::{ours, sample};

type Build = fn(Start) -> Workload;

const ALL: &[(&str, Build)] = &[
    ("W1", w1),
    ("W1b", w1b),
    ("W2", w2),
    ("W3", w3),
    ("W3b", w3b),
    ("W4", w4),
    ("W4big", w4big),
    ("W5", w5),
    ("W5buf", w5buf),
    ("W6", w6),
    ("W6text", w6text),
    ("W7", w7),
    ("W8", w8),
    ("E1", e1),
    ("E1wide", e1wide),
    ("E2", e2),
    ("E3", e3),
    ("E4", e4),
    ("E5", e5),
];

/// The named workloads, or all when no name is given.
pub(crate) fn selected(names: &[String]) -> Result<Vec<Workload>, String> {
    if let Some(unknown) = names.iter().find(|name| ALL.iter().all(|(known, _)| known != name)) {
        return Err(unknown_workload(unknown));
    }
    let wanted = ALL.iter().filter(|(name, _)| names.is_empty() || names.iter().any(|wanted| wanted == name));
    Ok(wanted.map(|(name, build)| build(Start { name, only: None })).collect())
}

/// One workload, with one contestant or with all.
pub(crate) fn one(name: &str, contestant: Option<&str>) -> Result<Workload, String> {
    let (name, build) = ALL.iter().find(|(known, _)| *known == name).ok_or_else(|| unknown_workload(name))?;
    Ok(build(Start { name, only: contestant }))
}

fn unknown_workload(name: &str) -> String {
    let known: Vec<&str> = ALL.iter().map(|(known, _)| *known).collect();
    format!("no workload `{name}`; there are {}", known.join(", "))
}

/// What a workload is built from.
#[derive(Clone, Copy)]
struct Start<'a> {
    name: &'static str,
    only: Option<&'a str>,
}

impl Start<'_> {
    fn workload(&self, about: &'static str, expected: impl Into<Json>) -> Workload {
        Workload::new(self.name, about, expected).only(self.only)
    }
}

fn w1(start: Start) -> Workload {
    let prompt = keep(sample::short_prompt());
    let about = "a 120-byte template with 5 references, compiled";
    let mut workload = start.workload(about, prompt.expected.as_str()).references(5);
    rendered(&mut workload, keep(sample::context()), &prompt.template);
    workload.add(CEL, || cel::render(keep(sample::context()), &prompt.template));
    workload
}

fn w1b(start: Start) -> Workload {
    let prompt = keep(sample::short_prompt());
    let (context, template) = (keep(sample::context()), prompt.template.as_str());
    let mut workload = start.workload("the same, parsed and rendered", prompt.expected.as_str());
    workload.add(FLOOR, || floor::render(context, template));
    workload.add(PLAIN, || plain::parse_and_render(context, template));
    workload.add(REGEX_WALK, || regex_walk::render(context, template));
    workload.add(TERA, || tera::parse_and_render(context, template));
    workload.add(UPON, || upon::parse_and_render(context, template));
    workload.add(MINIJINJA, || minijinja::parse_and_render(context, template));
    workload.add(CEL, || cel::parse_and_render(context, template));
    ours::parse_and_render(&mut workload, context, template);
    workload
}

fn w2(start: Start) -> Workload {
    let prompt = keep(sample::long_prompt());
    let about = "a 10 kB prompt with 50 references, compiled";
    let mut workload = start.workload(about, prompt.expected.as_str()).references(50);
    rendered(&mut workload, keep(sample::context()), &prompt.template);
    workload
}

fn w7(start: Start) -> Workload {
    let prompt = keep(sample::wide_prompt());
    let about = "a scope of 10,000 names, a template with 5,000 references, compiled";
    let mut workload = start.workload(about, prompt.expected.as_str()).references(5_000);
    rendered(&mut workload, keep(sample::wide_context()), &prompt.template);
    workload
}

/// Those who render a compiled template: W1, W2 and W7 are the same work at three sizes.
fn rendered(workload: &mut Workload, context: &'static Json, template: &'static str) {
    workload.add(FLOOR, || floor::render(context, template));
    workload.add(PLAIN, || plain::render(context, template));
    workload.add(REGEX_WALK, || regex_walk::render(context, template));
    workload.add(TERA, || tera::render(context, template));
    workload.add(UPON, || upon::render(context, template));
    workload.add(MINIJINJA, || minijinja::render(context, template));
    ours::render(workload, context, template);
}

fn w3(start: Start) -> Workload {
    let (context, condition) = (keep(sample::context()), sample::CONDITION);
    let mut workload = start.workload("a condition of three parts, compiled", true);
    workload.add(FLOOR, || floor::condition(context));
    workload.add(PLAIN, || plain::condition(context));
    workload.add(TERA, || tera::condition(context, condition));
    workload.add(MINIJINJA, || minijinja::condition(context, condition));
    workload.add(EVALEXPR, || evalexpr::condition(context, condition));
    workload.add(CEL, || cel::condition(context, condition));
    ours::condition(&mut workload, context, condition);
    workload
}

fn w3b(start: Start) -> Workload {
    let (context, condition) = (keep(sample::context()), sample::CONDITION);
    let mut workload = start.workload("the same, parsed and evaluated", true);
    workload.add(FLOOR, || floor::condition(context));
    workload.add(REGEX_WALK, || regex_walk::condition(context, condition));
    workload.add(TERA, || tera::parse_and_evaluate(context, condition));
    workload.add(MINIJINJA, || minijinja::parse_and_evaluate(context, condition));
    workload.add(EVALEXPR, || evalexpr::parse_and_evaluate(context, condition));
    workload.add(CEL, || cel::parse_and_evaluate(context, condition));
    ours::parse_and_evaluate(&mut workload, context, condition);
    workload
}

fn w4(start: Start) -> Workload {
    let mut workload = start.workload("one path of depth 5 to a typed value, compiled", 92.25);
    reached(&mut workload, keep(sample::context()));
    workload
}

fn w4big(start: Start) -> Workload {
    let mut workload = start.workload("the same, to a list of 100,000", sample::big_list());
    reached(&mut workload, keep(sample::big_context()));
    workload
}

/// Those who follow a path to a value: W4 and W4big differ only in what stands at its end.
fn reached(workload: &mut Workload, context: &'static Json) {
    let path = sample::DEEP_PATH;
    workload.add(FLOOR, || floor::path(context));
    workload.add(PLAIN, || plain::path(context, path));
    workload.add(REGEX_WALK, || regex_walk::path(context, path));
    workload.add(MINIJINJA, || minijinja::path(context, path));
    workload.add(EVALEXPR, || evalexpr::path(context, path));
    workload.add(CEL, || cel::path(context, path));
    ours::path(workload, context, path);
}

fn w5(start: Start) -> Workload {
    let text = keep(sample::plain_text()).as_str();
    let mut workload = start.workload("10 kB without a reference, from source, borrowed", text);
    workload.add(FLOOR, || floor::borrow_text(text));
    workload.add(PLAIN, || plain::borrow_text(text));
    workload.add(REGEX_WALK, || regex_walk::borrow_text(text));
    ours::borrow_text(&mut workload, text);
    workload
}

fn w5buf(start: Start) -> Workload {
    let (text, context) = (keep(sample::plain_text()).as_str(), keep(sample::context()));
    let mut workload = start.workload("the same, into a buffer", text);
    workload.add(FLOOR, || floor::copy_text(text));
    workload.add(PLAIN, || plain::copy_text(text));
    workload.add(REGEX_WALK, || regex_walk::render(context, text));
    workload.add(TERA, || tera::parse_and_render(context, text));
    workload.add(UPON, || upon::parse_and_render(context, text));
    workload.add(MINIJINJA, || minijinja::parse_and_render(context, text));
    ours::copy_text(&mut workload, text);
    workload
}

fn w6(start: Start) -> Workload {
    let (context, document) = (keep(sample::context()), keep(sample::document()));
    let about = "a document of 200 text leaves, 60 with references, compiled, to a new document";
    let mut workload = start.workload(about, document.expected.clone());
    workload.add(FLOOR, || floor::document(&document.expected));
    workload.add(PLAIN, || plain::document(context, &document.template));
    workload.add(REGEX_WALK, || regex_walk::document(context, &document.template));
    workload.add(MINIJINJA, || minijinja::document(context, &document.template));
    ours::document(&mut workload, context, &document.template);
    workload
}

fn w6text(start: Start) -> Workload {
    let (context, document) = (keep(sample::context()), keep(sample::document()));
    let source = keep(document.template.to_string()).as_str();
    let about = "the same from JSON text to JSON text, compiled on the way";
    let mut workload = start.workload(about, document.expected.to_string());
    workload.add(FLOOR, || floor::document_text(source, &document.expected));
    workload.add(PLAIN, || plain::document_text(context, source));
    workload.add(REGEX_WALK, || regex_walk::document_text(context, source));
    workload.add(MINIJINJA, || minijinja::document_text(context, source));
    ours::document_text(&mut workload, context, source);
    workload
}

fn w8(start: Start) -> Workload {
    let json = keep(sample::context().to_string()).as_str();
    let mut workload = start.workload("a scope from 2.2 kB of JSON text", sample::context());
    workload.add(FLOOR, || floor::scope(json));
    workload.add(TERA, || tera::scope(json));
    workload.add(UPON, || upon::scope(json));
    workload.add(MINIJINJA, || minijinja::scope(json));
    workload.add(CEL, || cel::scope(json));
    ours::scope(&mut workload, json);
    workload
}

fn e1(start: Start) -> Workload {
    expected(start, "a flat expectation on a typical answer, met, read once", &[JSONSCHEMA, JSONLOGIC])
}

fn e1wide(start: Start) -> Workload {
    expected(start, "the same, the text not all ASCII", &[JSONSCHEMA, JSONLOGIC])
}

fn e2(start: Start) -> Workload {
    expected(start, "one of logic 5 deep, met, read once", &[JSONSCHEMA, JSONLOGIC])
}

fn e3(start: Start) -> Workload {
    expected(start, "1,000 expectations on one answer, met, read once", &[JSONSCHEMA, JSONLOGIC])
}

fn e4(start: Start) -> Workload {
    expected(start, "as E1, unmet, with every reason", &[JSONSCHEMA])
}

fn e5(start: Start) -> Workload {
    expected(start, "E1 read from text", &[JSONSCHEMA])
}

/// Those who say whether a document is as expected, in programs of their own.
fn expected(start: Start, about: &'static str, peers: &[&'static str]) -> Workload {
    let mut workload = start.workload(about, threadline_bench_shared::expected(start.name)).programs();
    for peer in peers {
        workload.add(peer, || program::contestant(program::PEERS, start.name, peer));
    }
    workload.add(OURS, || program::contestant(program::OURS, start.name, OURS));
    workload
}
