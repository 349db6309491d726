//! The power fails: of what a run wrote and did not sync, some is on the disk, some is not, some is torn. Every write of
//! the real binary is recorded, and images of the disk are made of the records. Nothing that anybody was told is missing
//! in any of them, nothing is damaged, and the run goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use threadline_lang::{Limits, Value, data};
use threadline_store::{Hash, JournalReader, RunId, Store, StoreError};

use crate::harness::{Workflow, workflow};
use crate::support::faults::{self, RecordedCall};
use crate::support::{is_long, seed};

/// Images in the short form, over all examples.
const IMAGES: usize = 2_000;

/// Values in the table and as a file, items side by side, a step that waits for the disk before it acts.
const EXAMPLES: [&str; 2] = [
    "- {id: one, shell: 'head -c 9000 /dev/zero | base64'}
- {id: large, shell: 'head -c 900000 /dev/zero | base64'}
- {id: careful, on_crash: fail, shell: 'echo ${one} | wc -c'}
- {id: each, foreach: [1, 2, 3], do: [{argv: [echo, '${item}']}]}
- {id: last, shell: 'echo ${careful} ${uuid} | wc -c'}
",
    "map:
  input: {shell: seq 12}
  max_parallel: 3
  steps: [{shell: 'echo ${item}'}]
reduce:
- {id: last, shell: 'echo ${map.results | count}'}
",
];

/// Numbers that look random.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % end.max(1)
    }
}

/// A file on the disk, and what was written to it since it was synced last.
#[derive(Clone, Default)]
struct DiskFile {
    synced: Vec<u8>,
    pending: Vec<RecordedCall>,
}

/// A disk with a cache. A file keeps its key here; its number may be given to another file when it is gone.
#[derive(Clone, Default)]
struct Disk {
    files: Vec<DiskFile>,
    /// The names on the disk.
    names: BTreeMap<PathBuf, usize>,
    /// Files whose names were changed since a folder was synced.
    renamed: Vec<(RecordedCall, usize)>,
    /// The names and numbers that processes see.
    seen: BTreeMap<PathBuf, (u64, usize)>,
}

impl Disk {
    /// A disk with the files of a folder.
    fn of(folder: &Path) -> Self {
        let mut disk = Self::default();
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("a folder").flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let number = entry.metadata().expect("a file").ino();
                    let key = disk.create(path.clone(), number);
                    disk.files[key].synced = fs::read(&path).expect("a file");
                }
            }
        }
        disk
    }

    fn create(&mut self, path: PathBuf, number: u64) -> usize {
        let key = self.files.len();
        self.files.push(DiskFile::default());
        self.names.insert(path.clone(), key);
        self.seen.insert(path, (number, key));
        key
    }

    /// The file of a call, which may be new.
    fn file_of(&mut self, call: &RecordedCall) -> usize {
        match self.seen.get(&call.path) {
            Some((number, key)) if *number == call.file => *key,
            _ => self.create(call.path.clone(), call.file),
        }
    }

    fn take(&mut self, call: &RecordedCall) {
        match call.sort {
            // Nobody finds a file that is gone.
            'W' | 'T' if call.path.to_string_lossy().ends_with(" (deleted)") => {}
            'W' | 'T' => {
                let key = self.file_of(call);
                self.files[key].pending.push(call.clone());
            }
            'F' => self.sync(&call.path),
            'R' | 'U' => {
                let Some((number, key)) = self.seen.remove(&call.path) else { return };
                if call.sort == 'R' {
                    self.seen.insert(new_name(call), (number, key));
                }
                self.renamed.push((call.clone(), key));
            }
            _ => {}
        }
    }

    /// What was written to a file is on disk; or, of a folder, how the files are called.
    fn sync(&mut self, path: &Path) {
        if let Some((_, key)) = self.seen.get(path) {
            let file = &mut self.files[*key];
            for call in std::mem::take(&mut file.pending) {
                apply(&mut file.synced, &call, call.data.len());
            }
        } else {
            for (call, key) in std::mem::take(&mut self.renamed) {
                rename(&mut self.names, &call, key);
            }
        }
    }

    /// What is on the disk after the power was lost, in a folder of its own.
    fn image(&self, from: &Path, into: &Path, random: &mut Random) {
        let mut names = self.names.clone();
        let kept = random.below(self.renamed.len() + 1);
        for (call, key) in self.renamed.iter().take(kept) {
            rename(&mut names, call, *key);
        }
        // Everything is lost, everything is there, or each write has a fate of its own.
        let fate = random.below(8);
        for (path, key) in names {
            let Ok(below) = path.strip_prefix(from) else { continue };
            if below.to_string_lossy().ends_with("-shm") {
                continue;
            }
            let file = &self.files[key];
            let mut bytes = file.synced.clone();
            for call in &file.pending {
                let whole = call.data.len();
                let length = match (fate, random.below(3)) {
                    (0, _) | (2.., 0) => continue,
                    (1, _) | (2.., 1) => whole,
                    (_, _) if call.sort == 'T' => continue,
                    (_, _) => random.below(whole + 1) / 512 * 512,
                };
                apply(&mut bytes, call, length);
            }
            let path = into.join(below);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(&path, bytes).expect("a file of an image");
            // Files of a store are their owner's alone.
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("a file of an image");
        }
    }
}

/// Does to a file what a call did, with a part of its data.
fn apply(bytes: &mut Vec<u8>, call: &RecordedCall, length: usize) {
    let at = usize::try_from(call.at).expect("a length");
    if call.sort == 'T' {
        bytes.resize(at, 0);
        return;
    }
    if length == 0 {
        return;
    }
    if bytes.len() < at + length {
        bytes.resize(at + length, 0);
    }
    bytes[at..at + length].copy_from_slice(&call.data[..length]);
}

fn rename(names: &mut BTreeMap<PathBuf, usize>, call: &RecordedCall, key: usize) {
    if names.get(&call.path) != Some(&key) {
        return;
    }
    names.remove(&call.path);
    if call.sort == 'R' {
        names.insert(new_name(call), key);
    }
}

fn new_name(call: &RecordedCall) -> PathBuf {
    PathBuf::from(String::from_utf8_lossy(&call.data).into_owned())
}

/// The events that somebody was told of and that are on disk before: results, and ends.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ToldEvent {
    seq: u64,
    kind: String,
}

fn told(call: &RecordedCall) -> Vec<ToldEvent> {
    let text = String::from_utf8_lossy(&call.data).into_owned();
    let event = |line: &str| {
        let event = data::json::read_value(line, &Limits::DEFAULT).ok()?;
        let kind = event.get("kind").and_then(Value::as_str)?.to_owned();
        let is_result =
            matches!(kind.as_str(), "run_started" | "finished" | "item_ended" | "judged" | "run_ended");
        let seq = u64::try_from(event.get("seq")?.as_i64()?).ok()?;
        is_result.then_some(ToldEvent { seq, kind })
    };
    text.lines().filter_map(event).collect()
}

/// Reads everything of an image: each run, each of its events and all values that they name.
fn content(folder: &Path) -> Result<BTreeMap<RunId, Vec<ToldEvent>>, StoreError> {
    // As a process does that writes: the log is taken in.
    drop(Store::open(folder)?);
    let reader = JournalReader::open(folder)?;
    let mut runs = BTreeMap::new();
    for run in reader.runs()? {
        let mut events = Vec::new();
        for event in reader.read(&run.id, 1)? {
            let event = event?;
            for part in event.payload.split(r#""hash":""#).skip(1) {
                let hash: Hash = part.get(..64).and_then(|hash| hash.parse().ok()).expect("a hash");
                reader.value(&hash)?;
            }
            events.push(ToldEvent { seq: event.seq, kind: event.kind });
        }
        runs.insert(run.id, events);
    }
    Ok(runs)
}

/// The points at which the power fails: all of them, or some.
fn cuts(calls: usize, count: usize, random: &mut Random) -> Vec<usize> {
    if is_long() {
        return (0..=calls).flat_map(|cut| [cut; 8]).collect();
    }
    (0..count).map(|_| random.below(calls + 1)).collect()
}

/// The disk and what was told when so many calls were made.
fn at_cut(disk: &Disk, calls: &[RecordedCall]) -> (Disk, BTreeSet<ToldEvent>) {
    let (mut disk, mut events) = (disk.clone(), BTreeSet::new());
    for call in calls {
        disk.take(call);
        if call.sort == 'O' {
            events.extend(told(call));
        }
    }
    (disk, events)
}

#[test]
fn nothing_that_was_told_is_missing_after_a_power_loss() {
    let mut random = Random(seed());
    let (mut images, mut resumed, mut checked) = (0, 0, 0);
    for text in EXAMPLES {
        let workflow = workflow(text);
        let store = workflow.project.path().join(".threadline");
        let before = Disk::of(&store);
        let calls = faults::record(&["run", "--json", "workflow.yaml"], workflow.project.path());
        for cut in cuts(calls.len(), IMAGES * 3 / 8, &mut random) {
            let (disk, events) = at_cut(&before, &calls[..cut]);
            let image = workflow.project.path().with_file_name("image");
            let _ = fs::remove_dir_all(&image);
            let folder = image.join(".threadline");
            disk.image(&store, &folder, &mut random);
            images += 1;
            let what = format!("cut at call {cut} of {}, image {images}, seed {}", calls.len(), seed());
            let runs = content(&folder).unwrap_or_else(|error| panic!("{what}: {error}"));
            let there: BTreeSet<ToldEvent> = runs.into_values().flatten().collect();
            let missing: Vec<&ToldEvent> = events.difference(&there).collect();
            assert!(missing.is_empty(), "{what}: {missing:?} is missing");
            checked += events.len();
            if images % if is_long() { 20 } else { 150 } == 0 {
                resumed += 1;
                go_on(&workflow, &image, &what);
            }
        }
    }
    println!("{images} images, {checked} events that were told, {resumed} runs went on");
    assert!(
        images > 500 && checked > 500 && resumed > 2,
        "{images} images, {checked} events, {resumed} runs"
    );
}

/// What is left of a run on an image goes on to its end.
fn go_on(workflow: &Workflow, image: &Path, what: &str) {
    let folder = image.display().to_string();
    fs::copy(workflow.project.path().join("workflow.yaml"), image.join("workflow.yaml"))
        .expect("the workflow");
    let resumed = workflow.command(&["resume", "--in-flight", "rerun", "--dir", &folder]).wait();
    let has_none = resumed.stderr.contains("no run yet") || resumed.stderr.contains("has nothing to resume");
    assert!(resumed.exit == 0 || has_none, "{what}: {}", resumed.stderr);
}

#[test]
fn a_power_loss_while_cleaning_up_harms_no_run_that_stays() {
    let mut random = Random(seed());
    let workflow = workflow(EXAMPLES[0]);
    for _ in 0..5 {
        workflow.run().well();
    }
    let store = workflow.project.path().join(".threadline");
    let before = Disk::of(&store);
    let whole = content(&store).expect("the store");
    let calls = faults::record(&["clean", "--keep", "2"], workflow.project.path());
    let stays = content(&store).expect("the store");
    assert_eq!(stays.len(), 2);
    let mut images = 0;
    for cut in cuts(calls.len(), IMAGES / 4, &mut random) {
        let (disk, _) = at_cut(&before, &calls[..cut]);
        let image = workflow.project.path().with_file_name("image");
        let _ = fs::remove_dir_all(&image);
        let folder = image.join(".threadline");
        disk.image(&store, &folder, &mut random);
        images += 1;
        let what = format!("cut at call {cut} of {}, image {images}, seed {}", calls.len(), seed());
        let runs = content(&folder).unwrap_or_else(|error| panic!("{what}: {error}"));
        for (run, events) in &runs {
            assert!(whole.get(run) == Some(events), "{what}: run {run} is not whole");
        }
        assert!(stays.keys().all(|run| runs.contains_key(run)), "{what}: a run that stays is gone");
    }
    println!("{images} images of {} calls", calls.len());
    assert!(images > 50 && calls.len() > 10, "{images} images of {} calls", calls.len());
}
