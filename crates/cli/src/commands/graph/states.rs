//! A loop as a graph: its states, the ways between them with their verdicts, and how often a run went which way.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use ecow::EcoString;
use threadline_engine::event::{Address, Event, EventKind, LoopReason};
use threadline_engine::machine::Outcome;
use threadline_engine::rehearsal::{Edge, edges};
use threadline_flow::model::{Action, Terminal};
use threadline_flow::plan::Plan;

use super::written::{mermaid_text, quoted};
use crate::table::Table;

const PLAIN: Style = Style::new();
const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();

/// What is drawn of a loop.
pub(super) struct Drawing {
    pub(super) name: String,
    pub(super) states: Vec<State>,
    pub(super) ways: Vec<Way>,
    /// Whether it is that of a run.
    pub(super) of_run: bool,
}

/// A state.
pub(super) struct State {
    pub(super) name: String,
    /// What it does.
    pub(super) kind: &'static str,
    pub(super) is_initial: bool,
    pub(super) terminal: Option<Terminal>,
    /// How often it was entered.
    pub(super) visits: u64,
    pub(super) standing: Standing,
}

/// What a run has to do with a state at its end, or now.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is somewhere else.
    Elsewhere,
    /// It is in the state, or was there when it was interrupted.
    Here,
    /// It ended with it.
    Ended,
    /// It failed in it.
    Failed,
    /// A limit kept it from going on behind it.
    Stopped,
}

/// From one state to another.
pub(super) struct Way {
    pub(super) edge: Edge,
    /// How often it was taken.
    pub(super) count: u64,
}

/// Where a run went, event by event.
#[derive(Default)]
pub(super) struct Path {
    visits: BTreeMap<usize, u64>,
    taken: BTreeMap<(usize, usize), u64>,
    last: Option<(usize, Address)>,
    standing: Option<Standing>,
}

impl Path {
    /// Takes the next event of the run.
    pub(super) fn take(&mut self, plan: &Plan, event: &Event) {
        match &event.kind {
            EventKind::RunEnded { outcome, ended, .. } => {
                self.standing = Some(match (outcome, ended) {
                    (Outcome::Stopped, _) => Standing::Stopped,
                    (Outcome::Failed, None) => Standing::Failed,
                    (_, Some(end)) if end.reason == LoopReason::Terminal => Standing::Ended,
                    _ => Standing::Ended,
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

/// A loop, and where a run of it went.
pub(super) fn drawing(plan: &Plan, path: Option<&Path>) -> Drawing {
    let list = &plan.lists[0];
    let initial = plan.states.as_ref().map_or(0, |states| states.initial);
    let states = list.steps.iter().enumerate().map(|(at, number)| {
        let planned = &plan.steps[*number as usize];
        let here = path.and_then(|path| path.last.as_ref()).is_some_and(|(state, _)| *state == at);
        let standing = path.and_then(|path| path.standing).unwrap_or(Standing::Here);
        State {
            name: list.word(at).to_string(),
            kind: match &planned.step.action {
                Action::Nothing => "",
                action => action.name().key(),
            },
            is_initial: at == initial,
            terminal: planned.step.state.as_ref().and_then(|state| state.terminal),
            visits: path.and_then(|path| path.visits.get(&at)).copied().unwrap_or(0),
            standing: if here { standing } else { Standing::Elsewhere },
        }
    });
    let count =
        |edge: &Edge| path.and_then(|path| path.taken.get(&(edge.from, edge.to))).copied().unwrap_or(0);
    let mut ways: Vec<Way> = edges(plan).into_iter().map(|edge| Way { count: count(&edge), edge }).collect();
    // A loop that is kept going begins again behind its end: no route says so.
    let routed = |pair: &(usize, usize)| ways.iter().any(|way| (way.edge.from, way.edge.to) == *pair);
    let again = path.into_iter().flat_map(|path| &path.taken).filter(|(pair, _)| !routed(pair));
    let again: Vec<Way> = again
        .map(|((from, to), count)| {
            let labels = vec!["again".into()];
            Way { edge: Edge { from: *from, to: *to, labels }, count: *count }
        })
        .collect();
    ways.extend(again);
    Drawing { name: plan.workflow.name.to_string(), states: states.collect(), ways, of_run: path.is_some() }
}

impl State {
    /// What it does, and how the loop ends with it.
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

/// Where a state leads, and what a run has to do with it.
fn with_standing(state: &State, ways: &[String]) -> String {
    let standing = state.standing.text();
    let standing = if standing.is_empty() { String::new() } else { format!("; {standing}") };
    format!("{}{standing}", ways.join(", "))
}

impl Standing {
    /// In words; nothing where there is nothing to say.
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

impl Drawing {
    /// A run has come to this state, or there is no run.
    pub(super) fn is_live(&self, state: &State) -> bool {
        !self.of_run || state.visits > 0
    }

    /// `no, error`, and in a run how often.
    pub(super) fn label(&self, way: &Way) -> String {
        let labels: Vec<&str> =
            way.edge.labels.iter().map(EcoString::as_str).filter(|label| !label.is_empty()).collect();
        let labels = labels.join(", ");
        if !self.of_run || way.count == 0 {
            return labels;
        }
        format!("{labels} ×{}", way.count).trim_start().to_owned()
    }

    /// A line for each state.
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
    fn way_text(&self, way: &Way) -> String {
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

    /// For Mermaid.
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
            let is = |state: &State| match name {
                "good" => state.terminal == Some(Terminal::Success),
                "bad" => state.terminal == Some(Terminal::Failure) || state.standing == Standing::Failed,
                "never" => !self.is_live(state),
                _ => state.standing != Standing::Elsewhere,
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

    /// For Graphviz.
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
                _ if state.standing == Standing::Failed => ", color=\"#c62828\", fillcolor=\"#fdecea\"",
                Some(Terminal::Success) => ", color=\"#2e7d32\", fillcolor=\"#e6f4ea\"",
                Some(Terminal::Failure) => ", color=\"#c62828\", fillcolor=\"#fdecea\"",
                None => "",
            };
            let ends = if state.terminal.is_some() { ", peripheries=2" } else { "" };
            let here = if state.standing == Standing::Elsewhere { "" } else { ", penwidth=3" };
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
