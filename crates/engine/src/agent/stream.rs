//! What an agent says while it says it: the text of an answer, out of the bytes that arrive.
//!
//! It is for people who watch. What an answer is, the provider reads when all of it is there; nothing here is recorded.

use threadline_flow::fields::ProviderName;
use threadline_flow::model::{Action, Evaluator};
use threadline_flow::plan::Plan;
use threadline_lang::value::JsonStyle;
use threadline_lang::{Limits, Value, data};

use super::code_of;
use super::events::EventReader;
use crate::execute::effect::{EffectKey, Response, Role};

/// The longest line or event that is read. The rest of a longer one is not shown while it arrives.
const MAX_EVENT: usize = 1 << 20;

/// Reads what an agent says as it arrives.
pub struct AnswerStream(StreamForm);

/// Reads the text that a line or an event adds.
pub(super) type TextReader = Box<dyn FnMut(&Value) -> Option<String> + Send>;

/// How an answer arrives.
pub(super) enum StreamForm {
    /// The text itself.
    Text,
    /// A line of JSON for each message.
    Lines(Vec<u8>, TextReader),
    /// Events of a server, each a piece of the text.
    Events(EventReader, TextReader),
}

impl StreamForm {
    /// Lines, and what each of them adds.
    pub(super) fn lines(text_of: TextReader) -> Self {
        Self::Lines(Vec::new(), text_of)
    }

    /// Events, and what each of them adds.
    pub(super) fn events(text_of: TextReader) -> Self {
        Self::Events(EventReader::default(), text_of)
    }
}

impl AnswerStream {
    /// The stream of the agent that an effect asks. There is none where nobody is asked, or the answer comes at once.
    pub fn of(plan: &Plan, key: &EffectKey) -> Option<Self> {
        (code_of(asked(plan, key)?).stream)().map(Self)
    }

    /// Takes more bytes, and gives what they say.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut said = Vec::new();
        match &mut self.0 {
            StreamForm::Text => said.extend_from_slice(bytes),
            StreamForm::Lines(line, text_of) => {
                for byte in bytes {
                    if *byte != b'\n' {
                        if line.len() < MAX_EVENT {
                            line.push(*byte);
                        }
                        continue;
                    }
                    let text = read(&String::from_utf8_lossy(&std::mem::take(line)));
                    said.extend(text.as_ref().and_then(&mut *text_of).unwrap_or_default().into_bytes());
                }
            }
            StreamForm::Events(reader, text_of) => reader.push(bytes, |event| {
                let text = Some(event).filter(|event| event.len() <= MAX_EVENT).and_then(read);
                said.extend(text.as_ref().and_then(&mut *text_of).unwrap_or_default().into_bytes());
            }),
        }
        said
    }
}

/// The provider of the agent that an effect asks.
pub fn asked(plan: &Plan, key: &EffectKey) -> Option<ProviderName> {
    let step = &plan.steps[key.at.step(plan)? as usize].step;
    let agent = match (&step.action, step.evaluator(), key.role) {
        (Action::Agent { agent, .. }, _, Role::Act) => &agent.value,
        (_, Some(Evaluator::Agent(judge)), Role::Judge) => &judge.agent.value,
        _ => return None,
    };
    Some(plan.workflow.agent(agent)?.provider.name)
}

/// The response of a model as one message, where it came as a stream: what came in pieces stands together then. One
/// that cannot be read stays as it is.
pub fn joined(provider: ProviderName, response: Response) -> Response {
    let whole = response.is_success().then(|| (code_of(provider).joined)(&response.body));
    match whole.flatten() {
        Some(whole) => Response { body: whole.to_json(JsonStyle::Compact).into_bytes(), ..response },
        None => response,
    }
}

/// An event that can be read. Others are told of when the answer is read.
fn read(text: &str) -> Option<Value> {
    data::json::read_value(text.trim(), &Limits::DEFAULT).ok()
}
