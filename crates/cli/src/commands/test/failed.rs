//! Which cases failed when a file was tried last, read from the store.

use std::path::{Path, PathBuf};

use ecow::EcoString;
use threadline_lang::Value;
use threadline_runner::project::Project;
use threadline_runner::reload;
use threadline_runner::trust::StoreUse;
use threadline_store::{JournalReader, StoreError};

use super::results;
use crate::commands::history::{History, of_journal, of_store, store_of};
use crate::exit::CommandFailure;

/// What the last run of a file says about its cases.
pub(super) enum LastRun {
    /// There is none.
    Missing,
    /// No case failed in this run.
    Passed(String),
    /// The nodes with failed cases, and those cases; none for a scenario without cases.
    Failed(Vec<(EcoString, Vec<Value>)>),
}

/// Reads what came of a file in its newest run that tried scenarios.
pub(super) fn last_run(project: &Project, trusted: bool, file: &Path) -> Result<LastRun, CommandFailure> {
    let reader = match JournalReader::open(&store_of(project, StoreUse::Read, trusted)?) {
        Ok(reader) => reader,
        Err(StoreError::NoJournal { .. }) => return Ok(LastRun::Missing),
        Err(error) => return Err(of_store(&error)),
    };
    let wanted = identity(file);
    for info in reader.runs().map_err(|error| of_store(&error))?.iter().rev() {
        if info.id.is_called() || identity(Path::new(&info.file)) != wanted {
            continue;
        }
        if reload::started(&reader, info).map_err(|error| of_journal(&error))?.is_none() {
            continue;
        }
        // A run whose text nobody can read any more says nothing.
        let Ok(history) = History::open(&reader, info.id.as_str()) else { continue };
        if !history.plan.workflow.scenarios.is_empty() {
            return read_failed(&history);
        }
    }
    Ok(LastRun::Missing)
}

fn read_failed(history: &History<'_>) -> Result<LastRun, CommandFailure> {
    let tested = results::read(history)?;
    let mut nodes: Vec<(EcoString, Vec<Value>)> = Vec::new();
    // A node of which nothing could be tried is tried as a whole.
    let mut whole: Vec<EcoString> = Vec::new();
    for case in tested.cases.iter().filter(|case| case.result.is_bad()) {
        let node = &case.scenario.node;
        let at = nodes.iter().position(|(known, _)| known == node).unwrap_or_else(|| {
            nodes.push((node.clone(), Vec::new()));
            nodes.len() - 1
        });
        match &case.case {
            Some((_, value)) => nodes[at].1.push(value.clone()),
            None => whole.push(node.clone()),
        }
    }
    nodes.iter_mut().filter(|(node, _)| whole.contains(node)).for_each(|(_, cases)| cases.clear());
    Ok(if nodes.is_empty() { LastRun::Passed(tested.run) } else { LastRun::Failed(nodes) })
}

/// A path that is the same however a file is named, as far as the file is there.
fn identity(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
