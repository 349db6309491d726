//! The results as tables for people and as JSON for programs.

use std::fmt::Write as _;

use serde_json::{Value as Json, json};

use crate::contestants::{self, FLOOR};
use crate::harness::{Figures, Measured};
use crate::targets::{Measure, Verdict};

pub(crate) fn text(rounds: usize, results: &[Measured], verdicts: &[Verdict]) -> String {
    let all: Vec<&Measured> = results.iter().collect();
    let counted: Vec<&Measured> = results.iter().filter(|measured| measured.references > 0).collect();
    let mut out = String::new();
    let title = format!("ns per operation, median of {rounds} rounds");
    table(&mut out, &title, &all, time_cell);
    table(&mut out, "times the floor", &all, ratio_cell);
    if !counted.is_empty() {
        table(&mut out, "ns per reference", &counted, reference_cell);
    }
    table(&mut out, "allocations per operation", &all, allocations_cell);
    legend(&mut out, &all);
    targets(&mut out, verdicts);
    out
}

type Cell = fn(&Measured, &Figures) -> String;

fn time_cell(_: &Measured, figures: &Figures) -> String {
    match figures.ns {
        ns @ ..1e6 => number(ns),
        ns => format!("{:.2} ms", ns / 1e6),
    }
}

fn ratio_cell(measured: &Measured, figures: &Figures) -> String {
    match measured.figures(FLOOR) {
        Some(floor) => number(figures.ns / floor.ns),
        None => "-".to_owned(),
    }
}

fn reference_cell(measured: &Measured, figures: &Figures) -> String {
    number(figures.ns / f64::from(measured.references))
}

fn allocations_cell(_: &Measured, figures: &Figures) -> String {
    match figures.allocations {
        count if count.fract() == 0.0 => thousands(count),
        count => number(count),
    }
}

/// Contestants down, workloads across, in Markdown.
fn table(out: &mut String, title: &str, results: &[&Measured], cell: Cell) {
    let mut rows = vec![header(results)];
    rows.extend(present(results).map(|(contestant, _)| row(contestant, results, cell)));
    let widths: Vec<usize> = (0..=results.len()).map(|column| width(&rows, column)).collect();
    rows.insert(1, rule(&widths));
    push(out, format_args!("{title}\n\n"));
    for row in rows {
        line(out, &row, &widths);
    }
    out.push('\n');
}

/// The contestants that took part at all, in the order of the list.
fn present<'a>(
    results: &'a [&Measured],
) -> impl Iterator<Item = &'static (&'static str, &'static str)> + use<'a> {
    contestants::ALL
        .iter()
        .filter(|(name, _)| results.iter().any(|measured| measured.figures(name).is_some()))
}

fn header(results: &[&Measured]) -> Vec<String> {
    std::iter::once("").chain(results.iter().map(|measured| measured.name)).map(str::to_owned).collect()
}

fn row(contestant: &str, results: &[&Measured], cell: Cell) -> Vec<String> {
    let cells = results.iter().map(|measured| match measured.figures(contestant) {
        Some(figures) => cell(measured, figures),
        None => "-".to_owned(),
    });
    std::iter::once(contestant.to_owned()).chain(cells).collect()
}

fn width(rows: &[Vec<String>], column: usize) -> usize {
    rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
}

fn rule(widths: &[usize]) -> Vec<String> {
    let mut cells: Vec<String> = widths.iter().map(|width| format!("{}:", "-".repeat(width - 1))).collect();
    cells[0] = "-".repeat(widths[0]);
    cells
}

fn line(out: &mut String, row: &[String], widths: &[usize]) {
    push(out, format_args!("| {:<width$} |", row[0], width = widths[0]));
    for (cell, width) in row.iter().zip(widths).skip(1) {
        push(out, format_args!(" {cell:>width$} |"));
    }
    out.push('\n');
}

fn legend(out: &mut String, results: &[&Measured]) {
    for measured in results {
        push(out, format_args!("{:<7} {}\n", measured.name, measured.about));
    }
    out.push('\n');
    for (name, what) in present(results) {
        push(out, format_args!("{name:<18} {what}\n"));
    }
    out.push('\n');
}

fn targets(out: &mut String, verdicts: &[Verdict]) {
    out.push_str("targets; a time in another workload is compared per reference, where both count them\n\n");
    for verdict in verdicts {
        let measured = verdict.measured.map_or_else(|| "-".to_owned(), number);
        let (status, target) = (verdict.status(), verdict.target);
        let described = target.to_string();
        push(out, format_args!("{status:<12}  {:<6}  {described:<36}  {measured:>6}\n", target.workload));
    }
}

fn push(out: &mut String, text: std::fmt::Arguments) {
    out.write_fmt(text).expect("a String takes everything");
}

/// Three digits or more: `1.00`, `12.3`, `123`, `12,345`.
fn number(number: f64) -> String {
    match number {
        ..10.0 => format!("{number:.2}"),
        10.0..100.0 => format!("{number:.1}"),
        _ => thousands(number),
    }
}

fn thousands(number: f64) -> String {
    let whole = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

pub(crate) fn json(rounds: usize, results: &[Measured], verdicts: &[Verdict]) -> Json {
    json!({
        "rounds": rounds,
        "workloads": results.iter().map(workload_json).collect::<Json>(),
        "targets": verdicts.iter().map(verdict_json).collect::<Json>(),
    })
}

fn workload_json(measured: &Measured) -> Json {
    let floor = measured.figures(FLOOR).map(|floor| floor.ns);
    json!({
        "name": measured.name,
        "about": measured.about,
        "references": measured.references,
        "contestants": measured.figures.iter().map(|figures| figures_json(figures, floor)).collect::<Json>(),
    })
}

fn figures_json(figures: &Figures, floor: Option<f64>) -> Json {
    json!({
        "name": figures.contestant,
        "ns": figures.ns,
        "ns_quartiles": [figures.low, figures.high],
        "times_the_floor": floor.map(|floor| figures.ns / floor),
        "allocations": figures.allocations,
    })
}

fn verdict_json(verdict: &Verdict) -> Json {
    let target = verdict.target;
    let of = match target.of {
        Measure::Time { workload, rival } => {
            json!({"time": {"workload": workload, "rival": rival}})
        }
        Measure::Allocation => json!("allocations"),
    };
    json!({
        "workload": target.workload,
        "contestant": target.contestant,
        "operator": "<=",
        "factor": target.factor,
        "of": of,
        "measured": verdict.measured,
        "status": verdict.status(),
    })
}
