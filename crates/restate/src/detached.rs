//! Runs that workers coordinate: a workflow at the Restate server sees to it that one of them drives the run, whichever
//! is there.
//!
//! What the run is stands in its segments. The workflow is told where these are, and remembers how the run stopped.

use std::time::Duration;

use threadline_lang::{Limits, Value, data};
use threadline_store::{RunId, Seq};

use crate::address::ServerAddress;
use crate::key::SharedKey;
use crate::remote::{agent_for_server, first_line, post};
use crate::wire::{self, FormResult};

/// The workflow that workers offer.
pub(crate) const WORKFLOW: &str = "ThreadlineRun";

/// The time that a server has to answer.
const SHORT: Duration = Duration::from_secs(10);

/// A run is handed over at most so often: each time it stopped, somebody wanted it to go on.
const MOST_TIMES: u32 = 10_000;

/// What a worker is told of a run that it is to drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DetachedRun {
    /// The run.
    pub run: RunId,
    /// Where its segments are.
    pub blobs: String,
    /// Where the Restate server takes requests.
    pub address: String,
    /// How many events it had when it was handed over: one that stopped behind them has done what was wanted.
    pub since: Seq,
    /// Whether the items that failed are done again.
    pub failed: bool,
}

/// How the coordinator of a run ended on a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DetachedEnd {
    /// Its exit code, as a terminal would have had it.
    pub code: i64,
    /// The worker.
    pub worker: String,
    /// What it said last, where it could not begin.
    pub said: String,
}

/// What is known of a run that workers coordinate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DetachedState {
    /// Nobody handed it over, or so long ago that it was forgotten.
    Unknown,
    /// It is driven, or will be.
    Going,
    /// It stopped.
    Stopped(DetachedEnd),
}

/// Runs behind a Restate server that workers coordinate.
pub struct DetachedRuns {
    address: ServerAddress,
    key: SharedKey,
    agent: ureq::Agent,
}

impl DetachedRuns {
    /// Those behind a server.
    pub fn new(address: ServerAddress, key: SharedKey) -> Self {
        Self { address, key, agent: agent_for_server() }
    }

    /// Hands a run over. Fails if it is driven already.
    pub fn hand_over(&self, run: &DetachedRun) -> Result<(), String> {
        let (next, state) = self.last(&run.run)?;
        if state == DetachedState::Going {
            return Err(format!("workers drive run `{}` already", run.run));
        }
        let id = instance(&run.run, next);
        let (status, text) =
            self.post(&format!("/{WORKFLOW}/{id}/run/send"), &run.message(&self.key, &id))?;
        if status / 100 == 2 {
            return Ok(());
        }
        Err(match status {
            404 => format!("no worker behind `{}` drives runs", self.address),
            _ => format!("`{}` answers with status {status}: {}", self.address, first_line(&text)),
        })
    }

    /// What is known of a run.
    pub fn state(&self, run: &RunId) -> Result<DetachedState, String> {
        self.last(run).map(|(_, state)| state)
    }

    /// Asks a run to stop: its running steps finish first, or end `now`.
    pub fn stop(&self, run: &RunId, now: bool) -> Result<(), String> {
        let (next, state) = self.last(run)?;
        if state != DetachedState::Going {
            return Err(format!("no worker drives run `{run}`"));
        }
        let id = instance(run, next - 1);
        let (status, text) =
            self.post(&format!("/{WORKFLOW}/{id}/stop"), &stop_message(&self.key, &id, now))?;
        match (status, text.as_str()) {
            (200, "") => Ok(()),
            (200, why) => Err(format!("a worker behind `{}` refuses it: {}", self.address, first_line(why))),
            _ => Err(format!("`{}` answers with status {status}: {}", self.address, first_line(&text))),
        }
    }

    /// How often a run was handed over, and what is known of the last time.
    fn last(&self, run: &RunId) -> Result<(u32, DetachedState), String> {
        let mut state = DetachedState::Unknown;
        for number in 0..MOST_TIMES {
            match self.output(&instance(run, number))? {
                DetachedState::Unknown => return Ok((number, state)),
                DetachedState::Going => return Ok((number + 1, DetachedState::Going)),
                stopped @ DetachedState::Stopped(_) => state = stopped,
            }
        }
        Err(format!("run `{run}` was handed over too often"))
    }

    fn output(&self, id: &str) -> Result<DetachedState, String> {
        let url = self.address.url(&format!("/restate/workflow/{WORKFLOW}/{id}/output"));
        let sent = self.agent.get(&url).config().timeout_global(Some(SHORT)).build().call();
        let mut answer = sent.map_err(|error| self.unreachable(&error.to_string()))?;
        let status = answer.status().as_u16();
        let text =
            answer.body_mut().read_to_string().map_err(|error| self.unreachable(&error.to_string()))?;
        match status {
            200 => DetachedEnd::read(&text).map(DetachedState::Stopped),
            404 => Ok(DetachedState::Unknown),
            470 => Ok(DetachedState::Going),
            // It was ended at the server, by somebody who looks after that.
            _ => Ok(DetachedState::Stopped(DetachedEnd {
                code: 4,
                worker: String::new(),
                said: format!("the Restate server answers with status {status}: {}", first_line(&text)),
            })),
        }
    }

    fn post(&self, path: &str, body: &str) -> Result<(u16, String), String> {
        let url = self.address.url(path);
        post(&self.agent, &url, body, Some(SHORT)).map_err(|why| self.unreachable(&why))
    }

    fn unreachable(&self, why: &str) -> String {
        format!("no Restate server takes requests at `{}`: {why}", self.address)
    }
}

/// What the server knows a run by that was handed over for this time.
fn instance(run: &RunId, number: u32) -> String {
    format!("{run}.{number}")
}

impl DetachedRun {
    /// The message that hands it over, for what the server knows it by.
    fn message(&self, key: &SharedKey, id: &str) -> String {
        let Self { run, blobs, address, since, failed } = self;
        let request = Value::record([
            ("drive", id.into()),
            ("run", run.as_str().into()),
            ("blobs", blobs.as_str().into()),
            ("address", address.as_str().into()),
            ("since", Value::from(*since)),
            ("failed", (*failed).into()),
        ]);
        wire::sealed(key, &request)
    }

    /// The run of a message that was signed for what the server knows it by.
    pub(crate) fn verified(key: &SharedKey, id: &str, message: &[u8]) -> FormResult<Self> {
        let request = wire::unsealed(key, message)?;
        let [drive, run, blobs, address, since, failed] =
            wire::fields(&request, ["drive", "run", "blobs", "address", "since", "failed"])?;
        if wire::text_of(drive, "drive")? != id {
            return Err("it was signed for something else".to_owned());
        }
        Ok(Self {
            run: RunId::new(wire::text_of(run, "run")?).map_err(|error| error.to_string())?,
            blobs: wire::text_of(blobs, "blobs")?.to_owned(),
            address: wire::text_of(address, "address")?.to_owned(),
            since: since
                .as_i64()
                .and_then(|since| u64::try_from(since).ok())
                .ok_or("`since` is no number")?,
            failed: failed.as_bool().ok_or("`failed` is neither true nor false")?,
        })
    }
}

fn stop_message(key: &SharedKey, id: &str, now: bool) -> String {
    wire::sealed(key, &Value::record([("stop", id.into()), ("now", now.into())]))
}

/// Whether a message that was signed for a run wants it to stop now, and not only when its running steps have finished.
pub(crate) fn verified_stop(key: &SharedKey, id: &str, message: &[u8]) -> FormResult<bool> {
    let request = wire::unsealed(key, message)?;
    let [stop, now] = wire::fields(&request, ["stop", "now"])?;
    if wire::text_of(stop, "stop")? != id {
        return Err("it was signed for something else".to_owned());
    }
    now.as_bool().ok_or_else(|| "`now` is neither true nor false".to_owned())
}

impl DetachedEnd {
    /// It as text.
    pub(crate) fn text(&self) -> String {
        wire::json(&Value::record([
            ("code", self.code.into()),
            ("worker", self.worker.as_str().into()),
            ("said", self.said.as_str().into()),
        ]))
    }

    fn read(text: &str) -> FormResult<Self> {
        let value = data::json::read_value(text, &Limits::DEFAULT).map_err(|error| error.to_string())?;
        let [code, worker, said] = wire::fields(&value, ["code", "worker", "said"])?;
        Ok(Self {
            code: code.as_i64().ok_or("`code` is no number")?,
            worker: wire::text_of(worker, "worker")?.to_owned(),
            said: wire::text_of(said, "said")?.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_signed_for_one_run_is_nothing_for_another() {
        let key = SharedKey::of_bytes(b"0123456789abcdef").unwrap();
        let run = DetachedRun {
            run: RunId::new("r1").unwrap(),
            blobs: "file:///b".to_owned(),
            address: "restate://h:1".to_owned(),
            since: 7,
            failed: true,
        };
        let message = run.message(&key, "r1.0");
        assert_eq!(DetachedRun::verified(&key, "r1.0", message.as_bytes()), Ok(run));
        assert!(DetachedRun::verified(&key, "r1.1", message.as_bytes()).is_err());
        let stop = stop_message(&key, "r1.0", true);
        assert_eq!(verified_stop(&key, "r1.0", stop.as_bytes()), Ok(true));
        assert!(verified_stop(&key, "r1.1", stop.as_bytes()).is_err());
        assert!(verified_stop(&key, "r1.0", message.as_bytes()).is_err());
        let other = SharedKey::of_bytes(b"0123456789abcdeg").unwrap();
        assert!(DetachedRun::verified(&other, "r1.0", message.as_bytes()).is_err());
    }
}
