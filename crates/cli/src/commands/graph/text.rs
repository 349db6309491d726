//! A graph as text: for people, for Mermaid and for Graphviz.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anstyle::Style;

use threadline_inspect::graph::{ArrowKind, DrawnEdge, GraphDrawing, order};
use threadline_inspect::run_state::Standing;

use crate::table::Table;

/// One line for each node, after the nodes that it waits for.
pub(super) fn text(drawing: &GraphDrawing) -> String {
    let mut table = Table::default();
    let mut into: BTreeMap<usize, Vec<&DrawnEdge>> = BTreeMap::new();
    for edge in &drawing.edges {
        into.entry(edge.to).or_default().push(edge);
    }
    let ran = drawing.nodes.iter().any(|node| node.standing.is_some());
    let has_items = drawing.nodes.iter().any(|node| node.items.is_some());
    for at in order(drawing) {
        let node = &drawing.nodes[at];
        let plain = |text: &str| (Style::new(), text.to_owned());
        let mut cells = vec![plain(&node.label), plain(node.kind)];
        if ran {
            let standing = node.standing.filter(|standing| *standing != Standing::NotYet);
            cells.push(plain(standing.map_or("did not run", Standing::words)));
        }
        if has_items {
            cells.push(plain(&node.items_text().unwrap_or_default()));
        }
        let sources = into.get(&at).into_iter().flatten().map(|edge| source(drawing, edge));
        let sources: Vec<String> = sources.collect();
        cells.push(plain(&if sources.is_empty() {
            node.part.map_or(String::new(), |part| format!("({})", part.key()))
        } else {
            format!("← {}", sources.join(", "))
        }));
        table.row(cells);
    }
    table.text("")
}

fn source(drawing: &GraphDrawing, edge: &DrawnEdge) -> String {
    let from = &drawing.nodes[edge.from].label;
    let branch = edge.branch.as_ref().map_or(String::new(), |branch| format!(".{branch}"));
    let sort = match edge.sort {
        ArrowKind::Needs => "",
        ArrowKind::Edge => " (edge)",
        ArrowKind::Waits => " (waits)",
    };
    format!("{from}{branch}{sort}")
}

/// The class of a node in a drawing, by how it ended.
fn class(standing: Option<Standing>) -> &'static str {
    standing.filter(|standing| *standing != Standing::NotYet).map_or("waiting", Standing::name)
}

/// The drawing for Mermaid.
pub(super) fn mermaid(drawing: &GraphDrawing) -> String {
    let mut out = String::from("flowchart TD\n");
    for (at, node) in drawing.nodes.iter().enumerate() {
        let label = mermaid_text(&format!("{}<br/>{}", node.label, node.kind_and_items()));
        let (open, close) = if node.kind == "condition" { ("{", "}") } else { ("[", "]") };
        // Writing into a text cannot fail.
        let _ = writeln!(out, "  n{at}{open}\"{label}\"{close}");
    }
    for edge in &drawing.edges {
        let line = if edge.sort == ArrowKind::Waits { "-.->" } else { "-->" };
        let label =
            edge.branch.as_ref().map_or(String::new(), |branch| format!("|{}|", mermaid_text(branch)));
        let _ = writeln!(out, "  n{} {line}{label} n{}", edge.from, edge.to);
    }
    let styles = [
        (Standing::Completed, "fill:#e6f4ea,stroke:#2e7d32"),
        (Standing::Failed, "fill:#fdecea,stroke:#c62828,stroke-width:2px"),
        (Standing::Skipped, "fill:#f5f5f5,stroke:#9e9e9e,stroke-dasharray:4,color:#757575"),
        (Standing::Cancelled, "fill:#fff8e1,stroke:#f9a825"),
        (Standing::Running, "fill:#e8f0fe,stroke:#3367d6"),
        (Standing::Retrying, "fill:#fff8e1,stroke:#f9a825"),
    ];
    for (status, style) in styles {
        let of_status: Vec<String> = drawing
            .nodes
            .iter()
            .enumerate()
            .filter(|(_, node)| node.standing == Some(status))
            .map(|(at, _)| format!("n{at}"))
            .collect();
        if !of_status.is_empty() {
            let _ = writeln!(out, "  classDef {} {style}", status.name());
            let _ = writeln!(out, "  class {} {}", of_status.join(","), status.name());
        }
    }
    out
}

/// Text inside the quotes of Mermaid, in which a line break stays one.
pub(super) fn mermaid_text(text: &str) -> String {
    let text = text.replace("<br/>", "\n").replace('&', "#amp;").replace('"', "#quot;");
    text.replace('<', "#lt;").replace('>', "#gt;").replace('\n', "<br/>")
}

/// The drawing for Graphviz.
pub(super) fn dot(drawing: &GraphDrawing) -> String {
    let mut out = format!("digraph {} {{\n", quoted(&drawing.name));
    out.push_str("  node [shape=box, style=\"rounded,filled\", fillcolor=white, fontname=\"sans-serif\"]\n");
    for (at, node) in drawing.nodes.iter().enumerate() {
        let shape = if node.kind == "condition" { ", shape=diamond" } else { "" };
        let colours = match node.standing {
            Some(Standing::Completed) => ", color=\"#2e7d32\", fillcolor=\"#e6f4ea\"",
            Some(Standing::Failed) => ", color=\"#c62828\", fillcolor=\"#fdecea\", penwidth=2",
            Some(Standing::Skipped) => ", color=\"#9e9e9e\", fontcolor=\"#757575\", style=\"rounded,dashed\"",
            Some(Standing::Cancelled | Standing::Retrying) => ", color=\"#f9a825\", fillcolor=\"#fff8e1\"",
            Some(Standing::Running) => ", color=\"#3367d6\", fillcolor=\"#e8f0fe\"",
            Some(Standing::Interrupted | Standing::NotYet) | None => "",
        };
        let label = quoted(&format!("{}\n{}", node.label, node.kind_and_items()));
        let _ =
            writeln!(out, "  n{at} [label={label}{shape}{colours}, class={}]", quoted(class(node.standing)));
    }
    for edge in &drawing.edges {
        let mut about = Vec::new();
        about.extend(edge.branch.as_ref().map(|branch| format!("label={}", quoted(branch))));
        about.extend((edge.sort == ArrowKind::Waits).then(|| "style=dashed".to_owned()));
        about.extend((edge.taken == Some(false)).then(|| "color=\"#bdbdbd\"".to_owned()));
        let about = if about.is_empty() { String::new() } else { format!(" [{}]", about.join(", ")) };
        let _ = writeln!(out, "  n{} -> n{}{about}", edge.from, edge.to);
    }
    out.push_str("}\n");
    out
}

/// A text in quotes, as Graphviz reads it.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}
