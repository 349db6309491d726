//! Shell text with real shells: what a bound value comes to, which text is refused, and that nothing else runs.
//!
//! By default bash gets all that is tried and every other shell a sample; with `THREADLINE_LONG=1` all shells get all,
//! and many more values and scripts are tried, from a seed that is printed. A shell that is not installed is left out,
//! except bash.
#![expect(clippy::unwrap_used, reason = "what cannot be run fails the test")]

mod attack;
mod contexts;
mod corpus;
mod messages;
mod page;
mod passage;
mod places;
mod random;
mod scripts;
mod shells;
mod steps;
mod tokens;
