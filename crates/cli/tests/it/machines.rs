//! Runs whose programs run on workers, behind a real Restate server. With `THREADLINE_LONG=1` all examples run so, and
//! there are more kills.

#![expect(clippy::unwrap_used, reason = "a run that cannot be read fails the test")]
#![expect(clippy::print_stdout, reason = "how much was repeated is a figure to be read")]

mod bundles;
pub(crate) mod cluster;
mod given;
mod kept;
mod kills;
mod pages;

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use self::cluster::{Cluster, Witness, Worker, until};
use crate::examples;
use crate::support::{self, Project};

/// A list of so many items, so many at a time. Each says that it begins, and waits for so long.
fn list(items: usize, parallel: usize, seconds: &str, fields: &str) -> String {
    let mut text = "steps:\n  - foreach: [".to_owned();
    for item in 0..items {
        let _ = write!(text, "{}{item}", if item == 0 { "" } else { ", " });
    }
    let _ = write!(
        text,
        "]\n    parallel: {parallel}\n    do:\n      - shell: \"echo ${{item}} >> witness; sleep {seconds}; echo \
         done-${{item}}\"\n        continue_on_error: true\n{fields}"
    );
    text
}

fn start(project: &Project, arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_threadline"));
    let command = command.args(arguments).current_dir(project.path()).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn start_on(cluster: &Cluster, project: &Project, file: &str) -> Child {
    let (address, key) = (cluster.address(), cluster.key());
    start(project, &["run", file, "--on", &address, "--key-file", key])
}

fn signal(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).unwrap();
    kill_process(pid, signal).unwrap();
}

/// A project with a workflow, and a cluster of two workers for it.
fn cluster_for(name: &str, workflow: &str, slots: usize) -> Option<(Project, Cluster, [Worker; 2])> {
    let cluster = Cluster::start(name)?;
    let project = Project::new();
    project.write("workflow.yaml", workflow.as_bytes());
    let workers = ["one", "two"].map(|worker| cluster.worker(project.path(), worker, slots));
    cluster.register();
    Some((project, cluster, workers))
}

/// How many results of items the run recorded, by their value.
fn results(project: &Project) -> usize {
    let shown = project.run(&["show", "last", "--json"], b"").stdout;
    let mut values: Vec<&str> = shown
        .lines()
        .filter(|line| line.contains(r#""kind":"finished""#))
        .filter_map(|line| line.split_once(r#""value":"done-"#)?.1.split('"').next())
        .collect();
    values.sort_unstable();
    values.dedup();
    values.len()
}

#[test]
fn examples_leave_the_same_on_workers() {
    let Some(cluster) = Cluster::start("examples") else { return };
    let step = if support::is_long() { 1 } else { 5 };
    let (mut same, mut executions, mut by) = (0, 0, [0, 0]);
    let (mut left_out, mut failures) = (Vec::new(), Vec::new());
    let mut is_registered = false;
    for name in examples::examples().into_iter().step_by(step) {
        let (project, command) = examples::prepared(&name);
        if !command.starts_with("threadline run") {
            left_out.push(name);
            continue;
        }
        let workers = ["one", "two"].map(|worker| cluster.worker(project.path(), worker, 8));
        if !is_registered {
            cluster.register();
            is_registered = true;
        }
        let outcome = project.run_line(&format!("{command} {}", cluster.on()));
        for (count, worker) in by.iter_mut().zip([r#""worker":"one""#, r#""worker":"two""#]) {
            *count += outcome.stdout.matches(worker).count();
        }
        executions += outcome.stdout.matches(r#""exit_code":"#).count();
        let expected = examples::expected(&name);
        let seen = examples::text_of(outcome.exit, &outcome.stdout);
        if seen == expected {
            same += 1;
        } else {
            failures.push(format!("{name} left {}\n{seen}", outcome.stderr));
        }
        for worker in &workers {
            cluster.forget(worker);
        }
    }
    println!("{same} examples the same, {executions} programs, by worker {by:?}; left out: {left_out:?}");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(same >= 8 && by[0] > 0 && by[1] > 0);
}

#[test]
fn a_killed_coordinator_finds_what_went_on_meanwhile() {
    let items = if support::is_long() { 300 } else { 40 };
    let fields = "        on_crash: fail\n";
    let Some((project, cluster, _workers)) = cluster_for("coordinator", &list(items, 8, "0.2", fields), 4)
    else {
        return;
    };
    let witness = Witness(&project);
    let mut run = start_on(&cluster, &project, "workflow.yaml");
    let mut kills = 0;
    let most = if support::is_long() { 8 } else { 2 };
    while kills < most {
        let seen = witness.lines();
        until("more items have begun", || witness.lines() > seen + 5 || witness.lines() >= items);
        signal(&run, Signal::KILL);
        run.wait().unwrap();
        kills += 1;
        run = start(&project, &["resume", "last"]);
    }
    let status = run.wait().unwrap();
    let again: usize = witness.counts().values().map(|count| count - 1).sum();
    println!("{items} items, {kills} kills of the coordinator: {} begun, {again} again", witness.lines());
    assert!(status.success(), "{}", project.run(&["show", "last"], b"").stdout);
    assert_eq!((again, results(&project)), (0, items));
    let shown = project.run(&["explain", "last", "1.do.1[3]"], b"").stdout;
    assert!(shown.contains("completed") && shown.contains(" on worker `"), "{shown}");
}

#[test]
fn a_killed_worker_repeats_what_was_in_flight_and_nothing_else() {
    let items = if support::is_long() { 300 } else { 40 };
    let Some((project, cluster, workers)) = cluster_for("worker", &list(items, 8, "0.2", ""), 4) else {
        return;
    };
    let witness = Witness(&project);
    let mut run = start_on(&cluster, &project, "workflow.yaml");
    let kills = if support::is_long() { 8 } else { 2 };
    for kill in 0..kills {
        let seen = witness.lines();
        until("more items have begun", || witness.lines() > seen + 5 || witness.counts().len() >= items);
        workers[kill % 2].kill();
    }
    let status = run.wait().unwrap();
    let again: usize = witness.counts().values().map(|count| count - 1).sum();
    println!("{items} items, {kills} kills of a worker: {} begun, {again} again", witness.lines());
    assert!(status.success(), "{}", project.run(&["show", "last"], b"").stdout);
    assert_eq!(results(&project), items);
    assert!(again <= kills * 4, "{again} again after {kills} kills with 4 slots each");
}

#[test]
fn a_killed_server_loses_nothing() {
    let items = if support::is_long() { 200 } else { 30 };
    let Some((project, mut cluster, _workers)) = cluster_for("server", &list(items, 8, "0.2", ""), 4) else {
        return;
    };
    let witness = Witness(&project);
    let mut run = start_on(&cluster, &project, "workflow.yaml");
    until("some items have begun", || witness.lines() > 8);
    cluster.kill_server();
    let status = run.wait().unwrap();
    let again: usize = witness.counts().values().map(|count| count - 1).sum();
    println!("{items} items, a kill of the server: {} begun, {again} again", witness.lines());
    assert!(status.success(), "{}", project.run(&["show", "last"], b"").stdout);
    assert_eq!(results(&project), items);
    assert!(again <= 8, "{again} again with 8 in flight");
}

#[test]
fn what_may_not_run_twice_never_begins_twice() {
    let items = if support::is_long() { 300 } else { 40 };
    let fields = "        on_crash: fail\n";
    let Some((project, mut cluster, workers)) = cluster_for("once", &list(items, 8, "0.2", fields), 4) else {
        return;
    };
    let witness = Witness(&project);
    let mut run = start_on(&cluster, &project, "workflow.yaml");
    let kills = if support::is_long() { 9 } else { 3 };
    for kill in 0..kills {
        let seen = witness.lines();
        until("more items have begun", || witness.lines() > seen + 4 || run.try_wait().unwrap().is_some());
        match kill % 3 {
            2 => cluster.kill_server(),
            worker => workers[worker].kill(),
        }
    }
    run.wait().unwrap();
    let twice = witness.counts().values().filter(|count| **count > 1).count();
    let shown = project.run(&["show", "last", "--json"], b"").stdout;
    let crashed = shown.matches(r#""error_type":"Crash""#).count();
    println!("{items} items, {kills} kills: {} begun, {twice} twice, {crashed} cut off", witness.lines());
    assert_eq!(twice, 0, "{:?}", witness.counts());
    assert!(crashed > 0, "a kill cuts something off");
    assert_eq!(results(&project) + crashed, items, "{shown}");
}

#[test]
fn what_was_cut_off_is_asked_about_and_runs_again_only_then() {
    let workflow = "steps:\n  - shell: \"echo pay >> witness; until test -e go; do sleep 0.05; done; echo paid\"\n    \
                    on_crash: ask\n";
    let Some((project, cluster, workers)) = cluster_for("ask", workflow, 4) else { return };
    let witness = Witness(&project);
    let mut run = start_on(&cluster, &project, "workflow.yaml");
    until("it has begun", || witness.lines() == 1);
    workers.iter().for_each(Worker::kill);
    assert_eq!(run.wait().unwrap().code(), Some(4));
    project.write("go", b"");
    // It is known what became of it: it is asked about again, and not begun.
    let again = project.run(&["resume", "last"], b"");
    assert_eq!((again.exit, witness.lines()), (4, 1), "{}", again.stderr);
    let decided = project.run(&["resume", "last", "--in-flight", "rerun"], b"");
    assert_eq!((decided.exit, witness.lines()), (0, 2), "{}", decided.stderr);
}

/// Whether a program with this word among its arguments runs.
fn runs(word: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    processes.into_iter().any(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(word)
    })
}

#[test]
fn a_second_interrupt_ends_the_programs_of_all_workers() {
    let word = format!("interrupted-{}", std::process::id());
    let workflow = format!(
        "nodes:\n  a: {{shell: \": {word}; echo a >> witness; until test -e go; do sleep 0.05; done\"}}\n  \
         b: {{shell: \": {word}; echo b >> witness; until test -e go; do sleep 0.05; done\"}}\n"
    );
    let Some((project, cluster, _workers)) = cluster_for("interrupt", &workflow, 4) else { return };
    let witness = Witness(&project);
    let mut command = Command::new(env!("CARGO_BIN_EXE_threadline"));
    let (address, key) = (cluster.address(), cluster.key());
    command.args(["run", "workflow.yaml", "--on", &address, "--key-file", key]).current_dir(project.path());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut run = command.spawn().unwrap();
    let mut said = BufReader::new(run.stderr.take().unwrap()).lines().map_while(Result::ok);
    until("both have begun", || witness.lines() == 2);
    signal(&run, Signal::INT);
    // Two signals at once would be one.
    assert!(said.any(|line| line.contains("stopping: running steps finish")));
    assert!(runs(&word), "the first lets them go on");
    signal(&run, Signal::INT);
    assert_eq!(run.wait().unwrap().code(), Some(130));
    until("no program is left", || !runs(&word));
    project.write("go", b"");
    let resumed = project.run(&["resume", "last"], b"");
    assert_eq!((resumed.exit, witness.lines()), (0, 4), "{}", resumed.stderr);
}

#[test]
fn a_run_begins_only_where_a_worker_takes_its_programs() {
    let Some(cluster) = Cluster::start("refused") else { return };
    let project = Project::new();
    project.write("workflow.yaml", b"steps:\n  - shell: echo hello\n");
    let run = |key: &str| {
        project.run(&["run", "workflow.yaml", "--on", &cluster.address(), "--key-file", key], b"")
    };
    let nobody = run(cluster.key());
    assert_eq!(nobody.exit, 3, "{}", nobody.stderr);
    assert!(
        nobody.stderr.contains("error: no worker is registered at `restate://127.0.0.1:"),
        "{}",
        nobody.stderr
    );
    assert!(nobody.stderr.contains("hint: `threadline worker --listen"), "{}", nobody.stderr);

    let worker = Worker::registering(project.path(), cluster.key(), &cluster.admin());
    until("it has registered", || run(cluster.key()).exit == 0);
    project.write("../wrong", b"another key, of somebody else");
    let wrong = run(project.path().join("../wrong").to_str().unwrap());
    assert_eq!(wrong.exit, 3);
    assert!(
        wrong.stderr.contains("refuses the request: it is not signed with the key of this worker"),
        "{}",
        wrong.stderr
    );
    let elsewhere = Project::new();
    elsewhere.write("workflow.yaml", b"steps:\n  - shell: echo hello\n");
    let other = ["run", "workflow.yaml", "--on", &cluster.address(), "--key-file", cluster.key()];
    let other = elsewhere.run(&other, b"");
    assert!(
        other.exit == 3 && other.stderr.contains("worker `alone` does not see the folder of this project"),
        "{}",
        other.stderr
    );
    // A worker that is told to end lets its programs finish.
    project.write("slow.yaml", b"steps:\n  - shell: \"echo slow >> witness; sleep 0.5; echo slowly\"\n");
    let run = start(&project, &["run", "slow.yaml", "--on", &cluster.address(), "--key-file", cluster.key()]);
    until("it has begun", || Witness(&project).lines() == 1);
    worker.send(Signal::TERM);
    assert_eq!(worker.wait(), Some(0));
    assert_eq!(run.wait_with_output().unwrap().status.code(), Some(0));
    assert_eq!(Witness(&project).lines(), 1);
}

/// Whether a file in a folder holds this text.
fn holds(folder: &Path, text: &[u8]) -> bool {
    std::fs::read_dir(folder).unwrap().filter_map(Result::ok).any(|entry| {
        let path = entry.path();
        if path.is_dir() {
            return holds(&path, text);
        }
        let bytes = std::fs::read(&path).unwrap_or_default();
        bytes.windows(text.len()).any(|window| window == text)
    })
}

#[test]
fn the_environment_of_the_coordinator_does_not_travel() {
    let workflow = "steps:\n  - shell: \"echo ${workflow.name} $SAID; printenv CANARY || true\"\n    env: {SAID: \
                    said-by-the-step}\n  - shell: \"head -c 400000 /dev/zero | tr '\\\\0' x\"\n    capture_format: text\n    \
                    capture: large\n  - shell: \"printf %s \\\"${large}\\\" | wc -c\"\n";
    let Some((project, cluster, _workers)) = cluster_for("canary", workflow, 4) else { return };
    let canary = format!("canary-{}", std::process::id());
    let arguments =
        ["run", "workflow.yaml", "--json", "--on", &cluster.address(), "--key-file", cluster.key()];
    let outcome = project.run_with(&[("CANARY", &canary)], &arguments);
    assert_eq!(outcome.exit, 0, "{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.contains("said-by-the-step\""), "{}", outcome.stdout);
    assert!(outcome.stdout.contains(r#""value":"400000""#), "{}", outcome.stdout);
    assert!(!outcome.stdout.contains(&canary));
    assert!(holds(&cluster.data(), b"said-by-the-step"), "what the server stores can be searched");
    assert!(!holds(&cluster.data(), canary.as_bytes()));
}
