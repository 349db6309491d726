//! Runs without a world: the machine, driven through crashes, signals and clocks that jump, by a seed.
//!
//! A [`Simulation`] does what a driver does, one small thing after the other, in an order that the seed decides. Its
//! journal is in memory: a kill keeps what was written, a power loss what is on disk, and of the rest some or none.
//! What steps would do is invented, see [`chance`]. After every event the promises of a run are checked, see [`check`];
//! the first that is broken ends the simulation.
//!
//! Nothing here knows a clock, a thread or a file, and the same seed gives the same journal.

pub mod chance;
pub mod check;
mod driver;
mod effects;
pub mod elsewhere;
mod facts;
mod life;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use ecow::EcoString;
use threadline_flow::model::OnCrash;
use threadline_flow::plan::Plan;
use threadline_lang::{Scope, Value};

use crate::event::{Address, Event, SafeEvents, Seq, Status};
use crate::machine::{Machine, Outcome};
use crate::random::Random;
use crate::view::RunNames;
use chance::{Chances, Fate, Fated};
use check::{PromiseChecker, Violation};
use elsewhere::{ActHistory, Elsewhere, Mishaps};
use life::{Life, LifeEnd};

/// A run to be simulated.
#[derive(Clone)]
pub struct Simulation {
    /// The plan that is simulated.
    pub plan: Arc<Plan>,
    /// Decides everything that is not said here.
    pub seed: u64,
    /// How often what happens to steps.
    pub chances: Chances,
    /// How many steps run at once.
    pub jobs: usize,
    /// What happens to each life of the program; those after the last come to their end.
    pub interruptions: Vec<Interruption>,
    /// Whether the clock of the machine jumps.
    pub jumps: bool,
    /// Whether a run that failed is put right and resumed, and one that let items fail, too.
    pub mend: bool,
    /// So many times it is resumed with new luck before everything is put right.
    pub tries: u32,
    /// What goes wrong with the machines that perform programs; nothing where they are performed here.
    pub elsewhere: Option<Mishaps>,
}

/// What happens to one life of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interruption {
    /// At which append of this life, from 1.
    pub append: u64,
    /// Before or after it.
    pub moment: InterruptMoment,
    /// What happens to the program.
    pub how: Interrupt,
}

/// Before or after an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterruptMoment {
    /// Right before it.
    Before,
    /// Right after it: it is numbered, and perhaps on disk.
    After,
}

/// What happens to the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interrupt {
    /// It is killed: what it wrote stays.
    Kill(Kept),
    /// The machine stops: what is on disk stays.
    PowerLoss(Kept),
    /// It is asked to start nothing new.
    Stop,
    /// It is asked twice: what runs is ended.
    Cancel,
}

/// What a crash leaves of the events that were appended and not safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// None of them.
    Nothing,
    /// So many as the seed says.
    Some,
    /// All: they were written, and nobody was told.
    All,
}

/// How a simulation ended.
#[derive(Debug)]
pub struct SimulationReport {
    /// How the run ended.
    pub outcome: Outcome,
    /// Every event of the run.
    pub journal: Vec<Event>,
    /// How many events each life appended.
    pub appends: Vec<u64>,
    /// Every attempt that was really made, in order.
    pub executions: Vec<Execution>,
    /// Every message that agents were really asked for, in order.
    pub asked: Vec<AskedMessage>,
    /// The last value of each name of the run.
    pub names: BTreeMap<EcoString, i64>,
    /// How each execution ended, and with which value.
    pub results: BTreeMap<Address, (Status, i64)>,
    /// How each item ended, and with which attempt.
    pub items: BTreeMap<Address, (Status, u32)>,
    /// Whether a step failed because it was running at a crash.
    pub failed_by_crash: bool,
    /// Every act that was performed elsewhere.
    pub acts: Vec<ActHistory>,
    /// How many answers were lost, and how many requests arrived twice.
    pub lost_and_doubled: (u64, u64),
    /// How often somebody decided that what was cut off runs again.
    pub decided_again: u32,
}

/// An attempt that was really made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    /// Of which step.
    pub at: Address,
    /// The same with how often the items around it had begun again.
    pub fated: Fated,
    /// The number of the attempt.
    pub attempt: u32,
    /// Which exchange of it with an agent, from 0.
    pub exchange: u32,
    /// In which life of the program.
    pub life: usize,
}

/// A message that an agent was really asked for, and what it really used: also where nobody heard of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedMessage {
    /// Which execution asked.
    pub at: Address,
    /// The number of events that were recorded when it was asked, and are left.
    pub after: Seq,
    /// The number of events that were recorded when the machine admitted it, and are left. Those of other executions
    /// since then could not change that any more.
    pub admitted: Seq,
    /// The tokens that it read.
    pub input_tokens: u64,
    /// The tokens that it wrote.
    pub output_tokens: u64,
    /// How long it worked, in milliseconds.
    pub elapsed_ms: u64,
}

/// What outlives the program.
struct Outside {
    asked: Vec<AskedMessage>,
    journal: Vec<Event>,
    safe: SafeEvents,
    /// The machine's clock, which may jump.
    clock: i64,
    /// A clock that does not.
    steady: u64,
    random: Random,
    checker: PromiseChecker,
    life: usize,
    /// Whether the run is a loop, which knows how long it has been going on.
    walks: bool,
    /// The machines that perform programs.
    elsewhere: Option<Elsewhere>,
    /// How often somebody decided that what was cut off runs again.
    decided_again: u32,
    /// How often the run stopped because a budget was used up.
    over_budget: u32,
    /// So many more things may happen before the simulation counts as endless.
    fuel: u64,
}

impl SafeEvents {
    /// All events are.
    fn all(journal: &[Event]) -> Self {
        Self { written: journal.len() as u64, durable: journal.len() as u64 }
    }
}

/// More than any run of a test needs.
const FUEL: u64 = 5_000_000;

/// What is kept of a run that completed, beside its last lists: its own list, and the scope of the run.
const KEPT: usize = 2;

/// So long a killed run lies at most before somebody goes on with it, in milliseconds.
const LONGEST_DOWN: u64 = 60 * 60 * 1_000;

/// So long nobody drives a run whose programs go on elsewhere, in milliseconds.
const LONGEST_BETWEEN: u64 = 4_000;

/// 2026, in milliseconds.
const FIRST_MOMENT: i64 = 1_767_225_600_000;

impl Simulation {
    /// A run that nothing interrupts.
    pub fn new(plan: Arc<Plan>, seed: u64) -> Self {
        let (chances, interruptions) = (Chances::default(), Vec::new());
        Self {
            plan,
            seed,
            chances,
            jobs: 4,
            interruptions,
            jumps: false,
            mend: false,
            tries: 0,
            elsewhere: None,
        }
    }

    /// So much is kept of a run that completed. What is kept of a loop does not grow with what it did: each state and
    /// each way between two, and for each name what it stood for last and before, with its verdict.
    fn most_kept(&self) -> usize {
        let states = self.plan.states.as_ref().map_or(0, |states| states.routes.len());
        let names = if states == 0 { 0 } else { self.plan.names().len() };
        KEPT + self.plan.run_parts.len() + states * states + 2 * states + 3 * names + usize::from(states > 0)
    }

    /// What the run gives to every step: its inputs have their defaults.
    fn names(&self) -> Scope {
        let workflow = &self.plan.workflow;
        let inputs = workflow.inputs.iter().map(|input| {
            let value = input.default.clone().unwrap_or_default();
            (input.name.clone(), value)
        });
        let nothing = Value::empty_object;
        let (inputs, name) = (Value::record(inputs), workflow.name.clone());
        let (run, start_time) = ("simulated".into(), EcoString::new());
        let names =
            RunNames { inputs, imports: nothing(), payload: nothing(), workflow: name, run, start_time };
        names.scope(&self.plan)
    }

    /// The order of things: another one for each way of being interrupted.
    fn random(&self) -> Random {
        let mut random = Random::new(self.seed);
        for Interruption { append, moment, how } in &self.interruptions {
            let is_crash = matches!(how, Interrupt::Kill(_) | Interrupt::PowerLoss(_));
            let kind = 3 * u64::from(*moment == InterruptMoment::After) + u64::from(is_crash);
            random = Random::new(random.number() ^ (8 * append + kind));
        }
        random
    }

    /// Runs it to its end.
    pub fn run(&self) -> Result<SimulationReport, Violation> {
        let mut fate = Fate { seed: self.seed, chances: self.chances, luck: 0, mended: false };
        let mut outside = Outside {
            asked: Vec::new(),
            journal: Vec::new(),
            safe: SafeEvents::default(),
            clock: FIRST_MOMENT,
            steady: 0,
            random: self.random(),
            checker: PromiseChecker::new(Arc::clone(&self.plan), self.elsewhere.is_some()),
            life: 0,
            walks: self.plan.states.is_some(),
            elsewhere: self.elsewhere.map(|mishaps| Elsewhere::new(mishaps, self.random().number())),
            decided_again: 0,
            over_budget: 0,
            fuel: FUEL,
        };
        let mut appends = Vec::new();
        let mut in_flight = None;
        loop {
            let interruption = self.interruptions.get(outside.life).copied();
            let mut life = Life::new(self, fate, interruption, in_flight.take(), &mut outside);
            let end = life.live()?;
            appends.push(life.appends());
            let machine = life.into_machine();
            match end {
                LifeEnd::Ended(outcome) if self.mend && !fate.mended && outside.goes_on(outcome) => {
                    fate.luck += 1;
                    fate.mended = fate.luck > self.tries;
                }
                LifeEnd::Ended(outcome) => {
                    outside.checker.ended(&outside.journal, outcome)?;
                    let let_fail = outside.checker.has_tolerated_failures();
                    if let_fail != machine.has_tolerated_failures() {
                        let what = format!("items were let fail: {let_fail}, the machine says otherwise");
                        return Err(Violation { seq: machine.last(), what });
                    }
                    if outcome == Outcome::Completed
                        && machine.retained_entries() > self.most_kept()
                        && !let_fail
                    {
                        let what =
                            format!("{} things of a completed run are kept", machine.retained_entries());
                        return Err(Violation { seq: machine.last(), what });
                    }
                    return Ok(report(outcome, &machine, appends, outside));
                }
                LifeEnd::Killed(safe, kept) => outside.crash(safe, kept)?,
                LifeEnd::Stopped => {}
                LifeEnd::Waiting => {
                    let again = outside.random.percent(50);
                    outside.decided_again += u32::from(again);
                    in_flight = Some(if again { OnCrash::Rerun } else { OnCrash::Fail });
                }
            }
            outside.life += 1;
        }
    }
}

impl Outside {
    /// Whether there is something to go on with at this end of the run.
    fn goes_on(&self, outcome: Outcome) -> bool {
        outcome != Outcome::Completed || self.checker.has_tolerated_failures()
    }

    /// What was not safe may be lost, from some event on.
    fn crash(&mut self, safe: Seq, kept: Kept) -> Result<(), Violation> {
        let pending = self.journal.len() as u64 - safe;
        let kept = match kept {
            Kept::Nothing => 0,
            Kept::Some => self.random.below(pending + 1),
            Kept::All => pending,
        };
        let left = safe + kept;
        if self.walks {
            // Nobody drives it for a while.
            self.clock += i64::try_from(self.random.below(LONGEST_DOWN)).unwrap_or(0);
        }
        if self.elsewhere.is_some() {
            // Meanwhile other machines go on.
            let passed = self.random.below(LONGEST_BETWEEN);
            self.steady += passed;
            self.clock += i64::try_from(passed).unwrap_or(0);
        }
        self.journal.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        for asked in &mut self.asked {
            asked.after = asked.after.min(left);
            asked.admitted = asked.admitted.min(left);
        }
        if left >= self.safe.written {
            self.checker.starts_are_known(&self.journal)?;
        }
        self.safe = SafeEvents::all(&self.journal);
        self.checker.crashed(&self.journal);
        Ok(())
    }
}

fn report(outcome: Outcome, machine: &Machine, appends: Vec<u64>, outside: Outside) -> SimulationReport {
    let value = |seq: Seq| check::value_of(&outside.journal, seq);
    SimulationReport {
        outcome,
        appends,
        names: machine.names().into_iter().map(|(name, seq)| (name, value(seq))).collect(),
        results: outside.checker.results(&outside.journal),
        items: outside.checker.results_of_items(),
        failed_by_crash: outside.checker.failed_by_crash(),
        acts: outside.elsewhere.as_ref().map(Elsewhere::histories).unwrap_or_default(),
        lost_and_doubled: outside.elsewhere.as_ref().map_or((0, 0), |all| (all.lost, all.doubled)),
        decided_again: outside.decided_again,
        executions: outside.checker.into_executions(),
        asked: outside.asked,
        journal: outside.journal,
    }
}

/// A journal as text: what is the same here is the same on disk.
pub fn text(journal: &[Event]) -> String {
    let mut text = String::new();
    for event in journal {
        // Writing into a text cannot fail.
        let _ = writeln!(text, "{event:?}");
    }
    text
}
