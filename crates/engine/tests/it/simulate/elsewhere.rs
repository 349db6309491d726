//! Runs whose programs are performed by other machines, of which all goes wrong that can: workers die before, while and
//! after a program runs, answers are late and get lost, requests arrive twice, and the coordinator is killed at its
//! writes. The result is that of a run which nothing disturbed, and a program begins again only where a worker died.

use std::collections::BTreeMap;

use threadline_engine::machine::Outcome;
use threadline_engine::random::Random;
use threadline_engine::simulator::chance::Fated;
use threadline_engine::simulator::elsewhere::Mishaps;
use threadline_engine::simulator::{
    Interrupt, InterruptMoment, Interruption, Kept, Simulation, SimulationReport,
};

use super::{Case, PHASES, PLAIN, POLICIES, Style, every_append, interruption, seeds};

/// What goes wrong with the machines of a seed: in every fourth run nothing but messages.
fn mishaps(seed: u64) -> Mishaps {
    let mut random = Random::new(seed ^ 0xe15e);
    let mut percent = |most: u64| random.below(most + 1);
    let (loses, doubles, delay) = (percent(40), percent(40), percent(800));
    let messages = Mishaps { loses, doubles, delay, ..Mishaps::default() };
    if seed.is_multiple_of(4) {
        return messages;
    }
    Mishaps { dies_before: percent(20), dies_during: percent(30), dies_after: percent(20), ..messages }
}

fn case(seed: u64, styles: &[Style]) -> Case {
    let style = styles[usize::try_from(seed).unwrap_or(0) % styles.len()];
    let mut case = Case::generated(seed, style);
    case.simulation.elsewhere = Some(mishaps(seed));
    case
}

/// What happens to a coordinator after an append, by turns.
fn crashes(append: u64, moment: InterruptMoment, random: &mut Random) -> Vec<Interruption> {
    let sorts = [
        Interrupt::Kill(Kept::Nothing),
        Interrupt::PowerLoss(Kept::Nothing),
        Interrupt::Kill(Kept::All),
        Interrupt::Cancel,
        Interrupt::Cancel,
    ];
    let how = sorts[usize::try_from(random.below(5)).unwrap_or(0)];
    let mut all = vec![interruption(append, moment, how)];
    // And again while it goes on.
    while random.percent(40) {
        let again = 1 + random.below(append + 2);
        all.push(interruption(again, moment, Interrupt::PowerLoss(Kept::Some)));
    }
    all
}

/// What was seen in all runs of a test.
#[derive(Debug, Default)]
struct Seen {
    runs: u64,
    acts: u64,
    deaths: u64,
    again: u64,
    ended: u64,
    lost: u64,
    doubled: u64,
    decided: u64,
    failed: u64,
}

impl Seen {
    /// Looks whether programs began no oftener than they may.
    fn take(&mut self, case: &Case, interruptions: &[Interruption], report: &SimulationReport) {
        let mut executions: BTreeMap<&(Fated, u32, u32), (usize, usize, bool)> = BTreeMap::new();
        for act in &report.acts {
            if act.once && act.begun.len() > 1 {
                case.fail(interruptions, &format!("an act that may begin once began again: {act:?}"));
            }
            let (begun, allowed, once) = executions.entry(&act.of).or_default();
            *begun += act.begun.len();
            *allowed += if act.once { 0 } else { act.deaths.len() + usize::from(act.was_ended) };
            *once |= act.once;
            self.acts += 1;
            self.deaths += act.deaths.len() as u64;
            self.ended += u64::from(act.was_ended);
        }
        for (of, (begun, allowed, once)) in executions {
            let decided = if once { report.decided_again as usize } else { 0 };
            self.again += begun.saturating_sub(1) as u64;
            if begun > 1 + allowed + decided {
                let what = format!("{of:?} began {begun} times, and may {}", 1 + allowed + decided);
                case.fail(interruptions, &what);
            }
        }
        self.runs += 1;
        self.lost += report.lost_and_doubled.0;
        self.doubled += report.lost_and_doubled.1;
        self.decided += u64::from(report.decided_again);
        self.failed += u64::from(report.failed_by_crash);
    }

    fn sweep(&mut self, case: &Case, every: usize) {
        let calm = Simulation { elsewhere: None, ..case.simulation.clone() };
        let undisturbed = calm.run().unwrap_or_else(|violation| case.fail(&[], &violation.to_string()));
        let mut random = Random::new(case.simulation.seed);
        for (append, moment) in every_append(&undisturbed).step_by(every) {
            let crashes = crashes(append, moment, &mut random);
            let report = case.run(&crashes);
            case.check(&crashes, &report);
            self.take(case, &crashes, &report);
        }
    }
}

#[test]
fn programs_elsewhere_come_to_the_same_whatever_dies() {
    let mut seen = Seen::default();
    for seed in seeds(50) {
        let case = case(seed, &[PLAIN, PHASES, POLICIES]);
        let calm = case.run(&[]);
        case.check(&[], &calm);
        seen.take(&case, &[], &calm);
        seen.sweep(&case, 5);
    }
    println!("{seen:?}");
    assert_eq!((seen.failed, seen.decided), (0, 0), "nothing fails because a machine died");
    assert!(seen.again > 0 && seen.again <= seen.deaths + seen.ended, "{seen:?}");
    assert!(seen.ended > 10 && seen.lost.min(seen.doubled) > 100, "{seen:?}");
}

#[test]
fn what_may_begin_once_elsewhere_never_begins_twice() {
    let mut seen = Seen::default();
    let styles = [PLAIN, PHASES].map(|style| Style { on_crash: true, ..style });
    for seed in seeds(50) {
        seen.sweep(&case(seed, &styles), 5);
    }
    println!("{seen:?}");
    assert!(seen.failed.min(seen.decided).min(seen.deaths) > 20, "{seen:?}");
}

/// A list whose only program may not run twice: nothing but the death of its worker cuts it off, not that of the
/// coordinator.
#[test]
fn a_coordinator_that_dies_cuts_nothing_off() {
    let source = "steps:\n  - foreach: [1, 2, 3]\n    parallel: 2\n    do: [{argv: [pay], on_crash: fail}]\n";
    for seed in seeds(50) {
        let mut case = Case::new(source.to_owned(), seed);
        let messages = Mishaps { dies_before: 0, dies_during: 0, dies_after: 0, ..mishaps(seed) };
        case.simulation.elsewhere = Some(messages);
        let undisturbed = case.run(&[]);
        for (append, moment) in every_append(&undisturbed) {
            let kill = [interruption(append, moment, Interrupt::PowerLoss(Kept::Nothing))];
            let report = case.run(&kill);
            case.check(&kill, &report);
            let begun: usize = report.acts.iter().map(|act| act.begun.len()).sum();
            assert_eq!(begun, report.acts.len(), "seed {seed}, {kill:?}");
            assert!(!report.failed_by_crash && report.outcome == undisturbed.outcome);
            assert_ne!(report.outcome, Outcome::Stopped);
        }
    }
}
