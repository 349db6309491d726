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
const NOT_YET: &str = "this version has no such root";

static OTHER_ROOTS: &[(&str, &str)] = &[
    ("shell", BEFORE),
    ("claude", BEFORE),
    ("last", BEFORE),
    ("previous", BEFORE),
    ("step", BY_ID),
    ("steps", BY_ID),
    ("input", "what the caller gives is `${inputs.NAME}`"),
    ("secrets", "read it from the environment: `${env.NAME}`"),
    ("agent", "it is known for the items of a `foreach` or a `map`"),
    ("loop", NOT_YET),
    ("map", "it is known in the phases of a map-reduce"),
    ("param", NOT_YET),
    ("reduce", "it is known in the phases of a map-reduce"),
    ("result", NOT_YET),
    ("setup", "it is known in the phases of a map-reduce"),
    ("state", NOT_YET),
    ("trigger", "the payload is read in graphs, as `${trigger}`: `nodes:` in place of `steps:`"),
];

use Elsewhere::{Later, Old, Shape};

const LOOP: Elsewhere = Shape("a loop of states");
const SCENARIOS: Elsewhere = Shape("a set of scenarios");
const COMMIT: Elsewhere = Old("commit in a step of its own: `shell: git commit -am \"what changed\"`");

static ELSEWHERE: &[(&str, &str, Elsewhere)] = &[
    ("workflow", "secrets", Later(Some("read it from the environment: `${env.NAME}`"))),
    ("workflow", "policy", Later(None)),
    ("workflow", "trigger", Old("make it a node: `nodes: {start: {trigger: manual}}`")),
    ("workflow", "states", LOOP),
    ("workflow", "initial", LOOP),
    ("workflow", "max_iterations", LOOP),
    ("workflow", "maintain", LOOP),
    ("workflow", "cases", SCENARIOS),
    ("workflow", "facts", SCENARIOS),
    ("workflow", "expectations", SCENARIOS),
    ("workflow", "target", SCENARIOS),
    ("workflow", "version", Old("write `threadline: 1`")),
    ("workflow", "on_failure", Old("steps for the end of a run, however it ends, stand under `finally:`")),
    ("workflow", "timeout", Old("give each step its own `timeout:`")),
    ("workflow", "retry", Old("give each step its own `retry:`")),
    ("map", "when", Old("which items are taken is `filter:`; `when:` goes on one of the steps")),
    ("step", "secret_output", Later(None)),
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
];
