//! The git of the user, called in an environment of ours: nothing is asked of a terminal, no hook runs,
//! nothing in the variables of this process or in a worktree leads to another repository. It knows no runs
//! and no items.
//!
//! A worktree may hold whatever the steps of an item wrote. So once the repository is known every call names
//! it, and what the files of a worktree say about a repository, its settings or its attributes is not read.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use threadline_lang::diag::words;

use super::error::WorktreeError;
use crate::process::{ChildEnding, Control, Environment, OWN_GIT, Spec, Stdin, run};

/// `git merge-tree --write-tree` came with this one.
pub(super) const OLDEST: (u32, u32) = (2, 38);

/// How many lines of what git said are kept.
const KEPT_LINES: usize = 8;

/// How often git is asked when it met a worktree that was just being made or removed, and the time between.
const TRIES: usize = 10;
const BETWEEN_TRIES: Duration = Duration::from_millis(20);

/// All that git may write. It is far above what any of our questions has for an answer.
const MAX_OUTPUT: u64 = 1 << 30;

/// The variables of git that say who the user is and how others are reached. Every other one is removed: they
/// name repositories, indexes and dates that are not ours.
const LEFT: &[&str] = &[
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CEILING_DIRECTORIES",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM",
    "GIT_EXEC_PATH",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
];

/// Settings that hold for every call.
const SETTINGS: &[&str] = &[
    "core.hooksPath=/dev/null",
    // Helpers in the background would outlive the call, and are ended with it.
    "core.fsmonitor=false",
    "gc.auto=0",
    "maintenance.auto=false",
    // Steps of items call git, too.
    "core.filesRefLockTimeout=10000",
    "core.packedRefsTimeout=10000",
    "submodule.recurse=false",
    "merge.autoStash=false",
    // A folder that holds the parts of a repository is one only where we say so.
    "safe.bareRepository=explicit",
    // Filters and merge drivers are chosen by what is committed. Older versions than 2.43 do not know this
    // setting.
    "attr.tree=HEAD",
];

/// How git is called.
#[derive(Debug)]
pub(super) struct Git {
    environment: Environment,
    spool: PathBuf,
}

impl Git {
    pub(super) fn new(environment: &Environment, run: &str) -> Self {
        let mut environment = environment.clone();
        let names: Vec<OsString> = environment.names().map(OsStr::to_owned).collect();
        for name in names {
            let of_git = name.as_bytes().starts_with(b"GIT_");
            if of_git && !LEFT.iter().any(|left| name == *left) {
                environment.remove(name);
            }
        }
        for (name, value) in [
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_ASKPASS", "true"),
            ("SSH_ASKPASS", "true"),
            ("GIT_EDITOR", "true"),
            ("GIT_PAGER", "cat"),
            // To look at the user's files must not rewrite the user's index.
            ("GIT_OPTIONAL_LOCKS", "0"),
            ("LC_ALL", "C"),
        ] {
            environment.set(name, value);
        }
        environment.mark(run, OWN_GIT);
        Self { environment, spool: std::env::temp_dir() }
    }

    /// Where answers go that are too large for memory.
    pub(super) fn spool(&mut self, folder: PathBuf) {
        self.spool = folder;
    }

    /// Commits get this author where the user has told git no name.
    pub(super) fn fall_back_on(&mut self, name: &str, email: &str) {
        for role in ["AUTHOR", "COMMITTER"] {
            self.environment.set(format!("GIT_{role}_NAME"), name);
            self.environment.set(format!("GIT_{role}_EMAIL"), email);
        }
    }

    /// A call within the top of a working tree whose repository is known, whatever its files say.
    pub(super) fn at<'g>(
        &'g self,
        working_tree: &'g Path,
        repository: &Path,
        purpose: impl Into<String>,
    ) -> GitCall<'g> {
        let option = |name: &str, path: &Path| {
            let mut option = OsString::from(name);
            option.push(path);
            option
        };
        let known = vec![option("--git-dir=", repository), option("--work-tree=", working_tree)];
        GitCall { known, ..self.within(working_tree, purpose) }
    }

    /// A call within a folder, in the repository that git finds around it. The purpose completes "git could
    /// not ...".
    pub(super) fn within<'g>(&'g self, folder: &'g Path, purpose: impl Into<String>) -> GitCall<'g> {
        let purpose = purpose.into();
        let (known, arguments) = (Vec::new(), Vec::new());
        GitCall { git: self, folder, purpose, known, arguments, input: None, index: None }
    }
}

/// One call of git, not yet made.
#[derive(Clone)]
#[must_use]
pub(super) struct GitCall<'g> {
    git: &'g Git,
    folder: &'g Path,
    purpose: String,
    /// Where the repository is.
    known: Vec<OsString>,
    arguments: Vec<OsString>,
    input: Option<Vec<u8>>,
    /// The index, where it is not that of the working tree.
    index: Option<PathBuf>,
}

/// What git answered.
pub(super) struct GitAnswer {
    pub(super) code: i32,
    pub(super) stdout: Vec<u8>,
    /// The last lines of what it said.
    pub(super) said: Vec<String>,
    purpose: String,
    command: String,
}

impl GitCall<'_> {
    pub(super) fn args<A: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    pub(super) fn arg(self, argument: impl Into<OsString>) -> Self {
        self.args([argument])
    }

    pub(super) fn input(mut self, input: Vec<u8>) -> Self {
        self.input = Some(input);
        self
    }

    /// With an index of its own.
    pub(super) fn index(mut self, file: &Path) -> Self {
        self.index = Some(file.to_owned());
        self
    }

    /// Whatever git answers. Worktrees that somebody else makes or removes at the same moment can make it
    /// fail, so it is asked again then.
    pub(super) fn answer(self) -> Result<GitAnswer, WorktreeError> {
        for _ in 1..TRIES {
            let answer = self.clone().answer_once()?;
            if answer.code == 0 || !answer.said.iter().any(|line| is_passing(line)) {
                return Ok(answer);
            }
            std::thread::sleep(BETWEEN_TRIES);
        }
        self.answer_once()
    }

    fn answer_once(self) -> Result<GitAnswer, WorktreeError> {
        let mut args: Vec<OsString> = vec!["--no-pager".into(), "--literal-pathspecs".into()];
        args.extend(SETTINGS.iter().flat_map(|setting| ["-c".into(), OsString::from(setting)]));
        args.extend(self.known);
        let shown = self.arguments.iter().map(|argument| argument.to_string_lossy());
        let command = shown.fold("git".to_owned(), |command, argument| command + " " + &argument);
        args.extend(self.arguments);
        let mut env = self.git.environment.clone();
        if let Some(index) = self.index {
            env.set("GIT_INDEX_FILE", index);
        }
        let spec = Spec {
            program: "git".into(),
            args,
            env,
            cwd: self.folder.to_owned(),
            stdin: self.input.map_or(Stdin::Null, |bytes| Stdin::Bytes(bytes.into())),
            timeout: None,
            idle_timeout: None,
            max_output: MAX_OUTPUT,
            grace: Duration::from_secs(5),
            spool: self.git.spool.clone(),
            masks: None,
        };
        // Git is not interrupted: each call is short, and what it leaves half done somebody would have to put
        // right.
        let ended =
            run(&spec, &Control::new(), &mut |_, _| {}).map_err(|error| WorktreeError::NoGit { error })?;
        let unread = |error| WorktreeError::io(&self.git.spool, &error);
        let stderr = ended.stderr.read().map_err(unread)?;
        let stderr = String::from_utf8_lossy(&stderr);
        let said = words::last_lines(&stderr, KEPT_LINES).into_iter().map(Cow::into_owned);
        let said = said.filter(|line| !line.trim().is_empty()).collect();
        let code = match ended.how {
            ChildEnding::Exited(code) => code,
            how => {
                let how = match how {
                    ChildEnding::Signalled(signal) => format!("was ended by signal {signal}"),
                    ChildEnding::OutputTooLarge(_) => "wrote more than 1 GiB".into(),
                    ChildEnding::NeedsTerminal => "asked the terminal for input".into(),
                    _ => "was ended".into(),
                };
                return Err(WorktreeError::Git { purpose: self.purpose, command, how, said });
            }
        };
        let stdout = ended.stdout.read().map_err(unread)?;
        Ok(GitAnswer { code, stdout, said, purpose: self.purpose, command })
    }

    /// What git wrote when all went well.
    pub(super) fn bytes(self) -> Result<Vec<u8>, WorktreeError> {
        let answer = self.answer()?;
        if answer.code == 0 { Ok(answer.stdout) } else { Err(answer.refused()) }
    }

    /// As `bytes`, without the end of the only line.
    pub(super) fn line(self) -> Result<OsString, WorktreeError> {
        let mut bytes = self.bytes()?;
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
        }
        Ok(OsString::from_vec(bytes))
    }

    /// The name of an object.
    pub(super) fn object(self) -> Result<String, WorktreeError> {
        let answer = self.answer()?;
        if answer.code == 0 { answer.object() } else { Err(answer.refused()) }
    }

    /// The question answered by git's exit code: yes is 0, no is 1.
    pub(super) fn holds(self) -> Result<bool, WorktreeError> {
        let answer = self.answer()?;
        match answer.code {
            0 => Ok(true),
            1 => Ok(false),
            _ => Err(answer.refused()),
        }
    }

    /// Nothing but that all went well.
    pub(super) fn done(self) -> Result<(), WorktreeError> {
        self.bytes().map(drop)
    }
}

impl GitAnswer {
    pub(super) fn refused(self) -> WorktreeError {
        let how = format!("ended with code {}", self.code);
        WorktreeError::Git { purpose: self.purpose, command: self.command, how, said: self.said }
    }

    pub(super) fn unknown(&self) -> WorktreeError {
        let answer: String = String::from_utf8_lossy(&self.stdout).chars().take(200).collect();
        WorktreeError::GitAnswer { purpose: self.purpose.clone(), answer }
    }

    fn object(&self) -> Result<String, WorktreeError> {
        object(self.stdout.trim_ascii()).ok_or_else(|| self.unknown())
    }
}

/// The name of an object, if the bytes are one.
pub(super) fn object(bytes: &[u8]) -> Option<String> {
    let plain = bytes.len() >= 40 && bytes.iter().all(u8::is_ascii_hexdigit);
    plain.then(|| String::from_utf8_lossy(bytes).into_owned())
}

/// The path of these bytes.
pub(super) fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// Whether git says that it read half of what another git was just writing about a worktree.
fn is_passing(line: &str) -> bool {
    line.contains("failed to read") && line.contains("worktrees/")
}
