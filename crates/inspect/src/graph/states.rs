//! A loop as a graph: its states, the routes between them with their verdicts, and how often a run took each.

use std::collections::BTreeMap;

use ecow::EcoString;
use threadline_engine::event::{Address, Event, EventKind, LoopReason, Seq};
use threadline_engine::machine::Outcome;
use threadline_engine::rehearsal::{RouteEdge, edges};
use threadline_flow::model::{Action, Terminal};
use threadline_flow::plan::Plan;

use crate::timeline::{Happening, RunTimeline};

/// A drawing of a loop.
pub struct LoopDrawing {
    /// The name of the workflow.
    pub name: String,
    /// The states, in the order of the file.
    pub states: Vec<DrawnState>,
    /// The routes between them.
    pub ways: Vec<DrawnRoute>,
    /// Whether a run is drawn.
    pub of_run: bool,
}

/// A state in a drawing.
pub struct DrawnState {
    /// The name of the workflow.
    pub name: String,
    /// The kind of its action.
    pub kind: &'static str,
    /// Whether the loop begins in it.
    pub is_initial: bool,
    /// How the loop ends in it, if it does.
    pub terminal: Option<Terminal>,
    /// The number of visits.
    pub visits: u64,
    /// Where the run is, seen from it.
    pub standing: StatePosition,
}

/// Where a run is, now or at its end, seen from a state.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum StatePosition {
    /// The run is in another state.
    Elsewhere,
    /// The run is in the state, or was there when it was interrupted.
    Here,
    /// The run ended in the state.
    Ended,
    /// The run failed in the state.
    Failed,
    /// A limit stopped the run after the state.
    Stopped,
}

/// A route from one state to another.
pub struct DrawnRoute {
    /// The states and the verdicts.
    pub edge: RouteEdge,
    /// The number of times it was taken.
    pub count: u64,
}

/// The routes that a run took, collected from its events.
#[derive(Default)]
pub struct TakenRoutes {
    visits: BTreeMap<usize, u64>,
    taken: BTreeMap<(usize, usize), u64>,
    last: Option<(usize, Address)>,
    standing: Option<StatePosition>,
}

impl TakenRoutes {
    /// Takes the next event of the run.
    pub fn take(&mut self, plan: &Plan, event: &Event) {
        match &event.kind {
            EventKind::RunEnded { outcome, ended, .. } => {
                self.standing = Some(match (outcome, ended) {
                    (Outcome::Stopped, _) => StatePosition::Stopped,
                    (Outcome::Failed, None) => StatePosition::Failed,
                    (_, Some(end)) if end.reason == LoopReason::Terminal => StatePosition::Ended,
                    _ => StatePosition::Ended,
                });
                return;
            }
            EventKind::Resumed { .. } => self.standing = None,
            _ => {}
        }
        self.reach(plan, &event.at);
    }

    /// The routes that a run had taken after an event.
    pub fn after(timeline: &RunTimeline, until: Seq) -> Self {
        let mut routes = Self::default();
        for (_, event) in timeline.events(1, until) {
            match event.what {
                Happening::Ends { outcome, by_loop } => {
                    routes.standing = Some(match (outcome, by_loop) {
                        (Outcome::Stopped, _) => StatePosition::Stopped,
                        (Outcome::Failed, false) => StatePosition::Failed,
                        _ => StatePosition::Ended,
                    });
                    continue;
                }
                Happening::GoesOn => routes.standing = None,
                _ => {}
            }
            routes.reach(&timeline.plan, &timeline.place(event.place).at);
        }
        routes
    }

    /// Something happened at an address, which may be in another visit than before.
    fn reach(&mut self, plan: &Plan, at: &Address) {
        let Some(at) = at.outermost().filter(|at| at.visit().is_some()) else { return };
        let Some(state) = at.outermost_position(plan) else { return };
        if self.last.as_ref().is_some_and(|(_, known)| *known == at) {
            return;
        }
        if let Some((from, _)) = &self.last {
            *self.taken.entry((*from, state)).or_default() += 1;
        }
        *self.visits.entry(state).or_default() += 1;
        self.last = Some((state, at));
    }
}

/// Draws a loop, and the routes that a run of it took.
pub fn drawing(plan: &Plan, path: Option<&TakenRoutes>) -> LoopDrawing {
    let list = &plan.lists[0];
    let initial = plan.states.as_ref().map_or(0, |states| states.initial);
    let states = list.steps.iter().enumerate().map(|(at, number)| {
        let planned = &plan.steps[*number as usize];
        let here = path.and_then(|path| path.last.as_ref()).is_some_and(|(state, _)| *state == at);
        let standing = path.and_then(|path| path.standing).unwrap_or(StatePosition::Here);
        DrawnState {
            name: list.word(at).to_string(),
            kind: match &planned.step.action {
                Action::Nothing => "",
                action => action.name().key(),
            },
            is_initial: at == initial,
            terminal: planned.step.state.as_ref().and_then(|state| state.terminal),
            visits: path.and_then(|path| path.visits.get(&at)).copied().unwrap_or(0),
            standing: if here { standing } else { StatePosition::Elsewhere },
        }
    });
    let count =
        |edge: &RouteEdge| path.and_then(|path| path.taken.get(&(edge.from, edge.to))).copied().unwrap_or(0);
    let mut ways: Vec<DrawnRoute> =
        edges(plan).into_iter().map(|edge| DrawnRoute { count: count(&edge), edge }).collect();
    // A loop that is kept going starts again after its end, without a route.
    let routed = |pair: &(usize, usize)| ways.iter().any(|way| (way.edge.from, way.edge.to) == *pair);
    let again = path.into_iter().flat_map(|path| &path.taken).filter(|(pair, _)| !routed(pair));
    let again: Vec<DrawnRoute> = again
        .map(|((from, to), count)| {
            let labels = vec!["again".into()];
            DrawnRoute { edge: RouteEdge { from: *from, to: *to, labels }, count: *count }
        })
        .collect();
    ways.extend(again);
    LoopDrawing {
        name: plan.workflow.name.to_string(),
        states: states.collect(),
        ways,
        of_run: path.is_some(),
    }
}

impl DrawnState {
    /// The kind of its action, and how the loop ends in it.
    pub fn about(&self) -> String {
        let end = match self.terminal {
            Some(Terminal::Success) => "ends well",
            Some(Terminal::Failure) => "ends as failed",
            None => "",
        };
        let words = [self.kind, end].into_iter().filter(|word| !word.is_empty());
        words.collect::<Vec<_>>().join(", ")
    }
}

impl StatePosition {
    /// The position in words; empty for another state.
    pub fn text(self) -> &'static str {
        match self {
            Self::Elsewhere => "",
            Self::Here => "it is here",
            Self::Ended => "it ended here",
            Self::Failed => "it failed here",
            Self::Stopped => "it stopped after this",
        }
    }
}

impl LoopDrawing {
    /// Whether a run has visited this state, or no run is drawn.
    pub fn is_live(&self, state: &DrawnState) -> bool {
        !self.of_run || state.visits > 0
    }

    /// The verdicts of a route, `no, error`, and in a run how often it was taken.
    pub fn label(&self, way: &DrawnRoute) -> String {
        let labels: Vec<&str> =
            way.edge.labels.iter().map(EcoString::as_str).filter(|label| !label.is_empty()).collect();
        let labels = labels.join(", ");
        if !self.of_run || way.count == 0 {
            return labels;
        }
        format!("{labels} ×{}", way.count).trim_start().to_owned()
    }
}
