//! Runs that are removed through the real binary: beside others that run, under kills, and with what they have in a
//! repository.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{Workflow, workflow};
use crate::support::{faults, is_long};

/// Leaves values of its own in the table, and one that is a file.
const RUN: &str = "
- {id: one, shell: 'head -c 9000 /dev/urandom | base64'}
- {id: large, when: 'inputs.large', shell: 'head -c 1200000 /dev/urandom | base64'}
- {id: each, foreach: [1, 2, 3], do: [{id: put, argv: [echo, '${item}']}]}
- {id: last, shell: 'echo ${one} | wc -c'}
";

fn many() -> Workflow {
    let text = format!("name: many\ninputs: {{large: {{type: bool, default: false}}}}\nsteps:{RUN}");
    workflow(&text).file(
        "waiting.yaml",
        "name: waiting\nsteps:\n- {id: before, shell: 'head -c 9000 /dev/urandom | base64'}\n\
         - {id: wait, shell: 'touch at-$$.here; until test -e go; do sleep 0.01; done'}\n\
         - {id: after, shell: 'echo ${before} | wc -c'}\n",
    )
}

/// The ids of all runs, the newest first.
fn ids(workflow: &Workflow) -> Vec<String> {
    let listed = workflow.command(&["runs"]).wait().well().stdout;
    let lines =
        listed.lines().skip(1).filter(|line| !line.contains("the store takes") && !line.starts_with("no "));
    lines.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// All that the reading commands say of a run, in a project or a copy of it.
fn told(workflow: &Workflow, run: &str, folder: &Path) -> Vec<String> {
    let folder = folder.display().to_string();
    let commands: [&[&str]; 6] = [
        &["show", run],
        &["show", run, "--json"],
        &["explain", run, "one", "--json"],
        &["explain", run, "last", "--back"],
        &["vars", run, "--json"],
        &["logs", run, "one"],
    ];
    let there =
        |command: &&[&str]| workflow.command(&[*command, &["--dir", &folder]].concat()).wait().well().stdout;
    commands.iter().map(there).collect()
}

fn journal_size(workflow: &Workflow) -> u64 {
    workflow.project.path().join(".threadline/journal.db").metadata().expect("the journal").len()
}

#[test]
fn runs_go_while_others_run_and_the_rest_explains_itself_as_before() {
    let (count, keep) = if is_long() { (1_000, 50) } else { (60, 6) };
    let workflow = many();
    for number in 0..count {
        let arguments = if number % 20 == 0 { &["--input", "large=true"][..] } else { &[] };
        workflow.run_with(arguments).well();
    }
    let running: Vec<_> = (0..2).map(|_| workflow.command(&["run", "--json", "waiting.yaml"])).collect();
    while ids_running(&workflow) < 2 || waiting(&workflow) < 2 {
        std::thread::yield_now();
    }
    let remain: Vec<String> = ids(&workflow).into_iter().skip(2).take(keep).collect();
    let before: Vec<_> = remain.iter().map(|run| told(&workflow, run, workflow.project.path())).collect();
    let size = journal_size(&workflow);
    let keep = keep.to_string();
    let cleaned = workflow.command(&["clean", "--keep", &keep]).wait().well();
    assert!(cleaned.stdout.contains(&format!("removed {} runs", count - remain.len())), "{}", cleaned.stdout);
    for (run, before) in remain.iter().zip(&before) {
        assert!(
            told(&workflow, run, workflow.project.path()) == *before,
            "run {run} explains itself differently"
        );
    }
    workflow.project.write("go", b"");
    for run in running {
        run.wait().well();
    }
    assert_eq!(ids(&workflow).len(), remain.len() + 2);
    for run in ids(&workflow) {
        workflow.command(&["show", &run]).wait().well();
    }
    // Whoever closes the journal last has made its file smaller.
    let now = journal_size(&workflow);
    assert!(now < size / 3, "{size} bytes became {now}");
    println!("{count} runs became {}; {size} bytes became {now}", remain.len());
}

fn ids_running(workflow: &Workflow) -> usize {
    let listed = workflow.command(&["runs", "--status", "running"]).wait().well().stdout;
    listed.lines().filter(|line| line.contains(" running ")).count()
}

fn waiting(workflow: &Workflow) -> usize {
    let entries = std::fs::read_dir(workflow.project.path()).expect("the project").flatten();
    entries.filter(|entry| entry.path().extension().is_some_and(|extension| extension == "here")).count()
}

/// Copies a project with its store.
fn copy_of(workflow: &Workflow, number: usize) -> PathBuf {
    let copy = workflow.project.path().with_file_name(format!("copy-{number}"));
    let copied = Command::new("cp").arg("-r").arg(workflow.project.path()).arg(&copy).status();
    assert!(copied.expect("cp").success());
    copy
}

#[test]
fn killed_at_any_write_nothing_that_remains_is_lost() {
    let workflow = many();
    for number in 0..8 {
        let arguments = if number % 4 == 0 { &["--input", "large=true"][..] } else { &[] };
        workflow.run_with(arguments).well();
    }
    let remain = ids(&workflow).into_iter().take(2).collect::<Vec<_>>();
    let before: Vec<_> = remain.iter().map(|run| told(&workflow, run, workflow.project.path())).collect();
    let (mut kills, mut number) = (0, 1);
    loop {
        let copy = copy_of(&workflow, number);
        let folder = copy.display().to_string();
        let clean = faults::run(&["clean", "--keep", "2", "--dir", &folder], &copy, number, "KILL");
        let cleaned = workflow.command(&["clean", "--keep", "2", "--dir", &folder]).wait();
        assert_eq!(cleaned.exit, 0, "killed at write {number}: {}", cleaned.stderr);
        for (run, before) in remain.iter().zip(&before) {
            assert!(
                told(&workflow, run, &copy) == *before,
                "killed at write {number}: run {run} has changed"
            );
        }
        let listed = workflow.command(&["runs", "--json", "--dir", &folder]).wait().well().stdout;
        assert_eq!(listed.matches("\"run\":").count(), 2, "killed at write {number}: {listed}");
        let size = copy.join(".threadline/journal.db").metadata().expect("the journal").len();
        assert!(size < journal_size(&workflow) / 2, "killed at write {number}: {size} bytes");
        std::fs::remove_dir_all(&copy).expect("the copy");
        if !clean.is_met {
            break;
        }
        kills += 1;
        number += if is_long() { 1 } else { 4 };
    }
    assert!(kills > 5, "only {kills} kills");
    println!("killed at {kills} writes");
}

/// A run that can go on is removed by name only, and one that is driven never.
#[test]
fn a_run_that_is_not_over_stays() {
    let workflow = many();
    let running = workflow.command(&["run", "--json", "waiting.yaml"]);
    while waiting(&workflow) < 1 {
        std::thread::yield_now();
    }
    let run = ids(&workflow).remove(0);
    workflow.command(&["rm", &run]).wait().exits(3).says("a process drives run").says("threadline stop");
    workflow.command(&["rm", "--force", &run]).wait().exits(3).says("a process drives run");
    workflow.command(&["clean", "--keep", "0", "--status", "interrupted"]).wait().well();
    running.kill();
    workflow.command(&["rm", &run]).wait().exits(3).says("is not over, it is interrupted").says("--force");
    workflow.command(&["clean", "--keep", "0"]).wait().well();
    assert_eq!(ids(&workflow), std::slice::from_ref(&run));
    workflow.command(&["rm", "--force", &run]).wait().well();
    assert!(ids(&workflow).is_empty());
    // What it had started was ended with it.
    let left = Command::new("pgrep")
        .args(["-f", &workflow.project.path().join("go").display().to_string()])
        .output();
    assert!(left.is_ok_and(|left| left.stdout.is_empty()));
}

/// A run goes with the runs that it called, and these not without it.
#[test]
fn called_runs_go_with_their_caller() {
    let workflow =
        workflow("- {id: sub, workflow: sub.yaml}\n").file("sub.yaml", "name: sub\nsteps: [{value: 1}]\n");
    workflow.run().well();
    let listed = workflow.command(&["runs", "--all", "--json"]).wait().well().stdout;
    let called = listed.split('"').find(|text| text.len() == 21 && text.contains('-')).expect("a called run");
    workflow.command(&["rm", called]).wait().exits(3).says("is a part of run").says("removes both");
    workflow.command(&["rm", "last"]).wait().well();
    let listed = workflow.command(&["runs", "--all", "--json"]).wait().well().stdout;
    assert!(listed.starts_with(r#"{"runs":[]"#), "{listed}");
}

/// Branches go with their run, unless they hold work that is nowhere else.
#[test]
fn branches_with_work_of_their_own_stay_until_they_are_named() {
    let text = "map:\n  input: [1, 2]\n  worktree: true\n  steps:\n  - shell: echo ${item} >> f-${item}; \
                git add -A; git commit -qm item-${item}\n";
    let workflow = workflow(text).file(".gitignore", ".threadline\n");
    let workflow = workflow.repository();
    workflow.run().well();
    let run = ids(&workflow).remove(0);
    let branches = || workflow.git(&["branch", "--list", "threadline/*"]);
    assert!(branches().contains(&run), "{}", branches());
    let cleaned = workflow.command(&["clean", "--keep", "0"]).wait().well();
    assert!(cleaned.stdout.contains("commits that no other branch has"), "{}", cleaned.stdout);
    workflow.command(&["rm", "--force", &run]).wait().exits(3).says("commits that no other branch has");
    assert!(branches().contains(&run) && ids(&workflow) == [run.clone()]);
    // Merged, nothing would be lost.
    workflow.git(&["merge", "-q", &format!("threadline/{run}")]);
    workflow.command(&["rm", &run]).wait().well();
    assert_eq!(branches(), "");
    assert!(ids(&workflow).is_empty());

    workflow.run().well();
    let run = ids(&workflow).remove(0);
    assert!(branches().contains(&run));
    workflow.git(&["checkout", "-q", &format!("threadline/{run}")]);
    workflow.command(&["rm", &run]).wait().exits(3).says("is checked out in");
    workflow.git(&["checkout", "-q", "main"]);
    workflow.command(&["rm", "--branches", &run]).wait().well();
    assert_eq!(branches(), "");
    assert!(!workflow.has(&format!(".threadline/worktrees/{run}")));
    // A branch of another name is nobody's business.
    workflow.git(&["branch", "threadline/mine"]);
    workflow.command(&["clean", "--keep", "0"]).wait().well();
    assert!(branches().contains("threadline/mine"));
}
