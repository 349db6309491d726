//! The value language of Threadline: typed references, templates and expressions.

pub mod data;
pub mod diag;
mod document;
pub mod envelope;
mod eval;
pub mod func;
pub mod limits;
mod scope;
mod syntax;
mod template;
pub mod value;
mod world;

pub use diag::error::{Error, ErrorKind, Origin, ParseClass, Read};
pub use document::{Definitions, Document, DocumentError, PathStep, SetError, parse_path};
pub use envelope::Envelope;
pub use eval::{Explanation, Resolution, Session, Undefined, Warning};
pub use limits::{Limit, Limits};
pub use scope::{Entry, Scope};
pub use syntax::{BUILT_IN_KINDS, BUILT_IN_ROOTS, Reference, ReferenceKind, Syntax};
pub use template::{Expression, Template, render, render_into};
pub use value::{Key, Keys, Number, Object, Type, Value};
pub use world::{ComputeError, NoWorld, World};
