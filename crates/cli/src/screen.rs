//! The lower end of a terminal while a run goes on: lines scroll by, and below them stands a block that is drawn again
//! and again.
//!
//! What is said is kept until the next drawing, so that a drawing is one write, however much happens between two. The
//! terminal is left in no other state: a cursor, a mode or a colour that was changed is as it was after each write.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

use anstyle::Style;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Between two drawings lies so long.
pub(crate) const BETWEEN_DRAWINGS: Duration = Duration::from_millis(100);

/// So many bytes are kept at most.
const MAX_KEPT: usize = 64 << 10;

/// So large is a terminal that does not say it.
const UNKNOWN: Size = Size { columns: 80, rows: 24 };

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

/// A terminal with a block at its lower end.
#[derive(Default)]
pub(crate) struct Screen {
    /// Lines that are to scroll by.
    said: String,
    /// How wide each line of the block is that stands there.
    drawn: Vec<usize>,
}

impl Screen {
    /// The screen, when stdout is a terminal that can be drawn on and nobody asked for plain lines.
    pub(crate) fn of_stdout() -> Option<Self> {
        let stdout = std::io::stdout();
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        // `NO_COLOR` and its kin: whoever wants no colours wants no other codes.
        let is_plain = anstream::AutoStream::choice(&stdout) == anstream::ColorChoice::Never;
        (std::io::IsTerminal::is_terminal(&stdout) && !is_dumb && !is_plain).then(Self::default)
    }

    /// How large the terminal is now.
    pub(crate) fn size() -> Size {
        let size = terminal_size::terminal_size_of(std::io::stdout());
        let size = size.map(|(columns, rows)| Size { columns: columns.0.into(), rows: rows.0.into() });
        size.filter(|size| size.columns > 0 && size.rows > 0).unwrap_or(UNKNOWN)
    }

    /// A line scrolls by, with the next drawing.
    pub(crate) fn say(&mut self, line: &str) {
        self.said.push_str(line);
        self.said.push('\n');
        if self.said.len() > MAX_KEPT {
            self.clear();
        }
    }

    /// Draws the block anew, below what was said.
    pub(crate) fn draw(&mut self, size: Size, lines: &[Line]) {
        if self.said.is_empty() && self.drawn.is_empty() && lines.is_empty() {
            return;
        }
        let mut out = self.back(size);
        if !self.said.is_empty() {
            out.push_str("\x1b[J");
            out.push_str(&std::mem::take(&mut self.said));
        }
        for line in lines {
            out.push_str(&line.text);
            out.push_str("\x1b[K\n");
        }
        out.push_str("\x1b[J");
        self.drawn = lines.iter().map(|line| line.width).collect();
        write(&out);
    }

    /// Only what was said stands there.
    pub(crate) fn clear(&mut self) {
        self.draw(Self::size(), &[]);
    }

    /// To the beginning of the block. A terminal that has become narrower has broken its lines.
    fn back(&self, size: Size) -> String {
        let rows: usize = self.drawn.iter().map(|width| width.div_ceil(size.columns).max(1)).sum();
        if rows == 0 { String::new() } else { format!("\x1b[{rows}A\r") }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A line that is never wider than the terminal.
#[derive(Default)]
pub(crate) struct Line {
    text: String,
    width: usize,
    most: usize,
}

impl Line {
    /// An empty line for a terminal of that size. The last column stays free: some terminals break a line there.
    pub(crate) fn new(size: Size) -> Self {
        Self { most: size.columns.saturating_sub(1), ..Self::default() }
    }

    /// How many columns are left.
    pub(crate) fn room(&self) -> usize {
        self.most - self.width
    }

    /// Adds a text, cut where the line ends.
    pub(crate) fn push(&mut self, style: Style, text: &str) -> &mut Self {
        let fits = text.width() <= self.room();
        let cut = if fits { text } else { cut(text, self.room().saturating_sub(1)) };
        if !cut.is_empty() {
            // Writing into a text cannot fail.
            let _ = write!(self.text, "{style}{cut}{style:#}");
            self.width += cut.width();
        }
        if !fits && self.room() > 0 {
            self.text.push('…');
            self.width += 1;
        }
        self
    }
}

/// The beginning of a text that is at most so wide.
pub(crate) fn cut(text: &str, most: usize) -> &str {
    let mut width = 0;
    let end = text.char_indices().find(|(_, char)| {
        width += char.width().unwrap_or(0);
        width > most
    });
    end.map_or(text, |(end, _)| &text[..end])
}

fn write(text: &str) {
    let mut stdout = std::io::stdout().lock();
    // Whoever read it may be gone; the run goes on.
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}
