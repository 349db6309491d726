//! An attack on the analysis: values go from every source, by every carrier, behind every wrapper, into every sink. What
//! `check` accepts is really run with hostile values, and nothing of them may be executed.
//!
//! The parts are data in `tests/shell/attack/*.txt`. By default a seeded sample of the ways is tried; with
//! `THREADLINE_LONG=1` half a million. A sink whose program is not installed is left out, and named.
#![expect(clippy::print_stdout, reason = "what was tried, what was left out and what ran is to be read")]

mod compose;
mod ground;
mod parts;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use threadline_flow::shell::quoted;

use self::compose::{Drawing, Reading, Way, assemble, carried, direct, is_runnable};
use self::ground::Ground;
use self::parts::{Kind, Parts, Sink};
use super::random::{Random, is_long, seed};
use super::shells::{Shell, installed};

/// What became of a way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Executed,
    RefusedBefore,
    RefusedWhenBound,
    Harmless,
}

struct Attempt {
    title: String,
    outcome: Outcome,
    /// The ids of the problems that refused it.
    ids: Vec<&'static str>,
    /// The script, and the value that was run.
    shown: String,
}

/// Tries a way with every value of its sink.
fn attack(way: &Way<'_>) -> Option<Attempt> {
    let script = way.script()?;
    let (title, step) = (way.title(), script.step(way.shell));
    let checked = step.check(&way.names("x"));
    let mut ids: Vec<&str> = checked.errors().map(|problem| problem.id).collect();
    let shown = || format!("{}env: {:?} {:?}", script.text, script.environment, script.outer);
    if !ids.is_empty() {
        return Some(Attempt { title, outcome: Outcome::RefusedBefore, ids, shown: shown() });
    }
    let mut outcome = Outcome::RefusedWhenBound;
    for value in &way.sink.values {
        match checked.bind(&way.names(value)) {
            Err(refused) => ids.extend(refused),
            Ok(bound) => {
                let ground = Ground::new();
                bound.run_silently(way.shell, ground.path());
                if ground.is_hit() {
                    let shown = format!("{}\nvalue: {value:?}", shown());
                    return Some(Attempt { title, outcome: Outcome::Executed, ids: Vec::new(), shown });
                }
                outcome = Outcome::Harmless;
            }
        }
    }
    Some(Attempt { title, outcome, ids, shown: shown() })
}

/// Calls something for each of many, on all processors.
fn for_each<T: Sync, R: Send>(all: &[T], call: impl Fn(&T) -> Option<R> + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(one) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Some(result) = call(one) {
                        results.lock().unwrap().push(result);
                    }
                }
            });
        }
    });
    results.into_inner().unwrap()
}

/// The ways that are tried: all short ones or a share of them, and longer ones at random.
fn ways<'p>(parts: &'p Parts, sinks: &'p [Sink], count: usize, name: &str) -> Vec<Way<'p>> {
    let mut random = Random::new(seed(name));
    let shells = installed();
    let mut ways = direct(parts, sinks, &shells);
    let mut single: Vec<_> = shells.iter().flat_map(|shell| carried(parts, sinks, *shell)).collect();
    if !is_long() {
        let step = (single.len() / (count / 3)).max(1);
        single = single.into_iter().step_by(step).collect();
    }
    ways.extend(single);
    ways.retain(|way| way.script().is_some());
    let drawing = Drawing::new(parts, sinks, shells);
    let mut seen: BTreeSet<String> = ways.iter().map(Way::title).collect();
    while ways.len() < count {
        if let Some(way) = drawing.draw(&mut random, if is_long() { 3 } else { 2 })
            && way.script().is_some()
            && seen.insert(way.title())
        {
            ways.push(way);
        }
    }
    ways
}

fn report(attempts: &[Attempt]) -> String {
    let mut counts: BTreeMap<(Outcome, &str), usize> = BTreeMap::new();
    for attempt in attempts {
        *counts.entry((attempt.outcome, attempt.ids.first().copied().unwrap_or(""))).or_default() += 1;
    }
    let mut out = format!("{} ways\n", attempts.len());
    for ((outcome, id), count) in counts {
        writeln!(out, "{count:7} {outcome:?} {id}").unwrap();
    }
    out
}

fn name_missing(parts: &Parts) {
    for sink in parts.sinks.iter().filter(|sink| !is_runnable(sink)) {
        println!("left out, for want of {:?}: {}", sink.programs, sink.id);
    }
}

#[test]
fn nothing_of_a_value_is_executed() {
    let parts = Parts::read();
    name_missing(&parts);
    let count = if is_long() { 500_000 } else { 20_000 };
    let ways = ways(&parts, &parts.sinks, count, "attack");
    let mut attempts = for_each(&ways, attack);
    attempts.sort_by(|a, b| a.title.cmp(&b.title));
    println!("{}", report(&attempts));
    let executed: Vec<String> = attempts
        .iter()
        .filter(|attempt| attempt.outcome == Outcome::Executed)
        .map(|attempt| format!("executed: {}\n{}\n", attempt.title, attempt.shown))
        .collect();
    assert!(executed.is_empty(), "{} of {}\n{}", executed.len(), attempts.len(), executed.join("\n"));
}

/// The same ways into places that run nothing are not refused.
#[test]
fn harmless_places_are_accepted() {
    let parts = Parts::read();
    let count = if is_long() { 50_000 } else { 5_000 };
    let ways = ways(&parts, &parts.harmless, count, "harmless");
    let refused = for_each(&ways, |way| {
        let script = way.script()?;
        let checked = script.step(way.shell).check(&way.names("x"));
        // Where a list may become several words is another question.
        let errors = checked.errors().filter(|problem| problem.id != "shell-words");
        let said: Vec<String> =
            errors.map(|problem| format!("{}: {}", problem.id, problem.message)).collect();
        (!said.is_empty()).then(|| format!("refused: {}\n{}{}\n", way.title(), script.text, said.join("\n")))
    });
    assert!(refused.is_empty(), "{} of {}\n{}", refused.len(), ways.len(), refused.join("\n"));
}

/// Every sink runs one of its values at least, if these come from a variable that nobody looks at.
#[test]
fn every_sink_runs_its_values() {
    let parts = Parts::read();
    let plain = &parts.wrappers[0];
    let pairs: Vec<(&Sink, Shell)> = parts
        .sinks
        .iter()
        .filter(|sink| is_runnable(sink))
        .flat_map(|sink| installed().into_iter().map(move |shell| (sink, shell)))
        .filter(|(sink, shell)| sink.shells.has(shell.name))
        .collect();
    let failures = for_each(&pairs, |(sink, shell)| {
        // A program that another thread holds open while it starts a shell cannot be run, so it is tried again.
        let hits = sink.values.iter().cycle().take(3 * sink.values.len()).any(|value| {
            let ground = Ground::new();
            let mut environment = vec![("GIVEN".to_owned(), value.clone())];
            if let Some(name) = &sink.variable {
                environment.push((name.clone(), value.clone()));
            }
            std::fs::write(ground.path().join("given.txt"), format!("{value}\n")).unwrap();
            let text = match sink.kind {
                Kind::Text => assemble(Reading::of("\"$GIVEN\"", Some("$GIVEN")), &[], plain, sink),
                Kind::File => assemble(Reading::of("./given.txt", Some("./given.txt")), &[], plain, sink),
                Kind::Input => assemble(Reading::of("", Some("")), &[], plain, sink)
                    .map(|text| format!("{{\n{text}}} < given.txt\n")),
            };
            ground.run(*shell, &text.unwrap(), &environment);
            ground.is_hit()
        });
        (!hits).then(|| format!("{} in {}: {}", sink.id, shell.name, sink.text))
    });
    assert!(failures.is_empty(), "{} sinks run nothing\n{}", failures.len(), failures.join("\n"));
}

/// Every carrier takes a value along as it is, and every wrapper runs what is behind it.
#[test]
fn every_carrier_carries() {
    const VALUE: &str = "a[$(>hit)]";
    let parts = Parts::read();
    let plain = &parts.wrappers[0];
    let sink = |kind| {
        let text = match kind {
            Kind::Text => "printf '%s\\n' {w} > arrived",
            Kind::File => "cat {w} > arrived",
            Kind::Input => "cat > arrived",
        };
        Sink {
            id: String::new(),
            shells: parts::ShellNames::default(),
            kind,
            programs: Vec::new(),
            values: Vec::new(),
            text: text.to_owned(),
            variable: None,
        }
    };
    let mut failures = Vec::new();
    for shell in installed() {
        for carrier in parts.carriers.iter().filter(|carrier| carrier.shells.has(shell.name)) {
            let ground = Ground::new();
            std::fs::write(ground.path().join("given.txt"), format!("{VALUE}\n")).unwrap();
            let from = match carrier.from {
                Kind::Text => format!("GIVEN={}\n", quoted(VALUE)),
                Kind::File | Kind::Input => String::new(),
            };
            let reading = match carrier.from {
                Kind::Text => Reading::of("\"$GIVEN\"", Some("$GIVEN")),
                Kind::File | Kind::Input => Reading::of("./given.txt", Some("./given.txt")),
            };
            let mut text = assemble(reading, &[carrier], plain, &sink(carrier.to)).unwrap();
            if carrier.from == Kind::Input {
                text = format!("{{\n{text}}} < given.txt\n");
            }
            ground.run(shell, &format!("{from}{text}"), &[]);
            let arrived = std::fs::read_to_string(ground.path().join("arrived")).unwrap_or_default();
            if !arrived.lines().any(|line| line == VALUE) || ground.is_hit() {
                failures.push(format!("{} in {}: {arrived:?}\n{text}", carrier.id, shell.name));
            }
        }
        for wrapper in parts.wrappers.iter().filter(|wrapper| wrapper.shells.has(shell.name)) {
            let ground = Ground::new();
            let program = Sink { text: "@@ ./pwn".to_owned(), ..sink(Kind::Text) };
            ground.run(shell, &assemble(Reading::of("", None), &[], wrapper, &program).unwrap(), &[]);
            if !ground.is_hit() {
                failures.push(format!("{} in {}", wrapper.id, shell.name));
            }
        }
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
}
