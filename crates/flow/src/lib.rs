//! Workflow files: texts with spans, what they mean, and what is wrong with them. No file is opened here; the caller
//! reads the bytes.
//!
//! Data goes one way: [`threadline_lang::source`] reads a text with places, [`load`] makes a [`model`] of it by the keys of [`fields`],
//! and a [`plan`] is a model whose names are known; [`files`] makes it together with those of the workflows that it calls. [`shell`] reads the text of commands. Whatever is wrong is a
//! [`problem`], of a sort of [`checks`], of the shell analysis or of the language.

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
