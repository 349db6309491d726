//! The table itself: every object of a workflow file and every key of it.

use super::ActionName::{
    Agent, Argv, Assert, Condition, Fail, ForEach, Http, Shell, Tool, Trigger, Value as ValueStep, Wait,
    Workflow, WriteFile,
};
use super::providers::{DEFAULT_PROVIDER, PROVIDER_WORDS};
use super::scenarios::{REPEAT, SCENARIO, SCENARIO_JUDGE, SCENARIO_STEP, SHARED, TARGET};
use super::{ActionName, Choice, Form, InheritedKeys, KeyKind, KeySpec, ObjectSpec};

pub(super) const fn key(name: &'static str, kind: KeyKind, doc: &'static str) -> KeySpec {
    KeySpec {
        name,
        aliases: &[],
        kind,
        default: None,
        required: false,
        on: &[],
        types: &[],
        is_shareable: false,
        doc,
    }
}

pub(super) const fn choice(name: &'static str, doc: &'static str) -> Choice {
    Choice { name, aliases: &[], doc }
}

impl KeySpec {
    pub(super) const fn aliases(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    pub(super) const fn default(self, default: &'static str) -> Self {
        Self { default: Some(default), ..self }
    }

    pub(super) const fn required(self) -> Self {
        Self { required: true, ..self }
    }

    const fn on(self, on: &'static [ActionName]) -> Self {
        Self { on, ..self }
    }

    /// `defaults` can set it for all steps.
    const fn shareable(self) -> Self {
        Self { is_shareable: true, ..self }
    }

    const fn types(self, types: &'static [&'static str]) -> Self {
        Self { types, ..self }
    }
}

impl Choice {
    const fn aliases(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }
}

pub(super) const TEXT: KeyKind = KeyKind::Fixed(Form::Text);
const BOOL: KeyKind = KeyKind::Fixed(Form::Bool);
/// What starts a program of its own.
const PROGRAMS: &[ActionName] = &[Shell, Argv, Agent];

/// One failure or several.
const FAILURES: KeyKind = KeyKind::Either(&[TEXT, KeyKind::List(&TEXT)]);
const ON_DOC: &str = "failures that are tried again: error types such as `Timeout`, exit codes such as `exit 75`, and \
     statuses such as `http 503` or `http 5xx`. Default: all but HTTP statuses 4xx other than 408, 425 and 429";

/// One node or several.
const NEEDS: KeyKind = KeyKind::Either(&[TEXT, KeyKind::List(&TEXT)]);

/// Every object but the agents of each provider, in the order of the reference.
pub(super) static OBJECTS: &[&ObjectSpec] = &[
    &WORKFLOW,
    &STEP,
    &DEFAULTS,
    &HTTP,
    &SHELL_TOOL,
    &WRITE_FILE,
    &RETRY,
    &BUDGET,
    &ASSERT,
    &SOURCE,
    &ERROR_POLICY,
    &PHASE,
    &CAPTURED_OUTPUT,
    &MAP,
    &TRIGGER,
    &TRIGGER_CONFIG,
    &STATE,
    &FRAGMENT,
    &CONSTRAINT,
    &UNTIL,
    &EVALUATE,
    &ROUTE,
    &NODE,
    &EDGE,
    &EDGE_CONFIG,
    &INPUT,
    &AGENT,
    &SERVER,
    &AGENT_TOOL,
    &COMPUTED,
    &SECRET,
    &ALLOW,
    &SCENARIO,
    &SCENARIO_STEP,
    &TARGET,
    &SCENARIO_JUDGE,
    &REPEAT,
];

/// A whole file.
pub static WORKFLOW: ObjectSpec = ObjectSpec {
    name: "workflow",
    title: "a workflow",
    doc: "a workflow file. A file that is only a list is read as its `steps`",
    keys: &[
        key(
            "threadline",
            KeyKind::Fixed(Form::OneOf(&[choice("1", "this version")])),
            "version of the language that the file is written in",
        )
        .default("1"),
        key("name", TEXT, "display name. Default: the name of the file"),
        key("description", TEXT, "purpose of the workflow, for readers"),
        key(
            "undefined",
            KeyKind::Fixed(Form::OneOf(&[
                choice("error", "the reference is an error"),
                choice("keep", "the reference stays in the text as written"),
                choice("empty", "the reference is replaced by nothing, or by null where a value is expected"),
            ])),
            "how a reference without a value is treated in text and value fields",
        )
        .default("error"),
        key(
            "inputs",
            KeyKind::Map(&KeyKind::Object(&INPUT)),
            "values that the caller provides, read as `${inputs.NAME}`",
        ),
        key(
            "context",
            KeyKind::Map(&KeyKind::Value),
            "values that the author defines, read as `${context.NAME}`. Each is evaluated once, when \
             it is first read",
        ),
        key(
            "env",
            KeyKind::Map(&KeyKind::Text),
            "environment variables of every step. Null removes a variable",
        ),
        key(
            "env_file",
            KeyKind::Either(&[TEXT, KeyKind::List(&TEXT)]),
            "files with environment variables, one `NAME=value` per line. A variable that Threadline \
             was started with takes precedence, then the file that is listed last",
        )
        .aliases(&["env_files"]),
        key(
            "secrets",
            KeyKind::Map(&KeyKind::Either(&[TEXT, KeyKind::Object(&SECRET)])),
            "values that are never recorded or shown, read as `${secrets.NAME}`. `NAME: VARIABLE` is \
             short for `NAME: {env: VARIABLE}`",
        ),
        key(
            "defaults",
            KeyKind::Object(&DEFAULTS),
            "keys that hold for every step which does not set them itself",
        ),
        key("agents", KeyKind::Map(&KeyKind::Agent), "agents that answer `agent` steps, keyed by name"),
        key(
            "prices",
            KeyKind::Map(&KeyKind::Value),
            "what a million tokens of each model cost in US dollars: `MODEL: {input: 3, output: 15}`, for agents without a \
             `price`",
        ),
        key(
            "servers",
            KeyKind::Map(&KeyKind::Object(&SERVER)),
            "MCP servers, keyed by name. Their tools are called as `SERVER.TOOL`",
        ),
        key(
            "computed",
            KeyKind::Map(&KeyKind::Object(&COMPUTED)),
            "computed values that the author defines, keyed by name: `ticket` is read as \
             `${ticket:ABC-1}`",
        ),
        key(
            "shell_safety",
            KeyKind::Fixed(Form::OneOf(&[
                choice("refuse", "the step is refused"),
                choice("warn", "the step is reported, and runs"),
            ])),
            "what happens to a step whose command cannot be followed, so that a value could be run as code",
        )
        .default("refuse"),
        key("allow", KeyKind::Object(&ALLOW), "permissions that a workflow does not have by default"),
        key(
            "locks",
            KeyKind::List(&KeyKind::Text),
            "resources that only one run may use at a time: paths, relative to the working folder \
             of the steps, and names, written as `name:release`",
        ),
        key(
            "steps",
            KeyKind::Either(&[KeyKind::Steps, KeyKind::List(&ACTION)]),
            "steps to run, in order. With `until`, also commands and states",
        )
        .aliases(&["commands"]),
        key(
            "nodes",
            KeyKind::Nodes,
            "steps of a graph, keyed by id. Each starts as soon as everything it reads and needs is \
             available",
        ),
        key(
            "edges",
            KeyKind::List(&KeyKind::Object(&EDGE)),
            "dependencies between nodes. A node waits for all of its incoming edges",
        ),
        key(
            "mode",
            KeyKind::Fixed(Form::OneOf(&[choice(
                "mapreduce",
                "a file with the phases `setup`, `map`, `reduce` and `merge`",
            )])),
            "shape of the file. Default: derived from the other keys",
        ),
        key("setup", PHASE_OR_STEPS, "steps to run before the items of `map`"),
        key("map", KeyKind::Object(&MAP), "steps to run for each of many items"),
        key("reduce", PHASE_OR_STEPS, "steps to run after the items; they read `${map.results}`"),
        key("merge", PHASE_OR_STEPS, "steps to run last, for example to merge the branch `${map.branch}`"),
        key(
            "aggregates",
            KeyKind::Map(&KeyKind::Value),
            "values computed from the results of `map`, read as `${aggregates.NAME}`",
        ),
        key("error_policy", KeyKind::Object(&ERROR_POLICY), "how failed items of `map` are handled"),
        key(
            "states",
            KeyKind::Map(&KeyKind::Object(&STATE)),
            "states of a loop, keyed by name. Each state decides which state follows",
        ),
        key(
            "initial",
            KeyKind::Fixed(Form::Name),
            "name of the first state. Entering it starts an iteration",
        ),
        key(
            "max_steps",
            KeyKind::Setting(Form::Count(1)),
            "maximum number of states to execute. Default: 50, times `max_iterations` if set",
        ),
        key(
            "max_iterations",
            KeyKind::Setting(Form::Count(1)),
            "maximum number of iterations. An iteration starts when the loop enters `initial`. \
             Default: none",
        ),
        key(
            "max_edge_revisits",
            KeyKind::Setting(Form::Count(0)),
            "maximum number of times that the loop may repeat a transition from one state to another. \
             Default: none",
        ),
        key(
            "max_stall",
            KeyKind::Setting(Form::Count(2)),
            "number of consecutive visits with the same verdict and the same output after which a \
             judged state stops the loop. Default: none",
        ),
        key(
            "budget",
            KeyKind::Object(&BUDGET),
            "what the agents of a run may use together, with called runs",
        ),
        key(
            "timeout",
            KeyKind::Setting(Form::Duration),
            "maximum duration of all steps together, not counting the time the run was stopped. When it is over, what \
             runs is ended and the run fails; a loop stops instead, and can be resumed. Default: none",
        ),
        key(
            "backoff",
            KeyKind::Setting(Form::Duration),
            "pause before each further iteration of a loop. Default: none",
        ),
        key(
            "maintain",
            BOOL,
            "whether a loop that ended successfully starts again, until `max_iterations` or a signal \
             ends it",
        )
        .default("false"),
        key(
            "on_failure",
            KeyKind::Steps,
            "steps to run when the steps have ended and the run has failed. The run stays failed",
        ),
        key(
            "on_success",
            KeyKind::Steps,
            "steps to run when the steps have ended and none of them failed the run",
        ),
        key("finally", KeyKind::Steps, "steps to run at the end of the run, whether it succeeded or failed"),
        key(
            "from",
            TEXT,
            "path of a workflow file to inherit from, relative to this file. The keys of this file \
             take precedence; objects are merged key by key, and null removes an inherited key",
        ),
        key(
            "import",
            KeyKind::Either(&[TEXT, KeyKind::List(&TEXT)]),
            "paths of files to import `fragments` from, relative to this file",
        ),
        key(
            "fragments",
            KeyKind::Map(&KeyKind::Object(&FRAGMENT)),
            "reusable state templates, keyed by name",
        ),
        key(
            "paradigm",
            KeyKind::Fixed(Form::OneOf(&[
                choice("goal", "runs `check` and `fix` until the check passes"),
                choice("convergence", "runs `using` until the number that `check` prints reaches `toward`"),
                choice("invariants", "runs `constraints`, each a check with its fix, until all of them hold"),
                choice("imperative", "repeats `steps` until `until` holds"),
                choice("fsm", "`states`, written out in full"),
            ])),
            "short form of the loop. Default: derived from the other keys",
        ),
        key("goal", TEXT, "goal of the loop, for readers. The loop runs `fix` until `check` passes"),
        key(
            "tools",
            KeyKind::List(&ACTION),
            "for `goal`: the actions that check and fix, instead of `check` and `fix`",
        ),
        key(
            "check",
            ACTION,
            "for `goal`: the action that decides whether the goal is reached. For `convergence`: the \
             action that prints the number",
        ),
        key("fix", ACTION, "for `goal`: the action to run while the goal is not reached"),
        key(
            "evaluate",
            KeyKind::Either(&[KeyKind::Fixed(Form::OneOf(EVALUATORS)), KeyKind::Object(&EVALUATE)]),
            "for `goal`: how the result of `check` is judged",
        )
        .aliases(&["evaluator"]),
        key("toward", KeyKind::Value, "for `convergence`: the target number"),
        key("using", ACTION, "for `convergence`: the action that moves the number toward the target"),
        key(
            "tolerance",
            KeyKind::Value,
            "for `convergence`: maximum distance from the target that counts as reached",
        ),
        key("direction", TEXT, "for `convergence`: the direction in which the number should change"),
        key(
            "constraints",
            KeyKind::List(&KeyKind::Object(&CONSTRAINT)),
            "for `invariants`: the conditions that must hold, checked in order",
        ),
        key(
            "until",
            KeyKind::Either(&[KeyKind::Shell, KeyKind::Object(&UNTIL)]),
            "for `imperative`: the condition that ends the loop, checked after each pass over `steps`",
        ),
        key(
            "imports",
            KeyKind::Map(&KeyKind::Fixed(Form::Text)),
            "exports of earlier runs, keyed by name: with `build: compile`, the exports of the last \
             completed run of the workflow `compile` are read as `${imports.build}`",
        ),
        key(
            "exports",
            KeyKind::Map(&KeyKind::Value),
            "values that later runs may import, available once the workflow has completed",
        ),
        key(
            "scenarios",
            KeyKind::Either(&[
                KeyKind::List(&KeyKind::Object(&SCENARIO)),
                KeyKind::Map(&KeyKind::Object(&SCENARIO)),
            ]),
            "scenarios that test agents and workflows: a list, or keyed by id",
        ),
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
        SHARED[11],
        SHARED[12],
        SHARED[13],
        SHARED[14],
        SHARED[15],
        SHARED[16],
        SHARED[17],
        SHARED[18],
        SHARED[19],
    ],
    base: None,
};

/// One unit of work.
pub(crate) static STEP: ObjectSpec = ObjectSpec {
    name: "step",
    title: "a step",
    doc: "one unit of work, with exactly one of `shell`, `argv`, `agent`, `claude`, `http`, \
             `tool`, `write_file`, `value`, `assert`, `fail`, `wait`, `workflow` and `foreach`; a node may have \
             `condition` or `trigger` instead",
    keys: &[
        key(
            "id",
            KeyKind::Fixed(Form::Name),
            "name of the step. Its output is read as `${ID}`, `${ID.exit_code}`",
        ),
        key("name", TEXT, "display name"),
        key("when", KeyKind::Expression, "condition. The step is skipped when it is false"),
        key(
            "shell",
            KeyKind::Shell,
            "shell script to run. References are bound as variables, never pasted into the text",
        )
        .on(&[Shell]),
        key("argv", KeyKind::List(&KeyKind::Text), "program to run without a shell, and its arguments")
            .on(&[Argv]),
        key("agent", KeyKind::Fixed(Form::Name), "name of the agent that answers")
            .aliases(&["agent_id"])
            .on(&[Agent]),
        key("message", KeyKind::Text, "message to send to the agent").on(&[Agent]),
        key("claude", KeyKind::Text, "short for `agent: claude` with this `message`").on(&[Agent]),
        key(
            "output",
            KeyKind::Fixed(Form::Any),
            "what the answer must be: types such as `{score: int, reason: text, tags: [text]}`, or a JSON Schema. The \
             JSON value of the answer is read as `${STEP.result.output}`",
        )
        .on(&[Agent]),
        key(
            "ask_again",
            KeyKind::Fixed(Form::Count(0)),
            "how often the agent is asked again, with the reason, if its answer does not fit `output`",
        )
        .default("2")
        .on(&[Agent]),
        key(
            "thread",
            KeyKind::Text,
            "name of the conversation that the step continues: what was said in it before comes first. Without it, and where \
             it is empty, a conversation begins",
        )
        .on(&[Agent]),
        key(
            "cache",
            BOOL,
            "whether the answer is kept for later runs, and used when the agent is asked exactly the same. Default: what \
             the agent says",
        )
        .on(&[Agent]),
        key(
            "http",
            KeyKind::Object(&HTTP),
            "HTTP request to send. The response becomes the value of the step",
        )
        .on(&[Http]),
        key(
            "tool",
            TEXT,
            "tool to call: `shell`, `http`, or `SERVER.TOOL` for a tool of one of the `servers`",
        )
        .aliases(&["tool_name"])
        .on(&[Tool]),
        key("params", KeyKind::Value, "arguments of the tool, as an object")
            .aliases(&["static_params"])
            .on(&[Tool]),
        key("write_file", KeyKind::Object(&WRITE_FILE), "file to write").on(&[WriteFile]),
        key("value", KeyKind::Value, "value to compute. Its type is preserved").on(&[ValueStep]),
        key(
            "assert",
            KeyKind::Object(&ASSERT),
            "expectations about any value or answer. The step fails if one of them is not met",
        )
        .on(&[Assert]),
        key("fail", KeyKind::Text, "message with which the step fails, with the error type `Fail`")
            .on(&[Fail]),
        key("wait", KeyKind::Setting(Form::Duration), "how long the step waits").on(&[Wait]),
        key(
            "workflow",
            TEXT,
            "path of the workflow file to call, relative to the folder of this file. Its exports \
             become the value of the step",
        )
        .on(&[Workflow]),
        key("with", KeyKind::Map(&KeyKind::Value), "inputs of the called workflow, keyed by name")
            .on(&[Workflow]),
        key(
            "foreach",
            KeyKind::Either(&[KeyKind::Value, KeyKind::Object(&SOURCE)]),
            "list, or source of a list. The steps of `do` run once for each item",
        )
        .on(&[ForEach]),
        key(
            "condition",
            KeyKind::Expression,
            "for nodes: the condition that selects the branch `true` or `false`",
        )
        .on(&[Condition]),
        key(
            "condition_type",
            KeyKind::Fixed(Form::OneOf(&[
                choice("expression", "the branch is the result of the condition"),
                choice("exists", "the branch is `true` if the reference has a value"),
            ])),
            "how `condition` is read",
        )
        .default("expression")
        .on(&[Condition]),
        key(
            "trigger",
            KeyKind::Either(&[KeyKind::Fixed(Form::OneOf(TRIGGERS)), KeyKind::Object(&TRIGGER)]),
            "for nodes: the event that starts the graph. The value of the step holds the payload, \
             which is also `${trigger}`",
        )
        .on(&[Trigger]),
        key(
            "needs",
            NEEDS,
            "for nodes: the nodes that must have completed first. `gate.true` also requires that \
             branch of `gate` to be taken",
        ),
        key("do", KeyKind::Steps, "steps to run for each item, which they read as `${item}`").on(&[ForEach]),
        key("parallel", KeyKind::Setting(Form::Count(1)), "maximum number of items to process at once")
            .default("1")
            .on(&[ForEach]),
        key("json_path", TEXT, JSON_PATH_DOC).on(&[ForEach]),
        key("filter", FILTER, FILTER_DOC).on(&[ForEach]),
        key("sort_by", SORT_BY, SORT_BY_DOC).on(&[ForEach]),
        key("distinct", KeyKind::Expression, DISTINCT_DOC).on(&[ForEach]),
        key("offset", KeyKind::Setting(Form::Count(0)), OFFSET_DOC).default("0").on(&[ForEach]),
        key(
            "max_items",
            KeyKind::Setting(Form::Count(0)),
            "maximum number of items to process. Default: all",
        )
        .on(&[ForEach]),
        key(
            "error_policy",
            KeyKind::Object(&ERROR_POLICY),
            "how failed items are handled. Default: the first failure ends the list",
        )
        .on(&[ForEach]),
        key("item_timeout", KeyKind::Setting(Form::Duration), "maximum duration of each item. Default: none")
            .on(&[ForEach]),
        key(
            "capture",
            KeyKind::Fixed(Form::Name),
            "name for the output. Its value is read as `${NAME}`, its other fields as \
             `${captured.NAME.exit_code}`",
        )
        .aliases(&["capture_output"]),
        key(
            "capture_format",
            KeyKind::Fixed(Form::OneOf(CAPTURE_FORMATS)),
            "how the output is parsed, or the text that a tool answers",
        )
        .default("text")
        .on(&[Shell, Argv, Agent, Tool])
        .shareable(),
        key(
            "timeout",
            KeyKind::Setting(Form::Duration),
            "maximum duration of an attempt. Default: none, `10m` for tools of servers",
        )
        .on(&[Shell, Argv, Agent, Http, Tool, Workflow])
        .shareable(),
        key(
            "idle_timeout",
            KeyKind::Setting(Form::Duration),
            "maximum time that an attempt may go without printing to stdout or stderr. Default: none",
        )
        .on(PROGRAMS)
        .shareable(),
        key("budget", KeyKind::Object(&BUDGET), "what agents may use together in the step, or in the items of its list")
            .on(&[Agent, Workflow, ForEach]),
        key(
            "retry",
            KeyKind::Either(&[KeyKind::Setting(Form::Count(1)), KeyKind::Object(&RETRY)]),
            "how often to try the step: the total number of attempts, or an object with details. \
             Default: 1",
        )
        .on(&[Shell, Argv, Agent, Http, Tool, WriteFile, Assert, Workflow])
        .shareable(),
        key(
            "on_crash",
            KeyKind::Fixed(Form::OneOf(&[
                choice("rerun", "the step runs again"),
                choice("fail", "the step fails"),
                choice("ask", "the run waits for a decision"),
            ])),
            "what happens to the step if Threadline was killed while the step ran. Default: `rerun`, and `ask` for agents \
             whose answers cost money",
        )
        .on(&[Shell, Argv, Agent, Http, Tool, WriteFile])
        .shareable(),
        key(
            "on",
            LABELS,
            "labels of the workers that may perform the step, in a run on other machines: `{gpu: true}`. Default: those of \
             its agent, of the list around it, or of `defaults`. Without `run --on` it means nothing",
        )
        .on(&[Shell, Argv, Agent, Http, ForEach])
        .shareable(),
        key(
            "expect",
            KeyKind::Expectation,
            "expectation that the result `{value, output, exit_code, meta}` must meet; otherwise the \
             step fails. If it checks `exit_code`, a nonzero code alone is not a failure",
        ),
        key("on_failure", KeyKind::Steps, "steps to run if the step fails. The step stays failed"),
        key("on_success", KeyKind::Steps, "steps to run if the step succeeds"),
        key("finally", KeyKind::Steps, "steps to run after the step, whether it succeeded or failed"),
        key("continue_on_error", BOOL, "whether the following steps run if the step fails").default("false"),
        key(
            "env",
            KeyKind::Map(&KeyKind::Text),
            "environment variables of the step. Null removes a variable",
        )
        .on(&[Shell, Argv, Agent, Workflow])
        .shareable(),
        key("cwd", KeyKind::Text, "working folder")
            .aliases(&["working_dir"])
            .on(&[Shell, Argv, Agent, WriteFile, ValueStep, Workflow])
            .shareable(),
        key("interpolate", BOOL, "whether references in the shell text are bound")
            .default("true")
            .on(&[Shell]),
        key(
            "shell_program",
            TEXT,
            "shell that runs the text. Default: `bash`; the step fails if that is not installed",
        )
        .on(&[Shell])
        .shareable(),
        key("strict_shell", BOOL, "whether the shell stops at the first command that fails")
            .default("true")
            .on(&[Shell])
            .shareable(),
        key(
            "trust",
            TEXT,
            "why the command is safe although it cannot be followed: answers `shell-not-known` for this step",
        )
        .on(&[Shell, Argv]),
        key(
            "max_output",
            KeyKind::Setting(Form::Size),
            "maximum size of the output or of the response. More than this fails the step",
        )
        .default("64MiB")
        .on(&[Shell, Argv, Agent, Http, Tool])
        .shareable(),
        key(
            "secret_output",
            KeyKind::Fixed(Form::OneOf(&[
                choice("fail", "the step fails"),
                choice("mask", "the step goes on with `***` in place of the secret"),
            ])),
            "what happens if the output or the answer of the step contains a secret. It is never recorded",
        )
        .default("fail")
        .on(&[Shell, Argv, Agent, Http, Tool])
        .shareable(),
    ],
    base: None,
};

/// Expectations about a document.
pub(crate) static ASSERT: ObjectSpec = ObjectSpec {
    name: "assert",
    title: "`assert`",
    doc: "expectations about a document: either a `value`, or the `answer` of an agent. The value of the step says what \
          each of them came to",
    keys: &[
        key("value", KeyKind::Value, "value to check. Expectations read it as `value`"),
        key(
            "answer",
            KeyKind::Value,
            "answer to check: a text, or an object with some of `text`, `type`, `plan`, `tools`, `value`, `usage` and \
             `latency`",
        ),
        key(
            "facts",
            KeyKind::Value,
            "what is known beside the document, as an object. Expectations read `facts.NAME`",
        ),
        key(
            "latency",
            KeyKind::Value,
            "how long the `answer` took, in seconds, where it does not say so itself. Expectations read it as `latency`",
        ),
        key("expect", KeyKind::Expectation, "expectation that must be met, or a list of them").required(),
        key(
            "rulings",
            KeyKind::Value,
            "what judges said: a list of `{question, judge, met, reason, evidence}`",
        ),
        key(
            "quorum",
            KeyKind::Fixed(Form::Count(1)),
            "number of judges that must agree. Default: more than half of those that ruled",
        ),
        key(
            "open",
            KeyKind::Fixed(Form::OneOf(&[
                choice("fail", "the step fails"),
                choice("keep", "the step succeeds, and its value lists the questions as `open`"),
            ])),
            "what happens if only the answer of a judge is missing",
        )
        .default("fail"),
    ],
    base: None,
};

/// What holds for every step.
pub(crate) static DEFAULTS: ObjectSpec = ObjectSpec {
    name: "defaults",
    title: "`defaults`",
    doc: "keys that hold for every step of the file which does not set them itself. A key is left out where it does \
             not apply to what the step does; the variables of `env` are merged. Called workflows have their own",
    keys: &[],
    base: Some(InheritedKeys { object: &STEP, without: &[], only_shareable: true }),
};

/// Labels of workers.
const LABELS: KeyKind = KeyKind::Map(&KeyKind::Fixed(Form::Any));

/// What a state of a short form does: a command, or the keys of a state.
const ACTION: KeyKind = KeyKind::Either(&[KeyKind::Shell, KeyKind::Object(&STATE)]);

/// A part of states.
pub(crate) static FRAGMENT: ObjectSpec = ObjectSpec {
    name: "fragment",
    title: "a fragment",
    doc: "a reusable part of a state. The keys of a state that uses it take precedence",
    keys: &[
        key("description", TEXT, "purpose of the fragment, for readers"),
        key(
            "parameters",
            KeyKind::Map(&KeyKind::Object(&INPUT)),
            "parameters that a state passes with `with`. The fragment reads them as `${param.NAME}`",
        ),
    ],
    base: Some(InheritedKeys {
        object: &STATE,
        without: &["fragment", "with", "param"],
        only_shareable: false,
    }),
};

/// Something that must hold.
pub(crate) static CONSTRAINT: ObjectSpec = ObjectSpec {
    name: "constraint",
    title: "a constraint",
    doc: "a condition that must hold. It becomes the states `check_NAME` and `fix_NAME`",
    keys: &[
        key("name", KeyKind::Fixed(Form::Name), "name of the constraint, part of the names of its states")
            .required(),
        key("description", TEXT, "purpose of the constraint, for readers"),
        key("check", ACTION, "action that decides whether the constraint holds").required(),
        key("fix", ACTION, "action to run while it does not hold").required(),
        key(
            "evaluate",
            KeyKind::Either(&[KeyKind::Fixed(Form::OneOf(EVALUATORS)), KeyKind::Object(&EVALUATE)]),
            "how the result of `check` is judged",
        )
        .aliases(&["evaluator"]),
    ],
    base: None,
};

/// What ends the steps of a loop.
pub(crate) static UNTIL: ObjectSpec = ObjectSpec {
    name: "until",
    title: "the end of a loop",
    doc: "a condition that is checked after each pass over the steps. Short form: the text of its \
             `check`",
    keys: &[
        key("check", ACTION, "action that decides whether the loop is done").required(),
        key(
            "passes",
            BOOL,
            "whether the loop is done when the check passes (`true`) or when it fails (`false`)",
        )
        .default("true"),
        key(
            "evaluate",
            KeyKind::Either(&[KeyKind::Fixed(Form::OneOf(EVALUATORS)), KeyKind::Object(&EVALUATE)]),
            "how the result of `check` is judged",
        )
        .aliases(&["evaluator"]),
    ],
    base: None,
};

/// A step of a loop.
pub(crate) static STATE: ObjectSpec = ObjectSpec {
    name: "state",
    title: "a state",
    doc: "a step of a loop, and the states that may follow it. A state without an action is only \
             judged",
    keys: &[
        key(
            "action",
            KeyKind::Shell,
            "what the state does, as selected by `action_type`. Without `action_type`, short for \
             `shell`",
        ),
        key(
            "action_type",
            KeyKind::Fixed(Form::OneOf(&[
                choice("shell", "`action` is a shell script"),
                choice("prompt", "`action` is a message to `agent`, by default to `claude`")
                    .aliases(&["slash_command"]),
                choice("mcp_tool", "`action` is the name of a tool, `SERVER.TOOL`").aliases(&["tool"]),
            ])),
            "how `action` is read",
        )
        .default("shell"),
        key(
            "fragment",
            TEXT,
            "name of the fragment that the state is based on. The keys of the state take precedence",
        ),
        key(
            "with",
            KeyKind::Map(&KeyKind::Value),
            "parameters of the fragment, or inputs of the called workflow, keyed by name",
        )
        .on(&[Workflow]),
        key("param", KeyKind::Map(&KeyKind::Value), "values that only this state reads, as `${param.NAME}`"),
        key(
            "loop",
            TEXT,
            "loop to call, as with `workflow`. A bare name means the file `NAME.yaml` in the \
             folder of this file",
        ),
        key(
            "evaluate",
            KeyKind::Either(&[KeyKind::Fixed(Form::OneOf(EVALUATORS)), KeyKind::Object(&EVALUATE)]),
            "how the state is judged. Default: by the exit code of a command if the state has routes \
             for verdicts, otherwise by whether the action succeeded",
        ),
        key(
            "next",
            KeyKind::Fixed(Form::Name),
            "state that follows any verdict without a route of its own. An error is not a verdict",
        ),
        key("on_yes", KeyKind::Fixed(Form::Name), "state that follows the verdict `yes`")
            .aliases(&["on_success"]),
        key("on_no", KeyKind::Fixed(Form::Name), "state that follows the verdict `no`")
            .aliases(&["on_failure"]),
        key("on_error", KeyKind::Fixed(Form::Name), "state that follows an error"),
        key("on_VERDICT", KeyKind::Fixed(Form::Name), "state that follows the verdict VERDICT"),
        key(
            "route",
            KeyKind::Either(&[
                KeyKind::Map(&KeyKind::Fixed(Form::Name)),
                KeyKind::List(&KeyKind::Object(&ROUTE)),
            ]),
            "states that follow, keyed by verdict: `_` stands for any other verdict, `_error` for an \
             error. Or a list of conditions",
        ),
        key(
            "terminal",
            KeyKind::Fixed(Form::OneOf(&[
                choice("success", "the loop ends successfully").aliases(&["true"]),
                choice("failure", "the loop fails"),
                choice("false", "the loop continues"),
            ])),
            "whether and how the state ends the loop",
        )
        .default("false"),
        key(
            "max_retries",
            KeyKind::Fixed(Form::Count(0)),
            "maximum number of consecutive times that the state may follow itself. Then \
             `on_retry_exhausted` follows. Default: none",
        ),
        key(
            "on_retry_exhausted",
            KeyKind::Fixed(Form::Name),
            "state that follows when `max_retries` is exhausted",
        ),
        key("strict_shell", BOOL, "whether the shell stops at the first command that fails")
            .default("false")
            .on(&[Shell]),
    ],
    base: Some(InheritedKeys {
        object: &STEP,
        without: &[
            "id",
            "when",
            "condition",
            "condition_type",
            "trigger",
            "needs",
            "on_failure",
            "on_success",
            "finally",
            "continue_on_error",
            "expect",
            "strict_shell",
            "with",
        ],
        only_shareable: false,
    }),
};

const EVALUATORS: &[Choice] = &[
    choice("exit_code", "`yes` for 0, `no` for 1, an error for any other exit code"),
    choice(
        "outcome",
        "`yes` if the action succeeded, `no` if the loop that it called ended in a failure state",
    ),
    choice("expression", "`yes` for true, `no` for false; a text is the verdict itself"),
    choice("output_numeric", "`yes` if the number in the output compares as requested, otherwise `no`"),
    choice("output_json", "`yes` if a value in the JSON output compares as requested, otherwise `no`"),
    choice(
        "output_contains",
        "`yes` if the output contains a text or matches a regular expression, otherwise `no`",
    ),
    choice(
        "convergence",
        "`target`, `progress` or `stall`, from a number and its value at the previous visit",
    ),
    choice("classify", "the last nonempty line of the output is the verdict"),
    choice("expect", "`yes` if the result of the state meets an expectation, otherwise `no`"),
    choice("agent", "a judge answers with one of `verdicts`, its confidence and its evidence")
        .aliases(&["llm_structured"]),
];

/// How a state is judged.
pub(crate) static EVALUATE: ObjectSpec = ObjectSpec {
    name: "evaluate",
    title: "an evaluation",
    doc: "how the verdict of a state is determined. If it cannot be determined, the verdict is \
             `error`. All texts and values may contain references",
    keys: &[
        key(
            "type",
            KeyKind::Fixed(Form::OneOf(EVALUATORS)),
            "how the verdict is determined. Default: derived from `expression`, `expect`, `pattern`, \
             `path` or `prompt`",
        ),
        key("source", KeyKind::Value, "value to judge. Default: the output, or the exit code").types(&[
            "exit_code",
            "output_numeric",
            "output_json",
            "output_contains",
            "convergence",
            "classify",
            "expect",
            "agent",
        ]),
        key(
            "any_exit_code",
            BOOL,
            "whether output counts even if the command exited with a nonzero code. Otherwise such a \
             code is an error",
        )
        .default("false")
        .types(&[
            "output_numeric",
            "output_json",
            "output_contains",
            "convergence",
            "classify",
            "expect",
        ]),
        key("yes_codes", KeyKind::List(&KeyKind::Fixed(Form::Count(0))), "exit codes that mean `yes`")
            .default("[0]")
            .types(&["exit_code"]),
        key("no_codes", KeyKind::List(&KeyKind::Fixed(Form::Count(0))), "exit codes that mean `no`")
            .default("[1]")
            .types(&["exit_code"]),
        key("expression", KeyKind::Expression, "expression to evaluate. It may read `result`")
            .types(&["expression"]),
        key(
            "operator",
            KeyKind::Text,
            "comparison operator: `eq`, `ne`, `gt`, `gte`, `lt`, `lte` (or `>=` and so on), or \
             another operator of expectations",
        )
        .default("eq")
        .types(&["output_numeric", "output_json"]),
        key(
            "target",
            KeyKind::Value,
            "value to compare with, or to converge to. Operators such as `exists` need none",
        )
        .types(&["output_numeric", "output_json", "convergence"]),
        key(
            "key",
            KeyKind::Text,
            "name of the number to read from lines such as `errors=3` or `errors: 3`; the last match \
             counts. Default: the output is a single number, or the last number with any name",
        )
        .types(&["output_numeric", "convergence"]),
        key(
            "path",
            KeyKind::Text,
            "path of the value in the document, as `a.b[0].c` or as JSONPath `$.a`. Default: the \
             whole document",
        )
        .types(&["output_json"]),
        key("pattern", KeyKind::Text, "text to look for, or a regular expression `/pattern/flags`")
            .types(&["output_contains"]),
        key(
            "regex",
            BOOL,
            "whether the patterns are regular expressions. Default: only those between slashes",
        )
        .types(&["output_contains"]),
        key("negate", BOOL, "whether the verdict is `yes` if the pattern is absent")
            .default("false")
            .types(&["output_contains"]),
        key(
            "error_patterns",
            KeyKind::Either(&[KeyKind::Text, KeyKind::List(&KeyKind::Text)]),
            "patterns that make the verdict an error if one of them is present",
        )
        .types(&["output_contains"]),
        key("tolerance", KeyKind::Value, "maximum distance from the target that counts as reached")
            .default("0")
            .types(&["convergence"]),
        key(
            "direction",
            KeyKind::Text,
            "`minimize`, `maximize`, or `toward` from either side. With the first two, passing the \
             target counts as reaching it",
        )
        .default("toward")
        .types(&["convergence"]),
        key(
            "previous",
            KeyKind::Value,
            "number to compare with. Default: the number at the previous visit of this state",
        )
        .types(&["convergence"]),
        key(
            "verdicts",
            KeyKind::List(&KeyKind::Fixed(Form::Name)),
            "allowed verdicts. Any other verdict is an error",
        )
        .types(&["classify", "agent"]),
        key("expect", KeyKind::Expectation, "expectation about `value`, `output`, `exit_code` and `meta`")
            .types(&["expect"]),
        key("agent", KeyKind::Fixed(Form::Name), "name of the agent that judges")
            .default("claude")
            .types(&["agent"]),
        key(
            "prompt",
            KeyKind::Text,
            "question for the judge. The judged value is appended, unless the prompt reads `result` \
             itself",
        )
        .types(&["agent"]),
        key(
            "min_confidence",
            KeyKind::Value,
            "minimum confidence, from 0 to 1. A verdict below it becomes `uncertain`",
        )
        .types(&["agent"]),
        key(
            "timeout",
            KeyKind::Setting(Form::Duration),
            "maximum time that the judge may take. Default: none",
        )
        .types(&["agent"]),
    ],
    base: None,
};

/// A condition and where it leads.
pub(crate) static ROUTE: ObjectSpec = ObjectSpec {
    name: "route",
    title: "a route",
    doc: "a condition on `result`, and the state that follows if it holds",
    keys: &[
        key("when", KeyKind::Expression, "condition. The first route whose condition holds is taken")
            .required(),
        key("to", KeyKind::Fixed(Form::Name), "state that follows").required(),
    ],
    base: None,
};

const PHASE_OR_STEPS: KeyKind = KeyKind::Either(&[KeyKind::Steps, KeyKind::Object(&PHASE)]);
const FILTER: KeyKind = KeyKind::Either(&[KeyKind::Expression, KeyKind::Expectation]);
const SORT_BY: KeyKind = KeyKind::Either(&[TEXT, KeyKind::List(&TEXT)]);
const JSON_PATH_DOC: &str =
    "JSONPath (RFC 9535) that selects the items in a JSON document, such as `$.items[*]`";
const FILTER_DOC: &str = "condition on `item`, or expectation, that selects the items to process";
const SORT_BY_DOC: &str = "sort keys, such as `item.priority DESC NULLS LAST, item.name`, or a list of them";
const DISTINCT_DOC: &str =
    "expression such as `item.id`. Of several items with the same value, only the first is processed";
const OFFSET_DOC: &str = "number of items to skip at the start";

/// Where items come from.
pub(crate) static SOURCE: ObjectSpec = ObjectSpec {
    name: "source",
    title: "a source of items",
    doc: "where items come from: a file, the files of a pattern, or the output of a command",
    keys: &[
        key("file", KeyKind::Text, "path of the file"),
        key(
            "files",
            KeyKind::Text,
            "pattern such as `cases/*.json`. Each file is an item with `path`, `name` and `content`, in the order of \
             the paths; `content` is typed for JSON and YAML, and otherwise text. `*` and `?` stand for characters of a \
             name, `**` for folders",
        ),
        key("shell", KeyKind::Shell, "shell script whose output is read"),
        key(
            "format",
            KeyKind::Fixed(Form::OneOf(&[
                choice("json", "one JSON document: a list, or whatever `json_path` selects from it"),
                choice("jsonl", "one JSON document per line").aliases(&["ndjson"]),
                choice("lines", "one text per line; empty lines are skipped"),
                choice(
                    "csv",
                    "rows of texts with commas between them, each an object; the first row names the columns",
                ),
            ])),
            "how the source is read. Default: for a file, derived from its name or else from its \
             content; for a command, `lines`",
        ),
    ],
    base: None,
};

/// What becomes of items that fail.
pub(crate) static ERROR_POLICY: ObjectSpec = ObjectSpec {
    name: "error_policy",
    title: "`error_policy`",
    doc: "how failed items are handled",
    keys: &[
        key(
            "on_item_failure",
            KeyKind::Fixed(Form::OneOf(&[
                choice("retry", "retry it, as `retry` says or once; then skip it"),
                choice("skip", "process the other items").aliases(&["dlq"]),
                choice("stop", "start no further item"),
            ])),
            "what happens when an item fails",
        )
        .default("skip"),
        key(
            "continue_on_failure",
            BOOL,
            "whether the run continues with the results of the other items after failures. Otherwise \
             it fails",
        )
        .default("false"),
        key(
            "max_failures",
            KeyKind::Setting(Form::Count(0)),
            "maximum number of items that may fail. If more fail, no further item starts and the run \
             fails. Default: none",
        ),
        key(
            "failure_threshold",
            KeyKind::Setting(Form::Fraction),
            "maximum share of all items that may fail, such as `0.1` or `10%`. Default: none",
        ),
    ],
    base: None,
};

/// Steps before or after the items.
pub(crate) static PHASE: ObjectSpec = ObjectSpec {
    name: "phase",
    title: "a phase",
    doc: "steps before or after the items of a map. Names of these steps are only visible inside \
             the phase. Short form: the list of steps",
    keys: &[
        key("steps", KeyKind::Steps, "steps to run, in order").aliases(&["commands"]),
        key("timeout", KeyKind::Fixed(Form::Duration), "maximum duration of the phase. Default: none"),
        key(
            "capture_outputs",
            KeyKind::Map(&KeyKind::Either(&[
                KeyKind::Fixed(Form::Count(0)),
                KeyKind::Object(&CAPTURED_OUTPUT),
            ])),
            "names for the outputs of steps, each with the number of the step, counted from 0. \
             `capture` on a step does the same",
        ),
        key(
            "variables",
            KeyKind::Map(&KeyKind::Value),
            "values for later phases, evaluated at the end of the phase and read as \
             `${setup.variables.NAME}`",
        ),
        key(
            "exports",
            KeyKind::List(&TEXT),
            "names of steps and captures of this phase that later phases may read directly",
        ),
    ],
    base: None,
};

/// A captured output of a phase.
pub(crate) static CAPTURED_OUTPUT: ObjectSpec = ObjectSpec {
    name: "captured_output",
    title: "an entry of `capture_outputs`",
    doc: "a name for the output of a step. Short form: the number of the step",
    keys: &[
        key("command_index", KeyKind::Fixed(Form::Count(0)), "number of the step, counted from 0").required(),
        key(
            "format",
            KeyKind::Fixed(Form::OneOf(CAPTURE_FORMATS)),
            "how the output is parsed. Default: the `capture_format` of the step",
        ),
        key(
            "source",
            KeyKind::Fixed(Form::OneOf(&[choice("stdout", "the standard output")])),
            "which output to capture",
        )
        .default("stdout"),
    ],
    base: None,
};

/// What is done for each item.
pub(crate) static MAP: ObjectSpec = ObjectSpec {
    name: "map",
    title: "`map`",
    doc: "the steps to run for each of many items. Items are selected in the order of these keys",
    keys: &[
        key(
            "input",
            KeyKind::Either(&[KeyKind::Value, KeyKind::Object(&SOURCE)]),
            "source of the items: the path of a file, a list, a reference, `{file}` or `{shell}`",
        ),
        key("json_path", TEXT, JSON_PATH_DOC),
        key("filter", FILTER, FILTER_DOC),
        key("sort_by", SORT_BY, SORT_BY_DOC),
        key("distinct", KeyKind::Expression, DISTINCT_DOC),
        key("offset", KeyKind::Setting(Form::Count(0)), OFFSET_DOC).default("0"),
        key(
            "max_items",
            KeyKind::Setting(Form::Count(0)),
            "maximum number of items to process. Default: all",
        ),
        key("max_parallel", KeyKind::Setting(Form::Count(1)), "maximum number of items to process at once")
            .aliases(&["parallel"])
            .default("1"),
        key("steps", PHASE_OR_STEPS, "steps to run for each item, which they read as `${item}`")
            .aliases(&["agent_template", "do"]),
        key(
            "timeout",
            KeyKind::Setting(Form::Duration),
            "maximum duration of an attempt at an item. Default: none",
        )
        .aliases(&["agent_timeout_secs"]),
        key("budget", KeyKind::Object(&BUDGET), "what agents may use together for all items"),
        key(
            "retry",
            KeyKind::Either(&[KeyKind::Setting(Form::Count(1)), KeyKind::Object(&RETRY)]),
            "how often to try an item, from its first step: the total number of attempts, or an \
             object with details. Default: 1",
        ),
        key("worktree", BOOL, "whether each item is processed in a git worktree of its own").default("false"),
        key("on", LABELS, "labels of the workers that may perform the steps of items: `on` of a step"),
    ],
    base: None,
};

/// What an output is read as.
const CAPTURE_FORMATS: &[Choice] = &[
    choice("text", "text without trailing line breaks").aliases(&["string"]),
    choice("json", "a JSON document"),
    choice("lines", "a list of lines"),
    choice("number", "a number"),
    choice("boolean", "`true` or `false`").aliases(&["bool"]),
];

const TRIGGERS: &[Choice] = &[
    choice("manual", "the workflow is run by hand"),
    choice(
        "schedule",
        "at a given time; in this version the definition is only checked, and every run fires it",
    ),
    choice(
        "webhook",
        "on an incoming request; in this version the definition is only checked, and every run \
             fires it",
    ),
];

/// What starts a graph.
pub(crate) static TRIGGER: ObjectSpec = ObjectSpec {
    name: "trigger",
    title: "`trigger`",
    doc: "the event that starts a graph. Short form: its type",
    keys: &[
        key("type", KeyKind::Fixed(Form::OneOf(TRIGGERS)), "type of event").default("manual"),
        key("config", KeyKind::Object(&TRIGGER_CONFIG), "details of the trigger"),
    ],
    base: None,
};

/// More about a trigger.
pub(crate) static TRIGGER_CONFIG: ObjectSpec = ObjectSpec {
    name: "trigger_config",
    title: "`config` of a trigger",
    doc: "details of a trigger",
    keys: &[
        key("enabled", BOOL, "whether the trigger is active. Otherwise the node is skipped").default("true"),
        key(
            "params",
            KeyKind::Map(&KeyKind::Fixed(Form::Any)),
            "settings of this type of trigger, such as `cron` or `path`",
        ),
        key(
            "filters",
            KeyKind::Expectation,
            "expectation about the payload, read as `value`. If it is not met, the node is skipped",
        ),
    ],
    base: None,
};

/// A node as a list of nodes has it.
pub(crate) static NODE: ObjectSpec = ObjectSpec {
    name: "node",
    title: "a node",
    doc: "an entry of a list of nodes. In an object of nodes keyed by id, each node is a step",
    keys: &[
        key("id", KeyKind::Fixed(Form::Name), "name of the node. Its output is read by this name").required(),
        key("name", TEXT, "display name"),
        key(
            "type",
            KeyKind::Fixed(Form::OneOf(&[
                choice("agent", "`config` has `agent_id` and `message`"),
                choice("tool", "`config` has `tool_name` and `static_params`"),
                choice("conditional", "`config` has `condition` and `condition_type`"),
                choice("trigger", "`config` has `trigger`"),
                choice("step", "`config` is a step"),
            ])),
            "type of node. Default: derived from `config`",
        ),
        key("config", KeyKind::Object(&STEP), "step that the node executes").required(),
        key("position", KeyKind::Fixed(Form::Any), "position in a graphical editor. Ignored"),
        key("needs", NEEDS, "nodes that must have completed first"),
    ],
    base: None,
};

/// From one node to another.
pub(crate) static EDGE: ObjectSpec = ObjectSpec {
    name: "edge",
    title: "an edge",
    doc: "a dependency of one node on another",
    keys: &[
        key("from", KeyKind::Fixed(Form::Name), "node that the edge leaves")
            .aliases(&["from_node_id", "source"])
            .required(),
        key("to", KeyKind::Fixed(Form::Name), "node that the edge leads to")
            .aliases(&["to_node_id", "target"])
            .required(),
        key("branch", KeyKind::Fixed(Form::Text), "branch of a conditional node that the edge belongs to"),
        key("config", KeyKind::Object(&EDGE_CONFIG), "details of the edge"),
    ],
    base: None,
};

/// More about an edge.
pub(crate) static EDGE_CONFIG: ObjectSpec = ObjectSpec {
    name: "edge_config",
    title: "`config` of an edge",
    doc: "details of an edge",
    keys: &[key(
        "branch",
        KeyKind::Fixed(Form::Text),
        "branch of a conditional node that the edge belongs to",
    )],
    base: None,
};

/// The methods of a request.
pub const METHODS: &[Choice] = &[
    choice("GET", "read a resource").aliases(&["get"]),
    choice("POST", "submit data").aliases(&["post"]),
    choice("PUT", "create or replace a resource").aliases(&["put"]),
    choice("PATCH", "change part of a resource").aliases(&["patch"]),
    choice("DELETE", "delete a resource").aliases(&["delete"]),
    choice("HEAD", "read only the headers of a resource").aliases(&["head"]),
    choice("OPTIONS", "read the supported methods").aliases(&["options"]),
];

/// A request to a server.
pub(crate) static HTTP: ObjectSpec = ObjectSpec {
    name: "http",
    title: "`http`",
    doc: "an HTTP request",
    keys: &[
        key("method", KeyKind::Fixed(Form::OneOf(METHODS)), "request method").default("GET"),
        key(
            "url",
            KeyKind::Text,
            "URL with the scheme `http` or `https`. References are percent-encoded, except at the \
             beginning",
        )
        .required(),
        key("headers", KeyKind::Map(&KeyKind::Text), "request headers"),
        key(
            "query",
            KeyKind::Value,
            "query parameters to add to the URL, as an object. A list adds its parameter once per \
             element",
        ),
        key("body", KeyKind::Value, "request body. Objects and lists are sent as JSON, text as is"),
        key("timeout", KeyKind::Setting(Form::Duration), "maximum time to wait for the response")
            .default("30s"),
    ],
    base: None,
};

/// What the tool `shell` is given.
pub(crate) static SHELL_TOOL: ObjectSpec = ObjectSpec {
    name: "shell_tool",
    title: "`params` of `shell`",
    doc: "arguments of the tool `shell`: one of these keys",
    keys: &[
        key("command", KeyKind::Shell, "shell script to run. References are bound, as in a `shell` step"),
        key("argv", KeyKind::List(&KeyKind::Text), "program to run without a shell, and its arguments"),
    ],
    base: None,
};

/// A file to write.
pub(crate) static WRITE_FILE: ObjectSpec = ObjectSpec {
    name: "write_file",
    title: "`write_file`",
    doc: "a file to write",
    keys: &[
        key("path", KeyKind::Text, "path of the file, relative to the working folder of the step").required(),
        key("content", KeyKind::Value, "content to write").required(),
        key(
            "format",
            KeyKind::Fixed(Form::OneOf(&[
                choice("text", "the text form of the content"),
                choice("json", "indented JSON"),
                choice("yaml", "YAML"),
            ])),
            "format of the file",
        )
        .default("text"),
        key("mode", KeyKind::Fixed(Form::Mode), "permissions of the file, in octal"),
        key("create_dirs", BOOL, "whether missing parent folders are created").default("false"),
    ],
    base: None,
};

/// When a failed step is tried again.
/// The user-wide file of agents.
pub(crate) static USER_AGENTS: ObjectSpec = ObjectSpec {
    name: "user_agents",
    title: "the file of a user's agents",
    doc: "settings of agents that hold for every workflow of a user",
    keys: &[
        key(
            "providers",
            KeyKind::Map(&KeyKind::Agent),
            "settings of the agents of each provider that do not set them",
        ),
        key("prices", KeyKind::Map(&KeyKind::Value), "what a million tokens of each model cost"),
        key("secrets", KeyKind::Map(&KeyKind::Object(&SECRET)), "secrets that these settings read"),
    ],
    base: None,
};

pub(crate) static BUDGET: ObjectSpec = ObjectSpec {
    name: "budget",
    title: "`budget`",
    doc: "what agents may use together. When one limit is reached, no agent is asked any more and the run stops",
    keys: &[
        key("turns", KeyKind::Fixed(Form::Count(1)), "maximum number of messages that agents write"),
        key("tokens", KeyKind::Fixed(Form::Count(1)), "maximum number of tokens that they read and write"),
        key("cost", KeyKind::Fixed(Form::Any), "maximum cost in US dollars, a number"),
        key("time", KeyKind::Fixed(Form::Duration), "maximum time that agents work, all their calls added"),
    ],
    base: None,
};

pub(crate) static RETRY: ObjectSpec = ObjectSpec {
    name: "retry",
    title: "`retry`",
    doc: "how often, and after which pauses, a failed step is tried again",
    keys: &[
        key("attempts", KeyKind::Setting(Form::Count(1)), "total number of attempts").required(),
        key(
            "backoff",
            KeyKind::Fixed(Form::OneOf(&[
                choice("fixed", "every delay is the same"),
                choice("linear", "each delay is longer by `delay`"),
                choice("exponential", "each delay is twice as long as the one before"),
            ])),
            "how the delay between attempts grows",
        )
        .default("fixed"),
        key("delay", KeyKind::Setting(Form::Duration), "delay before the second attempt").default("1s"),
        key("max_delay", KeyKind::Setting(Form::Duration), "maximum delay").default("5m"),
        key("jitter", BOOL, "whether each delay is shortened by a random amount, at most by half")
            .default("false"),
        key("on", FAILURES, ON_DOC),
        key("not_on", FAILURES, "failures that are not tried again, whatever `on` says"),
        key(
            "fix",
            KeyKind::Steps,
            "steps to run after each failed attempt but the last: then the step is tried again, without a delay. They read \
             what it left as `${prev}`. If one of them fails, so does the step",
        ),
    ],
    base: None,
};

/// A value of the caller's.
pub(crate) static INPUT: ObjectSpec = ObjectSpec {
    name: "input",
    title: "an input",
    doc: "a value that the caller provides",
    keys: &[
        key(
            "type",
            KeyKind::Fixed(Form::OneOf(&[
                choice("text", "text").aliases(&["string"]),
                choice("int", "an integer").aliases(&["integer"]),
                choice("number", "any number").aliases(&["decimal", "float"]),
                choice("bool", "`true` or `false`").aliases(&["boolean"]),
                choice("list", "a list").aliases(&["array"]),
                choice("object", "an object"),
            ])),
            "type of the value. Default: any",
        ),
        key(
            "required",
            BOOL,
            "whether the caller must provide the value. Default: `true`, unless there is a `default`",
        ),
        key("default", KeyKind::Fixed(Form::Any), "value to use if the caller provides none"),
        key("description", TEXT, "purpose of the input, for readers"),
    ],
    base: None,
};

/// Who answers an `agent` step.
pub(crate) static AGENT: ObjectSpec = ObjectSpec {
    name: "agent",
    title: "an agent",
    doc: "who answers `agent` steps and judges states. The other keys depend on `provider`",
    keys: &[
        key("provider", KeyKind::Fixed(Form::OneOf(&PROVIDER_WORDS)), "how the agent is asked")
            .default(DEFAULT_PROVIDER.word.name),
        key("model", TEXT, "name of the model, for the records of the run"),
        key("on", LABELS, "labels of the workers that may ask the agent: `on` of a step"),
        key(
            "cache",
            BOOL,
            "whether answers are kept for later runs, and used when the agent is asked exactly the same",
        )
        .default("false"),
    ],
    base: None,
};

/// A server of tools.
pub(crate) static SERVER: ObjectSpec = ObjectSpec {
    name: "server",
    title: "a server",
    doc: "an MCP server: a program that speaks the protocol over stdin and stdout, or a URL",
    keys: &[
        key(
            "command",
            KeyKind::List(&KeyKind::Text),
            "program and its arguments. It is started once per run, at its first use",
        ),
        key(
            "env",
            KeyKind::Map(&KeyKind::Text),
            "environment variables of the program. Null removes a variable",
        ),
        key("cwd", KeyKind::Text, "working folder of the program").aliases(&["working_dir"]),
        key("url", KeyKind::Text, "URL of a server that is reached over HTTP"),
        key("headers", KeyKind::Map(&KeyKind::Text), "headers of every request to the URL"),
    ],
    base: None,
};

/// What an agent may call, where that takes more than a name.
pub(crate) static AGENT_TOOL: ObjectSpec = ObjectSpec {
    name: "agent_tool",
    title: "an entry of `tools`",
    doc: "what an agent may call: tools of a server, or a workflow whose `inputs` become the parameters of the tool",
    keys: &[
        key("server", TEXT, "name of one of the `servers`"),
        key(
            "allow",
            KeyKind::List(&TEXT),
            "the tools of the server that the agent may call, such as `read_file` or `search_*`. Default: all",
        ),
        key("deny", KeyKind::List(&TEXT), "the tools that it may not call although they are allowed"),
        key("workflow", TEXT, "path of a workflow file, relative to the folder of this file"),
        key("name", KeyKind::Fixed(Form::Name), "name of the tool. Default: the name of the file"),
        key("description", TEXT, "what the tool is for. Default: the `description` of the workflow"),
    ],
    base: None,
};

/// A declared kind of computed value.
pub(crate) static COMPUTED: ObjectSpec = ObjectSpec {
    name: "computed",
    title: "an entry of `computed`",
    doc: "a kind of computed value: a program that reads the argument as JSON from stdin and \
             prints JSON",
    keys: &[
        key("command", KeyKind::List(&TEXT), "program and its arguments").required(),
        key("timeout", KeyKind::Fixed(Form::Duration), "maximum duration of one call. Default: `1m`"),
    ],
    base: None,
};

/// A secret of a workflow.
pub(crate) static SECRET: ObjectSpec = ObjectSpec {
    name: "secret",
    title: "a secret",
    doc: "where a secret is read from when the run starts and when it is resumed, with exactly one of \
             these keys",
    keys: &[
        key("env", TEXT, "name of an environment variable, also one of `env_file`"),
        key("file", TEXT, "path of a file. A final line break is not part of the secret"),
        key(
            "command",
            KeyKind::List(&TEXT),
            "program and its arguments. What it prints, without final line breaks, is the secret",
        ),
    ],
    base: None,
};

/// What a workflow may do beyond the usual.
pub(crate) static ALLOW: ObjectSpec = ObjectSpec {
    name: "allow",
    title: "`allow`",
    doc: "permissions that a workflow does not have by default",
    keys: &[
        key("commands", BOOL, "whether `${cmd:...}` may run commands").default("false"),
        key(
            "files",
            KeyKind::List(&TEXT),
            "folders outside the project that `${file:...}`, `write_file` and a `cwd` from values may access",
        ),
        key(
            "hosts",
            KeyKind::List(&TEXT),
            "hosts with private addresses that values and redirects may name: `localhost`, `10.0.0.7`, \
             `*.internal`",
        ),
    ],
    base: None,
};
