//! Cases: one file each, with command lines, the files they need, and what they print.
//!
//! ```text
//! # what it shows
//! $ threadline eval --data data.json 'a + 1'
//! -- data.json --
//! {"a": 1}
//! -- stdout --
//! 2
//! ```
//!
//! A section `-- name --` is a file, unless its name is one of these: `stdout`, `stderr`, `exit`, and
//! `after NAME`, the content of a file after the commands. Without a section stdout and stderr are empty and the
//! exit code is 0. Options stand behind the name:
//!
//! - `no-newline`: the text does not end with a line break;
//! - `matches`: every line is a regular expression that the whole line matches;
//! - `any`: it is not compared, because the case is about something else;
//! - `escaped`: `\n`, `\t`, `\\` and bytes such as `\xff` in a file, whose lines are joined;
//! - `-> target`: the file is a symbolic link;
//! - `absent`: the file is not there after the commands.
//!
//! Beside `threadline`, a command may be `cp FROM TO`: somebody edits a file.
//!
//! What differs from run to run, such as ids and times, has names that `steady.rs` lists.
//!
//! With several commands the outputs stand behind each other and `exit` has all codes.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::{Outcome, Project, difference, updates};

pub(crate) struct Case {
    pub(crate) path: PathBuf,
    text: String,
    pub(crate) commands: Vec<String>,
    sections: Vec<Section>,
}

#[derive(Clone)]
struct Section {
    name: String,
    options: Vec<String>,
    content: String,
}

impl Section {
    fn has(&self, option: &str) -> bool {
        self.options.iter().any(|known| known == option)
    }

    /// Whether it does not say what is printed to the letter.
    fn only_describes(&self) -> bool {
        self.has("matches") || self.has("any")
    }

    /// The text without what the format adds.
    fn text(&self) -> &str {
        if self.has("no-newline") {
            self.content.strip_suffix('\n').unwrap_or(&self.content)
        } else {
            &self.content
        }
    }
}

/// Every case below a folder, sorted by path.
pub(crate) fn all(folder: &Path) -> Vec<Case> {
    let mut paths = Vec::new();
    find(folder, &mut paths);
    paths.sort();
    paths.iter().map(|path| Case::read(path)).collect()
}

fn find(folder: &Path, paths: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            find(&path, paths);
        } else if path.extension().is_some_and(|extension| extension == "case") {
            paths.push(path);
        }
    }
}

impl Case {
    fn read(path: &Path) -> Self {
        let text =
            std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let (head, sections) = sections(&text);
        let commands: Vec<String> =
            head.lines().filter_map(|line| line.strip_prefix("$ ")).map(str::to_owned).collect();
        let stray =
            head.lines().find(|line| !(line.is_empty() || line.starts_with("# ") || line.starts_with("$ ")));
        assert!(stray.is_none(), "{}: a line that is neither title nor command: {stray:?}", path.display());
        assert!(text.starts_with("# "), "{}: begin with `# what it shows`", path.display());
        assert!(!commands.is_empty(), "{}: no command", path.display());
        Self { path: path.to_owned(), text, commands, sections }
    }

    /// The name in reports: the path below `cases`.
    pub(crate) fn name(&self) -> String {
        let path = self.path.to_string_lossy();
        path.rsplit_once("/cases/").map_or(&*path, |(_, name)| name).to_owned()
    }

    pub(crate) fn expected_stdout(&self) -> &str {
        self.section("stdout").map_or("", Section::text)
    }

    pub(crate) fn expected_stderr(&self) -> &str {
        self.section("stderr").map_or("", Section::text)
    }

    /// Whether the call itself is wrong.
    pub(crate) fn is_misuse(&self) -> bool {
        self.section("exit").is_some_and(|section| section.text() == "2\n")
    }

    /// Whether the outputs are only described.
    pub(crate) fn varies(&self) -> bool {
        self.sections.iter().any(Section::only_describes)
    }

    /// The names of its files.
    pub(crate) fn files(&self) -> impl Iterator<Item = &str> {
        let written = |section: &&Section| is_file(&section.name) && !section.has("->");
        self.sections.iter().filter(written).map(|section| section.name.as_str())
    }

    /// The bytes of a file of the case.
    pub(crate) fn file(&self, name: &str) -> Option<Vec<u8>> {
        self.section(name).map(content)
    }

    fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.name == name)
    }

    /// A project with the files of the case.
    pub(crate) fn project(&self) -> Project {
        let project = Project::new();
        for section in self.sections.iter().filter(|section| is_file(&section.name)) {
            match section.options.iter().position(|option| option == "->") {
                Some(at) => project.link(&section.name, &section.options[at + 1]),
                None => project.write(&section.name, &content(section)),
            }
        }
        project
    }

    /// Runs the commands and says what differs.
    pub(crate) fn check(&self) -> Result<(), String> {
        let project = self.project();
        let outcomes: Vec<Outcome> = self.commands.iter().map(|line| project.run_line_steady(line)).collect();
        let actual = joined(&outcomes);
        let mut differences = Vec::new();
        let mut expected = self.sections.clone();
        for (name, text) in [("stdout", &actual.0), ("stderr", &actual.1), ("exit", &actual.2)] {
            let default = if name == "exit" { well(&outcomes) } else { String::new() };
            differences.extend(self.compare(name, text, &default));
            update(&mut expected, name, text, &default);
        }
        for section in self.sections.iter().filter(|section| section.name == "after") {
            differences.extend(compare_after(section, &project));
        }
        if differences.is_empty() {
            return Ok(());
        }
        if updates() {
            std::fs::write(&self.path, printed(&self.text, &expected)).expect("the case can be written");
            return Ok(());
        }
        let commands: Vec<String> = self.commands.iter().map(|line| format!("  $ {line}\n")).collect();
        Err(format!("{}\n{}{}", self.name(), commands.concat(), differences.concat()))
    }

    fn compare(&self, name: &str, actual: &str, default: &str) -> Option<String> {
        match self.section(name) {
            None => difference(name, default, actual),
            Some(section) if section.has("any") => None,
            Some(section) if section.has("matches") => mismatch(name, &section.content, actual),
            Some(section) => difference(name, section.text(), actual),
        }
    }
}

fn is_file(name: &str) -> bool {
    !matches!(name, "stdout" | "stderr" | "exit" | "after")
}

/// The text before the first section, and the sections.
fn sections(text: &str) -> (&str, Vec<Section>) {
    let mut sections: Vec<Section> = Vec::new();
    let mut head = text.len();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if let Some((name, options)) = header(line) {
            head = head.min(at);
            sections.push(Section { name, options, content: String::new() });
        } else if let Some(section) = sections.last_mut() {
            section.content.push_str(line);
        }
        at += line.len();
    }
    (&text[..head], sections)
}

fn header(line: &str) -> Option<(String, Vec<String>)> {
    let inside = line.trim_end().strip_prefix("-- ")?.strip_suffix(" --")?;
    let mut words = inside.split(' ').map(str::to_owned);
    Some((words.next()?, words.collect()))
}

fn content(section: &Section) -> Vec<u8> {
    if !section.has("escaped") {
        return section.text().as_bytes().to_vec();
    }
    let mut bytes = Vec::new();
    let joined: String = section.content.lines().collect();
    let mut rest = joined.as_str();
    while let Some((before, after)) = rest.split_once('\\') {
        bytes.extend(before.as_bytes());
        let mut chars = after.chars();
        match chars.next() {
            Some('n') => bytes.push(b'\n'),
            Some('t') => bytes.push(b'\t'),
            Some('r') => bytes.push(b'\r'),
            Some('\\') => bytes.push(b'\\'),
            Some('x') => {
                let digits = &after[1..3];
                bytes.push(u8::from_str_radix(digits, 16).expect("two hexadecimal digits behind `\\x`"));
                chars = after[3..].chars();
            }
            other => panic!("no such escape in `{}`: {other:?}", section.name),
        }
        rest = chars.as_str();
    }
    bytes.extend(rest.as_bytes());
    bytes
}

fn joined(outcomes: &[Outcome]) -> (String, String, String) {
    let several = outcomes.len() > 1;
    let all = |part: fn(&Outcome) -> &str| -> String {
        let mut text = String::new();
        for outcome in outcomes {
            text.push_str(part(outcome));
            if several && !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
        }
        text
    };
    let codes: Vec<String> = outcomes.iter().map(|outcome| outcome.exit.to_string()).collect();
    (all(|outcome| &outcome.stdout), all(|outcome| &outcome.stderr), format!("{}\n", codes.join(" ")))
}

fn well(outcomes: &[Outcome]) -> String {
    format!("{}\n", vec!["0"; outcomes.len()].join(" "))
}

fn compare_after(section: &Section, project: &Project) -> Option<String> {
    let name = section.options.first().expect("`after` and the name of a file");
    let actual = project.read(name);
    match (section.has("absent"), actual) {
        (true, None) => None,
        (true, Some(text)) => Some(format!("after {name}: it is there: {text:?}\n")),
        (false, None) => Some(format!("after {name}: it is not there\n")),
        (false, Some(text)) => difference(&format!("after {name}"), section.text(), &text),
    }
}

fn mismatch(name: &str, patterns: &str, actual: &str) -> Option<String> {
    let (patterns, lines): (Vec<&str>, Vec<&str>) = (patterns.lines().collect(), actual.lines().collect());
    let matches = |pattern: &str, line: &str| {
        let pattern = format!("^(?:{pattern})$");
        regex::Regex::new(&pattern).unwrap_or_else(|error| panic!("{name}: {error}")).is_match(line)
    };
    let all = patterns.len() == lines.len()
        && patterns.iter().zip(&lines).all(|(pattern, line)| matches(pattern, line));
    (!all).then(|| difference(&format!("{name} matches"), &patterns.join("\n"), &lines.join("\n")))?
}

/// Puts what was printed into the sections; a section that only describes is left alone.
fn update(sections: &mut Vec<Section>, name: &str, text: &str, default: &str) {
    if sections.iter().any(|section| section.name == name && section.only_describes()) {
        return;
    }
    let at = sections.iter().position(|section| section.name == name);
    let order = ["stdout", "stderr", "exit", "after"];
    let rank = |name: &str| order.iter().position(|known| *known == name);
    let at = at.inspect(|at| {
        sections.remove(*at);
    });
    if text == default {
        return;
    }
    let at = at.unwrap_or_else(|| {
        let behind = |section: &Section| rank(&section.name) > rank(name);
        sections.iter().position(behind).unwrap_or(sections.len())
    });
    let whole = text.ends_with('\n');
    let options = if whole { Vec::new() } else { vec!["no-newline".to_owned()] };
    let content = if whole { text.to_owned() } else { format!("{text}\n") };
    sections.insert(at, Section { name: name.to_owned(), options, content });
}

fn printed(text: &str, expected: &[Section]) -> String {
    let (head, _) = sections(text);
    let mut out = head.to_owned();
    for section in expected {
        let mut words = vec![section.name.as_str()];
        words.extend(section.options.iter().map(String::as_str));
        // Writing into a text cannot fail.
        let _ = writeln!(out, "-- {} --", words.join(" "));
        out.push_str(&section.content);
    }
    out
}
