//! The output of steps, cut into whole lines: a line is printed when its end is there, or its step has ended.

use std::collections::BTreeMap;

use threadline_engine::event::Address;
use threadline_runner::process::Stream;

/// What each step has printed of a line whose end is not there yet, for each of its streams.
#[derive(Default)]
pub(super) struct PartialLines(BTreeMap<(Address, bool), Vec<u8>>);

impl PartialLines {
    /// Adds output of a step and returns the whole lines that are there now.
    pub(super) fn add(&mut self, at: &Address, stream: Stream, bytes: &[u8]) -> Option<Vec<u8>> {
        let partial = self.0.entry((at.clone(), stream == Stream::Stderr)).or_default();
        partial.extend_from_slice(bytes);
        let end = partial.iter().rposition(|byte| *byte == b'\n')?;
        let rest = partial.split_off(end + 1);
        Some(std::mem::replace(partial, rest))
    }

    /// Takes what is left of a step that has ended.
    pub(super) fn take_rest(&mut self, at: &Address) -> Vec<Vec<u8>> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let rest = [false, true].into_iter().filter_map(|stderr| self.0.remove(&(at.clone(), stderr)));
        rest.filter(|rest| !rest.is_empty()).collect()
    }
}
