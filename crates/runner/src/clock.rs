//! The time of a run: that of the wall clock when this process first asked, carried on by a clock that never
//! jumps.
//!
//! Whoever sets the clock of the machine changes no limit and no measured time of a run that goes on, and its
//! events stay in order. A sleeping machine is not forgotten: this clock goes on meanwhile, as the wall clock
//! does.

use std::sync::LazyLock;
use std::time::Duration;

use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};
use threadline_engine::event::Millis;

/// The wall clock, and the steady one at the same moment.
static BEGINNING: LazyLock<(Timestamp, Duration)> = LazyLock::new(|| (Timestamp::now(), steady()));

/// The time now.
pub(crate) fn timestamp() -> Timestamp {
    let (wall, then) = *BEGINNING;
    let passed = steady().saturating_sub(then);
    // A clock near the last year that can be written stands still there.
    wall.checked_add(passed).unwrap_or(wall)
}

/// The time now, as events have it.
pub fn now() -> Millis {
    timestamp().as_millisecond()
}

fn steady() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    // It is never negative.
    Duration::try_from(now).unwrap_or_default()
}
