//! A loop as text: for people, for Mermaid and for Graphviz.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use ecow::EcoString;
use threadline_flow::model::Terminal;
use threadline_inspect::graph::states::{DrawnRoute, DrawnState, LoopDrawing, StatePosition};

use super::text::{mermaid_text, quoted};
use crate::table::Table;

const PLAIN: Style = Style::new();
const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();

/// The routes of a state, and where the run is.
fn with_standing(state: &DrawnState, ways: &[String]) -> String {
    let standing = state.standing.text();
    let standing = if standing.is_empty() { String::new() } else { format!("; {standing}") };
    format!("{}{standing}", ways.join(", "))
}

/// The drawing as text, one line for each state.
pub(super) fn text(drawing: &LoopDrawing) -> String {
    let mut table = Table::default();
    for (at, state) in drawing.states.iter().enumerate() {
        let (style, mark) = match (state.is_initial, state.terminal) {
            (true, _) => (BOLD, "▸"),
            (false, Some(Terminal::Success)) => (GOOD, "✓"),
            (false, Some(Terminal::Failure)) => (BAD, "✗"),
            (false, None) => (PLAIN, " "),
        };
        let live = drawing.is_live(state);
        let name = format!("{mark} {}", state.name);
        let mut cells = vec![(if live { style } else { DIM }, name), (DIM, state.about())];
        if drawing.of_run {
            cells.push(match state.visits {
                0 => (DIM, "never".to_owned()),
                1 => (PLAIN, "1 visit".to_owned()),
                visits => (PLAIN, format!("{visits} visits")),
            });
        }
        let ways = drawing.ways.iter().filter(|way| way.edge.from == at);
        let ways: Vec<String> = ways.map(|way| way_text(drawing, way)).collect();
        let ways =
            if ways.is_empty() { state.standing.text().to_owned() } else { with_standing(state, &ways) };
        cells.push((PLAIN, ways));
        table.row(cells);
    }
    table.text("")
}

/// `no → fix ×2`
fn way_text(drawing: &LoopDrawing, way: &DrawnRoute) -> String {
    let labels: Vec<&str> =
        way.edge.labels.iter().map(EcoString::as_str).filter(|label| !label.is_empty()).collect();
    let to = &drawing.states[way.edge.to].name;
    let count = match way.count {
        _ if !drawing.of_run => String::new(),
        0 => " (never)".to_owned(),
        count => format!(" ×{count}"),
    };
    format!("{} → {to}{count}", labels.join(" or ")).trim_start().to_owned()
}

/// The drawing for Mermaid.
pub(super) fn mermaid(drawing: &LoopDrawing) -> String {
    let mut out = String::from("flowchart TD\n");
    for (at, state) in drawing.states.iter().enumerate() {
        let visits = if drawing.of_run { format!("<br/>×{}", state.visits) } else { String::new() };
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
    for way in &drawing.ways {
        let line = if drawing.of_run && way.count == 0 { "-.->" } else { "-->" };
        let label = drawing.label(way);
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
            "never" => !drawing.is_live(state),
            _ => state.standing != StatePosition::Elsewhere,
        };
        let of: Vec<String> = (0..drawing.states.len())
            .filter(|at| is(&drawing.states[*at]))
            .map(|at| format!("n{at}"))
            .collect();
        if !of.is_empty() {
            let _ = writeln!(out, "  classDef {name} {style}\n  class {} {name}", of.join(","));
        }
    }
    out
}

/// The drawing for Graphviz.
pub(super) fn dot(drawing: &LoopDrawing) -> String {
    let mut out = format!("digraph {} {{\n", quoted(&drawing.name));
    out.push_str("  node [shape=box, style=\"rounded,filled\", fillcolor=white, fontname=\"sans-serif\"]\n");
    out.push_str("  edge [fontname=\"sans-serif\", fontsize=11]\n");
    for (at, state) in drawing.states.iter().enumerate() {
        let visits = if drawing.of_run { format!("\n×{}", state.visits) } else { String::new() };
        let about = state.about();
        let about = if about.is_empty() { about } else { format!("\n{about}") };
        let label = quoted(&format!("{}{about}{visits}", state.name));
        let colours = match state.terminal {
            _ if !drawing.is_live(state) => {
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
    for way in &drawing.ways {
        let mut about = Vec::new();
        let label = drawing.label(way);
        if !label.is_empty() {
            about.push(format!("label={}", quoted(&label)));
        }
        if drawing.of_run && way.count == 0 {
            about.push("style=dashed, color=\"#bdbdbd\", fontcolor=\"#9e9e9e\"".to_owned());
        }
        let about = if about.is_empty() { String::new() } else { format!(" [{}]", about.join(", ")) };
        let _ = writeln!(out, "  n{} -> n{}{about}", way.edge.from, way.edge.to);
    }
    out.push_str("}\n");
    out
}
