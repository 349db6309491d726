//! Runs that are killed, stopped and resumed at every write: nothing that finished runs again, and the result is that
//! of a run which nothing disturbed.
//!
//! The same seeds each time gate a change. With `THREADLINE_LONG=1` there are many more, from a random one on, which
//! is printed; `THREADLINE_SEED=n` begins with that one.

#![expect(clippy::print_stdout, reason = "a random seed must be known to be repeated")]
#![expect(clippy::unwrap_used, reason = "a workflow that cannot be read fails the test")]
#![expect(
    clippy::disallowed_methods,
    reason = "the examples are files, and the long form wants random seeds"
)]

mod elsewhere;
mod generate;
mod oracle;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use generate::{Policies, Style};
use oracle::Expected;
use threadline_engine::Hash;
use threadline_engine::evaluate::RetryPlan;
use threadline_engine::event::{
    Address, Datum, Event, EventKind, ItemEnded, Listed, Output, Rules, RunSlice, SafeEvents, Status,
};
use threadline_engine::execute::Executor;
use threadline_engine::machine::{Command, InFlight, Machine, Outcome, Pause};
use threadline_engine::random::Random;
use threadline_engine::replay::{Fold, Seen, output_of};
use threadline_engine::simulator::chance::{Chances, Fate};
use threadline_engine::simulator::{
    Interrupt, InterruptMoment, Interruption, Kept, Simulation, SimulationReport, text,
};
use threadline_engine::view::{ItemView, View};
use threadline_flow::fields::FailureKind;
use threadline_flow::files;
use threadline_flow::load::load;
use threadline_flow::plan::{Plan, plan};
use threadline_flow::problem::Problem;
use threadline_lang::Value;
use threadline_lang::source::SourceFile;

const PLAIN: Style = Style { steps: 14, on_crash: false, policies: Policies::Strict, phases: false };
const POLICIES: Style = Style { policies: Policies::Any, ..PLAIN };
const PHASES: Style = Style { phases: true, ..POLICIES };

/// The seeds of a test: so many, and twenty times as many in the long form.
fn seeds(count: u64) -> impl Iterator<Item = u64> {
    let long = std::env::var_os("THREADLINE_LONG").is_some_and(|value| value == "1");
    let given = std::env::var("THREADLINE_SEED").ok().and_then(|seed| seed.parse().ok());
    let first = given.unwrap_or(if long { random_seed() } else { 1 });
    if long {
        println!("seeds from THREADLINE_SEED={first} on");
    }
    let count = if long { 20 * count } else { count };
    (0..count).map(move |more| first.wrapping_add(more))
}

fn random_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Random::new(now.as_secs() ^ u64::from(now.subsec_nanos())).number() >> 16
}

/// A workflow with a simulation of it.
struct Case {
    source: String,
    simulation: Simulation,
    expected: Expected,
}

impl Case {
    fn new(source: String, seed: u64) -> Self {
        let plan = planned(&source);
        let jobs = 1 + usize::try_from(seed % 5).unwrap_or(0);
        let simulation = Simulation { jobs, chances: chances(seed), ..Simulation::new(plan, seed) };
        Self::of(source, simulation)
    }

    fn of(source: String, simulation: Simulation) -> Self {
        let fate = Fate { seed: simulation.seed, chances: simulation.chances, luck: 0, mended: false };
        let expected = oracle::expect(&simulation.plan, fate);
        Self { source, simulation, expected }
    }

    fn generated(seed: u64, style: Style) -> Self {
        Self::new(generate::workflow(seed, style), seed)
    }

    fn run(&self, interruptions: &[Interruption]) -> SimulationReport {
        let simulation = Simulation { interruptions: interruptions.to_vec(), ..self.simulation.clone() };
        simulation.run().unwrap_or_else(|violation| {
            self.fail(interruptions, &format!("{violation}"));
        })
    }

    fn fail(&self, interruptions: &[Interruption], what: &str) -> ! {
        panic!("seed {}, {interruptions:?}: {what}\n{}", self.simulation.seed, self.source)
    }

    /// The report says what the workflow comes to.
    fn check(&self, interruptions: &[Interruption], report: &SimulationReport) {
        let expected = &self.expected;
        let same = (report.outcome, &report.names) == (expected.outcome, &expected.names)
            && (expected.racy || (&report.results, &report.items) == (&expected.results, &expected.items));
        if !same && !report.failed_by_crash {
            self.fail(
                interruptions,
                &format!(
                    "expected {expected:#?}\ngot {:?} {:#?} {:#?} {:#?}\n{}",
                    report.outcome,
                    report.names,
                    report.results,
                    report.items,
                    text(&report.journal)
                ),
            );
        }
    }
}

/// In every fourth run fields often have no value: phases, lists and conditions fail before they begin, or at their end.
fn chances(seed: u64) -> Chances {
    let chances = Chances::default();
    if seed.is_multiple_of(4) { Chances { evaluates: 80, ..chances } } else { chances }
}

fn planned(source: &str) -> Arc<Plan> {
    let file = SourceFile::new("generated.yaml", source.as_bytes().to_vec()).unwrap();
    let (workflow, mut problems) = load(file);
    let planned = workflow.and_then(|workflow| {
        let (planned, found) = plan(Arc::new(workflow));
        problems.extend(found);
        planned
    });
    problems.retain(Problem::is_error);
    match planned {
        Some(planned) if problems.is_empty() => Arc::new(planned),
        _ => panic!("{problems:#?}\n{source}"),
    }
}

fn interruption(append: u64, moment: InterruptMoment, how: Interrupt) -> Interruption {
    Interruption { append, moment, how }
}

/// Before and after every append of an undisturbed run.
fn every_append(report: &SimulationReport) -> impl Iterator<Item = (u64, InterruptMoment)> {
    let appends = report.appends[0];
    (1..=appends).flat_map(|append| [(append, InterruptMoment::Before), (append, InterruptMoment::After)])
}

fn kill_everywhere(case: &Case) {
    let undisturbed = case.run(&[]);
    case.check(&[], &undisturbed);
    let again = case.run(&[]);
    assert_eq!(text(&undisturbed.journal), text(&again.journal), "seed {}", case.simulation.seed);
    let mut random = Random::new(case.simulation.seed);
    for (append, moment) in every_append(&undisturbed) {
        let sorts =
            [Interrupt::Kill(Kept::Nothing), Interrupt::PowerLoss(Kept::Nothing), Interrupt::Kill(Kept::All)];
        for crash in sorts {
            let mut kills = vec![interruption(append, moment, crash)];
            case.check(&kills, &case.run(&kills));
            // And again while it resumes, after a little or after much.
            while random.percent(50) {
                let append = 1 + random.below(2 + random.clone().below(append));
                kills.push(interruption(append, moment, Interrupt::PowerLoss(Kept::Some)));
            }
            let report = case.run(&kills);
            case.check(&kills, &report);
            if append % 8 == 0 {
                let again = case.run(&kills);
                assert_eq!(text(&report.journal), text(&again.journal), "seed {}", case.simulation.seed);
            }
        }
    }
}

#[test]
fn generated_workflows_survive_kills_at_every_append() {
    for seed in seeds(50) {
        kill_everywhere(&Case::generated(seed, PLAIN));
    }
}

/// Items that fail are tried again from their beginning, let fail, or end their list, as the file says.
#[test]
fn generated_map_reduces_survive_kills_at_every_append() {
    for seed in seeds(12) {
        kill_everywhere(&Case::generated(seed, PHASES));
        kill_everywhere(&Case::generated(seed, POLICIES));
    }
}

#[test]
fn example_workflows_survive_kills_at_every_append() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/workflows");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        let source = std::fs::read_to_string(&file).unwrap();
        for seed in seeds(5) {
            kill_everywhere(&Case::new(source.clone(), seed));
        }
    }
}

/// 500 crashes with a step in flight: it follows its `on_crash`, and the journal says so.
#[test]
fn steps_in_flight_follow_on_crash() {
    let (mut crashes, mut reruns, mut failed, mut asked) = (0_u64, 0_u64, 0_u64, 0_u64);
    'seeds: for seed in seeds(10_000) {
        let phases = seed % 3 == 0;
        let case = Case::generated(seed, Style { on_crash: true, ..if phases { PHASES } else { PLAIN } });
        let undisturbed = case.run(&[]);
        case.check(&[], &undisturbed);
        for (append, moment) in every_append(&undisturbed) {
            let kill = [interruption(append, moment, Interrupt::Kill(Kept::Some))];
            let report = case.run(&kill);
            case.check(&kill, &report);
            let events = report.journal.iter().map(|event| &event.kind);
            let again =
                events.clone().filter(|what| matches!(what, EventKind::Started { rerun: true, .. })).count();
            let paused = events.filter(|what| matches!(what, EventKind::Paused { .. })).count();
            let executions = report.executions.iter();
            let distinct: BTreeSet<_> = executions
                .map(|execution| (&execution.fated, execution.attempt, execution.exchange))
                .collect();
            let repeated = report.executions.len() - distinct.len();
            // What was killed is made at most once more for each kill, by so many workers at most.
            assert!(repeated <= case.simulation.jobs, "seed {seed}, {kill:?}: {repeated} repeated");
            reruns += again as u64;
            asked += paused as u64;
            failed += u64::from(report.failed_by_crash);
            crashes += u64::from(again > 0 || paused > 0 || report.failed_by_crash);
        }
        let wanted = if std::env::var_os("THREADLINE_LONG").is_some() { 10_000 } else { 500 };
        if crashes >= wanted && reruns.min(failed).min(asked) >= 50 {
            break 'seeds;
        }
    }
    println!("{crashes} crashes: {reruns} run again, {failed} failed, {asked} asked");
    assert!(crashes >= 500 && reruns >= 50 && failed >= 50 && asked >= 50);
}

/// A call in which a step was cut off that may not run twice is not made again, however often its step may be tried.
#[test]
fn calls_that_held_a_crash_are_not_retried() {
    let file = |name: &str, text: &str| SourceFile::new(name, text.as_bytes().to_vec()).unwrap();
    let texts = BTreeMap::from([("pay.yaml".into(), file("pay.yaml", "- {value: 1}\n"))]);
    let source = "- {workflow: pay.yaml, retry: {attempts: 3, delay: 1ms}}\n- foreach: [1, 2]\n  error_policy: \
                  {on_item_failure: retry}\n  do: [{workflow: pay.yaml}]\n";
    let (called, problems) = load(file("calls.yaml", source));
    let (planned, more) = files::plan(Arc::new(called.unwrap()), &files::known(&texts));
    assert!(!problems.iter().chain(&more).any(Problem::is_error), "{problems:?} {more:?}");
    let planned = Arc::new(planned.unwrap());
    let (mut retried, mut crashed) = (0_usize, 0_usize);
    for seed in seeds(200) {
        let chances = Chances { well: 40, well_in_items: 40, evaluates: 100, ..Chances::default() };
        let simulation = Simulation { chances, ..Simulation::new(Arc::clone(&planned), seed) };
        let report = simulation.run().unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        for event in &report.journal {
            retried += usize::from(matches!(
                event.kind,
                EventKind::Retrying { .. } | EventKind::ItemRetrying { .. }
            ));
            crashed += usize::from(
                output_of(event)
                    .is_some_and(|output| FailureKind::of_meta(&output.meta) == Some(FailureKind::Crash)),
            );
        }
    }
    assert!(retried > 20 && crashed > 20, "{retried} retried, {crashed} crashed");
}

#[test]
fn signals_stop_and_resume() {
    for seed in seeds(20) {
        let case = Case::generated(seed, if seed % 2 == 0 { PHASES } else { PLAIN });
        let undisturbed = case.run(&[]);
        for (append, moment) in every_append(&undisturbed) {
            for how in [Interrupt::Stop, Interrupt::Cancel] {
                let signals = [interruption(append, moment, how), interruption(1 + append % 7, moment, how)];
                let report = case.run(&signals);
                case.check(&signals, &report);
                if how == Interrupt::Stop {
                    let is_same = report.executions.len() == undisturbed.executions.len();
                    assert!(is_same || case.expected.racy, "seed {seed}, {signals:?}\n{}", case.source);
                }
            }
        }
    }
}

#[test]
fn clock_jumps_change_nothing() {
    let (mut runs, mut back, mut ahead) = (0, 0, 0);
    for seed in seeds(50) {
        let mut case = Case::generated(seed, if seed % 2 == 0 { PHASES } else { PLAIN });
        case.simulation.jumps = true;
        let undisturbed = case.run(&[]);
        case.check(&[], &undisturbed);
        for (append, moment) in every_append(&undisturbed).step_by(5) {
            let kill = [interruption(append, moment, Interrupt::PowerLoss(Kept::Some))];
            let report = case.run(&kill);
            case.check(&kill, &report);
            let jumps = jumps(&report.journal);
            (runs, back, ahead) = (runs + 1, back + jumps.0, ahead + jumps.1);
        }
    }
    println!("{runs} runs, in which the clock jumped back {back} times and ahead {ahead} times");
    assert!(runs > 100 && back > 100 && ahead > 100, "{runs} runs, {back} jumps back, {ahead} ahead");
}

/// How often the clock jumped between two events of a journal: back, and ahead by more than an hour.
fn jumps(journal: &[Event]) -> (usize, usize) {
    let between = || journal.windows(2).map(|events| events[1].time - events[0].time);
    (between().filter(|time| *time < 0).count(), between().filter(|time| *time > 3_600_000).count())
}

/// Steps that take longer than the run may end it: nothing of it begins any more, and what belongs to its end runs all
/// the same, however often it is killed.
#[test]
fn runs_end_when_their_time_is_over() {
    let (mut timed_out, mut completed) = (0_u64, 0_u64);
    for seed in seeds(24) {
        let style = [PLAIN, POLICIES, PHASES][usize::try_from(seed % 3).unwrap_or(0)];
        let source = format!("timeout: {}ms\n{}", 500 * (1 + seed % 9), generate::workflow(seed, style));
        let plan = planned(&source);
        let chances = Chances { well: 95, well_in_items: 95, evaluates: 100, ..Chances::default() };
        let simulation = Simulation { chances, ..Simulation::new(plan, seed) };
        let run = |interruptions: &[Interruption]| {
            let simulation = Simulation { interruptions: interruptions.to_vec(), ..simulation.clone() };
            simulation
                .run()
                .unwrap_or_else(|violation| panic!("seed {seed}, {interruptions:?}: {violation}\n{source}"))
        };
        let undisturbed = run(&[]);
        for (append, moment) in every_append(&undisturbed) {
            let kills = [
                interruption(append, moment, Interrupt::Kill(Kept::Some)),
                interruption(1 + append % 5, moment, Interrupt::PowerLoss(Kept::Some)),
            ];
            let report = run(&kills);
            let kinds = report.journal.iter().filter_map(|event| Some((event, output_of(event)?)));
            let is_over = |(event, output): (&Event, &Output)| {
                let is_timeout = FailureKind::of_meta(&output.meta) == Some(FailureKind::Timeout);
                is_timeout
                    && event.at.run_part().is_none()
                    && !matches!(event.kind, EventKind::Retrying { .. })
            };
            if kinds.clone().any(is_over) {
                timed_out += 1;
                assert_eq!(report.outcome, Outcome::Failed, "seed {seed}, {kills:?}\n{source}");
            }
            completed += u64::from(report.outcome == Outcome::Completed);
        }
    }
    println!("{timed_out} runs timed out, {completed} completed");
    assert!(timed_out > 50 && completed > 50, "{timed_out} timed out, {completed} completed");
}

#[test]
fn pauses_are_never_longer_than_they_were() {
    let pause = Pause { since: 1_000, until: 1_500 };
    let cases =
        [(1_000, 500), (1_200, 300), (1_500, 0), (9_999_999, 0), (900, 500), (i64::MIN, 500), (i64::MAX, 0)];
    for (now, left) in cases {
        assert_eq!(pause.left(now), left, "at {now}");
    }
    assert_eq!(Pause { since: 5, until: 1 }.left(0), 0);
}

/// What is kept of a `foreach` does not grow with the items that are done, and neither does the time for one.
#[test]
fn many_items_are_not_kept() {
    const ITEMS: u64 = 50_000;
    let source = "inputs: {list: {type: list, default: []}}\nsteps:\n  - foreach: ${inputs.list}\n    parallel: 2\n    \
                  do:\n      - argv: [work, '${item}']\n        continue_on_error: true\n        on_failure:\n          \
                  - argv: [work]\n";
    let mut machine = begun(source);
    apply(&mut machine, "1", expanded(ITEMS, Rules::STRICT));
    for item in 0..ITEMS {
        let at = format!("1[{item}]/1");
        apply(&mut machine, &at, finished(Status::Failed));
        let after = format!("{at}/on_failure/1");
        apply(&mut machine, &after, finished(Status::Failed));
        apply(&mut machine, &format!("1[{item}]"), item_ended(Status::Completed, 1));
        assert!(
            machine.retained_entries() < 20,
            "{} things are kept after item {item}",
            machine.retained_entries()
        );
    }
    let end = apply(&mut machine, "1", finished(Status::Completed));
    assert_eq!(
        end,
        [Command::End { outcome: Outcome::Completed, ended: None, failed_items: 0, spent: Box::default() }]
    );
}

/// What is kept of a map grows with the items that failed for good, and neither with those that did well nor with those
/// that were tried again. Afterwards it is let go.
#[test]
fn many_items_that_are_tried_again_are_not_kept() {
    const ITEMS: u64 = 50_000;
    let source = "map:\n  input: [1]\n  max_parallel: 2\n  agent_template:\n    - foreach: [1]\n      do:\n        \
                  - argv: [work, '${item}']\nreduce:\n  - argv: [work]\n";
    let mut machine = begun(source);
    let retry = RetryPlan { attempts: 2, ..RetryPlan::ONCE };
    let rules = Rules { retry, timeout: None, most_failed: None, goes_on: true };
    apply(&mut machine, "map", expanded(ITEMS, rules));
    let mut failed = 0;
    for item in 0..ITEMS {
        let at = format!("map[{item}]");
        let attempts = if item % 10 == 0 { 2 } else { 1 };
        let mut status = Status::Completed;
        for attempt in 1..=attempts {
            if attempt == 2 {
                let waits =
                    apply(&mut machine, &at, EventKind::ItemRetrying { error: "no".into(), until: 5 });
                assert!(matches!(&waits[..], [Command::Wait { .. }]), "{waits:?}");
                let begins = machine.after_pause(&Address::parse(&at).unwrap());
                assert!(matches!(begins, Some(Command::BeginItem { attempt: 2, .. })), "{begins:?}");
                apply(&mut machine, &at, EventKind::ItemBegun { attempt });
            }
            let well = attempt == 2 && item % 1_000 != 0 || attempts == 1;
            status = if well { Status::Completed } else { Status::Failed };
            let inner = format!("{at}/1");
            apply(&mut machine, &inner, expanded(1, Rules::STRICT));
            apply(&mut machine, &format!("{inner}[0]/1"), finished(status));
            apply(&mut machine, &format!("{inner}[0]"), item_ended(status, 1));
            let ends = apply(&mut machine, &inner, finished(status));
            let [Command::EndItem { ending, .. }] = &ends[..] else { panic!("{ends:?}") };
            assert_eq!((ending.index, ending.attempt, ending.succeeded), (item, attempt, well));
        }
        failed += usize::from(status == Status::Failed);
        apply(&mut machine, &at, item_ended(status, attempts));
        let kept = machine.retained_entries();
        assert!(kept < 20 + 8 * failed, "{kept} things are kept after item {item}, {failed} failed");
    }
    assert_eq!(failed, 50);
    apply(&mut machine, "map", finished(Status::Completed));
    apply(&mut machine, "reduce/1", finished(Status::Completed));
    let end = apply(&mut machine, "reduce", finished(Status::Completed));
    // Each of the 50 has an item inside it that failed, too.
    assert_eq!(
        end,
        [Command::End { outcome: Outcome::Completed, ended: None, failed_items: 100, spent: Box::default() }]
    );
    let over = EventKind::RunEnded {
        outcome: Outcome::Completed,
        exports: Datum::Here(Value::NULL),
        ended: None,
        failed_items: None,
        spent: None,
    };
    apply(&mut machine, "", over);
    assert!(machine.has_tolerated_failures() && machine.retained_entries() > 50);
    apply(&mut machine, "", EventKind::Resumed { failed: true, budgets: Vec::new(), jobs: None });
    let begun = machine.outstanding(InFlight::default()).unwrap().len();
    assert_eq!(begun, 2, "as many as run at once");
    for item in (0..ITEMS).step_by(1_000) {
        let inner = format!("map[{item}]/1");
        apply(&mut machine, &format!("{inner}[0]/1"), finished(Status::Completed));
        apply(&mut machine, &format!("{inner}[0]"), item_ended(Status::Completed, 2));
        apply(&mut machine, &inner, finished(Status::Completed));
        apply(&mut machine, &format!("map[{item}]"), item_ended(Status::Completed, 3));
    }
    apply(&mut machine, "map", finished(Status::Completed));
    assert!(machine.retained_entries() < 10, "{} things are kept", machine.retained_entries());
    assert!(!machine.has_tolerated_failures());
}

/// Events of items that do not fit are refused, whatever a journal says.
#[test]
fn events_of_items_come_in_order() {
    let source = "map:\n  input: [1]\n  agent_template:\n    - argv: [work, '${item}']\n";
    let retrying = || EventKind::ItemRetrying { error: "no".into(), until: 5 };
    let refused = |machine: &mut Machine, at: &str, what: EventKind| {
        let event = Event { seq: machine.last() + 1, time: 0, at: Address::parse(at).unwrap(), kind: what };
        assert!(machine.apply(&event).is_err(), "`{at}`");
    };
    let expand = |machine: &mut Machine| apply(machine, "map", expanded(2, Rules::STRICT));
    // To be refused each on a machine of its own: one that has refused an event is of no use any more.
    let too_early = [retrying(), EventKind::ItemBegun { attempt: 2 }, item_ended(Status::Completed, 1)];
    for what in too_early {
        let mut machine = begun(source);
        expand(&mut machine);
        refused(&mut machine, "map[0]", what.clone());
        let mut machine = begun(source);
        expand(&mut machine);
        refused(&mut machine, "map[7]", what);
    }
    let at_its_end = |status| {
        let mut machine = begun(source);
        expand(&mut machine);
        apply(&mut machine, "map[0]/1", finished(status));
        machine
    };
    refused(&mut at_its_end(Status::Failed), "map[0]", EventKind::ItemBegun { attempt: 2 });
    // The list is not over while an item is not.
    refused(&mut at_its_end(Status::Completed), "map", finished(Status::Completed));
    for attempt in [0, 1, 3] {
        let mut machine = at_its_end(Status::Failed);
        apply(&mut machine, "map[0]", retrying());
        refused(&mut machine, "map[0]", EventKind::ItemBegun { attempt });
    }
    for what in [retrying(), item_ended(Status::Failed, 1)] {
        let mut machine = at_its_end(Status::Failed);
        apply(&mut machine, "map[0]", retrying());
        refused(&mut machine, "map[0]", what.clone());
        let mut machine = at_its_end(Status::Failed);
        apply(&mut machine, "map[0]", item_ended(Status::Failed, 1));
        refused(&mut machine, "map[0]", what);
    }
}

/// Items one after the other wait until the end before is on disk. Side by side, those that act wait until it is
/// written, and until all but the last few are on disk, and those that only make values wait for their list alone.
#[test]
fn items_wait_for_what_they_depend_on() {
    let acting = "argv: [work, '${item}']";
    let nested = "foreach: [1]\n      do:\n        - argv: [work, '${item}']";
    let value = "value: ${item}";
    for (step, parallel) in [(acting, 1), (acting, 2), (nested, 2), (value, 1), (value, 2)] {
        let mut machine = begun(&format!("map:\n  input: [1]\n  agent_template:\n    - {step}\n"));
        let mut list = expanded(40, Rules::STRICT);
        if let EventKind::Expanded { parallel: own, .. } = &mut list {
            *own = parallel;
        }
        apply(&mut machine, "map", list);
        let expanded = machine.last();
        let mut ends = Vec::new();
        for item in 0..30 {
            apply(&mut machine, &format!("map[{item}]/1"), finished(Status::Completed));
            let commands = apply(&mut machine, &format!("map[{item}]"), item_ended(Status::Completed, 1));
            ends.push(machine.last());
            let [command @ (Command::Start { .. } | Command::Expand(_))] = &commands[..] else {
                panic!("{commands:?}")
            };
            let plan = Arc::clone(machine.plan());
            let awaited = Executor::new(&plan).awaits(command, &machine.view_of(command));
            let now = machine.last();
            let settled = ends.iter().rev().nth(16).copied().unwrap_or(expanded);
            let expected = match (step, parallel) {
                (_, 1) => SafeEvents { written: 0, durable: now },
                (_, _) if step == value => SafeEvents { written: 0, durable: expanded },
                // Nothing happens before the start of its attempt is written behind that end.
                (_, _) if step == acting => SafeEvents { written: 0, durable: settled },
                _ => SafeEvents { written: now, durable: settled },
            };
            assert_eq!(awaited, expected, "{step}, {parallel} at once, item {item}");
        }
    }
}

/// What the steps of a slice saw is the same whether all events are folded or only those of the slice, except when an item
/// began, who ran it, and what it waited for. Where that cannot be, an event of the slice does not fit.
#[test]
fn a_slice_of_a_run_shows_what_all_of_it_shows() {
    let (mut compared, mut slices, mut misfits) = (0_u64, 0_u64, 0_u64);
    for seed in seeds(200) {
        let case = Case::generated(seed, [PLAIN, POLICIES, PHASES][usize::try_from(seed % 3).unwrap()]);
        let appends = case.run(&[]).appends[0];
        let kill = interruption(1 + seed % appends, InterruptMoment::After, Interrupt::Kill(Kept::Some));
        let journal =
            case.run(if seed.is_multiple_of(2) { &[] } else { std::slice::from_ref(&kill) }).journal;
        let plan = &case.simulation.plan;
        let whole = seen_at(Fold::new(Arc::clone(plan)), journal.iter()).unwrap();
        let items: BTreeSet<Vec<u64>> = journal.iter().map(|event| event.at.items().collect()).collect();
        for items in items {
            let slice = RunSlice::new(if items.is_empty() { Vec::new() } else { vec![items.clone()] });
            let events: Vec<&Event> = journal.iter().filter(|event| slice.has(event.at.as_str())).collect();
            slices += 1;
            let fold = Fold::of_slice(Arc::clone(plan), slice);
            let Some(part) = seen_at(fold, events.iter().copied()) else {
                misfits += 1;
                continue;
            };
            for (event, part) in events.iter().zip(part) {
                let all = &whole[usize::try_from(event.seq).unwrap() - 1];
                assert_eq!(&part, all, "seed {seed}, {items:?}, event {}\n{}", event.seq, case.source);
                compared += u64::from(part.is_some());
            }
        }
    }
    println!("{compared} of {slices} slices are the same, {misfits} slices do not fit");
    assert!(
        compared > 1_000 && 2 * misfits < slices,
        "{compared} compared, {misfits} of {slices} do not fit"
    );
}

/// What each event says about what its step saw; nothing when one does not fit.
fn seen_at<'e>(mut fold: Fold, events: impl Iterator<Item = &'e Event>) -> Option<Vec<Option<String>>> {
    let mut all = Vec::new();
    for event in events {
        let seen = fold.seen(event).map(|seen| {
            let view = View {
                as_of: 0,
                earlier_ends: SafeEvents::default(),
                limit: None,
                item: seen.view.item.map(|item| ItemView { runner: 0, ..item }),
                ..seen.view
            };
            format!("{:?}", Seen { view, ..seen })
        });
        all.push(seen);
        fold.apply(event).ok()?;
    }
    Some(all)
}

/// The time of an item runs from its beginning, from the beginning of another attempt, and from a resume.
#[test]
fn the_time_of_an_item_begins_anew() {
    let source = "map:\n  input: [1]\n  agent_template:\n    - argv: [work, '${item}']\n";
    let mut machine = begun(source);
    let mut happens = |time: i64, at: &str, what: EventKind| {
        let event = Event { seq: machine.last() + 1, time, at: Address::parse(at).unwrap(), kind: what };
        let commands = machine.apply(&event).unwrap();
        let since = machine.view(&Address::parse("map[0]/1").unwrap()).limit.map(|limit| limit.since);
        (since, commands)
    };
    let timeout = Some(std::time::Duration::from_secs(5));
    let retry = RetryPlan { attempts: 2, ..RetryPlan::ONCE };
    let rules = Rules { retry, timeout, ..Rules::STRICT };
    assert_eq!(happens(10, "map", expanded(1, rules)).0, Some(10));
    assert_eq!(
        happens(20, "", EventKind::Resumed { failed: false, budgets: Vec::new(), jobs: None }).0,
        Some(20)
    );
    let (_, ends) = happens(30, "map[0]/1", finished(Status::Failed));
    let [Command::EndItem { ending, .. }] = &ends[..] else { panic!("{ends:?}") };
    assert_eq!((ending.began, ending.rules), (20, rules));
    happens(40, "map[0]", EventKind::ItemRetrying { error: "no".into(), until: 45 });
    assert_eq!(happens(50, "map[0]", EventKind::ItemBegun { attempt: 2 }).0, Some(50));
    happens(60, "map[0]/1", finished(Status::Failed));
    happens(61, "map[0]", item_ended(Status::Failed, 2));
    happens(62, "map", finished(Status::Failed));
    let over = EventKind::RunEnded {
        outcome: Outcome::Failed,
        exports: Datum::Here(Value::NULL),
        ended: None,
        failed_items: None,
        spent: None,
    };
    happens(63, "", over);
    assert_eq!(
        happens(70, "", EventKind::Resumed { failed: false, budgets: Vec::new(), jobs: None }).0,
        Some(70)
    );
}

/// The machine of a run that has begun.
fn begun(source: &str) -> Machine {
    let plan = planned(source);
    let chances = Chances { items: 0, ..Chances::default() };
    let simulation = Simulation { chances, ..Simulation::new(plan, 1) };
    let report = simulation.run().unwrap();
    let mut machine = Machine::new(simulation.plan);
    machine.apply(&report.journal[0]).unwrap();
    machine
}

fn apply(machine: &mut Machine, at: &str, what: EventKind) -> Vec<Command> {
    let event = Event { seq: machine.last() + 1, time: 0, at: Address::parse(at).unwrap(), kind: what };
    machine.apply(&event).unwrap_or_else(|misfit| panic!("`{at}`: {misfit:?}"))
}

fn finished(status: Status) -> EventKind {
    let value = Datum::Here(Value::NULL);
    let output = Output {
        status,
        value,
        output: None,
        stderr: None,
        meta: Value::NULL,
        spent: None,
        thread: None,
        exact: None,
    };
    EventKind::Finished { output, results: None, kept: None }
}

fn expanded(count: u64, rules: Rules) -> EventKind {
    let items = Listed::Whole(Datum::Here(Value::NULL));
    EventKind::Expanded {
        as_of: 1,
        computed: Vec::new(),
        items,
        count,
        read: Some(count),
        parallel: 2,
        rules,
        source: None,
    }
}

fn item_ended(status: Status, attempts: u32) -> EventKind {
    let (value, error) = (Datum::Here(Value::NULL), None);
    EventKind::ItemEnded(ItemEnded {
        status,
        value,
        error,
        attempts,
        duration_ms: 0,
        branch: None,
        not_retried: None,
    })
}

/// A node whose items failed, and that may fail, leaves nothing behind when the graph is over.
#[test]
fn items_of_nodes_are_not_kept() {
    let source = "inputs: {list: {type: list, default: []}}\nnodes:\n  first:\n    foreach: ${inputs.list}\n    \
                  continue_on_error: true\n    do:\n      - argv: [work, '${item}']\n  second:\n    foreach: \
                  ${inputs.list}\n    error_policy: {continue_on_failure: true}\n    do:\n      - argv: [work]\n";
    let plan = planned(source);
    let mut failed = 0;
    for seed in seeds(40) {
        let report = Simulation::new(Arc::clone(&plan), seed).run();
        let report = report.unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        failed += u64::from(report.items.values().any(|(status, _)| *status == Status::Failed));
    }
    assert!(failed > 10, "only {failed} runs had items that failed");
}

/// What a node captured when it failed is nobody's any more when the run goes on and the node is skipped.
#[test]
fn what_a_failed_node_captured_is_forgotten() {
    let source = "inputs: {go: {type: bool, default: true}}\nnodes:\n  flaky: {when: '${inputs.go}', argv: [work], capture: \
                  seen}\n  other: {argv: [work]}\n  last: {argv: [work, '${seen:-none}']}\nedges:\n  - {from: flaky, to: \
                  last}\n  - {from: other, to: last}\n";
    let mut machine = begun(source);
    let skipped = || {
        let EventKind::Finished { output, .. } = finished(Status::Skipped) else { panic!("an end") };
        EventKind::Skipped { as_of: 1, computed: Vec::new(), output }
    };
    let ends = |machine: &mut Machine, at: &str, status: Status| {
        let next = machine.next_of(&Address::parse(at).unwrap());
        let Some(Command::Start { attempt, .. }) = next else { panic!("`{at}` does not begin") };
        let (computed, fields) = (Vec::new(), Hash::default());
        let started = EventKind::Started { as_of: 1, attempt, rerun: false, computed, fields, work: None };
        apply(machine, at, started);
        apply(machine, at, finished(status));
    };
    apply(&mut machine, "1", EventKind::Decided { as_of: 1, computed: Vec::new() });
    ends(&mut machine, "1", Status::Failed);
    ends(&mut machine, "2", Status::Failed);
    apply(&mut machine, "3", skipped());
    let over = EventKind::RunEnded {
        outcome: Outcome::Failed,
        exports: Datum::Here(Value::NULL),
        ended: None,
        failed_items: None,
        spent: None,
    };
    apply(&mut machine, "", over);
    apply(&mut machine, "", EventKind::Resumed { failed: false, budgets: Vec::new(), jobs: None });
    apply(&mut machine, "1", skipped());
    ends(&mut machine, "2", Status::Completed);
    let last = Address::parse("3").unwrap();
    assert!(matches!(machine.next_of(&last), Some(Command::Start { .. })));
    assert_eq!(machine.view(&last).captured, []);
}

/// Items that were let fail are done again with everything after them, and runs that failed go on: with new luck twice,
/// and then everything is put right. Kills on the way do not change what comes of it.
#[test]
fn items_that_were_let_fail_are_done_again() {
    let (mut rewound, mut again, mut resumed) = (0, 0, 0);
    // In the last one an item of a list that goes on began before the end of the item around it was on disk.
    for seed in seeds(25).chain([122_527_790_611_899]) {
        let lenient = Style { steps: 6, policies: Policies::Lenient, ..PHASES };
        for style in [PHASES, POLICIES, lenient, Style { phases: false, ..lenient }] {
            let Case { source, simulation, .. } = Case::generated(seed, style);
            let (well, well_in_items) = if style.policies == Policies::Lenient { (97, 55) } else { (80, 75) };
            let chances = Chances { well, well_in_items, items: 6, evaluates: 99, ..Chances::default() };
            let case = Case::of(source, Simulation { mend: true, tries: 2, chances, ..simulation });
            let undisturbed = case.run(&[]);
            assert_eq!(undisturbed.outcome, Outcome::Completed, "seed {seed}\n{}", case.source);
            let ends: Vec<_> = undisturbed.journal.iter().filter_map(end_of).collect();
            // A run that completed is resumed for the items that were let fail only.
            let rewinds = ends.iter().filter(|outcome| **outcome == Outcome::Completed).count() - 1;
            rewound += u64::from(rewinds > 0);
            again += u64::from(rewinds > 1);
            resumed += u64::from(ends.len() > 1);
            let all: u64 = undisturbed.appends.iter().sum();
            for append in (1..=all).step_by(5) {
                let kills = [
                    interruption(append, InterruptMoment::After, Interrupt::Kill(Kept::Some)),
                    interruption(
                        1 + append % 11,
                        InterruptMoment::Before,
                        Interrupt::PowerLoss(Kept::Nothing),
                    ),
                    interruption(1 + append % 23, InterruptMoment::After, Interrupt::Kill(Kept::All)),
                ];
                let report = case.run(&kills);
                let result_of = |report: &SimulationReport| {
                    (report.outcome, report.names.clone(), report.results.clone(), report.items.clone())
                };
                let (found, wanted) = (result_of(&report), result_of(&undisturbed));
                let is_racy = case.expected.racy || is_racy(&report) || is_racy(&undisturbed);
                if found != wanted && !is_racy {
                    case.fail(&kills, &format!("{found:#?}\n{wanted:#?}"));
                }
            }
        }
    }
    println!("{resumed} runs resumed, {rewound} with items that were let fail, {again} more than once");
    assert!(resumed > 30 && rewound > 10 && again > 3);
}

/// Whether a list of items that run side by side stopped at a failure: which of the others began is left to chance. Of a
/// run that is tried with other luck the oracle knows only the first try.
fn is_racy(report: &SimulationReport) -> bool {
    let mut lists: BTreeMap<Address, (Rules, u64)> = BTreeMap::new();
    report.journal.iter().any(|event| match &event.kind {
        EventKind::Expanded { parallel, rules, .. } => {
            lists.remove(&event.at);
            if *parallel > 1 {
                lists.insert(event.at.clone(), (*rules, 0));
            }
            false
        }
        EventKind::ItemEnded(ItemEnded { status: Status::Failed, .. }) => {
            let list = event.at.as_item().and_then(|(list, _)| lists.get_mut(&list));
            list.is_some_and(|(rules, failed)| {
                *failed += 1;
                rules.stops_after(*failed)
            })
        }
        _ => false,
    })
}

fn end_of(event: &Event) -> Option<Outcome> {
    match event.kind {
        EventKind::RunEnded { outcome, .. } => Some(outcome),
        _ => None,
    }
}

/// What failed is put right and the run resumed: it completes, nothing that did well runs again, and kills on the way
/// do not change what comes of it.
#[test]
fn failed_runs_are_resumed_where_they_failed() {
    let mut mended = 0;
    for seed in seeds(60) {
        let Case { source, simulation, .. } = Case::generated(seed, PLAIN);
        let chances = Chances { well: 65, well_in_items: 65, ..Chances::default() };
        let case = Case::of(source, Simulation { mend: true, chances, ..simulation });
        let undisturbed = case.run(&[]);
        assert_eq!(undisturbed.outcome, Outcome::Completed, "seed {seed}\n{}", case.source);
        mended += u64::from(undisturbed.appends.len() > 1);
        let racy = case.expected.racy;
        let all: u64 = undisturbed.appends.iter().sum();
        for append in 1..=all {
            let kills = [
                interruption(append, InterruptMoment::After, Interrupt::Kill(Kept::Some)),
                interruption(1 + append % 11, InterruptMoment::Before, Interrupt::Kill(Kept::Nothing)),
            ];
            let report = case.run(&kills);
            let same = report.outcome == Outcome::Completed
                && (racy || report.names == undisturbed.names && report.results == undisturbed.results);
            if !same {
                case.fail(&kills, &format!("{:#?}\n{:#?}", report.results, undisturbed.results));
            }
        }
    }
    assert!(mended > 10, "only {mended} runs failed");
}

/// The time of an item bounds the attempts of its steps. What would begin after it fails instead, and says so.
#[test]
fn nothing_begins_when_the_time_of_its_item_is_over() {
    let source = "map:\n  input: [1]\n  max_parallel: 2\n  timeout: 5s\n  agent_template:\n    - argv: [work]\n      \
                  retry: {attempts: 3, delay: 4s}\n    - argv: [work, '${item}']\n";
    let plan = planned(source);
    let chances = Chances { well_in_items: 50, ..Chances::default() };
    let mut timed_out = 0;
    for seed in seeds(100) {
        let simulation = Simulation { chances, ..Simulation::new(Arc::clone(&plan), seed) };
        let report = simulation.run().unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        timed_out += report.journal.iter().filter(|event| has_timed_out(event)).count();
    }
    assert!(timed_out > 10, "the time of an item was over {timed_out} times");
}

fn has_timed_out(event: &Event) -> bool {
    let EventKind::Finished { output, .. } = &event.kind else { return false };
    let is_too_late = output.meta.get("not_retried").is_some();
    is_too_late || output.meta.get("error_type").and_then(Value::as_str) == Some("Timeout")
}
