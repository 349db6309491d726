//! The test programs that are built, and how large they are.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The bytes of the newest program of each test target, and their number. Cargo keeps older ones beside them.
pub(super) fn size(root: &Path, target: &Path) -> (u64, usize) {
    let folder = target.join("debug/deps");
    let mut newest: BTreeMap<PathBuf, (SystemTime, u64)> = BTreeMap::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "d")
            && let Some(main) = main_source(root, &path)
            && let Ok(program) = fs::metadata(path.with_extension(""))
            && let Ok(built) = program.modified()
        {
            let kept = newest.entry(main).or_insert((built, program.len()));
            *kept = (*kept).max((built, program.len()));
        }
    }
    (newest.values().map(|(_, bytes)| bytes).sum(), newest.len())
}

/// The file that a program was made of, if it is one of ours: the first that its list of sources names.
fn main_source(root: &Path, list: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(list).ok()?;
    let sources = text.lines().find_map(|line| line.split_once(": "))?.1;
    let main = root.join(sources.split_whitespace().next()?);
    main.starts_with(root.join("crates")).then_some(main)
}
