//! Whole runs of the binary beside `xargs` and GNU parallel: what a step costs, what the journal costs, how long it takes
//! to start, and whether a million items take more memory than a thousand; loops beside a bare `while`.
//!
//! ```text
//! cargo run --release --manifest-path bench/Cargo.toml --bin runs -- --rounds 5
//! ```
//!
//! It builds the release binary first, unless `--binary` names one. `--readers` measures only the commands that read
//! runs, `--agents` only agents behind a server that answers at once, `--scenarios` only scenarios; with
//! `--promptfoo PATH`, the folder of an installed promptfoo, the same cases beside it. Contestants take turns, round by round; the median counts, and ratios carry over
//! from one machine to another while milliseconds do not. The exit code says whether every run did its work, never
//! whether a target was reached.

#[path = "runs/model_server.rs"]
mod model_server;
#[path = "runs/readers.rs"]
mod readers;
#[path = "runs/scenarios.rs"]
mod scenarios;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value as Json;

const STEPS: usize = 1_000;
const STEADY: [usize; 4] = [100, 1_000, 10_000, 100_000];
const ITEMS: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];
/// So many processes are started at most: more would only take longer.
const PROCESSES: usize = 20_000;

fn main() -> ExitCode {
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<(), String> {
    let mut rounds = 5;
    let mut largest = 100_000;
    let (mut only_loops, mut only_readers, mut only_agents) = (false, false, false);
    let mut only_scenarios = false;
    let (mut other, mut binary, mut promptfoo) = (None, None, None);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        if arg == "--against" {
            other = Some(args.next().ok_or("`--against` takes the path of another binary")?);
            continue;
        }
        if arg == "--binary" {
            binary = Some(args.next().ok_or("`--binary` takes the path of a binary")?);
            continue;
        }
        if arg == "--promptfoo" {
            promptfoo = Some(args.next().ok_or("`--promptfoo` takes the folder that it is installed in")?);
            continue;
        }
        if arg == "--scenarios" {
            only_scenarios = true;
            continue;
        }
        if arg == "--loops" {
            only_loops = true;
            continue;
        }
        if arg == "--readers" {
            only_readers = true;
            continue;
        }
        if arg == "--agents" {
            only_agents = true;
            continue;
        }
        let number = args.next().and_then(|number| number.parse().ok());
        match (arg.as_str(), number) {
            ("--rounds", Some(number)) => rounds = number,
            ("--largest", Some(number)) => largest = number,
            _ => {
                return Err(
                    "usage: runs [--loops | --readers | --agents | --scenarios [--promptfoo FOLDER]] [--binary BINARY] \
                     [--against BINARY] [--rounds N] [--largest STEPS]; a million items with `--largest 1000000`"
                        .to_owned(),
                );
            }
        }
    }
    let bench = Bench::new(binary.as_deref())?;
    if let Some(other) = other {
        bench.against(Path::new(&other), rounds)?;
        return bench.readers(Some(Path::new(&other)), rounds, largest);
    }
    if only_readers {
        return bench.readers(None, rounds, largest);
    }
    if only_agents {
        return bench.agents(rounds);
    }
    let promptfoo = promptfoo.as_deref().map(Path::new);
    if only_scenarios {
        return bench.scenarios(rounds, promptfoo);
    }
    if !only_loops {
        bench.checks(rounds)?;
        bench.against_xargs(rounds)?;
        bench.interpolation(rounds)?;
        bench.start_up(rounds.max(3) * 4)?;
        bench.steady(largest)?;
        bench.maps(largest)?;
        bench.readers(None, rounds, largest)?;
        bench.agents(rounds)?;
        bench.scenarios(rounds, promptfoo)?;
    }
    bench.against_while(rounds)?;
    bench.transitions(largest)?;
    bench.instructions()
}

/// The binary, and a folder to work in.
struct Bench {
    binary: PathBuf,
    folder: PathBuf,
}

/// Builds the release binary.
fn build() -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let built = Command::new("cargo")
        .args(["build", "--release", "-q", "-p", "threadline"])
        .current_dir(&root)
        .env_remove("CARGO_TARGET_DIR")
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    if !built.success() {
        return Err("the binary does not build".to_owned());
    }
    Ok(root.join("target/release/threadline"))
}

/// One timed call.
struct Timed {
    elapsed: Duration,
    stats: Option<Json>,
}

impl Timed {
    /// The most memory it took, in MiB.
    fn peak(&self) -> f64 {
        let kib = self.stats.as_ref().and_then(|stats| stats["peak_memory_kib"].as_f64());
        kib.unwrap_or(f64::NAN) / 1024.0
    }
}

impl Bench {
    fn new(binary: Option<&str>) -> Result<Self, String> {
        let binary = match binary {
            Some(path) => std::path::absolute(path).map_err(|error| format!("{path}: {error}"))?,
            None => build()?,
        };
        let folder = std::env::temp_dir().join(format!("threadline-runs-{}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        Ok(Self { binary, folder })
    }

    fn write(&self, name: &str, text: &str) -> Result<(), String> {
        std::fs::write(self.folder.join(name), text).map_err(|error| format!("{name}: {error}"))
    }

    /// Runs a workflow in a new store; it must end well.
    fn run(&self, file: &str) -> Result<Timed, String> {
        self.call(&self.binary, &["run", "--stats", file])
    }

    /// Calls a binary in a folder with an empty store; it must end well.
    fn call(&self, binary: &Path, args: &[&str]) -> Result<Timed, String> {
        let store = self.folder.join(".threadline");
        if store.exists() {
            std::fs::remove_dir_all(&store).map_err(|error| error.to_string())?;
        }
        std::fs::create_dir(&store).map_err(|error| error.to_string())?;
        self.call_there(binary, args)
    }

    /// Calls a binary in the folder as it is; it must end well.
    fn call_there(&self, binary: &Path, args: &[&str]) -> Result<Timed, String> {
        Self::call_in(&self.folder, binary, args)
    }

    fn call_in(folder: &Path, binary: &Path, args: &[&str]) -> Result<Timed, String> {
        let clock = Instant::now();
        let output = Command::new(binary)
            .args(args)
            .current_dir(folder)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .output()
            .map_err(|error| error.to_string())?;
        let elapsed = clock.elapsed();
        let stderr = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            return Err(format!("{} {} failed: {stderr}", binary.display(), args.join(" ")));
        }
        let stats = stderr.lines().rev().find_map(|line| serde_json::from_str(line).ok());
        Ok(Timed { elapsed, stats })
    }

    fn shell(&self, text: &str) -> Result<Timed, String> {
        let clock = Instant::now();
        let status = Command::new("sh").args(["-c", text]).current_dir(&self.folder).status();
        let elapsed = clock.elapsed();
        match status {
            Ok(status) if status.success() => Ok(Timed { elapsed, stats: None }),
            Ok(status) => Err(format!("`{text}`: {status}")),
            Err(error) => Err(format!("`{text}`: {error}")),
        }
    }

    /// An agent that answers at once, beside the same work without an agent: what asking costs. Then the same answers
    /// from a record, and one long answer.
    fn agents(&self, rounds: usize) -> Result<(), String> {
        let url = model_server::start()?;
        let agents = format!(
            "agents:\n  api: {{provider: openai, base_url: '{url}/v1', model: m}}\n  cat: {{command: [cat]}}\n"
        );
        let map = |step: &str| {
            format!(
                "{agents}map:\n  input: {{shell: seq 1 {STEPS}}}\n  max_parallel: 2\n  steps: [{{{step}}}]\n"
            )
        };
        self.write("api.yaml", &map("agent: api, message: 'Item ${item}', on_crash: rerun"))?;
        self.write(
            "http.yaml",
            &map(&format!("http: {{method: POST, url: '{url}/x', body: {{m: '${{item}}'}}}}")),
        )?;
        self.write("cat.yaml", &map("agent: cat, message: 'Item ${item}'"))?;
        self.write("argv.yaml", &map("argv: [echo, '${item}']"))?;
        self.write(
            "long.yaml",
            &format!("{agents}steps: [{{agent: api, message: Write a long text, max_output: 64MB}}]\n"),
        )?;
        let names =
            ["agent behind an API", "http step", "agent that is a program", "argv step", "replayed agent"];
        let mut times: [Vec<Duration>; 5] = Default::default();
        let mut peaks = [0.0_f64; 5];
        for _ in 0..rounds {
            let record = self.folder.join("record");
            if record.exists() {
                std::fs::remove_dir_all(&record).map_err(|error| error.to_string())?;
            }
            self.call(&self.binary, &["run", "api.yaml", "--record", "record"])?;
            let calls: [&[&str]; 5] = [
                &["run", "--stats", "api.yaml"],
                &["run", "--stats", "http.yaml"],
                &["run", "--stats", "cat.yaml"],
                &["run", "--stats", "argv.yaml"],
                &["run", "--stats", "api.yaml", "--replay", "record"],
            ];
            for (at, call) in calls.into_iter().enumerate() {
                let timed = self.call(&self.binary, call)?;
                times[at].push(timed.elapsed);
                peaks[at] = peaks[at].max(timed.peak());
            }
        }
        let times = times.map(median);
        println!("\n{STEPS} items, two at a time, {rounds} rounds");
        for ((name, time), peak) in names.iter().zip(&times).zip(peaks) {
            println!("{name:<26} {:8.2} ms each {peak:8.1} MiB at most", per(*time, STEPS));
        }
        let ratio = |a: usize, b: usize| times[a].as_secs_f64() / times[b].as_secs_f64();
        println!("an agent behind an API beside a request  {:.2}", ratio(0, 1));
        println!("an agent that is a program beside argv   {:.2}", ratio(2, 3));
        println!("replayed beside asked                    {:.2}", ratio(4, 0));
        let timed = self.run("long.yaml")?;
        let size = model_server::LONG >> 20;
        println!(
            "an answer of {size} MiB in pieces of 40 bytes: {:.2?}, {:.1} MiB at most",
            timed.elapsed,
            timed.peak()
        );
        Ok(())
    }

    /// 1,000 times `true`, two at a time, every finished step on disk before its result is used.
    fn against_xargs(&self, rounds: usize) -> Result<(), String> {
        self.write("argv.yaml", &items(STEPS, "argv: [\"true\"]"))?;
        self.write("shell.yaml", &items(STEPS, "shell: \"true\""))?;
        let pairs = [
            ("argv", "argv.yaml", format!("seq {STEPS} | xargs -P2 -n1 true")),
            ("shell", "shell.yaml", format!("seq {STEPS} | xargs -P2 -n1 bash -c true")),
            ("argv in a map", "map.yaml", format!("seq {STEPS} | xargs -P2 -n1 true")),
        ];
        self.write("map.yaml", &map(STEPS, "argv: [\"true\"]"))?;
        println!("{STEPS} x `true`, two at a time         ms a step   xargs   ratio (at most 1.0)");
        for (name, file, command) in pairs {
            let (mut ours, mut theirs, mut stats) = (Vec::new(), Vec::new(), None);
            for round in 0..rounds {
                if round % 2 == 0 {
                    theirs.push(self.shell(&command)?.elapsed);
                }
                let timed = self.run(file)?;
                ours.push(timed.elapsed);
                stats = timed.stats.or(stats);
                if round % 2 == 1 {
                    theirs.push(self.shell(&command)?.elapsed);
                }
            }
            let (ours, theirs) = (median(ours), median(theirs));
            let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
            println!("  {name:<36} {:>9.3} {:>7.3} {ratio:>7.2}", per(ours, STEPS), per(theirs, STEPS));
            if let Some(stats) = stats {
                let of = |key: &str| stats[key].as_f64().unwrap_or(f64::NAN);
                println!(
                    "    journal: {:.0} bytes, {:.2} events, {:.2} syncs a step; processor: own {:.0} ms, children {:.0} ms, {:.0} %",
                    of("bytes") / STEPS as f64,
                    of("events") / STEPS as f64,
                    (of("commits") + 2.0 * of("checkpoints")) / STEPS as f64,
                    of("own_cpu_ms"),
                    of("children_cpu_ms"),
                    100.0 * of("own_cpu_ms") / of("children_cpu_ms"),
                );
            }
        }
        let parallel = format!("seq {STEPS} | parallel -j2 -n1 true");
        let known = self.shell("command -v parallel >/dev/null && parallel --version | grep -q GNU");
        match known.and_then(|_| self.shell(&parallel)) {
            Ok(timed) => println!("  GNU parallel {:>33.3}", per(timed.elapsed, STEPS)),
            Err(_) => println!("  GNU parallel is not installed"),
        }
        Ok(())
    }

    /// What an item of a map costs, and how much memory all of them take, when there are many.
    fn maps(&self, largest: usize) -> Result<(), String> {
        println!("items of a map    µs each, a value   peak MiB   µs each, `true`   peak MiB");
        for count in ITEMS.into_iter().filter(|count| *count <= largest) {
            self.write("map.yaml", &map(count, "value: \"${= int(item) * 2 }\""))?;
            let values = self.run("map.yaml")?;
            let micros = |time| 1e3 * per(time, count);
            let (time, memory) = (micros(values.elapsed), values.peak());
            if count > PROCESSES {
                println!("  {count:>12} {time:>18.1} {memory:>10.1}");
                continue;
            }
            self.write("map.yaml", &map(count, "argv: [\"true\"]"))?;
            let processes = self.run("map.yaml")?;
            let (own, peak) = (micros(processes.elapsed), processes.peak());
            println!("  {count:>12} {time:>18.1} {memory:>10.1} {own:>17.1} {peak:>10.1}");
        }
        Ok(())
    }

    /// 1,000 iterations of a loop with `true` beside those of a bare `while` in bash, each verdict on disk before the
    /// next state begins.
    fn against_while(&self, rounds: usize) -> Result<(), String> {
        let pairs = [("argv", "argv: [\"true\"]", "/bin/true"), ("shell", "shell: \"true\"", "bash -c true")];
        println!("{STEPS} transitions with `true`           ms each   while   ratio");
        for (name, action, command) in pairs {
            self.write("loop.yaml", &repeat(STEPS, &format!("{action}, ")))?;
            let bare = format!("bash -c 'i=0; while [ $i -lt {STEPS} ]; do {command}; i=$((i+1)); done'");
            let (mut ours, mut theirs, mut stats) = (Vec::new(), Vec::new(), None);
            for _ in 0..rounds {
                theirs.push(self.shell(&bare)?.elapsed);
                let timed = self.run("loop.yaml")?;
                ours.push(timed.elapsed);
                stats = timed.stats.or(stats);
            }
            let (ours, theirs) = (median(ours), median(theirs));
            let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
            println!("  {name:<36} {:>9.3} {:>7.3} {ratio:>7.2}", per(ours, STEPS), per(theirs, STEPS));
            if let Some(stats) = stats {
                let of = |key: &str| stats[key].as_f64().unwrap_or(f64::NAN);
                println!(
                    "    journal: {:.0} bytes, {:.2} events, {:.2} commits a transition; own processor time {:.0} µs each",
                    of("bytes") / STEPS as f64,
                    of("events") / STEPS as f64,
                    of("commits") / STEPS as f64,
                    1e3 * of("own_cpu_ms") / STEPS as f64,
                );
            }
        }
        self.write("one.yaml", &repeat(1, ""))?;
        self.write("small.yaml", "steps:\n  - value: 1\n")?;
        let (mut one, mut list) = (Vec::new(), Vec::new());
        for _ in 0..rounds.max(3) * 4 {
            list.push(self.run("small.yaml")?.elapsed);
            one.push(self.run("one.yaml")?.elapsed);
        }
        let millis = |times| median(times).as_secs_f64() * 1e3;
        println!(
            "start: a loop of one state {:.1} ms, a list of one step {:.1} ms",
            millis(one),
            millis(list)
        );
        Ok(())
    }

    /// What a transition costs when nothing is done, and how much memory many of them take.
    fn transitions(&self, largest: usize) -> Result<(), String> {
        println!("transitions   µs each   a second   peak MiB");
        for count in STEADY.into_iter().filter(|count| *count >= 1_000 && *count <= largest) {
            self.write("loop.yaml", &repeat(count, ""))?;
            let timed = self.run("loop.yaml")?;
            let each = 1e3 * per(timed.elapsed, count);
            println!("  {count:>9} {each:>9.1} {:>10.0} {:>10.1}", 1e6 / each, timed.peak());
        }
        Ok(())
    }

    /// The instructions of a transition without an action, of all threads.
    fn instructions(&self) -> Result<(), String> {
        if Command::new("valgrind").arg("--version").output().is_err() {
            println!("valgrind is not installed: no instruction counts");
            return Ok(());
        }
        let counted = |count: usize| -> Result<f64, String> {
            self.write("loop.yaml", &repeat(count, ""))?;
            let store = self.folder.join(".threadline");
            std::fs::remove_dir_all(&store).map_err(|error| error.to_string())?;
            std::fs::create_dir(&store).map_err(|error| error.to_string())?;
            let output = Command::new("valgrind")
                .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
                .arg(&self.binary)
                .args(["run", "loop.yaml"])
                .current_dir(&self.folder)
                .output()
                .map_err(|error| format!("valgrind does not start: {error}"))?;
            let log = String::from_utf8_lossy(&output.stderr);
            let counted = log.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok());
            counted.ok_or_else(|| format!("callgrind counted nothing: {log}"))
        };
        let (few, many) = (counted(500)?, counted(1_500)?);
        println!("instructions of a transition without an action: {:.0}", (many - few) / 1_000.0);
        Ok(())
    }

    /// The same steps with values in them: what interpolation adds.
    fn interpolation(&self, rounds: usize) -> Result<(), String> {
        let plain = "shell: 'printf \"%s %s\" a b >/dev/null; sleep 0.01'";
        let bound = "shell: 'printf \"%s %s\" ${item} \"${context.word}\" >/dev/null; sleep 0.01'";
        self.write("plain.yaml", &items(200, plain))?;
        self.write("bound.yaml", &items(200, bound))?;
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            without.push(self.run("plain.yaml")?.elapsed);
            with.push(self.run("bound.yaml")?.elapsed);
        }
        let (with, without) = (median(with), median(without));
        let added = 100.0 * (with.as_secs_f64() / without.as_secs_f64() - 1.0);
        println!("values in the text of steps that take 10 ms: {added:+.1} % (aim: under 1 %)");
        Ok(())
    }

    /// What `check` takes for a step of shell text as people write it, when there are many.
    fn checks(&self, rounds: usize) -> Result<(), String> {
        println!("steps of shell text     µs a step in `check`");
        for count in [250, STEPS, 4 * STEPS] {
            self.write("scripts.yaml", &scripts(count))?;
            let mut times = Vec::new();
            for _ in 0..rounds {
                times.push(self.call(&self.binary, &["check", "scripts.yaml"])?.elapsed);
            }
            println!("  {count:>7} {:>36.1}", 1e3 * per(median(times), count));
        }
        Ok(())
    }

    /// This binary beside another one, such as that of an earlier commit, in turns.
    fn against(&self, other: &Path, rounds: usize) -> Result<(), String> {
        self.write("scripts.yaml", &scripts(STEPS))?;
        self.write("values.yaml", &items(10 * STEPS, "value: ${item}"))?;
        self.write("argv.yaml", &items(STEPS, "argv: [\"true\"]"))?;
        self.write("shell.yaml", &items(STEPS, "shell: \"true\""))?;
        self.write("map.yaml", &map(10 * STEPS, "value: \"${= int(item) * 2 }\""))?;
        self.write("programs.yaml", &map(STEPS, "argv: [\"true\"]"))?;
        self.write("loop.yaml", &repeat(10 * STEPS, ""))?;
        self.write("acting.yaml", &repeat(STEPS, "argv: [\"true\"], "))?;
        self.write("graph.yaml", &nodes(STEPS, |at| format!("value: {at}")))?;
        self.write("small.yaml", "steps:\n  - value: 1\n")?;
        let workloads = [
            ("check, 1,000 steps of shell text", "check", "scripts.yaml"),
            ("10,000 values in a foreach", "run", "values.yaml"),
            ("1,000 x `true` in a foreach", "run", "argv.yaml"),
            ("1,000 x `true` by a shell", "run", "shell.yaml"),
            ("a map of 10,000 values", "run", "map.yaml"),
            ("a map of 1,000 x `true`", "run", "programs.yaml"),
            ("10,000 transitions", "run", "loop.yaml"),
            ("1,000 transitions with `true`", "run", "acting.yaml"),
            ("a graph of 1,000 values", "run", "graph.yaml"),
            ("a list of one value", "run", "small.yaml"),
        ];
        println!("                                          ms   the other   ratio   of processor time");
        for (name, command, file) in workloads {
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            let (mut our_ticks, mut their_ticks) = (0, 0);
            for round in 0..2 * rounds {
                let (binary, times, ticks) = if round % 4 == 0 || round % 4 == 3 {
                    (other, &mut theirs, &mut their_ticks)
                } else {
                    (&*self.binary, &mut ours, &mut our_ticks)
                };
                let before = ticks_of_children()?;
                times.push(self.call(binary, &[command, file])?.elapsed);
                *ticks += ticks_of_children()? - before;
            }
            let (ours, theirs) = (per(median(ours), 1), per(median(theirs), 1));
            let processor = our_ticks as f64 / their_ticks as f64;
            println!("  {name:<34} {ours:>8.1} {theirs:>11.1} {:>7.2} {processor:>7.2}", ours / theirs);
        }
        Ok(())
    }

    /// How long it takes to start, beside a shell that does nothing.
    fn start_up(&self, rounds: usize) -> Result<(), String> {
        self.write("small.yaml", "steps:\n  - value: 1\n")?;
        let (mut check, mut run, mut sh) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds {
            sh.push(self.shell("true")?.elapsed);
            run.push(self.run("small.yaml")?.elapsed);
            let clock = Instant::now();
            let status = Command::new(&self.binary)
                .args(["check", "small.yaml"])
                .current_dir(&self.folder)
                .stdout(Stdio::null())
                .status();
            check.push(clock.elapsed());
            if !status.is_ok_and(|status| status.success()) {
                return Err("`check` failed".to_owned());
            }
        }
        let millis = |times| median(times).as_secs_f64() * 1e3;
        let (check, run, sh) = (millis(check), millis(run), millis(sh));
        println!("start: `check` {check:.1} ms (at most 15), `run` {run:.1} ms, `sh -c true` {sh:.1} ms");
        Ok(())
    }

    /// What a step costs when there are many: it should stay the same.
    fn steady(&self, largest: usize) -> Result<(), String> {
        println!(
            "steps      µs a step in a list   as items of a foreach   as nodes of a graph   that read each other"
        );
        for count in STEADY.into_iter().filter(|count| *count <= largest) {
            let steps: String = (0..count).map(|at| format!("  - value: {at}\n")).collect();
            self.write("list.yaml", &format!("steps:\n{steps}"))?;
            self.write("items.yaml", &items(count, "value: ${item}"))?;
            let list = self.run("list.yaml")?.elapsed;
            let each = self.run("items.yaml")?.elapsed;
            self.write("graph.yaml", &nodes(count, |at| format!("value: {at}")))?;
            self.write(
                "tree.yaml",
                &nodes(count, |at| match at {
                    0 => "value: 1".to_owned(),
                    at => format!("value: \"${{= n{}.value + 1}}\"", at / 2),
                }),
            )?;
            let graph = self.run("graph.yaml")?.elapsed;
            let tree = self.run("tree.yaml")?.elapsed;
            let micros = |time| 1e3 * per(time, count);
            println!(
                "  {count:>7} {:>20.1} {:>23.1} {:>21.1} {:>22.1}",
                micros(list),
                micros(each),
                micros(graph),
                micros(tree)
            );
        }
        Ok(())
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // What is left over is in the temporary folder.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A workflow that does a step for each of so many items, two at a time.
fn items(count: usize, step: &str) -> String {
    let list: Vec<String> = (0..count).map(|at| at.to_string()).collect();
    format!(
        "context:\n  word: \"it's\"\nsteps:\n  - foreach: [{}]\n    parallel: 2\n    do:\n      - {step}\n",
        list.join(", ")
    )
}

/// Scripts as people write them, with values in them.
const SCRIPTS: [&str; 8] = [
    "set -euo pipefail\necho \"building ${inputs.name}\"\nmkdir -p \"out/${inputs.name}\"\ncp a.txt \"out/${inputs.name}/a.txt\"",
    "tmp=$(mktemp)\ntrap 'rm -f \"$tmp\"' EXIT\nprintf '%s\\n' ${inputs.name} > \"$tmp\"\nsort -u \"$tmp\" | head -n 5",
    "for f in src/*.c; do\n  [ -e \"$f\" ] || continue\n  grep -n -- ${inputs.name} \"$f\" || true\ndone",
    "git log --oneline -n 5\ngit tag -a v1 -m ${inputs.name}\ngit push origin HEAD",
    "curl -fsS -G --data-urlencode q=${inputs.name} https://example.com/search | jq -r '.items[].id'",
    "lines=$(wc -l < a.txt)\nif [ \"$lines\" -gt 3 ]; then echo \"${inputs.name}: $lines lines\"; else exit 1; fi",
    "case ${inputs.name} in\n  release) make release ;;\n  *) make test ;;\nesac",
    "while IFS= read -r line; do\n  printf '%s: %s\\n' ${inputs.name} \"$line\"\ndone < a.txt",
];

/// A list of so many steps of shell text.
fn scripts(count: usize) -> String {
    let mut out = String::from("inputs: {name: {type: text, default: core}}\nsteps:\n");
    for script in SCRIPTS.iter().cycle().take(count) {
        out.push_str("  - shell: |\n");
        for line in script.lines() {
            out.push_str("      ");
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

/// A loop of one state that follows itself until it was entered so often.
fn repeat(count: usize, action: &str) -> String {
    format!(
        "initial: again\nmax_iterations: {count}\nstates:\n  again: {{{action}evaluate: {{type: expression, expression: \
         state.iteration >= {count}}}, on_yes: done, on_no: self}}\n  done: {{terminal: true}}\n"
    )
}

/// A map over so many lines, two at a time, whose results are added up.
fn map(count: usize, step: &str) -> String {
    format!(
        "map:\n  input: {{shell: seq {count}}}\n  max_parallel: 2\n  steps:\n    - {step}\n\
         reduce:\n  - {{value: '${{map.results | count}}', expect: {{value: {{eq: {count}}}}}}}\n"
    )
}

/// A graph of so many nodes.
fn nodes(count: usize, node: impl Fn(usize) -> String) -> String {
    let nodes: Vec<String> = (0..count).map(|at| format!("  n{at}: {{{}}}\n", node(at))).collect();
    format!("nodes:\n{}", nodes.concat())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// The processor time of all that this process has started and waited for, with what those have waited for, in ticks of
/// the kernel: how busy the machine is otherwise changes it little.
fn ticks_of_children() -> Result<u64, String> {
    let text =
        std::fs::read_to_string("/proc/self/stat").map_err(|error| format!("/proc/self/stat: {error}"))?;
    // The name of the program stands in brackets, and may hold anything.
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
    let ticks: Vec<u64> = fields.skip(13).take(2).filter_map(|field| field.parse().ok()).collect();
    match ticks[..] {
        [user, system] => Ok(user + system),
        _ => Err("/proc/self/stat has no times of children".to_owned()),
    }
}

/// The milliseconds that each of `count` took.
fn per(time: Duration, count: usize) -> f64 {
    time.as_secs_f64() * 1e3 / count as f64
}
