//! Keys of older systems, and what becomes of each: the loader, `migrate` and the pages about these systems read the
//! same rows. Keys of other tools are in [`super::other_versions`].

use super::UnsupportedKey;
use super::other_versions::with_underscores;

/// A system whose files people bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OlderSystem {
    /// Nodes and edges, as an editor saves them.
    Graph,
    /// Lists of commands, and commands for each of many items.
    MapReduce,
    /// States that follow each other by verdicts.
    Loop,
}

/// A row of the table.
#[derive(Debug, Clone, Copy)]
pub struct OlderKey {
    /// Who has the key.
    pub system: OlderSystem,
    /// The object that it stands in, by its name in the table of keys.
    pub object: &'static str,
    /// The key. With `*` at the beginning, every key that ends so.
    pub key: &'static str,
    /// What it is here.
    pub becomes: Becomes,
}

/// What an older key is here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Becomes {
    /// Another spelling of this key: it loads, with a warning, and `migrate` writes the key.
    Key(&'static str),
    /// Written in another form: it loads, with a warning, and `migrate` writes that form.
    Form(&'static str),
    /// Nothing, for this reason: it does not change the run. `migrate` makes it a comment.
    Nothing(&'static str),
    /// The run goes without it; what to write where it matters. `migrate` makes it a comment.
    Without(&'static str),
    /// An error, because the run would be another; what to write instead.
    Else(&'static str),
}

impl Becomes {
    /// What it is to somebody who only asks whether the key is here.
    pub(super) fn unsupported(self) -> UnsupportedKey {
        match self {
            Self::Key(ours) => UnsupportedKey::Renamed(ours),
            Self::Form(text) | Self::Nothing(text) | Self::Without(text) | Self::Else(text) => {
                UnsupportedKey::Replaced(text)
            }
        }
    }
}

/// Looks up a key of an older system, as it is written or with `_` between its words.
pub fn find_older_key(object: &str, key: &str) -> Option<&'static OlderKey> {
    let fits = |row: &OlderKey, key: &str| match row.key.strip_prefix('*') {
        Some(end) => key.ends_with(end) && key.len() > end.len(),
        None => row.key == key,
    };
    let find = |key: &str| OLDER_KEYS.iter().find(|row| row.object == object && fits(row, key));
    find(key).or_else(|| find(&with_underscores(key)))
}

use Becomes::{Else, Form, Key, Nothing, Without};
use OlderSystem::{Graph, Loop, MapReduce};

const fn row(system: OlderSystem, object: &'static str, key: &'static str, becomes: Becomes) -> OlderKey {
    OlderKey { system, object, key, becomes }
}

const FOR_PEOPLE: Becomes = Nothing("it is for readers");
const OF_EDITOR: Becomes = Nothing("it is how an editor draws the node");
const FOR_CHECKER: Becomes = Nothing("it only switches a check of the older system off");
const COMMITS: Becomes =
    Nothing("a step is what its command does: let that command fail if there must be a commit and is none");
const NO_ERROR_COLLECTION: Becomes =
    Nothing("every failure is reported at once, and kept in the journal and in `${map.results}`");
const USE_RETRY: Becomes = Without(
    "write `retry: {attempts: 5, backoff: exponential, delay: 30s, max_delay: 1h}`, and `on_error:` for when all \
     attempts failed",
);
const LIMIT_VISITS: Becomes =
    Without("limit the visits of a state with `max_edge_revisits:` and `max_steps:`");
const AS_INPUTS: Becomes = Form("declare it under `inputs:`, and put it into `context` where it is read");
const FIXES: Becomes = Form("write `retry: {attempts: N, fix: ...}` with the steps of `on_failure`");
const GOES_ON: Becomes = Form("write `continue_on_error: true` on the step, where it is `false`");
const VALIDATES: Becomes = Form(
    "write a step that validates, and one that reads the result, with `expect:` and `retry: {attempts: N, fix: ...}`",
);
const FILES: Becomes = Form("write steps that find the newest file of each pattern, by the name of the step");
const IN_TEXT: Becomes = Without("write it in the text of the command");
const NO_GUARD: Becomes = Without(
    "compare the files in a state of its own: `action: git diff --quiet -- PATHS`, with `on_no:` for a change",
);
const USE_AGENTS: Becomes = Else(
    "declare an agent with `agents: {NAME: {command: [program, --model, x]}}`, and name it with `agent:`",
);
const COMPARE_IN_ACTION: Becomes =
    Else("compare with the file in the action, and judge its exit code or use `type: agent`");
const USE_MAX_STALL: Becomes = Else(
    "write `max_stall:` next to `states:` to stop a loop in which nothing changes; compare numbers with `type: \
     convergence`",
);

/// Every key of an older system that is not a key here, or not by that name.
pub static OLDER_KEYS: &[OlderKey] = &[
    // Loops.
    row(Loop, "workflow", "scope", Key("locks")),
    row(Loop, "workflow", "input_key", AS_INPUTS),
    row(Loop, "workflow", "required_inputs", AS_INPUTS),
    row(Loop, "workflow", "parameters", AS_INPUTS),
    row(Loop, "workflow", "visibility", FOR_PEOPLE),
    row(Loop, "workflow", "labels", FOR_PEOPLE),
    row(Loop, "workflow", "author", FOR_PEOPLE),
    row(Loop, "workflow", "on_handoff", Nothing("continue a stopped run with `threadline resume`")),
    row(Loop, "workflow", "config", Nothing("settings of other programs have no meaning here")),
    row(
        Loop,
        "workflow",
        "artifact_versioning",
        Without(
            "copy the files to keep in a separate state: `shell: cp report.md report-${state.iteration}.md`",
        ),
    ),
    row(
        Loop,
        "workflow",
        "host_guard",
        Without("limit programs with `timeout:` and `max_output:`, or with `ulimit` in the command"),
    ),
    row(
        Loop,
        "workflow",
        "circuit",
        Without(
            "write `max_stall: 3` to stop the loop when a state has the same verdict and output three times in a row",
        ),
    ),
    row(
        Loop,
        "workflow",
        "on_max_steps",
        Without(
            "put steps that always run at the end under `finally:`; `threadline show` says why the loop ended",
        ),
    ),
    row(
        Loop,
        "workflow",
        "on_max_iterations",
        Without(
            "put steps that always run at the end under `finally:`; `threadline show` says why the loop ended",
        ),
    ),
    row(Loop, "workflow", "*_ok", FOR_CHECKER),
    row(
        Loop,
        "workflow",
        "singleton",
        Without("write `locks: [name:NAME]`, so that only one run goes on at a time"),
    ),
    row(Loop, "workflow", "tamper_guard", NO_GUARD),
    row(Loop, "state", "prepatch_check", NO_GUARD),
    row(Loop, "state", "session_mode", Without("write `thread:` to continue a conversation")),
    row(
        Loop,
        "workflow",
        "llm",
        Else("declare the agent under `agents:`, and ask it with `evaluate: {type: agent, prompt: ...}`"),
    ),
    row(Loop, "workflow", "default_timeout", Else("write `defaults: {timeout: 10m}`")),
    row(Loop, "workflow", "default_idle_timeout", Else("write `defaults: {idle_timeout: 1m}`")),
    row(
        Loop,
        "workflow",
        "flow",
        Form("write the routes of the states, each with `next:` or `on_yes:` and `on_no:`"),
    ),
    row(Loop, "workflow", "state_defs", Key("states")),
    row(Loop, "state", "with_", Key("with")),
    row(Loop, "state", "failure", Form("write `terminal: failure`")),
    row(Loop, "state", "description", FOR_PEOPLE),
    row(Loop, "state", "*_ok", FOR_CHECKER),
    row(Loop, "state", "pruning_profile", Nothing("it is about what the older program puts into a prompt")),
    row(
        Loop,
        "state",
        "append_to_messages",
        Else("append to a file: `shell: echo ${captured.NAME.output} >> messages`"),
    ),
    row(
        Loop,
        "state",
        "context_passthrough",
        Without(
            "give what the called loop takes with `with:`, and read the exports of the called workflow: `${captured.NAME.value.x}`",
        ),
    ),
    row(Loop, "state", "on_maintain", Without("with `maintain: true`, a loop starts again with `initial`")),
    row(
        Loop,
        "state",
        "retryable_exit_codes",
        Without("distinguish exit codes with `evaluate: {type: exit_code, no_codes: [...]}` and `route:`"),
    ),
    row(Loop, "state", "on", Key("route")),
    row(Loop, "state", "transitions", Key("route")),
    row(Loop, "state", "max_rate_limit_retries", USE_RETRY),
    row(Loop, "state", "on_rate_limit_exhausted", USE_RETRY),
    row(Loop, "state", "rate_limit_backoff_base_seconds", USE_RETRY),
    row(Loop, "state", "rate_limit_max_wait_seconds", USE_RETRY),
    row(Loop, "state", "rate_limit_long_wait_ladder", USE_RETRY),
    row(Loop, "state", "throttle", LIMIT_VISITS),
    row(Loop, "state", "on_throttle_hard", LIMIT_VISITS),
    row(Loop, "state", "tools", USE_AGENTS),
    row(Loop, "state", "model", USE_AGENTS),
    row(Loop, "state", "type", Else("write what the state does: `action:`, `agent:`, `tool:` or `loop:`")),
    row(
        Loop,
        "state",
        "learning",
        Else("write what the state does as `action:`, and judge it with `evaluate:`"),
    ),
    row(
        Loop,
        "state",
        "parameters",
        Else("declare `parameters:` in a fragment and pass them with `with:`; a workflow has `inputs:`"),
    ),
    row(Loop, "evaluate", "schema", Else("write the allowed verdicts: `verdicts: [yes, no, unsure]`")),
    row(
        Loop,
        "evaluate",
        "uncertain_suffix",
        Without("write `min_confidence:`; a verdict below it becomes `uncertain`"),
    ),
    row(Loop, "evaluate", "scope", USE_MAX_STALL),
    row(Loop, "evaluate", "max_stall", USE_MAX_STALL),
    row(Loop, "evaluate", "history_file", USE_MAX_STALL),
    row(Loop, "evaluate", "epsilon", USE_MAX_STALL),
    row(Loop, "evaluate", "track", USE_MAX_STALL),
    row(Loop, "evaluate", "max_repeat", USE_MAX_STALL),
    row(Loop, "evaluate", "baseline_path", COMPARE_IN_ACTION),
    row(Loop, "evaluate", "auto_promote", COMPARE_IN_ACTION),
    row(Loop, "evaluate", "min_pairs", COMPARE_IN_ACTION),
    row(
        Loop,
        "evaluate",
        "pairs",
        Else("ask an agent: `type: agent`, with both texts in `prompt:` as `${file:PATH}`"),
    ),
    row(
        Loop,
        "evaluate",
        "line",
        Else("print the verdict on the last line: `classify` reads the last nonempty line"),
    ),
    row(
        Loop,
        "input",
        "values",
        Else("check it in the first state: `expression: \"inputs.mode in ['a', 'b']\"`"),
    ),
    // Lists of commands, and map-reduces.
    row(MapReduce, "step", "commit_required", COMMITS),
    row(MapReduce, "step", "auto_commit", COMMITS),
    row(MapReduce, "step", "commit_config", COMMITS),
    row(MapReduce, "step", "description", FOR_PEOPLE),
    row(MapReduce, "step", "metadata", FOR_PEOPLE),
    row(MapReduce, "step", "options", IN_TEXT),
    row(MapReduce, "step", "args", IN_TEXT),
    row(MapReduce, "step", "temporary", Nothing("no step leaves files that are removed by themselves")),
    row(
        MapReduce,
        "step",
        "analyze",
        Without("write the command that analyses as a `shell:` or `claude:` step before it"),
    ),
    row(
        MapReduce,
        "step",
        "analysis",
        Without("write the command that analyses as a `shell:` or `claude:` step before it"),
    ),
    row(MapReduce, "step", "max_attempts", FIXES),
    row(MapReduce, "step", "fail_workflow", GOES_ON),
    row(MapReduce, "step", "validate", VALIDATES),
    row(MapReduce, "step", "outputs", FILES),
    row(
        MapReduce,
        "step",
        "step_validate",
        Else("check in a separate step: `shell: ...` with `on_failure:`"),
    ),
    row(
        MapReduce,
        "step",
        "test",
        Else("write its command as `shell:`, and its `on_failure:` on the same step"),
    ),
    row(
        MapReduce,
        "step",
        "goal_seek",
        Else("retry with `retry:`, or write the attempts as steps with `when:`"),
    ),
    row(
        MapReduce,
        "step",
        "output_file",
        Else("add `capture: NAME`, then a step `write_file: {path: FILE, content: \"${NAME}\"}`"),
    ),
    row(
        MapReduce,
        "step",
        "capture_streams",
        Without("with `capture: NAME`, stderr is read as `${captured.NAME.stderr}`"),
    ),
    row(
        MapReduce,
        "step",
        "handler",
        Else("write the command that it runs as `shell:`, `argv:` or `claude:`"),
    ),
    row(
        MapReduce,
        "step",
        "on_exit_code",
        Else("write steps with `when: prev.exit_code == 1`, after `continue_on_error: true`"),
    ),
    row(MapReduce, "workflow", "error_collection", NO_ERROR_COLLECTION),
    row(MapReduce, "error_policy", "error_collection", NO_ERROR_COLLECTION),
    row(
        MapReduce,
        "workflow",
        "profiles",
        Without("declare `inputs:`, and pass them with `--input`, or a file with `--inputs`"),
    ),
    // Graphs.
    row(Graph, "node", "x", OF_EDITOR),
    row(Graph, "node", "y", OF_EDITOR),
    row(Graph, "node", "width", OF_EDITOR),
    row(Graph, "node", "height", OF_EDITOR),
    row(Graph, "node", "color", OF_EDITOR),
    row(Graph, "node", "text", OF_EDITOR),
    row(Graph, "node", "is_selected", OF_EDITOR),
    row(Graph, "node", "is_dragging", OF_EDITOR),
    row(Graph, "node", "parent_id", OF_EDITOR),
    row(Graph, "node", "node_id", Key("id")),
    row(Graph, "edge", "label", FOR_PEOPLE),
    row(Graph, "edge", "id", FOR_PEOPLE),
    row(Graph, "edge_config", "label", FOR_PEOPLE),
];
