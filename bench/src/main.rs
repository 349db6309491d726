//! Threadline's language beside its peers: the same workloads, in one process, interleaved.
//!
//! ```text
//! cargo run --release --manifest-path bench/Cargo.toml -- --only W1,W3 --rounds 101
//! ```
//!
//! - `sample`: the data and the expected outputs.
//! - `workloads`: what is compared; each workload is a list of contestants.
//! - `contestants`: how each peer, each hand-written way and each floor does the work; `ours`: how Threadline does.
//! - `harness`: check, calibrate, time in rotated rounds, count allocations. `instructions`: count under callgrind.
//! - `targets`: what is to be reached, as data. `report`: the tables and the JSON.
//!
//! The exit code says whether every output was right, never whether a target was reached: timings are noisy.

mod args;
mod contestants;
mod harness;
mod instructions;
mod ours;
mod report;
mod sample;
mod targets;
mod workloads;

use std::io::Write as _;
use std::process::ExitCode;

use args::{Args, Mode};
use contestants::program;
use harness::Workload;

fn main() -> ExitCode {
    let result = Args::parse(std::env::args().skip(1)).and_then(run);
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: Args) -> Result<(), String> {
    match args.mode {
        Mode::Help => println!("{}", args::HELP),
        Mode::Compare => compare(&args)?,
        Mode::Instructions { workload, contestant } => {
            instructions::report(&workload, contestant.as_deref())?;
        }
        Mode::One { workload, contestant, iterations } => {
            instructions::run_one(&workload, &contestant, iterations)?;
        }
    }
    Ok(())
}

/// Checks every output, times everything, prints the tables.
fn compare(args: &Args) -> Result<(), String> {
    let mut workloads = workloads::selected(&args.only)?;
    if workloads.iter().any(Workload::has_programs) {
        program::build()?;
    }
    check(&mut workloads)?;
    if !sample::serde_json_is_default() {
        eprintln!(
            "note: a dependency has changed how `serde_json` keeps its data: its floors are not the usual ones"
        );
    }
    let results = harness::measure(workloads, args.rounds);
    let verdicts = targets::judge(&results);
    let report = if args.json {
        format!("{:#}\n", report::json(args.rounds, &results, &verdicts))
    } else {
        report::text(args.rounds, &results, &verdicts)
    };
    // A reader that closed the pipe has seen enough; that is no failure.
    let _ = std::io::stdout().write_all(report.as_bytes());
    Ok(())
}

/// Nobody is timed doing the wrong thing.
fn check(workloads: &mut [Workload]) -> Result<(), String> {
    let wrong: Vec<String> = workloads.iter_mut().flat_map(Workload::mismatches).collect();
    if wrong.is_empty() { Ok(()) } else { Err(format!("wrong output\n{}", wrong.join("\n"))) }
}
