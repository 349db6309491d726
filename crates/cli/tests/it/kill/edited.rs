//! A run continued with an edited file, against an oracle: random workflows, random edits. What comes of it is what
//! a fresh run of the edited file comes to, and nothing runs again that had run with the same fields. Killed behind
//! every event, it comes to the same.
//!
//! Every step writes a line with its name and all that it was given, so the lines tell what ran.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use threadline_engine::event::{Datum, EventKind};
use threadline_engine::random::Random;
use threadline_lang::value::JsonStyle;
use threadline_store::{FOLDER, JournalReader, RunInfo};

use super::{Place, Until};
use crate::support::{is_long, seed};

/// One step of a random workflow.
#[derive(Clone)]
struct PureStep {
    id: u64,
    /// What it prints beside what it reads.
    word: u64,
    /// The steps that it reads.
    reads: Vec<u64>,
    /// The items of a step that has items.
    items: Option<Vec<u64>>,
    /// Whether it fails, the first time that the workflow runs.
    fails: bool,
}

/// How the steps of a random workflow stand together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    List,
    Graph,
    MapReduce,
}

#[derive(Clone)]
struct PureWorkflow {
    form: Form,
    steps: Vec<PureStep>,
    comment: u64,
}

impl PureWorkflow {
    fn random(random: &mut Random, form: Form) -> Self {
        let count = 2 + random.below(5);
        let mut steps: Vec<PureStep> = Vec::new();
        for id in 0..count {
            let step = random_step(random, id, &steps, form);
            steps.push(step);
        }
        if random.percent(50) {
            let at = usize::try_from(random.below(count)).unwrap();
            steps[at].fails = true;
        }
        Self { form, steps, comment: 0 }
    }

    /// The same with a few changes.
    fn edited(&self, random: &mut Random) -> Self {
        let mut edited = self.clone();
        for step in &mut edited.steps {
            step.fails = false;
        }
        for _ in 0..=random.below(2) {
            let count = edited.steps.len() as u64;
            let at = usize::try_from(random.below(count)).unwrap();
            match random.below(6) {
                0 => edited.steps[at].word += 100,
                1 => {
                    let id = 50 + random.below(40);
                    if edited.steps.iter().all(|step| step.id != id) {
                        let step = random_step(random, id, &edited.steps[..at], self.form);
                        edited.steps.insert(at, step);
                    }
                }
                2 if count > 2 => {
                    let gone = edited.steps.remove(at).id;
                    for step in &mut edited.steps {
                        step.reads.retain(|read| *read != gone);
                    }
                }
                3 => {
                    if let Some(items) = &mut edited.steps[at].items {
                        match random.below(3) {
                            0 => items.push(random.below(9)),
                            1 => drop(items.pop()),
                            _ => items.reverse(),
                        }
                    }
                }
                4 => edited.steps[at].reads.truncate(1),
                _ => edited.comment += 1,
            }
        }
        edited
    }

    fn text(&self) -> String {
        let mut text = format!("# version {}\nname: pure\n", self.comment);
        // Writing into a text cannot fail.
        match self.form {
            Form::List => {
                text.push_str("steps:\n");
                for step in &self.steps {
                    let _ = write!(text, "{}", step.text("- id: s", "  ", ""));
                }
            }
            Form::Graph => {
                text.push_str("nodes:\n");
                for step in &self.steps {
                    let _ = write!(text, "{}", step.text("  s", "    ", ":"));
                }
            }
            Form::MapReduce => {
                let items = self.steps.first().and_then(|step| step.items.clone()).unwrap_or_default();
                let _ = writeln!(text, "map:\n  input: {items:?}\n  max_parallel: 1\n  agent_template:");
                let first = PureStep { items: None, reads: Vec::new(), ..self.steps[0].clone() };
                let _ = write!(text, "{}", first.lines("  - id: s", "    ", "", " ${item}"));
                text.push_str("reduce:\n");
                for (at, step) in self.steps.iter().enumerate().skip(1) {
                    let after = if at == 1 { " ${map.results | collect(\"value\") | to_json}" } else { "" };
                    let step = PureStep {
                        items: None,
                        reads: step.reads.iter().copied().filter(|id| *id != self.steps[0].id).collect(),
                        ..step.clone()
                    };
                    let _ = write!(text, "{}", step.lines("- id: s", "  ", "", after));
                }
            }
        }
        text
    }
}

fn random_step(random: &mut Random, id: u64, before: &[PureStep], form: Form) -> PureStep {
    let mut reads: Vec<u64> = before.iter().filter(|_| random.percent(40)).map(|step| step.id).collect();
    reads.truncate(3);
    let has_items = random.percent(30) || form == Form::MapReduce;
    let items = has_items.then(|| (0..random.below(4)).map(|_| random.below(4)).collect());
    PureStep { id, word: random.below(90), reads, items, fails: false }
}

impl PureStep {
    fn text(&self, head: &str, indent: &str, colon: &str) -> String {
        let Some(items) = &self.items else { return self.lines(head, indent, colon, "") };
        let mut text = format!("{head}{}{colon}\n{indent}foreach: {items:?}\n{indent}do:\n", self.id);
        let inner = Self { items: None, ..self.clone() };
        let nested = inner.lines(&format!("{indent}- id: i"), &format!("{indent}  "), "", " ${item}");
        text.push_str(&nested);
        text
    }

    fn lines(&self, head: &str, indent: &str, colon: &str, after: &str) -> String {
        let reads: Vec<String> = self.reads.iter().map(|id| format!(" ${{s{id} | to_json}}")).collect();
        let reads = reads.concat();
        let id = self.id;
        let fails = if self.fails { "; test -e fixed" } else { "" };
        format!(
            "{head}{id}{colon}\n{indent}shell: |\n{indent}  line=$(printf '%s ' s{id} w{}{reads}{after})\n\
             {indent}  echo \"$line\" >> effects\n{indent}  printf %s \"$line\" | cksum{fails}\n",
            self.word
        )
    }
}

/// What is left of runs.
struct Outcome {
    /// What each execution left, of the newest run.
    values: BTreeMap<String, String>,
    effects: Vec<String>,
    status: String,
}

fn newest(place: &Place) -> (JournalReader, RunInfo) {
    let reader = JournalReader::open(&place.folder.join(FOLDER)).unwrap();
    let run = reader.runs().unwrap().into_iter().rfind(|run| run.events > 0).unwrap();
    (reader, run)
}

fn outcome(place: &Place) -> Outcome {
    let (reader, run) = newest(place);
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
    Outcome { values, effects: effects(place), status: run.status }
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

fn forms() -> [Form; 3] {
    [Form::List, Form::Graph, Form::MapReduce]
}

#[test]
fn an_edited_run_comes_to_what_a_fresh_one_does() {
    let count = if is_long() { 300 } else { 10 };
    let first = seed();
    println!("seed {first}");
    for number in first..first + count {
        for form in forms() {
            let mut random = Random::new(number.wrapping_mul(31));
            let before = PureWorkflow::random(&mut random, form);
            let after = before.edited(&mut random);
            let why = format!("seed {number}, {form:?}\n{}\n---\n{}", before.text(), after.text());
            compare(&before, &after, &why);
        }
    }
}

fn compare(before: &PureWorkflow, after: &PureWorkflow, why: &str) {
    let place = Place::new("edited", &before.text());
    let ran = place.output(&["run", "workflow.yaml"]);
    assert!(matches!(ran.status.code(), Some(0 | 1)), "{why}\n{}", String::from_utf8_lossy(&ran.stderr));
    let then = effects(&place);
    // What failed wrote its line, and its result is not kept.
    let failed: Vec<String> =
        before.steps.iter().filter(|step| step.fails).map(|step| format!("s{} ", step.id)).collect();
    let (failed, kept): (Vec<String>, Vec<String>) =
        then.iter().cloned().partition(|line| failed.iter().any(|step| line.starts_with(step)));
    let fresh = Place::new("fresh", &after.text());
    let ran = fresh.output(&["run", "workflow.yaml"]);
    assert_eq!(ran.status.code(), Some(0), "{why}\n{}", String::from_utf8_lossy(&ran.stderr));
    let expected = outcome(&fresh);

    if before.text() == after.text() {
        return;
    }
    std::fs::write(place.file("workflow.yaml"), after.text()).unwrap();
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
    let again = difference(&expected.effects, &kept);
    let mut ran = found.effects.clone();
    ran.sort();
    // Items with the same value may stand for each other, and one that failed may not have run.
    assert_eq!(ran, again, "{why}\nbefore: {then:?}\nfailed: {failed:?}");
}

#[test]
fn an_edited_run_that_is_killed_comes_to_the_same() {
    let count = if is_long() { 30 } else { 1 };
    let first = seed();
    println!("seed {first}");
    for number in first..first + count {
        for form in forms() {
            let mut random = Random::new(number.wrapping_mul(17));
            let before = PureWorkflow::random(&mut random, form);
            let after = before.edited(&mut random);
            let why = format!("seed {number}, {form:?}\n{}\n---\n{}", before.text(), after.text());
            if before.text() != after.text() {
                kill_everywhere(&before, &after, &why);
            }
        }
    }
}

fn kill_everywhere(before: &PureWorkflow, after: &PureWorkflow, why: &str) {
    let fresh = Place::new("fresh-killed", &after.text());
    fresh.output(&["run", "workflow.yaml"]);
    let expected = outcome(&fresh).values;
    for events in 1.. {
        let place = Place::new("edited-killed", &before.text());
        place.output(&["run", "workflow.yaml"]);
        let (_, earlier) = newest(&place);
        std::fs::write(place.file("workflow.yaml"), after.text()).unwrap();
        let running = place.start(&["resume", "--edited", "--yes"]);
        running.let_go(Until::Events(events));
        let (was_alive, _) = running.kill();
        let (_, run) = newest(&place);
        let resumed = if run.id == earlier.id {
            place.output(&["resume", "--edited", "--yes"])
        } else {
            place.output(&["resume"])
        };
        let why = format!("killed behind event {events}: {why}");
        assert_eq!(resumed.status.code(), Some(0), "{why}\n{}", String::from_utf8_lossy(&resumed.stderr));
        let found = outcome(&place);
        assert_eq!((&found.values, found.status.as_str()), (&expected, "completed"), "{why}");
        // The run that was killed keeps what it had kept: nothing but the step in flight runs twice.
        let mut ran = found.effects;
        ran.sort();
        let twice = ran.windows(2).filter(|lines| lines[0] == lines[1]).count();
        let items = after.steps.iter().flat_map(|step| step.items.iter()).map(Vec::len).sum::<usize>();
        assert!(twice <= 2 + before.steps.len() + items, "{why}\n{ran:?}");
        if !was_alive {
            return;
        }
    }
}
