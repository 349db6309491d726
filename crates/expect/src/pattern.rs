//! Regular expressions that match in linear time, with the place of what is wrong in them.

use regex::{Regex, RegexBuilder};

/// How large a compiled pattern may be.
const MAX_SIZE: usize = 1 << 20;

/// Why a text is no pattern.
pub(crate) struct BadPattern {
    pub message: String,
    /// The bytes of the text that are to blame.
    pub at: std::ops::Range<usize>,
    pub hint: Option<&'static str>,
}

/// Reads `pattern` or `/pattern/flags`.
pub(crate) fn compile(text: &str, fold: bool) -> Result<Regex, BadPattern> {
    let PatternSource { pattern, offset, flags } = written(text)?;
    // The parser of the library itself is asked first: it knows the place of a mistake.
    if let Err(error) = regex_syntax::Parser::new().parse(pattern) {
        return Err(refused(&error, offset));
    }
    RegexBuilder::new(pattern)
        .case_insensitive(fold || flags.contains('i'))
        .multi_line(flags.contains('m'))
        .dot_matches_new_line(flags.contains('s'))
        .ignore_whitespace(flags.contains('x'))
        .size_limit(MAX_SIZE)
        .build()
        .map_err(|_| BadPattern {
            message: "the regular expression takes more than 1 MiB when it is compiled".to_owned(),
            at: 0..text.len(),
            hint: Some("repeat fewer times, or use smaller classes of characters"),
        })
}

/// Whether a text is written as a pattern, `/pattern/flags`, and not only usable as one.
pub fn is_pattern(text: &str) -> bool {
    written(text).map_or(true, |written| written.offset > 0)
}

struct PatternSource<'t> {
    pattern: &'t str,
    offset: usize,
    flags: &'t str,
}

/// A pattern between slashes has flags behind them; one without slashes is all pattern.
fn written(text: &str) -> Result<PatternSource<'_>, BadPattern> {
    let plain = PatternSource { pattern: text, offset: 0, flags: "" };
    let Some((pattern, flags)) = text.strip_prefix('/').and_then(|rest| rest.rsplit_once('/')) else {
        return Ok(plain);
    };
    if !flags.bytes().all(|flag| flag.is_ascii_lowercase()) {
        // A path such as `/usr/Lib` is no pattern with flags.
        return Ok(plain);
    }
    if let Some(at) = flags.find(|flag| !"imsxgu".contains(flag)) {
        let at = text.len() - flags.len() + at;
        let hint = Some(
            "flags are `i` any case, `m` lines, `s` dot matches line breaks, `x` white space is left out; \
             where a slash is the first character to be found write `[/]`",
        );
        return Err(BadPattern { message: format!("`{}` is no flag", &text[at..=at]), at: at..at + 1, hint });
    }
    Ok(PatternSource { pattern, offset: 1, flags })
}

fn refused(error: &regex_syntax::Error, offset: usize) -> BadPattern {
    let (message, span) = match error {
        regex_syntax::Error::Parse(error) => (error.kind().to_string(), *error.span()),
        regex_syntax::Error::Translate(error) => (error.kind().to_string(), *error.span()),
        other => {
            return BadPattern {
                message: format!("not a regular expression: {other}"),
                at: 0..0,
                hint: None,
            };
        }
    };
    let at = span.start.offset + offset..span.end.offset + offset;
    if message.starts_with("look-around") {
        return BadPattern {
            message: "look-ahead and look-behind are not supported: a pattern is matched in linear time"
                .to_owned(),
            at,
            hint: Some("write two checks side by side: `matches` and `not-matches`"),
        };
    }
    if message.starts_with("backreferences") {
        return BadPattern {
            message: "back-references are not supported: a pattern is matched in linear time".to_owned(),
            at,
            hint: None,
        };
    }
    BadPattern { message: format!("not a regular expression: {message}"), at, hint: None }
}
