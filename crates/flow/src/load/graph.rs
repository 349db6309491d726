//! Reads graphs: nodes keyed by id or in a list, the edges between them, and the nodes that they need.

use std::sync::Arc;

use ecow::{EcoString, eco_format};
use threadline_expect::Expectations;
use threadline_lang::source::TreeNode;
use threadline_lang::{Expression, Type, Value};

use super::StepList;
use super::read::{LocatedNode, ObjectFields, WorkflowLoader, head, shown, span_of};
use crate::checks::Check;
use crate::fields::{ActionName, EDGE, EDGE_CONFIG, NODE, TRIGGER, TRIGGER_CONFIG};
use crate::forms;
use crate::model::{Condition, Edge, Field, Need, Trigger, TriggerKind};
use crate::plan::PAYLOAD;
use crate::problem;

impl WorkflowLoader {
    /// Reads the nodes of a graph.
    pub(super) fn read_nodes(&mut self, fields: &ObjectFields<'_>) -> StepList {
        let Some(place) = fields.get("nodes") else { return Vec::new() };
        let empty = |value: &Value| match value.kind() {
            Type::Object => place.entries().next().is_none(),
            Type::List => place.items().next().is_none(),
            _ => false,
        };
        if empty(&place.node.value) {
            self.report(Check::NoSteps.at(place.node.span, "`nodes` is empty"));
        }
        match place.node.value.kind() {
            Type::Object => {
                let mut nodes = Vec::new();
                for (name, entry, at) in place.entries() {
                    let mut id = at.field(EcoString::from(name));
                    id.origin.span = entry.key_span;
                    if self.check_name(name, entry.key_span) {
                        nodes.extend(self.read_node(at, Some(id), Vec::new()));
                    }
                }
                nodes
            }
            Type::List => place.items().filter_map(|item| self.read_listed_node(item)).collect(),
            _ => {
                let message =
                    format!("`nodes` takes an object of steps keyed by id, not {}", shown(&place.node.value));
                self.report(Check::WrongType.at(span_of(place.node), message));
                Vec::new()
            }
        }
    }

    /// Reads a node in a list: `{id, type, config, position}`.
    fn read_listed_node(&mut self, place: LocatedNode<'_>) -> Option<Arc<crate::model::Step>> {
        let action = ActionName::ALL.iter().find_map(|action| place.node.entry(action.key()));
        if let (None, Some(action)) = (place.node.entry("config"), action) {
            let message = "the step of a node in a list is its `config`";
            let hint =
                "write `config: {...}` around the keys of the step, or the nodes by id: `nodes: {ID: {...}}`";
            self.report(Check::MissingKey.at(action.key_span, message).hint(hint));
            // It is read as what it means, so that nobody else misses it.
            return self.read_step_in(place, true);
        }
        let fields = self.read_fields(place, &NODE)?;
        let id = self.read_name(&fields, "id");
        let name = self.read_text(&fields, "name");
        let kind = self.read_choice(&fields, "type");
        let needs = self.read_needs(&fields);
        let config = fields.get("config")?;
        if let Some(kind) = kind {
            self.check_node_type(kind, &config);
        }
        let mut step = self.read_node(config, id, needs)?;
        if let (Some(owned), Some(name)) = (Arc::get_mut(&mut step), name) {
            owned.name = Some(name);
        }
        Some(step)
    }

    /// Checks that the action of a node fits its `type`.
    fn check_node_type(&mut self, kind: &str, config: &LocatedNode<'_>) {
        let keys: &[&str] = match kind {
            "agent" => &["agent", "agent_id", "claude"],
            "tool" => &["tool", "tool_name", "shell", "http"],
            "conditional" => &["condition"],
            "trigger" => &["trigger"],
            _ => return,
        };
        let has = |key: &&str| config.node.entry(key).is_some();
        let other = ActionName::ALL.iter().map(|action| action.key()).find(|key| has(key));
        if let Some(other) = other.filter(|_| !keys.iter().any(has)) {
            let span = config.node.entry(other).map_or(config.node.span, |entry| entry.key_span);
            let message = format!("a node of type `{kind}` has `{}`, not `{other}`", keys[0]);
            self.report(Check::ConflictingKeys.at(span, message).hint("`type` is optional"));
        }
    }

    fn read_node(
        &mut self,
        place: LocatedNode<'_>,
        id: Option<Field<EcoString>>,
        needs: Vec<Need>,
    ) -> Option<Arc<crate::model::Step>> {
        if let Some(entry) = place.node.entry("id") {
            let message = "the id of a node is its key, so `id` is not allowed inside it";
            self.report(Check::ConflictingKeys.at(entry.key_span, message));
        }
        let mut step = self.read_step_in(place, true)?;
        let owned = Arc::get_mut(&mut step)?;
        owned.id = id;
        owned.needs.extend(needs);
        Some(step)
    }

    pub(super) fn read_edges(&mut self, fields: &ObjectFields<'_>) -> Vec<Edge> {
        let Some(place) = fields.get("edges") else { return Vec::new() };
        if self.check_list(&place, "edges").is_none() {
            return Vec::new();
        }
        place.items().filter_map(|item| self.read_edge(item)).collect()
    }

    fn read_edge(&mut self, place: LocatedNode<'_>) -> Option<Edge> {
        let fields = self.read_fields(place, &EDGE)?;
        let (from, to) = (self.read_name(&fields, "from"), self.read_name(&fields, "to"));
        let branch = match fields.get("config").filter(|config| !config.node.value.is_null()) {
            Some(config) => {
                self.read_fields(config, &EDGE_CONFIG).and_then(|config| self.read_branch(&config))
            }
            None => self.read_branch(&fields),
        };
        Some(Edge { from: from?, to: to?, branch })
    }

    fn read_branch(&mut self, fields: &ObjectFields<'_>) -> Option<Field<EcoString>> {
        let place = fields.get("branch").filter(|place| !place.node.value.is_null())?;
        let text = self.read_scalar_text(&place, "branch")?;
        Some(place.field(text))
    }

    /// Reads the nodes that a node needs: `a`, `gate.true`.
    pub(super) fn read_needs(&mut self, fields: &ObjectFields<'_>) -> Vec<Need> {
        let Some(place) = fields.get("needs") else { return Vec::new() };
        let places: Vec<LocatedNode<'_>> = match place.node.value.kind() {
            Type::List => place.items().collect(),
            _ => vec![place],
        };
        let mut needs = Vec::new();
        for place in places {
            let Some(text) = self.read_scalar_text(&place, "needs") else { continue };
            let (node, branch) = match text.rsplit_once('.') {
                Some((node, branch)) => (node.into(), Some(branch.into())),
                None => (text, None),
            };
            needs.push(Need { node, branch, span: place.node.span });
        }
        needs
    }

    /// Reads the condition of a conditional node.
    pub(super) fn read_conditional(&mut self, fields: &ObjectFields<'_>) -> Option<Condition> {
        let place = fields.get("condition")?;
        let text = self.read_scalar_text(&place, "condition")?;
        let written = EcoString::from(text.trim_end_matches('\n'));
        let exists = self.read_choice(fields, "condition_type") == Some("exists");
        let alone =
            exists && Expression::parse(written.clone(), &self.syntax).is_ok_and(|it| it.is_reference());
        // The filter comes after the reference, so that all spans in the reference stay valid.
        let source = if exists { eco_format!("{written} | exists") } else { written.clone() };
        match Expression::parse(source, &self.syntax) {
            Ok(_) if exists && !alone => {
                let message = "`condition_type: exists` takes one reference";
                let hint = "write `exists(...)` in a condition of type `expression`";
                self.report(Check::WrongType.at(span_of(place.node), message).hint(hint));
                None
            }
            Ok(expression) => Some(Condition { expression: place.field(Arc::new(expression)), written }),
            Err(error) => {
                let problem = problem::of_language(&error, &place.origin(), self.file.text());
                self.report(problem);
                None
            }
        }
    }

    pub(super) fn read_trigger(&mut self, fields: &ObjectFields<'_>) -> Option<Trigger> {
        let place = fields.get("trigger")?;
        let short = place.node.value.as_object().is_none();
        let (kind, config) = if short {
            (self.read_choice_at(&place, "trigger", TRIGGER.known("type").choices()), None)
        } else {
            let inner = self.read_fields(place.clone(), &TRIGGER)?;
            (self.read_choice(&inner, "type"), inner.get("config"))
        };
        let kind = match kind? {
            "schedule" => TriggerKind::Schedule,
            "webhook" => TriggerKind::Webhook,
            _ => TriggerKind::Manual,
        };
        let written = config.as_ref().map(|config| config.node.value.clone());
        let (mut enabled, mut filters) = (true, None);
        if let Some(config) = config.and_then(|config| self.read_fields(config, &TRIGGER_CONFIG)) {
            enabled = self.read_bool(&config, "enabled");
            let params = self.read_map(&config, "params");
            self.read_trigger_params(kind, params.as_ref(), config.place.node);
            filters = self.read_filters(&config);
        } else if written.is_none() {
            self.read_trigger_params(kind, None, place.node);
        }
        let config = written.unwrap_or_else(Value::empty_object);
        let payload = Expression::parse(PAYLOAD, &self.syntax).ok()?;
        let payload = place.field(Arc::new(payload));
        Some(Trigger { kind, enabled, filters, config, payload })
    }

    /// Checks the settings of a trigger, as far as they are known.
    fn read_trigger_params(
        &mut self,
        kind: TriggerKind,
        params: Option<&LocatedNode<'_>>,
        config: &TreeNode,
    ) {
        let param = |name: &str| params.and_then(|params| params.node.get(name));
        match kind {
            TriggerKind::Manual => {}
            TriggerKind::Schedule => match (param("cron"), param("every")) {
                (None, None) => {
                    let problem = Check::MissingKey
                        .at(head(config), "a schedule needs `cron` or `every` in its `params`");
                    self.report(
                        problem.hint("write `params: {cron: \"0 7 * * 1-5\"}` or `params: {every: 15m}`"),
                    );
                }
                (cron, every) => {
                    if let Some(cron) = cron
                        && let Some(why) = forms::not_cron(&cron.value)
                    {
                        let problem = Check::WrongType.at(span_of(cron), format!("`cron` {why}"));
                        self.report(problem.hint(
                            "it has five fields: minute, hour, day of the month, month, day of the week",
                        ));
                    }
                    if let Some(every) = every
                        && forms::duration(&every.value).is_none_or(|time| time.is_zero())
                    {
                        let message =
                            format!("`every` takes {}, not {}", forms::DURATION_FORM, shown(&every.value));
                        self.report(Check::BadDuration.at(span_of(every), message));
                    }
                }
            },
            TriggerKind::Webhook => {
                if let Some(path) = param("path")
                    && !path.value.as_str().is_some_and(|path| path.starts_with('/'))
                {
                    let message =
                        format!("`path` takes a path that starts with `/`, not {}", shown(&path.value));
                    self.report(Check::WrongType.at(span_of(path), message));
                }
            }
        }
    }

    /// Reads the expectation about the payload.
    fn read_filters(&mut self, fields: &ObjectFields<'_>) -> Option<Field<Arc<Expectations>>> {
        let place = fields.get("filters")?;
        if place.node.items().is_empty() && place.node.value.as_list().is_some() {
            return None;
        }
        let context = threadline_expect::LoadContext {
            kind: Some(threadline_expect::DocumentKind::Plain),
            syntax: &self.syntax,
            ..threadline_expect::LoadContext::DEFAULT
        };
        let text = self.file.text();
        let (filters, problems) = threadline_expect::load_part(place.node, &place.path, text, &context);
        for problem in problems {
            self.report(problem);
        }
        if let Some(first) = filters.dynamics().first() {
            let span = match first {
                threadline_expect::Dynamic::Value(field) => field.origin.span,
                threadline_expect::Dynamic::Expression(field) => field.origin.span,
            };
            let message = "a filter cannot contain references, because it is checked before the run starts";
            self.report(Check::WrongType.at(span, message));
        }
        Some(place.field(Arc::new(filters)))
    }

    /// Refuses keys that only apply to the nodes of a graph.
    pub(super) fn refuse_node_keys(&mut self, fields: &ObjectFields<'_>) {
        let keys = [
            ("condition", "write `when:` on the steps that depend on it"),
            ("trigger", "declare the values of the caller under `inputs:`"),
            ("needs", "steps run in the order in which they are written"),
        ];
        for (key, hint) in keys {
            if let Some(found) = fields.found(key) {
                let message =
                    format!("`{key}` only applies to nodes of a graph, but this is a step of a list");
                self.report(Check::KeyNotHere.at(found.entry.key_span, message).hint(hint));
            }
        }
    }
}
