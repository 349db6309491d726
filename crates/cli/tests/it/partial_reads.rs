//! Commands that ask for one thing of a run read what that follows from and nothing else: what they print is what they
//! print when all of the run is read, and it does not matter whether the rest can be read at all.

use crate::harness::{Workflow, workflow};

/// A loop of sixty iterations that captures, reads what it captured before, measures and fails in between.
const LOOP: &str = "
name: loop
initial: make
max_iterations: 60
max_steps: 400
states:
  make: {value: 'mark-${state.iteration}-', capture: made, on_yes: look}
  look:
    value: 'saw ${captured.made.value} after ${captured.made.previous.value | default(\"nothing\")} and ${prev.verdict}'
    capture: seen
    on_yes: grow
  grow:
    value: '${state.iteration}'
    evaluate: {type: convergence, target: 100, direction: maximize}
    on_progress: check
    on_target: check
    on_stall: check
    on_error: check
  check:
    evaluate: {type: expression, expression: 'state.iteration >= 60'}
    on_yes: done
    on_no: make
  done: {terminal: true}
";

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn print(workflow: &Workflow, command: &[&str]) -> String {
    workflow.command(command).wait().well().stdout
}

/// Alters what an event says, so that it cannot be read any more.
fn damage(workflow: &Workflow, mark: &str) {
    let path = workflow.project.path().join(".threadline/journal.db");
    let mut journal = std::fs::read(&path).expect("the journal");
    let places: Vec<usize> =
        (0..journal.len()).filter(|at| journal[*at..].starts_with(mark.as_bytes())).collect();
    assert!(!places.is_empty(), "`{mark}` is not in the journal");
    for place in places {
        journal[place] = b'X';
    }
    std::fs::write(&path, journal).expect("the journal");
}

/// The evaluations of one execution, out of those of all executions of its step.
fn evaluations(workflow: &Workflow, step: &str, at: &str) -> Vec<serde_json::Value> {
    let all = json(&print(workflow, &["explain", "last", step, "--json"]));
    let all = all["evaluations"].as_array().expect("evaluations").clone();
    all.into_iter().filter(|evaluation| evaluation["at"] == at).collect()
}

#[test]
fn a_visit_of_a_loop_is_explained_without_the_others() {
    let workflow = workflow(LOOP);
    workflow.run().well();
    let mut compared = 0;
    for state in ["make", "look", "grow", "check"] {
        for visit in [1, 2, 3, 30, 59, 60] {
            let at = format!("{state}#{visit}");
            let alone = json(&print(&workflow, &["explain", "last", &at, "--json"]));
            let alone = alone["evaluations"].as_array().expect("evaluations").clone();
            assert_eq!(alone, evaluations(&workflow, state, &at), "{at}");
            compared += alone.len();
        }
    }
    assert!(compared >= 40, "{compared}");
    let texts = |commands: &[&[&str]]| commands.iter().map(|one| print(&workflow, one)).collect::<Vec<_>>();
    let commands: [&[&str]; 4] = [
        &["explain", "last", "look#30"],
        &["explain", "last", "grow#31", "--json"],
        &["explain", "last", "make#59"],
        &["vars", "last", "--json"],
    ];
    let before = texts(&commands);
    damage(&workflow, "mark-10-");
    assert_eq!(texts(&commands), before);
    workflow.command(&["explain", "last", "look#10"]).wait().exits(3).says("was altered");
    workflow.command(&["explain", "last", "look"]).wait().exits(3).says("was altered");
}

/// The names of a run with what set them last are those that the history of each name ends with.
#[test]
fn names_are_listed_with_what_their_histories_end_with() {
    let list = "inputs: {a: {type: int, default: 1}}\ncontext: {b: '${= inputs.a + 1}', c: 3}\nsteps:\n\
                - {id: one, value: '${context.b}', capture: two}\n\
                - {id: each, foreach: [1, 2, 3], do: [{id: v, value: '${item}'}, {value: '${v}', capture: w}]}\n\
                - {id: one, value: 5}\n- {id: no, when: 'false', value: 6, capture: never}\n";
    let list = list.replace("- {id: one, value: 5}\n", "- {value: '${one}', capture: two}\n");
    for text in [LOOP, &list] {
        let workflow = workflow(text);
        workflow.run().well();
        let all = json(&print(&workflow, &["vars", "last", "--json"]));
        let all = all["names"].as_array().expect("names").clone();
        assert!(all.len() >= 2, "{all:?}");
        for entry in all {
            let name = entry["name"].as_str().expect("a name");
            let history = json(&print(&workflow, &["vars", "last", name, "--json"]));
            let history = history["names"].as_array().expect("names").clone();
            let items = |entry: &serde_json::Value| entry["at"].as_str().map(|at| at.split(']').count());
            let same = |known: &&serde_json::Value| {
                items(known) == items(&entry)
                    && (known["at"] == entry["at"] || !entry["at"].to_string().contains('['))
            };
            assert_eq!(history.iter().rfind(same), Some(&entry), "{name}");
        }
    }
}

#[test]
fn an_item_of_a_continued_run_is_explained_without_the_others() {
    let text = |more: &str| {
        let items: Vec<String> = (0..40).map(|item| format!("mark-{item}-")).collect();
        format!(
            "name: items\nsteps:\n- {{id: each, foreach: [{}], do: [{{id: v, value: 'a ${{item}}'}}, {{id: w, value: '${{v | len}}'}}]}}\n{more}",
            items.join(", ")
        )
    };
    let workflow = workflow(&text(""));
    workflow.run().well();
    workflow.project.write("workflow.yaml", text("- {id: more, value: '${each.result[3]}'}\n").as_bytes());
    workflow.command(&["resume", "last", "--edited", "--yes"]).wait().well();
    for item in [0, 7, 39] {
        for (step, number) in [("v", 1), ("w", 2)] {
            let at = format!("1[{item}]/{number}");
            let alone = json(&print(&workflow, &["explain", "last", &at, "--json"]));
            let alone = alone["evaluations"].as_array().expect("evaluations").clone();
            assert!(!alone.is_empty() && alone == evaluations(&workflow, step, &at), "{at}: {alone:?}");
        }
    }
    let texts = || ["1[7]/1", "1[20]/2"].map(|at| print(&workflow, &["explain", "last", at]));
    let before = texts();
    assert!(before[0].contains("kept"), "{}", before[0]);
    // The events that kept item 30, and those that made it in the run before.
    damage(&workflow, "a mark-30-");
    assert_eq!(texts(), before);
    workflow.command(&["explain", "last", "1[30]/1"]).wait().exits(3).says("was altered");
}

#[test]
fn what_failed_is_listed_without_what_did_not() {
    let workflow = workflow(
        "name: some
map:
  input: {shell: 'for i in $(seq 0 59); do echo mark-$i-; done'}
  steps:
  - {id: v, value: 'a ${item}'}
  - {when: \"item == 'mark-7-'\", fail: 'no ${v}'}
  - {value: 1}
error_policy: {continue_on_failure: true}
reduce:
- {id: last, argv: [sh, -c, 'echo why >&2; exit 3'], continue_on_error: true}
",
    );
    workflow.run().well();
    let commands = [["show", "last", "--failed"].as_slice(), &["show", "last", "--failed", "--json"]];
    let before = commands.map(|command| print(&workflow, command));
    assert!(before[0].contains("1 of 60 items of `map` failed"), "{}", before[0]);
    assert!(before[0].contains("✗ last") && before[0].contains("passed over"), "{}", before[0]);
    damage(&workflow, "a mark-30-");
    assert_eq!(commands.map(|command| print(&workflow, command)), before);
    workflow.command(&["explain", "last", "v"]).wait().exits(3).says("was altered");
}
