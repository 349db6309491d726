//! Loops that are killed, stopped and resumed at every write: no state that is through runs again, and they
//! walk the same way as one which nothing disturbed.
//!
//! The same seeds each time gate a change; `THREADLINE_LONG=1` takes twenty times as many,
//! `THREADLINE_SEED=n` begins with that one.

#![expect(clippy::unwrap_used, reason = "a loop that cannot be read fails the test")]
#![expect(clippy::disallowed_methods, reason = "the long form is asked for by the environment")]

mod loops;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use loops::Came;
use threadline_engine::Hash;
use threadline_engine::evaluate::limits;
use threadline_engine::event::{
    Address, Datum, Event, EventKind, JudgedEvent, LoopReason, Output, RunSlice, RunStarted, SafeEvents,
    Status,
};
use threadline_engine::machine::{Command, InFlight, Machine, Outcome};
use threadline_engine::random::Random;
use threadline_engine::replay::{Fold, Maker, Seen};
use threadline_engine::simulator::chance::{Chances, Fate};
use threadline_engine::simulator::elsewhere::Mishaps;
use threadline_engine::simulator::{
    Interrupt, InterruptMoment, Interruption, Kept, Simulation, SimulationReport, text,
};
use threadline_engine::view::View;
use threadline_engine::visits::{EventSort, VisitedStates};
use threadline_flow::load::load;
use threadline_flow::plan::{Plan, plan};
use threadline_flow::problem::Problem;
use threadline_lang::source::SourceFile;
use threadline_lang::{NoWorld, Scope, Session, Value};

fn seeds(count: u64) -> impl Iterator<Item = u64> {
    let long = std::env::var_os("THREADLINE_LONG").is_some_and(|value| value == "1");
    let first: u64 = std::env::var("THREADLINE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    first..first + if long { 20 * count } else { count }
}

fn planned(source: &str) -> Arc<Plan> {
    let file = SourceFile::new("loop.yaml", source.as_bytes().to_vec()).unwrap();
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

struct Case {
    source: String,
    simulation: Simulation,
    expected: Came,
}

const CHANCES: Chances =
    Chances { evaluates: 96, holds: 50, well: 85, well_in_items: 85, items: 3, duration: 2_000, breaks: 0 };

impl Case {
    fn generated(seed: u64, mend: Option<u32>) -> Self {
        let source = loops::workflow(seed);
        let plan = planned(&source);
        let fate = Fate { seed, chances: CHANCES, luck: 0, mended: false };
        let expected = loops::expect(&plan, fate, mend);
        let simulation = Simulation {
            chances: CHANCES,
            mend: mend.is_some(),
            tries: mend.unwrap_or(0),
            jobs: 1 + usize::try_from(seed % 3).unwrap_or(0),
            ..Simulation::new(plan, seed)
        };
        Self { source, simulation, expected }
    }

    fn run(&self, interruptions: &[Interruption]) -> SimulationReport {
        let simulation = Simulation { interruptions: interruptions.to_vec(), ..self.simulation.clone() };
        simulation.run().unwrap_or_else(|violation| {
            panic!("seed {}, {interruptions:?}: {violation}\n{}", self.simulation.seed, self.source)
        })
    }

    fn check(&self, interruptions: &[Interruption]) -> SimulationReport {
        let report = self.run(interruptions);
        let came = came(&report);
        assert_eq!(
            came,
            self.expected,
            "seed {}, {interruptions:?}\n{}\n{}",
            self.simulation.seed,
            self.source,
            text(&report.journal)
        );
        report
    }
}

fn came(report: &SimulationReport) -> Came {
    let visits = report.journal.iter().filter_map(|event| match &event.kind {
        EventKind::Judged(judged) => Some((event.at.clone(), judged.verdict.clone(), judged.to.clone())),
        _ => None,
    });
    let ended = report.journal.iter().rev().find_map(|event| match &event.kind {
        EventKind::RunEnded { ended, .. } => Some(ended.clone()),
        _ => None,
    });
    Came {
        outcome: report.outcome,
        ended: ended.flatten().map(|ended| (ended.reason, ended.state, ended.limit)),
        names: report.names.clone(),
        // What runs at the end changes nothing of the loop; the simulator looks at when it does.
        results: report.results.clone().into_iter().filter(|(at, _)| at.run_part().is_none()).collect(),
        visits: visits.collect(),
    }
}

/// What loops run is performed by other machines: they die, answers get lost, and the loop walks the same way.
#[test]
fn loops_walk_the_same_way_with_programs_elsewhere() {
    let (mut again, mut deaths) = (0, 0);
    for seed in seeds(50) {
        let mut case = Case::generated(seed, None);
        case.simulation.elsewhere = Some(Mishaps {
            dies_before: 10,
            dies_during: 20,
            dies_after: 10,
            loses: seed % 30,
            doubles: 20,
            delay: 400,
        });
        let undisturbed = case.check(&[]);
        for (append, moment) in every_append(&undisturbed).step_by(5) {
            let report = case.check(&[interruption(append, moment, Interrupt::PowerLoss(Kept::Some))]);
            for act in &report.acts {
                let most = 1 + act.deaths.len();
                assert!(act.begun.len() <= most, "seed {seed}, append {append}: {act:?}");
                again += act.begun.len().saturating_sub(1);
                deaths += act.deaths.len();
            }
            let mut names: Vec<_> = report.acts.iter().map(|act| &act.of).collect();
            names.dedup();
            assert_eq!(names.len(), report.acts.len(), "seed {seed}, append {append}: two keys for one act");
        }
    }
    assert!(again > 100 && again <= deaths, "{again} again after {deaths} deaths");
}

fn every_append(report: &SimulationReport) -> impl Iterator<Item = (u64, InterruptMoment)> {
    (1..=report.appends[0])
        .flat_map(|append| [(append, InterruptMoment::Before), (append, InterruptMoment::After)])
}

fn interruption(append: u64, moment: InterruptMoment, how: Interrupt) -> Interruption {
    Interruption { append, moment, how }
}

fn kill_everywhere(case: &Case) -> u64 {
    let undisturbed = case.check(&[]);
    assert_eq!(text(&undisturbed.journal), text(&case.check(&[]).journal), "seed {}", case.simulation.seed);
    let mut random = Random::new(case.simulation.seed);
    let mut crashes = 0;
    for (append, moment) in every_append(&undisturbed) {
        let sorts =
            [Interrupt::Kill(Kept::Nothing), Interrupt::PowerLoss(Kept::Nothing), Interrupt::Kill(Kept::All)];
        for crash in sorts {
            let mut kills = vec![interruption(append, moment, crash)];
            case.check(&kills);
            while random.percent(50) {
                let append = 1 + random.below(2 + random.clone().below(append));
                kills.push(interruption(append, moment, Interrupt::PowerLoss(Kept::Some)));
            }
            let report = case.check(&kills);
            if append % 8 == 0 {
                assert_eq!(text(&report.journal), text(&case.check(&kills).journal));
            }
            crashes += 1 + kills.len() as u64;
        }
    }
    crashes
}

#[test]
fn generated_loops_survive_kills_at_every_append() {
    let mut ends: BTreeMap<String, u64> = BTreeMap::new();
    let mut crashes = 0;
    for seed in seeds(80) {
        let case = Case::generated(seed, None);
        crashes += kill_everywhere(&case);
        let reason = case.expected.ended.as_ref().map_or("no route", |(reason, ..)| reason.name());
        *ends.entry(format!("{} by {reason}", case.expected.outcome.name())).or_default() += 1;
    }
    // Every way to end was met.
    let met: BTreeSet<&str> = ends.keys().map(String::as_str).collect();
    for end in [
        "completed by terminal",
        "completed by max_iterations",
        "failed by terminal",
        "failed by no route",
        "stopped by max_steps",
        "stopped by max_iterations",
        "stopped by max_edge_revisits",
        "stopped by max_stall",
    ] {
        assert!(met.contains(end), "no loop was {end} in {crashes} crashes: {ends:?}");
    }
}

/// A loop that stopped at a limit, or failed, is resumed with new luck: it goes on where it was, with its
/// allowances anew, also when that is killed.
#[test]
fn loops_that_stopped_or_failed_go_on() {
    for seed in seeds(30) {
        kill_everywhere(&Case::generated(seed, Some(u32::try_from(seed % 3).unwrap())));
    }
}

#[test]
fn signals_stop_and_resume() {
    for seed in seeds(30) {
        let case = Case::generated(seed, None);
        let undisturbed = case.check(&[]);
        for (append, moment) in every_append(&undisturbed) {
            for how in [Interrupt::Stop, Interrupt::Cancel] {
                let signals = [interruption(append, moment, how), interruption(1 + append % 7, moment, how)];
                let report = case.check(&signals);
                if how == Interrupt::Stop {
                    assert_eq!(report.executions.len(), undisturbed.executions.len());
                }
            }
        }
    }
}

#[test]
fn clock_jumps_change_nothing() {
    let (mut runs, mut jumps) = (0, 0);
    for seed in seeds(40) {
        let mut case = Case::generated(seed, None);
        case.simulation.jumps = true;
        let undisturbed = case.check(&[]);
        for (append, moment) in every_append(&undisturbed).step_by(3) {
            let report = case.check(&[interruption(append, moment, Interrupt::Kill(Kept::Some))]);
            let is_jump = |events: &&[Event]| !(0..3_600_000).contains(&(events[1].time - events[0].time));
            jumps += report.journal.windows(2).filter(is_jump).count();
            runs += 1;
        }
    }
    println!("{runs} runs, in which the clock jumped {jumps} times");
    assert!(runs > 100 && jumps > 100, "{runs} runs, {jumps} jumps");
}

/// Nothing that was through is done again: what runs twice was under way at a crash.
#[test]
fn a_kill_repeats_at_most_what_was_under_way() {
    for seed in seeds(30) {
        let case = Case::generated(seed, None);
        let undisturbed = case.check(&[]);
        for (append, moment) in every_append(&undisturbed) {
            let report = case.check(&[interruption(append, moment, Interrupt::Kill(Kept::Some))]);
            let more = report.executions.len() - undisturbed.executions.len();
            assert!(more <= 1, "seed {seed}: {more} actions were repeated by one kill");
        }
    }
}

#[test]
fn a_loop_that_ended_in_a_failure_ends_there_again() {
    let ended = |case: &Case| case.expected.outcome == Outcome::Failed && case.expected.ended.is_some();
    let met = seeds(400).filter(|seed| ended(&Case::generated(*seed, Some(0)))).take(3).count();
    assert!(met > 0, "no loop ended in a failure");
}

// ---- some visits instead of all ------------------------------------------------------------------------

/// The visits of a journal.
fn visited(plan: &Arc<Plan>, journal: &[Event]) -> VisitedStates {
    let mut visited = VisitedStates::new(plan).unwrap();
    for event in journal {
        visited.take(event.seq, EventSort::of(&event.kind), event.at.as_str());
    }
    visited
}

/// What an event says about what its step saw, without the times and numbers of events that only drivers use.
fn shown(fold: &Fold, event: &Event) -> Option<String> {
    let seen = fold.seen(event)?;
    let view = View { as_of: 0, earlier_ends: SafeEvents::default(), ..seen.view };
    Some(format!("{:?}", Seen { view, ..seen }))
}

/// Visits of a loop show the same whether all events are folded or only those that they follow from.
#[test]
fn some_visits_show_what_all_of_a_run_shows() {
    let (mut compared, mut slices, mut misfits) = (0_u64, 0_u64, 0_u64);
    for seed in seeds(200) {
        let mend = (seed % 3 == 0).then_some(1);
        let case = Case::generated(seed, mend);
        let appends = case.run(&[]).appends[0];
        let kill = interruption(1 + seed % appends, InterruptMoment::After, Interrupt::Kill(Kept::Some));
        let journal = case.run(if seed % 2 == 0 { &[] } else { std::slice::from_ref(&kill) }).journal;
        let plan = &case.simulation.plan;
        let mut fold = Fold::new(Arc::clone(plan));
        let mut whole = Vec::new();
        for event in &journal {
            whole.push(shown(&fold, event));
            fold.apply(event).unwrap();
        }
        let visited = visited(plan, &journal);
        let mut visits: Vec<Address> = journal.iter().filter_map(|event| event.at.visit_around()).collect();
        visits.dedup();
        let mut random = Random::new(seed);
        for number in 0..=visits.len() {
            let through_end = number == visits.len() || random.percent(20);
            let mut asked: BTreeSet<usize> = (number..(number + 1).min(visits.len())).collect();
            while random.percent(30) && !visits.is_empty() {
                asked.insert(usize::try_from(random.below(visits.len() as u64)).unwrap());
            }
            let slice = RunSlice::new(Vec::new()).in_visits(visited.slice(&asked, through_end).unwrap());
            slices += 1;
            let mut fold = Fold::of_slice(Arc::clone(plan), slice.clone());
            let has = |event: &&Event| event.seq <= slice.last() && slice.has(event.at.as_str());
            for event in journal.iter().filter(has) {
                if slice.asks_for(&event.at) {
                    let all = &whole[usize::try_from(event.seq).unwrap() - 1];
                    let part = shown(&fold, event);
                    assert_eq!(&part, all, "seed {seed}, {asked:?}, event {}\n{}", event.seq, case.source);
                    compared += u64::from(part.is_some());
                }
                // Which of several limits ended the loop is not always known: then all of it is read.
                if fold.apply(event).is_err() {
                    misfits += 1;
                    break;
                }
            }
        }
    }
    assert!(
        compared > 2_000 && 50 * misfits < slices,
        "{compared} compared, {misfits} of {slices} do not fit"
    );
}

/// Whoever reads what was made in a visit is among the visits that are said to be able to.
#[test]
fn readers_of_a_visit_are_where_they_are_looked_for() {
    let mut readers = 0_u64;
    for seed in seeds(200) {
        let case = Case::generated(seed, (seed % 3 == 0).then_some(1));
        let journal = case.run(&[]).journal;
        let visited = visited(&case.simulation.plan, &journal);
        let made_in = |seq: u64| {
            let made = journal.get(usize::try_from(seq).unwrap().checked_sub(1)?)?;
            visited.number(&made.at.visit_around()?)
        };
        let mut fold = Fold::new(Arc::clone(&case.simulation.plan));
        for event in &journal {
            for maker in fold.seen(event).iter().flat_map(|seen| seen.view.makers().collect::<Vec<_>>()) {
                let Maker::Event(seq) = maker else { continue };
                let Some(made_in) = made_in(seq) else { continue };
                let (visits, at_end) = visited.while_read(made_in);
                let is_found = match event.at.visit_around() {
                    Some(visit) => visits.contains(&visited.number(&visit).unwrap()),
                    None => at_end,
                };
                assert!(is_found, "seed {seed}, event {} reads event {seq}\n{}", event.seq, case.source);
                readers += 1;
            }
            fold.apply(event).unwrap();
        }
    }
    assert!(readers > 1_000, "{readers} readers");
}

// ---- the machine alone ---------------------------------------------------------------------------------

/// A machine that takes events at given times.
struct Driven {
    machine: Machine,
    seq: u64,
}

impl Driven {
    fn begin(source: &str) -> Self {
        let plan = planned(source);
        let mut world = NoWorld;
        let limits = limits(&plan.workflow, &Scope::new(), &mut Session::new(&mut world)).unwrap();
        let mut driven = Self { machine: Machine::new(Arc::clone(&plan)), seq: 0 };
        driven.take(0, "", EventKind::RunStarted(started()));
        driven.take(0, "", EventKind::LimitsResolved { computed: Vec::new(), limits });
        driven
    }

    fn take(&mut self, time: i64, at: &str, what: EventKind) -> Vec<Command> {
        self.seq += 1;
        let event = Event { seq: self.seq, time, at: Address::parse(at).unwrap(), kind: what };
        self.machine.apply(&event).unwrap()
    }

    /// A state acts, left this, and leads on.
    fn visit(&mut self, time: i64, at: &str, verdict: &str, to: &str) -> Vec<Command> {
        let fields = Hash::default();
        let began = EventKind::Started {
            as_of: 0,
            attempt: 1,
            rerun: false,
            computed: Vec::new(),
            fields,
            work: None,
        };
        self.take(time, at, began);
        let value = Datum::Here(Value::from(self.seq.to_string().as_str()));
        let output = Output {
            status: Status::Completed,
            value,
            output: None,
            stderr: None,
            meta: Value::NULL,
            spent: None,
            thread: None,
            exact: None,
        };
        self.take(time, at, EventKind::Finished { output, results: None, kept: None });
        self.judged(time, at, verdict, to)
    }

    fn judged(&mut self, time: i64, at: &str, verdict: &str, to: &str) -> Vec<Command> {
        let judged = JudgedEvent {
            as_of: self.seq,
            computed: Vec::new(),
            verdict: verdict.into(),
            confidence: None,
            reason: "".into(),
            details: Datum::Here(Value::NULL),
            to: Some(to.into()),
            measured: None,
            fingerprint: Hash::of(self.seq.to_string().as_bytes()),
            reply: None,
            kept: None,
        };
        self.take(time, at, EventKind::Judged(Box::new(judged)))
    }

    fn elapsed(&self, at: &str) -> i64 {
        self.machine.view(&Address::parse(at).unwrap()).state.unwrap().elapsed_ms
    }
}

fn started() -> RunStarted {
    let nothing = || Datum::Here(Value::NULL);
    RunStarted {
        run: "r".into(),
        workflow: "w".into(),
        file: "f".into(),
        text: Hash::default(),
        inputs: nothing(),
        imports: nothing(),
        imported: Vec::new(),
        payload: nothing(),
        set: Vec::new(),
        trust_set: false,
        folder: "".into(),
        program: "".into(),
        jobs: None,
        budgets: Vec::new(),
        files: Vec::new(),
        caller: None,
        continues: None,
        exchanges: None,
        on: None,
    }
}

/// What is kept of a loop does not grow with what it did.
#[test]
fn many_transitions_are_not_kept() {
    const TRANSITIONS: u64 = 50_000;
    let source = "initial: a\nmax_steps: 100000\nmax_stall: 3\nmax_edge_revisits: 100000\nstates:\n  a: {argv: [work, \
                  '${captured.two.previous.value | default(0)}'], capture: one, on_yes: b, on_no: a}\n  b: {argv: [work], \
                  capture: two, on_yes: a, on_no: done}\n  done: {terminal: true}\n";
    let mut driven = Driven::begin(source);
    for visit in 1..=TRANSITIONS / 2 {
        driven.visit(0, &format!("a#{visit}"), "yes", "b");
        driven.visit(0, &format!("b#{visit}"), "yes", "a");
        let kept = driven.machine.retained_entries();
        assert!(kept <= 17, "{kept} things are kept after {visit} iterations");
    }
}

/// The time in which nobody drove the loop counts neither for `loop.elapsed` nor for its `timeout`.
#[test]
fn the_time_in_between_does_not_count() {
    let source = "initial: a\ntimeout: 10s\nstates:\n  a: {argv: [work, '${loop.elapsed_ms}'], on_yes: a, on_no: \
                  done}\n  done: {terminal: true}\n";
    let mut driven = Driven::begin(source);
    driven.visit(4_000, "a#1", "yes", "a");
    assert_eq!(driven.elapsed("a#2"), 4_000);
    // Killed here, and resumed a day later.
    driven.take(86_400_000, "", EventKind::Resumed { failed: false, budgets: Vec::new(), jobs: None });
    assert_eq!(driven.elapsed("a#2"), 4_000);
    let commands = driven.visit(86_403_000, "a#2", "yes", "a");
    assert!(matches!(&commands[..], [Command::Start { .. }]), "{commands:?}");
    assert_eq!(driven.elapsed("a#3"), 7_000);
    let commands = driven.visit(86_406_000, "a#3", "yes", "a");
    let Some(Command::End { outcome: Outcome::Stopped, ended: Some(ended), .. }) = commands.last() else {
        panic!("{commands:?}")
    };
    assert_eq!((ended.reason, ended.limit), (LoopReason::Timeout, Some(10_000)));
    // Stopped at the limit, and resumed: its time begins anew, what has passed stays known.
    let (ended, outcome) = (Some(ended.clone()), Outcome::Stopped);
    let exports = Datum::Here(Value::NULL);
    driven.take(
        86_406_000,
        "",
        EventKind::RunEnded { outcome, exports, ended, failed_items: None, spent: None },
    );
    driven.take(99_000_000, "", EventKind::Resumed { failed: false, budgets: Vec::new(), jobs: None });
    assert_eq!(driven.elapsed("a#4"), 10_000);
    let commands = driven.visit(99_009_000, "a#4", "yes", "a");
    assert!(matches!(&commands[..], [Command::Start { .. }]), "{commands:?}");
}

/// The pause before another iteration is over at the same time, whatever happened meanwhile.
#[test]
fn a_pause_survives_a_kill() {
    let source = "initial: a\nbackoff: 1m\nstates:\n  a: {argv: [work], on_yes: a, on_no: done}\n  done: {terminal: \
                  true}\n";
    let mut driven = Driven::begin(source);
    let commands = driven.visit(1_000, "a#1", "yes", "a");
    let [Command::Wait { pause, .. }] = &commands[..] else { panic!("{commands:?}") };
    assert_eq!((pause.since, pause.until), (1_000, 61_000));
    driven.take(31_000, "", EventKind::Resumed { failed: false, budgets: Vec::new(), jobs: None });
    let outstanding = driven.machine.outstanding(InFlight::default()).unwrap();
    let [Command::Wait { pause, .. }] = &outstanding[..] else { panic!("{outstanding:?}") };
    assert_eq!(pause.left(31_000), 30_000);
    let commands = driven.machine.after_pause(&Address::parse("a#2").unwrap());
    assert!(matches!(commands, Some(Command::Start { attempt: 1, .. })), "{commands:?}");
}
