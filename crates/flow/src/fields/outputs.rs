//! What steps leave and what the engine's own names hold: one table for the names that are known before a run, for the
//! JSON Schema of an envelope, and for the reference.

use threadline_lang::{Type, Types};

use field_names as names;

/// Names of fields that steps leave, for whoever writes or reads one: the tables are made of them.
#[expect(missing_docs, reason = "each is the name of a field, which a table describes")]
pub mod field_names {
    pub const NODE_TYPE: &str = "node_type";
    pub const STATUS: &str = "status";
    pub const EXECUTION_TIME_MS: &str = "execution_time_ms";
    pub const STARTED_AT: &str = "started_at";
    pub const FINISHED_AT: &str = "finished_at";
    pub const RETRY_COUNT: &str = "retry_count";
    pub const ERROR: &str = "error";
    pub const ERROR_TYPE: &str = "error_type";
    pub const NOT_RETRIED: &str = "not_retried";
    pub const REASON: &str = "reason";
    pub const EXIT_CODE: &str = "exit_code";
    pub const SIGNAL: &str = "signal";
    pub const CPU_TIME_MS: &str = "cpu_time_ms";
    pub const MEMORY_USAGE_MB: &str = "memory_usage_mb";
    pub const WORKER: &str = "worker";
    pub const TOTAL: &str = "total";
    pub const SUCCESSFUL: &str = "successful";
    pub const FAILED: &str = "failed";
    pub const SKIPPED: &str = "skipped";
    pub const DURATION: &str = "duration";
    pub const SUCCESS_RATE: &str = "success_rate";
    pub const BRANCH: &str = "branch";
    pub const ITEM: &str = "item";
    pub const INDEX: &str = "index";
    pub const VALUE: &str = "value";
    pub const ATTEMPTS: &str = "attempts";
    pub const DURATION_MS: &str = "duration_ms";
    pub const OUTPUT: &str = "output";
    pub const STDERR: &str = "stderr";
    pub const STATE: &str = "state";
    pub const VARIABLES: &str = "variables";
    pub const AGENT_ID: &str = "agent_id";
    pub const AGENT_NAME: &str = "agent_name";
    pub const MODEL_USED: &str = "model_used";
    pub const INPUT_TOKENS: &str = "input_tokens";
    pub const OUTPUT_TOKENS: &str = "output_tokens";
    pub const TOTAL_TOKENS: &str = "total_tokens";
    pub const TOTAL_COST_USD: &str = "total_cost_usd";
    pub const TOOL_NAME: &str = "tool_name";
    pub const TOOL_VERSION: &str = "tool_version";
    pub const PARAMETERS: &str = "parameters";
    pub const TOOL_EXECUTION_TIME_MS: &str = "tool_execution_time_ms";
    pub const STATUS_CODE: &str = "status_code";
    pub const HEADERS: &str = "headers";
    pub const RUN_ID: &str = "run_id";
    pub const WORKFLOW: &str = "workflow";
    pub const STEPS_RUN: &str = "steps_run";
    pub const ENDED_BY: &str = "ended_by";
    pub const ENDED_IN: &str = "ended_in";
    pub const MESSAGES_CREATED: &str = "messages_created";
    pub const EXCHANGE: &str = "exchange";
    pub const TOOL_CALLS: &str = "tool_calls";
    pub const REPLAYED: &str = "replayed";
    pub const CACHED: &str = "cached";
    pub const FINAL_RESPONSE: &str = "final_response";
    pub const THREAD_ID: &str = "thread_id";
    pub const ID: &str = "id";
    pub const DIR: &str = "dir";
    pub const STEP: &str = "step";
    pub const FAILED_COUNT: &str = "failed_count";
    pub const NAME: &str = "name";
    pub const ARGUMENTS: &str = "arguments";
    pub const RESULT: &str = "result";
    pub const IS_ERROR: &str = "is_error";
    pub const PATH: &str = "path";
    pub const BYTES: &str = "bytes";
    pub const MET: &str = "met";
    pub const UNMET: &str = "unmet";
    pub const NOT_EVALUABLE: &str = "not_evaluable";
    pub const VACUOUS: &str = "vacuous";
    pub const OUTCOMES: &str = "outcomes";
    pub const OPEN: &str = "open";
    pub const OPINIONS: &str = "opinions";
    pub const WAITED_MS: &str = "waited_ms";
}

/// A field that a reference can read.
#[derive(Clone, Copy)]
pub struct OutputField {
    /// The name of the field.
    pub name: &'static str,
    /// The type of its value; any type if there is none.
    pub kind: Option<Type>,
    /// Whether it can be null or missing.
    pub optional: bool,
    /// One line for the reference and the schema.
    pub doc: &'static str,
}

const fn field(name: &'static str, kind: Type, doc: &'static str) -> OutputField {
    OutputField { name, kind: Some(kind), optional: false, doc }
}

const fn optional(name: &'static str, kind: Type, doc: &'static str) -> OutputField {
    OutputField { name, kind: Some(kind), optional: true, doc }
}

const fn number(name: &'static str, doc: &'static str) -> OutputField {
    OutputField { name, kind: Some(Type::Decimal), optional: true, doc }
}

const fn any(name: &'static str, doc: &'static str) -> OutputField {
    OutputField { name, kind: None, optional: true, doc }
}

impl OutputField {
    /// The types that its value can have.
    pub(crate) const fn types(&self) -> Types {
        let types = Types::named(self.kind);
        if self.optional { types.or(Types::NULL) } else { types }
    }
}

/// The fields as the language takes them.
pub(crate) const fn types<const N: usize>(fields: &[OutputField; N]) -> [(&'static str, Types); N] {
    let mut types = [("", Types::ANY); N];
    let mut at = 0;
    while at < N {
        types[at] = (fields[at].name, fields[at].types());
        at += 1;
    }
    types
}

/// The same fields, each of which can be null.
pub(crate) const fn nullable<const N: usize>(fields: [OutputField; N]) -> [OutputField; N] {
    let mut fields = fields;
    let mut at = 0;
    while at < N {
        fields[at].optional = true;
        at += 1;
    }
    fields
}

/// Two tables as one. `N` is the number of rows of both.
pub(crate) const fn joined<const A: usize, const B: usize, const N: usize>(
    first: [OutputField; A],
    second: [OutputField; B],
) -> [OutputField; N] {
    let mut fields = [any("", ""); N];
    let mut at = 0;
    while at < N {
        fields[at] = if at < A { first[at] } else { second[at - A] };
        at += 1;
    }
    fields
}

/// The types of steps, as `meta.node_type` names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each has the name of the key that makes a step one of these")]
pub enum NodeType {
    Shell,
    Agent,
    Http,
    Tool,
    WriteFile,
    Value,
    Assert,
    Fail,
    Wait,
    Workflow,
    ForEach,
    Map,
    Phase,
    Conditional,
    Trigger,
    State,
}

/// What a type of step leaves.
pub struct StepOutput {
    /// The type of its value; it depends on the step if there is none.
    pub kind: Option<Type>,
    /// What its value is, in one line.
    pub doc: &'static str,
    /// The fields of its value, if that is an object with fields of the engine's own.
    pub value: &'static [OutputField],
    /// The fields that its `meta` has beyond [`META`].
    pub meta: &'static [&'static [OutputField]],
}

impl NodeType {
    /// Every type, in the order of the reference.
    pub const ALL: [Self; 16] = [
        Self::Shell,
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
        Self::Map,
        Self::Phase,
        Self::Conditional,
        Self::Trigger,
        Self::State,
    ];

    /// The word in `meta.node_type`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Shell => "shell",
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
            Self::Map => "map",
            Self::Phase => "phase",
            Self::Conditional => "conditional",
            Self::Trigger => "trigger",
            Self::State => "state",
        }
    }

    /// What a step of this type leaves.
    pub fn output(self) -> &'static StepOutput {
        match self {
            Self::Shell => &SHELL,
            Self::Agent => &AGENT,
            Self::Http => &HTTP,
            Self::Tool => &TOOL,
            Self::WriteFile => &WRITE_FILE,
            Self::Value => &VALUE,
            Self::Assert => &ASSERT,
            Self::Fail => &FAIL,
            Self::Wait => &WAIT,
            Self::Workflow => &WORKFLOW,
            Self::ForEach => &FOREACH,
            Self::Map => &MAP,
            Self::Phase => &PHASE,
            Self::Conditional => &CONDITIONAL,
            Self::Trigger => &TRIGGER,
            Self::State => &STATE,
        }
    }

    /// The fields that its `meta` has beyond [`META`].
    pub fn meta(self) -> impl Iterator<Item = &'static OutputField> {
        self.output().meta.iter().copied().flatten()
    }
}

static SHELL: StepOutput = StepOutput {
    kind: None,
    doc: "stdout in the format of `capture_format`",
    value: &[],
    meta: &[&PROGRAM_META],
};

static AGENT: StepOutput = StepOutput {
    kind: Some(Type::Object),
    doc: "the answer of the agent",
    value: &[
        field(names::MESSAGES_CREATED, Type::Int, "the number of messages that the agent wrote"),
        field(names::FINAL_RESPONSE, Type::Text, "the answer as text"),
        any(names::THREAD_ID, "the id of the conversation, if the agent has one"),
        field(
            names::TOOL_CALLS,
            Type::List,
            "the tools that the agent called, in order: each with `name`, `arguments`, `result` and `is_error`",
        ),
        any(
            names::OUTPUT,
            "the JSON value of the answer, if the step has `output`; or the answer in the format of \
             `capture_format`, if that is not `text`",
        ),
    ],
    meta: &[
        &[
            field(names::AGENT_ID, Type::Text, "the agent that was asked"),
            field(names::AGENT_NAME, Type::Text, "the same as `agent_id`"),
            optional(names::MODEL_USED, Type::Text, "the model that answered, or the `model` of the agent"),
            optional(names::INPUT_TOKENS, Type::Int, "the tokens that the agent read, if it says so"),
            optional(names::OUTPUT_TOKENS, Type::Int, "the tokens that the agent wrote, if it says so"),
            optional(names::TOTAL_TOKENS, Type::Int, "both together"),
            number(names::TOTAL_COST_USD, "what the answer cost in US dollars, if that is known"),
            optional(
                names::THREAD_ID,
                Type::Text,
                "the thread that it continues, or the session of the agent, if it has one",
            ),
            optional(
                names::TOOL_CALLS,
                Type::List,
                "the tools that the agent called, of a step that failed: then no value has them",
            ),
            optional(
                names::REPLAYED,
                Type::Bool,
                "true where a record answered in place of the agent: `run --replay`",
            ),
            optional(
                names::CACHED,
                Type::Bool,
                "true where the answer was kept from an earlier run, and cost nothing: `cache`",
            ),
        ],
        &PROGRAM_META,
    ],
};

static HTTP: StepOutput = StepOutput {
    kind: None,
    doc: "the body of the response: JSON as a value, anything else as text",
    value: &[],
    meta: &[&[
        field(names::TOOL_NAME, Type::Text, "the tool as the step names it; `http` for a request"),
        optional(names::STATUS_CODE, Type::Int, "the status code of the response"),
        optional(names::HEADERS, Type::Object, "the headers of the response, with lower-case names"),
        BY_WORKER,
    ]],
};

static TOOL: StepOutput = StepOutput {
    kind: None,
    doc: "the result of the tool",
    value: &[],
    meta: &[&[
        field(names::TOOL_NAME, Type::Text, "the tool as the step names it; `http` for a request"),
        optional(
            names::TOOL_VERSION,
            Type::Text,
            "the version of the server, or of Threadline for a built-in tool",
        ),
        field(names::PARAMETERS, Type::Object, "the parameters of the call"),
        field(names::TOOL_EXECUTION_TIME_MS, Type::Int, "how long the call took, in milliseconds"),
    ]],
};

static WRITE_FILE: StepOutput = StepOutput {
    kind: Some(Type::Object),
    doc: "the file that was written",
    value: &[
        field(names::PATH, Type::Text, "the path of the file, as the step gives it"),
        field(names::BYTES, Type::Int, "the size of the file in bytes"),
    ],
    meta: &[],
};

static ASSERT: StepOutput = StepOutput {
    kind: Some(Type::Object),
    doc: "what the expectations came to. Of a step that failed, its `output` has the same",
    value: &[
        field(names::MET, Type::Int, "the number of expectations that are met"),
        field(names::UNMET, Type::Int, "the number that are unmet"),
        field(names::NOT_EVALUABLE, Type::Int, "the number that cannot be evaluated"),
        field(names::VACUOUS, Type::Int, "the number that are met only because a part of them asked nothing"),
        field(names::OUTCOMES, Type::List, "what each came to: `{name, result, reason, tree}`"),
        field(names::OPEN, Type::List, "the questions that only a judge can answer, and none has"),
        field(
            names::OPINIONS,
            Type::List,
            "what each judge said: `{question, judge, yes, no, misquoted, flaky, reason}`",
        ),
    ],
    meta: &[],
};

static WAIT: StepOutput = StepOutput {
    kind: Some(Type::Object),
    doc: "how long it waited",
    value: &[field(names::WAITED_MS, Type::Int, "the time in milliseconds")],
    meta: &[],
};

static VALUE: StepOutput = StepOutput { kind: None, doc: "the value", value: &[], meta: &[] };

static FAIL: StepOutput =
    StepOutput { kind: None, doc: "none: the step always fails", value: &[], meta: &[] };

static WORKFLOW: StepOutput = StepOutput {
    kind: Some(Type::Object),
    doc: "the `exports` of the called workflow",
    value: &[],
    meta: &[&[
        field(names::RUN_ID, Type::Text, "the id of the called run"),
        field(names::WORKFLOW, Type::Text, "the name of the called workflow"),
        field(names::STEPS_RUN, Type::Int, "the number of steps that ran in the called run"),
        optional(names::ENDED_BY, Type::Text, "why a called loop ended: `terminal`, or the key of a limit"),
        optional(names::ENDED_IN, Type::Text, "the state in which a called loop ended"),
    ]],
};

static FOREACH: StepOutput = StepOutput {
    kind: Some(Type::List),
    doc: "the values of the items, in the order of the list",
    value: &[],
    meta: &[&COUNTS],
};

static MAP: StepOutput = StepOutput {
    kind: Some(Type::Object),
    doc: "the counts of the items and the `aggregates`",
    value: &MAP_FIELDS,
    // If the map fails there is no value to hold these.
    meta: &[&nullable(MAP_FIELDS)],
};

static PHASE: StepOutput = StepOutput {
    kind: Some(Type::Object),
    doc: "what later phases can read of the phase",
    value: &PHASE_FIELDS,
    meta: &[],
};

static CONDITIONAL: StepOutput = StepOutput {
    kind: Some(Type::Object),
    doc: "the branch that was taken",
    value: &[
        field("condition_result", Type::Bool, "the value of the condition"),
        field(names::BRANCH, Type::Text, "the branch that was taken: `true` or `false`"),
    ],
    meta: &[&[
        field("condition", Type::Text, "the condition as it is written"),
        field("resolved_condition", Type::Text, "the condition with its values filled in"),
        field("evaluation_method", Type::Text, "how it was evaluated: `expression`"),
    ]],
};

static TRIGGER: StepOutput = StepOutput {
    kind: Some(Type::Object),
    doc: "the payload that started the graph",
    value: &[field("triggered", Type::Bool, "always `true`"), any("trigger_data", "the payload")],
    meta: &[&[
        field("trigger_type", Type::Text, "`manual`, `schedule` or `webhook`"),
        field("trigger_config", Type::Object, "the configuration of the trigger as it is written"),
    ]],
};

static STATE: StepOutput = StepOutput {
    kind: Some(Type::Object),
    doc: "what the verdict on a state without an action was made of, such as the answer of its judge",
    value: &[],
    meta: &[],
};

/// The fields that the `meta` of every step can have.
pub static META: [OutputField; 10] = [
    field(names::NODE_TYPE, Type::Text, "the type of the step"),
    field(names::STATUS, Type::Text, "how the step ended"),
    field(names::EXECUTION_TIME_MS, Type::Int, "how long the last attempt took, in milliseconds"),
    field(
        names::STARTED_AT,
        Type::Text,
        "when the last attempt began, RFC 3339, UTC; of a list when it was read",
    ),
    field(names::FINISHED_AT, Type::Text, "when it ended, RFC 3339, UTC"),
    optional(names::RETRY_COUNT, Type::Int, "the number of attempts that failed before"),
    optional(names::ERROR, Type::Text, "why the step failed, in words"),
    optional(names::ERROR_TYPE, Type::Text, "the kind of failure"),
    optional(
        names::NOT_RETRIED,
        Type::Text,
        "why a failed step was not tried again although `retry` allows more attempts",
    ),
    optional(names::REASON, Type::Text, "why the step was skipped"),
];

const PROGRAM_META: [OutputField; 5] = [
    optional(names::EXIT_CODE, Type::Int, "the exit code of the program"),
    optional(names::SIGNAL, Type::Int, "the signal that killed the program"),
    optional(
        names::CPU_TIME_MS,
        Type::Int,
        "the CPU time of the program and the children that it waited for",
    ),
    optional(names::MEMORY_USAGE_MB, Type::Decimal, "the peak memory of its largest process, in MiB"),
    BY_WORKER,
];

const BY_WORKER: OutputField =
    optional(names::WORKER, Type::Text, "the worker that performed it, in a run on other machines");

const COUNTS: [OutputField; 4] = [
    field(names::TOTAL, Type::Int, "the number of items"),
    field(names::SUCCESSFUL, Type::Int, "the number of items that completed"),
    field(names::FAILED, Type::Int, "the number of items that failed"),
    field(names::SKIPPED, Type::Int, "the number of items that did not run"),
];

/// `map`: the fields that are known when the map is over, beside `map.results`.
pub(crate) const MAP_FIELDS: [OutputField; 7] = joined(
    COUNTS,
    [
        optional(names::DURATION, Type::Decimal, "how long the map took, in seconds"),
        optional(names::SUCCESS_RATE, Type::Decimal, "the percentage of items that completed, rounded down"),
        optional(
            names::BRANCH,
            Type::Text,
            "the branch that has the commits of the items, if they had worktrees",
        ),
    ],
);

/// `map.results[]`: what became of an item.
pub(crate) const RESULT_FIELDS: [OutputField; 7] = [
    any(names::ITEM, "the item"),
    field(names::INDEX, Type::Int, "the position of the item in the list, from 0"),
    field(names::STATUS, Type::Text, "`success`, `failed` or `skipped`"),
    any(names::VALUE, "the value of the last step; null unless the item completed"),
    optional(names::ERROR, Type::Text, "why the item failed"),
    field(names::ATTEMPTS, Type::Int, "the number of attempts"),
    field(names::DURATION_MS, Type::Int, "how long the last attempt took, in milliseconds"),
];

/// An element of `tool_calls`: a tool that an agent called.
pub(crate) const TOOL_CALL_FIELDS: [OutputField; 4] = [
    field(names::NAME, Type::Text, "the tool, as `tools` names it: `SERVER.TOOL`, or the name alone"),
    any(names::ARGUMENTS, "the arguments: an object, or the text that the agent wrote where it is none"),
    any(names::RESULT, "what the agent was given, as text; or what a program reports"),
    field(names::IS_ERROR, Type::Bool, "whether the call failed"),
];

/// `setup` and `reduce`: what later phases can read.
pub(crate) const PHASE_FIELDS: [OutputField; 2] = [
    field(names::OUTPUT, Type::Text, "the output of the last step"),
    field(names::VARIABLES, Type::Object, "the captures and `variables` of the phase"),
];

/// `item`: the fields of the engine's own, beside those of the item.
pub(crate) const ITEM_FIELDS: [OutputField; 3] = [
    field("index", Type::Int, "the position of the item in the list, from 0"),
    field("attempt", Type::Int, "the number of the attempt, from 1"),
    optional("previous_error", Type::Text, "why the attempt before failed"),
];

/// `agent`: who runs an item of a map.
pub(crate) const ITEM_AGENT_FIELDS: [OutputField; 2] = [
    field("id", Type::Text, "the name of the worker that runs the item, such as `agent-1`"),
    optional("worktree", Type::Text, "the folder of the worktree of the item"),
];

pub(crate) const STATE_FIELDS: [OutputField; 2] = [
    field("name", Type::Text, "the name of the state"),
    field("iteration", Type::Int, "the number of the iteration, from 1"),
];

pub(crate) const LOOP_FIELDS: [OutputField; 4] = [
    field("name", Type::Text, "the name of the workflow"),
    field("started_at", Type::Text, "when the run began, RFC 3339, UTC"),
    field("elapsed_ms", Type::Int, "how long the loop has been running, in milliseconds"),
    field("elapsed", Type::Text, "the same for people, such as `2m 15s`"),
];

pub(crate) const WORKFLOW_FIELDS: [OutputField; 3] = [
    field("name", Type::Text, "the name of the workflow"),
    field("id", Type::Text, "the id of the run"),
    field("start_time", Type::Text, "when the run began, RFC 3339, UTC"),
];

/// What is known of `run` from its beginning.
pub(crate) const RUN_FOLDER: OutputField = field(
    names::DIR,
    Type::Text,
    "a folder that the run has for its files, relative to the folder of the project; it is there when the first step begins",
);

/// `run`: its folder, and its outcome.
pub(crate) const RUN_FIELDS: [OutputField; 8] = [
    RUN_FOLDER,
    field(names::ID, Type::Text, "the id of the run"),
    field(
        names::STATUS,
        Type::Text,
        "`completed` or `failed`, of a loop also `stopped`; in `finally` also whether `on_failure` or `on_success` failed",
    ),
    optional(names::ERROR, Type::Text, "why the run failed or stopped: the message of its first failure"),
    optional(names::ERROR_TYPE, Type::Text, "the kind of its first failure"),
    field(
        names::FAILED,
        Type::List,
        "the steps that failed, in the order in which they did; the first 100 of them",
    ),
    field(names::FAILED_COUNT, Type::Int, "the number of all steps that failed"),
    field(
        names::DURATION,
        Type::Decimal,
        "how long the steps took, in seconds, without the time the run was stopped",
    ),
];

/// `run.failed[]`: a step that failed.
pub(crate) const FAILED_STEP_FIELDS: [OutputField; 3] = [
    field(
        names::STEP,
        Type::Text,
        "the step: its id, or its address such as `map[17]/2`, which other commands take, too",
    ),
    field(names::ERROR, Type::Text, "why it failed"),
    field(names::ERROR_TYPE, Type::Text, "the kind of failure"),
];

const PRINTED_FIELDS: [OutputField; 4] = [
    field(names::OUTPUT, Type::Text, "stdout as text"),
    field(names::STDERR, Type::Text, "stderr as text"),
    field(names::EXIT_CODE, Type::Int, "the exit code"),
    field(names::DURATION_MS, Type::Int, "how long the last attempt took, in milliseconds"),
];

/// The fields of the output of a step that runs no program beside `value` and `meta`.
pub(crate) const PLAIN_OUTPUT_FIELDS: [OutputField; 4] = [
    optional(names::OUTPUT, Type::Text, "the value, if it is text"),
    field(names::STDERR, Type::Text, "empty"),
    field(names::DURATION_MS, Type::Int, "how long the last attempt took, in milliseconds"),
    field(names::STATE, Type::Text, "how the step ended, as `meta.status`"),
];

/// The same of an `assert`, which says what its expectations came to also where it failed.
pub(crate) const ASSERT_OUTPUT_FIELDS: [OutputField; 4] = [
    any(names::OUTPUT, "what the expectations came to, of a step that failed"),
    PLAIN_OUTPUT_FIELDS[1],
    PLAIN_OUTPUT_FIELDS[2],
    PLAIN_OUTPUT_FIELDS[3],
];

/// The fields of the output of a step beside `value` and `meta`, if the step ran a program.
pub(crate) const OUTPUT_FIELDS: [OutputField; 5] =
    joined(PRINTED_FIELDS, [field(names::STATE, Type::Text, "how the step ended, as `meta.status`")]);

/// The fields of the output of a state, as `prev` has them.
pub(crate) const STATE_OUTPUT_FIELDS: [OutputField; 8] = joined(
    joined::<4, 1, 5>(
        nullable(PRINTED_FIELDS),
        [field(names::STATE, Type::Text, "how the action ended, as `meta.status`")],
    ),
    [
        optional("verdict", Type::Text, "the verdict on the state"),
        optional("confidence", Type::Decimal, "how sure the judge is, from 0 to 1"),
        optional(names::REASON, Type::Text, "the reason for the verdict"),
    ],
);

/// The fields of what a state captured.
pub(crate) const CAPTURED_STATE_FIELDS: [OutputField; 9] =
    joined(STATE_OUTPUT_FIELDS, [any("previous", "what the same name had captured before")]);

/// `result`: the state that is being judged. The fields from `verdict` on are known in `route` only.
pub(crate) const JUDGEMENT_FIELDS: [OutputField; 9] = joined(
    nullable(PRINTED_FIELDS),
    [
        field("verdict", Type::Text, "the verdict"),
        optional("confidence", Type::Decimal, "how sure the judge is, from 0 to 1"),
        optional("reason", Type::Text, "the reason for the verdict"),
        any("evidence", "`evidence` of the answer of a judge"),
        any("details", "everything that the evaluator found"),
    ],
);

/// The names of the engine's own with their fields, in the order of the reference.
pub fn engine_names() -> [(&'static str, &'static str, &'static [OutputField]); 12] {
    [
        ("workflow", "everywhere", &WORKFLOW_FIELDS),
        (
            "run",
            "`run.dir` everywhere, the others in `on_failure`, `on_success` and `finally` of the workflow",
            &RUN_FIELDS,
        ),
        ("run.failed[]", "in the same places", &FAILED_STEP_FIELDS),
        ("item", "in the steps of a list, beside the fields of the item", &ITEM_FIELDS),
        ("agent", "in the steps of a map", &ITEM_AGENT_FIELDS),
        ("result.tool_calls[]", "in what an agent leaves", &TOOL_CALL_FIELDS),
        ("map", "after the map; `map.total` also in its steps", &MAP_FIELDS),
        ("map.results[]", "after the map", &RESULT_FIELDS),
        ("setup` and `reduce", "in later phases", &PHASE_FIELDS),
        ("state", "in a loop", &STATE_FIELDS),
        ("loop", "in a loop", &LOOP_FIELDS),
        ("result", "in `evaluate` and `route`, beside `value` and `meta`", &JUDGEMENT_FIELDS),
    ]
}
