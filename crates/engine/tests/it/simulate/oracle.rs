//! What a workflow comes to, told without events: the plan, walked once, with the fate of every step known.
//!
//! It shares no code with the machine; where the two disagree, one of them is wrong.

use std::collections::BTreeMap;
use std::sync::Arc;

use ecow::EcoString;
use threadline_engine::event::{Address, Status};
use threadline_engine::machine::Outcome;
use threadline_engine::simulator::chance::{Fate, Fated};
use threadline_flow::fields::FailureKind;
use threadline_flow::model::{
    Action, FailureMatch, ForEach, OnItemFailure, Phase, Retry, RetryConditions, Setting, Step,
};
use threadline_flow::plan::{ListNumber, Part, Plan, Read, StepNumber};

/// What came of a workflow.
#[derive(Debug)]
pub(crate) struct Expected {
    pub(crate) outcome: Outcome,
    pub(crate) names: BTreeMap<EcoString, i64>,
    pub(crate) results: BTreeMap<Address, (Status, i64)>,
    /// How each item ended, and with which attempt.
    pub(crate) items: BTreeMap<Address, (Status, u32)>,
    /// Whether items ran side by side and one failed: which of the others began is left to chance.
    pub(crate) racy: bool,
}

pub(crate) fn expect(plan: &Arc<Plan>, fate: Fate) -> Expected {
    let mut walk = Walk {
        plan,
        fate,
        scopes: vec![Names::default()],
        results: BTreeMap::new(),
        items: BTreeMap::new(),
        begun: BTreeMap::new(),
        mapped: None,
        outcome: None,
        racy: false,
    };
    let mut well = walk.list(0, &Address::root(), None).0;
    let after = if well { Part::OnSuccess } else { Part::OnFailure };
    for part in [after, Part::Finally] {
        let outcome = if well { Outcome::Completed } else { Outcome::Failed };
        walk.outcome = i64::try_from(outcome.name().len()).ok();
        if let Some(list) = plan.run_part(part) {
            well &= walk.list(list, &Address::of_run(part), None).0;
        }
    }
    let Names { outputs, captured, .. } = walk.scopes.remove(0);
    Expected {
        outcome: if well { Outcome::Completed } else { Outcome::Failed },
        names: outputs.into_iter().chain(captured).collect(),
        results: walk.results,
        items: walk.items,
        racy: walk.racy,
    }
}

#[derive(Default)]
struct Names {
    outputs: BTreeMap<EcoString, i64>,
    captured: BTreeMap<EcoString, i64>,
    item: Option<i64>,
}

struct Walk<'p> {
    plan: &'p Plan,
    fate: Fate,
    scopes: Vec<Names>,
    results: BTreeMap<Address, (Status, i64)>,
    items: BTreeMap<Address, (Status, u32)>,
    /// How often each item has begun again.
    begun: BTreeMap<Address, u32>,
    /// How many items the map has, while it goes on.
    mapped: Option<i64>,
    /// How the run has ended so far, for the lists that run then.
    outcome: Option<i64>,
    racy: bool,
}

const FAILED: i64 = -1;
const SKIPPED: i64 = -2;

impl Walk<'_> {
    /// Whether a list went well, and the value of its last executed step.
    fn list(&mut self, list: ListNumber, at: &Address, mut prev: Option<i64>) -> (bool, Option<i64>) {
        let plan = &self.plan.lists[list as usize];
        for (index, number) in plan.steps.iter().enumerate() {
            if !self.step(*number, &at.child(plan, index), &mut prev) {
                return (false, prev);
            }
        }
        (true, prev)
    }

    /// Whether its list goes on behind a step.
    fn step(&mut self, number: StepNumber, at: &Address, prev: &mut Option<i64>) -> bool {
        let step = Arc::clone(&self.plan.steps[number as usize].step);
        let fated = self.fated(at);
        let decidable = step.when.is_none() || self.fate.evaluates(&fated, "when");
        if step.when.is_some() && decidable && !self.fate.holds(&fated) {
            self.set(&step, SKIPPED, false);
            self.results.insert(at.clone(), (Status::Skipped, SKIPPED));
            return true;
        }
        if let Action::Phase(phase) = &step.action {
            return self.phase(number, phase, &step, at);
        }
        let value = decidable.then(|| self.value(number, &step, at, *prev)).flatten();
        let left = value.unwrap_or(FAILED);
        self.set(&step, left, true);
        *prev = Some(left);
        let status = if value.is_some() { Status::Completed } else { Status::Failed };
        self.results.insert(at.clone(), (status, left));
        let mut well = value.is_some();
        let after = if well { Part::OnSuccess } else { Part::OnFailure };
        for part in [after, Part::Finally] {
            if let Some(list) = self.plan.part(number, part) {
                well &= self.list(list, &at.part(part), Some(left)).0;
            }
        }
        well || step.continue_on_error
    }

    /// Whether a phase went well. Of its names those that it exports stay.
    fn phase(&mut self, number: StepNumber, phase: &Phase, step: &Step, at: &Address) -> bool {
        self.scopes.push(Names::default());
        let list = self.plan.part(number, Part::Do);
        let (well, result) = list.map_or((true, None), |list| self.list(list, at, None));
        let inner = self.scopes.pop().unwrap_or_default();
        if !well {
            return false;
        }
        let left: Vec<i64> = result.into_iter().chain(inner.captured.values().copied()).collect();
        let fated = self.fated(at);
        let well = self.fate.evaluates(&fated, "variables");
        let value = if well { self.fate.value(&fated, &left) } else { FAILED };
        let status = if well { Status::Completed } else { Status::Failed };
        self.set(step, value, true);
        self.results.insert(at.clone(), (status, value));
        if let Some(outer) = self.scopes.last_mut().filter(|_| well) {
            for name in &phase.exports {
                let (output, captured) = (inner.outputs.get(&name.value), inner.captured.get(&name.value));
                outer.outputs.extend(output.map(|value| (name.value.clone(), *value)));
                outer.captured.extend(captured.map(|value| (name.value.clone(), *value)));
            }
        }
        well
    }

    fn value(&mut self, number: StepNumber, step: &Step, at: &Address, prev: Option<i64>) -> Option<i64> {
        if let Action::ForEach(each) = &step.action {
            return self.for_each(number, at, each);
        }
        let fated = self.fated(at);
        if !self.fate.evaluates(&fated, "fields") {
            return None;
        }
        let kind = match &step.action {
            Action::WriteFile(_) => FailureKind::File,
            // One that is asked over a network.
            Action::Agent { agent, .. } if agent.value == "caller" => FailureKind::Http,
            _ => FailureKind::Signal,
        };
        let is_refused = |retry: &Retry| {
            let names = |list: &[FailureMatch]| list.contains(&FailureMatch::Kind(kind));
            let RetryConditions { on, not_on } = &retry.conditions;
            names(not_on) || on.as_ref().is_some_and(|on| !names(on))
        };
        // A server that cannot answer now is asked again, also where nothing is said about it.
        let usual = if kind == FailureKind::Http && step.retry.is_none() { 5 } else { 1 };
        if let Some(attempts) = step.retry.as_ref().and_then(Retry::fixed_attempts) {
            return self.mended(number, step, at, prev, u32::try_from(attempts).unwrap_or(u32::MAX));
        }
        let attempts = step.retry.as_ref().filter(|retry| !is_refused(retry)).map_or(usual, attempts);
        let well = (1..=attempts).any(|attempt| self.fate.well(&fated, attempt));
        well.then(|| self.fate.value(&fated, &self.reads(number, prev)))
    }

    /// A step with steps between its attempts.
    fn mended(
        &mut self,
        number: StepNumber,
        step: &Step,
        at: &Address,
        prev: Option<i64>,
        attempts: u32,
    ) -> Option<i64> {
        let fated = self.fated(at);
        let fix = self.plan.part(number, Part::Fix)?;
        for attempt in 1..=attempts {
            if self.fate.well(&fated, attempt) {
                return Some(self.fate.value(&fated, &self.reads(number, prev)));
            }
            self.set(step, FAILED, true);
            if attempt == attempts || !self.list(fix, &at.part(Part::Fix), Some(FAILED)).0 {
                return None;
            }
        }
        None
    }

    fn for_each(&mut self, number: StepNumber, at: &Address, each: &ForEach) -> Option<i64> {
        let fated = self.fated(at);
        if !self.fate.evaluates(&fated, "foreach") {
            return None;
        }
        let list = self.plan.part(number, Part::Do)?;
        let parallel = each.parallel.as_ref().and_then(fixed).unwrap_or(1);
        let stop = (each.policy.on_item_failure == OnItemFailure::Stop).then_some(0);
        let most = stop.into_iter().chain(each.policy.max_failures.as_ref().and_then(fixed)).min();
        let stops = |failed: u64| most.is_some_and(|most| failed > most);
        let items = self.fate.items(&fated);
        if each.is_map {
            self.mapped = i64::try_from(items.len()).ok();
        }
        let (mut results, mut failed) = (Vec::new(), 0);
        for (index, item) in (0..).zip(items) {
            if stops(failed) {
                break;
            }
            let (well, result) = self.item(list, &at.item(index), item, each);
            failed += u64::from(!well);
            results.extend(result.filter(|_| well));
        }
        self.racy |= stops(failed) && parallel > 1;
        let well = failed == 0 || each.policy.continue_on_failure && !stops(failed);
        // The results of all items may be too large together.
        (well && self.fate.evaluates(&fated, "results")).then(|| self.fate.value(&fated, &results))
    }

    /// Whether an item went well in one of its attempts, and what that left.
    fn item(&mut self, list: ListNumber, key: &Address, item: i64, each: &ForEach) -> (bool, Option<i64>) {
        let tries = match (&each.policy.retry, each.policy.on_item_failure) {
            (Some(retry), _) => attempts(retry),
            (None, OnItemFailure::Retry) => 2,
            (None, _) => 1,
        };
        for attempt in 1..=tries {
            self.begun.retain(|other, _| !other.is_inside(key));
            self.results.retain(|at, _| !at.is_inside(key));
            self.items.retain(|at, _| !at.is_inside(key));
            self.begun.insert(key.clone(), attempt - 1);
            self.scopes.push(Names { item: Some(item), ..Names::default() });
            let (well, result) = self.list(list, key, None);
            self.scopes.pop();
            let well = well && (!each.worktree || self.fate.merges(&self.fated(key)));
            let status = match result {
                _ if !well => Status::Failed,
                Some(_) => Status::Completed,
                None => Status::Skipped,
            };
            self.items.insert(key.clone(), (status, attempt));
            if well {
                return (true, result);
            }
        }
        (false, None)
    }

    fn fated(&self, at: &Address) -> Fated {
        Fated::new(at, |key| self.begun.get(key).copied().unwrap_or(0))
    }

    fn set(&mut self, step: &Step, value: i64, ran: bool) {
        let Some(names) = self.scopes.last_mut() else { return };
        if let Some(id) = &step.id {
            names.outputs.insert(id.value.clone(), value);
        }
        if let Some(capture) = step.capture.as_ref().filter(|_| ran) {
            names.captured.insert(capture.value.clone(), value);
        }
    }

    fn reads(&self, number: StepNumber, prev: Option<i64>) -> Vec<i64> {
        let inner = |ask: &dyn Fn(&Names) -> Option<i64>| self.scopes.iter().rev().find_map(ask);
        let reads = &self.plan.steps[number as usize].reads;
        let (mut outputs, mut captured, mut before, mut item) = (Vec::new(), Vec::new(), None, None);
        let (mut phases, mut map, mut outcome) = (Vec::new(), None, None);
        let of_run = |name: &str| self.scopes.first().and_then(|names| names.outputs.get(name).copied());
        for read in reads {
            match read {
                Read::Output(id) => outputs.extend(inner(&|names| names.outputs.get(id).copied())),
                Read::Captured(name) => captured.extend(inner(&|names| names.captured.get(name).copied())),
                Read::Prev => before = prev,
                Read::Item => item = inner(&|names| names.item),
                Read::AllCaptured | Read::State => {}
                Read::Outcome => outcome = self.outcome,
                Read::Phase(name) => phases.extend(of_run(name)),
                Read::Map => map = of_run("map").or(self.mapped),
            }
        }
        let own = outputs.into_iter().chain(captured).chain(before).chain(item);
        own.chain(phases).chain(map).chain(outcome).collect()
    }
}

fn fixed<T: Copy>(setting: &Setting<T>) -> Option<T> {
    setting.known()
}

fn attempts(retry: &Retry) -> u32 {
    fixed(&retry.attempts).and_then(|attempts| u32::try_from(attempts).ok()).unwrap_or(1)
}
