//! The data of the attack: sources, carriers, wrappers, sinks and values, as `tests/shell/attack/*.txt` list them.

use std::path::Path;

/// Where the value is at a point of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    File,
    Input,
}

/// The shells that read a part; none means all.
#[derive(Debug, Clone, Default)]
pub(crate) struct ShellNames(Vec<String>);

impl ShellNames {
    pub(crate) fn has(&self, shell: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|name| name == shell)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Carrier {
    pub(crate) id: String,
    pub(crate) shells: ShellNames,
    pub(crate) from: Kind,
    pub(crate) to: Kind,
    pub(crate) text: String,
    /// How the rest reads the value, inside of double quotes.
    pub(crate) out: String,
}

#[derive(Debug, Clone)]
pub(crate) struct Wrapper {
    pub(crate) id: String,
    pub(crate) shells: ShellNames,
    pub(crate) text: String,
    /// A line above the script.
    pub(crate) above: String,
}

#[derive(Debug, Clone)]
pub(crate) struct Sink {
    pub(crate) id: String,
    pub(crate) shells: ShellNames,
    pub(crate) kind: Kind,
    pub(crate) programs: Vec<String>,
    /// What it runs; nothing for one that is harmless.
    pub(crate) values: Vec<String>,
    pub(crate) text: String,
    /// The name in `env:` that takes the value.
    pub(crate) variable: Option<String>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Source {
    pub(crate) id: &'static str,
    pub(crate) kind: Kind,
    /// The value as a word, and inside of double quotes where it may stand there.
    pub(crate) word: &'static str,
    pub(crate) inner: Option<&'static str>,
    /// An entry of `env:`, of the step or of the workflow.
    pub(crate) variable: Option<(Level, &'static str, &'static str)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Step,
    Workflow,
}

const fn reference(id: &'static str, text: &'static str) -> Source {
    Source { id, kind: Kind::Text, word: text, inner: Some(text), variable: None }
}

pub(crate) const SOURCES: [Source; 9] = [
    reference("reference", "${inputs.v}"),
    reference("field", "${item.o.v}"),
    reference("captured", "${got.v}"),
    reference("joined", "${inputs.l | join(\"\")}"),
    Source { id: "words", kind: Kind::Text, word: "${inputs.l | words}", inner: None, variable: None },
    Source {
        id: "environment",
        kind: Kind::Text,
        word: "\"$V\"",
        inner: Some("$V"),
        variable: Some((Level::Step, "V", "${inputs.v}")),
    },
    Source {
        id: "environment-lower",
        kind: Kind::Text,
        word: "\"${value}\"",
        inner: Some("${value}"),
        variable: Some((Level::Step, "value", "${item.o.v}")),
    },
    Source {
        id: "environment-of-workflow",
        kind: Kind::Text,
        word: "\"$V\"",
        inner: Some("$V"),
        variable: Some((Level::Workflow, "V", "${inputs.v}")),
    },
    Source {
        id: "file",
        kind: Kind::File,
        word: "${inputs.v | as_file}",
        inner: Some("${inputs.v | as_file}"),
        variable: None,
    },
];

pub(crate) struct Parts {
    pub(crate) carriers: Vec<Carrier>,
    pub(crate) wrappers: Vec<Wrapper>,
    pub(crate) sinks: Vec<Sink>,
    pub(crate) harmless: Vec<Sink>,
}

impl Parts {
    pub(crate) fn read() -> Self {
        let values: Vec<(String, String)> =
            lines("values.txt").iter().map(|line| split(line, ": ")).collect();
        let known = |class: &str| -> Vec<String> {
            let found: Vec<_> =
                values.iter().filter(|(name, _)| name == class).map(|(_, value)| value.clone()).collect();
            assert!(!found.is_empty(), "no value of the class {class}");
            found
        };
        let mut sinks: Vec<Sink> = lines("sinks.txt").iter().map(|line| sink(line, known)).collect();
        sinks.extend(lines("environment.txt").iter().map(|line| environment_sink(line, known)));
        Self {
            carriers: lines("carriers.txt").iter().map(|line| carrier(line)).collect(),
            wrappers: lines("wrappers.txt").iter().map(|line| wrapper(line)).collect(),
            sinks,
            harmless: lines("harmless.txt").iter().map(|line| harmless(line)).collect(),
        }
    }
}

fn lines(file: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/shell/attack").join(file);
    let text = std::fs::read_to_string(&path).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(|line| line.replace('⏎', "\n")).collect()
}

fn split(line: &str, at: &str) -> (String, String) {
    let (left, right) = line.split_once(at).unwrap_or_else(|| panic!("no `{at}` in {line}"));
    (left.to_owned(), right.to_owned())
}

/// The id and the shells at the start of a head, and what is left of it.
fn named(head: &str) -> (String, ShellNames, String) {
    let (id, rest) = head.split_once(' ').unwrap_or((head, ""));
    let Some(rest) = rest.strip_prefix('(') else {
        return (id.to_owned(), ShellNames::default(), rest.to_owned());
    };
    let (shells, rest) = split(rest, ")");
    let shells = shells.split_whitespace().map(str::to_owned).collect();
    (id.to_owned(), ShellNames(shells), rest.trim().to_owned())
}

fn kind(word: &str) -> Kind {
    match word {
        "text" => Kind::Text,
        "file" => Kind::File,
        "input" => Kind::Input,
        _ => panic!("no kind `{word}`"),
    }
}

fn carrier(line: &str) -> Carrier {
    let (head, rest) = split(line, ": ");
    let (id, shells, kinds) = named(&head);
    let (from, to) = split(&kinds, ">");
    let (text, out) = split(&rest, " ⇒");
    Carrier { id, shells, from: kind(&from), to: kind(&to), text, out: out.trim().to_owned() }
}

fn wrapper(line: &str) -> Wrapper {
    let (head, text) = split(line, ":");
    let (id, shells, _) = named(&head);
    let (text, above) = text.split_once(" ⇐ ").unwrap_or((&text, ""));
    Wrapper { id, shells, text: text.trim().to_owned(), above: above.to_owned() }
}

/// The programs in brackets, and the values of the classes behind them.
fn needs(text: &str, known: impl Fn(&str) -> Vec<String>) -> (Vec<String>, Vec<String>) {
    let (programs, classes) = split(text.trim_start_matches('['), "] ");
    let programs = programs.split_whitespace().map(str::to_owned).collect();
    (programs, classes.split(',').flat_map(known).collect())
}

fn sink(line: &str, known: impl Fn(&str) -> Vec<String>) -> Sink {
    let (head, text) = split(line, ": ");
    let (id, shells, rest) = named(&head);
    let (word, rest) = split(&rest, " ");
    let (programs, values) = needs(&rest, known);
    Sink { id, shells, kind: kind(&word), programs, values, text, variable: None }
}

fn environment_sink(line: &str, known: impl Fn(&str) -> Vec<String>) -> Sink {
    let (head, text) = split(line, ": ");
    let (name, rest) = split(&head, " ");
    let (programs, values) = needs(&rest, known);
    let id = format!("env:{name} {}", text.split(' ').next().unwrap());
    let shells = ShellNames::default();
    Sink { id, shells, kind: Kind::Text, programs, values, text, variable: Some(name) }
}

fn harmless(line: &str) -> Sink {
    let (head, text) = split(line, ": ");
    let (id, shells, word) = named(&head);
    Sink { id, shells, kind: kind(&word), programs: Vec::new(), values: Vec::new(), text, variable: None }
}
