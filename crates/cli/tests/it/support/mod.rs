//! Runs the binary as a user would, in a fresh folder and a fixed environment, and compares what it prints.

pub(crate) mod case;
pub(crate) mod faults;
pub(crate) mod junit_schema;
mod steady;

use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// What takes longer hangs. Nothing takes a hundredth of it on a quiet machine; a busy one must not fail a test.
pub(crate) const PATIENCE: Duration = Duration::from_mins(10);

/// What the temporary folder is called in compared texts.
const FOLDER: &str = "[FOLDER]";

/// Whether the expected texts are to be written anew.
pub(crate) fn updates() -> bool {
    std::env::var_os("THREADLINE_UPDATE").is_some_and(|value| value == "1")
}

/// Whether everything is to be tried, and not the sample that gates a change.
pub(crate) fn is_long() -> bool {
    std::env::var_os("THREADLINE_LONG").is_some_and(|value| value == "1")
}

/// The seed that `THREADLINE_SEED` gives; without it the same one each time, and another in the long form.
pub(crate) fn seed() -> u64 {
    let given = std::env::var("THREADLINE_SEED").ok().and_then(|seed| seed.parse().ok());
    given.unwrap_or(if is_long() { u64::from(std::process::id()) } else { 7 })
}

/// A temporary project: a folder of its own with room for files outside of it, removed at the end.
pub(crate) struct Project {
    outer: PathBuf,
    root: PathBuf,
    runs: steady::Runs,
}

impl Project {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let outer = std::env::temp_dir().join(format!("threadline-test-{}-{count}", std::process::id()));
        let root = outer.join("project");
        // A store marks the project, so that no folder above it is taken for one.
        std::fs::create_dir_all(root.join(".threadline")).expect("a temporary folder");
        let outer = outer.canonicalize().expect("a temporary folder");
        let root = outer.join("project");
        Self { outer, root, runs: steady::Runs::default() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.root
    }

    /// Writes a file and the folders above it; `../name` stands outside the project.
    pub(crate) fn write(&self, name: &str, content: &[u8]) {
        let path = self.place(name);
        std::fs::write(&path, content).unwrap_or_else(|error| panic!("writing {}: {error}", path.display()));
    }

    /// Makes a symbolic link.
    pub(crate) fn link(&self, name: &str, target: &str) {
        std::os::unix::fs::symlink(target, self.place(name)).expect("a link");
    }

    fn place(&self, name: &str) -> PathBuf {
        let path = self.root.join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).expect("a folder");
        }
        path
    }

    /// The content of a file, when it is there.
    pub(crate) fn read(&self, name: &str) -> Option<String> {
        std::fs::read(self.root.join(name)).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Runs a command line such as `threadline render 'Hello' < file`.
    pub(crate) fn run_line(&self, line: &str) -> Outcome {
        let (words, stdin) = command_line(line).unwrap_or_else(|why| panic!("`{line}`: {why}"));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let [program, arguments @ ..] = &words[..] else { panic!("an empty command line") };
        if let ("cp", [from, to]) = (*program, arguments) {
            // Somebody edits a file.
            let content = self.read(from).unwrap_or_else(|| panic!("there is no {from}"));
            self.write(to, content.as_bytes());
            return Outcome { stdout: String::new(), stderr: String::new(), exit: 0 };
        }
        assert_eq!(*program, "threadline", "only threadline and cp are run: `{line}`");
        let stdin = stdin.map(|name| {
            std::fs::read(self.root.join(&name)).unwrap_or_else(|error| panic!("reading {name}: {error}"))
        });
        self.run(arguments, stdin.as_deref().unwrap_or_default())
    }

    /// Like [`Self::run_line`], with what differs from run to run under names that are always the same.
    pub(crate) fn run_line_steady(&self, line: &str) -> Outcome {
        let outcome = self.run_line(line);
        let words = command_line(line).map(|(words, _)| words).unwrap_or_default();
        let arguments: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
        let steady = |text: &str| self.runs.steady(&arguments, text);
        Outcome { stdout: steady(&outcome.stdout), stderr: steady(&outcome.stderr), ..outcome }
    }

    /// Runs the binary with arguments and stdin.
    pub(crate) fn run(&self, arguments: &[&str], stdin: &[u8]) -> Outcome {
        let mut command = Command::new(env!("CARGO_BIN_EXE_threadline"));
        command.args(arguments);
        self.finish(command, stdin)
    }

    /// Runs the binary with more variables in its environment.
    pub(crate) fn run_with(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Outcome {
        let mut command = Command::new("env");
        command.args(variables.iter().map(|(name, value)| format!("{name}={value}")));
        command.arg(env!("CARGO_BIN_EXE_threadline")).args(arguments);
        self.finish(command, b"")
    }

    /// Runs the binary with at most so many KiB of address space.
    pub(crate) fn run_bounded(&self, kibibytes: u64, arguments: &[&str], stdin: &[u8]) -> Outcome {
        self.run_limited(&format!("-v {kibibytes}"), arguments, stdin)
    }

    /// Runs the binary under a limit of the shell, in the words of `ulimit`.
    pub(crate) fn run_limited(&self, limit: &str, arguments: &[&str], stdin: &[u8]) -> Outcome {
        let mut command = Command::new("bash");
        command.arg("-c").arg(format!("ulimit {limit}; exec \"$0\" \"$@\""));
        command.arg(env!("CARGO_BIN_EXE_threadline")).args(arguments);
        self.finish(command, stdin)
    }

    fn finish(&self, mut command: Command, stdin: &[u8]) -> Outcome {
        command.current_dir(&self.root).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.envs([("HOME", "/home/user"), ("GREETING", "hello"), ("NO_COLOR", "1")]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        let (sender, receiver) = mpsc::channel();
        let reader = |pipe: Option<Box<dyn Read + Send>>, stdout: bool| {
            let sender = sender.clone();
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                let read = pipe.map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut bytes));
                // Nobody listens only after a hang, which is reported already.
                let _ = sender.send((stdout, read.map(|_| bytes)));
            });
        };
        reader(child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>), true);
        reader(child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>), false);
        let (mut pipe, input) = (child.stdin.take(), stdin.to_vec());
        std::thread::spawn(move || {
            // A program that does not read its stdin is well.
            let _ = pipe.as_mut().map(|pipe| pipe.write_all(&input));
        });
        let deadline = Instant::now() + PATIENCE;
        let mut texts = [String::new(), String::new()];
        for _ in 0..2 {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok((stdout, bytes)) = receiver.recv_timeout(left) else {
                // It may have ended just now.
                let _ = child.kill();
                let _ = child.wait();
                return Outcome { stdout: String::new(), stderr: "HANGS\n".to_owned(), exit: -1 };
            };
            let bytes = bytes.expect("the output can be read");
            texts[usize::from(!stdout)] = self.named(&String::from_utf8_lossy(&bytes));
        }
        let status = child.wait().expect("the binary ends");
        let [stdout, stderr] = texts;
        Outcome { stdout, stderr, exit: status.code().unwrap_or(-2) }
    }

    /// The text with the temporary folder under a name that is always the same.
    fn named(&self, text: &str) -> String {
        text.replace(&*self.outer.to_string_lossy(), FOLDER)
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        // What is left over is in the temporary folder.
        let _ = std::fs::remove_dir_all(&self.outer);
    }
}

/// What a command did. A signal is the exit code -2, a hang -1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) exit: i32,
}

/// The words of a command line and the file behind `<`. Quotes and backslashes are those of a shell; nothing is
/// expanded.
pub(crate) fn command_line(line: &str) -> Result<(Vec<String>, Option<String>), String> {
    let mut words = words(line)?.into_iter();
    let (mut arguments, mut stdin) = (Vec::new(), None);
    while let Some(word) = words.next() {
        if word == Word::LESS {
            stdin = Some(words.next().ok_or("`<` without a file")?.text);
        } else {
            arguments.push(word.text);
        }
    }
    Ok((arguments, stdin))
}

#[derive(PartialEq, Eq)]
struct Word {
    text: String,
    quoted: bool,
}

impl Word {
    const LESS: &'static str = "<";
}

impl PartialEq<&str> for Word {
    fn eq(&self, other: &&str) -> bool {
        !self.quoted && self.text == *other
    }
}

fn words(line: &str) -> Result<Vec<Word>, String> {
    let mut words = Vec::new();
    let mut word: Option<Word> = None;
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        if char.is_whitespace() {
            words.extend(word.take());
            continue;
        }
        let current = word.get_or_insert(Word { text: String::new(), quoted: false });
        current.quoted |= matches!(char, '\'' | '"' | '\\');
        match char {
            '\'' => loop {
                match chars.next() {
                    Some('\'') => break,
                    Some(char) => current.text.push(char),
                    None => return Err("a single quote is never closed".to_owned()),
                }
            },
            '"' => loop {
                match chars.next() {
                    Some('"') => break,
                    Some('\\') => match chars.next() {
                        Some(char @ ('"' | '\\' | '$' | '`')) => current.text.push(char),
                        Some(char) => current.text.extend(['\\', char]),
                        None => return Err("a backslash at the end".to_owned()),
                    },
                    Some(char) => current.text.push(char),
                    None => return Err("a double quote is never closed".to_owned()),
                }
            },
            '\\' => current.text.push(chars.next().ok_or("a backslash at the end")?),
            char => current.text.push(char),
        }
    }
    words.extend(word);
    Ok(words)
}

/// The lines of both texts, those that differ marked; nothing when they are the same.
pub(crate) fn difference(what: &str, expected: &str, actual: &str) -> Option<String> {
    if expected == actual {
        return None;
    }
    let mut shown = format!("{what}: - expected, + actual\n");
    for (mark, line) in line_difference(&marked_lines(expected), &marked_lines(actual)) {
        // Writing into a text cannot fail.
        let _ = writeln!(shown, "  {mark} {line}");
    }
    Some(shown)
}

fn marked_lines(text: &str) -> Vec<String> {
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { " [no newline]" };
    let count = text.lines().count();
    let line = |(at, line): (usize, &str)| format!("{line}{}", if at + 1 == count { end } else { "" });
    text.lines().enumerate().map(line).collect()
}

/// The longest common lines, and what is only in one of the two.
fn line_difference<'a>(old: &'a [String], new: &'a [String]) -> Vec<(char, &'a str)> {
    let mut common = vec![vec![0usize; new.len() + 1]; old.len() + 1];
    for (i, a) in old.iter().enumerate().rev() {
        for (j, b) in new.iter().enumerate().rev() {
            common[i][j] =
                if a == b { common[i + 1][j + 1] + 1 } else { common[i + 1][j].max(common[i][j + 1]) };
        }
    }
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            lines.push((' ', old[i].as_str()));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len() || (i < old.len() && common[i + 1][j] >= common[i][j + 1]) {
            lines.push(('-', old[i].as_str()));
            i += 1;
        } else {
            lines.push(('+', new[j].as_str()));
            j += 1;
        }
    }
    lines
}

/// Ends a test with everything that failed in it.
pub(crate) fn report(failures: &[String], of: usize) {
    assert!(failures.is_empty(), "{} failures, {of} checked\n\n{}", failures.len(), failures.join("\n"));
}
