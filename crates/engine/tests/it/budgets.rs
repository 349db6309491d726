//! Budgets, in runs that are killed, stopped and resumed anywhere: what is spent exceeds a limit by no more than what
//! was in flight when it was reached, the sums are exact, and a run that is given more comes to the same end.

#![expect(clippy::unwrap_used, reason = "a workflow that cannot be read fails the test")]

use std::sync::Arc;

use threadline_engine::event::{Address, Budget, BudgetChange, Event, EventKind};
use threadline_engine::machine::Outcome;
use threadline_engine::random::Random;
use threadline_engine::replay::output_of;
use threadline_engine::simulator::chance::{Chances, MAX_MODEL_TOKENS, MAX_TOKENS};
use threadline_engine::simulator::{
    AskedMessage, Interrupt, InterruptMoment, Interruption, Kept, Simulation, SimulationReport, text,
};
use threadline_engine::spend::Spend;
use threadline_flow::fields::FailureKind;
use threadline_flow::load::load;
use threadline_flow::plan::{Plan, plan};
use threadline_lang::Number;
use threadline_lang::source::SourceFile;

fn planned(source: &str) -> Arc<Plan> {
    let file = SourceFile::new("budget.yaml", source.as_bytes().to_vec()).unwrap();
    let (workflow, problems) = load(file);
    let (planned, found) = plan(Arc::new(workflow.unwrap_or_else(|| panic!("{problems:#?}"))));
    let errors: Vec<_> = problems.iter().chain(&found).filter(|problem| problem.is_error()).collect();
    assert!(errors.is_empty(), "{errors:#?}\n{source}");
    Arc::new(planned.unwrap())
}

/// A program that says what it uses, and a model behind an API whose answers break off.
const PROGRAM: &str = "{command: [work]}";
const MODEL: &str = "{provider: openai, base_url: 'http://localhost', model: m, max_tokens: 40, price: {input: 3, \
                     output: 15}}";

/// A budget with one limit, which `most` messages may reach, or none.
fn budget(random: &mut Random, most: u64, is_model: bool) -> String {
    let tokens = if is_model { MAX_MODEL_TOKENS } else { MAX_TOKENS / 2 };
    // In millionths of a dollar.
    let cost = if is_model { 400 } else { 10_000 };
    match random.below(5) {
        0 => format!("budget: {{turns: {}}}", 1 + random.below(most)),
        1 => format!("budget: {{tokens: {}}}", 1 + random.below(most * tokens)),
        2 => format!("budget: {{cost: 0.{:06}}}", (1 + random.below(most * cost)).min(999_999)),
        3 => format!("budget: {{time: {}ms}}", 1 + random.below(most * 1_500)),
        _ => "# no budget".to_owned(),
    }
}

/// A list whose items ask agents, with budgets of the run, of the list and of its steps, or some of them.
fn source(random: &mut Random, is_model: bool) -> String {
    let mut budget = |most: u64| budget(random, most, is_model);
    let (of_run, of_list, of_step) = (budget(20), budget(12), budget(3));
    let (parallel, retry) = (1 + random.below(5), 1 + random.below(3));
    let form = ["", "\n        output: {n: int}"][usize::from(random.percent(60))];
    let agent = if is_model { MODEL } else { PROGRAM };
    // Most runs come to the end that they have without a crash.
    let on_crash = if is_model && random.percent(80) { "\n        on_crash: rerun" } else { "" };
    format!(
        "agents: {{a: {agent}}}\n{of_run}\nsteps:\n  - foreach: [1]\n    parallel: {parallel}\n    \
         {of_list}\n    do:\n      - agent: a\n        message: ${{item}}\n        retry: {{attempts: {retry}, delay: \
         1s}}\n        {of_step}{form}{on_crash}\n  - {{agent: a, message: again, on_crash: rerun}}\n"
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
        // A call that a crash cut off began before it.
        self.late += u64::from(was_reached && !matches!(event.kind, EventKind::CallLost { .. }));
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

/// What an agent answered says what it used: each message has one token, whether it is of use or not.
fn told(event: &Event) -> Result<(), String> {
    let is_agent = event.at == "2" || event.at.as_str().ends_with("]/1");
    let (EventKind::Finished { output, .. }
    | EventKind::Retrying { output, .. }
    | EventKind::Exchanged { output, .. }) = &event.kind
    else {
        return Ok(());
    };
    let is_answered = !matches!(FailureKind::of_meta(&output.meta), Some(FailureKind::Crash));
    let told = output.spent.as_deref().map_or(0, |spent| spent.output_tokens);
    if is_agent && is_answered && told != 1 {
        return Err(format!("event {} says that an agent wrote {told} tokens, and it wrote 1", event.seq));
    }
    Ok(())
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
        told(event)?;
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

/// A loop whose states ask an agent, and whose judge asks one more.
fn loop_source(random: &mut Random) -> String {
    let (of_run, of_state) = (budget(random, 12, false), budget(random, 3, false));
    format!(
        "agents: {{a: {PROGRAM}}}\n{of_run}\nmax_iterations: 8\ninitial: work\nstates:\n  work:\n    agent: a\n    \
         message: go\n    {of_state}\n    evaluate: {{type: agent, agent: a, prompt: Is it fine?}}\n    on_yes: \
         done\n    on_no: work\n  done: {{terminal: success}}\n"
    )
}

/// What a message really cost, in millionths of a dollar.
fn cost(asked: &AskedMessage, is_model: bool) -> u64 {
    if is_model { 3 * asked.input_tokens + 15 * asked.output_tokens } else { 10_000 }
}

/// How a message ended that an agent was asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MessageEnd {
    /// Somebody heard of it.
    Known,
    /// Nobody did.
    Lost,
    /// The server refused to answer, which costs nothing.
    Refused,
}

/// The event that says what came of a message.
fn end_of(journal: &[Event], asked: &AskedMessage) -> Option<(u64, MessageEnd)> {
    let mut later = journal.iter().filter(|event| event.seq > asked.after && event.at == asked.at);
    later.find_map(|event| {
        let output = output_of(event);
        let is_crash =
            output.is_some_and(|output| FailureKind::of_meta(&output.meta) == Some(FailureKind::Crash));
        let end = match &event.kind {
            EventKind::CallLost { .. } => MessageEnd::Lost,
            _ if event.kind.spent().is_some() && is_crash => MessageEnd::Lost,
            _ if event.kind.spent().is_some() => MessageEnd::Known,
            _ if output.is_some_and(|output| output.meta.get("status_code").is_some()) => MessageEnd::Refused,
            _ => return None,
        };
        Some((event.seq, end))
    })
}

/// No message is asked for once those that are over used up a budget around it: what they really used, and not what the
/// run says. A message whose use nobody can say counts as everything, until somebody gives another budget.
fn check_asked(plan: &Plan, report: &SimulationReport, is_model: bool) -> Result<(), String> {
    let journal = &report.journal;
    let ends: Vec<Option<(u64, MessageEnd)>> =
        report.asked.iter().map(|asked| end_of(journal, asked)).collect();
    if let Some(at) = ends.iter().position(Option::is_none) {
        return Err(format!("no event says what came of {:?}", report.asked[at]));
    }
    let over = |at: &Address, by: u64| {
        let is_end = |event: &&Event| {
            event.at == *at && event.seq <= by && matches!(event.kind, EventKind::Finished { .. })
        };
        journal.iter().filter(is_end).map(|event| event.seq).next_back().unwrap_or(0)
    };
    for (place, asked) in report.asked.iter().enumerate() {
        let around =
            asked.at.items_around().filter_map(|item| Some(item.as_item()?.0)).chain([asked.at.clone()]);
        let scopes = around.filter_map(|at| Some((at.step(plan)?, at)));
        let scopes = scopes.map(|(step, at)| {
            let planned = &plan.steps[step as usize];
            (planned.step.budget.clone(), Some(planned.number.clone()), at)
        });
        for (budget, step, scope) in scopes.chain([(plan.workflow.budget.clone(), None, Address::root())]) {
            let Some(mut budget) = budget else { continue };
            let changes = journal.iter().filter(|event| event.seq <= asked.after).flat_map(|event| {
                let changes: &[BudgetChange] = match &event.kind {
                    EventKind::Resumed { budgets, .. } => budgets,
                    _ => &[],
                };
                changes.iter().map(move |change| (event.seq, change))
            });
            let mut last_change = 0;
            for (seq, change) in changes.filter(|(_, change)| change.step == step) {
                budget.change(&change.budget);
                last_change = seq;
            }
            // What a list or step did before it was done again does not count.
            let since = if step.is_some() { over(&scope, asked.after) } else { 0 };
            let (mut turns, mut tokens, mut dollars, mut time) = (0_u64, 0_u64, 0_u64, 0_u64);
            for (before, end) in report.asked[..place].iter().zip(&ends) {
                let is_within = step.is_none() || before.at == scope || before.at.is_in_items_of(&scope);
                let is_refused = end.is_some_and(|(_, end)| end == MessageEnd::Refused);
                if !is_within || before.after < since || is_refused {
                    continue;
                }
                turns += 1;
                let known = if before.at == asked.at { asked.after } else { asked.admitted };
                let Some((end, how)) = end.filter(|(end, _)| *end <= known) else { continue };
                let is_lost = how == MessageEnd::Lost;
                let is_unknown = is_lost && !is_model;
                if is_unknown && end < last_change {
                    continue;
                }
                let used = before.input_tokens + before.output_tokens;
                tokens = tokens.saturating_add(if is_unknown { u64::MAX } else { used });
                dollars = dollars.saturating_add(if is_unknown { u64::MAX } else { cost(before, is_model) });
                time += if is_lost { 0 } else { before.elapsed_ms };
            }
            let allowed = budget.cost.as_ref().map(|cost| cost.mul(&Number::int(1_000_000)).unwrap());
            let is_used_up = budget.turns.is_some_and(|most| turns >= most)
                || budget.tokens.is_some_and(|most| tokens >= most)
                || allowed
                    .is_some_and(|most| i64::try_from(dollars).is_ok_and(|sum| Number::int(sum) >= most))
                || budget.time.is_some_and(|most| u128::from(time) >= most.as_millis());
            if is_used_up {
                let used = format!("{turns} turns, {tokens} tokens, {dollars} millionths, {time} ms");
                return Err(format!("{asked:?} of `{scope}` begins after {used} of {budget:?}"));
            }
        }
    }
    Ok(())
}

/// A count for each way in which a message can end.
fn count_ends(report: &SimulationReport, counts: &mut [usize; 4]) {
    for event in &report.journal {
        let Some(spent) = event.kind.spent() else { continue };
        let kind = match &event.kind {
            EventKind::CallLost { .. } => 0,
            EventKind::Judged(_) => 1,
            EventKind::Retrying { .. } => 2,
            _ => 3,
        };
        counts[kind] += usize::from(kind != 3 || spent.estimated > 0);
    }
}

#[test]
fn nothing_is_asked_for_once_what_was_really_used_reaches_a_limit() {
    let mut counts = [0; 4];
    let mut reached = 0;
    for seed in 0..300 {
        let mut random = Random::new(seed ^ 0x5eed);
        let is_model = seed % 3 == 0;
        let source = match seed % 3 {
            2 => loop_source(&mut random),
            _ => source(&mut random, is_model),
        };
        let plan = planned(&source);
        let chances = Chances {
            items: 10,
            evaluates: 100,
            holds: 40,
            well: 90,
            well_in_items: 90,
            breaks: 25,
            ..Chances::default()
        };
        let jobs = 1 + usize::try_from(seed % 5).unwrap();
        let simulation = Simulation { jobs, chances, ..Simulation::new(Arc::clone(&plan), seed) };
        let mut appends = 20;
        for life in 0..5 {
            let interruptions = if life == 0 { Vec::new() } else { interruptions(&mut random, appends) };
            let simulation = Simulation { interruptions: interruptions.clone(), ..simulation.clone() };
            let report = simulation
                .run()
                .unwrap_or_else(|violation| panic!("seed {seed}, {interruptions:?}: {violation}\n{source}"));
            if let Err(why) = check_asked(&plan, &report, is_model) {
                panic!("seed {seed}, {interruptions:?}: {why}\n{source}\n{}", text(&report.journal));
            }
            if life == 0 {
                appends = report.appends.iter().sum();
            }
            let pauses = report.journal.iter().filter(|event| matches!(event.kind, EventKind::Paused { .. }));
            reached += pauses.count();
            count_ends(&report, &mut counts);
        }
    }
    println!("lost, judged, retried, broken off for good: {counts:?}; paused {reached} times");
    assert!(counts.iter().all(|count| *count > 30) && reached > 500, "{counts:?}, {reached}");
}

#[test]
fn what_is_spent_exceeds_a_limit_by_no_more_than_what_was_in_flight() {
    let (mut reached, mut crashed, mut completed) = (0, 0, 0);
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let source = source(&mut random, false);
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
