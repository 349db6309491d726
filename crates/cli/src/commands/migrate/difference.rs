//! The lines in which two texts differ.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};

use crate::report::visible;

const OLD: Style = AnsiColor::Red.on_default();
const NEW: Style = AnsiColor::Green.on_default();

/// So many lines ahead are looked at for one that both texts have.
const LOOK_AHEAD: usize = 400;

/// The lines that change, before and after.
pub(super) fn difference(name: &str, old: &str, new: &str) -> String {
    let mut out = format!("--- {name}\n+++ {name}\n");
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let (mut at, mut behind) = (0, 0);
    while at < old.len() || behind < new.len() {
        if old.get(at) == new.get(behind) {
            at += 1;
            behind += 1;
            continue;
        }
        let (to, until) = next_common(&old[at..], &new[behind..]);
        // Writing into a text cannot fail.
        let _ = writeln!(out, "@@ line {} @@", at + 1);
        for line in &old[at..at + to] {
            let _ = writeln!(out, "{OLD}-{}{OLD:#}", visible(line));
        }
        for line in &new[behind..behind + until] {
            let _ = writeln!(out, "{NEW}+{}{NEW:#}", visible(line));
        }
        at += to;
        behind += until;
    }
    out
}

/// How many lines of each text stand before the next line that both have; all of them if there is none. A line without a
/// letter or digit may stand anywhere.
fn next_common(old: &[&str], new: &[&str]) -> (usize, usize) {
    let far = LOOK_AHEAD.min(old.len() + new.len());
    for sum in 1..=far {
        for to in 0..=sum.min(old.len()) {
            let until = sum - to;
            let (Some(one), Some(other)) = (old.get(to), new.get(until)) else { continue };
            if one == other && one.contains(char::is_alphanumeric) {
                return (to, until);
            }
        }
    }
    (old.len(), new.len())
}
