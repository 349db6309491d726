//! Workers that do not share the folder of the project: each sees its own empty folder and the blob store.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use super::cluster::{Bucket, Cluster, Worker, until};
use super::{results, signal, start};
use crate::examples;
use crate::support::{self, Outcome, Project};

/// A cluster of two workers that see nothing but the blob store.
fn lone_cluster(name: &str, slots: usize) -> Option<(Cluster, [Worker; 2])> {
    let cluster = Cluster::start(name)?;
    let blobs = cluster.blobs();
    let workers = ["one", "two"].map(|worker| cluster.lone_worker(worker, slots, &blobs));
    cluster.register();
    Some((cluster, workers))
}

fn run(project: &Project, cluster: &Cluster) -> Outcome {
    let line = format!("threadline run workflow.yaml {} --blobs {} --bundle", cluster.on(), cluster.blobs());
    project.run_line(&line)
}

/// All that stands in a folder: what it is, its permissions, its content.
fn listing(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().map_while(Result::ok) {
            let path = entry.path();
            let name = path.strip_prefix(root).unwrap().display().to_string();
            if name == ".threadline" || name == ".git" {
                continue;
            }
            let metadata = std::fs::symlink_metadata(&path).unwrap();
            let mode = metadata.permissions().mode() & 0o7777;
            let what = if metadata.is_symlink() {
                format!("link to {}", std::fs::read_link(&path).unwrap().display())
            } else if metadata.is_dir() {
                folders.push(path);
                format!("folder {mode:o}")
            } else {
                format!("file {mode:o} {}", std::fs::read(&path).unwrap().escape_ascii())
            };
            found.insert(name, what);
        }
    }
    found
}

fn command(project: &Project, line: &str) -> String {
    let output = Command::new("sh").args(["-ec", line]).current_dir(project.path()).output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Steps that write, move and remove all sorts of things, each of which later ones look at.
const WRITERS: &str = r#"
steps:
  - shell: |
      set -e
      ./bin/tool.sh > made.txt
      mkdir -p new/deep empty/inside
      ln -s ../../made.txt new/deep/link
      rm -r old
      mv plain.txt moved.txt
      chmod 640 moved.txt
      printf '\377\000\001' > bytes
      mkdir -m 2750 special
      printf x > "a name with 'quotes' and \$signs"
  - shell: |
      set -e
      test "$(cat new/deep/link)" = "made by the tool"
      test -d empty/inside; test ! -e old; test ! -e plain.txt
      test "$(stat -c %a moved.txt special)" = "$(printf '640\n2750')"
      printf '\377\000\001' | cmp - bytes
      rm new/deep/link; mkdir new/deep/link; echo now a folder > new/deep/link/file
      rm -r empty; echo now a file > empty
      printf ' and more' >> "a name with 'quotes' and \$signs"
  - write_file: {path: written.txt, content: by the coordinator}
  - shell: cat written.txt new/deep/link/file empty > together.txt
  - shell: cat together.txt
    capture: together
  - shell: test "$(stat -c %Y together.txt)" -ge "$(stat -c %Y made.txt)"
  - shell: pwd | grep -q '/project/bin$' && echo here > ../from-bin
    cwd: bin
"#;

/// A project for [`WRITERS`].
fn writers() -> Project {
    let project = Project::new();
    project.write("workflow.yaml", WRITERS.as_bytes());
    project.write("plain.txt", b"plain");
    project.write("old/file", b"old");
    project.write("bin/tool.sh", b"#!/bin/sh\necho made by the tool\n");
    command(&project, "chmod 755 bin/tool.sh; mkdir nothing-in-it; ln -s /nowhere leads-nowhere");
    project
}

#[test]
fn examples_leave_the_same_in_copies() {
    let Some((cluster, _workers)) = lone_cluster("copied-examples", 8) else { return };
    let (first, step) = if support::is_long() { (0, 1) } else { (3, 8) };
    let (mut same, mut left_out, mut failures) = (0, Vec::new(), Vec::new());
    for name in examples::examples().into_iter().skip(first).step_by(step) {
        let (project, line) = examples::prepared(&name);
        let text = project.read("workflow.yaml").unwrap_or_default();
        if !line.starts_with("threadline run") || text.contains("secrets") {
            left_out.push(name);
            continue;
        }
        let outcome =
            project.run_line(&format!("{line} {} --blobs {} --bundle", cluster.on(), cluster.blobs()));
        let seen = examples::text_of(outcome.exit, &outcome.stdout);
        if seen == examples::expected(&name) {
            same += 1;
        } else {
            failures.push(format!("{name} left {}\n{seen}", outcome.stderr));
        }
    }
    println!("{same} examples the same in copies; left out: {left_out:?}");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(same >= 5);
}

#[test]
fn a_bucket_serves_as_well_as_a_folder() {
    let Some(cluster) = Cluster::start("bucket") else { return };
    let Some(bucket) = Bucket::start() else { return };
    let blobs = "s3://bucket/some/prefix";
    let _worker = cluster.lone_worker_with("one", 4, blobs, &bucket.variables());
    cluster.register();
    let (here, there) = (writers(), writers());
    let local = here.run_line("threadline run workflow.yaml");
    assert_eq!(local.exit, 0, "{}", local.stderr);
    let address = cluster.address();
    let arguments = ["run", "workflow.yaml", "--on", &address, "--key-file", cluster.key(), "--blobs", blobs];
    let arguments = arguments.into_iter().chain(["--bundle"]).collect::<Vec<_>>();
    let remote = there.run_with(&bucket.variables(), &arguments);
    assert_eq!(remote.exit, 0, "{}\n{}", remote.stderr, remote.stdout);
    assert_eq!(listing(there.path()), listing(here.path()));
    // Whoever may not use it hears of it before the run.
    let wrong = there
        .run_with(&bucket.variables(), &[&arguments[..7], &["s3://another/prefix", "--bundle"]].concat());
    assert_eq!(wrong.exit, 3, "{}", wrong.stderr);
    assert!(
        wrong.stderr.contains("error: nothing can be put into `s3://another/prefix`"),
        "{}",
        wrong.stderr
    );
}

#[test]
fn what_steps_write_on_workers_is_what_they_write_here() {
    let Some((cluster, _workers)) = lone_cluster("writers", 4) else { return };
    let (here, there) = (writers(), writers());
    let local = here.run_line("threadline run workflow.yaml");
    assert_eq!(local.exit, 0, "{}", local.stderr);
    let remote = run(&there, &cluster);
    assert_eq!(remote.exit, 0, "{}\n{}", remote.stderr, remote.stdout);
    assert_eq!(listing(there.path()), listing(here.path()));
    let shown = there.run(&["show", "last", "--json"], b"").stdout;
    // Each of its programs found a copy of its own, on whichever worker.
    assert_eq!(shown.matches(r#""worker":""#).count(), 6, "{shown}");
    assert_eq!(cluster.copies(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn two_steps_that_write_the_same_file_at_once_are_a_failure_that_names_both() {
    let Some((cluster, _workers)) = lone_cluster("conflict", 4) else { return };
    let project = Project::new();
    project.write("shared.txt", b"begin\n");
    // Each waits until the other has begun: the act that ends last meets what the first one wrote.
    let workflow = format!(
        "steps:\n  - foreach: [a, b]\n    parallel: 2\n    continue_on_error: true\n    do:\n      - shell: |\n          \
         touch {0}/began-${{item}}; until test -e {0}/began-a && test -e {0}/began-b; do sleep 0.02; done\n          \
         echo ${{item}} >> shared.txt; echo same > same.txt; echo ${{item}} > own-${{item}}\n",
        project.path().parent().unwrap().display()
    );
    project.write("workflow.yaml", workflow.as_bytes());
    let outcome = run(&project, &cluster);
    let shown = project.run(&["show", "last", "--json"], b"").stdout;
    let text = project.read("shared.txt").unwrap();
    assert!(text == "begin\na\n" || text == "begin\nb\n", "{text}");
    let (first, second) = if text.contains('a') { (0, 1) } else { (1, 0) };
    let expected = format!(
        "because another one wrote the same: `shared.txt`: step `1[{first}]/1` has changed it since step \
         `1[{second}]/1` began"
    );
    assert!(shown.contains(&expected), "{expected}\n{shown}\n{}", outcome.stderr);
    // All or nothing.
    let own = |item: usize| project.read(["own-a", "own-b"][item]);
    assert_eq!((own(first).is_some(), own(second)), (true, None));
    assert_eq!(project.read("same.txt").as_deref(), Some("same\n"));
}

#[test]
fn a_killed_coordinator_takes_each_change_once() {
    let items = if support::is_long() { 200 } else { 24 };
    let Some((cluster, _workers)) = lone_cluster("taken", 4) else { return };
    let project = Project::new();
    let numbers: Vec<String> = (0..items).map(|item| item.to_string()).collect();
    let workflow = format!(
        "steps:\n  - foreach: [{}]\n    parallel: 8\n    do:\n      - shell: echo begun >> out/${{item}}; sleep 0.1; echo \
         done-${{item}}\n        on_crash: fail\n      - shell: echo ended >> out/${{item}}; cat out/${{item}} | tr '\\n' ' '\n",
        numbers.join(", ")
    );
    project.write("workflow.yaml", workflow.as_bytes());
    project.write("out/0", b"");
    let (address, blobs) = (cluster.address(), cluster.blobs());
    let arguments = [
        "run",
        "workflow.yaml",
        "--on",
        &address,
        "--key-file",
        cluster.key(),
        "--blobs",
        &blobs,
        "--bundle",
    ];
    let mut run = start(&project, &arguments);
    let written = || std::fs::read_dir(project.path().join("out")).unwrap().count();
    for kill in 1..=3 {
        until("more items have written", || written() > kill * items / 5);
        signal(&run, Signal::KILL);
        run.wait().unwrap();
        run = start(&project, &["resume", "last"]);
    }
    let status = run.wait().unwrap();
    assert!(status.success(), "{}", project.run(&["show", "last"], b"").stdout);
    assert_eq!(results(&project), items);
    for item in 0..items {
        assert_eq!(project.read(&format!("out/{item}")).as_deref(), Some("begun\nended\n"), "item {item}");
    }
}

#[test]
fn what_git_ignores_stays_and_what_the_run_writes_goes_with_it() {
    let Some((cluster, _workers)) = lone_cluster("ignored", 2) else { return };
    let project = Project::new();
    project.write(".gitignore", b"target\n.threadline\n");
    project.write("target/large", b"not sent");
    project.write("seen.txt", b"sent, and in no commit");
    project.write(
        "workflow.yaml",
        b"steps:\n  - shell: test ! -e target && test -e seen.txt && mkdir target && echo built > target/program\n  \
          - shell: cat target/program && test ! -e target/large\n",
    );
    command(&project, "git init -q . && git add .gitignore");
    let outcome = run(&project, &cluster);
    assert_eq!(outcome.exit, 0, "{}", outcome.stderr);
    assert_eq!(project.read("target/large").as_deref(), Some("not sent"));
    assert_eq!(project.read("target/program").as_deref(), Some("built\n"));
}

/// Values of these sizes, printed by a program, and given to others in a file, in a word and on their stdin.
fn sizes(sizes: &[usize], is_given: bool) -> String {
    let mut text = "agents: {count: {provider: command, command: [sha256sum]}}\nsteps:\n".to_owned();
    for (at, size) in sizes.iter().enumerate() {
        let _ = write!(
            text,
            "  - shell: head -c {size} /dev/zero | tr '\\0' x\n    capture: v{at}\n    capture_format: text\n    max_output: \
             2GB\n  - shell: sha256sum < ${{v{at} | as_file}}\n"
        );
        if is_given {
            let _ = write!(
                text,
                "  - shell: printf %s \"${{v{at}}}\" | sha256sum\n  - agent: count\n    message: ${{v{at}}}\n"
            );
        }
    }
    text
}

/// What each step left, in the order of the steps.
fn left(project: &Project) -> Vec<String> {
    let shown = project.run(&["show", "last", "--json"], b"").stdout;
    let finished = shown.lines().filter(|line| line.contains(r#""kind":"finished""#));
    let outputs =
        finished.map(|line| line.split_once(r#""meta":"#).unwrap().0.split_once(r#""output":"#).unwrap().1);
    outputs.map(str::to_owned).collect()
}

#[test]
fn values_of_any_size_arrive_as_they_are() {
    let Some((cluster, _workers)) = lone_cluster("sizes", 2) else { return };
    // A server takes messages of at most 32 MiB.
    let small = [0, (256 << 10) - 1, 256 << 10, (256 << 10) + 1, 1 << 20];
    let large = [31 << 20, 33 << 20, 64 << 20];
    let large = if support::is_long() { &large[..] } else { &large[1..2] };
    let mut workflows = vec![sizes(&small, true), sizes(large, support::is_long())];
    if support::is_long() {
        workflows.push(sizes(&[1 << 30], false));
    }
    // Bytes that are no text are refused, and the same is said of them.
    let mut bytes = "steps:\n".to_owned();
    for size in [1, 1 << 20] {
        let _ = write!(
            bytes,
            "  - shell: head -c {size} /dev/zero | tr '\\0' '\\377'\n    continue_on_error: true\n"
        );
    }
    workflows.push(bytes);
    for workflow in workflows {
        let (here, there) = (Project::new(), Project::new());
        for project in [&here, &there] {
            project.write("workflow.yaml", workflow.as_bytes());
        }
        here.run_line("threadline run workflow.yaml");
        let remote = run(&there, &cluster);
        assert_eq!(left(&there), left(&here), "{}", remote.stderr);
        assert_eq!(left(&there).len(), workflow.matches("  - ").count());
    }
}

/// Items that commit in worktrees, in steps that other workers go on with.
const MAP: &str = r#"
name: lines
map:
  input: [one, two, three, four]
  max_parallel: 2
  worktree: true
  steps:
    - shell: printf '%s\n' "begun" >> ${item}.txt; git branch --show-current
    STAGE AND COMMIT
    - shell: printf '%s\n' "done" >> ${item}.txt; git commit -q -a -m "End "${item}; git status --short
reduce:
  - shell: git log --format=%s --no-merges main..${map.branch} | LC_ALL=C sort
merge:
  - shell: git merge -q --no-edit -- ${map.branch}
  - shell: cat one.txt two.txt three.txt four.txt
"#;

#[test]
fn items_in_worktrees_commit_on_workers() {
    let Some((cluster, workers)) = lone_cluster("worktrees", 2) else { return };
    let kills = if support::is_long() { 6 } else { 1 };
    for kill in 0..=kills {
        let project = Project::new();
        // What is staged is not kept when an item goes back to where a step began, here and there.
        let in_one_step = "    - shell: git add -A && git commit -q -m \"Begin \"${item}\n";
        let in_two_steps = "    - shell: git add -A\n    - shell: git commit -q -m \"Begin \"${item}\n";
        let map = MAP.replace("    STAGE AND COMMIT\n", if kill > 0 { in_one_step } else { in_two_steps });
        project.write("workflow.yaml", map.as_bytes());
        project.write(".gitignore", b".threadline\n");
        command(
            &project,
            "git init -q -b main .; git config user.name Ada; git config user.email ada@example.com; git add .; git commit \
             -q -m begin",
        );
        let (address, blobs) = (cluster.address(), cluster.blobs());
        let arguments = [
            "run",
            "workflow.yaml",
            "--on",
            &address,
            "--key-file",
            cluster.key(),
            "--blobs",
            &blobs,
            "--bundle",
        ];
        let mut running = start(&project, &arguments);
        if kill > 0 {
            // Once the coordinator and once a worker, wherever they are.
            let events =
                || project.run(&["show", "last", "--json"], b"").stdout.matches("\"finished\"").count();
            until("some steps have ended", || events() > kill * 2 || running.try_wait().unwrap().is_some());
            workers[kill % 2].kill();
            signal(&running, Signal::KILL);
            running.wait().unwrap();
            running = start(&project, &["resume", "last"]);
        }
        let status = running.wait().unwrap();
        let shown = project.run(&["show", "last", "--json"], b"").stdout;
        assert!(status.success(), "{}\n{shown}", project.run(&["show", "last"], b"").stdout);
        for item in ["one", "two", "three", "four"] {
            assert_eq!(project.read(&format!("{item}.txt")).as_deref(), Some("begun\ndone\n"), "{item}");
        }
        let log = command(&project, "git log --format='%s %an'");
        let mut expected = String::new();
        for item in ["four", "one", "three", "two"] {
            let _ = write!(expected, "Begin {item} Ada\nEnd {item} Ada\n");
        }
        let mut lines: Vec<&str> = log.lines().filter(|line| !line.starts_with("Merge")).collect();
        lines.sort_unstable();
        let mut expected: Vec<&str> = expected.lines().chain(["begin Ada"]).collect();
        expected.sort_unstable();
        assert_eq!(lines, expected, "{log}");
        assert_eq!(command(&project, "git status --short; git branch --list 'threadline/*.item-*'"), "");
    }
}

#[test]
fn what_cannot_travel_is_refused_with_a_reason() {
    let Some(cluster) = Cluster::start("no-travel") else { return };
    let project = Project::new();
    project.write("workflow.yaml", b"steps:\n  - shell: echo hello\n");
    // A worker that was told of no blob store has no way to the files.
    let without = cluster.worker(project.path(), "without", 1);
    cluster.register();
    let outcome = run(&project, &cluster);
    assert_eq!(outcome.exit, 3, "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("refuses the request: the blob store has no `content/"),
        "{}",
        outcome.stderr
    );
    assert!(outcome.stderr.contains("the same blob store (`--blobs`)"), "{}", outcome.stderr);
    cluster.forget(&without);
    drop(without);
    let blobs = cluster.blobs();
    let _worker = cluster.lone_worker("with", 1, &blobs);
    // What cannot be carried is a failure of its step, and not a difference that nobody sees.
    project.write(
        "workflow.yaml",
        b"steps:\n  - shell: git init -q . && touch .git/MERGE_HEAD\n    continue_on_error: true\n  - shell: mkfifo pipe\n",
    );
    let outcome = run(&project, &cluster);
    let shown = project.run(&["show", "last", "--json"], b"").stdout;
    assert!(shown.contains("git is in the middle of something (`MERGE_HEAD`)"), "{shown}");
    assert!(outcome.stderr.contains("`pipe` stays on worker `with`"), "{shown}\n{}", outcome.stderr);
    let name = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"x\xff");
    std::fs::write(project.path().join(name), "").unwrap();
    let outcome = run(&project, &cluster);
    assert_eq!(outcome.exit, 3, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("is not UTF-8, and cannot travel"), "{}", outcome.stderr);
    let alone = project.run_line(&format!("threadline run workflow.yaml {} --bundle", cluster.on()));
    assert_eq!(alone.exit, 2, "{}", alone.stderr);
}
