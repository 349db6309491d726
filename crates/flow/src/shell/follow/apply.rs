//! Applies the table of hazards to the words of a command.

use super::super::hazards::{
    self, ArgSelector, CODE_VARIABLE, Hazard, HazardRule, SCRIPT_FILE, SHELLS, is_code_variable,
    value_options,
};
use super::super::names::{DECLARES, shell_name};
use super::super::options::{
    HasWord, OptionArgument, any_option, base_name, has_option, is_assignment, last_option, operands,
    option_value, script_operand, takes_interpreter_value, takes_value, unversioned, value_count,
};
use super::super::tree::Word;
use super::Dialect;
use super::ValueFollower;
use super::fact::Fact;
use super::words::FollowedWord;

/// Commands that the shell runs itself. The size of their arguments is not limited.
#[rustfmt::skip]
pub(super) const BUILTINS: &[&str] = &[
    ":", ".", "[", "alias", "bg", "break", "builtin", "caller", "cd", "command", "continue", "declare",
    "dirs", "echo", "eval", "exit", "export", "false", "fc", "fg", "getopts", "hash", "jobs", "let",
    "local", "mapfile", "popd", "print", "printf", "pushd", "pwd", "read", "readarray", "readonly",
    "return", "set", "shift", "shopt", "source", "test", "times", "trap", "true", "type", "typeset",
    "ulimit", "umask", "unalias", "unset", "wait",
];

/// Options that name a file with program text or with settings that run programs.
#[rustfmt::skip]
const PROGRAM_FILES: &[(&[&str], &[&str])] = &[
    (&[
        "awk", "gawk", "mawk", "nawk", "sed", "gsed", "jq", "yq", "psql", "mysql", "bc", "gnuplot", "perl", "php", "make",
        "gmake", "ninja", "just", "task", "osascript",
    ], &["-f", "--file", "--from-file", "--makefile"]),
    (&["curl"], &["-K", "--config"]),
    (&["wget"], &["--config"]),
    (&["ssh", "scp", "sftp"], &["-F"]),
    (&["bash", "sh", "zsh", "dash", "ksh"], &["--rcfile", "--init-file"]),
    (&["sqlite3", "duckdb"], &["-init"]),
    (&["vim", "vi", "nvim", "ex"], &["-S", "-u", "-s"]),
    (&["gdb"], &["-x", "--command"]),
    (&["python", "python3", "node", "ruby"], &["-r", "--require", "--import"]),
];

/// Maximum number of words of a container in which its command is looked for.
const MAX_CONTAINED: usize = 64;

impl ValueFollower<'_> {
    /// Applies the hazards of a program, and of the shells and interpreters with program text among its words.
    pub(super) fn apply_hazards(&mut self, name: &str, words: &[FollowedWord<'_>]) {
        if !self.reporting {
            return;
        }
        for hazard in hazards::of_program(name) {
            self.apply_hazard(hazard, name, words);
        }
        self.apply_to_inner_shells(words);
    }

    /// Applies the hazards of a wrapper to its own words, those before the command that it runs.
    pub(super) fn apply_hazards_of_wrapper(&mut self, name: &str, words: &[FollowedWord<'_>], end: usize) {
        self.note_inner_assignments(name, &words[..end]);
        if !self.reporting {
            return;
        }
        for hazard in hazards::of_program(name) {
            match hazard.selector {
                ArgSelector::CommandWord { .. } => {
                    if let Some(word) = words.get(end) {
                        self.apply_to_word(word, hazard);
                    }
                }
                ArgSelector::Every if hazard.rule == HazardRule::Dash => {
                    let own = (end + 1).min(words.len());
                    self.apply_to_dashes(hazard, name, &words[..own]);
                }
                ArgSelector::Options(_) => self.apply_to_options(hazard, &words[..end]),
                _ => {}
            }
        }
    }

    /// Applies the hazards of shells and interpreters with program text that follow any other program.
    fn apply_to_inner_shells(&mut self, words: &[FollowedWord<'_>]) {
        let (shell, other) = (&hazards::SHELL_TEXT, &hazards::PROGRAM_TEXT);
        for at in 1..words.len() {
            let Some(text) = words[at].text() else { continue };
            let name = unversioned(base_name(text));
            if SHELLS.contains(&name) {
                self.apply_to_options(shell, &words[at..]);
            } else if other.programs.contains(&name) {
                self.apply_to_options(other, &words[at..]);
            }
        }
    }

    /// Applies hazards to the command inside a container, wherever it begins. A word may only look like a
    /// program, so hazards that affect every argument, and those of the shell itself, are not applied.
    pub(super) fn apply_to_contained(&mut self, words: &[FollowedWord<'_>], input: &Fact) {
        if !self.reporting {
            return;
        }
        for at in 1..words.len().min(MAX_CONTAINED) {
            let Some(text) = words[at].text() else { continue };
            let name = unversioned(base_name(text));
            if DECLARES.contains(&name) {
                continue;
            }
            let refused = hazards::of_program(name).iter().filter(|hazard| {
                hazard.rule == HazardRule::Refuse
                    && matches!(hazard.selector, ArgSelector::Options(_) | ArgSelector::Operands { .. })
            });
            for hazard in refused {
                self.apply_hazard(hazard, name, &words[at..]);
            }
            self.apply_to_input(name, &words[at..], input);
        }
    }

    /// Reports a file with values that a command runs or makes executable.
    pub(super) fn note_script_files(&mut self, name: &str, words: &[FollowedWord<'_>]) {
        if !self.reporting {
            return;
        }
        let interpreter = SHELLS.contains(&name) || hazards::PROGRAM_TEXT.programs.contains(&name);
        let executable = name == "chmod" && makes_executable(words);
        let options = PROGRAM_FILES.iter().find(|(programs, _)| programs.contains(&name));
        let options = options.map_or(&[][..], |(_, options)| options);
        let script = if interpreter { script_operand(name, words) } else { None };
        for word in words.iter().filter(|_| matches!(name, "sqlite3" | "duckdb")) {
            if word.word().literal.starts_with(".read ") {
                let content = self.content(&word.without_prefix(".read ".len()));
                self.apply_to_fact(&content, &SCRIPT_FILE, "this file", &word.range());
            }
        }
        for at in 1..words.len() {
            let file = executable
                || script == Some(at)
                || at > 1 && has_option(words[at - 1].word(), options)
                || !words[at].word().fixed && has_option(words[at].word(), options);
            if !file {
                continue;
            }
            let content = self.content(&words[at]);
            self.apply_to_fact(&content, &SCRIPT_FILE, "this file", &words[at].range());
            let starts_shell = SHELLS.contains(&name) && script != Some(at);
            if (script == Some(at) || starts_shell) && !words[at].word().literal.contains('/') {
                self.apply_to_script_name(&words[at]);
            }
        }
    }

    fn apply_hazard(&mut self, hazard: &'static Hazard, name: &str, words: &[FollowedWord<'_>]) {
        match hazard.selector {
            ArgSelector::Syntax => {
                if hazard.is(&hazards::NUMERIC_TEST) {
                    self.apply_to_numeric_tests(hazard, name, words);
                } else if hazard.is(&hazards::PROMPT) {
                    if any_option(&words[1..], &["-P"]) {
                        words[1..].iter().for_each(|word| self.apply_to_word(word, hazard));
                    }
                } else if hazard.is(&hazards::GIT_COMMAND_OPTION) {
                    self.apply_to_git_command(hazard, words);
                } else if hazard.is(&hazards::PRINTF_NUMBER) && self.dialect == Dialect::Zsh {
                    self.apply_to_printf(hazard, name, words);
                }
            }
            ArgSelector::Every if hazard.rule == HazardRule::Dash => {
                self.apply_to_dashes(hazard, name, words);
            }
            ArgSelector::Every if hazard.is(&hazards::NUMBER) && self.dialect != Dialect::Zsh => {
                words[1..].iter().for_each(|word| self.apply_to_references(word, hazard));
            }
            ArgSelector::Every if hazard.is(&hazards::LET) => {
                for word in &words[1..] {
                    self.apply_to_word(word, hazard);
                    self.apply_to_bare_names(word, hazard);
                }
            }
            ArgSelector::Every => words[1..].iter().for_each(|word| self.apply_to_word(word, hazard)),
            ArgSelector::Options(_) if DECLARES.contains(&name) => self.apply_to_declarations(hazard, words),
            ArgSelector::Options(_) => self.apply_to_options(hazard, words),
            ArgSelector::Operands { from, only, unless, values } => {
                if any_option(&words[1..], unless) {
                    return;
                }
                let mut operands = operands(&words[1..], |option| value_count(option, values));
                if name == "yq" {
                    let commands = ["e", "ea", "eval", "eval-all"];
                    operands.retain(|at| !words[at + 1].text().is_some_and(|text| commands.contains(&text)));
                }
                let meant = operands.into_iter().skip(from).take(if only { 1 } else { usize::MAX });
                meant.for_each(|at| self.apply_to_word(&words[at + 1], hazard));
            }
            ArgSelector::Names => self.apply_to_names(hazard, name, words),
            ArgSelector::After(marks) => {
                for at in 1..words.len().saturating_sub(1) {
                    if words[at].text().is_some_and(|text| marks.contains(&text)) {
                        self.apply_after(hazard, &words[at + 1..]);
                        if hazard.is(&hazards::EVAL_COMMAND) {
                            words[at + 2..].iter().for_each(|word| self.apply_to_word(word, hazard));
                        }
                    }
                }
            }
            // What arrives on standard input, and the options of wrappers, are looked at by themselves.
            ArgSelector::Input { .. } | ArgSelector::FileInput(_) | ArgSelector::CommandWord { .. } => {}
        }
    }

    /// Notes `env NAME=value`, in which the names count as in an assignment.
    fn note_inner_assignments(&mut self, name: &str, words: &[FollowedWord<'_>]) {
        if !matches!(name, "env" | "sudo" | "doas") {
            return;
        }
        for word in words.iter().skip(1).filter(|word| is_assignment(word.word())) {
            let variable = shell_name(&word.word().literal).to_owned();
            if is_code_variable(&variable) {
                self.apply_to_word(word, &CODE_VARIABLE);
            }
            let value = word.without_prefix(variable.len() + 1);
            self.assign_word(&variable, &value, word.range().start);
        }
    }

    fn apply_after(&mut self, hazard: &'static Hazard, words: &[FollowedWord<'_>]) {
        if hazard.rule == HazardRule::Warn && hazard.is(&hazards::REGEX) && self.dialect == Dialect::Bash {
            return;
        }
        // What `find` runs is walked by itself.
        if !hazard.is(&hazards::FIND_COMMAND) {
            self.apply_to_word(&words[0], hazard);
        }
    }

    /// Applies a hazard to the options of git's commands that run programs, and to its settings.
    fn apply_to_git_command(&mut self, hazard: &'static Hazard, words: &[FollowedWord<'_>]) {
        let found = operands(&words[1..], |option| usize::from(matches!(option, "-C" | "-c")));
        let Some(at) = found.first().map(|at| at + 1) else { return };
        let rest = &words[at..];
        let options: &[&str] = match rest[0].text().unwrap_or_default() {
            "rebase" => &["-x", "--exec"],
            "grep" => &["-O", "--open-files-in-pager"],
            "clone" => &["-u", "-c", "--template"],
            "difftool" | "mergetool" => &["-x", "--extcmd", "-t", "--tool"],
            "filter-branch" => return rest[1..].iter().for_each(|word| self.apply_to_word(word, hazard)),
            "archive" | "ls-remote" | "fetch-pack" => &["--exec", "--remote"],
            "config" => return self.apply_to_git_setting(hazard, rest),
            _ => return,
        };
        for at in 1..rest.len() {
            match option_value(rest[at].word(), options) {
                OptionArgument::NextWord => {
                    if let Some(next) = rest.get(at + 1) {
                        self.apply_to_word(next, hazard);
                    }
                }
                OptionArgument::Attached => self.apply_to_word(&rest[at], hazard),
                OptionArgument::Absent => {}
            }
        }
    }

    /// `git config KEY VALUE`: most keys can lead to a program.
    fn apply_to_git_setting(&mut self, hazard: &'static Hazard, words: &[FollowedWord<'_>]) {
        let found = operands(&words[1..], |option| usize::from(matches!(option, "-f" | "--file" | "--type")));
        let words: Vec<_> = found.into_iter().map(|at| &words[at + 1]).collect();
        let words = match words.split_first() {
            Some((first, rest)) if matches!(first.text(), Some("set" | "--add")) => rest.to_vec(),
            _ => words,
        };
        let Some((key, values)) = words.split_first() else { return };
        let plain = key.text().is_some_and(|key| is_plain_git_key(&format!("{key}=")));
        self.apply_to_word(key, hazard);
        if !plain {
            for value in values {
                self.apply_to_word(value, hazard);
            }
        }
    }

    /// Applies a hazard to values that zsh prints as numbers, which it evaluates first.
    fn apply_to_printf(&mut self, hazard: &'static Hazard, name: &str, words: &[FollowedWord<'_>]) {
        if name == "print" && !any_option(&words[1..], &["-f"]) {
            return;
        }
        let operands = operands(&words[1..], |option| usize::from(option == "-v"));
        let Some((format, values)) = operands.split_first() else { return };
        let text = words[format + 1].text();
        if text.is_some_and(only_texts) {
            return;
        }
        for at in values {
            self.apply_to_word(&words[at + 1], hazard);
        }
    }

    /// Applies a hazard to the arguments of options; for an interpreter, up to its file.
    fn apply_to_options(&mut self, hazard: &'static Hazard, words: &[FollowedWord<'_>]) {
        let ArgSelector::Options(options) = hazard.selector else { return };
        // After the file of an interpreter, and after the command of git, options have another meaning.
        let interpreter = [&hazards::SHELL_TEXT, &hazards::PROGRAM_TEXT, &hazards::GIT_OPTION]
            .iter()
            .any(|named| hazard.is(named));
        let name = words[0].text().map(base_name).unwrap_or_default();
        // `tar cIf program archive`: letters without a dash.
        if hazard.is(&hazards::TAR_OPTION)
            && let Some(letters) = words.get(1).and_then(FollowedWord::text)
            && !letters.starts_with('-')
            && letters.contains('I')
        {
            words.iter().skip(2).take(letters.len()).for_each(|word| self.apply_to_word(word, hazard));
        }
        let mut at = 1;
        while at < words.len() {
            let word = words[at].word();
            if interpreter && (!word.literal.starts_with(['-', '+']) || word.text() == Some("-")) {
                return;
            }
            match option_value(word, options) {
                OptionArgument::NextWord => {
                    // What begins with text of its own does not begin with `@`.
                    let first_decides =
                        hazard.is(&hazards::FILE_OR_TEXT) || hazard.is(&hazards::FILE_OR_HEADER);
                    if let Some(next) = words.get(at + 1)
                        && (!first_decides || next.word().literal.is_empty())
                        && !(hazard.is(&hazards::GIT_OPTION) && is_plain_git_key(&next.word().literal))
                    {
                        self.apply_to_word(next, hazard);
                    }
                    at += 1;
                    if interpreter && hazard.is(&hazards::SHELL_TEXT) {
                        return;
                    }
                }
                OptionArgument::Attached => self.apply_to_word(&words[at], hazard),
                OptionArgument::Absent if interpreter && takes_interpreter_value(name, word) => at += 1,
                OptionArgument::Absent => {}
            }
            at += 1;
        }
    }

    /// Applies a hazard to every word after an option, as in `declare -i NAME=value`.
    fn apply_to_declarations(&mut self, hazard: &'static Hazard, words: &[FollowedWord<'_>]) {
        let ArgSelector::Options(options) = hazard.selector else { return };
        if any_option(&words[1..], options) {
            words[1..].iter().for_each(|word| self.apply_to_word(word, hazard));
        }
    }

    fn apply_to_names(&mut self, hazard: &'static Hazard, name: &str, words: &[FollowedWord<'_>]) {
        for at in operands(&words[1..], |option| usize::from(takes_value(name, option))) {
            let word = &words[at + 1];
            if !word.word().literal.contains('=') {
                self.apply_to_word(word, hazard);
                continue;
            }
            if is_code_variable(shell_name(&word.word().literal)) {
                self.apply_to_word(word, &CODE_VARIABLE);
            }
        }
    }

    fn apply_to_numeric_tests(&mut self, hazard: &'static Hazard, name: &str, words: &[FollowedWord<'_>]) {
        for at in 1..words.len().saturating_sub(1) {
            let operator = words[at].text().unwrap_or_default();
            if matches!(operator, "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge") {
                for word in [&words[at - 1], &words[at + 1]] {
                    // Only `[[` and zsh evaluate what a variable holds; `[` wants digits.
                    if name == "[[" || self.dialect == Dialect::Zsh {
                        self.apply_to_word(word, hazard);
                        self.apply_to_bare_names(word, hazard);
                    } else {
                        self.apply_to_references(word, hazard);
                    }
                }
            }
        }
    }

    fn apply_to_dashes(&mut self, hazard: &'static Hazard, name: &str, words: &[FollowedWord<'_>]) {
        let values = value_options(name, words);
        let last = last_option(name, words);
        for at in 1..words.len() {
            if words[at].word().is("--") || at > last {
                return;
            }
            let before = words[at - 1].text().unwrap_or_default();
            if at == 1 || !takes_next_word(before, &values) {
                self.apply_to_word(&words[at], hazard);
            }
        }
    }

    /// Applies a hazard to the references of a word, but not to what its variables hold.
    fn apply_to_references(&mut self, word: &FollowedWord<'_>, hazard: &'static Hazard) {
        for slot in word.word().slots() {
            self.mark(slot, hazard);
        }
    }

    /// Applies the hazard of a program that runs what it reads from standard input.
    pub(super) fn apply_to_input(&mut self, name: &str, words: &[FollowedWord<'_>], input: &Fact) {
        if !self.reporting || !input.holds_value() {
            return;
        }
        let Some(hazard) = find_input_hazard(name, words) else { return };
        // References are reported where they stand.
        for (source, _) in input.sources.clone() {
            match source {
                super::fact::ValueSource::Slot(slot) => self.mark(slot as usize, hazard),
                _ => self.apply_to_fact(input, hazard, "standard input", &words[0].range()),
            }
        }
    }
}

fn find_input_hazard(name: &str, words: &[FollowedWord<'_>]) -> Option<&'static Hazard> {
    hazards::of_program(name).iter().copied().find(|hazard| {
        let words = &words[1..];
        match hazard.selector {
            ArgSelector::FileInput(options) => {
                words
                    .windows(2)
                    .any(|pair| has_option(pair[0].word(), options) && is_standard_input(pair[1].word()))
                    || words.iter().any(|word| {
                        let literal = &word.word().literal;
                        literal.ends_with('-')
                            && options.iter().any(|option| *literal == format!("{option}-"))
                    })
            }
            ArgSelector::Input { operands: before, unless, values } => {
                let marked = |word: &Word| has_option(word, &["-s"]) || is_standard_input(word);
                !any_option(words, unless)
                    && (words.iter().any(|word| marked(word.word()))
                        || operands(words, |option| value_count(option, values)).len() <= before)
            }
            _ => false,
        }
    })
}

fn is_standard_input(word: &Word) -> bool {
    matches!(word.text(), Some("-" | "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0"))
}

/// Whether a format prints nothing but texts.
fn only_texts(format: &str) -> bool {
    let conversions = format.split('%').skip(1).filter(|conversion| !conversion.is_empty());
    let plain = |char: char| char.is_ascii_digit() || "-.+ #".contains(char);
    !format.contains('*')
        && conversions.into_iter().all(|text| text.trim_start_matches(plain).starts_with(['s', 'b', 'q']))
}

/// Whether `chmod` makes a file executable.
fn makes_executable(words: &[FollowedWord<'_>]) -> bool {
    let odd = |byte: u8| byte.is_ascii_digit() && byte % 2 == 1;
    words[1..].iter().any(|word| {
        let digits = word.word().literal.bytes().all(|byte| byte.is_ascii_digit());
        word.word().literal.contains("+x")
            || word.word().literal.contains("=rwx")
            || digits && word.word().literal.bytes().any(odd)
    })
}

/// Whether a setting of git starts with a key that cannot name a program.
fn is_plain_git_key(setting: &str) -> bool {
    let plain =
        ["advice.", "author.", "color.", "committer.", "http.extraheader", "init.", "push.", "tag.", "user."];
    let (key, value) = setting.split_once('=').map_or(("", false), |(key, _)| (key, true));
    value && plain.iter().any(|plain| key.to_ascii_lowercase().starts_with(plain))
}

/// Whether an option takes the next word: it is listed, or its last letter is.
fn takes_next_word(option: &str, values: &[&str]) -> bool {
    if values.contains(&option) {
        return true;
    }
    let letters = option.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
    let last = letters.filter(|letters| letters.bytes().all(|byte| byte.is_ascii_alphabetic()));
    last.and_then(|letters| letters.chars().last())
        .is_some_and(|letter| values.iter().any(|value| value.len() == 2 && value.ends_with(letter)))
}
