//! What the programs of steps leave behind, and what they need from the machine: nothing outlives its step, a
//! kill leaves nothing beside its successor, and a machine with little room only makes a run slower.

use std::process::Command;

use crate::harness::{Run, Workflow, workflow};

/// Whether a process is alive; a dead one that nobody has waited for is not.
fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
    state.is_some_and(|state| !matches!(state, "Z" | "X"))
}

#[test]
fn what_drops_its_environment_and_its_session_ends_with_its_step() {
    let workflow = workflow(
        r#"
- shell: |
    (env -i /usr/bin/setsid sh -c 'echo $$ > began; exec sleep 1000' > /dev/null 2>&1 &)
    cat began > pid
- {id: gone, shell: "if kill -0 $(cat pid); then exit 1; fi"}
"#,
    )
    .pipes(&["began"]);
    workflow.run().well();
    assert!(!is_alive(&workflow.read("pid")));
}

/// What one item left behind does not end with another that runs beside it.
#[test]
fn what_a_running_step_started_stays_when_another_ends() {
    let workflow = workflow(
        r#"
- foreach: [first, second]
  parallel: 2
  do:
    - shell: |
        if test ${item} = second; then cat second > /dev/null; exit; fi
        (env -i /usr/bin/setsid sh -c 'echo $$ > began; exec sleep 1000' > /dev/null 2>&1 &)
        cat began > pid
        echo > second
        cat go > /dev/null
        kill -0 $(cat pid)
- {shell: "if kill -0 $(cat pid); then exit 1; fi"}
"#,
    )
    .pipes(&["began", "second", "go"]);
    let running = workflow.start(&["--jobs", "2"]);
    running.until("item_ended");
    workflow.release("go");
    running.wait().well();
    assert!(!is_alive(&workflow.read("pid")));
}

/// A program that cleared its environment when Threadline was killed does not go on beside the one that takes
/// its place.
#[test]
fn after_a_kill_a_program_without_environment_is_ended_before_its_successor() {
    for clears in ["exec env -i PATH=\"$PATH\"", "exec env -i PATH=\"$PATH\" /usr/bin/setsid -w"] {
        let workflow = workflow(&format!(
            "- shell: |\n    {clears} sh -c 'echo $$ > began; cat go > /dev/null; echo done >> log'\n"
        ))
        .pipes(&["began", "go"]);
        let running = workflow.start(&[]);
        let first = workflow.receive("began");
        running.kill();
        assert!(is_alive(&first), "`{clears}` ends with its Threadline");
        let running = workflow.command(&["resume", "--json"]);
        let second = workflow.receive("began");
        assert!(!is_alive(&first) && is_alive(&second), "`{clears}` is beside its successor");
        workflow.release("go");
        running.wait().well();
        assert_eq!(workflow.read("log"), "done\n");
    }
}

/// Runs a workflow with few handles of files.
fn run_limited(workflow: &Workflow, limit: &str) -> Run {
    let script = format!("ulimit {limit}; exec \"$0\" run --json --jobs 100 workflow.yaml");
    workflow.start_program("sh", &["-c", &script, env!("CARGO_BIN_EXE_threadline")]).wait()
}

#[test]
fn many_items_wait_for_handles_instead_of_failing() {
    let items: Vec<String> = (0..120).map(|item| item.to_string()).collect();
    let text = r"
map:
  input: [ITEMS]
  max_parallel: 100
  steps:
    - {shell: sleep 0.05; ulimit -Sn, capture_format: number}
";
    let workflow = workflow(&text.replace("ITEMS", &items.join(", ")));
    for limit in ["-n 64", "-Sn 64"] {
        let run = run_limited(&workflow, limit).well();
        assert_eq!(run.of_kind("item_ended").len(), 120);
        // A child has the limit that Threadline was given, whatever that made of it for itself.
        assert_eq!(run.value("map[17]/1"), "64", "{limit}");
    }
}

/// A clock of the machine that is set back an hour as soon as there is a file `set-back`.
const CLOCK: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec *time) {
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, time);
    if (id == CLOCK_REALTIME && access("set-back", F_OK) == 0) time->tv_sec -= 3600;
    return result;
}
"#;

#[test]
fn the_timeout_of_a_loop_does_not_follow_the_clock_of_the_machine() {
    let workflow = workflow(
        r"
initial: tick
timeout: 1s
max_steps: 1000
states:
  tick: {action: touch set-back; sleep 0.1, on_yes: tick, on_no: done}
  done: {terminal: true}
",
    )
    .file("clock.c", CLOCK);
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-o", "clock.so", "clock.c", "-ldl"])
        .current_dir(workflow.project.path())
        .status();
    assert!(compiled.expect("a C compiler").success());
    let clock = workflow.project.path().join("clock.so").display().to_string();
    let run = workflow.env("LD_PRELOAD", &clock).run().exits(4);
    let ended = run.of_kind("run_ended")[0].get("data").expect("data").to_string();
    assert!(ended.contains("timeout"), "{ended}");
}

/// The processor time that a preview of so many steps takes, in seconds.
fn preview_time(steps: usize) -> f64 {
    use std::fmt::Write as _;
    let mut text = String::from("- {id: s0, value: 1}\n");
    for step in 1..steps {
        writeln!(text, "- {{id: s{step}, value: \"${{s{}}} and ${{prev}}\"}}", step - 1).expect("text");
    }
    let workflow = workflow(&text);
    let script = "TIMEFORMAT=%U; time \"$0\" preview workflow.yaml > /dev/null";
    let run = workflow.start_program("bash", &["-c", script, env!("CARGO_BIN_EXE_threadline")]).wait().well();
    run.stderr.trim().parse().expect("a number of seconds")
}

/// Four times the steps take about four times as long, not sixteen or sixty-four times.
#[test]
fn the_preview_of_a_long_list_is_not_slower_for_each_step() {
    let (few, many) = (preview_time(1_500), preview_time(6_000));
    assert!(many < 9.0 * few, "1500 steps take {few} s, 6000 steps {many} s");
}
