//! A bell that threads wait for: whoever rings it wakes all, and nobody misses a ring between looking and waiting.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// A bell, shared by its clones.
#[derive(Clone, Default)]
pub(crate) struct Bell(Arc<(Mutex<u64>, Condvar)>);

/// How often the bell had rung when somebody looked.
#[derive(Clone, Copy)]
pub(crate) struct Rings(u64);

impl Bell {
    pub(crate) fn ring(&self) {
        let mut rings = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        *rings += 1;
        self.0.1.notify_all();
    }

    /// How often it has rung; to be asked before looking whether there is something to do.
    pub(crate) fn rings(&self) -> Rings {
        Rings(*self.0.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until it has rung since, or the time is over.
    pub(crate) fn wait(&self, since: Rings, at_most: Option<Duration>) {
        let rings = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        let silent = |rings: &mut u64| *rings == since.0;
        // A poisoned lock holds a count all the same.
        match at_most {
            Some(time) => drop(self.0.1.wait_timeout_while(rings, time, silent)),
            None => drop(self.0.1.wait_while(rings, silent)),
        }
    }
}
