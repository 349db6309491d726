//! Workflow files: texts with spans, what they mean, and what is wrong with them. No file is opened here; the caller
//! reads the bytes.
//!
//! Data goes one way: [`source`] reads a text with places, the loader makes a [`model`] of it, and a [`plan`] is a model
//! whose names are known. Whatever is wrong is a [`problem`].

pub mod model;
pub mod plan;
pub mod problem;
pub mod source;
