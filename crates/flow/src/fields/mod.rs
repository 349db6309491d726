//! The table of keys: every object of a workflow file, and every key that it may have.
//!
//! A key has a kind, a default, aliases, the steps it applies to, and a line of documentation. The loader,
//! the checks, the JSON Schema ([`schema`]) and the tables of the reference all follow from the rows of
//! [`objects`].

mod failure;
mod older;
mod other_versions;
pub(crate) mod outputs;
mod providers;
mod scenarios;
mod schema;
mod table;

use threadline_lang::diag::words;

pub use failure::{Failure, FailureKind};
pub use older::{Becomes, OLDER_KEYS, OlderKey, OlderSystem, find_older_key};
pub use other_versions::{
    UnsupportedKey, find_unsupported_key, hint_for_root, hint_for_word, with_underscores,
};
pub use outputs::{META, NodeType, OutputField, StepOutput, engine_names, field_names};
pub(crate) use providers::hint_for_setting;
pub use providers::{
    ANTHROPIC_URL, BASE_URL, DEFAULT_PROVIDER, OPENAI_URL, PROVIDERS, ProviderName, ProviderSpec, SettingForm,
};
pub(crate) use scenarios::{REPEAT, SCENARIO, SCENARIO_JUDGE, SCENARIO_STEP, TARGET};
pub use schema::schema;
pub(crate) use table::{
    AGENT, AGENT_TOOL, ALLOW, ASSERT, BUDGET, CAPTURED_OUTPUT, COMPUTED, CONSTRAINT, DEFAULTS, EDGE,
    EDGE_CONFIG, ERROR_POLICY, EVALUATE, FRAGMENT, HTTP, INPUT, MAP, NODE, PHASE, RETRY, ROUTE, SECRET,
    SERVER, SHELL_TOOL, SOURCE, STATE, STEP, TRIGGER, TRIGGER_CONFIG, UNTIL, USER_AGENTS, WRITE_FILE,
};
pub use table::{METHODS, WORKFLOW};

/// Every object, in the order of the reference.
pub fn objects() -> impl Iterator<Item = &'static ObjectSpec> {
    table::OBJECTS.iter().flat_map(|object| {
        let is_agent = object.name == AGENT.name;
        let of_providers = PROVIDERS.iter().filter(move |_| is_agent).map(|provider| &provider.object);
        std::iter::once(*object).chain(of_providers)
    })
}

/// An object of a workflow file, such as a step.
pub struct ObjectSpec {
    /// Name in the schema: `step`.
    pub name: &'static str,
    /// Name in a sentence: `a step`.
    pub title: &'static str,
    /// Description in the reference and in the schema: a fragment without a final period.
    pub doc: &'static str,
    /// The keys, in the order in which people write them.
    pub keys: &'static [KeySpec],
    /// Another object whose keys it inherits.
    pub base: Option<InheritedKeys>,
}

/// The keys that an object inherits from another one, as a state inherits those of a step.
pub struct InheritedKeys {
    /// The object to inherit from.
    pub object: &'static ObjectSpec,
    /// The keys that are not inherited.
    pub without: &'static [&'static str],
    /// Whether only those are inherited that `defaults` can set.
    pub only_shareable: bool,
}

impl InheritedKeys {
    /// Whether a key of the other object is inherited.
    fn has(&self, key: &KeySpec) -> bool {
        !self.without.contains(&key.name) && (key.is_shareable || !self.only_shareable)
    }
}

/// A row of the table: one key of an object.
#[derive(Clone, Copy)]
pub struct KeySpec {
    /// Name of the key; `on_VERDICT` stands for every key that starts with `on_`.
    pub name: &'static str,
    /// Other names that are read as this key.
    pub aliases: &'static [&'static str],
    /// The sort of value that the key takes.
    pub kind: KeyKind,
    /// The default, as it would be written in a file.
    pub default: Option<&'static str>,
    /// Whether the key is required.
    pub required: bool,
    /// The actions of the steps that the key applies to; empty for all.
    pub on: &'static [ActionName],
    /// The values of the sibling key `type` that the key applies to; empty for all.
    pub types: &'static [&'static str],
    /// Whether `defaults` of a workflow can set it for all of its steps.
    pub is_shareable: bool,
    /// Description in the reference and in the schema: a fragment without a final period.
    pub doc: &'static str,
}

/// The sort of value that a key takes.
#[derive(Clone, Copy)]
pub enum KeyKind {
    /// A literal scalar: references are not resolved.
    Fixed(Form),
    /// A scalar, or a reference that is resolved when the step starts.
    Setting(Form),
    /// Text with references.
    Text,
    /// Any value, with references in its texts. The type of a value is preserved.
    Value,
    /// An expression that is true or false.
    Expression,
    /// An expectation, or a list of them.
    Expectation,
    /// A shell script, in which references are bound.
    Shell,
    /// A list of steps, or one step.
    Steps,
    /// An object of nodes keyed by id, or a list of nodes.
    Nodes,
    /// An agent, with the keys of its provider.
    Agent,
    /// An object with the keys of another table.
    Object(&'static ObjectSpec),
    /// An object whose keys are names that the author chooses.
    Map(&'static KeyKind),
    /// A list whose elements are all of one kind.
    List(&'static KeyKind),
    /// Any one of several kinds.
    Either(&'static [KeyKind]),
}

/// The form of a scalar.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A text of any form.
    Text,
    /// A name that the author chooses.
    Name,
    /// A value of any type.
    Any,
    /// `true` or `false`.
    Bool,
    /// A whole number that is at least this one.
    Count(u64),
    /// A duration such as `1h30m`.
    Duration,
    /// A size such as `64MiB`.
    Size,
    /// A fraction such as `0.1` or `10%`.
    Fraction,
    /// The mode of a file such as `0644`.
    Mode,
    /// One of these words.
    OneOf(&'static [Choice]),
}

/// One of the words that a key accepts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// The word as it is written in a file.
    pub name: &'static str,
    /// Other words that are read as this one.
    pub aliases: &'static [&'static str],
    /// What the word means, as a fragment.
    pub doc: &'static str,
}

/// The action of a step, named by its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ActionName {
    /// The action `shell`.
    Shell,
    /// The action `argv`.
    Argv,
    /// `agent`, or `claude`
    Agent,
    /// The action `http`.
    Http,
    /// The action `tool`.
    Tool,
    /// The action `write_file`.
    WriteFile,
    /// The action `value`.
    Value,
    /// The action `assert`.
    Assert,
    /// The action `fail`.
    Fail,
    /// The action `wait`.
    Wait,
    /// The action `workflow`.
    Workflow,
    /// The action `foreach`.
    ForEach,
    /// The action `condition`.
    Condition,
    /// The action `trigger`.
    Trigger,
    /// A phase of a map-reduce: `setup`, `reduce` or `merge`
    Phase,
    /// A state without an action
    Nothing,
}

impl ActionName {
    /// Every action, in the order of the reference.
    pub const ALL: [Self; 14] = [
        Self::Shell,
        Self::Argv,
        Self::Agent,
        Self::Http,
        Self::Tool,
        Self::WriteFile,
        Self::Value,
        Self::Assert,
        Self::Fail,
        Self::Wait,
        Self::Workflow,
        Self::ForEach,
        Self::Condition,
        Self::Trigger,
    ];

    /// The key that selects this action.
    pub fn key(self) -> &'static str {
        match self {
            Self::Shell => "shell",
            Self::Argv => "argv",
            Self::Agent => "agent",
            Self::Http => "http",
            Self::Tool => "tool",
            Self::WriteFile => "write_file",
            Self::Value => "value",
            Self::Assert => "assert",
            Self::Fail => "fail",
            Self::Wait => "wait",
            Self::Workflow => "workflow",
            Self::ForEach => "foreach",
            Self::Condition => "condition",
            Self::Trigger => "trigger",
            Self::Phase => "phase",
            Self::Nothing => "state",
        }
    }
}

impl ObjectSpec {
    /// Finds a key by its name or by an alias.
    pub fn key(&self, name: &str) -> Option<&'static KeySpec> {
        let is_named = |key: &&'static KeySpec| key.name == name || key.aliases.contains(&name);
        let has_prefix = |key: &&'static KeySpec| key.prefix().is_some_and(|prefix| name.starts_with(prefix));
        // `on_rate_limit_exhausted` is a key of another system, not the route of a verdict.
        let found = self.all_keys().find(is_named);
        found.or_else(|| self.all_keys().find(has_prefix).filter(|_| self.find_unsupported(name).is_none()))
    }

    /// Looks up a key that this object does not have, but another system or a later version does.
    pub fn find_unsupported(&self, name: &str) -> Option<UnsupportedKey> {
        let inherited = || self.base.as_ref().and_then(|base| base.object.find_unsupported(name));
        find_unsupported_key(self.name, name).or_else(inherited)
    }

    /// Looks up a key that this object does not have, but an older system does.
    pub(crate) fn find_older(&self, name: &str) -> Option<&'static OlderKey> {
        let inherited = || self.base.as_ref().and_then(|base| base.object.find_older(name));
        find_older_key(self.name, name).or_else(inherited)
    }

    /// All keys, including the inherited ones.
    pub fn all_keys(&self) -> Box<dyn Iterator<Item = &'static KeySpec> + '_> {
        let base = self.base.iter().flat_map(|base| base.object.all_keys().filter(|key| base.has(key)));
        Box::new(self.keys.iter().chain(base))
    }

    /// A key by a name that is literal in the code, so the table has it.
    pub(crate) fn known(&self, name: &str) -> &'static KeySpec {
        self.key(name).unwrap_or_else(|| unreachable!("`{}` has a key `{name}`", self.name))
    }

    /// The names of all keys, with their aliases.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.all_keys().flat_map(|key| std::iter::once(key.name).chain(key.aliases.iter().copied()))
    }
}

impl KeySpec {
    /// The first sentence of the description.
    pub(crate) fn summary(&self) -> &'static str {
        self.doc.split_once(". ").map_or(self.doc, |(first, _)| first)
    }

    /// The common prefix, if the key stands for many: `on_` of `on_VERDICT`.
    pub fn prefix(&self) -> Option<&'static str> {
        self.name.strip_suffix("VERDICT")
    }

    /// The form of the scalar that the key takes; the first if it takes several.
    pub(crate) fn form(&self) -> Form {
        let mut kind = self.kind;
        loop {
            kind = match kind {
                KeyKind::Fixed(form) | KeyKind::Setting(form) => return form,
                KeyKind::Either([first, ..]) => *first,
                _ => return Form::Any,
            };
        }
    }

    /// The words that the key accepts; empty if it takes something else.
    pub(crate) fn choices(&self) -> &'static [Choice] {
        match self.kind {
            KeyKind::Fixed(Form::OneOf(choices)) => choices,
            _ => &[],
        }
    }
}

impl Choice {
    /// The word and its aliases.
    pub fn spellings(&self) -> impl Iterator<Item = &'static str> + use<> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }
}

impl Form {
    /// Reads a value as a whole number of this form.
    pub fn count(self, value: &threadline_lang::Value) -> Option<u64> {
        let least = if let Self::Count(least) = self { least } else { 0 };
        crate::forms::count(value).filter(|count| *count >= least)
    }

    /// Whether a value can be read as this form.
    pub(crate) fn reads(self, value: &threadline_lang::Value) -> bool {
        match self {
            Self::Count(_) => self.count(value).is_some(),
            Self::Duration => crate::forms::duration(value).is_some(),
            Self::Size => crate::forms::size(value).is_some(),
            Self::Fraction => crate::forms::fraction(value).is_some(),
            _ => true,
        }
    }

    /// What a value of this form is, in a sentence: `a duration such as ...`.
    pub fn expected(self) -> String {
        match self {
            Self::Text => "text".to_owned(),
            Self::Name => "a name".to_owned(),
            Self::Any => "a value".to_owned(),
            Self::Bool => "`true` or `false`".to_owned(),
            Self::Count(0) => "a whole number".to_owned(),
            Self::Count(least) => format!("a whole number of at least {least}"),
            Self::Duration => crate::forms::DURATION_FORM.to_owned(),
            Self::Size => crate::forms::SIZE_FORM.to_owned(),
            Self::Fraction => crate::forms::FRACTION_FORM.to_owned(),
            Self::Mode => "the mode of a file such as `0644`".to_owned(),
            Self::OneOf(choices) => words::code_list(choices.iter().map(|choice| choice.name), "or"),
        }
    }
}
