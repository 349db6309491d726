//! Kills at random moments, of everything that can die while programs run on workers, over every shape of a workflow.
//!
//! Nothing is lost; what begins again is at most what was in flight where something died; what may begin once never begins
//! twice. `THREADLINE_LONG=1` kills each a hundred times, and `THREADLINE_SEED=n` at the moments of that seed.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use regex::Regex;
use rustix::process::Signal;
use threadline_engine::random::Random;

use super::cluster::{Cluster, Witness, Worker, until};
use super::{list, signal, start, start_on};
use crate::support::{self, Project};

/// So many programs run at once on each of the two workers.
const SLOTS: usize = 4;

/// The shapes of workflows. `ACT name` says that it begins, takes its time, and prints `done-name`; `ONCE` notices besides
/// when it begins twice.
const SHAPES: [(&str, &str); 7] = [
    (
        "list",
        "steps:\n  - foreach: {shell: seq 16}\n    parallel: 8\n    do:\n      - shell: \"ACT ${item}\"\n",
    ),
    (
        "graph",
        "nodes:\n  a1: {shell: \"ACT a1\"}\n  a2: {shell: \"ACT a2\"}\n  a3: {shell: \"ACT a3\"}\n  b1: {shell: \
         \"ACT b1 ${a1} ${a2}\"}\n  b2: {shell: \"ACT b2 ${a2} ${a3}\"}\n  b3: {shell: \"ACT b3 ${a3}\"}\n  c1: \
         {shell: \"ACT c1 ${b1} ${b2}\"}\n  c2: {shell: \"ACT c2 ${b2} ${b3}\"}\n  d: {shell: \"ACT d ${c1} \
         ${c2}\"}\n",
    ),
    (
        "map",
        "map:\n  input: {shell: seq 12}\n  max_parallel: 8\n  steps:\n    - shell: |\n        ACT ${item}\n        \
         case \"$THREADLINE_ACT \"${item} in */1/act/*[13579]) exit 1;; esac\n      retry: {attempts: 2, delay: \
         0s}\nreduce:\n  - shell: \"ACT reduced\"\n",
    ),
    (
        "loop",
        "initial: work\nmax_iterations: 20\nstates:\n  work:\n    action: \"ACT work-${state.iteration}\"\n    next: \
         check\n  check:\n    action: \"ACT check-${state.iteration}; test ${state.iteration} -ge 10\"\n    on_yes: \
         done\n    on_no: work\n  done: {terminal: true}\n",
    ),
    (
        "called",
        "steps:\n  - foreach: {shell: seq 6}\n    parallel: 6\n    do:\n      - workflow: callee.yaml\n        with: \
         {name: \"${item}\"}\n",
    ),
    (
        "worktrees",
        // A git that was killed leaves its locks.
        "map:\n  input: {shell: seq 6}\n  max_parallel: 6\n  worktree: true\n  steps:\n    - shell: |\n        ACT \
         ${item}\n        find \"$(git rev-parse --git-dir)\" -name '*.lock' -delete\n        rm -f \"$(git rev-parse --git-common-dir)/$(git symbolic-ref HEAD).lock\"\n        echo made > \
         made-${item}\n        git add -A\n        git diff --cached --quiet || git commit -qm made\nreduce:\n  - \
         shell: \"echo done-merged-$(git ls-tree --name-only ${map.branch} | grep -c made-)\"\n",
    ),
    (
        "once",
        "steps:\n  - foreach: {shell: seq 16}\n    parallel: 8\n    do:\n      - shell: \"ONCE ${item}\"\n        on_crash: \
         fail\n        continue_on_error: true\n",
    ),
];

const CALLEE: &str = "inputs: {name: {type: text}}\nsteps:\n  - shell: \"ACT first-${inputs.name}\"\n  - id: said\n    \
                      shell: \"ACT second-${inputs.name}\"\nexports: {said: \"${said}\"}\n";

/// Who dies, or stands still.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Victim {
    Coordinator,
    Worker,
    BothWorkers,
    /// A worker stands still for a while, and goes on.
    StoppedWorker,
    Server,
    Balancer,
    /// One of three servers.
    OneServer,
}

impl Victim {
    /// How many programs begin again at most when it dies.
    fn most_again(self) -> usize {
        match self {
            Self::Coordinator | Self::StoppedWorker => 0,
            Self::Worker => SLOTS,
            Self::BothWorkers | Self::Server | Self::Balancer | Self::OneServer => 2 * SLOTS,
        }
    }
}

/// What was seen of one sort of victim.
#[derive(Debug, Default)]
struct Seen {
    kills: usize,
    lost: usize,
    twice: usize,
    cut_off: usize,
    /// How often so many programs began again.
    again: BTreeMap<usize, usize>,
    most_again: usize,
}

/// Machines, and a project with a workflow of every shape.
struct Field {
    project: Project,
    cluster: Cluster,
    workers: [Worker; 2],
    random: Random,
    /// What each shape leaves that nothing disturbs, and how many programs it begins.
    expected: BTreeMap<&'static str, (BTreeSet<String>, usize)>,
    seen: BTreeMap<Victim, Seen>,
}

impl Field {
    fn new(name: &str, servers: usize) -> Option<Self> {
        let cluster = Cluster::of_servers(name, servers)?;
        let project = Project::new();
        let root = project.path().display().to_string();
        let act = format!("echo \"$THREADLINE_ACT $1\" >> '{root}/witness'\nsleep 0.1\necho \"done-$1\"\n");
        project.write("act.sh", act.as_bytes());
        let once = format!("mkdir '{root}/once/'$1 2>/dev/null || echo $1 >> '{root}/twice'\n{act}");
        project.write("once.sh", once.as_bytes());
        let known = |text: &str| {
            let (act, once) = (format!("sh {root}/act.sh "), format!("sh {root}/once.sh "));
            text.replace("_ACT ", "_ACT_")
                .replace("ACT ", &act)
                .replace("ONCE ", &once)
                .replace("_ACT_", "_ACT ")
        };
        for (shape, text) in SHAPES {
            project.write(&format!("{shape}.yaml"), known(text).as_bytes());
        }
        project.write("callee.yaml", known(CALLEE).as_bytes());
        project.write(".gitignore", b".threadline/\nwitness\ntwice\nonce/\n");
        for arguments in [&["init", "-q"][..], &["add", "-A"], &["commit", "-qm", "begin"]] {
            let mut git = Command::new("git");
            git.args(["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]).args(arguments);
            assert!(git.current_dir(project.path()).status().unwrap().success());
        }
        for (key, value) in [("user.name", "Ada"), ("user.email", "ada@example.com")] {
            let mut git = Command::new("git");
            assert!(git.args(["config", key, value]).current_dir(project.path()).status().unwrap().success());
        }
        let workers = ["one", "two"].map(|worker| cluster.worker(project.path(), worker, SLOTS));
        cluster.register();
        let (expected, seen) = Default::default();
        let random = Random::new(support::seed());
        Some(Self { project, cluster, workers, random, expected, seen })
    }

    /// The lines of the witness: which act, and what it is called.
    fn witness(&self) -> Vec<String> {
        self.project.read("witness").unwrap_or_default().lines().map(str::to_owned).collect()
    }

    fn prepare(&self) {
        for file in ["witness", "twice"] {
            let _ = std::fs::remove_file(self.project.path().join(file));
        }
        let _ = std::fs::remove_dir_all(self.project.path().join("once"));
        std::fs::create_dir(self.project.path().join("once")).unwrap();
    }

    /// What the last run left: everything that is done, and how many steps were cut off.
    fn left(&self) -> (BTreeSet<String>, usize) {
        let shown = self.project.run(&["show", "last", "--json"], b"").stdout;
        let done = Regex::new("done-[a-z0-9-]+").unwrap();
        let finished = shown.lines().filter(|line| line.contains(r#""kind":"finished""#));
        let values = finished.flat_map(|line| done.find_iter(line).map(|found| found.as_str().to_owned()));
        (values.collect(), shown.matches(r#""error_type":"Crash""#).count())
    }

    /// What a shape leaves that nothing disturbs.
    fn expected(&mut self, shape: &'static str) -> (BTreeSet<String>, usize) {
        if let Some(known) = self.expected.get(shape) {
            return known.clone();
        }
        self.prepare();
        let file = format!("{shape}.yaml");
        let outcome = self.project.run_line(&format!("threadline run {file} {}", self.cluster.on()));
        assert_eq!(outcome.exit, 0, "{shape}: {}", outcome.stderr);
        let known = (self.left().0, self.witness().len());
        assert!(known.1 >= 6 && known.0.len() >= 6, "{shape}: {known:?}");
        self.expected.insert(shape, known.clone());
        known
    }

    /// Runs a shape, and lets somebody die at some moment of it.
    fn kill(&mut self, victim: Victim, shape: &'static str) {
        let (expected, acts) = self.expected(shape);
        self.prepare();
        let mut run = start_on(&self.cluster, &self.project, &format!("{shape}.yaml"));
        let from = 1 + usize::try_from(self.random.below(acts as u64 - 1)).unwrap();
        until("some programs have begun", || self.witness().len() >= from);
        // Somewhere between two of them.
        std::thread::sleep(Duration::from_millis(self.random.below(100)));
        match victim {
            Victim::Coordinator => {
                if run.try_wait().unwrap().is_none() {
                    signal(&run, Signal::KILL);
                    run.wait().unwrap();
                    run = start(&self.project, &["resume", "last"]);
                }
            }
            Victim::Worker => self.workers[usize::try_from(self.random.below(2)).unwrap()].kill(),
            Victim::BothWorkers => self.workers.iter().for_each(Worker::kill),
            Victim::StoppedWorker => {
                let worker = &self.workers[usize::try_from(self.random.below(2)).unwrap()];
                worker.send_server(Signal::STOP);
                std::thread::sleep(Duration::from_secs(if support::is_long() { 60 } else { 1 }));
                worker.send_server(Signal::CONT);
            }
            Victim::Server => self.cluster.kill_server(),
            Victim::Balancer => self.cluster.kill_balancer(),
            Victim::OneServer => {
                let one = usize::try_from(self.random.below(3)).unwrap();
                self.cluster.kill_one_server(one);
                until("the run has ended", || run.try_wait().unwrap().is_some());
                self.cluster.start_again(one);
            }
        }
        until("the run has ended", || run.try_wait().unwrap().is_some());
        let status = run.wait().unwrap();
        let (left, cut_off) = self.left();
        let lines = self.witness();
        let distinct: BTreeSet<&String> = lines.iter().collect();
        let again = lines.len() - distinct.len();
        let lost = expected.difference(&left).count().saturating_sub(cut_off);
        let twice = self.project.read("twice").unwrap_or_default().lines().count();
        let what = || {
            let shown = self.project.run(&["show", "last"], b"").stdout;
            format!("{victim:?} in {shape} after {from} of {acts}: {lines:#?}\n{shown}")
        };
        assert!(status.success(), "{}", what());
        assert!(left.is_subset(&expected) && lost == 0, "lost {lost}: {left:?}\n{}", what());
        assert!(again <= victim.most_again(), "{again} again\n{}", what());
        assert!(twice == 0 && (shape != "once" || again == 0), "{twice} twice, {again} again\n{}", what());
        assert!(cut_off == 0 || shape == "once" && cut_off <= victim.most_again(), "{cut_off}\n{}", what());
        let seen = self.seen.entry(victim).or_default();
        seen.kills += 1;
        seen.lost += lost;
        seen.twice += twice;
        seen.cut_off += cut_off;
        *seen.again.entry(again).or_default() += 1;
        seen.most_again = seen.most_again.max(again);
        if seen.kills.is_multiple_of(10) {
            println!("{victim:?}: {seen:?}");
        }
    }

    fn sweep(&mut self, victims: &[Victim]) {
        for (number, victim) in victims.iter().enumerate() {
            let kills = match (support::is_long(), victim) {
                (true, Victim::StoppedWorker) => 3,
                (true, _) => 100,
                (false, _) => 2,
            };
            for kill in 0..kills {
                self.kill(*victim, SHAPES[(kill * 4 + number * 2) % SHAPES.len()].0);
            }
        }
        println!("{:#?}", self.seen);
    }
}

#[test]
fn coordinators_and_workers_may_die() {
    let Some(mut field) = Field::new("kills", 1) else { return };
    field.sweep(&[Victim::Coordinator, Victim::Worker, Victim::BothWorkers, Victim::StoppedWorker]);
}

#[test]
fn the_only_server_may_die() {
    let Some(mut field) = Field::new("kills-server", 1) else { return };
    field.sweep(&[Victim::Server]);
}

#[test]
fn a_balancer_and_one_of_three_servers_may_die() {
    let Some(mut field) = Field::new("kills-three", 3) else { return };
    field.sweep(&[Victim::Balancer, Victim::OneServer]);
}

/// A request that was in flight when its coordinator was killed, and that may begin once, went on: it is found.
#[test]
fn a_request_of_a_killed_coordinator_is_found_and_not_sent_again() {
    let Some(cluster) = Cluster::start("request") else { return };
    let service = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = service.local_addr().unwrap().port();
    let (count, may_answer) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (counted, answers) = (Arc::clone(&count), Arc::clone(&may_answer));
    // It ends with the process.
    std::thread::spawn(move || {
        for stream in service.incoming().map_while(Result::ok) {
            let (counted, answers) = (Arc::clone(&counted), Arc::clone(&answers));
            std::thread::spawn(move || {
                let mut stream = stream;
                let mut buffer = [0; 4096];
                let _ = stream.read(&mut buffer);
                counted.fetch_add(1, Ordering::SeqCst);
                until("it may answer", || answers.load(Ordering::SeqCst));
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\npaid");
            });
        }
    });
    let project = Project::new();
    let text = format!(
        "steps:\n  - http: {{method: POST, url: \"http://127.0.0.1:{port}/pay\"}}\n    on_crash: fail\n  - shell: echo paid\n"
    );
    project.write("pay.yaml", text.as_bytes());
    let _worker = cluster.worker(project.path(), "one", 2);
    cluster.register();
    let mut run = start_on(&cluster, &project, "pay.yaml");
    until("it pays", || count.load(Ordering::SeqCst) == 1);
    signal(&run, Signal::KILL);
    run.wait().unwrap();
    let mut resumed = start(&project, &["resume", "last"]);
    may_answer.store(true, Ordering::SeqCst);
    until("the run has ended", || resumed.try_wait().unwrap().is_some());
    let shown = project.run(&["show", "last"], b"").stdout;
    assert_eq!(count.load(Ordering::SeqCst), 1, "{shown}");
    assert!(resumed.wait().unwrap().success(), "{shown}");
}

/// Workers are changed one after the other while a run goes on, as for a new version: nothing begins again.
#[test]
fn workers_that_drain_beside_new_ones_repeat_nothing() {
    let Some(cluster) = Cluster::start("drain") else { return };
    let project = Project::new();
    project.write("workflow.yaml", list(40, 8, "0.3", "").as_bytes());
    let mut workers = ["old-1", "old-2"].map(|name| cluster.worker(project.path(), name, SLOTS));
    cluster.register();
    let witness = Witness(&project);
    let mut run = start_on(&cluster, &project, "workflow.yaml");
    for (worker, name) in workers.iter_mut().zip(["new-1", "new-2"]) {
        let seen = witness.lines();
        until("more items have begun", || witness.lines() > seen + 4);
        let new = cluster.worker(project.path(), name, SLOTS);
        let old = std::mem::replace(worker, new);
        old.send(Signal::TERM);
        assert_eq!(old.wait(), Some(0));
    }
    until("the run has ended", || run.try_wait().unwrap().is_some());
    let shown = project.run(&["show", "last", "--json"], b"").stdout;
    assert!(run.wait().unwrap().success(), "{shown}");
    let again = witness.counts().into_iter().filter(|(_, count)| *count > 1);
    assert_eq!(again.collect::<Vec<_>>(), [], "{shown}");
    for name in ["old-1", "new-1", "new-2"] {
        assert!(shown.contains(&format!(r#""worker":"{name}""#)), "{name}: {shown}");
    }
}
