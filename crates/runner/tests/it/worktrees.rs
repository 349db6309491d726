//! Worktrees of items, in real repositories with the real git.

#![expect(clippy::unwrap_used, reason = "the lint sees only functions that are tests themselves")]

mod fixture;
mod items;
mod kills;
mod many;
mod original;
mod processes;
mod repositories;
