//! Budgets, in runs that are killed, stopped and resumed anywhere: what is spent exceeds a limit by no more than what
//! was in flight when it was reached, the sums are exact, and a run that is given more comes to the same end.

#![expect(clippy::unwrap_used, reason = "a workflow that cannot be read fails the test")]

use std::sync::Arc;

use threadline_engine::event::{Address, Budget, BudgetChange, Event, EventKind};
use threadline_engine::machine::Outcome;
use threadline_engine::random::Random;
use threadline_engine::simulator::chance::{Chances, MAX_TOKENS};
use threadline_engine::simulator::{
    Interrupt, InterruptMoment, Interruption, Kept, Simulation, SimulationReport, text,
};
use threadline_engine::spend::Spend;
use threadline_flow::load::load;
use threadline_flow::plan::{Plan, plan};
use threadline_lang::source::SourceFile;

fn planned(source: &str) -> Arc<Plan> {
    let file = SourceFile::new("budget.yaml", source.as_bytes().to_vec()).unwrap();
    let (workflow, problems) = load(file);
    let (planned, found) = plan(Arc::new(workflow.unwrap_or_else(|| panic!("{problems:#?}"))));
    let errors: Vec<_> = problems.iter().chain(&found).filter(|problem| problem.is_error()).collect();
    assert!(errors.is_empty(), "{errors:#?}\n{source}");
    Arc::new(planned.unwrap())
}

/// A list whose items ask agents, with budgets of the run, of the list and of its steps, or some of them.
fn source(random: &mut Random) -> String {
    let mut budget = |most: u64| match random.below(3) {
        0 => format!("budget: {{turns: {}}}", 1 + random.below(most)),
        1 => format!("budget: {{tokens: {}}}", 1 + random.below(most * MAX_TOKENS / 2)),
        _ => "# no budget".to_owned(),
    };
    let (of_run, of_list, of_step) = (budget(20), budget(12), budget(3));
    let (parallel, retry) = (1 + random.below(5), 1 + random.below(3));
    let form = ["", "\n        output: {n: int}"][usize::from(random.percent(60))];
    format!(
        "agents: {{a: {{command: [work]}}}}\n{of_run}\nsteps:\n  - foreach: [1]\n    parallel: {parallel}\n    \
         {of_list}\n    do:\n      - agent: a\n        message: ${{item}}\n        retry: {{attempts: {retry}, delay: \
         1s}}\n        {of_step}{form}\n  - {{agent: a, message: again}}\n"
    )
}

fn interruptions(random: &mut Random, appends: u64) -> Vec<Interruption> {
    (0..random.below(4))
        .map(|_| {
            let kept = [Kept::Nothing, Kept::Some, Kept::All][usize::try_from(random.below(3)).unwrap()];
            let how = match random.below(4) {
                0 => Interrupt::Kill(kept),
                1 => Interrupt::PowerLoss(kept),
                2 => Interrupt::Stop,
                _ => Interrupt::Cancel,
            };
            let moment = if random.percent(50) { InterruptMoment::Before } else { InterruptMoment::After };
            Interruption { append: 1 + random.below(appends.max(1)), moment, how }
        })
        .collect()
}

/// A budget of some executions, followed through a journal.
struct Followed {
    budget: Budget,
    /// The number of the step whose budget it is.
    step: Option<String>,
    /// Which executions it is about.
    within: Box<dyn Fn(&Address) -> bool>,
    spent: Spend,
    /// The number of calls that ended since a limit was reached.
    late: u64,
}

impl Followed {
    fn take(&mut self, event: &Event, jobs: usize) -> Result<(), String> {
        let changes: &[BudgetChange] = match &event.kind {
            EventKind::Resumed { budgets, .. } => budgets,
            _ => &[],
        };
        for change in changes.iter().filter(|change| change.step.as_deref() == self.step.as_deref()) {
            self.budget.change(&change.budget);
            self.late = 0;
        }
        let Some(spent) = event.kind.spent().filter(|_| (self.within)(&event.at)) else { return Ok(()) };
        let (turns, tokens) = (self.budget.turns, self.budget.tokens);
        let was_reached = turns.is_some_and(|most| self.spent.turns >= most)
            || tokens.is_some_and(|most| self.spent.tokens() >= most);
        self.late += u64::from(was_reached);
        self.spent.add(spent);
        if turns.is_some_and(|most| self.spent.turns > most) {
            return Err(format!("{} turns of {turns:?} at event {}", self.spent.turns, event.seq));
        }
        // The call that reached it was one of those in flight.
        if self.late >= jobs as u64 {
            return Err(format!(
                "{} calls began after the limit was reached, at event {}",
                self.late, event.seq
            ));
        }
        Ok(())
    }
}

/// What the journal says, without asking the machine.
fn check(plan: &Plan, report: &SimulationReport, jobs: usize) -> Result<(), String> {
    let mut followed: Vec<Followed> = Vec::new();
    let mut follow = |budget: Option<&Budget>, step: Option<&str>, within: Box<dyn Fn(&Address) -> bool>| {
        if let Some(budget) = budget {
            let (budget, step) = (budget.clone(), step.map(str::to_owned));
            followed.push(Followed { budget, step, within, spent: Spend::default(), late: 0 });
        }
    };
    follow(plan.workflow.budget.as_ref(), None, Box::new(|_| true));
    let list = Address::parse("1").unwrap();
    follow(plan.steps[0].step.budget.as_ref(), Some("1"), Box::new(move |at| at.is_in_items_of(&list)));
    let mut sum = Spend::default();
    for event in &report.journal {
        for followed in &mut followed {
            followed.take(event, jobs)?;
        }
        if let Some(spent) = event.kind.spent() {
            sum.add(spent);
        }
        // A list that failed and is done again begins with nothing spent.
        if event.at.as_str() == "1" && matches!(event.kind, EventKind::Finished { .. }) {
            for followed in followed.iter_mut().filter(|followed| followed.step.is_some()) {
                (followed.spent, followed.late) = (Spend::default(), 0);
            }
        }
        if let EventKind::Paused { spent, .. } | EventKind::RunEnded { spent, .. } = &event.kind {
            let said = spent.as_deref().cloned().unwrap_or_default();
            if said != sum {
                return Err(format!("event {} says {said:?}, and {sum:?} is spent", event.seq));
            }
        }
    }
    Ok(())
}

#[test]
fn what_is_spent_exceeds_a_limit_by_no_more_than_what_was_in_flight() {
    let (mut reached, mut crashed, mut completed) = (0, 0, 0);
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let source = source(&mut random);
        let plan = planned(&source);
        let jobs = 1 + usize::try_from(seed % 5).unwrap();
        let chances =
            Chances { items: 12, evaluates: 100, well: 97, well_in_items: 97, ..Chances::default() };
        let simulation = Simulation { jobs, chances, ..Simulation::new(Arc::clone(&plan), seed) };
        let run = |interruptions: Vec<Interruption>| {
            let simulation = Simulation { interruptions: interruptions.clone(), ..simulation.clone() };
            let report = simulation
                .run()
                .unwrap_or_else(|violation| panic!("seed {seed}, {interruptions:?}: {violation}\n{source}"));
            if let Err(why) = check(&plan, &report, jobs) {
                panic!("seed {seed}, {interruptions:?}: {why}\n{source}\n{}", text(&report.journal));
            }
            report
        };
        let whole = run(Vec::new());
        reached +=
            whole.journal.iter().filter(|event| matches!(event.kind, EventKind::Paused { .. })).count();
        let appends = whole.appends.iter().sum();
        for _ in 0..4 {
            let interruptions = interruptions(&mut random, appends);
            crashed += interruptions.len();
            let report = run(interruptions);
            // Which items a failure leaves undone depends on how fast they are.
            if whole.outcome == Outcome::Completed {
                let same = (report.outcome, &report.results) == (whole.outcome, &whole.results);
                assert!(same, "seed {seed}\n{source}\n{}", text(&report.journal));
                completed += 1;
            }
        }
    }
    // What is never reached proves nothing.
    let seen = (reached > 200, crashed > 1_000, completed > 400);
    assert_eq!(
        seen,
        (true, true, true),
        "{reached} times reached, {crashed} lives interrupted, {completed} compared"
    );
}
