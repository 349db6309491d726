//! Reads the text of an environment file: `NAME=value` lines, as `docker`, `compose` and `dotenv` read them.
//!
//! A value is taken as it is written: nothing in it is looked up or run. What is not understood is an error, never passed
//! over. No file is opened here.

/// What is wrong with a line of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvFileError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, without anything of the value.
    pub message: String,
}

/// The variables of a file, in its order.
pub fn read(text: &str) -> Result<Vec<(String, String)>, Vec<EnvFileError>> {
    let (mut variables, mut errors) = (Vec::new(), Vec::new());
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut rest = text;
    while !rest.is_empty() {
        let line = 1 + text[..text.len() - rest.len()].matches('\n').count();
        match assignment(&mut rest) {
            Ok(found) => variables.extend(found),
            Err(message) => {
                errors.push(EnvFileError { line, message });
                skip_line(&mut rest);
            }
        }
    }
    if errors.is_empty() { Ok(variables) } else { Err(errors) }
}

fn skip_line<'t>(rest: &mut &'t str) -> &'t str {
    let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
    *rest = after;
    line
}

/// Reads one line, or several when a quoted value goes on over them.
fn assignment(rest: &mut &str) -> Result<Option<(String, String)>, String> {
    let text = rest.trim_start_matches([' ', '\t', '\r']);
    if text.is_empty() || text.starts_with(['#', '\n']) {
        skip_line(rest);
        return Ok(None);
    }
    let text = text.strip_prefix("export").filter(|text| text.starts_with([' ', '\t'])).unwrap_or(text);
    let line = text.split('\n').next().unwrap_or(text);
    let Some((name, _)) = line.split_once('=') else {
        return Err("expected `NAME=value`".to_owned());
    };
    let value = &text[name.len() + 1..];
    let name = name.trim();
    if !threadline_flow::forms::is_variable(name) {
        return Err(format!("`{name}` is not a valid name for an environment variable"));
    }
    let value = value.trim_start_matches([' ', '\t']);
    let (value, after) = match value.chars().next() {
        Some('\'') => quoted(&value[1..], '\'')?,
        Some('"') => quoted(&value[1..], '"')?,
        _ => {
            let (line, after) = value.split_once('\n').unwrap_or((value, ""));
            // A `#` begins a comment where a blank stands before it.
            let end = line.find(" #").or_else(|| line.find("\t#")).unwrap_or(line.len());
            (line[..end].trim().to_owned(), after)
        }
    };
    *rest = after;
    if value.contains('\0') {
        return Err(format!("the value of `{name}` contains a NUL character"));
    }
    Ok(Some((name.to_owned(), value)))
}

/// The value between quotes, and what follows its line.
fn quoted(text: &str, quote: char) -> Result<(String, &str), String> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        if character == quote {
            let (line, after) = text[at + 1..].split_once('\n').unwrap_or((&text[at + 1..], ""));
            let behind = line.trim();
            return if behind.is_empty() || behind.starts_with('#') {
                Ok((value, after))
            } else {
                Err("there is text behind the closing quote".to_owned())
            };
        }
        if character != '\\' || quote == '\'' {
            value.push(character);
            continue;
        }
        match characters.next().map(|(_, escaped)| escaped) {
            Some('n') => value.push('\n'),
            Some('r') => value.push('\r'),
            Some('t') => value.push('\t'),
            Some(escaped @ ('"' | '\\' | '$' | '`')) => value.push(escaped),
            Some('\n') => {}
            Some(other) => value.extend(['\\', other]),
            None => break,
        }
    }
    Err(format!("the closing `{quote}` is missing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(text: &str) -> Vec<(String, String)> {
        read(text).unwrap()
    }

    #[test]
    fn values_are_read_as_they_are_written() {
        let text = "\u{feff}# comment\n\nA=1\n export B = two words # three\r\nC='$HOME # \\n'\nD=\"a\\n\\\"b\\\" \\$x\" # end\n\
                    E=\nF=a#b\nG=\"first\nsecond\"\nH=x=y\n";
        let expected = [
            ("A", "1"),
            ("B", "two words"),
            ("C", "$HOME # \\n"),
            ("D", "a\n\"b\" $x"),
            ("E", ""),
            ("F", "a#b"),
            ("G", "first\nsecond"),
            ("H", "x=y"),
        ];
        let expected: Vec<_> =
            expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        assert_eq!(variables(text), expected);
    }

    #[test]
    fn every_wrong_line_is_reported_with_its_number_and_without_its_value() {
        let text = "A=1\nB\n1C=hunter2\nD='a' hunter2\nE=\"hunter2\n";
        let errors = read(text).unwrap_err();
        let told: Vec<String> =
            errors.iter().map(|error| format!("{}: {}", error.line, error.message)).collect();
        assert_eq!(
            told,
            [
                "2: expected `NAME=value`",
                "3: `1C` is not a valid name for an environment variable",
                "4: there is text behind the closing quote",
                "5: the closing `\"` is missing",
            ]
        );
    }
}
