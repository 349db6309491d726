//! Fuzzing with libFuzzer on a stable compiler.
//!
//! The targets are the files of `fuzz/targets`, each with a folder of seeds. They are built with coverage
//! counters in all code, the way cargo-fuzz does it but without a sanitizer: the code is safe Rust. What a
//! run finds stays under the target folder; nothing is written into the source tree.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use crate::failure::Failure;
use crate::project::{Project, output, run as run_command, works};

/// How many thousand inputs one core is taken to try in a second: an estimate on the low side, not yet a
/// measurement, so that a run rather ends too early. The slowest comes first, so that not everything waits for
/// it at the end. A target without a row counts as the slowest.
const THOUSANDS_PER_SECOND: &[(&str, u64)] = &[
    ("workflow", 1),
    ("expectations", 1),
    ("document", 1),
    ("shell", 1),
    ("template", 1),
    ("expression", 1),
    ("url", 1),
    ("request", 1),
];

/// How much is fuzzed. Inputs are counted, not seconds: the same work is done on a busy machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Amount {
    /// What one core does in a quarter of a minute: in `cargo xtask test`, and the default of `cargo xtask
    /// fuzz`.
    Short,
    /// What one core does in six minutes: in `cargo xtask test --long`.
    Long,
    /// So many inputs of each target.
    Runs(u64),
}

impl Amount {
    /// How many inputs of this target are tried.
    fn runs(self, target: &str) -> u64 {
        let row = THOUSANDS_PER_SECOND.iter().find(|(name, _)| *name == target);
        let per_second = 1000 * row.map_or(1, |(_, thousands)| *thousands);
        match self {
            Self::Short => 15 * per_second,
            Self::Long => 6 * 60 * per_second,
            Self::Runs(runs) => runs,
        }
    }
}

/// Counters that libFuzzer reads, and the operands of comparisons, from which it learns magic values.
const RUST_FLAGS: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "--cfg=fuzzing",
];

/// Fuzzes one target, or all of them, as many at once as there are cores.
pub(crate) fn run(project: &Project, target: Option<&str>, amount: Amount) -> Result<(), Failure> {
    let targets = slowest_first(chosen(targets(project)?, target)?);
    let binaries = build(project)?;
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let waiting = Mutex::new(targets.into_iter());
    let failures = Mutex::new(Vec::new());
    thread::scope(|threads| {
        for _ in 0..cores {
            threads.spawn(|| {
                while let Some(target) = locked(&waiting).next() {
                    if let Err(failure) = fuzz(project, &binaries, &target, amount) {
                        locked(&failures).push(failure);
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().unwrap_or_default();
    let Some(first) = failures.pop() else { return Ok(()) };
    let message =
        failures.iter().fold(first.message, |text, failure| format!("{text}\n\n{}", failure.message));
    let hint = failures.iter().fold(first.hint, |text, failure| format!("{text}\n      {}", failure.hint));
    Err(Failure::new(message, hint))
}

/// What a mutex guards; a thread that panicked leaves it as it was.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn slowest_first(mut targets: Vec<String>) -> Vec<String> {
    targets.sort_by_key(|target| THOUSANDS_PER_SECOND.iter().position(|(name, _)| name == target));
    targets
}

/// The names of the files in `fuzz/targets`.
fn targets(project: &Project) -> Result<Vec<String>, Failure> {
    let folder = project.root.join("fuzz/targets");
    let entries = fs::read_dir(&folder).map_err(|error| Failure::unreadable(&folder, &error))?;
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

/// What gates a change must not depend on luck: a short run takes the same path each time, a long one its
/// own.
const SHORT_SEED: &str = "-seed=42";

/// When libFuzzer calls one input a hang. An input takes milliseconds; but the clock goes on while other
/// programs have the cores, so this is the time in which even a machine with a hundred times the load gets
/// through one.
const TIMEOUT: &str = "-timeout=300";

fn fuzz(project: &Project, binaries: &Path, target: &str, amount: Amount) -> Result<(), Failure> {
    let runs = amount.runs(target);
    let work = project.target.join("fuzz");
    let corpus = work.join("corpus").join(target);
    let crashes = work.join("crashes").join(target);
    let log = work.join(format!("{target}.log"));
    for folder in [&corpus, &crashes] {
        fs::create_dir_all(folder).map_err(|error| Failure::unreadable(folder, &error))?;
    }
    let stderr = File::create(&log).map_err(|error| Failure::unreadable(&log, &error))?;

    let binary = binaries.join(target);
    let mut command = project.program(&binary, &["-rss_limit_mb=2048", TIMEOUT]);
    command
        .args(["-max_len=4096", "-print_final_stats=1", "-verbosity=1"])
        .arg("-dict=fuzz/tokens.dict")
        .arg(format!("-runs={runs}"))
        .args((amount == Amount::Short).then_some(SHORT_SEED))
        .arg(format!("-artifact_prefix={}/", crashes.display()))
        // New inputs go to the first folder; the seeds are only read.
        .arg(corpus)
        .arg(format!("fuzz/seeds/{target}"))
        .stderr(stderr);
    let start = Instant::now();
    let ended = finish(&mut command, target)?;
    let text = fs::read_to_string(&log).map_err(|error| Failure::unreadable(&log, &error))?;
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
    println!(
        "{target:<13} {} runs, {} places covered, {} inputs kept, {:.0} s",
        report.runs,
        report.coverage,
        report.corpus,
        start.elapsed().as_secs_f64()
    );
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
        None => "it left no input: run it again with more of `--runs`".to_owned(),
    };
    Failure::new(message, hint)
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
    fn every_target_has_a_speed_and_seeds() {
        let project = Project::find().unwrap();
        for target in targets(&project).unwrap() {
            assert!(THOUSANDS_PER_SECOND.iter().any(|(name, _)| *name == target), "how fast is `{target}`?");
            let seeds = project.root.join("fuzz/seeds").join(&target);
            let count = fs::read_dir(seeds).map_or(0, Iterator::count);
            assert!(count > 0, "`fuzz/seeds/{target}` is empty");
        }
    }
}
