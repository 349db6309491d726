//! Text in XML and SVG.

use threadline_lang::diag::words::is_steering;

/// Escapes text for XML. Characters that XML cannot contain, and those that steer a terminal, are replaced.
pub fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(char),
            // What steers how text is shown steers a drawing, too.
            char if is_steering(char) => out.push('\u{fffd}'),
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            _ => out.push(char),
        }
    }
    out
}
