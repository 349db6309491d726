//! Reads budgets: limits that are written out, so that they hold before anything is evaluated.

use super::read::{LocatedNode, ObjectFields, WorkflowLoader, head, shown, span_of};
use crate::checks::Check;
use crate::fields::BUDGET;
use crate::model::{Budget, BudgetKey};

impl WorkflowLoader {
    /// Reads `budget` of a workflow, of a step or of a map.
    pub(super) fn read_budget(&mut self, fields: &ObjectFields<'_>) -> Option<Budget> {
        let place = fields.get("budget")?;
        self.read_budget_at(place)
    }

    fn read_budget_at(&mut self, place: LocatedNode<'_>) -> Option<Budget> {
        let at = head(place.node);
        let inner = self.read_fields(place, &BUDGET)?;
        let (mut budget, mut is_empty) = (Budget::default(), true);
        for key in BudgetKey::ALL {
            let Some(limit) = inner.get(key.name()) else { continue };
            is_empty = false;
            if !budget.set(key, &limit.node.value) {
                let is_reference = limit.node.value.as_str().is_some_and(|text| text.contains('$'));
                let message =
                    format!("`{}` takes {}, not {}", key.name(), key.expected(), shown(&limit.node.value));
                let problem = Check::WrongType.at(span_of(limit.node), message);
                let hint = format!(
                    "a budget is written out; `--budget {}=...` of `run` and `resume` sets another one",
                    key.name()
                );
                self.report(if is_reference { problem.hint(hint) } else { problem });
            }
        }
        if is_empty && inner.all().is_empty() {
            let message = "a budget needs a limit: `turns`, `tokens`, `cost` or `time`";
            self.report(Check::MissingKey.at(at, message));
        }
        Some(budget)
    }
}
