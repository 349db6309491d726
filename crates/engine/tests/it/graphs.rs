//! Random graphs: the machine against a model of a hundred lines, in every order that it allows.
//!
//! A scheduler does what the machine says, one thing at a time and in a random order. However it chooses,
//! every node ends as the model says and for its reason, none begins before what it waits for is over, and
//! none runs twice. A journal that is cut anywhere leads to the same end.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "what cannot be read fails the test")]

mod model;

use std::sync::Arc;

use model::{End, Form, Node};
use threadline_engine::Hash;
use threadline_engine::event::{Address, Datum, Event, EventKind, Output, RunStarted, Status};
use threadline_engine::machine::{Command, InFlight, Machine, Outcome, Stage, Task};
use threadline_engine::random::Random;
use threadline_engine::simulator::chance::{Chances, Fate, Fated};
use threadline_engine::simulator::{
    Interrupt, InterruptMoment, Interruption, Kept, Simulation, SimulationReport,
};
use threadline_flow::load::load;
use threadline_flow::plan::{Plan, plan};
use threadline_flow::problem::Problem;
use threadline_lang::Value;
use threadline_lang::source::SourceFile;

fn planned(source: &str) -> Arc<Plan> {
    let file = SourceFile::new("graph.yaml", source.as_bytes().to_vec()).unwrap();
    let (workflow, mut problems) = load(file);
    let (planned, found) = plan(Arc::new(workflow.expect("a workflow")));
    problems.extend(found);
    problems.retain(Problem::is_error);
    assert!(problems.is_empty(), "{problems:#?}\n{source}");
    Arc::new(planned.expect("a plan"))
}

/// A run under way, and everything that the machine asked for and that is not done.
struct Run<'g> {
    nodes: &'g [Node],
    /// Whether the failures are repaired.
    mended: bool,
    random: Random,
    /// So many run at once.
    jobs: usize,
    machine: Machine,
    journal: Vec<Event>,
    ready: Vec<Command>,
    /// What runs, as it would begin once more after a crash.
    running: Vec<Command>,
    /// How each node ended last, and how often it began.
    ends: Vec<Option<End>>,
    begun: Vec<u32>,
    commands: usize,
}

impl<'g> Run<'g> {
    fn new(plan: &Arc<Plan>, nodes: &'g [Node], seed: u64) -> Self {
        let mut random = Random::new(seed);
        let jobs = 1 + usize::try_from(random.below(8)).unwrap();
        let mut run = Self {
            nodes,
            mended: false,
            random,
            jobs,
            machine: Machine::new(Arc::clone(plan)),
            journal: Vec::new(),
            ready: Vec::new(),
            running: Vec::new(),
            ends: vec![None; nodes.len()],
            begun: vec![0; nodes.len()],
            commands: 0,
        };
        run.record(Address::default(), EventKind::RunStarted(started(plan)));
        run
    }

    /// Goes on with a journal that was cut.
    fn replayed(plan: &Arc<Plan>, nodes: &'g [Node], journal: &[Event], seed: u64) -> Self {
        let mut run = Self::new(plan, nodes, seed);
        for event in &journal[1..] {
            run.mended |= matches!(event.kind, EventKind::Resumed { .. });
            run.note(&event.at, &event.kind);
            run.machine.apply(event).expect("an event that fitted before");
            run.journal.push(event.clone());
        }
        run.ready = run.machine.outstanding(InFlight::default()).unwrap();
        run
    }

    fn record(&mut self, at: Address, what: EventKind) {
        self.note(&at, &what);
        let event = Event { seq: self.machine.last() + 1, time: 0, at, kind: what };
        let commands = self.machine.apply(&event).unwrap_or_else(|misfit| panic!("{misfit:?}"));
        self.commands += commands.len();
        self.ready.extend(commands);
        self.journal.push(event);
    }

    /// The position of a node of the graph; nothing for a step inside one.
    fn node(at: &Address) -> Option<usize> {
        at.position().filter(|_| !at.is_nested())
    }

    /// Keeps how a node ended, and looks whether it may.
    fn note(&mut self, at: &Address, what: &EventKind) {
        let Some(node) = Self::node(at) else { return };
        let (waited, begins) = match what {
            EventKind::Decided { .. } => (true, false),
            EventKind::Started { rerun, .. } => (true, !rerun),
            EventKind::Skipped { output, .. } => {
                let reason = output.meta.get("reason").and_then(Value::as_str).unwrap().to_owned();
                self.ends[node] = Some(End::Skipped(reason));
                (true, false)
            }
            EventKind::Finished { output, .. } => {
                let well = output.status == Status::Completed;
                self.ends[node] = Some(if well { End::Completed } else { End::Failed });
                (true, false)
            }
            _ => (false, false),
        };
        self.begun[node] += u32::from(begins);
        if waited {
            let mut sources = self.nodes[node].sources();
            assert!(sources.all(|source| self.ends[source].is_some()), "n{node} did not wait");
        }
    }

    /// Does one thing of all that may be done. Whether there was any.
    fn step(&mut self) -> bool {
        let all = self.ready.len() + self.running.len();
        if all == 0 {
            return false;
        }
        let chosen = usize::try_from(self.random.below(all as u64)).unwrap();
        let full = self.running.len() >= self.jobs;
        match self.ready.get(chosen) {
            Some(command) if !(full && matches!(command, Command::Start { .. })) => {
                let command = self.ready.swap_remove(chosen);
                self.act(command);
            }
            _ => {
                let command = self.running.swap_remove(chosen % self.running.len());
                self.finish(command.task().expect("what runs has a task"));
            }
        }
        true
    }

    fn act(&mut self, command: Command) {
        match command {
            Command::Decide(task) => {
                let holds = Self::node(&task.at).and_then(|node| self.nodes[node].when).unwrap();
                let (as_of, computed) = (task.as_of, Vec::new());
                let what = if holds {
                    EventKind::Decided { as_of, computed }
                } else {
                    EventKind::Skipped { as_of, computed, output: skipped("`when` is false") }
                };
                self.record(task.at, what);
            }
            Command::Skip { task, reason } => {
                let output = skipped(&reason);
                self.record(task.at, EventKind::Skipped { as_of: task.as_of, computed: Vec::new(), output });
            }
            Command::Start { task, attempt, base, rerun } => {
                let (as_of, computed, fields) = (task.as_of, Vec::new(), Hash::default());
                self.running.push(Command::Start { task: task.clone(), attempt, base, rerun: true });
                self.record(
                    task.at,
                    EventKind::Started { as_of, attempt, rerun, computed, fields, work: None },
                );
            }
            Command::End { outcome, .. } => {
                let exports = Datum::Here(Value::NULL);
                let what =
                    EventKind::RunEnded { outcome, exports, ended: None, failed_items: None, spent: None };
                self.record(Address::default(), what);
            }
            other => panic!("a graph of values does not ask for {other:?}"),
        }
    }

    fn finish(&mut self, task: &Task) {
        let node = Self::node(&task.at).map(|node| &self.nodes[node]);
        let fails = node.is_some_and(|node| node.fails) && !self.mended;
        let status = if fails { Status::Failed } else { Status::Completed };
        let branch = node.and_then(|node| node.gate).filter(|_| !fails);
        let value = branch.map_or(Value::NULL, |branch| one("branch", &branch.to_string()));
        self.record(
            task.at.clone(),
            EventKind::Finished { output: output(status, value, Value::NULL), results: None, kept: None },
        );
    }

    /// Runs to the end.
    fn finished(mut self) -> Self {
        while self.step() {}
        assert!(matches!(self.machine.stage(), Stage::Ended(_)), "it stands still");
        self
    }

    /// A run that failed goes on, with the failures repaired: towards these ends.
    fn resumed(mut self, expected: &[End]) -> Self {
        assert_eq!(self.machine.stage(), Stage::Ended(Outcome::Failed));
        let kept = model::kept(self.nodes, &self.told());
        for (at, end) in self.ends.iter_mut().enumerate() {
            // A node that is skipped again for the same reason may stay so.
            let stays = kept[at].is_some() || end.as_ref() == Some(&expected[at]);
            *end = end.take().filter(|_| stays);
        }
        self.mended = true;
        self.record(
            Address::default(),
            EventKind::Resumed { failed: false, budgets: Vec::new(), jobs: None },
        );
        self.ready = self.machine.outstanding(InFlight::default()).unwrap();
        self
    }

    fn told(&self) -> Vec<End> {
        self.ends.iter().cloned().map(|end| end.expect("every node is over")).collect()
    }

    /// What would be asked for after a crash: what is ready, and what runs once more.
    fn in_hand(&self) -> Vec<String> {
        sorted(self.ready.iter().chain(&self.running).cloned())
    }
}

fn sorted(commands: impl IntoIterator<Item = Command>) -> Vec<String> {
    let mut all: Vec<String> = commands.into_iter().map(|command| format!("{command:?}")).collect();
    all.sort();
    all
}

fn one(key: &str, value: &str) -> Value {
    Value::object([(key.into(), value.into())]).unwrap()
}

fn output(status: Status, value: Value, meta: Value) -> Output {
    Output {
        status,
        value: Datum::Here(value),
        output: None,
        stderr: None,
        meta,
        spent: None,
        thread: None,
        exact: None,
    }
}

fn skipped(reason: &str) -> Output {
    output(Status::Skipped, Value::NULL, one("reason", reason))
}

fn started(plan: &Plan) -> RunStarted {
    RunStarted {
        run: "random".into(),
        workflow: plan.workflow.name.clone(),
        file: "graph.yaml".into(),
        text: Hash::default(),
        inputs: Datum::Here(Value::NULL),
        imports: Datum::Here(Value::NULL),
        imported: Vec::new(),
        payload: Datum::Here(Value::NULL),
        set: Vec::new(),
        trust_set: false,
        folder: "".into(),
        program: "".into(),
        jobs: None,
        budgets: Vec::new(),
        files: Vec::new(),
        caller: None,
        continues: None,
        exchanges: None,
        on: None,
    }
}

/// The graphs that are tried, and the seed of each.
fn graphs(count: u64) -> impl Iterator<Item = (u64, Vec<Node>)> {
    (1..=count).map(|seed| {
        let form =
            [Form::Any, Form::Any, Form::Any, Form::Chain, Form::Wide][usize::try_from(seed % 5).unwrap()];
        let size = 1 + usize::try_from(Random::new(seed).below(40)).unwrap();
        (seed, model::random(seed, size, form))
    })
}

fn check(run: &Run<'_>, expected: &[End], seed: u64) {
    let text = || format!("seed {seed}\n{}\n{:?}", model::text(run.nodes), run.journal);
    assert_eq!(run.told(), expected, "{}", text());
    let failed = model::fails(run.nodes, expected);
    let outcome = if failed { Outcome::Failed } else { Outcome::Completed };
    assert_eq!(run.machine.stage(), Stage::Ended(outcome), "{}", text());
}

#[test]
fn every_order_ends_as_the_model_says() {
    for (seed, nodes) in graphs(2_000) {
        let plan = planned(&model::text(&nodes));
        let expected = model::ends(&nodes, vec![None; nodes.len()]);
        for order in 0..2 {
            let run = Run::new(&plan, &nodes, seed * 100 + order).finished();
            check(&run, &expected, seed);
            let once = expected.iter().map(|end| u32::from(!matches!(end, End::Skipped(_))));
            assert_eq!(run.begun, once.collect::<Vec<_>>(), "seed {seed}");
        }
    }
}

/// How a run ends that goes on after these ends, when nothing fails any more.
fn repaired(nodes: &[Node], first: &[End]) -> Vec<End> {
    let mended: Vec<Node> = nodes.iter().map(|node| Node { fails: false, ..node.clone() }).collect();
    model::ends(&mended, model::kept(nodes, first))
}

#[test]
fn failures_that_are_repaired_end_as_the_model_says() {
    let mut resumed = 0;
    for (seed, nodes) in graphs(1_500) {
        let first = model::ends(&nodes, vec![None; nodes.len()]);
        if !model::fails(&nodes, &first) {
            continue;
        }
        resumed += 1;
        let plan = planned(&model::text(&nodes));
        let expected = repaired(&nodes, &first);
        for order in 0..2 {
            let run = Run::new(&plan, &nodes, seed * 100 + order).finished();
            let run = run.resumed(&expected).finished();
            check(&run, &expected, seed);
            // What had completed did not begin again; what had failed did.
            for (at, end) in first.iter().enumerate() {
                let before = u32::from(!matches!(end, End::Skipped(_)));
                let after = u32::from(!matches!(expected[at], End::Skipped(_)));
                let again = model::kept(&nodes, &first)[at].is_none();
                assert_eq!(run.begun[at], before + if again { after } else { 0 }, "seed {seed}, n{at}");
            }
        }
    }
    assert!(resumed > 300, "only {resumed} graphs failed");
}

/// Runs to the end, then once more from every place where the journal can be cut.
fn cut_everywhere(mut run: Run<'_>, plan: &Arc<Plan>, expected: &[End], seed: u64) {
    let mut in_hand = vec![(run.journal.len(), run.in_hand())];
    while run.step() {
        in_hand.push((run.journal.len(), run.in_hand()));
    }
    for (cut, hand) in in_hand {
        let replayed = Run::replayed(plan, run.nodes, &run.journal[..cut], seed + cut as u64);
        assert_eq!(sorted(replayed.ready.iter().cloned()), hand, "seed {seed} cut after {cut}");
        check(&replayed.finished(), expected, seed);
    }
}

#[test]
fn a_journal_cut_anywhere_leads_to_the_same_end() {
    for (seed, nodes) in graphs(120) {
        let plan = planned(&model::text(&nodes));
        let first = model::ends(&nodes, vec![None; nodes.len()]);
        cut_everywhere(Run::new(&plan, &nodes, seed), &plan, &first, seed);
        if model::fails(&nodes, &first) {
            let expected = repaired(&nodes, &first);
            let run = Run::new(&plan, &nodes, seed).finished().resumed(&expected);
            cut_everywhere(run, &plan, &expected, seed);
        }
    }
}

/// Under the simulator, which also loses what was not on disk and looks at who reads what: wherever it is
/// killed or stopped, a graph ends as it does undisturbed.
#[test]
fn simulated_graphs_survive_kills_at_every_append() {
    let (mut kills, mut compared) = (0, 0);
    for seed in 1..=60_u64 {
        let size = 1 + usize::try_from(seed % 14).unwrap();
        let mut nodes = model::random(seed, size, Form::Any);
        if seed % 3 > 0 {
            for node in &mut nodes {
                node.lists = false;
            }
        }
        let jobs = 1 + usize::try_from(seed % 5).unwrap();
        let mend = seed % 2 == 0;
        let chances = Chances { evaluates: 90, ..Chances::default() };
        let plan = planned(&model::text(&nodes));
        let undisturbed = Simulation { jobs, mend, chances, ..Simulation::new(plan, seed) };
        let expected = undisturbed.run().unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        if nodes.iter().all(|node| !node.lists) {
            let first = model::ends(&fated_nodes(&undisturbed, &nodes), vec![None; nodes.len()]);
            assert_eq!(simulated_ends(&undisturbed.plan, &expected), first, "seed {seed}");
            compared += 1;
        }
        for append in 1..=expected.appends.iter().sum() {
            let crashes = [Interrupt::Kill(Kept::Nothing), Interrupt::PowerLoss(Kept::Nothing)];
            for how in crashes.into_iter().chain([Interrupt::Kill(Kept::All), Interrupt::Stop]) {
                let interruptions = vec![Interruption { append, moment: InterruptMoment::After, how }];
                let report = Simulation { interruptions, ..undisturbed.clone() }.run();
                let report =
                    report.unwrap_or_else(|violation| panic!("seed {seed}, {append}, {how:?}: {violation}"));
                assert_eq!(report.outcome, expected.outcome, "seed {seed}, {append}, {how:?}");
                assert_eq!(report.names, expected.names, "seed {seed}, {append}, {how:?}");
                assert_eq!(report.results, expected.results, "seed {seed}, {append}, {how:?}");
                kills += 1;
            }
        }
    }
    assert!(kills > 1_000, "only {kills} interruptions");
    assert!(compared > 30, "only {compared} graphs");
}

/// The nodes as they end in a simulation, where fate decides what comes of them.
fn fated_nodes(simulation: &Simulation, nodes: &[Node]) -> Vec<Node> {
    let fate = Fate { seed: simulation.seed, chances: simulation.chances, luck: 0, mended: false };
    let fated = |(position, node): (usize, &Node)| {
        let at = Fated::new(&Address::root().child(&simulation.plan.lists[0], position), |_| 0);
        let is_decided = node.when.is_none() || fate.evaluates(&at, "when");
        let fails = !is_decided || !fate.evaluates(&at, "fields") || !fate.well(&at, 1);
        let when = node.when.map(|_| !is_decided || fate.holds(&at));
        Node { fails, when, gate: node.gate.map(|_| fate.holds(&at)), ..node.clone() }
    };
    nodes.iter().enumerate().map(fated).collect()
}

/// How every node ended first, as the journal says.
fn simulated_ends(plan: &Plan, report: &SimulationReport) -> Vec<End> {
    let mut ends = vec![None; plan.lists[0].steps.len()];
    for event in &report.journal {
        let Some(node) = Run::node(&event.at) else { continue };
        let end = match &event.kind {
            EventKind::Skipped { output, .. } => {
                let reason = output.meta.get("reason").and_then(Value::as_str).unwrap();
                // The simulator invents what a condition comes to.
                End::Skipped(reason.replace("fate", "`when` is false"))
            }
            EventKind::Finished { output, .. } | EventKind::Unresolved { output, .. } => {
                let is_well = output.status == Status::Completed;
                if is_well { End::Completed } else { End::Failed }
            }
            _ => continue,
        };
        ends[node].get_or_insert(end);
    }
    ends.into_iter().map(|end| end.expect("every node is over")).collect()
}

/// Ten thousand nodes: so many commands as nodes, and nothing is kept of what is over.
#[test]
fn large_graphs_are_linear() {
    let count = 10_000;
    let behind = |edges: Vec<model::Source>| Node { edges, ..Node::default() };
    let chain =
        (0..count).map(|at: usize| behind(at.checked_sub(1).map(|from| (from, None)).into_iter().collect()));
    let fan = (0..count).map(|at| behind(if at == 0 { Vec::new() } else { vec![(0, None)] }));
    let join = (0..count)
        .map(|at| behind(if at == 0 { (1..count).map(|from| (from, None)).collect() } else { Vec::new() }));
    let mut random = model::random(7, count, Form::Any);
    for node in &mut random {
        (node.fails, node.lists) = (false, false);
    }
    let expected = model::ends(&random, vec![None; count]);
    let well = vec![End::Completed; count];
    let graphs: [(Vec<Node>, &Vec<End>); 4] =
        [(chain.collect(), &well), (fan.collect(), &well), (join.collect(), &well), (random, &expected)];
    for (nodes, expected) in graphs {
        let plan = planned(&model::text(&nodes));
        let run = Run::new(&plan, &nodes, 1).finished();
        assert_eq!(run.told(), *expected);
        let decides = nodes.iter().filter(|node| node.when.is_some()).count();
        assert!(run.commands <= count + decides + 1, "{} commands", run.commands);
        assert_eq!(run.machine.retained_entries(), 2, "the frame and the scope of the run");
    }
}
