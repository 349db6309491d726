//! When each name of a workflow gets its value, found once for all steps: who makes it, what is before a
//! step, where states lead.
//!
//! What is said of one step costs no more in a long workflow than in a short one.

use std::collections::BTreeMap;

use ecow::{EcoString, eco_format};
use threadline_engine::rehearsal::{RouteEdge, edges};
use threadline_flow::model::Terminal;
use threadline_flow::plan::{LOOP_ROOTS, Plan, StepNumber};
use threadline_lang::{Scope, ScopeEntry};

use super::{WHEN_IT_STARTS, foreach_of, layer};

/// The innermost `foreach` around some steps; none for those outside of all.
type ItemScope = Option<StepNumber>;

/// What is known of the names of a workflow before a run.
pub(super) struct Forecast<'p> {
    plan: &'p Plan,
    /// The steps that make a name, of each scope.
    makers: BTreeMap<ItemScope, BTreeMap<EcoString, Vec<StepNumber>>>,
    /// The names of each scope, with those around it; and what stands behind `captured` there.
    scopes: BTreeMap<ItemScope, (Scope, Scope)>,
    /// The step before each in its list, or the one whose list it begins.
    before: Vec<Option<StepNumber>>,
    /// The ways of a loop, by the position of the state that they leave and that they lead to.
    leaving: BTreeMap<usize, Vec<RouteEdge>>,
    arriving: BTreeMap<usize, Vec<usize>>,
    /// The position of each state of a loop.
    positions: BTreeMap<StepNumber, usize>,
}

impl<'p> Forecast<'p> {
    /// Looks at every step once. `run` has the names of the run.
    pub(super) fn new(plan: &'p Plan, run: &Scope) -> Self {
        let mut forecast = Self {
            plan,
            makers: BTreeMap::new(),
            scopes: BTreeMap::new(),
            before: vec![None; plan.steps.len()],
            leaving: BTreeMap::new(),
            arriving: BTreeMap::new(),
            positions: BTreeMap::new(),
        };
        forecast.find_neighbours();
        let captured = forecast.find_makers();
        let scopes: Vec<ItemScope> = forecast.makers.keys().copied().collect();
        for scope in scopes {
            forecast.add_scope(scope, run, &captured);
        }
        forecast
    }

    fn find_neighbours(&mut self) {
        for list in &self.plan.lists {
            let owner = list.parent.map(|(owner, _)| owner);
            let mut before = owner;
            for step in &list.steps {
                self.before[*step as usize] = before;
                before = Some(*step);
            }
        }
        if self.plan.states.is_none() {
            return;
        }
        for edge in edges(self.plan) {
            self.arriving.entry(edge.to).or_default().push(edge.from);
            self.leaving.entry(edge.from).or_default().push(edge);
        }
        self.positions = self.plan.lists[0].steps.iter().copied().zip(0..).collect();
    }

    /// Finds who makes which names, and gives the names that are captured.
    fn find_makers(&mut self) -> BTreeMap<ItemScope, Vec<EcoString>> {
        let mut captured: BTreeMap<ItemScope, Vec<EcoString>> = BTreeMap::new();
        self.makers.entry(None).or_default();
        for (number, step) in (0..).zip(&self.plan.steps) {
            let scope = foreach_of(self.plan, step.list);
            let makers = self.makers.entry(scope).or_default();
            for name in [&step.step.id, &step.step.capture].into_iter().flatten() {
                let of_name = makers.entry(name.value.clone()).or_default();
                if of_name.last() != Some(&number) {
                    of_name.push(number);
                }
            }
            captured
                .entry(scope)
                .or_default()
                .extend(step.step.capture.iter().map(|name| name.value.clone()));
        }
        captured
    }

    /// Adds the names of a scope behind those of the scopes around it, which come first.
    fn add_scope(&mut self, scope: ItemScope, run: &Scope, captured: &BTreeMap<ItemScope, Vec<EcoString>>) {
        if self.scopes.contains_key(&scope) {
            return;
        }
        let (outer, outer_captured) = match scope {
            None => (run.clone(), Scope::new()),
            Some(each) => {
                let around = foreach_of(self.plan, self.plan.steps[each as usize].list);
                self.add_scope(around, run, captured);
                self.scopes.get(&around).cloned().unwrap_or_else(|| (run.clone(), Scope::new()))
            }
        };
        let entry = |name: &EcoString| {
            let when = self.when_made(scope, name)?;
            Some((name.clone(), ScopeEntry::Unset(eco_format!("{when}"))))
        };
        let mut own: Vec<EcoString> = captured.get(&scope).cloned().unwrap_or_default();
        own.sort();
        own.dedup();
        let inside = layer(&outer_captured, "captured", own.iter().filter_map(entry).collect());
        let made = self.makers.get(&scope).into_iter().flat_map(BTreeMap::keys);
        let mut entries: Vec<(EcoString, ScopeEntry)> = made.filter_map(entry).collect();
        if scope.is_none() && self.plan.states.is_some() {
            let is_made = |name: &str| self.makers.get(&None).is_some_and(|made| made.contains_key(name));
            let roots = LOOP_ROOTS.iter().filter(|name| !is_made(name));
            entries.extend(roots.map(|name| ((*name).into(), ScopeEntry::Unset(WHEN_IT_STARTS.into()))));
        }
        entries.push(("captured".into(), ScopeEntry::Names(inside.clone())));
        self.scopes.insert(scope, (layer(&outer, "steps", entries), inside));
    }

    /// The names that a step will see, none of those that steps make with a value yet.
    pub(super) fn scope_of(&self, number: StepNumber) -> Scope {
        let around = foreach_of(self.plan, self.plan.steps[number as usize].list);
        let names = self.scopes.get(&around).map_or_else(Scope::new, |(names, _)| names.clone());
        let own = ["prev", "item"].into_iter().filter_map(|name| {
            let when = self.when_known(number, name)?;
            Some((name.into(), ScopeEntry::Unset(eco_format!("{when}"))))
        });
        layer(&names, "steps", own.collect())
    }

    /// When a name that a step reads gets its value.
    pub(super) fn when_known(&self, number: StepNumber, name: &str) -> Option<String> {
        let plan = self.plan;
        let step = &plan.steps[number as usize];
        match name {
            "prev" if step.step.state.is_some() => Some(self.before_state(number)),
            "prev" => {
                let before = self.before.get(number as usize).copied().flatten()?;
                Some(format!("known after `{}` has run", plan.steps[before as usize].label))
            }
            "item" => {
                let each = foreach_of(plan, step.list)?;
                Some(format!("one for each item of `{}`", plan.steps[each as usize].label))
            }
            name => self.when_made(foreach_of(plan, step.list), name),
        }
    }

    /// When a name gets its value that steps of a scope, or of those around it, make.
    fn when_made(&self, scope: ItemScope, name: &str) -> Option<String> {
        let mut makers: Vec<StepNumber> = Vec::new();
        let mut scope = Some(scope);
        while let Some(here) = scope {
            makers.extend(self.makers.get(&here).and_then(|made| made.get(name)).into_iter().flatten());
            scope = here.map(|each| foreach_of(self.plan, self.plan.steps[each as usize].list));
        }
        makers.sort_unstable();
        let labels: Vec<String> =
            makers.iter().map(|step| format!("`{}`", self.plan.steps[*step as usize].label)).collect();
        (!labels.is_empty()).then(|| format!("known after {} has run", labels.join(" or ")))
    }

    /// The states that lead to one, in words.
    fn before_state(&self, number: StepNumber) -> String {
        let from = self.positions.get(&number).and_then(|at| self.arriving.get(at));
        let name = |from: &usize| format!("`{}`", self.plan.lists[0].word(*from));
        match from {
            None => "nothing is before it".to_owned(),
            Some(from) => {
                let names: Vec<String> = from.iter().map(name).collect();
                format!("known after {} has run", names.join(" or "))
            }
        }
    }

    /// Where a state leads, in words.
    pub(super) fn leads(&self, number: StepNumber) -> String {
        let state = self.plan.steps[number as usize].step.state.as_ref();
        match state.and_then(|state| state.terminal) {
            Some(Terminal::Success) => return "the loop ends well".to_owned(),
            Some(Terminal::Failure) => return "the loop ends as failed".to_owned(),
            None => {}
        }
        let leaving = self.positions.get(&number).and_then(|at| self.leaving.get(at));
        let ways = leaving.into_iter().flatten().map(|edge| {
            let labels: Vec<&str> =
                edge.labels.iter().map(EcoString::as_str).filter(|label| !label.is_empty()).collect();
            let to = self.plan.lists[0].word(edge.to);
            format!("{} → {to}", labels.join(" or ")).trim_start().to_owned()
        });
        ways.collect::<Vec<_>>().join(", ")
    }
}
