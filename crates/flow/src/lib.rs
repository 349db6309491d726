//! Workflow files: texts with spans, and what they mean. No file is opened here; the caller reads the bytes.

pub mod shell;
pub mod source;
