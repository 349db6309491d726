//! The end of a run that failed, killed at every event: what runs at the end runs for every shape, sees the same
//! outcome, and whatever of it is done is not done again.

use super::{Left, Place, Until};

/// Each shape, failed: the end of it acts, and leaves what it saw.
const SHAPES: [(&str, &str); 4] = [
    (
        "steps",
        "steps:\n  - shell: echo \"$THREADLINE_STEP\" >> effects; printf one\n  - id: bad\n    shell: exit 3\n",
    ),
    (
        "graph",
        "nodes:\n  one: {shell: 'echo \"$THREADLINE_STEP\" >> effects'}\n  bad: {needs: [one], shell: exit 3}\n",
    ),
    (
        "map",
        "map:\n  input: [1, 2]\n  steps:\n    - id: bad\n      shell: echo \"$THREADLINE_STEP\" >> effects; test ${item} = 1\n",
    ),
    (
        "loop",
        "initial: one\nstates:\n  one: {shell: 'echo \"$THREADLINE_STEP\" >> effects', next: bad}\n  bad: {shell: exit 3, on_yes: one, \
         on_no: one}\n",
    ),
];

const END: &str = r#"
on_failure:
  - shell: echo "$THREADLINE_STEP" >> effects; printf %s "${run.status} ${run.failed_count} ${run.error_type}"
  - value: ${run.failed}
finally:
  - shell: echo "$THREADLINE_STEP" >> effects; printf %s "${run.error}"
"#;

#[test]
fn the_end_of_a_failed_run_survives_kills_at_every_event() {
    for (shape, steps) in SHAPES {
        let workflow = format!("name: killed-{shape}\n{steps}{END}");
        let undisturbed = {
            let place = Place::new(&format!("end-undisturbed-{shape}"), &workflow);
            assert_eq!(place.output(&["run", "workflow.yaml"]).status.code(), Some(1), "{shape}");
            place.left()
        };
        let (mut killed_at_end, at_end) = (0, "on_failure/1");
        for events in 1..undisturbed.events.len() {
            let place = Place::new(&format!("end-{shape}"), &workflow);
            let running = place.start(&["run", "workflow.yaml"]);
            running.let_go(Until::Events(events as u64));
            running.kill();
            let before = place.left();
            before.knows_every_start(str::to_owned);
            if ended(&before) {
                continue;
            }
            killed_at_end += u64::from(before.events.iter().any(|event| event.at.as_str() == at_end));
            assert_eq!(place.output(&["resume", "last"]).status.code(), Some(1), "{shape} after {events}");
            let left = place.left();
            assert_eq!(left.results(), undisturbed.results(), "{shape} after {events}");
            for at in before.finished() {
                assert_eq!(
                    before.effects_of(at),
                    left.effects_of(at),
                    "{shape}: `{at}` ran again after {events}"
                );
            }
            left.no_process_left();
        }
        assert!(killed_at_end > 0, "{shape} was never killed at its end");
    }
}

fn ended(left: &Left) -> bool {
    left.events.last().is_some_and(|event| threadline_store::wire::encode(&event.kind).0 == "run_ended")
}
