//! Keys, roots and words of other systems and of later versions, each with a hint that says what to write
//! instead. Those of the systems whose files people bring are in [`super::older`].

use super::older::find_older_key;

/// Why a key that is not in the table is recognised nevertheless.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnsupportedKey {
    /// A key of another system, with the key that is the same here.
    Renamed(&'static str),
    /// A key of older or other systems, with a hint that says what to write instead.
    Replaced(&'static str),
    /// A key of a later version, with a hint for the meantime if there is one.
    NotYet(Option<&'static str>),
}

/// Looks up a key that the table of an object does not have, as it is written or with `_` between its words.
pub fn find_unsupported_key(object: &str, key: &str) -> Option<UnsupportedKey> {
    if let Some(row) = find_older_key(object, key) {
        return Some(row.becomes.unsupported());
    }
    let find = |key: &str| UNSUPPORTED_KEYS.iter().find(|row| row.0 == object && row.1 == key);
    find(key).or_else(|| find(&with_underscores(key))).map(|(.., unsupported)| *unsupported)
}

/// A key with `_` between its words: `retryPolicy` and `retry-policy` are `retry_policy`.
pub fn with_underscores(key: &str) -> String {
    let mut text = String::with_capacity(key.len() + 4);
    for char in key.chars() {
        match char {
            '-' => text.push('_'),
            char if char.is_ascii_uppercase() => {
                if !text.is_empty() && !text.ends_with('_') {
                    text.push('_');
                }
                text.push(char.to_ascii_lowercase());
            }
            char => text.push(char),
        }
    }
    text
}

/// The hint for a root that older systems or later versions have.
pub fn hint_for_root(name: &str) -> Option<&'static str> {
    OTHER_ROOTS.iter().find(|(root, _)| *root == name).map(|(_, hint)| *hint)
}

/// The hint for a word that an older system accepts for a key.
pub fn hint_for_word(key: &str, word: &str) -> Option<&'static str> {
    let key = if key == "evaluate" { "type" } else { key };
    OTHER_WORDS.iter().find(|row| row.0 == key && row.1 == word).map(|(.., hint)| *hint)
}

const REDIRECT: UnsupportedKey =
    Replaced("write it in the command: `shell: ... > FILE`; `threadline logs` shows what a step printed");
const PREVIOUS_STEP: &str = "read the previous step as `prev`: `${prev.output}`";
const STEP_BY_ID: &str = "read a step by its id: `${ID.output}`";
const ONLY_IN_LOOPS: &str = "it is only available in the states of a loop";

/// The root, and the hint.
static OTHER_ROOTS: &[(&str, &str)] = &[
    ("shell", PREVIOUS_STEP),
    ("claude", PREVIOUS_STEP),
    ("last", PREVIOUS_STEP),
    ("previous", PREVIOUS_STEP),
    ("step", STEP_BY_ID),
    ("steps", STEP_BY_ID),
    ("input", "read the values of the caller as `${inputs.NAME}`"),
    ("agent", "it is only available to the items of a `map`"),
    ("aggregates", "it is only available in the phases of a map-reduce"),
    ("loop", ONLY_IN_LOOPS),
    ("map", "it is only available in the phases of a map-reduce"),
    ("param", "it is only available in the states of a loop that have `param:` or use a fragment"),
    ("reduce", "it is only available in the phases of a map-reduce"),
    ("result", ONLY_IN_LOOPS),
    ("setup", "it is only available in the phases of a map-reduce"),
    ("state", ONLY_IN_LOOPS),
    ("trigger", "the payload `${trigger}` is only available in a graph: write `nodes:` instead of `steps:`"),
];

use UnsupportedKey::{NotYet, Renamed, Replaced};

const MOVE_TO_POLICY: UnsupportedKey = Replaced("move it under `error_policy:`");
const MOVE_TO_MAP: UnsupportedKey = Replaced("move it under `map:`");
const USE_ITEM_RETRY: UnsupportedKey =
    Replaced("under `map:` write `retry: {attempts: 3, backoff: exponential, delay: 1s}`");
const NO_CIRCUIT_BREAKER: UnsupportedKey = Replaced(
    "use `max_failures` and `failure_threshold` of `error_policy` to end a map with too many failures",
);
const WHOLE_OUTPUT: UnsupportedKey =
    Replaced("capture the whole output, and select the part in a `value:` step or in `variables:`");

const NEEDS_IN_GRAPHS: UnsupportedKey =
    Replaced("steps run in the order in which they are written; a node of a graph has `needs:`");
const ASK_AN_AGENT: UnsupportedKey =
    Replaced("write `agent: NAME` with the question as `message:`, and declare it under `agents:`");
const USE_FOREACH: UnsupportedKey =
    Replaced("write a list as `foreach: [a, b]` with the steps under `do:`, or as the `input:` of a `map:`");
const ENV_FILE: UnsupportedKey = Replaced("write `env_file:` at the top level of the file, for all steps");
const SECRET_SOURCE: UnsupportedKey =
    Replaced("write where the secret is read from: `{env: NAME}`, `{file: path}` or `{command: [program]}`");
const START_A_RUN: UnsupportedKey = Replaced(
    "not here: start a run with `threadline run`, from cron or CI; what started it is a `trigger:` node of a \
     graph",
);

const USE_INPUTS: UnsupportedKey = Replaced(
    "declare it under `inputs:` as `NAME: {type: text, description: ...}`, and read `${inputs.NAME}`",
);

/// The key, the word, and the hint.
static OTHER_WORDS: &[(&str, &str, &str)] = &[
    (
        "type",
        "diff_stall",
        "end the action with `git diff --stat`, and write `max_stall:` next to `states:` to stop a \
             loop in which nothing changes",
    ),
    (
        "type",
        "score_stall",
        "print the score, and write `type: convergence` with `target:`; the verdict is `stall` if the \
             score gets no closer",
    ),
    (
        "type",
        "open_question_stall",
        "print the count, and write `type: convergence` with `target: 0`; the verdict is `stall` if \
             the count gets no closer",
    ),
    ("type", "action_stall", "write `max_stall:` next to `states:` to stop a loop in which nothing changes"),
    (
        "type",
        "mcp_result",
        "remove `evaluate`: a failed tool is an error; inspect its answer with `type: output_json`",
    ),
    ("type", "judge", "write `type: agent`, with the question as `prompt:`"),
    ("type", "llm", "write `type: agent`, with the question as `prompt:`"),
    ("type", "harbor_scorer", "run the scorer as the action, and write `type: output_numeric`"),
    (
        "type",
        "comparator",
        "compare with the file in the action, and judge its exit code or use `type: agent`",
    ),
    ("type", "contract", "ask an agent: `type: agent`, with both texts in `prompt:` as `${file:PATH}`"),
    ("type", "enum", "write `type: text`, and check it in the first state"),
    ("type", "path", "write `type: text`"),
    ("action_type", "contract", "ask an agent: `evaluate: {type: agent, prompt: ...}`"),
];

/// The object, the key, and why it is not supported.
static UNSUPPORTED_KEYS: &[(&str, &str, UnsupportedKey)] = &[
    ("workflow", "policy", NotYet(None)),
    ("workflow", "trigger", Replaced("make it a node: `nodes: {start: {trigger: manual}}`")),
    ("workflow", "version", Replaced("write `threadline: 1`")),
    ("workflow", "retry", Replaced("write `defaults: {retry: 3}`, or `retry:` on the steps that need it")),
    ("workflow", "on_item_failure", MOVE_TO_POLICY),
    ("workflow", "continue_on_failure", MOVE_TO_POLICY),
    ("workflow", "max_failures", MOVE_TO_POLICY),
    ("workflow", "failure_threshold", MOVE_TO_POLICY),
    ("workflow", "circuit_breaker", NO_CIRCUIT_BREAKER),
    ("workflow", "retry_config", USE_ITEM_RETRY),
    ("workflow", "input", MOVE_TO_MAP),
    ("workflow", "json_path", MOVE_TO_MAP),
    ("workflow", "agent_template", MOVE_TO_MAP),
    ("workflow", "max_parallel", MOVE_TO_MAP),
    ("workflow", "parallel", MOVE_TO_MAP),
    ("secret", "provider", SECRET_SOURCE),
    ("secret", "key", SECRET_SOURCE),
    ("secret", "value", SECRET_SOURCE),
    ("map", "timeout_config", Replaced("write `timeout: 10m` for each item, or `timeout:` on a step")),
    ("map", "on_item_failure", Replaced("move it under `error_policy:`, next to `map:`")),
    ("map", "continue_on_failure", Replaced("move it under `error_policy:`, next to `map:`")),
    ("map", "max_failures", Replaced("move it under `error_policy:`, next to `map:`")),
    ("map", "failure_threshold", Replaced("move it under `error_policy:`, next to `map:`")),
    ("map", "error_policy", Replaced("move it out of `map:`, to the top level of the file")),
    ("map", "retry_on_failure", Replaced("write `retry: 3`, the total number of attempts")),
    ("map", "retries", Replaced("write `retry: 3`, the total number of attempts")),
    ("map", "retry_config", Replaced("write `retry: {attempts: 3, backoff: exponential, delay: 1s}`")),
    ("error_policy", "circuit_breaker", NO_CIRCUIT_BREAKER),
    ("error_policy", "retry_config", USE_ITEM_RETRY),
    ("captured_output", "pattern", WHOLE_OUTPUT),
    ("captured_output", "json_path", WHOLE_OUTPUT),
    (
        "captured_output",
        "default",
        Replaced("read it with a default: `${setup.variables.NAME | default(1)}`"),
    ),
    ("captured_output", "max_size", Replaced("write `max_output:` on the step")),
    (
        "captured_output",
        "multiline",
        Replaced("write `format: lines`, and select a line: `[0]` is the first"),
    ),
    ("map", "when", Replaced("select items with `filter:`; `when:` belongs on one of the steps")),
    ("step", "max_parallel", Renamed("parallel")),
    ("step", "worktree", Replaced("only the items of `map:` have worktrees, those of a `foreach` do not")),
    ("step", "command", Replaced("write it as `shell:`, or as `argv:` without a shell")),
    ("step", "run", Renamed("shell")),
    ("step", "script", Renamed("shell")),
    ("step", "cmds", Replaced("write the commands below `shell: |`, one on each line")),
    ("step", "commands", Replaced("write the commands below `shell: |`, one on each line")),
    ("step", "log", Replaced("write `shell: echo ...`; `threadline logs` shows what a step printed")),
    ("step", "print", Replaced("write `shell: echo ...`; `threadline logs` shows what a step printed")),
    ("step", "echo", Replaced("write `shell: echo ...`; `threadline logs` shows what a step printed")),
    ("step", "bash", Renamed("shell")),
    ("step", "cmd", Renamed("shell")),
    ("step", "sh", Renamed("shell")),
    ("step", "exec", Replaced("write it as `argv: [program, argument]`, or as `shell:`")),
    ("step", "if", Renamed("when")),
    ("step", "unless", Replaced("write the opposite as `when: not (...)`")),
    ("step", "only_if", Renamed("when")),
    (
        "step",
        "uses",
        Replaced(
            "not here: run a program with `shell:`, call a tool of a server with `tool:`, or another file \
             with `workflow:`",
        ),
    ),
    ("step", "executor", Replaced("not here: run a container with `shell: docker run --rm IMAGE ...`")),
    (
        "step",
        "preconditions",
        Replaced("write `when:` with a condition, such as `when: env.MODE == \"full\"`"),
    ),
    ("step", "stdout", REDIRECT),
    ("step", "stderr", REDIRECT),
    ("step", "image", Replaced("not here: run a container with `shell: docker run --rm IMAGE ...`")),
    ("step", "container", Replaced("not here: run a container with `shell: docker run --rm IMAGE ...`")),
    ("step", "depends", NEEDS_IN_GRAPHS),
    ("step", "depends_on", NEEDS_IN_GRAPHS),
    ("step", "after", NEEDS_IN_GRAPHS),
    ("step", "deps", NEEDS_IN_GRAPHS),
    ("step", "sleep", Renamed("wait")),
    ("step", "delay", Renamed("wait")),
    ("step", "prompt", ASK_AN_AGENT),
    ("step", "ask", ASK_AN_AGENT),
    ("step", "llm", ASK_AN_AGENT),
    ("step", "matrix", USE_FOREACH),
    ("step", "strategy", USE_FOREACH),
    ("step", "for_each", Renamed("foreach")),
    ("step", "items", Renamed("foreach")),
    ("step", "with_items", Renamed("foreach")),
    ("step", "loop", USE_FOREACH),
    ("step", "steps", Renamed("do")),
    ("step", "max_concurrent", Renamed("parallel")),
    ("step", "concurrency", Renamed("parallel")),
    ("step", "dir", Renamed("cwd")),
    ("step", "workdir", Renamed("cwd")),
    ("step", "working_directory", Renamed("cwd")),
    ("step", "environment", Renamed("env")),
    (
        "step",
        "vars",
        Replaced(
            "write variables of a program as `env:`, and values of the workflow as `context:` next to `steps:`",
        ),
    ),
    ("step", "envs", Renamed("env")),
    ("step", "env_file", ENV_FILE),
    ("step", "dotenv", ENV_FILE),
    ("step", "continue-on-error", Renamed("continue_on_error")),
    ("step", "ignore_errors", Renamed("continue_on_error")),
    ("step", "allow_failure", Renamed("continue_on_error")),
    ("step", "on_error", Renamed("on_failure")),
    ("step", "catch", Renamed("on_failure")),
    ("step", "rescue", Renamed("on_failure")),
    ("step", "continue_on", Replaced("write `continue_on_error: true`")),
    ("step", "timeout-minutes", Replaced("write `timeout:` with its unit, such as `timeout: 10m`")),
    ("step", "timeout_sec", Replaced("write `timeout:` with its unit, such as `timeout: 10s`")),
    ("step", "timeout_seconds", Replaced("write `timeout:` with its unit, such as `timeout: 10s`")),
    ("step", "retries", Replaced("write `retry: 3`, the total number of attempts")),
    ("step", "retry_policy", Replaced("write `retry: {attempts: 3, delay: 1s}`")),
    ("step", "repeat", Replaced("write a loop: `states:` with a state that leads back to itself")),
    ("step", "while", Replaced("write a loop: `states:` with a state that leads back to itself")),
    ("step", "until", Replaced("write a loop: `states:` with a state that leads back to itself")),
    ("step", "register", Renamed("capture")),
    ("step", "output", Renamed("capture")),
    ("step", "outputs", Replaced("write `capture: NAME`, and read `${NAME}`")),
    ("step", "output_format", Renamed("capture_format")),
    ("step", "format", Renamed("capture_format")),
    ("step", "parse", Renamed("capture_format")),
    ("step", "save_as", Renamed("capture")),
    ("step", "else", Replaced("write a second step with the opposite `when:`")),
    ("step", "call", Renamed("workflow")),
    ("step", "task", Replaced("call another file with `workflow: FILE`")),
    ("step", "sub_workflow", Renamed("workflow")),
    ("step", "arguments", Renamed("params")),
    ("step", "finalize", Renamed("finally")),
    ("step", "always", Renamed("finally")),
    ("retry", "max", Renamed("attempts")),
    ("retry", "max_attempts", Renamed("attempts")),
    ("retry", "count", Renamed("attempts")),
    ("retry", "times", Renamed("attempts")),
    (
        "retry",
        "limit",
        Replaced("write `attempts:`, the total number of attempts, one more than the retries"),
    ),
    (
        "retry",
        "retries",
        Replaced("write `attempts:`, the total number of attempts, one more than the retries"),
    ),
    (
        "retry",
        "max_retries",
        Replaced("write `attempts:`, the total number of attempts, one more than the retries"),
    ),
    ("retry", "interval", Renamed("delay")),
    ("retry", "initial_delay", Renamed("delay")),
    ("retry", "wait", Renamed("delay")),
    ("retry", "max_interval", Renamed("max_delay")),
    (
        "input",
        "enum",
        Replaced("check it in a first step: `expect: {value: {in: [a, b]}}` on `value: ${inputs.NAME}`"),
    ),
    (
        "input",
        "options",
        Replaced("check it in a first step: `expect: {value: {in: [a, b]}}` on `value: ${inputs.NAME}`"),
    ),
    (
        "input",
        "choices",
        Replaced("check it in a first step: `expect: {value: {in: [a, b]}}` on `value: ${inputs.NAME}`"),
    ),
    ("input", "value", Renamed("default")),
    ("input", "desc", Renamed("description")),
    ("http", "data", Renamed("body")),
    ("http", "json", Renamed("body")),
    ("http", "payload", Renamed("body")),
    ("http", "params", Renamed("query")),
    ("http", "verb", Renamed("method")),
    ("write_file", "file", Renamed("path")),
    ("write_file", "text", Renamed("content")),
    ("write_file", "contents", Renamed("content")),
    (
        "workflow",
        "jobs",
        Replaced("write the steps of a job under `steps:`, and several jobs as `nodes:` with `needs:`"),
    ),
    ("workflow", "on", START_A_RUN),
    ("workflow", "triggers", START_A_RUN),
    ("workflow", "schedule", START_A_RUN),
    ("workflow", "cron", START_A_RUN),
    ("workflow", "dotenv", ENV_FILE),
    ("workflow", "envs", Renamed("env")),
    ("workflow", "variables", Renamed("context")),
    ("workflow", "vars", Renamed("context")),
    ("workflow", "params", USE_INPUTS),
    ("workflow", "tasks", Renamed("steps")),
    ("workflow", "stages", Renamed("steps")),
    ("workflow", "pipeline", Renamed("steps")),
    ("workflow", "outputs", Renamed("exports")),
    ("workflow", "matrix", USE_FOREACH),
    ("workflow", "strategy", USE_FOREACH),
    ("workflow", "concurrency", Replaced("write `locks:`, the paths that only one run may use at a time")),
    (
        "workflow",
        "handler_on",
        Replaced("write `on_failure:`, `on_success:` and `finally:`, each a list of steps, at the top"),
    ),
    ("workflow", "always", Renamed("finally")),
    ("workflow", "after", Renamed("finally")),
    (
        "workflow",
        "type",
        Replaced("remove it: `steps:`, `nodes:`, `map:` or `states:` says what the file is"),
    ),
    (
        "workflow",
        "max_active_runs",
        Replaced("write `locks:`, the paths that only one run may use at a time"),
    ),
    (
        "workflow",
        "entry_point",
        Replaced("remove it: a graph begins with the nodes that need no other; a loop has `initial:`"),
    ),
    (
        "workflow",
        "conditional_edges",
        Replaced("write a node with `condition:`, and `needs: [ID.true]` on the node behind it"),
    ),
    ("workflow", "permissions", Replaced("remove it: a run may do what whoever starts it may do")),
    ("workflow", "runs-on", Replaced("remove it: a run uses the machine that it is started on")),
    ("workflow", "shell", Replaced("write it as a step: `steps: [{shell: ...}]`")),
    ("step", "commands", Replaced("write the steps as a list")),
    ("step", "input", Replaced("write the list as `foreach:`")),
];
