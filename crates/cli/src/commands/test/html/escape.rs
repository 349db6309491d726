//! Text in HTML: nothing that was said can end an element or an attribute, or steer whoever reads it.

use std::fmt::Write as _;

use threadline_lang::diag::words;

use crate::report::visible;

/// The most characters of one text on the page.
const MAX_CHARS: usize = 100_000;

/// Text of several lines, for between the tags of an element.
pub(super) fn lines(text: &str) -> String {
    let shown = words::shorten(text, MAX_CHARS);
    let lines = shown.trim_end().split('\n').map(|line| escaped(line.strip_suffix('\r').unwrap_or(line)));
    lines.collect::<Vec<_>>().join("\n")
}

/// Text of one line, for between the tags of an element or the quotes of an attribute.
pub(super) fn escaped(text: &str) -> String {
    let text = visible(text);
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(char),
        }
    }
    out
}

/// A word of a list in an attribute whose words are separated by blanks.
pub(super) fn word(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing into a text cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leaves_its_place() {
        let hostile = "</script><script>alert('1')</script> \" onload=\"x & \u{1b}[31m \u{202e}";
        let shown = escaped(hostile);
        assert!(!shown.contains(['<', '>', '"', '\'', '\u{1b}', '\u{202e}']), "{shown}");
        assert!(shown.starts_with("&lt;/script&gt;&lt;script&gt;alert(&#39;1&#39;)"), "{shown}");
        assert_eq!(lines("a\r\nb <i>\n\n"), "a\nb &lt;i&gt;");
        assert_eq!(word("a b/ü"), "a%20b%2F%C3%BC");
    }
}
