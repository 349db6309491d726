//! Journals as they are stored: simulated ones come back unchanged and are the same bytes for the same seed, and those
//! that were kept in `journals/` are still understood.
//!
//! A kept journal is a workflow `NAME.yaml` and its events `NAME.jsonl`. Those of a released version never change;
//! `THREADLINE_UPDATE=1` writes those that are not there.

#![expect(clippy::unwrap_used, reason = "a journal that cannot be read fails the test")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use threadline_engine::event::{Address, Event};
use threadline_engine::machine::{Outcome, Stage};
use threadline_engine::replay::Fold;
use threadline_engine::simulator::{Interrupt, InterruptMoment, Interruption, Kept, Simulation, text};
use threadline_flow::load::load;
use threadline_flow::plan::{Plan, plan};
use threadline_lang::source::SourceFile;
use threadline_lang::value::JsonStyle;
use threadline_lang::{Limits, Value, data};
use threadline_store::wire;

fn planned(path: &Path) -> Arc<Plan> {
    let name = path.file_name().unwrap().to_string_lossy();
    let file = SourceFile::new(&name, std::fs::read(path).unwrap()).unwrap();
    let (workflow, problems) = load(file);
    let (planned, more) = plan(Arc::new(workflow.unwrap_or_else(|| panic!("{problems:#?}"))));
    Arc::new(planned.unwrap_or_else(|| panic!("{more:#?}")))
}

/// The workflows of a folder.
fn workflows(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "yaml")).collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

/// A line of JSON for each event.
fn encode(journal: &[Event]) -> String {
    let mut lines = String::new();
    for event in journal {
        let (kind, payload) = wire::encode(&event.kind);
        let payload = data::json::read_value(&payload, &Limits::DEFAULT).unwrap();
        let line = Value::list(vec![
            Value::from(i64::try_from(event.seq).unwrap()),
            Value::from(event.time),
            Value::from(event.at.as_str()),
            Value::from(kind),
            payload,
        ]);
        lines += &line.unwrap().to_json(JsonStyle::Compact);
        lines.push('\n');
    }
    lines
}

fn decode(lines: &str) -> Vec<Event> {
    let event = |line: &str| {
        let line = data::json::read_value(line, &Limits::DEFAULT).unwrap();
        let [seq, time, at, kind, payload] = line.as_list().unwrap() else { panic!("{line}") };
        Event {
            seq: u64::try_from(seq.as_i64().unwrap()).unwrap(),
            time: time.as_i64().unwrap(),
            at: Address::parse(at.as_str().unwrap()).unwrap(),
            kind: wire::decode(kind.as_str().unwrap(), &payload.to_json(JsonStyle::Compact)).unwrap(),
        }
    };
    lines.lines().map(event).collect()
}

fn stage(plan: &Arc<Plan>, journal: &[Event]) -> Stage {
    let mut fold = Fold::new(Arc::clone(plan));
    for event in journal {
        fold.apply(event).unwrap_or_else(|misfit| panic!("{misfit:?}"));
    }
    fold.machine.stage()
}

/// A run with everything that the simulator knows: kills, a stop, a jumping clock, a failure put right.
fn disturbed(plan: &Arc<Plan>, seed: u64) -> Simulation {
    let interruption = |append, how| Interruption { append, moment: InterruptMoment::After, how };
    let interruptions = vec![
        interruption(5 + seed % 7, Interrupt::Kill(Kept::Some)),
        interruption(9, Interrupt::Stop),
        interruption(4 + seed % 3, Interrupt::Cancel),
    ];
    Simulation { interruptions, jumps: true, mend: true, ..Simulation::new(Arc::clone(plan), seed) }
}

#[test]
fn simulated_journals_are_the_same_bytes() {
    for path in workflows("tests/crash") {
        let plan = planned(&path);
        for seed in 1..=20 {
            let simulation = disturbed(&plan, seed);
            let (one, two) = (simulation.run().unwrap(), simulation.run().unwrap());
            let stored = encode(&one.journal);
            assert_eq!(stored, encode(&two.journal), "{}, seed {seed}", path.display());
            let again = decode(&stored);
            assert_eq!(text(&again), text(&one.journal), "{}, seed {seed}", path.display());
            assert_eq!(stage(&plan, &again), Stage::Ended(one.outcome));
        }
    }
}

/// Every kind of event of the journals that are kept here. No agent of theirs calls tools or answers twice.
fn kinds() -> impl Iterator<Item = &'static str> {
    wire::KINDS
        .iter()
        .map(|(kind, _)| *kind)
        .filter(|kind| !matches!(*kind, "defined" | "exchanged" | "call_lost"))
}

fn tells(journal: &str, kind: &str) -> bool {
    journal.contains(&format!("\"{kind}\""))
}

/// Of many journals of a plan the one with the most kinds of events that completed.
fn telling(plan: &Arc<Plan>) -> String {
    let journals = (1..2_000).map(|seed| disturbed(plan, seed).run().unwrap());
    let completed = journals.filter(|report| report.outcome == Outcome::Completed);
    let journals = completed.map(|report| encode(&report.journal));
    journals.max_by_key(|journal| kinds().filter(|kind| tells(journal, kind)).count()).unwrap()
}

#[test]
fn kept_journals_are_understood() {
    let mut all = String::new();
    for path in workflows("tests/journals") {
        let plan = planned(&path);
        let kept = path.with_extension("jsonl");
        if !kept.exists() && std::env::var_os("THREADLINE_UPDATE").is_some() {
            std::fs::write(&kept, telling(&plan)).unwrap();
        }
        let text = std::fs::read_to_string(&kept).unwrap();
        assert_eq!(stage(&plan, &decode(&text)), Stage::Ended(Outcome::Completed), "{}", kept.display());
        all += &text;
    }
    let missing: Vec<&str> = kinds().filter(|kind| !tells(&all, kind)).collect();
    assert!(missing.is_empty(), "no journal has {missing:?}");
}
