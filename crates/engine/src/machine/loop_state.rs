//! Loops: which state is entered next, and when there is none.
//!
//! A *visit* is one execution of a state, `check#3`; an *iteration* begins whenever the initial state is
//! entered. The machine decides nothing about verdicts: an event says where a state leads, and the limits say
//! whether the loop goes there.

use std::collections::BTreeMap;
use std::time::Duration;

use ecow::EcoString;
use threadline_flow::model::{Shape, Terminal};
use threadline_flow::plan::{Part, Read, StepNumber};
use threadline_lang::Value;

use super::{
    ActiveStep, Applied, ListFrame, Machine, Mismatch, Pause, STEPS, ScopeNames, StepStage, find, find_mut,
};
use crate::event::{Address, JudgedEvent, LoopEnd, LoopLimits, LoopReason, Millis, Seq};
use crate::hash::Hash;
use crate::view::{Limit, PastVerdict, StateView, View};
use crate::visits::{VisitEntry, measures};

/// How far a loop is.
pub(super) struct LoopState {
    limits: LoopLimits,
    /// When it began, moved by the time it was stopped.
    since: Millis,
    /// What has happened since it began, or since it went on after a limit.
    spent: LimitUse,
    /// How many states were executed.
    steps: u64,
    /// How many iterations were begun.
    iteration: u64,
    /// How often each state was entered.
    visits: BTreeMap<usize, u64>,
    /// How often the state has followed itself.
    in_a_row: u64,
    /// The number that each state measured the last time.
    measured: BTreeMap<usize, Value>,
    /// The execution of the state it is in.
    at: Address,
    /// The hash of all executions up to that one.
    path: Hash,
    /// Where it ended, and why.
    pub(super) ended: Option<LoopEnd>,
    /// The state that a limit kept it from.
    kept_from: Option<usize>,
    /// The number of states after which a limit last stopped it, also when it went on since.
    stopped_after: Option<u64>,
}

/// What comes behind a visit, where that is known before.
enum Following {
    /// Another visit.
    Visit(Address),
    /// The end of the run, or nothing that is read.
    End,
}

/// What limits are compared with.
#[derive(Default)]
struct LimitUse {
    steps: u64,
    iterations: u64,
    edges: BTreeMap<(usize, usize), u64>,
    /// What each state came to last, and how often in a row.
    streaks: BTreeMap<usize, (Hash, u64)>,
    since: Millis,
}

impl LoopState {
    pub(super) fn is_stopped(&self) -> bool {
        self.kept_from.is_some()
    }
}

impl ScopeNames {
    /// What a name was captured with before.
    pub(super) fn keep_earlier(&mut self, name: &EcoString, seq: Seq) {
        if let Some(before) = self.earlier.insert(name.clone(), seq) {
            self.forget_verdict(before);
        }
    }

    /// A verdict on what nobody can read any more.
    fn forget_verdict(&mut self, seq: Seq) {
        let read = self.captured.values().chain(self.earlier.values()).any(|known| *known == seq);
        if !read {
            self.verdicts.remove(&seq);
        }
    }

    /// What was captured until now belongs to the iteration before.
    fn begin_iteration(&mut self) {
        for (name, seq) in std::mem::take(&mut self.captured) {
            self.keep_earlier(&name, seq);
        }
    }
}

impl Machine {
    /// The loop begins.
    pub(super) fn begin_loop(&mut self, limits: LoopLimits) -> Applied {
        let initial = self.initial()?;
        let loop_state = LoopState {
            limits,
            since: self.time,
            spent: LimitUse { since: self.time, ..LimitUse::default() },
            steps: 0,
            iteration: 0,
            visits: BTreeMap::new(),
            in_a_row: 0,
            measured: BTreeMap::new(),
            at: Address::root(),
            path: Hash::default(),
            ended: None,
            kept_from: None,
            stopped_after: None,
        };
        let frame = ListFrame {
            list: STEPS,
            owner: None,
            scope: Address::root(),
            position: initial,
            prev: None,
            failed: false,
            nodes: None,
            loop_state: Some(Box::new(loop_state)),
        };
        self.frames.insert(Address::root(), frame);
        self.enter_state(initial)
    }

    pub(super) fn loop_state(&self) -> Option<&LoopState> {
        self.frames.get(&Address::root())?.loop_state.as_deref()
    }

    fn loop_mut(&mut self) -> Applied<&mut LoopState> {
        find_mut(&mut self.frames, &Address::root())?.loop_mut()
    }

    /// The state that the loop begins with.
    fn initial(&self) -> Applied<usize> {
        let states = self.plan.states.as_ref();
        states.map(|states| states.initial).ok_or_else(|| Mismatch::new("the workflow is no loop".to_owned()))
    }

    /// Begins a state.
    fn enter_state(&mut self, position: usize) -> Applied {
        let is_initial = self.initial()? == position;
        let time = self.time;
        // What is only read again takes no time.
        let acts = !self.keeps_loop();
        let state = Address::root().child(&self.plan.lists[STEPS as usize], position);
        let frame = find_mut(&mut self.frames, &Address::root())?;
        frame.position = position;
        let loop_state = frame.loop_mut()?;
        loop_state.steps += 1;
        loop_state.spent.steps += 1;
        let visit = loop_state.visits.entry(position).or_default();
        *visit += 1;
        loop_state.at = state.at_visit(*visit);
        loop_state.path = Hash::of(format!("{} {}", loop_state.path, loop_state.at).as_bytes());
        let at = loop_state.at.clone();
        let mut pause = None;
        if is_initial {
            loop_state.iteration += 1;
            loop_state.spent.iterations += 1;
            let passes = |pause: &Duration| acts && !pause.is_zero() && loop_state.iteration > 1;
            pause = loop_state.limits.backoff.filter(passes);
            find_mut(&mut self.scopes, &Address::root())?.names.begin_iteration();
        }
        let step = self.plan.lists[STEPS as usize].steps[position];
        let Some(pause) = pause else { return self.begin_step(&Address::root(), &at, step) };
        let pause = i64::try_from(pause.as_millis()).unwrap_or(i64::MAX / 4);
        let pause = Pause { since: time, until: time.saturating_add(pause) };
        self.insert_active(&Address::root(), &at, step, StepStage::Waiting(pause));
        self.command(&at)
    }

    /// What a state does is done: it is judged.
    pub(super) fn judge(&mut self, at: &Address) -> Applied {
        let last = self.last;
        let active = find_mut(&mut self.active, at)?;
        active.stage = StepStage::Judging;
        active.as_of = last;
        self.command(at)
    }

    /// A state was judged.
    pub(super) fn judged(&mut self, at: &Address, judged: &JudgedEvent) -> Applied {
        let position = |name: &EcoString| {
            let position = self.plan.lists[STEPS as usize].position(name);
            position.ok_or_else(|| Mismatch::new(format!("there is no state `{name}`")))
        };
        let to = judged.to.as_ref().map(position).transpose()?;
        let from = find(&self.frames, &Address::root())?.position;
        let step = self.plan.lists[STEPS as usize].steps[from];
        let terminal = self.plan.steps[step as usize].step.state.as_ref().and_then(|state| state.terminal);
        let is_error = judged.verdict == crate::event::ERROR;
        let leads_on = if terminal.is_some() { !is_error } else { to.is_some() };
        match find(&self.active, at)?.output {
            Some(output) => self.keep_verdict(output, judged)?,
            // One that did nothing leaves its verdict, unless it is judged again.
            None if leads_on => self.leave_verdict(step, judged)?,
            None => {}
        }
        // What leads nowhere is done again, and compared with what was before it.
        if let (Some(measured), Some(_)) = (&judged.measured, to) {
            self.loop_mut()?.measured.insert(from, measured.clone());
        } else if self.is_support(at) && measures(&self.plan.steps[step as usize]) {
            return Err(Mismatch::new("what the state measured last is not known here".to_owned()));
        }
        let failed = is_error && (to.is_none() || terminal.is_some());
        if let Some(most) = self.time_spent(Duration::ZERO).filter(|_| failed) {
            // Nothing of the state is wrong but the time that the loop has taken.
            self.active.remove(at);
            return self.stop_at(from, LoopReason::Timeout, most);
        }
        match (terminal, to) {
            // What ends the loop and cannot be done has not ended it.
            (Some(_), _) if is_error => self.state_failed(at),
            (Some(terminal), _) => self.ended_in(at, terminal),
            (None, None) => self.state_failed(at),
            (None, Some(to)) => {
                self.active.remove(at);
                self.go_on(from, to, judged.fingerprint)
            }
        }
    }

    /// Keeps the verdict on what an event recorded, as long as that can be read.
    fn keep_verdict(&mut self, output: Seq, judged: &JudgedEvent) -> Applied {
        let last = self.frames.get(&Address::root()).and_then(|frame| frame.prev);
        let names = &mut find_mut(&mut self.scopes, &Address::root())?.names;
        let JudgedEvent { verdict, confidence, reason, .. } = judged;
        let (verdict, confidence, reason) = (verdict.clone(), confidence.clone(), reason.clone());
        names.verdicts.insert(output, PastVerdict { seq: self.last, verdict, confidence, reason });
        let ScopeNames { captured, earlier, verdicts, .. } = names;
        let known = |seq: &Seq| captured.values().chain(earlier.values()).any(|known| known == seq);
        verdicts.retain(|seq, _| Some(*seq) == last || known(seq));
        Ok(())
    }

    /// A state without an action was judged: the judgement is what it leaves, for `prev` and for its capture.
    fn leave_verdict(&mut self, step: StepNumber, judged: &JudgedEvent) -> Applied {
        let seq = self.last;
        find_mut(&mut self.frames, &Address::root())?.prev = Some(seq);
        if let Some(capture) = &self.plan.steps[step as usize].step.capture {
            let names = &mut find_mut(&mut self.scopes, &Address::root())?.names;
            if let Some(earlier) = names.captured.insert(capture.value.clone(), seq) {
                names.keep_earlier(&capture.value, earlier);
            }
        }
        self.keep_verdict(seq, judged)
    }

    /// No route fits: the state has failed, and the loop with it.
    fn state_failed(&mut self, at: &Address) -> Applied {
        let last = self.last;
        let active = find_mut(&mut self.active, at)?;
        active.failed = true;
        active.stage = StepStage::Failed;
        active.verdict = Some(last);
        self.list_done(&Address::root(), false)
    }

    /// The loop came to a state that ends it.
    fn ended_in(&mut self, at: &Address, terminal: Terminal) -> Applied {
        self.active.remove(at);
        let maintains = matches!(&self.plan.workflow.shape, Shape::Loop(of) if of.maintain);
        let position = find(&self.frames, &Address::root())?.position;
        let state = self.plan.lists[STEPS as usize].word(position);
        let initial = self.initial()?;
        let following = self.following();
        let loop_state = self.loop_mut()?;
        let mut end = LoopEnd { reason: LoopReason::Terminal, state, limit: None };
        if maintains && terminal == Terminal::Success {
            match (following, loop_state.limits.max_iterations) {
                (Some(Following::Visit(_)), _) | (Some(Following::End), None) => {
                    return self.enter_unless_spent(initial);
                }
                // Nothing follows, so this limit is reached, whatever was read of the iterations before.
                (Some(Following::End), Some(most)) => loop_state.spent.iterations = most,
                (None, _) => {}
            }
            match loop_state.limits.max_iterations.filter(|most| loop_state.spent.iterations >= *most) {
                Some(most) => end = LoopEnd { reason: LoopReason::MaxIterations, limit: Some(most), ..end },
                None => return self.enter_unless_spent(initial),
            }
        }
        loop_state.ended = Some(end);
        self.list_done(&Address::root(), terminal == Terminal::Success)
    }

    /// On to another state, unless a limit is reached.
    fn go_on(&mut self, from: usize, to: usize, fingerprint: Hash) -> Applied {
        let step = self.plan.lists[STEPS as usize].steps[from];
        // A state that only goes on comes to nothing that could be the same: what it does may be silent each
        // time.
        let judged = self.plan.steps[step as usize].step.is_judged();
        let loop_state = self.loop_mut()?;
        *loop_state.spent.edges.entry((from, to)).or_default() += 1;
        let mut in_a_row = 0;
        if judged {
            let streak = loop_state.spent.streaks.entry(from).or_insert((fingerprint, 0));
            *streak = if streak.0 == fingerprint { (fingerprint, streak.1 + 1) } else { (fingerprint, 1) };
            in_a_row = streak.1;
        }
        loop_state.in_a_row = if from == to { loop_state.in_a_row + 1 } else { 0 };
        if self.following().is_some() {
            return self.enter_unless_spent(to);
        }
        let loop_state = self.loop_mut()?;
        let stalled = loop_state.limits.max_stall.filter(|most| in_a_row >= *most);
        let again = loop_state.spent.edges.get(&(from, to)).map_or(0, |times| times - 1);
        let worn = loop_state.limits.max_edge_revisits.filter(|most| again > *most);
        let reached = stalled.map(|most| (LoopReason::MaxStall, most));
        let reached = reached.or(worn.map(|most| (LoopReason::MaxEdgeRevisits, most)));
        match reached {
            Some((reason, most)) => self.stop_at(to, reason, most),
            None => self.enter_unless_spent(to),
        }
    }

    /// Enters a state, unless the steps, the iterations or the time are spent. A pause that outlasts the time
    /// is not begun.
    fn enter_unless_spent(&mut self, to: usize) -> Applied {
        match self.following() {
            // What the limits are compared with was not read, but what came of it is known.
            Some(Following::Visit(next)) => return self.enter_visit(&next, to),
            Some(Following::End) => return self.stop_at(to, LoopReason::MaxSteps, 0),
            None => {}
        }
        let is_initial = self.initial()? == to;
        let pause = self.loop_state().and_then(|loop_state| loop_state.limits.backoff).filter(|_| is_initial);
        let timeout = self.time_spent(pause.unwrap_or_default());
        let loop_state = self.loop_mut()?;
        let LoopLimits { max_steps, max_iterations, .. } = loop_state.limits;
        let iterations = max_iterations.filter(|most| is_initial && loop_state.spent.iterations >= *most);
        let reached = iterations.map(|most| (LoopReason::MaxIterations, most));
        let reached = reached.or(timeout.map(|most| (LoopReason::Timeout, most)));
        let spent = (loop_state.spent.steps >= max_steps).then_some((LoopReason::MaxSteps, max_steps));
        match reached.or(spent) {
            Some((reason, most)) => self.stop_at(to, reason, most),
            None => self.enter_state(to),
        }
    }

    /// The time that the loop may take, in milliseconds, when it has taken that after a pause.
    fn time_spent(&self, pause: Duration) -> Option<u64> {
        let loop_state = self.loop_state()?;
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let passed = u64::try_from(self.time.saturating_sub(loop_state.spent.since)).unwrap_or(0);
        let passed = passed.saturating_add(millis(pause));
        let most = millis(loop_state.limits.timeout?);
        (passed >= most).then_some(most)
    }

    /// In a slice of a run: what follows the visit that the loop is in.
    fn following(&self) -> Option<Following> {
        let visits = self.slice.as_ref()?.visits()?;
        // What follows a visit that was not read is not asked for.
        let entry = visits.entry(self.loop_state()?.at.as_str()).filter(|entry| !entry.is_end);
        Some(entry.and_then(|entry| entry.next.clone()).map_or(Following::End, Following::Visit))
    }

    /// In a slice of a run: the visit that follows the one that the loop was in when it stopped.
    fn next_visit(&self) -> Option<Address> {
        let visits = self.slice.as_ref()?.visits()?;
        visits.entry(self.loop_state()?.at.as_str())?.next.clone()
    }

    /// In a slice of a run: whether a visit is read only because others depend on it.
    fn is_support(&self, at: &Address) -> bool {
        let visits = self.slice.as_ref().and_then(|slice| slice.visits());
        visits.and_then(|visits| visits.entry(at.as_str())).is_some_and(VisitEntry::is_support)
    }

    /// Enters a state in the visit that the slice says.
    fn enter_visit(&mut self, visit: &Address, position: usize) -> Applied {
        let number = visit.visit().filter(|_| visit.outermost_position(&self.plan) == Some(position));
        let before = number.and_then(|number| number.checked_sub(1));
        let before = before.ok_or_else(|| Mismatch::new(format!("`{visit}` does not follow")))?;
        self.loop_mut()?.visits.insert(position, before);
        self.enter_state(position)
    }

    /// In a slice of a run: comes to the visit that an event is about, if the loop is in another. Those in between are not
    /// read, and of them it is known what they come to.
    pub(super) fn come_to_visit(&mut self, at: &Address) -> Applied {
        let Some(visits) = self.slice.as_ref().and_then(|slice| slice.visits()).cloned() else {
            return Ok(());
        };
        let Some(visit) = at.visit_around() else { return Ok(()) };
        let Some(loop_state) = self.loop_state().filter(|loop_state| loop_state.at != visit) else {
            return Ok(());
        };
        let position = visit.outermost_position(&self.plan).filter(|_| loop_state.ended.is_none());
        let (Some(position), Some(entry)) = (position, visits.entry(visit.as_str())) else {
            return Err(Mismatch::new(format!("`{visit}` is not where the loop is")));
        };
        let iteration = entry.iteration.saturating_sub(u64::from(self.initial()? == position));
        let has_passed_one = loop_state.iteration < iteration;
        let loop_state = self.loop_mut()?;
        let left = loop_state.at.clone();
        (loop_state.steps, loop_state.iteration) = (entry.steps, iteration);
        loop_state.in_a_row = entry.in_a_row;
        if has_passed_one {
            find_mut(&mut self.scopes, &Address::root())?.names.begin_iteration();
        }
        self.active.remove(&left);
        self.enter_visit(&visit, position)
    }

    /// A limit is reached: the loop ends before a state. In a run that continues another one, it goes on where that
    /// one was stopped.
    fn stop_at(&mut self, to: usize, reason: LoopReason, limit: u64) -> Applied {
        let state = self.plan.lists[STEPS as usize].word(to);
        let (time, states) = (self.time, self.loop_mut()?.steps);
        let passes = self.passes_limits(states);
        let loop_state = self.loop_mut()?;
        loop_state.stopped_after = Some(states);
        if passes {
            loop_state.spent = LimitUse { since: time, ..LimitUse::default() };
            return self.enter_state(to);
        }
        loop_state.ended = Some(LoopEnd { reason, state, limit: Some(limit) });
        loop_state.kept_from = Some(to);
        self.list_done(&Address::root(), false)
    }

    /// A loop that stopped at a limit goes on as if it had begun anew; one that failed with the state that
    /// did.
    pub(super) fn reopen_loop(&mut self) -> Applied {
        let (time, next) = (self.time, self.next_visit());
        let loop_state = self.loop_mut()?;
        loop_state.ended = None;
        loop_state.spent = LimitUse { since: time, ..LimitUse::default() };
        let at = loop_state.at.clone();
        if let Some(to) = loop_state.kept_from.take() {
            return match next {
                Some(next) => self.enter_visit(&next, to),
                None => self.enter_state(to),
            };
        }
        // It is done again as a whole: no route fits what it left, however well it went.
        if let Some(active) = self.active.get_mut(&at).filter(|active| active.succeeded) {
            active.succeeded = false;
            active.items = None;
            self.drop_items(&at);
        }
        self.reopen_step(&at)
    }

    /// How many things are kept of a loop: of each state, of each way between two, and of each name.
    pub(super) fn retained_in_loop(&self) -> usize {
        let Some(loop_state) = self.loop_state() else { return 0 };
        let names = self.scopes.get(&Address::root()).map_or(0, |scope| {
            let ScopeNames { earlier, verdicts, .. } = &scope.names;
            earlier.len() + verdicts.len()
        });
        loop_state.visits.len()
            + loop_state.measured.len()
            + loop_state.spent.edges.len()
            + loop_state.spent.streaks.len()
            + names
    }

    /// The state that ended the loop, and not well: nothing of it is done again.
    pub(super) fn failed_terminal_state(&self) -> Option<&EcoString> {
        let frame = self.frames.get(&Address::root()).filter(|frame| frame.failed)?;
        let ended = frame.loop_state.as_ref()?.ended.as_ref();
        ended.filter(|ended| ended.reason == LoopReason::Terminal).map(|ended| &ended.state)
    }

    /// The state that ended the loop, and not well, when nothing is left to do.
    pub fn failed_terminal(&self) -> Option<&EcoString> {
        let failed = |part: &Part| self.frames.get(&Address::of_run(*part)).is_some_and(|frame| frame.failed);
        self.failed_terminal_state().filter(|_| !Part::OF_RUN.iter().any(failed))
    }

    /// The time in which a loop was stopped does not count. It is less than nothing when the clock was set back
    /// meanwhile: what the loop has used stays what it was.
    pub(super) fn shift_loop_clock(&mut self, passed: Millis) {
        // Only a loop that has begun has a time.
        if let Ok(loop_state) = self.loop_mut() {
            loop_state.since = loop_state.since.saturating_add(passed);
            loop_state.spent.since = loop_state.spent.since.saturating_add(passed);
        }
    }

    /// The time by which the loop has to be through.
    pub(super) fn loop_limit(&self) -> Option<Limit> {
        let loop_state = self.loop_state()?;
        loop_state.limits.timeout.map(|allowed| Limit {
            since: loop_state.spent.since,
            allowed,
            scope: "loop",
        })
    }

    /// What can be read of the state and of the loop.
    pub(super) fn state_view(&self, at: &Address) -> Option<StateView> {
        let position = at.outermost_position(&self.plan);
        let mut view = self.last_state()?;
        if let Some(position) = position {
            view.name = self.plan.lists[STEPS as usize].word(position);
            view.measured =
                self.loop_state().and_then(|loop_state| loop_state.measured.get(&position).cloned());
        }
        Some(view)
    }

    /// The states that the loop has come through: equal for two loops that took the same way.
    pub fn path(&self) -> Option<Hash> {
        self.loop_state().map(|loop_state| loop_state.path)
    }

    /// The number of states after which a limit last stopped a loop, also when it went on since.
    pub fn stopped_after(&self) -> Option<u64> {
        self.loop_state()?.stopped_after
    }

    /// The iteration that a loop is in, from 1.
    pub fn iteration(&self) -> Option<u64> {
        self.loop_state().map(|loop_state| loop_state.iteration)
    }

    /// The state that the loop is in, or was in last.
    pub(super) fn last_state(&self) -> Option<StateView> {
        let loop_state = self.loop_state()?;
        let name = loop_state.at.state().unwrap_or_default().into();
        let elapsed_ms = self.time.saturating_sub(loop_state.since).max(0);
        Some(StateView {
            name,
            iteration: loop_state.iteration,
            elapsed_ms,
            in_a_row: loop_state.in_a_row,
            measured: None,
        })
    }

    /// What a state that is judged saw when it acted: values of its own are made of that, and not of what it
    /// has captured itself since.
    pub(super) fn acting(&self, active: &ActiveStep, judging: &View) -> Option<View> {
        let step = &self.plan.steps[active.step as usize].step;
        let state = step.state.as_ref().filter(|state| !state.params.is_empty());
        let name = &step.capture.as_ref().filter(|_| state.is_some())?.value;
        let read = judging.captured.iter().any(|(known, _)| known == name);
        let before = &active.before.as_ref().filter(|_| read)?.names;
        let mut view =
            View { result: None, verdicts: before.verdicts.clone().into_iter().collect(), ..judging.clone() };
        for (table, then) in [(&mut view.captured, &before.captured), (&mut view.earlier, &before.earlier)] {
            table.retain(|(known, _)| known != name);
            table.extend(then.get(name).map(|seq| (name.clone(), *seq)));
        }
        Some(view)
    }

    /// What names stood for before, and the verdicts on what is read.
    pub(super) fn earlier_names(&self, reads: &[Read], scope: &Address, view: &mut View) {
        if self.plan.states.is_none() {
            return;
        }
        let Some(names) = self.scopes.get(scope).map(|scope| &scope.names) else { return };
        for (name, seq) in &names.earlier {
            let read = |read: &Read| match read {
                Read::Captured(wanted) => wanted == name,
                Read::AllCaptured => true,
                _ => false,
            };
            if reads.iter().any(read) {
                view.earlier.push((name.clone(), *seq));
            }
        }
        view.verdicts = names.verdicts.clone().into_iter().collect();
    }
}
