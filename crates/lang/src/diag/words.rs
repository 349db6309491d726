//! The building blocks of messages: lists of names, counts, shortened texts, suggestions and durations.
//!
//! Every crate words its messages with these functions, so that the same thing reads the same everywhere.
//! Nothing here decides what a message says, and nothing here prints.
//!
//! ```
//! use threadline_lang::diag::words;
//!
//! assert_eq!(words::code_list(["a", "b", "c"], "and"), "`a`, `b` and `c`");
//! assert_eq!(words::count(1, "item"), "1 item");
//! assert_eq!(words::count(3, "retry"), "3 retries");
//! assert_eq!(words::suggest("scroe", ["score", "id"]).as_deref(), Some("did you mean `score`"));
//! assert_eq!(words::shorten("a long text", 6), "a long…");
//! assert_eq!(words::one_line("a\u{9b}b\nc"), "a\\u009bb\\nc");
//! ```

use std::borrow::Cow;
use std::fmt::{Display, Write as _};
use std::time::Duration;

use super::nearest;

/// The number of names that [`names`] writes out.
const NAMES_SHOWN: usize = 20;

/// Names for a note, separated by commas: `a, b, c`. Only the first twenty are written out: `a, b and 17
/// more`.
pub fn names(names: impl IntoIterator<Item = impl Display>) -> String {
    let mut out = String::new();
    let mut more = 0_usize;
    for (at, name) in names.into_iter().enumerate() {
        if at < NAMES_SHOWN {
            let separator = if at == 0 { "" } else { ", " };
            let _ = write!(out, "{separator}{name}");
        } else {
            more += 1;
        }
    }
    if more > 0 {
        let _ = write!(out, " and {more} more");
    }
    out
}

/// Names in a sentence, each in backticks, the last one after a conjunction: `` `a`, `b` and `c` ``.
pub fn code_list<T: Display>(names: impl IntoIterator<Item = T>, conjunction: &str) -> String {
    list(names.into_iter().map(|name| format!("`{name}`")), conjunction)
}

/// Phrases in a sentence, the last one after a conjunction: `one, two or three`.
pub fn list<T: Display>(phrases: impl IntoIterator<Item = T>, conjunction: &str) -> String {
    let mut out = String::new();
    let mut phrases = phrases.into_iter().peekable();
    let mut first = true;
    while let Some(phrase) = phrases.next() {
        match (first, phrases.peek().is_some()) {
            (true, _) => {}
            (false, true) => out.push_str(", "),
            (false, false) => {
                let _ = write!(out, " {conjunction} ");
            }
        }
        let _ = write!(out, "{phrase}");
        first = false;
    }
    out
}

/// A number with its noun, in the plural unless the number is one: `1 item`, `0 items`, `3 retries`.
#[expect(clippy::needless_pass_by_value, reason = "a number is written at the call, not borrowed")]
pub fn count<N: Display + PartialEq + From<u8>>(number: N, noun: &str) -> String {
    format!("{number} {}", plural(&number, noun))
}

/// A regular noun as it stands behind a number: `item` behind 1, `items` behind any other.
pub fn plural<'n, N: PartialEq + From<u8>>(number: &N, noun: &'n str) -> Cow<'n, str> {
    if *number == N::from(1) {
        return Cow::Borrowed(noun);
    }
    let sibilant = ["s", "x", "ch", "sh"].iter().any(|ending| noun.ends_with(ending));
    let vowel_before_y = ["ay", "ey", "oy", "uy"].iter().any(|ending| noun.ends_with(ending));
    Cow::Owned(match noun.strip_suffix('y') {
        Some(stem) if !vowel_before_y => format!("{stem}ies"),
        _ if sibilant => format!("{noun}es"),
        _ => format!("{noun}s"),
    })
}

/// The hint for a name that does not exist: the known name that was probably meant, if one is close enough.
pub fn suggest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(name, known).map(did_you_mean)
}

/// The hint that offers another spelling.
pub fn did_you_mean(spelling: impl Display) -> String {
    format!("did you mean `{spelling}`")
}

/// A text cut after a number of characters, with `…` in place of the rest.
pub fn shorten(text: &str, max_chars: usize) -> Cow<'_, str> {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// A text of more than `max_chars` characters without its middle: its beginning and its end around `…`.
pub fn shorten_middle(text: &str, max_chars: usize) -> Cow<'_, str> {
    let length = text.chars().count();
    if length <= max_chars {
        return Cow::Borrowed(text);
    }
    let kept = max_chars.saturating_sub(1);
    let (first, last) = (kept.div_ceil(2), kept / 2);
    let at = |position: usize| text.char_indices().nth(position).map_or(text.len(), |(at, _)| at);
    Cow::Owned(format!("{}…{}", &text[..at(first)], &text[at(length - last)..]))
}

/// The number of characters that [`last_lines`] gives of each line, on average.
const LINE_CHARS: usize = 200;

/// The last lines of a text, without the blank end of it. Together they have at most 200 characters for each
/// line that is asked for; a line that has more begins with `…`.
pub fn last_lines(text: &str, max_lines: usize) -> Vec<Cow<'_, str>> {
    let text = text.trim_end();
    let mut left = max_lines.saturating_mul(LINE_CHARS);
    let mut lines = Vec::new();
    for line in text.rsplit('\n').take(max_lines).take_while(|_| !text.is_empty()) {
        let line = line.strip_suffix('\r').unwrap_or(line);
        if left == 0 {
            break;
        }
        let start = line.char_indices().rev().nth(left - 1).map_or(0, |(at, _)| at);
        lines.push(if start == 0 {
            Cow::Borrowed(line)
        } else {
            Cow::Owned(format!("…{}", &line[start..]))
        });
        left = left.saturating_sub(line.len().max(1));
    }
    lines.reverse();
    lines
}

/// Whether a character does something to a terminal or to the text around it, instead of being seen: a
/// control character, or a mark of the direction of text.
pub fn is_steering(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}')
        || matches!(char, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A text on one line that does nothing to a terminal: such characters are written out, `\n` and `\u001b`.
pub fn one_line(text: &str) -> Cow<'_, str> {
    if !text.contains(is_steering) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for char in text.chars() {
        match char {
            '\n' => out.push_str("\\n"),
            char if is_steering(char) => {
                let _ = write!(out, "\\u{:04x}", u32::from(char));
            }
            char => out.push(char),
        }
    }
    Cow::Owned(out)
}

/// A duration with the precision that people care about: `350ms`, `2.5s`, `2m05s`, `1h30m`.
pub fn duration(duration: Duration) -> String {
    let millis = duration.as_millis();
    match millis {
        0..1_000 => format!("{millis}ms"),
        1_000..60_000 if millis.is_multiple_of(1_000) => format!("{}s", millis / 1_000),
        1_000..60_000 => format!("{}.{}s", millis / 1_000, millis % 1_000 / 100),
        60_000..3_600_000 => format!("{}m{:02}s", millis / 60_000, millis / 1_000 % 60),
        _ => format!("{}h{:02}m", millis / 3_600_000, millis / 60_000 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_join_the_last_phrase_with_the_conjunction() {
        assert_eq!(list(Vec::<&str>::new(), "and"), "");
        assert_eq!(list(["a"], "and"), "a");
        assert_eq!(list(["a", "b"], "or"), "a or b");
        assert_eq!(code_list(["a", "b", "c"], "or"), "`a`, `b` or `c`");
    }

    #[test]
    fn long_lists_of_names_end_with_a_count() {
        assert_eq!(names(["a", "b"]), "a, b");
        let shown = names(0..23);
        assert!(shown.starts_with("0, 1, 2") && shown.ends_with("18, 19 and 3 more"), "{shown}");
    }

    #[test]
    fn nouns_follow_their_number() {
        assert_eq!(count(0_u64, "item"), "0 items");
        assert_eq!(count(1_usize, "branch"), "1 branch");
        assert_eq!(count(2_i64, "branch"), "2 branches");
        assert_eq!(count(2, "key"), "2 keys");
        assert_eq!(count(2, "entry"), "2 entries");
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(shorten("äöü", 3), "äöü");
        assert_eq!(shorten("äöüß", 3), "äöü…");
        assert_eq!(shorten_middle("abcdefgh", 8), "abcdefgh");
        assert_eq!(shorten_middle("abcdefghi", 8), "abcd…ghi");
    }

    #[test]
    fn the_last_lines_of_a_text() {
        assert_eq!(last_lines("", 3), Vec::<&str>::new());
        assert_eq!(last_lines("\n \n", 3), Vec::<&str>::new());
        assert_eq!(last_lines("a", 3), ["a"]);
        assert_eq!(last_lines("a\r\nb\n\nc\n\n", 2), ["", "c"]);
        assert_eq!(last_lines("a\r\nb", usize::MAX), ["a", "b"]);
        let long = format!("{}ß", "ä".repeat(1_000_000));
        let shown = last_lines(&long, 1);
        assert_eq!(shown, [format!("…{}ß", "ä".repeat(LINE_CHARS - 1))]);
        assert_eq!(last_lines(&format!("{long}\nend"), 1), ["end"]);
    }

    #[test]
    fn durations_are_as_precise_as_their_size_asks_for() {
        let shown = |millis| duration(Duration::from_millis(millis));
        let all = [shown(0), shown(999), shown(2_000), shown(2_549), shown(65_000), shown(5_400_000)];
        assert_eq!(all, ["0ms", "999ms", "2s", "2.5s", "1m05s", "1h30m"]);
    }
}
