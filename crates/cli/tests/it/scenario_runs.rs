//! How a run of scenarios goes: which cases are under way at once, what their time is, and what is left of it after kills.
//!
//! With `THREADLINE_LONG=1` there are more kills; `THREADLINE_SEED=n` repeats those of a seed, as far as the speed of the
//! machine lets them be repeated.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use threadline_engine::event::{Event, EventKind};
use threadline_engine::random::Random;
use threadline_lang::{Limits, Value, data};
use threadline_store::{FOLDER, JournalReader};

use crate::support::{Project, is_long, seed};

fn scenarios(text: &str) -> Project {
    let project = Project::new();
    project.write("w.test.yaml", text.as_bytes());
    project
}

/// The events of the only run of a project.
fn events(project: &Project) -> Vec<Event> {
    let reader = JournalReader::open(&project.path().join(FOLDER)).expect("a store");
    let runs = reader.runs().expect("the runs");
    assert_eq!(runs.len(), 1, "{runs:?}");
    reader.events(&runs[0].id, 1).expect("the events").map(|event| event.expect("an event")).collect()
}

/// A file with scenarios of every sort: with cases, with repetitions, with several targets, alone.
const EVERY_SORT: &str = r#"
targets:
  a: {shell: "echo ${prompt}"}
  b: {argv: [echo, "${prompt}"]}
scenarios:
  many: {cases: [one, two, three, four, five, six], steps: [{prompt: "${case}"}, {prompt: again}], expectations: {shouldContain: again}}
  often: {targets: [a], repeat: 5, prompt: often, expectations: {shouldContain: often}}
  rows: {targets: [b], cases: [x, y, z], repeat: 2, steps: [{prompt: "${case}"}], expectations: {shouldContain: "${case}"}}
  alone: {prompt: alone, expectations: {shouldContain: alone}}
"#;

/// How many executions there are of these scenarios.
const EXECUTIONS: usize = 2 * 6 + 5 + 3 * 2 + 2;

/// The execution that an event belongs to: of `often` and `rows` each repetition is one.
fn execution_of(event: &Event) -> Option<String> {
    let items: Vec<_> = event.at.items_around().collect();
    let repeated = ["3[", "4["].iter().any(|node| event.at.as_str().starts_with(node));
    items.get(usize::from(repeated)).map(ToString::to_string)
}

#[test]
fn a_case_begins_only_when_there_is_room_for_it() {
    for jobs in [1, 3] {
        let project = scenarios(EVERY_SORT);
        let outcome = project.run(&["test", "w.test.yaml", "-j", &jobs.to_string()], b"");
        assert_eq!(outcome.exit, 0, "{}\n{}", outcome.stdout, outcome.stderr);
        let (mut begun, mut ended) = (BTreeSet::new(), BTreeSet::new());
        for event in events(&project) {
            let Some(execution) = execution_of(&event) else { continue };
            if matches!(event.kind, EventKind::ItemEnded(_)) && event.at.as_str() == execution {
                ended.insert(execution);
                continue;
            }
            begun.insert(execution);
            let under_way = begun.len() - ended.len();
            assert!(under_way <= jobs, "{under_way} cases are under way with {jobs} jobs at {}", event.at);
        }
        assert_eq!((begun.len(), ended.len()), (EXECUTIONS, EXECUTIONS));
    }
}

#[test]
fn the_time_of_a_case_counts_from_its_beginning() {
    let project = scenarios(EVERY_SORT);
    let outcome = project.run(&["test", "w.test.yaml", "-j", "1"], b"");
    assert_eq!(outcome.exit, 0, "{}\n{}", outcome.stdout, outcome.stderr);
    let events = events(&project);
    let took = |event: &Event| match &event.kind {
        EventKind::ItemEnded(ended) if execution_of(event).as_deref() == Some(event.at.as_str()) => {
            Some(ended.duration_ms)
        }
        _ => None,
    };
    let all: u64 = events.iter().filter_map(took).sum();
    let (Some(first), Some(last)) = (events.first(), events.last()) else { panic!("there are no events") };
    let run = u64::try_from(last.time - first.time).expect("a time");
    // One after the other they cannot take longer than all of it.
    assert!(all <= run, "the cases took {all} ms of the {run} ms of the run");
}

#[test]
fn a_resumed_test_has_as_many_cases_at_once_as_it_is_told() {
    let project = scenarios(EVERY_SORT);
    project.write("kill-at", b"3\n");
    project.write("target.sh", format!("{KILLS}; echo \"$1\"\n").as_bytes());
    let text =
        EVERY_SORT.replace("a: {shell: \"echo ${prompt}\"}", "a: {argv: [sh, target.sh, \"${prompt}\"]}");
    project.write("w.test.yaml", text.as_bytes());
    let outcome = project.run(&["test", "w.test.yaml", "-j", "2"], b"");
    assert_eq!(outcome.exit, -2, "it was not killed: {}\n{}", outcome.stdout, outcome.stderr);
    let outcome = project.run(&["test", "--resume", "last", "-j", "5"], b"");
    assert_eq!(outcome.exit, 0, "{}\n{}", outcome.stdout, outcome.stderr);
    let (mut begun, mut ended, mut most) = (BTreeSet::new(), BTreeSet::new(), 0);
    for event in events(&project) {
        let Some(execution) = execution_of(&event) else { continue };
        if matches!(event.kind, EventKind::ItemEnded(_)) && event.at.as_str() == execution {
            ended.insert(execution);
        } else {
            begun.insert(execution);
        }
        most = most.max(begun.len() - ended.len());
    }
    assert!((3..=5).contains(&most), "{most} cases were under way");
    assert_eq!(ended.len(), EXECUTIONS);
}

// ---- kills ----------------------------------------------------------------------------------------------

/// What a target does first: it writes down that it was asked, and kills whoever asks the n-th time.
const KILLS: &str = r"echo asked >> asked; if [ -e kill-at ] && [ $(wc -l < asked) -ge $(cat kill-at) ]; then rm kill-at; kill -9 $PPID; fi";

const CASES: usize = 12;

fn to_be_killed() -> Project {
    let rows: Vec<String> = (0..CASES).map(|row| format!("{{name: row {row}, said: text {row}}}")).collect();
    scenarios(&format!(
        r#"
target: {{argv: [sh, target.sh, "${{prompt}}"]}}
scenarios:
  table:
    cases: [{}]
    steps: [{{prompt: "${{case.said}}"}}]
    expectations: {{shouldContain: "${{case.said}}"}}
  thrice: {{repeat: 3, prompt: thrice, expectations: {{shouldContain: thrice}}}}
  alone: {{prompt: alone, expectations: {{shouldContain: alone}}}}
"#,
        rows.join(", ")
    ))
}

/// When a test is killed.
#[derive(Debug, Clone, Copy)]
enum KillAt {
    /// When so many lines are printed.
    Lines(u64),
    /// While a target answers the n-th prompt.
    Asked(u64),
}

/// Runs the binary until it ends or is killed. Gives the names in the lines that it printed, and whether it was killed.
fn run_until(project: &Project, arguments: &[&str], until: KillAt) -> (Vec<String>, bool) {
    if let KillAt::Asked(nth) = until {
        let asked = project.read("asked").map_or(0, |asked| asked.lines().count() as u64);
        project.write("kill-at", format!("{}\n", asked + nth).as_bytes());
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_threadline"));
    command.args(arguments).current_dir(project.path()).stdin(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the binary");
    let mut names = Vec::new();
    for line in BufReader::new(child.stdout.take().expect("stdout")).lines() {
        let Some(name) = line.expect("a line").strip_prefix("✓ ").map(name_in) else { continue };
        names.push(name);
        if matches!(until, KillAt::Lines(count) if names.len() as u64 >= count) {
            // One that has ended by itself needs no kill.
            let _ = child.kill();
        }
    }
    let was_killed = child.wait().expect("its end").code().is_none();
    // Nobody kills the next one at the place of this one.
    let _ = std::fs::remove_file(project.path().join("kill-at"));
    (names, was_killed)
}

/// The name of a case in its line, behind the mark.
fn name_in(line: &str) -> String {
    line.split("  ").next().unwrap_or_default().trim().to_owned()
}

/// Every case of a JSON report with its result and how often it was tried.
fn cases_of(project: &Project, report: &str) -> Vec<(String, String, usize)> {
    let text = project.read(report).expect("a report");
    let report = data::json::read_value(&text, &Limits::DEFAULT).expect("JSON");
    let list =
        |value: &Value, key: &str| value.get(key).and_then(Value::as_list).unwrap_or_default().to_vec();
    let text = |value: &Value, key: &str| value.get(key).map(ToString::to_string).unwrap_or_default();
    let mut cases = Vec::new();
    for case in list(&report, "files").iter().flat_map(|file| list(file, "cases")) {
        let name = format!("{} · {}", text(&case, "scenario"), text(&case, "case"));
        cases.push((name, text(&case, "result"), list(&case, "executions").len()));
    }
    cases
}

/// How often each prompt was asked.
fn times_asked(project: &Project) -> BTreeMap<String, usize> {
    let mut times = BTreeMap::new();
    for said in project.read("answered").unwrap_or_default().lines() {
        *times.entry(said.to_owned()).or_default() += 1;
    }
    times
}

#[test]
fn a_killed_test_goes_on_without_asking_again() {
    const TARGET: &str = "echo \"$1\" >> answered; KILLS; printf 'You said %s.' \"$1\"\n";
    let target = TARGET.replace("KILLS", KILLS);
    let whole = to_be_killed();
    whole.write("target.sh", target.as_bytes());
    let outcome = whole.run(&["test", "w.test.yaml", "--report", "json=whole.json"], b"");
    assert_eq!(outcome.exit, 0, "{}\n{}", outcome.stdout, outcome.stderr);
    let expected = cases_of(&whole, "whole.json");
    assert_eq!(expected.len(), CASES + 2);
    let all_names: BTreeSet<String> =
        outcome.stdout.lines().filter_map(|line| line.strip_prefix("✓ ").map(name_in)).collect();

    let seed = seed();
    println!("THREADLINE_SEED={seed}");
    let mut random = Random::new(seed);
    let mut kills: BTreeMap<usize, [usize; 2]> = BTreeMap::new();
    let rounds = if is_long() { 200 } else { 16 };
    let executions = CASES + 4;
    for round in 0..rounds {
        let project = to_be_killed();
        project.write("target.sh", target.as_bytes());
        let jobs = 1 + random.below(4);
        let jobs = jobs.to_string();
        let mut printed: Vec<String> = Vec::new();
        // How often each case that was told to be over had been asked by then.
        let mut told: BTreeMap<String, usize> = BTreeMap::new();
        let mut killed = 0;
        for part in 0..=random.below(3) {
            let nth = 1 + random.below(executions as u64);
            let until = if random.below(2) == 0 { KillAt::Lines(nth) } else { KillAt::Asked(nth) };
            let arguments: &[&str] = match part {
                0 => &["test", "w.test.yaml", "-j", &jobs],
                _ => &["test", "--resume", "last"],
            };
            let (names, was_killed) = run_until(&project, arguments, until);
            let times = times_asked(&project);
            let said = names.iter().map(|name| name.replace("table · row", "text"));
            told.extend(said.filter_map(|said| Some((said.clone(), *times.get(&said)?))));
            printed.extend(names);
            if !was_killed {
                break;
            }
            killed += 1;
            let sort = usize::from(matches!(until, KillAt::Asked(_)));
            kills.entry(printed.len()).or_default()[sort] += 1;
        }
        let outcome = project.run(&["test", "--resume", "last", "--report", "json=after.json"], b"");
        let what = format!("round {round}, {killed} kills, {jobs} jobs");
        assert_eq!(outcome.exit, 0, "{what}: {}\n{}", outcome.stdout, outcome.stderr);
        assert_eq!(cases_of(&project, "after.json"), expected, "{what}");
        let last = outcome.stdout.lines().filter_map(|line| line.strip_prefix("✓ ").map(name_in));
        let last: Vec<String> = last.filter(|name| name != "thrice").collect();
        for name in printed.iter().chain(&last) {
            assert!(all_names.contains(name), "{what}: `{name}` is no name of {all_names:?}");
        }
        let once: BTreeSet<&String> = printed.iter().collect();
        assert_eq!(once.len(), printed.len(), "{what}: a case has two lines: {printed:?}");
        let times = times_asked(&project);
        for (said, then) in &told {
            assert_eq!(times.get(said), Some(then), "{what}: `{said}` was over, and asked again");
        }
        let asked: usize = times.values().sum();
        let most = executions + killed * jobs.parse::<usize>().expect("a number");
        assert!(asked <= most, "{what}: {asked} were asked, of {executions} with {killed} kills");
    }
    println!("kills by the number of cases that were over: after a line, while a target answered");
    for (over, [lines, asked]) in &kills {
        println!("{over:>3}  {:<12} {:<12}", "#".repeat(*lines), "#".repeat(*asked));
    }
    assert!(kills.len() >= 4, "the kills are all at the same place: {kills:?}");
}
