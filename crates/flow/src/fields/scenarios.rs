//! The keys of scenarios, which test agents and workflows: the rows of a scenario, its turns, its targets and its judges.

use super::table::{STEP, TEXT, choice, key};
use super::{Form, InheritedKeys, KeyKind, KeySpec, ObjectSpec};

/// One target, or the name of an agent.
pub(super) const TARGET_KIND: KeyKind = KeyKind::Either(&[TEXT, KeyKind::Object(&TARGET)]);
/// Several targets by name, or the names of some.
const TARGETS_KIND: KeyKind = KeyKind::Either(&[KeyKind::Map(&TARGET_KIND), KeyKind::List(&TEXT)]);
/// The name of an agent, or a judge with its rubric.
const JUDGE_KIND: KeyKind = KeyKind::Either(&[TEXT, KeyKind::Object(&SCENARIO_JUDGE)]);
/// Rows, or where they come from.
const CASES_KIND: KeyKind =
    KeyKind::Either(&[KeyKind::List(&KeyKind::Value), KeyKind::Object(&super::SOURCE)]);
/// A number, or details.
const REPEAT_KIND: KeyKind = KeyKind::Either(&[KeyKind::Fixed(Form::Count(1)), KeyKind::Object(&REPEAT)]);

/// The keys of a scenario that a file of scenarios has at its top, too: there they hold for all of them.
pub(super) const SHARED: [KeySpec; 20] = [
    key(
        "target",
        TARGET_KIND,
        "what is tested: the name of an agent or of one of the `targets`, or a step that is given `${prompt}`",
    ),
    key(
        "targets",
        TARGETS_KIND,
        "targets that every scenario is tried with, side by side, keyed by name; in a scenario, the names of some",
    ),
    key(
        "facts",
        KeyKind::Map(&KeyKind::Value),
        "what is true around the scenario, keyed by name. Expectations and prompts read `facts.NAME`",
    ),
    key("tags", KeyKind::List(&TEXT), "words by which `threadline test --tag` chooses"),
    key(
        "cases",
        CASES_KIND,
        "rows that the scenario is tried with, each read as `${case}`: a list, or a file of JSON, JSON lines or \
         CSV, or the files of a pattern",
    ),
    key("repeat", REPEAT_KIND, "how often each case is tried. Default: once"),
    key("judge", JUDGE_KIND, "who answers what no rule can decide: an agent, or a judge with a rubric"),
    key("judges", KeyKind::List(&JUDGE_KIND), "several judges, of whom `quorum` must agree"),
    key(
        "quorum",
        KeyKind::Fixed(Form::Count(1)),
        "number of judges that must agree. Default: more than half of them",
    ),
    key("rubric", TEXT, "what judges are told besides the question and the answer"),
    key("prompt", KeyKind::Text, "what the target is asked, where that is the only step"),
    key(
        "expectations",
        KeyKind::Expectation,
        "expectations about the last answer of a scenario, or a list of them",
    )
    .aliases(&["expect"]),
    key("id", KeyKind::Fixed(Form::Name), "id of the scenario. Default: made of its `name`"),
    key("category", TEXT, "a word that counts as one more of the `tags`"),
    key("skip", TEXT, "why the scenario is not tried"),
    key(
        "environment",
        KeyKind::Value,
        "the surroundings of the target, which it reads as `${scenario.environment}`",
    ),
    key("entities", KeyKind::Value, "who takes part, read as `${scenario.entities}`"),
    key("walletState", KeyKind::Value, "what accounts hold, read as `${scenario.walletState}`"),
    key("onchainState", KeyKind::Value, "the state of a chain, read as `${scenario.onchainState}`"),
    key("localState", KeyKind::Value, "the state of an application, read as `${scenario.localState}`"),
];

/// A scenario of a file with several.
pub(crate) static SCENARIO: ObjectSpec = ObjectSpec {
    name: "scenario",
    title: "a scenario",
    doc: "what a target is asked, and what is expected of its answers. The only scenario of a file has these keys at the \
          top of the file",
    keys: &[
        key("name", TEXT, "display name"),
        key("description", TEXT, "purpose of the scenario, for readers"),
        SHARED[0],
        SHARED[1],
        SHARED[2],
        SHARED[3],
        SHARED[4],
        SHARED[5],
        SHARED[6],
        SHARED[7],
        SHARED[8],
        SHARED[9],
        SHARED[10],
        key(
            "steps",
            KeyKind::List(&KeyKind::Object(&SCENARIO_STEP)),
            "what happens, in order: prompts, waits, assertions, and steps of any kind",
        ),
        SHARED[11],
        SHARED[12],
        SHARED[13],
        SHARED[14],
        SHARED[15],
        SHARED[16],
        SHARED[17],
        SHARED[18],
        SHARED[19],
        key("constraints", KeyKind::Value, "limits for the target, read as `${scenario.constraints}`"),
        key("timeout", KeyKind::Setting(Form::Duration), "maximum duration of one execution. Default: none"),
    ],
    base: None,
};

/// A step of a scenario.
pub(crate) static SCENARIO_STEP: ObjectSpec = ObjectSpec {
    name: "scenario_step",
    title: "a step of a scenario",
    doc: "something that is asked, waited for, checked or done. Besides these keys it may be a step of any kind",
    keys: &[
        key("prompt", KeyKind::Text, "what the target is asked. Its answer is read as `${answer}`")
            .aliases(&["input"]),
        key("expect", KeyKind::Expectation, "expectations about the answer to `prompt`, or a list of them"),
        key("action", KeyKind::Object(&STEP), "a step to run between the prompts"),
        key(
            "assert",
            KeyKind::Either(&[KeyKind::Expectation, KeyKind::Object(&super::ASSERT)]),
            "expectations about the last answer, or about any `value`",
        )
        .aliases(&["assertion"]),
        key("wait", KeyKind::Setting(Form::Duration), "how long to wait"),
        key("waitMs", KeyKind::Fixed(Form::Count(0)), "how long to wait, in milliseconds"),
        key(
            "delayBefore",
            KeyKind::Fixed(Form::Count(0)),
            "how long to wait before the step, in milliseconds",
        ),
        key("delayAfter", KeyKind::Fixed(Form::Count(0)), "how long to wait after the step, in milliseconds"),
        key(
            "type",
            KeyKind::Fixed(Form::OneOf(&[
                choice("prompt", "a prompt"),
                choice("action", "an action"),
                choice("wait", "a wait"),
                choice("assert", "an assertion"),
            ])),
            "sort of step. Default: derived from the other keys",
        ),
    ],
    base: Some(InheritedKeys {
        object: &STEP,
        without: &["expect", "assert", "wait"],
        only_shareable: false,
    }),
};

/// What is tested.
pub(crate) static TARGET: ObjectSpec = ObjectSpec {
    name: "target",
    title: "a target",
    doc: "a step that answers `${prompt}`: an `agent`, a `workflow`, a program, a request, or a tool",
    keys: &[key(
        "answer",
        KeyKind::Value,
        "how the answer is made of what the step leaves, which is read as `${reply}` and `${captured.reply}`: a text, or \
         an object with some of `text`, `type`, `plan`, `tools`, `value`, `usage` and `latency`. Default: the value of \
         the step; of an agent, what it said, called and used",
    )],
    base: Some(InheritedKeys {
        object: &STEP,
        without: &[
            "id",
            "name",
            "when",
            "capture",
            "foreach",
            "do",
            "parallel",
            "condition",
            "condition_type",
            "trigger",
            "needs",
            "value",
            "assert",
            "wait",
            "fail",
            "write_file",
            "json_path",
            "filter",
            "sort_by",
            "distinct",
            "offset",
            "max_items",
            "error_policy",
            "item_timeout",
            "expect",
            "thread",
            "on_failure",
            "on_success",
            "finally",
            "continue_on_error",
            "claude",
        ],
        only_shareable: false,
    }),
};

/// Somebody who answers questions about an answer.
pub(crate) static SCENARIO_JUDGE: ObjectSpec = ObjectSpec {
    name: "scenario_judge",
    title: "a judge",
    doc: "an agent that says whether something is true of an answer, and quotes what it says so by",
    keys: &[
        key("agent", KeyKind::Fixed(Form::Name), "the agent that judges").required(),
        key("rubric", TEXT, "what the judge is told besides the question and the answer"),
        key(
            "repeat",
            KeyKind::Fixed(Form::Count(1)),
            "how often the judge is asked the same. One that disagrees with itself is flaky, and its vote counts for nothing",
        )
        .default("1"),
    ],
    base: None,
};

/// How often a case is tried.
pub(crate) static REPEAT: ObjectSpec = ObjectSpec {
    name: "repeat",
    title: "`repeat`",
    doc: "how often a case is tried, and how often it must pass",
    keys: &[
        key("times", KeyKind::Fixed(Form::Count(1)), "number of times").required(),
        key("pass", KeyKind::Fixed(Form::Fraction), "share that must pass, such as `0.8` or `80%`")
            .default("1"),
    ],
    base: None,
};
