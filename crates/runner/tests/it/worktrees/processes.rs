//! A process that is really killed, again and again, while several items are worked on. The test runs itself again as
//! that process.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use threadline_runner::process::{ChildEnding, Control, Spec, Stdin, end_left_over, run};
use threadline_runner::worktrees::{WorktreeError, Worktrees};
use threadline_store::RunId;

use super::fixture::{Fixture, Folder, environment, git};

/// The folder of the project, for the process that is killed.
const PROJECT: &str = "THREADLINE_WORKTREES_TEST_PROJECT";
/// The run it drives.
const RUN: &str = "THREADLINE_WORKTREES_TEST_RUN";
const TEST: &str = "worktrees::processes::a_process_that_is_killed_again_and_again_loses_nothing";

const ITEMS: u64 = 24;
const THREADS: usize = 4;

/// Every fifth item fails, and is kept.
fn fails(item: u64) -> bool {
    item.is_multiple_of(5)
}

/// What is done, in lines that are written once and never taken back.
struct Journal {
    file: PathBuf,
    done: BTreeSet<String>,
}

impl Journal {
    fn read(project: &Path) -> Self {
        let file = project.with_file_name("journal");
        let done = fs::read_to_string(&file).unwrap_or_default().lines().map(str::to_owned).collect();
        Self { file, done }
    }

    fn has(&self, item: u64, what: &str) -> bool {
        self.done.contains(&format!("{item} {what}"))
    }

    fn record(&self, item: u64, what: &str) {
        let mut file = OpenOptions::new().append(true).create(true).open(&self.file).unwrap();
        file.write_all(format!("{item} {what}\n").as_bytes()).unwrap();
    }
}

/// The step of an item, in a process that can be found again.
fn step(here: PathBuf, run_id: &str, item: u64) {
    let script = format!(
        "git log --format=%s main.. | grep -qx of-{item} && exit; \
         echo {item} > of-{item} && git add of-{item} && git commit -q -m of-{item}"
    );
    start(here, run_id, "step", "sh", &["-c", &script]);
}

fn start(here: PathBuf, run_id: &str, step: &str, program: &str, args: &[&str]) {
    let mut env = environment();
    env.mark(run_id, step);
    let spec = Spec {
        program: program.into(),
        args: args.iter().map(Into::into).collect(),
        env,
        cwd: here,
        stdin: Stdin::Null,
        timeout: None,
        idle_timeout: None,
        max_output: 1 << 20,
        grace: Duration::from_secs(1),
        spool: std::env::temp_dir(),
        masks: None,
    };
    let ended = run(&spec, &Control::new(), &mut |_, _| {}).unwrap();
    assert_eq!(
        ended.how,
        ChildEnding::Exited(0),
        "{}",
        String::from_utf8_lossy(&ended.stderr.read().unwrap())
    );
}

/// Tells the first process that something is done, in a line of its own, which the test harness does not write.
fn report() {
    let mut out = std::io::stdout().lock();
    out.write_all(b"\n@\n").and_then(|()| out.flush()).unwrap();
}

/// Does what is not done, until something fails.
#[expect(clippy::print_stderr, reason = "the first process shows what the last life said")]
fn drive(project: &Path, run_id: &str) {
    let folder = project.join(".threadline/worktrees/r1");
    let worktrees = Worktrees::open(project, &folder, &RunId::new(run_id).unwrap(), &environment()).unwrap();
    let journal = Journal::read(project);
    let left = Mutex::new((1..=ITEMS).filter(|item| !journal.has(*item, "done")));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let Some(item) = left.lock().unwrap().next() else { break };
                    if let Err(error) = work(&worktrees, &journal, run_id, item) {
                        // The others would only meet the same.
                        eprintln!("item {item}: {error}");
                        std::process::exit(1);
                    }
                }
            });
        }
    });
    worktrees.close().unwrap();
}

fn work(worktrees: &Worktrees, journal: &Journal, run_id: &str, item: u64) -> Result<(), WorktreeError> {
    if !journal.has(item, "worked") {
        step(worktrees.enter(item)?.here, run_id, item);
        journal.record(item, "worked");
        report();
    }
    if fails(item) {
        worktrees.abandon(item, true)?.unwrap();
    } else {
        worktrees.merge(item)?;
    }
    journal.record(item, "done");
    report();
    Ok(())
}

/// The time of grace of a kill: one in three takes the programs with it at once, as the end of a container
/// does.
fn grace(kills: usize) -> Duration {
    if kills.is_multiple_of(3) { Duration::ZERO } else { Duration::from_secs(5) }
}

#[test]
fn a_process_that_is_killed_again_and_again_loses_nothing() {
    if let (Some(project), Ok(run_id)) = (std::env::var_os(PROJECT), std::env::var(RUN)) {
        return drive(Path::new(&project), &run_id);
    }
    let fixture = Fixture::new();
    // Processes are found by the id of their run, and other tests have runs.
    let run_id = format!("killed{}", std::process::id());
    let mut kills = 0;
    loop {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", TEST, "--nocapture"])
            .env(PROJECT, &fixture.root)
            .env(RUN, &run_id)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Each process gets a little further, and is somewhere in the middle of the others' work. One that
        // ends by itself must have come to the end: whatever it met instead, the next one would meet, too.
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let reports = lines.map_while(Result::ok).filter(|line| line == "@").take(3 + kills % 4).count();
        if reports == 3 + kills % 4 {
            child.kill().unwrap();
            child.wait().unwrap();
            kills += 1;
            assert!(end_left_over(&run_id, grace(kills)).survivors.is_empty());
            fixture.assert_user_untouched();
        } else {
            assert!(child.wait().unwrap().success(), "after {kills} kills it does not go on");
            break;
        }
    }
    println!("{kills} kills");
    assert!(kills > 5);
    let branch = format!("threadline/{run_id}");
    let log = git(&fixture.root, &["log", "--no-merges", "--format=%s", &branch, "^main"]);
    let mut log: Vec<&str> = log.lines().collect();
    log.sort_unstable();
    let mut merged: Vec<String> =
        (1..=ITEMS).filter(|item| !fails(*item)).map(|item| format!("of-{item}")).collect();
    merged.sort_unstable();
    assert_eq!(log, merged, "each commit once");
    let mut branches = vec![branch.clone()];
    for item in (1..=ITEMS).filter(|item| fails(*item)) {
        branches.push(format!("{branch}.item-{item}"));
        assert_eq!(fixture.show(&format!("{branch}.item-{item}:of-{item}")), format!("{item}\n"));
    }
    branches.sort_unstable();
    fixture.assert_only(&branches.iter().map(String::as_str).collect::<Vec<_>>());
}

/// Whoever goes on with a run lets a git that Threadline had called come to its end, and asks the rest to
/// end.
#[test]
fn a_git_of_a_killed_threadline_is_not_asked_to_end() {
    let folder = Folder::new();
    let script = "#!/bin/sh\ntrap '> asked; exit 0' TERM\n> ready\nsleep $1\n> done\n";
    let run_id = format!("mended{}", std::process::id());
    for (step, seconds, expected) in [("worktrees", "0.2", "done"), ("3", "600", "asked")] {
        let here = folder.0.join(step);
        fs::create_dir(&here).unwrap();
        let program = here.join("git");
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| start(here.clone(), &run_id, step, "./git", &[seconds]));
            while !here.join("ready").exists() {
                std::thread::yield_now();
            }
            assert!(end_left_over(&run_id, Duration::from_mins(1)).survivors.is_empty());
        });
        let left = ["asked", "done"].map(|name| (name, here.join(name).exists()));
        assert_eq!(left, ["asked", "done"].map(|name| (name, name == expected)), "{step}");
    }
}
