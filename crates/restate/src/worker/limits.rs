//! Limits that hold for all coordinators of a server: so many calls of an agent at once, and runs take turns.
//!
//! The state of a limit is an object of the Restate server, so it survives whoever asks and whoever performs. An act waits
//! for its turn before it is performed, and gives it back when it is over; both are entries of its own journal, so an act
//! whose worker died keeps the turn that it has.

use restate_sdk::prelude::{
    ContextAwakeables as _, ContextReadState as _, ContextWriteState as _, HandlerError, ObjectContext,
    object,
};
use threadline_lang::Value;

use crate::wire::{self, FormResult, LimitedAct};

/// The object that has the state of a limit; its key is the name of the limit.
pub(super) const LIMIT: &str = "ThreadlineLimit";
/// What asks it for a turn, and what gives one back.
pub(super) const TAKE: &str = "take";
pub(super) const GIVE_BACK: &str = "give_back";

/// Its state at the server.
const STATE: &str = "turns";

/// An object that workers offer, and that only they can use.
pub(super) struct ThreadlineLimit;

#[object(name = "ThreadlineLimit")]
impl ThreadlineLimit {
    /// An act waits for its turn: its awakeable is resolved when it has it.
    #[handler(name = "take")]
    async fn take(&self, ctx: ObjectContext<'_>, message: Vec<u8>) -> Result<(), HandlerError> {
        debug_assert_eq!((LIMIT, TAKE), ("ThreadlineLimit", "take"));
        let mut turns = Turns::read(ctx.get::<Vec<u8>>(STATE).await?)?;
        turns.waiting.push(read_waiting(&message)?);
        turns.pass_on(&ctx);
        Ok(())
    }

    /// An act is over, or does not wait any more.
    #[handler(name = "give_back")]
    async fn give_back(&self, ctx: ObjectContext<'_>, message: Vec<u8>) -> Result<(), HandlerError> {
        debug_assert_eq!(GIVE_BACK, "give_back");
        let mut turns = Turns::read(ctx.get::<Vec<u8>>(STATE).await?)?;
        let awakeable = String::from_utf8_lossy(&message);
        turns.waiting.retain(|act| act.awakeable != awakeable);
        turns.held.retain(|held| *held != awakeable);
        turns.pass_on(&ctx);
        Ok(())
    }
}

/// An act that waits for its turn.
#[derive(Debug, Clone, PartialEq, Eq)]
struct WaitingAct {
    awakeable: String,
    /// The run that somebody started: runs take turns.
    run: String,
    /// How many may have a turn at once, as far as it is concerned.
    most: u64,
}

/// Who has a turn, and who waits.
#[derive(Debug, Default, PartialEq, Eq)]
struct Turns {
    /// By their awakeables.
    held: Vec<String>,
    waiting: Vec<WaitingAct>,
    /// The runs that had a turn, the last one at the end.
    runs: Vec<String>,
}

impl Turns {
    /// The act that has the next turn: the first of the run that had none for the longest time. Nobody passes it, also when
    /// it wants fewer beside it than others do.
    fn next(&mut self) -> Option<String> {
        let last_turn = |act: &WaitingAct| self.runs.iter().position(|run| *run == act.run);
        let waiting = self.waiting.iter().enumerate();
        let (place, act) = waiting.min_by_key(|(place, act)| (last_turn(act), *place))?;
        if self.held.len() as u64 >= act.most {
            return None;
        }
        let act = self.waiting.remove(place);
        self.runs.retain(|run| *run != act.run && self.waiting.iter().any(|waiting| waiting.run == *run));
        self.runs.push(act.run);
        self.held.push(act.awakeable.clone());
        Some(act.awakeable)
    }

    /// Gives turns to whoever may have one, and keeps what is left.
    fn pass_on(&mut self, ctx: &ObjectContext<'_>) {
        while let Some(awakeable) = self.next() {
            ctx.resolve_awakeable(&awakeable, ());
        }
        if self.held.is_empty() && self.waiting.is_empty() {
            ctx.clear(STATE);
        } else {
            ctx.set(STATE, self.text().into_bytes());
        }
    }

    fn text(&self) -> String {
        let words = |words: &[String]| Value::sequence(words.iter().map(|word| Value::from(word.as_str())));
        wire::json(&Value::record([
            ("held", words(&self.held)),
            ("waiting", Value::sequence(self.waiting.iter().map(waiting_value))),
            ("runs", words(&self.runs)),
        ]))
    }

    fn read(text: Option<Vec<u8>>) -> Result<Self, HandlerError> {
        let Some(text) = text else { return Ok(Self::default()) };
        Ok(Self::read_text(&String::from_utf8_lossy(&text)).map_err(UnreadableLimit)?)
    }

    fn read_text(text: &str) -> FormResult<Self> {
        let value = wire::parse(text)?;
        let [held, waiting, runs] = wire::fields(&value, ["held", "waiting", "runs"])?;
        let words = |value: &Value| {
            let list = value.as_list().ok_or("it is no list")?;
            list.iter().map(|word| wire::text_of(word, "word").map(str::to_owned)).collect::<FormResult<_>>()
        };
        let waiting = waiting.as_list().ok_or("`waiting` is no list")?;
        Ok(Self {
            held: words(held)?,
            waiting: waiting.iter().map(waiting_of).collect::<FormResult<_>>()?,
            runs: words(runs)?,
        })
    }
}

/// Why the state of a limit or a message to it cannot be read.
#[derive(Debug)]
struct UnreadableLimit(String);

impl std::fmt::Display for UnreadableLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UnreadableLimit {}

/// The message of an act that waits for its turn.
pub(super) fn waiting_text(awakeable: &str, act: &LimitedAct) -> Vec<u8> {
    let (run, most) = (act.run.clone(), act.most);
    wire::json(&waiting_value(&WaitingAct { awakeable: awakeable.to_owned(), run, most })).into_bytes()
}

fn waiting_value(act: &WaitingAct) -> Value {
    Value::record([
        ("awakeable", act.awakeable.as_str().into()),
        ("run", act.run.as_str().into()),
        ("most", act.most.into()),
    ])
}

fn read_waiting(message: &[u8]) -> Result<WaitingAct, HandlerError> {
    let read = wire::parse(&String::from_utf8_lossy(message)).and_then(|value| waiting_of(&value));
    Ok(read.map_err(UnreadableLimit)?)
}

fn waiting_of(value: &Value) -> FormResult<WaitingAct> {
    let [awakeable, run, most] = wire::fields(value, ["awakeable", "run", "most"])?;
    Ok(WaitingAct {
        awakeable: wire::text_of(awakeable, "awakeable")?.to_owned(),
        run: wire::text_of(run, "run")?.to_owned(),
        most: most.as_i64().and_then(|most| u64::try_from(most).ok()).ok_or("`most` is no number")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_take_turns_and_no_limit_is_passed() {
        let act = |number: usize, run: &str, most| WaitingAct {
            awakeable: format!("{run}{number}"),
            run: run.to_owned(),
            most,
        };
        let mut turns = Turns::default();
        turns.waiting.extend((0..4).map(|number| act(number, "long", 2)));
        turns.waiting.push(act(0, "short", 2));
        let mut given = Vec::new();
        while !turns.waiting.is_empty() || !turns.held.is_empty() {
            given.extend(std::iter::from_fn(|| turns.next()));
            assert!(turns.held.len() <= 2);
            turns = Turns::read_text(&turns.text()).unwrap();
            turns.held.remove(0);
        }
        assert_eq!(given, ["long0", "short0", "long1", "long2", "long3"]);
        // One that wants to be alone waits for all others.
        turns.waiting.push(act(9, "modest", 1));
        turns.held.push("other".to_owned());
        assert_eq!(turns.next(), None);
        turns.held.clear();
        assert_eq!(turns.next().as_deref(), Some("modest9"));
    }
}
