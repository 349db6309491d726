//! The real binary, killed: at chosen events, at random times, by signals. Whatever had finished is not done again,
//! and `resume` comes to the end that an undisturbed run comes to.
//!
//! With `THREADLINE_LONG=1` there are 5,000 kills at random places; `THREADLINE_SEED=n` repeats those of a seed,
//! as far as the speed of the machine lets them be repeated.

#![expect(clippy::unwrap_used, reason = "a run that cannot be read fails the test")]
#![expect(clippy::print_stdout, reason = "a seed must be known to be repeated")]

mod edited;
mod items;
mod loops;
mod run_end;
mod worktrees;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use crate::support::{PATIENCE, is_long, seed};
use threadline_engine::event::{Event, EventKind};
use threadline_engine::random::Random;
use threadline_lang::{Limits, Value, data};
use threadline_runner::process::{end_left_over, find_left_over};
use threadline_store::{FOLDER, JournalReader, RunId, StoreError, wire};

/// A folder of its own with a workflow, gone at the end.
struct Place {
    folder: PathBuf,
}

impl Place {
    fn new(name: &str, workflow: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("threadline-kill-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(folder.join(FOLDER)).unwrap();
        std::fs::write(folder.join("workflow.yaml"), workflow).unwrap();
        Self { folder }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_threadline"));
        command.args(arguments).current_dir(&self.folder).stdin(Stdio::null());
        // Where steps that work in another folder leave their lines.
        command.env("EFFECTS", self.file("effects"));
        command
    }

    /// Starts the program and listens to its events.
    fn start(&self, arguments: &[&str]) -> Running {
        let mut command = self.command(arguments);
        let mut child = command.arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (events, stdout) = channel();
        let (errors, stderr) = channel();
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        std::thread::spawn(move || {
            BufReader::new(out).lines().try_for_each(|line| events.send(line.unwrap()))
        });
        std::thread::spawn(move || {
            BufReader::new(err).lines().try_for_each(|line| errors.send(line.unwrap()))
        });
        Running { child, told: Cell::new(0), stdout, stderr }
    }

    fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// What is on disk now.
    fn left(&self) -> Left {
        let lines = std::fs::read_to_string(self.file("effects")).unwrap_or_default();
        let mut effects = BTreeMap::new();
        for line in lines.lines() {
            *effects.entry(line.to_owned()).or_default() += 1;
        }
        let (run, events) = match JournalReader::open(&self.folder.join(FOLDER)) {
            Err(StoreError::NoJournal { .. }) => (None, Vec::new()),
            reader => {
                let reader = reader.unwrap();
                let runs = reader.runs().unwrap();
                assert!(runs.len() <= 1, "{runs:?}");
                let run = runs.first().map(|run| run.id.clone());
                let events =
                    run.as_ref().map(|run| reader.events(run, 1).unwrap().map(Result::unwrap).collect());
                (run, events.unwrap_or_default())
            }
        };
        Left { run, events, effects }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A folder that is left behind does no harm.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The program at work.
struct Running {
    child: Child,
    /// The number of the last event that it has told of.
    told: Cell<usize>,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
}

impl Running {
    /// Waits for an event of this kind, and says whether it came.
    fn event(&self, kind: &str) -> bool {
        loop {
            match self.next(PATIENCE) {
                Err(RecvTimeoutError::Timeout) => panic!("nothing happens any more"),
                Err(RecvTimeoutError::Disconnected) => return false,
                Ok(told) if told == kind => return true,
                Ok(_) => {}
            }
        }
    }

    /// The kind of the next event that it tells of. Whatever it tells of is written.
    fn next(&self, patience: Duration) -> Result<String, RecvTimeoutError> {
        let line = self.stdout.recv_timeout(patience)?;
        // The last line of a killed program may be half of one.
        let Ok(event) = data::json::read_value(&line, &Limits::DEFAULT) else { return Ok(String::new()) };
        let kind = event.get("kind").and_then(Value::as_str).unwrap_or_default();
        let seq = event.get("seq").and_then(Value::as_i64).unwrap();
        self.told.set(usize::try_from(seq).unwrap());
        Ok(kind.to_owned())
    }

    /// Waits until it says this on stderr.
    fn says(&self, what: &str) {
        while !self.stderr.recv_timeout(PATIENCE).expect("it does not say so").contains(what) {}
    }

    /// Lets it go on for so many events, or so long.
    fn let_go(&self, until: Until) {
        match until {
            Until::Event(kind, nth) => {
                for _ in 0..nth {
                    self.event(kind);
                }
            }
            Until::Events(count) => {
                for _ in 0..count {
                    if self.next(PATIENCE) == Err(RecvTimeoutError::Disconnected) {
                        return;
                    }
                }
            }
            Until::Time(time) => {
                let end = std::time::Instant::now() + time;
                let left = || end.saturating_duration_since(std::time::Instant::now());
                while self.next(left()).is_ok() {}
            }
        }
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Kills it, and says whether it was still alive, and the number of the last event that it told of.
    fn kill(mut self) -> (bool, usize) {
        self.child.kill().unwrap();
        let alive = self.child.wait().unwrap().code().is_none();
        while self.next(PATIENCE).is_ok() {}
        (alive, self.told.get())
    }

    fn wait(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().unwrap();
        (status, self.stderr.iter().collect::<Vec<_>>().join("\n"))
    }
}

#[derive(Clone, Copy, Debug)]
enum Until {
    /// The n-th event of a kind.
    Event(&'static str, u64),
    /// So many events.
    Events(u64),
    /// So long.
    Time(Duration),
}

/// A run as it is on disk, and what its steps did.
struct Left {
    run: Option<RunId>,
    events: Vec<Event>,
    effects: BTreeMap<String, u64>,
}

impl Left {
    fn finished(&self) -> BTreeSet<&str> {
        let done =
            |event: &&Event| matches!(event.kind, EventKind::Finished { .. } | EventKind::Skipped { .. });
        self.events.iter().filter(done).map(|event| event.at.as_str()).collect()
    }

    fn effects_of(&self, at: &str) -> u64 {
        self.effects.get(at).copied().unwrap_or(0)
    }

    /// How each step ended: its status and its value.
    fn results(&self) -> BTreeMap<String, String> {
        let mut results = BTreeMap::new();
        for event in &self.events {
            if let EventKind::Finished { output, .. } | EventKind::Skipped { output, .. } = &event.kind {
                let result = format!("{} {:?}", output.status.name(), output.value);
                let before = results.insert(event.at.to_string(), result);
                assert_eq!(before, None, "`{}` is done twice", event.at);
            }
        }
        results
    }

    /// The states of a loop in their order, each with its verdict and where it led.
    fn visits(&self) -> Vec<(String, String, Option<String>)> {
        let visit = |event: &Event| match &event.kind {
            EventKind::Judged(judged) => {
                let to = judged.to.as_ref().map(ToString::to_string);
                Some((event.at.to_string(), judged.verdict.to_string(), to))
            }
            _ => None,
        };
        self.events.iter().filter_map(visit).collect()
    }

    /// Whatever acted is known to have started, once for each time. `address` is that of the step which left a
    /// line of effects.
    fn knows_every_start(&self, address: impl Fn(&str) -> String) {
        let mut ran: BTreeMap<String, u64> = BTreeMap::new();
        for (line, count) in &self.effects {
            *ran.entry(address(line)).or_default() += count;
        }
        let mut starts: BTreeMap<&str, u64> = BTreeMap::new();
        let is_start = |event: &&Event| matches!(event.kind, EventKind::Started { .. });
        for event in self.events.iter().filter(is_start) {
            *starts.entry(event.at.as_str()).or_default() += 1;
        }
        for (at, ran) in &ran {
            let known = starts.get(at.as_str()).copied().unwrap_or(0);
            assert!(*ran <= known, "`{at}` ran {ran} times, and the journal knows of {known}");
        }
    }

    fn no_process_left(&self) {
        let run = self.run.as_ref().expect("there is a run");
        let left = find_left_over(run.as_str());
        assert!(left.is_empty(), "{left:?}");
    }
}

const WORKFLOW: &str = r#"
name: killed
steps:
  - id: first
    shell: echo "$THREADLINE_STEP" >> effects; printf first
  - id: list
    value: [5, 3, 8, 1]
  - id: each
    foreach: ${list}
    parallel: 2
    do:
      - id: work
        shell: |
          echo "$THREADLINE_STEP" >> effects
          sleep 0.0${item}
          printf %s ${item}
        capture_format: number
      - when: ${= work.value > 3 }
        shell: echo "$THREADLINE_STEP" >> effects; printf %s ${prev}
        finally:
          - shell: echo "$THREADLINE_STEP" >> effects
  - id: background
    shell: |
      echo "$THREADLINE_STEP" >> effects
      sleep 300 &
      printf %s "${each | to_json}"
  - id: flaky
    shell: |
      echo "$THREADLINE_STEP" >> effects
      echo x >> tries
      test "$(wc -l < tries)" -ge 3
    retry: {attempts: 9, delay: 5ms}
  - id: broken
    shell: echo "$THREADLINE_STEP" >> effects; exit 3
    continue_on_error: true
    on_failure:
      - shell: echo "$THREADLINE_STEP" >> effects; printf %s ${broken.meta.status}
  - write_file: {path: note, content: '${first} ${each}'}
  - id: last
    shell: echo "$THREADLINE_STEP" >> effects; printf %s ${broken.meta.status}
on_failure:
  - shell: echo "$THREADLINE_STEP" >> effects
on_success:
  - shell: echo "$THREADLINE_STEP" >> effects; printf %s ${run.status}
  - shell: echo "$THREADLINE_STEP" >> effects; printf %s ${run.failed_count}
finally:
  - shell: echo "$THREADLINE_STEP" >> effects; printf %s ${run.status}
"#;

/// Branches, arms of unequal length that come together, failures, items, all side by side.
const GRAPH: &str = r#"
name: killed-graph
nodes:
  end:
    needs: [join, all]
    shell: echo "$THREADLINE_STEP" >> effects; printf %s ${join.meta.status}
  join:
    shell: echo "$THREADLINE_STEP" >> effects; printf %s ${short:-none}${long_3:-none}
    finally:
      - shell: echo "$THREADLINE_STEP" >> effects
  long_3:
    shell: echo "$THREADLINE_STEP" >> effects; sleep 0.01; printf %s ${long_2}3
  long_2:
    shell: echo "$THREADLINE_STEP" >> effects; printf %s ${long_1}2
  long_1:
    shell: echo "$THREADLINE_STEP" >> effects; printf 1
  short:
    shell: echo "$THREADLINE_STEP" >> effects; printf short
  other:
    shell: echo "$THREADLINE_STEP" >> effects; printf other
  start:
    shell: echo "$THREADLINE_STEP" >> effects; printf 7
    capture_format: number
  gate:
    condition: ${start} > 3
  inner:
    needs: gate.true
    condition: ${start} > 30
  never:
    needs: inner.true
    shell: echo "$THREADLINE_STEP" >> effects
  behind_never:
    needs: never
    shell: echo "$THREADLINE_STEP" >> effects
  broken:
    shell: echo "$THREADLINE_STEP" >> effects; exit 3
    continue_on_error: true
  of_broken:
    needs: broken
    shell: echo "$THREADLINE_STEP" >> effects
  flaky:
    shell: |
      echo "$THREADLINE_STEP" >> effects
      echo x >> tries
      test "$(wc -l < tries)" -ge 3
    retry: {attempts: 9, delay: 5ms}
  items:
    foreach: [5, 3, 1]
    parallel: 2
    do:
      - shell: echo "$THREADLINE_STEP" >> effects; sleep 0.0${item}; printf %s ${item}
        capture_format: number
  all:
    value: ["${items}", "${broken.meta.status}", "${of_broken.meta.reason}", "${behind_never:-none}", "${flaky}"]
edges:
  - {from: gate, to: long_1, branch: "true"}
  - {from: gate, to: short, branch: "true"}
  - {from: gate, to: other, branch: "false"}
  - {from: long_3, to: join}
  - {from: short, to: join}
  - {from: other, to: join}
  - {from: broken, to: join}
on_failure:
  - shell: echo "$THREADLINE_STEP" >> effects
on_success:
  - shell: echo "$THREADLINE_STEP" >> effects; printf %s ${run.status}
  - shell: echo "$THREADLINE_STEP" >> effects; printf %s ${run.failed_count}
finally:
  - shell: echo "$THREADLINE_STEP" >> effects; printf %s ${run.status}
"#;

#[test]
fn kills_of_a_list_at_events_and_at_random_times() {
    kills("list", WORKFLOW);
}

#[test]
fn kills_of_a_graph_at_events_and_at_random_times() {
    kills("graph", GRAPH);
}

fn kills(name: &str, workflow: &str) {
    let seed = seed();
    println!("THREADLINE_SEED={seed}");
    let wanted = if is_long() { 5_000 } else { 60 };
    let undisturbed = {
        let place = Place::new(&format!("undisturbed-{name}"), workflow);
        let output = place.output(&["run", "workflow.yaml"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        place.left()
    };
    let mut random = Random::new(seed);
    let mut histogram = BTreeMap::new();
    let mut kills = 0;
    let mut chosen = BTreeSet::new();
    // Each kind of event once, by name, and then wherever it comes.
    for event in &undisturbed.events {
        let kind = wire::encode(&event.kind).0;
        if chosen.insert(kind) {
            let nth = 1 + random.below(2);
            let place = Place::new(name, workflow);
            let first = Until::Event(kind, nth);
            kills += one_run_with_kills(&place, first, &mut random, &undisturbed, &mut histogram);
        }
    }
    while kills < wanted {
        let first = Until::Events(1 + random.below(30));
        let place = Place::new(name, workflow);
        kills += one_run_with_kills(&place, first, &mut random, &undisturbed, &mut histogram);
    }
    println!("{kills} kills, by the event that was last in the journal:");
    for (kind, count) in &histogram {
        println!("{count:6} {kind}");
    }
    assert!(histogram.len() >= 5, "the kills hit few kinds of events: {histogram:?}");
}

/// Kills a run again and again until it is over, and says how often.
fn one_run_with_kills(
    place: &Place,
    first: Until,
    random: &mut Random,
    undisturbed: &Left,
    histogram: &mut BTreeMap<&'static str, u64>,
) -> u64 {
    let mut kills = 0;
    let mut story = Vec::new();
    let mut before = place.left();
    loop {
        let begun = !before.events.is_empty();
        if let Some(run) = before.run.as_ref().filter(|_| !begun) {
            place.never_began(run);
        }
        let running = place.start(if begun { &["resume", "last"] } else { &["run", "workflow.yaml"] });
        let until = match random.below(3) {
            _ if story.is_empty() => first,
            0 => Until::Time(Duration::from_millis(random.below(60))),
            _ => Until::Events(1 + random.below(9)),
        };
        running.let_go(until);
        let (killed, told) = running.kill();
        let left = place.left();
        story.push((until, left.events.len()));
        assert!(told <= left.events.len(), "event {told} was told and is not there: {story:?}");
        left.knows_every_start(str::to_owned);
        for at in before.finished() {
            let (then, now) = (before.effects_of(at), left.effects_of(at));
            assert_eq!(then, now, "`{at}` was done and ran again: {story:?}");
        }
        before = left;
        let last = before.events.last().map_or("nothing", |event| wire::encode(&event.kind).0);
        if killed {
            kills += 1;
            *histogram.entry(last).or_default() += 1;
        }
        if last == "run_ended" {
            break;
        }
    }
    // Whatever the last life left is found by whoever looks next.
    let again = place.output(&["resume", "last"]);
    assert!(again.status.success(), "{story:?}: {}", String::from_utf8_lossy(&again.stderr));
    let left = place.left();
    assert_eq!(left.results(), undisturbed.results(), "{story:?}");
    assert_eq!(left.visits(), undisturbed.visits(), "{story:?}");
    left.no_process_left();
    for at in undisturbed.effects.keys() {
        let (ran, attempts) = (left.effects_of(at), attempts_of(&left, at));
        assert!(
            (attempts..=attempts + kills).contains(&ran),
            "`{at}` ran {ran} times in {attempts} attempts and {kills} kills: {story:?}"
        );
    }
    kills
}

fn attempts_of(left: &Left, at: &str) -> u64 {
    let started =
        |event: &&Event| event.at == at && matches!(event.kind, EventKind::Started { rerun: false, .. });
    left.events.iter().filter(started).count() as u64
}

/// Steps that act at once, in every shape of a workflow; the last does not end by itself.
const STARTS: [(&str, &str); 5] = [
    ("shell", "- shell: echo \"$THREADLINE_STEP\" >> effects; exec sleep 300\n"),
    ("argv", "- argv: [sh, -c, 'echo \"$THREADLINE_STEP\" >> effects; exec sleep 300']\n"),
    (
        "item",
        "- foreach: [1, 2]\n  do:\n    - shell: echo \"$THREADLINE_STEP\" >> effects; test ${item} = 1 || exec sleep 300\n",
    ),
    ("node", "nodes:\n  one: {shell: 'echo \"$THREADLINE_STEP\" >> effects; exec sleep 300'}\n"),
    (
        "state",
        "initial: one\nstates:\n  one: {action: 'echo \"$THREADLINE_STEP\" >> effects; exec sleep 300', next: two}\n  two: {terminal: true}\n",
    ),
];

/// A run that is killed as soon as a step has acted: the journal knows that it started, and says so when it runs again.
#[test]
fn a_start_is_known_as_soon_as_it_acts() {
    let kills = if is_long() { 200 } else { 6 };
    for (name, workflow) in STARTS {
        let wanted = if name == "item" { 2 } else { 1 };
        for _ in 0..kills {
            let place = Place::new(&format!("start-{name}"), workflow);
            let running = place.start(&["run", "workflow.yaml"]);
            let begun = std::time::Instant::now();
            let acted = || std::fs::read_to_string(place.file("effects")).unwrap_or_default().lines().count();
            while acted() < wanted {
                assert!(begun.elapsed() < PATIENCE, "{name}: the step does not begin");
                std::hint::spin_loop();
            }
            let (alive, told) = running.kill();
            let left = place.left();
            assert!(alive && told <= left.events.len(), "{name}: event {told} was told and is not there");
            assert_eq!(left.effects.values().sum::<u64>(), wanted as u64, "{name}");
            left.knows_every_start(str::to_owned);
            end_left_over(left.run.as_ref().unwrap().as_str(), PATIENCE);
        }
    }
}

/// Its first step ends when there is a file `release`.
const WAITING: &str = r#"
- shell: |
    echo "$THREADLINE_STEP" >> effects
    until test -e release; do sleep 0.01; done
- shell: echo "$THREADLINE_STEP" >> effects
"#;

/// Starts a run and waits until its first step is at work.
fn waiting(place: &Place, arguments: &[&str]) -> Running {
    let before = place.left_effects("1");
    let running = place.start(arguments);
    assert!(running.event("started"));
    let begun = std::time::Instant::now();
    while place.left_effects("1") == before {
        assert!(begun.elapsed() < PATIENCE, "the step does not begin");
        std::thread::yield_now();
    }
    running
}

impl Place {
    fn left_effects(&self, at: &str) -> u64 {
        let lines = std::fs::read_to_string(self.file("effects")).unwrap_or_default();
        lines.lines().filter(|line| *line == at).count() as u64
    }

    /// A run of which there is only the name is none for those who look at all runs, and is not resumed.
    fn never_began(&self, run: &RunId) {
        let of = |name: &str, expected: [&str; 2]| {
            let output = self.output(&["resume", name]);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(3), "{said}");
            assert!(expected.iter().all(|text| said.contains(text)), "{said}");
        };
        of("last", ["the project has no run yet", "`threadline run FILE` starts one"]);
        of(run.as_str(), ["before it began", "threadline run workflow.yaml"]);
        let runs = self.output(&["runs"]);
        assert!(String::from_utf8_lossy(&runs.stdout).starts_with("no runs yet"), "{runs:?}");
        std::fs::remove_dir_all(self.folder.join(FOLDER)).unwrap();
    }

    fn release(&self) {
        std::fs::write(self.file("release"), "").unwrap();
    }
}

#[test]
fn the_first_interrupt_lets_the_step_end() {
    let place = Place::new("interrupt", WAITING);
    let running = waiting(&place, &["run", "workflow.yaml"]);
    running.signal("-INT");
    running.says("stopping");
    place.release();
    assert_eq!(running.wait().0.code(), Some(130));
    let left = place.left();
    assert_eq!((left.effects_of("1"), left.effects_of("2")), (1, 0));
    assert_eq!(left.finished(), BTreeSet::from(["1"]));
    let output = place.output(&["resume", "last"]);
    assert!(output.status.success());
    let left = place.left();
    assert_eq!((left.effects_of("1"), left.effects_of("2")), (1, 1));
    left.no_process_left();
}

#[test]
fn the_second_interrupt_ends_the_step() {
    let place = Place::new("interrupts", WAITING);
    let running = waiting(&place, &["run", "workflow.yaml"]);
    running.signal("-INT");
    running.says("stopping");
    running.signal("-INT");
    assert_eq!(running.wait().0.code(), Some(130));
    let left = place.left();
    left.no_process_left();
    assert_eq!(left.finished(), BTreeSet::new());
    place.release();
    assert!(place.output(&["resume", "last"]).status.success());
    let left = place.left();
    assert_eq!((left.effects_of("1"), left.effects_of("2")), (2, 1));
}

/// Of two that resume one run, one does, and the other says who.
#[test]
fn one_of_two_resumes_wins() {
    let races = if is_long() { 1_000 } else { 50 };
    let place = Place::new("races", WAITING);
    assert!(waiting(&place, &["run", "workflow.yaml"]).kill().0);
    let mut told = 0;
    for _ in 0..races {
        let mut two = [place.start(&["resume", "last"]), place.start(&["resume", "last"])];
        let loser = loop {
            let over = two.iter_mut().position(|one| one.child.try_wait().unwrap().is_some());
            match over {
                Some(loser) => break loser,
                None => std::thread::yield_now(),
            }
        };
        let [first, second] = two;
        let (loser, winner) = if loser == 0 { (first, second) } else { (second, first) };
        let (status, said) = loser.wait();
        assert_eq!(status.code(), Some(3), "{said}");
        // A winner that has just won may not have signed yet.
        let named = said.contains(&format!("process {} drives run", winner.child.id()));
        assert!(named || said.contains("another process drives run"), "{said}");
        told += u64::from(named);
        assert!(winner.kill().0);
    }
    println!("{races} races for a run, each with one winner; {told} losers were told who won");
    assert!(told > 0, "no loser was told who won");
    place.release();
    assert!(place.output(&["resume", "last"]).status.success());
    let left = place.left();
    assert_eq!(left.results().len(), 2);
    assert_eq!(left.effects_of("2"), 1);
    left.no_process_left();
}

#[test]
fn a_completed_run_is_not_resumed() {
    let place = Place::new("completed", WAITING);
    place.release();
    assert!(place.output(&["run", "workflow.yaml"]).status.success());
    let before = place.left();
    let output = place.output(&["resume", "last"]);
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).contains("nothing to resume"));
    let left = place.left();
    assert_eq!(left.effects, before.effects);
    assert_eq!(left.events.len(), before.events.len());
}

#[test]
fn a_store_of_a_newer_program_is_refused() {
    let place = Place::new("newer", WAITING);
    place.release();
    assert!(place.output(&["run", "workflow.yaml"]).status.success());
    let journal = place.folder.join(FOLDER).join("journal.db");
    let mut bytes = std::fs::read(&journal).unwrap();
    // The version that a program gave to its database stands here, in every SQLite file.
    bytes[60..64].copy_from_slice(&1_000_u32.to_be_bytes());
    std::fs::write(&journal, &bytes).unwrap();
    for arguments in [&["resume", "last"][..], &["run", "workflow.yaml"]] {
        let output = place.output(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("newer"), "{said}");
    }
    assert_eq!(std::fs::read(&journal).unwrap(), bytes);
}
