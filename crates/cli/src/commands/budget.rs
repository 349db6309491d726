//! `--budget`: budgets that are set on the command line, in place of those of the file.

use threadline_engine::event::BudgetChange;
use threadline_flow::model::{Action, Budget, BudgetKey};
use threadline_flow::plan::Plan;
use threadline_lang::diag::{nearest, words};
use threadline_lang::{Number, Value};

use crate::exit::CommandFailure;
use threadline_inspect::target::ExplainTarget;

/// The budgets that arguments such as `cost=5` and `review.turns=20` set.
pub(super) fn changes(plan: &Plan, arguments: &[String]) -> Result<Vec<BudgetChange>, CommandFailure> {
    let mut all: Vec<BudgetChange> = Vec::new();
    for argument in arguments {
        let usage = |why: String| CommandFailure::Usage(format!("`--budget {argument}`: {why}"));
        let Some((limit, value)) = argument.split_once('=') else {
            return Err(usage("write `KEY=LIMIT` or `STEP.KEY=LIMIT`, such as `cost=5`".to_owned()));
        };
        let (step, name) = match limit.rsplit_once('.') {
            Some((step, name)) => (Some(step), name),
            None => (None, limit),
        };
        let Some(key) = BudgetKey::of(name) else {
            let keys = BudgetKey::ALL.map(BudgetKey::name);
            let near =
                nearest(name, keys).map_or(String::new(), |near| format!("; {}", words::did_you_mean(near)));
            return Err(usage(format!("a budget has no limit `{name}`: it has {}{near}", keys.join(", "))));
        };
        let mut budget = Budget::default();
        let number = Number::parse(value).ok().map(Value::from);
        if !budget.set(key, &number.unwrap_or_else(|| Value::from(value))) {
            return Err(usage(format!("`{name}` takes {}, not `{value}`", key.expected())));
        }
        let steps = match step {
            None => vec![None],
            Some(step) => of_step(plan, step).map_err(usage)?,
        };
        for step in steps {
            match all.iter_mut().find(|change| change.step == step) {
                Some(change) => change.budget.change(&budget),
                None => all.push(BudgetChange { step, budget: budget.clone() }),
            }
        }
    }
    Ok(all)
}

/// The numbers of the steps with a name that may have a budget.
fn of_step(plan: &Plan, name: &str) -> Result<Vec<Option<ecow::EcoString>>, String> {
    let found = ExplainTarget::find(plan, name).map_err(|missing| {
        let near = missing.nearest.map_or(String::new(), |near| format!("; {}", words::did_you_mean(&near)));
        format!("there is no step `{name}`{near}")
    })?;
    let planned = found.steps.iter().map(|step| &plan.steps[*step as usize]);
    let fits =
        |action: &Action| matches!(action, Action::Agent { .. } | Action::Workflow(_) | Action::ForEach(_));
    let numbers: Vec<_> = planned
        .filter(|planned| fits(&planned.step.action))
        .map(|planned| Some(planned.number.clone()))
        .collect();
    if numbers.is_empty() || found.field.is_some() {
        return Err(format!("`{name}` is no step that asks an agent, calls a workflow or has items"));
    }
    Ok(numbers)
}
