//! Expectations: declarative checks, written in YAML or JSON, with a reason for every answer.
//!
//! A file is read once, and everything that is wrong with it is reported. Evaluated against an [`Actual`] document, an
//! expectation is [met, unmet or not evaluable](ExpectationAnswer), and a [tree](Tree) says why, line by line.
//!
//! ```
//! use threadline_expect::{Actual, Evaluation, ExpectationAnswer, LoadContext, NoJudge, load};
//! use threadline_lang::source::SourceFile;
//! use threadline_lang::{Limits, NoWorld, Scope, Session, data};
//!
//! let file = SourceFile::with_format("e.yaml", "expectedAmount: {gte: 0.1, lte: 10}", data::DataFormat::Yaml);
//! let (expectations, problems) = load(&file, &LoadContext::DEFAULT);
//! assert!(problems.is_empty());
//! let expectations = expectations.unwrap();
//!
//! let answer = r#"{"text": "Sending 50 DOT", "plan": [{"agent": "A", "function": "transfer", "params": {"amount": 50}}]}"#;
//! let actual = Actual::detect(data::json::read_value(answer, &Limits::DEFAULT).unwrap()).unwrap();
//! let (scope, mut world, mut judge) = (Scope::new(), NoWorld, NoJudge);
//! let mut session = Session::new(&mut world);
//! let mut evaluation = Evaluation::new(&actual, &scope, &mut session, &mut judge);
//! let outcome = &evaluation.explain_all(&expectations)[0];
//! assert_eq!(outcome.answer, ExpectationAnswer::Unmet);
//! assert_eq!(outcome.reason, "`plan[0].params.amount` is 50, not at most 10");
//! ```
//!
//! Nothing here reads a file, a clock or the environment; values are compared by the operators of the language.

mod actual;
mod checks;
mod editor;
mod evaluate;
mod fold;
mod judge;
mod load;
mod model;
mod operand;
mod path;
mod pattern;
mod quantity;
mod schema;
mod settle;
pub mod table;
mod tree;

pub use self::schema::{JsonSchema, json};
pub use actual::{Actual, DocumentKind, FactsError};
pub use checks::Check;
pub use editor::schema;
pub use evaluate::{BadComparison, Comparison, Evaluation};
pub use judge::{
    CLEAR_REFUSALS, DEFINITIONS, EXPLANATIONS, FIRST_REFUSALS, NOT_EXPLAINED, NOT_REFUSED, NoJudge,
    OpenQuestions, Opinion, Panel, REFUSALS, ROLE_CHANGES, ROLE_DOUBTS, ROLE_KEPT, ROLE_LEFT, ROLE_TAKEN,
    RuleJudge, Ruling, Rulings,
};
pub use load::{ALONE, DEPTH, LoadContext, Unknown, load, load_part, with_promised};
pub use model::{Dynamic, Expectation, Expectations};
pub use pattern::is_pattern;
pub use quantity::quantity;
pub use settle::{Settled, Unsettled, UnsettledWhy, reads_actual};
pub use tree::{ExpectationAnswer, ExpectationOutcome, Tree};
