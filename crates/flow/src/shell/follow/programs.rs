//! What commands do with values: wrappers that run another command, commands that set variables, and what a
//! command prints.

use ecow::EcoString;

use super::super::hazards::{self, CODE_VARIABLE, COMMAND_WORD, SCRIPT_FILE, SHELLS, is_code_variable};
use super::super::names::{DECLARES, shell_name};
use super::super::options::{
    HasWord, any_option, base_name, has_option, is_assignment, operands, takes_value, unversioned,
};
use super::super::tree::{Word, WordPart};
use super::super::wrappers::{InnerCommand, find_inner_command, find_replaced_text};
use super::fact::{Fact, Literals, Passage};
use super::words::{FollowedWord, is_opaque, opaque_path};
use super::{FactKey, OutputFacts, ValueFollower};

/// Maximum number of commands that run each other in one command.
const MAX_INNER_COMMANDS: usize = 12;

/// Commands that print nothing of their arguments.
#[rustfmt::skip]
const SILENT: &[&str] = &[
    ":", "true", "false", "[", "test", "cd", "pushd", "popd", "mkdir", "rmdir", "rm", "touch", "chmod", "chown", "sleep",
    "exit", "return", "break", "continue", "shift", "set", "unset", "export", "readonly", "local", "declare",
    "typeset", "wait", "kill", "trap", "umask", "ulimit", "shopt", "setopt", "read", "mapfile", "readarray", "let",
    "cp", "mv", "ln", "install", "exec", "source", ".", "eval",
];

/// Commands that print only numbers, whatever they read.
const NUMERIC: &[&str] = &["nproc", "seq", "date"];

/// The programs that a word can name.
#[derive(Default)]
struct ProgramNames {
    known: Vec<EcoString>,
    /// Whether it can also name another one.
    unknown: bool,
}

impl ValueFollower<'_> {
    /// Runs a command: reports what its words do, and finds what it writes.
    pub(super) fn run(&mut self, words: &[FollowedWord<'_>], input: &Fact, depth: usize) -> OutputFacts {
        let Some(first) = words.first() else { return OutputFacts::default() };
        self.apply_to_word(first, &COMMAND_WORD);
        if depth > MAX_INNER_COMMANDS {
            self.report_not_known(
                first.range(),
                "too many commands run each other here",
                "write fewer of them",
            );
            return self.derive(words, input);
        }
        if first.word().literal.contains('/') {
            let content = self.content(first);
            self.apply_to_fact(&content, &SCRIPT_FILE, "this file", &first.range());
        }
        let names = self.program_names(first);
        let mut output: Option<OutputFacts> = None;
        for name in &names.known {
            let facts = self.run_program(name, words, input, depth);
            match &mut output {
                Some(output) => output.join(&facts),
                None => output = Some(facts),
            }
        }
        if names.unknown {
            let facts = self.run_unknown(words, input, depth);
            match &mut output {
                Some(output) => output.join(&facts),
                None => output = Some(facts),
            }
        }
        output.unwrap_or_default()
    }

    /// The programs that a command word can name.
    fn program_names(&self, word: &FollowedWord<'_>) -> ProgramNames {
        let mut names = ProgramNames::default();
        if let Some(text) = word.text() {
            names.known.push(self.program_name(text));
            return names;
        }
        let (texts, any) = word.fact.texts();
        for text in texts {
            if text.is_empty() {
                // An empty command word is no word, and the next one names the program.
                names.unknown = true;
            } else if !is_opaque(text) {
                names.known.push(self.program_name(text));
            }
        }
        let opaque = any || texts.iter().any(|text| is_opaque(text));
        if opaque {
            match Self::guess_program(word) {
                Some(name) => names.known.push(name),
                None => names.unknown = true,
            }
        }
        names
    }

    fn program_name(&self, text: &str) -> EcoString {
        if self.functions.contains_key(text) { text.into() } else { unversioned(base_name(text)).into() }
    }

    /// The program that a word names as far as people can tell, as `"$HOME/bin/python3"` or `$PYTHON`.
    fn guess_program(word: &FollowedWord<'_>) -> Option<EcoString> {
        let last = word.word().parts.last()?;
        match last {
            WordPart::Text(text) => {
                let tail = text.rsplit_once('/')?.1;
                let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+".contains(&byte);
                (!tail.is_empty() && tail.bytes().all(plain)).then(|| unversioned(tail).into())
            }
            WordPart::Parameter(parameter) => {
                let name = parameter.name.to_ascii_lowercase();
                let name = name.trim_end_matches("_bin").trim_end_matches("_cmd").trim_end_matches("_path");
                let name = match name {
                    "shell" => "sh",
                    "py" => "python",
                    name => unversioned(name),
                };
                let known = SHELLS.contains(&name) || !hazards::of_program(name).is_empty();
                known.then(|| name.into())
            }
            // `$(which python3)`, `$(command -v node)`
            WordPart::Substitution { list, .. } => {
                let [item] = &list.items[..] else { return None };
                let [command] = &item.pipeline.commands[..] else { return None };
                let super::super::tree::CommandSyntax::Simple { words, .. } = &command.syntax else {
                    return None;
                };
                let finds = words
                    .first()
                    .and_then(Word::text)
                    .is_some_and(|name| matches!(name, "which" | "command" | "type" | "whence"));
                let last = words.last().and_then(Word::text)?;
                finds.then(|| unversioned(base_name(last)).into())
            }
            _ => None,
        }
    }

    /// Runs a command whose name is not known. It can be a wrapper such as `$SUDO`, so the words behind it are
    /// read as a command, too.
    fn run_unknown(&mut self, words: &[FollowedWord<'_>], input: &Fact, depth: usize) -> OutputFacts {
        let values = input.holds_value() || words[1..].iter().any(|word| word.fact.holds_value());
        let tells = words.get(1).and_then(FollowedWord::text).is_some_and(|text| {
            let name = unversioned(base_name(text));
            self.functions.contains_key(text)
                || SHELLS.contains(&name)
                || !hazards::of_program(name).is_empty()
        });
        let output = if words.len() > 1 && (tells || values) {
            self.run(&words[1..], input, depth + 1)
        } else {
            OutputFacts::default()
        };
        let chosen = words[0].fact.holds_value();
        if values && !chosen && !(tells && Self::is_optional_word(&words[0])) {
            self.report_not_known(
                words[0].range(),
                "a value is given to a command whose name is not known before the run",
                "write out the name of the program",
            );
        }
        let mut derived = self.derive(words, input);
        derived.join(&output);
        derived
    }

    /// Whether a command word is a variable that only adds a wrapper, as `$SUDO`.
    fn is_optional_word(word: &FollowedWord<'_>) -> bool {
        matches!(&word.word().parts[..], [WordPart::Parameter(_)])
    }

    fn run_program(
        &mut self,
        name: &str,
        words: &[FollowedWord<'_>],
        input: &Fact,
        depth: usize,
    ) -> OutputFacts {
        if self.functions.contains_key(name) {
            return self.call_function(name, &words[1..], input);
        }
        match find_inner_command(name, words) {
            InnerCommand::None => {}
            InnerCommand::At(at) => {
                self.apply_hazards_of_wrapper(name, words, at);
                return self.run_inner(name, words, at, input, depth);
            }
            InnerCommand::Absent => {
                self.apply_hazards_of_wrapper(name, words, words.len());
                return self.derive(words, input);
            }
            InnerCommand::NotKnown(at) => {
                self.apply_hazards_of_wrapper(name, words, words.len());
                let values = input.holds_value() || words.iter().any(|word| word.fact.holds_value());
                if values {
                    self.report_not_known(
                        words[at].range(),
                        format!("this option of `{name}` is not known, so it is unclear which command runs"),
                        "write the long form of the option, or `--` before the command",
                    );
                }
                for inner in at + 1..words.len().min(at + 3) {
                    self.run(&words[inner..], input, depth + 1);
                }
                return self.derive(words, input);
            }
        }
        self.apply_hazards(name, words);
        self.apply_to_input(name, words, input);
        self.note_script_files(name, words);
        if matches!(name, "find" | "fd") {
            self.run_found(words, input, depth);
        }
        if hazards::CONTAINERS.contains(&name) {
            self.apply_to_contained(words, input);
        }
        let inner = self.run_shell(name, words, input);
        self.note_variables(name, words, input);
        self.note_files(name, words, input);
        let mut output = self.output_of(name, words, input);
        output.out.join_sources(&inner);
        output
    }

    /// Runs the command of a wrapper.
    fn run_inner(
        &mut self,
        wrapper: &str,
        words: &[FollowedWord<'_>],
        at: usize,
        input: &Fact,
        depth: usize,
    ) -> OutputFacts {
        if wrapper != "xargs" {
            return self.run(&words[at..], input, depth + 1);
        }
        let mut arrival = input.split();
        if let Some(option) =
            words[..at].iter().position(|word| has_option(word.word(), &["-a", "--arg-file"]))
            && let Some(file) = words.get(option + 1)
        {
            arrival.join_sources(&self.content(file).split());
        }
        let mark = find_replaced_text(&words[..at]);
        // Without a text to replace, what is read comes behind the words.
        let replaced = mark.as_deref().filter(|mark| !mark.is_empty()).unwrap_or("\0");
        let mut inner: Vec<FollowedWord<'_>> =
            words[at..].iter().map(|word| word.with_arrival(replaced, &arrival)).collect();
        if mark.is_none() {
            let word = Word { range: words[at].range(), parts: vec![WordPart::Arrival], ..Word::default() };
            inner.push(FollowedWord::made(word, arrival));
        }
        self.run(&inner, &Fact::default(), depth + 1)
    }

    /// Runs the commands of `find -exec`.
    fn run_found(&mut self, words: &[FollowedWord<'_>], input: &Fact, depth: usize) {
        let starts = ["-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"];
        let mut found = Fact::default();
        words[1..].iter().for_each(|word| {
            found.join_sources(&word.fact.derived());
        });
        let mut at = 1;
        while at < words.len() {
            if !words[at].text().is_some_and(|text| starts.contains(&text)) {
                at += 1;
                continue;
            }
            let from = at + 1;
            let end = (from..words.len()).find(|at| matches!(words[*at].text(), Some(";" | "+")));
            let end = end.unwrap_or(words.len());
            let inner: Vec<_> =
                words[from.min(end)..end].iter().map(|word| word.with_arrival("{}", &found)).collect();
            if let Some(first) = inner.first() {
                self.apply_to_word(first, &hazards::FIND_COMMAND);
                self.run(&inner, input, depth + 1);
            }
            at = end + 1;
        }
    }

    fn call_function(&mut self, name: &str, arguments: &[FollowedWord<'_>], input: &Fact) -> OutputFacts {
        let function = EcoString::from(name);
        if self.frame == function {
            self.forget_calls(&function);
        }
        self.pass_arguments(&function, arguments);
        self.add_fact(FactKey::Input(function.clone()), input);
        let assigned = &self.assigned_in_functions;
        self.guards.retain(|guard| !assigned.contains(&guard.key));
        let out = self.fact(&FactKey::Output(function.clone()));
        OutputFacts { out, err: self.fact(&FactKey::Errors(function)) }
    }

    // ---- variables -------------------------------------------------------------------------------------

    /// Notes the variables that a command sets.
    fn note_variables(&mut self, name: &str, words: &[FollowedWord<'_>], input: &Fact) {
        let at = words[0].range().start;
        match name {
            "read" | "mapfile" | "readarray" => self.note_read(name, words, input),
            "printf" => {
                if let Some(option) = words.iter().position(|word| has_option(word.word(), &["-v"])) {
                    let attached =
                        words[option].word().literal.strip_prefix("-v").unwrap_or_default().to_owned();
                    let target = if attached.is_empty() {
                        words.get(option + 1).map(|word| shell_name(&word.word().literal).to_owned())
                    } else {
                        Some(shell_name(&attached).to_owned())
                    };
                    let printed = Self::printed(name, words);
                    self.set_variable(&target.unwrap_or_default(), &printed, at);
                }
            }
            "set" => {
                let from = words.iter().position(|word| word.word().is("--") || word.word().is("-"));
                let from = from.map_or_else(
                    || {
                        let first = operands(&words[1..], |option| {
                            usize::from(matches!(option, "-o" | "+o" | "-euo" | "-eo" | "-uo" | "-exo"))
                        });
                        first.first().map_or(words.len(), |at| at + 1)
                    },
                    |at| at + 1,
                );
                let frame = self.frame.clone();
                if from < words.len() {
                    self.changed |= self.resets.insert(frame.clone());
                }
                self.pass_arguments(&frame, &words[from.min(words.len())..]);
            }
            "shift" => {
                let by = match words.get(1) {
                    None => Some(1),
                    Some(word) => word.text().and_then(|text| text.parse().ok()),
                };
                let branch = if by.is_none() { super::Branch::Repeatedly } else { self.branch };
                let shift = super::ArgumentShift { by: by.unwrap_or(1), branch };
                let shifts = self.shifts.entry(self.frame.clone()).or_default();
                self.changed |= shifts.insert(at, shift) != Some(shift);
            }
            "getopts" => {
                let mut given = Fact::default();
                words.iter().skip(3).for_each(|word| {
                    given.join(&word.fact);
                });
                if words.len() <= 3 {
                    given = self.follow_name("@");
                }
                self.set_variable("OPTARG", &given.derived(), at);
            }
            "setopt" | "emulate" | "set-option" => {
                let plain = |text: &str| text.replace('_', "").to_ascii_lowercase();
                let expands = |text: &str| {
                    matches!(plain(text).as_str(), "globsubst" | "promptsubst" | "shwordsplit" | "sh" | "ksh")
                };
                self.expands_patterns |= words[1..].iter().any(|word| word.text().is_some_and(expands));
            }
            _ if DECLARES.contains(&name) => self.note_declared(words),
            _ => {}
        }
    }

    /// `read` and `mapfile` put what arrives into variables.
    fn note_read(&mut self, name: &str, words: &[FollowedWord<'_>], input: &Fact) {
        let at = words[0].range().start;
        let mut arriving = input.clone();
        if let Some(option) = words.iter().position(|word| word.text() == Some("-u"))
            && let Some(number) = words.get(option + 1).and_then(FollowedWord::text)
        {
            arriving = self.fact(&FactKey::Descriptor(number.into()));
            arriving.join_sources(&self.fact(&FactKey::Descriptor("*".into())));
        }
        let mut names: Vec<EcoString> =
            operands(&words[1..], |option| usize::from(takes_value(name, option)))
                .into_iter()
                .map(|at| shell_name(&words[at + 1].word().literal).into())
                .collect();
        if let Some(option) = words.iter().position(|word| {
            word.text()
                .is_some_and(|text| name == "read" && text.starts_with('-') && text.ends_with(['a', 'A']))
        }) {
            names.extend(words.get(option + 1).map(|word| shell_name(&word.word().literal).into()));
        }
        if names.is_empty() {
            names.push(if name == "read" { "REPLY" } else { "MAPFILE" }.into());
        }
        // With one name it gets the line without the blanks around it.
        let whole = names.len() == 1 && (name != "read" || !any_option(&words[1..], &["-a", "-A"]));
        let pieces = if whole { arriving.lines() } else { arriving.split() };
        for name in names {
            self.set_variable(&name, &pieces, at);
        }
    }

    /// `declare`, `local` and `export` with their assignments.
    fn note_declared(&mut self, words: &[FollowedWord<'_>]) {
        let at = words[0].range().start;
        let integer = any_option(&words[1..], &["-i"]);
        let exported = words[0].text() == Some("export") || any_option(&words[1..], &["-x"]);
        let reference = !exported && any_option(&words[1..], &["-n"]);
        for word in &words[1..] {
            let literal = &word.word().literal;
            let name = shell_name(literal);
            if name.is_empty() {
                continue;
            }
            if integer && self.integers.insert(name.into()) {
                self.changed = true;
            }
            if !is_assignment(word.word()) {
                // A variable that is exported now can hold a value already.
                if exported && is_code_variable(name) {
                    let held = self.follow_name(name);
                    self.apply_to_fact(&held, &CODE_VARIABLE, &ecow::eco_format!("`{name}`"), &word.range());
                }
                continue;
            }
            if reference {
                self.note_alias(name, word);
                continue;
            }
            let value = word.without_prefix(name.len() + 1);
            self.assign_word(name, &value, at);
        }
    }

    /// A name that stands for another variable: what one holds, both hold.
    fn note_alias(&mut self, name: &str, word: &FollowedWord<'_>) {
        let target = word.without_prefix(name.len() + 1);
        let (texts, _) = target.fact.texts();
        for text in texts {
            let mut held = self.fact(&FactKey::Variable(text.clone()));
            held.join(&self.fact(&FactKey::Variable(name.into())));
            self.add_fact(FactKey::Variable(text.clone()), &held);
            self.add_fact(FactKey::Variable(name.into()), &held);
        }
    }

    // ---- files -----------------------------------------------------------------------------------------

    /// Notes the files that a command writes.
    fn note_files(&mut self, name: &str, words: &[FollowedWord<'_>], input: &Fact) {
        match name {
            "tee" => {
                for at in operands(&words[1..], |_| 0) {
                    self.write_to(&words[at + 1], input);
                }
            }
            "cp" | "mv" | "ln" | "install" => {
                let found = operands(&words[1..], |option| {
                    usize::from(matches!(option, "-t" | "-m" | "-o" | "-g" | "-S"))
                });
                let Some((target, sources)) = found.split_last() else { return };
                let mut content = Fact::default();
                for at in sources {
                    let word = &words[at + 1];
                    content.join_sources(&self.content(word));
                    content.join_sources(&word.fact.passed(|passage| passage.with(Passage::DERIVED)));
                }
                let names: Vec<FollowedWord<'_>> = sources
                    .iter()
                    .filter_map(|at| {
                        let folder = words[target + 1].text()?.trim_end_matches('/');
                        let file = base_name(words[at + 1].text()?);
                        let path = format!("{folder}/{file}");
                        Some(FollowedWord::made(Word::fixed(&path), Fact::literal(&path)))
                    })
                    .collect();
                self.write_to(&words[target + 1], &content);
                for name in &names {
                    self.write_to(name, &content);
                }
            }
            "dd" => {
                let mut content = input.clone();
                for word in &words[1..] {
                    if word.word().literal.starts_with("if=") {
                        content.join_sources(&self.content(&word.without_prefix(3)));
                    }
                }
                for word in &words[1..] {
                    if word.word().literal.starts_with("of=") {
                        self.write_to(&word.without_prefix(3), &content);
                    }
                }
            }
            "sort" | "uniq" => {
                let at = words.iter().position(|word| has_option(word.word(), &["-o", "--output"]));
                let target = match at {
                    Some(at) if name == "sort" => words.get(at + 1),
                    _ if name == "uniq" => operands(&words[1..], |_| 0).get(1).map(|at| &words[at + 1]),
                    _ => None,
                };
                if let Some(target) = target {
                    let content = self.derive(words, input).out;
                    self.write_to(target, &content);
                }
            }
            "curl" | "wget" | "http" | "xh" => {
                let option = |word: &FollowedWord<'_>| {
                    has_option(
                        word.word(),
                        if name == "wget" { &["-O"][..] } else { &["-o", "--output"][..] },
                    )
                };
                let Some(at) = words.iter().position(option) else { return };
                let Some(target) = words.get(at + 1) else { return };
                let mut content = input.derived();
                words[1..].iter().filter(|word| !std::ptr::eq(*word, target)).for_each(|word| {
                    content.join_sources(&word.fact.derived());
                });
                self.write_to(target, &content);
            }
            _ => {}
        }
    }

    // ---- output ----------------------------------------------------------------------------------------

    /// What a program that is not known makes of its words and of what it reads.
    pub(super) fn derive(&self, words: &[FollowedWord<'_>], input: &Fact) -> OutputFacts {
        let mut out = input.derived();
        for word in words {
            out.join_derived(&word.fact);
            out.join_derived(&self.content(word));
        }
        OutputFacts { err: out.clone(), out }
    }

    /// What `echo` and `printf` print.
    fn printed(name: &str, words: &[FollowedWord<'_>]) -> Fact {
        let mut found = operands(&words[1..], |option| usize::from(name == "printf" && option == "-v"));
        let mut begins = true;
        if name == "printf" && !found.is_empty() {
            let format = words[found.remove(0) + 1].word();
            if format.text().is_some_and(prints_numbers) {
                return Fact::unknown();
            }
            begins = !format.fixed || format.literal.starts_with('%');
            if !format.fixed {
                found = (0..words.len() - 1).collect();
            }
        } else if name != "printf" {
            found = (0..words.len() - 1).collect();
        }
        let mut out = Fact::unknown();
        for at in found {
            let fact = &words[at + 1].fact;
            out.join_sources(&if begins { fact.clone() } else { fact.behind_text() });
        }
        if let [word] = &words[1..]
            && name == "echo"
        {
            out.literals.clone_from(&word.fact.literals);
        }
        out
    }

    fn output_of(&mut self, name: &str, words: &[FollowedWord<'_>], input: &Fact) -> OutputFacts {
        let out = match name {
            "echo" | "print" | "printf" => Self::printed(name, words),
            "cat" | "tee" => {
                let files = operands(&words[1..], |_| 0);
                let mut out = if files.is_empty() || name == "tee" { input.clone() } else { Fact::unknown() };
                for at in files {
                    let word = &words[at + 1];
                    out.join_sources(&if word.word().is("-") { input.clone() } else { self.content(word) });
                    out.literals = Literals::Any;
                }
                out
            }
            "mktemp" => {
                let mut out = opaque_path(words[0].range().start);
                words[1..].iter().for_each(|word| {
                    out.join_sources(&word.fact.behind_text());
                });
                out
            }
            "printenv" | "env" => {
                let mut out = self.derive(words, input).out;
                for (key, fact) in &self.facts {
                    if matches!(key, FactKey::Variable(_)) {
                        out.join_sources(&fact.derived());
                    }
                }
                out
            }
            "realpath" | "readlink" => self.derive(words, input).out.behind_text(),
            _ if SILENT.contains(&name) => Fact::unknown(),
            _ if prints_only_numbers(name, words) => Fact::unknown(),
            _ => return self.derive(words, input),
        };
        OutputFacts { out, err: self.derive(words, &Fact::default()).out }
    }
}

/// Whether a format prints nothing but numbers and literal text that is no code.
fn prints_numbers(format: &str) -> bool {
    let conversions: Vec<&str> = format.split('%').skip(1).filter(|text| !text.is_empty()).collect();
    let plain = |char: char| char.is_ascii_digit() || "-.+ #'".contains(char);
    !conversions.is_empty()
        && conversions.iter().all(|text| {
            text.trim_start_matches(plain)
                .starts_with(['d', 'i', 'u', 'o', 'x', 'X', 'f', 'e', 'g', 'E', 'G'])
        })
}

/// Whether a command prints only digits, whatever its values are.
fn prints_only_numbers(name: &str, words: &[FollowedWord<'_>]) -> bool {
    let arguments = &words[1..];
    let texts: Vec<&str> = arguments.iter().filter_map(FollowedWord::text).collect();
    match name {
        "date" => texts.iter().any(|text| text.starts_with('+')),
        _ if NUMERIC.contains(&name) => true,
        "wc" => operands(arguments, |_| 0).is_empty() && arguments.iter().all(|word| word.text().is_some()),
        "grep" | "egrep" | "fgrep" | "rg" => {
            let counts = any_option(arguments, &["-c", "--count"]);
            let files = operands(arguments, |option| usize::from(matches!(option, "-e" | "-f" | "-m"))).len();
            let digits = any_option(arguments, &["-o"])
                && texts.iter().any(|text| {
                    matches!(
                        *text,
                        "[0-9]+" | "[0-9]*" | "[0-9][0-9]*" | "\\d+" | "[[:digit:]]+" | "[0-9]\\+"
                    )
                });
            counts && files <= 2 && !any_option(arguments, &["-r", "-R", "-H"]) || digits
        }
        "stat" => texts.iter().any(|text| {
            matches!(
                *text,
                "%s" | "%Y" | "%a" | "%u" | "%g" | "%h" | "%i" | "%z" | "%m" | "-c%s" | "-c%Y" | "-f%z"
            )
        }),
        "tr" => match &texts[..] {
            [options, set] => {
                matches!(*options, "-cd" | "-dc" | "-Cd" | "-dC")
                    && matches!(*set, "0-9" | "[0-9]" | "[:digit:]" | "0-9\\n" | "[:digit:]\\n")
            }
            _ => false,
        },
        "sed" => texts.iter().any(|text| {
            matches!(*text, "s/[^0-9]//g" | "s/[^0-9]*//g" | "s/[^[:digit:]]//g" | "s/[^0-9]\\+//g")
        }),
        "jq" => texts.iter().any(|text| {
            let last = text.rsplit('|').next().unwrap_or(text).trim();
            matches!(last, "length" | "add | length" | "tonumber" | "floor" | "round")
        }),
        "awk" | "gawk" | "mawk" => texts.iter().any(|text| {
            let text = text.replace(' ', "");
            matches!(
                text.as_str(),
                "END{printNR}" | "{printNR}" | "{printNF}" | "{printlength}" | "{n++}END{printn}"
            )
        }),
        "id" => texts.iter().any(|text| matches!(*text, "-u" | "-g")),
        _ => false,
    }
}
