//! The table of providers: how an agent can be asked, one row each.
//!
//! A row names the provider and the keys of its agents. The loader, the schema and the reference read it; what a
//! provider does with its settings stands in the engine.

use std::fmt;

use threadline_lang::Value;

use super::table::{AGENT_TOOL, TEXT, choice, key};
use super::{AGENT, Choice, Form, InheritedKeys, KeyKind, KeySpec, ObjectSpec};

/// How an agent is asked: a row of [`PROVIDERS`].
pub struct ProviderSpec {
    /// Its name in code.
    pub name: ProviderName,
    /// The word after `provider:`.
    pub word: Choice,
    /// Whether a program answers, so that there is an exit code.
    pub is_program: bool,
    /// Whether an answer costs money, so that it is not asked for twice without anybody knowing.
    pub is_paid: bool,
    /// The agents that it asks. Their own keys are settings: a list of text is a program with its arguments, text is
    /// text with references, and any other kind is a value with references.
    pub object: ObjectSpec,
}

/// Names every provider, so that none can be forgotten where they are implemented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderName {
    /// A local program.
    Command,
    /// Claude Code, asked without a terminal.
    Claude,
    /// The Messages API of Anthropic.
    Anthropic,
    /// The Chat Completions API of OpenAI, and whatever speaks it.
    OpenAi,
    /// Answers that were recorded before.
    Replay,
}

/// The address of the Messages API of Anthropic.
pub const ANTHROPIC_URL: &str = "https://api.anthropic.com";

/// The address of the Chat Completions API of OpenAI.
pub const OPENAI_URL: &str = "https://api.openai.com/v1";

impl ProviderName {
    /// The name as it is written.
    pub fn word(self) -> &'static str {
        PROVIDERS.iter().find(|spec| spec.name == self).map_or("", |spec| spec.word.name)
    }

    /// The provider that is written like this.
    pub fn of_word(word: &str) -> Option<Self> {
        PROVIDERS.iter().find(|spec| spec.word.name == word).map(|spec| spec.name)
    }

    /// The address of an API, where an agent names no other.
    pub fn usual_url(self) -> Option<&'static str> {
        match self {
            Self::Anthropic => Some(ANTHROPIC_URL),
            Self::OpenAi => Some(OPENAI_URL),
            Self::Command | Self::Claude | Self::Replay => None,
        }
    }
}

/// The keys that every agent has.
const fn every_agent() -> InheritedKeys {
    InheritedKeys { object: &AGENT, without: &[], only_shareable: false }
}

/// The keys that every agent has, where the provider has a `model` of its own.
const fn every_agent_with_model() -> InheritedKeys {
    InheritedKeys { object: &AGENT, without: &["model"], only_shareable: false }
}

const MODEL: KeySpec = key("model", KeyKind::Text, "name of the model");
const SYSTEM: KeySpec =
    key("system", KeyKind::Text, "what the model is told before the conversation, such as its role");
const API_KEY: KeySpec =
    key("api_key", KeyKind::Text, "the key of the API. It is read from a secret: `${secrets.NAME}`");
const HEADERS: KeySpec =
    key("headers", KeyKind::Map(&KeyKind::Text), "headers of every request, beside those of the protocol");
const TEMPERATURE: KeySpec = key("temperature", KeyKind::Value, "the temperature of the model, a number");
const PRICE: KeySpec = key(
    "price",
    KeyKind::Value,
    "what a million tokens cost in US dollars: `{input: 3, output: 15}`, with `cache_read` and `cache_write` for those of a \
     cache. Without it the cost of an answer is not known",
);

static TOOL_KINDS: [KeyKind; 2] = [TEXT, KeyKind::Object(&AGENT_TOOL)];
static TOOL: KeyKind = KeyKind::Either(&TOOL_KINDS);
const TOOLS: KeySpec = key(
    "tools",
    KeyKind::List(&TOOL),
    "what the agent may call: a server of `servers` with all its tools, one tool as `SERVER.TOOL`, `read_file`, \
     `write_file`, `http`, or an object",
);
const MAX_TURNS: KeySpec = key(
    "max_turns",
    KeyKind::Value,
    "maximum number of messages that the model may write before it answers, a whole number. Default: 50",
);

const MAX_PARALLEL: KeySpec = key(
    "max_parallel",
    KeyKind::Value,
    "how many steps, items and judges of a run may ask the agent at once, with called runs. Default: all",
);
const REQUESTS_PER_MINUTE: KeySpec = key(
    "requests_per_minute",
    KeyKind::Value,
    "how often a run may ask the agent in any minute, with called runs. Default: any number",
);

const CALL_TIMEOUT: KeySpec = key(
    "timeout",
    KeyKind::Value,
    "how long one call may take at most, a duration such as `2m`. `timeout` of the step bounds all of them together. \
     Default: as long as the step may",
);

/// What a setting of an agent has to be, where its kind does not say it. It is asked of a value that is written out when
/// the file is read, and of any other before the agent is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingForm {
    /// A whole number above 0.
    Count,
    /// A number, as JSON writes one.
    Number,
    /// What tokens cost.
    Price,
    /// A duration.
    Duration,
}

impl SettingForm {
    /// The form of the setting with this key.
    pub fn of(key: &str) -> Option<Self> {
        match key {
            "max_tokens" | "max_turns" | "max_parallel" | "requests_per_minute" => Some(Self::Count),
            "temperature" => Some(Self::Number),
            "price" => Some(Self::Price),
            "timeout" => Some(Self::Duration),
            _ => None,
        }
    }

    /// The kind of value in words, for messages.
    pub fn expected(self) -> &'static str {
        match self {
            Self::Count => "a whole number above 0",
            Self::Number => "a number",
            Self::Price => {
                "two numbers of at least 0, as in `{input: 3, output: 15}`, perhaps with `cache_read` and `cache_write`"
            }
            Self::Duration => "a duration above 0, such as `2m`",
        }
    }

    /// Whether a value is that.
    pub fn fits(self, value: &Value) -> bool {
        let is_price = |value: &Value| value.as_number().is_some_and(|price| !price.is_negative());
        match self {
            Self::Count => Form::Count(1).count(value).is_some(),
            Self::Number => value.as_number().is_some(),
            Self::Price => value.as_object().is_some_and(|price| {
                let names = ["input", "output", "cache_read", "cache_write"];
                let is_known = |name: &str| names.contains(&name);
                names[..2].iter().all(|name| price.get_str(name).is_some())
                    && price.iter().all(|(name, price)| is_known(name.as_str()) && is_price(price))
            }),
            Self::Duration => crate::forms::duration(value).is_some_and(|duration| !duration.is_zero()),
        }
    }
}

/// The setting that is the beginning of a URL.
pub const BASE_URL: &str = "base_url";

/// Every provider. An agent that names none has the first.
pub static PROVIDERS: [ProviderSpec; 5] = [
    ProviderSpec {
        name: ProviderName::Command,
        word: choice("command", "a local program"),
        is_program: true,
        is_paid: false,
        object: ObjectSpec {
            name: "command_agent",
            title: "an agent",
            doc: "`provider: command`, an agent that is a program. It reads the message from stdin and prints the \
                  answer to stdout",
            keys: &[
                key("command", KeyKind::List(&KeyKind::Text), "program and its arguments").required(),
                CALL_TIMEOUT,
                MAX_PARALLEL,
                REQUESTS_PER_MINUTE,
            ],
            base: Some(every_agent()),
        },
    },
    ProviderSpec {
        name: ProviderName::Claude,
        word: choice("claude", "Claude Code, the program `claude`"),
        is_program: true,
        is_paid: true,
        object: ObjectSpec {
            name: "claude_agent",
            title: "a `claude` agent",
            doc: "`provider: claude`, Claude Code as a program. It may use its own tools, and reports what an answer cost",
            keys: &[
                key(
                    "program",
                    KeyKind::List(&KeyKind::Text),
                    "program and its first arguments. Default: `claude`",
                ),
                MODEL,
                key("system", KeyKind::Text, "text to add to the system prompt of Claude Code"),
                key(
                    "allowed_tools",
                    KeyKind::Value,
                    "the tools that it may use without asking, a list of texts such as `Read` or `Bash(git log:*)`",
                ),
                key("max_turns", KeyKind::Value, "maximum number of turns that it may take, a whole number"),
                key(
                    "permission_mode",
                    KeyKind::Text,
                    "how Claude Code asks for permissions, such as `acceptEdits`",
                ),
                CALL_TIMEOUT,
                MAX_PARALLEL,
                REQUESTS_PER_MINUTE,
            ],
            base: Some(every_agent_with_model()),
        },
    },
    ProviderSpec {
        name: ProviderName::Anthropic,
        word: choice("anthropic", "the Messages API of Anthropic"),
        is_program: false,
        is_paid: true,
        object: ObjectSpec {
            name: "anthropic_agent",
            title: "an `anthropic` agent",
            doc: "`provider: anthropic`, a model behind the Messages API of Anthropic",
            keys: &[
                MODEL.required(),
                API_KEY.required(),
                key(
                    "base_url",
                    KeyKind::Text,
                    "URL in front of `/v1/messages`. Default: `https://api.anthropic.com`",
                ),
                HEADERS,
                SYSTEM,
                key(
                    "max_tokens",
                    KeyKind::Value,
                    "maximum number of tokens of an answer, a whole number. Default: 8192",
                ),
                TEMPERATURE,
                PRICE,
                TOOLS,
                MAX_TURNS,
                CALL_TIMEOUT,
                MAX_PARALLEL,
                REQUESTS_PER_MINUTE,
            ],
            base: Some(every_agent_with_model()),
        },
    },
    ProviderSpec {
        name: ProviderName::OpenAi,
        word: choice("openai", "the Chat Completions API of OpenAI, and servers that speak it"),
        is_program: false,
        is_paid: true,
        object: ObjectSpec {
            name: "openai_agent",
            title: "an `openai` agent",
            doc: "`provider: openai`, a model behind the Chat Completions API: of OpenAI, or of any server that speaks it, \
                  such as Ollama, vLLM or OpenRouter",
            keys: &[
                MODEL.required(),
                API_KEY,
                key(
                    "base_url",
                    KeyKind::Text,
                    "URL in front of `/chat/completions`. Default: `https://api.openai.com/v1`",
                ),
                HEADERS,
                SYSTEM,
                key("max_tokens", KeyKind::Value, "maximum number of tokens of an answer, a whole number"),
                TEMPERATURE,
                PRICE,
                TOOLS,
                MAX_TURNS,
                CALL_TIMEOUT,
                MAX_PARALLEL,
                REQUESTS_PER_MINUTE,
            ],
            base: Some(every_agent_with_model()),
        },
    },
    ProviderSpec {
        name: ProviderName::Replay,
        word: choice("replay", "recorded answers"),
        is_program: false,
        is_paid: false,
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
    let others = PROVIDERS.iter().filter(|provider| provider.object.key(key).is_some());
    let others: Vec<String> = others.map(|other| format!("`{}`", other.word.name)).collect();
    let (first, rest) = others.split_first()?;
    let rest = rest.iter().fold(String::new(), |rest, other| format!("{rest} or {other}"));
    Some(format!("`{key}` needs `provider: {}`{rest}", first.trim_matches('`')))
}

impl fmt::Debug for ProviderSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)
    }
}
