//! Simulated walks for people and programs: the states, how each walk ended, and what no walk reached.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use threadline_engine::event::ERROR;
use threadline_engine::machine::Outcome;
use threadline_engine::rehearsal::{End, MOST_STEPS, RouteEdge, Visit, Walked, edges};
use threadline_lang::Value;

use super::SimulatedLoop;
use crate::reporter::describe_loop_end;
use crate::table::Table;

const PLAIN: Style = Style::new();
const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();
const OPEN: Style = AnsiColor::Yellow.on_default();

/// The number of states at the beginning and at the end of a long walk that are shown.
const LONGEST: usize = 40;
const FIRST: usize = 30;
const LAST: usize = 5;

/// The maximum width of the column with routes.
const ROW: usize = 8;

/// How often states were executed and routes were taken, over all walks.
struct LoopCoverage {
    states: Vec<u64>,
    edges: Vec<(RouteEdge, u64)>,
}

impl SimulatedLoop<'_> {
    fn name(&self, state: usize) -> &str {
        self.plan.lists[0].names.get(state).map_or("", |name| name.as_str())
    }

    fn row(&self, states: &[usize]) -> String {
        let names: Vec<&str> = states.iter().take(ROW).map(|state| self.name(*state)).collect();
        let more =
            if states.len() > ROW { format!(" → {} more", states.len() - ROW) } else { String::new() };
        format!("{}{more}", names.join(" → "))
    }

    fn coverage(&self) -> LoopCoverage {
        let mut states = vec![0; self.plan.lists[0].names.len()];
        let mut edges: Vec<(RouteEdge, u64)> = edges(self.plan).into_iter().map(|edge| (edge, 0)).collect();
        for visit in self.walks.iter().flat_map(|walk| &walk.visits) {
            if let Some(count) = states.get_mut(visit.state) {
                *count += 1;
            }
            let to = visit.to.map(|(to, _)| to);
            let taken = edges.iter_mut().find(|(edge, _)| edge.from == visit.state && Some(edge.to) == to);
            if let Some((_, count)) = taken {
                *count += 1;
            }
        }
        LoopCoverage { states, edges }
    }

    // ---- text ------------------------------------------------------------------------------------------

    pub(super) fn text(&self) -> String {
        let mut out = format!("{BOLD}{}{BOLD:#}  {DIM}{}{DIM:#}\n", self.plan.workflow.name, self.how);
        match &self.walks[..] {
            [walk] => self.walk(walk, &mut out),
            walks => self.endings(walks, &mut out),
        }
        self.covered(&mut out);
        out
    }

    /// One walk, with a line for each state.
    fn walk(&self, walk: &Walked, out: &mut String) {
        let mut table = Table::default();
        let count = walk.visits.len();
        let hidden = if count > LONGEST { FIRST..count - LAST } else { 0..0 };
        let mut iteration = 0;
        for (at, visit) in walk.visits.iter().enumerate() {
            if hidden.contains(&at) {
                if at == hidden.start {
                    table.row([(DIM, String::new()), (DIM, format!("… {} more", hidden.len()))]);
                }
                continue;
            }
            let mark = if visit.iteration == iteration { String::new() } else { visit.iteration.to_string() };
            iteration = visit.iteration;
            let (style, verdict) = self.verdict(visit);
            table.row([(DIM, mark), (PLAIN, visit.at.to_string()), (style, verdict), (DIM, reason(visit))]);
        }
        out.push_str(&table.text("  "));
        let (style, words) = self.ending(walk);
        let _ = writeln!(out, "{style}{words}{style:#}{}", Self::counts(walk));
        if let Some(cycle) = &walk.cycle {
            let _ = writeln!(out, "it does not end by itself: {}", self.cycle(cycle));
        }
    }

    /// A verdict with its route, `no → fix`; `→ fix` for a state that is not judged.
    fn verdict(&self, visit: &Visit) -> (Style, String) {
        let step = &self.plan.steps[self.plan.lists[0].steps[visit.state] as usize].step;
        let word = if step.is_judged() || visit.verdict == ERROR { visit.verdict.as_str() } else { "" };
        let to = match visit.to {
            Some((to, _)) => format!("→ {}", self.name(to)),
            None if visit.verdict == ERROR
                || step.state.as_ref().is_none_or(|state| state.terminal.is_none()) =>
            {
                "has no route".to_owned()
            }
            None => "the end".to_owned(),
        };
        let style = if visit.verdict == ERROR { BAD } else { PLAIN };
        (style, format!("{word} {to}").trim().to_owned())
    }

    /// How a walk ended, in words.
    fn ending(&self, walk: &Walked) -> (Style, String) {
        match &walk.end {
            End::GivenUp => (OPEN, format!("given up after {MOST_STEPS} steps")),
            End::Ended(outcome, ended) => {
                let style = match outcome {
                    Outcome::Completed => GOOD,
                    Outcome::Failed => BAD,
                    Outcome::Stopped => OPEN,
                };
                let last = walk.visits.last();
                let place = match ended {
                    Some(end) => describe_loop_end(*outcome, end),
                    None => last.map_or(String::new(), |visit| {
                        format!(" in {}: `{}` has no route", self.name(visit.state), visit.verdict)
                    }),
                };
                (style, format!("{}{place}", outcome.name()))
            }
        }
    }

    fn counts(walk: &Walked) -> String {
        let count = |count: u64, unit: &str| format!("{count} {unit}{}", if count == 1 { "" } else { "s" });
        format!("; {}, {}", count(walk.iterations, "iteration"), count(walk.visits.len() as u64, "step"))
    }

    fn cycle(&self, cycle: &[usize]) -> String {
        let around: Vec<usize> = cycle.iter().chain(cycle.first()).copied().collect();
        format!("{} repeats", self.row(&around))
    }

    /// Many walks, with a line for each way they ended.
    fn endings(&self, walks: &[Walked], out: &mut String) {
        let mut endings: BTreeMap<String, (Style, usize, &Walked)> = BTreeMap::new();
        for walk in walks {
            let (style, words) = self.ending(walk);
            let known = endings.entry(words).or_insert((style, 0, walk));
            known.1 += 1;
            if walk.visits.len() < known.2.visits.len() {
                known.2 = walk;
            }
        }
        let mut endings: Vec<_> = endings.into_iter().collect();
        endings.sort_by_key(|(_, (_, count, _))| std::cmp::Reverse(*count));
        let mut table = Table::default();
        for (words, (style, count, shortest)) in endings {
            let states: Vec<usize> = shortest.visits.iter().map(|visit| visit.state).collect();
            let example = match &shortest.cycle {
                Some(cycle) => self.cycle(cycle),
                None => self.row(&states),
            };
            table.row([(PLAIN, format!("{count:>4}")), (style, words), (DIM, example)]);
        }
        out.push_str(&table.text("  "));
    }

    fn covered(&self, out: &mut String) {
        let LoopCoverage { states, edges } = self.coverage();
        let reached = states.iter().filter(|count| **count > 0).count();
        let taken = edges.iter().filter(|(_, count)| *count > 0).count();
        let _ = writeln!(out, "states reached: {reached} of {}", states.len());
        let never = states.iter().enumerate().filter(|(_, count)| **count == 0);
        let never: Vec<&str> = never.map(|(state, _)| self.name(state)).collect();
        if !never.is_empty() {
            let _ = writeln!(out, "  never: {}", never.join(", "));
        }
        let _ = writeln!(out, "ways taken: {taken} of {}", edges.len());
        for (edge, _) in edges.iter().filter(|(_, count)| *count == 0) {
            let _ = writeln!(out, "  never: {}", self.way(edge));
        }
    }

    fn way(&self, edge: &RouteEdge) -> String {
        let labels = edge.labels.join(", ");
        let labels = if labels.is_empty() { labels } else { format!(" ({labels})") };
        format!("{} → {}{labels}", self.name(edge.from), self.name(edge.to))
    }

    // ---- JSON ------------------------------------------------------------------------------------------

    pub(super) fn json(&self) -> Value {
        let list = |values: Vec<Value>| Value::sequence(values);
        let LoopCoverage { states, edges } = self.coverage();
        let states = states.iter().enumerate().map(|(state, count)| {
            Value::record([("state", self.name(state).into()), ("visits", Value::from(*count))])
        });
        let edges = edges.iter().map(|(edge, count)| {
            let labels = edge.labels.iter().filter(|label| !label.is_empty());
            Value::record([
                ("from", self.name(edge.from).into()),
                ("to", self.name(edge.to).into()),
                ("by", list(labels.map(|label| label.as_str().into()).collect())),
                ("taken", Value::from(*count)),
            ])
        });
        Value::record([
            ("workflow", self.plan.workflow.name.as_str().into()),
            ("seed", self.seed.map_or(Value::NULL, Value::from)),
            ("walks", list(self.walks.iter().map(|walk| self.walk_json(walk)).collect())),
            ("states", list(states.collect())),
            ("ways", list(edges.collect())),
        ])
    }

    fn walk_json(&self, walk: &Walked) -> Value {
        let list = |values: Vec<Value>| Value::sequence(values);
        let (outcome, ended) = match &walk.end {
            End::Ended(outcome, ended) => (outcome.name(), ended.as_ref()),
            End::GivenUp => ("given_up", None),
        };
        let visits = walk.visits.iter().map(|visit| {
            Value::record([
                ("at", visit.at.as_str().into()),
                ("state", self.name(visit.state).into()),
                ("iteration", Value::from(visit.iteration)),
                ("verdict", visit.verdict.as_str().into()),
                ("reason", visit.reason.as_str().into()),
                ("judged", visit.is_judged.into()),
                ("to", visit.to.map_or(Value::NULL, |(to, _)| self.name(to).into())),
            ])
        });
        let cycle = walk
            .cycle
            .as_ref()
            .map_or(Value::NULL, |cycle| list(cycle.iter().map(|state| self.name(*state).into()).collect()));
        Value::record([
            ("outcome", outcome.into()),
            ("reason", ended.map_or(Value::NULL, |end| end.reason.name().into())),
            ("state", ended.map_or(Value::NULL, |end| end.state.as_str().into())),
            ("limit", ended.and_then(|end| end.limit).map_or(Value::NULL, Value::from)),
            ("iterations", Value::from(walk.iterations)),
            ("steps", Value::from(walk.visits.len() as u64)),
            ("cycle", cycle),
            ("visits", list(visits.collect())),
        ])
    }
}

/// The reason of a verdict, if it was computed.
fn reason(visit: &Visit) -> String {
    let told = visit.is_judged && visit.reason != "the action is done";
    if told { visit.reason.to_string() } else { String::new() }
}
