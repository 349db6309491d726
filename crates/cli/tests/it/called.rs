//! Workflows that call others, through the real binary: stopped, killed, resumed and looked at.

#![expect(clippy::unwrap_used, reason = "a run that cannot be read fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::support::{Outcome, Project, is_long, seed};
use threadline_engine::event::{Datum, EventKind};
use threadline_engine::random::Random;
use threadline_store::{JournalReader, RunInfo};

/// The program at work, and what it tells.
struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Running {
    fn start(project: &Project, arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_threadline"))
            .args(arguments)
            .arg("--json")
            .current_dir(project.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdout }
    }

    /// Waits until it tells of this, and says whether it did.
    fn tells(&mut self, what: &str) -> bool {
        let mut line = String::new();
        while self.stdout.read_line(&mut line).unwrap() > 0 {
            if line.contains(what) {
                return true;
            }
            line.clear();
        }
        false
    }

    /// Reads so many lines, as far as there are any.
    fn lines(&mut self, count: u64) {
        let mut line = Vec::new();
        for _ in 0..count {
            line.clear();
            if self.stdout.read_until(b'\n', &mut line).unwrap() == 0 {
                return;
            }
        }
    }

    fn signal(&self, signal: &str) {
        assert!(
            Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap().success()
        );
    }

    /// Ends it by force, and says whether it was still alive.
    fn kill(mut self) -> bool {
        self.child.kill().unwrap();
        self.child.wait().unwrap().code().is_none()
    }

    fn exit(mut self) -> Option<i32> {
        while self.tells("\0") {}
        self.child.wait().unwrap().code()
    }
}

fn reader(project: &Project) -> JournalReader {
    JournalReader::open(&project.path().join(".threadline")).unwrap()
}

fn runs(project: &Project) -> Vec<RunInfo> {
    reader(project).runs().unwrap()
}

/// The only run that a step called.
fn called(project: &Project) -> String {
    let runs = runs(project);
    let called: Vec<_> = runs.iter().filter(|run| run.id.is_called()).collect();
    assert_eq!(called.len(), 1, "{called:?}");
    called[0].id.to_string()
}

/// A step of a list that calls a workflow, and another behind it.
fn calling(inside: &str) -> Project {
    let project = Project::new();
    project.write(
        "main.yaml",
        b"- {id: call, workflow: inner.yaml}\n- {id: behind, shell: echo behind >> effects}\n",
    );
    project.write("inner.yaml", inside.as_bytes());
    project
}

fn ran(project: &Project, line: &str, exit: i32) -> Outcome {
    let outcome = project.run_line(line);
    assert_eq!(outcome.exit, exit, "{line}\n{}{}", outcome.stdout, outcome.stderr);
    outcome
}

#[test]
fn a_called_run_is_explained_as_any_other() {
    let project = calling("- {id: one, value: 1}\n- {id: two, shell: 'echo ${one}; exit 3'}\n");
    ran(&project, "threadline run main.yaml", 1);
    let run = called(&project);
    let whole = ran(&project, &format!("threadline explain {run}"), 0).stdout;
    assert!(
        whole.contains("two  inner.yaml:2:3, step 2") && whole.contains("one → one.value  = 1"),
        "{whole}"
    );
    let step = ran(&project, &format!("threadline explain {run} one"), 0).stdout;
    assert!(step.contains("value 1"), "{step}");
    let shown = ran(&project, &format!("threadline show {run}"), 0).stdout;
    assert!(shown.starts_with(&format!("inner run {run}")), "{shown}");
}

#[test]
fn a_called_run_is_resumed_with_its_caller_only() {
    let project = calling("- {id: one, shell: exit 3}\n");
    ran(&project, "threadline run main.yaml", 1);
    let run = called(&project);
    let started = run.split('-').next().unwrap();
    let refused = ran(&project, &format!("threadline resume {run}"), 3).stderr;
    assert!(refused.contains(&format!("belongs to the step `1` of run `{started}`")), "{refused}");
    assert!(refused.contains(&format!("threadline resume {started}")), "{refused}");
    // An id, and what it begins with, mean the run that somebody started.
    for name in [started, &started[..4], "last"] {
        let shown = ran(&project, &format!("threadline show {name}"), 0).stdout;
        assert!(shown.starts_with(&format!("main run {started}\n")), "{name}: {shown}");
    }
}

#[test]
fn a_run_goes_on_with_the_texts_it_began_with() {
    let project = calling(
        "- {id: once, shell: echo once >> effects}\n- {id: wait, shell: test -e go}\n- {shell: echo old >> effects}\n",
    );
    ran(&project, "threadline run main.yaml", 1);
    project.write("inner.yaml", b"- {shell: echo new >> effects}\n");
    project.write("go", b"");
    ran(&project, "threadline resume last", 0);
    assert_eq!(project.read("effects").unwrap(), "once\nold\nbehind\n");
}

/// A step that runs until a file is there.
const PATIENT: &str = "- {id: once, shell: echo once >> effects}\n- {id: wait, shell: 'echo begun >> effects; until test -e go; do sleep 0.01; done'}\n- {id: after, shell: echo after >> effects}\n";

#[test]
fn a_stopped_run_goes_on_inside_the_called_one() {
    let project = calling(PATIENT);
    let mut running = Running::start(&project, &["run", "main.yaml"]);
    assert!(running.tells(r#""kind":"started","at":"2","step":"wait""#));
    running.signal("-INT");
    // What runs comes to its end.
    project.write("go", b"");
    assert_eq!(running.exit(), Some(130));
    assert_eq!(project.read("effects").unwrap(), "once\nbegun\n");
    let statuses: Vec<String> = runs(&project).into_iter().map(|run| run.status).collect();
    assert_eq!(statuses, ["paused", "paused"]);
    ran(&project, "threadline resume last", 0);
    assert_eq!(project.read("effects").unwrap(), "once\nbegun\nafter\nbehind\n");
}

#[test]
fn a_second_signal_ends_what_runs_inside() {
    let project = calling(PATIENT);
    let mut running = Running::start(&project, &["run", "main.yaml"]);
    assert!(running.tells(r#""kind":"started","at":"2","step":"wait""#));
    // Two of one kind that come at once may arrive as one.
    running.signal("-INT");
    running.signal("-TERM");
    assert_eq!(running.exit(), Some(130));
    project.write("go", b"");
    ran(&project, "threadline resume last", 0);
    let effects = project.read("effects").unwrap();
    assert!(effects.starts_with("once\n") && effects.ends_with("begun\nafter\nbehind\n"), "{effects}");
    assert_eq!(effects.matches("once").count(), 1);
}

#[test]
fn a_question_inside_is_one_of_the_whole_run() {
    let project = calling(&PATIENT.replace("id: wait,", "id: wait, on_crash: ask,"));
    let mut running = Running::start(&project, &["run", "main.yaml"]);
    assert!(running.tells(r#""kind":"started","at":"2","step":"wait""#));
    // A beginning is told before it is on disk; the step itself waits for that.
    while !project.read("effects").unwrap().contains("begun") {
        std::thread::yield_now();
    }
    assert!(running.kill());
    project.write("go", b"");
    let asked = ran(&project, "threadline resume last", 4).stderr;
    let run = called(&project);
    assert!(asked.contains(&format!("`2` of run {run} was cut off while it ran")), "{asked}");
    ran(&project, "threadline resume last --in-flight rerun", 0);
    let effects = project.read("effects").unwrap();
    assert_eq!(effects.matches("once").count(), 1, "{effects}");
    assert!(effects.ends_with("begun\nafter\nbehind\n"), "{effects}");
}

/// Between the end of the called run and the event of its step nothing of it is done again.
#[test]
fn a_call_that_is_over_is_not_made_again() {
    let project = calling("- {id: one, shell: echo one >> effects}\n");
    let mut running = Running::start(&project, &["run", "main.yaml"]);
    assert!(running.tells(r#""kind":"run_ended""#));
    // Whether its step has finished by now is chance; the effects are the same.
    running.kill();
    ran(&project, "threadline resume last", 0);
    assert_eq!(project.read("effects").unwrap().matches("one").count(), 1);
    assert_eq!(runs(&project).len(), 2);
}

#[test]
fn workflows_call_each_other_to_a_bounded_depth() {
    let project = Project::new();
    let chain = |length: usize| {
        for at in 1..length {
            project.write(&format!("w{at}.yaml"), format!("- workflow: w{}.yaml\n", at + 1).as_bytes());
        }
        project.write(&format!("w{length}.yaml"), b"- {id: last, shell: echo deep >> effects}\n");
    };
    chain(65);
    let refused = ran(&project, "threadline check w1.yaml", 1).stderr;
    assert!(refused.contains("calls are nested more than 64 levels deep"), "{refused}");
    assert!(refused.contains("--> w64.yaml:1:13"), "{refused}");
    // Also where the deep end was read from a shallower place before.
    project.write("both.yaml", b"- workflow: w40.yaml\n- workflow: w1.yaml\n");
    assert!(ran(&project, "threadline check both.yaml", 1).stderr.contains("more than 64"));
    chain(64);
    ran(&project, "threadline run w1.yaml", 0);
    assert_eq!(project.read("effects").unwrap(), "deep\n");
    let runs = runs(&project);
    assert_eq!(runs.len(), 64);
    assert!(runs.iter().all(|run| run.status == "completed" && run.id.as_str().len() <= 64));
}

const ROOT: &str = "steps:
  - {id: first, shell: 'echo root-first | tee -a effects'}
  - id: items
    foreach: [a, b, c]
    parallel: 2
    do:
      - {workflow: middle.yaml, with: {of: '${item}'}}
  - {id: last, shell: 'echo root-last | tee -a effects'}
";

const MIDDLE: &str = "inputs: {of: {type: text}}
nodes:
  one: {shell: 'echo ${inputs.of}-one | tee -a effects'}
  left: {workflow: leaf.yaml, with: {of: '${one}-left'}}
  right: {workflow: leaf.yaml, with: {of: '${one}-right'}}
exports: {both: ['${left.result.end}', '${right.result.end}']}
";

const LEAF: &str = "inputs: {of: {type: text}}
steps:
  - {shell: 'echo ${inputs.of}-1 | tee -a effects'}
  - {id: end, shell: 'echo ${inputs.of}-2 | tee -a effects'}
exports: {end: '${end}'}
";

/// How often each effect happened.
fn effects(project: &Project) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for line in project.read("effects").unwrap_or_default().lines() {
        *counts.entry(line.to_owned()).or_default() += 1;
    }
    counts
}

/// The effects of steps that have finished, which are their values.
fn finished(project: &Project) -> BTreeSet<String> {
    let mut finished = BTreeSet::new();
    for run in runs(project) {
        for event in reader(project).events(&run.id, 1).unwrap() {
            if let EventKind::Finished { output, .. } = event.unwrap().kind
                && let Datum::Here(value) = &output.value
            {
                finished.extend(value.as_str().map(str::to_owned));
            }
        }
    }
    finished
}

/// Killed at random places in runs inside runs: what had finished is not done again, the rest at most once more for each
/// kill, and the end is that of an undisturbed run.
#[test]
fn killed_anywhere_every_effect_of_a_finished_step_happens_once() {
    killed_anywhere(&[("main.yaml", ROOT), ("middle.yaml", MIDDLE), ("leaf.yaml", LEAF)], 2 + 3 * 5);
}

const LOOP: &str = "initial: first
states:
  first: {shell: 'echo first-${state.iteration} | tee -a effects', next: inner}
  inner: {workflow: inner.yaml, with: {of: 'i${state.iteration}'}, on_yes: look, on_no: look}
  look: {evaluate: {type: expression, expression: state.iteration >= 3}, on_yes: last, on_no: first}
  last: {shell: 'echo last | tee -a effects', next: done}
  done: {terminal: true}
";

/// The second of three comes to a bad end, which is the verdict `no`.
const INNER: &str = "inputs: {of: {type: text}}
initial: again
states:
  again:
    shell: 'echo ${inputs.of}-again-${state.iteration} | tee -a effects'
    evaluate: {type: expression, expression: state.iteration >= 2}
    on_yes: end
    on_no: self
  end:
    shell: 'echo ${inputs.of}-end | tee -a effects'
    evaluate: {type: expression, expression: inputs.of == 'i2'}
    on_yes: bad
    on_no: done
  bad: {terminal: failure}
  done: {terminal: true}
";

/// The same for loops in loops.
#[test]
fn killed_anywhere_a_called_loop_goes_on_in_its_state() {
    let project = killed_anywhere(&[("main.yaml", LOOP), ("inner.yaml", INNER)], 3 + 3 * 3 + 1);
    let outcomes = runs(&project).into_iter().filter(|run| run.id.is_called()).map(|run| run.status);
    let outcomes: Vec<String> = outcomes.collect();
    assert_eq!(outcomes, ["completed", "failed", "completed"]);
}

/// A loop that came to a bad end is not gone on with when its caller is resumed: it is called anew.
#[test]
fn a_loop_that_ended_badly_is_called_anew() {
    let project = Project::new();
    project.write("main.yaml", b"- {id: call, workflow: inner.yaml}\n- {shell: echo behind >> effects}\n");
    let inner = "initial: try\nstates:\n  try: {shell: 'echo try >> effects; test -e good', on_yes: done, on_no: \
                 bad}\n  bad: {terminal: failure}\n  done: {terminal: true}\n";
    project.write("inner.yaml", inner.as_bytes());
    let failed = ran(&project, "threadline run main.yaml", 1).stdout;
    assert!(failed.contains("`inner.yaml` ended in `bad`"), "{failed}");
    project.write("good", b"");
    ran(&project, "threadline resume last", 0);
    assert_eq!(project.read("effects").unwrap(), "try\ntry\nbehind\n");
    assert_eq!(runs(&project).len(), 3);
}

/// Kills runs of these files again and again until they are through, and gives the last of them.
fn killed_anywhere(files: &[(&str, &str)], effects_of_all: usize) -> Project {
    let (seed, rounds) = (seed(), if is_long() { 40 } else { 3 });
    let mut random = Random::new(seed);
    let mut all_kills = 0;
    let mut last = Project::new();
    for round in 0..rounds {
        let project = Project::new();
        for (name, text) in files {
            project.write(name, text.as_bytes());
        }
        let (mut done, mut kills) = (BTreeMap::new(), 0);
        let mut arguments = ["run", "main.yaml"];
        loop {
            let mut running = Running::start(&project, &arguments);
            running.lines(1 + random.below(30));
            let killed = running.kill();
            let now = effects(&project);
            for (effect, count) in &done {
                assert_eq!(now.get(effect), Some(count), "seed {seed}, round {round}: {effect} again");
            }
            let finished = finished(&project);
            assert!(finished.iter().all(|effect| now.contains_key(effect)), "seed {seed}, round {round}");
            done = now.into_iter().filter(|(effect, _)| finished.contains(effect)).collect();
            if !killed {
                break;
            }
            kills += 1;
            arguments = ["resume", "last"];
        }
        let ends = effects(&project);
        assert_eq!(ends.len(), effects_of_all, "seed {seed}, round {round}: {ends:?}");
        assert!(ends.values().all(|count| *count <= 1 + kills), "seed {seed}, round {round}: {ends:?}");
        let shown = ran(&project, "threadline runs", 0).stdout;
        let runs: Vec<&str> = shown.lines().collect();
        assert!(matches!(runs[..], [_heading, run, _size] if run.contains("completed")), "{shown}");
        all_kills += kills;
        last = project;
    }
    assert!(all_kills > rounds, "seed {seed}: only {all_kills} kills");
    last
}
