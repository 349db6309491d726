//! What git knows of a working tree, as data, so that it can be made on another machine, and changed here as it was
//! changed there.
//!
//! Carried are branches, tags and other references, the commit or branch that is checked out, what is staged, and who
//! commits. Hooks, other settings and what is in the middle of a merge stay where they are. Nothing here looks at the
//! files of the working tree, or writes them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::error::WorktreeError;
use super::git::{Git, GitCall};
use crate::process::Environment;

/// Files that say that git is in the middle of something.
const UNFINISHED: [&str; 6] =
    ["MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "BISECT_LOG"];

/// What git knows of a working tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CarriedRepository {
    /// How objects are named: `sha1` or `sha256`.
    pub format: String,
    /// `ref: NAME` of the branch that is checked out, or a commit.
    pub head: String,
    /// The references, and what they name.
    pub refs: BTreeMap<String, String>,
    /// The tree of what is staged.
    pub index: Option<String>,
    /// The name and the address of who commits.
    pub user: [Option<String>; 2],
}

impl CarriedRepository {
    /// The objects that all others are reached from.
    pub fn tips(&self) -> BTreeSet<String> {
        let detached = (!self.head.starts_with("ref: ")).then(|| self.head.clone());
        self.refs.values().cloned().chain(detached).chain(self.index.clone()).collect()
    }

    /// The commit that is checked out.
    fn commit(&self) -> Option<&String> {
        match self.head.strip_prefix("ref: ") {
            Some(name) => self.refs.get(name),
            None => Some(&self.head),
        }
    }
}

/// The repository of a working tree.
#[derive(Debug)]
pub struct RepositoryCarrier<'f> {
    folder: &'f Path,
    git: Git,
}

impl<'f> RepositoryCarrier<'f> {
    /// That of a folder, which is or becomes the top of a working tree.
    pub fn new(folder: &'f Path, environment: &Environment) -> Self {
        Self { folder, git: Git::new(environment, "") }
    }

    fn call(&self, purpose: &str) -> GitCall<'_> {
        self.git.within(self.folder, purpose)
    }

    /// Whether there is a repository.
    pub fn is_there(&self) -> bool {
        fs::symlink_metadata(self.folder.join(".git")).is_ok()
    }

    /// What git knows now; nothing where there is no repository.
    pub fn describe(&self) -> Result<Option<CarriedRepository>, WorktreeError> {
        if !self.is_there() {
            return Ok(None);
        }
        let format =
            self.call("name the format of objects").args(["rev-parse", "--show-object-format"]).line()?;
        let branch =
            self.call("name the current branch").args(["symbolic-ref", "--quiet", "HEAD"]).answer()?;
        let head = if branch.code == 0 {
            format!("ref: {}", String::from_utf8_lossy(branch.stdout.trim_ascii_end()))
        } else {
            self.call("name the current commit").args(["rev-parse", "--verify", "HEAD"]).object()?
        };
        let listed = self.call("list the references");
        let listed = listed.args(["for-each-ref", "--format=%(objectname) %(symref) %(refname)"]).bytes()?;
        let mut refs = BTreeMap::new();
        for line in String::from_utf8_lossy(&listed).lines() {
            let mut words = line.splitn(3, ' ');
            if let (Some(object), Some(""), Some(name)) = (words.next(), words.next(), words.next()) {
                refs.insert(name.to_owned(), object.to_owned());
            }
        }
        // Where something is in the middle of a merge there is no tree.
        let staged = self.call("list what is staged").arg("write-tree").answer()?;
        let index =
            (staged.code == 0).then(|| String::from_utf8_lossy(staged.stdout.trim_ascii()).into_owned());
        let who =
            self.call("say who commits").args(["config", "--null", "--get-regexp", r"^user\.(name|email)$"]);
        let who = who.answer()?.stdout;
        let setting = |name: &str| {
            let pairs = who.split(|byte| *byte == 0).filter_map(|pair| std::str::from_utf8(pair).ok());
            let mut values = pairs.filter_map(|pair| pair.split_once('\n')).filter(|(key, _)| *key == name);
            values.next_back().map(|(_, value)| value.to_owned())
        };
        let user = [setting("user.name"), setting("user.email")];
        let format = format.to_string_lossy().into_owned();
        Ok(Some(CarriedRepository { format, head, refs, index, user }))
    }

    /// What git is in the middle of, which cannot be carried.
    pub fn unfinished(&self) -> Result<Option<&'static str>, WorktreeError> {
        if !self.is_there() {
            return Ok(None);
        }
        let folder = self.call("find the repository").args(["rev-parse", "--absolute-git-dir"]).line()?;
        let folder = PathBuf::from(folder);
        Ok(UNFINISHED.into_iter().find(|name| folder.join(name).exists()))
    }

    /// Writes the objects that are reached from `wanted` and not from `known` into a file in a folder; none where there
    /// are no such objects. What is known and not here does not count.
    pub fn pack(
        &self,
        wanted: &BTreeSet<String>,
        known: &BTreeSet<String>,
        folder: &Path,
    ) -> Result<Option<PathBuf>, WorktreeError> {
        let mut asked = String::new();
        for object in known {
            let _ = writeln!(asked, "{object}");
        }
        let here =
            self.call("look for objects").args(["cat-file", "--batch-check=%(objectname) %(objecttype)"]);
        let here = here.input(asked.into_bytes()).bytes()?;
        let here = String::from_utf8_lossy(&here);
        let here =
            here.lines().filter(|line| !line.ends_with(" missing")).filter_map(|line| line.split_once(' '));
        let mut asked = String::new();
        for object in wanted {
            let _ = writeln!(asked, "{object}");
        }
        for (object, _) in here {
            let _ = writeln!(asked, "^{object}");
        }
        let call = self.call("pack objects");
        let call = call.args(["pack-objects", "--revs", "--quiet", "--non-empty"]).arg(folder.join("pack"));
        let packed = call.input(asked.into_bytes()).bytes()?;
        let names = String::from_utf8_lossy(&packed);
        Ok(names.lines().last().map(|name| folder.join(format!("pack-{name}.pack"))))
    }

    /// Makes a repository in the folder, with the objects of others and nothing of its own. `objects` are the folders of
    /// objects.
    pub fn make(&self, carried: &CarriedRepository, objects: &[PathBuf]) -> Result<(), WorktreeError> {
        let format = format!("--object-format={}", carried.format);
        self.call("make a repository").args(["init", "--quiet", "--template=", &format]).done()?;
        let repository = self.folder.join(".git");
        let mut text = Vec::new();
        for folder in objects {
            text.extend_from_slice(folder.as_os_str().as_bytes());
            text.push(b'\n');
        }
        let write = |name: &str, text: &[u8]| {
            let path = repository.join(name);
            let parent = path.parent().map_or(Ok(()), fs::create_dir_all);
            parent.and_then(|()| fs::write(&path, text)).map_err(|error| WorktreeError::io(&path, &error))
        };
        write("objects/info/alternates", &text)?;
        let mut refs = "# pack-refs with: sorted \n".to_owned();
        for (name, object) in &carried.refs {
            let _ = writeln!(refs, "{object} {name}");
        }
        write("packed-refs", refs.as_bytes())?;
        write("HEAD", format!("{}\n", carried.head).as_bytes())?;
        self.set_user(&[None, None], &carried.user)?;
        self.stage(carried)
    }

    fn set_user(
        &self,
        before: &[Option<String>; 2],
        after: &[Option<String>; 2],
    ) -> Result<(), WorktreeError> {
        for (place, name) in ["user.name", "user.email"].into_iter().enumerate() {
            if let Some(value) = &after[place]
                && before[place] != after[place]
            {
                self.call("say who commits").args(["config", name, value]).done()?;
            }
        }
        Ok(())
    }

    /// Whether anything is staged that is in no commit.
    fn has_staged(&self, now: &CarriedRepository) -> Result<bool, WorktreeError> {
        let Some(commit) = now.commit() else { return Ok(now.index.is_some()) };
        let call = self.call("find the files of a commit").args(["rev-parse", "--verify"]);
        let tree = call.arg(format!("{commit}^{{tree}}")).object()?;
        Ok(now.index.as_ref() != Some(&tree))
    }

    /// Makes what is staged what it was, as if the files had been looked at.
    fn stage(&self, carried: &CarriedRepository) -> Result<(), WorktreeError> {
        if let Some(tree) = carried.index.as_ref().or_else(|| carried.commit()) {
            self.call("stage what was staged").args(["read-tree", tree]).done()?;
            // It says which files differ by its exit code.
            self.call("look at the files").args(["update-index", "-q", "--refresh"]).answer()?;
        }
        Ok(())
    }

    /// Changes the repository as it was changed elsewhere, with the objects in a pack. Says what stands against it: then
    /// nothing was changed but for objects that nobody needs. To do it again does nothing.
    pub fn change(
        &self,
        before: Option<&CarriedRepository>,
        after: &CarriedRepository,
        pack: Option<Vec<u8>>,
    ) -> Result<Option<String>, WorktreeError> {
        if !self.is_there() {
            let format = format!("--object-format={}", after.format);
            self.call("make a repository").args(["init", "--quiet", &format]).done()?;
        }
        let new = CarriedRepository { format: after.format.clone(), ..CarriedRepository::default() };
        let before = before.unwrap_or(&new);
        let now = self.describe()?.unwrap_or_default();
        if now.format != after.format {
            return Ok(Some("the format of its objects is another one".to_owned()));
        }
        let names: BTreeSet<&String> = before.refs.keys().chain(after.refs.keys()).collect();
        let mut updates = String::new();
        for name in names {
            let [before, after, now] = [before, after, &now].map(|state| state.refs.get(name));
            if before == after || now == after {
                continue;
            }
            if now != before {
                return Ok(Some(format!("`{name}` was moved")));
            }
            let zero = "0".repeat(after.or(now).map_or(40, String::len));
            let (new, old) = (after.unwrap_or(&zero), now.unwrap_or(&zero));
            let _ = match after {
                Some(_) => writeln!(updates, "update {name} {new} {old}"),
                None => writeln!(updates, "delete {name} {old}"),
            };
        }
        if before.head != after.head
            && now.head != before.head
            && now.head != after.head
            && !before.head.is_empty()
        {
            return Ok(Some("another branch or commit is checked out".to_owned()));
        }
        let is_staged_anew = before.index != after.index;
        // What nobody staged is what a new repository has.
        let moved = now.index != before.index && now.index != after.index;
        if is_staged_anew && moved && before.index.is_some() && self.has_staged(&now)? {
            return Ok(Some("other changes were staged".to_owned()));
        }
        if let Some(pack) = pack {
            self.call("take objects").args(["unpack-objects", "-q"]).input(pack).done()?;
        }
        if !updates.is_empty() {
            let call = self.call("move references").args(["update-ref", "--stdin"]);
            call.input(updates.into_bytes()).done()?;
        }
        if now.head != after.head && before.head != after.head {
            if let Some(name) = after.head.strip_prefix("ref: ") {
                self.call("check out a branch").args(["symbolic-ref", "HEAD", name]).done()?;
            } else {
                let call = self.call("check out a commit");
                call.args(["update-ref", "--no-deref", "HEAD", &after.head]).done()?;
            }
        }
        self.set_user(&before.user, &after.user)?;
        Ok(None)
    }

    /// Makes what is staged what is staged elsewhere: after the files are what they are there.
    pub fn change_staged(
        &self,
        before: Option<&CarriedRepository>,
        after: &CarriedRepository,
    ) -> Result<(), WorktreeError> {
        if before.is_none_or(|before| before.index != after.index) { self.stage(after) } else { Ok(()) }
    }

    /// Makes a pack usable as a folder of objects: its index is written beside it.
    pub fn index_pack(pack: &Path, environment: &Environment) -> Result<(), WorktreeError> {
        let folder = pack.parent().unwrap_or(pack);
        let git = Git::new(environment, "");
        let call = git.within(folder, "list the objects of a pack");
        call.args(["index-pack".as_ref(), pack.as_os_str()]).done()
    }
}
