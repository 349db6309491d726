//! `exists` and `default`: the functions whose first argument may be missing. The evaluator carries them out.

use super::parameter as param;
use super::{Body, Function, FunctionGroup, Returns};

pub(super) const EXISTS: Function = Function {
    name: "exists",
    group: FunctionGroup::Missing,
    params: &[param::value("path")],
    required: 1,
    returns: Returns::Bool,
    doc: "whether the path leads to a value; null is a value",
    examples: &[
        (r#"exists({"a": null}.a)"#, "true"),
        (r#"exists({"a": 1}.b)"#, "false"),
        ("[1, 2] | first | exists", "true"),
    ],
    body: Body::Exists,
};

pub(super) const DEFAULT: Function = Function {
    name: "default",
    group: FunctionGroup::Missing,
    params: &[param::value("path"), param::value("fallback")],
    required: 2,
    returns: Returns::Any,
    doc: "the value, or the fallback if it is missing or null",
    examples: &[
        (r#"default({"a": 1}.b, 2)"#, "2"),
        (r#"{"a": null}.a | default("none")"#, r#""none""#),
        ("[] | first | default(0)", "0"),
        (r#""" | default("none")"#, r#""""#),
    ],
    body: Body::Default,
};
