//! A graph as SVG: layers from top to bottom, arrows that go around the nodes between.
//!
//! The library places nodes; an arrow over several layers is given a place in each of them, so that it is not drawn
//! through a node.

use std::fmt::Write as _;

use rust_sugiyama::configure::Config;
use threadline_engine::event::Status;
use unicode_width::UnicodeWidthStr;

use super::{ArrowKind, DrawnEdge, GraphDrawing};
use crate::xml::xml;

pub(super) const HEIGHT: f64 = 40.0;
const GAP: f64 = 36.0;
pub(super) const MARGIN: f64 = 16.0;
/// About the width of a character of 13 pixels.
pub(super) const CHARACTER: f64 = 7.4;
/// The colours of arrows, and of those that were not taken.
pub(super) const ARROW: &str = "#546e7a";
pub(super) const IDLE: &str = "#bdbdbd";
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

/// The beginning of an SVG file of a size.
pub(super) fn head(name: &str, width: f64, height: f64) -> String {
    let (width, height) = (width.max(1.0), height.max(1.0));
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"sans-serif\" font-size=\"13\">\n"
    );
    let _ = writeln!(out, "<title>{}</title>", xml(name));
    out.push_str("<defs>");
    for (name, colour) in [("arrow", ARROW), ("idle", IDLE)] {
        let _ = write!(
            out,
            "<marker id=\"{name}\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerUnits=\"userSpaceOnUse\" \
             markerWidth=\"9\" markerHeight=\"9\" orient=\"auto\"><path d=\"M0 0L10 5L0 10z\" fill=\"{colour}\"/></marker>"
        );
    }
    out.push_str("</defs>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n");
    out
}

pub(super) fn svg(drawing: &GraphDrawing) -> String {
    let layers = layers(drawing);
    let widths: Vec<f64> = (0..drawing.nodes.len()).map(|at| node_width(drawing, at)).collect();
    let edges: Vec<(usize, usize)> = drawing.edges.iter().map(|edge| (edge.from, edge.to)).collect();
    let layout = layout(&LayoutRequest { widths: &widths, layers: &layers, edges: &edges, gap: GAP });
    let mut out = head(&drawing.name, layout.width, layout.height);
    for (edge, way) in drawing.edges.iter().zip(&layout.ways) {
        arrow(edge, &layout, way, &mut out);
    }
    for (at, node) in drawing.nodes.iter().enumerate() {
        let (x, y) = layout.points[at];
        let (fill, stroke, dash, text) = match node.status {
            Some(Status::Completed) => ("#e6f4ea", "#2e7d32", "", "#1b1b1b"),
            Some(Status::Failed) => ("#fdecea", "#c62828", "", "#1b1b1b"),
            Some(Status::Skipped) => ("#fafafa", "#9e9e9e", " stroke-dasharray=\"4 3\"", "#757575"),
            Some(Status::Cancelled) => ("#fff8e1", "#f9a825", "", "#1b1b1b"),
            None => ("white", "#455a64", "", "#1b1b1b"),
        };
        let wide = node_width(drawing, at);
        let below = node.kind_and_end();
        let status = node.status.map_or(String::new(), |status| format!(", {}", status.name()));
        let items = node.items.as_ref().map_or(String::new(), |items| format!(", {items}"));
        let radius = if node.kind == "condition" { HEIGHT / 2.0 } else { 6.0 };
        let _ = writeln!(
            out,
            "<g><title>{}: {}{status}{items}</title><rect x=\"{:.1}\" y=\"{:.1}\" width=\"{wide:.1}\" height=\"{HEIGHT}\" \
             rx=\"{radius}\" fill=\"{fill}\" stroke=\"{stroke}\" stroke-width=\"1.5\"{dash}/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"{text}\">{}</text>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#757575\" font-size=\"10\">{below}</text></g>",
            xml(&node.label),
            node.kind,
            x - wide / 2.0,
            y - HEIGHT / 2.0,
            y - 3.0,
            xml(&shortened(&node.label)),
            y + 12.0,
        );
    }
    out.push_str("</svg>\n");
    out
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
    // A label has at most some dozens of characters.
    f64::from(u32::try_from(characters).unwrap_or(u32::MAX)) * CHARACTER + 20.0
}

fn arrow(edge: &DrawnEdge, layout: &SvgLayout, way: &[usize], out: &mut String) {
    let (colour, head) = if edge.taken == Some(false) { (IDLE, "idle") } else { (ARROW, "arrow") };
    let dash = if edge.sort == ArrowKind::Waits { " stroke-dasharray=\"5 4\"" } else { "" };
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
        "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.3\"{dash} marker-end=\"url(#{head})\"/>"
    );
    if let Some(branch) = &edge.branch {
        let (from, to) = (layout.points[way[0]], layout.points[way[1]]);
        let (x, y) = (from.0 + (to.0 - from.0) * 0.3, from.1 + HEIGHT / 2.0 + 13.0);
        // A white edge around the letters, then the letters.
        for paint in ["stroke=\"white\" stroke-width=\"3\"", "fill=\"#37474f\""] {
            let _ = writeln!(
                out,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\" font-size=\"11\" {paint}>{}</text>",
                xml(branch)
            );
        }
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
