//! Machines that perform the programs of a simulated run, and what goes wrong with them.
//!
//! They outlive the program that drives the run. An act has a key, and the same key is the same act: it is asked for as
//! often as need be, and what came of it is remembered. Workers die before, while and after a program runs; answers are
//! late, get lost, and requests arrive twice. What an answer means is not decided here but by [`Inquiry`], which the
//! coordinator of a real run uses, too.
//!
//! [`Inquiry`]: crate::execute::inquiry::Inquiry

use std::collections::BTreeMap;

use super::chance::Fated;
use crate::execute::effect::EffectResult;
use crate::execute::inquiry::ActNews;
use crate::random::Random;

/// How often what goes wrong, in a hundred.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mishaps {
    /// A worker dies before the program of an act begins.
    pub dies_before: u64,
    /// It dies while the program runs.
    pub dies_during: u64,
    /// It dies when the program has ended, and before that is remembered.
    pub dies_after: u64,
    /// An answer is lost, or the wish to end an act.
    pub loses: u64,
    /// A request arrives twice.
    pub doubles: u64,
    /// The longest way of a message, in milliseconds.
    pub delay: u64,
}

/// What became of an act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActHistory {
    /// The execution it is a part of, its attempt and its exchange.
    pub of: (Fated, u32, u32),
    /// Whether it might begin at most once.
    pub once: bool,
    /// When its program began.
    pub begun: Vec<u64>,
    /// When a worker died with it.
    pub deaths: Vec<u64>,
    /// Whether it was told to end.
    pub was_ended: bool,
}

/// What is asked for.
#[derive(Clone)]
pub(super) struct ActOrder {
    pub(super) of: (Fated, u32, u32),
    pub(super) once: bool,
    /// How long its program runs, in milliseconds.
    pub(super) duration: u64,
    /// The life of the coordinator that asks.
    pub(super) life: usize,
    /// What comes of it.
    pub(super) result: EffectResult,
}

/// All machines, and what is remembered of acts.
pub(super) struct Elsewhere {
    mishaps: Mishaps,
    random: Random,
    acts: BTreeMap<String, RememberedAct>,
    pub(super) lost: u64,
    pub(super) doubled: u64,
}

struct RememberedAct {
    history: ActHistory,
    life: usize,
    /// From when on the answer is there.
    answered: u64,
    answer: RememberedAnswer,
}

enum RememberedAnswer {
    Done(EffectResult),
    Ended,
    Interrupted,
}

/// Nobody's luck is worse: so many workers die with one act.
const MOST_DEATHS: usize = 4;

/// The time until an act whose worker died is begun again, in milliseconds.
const UNTIL_AGAIN: u64 = 50;

/// The time after which an answer is given up, in milliseconds.
pub(super) const PATIENCE: u64 = 500;

impl Elsewhere {
    pub(super) fn new(mishaps: Mishaps, seed: u64) -> Self {
        let random = Random::new(seed ^ 0x0e15_ebe4_e000);
        Self { mishaps, random, acts: BTreeMap::new(), lost: 0, doubled: 0 }
    }

    pub(super) fn knows(&self, key: &str) -> bool {
        self.acts.contains_key(key)
    }

    /// A request arrives, perhaps twice.
    pub(super) fn ask(&mut self, key: &str, order: &ActOrder, now: u64) {
        self.request(key, order, now);
        if self.random.percent(self.mishaps.doubles) {
            self.doubled += 1;
            self.request(key, order, now);
        }
    }

    fn request(&mut self, key: &str, order: &ActOrder, now: u64) {
        if !self.knows(key) {
            let act = self.performed(order, now);
            self.acts.insert(key.to_owned(), act);
        }
    }

    /// The whole course of an act.
    fn performed(&mut self, order: &ActOrder, now: u64) -> RememberedAct {
        let ActOrder { of, once, duration, life, result } = order.clone();
        let mut history = ActHistory { of, once, begun: Vec::new(), deaths: Vec::new(), was_ended: false };
        let mut moment = now + self.way();
        let answer = loop {
            let lucky = history.deaths.len() >= MOST_DEATHS;
            let mut dies = |percent| !lucky && self.random.percent(percent);
            let is_recorded;
            if dies(self.mishaps.dies_before) {
                // Whether it is recorded that an act begins that may begin once: nobody knows then whether it did.
                is_recorded = self.random.percent(50);
            } else {
                history.begun.push(moment);
                is_recorded = true;
                if dies(self.mishaps.dies_during) {
                    moment += self.random.below(duration + 1);
                } else {
                    moment += duration;
                    if !dies(self.mishaps.dies_after) {
                        break RememberedAnswer::Done(result);
                    }
                }
            }
            history.deaths.push(moment);
            moment += UNTIL_AGAIN;
            if once && is_recorded {
                break RememberedAnswer::Interrupted;
            }
        };
        RememberedAct { history, life, answered: moment, answer }
    }

    /// How long a message is on its way.
    fn way(&mut self) -> u64 {
        self.random.below(self.mishaps.delay + 1)
    }

    /// When an answer arrives that is asked for now.
    pub(super) fn arrives(&mut self, key: &str, now: u64) -> u64 {
        self.acts.get(key).map_or(now, |act| act.answered.max(now)) + self.way()
    }

    /// Whether a message is lost.
    pub(super) fn loses(&mut self) -> bool {
        let is_lost = self.random.percent(self.mishaps.loses);
        self.lost += u64::from(is_lost);
        is_lost
    }

    /// What is heard of an act in a life of the coordinator.
    pub(super) fn news(&self, key: &str, life: usize) -> Option<ActNews> {
        let act = self.acts.get(key)?;
        Some(match &act.answer {
            RememberedAnswer::Done(result) => ActNews::Done(Box::new(result.clone())),
            RememberedAnswer::Ended => ActNews::Ended,
            RememberedAnswer::Interrupted => ActNews::Interrupted { is_new: act.life == life },
        })
    }

    /// Somebody wants an act to end. What is over stays as it is.
    pub(super) fn end(&mut self, key: &str, now: u64) {
        if self.loses() {
            return;
        }
        let Some(act) = self.acts.get_mut(key).filter(|act| act.answered > now) else { return };
        act.history.begun.retain(|moment| *moment <= now);
        act.history.deaths.retain(|moment| *moment <= now);
        act.history.was_ended = true;
        (act.answered, act.answer) = (now, RememberedAnswer::Ended);
    }

    pub(super) fn histories(&self) -> Vec<ActHistory> {
        self.acts.values().map(|act| act.history.clone()).collect()
    }
}
