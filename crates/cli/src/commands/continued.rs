//! `threadline resume --edited` and `threadline rerun`: a new run that keeps results of an earlier one.
//!
//! What is kept and what runs again is printed first, and confirmed. The earlier run stays as it is.

use std::collections::BTreeMap;
use std::io::{BufRead, IsTerminal, Write};
use std::mem::discriminant;
use std::sync::Arc;

use ecow::EcoString;
use threadline_engine::Hash;
use threadline_engine::event::{Address, EventKind, RemoteService, RerunTarget, RunStarted};
use threadline_engine::execute::has_worktrees;
use threadline_engine::machine::{Command, InFlight};
use threadline_flow::model::{InputError, SCENARIOS, ScenarioSelection};
use threadline_flow::plan::Plan;
use threadline_inspect::target::ExplainTarget;
use threadline_lang::diag::words;
use threadline_lang::value::JsonStyle;
use threadline_lang::{PathStep, Value, parse_path};
use threadline_runner::driver;
use threadline_runner::earlier::EarlierRun;
use threadline_runner::forecast::{self, ContinuationForecast};
use threadline_runner::process;
use threadline_runner::reload::{self, ImportedExports};
use threadline_runner::trust::StoreUse;
use threadline_store::{Journal, NewRun, RunId, Store};

use super::MAX_REPORTS;
use super::ci_report;
use super::history::{History, cannot_start, of_journal, of_store, project, store_of, time_text};
use super::launch::Signals;
use super::run::{
    GRACE, RunLaunch, check_printed, exchange_files, new_id, of_drive, path_of, refuse_called,
    refuse_recorded_secrets, return_to, secret_reading, take_lease,
};
use super::{forecast_text, print, print_styled, surroundings_of};
use crate::arguments::{ConfirmArguments, InFlightDecision, RerunArguments, ResumeArguments, WatchArguments};
use crate::exit::CommandFailure;
use crate::inputs;
use crate::prepare::{input_problem, plan_file_with, read_imports};
use crate::progress::Progress;
use crate::report::{self, Report, ReportSource};
use crate::stats;

/// How the user asks for a run to be continued.
struct ContinueCall<'c> {
    run: &'c str,
    dir: Option<&'c std::path::Path>,
    in_flight: Option<InFlightDecision>,
    budget: &'c [String],
    confirm: &'c ConfirmArguments,
    watch: &'c WatchArguments,
}

/// What the new run is made of.
struct NextText {
    plan: Arc<Plan>,
    inputs: Value,
    imports: ImportedExports,
    from: Vec<RerunTarget>,
}

pub(crate) fn resume_edited(call: &ResumeArguments) -> Result<(), CommandFailure> {
    let ResumeArguments { dir, in_flight, budget, confirm, watch, run, .. } = call;
    let call = ContinueCall { run, dir: dir.as_deref(), in_flight: *in_flight, budget, confirm, watch };
    continue_run(&call, edited_text)
}

pub(crate) fn rerun(call: &RerunArguments) -> Result<(), CommandFailure> {
    let RerunArguments { dir, from, in_flight, confirm, watch, run } = call;
    let call = ContinueCall { run, dir: dir.as_deref(), in_flight: *in_flight, budget: &[], confirm, watch };
    continue_run(&call, |history, _| same_text(history, from))
}

/// The text of the file as it is now, if the run can be continued with it.
fn edited_text(history: &History<'_>, folder: &std::path::Path) -> Result<NextText, CommandFailure> {
    let (id, started) = (&history.info.id, &history.started);
    let mut targets = None;
    for (_, value) in started.set.iter().filter(|(path, _)| path == SCENARIOS) {
        let selection = ScenarioSelection::of_value(&history.load(value)?);
        targets = selection.and_then(|selection| selection.targets).map(|name| path_of(&name, folder));
    }
    let file = inputs::read_scenarios(&path_of(&started.file, folder), targets.as_deref())?;
    let (plan, problems) = plan_file_with(&file, |workflow| {
        for (path, value) in &started.set {
            let value = history.load(value)?;
            let steps = parse_path(path).map_err(|why| cannot_start(&why))?;
            if steps.first().and_then(PathStep::name).is_some_and(|root| root == SCENARIOS) {
                workflow.take_setting(&steps, &value, started.trust_set);
                continue;
            }
            let set = workflow.set_context(steps.get(1..).unwrap_or_default(), &value, started.trust_set);
            set.map_err(|_| {
                let message =
                    format!("run `{id}` was started with `--set {path}=...`, and the file has no such place");
                CommandFailure::NotStarted(vec![Report::with_hint(message, &start_anew(history))])
            })?;
        }
        Ok(())
    })?;
    let source = ReportSource::of(&file);
    let reports: Vec<Report> =
        problems.iter().take(MAX_REPORTS).map(|problem| Report::problem(source, problem)).collect();
    let Some(plan) = plan else { return Err(CommandFailure::NotStarted(reports)) };
    report::print_all(&reports);
    if discriminant(&plan.workflow.shape) != discriminant(&history.plan.workflow.shape) {
        let (now, then) = (shape_name(&plan), shape_name(&history.plan));
        let message = format!("`{}` is {now} now, and run `{id}` is {then}", file.name());
        return Err(CommandFailure::NotStarted(vec![Report::with_hint(message, &start_anew(history))]));
    }
    let texts = |plan: &Plan| -> BTreeMap<EcoString, Hash> {
        let hash = |text: &str| Hash::of(text.as_bytes());
        let others = plan.other_files().into_iter().map(|(name, file)| (name, hash(file.own_text())));
        others.chain([(EcoString::new(), hash(plan.workflow.file.own_text()))]).collect()
    };
    if texts(&plan) == texts(&history.plan) {
        let message = format!("`{}` has not changed since run `{id}` began", file.name());
        let hint = format!(
            "`threadline resume {id}` continues it; `threadline rerun {id} --from STEP` runs a step again"
        );
        return Err(CommandFailure::NotStarted(vec![Report::with_hint(message, &hint)]));
    }
    let inputs = next_inputs(history, &plan)?;
    let runs: Vec<String> = started
        .imported
        .iter()
        .filter(|(name, _)| plan.workflow.imports.iter().any(|import| import.name == *name))
        .map(|(name, run)| format!("{name}={run}"))
        .collect();
    let imports = read_imports(&plan.workflow, &runs, history.reader)?;
    Ok(NextText { plan: Arc::new(plan), inputs, imports, from: Vec::new() })
}

/// The text that the run has.
fn same_text(history: &History<'_>, from: &[String]) -> Result<NextText, CommandFailure> {
    let plan = &history.plan;
    let mut targets = Vec::new();
    for name in from {
        let found = ExplainTarget::named(history, name)?;
        if let Some(field) = &found.field {
            let message =
                format!("`--from {name}` names the field `{field}`, and only a whole step runs again");
            return Err(CommandFailure::Usage(message));
        }
        targets.extend(found.rerun(plan));
    }
    let imports =
        ImportedExports { values: history.names.imports.clone(), runs: history.started.imported.clone() };
    Ok(NextText { plan: Arc::clone(plan), inputs: history.names.inputs.clone(), imports, from: targets })
}

/// The inputs of the run, as the file declares them now. What was a default is the new default.
fn next_inputs(history: &History<'_>, plan: &Plan) -> Result<Value, CommandFailure> {
    let then = |name: &str| history.plan.workflow.inputs.iter().find(|input| input.name == *name);
    let entries = history.names.inputs.as_object().into_iter().flat_map(|inputs| inputs.iter());
    let mut given: Vec<(EcoString, Value)> =
        entries.map(|(name, value)| (name.name().clone(), value.clone())).collect();
    given.retain(|(name, value)| then(name).and_then(|input| input.default.as_ref()) != Some(value));
    let declared = |name: &str| plan.workflow.inputs.iter().any(|input| input.name == *name);
    for (name, _) in given.iter().filter(|(name, _)| !declared(name)) {
        report::print_note(&format!("the file does not declare the input `{name}` any more; it is left out"));
    }
    given.retain(|(name, _)| declared(name));
    plan.workflow.inputs_of(&given).map_err(|errors| {
        let problem = |error: &InputError| match error {
            InputError::Missing { name, .. } => {
                let message = format!(
                    "the file requires an input `{name}`, which run `{}` was not given",
                    history.info.id
                );
                Report::with_hint(
                    message,
                    &format!("declare a default for `{name}`, or {}", start_anew(history)),
                )
            }
            error => Report::with_hint(input_problem(error), &start_anew(history)),
        };
        CommandFailure::NotStarted(errors.iter().map(problem).collect())
    })
}

fn start_anew(history: &History<'_>) -> String {
    format!("`threadline run {}` starts anew", history.started.file)
}

fn shape_name(plan: &Plan) -> &'static str {
    if plan.states.is_some() {
        "a loop"
    } else if plan.is_map_reduce() {
        "a map-reduce"
    } else if plan.lists[0].graph.is_some() {
        "a graph"
    } else {
        "a list of steps"
    }
}

fn continue_run(
    call: &ContinueCall<'_>,
    next: impl FnOnce(&History<'_>, &std::path::Path) -> Result<NextText, CommandFailure>,
) -> Result<(), CommandFailure> {
    ci_report::check_folder(call.watch)?;
    let found = project(call.dir)?;
    let store = store_of(&found, StoreUse::Resume, call.watch.trust_store)?;
    let store = Store::open(&store).map_err(|error| of_store(&error))?;
    process::belong_to(store.identity().map_err(|error| of_store(&error))?);
    let history = History::open(store.reader(), call.run)?;
    refuse_called(&history)?;
    let folder = return_to(&found, &history.started, &history.plan)?;
    let NextText { plan, inputs, imports, from } = next(&history, folder.here())?;
    let project = return_to(&found, &history.started, &plan)?;
    // Nobody else drives the earlier run as long as this one keeps its results.
    let _earlier_lease = take_lease(&store, &history.info.id)?;
    // Nothing is under way in a run that is over, and only a loop says how far it came.
    let is_read = history.info.last_kind != "run_ended" || history.plan.states.is_some();
    let fold = is_read.then(|| history.each(|_, _| Ok(()))).transpose()?;
    if let Some(fold) = &fold {
        refuse_in_flight(call, &history, &fold.machine.outstanding(InFlight::default()).unwrap_or_default())?;
    }
    let machine = fold.as_ref().map(|fold| &fold.machine);
    let mut continued = reload::continued(&history.info, &history.started, machine, from);
    continued.keeps_commits = has_worktrees(&plan);
    let mut started = RunStarted {
        continues: Some(continued),
        ..RunStarted::bare(EcoString::new(), plan.workflow.name.clone())
    };
    let names = reload::names(store.reader(), &history.info, &started).map_err(|error| of_journal(&error))?;
    let names = threadline_engine::view::RunNames {
        inputs,
        imports: imports.values,
        payload: history.names.payload.clone(),
        ..names
    };
    let earlier = EarlierRun::open(store.reader(), &history.info.id, &plan);
    let mut earlier = earlier.map_err(|error| of_drive(&error))?;
    let look = |earlier: &EarlierRun<'_>, started: &RunStarted| {
        forecast::forecast(earlier, &plan, &names, started, &project, &store.spool_folder())
            .map_err(|error| of_drive(&error))
    };
    let mut forecast = look(&earlier, &started)?;
    if let Some(continued) = started.continues.as_mut().filter(|continued| continued.keeps_commits) {
        // The branch of the earlier run has what all its items committed, so it is used only if all are kept.
        if forecast.kept_items_of_map(&plan) == earlier.merged_items() {
            earlier.keep_commits();
        } else {
            continued.keeps_commits = false;
            forecast = look(&earlier, &started)?;
        }
    }
    if !confirmed(call, &history, &plan, &forecast)? {
        return Ok(());
    }
    let mode = history.started.exchanges.clone();
    let surroundings = Arc::new(surroundings_of(&plan, &project, secret_reading(mode.as_ref()))?);
    let set: Result<Vec<(EcoString, Value)>, CommandFailure> =
        history.started.set.iter().map(|(path, value)| Ok((path.clone(), history.load(value)?))).collect();
    refuse_recorded_secrets(&surroundings, &plan, &names, &set?)?;
    let workplace = super::elsewhere::workplace(history.started.on.as_ref(), &plan, &project)?;
    process::end_left_over(history.info.id.as_str(), GRACE);

    let id = new_id();
    let run = RunId::new(&id).map_err(|error| of_store(&error))?;
    let new = NewRun {
        id: run,
        name: plan.workflow.name.to_string(),
        file: plan.workflow.file.name().to_owned(),
        started_at: time_text(jiff::Timestamp::now().as_millisecond()),
    };
    let signals = Signals::listen(call.watch);
    let mut watch = call.watch.clone();
    watch.jobs = watch.jobs.or(history.started.jobs.and_then(|jobs| usize::try_from(jobs).ok()));
    let _holding = signals.take(&store, &new.id, &plan, &names, &project, &watch)?;
    let lease = store.create_run(new).map_err(|error| of_store(&error))?;
    let text = |text: &str| store.put_text(text).map_err(|error| of_store(&error));
    let datum = |value: &Value| store.datum(value).map_err(|error| of_store(&error));
    let mut files = Vec::new();
    for (name, file) in plan.other_files() {
        files.push((name, text(file.own_text())?));
    }
    // What somebody allowed the run as a whole holds for what continues it, too.
    let mut budgets = history.started.budgets.clone();
    budgets.retain(|change| change.step.is_none());
    budgets.extend(super::budget::changes(&plan, call.budget)?);
    started = RunStarted {
        run: id.as_str().into(),
        file: plan.workflow.file.name().into(),
        text: text(plan.workflow.file.own_text())?,
        inputs: datum(&names.inputs)?,
        imports: datum(&names.imports)?,
        imported: imports.runs,
        payload: datum(&names.payload)?,
        set: history.started.set.clone(),
        trust_set: history.started.trust_set,
        folder: history.started.folder.clone(),
        program: env!("CARGO_PKG_VERSION").into(),
        jobs: watch.jobs.map(|jobs| jobs as u64),
        budgets,
        files,
        exchanges: mode,
        // Its journal is only here: what it keeps of the other run is in no segment of its own.
        on: history.started.on.clone().map(|on| RemoteService { replicated: false, ..on }),
        ..started
    };
    let exchanges = exchange_files(started.exchanges.as_ref(), &project);
    let launch = RunLaunch {
        journal: Journal::new(&store, lease),
        project: &project,
        plan,
        names,
        surroundings,
        signals,
        watch: &watch,
        in_flight: None,
        earlier: Some(earlier),
        exchanges,
        workplace,
        watcher: None,
        progress: Progress::default(),
    };
    let driven = launch.drive(|setup| driver::begin(setup, EventKind::RunStarted(started)));
    if watch.stats {
        stats::print(&store);
    }
    let reported = ci_report::write(store.reader(), &id, &watch);
    check_printed(driven.conclude(&store, &id, watch.json).and(reported))
}

/// A step that may not run twice, and was running when Threadline was killed, needs a decision.
fn refuse_in_flight(
    call: &ContinueCall<'_>,
    history: &History<'_>,
    outstanding: &[Command],
) -> Result<(), CommandFailure> {
    let id = &history.info.id;
    let in_doubt: Vec<&Address> = outstanding
        .iter()
        .filter(|command| matches!(command, Command::FailAfterCrash(_) | Command::Ask(_)))
        .filter_map(|command| command.task().map(|task| &task.at))
        .collect();
    match call.in_flight {
        Some(InFlightDecision::Fail) => Err(CommandFailure::Usage(format!(
            "`--in-flight fail` records a failure, which `threadline resume {id} --in-flight fail` does"
        ))),
        None if !in_doubt.is_empty() => {
            let labels = words::code_list(&in_doubt, "and");
            report::print_note(&format!(
                "{labels} was running when Threadline was killed and may not run twice (`on_crash`); \
                 `--in-flight rerun` runs it again, `threadline resume {id} --in-flight fail` records that it failed"
            ));
            Err(CommandFailure::Shown(4))
        }
        _ => Ok(()),
    }
}

/// Prints what is kept and what runs again, and asks. False when nothing more is wanted.
fn confirmed(
    call: &ContinueCall<'_>,
    history: &History<'_>,
    plan: &Plan,
    forecast: &ContinuationForecast,
) -> Result<bool, CommandFailure> {
    let id = history.info.id.as_str();
    let ConfirmArguments { dry_run, yes } = *call.confirm;
    if call.watch.json {
        if !yes {
            let value = forecast_text::json(id, plan, forecast);
            print(&format!("{}\n", value.to_json(JsonStyle::Compact)))?;
        }
    } else {
        print_styled(&forecast_text::text(id, plan, forecast))?;
    }
    if dry_run {
        return Ok(false);
    }
    if yes {
        return Ok(true);
    }
    if call.watch.json || !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        if !call.watch.json {
            report::print_note("nothing was run: `--yes` goes on without asking");
        }
        return Err(CommandFailure::Shown(4));
    }
    let mut stdout = std::io::stdout();
    let asked = write!(stdout, "go on? [y/N] ").and_then(|()| stdout.flush());
    let mut answer = String::new();
    let answered = asked.and_then(|()| std::io::stdin().lock().read_line(&mut answer));
    match answered {
        Ok(_) if matches!(answer.trim(), "y" | "Y" | "yes") => Ok(true),
        _ => {
            report::print_note("nothing was run");
            Err(CommandFailure::Shown(4))
        }
    }
}
