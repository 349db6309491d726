//! What a word can be: the facts of its parts, and of the word as a whole.

use std::borrow::Cow;
use std::ops::Range;

use ecow::EcoString;
use threadline_lang::Binding;

use super::super::Dialect;
use super::super::hazards::EXPANDED_AGAIN;
use super::super::options::HasWord;
use super::super::tree::{Arithmetic, KeySort, Operation, Parameter, Word, WordPart};
use super::fact::{Fact, Literals, Passage, ValueSource};
use super::{FactKey, ValueFollower};

/// What to do about text in arithmetic that a program made out of a value.
pub(super) const DERIVED_INT_FIX: &str = "compare with `[ \"$n\" -gt 3 ]`, which evaluates nothing, or check \
                                          it first: `[[ $n =~ ^[0-9]+$ ]] || exit 1`";

/// Marks a literal that stands for an unknown text which is always the same, such as a variable of the
/// environment.
const OPAQUE: char = '\0';

/// A word with what is known about its parts.
pub(super) struct FollowedWord<'w> {
    word: Cow<'w, Word>,
    facts: Vec<Fact>,
    /// The word as a whole.
    pub fact: Fact,
}

impl HasWord for FollowedWord<'_> {
    fn word(&self) -> &Word {
        &self.word
    }
}

impl<'w> FollowedWord<'w> {
    /// A word that stands nowhere in the text.
    pub(super) fn made(word: Word, fact: Fact) -> Self {
        let facts = word.parts.iter().map(|_| fact.clone()).collect();
        Self { word: Cow::Owned(word), facts, fact }
    }

    /// The word with its own copy of the text.
    pub(super) fn owned(&self) -> FollowedWord<'static> {
        FollowedWord {
            word: Cow::Owned(self.word.clone().into_owned()),
            facts: self.facts.clone(),
            fact: self.fact.clone(),
        }
    }

    pub(super) fn parts(&self) -> impl Iterator<Item = (&WordPart, &Fact)> {
        self.word.parts.iter().zip(&self.facts)
    }

    pub(super) fn text(&self) -> Option<&str> {
        self.word.text()
    }

    pub(super) fn range(&self) -> Range<usize> {
        self.word.range.clone()
    }

    /// Whether the shell can make several words of it, or none.
    pub(super) fn is_several(&self) -> bool {
        self.word.parts.iter().any(|part| match part {
            WordPart::Parameter(parameter) => {
                let list = matches!(parameter.name.as_str(), "@" | "*");
                let array =
                    parameter.subscript.as_ref().is_some_and(|subscript| subscript.word.parts.len() == 1);
                !parameter.quoted || list || array && parameter.subscript.is_some()
            }
            WordPart::Substitution { quoted, .. } => !quoted,
            WordPart::Arrival => true,
            _ => false,
        })
    }

    /// The word without literal text at its start, as the value in `NAME=value`.
    pub(super) fn without_prefix(&self, length: usize) -> FollowedWord<'w> {
        let mut word = self.word.clone().into_owned();
        let (mut facts, mut fact) = (self.facts.clone(), self.fact.clone());
        word.literal = word.literal.get(length..).unwrap_or_default().to_owned();
        if let Some(WordPart::Text(text)) = word.parts.first_mut() {
            *text = text.get(length..).unwrap_or_default().into();
            if text.is_empty() {
                word.parts.remove(0);
                facts.remove(0);
            }
        }
        if let Literals::Known(known) = &mut fact.literals {
            for text in known {
                *text = text.get(length..).unwrap_or_default().into();
            }
        }
        // The value begins where the prefix ends.
        if let Some(first) = facts.first()
            && !matches!(word.parts.first(), Some(WordPart::Text(_)))
        {
            fact.join_sources(first);
        }
        FollowedWord { word: Cow::Owned(word), facts, fact }
    }

    /// The same word as seen by a program that puts its standard input in place of `mark`.
    pub(super) fn with_arrival(&self, mark: &str, arrival: &Fact) -> FollowedWord<'w> {
        let mut word = self.word.clone().into_owned();
        let (mut facts, mut fact) = (self.facts.clone(), self.fact.clone());
        if word.literal.contains(mark) {
            let begins = word.literal.starts_with(mark);
            word.fixed = false;
            word.literal.truncate(word.literal.find(mark).unwrap_or(0));
            let arrived = if begins { arrival.clone() } else { arrival.behind_text() };
            let at = if begins { 0 } else { word.parts.len() };
            word.parts.insert(at, WordPart::Arrival);
            facts.insert(at, arrived.clone());
            fact.join_sources(&arrived);
            fact.literals = Literals::Any;
        }
        FollowedWord { word: Cow::Owned(word), facts, fact }
    }
}

/// How a part is named in a message.
pub(super) fn name_part(part: &WordPart) -> EcoString {
    match part {
        WordPart::Parameter(parameter) if !parameter.name.is_empty() => {
            let special = parameter.name.starts_with(|char: char| !char.is_ascii_alphabetic() && char != '_');
            let sign = if special { "$" } else { "" };
            ecow::eco_format!("`{sign}{}`", parameter.name)
        }
        WordPart::Substitution { .. } => "this substitution".into(),
        WordPart::Process { .. } => "this process".into(),
        WordPart::Arrival => "standard input".into(),
        _ => "this text".into(),
    }
}

/// Where a part stands.
pub(super) fn part_range(part: &WordPart, word: &FollowedWord<'_>) -> Range<usize> {
    match part {
        WordPart::Parameter(parameter) => parameter.range.clone(),
        WordPart::Substitution { range, .. } | WordPart::Process { range, .. } | WordPart::Unread(range) => {
            range.clone()
        }
        WordPart::Arithmetic(arithmetic) => arithmetic.range.clone(),
        _ => word.range(),
    }
}

impl ValueFollower<'_> {
    /// Finds what a word can be. `splits` says whether the shell splits what is not quoted in it.
    pub(super) fn follow_word<'w>(&mut self, word: &'w Word, splits: bool) -> FollowedWord<'w> {
        let facts: Vec<Fact> = word.parts.iter().map(|part| self.follow_part(part, splits)).collect();
        let mut fact = Fact::literal("");
        let mut begins = true;
        for (part, known) in word.parts.iter().zip(&facts) {
            fact.followed_by(known, begins);
            begins &= !matches!(part, WordPart::Text(_));
        }
        FollowedWord { word: Cow::Borrowed(word), facts, fact }
    }

    fn follow_part(&mut self, part: &WordPart, splits: bool) -> Fact {
        if self.is_exhausted() {
            return Fact::unknown();
        }
        match part {
            WordPart::Text(text) => Fact::literal(text),
            WordPart::Slot(slot) => self.follow_slot(*slot),
            WordPart::Parameter(parameter) => self.follow_parameter(parameter, splits),
            WordPart::Substitution { list, quoted, .. } => {
                let input = self.input.clone();
                let output = self.walk_list(list, &input);
                let mut fact = output.out;
                if list.items.len() != 1 {
                    fact.literals = Literals::Any;
                }
                if !quoted && splits { fact.split() } else { fact }
            }
            WordPart::Process { list, is_output: false, .. } => {
                let output = self.walk_list(list, &Fact::default());
                output.out.passed(|passage| passage.with(Passage::IN_FILE).without(Passage::BEGINS))
            }
            // What arrives there is known to the command that has it as an argument.
            WordPart::Process { .. } | WordPart::Arrival => Fact::unknown(),
            WordPart::Arithmetic(arithmetic) => {
                self.check_arithmetic(arithmetic);
                Fact::unknown()
            }
            WordPart::Unread(range) => {
                if self.held_from.is_some() {
                    self.report_not_known(
                        range.clone(),
                        "backquotes with backslashes are not followed, and variables of the script hold values",
                        "write `$(...)`",
                    );
                }
                Fact::unknown()
            }
        }
    }

    fn follow_slot(&self, slot: usize) -> Fact {
        let Some(found) = self.slots.get(slot) else { return Fact::unknown() };
        let binding = found.reference.binding();
        if binding == Some(Binding::Raw)
            || (self.context.is_plain)(&found.reference)
            || self.guards.iter().any(|guard| guard.key == found.reference.text())
        {
            return Fact::unknown();
        }
        let passage = if binding == Some(Binding::AsFile) { Passage::IN_FILE } else { Passage::BEGINS };
        Fact::of(ValueSource::Slot(u32::try_from(slot).unwrap_or(u32::MAX)), passage)
    }

    fn follow_parameter(&mut self, parameter: &Parameter, splits: bool) -> Fact {
        if let Some(subscript) = &parameter.subscript {
            self.check_arithmetic(subscript);
        }
        let operand = self.follow_word(&parameter.operand, false);
        let mut base = if parameter.name.is_empty() {
            operand.fact.clone()
        } else {
            self.follow_name_at(&parameter.name, parameter.range.start)
        };
        if let Some(hazard) = parameter.evaluates {
            let part = name_of_parameter(parameter);
            self.apply_to_fact(&base, hazard, &part, &parameter.range);
            if base.holds_value() || hazard.is(&EXPANDED_AGAIN) {
                base = base.derived();
            } else {
                // The variable that is named can hold a value.
                base = self.follow_indirect(&base);
            }
        }
        // The keys of a plain array are numbers.
        if parameter.is_length || parameter.lists_keys == Some(KeySort::Index) {
            return Fact::unknown();
        }
        let fact = match &parameter.operation {
            Operation::Plain => base,
            Operation::Default { assigns } => {
                if *assigns {
                    self.set_variable(&parameter.name, &operand.fact, parameter.range.start);
                }
                let mut fact = base;
                fact.join(&operand.fact);
                fact
            }
            Operation::Alternative => operand.fact,
            Operation::KeepDigits => Fact::unknown(),
            Operation::TrimEnd => base.passed(|passage| passage.with(Passage::TRIMMED)),
            Operation::Change => {
                let mut fact = base.derived();
                fact.join_sources(&operand.fact.derived());
                fact
            }
            Operation::Substring(offset) => {
                self.check_arithmetic(offset);
                base.derived()
            }
        };
        let list = matches!(parameter.name.as_str(), "@" | "*");
        let splitting = splits && !parameter.quoted && self.dialect != Dialect::Zsh;
        if splitting || list && !parameter.quoted { fact.split() } else { fact }
    }

    /// What a variable or parameter can hold at a position.
    fn follow_name_at(&self, name: &str, at: usize) -> Fact {
        let guarded = self.guards.iter().any(|guard| guard.key == name);
        match name.parse::<usize>() {
            Ok(number) if number > 0 && !guarded => {
                let (least, most) = self.shifted_before(at);
                self.follow_argument(number, least, most)
            }
            _ => self.follow_name(name),
        }
    }

    /// What an argument can hold after some have been shifted away.
    fn follow_argument(&self, number: usize, least: usize, most: usize) -> Fact {
        let frame = &self.frame;
        let mut fact = Fact::default();
        for known in 1..=9 {
            if (number + least..=number.saturating_add(most)).contains(&known) {
                fact.join(&self.fact(&FactKey::Argument(frame.clone(), known)));
            }
            if known <= number.saturating_add(most) {
                fact.join(&self.fact(&FactKey::LaterArgument(frame.clone(), known)));
            }
        }
        if fact == Fact::default() { Fact::literal(&format!("{OPAQUE}${number}")) } else { fact }
    }

    /// What a variable or parameter can hold.
    pub(super) fn follow_name(&self, name: &str) -> Fact {
        if let Some(guard) = self.guards.iter().rev().find(|guard| guard.key == name) {
            return guard.fact();
        }
        let frame = &self.frame;
        let argument = |at: usize| self.fact(&FactKey::Argument(frame.clone(), at));
        let later = |at: usize| self.fact(&FactKey::LaterArgument(frame.clone(), at));
        match name {
            "@" | "*" => {
                let mut fact = Fact::default();
                for at in 1..=9 {
                    fact.join(&argument(at));
                    fact.join(&later(at));
                }
                fact
            }
            "#" | "?" | "$" | "!" | "-" | "0" => Fact::unknown(),
            _ if name.bytes().all(|byte| byte.is_ascii_digit()) => {
                self.follow_argument(name.parse().unwrap_or(9), 0, usize::MAX)
            }
            _ => match self.facts.get(&FactKey::Variable(name.into())) {
                Some(fact) => fact.clone(),
                None => Fact::literal(&format!("{OPAQUE}{name}")),
            },
        }
    }

    fn follow_indirect(&self, name: &Fact) -> Fact {
        let mut fact = Fact::default();
        let (names, any) = name.texts();
        for name in names {
            fact.join(&self.follow_name(name));
        }
        if any {
            for (key, held) in &self.facts {
                if matches!(key, FactKey::Variable(_)) {
                    fact.join_sources(held);
                }
            }
            fact.literals = Literals::Any;
        }
        fact
    }

    /// Reports what arithmetic evaluates. Its result is a number.
    pub(super) fn check_arithmetic(&mut self, arithmetic: &Arithmetic) {
        let word = self.follow_word(&arithmetic.word, false);
        if arithmetic.is_key {
            return;
        }
        self.apply_to_word(&word, arithmetic.hazard);
        for name in &arithmetic.names {
            self.check_arithmetic_name(name, arithmetic);
        }
    }

    fn check_arithmetic_name(&mut self, name: &EcoString, arithmetic: &Arithmetic) {
        let fact = self.follow_name(name);
        self.apply_to_fact(&fact, arithmetic.hazard, &ecow::eco_format!("`{name}`"), &arithmetic.range);
    }

    /// Applies a hazard to the variables that the text of a word names, as arithmetic reads them.
    pub(super) fn apply_to_bare_names(&mut self, word: &FollowedWord<'_>, hazard: &'static super::Hazard) {
        let texts: Vec<EcoString> = word
            .parts()
            .filter_map(|(part, _)| match part {
                WordPart::Text(text) => Some(text.clone()),
                _ => None,
            })
            .collect();
        for text in texts {
            for name in text.split(|char: char| !(char.is_ascii_alphanumeric() || char == '_')) {
                if self.facts.contains_key(&FactKey::Variable(name.into())) {
                    let fact = self.follow_name(name);
                    self.apply_to_fact(&fact, hazard, &ecow::eco_format!("`{name}`"), &word.range());
                }
            }
        }
    }
}

fn name_of_parameter(parameter: &Parameter) -> EcoString {
    if parameter.name.is_empty() { "this text".into() } else { ecow::eco_format!("`{}`", parameter.name) }
}

/// Whether a literal stands for a text that is not known.
pub(super) fn is_opaque(literal: &str) -> bool {
    literal.contains(OPAQUE)
}

/// A literal that stands for the path that one call of `mktemp` prints.
pub(super) fn opaque_path(at: usize) -> Fact {
    Fact::literal(&format!("{OPAQUE}mktemp {at}"))
}
