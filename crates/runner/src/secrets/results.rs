//! Masks what comes of effects, wherever secrets can stand in it.

use std::sync::Arc;

use ecow::EcoString;
use threadline_engine::execute::effect::{
    CallEnd, EffectResult, NoResponse, NotChosen, ProcessEnd, Response, StartFailure, ToolAnswer,
};
use threadline_flow::fields::Failure;
use threadline_lang::Value;

use super::masks::Masks;

impl Masks {
    /// A result with masks in place of secrets. What a program printed was masked as it came; of what becomes the value
    /// of a step it is said that it held one.
    pub(crate) fn mask_result(self: &Arc<Self>, result: EffectResult) -> EffectResult {
        let mut found = Vec::new();
        let masked = match result {
            EffectResult::Leaked(result, mut secrets) => {
                let (result, more) = self.mask_result(*result).split_leaked();
                secrets.extend(more);
                found = secrets;
                result
            }
            EffectResult::Refused(failure) => EffectResult::Refused(self.mask_failure(failure)),
            EffectResult::Process(Err(failure)) => EffectResult::Process(Err(StartFailure {
                message: self.masked_text(&failure.message),
                hint: failure.hint.map(|hint| self.masked_text(&hint)),
                ..failure
            })),
            EffectResult::Response(response, timing) => {
                let response = match response {
                    Ok(response) => Ok(self.mask_response(response, &mut found)),
                    Err(NoResponse { failure, is_sent, received }) => {
                        let failure = self.mask_failure(failure);
                        let received =
                            received.map(|received| Box::new(self.mask_response(*received, &mut found)));
                        Err(NoResponse { failure, is_sent, received })
                    }
                };
                EffectResult::Response(response, timing)
            }
            EffectResult::Tool(ToolAnswer { result, version }, timing) => {
                let result = result.map(|value| self.mask_found(&value, &mut found));
                let result = result.map_err(|failure| self.mask_failure(failure));
                let version = version.map(|version| self.masked_text(&version));
                EffectResult::Tool(ToolAnswer { result, version }, timing)
            }
            EffectResult::Tools(tools, timing) => {
                let tools = tools.map(|tools| self.mask_found(&tools, &mut found));
                EffectResult::Tools(tools.map_err(|failure| self.mask_failure(failure)), timing)
            }
            EffectResult::Read(text, timing) => {
                let text = text.map(|text| {
                    let (masked, secrets) = self.mask_text(&text);
                    found.extend(secrets);
                    masked.into_owned()
                });
                EffectResult::Read(text.map_err(|failure| self.mask_failure(failure)), timing)
            }
            EffectResult::Written(written, timing) => {
                EffectResult::Written(written.map_err(|failure| self.mask_failure(failure)), timing)
            }
            EffectResult::Called(CallEnd { value, meta, spent }, timing) => {
                let value = value.map(|value| self.mask_found(&value, &mut found));
                let value = value.map_err(|failure| self.mask_failure(failure));
                EffectResult::Called(CallEnd { value, meta, spent }, timing)
            }
            EffectResult::Items(Err(NotChosen::Failed(failure))) => {
                EffectResult::Items(Err(NotChosen::Failed(self.mask_failure(failure))))
            }
            EffectResult::Worktree(Err(failure)) => EffectResult::Worktree(Err(self.mask_failure(failure))),
            // A program that ended was masked while it ran, and the rest holds no text from outside.
            other => other,
        };
        found.sort();
        found.dedup();
        if found.is_empty() { masked } else { EffectResult::Leaked(Box::new(masked), found) }
    }

    /// What a program left that ran on another machine, where nobody has the secrets: it is masked as what a program
    /// prints here is.
    pub(crate) fn mask_end(self: &Arc<Self>, mut end: ProcessEnd) -> EffectResult {
        let mut found = Vec::new();
        if let Ok(stdout) = &mut end.stdout {
            let (masked, secrets) = self.mask_bytes(stdout);
            found = secrets;
            let masked = masked.into_owned();
            *stdout = masked;
        }
        end.stderr = self.mask_bytes(&end.stderr).0.into_owned();
        end.usage = end.usage.map(|usage| usage.map(|text| self.masked_text(&text)));
        let end = EffectResult::Process(Ok(end));
        if found.is_empty() { end } else { EffectResult::Leaked(Box::new(end), found) }
    }

    /// A text with masks.
    pub fn masked_text(self: &Arc<Self>, text: &str) -> String {
        self.mask_text(text).0.into_owned()
    }

    fn mask_failure(self: &Arc<Self>, mut failure: Failure) -> Failure {
        failure.message = self.masked_text(&failure.message);
        failure
    }

    fn mask_found(self: &Arc<Self>, value: &Value, found: &mut Vec<EcoString>) -> Value {
        let (value, secrets) = self.mask_value(value);
        found.extend(secrets);
        value
    }

    fn mask_response(self: &Arc<Self>, response: Response, found: &mut Vec<EcoString>) -> Response {
        let (body, secrets) = self.mask_bytes(&response.body);
        found.extend(secrets);
        let body = body.into_owned();
        let headers = response.headers.into_iter().map(|(name, value)| {
            let (value, secrets) = self.mask_text(&value);
            found.extend(secrets);
            (name, value.into_owned())
        });
        let headers = headers.collect();
        Response {
            headers,
            body,
            reason: response.reason.map(|reason| self.masked_text(&reason)),
            ..response
        }
    }
}
