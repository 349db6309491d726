//! Loops of a file: the states, what judges them, and where each verdict leads. Which state a name means is the plan's
//! work.

use std::sync::Arc;

use ecow::EcoString;
use threadline_lang::diag::Span;
use threadline_lang::{Document, Type};

use super::Steps;
use super::read::{Fields, Found, Loader, Place, head};
use crate::checks::Check;
use crate::fields::{ActionName, ROUTE, STATE};
use crate::model::{self, Action, Field, Loop, Routes, Setting, Shape, State, Target, Terminal};
use crate::plan;

/// The keys of a file that only a loop has, beside `states`.
const KEYS: [&str; 8] = [
    "initial",
    "max_steps",
    "max_iterations",
    "max_edge_revisits",
    "max_stall",
    "timeout",
    "backoff",
    "maintain",
];

impl Loader {
    /// What holds for all states, when the file has any.
    pub(super) fn loop_shape(&mut self, fields: &Fields<'_>) -> Option<Shape> {
        let Some(states) = fields.found("states") else {
            for found in KEYS.iter().filter_map(|key| fields.found(key)) {
                let message = format!("`{}` belongs to a loop, and this file has no `states`", found.written);
                let problem = Check::KeyNotHere.at(found.entry.key_span, message);
                self.problem(match found.key.name {
                    "timeout" => problem.hint("give each step its own `timeout:`"),
                    _ => problem,
                });
            }
            return None;
        };
        for found in ["steps", "nodes", "edges"].iter().filter_map(|key| fields.found(key)) {
            let message = format!("a loop has `states`, and no `{}`", found.written);
            self.problem(Check::ConflictingKeys.at(found.entry.key_span, message));
        }
        let initial = self.name(fields, "initial").unwrap_or_else(|| {
            if fields.found("initial").is_none() && !fields.misspelt("initial") {
                let message = "a loop needs `initial`: the state that it begins with";
                self.problem(Check::MissingKey.at(states.entry.key_span, message));
            }
            fields.place.field(EcoString::new())
        });
        Some(Shape::Loop(Box::new(Loop {
            initial,
            max_steps: self.count(fields, "max_steps"),
            max_iterations: self.count(fields, "max_iterations"),
            max_edge_revisits: self.count(fields, "max_edge_revisits"),
            max_stall: self.count(fields, "max_stall"),
            timeout: self.time_limit(fields, "timeout"),
            backoff: self.duration(fields, "backoff"),
            maintain: self.bool(fields, "maintain"),
        })))
    }

    /// The states of a loop, each a step.
    pub(super) fn states(&mut self, fields: &Fields<'_>) -> Steps {
        let Some(place) = self.map(fields, "states") else { return Vec::new() };
        let mut states = Vec::new();
        for (name, entry, at) in place.entries() {
            if !self.check_name(name, entry.key_span) {
                continue;
            }
            if name == plan::SELF {
                let message =
                    format!("`{name}` is the state that a route stands in: no state can be called so");
                self.problem(Check::ReservedName.at(entry.key_span, message));
                continue;
            }
            let mut written = at.field(EcoString::from(name));
            written.origin.span = entry.key_span;
            states.extend(self.state(at, written));
        }
        if states.is_empty() && place.node.entries().next().is_none() {
            self.problem(Check::NoSteps.at(place.node.span, "`states` has no state"));
        }
        states
    }

    fn state(&mut self, place: Place<'_>, name: Field<EcoString>) -> Option<Arc<model::Step>> {
        let origin = place.origin();
        let fields = self.fields(place, &STATE)?;
        let action = self.state_action(&fields);
        let problems = self.problems.len();
        let evaluate = self.evaluate(&fields, action.as_ref());
        let routes = self.routes(&fields);
        let terminal = match self.choice(&fields, "terminal") {
            Some("success") => Some(Terminal::Success),
            Some("failure") => Some(Terminal::Failure),
            _ => None,
        };
        let max_retries = self.count(&fields, "max_retries").and_then(|count| match count {
            Setting::Fixed(count) => Some(count),
            Setting::Dynamic(_) => None,
        });
        let params = self.params(&fields);
        let mut step = self.step_with(&fields, origin, action);
        step.state = Some(Box::new(State { name, evaluate, routes, terminal, max_retries, params }));
        // What cannot be read is no ground to say anything of the rest.
        if self.problems.len() == problems {
            self.check_state(&fields, &step);
        }
        Some(Arc::new(step))
    }

    /// The values that only this state reads.
    fn params(&mut self, fields: &Fields<'_>) -> Vec<(EcoString, Field<Document>)> {
        let Some(place) = self.map(fields, "param") else { return Vec::new() };
        let mut params = Vec::new();
        for (name, entry, at) in place.entries() {
            if self.check_name(name, entry.key_span)
                && let Some(document) = self.document(&at)
            {
                params.push((name.into(), document));
            }
        }
        params
    }

    /// What a state does: one of the actions of a step, `action`, or nothing.
    fn state_action(&mut self, fields: &Fields<'_>) -> Option<Action> {
        let short = fields.found("action");
        let kind = self.choice(fields, "action_type");
        let others: Vec<&Found<'_>> = ActionName::ALL
            .iter()
            .filter_map(|action| fields.found(action.key()))
            .chain(fields.found("claude"))
            .filter(|found| !(found.key.name == "agent" && short.is_some() && kind == Some("prompt")))
            .collect();
        let Some(short) = short else {
            if let Some(kind) = fields.found("action_type") {
                self.problem(
                    Check::MissingKey.at(kind.entry.key_span, "`action_type` needs `action` beside it"),
                );
            }
            if others.is_empty() {
                return Some(Action::Nothing);
            }
            let action = self.action_name(fields)?;
            self.check_applies(fields, action);
            return self.action(fields, action);
        };
        if let Some(other) = others.first() {
            let message = format!("a state does one thing: `action` or `{}`", other.written);
            self.problem(Check::ConflictingKeys.at(other.entry.key_span, message));
            return None;
        }
        let place = fields.place.key(short.written, short.entry);
        match kind {
            Some("prompt") => {
                self.check_applies(fields, ActionName::Agent);
                let message = self.template(&place, "action")?;
                let agent = if fields.found("agent").is_some() {
                    self.name(fields, "agent")?
                } else {
                    let mut agent = place.field(EcoString::from("claude"));
                    agent.origin.span = short.entry.key_span;
                    agent
                };
                Some(Action::Agent { agent, message })
            }
            Some("mcp_tool") => {
                self.check_applies(fields, ActionName::Tool);
                self.tool_at(fields, &place)
            }
            _ => {
                self.check_applies(fields, ActionName::Shell);
                let interpolate = self.bool(fields, "interpolate");
                let text = self.scalar_text(&place, "action")?;
                Some(Action::Shell { text: place.field(text), interpolate })
            }
        }
    }

    // ---- routes ----------------------------------------------------------------------------------------

    fn routes(&mut self, fields: &Fields<'_>) -> Routes {
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
                    routes.exhausted = self.target(&place);
                    continue;
                }
                "route" => {
                    self.route(&place, &mut routes);
                    continue;
                }
                _ => continue,
            };
            self.put_route(&mut routes, verdict, &place, found.entry.key_span);
        }
        routes
    }

    fn route(&mut self, place: &Place<'_>, routes: &mut Routes) {
        match place.node.value.kind() {
            Type::Object => {
                for (verdict, entry, at) in place.entries() {
                    let verdict = if verdict == "error" { "_error" } else { verdict };
                    self.put_route(routes, verdict, &at, entry.key_span);
                }
            }
            Type::List => {
                for item in place.items() {
                    let Some(inner) = self.fields(item, &ROUTE) else { continue };
                    let when = self.expression(&inner, "when");
                    let to = inner.get("to").and_then(|place| self.target(&place));
                    routes.conditions.extend(when.zip(to));
                }
            }
            _ => {
                let message =
                    "`route` takes verdicts and the states that follow them, or a list of conditions";
                self.problem(Check::WrongType.at(head(place.node), message));
            }
        }
    }

    /// Where a verdict leads, `_` for any other and `_error` for an error: each has one route, however it is written.
    fn put_route(&mut self, routes: &mut Routes, verdict: &str, place: &Place<'_>, key: Span) {
        let Some(target) = self.target(place) else { return };
        if !matches!(verdict, "_" | "_error") && !model::is_verdict(verdict) {
            let message = format!("`{verdict}` cannot be a verdict: {}", model::VERDICT_FORM);
            return self.problem(Check::BadName.at(key, message));
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
            let message =
                format!("there are two routes for {what}: to `{}` and to `{}`", first.value, target.value);
            return self.problem(Check::ConflictingKeys.at(key, message).hint("keep one of them"));
        }
        match verdict {
            "_" => routes.otherwise = Some(target),
            "_error" => routes.error = Some(target),
            verdict => routes.on.push((verdict.into(), target)),
        }
    }

    fn target(&mut self, place: &Place<'_>) -> Option<Target> {
        let text = self.scalar_text(place, "the state that follows")?;
        Some(place.field(text))
    }
}
