//! The figures as tables for people, and as JSON.

use std::fmt::Write;

use super::functions::Lengths;
use super::{Figures, Package};

/// Tables, narrow enough for a terminal.
pub(super) fn text(figures: &Figures) -> String {
    let mut text = String::from(
        "package           code    doc  comment   tests   functions  p50  p90  p99  max  >50 >100\n",
    );
    for package in &figures.packages {
        let Package { name, lines, functions } = package;
        // Writing into a text cannot fail.
        let _ = writeln!(
            text,
            "{name:<15} {:>6} {:>6} {:>8} {:>7}   {}",
            lines.code,
            lines.doc,
            lines.comment,
            lines.test,
            lengths_text(functions)
        );
    }
    let sum = |part: fn(&Package) -> usize| -> usize {
        figures.packages.iter().filter(|package| package.name.starts_with("crates/")).map(part).sum()
    };
    let _ = writeln!(
        text,
        "{:<15} {:>6} {:>6} {:>8} {:>7}   {}",
        "crates together",
        sum(|package| package.lines.code),
        sum(|package| package.lines.doc),
        sum(|package| package.lines.comment),
        sum(|package| package.lines.test),
        lengths_text(&figures.functions)
    );
    let repeated: Vec<String> =
        figures.types.repeated().map(|(name, count)| format!("{name} {count}")).collect();
    let _ = writeln!(
        text,
        "\ntype names used more than once: {} of {}\n{}",
        repeated.len(),
        figures.types.count(),
        wrapped(&repeated)
    );
    let _ = writeln!(text, "doc comments of at most two words: {}", figures.short_docs);
    let (bytes, programs) = figures.test_programs;
    let _ = writeln!(text, "test programs: {programs}, {} MB", bytes / 1_000_000);
    if !figures.stages.is_empty() {
        text.push_str("\nstages of the last `cargo xtask test`\n");
    }
    for stage in &figures.stages {
        let seconds = stage.time.as_secs_f64();
        let _ = writeln!(text, "{:<14} {:<8} {seconds:>8.1} s", stage.name, stage.outcome);
    }
    text
}

fn lengths_text(lengths: &Lengths) -> String {
    format!(
        "{:>9} {:>4} {:>4} {:>4} {:>4} {:>4} {:>4}",
        lengths.count(),
        lengths.percentile(50),
        lengths.percentile(90),
        lengths.percentile(99),
        lengths.percentile(100),
        lengths.above(50),
        lengths.above(100)
    )
}

/// The words in lines of at most 100 columns.
fn wrapped(words: &[String]) -> String {
    let mut text = String::new();
    let mut width = 0;
    for word in words {
        if width + word.len() > 96 {
            text.push('\n');
            width = 0;
        }
        text.push_str(if width == 0 { "  " } else { ", " });
        text.push_str(word);
        width += word.len() + 2;
    }
    text
}

/// One object. Every text in it is a name of ours, which needs no escapes.
pub(super) fn json(figures: &Figures) -> String {
    let packages = figures.packages.iter().map(|Package { name, lines, functions }| {
        format!(
            "\"{name}\": {{\"code\": {}, \"doc\": {}, \"comment\": {}, \"tests\": {}, \"functions\": {}}}",
            lines.code,
            lines.doc,
            lines.comment,
            lines.test,
            lengths_json(functions)
        )
    });
    let repeated = figures.types.repeated().map(|(name, count)| format!("\"{name}\": {count}"));
    let stages = figures.stages.iter().map(|stage| {
        let seconds = stage.time.as_secs_f64();
        format!(
            "{{\"name\": \"{}\", \"outcome\": \"{}\", \"seconds\": {seconds:.1}}}",
            stage.name, stage.outcome
        )
    });
    let (bytes, programs) = figures.test_programs;
    format!(
        "{{\n  \"packages\": {{\n    {}\n  }},\n  \"functions\": {},\n  \"type_names\": {},\n  \"repeated_type_names\": \
         {{{}}},\n  \"short_docs\": {},\n  \"test_programs\": {{\"count\": {programs}, \"bytes\": {bytes}}},\n  \
         \"stages\": [{}]\n}}\n",
        packages.collect::<Vec<_>>().join(",\n    "),
        lengths_json(&figures.functions),
        figures.types.count(),
        repeated.collect::<Vec<_>>().join(", "),
        figures.short_docs,
        stages.collect::<Vec<_>>().join(", "),
    )
}

fn lengths_json(lengths: &Lengths) -> String {
    format!(
        "{{\"count\": {}, \"median\": {}, \"p90\": {}, \"p99\": {}, \"max\": {}, \"above_50\": {}, \"above_100\": {}}}",
        lengths.count(),
        lengths.percentile(50),
        lengths.percentile(90),
        lengths.percentile(99),
        lengths.percentile(100),
        lengths.above(50),
        lengths.above(100)
    )
}
