//! What differs from run to run, under names that are always the same. Cases and pages are compared after this.
//!
//! | name | stands for |
//! |---|---|
//! | `[RUN]`, `[RUN-2]`, ... | the ids of the project's runs, in the order they began |
//! | `[CALLED]`, `[CALLED-2]`, ... | the ids of the runs that steps called, in the order they are told of |
//! | `[WHEN]`, `[CLOCK]` | a date with its time; the time of a day |
//! | `[TIME]` | how long something took; it is as wide as the column it stands in |
//! | `[N]` | a number that was measured |
//! | `[SIZE]` | the size of files |
//! | `[UUID]`, `[HASH]` | what they say |
//!
//! Only the outputs of commands that begin or read runs are changed.

use std::cell::RefCell;
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// The commands whose outputs vary.
const COMMANDS: [&str; 12] =
    ["run", "test", "resume", "rerun", "runs", "show", "explain", "diff", "logs", "vars", "clean", "rm"];

/// The runs of a project.
#[derive(Default)]
pub(crate) struct Runs {
    begun: RefCell<Vec<String>>,
    called: RefCell<Vec<String>>,
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a pattern")
}

static BEGAN: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"(?m)(?: run |"run":")([a-z0-9]{8})(?:$|"|, continues )"#));
static CALLED: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b[a-z0-9]{8}-[a-z0-9]{12}\b"));
static NAMES: LazyLock<[(Regex, &str); 7]> = LazyLock::new(|| {
    [
        (pattern(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| [+-]\d\d:\d\d)?"), "[WHEN]"),
        (pattern(r"\b\d\d:\d\d:\d\d\.\d{3}\b"), "[CLOCK]"),
        (pattern(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "[UUID]"),
        (pattern(r"\b[0-9a-f]{64}\b"), "[HASH]"),
        // Items that run side by side end in any order.
        (pattern(r"\(\d+/(\d+)\) "), "([N]/${1}) "),
        (
            pattern(
                r#"("(?:store_bytes|store_bytes_before|event_bytes|execution_time_ms|cpu_time_ms|memory_usage_mb|duration_ms|duration|elapsed_ms)":)[0-9.]+"#,
            ),
            "${1}[N]",
        ),
        (pattern(r"\b\d+(\.\d)? [kMG]B\b"), "[SIZE]"),
    ]
});
/// A line about the progress of a list, which is printed when it takes ten seconds: where the machine is busy.
static PROGRESS: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?m)^ *· .* \d+ of \d+ items(, \d+ failed)?(, about [0-9hms]+ left)?\n"));
static LISTED: LazyLock<Regex> = LazyLock::new(|| pattern(r" +(\d+(\.\d+)?m?s|\d+m\d\ds|\d+m)\b"));
static SMALL: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?m)\b\d+ bytes$"));
static AFTER: LazyLock<Regex> = LazyLock::new(|| pattern(r"\[TIME\] {2,}"));
static TOOK: LazyLock<Regex> = LazyLock::new(|| pattern(r" *\b\d+(\.\d+)?m?s\b"));

impl Runs {
    /// The text that a command printed, with what varies under its name.
    pub(crate) fn steady(&self, arguments: &[&str], text: &str) -> String {
        if !arguments.first().is_some_and(|command| COMMANDS.contains(command)) {
            return text.to_owned();
        }
        let mut runs = self.begun.borrow_mut();
        for found in BEGAN.captures_iter(text) {
            if !runs.iter().any(|known| *known == found[1]) {
                runs.push(found[1].to_owned());
            }
        }
        let mut called = self.called.borrow_mut();
        let name = |found: &Captures<'_>| {
            let at = called.iter().position(|known| *known == found[0]).unwrap_or_else(|| {
                called.push(found[0].to_owned());
                called.len() - 1
            });
            if at == 0 { "[CALLED]".to_owned() } else { format!("[CALLED-{}]", at + 1) }
        };
        let mut text = CALLED.replace_all(text, name).into_owned();
        for (at, run) in runs.iter().enumerate() {
            let name = if at == 0 { "[RUN]".to_owned() } else { format!("[RUN-{}]", at + 1) };
            text = text.replace(run, &name);
        }
        text = PROGRESS.replace_all(&text, "").into_owned();
        for (pattern, name) in NAMES.iter() {
            text = pattern.replace_all(&text, *name).into_owned();
        }
        // In a column it is as wide as what stood there; in a sentence one space is before it.
        let took = |found: &Captures<'_>| match found[0].len() - found[0].trim_start().len() {
            0 => "[TIME]".to_owned(),
            1 => " [TIME]".to_owned(),
            _ => format!("{:>width$}", "[TIME]", width = found[0].len()),
        };
        if matches!(arguments.first(), Some(&"runs" | &"clean")) {
            // Of a run that took longer the column is wider.
            let text = LISTED.replace_all(&text, "  [TIME]");
            let text = AFTER.replace_all(&text, "[TIME]  ");
            return SMALL.replace_all(&text, "[SIZE]").into_owned();
        }
        TOOK.replace_all(&text, took).into_owned()
    }
}
