//! The names of executions as people read them, and the columns they stand in.

use std::collections::BTreeMap;

use threadline_engine::event::Address;
use threadline_flow::plan::Plan;
pub(crate) use threadline_inspect::labels::{depth, label, name, step_label};
use threadline_inspect::target::lists_around;
use unicode_width::UnicodeWidthStr;

/// The maximum width of labels; times stand behind them.
const MAX_LABEL_WIDTH: usize = 32;

/// Where the lines of a run begin and how wide their labels are.
pub(super) struct LabelColumn {
    pub(super) width: usize,
    /// What stands before the labels of a called run: the step that called it.
    pub(super) prefix: String,
    /// The number of levels that the lines of a called run are indented by.
    pub(super) indent: usize,
}

impl LabelColumn {
    pub(super) fn new(plan: &Plan) -> Self {
        let width = label_width(plan, &mut BTreeMap::new()).clamp(12, MAX_LABEL_WIDTH);
        Self { width, prefix: String::new(), indent: 0 }
    }

    /// The column of a run that a step of this run called.
    pub(super) fn of_called(&self, plan: &Plan, at: &Address) -> Self {
        let step = at.step(plan).map(|step| &plan.steps[step as usize]);
        Self {
            width: self.width,
            prefix: format!("{}{}/", self.prefix, name(plan, at)),
            indent: self.indent + step.map_or(0, |step| depth(&step.number)) + 1,
        }
    }

    /// An execution as its lines begin with it.
    pub(super) fn label(&self, plan: &Plan, at: &Address) -> String {
        if self.prefix.is_empty() {
            return label(plan, at);
        }
        let inside = at.step(plan).map_or(0, |step| depth(&plan.steps[step as usize].number));
        format!("{}{}{}", "  ".repeat(self.indent + inside), self.prefix, name(plan, at))
    }
}

/// The width of the labels of a plan and of the workflows that it calls; `known` holds the widths of files.
fn label_width<'p>(plan: &'p Plan, known: &mut BTreeMap<&'p str, usize>) -> usize {
    let mut widest = 0;
    for (number, step) in (0..).zip(&plan.steps) {
        // Room for the number of a visit of a state, such as `#17`, and for the index of an item, such as `[17]`.
        let visit = if step.step.state.is_some() { 3 } else { 0 };
        let width = step.label.width() + visit + 2 * depth(&step.number) + 4 * lists_around(plan, number);
        let callees = plan.callees_of(step).map(|plan| {
            // A slash, and one level further.
            3 + match known.get(plan.workflow.file.name()) {
                Some(width) => *width,
                None => label_width(plan, known),
            }
        });
        widest = widest.max(width + callees.max().unwrap_or_default());
    }
    known.insert(plan.workflow.file.name(), widest);
    widest
}
