//! What these tests share: a repository with work of the user's in it, and what must be left of it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use threadline_runner::process::Environment;
use threadline_runner::project::Project;
use threadline_runner::worktrees::{Closed, WorktreeError, Worktrees};
use threadline_store::RunId;

/// A folder that is removed at the end of a test. Its name has what names of folders rarely have.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let mut name = OsString::from(format!("threadline-worktrees-{}-{number} a\nb'", std::process::id()));
        name.push(OsStr::from_bytes(b"\xff"));
        let path = std::env::temp_dir().canonicalize().unwrap().join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What git sees of the user: a name, and no settings of the machine.
pub(crate) const USER: [(&str, &str); 6] = [
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_CONFIG_SYSTEM", "/dev/null"),
    ("GIT_AUTHOR_NAME", "Ada"),
    ("GIT_AUTHOR_EMAIL", "ada@example.org"),
    ("GIT_COMMITTER_NAME", "Ada"),
    ("GIT_COMMITTER_EMAIL", "ada@example.org"),
];

pub(crate) fn environment() -> Environment {
    let mut environment = Environment::inherited();
    for (name, value) in USER {
        environment.set(name, value);
    }
    environment
}

/// Git as a user calls it. Its whole output.
pub(crate) fn git(folder: &Path, args: &[&str]) -> String {
    let output = Command::new("git").args(args).current_dir(folder).envs(USER).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {args:?} in {}: {said}", folder.display());
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn commit(folder: &Path, file: &str, content: &str) {
    fs::write(folder.join(file), content).unwrap();
    git(folder, &["add", "--", file]);
    git(folder, &["commit", "-q", "-m", file]);
}

/// A project with a repository that has one commit, a changed, a staged and a new file of the user's.
pub(crate) struct Fixture {
    _folder: Folder,
    pub(crate) root: PathBuf,
    pub(crate) environment: Environment,
    pub(crate) before: Tree,
}

/// All files of a folder with their bytes, without the store and what git keeps.
pub(crate) type Tree = BTreeMap<PathBuf, Vec<u8>>;

impl Fixture {
    pub(crate) fn new() -> Self {
        let folder = Folder::new();
        let root = folder.0.join("repository");
        fs::create_dir(&root).unwrap();
        git(&root, &["init", "-q", "-b", "main"]);
        fs::write(root.join(".gitignore"), "*.ignored\n").unwrap();
        git(&root, &["add", "."]);
        commit(&root, "shared", "one\ntwo\nthree\n");
        commit(&root, "changed", "as committed\n");
        commit(&root, "staged", "as committed\n");
        fs::write(root.join("changed"), "the user's\n").unwrap();
        fs::write(root.join("staged"), "the user's\n").unwrap();
        git(&root, &["add", "staged"]);
        fs::write(root.join("new"), "the user's\n").unwrap();
        let project = Project::of(&root).unwrap();
        fs::create_dir(project.store()).unwrap();
        project.ignore_store();
        Self::of(folder, root)
    }

    fn of(folder: Folder, root: PathBuf) -> Self {
        // Git notes when it looks at files. There is something new to note, and nobody may do so.
        git(&root, &["status"]);
        let shared = fs::File::options().write(true).open(root.join("shared")).unwrap();
        shared.set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000_000)).unwrap();
        let before = users(&root);
        Self { _folder: folder, root, environment: environment(), before }
    }

    /// The same once more, which is faster than to make it.
    pub(crate) fn copy(&self) -> Self {
        let folder = Folder::new();
        let root = folder.0.join("repository");
        let copied = Command::new("cp").arg("-a").arg("--").args([&self.root, &root]).status().unwrap();
        assert!(copied.success());
        Self::of(folder, root)
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.root.join(".threadline/worktrees/r1")
    }

    pub(crate) fn try_open(&self) -> Result<Worktrees, WorktreeError> {
        Worktrees::open(&self.root, &self.folder(), &RunId::new("r1").unwrap(), &self.environment)
    }

    pub(crate) fn open(&self) -> Worktrees {
        self.try_open().unwrap()
    }

    /// The user's branch, index and files are as they were.
    pub(crate) fn assert_user_untouched(&self) {
        assert_eq!(users(&self.root), self.before);
    }

    /// There are these branches beside the user's, and one worktree: the user's.
    pub(crate) fn assert_only(&self, branches: &[&str]) {
        assert_eq!(self.branches(), branches);
        let listed = git(&self.root, &["worktree", "list", "--porcelain"]);
        assert_eq!(listed.matches("worktree ").count(), 1, "{listed}");
        let kept = self.root.join(".git/worktrees");
        assert!(!kept.exists() || fs::read_dir(kept).unwrap().next().is_none());
        if let Ok(left) = fs::read_dir(self.folder()) {
            assert_eq!(left.map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>(), ["begun"]);
        }
        self.assert_user_untouched();
    }

    pub(crate) fn branches(&self) -> Vec<String> {
        let all = git(&self.root, &["for-each-ref", "--format=%(refname:short)"]);
        all.lines().filter(|name| *name != "main").map(str::to_owned).collect()
    }

    pub(crate) fn show(&self, what: &str) -> String {
        git(&self.root, &["show", what])
    }
}

/// All that belongs to the user: files, index, where the branch is, and what git says about them.
pub(crate) fn users(root: &Path) -> Tree {
    let mut tree = Tree::new();
    collect(root, root, &mut tree);
    for file in [".git/HEAD", ".git/index", ".git/config", ".git/refs/heads/main"] {
        tree.insert(file.into(), fs::read(root.join(file)).unwrap());
    }
    let status = git(root, &["--no-optional-locks", "status", "--porcelain", "-uall", "-z"]);
    tree.insert("status".into(), status.into());
    tree
}

fn collect(root: &Path, folder: &Path, tree: &mut Tree) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path == root.join(".git") || path == root.join(".threadline") {
            continue;
        }
        if path.is_dir() {
            collect(root, &path, tree);
        } else {
            tree.insert(path.strip_prefix(root).unwrap().to_owned(), fs::read(&path).unwrap());
        }
    }
}

pub(crate) fn closed(branch: Option<&str>, commits: u64, kept: &[&str]) -> Closed {
    let kept = kept.iter().map(|&name| name.to_owned()).collect();
    Closed { branch: branch.map(str::to_owned), commits, kept, in_flight: Vec::new() }
}
