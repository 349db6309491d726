//! Fuzzing with libFuzzer on a stable compiler.
//!
//! The targets are the files of `fuzz/targets`, each with a folder of seeds. They are built with coverage counters in
//! all code, the way cargo-fuzz does it but without a sanitizer: the code is safe Rust. What a run finds stays under
//! the target folder; nothing is written into the source tree.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::Failure;
use crate::project::{Project, output, run as run_command, works};

/// Seconds per target in `cargo xtask test` and as the default of `cargo xtask fuzz`.
pub(crate) const SHORT_SECONDS: u64 = 20;
/// Seconds per target in `cargo xtask test --long`.
pub(crate) const LONG_SECONDS: u64 = 30 * 60;

/// Counters that libFuzzer reads, and the operands of comparisons, from which it learns magic values.
const RUST_FLAGS: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "--cfg=fuzzing",
];

/// Fuzzes one target, or all of them, for so many seconds each.
pub(crate) fn run(project: &Project, target: Option<&str>, seconds: u64) -> Result<(), Failure> {
    let targets = chosen(targets(project)?, target)?;
    let binaries = build(project)?;
    for target in &targets {
        fuzz(project, &binaries, target, seconds)?;
    }
    Ok(())
}

/// The names of the files in `fuzz/targets`.
fn targets(project: &Project) -> Result<Vec<String>, Failure> {
    let folder = project.root.join("fuzz/targets");
    let entries = fs::read_dir(&folder).map_err(|error| unreadable(&folder, &error))?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let rust = paths.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let mut names: Vec<String> =
        rust.filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned())).collect();
    names.sort();
    Ok(names)
}

fn chosen(all: Vec<String>, wanted: Option<&str>) -> Result<Vec<String>, Failure> {
    let Some(wanted) = wanted else {
        return Ok(all);
    };
    if all.iter().any(|name| name == wanted) {
        return Ok(vec![wanted.to_owned()]);
    }
    Err(Failure::new(
        format!("there is no fuzz target `{wanted}`"),
        format!("the targets are {}", all.join(", ")),
    ))
}

/// Builds all targets and gives the folder of the binaries.
fn build(project: &Project) -> Result<PathBuf, Failure> {
    require_compiler(project)?;
    let host = host(project)?;
    let folder = project.target.join("fuzz/build");
    // With a target named, build scripts and macros are built without the flags.
    let mut command = project.cargo(&["build", "--release", "--locked", "--bins"]);
    command
        .args(["--manifest-path", "fuzz/Cargo.toml", "--target", &host])
        .arg("--target-dir")
        .arg(&folder)
        .env("CARGO_ENCODED_RUSTFLAGS", RUST_FLAGS.join("\u{1f}"));
    run_command(
        &mut command,
        "if the lock file is old, run `cargo update --workspace --manifest-path fuzz/Cargo.toml`",
    )?;
    Ok(folder.join(host).join("release"))
}

/// libFuzzer is C++ and is compiled with the targets.
fn require_compiler(project: &Project) -> Result<(), Failure> {
    let compiler = std::env::var_os("CXX").unwrap_or_else(|| "c++".into());
    if cfg!(windows) || works(&mut project.program(compiler, &["--version"])) {
        return Ok(());
    }
    Err(Failure::new(
        "there is no C++ compiler, which libFuzzer needs",
        "install one, for instance with `apt-get install g++`, or name it in CXX",
    ))
}

fn host(project: &Project) -> Result<String, Failure> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = output(&mut project.program(rustc, &["-vV"]), "see whether `rustc -vV` works")?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| Failure::new("rustc does not name its host", "see `rustc -vV`"))
}

/// What gates a change must not depend on luck: a short run takes the same way each time, a long one its own.
const SHORT_SEED: &str = "-seed=42";

fn fuzz(project: &Project, binaries: &Path, target: &str, seconds: u64) -> Result<(), Failure> {
    println!("fuzzing {target} for {seconds} s");
    let work = project.target.join("fuzz");
    let corpus = work.join("corpus").join(target);
    let crashes = work.join("crashes").join(target);
    let log = work.join(format!("{target}.log"));
    for folder in [&corpus, &crashes] {
        fs::create_dir_all(folder).map_err(|error| unreadable(folder, &error))?;
    }
    let stderr = File::create(&log).map_err(|error| unreadable(&log, &error))?;

    let binary = binaries.join(target);
    let mut command = project.program(&binary, &["-rss_limit_mb=2048", "-timeout=10"]);
    command
        .args(["-max_len=4096", "-print_final_stats=1", "-verbosity=1"])
        .arg("-dict=fuzz/tokens.dict")
        .arg(format!("-max_total_time={seconds}"))
        .args((seconds <= SHORT_SECONDS).then_some(SHORT_SEED))
        .arg(format!("-artifact_prefix={}/", crashes.display()))
        // New inputs go to the first folder; the seeds are only read.
        .arg(corpus)
        .arg(format!("fuzz/seeds/{target}"))
        .stderr(stderr);
    let ended = finish(&mut command, target)?;
    let text = fs::read_to_string(&log).map_err(|error| unreadable(&log, &error))?;
    let report = Report::read(&text);
    if !ended {
        return Err(crash(target, &binary, &text, &report));
    }
    if report.coverage == 0 {
        return Err(Failure::new(
            format!("target `{target}` reports no coverage: the fuzzer is blind"),
            "see whether this compiler still takes the flags in xtask/src/fuzz.rs",
        ));
    }
    println!("  {} runs, {} places covered, {} inputs kept", report.runs, report.coverage, report.corpus);
    Ok(())
}

/// Whether the fuzzer came to its end without a finding.
fn finish(command: &mut Command, target: &str) -> Result<bool, Failure> {
    let status = command.status().map_err(|error| {
        Failure::new(
            format!("target `{target}` did not start: {error}"),
            format!("see whether fuzz/Cargo.toml has a `[[bin]]` called `{target}`"),
        )
    })?;
    Ok(status.success())
}

fn crash(target: &str, binary: &Path, log: &str, report: &Report) -> Failure {
    let lines: Vec<&str> = log.lines().collect();
    let tail = &lines[lines.len().saturating_sub(40)..];
    let message = format!("target `{target}` failed\n{}", tail.join("\n"));
    let hint = match &report.input {
        Some(input) => format!(
            "run it again with `{} {input}`; once it is repaired, keep the input in fuzz/seeds/{target}",
            binary.display()
        ),
        None => "it left no input: run it again with more time".to_owned(),
    };
    Failure::new(message, hint)
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("{}: {error}", path.display()), "see whether it is there and yours")
}

/// What libFuzzer says about a run.
#[derive(Debug, Default, PartialEq)]
struct Report {
    runs: u64,
    coverage: u64,
    corpus: u64,
    /// The file with the input of a crash.
    input: Option<String>,
}

impl Report {
    fn read(log: &str) -> Self {
        let status = log.lines().rev().find(|line| line.contains(" cov: "));
        let status = status.unwrap_or_default();
        Self {
            runs: number_after(log, "stat::number_of_executed_units:"),
            coverage: number_after(status, " cov:"),
            corpus: number_after(status, " corp:"),
            input: log
                .lines()
                .rev()
                .find_map(|line| line.split_once("Test unit written to "))
                .map(|(_, path)| path.to_owned()),
        }
    }
}

/// The number that follows a label, 0 where there is none.
fn number_after(text: &str, label: &str) -> u64 {
    let Some((_, rest)) = text.split_once(label) else {
        return 0;
    };
    let rest = rest.trim_start();
    let end = rest.find(|character: char| !character.is_ascii_digit());
    rest[..end.unwrap_or(rest.len())].parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_summed_up() {
        let log = "INFO: Loaded 1 modules\n\
                   #2\tINITED cov: 11 ft: 11 corp: 4/35b exec/s: 0 rss: 27Mb\n\
                   #90\tDONE   cov: 13 ft: 13 corp: 6/22b lim: 43 exec/s: 0 rss: 27Mb\n\
                   stat::number_of_executed_units: 90\n";
        let report = Report { runs: 90, coverage: 13, corpus: 6, input: None };
        assert_eq!(Report::read(log), report);
    }

    #[test]
    fn the_input_of_a_crash_is_found() {
        let log = "artifact_prefix='./'; Test unit written to ./crash-f93e\nBase64: AA==\n";
        assert_eq!(Report::read(log).input.as_deref(), Some("./crash-f93e"));
    }

    #[test]
    fn a_run_without_counters_shows_no_coverage() {
        assert_eq!(Report::read("#2 INITED exec/s: 0\n").coverage, 0);
    }

    #[test]
    fn an_unknown_target_lists_the_known() {
        let all = || vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(chosen(all(), None), Ok(all()));
        assert_eq!(chosen(all(), Some("b")), Ok(vec!["b".to_owned()]));
        assert_eq!(
            chosen(all(), Some("c")),
            Err(Failure::new("there is no fuzz target `c`", "the targets are a, b"))
        );
    }

    #[test]
    fn every_target_has_seeds() {
        let project = Project::find().unwrap();
        for target in targets(&project).unwrap() {
            let seeds = project.root.join("fuzz/seeds").join(&target);
            let count = fs::read_dir(seeds).map_or(0, Iterator::count);
            assert!(count > 0, "`fuzz/seeds/{target}` is empty");
        }
    }
}
