//! Values inside the text of a Python or JavaScript program that a script has: how the program reads them from its environment
//! instead, where nobody can run them.
//!
//! What is put in place of a value is exact: only values inside literals of text are touched, and only where the program
//! stands in a here-document or behind `-c` and can be told apart from the script. Everything else is left alone.

use std::ops::Range;

use threadline_lang::diag::{Fix, Span};

use super::hazards::is_code_variable;

/// What a program is written in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Language {
    Python,
    JavaScript,
}

impl Language {
    /// The program that runs it, and the option behind which its text stands.
    fn command(self) -> (&'static str, &'static str) {
        match self {
            Self::Python => ("python", "-c"),
            Self::JavaScript => ("node", "-e"),
        }
    }
}

/// A program inside a script.
struct EmbeddedProgram {
    language: Language,
    /// Where the command begins that runs it.
    command: usize,
    /// The text of the program.
    text: Range<usize>,
    /// Whether the shell puts the values of its variables into the text.
    expands: bool,
    /// The quote that can stand in the text.
    quote: char,
}

/// A value in a program: a reference of the workflow, or a variable of the shell.
struct Hole {
    range: Range<usize>,
    /// The variable of the environment that has it.
    name: String,
    /// What the variable is set to.
    value: String,
}

/// The changes of a script by which the program around a place gets its values from the environment. `slots` are the
/// references of the script. Empty where there is no way that is certain.
pub(crate) fn values_from_environment(script: &str, slots: &[Range<usize>], at: usize) -> Vec<Fix> {
    let around =
        |program: &EmbeddedProgram| (program.text.start.saturating_sub(1)..=program.text.end).contains(&at);
    let Some(program) = programs(script, slots).into_iter().find(around) else { return Vec::new() };
    let Some(holes) = holes(script, slots, &program) else { return Vec::new() };
    let Some(edits) = ProgramReader::read(script, &program, &holes) else { return Vec::new() };
    let mut settings = String::new();
    for (at, hole) in holes.iter().enumerate() {
        let is_used = edits.iter().any(|(_, used)| used.contains(&at));
        let is_first = holes[..at].iter().all(|before| before.name != hole.name);
        if is_used && is_first {
            settings.extend([&hole.name, "=", &hole.value, " "]);
        }
    }
    let mut fixes: Vec<Fix> = edits.into_iter().map(|(fix, _)| fix).collect();
    if !settings.is_empty() {
        fixes.push(Fix::new(Span::new(program.command, program.command), settings));
    }
    fixes
}

/// The programs of a script, in order.
fn programs(script: &str, slots: &[Range<usize>]) -> Vec<EmbeddedProgram> {
    let mut found = programs_in(script, slots, Language::Python);
    found.extend(programs_in(script, slots, Language::JavaScript));
    found
}

fn programs_in(script: &str, slots: &[Range<usize>], language: Language) -> Vec<EmbeddedProgram> {
    let mut found = Vec::new();
    let mut at = 0;
    let name = language.command().0;
    while let Some(here) = script[at..].find(name).map(|from| at + from) {
        at = here + name.len();
        let rest = &script[at..];
        let version =
            rest.len() - rest.trim_start_matches(|char: char| char.is_ascii_digit() || char == '.').len();
        let behind = at + version;
        if slots.iter().any(|slot| slot.contains(&here)) || !begins_command(script, here) {
            continue;
        }
        let rest = &script[behind..];
        let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        if blanks == 0 {
            continue;
        }
        let argument = behind + blanks;
        let found_here = inline(script, slots, here, argument, language)
            .or_else(|| document(script, here, argument, language));
        if let Some(program) = found_here {
            at = program.text.end;
            found.push(program);
        }
    }
    found
}

/// Whether a word stands where a command begins, so that variables can be set before it.
fn begins_command(script: &str, at: usize) -> bool {
    let line = script[..at].rfind('\n').map_or(0, |line| line + 1);
    let before = script[line..at].trim_end();
    if before.is_empty() {
        return !script[..line].trim_end_matches('\n').ends_with('\\');
    }
    let last = before.rsplit([' ', '\t']).next().unwrap_or_default();
    let is_word = ["then", "do", "else", "if", "elif", "while", "until", "!"].contains(&last);
    // Behind variables that are set for it.
    let name = before.split('=').next().unwrap_or_default();
    let is_name = |char: char| char.is_ascii_uppercase() || char.is_ascii_digit() || char == '_';
    let is_set = name.len() < before.len()
        && !name.is_empty()
        && name.chars().all(is_name)
        && !before.contains([';', '|', '&', '\\'])
        && before.matches('"').count().is_multiple_of(2);
    is_word || before.ends_with(['|', '&', ';', '(', '`']) || last == "{" || is_set
}

/// A program behind `-c`, in quotes.
fn inline(
    script: &str,
    slots: &[Range<usize>],
    command: usize,
    argument: usize,
    language: Language,
) -> Option<EmbeddedProgram> {
    let rest = script[argument..].strip_prefix(language.command().1)?;
    let text = rest.trim_start_matches([' ', '\t']);
    let quote = text.chars().next().filter(|char| matches!(char, '"' | '\''))?;
    let start = script.len() - text.len() + 1;
    let mut at = start;
    loop {
        if let Some(slot) = slots.iter().find(|slot| slot.start == at) {
            at = slot.end;
            continue;
        }
        let char = script[at..].chars().next()?;
        if char == quote {
            let other = if quote == '"' { '\'' } else { '"' };
            let expands = quote == '"';
            return Some(EmbeddedProgram { language, command, text: start..at, expands, quote: other });
        }
        at += char.len_utf8();
    }
}

/// A program in a here-document of the line.
fn document(script: &str, command: usize, argument: usize, language: Language) -> Option<EmbeddedProgram> {
    let line_end = script[argument..].find('\n').map(|end| argument + end)?;
    let line = &script[argument..line_end];
    let operator = line.find("<<")?;
    let before = &line[..operator];
    // Only the program itself may stand before it: `python3 -`, and numbers and names of arguments.
    let is_plain = |char: char| char.is_ascii_alphanumeric() || " \t-_./".contains(char);
    if !before.chars().all(is_plain) || before.contains("-c") || before.contains("-m") {
        return None;
    }
    let word = line[operator + 2..].trim_start_matches([' ', '\t']);
    let (strips, word) = word.strip_prefix('-').map_or((false, word), |word| (true, word.trim_start()));
    let quote = word.chars().next().filter(|char| matches!(char, '"' | '\''));
    let word = word.trim_start_matches(['"', '\'']);
    let end = word.find(|char: char| !char.is_ascii_alphanumeric() && char != '_').unwrap_or(word.len());
    let mark = &word[..end];
    if mark.is_empty() || strips {
        return None;
    }
    let start = line_end + 1;
    let mut at = start;
    for line in script[start..].split_inclusive('\n') {
        if line.trim_end_matches('\n') == mark {
            let expands = quote.is_none();
            return Some(EmbeddedProgram { language, command, text: start..at, expands, quote: '"' });
        }
        at += line.len();
    }
    None
}

/// The values in a program; none if the shell puts something in that cannot be named.
fn holes(script: &str, slots: &[Range<usize>], program: &EmbeddedProgram) -> Option<Vec<Hole>> {
    let mut holes: Vec<Hole> = Vec::new();
    let mut at = program.text.start;
    while at < program.text.end {
        if let Some(slot) = slots.iter().find(|slot| slot.start == at) {
            let value = &script[slot.clone()];
            let name = variable_for(script, value, &holes);
            holes.push(Hole { range: slot.clone(), name, value: value.to_owned() });
            at = slot.end;
            continue;
        }
        let rest = &script[at..program.text.end];
        let char = rest.chars().next()?;
        if program.expands {
            let next = rest[char.len_utf8()..].chars().next();
            match (char, next) {
                // A dollar sign of the program.
                ('\\', Some('$')) => {
                    at += 2;
                    continue;
                }
                ('`', _) | ('\\', Some('"' | '`' | '\\' | '\n')) => return None,
                // Of the shell itself, where a reference would begin otherwise.
                ('$', Some('$')) if rest.starts_with("$${") => {
                    let name = &rest[3..];
                    let end = name.find(|char: char| !char.is_ascii_alphanumeric() && char != '_')?;
                    let name = &name[..end];
                    let is_plain = rest[3 + end..].starts_with('}')
                        && name.starts_with(|char: char| char.is_ascii_alphabetic() || char == '_');
                    if !is_plain || is_code_variable(name) {
                        return None;
                    }
                    let length = 4 + end;
                    holes.push(Hole {
                        range: at..at + length,
                        name: name.to_owned(),
                        value: format!("\"${name}\""),
                    });
                    at += length;
                    continue;
                }
                ('$', Some(next)) if next.is_ascii_alphabetic() || "_{".contains(next) => {
                    let name = rest[1..].trim_start_matches('{');
                    let end = name.find(|char: char| !char.is_ascii_alphanumeric() && char != '_');
                    let name = &name[..end.unwrap_or(name.len())];
                    let braces = next == '{';
                    let length = 1 + name.len() + 2 * usize::from(braces);
                    let is_plain = !name.is_empty()
                        && !name.starts_with(|char: char| char.is_ascii_digit())
                        && (!braces || rest.get(length - 1..length) == Some("}"));
                    if !is_plain || is_code_variable(name) {
                        return None;
                    }
                    let (name, value) = (name.to_owned(), format!("\"${name}\""));
                    holes.push(Hole { range: at..at + length, name, value });
                    at += length;
                    continue;
                }
                ('$', Some(next)) if "(0123456789@*#?!$-".contains(next) => return None,
                _ => {}
            }
        }
        at += char.len_utf8();
    }
    Some(holes)
}

/// A name for the variable of a reference that nothing in the script has.
fn variable_for(script: &str, reference: &str, others: &[Hole]) -> String {
    if let Some(same) = others.iter().find(|hole| hole.value == reference) {
        return same.name.clone();
    }
    let path = reference.trim_start_matches("${").trim_start();
    let end = path.find(|char: char| !char.is_ascii_alphanumeric() && !"._-".contains(char));
    let path = &path[..end.unwrap_or(path.len())];
    let upper = path.to_ascii_uppercase().replace(['.', '-'], "_");
    let stem = if upper.starts_with(|char: char| char.is_ascii_alphabetic()) {
        upper
    } else {
        format!("VALUE_{upper}")
    };
    let is_taken = |name: &str| script.contains(name) || others.iter().any(|hole| hole.name == name);
    if !is_taken(&stem) {
        return stem;
    }
    let numbered = (2..).map(|number| format!("{stem}_{number}"));
    numbered.into_iter().find(|name| !is_taken(name)).unwrap_or(stem)
}

/// Reads a program as far as its literals of text and its comments.
struct ProgramReader<'p> {
    script: &'p str,
    program: &'p EmbeddedProgram,
    holes: &'p [Hole],
    at: usize,
    /// Changes, each with the values that it takes from the environment.
    edits: Vec<(Fix, Vec<usize>)>,
    /// Whether the last thing that was read is a literal of text: one behind it would belong to it.
    after_literal: bool,
}

impl ProgramReader<'_> {
    fn read(script: &str, program: &EmbeddedProgram, holes: &[Hole]) -> Option<Vec<(Fix, Vec<usize>)>> {
        let at = program.text.start;
        let mut reader =
            ProgramReader { script, program, holes, at, edits: Vec::new(), after_literal: false };
        while reader.at < program.text.end {
            reader.step()?;
        }
        Some(reader.edits)
    }

    fn hole(&self) -> Option<usize> {
        self.holes.iter().position(|hole| hole.range.start == self.at)
    }

    fn rest(&self) -> &str {
        self.script.get(self.at..self.program.text.end).unwrap_or_default()
    }

    fn step(&mut self) -> Option<()> {
        if let Some(hole) = self.hole() {
            let Hole { range, name, .. } = &self.holes[hole];
            let (range, name) = (range.clone(), name.clone());
            let quote = self.program.quote;
            // In the code itself: a number, or other data that is written alike in JSON.
            if self.stands_alone(&range) {
                let value = self.reading_of(&name);
                let text = match self.program.language {
                    Language::Python => format!("__import__({quote}json{quote}).loads({value})"),
                    Language::JavaScript => format!("JSON.parse({value})"),
                };
                self.edits.push((Fix::new(Span::new(range.start, range.end), text), vec![hole]));
            }
            self.at = range.end;
            self.after_literal = false;
            return Some(());
        }
        let char = self.rest().chars().next()?;
        let is_comment = match self.program.language {
            Language::Python => char == '#',
            Language::JavaScript => self.rest().starts_with("//"),
        };
        if is_comment {
            self.comment();
            return Some(());
        }
        if self.program.language == Language::JavaScript {
            if matches!(char, '\'' | '"' | '`') {
                return self.literal(0);
            }
            self.at += char.len_utf8();
            return Some(());
        }
        let before = self.script[self.program.text.start..self.at].chars().next_back();
        let begins_word = before.is_none_or(|before| !before.is_alphanumeric() && before != '_');
        if begins_word && let Some(prefix) = literal_prefix(self.rest()) {
            return self.literal(prefix);
        }
        if !char.is_whitespace() {
            self.after_literal = false;
        }
        self.at += char.len_utf8();
        Some(())
    }

    /// Whether a value is a whole operand: it stands between signs of the code, and is not part of a name or number.
    fn stands_alone(&self, range: &Range<usize>) -> bool {
        let of_word = |char: char| char.is_alphanumeric() || "_.\\\"'".contains(char);
        let text = &self.program.text;
        let before = self.script[text.start..range.start].chars().next_back();
        let behind = self.script[range.end..text.end].chars().next();
        !before.is_some_and(of_word)
            && !behind.is_some_and(|char| of_word(char) || char == '$')
            && self.holes.iter().all(|hole| hole.range.end != range.start && hole.range.start != range.end)
    }

    /// A comment says the same with the names of the values.
    fn comment(&mut self) {
        while let Some(char) = self.rest().chars().next().filter(|char| *char != '\n') {
            if let Some(hole) = self.hole() {
                let Hole { range, value, .. } = &self.holes[hole];
                let name = value.trim_start_matches(['$', '{', '"']).trim_end_matches(['}', '"']).trim();
                self.edits.push((Fix::new(Span::new(range.start, range.end), name), Vec::new()));
                self.at = range.end;
            } else {
                self.at += char.len_utf8();
            }
        }
    }

    fn literal(&mut self, prefix: usize) -> Option<()> {
        let start = self.at;
        let letters = self.rest()[..prefix].to_ascii_lowercase();
        let rest = &self.rest()[prefix..];
        let one = rest[..1].to_owned();
        let is_python = self.program.language == Language::Python;
        let quote = if is_python && rest.starts_with(&one.repeat(3)) { one.repeat(3) } else { one.clone() };
        self.at += prefix + quote.len();
        let (mut texts, mut used, mut from) = (Vec::new(), Vec::new(), self.at);
        let belongs_to_other = is_python && self.after_literal;
        let (mut depth, mut is_sound) = (0_usize, !letters.contains('b') && !belongs_to_other && one != "`");
        loop {
            if let Some(hole) = self.hole() {
                is_sound &= depth == 0;
                texts.push(from..self.at);
                used.push(hole);
                self.at = self.holes[hole].range.end;
                from = self.at;
                continue;
            }
            let rest = self.rest();
            if rest.starts_with(&quote) {
                texts.push(from..self.at);
                self.at += quote.len();
                break;
            }
            let char = rest.chars().next()?;
            if char == '\n' && quote.len() == 1 && one != "`" {
                return None;
            }
            if letters.contains('f') {
                match char {
                    '{' if rest.starts_with("{{") && depth == 0 => self.at += 1,
                    '}' if rest.starts_with("}}") && depth == 0 => self.at += 1,
                    '{' => depth += 1,
                    '}' => depth = depth.saturating_sub(1),
                    _ => {}
                }
            }
            self.at += char.len_utf8();
            if char == '\\' {
                self.at += self.rest().chars().next()?.len_utf8();
            }
        }
        let behind = self.rest().trim_start_matches([' ', '\t', '\n']);
        is_sound &= !is_python || literal_prefix(behind).is_none();
        self.after_literal = true;
        if used.is_empty() {
            return Some(());
        }
        let text_of = |range: &Range<usize>| &self.script[range.clone()];
        let (_, pieces) = texts.split_last()?;
        is_sound &= pieces.iter().all(|piece| !text_of(piece).ends_with(['\\', '"', '\'']));
        is_sound &= texts[1..].iter().all(|piece| !text_of(piece).starts_with(&one));
        if is_sound {
            let mut parts = Vec::new();
            for (at, piece) in texts.iter().enumerate() {
                if !piece.is_empty() {
                    parts.push(format!("{letters}{quote}{}{quote}", text_of(piece)));
                }
                if let Some(hole) = used.get(at) {
                    parts.push(self.reading_of(&self.holes[*hole].name));
                }
            }
            let text = if parts.len() == 1 { parts.concat() } else { format!("({})", parts.join(" + ")) };
            self.edits.push((Fix::new(Span::new(start, self.at), text), used));
        }
        Some(())
    }

    /// The expression that reads a variable, with the module that the program has by then or one for itself.
    fn reading_of(&self, name: &str) -> String {
        if self.program.language == Language::JavaScript {
            return format!("process.env.{name}");
        }
        let quote = self.program.quote;
        let before = &self.script[self.program.text.start..self.at];
        let margin = |line: &str| line.len() - line.trim_start().len();
        let least = before.lines().filter(|line| !line.trim().is_empty()).map(margin).min().unwrap_or(0);
        let imports_os = before.lines().any(|line| {
            let names = line.get(least..).and_then(|line| line.strip_prefix("import "));
            names.is_some_and(|names| names.split([',', ';']).any(|name| name.trim() == "os"))
        });
        let module = if imports_os { "os".to_owned() } else { format!("__import__({quote}os{quote})") };
        format!("{module}.environ[{quote}{name}{quote}]")
    }
}

/// The length of the letters before the quote, if a literal of text begins here.
fn literal_prefix(rest: &str) -> Option<usize> {
    let letters = rest.len() - rest.trim_start_matches(|char: char| "rRbBuUfF".contains(char)).len();
    (letters <= 2 && rest[letters..].starts_with(['"', '\''])).then_some(letters)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The script after the changes; every `${...}` is a reference.
    fn changed(script: &str) -> String {
        let mut slots = Vec::new();
        let mut at = 0;
        while let Some(start) = script[at..].find("${v").map(|from| at + from) {
            at = script[start..].find('}').map_or(script.len(), |end| start + end + 1);
            slots.push(start..at);
        }
        let mut fixes =
            slots.first().map_or(Vec::new(), |slot| values_from_environment(script, &slots, slot.start));
        fixes.sort_by_key(|fix| fix.span.start);
        let (mut out, mut from) = (String::new(), 0);
        for fix in fixes {
            out.push_str(&script[from..fix.span.range().start]);
            out.push_str(&fix.text);
            from = fix.span.range().end;
        }
        out + &script[from..]
    }

    #[test]
    fn literals_take_their_values_from_the_environment() {
        for (script, wanted) in [
            (
                "python3 <<'EOF'\nimport os\nprint('${v.a}')\nEOF\n",
                "V_A=${v.a} python3 <<'EOF'\nimport os\nprint(os.environ[\"V_A\"])\nEOF\n",
            ),
            (
                "x | python3 -c \"print(open('${v.a}/b').read() + '''${v.c}''')\"",
                "x | V_A=${v.a} V_C=${v.c} python3 -c \"print(open((__import__('os').environ['V_A'] + '/b')).read() + \
                 __import__('os').environ['V_C'])\"",
            ),
            (
                "if python3 - <<EOF\nf\"{a} ${v.a} {{\"\n# of ${v.a}\nEOF\nthen :; fi",
                "if V_A=${v.a} python3 - <<EOF\n(f\"{a} \" + __import__(\"os\").environ[\"V_A\"] + f\" {{\")\n# of v.a\nEOF\nthen \
                 :; fi",
            ),
            (
                "python3 -c \"print(${v.a}, 1)\"",
                "V_A=${v.a} python3 -c \"print(__import__('json').loads(__import__('os').environ['V_A']), 1)\"",
            ),
            (
                "P=\"$(pwd)\" node -e \"x('/${v.a}/b', ${v.a}) // of ${v.a}\"",
                "P=\"$(pwd)\" V_A=${v.a} node -e \"x(('/' + process.env.V_A + '/b'), JSON.parse(process.env.V_A)) // of v.a\"",
            ),
            (
                "python3 -c \"f('$A', '${v.a}')\"",
                "A=\"$A\" V_A=${v.a} python3 -c \"f(__import__('os').environ['A'], __import__('os').environ['V_A'])\"",
            ),
        ] {
            assert_eq!(changed(script), wanted);
        }
    }

    #[test]
    fn what_is_not_certain_is_left_alone() {
        for script in [
            "python3 -c \"print('a' '${v.a}')\"",
            "python3 -c \"print(b'${v.a}')\"",
            "python3 -c \"print(f'{x + '${v.a}'}')\"",
            "timeout 3 python3 -c \"print('${v.a}')\"",
            "python3 -c \"print('$(date)${v.a}')\"",
            "python3 -c \"print(\\\"${v.a}\\\")\"",
            "ruby -e \"puts '${v.a}'\"",
        ] {
            assert_eq!(changed(script), script);
        }
    }
}
