//! What a workflow comes to, told without events: the plan, walked once, with the fate of every step known.
//!
//! It shares no code with the machine; where the two disagree, one of them is wrong.

use std::collections::BTreeMap;
use std::sync::Arc;

use ecow::{EcoString, eco_format};
use threadline_engine::event::{Instance, Status};
use threadline_engine::machine::Outcome;
use threadline_engine::simulator::chance::Fate;
use threadline_flow::model::{Action, Setting, Step};
use threadline_flow::plan::{ListNumber, Part, Plan, Read, StepNumber};

/// What came of a workflow.
#[derive(Debug)]
pub(crate) struct Expected {
    pub(crate) outcome: Outcome,
    pub(crate) names: BTreeMap<EcoString, i64>,
    pub(crate) results: BTreeMap<Instance, (Status, i64)>,
    /// Whether items ran side by side and one failed: which of the others began is left to chance.
    pub(crate) racy: bool,
}

pub(crate) fn expect(plan: &Arc<Plan>, fate: Fate) -> Expected {
    let mut walk = Walk { plan, fate, scopes: vec![Names::default()], results: BTreeMap::new(), racy: false };
    let mut well = walk.list(0, "", None).0;
    if let Some(list) = plan.finally {
        well &= walk.list(list, "finally/", None).0;
    }
    let Names { outputs, captured, .. } = walk.scopes.remove(0);
    Expected {
        outcome: if well { Outcome::Completed } else { Outcome::Failed },
        names: outputs.into_iter().chain(captured).collect(),
        results: walk.results,
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
    results: BTreeMap<Instance, (Status, i64)>,
    racy: bool,
}

const FAILED: i64 = -1;
const SKIPPED: i64 = -2;

impl Walk<'_> {
    /// Whether a list went well, and the value of its last executed step.
    fn list(&mut self, list: ListNumber, prefix: &str, mut prev: Option<i64>) -> (bool, Option<i64>) {
        let steps = self.plan.lists[list as usize].steps.clone();
        for (index, number) in steps.into_iter().enumerate() {
            if !self.step(number, &eco_format!("{prefix}{}", index + 1), &mut prev) {
                return (false, prev);
            }
        }
        (true, prev)
    }

    /// Whether its list goes on behind a step.
    fn step(&mut self, number: StepNumber, at: &EcoString, prev: &mut Option<i64>) -> bool {
        let step = Arc::clone(&self.plan.steps[number as usize].step);
        let instance = Instance(at.clone());
        let decidable = step.when.is_none() || self.fate.evaluates(&instance, "when");
        if step.when.is_some() && decidable && !self.fate.holds(&instance) {
            self.set(&step, SKIPPED, false);
            self.results.insert(instance, (Status::Skipped, SKIPPED));
            return true;
        }
        let value = decidable.then(|| self.value(number, &step, &instance, *prev)).flatten();
        let left = value.unwrap_or(FAILED);
        self.set(&step, left, true);
        *prev = Some(left);
        let status = if value.is_some() { Status::Completed } else { Status::Failed };
        self.results.insert(instance, (status, left));
        let mut well = value.is_some();
        let after = if well { Part::OnSuccess } else { Part::OnFailure };
        for part in [after, Part::Finally] {
            if let Some(list) = self.plan.part(number, part) {
                well &= self.list(list, &format!("{at}/{}/", part.key()), Some(left)).0;
            }
        }
        well || step.continue_on_error
    }

    fn value(&mut self, number: StepNumber, step: &Step, at: &Instance, prev: Option<i64>) -> Option<i64> {
        if let Action::ForEach(each) = &step.action {
            let parallel = match &each.parallel {
                Some(Setting::Fixed(parallel)) => *parallel,
                _ => 1,
            };
            return self.for_each(number, at, parallel);
        }
        if !self.fate.evaluates(at, "fields") {
            return None;
        }
        let attempts = match step.retry.as_ref().map(|retry| &retry.attempts) {
            Some(Setting::Fixed(attempts)) => u32::try_from(*attempts).unwrap_or(1),
            _ => 1,
        };
        let well = (1..=attempts).any(|attempt| self.fate.well(at, attempt));
        well.then(|| self.fate.value(at, &self.reads(number, prev)))
    }

    fn for_each(&mut self, number: StepNumber, at: &Instance, parallel: u64) -> Option<i64> {
        if !self.fate.evaluates(at, "foreach") {
            return None;
        }
        let list = self.plan.part(number, Part::Do)?;
        let mut results = Vec::new();
        for (index, item) in self.fate.items(at).into_iter().enumerate() {
            self.scopes.push(Names { item: Some(item), ..Names::default() });
            let (well, result) = self.list(list, &format!("{at}[{index}]/"), None);
            self.scopes.pop();
            if !well {
                self.racy |= parallel > 1;
                return None;
            }
            results.extend(result);
        }
        // The results of all items may be too large together.
        self.fate.evaluates(at, "results").then(|| self.fate.value(at, &results))
    }

    fn set(&mut self, step: &Step, value: i64, ran: bool) {
        let Some(names) = self.scopes.last_mut() else { return };
        if let Some(id) = &step.id {
            names.outputs.insert(id.of.clone(), value);
        }
        if let Some(capture) = step.capture.as_ref().filter(|_| ran) {
            names.captured.insert(capture.of.clone(), value);
        }
    }

    fn reads(&self, number: StepNumber, prev: Option<i64>) -> Vec<i64> {
        let inner = |ask: &dyn Fn(&Names) -> Option<i64>| self.scopes.iter().rev().find_map(ask);
        let reads = &self.plan.steps[number as usize].reads;
        let (mut outputs, mut captured, mut before, mut item) = (Vec::new(), Vec::new(), None, None);
        for read in reads {
            match read {
                Read::Output(id) => outputs.extend(inner(&|names| names.outputs.get(id).copied())),
                Read::Captured(name) => captured.extend(inner(&|names| names.captured.get(name).copied())),
                Read::Prev => before = prev,
                Read::Item => item = inner(&|names| names.item),
                // Generated runs have no phases.
                Read::AllCaptured | Read::Phase(_) | Read::Map => {}
            }
        }
        outputs.into_iter().chain(captured).chain(before).chain(item).collect()
    }
}
