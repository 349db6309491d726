//! A loop as SVG: layers from the initial state downwards, ways back up beside them, a way from a state to itself as a
//! bow. Every way has a place of its own at the edge of its state, so that no two lie upon each other.

use std::fmt::Write as _;

use threadline_flow::model::Terminal;
use unicode_width::UnicodeWidthStr as _;

use super::states::{DrawnRoute, DrawnState, LoopDrawing, StatePosition};
use super::svg::{CHARACTER, HEIGHT, LayoutRequest, MARGIN, SvgLayout, SvgUse, head, layout, shortened};
use crate::xml::xml;

/// Between two layers is room for the words of ways.
const GAP: f64 = 64.0;

/// How far a bow goes out of its state.
const BOW: f64 = 34.0;

pub(super) fn svg(drawing: &LoopDrawing, used: SvgUse) -> String {
    let backward = backward(drawing);
    let layers = layers(drawing, &backward);
    let (straight, bows): (Vec<usize>, Vec<usize>) =
        (0..drawing.ways.len()).partition(|at| drawing.ways[*at].edge.from != drawing.ways[*at].edge.to);
    let pairs: Vec<(usize, usize)> = straight
        .iter()
        .map(|at| {
            let edge = &drawing.ways[*at].edge;
            if backward[*at] { (edge.to, edge.from) } else { (edge.from, edge.to) }
        })
        .collect();
    let widths: Vec<f64> = drawing.states.iter().map(|state| width(drawing, state)).collect();
    let mut placed = layout(&LayoutRequest { widths: &widths, layers: &layers, edges: &pairs, gap: GAP });
    // The mark of the beginning stands above, a bow to the right.
    for point in &mut placed.points {
        point.1 += 14.0;
    }
    placed.height += 14.0;
    let bow = bows.iter().map(|at| {
        let state = drawing.ways[*at].edge.from;
        let label = drawing.label(&drawing.ways[*at]);
        placed.points[state].0 + widths[state] / 2.0 + BOW + text_width(&label) + 2.0 * MARGIN
    });
    placed.width = bow.fold(placed.width, f64::max);
    let mut out = String::new();
    let ports = RoutePorts::new(drawing, &straight, &backward, &placed, &widths);
    let mut words = StateTexts::default();
    for (number, at) in straight.iter().enumerate() {
        let mut way: Vec<usize> = placed.ways[number].clone();
        if backward[*at] {
            way.reverse();
        }
        line(drawing, *at, backward[*at], &way, &placed, &ports, &mut out, &mut words);
    }
    for at in bows {
        bow_of(drawing, at, &placed, &widths, &mut out, &mut words);
    }
    for (at, state) in drawing.states.iter().enumerate() {
        node(drawing, state, placed.points[at], widths[at], &mut out);
    }
    out.push_str(&words.text);
    // Words that stand out at the left move everything.
    let left = (MARGIN / 2.0 - words.left).max(0.0);
    let width = placed.width.max(words.right + MARGIN / 2.0) + left;
    let head = head(&drawing.name, width, placed.height, used);
    format!("{head}<g transform=\"translate({left:.1} 0)\">\n{out}</g>\n</svg>\n")
}

/// The words of ways, above everything else, and how far they reach.
#[derive(Default)]
struct StateTexts {
    text: String,
    left: f64,
    right: f64,
    /// Where words stand: their left and right ends, and how far down.
    places: Vec<(f64, f64, f64)>,
}

/// Words stand so far below others that have no room beside them.
const LINE: f64 = 13.0;

impl StateTexts {
    /// How far down words have room between these ends.
    fn room(&mut self, left: f64, right: f64, mut y: f64) -> f64 {
        let taken = |(from, to, at): &(f64, f64, f64), y: f64| {
            left < *to + 4.0 && *from < right + 4.0 && (y - at).abs() < LINE - 1.0
        };
        while self.places.iter().any(|place| taken(place, y)) {
            y += LINE;
        }
        self.places.push((left, right, y));
        y
    }
}

fn text_width(text: &str) -> f64 {
    f64::from(u32::try_from(text.width()).unwrap_or(u32::MAX)) * 6.0
}

fn width(drawing: &LoopDrawing, state: &DrawnState) -> f64 {
    let characters = shortened(&state.name).width().max(below(drawing, state).width() * 4 / 5).max(8);
    f64::from(u32::try_from(characters).unwrap_or(u32::MAX)) * CHARACTER + 24.0
}

/// What stands below the name of a state.
fn below(drawing: &LoopDrawing, state: &DrawnState) -> String {
    let visits = match state.visits {
        _ if !drawing.of_run => String::new(),
        0 => "never".to_owned(),
        1 => "1 visit".to_owned(),
        visits => format!("{visits} visits"),
    };
    let words = [state.about(), visits].into_iter().filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(", ")
}

/// The ways that lead back to where a walk from the initial state came from.
fn backward(drawing: &LoopDrawing) -> Vec<bool> {
    let count = drawing.states.len();
    let mut out: Vec<Vec<(usize, usize)>> = vec![Vec::new(); count];
    for (at, way) in drawing.ways.iter().enumerate() {
        out[way.edge.from].push((at, way.edge.to));
    }
    let mut backward = vec![false; drawing.ways.len()];
    let (mut open, mut done) = (vec![false; count], vec![false; count]);
    let initial = drawing.states.iter().position(|state| state.is_initial).unwrap_or(0);
    for root in std::iter::once(initial).chain(0..count) {
        if done.get(root).copied().unwrap_or(true) {
            continue;
        }
        // States and the next way of each: no recursion, however long the loop is.
        let mut stack = vec![(root, 0)];
        open[root] = true;
        while let Some((state, next)) = stack.pop() {
            let Some((at, to)) = out[state].get(next).copied() else {
                open[state] = false;
                done[state] = true;
                continue;
            };
            stack.push((state, next + 1));
            if open[to] {
                backward[at] = true;
            } else if !done[to] {
                open[to] = true;
                stack.push((to, 0));
            }
        }
    }
    backward
}

/// The layer of each state: below all that lead down to it.
fn layers(drawing: &LoopDrawing, backward: &[bool]) -> Vec<usize> {
    let mut layers = vec![0; drawing.states.len()];
    let forward: Vec<(usize, usize)> = drawing
        .ways
        .iter()
        .zip(backward)
        .filter(|(way, back)| !**back && way.edge.from != way.edge.to)
        .map(|(way, _)| (way.edge.from, way.edge.to))
        .collect();
    // A way that leads on cannot be in a circle, so this comes to an end.
    for _ in 0..drawing.states.len() {
        let mut moved = false;
        for (from, to) in &forward {
            if layers[*to] <= layers[*from] {
                layers[*to] = layers[*from] + 1;
                moved = true;
            }
        }
        if !moved {
            break;
        }
    }
    layers
}

/// Where ways begin and end at the upper and the lower edge of their states.
struct RoutePorts {
    /// For each way: where it leaves its first state, and where it comes to its last.
    ends: Vec<(f64, f64)>,
}

impl RoutePorts {
    fn new(
        drawing: &LoopDrawing,
        straight: &[usize],
        backward: &[bool],
        placed: &SvgLayout,
        widths: &[f64],
    ) -> Self {
        // Each side of a state, with the ways there and where they come from.
        let mut sides: Vec<Vec<(f64, usize, bool)>> = vec![Vec::new(); drawing.states.len() * 2];
        for (number, at) in straight.iter().enumerate() {
            let way = &placed.ways[number];
            let (upper, lower) = (way[0], way[way.len() - 1]);
            let (after, before) = (placed.points[way[1]].0, placed.points[way[way.len() - 2]].0);
            // A way down leaves below its state and comes to the next from above; a way back the other way round.
            sides[upper * 2 + 1].push((after, *at, !backward[*at]));
            sides[lower * 2].push((before, *at, backward[*at]));
        }
        let mut ends = vec![(0.0, 0.0); drawing.ways.len()];
        for (side, mut ways) in sides.into_iter().enumerate() {
            let state = side / 2;
            ways.sort_by(|a, b| a.0.total_cmp(&b.0).then(backward[a.1].cmp(&backward[b.1])));
            let count = f64::from(u32::try_from(ways.len()).unwrap_or(u32::MAX));
            let room = (widths[state] - 16.0).max(0.0);
            for (place, (_, at, leaves)) in ways.iter().enumerate() {
                let place = f64::from(u32::try_from(place).unwrap_or(u32::MAX)) + 0.5;
                let x = placed.points[state].0 - room / 2.0 + room * place / count;
                if *leaves {
                    ends[*at].0 = x;
                } else {
                    ends[*at].1 = x;
                }
            }
        }
        Self { ends }
    }
}

/// The class of a way, and its arrow head.
fn looks(drawing: &LoopDrawing, way: &DrawnRoute) -> (&'static str, &'static str) {
    if !drawing.of_run {
        return ("arrow route", "arrow");
    }
    match way.count {
        0 => ("arrow route idle never", "idle"),
        1 => ("arrow route taken", "arrow"),
        2..=4 => ("arrow route taken taken-2", "arrow"),
        _ => ("arrow route taken taken-5", "arrow"),
    }
}

/// What a way is about, as data.
fn way_data(drawing: &LoopDrawing, way: &DrawnRoute) -> String {
    let name = |at: usize| xml(&drawing.states[at].name);
    format!(
        "data-from=\"{}\" data-to=\"{}\" data-count=\"{}\"",
        name(way.edge.from),
        name(way.edge.to),
        way.count
    )
}

#[expect(clippy::too_many_arguments, reason = "each is a thing of its own, and there is one caller")]
fn line(
    drawing: &LoopDrawing,
    at: usize,
    back: bool,
    way: &[usize],
    placed: &SvgLayout,
    ports: &RoutePorts,
    out: &mut String,
    words: &mut StateTexts,
) {
    let edge = &drawing.ways[at];
    let ((class, head), data) = (looks(drawing, edge), way_data(drawing, edge));
    // Downwards, or upwards.
    let side = if back { -1.0 } else { 1.0 };
    let (begin, end) = ports.ends[at];
    let (mut x, mut y) = (begin, placed.points[way[0]].1 + side * HEIGHT / 2.0);
    let mut path = format!("M{x:.1} {y:.1}");
    let mut middle = (x, y);
    for (place, point) in way.iter().enumerate().skip(1) {
        let last = place + 1 == way.len();
        let (point_x, point_y) = placed.points[*point];
        let next_x = if last { end } else { point_x };
        let next_y = point_y - side * (HEIGHT / 2.0 + if last { 1.0 } else { 0.0 });
        let bend = (next_y - y) / 2.0;
        let _ =
            write!(path, "C{x:.1} {:.1} {next_x:.1} {:.1} {next_x:.1} {next_y:.1}", y + bend, next_y - bend);
        if place == 1 {
            // At a third of the way.
            middle = (x + (next_x - x) * 0.26, y + (next_y - y) * 0.36);
        }
        (x, y) = (next_x, next_y);
        if !last {
            y = point_y + side * HEIGHT / 2.0;
            let _ = write!(path, "L{x:.1} {y:.1}");
        }
    }
    let _ = writeln!(out, "<path class=\"{class}\" {data} d=\"{path}\" marker-end=\"url(#{head})\"/>");
    label(drawing, edge, middle, "middle", words);
}

/// A way from a state to itself, at its right side.
fn bow_of(
    drawing: &LoopDrawing,
    at: usize,
    placed: &SvgLayout,
    widths: &[f64],
    out: &mut String,
    words: &mut StateTexts,
) {
    let edge = &drawing.ways[at];
    let ((class, head), data) = (looks(drawing, edge), way_data(drawing, edge));
    let (x, y) = placed.points[edge.edge.from];
    let right = x + widths[edge.edge.from] / 2.0;
    let _ = writeln!(
        out,
        "<path class=\"{class}\" {data} d=\"M{right:.1} {:.1}C{:.1} {:.1} {:.1} {:.1} {:.1} {:.1}\" \
         marker-end=\"url(#{head})\"/>",
        y - 9.0,
        right + BOW,
        y - 22.0,
        right + BOW,
        y + 22.0,
        right + 1.5,
        y + 9.0,
    );
    label(drawing, edge, (right + BOW - 4.0, y + 4.0), "start", words);
}

fn label(drawing: &LoopDrawing, way: &DrawnRoute, (x, y): (f64, f64), anchor: &str, words: &mut StateTexts) {
    let text = drawing.label(way);
    if text.is_empty() {
        return;
    }
    let wide = text_width(&text);
    let left = if anchor == "middle" { x - wide / 2.0 } else { x };
    let y = words.room(left, left + wide, y);
    words.left = words.left.min(left);
    words.right = words.right.max(left + wide);
    let out = &mut words.text;
    let class = if drawing.of_run && way.count == 0 { "word idle" } else { "word" };
    let _ = writeln!(
        out,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"11\">{}</text>",
        xml(&text)
    );
}

fn node(drawing: &LoopDrawing, state: &DrawnState, (x, y): (f64, f64), wide: f64, out: &mut String) {
    let live = drawing.is_live(state);
    let class = match state.terminal {
        _ if !live => "never",
        _ if state.standing == StatePosition::Failed => "failed",
        Some(Terminal::Success) => "good",
        Some(Terminal::Failure) => "bad",
        None if state.standing == StatePosition::Stopped => "interrupted",
        None if drawing.of_run => "visited",
        None => "state",
    };
    let here = if state.standing == StatePosition::Elsewhere { "" } else { " here" };
    let radius = if state.terminal.is_some() { HEIGHT / 2.0 } else { 6.0 };
    let about = below(drawing, state);
    let standing = state.standing.text();
    let title: Vec<&str> =
        [state.name.as_str(), about.as_str(), standing].into_iter().filter(|word| !word.is_empty()).collect();
    let (left, top) = (x - wide / 2.0, y - HEIGHT / 2.0);
    let name = xml(&state.name);
    let _ = write!(
        out,
        "<g id=\"node-{name}\" class=\"node {class}{here}\" data-step=\"{name}\" data-visits=\"{}\"><title>{}</title>",
        state.visits,
        xml(&title.join(", "))
    );
    if state.is_initial {
        let _ = write!(
            out,
            "<circle cx=\"{x:.1}\" cy=\"{:.1}\" r=\"4\" class=\"head\"/><path class=\"arrow\" d=\"M{x:.1} {:.1}V{:.1}\" \
             marker-end=\"url(#arrow)\"/>",
            top - 22.0,
            top - 22.0,
            top - 1.0,
        );
    }
    let _ = write!(
        out,
        "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{wide:.1}\" height=\"{HEIGHT}\" rx=\"{radius}\" class=\"box\"/>"
    );
    let name_y = if about.is_empty() { y + 4.5 } else { y - 3.0 };
    let _ = write!(
        out,
        "<text class=\"name\" x=\"{x:.1}\" y=\"{name_y:.1}\" text-anchor=\"middle\">{}</text>",
        xml(&shortened(&state.name))
    );
    if !about.is_empty() {
        let _ = write!(
            out,
            "<text class=\"about\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"10\">{}</text>",
            y + 12.0,
            xml(&about)
        );
    }
    out.push_str("</g>\n");
}
