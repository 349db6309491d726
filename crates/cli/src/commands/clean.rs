//! `threadline clean` and `threadline rm`: remove runs with all that belongs to them. Which runs may go is decided here;
//! how they go is the business of the store and of the worktrees.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::Path;

use anstyle::Style;
use jiff::{SignedDuration, Timestamp};
use threadline_flow::forms;
use threadline_lang::Value;
use threadline_lang::diag::words;
use threadline_lang::value::JsonStyle;
use threadline_runner::answers::{FilesRemoved, KeptAnswers};
use threadline_runner::process::{self, Environment};
use threadline_runner::project::{Project, plain};
use threadline_runner::reload;
use threadline_runner::threads::ThreadFiles;
use threadline_runner::trust::StoreUse;
use threadline_runner::worktrees::{RunRemains, UnmergedWork, WorktreeError};
use threadline_store::{JournalReader, RunId, RunInfo, Store, StoreError};

use super::history::{of_journal, of_store, project, store_of};
use super::run::GRACE;
use super::runs::{age, local, size_text};
use super::{print, print_styled};
use crate::arguments::{CleanArguments, RmArguments};
use crate::exit::CommandFailure;
use crate::report::{self, Report};
use crate::table::Table;
use threadline_inspect::runs::{RunStatus, moment};

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const PLAIN: Style = Style::new();

/// The statuses of runs that nobody continues. Others are removed only by name.
const OVER: [RunStatus; 2] = [RunStatus::Completed, RunStatus::Failed];

/// A run that goes.
struct GoingRun {
    run: RunInfo,
    status: RunStatus,
    /// The size of its events and of those of the runs that it called.
    bytes: u64,
    branches: Vec<String>,
}

/// A run that was chosen and stays.
struct KeptRun {
    run: RunId,
    reason: KeptReason,
}
#[derive(Clone)]
enum KeptReason {
    Driven,
    /// The run that imports from it, and stays.
    Imported(RunId),
    /// The run that keeps results of it, and stays.
    Continued(RunId),
    Unmerged(UnmergedWork),
    /// What it has in the repository cannot be told.
    Unknown(WorktreeError),
}

impl KeptReason {
    fn name(&self) -> &'static str {
        match self {
            Self::Driven => "driven",
            Self::Imported(_) => "imported",
            Self::Continued(_) => "continued",
            Self::Unmerged(_) => "unmerged",
            Self::Unknown(_) => "unknown",
        }
    }

    fn message(&self) -> String {
        match self {
            Self::Driven => "a process drives it".to_owned(),
            Self::Imported(by) => format!("run `{by}` imports from it"),
            Self::Continued(by) => format!("run `{by}` continues it and keeps its results"),
            Self::Unmerged(UnmergedWork::Commits { branch, count }) => format!(
                "`{branch}` has {} that no other branch has; `--branches` removes the branches as well",
                words::count(*count, "commit")
            ),
            Self::Unmerged(UnmergedWork::Files { worktree, count }) => format!(
                "`{}` has {} in no commit; `--branches` removes the worktrees as well",
                worktree.display(),
                words::count(*count as u64, "changed file")
            ),
            Self::Unknown(error) => report::first_line(&error.to_string()).to_owned(),
        }
    }
}

/// Runs that go and runs that stay.
#[derive(Default)]
struct Cleaning {
    going: Vec<GoingRun>,
    kept: Vec<KeptRun>,
    /// Runs that were killed before they did anything.
    empty: Vec<RunInfo>,
    /// Answers of agents that nobody used for long enough.
    answers: FilesRemoved,
    /// Threads that nobody continued for long enough.
    threads: FilesRemoved,
}

pub(crate) fn clean(call: &CleanArguments) -> Result<(), CommandFailure> {
    let choice = CleanChoice::new(call)?;
    let project = project(call.removal.dir.as_deref())?;
    let folder = store_of(&project, StoreUse::Write, false)?;
    let reader = match JournalReader::open(&folder) {
        Err(StoreError::NoJournal { .. }) => {
            return if call.json {
                print_json(&Cleaning::default(), call.dry_run, [0, 0])
            } else {
                print("no runs yet\n")
            };
        }
        reader => reader.map_err(|error| of_store(&error))?,
    };
    let runs = reader.runs().map_err(|error| of_store(&error))?;
    let chosen = choice.choose(&reader, &runs)?;
    let remains = look(&project)?;
    let mut cleaning = decide(&reader, &runs, chosen, &remains, call.removal.branches)?;
    let before = reader.store_size().map_err(|error| of_store(&error))?;
    let remove_files = |cleaning: &mut Cleaning| {
        let Some(before) = choice.before else { return Ok::<(), CommandFailure>(()) };
        let before = before.into();
        let answers = KeptAnswers::of_store(&folder).remove_unused_since(before, call.dry_run);
        cleaning.answers =
            answers.map_err(|error| super::history::cannot_start(&format!("the kept answers: {error}")))?;
        let threads = ThreadFiles::of_store(&folder).remove_unused_since(before, call.dry_run);
        cleaning.threads =
            threads.map_err(|error| super::history::cannot_start(&format!("the threads: {error}")))?;
        Ok(())
    };
    if call.dry_run {
        remove_files(&mut cleaning)?;
        if call.json {
            return print_json(&cleaning, true, [before, before]);
        }
        return print_styled(&(cleaning.list(&choice) + &cleaning.summary(true, [before, before])));
    }
    if !call.json {
        print_styled(&cleaning.list(&choice))?;
        if !call.yes && !cleaning.going.is_empty() && !confirm(cleaning.going.len())? {
            return print("nothing was removed\n");
        }
    }
    drop(reader);
    let after = remove(&project, &folder, &remains, &mut cleaning)?;
    remove_files(&mut cleaning)?;
    if call.json {
        return print_json(&cleaning, false, [before, after]);
    }
    print_styled(&cleaning.summary(false, [before, after]))
}

pub(crate) fn rm(call: &RmArguments) -> Result<(), CommandFailure> {
    let project = project(call.removal.dir.as_deref())?;
    let folder = store_of(&project, StoreUse::Write, false)?;
    let reader = JournalReader::open(&folder).map_err(|error| match error {
        StoreError::NoJournal { .. } => of_store(&StoreError::NoSuchRun { name: "last".to_owned() }),
        error => of_store(&error),
    })?;
    let runs = reader.runs().map_err(|error| of_store(&error))?;
    let (mut chosen, mut refused) = (Vec::new(), Vec::new());
    for name in &call.runs {
        let run = reader.find(name).map_err(|error| of_store(&error))?;
        let status = RunStatus::of(&reader, &run)?;
        if let Some(report) = refusal(&run, status, call.force) {
            refused.push(report);
        } else if !chosen.iter().any(|(known, _): &(RunInfo, _)| known.id == run.id) {
            chosen.push((run, status));
        }
    }
    let remains = look(&project)?;
    let mut cleaning = decide(&reader, &runs, chosen, &remains, call.removal.branches)?;
    for kept in std::mem::take(&mut cleaning.kept) {
        match kept.reason {
            KeptReason::Imported(_) | KeptReason::Continued(_) if call.force => {
                let run = reader.run(&kept.run).map_err(|error| of_store(&error))?;
                let status = RunStatus::of(&reader, &run)?;
                cleaning.going.push(going(&reader, run, status, &remains)?);
            }
            reason => {
                let message = format!("run `{}` stays: {}", kept.run, reason.message());
                refused.push(match reason {
                    KeptReason::Imported(_) | KeptReason::Continued(_) => {
                        Report::with_hint(message, "`--force` removes it all the same")
                    }
                    _ => Report::plain(message),
                });
            }
        }
    }
    if !refused.is_empty() {
        return Err(CommandFailure::NotStarted(refused));
    }
    let before = reader.store_size().map_err(|error| of_store(&error))?;
    drop(reader);
    let after = remove(&project, &folder, &remains, &mut cleaning)?;
    if call.json {
        return print_json(&cleaning, false, [before, after]);
    }
    print_styled(&cleaning.summary(false, [before, after]))
}

/// Why a run that somebody named is not removed.
fn refusal(run: &RunInfo, status: RunStatus, is_forced: bool) -> Option<Report> {
    let id = &run.id;
    if id.is_called() {
        let started = id.started();
        let hint = format!("`threadline rm {started}` removes both");
        return Some(Report::with_hint(format!("run `{id}` is a part of run `{started}`"), &hint));
    }
    if status == RunStatus::Running {
        let hint = format!("`threadline stop {id}` stops it");
        return Some(Report::with_hint(format!("a process drives run `{id}`"), &hint));
    }
    if OVER.contains(&status) || is_forced {
        return None;
    }
    let hint = format!("`threadline resume {id}` continues it, `threadline rm --force {id}` removes it");
    Some(Report::with_hint(format!("run `{id}` is not over, it is {}", status.name()), &hint))
}

/// Which runs `clean` is to remove.
struct CleanChoice<'c> {
    call: &'c CleanArguments,
    now: Timestamp,
    /// Runs go that began before this.
    before: Option<Timestamp>,
}

impl<'c> CleanChoice<'c> {
    fn new(call: &'c CleanArguments) -> Result<Self, CommandFailure> {
        let CleanArguments { keep, older_than, status, workflow, .. } = call;
        if keep.is_none() && older_than.is_none() && status.is_empty() && workflow.is_none() {
            return Err(CommandFailure::Usage(
                "`clean` removes the runs that you describe, such as\n  \
                 threadline clean --keep 50                       all but the newest 50\n  \
                 threadline clean --older-than 30d                those that began more than 30 days ago\n  \
                 threadline clean --status failed --dry-run       those that failed; only list them"
                    .to_owned(),
            ));
        }
        if status.contains(&RunStatus::Running) {
            let message = "`--status running`: a run that a process drives is never removed";
            return Err(CommandFailure::Usage(message.to_owned()));
        }
        let now = Timestamp::now();
        let before = older_than.as_deref().map(|text| {
            let ago = forms::duration(&Value::from(text)).and_then(|ago| SignedDuration::try_from(ago).ok());
            ago.and_then(|ago| now.checked_sub(ago).ok()).ok_or_else(|| {
                CommandFailure::Usage(format!(
                    "`--older-than` takes a duration such as `12h` or `30d`, not `{text}`"
                ))
            })
        });
        Ok(Self { call, now, before: before.transpose()? })
    }

    /// The runs that go as far as their own rows tell, the newest first.
    fn choose(
        &self,
        reader: &JournalReader,
        runs: &[RunInfo],
    ) -> Result<Vec<(RunInfo, RunStatus)>, CommandFailure> {
        let CleanArguments { keep, status: statuses, workflow, .. } = self.call;
        let statuses = if statuses.is_empty() { &OVER[..] } else { statuses };
        let mut chosen = Vec::new();
        let mut newer = 0;
        for run in runs.iter().rev().filter(|run| !run.id.is_called() && run.events > 0) {
            let is_meant = workflow.as_ref().is_none_or(|name| run.name == *name || run.file == *name);
            let status = RunStatus::of(reader, run)?;
            if !is_meant || !statuses.contains(&status) {
                continue;
            }
            newer += 1;
            let began = moment(&run.started_at);
            let is_old = self.before.is_none_or(|before| began.is_some_and(|began| began < before));
            if is_old && keep.is_none_or(|keep| newer > keep) {
                chosen.push((run.clone(), status));
            }
        }
        Ok(chosen)
    }
}

fn look(project: &Project) -> Result<RunRemains, CommandFailure> {
    let remains = RunRemains::look(project.root(), &project.all_worktrees(), &Environment::inherited());
    remains.map_err(|error| {
        CommandFailure::NotStarted(vec![match error.hint() {
            Some(hint) => Report::with_hint(&error, &hint),
            None => Report::plain(&error),
        }])
    })
}

/// Decides about chosen runs: some have to stay.
fn decide(
    reader: &JournalReader,
    runs: &[RunInfo],
    chosen: Vec<(RunInfo, RunStatus)>,
    remains: &RunRemains,
    with_branches: bool,
) -> Result<Cleaning, CommandFailure> {
    let mut cleaning = Cleaning::default();
    for run in runs.iter().filter(|run| run.events == 0 && !run.id.is_called()) {
        // One that is just beginning is driven, and stays.
        if !reader.is_driven(&run.id).map_err(|error| of_store(&error))? {
            cleaning.empty.push(run.clone());
        }
    }
    let mut staying = Vec::new();
    for (run, status) in chosen {
        let work = if with_branches { Ok(None) } else { remains.unmerged(&run.id) };
        let reason = match work {
            Ok(None) if reader.is_driven(&run.id).map_err(|error| of_store(&error))? => KeptReason::Driven,
            Ok(None) => {
                staying.push((run, status));
                continue;
            }
            Ok(Some(work)) => KeptReason::Unmerged(work),
            Err(error) => KeptReason::Unknown(error),
        };
        cleaning.kept.push(KeptRun { run: run.id, reason });
    }
    let imported = imported_by_others(reader, runs, &staying)?;
    for (run, status) in staying {
        match imported.iter().find(|(id, _)| *id == run.id) {
            Some((_, reason)) => {
                cleaning.kept.push(KeptRun { run: run.id, reason: reason.clone() });
            }
            None => cleaning.going.push(going(reader, run, status, remains)?),
        }
    }
    Ok(cleaning)
}

fn going(
    reader: &JournalReader,
    run: RunInfo,
    status: RunStatus,
    remains: &RunRemains,
) -> Result<GoingRun, CommandFailure> {
    let bytes = reader.size_with_called(&run.id).map_err(|error| of_store(&error))?;
    let branches = remains.branches(&run.id).into_iter().map(str::to_owned).collect();
    Ok(GoingRun { run, status, bytes, branches })
}

/// The chosen runs that runs import from or continue which stay, and one of these.
fn imported_by_others(
    reader: &JournalReader,
    runs: &[RunInfo],
    chosen: &[(RunInfo, RunStatus)],
) -> Result<Vec<(RunId, KeptReason)>, CommandFailure> {
    let mut going: BTreeSet<&str> = chosen.iter().map(|(run, _)| run.id.as_str()).collect();
    let mut imported = Vec::new();
    let mut staying: Vec<&RunInfo> = runs.iter().filter(|run| !going.contains(run.id.started())).collect();
    while let Some(run) = staying.pop().filter(|_| !going.is_empty()) {
        let started = reload::started(reader, run).map_err(|error| of_journal(&error))?;
        let of_imports = started.iter().flat_map(|started| &started.imported);
        let of_imports = of_imports.map(|(_, run)| (run, KeptReason::Imported as fn(RunId) -> KeptReason));
        let continued = started.iter().flat_map(|started| &started.continues);
        let continued = continued.map(|of| (&of.run, KeptReason::Continued as fn(RunId) -> KeptReason));
        for (from, reason) in of_imports.chain(continued) {
            let from = from.split('-').next().unwrap_or(from);
            // What it imports in turn stays, too.
            if going.remove(from) {
                let by = RunId::new(run.id.started()).map_err(|error| of_store(&error))?;
                let family = runs.iter().filter(|run| run.id.started() == from);
                staying.extend(family);
                imported.push((RunId::new(from).map_err(|error| of_store(&error))?, reason(by)));
            }
        }
    }
    Ok(imported)
}

/// Asks on a terminal whether the runs shall go. Elsewhere nobody is asked.
fn confirm(count: usize) -> Result<bool, CommandFailure> {
    let (stdin, mut stderr) = (std::io::stdin(), std::io::stderr());
    if !stdin.is_terminal() || !stderr.is_terminal() {
        return Ok(true);
    }
    let asked =
        write!(stderr, "remove {}? [y/N] ", words::count(count as u64, "run")).and_then(|()| stderr.flush());
    let mut answer = String::new();
    let answered = asked.and_then(|()| stdin.lock().read_line(&mut answer));
    answered.map_err(|error| super::history::cannot_start(&error.to_string()))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Removes the runs that go, and returns the size of the store afterwards. A run that a process drives by now stays.
fn remove(
    project: &Project,
    folder: &Path,
    remains: &RunRemains,
    cleaning: &mut Cleaning,
) -> Result<u64, CommandFailure> {
    let store = Store::open(folder).map_err(|error| of_store(&error))?;
    process::belong_to(store.identity().map_err(|error| of_store(&error))?);
    let mut driven: BTreeSet<RunId> = BTreeSet::new();
    // What a run has outside of the store goes first: as long as the run is there, it is found again.
    for GoingRun { run, status, .. } in &cleaning.going {
        let has_processes = *status == RunStatus::Interrupted;
        if !remains.has(&run.id) && !has_processes {
            continue;
        }
        let _lease = match store.lease(&run.id) {
            Err(StoreError::Busy { .. }) => {
                driven.insert(run.id.clone());
                continue;
            }
            lease => lease.map_err(|error| of_store(&error))?,
        };
        process::end_left_over(run.id.as_str(), GRACE);
        if let Err(error) = remains.remove(&run.id) {
            driven.insert(run.id.clone());
            cleaning.kept.push(KeptRun { run: run.id.clone(), reason: KeptReason::Unknown(error) });
        }
    }
    let runs = cleaning.going.iter().map(|going| &going.run).chain(&cleaning.empty);
    let runs: Vec<RunInfo> = runs.filter(|run| !driven.contains(&run.id)).cloned().collect();
    let outcome = store.remove_runs(&runs).map_err(|error| of_store(&error))?;
    for run in &outcome.removed {
        // What cannot be removed stays where everybody sees it, and nothing needs it.
        if let Err(error) = project.remove_run_folder(run.as_str()) {
            report::print_note(&format!("the folder of run {run} stays: {}", plain(&error)));
        }
    }
    driven.extend(outcome.driven);
    for GoingRun { run, .. } in cleaning.going.extract_if(.., |going| driven.contains(&going.run.id)) {
        if !cleaning.kept.iter().any(|kept| kept.run == run.id) {
            cleaning.kept.push(KeptRun { run: run.id, reason: KeptReason::Driven });
        }
    }
    let sweep = store.sweep().map_err(|error| of_store(&error))?;
    if !sweep.can_shrink {
        report::print_note(
            "an earlier version made this journal: its file does not become smaller, and new runs use what is free",
        );
    }
    store.close().map_err(|error| of_store(&error))?;
    let reader = JournalReader::open(folder).map_err(|error| of_store(&error))?;
    reader.store_size().map_err(|error| of_store(&error))
}

impl Cleaning {
    /// The runs that go, as a table, and why others stay.
    fn list(&self, choice: &CleanChoice<'_>) -> String {
        let mut table = Table::default();
        if !self.going.is_empty() {
            table.row(
                ["run", "status", "workflow", "began", "age", "size"].map(|head| (DIM, head.to_owned())),
            );
        }
        for GoingRun { run, status, bytes, branches } in &self.going {
            table.row([
                (BOLD, run.id.to_string()),
                (PLAIN, status.name().to_owned()),
                (PLAIN, run.name.clone()),
                (DIM, local(&run.started_at)),
                (DIM, age(choice.now, moment(&run.started_at)).unwrap_or_default()),
                (PLAIN, size_text(*bytes)),
                (
                    DIM,
                    if branches.is_empty() {
                        String::new()
                    } else {
                        words::count(branches.len() as u64, "branch")
                    },
                ),
            ]);
        }
        let mut text = table.text("");
        for KeptRun { run, reason } in &self.kept {
            // Writing into a text cannot fail.
            let _ = writeln!(text, "{BOLD}{run}{BOLD:#} stays: {}", report::visible(&reason.message()));
        }
        text
    }

    /// How many runs went, and the size of the store before and after.
    fn summary(&self, is_dry: bool, [before, after]: [u64; 2]) -> String {
        let count = self.going.len() as u64;
        let mut text = match (count, is_dry) {
            (0, _) => "no run to remove\n".to_owned(),
            (_, true) => format!("{} would be removed\n", words::count(count, "run")),
            (_, false) => {
                format!("removed {}; {}\n", words::count(count, "run"), size_change_text(before, after))
            }
        };
        for (FilesRemoved { count, bytes }, noun) in [(self.answers, "kept answer"), (self.threads, "thread")]
        {
            if count > 0 {
                let (files, size) = (words::count(count, noun), size_text(bytes));
                // Writing into a text cannot fail.
                let _ = if is_dry {
                    writeln!(text, "{files} of agents ({size}) would be removed")
                } else {
                    writeln!(text, "removed {files} of agents ({size})")
                };
            }
        }
        text
    }
}

/// What the store takes, and how much less that is than before.
fn size_change_text(before: u64, after: u64) -> String {
    let now = size_text(after);
    match before.saturating_sub(after) {
        // Others may have written meanwhile, and a file of the journal has a least size.
        0 => format!("the store takes {now}, which is no less than before: new runs use what became free"),
        freed => format!("the store takes {now}, {} less than before", size_text(freed)),
    }
}

fn print_json(cleaning: &Cleaning, is_dry: bool, [before, after]: [u64; 2]) -> Result<(), CommandFailure> {
    let removed = cleaning.going.iter().map(|GoingRun { run, status, bytes, branches }| {
        Value::record([
            ("run", run.id.as_str().into()),
            ("workflow", run.name.as_str().into()),
            ("status", status.name().into()),
            ("started_at", run.started_at.as_str().into()),
            ("event_bytes", Value::from(*bytes)),
            ("branches", Value::sequence(branches.iter().map(|branch| Value::from(branch.as_str())))),
        ])
    });
    let kept = cleaning.kept.iter().map(|KeptRun { run, reason }| {
        Value::record([
            ("run", run.as_str().into()),
            ("reason", reason.name().into()),
            ("message", reason.message().as_str().into()),
        ])
    });
    let value = Value::record([
        ("removed", Value::sequence(removed)),
        ("kept", Value::sequence(kept)),
        ("answers", Value::from(cleaning.answers.count)),
        ("threads", Value::from(cleaning.threads.count)),
        ("dry_run", is_dry.into()),
        ("store_bytes_before", Value::from(before)),
        ("store_bytes", Value::from(after)),
    ]);
    print(&format!("{}\n", value.to_json(JsonStyle::Compact)))
}
