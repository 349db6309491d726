//! `cargo xtask test`: everything that a change must pass, one step after the other.
//!
//! The first failure stops it. Each step is a command that a person could type; its hint is what to do next.

use std::time::{Duration, Instant};

use crate::architecture;
use crate::arguments::Effort;
use crate::failure::Failure;
use crate::fuzz;
use crate::project::{Project, run as run_command, works};

struct Step {
    name: &'static str,
    run: fn(&Project, Effort) -> Result<Outcome, Failure>,
}

enum Outcome {
    Passed,
    Skipped(&'static str),
}

const STEPS: &[Step] = &[
    Step { name: "format", run: format_check },
    Step { name: "clippy", run: clippy },
    Step { name: "architecture", run: architecture_checks },
    Step { name: "tests", run: tests },
    Step { name: "documentation", run: documentation },
    Step { name: "fuzzing", run: fuzzing },
    Step { name: "benchmark", run: benchmark },
];

pub(crate) fn run(project: &Project, effort: Effort) -> Result<(), Failure> {
    let mut summary = Vec::new();
    let mut result = Ok(());
    for step in STEPS {
        println!("== {}", step.name);
        let start = Instant::now();
        let outcome = (step.run)(project, effort);
        summary.push(summary_line(step.name, &outcome, start.elapsed()));
        if let Err(failure) = outcome {
            let message = format!("step `{}` failed: {}", step.name, failure.message);
            result = Err(Failure::new(message, failure.hint));
            break;
        }
    }
    let rest = STEPS.iter().skip(summary.len());
    summary.extend(rest.map(|step| format!("{:<14} not run", step.name)));
    println!("\n{}", summary.join("\n"));
    result
}

fn summary_line(name: &str, outcome: &Result<Outcome, Failure>, time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match outcome {
        Ok(Outcome::Passed) => format!("{name:<14} passed  {seconds:8.1} s"),
        Ok(Outcome::Skipped(reason)) => format!("{name:<14} skipped: {reason}"),
        Err(_) => format!("{name:<14} FAILED  {seconds:8.1} s"),
    }
}

fn format_check(project: &Project, _: Effort) -> Result<Outcome, Failure> {
    require_component(project, "fmt", "rustfmt")?;
    run_command(&mut project.cargo(&["fmt", "--all", "--check"]), "run `cargo fmt --all`")?;
    for folder in project.outside_packages() {
        let manifest = format!("{folder}/Cargo.toml");
        run_command(
            &mut project.cargo(&["fmt", "--all", "--check", "--manifest-path", &manifest]),
            &format!("run `cargo fmt --all --manifest-path {manifest}`"),
        )?;
    }
    Ok(Outcome::Passed)
}

fn clippy(project: &Project, _: Effort) -> Result<Outcome, Failure> {
    require_component(project, "clippy", "clippy")?;
    let mut command = project.cargo(&["clippy", "--workspace", "--all-targets", "--locked"]);
    run_command(
        command.args(["--", "-D", "warnings"]),
        "repair what it names; where a lint is wrong, `#[expect(.., reason = \"..\")]`",
    )?;
    Ok(Outcome::Passed)
}

fn require_component(project: &Project, subcommand: &str, component: &str) -> Result<(), Failure> {
    if works(&mut project.cargo(&[subcommand, "--version"])) {
        return Ok(());
    }
    Err(Failure::new(
        format!("{component} is not installed"),
        format!("run `rustup component add {component}`"),
    ))
}

fn architecture_checks(project: &Project, _: Effort) -> Result<Outcome, Failure> {
    architecture::check(project)?;
    Ok(Outcome::Passed)
}

fn tests(project: &Project, effort: Effort) -> Result<Outcome, Failure> {
    let mut command = project.cargo(&["test", "--workspace", "--locked"]);
    if effort == Effort::Long {
        command.env("THREADLINE_LONG", "1");
    }
    run_command(&mut command, "the failed tests are named above")?;
    Ok(Outcome::Passed)
}

fn documentation(project: &Project, _: Effort) -> Result<Outcome, Failure> {
    let mut command = project.cargo(&["doc", "--workspace", "--no-deps", "--locked"]);
    run_command(command.env("RUSTDOCFLAGS", "-D warnings"), "repair the doc comments that are named above")?;
    Ok(Outcome::Passed)
}

fn fuzzing(project: &Project, effort: Effort) -> Result<Outcome, Failure> {
    let seconds = match effort {
        Effort::Short => fuzz::SHORT_SECONDS,
        Effort::Long => fuzz::LONG_SECONDS,
    };
    fuzz::run(project, None, seconds)?;
    Ok(Outcome::Passed)
}

fn benchmark(project: &Project, _: Effort) -> Result<Outcome, Failure> {
    let manifest = "bench/Cargo.toml";
    if !project.root.join(manifest).exists() {
        return Ok(Outcome::Skipped("there is no bench/Cargo.toml"));
    }
    let mut command = project.cargo(&["run", "--release", "--locked", "--manifest-path", manifest]);
    run_command(
        command.args(["--", "--rounds", "1"]),
        "the benchmark checks the output of what it measures; see which check failed above",
    )?;
    Ok(Outcome::Passed)
}
