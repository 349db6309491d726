//! The lower end of a terminal during a run: lines scroll by, and below them a block is drawn again and again.
//!
//! Lines are kept until the next drawing, so that a drawing is one write, however much happens between two. After each
//! write the cursor, the modes and the colours of the terminal are as they were before.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

use anstyle::Style;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::report::guard;

/// The time between two drawings.
pub(crate) const DRAWING_INTERVAL: Duration = Duration::from_millis(100);

/// The maximum number of bytes that are kept until the next drawing.
const MAX_KEPT: usize = 64 << 10;

/// The size of a terminal that does not report its size.
const DEFAULT_SIZE: ScreenSize = ScreenSize { columns: 80, rows: 24 };

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScreenSize {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

/// A terminal with a block at its lower end.
#[derive(Default)]
pub(crate) struct Screen {
    /// Lines that scroll by with the next drawing.
    pending: String,
    /// The width of each line of the block on the screen.
    drawn: Vec<usize>,
    /// Whether the user wants no colours.
    is_plain: bool,
}

impl Screen {
    /// The screen, if stdout is a terminal that can be drawn on and the user has not asked for plain lines.
    pub(crate) fn of_stdout() -> Option<Self> {
        let stdout = std::io::stdout();
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        let is_plain = anstream::AutoStream::choice(&stdout) == anstream::ColorChoice::Never;
        let is_drawn = std::io::IsTerminal::is_terminal(&stdout) && !is_dumb;
        is_drawn.then(|| Self { pending: String::new(), drawn: Vec::new(), is_plain })
    }

    /// The current size of the terminal.
    pub(crate) fn size() -> ScreenSize {
        let size = terminal_size::terminal_size_of(std::io::stdout());
        let size = size.map(|(columns, rows)| ScreenSize { columns: columns.0.into(), rows: rows.0.into() });
        size.filter(|size| size.columns > 0 && size.rows > 0).unwrap_or(DEFAULT_SIZE)
    }

    /// Prints a line with the next drawing.
    pub(crate) fn print(&mut self, line: &str) {
        self.pending.push_str(&guard(line));
        self.pending.push('\n');
        if self.pending.len() > MAX_KEPT {
            self.clear();
        }
    }

    /// Prints the pending lines and draws the block below them.
    pub(crate) fn draw(&mut self, size: ScreenSize, lines: &[ScreenLine]) {
        if self.pending.is_empty() && self.drawn.is_empty() && lines.is_empty() {
            return;
        }
        let mut out = self.back(size);
        if !self.pending.is_empty() {
            out.push_str("\x1b[J");
            out.push_str(&self.coloured(&self.pending));
            self.pending.clear();
        }
        for line in lines {
            out.push_str(&self.coloured(&line.text));
            out.push_str("\x1b[K\n");
        }
        out.push_str("\x1b[J");
        self.drawn = lines.iter().map(|line| line.width).collect();
        write(&out);
    }

    /// Prints the pending lines and removes the block.
    pub(crate) fn clear(&mut self) {
        self.draw(Self::size(), &[]);
    }

    /// A text with its colours, if the user wants them.
    fn coloured(&self, text: &str) -> String {
        if self.is_plain { anstream::adapter::strip_str(text).to_string() } else { text.to_owned() }
    }

    /// The code that moves the cursor to the beginning of the block. A terminal that has become narrower has wrapped its
    /// lines.
    fn back(&self, size: ScreenSize) -> String {
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
pub(crate) struct ScreenLine {
    text: String,
    width: usize,
    most: usize,
}

impl ScreenLine {
    /// An empty line for a terminal of this size. The last column stays free, because some terminals wrap a line there.
    pub(crate) fn new(size: ScreenSize) -> Self {
        Self { most: size.columns.saturating_sub(1), ..Self::default() }
    }

    /// The number of columns that are left.
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

/// The beginning of a text, at most `max_width` columns wide.
pub(crate) fn cut(text: &str, max_width: usize) -> &str {
    let mut width = 0;
    let end = text.char_indices().find(|(_, char)| {
        width += char.width().unwrap_or(0);
        width > max_width
    });
    end.map_or(text, |(end, _)| &text[..end])
}

fn write(text: &str) {
    let mut stdout = std::io::stdout().lock();
    // If the terminal is gone, the run still goes on.
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}
