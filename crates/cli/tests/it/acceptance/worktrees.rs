//! Items with a git worktree of their own: nothing of the user's is touched, no commit is lost, nothing is left behind.

use std::collections::BTreeSet;

use super::resuming::{killed, resumed};
use crate::harness::{Workflow, workflow};

/// A workflow in a repository with one commit of everything.
fn repository(text: &str) -> Workflow {
    let workflow = workflow(text).file("shared.txt", "at first\n").file("data/note.txt", "a note\n");
    let workflow = workflow.file(".gitignore", ".threadline\nlog\nbegan\ngo\none\ntwo\nmet\n");
    let workflow = workflow.repository();
    let root = workflow.project.path().display().to_string();
    workflow.env("ROOT", &root)
}

/// Commits everything.
fn commit(workflow: &Workflow) {
    workflow.git(&["add", "-A"]);
    workflow.git(&["commit", "-q", "-m", "everything"]);
}

/// The branches but `main`.
fn branches(workflow: &Workflow) -> BTreeSet<String> {
    let names = workflow.git(&["for-each-ref", "--format=%(refname:short)", "refs/heads"]);
    names.lines().filter(|name| *name != "main").map(str::to_owned).collect()
}

/// The branch of the only run.
fn branch_of_run(workflow: &Workflow) -> String {
    let of_run = |name: &String| name.starts_with("threadline/") && !name.contains(".item-");
    let mut names = branches(workflow).into_iter().filter(of_run);
    let name = names.next().expect("a branch of the run");
    assert_eq!(names.next(), None);
    name
}

/// The first lines of the commits that a branch has and `main` has not, but merges.
fn commits(workflow: &Workflow, branch: &str) -> Vec<String> {
    let range = format!("main..{branch}");
    let lines = workflow.git(&["log", "--no-merges", "--format=%s", &range]);
    lines.lines().map(str::to_owned).collect()
}

/// Asserts that there is no worktree but the user's, and nothing in the folder for them but where a run began.
fn nothing_left(workflow: &Workflow) {
    let worktrees = workflow.git(&["worktree", "list", "--porcelain"]);
    assert_eq!(worktrees.lines().filter(|line| line.starts_with("worktree ")).count(), 1, "{worktrees}");
    let folder = workflow.project.path().join(".threadline/worktrees");
    for run in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
        let left = std::fs::read_dir(run.path()).expect("a folder").flatten().map(|entry| entry.file_name());
        let left: Vec<_> = left.filter(|name| name != "begun").collect();
        assert!(left.is_empty(), "{left:?}");
    }
    let administration = workflow.project.path().join(".git/worktrees");
    assert!(std::fs::read_dir(administration).into_iter().flatten().next().is_none());
}

/// What must stay as it is: the user's commit, branch, index and files.
fn of_user(workflow: &Workflow) -> [String; 4] {
    [
        workflow.git(&["rev-parse", "main"]),
        workflow.git(&["symbolic-ref", "HEAD"]),
        workflow.git(&["status", "--porcelain", "--untracked-files=all"]),
        workflow.git(&["ls-files", "-s"]),
    ]
}

#[test]
fn two_hundred_items_with_conflicts_failures_and_a_kill() {
    let workflow = repository(
        r#"
map:
  input: {shell: seq 200}
  max_parallel: 16
  worktree: true
  steps:
    - shell: |
        n=${item}
        echo "$n" >> "$ROOT/log"
        mkdir -p files
        echo "$n" > "files/$n.txt"
        # The first two change the same line, each before it sees what the other did.
        if test "$n" -le 2; then
          if ! test -e "$ROOT/met"; then
            if test "$n" = 1; then echo > "$ROOT/one"; cat "$ROOT/two"; else cat "$ROOT/one"; echo > "$ROOT/two"; fi
            touch "$ROOT/met"
          fi
          echo "$n" > shared.txt
        fi
        git add -A
        git commit -q --allow-empty -m "item $n"
        if test "$n" = 100; then echo > "$ROOT/began"; cat "$ROOT/go"; fi
        test $(( n % 25 )) != 7
error_policy: {continue_on_failure: true}
reduce:
  - {id: counts, value: ["${map.total}", "${map.successful}", "${map.failed}"]}
  - {id: failed, value: "${map.results | where('status == \"failed\"') | collect('item')}"}
  - {id: branch, value: "${map.branch}"}
"#,
    )
    .pipes(&["one", "two", "began", "go"]);
    let before = of_user(&workflow);
    killed(&workflow);
    assert_eq!(of_user(&workflow), before);
    let run = resumed(&workflow).well();

    assert_eq!(run.value("counts"), "[200,191,9]");
    let failed = run.value("failed");
    let failed: BTreeSet<&str> =
        failed.trim_matches(['[', ']']).split(',').map(|item| item.trim_matches('"')).collect();
    let mut expected: BTreeSet<&str> = BTreeSet::from(["7", "32", "57", "82", "107", "132", "157", "182"]);
    // One of the first two came second.
    expected.insert(if failed.contains("1") { "1" } else { "2" });
    assert_eq!(failed, expected);

    let branch = branch_of_run(&workflow);
    assert_eq!(run.value("branch"), format!("{branch:?}"));
    // Every commit of an item that did well is there once; a rerun after the kill may have made an empty second one.
    let mut merged = commits(&workflow, &branch);
    merged.sort();
    merged.dedup();
    let well: BTreeSet<String> =
        (1..=200).filter(|n| !failed.contains(n.to_string().as_str())).map(|n| format!("item {n}")).collect();
    assert_eq!(merged.into_iter().collect::<BTreeSet<String>>(), well);
    for n in (1..=200).filter(|n: &u32| !failed.contains(n.to_string().as_str())) {
        assert_eq!(workflow.git(&["show", &format!("{branch}:files/{n}.txt")]), format!("{n}\n"));
    }
    // What failed items did is kept, each on a branch of its own.
    let kept: BTreeSet<String> = branches(&workflow).into_iter().filter(|name| *name != branch).collect();
    let of_failed: BTreeSet<String> =
        failed.iter().map(|n| format!("{branch}.item-{}", n.parse::<u32>().expect("a number") - 1)).collect();
    assert_eq!(kept, of_failed);
    for name in &kept {
        let n = name.rsplit('-').next().and_then(|n| n.parse::<u32>().ok()).expect("a number") + 1;
        assert!(commits(&workflow, name).contains(&format!("item {n}")), "{name}");
    }
    nothing_left(&workflow);
    assert_eq!(of_user(&workflow), before);
    // Only what was under way at the kill ran twice.
    let again = workflow.lines("log") - 200;
    assert!((1..=16).contains(&again), "{again} items ran again");
}

#[test]
fn the_branch_is_taken_in_when_the_merge_says_so() {
    let workflow = repository(
        r#"
map:
  input: [a, b, c]
  max_parallel: 3
  worktree: true
  steps:
    - shell: echo ${item} > ${item}.txt; git add -A; git commit -q -m "item ${item}"
reduce:
  - shell: test ! -e a.txt
merge:
  - shell: git merge -q --no-edit ${map.branch}
"#,
    );
    workflow.run().well();
    for name in ["a", "b", "c"] {
        assert_eq!(workflow.read(&format!("{name}.txt")), format!("{name}\n"));
    }
    assert_eq!(workflow.git(&["status", "--porcelain"]), "");
    nothing_left(&workflow);
    assert_eq!(branches(&workflow).len(), 1);
}

#[test]
fn everything_an_item_does_happens_in_its_worktree() {
    let workflow = repository(
        r#"
setup: [{shell: pwd}]
map:
  input: [a]
  worktree: true
  steps:
    - {shell: pwd, capture: here}
    - {value: "${= here == agent.worktree and here != setup.output }", expect: {value: {eq: true}}}
    - {argv: [sh, -c, "echo changed > data/note.txt"]}
    - {value: "${file:data/note.txt}", expect: {value: {eq: changed}}}
    - {write_file: {path: "made/${item}.txt", content: "${file:data/note.txt}", create_dirs: true}}
    - {id: sub, shell: "pwd", cwd: data}
    - {value: "${= sub.value == agent.worktree + '/data' }", expect: {value: {eq: true}}}
    - {id: inner, foreach: [1, 2], do: [{shell: pwd}]}
    - {value: "${= inner == [here, here] }", expect: {value: {eq: true}}}
    - {id: called, workflow: child.yaml, with: {name: "${item}"}}
    - {value: "${= called.value.here == here }", expect: {value: {eq: true}}}
    - {shell: "test -e by-child-a.txt"}
    - {shell: "git add -A; git commit -q -m all"}
    - {value: "${agent.worktree}"}
reduce:
  - {shell: "test ! -e made && test ! -e by-child-a.txt && grep -q 'a note' data/note.txt"}
  - {shell: "test ! -d ${map.results[0].value}"}
"#,
    )
    .file(
        "child.yaml",
        "inputs: {name: {}}\nsteps:\n  - {id: here, shell: pwd}\n  - {write_file: {path: \"by-child-${inputs.name}.txt\", content: \"${file:data/note.txt}\"}}\nexports: {here: \"${here}\"}\n",
    );
    commit(&workflow);
    workflow.run().well();
    let branch = branch_of_run(&workflow);
    for name in ["made/a.txt", "by-child-a.txt"] {
        assert_eq!(workflow.git(&["show", &format!("{branch}:{name}")]), "changed");
    }
    nothing_left(&workflow);
}

#[test]
fn what_an_item_leaves_uncommitted_fails_it_and_is_kept() {
    let workflow = repository(
        "map: {input: [a, b], worktree: true, steps: [{shell: \"echo ${item} > new.txt; if test ${item} = a; then git add -A; git commit -q -m a; fi\"}]}\n",
    );
    let run = workflow.run().exits(1);
    let ended = run.of_kind("item_ended");
    let error = format!("{ended:?}");
    assert!(error.contains("new.txt") && error.contains("in no commit"), "{error}\n{}", run.stdout);
    let branch = branch_of_run(&workflow);
    assert_eq!(workflow.git(&["show", &format!("{branch}.item-1:new.txt")]), "b\n");
    assert_eq!(workflow.git(&["show", &format!("{branch}:new.txt")]), "a\n");
    nothing_left(&workflow);
}

#[test]
fn another_attempt_of_an_item_begins_afresh() {
    let workflow = repository(
        "map: {input: [a], worktree: true, retry: {attempts: 2, delay: 1ms}, steps: [{shell: \"test ! -e left.txt; echo x > left.txt; git add -A; git commit -q -m 'attempt ${item.attempt}'; test ${item.attempt} = 2\"}]}\n",
    );
    workflow.run().well();
    let branch = branch_of_run(&workflow);
    assert_eq!(commits(&workflow, &branch), ["attempt 2"]);
    assert_eq!(branches(&workflow).len(), 1);
    nothing_left(&workflow);
}

#[test]
fn items_that_commit_nothing_leave_no_branch() {
    let workflow = repository(
        "map: {input: [1, 2, 3], max_parallel: 2, worktree: true, steps: [{value: \"${item}\"}]}\nreduce: [{id: branch, value: \"${map.branch}\"}]\n",
    );
    let run = workflow.run().well();
    assert_eq!(run.value("branch"), "null");
    assert_eq!(branches(&workflow), BTreeSet::new());
    nothing_left(&workflow);
}

const ONE_ITEM: &str =
    "map: {input: [1], worktree: true, steps: [{shell: \"touch $ROOT/log; test ! -e dirty.txt\"}]}\n";

#[test]
fn outside_of_a_repository_it_is_an_error_with_a_way_out() {
    let workflow = workflow(ONE_ITEM);
    let root = workflow.project.path().display().to_string();
    let workflow = workflow.env("ROOT", &root).env("GIT_CEILING_DIRECTORIES", &root);
    let run = workflow.run().exits(1);
    assert!(run.error("map").contains("is in no git repository"), "{}", run.error("map"));
    assert!(run.error("map").contains("`git init` makes one"), "{}", run.error("map"));
    assert!(!workflow.has("log"));
}

#[test]
fn a_repository_without_commits_is_an_error_with_a_way_out() {
    let workflow = workflow(ONE_ITEM);
    let root = workflow.project.path().display().to_string();
    let workflow = workflow.env("ROOT", &root);
    workflow.git(&["init", "-q"]);
    let run = workflow.run().exits(1);
    assert!(run.error("map").contains("has no commit; commit something first"), "{}", run.error("map"));
    assert!(!workflow.has("log"));
}

#[test]
fn uncommitted_changes_are_not_seen_by_items_and_are_told_of() {
    let workflow = repository(ONE_ITEM).file("dirty.txt", "mine\n").file("shared.txt", "mine too\n");
    let before = of_user(&workflow);
    let run = workflow.run().well().says("the items do not see what is in no commit");
    assert!(run.stderr.contains("`dirty.txt`") && run.stderr.contains("`shared.txt`"), "{}", run.stderr);
    assert_eq!(of_user(&workflow), before);
    assert_eq!(workflow.read("shared.txt"), "mine too\n");
    nothing_left(&workflow);
}

#[test]
fn failed_items_are_done_again_in_worktrees_of_their_own() {
    let workflow = repository(
        r#"
map:
  input: [a, b, c]
  max_parallel: 3
  worktree: true
  steps:
    - shell: echo ${item} > ${item}.txt; git add -A; git commit -q -m "item ${item}"; echo ${item} >> "$ROOT/log"
    - shell: test ${item} != b || test -e "$ROOT/met"
reduce:
  - {id: counts, value: ["${map.successful}", "${map.failed}"]}
"#,
    );
    let before = of_user(&workflow);
    workflow.run().exits(1);
    nothing_left(&workflow);
    workflow.project.write("met", b"");
    let run = workflow.resume_with(&["--failed"]).well();
    assert_eq!(run.value("counts"), "[3,0]");
    let branch = branch_of_run(&workflow);
    let mut merged = commits(&workflow, &branch);
    merged.sort();
    assert_eq!(merged, ["item a", "item b", "item c"]);
    // What the first attempt did is kept where it was.
    assert_eq!(branches(&workflow), BTreeSet::from([branch.clone(), format!("{branch}.item-1")]));
    nothing_left(&workflow);
    assert_eq!(of_user(&workflow), before);
    assert_eq!(workflow.lines("log"), 4);
}

#[test]
fn an_item_that_leaves_its_branch_has_failed_and_its_work_is_kept() {
    let workflow = repository(
        r#"
map:
  input: [a, b]
  worktree: true
  steps:
    - shell: |
        if test ${item} = a; then git switch -q -c elsewhere; fi
        echo ${item} > ${item}.txt; git add -A; git commit -q -m "item ${item}"
"#,
    );
    let run = workflow.run().exits(1);
    let ended = format!("{:?}", run.of_kind("item_ended"));
    assert!(ended.contains("left its branch") && ended.contains("elsewhere"), "{ended}");
    let branch = branch_of_run(&workflow);
    assert_eq!(commits(&workflow, &branch), ["item b"]);
    assert!(commits(&workflow, &format!("{branch}.item-0")).contains(&"item a".to_owned()));
    nothing_left(&workflow);
}

#[test]
fn a_map_that_is_interrupted_goes_on_in_the_same_worktree() {
    let workflow = repository(
        r#"
map:
  input: [a, b]
  worktree: true
  steps:
    - shell: echo ${item} > ${item}.txt; git add -A; git commit -q -m "item ${item}"; echo ${item} >> "$ROOT/log"
    - shell: if test ${item} = a; then echo > "$ROOT/began"; cat "$ROOT/go"; fi; test -e ${item}.txt
"#,
    )
    .pipes(&["began", "go"]);
    let before = of_user(&workflow);
    let running = workflow.start(&[]);
    workflow.receive("began");
    running.signal("INT");
    running.until("stopping");
    running.signal("INT");
    running.wait().exits(130);
    assert_eq!(of_user(&workflow), before);
    resumed(&workflow).well();
    // The first step of the item had finished, and what it did was still there.
    assert_eq!(workflow.read("log"), "a\nb\n");
    let mut merged = commits(&workflow, &branch_of_run(&workflow));
    merged.sort();
    assert_eq!(merged, ["item a", "item b"]);
    nothing_left(&workflow);
    assert_eq!(of_user(&workflow), before);
}

/// The text of a map whose items each commit a file; the last part of their step is given.
fn committing(check: &str) -> String {
    format!(
        r#"
name: committing
map:
  input: [1, 2, 3]
  worktree: true
  agent_template:
  - id: work
    shell: |
      echo "${{item}}" >> "$ROOT/log"
      echo "${{item}}" > "file${{item}}"
      git add -A
      git commit -q -m "item ${{item}}"
      test ! -e "$ROOT/stop${{item}}"
  {check}
reduce:
- id: tell
  shell: echo "${{map.successful}} of ${{map.total}}"
"#
    )
}

#[test]
fn an_edited_run_keeps_the_commits_of_its_items() {
    let workflow = repository(&committing("max_parallel: 1"));
    let ignored = ".threadline\nlog\nstop3\nworkflow.yaml\n";
    workflow.project.write(".gitignore", ignored.as_bytes());
    commit(&workflow);
    workflow.project.write("stop3", b"");
    workflow.run().exits(1);
    std::fs::remove_file(workflow.project.path().join("stop3")).expect("the file was there");
    std::fs::remove_file(workflow.project.path().join("log")).expect("items ran");
    let edited = committing("timeout: 10m");
    workflow.project.write("workflow.yaml", edited.as_bytes());
    workflow.command(&["resume", "--edited", "--yes"]).wait().well();
    assert_eq!(workflow.read("log"), "3\n");
    let of_run = |name: &String| name.starts_with("threadline/") && !name.contains(".item-");
    let whole = branches(&workflow).into_iter().filter(of_run).any(|branch| {
        let mut found = commits(&workflow, &branch);
        found.sort();
        found == ["item 1", "item 2", "item 3"]
    });
    assert!(whole, "no branch has all commits: {:?}", branches(&workflow));

    // One of them has changed, so none of its commits can stay on the branch: all run again.
    std::fs::remove_file(workflow.project.path().join("log")).expect("items ran");
    workflow.project.write("workflow.yaml", edited.replace("[1, 2, 3]", "[1, 4, 3]").as_bytes());
    workflow.command(&["resume", "--edited", "--yes"]).wait().well();
    let log = workflow.read("log");
    let mut ran: Vec<&str> = log.lines().collect();
    ran.sort_unstable();
    assert_eq!(ran, ["1", "3", "4"]);
}
