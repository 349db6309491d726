//! Events as the journal stores them: opaque texts in a chain of hashes. This module never interprets them.

use std::borrow::Cow;

use crate::names::{Hash, RunId, Seq};

/// An event that is to be appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventDraft {
    /// The kind of the event, in a word.
    pub kind: Cow<'static, str>,
    /// The execution that the event is about; empty for the run itself.
    pub address: String,
    /// The time by the clock of the caller.
    pub time: String,
    /// Everything else, as JSON.
    pub payload: String,
    /// The status of the run from this event on, if the event changes it. It is stored with the run, not in the event.
    pub status: Option<Cow<'static, str>>,
}

impl EventDraft {
    /// An event without address and payload.
    pub fn new(kind: impl Into<Cow<'static, str>>, time: impl Into<String>) -> Self {
        Self {
            kind: kind.into(),
            address: String::new(),
            time: time.into(),
            payload: String::new(),
            status: None,
        }
    }

    /// Sets the execution that the event is about.
    #[must_use]
    pub fn at(mut self, address: impl Into<String>) -> Self {
        self.address = address.into();
        self
    }

    /// Sets the payload.
    #[must_use]
    pub fn with(mut self, payload: impl Into<String>) -> Self {
        self.payload = payload.into();
        self
    }

    /// Sets the status that the run has from this event on.
    #[must_use]
    pub fn status(mut self, status: impl Into<Cow<'static, str>>) -> Self {
        self.status = Some(status.into());
        self
    }

    pub(crate) fn bytes(&self) -> usize {
        self.kind.len() + self.address.len() + self.time.len() + self.payload.len()
    }

    /// The hash of this event if it follows an event of hash `before`.
    pub(crate) fn chained(&self, before: &Hash, seq: Seq) -> Hash {
        chained(before, seq, [&self.kind, &self.address, &self.time, &self.payload])
    }
}

/// An event of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEvent {
    /// The number of the event in its run.
    pub seq: Seq,
    /// The kind of the event, in a word.
    pub kind: String,
    /// The execution that the event is about; empty for the run itself.
    pub address: String,
    /// The time by the clock of the caller.
    pub time: String,
    /// Everything else, as JSON.
    pub payload: String,
    /// The hash of this event and all before it.
    pub hash: Hash,
}

impl StoredEvent {
    pub(crate) fn bytes(&self) -> usize {
        self.kind.len() + self.address.len() + self.time.len() + self.payload.len()
    }

    /// Whether this event follows an event of hash `before`.
    pub(crate) fn follows(&self, before: &Hash) -> bool {
        self.hash == chained(before, self.seq, [&self.kind, &self.address, &self.time, &self.payload])
    }
}

fn chained(before: &Hash, seq: Seq, texts: [&str; 4]) -> Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(before.as_bytes()).update(&seq.to_le_bytes());
    hash_texts(&mut hasher, &texts);
    hasher.finalize().into()
}

/// Each text with its length before it, so that no two lists of texts give the same bytes.
fn hash_texts(hasher: &mut blake3::Hasher, texts: &[&str]) {
    for text in texts {
        hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
    }
}

/// A run before its first event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRun {
    /// The id, which no other run of the journal has.
    pub id: RunId,
    /// The name of the workflow.
    pub name: String,
    /// The file of the workflow.
    pub file: String,
    /// The time of the start by the clock of the caller.
    pub started_at: String,
}

impl NewRun {
    /// The hash that the first event of the run follows.
    pub(crate) fn root(&self) -> Hash {
        let mut hasher = blake3::Hasher::new();
        hash_texts(&mut hasher, &[self.id.as_str(), &self.name, &self.file, &self.started_at]);
        hasher.finalize().into()
    }
}

/// A run of the journal, as of its last event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunInfo {
    /// The id of the run.
    pub id: RunId,
    /// The name of the workflow.
    pub name: String,
    /// The file of the workflow.
    pub file: String,
    /// The time of the start.
    pub started_at: String,
    /// The number of events, which is the number of the last one.
    pub events: Seq,
    /// The kind of the last event; empty if there is none.
    pub last_kind: String,
    /// The status that an event set last; empty if none did.
    pub status: String,
}

/// The part of the row of a run that changes as events are appended.
#[derive(Clone, Debug)]
pub(crate) struct RunHead {
    pub(crate) events: Seq,
    pub(crate) hash: Hash,
    pub(crate) last_kind: Cow<'static, str>,
    pub(crate) status: Cow<'static, str>,
}

impl RunHead {
    pub(crate) fn of(run: &NewRun) -> Self {
        Self { events: 0, hash: run.root(), last_kind: "".into(), status: "".into() }
    }

    /// Goes on by one event.
    pub(crate) fn advance(&mut self, draft: &EventDraft) {
        self.events += 1;
        self.hash = draft.chained(&self.hash, self.events);
        self.last_kind.clone_from(&draft.kind);
        if let Some(status) = &draft.status {
            self.status.clone_from(status);
        }
    }

    /// A hash over the whole row of a run, so that damage to it is noticed.
    pub(crate) fn seal(&self, root: &Hash, number: i64) -> Hash {
        let mut hasher = blake3::Hasher::new();
        hasher.update(root.as_bytes()).update(self.hash.as_bytes());
        hasher.update(&number.to_le_bytes()).update(&self.events.to_le_bytes());
        hash_texts(&mut hasher, &[&self.last_kind, &self.status]);
        hasher.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Journals of this version have these hashes. If they change, so must the version.
    #[test]
    fn the_hashes_of_version_1_stay_as_they_are() {
        let run = NewRun {
            id: RunId::new("r1").unwrap(),
            name: "deploy".into(),
            file: "deploy.yaml".into(),
            started_at: "2026-01-01T00:00:00.000Z".into(),
        };
        let mut head = RunHead::of(&run);
        let draft =
            EventDraft::new("finished", "2026-01-01T00:00:01.000Z").at("build").with(r#"{"value":85}"#);
        head.events = 1;
        head.hash = draft.chained(&run.root(), 1);
        head.last_kind = draft.kind;
        let found = [run.root(), head.hash, head.seal(&run.root(), 1)].map(|hash| hash.to_string());
        assert_eq!(
            found,
            [
                "8858b6312587fbb8e705bf8ebe7a6ac0ccfe62334676434d9f1da9bdfae82de6",
                "4a3510868fcc076b73b36abe8f921c8c7e4cd3cb3cb39be5178c376e46386c48",
                "87947949b32909f7cf0c7066dd682cbe1f17e8e0cbac410d18dbdfe2577631d4"
            ]
        );
    }
}
