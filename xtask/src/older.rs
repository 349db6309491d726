//! `cargo xtask older FOLDER`: how many files of older systems load, as they are and after `migrate`, and why the others
//! do not. Each folder in FOLDER is a system.
//!
//! It drives the binary that is built, as a user would, on a copy below the target folder; FOLDER itself is only read.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::Failure;
use crate::project::{Project, files};

/// What became of one file.
struct Outcome {
    /// The system and the path in it.
    system: String,
    path: PathBuf,
    /// Whether it only has parts of other files.
    is_part: bool,
    before: Verdict,
    after: Verdict,
    /// Whether `migrate` changed the file.
    is_changed: bool,
    /// Whether a second `migrate` changed it again.
    is_unstable: bool,
}

/// What `check` said: the ids of the errors, each once.
#[derive(Default)]
struct Verdict {
    errors: Vec<String>,
}

/// Counts the files of a folder, and prints the table; with `list`, also every file that is refused.
pub(crate) fn run(project: &Project, folder: &Path, list: bool) -> Result<(), Failure> {
    let binary = project.target.join("debug/threadline");
    if !binary.exists() {
        let hint = "run `cargo build --package threadline` first";
        return Err(Failure::new(format!("there is no {}", binary.display()), hint));
    }
    let work = project.target.join("older");
    let copied = copy(folder, &work)?;
    let mut outcomes = Vec::new();
    for path in &copied {
        outcomes.push(Outcome::begin(&binary, &work, path)?);
    }
    for outcome in &mut outcomes {
        outcome.migrate(&binary, &work)?;
    }
    // Files call and import each other: they are checked again when all of them are migrated.
    for outcome in &mut outcomes {
        outcome.after = verdict(&binary, &work, &outcome.path_in(&work))?;
    }
    print!("{}", table(&outcomes));
    if list {
        print!("{}", refused(&outcomes));
    }
    Ok(())
}

/// Copies the YAML and JSON files of a folder to an empty one.
fn copy(from: &Path, to: &Path) -> Result<Vec<PathBuf>, Failure> {
    if to.exists() {
        fs::remove_dir_all(to).map_err(|error| Failure::unreadable(to, &error))?;
    }
    let mut copied = Vec::new();
    for path in files(from)? {
        let is_data = path.extension().is_some_and(|end| end == "yaml" || end == "yml" || end == "json");
        let inside = path.strip_prefix(from).unwrap_or(&path).to_owned();
        if !is_data || inside.components().count() < 2 {
            continue;
        }
        let target = to.join(&inside);
        let folder = target.parent().unwrap_or(to);
        fs::create_dir_all(folder).map_err(|error| Failure::unreadable(folder, &error))?;
        fs::copy(&path, &target).map_err(|error| Failure::unreadable(&path, &error))?;
        copied.push(inside);
    }
    if copied.is_empty() {
        let message = format!("{} has no folder with YAML or JSON files", from.display());
        return Err(Failure::new(message, "name a folder with one folder for each system"));
    }
    Ok(copied)
}

impl Outcome {
    fn begin(binary: &Path, work: &Path, path: &Path) -> Result<Self, Failure> {
        let mut parts = path.components();
        let system = parts.next().map_or(String::new(), |name| name.as_os_str().display().to_string());
        let whole = work.join(path);
        let text = fs::read_to_string(&whole).map_err(|error| Failure::unreadable(&whole, &error))?;
        let has = |key: &str| text.lines().any(|line| line.starts_with(key));
        Ok(Self {
            system,
            path: path.to_owned(),
            is_part: has("fragments:") && !has("states:"),
            before: verdict(binary, work, &whole)?,
            after: Verdict::default(),
            is_changed: false,
            is_unstable: false,
        })
    }

    fn path_in(&self, work: &Path) -> PathBuf {
        work.join(&self.path)
    }

    fn migrate(&mut self, binary: &Path, work: &Path) -> Result<(), Failure> {
        let path = self.path_in(work);
        let read = || fs::read_to_string(&path).map_err(|error| Failure::unreadable(&path, &error));
        let first = read()?;
        threadline(binary, work, &["migrate", "--write"], &path)?;
        let second = read()?;
        threadline(binary, work, &["migrate", "--write"], &path)?;
        self.is_changed = first != second;
        self.is_unstable = second != read()?;
        Ok(())
    }
}

/// What `check` says of a file; of one with expectations, what `expect` says.
fn verdict(binary: &Path, work: &Path, path: &Path) -> Result<Verdict, Failure> {
    let text = fs::read_to_string(path).map_err(|error| Failure::unreadable(path, &error))?;
    let is_expectations = text.contains("\"expectations\":");
    let call: &[&str] = if is_expectations { &["expect", "--check"] } else { &["check"] };
    let told = threadline(binary, work, call, path)?;
    let ids = told.lines().filter_map(|line| line.strip_prefix("error[")?.split_once(']'));
    let mut errors: Vec<String> = ids.map(|(id, _)| id.to_owned()).collect();
    errors.sort();
    errors.dedup();
    Ok(Verdict { errors })
}

/// What the program says on stderr. Exit codes of a program that refuses something are fine, a crash is not.
fn threadline(binary: &Path, work: &Path, call: &[&str], path: &Path) -> Result<String, Failure> {
    let mut command = Command::new(binary);
    command.current_dir(work).args(call).arg(path);
    let output = command
        .output()
        .map_err(|error| Failure::new(format!("threadline did not start: {error}"), "build it first"))?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code().is_none_or(|code| code > 3) {
        let message =
            format!("`threadline {} {}` ended with {}", call.join(" "), path.display(), output.status);
        return Err(Failure::new(message, told));
    }
    Ok(told)
}

/// The counts of every system, and what the refused files are refused for.
fn table(outcomes: &[Outcome]) -> String {
    let mut out = String::new();
    let mut line = |cells: [&str; 7]| {
        let [system, rest @ ..] = cells;
        let cells: Vec<String> = rest.iter().map(|cell| format!("{cell:>10}")).collect();
        out.extend([&format!("{system:<24}"), &*cells.concat(), "\n"]);
    };
    line(["system", "files", "parts", "load", "migrated", "refused", "unstable"]);
    let mut systems: Vec<&str> = outcomes.iter().map(|outcome| outcome.system.as_str()).collect();
    systems.dedup();
    for system in systems.iter().copied().chain(["all"]) {
        let of_system: Vec<&Outcome> =
            outcomes.iter().filter(|outcome| system == "all" || outcome.system == system).collect();
        let count = |is: &dyn Fn(&Outcome) -> bool| of_system.iter().filter(|outcome| is(outcome)).count();
        let cells = [
            of_system.len(),
            count(&|outcome| outcome.is_part),
            count(&|outcome| outcome.loads_as_it_is()),
            count(&|outcome| outcome.loads_after()),
            count(&|outcome| outcome.is_refused()),
            count(&|outcome| outcome.is_unstable),
        ]
        .map(|count| count.to_string());
        let [files, parts, load, migrated, refused, unstable] = &cells;
        line([system, files, parts, load, migrated, refused, unstable]);
    }
    let mut ids: BTreeMap<(&str, &str), (usize, usize)> = BTreeMap::new();
    for outcome in outcomes.iter().filter(|outcome| outcome.is_refused()) {
        for id in &outcome.after.errors {
            let counts = ids.entry((&outcome.system, id)).or_default();
            counts.0 += 1;
            counts.1 += usize::from(outcome.after.errors.len() == 1);
        }
    }
    let mut ids: Vec<_> = ids.into_iter().collect();
    ids.sort_by_key(|((system, _), (count, _))| (system.to_string(), std::cmp::Reverse(*count)));
    out.push_str("\nrefused after migrate, by the ids of the errors\n");
    for ((system, id), (count, alone)) in ids {
        let line = format!("{system:<24}{id:<24}{count:>5} files, {alone} of them for nothing else\n");
        out.push_str(&line);
    }
    out
}

impl Outcome {
    fn loads_as_it_is(&self) -> bool {
        !self.is_part && self.before.errors.is_empty()
    }

    fn loads_after(&self) -> bool {
        !self.is_part && self.after.errors.is_empty()
    }

    fn is_refused(&self) -> bool {
        !self.is_part && !self.after.errors.is_empty()
    }
}

/// The files that are refused, each with why.
fn refused(outcomes: &[Outcome]) -> String {
    let mut out = "\nfiles that are refused after migrate\n".to_owned();
    for outcome in outcomes.iter().filter(|outcome| outcome.is_refused()) {
        let mark = if outcome.is_changed { "changed" } else { "as it was" };
        let path = outcome.path.display();
        let line = format!("{path}: {} ({mark})\n", outcome.after.errors.join(", "));
        out.push_str(&line);
    }
    out
}
