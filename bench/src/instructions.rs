//! Counting instructions, where time is too noisy: the program runs itself under callgrind, with the loop and without,
//! and the difference belongs to the loop. Contestants that are programs of their own are counted with it.

use std::process::Command;

use crate::contestants::program;
use crate::workloads;

/// Prints the instructions per operation of one contestant, or of all of a workload.
pub(crate) fn report(workload: &str, contestant: Option<&str>) -> Result<(), String> {
    let names: Vec<&str> = workloads::one(workload, contestant)?.contestants().collect();
    if names.is_empty() {
        return Err(unknown_contestant(workload, contestant.unwrap_or_default()));
    }
    if workloads::one(workload, contestant)?.has_programs() {
        program::build()?;
    }
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("valgrind is not installed: no instruction counts");
        return Ok(());
    }
    println!("instructions per operation, {workload}");
    for name in names {
        println!("{name:>18} {:>14.1}", per_operation(workload, name)?);
    }
    Ok(())
}

/// The hidden mode: one operation to warm up, which counts as fixed, then the loop.
pub(crate) fn run_one(workload: &str, contestant: &str, iterations: u64) -> Result<(), String> {
    let mut built = workloads::one(workload, Some(contestant))?;
    if !built.repeat_first(1) {
        return Err(unknown_contestant(workload, contestant));
    }
    built.repeat_first(iterations);
    Ok(())
}

fn unknown_contestant(workload: &str, contestant: &str) -> String {
    format!("`{contestant}` does not take part in {workload}")
}

fn per_operation(workload: &str, contestant: &str) -> Result<f64, String> {
    let iterations = workloads::one(workload, Some(contestant))?.calibrate_first();
    let without = collected(workload, contestant, 0)?;
    let with = collected(workload, contestant, iterations)?;
    Ok((with - without) / iterations as f64)
}

/// What callgrind counted for one run.
fn collected(workload: &str, contestant: &str, iterations: u64) -> Result<f64, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--trace-children=yes"])
        .arg(program)
        .args(["--one", workload, contestant, "--iterations", &iterations.to_string()])
        .output()
        .map_err(|error| format!("valgrind does not start: {error}"))?;
    let log = String::from_utf8_lossy(&output.stderr);
    let counts = log.lines().filter_map(|line| line.split_once("Collected :")?.1.trim().parse::<f64>().ok());
    counts.reduce(|sum, count| sum + count).ok_or_else(|| format!("valgrind gave no count\n{log}"))
}
