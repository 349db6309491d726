//! Walking a JSON document whose text leaves may be templates, for the contestants that know only single templates.

use serde_json::Value as Json;

/// A document with compiled leaves.
pub(super) enum Tree<L> {
    Unchanged(Json),
    Leaf(L),
    List(Vec<Tree<L>>),
    Object(Vec<(String, Tree<L>)>),
}

impl<L> Tree<L> {
    /// `leaf` compiles a text, or answers `None` when there is nothing to do in it.
    pub(super) fn compile<'a>(json: &'a Json, leaf: &impl Fn(&'a str) -> Option<L>) -> Self {
        match json {
            Json::String(text) => leaf(text).map_or_else(|| Self::Unchanged(json.clone()), Self::Leaf),
            Json::Array(items) => Self::List(items.iter().map(|item| Self::compile(item, leaf)).collect()),
            Json::Object(fields) => {
                let fields = fields.iter().map(|(key, field)| (key.clone(), Self::compile(field, leaf)));
                Self::Object(fields.collect())
            }
            _ => Self::Unchanged(json.clone()),
        }
    }

    pub(super) fn build(&self, leaf: &impl Fn(&L) -> Json) -> Json {
        match self {
            Self::Unchanged(json) => json.clone(),
            Self::Leaf(compiled) => leaf(compiled),
            Self::List(items) => items.iter().map(|item| item.build(leaf)).collect(),
            Self::Object(fields) => {
                fields.iter().map(|(key, field)| (key.clone(), field.build(leaf))).collect()
            }
        }
    }
}

/// Replaces, in place, every text leaf for which `leaf` has an answer.
pub(super) fn replace_leaves(json: &mut Json, leaf: &impl Fn(&str) -> Option<Json>) {
    match json {
        Json::String(text) => {
            if let Some(new) = leaf(text) {
                *json = new;
            }
        }
        Json::Array(items) => items.iter_mut().for_each(|item| replace_leaves(item, leaf)),
        Json::Object(fields) => fields.values_mut().for_each(|field| replace_leaves(field, leaf)),
        _ => {}
    }
}

/// Reads a document, replaces its leaves, prints it.
pub(super) fn text_to_text(source: &str, leaf: &impl Fn(&str) -> Option<Json>, output: &mut Vec<u8>) {
    let mut document: Json = serde_json::from_str(source).expect("the sample is JSON");
    replace_leaves(&mut document, leaf);
    serde_json::to_writer(output, &document).expect("a buffer takes everything");
}
