//! An agent that is asked until its answer fits, and that may call tools before it answers.
//!
//! A conversation says which effect comes next, and takes what came of it: a list of tools, a message of the agent, or
//! the result of a call. Each of them but the last is an exchange and an event of its own, and a conversation that a
//! crash cut off goes on behind the last of them. Nothing is performed here.

use std::collections::VecDeque;
use std::time::Duration;

use threadline_flow::fields::{Failure, FailureKind, field_names as names};
use threadline_flow::model::CaptureFormat;
use threadline_lang::diag::excerpt;
use threadline_lang::{Envelope, Value};

use super::chat::{Chat, ChatMessage, FinishedCall, TokenUsage, ToolOutcome, ToolRequest};
use super::exchange::{Answered, AskedAgent, ExchangeRequest};
use super::thread::{Thread, ThreadSession};
use super::tools::{self, CallResult, Toolbox};
use super::{AgentSurroundings, Provider, Reading, Reply, ResolvedAgent, answer};
use crate::execute::AgentCall;
use crate::execute::effect::{Effect, EffectLimits, EffectResult};
use crate::execute::result::{self, StepResult, Timing};
use crate::spend::Spend;

/// The most messages of a model, where the agent does not say.
const MAX_TURNS: u64 = 50;

/// What an exchange was, as it stands in `meta.exchange`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExchangeKind {
    /// A server said which tools it has.
    Tools,
    /// The agent called tools.
    Calls,
    /// A tool was called.
    Call,
    /// The agent gave an answer that does not fit.
    Misfit,
}

impl ExchangeKind {
    const ALL: [Self; 4] = [Self::Tools, Self::Calls, Self::Call, Self::Misfit];

    /// Its word in the journal.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Calls => "calls",
            Self::Call => "call",
            Self::Misfit => "answer",
        }
    }

    /// What the meta data of an exchange say.
    pub fn of_meta(meta: &Value) -> Self {
        let word = meta.get(names::EXCHANGE).and_then(Value::as_str);
        // Older journals have nothing but answers.
        Self::ALL.into_iter().find(|kind| Some(kind.name()) == word).unwrap_or(Self::Misfit)
    }
}

/// The keys of a message that calls tools.
const TEXT: &str = "text";
const CALLS: &str = "calls";

/// An agent, what it is told, and what it said so far.
pub struct AgentConversation {
    provider: Box<dyn Provider>,
    /// The agent, as it stands in everything that it is asked.
    asked: AskedAgent,
    pub(crate) chat: Chat,
    toolbox: Toolbox,
    surroundings: AgentSurroundings,
    format: CaptureFormat,
    max_turns: u64,
    call: AgentCall,
    /// The bounds on the message that was asked for last, and whether the agent itself set the time.
    bounds: (EffectLimits, bool),
    /// How long one call may take.
    call_timeout: Option<Duration>,
    state: ConversationState,
    /// The answer that fits, and the session of the agent that knows it.
    answered: Option<(String, Option<String>)>,
}

/// How far a conversation is.
#[derive(Debug, Clone, Default)]
struct ConversationState {
    /// The number of exchanges that are over.
    exchanges: u32,
    /// The number of messages that the agent wrote.
    turns: u64,
    /// The number of answers that did not fit.
    misfits: u32,
    /// The calls of its last message that are not over, in its order.
    open: VecDeque<ToolRequest>,
    /// What the agent will be told of those that are.
    outcomes: Vec<ToolOutcome>,
    /// All calls that are over, in their order.
    finished: Vec<FinishedCall>,
    usage: TokenUsage,
}

/// What came of asking, as far as it is known without the conversation.
pub enum ExchangeOutcome {
    /// The tools of a server.
    Tools(Result<Value, Failure>, Option<Timing>),
    /// The result of a call.
    Call(CallResult),
    /// A message of the agent.
    Reply(Reply),
}

impl ExchangeOutcome {
    /// The outcome as a record keeps it.
    pub fn answered(&self) -> Answered {
        match self {
            Self::Tools(listed, _) => Answered::of_listing(listed),
            Self::Call(result) => Answered::of_call(result),
            Self::Reply(reply) => Answered::of_reply(reply),
        }
    }
}

/// What came of an exchange.
pub enum Exchanged {
    /// The agent is asked again: what it left, and how long it took.
    Again(ExchangeResult),
    /// The conversation is over.
    Over(ExchangeResult),
}

/// What an exchange left, with what was measured.
pub struct ExchangeResult {
    /// The value, or why there is none.
    pub result: StepResult,
    /// When it happened, where that was measured.
    pub timing: Option<Timing>,
    /// What it adds to the meta data.
    pub meta: Vec<(&'static str, Value)>,
    /// How long the provider asks to wait before it is asked the same again, of a failure that may pass.
    pub transient: Option<Duration>,
    /// What agents used for it.
    pub spent: Spend,
}

impl Exchanged {
    /// What it left.
    pub fn result_mut(&mut self) -> &mut ExchangeResult {
        match self {
            Self::Again(result) | Self::Over(result) => result,
        }
    }

    /// Whether the agent said what can be used: an answer that fits, or calls of tools.
    pub fn is_whole(&self) -> bool {
        match self {
            Self::Over(exchange) => exchange.result.value.is_ok(),
            Self::Again(exchange) => exchange.meta.contains(&self::exchange(ExchangeKind::Calls)),
        }
    }
}

impl AgentConversation {
    /// A conversation that begins.
    pub fn new(
        mut agent: ResolvedAgent,
        chat: Chat,
        surroundings: AgentSurroundings,
        format: CaptureFormat,
    ) -> Self {
        let toolbox = Toolbox::new(std::mem::take(&mut agent.tools));
        let max_turns = agent.value("max_turns").and_then(Value::as_i64);
        let max_turns = max_turns.and_then(|turns| u64::try_from(turns).ok()).unwrap_or(MAX_TURNS);
        let asked = AskedAgent::new(&agent, &surroundings);
        let call = agent.call();
        let (call_timeout, bounds) = (agent.timeout(), (surroundings.limits, false));
        let provider = super::provider(agent);
        let state = ConversationState::default();
        Self {
            provider,
            asked,
            chat,
            toolbox,
            surroundings,
            format,
            max_turns,
            call,
            bounds,
            call_timeout,
            state,
            answered: None,
        }
    }

    /// The number of exchanges that are over.
    pub fn exchanges(&self) -> u32 {
        self.state.exchanges
    }

    /// Goes on behind an exchange that was recorded.
    pub fn restore(&mut self, exchange: &Envelope) {
        let Envelope { value, meta, .. } = exchange;
        let state = &mut self.state;
        state.usage = state.usage.plus(&TokenUsage::of_meta(meta));
        state.exchanges += 1;
        match ExchangeKind::of_meta(meta) {
            // What does not fit was not recorded.
            ExchangeKind::Tools => drop(self.toolbox.list(value)),
            ExchangeKind::Calls => {
                let calls = value.get(CALLS).and_then(Value::as_list).unwrap_or_default();
                let text = value.get(TEXT).and_then(Value::as_str).unwrap_or_default().to_owned();
                self.called(text, calls.iter().map(ToolRequest::of_value).collect());
            }
            ExchangeKind::Call => {
                let error = meta.get(names::ERROR).map(Value::to_string);
                self.returned(error.as_deref().map_or(Ok(value), Err));
            }
            ExchangeKind::Misfit => {
                let why = meta.get(names::REASON).and_then(Value::as_str).unwrap_or_default();
                let called = meta.get(names::TOOL_CALLS).and_then(Value::as_list).unwrap_or_default();
                state.finished.extend(called.iter().map(FinishedCall::of_value));
                self.misfit(value.as_str().unwrap_or_default().to_owned(), why);
            }
        }
    }

    /// Takes what was said before over from the same conversation with masks in place of secrets.
    pub fn follow(&mut self, masked: &Self) {
        self.chat.messages.extend(masked.chat.own_messages().iter().skip(1).cloned());
        self.toolbox.follow(&masked.toolbox);
        self.state = masked.state.clone();
    }

    /// The effect of the next exchange. `left` is the time that is left to it.
    pub fn next(&mut self, left: Option<Duration>) -> Effect {
        let surroundings = self.surroundings_for(left);
        if let Some(server) = self.toolbox.unlisted() {
            return Toolbox::listing(server, surroundings.limits);
        }
        if let Some(call) = self.state.open.front() {
            // A call that is none has no effect, and the agent is told why.
            return self.toolbox.effect(call, &surroundings).unwrap_or(Effect::Nothing);
        }
        self.chat.tools = self.toolbox.shown();
        self.bounds = super::call_limits(self.call_timeout, surroundings.limits);
        self.provider.ask(&self.chat, AgentSurroundings { limits: self.bounds.0, ..surroundings })
    }

    /// The agent, and how often it may be asked.
    pub fn call(&self) -> &AgentCall {
        &self.call
    }

    fn surroundings_for(&self, left: Option<Duration>) -> AgentSurroundings {
        let mut surroundings = self.surroundings.clone();
        surroundings.limits.timeout = left.or(surroundings.limits.timeout);
        surroundings
    }

    /// What the next exchange asks, as data; after [`Self::next`].
    pub fn asked(&self) -> ExchangeRequest {
        if let Some(server) = self.toolbox.unlisted() {
            return ExchangeRequest::listing(&server.name);
        }
        match self.state.open.front() {
            Some(call) => ExchangeRequest::call(&self.toolbox.full_name(call), &call.arguments),
            None => ExchangeRequest::message(&self.asked, &self.chat),
        }
    }

    /// Whether the next exchange asks the agent itself, and not for tools or the result of one.
    pub fn asks_agent(&self) -> bool {
        self.toolbox.unlisted().is_none() && self.state.open.is_empty()
    }

    /// Whether the next exchange calls a workflow.
    pub fn calls_workflow(&self) -> bool {
        let open = self.state.open.front().filter(|_| self.toolbox.unlisted().is_none());
        open.is_some_and(|call| self.toolbox.is_workflow(call))
    }

    /// What the message counts as that the agent was asked for last, if nobody hears of it; it worked for so long.
    pub fn lost(&self, elapsed: Duration) -> Spend {
        lost(&*self.provider, elapsed)
    }

    /// What the result of that effect means.
    pub fn read(&self, result: EffectResult, reading: &Reading<'_>) -> ExchangeOutcome {
        if self.toolbox.unlisted().is_some() {
            let not_asked = || Failure::new(FailureKind::Tool, "the server was not asked for its tools");
            return match result {
                EffectResult::Tools(listed, timing) => ExchangeOutcome::Tools(listed, Some(timing)),
                EffectResult::Refused(failure) => ExchangeOutcome::Tools(Err(failure), None),
                _ => ExchangeOutcome::Tools(Err(not_asked()), None),
            };
        }
        if let Some(call) = self.state.open.front() {
            return ExchangeOutcome::Call(self.toolbox.outcome(call, result, &self.surroundings));
        }
        let (limits, is_call_limit) = &self.bounds;
        let cut_short = reading.cut_short.filter(|_| !is_call_limit);
        let reading = Reading { limits, cut_short, is_call_limit: *is_call_limit, ..*reading };
        ExchangeOutcome::Reply(self.provider.reply(result, &reading))
    }

    /// What an answer means that is given in place of the effect.
    pub fn served(&self, answered: &Answered) -> ExchangeOutcome {
        if self.toolbox.unlisted().is_some() {
            return ExchangeOutcome::Tools(answered.listing(), None);
        }
        match self.state.open.front() {
            Some(call) => ExchangeOutcome::Call(CallResult {
                result: answered.step_result(),
                timing: None,
                meta: self.toolbox.meta(call).into_iter().chain(answered.meta()).collect(),
                spent: Spend::default(),
            }),
            None => ExchangeOutcome::Reply(answered.reply(self.chat.messages.len())),
        }
    }

    /// Takes what came of an exchange.
    pub fn take(&mut self, outcome: ExchangeOutcome) -> Exchanged {
        match outcome {
            ExchangeOutcome::Tools(listed, timing) => self.take_tools(listed, timing),
            ExchangeOutcome::Call(result) => self.take_outcome(result),
            ExchangeOutcome::Reply(reply) => self.take_reply(reply),
        }
    }

    /// What a server said of its tools. A server that cannot be asked fails the step.
    fn take_tools(&mut self, listed: Result<Value, Failure>, timing: Option<Timing>) -> Exchanged {
        let server = self.toolbox.unlisted().map_or(Value::NULL, |server| server.name.clone().into());
        let listed = match listed.and_then(|listed| self.toolbox.list(&listed).map(|()| listed)) {
            Ok(listed) => listed,
            Err(failure) => return self.over(Err(failure), timing, Vec::new()),
        };
        self.state.exchanges += 1;
        let meta = vec![exchange(ExchangeKind::Tools), (names::TOOL_NAME, server)];
        let result = StepResult::silent(Ok(listed));
        Exchanged::Again(ExchangeResult { result, timing, meta, transient: None, spent: Spend::default() })
    }

    /// What came of a call.
    fn take_outcome(&mut self, outcome: CallResult) -> Exchanged {
        let CallResult { result, timing, mut meta, spent } = outcome;
        meta.push(exchange(ExchangeKind::Call));
        self.state.exchanges += 1;
        self.returned(result.value.as_ref().map_err(|failure| failure.message.as_str()));
        Exchanged::Again(ExchangeResult { result, timing, meta, transient: None, spent })
    }

    fn take_reply(&mut self, reply: Reply) -> Exchanged {
        let spent = reply.spent();
        let Reply { asked: _, answer, calls, called, printed, stderr, mut meta, .. } = reply;
        let Reply { timing, usage, thread, transient, .. } = reply;
        let total = self.state.usage.plus(&usage);
        let reported: Vec<Value> = called.iter().map(FinishedCall::value).collect();
        self.state.finished.extend(called);
        let over = |this: &Self, value: Result<Value, Failure>, printed: Option<Value>, mut meta: Vec<_>| {
            meta.extend(total.meta());
            // The value has them where there is one.
            meta.extend(value.is_err().then(|| this.finished()).flatten());
            let result = StepResult::printed(value, printed, stderr.clone());
            Exchanged::Over(ExchangeResult { result, timing, meta, transient, spent: spent.clone() })
        };
        let text = match answer {
            Ok(text) => text,
            Err(failure) => return over(self, Err(failure), printed, meta),
        };
        if !calls.is_empty() {
            if self.state.turns + 1 >= self.max_turns {
                let message = format!("it wrote {} messages (`max_turns`) and no answer", self.max_turns);
                return over(self, Err(Failure::new(FailureKind::Agent, message)), printed, meta);
            }
            meta.extend(usage.meta());
            meta.push(exchange(ExchangeKind::Calls));
            self.state.usage = total;
            self.state.exchanges += 1;
            let listed = Value::sequence(calls.iter().map(ToolRequest::value));
            let value = Value::record([(TEXT, Value::from(text.as_str())), (CALLS, listed)]);
            self.called(text, calls);
            let result = StepResult::printed(Ok(value), None, stderr.clone());
            return Exchanged::Again(ExchangeResult {
                result,
                timing,
                meta,
                transient: None,
                spent: spent.clone(),
            });
        }
        let session = thread;
        let thread = self.chat.thread.clone().or_else(|| session.clone());
        meta.extend(thread.as_deref().map(|thread| (names::THREAD_ID, thread.into())));
        let thread = thread.map_or(Value::NULL, Value::from);
        let Some(format) = self.chat.format.clone() else {
            let output = match self.format {
                CaptureFormat::Text => None,
                format => match result::read_output(&text, format) {
                    Ok(output) => Some(output),
                    Err(failure) => return over(self, Err(failure), printed, meta),
                },
            };
            let value = self.answer(&text, output, thread);
            self.answered = Some((text, session));
            return over(self, value, printed, meta);
        };
        match answer::read(&text, &format) {
            Ok(output) => {
                let value = self.answer(&text, Some(output), thread);
                self.answered = Some((text, session));
                over(self, value, printed, meta)
            }
            Err(why) if self.state.misfits >= format.ask_again => {
                let asked = match format.ask_again {
                    0 => String::new(),
                    1 => " (asked twice)".to_owned(),
                    more => format!(" (asked {} times)", u64::from(more) + 1),
                };
                let said = excerpt(&Value::from(text.trim()));
                let message = format!("the answer {why}{asked}; it is {said}");
                over(self, Err(Failure::new(FailureKind::Format, message)), printed, meta)
            }
            Err(why) => {
                meta.extend(usage.meta());
                meta.push((names::REASON, why.as_str().into()));
                if !reported.is_empty() {
                    meta.push((names::TOOL_CALLS, Value::sequence(reported)));
                }
                let value = Value::from(text.as_str());
                self.state.usage = total;
                self.state.exchanges += 1;
                self.misfit(text, &why);
                let result = StepResult::printed(Ok(value), None, stderr.clone());
                Exchanged::Again(ExchangeResult {
                    result,
                    timing,
                    meta,
                    transient: None,
                    spent: spent.clone(),
                })
            }
        }
    }

    /// The thread that the step continues, as it is when the step has gone well: with its message and its answer.
    pub fn thread(&self) -> Option<(String, Thread)> {
        let name = self.chat.thread.clone()?;
        let (said, session) = self.answered.clone()?;
        let mut messages = self.chat.messages[..=self.chat.begins].to_vec();
        messages.push(ChatMessage::Said(crate::event::trim_newlines(&said).to_owned()));
        let agent = self.asked.name().to_owned();
        let session = session.map(|id| ThreadSession { agent, id });
        Some((name, Thread { messages, session }))
    }

    /// The end of a conversation in which the agent did not have the last word.
    fn over(
        &self,
        value: Result<Value, Failure>,
        timing: Option<Timing>,
        mut meta: Vec<(&'static str, Value)>,
    ) -> Exchanged {
        meta.extend(self.state.usage.meta());
        meta.extend(self.finished());
        let result = StepResult::silent(value);
        Exchanged::Over(ExchangeResult { result, timing, meta, transient: None, spent: Spend::default() })
    }

    /// The calls that are over, as the meta data of a failure have them.
    fn finished(&self) -> Option<(&'static str, Value)> {
        let finished: Vec<Value> = self.state.finished.iter().map(FinishedCall::value).collect();
        let finished = Some(finished).filter(|finished| !finished.is_empty())?;
        Some((names::TOOL_CALLS, Value::list(finished).ok()?))
    }

    /// The agent called tools. They are called one after the other.
    fn called(&mut self, text: String, calls: Vec<ToolRequest>) {
        self.state.turns += 1;
        self.state.open.extend(calls.iter().cloned());
        self.chat.messages.push(ChatMessage::Called { text, calls });
    }

    /// A call is over. The agent is told when all of them are.
    fn returned(&mut self, value: Result<&Value, &str>) {
        let Some(call) = self.state.open.pop_front() else { return };
        let outcome = tools::told(&call, value);
        let (name, text) = (self.toolbox.full_name(&call), Value::from(outcome.text.as_str()));
        self.state.finished.push(FinishedCall::new(name, &call.arguments, &text, outcome.is_error));
        self.state.outcomes.push(outcome);
        if self.state.open.is_empty() {
            let outcomes = std::mem::take(&mut self.state.outcomes);
            self.chat.messages.push(ChatMessage::Results(outcomes));
        }
    }

    /// Asks for another answer, because the last one cannot be used.
    fn misfit(&mut self, said: String, why: &str) {
        self.state.turns += 1;
        self.state.misfits += 1;
        self.chat.messages.push(ChatMessage::Said(said));
        let told = format!(
            "That answer cannot be used, because it {why}. Answer again, with one JSON value that fits the JSON \
             Schema and nothing else."
        );
        self.chat.messages.push(ChatMessage::Told(told));
    }

    /// The value of an agent's answer.
    fn answer(&self, text: &str, output: Option<Value>, thread: Value) -> Result<Value, Failure> {
        let too_large = |_| Failure::new(FailureKind::Format, "its answer is too large with what it called");
        let called = self.state.finished.iter().map(FinishedCall::value).collect();
        let mut entries = vec![
            (names::MESSAGES_CREATED.into(), Value::from(self.state.turns + 1)),
            (names::FINAL_RESPONSE.into(), Value::from(crate::event::trim_newlines(text))),
            (names::THREAD_ID.into(), thread),
            (names::TOOL_CALLS.into(), Value::list(called).map_err(too_large)?),
        ];
        entries.extend(output.map(|output| (names::OUTPUT.into(), output)));
        Value::object(entries).map_err(too_large)
    }
}

/// What a message counts as that a provider was asked for last, if nobody hears of it.
pub(crate) fn lost(provider: &dyn Provider, elapsed: Duration) -> Spend {
    Spend { estimated: 1, ..Spend::of_turn(&provider.estimate(), elapsed) }
}

fn exchange(kind: ExchangeKind) -> (&'static str, Value) {
    (names::EXCHANGE, kind.name().into())
}
