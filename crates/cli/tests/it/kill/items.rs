//! A map of many items with side effects, killed again and again: each item has one result at the end, those that were
//! over are not done again, and what was known at the beginning is known to all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use threadline_engine::event::{Address, Event, EventKind, ItemEnded, Status};
use threadline_engine::random::Random;
use threadline_store::{Durability, FOLDER, Journal, NewRun, RunId, Store, wire};

use super::{Left, Place, Until};
use crate::support::{is_long, seed};

const ITEMS: u64 = 2_000;
const AT_ONCE: u64 = 16;

/// Where the first lives end. Later ones end anywhere.
const FIRST: [&str; 7] =
    ["run_started", "finished", "resumed", "item_retrying", "resumed", "item_begun", "resumed"];

/// Of a hundred items one fails whenever it is tried, and two the first time.
const WORKFLOW: &str = r#"
name: killed-map
context:
  token: ${uuid}
setup:
  steps:
    - shell: |
        echo "$THREADLINE_STEP" >> effects
        od -An -N8 -tx1 /dev/urandom | tr -d ' \n'
      capture: made
map:
  input: {shell: seq 0 1999, format: lines}
  max_parallel: 16
  retry: {attempts: 2, delay: 1ms}
  agent_template:
    - shell: |
        echo ${item.index} ${item.attempt} >> effects
        echo ${context.token} ${setup.variables.made} >> known
        if [ ${item.attempt} -gt 1 ]; then echo ${item.previous_error} >> errors; fi
        case ${item} in
          *13) exit 3 ;;
          7|*07|*57) [ ${item.attempt} -gt 1 ] || exit 3 ;;
        esac
        printf %s ${item}
      capture_format: number
error_policy: {on_item_failure: skip, continue_on_failure: true}
reduce:
  - shell: echo "$THREADLINE_STEP" >> effects
  - write_file:
      path: results
      content: >-
        ${map.results | collect("index") | to_json}
        ${map.results | collect("status") | to_json}
        ${map.results | collect("attempts") | to_json}
  - value: "${map.total} ${map.successful} ${map.failed} ${map.skipped}"
"#;

/// How an item ends: well or not, and with which attempt.
fn end_of(index: u64) -> (Status, u32) {
    match index % 100 {
        13 => (Status::Failed, 2),
        7 | 57 => (Status::Completed, 2),
        _ => (Status::Completed, 1),
    }
}

/// The items that are over, and how.
fn ended(left: &Left) -> BTreeMap<u64, (Status, u32)> {
    let mut over = BTreeMap::new();
    for event in &left.events {
        if let EventKind::ItemEnded(ItemEnded { status, attempts, .. }) = &event.kind {
            let before = over.insert(index_of(event), (*status, *attempts));
            assert_eq!(before, None, "`{}` is over twice", event.at);
        }
    }
    over
}

fn index_of(event: &Event) -> u64 {
    event.at.items().next().expect("an item has an index")
}

/// How often an attempt of an item ran.
fn ran(left: &Left, index: u64, attempt: u32) -> u64 {
    left.effects_of(&format!("{index} {attempt}"))
}

/// The attempts that ran and whose end is not in the journal, by item: these run again.
fn unended(left: &Left) -> Vec<(u64, u64)> {
    let over = ended(left);
    let mut failed: BTreeMap<u64, u64> = BTreeMap::new();
    for event in &left.events {
        if let EventKind::ItemRetrying { .. } = event.kind {
            *failed.entry(index_of(event)).or_default() += 1;
        }
    }
    let number = |word: &str| word.parse::<u64>().ok();
    let ran = left.effects.keys().filter_map(|line| line.split_once(' '));
    let ran = ran.filter_map(|(index, attempt)| number(index).zip(number(attempt)));
    let is_open = |(index, attempt): &(u64, u64)| {
        !over.contains_key(index) && *attempt > failed.get(index).copied().unwrap_or(0)
    };
    ran.filter(is_open).collect()
}

#[test]
fn kills_of_a_map_of_many_items() {
    let seed = seed();
    println!("THREADLINE_SEED={seed}");
    let mut random = Random::new(seed);
    let stretch = if is_long() { 60 } else { 200 };
    let place = Place::new("map", WORKFLOW);
    let mut histogram: BTreeMap<&'static str, u64> = BTreeMap::new();
    let (mut kills, mut lives) = (0, 0);
    let mut before = place.left();
    while before.events.last().map(|event| wire::encode(&event.kind).0) != Some("run_ended") {
        let begun = !before.events.is_empty();
        if let Some(run) = before.run.as_ref().filter(|_| !begun) {
            place.never_began(run);
        }
        let running = place.start(if begun { &["resume", "last"] } else { &["run", "workflow.yaml"] });
        let kinds = ["started", "item_retrying", "item_begun", "item_ended"];
        // The first lives end before there are items, and the last ones after them.
        let near_the_end = ended(&before).len() as u64 + AT_ONCE > ITEMS;
        running.let_go(match random.below(4) {
            _ if lives < FIRST.len() => Until::Event(FIRST[lives], 1),
            _ if near_the_end => Until::Events(1 + random.below(20)),
            0 => Until::Time(Duration::from_millis(random.below(2 * stretch))),
            1 => {
                let kind = kinds[usize::try_from(random.below(4)).unwrap_or(0)];
                Until::Event(kind, 1 + random.below(stretch / 60))
            }
            _ => Until::Events(1 + random.below(2 * stretch)),
        });
        lives += 1;
        let (killed, told) = running.kill();
        let left = place.left();
        assert!(told <= left.events.len(), "event {told} was told and is not there");
        left.knows_every_start(|line| match line.split_once(' ') {
            Some((index, _)) => format!("map[{index}]/1"),
            None => line.to_owned(),
        });
        for (index, (_, attempts)) in ended(&before) {
            for attempt in 1..=attempts {
                let (then, now) = (ran(&before, index, attempt), ran(&left, index, attempt));
                assert_eq!(then, now, "attempt {attempt} of item {index} was over and ran again");
            }
        }
        let again = unended(&left);
        let count = again.len() as u64;
        assert!(count <= AT_ONCE, "{AT_ONCE} may run at once, and a kill repeats {count}: {again:?}");
        before = left;
        if killed {
            kills += 1;
            let last = before.events.last().map_or("nothing", |event| wire::encode(&event.kind).0);
            *histogram.entry(last).or_default() += 1;
        }
    }
    println!("{kills} kills, by the event that was last in the journal:");
    for (kind, count) in &histogram {
        println!("{count:6} {kind}");
    }
    assert!(kills >= 20 && histogram.len() >= 4, "{kills} kills hit few kinds of events: {histogram:?}");
    all_is_there(&place, kills);
}

/// At the end each item has one result, and nothing ran more often than it was killed.
fn all_is_there(place: &Place, kills: u64) {
    let again = place.output(&["resume", "last"]);
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    let left = place.left();
    left.no_process_left();
    let expected: BTreeMap<_, _> = (0..ITEMS).map(|index| (index, end_of(index))).collect();
    assert_eq!(ended(&left), expected);
    let mut more = 0;
    for (index, (_, attempts)) in &expected {
        for attempt in 1..=*attempts {
            let times = ran(&left, *index, attempt);
            assert!((1..=1 + kills).contains(&times), "attempt {attempt} of item {index} ran {times} times");
            more += times - 1;
        }
        assert_eq!(ran(&left, *index, attempts + 1), 0, "item {index} was tried too often");
    }
    assert!(more <= AT_ONCE * kills, "{more} attempts ran again after {kills} kills");
    println!("{more} attempts of items ran again");
    // Every attempt begins once, and those that a kill ended are marked when they begin again.
    let mut begun: BTreeMap<&Address, u32> = BTreeMap::new();
    let mut once = BTreeSet::new();
    for event in &left.events {
        let at = &event.at;
        match &event.kind {
            EventKind::ItemBegun { attempt } => {
                begun.insert(at, *attempt);
            }
            EventKind::Started { rerun: false, .. } if at.is_in_items() => {
                let attempt =
                    at.items_around().next().and_then(|item| begun.get(&item)).copied().unwrap_or(1);
                assert!(once.insert((at, attempt)), "attempt {attempt} of `{at}` began twice");
            }
            EventKind::Finished { output, .. } if at.is_nested() && at.outermost().unwrap() == "reduce" => {
                assert!(once.insert((at, 0)), "`{at}` is done twice");
                let counts = format!("{:?}", output.value);
                assert!(*at != "reduce/3" || counts.contains("2000 1980 20 0"), "{counts}");
            }
            _ => {}
        }
    }
    assert!(once.contains(&(&Address::parse("reduce/3").unwrap(), 0)));
    let reduced = left.effects_of("reduce/1");
    assert!((1..=1 + kills).contains(&reduced), "`reduce` ran {reduced} times");

    let lines = |name: &str| -> BTreeSet<String> {
        std::fs::read_to_string(place.file(name)).unwrap().lines().map(str::to_owned).collect()
    };
    let known = lines("known");
    assert_eq!(known.len(), 1, "not all items know the same: {known:?}");
    let errors = lines("errors");
    assert!(errors.len() == 1 && errors.iter().all(|error| error.contains('3')), "{errors:?}");

    let list = |of: &dyn Fn(u64) -> String| (0..ITEMS).map(of).collect::<Vec<_>>().join(",");
    let status = |index| if end_of(index).0 == Status::Failed { "\"failed\"" } else { "\"success\"" };
    let results = format!(
        "[{}] [{}] [{}]",
        list(&|index| index.to_string()),
        list(&|index| status(index).to_owned()),
        list(&|index| end_of(index).1.to_string())
    );
    let written = std::fs::read_to_string(place.file("results")).unwrap();
    assert_eq!(
        written.split_whitespace().collect::<String>(),
        results.split_whitespace().collect::<String>()
    );
}

/// A journal in which items have no end of their own, as programs before this one wrote it, is refused in words.
#[test]
fn a_journal_without_ends_of_items_is_refused() {
    let workflow = "- foreach: [1, 2]\n  parallel: 2\n  do:\n    - shell: echo ${item}\n- shell: echo done\n";
    let place = Place::new("older", workflow);
    assert!(place.output(&["run", "workflow.yaml"]).status.success());
    let events = place.left().events;
    let older = events.iter().filter(|event| !matches!(event.kind, EventKind::ItemEnded(_)));
    let older: Vec<_> = older.map(|event| (event.at.clone(), event.kind.clone())).collect();
    let each_over =
        older.iter().position(|(at, what)| *at == "1" && matches!(what, EventKind::Finished { .. }));
    for (name, count) in [("whole", older.len()), ("killed", each_over.unwrap() + 1)] {
        let folder = place.file(FOLDER);
        std::fs::remove_dir_all(&folder).unwrap();
        let run = RunId::new("older-0001").unwrap();
        {
            let store = Store::open(&folder).unwrap();
            store.put_text(workflow).unwrap();
            let lease = store.create_run(NewRun {
                id: run.clone(),
                name: "older".into(),
                file: "workflow.yaml".into(),
                started_at: "2026-01-01T00:00:00.000Z".into(),
            });
            let journal = Journal::new(&store, lease.unwrap());
            let (_, ticket) = journal.append(0, older[..count].to_vec(), Durability::Now).unwrap();
            ticket.wait().unwrap();
        }
        let asked = [&["resume", "last"][..], &["show", "last"], &["explain", "last", "2"]];
        // What is explained is read without the events of items, which nothing behind them then contradicts.
        let asked = if name == "killed" { &asked[..2] } else { &asked[..] };
        for &arguments in asked {
            let output = place.output(arguments);
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(3), "{name}, {arguments:?}: {said}");
            let wanted =
                ["`finished` of `1`, does not fit", "another version", "threadline run workflow.yaml"];
            assert!(wanted.iter().all(|words| said.contains(words)), "{name}, {arguments:?}: {said}");
        }
    }
}
