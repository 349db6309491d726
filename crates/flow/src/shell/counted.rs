//! Variables that a script computes with: how it checks first that they are numbers, so that no value is evaluated.

use std::ops::Range;

use threadline_lang::diag::{Fix, Span};

/// Words behind which a command begins on the same line.
const OPENING: [&str; 3] = ["then", "do", "else"];

/// The change that checks every name in an arithmetic expression before the command in which it stands: what is no
/// integer becomes 0, as an unset variable does. None where there is no place for it that is certain.
pub(crate) fn checked_first(script: &str, expression: &Range<usize>) -> Option<Fix> {
    let before = script.get(..expression.start)?.trim_end().strip_suffix("((")?;
    let before = before.strip_suffix('$').unwrap_or(before);
    let line = before.rfind('\n').map_or(0, |line| line + 1);
    if script[..line].trim_end_matches('\n').ends_with('\\') {
        return None;
    }
    let command = command_start(before, line)?;
    let first = script[command..].split([' ', '\t', '\n']).next()?;
    if ["while", "until", "elif", "for", "case"].contains(&first) {
        return None;
    }
    let mut names: Vec<&str> = Vec::new();
    for name in names_in(script.get(expression.clone())?) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if names.is_empty() {
        return None;
    }
    let checks = names.iter().map(|name| format!("case ${name} in ''|*[!0-9-]*) {name}=0;; esac; "));
    Some(Fix::new(Span::new(command, command), checks.collect::<String>()))
}

/// Where the command begins that a place in a line belongs to, if it is not joined to others with `&&`, `||` or `|`.
fn command_start(before: &str, line: usize) -> Option<usize> {
    let indent = before[line..].len() - before[line..].trim_start().len();
    let (mut start, mut at) = (line + indent, line + indent);
    let (mut quote, mut depth, mut is_joined) = (None, 0_usize, false);
    while let Some(char) = before[at..].chars().next() {
        let next = before[at + char.len_utf8()..].chars().next();
        match (quote, char) {
            (Some('"') | None, '\\') => at += next.map_or(0, char::len_utf8),
            (Some(open), _) if open == char => quote = None,
            (None, '\'' | '"') => quote = Some(char),
            (None, '(' | '{') => depth += 1,
            (None, ')' | '}') => depth = depth.saturating_sub(1),
            (None, ';') if depth == 0 => {
                (start, is_joined) = (at + 1, false);
            }
            (None, '&' | '|') if depth == 0 => is_joined = true,
            (None, '#') if depth == 0 && before[..at].ends_with([' ', '\t']) => return None,
            _ => {}
        }
        at += char.len_utf8();
    }
    if quote == Some('\'') || is_joined {
        return None;
    }
    loop {
        start += before[start..].len() - before[start..].trim_start().len();
        let word = OPENING.iter().find(|word| {
            before[start..].strip_prefix(**word).is_some_and(|rest| rest.starts_with([' ', '\t']))
        });
        match word {
            Some(word) => start += word.len(),
            None => return Some(start),
        }
    }
}

/// The names of variables in an expression, with or without `$`; none with braces or brackets, which are something else.
fn names_in(expression: &str) -> Vec<&str> {
    if expression.contains(['[', '{', '(', '`', '"', '\'']) {
        return Vec::new();
    }
    let is_word = |char: char| char.is_ascii_alphanumeric() || char == '_';
    let words = expression.split(|char: char| !is_word(char));
    words.filter(|word| word.starts_with(|char: char| char.is_ascii_alphabetic() || char == '_')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(script: &str) -> String {
        let start = script.find("((").expect("an expression") + 2;
        let end = script.find("))").expect("its end");
        let Some(fix) = checked_first(script, &(start..end)) else { return script.to_owned() };
        let at = fix.span.range().start;
        format!("{}{}{}", &script[..at], fix.text, &script[at..])
    }

    #[test]
    fn numbers_are_checked_before_the_command() {
        for (script, wanted) in [
            ("  N=$((N + 1))", "  case $N in ''|*[!0-9-]*) N=0;; esac; N=$((N + 1))"),
            (
                "N=$(cat f || echo 0); N=$(($N + 1))",
                "N=$(cat f || echo 0); case $N in ''|*[!0-9-]*) N=0;; esac; N=$(($N + 1))",
            ),
            (
                "if x; then echo \"a$((2*A + B))\"; fi",
                "if x; then case $A in ''|*[!0-9-]*) A=0;; esac; case $B in ''|*[!0-9-]*) B=0;; esac; echo \"a$((2*A + B))\"; fi",
            ),
        ] {
            assert_eq!(checked(script), wanted);
        }
    }

    #[test]
    fn what_is_not_certain_is_left_alone() {
        for script in [
            "a && N=$((N + 1))",
            "while [ $((N)) = 1 ]; do",
            "echo a \\\n $((N))",
            "N=$((a[N]))",
            "echo '$((N))'",
        ] {
            assert_eq!(checked(script), script);
        }
    }
}
