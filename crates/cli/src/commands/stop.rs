//! `threadline stop`: ends a run that another process drives.

use std::time::Duration;

use threadline_runner::driving_process::{StopError, ask_to_stop};
use threadline_runner::project::plain;
use threadline_store::RunId;

use super::history::{of_store, reader};
use super::kept::KeptRuns;
use super::print;
use crate::arguments::StopArguments;
use crate::exit::CommandFailure;
use crate::report::Report;

/// How often it is looked whether the run was stopped.
const POLL: Duration = Duration::from_millis(50);

pub(crate) fn stop(call: &StopArguments) -> Result<(), CommandFailure> {
    if let Some(kept) = KeptRuns::of(&call.which.kept)? {
        return stop_elsewhere(call, &kept);
    }
    let reader = reader(call.which.dir.as_deref())?;
    let run = reader.find(&call.which.run).map_err(|error| of_store(&error))?.id;
    let driving = || reader.driving_process(&run).map_err(|error| of_store(&error));
    let Some(process) = driving()? else {
        let message = format!("no process drives run `{run}`");
        return Err(CommandFailure::NotStarted(vec![Report::plain(message)]));
    };
    let ask = || {
        ask_to_stop(&process).map_err(|error| {
            let message = match error {
                StopError::Elsewhere => {
                    format!(
                        "the process that drives run `{run}` is on another machine or in another container"
                    )
                }
                StopError::Refused(error) => {
                    format!("the process that drives run `{run}`: {}", plain(&error))
                }
            };
            CommandFailure::NotStarted(vec![Report::with_hint(message, "stop it where it was started")])
        })
    };
    ask()?;
    if call.now {
        // Two signals at once would be one.
        std::thread::sleep(POLL);
        if driving()?.is_some() {
            ask()?;
        }
    }
    while driving()?.is_some() {
        std::thread::sleep(POLL);
    }
    let status = reader.run(&run).map_err(|error| of_store(&error))?.status;
    print(&stopped(&run, &status, ""))
}

/// Stops a run that a worker drives.
fn stop_elsewhere(call: &StopArguments, kept: &KeptRuns) -> Result<(), CommandFailure> {
    let run = kept.find(&call.which.run)?;
    kept.stop(&run, call.now)?;
    if let Some(failure) = kept.failure(&run)? {
        return Err(CommandFailure::NotStarted(vec![Report::plain(failure)]));
    }
    let store = kept.open_cache()?;
    kept.import(&store, &run)?;
    let status = store.reader().run(&run).map_err(|error| of_store(&error))?.status;
    print(&stopped(&run, &status, &kept.arguments()))
}

fn stopped(run: &RunId, status: &str, arguments: &str) -> String {
    match status {
        // It was told to stop before it had begun to listen.
        "paused" | "running" => format!("stopped: `threadline resume {run}{arguments}` continues it\n"),
        status => format!("run {run} {status}\n"),
    }
}
