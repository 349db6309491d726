//! Tells whoever watches a run what happens, in order, on a thread of its own.
//!
//! An event is told only when it is written, so that a kill takes away nothing that was told, and a result only when it
//! is on disk: what was shown as finished never runs again. Nothing that works waits for a slow reader, until many
//! notices lie unread.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use threadline_engine::event::{Event, EventKind};
use threadline_store::Journal;

use crate::driver::{Notice, Observer};

/// So many notices may lie unread before those who work wait: those of several groups of the journal, so that nobody waits
/// while one of them is synced.
const MOST_UNREAD: usize = 1_024;

/// Where notices go; the end is one of them.
#[derive(Clone)]
pub(crate) struct NoticeSender(SyncSender<Option<Notice>>);

impl NoticeSender {
    /// A teller, and what its thread listens to.
    pub(crate) fn new() -> (Self, Receiver<Option<Notice>>) {
        let (sender, receiver) = sync_channel(MOST_UNREAD);
        (Self(sender), receiver)
    }

    /// Tells whoever watches.
    pub(crate) fn tell(&self, notice: Notice) {
        // Nobody listens only after a panic of the observer, which is reported already.
        let _ = self.0.send(Some(notice));
    }

    /// There is nothing more to tell.
    pub(crate) fn end(&self) {
        let _ = self.0.send(None);
    }
}

/// Tells notices until the end.
pub(crate) fn listen(journal: &Journal<'_>, notices: Receiver<Option<Notice>>, mut observer: Observer<'_>) {
    for notice in notices.into_iter().map_while(|notice| notice) {
        if let Notice::Event(event) = &notice {
            let seq = event.seq;
            let safe = if is_result(event) {
                journal.wait_patiently(seq)
            } else {
                journal.wait_written_patiently(seq)
            };
            if safe.is_err() {
                // It is not safe and never will be: as far as anybody can know it did not happen.
                continue;
            }
        }
        observer(notice);
    }
}

/// Whether an event says what came of something, rather than that it begins.
fn is_result(event: &Event) -> bool {
    !matches!(event.kind, EventKind::Started { .. } | EventKind::Defined { .. })
}
