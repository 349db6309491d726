//! The states of a loop as a graph: which of them are come to, by which way, and what has happened on every way there.
//!
//! Each question is one walk over the graph, so the cost is the routes of a loop for each name that is asked about. No
//! way is looked at by itself: there may be more of them than anybody can count.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use ecow::EcoString;

/// So many states of a way are written out; of a longer one the middle is left out.
const MAX_SHOWN: usize = 8;

/// The states, and where each leads.
pub(in crate::plan) struct RouteGraph {
    pub(super) initial: usize,
    /// Where each leads, each state once.
    pub(super) next: Vec<Vec<usize>>,
    /// What each captures.
    captures: Vec<Option<EcoString>>,
    /// By name: the walks without it and behind it.
    names: BTreeMap<EcoString, Arc<Known>>,
    before: Option<Arc<Known>>,
    /// How many routes all walks have looked at: what the checks cost, on any machine.
    #[cfg(test)]
    looked_at: std::cell::Cell<usize>,
}

/// Where a name may be without a value, and where it may have one, in one iteration.
pub(super) struct Known {
    /// The states before which it may not have been captured.
    pub(super) unset: Set,
    /// The states before which it may have been captured.
    pub(super) set: Set,
}

/// Some of the states, a bit for each: there is one such set for every name that is read.
pub(super) struct Set(Box<[u64]>);

impl Set {
    pub(super) fn has(&self, state: usize) -> bool {
        self.0.get(state / 64).is_some_and(|word| word >> (state % 64) & 1 == 1)
    }
}

/// The states that a walk came to, each with the one before it; those it began with stand before themselves.
pub(super) struct Reached(Vec<Option<usize>>);

impl Reached {
    pub(super) fn has(&self, state: usize) -> bool {
        self.0.get(state).is_some_and(Option::is_some)
    }

    /// The states on a shortest way to one, it too.
    pub(super) fn way(&self, to: usize) -> Vec<usize> {
        let mut way = vec![to];
        let mut at = to;
        while let Some(before) = self.0.get(at).copied().flatten().filter(|before| *before != at) {
            way.push(before);
            at = before;
        }
        way.reverse();
        way
    }

    fn set(&self) -> Set {
        let mut words = vec![0; self.0.len().div_ceil(64)];
        for (state, _) in self.0.iter().enumerate().filter(|(_, before)| before.is_some()) {
            words[state / 64] |= 1 << (state % 64);
        }
        Set(words.into())
    }
}

impl RouteGraph {
    pub(super) fn new(initial: usize, next: Vec<Vec<usize>>, captures: Vec<Option<EcoString>>) -> Self {
        Self {
            initial,
            next,
            captures,
            names: BTreeMap::new(),
            before: None,
            #[cfg(test)]
            looked_at: std::cell::Cell::default(),
        }
    }

    /// A walk in the order of distance: it goes on from a state only when `leaves` says so.
    fn walk(&self, from: impl IntoIterator<Item = usize>, leaves: impl Fn(usize, usize) -> bool) -> Reached {
        let mut reached = vec![None; self.next.len()];
        let mut open = VecDeque::new();
        for state in from {
            if reached[state].is_none() {
                reached[state] = Some(state);
                open.push_back(state);
            }
        }
        while let Some(at) = open.pop_front() {
            #[cfg(test)]
            self.looked_at.set(self.looked_at.get() + self.next[at].len());
            for &to in &self.next[at] {
                if reached[to].is_none() && leaves(at, to) {
                    reached[to] = Some(at);
                    open.push_back(to);
                }
            }
        }
        Reached(reached)
    }

    /// The states that are ever entered.
    pub(super) fn entered(&self) -> Reached {
        self.walk([self.initial], |_, _| true)
    }

    /// Of each state the first other that leads to it.
    pub(super) fn first_before(&self) -> Vec<Option<usize>> {
        let mut before = vec![None; self.next.len()];
        for (from, targets) in self.next.iter().enumerate() {
            for &to in targets.iter().filter(|to| **to != from) {
                before[to].get_or_insert(from);
            }
        }
        before
    }

    /// The states from which one of some others can be come to, those too.
    pub(super) fn leading_to(&self, ends: impl IntoIterator<Item = usize>) -> Reached {
        let mut next = vec![Vec::new(); self.next.len()];
        for (from, targets) in self.next.iter().enumerate() {
            for &to in targets {
                next[to].push(from);
            }
        }
        let back = Self::new(self.initial, next, Vec::new());
        back.walk(ends, |_, _| true)
    }

    /// The states that capture a name.
    pub(super) fn makers<'g>(&'g self, name: &'g str) -> impl Iterator<Item = usize> + 'g {
        let captures = self.captures.iter().enumerate();
        captures.filter(move |(_, capture)| capture.as_deref() == Some(name)).map(|(at, _)| at)
    }

    pub(super) fn makes(&self, state: usize, name: &str) -> bool {
        self.captures[state].as_deref() == Some(name)
    }

    /// The states that an iteration comes to before it has captured a name.
    pub(super) fn without(&self, name: &str) -> Reached {
        self.walk([self.initial], |from, _| !self.makes(from, name))
    }

    /// What is known of a name within an iteration: it begins without it, whatever was captured before.
    pub(super) fn known(&mut self, name: &EcoString) -> Arc<Known> {
        if let Some(known) = self.names.get(name) {
            return Arc::clone(known);
        }
        let unset = self.without(name).set();
        let behind = self.makers(name).flat_map(|maker| self.next[maker].iter().copied());
        let set = self.walk(behind.filter(|to| *to != self.initial), |_, to| to != self.initial);
        let known = Arc::new(Known { unset, set: set.set() });
        self.names.insert(name.clone(), Arc::clone(&known));
        known
    }

    /// The states before which there may be no other, and those before which there may be one.
    pub(super) fn before(&mut self) -> Arc<Known> {
        if let Some(known) = &self.before {
            return Arc::clone(known);
        }
        let entered = self.entered();
        let entered = (0..self.next.len()).filter(|state| entered.has(*state));
        let behind = entered.flat_map(|state| self.next[state].iter().copied());
        let set = self.walk(behind, |_, _| true).set();
        let unset = self.walk([self.initial], |_, _| false).set();
        let known = Arc::new(Known { unset, set });
        self.before = Some(Arc::clone(&known));
        known
    }

    /// Whether a state can be come to after a name was captured, be it in an iteration before.
    pub(super) fn comes_from(&self, name: &str, state: usize) -> bool {
        let leading = self.leading_to([state]);
        self.makers(name).any(|maker| self.next[maker].iter().any(|to| leading.has(*to)))
    }
}

/// A way in words: `check → fix`.
pub(super) fn shown(way: &[usize], names: &[EcoString]) -> String {
    let name = |at: &usize| names.get(*at).map_or("", EcoString::as_str);
    let words: Vec<&str> = if way.len() <= MAX_SHOWN {
        way.iter().map(name).collect()
    } else {
        let (first, last) = (&way[..MAX_SHOWN / 2], &way[way.len() - MAX_SHOWN / 2..]);
        first.iter().map(name).chain(["…"]).chain(last.iter().map(name)).collect()
    };
    words.join(" → ")
}

#[cfg(test)]
mod tests {
    use super::{RouteGraph, shown};
    use ecow::EcoString;

    /// Each state captures a name or nothing, and leads to some others; the first is the initial one.
    fn graph(states: &[(Option<&str>, &[usize])]) -> RouteGraph {
        let next = states.iter().map(|(_, next)| next.to_vec()).collect();
        let captures = states.iter().map(|(capture, _)| capture.map(EcoString::from)).collect();
        RouteGraph::new(0, next, captures)
    }

    #[test]
    fn a_name_is_unset_on_the_shortest_way_around_its_makers() {
        let mut graph =
            graph(&[(None, &[1, 2]), (Some("x"), &[3]), (None, &[4]), (None, &[]), (None, &[3, 0])]);
        let known = graph.known(&"x".into());
        assert_eq!(graph.without("x").way(3), [0, 2, 4, 3]);
        assert!(known.unset.has(3) && known.set.has(3) && !known.set.has(4) && !known.set.has(0));
    }

    #[test]
    fn an_iteration_begins_without_what_was_captured_before() {
        let mut graph = graph(&[(None, &[1]), (Some("x"), &[0])]);
        let known = graph.known(&"x".into());
        assert!(known.unset.has(0) && !known.set.has(0));
        assert!(known.unset.has(1) && !known.set.has(1));
    }

    #[test]
    fn a_long_chain_costs_no_more_than_its_routes() {
        let count = 20_000;
        let states: Vec<Vec<usize>> = (0..count).map(|at| vec![(at + 1) % count, at]).collect();
        let captures = (0..count).map(|at| Some(EcoString::from(format!("x{at}")))).collect();
        let mut graph = RouteGraph::new(0, states, captures);
        let routes: usize = graph.next.iter().map(Vec::len).sum();
        let known = graph.known(&"x7".into());
        assert!(known.unset.has(7) && !known.unset.has(8) && known.set.has(count - 1));
        // Two walks for a name, however often it is asked about, and two for what was done before.
        for _ in 0..count {
            graph.known(&"x7".into());
            graph.before();
        }
        let looked_at = graph.looked_at.get();
        assert!(looked_at <= 5 * routes, "{looked_at} of {routes} routes were looked at");
    }

    #[test]
    fn the_middle_of_a_long_way_is_left_out() {
        let names: Vec<EcoString> = (0..20).map(|at| EcoString::from(format!("s{at}"))).collect();
        let way: Vec<usize> = (0..20).collect();
        assert_eq!(shown(&way[..3], &names), "s0 → s1 → s2");
        assert_eq!(shown(&way, &names), "s0 → s1 → s2 → s3 → … → s16 → s17 → s18 → s19");
    }
}
