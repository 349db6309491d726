//! Places of a text: the file, the line and the column of a byte, or of a reference. The text may be put together of several files.

use threadline_lang::data::locate::locate;
use threadline_lang::diag::Span;
use threadline_lang::source::{SourceFile, line_column};
use threadline_lang::{Origin, Resolution};

/// The text that positions refer to, and its name.
#[derive(Clone, Copy)]
pub struct ReportSource<'a> {
    /// Its name.
    pub name: &'a str,
    /// The text itself.
    pub text: &'a str,
    /// The file of the text, which may be assembled from several.
    file: Option<&'a SourceFile>,
}

impl<'a> ReportSource<'a> {
    /// The text of a file.
    pub fn of(file: &'a SourceFile) -> Self {
        Self { name: file.name(), text: file.text(), file: Some(file) }
    }

    /// A text that is not a file.
    pub fn text(name: &'a str, text: &'a str) -> Self {
        Self { name, text, file: None }
    }

    /// The file that contains a byte, and the position of the byte in it.
    pub fn part(self, offset: usize) -> (Self, usize) {
        let Some(placed) = self.file.map(|file| file.placed(offset)) else { return (self, offset) };
        (Self::text(placed.name, placed.text), offset.saturating_sub(placed.start))
    }

    /// The name of the file that contains a byte, and the line and column of the byte.
    pub fn place(self, offset: usize) -> (&'a str, usize, usize) {
        let (part, offset) = self.part(offset);
        let (line, column) = line_column(part.text, offset);
        (part.name, line, column)
    }

    /// The lines and columns of the beginning and the end of a span of a template that may be a scalar of a document.
    pub fn range(self, span: Span, origin: Option<&Origin>) -> TextRange {
        let span = self.span(span, origin).range();
        let ((_, line, column), (_, end_line, end_column)) = (self.place(span.start), self.place(span.end));
        TextRange { line, column, end_line, end_column }
    }

    /// The position of a span of a template in this text; the template may be a scalar of a document.
    pub fn span(&self, span: Span, origin: Option<&Origin>) -> Span {
        let Some(origin) = origin.filter(|origin| origin.span != Span::default()) else { return span };
        let map = |offset: u32| locate(self.text, origin.span, origin.style, offset as usize);
        let start = map(span.start);
        Span::new(start, map(span.end).max(start))
    }
}

/// Where something stands in a file: lines and columns from 1, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TextRange {
    /// The line of its beginning.
    pub line: usize,
    /// The column of its beginning.
    pub column: usize,
    /// The line of its end.
    pub end_line: usize,
    /// The column behind its end.
    pub end_column: usize,
}

/// The lines of a text, found once, for whoever asks for many places in it.
pub struct LineTable<'a> {
    source: ReportSource<'a>,
    /// Where each line begins.
    starts: Vec<usize>,
}

impl<'a> LineTable<'a> {
    /// Finds the lines of a text.
    pub fn new(source: ReportSource<'a>) -> Self {
        let breaks = source.text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let starts = std::iter::once(0).chain(breaks.map(|(at, _)| at + 1)).collect();
        Self { source, starts }
    }

    /// The name of the file that contains a byte, and the line and column of the byte.
    pub fn place(&self, offset: usize) -> (&'a str, usize, usize) {
        let offset = offset.min(self.source.text.len());
        let (part, within) = self.source.part(offset);
        let beginning = offset - within;
        let line = self.line(offset);
        // A file that was put together of several has lines of its own in each.
        let start = self.starts.get(line).map_or(beginning, |start| (*start).max(beginning));
        let (_, column) = line_column(&self.source.text[start..], offset - start);
        (part.name, line - self.line(beginning) + 1, column)
    }

    /// The place of a resolved reference.
    pub fn trace_place(&self, resolution: &Resolution) -> (&'a str, usize, usize) {
        let span = self.source.span(resolution.span, resolution.origin.as_ref());
        self.place(span.range().start)
    }

    /// The number of the line with a byte, from 0.
    fn line(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset).saturating_sub(1)
    }
}

/// The location of a reference: file, line and column.
pub fn trace_place<'a>(source: ReportSource<'a>, resolution: &Resolution) -> (&'a str, usize, usize) {
    let span = source.span(resolution.span, resolution.origin.as_ref());
    source.place(span.range().start)
}
