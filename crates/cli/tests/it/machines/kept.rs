//! Runs whose journals are in a blob store: their coordinators die with their disks, two drive one run, workers drive them,
//! and somebody looks at them from another machine.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::process::{Pid, Signal, kill_process};

use super::cluster::{Cluster, Witness, Worker, until};
use super::{list, results, signal};
use crate::support::{self, Outcome, Project};

/// A project, a cluster of two workers for it, and a blob store.
struct Kept {
    project: Project,
    cluster: Cluster,
    workers: [Worker; 2],
    blobs: PathBuf,
}

impl Kept {
    fn start(name: &str, workflow: &str, slots: usize) -> Option<Self> {
        let cluster = Cluster::start(name)?;
        let project = Project::new();
        project.write("workflow.yaml", workflow.as_bytes());
        let blobs = cluster.folder("blobs");
        let url = format!("file://{}", blobs.display());
        let workers = ["one", "two"]
            .map(|worker| cluster.worker_with(project.path(), worker, slots, &["--blobs", &url]));
        cluster.register();
        Some(Self { project, cluster, workers, blobs })
    }

    fn url(&self) -> String {
        format!("file://{}", self.blobs.display())
    }

    /// The arguments that name the server, the blob store and the key.
    fn on(&self) -> Vec<String> {
        let words =
            ["--on", &self.cluster.address(), "--blobs", &self.url(), "--key-file", self.cluster.key()];
        words.map(str::to_owned).to_vec()
    }

    /// A command on another machine: in an empty folder, with a cache of its own.
    fn elsewhere(&self, cache: &Path, arguments: &[&str]) -> Outcome {
        let cache = cache.display().to_string();
        let on = self.on();
        let words: Vec<&str> = arguments.iter().copied().chain(on.iter().map(String::as_str)).collect();
        Project::new().run_with(&[("XDG_CACHE_HOME", &cache)], &words)
    }

    /// A process of Threadline in the folder of the project.
    fn begin(&self, arguments: &[&str]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_threadline"));
        command.args(arguments).args(self.on()).current_dir(self.project.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// The folder with the segments of the only run.
    fn log(&self) -> PathBuf {
        let mut runs = std::fs::read_dir(self.blobs.join("runs")).unwrap();
        runs.next().unwrap().unwrap().path().join("log")
    }

    /// Hands the workflow over, and returns the id of the run.
    fn detach(&self, cache: &Path) -> String {
        let on = self.on();
        let cache = cache.display().to_string();
        let mut words = vec!["run", "workflow.yaml", "--detach"];
        words.extend(on.iter().map(String::as_str));
        let handed = self.project.run_with(&[("XDG_CACHE_HOME", &cache)], &words);
        assert_eq!(handed.exit, 0, "{}", handed.stderr);
        handed.stdout.trim().to_owned()
    }

    /// Waits until a run has this status, as seen from another machine.
    fn wait_for(&self, cache: &Path, run: &str, status: &str) {
        until(&format!("run {run} is {status}"), || {
            let listed = self.elsewhere(cache, &["runs", "--json"]);
            assert_eq!(listed.exit, 0, "{}", listed.stderr);
            let is_so = format!(r#""status":"{status}""#);
            std::thread::sleep(std::time::Duration::from_millis(100));
            listed.stdout.contains(run) && listed.stdout.contains(&is_so)
        });
    }
}

/// A new folder for what one machine keeps.
fn cache(kept: &Kept) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    kept.cluster.folder(&format!("cache-{}", COUNT.fetch_add(1, Ordering::Relaxed)))
}

/// Kills the process that drives a run for a worker, which starts another one.
fn kill_coordinator(run: &str) {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    for process in processes {
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        let pid = process.file_name().to_string_lossy().parse().ok().and_then(Pid::from_raw);
        if words.contains(&&b"resume"[..]) && words.contains(&run.as_bytes()) {
            // It may have ended by now.
            let _ = kill_process(pid.unwrap(), Signal::KILL);
        }
    }
}

fn again(witness: &Witness<'_>) -> usize {
    witness.counts().values().map(|count| count - 1).sum()
}

#[test]
fn a_run_goes_on_when_the_disk_of_its_coordinator_is_lost() {
    let items = if support::is_long() { 200 } else { 40 };
    let workflow = list(items, 8, "0.2", "        on_crash: fail\n");
    let Some(kept) = Kept::start("disk", &workflow, 4) else { return };
    let witness = Witness(&kept.project);
    let mut run = kept.begin(&["run", "workflow.yaml", "--replicate"]);
    for _ in 0..2 {
        let seen = witness.lines();
        until("more items have begun", || witness.lines() > seen + 5 || witness.lines() >= items);
        signal(&run, Signal::KILL);
        run.wait().unwrap();
        std::fs::remove_dir_all(kept.project.path().join(".threadline")).unwrap();
        run = kept.begin(&["resume", "last"]);
    }
    let ended = run.wait_with_output().unwrap();
    println!("{items} items, the disk lost twice: {} begun, {} again", witness.lines(), again(&witness));
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!((again(&witness), results(&kept.project)), (0, items));
}

#[test]
fn called_runs_go_on_when_the_disk_is_lost() {
    let items = if support::is_long() { 60 } else { 16 };
    let numbers: Vec<String> = (0..items).map(|item| item.to_string()).collect();
    let workflow = format!(
        "steps:\n  - foreach: [{}]\n    parallel: 4\n    do:\n      - workflow: child.yaml\n        with: {{n: \"${{item}}\"}}\n",
        numbers.join(", ")
    );
    let Some(kept) = Kept::start("called", &workflow, 4) else { return };
    let child = "inputs: {n: {type: int}}\nsteps:\n  - shell: \"echo a${inputs.n} >> witness; sleep 0.1; echo one\"\n    on_crash: \
                 fail\n    capture: one\n  - shell: \"echo b${inputs.n} >> witness; sleep 0.1; echo done-${inputs.n}-${one}\"\n    \
                 on_crash: fail\n    capture: said\nexports: {said: \"${said}\"}\n";
    kept.project.write("child.yaml", child.as_bytes());
    let witness = Witness(&kept.project);
    let mut run = kept.begin(&["run", "workflow.yaml", "--replicate"]);
    for _ in 0..2 {
        let seen = witness.lines();
        until("more has begun", || witness.lines() > seen + 4 || witness.lines() >= 2 * items);
        signal(&run, Signal::KILL);
        run.wait().unwrap();
        std::fs::remove_dir_all(kept.project.path().join(".threadline")).unwrap();
        run = kept.begin(&["resume", "last"]);
    }
    let ended = run.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    println!(
        "{items} called runs, the disk lost twice: {} begun, {} again",
        witness.lines(),
        again(&witness)
    );
    assert_eq!((again(&witness), witness.lines()), (0, 2 * items));
    // Each called run is there, with what it left.
    let listed = kept.elsewhere(&cache(&kept), &["runs", "--all", "--json"]);
    assert_eq!(listed.stdout.matches(r#""status":"completed""#).count(), items + 1, "{}", listed.stdout);
}

#[test]
fn of_two_coordinators_of_one_run_one_goes_on() {
    let items = 24;
    let workflow = list(items, 6, "0.2", "        on_crash: fail\n");
    let Some(kept) = Kept::start("two", &workflow, 8) else { return };
    let witness = Witness(&kept.project);
    let first = kept.begin(&["run", "workflow.yaml", "--replicate"]);
    until("some items have begun", || witness.lines() > 6);
    // It sleeps, as on a machine that lost its network, and somebody takes its run for lost.
    signal(&first, Signal::STOP);
    let other = cache(&kept);
    let other = other.display().to_string();
    let second = kept.begin(&["resume", "last", "--journal", &other]);
    until("the other one has begun more items", || witness.lines() > 14);
    signal(&first, Signal::CONT);
    let first = first.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&first.stderr).into_owned();
    assert_eq!(first.status.code(), Some(4), "{said}");
    assert!(said.contains("error: another coordinator, `") && said.contains("drives run `"), "{said}");
    let second = second.wait_with_output().unwrap();
    assert!(second.status.success(), "{}", String::from_utf8_lossy(&second.stderr));
    println!("{items} items, two coordinators: {} begun, {} again", witness.lines(), again(&witness));
    assert_eq!((again(&witness), witness.counts().len()), (0, items));
    // The first one finds what the other one did.
    let resumed = kept.begin(&["resume", "last"]).wait_with_output().unwrap();
    assert!(resumed.status.success(), "{}", String::from_utf8_lossy(&resumed.stderr));
    assert_eq!((witness.lines(), results(&kept.project)), (items, items));
}

#[test]
fn a_detached_run_ends_right_though_its_workers_are_killed() {
    let items = if support::is_long() { 200 } else { 40 };
    let Some(kept) = Kept::start("detached", &list(items, 8, "0.2", ""), 4) else { return };
    let witness = Witness(&kept.project);
    let here = cache(&kept);
    let run = kept.detach(&here);
    let kills = if support::is_long() { 8 } else { 3 };
    for kill in 0..kills {
        let seen = witness.lines();
        until("more items have begun", || witness.lines() > seen + 4 || witness.counts().len() >= items);
        match kill % 3 {
            2 => kill_coordinator(&run),
            worker => kept.workers[worker].kill(),
        }
    }
    kept.wait_for(&here, &run, "completed");
    println!(
        "{items} items, {kills} kills of a worker: {} begun, {} again",
        witness.lines(),
        again(&witness)
    );
    assert_eq!(witness.counts().len(), items);
    assert!(again(&witness) <= kills * 4, "{} again after {kills} kills", again(&witness));
    // The same from a machine that knows nothing.
    let shown = kept.elsewhere(&cache(&kept), &["show", &run, "--json"]);
    assert_eq!(shown.exit, 0, "{}", shown.stderr);
    assert_eq!(shown.stdout.matches(r#""kind":"item_ended""#).count(), items);
}

#[test]
fn a_detached_run_is_stopped_and_goes_on() {
    let items = 60;
    let Some(kept) = Kept::start("stop", &list(items, 4, "0.4", ""), 4) else { return };
    let witness = Witness(&kept.project);
    let here = cache(&kept);
    let run = kept.detach(&here);
    until("some items have begun", || witness.lines() > 4);
    kept.project.write("locked.yaml", b"locks: [x]\nsteps:\n  - shell: echo hello\n");
    let on = kept.on();
    let words = ["run", "locked.yaml", "--detach"].into_iter().chain(on.iter().map(String::as_str));
    let locked = kept.project.run_with(&[], &words.collect::<Vec<_>>());
    assert!(locked.exit == 3 && locked.stderr.contains("locks hold on one machine"), "{}", locked.stderr);
    kept.wait_for(&here, &run, "running");
    let handed_again = kept.elsewhere(&here, &["resume", &run, "--detach"]);
    assert_eq!(handed_again.exit, 3, "{}", handed_again.stderr);
    assert!(handed_again.stderr.contains("workers drive run `"), "{}", handed_again.stderr);
    let stopped = kept.elsewhere(&here, &["stop", &run]);
    assert_eq!(stopped.exit, 0, "{}", stopped.stderr);
    assert!(stopped.stdout.starts_with("stopped: `threadline resume "), "{}", stopped.stdout);
    kept.wait_for(&here, &run, "paused");
    let begun = witness.lines();
    assert!(begun < items, "{begun}");
    let nobody = kept.elsewhere(&here, &["stop", &run]);
    assert!(nobody.exit == 3 && nobody.stderr.contains("no worker drives run"), "{}", nobody.stderr);
    let resumed = kept.elsewhere(&here, &["resume", &run, "--detach"]);
    assert_eq!((resumed.exit, resumed.stdout.trim()), (0, run.as_str()), "{}", resumed.stderr);
    kept.wait_for(&here, &run, "completed");
    assert_eq!((witness.lines(), witness.counts().len()), (items, items));
}

#[test]
fn a_run_waits_while_its_blob_store_is_away() {
    let items = 30;
    let Some(kept) = Kept::start("away", &list(items, 4, "0.2", ""), 4) else { return };
    let witness = Witness(&kept.project);
    let mut run = kept.begin(&["run", "workflow.yaml", "--replicate"]);
    until("some items have begun", || witness.lines() > 8);
    let away = kept.blobs.with_extension("away");
    std::fs::write(&away, "no folder").unwrap();
    let swap = || renameat_with(CWD, &kept.blobs, CWD, &away, RenameFlags::EXCHANGE).unwrap();
    swap();
    // What runs then ends, and nothing follows.
    let mut said = BufReader::new(run.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("the run waits, because its journal cannot be kept: ") {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "it says that it waits");
    }
    let begun = witness.lines();
    assert!(begun < items, "{begun}");
    swap();
    until("it goes on", || witness.lines() > begun);
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert!(run.wait().unwrap().success(), "{rest}");
    assert!(rest.contains("the journal can be kept again: the run goes on"), "{rest}");
    assert_eq!((again(&witness), results(&kept.project)), (0, items));
}

#[test]
fn a_run_is_shown_on_any_machine_and_refused_where_it_does_not_fit() {
    let large = "head -c 3000000 /dev/zero | tr '\\\\0' x";
    let workflow = format!(
        "name: kept\nsteps:\n  - id: hello\n    shell: echo hello; echo aside >&2\n  - shell: \"{large}\"\n    capture: \
         large\n  - shell: \"echo ${{len(large)}} ${{hello.result}}\"\n"
    );
    let Some(kept) = Kept::start("shown", &workflow, 4) else { return };
    let ended = kept.begin(&["run", "workflow.yaml", "--replicate"]).wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let other = cache(&kept);
    for command in [
        vec!["show", "last"],
        vec!["show", "last", "--json"],
        vec!["logs", "last"],
        vec!["explain", "last", "3"],
        vec!["vars", "last"],
        vec!["vars", "last", "large"],
    ] {
        let here = kept.project.run(&command, b"");
        let there = kept.elsewhere(&other, &command);
        assert_eq!(here.exit, 0, "{}", here.stderr);
        assert_eq!((there.exit, there.stdout), (0, here.stdout), "{command:?}: {}", there.stderr);
    }
    let listed = kept.elsewhere(&other, &["runs"]).stdout;
    assert!(listed.contains("completed") && listed.contains("kept"), "{listed}");
    let missing = kept.elsewhere(&other, &["show", "nobody"]);
    assert_eq!((missing.exit, missing.stderr.lines().next()), (3, Some("error: no run `nobody`")));

    let log = kept.log();
    let segment = |number: u32| log.join(format!("{number:020}"));
    let refused = |what: &str| {
        let shown = kept.elsewhere(&cache(&kept), &["show", "last"]);
        assert_eq!(shown.exit, 3, "{}", shown.stdout);
        assert!(shown.stderr.contains(what), "{}", shown.stderr);
    };
    let third = std::fs::read(segment(3)).unwrap();
    std::fs::remove_file(segment(3)).unwrap();
    refused("cannot be read from the blob store: segment 3 is missing, and 4 is there");
    let mut altered = third.clone();
    altered[100] ^= 1;
    std::fs::write(segment(3), &altered).unwrap();
    refused("/log/00000000000000000003` is not signed with this key");
    // Somebody puts it there once more, with the name of another.
    std::fs::write(segment(3), &third).unwrap();
    let second = std::fs::read(segment(2)).unwrap();
    std::fs::write(segment(2), &third).unwrap();
    refused("/log/00000000000000000002` is not signed with this key");
    std::fs::write(segment(2), &second).unwrap();
    std::fs::write(log.join("3"), &third).unwrap();
    refused("/log/3` is no segment");
    std::fs::remove_file(log.join("3")).unwrap();
    assert_eq!(kept.elsewhere(&cache(&kept), &["show", "last"]).exit, 0);

    kept.project.write("other-key", b"another key, of somebody else");
    let key = kept.project.path().join("other-key");
    let words = ["show", "last", "--blobs", &kept.url(), "--key-file", key.to_str().unwrap()];
    let empty = cache(&kept).display().to_string();
    let wrong = kept.project.run_with(&[("XDG_CACHE_HOME", &empty)], &words);
    assert!(wrong.exit == 3 && wrong.stderr.contains("is not signed with this key"), "{}", wrong.stderr);
}
