//! A run continued with an edited file, against an oracle: random workflows, random edits. What comes of it is what
//! a fresh run of the edited file comes to, and what runs is exactly what had not run with the same fields, and what
//! reads that. Killed behind every event, it comes to the same, and nothing but what was in flight runs twice.

mod generate;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use generate::{Form, PureWorkflow};
use threadline_engine::event::{Datum, EventKind};
use threadline_engine::random::Random;
use threadline_lang::value::JsonStyle;
use threadline_store::{FOLDER, JournalReader, RunInfo};

use super::{Place, Until};
use crate::support::{is_long, seed};

/// What is left of runs.
struct Outcome {
    /// What each execution left, of the newest run.
    values: BTreeMap<String, String>,
    status: String,
}

/// What was tried.
#[derive(Debug, Default)]
struct Tally {
    edits: usize,
    kept: usize,
    again: usize,
    kills: usize,
    /// Lines of what was in flight at a kill, and ran again.
    repeated: usize,
    /// The sorts of steps that there were.
    sorts: BTreeSet<&'static str>,
}

/// A place with the files of a workflow, which are in a repository where items work in worktrees.
fn place_of(name: &str, workflow: &PureWorkflow) -> Place {
    let place = Place::new(name, "");
    write(&place, workflow);
    if workflow.form == Form::Worktrees {
        std::fs::write(place.file(".gitignore"), ".threadline\neffects\n").unwrap();
        for arguments in [
            &["init", "-q", "-b", "main", "."][..],
            &["config", "user.name", "Ada"],
            &["config", "user.email", "ada@example.com"],
            &["add", "-A"],
            &["commit", "-q", "-m", "begin"],
        ] {
            let done = Command::new("git").args(arguments).current_dir(&place.folder).status().unwrap();
            assert!(done.success(), "git {arguments:?}");
        }
    }
    place
}

fn write(place: &Place, workflow: &PureWorkflow) {
    for (name, text) in workflow.files() {
        std::fs::write(place.file(&name), text).unwrap();
    }
}

/// The newest run that somebody started, and not a run.
fn newest(reader: &JournalReader) -> RunInfo {
    let is_own = |run: &RunInfo| run.events > 0 && !run.id.as_str().contains('-');
    reader.runs().unwrap().into_iter().rfind(is_own).unwrap()
}

fn reader(place: &Place) -> JournalReader {
    JournalReader::open(&place.folder.join(FOLDER)).unwrap()
}

fn outcome(place: &Place) -> Outcome {
    let reader = reader(place);
    let run = newest(&reader);
    let mut values = BTreeMap::new();
    for event in reader.events(&run.id, 1).unwrap() {
        let event = event.unwrap();
        let value = match &event.kind {
            EventKind::Finished { output, results, .. } if results.is_none() => {
                reader.load(&output.value).unwrap()
            }
            EventKind::ItemEnded(ended) => reader.load(&ended.value).unwrap(),
            EventKind::Expanded {
                items: threadline_engine::event::Listed::Whole(Datum::Here(list)), ..
            } => list.clone(),
            _ => continue,
        };
        // What a phase leaves holds the same values once more.
        values.insert(event.at.to_string(), value.to_json(JsonStyle::Compact));
    }
    Outcome { values, status: run.status }
}

/// How many steps of a run, and of all that it calls, had begun and not ended. A step that calls a run is none.
fn in_flight(place: &Place, run: &RunInfo) -> usize {
    let reader = reader(place);
    let (mut open, mut calls) = (0, 0);
    for of in reader.runs().unwrap() {
        let is_called = of.id.as_str().starts_with(&format!("{}-", run.id));
        if of.events == 0 || !is_called && of.id != run.id {
            continue;
        }
        let mut begun = BTreeSet::new();
        let mut is_over = false;
        for event in reader.events(&of.id, 1).unwrap() {
            let event = event.unwrap();
            match &event.kind {
                EventKind::Started { .. } => drop(begun.insert(event.at.to_string())),
                EventKind::Finished { .. } | EventKind::Retrying { .. } => {
                    begun.remove(&event.at.to_string());
                }
                EventKind::RunEnded { .. } => is_over = true,
                _ => {}
            }
        }
        open += begun.len();
        calls += usize::from(is_called && !is_over);
    }
    open.saturating_sub(calls)
}

fn effects(place: &Place) -> Vec<String> {
    let lines = std::fs::read_to_string(place.file("effects")).unwrap_or_default();
    lines.lines().map(str::to_owned).collect()
}

/// Each line as often as it stands in `all` and not in `without`.
fn difference(all: &[String], without: &[String]) -> Vec<String> {
    let mut left = without.to_vec();
    let mut rest = Vec::new();
    for line in all {
        match left.iter().position(|known| known == line) {
            Some(at) => drop(left.swap_remove(at)),
            None => rest.push(line.clone()),
        }
    }
    rest.sort();
    rest
}

/// The lines of what has to run when a workflow goes on as it is edited, after a run that left `then`, where a fresh
/// run leaves `fresh`.
fn needed(before: &PureWorkflow, then: &[String], fresh: &[String]) -> Vec<String> {
    let mut kept: Vec<String> = then.iter().filter(|line| !before.fails(line)).cloned().collect();
    match before.form {
        // From the first state on that is another one, all are.
        Form::Loop => {
            let same = kept.iter().zip(fresh).take_while(|(then, now)| then == now).count();
            let mut rest = fresh[same..].to_vec();
            rest.sort();
            return rest;
        }
        // What items committed is kept as a whole or not at all.
        Form::Worktrees => {
            let of_map = format!("s{} m ", before.steps[0].id);
            let merged: Vec<String> = kept.iter().filter(|line| line.starts_with(&of_map)).cloned().collect();
            if !difference(&merged, fresh).is_empty() {
                kept.retain(|line| !line.starts_with(&of_map));
            }
        }
        Form::List | Form::Graph | Form::MapReduce => {}
    }
    difference(fresh, &kept)
}

fn why(number: u64, before: &PureWorkflow, after: &PureWorkflow) -> String {
    let text = |workflow: &PureWorkflow| {
        let files = workflow.files();
        files.iter().map(|(name, text)| format!("-- {name} --\n{text}")).collect::<Vec<_>>().concat()
    };
    format!("seed {number}, {:?}\n{}\n=====\n{}", before.form, text(before), text(after))
}

/// For each form, what `each` tries with random workflows and edits of them that change something.
fn tried(
    count: u64,
    factor: u64,
    each: impl Fn(&PureWorkflow, &PureWorkflow, &str, &mut Tally),
) -> BTreeMap<Form, Tally> {
    let first = seed();
    println!("THREADLINE_SEED={first}");
    let mut tallies: BTreeMap<Form, Tally> = BTreeMap::new();
    for form in Form::ALL {
        let (mut number, mut done) = (first, 0);
        while done < count {
            let mut random = Random::new(number.wrapping_mul(factor));
            let before = PureWorkflow::random(&mut random, form);
            let after = before.edited(&mut random);
            if before.files() != after.files() {
                let tally = tallies.entry(form).or_default();
                tally.edits += 1;
                tally.sorts.extend(before.steps.iter().map(|step| step.sort.name()));
                each(&before, &after, &why(number, &before, &after), tally);
                done += 1;
            }
            number += 1;
        }
    }
    for (form, tally) in &tallies {
        println!("{form:?}: {tally:?}");
    }
    tallies
}

#[test]
fn an_edited_run_comes_to_what_a_fresh_one_does() {
    let tallies = tried(if is_long() { 300 } else { 10 }, 31, compare);
    for (form, tally) in &tallies {
        assert!(tally.kept > 0 && tally.again > 0, "{form:?} keeps nothing, or does nothing: {tally:?}");
    }
    let sorts: BTreeSet<&str> = tallies.values().flat_map(|tally| tally.sorts.iter().copied()).collect();
    assert_eq!(sorts.len(), 6, "not every sort of step was tried: {sorts:?}");
}

fn compare(before: &PureWorkflow, after: &PureWorkflow, why: &str, tally: &mut Tally) {
    let place = place_of("edited", before);
    let ran = place.output(&["run", "workflow.yaml"]);
    assert!(matches!(ran.status.code(), Some(0 | 1 | 4)), "{why}\n{}", String::from_utf8_lossy(&ran.stderr));
    let then = effects(&place);
    let fresh = place_of("fresh", after);
    let ran = fresh.output(&["run", "workflow.yaml"]);
    assert_eq!(ran.status.code(), Some(0), "{why}\n{}", String::from_utf8_lossy(&ran.stderr));
    let expected = outcome(&fresh);
    let needed = needed(before, &then, &effects(&fresh));

    write(&place, after);
    // Where nothing ran there is none.
    let _ = std::fs::remove_file(place.file("effects"));
    let told = place.output(&["resume", "--edited", "--dry-run"]);
    assert_eq!(told.status.code(), Some(0), "{why}\n{}", String::from_utf8_lossy(&told.stderr));
    assert!(effects(&place).is_empty(), "{why}");
    let ran = place.output(&["resume", "--edited", "--yes"]);
    assert_eq!(ran.status.code(), Some(0), "{why}\n{}", String::from_utf8_lossy(&ran.stderr));
    let found = outcome(&place);
    assert_eq!(found.values, expected.values, "{why}");
    assert_eq!(found.status, "completed", "{why}");
    let mut ran = effects(&place);
    ran.sort();
    // Items with the same value may stand for each other, and one that failed may not have run.
    assert_eq!(ran, needed, "{why}\nbefore: {then:?}");
    tally.again += ran.len();
    tally.kept += effects(&fresh).len() - needed.len();
}

#[test]
fn an_edited_run_that_is_killed_comes_to_the_same() {
    let tallies = tried(if is_long() { 30 } else { 1 }, 17, kill_everywhere);
    for (form, tally) in &tallies {
        assert!(tally.kills > 0, "{form:?}: nothing was killed");
    }
}

fn kill_everywhere(before: &PureWorkflow, after: &PureWorkflow, why: &str, tally: &mut Tally) {
    let fresh = place_of("fresh-killed", after);
    fresh.output(&["run", "workflow.yaml"]);
    let expected = outcome(&fresh).values;
    for events in 1.. {
        let place = place_of("edited-killed", before);
        place.output(&["run", "workflow.yaml"]);
        let (then, earlier) = (effects(&place), newest(&reader(&place)));
        let mut due = needed(before, &then, &effects(&fresh));
        due.extend(then);
        write(&place, after);
        let running = place.start(&["resume", "--edited", "--yes"]);
        running.let_go(Until::Events(events));
        let (was_alive, _) = running.kill();
        let run = newest(&reader(&place));
        let is_begun = run.id != earlier.id;
        let open = if is_begun { in_flight(&place, &run) } else { 0 };
        let resumed =
            if is_begun { place.output(&["resume"]) } else { place.output(&["resume", "--edited", "--yes"]) };
        let why = format!("killed behind event {events}: {why}");
        assert_eq!(resumed.status.code(), Some(0), "{why}\n{}", String::from_utf8_lossy(&resumed.stderr));
        let found = outcome(&place);
        assert_eq!((&found.values, found.status.as_str()), (&expected, "completed"), "{why}");
        // The run that was killed keeps what it had kept: nothing but what was in flight runs twice.
        let ran = effects(&place);
        assert_eq!(difference(&due, &ran), Vec::<String>::new(), "did not run: {why}");
        let more = difference(&ran, &due);
        assert!(more.len() <= open, "{open} were in flight, and more ran twice: {more:?}\n{why}");
        tally.repeated += more.len();
        if !was_alive {
            return;
        }
        tally.kills += 1;
    }
}
