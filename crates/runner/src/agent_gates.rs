//! How many calls of an agent run at once, and how soon one follows another: for a run with all that it calls.
//!
//! How many run at once is counted for each agent. What a provider counts itself, and asks to wait for, is that of an
//! account: agents behind the same address with the same key share it, in whatever file they stand.
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
use threadline_flow::model::{Agent, Workflow};

/// The time in which `requests_per_minute` are counted.
pub(crate) const MINUTE: Duration = Duration::from_mins(1);

/// The gates of all agents.
#[derive(Default)]
pub(crate) struct AgentGates {
    gates: Mutex<Gates>,
    /// How many calls have ended that may have been in somebody's way.
    ended: AtomicU64,
}

#[derive(Default)]
struct Gates {
    /// The executions that ask an agent now, by their runs.
    in_flight: BTreeMap<AgentKey, Vec<(EcoString, Address)>>,
    accounts: BTreeMap<AccountKey, AccountGate>,
}

/// An agent of a file.
type AgentKey = (EcoString, EcoString);

/// An account of a provider: the address and where the key comes from, or an agent that is asked in another way.
type AccountKey = (EcoString, EcoString);

#[derive(Default)]
struct AccountGate {
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

/// The account of an agent.
fn account_of(workflow: &Workflow, agent: &EcoString) -> AccountKey {
    let account = workflow.agent(agent).and_then(Agent::account);
    account.map_or_else(
        || (workflow.file.name().into(), agent.clone()),
        |account| {
            let sources = account.secrets.iter().map(|name| {
                let secret = workflow.secrets.iter().find(|secret| secret.name == *name);
                // Where it comes from, and not how a file calls it.
                secret.map_or_else(|| name.to_string(), |secret| format!("{:?}", secret.source))
            });
            (account.address, sources.collect::<Vec<_>>().join(" ").into())
        },
    )
}

impl AgentGates {
    fn gates(&self) -> MutexGuard<'_, Gates> {
        self.gates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many calls have ended. Who is told that all are in flight looks again when there are more.
    pub(crate) fn ended(&self) -> u64 {
        self.ended.load(Ordering::SeqCst)
    }

    /// Whether a call may begin at this moment.
    pub(crate) fn enter(
        &self,
        (workflow, run): (&Workflow, &str),
        at: &Address,
        call: &AgentCall,
        now: Instant,
    ) -> GatePassage {
        let mut gates = self.gates();
        let Gates { in_flight, accounts } = &mut *gates;
        let account = accounts.entry(account_of(workflow, &call.agent)).or_default();
        if let Some(until) = account.closed_until.filter(|until| *until > now) {
            return GatePassage::After(until - now);
        }
        let in_flight = in_flight.entry((workflow.file.name().into(), call.agent.clone())).or_default();
        let is_inside = in_flight.iter().any(|(other, place)| other == run && place == at);
        if !is_inside && call.max_parallel.is_some_and(|most| in_flight.len() as u64 >= most) {
            return GatePassage::Full;
        }
        while account.asked.front().is_some_and(|asked| now.saturating_duration_since(*asked) >= MINUTE) {
            account.asked.pop_front();
        }
        if let Some(most) = call.requests_per_minute {
            // The first of those after which there is room for one more.
            let over = (account.asked.len() as u64).saturating_sub(most);
            let first = usize::try_from(over).ok().and_then(|over| account.asked.get(over));
            if account.asked.len() as u64 >= most
                && let Some(first) = first
            {
                return GatePassage::After(MINUTE.saturating_sub(now.saturating_duration_since(*first)));
            }
        }
        account.asked.push_back(now);
        if !is_inside && call.max_parallel.is_some() {
            in_flight.push((run.into(), at.clone()));
        }
        GatePassage::Open
    }

    /// An agent was asked before the run was stopped that goes on now. The latest call comes first.
    pub(crate) fn remember(&self, workflow: &Workflow, agent: &EcoString, asked: Instant) {
        let mut gates = self.gates();
        let account = gates.accounts.entry(account_of(workflow, agent)).or_default();
        let later = account.asked.partition_point(|known| *known <= asked);
        account.asked.insert(later, asked);
    }

    /// An execution asks no agent any more. Says whether that was in anybody's way.
    pub(crate) fn leave(&self, run: &str, at: &Address) -> bool {
        let mut was_inside = false;
        for in_flight in self.gates().in_flight.values_mut() {
            let before = in_flight.len();
            in_flight.retain(|(other, place)| other != run || place != at);
            was_inside |= in_flight.len() < before;
        }
        if was_inside {
            self.ended.fetch_add(1, Ordering::SeqCst);
        }
        was_inside
    }

    /// The provider of an agent asks to be left alone for so long.
    pub(crate) fn close(&self, workflow: &Workflow, agent: &EcoString, now: Instant, pause: Duration) {
        let mut gates = self.gates();
        let account = gates.accounts.entry(account_of(workflow, agent)).or_default();
        let until = now.checked_add(pause);
        account.closed_until = account.closed_until.max(until);
    }
}

#[cfg(test)]
mod tests {
    use threadline_flow::load::load;
    use threadline_lang::source::SourceFile;

    use super::*;

    /// A file with agents, of which `a` and `b` are behind one account, and `c` behind another.
    fn workflow(name: &str) -> Workflow {
        let text = "secrets: {K: {env: KEY}, L: {env: KEY}, M: {env: OTHER}}\nagents:\n  a: {provider: openai, model: m, \
                    api_key: '${secrets.K}'}\n  b: {provider: openai, model: n, api_key: '${secrets.L}', base_url: \
                    'https://api.openai.com/v1/'}\n  c: {provider: openai, model: m, api_key: '${secrets.M}'}\nsteps: \
                    [{value: 1}]\n";
        let file = SourceFile::new(name, text.as_bytes().to_vec()).unwrap();
        let (workflow, problems) = load(file);
        workflow.unwrap_or_else(|| panic!("{problems:?}"))
    }

    fn call(max_parallel: Option<u64>, requests_per_minute: Option<u64>) -> AgentCall {
        AgentCall { agent: "a".into(), max_parallel, requests_per_minute }
    }

    fn at(index: u64) -> Address {
        Address::parse("1").unwrap().item(index)
    }

    #[test]
    fn no_more_calls_are_in_flight_than_may_be() {
        let (gates, now, call) = (AgentGates::default(), Instant::now(), call(Some(2), None));
        let (file, other) = (workflow("w.yaml"), workflow("other.yaml"));
        let (own, called) = ((&file, "run"), (&file, "called"));
        assert_eq!(gates.enter(own, &at(0), &call, now), GatePassage::Open);
        assert_eq!(gates.enter(own, &at(1), &call, now), GatePassage::Open);
        assert_eq!(gates.enter(own, &at(2), &call, now), GatePassage::Full);
        // The same conversation goes on.
        assert_eq!(gates.enter(own, &at(1), &call, now), GatePassage::Open);
        // Another run of the same tree.
        assert_eq!(gates.enter(called, &at(0), &call, now), GatePassage::Full);
        assert!(gates.leave("run", &at(0)));
        assert!(!gates.leave("run", &at(0)));
        assert_eq!(gates.enter(called, &at(0), &call, now), GatePassage::Open);
        // An agent of another file is another agent.
        assert_eq!(gates.enter((&other, "run"), &at(0), &call, now), GatePassage::Open);
    }

    #[test]
    fn no_minute_has_more_requests_than_it_may() {
        let (gates, start, call) = (AgentGates::default(), Instant::now(), call(None, Some(3)));
        let file = workflow("w.yaml");
        let own = (&file, "run");
        let mut times: Vec<Duration> = Vec::new();
        let mut now = Duration::ZERO;
        while times.len() < 50 {
            match gates.enter(own, &at(0), &call, start + now) {
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
    fn a_provider_that_asks_to_wait_is_left_alone_by_every_call_of_the_account() {
        let (gates, now) = (AgentGates::default(), Instant::now());
        let (file, other) = (workflow("w.yaml"), workflow("other.yaml"));
        let pause = Duration::from_secs(30);
        gates.close(&file, &"a".into(), now, pause);
        gates.close(&file, &"a".into(), now, Duration::from_secs(1));
        for (file, agent) in [(&file, "a"), (&file, "b"), (&other, "a"), (&other, "b")] {
            let call = AgentCall { agent: agent.into(), ..call(None, None) };
            assert_eq!(gates.enter((file, "run"), &at(7), &call, now), GatePassage::After(pause));
            assert_eq!(gates.enter((file, "run"), &at(7), &call, now + pause), GatePassage::Open);
        }
        // Another key is another account.
        let call = AgentCall { agent: "c".into(), ..call(None, None) };
        assert_eq!(gates.enter((&file, "run"), &at(7), &call, now), GatePassage::Open);
    }

    #[test]
    fn agents_of_one_account_share_its_minute() {
        let (gates, now, file) = (AgentGates::default(), Instant::now(), workflow("w.yaml"));
        let call = |agent: &str, most| AgentCall { agent: agent.into(), ..call(None, Some(most)) };
        let enter = |call: &AgentCall| gates.enter((&file, "run"), &at(0), call, now);
        assert_eq!(enter(&call("a", 3)), GatePassage::Open);
        assert_eq!(enter(&call("b", 3)), GatePassage::Open);
        assert_eq!(enter(&call("a", 2)), GatePassage::After(MINUTE));
        assert_eq!(enter(&call("c", 1)), GatePassage::Open);
        assert_eq!(enter(&call("b", 3)), GatePassage::Open);
        assert_eq!(enter(&call("a", 3)), GatePassage::After(MINUTE));
    }
}
