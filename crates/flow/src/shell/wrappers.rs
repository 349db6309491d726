//! Programs that run another command, with the options of each.
//!
//! An option that is not listed makes it unclear which word is the command, so nothing is guessed.

use super::options::{HasWord, is_assignment};

/// A program that runs the command in its arguments.
struct Wrapper {
    names: &'static [&'static str],
    /// Number of operands before the command.
    operands: usize,
    /// Options without an argument: letters, and long names.
    flags: &'static [&'static str],
    /// Options with an argument: letters, and long names.
    values: &'static [&'static str],
    /// Whether assignments can stand before the command.
    assigns: bool,
}

/// The first row: letters of options without and with an argument.
#[rustfmt::skip]
static WRAPPERS: &[Wrapper] = &[
    Wrapper {
        names: &["env"], operands: 0, assigns: true,
        flags: &["-i", "-", "-0", "-v", "--ignore-environment", "--null", "--debug", "--list-signal-handling"],
        values: &[
            "-u", "-C", "-S", "-a", "--unset", "--chdir", "--split-string", "--argv0", "--block-signal", "--default-signal",
            "--ignore-signal",
        ],
    },
    Wrapper {
        names: &["sudo", "doas"], operands: 0, assigns: true,
        flags: &[
            "-A", "-B", "-b", "-E", "-H", "-i", "-K", "-k", "-N", "-n", "-P", "-S", "-s", "--askpass", "--background",
            "--login", "--non-interactive", "--preserve-env", "--set-home", "--shell", "--stdin",
        ],
        values: &[
            "-C", "-D", "-g", "-h", "-p", "-R", "-r", "-T", "-t", "-U", "-u", "--user", "--group", "--host", "--prompt", "--chdir",
            "--chroot", "--close-from",
        ],
    },
    Wrapper { names: &["command"], operands: 0, assigns: false, flags: &["-p"], values: &[] },
    Wrapper { names: &["builtin", "nohup", "noglob", "nocorrect", "catchsegv", "unbuffer", "setarch", "linux64", "busybox"],
        operands: 0, assigns: false, flags: &["-p"], values: &[] },
    Wrapper { names: &["exec"], operands: 0, assigns: false, flags: &["-c", "-l"], values: &["-a"] },
    Wrapper { names: &["time"], operands: 0, assigns: false, flags: &["-p", "-v", "-a", "-q"], values: &["-f", "-o", "--format", "--output"] },
    Wrapper { names: &["nice"], operands: 0, assigns: false, flags: &[], values: &["-n", "--adjustment"] },
    Wrapper { names: &["ionice"], operands: 0, assigns: false, flags: &["-t", "--ignore"], values: &["-c", "-n", "--class", "--classdata"] },
    Wrapper { names: &["stdbuf"], operands: 0, assigns: false, flags: &[], values: &["-i", "-o", "-e", "--input", "--output", "--error"] },
    Wrapper { names: &["setsid"], operands: 0, assigns: false, flags: &["-c", "-f", "-w", "--ctty", "--fork", "--wait"], values: &[] },
    Wrapper {
        names: &["xargs"], operands: 0, assigns: false,
        flags: &["-0", "-r", "-t", "-x", "-p", "-o", "--null", "--no-run-if-empty", "--verbose", "--exit", "--open-tty", "-i", "-l", "-e"],
        values: &[
            "-a", "-d", "-E", "-I", "-J", "-L", "-n", "-P", "-R", "-S", "-s", "--arg-file", "--delimiter", "--max-lines",
            "--max-args", "--max-procs", "--max-chars", "--process-slot-var", "--replace",
        ],
    },
    Wrapper { names: &["strace", "ltrace"], operands: 0, assigns: false,
        flags: &["-f", "-c", "-C", "-T", "-t", "-r", "-v", "-y", "-q", "-i", "-F"], values: &["-e", "-o", "-s", "-a", "-O", "-u", "-E", "-b"] },
    Wrapper { names: &["chrt"], operands: 1, assigns: false, flags: &["-b", "-f", "-i", "-o", "-r", "-R"], values: &["-T", "-P", "-D"] },
    Wrapper { names: &["taskset"], operands: 1, assigns: false, flags: &["-c", "-a", "--cpu-list"], values: &[] },
    Wrapper { names: &["npx", "bunx", "uvx", "pnpx"], operands: 0, assigns: false,
        flags: &["-y", "-q", "--yes", "--no", "--no-install", "--quiet"], values: &["-p", "--package", "--from", "--with", "--python"] },
    Wrapper { names: &["systemd-run"], operands: 0, assigns: false,
        flags: &["--scope", "--user", "--pty", "--wait", "--collect", "-t", "-P", "-q", "-G"], values: &["-p", "-u", "--unit", "--property", "-E"] },
    Wrapper { names: &["timeout"], operands: 1, assigns: false,
        flags: &["-v", "--foreground", "--preserve-status", "--verbose"], values: &["-k", "-s", "--kill-after", "--signal"] },
    Wrapper { names: &["chroot"], operands: 1, assigns: false, flags: &["--skip-chdir"], values: &["--groups", "--userspec"] },
    Wrapper { names: &["flock"], operands: 1, assigns: false,
        flags: &["-e", "-s", "-x", "-n", "-o", "-u", "-F", "--exclusive", "--shared", "--nonblock", "--nb", "--verbose"],
        values: &["-w", "-E", "--timeout", "--wait", "--conflict-exit-code"] },
    Wrapper { names: &["runuser"], operands: 1, assigns: false, flags: &["-l", "-p", "-m", "--login"], values: &["-g", "-G", "-s", "-w"] },
    Wrapper { names: &["setpriv", "cgexec"], operands: 1, assigns: false, flags: &["--clear-groups", "--reset-env"],
        values: &["--reuid", "--regid", "--groups", "-g"] },
    Wrapper { names: &["ssh-agent"], operands: 0, assigns: false, flags: &["-s", "-c", "-d", "-k"], values: &["-a", "-t", "-P"] },
    Wrapper { names: &["dotenv"], operands: 1, assigns: false, flags: &[], values: &["-f", "-e"] },
    Wrapper { names: &["repeat"], operands: 1, assigns: false, flags: &[], values: &[] },
];

/// Where the command of a wrapper begins.
pub(super) enum InnerCommand {
    /// The program runs no command of its arguments.
    None,
    /// At this word.
    At(usize),
    /// The wrapper has no command.
    Absent,
    /// Behind an option that is not known.
    NotKnown(usize),
}

/// Programs that run a command after one of their own commands, as `poetry run`.
#[rustfmt::skip]
static RUNNERS: &[(&str, &str)] = &[
    ("uv", "run"), ("poetry", "run"), ("pipenv", "run"), ("pdm", "run"), ("hatch", "run"), ("rye", "run"),
    ("conda", "run"), ("bundle", "exec"), ("npm", "exec"), ("pnpm", "exec"), ("yarn", "exec"), ("mise", "exec"),
];

/// Finds the command that a wrapper runs.
pub(super) fn find_inner_command<W: HasWord>(name: &str, words: &[W]) -> InnerCommand {
    let own = words.get(1).and_then(|word| word.word().text());
    if RUNNERS.iter().any(|(program, command)| *program == name && own == Some(command)) {
        let inner = (2..words.len()).find(|at| !words[*at].word().literal.starts_with('-'));
        return inner.map_or(InnerCommand::Absent, InnerCommand::At);
    }
    let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.names.contains(&name)) else {
        return InnerCommand::None;
    };
    if name == "command"
        && words.get(1).is_some_and(|word| matches!(word.word().text(), Some("-v" | "-V" | "-pv" | "-pV")))
    {
        return InnerCommand::None;
    }
    let mut at = 1;
    let mut operands = wrapper.operands;
    let mut options = true;
    while at < words.len() {
        let word = words[at].word();
        let literal = word.literal.as_str();
        if options && word.is("--") {
            options = false;
        } else if options && is_option(literal) {
            match wrapper.option(literal, word.fixed) {
                Some(taken) => at += taken,
                None => return InnerCommand::NotKnown(at),
            }
        } else if wrapper.assigns && is_assignment(word) {
        } else if operands > 0 {
            operands -= 1;
        } else {
            return InnerCommand::At(at);
        }
        at += 1;
    }
    InnerCommand::Absent
}

fn is_option(literal: &str) -> bool {
    literal.starts_with('-') && literal.len() > 1 || literal == "-"
}

impl Wrapper {
    /// Number of further words that an option takes, if it is known.
    fn option(&self, literal: &str, fixed: bool) -> Option<usize> {
        if literal.starts_with("--") {
            let (name, attached) = literal.split_once('=').map_or((literal, false), |(name, _)| (name, true));
            if self.values.contains(&name) {
                return Some(usize::from(!attached && fixed));
            }
            return self.flags.contains(&name).then_some(0);
        }
        if literal == "-" {
            return self.flags.contains(&"-").then_some(0);
        }
        if self.names.contains(&"nice") && literal[1..].bytes().all(|byte| byte.is_ascii_digit()) {
            return Some(0);
        }
        for (at, letter) in literal.char_indices().skip(1) {
            let option = format!("-{letter}");
            if self.values.contains(&option.as_str()) {
                // The rest of the word is the argument, or the next word is.
                return Some(usize::from(at + letter.len_utf8() == literal.len() && fixed));
            }
            // `-i`, `-l` and `-e` of xargs take the rest of the word, if there is one.
            if self.names.contains(&"xargs") && matches!(letter, 'i' | 'l' | 'e') {
                return Some(0);
            }
            if !self.flags.contains(&option.as_str()) {
                return None;
            }
        }
        Some(0)
    }
}

/// The text that `xargs` replaces by what it reads, if it replaces any.
pub(super) fn find_replaced_text<W: HasWord>(words: &[W]) -> Option<String> {
    for (at, word) in words.iter().enumerate().skip(1) {
        let literal = word.word().literal.as_str();
        if let Some(rest) = literal.strip_prefix("-I") {
            let next = words.get(at + 1).map(|next| next.word().literal.clone());
            return if rest.is_empty() { next } else { Some(rest.to_owned()) };
        }
        if let Some(rest) = literal.strip_prefix("--replace") {
            return Some(rest.strip_prefix('=').unwrap_or("{}").to_owned());
        }
        if let Some(rest) = literal.strip_prefix("-i") {
            return Some(if rest.is_empty() { "{}" } else { rest }.to_owned());
        }
    }
    None
}
