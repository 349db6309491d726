//! A loop as a graph: its states, the routes between them with their verdicts, and how often a run took each.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use ecow::EcoString;
use threadline_engine::event::{Address, Event, EventKind, LoopReason};
use threadline_engine::machine::Outcome;
use threadline_engine::rehearsal::{RouteEdge, edges};
use threadline_flow::model::{Action, Terminal};
use threadline_flow::plan::Plan;

use super::text::{mermaid_text, quoted};
use crate::table::Table;

const PLAIN: Style = Style::new();
const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();

/// A drawing of a loop.
pub(super) struct LoopDrawing {
    pub(super) name: String,
    pub(super) states: Vec<DrawnState>,
    pub(super) ways: Vec<DrawnRoute>,
    /// Whether a run is drawn.
    pub(super) of_run: bool,
}

/// A state in a drawing.
pub(super) struct DrawnState {
    pub(super) name: String,
    /// The kind of its action.
    pub(super) kind: &'static str,
    pub(super) is_initial: bool,
    pub(super) terminal: Option<Terminal>,
    /// The number of visits.
    pub(super) visits: u64,
    pub(super) standing: StatePosition,
}

/// Where a run is, now or at its end, seen from a state.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum StatePosition {
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
pub(super) struct DrawnRoute {
    pub(super) edge: RouteEdge,
    /// The number of times it was taken.
    pub(super) count: u64,
}

/// The routes that a run took, collected from its events.
#[derive(Default)]
pub(in crate::commands) struct TakenRoutes {
    visits: BTreeMap<usize, u64>,
    taken: BTreeMap<(usize, usize), u64>,
    last: Option<(usize, Address)>,
    standing: Option<StatePosition>,
}

impl TakenRoutes {
    /// Takes the next event of the run.
    pub(in crate::commands) fn take(&mut self, plan: &Plan, event: &Event) {
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
        let Some(at) = event.at.outermost().filter(|at| at.visit().is_some()) else { return };
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
pub(super) fn drawing(plan: &Plan, path: Option<&TakenRoutes>) -> LoopDrawing {
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
    pub(super) fn about(&self) -> String {
        let end = match self.terminal {
            Some(Terminal::Success) => "ends well",
            Some(Terminal::Failure) => "ends as failed",
            None => "",
        };
        let words = [self.kind, end].into_iter().filter(|word| !word.is_empty());
        words.collect::<Vec<_>>().join(", ")
    }
}

/// The routes of a state, and where the run is.
fn with_standing(state: &DrawnState, ways: &[String]) -> String {
    let standing = state.standing.text();
    let standing = if standing.is_empty() { String::new() } else { format!("; {standing}") };
    format!("{}{standing}", ways.join(", "))
}

impl StatePosition {
    /// The position in words; empty for another state.
    pub(super) fn text(self) -> &'static str {
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
    pub(super) fn is_live(&self, state: &DrawnState) -> bool {
        !self.of_run || state.visits > 0
    }

    /// The verdicts of a route, `no, error`, and in a run how often it was taken.
    pub(super) fn label(&self, way: &DrawnRoute) -> String {
        let labels: Vec<&str> =
            way.edge.labels.iter().map(EcoString::as_str).filter(|label| !label.is_empty()).collect();
        let labels = labels.join(", ");
        if !self.of_run || way.count == 0 {
            return labels;
        }
        format!("{labels} ×{}", way.count).trim_start().to_owned()
    }

    /// The drawing as text, one line for each state.
    pub(super) fn text(&self) -> String {
        let mut table = Table::default();
        for (at, state) in self.states.iter().enumerate() {
            let (style, mark) = match (state.is_initial, state.terminal) {
                (true, _) => (BOLD, "▸"),
                (false, Some(Terminal::Success)) => (GOOD, "✓"),
                (false, Some(Terminal::Failure)) => (BAD, "✗"),
                (false, None) => (PLAIN, " "),
            };
            let live = self.is_live(state);
            let name = format!("{mark} {}", state.name);
            let mut cells = vec![(if live { style } else { DIM }, name), (DIM, state.about())];
            if self.of_run {
                cells.push(match state.visits {
                    0 => (DIM, "never".to_owned()),
                    1 => (PLAIN, "1 visit".to_owned()),
                    visits => (PLAIN, format!("{visits} visits")),
                });
            }
            let ways = self.ways.iter().filter(|way| way.edge.from == at);
            let ways: Vec<String> = ways.map(|way| self.way_text(way)).collect();
            let ways =
                if ways.is_empty() { state.standing.text().to_owned() } else { with_standing(state, &ways) };
            cells.push((PLAIN, ways));
            table.row(cells);
        }
        table.text("")
    }

    /// `no → fix ×2`
    fn way_text(&self, way: &DrawnRoute) -> String {
        let labels: Vec<&str> =
            way.edge.labels.iter().map(EcoString::as_str).filter(|label| !label.is_empty()).collect();
        let to = &self.states[way.edge.to].name;
        let count = match way.count {
            _ if !self.of_run => String::new(),
            0 => " (never)".to_owned(),
            count => format!(" ×{count}"),
        };
        format!("{} → {to}{count}", labels.join(" or ")).trim_start().to_owned()
    }

    /// The drawing for Mermaid.
    pub(super) fn mermaid(&self) -> String {
        let mut out = String::from("flowchart TD\n");
        for (at, state) in self.states.iter().enumerate() {
            let visits = if self.of_run { format!("<br/>×{}", state.visits) } else { String::new() };
            let about = state.about();
            let about = if about.is_empty() { about } else { format!("<br/>{about}") };
            let label = mermaid_text(&format!("{}{about}{visits}", state.name));
            let (open, close) = if state.terminal.is_some() { ("([", "])") } else { ("[", "]") };
            // Writing into a text cannot fail.
            let _ = writeln!(out, "  n{at}{open}\"{label}\"{close}");
            if state.is_initial {
                let _ = writeln!(out, "  begin((\" \")) --> n{at}");
            }
        }
        for way in &self.ways {
            let line = if self.of_run && way.count == 0 { "-.->" } else { "-->" };
            let label = self.label(way);
            let label = if label.is_empty() { label } else { format!("|\"{}\"|", mermaid_text(&label)) };
            let _ = writeln!(out, "  n{} {line}{label} n{}", way.edge.from, way.edge.to);
        }
        let classes = [
            ("good", "fill:#e6f4ea,stroke:#2e7d32"),
            ("bad", "fill:#fdecea,stroke:#c62828"),
            ("never", "fill:#fafafa,stroke:#9e9e9e,stroke-dasharray:4,color:#757575"),
            ("here", "stroke-width:3px"),
        ];
        for (name, style) in classes {
            let is = |state: &DrawnState| match name {
                "good" => state.terminal == Some(Terminal::Success),
                "bad" => state.terminal == Some(Terminal::Failure) || state.standing == StatePosition::Failed,
                "never" => !self.is_live(state),
                _ => state.standing != StatePosition::Elsewhere,
            };
            let of: Vec<String> = (0..self.states.len())
                .filter(|at| is(&self.states[*at]))
                .map(|at| format!("n{at}"))
                .collect();
            if !of.is_empty() {
                let _ = writeln!(out, "  classDef {name} {style}\n  class {} {name}", of.join(","));
            }
        }
        out
    }

    /// The drawing for Graphviz.
    pub(super) fn dot(&self) -> String {
        let mut out = format!("digraph {} {{\n", quoted(&self.name));
        out.push_str(
            "  node [shape=box, style=\"rounded,filled\", fillcolor=white, fontname=\"sans-serif\"]\n",
        );
        out.push_str("  edge [fontname=\"sans-serif\", fontsize=11]\n");
        for (at, state) in self.states.iter().enumerate() {
            let visits = if self.of_run { format!("\n×{}", state.visits) } else { String::new() };
            let about = state.about();
            let about = if about.is_empty() { about } else { format!("\n{about}") };
            let label = quoted(&format!("{}{about}{visits}", state.name));
            let colours = match state.terminal {
                _ if !self.is_live(state) => {
                    ", color=\"#9e9e9e\", fontcolor=\"#757575\", style=\"rounded,dashed\""
                }
                _ if state.standing == StatePosition::Failed => ", color=\"#c62828\", fillcolor=\"#fdecea\"",
                Some(Terminal::Success) => ", color=\"#2e7d32\", fillcolor=\"#e6f4ea\"",
                Some(Terminal::Failure) => ", color=\"#c62828\", fillcolor=\"#fdecea\"",
                None => "",
            };
            let ends = if state.terminal.is_some() { ", peripheries=2" } else { "" };
            let here = if state.standing == StatePosition::Elsewhere { "" } else { ", penwidth=3" };
            let _ = writeln!(out, "  n{at} [label={label}{colours}{ends}{here}]");
            if state.is_initial {
                let _ = writeln!(out, "  begin [shape=point, width=0.15]\n  begin -> n{at}");
            }
        }
        for way in &self.ways {
            let mut about = Vec::new();
            let label = self.label(way);
            if !label.is_empty() {
                about.push(format!("label={}", quoted(&label)));
            }
            if self.of_run && way.count == 0 {
                about.push("style=dashed, color=\"#bdbdbd\", fontcolor=\"#9e9e9e\"".to_owned());
            }
            let about = if about.is_empty() { String::new() } else { format!(" [{}]", about.join(", ")) };
            let _ = writeln!(out, "  n{} -> n{}{about}", way.edge.from, way.edge.to);
        }
        out.push_str("}\n");
        out
    }
}
