//! Tables for people: rows with aligned columns.

use std::fmt::Write as _;

use anstyle::Style;
use unicode_width::UnicodeWidthStr;

use crate::report::visible;

/// The width up to which a column is padded.
const MAX_PADDED_WIDTH: usize = 64;

/// Rows of aligned columns; the last column is not padded.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<Vec<(Style, String)>>,
}

impl Table {
    /// Adds a row of cells.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = (Style, String)>) {
        self.rows.push(cells.into_iter().map(|(style, text)| (style, visible(&text))).collect());
    }

    /// The lines of the table, each with an indent.
    pub(crate) fn text(&self, indent: &str) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|(_, text)| text.width().min(MAX_PADDED_WIDTH)).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut out = String::new();
        for row in &self.rows {
            let mut line = indent.to_owned();
            let last = row.iter().rposition(|(_, text)| !text.is_empty());
            for (at, (style, text)) in row.iter().enumerate().take(last.map_or(0, |last| last + 1)) {
                // Writing into a text cannot fail.
                let _ = write!(line, "{style}{text}{style:#}");
                if Some(at) != last {
                    let pad = widths[at].saturating_sub(text.width()) + 2;
                    let _ = write!(line, "{:pad$}", "");
                }
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}
