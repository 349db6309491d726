//! Every write of a run to its store fails once, in every way in which a disk fails, and so does everything that is opened
//! or made there, from the first folder of a new store on. The program says so, loses nothing, and goes on when there is
//! room again.

use std::collections::BTreeSet;

use threadline_lang::Value;

use crate::harness::{Run, Workflow, workflow};
use crate::support::{faults, is_long};

/// What a disk says, and the computer.
const ERRORS: [&str; 6] = ["EIO", "ENOSPC", "EDQUOT", "SHORT", "EROFS", "EMFILE"];

/// A list, a map and a loop.
const EXAMPLES: [(&str, &str); 3] = [
    (
        "list",
        "- {id: one, shell: 'head -c 9000 /dev/zero | base64'}
- {id: two, foreach: [1, 2], do: [{argv: [echo, two]}]}
- {id: last, shell: 'echo ${one} | wc -c'}
",
    ),
    (
        "map",
        "map:
  input: {shell: seq 6}
  max_parallel: 2
  steps: [{shell: 'echo ${item}'}]
reduce:
- {id: last, shell: 'echo ${map.results | count}'}
",
    ),
    (
        "loop",
        "initial: a
states:
  a:
    action: echo 1
    capture: n
    capture_format: number
    evaluate: {expression: n == 1}
    on_yes: last
    on_no: a
  last: {terminal: true, action: 'echo ${n}'}
",
    ),
];

/// The executions that the journal says are over.
fn finished(run: &Run) -> BTreeSet<String> {
    run.order().into_iter().map(str::to_owned).collect()
}

/// Goes on with the last run, or begins one if there is none. What had finished is not done again.
fn go_on(workflow: &Workflow, what: &str) -> String {
    let shown = workflow.command(&["show", "last", "--json"]).wait();
    if shown.exit != 0 {
        assert!(shown.stderr.contains("no run yet"), "{what}: {}", shown.stderr);
        return last_value(&workflow.run().well());
    }
    let before = finished(&shown);
    let resumed = workflow.resume();
    let is_over = resumed.stderr.contains("nothing to resume");
    assert!(resumed.exit == 0 || is_over, "{what}: {}", resumed.stderr);
    for event in resumed.of_kind("started") {
        let at = event.get("at").and_then(Value::as_str).unwrap_or_default();
        assert!(!before.contains(at), "{what}: `{at}` had finished and ran again");
    }
    last_value(&workflow.command(&["show", "last", "--json"]).wait().well())
}

fn last_value(run: &Run) -> String {
    run.value("last")
}

/// What came of calls that failed.
#[derive(Default)]
struct FailedCalls {
    /// The run ended well.
    unharmed: u64,
    /// The run did not begin.
    refused: u64,
    /// The run stopped, and can go on.
    stopped: u64,
}

#[test]
fn every_write_fails_once_and_the_run_goes_on() {
    let mut all = FailedCalls::default();
    for (place, (name, text)) in EXAMPLES.into_iter().enumerate() {
        let expected = last_value(&workflow(text).run().well());
        // In the short form each example has errors of its own.
        for (_, error) in
            ERRORS.iter().enumerate().filter(|(at, _)| is_long() || at % EXAMPLES.len() == place)
        {
            let found = each_call_fails(name, text, error, &expected);
            let FailedCalls { unharmed, refused, stopped } = &found;
            println!(
                "{name}, {error}: {} calls failed: {unharmed} did no harm, {refused} runs did not begin, {stopped} \
                 stopped and went on",
                unharmed + refused + stopped
            );
            assert!(unharmed + refused + stopped > 2, "{name}, {error}: hardly a call failed");
            all.unharmed += unharmed;
            all.refused += refused;
            all.stopped += stopped;
        }
    }
    println!(
        "{} calls failed: {} did no harm, {} runs did not begin, {} stopped and went on",
        all.unharmed + all.refused + all.stopped,
        all.unharmed,
        all.refused,
        all.stopped
    );
    assert!(
        all.refused > 6 && all.stopped > 10,
        "{} runs did not begin, {} stopped",
        all.refused,
        all.stopped
    );
}

/// Runs an example again and again, and lets another call fail each time.
fn each_call_fails(name: &str, text: &str, error: &str, expected: &str) -> FailedCalls {
    let mut found = FailedCalls::default();
    for number in (1..).step_by(if is_long() { 1 } else { 3 }) {
        let workflow = workflow(text);
        let what = format!("{name}, {error} at call {number}");
        let run = faults::run(&["run", "workflow.yaml"], workflow.project.path(), number, error);
        if !run.is_met {
            break;
        }
        match run.exit {
            Some(0) => found.unharmed += 1,
            Some(3) => found.refused += 1,
            Some(4) => found.stopped += 1,
            exit => panic!("{what}: {exit:?}: {}", run.stderr),
        }
        let is_named = ["the disk is full", "cannot be read or written", "cannot be written"]
            .iter()
            .any(|words| run.stderr.contains(words));
        assert!(is_named || run.exit == Some(0), "{what}: {}", run.stderr);
        assert_eq!(go_on(&workflow, &what), expected, "{what}: {}", run.stderr);
    }
    found
}

/// A kill before any write: what had finished does not run again, and the result is the same.
#[test]
fn a_kill_before_any_write_loses_nothing() {
    let mut kills = 0;
    for (name, text) in EXAMPLES {
        let expected = last_value(&workflow(text).run().well());
        for number in (1..).step_by(if is_long() { 1 } else { 3 }) {
            let workflow = workflow(text);
            let what = format!("{name}, killed at write {number}");
            if !faults::run(&["run", "workflow.yaml"], workflow.project.path(), number, "KILL").is_met {
                break;
            }
            kills += 1;
            assert_eq!(go_on(&workflow, &what), expected, "{what}");
        }
    }
    println!("killed at {kills} writes");
    assert!(kills > 20, "only {kills} kills");
}
