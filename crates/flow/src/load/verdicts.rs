//! Checks that the keys of a state fit together: that every verdict has a route, and that no key is without
//! effect.
//!
//! Only the state itself is checked here; the plan checks the paths through all states.

use std::sync::Arc;

use ecow::EcoString;
use threadline_lang::diag::{nearest, words};
use threadline_lang::{Expression, Scope, Type};

use super::expand::mild;
use super::read::{ObjectFields, WorkflowLoader};
use crate::checks::Check;
use crate::fields::STEP;
use crate::model::{Action, Evaluator, Field, State, Step, Target, Terminal, Verdicts};
use crate::plan::SELF;

/// The verdict of a failed judgement, which has its own routes.
const ERROR: &str = "error";

/// The keys that name a following state.
const ROUTES: [&str; 5] = ["next", "on_yes", "on_no", "on_VERDICT", "route"];

/// Names that suggest a failure.
const FAILURE_NAMES: [&str; 7] = ["failed", "failure", "fail", "error", "errored", "aborted", "abort"];

impl WorkflowLoader {
    /// Checks a state whose keys are valid one by one.
    pub(super) fn check_state(&mut self, fields: &ObjectFields<'_>, step: &Step) {
        let Some(state) = &step.state else { return };
        self.check_without_action(fields, step);
        if let Some(terminal) = state.terminal {
            return self.check_end(fields, state, terminal);
        }
        self.check_retries(fields, state);
        if let Action::Fail(_) = step.action {
            return self.check_failing(fields, step, state);
        }
        let routes = &state.routes;
        if routes.on.is_empty() && routes.conditions.is_empty() && routes.otherwise.is_none() {
            if !ROUTES.iter().any(|key| fields.misspelt(key)) && !fields.misspelt("terminal") {
                self.report_no_route(state);
            }
            return;
        }
        if let Some(verdicts) = possible_verdicts(step) {
            let meant = self.report_unknown_verdicts(fields, step, state, &verdicts);
            self.report_unrouted_verdicts(step, state, &verdicts, &meant);
        } else if routes.on.is_empty() && routes.otherwise.is_none() {
            self.report_unrouted_condition(state);
        }
    }

    /// Refuses keys that apply to an action, if the state has none.
    fn check_without_action(&mut self, fields: &ObjectFields<'_>, step: &Step) {
        if !matches!(step.action, Action::Nothing) {
            return;
        }
        let of_steps =
            |name: &str| STEP.key(name).is_some_and(|key| key.name != "name" && key.name != "capture");
        for found in fields.all().iter().filter(|found| of_steps(found.key.name)) {
            let message = format!("`{}` only applies to an action, but this state has none", found.written);
            // Nothing comes of it.
            self.report(mild(Check::KeyNotHere.at(found.entry.key_span, message).hint("remove it")));
        }
    }

    /// Checks a terminal state, which nothing follows.
    fn check_end(&mut self, fields: &ObjectFields<'_>, state: &State, terminal: Terminal) {
        let name = &state.name;
        let follow = ["evaluate", "on_error", "max_retries", "on_retry_exhausted"];
        for key in ROUTES.iter().chain(&follow) {
            for found in fields.all().iter().filter(|found| found.key.name == *key) {
                let message = format!("`{}` ends the loop, so `{}` has no effect", name.value, found.written);
                let problem = Check::KeyNotHere.at(found.entry.key_span, message);
                // Nothing comes of it; a route may be what was meant.
                let is_route = ROUTES.contains(key) || *key == "on_error";
                let problem = problem.hint("remove one of them");
                self.report(if is_route { problem } else { mild(problem) });
            }
        }
        // `terminal: success` is explicit.
        let explicit =
            fields.get("terminal").is_some_and(|place| place.node.value.as_str() == Some("success"));
        if terminal == Terminal::Success
            && !explicit
            && FAILURE_NAMES.contains(&name.value.to_lowercase().as_str())
        {
            let message =
                format!("`{}` sounds like a failure, but `terminal: true` makes it a success", name.value);
            self.report(
                Check::TerminalName
                    .at(name.origin.span, message)
                    .hint("write `terminal: failure` or `terminal: success`"),
            );
        }
    }

    /// Checks a state that always fails: nothing but an error has a route there, and nothing judges it.
    fn check_failing(&mut self, fields: &ObjectFields<'_>, step: &Step, state: &State) {
        let name = &state.name.value;
        let routes = &state.routes;
        let is_for_others =
            routes.error.is_none() && routes.otherwise.is_some() && fields.found("next").is_none();
        let is_in_vain = is_for_others || !routes.conditions.is_empty();
        let useless = ["next", "evaluate"].into_iter().chain(is_in_vain.then_some("route"));
        for found in useless.filter_map(|key| fields.found(key)) {
            let message = format!("`{name}` always fails, so `{}` has no effect", found.written);
            let problem = Check::KeyNotHere.at(found.entry.key_span, message);
            self.report(match found.key.name {
                "next" if routes.error.is_none() => problem.did_you_mean("on_error"),
                _ => problem.hint("remove it"),
            });
        }
        self.report_unknown_verdicts(fields, step, state, &[]);
        let has_route = routes.error.is_some() || ROUTES.iter().any(|key| fields.found(key).is_some());
        if !has_route && !fields.misspelt("on_error") && !fields.misspelt("terminal") {
            let message = format!("`{name}` has no route, and does not end the loop");
            self.report(
                Check::NoWayOut
                    .at(state.name.origin.span, message)
                    .hint("write `on_error: STATE`, or `terminal: failure` if the loop ends there"),
            );
        }
    }

    fn report_no_route(&mut self, state: &State) {
        let name = &state.name;
        let message = if state.routes.error.is_some() {
            format!("`{}` has a route only for errors, and does not end the loop", name.value)
        } else {
            format!("`{}` has no route, and does not end the loop", name.value)
        };
        self.report(
            Check::NoWayOut
                .at(name.origin.span, message)
                .hint("write `next: STATE`, or `terminal: true` if the loop ends there"),
        );
    }

    /// Reports routes for verdicts that the state never has. Returns the verdicts that were probably meant.
    fn report_unknown_verdicts<'v>(
        &mut self,
        fields: &ObjectFields<'_>,
        step: &Step,
        state: &State,
        verdicts: &'v [EcoString],
    ) -> Vec<&'v str> {
        let mut written = Vec::new();
        for found in fields.all() {
            match found.key.name {
                "on_yes" => written.push(("yes", "on_", found.entry.key_span)),
                "on_no" => written.push(("no", "on_", found.entry.key_span)),
                "on_VERDICT" => written.push((&found.written["on_".len()..], "on_", found.entry.key_span)),
                "route" => {
                    let entries = fields.place.key(found.written, found.entry);
                    let entries = entries.entries().map(|(verdict, entry, _)| (verdict, "", entry.key_span));
                    written
                        .extend(entries.filter(|(verdict, ..)| !matches!(*verdict, "_" | "_error" | ERROR)));
                }
                _ => {}
            }
        }
        let mut meant = Vec::new();
        for (verdict, prefix, span) in written {
            if verdicts.iter().any(|known| known == verdict) {
                continue;
            }
            let message = format!("`{}` never has the verdict `{verdict}`", state.name.value);
            let problem = Check::UnknownVerdict.at(span, message).note(describe_verdicts(step, verdicts));
            let by_action = state.evaluate.is_none()
                && !matches!(step.action, Action::Shell { .. } | Action::Argv(_) | Action::Fail(_));
            let problem = match nearest(verdict, verdicts.iter().map(EcoString::as_str).chain([ERROR])) {
                Some(near) => {
                    meant.extend(verdicts.iter().map(EcoString::as_str).find(|known| *known == near));
                    problem.did_you_mean(format_args!("{prefix}{near}"))
                }
                None if by_action => problem.hint("write `evaluate:` to define the verdicts"),
                // Nothing is meant by it that could not be read: the route is never taken.
                None if !verdicts.is_empty() && !matches!(verdict, "yes" | "no") => mild(problem),
                None => problem,
            };
            self.report(problem);
        }
        meant
    }

    /// Reports possible verdicts that have no route.
    fn report_unrouted_verdicts(
        &mut self,
        step: &Step,
        state: &State,
        verdicts: &[EcoString],
        meant: &[&str],
    ) {
        let routes = &state.routes;
        if routes.otherwise.is_some() {
            return;
        }
        let asked = |(condition, _): &(Field<Arc<Expression>>, Target), verdict: &str| {
            let asked = condition.value.source().trim().strip_prefix("result.verdict").map(str::trim_start);
            let asked = asked.and_then(|asked| asked.strip_prefix("==")).map(str::trim);
            asked.is_some_and(|asked| asked.trim_matches(['\'', '"']) == verdict)
        };
        let leads_on = |verdict: &str| {
            meant.contains(&verdict)
                || routes.on.iter().any(|(known, _)| known == verdict)
                || routes.conditions.iter().any(|route| asked(route, verdict))
        };
        let unrouted: Vec<&EcoString> = verdicts.iter().filter(|verdict| !leads_on(verdict)).collect();
        let Some(first) = unrouted.first() else { return };
        if !routes.conditions.is_empty() {
            return self.report_unrouted_condition(state);
        }
        let noun = words::plural(&unrouted.len(), "verdict");
        let message = format!(
            "`{}` has no route for the {noun} {}",
            state.name.value,
            words::code_list(&unrouted, "and")
        );
        self.report(
            Check::UnroutedVerdict
                .at(state.name.origin.span, message)
                .note(describe_verdicts(step, verdicts))
                .hint(format!("add `on_{first}: STATE`, or `next: STATE` for every verdict without a route")),
        );
    }

    fn report_unrouted_condition(&mut self, state: &State) {
        let name = &state.name;
        let message = format!("`{}` fails if none of its conditions holds", name.value);
        let problem = Check::UnroutedCondition.at(name.origin.span, message);
        self.report(problem.hint("write `next: STATE` for that case"));
    }

    fn check_retries(&mut self, fields: &ObjectFields<'_>, state: &State) {
        let (most, exhausted) = (fields.found("max_retries"), fields.found("on_retry_exhausted"));
        let itself = |target: &Target| target.value == SELF || target.value == state.name.value;
        let routes = &state.routes;
        let again = routes.on.iter().map(|(_, target)| target);
        let again = again.chain(routes.conditions.iter().map(|(_, target)| target));
        let again = again.chain(&routes.otherwise).chain(&routes.error).any(itself);
        match (most, exhausted) {
            (None, Some(exhausted)) => {
                let message = format!("`{}` needs `max_retries`", exhausted.written);
                self.report(Check::MissingKey.at(exhausted.entry.key_span, message));
            }
            (Some(most), _) if !again => {
                let message = format!(
                    "no route of `{}` leads back to itself, so there is nothing to retry",
                    state.name.value
                );
                let problem = Check::KeyNotHere
                    .at(most.entry.key_span, message)
                    .hint("add a route such as `on_no: self`, or use `retry:` to repeat a failed action");
                // Without an effect, it does no harm.
                self.report(mild(problem));
            }
            (Some(most), None) if !fields.misspelt("on_retry_exhausted") => {
                let message = format!("`{}` fails when its retries are exhausted", state.name.value);
                self.report(
                    Check::UnroutedRetry
                        .at(most.entry.key_span, message)
                        .hint("write `on_retry_exhausted: STATE` for that case"),
                );
            }
            (None, None) | (Some(_), _) => {}
        }
    }
}

/// The possible verdicts of a state besides `error`, if they are known before the run.
fn possible_verdicts(step: &Step) -> Option<Vec<EcoString>> {
    match step.evaluator()? {
        // Only a command has an exit code, and only a called loop can end in a failure state without failing.
        Evaluator::Outcome
            if !matches!(step.action, Action::Workflow(_) | Action::Shell { .. } | Action::Argv(_)) =>
        {
            Some(vec!["yes".into()])
        }
        Evaluator::Expression(expression) => {
            // No names are in scope, so the type must follow from the expression itself.
            let kind = expression.value.infer(&Scope::new()).types().only();
            (kind == Some(Type::Bool)).then(|| vec!["yes".into(), "no".into()])
        }
        evaluator => match evaluator.verdicts() {
            Verdicts::Known(verdicts) => Some(verdicts),
            Verdicts::Any => None,
        },
    }
}

/// The possible verdicts of a state, in words.
fn describe_verdicts(step: &Step, verdicts: &[EcoString]) -> String {
    if let Action::Fail(_) = step.action {
        return "a state with `fail` only has the verdict `error`".to_owned();
    }
    let by = step.evaluator().map_or("", Evaluator::name);
    let verdicts = words::code_list(verdicts.iter().map(EcoString::as_str).chain([ERROR]), "and");
    format!("judged by `{by}`, whose verdicts are {verdicts}")
}
