//! Expectations that may not be met by the same step of the plan: each gets one of its own, if there are enough.

use threadline_lang::Trail;

use super::{Evaluation, ExpectationAnswer, Subject};
use crate::evaluate::record::NoTree;
use crate::model::{ExpectationLine, LineKind};

/// Which step each of several expectations has.
pub(super) struct StepAssignment {
    /// Those that ask for a step, by their place among all.
    askers: Vec<usize>,
    /// What each asker makes of each step.
    answers: Vec<Vec<ExpectationAnswer>>,
    /// The step of each asker when only what is met counts.
    sure: Vec<Option<usize>>,
    /// The step of each asker if what cannot be evaluated were met.
    possible: Vec<Option<usize>>,
}

impl Evaluation<'_, '_> {
    /// Gives each expectation that asks for a step of the plan one of its own.
    pub(super) fn distinct(&mut self, nodes: &[&ExpectationLine]) -> StepAssignment {
        let (mut askers, mut answers) = (Vec::new(), Vec::new());
        // Without a plan there are no steps that could be shared.
        let (plan, nodes) = self.plan().map_or((&[][..], &[][..]), |plan| (plan, nodes));
        for (at, node) in nodes.iter().enumerate() {
            for checks in steps_asked(node) {
                let of_steps = plan
                    .iter()
                    .map(|step| self.together(checks, Subject::Value(step), &Trail::ROOT, &mut NoTree));
                answers.push(of_steps.collect::<Vec<ExpectationAnswer>>());
                askers.push(at);
            }
        }
        let sure = assign(&answers, |answer| answer == ExpectationAnswer::Met, plan.len());
        let possible = assign(&answers, |answer| answer != ExpectationAnswer::Unmet, plan.len());
        StepAssignment { askers, answers, sure, possible }
    }
}

/// What an expectation asks of one step: its own, and those of what is met together with it.
fn steps_asked(node: &ExpectationLine) -> Vec<&[ExpectationLine]> {
    match &node.what {
        LineKind::Step(checks) => vec![checks],
        LineKind::Together(nodes) => nodes.iter().flat_map(steps_asked).collect(),
        // Of members that are counted, none has to be met.
        LineKind::All(group) if group.score.is_none() => {
            group.members.iter().flat_map(|member| steps_asked(&member.node)).collect()
        }
        _ => Vec::new(),
    }
}

impl StepAssignment {
    /// Whether everybody has a step.
    pub(super) fn answer(&self) -> ExpectationAnswer {
        if self.sure.iter().all(Option::is_some) {
            ExpectationAnswer::Met
        } else if self.possible.iter().all(Option::is_some) {
            ExpectationAnswer::NotEvaluable
        } else {
            ExpectationAnswer::Unmet
        }
    }

    /// What an expectation that may be met comes to when it has no step, and why. `name` says what to call another.
    pub(super) fn refuses(
        &self,
        at: usize,
        name: impl Fn(usize) -> String,
    ) -> Option<(ExpectationAnswer, String)> {
        let mut askers = (0..self.askers.len()).filter(|asker| self.askers[*asker] == at);
        let (asker, answer) = askers.find_map(|asker| match (self.sure[asker], self.possible[asker]) {
            (_, None) => Some((asker, ExpectationAnswer::Unmet)),
            (None, _) => Some((asker, ExpectationAnswer::NotEvaluable)),
            _ => None,
        })?;
        let owners = if answer == ExpectationAnswer::Unmet { &self.possible } else { &self.sure };
        let taken = owners.iter().enumerate().find_map(|(other, step)| {
            let step = (*step)?;
            let would = match self.answers[asker][step] {
                ExpectationAnswer::Met => "would",
                ExpectationAnswer::NotEvaluable => "could",
                ExpectationAnswer::Unmet => return None,
            };
            let other = name(self.askers[other]);
            Some(format!("plan[{step}] {would} meet it, but is the step of {other}"))
        });
        Some((answer, taken?))
    }
}

/// Who gets which: everybody in turn takes a free one, or one whose owner can take another.
fn assign(
    answers: &[Vec<ExpectationAnswer>],
    fits: impl Fn(ExpectationAnswer) -> bool,
    steps: usize,
) -> Vec<Option<usize>> {
    let mut owners: Vec<Option<usize>> = vec![None; steps];
    for asker in 0..answers.len() {
        let mut seen = vec![false; steps];
        take(asker, answers, &fits, &mut owners, &mut seen);
    }
    let mut taken = vec![None; answers.len()];
    for (step, owner) in owners.iter().enumerate() {
        if let Some(owner) = owner {
            taken[*owner] = Some(step);
        }
    }
    taken
}

/// Finds a step for an asker, breadth first: no plan is long enough to matter, but the stack should not grow with it.
fn take(
    asker: usize,
    answers: &[Vec<ExpectationAnswer>],
    fits: &impl Fn(ExpectationAnswer) -> bool,
    owners: &mut [Option<usize>],
    seen: &mut [bool],
) {
    let mut from: Vec<Option<usize>> = vec![None; owners.len()];
    let mut waiting = std::collections::VecDeque::from([(asker, None::<usize>)]);
    while let Some((who, through)) = waiting.pop_front() {
        for step in 0..owners.len() {
            if seen[step] || !fits(answers[who][step]) {
                continue;
            }
            seen[step] = true;
            from[step] = through;
            match owners[step] {
                Some(owner) => waiting.push_back((owner, Some(step))),
                None => return hand_down(asker, step, &from, owners),
            }
        }
    }
}

/// A step is free: whoever wanted it leaves theirs to the one before.
fn hand_down(asker: usize, mut free: usize, from: &[Option<usize>], owners: &mut [Option<usize>]) {
    while let Some(before) = from[free] {
        owners[free] = owners[before];
        free = before;
    }
    owners[free] = Some(asker);
}
