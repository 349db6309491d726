//! A loop, killed behind every transition and wherever else it comes: it goes on in the state it was in, with what it
//! captured, its counters and its time, and walks the same way as one which nothing disturbed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use threadline_engine::event::{Datum, EventKind};
use threadline_engine::random::Random;
use threadline_store::wire;

use super::{Place, Until, one_run_with_kills, waiting};
use crate::support::{is_long, seed};

/// Captures of this iteration and the one before, a state that follows itself, one without an action, verdicts of every
/// sort, and a value that is known for the whole run.
const LOOP: &str = r#"
name: killed-loop
initial: measure
max_iterations: 6
backoff: 3ms
context: {token: "${uuid}"}
states:
  measure:
    shell: |
      echo "$THREADLINE_STEP" >> effects
      echo ${context.token} >> tokens
      printf %s $((9 - 2 * ${state.iteration}))
    capture: errors
    capture_format: number
    evaluate: {type: expression, expression: "result.value <= 1"}
    on_yes: polish
    on_no: fix
  fix:
    shell: |
      echo "$THREADLINE_STEP" >> effects
      printf '%s %s %s' ${captured.errors} ${captured.errors.previous.value | default("none")} ${prev.verdict}
      exit $((${state.iteration} % 3))
    capture: fixed
    on_yes: look
    on_no: look
    on_error: look
  look:
    evaluate: {type: expression, expression: "prev.verdict != 'no'"}
    on_yes: measure
    on_no: again
  again:
    argv: [sh, -c, 'echo "$THREADLINE_STEP" >> effects; exit 1']
    on_yes: measure
    on_no: self
    max_retries: 2
    on_retry_exhausted: measure
  polish:
    shell: echo "$THREADLINE_STEP" >> effects; printf %s ${state.iteration}
    next: done
  done: {terminal: true}
exports: {errors: "${captured.errors}"}
"#;

#[test]
fn kills_behind_every_transition_of_a_loop() {
    let seed = seed();
    println!("THREADLINE_SEED={seed}");
    let undisturbed = {
        let place = Place::new("undisturbed-loop", LOOP);
        let output = place.output(&["run", "workflow.yaml"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        place.left()
    };
    let transitions = undisturbed.visits().len() as u64;
    assert!(transitions >= 15, "{:?}", undisturbed.visits());
    let mut random = Random::new(seed);
    let mut histogram = BTreeMap::new();
    let (mut kills, rounds) = (0, if is_long() { 20 } else { 1 });
    for _ in 0..rounds {
        let behind = (1..=transitions).map(|nth| Until::Event("judged", nth));
        let results = undisturbed.results().len() as u64;
        // What an action left is on disk a little before its verdict.
        for first in behind.chain((1..=results).step_by(3).map(|nth| Until::Event("finished", nth))) {
            let place = Place::new("loop", LOOP);
            kills += one_run_with_kills(&place, first, &mut random, &undisturbed, &mut histogram);
            let tokens = std::fs::read_to_string(place.file("tokens")).unwrap();
            let tokens: BTreeSet<&str> = tokens.lines().collect();
            assert_eq!(tokens.len(), 1, "a value of the whole run changed: {tokens:?}");
        }
    }
    println!("{kills} kills, by the event that was last in the journal:");
    for (kind, count) in &histogram {
        println!("{count:6} {kind}");
    }
    assert!(kills >= transitions - 1, "{kills} kills behind {transitions} transitions");
    assert!(histogram.get("judged").is_some_and(|kills| *kills >= 5), "{histogram:?}");
    assert!(histogram.len() >= 3, "the kills hit few kinds of events: {histogram:?}");
}

/// Its first state acts until there is a file `release`.
const WAITING: &str = r"
initial: one
states:
  one:
    shell: |
      echo 1 >> effects
      until test -e release; do sleep 0.01; done
    capture: first
    next: two
  two:
    shell: echo 2 >> effects; printf %s ${loop.elapsed_ms}
    capture: elapsed
    next: done
  done: {terminal: true}
";

#[test]
fn the_first_interrupt_lets_the_state_end() {
    let place = Place::new("interrupt-loop", WAITING);
    let running = waiting(&place, &["run", "workflow.yaml"]);
    running.signal("-INT");
    running.says("stopping");
    place.release();
    assert_eq!(running.wait().0.code(), Some(130));
    let left = place.left();
    // It is judged: what it did is not lost.
    let to_two = ("one#1".to_owned(), "yes".to_owned(), Some("two".to_owned()));
    assert_eq!(left.visits(), [to_two]);
    assert_eq!((left.effects_of("1"), left.effects_of("2")), (1, 0));
    assert!(place.output(&["resume", "last"]).status.success());
    let left = place.left();
    assert_eq!((left.effects_of("1"), left.effects_of("2")), (1, 1));
    assert_eq!(left.visits().len(), 3);
    left.no_process_left();
}

#[test]
fn the_second_interrupt_ends_the_state() {
    let place = Place::new("interrupts-loop", WAITING);
    let running = waiting(&place, &["run", "workflow.yaml"]);
    running.signal("-INT");
    running.says("stopping");
    running.signal("-INT");
    assert_eq!(running.wait().0.code(), Some(130));
    let left = place.left();
    left.no_process_left();
    assert!(left.visits().is_empty());
    place.release();
    assert!(place.output(&["resume", "last"]).status.success());
    let left = place.left();
    assert_eq!((left.effects_of("1"), left.effects_of("2")), (2, 1));
}

/// `loop.elapsed` goes on after a kill, and the time in between is not in it.
#[test]
fn the_time_of_a_loop_goes_on() {
    const DOWN: Duration = Duration::from_millis(1_500);
    let place = Place::new("elapsed", WAITING);
    let begun = Instant::now();
    let running = waiting(&place, &["run", "workflow.yaml"]);
    running.signal("-INT");
    running.says("stopping");
    place.release();
    assert_eq!(running.wait().0.code(), Some(130));
    let first = begun.elapsed();
    std::thread::sleep(DOWN);
    let again = Instant::now();
    assert!(place.output(&["resume", "last"]).status.success());
    let second = again.elapsed();
    let left = place.left();
    let elapsed = left.events.iter().find_map(|event| match &event.kind {
        EventKind::Finished { output, .. } if event.at == "two#1" => match &output.value {
            Datum::Here(value) => value.as_str()?.parse().ok().map(Duration::from_millis),
            Datum::Stored { .. } => None,
        },
        _ => None,
    });
    let elapsed = elapsed.expect("the second state says how long it took");
    // The journal knows milliseconds.
    let slack = Duration::from_millis(5);
    assert!(elapsed <= first + second + slack, "{elapsed:?} of {first:?} and {second:?}");
    // What passed before counts.
    let acted = left.events.iter().filter(|event| event.at == "one#1").map(|event| event.time);
    let acted = acted.clone().max().unwrap() - acted.min().unwrap();
    assert!(elapsed + slack >= Duration::from_millis(acted.unsigned_abs()), "{elapsed:?}, {acted} ms");
}

/// A kill within the pause before another iteration neither shortens it nor lets it be forgotten.
#[test]
fn a_pause_survives_a_kill() {
    const LOOP: &str = "initial: one\nbackoff: 800ms\nmax_iterations: 2\nstates:\n  one: {shell: echo 1 >> effects, \
                        evaluate: {type: expression, expression: state.iteration == 2}, on_yes: done, on_no: self}\n  \
                        done: {terminal: true}\n";
    let place = Place::new("pause", LOOP);
    let running = place.start(&["run", "workflow.yaml"]);
    running.let_go(Until::Event("judged", 1));
    assert!(running.kill().0);
    assert!(place.output(&["resume", "last"]).status.success());
    let left = place.left();
    assert_eq!(left.effects_of("1"), 2);
    let time = |kind: &str, at: &str| {
        let event =
            |event: &&threadline_engine::event::Event| event.at == at && wire::encode(&event.kind).0 == kind;
        left.events.iter().find(event).map(|event| event.time).unwrap()
    };
    let paused = time("started", "one#2") - time("judged", "one#1");
    assert!(paused >= 800, "the pause was {paused} ms");
}
