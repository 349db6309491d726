//! Applies the table of hazards to the words of a command.

use std::ops::Range;

use ecow::EcoString;
use threadline_lang::Binding;
use threadline_lang::diag::Severity;

use super::ShellProblem;
use super::hazards::{
    self, ArgSelector, CONTAINERS, HAZARDS, Hazard, HazardRule, SHELLS, VALUE_OPTIONS, is_code_variable,
};
use super::names::shell_name;
use super::reader::{DeferredHazard, Quote, ScriptReader, WrittenFile};
use super::words::Word;

/// Commands that the shell runs itself. The size of their arguments is not limited.
#[rustfmt::skip]
const BUILTINS: &[&str] = &[
    ":", ".", "[", "alias", "bg", "break", "builtin", "caller", "cd", "command", "continue", "declare",
    "dirs", "echo", "eval", "exit", "export", "false", "fc", "fg", "getopts", "hash", "jobs", "let",
    "local", "mapfile", "popd", "print", "printf", "pushd", "pwd", "read", "readarray", "readonly",
    "return", "set", "shift", "shopt", "source", "test", "times", "trap", "true", "type", "typeset",
    "ulimit", "umask", "unalias", "unset", "wait",
];

/// Commands whose arguments declare variables.
const DECLARES: &[&str] = &["export", "local", "declare", "typeset", "readonly", "integer", "float"];

/// Letters of the options of `read`, `mapfile` and similar commands that take a value.
const NAME_VALUES: &[(&str, &str)] =
    &[("read", "ptdnNuik"), ("mapfile", "dnOsuCc"), ("readarray", "dnOsuCc"), ("vared", "p")];

/// Programs that read their program text from the file after `-f`.
#[rustfmt::skip]
const PROGRAM_FILES: &[&str] = &[
    "awk", "gawk", "mawk", "nawk", "sed", "gsed", "jq", "yq", "psql", "mysql", "bc", "gnuplot", "perl",
    "php",
];

/// Options of interpreters that take a value, so that the next word is not the file to run.
#[rustfmt::skip]
const INTERPRETER_VALUES: &[&str] = &[
    "-W", "-X", "-I", "-r", "-M", "-L", "-d", "-o", "-O", "+O", "-C", "--require", "--import", "--rcfile",
    "--init-file",
];

impl ScriptReader<'_> {
    /// Whether a command is run by the shell itself: a builtin or a function.
    pub(super) fn is_builtin(&self, name: &str) -> bool {
        BUILTINS.contains(&name) || self.names.functions.contains(name)
    }

    /// Applies every hazard to the words of a command.
    pub(super) fn inspect_command(&mut self, words: &[Word]) {
        self.mark_word(&words[0], &hazards::COMMAND_WORD);
        for word in &words[1..] {
            self.allow_several_words(word);
            self.warn_if_unquoted(word);
        }
        if words[0].text().is_none_or(|name| !self.is_builtin(name)) {
            for word in &words[1..] {
                self.mark_external(word);
            }
        }
        let Some(name) = self.program_name(&words[0]) else { return };
        self.note_declared_names(&name, words);
        self.inspect_program(&name, words);
        self.inspect_inner_shells(words);
        if CONTAINERS.contains(&name.as_str()) {
            self.inspect_contained(words);
        }
        self.note_run_files(&name, words);
    }

    /// Inspects the command inside a container, wherever it begins. A word may only look like a program, so
    /// hazards that affect every argument, and those of the shell itself, are not applied.
    fn inspect_contained(&mut self, words: &[Word]) {
        for at in 1..words.len() {
            let Some(name) = self.program_name(&words[at]) else { continue };
            if DECLARES.contains(&name.as_str()) {
                continue;
            }
            let refused = HAZARDS.iter().filter(|hazard| {
                hazard.rule == HazardRule::Refuse
                    && matches!(hazard.selector, ArgSelector::Options(_) | ArgSelector::Operands { .. })
            });
            for hazard in refused.filter(|hazard| hazard.programs.contains(&name.as_str())) {
                self.apply_hazard(hazard, &name, &words[at..]);
            }
        }
    }

    /// Notes the files that a command runs or makes executable.
    fn note_run_files(&mut self, name: &str, words: &[Word]) {
        let interpreter = SHELLS.contains(&name) || hazards::PROGRAM_TEXT.programs.contains(&name);
        let operand =
            interpreter || matches!(name, "source" | ".") || name == "chmod" && makes_executable(words);
        let files: &[Word] = if operand { &words[1..] } else { &words[..1] };
        for file in files.iter().filter_map(Word::text) {
            self.runs.insert(plain_path(file).into());
        }
        // A value that is passed as a file is no program either.
        let by_option = PROGRAM_FILES.contains(&name);
        for at in 1..words.len() {
            let file = interpreter && at == last_option(name, words)
                || by_option && has_option(&words[at - 1], &["-f", "--file", "--from-file"]);
            if file {
                self.mark_program_files(&words[at]);
            }
        }
    }

    fn mark_program_files(&mut self, word: &Word) {
        for slot in word.slots.clone() {
            if self.slots[slot].reference.binding() == Some(Binding::AsFile) {
                self.mark(slot, &hazards::SCRIPT_FILE);
            }
        }
    }

    /// Notes that text with values is written to a file.
    pub(super) fn note_written_file(
        &mut self,
        file: &Word,
        slots: Range<usize>,
        here_documents: Range<usize>,
    ) {
        if let Some(file) = file.text() {
            self.written.push(WrittenFile { path: plain_path(file).into(), slots, here_documents });
        }
    }

    /// The name of the program that a word names, if it can be determined, as from `"$HOME/bin/python3"` or
    /// `$SHELL`.
    fn program_name(&self, word: &Word) -> Option<String> {
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
            SHELLS.contains(&name.as_str()) || hazards::PROGRAM_TEXT.programs.contains(&name.as_str());
        known.then_some(name)
    }

    /// Applies the hazards of a program.
    pub(super) fn inspect_program(&mut self, name: &str, words: &[Word]) {
        for hazard in HAZARDS.iter().filter(|hazard| hazard.programs.contains(&name)) {
            self.apply_hazard(hazard, name, words);
        }
    }

    /// Inspects shells and interpreters with program text that follow any other program, such as a container.
    fn inspect_inner_shells(&mut self, words: &[Word]) {
        let (shell, other) = (&hazards::SHELL_TEXT, &hazards::PROGRAM_TEXT);
        for at in 1..words.len() {
            let Some(name) = self.program_name(&words[at]) else { continue };
            if SHELLS.contains(&name.as_str()) {
                self.apply_to_options(shell, &words[at..]);
            } else if other.programs.contains(&name.as_str()) {
                self.apply_to_options(other, &words[at..]);
            }
        }
    }

    fn apply_hazard(&mut self, hazard: &'static Hazard, name: &str, words: &[Word]) {
        match hazard.selector {
            ArgSelector::Syntax => {
                if hazard.is(&hazards::NUMERIC_TEST) {
                    self.apply_to_numeric_tests(hazard, words);
                } else if hazard.is(&hazards::PRINTF_NUMBER) && self.dialect() == super::Dialect::Zsh {
                    self.apply_to_printf(hazard, name, words);
                }
            }
            ArgSelector::Every if hazard.rule == HazardRule::Dash => {
                self.apply_to_dashes(hazard, name, words);
            }
            ArgSelector::Every => words[1..].iter().for_each(|word| self.mark_word(word, hazard)),
            ArgSelector::Options(_) if DECLARES.contains(&name) => self.apply_to_declarations(hazard, words),
            ArgSelector::Options(_) => self.apply_to_options(hazard, words),
            ArgSelector::Operands { from, only, unless, values } => {
                if words[1..].iter().any(|word| has_option(word, unless)) {
                    return;
                }
                let mut operands = operands(&words[1..], |option| value_count(option, values));
                if name == "yq" {
                    let commands = ["e", "ea", "eval", "eval-all"];
                    operands.retain(|at| !words[at + 1].text().is_some_and(|text| commands.contains(&text)));
                }
                let meant = operands.into_iter().skip(from).take(if only { 1 } else { usize::MAX });
                meant.for_each(|at| self.mark_word(&words[at + 1], hazard));
            }
            ArgSelector::Names => self.apply_to_names(hazard, name, words),
            ArgSelector::Input { .. } => {}
            ArgSelector::After(marks) => {
                for at in 1..words.len().saturating_sub(1) {
                    if words[at].text().is_some_and(|text| marks.contains(&text)) {
                        self.apply_after(hazard, &words[at + 1..]);
                    }
                }
            }
            ArgSelector::CommandWord { operands: before, values } => {
                if name == "command" && words[1..].iter().any(|word| has_option(word, &["-v", "-V"])) {
                    return;
                }
                let operands = operands(&words[1..], |option| usize::from(values.contains(&option)));
                let command = operands.into_iter().filter(|at| !is_assignment(&words[at + 1])).nth(before);
                self.inspect_inner_assignments(name, words);
                if let Some(at) = command {
                    self.mark_word(&words[at + 1], hazard);
                    self.inspect_inner(&words[at + 1..]);
                }
            }
        }
    }

    /// Inspects `env NAME=value`, in which the names count as in an assignment.
    fn inspect_inner_assignments(&mut self, name: &str, words: &[Word]) {
        if !matches!(name, "env" | "sudo" | "doas") {
            return;
        }
        for word in words[1..].iter().filter(|word| is_assignment(word)) {
            if is_code_variable(shell_name(&word.literal)) {
                self.mark_word(word, &hazards::CODE_VARIABLE);
            }
        }
    }

    fn apply_after(&mut self, hazard: &'static Hazard, words: &[Word]) {
        if hazard.rule == HazardRule::Warn
            && hazard.is(&hazards::REGEX)
            && self.dialect() == super::Dialect::Bash
        {
            return;
        }
        self.mark_word(&words[0], hazard);
        if hazard.is(&hazards::FIND_COMMAND) {
            self.inspect_inner(words);
        }
    }

    /// Inspects the command that another one runs.
    fn inspect_inner(&mut self, words: &[Word]) {
        if let Some(name) = self.program_name(&words[0]) {
            self.inspect_program(&name, words);
        }
    }

    /// Applies a hazard to values that zsh prints as numbers, which it evaluates first.
    fn apply_to_printf(&mut self, hazard: &'static Hazard, name: &str, words: &[Word]) {
        if name == "print" && !words[1..].iter().any(|word| has_option(word, &["-f"])) {
            return;
        }
        let operands = operands(&words[1..], |option| usize::from(option == "-v"));
        let Some((format, values)) = operands.split_first() else { return };
        let text = words[format + 1].text();
        if text.is_some_and(only_texts) {
            return;
        }
        for at in values {
            self.mark_word(&words[at + 1], hazard);
        }
    }

    /// Applies a hazard to the arguments of options; for an interpreter, up to its file.
    fn apply_to_options(&mut self, hazard: &'static Hazard, words: &[Word]) {
        let ArgSelector::Options(options) = hazard.selector else { return };
        // After the file of an interpreter, and after the command of git, options have another meaning.
        let interpreter = [&hazards::SHELL_TEXT, &hazards::PROGRAM_TEXT, &hazards::GIT_OPTION]
            .iter()
            .any(|named| hazard.is(named));
        let name = words[0].text().map(base_name).unwrap_or_default();
        let mut at = 1;
        while at < words.len() {
            let word = &words[at];
            if interpreter && (!word.literal.starts_with(['-', '+']) || word.text() == Some("-")) {
                return;
            }
            match option_value(word, options) {
                OptionArgument::NextWord => {
                    if let Some(next) = words.get(at + 1)
                        && !(hazard.is(&hazards::GIT_OPTION) && is_plain_git_key(&next.literal))
                    {
                        self.mark_word(next, hazard);
                    }
                    at += 1;
                    if interpreter && hazard.is(&hazards::SHELL_TEXT) {
                        return;
                    }
                }
                OptionArgument::Attached => self.mark_word(word, hazard),
                OptionArgument::Absent if interpreter && takes_interpreter_value(name, word) => at += 1,
                OptionArgument::Absent => {}
            }
            at += 1;
        }
    }

    /// Applies a hazard to every word after an option, as in `declare -i NAME=value`.
    fn apply_to_declarations(&mut self, hazard: &'static Hazard, words: &[Word]) {
        let ArgSelector::Options(options) = hazard.selector else { return };
        let given =
            words[1..].iter().any(|word| !matches!(option_value(word, options), OptionArgument::Absent));
        if given {
            words[1..].iter().for_each(|word| self.mark_word(word, hazard));
        }
    }

    fn apply_to_names(&mut self, hazard: &'static Hazard, name: &str, words: &[Word]) {
        for at in operands(&words[1..], |option| usize::from(takes_value(name, option))) {
            let word = &words[at + 1];
            if !word.literal.contains('=') {
                self.mark_word(word, hazard);
            } else if is_code_variable(shell_name(&word.literal)) {
                self.mark_word(word, &hazards::CODE_VARIABLE);
            }
        }
    }

    fn apply_to_numeric_tests(&mut self, hazard: &'static Hazard, words: &[Word]) {
        for at in 1..words.len().saturating_sub(1) {
            let operator = words[at].text().unwrap_or_default();
            if matches!(operator, "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge") {
                for word in [&words[at - 1], &words[at + 1]] {
                    self.mark_word(word, hazard);
                    let name = EcoString::from(word.literal.as_str());
                    self.note_computed(&name, hazard);
                }
            }
        }
    }

    fn apply_to_dashes(&mut self, hazard: &'static Hazard, name: &str, words: &[Word]) {
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
                self.mark(slot, hazard);
            }
        }
    }

    /// The hazard of a command that runs what it reads from standard input.
    pub(super) fn find_input_sink(&self, words: &[Word]) -> Option<&'static Hazard> {
        if pastes_input(words) {
            return Some(&hazards::XARGS_INPUT);
        }
        let at = self.find_program(words)?;
        let name = self.program_name(&words[at])?;
        if CONTAINERS.contains(&name.as_str()) {
            let inner = (at + 1..words.len()).find_map(|at| self.find_input_hazard(&words[at..]));
            return inner.or_else(|| self.find_input_hazard(&words[at..]));
        }
        self.find_input_hazard(&words[at..])
    }

    fn find_input_hazard(&self, words: &[Word]) -> Option<&'static Hazard> {
        let name = self.program_name(&words[0])?;
        let name = name.as_str();
        HAZARDS.iter().copied().find(|hazard| {
            let ArgSelector::Input { operands: before, unless, values } = hazard.selector else {
                return false;
            };
            let words = &words[1..];
            hazard.programs.contains(&name)
                && !words.iter().any(|word| has_option(word, unless))
                && (words.iter().any(|word| has_option(word, &["-s"]) || word.is("-"))
                    || operands(words, |option| value_count(option, values)).len() <= before)
        })
    }

    /// The index of the program after wrappers that only start another one.
    fn find_program(&self, words: &[Word]) -> Option<usize> {
        let mut at = 0;
        for _ in 0..4 {
            let name = self.program_name(words.get(at)?)?;
            let name = name.as_str();
            let wrapper = HAZARDS.iter().find_map(|hazard| match hazard.selector {
                ArgSelector::CommandWord { operands, values } if hazard.programs.contains(&name) => {
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

    fn note_declared_names(&mut self, name: &str, words: &[Word]) {
        match name {
            "source" | "." | "eval" | "emulate" => {
                let from = self.found.unknown_from.get_or_insert(words[0].range.start);
                *from = (*from).min(words[0].range.start);
            }
            "let" => words[1..]
                .iter()
                .for_each(|word| self.note_arithmetic_names(word.range.start, word.range.end, &hazards::LET)),
            "printf" | "wait" => {
                let options: &[&str] = if name == "printf" { &["-v"] } else { &["-p"] };
                if let Some(at) = words.iter().position(|word| has_option(word, options)) {
                    self.note_set_by_word(words.get(at + 1));
                }
            }
            "getopts" => self.note_set_by_word(words.get(2)),
            "zparseopts" | "vared" => words[1..].iter().for_each(|word| self.note_set_by_word(Some(word))),
            _ if DECLARES.contains(&name) => {
                let exported = name == "export" || words[1..].iter().any(|word| has_option(word, &["-x"]));
                if exported && words[1..].iter().any(|word| has_option(word, &["-f"])) {
                    self.exports = Some(words[0].range.clone());
                }
                let keyed = words[1..].iter().any(|word| has_option(word, &["-A"]));
                for word in &words[1..] {
                    if keyed {
                        self.found.associative.insert(shell_name(&word.literal).into());
                    }
                    self.note_set_by_word(Some(word));
                    let name = shell_name(&word.literal).to_owned();
                    self.note_held(&name, word);
                }
            }
            _ => {
                for name in read_names(words) {
                    self.note_set(&name);
                }
            }
        }
    }

    fn note_set_by_word(&mut self, word: Option<&Word>) {
        if let Some(word) = word {
            let name = shell_name(&word.literal).to_owned();
            self.note_set(&name);
        }
    }

    // ---- variables that hold values --------------------------------------------------------------------

    /// Notes that a variable holds the values in a word.
    pub(super) fn note_held(&mut self, name: &str, word: &Word) {
        let direct: Vec<usize> =
            word.slots.clone().filter(|slot| self.slots[*slot].level == self.level).collect();
        for slot in direct {
            self.note_held_slots(name, slot..slot + 1);
        }
        for at in word.variables.clone() {
            let from: EcoString = self.text[self.expansions[at].name.clone()].into();
            let held = self.found.holding.get(&from).or(self.names.holding.get(&from));
            if let Some(held) = held.cloned() {
                held.slots.iter().for_each(|slot| self.note_held_slots(name, *slot..*slot + 1));
                if held.overflow {
                    self.found.holding.entry(name.into()).or_default().overflow = true;
                }
            }
        }
    }

    pub(super) fn note_held_slots(&mut self, name: &str, slots: Range<usize>) {
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

    /// Reports a variable whose value would be evaluated, if it holds a value of the workflow.
    pub(super) fn mark_evaluated(&mut self, at: usize, hazard: &'static Hazard) {
        let name: EcoString = self.text[self.expansions[at].name.clone()].into();
        if self.names.holding.contains_key(&name) {
            self.report_held(at, &name, hazard, Severity::Error);
        }
    }

    /// Notes the variables since an index as evaluated.
    pub(super) fn note_computed_since(&mut self, from: usize, hazard: &'static Hazard) {
        for at in from..self.expansions.len() {
            let name: EcoString = self.text[self.expansions[at].name.clone()].into();
            self.note_computed(&name, hazard);
        }
    }

    pub(super) fn note_computed(&mut self, name: &EcoString, hazard: &'static Hazard) {
        if self.names.holding.contains_key(name) {
            self.computed.push((name.clone(), hazard));
        }
    }

    /// Applies a hazard to everything in a word.
    pub(super) fn mark_word(&mut self, word: &Word, hazard: &'static Hazard) {
        self.mark_all(word.slots.clone(), hazard);
        self.mark_variables(word, hazard);
    }

    fn mark_variables(&mut self, word: &Word, hazard: &'static Hazard) {
        for at in word.variables.clone() {
            let name: EcoString = self.text[self.expansions[at].name.clone()].into();
            match hazard.rule {
                HazardRule::Refuse if self.names.holding.contains_key(&name) => {
                    self.report_held(at, &name, hazard, Severity::Error);
                }
                HazardRule::Int => self.note_computed(&name, hazard),
                _ => {}
            }
        }
    }

    fn report_held(&mut self, at: usize, name: &str, hazard: &'static Hazard, severity: Severity) {
        let range = self.expansions[at].name.clone();
        let span = self.span(range.start, range.end);
        let id = if severity == Severity::Error { "shell-evaluates" } else { "shell-altered" };
        let message = format!("`{name}` holds a value of the workflow, and a value here {}", hazard.effect);
        self.push_problem(ShellProblem { id, severity, span, message, hint: Some(hazard.fix.to_owned()) });
    }

    /// Warns of unquoted variables that hold values, because the shell splits them.
    pub(super) fn warn_if_unquoted(&mut self, word: &Word) {
        if self.dialect() == super::Dialect::Zsh {
            return;
        }
        for at in word.variables.clone() {
            let expansion = &self.expansions[at];
            // `${#NAME}` is a number.
            let length = self.text[..expansion.name.start].ends_with("{#");
            if expansion.quoted || length || expansion.level != self.level {
                continue;
            }
            let name: EcoString = self.text[expansion.name.clone()].into();
            if self.names.holding.contains_key(&name) {
                self.report_held(at, &name, &hazards::UNQUOTED_VARIABLE, Severity::Warning);
            }
        }
    }

    // ---- words -----------------------------------------------------------------------------------------

    /// Allows a reference that is a whole word in a list of words to expand to several.
    pub(super) fn allow_several_words(&mut self, word: &Word) {
        if let Some(slot) = word.begins
            && self.slots[slot].quote == Quote::Plain
            && word.slots.len() == 1
            && word.range.len() == self.slots[slot].reference.span().range().len()
        {
            self.slots[slot].is_word = true;
        }
    }

    /// Notes that the values of a word are passed to another program.
    pub(super) fn mark_external(&mut self, word: &Word) {
        for slot in word.slots.clone() {
            if self.slots[slot].level == self.level {
                self.slots[slot].external = true;
            }
        }
    }

    pub(super) fn defer_hazard(
        &mut self,
        slots: Range<usize>,
        here_documents: Range<usize>,
        hazard: &'static Hazard,
    ) {
        self.marks.push(DeferredHazard { slots, here_documents, hazard });
    }
}

/// The last word that a program can read as an option. After its file, or the text after `-c`, an interpreter
/// passes the words to what it runs.
fn last_option(name: &str, words: &[Word]) -> usize {
    let (shell, python) = (SHELLS.contains(&name), name.starts_with("python"));
    if name == "printf" {
        // Only the format can be an option; what it prints cannot.
        let operands = operands(&words[1..], |option| usize::from(option == "-v"));
        return operands.first().map_or(usize::MAX, |at| at + 1);
    }
    if !shell && !hazards::PROGRAM_TEXT.programs.contains(&name) {
        return usize::MAX;
    }
    for at in 1..words.len() {
        let word = &words[at];
        let valued = at > 1 && takes_interpreter_value(name, &words[at - 1]);
        if shell && has_option(word, &["-c"]) || python && has_option(word, &["-c", "-m"]) {
            return at;
        }
        let text = has_option(&words[at - 1], &["-e", "-E", "-p", "-r", "-c", "--eval", "--print"]) && at > 1;
        if !valued && !text && !word.literal.starts_with(['-', '+']) {
            return at;
        }
    }
    usize::MAX
}

/// Whether `xargs -I{} sh -c '... {} ...'` pastes its input into shell text.
fn pastes_input(words: &[Word]) -> bool {
    let Some(at) = words.iter().position(|word| word.text().map(base_name) == Some("xargs")) else {
        return false;
    };
    let inner = &words[at + 1..];
    let shell =
        inner.iter().position(|word| word.text().is_some_and(|text| SHELLS.contains(&base_name(text))));
    inner.iter().any(|word| has_option(word, &["-I", "-i", "--replace"]))
        && shell.is_some_and(|at| inner[at..].iter().any(|word| has_option(word, &["-c"])))
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

/// Maximum number of references that are tracked per variable.
const MAX_HELD: usize = 64;

/// Whether a format prints nothing but texts.
fn only_texts(format: &str) -> bool {
    let conversions = format.split('%').skip(1).filter(|conversion| !conversion.is_empty());
    let plain = |char: char| char.is_ascii_digit() || "-.+ #".contains(char);
    !format.contains('*')
        && conversions.into_iter().all(|text| text.trim_start_matches(plain).starts_with(['s', 'b', 'q']))
}

/// Whether `chmod` makes a file executable.
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

/// Whether a setting of git starts with a key that cannot name a program.
fn is_plain_git_key(setting: &str) -> bool {
    let plain =
        ["advice.", "author.", "color.", "committer.", "http.extraheader", "init.", "push.", "tag.", "user."];
    let (key, value) = setting.split_once('=').map_or(("", false), |(key, _)| (key, true));
    value && plain.iter().any(|plain| key.to_ascii_lowercase().starts_with(plain))
}

/// Where the argument of an option is.
enum OptionArgument {
    Absent,
    NextWord,
    Attached,
}

/// Finds one of these options in a word: alone, in a cluster, or with its argument attached.
fn option_value(word: &Word, options: &[&str]) -> OptionArgument {
    let literal = word.literal.as_str();
    if !literal.starts_with(['-', '+']) {
        return OptionArgument::Absent;
    }
    for option in options {
        if word.fixed && literal == *option {
            return OptionArgument::NextWord;
        }
        let long = option.starts_with("--") || option.len() > 2;
        if long {
            if literal.strip_prefix(option).is_some_and(|rest| rest.starts_with('=')) {
                return OptionArgument::Attached;
            }
            continue;
        }
        let cluster = literal.strip_prefix('-').filter(|rest| !rest.starts_with('-')).unwrap_or_default();
        if cluster.contains(&option[1..]) {
            return if word.fixed && cluster.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                OptionArgument::NextWord
            } else {
                OptionArgument::Attached
            };
        }
    }
    OptionArgument::Absent
}

/// Whether a word has one of these options.
fn has_option(word: &Word, options: &[&str]) -> bool {
    !matches!(option_value(word, options), OptionArgument::Absent)
}

fn value_count(option: &str, values: &[(&str, usize)]) -> usize {
    values.iter().find(|(name, _)| *name == option).map_or(0, |(_, count)| *count)
}

/// Whether an option of a command that sets variables takes the next word; the last letter of a cluster
/// decides.
fn takes_value(name: &str, option: &str) -> bool {
    let letters = NAME_VALUES.iter().find(|(command, _)| *command == name).map_or("", |(_, letters)| letters);
    option.chars().last().is_some_and(|letter| letters.contains(letter))
}

/// Whether an option of an interpreter takes the next word, as `-o` in `bash -euo pipefail`.
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
