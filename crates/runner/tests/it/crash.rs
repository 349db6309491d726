//! The real driver and real processes, with a journal that stops before or after every commit: what had finished is
//! not done again, and the run comes to the same end.

#![expect(clippy::unwrap_used, reason = "a run that cannot be read fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ecow::EcoString;
use threadline_engine::event::{Datum, Event, EventKind, RunStarted, Status};
use threadline_engine::machine::{Machine, Outcome, Stage};
use threadline_engine::replay::Fold;
use threadline_engine::view::RunNames;
use threadline_flow::load::load;
use threadline_flow::model::OnCrash;
use threadline_flow::plan::{Plan, plan};
use threadline_lang::Value;
use threadline_lang::source::SourceFile;
use threadline_runner::driver::{self, DriveError, Ending, Notice, PrintedNotices, Resumption, Setup, Stop};
use threadline_runner::locks::Patience;
use threadline_runner::process::Control;
use threadline_runner::project::Project;
use threadline_runner::values::Values;
use threadline_runner::workplace::Here;
use threadline_store::{
    Fault, Journal, MemorySegments, NewRun, ReplicaWatch, RunId, Store, StoreError, StoreOptions, WritePoint,
};

const RUN: &str = "crash-0001";

/// A folder with a workflow in it, gone at the end.
struct Place {
    folder: PathBuf,
    plan: Arc<Plan>,
    /// Where its runs are kept, too.
    segments: Option<MemorySegments>,
}

impl Place {
    fn new(name: &str, source: &str) -> Self {
        let unique = format!("threadline-crash-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(unique);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(folder.join(".threadline")).unwrap();
        let file = SourceFile::new(name, source.as_bytes().to_vec()).unwrap();
        let (workflow, problems) = load(file);
        let workflow = workflow.unwrap_or_else(|| panic!("{problems:#?}"));
        let (planned, problems) = plan(Arc::new(workflow));
        let plan = Arc::new(planned.unwrap_or_else(|| panic!("{problems:#?}")));
        Self { folder, plan, segments: None }
    }

    /// Runs the workflow, or goes on with it, until its end or the given write.
    fn drive(&self, crash: Option<WritePoint>, in_flight: Option<OnCrash>) -> Driven {
        self.live(crash, in_flight, |_| false)
    }

    /// The same, and ends whatever runs as soon as an event asks for it.
    fn live(
        &self,
        crash: Option<WritePoint>,
        in_flight: Option<OnCrash>,
        ends: impl Fn(&EventKind) -> bool + Sync,
    ) -> Driven {
        let project = Project::of(&self.folder).unwrap();
        let options = StoreOptions {
            group: 1,
            later: Duration::ZERO,
            fault: crash.map(|crash| -> threadline_store::FaultHook {
                Box::new(move |point| if point == crash { Fault::Crash } else { Fault::None })
            }),
            max_pages: None,
        };
        let store = Store::open_with(&project.store(), options).unwrap();
        let ending = self.go(&store, &project, in_flight, &ends);
        let commits = store.stats().commits;
        match ending {
            Ok(ending) => Driven::Ended(ending, commits),
            Err(DriveError::Journal(error)) => {
                assert_eq!(error, StoreError::Crashed.into());
                Driven::Crashed
            }
            Err(error) => panic!("{error:?}"),
        }
    }

    fn go<'a>(
        &self,
        store: &'a Store,
        project: &'a Project,
        in_flight: Option<OnCrash>,
        ends: &'a (dyn Fn(&EventKind) -> bool + Sync),
    ) -> Result<Ending, DriveError> {
        let (control, stop) = (Control::new(), Stop::default());
        let run = RunId::new(RUN).unwrap();
        let names = RunNames {
            inputs: Value::object([("name".into(), "Ada".into())]).unwrap(),
            imports: Value::NULL,
            payload: Value::NULL,
            workflow: self.plan.workflow.name.clone(),
            run: RUN.into(),
            start_time: "2026-01-01T00:00:00.000Z".into(),
        };
        if let Some(segments) = &self.segments {
            let end = store.import(&run, segments)?;
            let watch = ReplicaWatch {
                owner: format!("{:?}", std::time::Instant::now()),
                tell: Box::new(|_| {}),
                gives_up: Box::new(|| false),
            };
            store.replicate(&run, Arc::new(segments.clone()), end, watch)?;
        }
        let events = read(store);
        let begun = !events.is_empty();
        let lease = match store.lease(&run) {
            Err(StoreError::NoSuchRun { .. }) => store.create_run(NewRun {
                id: run.clone(),
                name: self.plan.workflow.name.to_string(),
                file: "crash.yaml".into(),
                started_at: names.start_time.to_string(),
            })?,
            lease => lease?,
        };
        let journal = Journal::new(store, lease);
        let setup = Setup {
            plan: Arc::clone(&self.plan),
            journal,
            project,
            names,
            jobs: Some(3),
            control: control.clone(),
            stop: stop.clone(),
            trace: false,
            printed: PrintedNotices::None,
            in_flight,
            patience: Patience::None,
            surroundings: Arc::default(),
            within: None,
            earlier: None,
            exchanges: None,
            workplace: Arc::new(Here),
            observer: Box::new(move |notice| {
                if matches!(notice, Notice::Event(event) if ends(&event.kind)) {
                    stop.ask();
                    control.kill();
                }
            }),
        };
        if !begun {
            let started = RunStarted {
                run: RUN.into(),
                workflow: self.plan.workflow.name.clone(),
                file: "crash.yaml".into(),
                text: store.put_text(self.plan.workflow.file.text())?,
                inputs: store.datum(&setup.names.inputs)?,
                imports: store.datum(&setup.names.imports)?,
                imported: Vec::new(),
                payload: store.datum(&setup.names.payload)?,
                set: Vec::new(),
                trust_set: false,
                folder: self.folder.display().to_string().into(),
                program: EcoString::new(),
                jobs: Some(3),
                files: Vec::new(),
                caller: None,
                continues: None,
                exchanges: None,
                on: None,
                budgets: Vec::new(),
            };
            return driver::begin(setup, EventKind::RunStarted(started));
        }
        let machine = self.machine(&events);
        let context = machine.defined().iter().map(|(name, seq)| {
            match &events[usize::try_from(*seq).unwrap() - 1].kind {
                EventKind::Defined { value, .. } => (name.clone(), store.reader().load(value).unwrap()),
                what => panic!("{what:?}"),
            }
        });
        let context: BTreeMap<EcoString, Value> = context.collect();
        let failed = machine.stage() != Stage::Going;
        driver::resume(setup, machine, context, Resumption { failed, ..Resumption::default() })
    }

    fn machine(&self, events: &[Event]) -> Machine {
        let mut fold = Fold::new(Arc::clone(&self.plan));
        for event in events {
            fold.apply(event).unwrap_or_else(|misfit| panic!("{misfit:?} of {events:#?}"));
        }
        fold.machine
    }

    /// The lines of a file that steps wrote, each once.
    fn lines(&self, name: &str) -> BTreeSet<String> {
        let text = std::fs::read_to_string(self.folder.join(name)).unwrap();
        text.lines().map(|line| line.trim_end().to_owned()).collect()
    }

    /// What is on disk now.
    fn left(&self) -> Left {
        let store = Store::open(&self.folder.join(".threadline")).unwrap();
        let events = read(&store);
        let values = Values::new(store.reader(), RunId::new(RUN).unwrap());
        let names = self.machine(&events).names().into_iter();
        let names = names.map(|(name, seq)| (name, values.output(seq).unwrap().value.to_string())).collect();
        let lines = std::fs::read_to_string(self.folder.join("effects")).unwrap_or_default();
        let mut effects = BTreeMap::new();
        for line in lines.lines() {
            *effects.entry(line.to_owned()).or_default() += 1;
        }
        Left { events, names, effects }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A folder that is left behind does no harm.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn read(store: &Store) -> Vec<Event> {
    let run = RunId::new(RUN).unwrap();
    match store.reader().events(&run, 1) {
        Ok(events) => events.map(Result::unwrap).collect(),
        Err(StoreError::NoSuchRun { .. }) => Vec::new(),
        Err(error) => panic!("{error:?}"),
    }
}

#[derive(Debug, PartialEq)]
enum Driven {
    Ended(Ending, u64),
    Crashed,
}

/// A run as it is on disk, and what its steps did.
struct Left {
    events: Vec<Event>,
    names: BTreeMap<EcoString, String>,
    effects: BTreeMap<String, u64>,
}

impl Left {
    /// The steps that are done.
    fn finished(&self) -> BTreeSet<String> {
        let done =
            |event: &&Event| matches!(event.kind, EventKind::Finished { .. } | EventKind::Skipped { .. });
        self.events.iter().filter(done).map(|event| event.at.to_string()).collect()
    }

    fn effects_of(&self, at: &str) -> u64 {
        self.effects.get(at).copied().unwrap_or(0)
    }

    fn attempts_of(&self, at: &str) -> u64 {
        let started =
            |event: &&Event| event.at == at && matches!(event.kind, EventKind::Started { rerun: false, .. });
        self.events.iter().filter(started).count() as u64
    }
}

fn examples() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/crash");
    let mut examples: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(&path).unwrap())
        })
        .collect();
    examples.sort();
    assert!(examples.len() >= 3);
    examples
}

/// Everything that was done before a crash is not done after it.
fn compare(before: &Left, after: &Left, why: &str) {
    let same =
        before.events.iter().zip(&after.events).all(|(one, two)| format!("{one:?}") == format!("{two:?}"));
    assert!(same && before.events.len() <= after.events.len(), "{why}: the journal was rewritten");
    for at in before.finished() {
        assert_eq!(before.effects_of(&at), after.effects_of(&at), "{why}: `{at}` was done and ran again");
    }
}

/// The end is that of an undisturbed run, and whatever ran twice was in flight at a crash.
fn compare_ends(undisturbed: &Left, left: &Left, crashes: u64, why: &str) {
    assert_eq!(left.names, undisturbed.names, "{why}");
    let mut finished = BTreeMap::new();
    let mut fields = BTreeMap::new();
    let mut defined = BTreeSet::new();
    for event in &left.events {
        match &event.kind {
            EventKind::Finished { .. } | EventKind::Skipped { .. } => {
                *finished.entry(event.at.clone()).or_insert(0) += 1;
            }
            EventKind::Started { attempt, fields: hash, .. } => {
                let first = *fields.entry((event.at.clone(), *attempt)).or_insert(*hash);
                assert_eq!(first, *hash, "{why}: `{}` saw something else when it ran again", event.at);
            }
            EventKind::Defined { name, .. } => {
                assert!(defined.insert(name.clone()), "{why}: `context.{name}` was evaluated twice");
            }
            _ => {}
        }
    }
    assert!(finished.values().all(|times| *times == 1), "{why}: {finished:?}");
    assert_eq!(left.finished(), undisturbed.finished(), "{why}");
    for at in undisturbed.effects.keys() {
        let (attempts, ran) = (left.attempts_of(at), left.effects_of(at));
        let most = attempts + crashes;
        assert!((attempts..=most).contains(&ran), "{why}: `{at}` ran {ran} times in {attempts} attempts");
    }
}

#[test]
fn every_commit_of_every_example() {
    for (name, source) in examples() {
        let place = Place::new(&format!("{name}-whole"), &source);
        let Driven::Ended(Ending::Ended(Outcome::Completed), commits) = place.drive(None, None) else {
            panic!("{name} does not complete: {:#?}", place.left().events);
        };
        let undisturbed = place.left();
        println!("{name}: {} events in {commits} commits", undisturbed.events.len());
        for number in 1..=commits {
            for crash in [WritePoint::Before(number), WritePoint::After(number)] {
                one_crash(&name, &source, crash, &undisturbed);
            }
        }
    }
}

fn one_crash(name: &str, source: &str, crash: WritePoint, undisturbed: &Left) {
    let why = format!("{name}, {crash:?}");
    let place = Place::new(&format!("{name}-{crash:?}").replace(['(', ')'], "-"), source);
    let mut crashes = u64::from(place.drive(Some(crash), None) == Driven::Crashed);
    let first = place.left();
    // Once more while it resumes: the commits of a store are counted from its opening.
    let number = match crash {
        WritePoint::Before(number) | WritePoint::Shipped(number) | WritePoint::After(number) => {
            1 + number % 4
        }
    };
    let over =
        |left: &Left| matches!(left.events.last().map(|event| &event.kind), Some(EventKind::RunEnded { .. }));
    if !over(&first) {
        crashes += u64::from(place.drive(Some(WritePoint::After(number)), None) == Driven::Crashed);
    }
    let second = place.left();
    compare(&first, &second, &why);
    if !over(&second) {
        let end = place.drive(None, None);
        assert!(matches!(end, Driven::Ended(Ending::Ended(Outcome::Completed), _)), "{why}: {end:?}");
    }
    let left = place.left();
    compare(&second, &left, &why);
    compare_ends(undisturbed, &left, crashes, &why);
}

/// The disk is lost with the process, before and after what it writes is kept elsewhere and committed: another machine
/// makes the journal anew. Whatever was told before is there, nothing that finished runs again, and the end is the same.
#[test]
fn a_disk_is_lost_at_every_border_of_a_segment() {
    let is_long = std::env::var_os("THREADLINE_LONG").is_some_and(|value| value == "1");
    for (name, source) in examples() {
        let place = Place::new(&format!("{name}-kept"), &source);
        let Driven::Ended(Ending::Ended(Outcome::Completed), commits) = place.drive(None, None) else {
            panic!("{name} does not complete: {:#?}", place.left().events);
        };
        let undisturbed = place.left();
        let step = if is_long { 1 } else { 4 };
        for number in (1..=commits).step_by(step) {
            for crash in [WritePoint::Before(number), WritePoint::Shipped(number), WritePoint::After(number)]
            {
                lose_disk(&name, &source, crash, &undisturbed);
            }
        }
    }
}

fn lose_disk(name: &str, source: &str, crash: WritePoint, undisturbed: &Left) {
    let why = format!("{name}, {crash:?}, and the disk is lost");
    let mut place = Place::new(&format!("{name}-lost-{crash:?}").replace(['(', ')'], "-"), source);
    place.segments = Some(MemorySegments::default());
    let crashed = place.drive(Some(crash), None) == Driven::Crashed;
    let before = place.left();
    std::fs::remove_dir_all(place.folder.join(".threadline")).unwrap();
    std::fs::create_dir(place.folder.join(".threadline")).unwrap();
    let over = matches!(before.events.last().map(|event| &event.kind), Some(EventKind::RunEnded { .. }));
    if over {
        return;
    }
    let end = place.drive(None, None);
    assert!(matches!(end, Driven::Ended(Ending::Ended(Outcome::Completed), _)), "{why}: {end:?}");
    let left = place.left();
    compare(&before, &left, &why);
    compare_ends(undisturbed, &left, u64::from(crashed), &why);
}

/// A step that must not run again counts as failed, or waits until somebody says.
#[test]
fn steps_in_flight_follow_on_crash() {
    let cases = [
        ("rerun", None, 2, Status::Completed),
        ("fail", None, 1, Status::Failed),
        ("ask", Some(OnCrash::Rerun), 2, Status::Completed),
        ("ask", Some(OnCrash::Fail), 1, Status::Failed),
        ("fail", Some(OnCrash::Rerun), 2, Status::Completed),
        ("rerun", Some(OnCrash::Fail), 1, Status::Failed),
    ];
    for (on_crash, in_flight, runs, status) in cases {
        let why = format!("{on_crash}, {in_flight:?}");
        let source = format!(
            "- id: step\n  shell: echo \"$THREADLINE_STEP\" >> effects\n  on_crash: {on_crash}\n  \
             continue_on_error: true\n"
        );
        let place = Place::new(&format!("in-flight-{}", why.replace([' ', ',', '(', ')'], "-")), &source);
        // The commits: the run, the text, the beginning, the start of the step, its end.
        let crash = place.drive(Some(WritePoint::Before(5)), None);
        assert_eq!(crash, Driven::Crashed, "{why}");
        let started = place.left();
        assert!(matches!(started.events.last().unwrap().kind, EventKind::Started { .. }), "{why}");
        assert_eq!(started.effects_of("1"), 1, "{why}");
        if on_crash == "ask" {
            let asked = place.drive(None, None);
            let Driven::Ended(Ending::Waiting(tasks), _) = asked else { panic!("{why}: {asked:?}") };
            assert_eq!(tasks.len(), 1);
        }
        let end = place.drive(None, in_flight);
        assert!(matches!(end, Driven::Ended(Ending::Ended(Outcome::Completed), _)), "{why}: {end:?}");
        let left = place.left();
        assert_eq!(left.effects_of("1"), runs, "{why}");
        let output = left.events.iter().find_map(|event| match &event.kind {
            EventKind::Finished { output, .. } => Some(output),
            _ => None,
        });
        let output = output.unwrap();
        assert_eq!(output.status, status, "{why}");
        let again =
            left.events.iter().filter(|event| matches!(event.kind, EventKind::Started { rerun: true, .. }));
        assert_eq!(again.count() as u64, runs - 1, "{why}");
        if status == Status::Failed {
            assert!(matches!(&output.value, Datum::Here(value) if value.is_null()), "{why}");
            assert_eq!(output.meta.get("error_type"), Some(&Value::from("Crash")), "{why}");
        }
    }
}

/// The first item is tried again after a pause, and lets the others end; they run when the pause begins, and again
/// when the run is resumed. Somebody has to look after the pause although as many run as were there to begin with.
#[test]
fn a_pause_ends_while_others_run() {
    let source = r"
- foreach: [0, 1, 2]
  parallel: 3
  do:
    - shell: |
        touch begun${item}
        if test ${item} = 0; then
          until test -e begun1 && test -e begun2; do sleep 0.01; done
          test -e once || { touch once; exit 1; }
          touch release
        fi
        until test -e release; do sleep 0.01; done
      timeout: 60s
      retry: {attempts: 2, delay: 200ms}
";
    let place = Place::new("pause", source);
    let stopped = place.live(None, None, |what| matches!(what, EventKind::Retrying { .. }));
    assert!(matches!(stopped, Driven::Ended(Ending::Stopped, _)), "{stopped:?}");
    assert!(!place.folder.join("release").exists());
    let end = place.drive(None, None);
    assert!(matches!(end, Driven::Ended(Ending::Ended(Outcome::Completed), _)), "{end:?}");
    let left = place.left();
    let count = |of: fn(&EventKind) -> bool| left.events.iter().filter(|event| of(&event.kind)).count();
    assert_eq!(count(|what| matches!(what, EventKind::Started { rerun: true, .. })), 2);
    assert_eq!(count(|what| matches!(what, EventKind::Retrying { .. })), 1, "the others waited in vain");
}

/// Two of six items are let fail.
const LET_FAIL: &str = r#"
context:
  token: ${uuid}
setup:
  - shell: echo "$THREADLINE_STEP" >> effects; od -An -N8 -tx1 /dev/urandom | tr -d ' \n'
    capture: made
map:
  input: [0, 1, 2, 3, 4, 5]
  max_parallel: 3
  agent_template:
    - shell: |
        echo "$THREADLINE_STEP" >> effects
        echo ${context.token} ${setup.variables.made} >> known
    - shell: |
        echo "$THREADLINE_STEP" >> effects
        echo ${item.index} ${item.attempt} ${item.previous_error} >> tried
        case ${item} in 1|4) test -e mended ;; esac
error_policy: {continue_on_failure: true}
reduce:
  steps:
    - id: counted
      shell: echo "$THREADLINE_STEP" >> effects; echo ${map.successful} ${map.failed}
    - id: attempts
      value: ${map.results | collect("attempts")}
  exports: [counted, attempts]
finally:
  - shell: echo "$THREADLINE_STEP" >> effects
"#;

/// Items that were let fail are done again where they failed, and everything after the map; killed at every commit of
/// that, it comes to the same end.
#[test]
fn items_that_were_let_fail_are_done_again() {
    let finished = |name: &str| {
        let place = Place::new(name, LET_FAIL);
        let end = place.drive(None, None);
        assert!(matches!(end, Driven::Ended(Ending::Ended(Outcome::Completed), _)), "{end:?}");
        place
    };
    let completed = |end: &Driven| matches!(end, Driven::Ended(Ending::Ended(Outcome::Completed), _));

    let place = finished("again");
    let first = place.left();
    assert_eq!((first.names["counted"].as_str(), first.names["attempts"].as_str()), ("4 2", "[1,1,1,1,1,1]"));
    assert!(place.machine(&first.events).has_tolerated_failures());
    // Nothing was put right: they fail again, and everything after them runs again.
    assert!(completed(&place.drive(None, None)));
    let second = place.left();
    assert_eq!(
        (second.names["counted"].as_str(), second.names["attempts"].as_str()),
        ("4 2", "[1,2,1,1,2,1]")
    );
    std::fs::write(place.folder.join("mended"), "").unwrap();
    let Driven::Ended(Ending::Ended(Outcome::Completed), commits) = place.drive(None, None) else {
        panic!("it does not complete: {:#?}", place.left().events);
    };
    let third = place.left();
    assert_eq!((third.names["counted"].as_str(), third.names["attempts"].as_str()), ("6 0", "[1,3,1,1,3,1]"));
    assert!(!place.machine(&third.events).has_tolerated_failures());
    for item in 0..6 {
        let again = if item == 1 || item == 4 { 3 } else { 1 };
        // An item goes on where it failed.
        assert_eq!(third.effects_of(&format!("map[{item}]/1")), 1);
        assert_eq!(third.effects_of(&format!("map[{item}]/2")), again);
    }
    for at in ["setup/1", "reduce/1", "finally/1"] {
        assert_eq!(third.effects_of(at), if at == "setup/1" { 1 } else { 3 }, "{at}");
    }
    assert_eq!(place.lines("known").len(), 1);
    let tried = place.lines("tried");
    assert!(tried.contains("1 1") && tried.iter().filter(|line| line.starts_with("4 3 ")).count() == 1);

    for number in 1..=commits {
        for crash in [WritePoint::Before(number), WritePoint::After(number)] {
            let why = format!("{crash:?} of {commits}");
            let place = finished(&format!("again-{crash:?}").replace(['(', ')'], "-"));
            let before = place.left();
            std::fs::write(place.folder.join("mended"), "").unwrap();
            let mut crashes = u64::from(place.drive(Some(crash), None) == Driven::Crashed);
            crashes +=
                u64::from(place.drive(Some(WritePoint::After(1 + number % 5)), None) == Driven::Crashed);
            let end = place.drive(None, None);
            assert!(completed(&end), "{why}: {end:?}");
            let left = place.left();
            assert_eq!(left.names["counted"], "6 0", "{why}");
            assert_eq!(left.names["attempts"], "[1,2,1,1,2,1]", "{why}");
            for item in [0, 2, 3, 5] {
                let at = format!("map[{item}]/2");
                assert_eq!(left.effects_of(&at), 1, "{why}: `{at}` was over");
            }
            for at in before.finished().into_iter().filter(|at| at.starts_with("map[") && at.ends_with("/1"))
            {
                assert_eq!(left.effects_of(&at), 1, "{why}: `{at}` was done");
            }
            for at in ["map[1]/2", "map[4]/2", "reduce/1", "finally/1"] {
                let most = 2 + crashes;
                assert!((2..=most).contains(&left.effects_of(at)), "{why}: `{at}` {}", left.effects_of(at));
            }
            assert_eq!(left.effects_of("setup/1"), 1, "{why}");
            assert_eq!(place.lines("known").len(), 1, "{why}");
            assert!(!place.machine(&left.events).has_tolerated_failures(), "{why}");
        }
    }
}
