//! `cargo xtask test`: everything that a change must pass, one step after the other.
//!
//! The first failure stops it. Each step is a command that a person could type; its hint is what to do next.

use std::time::Instant;

use crate::architecture;
use crate::arguments::Effort;
use crate::dependencies;
use crate::failure::Failure;
use crate::fuzz::{self, Amount};
use crate::measure::{Stage, write_stages};
use crate::newcomer;
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
    Step { name: "features", run: features },
    Step { name: "architecture", run: architecture_checks },
    Step { name: "dependencies", run: dependency_checks },
    Step { name: "build of tests", run: build_tests },
    Step { name: "tests", run: tests },
    Step { name: "newcomer", run: newcomer },
    Step { name: "documentation", run: documentation },
    Step { name: "fuzzing", run: fuzzing },
    Step { name: "benchmark", run: benchmark },
];

pub(crate) fn run(project: &Project, effort: Effort) -> Result<(), Failure> {
    let mut stages = Vec::new();
    let mut result = Ok(());
    for step in STEPS {
        println!("== {}", step.name);
        let start = Instant::now();
        let outcome = (step.run)(project, effort);
        let word = match &outcome {
            Ok(Outcome::Passed) => "passed",
            Ok(Outcome::Skipped(_)) => "skipped",
            Err(_) => "FAILED",
        };
        stages.push(Stage { name: step.name.to_owned(), outcome: word.to_owned(), time: start.elapsed() });
        match outcome {
            Ok(Outcome::Passed) => {}
            Ok(Outcome::Skipped(reason)) => println!("skipped: {reason}"),
            Err(failure) => {
                let message = format!("step `{}` failed: {}", step.name, failure.message);
                result = Err(Failure::new(message, failure.hint));
                break;
            }
        }
    }
    println!();
    for stage in &stages {
        println!("{:<14} {:<7} {:8.1} s", stage.name, stage.outcome, stage.time.as_secs_f64());
    }
    for step in STEPS.iter().skip(stages.len()) {
        println!("{:<14} not run", step.name);
    }
    write_stages(&project.target, &stages);
    result
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

/// What is shipped is built without tests, so without what only tests need; and each feature must do without
/// the others.
fn features(project: &Project, _: Effort) -> Result<Outcome, Failure> {
    let hint = "something is used that only another feature or a test brings";
    let clippy = |arguments: &[&str]| {
        let mut command = project.cargo(&["clippy", "--quiet", "--locked"]);
        run_command(command.args(arguments).args(["--", "-D", "warnings"]), hint)
    };
    clippy(&["--package", "threadline", "--bins"])?;
    clippy(&["--package", "threadline", "--bins", "--no-default-features"])?;
    for features in ["", "codec", "regex", "time", "yaml"] {
        clippy(&["--package", "threadline-lang", "--no-default-features", "--features", features])?;
    }
    Ok(Outcome::Passed)
}

fn architecture_checks(project: &Project, _: Effort) -> Result<Outcome, Failure> {
    architecture::check(project)?;
    Ok(Outcome::Passed)
}

fn dependency_checks(project: &Project, effort: Effort) -> Result<Outcome, Failure> {
    dependencies::check(project, effort)?;
    Ok(Outcome::Passed)
}

fn build_tests(project: &Project, _: Effort) -> Result<Outcome, Failure> {
    run_command(&mut project.cargo(&["test", "--workspace", "--locked", "--no-run"]), "see `cargo check`")?;
    Ok(Outcome::Passed)
}

fn tests(project: &Project, effort: Effort) -> Result<Outcome, Failure> {
    let mut command = project.cargo(&["test", "--workspace", "--locked", "--no-fail-fast"]);
    if effort == Effort::Long {
        command.env("THREADLINE_LONG", "1");
    }
    run_command(&mut command, "the failed tests are named above")?;
    Ok(Outcome::Passed)
}

fn newcomer(project: &Project, effort: Effort) -> Result<Outcome, Failure> {
    newcomer::check(project, effort)?;
    Ok(Outcome::Passed)
}

fn documentation(project: &Project, _: Effort) -> Result<Outcome, Failure> {
    let mut command = project.cargo(&["doc", "--workspace", "--no-deps", "--locked"]);
    run_command(command.env("RUSTDOCFLAGS", "-D warnings"), "repair the doc comments that are named above")?;
    Ok(Outcome::Passed)
}

fn fuzzing(project: &Project, effort: Effort) -> Result<Outcome, Failure> {
    let amount = match effort {
        Effort::Short => Amount::Short,
        Effort::Long => Amount::Long,
    };
    fuzz::run(project, None, amount)?;
    Ok(Outcome::Passed)
}

/// The outputs of what is compared, built as tests are: only who measures needs the optimised build.
fn benchmark(project: &Project, _: Effort) -> Result<Outcome, Failure> {
    let manifest = "bench/Cargo.toml";
    if !project.root.join(manifest).exists() {
        return Ok(Outcome::Skipped("there is no bench/Cargo.toml"));
    }
    let mut command = project.cargo(&["run", "--locked", "--manifest-path", manifest]);
    run_command(
        // What the tests were built with is built already.
        command.args(["--", "--rounds", "1"]).env("CARGO_TARGET_DIR", &project.target),
        "the benchmark checks the output of what it measures; see which check failed above",
    )?;
    Ok(Outcome::Passed)
}
