//! What a step sees: which events made the names it reads, and how much time it has.

use std::collections::BTreeMap;

use ecow::EcoString;
use threadline_flow::model::Action;
use threadline_flow::plan::{Part, Read};

use super::{Command, Machine, NameTable, StepStage};
use crate::event::{Address, Seq};
use crate::view::{ItemView, Limit, MapView, View};

impl Machine {
    /// What a step sees: for each name it reads, the event that made it.
    pub fn view(&self, at: &Address) -> View {
        let Some(active) = self.active.get(at) else { return View::default() };
        let Some(frame) = self.frames.get(&active.frame) else { return View::default() };
        let reads = &self.plan.steps[active.step as usize].reads;
        let (as_of, attempts, started) = (active.as_of, active.attempts, active.started);
        let limit = self.limit(&active.frame);
        // At its end a phase reads what its own steps left.
        let (scope, prev) = match (active.stage, self.frames.get(at)) {
            (StepStage::Closing, inner) => (at, inner.and_then(|frame| frame.prev)),
            // What judges a state reads the same names as what it did, and what that left.
            // One that does nothing has left nothing, and the last that did is before it.
            (StepStage::Judging, _) if active.output.is_none() => (&frame.scope, frame.prev),
            (StepStage::Judging, _) => (&frame.scope, active.before.as_ref().and_then(|before| before.prev)),
            _ => (&frame.scope, frame.prev),
        };
        let judging = active.stage == StepStage::Judging;
        let result = active.output.filter(|_| judging);
        let state = reads.contains(&Read::State).then(|| self.state_view(at)).flatten();
        let names = self.names_of(reads, scope, prev);
        let outcome = reads.contains(&Read::Outcome).then(|| self.outcome_seen(at)).flatten();
        let may_keep = self.may_keep(at);
        let path = if may_keep { self.path() } else { None };
        let is_kept = may_keep && !active.has_acted;
        let names = View { may_keep, is_kept, path, ..names };
        // An attempt that begins anew has nothing to go on with.
        let goes_on = matches!(active.stage, StepStage::Running | StepStage::Held) || active.keeps_exchanges;
        let exchanges = if goes_on { active.exchanges.clone() } else { Vec::new() };
        let view = View {
            as_of,
            earlier_ends: self.earlier_ends(active),
            attempts,
            started,
            exchanges,
            in_doubt: active.in_doubt,
            limit,
            is_judged: judging,
            result,
            state,
            outcome,
            ..names
        };
        let acting = if judging { self.acting(active, &view) } else { None };
        View { acting: acting.map(Box::new), ..view }
    }

    /// The time by which the steps of a list have to be through: that of the item or phase around them that
    /// is over first.
    pub(super) fn limit(&self, frame: &Address) -> Option<Limit> {
        let mut first: Option<Limit> = self.run_limit(frame);
        let mut next = self.frames.get(frame)?.owner.as_ref();
        while let Some((at, part, item)) = next {
            let active = self.active.get(at)?;
            let limit = match (part, item) {
                (Part::Do, Some(index)) => {
                    let allowed = active.items.as_ref().and_then(|items| items.rules.timeout);
                    let item = self.items.get(&at.item(*index));
                    allowed.zip(item).map(|(allowed, item)| Limit {
                        since: item.began,
                        allowed,
                        scope: "item",
                    })
                }
                (Part::Do, None) => match &self.plan.steps[active.step as usize].step.action {
                    Action::Phase(phase) => phase.timeout.map(|allowed| Limit {
                        since: active.began,
                        allowed,
                        scope: phase.kind.key(),
                    }),
                    _ => None,
                },
                _ => None,
            };
            first = match (first, limit) {
                (Some(known), Some(other)) => Some(if other.until() < known.until() { other } else { known }),
                (known, other) => known.or(other),
            };
            next = self.frames.get(&active.frame)?.owner.as_ref();
        }
        first
    }

    /// The names that a command may read.
    pub fn view_of(&self, command: &Command) -> View {
        match command {
            Command::End { .. } => self.end_view(),
            Command::ResolveLimits | Command::RecordOutcome(_) => {
                View { as_of: self.last, ..View::default() }
            }
            _ => command.task().map(|task| self.view(&task.at)).unwrap_or_default(),
        }
    }

    /// What `exports` see at the end of the run.
    pub(super) fn end_view(&self) -> View {
        let reads = &self.plan.export_reads;
        let state = reads.contains(&Read::State).then(|| self.last_state()).flatten();
        View { as_of: self.last, state, ..self.names_of(reads, &Address::root(), None) }
    }

    pub(super) fn names_of(&self, reads: &[Read], scope: &Address, prev: Option<Seq>) -> View {
        let mut view = View::default();
        self.earlier_names(reads, scope, &mut view);
        for read in reads {
            match read {
                Read::Output(id) => {
                    let found = self.in_scopes(scope, |scope| scope.names.outputs.get(id).copied());
                    view.outputs.extend(found.map(|seq| (id.clone(), seq)));
                }
                Read::Captured(name) => {
                    let found = self.in_scopes(scope, |scope| scope.names.captured.get(name).copied());
                    view.captured.extend(found.map(|seq| (name.clone(), seq)));
                }
                Read::AllCaptured => self.all_captured(scope, &mut view),
                Read::Prev => view.prev = prev,
                Read::State | Read::Outcome => {}
                Read::Item => view.item = self.item_view(scope),
                Read::Phase(name) => {
                    let found = self
                        .scopes
                        .get(&Address::root())
                        .and_then(|scope| scope.names.outputs.get(name).copied());
                    view.phases.extend(found.map(|seq| (name.clone(), seq)));
                }
                Read::Map => {
                    let over = self
                        .scopes
                        .get(&Address::root())
                        .and_then(|scope| scope.names.outputs.get("map").copied());
                    let running = || {
                        let items = self.active.get("map")?.items.as_ref()?;
                        Some(MapView::Running { total: items.count })
                    };
                    view.map = over.map(MapView::Over).or_else(running);
                }
            }
        }
        view
    }

    /// The item that a scope belongs to.
    pub(super) fn item_view(&self, scope: &Address) -> Option<ItemView> {
        let mut name = Some(scope);
        while let Some((key, scope)) = name.and_then(|name| Some((name, self.scopes.get(name)?))) {
            if let Some(of) = scope.item {
                let item = self.items.get(key)?;
                let (attempt, runner) = (item.attempt, item.runner);
                let error = item.error.filter(|_| attempt > 1);
                let has_agent = self.plan.is_map_reduce();
                return Some(ItemView { item: of, attempt, runner, has_agent, error });
            }
            name = scope.parent.as_ref();
        }
        None
    }

    /// The event with the items of a step that is under way.
    pub fn items_of(&self, at: &Address) -> Option<Seq> {
        self.active.get(at)?.items.as_ref().map(|items| items.list)
    }

    /// The names of the run, and what set each last: ids and captures. Those of items are gone with them.
    pub fn names(&self) -> Vec<(EcoString, Seq)> {
        let Some(scope) = self.scopes.get(&Address::root()) else { return Vec::new() };
        let names = scope.names.outputs.iter().chain(&scope.names.captured);
        names.map(|(name, seq)| (name.clone(), *seq)).collect::<BTreeMap<_, _>>().into_iter().collect()
    }

    /// The innermost answer, from a scope outwards.
    pub(super) fn in_scopes<T>(&self, from: &Address, ask: impl Fn(&NameTable) -> Option<T>) -> Option<T> {
        let mut name = Some(from);
        while let Some(scope) = name.and_then(|name| self.scopes.get(name)) {
            if let Some(answer) = ask(scope) {
                return Some(answer);
            }
            name = scope.parent.as_ref();
        }
        None
    }

    pub(super) fn all_captured(&self, from: &Address, view: &mut View) {
        let mut name = Some(from);
        while let Some(scope) = name.and_then(|name| self.scopes.get(name)) {
            for (captured, seq) in &scope.names.captured {
                if !view.captured.iter().any(|(known, _)| known == captured) {
                    view.captured.push((captured.clone(), *seq));
                }
            }
            name = scope.parent.as_ref();
        }
    }
}
