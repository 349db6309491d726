//! Workflow files: loads the text of a file, checks it, and makes a plan that can run.
//!
//! This crate does no I/O. The caller reads the bytes and receives either a [`plan::Plan`] or a list of
//! [`problem::Problem`]s, each with an id, a span in the file and a hint.
//!
//! ```
//! use std::sync::Arc;
//! use threadline_flow::{load, plan};
//! use threadline_lang::data::DataFormat;
//! use threadline_lang::source::SourceFile;
//!
//! let text = "
//! inputs:
//!   name: {type: text}
//! steps:
//!   - id: greeting
//!     value: Hello ${inputs.name}
//!   - shell: echo ${greeting}
//! ";
//! let file = SourceFile::with_format("hello.yaml", text, DataFormat::Yaml);
//!
//! // Every key is looked up in the table of keys; all problems are reported at once.
//! let (workflow, problems) = load::load(file);
//! assert!(problems.is_empty());
//!
//! // Every name is resolved: the plan knows what each step reads before anything runs.
//! let (plan, problems) = plan::plan(Arc::new(workflow.unwrap()));
//! assert!(problems.is_empty());
//! let plan = plan.unwrap();
//! assert_eq!(plan.steps[1].number, "2");
//!
//! // In shell text a reference is bound to a variable, so its value is never read as code.
//! let script = plan.steps[1].script.as_ref().unwrap();
//! assert_eq!(script.references()[0].root, "greeting");
//! ```
//!
//! A mistake is found before the run, where it was made:
//!
//! ```
//! # use std::sync::Arc;
//! # use threadline_flow::{load, plan};
//! # use threadline_lang::{data::DataFormat, source::SourceFile};
//! let text = "steps: [{id: greeting, value: Hello}, {shell: 'echo ${greetign}'}]";
//! let (workflow, _) = load::load(SourceFile::with_format("hello.yaml", text, DataFormat::Yaml));
//! let (plan, problems) = plan::plan(Arc::new(workflow.unwrap()));
//! assert!(plan.is_none());
//! assert_eq!(problems[0].id, "unknown-root");
//! assert_eq!(problems[0].hints, ["did you mean `greeting`"]);
//! ```
//!
//! Data flows in one direction, and each stage changes the type:
//!
//! | stage | from | to |
//! |---|---|---|
//! | [`threadline_lang::source`] | text | a tree of nodes with spans |
//! | [`load`] | the tree | a [`model::Workflow`], by the table in [`fields`] |
//! | [`plan`] | the workflow | a [`plan::Plan`]: every step has a number, every name is resolved |
//! | [`files`] | a workflow that calls others | the plans of all of them, each file read once |
//!
//! [`shell`] analyses shell text and binds values to it. [`forms`], [`json_path`], [`url`] and [`worker_labels`] read
//! scalars that the language itself does not have. The sorts of problems are listed in [`checks`]; problems of
//! expressions come from [`threadline_lang`], and those of expectations from [`threadline_expect`].

pub mod checks;
pub mod fields;
pub mod files;
pub mod forms;
pub mod json_path;
pub mod load;
pub mod model;
pub mod plan;
pub mod problem;
pub mod shell;
pub mod url;
pub mod worker_labels;
