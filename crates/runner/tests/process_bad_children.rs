//! Children that do their worst × the ways in which they end. Afterwards nothing of them lives, and no call hangs.
//!
//! A new child is a new row of `CHILDREN`. Each opens a FIFO first, which all that it starts inherits; as long as one
//! of them lives the other end of it is open. That is how this test sees survivors, and the code under test does not
//! know it. This binary is its own runner process where a runner has to be killed or signalled.
//!
//! Without the usual test harness, because cases share a watchdog: a case that hangs is named, and all is ended.
//! An argument is a filter: `cargo test -p threadline-runner --test process_bad_children -- 'new session'`.
#![expect(clippy::unwrap_used, reason = "the lint does not see that a test without a harness is a test")]
#![expect(clippy::print_stdout, reason = "this is where a test without a harness reports")]

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use threadline_runner::process::{
    ChildEnding, Control, EndedChild, Environment, Spec, Stdin, end_descendants, end_left_over, end_strays,
    find_left_over, prepare, run,
};
use threadline_runner::signals::{Listener, SignalState};

/// A child that misbehaves.
struct Child {
    name: &'static str,
    /// For bash, after `PRELUDE`.
    script: &'static str,
    stdin: usize,
    /// How it ends when it is left alone; `None` if it never does.
    alone: Option<ChildEnding>,
    /// What cannot be promised of it.
    except: Except,
}

#[derive(PartialEq, Eq)]
enum Except {
    Nothing,
    /// It ends by itself whatever we do, so it may be faster than we are.
    EndsEarly,
    /// What it does depends on whether the test has a terminal, so it is run where it surely has one.
    WantsTerminal,
}
use Except::{EndsEarly, Nothing, WantsTerminal};

/// `finish` says that all is set up, then ends or stays, as the case asks.
const PRELUDE: &str = r#"
    exec 9>"$WITNESS"
    stay() { while :; do sleep 1000; done; }
    finish() { echo ready; [ "$ENDING" = alone ] && exit 0; stay; }
"#;

const OK: Option<ChildEnding> = Some(ChildEnding::Exited(0));

/// How long between a request and force. Some children make every case wait that long.
const GRACE: Duration = Duration::from_millis(300);

#[rustfmt::skip]
const CHILDREN: &[Child] = &[
    child("waits", "finish", OK),
    Child { except: EndsEarly, ..child("exits at once", "exit 3", Some(ChildEnding::Exited(3))) },
    Child { except: EndsEarly, ..child("dies by a signal", "echo ready; kill -SEGV $$", Some(ChildEnding::Signalled(11))) },
    child("holds the pipe", "sleep 1000 & finish", OK),
    child("leaves a silent process", "sleep 1000 <&- >&- 2>&- & finish", OK),
    child("ignores the request", "trap '' TERM HUP INT; finish", OK),
    child("leaves one that ignores the request", "(trap '' TERM HUP; stay) & finish", OK),
    child("leaves one under nohup", "nohup sleep 1000 & finish", OK),
    child("new session", "setsid sleep 1000 & finish", OK),
    child("new session, silent", "setsid sleep 1000 >/dev/null 2>&1 & finish", OK),
    child("new session that ignores the request", "setsid bash -c \"trap '' TERM; sleep 1000; sleep 1000\" & finish", OK),
    child("new session in a new session", r#"setsid -f bash -c 'setsid -f bash -c "setsid -f sleep 1000"; sleep 1000'; finish"#, OK),
    child("double fork", "(setsid bash -c 'sleep 1000 & exit' &); finish", OK),
    child("daemon that closes everything", "setsid bash -c 'cd /; exec 0<&- 1>&- 2>&- 9>&-; sleep 1000' & finish", OK),
    child("group of its own", "set -m; sleep 1000 & set +m; finish", OK),
    child("starts another one when asked to end", "trap 'setsid sleep 1000 & exit 0' TERM; echo ready; [ \"$ENDING\" = alone ] && exit 0; while :; do sleep 0.05; done", OK),
    child("starts again whatever ends", "setsid bash -c 'while :; do sleep 1000; done' & finish", OK),
    child("leaves a stopped process", "sleep 1000 & kill -STOP $!; finish", OK),
    child("stops itself", "echo ready; kill -STOP $$; finish", None),
    child("stops itself and ignores the request", "trap '' TERM; echo ready; kill -STOP $$; finish", None),
    child("closes its output", "echo ready; exec 1>&- 2>&-; finish 2>/dev/null", OK),
    child("fills both pipes at once", "head -c 3000000 /dev/zero & head -c 3000000 /dev/zero >&2; wait; finish", OK),
    child("writes for ever", "echo ready; exec yes", None),
    child("writes for ever in the background", "yes & finish", OK),
    child("forks a lot", "for i in {1..100}; do sleep 1000 & done; finish", OK),
    child("keeps dead children", "for i in {1..20}; do true & done; echo ready; exec sleep 1000", None),
    child("changes its name", "echo ready; exec -a '1 (z) Z 1 1' sleep 1000", None),
    Child { except: WantsTerminal, ..child("asks for a password", "echo ready; sleep 1000 & read -r line </dev/tty; finish", None) },
    Child { except: WantsTerminal, ..child("sets up the terminal", "echo ready; trap '' TERM; stty raw </dev/tty; finish", None) },
    Child { stdin: 10 << 20, ..child("never reads its input", "finish", OK) },
    Child { stdin: 10 << 20, ..child("reads some of its input", "head -c 100000 >/dev/null; exec 0<&-; finish", OK) },
    Child { stdin: 1 << 20, ..child("gives its input to another", "cat >/dev/null & finish", OK) },
    child("no environment", "env -i /usr/bin/setsid sleep 1000 & finish", OK),
    child("no environment, double fork", "(env -i /usr/bin/setsid sh -c 'sleep 1000 & sleep 1000' &); finish", OK),
    child("no environment of its own", "echo ready; exec env -i sleep 1000", None),
    child("no environment, and a new session", "echo ready; exec env -i setsid -w sleep 1000", None),
];

const fn child(name: &'static str, script: &'static str, alone: Option<ChildEnding>) -> Child {
    Child { name, script, stdin: 0, alone, except: Nothing }
}

/// What ends a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// It does so itself.
    Alone,
    Timeout,
    Cancel,
    Kill,
    CancelThenKill,
    /// Nothing of ours, on a terminal: only for a child that wants to read from it.
    Terminal,
    /// Two interrupts to the runner process.
    SecondSignal,
    /// SIGKILL to the runner process; afterwards another one cleans up.
    RunnerKilled,
}

const ENDINGS: [Ending; 8] = [
    Ending::Alone,
    Ending::Timeout,
    Ending::Cancel,
    Ending::Kill,
    Ending::CancelThenKill,
    Ending::Terminal,
    Ending::SecondSignal,
    Ending::RunnerKilled,
];

/// One child, one ending.
#[derive(Clone, Copy)]
struct Case {
    child: &'static Child,
    ending: Ending,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} / {:?}", self.child.name, self.ending)
    }
}

fn cases() -> impl Iterator<Item = Case> {
    let all = CHILDREN.iter().flat_map(|child| ENDINGS.map(|ending| Case { child, ending }));
    all.filter(|case| match (case.ending, &case.child.except) {
        (Ending::Terminal, except) => *except == WantsTerminal,
        (ending, WantsTerminal) => ending == Ending::RunnerKilled,
        (Ending::Alone, _) => case.child.alone.is_some(),
        _ => true,
    })
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, name, folder] = arguments.as_slice()
        && mode == RUNNER_MODE
    {
        return runner_process(name, Path::new(folder));
    }
    if arguments.iter().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    prepare(&format!("bad-{}", std::process::id()));
    let filter = arguments.into_iter().find(|argument| !argument.starts_with('-')).unwrap_or_default();
    let chosen: Vec<Case> = cases().filter(|case| case.to_string().contains(&filter)).collect();
    all_of(&chosen)
}

/// How many cases run at a time: most of them wait.
const AT_A_TIME: usize = 4;

/// No case needs a hundredth of this; it is there so that a hang becomes a failure.
const WATCHDOG: Duration = Duration::from_mins(10);

enum Report {
    Began(usize),
    EndedChild(usize, Result<(), String>),
}

fn all_of(chosen: &[Case]) -> ExitCode {
    let next = AtomicUsize::new(0);
    let (sender, reports) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            let sender = sender.clone();
            let next = &next;
            scope.spawn(move || {
                while let Some(index) =
                    Some(next.fetch_add(1, Ordering::SeqCst)).filter(|index| *index < chosen.len())
                {
                    let _ = sender.send(Report::Began(index));
                    let result = std::panic::catch_unwind(|| check(chosen[index], index));
                    let result = result.unwrap_or_else(|_| Err("panicked".into()));
                    let _ = sender.send(Report::EndedChild(index, result));
                }
            });
        }
        drop(sender);
        collect(chosen, &reports)
    })
}

/// The children of this process, dead ones that nobody waited for included.
fn own_children() -> Vec<String> {
    let threads = fs::read_dir("/proc/self/task").unwrap();
    let lists =
        threads.map(|thread| fs::read_to_string(thread.unwrap().path().join("children")).unwrap_or_default());
    lists.flat_map(|list| list.split_whitespace().map(String::from).collect::<Vec<_>>()).collect()
}

fn collect(chosen: &[Case], reports: &mpsc::Receiver<Report>) -> ExitCode {
    let mut open = BTreeSet::new();
    let mut failed = 0;
    loop {
        match reports.recv_timeout(WATCHDOG) {
            Ok(Report::Began(index)) => {
                open.insert(index);
            }
            Ok(Report::EndedChild(index, result)) => {
                open.remove(&index);
                if let Err(problem) = result {
                    failed += 1;
                    println!("FAILED {}: {problem}", chosen[index]);
                }
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                for index in open {
                    println!("HANGS {}", chosen[index]);
                    end_left_over(&run_id(index), Duration::ZERO);
                }
                std::process::exit(1);
            }
        }
    }
    // Looking for strays waits for the adopted ones that have ended.
    end_strays(Duration::ZERO);
    let children = own_children();
    if !children.is_empty() {
        failed += 1;
        println!("FAILED: these children were not waited for: {children:?}");
    }
    for ending in ENDINGS {
        let count = chosen.iter().filter(|case| case.ending == ending).count();
        println!("{count:4} children ended: {ending:?}");
        // A filter chooses some; all of them have every ending.
        if count == 0 && chosen.len() == cases().count() {
            failed += 1;
            println!("FAILED: nothing was tried");
        }
    }
    println!("{} cases, {failed} failed", chosen.len());
    if chosen.is_empty() {
        return ExitCode::FAILURE;
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run_id(index: usize) -> String {
    format!("bad-{}-{index}", std::process::id())
}

/// A folder of its own, with the FIFO in it.
struct Place {
    folder: PathBuf,
    witness: File,
}

impl Place {
    fn new(run: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("threadline-{run}"));
        fs::create_dir_all(&folder).unwrap();
        let fifo = folder.join("witness");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
        let witness = OpenOptions::new().read(true).custom_flags(nonblocking).open(&fifo).unwrap();
        Self { folder, witness }
    }

    /// Whether any process still has the FIFO open.
    fn is_alive(&mut self) -> bool {
        match self.witness.read(&mut [0; 16]) {
            Ok(0) => false,
            Ok(_) => panic!("nobody writes to the witness"),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => true,
            Err(error) => panic!("{error}"),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn check(case: Case, index: usize) -> Result<(), String> {
    let run = run_id(index);
    let mut place = Place::new(&run);
    match case.ending {
        Ending::SecondSignal | Ending::RunnerKilled => check_runner_process(case, &run, &place)?,
        Ending::Terminal => check_on_terminal(case, &place)?,
        _ => check_here(case, &run, &place)?,
    }
    if place.is_alive() {
        return Err("a descendant lives".into());
    }
    match find_left_over(&run).as_slice() {
        [] => Ok(()),
        left => Err(format!("left over: {left:?}")),
    }
}

fn check_here(case: Case, run: &str, place: &Place) -> Result<(), String> {
    let ended = run_child(case, run, &place.folder, &Control::new(), || {});
    if !ended.survivors.is_empty() {
        return Err(format!("survivors: {:?}", ended.survivors));
    }
    let expected = match case.ending {
        Ending::Alone => None,
        Ending::Timeout => Some(ChildEnding::TimedOut),
        _ => Some(ChildEnding::Cancelled),
    };
    let natural = case.child.alone.filter(|_| case.child.except == EndsEarly || expected.is_none());
    if Some(ended.how) != expected && Some(ended.how) != natural {
        return Err(format!("ended {:?}", ended.how));
    }
    Ok(())
}

/// Runs the child and has another thread end it as soon as it is set up.
fn run_child(case: Case, run_id: &str, folder: &Path, control: &Control, on_ready: impl Fn()) -> EndedChild {
    let spec = spec(case, run_id, folder);
    let (ready, is_ready) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // Without a message the child has ended already.
            if is_ready.recv().is_ok() {
                match case.ending {
                    Ending::Cancel => control.cancel(),
                    Ending::Kill => control.kill(),
                    Ending::CancelThenKill => {
                        control.cancel();
                        control.kill();
                    }
                    _ => {}
                }
            }
        });
        let mut first = true;
        let ended = run(&spec, control, &mut |_, piece| {
            if first && piece.windows(5).any(|word| word == b"ready") {
                first = false;
                on_ready();
                ready.send(()).unwrap();
            }
        });
        drop(ready);
        ended.unwrap()
    })
}

fn spec(case: Case, run: &str, folder: &Path) -> Spec {
    let mut env = Environment::inherited();
    env.set("WITNESS", folder.join("witness"));
    env.set("ENDING", if case.ending == Ending::Alone { "alone" } else { "other" });
    env.mark(run, case.child.name);
    Spec {
        program: "bash".into(),
        args: vec!["-c".into(), format!("{PRELUDE}\n{}", case.child.script).into()],
        env,
        cwd: folder.into(),
        stdin: match case.child.stdin {
            0 => Stdin::Null,
            size => Stdin::Bytes(Arc::from(vec![b'x'; size])),
        },
        timeout: (case.ending == Ending::Timeout).then_some(Duration::from_millis(200)),
        idle_timeout: None,
        max_output: 64 << 30,
        grace: GRACE,
        spool: folder.into(),
        masks: None,
    }
}

/// The argument that makes this binary a runner.
const RUNNER_MODE: &str = "--as-runner";

/// The runner that will be killed or signalled. It says on standard output how far it is.
fn runner_process(name: &str, folder: &Path) -> ExitCode {
    let Some(case) = cases().find(|case| case.to_string() == name) else { return ExitCode::FAILURE };
    let run = folder.file_name().and_then(|name| name.to_str()).unwrap().trim_start_matches("threadline-");
    prepare(run);
    let control = Control::new();
    let listener = Listener::start(control.clone(), |state| say(&format!("{state:?}"))).unwrap();
    let ended = run_child(case, run, folder, &control, || say("ready"));
    if listener.state() == SignalState::Killing {
        end_descendants(run, GRACE);
    }
    say(&format!("{:?}", ended.how));
    ExitCode::SUCCESS
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).unwrap();
}

fn check_runner_process(case: Case, run: &str, place: &Place) -> Result<(), String> {
    let mut runner = Command::new(std::env::current_exe().unwrap())
        .args([RUNNER_MODE, &case.to_string()])
        .arg(&place.folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(runner.stdout.take().unwrap()).lines().map(Result::unwrap);
    let pid = Pid::from_child(&runner);
    let first = lines.next().unwrap_or_default();
    let outcome = if first != "ready" && case.child.except != EndsEarly {
        Err(format!("said `{first}` first"))
    } else if case.ending == Ending::RunnerKilled {
        kill_process(pid, Signal::KILL).map_err(|error| error.to_string())
    } else if first == "ready" {
        signal_twice(pid, &mut lines)
    } else {
        Ok(())
    };
    if outcome.is_err() {
        let _ = runner.kill();
    }
    runner.wait().unwrap();
    if case.ending == Ending::RunnerKilled || outcome.is_err() {
        let ending = end_left_over(run, GRACE);
        if !ending.survivors.is_empty() {
            return Err(format!("survivors: {:?}", ending.survivors));
        }
    }
    outcome
}

/// The runner process with a terminal of its own.
fn check_on_terminal(case: Case, place: &Place) -> Result<(), String> {
    let runner = std::env::current_exe().unwrap();
    let command = format!("'{}' {RUNNER_MODE} '{case}' '{}'", runner.display(), place.folder.display());
    let output = Command::new("script").args(["-q", "-e", "-c", &command, "/dev/null"]).output().unwrap();
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.lines().last() {
        Some("NeedsTerminal") => Ok(()),
        _ => Err(format!("said {output:?}")),
    }
}

/// The second signal is sent when the first has been seen, as a person would.
fn signal_twice(runner: Pid, lines: &mut impl Iterator<Item = String>) -> Result<(), String> {
    for expected in ["Stopping", "Killing"] {
        if kill_process(runner, Signal::INT).is_err() {
            return Ok(());
        }
        match lines.next() {
            Some(line) if line == expected => {}
            // It ended by itself before that.
            Some(line) if line.starts_with("Exited") || line.starts_with("Signalled") => return Ok(()),
            line => return Err(format!("said {line:?} instead of `{expected}`")),
        }
    }
    match lines.last().as_deref() {
        Some("Cancelled") => Ok(()),
        Some(line) if line.starts_with("Signalled") => Ok(()),
        line => Err(format!("ended with {line:?}")),
    }
}
