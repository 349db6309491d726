//! Loops, made of a seed, and what each comes to, told without events.
//!
//! It shares no code with the machine; where the two disagree, one of them is wrong.

use std::collections::BTreeMap;
use std::fmt::Write;

use ecow::EcoString;
use threadline_engine::event::{Address, LoopReason, Status};
use threadline_engine::machine::Outcome;
use threadline_engine::random::Random;
use threadline_engine::simulator::chance::{Fate, Fated};
use threadline_flow::model::{Action, Loop, Setting, Shape, Step, Terminal};
use threadline_flow::plan::{Plan, Read};

/// The text of a loop. Each state leads on to the next one when it goes well, so every one is reached and the
/// last ends it.
pub(crate) fn workflow(seed: u64) -> String {
    let mut random = Random::new(seed ^ 0x10_0b5);
    let count = 1 + random.below(5);
    let mut text = String::from("agents: {judge: {command: [judge]}}\ninitial: s0\n");
    let limits: [(&str, u64, u64); 4] =
        [("max_steps", 1, 12), ("max_iterations", 1, 5), ("max_edge_revisits", 0, 2), ("max_stall", 2, 3)];
    let mut limited = false;
    for (key, least, more) in limits {
        // Without `max_iterations` and `max_steps` the default holds.
        if random.percent(40) {
            limited |= key == "max_iterations";
            let _ = writeln!(text, "{key}: {}", least + random.below(more));
        }
    }
    if limited && random.percent(30) {
        text.push_str("maintain: true\n");
    }
    if random.percent(40) {
        let pause = ["1ms", "2s", "1h"][usize::try_from(random.below(3)).unwrap_or(0)];
        let _ = writeln!(text, "backoff: {pause}");
    }
    // Bits that decide nothing else: the rest of the loop is the same with these lists and without.
    for (part, percent) in [("on_failure", 60), ("on_success", 40), ("finally", 40)] {
        let bits = Random::new(seed ^ part.len() as u64).number();
        if bits % 100 < percent {
            let _ = writeln!(text, "{part}: [{{argv: [work, '${{run.status}}'], continue_on_error: true}}]");
        }
    }
    text.push_str("states:\n");
    let mut bad = false;
    for state in 0..count {
        let _ = writeln!(text, "  s{state}:");
        // What is read has to be captured somewhere.
        let capture = match state {
            0 => Some("one"),
            _ if state + 1 == count => Some("two"),
            _ => None,
        };
        let names: &[&str] = if count > 1 { &["one", "two"] } else { &["one"] };
        action(&mut random, &mut text, capture, state == 0, names);
        let next = if state + 1 == count { "done".to_owned() } else { format!("s{}", state + 1) };
        let _ = writeln!(text, "    on_yes: {next}");
        let target = |random: &mut Random, bad: &mut bool| match random.below(4) {
            0 => "self".to_owned(),
            1 if random.percent(30) => {
                *bad = true;
                "bad".to_owned()
            }
            1 => "done".to_owned(),
            _ => format!("s{}", random.below(count)),
        };
        let no = target(&mut random, &mut bad);
        let _ = writeln!(text, "    on_no: {no}");
        // Without a route for it the state fails, and the run.
        let mut follows_itself = no == "self" || no == format!("s{state}");
        if random.percent(60) {
            let to = target(&mut random, &mut bad);
            follows_itself |= to == "self" || to == format!("s{state}");
            let _ = writeln!(text, "    on_error: {to}");
        }
        if follows_itself && random.percent(50) {
            let _ = writeln!(text, "    max_retries: {}", random.below(3));
            if random.percent(70) {
                let to = loop {
                    let to = target(&mut random, &mut bad);
                    if to != "self" && to != format!("s{state}") {
                        break to;
                    }
                };
                let _ = writeln!(text, "    on_retry_exhausted: {to}");
            }
        }
    }
    text.push_str("  done: {terminal: true}\n");
    if bad {
        text.push_str("  bad: {terminal: failure}\n");
    }
    text
}

fn action(random: &mut Random, text: &mut String, capture: Option<&str>, is_first: bool, names: &[&str]) {
    if capture.is_none() && random.percent(30) {
        text.push_str("    evaluate: {type: expression, expression: \"prev.verdict == 'yes'\"}\n");
        return;
    }
    let mut read = String::new();
    for name in names {
        // What this iteration captured can be read behind the first state, which captures it.
        if *name == "one" && !is_first && random.percent(40) {
            let _ = write!(read, "${{captured.{name} | default(0)}} ");
        }
        if random.percent(25) {
            let _ = write!(read, "${{captured.{name}.previous.value | default(0)}} ");
        }
    }
    if random.percent(40) {
        read.push_str("${prev.verdict | default(0)} ${state.iteration}");
    }
    let _ = writeln!(text, "    argv: [work, '{read}']");
    // Bits that decide nothing else: the rest of the loop is the same with a judge and without.
    if random.clone().number() / 100 % 10 < 3 {
        text.push_str("    evaluate: {type: agent, agent: judge, prompt: is it done}\n");
    }
    if random.percent(25) {
        let _ = writeln!(text, "    retry: {{attempts: 2, delay: 1s}}");
    }
    let capture = capture.or_else(|| random.percent(40).then_some("one"));
    if let Some(capture) = capture {
        let _ = writeln!(text, "    capture: {capture}");
    }
}

/// What came of a loop.
#[derive(Debug, PartialEq)]
pub(crate) struct Came {
    pub(crate) outcome: Outcome,
    pub(crate) ended: Option<(LoopReason, EcoString, Option<u64>)>,
    pub(crate) names: BTreeMap<EcoString, i64>,
    pub(crate) results: BTreeMap<Address, (Status, i64)>,
    /// Each visit with its verdict and where it led, in order.
    pub(crate) visits: Vec<(Address, EcoString, Option<EcoString>)>,
}

/// Walks a loop to its end; so often goes on when it stopped or failed, each time with other luck, and at
/// last with everything put right.
pub(crate) fn expect(plan: &Plan, fate: Fate, mend: Option<u32>) -> Came {
    let Shape::Loop(of) = &plan.workflow.shape else { panic!("no loop") };
    let initial = plan.lists[0].position(&of.initial.value).unwrap_or(0);
    let mut walk = Walk { plan, of, fate, ..Walk::begin(plan, of, fate) };
    let mut at = At::Enter(initial);
    loop {
        at = match at {
            At::Enter(position) => walk.enter(position),
            At::Visit(position) => walk.visit(position),
            At::Over { outcome, again } => {
                let tries = mend.unwrap_or(0);
                if mend.is_none() || walk.fate.mended || outcome == Outcome::Completed {
                    return walk.came(outcome);
                }
                walk.fate.luck += 1;
                walk.fate.mended = walk.fate.luck > tries;
                match again {
                    Some(at) => {
                        walk.ended = None;
                        walk.spent = Spent::default();
                        if let Some(before) = walk.before.take() {
                            (walk.captured, walk.earlier, walk.prev) = before;
                        }
                        *at
                    }
                    // What ended it ends it again.
                    None => At::Over { outcome, again: None },
                }
            }
        };
    }
}

enum At {
    Enter(usize),
    Visit(usize),
    Over {
        outcome: Outcome,
        /// Where it goes on.
        again: Option<Box<At>>,
    },
}

#[derive(Default)]
struct Spent {
    steps: u64,
    iterations: u64,
    edges: BTreeMap<(usize, usize), u64>,
    streaks: BTreeMap<usize, (u64, u64)>,
}

type Captures = BTreeMap<EcoString, i64>;

/// What the last state that did something left, and its verdict.
type Prev = Option<(i64, EcoString)>;

struct Walk<'p> {
    plan: &'p Plan,
    of: &'p Loop,
    fate: Fate,
    spent: Spent,
    iteration: u64,
    in_a_row: u64,
    visits: BTreeMap<usize, u64>,
    /// Attempts of the visit so far.
    attempts: u32,
    captured: Captures,
    earlier: Captures,
    prev: Prev,
    /// What a state that led nowhere saw.
    before: Option<(Captures, Captures, Prev)>,
    results: BTreeMap<Address, (Status, i64)>,
    came: Vec<(Address, EcoString, Option<EcoString>)>,
    ended: Option<(LoopReason, EcoString, Option<u64>)>,
}

const FAILED: i64 = -1;

impl<'p> Walk<'p> {
    fn begin(plan: &'p Plan, of: &'p Loop, fate: Fate) -> Self {
        Self {
            plan,
            of,
            fate,
            spent: Spent::default(),
            iteration: 0,
            in_a_row: 0,
            visits: BTreeMap::new(),
            attempts: 0,
            captured: BTreeMap::new(),
            earlier: BTreeMap::new(),
            prev: None,
            before: None,
            results: BTreeMap::new(),
            came: Vec::new(),
            ended: None,
        }
    }

    fn came(self, outcome: Outcome) -> Came {
        let Self { captured: names, results, came: visits, ended, .. } = self;
        Came { outcome, ended, names, results, visits }
    }

    fn name(&self, position: usize) -> EcoString {
        self.plan.lists[0].word(position)
    }

    fn step(&self, position: usize) -> &'p Step {
        &self.plan.steps[self.plan.lists[0].steps[position] as usize].step
    }

    fn enter(&mut self, position: usize) -> At {
        self.spent.steps += 1;
        *self.visits.entry(position).or_default() += 1;
        self.attempts = 0;
        if self.name(position) == self.of.initial.value {
            self.iteration += 1;
            self.spent.iterations += 1;
            self.earlier.append(&mut self.captured);
        }
        At::Visit(position)
    }

    /// What the fields of a state read.
    fn reads(&self, position: usize, prev: Option<&(i64, EcoString)>) -> Vec<i64> {
        let reads = &self.plan.steps[self.plan.lists[0].steps[position] as usize].reads;
        let wants = |name: &EcoString| {
            reads.iter().any(|read| matches!(read, Read::Captured(known) if known == name))
        };
        let captured = reads.iter().filter_map(|read| match read {
            Read::Captured(name) => self.captured.get(name).copied(),
            _ => None,
        });
        let prev = prev.filter(|_| reads.contains(&Read::Prev));
        let earlier = self.earlier.iter().filter(|(name, _)| wants(name)).map(|(_, value)| *value);
        let state = [self.iteration, self.in_a_row].map(|number| i64::try_from(number).unwrap_or(0));
        let verdict = prev.map(|(_, verdict)| i64::try_from(verdict.len()).unwrap_or(0));
        let values = captured.chain(prev.map(|(value, _)| *value)).chain(earlier);
        values.chain(state).chain(verdict).collect()
    }

    /// A state acts, is judged, and leads on.
    fn visit(&mut self, position: usize) -> At {
        let step = self.step(position);
        let visit = self.visits.get(&position).copied().unwrap_or(0);
        let at = Address::root().child(&self.plan.lists[0], position).at_visit(visit);
        let fated = Fated::new(&at, |_| 0);
        let before = (self.captured.clone(), self.earlier.clone());
        let prev = self.prev.clone();
        let acts = !matches!(step.action, Action::Nothing);
        let mut left = None;
        if acts {
            let value = self.value(position, step, &fated);
            left = Some(value.unwrap_or(FAILED));
            let status = if value.is_some() { Status::Completed } else { Status::Failed };
            self.results.insert(at.clone(), (status, left.unwrap_or(FAILED)));
            if let (Some(capture), Some(left)) = (&step.capture, left)
                && let Some(replaced) = self.captured.insert(capture.value.clone(), left)
            {
                self.earlier.insert(capture.value.clone(), replaced);
            }
        }
        let verdict: EcoString = match left {
            Some(FAILED) => "error".into(),
            _ => self.fate.verdict(&fated, &self.reads(position, prev.as_ref())).into(),
        };
        let Some(state) = &step.state else { panic!("no state") };
        let to = self.route(position, &verdict);
        let leads_on = if state.terminal.is_some() { verdict != "error" } else { to.is_some() };
        match left {
            Some(left) => self.prev = Some((left, verdict.clone())),
            // One that did nothing leaves its verdict.
            None if leads_on => self.prev = Some((0, verdict.clone())),
            None => {}
        }
        self.came.push((at.clone(), verdict.clone(), to.map(|to| self.name(to))));
        match (state.terminal, to) {
            (Some(_), _) if verdict == "error" => {}
            (Some(terminal), _) => return self.terminal(position, terminal),
            (None, Some(to)) => return self.go_on(position, to, self.fate.fingerprint(&fated)),
            (None, None) => {}
        }
        // When it is done again it sees what it saw.
        self.before = Some((before.0, before.1, prev));
        At::Over { outcome: Outcome::Failed, again: Some(Box::new(At::Visit(position))) }
    }

    fn value(&mut self, position: usize, step: &Step, at: &Fated) -> Option<i64> {
        if !self.fate.evaluates(at, "fields") {
            return None;
        }
        let most = step.retry.as_ref().and_then(|retry| fixed(&retry.attempts)).unwrap_or(1);
        for _ in 0..most {
            self.attempts += 1;
            if self.fate.well(at, self.attempts) {
                return Some(self.fate.value(at, &self.reads(position, self.prev.as_ref())));
            }
        }
        None
    }

    fn route(&self, position: usize, verdict: &str) -> Option<usize> {
        let state = self.step(position).state.as_ref()?;
        let routes = &state.routes;
        let target = match verdict {
            "error" => routes.error.as_ref(),
            verdict => {
                let on = routes.on.iter().find(|(known, _)| known == verdict).map(|(_, target)| target);
                on.or(routes.otherwise.as_ref())
            }
        };
        let found = |name: &EcoString| {
            if name == "self" { Some(position) } else { self.plan.lists[0].position(name) }
        };
        let to = target.and_then(|target| found(&target.value));
        let exhausted = state.max_retries.is_some_and(|most| self.in_a_row >= most);
        if to == Some(position) && exhausted {
            return routes.exhausted.as_ref().and_then(|target| found(&target.value));
        }
        to
    }

    fn terminal(&mut self, position: usize, terminal: Terminal) -> At {
        let state = self.name(position);
        let most = self.of.max_iterations.as_ref().and_then(fixed);
        let mut ended = (LoopReason::Terminal, state, None);
        if self.of.maintain && terminal == Terminal::Success {
            let Some(most) = most.filter(|most| self.spent.iterations >= *most) else {
                let initial = self.plan.lists[0].position(&self.of.initial.value).unwrap_or(0);
                return self.unless_spent(initial);
            };
            ended = (LoopReason::MaxIterations, ended.1, Some(most));
        }
        self.ended = Some(ended);
        let well = terminal == Terminal::Success;
        At::Over { outcome: if well { Outcome::Completed } else { Outcome::Failed }, again: None }
    }

    fn go_on(&mut self, from: usize, to: usize, fingerprint: u64) -> At {
        let taken = self.spent.edges.entry((from, to)).or_default();
        *taken += 1;
        let again = *taken - 1;
        let streak = self.spent.streaks.entry(from).or_insert((fingerprint, 0));
        *streak = if streak.0 == fingerprint { (fingerprint, streak.1 + 1) } else { (fingerprint, 1) };
        let judged = self.plan.steps[self.plan.lists[0].steps[from] as usize].step.is_judged();
        let in_a_row = if judged { streak.1 } else { 0 };
        self.in_a_row = if from == to { self.in_a_row + 1 } else { 0 };
        if let Some(most) = self.of.max_stall.as_ref().and_then(fixed).filter(|most| in_a_row >= *most) {
            return self.stop(to, LoopReason::MaxStall, most);
        }
        if let Some(most) = self.of.max_edge_revisits.as_ref().and_then(fixed).filter(|most| again > *most) {
            return self.stop(to, LoopReason::MaxEdgeRevisits, most);
        }
        self.unless_spent(to)
    }

    fn unless_spent(&mut self, to: usize) -> At {
        let most = self.of.max_iterations.as_ref().and_then(fixed);
        let is_initial = self.name(to) == self.of.initial.value;
        if let Some(most) = most.filter(|most| is_initial && self.spent.iterations >= *most) {
            return self.stop(to, LoopReason::MaxIterations, most);
        }
        let steps = self.of.max_steps.as_ref().and_then(fixed).unwrap_or(50 * most.unwrap_or(1));
        if self.spent.steps >= steps {
            return self.stop(to, LoopReason::MaxSteps, steps);
        }
        At::Enter(to)
    }

    fn stop(&mut self, to: usize, reason: LoopReason, limit: u64) -> At {
        self.ended = Some((reason, self.name(to), Some(limit)));
        At::Over { outcome: Outcome::Stopped, again: Some(Box::new(At::Enter(to))) }
    }
}

fn fixed<T: Copy>(setting: &Setting<T>) -> Option<T> {
    setting.known()
}
