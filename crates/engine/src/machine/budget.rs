//! Budgets: whether agents may be asked once more, in the run, in a list of items and in a step.
//!
//! What was spent is summed from the events, so it is exact after a crash. A call in flight has no event; it counts as
//! one turn, and nobody knows what else it will use: what is spent exceeds a limit by no more than what was in flight
//! when the limit was reached. A call that breaks off, or that a crash cuts off, has an event with an estimate before
//! the next one begins.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use ecow::EcoString;
use threadline_flow::model::{Action, Budget, BudgetKey, Evaluator};
use threadline_flow::plan::{Plan, StepNumber};
use threadline_lang::diag::words;

use super::{Machine, StepStage};
use crate::event::{Address, BudgetChange, Event, EventKind};
use crate::spend::Spend;

/// A budget that is used up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetReached {
    /// The step whose budget it is; none for that of the run.
    pub step: Option<EcoString>,
    /// The limit that was reached.
    pub key: BudgetKey,
    /// The limit, as people read it.
    pub allowed: String,
    /// What is spent, as people read it.
    pub spent: String,
    /// How many messages do not say what the limit is about.
    pub unknown: u64,
}

impl fmt::Display for BudgetReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, key, allowed, spent, unknown } = self;
        match step {
            Some(step) => write!(f, "the budget of `{step}`")?,
            None => f.write_str("the budget of the run")?,
        }
        if *unknown > 0 {
            let messages = words::count(*unknown, "message");
            let what = if *key == BudgetKey::Cost { "cost" } else { "tokens" };
            return write!(f, " cannot be kept: the {what} of {messages} is not known");
        }
        write!(f, " is used up: {spent} of {allowed}")
    }
}

/// The budgets of a run, and what is spent of them.
#[derive(Default)]
pub(super) struct BudgetLedger {
    /// The limits by step; none is the run.
    limits: BTreeMap<Option<StepNumber>, Budget>,
    /// What is spent within executions, as long as they go on: also where there is no budget yet.
    within: BTreeMap<Address, Spend>,
    /// The executions that ask an agent now.
    in_flight: BTreeSet<Address>,
    /// What called runs that go on have spent that their caller has not recorded, and how many calls of them are in
    /// flight.
    called: BTreeMap<Address, (Spend, u64)>,
    /// How many messages of the run do not say their tokens, and how many not their cost, that whoever gave it another
    /// budget knew of.
    accepted: (u64, u64),
}

impl BudgetLedger {
    pub(super) fn new(plan: &Plan) -> Self {
        let of_run = plan.workflow.budget.clone().map(|budget| (None, budget));
        let of_steps = (0..).zip(&plan.steps).filter_map(|(number, planned): (StepNumber, _)| {
            Some((Some(number), planned.step.budget.clone()?))
        });
        Self { limits: of_run.into_iter().chain(of_steps).collect(), ..Self::default() }
    }

    /// The executions around an execution, and itself, whose step has a budget.
    fn scopes(&self, plan: &Plan, at: &Address) -> Vec<(StepNumber, Address)> {
        if self.limits.keys().all(Option::is_none) {
            return Vec::new();
        }
        let of_step = around(at).filter_map(|at| at.step(plan).map(|step| (step, at)));
        of_step.filter(|(step, _)| self.limits.contains_key(&Some(*step))).collect()
    }

    /// Takes other limits. What is not known of messages by then counts as nothing: whoever sets a limit has seen that.
    fn change(&mut self, plan: &Plan, changes: &[BudgetChange], of_run: &Spend) {
        for BudgetChange { step, budget } in changes {
            if step.is_none() {
                let (tokens, cost) = &mut self.accepted;
                *tokens = if budget.tokens.is_some() { of_run.uncounted } else { *tokens };
                *cost = if budget.cost.is_some() { of_run.unpriced } else { *cost };
            }
            let number = match step {
                None => None,
                // Which steps there are was looked at when the change was asked for.
                Some(path) => match (0..).zip(&plan.steps).find(|(_, planned)| planned.number == *path) {
                    Some((number, _)) => Some(number),
                    None => continue,
                },
            };
            self.limits.entry(number).or_default().change(budget);
            let within = self.within.iter_mut().filter(|(at, _)| number.is_some() && at.step(plan) == number);
            for (_, spent) in within {
                spent.uncounted = if budget.tokens.is_some() { 0 } else { spent.uncounted };
                spent.unpriced = if budget.cost.is_some() { 0 } else { spent.unpriced };
            }
        }
    }

    /// Takes what an event says about what is spent and what is in flight.
    pub(super) fn note(&mut self, plan: &Plan, event: &Event, of_run: &Spend) {
        let at = &event.at;
        match &event.kind {
            EventKind::RunStarted(started) => self.change(plan, &started.budgets, of_run),
            EventKind::Resumed { budgets, .. } => self.change(plan, budgets, of_run),
            _ => {}
        }
        if let Some(spent) = event.kind.spent() {
            for scope in around(at) {
                self.within.entry(scope).or_default().add(spent);
            }
        }
        match &event.kind {
            EventKind::Exchanged { held, .. } => {
                self.called.remove(at);
                if *held {
                    self.in_flight.remove(at);
                }
            }
            EventKind::Finished { .. } | EventKind::Unresolved { .. } | EventKind::Judged(_) => {
                self.called.remove(at);
                self.in_flight.remove(at);
                self.within.remove(at);
            }
            EventKind::Retrying { .. } => {
                self.called.remove(at);
                self.in_flight.remove(at);
            }
            EventKind::CallLost { .. } => {
                self.in_flight.remove(at);
            }
            _ => {}
        }
    }

    /// The limit of a budget that does not allow one more call.
    fn reached(budget: &Budget, spent: &Spend, in_flight: u64) -> Option<(BudgetKey, u64, String, String)> {
        let Budget { turns, tokens, cost, time } = budget;
        let turns_spent = spent.turns.saturating_add(in_flight);
        let count = |count: u64, word: &str| words::count(count, word);
        if let Some(most) = turns.filter(|most| turns_spent >= *most) {
            return Some((BudgetKey::Turns, 0, count(most, "turn"), turns_spent.to_string()));
        }
        if let Some(most) = tokens.filter(|most| spent.uncounted > 0 || spent.tokens() >= *most) {
            let used = spent.tokens().to_string();
            return Some((BudgetKey::Tokens, spent.uncounted, count(most, "token"), used));
        }
        if let Some(most) = cost.as_ref().filter(|most| spent.unpriced > 0 || spent.cost >= **most) {
            let used = format!("${}", spent.cost);
            return Some((BudgetKey::Cost, spent.unpriced, format!("${most}"), used));
        }
        let elapsed = Duration::from_millis(spent.elapsed_ms);
        let most = time.filter(|most| elapsed >= *most)?;
        Some((BudgetKey::Time, 0, words::duration(most), words::duration(elapsed)))
    }

    /// Whether one more call may begin in an execution that has used `used` since the last event of its own.
    fn check(&self, plan: &Plan, of_run: &Spend, at: &Address, used: &Spend) -> Result<(), BudgetReached> {
        let steps = self.scopes(plan, at).into_iter().map(|(step, scope)| (Some(step), scope));
        for (step, scope) in steps.chain([(None, Address::root())]) {
            let Some(budget) = self.limits.get(&step) else { continue };
            let is_within = |at: &&Address| step.is_none() || **at == scope || at.is_in_items_of(&scope);
            let mut spent = match step {
                None => {
                    let (tokens, cost) = self.accepted;
                    let uncounted = of_run.uncounted.saturating_sub(tokens);
                    let unpriced = of_run.unpriced.saturating_sub(cost);
                    Spend { uncounted, unpriced, ..of_run.clone() }
                }
                Some(_) => self.within.get(&scope).cloned().unwrap_or_default(),
            };
            spent.add(used);
            let mut in_flight =
                self.in_flight.iter().filter(|other| *other != at).filter(is_within).count() as u64;
            for (_, (unrecorded, calls)) in self.called.iter().filter(|(caller, _)| is_within(caller)) {
                spent.add(unrecorded);
                in_flight = in_flight.saturating_add(*calls);
            }
            if let Some((key, unknown, allowed, spent)) = Self::reached(budget, &spent, in_flight) {
                let step = step.map(|step| plan.steps[step as usize].label.clone());
                return Err(BudgetReached { step, key, allowed, spent, unknown });
            }
        }
        Ok(())
    }
}

/// The lists around an execution, and itself.
fn around(at: &Address) -> impl Iterator<Item = Address> {
    at.items_around().filter_map(|item| Some(item.as_item()?.0)).chain([at.clone()])
}

impl Machine {
    /// Whether an agent may be asked once more in an execution, which has used `used` since the last event of its own. If
    /// so, the call is in flight until an event says what came of it.
    pub fn admit(&mut self, at: &Address, used: &Spend) -> Result<(), BudgetReached> {
        self.budgets.check(&self.plan, &self.spent, at, used)?;
        self.budgets.in_flight.insert(at.clone());
        Ok(())
    }

    /// What a crash left in flight stays so until an event says what it counts as.
    pub(super) fn note_in_doubt(&mut self) {
        for (at, active) in self.active.iter().filter(|(_, active)| active.in_doubt) {
            let step = &self.plan.steps[active.step as usize].step;
            let asks = match active.stage {
                StepStage::Running => matches!(step.action, Action::Agent { .. }),
                StepStage::Judging => matches!(step.evaluator(), Some(Evaluator::Agent(_))),
                _ => false,
            };
            if asks {
                self.budgets.in_flight.insert(at.clone());
            }
        }
    }

    /// Whether anything limits what its agents may use.
    pub fn has_budgets(&self) -> bool {
        !self.budgets.limits.is_empty()
    }

    /// Takes back that a call is in flight: what is around the run does not allow it.
    pub fn withdraw(&mut self, at: &Address) {
        self.budgets.in_flight.remove(at);
    }

    /// Keeps what a called run has spent that this run has not recorded, and how many calls of it are in flight.
    pub fn note_called(&mut self, at: &Address, spent: Spend, in_flight: u64) {
        self.budgets.called.insert(at.clone(), (spent, in_flight));
    }

    /// Whether an agent may be asked once more in the run that an execution called.
    pub fn admit_called(&self, at: &Address) -> Result<(), BudgetReached> {
        self.budgets.check(&self.plan, &self.spent, at, &Spend::default())
    }

    /// What this run and the runs that it called and that go on have spent, and how many of their calls are in flight.
    pub fn total_spent(&self) -> (Spend, u64) {
        let mut spent = self.spent.clone();
        let mut in_flight = self.budgets.in_flight.len() as u64;
        for (unrecorded, calls) in self.budgets.called.values() {
            spent.add(unrecorded);
            in_flight = in_flight.saturating_add(*calls);
        }
        (spent, in_flight)
    }
}
