//! The signals that people and systems send to Threadline itself.
//!
//! The first one means: start nothing new, let what runs come to its end. The second one ends what runs, each child
//! with its time of grace; the third one does so by force. Children have their own process groups, so the terminal's
//! interrupt reaches only us.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread::JoinHandle;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::{Handle, Signals};

use crate::process::Control;

/// What the signals so far ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SignalState {
    /// No signal came.
    Going,
    /// Start nothing new.
    Stopping,
    /// End what runs.
    Killing,
}

/// Listens for SIGINT, SIGTERM and SIGHUP until it is dropped.
#[derive(Debug)]
pub struct Listener {
    count: Arc<AtomicU8>,
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// Begins to listen. `on_change` is called with each new state, on a thread of its own; from `Killing` on the
    /// control is asked too, so that whoever waits for a child wakes up.
    ///
    /// A signal that was ignored when this process started, as `nohup` does, stays ignored.
    pub fn start(control: Control, on_change: impl Fn(SignalState) + Send + 'static) -> io::Result<Self> {
        let mut signals = Signals::new(not_ignored(&[SIGINT, SIGTERM, SIGHUP]))?;
        let handle = signals.handle();
        let count = Arc::new(AtomicU8::new(0));
        let counter = count.clone();
        let listen = move || {
            for _ in signals.forever() {
                let number = counter.load(Ordering::SeqCst).saturating_add(1);
                counter.store(number, Ordering::SeqCst);
                match number {
                    1 => {}
                    2 => control.cancel(),
                    _ => control.kill(),
                }
                on_change(state_after(number));
            }
        };
        let thread = std::thread::Builder::new().name("signals".into()).spawn(listen)?;
        Ok(Self { count, handle, thread: Some(thread) })
    }

    /// What the signals so far ask for.
    pub fn state(&self) -> SignalState {
        state_after(self.count.load(Ordering::SeqCst))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            // It can only have panicked in the caller's own function, which was reported then.
            let _ = thread.join();
        }
    }
}

/// Makes a write beyond the limit of the size of files an error, like any other that fails, instead of the end of this
/// process. Programs that steps start are not affected.
pub fn survive_file_limit() -> io::Result<()> {
    // It is handled and not ignored: what is ignored stays so in every program that is started.
    flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false))).map(|_| ())
}

fn state_after(signals: u8) -> SignalState {
    match signals {
        0 => SignalState::Going,
        1 => SignalState::Stopping,
        _ => SignalState::Killing,
    }
}

/// Leaves out what this process was told to ignore by whoever started it.
fn not_ignored(signals: &[i32]) -> Vec<i32> {
    let ignored = fs::read_to_string("/proc/self/status").ok().and_then(|status| ignored_signals(&status));
    let ignored = ignored.unwrap_or(0);
    signals.iter().copied().filter(|signal| ignored & (1 << (signal - 1)) == 0).collect()
}

/// The set of ignored signals, one bit each.
fn ignored_signals(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_status_of_the_process() {
        for (status, expected) in [
            ("Name:\tx\nSigBlk:\t0000000000000003\nSigIgn:\t0000000000000001\n", Some(1)),
            ("SigIgn:\t0000000000001000\n", Some(0x1000)),
            ("SigCgt:\t0000000000001000\n", None),
            ("SigIgn:\tx\n", None),
        ] {
            assert_eq!(ignored_signals(status), expected);
        }
    }
}
