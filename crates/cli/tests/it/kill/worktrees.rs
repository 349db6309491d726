//! A map whose items work in git worktrees, killed anywhere, alone and with all that it started: each item
//! begins again from where it was, no lock of git is in the way, and the result is that of an undisturbed
//! run.

use std::process::Command;

use threadline_engine::random::Random;
use threadline_runner::process::find_left_over;

use super::{Place, Until};
use crate::support::{is_long, seed};

/// The items append to a file and commit it, in steps that cannot be done twice on top of what they did.
const MAP: &str = r#"
name: lines
map:
  input: [one, two, three, four]
  max_parallel: 2
  worktree: true
  steps:
    - shell: printf '%s\n' "begun" >> ${item}.txt
    - shell: git add -A && git commit -q -m "Begin "${item}
    - shell: printf '%s\n' "done" >> ${item}.txt; git commit -q -a -m "End "${item}
merge:
  - shell: git merge -q -- ${map.branch}
"#;

fn git(place: &Place, arguments: &[&str]) -> String {
    let identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"];
    let output =
        Command::new("git").args(identity).args(arguments).current_dir(&place.folder).output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn place(name: &str) -> Place {
    let place = Place::new(name, MAP);
    std::fs::write(place.file(".gitignore"), ".threadline\n").unwrap();
    git(&place, &["init", "-q", "-b", "main", "."]);
    git(&place, &["config", "user.name", "Ada"]);
    git(&place, &["config", "user.email", "ada@example.com"]);
    git(&place, &["add", "."]);
    git(&place, &["commit", "-q", "-m", "begin"]);
    place
}

/// Ends everything that a killed run left, as whoever ends a whole container does.
fn kill_all(place: &Place) {
    let Some(run) = place.left().run else { return };
    for left in find_left_over(run.as_str()) {
        // It may have ended just now.
        let _ = Command::new("kill").args(["-s", "KILL", &left.pid.to_string()]).output();
    }
}

#[test]
fn kills_of_items_in_worktrees() {
    let (kills, mut random) = (if is_long() { 200 } else { 4 }, Random::new(seed()));
    for kill in 0..kills {
        let place = place(&format!("worktrees-{kill}"));
        let mut running = place.start(&["run", "workflow.yaml"]);
        // Twice, so that what was put right once is put right again.
        for _ in 0..2 {
            running.let_go(Until::Events(1 + random.below(35)));
            let (alive, _) = running.kill();
            if alive && random.percent(50) {
                kill_all(&place);
            }
            let left = place.left();
            let begun = !left.events.is_empty();
            if let (false, Some(run)) = (begun, &left.run) {
                place.never_began(run);
            }
            running = place.start(if begun { &["resume", "last"] } else { &["run", "workflow.yaml"] });
        }
        let (status, said) = running.wait();
        assert!(status.success(), "kill {kill}: {status}, {said}");
        for item in ["one", "two", "three", "four"] {
            let text = std::fs::read_to_string(place.file(&format!("{item}.txt"))).unwrap();
            assert_eq!(text, "begun\ndone\n", "kill {kill}, item {item}");
        }
        let log = git(&place, &["log", "--format=%s"]);
        assert_eq!(log.lines().filter(|line| line.starts_with("Begin ")).count(), 4, "{log}");
        assert_eq!(log.lines().filter(|line| line.starts_with("End ")).count(), 4, "{log}");
        assert_eq!(git(&place, &["branch", "--list", "threadline/*.item-*"]), "");
    }
}

/// A lock that a living git holds makes no item fail: the run waits, stops in the end, and goes on when it is
/// gone. Only in the long form, because it waits as long as people would.
#[test]
fn a_lock_of_git_that_stays_stops_the_run() {
    if !is_long() {
        return;
    }
    let place = place("locked");
    // Whatever is called `git...` and works in the repository may have made the lock.
    std::fs::copy("/bin/sleep", place.file("git-holder")).unwrap();
    let mut holder =
        Command::new(place.file("git-holder")).arg("1000").current_dir(&place.folder).spawn().unwrap();
    std::fs::write(place.file(".git/packed-refs.lock"), "").unwrap();
    let output = place.output(&["run", "workflow.yaml"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("packed-refs.lock"), "{said}");
    holder.kill().unwrap();
    holder.wait().unwrap();
    std::fs::remove_file(place.file(".git/packed-refs.lock")).unwrap();
    std::fs::remove_file(place.file("git-holder")).unwrap();
    assert!(place.output(&["resume", "last"]).status.success());
    assert_eq!(std::fs::read_to_string(place.file("four.txt")).unwrap(), "begun\ndone\n");
}
