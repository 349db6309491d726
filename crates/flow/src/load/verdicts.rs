//! Whether the keys of a state go together: where each verdict leads, and what never matters.
//!
//! Only what the state itself says is looked at; the ways through all states are the plan's work.

use std::sync::Arc;

use ecow::EcoString;
use threadline_lang::diag::nearest;
use threadline_lang::{Expression, Scope, Type};

use super::read::{Fields, Loader};
use crate::checks::Check;
use crate::fields::STEP;
use crate::model::{Action, Evaluator, Field, State, Step, Target, Terminal, Verdicts};
use crate::plan::SELF;

/// The verdict that no table lists: it has routes of its own.
const ERROR: &str = "error";

/// The keys that lead on from a state, whatever the verdict is.
const ROUTES: [&str; 5] = ["next", "on_yes", "on_no", "on_VERDICT", "route"];

/// The names of states that end a loop badly.
const BAD_ENDS: [&str; 7] = ["failed", "failure", "fail", "error", "errored", "aborted", "abort"];

impl Loader {
    /// What is wrong with a state, when each of its keys by itself is right.
    pub(super) fn check_state(&mut self, fields: &Fields<'_>, step: &Step) {
        let Some(state) = &step.state else { return };
        self.does_nothing(fields, step);
        if let Some(terminal) = state.terminal {
            return self.check_end(fields, state, terminal);
        }
        self.check_retries(fields, state);
        let routes = &state.routes;
        if routes.on.is_empty() && routes.conditions.is_empty() && routes.otherwise.is_none() {
            if !ROUTES.iter().any(|key| fields.misspelt(key)) && !fields.misspelt("terminal") {
                self.no_way_out(state);
            }
            return;
        }
        if let Some(verdicts) = possible(step) {
            let meant = self.never_given(fields, step, state, &verdicts);
            self.lead_nowhere(step, state, &verdicts, &meant);
        } else if routes.on.is_empty() && routes.otherwise.is_none() {
            self.no_condition_holds(state);
        }
    }

    /// A state that does nothing takes no key of something that is done.
    fn does_nothing(&mut self, fields: &Fields<'_>, step: &Step) {
        if !matches!(step.action, Action::Nothing) {
            return;
        }
        let of_steps = |name: &str| STEP.key(name).is_some_and(|key| key.name != "name");
        for found in fields.all().iter().filter(|found| of_steps(found.key.name)) {
            let message = format!("`{}` goes with an action, and this state has none", found.written);
            self.problem(Check::KeyNotHere.at(found.entry.key_span, message));
        }
    }

    /// The loop ends with the state: nothing follows it.
    fn check_end(&mut self, fields: &Fields<'_>, state: &State, terminal: Terminal) {
        let name = &state.name;
        let follow = ["evaluate", "on_error", "max_retries", "on_retry_exhausted"];
        for key in ROUTES.iter().chain(&follow) {
            for found in fields.all().iter().filter(|found| found.key.name == *key) {
                let message =
                    format!("the loop ends with `{}`: `{}` never matters there", name.value, found.written);
                let problem = Check::KeyNotHere.at(found.entry.key_span, message);
                self.problem(problem.hint("leave out the one or the other"));
            }
        }
        // Who writes `success` has said it.
        let said = fields.get("terminal").is_some_and(|place| place.node.value.as_str() == Some("success"));
        if terminal == Terminal::Success && !said && BAD_ENDS.contains(&name.value.to_lowercase().as_str()) {
            let message =
                format!("`{}` sounds like a bad end, and `terminal: true` makes it a good one", name.value);
            self.problem(Check::TerminalName.at(name.origin.span, message).hint(
                "when the loop has failed there: `terminal: failure`; when it has not: `terminal: success`",
            ));
        }
    }

    fn no_way_out(&mut self, state: &State) {
        let name = &state.name;
        let message = if state.routes.error.is_some() {
            format!("`{}` leads on only after an error, and does not end the loop", name.value)
        } else {
            format!("`{}` leads nowhere, and does not end the loop", name.value)
        };
        self.problem(
            Check::NoWayOut
                .at(name.origin.span, message)
                .hint("say what follows, `next: STATE`, or that the loop ends there, `terminal: true`"),
        );
    }

    /// Routes for verdicts that the state does not come to. The verdicts that were most likely meant come back.
    fn never_given<'v>(
        &mut self,
        fields: &Fields<'_>,
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
            let message = format!("`{}` never comes to the verdict `{verdict}`", state.name.value);
            let problem = Check::UnknownVerdict.at(span, message).note(given(step, verdicts));
            let by_action =
                state.evaluate.is_none() && !matches!(step.action, Action::Shell { .. } | Action::Argv(_));
            let problem = match nearest(verdict, verdicts.iter().map(EcoString::as_str).chain([ERROR])) {
                Some(near) => {
                    meant.extend(verdicts.iter().map(EcoString::as_str).find(|known| *known == near));
                    problem.hint(format!("did you mean `{prefix}{near}`"))
                }
                None if by_action => problem.hint("say what the verdict is made of: `evaluate:`"),
                None => problem,
            };
            self.problem(problem);
        }
        meant
    }

    /// Verdicts that the state comes to and that have no route.
    fn lead_nowhere(&mut self, step: &Step, state: &State, verdicts: &[EcoString], meant: &[&str]) {
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
        let left: Vec<&EcoString> = verdicts.iter().filter(|verdict| !leads_on(verdict)).collect();
        let Some(first) = left.first() else { return };
        if !routes.conditions.is_empty() {
            return self.no_condition_holds(state);
        }
        let words: Vec<String> = left.iter().map(|verdict| format!("`{verdict}`")).collect();
        let (noun, verb) = if left.len() == 1 { ("verdict", "leads") } else { ("verdicts", "lead") };
        let message = format!("the {noun} {} of `{}` {verb} nowhere", words.join(", "), state.name.value);
        self.problem(
            Check::UnroutedVerdict
                .at(state.name.origin.span, message)
                .note(given(step, verdicts))
                .hint(format!("add `on_{first}: STATE`, or `next: STATE` for every verdict without a route")),
        );
    }

    fn no_condition_holds(&mut self, state: &State) {
        let name = &state.name;
        let message = format!("nothing follows `{}` when none of its conditions holds: it fails", name.value);
        let problem = Check::UnroutedCondition.at(name.origin.span, message);
        self.problem(problem.hint("say what follows then: `next: STATE`"));
    }

    fn check_retries(&mut self, fields: &Fields<'_>, state: &State) {
        let (most, exhausted) = (fields.found("max_retries"), fields.found("on_retry_exhausted"));
        let itself = |target: &Target| target.value == SELF || target.value == state.name.value;
        let routes = &state.routes;
        let again = routes.on.iter().map(|(_, target)| target);
        let again = again.chain(routes.conditions.iter().map(|(_, target)| target));
        let again = again.chain(&routes.otherwise).chain(&routes.error).any(itself);
        match (most, exhausted) {
            (None, Some(exhausted)) => {
                let message = format!("`{}` needs `max_retries` beside it", exhausted.written);
                self.problem(Check::MissingKey.at(exhausted.entry.key_span, message));
            }
            (Some(most), _) if !again => {
                let message = format!(
                    "no route of `{}` leads back to itself: there is nothing to retry",
                    state.name.value
                );
                self.problem(Check::KeyNotHere.at(most.entry.key_span, message).hint(
                    "lead back with `self`, as in `on_no: self`; `retry:` is for an action that fails",
                ));
            }
            (Some(most), None) if !fields.misspelt("on_retry_exhausted") => {
                let message = format!(
                    "when `{}` may not follow itself again, nothing follows: it fails",
                    state.name.value
                );
                self.problem(
                    Check::UnroutedRetry
                        .at(most.entry.key_span, message)
                        .hint("say what follows then: `on_retry_exhausted: STATE`"),
                );
            }
            (None, None) | (Some(_), _) => {}
        }
    }
}

/// The verdicts that a state can come to, beside `error`; none when they are not known before it runs.
fn possible(step: &Step) -> Option<Vec<EcoString>> {
    match step.evaluator()? {
        // Only what is called can come to a bad end that is no failure.
        Evaluator::Outcome if !matches!(step.action, Action::Workflow(_)) => Some(vec!["yes".into()]),
        Evaluator::Expression(expression) => {
            // Without a name in scope only what the text itself says is known.
            let kind = expression.value.infer(&Scope::new()).types.only();
            (kind == Some(Type::Bool)).then(|| vec!["yes".into(), "no".into()])
        }
        evaluator => match evaluator.verdicts() {
            Verdicts::Known(verdicts) => Some(verdicts),
            Verdicts::Any => None,
        },
    }
}

/// Which verdicts there are, in words.
fn given(step: &Step, verdicts: &[EcoString]) -> String {
    let by = step.evaluator().map_or("", Evaluator::name);
    let words: Vec<String> = verdicts.iter().map(|verdict| format!("`{verdict}`")).collect();
    format!("judged by `{by}`, which gives {} or `{ERROR}`", words.join(", "))
}
