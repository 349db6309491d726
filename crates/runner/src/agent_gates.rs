//! How many calls of an agent run at once, and how soon one follows another: for a run with all that it calls.
//!
//! A gate decides nothing about a run: what it lets through later is what the engine decided, and nothing is recorded of
//! the time in between.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ecow::EcoString;
use threadline_engine::event::Address;
use threadline_engine::execute::AgentCall;

/// The time in which `requests_per_minute` are counted.
pub(crate) const MINUTE: Duration = Duration::from_mins(1);

/// The gates of all agents.
#[derive(Default)]
pub(crate) struct AgentGates {
    gates: Mutex<BTreeMap<AgentKey, AgentGate>>,
    /// How many calls have ended that may have been in somebody's way.
    ended: AtomicU64,
}

/// An agent of a file.
type AgentKey = (EcoString, EcoString);

#[derive(Default)]
struct AgentGate {
    /// The executions that ask it now, by their runs.
    in_flight: Vec<(EcoString, Address)>,
    /// When it was asked in the last minute.
    asked: VecDeque<Instant>,
    /// Until then it is not asked: the provider said so.
    closed_until: Option<Instant>,
}

/// When a call may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GatePassage {
    /// Now: it is in flight from here on.
    Open,
    /// When so much time is over.
    After(Duration),
    /// When another call is over.
    Full,
}

impl AgentGates {
    fn gates(&self) -> MutexGuard<'_, BTreeMap<AgentKey, AgentGate>> {
        self.gates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many calls have ended. Who is told that all are in flight looks again when there are more.
    pub(crate) fn ended(&self) -> u64 {
        self.ended.load(Ordering::SeqCst)
    }

    /// Whether a call may begin at this moment.
    pub(crate) fn enter(
        &self,
        (file, run): (&str, &str),
        at: &Address,
        call: &AgentCall,
        now: Instant,
    ) -> GatePassage {
        let mut gates = self.gates();
        let gate = gates.entry((file.into(), call.agent.clone())).or_default();
        let is_own = |(other, place): &(EcoString, Address)| other == run && place == at;
        if let Some(until) = gate.closed_until.filter(|until| *until > now) {
            return GatePassage::After(until - now);
        }
        let is_inside = gate.in_flight.iter().any(is_own);
        if !is_inside && call.max_parallel.is_some_and(|most| gate.in_flight.len() as u64 >= most) {
            return GatePassage::Full;
        }
        if let Some(most) = call.requests_per_minute {
            while gate.asked.front().is_some_and(|asked| now.duration_since(*asked) >= MINUTE) {
                gate.asked.pop_front();
            }
            if gate.asked.len() as u64 >= most
                && let Some(first) = gate.asked.front()
            {
                return GatePassage::After(MINUTE.saturating_sub(now.duration_since(*first)));
            }
            gate.asked.push_back(now);
        }
        if !is_inside && call.max_parallel.is_some() {
            gate.in_flight.push((run.into(), at.clone()));
        }
        GatePassage::Open
    }

    /// An agent was asked before the run was stopped that goes on now. The latest call comes first.
    pub(crate) fn remember(&self, file: &str, agent: &EcoString, asked: Instant) {
        let mut gates = self.gates();
        let gate = gates.entry((file.into(), agent.clone())).or_default();
        let later = gate.asked.partition_point(|known| *known <= asked);
        gate.asked.insert(later, asked);
    }

    /// An execution asks no agent any more. Says whether that was in anybody's way.
    pub(crate) fn leave(&self, run: &str, at: &Address) -> bool {
        let mut was_inside = false;
        for gate in self.gates().values_mut() {
            let before = gate.in_flight.len();
            gate.in_flight.retain(|(other, place)| other != run || place != at);
            was_inside |= gate.in_flight.len() < before;
        }
        if was_inside {
            self.ended.fetch_add(1, Ordering::SeqCst);
        }
        was_inside
    }

    /// The provider of an agent asks to be left alone for so long.
    pub(crate) fn close(&self, file: &str, agent: &EcoString, now: Instant, pause: Duration) {
        let mut gates = self.gates();
        let gate = gates.entry((file.into(), agent.clone())).or_default();
        let until = now.checked_add(pause);
        gate.closed_until = gate.closed_until.max(until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: (&str, &str) = ("w.yaml", "run");

    fn call(max_parallel: Option<u64>, requests_per_minute: Option<u64>) -> AgentCall {
        AgentCall { agent: "a".into(), max_parallel, requests_per_minute }
    }

    fn at(index: u64) -> Address {
        Address::parse("1").unwrap().item(index)
    }

    #[test]
    fn no_more_calls_are_in_flight_than_may_be() {
        let (gates, now, call) = (AgentGates::default(), Instant::now(), call(Some(2), None));
        assert_eq!(gates.enter(PLACE, &at(0), &call, now), GatePassage::Open);
        assert_eq!(gates.enter(PLACE, &at(1), &call, now), GatePassage::Open);
        assert_eq!(gates.enter(PLACE, &at(2), &call, now), GatePassage::Full);
        // The same conversation goes on.
        assert_eq!(gates.enter(PLACE, &at(1), &call, now), GatePassage::Open);
        // Another run of the same tree.
        assert_eq!(gates.enter(("w.yaml", "called"), &at(0), &call, now), GatePassage::Full);
        assert!(gates.leave("run", &at(0)));
        assert!(!gates.leave("run", &at(0)));
        assert_eq!(gates.enter(("w.yaml", "called"), &at(0), &call, now), GatePassage::Open);
        // An agent of another file is another agent.
        assert_eq!(gates.enter(("other.yaml", "run"), &at(0), &call, now), GatePassage::Open);
    }

    #[test]
    fn no_minute_has_more_requests_than_it_may() {
        let (gates, start, call) = (AgentGates::default(), Instant::now(), call(None, Some(3)));
        let mut times: Vec<Duration> = Vec::new();
        let mut now = Duration::ZERO;
        while times.len() < 50 {
            match gates.enter(PLACE, &at(0), &call, start + now) {
                GatePassage::Open => times.push(now),
                GatePassage::After(pause) => now += pause,
                GatePassage::Full => panic!("nothing is in flight"),
            }
            now += Duration::from_millis(777);
        }
        for window in times.windows(4) {
            assert!(window[3] >= window[0] + MINUTE, "{window:?}");
        }
    }

    #[test]
    fn a_provider_that_asks_to_wait_is_left_alone_by_every_call() {
        let (gates, now, call) = (AgentGates::default(), Instant::now(), call(None, None));
        let pause = Duration::from_secs(30);
        gates.close("w.yaml", &call.agent, now, pause);
        gates.close("w.yaml", &call.agent, now, Duration::from_secs(1));
        assert_eq!(gates.enter(PLACE, &at(7), &call, now), GatePassage::After(pause));
        assert_eq!(gates.enter(PLACE, &at(7), &call, now + pause), GatePassage::Open);
    }
}
