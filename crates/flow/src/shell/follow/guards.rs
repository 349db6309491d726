//! Guards: tests behind which a variable is known to hold a number, or one of a few texts.
//!
//! A guard holds from where the test has passed to the end of the list that it stands in, or until a value is
//! put into the variable again.

use std::collections::BTreeMap;

use ecow::EcoString;

use super::super::Dialect;
use super::super::tree::{
    AssignedWords, CaseClause, CommandList, CommandSyntax, Joint, Operation, Pipeline, ShellCommand, Word,
    WordPart,
};
use super::ValueFollower;
use super::fact::{Fact, Literals};

/// A variable, argument or reference that a test has passed.
#[derive(Debug, Clone)]
pub(super) struct Guard {
    /// The name of the variable, or the text of the reference.
    pub key: EcoString,
    /// The texts that it can be; `None` is a number.
    texts: Option<Vec<EcoString>>,
}

impl Guard {
    fn number(key: EcoString) -> Self {
        Self { key, texts: None }
    }

    pub(super) fn fact(&self) -> Fact {
        let literals = self.texts.clone().map_or(Literals::Any, Literals::Known);
        Fact { literals, ..Fact::default() }
    }
}

/// Whether nothing that follows runs behind a pipeline: `exit`, `return`, `continue`, `break`.
pub(super) fn diverges(pipeline: &Pipeline, functions: &BTreeMap<EcoString, bool>) -> bool {
    matches!(&pipeline.commands[..], [command] if command_diverges(command, functions))
}

pub(super) fn command_diverges(command: &ShellCommand, functions: &BTreeMap<EcoString, bool>) -> bool {
    match &command.syntax {
        CommandSyntax::Simple { words, .. } => words.first().and_then(Word::text).is_some_and(|name| {
            matches!(name, "exit" | "return" | "continue" | "break")
                || functions.get(name).is_some_and(|ends| *ends)
        }),
        CommandSyntax::Group(list) => list_diverges(list, functions),
        _ => false,
    }
}

fn list_diverges(list: &CommandList, functions: &BTreeMap<EcoString, bool>) -> bool {
    list.items.last().is_some_and(|item| item.joint == Joint::Sequence && diverges(&item.pipeline, functions))
}

impl ValueFollower<'_> {
    /// What a test guards, and whether it guards when it succeeds.
    pub(super) fn find_guards(&self, pipeline: &Pipeline) -> Vec<(Guard, bool)> {
        let [command] = &pipeline.commands[..] else { return Vec::new() };
        let (words, evaluates) = match &command.syntax {
            CommandSyntax::Conditional(words) => (&words[1..], true),
            CommandSyntax::Simple { assignments, words } if assignments.is_empty() => {
                match words.first().and_then(Word::text) {
                    Some("[" | "test") => (&words[1..], false),
                    _ => return Vec::new(),
                }
            }
            _ => return Vec::new(),
        };
        let words = match words.split_last() {
            Some((last, rest)) if !evaluates && last.is("]") => rest,
            _ => words,
        };
        let tests = if evaluates { split_conditional(words) } else { vec![words] };
        let alone = tests.len() == 1;
        let found = tests.into_iter().filter_map(|test| self.find_guard_of_test(test, evaluates));
        // Of several tests joined by `&&`, each one holds where all do; where they fail, nothing is known.
        let found = found.filter(|(_, holds)| alone || *holds && !pipeline.negated);
        found.map(|(guard, holds)| (guard, holds != pipeline.negated)).collect()
    }

    /// What one comparison guards, and whether it guards when it succeeds.
    pub(super) fn find_guard_of_test(&self, words: &[Word], evaluates: bool) -> Option<(Guard, bool)> {
        let (words, negated) = match words {
            [not, rest @ ..] if not.is("!") => (rest, true),
            _ => (words, false),
        };
        let [left, operator, right] = words else { return None };
        let guard = match operator.literal.as_str() {
            "=~" if right.fixed && !right.quoted && is_number_pattern(&right.literal) => {
                self.key_of(left).map(Guard::number)
            }
            "=" | "==" if right.fixed && (right.quoted || !is_pattern(&right.literal)) => {
                self.key_of(left).map(|key| Guard { key, texts: Some(vec![right.literal.as_str().into()]) })
            }
            // `[` fails unless both sides are numbers; `[[` evaluates them.
            "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge"
                if !evaluates && !negated && self.dialect != Dialect::Zsh =>
            {
                self.key_of(left).map(Guard::number)
            }
            _ => None,
        };
        guard.map(|guard| (guard, !negated))
    }

    /// What holds in the body behind a condition: the tests that are joined by `&&`.
    pub(super) fn find_guards_of_condition(&self, condition: &CommandList) -> Vec<Guard> {
        let Some(from) = condition.items.iter().rposition(|item| item.joint == Joint::Sequence) else {
            return Vec::new();
        };
        let chain = &condition.items[from..];
        if chain.iter().any(|item| item.joint == Joint::Or) {
            return Vec::new();
        }
        let tests = chain.iter().flat_map(|item| self.find_guards(&item.pipeline));
        tests.filter(|(_, holds)| *holds).map(|(guard, _)| guard).collect()
    }

    /// What holds where a condition of one test has failed.
    pub(super) fn find_denied_guards(&self, condition: &CommandList) -> Vec<Guard> {
        let [item] = &condition.items[..] else { return Vec::new() };
        let denied = self.find_guards(&item.pipeline).into_iter().filter(|(_, holds)| !holds);
        denied.map(|(guard, _)| guard).collect()
    }

    /// What holds after a command because it ends everything otherwise: `if ! test; then exit; fi`, `case`.
    pub(super) fn find_later_guards(&self, pipeline: &Pipeline) -> Vec<Guard> {
        let [command] = &pipeline.commands[..] else { return Vec::new() };
        match &command.syntax {
            CommandSyntax::If { branches, otherwise } => match &branches[..] {
                [(condition, body)] if otherwise.items.is_empty() && list_diverges(body, &self.functions) => {
                    self.find_denied_guards(condition)
                }
                _ => Vec::new(),
            },
            CommandSyntax::Case { subject, clauses } => {
                let guards = clauses.iter().filter_map(|clause| {
                    let replaced = replaces_subject(subject, &clause.body);
                    let ends = list_diverges(&clause.body, &self.functions) || replaced;
                    self.find_guard_behind_clause(subject, clause).filter(|_| ends)
                });
                let guards: Vec<_> = guards.collect();
                // A clause before it could have matched and gone on.
                let first = clauses.first().and_then(|clause| self.find_guard_behind_clause(subject, clause));
                if first.is_some() {
                    guards
                } else {
                    self.find_exhaustive(subject, clauses).into_iter().collect()
                }
            }
            _ => Vec::new(),
        }
    }

    /// `case $x in a|b) ;; *) exit ;; esac`: one of the texts, or nothing goes on.
    fn find_exhaustive(&self, subject: &Word, clauses: &[CaseClause]) -> Option<Guard> {
        let (last, others) = clauses.split_last()?;
        let is_rest = matches!(&last.patterns[..], [pattern] if pattern.is("*"));
        if !is_rest || !list_diverges(&last.body, &self.functions) {
            return None;
        }
        let mut texts = Vec::new();
        let mut numbers = 0;
        for clause in others {
            let guard = self.find_guard_of_clause(subject, clause)?;
            match guard.texts {
                Some(more) => texts.extend(more),
                None => numbers += 1,
            }
        }
        let key = self.key_of(subject)?;
        if numbers > 0 {
            return texts.iter().all(|text| is_number(text)).then(|| Guard::number(key));
        }
        Some(Guard { key, texts: Some(texts) })
    }

    /// What holds in a clause of `case`.
    pub(super) fn find_guard_of_clause(&self, subject: &Word, clause: &CaseClause) -> Option<Guard> {
        let key = self.key_of(subject)?;
        let all = |test: fn(&Word) -> bool| !clause.patterns.is_empty() && clause.patterns.iter().all(test);
        if all(|pattern| pattern.fixed && (pattern.quoted || !is_pattern(&pattern.literal))) {
            let texts = clause.patterns.iter().map(|pattern| pattern.literal.as_str().into()).collect();
            return Some(Guard { key, texts: Some(texts) });
        }
        if all(|pattern| pattern.fixed && !pattern.quoted && is_digit_pattern(&pattern.literal)) {
            return Some(Guard::number(key));
        }
        None
    }

    /// What holds where a clause has not matched: behind `*[!0-9]*` there are only digits.
    pub(super) fn find_guard_behind_clause(&self, subject: &Word, clause: &CaseClause) -> Option<Guard> {
        let denies = clause.patterns.iter().any(|pattern| {
            pattern.fixed
                && !pattern.quoted
                && ["*[!0-9]*", "*[^0-9]*", "*[!0-9-]*", "*[!0-9.]*", "*[![:digit:]]*"]
                    .contains(&pattern.literal.as_str())
        });
        denies.then(|| self.key_of(subject).map(Guard::number)).flatten()
    }

    /// The variable, argument or reference that a word is.
    fn key_of(&self, word: &Word) -> Option<EcoString> {
        match &word.parts[..] {
            [WordPart::Parameter(parameter)]
                if matches!(parameter.operation, Operation::Plain)
                    && parameter.subscript.is_none()
                    && parameter.evaluates.is_none()
                    && !parameter.is_length
                    && !matches!(parameter.name.as_str(), "@" | "*") =>
            {
                Some(parameter.name.clone())
            }
            [WordPart::Slot(slot)] => self.slots.get(*slot).map(|slot| slot.reference.text().into()),
            _ => None,
        }
    }

    /// Drops the guards of variables that a loop assigns: the next turn can be without the test.
    pub(super) fn drop_guards_of_loop(&mut self, lists: &[&CommandList]) {
        if self.guards.is_empty() {
            return;
        }
        let mut names = Vec::new();
        for list in lists {
            assigned_names(list, &mut names);
        }
        let shifts = names.iter().any(|name| name == "shift");
        self.guards.retain(|guard| {
            let argument = guard.key.bytes().all(|byte| byte.is_ascii_digit());
            !(names.contains(&guard.key) || shifts && argument)
        });
    }
}

/// The comparisons of `[[ ... ]]` that are joined by `&&`. With `||` or parentheses, they are one.
pub(super) fn split_conditional(words: &[Word]) -> Vec<&[Word]> {
    let words = match words.first() {
        Some(first) if first.is("[[") => &words[1..],
        _ => words,
    };
    let operator = |word: &Word, text: &str| word.range.is_empty() && word.literal == text;
    if words.iter().any(|word| ["|", "(", ")"].iter().any(|text| operator(word, text))) {
        return vec![words];
    }
    let mut tests = Vec::new();
    let mut from = 0;
    for at in 1..words.len() {
        if operator(&words[at - 1], "&") && operator(&words[at], "&") && at > from {
            tests.push(&words[from..at - 1]);
            from = at + 1;
        }
    }
    tests.push(&words[from.min(words.len())..]);
    tests
}

/// Whether everything that a regular expression matches is digits, dots, colons and signs.
pub(super) fn matches_digits(pattern: &str) -> bool {
    let inner = pattern.trim_start_matches('^').trim_end_matches('$');
    is_number_pattern(&format!("^({inner})$"))
}

/// Whether a clause puts a literal number in place of its subject.
fn replaces_subject(subject: &Word, body: &CommandList) -> bool {
    let [WordPart::Parameter(parameter)] = &subject.parts[..] else { return false };
    body.items.iter().any(|item| {
        let [command] = &item.pipeline.commands[..] else { return false };
        let CommandSyntax::Simple { assignments, words } = &command.syntax else { return false };
        words.is_empty() && assignments.iter().any(|assignment| {
            assignment.name == parameter.name
                && matches!(&assignment.value, AssignedWords::One(word) if word.text().is_some_and(is_number))
        })
    })
}

/// The variables that commands assign, by assignment or as arguments; `shift` stands for the arguments.
fn assigned_names(list: &CommandList, names: &mut Vec<EcoString>) {
    for item in &list.items {
        for command in &item.pipeline.commands {
            match &command.syntax {
                CommandSyntax::Simple { assignments, words } => {
                    names.extend(assignments.iter().map(|assignment| assignment.name.clone()));
                    // `read NAME`, `printf -v NAME`, `local NAME=...` and the like.
                    names.extend(words.iter().filter_map(|word| {
                        let name = super::super::names::shell_name(&word.literal);
                        (!name.is_empty()).then(|| name.into())
                    }));
                }
                CommandSyntax::Group(list) => assigned_names(list, names),
                CommandSyntax::If { branches, otherwise } => {
                    for (condition, body) in branches {
                        assigned_names(condition, names);
                        assigned_names(body, names);
                    }
                    assigned_names(otherwise, names);
                }
                CommandSyntax::While { condition, body, .. } => {
                    assigned_names(condition, names);
                    assigned_names(body, names);
                }
                CommandSyntax::For { name, body, .. } => {
                    names.push(name.literal.as_str().into());
                    assigned_names(body, names);
                }
                CommandSyntax::Counted { body, .. } => assigned_names(body, names),
                CommandSyntax::Case { clauses, .. } => {
                    for clause in clauses {
                        assigned_names(&clause.body, names);
                    }
                }
                CommandSyntax::Arithmetic(_)
                | CommandSyntax::Conditional(_)
                | CommandSyntax::Function { .. }
                | CommandSyntax::Coprocess { .. } => {}
            }
        }
    }
}

/// Whether a regular expression matches numbers only: digits, signs, dots and colons, from start to end.
fn is_number_pattern(pattern: &str) -> bool {
    let Some(inner) = pattern.strip_prefix('^').and_then(|inner| inner.strip_suffix('$')) else {
        return false;
    };
    let inner = inner.replace("[[:digit:]]", "[0-9]").replace("\\.", "[.]").replace("\\-", "-");
    let (mut depth, mut class) = (0_i32, false);
    for char in inner.chars() {
        match char {
            '[' if class => return false,
            '[' => class = true,
            ']' => class = false,
            '(' if !class => depth += 1,
            ')' if !class => depth -= 1,
            '|' if !class && depth == 0 => return false,
            '.' if !class => return false,
            '0'..='9' | '-' | '+' | '*' | '?' | '{' | '}' | ',' | '|' | '.' | ':' => {}
            _ => return false,
        }
    }
    !inner.is_empty()
}

/// Whether a pattern of `case` matches digits only.
fn is_digit_pattern(pattern: &str) -> bool {
    let plain = pattern.replace("[0-9]", "0").replace("[1-9]", "1");
    is_number(&plain)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '[', '(', '{', '~', '\\'])
}
