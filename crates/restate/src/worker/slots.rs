//! The slots of a worker: so many acts at once. Runs take turns, so one with many acts does not keep others waiting.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// The slots of a worker.
#[derive(Clone)]
pub(super) struct FairSlots(Arc<Mutex<SlotQueue>>);

struct SlotQueue {
    free: usize,
    /// Who waits, by runs; the run that is first has the next turn.
    waiting: VecDeque<(String, VecDeque<oneshot::Sender<WorkerSlot>>)>,
}

/// A slot, until it is dropped.
pub(super) struct WorkerSlot(Option<FairSlots>);

impl FairSlots {
    pub(super) fn new(count: usize) -> Self {
        Self(Arc::new(Mutex::new(SlotQueue { free: count, waiting: VecDeque::new() })))
    }

    fn queue(&self) -> MutexGuard<'_, SlotQueue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a slot for an act of a run.
    pub(super) async fn take(&self, run: &str) -> WorkerSlot {
        let given = {
            let mut queue = self.queue();
            if queue.free > 0 {
                queue.free -= 1;
                return WorkerSlot(Some(self.clone()));
            }
            let (sender, given) = oneshot::channel();
            match queue.waiting.iter_mut().find(|(known, _)| known == run) {
                Some((_, acts)) => acts.push_back(sender),
                None => queue.waiting.push_back((run.to_owned(), VecDeque::from([sender]))),
            }
            given
        };
        // The queue lives as long as whoever waits, and drops nobody in it.
        given.await.unwrap_or(WorkerSlot(None))
    }

    fn give_back(&self) {
        loop {
            let next = {
                let mut queue = self.queue();
                let next = queue.next();
                queue.free += usize::from(next.is_none());
                next
            };
            // Somebody may have stopped waiting.
            match next.map(|next| next.send(WorkerSlot(Some(self.clone())))) {
                Some(Err(mut slot)) => slot.0 = None,
                Some(Ok(())) | None => return,
            }
        }
    }
}

impl SlotQueue {
    /// The first act of the run whose turn it is.
    fn next(&mut self) -> Option<oneshot::Sender<WorkerSlot>> {
        let (run, mut acts) = self.waiting.pop_front()?;
        let next = acts.pop_front();
        if !acts.is_empty() {
            self.waiting.push_back((run, acts));
        }
        next
    }
}

impl Drop for WorkerSlot {
    fn drop(&mut self) {
        if let Some(slots) = self.0.take() {
            slots.give_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn now<T>(future: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => Some(done),
            Poll::Pending => None,
        }
    }

    #[test]
    fn runs_take_turns_and_who_stopped_waiting_keeps_nothing() {
        let slots = FairSlots::new(1);
        let first = now(pin!(slots.take("long"))).expect("a free slot");
        let mut second = Box::pin(slots.take("long"));
        let mut given_up = Box::pin(slots.take("long"));
        let mut third = Box::pin(slots.take("long"));
        let mut short = Box::pin(slots.take("short"));
        assert!(now(second.as_mut()).is_none() && now(given_up.as_mut()).is_none());
        assert!(now(third.as_mut()).is_none() && now(short.as_mut()).is_none());
        drop(first);
        let slot = now(second.as_mut()).expect("it was first");
        assert!(now(short.as_mut()).is_none());
        drop(slot);
        drop(given_up);
        let slot = now(short.as_mut()).expect("the other run has its turn");
        drop(slot);
        let slot = now(third.as_mut()).expect("nobody else is left");
        drop(slot);
        assert_eq!(slots.queue().free, 1);
    }
}
