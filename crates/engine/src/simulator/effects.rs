//! What must be true of the effects of a run, and of what is recorded about them.

use std::collections::{BTreeMap, BTreeSet};

use ecow::EcoString;
use threadline_flow::fields::{FailureKind, field_names as names};
use threadline_flow::model::{Action, FailureFacts, Retry, RetryConditions, Step};
use threadline_lang::Value;

use super::chance;
use super::check::{PromiseCheck, PromiseChecker};
use crate::evaluate::RetryPlan;
use crate::event::{Address, Event, EventKind, ItemEnded, Millis, Output, SafeEvents, Status};
use crate::execute::effect::{Effect, EffectKey, Role, WorktreeEntry};
use crate::execute::{Durability, Performance, begins_with_saved_files, is_costly, item_in_worktree};
use crate::machine::{Command, Counts, is_found_elsewhere};
use crate::view::Limit;

/// What was performed for items, and is not recorded yet.
#[derive(Default)]
pub(super) struct UnrecordedEffects {
    /// Executions that entered the worktree of their item, and what became of its files.
    entered: BTreeMap<Address, WorktreeEntry>,
    /// Items whose commits were to be merged.
    merged: BTreeSet<Address>,
    /// Items whose worktree was left, and whether a branch keeps its commits.
    abandoned: BTreeMap<Address, bool>,
    /// Maps whose worktrees were closed.
    closed: BTreeSet<Address>,
    /// Items whose steps are through.
    ending: BTreeMap<Address, PassedItem>,
    /// Nodes that cannot begin.
    unable: BTreeSet<Address>,
}

struct PassedItem {
    is_well: bool,
    /// The error of the step that failed.
    error: Option<EcoString>,
}

impl PromiseChecker {
    /// An effect is about to be performed, while so much of the journal is safe.
    pub(super) fn perform(
        &mut self,
        performance: &Performance,
        safe: SafeEvents,
        limit: Option<(Limit, Millis)>,
    ) -> PromiseCheck {
        let EffectKey { at, as_of, role, .. } = &performance.key;
        match &performance.effect {
            Effect::EnterWorktree { entry, .. } => {
                self.performed.entered.insert(at.clone(), *entry);
            }
            Effect::MergeItem(_) => {
                self.performed.merged.insert(at.clone());
            }
            Effect::AbandonItem { keep, .. } => {
                self.performed.abandoned.insert(at.clone(), *keep);
            }
            Effect::CloseWorktrees => {
                self.performed.closed.insert(at.clone());
            }
            _ => {}
        }
        match role {
            Role::Worktree => self.not(*as_of > safe.durable, || {
                format!("the worktree of `{at}` is touched because of event {as_of}, which is not on disk")
            }),
            Role::Judge => {
                let judged = self.facts.done.get(at).map_or(0, |done| done.seq);
                self.not(judged > safe.durable, || {
                    format!("`{at}` is judged by event {judged}, which is not on disk")
                })
            }
            Role::Act => self.act(at, &performance.effect, safe, limit),
            Role::Items => Ok(()),
        }
    }

    fn is_program(&self, at: &Address) -> bool {
        let step = at.step(&self.plan).map(|step| &self.plan.steps[step as usize].step);
        step.is_some_and(|step| is_found_elsewhere(&self.plan.workflow, step))
    }

    fn act(
        &mut self,
        at: &Address,
        effect: &Effect,
        safe: SafeEvents,
        limit: Option<(Limit, Millis)>,
    ) -> PromiseCheck {
        let step = at.step(&self.plan).map(|step| &self.plan.steps[step as usize].step);
        let began = self.facts.started.get(at);
        let is_careful = step.is_some_and(|step| is_costly(&self.plan.workflow, step, effect))
            || began.is_some_and(|began| !began.computed.is_empty())
            || item_in_worktree(&self.plan, at).is_some();
        let began = began.map_or(0, |began| began.seq);
        self.not(is_careful && began > safe.durable, || {
            format!("`{at}` acts before event {began}, with which it began, is on disk")
        })?;
        self.not(!matches!(effect, Effect::Nothing) && began > safe.written, || {
            format!("`{at}` acts before event {began}, with which it began, is written")
        })?;
        if item_in_worktree(&self.plan, at).is_some() && self.facts.exchanged.contains_key(at) {
            // An agent goes on with the files as they are.
            self.performed.entered.remove(at);
        } else if item_in_worktree(&self.plan, at).is_some() {
            let entry = self.performed.entered.remove(at);
            let wanted = match self.facts.started.get(at) {
                // A program that went on elsewhere keeps what it did.
                Some(began) if began.rerun && self.finds_programs && self.is_program(at) => {
                    WorktreeEntry::AsTheyAre
                }
                Some(began) if begins_with_saved_files(&self.plan, at) => {
                    if began.rerun {
                        WorktreeEntry::Restore
                    } else {
                        WorktreeEntry::Save
                    }
                }
                _ => WorktreeEntry::AsTheyAre,
            };
            self.not(entry != Some(wanted), || {
                format!("`{at}` acts in the worktree of its item as {entry:?} instead of {wanted:?}")
            })?;
        }
        let Some((limit, now)) = limit else { return Ok(()) };
        let left = limit.left(now);
        self.not(left.is_zero(), || format!("`{at}` acts, and the {} has no time left", limit.scope))?;
        let timeout = match effect {
            Effect::Process(spec) => spec.limits.timeout,
            Effect::Request(spec) => spec.limits.timeout,
            Effect::Tool(spec) => spec.limits.timeout,
            Effect::Workflow(spec) => spec.timeout,
            _ => return Ok(()),
        };
        let fits = timeout.is_some_and(|timeout| timeout <= limit.allowed);
        self.not(!fits, || format!("`{at}` may take {timeout:?}, and the {} {left:?}", limit.scope))
    }

    /// A node cannot begin: nothing of it is evaluated, so it may be skipped before the reason is on disk.
    pub(super) fn cannot_begin(&mut self, at: &Address) {
        self.performed.unable.insert(at.clone());
    }

    /// Whether an event about an execution acts upon the one that made it ready.
    pub(super) fn acts(&mut self, event: &Event) -> bool {
        !(matches!(event.kind, EventKind::Skipped { .. }) && self.performed.unable.remove(&event.at))
    }

    /// The steps of an item are through, and this is the error of the one that failed.
    pub(super) fn item_ends(&mut self, at: &Address, is_well: bool, error: Option<EcoString>) {
        self.performed.ending.insert(at.clone(), PassedItem { is_well, error });
    }

    /// Something waits for an event that need not be on disk soon. Items, nodes and states share a sync; a judgement of
    /// what a state did is for whoever acts upon it.
    pub(super) fn awaited(
        &self,
        event: &Event,
        durability: Durability,
        commands: &[Command],
    ) -> PromiseCheck {
        let at = &event.at;
        let is_judged_action = matches!(event.kind, EventKind::Judged(_)) && self.facts.done.contains_key(at);
        let is_aside = at.items().next().is_some()
            || self.plan.lists[0].graph.is_some()
            || self.plan.states.is_some() && !is_judged_action;
        let waits = commands.iter().filter_map(Command::task).find(|task| task.as_of == event.seq);
        match waits.filter(|_| durability != Durability::Now && !is_aside) {
            Some(task) => self.not(true, || {
                format!("`{}` waits for event {}, which is not written at once", task.at, event.seq)
            }),
            None => Ok(()),
        }
    }

    /// What failed is tried again after the pause that the file says, not sooner.
    pub(super) fn pauses(&self, at: &Address, kind: &EventKind, now: Millis) -> PromiseCheck {
        let (retry, until) = match kind {
            EventKind::Retrying { until, .. } => {
                let step = at.step(&self.plan).map(|step| &self.plan.steps[step as usize].step);
                (step.map(AsRef::as_ref).map(chance::retry), until)
            }
            EventKind::ItemRetrying { until, .. } => {
                (self.facts.list_with(at).map(|list| list.rules.retry), until)
            }
            _ => return Ok(()),
        };
        let least = retry.map_or(0, |retry| retry.delay.min(retry.max_delay).as_millis());
        let left = u128::from(until.saturating_sub(now).max(0).unsigned_abs());
        self.not(left < least, || format!("`{at}` is tried again after {left} of {least} milliseconds"))
    }

    /// An event says what became of an execution or an item.
    pub(super) fn recorded(&mut self, event: &Event) -> PromiseCheck {
        let at = &event.at;
        match &event.kind {
            EventKind::Finished { output, results, .. } => {
                self.measured(at, output)?;
                self.tried(at, output, true)?;
                self.named(at, output)?;
                let closed = self.performed.closed.remove(at);
                self.not(results.is_some() && !closed, || format!("`{at}` ends, its worktrees do not"))?;
                if self.facts.lists.contains_key(at) { self.tallied(at, output) } else { Ok(()) }
            }
            EventKind::Retrying { output, keeps_exchanges, .. } => {
                self.measured(at, output)?;
                self.tried(at, output, false)?;
                self.goes_on(at, output, *keeps_exchanges)
            }
            EventKind::Unresolved { output, .. } => {
                self.performed.entered.remove(at);
                self.named(at, output)
            }
            EventKind::Skipped { output, .. } => {
                self.performed.entered.remove(at);
                let reason = output.meta.get(names::REASON).and_then(Value::as_str).unwrap_or_default();
                self.not(reason.is_empty(), || format!("`{at}` is skipped for no reason"))
            }
            EventKind::Decided { .. } => {
                self.performed.entered.remove(at);
                Ok(())
            }
            EventKind::ItemRetrying { error, .. } => self.item_over(at, Some(error), Some(false)),
            EventKind::ItemEnded(ItemEnded { error, status, .. }) => {
                let failed = *status == Status::Failed;
                self.not(failed != error.is_some(), || format!("`{at}` is {}: {error:?}", status.name()))?;
                self.item_over(at, error.as_ref(), Some(true))
            }
            EventKind::OutcomeKnown { outcome, run } => self.outcome_fits(*outcome, run),
            EventKind::Judged(judged) => {
                let acted = self.facts.done.get(at).map_or(1, |done| done.seq);
                self.not(judged.as_of < acted, || {
                    format!("`{at}` is judged as of event {}, and acted at event {acted}", judged.as_of)
                })
            }
            _ => Ok(()),
        }
    }

    /// The meta data of an attempt say how it ended, and how many went before.
    fn measured(&self, at: &Address, output: &Output) -> PromiseCheck {
        let status = output.meta.get(names::STATUS).and_then(Value::as_str);
        let own = output.status.name();
        self.not(status != Some(own), || format!("`{at}` is {own}, its meta data say {status:?}"))?;
        let began = self.facts.started.get(at).map_or(0, |began| i64::from(began.attempt));
        // What no time was left for did not begin.
        let may_be_unrun = FailureKind::of_meta(&output.meta) == Some(FailureKind::Timeout);
        let before = (began - 1).max(0);
        let retries = output.meta.get(names::RETRY_COUNT).and_then(Value::as_i64);
        self.not(retries != Some(before) && !(may_be_unrun && retries == Some(began)), || {
            format!("`{at}` was tried {before} times before, not {retries:?}")
        })
    }

    /// A step is tried as often as the file says, and no oftener. A resume after a failure allows the same once more.
    fn tried(&self, at: &Address, output: &Output, is_over: bool) -> PromiseCheck {
        let step = at.step(&self.plan).map(|step| &self.plan.steps[step as usize].step);
        let (Some(step), Some(began)) = (step, self.facts.started.get(at)) else { return Ok(()) };
        let tries = u64::from(began.attempt - began.base);
        let why = FailureKind::of_meta(&output.meta);
        // A model that cannot answer now is asked again, also where nothing is said about it.
        let is_passing = is_out_of_reach(step, output) && step.retry.is_none();
        let mended = step.retry.as_ref().and_then(Retry::fixed_attempts);
        // With steps between them, each attempt is over by itself.
        let most = match mended {
            Some(_) => 1,
            None if is_passing => RetryPlan::PASSING.attempts,
            None => chance::retry(step).attempts,
        };
        let is_too_often = mended.is_some_and(|most| tries > most);
        self.not(is_too_often, || format!("`{at}` was tried {tries} times, and may be {mended:?} times"))?;
        let facts = why.map(|kind| FailureFacts::new(kind, |name| output.meta.get(name).cloned()));
        let conditions = RetryConditions::of(step.retry.as_ref());
        // No pause outlasts the time that is left.
        let is_too_late = output.meta.get(names::NOT_RETRIED).is_some() && is_over;
        let is_refused = is_too_late || facts.is_some_and(|facts| conditions.refusal(&facts).is_some());
        let ends_anyway = matches!(why, Some(FailureKind::Crash | FailureKind::Timeout));
        let fits = match (is_over, output.status) {
            (false, _) => tries < most && why != Some(FailureKind::Crash) && !is_refused,
            // Without a try it failed before it began.
            (true, Status::Failed) => tries >= most || tries == 0 || ends_anyway || is_refused,
            (true, _) => true,
        };
        self.not(!fits, || format!("`{at}` is over: {is_over}, after {tries} of {most} attempts"))
    }

    /// An agent that is out of reach is asked again behind what it said; one that failed is asked from the beginning.
    fn goes_on(&self, at: &Address, output: &Output, keeps_exchanges: bool) -> PromiseCheck {
        let step = at.step(&self.plan).map(|step| &self.plan.steps[step as usize].step);
        let wanted = step.is_some_and(|step| is_out_of_reach(step, output));
        self.not(keeps_exchanges != wanted, || {
            format!("`{at}` is tried again, and what was said before is kept: {keeps_exchanges}")
        })
    }

    /// What a state leaves names it.
    fn named(&self, at: &Address, output: &Output) -> PromiseCheck {
        let step = at.step(&self.plan).map(|step| &self.plan.steps[step as usize].step);
        let Some(state) = step.and_then(|step| step.state.as_ref()) else { return Ok(()) };
        let name = output.meta.get(names::STATE).and_then(Value::as_str);
        self.not(name != Some(state.name.value.as_str()), || format!("`{at}` is the state {name:?}"))
    }

    /// A list completes when its rules allow it, and its meta data count its items as they ended.
    fn tallied(&self, at: &Address, output: &Output) -> PromiseCheck {
        let Counts { total, successful, failed, .. } = match self.facts.count(at) {
            Ok(counts) => counts,
            Err(what) => return self.not(true, || what),
        };
        let rules = self.facts.lists.get(at).map(|list| list.rules);
        let may_complete = rules.is_some_and(|rules| rules.goes_on && !rules.stops_after(failed));
        let is_well = output.status == Status::Completed;
        self.not(is_well && failed > 0 && !may_complete, || {
            format!("`{at}` completes although {failed} of its items failed")
        })?;
        let own = [("total", total), ("successful", successful), ("failed", failed)];
        let skipped = ("skipped", total - successful - failed);
        for (name, count) in own.into_iter().chain([skipped]) {
            let said = output.meta.get(name).and_then(Value::as_i64);
            let fits = said == i64::try_from(count).ok();
            self.not(!fits, || format!("`{at}` has {count} items that are {name}, and says {said:?}"))?;
        }
        Ok(())
    }

    /// An attempt of an item is over: it says why it failed, and its worktree was merged or left.
    fn item_over(&mut self, at: &Address, error: Option<&EcoString>, keeps: Option<bool>) -> PromiseCheck {
        let merged = self.performed.merged.remove(at);
        let abandoned = self.performed.abandoned.remove(at);
        let is_merged = merged || error.is_some();
        let expected = keeps.filter(|_| error.is_some());
        let has_worktree = item_in_worktree(&self.plan, at).is_some() && at.items().count() == 1;
        self.not(has_worktree && !is_merged, || format!("`{at}` ends, and its commits are not merged"))?;
        self.not(has_worktree && abandoned != expected, || {
            format!("`{at}` ends, and its worktree is left as {abandoned:?} instead of {expected:?}")
        })?;
        let Some(PassedItem { is_well, error: step }) = self.performed.ending.remove(at) else {
            return self.not(true, || format!("`{at}` ends, and its steps are not through"));
        };
        let is_told = match (error, step) {
            (None, _) => is_well,
            (Some(said), Some(step)) => said.starts_with(step.as_str()),
            (Some(_), None) => !is_well || merged,
        };
        self.not(!is_told, || format!("`{at}` ends with {error:?}, and its steps went well: {is_well}"))
    }
}

/// Whether a step failed because its agent could not be reached.
fn is_out_of_reach(step: &Step, output: &Output) -> bool {
    matches!(step.action, Action::Agent { .. })
        && FailureKind::of_meta(&output.meta) == Some(FailureKind::Http)
}
