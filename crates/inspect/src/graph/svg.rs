//! A graph as SVG: layers from top to bottom, arrows that go around the nodes between.
//!
//! The library places nodes; an arrow over several layers is given a place in each of them, so that it is not drawn
//! through a node.

use std::fmt::Write as _;

use rust_sugiyama::configure::Config;
use unicode_width::UnicodeWidthStr;

use super::{ArrowKind, DrawnEdge, DrawnNode, GraphDrawing};
use crate::run_state::Standing;
use crate::xml::xml;

pub(super) const HEIGHT: f64 = 40.0;
const GAP: f64 = 36.0;
pub(super) const MARGIN: f64 = 16.0;
/// About the width of a character of 13 pixels.
pub(super) const CHARACTER: f64 = 7.4;
/// The maximum number of characters of a label.
const LONGEST: usize = 32;

/// The positions of nodes and arrows.
pub(super) struct SvgLayout {
    /// The centre of each node, then of each point that an arrow goes through.
    pub(super) points: Vec<(f64, f64)>,
    /// The points of each arrow, from its first node to its last.
    pub(super) ways: Vec<Vec<usize>>,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// The nodes and arrows that a layout is wanted for.
pub(super) struct LayoutRequest<'p> {
    /// The width of each node.
    pub(super) widths: &'p [f64],
    /// The layer of each node.
    pub(super) layers: &'p [usize],
    /// The arrows, each from a node to one in a lower layer.
    pub(super) edges: &'p [(usize, usize)],
    /// The distance between layers.
    pub(super) gap: f64,
}

/// What a drawing is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SvgUse {
    /// A file of its own, with its colours in it.
    File,
    /// A part of a page, whose style sheet has [`DRAWING_STYLE`] and the colours that it names.
    Page,
}

/// How the classes of a drawing look. The colours are variables, so that a page can have its own.
pub const DRAWING_STYLE: &str = "\
.drawing .ground{fill:var(--bg)}\
.drawing .box{fill:var(--panel);stroke:var(--ctl);stroke-width:1.5}\
.drawing .name{fill:var(--ink)}.drawing .about,.drawing .part{fill:var(--ink3)}\
.drawing .arrow{fill:none;stroke:var(--ink3);stroke-width:1.3}.drawing .head{fill:var(--ink3)}\
.drawing .arrow.idle{stroke:var(--line2)}.drawing .head.idle{fill:var(--line2)}\
.drawing .arrow.waits,.drawing .arrow.never{stroke-dasharray:5 4}\
.drawing .arrow.taken-2{stroke-width:2.2}.drawing .arrow.taken-5{stroke-width:2.8}\
.drawing .word{fill:var(--ink2);stroke:var(--bg);stroke-width:4px;paint-order:stroke}.drawing .word.idle{fill:var(--ink3)}\
.drawing .sign{fill:none;stroke:var(--ink2);stroke-width:1.7;stroke-linecap:round}\
.drawing .completed .box,.drawing .good .box{fill:var(--ok-bg);stroke:var(--ok)}.drawing .completed .sign{stroke:var(--ok)}\
.drawing .failed .box,.drawing .bad .box{fill:var(--fail-bg);stroke:var(--fail);stroke-width:2.5}.drawing .failed .sign{stroke:var(--fail)}\
.drawing .some-failed .box{stroke:var(--fail);stroke-width:2.5}.drawing .some-failed .about{fill:var(--fail)}\
.drawing .cancelled .box,.drawing .retrying .box{fill:var(--retry-bg);stroke:var(--retry)}\
.drawing .cancelled .sign,.drawing .retrying .sign{stroke:var(--retry)}\
.drawing .running .box,.drawing .visited .box{fill:var(--run-bg);stroke:var(--run)}.drawing .running .sign{stroke:var(--run)}\
.drawing .interrupted .box{fill:var(--wait-bg);stroke:var(--wait)}.drawing .interrupted .sign{stroke:var(--wait)}\
.drawing .skipped .box,.drawing .never .box,.drawing .not-yet .box{fill:var(--panel);stroke:var(--ctl);stroke-dasharray:4 3}\
.drawing .skipped .name,.drawing .never .name{fill:var(--ink3)}\
.drawing .here .box{stroke-width:3}";

/// The colours of a file, in light and in dark.
const COLOURS: &str = "\
.drawing{--bg:#ffffff;--panel:#ffffff;--ctl:#868990;--line2:#cfcfca;--ink:#1c1d1f;--ink2:#55585e;--ink3:#64676e;\
--ok:#0b7359;--ok-bg:#e3f3ee;--fail:#b3370b;--fail-bg:#fdeee7;--run:#1f5fc4;--run-bg:#e6effc;\
--wait:#7d3aa3;--wait-bg:#f4eafa;--retry:#855b00;--retry-bg:#fbf1d9}\
@media (prefers-color-scheme:dark){.drawing{--bg:#131416;--panel:#1a1b1e;--ctl:#767b85;--line2:#444850;--ink:#ececee;\
--ink2:#b3b6bd;--ink3:#969aa2;--ok:#58c7a5;--ok-bg:#14302a;--fail:#ff9266;--fail-bg:#3a2117;--run:#82b1ff;--run-bg:#1b2c47;\
--wait:#d09cf0;--wait-bg:#33233f;--retry:#e8b54d;--retry-bg:#362a12}}\n";

/// The beginning of a drawing of a size.
pub(super) fn head(name: &str, width: f64, height: f64, used: SvgUse) -> String {
    let (width, height) = (width.max(1.0), height.max(1.0));
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"drawing\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"sans-serif\" font-size=\"13\">\n"
    );
    let _ = writeln!(out, "<title>{}</title>", xml(name));
    if used == SvgUse::File {
        let _ = writeln!(out, "<style>{COLOURS}{DRAWING_STYLE}</style>");
    }
    out.push_str("<defs>");
    for (name, class) in [("arrow", "head"), ("idle", "head idle")] {
        let _ = write!(
            out,
            "<marker id=\"{name}\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerUnits=\"userSpaceOnUse\" \
             markerWidth=\"9\" markerHeight=\"9\" orient=\"auto\"><path d=\"M0 0L10 5L0 10z\" class=\"{class}\"/></marker>"
        );
    }
    out.push_str("</defs>\n");
    if used == SvgUse::File {
        out.push_str("<rect width=\"100%\" height=\"100%\" class=\"ground\"/>\n");
    }
    out
}

/// The sign of how something stands, in a square of 10 around a point.
fn sign(standing: Standing, x: f64, y: f64) -> String {
    let path = match standing {
        Standing::Completed => "M-4 0L-1 3L4 -4",
        Standing::Failed => "M-4 -4L4 4M4 -4L-4 4",
        Standing::Cancelled => "M0 -4.5A4.5 4.5 0 1 1 0 4.5A4.5 4.5 0 1 1 0 -4.5M-3 3L3 -3",
        Standing::Retrying => "M3.5 -2A4 4 0 1 0 4 1M4 -5L3.5 -2L0.5 -2.5",
        Standing::Running => "M0 -4.5A4.5 4.5 0 1 1 -4.5 0",
        Standing::Interrupted => "M-2 -4V4M2 -4V4",
        Standing::NotYet => "M0 -4A4 4 0 1 1 0 4A4 4 0 1 1 0 -4",
        Standing::Skipped => "M-4.5 0H-1M1 0H4.5",
    };
    format!("<path class=\"sign\" transform=\"translate({x:.1} {y:.1})\" d=\"{path}\"/>")
}

pub(super) fn svg(drawing: &GraphDrawing, used: SvgUse) -> String {
    let layers = layers(drawing);
    let widths: Vec<f64> = (0..drawing.nodes.len()).map(|at| node_width(drawing, at)).collect();
    let edges: Vec<(usize, usize)> = drawing.edges.iter().map(|edge| (edge.from, edge.to)).collect();
    let mut layout = layout(&LayoutRequest { widths: &widths, layers: &layers, edges: &edges, gap: GAP });
    centre_parts(drawing, &widths, &mut layout);
    let mut out = head(&drawing.name, layout.width, layout.height, used);
    for (edge, way) in drawing.edges.iter().zip(&layout.ways) {
        arrow(drawing, edge, &layout, way, &mut out);
    }
    for (at, node) in drawing.nodes.iter().enumerate() {
        let (x, y) = layout.points[at];
        let wide = node_width(drawing, at);
        let below = node.kind_and_end();
        let begins_part = at == 0 || drawing.nodes[at - 1].part != node.part;
        if let Some(part) = node.part.filter(|_| begins_part) {
            let _ = writeln!(
                out,
                "<text class=\"part\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"11\">{}</text>",
                y - HEIGHT / 2.0 - 8.0,
                part.key()
            );
        }
        let _ = writeln!(out, "{}", node_text(node, (x, y), wide, &below));
    }
    out.push_str("</svg>\n");
    out
}

/// Moves the lists at the end of a run below the middle of the steps.
fn centre_parts(drawing: &GraphDrawing, widths: &[f64], layout: &mut SvgLayout) {
    let count = drawing.nodes.len();
    let is_own = |at: usize| drawing.nodes.get(at).is_none_or(|node| node.part.is_none());
    if (0..count).all(is_own) || !(0..count).any(is_own) {
        return;
    }
    let wide = |at: usize| widths.get(at).copied().unwrap_or(8.0);
    let right = |at: usize, x: f64| x + wide(at) / 2.0 + MARGIN;
    let points = layout.points.iter().enumerate();
    let own = points.filter(|(at, _)| is_own(*at)).map(|(at, (x, _))| right(at, *x)).fold(0.0, f64::max);
    let widest = (0..count).filter(|at| !is_own(*at)).map(wide).fold(0.0, f64::max) + 2.0 * MARGIN;
    layout.width = own.max(widest);
    for (at, (x, _)) in layout.points.iter_mut().enumerate().filter(|(at, _)| !is_own(*at)) {
        debug_assert!(at < count, "only nodes are parts");
        *x = layout.width / 2.0;
    }
}

/// A box with what it is about in classes and data.
fn node_text(node: &DrawnNode, (x, y): (f64, f64), wide: f64, below: &str) -> String {
    let standing = node.standing.map_or("", Standing::name);
    let failed = node.items.map_or(0, |items| items.get(Standing::Failed));
    let some_failed = if failed > 0 { " some-failed" } else { "" };
    let radius = if node.kind == "condition" { HEIGHT / 2.0 } else { 6.0 };
    let mut data = String::new();
    if let Some(standing) = node.standing {
        let _ = write!(data, " data-standing=\"{}\"", standing.name());
    }
    if let Some(items) = node.items {
        let _ = write!(data, " data-items=\"{}\" data-failed=\"{failed}\"", items.total());
    }
    let title = node.items_text().map_or(String::new(), |items| format!(", {items}"));
    let words = node.standing.map_or(String::new(), |standing| format!(", {}", standing.words()));
    let sign = node.standing.map_or(String::new(), |standing| sign(standing, x - wide / 2.0 + 12.0, y));
    // The sign stands at the left.
    let middle = if sign.is_empty() { x } else { x + 8.0 };
    format!(
        "<g id=\"node-{number}\" class=\"node kind-{kind} {standing}{some_failed}\" data-step=\"{label}\" \
         data-number=\"{number}\" data-kind=\"{kind}\"{data}><title>{label}: {kind}{words}{title}</title>\
         <rect class=\"box\" x=\"{:.1}\" y=\"{:.1}\" width=\"{wide:.1}\" height=\"{HEIGHT}\" rx=\"{radius}\"/>{sign}\
         <text class=\"name\" x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
         <text class=\"about\" x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"10\">{}</text></g>",
        x - wide / 2.0,
        y - HEIGHT / 2.0,
        y - 3.0,
        xml(&shortened(&node.label)),
        y + 12.0,
        xml(below),
        number = xml(&node.number),
        kind = xml(node.kind),
        label = xml(&node.label),
    )
}

pub(super) fn shortened(label: &str) -> String {
    match label.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &label[..end]),
        None => label.to_owned(),
    }
}

fn node_width(drawing: &GraphDrawing, at: usize) -> f64 {
    let node = &drawing.nodes[at];
    let below = node.kind_and_end().len();
    let characters = shortened(&node.label).width().max(below * 4 / 5).max(6);
    let sign = if node.standing.is_some() { 16.0 } else { 0.0 };
    // A label has at most some dozens of characters.
    f64::from(u32::try_from(characters).unwrap_or(u32::MAX)) * CHARACTER + 20.0 + sign
}

fn arrow(drawing: &GraphDrawing, edge: &DrawnEdge, layout: &SvgLayout, way: &[usize], out: &mut String) {
    let (class, head) = if edge.taken == Some(false) { (" idle", "idle") } else { ("", "arrow") };
    let taken = if edge.taken == Some(true) { " taken" } else { "" };
    let sort = match edge.sort {
        ArrowKind::Needs => "needs",
        ArrowKind::Edge => "edge",
        ArrowKind::Waits => "waits",
    };
    let branch = edge.branch.as_ref();
    let branch = branch.map_or(String::new(), |branch| format!(" data-branch=\"{}\"", xml(branch)));
    let number = |at: usize| xml(&drawing.nodes[at].number);
    let mut path = String::new();
    let (mut x, mut y) = layout.points[way[0]];
    y += HEIGHT / 2.0;
    let _ = write!(path, "M{x:.1} {y:.1}");
    for (at, point) in way.iter().enumerate().skip(1) {
        let (next_x, next_y) = layout.points[*point];
        let last = at + 1 == way.len();
        let end_y = if last { next_y - HEIGHT / 2.0 - 1.0 } else { next_y - HEIGHT / 2.0 };
        let bend = (end_y - y) / 2.0;
        let _ =
            write!(path, "C{x:.1} {:.1} {next_x:.1} {:.1} {next_x:.1} {end_y:.1}", y + bend, end_y - bend);
        (x, y) = (next_x, end_y);
        if !last {
            // Straight on beside the nodes of the layer.
            y = next_y + HEIGHT / 2.0;
            let _ = write!(path, "L{x:.1} {y:.1}");
        }
    }
    let _ = writeln!(
        out,
        "<path class=\"arrow {sort}{class}{taken}\" data-from=\"{}\" data-to=\"{}\"{branch} d=\"{path}\" \
         marker-end=\"url(#{head})\"/>",
        number(edge.from),
        number(edge.to)
    );
    if let Some(branch) = &edge.branch {
        let (from, to) = (layout.points[way[0]], layout.points[way[1]]);
        let (x, y) = (from.0 + (to.0 - from.0) * 0.3, from.1 + HEIGHT / 2.0 + 13.0);
        let _ = writeln!(
            out,
            "<text class=\"word\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\" font-size=\"11\">{}</text>",
            xml(branch)
        );
    }
}

/// The layer of each node: below everything that it waits for.
fn layers(drawing: &GraphDrawing) -> Vec<usize> {
    let mut layers = vec![0; drawing.nodes.len()];
    let mut out: Vec<Vec<usize>> = vec![Vec::new(); drawing.nodes.len()];
    for edge in &drawing.edges {
        out[edge.from].push(edge.to);
    }
    for at in super::order(drawing) {
        for next in &out[at] {
            layers[*next] = layers[*next].max(layers[at] + 1);
        }
    }
    // A list at the end of the run begins below all that comes before it.
    let (mut below, mut part) = (0, None);
    for (at, node) in drawing.nodes.iter().enumerate() {
        if node.part != part {
            (below, part) = (layers[..at].iter().copied().max().map_or(0, |last| last + 1), node.part);
        }
        if part.is_some() {
            layers[at] += below;
        }
    }
    layers
}

pub(super) fn layout(placing: &LayoutRequest<'_>) -> SvgLayout {
    let LayoutRequest { widths, layers, edges, gap } = *placing;
    let mut sizes: Vec<(f64, f64)> = widths.iter().map(|width| (*width, HEIGHT)).collect();
    let mut layer_of: Vec<usize> = layers.to_vec();
    let mut ways = Vec::with_capacity(edges.len());
    for (from, to) in edges.iter().copied() {
        let mut way = vec![from];
        for layer in layers[from] + 1..layers[to] {
            way.push(sizes.len());
            sizes.push((8.0, HEIGHT));
            layer_of.push(layer);
        }
        way.push(to);
        ways.push(way);
    }
    let number = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    let vertices: Vec<(u32, (f64, f64))> =
        sizes.iter().enumerate().map(|(at, size)| (number(at), *size)).collect();
    let links: Vec<(u32, u32)> =
        ways.iter().flat_map(|way| way.windows(2)).map(|pair| (number(pair[0]), number(pair[1]))).collect();
    let config = Config { vertex_spacing: 24.0, ..Config::default() };
    let mut points = vec![(0.0, 0.0); sizes.len()];
    let mut left = MARGIN;
    for (places, ..) in rust_sugiyama::from_vertices_and_edges(&vertices, &links, &config) {
        let edge_of = |(at, (x, _)): &(usize, (f64, f64)), side: f64| x + side * sizes[*at].0 / 2.0;
        let least = places.iter().map(|place| edge_of(place, -1.0)).fold(f64::INFINITY, f64::min);
        let most = places.iter().map(|place| edge_of(place, 1.0)).fold(f64::NEG_INFINITY, f64::max);
        for (at, (x, _)) in &places {
            // Our own layers are used, so a part of the graph without a connection also starts at the top.
            let layer = f64::from(number(layer_of[*at]));
            points[*at] = (x - least + left, MARGIN + HEIGHT / 2.0 + layer * (HEIGHT + gap));
        }
        left += most - least + 2.0 * MARGIN;
    }
    let last = f64::from(number(layers.iter().copied().max().unwrap_or(0)));
    SvgLayout { points, ways, width: left, height: 2.0 * MARGIN + HEIGHT + last * (HEIGHT + gap) }
}
