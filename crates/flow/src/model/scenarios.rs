//! Which scenarios of a file are tried, and with which of their cases.

use std::collections::BTreeMap;
use std::sync::Arc;

use ecow::{EcoString, eco_format};
use threadline_lang::data::Style;
use threadline_lang::diag::words;
use threadline_lang::value::JsonStyle;
use threadline_lang::{Expression, Origin, Type, Value};

use super::{Action, Field, Filter, ForEach, ItemPool, Scenario, Step, Workflow};

/// The name by which a run records the selection, beside what it records of `context`.
pub const SCENARIOS: &str = "scenarios";

/// So long is an expression that names cases at most; with more of them all cases are tried.
const MAX_CASES_TEXT: usize = 60_000;

/// What is chosen of the scenarios of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScenarioSelection {
    /// Texts of which the name, the id, the target or the name of the case has to contain one, in upper or lower case; none
    /// for all.
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

    /// Whether a scenario is chosen, with some of its cases at least.
    pub fn has(&self, scenario: &Scenario) -> bool {
        let Scenario { node, tags, has_cases, .. } = scenario;
        (*has_cases || self.names(scenario))
            && (self.tags.is_empty() || self.tags.iter().any(|tag| tags.contains(tag)))
            && self.only.as_ref().is_none_or(|only| only.iter().any(|(known, _)| known == node))
    }

    /// Whether the filters choose a scenario whatever its cases are.
    fn names(&self, scenario: &Scenario) -> bool {
        let Scenario { node, id, name, target, .. } = scenario;
        let whole = scenario.title();
        let words = [Some(node), Some(id), Some(name), target.as_ref(), Some(&whole)];
        let contains = |filter: &EcoString| words.iter().flatten().any(|word| contains_folded(word, filter));
        self.filters.is_empty() || self.filters.iter().any(contains)
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
    /// Takes up the scenarios that its nodes were made of: their executions share the jobs of a run.
    pub(crate) fn take_scenarios(&mut self, scenarios: Vec<Scenario>) {
        let times: BTreeMap<&EcoString, u64> =
            scenarios.iter().map(|scenario| (&scenario.node, scenario.times)).collect();
        for step in &mut self.steps {
            let times = step.id.as_ref().and_then(|id| times.get(&id.value));
            let (Some(times), Some(each)) = (times, each_of(step)) else { continue };
            if *times == 1 {
                each.pool = ItemPool::Jobs;
                continue;
            }
            each.pool = ItemPool::Around;
            if let Some(inner) = each.steps.last_mut().and_then(each_of) {
                inner.pool = ItemPool::Jobs;
            }
        }
        self.scenarios = scenarios;
    }

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
            if !selection.names(&scenario)
                && let Some(each) = each_of(&mut self.steps[at])
            {
                let filters = selection.filters.clone();
                each.named = Some(CaseFilter { scenario: scenario.title(), filters });
            }
            if let Some(condition) = selection.condition(position, &scenario.node)
                && let Some(each) = each_of(&mut self.steps[at])
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

/// Which cases are chosen by their names.
#[derive(Debug, Clone)]
pub struct CaseFilter {
    /// The name of the scenario with its target, which stands in front of that of a case.
    scenario: EcoString,
    /// Texts of which the name has to contain one.
    filters: Vec<EcoString>,
}

impl CaseFilter {
    /// Whether a case is chosen.
    pub fn has(&self, case: &Value) -> bool {
        let name = eco_format!("{} · {}", self.scenario, case_name(case));
        self.filters.iter().any(|filter| contains_folded(&name, filter))
    }
}

impl Scenario {
    /// The name with that of the target.
    pub fn title(&self) -> EcoString {
        match &self.target {
            Some(target) => eco_format!("{} · {target}", self.name),
            None => self.name.clone(),
        }
    }
}

/// The most characters of a case in its name.
const CASE_CHARS: usize = 60;

/// The keys of a case that say its name, or what is asked, the best first.
const NAME_KEYS: [&str; 7] = ["name", "id", "title", "prompt", "question", "input", "text"];

/// The name of a case: what it says that it is called, or what it asks, or its first text, or the beginning of all of it.
pub fn case_name(case: &Value) -> String {
    let is_name = |value: &&Value| matches!(value.kind(), Type::Text | Type::Int);
    let of_key = |key: &&str| case.get(key).filter(is_name).map(ToString::to_string);
    let first = || {
        let texts = case.as_object()?.iter().filter_map(|(_, value)| value.as_str());
        texts.map(str::to_owned).find(|text| !text.trim().is_empty())
    };
    let own = NAME_KEYS.iter().filter_map(of_key).find(|name| !name.trim().is_empty());
    let text = own.or_else(|| case.as_str().map(str::to_owned)).or_else(first);
    let text = text.unwrap_or_else(|| case.to_json(JsonStyle::Compact));
    words::shorten(&words::one_line(text.trim()), CASE_CHARS).into_owned()
}

/// Whether a text contains another, in upper or lower case.
fn contains_folded(text: &str, part: &str) -> bool {
    text.to_lowercase().contains(&part.to_lowercase())
}

/// The list of a step that nobody else has yet.
fn each_of(step: &mut Arc<Step>) -> Option<&mut ForEach> {
    match &mut Arc::get_mut(step)?.action {
        Action::ForEach(each) => Some(each),
        _ => None,
    }
}
