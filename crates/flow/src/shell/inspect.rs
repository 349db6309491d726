//! What a command does with its words: the table of places, applied.

use std::ops::Range;

use ecow::EcoString;
use threadline_lang::Binding;
use threadline_lang::diag::Severity;

use super::Problem;
use super::names::shell_name;
use super::places::{
    CONTAINERS, EVALUATES_AGAIN, Place, Rule, SHELLS, VALUE_OPTIONS, Which, is_code_variable, place,
};
use super::reader::{Mark, Quote, Reader};
use super::words::Word;

/// Commands that the shell carries out itself: no argument of theirs is limited in size.
const BUILTINS: &[&str] = &[
    ":",
    ".",
    "[",
    "alias",
    "bg",
    "break",
    "builtin",
    "caller",
    "cd",
    "command",
    "continue",
    "declare",
    "dirs",
    "echo",
    "eval",
    "exit",
    "export",
    "false",
    "fc",
    "fg",
    "getopts",
    "hash",
    "jobs",
    "let",
    "local",
    "mapfile",
    "popd",
    "print",
    "printf",
    "pushd",
    "pwd",
    "read",
    "readarray",
    "readonly",
    "return",
    "set",
    "shift",
    "shopt",
    "source",
    "test",
    "times",
    "trap",
    "true",
    "type",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "wait",
];

/// Commands whose arguments set variables.
const DECLARES: &[&str] = &["export", "local", "declare", "typeset", "readonly", "integer", "float"];

/// The letters of options of `read`, `mapfile` and their kind that take a value.
const NAME_VALUES: &[(&str, &str)] =
    &[("read", "ptdnNuik"), ("mapfile", "dnOsuCc"), ("readarray", "dnOsuCc"), ("vared", "p")];

/// Programs that read their text from the file behind `-f`.
const PROGRAM_FILES: &[&str] = &[
    "awk", "gawk", "mawk", "nawk", "sed", "gsed", "jq", "yq", "psql", "mysql", "bc", "gnuplot", "perl", "php",
];

/// Options of interpreters that take a value, so that the next word is not the file to run.
const INTERPRETER_VALUES: &[&str] = &[
    "-W",
    "-X",
    "-I",
    "-r",
    "-M",
    "-L",
    "-d",
    "-o",
    "-O",
    "+O",
    "-C",
    "--require",
    "--import",
    "--rcfile",
    "--init-file",
];

impl Reader<'_> {
    /// Whether the shell carries a command out itself.
    pub(super) fn is_inside(&self, name: &str) -> bool {
        BUILTINS.contains(&name) || self.names.functions.contains(name)
    }

    /// Applies the table to the words of a command.
    pub(super) fn inspect(&mut self, words: &[Word]) {
        self.command_word(&words[0]);
        for word in &words[1..] {
            self.listed(word);
            self.splits(word);
        }
        if words[0].text().is_none_or(|name| !self.is_inside(name)) {
            for word in &words[1..] {
                self.goes_outside(word);
            }
        }
        let Some(name) = self.program(&words[0]) else { return };
        self.declared_names(&name, words);
        self.inspect_rows(&name, words);
        self.inspect_inner_shells(words);
        if CONTAINERS.contains(&name.as_str()) {
            self.inspect_contained(words);
        }
        self.runs_file(&name, words);
    }

    /// The command inside of a container, wherever it begins. As a word may only look like a program, rows that are
    /// about every word, and about the words of the shell itself, are left out.
    fn inspect_contained(&mut self, words: &[Word]) {
        for at in 1..words.len() {
            let Some(name) = self.program(&words[at]) else { continue };
            if DECLARES.contains(&name.as_str()) {
                continue;
            }
            let rows = EVALUATES_AGAIN.iter().filter(|row| {
                row.rule == Rule::Refuse && matches!(row.which, Which::Options(_) | Which::Operands { .. })
            });
            for row in rows.filter(|row| row.programs.contains(&name.as_str())) {
                self.apply(row, &name, &words[at..]);
            }
        }
    }

    /// The file that a command runs, or is made to be run.
    fn runs_file(&mut self, name: &str, words: &[Word]) {
        let interpreter = SHELLS.contains(&name) || place("program-text").programs.contains(&name);
        let operand =
            interpreter || matches!(name, "source" | ".") || name == "chmod" && makes_executable(words);
        let files: &[Word] = if operand { &words[1..] } else { &words[..1] };
        for file in files.iter().filter_map(Word::text) {
            self.runs.insert(plain_path(file).into());
        }
        // A value in a file of its own is no program either.
        let by_option = PROGRAM_FILES.contains(&name);
        for at in 1..words.len() {
            let file = interpreter && at == last_option(name, words)
                || by_option && gives(&words[at - 1], &["-f", "--file", "--from-file"]);
            if file {
                self.mark_files(&words[at]);
            }
        }
    }

    fn mark_files(&mut self, word: &Word) {
        for slot in word.slots.clone() {
            if self.slots[slot].reference.binding() == Some(Binding::AsFile) {
                self.mark(slot, place("script-file"));
            }
        }
    }

    /// Text with values goes into a file.
    pub(super) fn writes_file(&mut self, file: &Word, slots: Range<usize>, here_documents: Range<usize>) {
        if let Some(file) = file.text() {
            self.written.push((plain_path(file).into(), slots, here_documents));
        }
    }

    fn command_word(&mut self, word: &Word) {
        self.mark_word(word, place("command-word"));
    }

    /// The name of the program that a command word names, as well as it can be told: of `"$HOME/bin/python3"` and of
    /// `$SHELL` it can.
    fn program(&self, word: &Word) -> Option<String> {
        if let Some(text) = word.text() {
            return Some(base_name(text).to_owned());
        }
        let raw = self.text.get(word.range.clone())?;
        let (_, tail) = raw.rsplit_once('/').unwrap_or_default();
        let tail = tail.trim_matches(['"', '\'', '}']);
        if !tail.is_empty()
            && tail.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-+".contains(&byte))
        {
            return Some(tail.to_owned());
        }
        let variable = self.expansions.get(word.variables.clone())?.last()?;
        let name = self.text[variable.name.clone()].to_ascii_lowercase();
        let name = if name == "shell" { "sh".to_owned() } else { name };
        let known =
            SHELLS.contains(&name.as_str()) || place("program-text").programs.contains(&name.as_str());
        known.then_some(name)
    }

    /// The rows that name a program.
    pub(super) fn inspect_rows(&mut self, name: &str, words: &[Word]) {
        for row in EVALUATES_AGAIN.iter().filter(|row| row.programs.contains(&name)) {
            self.apply(row, name, words);
        }
    }

    /// A shell or an interpreter with its program text may stand behind any other program, such as a container's.
    fn inspect_inner_shells(&mut self, words: &[Word]) {
        let (shell, other) = (place("shell-text"), place("program-text"));
        for at in 1..words.len() {
            let Some(name) = self.program(&words[at]) else { continue };
            if SHELLS.contains(&name.as_str()) {
                self.options(shell, &words[at..]);
            } else if other.programs.contains(&name.as_str()) {
                self.options(other, &words[at..]);
            }
        }
    }

    fn apply(&mut self, row: &'static Place, name: &str, words: &[Word]) {
        match row.which {
            Which::Syntax => {
                if row.id == "numeric-test" {
                    self.numeric_test(row, words);
                } else if row.id == "printf-number" && self.dialect() == super::Dialect::Zsh {
                    self.printf_numbers(row, name, words);
                }
            }
            Which::Every if row.rule == Rule::Dash => self.dashes(row, name, words),
            Which::Every => words[1..].iter().for_each(|word| self.mark_word(word, row)),
            Which::Options(_) if DECLARES.contains(&name) => self.declared_with(row, words),
            Which::Options(_) => self.options(row, words),
            Which::Operands { from, only, unless, values } => {
                if words[1..].iter().any(|word| gives(word, unless)) {
                    return;
                }
                let mut operands = operands(&words[1..], |option| value_count(option, values));
                if name == "yq" {
                    let commands = ["e", "ea", "eval", "eval-all"];
                    operands.retain(|at| !words[at + 1].text().is_some_and(|text| commands.contains(&text)));
                }
                let meant = operands.into_iter().skip(from).take(if only { 1 } else { usize::MAX });
                meant.for_each(|at| self.mark_word(&words[at + 1], row));
            }
            Which::Names => self.names_of(row, name, words),
            Which::Input { .. } => {}
            Which::After(marks) => {
                for at in 1..words.len().saturating_sub(1) {
                    if words[at].text().is_some_and(|text| marks.contains(&text)) {
                        self.after(row, &words[at + 1..]);
                    }
                }
            }
            Which::CommandWord { operands: before, values } => {
                if name == "command" && words[1..].iter().any(|word| gives(word, &["-v", "-V"])) {
                    return;
                }
                let operands = operands(&words[1..], |option| usize::from(values.contains(&option)));
                let command = operands.into_iter().filter(|at| !is_assignment(&words[at + 1])).nth(before);
                self.inner_assignments(name, words);
                if let Some(at) = command {
                    self.mark_word(&words[at + 1], row);
                    self.inspect_inner(&words[at + 1..]);
                }
            }
        }
    }

    /// `env NAME=value`: the names count as in an assignment.
    fn inner_assignments(&mut self, name: &str, words: &[Word]) {
        if !matches!(name, "env" | "sudo" | "doas") {
            return;
        }
        for word in words[1..].iter().filter(|word| is_assignment(word)) {
            if is_code_variable(shell_name(&word.literal)) {
                self.mark_word(word, place("code-variable"));
            }
        }
    }

    fn after(&mut self, row: &'static Place, words: &[Word]) {
        if row.rule == Rule::Warn && row.id == "regex" && self.dialect() == super::Dialect::Bash {
            return;
        }
        self.mark_word(&words[0], row);
        if row.id == "find-command" {
            self.inspect_inner(words);
        }
    }

    /// A command inside of a command.
    fn inspect_inner(&mut self, words: &[Word]) {
        if let Some(name) = self.program(&words[0]) {
            self.inspect_rows(&name, words);
        }
    }

    /// zsh computes what a number is printed of.
    fn printf_numbers(&mut self, row: &'static Place, name: &str, words: &[Word]) {
        if name == "print" && !words[1..].iter().any(|word| gives(word, &["-f"])) {
            return;
        }
        let operands = operands(&words[1..], |option| usize::from(option == "-v"));
        let Some((format, values)) = operands.split_first() else { return };
        let text = words[format + 1].text();
        if text.is_some_and(only_texts) {
            return;
        }
        for at in values {
            self.mark_word(&words[at + 1], row);
        }
    }

    /// The arguments of options, up to the first operand where an interpreter has its file.
    fn options(&mut self, row: &'static Place, words: &[Word]) {
        let Which::Options(options) = row.which else { return };
        // Behind the file of an interpreter, and behind the command of git, options mean something else.
        let interpreter = matches!(row.id, "shell-text" | "program-text" | "git-option");
        let name = words[0].text().map(base_name).unwrap_or_default();
        let mut at = 1;
        while at < words.len() {
            let word = &words[at];
            if interpreter && (!word.literal.starts_with(['-', '+']) || word.text() == Some("-")) {
                return;
            }
            match option_value(word, options) {
                Value::Next => {
                    if let Some(next) = words.get(at + 1)
                        && !(row.id == "git-option" && is_plain_git_key(&next.literal))
                    {
                        self.mark_word(next, row);
                    }
                    at += 1;
                    if interpreter && row.id == "shell-text" {
                        return;
                    }
                }
                Value::Glued => self.mark_word(word, row),
                Value::None if interpreter && takes_interpreter_value(name, word) => at += 1,
                Value::None => {}
            }
            at += 1;
        }
    }

    /// `declare -i NAME=value`: the option is about every word behind it.
    fn declared_with(&mut self, row: &'static Place, words: &[Word]) {
        let Which::Options(options) = row.which else { return };
        let given = words[1..].iter().any(|word| !matches!(option_value(word, options), Value::None));
        if given {
            words[1..].iter().for_each(|word| self.mark_word(word, row));
        }
    }

    fn names_of(&mut self, row: &'static Place, name: &str, words: &[Word]) {
        for at in operands(&words[1..], |option| usize::from(takes_value(name, option))) {
            let word = &words[at + 1];
            if !word.literal.contains('=') {
                self.mark_word(word, row);
            } else if is_code_variable(shell_name(&word.literal)) {
                self.mark_word(word, place("code-variable"));
            }
        }
    }

    fn numeric_test(&mut self, row: &'static Place, words: &[Word]) {
        for at in 1..words.len().saturating_sub(1) {
            let operator = words[at].text().unwrap_or_default();
            if matches!(operator, "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge") {
                for word in [&words[at - 1], &words[at + 1]] {
                    self.mark_word(word, row);
                    let name = EcoString::from(word.literal.as_str());
                    self.computes_name(&name, row);
                }
            }
        }
    }

    fn dashes(&mut self, row: &'static Place, name: &str, words: &[Word]) {
        let values = VALUE_OPTIONS
            .iter()
            .find(|(program, _)| *program == name)
            .map_or(&[][..], |(_, options)| options);
        let last = last_option(name, words);
        for at in 1..words.len() {
            if words[at].is("--") || at > last {
                return;
            }
            let before = words[at - 1].text().unwrap_or_default();
            if let Some(slot) = words[at].begins
                && !(at > 1 && values.contains(&before))
            {
                self.mark(slot, row);
            }
        }
    }

    /// The row for a program that would read its text from standard input.
    pub(super) fn sink(&self, words: &[Word]) -> Option<&'static Place> {
        if pastes_input(words) {
            return Some(place("xargs-input"));
        }
        let at = self.program_at(words)?;
        let name = self.program(&words[at])?;
        if CONTAINERS.contains(&name.as_str()) {
            let inner = (at + 1..words.len()).find_map(|at| self.input_row(&words[at..]));
            return inner.or_else(|| self.input_row(&words[at..]));
        }
        self.input_row(&words[at..])
    }

    fn input_row(&self, words: &[Word]) -> Option<&'static Place> {
        let name = self.program(&words[0])?;
        let name = name.as_str();
        EVALUATES_AGAIN.iter().find(|row| {
            let Which::Input { operands: before, unless, values } = row.which else { return false };
            let words = &words[1..];
            row.programs.contains(&name)
                && !words.iter().any(|word| gives(word, unless))
                && (words.iter().any(|word| gives(word, &["-s"]) || word.is("-"))
                    || operands(words, |option| value_count(option, values)).len() <= before)
        })
    }

    /// Where the program stands behind those that only start another one.
    fn program_at(&self, words: &[Word]) -> Option<usize> {
        let mut at = 0;
        for _ in 0..4 {
            let name = self.program(words.get(at)?)?;
            let name = name.as_str();
            let wrapper = EVALUATES_AGAIN.iter().find_map(|row| match row.which {
                Which::CommandWord { operands, values } if row.programs.contains(&name) => {
                    Some((operands, values))
                }
                _ => None,
            });
            let Some((before, values)) = wrapper else { return Some(at) };
            let rest = &words[at + 1..];
            let inner = operands(rest, |option| usize::from(values.contains(&option)));
            let inner = inner.into_iter().filter(|inner| !is_assignment(&rest[*inner])).nth(before)?;
            at += 1 + inner;
        }
        Some(at)
    }

    // ---- names that commands set -----------------------------------------------------------------------

    fn declared_names(&mut self, name: &str, words: &[Word]) {
        match name {
            "source" | "." | "eval" | "emulate" => {
                let from = self.found.unknown_from.get_or_insert(words[0].range.start);
                *from = (*from).min(words[0].range.start);
            }
            "let" => words[1..]
                .iter()
                .for_each(|word| self.arithmetic_names(word.range.start, word.range.end, "let")),
            "printf" | "wait" => {
                let options: &[&str] = if name == "printf" { &["-v"] } else { &["-p"] };
                if let Some(at) = words.iter().position(|word| gives(word, options)) {
                    self.set_by(words.get(at + 1));
                }
            }
            "getopts" => self.set_by(words.get(2)),
            "zparseopts" | "vared" => words[1..].iter().for_each(|word| self.set_by(Some(word))),
            _ if DECLARES.contains(&name) => {
                let exported = name == "export" || words[1..].iter().any(|word| gives(word, &["-x"]));
                if exported && words[1..].iter().any(|word| gives(word, &["-f"])) {
                    self.exports = Some(words[0].range.clone());
                }
                let keyed = words[1..].iter().any(|word| gives(word, &["-A"]));
                for word in &words[1..] {
                    if keyed {
                        self.found.associative.insert(shell_name(&word.literal).into());
                    }
                    self.set_by(Some(word));
                    let name = shell_name(&word.literal).to_owned();
                    self.holds(&name, word);
                }
            }
            _ => {
                for name in read_names(words) {
                    self.sets(&name);
                }
            }
        }
    }

    fn set_by(&mut self, word: Option<&Word>) {
        if let Some(word) = word {
            let name = shell_name(&word.literal).to_owned();
            self.sets(&name);
        }
    }

    // ---- variables that hold values --------------------------------------------------------------------

    /// A variable gets a word that may hold values.
    pub(super) fn holds(&mut self, name: &str, word: &Word) {
        let direct: Vec<usize> =
            word.slots.clone().filter(|slot| self.slots[*slot].level == self.level).collect();
        for slot in direct {
            self.holds_slots(name, slot..slot + 1);
        }
        for at in word.variables.clone() {
            let from: EcoString = self.text[self.expansions[at].name.clone()].into();
            let held = self.found.holding.get(&from).or(self.names.holding.get(&from));
            if let Some(held) = held.cloned() {
                held.slots.iter().for_each(|slot| self.holds_slots(name, *slot..*slot + 1));
                if held.overflow {
                    self.found.holding.entry(name.into()).or_default().overflow = true;
                }
            }
        }
    }

    pub(super) fn holds_slots(&mut self, name: &str, slots: Range<usize>) {
        if slots.is_empty() || name.is_empty() {
            return;
        }
        let held = self.found.holding.entry(name.into()).or_default();
        for slot in slots {
            if held.slots.len() >= MAX_HELD {
                held.overflow = true;
                return;
            }
            if !held.slots.contains(&slot) {
                held.slots.push(slot);
            }
        }
    }

    /// A variable stands where its own value would be evaluated.
    pub(super) fn evaluates(&mut self, at: usize, id: &'static str) {
        let name: EcoString = self.text[self.expansions[at].name.clone()].into();
        if self.names.holding.contains_key(&name) {
            self.held(at, &name, place(id), Severity::Error);
        }
    }

    /// A variable stands where its value is computed with.
    pub(super) fn computes(&mut self, from: usize, id: &'static str) {
        for at in from..self.expansions.len() {
            let name: EcoString = self.text[self.expansions[at].name.clone()].into();
            self.computes_name(&name, place(id));
        }
    }

    pub(super) fn computes_name(&mut self, name: &EcoString, row: &'static Place) {
        if self.names.holding.contains_key(name) {
            self.computed.push((name.clone(), row));
        }
    }

    /// Applies a row to everything in a word.
    pub(super) fn mark_word(&mut self, word: &Word, row: &'static Place) {
        self.mark_all(word.slots.clone(), row);
        self.mark_variables(word, row);
    }

    fn mark_variables(&mut self, word: &Word, row: &'static Place) {
        for at in word.variables.clone() {
            let name: EcoString = self.text[self.expansions[at].name.clone()].into();
            match row.rule {
                Rule::Refuse if self.names.holding.contains_key(&name) => {
                    self.held(at, &name, row, Severity::Error);
                }
                Rule::Int => self.computes_name(&name, row),
                _ => {}
            }
        }
    }

    fn held(&mut self, at: usize, name: &str, row: &'static Place, severity: Severity) {
        let range = self.expansions[at].name.clone();
        let span = self.span(range.start, range.end);
        let id = if severity == Severity::Error { "shell-evaluates" } else { "shell-altered" };
        let message = format!("`{name}` holds a value, and a value here {}", row.what);
        self.report_at(Problem { id, severity, span, message, hint: Some(row.safe.to_owned()) });
    }

    /// Unquoted variables that hold values are split.
    pub(super) fn splits(&mut self, word: &Word) {
        if self.dialect() == super::Dialect::Zsh {
            return;
        }
        for at in word.variables.clone() {
            let expansion = &self.expansions[at];
            // A length is a number.
            let length = self.text[..expansion.name.start].ends_with("{#");
            if expansion.quoted || length || expansion.level != self.level {
                continue;
            }
            let name: EcoString = self.text[expansion.name.clone()].into();
            if self.names.holding.contains_key(&name) {
                self.held(at, &name, place("unquoted-variable"), Severity::Warning);
            }
        }
    }

    // ---- words -----------------------------------------------------------------------------------------

    /// A word in a list of words: several may stand in its place.
    pub(super) fn listed(&mut self, word: &Word) {
        if let Some(slot) = word.begins
            && self.slots[slot].quote == Quote::Plain
            && word.slots.len() == 1
            && word.range.len() == self.slots[slot].reference.span().range().len()
        {
            self.slots[slot].is_word = true;
        }
    }

    /// The values of a word go to another program.
    pub(super) fn goes_outside(&mut self, word: &Word) {
        for slot in word.slots.clone() {
            if self.slots[slot].level == self.level {
                self.slots[slot].external = true;
            }
        }
    }

    pub(super) fn later(&mut self, slots: Range<usize>, here_documents: Range<usize>, place: &'static Place) {
        self.marks.push(Mark { slots, here_documents, place });
    }
}

/// The last word that a program can read as an option: behind its file, or the text behind `-c`, an interpreter
/// leaves the words to what it runs.
fn last_option(name: &str, words: &[Word]) -> usize {
    let (shell, python) = (SHELLS.contains(&name), name.starts_with("python"));
    if name == "printf" {
        // Only the format can be an option; what it prints cannot.
        let operands = operands(&words[1..], |option| usize::from(option == "-v"));
        return operands.first().map_or(usize::MAX, |at| at + 1);
    }
    if !shell && !place("program-text").programs.contains(&name) {
        return usize::MAX;
    }
    for at in 1..words.len() {
        let word = &words[at];
        let valued = at > 1 && takes_interpreter_value(name, &words[at - 1]);
        if shell && gives(word, &["-c"]) || python && gives(word, &["-c", "-m"]) {
            return at;
        }
        let text = gives(&words[at - 1], &["-e", "-E", "-p", "-r", "-c", "--eval", "--print"]) && at > 1;
        if !valued && !text && !word.literal.starts_with(['-', '+']) {
            return at;
        }
    }
    usize::MAX
}

/// `xargs -I{} sh -c '... {} ...'` puts what it reads into the text.
fn pastes_input(words: &[Word]) -> bool {
    let Some(at) = words.iter().position(|word| word.text().map(base_name) == Some("xargs")) else {
        return false;
    };
    let inner = &words[at + 1..];
    let shell =
        inner.iter().position(|word| word.text().is_some_and(|text| SHELLS.contains(&base_name(text))));
    inner.iter().any(|word| gives(word, &["-I", "-i", "--replace"]))
        && shell.is_some_and(|at| inner[at..].iter().any(|word| gives(word, &["-c"])))
}

/// The variables that `read` or `mapfile` sets.
pub(super) fn read_names(words: &[Word]) -> Vec<EcoString> {
    let name = words.first().and_then(Word::text).unwrap_or_default();
    if !matches!(name, "read" | "mapfile" | "readarray") {
        return Vec::new();
    }
    let operands = operands(&words[1..], |option| usize::from(takes_value(name, option)));
    operands.into_iter().map(|at| shell_name(&words[at + 1].literal).into()).collect()
}

/// How many references one variable is known to hold.
const MAX_HELD: usize = 64;

/// Whether a format prints nothing but texts.
fn only_texts(format: &str) -> bool {
    let conversions = format.split('%').skip(1).filter(|conversion| !conversion.is_empty());
    let plain = |char: char| char.is_ascii_digit() || "-.+ #".contains(char);
    !format.contains('*')
        && conversions.into_iter().all(|text| text.trim_start_matches(plain).starts_with(['s', 'b', 'q']))
}

/// Whether `chmod` makes a file one that can be run.
fn makes_executable(words: &[Word]) -> bool {
    let odd = |byte: u8| byte.is_ascii_digit() && byte % 2 == 1;
    words[1..].iter().any(|word| {
        let digits = word.literal.bytes().all(|byte| byte.is_ascii_digit());
        word.literal.contains("+x")
            || word.literal.contains("=rwx")
            || digits && word.literal.bytes().any(odd)
    })
}

/// A path without the `./` before it.
fn plain_path(path: &str) -> &str {
    path.trim_start_matches("./")
}

/// The last part of a path.
fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

fn is_assignment(word: &Word) -> bool {
    let name = shell_name(&word.literal);
    !name.is_empty() && word.literal[name.len()..].starts_with('=')
}

/// Whether a setting of git's begins with a key that names no program.
fn is_plain_git_key(setting: &str) -> bool {
    let plain =
        ["advice.", "author.", "color.", "committer.", "http.extraheader", "init.", "push.", "tag.", "user."];
    let (key, value) = setting.split_once('=').map_or(("", false), |(key, _)| (key, true));
    value && plain.iter().any(|plain| key.to_ascii_lowercase().starts_with(plain))
}

/// Where the argument of an option stands.
enum Value {
    None,
    Next,
    Glued,
}

/// Whether a word is one of these options, alone, in a cluster or with its argument glued on.
fn option_value(word: &Word, options: &[&str]) -> Value {
    let literal = word.literal.as_str();
    if !literal.starts_with(['-', '+']) {
        return Value::None;
    }
    for option in options {
        if word.fixed && literal == *option {
            return Value::Next;
        }
        let long = option.starts_with("--") || option.len() > 2;
        if long {
            if literal.strip_prefix(option).is_some_and(|rest| rest.starts_with('=')) {
                return Value::Glued;
            }
            continue;
        }
        let cluster = literal.strip_prefix('-').filter(|rest| !rest.starts_with('-')).unwrap_or_default();
        if cluster.contains(&option[1..]) {
            return if word.fixed && cluster.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                Value::Next
            } else {
                Value::Glued
            };
        }
    }
    Value::None
}

/// Whether a word gives one of these options.
fn gives(word: &Word, options: &[&str]) -> bool {
    !matches!(option_value(word, options), Value::None)
}

fn value_count(option: &str, values: &[(&str, usize)]) -> usize {
    values.iter().find(|(name, _)| *name == option).map_or(0, |(_, count)| *count)
}

/// Whether the next word belongs to an option of a command that sets variables: the last letter of a cluster says so.
fn takes_value(name: &str, option: &str) -> bool {
    let letters = NAME_VALUES.iter().find(|(command, _)| *command == name).map_or("", |(_, letters)| letters);
    option.chars().last().is_some_and(|letter| letters.contains(letter))
}

/// Whether the next word belongs to an option of an interpreter, such as `-o` in `bash -euo pipefail`.
fn takes_interpreter_value(name: &str, word: &Word) -> bool {
    let option = word.text().unwrap_or_default();
    let cluster = SHELLS.contains(&name) && option.starts_with(['-', '+']) && option.ends_with(['o', 'O']);
    INTERPRETER_VALUES.contains(&option) || cluster && !option.starts_with("--")
}

/// The positions of the words that are neither options nor their values.
fn operands(words: &[Word], values: impl Fn(&str) -> usize) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = 0;
    let mut options = true;
    while at < words.len() {
        let word = &words[at];
        if options && word.is("--") {
            options = false;
        } else if options && word.literal.starts_with('-') && word.literal.len() > 1 {
            at += word.text().map_or(0, &values);
        } else {
            found.push(at);
        }
        at += 1;
    }
    found
}
