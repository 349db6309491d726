//! Options and operands of a command, as far as its words are known before the run.

use super::hazards::{self, SHELLS};
use super::names::shell_name;
use super::tree::Word;

/// Letters of the options of `read`, `mapfile` and similar commands that take a value.
const NAME_VALUES: &[(&str, &str)] =
    &[("read", "ptdnNuika"), ("mapfile", "dnOsuCc"), ("readarray", "dnOsuCc"), ("vared", "p")];

/// Options of interpreters that take a value, so that the next word is not the file to run.
#[rustfmt::skip]
const INTERPRETER_VALUES: &[&str] = &[
    "-W", "-X", "-I", "-r", "-M", "-L", "-d", "-o", "-O", "+O", "-C", "--require", "--import", "--rcfile",
    "--init-file",
];

/// A word of a command, or something that has one.
pub(super) trait HasWord {
    fn word(&self) -> &Word;
}

impl HasWord for Word {
    fn word(&self) -> &Word {
        self
    }
}

/// Where the argument of an option is.
pub(super) enum OptionArgument {
    Absent,
    NextWord,
    Attached,
}

/// Finds one of these options in a word: alone, in a cluster, or with its argument attached. A long option
/// counts in every abbreviation of three letters or more.
pub(super) fn option_value(word: &Word, options: &[&str]) -> OptionArgument {
    let literal = word.literal.as_str();
    if !literal.starts_with(['-', '+']) {
        return OptionArgument::Absent;
    }
    for option in options {
        if word.fixed && literal == *option {
            return OptionArgument::NextWord;
        }
        if option.starts_with("--") || option.len() > 2 {
            let (name, attached) = literal.split_once('=').map_or((literal, false), |(name, _)| (name, true));
            let abbreviated = option.starts_with("--") && name.len() >= 4 && option.starts_with(name);
            if name == *option || abbreviated {
                if attached {
                    return OptionArgument::Attached;
                }
                if word.fixed {
                    return OptionArgument::NextWord;
                }
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
pub(super) fn has_option(word: &Word, options: &[&str]) -> bool {
    !matches!(option_value(word, options), OptionArgument::Absent)
}

pub(super) fn any_option<W: HasWord>(words: &[W], options: &[&str]) -> bool {
    words.iter().any(|word| has_option(word.word(), options))
}

pub(super) fn value_count(option: &str, values: &[(&str, usize)]) -> usize {
    values.iter().find(|(name, _)| *name == option).map_or(0, |(_, count)| *count)
}

/// Whether an option of a command that sets variables takes the next word; the last letter of a cluster
/// decides.
pub(super) fn takes_value(name: &str, option: &str) -> bool {
    let letters = NAME_VALUES.iter().find(|(command, _)| *command == name).map_or("", |(_, letters)| letters);
    option.chars().last().is_some_and(|letter| letters.contains(letter))
}

/// Whether an option of an interpreter takes the next word, as `-o` in `bash -euo pipefail`.
pub(super) fn takes_interpreter_value(name: &str, word: &Word) -> bool {
    let option = word.text().unwrap_or_default();
    let cluster = SHELLS.contains(&name) && option.starts_with(['-', '+']) && option.ends_with(['o', 'O']);
    INTERPRETER_VALUES.contains(&option) || cluster && !option.starts_with("--")
}

/// The positions of the words that are neither options nor their values.
pub(super) fn operands<W: HasWord>(words: &[W], values: impl Fn(&str) -> usize) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = 0;
    let mut options = true;
    while at < words.len() {
        let word = words[at].word();
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

/// The last word that a program can read as an option. After its file, or the text after `-c`, an interpreter
/// passes the words to what it runs.
pub(super) fn last_option<W: HasWord>(name: &str, words: &[W]) -> usize {
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
        let (word, before) = (words[at].word(), words[at - 1].word());
        let valued = at > 1 && takes_interpreter_value(name, before);
        if shell && has_option(word, &["-c"]) || python && has_option(word, &["-c", "-m"]) {
            return at;
        }
        let text = has_option(before, &["-e", "-E", "-p", "-r", "-c", "--eval", "--print"]) && at > 1;
        if !valued && !text && !word.literal.starts_with(['-', '+']) {
            return at;
        }
    }
    usize::MAX
}

/// The word that names the script of an interpreter, if a file is run and not a text or standard input.
pub(super) fn script_operand<W: HasWord>(name: &str, words: &[W]) -> Option<usize> {
    let texts: &[&str] = if SHELLS.contains(&name) {
        &["-c"]
    } else {
        &["-c", "-e", "-E", "-m", "-p", "-r", "--eval", "--print", "--execute", "-Command"]
    };
    let mut at = 1;
    while at < words.len() {
        let word = words[at].word();
        match word.text() {
            Some("-") => return None,
            // `-s` reads standard input, and `-n` only checks the text.
            _ if SHELLS.contains(&name) && has_option(word, &["-s", "-n"]) => return None,
            Some("--check" | "-l") if !SHELLS.contains(&name) => return None,
            Some("--") => return (at + 1 < words.len()).then_some(at + 1),
            _ if !word.literal.starts_with(['-', '+']) => return Some(at),
            _ if has_option(word, texts) => return None,
            _ => at += 1 + usize::from(takes_interpreter_value(name, word)),
        }
    }
    None
}

/// The last part of a path.
pub(super) fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// The name of a program without its version: `python3` of `python3.11`, `node` of `node20`.
pub(super) fn unversioned(name: &str) -> &str {
    let of_version = |char: char| char.is_ascii_digit() || matches!(char, '.' | '-' | '_');
    let known = |name: &str| {
        SHELLS.contains(&name)
            || hazards::PROGRAM_TEXT.programs.contains(&name)
            || !hazards::of_program(name).is_empty()
    };
    if !name.ends_with(of_version) || known(name) {
        return name;
    }
    let mut short = name;
    while let Some(shorter) = short.strip_suffix(of_version) {
        short = shorter;
        if known(short) && !short.is_empty() {
            return short;
        }
    }
    name
}

pub(super) fn is_assignment(word: &Word) -> bool {
    let name = shell_name(&word.literal);
    !name.is_empty() && word.literal[name.len()..].starts_with('=')
}

/// A path without the `./` before it.
pub(super) fn plain_path(path: &str) -> &str {
    path.trim_start_matches("./")
}
