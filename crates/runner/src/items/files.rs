//! The files of a pattern as items: one is read when it is its turn.

use std::io::BufReader;

use threadline_engine::select::ResolvedSource;
use threadline_lang::data::{self, DataFormat};
use threadline_lang::source::line_column;
use threadline_lang::{Limits, Value};

use super::source::{ItemSource, SourceErrorKind};
use super::window::StreamPosition;
use crate::project::{FileError, Project};

impl<'a> ItemSource<'a> {
    /// Opens a source of the project; none for the output of a command, which somebody has to run first.
    pub fn open(project: &'a Project, source: &'a ResolvedSource) -> Result<Option<Self>, FileError> {
        Ok(Some(match source {
            ResolvedSource::List(value) => Self::Value { name: "the list".to_owned(), value },
            ResolvedSource::File { path, format } => {
                let read = Box::new(BufReader::new(project.open(path, project.here())?));
                Self::Stream { name: path.clone(), read, format: *format }
            }
            ResolvedSource::Files(pattern) => {
                let paths = project.matching(pattern)?;
                let items = Box::new(paths.into_iter().map(|path| item(project, &path)));
                Self::Items { name: pattern.clone(), items }
            }
            ResolvedSource::Shell { .. } => return Ok(None),
        }))
    }
}

/// A file as an item.
fn item(project: &Project, path: &str) -> Result<Value, SourceErrorKind> {
    let text = project.read(path, project.here()).map_err(|error| {
        let hint = error.hint.map(|hint| format!("; {hint}")).unwrap_or_default();
        SourceErrorKind::OneFile { message: format!("{}{hint}", error.message), hint: None }
    })?;
    let name = path.rsplit('/').next().unwrap_or_default();
    let (stem, extension) = name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty()).unwrap_or((name, ""));
    let format = match extension.to_ascii_lowercase().as_str() {
        "json" => Some(DataFormat::Json),
        "yaml" | "yml" => Some(DataFormat::Yaml),
        _ => None,
    };
    let content = match format {
        None => Value::from(text),
        Some(format) => data::read_value(&text, format, &Limits::DEFAULT).map_err(|error| {
            let (line, column) = line_column(&text, error.offset());
            let message = format!("{path}:{line}:{column}: {error}");
            SourceErrorKind::OneFile { message, hint: error.hint }
        })?,
    };
    let entries =
        [("path".into(), Value::from(path)), ("name".into(), Value::from(stem)), ("content".into(), content)];
    Value::object(entries).map_err(|_| {
        let place = StreamPosition { line: 1, column: 1 };
        SourceErrorKind::TooDeep { place }
    })
}
