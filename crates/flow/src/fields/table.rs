//! The table itself: every object of a workflow file and every key of it.

use super::ActionName::{
    Agent, Argv, Condition, ForEach, Http, Shell, Tool, Trigger, Value as ValueStep, Workflow, WriteFile,
};
use super::{ActionName, Base, Choice, Form, Key, Kind, Object};

const fn key(name: &'static str, kind: Kind, doc: &'static str) -> Key {
    Key { name, also: &[], kind, default: None, required: false, on: &[], types: &[], doc }
}

const fn choice(name: &'static str, doc: &'static str) -> Choice {
    Choice { name, also: &[], doc }
}

impl Key {
    const fn also(self, also: &'static [&'static str]) -> Self {
        Self { also, ..self }
    }

    const fn default(self, default: &'static str) -> Self {
        Self { default: Some(default), ..self }
    }

    const fn required(self) -> Self {
        Self { required: true, ..self }
    }

    const fn on(self, on: &'static [ActionName]) -> Self {
        Self { on, ..self }
    }

    const fn types(self, types: &'static [&'static str]) -> Self {
        Self { types, ..self }
    }
}

impl Choice {
    const fn also(self, also: &'static [&'static str]) -> Self {
        Self { also, ..self }
    }
}

const TEXT: Kind = Kind::Fixed(Form::Text);
const BOOL: Kind = Kind::Fixed(Form::Bool);
/// What starts a program of its own.
const PROGRAMS: &[ActionName] = &[Shell, Argv, Agent];

/// One node or several.
const NEEDS: Kind = Kind::Either(&[TEXT, Kind::List(&TEXT)]);

/// Every object, in the order of the reference.
pub static ALL: &[&Object] = &[
    &WORKFLOW,
    &STEP,
    &HTTP,
    &SHELL_TOOL,
    &WRITE_FILE,
    &RETRY,
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
    &COMPUTED,
    &ALLOW,
];

/// A whole file.
pub static WORKFLOW: Object = Object {
    name: "workflow",
    title: "a workflow",
    doc: "a whole file; a bare list is read as its `steps`",
    keys: &[
        key(
            "threadline",
            Kind::Fixed(Form::OneOf(&[choice("1", "this version")])),
            "the version of the language the file is written in",
        )
        .default("1"),
        key("name", TEXT, "a name for people; the file's name when it is left out"),
        key("description", TEXT, "what the workflow is for"),
        key(
            "undefined",
            Kind::Fixed(Form::OneOf(&[
                choice("error", "it is an error"),
                choice("keep", "the reference stays as it is written"),
                choice("empty", "nothing takes its place, null where a value is expected"),
            ])),
            "what happens to a reference without a value in text and value fields",
        )
        .default("error"),
        key(
            "inputs",
            Kind::Map(&Kind::Object(&INPUT)),
            "the values a caller gives, read as `${inputs.NAME}`",
        ),
        key(
            "context",
            Kind::Map(&Kind::Value),
            "the author's own values, read as `${context.NAME}`: each is evaluated when it is read, once",
        ),
        key("env", Kind::Map(&Kind::Text), "environment variables of every step; null takes one away"),
        key("agents", Kind::Map(&Kind::Object(&AGENT)), "who answers `agent` steps, by name"),
        key(
            "servers",
            Kind::Map(&Kind::Object(&SERVER)),
            "MCP servers, whose tools are called as `SERVER.TOOL`",
        ),
        key(
            "computed",
            Kind::Map(&Kind::Object(&COMPUTED)),
            "kinds of computed values of the author's own: `ticket` is read as `${ticket:ABC-1}`",
        ),
        key("allow", Kind::Object(&ALLOW), "what the workflow may do beyond the usual"),
        key(
            "locks",
            Kind::List(&Kind::Text),
            "what no other run may use meanwhile: paths, from the folder that steps run in, and names, written \
             `name:release`",
        ),
        key("steps", Kind::Steps, "what to do, one step after the other").also(&["commands"]),
        key(
            "nodes",
            Kind::Nodes,
            "what to do, as a graph: steps by their id, each as soon as what it reads and needs is there",
        ),
        key(
            "edges",
            Kind::List(&Kind::Object(&EDGE)),
            "from one node to another; a node waits for all edges into it",
        ),
        key(
            "mode",
            Kind::Fixed(Form::OneOf(&[choice("mapreduce", "the phases `setup`, `map`, `reduce`, `merge`")])),
            "the shape of the file; it may be left out",
        ),
        key("setup", PHASE_OR_STEPS, "what is done before the items of `map`"),
        key("map", Kind::Object(&MAP), "what is done for each of many items"),
        key("reduce", PHASE_OR_STEPS, "what is done after the items, with `${map.results}`"),
        key("merge", PHASE_OR_STEPS, "what is done last, such as taking in the branch `${map.branch}`"),
        key(
            "aggregates",
            Kind::Map(&Kind::Value),
            "what is made of the results when the map is over, read as `${aggregates.NAME}`",
        ),
        key("error_policy", Kind::Object(&ERROR_POLICY), "what becomes of items of `map` that fail"),
        key(
            "states",
            Kind::Map(&Kind::Object(&STATE)),
            "what to do, as a loop: states by their names, each of which says what comes next",
        ),
        key("initial", Kind::Fixed(Form::Name), "the state that a loop begins with; an iteration begins with it"),
        key(
            "max_steps",
            Kind::Setting(Form::Count(1)),
            "a loop stops after so many states; when it is left out after 50, for each of `max_iterations` where that is \
             said",
        ),
        key("max_iterations", Kind::Setting(Form::Count(1)), "a loop stops before it enters `initial` once more often"),
        key(
            "max_edge_revisits",
            Kind::Setting(Form::Count(0)),
            "a loop stops when one state has led to the same other state again more often than this",
        ),
        key(
            "max_stall",
            Kind::Setting(Form::Count(2)),
            "a loop stops when a state that is judged comes to the same verdict and the same output so many times in a row",
        ),
        key("timeout", Kind::Setting(Form::Duration), "how long a loop may take, without the time it was stopped"),
        key("backoff", Kind::Setting(Form::Duration), "the pause before another iteration of a loop"),
        key(
            "maintain",
            BOOL,
            "whether a loop that has come to a good end begins again, until `max_iterations` or a signal ends it",
        )
        .default("false"),
        key("finally", Kind::Steps, "steps that run at the end, whatever happened"),
        key(
            "from",
            TEXT,
            "the file of another workflow, relative to this one: all its keys hold here too, unless this file says \
             otherwise. Objects are merged key by key, and null takes a key away",
        ),
        key("import", Kind::Either(&[TEXT, Kind::List(&TEXT)]), "files, relative to this one, whose `fragments` are known here"),
        key("fragments", Kind::Map(&Kind::Object(&FRAGMENT)), "parts of states, by names that states are made of them by"),
        key(
            "paradigm",
            Kind::Fixed(Form::OneOf(&[
                choice("goal", "`check` and `fix` until the check is content"),
                choice("convergence", "`check` gives a number that `using` brings `toward` a target"),
                choice("invariants", "`constraints` that must hold, each with its fix"),
                choice("imperative", "`steps` again and again, `until` something holds"),
                choice("fsm", "`states`, in full"),
            ])),
            "which short form of a loop this is; its keys say so when it is left out",
        ),
        key("goal", TEXT, "what a loop is to reach, in words: it does `fix` until `check` is content"),
        key("tools", Kind::List(&ACTION), "of `goal`: what checks and what fixes, in place of `check` and `fix`"),
        key("check", ACTION, "of `goal`: a command that says whether it is reached. Of `convergence`: one that prints a number"),
        key("fix", ACTION, "of `goal`: what is done when it is not reached"),
        key(
            "evaluate",
            Kind::Either(&[Kind::Fixed(Form::OneOf(EVALUATORS)), Kind::Object(&EVALUATE)]),
            "of `goal`: what the verdict on its check is made of",
        )
        .also(&["evaluator"]),
        key("toward", Kind::Value, "of `convergence`: the number that is to be reached"),
        key("using", ACTION, "of `convergence`: what is done to come nearer"),
        key("tolerance", Kind::Value, "of `convergence`: so far from it is near enough"),
        key("direction", TEXT, "of `convergence`: which way the number is to go"),
        key("constraints", Kind::List(&Kind::Object(&CONSTRAINT)), "of `invariants`: what must hold, checked one after the other"),
        key(
            "until",
            Kind::Either(&[Kind::Shell, Kind::Object(&UNTIL)]),
            "of `imperative`: what ends it, looked at when all `steps` are done; otherwise they begin again",
        ),
        key(
            "imports",
            Kind::Map(&Kind::Fixed(Form::Text)),
            "what earlier runs exported: `build: compile` makes the exports of the last completed run of the workflow \
             `compile` readable as `${imports.build}`",
        ),
        key(
            "exports",
            Kind::Map(&Kind::Value),
            "values that later runs may import when the workflow has completed",
        ),
    ],
    base: None,
};

/// One unit of work.
pub(crate) static STEP: Object = Object {
    name: "step",
    title: "a step",
    doc: "one unit of work: exactly one of `shell`, `argv`, `agent`, `claude`, `http`, `tool`, `write_file`, \
          `value`, `workflow`, `foreach`, and as a node `condition`, `trigger`",
    keys: &[
        key("id", Kind::Fixed(Form::Name), "a name to read the step's output by: `${ID}`, `${ID.exit_code}`"),
        key("name", TEXT, "a title for people"),
        key("when", Kind::Expression, "a condition: when it is false the step is skipped"),
        key("shell", Kind::Shell, "text for a shell; references in it are bound, never pasted").on(&[Shell]),
        key("argv", Kind::List(&Kind::Text), "a program and its arguments, without a shell").on(&[Argv]),
        key("agent", Kind::Fixed(Form::Name), "the name of the agent that is to answer")
            .also(&["agent_id"])
            .on(&[Agent]),
        key("message", Kind::Text, "what the agent is told").on(&[Agent]),
        key("claude", Kind::Text, "short for `agent: claude` and this `message`").on(&[Agent]),
        key("http", Kind::Object(&HTTP), "a request to a server; its value is the answer").on(&[Http]),
        key("tool", TEXT, "a tool by its name: `shell`, `http`, or `SERVER.TOOL` of one of `servers`")
            .also(&["tool_name"])
            .on(&[Tool]),
        key("params", Kind::Value, "what the tool is given, an object").also(&["static_params"]).on(&[Tool]),
        key("write_file", Kind::Object(&WRITE_FILE), "a file to write").on(&[WriteFile]),
        key("value", Kind::Value, "a value to compute; its type is kept").on(&[ValueStep]),
        key(
            "workflow",
            TEXT,
            "the file of another workflow, relative to the folder of this one; its value is what that exports",
        )
        .on(&[Workflow]),
        key("with", Kind::Map(&Kind::Value), "what the other workflow is given, by the names of its `inputs`")
            .on(&[Workflow]),
        key(
            "foreach",
            Kind::Either(&[Kind::Value, Kind::Object(&SOURCE)]),
            "a list, or where it comes from: the steps of `do` run once for each item",
        )
        .on(&[ForEach]),
        key(
            "condition",
            Kind::Expression,
            "of a node: a condition that decides which branch is taken, `true` or `false`",
        )
        .on(&[Condition]),
        key(
            "condition_type",
            Kind::Fixed(Form::OneOf(&[
                choice("expression", "the branch is what the condition comes to"),
                choice("exists", "the branch is whether the reference leads to a value"),
            ])),
            "how `condition` is read",
        )
        .default("expression")
        .on(&[Condition]),
        key(
            "trigger",
            Kind::Either(&[Kind::Fixed(Form::OneOf(TRIGGERS)), Kind::Object(&TRIGGER)]),
            "of a node: what starts the graph; its value has the payload, which is also `${trigger}`",
        )
        .on(&[Trigger]),
        key(
            "needs",
            NEEDS,
            "of a node: the nodes that must have completed; `gate.true` when that branch must have been taken",
        ),
        key("do", Kind::Steps, "the steps for each item, which they read as `${item}`").on(&[ForEach]),
        key("parallel", Kind::Setting(Form::Count(1)), "so many items at once").default("1").on(&[ForEach]),
        key("json_path", TEXT, JSON_PATH_DOC).on(&[ForEach]),
        key("filter", FILTER, FILTER_DOC).on(&[ForEach]),
        key("sort_by", SORT_BY, SORT_BY_DOC).on(&[ForEach]),
        key("distinct", Kind::Expression, DISTINCT_DOC).on(&[ForEach]),
        key("offset", Kind::Setting(Form::Count(0)), OFFSET_DOC).default("0").on(&[ForEach]),
        key("max_items", Kind::Setting(Form::Count(0)), "no more than the first so many items")
            .on(&[ForEach]),
        key(
            "error_policy",
            Kind::Object(&ERROR_POLICY),
            "what becomes of items that fail; without it the first ends the list",
        )
        .on(&[ForEach]),
        key(
            "capture",
            Kind::Fixed(Form::Name),
            "a name to read the output by: `${NAME}` is its value, `${captured.NAME.exit_code}` more of it",
        )
        .also(&["capture_output"]),
        key(
            "capture_format",
            Kind::Fixed(Form::OneOf(CAPTURE_FORMATS)),
            "what the output is read as",
        )
        .default("text")
        .on(PROGRAMS),
        key("timeout", Kind::Setting(Form::Duration), "how long an attempt may take")
            .on(&[Shell, Argv, Agent, Http, Tool, Workflow]),
        key(
            "idle_timeout",
            Kind::Setting(Form::Duration),
            "how long an attempt may print nothing, neither to stdout nor to stderr",
        )
        .on(PROGRAMS),
        key(
            "retry",
            Kind::Either(&[Kind::Setting(Form::Count(1)), Kind::Object(&RETRY)]),
            "how often it is tried when it fails: so many attempts in all, or more about it",
        )
        .on(&[Shell, Argv, Agent, Http, Tool, WriteFile, Workflow]),
        key(
            "on_crash",
            Kind::Fixed(Form::OneOf(&[
                choice("rerun", "it runs again"),
                choice("fail", "it has failed"),
                choice("ask", "the run waits until somebody says"),
            ])),
            "what happens to the step when Threadline was killed while it ran",
        )
        .default("rerun")
        .on(&[Shell, Argv, Agent, Http, Tool, WriteFile]),
        key(
            "expect",
            Kind::Expectation,
            "what must hold of what it left, `{value, output, exit_code, meta}`; otherwise it has failed. With a check \
             of `exit_code` another code than 0 is no failure by itself",
        ),
        key("on_failure", Kind::Steps, "steps that run when it failed; it stays failed"),
        key("on_success", Kind::Steps, "steps that run when it went well"),
        key("finally", Kind::Steps, "steps that run after it, whatever happened"),
        key("continue_on_error", BOOL, "whether the steps after it run when it failed").default("false"),
        key("env", Kind::Map(&Kind::Text), "environment variables of the step; null takes one away")
            .on(&[Shell, Argv, Agent, Workflow]),
        key("cwd", Kind::Text, "the folder it runs in")
            .also(&["working_dir"])
            .on(&[Shell, Argv, Agent, WriteFile, ValueStep, Workflow]),
        key("interpolate", BOOL, "whether references in the shell text are bound")
            .default("true")
            .on(&[Shell]),
        key("shell_program", TEXT, "the shell that runs the text; `bash`, or `sh` where there is none")
            .on(&[Shell]),
        key("strict_shell", BOOL, "whether the shell stops at the first command that fails")
            .default("true")
            .on(&[Shell]),
        key(
            "max_output",
            Kind::Setting(Form::Size),
            "more output, or a larger answer, than this fails the step",
        )
        .default("64MiB")
        .on(&[Shell, Argv, Agent, Http, Tool]),
    ],
    base: None,
};

/// What a state of a short form does: a command, or the keys of a state.
const ACTION: Kind = Kind::Either(&[Kind::Shell, Kind::Object(&STATE)]);

/// A part of states.
pub(crate) static FRAGMENT: Object = Object {
    name: "fragment",
    title: "a fragment",
    doc: "keys of a state, for states that are made of it; what they say themselves comes first",
    keys: &[
        key("description", TEXT, "what it is for"),
        key(
            "parameters",
            Kind::Map(&Kind::Object(&INPUT)),
            "what a state gives with `with`; the fragment reads it as `${param.NAME}`",
        ),
    ],
    base: Some(Base { object: &STATE, without: &["fragment", "with", "param"] }),
};

/// Something that must hold.
pub(crate) static CONSTRAINT: Object = Object {
    name: "constraint",
    title: "a constraint",
    doc: "something that must hold: its states are `check_NAME` and `fix_NAME`",
    keys: &[
        key("name", Kind::Fixed(Form::Name), "a name for its states").required(),
        key("description", TEXT, "what it is for"),
        key("check", ACTION, "a command that says whether it holds").required(),
        key("fix", ACTION, "what is done when it does not").required(),
        key(
            "evaluate",
            Kind::Either(&[Kind::Fixed(Form::OneOf(EVALUATORS)), Kind::Object(&EVALUATE)]),
            "what the verdict on its check is made of",
        )
        .also(&["evaluator"]),
    ],
    base: None,
};

/// What ends the steps of a loop.
pub(crate) static UNTIL: Object = Object {
    name: "until",
    title: "the end of a loop",
    doc: "what is looked at when all steps are done; a text is its `check`",
    keys: &[
        key("check", ACTION, "a command that says whether it is over").required(),
        key("passes", BOOL, "whether it is over when the check is content, or when it is not")
            .default("true"),
        key(
            "evaluate",
            Kind::Either(&[Kind::Fixed(Form::OneOf(EVALUATORS)), Kind::Object(&EVALUATE)]),
            "what the verdict on the check is made of",
        )
        .also(&["evaluator"]),
    ],
    base: None,
};

/// A step of a loop.
pub(crate) static STATE: Object = Object {
    name: "state",
    title: "a state",
    doc: "a step of a loop, and what comes after it; without an action it is only judged",
    keys: &[
        key("action", Kind::Shell, "what it does, as `action_type` says; short for `shell`"),
        key(
            "action_type",
            Kind::Fixed(Form::OneOf(&[
                choice("shell", "`action` is text for a shell"),
                choice("prompt", "`action` is a message for `agent`, for `claude` when none is named")
                    .also(&["slash_command"]),
                choice("mcp_tool", "`action` is the name of a tool, `SERVER.TOOL`").also(&["tool"]),
            ])),
            "what `action` is",
        )
        .default("shell"),
        key("fragment", TEXT, "the fragment that it is made of; its own keys come first"),
        key(
            "with",
            Kind::Map(&Kind::Value),
            "what the fragment is given, by the names of its `parameters`; or the other workflow, by those of its \
             `inputs`",
        )
        .on(&[Workflow]),
        key("param", Kind::Map(&Kind::Value), "values that only this state reads, as `${param.NAME}`"),
        key(
            "loop",
            TEXT,
            "the file of another loop, as `workflow`; a name alone is the file `NAME.yaml` beside this one",
        ),
        key(
            "evaluate",
            Kind::Either(&[Kind::Fixed(Form::OneOf(EVALUATORS)), Kind::Object(&EVALUATE)]),
            "what its verdict is made of: by its exit code when verdicts are told apart, else by how the action ended",
        ),
        key(
            "next",
            Kind::Fixed(Form::Name),
            "the state that follows, whatever the verdict; an error is no verdict",
        ),
        key("on_yes", Kind::Fixed(Form::Name), "the state that follows the verdict `yes`")
            .also(&["on_success"]),
        key("on_no", Kind::Fixed(Form::Name), "the state that follows the verdict `no`")
            .also(&["on_failure"]),
        key("on_error", Kind::Fixed(Form::Name), "the state that follows when there is no verdict"),
        key("on_VERDICT", Kind::Fixed(Form::Name), "the state that follows a verdict of this name"),
        key(
            "route",
            Kind::Either(&[Kind::Map(&Kind::Fixed(Form::Name)), Kind::List(&Kind::Object(&ROUTE))]),
            "the states that follow, by verdict; `_` is any other, `_error` an error. Or a list of conditions",
        ),
        key(
            "terminal",
            Kind::Fixed(Form::OneOf(&[
                choice("success", "the loop has come to a good end").also(&["true"]),
                choice("failure", "the loop has failed"),
                choice("false", "it goes on"),
            ])),
            "how the loop ends with it",
        )
        .default("false"),
        key(
            "max_retries",
            Kind::Fixed(Form::Count(0)),
            "how often it may follow itself; then `on_retry_exhausted`",
        ),
        key(
            "on_retry_exhausted",
            Kind::Fixed(Form::Name),
            "the state that follows when it may not follow itself again",
        ),
        key("strict_shell", BOOL, "whether the shell stops at the first command that fails")
            .default("false")
            .on(&[Shell]),
    ],
    base: Some(Base {
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
    }),
};

const EVALUATORS: &[Choice] = &[
    choice("exit_code", "0 is `yes`, 1 is `no`, everything else an error"),
    choice("outcome", "`yes` when the action did well, `no` when a loop that it called came to a bad end"),
    choice("expression", "true is `yes`, false is `no`, a text is the verdict itself"),
    choice("output_numeric", "`yes` when the number that the output is compares so, else `no`"),
    choice("output_json", "`yes` when a value of JSON output compares so, else `no`"),
    choice(
        "output_contains",
        "`yes` when the output contains a text or matches a regular expression, else `no`",
    ),
    choice(
        "convergence",
        "`target`, `progress` or `stall`, by a number and the one that the state came to before",
    ),
    choice("classify", "the last line of the output that is not empty is the verdict"),
    choice("expect", "`yes` when what the state left meets an expectation, else `no`"),
    choice("agent", "a judge answers with one of `verdicts`, how sure that is, and why")
        .also(&["llm_structured"]),
];

/// How a state is judged.
pub(crate) static EVALUATE: Object = Object {
    name: "evaluate",
    title: "an evaluation",
    doc: "what the verdict of a state is made of; what cannot be determined is `error`. References may stand in every \
          text and value",
    keys: &[
        key(
            "type",
            Kind::Fixed(Form::OneOf(EVALUATORS)),
            "how it is found; `expression`, `expect`, `pattern`, `path` and `prompt` alone say it too",
        ),
        key("source", Kind::Value, "what is looked at in place of the output, or of the exit code").types(&[
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
            "whether the output of a command counts that ended with an exit code other than 0; else that is an error",
        )
        .default("false")
        .types(&["output_numeric", "output_json", "output_contains", "convergence", "classify", "expect"]),
        key("yes_codes", Kind::List(&Kind::Fixed(Form::Count(0))), "the codes that mean `yes`")
            .default("[0]")
            .types(&["exit_code"]),
        key("no_codes", Kind::List(&Kind::Fixed(Form::Count(0))), "the codes that mean `no`")
            .default("[1]")
            .types(&["exit_code"]),
        key("expression", Kind::Expression, "what is evaluated; it may read `result`").types(&["expression"]),
        key(
            "operator",
            Kind::Text,
            "how the value is compared: `eq`, `ne`, `gt`, `gte`, `lt`, `lte` or another operator of expectations, also \
             `>=` and the like",
        )
        .default("eq")
        .types(&["output_numeric", "output_json"]),
        key(
            "target",
            Kind::Value,
            "what the value is compared with, or should come to; one that asks `exists` and the like needs none",
        )
        .types(&["output_numeric", "output_json", "convergence"]),
        key(
            "key",
            Kind::Text,
            "the name before the number: of `errors=3` or `errors: 3` the last one. Without it the output is a number, \
             or the last number behind any name is taken",
        )
        .types(&["output_numeric", "convergence"]),
        key("path", Kind::Text, "the value of the document, as `a.b[0].c` or as JSONPath `$.a`; all of it without one")
            .types(&["output_json"]),
        key("pattern", Kind::Text, "what is looked for: a text, or a regular expression `/pattern/flags`")
            .types(&["output_contains"]),
        key(
            "regex",
            BOOL,
            "whether patterns are regular expressions; when it is left out those between slashes are",
        )
        .types(&["output_contains"]),
        key("negate", BOOL, "whether `yes` is that the pattern is not there")
            .default("false")
            .types(&["output_contains"]),
        key(
            "error_patterns",
            Kind::Either(&[Kind::Text, Kind::List(&Kind::Text)]),
            "patterns that make it an error when one of them is there",
        )
        .types(&["output_contains"]),
        key("tolerance", Kind::Value, "how far from the target is near enough")
            .default("0")
            .types(&["convergence"]),
        key(
            "direction",
            Kind::Text,
            "`minimize`, `maximize`, or `toward` from either side; what has passed the target has reached it",
        )
        .default("toward")
        .types(&["convergence"]),
        key("previous", Kind::Value, "the number before, in place of the one that this state came to the last time")
            .types(&["convergence"]),
        key("verdicts", Kind::List(&Kind::Fixed(Form::Name)), "the verdicts that there are; another is an error")
            .types(&["classify", "agent"]),
        key("expect", Kind::Expectation, "what must hold of `value`, `output`, `exit_code` and `meta`")
            .types(&["expect"]),
        key("agent", Kind::Fixed(Form::Name), "who is asked").default("claude").types(&["agent"]),
        key(
            "prompt",
            Kind::Text,
            "what is asked; what is looked at stands below it, unless it reads `result` itself",
        )
        .types(&["agent"]),
        key("min_confidence", Kind::Value, "from 0 to 1: a verdict that is less sure is `uncertain`")
            .types(&["agent"]),
        key("timeout", Kind::Setting(Form::Duration), "how long the judge may take").types(&["agent"]),
    ],
    base: None,
};

/// A condition and where it leads.
pub(crate) static ROUTE: Object = Object {
    name: "route",
    title: "a route",
    doc: "a condition on `result`, and the state that follows when it holds",
    keys: &[
        key("when", Kind::Expression, "a condition: the first that holds is taken").required(),
        key("to", Kind::Fixed(Form::Name), "the state that follows").required(),
    ],
    base: None,
};

const PHASE_OR_STEPS: Kind = Kind::Either(&[Kind::Steps, Kind::Object(&PHASE)]);
const FILTER: Kind = Kind::Either(&[Kind::Expression, Kind::Expectation]);
const SORT_BY: Kind = Kind::Either(&[TEXT, Kind::List(&TEXT)]);
const JSON_PATH_DOC: &str = "which parts of a JSON document are the items (RFC 9535), such as `$.items[*]`";
const FILTER_DOC: &str = "items are taken for which this holds: a condition on `item`, or an expectation";
const SORT_BY_DOC: &str =
    "what items are sorted by: `item.priority DESC NULLS LAST, item.name`, or a list of such keys";
const DISTINCT_DOC: &str = "of items for which this is the same, such as `item.id`, the first is taken";
const OFFSET_DOC: &str = "so many items are left out at the beginning";

/// Where items come from.
pub(crate) static SOURCE: Object = Object {
    name: "source",
    title: "a source of items",
    doc: "where items come from: a file, or what a command prints",
    keys: &[
        key("file", Kind::Text, "the path of a file"),
        key("shell", Kind::Shell, "text for a shell: what it prints"),
        key(
            "format",
            Kind::Fixed(Form::OneOf(&[
                choice("json", "a JSON document: a list, or what `json_path` finds in it"),
                choice("jsonl", "a JSON document on each line").also(&["ndjson"]),
                choice("lines", "a text on each line; empty lines are left out"),
            ])),
            "how it is read; when it is left out of a file by its name, else its beginning, and of a command as lines",
        ),
    ],
    base: None,
};

/// What becomes of items that fail.
pub(crate) static ERROR_POLICY: Object = Object {
    name: "error_policy",
    title: "`error_policy`",
    doc: "what becomes of items that fail",
    keys: &[
        key(
            "on_item_failure",
            Kind::Fixed(Form::OneOf(&[
                choice("retry", "it is tried again, as `retry` says or once, and then left out"),
                choice("skip", "the other items are done").also(&["dlq"]),
                choice("stop", "no other item begins"),
            ])),
            "what happens when an item fails",
        )
        .default("skip"),
        key(
            "continue_on_failure",
            BOOL,
            "whether the run goes on with the results there are when items failed; otherwise it fails",
        )
        .default("false"),
        key(
            "max_failures",
            Kind::Setting(Form::Count(0)),
            "at most so many items may fail: after one more no other begins, and the run fails",
        ),
        key(
            "failure_threshold",
            Kind::Setting(Form::Fraction),
            "at most this part of all items may fail, such as `0.1` or `10%`",
        ),
    ],
    base: None,
};

/// Steps before or after the items.
pub(crate) static PHASE: Object = Object {
    name: "phase",
    title: "a phase",
    doc: "steps before or after the items of a map, whose names end with them; short: just the steps",
    keys: &[
        key("steps", Kind::Steps, "what to do, one step after the other").also(&["commands"]),
        key("timeout", Kind::Fixed(Form::Duration), "how long the phase may take"),
        key(
            "capture_outputs",
            Kind::Map(&Kind::Either(&[Kind::Fixed(Form::Count(0)), Kind::Object(&CAPTURED_OUTPUT)])),
            "names for the outputs of its steps, by their number from 0; `capture` on a step does the same",
        ),
        key(
            "variables",
            Kind::Map(&Kind::Value),
            "values for later phases, evaluated at its end, read as `${setup.variables.NAME}`",
        ),
        key(
            "exports",
            Kind::List(&TEXT),
            "names of its steps and captures that later phases may read as they are",
        ),
    ],
    base: None,
};

/// A captured output of a phase.
pub(crate) static CAPTURED_OUTPUT: Object = Object {
    name: "captured_output",
    title: "an entry of `capture_outputs`",
    doc: "the output of a step by a name; short: just the number of the step",
    keys: &[
        key("command_index", Kind::Fixed(Form::Count(0)), "the number of the step, from 0").required(),
        key("format", Kind::Fixed(Form::OneOf(CAPTURE_FORMATS)), "what the output is read as"),
        key("source", Kind::Fixed(Form::OneOf(&[choice("stdout", "what it printed")])), "which output")
            .default("stdout"),
    ],
    base: None,
};

/// What is done for each item.
pub(crate) static MAP: Object = Object {
    name: "map",
    title: "`map`",
    doc: "what is done for each of many items; they are chosen in the order of these keys",
    keys: &[
        key(
            "input",
            Kind::Either(&[Kind::Value, Kind::Object(&SOURCE)]),
            "where the items come from: the path of a file, a list, a reference, or `{file}` or `{shell}`",
        ),
        key("json_path", TEXT, JSON_PATH_DOC),
        key("filter", FILTER, FILTER_DOC),
        key("sort_by", SORT_BY, SORT_BY_DOC),
        key("distinct", Kind::Expression, DISTINCT_DOC),
        key("offset", Kind::Setting(Form::Count(0)), OFFSET_DOC).default("0"),
        key("max_items", Kind::Setting(Form::Count(0)), "no more than the first so many items"),
        key("max_parallel", Kind::Setting(Form::Count(1)), "so many items at once")
            .also(&["parallel"])
            .default("1"),
        key("steps", Kind::Steps, "the steps for each item, which they read as `${item}`")
            .also(&["agent_template", "do"]),
        key("timeout", Kind::Setting(Form::Duration), "how long an attempt of an item may take")
            .also(&["agent_timeout_secs"]),
        key(
            "retry",
            Kind::Either(&[Kind::Setting(Form::Count(1)), Kind::Object(&RETRY)]),
            "how often an item is tried from its beginning when it fails: so many attempts in all, or more about it",
        ),
        key("worktree", BOOL, "whether each item has a git worktree of its own").default("false"),
    ],
    base: None,
};

/// What an output is read as.
const CAPTURE_FORMATS: &[Choice] = &[
    choice("text", "text without its final line breaks").also(&["string"]),
    choice("json", "a JSON document"),
    choice("lines", "a list of lines"),
    choice("number", "a number"),
    choice("boolean", "`true` or `false`").also(&["bool"]),
];

const TRIGGERS: &[Choice] = &[
    choice("manual", "somebody runs the workflow"),
    choice("schedule", "a time comes; in this version the definition is checked, and a run fires it"),
    choice("webhook", "a request arrives; in this version the definition is checked, and a run fires it"),
];

/// What starts a graph.
pub(crate) static TRIGGER: Object = Object {
    name: "trigger",
    title: "`trigger`",
    doc: "what starts a graph; short: just its type",
    keys: &[
        key("type", Kind::Fixed(Form::OneOf(TRIGGERS)), "what makes it fire").default("manual"),
        key("config", Kind::Object(&TRIGGER_CONFIG), "more about it"),
    ],
    base: None,
};

/// More about a trigger.
pub(crate) static TRIGGER_CONFIG: Object = Object {
    name: "trigger_config",
    title: "`config` of a trigger",
    doc: "more about a trigger",
    keys: &[
        key("enabled", BOOL, "whether it fires; otherwise the node is skipped").default("true"),
        key(
            "params",
            Kind::Map(&Kind::Fixed(Form::Any)),
            "settings of the kind of trigger, such as `cron` or `path`",
        ),
        key(
            "filters",
            Kind::Expectation,
            "what must hold of the payload, as `value`; otherwise the node is skipped",
        ),
    ],
    base: None,
};

/// A node as a list of nodes has it.
pub(crate) static NODE: Object = Object {
    name: "node",
    title: "a node",
    doc: "a node in a list of nodes; by its id in an object a node is a step",
    keys: &[
        key("id", Kind::Fixed(Form::Name), "the name it is read by").required(),
        key("name", TEXT, "a title for people"),
        key(
            "type",
            Kind::Fixed(Form::OneOf(&[
                choice("agent", "`config` has `agent_id` and `message`"),
                choice("tool", "`config` has `tool_name` and `static_params`"),
                choice("conditional", "`config` has `condition` and `condition_type`"),
                choice("trigger", "`config` has `trigger`"),
                choice("step", "`config` is a step"),
            ])),
            "what sort of node it is; it may be left out",
        ),
        key("config", Kind::Object(&STEP), "what it does, a step").required(),
        key("position", Kind::Fixed(Form::Any), "where an editor draws it; it is not read"),
        key("needs", NEEDS, "the nodes that must have completed"),
    ],
    base: None,
};

/// From one node to another.
pub(crate) static EDGE: Object = Object {
    name: "edge",
    title: "an edge",
    doc: "from one node to another",
    keys: &[
        key("from", Kind::Fixed(Form::Name), "the node it leaves")
            .also(&["from_node_id", "source"])
            .required(),
        key("to", Kind::Fixed(Form::Name), "the node it leads to").also(&["to_node_id", "target"]).required(),
        key("branch", Kind::Fixed(Form::Text), "the branch of a conditional that it belongs to"),
        key("config", Kind::Object(&EDGE_CONFIG), "more about it"),
    ],
    base: None,
};

/// More about an edge.
pub(crate) static EDGE_CONFIG: Object = Object {
    name: "edge_config",
    title: "`config` of an edge",
    doc: "more about an edge",
    keys: &[key("branch", Kind::Fixed(Form::Text), "the branch of a conditional that it belongs to")],
    base: None,
};

/// A request to a server.
pub(crate) static HTTP: Object = Object {
    name: "http",
    title: "`http`",
    doc: "a request to a server",
    keys: &[
        key(
            "method",
            Kind::Fixed(Form::OneOf(&[
                choice("GET", "ask for something").also(&["get"]),
                choice("POST", "give something to be dealt with").also(&["post"]),
                choice("PUT", "put something in a place").also(&["put"]),
                choice("PATCH", "change something").also(&["patch"]),
                choice("DELETE", "take something away").also(&["delete"]),
                choice("HEAD", "ask for the headers of an answer").also(&["head"]),
                choice("OPTIONS", "ask what is possible").also(&["options"]),
            ])),
            "what is asked for",
        )
        .default("GET"),
        key(
            "url",
            Kind::Text,
            "where, with `http` or `https`: a reference in it is percent-encoded, one at its beginning is taken as it is",
        )
        .required(),
        key("headers", Kind::Map(&Kind::Text), "header lines of the request"),
        key("query", Kind::Value, "an object of names and values that are added to the URL; of a list, one for each item"),
        key("body", Kind::Value, "what is sent: an object or a list as JSON, text as it is"),
        key("timeout", Kind::Setting(Form::Duration), "how long the answer may take").default("30s"),
    ],
    base: None,
};

/// What the tool `shell` is given.
pub(crate) static SHELL_TOOL: Object = Object {
    name: "shell_tool",
    title: "`params` of `shell`",
    doc: "what the tool `shell` is given: one of them",
    keys: &[
        key("command", Kind::Shell, "text for a shell; references in it are bound, as in a `shell` step"),
        key("argv", Kind::List(&Kind::Text), "a program and its arguments, without a shell"),
    ],
    base: None,
};

/// A file to write.
pub(crate) static WRITE_FILE: Object = Object {
    name: "write_file",
    title: "`write_file`",
    doc: "a file to write",
    keys: &[
        key("path", Kind::Text, "the path, relative to the step's folder").required(),
        key("content", Kind::Value, "what to write").required(),
        key(
            "format",
            Kind::Fixed(Form::OneOf(&[
                choice("text", "the text form of the content"),
                choice("json", "indented JSON"),
                choice("yaml", "YAML"),
            ])),
            "how the content is written",
        )
        .default("text"),
        key("mode", Kind::Fixed(Form::Mode), "the permissions of the file, in octal"),
        key("create_dirs", BOOL, "whether missing folders on the way are made").default("false"),
    ],
    base: None,
};

/// When a failed step is tried again.
pub(crate) static RETRY: Object = Object {
    name: "retry",
    title: "`retry`",
    doc: "when a failed step is tried again",
    keys: &[
        key("attempts", Kind::Setting(Form::Count(1)), "so many attempts in all").required(),
        key(
            "backoff",
            Kind::Fixed(Form::OneOf(&[
                choice("fixed", "the pauses are equal"),
                choice("linear", "each pause is longer by the first"),
                choice("exponential", "each pause is twice as long"),
            ])),
            "how the pause between attempts grows",
        )
        .default("fixed"),
        key("delay", Kind::Setting(Form::Duration), "the first pause").default("1s"),
        key("max_delay", Kind::Setting(Form::Duration), "the longest pause").default("5m"),
        key("jitter", BOOL, "whether a pause is shortened by a random part").default("false"),
    ],
    base: None,
};

/// A value of the caller's.
pub(crate) static INPUT: Object = Object {
    name: "input",
    title: "an input",
    doc: "a value that the caller gives",
    keys: &[
        key(
            "type",
            Kind::Fixed(Form::OneOf(&[
                choice("text", "text").also(&["string"]),
                choice("int", "a whole number").also(&["integer"]),
                choice("number", "any number").also(&["float"]),
                choice("bool", "`true` or `false`").also(&["boolean"]),
                choice("list", "a list").also(&["array"]),
                choice("object", "an object"),
            ])),
            "what it must be; anything when it is left out",
        ),
        key("required", BOOL, "whether it must be given; it must be unless there is a default"),
        key("default", Kind::Fixed(Form::Any), "its value when it is not given"),
        key("description", TEXT, "what it is for"),
    ],
    base: None,
};

/// Who answers an `agent` step.
pub(crate) static AGENT: Object = Object {
    name: "agent",
    title: "an agent",
    doc: "a program that answers `agent` steps: the message on its stdin, the answer on its stdout",
    keys: &[
        key(
            "provider",
            Kind::Fixed(Form::OneOf(&[choice("command", "a program of the machine")])),
            "how it is reached",
        )
        .default("command"),
        key("command", Kind::List(&Kind::Text), "the program and its arguments").required(),
        key("model", TEXT, "a name for the records"),
    ],
    base: None,
};

/// A server of tools.
pub(crate) static SERVER: Object = Object {
    name: "server",
    title: "a server",
    doc: "an MCP server: a program that is spoken to over its stdin and stdout, or a URL",
    keys: &[
        key(
            "command",
            Kind::List(&Kind::Text),
            "the program and its arguments; started once per run, when it is first needed",
        ),
        key("env", Kind::Map(&Kind::Text), "environment variables of the program; null takes one away"),
        key("cwd", Kind::Text, "the folder it runs in").also(&["working_dir"]),
        key("url", Kind::Text, "where it is reached over HTTP"),
        key("headers", Kind::Map(&Kind::Text), "header lines of every request to the URL"),
    ],
    base: None,
};

/// A declared kind of computed value.
pub(crate) static COMPUTED: Object = Object {
    name: "computed",
    title: "an entry of `computed`",
    doc: "a kind of computed value: a program that gets the argument as JSON on stdin and prints JSON",
    keys: &[
        key("command", Kind::List(&TEXT), "the program and its arguments").required(),
        key("timeout", Kind::Fixed(Form::Duration), "how long it may take"),
    ],
    base: None,
};

/// What a workflow may do beyond the usual.
pub(crate) static ALLOW: Object = Object {
    name: "allow",
    title: "`allow`",
    doc: "what the workflow may do beyond the usual",
    keys: &[
        key("commands", BOOL, "whether `${cmd:...}` may run").default("false"),
        key(
            "files",
            Kind::List(&TEXT),
            "folders outside the project that `${file:...}` and `write_file` may use",
        ),
    ],
    base: None,
};
