//! What is said to people about the text of a workflow while it runs, whatever form the run itself is shown in.
//!
//! What is wrong at one place of a file is said once, however many items meet it: each of them says in its own line that
//! it failed.

use std::collections::BTreeSet;

use threadline_flow::plan::Plan;
use threadline_runner::driver::Notice;

use crate::arguments::Trace;
use crate::report::{self, Report, Source};

/// Says what is to be said, each thing once.
#[derive(Default)]
pub(crate) struct Remarks {
    trace: Option<Trace>,
    /// What was said: of which file, what sort of problem, where it begins.
    said: BTreeSet<(String, &'static str, u32, u32)>,
}

impl Remarks {
    pub(crate) fn new(trace: Option<Trace>) -> Self {
        Self { trace, said: BTreeSet::new() }
    }

    pub(crate) fn notice(&mut self, plan: &Plan, notice: &Notice) {
        let file = &plan.workflow.file;
        let source = Source::of(file);
        let mut is_new = |of: &str, id, within, at| self.said.insert((of.to_owned(), id, within, at));
        let reports: Vec<Report> = match notice {
            Notice::Resolved(_, resolutions) => {
                if let Some(format) = self.trace {
                    report::print_trace(source, format, resolutions);
                }
                return;
            }
            Notice::Warned(_, warnings) => warnings
                .iter()
                .filter(|warning| {
                    let within = warning.origin.as_ref().map_or(0, |origin| origin.span.start);
                    is_new(source.name, warning.id, within, warning.span.start)
                })
                .map(|warning| Report::warning(source, warning))
                .collect(),
            Notice::Problems(_, problems) => problems
                .iter()
                .filter(|problem| {
                    let of = problem.file.as_ref().map_or(source.name, |file| file.name());
                    is_new(of, problem.id, 0, problem.span.start)
                })
                .map(|problem| Report::problem(source, problem))
                .collect(),
            Notice::Event(_) | Notice::Printed(..) | Notice::Called(_) => return,
        };
        report::print_all(&reports);
    }
}
