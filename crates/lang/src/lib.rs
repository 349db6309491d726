//! The value language of Threadline: typed references, templates and expressions.

pub mod data;
pub mod diag;
pub mod func;
pub mod limits;
pub mod value;
