//! Which scenarios of a file are tried, and with which of their cases.

use std::sync::Arc;

use ecow::{EcoString, eco_format};
use threadline_lang::data::Style;
use threadline_lang::value::JsonStyle;
use threadline_lang::{Expression, Origin, Value};

use super::{Action, Field, Filter, Scenario, Workflow};

/// The name by which a run records the selection, beside what it records of `context`.
pub const SCENARIOS: &str = "scenarios";

/// So long is an expression that names cases at most; with more of them all cases are tried.
const MAX_CASES_TEXT: usize = 60_000;

/// What is chosen of the scenarios of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScenarioSelection {
    /// Texts of which the name, the id or the target has to contain one, in upper or lower case; none for all.
    pub filters: Vec<EcoString>,
    /// Tags of which a scenario has to have one; none for all.
    pub tags: Vec<EcoString>,
    /// The part of the cases that is tried, from 1, and the number of parts.
    pub shard: Option<(u64, u64)>,
    /// The nodes that are tried, with the cases of each; none for all.
    pub only: Option<Vec<(EcoString, Vec<Value>)>>,
    /// The file with the targets of scenarios that name none.
    pub targets: Option<EcoString>,
}

impl ScenarioSelection {
    /// Whether everything is chosen.
    pub fn is_all(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a scenario is chosen.
    pub fn has(&self, scenario: &Scenario) -> bool {
        let Scenario { node, id, name, target, tags, .. } = scenario;
        let words = [Some(node), Some(id), Some(name), target.as_ref()];
        let contains = |filter: &EcoString| {
            let filter = filter.to_lowercase();
            words.iter().flatten().any(|word| word.to_lowercase().contains(filter.as_str()))
        };
        (self.filters.is_empty() || self.filters.iter().any(contains))
            && (self.tags.is_empty() || self.tags.iter().any(|tag| tags.contains(tag)))
            && self.only.as_ref().is_none_or(|only| only.iter().any(|(known, _)| known == node))
    }

    /// As a run records it.
    pub fn value(&self) -> Value {
        let texts =
            |texts: &[EcoString]| Value::sequence(texts.iter().map(|text| Value::from(text.as_str())));
        let shard = self.shard.map(|(part, parts)| Value::sequence([Value::from(part), Value::from(parts)]));
        let only = self.only.as_ref().map(|only| {
            let node = |(node, cases): &(EcoString, Vec<Value>)| {
                Value::sequence([Value::from(node.as_str()), Value::sequence(cases.iter().cloned())])
            };
            Value::sequence(only.iter().map(node))
        });
        Value::record([
            ("filters", texts(&self.filters)),
            ("tags", texts(&self.tags)),
            ("shard", shard.unwrap_or_default()),
            ("only", only.unwrap_or_default()),
            ("targets", self.targets.as_ref().map(|name| Value::from(name.as_str())).unwrap_or_default()),
        ])
    }

    /// What a run recorded; nothing where it is not of this form.
    pub fn of_value(value: &Value) -> Option<Self> {
        let texts = |key: &str| {
            let list = value.get(key)?.as_list()?.iter();
            list.map(|text| text.as_str().map(EcoString::from)).collect::<Option<Vec<_>>>()
        };
        let number = |value: &Value| value.as_i64().and_then(|int| u64::try_from(int).ok());
        let shard = match value.get("shard")?.as_list() {
            Some([part, parts]) => Some((number(part)?, number(parts)?)),
            _ => None,
        };
        let only = match value.get("only")?.as_list() {
            Some(nodes) => {
                let node = |node: &Value| match node.as_list() {
                    Some([name, cases]) => Some((name.as_str()?.into(), cases.as_list()?.to_vec())),
                    _ => None,
                };
                Some(nodes.iter().map(node).collect::<Option<Vec<_>>>()?)
            }
            None => None,
        };
        let targets = value.get("targets").and_then(Value::as_str).map(EcoString::from);
        Some(Self { filters: texts("filters")?, tags: texts("tags")?, shard, only, targets })
    }

    /// The condition on the cases of a scenario; none where all are tried. `position` is that of the scenario in the
    /// file, by which the first case of each falls to another part.
    fn condition(&self, position: usize, node: &str) -> Option<String> {
        let shard = self.shard.filter(|(_, parts)| *parts > 1);
        let shard = shard.map(|(part, parts)| {
            format!("(item.index + {position}) % {parts} == {}", part.saturating_sub(1))
        });
        let cases = self.only.iter().flatten().find(|(known, _)| known == node).map(|(_, cases)| cases);
        let cases = cases.filter(|cases| !cases.is_empty()).map(|cases| {
            format!("item in {}", Value::sequence(cases.iter().cloned()).to_json(JsonStyle::Compact))
        });
        let cases = cases.filter(|cases| cases.len() <= MAX_CASES_TEXT);
        let all: Vec<String> = shard.into_iter().chain(cases).collect();
        (!all.is_empty()).then(|| all.join(" and "))
    }
}

impl Workflow {
    /// Leaves out what is not chosen: scenarios with their nodes, and cases. To be called before the plan is made.
    pub fn select_scenarios(&mut self, selection: &ScenarioSelection) {
        if selection.is_all() {
            return;
        }
        let all = std::mem::take(&mut self.scenarios);
        for (position, scenario) in all.into_iter().enumerate() {
            let at = self
                .steps
                .iter()
                .position(|step| step.id.as_ref().is_some_and(|id| id.value == scenario.node));
            let Some(at) = at else { continue };
            if !selection.has(&scenario) {
                self.steps.remove(at);
                continue;
            }
            if let Some(condition) = selection.condition(position, &scenario.node)
                && let Some(step) = Arc::get_mut(&mut self.steps[at])
                && let Action::ForEach(each) = &mut step.action
                && let Ok(expression) = Expression::parse(condition.as_str(), &self.syntax)
            {
                let origin = Origin {
                    path: eco_format!("nodes.{}", scenario.node),
                    span: scenario.span,
                    style: Style::Plain,
                };
                each.filter = Some(Filter::Condition(Field { value: Arc::new(expression), origin }));
            }
            self.scenarios.push(scenario);
        }
    }

    /// Takes up what a run records of the values that its caller set: an entry of `context`, or a selection.
    pub fn take_setting(&mut self, path: &[threadline_lang::PathStep], value: &Value, trusted: bool) {
        let root = path.first().and_then(threadline_lang::PathStep::name);
        match (root.map(|name| name == SCENARIOS), ScenarioSelection::of_value(value)) {
            (Some(true), Some(selection)) => self.select_scenarios(&selection),
            // The setting was accepted when the run was started.
            _ => drop(self.set_context(path.get(1..).unwrap_or_default(), value, trusted)),
        }
    }
}
