//! The ways of binding a value in a shell or argv field. They come last in a reference there and are an error
//! anywhere else, so they have no value and no example.

use super::parameter as param;
use super::{Body, Function, FunctionGroup, Param, Returns};

const PARAMS: &[Param] = &[param::value("value")];

const fn binding(name: &'static str, doc: &'static str) -> Function {
    Function {
        name,
        group: FunctionGroup::Binding,
        params: PARAMS,
        required: 1,
        returns: Returns::Binding,
        doc,
        examples: &[],
        body: Body::Binding,
    }
}

pub(super) const AS_FILE: Function =
    binding("as_file", "binds the path of a temporary file that holds the text form");

pub(super) const RAW: Function =
    binding("raw", "inserts the text unchanged, so that the shell reads it as part of the command");

pub(super) const WORDS: Function = binding("words", "binds each item of a list as a word of its own");
