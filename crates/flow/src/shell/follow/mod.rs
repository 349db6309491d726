//! Follows values through a shell text: from the references and `env:` through variables, functions,
//! substitutions, standard input and files, to the places that evaluate text.
//!
//! The tree is walked until nothing new is found, and once more to report. What a variable can hold is the
//! union of all that the text ever puts there, in any order, so that functions and loops need no order.
//! Only a guard (`[[ $n =~ ^[0-9]+$ ]] || exit 1`) depends on where it stands. Nothing is run, and a value is
//! never known; only that it can get somewhere.

mod apply;
mod commands;
mod fact;
mod guards;
mod programs;
mod shells;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use ecow::EcoString;
use threadline_lang::Binding;
use threadline_lang::diag::{Severity, Span};

use super::hazards::{
    EXPANDED_AGAIN, Hazard, HazardRule, RUNNING_OPTION, SHELL_TEXT, UNQUOTED_VARIABLE, XARGS_INPUT,
};
use super::reader::{ReferenceSlot, TextPlaces};
use super::tree::{ScriptTree, WordPart};
use super::{AnalysisContext, Dialect, MAX_PROBLEMS, ShellProblem, UnknownPolicy};
use fact::{Fact, Passage, ValueSource};
use guards::Guard;
use words::FollowedWord;

/// Maximum number of times that a text is walked to find what its names hold.
const MAX_WALKS: usize = 24;

/// Maximum number of commands and words that are walked in all.
const MAX_WORK: usize = 4_000_000;

/// What a text is found to do with values.
pub(super) struct FollowedText {
    /// The problems of what is no reference itself.
    pub problems: Vec<ShellProblem>,
    /// The variables of `env:` whose values are checked before the shell gets them.
    pub environment: Vec<(EcoString, Vec<&'static Hazard>)>,
    /// The files that the text writes with values in them.
    pub written: Vec<EcoString>,
}

/// What a fact is known about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum FactKey {
    Variable(EcoString),
    /// An argument of a function or of an inner text.
    Argument(EcoString, usize),
    /// An argument at this place or a later one.
    LaterArgument(EcoString, usize),
    /// Standard input and output of a function.
    Input(EcoString),
    Output(EcoString),
    Errors(EcoString),
    /// The content of a file.
    File(EcoString),
    /// What is read from or written to a descriptor that the text opens; `*` is any.
    Descriptor(EcoString),
}

/// What a command writes.
#[derive(Default)]
struct OutputFacts {
    out: Fact,
    err: Fact,
}

impl OutputFacts {
    fn join(&mut self, other: &Self) {
        self.out.join_sources(&other.out);
        self.err.join_sources(&other.err);
        self.out.literals = fact::Literals::Any;
    }
}

/// How often a command of a function runs when the function does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Branch {
    Always,
    Sometimes,
    Repeatedly,
}

/// A `shift` of arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ArgumentShift {
    by: usize,
    branch: Branch,
}

/// Lists of words, by the function that gets them or the array that holds them.
type WordLists = BTreeMap<EcoString, Vec<Vec<FollowedWord<'static>>>>;

/// Walks a tree and collects facts, then problems.
struct ValueFollower<'a> {
    context: &'a AnalysisContext<'a>,
    dialect: Dialect,
    places: &'a TextPlaces,
    slots: &'a mut [ReferenceSlot],
    /// The trees around the position: the last one is walked.
    trees: Vec<Rc<ScriptTree>>,
    /// The texts of other shells that have been read, by dialect and text.
    inner_trees: BTreeMap<(u8, EcoString), Option<Rc<ScriptTree>>>,
    /// Where the argument stands whose text is walked.
    inner_span: Option<Span>,
    facts: BTreeMap<FactKey, Fact>,
    /// The functions that the text defines, and whether calling one ends the script or the loop.
    functions: BTreeMap<EcoString, bool>,
    /// The variables that functions assign.
    assigned_in_functions: BTreeSet<EcoString>,
    /// Where functions and texts shift their arguments away, and how far.
    shifts: BTreeMap<EcoString, BTreeMap<usize, ArgumentShift>>,
    /// Functions and texts that give themselves new arguments.
    resets: BTreeSet<EcoString>,
    /// Whether the walk is inside of a branch or a loop of the function.
    branch: Branch,
    /// The arguments of the calls of each function and inner text, in this walk and in the one before.
    calls: WordLists,
    earlier_calls: WordLists,
    /// Functions with too many calls to tell apart.
    uncounted_calls: BTreeSet<EcoString>,
    /// What each array can be, in this walk and in the one before.
    arrays: WordLists,
    earlier_arrays: WordLists,
    /// Arrays whose elements are not known.
    unknown_arrays: BTreeSet<EcoString>,
    /// Variables that evaluate what is assigned to them.
    integers: BTreeSet<EcoString>,
    /// The function or inner text that is walked.
    frame: EcoString,
    /// What arrives on the standard input of the command that is walked.
    input: Fact,
    /// What the texts print that the command runs which is walked.
    inner_output: Fact,
    guards: Vec<Guard>,
    environment: BTreeMap<u32, Vec<&'static Hazard>>,
    problems: Vec<ShellProblem>,
    /// Whether the last walk found something new.
    changed: bool,
    /// Whether problems are reported in this walk.
    reporting: bool,
    /// Where values are first assigned to variables of the shell.
    held_from: Option<usize>,
    work: usize,
    /// Whether zsh expands patterns in variables.
    expands_patterns: bool,
}

/// Follows the values of a text. Marks the references whose values are checked when they are bound.
pub(super) fn follow(
    tree: ScriptTree,
    places: &TextPlaces,
    slots: &mut [ReferenceSlot],
    context: &AnalysisContext<'_>,
) -> FollowedText {
    let holds_value = context.environment.iter().any(|variable| variable.holds_value);
    let mut follower = ValueFollower {
        context,
        dialect: context.dialect,
        places,
        slots,
        trees: vec![Rc::new(tree)],
        inner_trees: BTreeMap::new(),
        inner_span: None,
        facts: BTreeMap::new(),
        functions: BTreeMap::new(),
        assigned_in_functions: BTreeSet::new(),
        shifts: BTreeMap::new(),
        resets: BTreeSet::new(),
        branch: Branch::Always,
        calls: WordLists::new(),
        earlier_calls: WordLists::new(),
        uncounted_calls: BTreeSet::new(),
        arrays: WordLists::new(),
        earlier_arrays: WordLists::new(),
        unknown_arrays: BTreeSet::new(),
        integers: BTreeSet::new(),
        frame: EcoString::new(),
        input: Fact::default(),
        inner_output: Fact::default(),
        guards: Vec::new(),
        environment: BTreeMap::new(),
        problems: Vec::new(),
        changed: false,
        reporting: false,
        held_from: None,
        work: 0,
        expands_patterns: false,
    };
    if follower.slots.is_empty() && !holds_value && context.files.is_empty() {
        return follower.finish();
    }
    follower.add_environment();
    follower.walk_until_settled();
    follower.finish()
}

impl ValueFollower<'_> {
    fn add_environment(&mut self) {
        for (at, variable) in (0..).zip(self.context.environment) {
            if variable.holds_value {
                let fact = Fact::of(ValueSource::Environment(at), Passage::BEGINS);
                self.facts.insert(FactKey::Variable(variable.name.clone()), fact);
            }
        }
        for (at, path) in (0..).zip(self.context.files) {
            let fact = Fact::of(ValueSource::File(at), Passage::DERIVED.with(Passage::BEGINS));
            self.facts.insert(FactKey::File(path.clone()), fact);
        }
    }

    fn walk_until_settled(&mut self) {
        for _ in 0..MAX_WALKS {
            self.changed = false;
            self.walk_text();
            if !self.changed {
                break;
            }
        }
        let unsettled = self.changed || self.work > MAX_WORK;
        self.work = 0;
        self.reporting = true;
        self.walk_text();
        if unsettled || self.work > MAX_WORK {
            self.report_not_known(
                0..0,
                "the text is too entangled to follow its values",
                "split it into several steps",
            );
        }
    }

    fn walk_text(&mut self) {
        let Some(tree) = self.trees.last().cloned() else { return };
        self.frame = EcoString::new();
        self.guards.clear();
        let input = self.fact(&FactKey::Descriptor("0".into()));
        let output = self.walk_list(&tree.body, &input);
        self.add_fact(FactKey::Output(EcoString::new()), &output.out);
        let count = |lists: &WordLists| lists.values().flatten().map(|list| list.len() + 1).sum::<usize>();
        let calls = std::mem::take(&mut self.calls);
        let arrays = std::mem::take(&mut self.arrays);
        self.changed |=
            count(&calls) != count(&self.earlier_calls) || count(&arrays) != count(&self.earlier_arrays);
        self.earlier_calls = calls;
        self.earlier_arrays = arrays;
    }

    fn finish(self) -> FollowedText {
        let environment = self.environment.into_iter().filter_map(|(at, hazards)| {
            let variable = self.context.environment.get(usize::try_from(at).ok()?)?;
            Some((variable.name.clone(), hazards))
        });
        let mut written: Vec<EcoString> = self
            .facts
            .iter()
            .filter_map(|(key, fact)| match key {
                FactKey::File(path) if fact.holds_value() && !path.starts_with(['\0', '*']) => {
                    Some(path.clone())
                }
                _ => None,
            })
            .collect();
        written.sort();
        FollowedText { problems: self.problems, environment: environment.collect(), written }
    }

    // ---- facts -----------------------------------------------------------------------------------------

    fn fact(&self, key: &FactKey) -> Fact {
        self.facts.get(key).cloned().unwrap_or_default()
    }

    fn add_fact(&mut self, key: FactKey, fact: &Fact) {
        let known = self.facts.entry(key).or_default();
        self.changed |= known.join(fact);
    }

    /// Whether the work that is allowed is done.
    fn is_exhausted(&mut self) -> bool {
        self.work += 1;
        self.work > MAX_WORK
    }

    /// Puts a text into a variable of the shell.
    fn set_variable(&mut self, name: &str, fact: &Fact, at: usize) {
        if name.is_empty() {
            return;
        }
        if fact.holds_value() {
            self.guards.retain(|guard| guard.key != name);
            if self.inner_span.is_none() {
                self.held_from = Some(self.held_from.map_or(at, |from| from.min(at)));
            }
        }
        if !self.frame.is_empty() {
            self.assigned_in_functions.insert(name.into());
        }
        self.add_fact(FactKey::Variable(name.into()), fact);
    }

    // ---- problems --------------------------------------------------------------------------------------

    fn span(&self, range: &Range<usize>) -> Span {
        self.inner_span.unwrap_or_else(|| self.places.span(range.start, range.end))
    }

    fn push_problem(&mut self, problem: ShellProblem) {
        if self.reporting && self.problems.len() < 4 * MAX_PROBLEMS {
            self.problems.push(problem);
        }
    }

    fn report_not_known(&mut self, range: Range<usize>, message: impl Into<String>, hint: &str) {
        let severity = match self.context.unknown {
            UnknownPolicy::Refuse => Severity::Error,
            UnknownPolicy::Warn => Severity::Warning,
            UnknownPolicy::Trust => return,
        };
        let span = self.span(&range);
        let hint = format!("{hint}, or say why it is safe with `trust: \"...\"` on the step");
        self.push_problem(ShellProblem {
            id: "shell-not-known",
            severity,
            span,
            message: message.into(),
            hint: Some(hint),
            fix: None,
        });
    }

    /// Applies a hazard to a reference that stands there itself.
    fn mark(&mut self, slot: usize, hazard: &'static Hazard) {
        if !self.reporting {
            return;
        }
        let Some(found) = self.slots.get_mut(slot) else { return };
        if found.hazards.iter().any(|known| known.is(hazard))
            || found.reference.binding() == Some(Binding::Raw)
        {
            return;
        }
        found.hazards.push(hazard);
    }

    /// Applies a hazard to a word: to its references, and to the values that its other parts can hold.
    fn apply_to_word(&mut self, word: &FollowedWord<'_>, hazard: &'static Hazard) {
        if !self.reporting {
            return;
        }
        let dash = hazard.rule == HazardRule::Dash;
        for (part, fact) in word.parts() {
            match part {
                WordPart::Text(_) if dash => return,
                WordPart::Text(_) => {}
                WordPart::Slot(slot) => {
                    if dash && !self.slots[*slot].begins_word && fact.holds_value() {
                        self.slots[*slot].begins_word = true;
                    }
                    let in_file = hazard.id.starts_with("sql") && fact.file_content().holds_value();
                    if fact.holds_value() || in_file || hazard.rule != HazardRule::Refuse {
                        self.mark(*slot, hazard);
                    }
                }
                _ => {
                    let pasted = matches!(part, WordPart::Arrival) && hazard.is(&SHELL_TEXT);
                    let hazard = if pasted { &XARGS_INPUT } else { hazard };
                    self.apply_to_fact(fact, hazard, &words::name_part(part), &words::part_range(part, word));
                }
            }
        }
    }

    /// Applies a hazard to the values that a text can hold.
    fn apply_to_fact(&mut self, fact: &Fact, hazard: &'static Hazard, name: &str, range: &Range<usize>) {
        // A client of a database reads files that its commands name.
        let content = fact.file_content();
        if hazard.id.starts_with("sql") && content.holds_value() {
            return self.report_held(&content, hazard, name, range);
        }
        if !self.reporting || !fact.holds_value() {
            return;
        }
        match hazard.rule {
            HazardRule::Refuse => self.report_held(fact, hazard, name, range),
            HazardRule::Int => {
                let derived = fact.sources.iter().any(|(_, passage)| {
                    [Passage::DERIVED, Passage::TRIMMED, Passage::FIELD].iter().any(|one| passage.has(*one))
                });
                if fact.overflow || derived {
                    return self.report_held(fact, hazard, name, range);
                }
                self.check_sources(fact, hazard);
            }
            HazardRule::Dash if fact.begins_with_value() => {
                let runs = hazard.is(&RUNNING_OPTION);
                let derived = fact
                    .sources
                    .iter()
                    .any(|(_, passage)| passage.has(Passage::DERIVED) && passage.has(Passage::BEGINS));
                if fact.overflow || derived {
                    if runs {
                        self.report_held(fact, hazard, name, range);
                    }
                    return;
                }
                self.check_sources(fact, hazard);
            }
            HazardRule::Dash | HazardRule::Warn => {}
        }
    }

    /// Lets the values of a fact be checked when they are bound.
    fn check_sources(&mut self, fact: &Fact, hazard: &'static Hazard) {
        let dash = hazard.rule == HazardRule::Dash;
        for (source, passage) in &fact.sources {
            if passage.has(Passage::IN_FILE) || dash && !passage.has(Passage::BEGINS) {
                continue;
            }
            match source {
                ValueSource::Slot(slot) => {
                    let slot = *slot as usize;
                    if dash {
                        self.slots[slot].begins_word = true;
                        self.slots[slot].is_split |= passage.has(Passage::PIECE);
                    }
                    self.mark(slot, hazard);
                }
                ValueSource::Environment(at) => {
                    let hazards = self.environment.entry(*at).or_default();
                    if !hazards.iter().any(|known| known.is(hazard)) {
                        hazards.push(hazard);
                    }
                }
                ValueSource::File(_) => {}
            }
        }
    }

    fn report_held(&mut self, fact: &Fact, hazard: &'static Hazard, name: &str, range: &Range<usize>) {
        let file = fact.sources.iter().find_map(|(source, _)| match source {
            ValueSource::File(at) => self.context.files.get(*at as usize),
            _ => None,
        });
        let message = match file {
            Some(path) => format!("an earlier step writes values into `{path}`, and it is run here"),
            None => format!("{name} holds a value of the workflow, and a value here {}", hazard.effect),
        };
        let hint = match hazard.rule {
            HazardRule::Int => words::DERIVED_INT_FIX.to_owned(),
            _ => hazard.fix.to_owned(),
        };
        let span = self.span(range);
        let id = if hazard.rule == HazardRule::Dash { "shell-option" } else { "shell-evaluates" };
        self.push_problem(ShellProblem {
            id,
            severity: Severity::Error,
            span,
            message,
            hint: Some(hint),
            fix: None,
        });
    }

    /// Warns of unquoted variables that hold values, because the shell splits them. Where zsh expands patterns
    /// in them, patterns can run commands.
    fn warn_if_unquoted(&mut self, word: &FollowedWord<'_>) {
        let zsh = self.dialect == Dialect::Zsh;
        if !self.reporting || zsh && !self.expands_patterns {
            return;
        }
        for (part, fact) in word.parts() {
            let WordPart::Parameter(parameter) = part else { continue };
            if parameter.quoted || parameter.is_length || !fact.holds_value() {
                continue;
            }
            let hazard = if zsh { &EXPANDED_AGAIN } else { &UNQUOTED_VARIABLE };
            let (id, severity) =
                if zsh { ("shell-evaluates", Severity::Error) } else { ("shell-altered", Severity::Warning) };
            let name = words::name_part(part);
            let message = format!("{name} holds a value of the workflow, and a value here {}", hazard.effect);
            let span = self.span(&words::part_range(part, word));
            let hint = Some(hazard.fix.to_owned());
            self.push_problem(ShellProblem { id, severity, span, message, hint, fix: None });
        }
    }
}
