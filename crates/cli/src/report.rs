//! Reports for people: the message, the location with an excerpt, the values read, and the hints.

use std::borrow::Cow;
use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use threadline_flow::model::{SECRET_MASK, SECRETS_ROOT};
use threadline_flow::problem::Problem;
use threadline_lang::diag::{Diagnostic, Severity, Span, excerpt, preview, words};
use threadline_lang::source::line_column;
use threadline_lang::value::JsonStyle;
use threadline_lang::{Error, ErrorKind, Explanation, Origin, Resolution, Value, Warning};
use unicode_width::UnicodeWidthStr;

pub(crate) use threadline_inspect::labels::first_line;
pub(crate) use threadline_inspect::place::{LineTable, ReportSource, trace_place};

use crate::arguments::TraceFormat;

/// The maximum number of columns of an excerpt.
const EXCERPT_WIDTH: usize = 100;

/// The maximum number of bytes of a message, note or hint.
const MAX_PRINTED: usize = 2_000;

/// The maximum number of characters of a path in a document.
const MAX_PATH: usize = 60;

const ERROR: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default().bold();
const FRAME: Style = AnsiColor::Blue.on_default();
const BOLD: Style = Style::new().bold();

/// A problem, ready to print.
pub(crate) struct Report(String);

impl Report {
    /// The text to print.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// A problem without a location.
    pub(crate) fn plain(message: impl std::fmt::Display) -> Self {
        let message = printable(&message.to_string());
        Self(format!("{ERROR}error{ERROR:#}{BOLD}: {message}{BOLD:#}\n"))
    }

    /// A problem without a location, with a hint.
    pub(crate) fn with_hint(message: impl std::fmt::Display, hint: &str) -> Self {
        let mut report = Self::plain(message);
        report.hints(&[hint.to_owned()]);
        report
    }

    /// A problem at a location of a file.
    pub(crate) fn at(
        source: ReportSource<'_>,
        span: Span,
        message: &str,
        notes: &[String],
        hints: &[String],
    ) -> Self {
        let mut report = Self::plain(message);
        report.excerpt(source, span, None);
        report.notes(notes);
        report.hints(hints);
        report
    }

    /// An error of the language.
    pub(crate) fn error(source: ReportSource<'_>, error: &Error) -> Self {
        let mut diagnostic = error.diagnostic();
        if reads_without_names(error) {
            diagnostic.hints.push("give names with `--data`, `--outputs` or `--set`".to_owned());
        }
        Self::diagnostic(source, &diagnostic, error.origin())
    }

    /// A warning of the language.
    pub(crate) fn warning(source: ReportSource<'_>, warning: &Warning) -> Self {
        let diagnostic = Diagnostic {
            id: warning.id,
            severity: Severity::Warning,
            message: warning.message.clone(),
            span: warning.span,
            notes: Vec::new(),
            hints: warning.hint.iter().cloned().collect(),
            fix: None,
            file: None,
        };
        Self::diagnostic(source, &diagnostic, warning.origin.as_ref())
    }

    /// A problem of a workflow file.
    pub(crate) fn problem(source: ReportSource<'_>, problem: &Problem) -> Self {
        let other = problem.file.as_ref().map(ReportSource::of);
        Self::diagnostic(other.unwrap_or(source), problem, None)
    }

    fn diagnostic(source: ReportSource<'_>, diagnostic: &Diagnostic, origin: Option<&Origin>) -> Self {
        let (style, word) = match diagnostic.severity {
            Severity::Error => (ERROR, "error"),
            Severity::Warning => (WARNING, "warning"),
        };
        let (id, message) = (diagnostic.id, printable(&diagnostic.message));
        let mut report = Self(format!("{style}{word}[{id}]{style:#}{BOLD}: {message}{BOLD:#}\n"));
        report.excerpt(source, source.span(diagnostic.span, origin), origin);
        report.notes(&diagnostic.notes);
        report.hints(&diagnostic.hints);
        report
    }

    /// Adds the line of a span, with carets below the span.
    fn excerpt(&mut self, source: ReportSource<'_>, span: Span, origin: Option<&Origin>) {
        let (source, start) = source.part(span.range().start.min(source.text.len()));
        let (line, column) = line_column(source.text, start);
        let place = origin.filter(|origin| !origin.path.is_empty());
        let place = place.map_or(String::new(), |origin| {
            format!(" in `{}`", visible(&words::shorten_middle(&origin.path, MAX_PATH)))
        });
        let line_start =
            source.text[..source.text.floor_char_boundary(start)].rfind('\n').map_or(0, |at| at + 1);
        let line_end = source.text[line_start..].find('\n').map_or(source.text.len(), |at| line_start + at);
        // Only the surroundings of the span are looked at: a line may have many megabytes.
        let from = source.text.floor_char_boundary(line_start.max(start.saturating_sub(4 * EXCERPT_WIDTH)));
        let to = source.text.ceil_char_boundary(line_end.min(start + 4 * EXCERPT_WIDTH));
        let window =
            ExcerptWindow::new(&source.text[from..to], start - from, span.range().len(), from > line_start);
        let margin = line.to_string().len();
        // Writing into a text cannot fail.
        let name = visible(source.name);
        let _ = writeln!(self.0, "{:margin$}{FRAME}-->{FRAME:#} {name}:{line}:{column}{place}", "");
        let _ = writeln!(self.0, "{:margin$} {FRAME}|{FRAME:#}", "");
        let _ = writeln!(self.0, "{FRAME}{line} |{FRAME:#} {}", window.text);
        let _ = writeln!(
            self.0,
            "{:margin$} {FRAME}|{FRAME:#} {:indent$}{ERROR}{}{ERROR:#}",
            "",
            "",
            "^".repeat(window.width),
            indent = window.indent
        );
    }

    fn notes(&mut self, notes: &[String]) {
        for note in notes {
            let _ = writeln!(self.0, "  {FRAME}={FRAME:#} {}", printable(note));
        }
    }

    fn hints(&mut self, hints: &[String]) {
        if !hints.is_empty() {
            self.0.push('\n');
        }
        for hint in hints {
            let _ = writeln!(self.0, "{HINT}hint{HINT:#}: {}", printable(hint));
        }
    }
}

/// The part of a line around a span that fits on a screen.
struct ExcerptWindow {
    text: String,
    indent: usize,
    width: usize,
}

impl ExcerptWindow {
    /// The window on a line, or on a part of it whose beginning was `cut` off.
    fn new(line: &str, start: usize, len: usize, cut: bool) -> Self {
        let start = line.floor_char_boundary(start);
        let end = line.floor_char_boundary(start + len).max(start);
        let (mut from, mut to) = (0, line.len());
        if line.width() > EXCERPT_WIDTH {
            from = line.ceil_char_boundary(start.saturating_sub(EXCERPT_WIDTH / 3));
            to = line.ceil_char_boundary((from + EXCERPT_WIDTH).min(line.len()));
        }
        let shown_end = end.min(to);
        let cut_front = if from > 0 || cut { "…" } else { "" };
        let cut_back = if to < line.len() { "…" } else { "" };
        let text = format!("{cut_front}{}{cut_back}", visible(&line[from..to]));
        Self {
            text,
            indent: cut_front.width() + visible(&line[from..start]).width(),
            width: visible(&line[start..shown_end]).width().max(1),
        }
    }
}

/// Whether a name was read although the command line gives none.
fn reads_without_names(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::UnknownRoot { available, hint: None, .. } => available.is_empty(),
        ErrorKind::Element { cause, .. } => reads_without_names(cause),
        _ => false,
    }
}

/// A message whose values cannot steer a terminal. Line breaks stay, and no line but the first begins at the
/// margin: a value cannot forge a line of a report.
fn printable(text: &str) -> String {
    let end = text.floor_char_boundary(MAX_PRINTED);
    let mut shown = String::with_capacity(end);
    for (at, line) in text[..end].split('\n').enumerate() {
        if at > 0 {
            shown.push_str(if line.is_empty() || line.starts_with(' ') { "\n" } else { "\n  " });
        }
        shown.push_str(&words::one_line(line));
    }
    if end < text.len() {
        shown.push('…');
    }
    shown
}

/// A text on one line that does nothing to a terminal. A tab becomes blanks.
pub(crate) fn visible(text: &str) -> String {
    words::one_line(&text.replace('\t', "    ")).into_owned()
}

/// What is printed for people: line breaks and our own styles stay, everything else that steers a terminal is
/// written out. Values were written out before; this is the last gate, for those that were forgotten.
pub(crate) fn guard(text: &str) -> Cow<'_, str> {
    let steers = |char: char| words::is_steering(char) && char != '\n' && char != '\t';
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(steers) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let style = style_length(from);
        let length = style.unwrap_or_else(|| from.chars().next().map_or(1, char::len_utf8));
        let (found, after) = from.split_at(length);
        out.push_str(&if style.is_some() { Cow::Borrowed(found) } else { words::one_line(found) });
        rest = after;
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// The length of the code of a style that a text begins with: `ESC [ 1 m`.
fn style_length(text: &str) -> Option<usize> {
    let codes = text.strip_prefix("\u{1b}[")?;
    let end = codes.find(|char: char| !char.is_ascii_digit() && char != ';')?;
    codes[end..].starts_with('m').then_some(end + 3)
}

/// The lines after the first, each with an indent.
pub(crate) fn further_lines(text: &str, indent: &str) -> String {
    text.split('\n').skip(1).fold(String::new(), |mut lines, line| {
        // Writing into a text cannot fail.
        let _ = writeln!(lines, "{indent}{}", visible(line));
        lines
    })
}

/// Prints a note to stderr.
pub(crate) fn print_note(message: &str) {
    print(&format!("{HINT}note{HINT:#}: {}\n", printable(message)));
}

/// Prints reports to stderr, separated by blank lines.
pub(crate) fn print_all(reports: &[Report]) {
    for (at, report) in reports.iter().enumerate() {
        print(&format!("{}{}", if at > 0 { "\n" } else { "" }, report.0));
    }
}

fn print(text: &str) {
    anstream::eprint!("{}", guard(text));
}

/// Prints the trace to stderr.
pub(crate) fn print_trace(source: ReportSource<'_>, format: TraceFormat, trace: &[Resolution]) {
    for resolution in trace {
        let line = match format {
            TraceFormat::Text => trace_line(source, resolution),
            TraceFormat::Json => trace_json(source, resolution),
        };
        print(&format!("{line}\n"));
    }
}

fn trace_line(source: ReportSource<'_>, resolution: &Resolution) -> String {
    let (name, line, column) = trace_place(source, resolution);
    let value = match &resolution.value {
        Some(_) if resolution.root == SECRETS_ROOT => format!("{SECRET_MASK} (secret, masked)"),
        Some(value) => format!("{}, {}", preview(value), words::count(resolution.size(), "byte")),
        None => "nothing".to_owned(),
    };
    let (reference, path, scope) = (&resolution.reference, &resolution.path, &resolution.scope);
    let alias = if path == reference { String::new() } else { format!(" → {path}") };
    let scope = match (resolution.computed, scope.is_empty()) {
        (true, _) => format!("computed by {scope}"),
        (false, true) => "in no scope".to_owned(),
        (false, false) => format!("from {scope}"),
    };
    let told = visible(&format!("{name}:{line}:{column} {reference}{alias} = {value}, {scope}"));
    format!("{FRAME}trace{FRAME:#} {told}")
}

fn trace_json(source: ReportSource<'_>, resolution: &Resolution) -> String {
    let (name, line, column) = trace_place(source, resolution);
    let text = |text: &str| Value::from(text);
    let kind = resolution.kind().map_or(Value::NULL, |kind| text(kind.name()));
    let shown = resolution.value.as_ref().map_or(Value::NULL, |value| text(&excerpt(value)));
    let entries = [
        ("file", text(name)),
        ("line", line.into()),
        ("column", column.into()),
        ("reference", text(&resolution.reference)),
        ("path", text(&resolution.path)),
        ("scope", if resolution.scope.is_empty() { Value::NULL } else { text(&resolution.scope) }),
        ("type", kind),
        ("size", resolution.size().into()),
        ("preview", shown),
        ("computed", resolution.computed.into()),
    ];
    let object = Value::object(entries.map(|(key, value)| (key.into(), value)));
    object.map_or(String::new(), |object| object.to_json(JsonStyle::Compact))
}

/// Prints the value of every part of an expression.
pub(crate) fn print_explanation(explanation: &Explanation) {
    print(&explanation_text(explanation));
}

/// The value of every part of an expression, one line each.
pub(crate) fn explanation_text(explanation: &Explanation) -> String {
    let mut out = String::new();
    explain(explanation, "", "", &mut out);
    out
}

fn explain(explanation: &Explanation, first: &str, rest: &str, out: &mut String) {
    let outcome = match &explanation.outcome {
        Some(Ok(value)) => preview(value),
        Some(Err(error)) => format!("{ERROR}error{ERROR:#}: {}", visible(&error.to_string())),
        None if explanation.for_each => "once for each element".to_owned(),
        None => "not evaluated".to_owned(),
    };
    let source = explanation.source.split_whitespace().collect::<Vec<_>>().join(" ");
    // Writing into a text cannot fail.
    let _ = writeln!(out, "{FRAME}{first}{FRAME:#}{BOLD}{source}{BOLD:#}  {FRAME}→{FRAME:#}  {outcome}");
    for (at, part) in explanation.parts.iter().enumerate() {
        let last = at + 1 == explanation.parts.len();
        let (branch, below) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        explain(part, &format!("{rest}{branch}"), &format!("{rest}{below}"), out);
    }
}
