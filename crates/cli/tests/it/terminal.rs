//! A run as a terminal shows it, through a pseudo-terminal: the block has one height, and nothing of it is left at the
//! end. Where there is no terminal many items are few lines, and those that failed are lines of JSON.

use std::fs::File;
use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use crate::models::ModelServer;
use crate::support::{PATIENCE, Project};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Items that wait until `go` is there; two of them fail.
const WAITING: &str = "
setup: [{id: begin, value: 1}]
map:
  input: {shell: seq 1 60}
  max_parallel: 12
  steps:
    - {id: number, value: '${item | int}'}
    - shell: 'until test -e go; do sleep 0.01; done; test ${number} -ne 7 && test ${number} -ne 40'
reduce: [{id: end, value: '${map.failed}'}]
error_policy: {continue_on_failure: true}
";

/// The height of the block: the bar, eight items, and how many more there are.
const HEIGHT: usize = 10;

#[test]
fn the_block_has_one_height_and_leaves_nothing() {
    let mut terminal = Terminal::start(WAITING, &[], 100, 30);
    terminal.wait_for("… and 4 more");
    terminal.project.write("go", b"");
    let status = terminal.end();
    assert_eq!(status, Some(0));
    let heights = terminal.heights();
    assert!(!heights.is_empty());
    assert!(heights.iter().all(|height| *height == HEIGHT), "{heights:?}");
    let screen = terminal.screen.text();
    let lines =
        ["▸ setup", "▸ map", "60 items, 12 at once", "✗ map[6]", "✗ map[39]", "58 of 60 items, 2 failed"];
    for line in lines {
        assert!(screen.contains(line), "no `{line}` on\n{screen}");
    }
    assert!(screen.contains("completed: 2 steps completed; 58 items completed, 2 failed in "), "{screen}");
    assert!(!screen.contains('━') && !screen.contains('╌') && !screen.contains("more"), "{screen}");
}

#[test]
fn the_running_items_are_named() {
    let mut terminal = Terminal::start(WAITING, &[], 100, 30);
    // Which of the twelve are shown depends on which began first, and an item is there before its step.
    terminal.wait_until(|terminal| {
        let screen = terminal.screen.text();
        let is_named = |item: &usize| screen.contains(&format!("  [{item}] \"{}\"  shell map.", item + 1));
        let named = (0..12).filter(is_named).count();
        named == 8 && screen.contains("… and 4 more") && screen.contains("  0 of 60")
    });
    terminal.project.write("go", b"");
    assert_eq!(terminal.end(), Some(0));
}

#[test]
fn a_narrow_and_low_terminal_has_whole_lines() {
    let mut terminal = Terminal::start(WAITING, &[], 30, 8);
    terminal.wait_for("… and 8 more");
    terminal.project.write("go", b"");
    assert_eq!(terminal.end(), Some(0));
    let wide = terminal.frames.iter().flatten().find(|line| is_drawn(line) && line.chars().count() >= 30);
    assert!(wide.is_none(), "{wide:?}");
}

#[test]
fn a_width_that_changes_is_seen() {
    let mut terminal = Terminal::start(WAITING, &[], 100, 30);
    terminal.wait_for("… and 4 more");
    terminal.resize(24, 30);
    let before = terminal.frames.len();
    terminal.wait_until(|terminal| {
        let last = terminal.frames.last().into_iter().flatten();
        let mut bars = last.filter(|line| line.starts_with("map"));
        terminal.frames.len() > before && bars.any(|line| line.chars().count() < 24)
    });
    terminal.project.write("go", b"");
    assert_eq!(terminal.end(), Some(0));
}

#[test]
fn an_interrupt_leaves_the_terminal_as_it_was() {
    let mut terminal = Terminal::start(WAITING, &[], 100, 30);
    terminal.wait_for("… and 4 more");
    terminal.interrupt();
    terminal.wait_for("stopping: running steps finish");
    terminal.project.write("go", b"");
    assert_eq!(terminal.end(), Some(130));
    let screen = terminal.screen.text();
    assert!(screen.contains("paused: stopped"), "{screen}");
    assert!(screen.contains("` goes on"), "{screen}");
    assert!(!screen.contains('━') && !screen.contains('╌'), "{screen}");
    // No mode of the terminal was changed, so none has to be changed back.
    assert!(!terminal.bytes.contains("\x1b[?"), "a mode was set");
}

#[test]
fn plain_lines_on_a_dumb_terminal() {
    let mut terminal = Terminal::start(WAITING, &[("TERM", "dumb")], 100, 30);
    terminal.wait_for("60 items, 12 at once");
    terminal.project.write("go", b"");
    assert_eq!(terminal.end(), Some(0));
    for code in ["\x1b[J", "\x1b[K", "A\r"] {
        assert!(!terminal.bytes.contains(code), "{:?}", terminal.bytes);
    }
}

#[test]
fn no_color_keeps_the_block_without_colours() {
    let mut terminal = Terminal::start(WAITING, &[("NO_COLOR", "1")], 100, 30);
    terminal.wait_for("… and 4 more");
    terminal.project.write("go", b"");
    assert_eq!(terminal.end(), Some(0));
    assert!(terminal.bytes.contains("\x1b[J"), "{:?}", terminal.bytes);
    let styles = ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m"];
    assert!(!styles.iter().any(|style| terminal.bytes.contains(style)), "{:?}", terminal.bytes);
}

#[test]
fn a_hundred_items_are_few_lines() {
    let project = Project::new();
    let text = "map: {input: {shell: seq 1 100}, max_parallel: 4, steps: [{shell: 'test ${item} -gt 5'}, {value: 1}]}\n\
                error_policy: {continue_on_failure: true}\n";
    project.write("work.yaml", text.as_bytes());
    let outcome = project.run(&["run", "work.yaml"], b"");
    let lines = outcome.stdout.lines().count() + outcome.stderr.lines().count();
    assert!(lines <= 40, "{lines} lines:\n{}", outcome.stdout);
    assert!(outcome.stdout.contains("95 of 100 items, 5 failed"), "{}", outcome.stdout);
}

#[test]
fn items_that_failed_are_as_the_schema_says() {
    let project = Project::new();
    let text = "map: {input: [1, {a: 2}, 3], retry: {attempts: 2, delay: 0}, steps: [{shell: 'test ${item.index} -eq 0'}]}\n\
                error_policy: {continue_on_failure: true}\n";
    project.write("work.yaml", text.as_bytes());
    let printed = project.run(&["schema", "failures"], b"").stdout;
    let schema = serde_json::from_str(&printed).expect("a schema is JSON");
    let schema = jsonschema::validator_for(&schema).expect("a schema is one");
    project.run(&["run", "work.yaml"], b"");
    let lines = project.run(&["show", "last", "--failed", "--json"], b"").stdout;
    let lines: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    assert_eq!(lines.len(), 2);
    for line in &lines {
        let errors: Vec<String> = schema.iter_errors(line).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{line}: {errors:?}");
        assert_eq!(line["attempts"], 2);
    }
}

/// A loop of twelve iterations that waits until `go` is there.
const LOOP: &str = "
initial: check
max_iterations: 40
timeout: 1h
states:
  check: {action: 'echo x >> n; test $(wc -l < n) -ge 12', on_yes: wait, on_no: check}
  wait: {action: 'until test -e go; do sleep 0.01; done', next: done}
  done: {terminal: true}
";

#[test]
fn a_loop_shows_its_last_states_and_its_limits() {
    let mut terminal = Terminal::start(LOOP, &[], 100, 30);
    terminal.wait_for("▸ wait#1");
    let screen = terminal.screen.text();
    assert!(screen.contains("iteration 12/40, step 13/2000, "), "{screen}");
    assert!(screen.contains(" of 1h00m"), "{screen}");
    assert!(screen.contains("no → check  exit code 1"), "{screen}");
    assert!(screen.contains("yes → wait  exit code 0"), "{screen}");
    // Eight of them, and the oldest is gone.
    assert!(screen.contains("• check#5 ") && !screen.contains("• check#4 "), "{screen}");
    terminal.project.write("go", b"");
    assert_eq!(terminal.end(), Some(0));
    let drawn = |lines: &Vec<String>| {
        let limits = lines.iter().position(|line| line.contains(", step "))?;
        Some(lines[..=limits].iter().filter(|line| line.starts_with(['•', '▸', 'i'])).count())
    };
    let heights: Vec<usize> = terminal.frames.iter().filter_map(drawn).collect();
    assert!(heights.iter().all(|height| *height <= 10), "{heights:?}");
    assert_eq!(heights.last(), Some(&10), "{heights:?}");
    let screen = terminal.screen.text();
    assert!(screen.contains(" lines before: threadline show "), "{screen}");
    assert!(screen.contains("✓ done"), "{screen}");
    assert!(screen.contains("completed in done; 12 iterations, 14 steps in "), "{screen}");
    assert!(!screen.contains("/40"), "{screen}");
}

#[test]
fn a_loop_says_how_long_it_waits() {
    let text = "{initial: check, backoff: 2h, states: {check: {shell: exit 1, on_yes: done, on_no: check}, \
                done: {terminal: true}}}";
    let mut terminal = Terminal::start(text, &[], 60, 20);
    terminal.wait_for("▸ next iteration in 2h00m");
    terminal.interrupt();
    assert_eq!(terminal.end(), Some(130));
    let screen = terminal.screen.text();
    assert!(screen.contains("no → check") && screen.contains("paused: stopped"), "{screen}");
    assert!(!screen.contains("next iteration"), "{screen}");
}

/// A project with a run whose file has changed since: `count` adds a line to `did` each time it runs.
/// What an agent says while it says it: the end of it is drawn, without secrets, and nothing of it is left.
#[test]
fn what_an_agent_says_is_drawn_while_it_says_it() {
    let rules = r#"[{"answer": {"text": "First the parser,\nthen the tests. The key is sk-canary-7f3a9c. I would merge it as it is, but for the name of a flag.",
                     "piece": 8, "wire": {"gate": {"file": "go", "after": 12}}}}]"#;
    for provider in ["anthropic", "openai"] {
        let project = Project::new();
        let server = ModelServer::start(&project, rules);
        let path = if provider == "openai" { "/v1" } else { "" };
        let workflow = format!(
            "secrets: {{KEY: {{env: MODEL_KEY}}}}
env_file: .env
agents:
  model: {{provider: {provider}, model: m, base_url: '{}{path}', api_key: '${{secrets.KEY}}'}}
steps:
  - {{id: review, agent: model, message: Go., secret_output: mask}}
",
            server.url()
        );
        project.write("w.yaml", workflow.as_bytes());
        project.write(".env", b"MODEL_KEY=sk-canary-7f3a9c\n");
        let mut terminal = Terminal::asking(project, &["run", "w.yaml"]);
        terminal.wait_for("First the parser, then the tests. The key is ***");
        terminal.project.write("go", b"");
        assert_eq!(terminal.end(), Some(0));
        assert!(!terminal.bytes.contains("canary"), "{}", terminal.bytes);
        let screen = terminal.screen.text();
        assert!(screen.contains("✓ review") && !screen.contains("▸ review"), "{screen}");
    }
}

fn edited() -> Project {
    let project = Project::new();
    let text = |word: &str| {
        format!(
            "- {{id: count, shell: 'echo x >> did; echo 1'}}\n- {{id: say, value: '{word} ${{count}}'}}\n"
        )
    };
    project.write("work.yaml", text("old").as_bytes());
    let run = project.run(&["run", "work.yaml"], b"");
    assert_eq!(run.exit, 0, "{}", run.stderr);
    project.write("work.yaml", text("new").as_bytes());
    project
}

fn count_of_runs(project: &Project) -> usize {
    project.run(&["runs", "--json"], b"").stdout.matches(r#""run":"#).count()
}

#[test]
fn an_edited_file_is_run_when_somebody_says_yes() {
    for answer in ["y\n", "yes\n", "Y\n"] {
        let mut terminal = Terminal::asking(edited(), &["resume", "--edited"]);
        terminal.wait_for("go on? [y/N]");
        let screen = terminal.screen.text();
        assert!(screen.contains("kept   count") && screen.contains("again  say"), "{screen}");
        assert_eq!(count_of_runs(&terminal.project), 1, "it begins before the answer");
        terminal.type_in(answer);
        assert_eq!(terminal.end(), Some(0), "{}", terminal.screen.text());
        let screen = terminal.screen.text();
        assert!(screen.contains("= count") && screen.contains(r#"→ "new 1""#), "{screen}");
        assert_eq!(terminal.project.read("did").as_deref(), Some("x\n"), "what is kept is not done again");
        assert_eq!(count_of_runs(&terminal.project), 2);
    }
}

#[test]
fn an_edited_file_is_not_run_without_a_yes() {
    // The last one is the end of the input, as ctrl-D types it.
    for answer in ["n\n", "\n", "maybe\n", "\x04"] {
        for command in [&["resume", "--edited"][..], &["rerun", "last", "--from", "say"]] {
            let mut terminal = Terminal::asking(edited(), command);
            terminal.wait_for("go on? [y/N]");
            terminal.type_in(answer);
            assert_eq!(terminal.end(), Some(4), "{}", terminal.screen.text());
            let screen = terminal.screen.text();
            assert!(screen.contains("note: nothing was run"), "{screen}");
            assert_eq!(count_of_runs(&terminal.project), 1, "{answer:?}");
        }
    }
}

#[test]
fn runs_are_removed_when_somebody_says_yes() {
    for (answer, left) in [("n\n", 1), ("\n", 1), ("\x04", 1), ("y\n", 0)] {
        let mut terminal = Terminal::asking(edited(), &["clean", "--keep", "0"]);
        terminal.wait_for("remove 1 run? [y/N]");
        terminal.type_in(answer);
        terminal.end();
        assert_eq!(count_of_runs(&terminal.project), left, "{answer:?}: {}", terminal.screen.text());
    }
}

/// A line of a scenario scrolls by above the block, and nothing of the block is left at the end.
#[test]
fn lines_of_scenarios_stay_on_the_screen() {
    let project = Project::new();
    let text = "name: Speed\ntarget: {shell: 'until test -e go; do sleep 0.01; done; echo yes'}\nscenarios:\n  fast: \
                {target: {argv: [echo, 'yes']}, prompt: x, expectations: {shouldContain: 'yes'}}\n  slow: {prompt: x, \
                expectations: {shouldContain: 'yes'}}\n";
    project.write("s.test.yaml", text.as_bytes());
    let mut terminal = Terminal::asking(project, &["test", "s.test.yaml"]);
    terminal.wait_for("✓ fast");
    terminal.wait_for("0 of 1");
    terminal.project.write("go", b"");
    assert_eq!(terminal.end(), Some(0));
    let screen = terminal.screen.text();
    for line in ["Speed  run ", "✓ fast", "✓ slow", "2 cases: 2 passed"] {
        assert!(screen.contains(line), "no `{line}` on\n{screen}");
    }
    assert!(!screen.contains('━') && !screen.contains('╌') && !screen.contains("0 of 1"), "{screen}");
}

/// Whether a line is one of a list's block.
fn is_drawn(line: &str) -> bool {
    line.starts_with("map  ") || line.starts_with("  [") || line.starts_with("  … and")
}

/// What a command in a terminal reads from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stdin {
    Null,
    Terminal,
}

/// A pseudo-terminal in which a command runs.
struct Terminal {
    project: Project,
    child: Child,
    /// Where the size is set.
    master: rustix::fd::OwnedFd,
    output: Receiver<Vec<u8>>,
    /// Everything that was written.
    bytes: String,
    /// Bytes that are not a whole character yet.
    rest: Vec<u8>,
    /// How much of it the screen has.
    taken: usize,
    screen: Screen,
    /// The screen after each drawing.
    frames: Vec<Vec<String>>,
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // What a failed test leaves running waits for a file that never comes.
        self.project.write("go", b"");
        let _ = self.child.wait();
    }
}

impl Terminal {
    fn start(workflow: &str, env: &[(&str, &str)], columns: u16, rows: u16) -> Self {
        let project = Project::new();
        project.write("work.yaml", workflow.as_bytes());
        Self::command(project, &["run", "work.yaml"], Stdin::Null, env, (columns, rows))
    }

    /// A command that asks, in a project that has something to ask about.
    fn asking(project: Project, arguments: &[&str]) -> Self {
        Self::command(project, arguments, Stdin::Terminal, &[], (100, 30))
    }

    fn command(
        project: Project,
        arguments: &[&str],
        stdin: Stdin,
        env: &[(&str, &str)],
        (columns, rows): (u16, u16),
    ) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo-terminal");
        grantpt(&master).expect("a pseudo-terminal of ours");
        unlockpt(&master).expect("an unlocked pseudo-terminal");
        let name = ptsname(&master, Vec::new()).expect("its name");
        let open = || {
            let flags = OFlags::RDWR | OFlags::NOCTTY;
            Stdio::from(rustix::fs::open(&name, flags, Mode::empty()).expect("its other side"))
        };
        let mut command = Command::new(env!("CARGO_BIN_EXE_threadline"));
        command.args(arguments).current_dir(project.path()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("TERM", "xterm-256color");
        let stdin = if stdin == Stdin::Terminal { open() } else { Stdio::null() };
        command.envs(env.iter().copied()).stdin(stdin).stdout(open()).stderr(open());
        set_size(&master, columns, rows);
        let child = command.spawn().expect("the binary starts");
        // The command holds the other side; its end is seen when only the child does.
        drop(command);
        let mut reader = File::from(rustix::io::dup(&master).expect("a reader"));
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // The end of the last writer is an error on this side.
            while let Ok(count) = reader.read(&mut buffer) {
                if count == 0 || sender.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        let (bytes, rest, frames) = (String::new(), Vec::new(), Vec::new());
        Self { project, child, master, output, bytes, rest, taken: 0, screen: Screen::default(), frames }
    }

    /// Writes what somebody types.
    fn type_in(&self, text: &str) {
        let written = rustix::io::write(&self.master, text.as_bytes());
        assert_eq!(written, Ok(text.len()), "the terminal takes what is typed");
    }

    fn resize(&self, columns: u16, rows: u16) {
        set_size(&self.master, columns, rows);
    }

    fn interrupt(&self) {
        let id = Pid::from_child(&self.child);
        kill_process(id, Signal::INT).expect("it runs");
    }

    fn wait_for(&mut self, text: &str) {
        self.wait_until(|terminal| terminal.screen.text().contains(text));
    }

    fn wait_until(&mut self, mut reached: impl FnMut(&Self) -> bool) {
        while !reached(self) {
            let Ok(bytes) = self.output.recv_timeout(PATIENCE) else {
                // It may have ended just now.
                let _ = self.child.kill();
                panic!("it never came to that:\n{}", self.screen.text());
            };
            self.take(&bytes);
        }
    }

    /// Its exit code, when everything was read.
    fn end(&mut self) -> Option<i32> {
        while let Ok(bytes) = self.output.recv_timeout(PATIENCE) {
            self.take(&bytes);
        }
        self.child.wait().expect("it ends").code()
    }

    /// A drawing ends with the rest of the screen cleared; every one is kept.
    fn take(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.rest) {
            Ok(text) => text.len(),
            Err(error) => error.valid_up_to(),
        };
        let rest = self.rest.split_off(whole);
        let text = String::from_utf8(std::mem::replace(&mut self.rest, rest)).expect("whole characters");
        self.bytes.push_str(&text);
        while let Some(end) = self.bytes[self.taken..].find("\x1b[J").map(|at| self.taken + at + 3) {
            self.screen.take(&self.bytes[self.taken..end]);
            self.taken = end;
            self.frames.push(self.screen.lines.clone());
        }
        // A code that is not whole yet waits.
        let end =
            self.bytes.rfind('\x1b').filter(|at| *at + 16 > self.bytes.len()).unwrap_or(self.bytes.len());
        if end > self.taken {
            self.screen.take(&self.bytes[self.taken..end]);
            self.taken = end;
        }
    }

    /// How many lines the block has in each frame that shows one.
    fn heights(&self) -> Vec<usize> {
        let of_frame = |lines: &Vec<String>| {
            let bar = lines.iter().position(|line| line.contains('╌') || line.contains('━'))?;
            // The cursor stands in the line below the block.
            Some(lines.len() - 1 - bar)
        };
        self.frames.iter().filter_map(of_frame).collect()
    }
}

fn set_size(master: &rustix::fd::OwnedFd, columns: u16, rows: u16) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(master, size).expect("a size");
}

/// As much of a terminal as is used: lines, a cursor, up, and three ways to clear.
#[derive(Default)]
struct Screen {
    lines: Vec<String>,
    row: usize,
    column: usize,
}

impl Screen {
    fn text(&self) -> String {
        self.lines.join("\n")
    }

    fn take(&mut self, text: &str) {
        let mut chars = text.chars();
        while let Some(char) = chars.next() {
            while self.lines.len() <= self.row {
                self.lines.push(String::new());
            }
            match char {
                '\n' => {
                    self.row += 1;
                    self.column = 0;
                    if self.lines.len() <= self.row {
                        self.lines.push(String::new());
                    }
                }
                '\r' => self.column = 0,
                '\x1b' => {
                    assert_eq!(chars.next(), Some('['), "a code that is not known");
                    let mut number = String::new();
                    let code = chars.by_ref().find(|char| {
                        number.push(*char);
                        char.is_ascii_alphabetic()
                    });
                    number.pop();
                    self.code(code, &number);
                }
                char => self.put(char),
            }
        }
    }

    fn put(&mut self, char: char) {
        let line = &mut self.lines[self.row];
        let mut cells: Vec<char> = line.chars().collect();
        cells.resize(cells.len().max(self.column + 1), ' ');
        cells[self.column] = char;
        *line = cells.into_iter().collect();
        self.column += 1;
    }

    fn code(&mut self, code: Option<char>, number: &str) {
        let cut = |line: &mut String, column: usize| *line = line.chars().take(column).collect();
        match code {
            Some('A') => self.row = self.row.saturating_sub(number.parse().expect("a number of rows")),
            Some('K') => cut(&mut self.lines[self.row], self.column),
            Some('J') => {
                cut(&mut self.lines[self.row], self.column);
                self.lines.truncate(self.row + 1);
            }
            Some('m') => {}
            other => panic!("a code that is not known: {other:?}"),
        }
    }
}
