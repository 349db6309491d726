//! The keys of workflow files: one table for the loader, the checks, the schema and the reference.
//!
//! A key has a kind, a default, other spellings, the steps it goes with, and a line of documentation. Nothing here
//! reads a file.

mod failure;
mod other_versions;
mod schema;
mod table;

pub use failure::{Failure, FailureKind};
pub use other_versions::{Elsewhere, elsewhere, other_root, other_word};
pub use schema::schema;
pub(crate) use table::{
    AGENT, ALLOW, CAPTURED_OUTPUT, COMPUTED, CONSTRAINT, EDGE, EDGE_CONFIG, ERROR_POLICY, EVALUATE, FRAGMENT,
    HTTP, INPUT, MAP, NODE, PHASE, RETRY, ROUTE, SERVER, SHELL_TOOL, SOURCE, STATE, STEP, TRIGGER,
    TRIGGER_CONFIG, UNTIL, WRITE_FILE,
};
pub use table::{ALL, WORKFLOW};

/// An object of a workflow file.
pub struct Object {
    /// Its name in the schema: `step`.
    pub name: &'static str,
    /// What it is called in a sentence: `a step`.
    pub title: &'static str,
    /// One line for the reference.
    pub doc: &'static str,
    /// Its keys, in the order people write them.
    pub keys: &'static [Key],
    /// Another object whose keys it has too.
    pub base: Option<Base>,
}

/// An object whose keys another has too.
pub struct Base {
    /// It.
    pub object: &'static Object,
    /// The keys that do not go there.
    pub without: &'static [&'static str],
}

/// One key of an object.
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// Other spellings that are read as this key.
    pub also: &'static [&'static str],
    /// What stands behind it.
    pub kind: Kind,
    /// What holds when it is left out, as it would be written.
    pub default: Option<&'static str>,
    /// Whether it must be there.
    pub required: bool,
    /// The actions of the steps it goes with; all when empty.
    pub on: &'static [ActionName],
    /// The values of `type` beside it that it goes with; all when empty.
    pub types: &'static [&'static str],
    /// One line for the reference.
    pub doc: &'static str,
}

/// What stands behind a key.
#[derive(Clone, Copy)]
pub enum Kind {
    /// Fixed: references are not looked for.
    Fixed(Form),
    /// Fixed, or known when the step starts: a reference may give it.
    Setting(Form),
    /// Text with references.
    Text,
    /// Any value, with references in its texts; its type is kept.
    Value,
    /// A condition.
    Expression,
    /// An expectation, or a list of them.
    Expectation,
    /// Text for a shell, in which references are bound.
    Shell,
    /// A list of steps, or one step.
    Steps,
    /// Nodes by id, or a list of them.
    Nodes,
    /// An object.
    Object(&'static Object),
    /// Names of the author's own, and something behind each.
    Map(&'static Kind),
    /// A list.
    List(&'static Kind),
    /// One of several.
    Either(&'static [Kind]),
}

/// How a scalar is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Any text.
    Text,
    /// A name of the author's own.
    Name,
    /// Any value.
    Any,
    /// `true` or `false`.
    Bool,
    /// A whole number from this one on.
    Count(u64),
    /// A duration.
    Duration,
    /// A size in bytes.
    Size,
    /// A part of a whole.
    Fraction,
    /// The mode of a file.
    Mode,
    /// One of these words.
    OneOf(&'static [Choice]),
}

/// A word that may stand behind a key.
#[derive(PartialEq, Eq)]
pub struct Choice {
    /// The word.
    pub name: &'static str,
    /// Other spellings.
    pub also: &'static [&'static str],
    /// What it means.
    pub doc: &'static str,
}

/// What a step does, by its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ActionName {
    /// `shell`
    Shell,
    /// `argv`
    Argv,
    /// `agent`, or `claude`
    Agent,
    /// `http`
    Http,
    /// `tool`
    Tool,
    /// `write_file`
    WriteFile,
    /// `value`
    Value,
    /// `workflow`
    Workflow,
    /// `foreach`
    ForEach,
    /// `condition`
    Condition,
    /// `trigger`
    Trigger,
    /// `setup`, `reduce` or `merge` of a map-reduce
    Phase,
    /// Of a state: none.
    Nothing,
}

impl ActionName {
    /// Every action, in the order of the reference.
    pub const ALL: [Self; 11] = [
        Self::Shell,
        Self::Argv,
        Self::Agent,
        Self::Http,
        Self::Tool,
        Self::WriteFile,
        Self::Value,
        Self::Workflow,
        Self::ForEach,
        Self::Condition,
        Self::Trigger,
    ];

    /// The key that makes a step one of these.
    pub fn key(self) -> &'static str {
        match self {
            Self::Shell => "shell",
            Self::Argv => "argv",
            Self::Agent => "agent",
            Self::Http => "http",
            Self::Tool => "tool",
            Self::WriteFile => "write_file",
            Self::Value => "value",
            Self::Workflow => "workflow",
            Self::ForEach => "foreach",
            Self::Condition => "condition",
            Self::Trigger => "trigger",
            Self::Phase => "phase",
            Self::Nothing => "state",
        }
    }
}

impl Object {
    /// The key of a name or of another spelling.
    pub fn key(&self, name: &str) -> Option<&'static Key> {
        let spelt = |key: &&'static Key| key.name == name || key.also.contains(&name);
        let pattern = |key: &&'static Key| key.prefix().is_some_and(|prefix| name.starts_with(prefix));
        // A key of another system is not taken for a verdict.
        let found = self.all_keys().find(spelt);
        found.or_else(|| self.all_keys().find(pattern).filter(|_| self.elsewhere(name).is_none()))
    }

    /// What is known of a key that it does not have.
    pub fn elsewhere(&self, name: &str) -> Option<Elsewhere> {
        let of_base = || self.base.as_ref().and_then(|base| base.object.elsewhere(name));
        elsewhere(self.name, name).or_else(of_base)
    }

    /// Its keys, and those it has of another object.
    pub fn all_keys(&self) -> Box<dyn Iterator<Item = &'static Key> + '_> {
        let base = self
            .base
            .iter()
            .flat_map(|base| base.object.all_keys().filter(|key| !base.without.contains(&key.name)));
        Box::new(self.keys.iter().chain(base))
    }

    /// The key of a name that code knows to be in the table.
    pub(crate) fn known(&self, name: &str) -> &'static Key {
        self.key(name).unwrap_or_else(|| unreachable!("`{}` has a key `{name}`", self.name))
    }

    /// Every name that can stand in it.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.all_keys().flat_map(|key| std::iter::once(key.name).chain(key.also.iter().copied()))
    }
}

impl Key {
    /// What every name of it begins with, where it stands for many: `on_` of `on_VERDICT`.
    pub fn prefix(&self) -> Option<&'static str> {
        self.name.strip_suffix("VERDICT")
    }

    /// How its scalar is written; of several ways the first.
    pub(crate) fn form(&self) -> Form {
        let mut kind = self.kind;
        loop {
            kind = match kind {
                Kind::Fixed(form) | Kind::Setting(form) => return form,
                Kind::Either([first, ..]) => *first,
                _ => return Form::Any,
            };
        }
    }

    /// The words that may stand behind it, when it takes one of several.
    pub(crate) fn choices(&self) -> &'static [Choice] {
        match self.kind {
            Kind::Fixed(Form::OneOf(choices)) => choices,
            _ => &[],
        }
    }
}

impl Choice {
    /// The word and its other spellings.
    pub fn spellings(&self) -> impl Iterator<Item = &'static str> + use<> {
        std::iter::once(self.name).chain(self.also.iter().copied())
    }
}

impl Form {
    /// A value as a whole number of this form.
    pub fn count(self, value: &threadline_lang::Value) -> Option<u64> {
        let least = if let Self::Count(least) = self { least } else { 0 };
        crate::forms::count(value).filter(|count| *count >= least)
    }

    /// What may stand there, in a sentence.
    pub fn expected(self) -> String {
        match self {
            Self::Text => "text".to_owned(),
            Self::Name => "a name".to_owned(),
            Self::Any => "a value".to_owned(),
            Self::Bool => "`true` or `false`".to_owned(),
            Self::Count(0) => "a whole number".to_owned(),
            Self::Count(least) => format!("a whole number from {least} on"),
            Self::Duration => crate::forms::DURATION_FORM.to_owned(),
            Self::Size => crate::forms::SIZE_FORM.to_owned(),
            Self::Fraction => crate::forms::FRACTION_FORM.to_owned(),
            Self::Mode => "the mode of a file such as `0644`".to_owned(),
            Self::OneOf(choices) => {
                let names: Vec<String> = choices.iter().map(|choice| format!("`{}`", choice.name)).collect();
                match names.split_last() {
                    Some((last, [])) => last.clone(),
                    Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
                    None => String::new(),
                }
            }
        }
    }
}
