//! The table of providers: how an agent can be asked, one row each.
//!
//! A row names the provider and the keys of its agents. The loader, the schema and the reference read it; what a
//! provider does with its settings stands in the engine.

use std::fmt;

use super::table::{choice, key};
use super::{AGENT, Choice, InheritedKeys, KeyKind, ObjectSpec};

/// How an agent is asked: a row of [`PROVIDERS`].
pub struct ProviderSpec {
    /// Its name in code.
    pub name: ProviderName,
    /// The word after `provider:`.
    pub word: Choice,
    /// Whether a program answers, so that there is an exit code.
    pub is_program: bool,
    /// The agents that it asks. Their own keys are settings: a list of text is a program with its arguments, text is
    /// text with references, and any other kind is a value with references.
    pub object: ObjectSpec,
}

/// Names every provider, so that none can be forgotten where they are implemented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderName {
    /// A local program.
    Command,
    /// Answers that were recorded before.
    Replay,
}

/// The keys that every agent has.
const fn every_agent() -> InheritedKeys {
    InheritedKeys { object: &AGENT, without: &[], only_shareable: false }
}

/// Every provider. An agent that names none has the first.
pub static PROVIDERS: [ProviderSpec; 2] = [
    ProviderSpec {
        name: ProviderName::Command,
        word: choice("command", "a local program"),
        is_program: true,
        object: ObjectSpec {
            name: "command_agent",
            title: "an agent",
            doc: "`provider: command`, an agent that is a program. It reads the message from stdin and prints the \
                  answer to stdout",
            keys: &[key("command", KeyKind::List(&KeyKind::Text), "program and its arguments").required()],
            base: Some(every_agent()),
        },
    },
    ProviderSpec {
        name: ProviderName::Replay,
        word: choice("replay", "recorded answers"),
        is_program: false,
        object: ObjectSpec {
            name: "replay_agent",
            title: "a `replay` agent",
            doc: "`provider: replay`, an agent whose answers are recorded in a file",
            keys: &[key(
                "file",
                KeyKind::Text,
                "path of the recorded answers. They are a JSON list of `{message, answer}`, or one such \
                 object per line. The path is relative to the folder of the run",
            )
            .required()],
            base: Some(every_agent()),
        },
    },
];

/// The provider of an agent that names none.
pub static DEFAULT_PROVIDER: &ProviderSpec = &PROVIDERS[0];

/// The words that `provider` accepts.
pub(super) static PROVIDER_WORDS: [Choice; PROVIDERS.len()] = {
    let mut words = [PROVIDERS[0].word; PROVIDERS.len()];
    let mut at = 0;
    while at < words.len() {
        words[at] = PROVIDERS[at].word;
        at += 1;
    }
    words
};

/// How to put a setting right that is one of another provider.
pub(crate) fn hint_for_setting(object: &ObjectSpec, key: &str) -> Option<String> {
    PROVIDERS.iter().find(|provider| provider.object.name == object.name)?;
    let other = PROVIDERS.iter().find(|provider| provider.object.key(key).is_some())?;
    Some(format!("`{key}` needs `provider: {}`", other.word.name))
}

impl fmt::Debug for ProviderSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)
    }
}
