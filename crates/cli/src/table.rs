//! Tables for people: rows with aligned columns, which fit the terminal that they are shown on.

use std::fmt::Write as _;
use std::io::IsTerminal as _;

use anstyle::Style;
use unicode_width::UnicodeWidthStr;

use crate::commands::print_styled;
use crate::exit::CommandFailure;
use crate::report::visible;
use crate::screen::{Screen, cut};

/// The width up to which a column is padded.
const MAX_PADDED_WIDTH: usize = 64;

/// The width below which no column is cut.
const LEAST_WIDTH: usize = 16;

/// The indent of a last cell that has a line of its own.
const FURTHER_INDENT: &str = "    ";

/// So many bytes are printed at once.
const PIECE: usize = 1 << 16;

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

    /// The lines of the table, each with an indent, for stdout: on a terminal no wider than that is, if possible.
    pub(crate) fn text(&self, indent: &str) -> String {
        self.lines(indent, room()).collect()
    }

    /// Prints the lines of the table, each with an indent, without putting all of them together.
    pub(crate) fn print(&self, indent: &str) -> Result<(), CommandFailure> {
        let mut piece = String::new();
        for line in self.lines(indent, room()) {
            piece.push_str(&line);
            if piece.len() >= PIECE {
                print_styled(&std::mem::take(&mut piece))?;
            }
        }
        print_styled(&piece)
    }

    /// The rows as lines: where one would be wider than the room, wide columns are cut and a last cell that does not fit
    /// has a line of its own.
    fn lines(&self, indent: &str, room: usize) -> impl Iterator<Item = String> {
        let widths = self.widths(room.saturating_sub(indent.width()));
        self.rows.iter().map(move |row| {
            let mut text = indent.to_owned();
            let mut filled = indent.width();
            let last = row.iter().rposition(|(_, text)| !text.is_empty());
            for (at, (style, cell)) in row.iter().enumerate().take(last.map_or(0, |last| last + 1)) {
                let is_last = Some(at) == last;
                if is_last && at > 0 && filled + cell.width() > room {
                    text.truncate(text.trim_end().len());
                    text = format!("{text}\n{indent}{FURTHER_INDENT}");
                }
                let cell = if is_last { cell.clone() } else { fitted(cell, widths[at]) };
                // Writing into a text cannot fail.
                let _ = write!(text, "{style}{cell}{style:#}");
                if !is_last {
                    let pad = widths[at].saturating_sub(cell.width()) + 2;
                    let _ = write!(text, "{:pad$}", "");
                    filled += cell.width() + pad;
                }
            }
            text.truncate(text.trim_end().len());
            text.push('\n');
            text
        })
    }

    /// The width of each column. If the columns but the last do not fit the room, the widest are cut.
    fn widths(&self, room: usize) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|(_, text)| text.width().min(MAX_PADDED_WIDTH)).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = (0..columns).map(width).collect();
        let Some((_, inner)) = widths.split_last_mut() else { return widths };
        loop {
            let excess = inner.iter().map(|width| width + 2).sum::<usize>().saturating_sub(room);
            match inner.iter_mut().max() {
                Some(widest) if excess > 0 && *widest > LEAST_WIDTH => *widest -= 1,
                _ => return widths,
            }
        }
    }
}

/// The width of the terminal; without bound where stdout is none.
fn room() -> usize {
    let columns = std::io::stdout().is_terminal().then(|| Screen::size().columns);
    columns.unwrap_or(usize::MAX)
}

/// A text that is cut where its column ends; as it is where nothing has to fit.
fn fitted(text: &str, width: usize) -> String {
    if text.width() <= width || width >= MAX_PADDED_WIDTH {
        return text.to_owned();
    }
    format!("{}…", cut(text, width.saturating_sub(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[&[&str]]) -> Table {
        let mut table = Table::default();
        for row in rows {
            table.row(row.iter().map(|cell| (Style::new(), (*cell).to_owned())));
        }
        table
    }

    const ROWS: &[&[&str]] = &[
        &[
            "name",
            "= \"a text that is rather long for a line\"",
            "text",
            "set by `name`, event 3; read by `other`",
        ],
        &["n", "= 1", "int", "input"],
    ];

    fn text(room: usize) -> String {
        table(ROWS).lines("", room).collect()
    }

    #[test]
    fn a_table_that_fits_is_aligned() {
        let text = text(200);
        assert_eq!(
            text,
            "name  = \"a text that is rather long for a line\"  text  set by `name`, event 3; read by `other`\n\
             n     = 1                                        int   input\n"
        );
    }

    #[test]
    fn a_last_cell_that_does_not_fit_has_its_own_line() {
        let text = text(70);
        assert_eq!(
            text,
            "name  = \"a text that is rather long for a line\"  text\n\
             \x20   set by `name`, event 3; read by `other`\n\
             n     = 1                                        int   input\n"
        );
    }

    #[test]
    fn wide_columns_are_cut_where_there_is_less_room() {
        let text = text(40);
        assert_eq!(
            text,
            "name  = \"a text that is rather …  text\n\
             \x20   set by `name`, event 3; read by `other`\n\
             n     = 1                         int\n\
             \x20   input\n"
        );
        let narrowest: String = table(ROWS).lines("", 1).collect();
        assert!(narrowest.lines().all(|line| line.len() > 1), "{narrowest}");
    }
}
