use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use threadline_runner::process::Environment;

use super::apply::{ApplyError, ChangeLog, Changed, Contents, apply};
use super::copy::{ContentCache, PrivateCopy};
use super::scan::Scanner;
use super::*;
use crate::blobs::BlobStore;

/// A project, a store and a cache in a folder that is removed with it.
struct Place {
    outer: PathBuf,
    store: BlobStore,
    cache: ContentCache,
    env: Environment,
}

impl Place {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let outer = std::env::temp_dir().join(format!("threadline-bundle-{}-{count}", std::process::id()));
        fs::create_dir_all(outer.join("project")).unwrap();
        let store = BlobStore::of_folder(&outer.join("blobs")).unwrap();
        let cache = ContentCache::open(&outer.join("cache")).unwrap();
        Self { outer, store, cache, env: Environment::inherited() }
    }

    fn project(&self) -> PathBuf {
        self.outer.join("project")
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.project().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.project().join(path)).unwrap_or_default()
    }

    fn scan(&self) -> Bundle {
        let written = std::collections::BTreeSet::new();
        let mut scanner = Scanner::default();
        let (bundle, list) =
            scanner.scan(&self.project(), &self.env, &written, &self.store, &self.outer).unwrap();
        let text = String::from_utf8(self.store.get(&list).unwrap()).unwrap();
        assert_eq!(Bundle::read(&text).as_ref(), Ok(&bundle));
        bundle
    }

    fn copy(&self) -> PrivateCopy {
        let within = self.outer.join("copies");
        PrivateCopy::make(&within, "project", self.scan(), &self.cache, &self.store, &self.env).unwrap()
    }

    /// What somebody did in a copy, as it arrives.
    fn change(&self, copy: &PrivateCopy) -> BundleChange {
        let change = copy.change(&self.store).unwrap();
        assert_eq!(read_change(&change_value(&change)).as_ref(), Ok(&change));
        change
    }

    fn log(&self) -> ChangeLog {
        ChangeLog::open(&self.outer.join("changes/run.jsonl")).unwrap()
    }

    fn apply(&self, act: &str, change: &BundleChange) -> Result<(), ApplyError> {
        let mut contents = Contents::fetch(change, &self.outer.join("incoming"), &self.store).unwrap();
        let root = self.project();
        let changed = Changed { act, at: act, root: &root, folder: "", env: &self.env };
        apply(&changed, change, &mut contents, &mut self.log())
    }

    fn conflict(&self, act: &str, change: &BundleChange) -> String {
        match self.apply(act, change) {
            Err(ApplyError::Conflict(what)) => what,
            other => panic!("{other:?}"),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.outer);
    }
}

#[test]
fn no_path_leads_out_of_a_copy() {
    for path in
        ["", "/etc", "..", "a/../b", "a//b", "a/", "./a", ".git", "a/.git/hooks", ".threadline/x", "a\0"]
    {
        assert!(check_path(path).is_err(), "{path:?}");
    }
    for path in ["a", "a/b", "...", ".gitignore", "a b/c\n"] {
        assert_eq!(check_path(path), Ok(()), "{path:?}");
    }
    let entry = |path: &str| format!(r#"{{"path":{path:?},"is":{{"link":"/etc"}}}}"#);
    let list = |entries: &[String]| format!(r#"{{"v":1,"entries":[{}]}}"#, entries.join(","));
    assert!(Bundle::read(&list(&[entry("a")])).is_ok());
    // What stands below a link would be written where the link leads.
    for entries in [&[entry("a"), entry("a/passwd")][..], &[entry("a/passwd")], &[entry("../a")]] {
        assert!(Bundle::read(&list(entries)).is_err(), "{entries:?}");
    }
    assert!(Bundle::read(r#"{"v":2,"entries":[]}"#).is_err());
    assert!(Bundle::read(r#"{"v":1,"entries":[],"more":1}"#).is_err());
}

#[test]
fn a_change_that_was_made_half_is_made_whole_and_once() {
    let place = Place::new();
    for path in ["kept", "removed", "folder/a", "folder/b", "becomes-a-folder"] {
        place.write(path, path);
    }
    let copy = place.copy();
    let root = copy.root();
    fs::write(root.join("kept"), "new").unwrap();
    fs::remove_file(root.join("removed")).unwrap();
    fs::remove_dir_all(root.join("folder")).unwrap();
    fs::write(root.join("folder"), "a file now").unwrap();
    fs::remove_file(root.join("becomes-a-folder")).unwrap();
    fs::create_dir_all(root.join("becomes-a-folder/deep")).unwrap();
    fs::write(root.join("becomes-a-folder/deep/file"), "deep").unwrap();
    fs::set_permissions(root.join("becomes-a-folder/deep"), fs::Permissions::from_mode(0o750)).unwrap();
    let change = place.change(&copy);
    // Half of it was made when the coordinator was killed: any part that the order allows.
    fs::write(place.project().join("kept"), "new").unwrap();
    fs::remove_file(place.project().join("folder/b")).unwrap();
    place.apply("1", &change).unwrap();
    let after = place.scan();
    assert_eq!((place.read("kept"), place.read("folder")), ("new".to_owned(), "a file now".to_owned()));
    assert_eq!(place.read("becomes-a-folder/deep/file"), "deep");
    assert_eq!(after.entries.get("becomes-a-folder/deep"), Some(&BundleEntry::Folder { mode: 0o750 }));
    assert!(!after.entries.contains_key("removed"));
    // The same answer is found again: nothing happens, also when a later act went on from there.
    place.apply("1", &change).unwrap();
    assert_eq!(place.scan(), after);
    place.write("kept", "newer");
    place.apply("1", &change).unwrap();
    assert_eq!(place.read("kept"), "newer");
    // Another act that did the same from the same beginning meets what is there.
    assert_eq!(place.conflict("2", &change), "`kept`: step `1` has changed it since step `2` began");
    assert_eq!(place.read("kept"), "newer");
}

#[test]
fn what_somebody_else_changed_meanwhile_is_not_overwritten() {
    let place = Place::new();
    place.write("file", "begin");
    place.write("folder/inside", "begin");
    let changed = |act: &dyn Fn(&Path)| {
        let copy = place.copy();
        act(copy.root());
        place.change(&copy)
    };
    let writes = changed(&|root| fs::write(root.join("file"), "one").unwrap());
    let removes = changed(&|root| fs::remove_file(root.join("file")).unwrap());
    let clears = changed(&|root| fs::remove_dir_all(root.join("folder")).unwrap());
    let adds = changed(&|root| fs::write(root.join("folder/more"), "more").unwrap());
    let links = changed(&|root| {
        fs::remove_dir_all(root.join("folder")).unwrap();
        std::os::unix::fs::symlink("/etc", root.join("folder")).unwrap();
    });
    let touches = changed(&|root| {
        let file = fs::File::options().write(true).open(root.join("file")).unwrap();
        file.set_modified(std::time::SystemTime::now()).unwrap();
    });
    place.apply("touches", &touches).unwrap();
    place.apply("writes", &writes).unwrap();
    assert_eq!(
        place.conflict("removes", &removes),
        "`file`: step `writes` has changed it since step `removes` began"
    );
    place.apply("adds", &adds).unwrap();
    assert_eq!(
        place.conflict("clears", &clears),
        "`folder` was removed, and holds `folder/more`, which was not in its copy"
    );
    assert_eq!(place.read("folder/inside"), "begin");
    // A folder that somebody replaced with a link leads nowhere.
    fs::remove_file(place.project().join("folder/more")).unwrap();
    place.apply("links", &links).unwrap();
    let conflict = place.conflict("adds too", &adds);
    assert!(conflict.contains("its folder `folder` is gone; step `links` has changed it"), "{conflict}");
    assert!(!Path::new("/etc/more").exists());
}

#[test]
fn a_copy_tells_what_was_written_in_the_tick_after_it_was_made() {
    let place = Place::new();
    for number in 0..50 {
        place.write(&format!("file{number}"), "a");
    }
    let copy = place.copy();
    for number in 0..50 {
        fs::write(copy.root().join(format!("file{number}")), "b").unwrap();
    }
    assert_eq!(place.change(&copy).entries.len(), 50);
    assert!(place.change(&place.copy()).is_empty());
}

#[test]
fn a_cached_content_that_is_damaged_is_fetched_again() {
    let place = Place::new();
    place.write("file", "a text");
    drop(place.copy());
    let content = BlobRef::of(b"a text");
    let cached = place.cache.file(&content, &place.store).unwrap();
    fs::write(&cached, "cut").unwrap();
    assert_eq!(fs::read(place.copy().root().join("file")).unwrap(), b"a text");
}
