//! Graphs of a file: nodes by id or in a list, the edges between them, and what nodes need.

use std::sync::Arc;

use ecow::{EcoString, eco_format};
use threadline_expect::Expectations;
use threadline_lang::source::TreeNode;
use threadline_lang::{Expression, Type, Value};

use super::Steps;
use super::read::{Fields, Loader, Place, head, shown, span_of};
use crate::checks::Check;
use crate::fields::{ActionName, EDGE, EDGE_CONFIG, NODE, TRIGGER, TRIGGER_CONFIG};
use crate::forms;
use crate::model::{Condition, Edge, Field, Need, Trigger, TriggerKind};
use crate::problem;

impl Loader {
    /// The nodes of a graph.
    pub(super) fn nodes(&mut self, fields: &Fields<'_>) -> Steps {
        let Some(place) = fields.get("nodes") else { return Vec::new() };
        let empty = |value: &Value| match value.kind() {
            Type::Object => place.entries().next().is_none(),
            Type::List => place.items().next().is_none(),
            _ => false,
        };
        if empty(&place.node.value) {
            self.problem(Check::NoSteps.at(place.node.span, "`nodes` has no node"));
        }
        match place.node.value.kind() {
            Type::Object => {
                let mut nodes = Vec::new();
                for (name, entry, at) in place.entries() {
                    let mut id = at.field(EcoString::from(name));
                    id.origin.span = entry.key_span;
                    if self.check_name(name, entry.key_span) {
                        nodes.extend(self.node(at, Some(id), Vec::new()));
                    }
                }
                nodes
            }
            Type::List => place.items().filter_map(|item| self.listed_node(item)).collect(),
            _ => {
                let message = format!("`nodes` takes steps by their id, not {}", shown(&place.node.value));
                self.problem(Check::WrongType.at(span_of(place.node), message));
                Vec::new()
            }
        }
    }

    /// A node of a list: `{id, type, config, position}`.
    fn listed_node(&mut self, place: Place<'_>) -> Option<Arc<crate::model::Step>> {
        let fields = self.fields(place, &NODE)?;
        let id = self.name(&fields, "id");
        let name = self.text(&fields, "name");
        let kind = self.choice(&fields, "type");
        let needs = self.needs(&fields);
        let config = fields.get("config")?;
        if let Some(kind) = kind {
            self.fits_type(kind, &config);
        }
        let mut step = self.node(config, id, needs)?;
        if let (Some(owned), Some(name)) = (Arc::get_mut(&mut step), name) {
            owned.name = Some(name);
        }
        Some(step)
    }

    /// What a node does is what its `type` says.
    fn fits_type(&mut self, kind: &str, config: &Place<'_>) {
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
            self.problem(Check::ConflictingKeys.at(span, message).hint("`type` may be left out"));
        }
    }

    fn node(
        &mut self,
        place: Place<'_>,
        id: Option<Field<EcoString>>,
        needs: Vec<Need>,
    ) -> Option<Arc<crate::model::Step>> {
        if let Some(entry) = place.node.entry("id") {
            let message = "a node has its id before it: another `id` says nothing";
            self.problem(Check::ConflictingKeys.at(entry.key_span, message));
        }
        let mut step = self.step_in(place, true)?;
        let owned = Arc::get_mut(&mut step)?;
        owned.id = id;
        owned.needs.extend(needs);
        Some(step)
    }

    pub(super) fn edges(&mut self, fields: &Fields<'_>) -> Vec<Edge> {
        let Some(place) = fields.get("edges") else { return Vec::new() };
        if self.list(&place, "edges").is_none() {
            return Vec::new();
        }
        place.items().filter_map(|item| self.edge(item)).collect()
    }

    fn edge(&mut self, place: Place<'_>) -> Option<Edge> {
        let fields = self.fields(place, &EDGE)?;
        let (from, to) = (self.name(&fields, "from"), self.name(&fields, "to"));
        let branch = match fields.get("config").filter(|config| !config.node.value.is_null()) {
            Some(config) => self.fields(config, &EDGE_CONFIG).and_then(|config| self.branch(&config)),
            None => self.branch(&fields),
        };
        Some(Edge { from: from?, to: to?, branch })
    }

    fn branch(&mut self, fields: &Fields<'_>) -> Option<Field<EcoString>> {
        let place = fields.get("branch").filter(|place| !place.node.value.is_null())?;
        let text = self.scalar_text(&place, "branch")?;
        Some(place.field(text))
    }

    /// The nodes that a node needs: `a`, `gate.true`.
    pub(super) fn needs(&mut self, fields: &Fields<'_>) -> Vec<Need> {
        let Some(place) = fields.get("needs") else { return Vec::new() };
        let places: Vec<Place<'_>> = match place.node.value.kind() {
            Type::List => place.items().collect(),
            _ => vec![place],
        };
        let mut needs = Vec::new();
        for place in places {
            let Some(text) = self.scalar_text(&place, "needs") else { continue };
            let (node, branch) = match text.rsplit_once('.') {
                Some((node, branch)) => (node.into(), Some(branch.into())),
                None => (text, None),
            };
            needs.push(Need { node, branch, span: place.node.span });
        }
        needs
    }

    /// The condition of a conditional node.
    pub(super) fn conditional(&mut self, fields: &Fields<'_>) -> Option<Condition> {
        let place = fields.get("condition")?;
        let text = self.scalar_text(&place, "condition")?;
        let written = EcoString::from(text.trim_end_matches('\n'));
        let exists = self.choice(fields, "condition_type") == Some("exists");
        let alone =
            exists && Expression::parse(written.clone(), &self.syntax).is_ok_and(|it| it.is_reference());
        // Behind the reference, so that every place in it stays where it is.
        let source = if exists { eco_format!("{written} | exists") } else { written.clone() };
        match Expression::parse(source, &self.syntax) {
            Ok(_) if exists && !alone => {
                let message = "`condition_type: exists` takes one reference";
                let hint = "write `exists(...)` in a condition of type `expression`";
                self.problem(Check::WrongType.at(span_of(place.node), message).hint(hint));
                None
            }
            Ok(expression) => Some(Condition { expression: place.field(Arc::new(expression)), written }),
            Err(error) => {
                let problem = problem::of_language(&error, &place.origin(), self.file.text());
                self.problem(problem);
                None
            }
        }
    }

    pub(super) fn trigger(&mut self, fields: &Fields<'_>) -> Option<Trigger> {
        let place = fields.get("trigger")?;
        let short = place.node.value.as_object().is_none();
        let (kind, config) = if short {
            (self.choice_at(&place, "trigger", TRIGGER.known("type").choices()), None)
        } else {
            let inner = self.fields(place.clone(), &TRIGGER)?;
            (self.choice(&inner, "type"), inner.get("config"))
        };
        let kind = match kind? {
            "schedule" => TriggerKind::Schedule,
            "webhook" => TriggerKind::Webhook,
            _ => TriggerKind::Manual,
        };
        let written = config.as_ref().map(|config| config.node.value.clone());
        let (mut enabled, mut filters) = (true, None);
        if let Some(config) = config.and_then(|config| self.fields(config, &TRIGGER_CONFIG)) {
            enabled = self.bool(&config, "enabled");
            let params = self.map(&config, "params");
            self.trigger_params(kind, params.as_ref(), config.place.node);
            filters = self.filters(&config);
        } else if written.is_none() {
            self.trigger_params(kind, None, place.node);
        }
        let config = written.unwrap_or_else(|| Value::empty_object());
        Some(Trigger { kind, enabled, filters, config })
    }

    /// What says when a trigger fires, as far as it is known to be right.
    fn trigger_params(&mut self, kind: TriggerKind, params: Option<&Place<'_>>, config: &TreeNode) {
        let param = |name: &str| params.and_then(|params| params.node.get(name));
        match kind {
            TriggerKind::Manual => {}
            TriggerKind::Schedule => match (param("cron"), param("every")) {
                (None, None) => {
                    let problem = Check::MissingKey
                        .at(head(config), "a schedule needs `cron` or `every` in its `params`");
                    self.problem(
                        problem.hint("write `params: {cron: \"0 7 * * 1-5\"}` or `params: {every: 15m}`"),
                    );
                }
                (cron, every) => {
                    if let Some(cron) = cron
                        && let Some(why) = forms::not_cron(&cron.value)
                    {
                        let problem = Check::WrongType.at(span_of(cron), format!("`cron` {why}"));
                        self.problem(
                            problem
                                .hint("five fields: minute, hour, day of the month, month, day of the week"),
                        );
                    }
                    if let Some(every) = every
                        && forms::duration(&every.value).is_none_or(|time| time.is_zero())
                    {
                        let message =
                            format!("`every` takes {}, not {}", forms::DURATION_FORM, shown(&every.value));
                        self.problem(Check::BadDuration.at(span_of(every), message));
                    }
                }
            },
            TriggerKind::Webhook => {
                if let Some(path) = param("path")
                    && !path.value.as_str().is_some_and(|path| path.starts_with('/'))
                {
                    let message =
                        format!("`path` takes a path that begins with `/`, not {}", shown(&path.value));
                    self.problem(Check::WrongType.at(span_of(path), message));
                }
            }
        }
    }

    /// What must hold of the payload.
    fn filters(&mut self, fields: &Fields<'_>) -> Option<Field<Arc<Expectations>>> {
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
            self.problem(problem);
        }
        if let Some(first) = filters.dynamics().first() {
            let span = match first {
                threadline_expect::Dynamic::Value(field) => field.origin.span,
                threadline_expect::Dynamic::Expression(field) => field.origin.span,
            };
            let message = "a filter is fixed: it is read before anything of the run is known";
            self.problem(Check::WrongType.at(span, message));
        }
        Some(place.field(Arc::new(filters)))
    }

    /// What only a node of a graph has.
    pub(super) fn nodes_only(&mut self, fields: &Fields<'_>) {
        let keys = [
            ("condition", "write `when:` on the steps that depend on it"),
            ("trigger", "what a caller gives is `inputs:`"),
            ("needs", "steps run in the order they are written"),
        ];
        for (key, hint) in keys {
            if let Some(found) = fields.found(key) {
                let message = format!("`{key}` is for the nodes of a graph, and this is a step of a list");
                self.problem(Check::KeyNotHere.at(found.entry.key_span, message).hint(hint));
            }
        }
    }
}
