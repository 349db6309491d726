//! Keys that a file of another system or of a later version has: what to write instead.

/// Why a key that is not in the table is known all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Elsewhere {
    /// Files of older systems have it; what to write instead.
    Old(&'static str),
    /// A later version will have it; what to do until then, when there is something.
    Later(Option<&'static str>),
    /// It makes a file something else than a list of steps; what.
    Shape(&'static str),
}

/// What is known of a key that the table of an object does not have.
pub fn elsewhere(object: &str, key: &str) -> Option<Elsewhere> {
    let row = ELSEWHERE.iter().find(|(of, name, _)| *of == object && *name == key);
    row.map(|(.., elsewhere)| *elsewhere)
}

/// What to write instead of a root that older systems or later versions have.
pub fn other_root(name: &str) -> Option<&'static str> {
    OTHER_ROOTS.iter().find(|(root, _)| *root == name).map(|(_, instead)| *instead)
}

const BEFORE: &str = "the step before is `prev`: `${prev.output}`";
const BY_ID: &str = "a step is read by its id: `${ID.output}`";
const IN_LOOPS: &str = "it is known in the states of a loop";

static OTHER_ROOTS: &[(&str, &str)] = &[
    ("shell", BEFORE),
    ("claude", BEFORE),
    ("last", BEFORE),
    ("previous", BEFORE),
    ("step", BY_ID),
    ("steps", BY_ID),
    ("input", "what the caller gives is `${inputs.NAME}`"),
    ("secrets", "read it from the environment: `${env.NAME}`"),
    ("agent", "it is known for the items of a `map`"),
    ("aggregates", "it is known in the phases of a map-reduce"),
    ("loop", IN_LOOPS),
    ("map", "it is known in the phases of a map-reduce"),
    ("param", "it is known in the states of a loop that have `param:` or are made of a fragment"),
    ("reduce", "it is known in the phases of a map-reduce"),
    ("result", IN_LOOPS),
    ("setup", "it is known in the phases of a map-reduce"),
    ("state", IN_LOOPS),
    ("trigger", "the payload is read in graphs, as `${trigger}`: `nodes:` in place of `steps:`"),
];

use Elsewhere::{Later, Old, Shape};

const SCENARIOS: Elsewhere = Shape("a set of scenarios");
const IN_POLICY: Elsewhere = Old("it stands under `error_policy:`");
const IN_MAP: Elsewhere = Old("it stands under `map:`");
const RETRY_OF_ITEMS: Elsewhere =
    Old("under `map:` write `retry: {attempts: 3, backoff: exponential, delay: 1s}`");
const NO_COLLECTION: Elsewhere =
    Old("leave it out: every failure is told at once, kept in the journal and in `${map.results}`");
const NO_BREAKER: Elsewhere =
    Old("`max_failures` and `failure_threshold` of `error_policy` end a map that fails too often");
const ONE_OUTPUT: Elsewhere =
    Old("capture the output, and take the part in a `value:` step or in `variables:`");
const COMMIT: Elsewhere = Old("commit in a step of its own: `shell: git commit -am \"what changed\"`");

const AT_THE_END: Elsewhere = Old(
    "steps that run at the end, whatever ended the loop, stand under `finally:`; why it ended is in `threadline show`",
);
const OF_INPUTS: Elsewhere =
    Old("declare it under `inputs:`: `NAME: {type: text, description: ...}`, and read `${inputs.NAME}`");
const FOR_PEOPLE: Elsewhere = Old("leave it out, or say it in `description:`");
const RATE_LIMITS: Elsewhere = Old(
    "write `retry: {attempts: 5, backoff: exponential, delay: 30s, max_delay: 1h}`, and `on_error:` for when all are spent",
);
const THROTTLE: Elsewhere =
    Old("a state acts once for each visit: `max_edge_revisits:` and `max_steps:` limit the visits");
const OF_AGENTS: Elsewhere = Old(
    "declare an agent that is called so: `agents: {NAME: {command: [program, --model, x]}}`, and name it with `agent:`",
);
const STALLS: Elsewhere = Old(
    "`max_stall:` beside `states:` stops a loop in which nothing changes; a number is compared by `type: convergence`",
);
const COMPARED: Elsewhere =
    Old("compare with the file in the action, and judge its exit code or ask with `type: agent`");

/// Words of older systems behind a key that takes one of several: the key, the word, and what to write instead.
static OTHER_WORDS: &[(&str, &str, &str)] = &[
    (
        "type",
        "diff_stall",
        "end the action with `git diff --stat`, and write `max_stall:` beside `states:`: it stops a loop in which nothing changes",
    ),
    (
        "type",
        "score_stall",
        "print the score, and write `type: convergence` with `target:`: no nearer is the verdict `stall`",
    ),
    (
        "type",
        "open_question_stall",
        "print the count, and write `type: convergence` with `target: 0`: no nearer is the verdict `stall`",
    ),
    ("type", "action_stall", "write `max_stall:` beside `states:`: it stops a loop in which nothing changes"),
    (
        "type",
        "mcp_result",
        "leave `evaluate` out: a tool that fails is an error; read more of its answer with `type: output_json`",
    ),
    ("type", "harbor_scorer", "run the scorer as the action, and write `type: output_numeric`"),
    (
        "type",
        "comparator",
        "compare with the file in the action, and judge its exit code or ask with `type: agent`",
    ),
    ("type", "contract", "ask an agent: `type: agent`, with both texts in `prompt:` by `${file:PATH}`"),
    ("type", "enum", "write `type: text`, and check it in the first state"),
    ("type", "path", "write `type: text`"),
    ("action_type", "contract", "ask an agent: `evaluate: {type: agent, prompt: ...}`"),
];

/// What to write instead of a word that an older system has behind a key.
pub fn other_word(key: &str, word: &str) -> Option<&'static str> {
    let key = if key == "evaluate" { "type" } else { key };
    OTHER_WORDS.iter().find(|(of, known, _)| *of == key && *known == word).map(|(.., instead)| *instead)
}

static ELSEWHERE: &[(&str, &str, Elsewhere)] = &[
    ("workflow", "secrets", Later(Some("read it from the environment: `${env.NAME}`"))),
    ("workflow", "policy", Later(None)),
    ("workflow", "trigger", Old("make it a node: `nodes: {start: {trigger: manual}}`")),
    ("workflow", "cases", SCENARIOS),
    ("workflow", "facts", SCENARIOS),
    ("workflow", "expectations", SCENARIOS),
    ("workflow", "target", SCENARIOS),
    ("workflow", "version", Old("write `threadline: 1`")),
    ("workflow", "on_failure", Old("steps for the end of a run, however it ends, stand under `finally:`")),
    ("workflow", "retry", Old("give each step its own `retry:`")),
    (
        "workflow",
        "profiles",
        Old("declare `inputs:` and give them with `--input`, or a file with `--inputs`"),
    ),
    ("workflow", "env_files", Old("load it in the shell that starts the run: `set -a; . ./.env`")),
    ("workflow", "on_item_failure", IN_POLICY),
    ("workflow", "continue_on_failure", IN_POLICY),
    ("workflow", "max_failures", IN_POLICY),
    ("workflow", "failure_threshold", IN_POLICY),
    ("workflow", "error_collection", NO_COLLECTION),
    ("workflow", "circuit_breaker", NO_BREAKER),
    ("workflow", "retry_config", RETRY_OF_ITEMS),
    ("workflow", "input", IN_MAP),
    ("workflow", "json_path", IN_MAP),
    ("workflow", "agent_template", IN_MAP),
    ("workflow", "max_parallel", IN_MAP),
    ("workflow", "parallel", IN_MAP),
    ("map", "timeout_config", Old("write `timeout: 10m` for an item, and `timeout:` on a step")),
    ("map", "on_item_failure", Old("it stands under `error_policy:`, beside `map:`")),
    ("map", "continue_on_failure", Old("it stands under `error_policy:`, beside `map:`")),
    ("map", "max_failures", Old("it stands under `error_policy:`, beside `map:`")),
    ("map", "failure_threshold", Old("it stands under `error_policy:`, beside `map:`")),
    ("map", "error_policy", Old("it stands beside `map:`, not in it")),
    ("map", "retry_on_failure", Old("write `retry: 3`, so many attempts in all")),
    ("map", "retries", Old("write `retry: 3`, so many attempts in all")),
    ("map", "retry_config", Old("write `retry: {attempts: 3, backoff: exponential, delay: 1s}`")),
    ("error_policy", "error_collection", NO_COLLECTION),
    ("error_policy", "circuit_breaker", NO_BREAKER),
    ("error_policy", "retry_config", RETRY_OF_ITEMS),
    ("captured_output", "pattern", ONE_OUTPUT),
    ("captured_output", "json_path", ONE_OUTPUT),
    ("captured_output", "default", Old("read it with a default: `${setup.variables.NAME | default(1)}`")),
    ("captured_output", "max_size", Old("write `max_output:` on the step")),
    (
        "captured_output",
        "multiline",
        Old("write `format: lines`, and take what is needed: `[0]` is the first"),
    ),
    ("map", "when", Old("which items are taken is `filter:`; `when:` goes on one of the steps")),
    ("step", "secret_output", Later(None)),
    ("step", "max_parallel", Old("write `parallel:`")),
    ("step", "worktree", Old("the items of `map:` have worktrees, those of a `foreach` do not")),
    (
        "step",
        "capture_streams",
        Old("leave it out: with `capture: NAME` stderr is read as `${captured.NAME.stderr}`"),
    ),
    ("step", "commit_required", COMMIT),
    ("step", "auto_commit", COMMIT),
    ("step", "commit_config", COMMIT),
    (
        "step",
        "validate",
        Old("check in a step of its own: `shell: ...` with `on_failure:` for what to do then"),
    ),
    ("step", "step_validate", Old("check in a step of its own: `shell: ...` with `on_failure:`")),
    ("step", "analyze", Old("write what it runs as `shell:` or `claude:`")),
    ("step", "test", Old("write its command as `shell:`, and its `on_failure:` on the same step")),
    ("step", "goal_seek", Old("try again with `retry:`, or write the attempts as steps with `when:`")),
    (
        "step",
        "output_file",
        Old("add `capture: NAME`, then a step `write_file: {path: FILE, content: \"${NAME}\"}`"),
    ),
    ("step", "handler", Old("write what it runs as `shell:`, `argv:` or `claude:`")),
    ("step", "command", Old("write it as `shell:`, or as `argv:` without a shell")),
    ("step", "run", Old("write it as `shell:`")),
    ("step", "max_attempts", Old("write `retry:` on the step that fails")),
    ("step", "fail_workflow", Old("a failed step ends the run unless it has `continue_on_error: true`")),
    (
        "step",
        "on_exit_code",
        Old("write steps with `when: prev.exit_code == 1`, after `continue_on_error: true`"),
    ),
    ("step", "commands", Old("write the steps as a list")),
    ("step", "input", Old("write the list as `foreach:`")),
    // Loops of an older system.
    ("workflow", "scope", Old("write `locks:`, the paths that no other run may use meanwhile")),
    ("workflow", "on_max_steps", AT_THE_END),
    ("workflow", "on_max_iterations", AT_THE_END),
    (
        "workflow",
        "circuit",
        Old("write `max_stall: 3`: a loop stops when a state comes to the same so often in a row"),
    ),
    (
        "workflow",
        "llm",
        Old("name the agent under `agents:`, and what it is asked in `evaluate: {type: agent, prompt: ...}`"),
    ),
    ("workflow", "on_handoff", Old("leave it out: a run that was stopped goes on with `threadline resume`")),
    ("workflow", "input_key", OF_INPUTS),
    ("workflow", "parameters", OF_INPUTS),
    ("workflow", "required_inputs", OF_INPUTS),
    (
        "workflow",
        "default_timeout",
        Old("write `timeout:` in each state, or in a fragment that they are made of"),
    ),
    (
        "workflow",
        "default_idle_timeout",
        Old("write `idle_timeout:` in each state, or in a fragment that they are made of"),
    ),
    ("workflow", "config", Old("leave it out: settings of another program have no meaning here")),
    ("workflow", "category", FOR_PEOPLE),
    ("workflow", "labels", FOR_PEOPLE),
    ("workflow", "visibility", FOR_PEOPLE),
    ("workflow", "targets", FOR_PEOPLE),
    (
        "workflow",
        "artifact_versioning",
        Old(
            "copy what is to be kept in a state of its own: `shell: cp report.md report-${state.iteration}.md`",
        ),
    ),
    (
        "workflow",
        "host_guard",
        Old(
            "leave it out: limit programs with `timeout:` and `max_output:`, or with `ulimit` in the command",
        ),
    ),
    (
        "workflow",
        "flow",
        Old("write the states under `states:`, each with `next:` or `on_yes:` and `on_no:`"),
    ),
    ("workflow", "state_defs", Old("write them under `states:`")),
    (
        "state",
        "append_to_messages",
        Old("append it to a file of its own: `shell: echo ${captured.NAME.output} >> messages`"),
    ),
    (
        "state",
        "context_passthrough",
        Old("give what is needed with `with:`, and read what the other exports: `${captured.NAME.value.x}`"),
    ),
    ("state", "on_maintain", Old("leave it out: with `maintain: true` a loop begins again with `initial`")),
    (
        "state",
        "retryable_exit_codes",
        Old("tell them apart with `evaluate: {type: exit_code, no_codes: [...]}` and `route:`"),
    ),
    ("state", "max_rate_limit_retries", RATE_LIMITS),
    ("state", "on_rate_limit_exhausted", RATE_LIMITS),
    ("state", "rate_limit_backoff_base_seconds", RATE_LIMITS),
    ("state", "rate_limit_max_wait_seconds", RATE_LIMITS),
    ("state", "rate_limit_long_wait_ladder", RATE_LIMITS),
    ("state", "throttle", THROTTLE),
    ("state", "on_throttle_hard", THROTTLE),
    ("state", "tools", OF_AGENTS),
    ("state", "model", OF_AGENTS),
    ("state", "type", Old("write what it does: `action:`, `agent:`, `tool:`, `loop:`")),
    ("state", "learning", Old("write what it does as `action:`, and judge it with `evaluate:`")),
    (
        "state",
        "parameters",
        Old("a fragment has `parameters:`, a state gives them with `with:`; a workflow has `inputs:`"),
    ),
    ("evaluate", "schema", Old("write the verdicts that there are: `verdicts: [yes, no, unsure]`")),
    (
        "evaluate",
        "uncertain_suffix",
        Old("with `min_confidence:` a verdict that is less sure is `uncertain`"),
    ),
    ("evaluate", "scope", STALLS),
    ("evaluate", "max_stall", STALLS),
    ("evaluate", "history_file", STALLS),
    ("evaluate", "epsilon", STALLS),
    ("evaluate", "track", STALLS),
    ("evaluate", "max_repeat", STALLS),
    ("evaluate", "baseline_path", COMPARED),
    ("evaluate", "auto_promote", COMPARED),
    ("evaluate", "min_pairs", COMPARED),
    ("evaluate", "pairs", Old("ask an agent: `type: agent`, with both texts in `prompt:` by `${file:PATH}`")),
    ("evaluate", "line", Old("`classify` reads the last line that is not empty; print the verdict there")),
    ("input", "values", Old("check it in the first state: `expression: \"inputs.mode in ['a', 'b']\"`")),
];
