//! Diagnostics, warnings and traces about the text of a workflow that runs, in whatever form the run itself is shown.
//!
//! A problem at one place of a file is printed once, however many items meet it: the line of each item says that it
//! failed.

use std::collections::BTreeSet;

use threadline_engine::event::Address;
use threadline_flow::plan::Plan;
use threadline_flow::problem::Problem;
use threadline_lang::Warning;
use threadline_runner::driver::Notice;

use crate::arguments::TraceFormat;
use crate::report::{self, Report, ReportSource};

/// The number of problems that a [`Diagnosis`] points to by name.
const MAX_POINTERS: usize = 3;

/// Prints remarks to stderr, each once.
#[derive(Default)]
pub(crate) struct Remarks {
    trace: Option<TraceFormat>,
    printed: BTreeSet<RemarkKey>,
}

/// What makes two remarks the same.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct RemarkKey {
    file: String,
    id: &'static str,
    /// Where the text with the remark begins, if it is one of several in the file.
    within: u32,
    start: u32,
}

/// The errors of an execution, as far as they are printed.
pub(crate) struct Diagnosis {
    pub(crate) at: Address,
    /// A short text that points to the errors: `error[index-not-found] at work.yaml:6:38`.
    pub(crate) pointer: String,
    /// Whether all of them were printed now. Otherwise another execution, or another attempt, has met them before.
    pub(crate) is_new: bool,
}

impl Remarks {
    pub(crate) fn new(trace: Option<TraceFormat>) -> Self {
        Self { trace, printed: BTreeSet::new() }
    }

    /// Prints a remark. Returns what was printed about an execution that fails because of it.
    pub(crate) fn notice(&mut self, plan: &Plan, notice: &Notice) -> Option<Diagnosis> {
        let source = ReportSource::of(&plan.workflow.file);
        match notice {
            Notice::Resolved(_, resolutions) => {
                if let Some(format) = self.trace {
                    report::print_trace(source, format, resolutions);
                }
                None
            }
            Notice::Warned(_, warnings) => {
                self.warn(source, warnings);
                None
            }
            Notice::Problems(at, problems) => self.diagnose(source, at, problems),
            Notice::Event(_) | Notice::Printed(..) | Notice::Waits(..) | Notice::Called(_) => None,
        }
    }

    fn warn(&mut self, source: ReportSource<'_>, warnings: &[Warning]) {
        let new = warnings.iter().filter(|warning| {
            let within = warning.origin.as_ref().map_or(0, |origin| origin.span.start);
            let (file, id, start) = (source.name.to_owned(), warning.id, warning.span.start);
            self.printed.insert(RemarkKey { file, id, within, start })
        });
        let reports: Vec<Report> = new.map(|warning| Report::warning(source, warning)).collect();
        report::print_all(&reports);
    }

    fn diagnose(
        &mut self,
        source: ReportSource<'_>,
        at: &Address,
        problems: &[Problem],
    ) -> Option<Diagnosis> {
        let (mut reports, mut pointers) = (Vec::new(), Vec::new());
        let mut all_new = true;
        for problem in problems {
            let source = problem.file.as_ref().map_or(source, ReportSource::of);
            let (file, id, start) = (source.name.to_owned(), problem.id, problem.span.start);
            let is_new = self.printed.insert(RemarkKey { file, id, within: 0, start });
            if is_new {
                reports.push(Report::problem(source, problem));
            }
            if problem.is_error() {
                all_new &= is_new;
                let (name, line, column) = source.place(start as usize);
                pointers.push(format!("error[{id}] at {name}:{line}:{column}"));
            }
        }
        report::print_all(&reports);
        if pointers.is_empty() {
            return None;
        }
        let more = pointers.len().saturating_sub(MAX_POINTERS);
        pointers.truncate(MAX_POINTERS);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let pointer = format!("{}{more}", pointers.join(", "));
        Some(Diagnosis { at: at.clone(), pointer, is_new: all_new })
    }
}
