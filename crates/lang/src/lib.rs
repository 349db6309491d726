//! The value language of Threadline: typed references, templates and expressions.
//!
//! A [`Template`], an [`Expression`] or a whole [`Document`] is parsed once and evaluated often, against a [`Scope`] of
//! names and in a [`Session`] that keeps limits, computed values, warnings and the trace of one evaluation.
//!
//! ```
//! use threadline_lang::{Limits, NoWorld, Scope, Session, Syntax, Template, data};
//!
//! let names = data::json::read_value(r#"{"review": {"score": 85, "by": "Ana"}}"#, &Limits::DEFAULT)?;
//! let scope = Scope::new().with_values("data", names.as_object().unwrap().clone());
//! let mut world = NoWorld;
//! let mut session = Session::new(&mut world);
//!
//! // Exactly one reference keeps its type; anything more is text.
//! let score = Template::parse("${review.score}", &Syntax::DEFAULT).unwrap();
//! assert_eq!(score.value(&scope, &mut session).unwrap().as_i64(), Some(85));
//!
//! let line = Template::parse("${review.by} gave ${review.score}", &Syntax::DEFAULT).unwrap();
//! let mut text = String::new();
//! line.text(&scope, &mut session, &mut text).unwrap();
//! assert_eq!(text, "Ana gave 85");
//! # Ok::<(), threadline_lang::data::ReadError>(())
//! ```
//!
//! A condition is typed too, and says why it is what it is:
//!
//! ```
//! # use threadline_lang::{Expression, Limits, NoWorld, Scope, Session, Syntax, data};
//! # let names = data::json::read_value(r#"{"score": 85, "passed": true}"#, &Limits::DEFAULT).unwrap();
//! # let scope = Scope::new().with_values("data", names.as_object().unwrap().clone());
//! let good = Expression::parse("score >= 80 and passed", &Syntax::DEFAULT).unwrap();
//! assert!(good.condition(&scope, &mut Session::new(&mut NoWorld)).unwrap());
//! let explanation = good.explain(&scope, &mut Session::new(&mut NoWorld));
//! assert_eq!(explanation.parts[0].source, "score >= 80");
//! ```
//!
//! A document is resolved to a new one; what holds no reference is shared with it, not copied:
//!
//! ```
//! # use threadline_lang::{Document, Limits, NoWorld, Scope, Session, Syntax, data, value::JsonStyle};
//! # let names = data::json::read_value(r#"{"score": 85}"#, &Limits::DEFAULT).unwrap();
//! # let scope = Scope::new().with_values("data", names.as_object().unwrap().clone());
//! let text = r#"{"threshold": "${score}", "note": "Score: ${score}", "fixed": [1, 2, 3]}"#;
//! let document = Document::read(text, data::DataFormat::Json, &Syntax::DEFAULT).unwrap();
//! let resolved = document.resolve(&scope, &mut Session::new(&mut NoWorld)).unwrap();
//! assert_eq!(
//!     resolved.to_json(JsonStyle::Compact),
//!     r#"{"threshold":85,"note":"Score: 85","fixed":[1,2,3]}"#
//! );
//! ```
//!
//! What a text can read is known without evaluating it, and names are checked against a scope; errors are data:
//!
//! ```
//! # use threadline_lang::{ErrorKind, Limits, NoWorld, Scope, Session, Syntax, Template, data};
//! # let names = data::json::read_value(r#"{"score": 85}"#, &Limits::DEFAULT).unwrap();
//! # let scope = Scope::new().with_values("data", names.as_object().unwrap().clone());
//! let template = Template::parse("${scroe} of ${total:-100}", &Syntax::DEFAULT).unwrap();
//! let roots: Vec<_> = template.references().iter().map(|reference| reference.root.clone()).collect();
//! assert_eq!(roots, ["scroe", "total"]);
//!
//! let error = template.value(&scope, &mut Session::new(&mut NoWorld)).unwrap_err();
//! assert!(matches!(error.kind(), ErrorKind::UnknownRoot { .. }));
//! assert_eq!(error.diagnostic().hints, ["did you mean `score`"]);
//! assert_eq!(template.check(&scope)[0].span(), error.span());
//! ```
//!
//! What the language cannot know by itself, such as files and the environment, a caller gives through a [`World`]; a
//! session asks for each such value when it is read, and once. A traced session records every resolution:
//!
//! ```
//! use threadline_lang::{ComputeError, Scope, Session, Syntax, Template, Value, World};
//!
//! struct Fixed;
//! impl World for Fixed {
//!     fn compute(&mut self, name: &str, args: &[Value]) -> Result<Value, ComputeError> {
//!         match (name, args) {
//!             ("env", [variable]) if variable.as_str() == Some("USER") => Ok(Value::from("ana")),
//!             _ => Err(ComputeError::Missing { nearest: None }),
//!         }
//!     }
//! }
//!
//! let template = Template::parse("${env.USER} in ${env.CITY:-Porto}", &Syntax::DEFAULT).unwrap();
//! let mut world = Fixed;
//! let mut session = Session::new(&mut world).traced();
//! let value = template.value(&Scope::new(), &mut session).unwrap();
//! assert_eq!(value.as_str(), Some("ana in Porto"));
//! let trace = session.take_trace();
//! assert_eq!((trace[0].reference.as_str(), trace[0].computed), ("env.USER", true));
//! ```
//!
//! Nothing here reads a file, a clock or the environment, and there is no state beside what a caller holds.

pub mod data;
mod data_path;
pub mod diag;
mod document;
mod embedded;
pub mod envelope;
mod eval;
pub mod func;
pub mod limits;
mod paged_list;
mod scope;
mod shape;
pub mod source;
mod syntax;
mod template;
mod trail;
pub mod value;
mod world;

pub use data_path::{PathStep, parse_path};
pub use diag::error::{Error, ErrorKind, Origin, ParseClass, ValueRead};
pub use document::{Definitions, Document, DocumentError, DocumentSink, SetError};
pub use embedded::{Binding, Embedded, TextPiece, pieces};
pub use envelope::Envelope;
pub use eval::{Explanation, Inferred, Resolution, Session, TracedExpression, Undefined, Warning};
pub use limits::{Limit, Limits};
pub use paged_list::{PagedList, SinglePageList};
pub use scope::{EngineItem, FieldTypes, Lapsed, Promise, PromisedShape, Scope, ScopeEntry};
pub use shape::{ShapeCell, Types, ValueShape};
pub use syntax::{
    BUILT_IN_KINDS, BUILT_IN_ROOTS, ForeignReference, Reference, ReferenceKind, Syntax, is_plain_name,
    push_key,
};
pub use template::{Expression, Template, render, render_into};
pub use trail::{Trail, TrailStep};
pub use value::{Key, KeyTable, Number, Object, Type, Value};
pub use world::{ComputeError, NoWorld, World};

/// The examples of the reference's page about the library are tests too.
#[cfg(doctest)]
#[doc = include_str!("../../../spec/library.md")]
struct LibraryPage;
