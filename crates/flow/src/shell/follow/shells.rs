//! Texts that another shell runs, or the same one again: `sh -c`, `eval`, `trap`, and scripts on standard
//! input. A text that is known is read and walked; one that is not known is refused if values can reach it.

use std::rc::Rc;

use ecow::EcoString;

use super::super::hazards::{SCRIPT_FILE, SCRIPT_NAME, SHELLS};
use super::super::options::{HasWord, has_option, operands, takes_interpreter_value};
use super::super::reader;
use super::super::tree::ScriptTree;
use super::super::{AnalysisContext, Dialect};
use super::fact::Fact;
use super::words::{FollowedWord, is_opaque};
use super::{FactKey, ValueFollower};

/// Maximum nesting of texts that shells run.
const MAX_INNER_TEXTS: usize = 6;

impl ValueFollower<'_> {
    /// Follows the text that a command hands to a shell.
    pub(super) fn run_shell(&mut self, name: &str, words: &[FollowedWord<'_>], input: &Fact) -> Fact {
        let outer = std::mem::take(&mut self.inner_output);
        self.run_shell_text(name, words, input);
        std::mem::replace(&mut self.inner_output, outer)
    }

    fn run_shell_text(&mut self, name: &str, words: &[FollowedWord<'_>], input: &Fact) {
        match name {
            "eval" => self.run_eval(words),
            "trap" => {
                if let Some(at) = operands(&words[1..], |_| 0).first() {
                    let word = &words[at + 1];
                    if word.text().is_some_and(|text| !text.is_empty() && text != "-") {
                        self.walk_known_texts(word, &[], None, &Fact::default());
                    }
                }
            }
            "source" | "." => self.run_sourced(words, input),
            "ssh" | "rsh" | "autossh" => self.run_remote(words, input),
            _ if SHELLS.contains(&name) => self.run_shell_program(name, words, input),
            "su" | "runuser" | "script" | "flock" | "sg" => {
                if let Some(at) = words.iter().position(|word| has_option(word.word(), &["-c", "--command"]))
                    && let Some(text) = words.get(at + 1)
                {
                    self.walk_known_texts(text, &[], Some(Dialect::Bash), input);
                }
            }
            _ => {}
        }
    }

    fn run_eval(&mut self, words: &[FollowedWord<'_>]) {
        let mut text = String::new();
        let mut fixed = true;
        for word in &words[1..] {
            fixed &= word.text().is_some();
            text.push_str(word.text().unwrap_or_default());
            text.push(' ');
        }
        if fixed {
            self.walk_inner(&text, None, &[], &Fact::default(), words[0].range());
        } else if !words[1..].iter().any(|word| word.fact.holds_value()) && self.values_are_held(words) {
            self.report_not_known(
                words[0].range(),
                "`eval` runs text that is not known before the run, and variables of the script hold values",
                "write out the command, or move `eval` before the values",
            );
        }
    }

    /// Whether variables of the shell can hold values where a command stands.
    fn values_are_held(&self, words: &[FollowedWord<'_>]) -> bool {
        let at = words[0].range().start;
        match self.held_from {
            Some(from) => from < at || !self.frame.is_empty() || self.inner_span.is_some(),
            None => false,
        }
    }

    fn run_sourced(&mut self, words: &[FollowedWord<'_>], input: &Fact) {
        let Some(file) = words.get(1) else { return };
        let mut content = self.content(file);
        if matches!(file.text(), Some("/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0")) {
            content.join_sources(input);
        }
        self.apply_to_fact(&content, &SCRIPT_FILE, "this file", &file.range());
        let given = words[2..].iter().any(|word| word.fact.holds_value());
        // A file of settings assigns variables, and runs nothing else.
        let is_settings = file.text().is_some_and(|path| {
            let name = path.rsplit('/').next().unwrap_or(path);
            name == ".env" || name.starts_with(".env.")
        });
        if given || self.values_are_held(words) && !is_settings {
            self.report_not_known(
                words[0].range(),
                "the file that is run here is not followed, and variables of the script hold values",
                "move it before the values",
            );
        }
    }

    /// `ssh host 'text'`: the text is run by a shell of the other machine.
    fn run_remote(&mut self, words: &[FollowedWord<'_>], input: &Fact) {
        let found = operands(&words[1..], |option| {
            super::super::options::value_count(option, super::super::hazards::REMOTE_SHELL_VALUES)
        });
        let mut text = String::new();
        for at in found.iter().skip(1) {
            let Some(word) = words[at + 1].text() else { return };
            text.push_str(word);
            text.push(' ');
        }
        if !text.is_empty() {
            self.walk_inner(&text, Some(Dialect::Bash), &[], input, words[0].range());
        }
    }

    fn run_shell_program(&mut self, name: &str, words: &[FollowedWord<'_>], input: &Fact) {
        let dialect = match name {
            "zsh" => Dialect::Zsh,
            "dash" | "ash" => Dialect::Posix,
            _ => Dialect::Bash,
        };
        let mut at = 1;
        let mut from_input = false;
        while at < words.len() {
            let word = words[at].word();
            if word.is("--") || word.is("-") {
                at += 1;
                break;
            }
            if !word.literal.starts_with(['-', '+']) {
                break;
            }
            let letters = !word.literal.starts_with("--");
            if letters && has_option(word, &["-c"]) {
                let arguments = words.get(at + 3..).unwrap_or_default();
                if let Some(text) = words.get(at + 1) {
                    self.walk_known_texts(text, arguments, Some(dialect), input);
                }
                return;
            }
            from_input |= letters && has_option(word, &["-s"]);
            at += usize::from(takes_interpreter_value(name, word)) + 1;
        }
        let rest = words.get(at..).unwrap_or_default();
        match rest.split_first() {
            Some(_) if !from_input => {}
            _ => {
                let arguments = if from_input { rest } else { &[] };
                let script = FollowedWord::made(
                    super::super::tree::Word { range: words[0].range(), ..Default::default() },
                    input.clone(),
                );
                if !input.holds_value() {
                    self.walk_known_texts(&script, arguments, Some(dialect), &Fact::default());
                }
            }
        }
    }

    /// Refuses a value that chooses the file to run; a folder before it is the author's choice.
    pub(super) fn apply_to_script_name(&mut self, file: &FollowedWord<'_>) {
        if file.fact.holds_value() {
            self.apply_to_word(file, &SCRIPT_NAME);
        }
    }

    /// Walks the texts that a word can be. If there are others, values must not reach them.
    fn walk_known_texts(
        &mut self,
        word: &FollowedWord<'_>,
        arguments: &[FollowedWord<'_>],
        dialect: Option<Dialect>,
        input: &Fact,
    ) {
        if word.fact.holds_value() {
            return;
        }
        let (texts, any) = word.fact.texts();
        let mut unknown = any;
        for text in texts {
            if is_opaque(text) {
                unknown = true;
            } else if !text.is_empty() {
                self.walk_inner(text, dialect, arguments, input, word.range());
            }
        }
        let given = arguments.iter().any(|argument| argument.fact.holds_value()) || input.holds_value();
        if unknown && given {
            self.report_not_known(
                word.range(),
                "a value is given to shell text that is not known before the run",
                "write out the text",
            );
        }
    }

    /// Walks a text that a shell runs. Without a dialect, it is run by the same shell, with its arguments.
    fn walk_inner(
        &mut self,
        text: &str,
        dialect: Option<Dialect>,
        arguments: &[FollowedWord<'_>],
        input: &Fact,
        range: std::ops::Range<usize>,
    ) {
        let Some(tree) = self.read_inner(text, dialect.unwrap_or(self.dialect)) else {
            let given = arguments.iter().any(|argument| argument.fact.holds_value());
            if given || input.holds_value() || self.held_from.is_some() {
                self.report_not_known(
                    range,
                    "the text that a shell runs here cannot be read",
                    "write it simpler",
                );
            }
            return;
        };
        let frame = match dialect {
            Some(_) => EcoString::from(format!("\0{text}")),
            None => self.frame.clone(),
        };
        self.pass_arguments(&frame, arguments);
        let outer_frame = std::mem::replace(&mut self.frame, frame);
        let outer_dialect = self.dialect;
        self.dialect = dialect.unwrap_or(outer_dialect);
        let guards = std::mem::take(&mut self.guards);
        let branch = std::mem::replace(&mut self.branch, super::Branch::Always);
        let span = self.span(&range);
        let outer_span = self.inner_span.replace(span);
        let expands = self.expands_patterns;
        self.trees.push(Rc::clone(&tree));
        let output = self.walk_list(&tree.body, input);
        self.trees.pop();
        self.expands_patterns = expands;
        self.inner_span = outer_span;
        self.guards = guards;
        self.branch = branch;
        self.dialect = outer_dialect;
        let frame = std::mem::replace(&mut self.frame, outer_frame);
        self.inner_output.join_sources(&output.out);
        self.add_fact(FactKey::Output(frame), &output.out);
    }

    fn read_inner(&mut self, text: &str, dialect: Dialect) -> Option<Rc<ScriptTree>> {
        if self.trees.len() > MAX_INNER_TEXTS {
            return None;
        }
        let key = (dialect as u8, EcoString::from(text));
        if let Some(known) = self.inner_trees.get(&key) {
            return known.clone();
        }
        let context = AnalysisContext { dialect, ..*self.context };
        let tree = reader::read_inner(text, &context).map(Rc::new);
        self.inner_trees.insert(key, tree.clone());
        tree
    }
}
