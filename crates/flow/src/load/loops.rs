//! Reads loops: the states, their evaluations and their routes. The plan resolves the names of states.

use std::sync::Arc;

use ecow::EcoString;
use threadline_lang::diag::Span;
use threadline_lang::{Document, Type};

use super::StepList;
use super::read::{FoundKey, LocatedNode, ObjectFields, WorkflowLoader, head};
use crate::checks::Check;
use crate::fields::{ActionName, ROUTE, STATE};
use crate::model::{
    self, Action, Evaluate, Evaluator, Field, Judge, Loop, Routes, Shape, State, Target, Terminal,
};
use crate::plan;

/// The keys of a file that only a loop has, besides `states`.
const KEYS: [&str; 7] =
    ["initial", "max_steps", "max_iterations", "max_edge_revisits", "max_stall", "backoff", "maintain"];

impl WorkflowLoader {
    /// Reads the settings of a loop, if the file has states.
    pub(super) fn read_loop_shape(&mut self, fields: &ObjectFields<'_>) -> Option<Shape> {
        let Some(states) = fields.found("states") else {
            for found in KEYS.iter().filter_map(|key| fields.found(key)) {
                let message =
                    format!("`{}` only applies to loops, but this file has no `states`", found.written);
                self.report(Check::KeyNotHere.at(found.entry.key_span, message));
            }
            return None;
        };
        for found in ["steps", "nodes", "edges"].iter().filter_map(|key| fields.found(key)) {
            let message = format!("a loop has `states` and cannot have `{}`", found.written);
            self.report(Check::ConflictingKeys.at(found.entry.key_span, message));
        }
        let initial = self.read_name(fields, "initial").unwrap_or_else(|| {
            if fields.found("initial").is_none() && !fields.misspelt("initial") {
                let message = "a loop needs `initial`, the name of its first state";
                self.report(Check::MissingKey.at(states.entry.key_span, message));
            }
            fields.place.field(EcoString::new())
        });
        Some(Shape::Loop(Box::new(Loop {
            initial,
            max_steps: self.read_count(fields, "max_steps"),
            max_iterations: self.read_count(fields, "max_iterations"),
            max_edge_revisits: self.read_count(fields, "max_edge_revisits"),
            max_stall: self.read_count(fields, "max_stall"),
            backoff: self.read_duration(fields, "backoff"),
            maintain: self.read_bool(fields, "maintain"),
        })))
    }

    /// Reads the states of a loop, each as a step.
    pub(super) fn read_states(&mut self, fields: &ObjectFields<'_>) -> StepList {
        let Some(place) = self.read_map(fields, "states") else { return Vec::new() };
        let mut states = Vec::new();
        for (name, entry, at) in place.entries() {
            if !self.check_name(name, entry.key_span) {
                continue;
            }
            if name == plan::SELF {
                let message = format!("`{name}` is reserved: in a route it means the state itself");
                self.report(Check::ReservedName.at(entry.key_span, message));
                continue;
            }
            let mut written = at.field(EcoString::from(name));
            written.origin.span = entry.key_span;
            states.extend(self.read_state(at, written));
        }
        if states.is_empty() && place.node.entries().next().is_none() {
            self.report(Check::NoSteps.at(place.node.span, "`states` is empty"));
        }
        states
    }

    fn read_state(&mut self, place: LocatedNode<'_>, name: Field<EcoString>) -> Option<Arc<model::Step>> {
        let origin = place.origin();
        let fields = self.read_fields(place, &STATE)?;
        let action = self.read_state_action(&fields);
        let defaults = self.defaults.clone();
        let name_of = action.as_ref().map_or(ActionName::Nothing, Action::name);
        let fields = fields.with_defaults(defaults.as_deref(), name_of);
        let problems = self.problems.len();
        let routes = self.read_routes(&fields);
        let evaluate = self.read_evaluate(&fields, action.as_ref(), &routes);
        let evaluate = evaluate.or_else(|| default_judge(&fields, action.as_ref(), &routes));
        let terminal = match self.read_choice(&fields, "terminal") {
            Some("success") => Some(Terminal::Success),
            Some("failure") => Some(Terminal::Failure),
            _ => None,
        };
        let max_retries = self.read_count(&fields, "max_retries").and_then(|count| count.known());
        let params = self.read_params(&fields);
        let mut step = self.read_step_with(&fields, origin, action);
        step.state = Some(Box::new(State { name, evaluate, routes, terminal, max_retries, params }));
        // A state that cannot be read is not checked further.
        if self.problems.len() == problems {
            self.check_state(&fields, &step);
        }
        Some(Arc::new(step))
    }

    /// Reads the values that only this state reads.
    fn read_params(&mut self, fields: &ObjectFields<'_>) -> Vec<(EcoString, Field<Document>)> {
        let Some(place) = self.read_map(fields, "param") else { return Vec::new() };
        let mut params = Vec::new();
        for (name, entry, at) in place.entries() {
            if self.check_name(name, entry.key_span)
                && let Some(document) = self.read_document(&at)
            {
                params.push((name.into(), document));
            }
        }
        params
    }

    /// Reads the action of a state: one of the actions of a step, `action`, or none.
    fn read_state_action(&mut self, fields: &ObjectFields<'_>) -> Option<Action> {
        let short = fields.found("action");
        let kind = self.read_choice(fields, "action_type");
        let others: Vec<&FoundKey<'_>> = ActionName::ALL
            .iter()
            .filter_map(|action| fields.found(action.key()))
            .chain(fields.found("claude"))
            .filter(|found| !(found.key.name == "agent" && short.is_some() && kind == Some("prompt")))
            .collect();
        let Some(short) = short else {
            if let Some(kind) = fields.found("action_type") {
                self.report(Check::MissingKey.at(kind.entry.key_span, "`action_type` needs `action`"));
            }
            if others.is_empty() {
                return Some(Action::Nothing);
            }
            let action = self.find_action(fields)?;
            self.check_applies(fields, action);
            return self.read_action(fields, action);
        };
        if let Some(other) = others.first() {
            let message = format!("a state has one action: either `action` or `{}`", other.written);
            self.report(Check::ConflictingKeys.at(other.entry.key_span, message));
            return None;
        }
        let place = fields.place.key(short.written, short.entry);
        match kind {
            Some("prompt") => {
                self.check_applies(fields, ActionName::Agent);
                let message = self.read_template(&place, "action")?;
                let agent = if fields.found("agent").is_some() {
                    self.read_agent_name(fields)?
                } else {
                    let mut agent = place.field(EcoString::from("claude"));
                    agent.origin.span = short.entry.key_span;
                    agent
                };
                let answer = self.read_answer(fields);
                let thread = self.read_template_of(fields, "thread");
                let cache = self.read_given_bool(fields, "cache");
                Some(Action::Agent { agent, message, answer, thread, cache })
            }
            Some("mcp_tool") => {
                self.check_applies(fields, ActionName::Tool);
                self.read_tool_at(fields, &place)
            }
            _ => {
                self.check_applies(fields, ActionName::Shell);
                let interpolate = self.read_bool(fields, "interpolate");
                let text = self.read_scalar_text(&place, "action")?;
                Some(Action::Shell { text: place.field(text), interpolate })
            }
        }
    }

    // ---- routes ----------------------------------------------------------------------------------------

    fn read_routes(&mut self, fields: &ObjectFields<'_>) -> Routes {
        let mut routes = Routes::default();
        for found in fields.all() {
            let place = fields.place.key(found.written, found.entry);
            let verdict = match found.key.name {
                "on_yes" => "yes",
                "on_no" => "no",
                "on_error" => "_error",
                "next" => "_",
                "on_VERDICT" => &found.written["on_".len()..],
                "on_retry_exhausted" => {
                    routes.exhausted = self.read_target(&place);
                    continue;
                }
                "route" => {
                    self.read_route(&place, &mut routes);
                    continue;
                }
                _ => continue,
            };
            self.add_route(&mut routes, verdict, &place, found.entry.key_span);
        }
        routes
    }

    fn read_route(&mut self, place: &LocatedNode<'_>, routes: &mut Routes) {
        match place.node.value.kind() {
            Type::Object => {
                for (verdict, entry, at) in place.entries() {
                    let verdict = if verdict == "error" { "_error" } else { verdict };
                    self.add_route(routes, verdict, &at, entry.key_span);
                }
            }
            Type::List => {
                for item in place.items() {
                    let Some(inner) = self.read_fields(item, &ROUTE) else { continue };
                    let when = self.read_expression(&inner, "when");
                    let to = inner.get("to").and_then(|place| self.read_target(&place));
                    routes.conditions.extend(when.zip(to));
                }
            }
            _ => {
                let message = "`route` takes an object of states keyed by verdict, or a list of conditions";
                self.report(Check::WrongType.at(head(place.node), message));
            }
        }
    }

    /// Adds the route of a verdict, `_` for any other and `_error` for an error. A verdict has only one
    /// route.
    fn add_route(&mut self, routes: &mut Routes, verdict: &str, place: &LocatedNode<'_>, key: Span) {
        let Some(target) = self.read_target(place) else { return };
        if !matches!(verdict, "_" | "_error") && !model::is_verdict(verdict) {
            let message = format!("`{verdict}` cannot be a verdict: {}", model::VERDICT_FORM);
            return self.report(Check::BadName.at(key, message));
        }
        let first = match verdict {
            "_" => routes.otherwise.as_ref(),
            "_error" => routes.error.as_ref(),
            verdict => routes.on.iter().find(|(known, _)| known == verdict).map(|(_, target)| target),
        };
        if let Some(first) = first {
            let what = match verdict {
                "_" => "every other verdict".to_owned(),
                "_error" => "an error".to_owned(),
                verdict => format!("the verdict `{verdict}`"),
            };
            let message = format!("{what} has two routes: to `{}` and to `{}`", first.value, target.value);
            return self.report(Check::ConflictingKeys.at(key, message).hint("keep one of them"));
        }
        match verdict {
            "_" => routes.otherwise = Some(target),
            "_error" => routes.error = Some(target),
            verdict => routes.on.push((verdict.into(), target)),
        }
    }

    fn read_target(&mut self, place: &LocatedNode<'_>) -> Option<Target> {
        let text = self.read_scalar_text(place, "the state that follows")?;
        Some(place.field(text))
    }
}

/// What an agent did is judged by asking, where the state has routes for other verdicts than that it is done.
fn default_judge(fields: &ObjectFields<'_>, action: Option<&Action>, routes: &Routes) -> Option<Evaluate> {
    let tells_apart = routes.on.iter().any(|(verdict, _)| verdict != "yes");
    if fields.found("evaluate").is_some() || !tells_apart || !matches!(action, Some(Action::Agent { .. })) {
        return None;
    }
    let mut agent = fields.place.field(EcoString::from("claude"));
    agent.origin.span = head(fields.place.node);
    let judge = Judge {
        agent,
        prompt: None,
        verdicts: routes.judged_verdicts(),
        min_confidence: None,
        keeps_unsure: false,
        timeout: None,
    };
    let origin = fields.place.origin();
    Some(Evaluate { by: Evaluator::Agent(Box::new(judge)), source: None, any_exit_code: false, origin })
}
