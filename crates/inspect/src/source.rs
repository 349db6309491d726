//! The text of a workflow as it was when a run of it began, and of the files that it takes in or calls.

use threadline_engine::Hash;
use threadline_lang::Value;

use crate::error::{InspectError, of_store};
use crate::history::History;

/// A file as it was.
pub struct WorkflowText {
    /// Its name.
    pub file: String,
    /// The hash of its bytes.
    pub hash: Hash,
    /// What stood in it.
    pub text: String,
}

/// The file of a run as it was, then the other files that its workflow was made of.
pub fn texts(history: &History<'_>) -> Result<Vec<WorkflowText>, InspectError> {
    let started = &history.started;
    let main = std::iter::once((&started.file, &started.text));
    let others = started.files.iter().map(|(file, hash)| (file, hash));
    let read = |(file, hash): (&ecow::EcoString, &Hash)| {
        let bytes = history.reader.value(hash).map_err(|error| of_store(&error))?;
        let text = String::from_utf8(bytes)
            .map_err(|_| InspectError::plain(format!("the text of `{file}` as it was is not UTF-8")))?;
        Ok(WorkflowText { file: file.to_string(), hash: *hash, text })
    };
    main.chain(others).map(read).collect()
}

/// Files as JSON.
pub fn texts_value(history: &History<'_>, texts: &[WorkflowText]) -> Value {
    let files = texts.iter().map(|WorkflowText { file, hash, text }| {
        Value::record([
            ("file", Value::from(file.as_str())),
            ("hash", hash.to_string().into()),
            ("text", text.as_str().into()),
        ])
    });
    Value::record([("run", Value::from(history.info.id.as_str())), ("files", Value::sequence(files))])
}
