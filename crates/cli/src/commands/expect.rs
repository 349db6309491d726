//! `threadline expect`: evaluates expectations against a document, or checks the expectations themselves.

use std::fmt::Write as _;
use std::path::Path;

use anstyle::{AnsiColor, Style};
use threadline_expect::{
    Actual, Evaluation, ExpectationAnswer, ExpectationOutcome, Expectations, FactsError, LoadContext,
    NoJudge, RuleJudge, Rulings, Tree, load,
};
use threadline_lang::source::SourceFile;
use threadline_lang::{Limits, Scope, Session};
use threadline_runner::world::Commands;

use super::file_check::{FileKind, check_files};
use super::{history, print, print_styled, real_world};
use crate::arguments::{CheckFormat, ExpectArguments, OutcomeFormat};
use crate::exit::CommandFailure;
use crate::inputs;
use crate::junit::{TestCase, TestOutcome, TestSuite, TestTrouble, junit};
use crate::prepare::problem_reports;
use crate::report::{self, Report, visible};

/// The maximum number of reasons that are printed for one expectation.
const MAX_CAUSES: usize = 10;

const MET: Style = AnsiColor::Green.on_default();
const UNMET: Style = AnsiColor::Red.on_default();
const NOT_EVALUABLE: Style = AnsiColor::Yellow.on_default();

pub(crate) fn expect(call: &ExpectArguments) -> Result<(), CommandFailure> {
    let Some(actual) = call.actual.as_deref() else {
        let checked = |file: &SourceFile| checked(file, &context(call));
        let what = FileKind { check: &checked, unit: "expectation", units: "expectations" };
        return check_files(
            &call.files,
            if call.json { CheckFormat::Json } else { CheckFormat::Text },
            &what,
        );
    };
    let [path] = &call.files[..] else {
        return Err(CommandFailure::Usage("one file of expectations is checked at a time".to_owned()));
    };
    let stdin = [Some(path.as_path()), Some(actual), call.facts.as_deref(), call.rulings.as_deref()];
    if stdin.iter().flatten().filter(|path| path.as_os_str() == "-").count() > 1 {
        return Err(CommandFailure::Usage("only one of them can be read from stdin".to_owned()));
    }
    let file = inputs::read_source(path)?;
    let (expectations, problems) = load(&file, &context(call));
    let reports = problem_reports(&file, &problems);
    let Some(expectations) = expectations else { return Err(CommandFailure::NotStarted(reports)) };
    report::print_all(&reports);
    let actual = read_actual(call, actual)?;
    let wrong = expectations.wrong_facts(&actual);
    if !wrong.is_empty() {
        return Err(CommandFailure::NotStarted(wrong.into_iter().map(Report::plain).collect()));
    }
    let outcomes = evaluate(call, &expectations, &actual)?;
    match if call.json { OutcomeFormat::Json } else { call.format } {
        OutcomeFormat::Text => print_styled(&text(&outcomes, &actual, call.explain))?,
        OutcomeFormat::Json => print(&json(&outcomes))?,
        OutcomeFormat::Junit => print(&junit(&[suite(file.name(), &outcomes)]))?,
    }
    let met = outcomes.iter().all(|outcome| outcome.answer == ExpectationAnswer::Met);
    if met { Ok(()) } else { Err(CommandFailure::Shown(1)) }
}

fn context(call: &ExpectArguments) -> LoadContext<'static> {
    LoadContext { kind: call.kind.map(Into::into), ..LoadContext::DEFAULT }
}

fn checked(
    file: &SourceFile,
    context: &LoadContext<'_>,
) -> (Option<usize>, Vec<threadline_lang::diag::Diagnostic>) {
    let (expectations, problems) = load(file, context);
    (expectations.map(|expectations| expectations.members().len()), problems)
}

fn read_actual(call: &ExpectArguments, path: &Path) -> Result<Actual, CommandFailure> {
    let file = inputs::read_source(path)?;
    let document = file.read_value(&Limits::DEFAULT).map_err(|error| inputs::unreadable(&file, &error))?;
    let refused = |message: String| CommandFailure::NotStarted(vec![Report::plain(message)]);
    let actual = match call.kind {
        Some(kind) => Actual::new(kind.into(), document),
        None => Actual::detect(document),
    };
    let actual = actual.map_err(|_| refused(format!("{} is nested too deep", file.name())))?;
    let Some(path) = &call.facts else { return Ok(actual) };
    let facts = inputs::read_object(path, "--facts")?;
    actual.with_facts(&facts).map_err(|error| match error {
        FactsError::Differs(name) => {
            let message =
                format!("the fact `{name}` is in {} and in `--facts`, with another value", file.name());
            CommandFailure::Usage(message)
        }
        FactsError::NotAnObject | FactsError::TooLarge => refused("the facts are too large".to_owned()),
    })
}

fn evaluate(
    call: &ExpectArguments,
    expectations: &Expectations,
    actual: &Actual,
) -> Result<Vec<ExpectationOutcome>, CommandFailure> {
    let mut judge: Box<dyn RuleJudge> = match &call.rulings {
        Some(path) => {
            let rulings = inputs::read_object(path, "--rulings")?;
            let rulings = Rulings::read(&rulings).map_err(|why| {
                CommandFailure::NotStarted(vec![Report::plain(format!("{}: {why}", path.display()))])
            })?;
            Box::new(rulings)
        }
        None => Box::new(NoJudge),
    };
    let project = history::project(None)?;
    let mut world = real_world(&project, Commands::Refused("an expectation runs no commands"));
    let (mut session, scope) = (Session::new(&mut world), Scope::new());
    let mut evaluation = Evaluation::new(actual, &scope, &mut session, &mut *judge);
    Ok(evaluation.explain_all(expectations))
}

// ---- for people -----------------------------------------------------------------------------------------

fn text(outcomes: &[ExpectationOutcome], actual: &Actual, explain: bool) -> String {
    let mut out = String::new();
    for outcome in outcomes {
        let style = style(Some(outcome.answer));
        let _ = writeln!(out, "{style}{:<13}{style:#}  {}", outcome.answer.words(), visible(&outcome.name));
        if explain {
            out.push_str(&tree_text(&outcome.tree));
        } else if outcome.answer != ExpectationAnswer::Met {
            let causes = outcome.tree.causes();
            for cause in causes.iter().take(MAX_CAUSES) {
                let _ = writeln!(out, "  {}", visible(&cause.reason));
            }
            if let Some(more @ 1..) = causes.len().checked_sub(MAX_CAUSES) {
                let _ = writeln!(out, "  and {more} more; `--explain` shows every one");
            }
        }
    }
    let _ = writeln!(out, "{}", summary(outcomes));
    if let Some(hint) = taken_for(outcomes, actual) {
        let _ = writeln!(out, "note: {hint}");
    }
    out
}

/// The number of each answer, and of expectations that were met only because nothing was asked.
fn summary(outcomes: &[ExpectationOutcome]) -> String {
    let count =
        |answer: ExpectationAnswer| outcomes.iter().filter(|outcome| outcome.answer == answer).count();
    let all = outcomes.len();
    let mut parts = vec![format!("{} met", count(ExpectationAnswer::Met))];
    for answer in [ExpectationAnswer::Unmet, ExpectationAnswer::NotEvaluable] {
        if count(answer) > 0 {
            parts.push(format!("{} {}", count(answer), answer.words()));
        }
    }
    let vacuous = outcomes
        .iter()
        .filter(|outcome| outcome.answer == ExpectationAnswer::Met && outcome.tree.vacuous() > 0)
        .count();
    if vacuous > 0 {
        parts.push(format!("{vacuous} partly vacuous"));
    }
    format!("{all} expectation{}: {}", if all == 1 { "" } else { "s" }, parts.join(", "))
}

/// Why a document was not taken for an answer where one was expected.
fn taken_for(outcomes: &[ExpectationOutcome], actual: &Actual) -> Option<String> {
    let roots: Vec<&str> = actual.kind().roots().collect();
    let foreign = |tree: &Tree| {
        let root = tree.path.split(['.', '[']).next().unwrap_or_default();
        tree.answer == Some(ExpectationAnswer::NotEvaluable) && !root.is_empty() && !roots.contains(&root)
    };
    let any = outcomes.iter().any(|outcome| outcome.tree.lines().iter().any(|(_, tree)| foreign(tree)));
    any.then(|| {
        format!(
            "the document was taken as {}, with {}; `--as` says what it is",
            actual.kind().with_article(),
            roots.join(", ")
        )
    })
}

fn style(answer: Option<ExpectationAnswer>) -> Style {
    match answer {
        Some(ExpectationAnswer::Met) => MET,
        Some(ExpectationAnswer::Unmet) => UNMET,
        Some(ExpectationAnswer::NotEvaluable) => NOT_EVALUABLE,
        None => Style::new().dimmed(),
    }
}

/// Every line of a tree, with the answers in colours.
fn tree_text(tree: &Tree) -> String {
    let mut out = String::new();
    for (depth, line) in tree.lines() {
        let style = style(line.answer);
        let answer = line.answer.map_or("-", ExpectationAnswer::words);
        let what =
            if matches!(line.operator.as_str(), "" | "step") { &line.path } else { line.operator.as_str() };
        let colon = if what.is_empty() { "" } else { ": " };
        let reason = visible(&line.reason);
        let below = "  ".repeat(depth);
        let _ = writeln!(out, "  {below}{style}{answer}{style:#} {}{colon}{reason}", visible(what));
    }
    out
}

// ---- for programs ---------------------------------------------------------------------------------------

fn json(outcomes: &[ExpectationOutcome]) -> String {
    let mut out = String::from("[");
    for (at, outcome) in outcomes.iter().enumerate() {
        out.push_str(if at > 0 { ",\n " } else { "\n " });
        outcome.write_json(&mut out);
    }
    out.push_str("\n]\n");
    out
}

/// The outcomes of a file as cases of a suite.
fn suite(file: &str, outcomes: &[ExpectationOutcome]) -> TestSuite {
    let case = |outcome: &ExpectationOutcome| {
        let trouble = || TestTrouble { message: outcome.reason.clone(), text: outcome.tree.to_string() };
        let answer = match outcome.answer {
            ExpectationAnswer::Met => TestOutcome::Passed,
            ExpectationAnswer::Unmet => TestOutcome::Failed(trouble()),
            ExpectationAnswer::NotEvaluable => TestOutcome::Errored(trouble()),
        };
        TestCase { name: outcome.name.to_string(), time: None, outcome: answer, output: String::new() }
    };
    TestSuite { name: file.to_owned(), properties: Vec::new(), cases: outcomes.iter().map(case).collect() }
}
