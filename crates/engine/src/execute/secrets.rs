//! Effects that read secrets, made again with the values of the secrets, and outputs that hold one.
//!
//! Everything that is recorded is made with masks in place of secrets. Just before an effect is performed, the same
//! fields are evaluated once more, with the same computed values, for a driver that has the secrets. Nothing of that
//! second evaluation is recorded but the size of a file that was written.

use std::time::Duration;

use ecow::EcoString;
use threadline_flow::fields::{Failure, FailureKind};
use threadline_flow::model::{Evaluator, Moment, SecretOutput, Step};
use threadline_lang::Value;
use threadline_lang::diag::words;

use super::attempt::{bound_process, limits_of};
use super::driver::{Driver, SecretView, StepSite, make_question};
use super::effect::Effect;
use super::result::StepResult;
use super::{Executor, Pending, PendingStage};
use crate::agent::chat::Chat;
use crate::agent::{self, AgentSurroundings};
use crate::evaluate::{self, Act, FieldErrors, Resolved};
use crate::judge::Verdict;
use crate::machine::Task;
use crate::select::{self, ResolvedSource};
use crate::view::View;
use crate::world::Answer;

/// What the fields of an attempt are evaluated with again.
pub(super) struct SecretFields {
    /// The names that they see.
    pub(super) view: View,
    /// What they computed the first time.
    pub(super) computed: Vec<Answer>,
    /// How long the attempt may take, as a limit around it left it.
    pub(super) timeout: Option<Duration>,
}

/// An effect with the values of secrets in it, or why there is none.
type RevealedEffect = Result<Effect, Failure>;

impl Executor<'_> {
    /// Whether fields of a step read secrets at one of these moments.
    pub(super) fn reads_secrets(self, task: &Task, moments: &[Moment]) -> bool {
        let read = &self.plan.steps[task.step as usize].secret_moments;
        moments.iter().any(|moment| read.contains(moment))
    }

    /// The effect of a command that reads secrets, made with their values by a driver that has them, or with words that
    /// stand for them. A failure may hold some of these values: whoever has them masks it.
    pub fn reveal<D: Driver>(
        self,
        driver: &mut D,
        pending: &mut Pending,
        secrets: SecretView,
    ) -> Result<RevealedEffect, D::Error> {
        match &mut pending.0 {
            PendingStage::Attempt(pending) => {
                let Some(secret) = &pending.secret else { return Ok(nothing_to_reveal()) };
                let site = StepSite { secrets, ..self.site(&pending.task, &secret.view) };
                let resolved = driver.evaluate(site.with(&secret.computed), |scope, session, enter| {
                    evaluate::resolve(site.plan, site.task.step, scope, session, enter)
                })?;
                let mut resolved = match resolved.result {
                    Ok(resolved) => resolved,
                    Err(errors) => return Ok(Err(self.revealing_failed(&errors))),
                };
                resolved.timeout = secret.timeout;
                let (task, step) = (pending.task.clone(), self.step(&pending.task));
                let (mut again, mut effect) = self.attempt_effect(
                    task,
                    step,
                    resolved,
                    pending.attempt,
                    pending.began,
                    pending.cut_short,
                );
                if let (Some(again), Some(masked)) = (&mut again.conversation, &pending.conversation) {
                    again.follow(masked);
                    effect = again.next(pending.left);
                }
                if let Effect::WriteFile(_) = effect {
                    // The size of what is written; the text with masks has another one.
                    pending.known = again.known;
                }
                Ok(Ok(effect))
            }
            PendingStage::Judge(pending) => {
                let site = StepSite { secrets, ..self.site(&pending.task, &pending.view) };
                let Some(Evaluator::Agent(judge)) = site.step().evaluator() else {
                    return Ok(nothing_to_reveal());
                };
                let question = match make_question(driver, site, judge, &pending.computed)?.result {
                    Ok(question) => question,
                    Err(Verdict { reason, .. }) => {
                        return Ok(Err(Failure::new(FailureKind::Evaluation, reason.to_string())));
                    }
                };
                let limits = limits_of(&pending.question.resolved);
                let Resolved { act: Act::Agent { agent, message, .. }, env, cwd, .. } = question.resolved
                else {
                    return Ok(nothing_to_reveal());
                };
                let surroundings = AgentSurroundings { env, cwd, limits };
                Ok(Ok(agent::provider(agent).ask(&Chat::new(message, None), surroundings)))
            }
            PendingStage::Source(pending) => {
                let Some(view) = &pending.secret_view else { return Ok(nothing_to_reveal()) };
                let site = StepSite { secrets, ..self.site(&pending.task, view) };
                let expanded = driver.evaluate(site.with(&pending.computed), |scope, session, _| {
                    select::expand(site.plan, site.task.step, scope, session)
                })?;
                match expanded.result {
                    Ok(expansion) => match expansion.source {
                        ResolvedSource::Shell { bound, env, .. } => {
                            let process = bound_process(site.step(), &bound, env, None, pending.limits);
                            Ok(Ok(Effect::Process(process)))
                        }
                        _ => Ok(nothing_to_reveal()),
                    },
                    Err(errors) => Ok(Err(self.revealing_failed(&errors))),
                }
            }
            _ => Ok(nothing_to_reveal()),
        }
    }

    fn revealing_failed(self, errors: &FieldErrors) -> Failure {
        let text = self.plan.workflow.file.text();
        let sentence = |error: &evaluate::FieldError| {
            let problem = error.problem(text);
            let hint = problem.hints.first().map_or(String::new(), |hint| format!("; {hint}"));
            format!("{}{hint}", problem.message)
        };
        let sentences: Vec<String> = errors.iter().map(sentence).collect();
        Failure::new(FailureKind::Evaluation, sentences.join("; "))
    }
}

/// The failure of a command whose effect holds no secret; an effect that does says so when it is made.
fn nothing_to_reveal() -> RevealedEffect {
    Err(Failure::new(FailureKind::Evaluation, "its effect reads no secret"))
}

/// Why a step fails whose output held secrets, if it does.
pub(super) fn leak(step: &Step, secrets: &[EcoString]) -> Option<Failure> {
    if secrets.is_empty() || step.secret_output == SecretOutput::Mask {
        return None;
    }
    let names = words::names(secrets.iter().map(|name| format!("`{name}`")));
    let noun = if secrets.len() == 1 { "the secret" } else { "the secrets" };
    let message =
        format!("its output contains {noun} {names}; `secret_output: mask` goes on with a mask in its place");
    Some(Failure::new(FailureKind::SecretOutput, message))
}

/// A result whose value held secrets. What the step printed stays to be looked at, masked.
pub(super) fn refuse_output(result: StepResult, failure: Failure) -> StepResult {
    let StepResult { value, output, stderr, exact } = result;
    match value {
        Ok(value) => {
            let output = output.or_else(|| Some(value).filter(|value: &Value| value.as_str().is_some()));
            StepResult { value: Err(failure), output, stderr, exact }
        }
        Err(first) => StepResult { value: Err(first), output, stderr, exact },
    }
}
