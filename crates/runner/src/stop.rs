//! Asking a run to start nothing new: it, and every run that its steps call.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::bell::Bell;

/// Asks a run to start nothing new.
#[derive(Clone, Default)]
pub struct Stop(Arc<Inner>);

#[derive(Default)]
struct Inner {
    asked: AtomicBool,
    /// Wakes those who work on the run.
    bell: Bell,
    parent: Option<Stop>,
    called: Mutex<Vec<Weak<Inner>>>,
}

impl Stop {
    /// Asks for nothing new to begin.
    pub fn ask(&self) {
        self.0.asked.store(true, Ordering::SeqCst);
        self.0.wake();
    }

    /// For a run that a step of this one calls: it is asked whatever this one is.
    #[must_use]
    pub(crate) fn child(&self) -> Self {
        let child = Self(Arc::new(Inner { parent: Some(self.clone()), ..Inner::default() }));
        let mut called = self.0.called.lock().unwrap_or_else(PoisonError::into_inner);
        called.retain(|known| known.strong_count() > 0);
        called.push(Arc::downgrade(&child.0));
        drop(called);
        child
    }

    pub(crate) fn asked(&self) -> bool {
        let mut around = Some(self);
        while let Some(stop) = around {
            if stop.0.asked.load(Ordering::SeqCst) {
                return true;
            }
            around = stop.0.parent.as_ref();
        }
        false
    }

    /// Wakes all who work on the run that somebody started, and on what it calls.
    pub(crate) fn ring_all(&self) {
        match &self.0.parent {
            Some(parent) => parent.ring_all(),
            None => self.0.wake(),
        }
    }

    pub(crate) fn bell(&self) -> &Bell {
        &self.0.bell
    }
}

impl Inner {
    fn wake(&self) {
        self.bell.ring();
        let called: Vec<_> = {
            let called = self.called.lock().unwrap_or_else(PoisonError::into_inner);
            called.iter().filter_map(Weak::upgrade).collect()
        };
        for inner in called {
            inner.wake();
        }
    }
}
