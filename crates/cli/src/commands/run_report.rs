//! `threadline report`: writes a run into one HTML file.

use crate::arguments::ReportArguments;
use crate::exit::CommandFailure;

pub(crate) fn run_report(call: &ReportArguments) -> Result<(), CommandFailure> {
    built::run_report(call)
}

#[cfg(feature = "serve")]
mod built {
    use std::path::Path;

    use jiff::Timestamp;
    use threadline_runner::project::plain;

    use crate::arguments::ReportArguments;
    use crate::commands::history::{History, cannot_start};
    use crate::commands::kept::stored;
    use crate::commands::print;
    use crate::exit::CommandFailure;

    pub(super) fn run_report(call: &ReportArguments) -> Result<(), CommandFailure> {
        let reader = stored(&call.which)?;
        let history = History::open(&reader, reader.name(&call.which))?;
        let page = threadline_serve::report(&history, Timestamp::now())?;
        if call.output == Path::new("-") {
            return print(&page);
        }
        std::fs::write(&call.output, page).map_err(|error| {
            cannot_start(&format!("cannot write `{}`: {}", call.output.display(), plain(&error)))
        })
    }
}

#[cfg(not(feature = "serve"))]
mod built {
    use crate::arguments::ReportArguments;
    use crate::exit::CommandFailure;
    use crate::report::Report;

    pub(super) fn run_report(_call: &ReportArguments) -> Result<(), CommandFailure> {
        let message = "this program was built without its pages";
        let hint = "build it with the feature `serve`, which is on by default";
        Err(CommandFailure::NotStarted(vec![Report::with_hint(message, hint)]))
    }
}
