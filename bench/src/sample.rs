//! The data of the workloads, and what each must give.
//!
//! Templates are written with `${...}`; contestants translate them to their own syntax when they set up. An expected
//! output is written down or built beside its template from the same values, never by a contestant.

use std::fmt::Write as _;

use serde_json::{Value as Json, json};

const NODES: [&str; 8] = ["fetch", "parse", "review", "score", "build", "test", "deploy", "report"];
const FIELDS: [&str; 5] = ["title", "author", "count", "ratio", "passed"];
const AUTHORS: [&str; 5] = ["Ada", "Barbara", "Edsger", "Grace Hopper", "Niklaus"];
const WIDE_NAMES: usize = 10_000;
const WIDE_REFERENCES: usize = 5_000;
const BIG_LIST: u32 = 100_000;

/// W3: true, and true only after its last part.
pub(crate) const CONDITION: &str =
    r#"score.output.count >= 80 and test.output.passed and fetch.output.author != "x""#;
/// W4: a path of many names.
pub(crate) const DEEP_PATH: &str = "fetch.output.page.stats.samples";

/// A template and its text.
pub(crate) struct Prompt {
    pub(crate) template: String,
    pub(crate) expected: String,
}

/// A document with references and the document it becomes.
pub(crate) struct Document {
    pub(crate) template: Json,
    pub(crate) expected: Json,
}

/// Node outputs, nested three deep: 2.2 kB as JSON text.
pub(crate) fn context() -> Json {
    context_with(&json!(92.25))
}

/// The same with a long list at the end of the deep path.
pub(crate) fn big_context() -> Json {
    context_with(&big_list())
}

pub(crate) fn big_list() -> Json {
    (0..BIG_LIST).collect()
}

fn context_with(samples: &Json) -> Json {
    let mut context = json!({});
    for (seed, name) in NODES.iter().enumerate() {
        let node = Node::new(seed);
        context[*name] = json!({"output": node.output(), "run": node.run()});
    }
    context["fetch"]["output"]["page"] = json!({"stats": {"samples": samples}});
    context
}

/// W7: many names, each as deep as in W1.
pub(crate) fn wide_context() -> Json {
    let node = |seed| (wide_name(seed), json!({"output": Node::new(seed).output()}));
    Json::Object((0..WIDE_NAMES).map(node).collect())
}

fn wide_name(seed: usize) -> String {
    format!("node_{seed:04}")
}

/// W1: 120 bytes, five references of depth 3: two texts, an int, a decimal, a bool.
pub(crate) fn short_prompt() -> Prompt {
    let template = "${fetch.output.title} by ${fetch.output.author}: ${score.output.count}, \
                    ${score.output.ratio}, ok ${test.output.passed}.";
    let expected = "Summary 0 of the week by Ada: 101, 13.25, ok true.";
    Prompt { template: template.to_owned(), expected: expected.to_owned() }
}

/// W2: 10 kB with 50 references.
pub(crate) fn long_prompt() -> Prompt {
    let mut prompt = Prompt { template: String::new(), expected: String::new() };
    for index in 0..50 {
        let seed = index % NODES.len();
        prompt.push_text("Read what stands here with care and keep to it; do not guess what is not said. ");
        prompt.push_text("When two sources disagree, say so, name both, and go on with the later one. ");
        prompt.push_reference(NODES[seed], seed, FIELDS[index % FIELDS.len()]);
        prompt.push_text(" is what it gave here.\n");
    }
    prompt
}

/// W7: about as dense with references as W1, each to another name, in no order that memory would favour.
pub(crate) fn wide_prompt() -> Prompt {
    let mut prompt = Prompt { template: String::new(), expected: String::new() };
    for index in 0..WIDE_REFERENCES {
        let seed = index * 7_919 % WIDE_NAMES;
        prompt.push_text(" - ");
        prompt.push_reference(&wide_name(seed), seed, FIELDS[index % FIELDS.len()]);
    }
    prompt
}

/// W5: 10 kB without any reference.
pub(crate) fn plain_text() -> String {
    "No reference stands in this line, only words, a comma and a full stop.\n".repeat(141)
}

/// W6: 200 text leaves; 30 are exactly one reference and keep its type, 30 have references within text.
pub(crate) fn document() -> Document {
    let (mut template, mut expected) = (Vec::new(), Vec::new());
    for section in 0..20 {
        let leaves: Vec<(Json, Json)> = (0..10).map(|leaf| document_leaf(section, leaf)).collect();
        let (before, after): (Vec<Json>, Vec<Json>) = leaves.into_iter().unzip();
        template.push(document_section(&before));
        expected.push(document_section(&after));
    }
    Document { template: Json::Array(template), expected: Json::Array(expected) }
}

fn document_section(leaves: &[Json]) -> Json {
    json!({
        "body": {"items": leaves[4..], "limit": 25, "strict": true},
        "head": {"agent": leaves[0], "goal": leaves[1], "notes": leaves[2], "title": leaves[3]},
    })
}

fn document_leaf(section: usize, leaf: usize) -> (Json, Json) {
    let seed = (section + leaf) % NODES.len();
    let (name, node, field) = (NODES[seed], Node::new(seed), FIELDS[(section + leaf) % FIELDS.len()]);
    let reference = format!("${{{name}.output.{field}}}");
    match leaf {
        0 => (reference.into(), node.value(field)),
        7 if section.is_multiple_of(2) => (reference.into(), node.value(field)),
        3 | 7 => {
            let within = |text: &str| Json::from(format!("Step {leaf} found {text} and went on"));
            (within(&reference), within(&node.text(field)))
        }
        _ => {
            let text = format!("Plain words of leaf {leaf} in section {section}, kept as they are");
            (text.clone().into(), text.into())
        }
    }
}

/// `${a.b}` as `{{ a.b }}`, for the peers that are written so. The samples have no other braces.
pub(crate) fn braces(template: &str) -> String {
    template.replace('}', " }}").replace("${", "{{ ")
}

/// Whether `serde_json` sorts its keys and reads decimals as floats. Features of other crates can change both, and some
/// floors are `serde_json` itself.
pub(crate) fn serde_json_is_default() -> bool {
    let read: Json = serde_json::from_str(r#"{"b": 1.10, "a": 0}"#).expect("this is JSON");
    let printed = read.to_string();
    printed == r#"{"a":0,"b":1.1}"#
}

impl Prompt {
    fn push_text(&mut self, text: &str) {
        self.template.push_str(text);
        self.expected.push_str(text);
    }

    fn push_reference(&mut self, name: &str, seed: usize, field: &str) {
        write!(self.template, "${{{name}.output.{field}}}").expect("a String takes everything");
        self.expected.push_str(&Node::new(seed).text(field));
    }
}

/// The output of one node.
struct Node {
    seed: usize,
    title: String,
    author: &'static str,
    count: usize,
    ratio: f64,
    passed: bool,
}

impl Node {
    fn new(seed: usize) -> Self {
        Self {
            seed,
            title: format!("Summary {seed} of the week"),
            author: AUTHORS[seed % AUTHORS.len()],
            count: 80 + 7 * seed,
            ratio: 10.25 + f64::from(u32::try_from(seed).expect("seeds are small")),
            passed: seed % 2 == 1,
        }
    }

    fn output(&self) -> Json {
        let fields = FIELDS.iter().map(|field| ((*field).to_owned(), self.value(field)));
        Json::Object(fields.collect())
    }

    fn run(&self) -> Json {
        json!({
            "host": format!("worker-{}", self.seed % 4),
            "labels": ["nightly", "shared"],
            "note": "went through at the first try, nothing to add",
            "started": format!("2026-01-05T08:{:02}:07Z", self.seed % 60),
            "took": 1_200 + self.seed,
        })
    }

    fn value(&self, field: &str) -> Json {
        match field {
            "title" => self.title.clone().into(),
            "author" => self.author.into(),
            "count" => self.count.into(),
            "ratio" => self.ratio.into(),
            _ => self.passed.into(),
        }
    }

    fn text(&self, field: &str) -> String {
        match field {
            "title" => self.title.clone(),
            "author" => self.author.to_owned(),
            "count" => self.count.to_string(),
            "ratio" => self.ratio.to_string(),
            _ => self.passed.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn references(text: &str) -> usize {
        text.matches("${").count()
    }

    fn leaves(json: &Json, found: &mut Vec<String>) {
        match json {
            Json::String(text) => found.push(text.clone()),
            Json::Array(items) => items.iter().for_each(|item| leaves(item, found)),
            Json::Object(fields) => fields.values().for_each(|field| leaves(field, found)),
            _ => {}
        }
    }

    #[test]
    fn samples_have_the_sizes_they_claim() {
        assert_eq!(short_prompt().template.len(), 120);
        assert_eq!(references(&short_prompt().template), 5);
        assert!((9_800..10_300).contains(&long_prompt().template.len()), "{}", long_prompt().template.len());
        assert_eq!(references(&long_prompt().template), 50);
        assert_eq!(references(&wide_prompt().template), WIDE_REFERENCES);
        assert!((9_900..10_200).contains(&plain_text().len()), "{}", plain_text().len());
        let context = context().to_string().len();
        assert!((2_150..2_250).contains(&context), "{context}");
    }

    #[test]
    fn the_document_has_60_of_200_leaves_with_references() {
        let mut found = Vec::new();
        leaves(&document().template, &mut found);
        assert_eq!(found.len(), 200);
        assert_eq!(found.iter().filter(|leaf| leaf.contains("${")).count(), 60);
    }
}
