//! The stored form of events: what later versions added is left out where there is nothing to say, and what cannot be
//! read is an error.

#![expect(clippy::unwrap_used, reason = "what cannot be read fails the test")]

use std::time::Duration;

use threadline_engine::Hash;
use threadline_engine::event::{
    Address, Budget, BudgetChange, Caller, Continued, ContinuedThread, Datum, EventKind, ExactStream,
    ExactStreams, ExchangeMode, KeptMaker, KeptResult, KeySource, Listed, Output, RemoteService, RerunTarget,
    Rules, RunStarted, Status, ValueEncoding,
};
use threadline_engine::spend::Spend;
use threadline_engine::visits::EventSort;
use threadline_lang::{Limits, Number, Value, data};
use threadline_store::wire;

fn started() -> RunStarted {
    let nothing = || Datum::Here(Value::NULL);
    RunStarted {
        run: "abcdefgh".into(),
        workflow: "w".into(),
        file: "w.yaml".into(),
        text: Hash::of(b"text"),
        inputs: nothing(),
        imports: nothing(),
        imported: Vec::new(),
        payload: nothing(),
        set: Vec::new(),
        trust_set: false,
        folder: "/".into(),
        program: "0.1.0".into(),
        jobs: None,
        files: Vec::new(),
        caller: None,
        continues: None,
        exchanges: None,
        on: None,
        budgets: Vec::new(),
    }
}

fn read(kind: &str, payload: &str) -> RunStarted {
    match wire::decode(kind, payload).unwrap() {
        EventKind::RunStarted(started) => started,
        what => panic!("{what:?}"),
    }
}

#[test]
fn a_run_that_calls_and_was_called_is_read_as_it_was_written() {
    let files = vec![("a.yaml".into(), Hash::of(b"a")), ("b/c.yaml".into(), Hash::of(b"c"))];
    let caller = Caller { run: "abcdefgh".into(), at: Address::parse("3[17]/1").unwrap(), attempt: 2 };
    let written = RunStarted { files: files.clone(), caller: Some(caller.clone()), ..started() };
    let (kind, payload) = wire::encode(&EventKind::RunStarted(written));
    let again = read(kind, &payload);
    assert_eq!(again.files, files);
    assert_eq!(again.caller, Some(caller));
}

#[test]
fn a_run_of_an_earlier_version_called_nothing() {
    let (kind, payload) = wire::encode(&EventKind::RunStarted(started()));
    assert!(!payload.contains("files") && !payload.contains("caller"), "{payload}");
    let again = read(kind, &payload);
    assert!(again.files.is_empty() && again.caller.is_none());
}

#[test]
fn what_a_caller_does_not_have_is_refused() {
    let caller = Caller { run: "abcdefgh".into(), at: Address::parse("1").unwrap(), attempt: 1 };
    let (kind, payload) =
        wire::encode(&EventKind::RunStarted(RunStarted { caller: Some(caller), ..started() }));
    let more = payload.replace("\"attempt\":1", "\"attempt\":1,\"mood\":1");
    assert!(wire::decode(kind, &more).is_err());
}

/// Why the event with one text replaced by another cannot be read.
fn refusal(event: &EventKind, old: &str, new: &str) -> String {
    let (kind, payload) = wire::encode(event);
    let changed = payload.replacen(old, new, 1);
    assert_ne!(changed, payload, "there is no `{old}` in {payload}");
    wire::decode(kind, &payload).unwrap();
    wire::decode(kind, &changed).unwrap_err().why
}

#[test]
fn garbage_is_not_read_as_nothing() {
    let files = vec![("a.yaml".into(), Hash::of(b"a"))];
    let begins = EventKind::RunStarted(RunStarted { jobs: Some(4), files, ..started() });
    assert_eq!(refusal(&begins, "\"jobs\":4", "\"jobs\":\"four\""), "`jobs` is not an int");
    assert_eq!(refusal(&begins, "\"jobs\":4", "\"jobs\":-4"), "`jobs` is below 0");
    assert_eq!(refusal(&begins, "\"files\":[", "\"files\":7,\"more\":["), "`files` is not a list");
    let rules = Rules { most_failed: Some(3), goes_on: true, ..Rules::STRICT };
    let items = Listed::Whole(Datum::Here(Value::list(Vec::new()).unwrap()));
    let expanded = EventKind::Expanded {
        as_of: 1,
        computed: Vec::new(),
        items,
        count: 0,
        read: None,
        parallel: 1,
        rules,
        source: None,
    };
    let refused = refusal(&expanded, "\"most_failed\":3", "\"most_failed\":\"all\"");
    assert_eq!(refused, "`most_failed` is not an int");
    let resumed = EventKind::Resumed { failed: true, budgets: Vec::new(), jobs: None };
    assert_eq!(refusal(&resumed, "true", "\"yes\""), "`failed` is not a bool");
}

#[test]
fn what_agents_used_and_may_use_is_read_as_it_was_written() {
    let budget = Budget {
        turns: Some(5),
        tokens: None,
        cost: Number::parse("0.10").ok(),
        time: Some(Duration::from_millis(1_500)),
    };
    let changes = vec![
        BudgetChange { step: None, budget: budget.clone() },
        BudgetChange { step: Some("3.do.1".into()), budget: Budget { tokens: Some(7), ..Budget::default() } },
    ];
    let resumed = EventKind::Resumed { failed: false, budgets: changes.clone(), jobs: None };
    let (kind, payload) = wire::encode(&resumed);
    match wire::decode(kind, &payload).unwrap() {
        EventKind::Resumed { budgets, .. } => assert_eq!(budgets, changes),
        what => panic!("{what:?}"),
    }
    assert_eq!(refusal(&resumed, "\"turns\":5", "\"turns\":0"), "`turns` is not a whole number above 0");
    assert_eq!(refusal(&resumed, "\"turns\"", "\"turn\""), "it holds a key that is not known");
    let spent =
        Spend { turns: 2, input_tokens: 1_000, cost: Number::parse("0.5").unwrap(), ..Spend::default() };
    let paused = EventKind::Paused {
        reason: "stopped".into(),
        failed_items: None,
        spent: Some(Box::new(spent.clone())),
    };
    let (kind, payload) = wire::encode(&paused);
    match wire::decode(kind, &payload).unwrap() {
        EventKind::Paused { spent: Some(found), .. } => assert_eq!(*found, spent),
        what => panic!("{what:?}"),
    }
    assert!(
        !payload.contains("estimated"),
        "what earlier versions did not know is only written where it says something"
    );
    let lost = Spend { estimated: 1, ..spent };
    for goes_on in [true, false] {
        let (kind, payload) = wire::encode(&EventKind::CallLost { spent: Box::new(lost.clone()), goes_on });
        match wire::decode(kind, &payload).unwrap() {
            EventKind::CallLost { spent, goes_on: found } => {
                assert_eq!((*spent, found), (lost.clone(), goes_on));
            }
            what => panic!("{what:?}"),
        }
    }
    assert_eq!(refusal(&paused, "\"turns\":2", "\"turns\":-2"), "`spent` is not what agents used");
    assert_eq!(refusal(&paused, "\"unpriced\"", "\"unprised\""), "`spent` is not what agents used");
}

#[test]
fn what_a_run_keeps_of_another_is_read_as_it_was_written() {
    let target = RerunTarget { step: "3.do.1".into(), items: vec![17], visit: Some(2) };
    let continues = Continued {
        run: "bcdefghj".into(),
        first: "abcdefgh".into(),
        start_time: "2026-01-31T08:00:00.000Z".into(),
        from: vec![target],
        keeps_commits: true,
        stopped_after: Some(7),
    };
    let (kind, payload) =
        wire::encode(&EventKind::RunStarted(RunStarted { continues: Some(continues.clone()), ..started() }));
    assert_eq!(read(kind, &payload).continues, Some(continues));
    assert!(wire::decode(kind, &payload.replace("\"first\"", "\"second\"")).is_err());
    let kept = KeptResult {
        as_of: 3,
        maker: KeptMaker { run: "bcdefghj".into(), event: 7 },
        computed: Vec::new(),
        fields: Hash::of(b"fields"),
        work: Hash::of(b"work"),
    };
    let nothing = || Datum::Here(Value::NULL);
    let (status, meta) = (Status::Completed, Value::empty_object());
    let output = Output {
        status,
        value: nothing(),
        output: None,
        stderr: None,
        meta,
        spent: None,
        thread: None,
        exact: None,
    };
    let finished = EventKind::Finished { output, results: None, kept: Some(Box::new(kept.clone())) };
    let (kind, payload) = wire::encode(&finished);
    match wire::decode(kind, &payload).unwrap() {
        EventKind::Finished { kept: Some(found), .. } => assert_eq!(*found, kept),
        what => panic!("{what:?}"),
    }
    assert_eq!(refusal(&finished, "\"event\":7", "\"event\":-7"), "`event` is below 0");
}

#[test]
fn the_address_of_a_caller_is_one() {
    let caller = Caller { run: "abcdefgh".into(), at: Address::parse("3[17]/1").unwrap(), attempt: 1 };
    let begins = EventKind::RunStarted(RunStarted { caller: Some(caller), ..started() });
    assert_eq!(refusal(&begins, "3[17]/1", "3[17/1"), "`3[17/1` is not the address of a step");
}

/// Versions that had binary floats told them from decimals. Each is read as the decimal that it was shown as.
#[test]
fn a_binary_float_of_an_earlier_version_is_read_as_it_was_shown() {
    let json = |text: &str| data::json::read_value(text, &Limits::DEFAULT).expect("JSON");
    let tagged =
        r#"{"object":{"rate":{"float":"0.7"},"tiny":{"float":"1e-10"},"list":[{"float":"2.0"},1.10]}}"#;
    let shown = json(r#"{"rate":0.7,"tiny":1e-10,"list":[2.0,1.10]}"#);
    let datum = wire::read_datum(&Value::record([("tagged", json(tagged))]));
    assert_eq!(datum, Ok(Datum::Here(shown.clone())));
    assert_eq!(wire::value_of(ValueEncoding::Tagged, tagged.to_owned()), Ok(shown.clone()));
    // What is written again is read as the same.
    let written = wire::datum(&Datum::Here(shown.clone()));
    assert_eq!(wire::read_datum(&written), Ok(Datum::Here(shown)));
    let refused = wire::value_of(ValueEncoding::Tagged, r#"{"float":"inf"}"#.to_owned());
    assert_eq!(refused, Err("it is not a number".to_owned()));
}

#[test]
fn a_thread_that_a_step_continued_is_read_as_it_was_written() {
    let conversation = Datum::Here(Value::record([("messages", Value::sequence([]))]));
    let thread = ContinuedThread { name: "talk".into(), conversation };
    let output = Output {
        spent: None,
        status: Status::Completed,
        value: Datum::Here(Value::NULL),
        output: None,
        stderr: None,
        meta: Value::empty_object(),
        thread: Some(Box::new(thread.clone())),
        exact: None,
    };
    let (kind, payload) = wire::encode(&EventKind::Finished { output, results: None, kept: None });
    match wire::decode(kind, &payload).unwrap() {
        EventKind::Finished { output, .. } => assert_eq!(output.thread.as_deref(), Some(&thread)),
        what => panic!("{what:?}"),
    }
}

#[test]
fn how_a_program_printed_its_output_is_read_as_it_was_written() {
    let exact = ExactStreams {
        stdout: Some(ExactStream::Base64(Datum::Here("//4=".into()))),
        stderr: Some(ExactStream::Ending("\n\r\n".into())),
    };
    let output = Output {
        spent: None,
        status: Status::Completed,
        value: Datum::Here("??".into()),
        output: None,
        stderr: Some(Datum::Here("done".into())),
        meta: Value::empty_object(),
        thread: None,
        exact: Some(Box::new(exact.clone())),
    };
    let (kind, payload) = wire::encode(&EventKind::Finished { output, results: None, kept: None });
    match wire::decode(kind, &payload).unwrap() {
        EventKind::Finished { output, .. } => assert_eq!(output.exact.as_deref(), Some(&exact)),
        what => panic!("{what:?}"),
    }
}

#[test]
fn where_programs_run_is_read_as_it_was_written() {
    for key in [KeySource::File("/a/key".into()), KeySource::Variable("KEY".into())] {
        for (blobs, bundle) in
            [(None, false), (Some("s3://bucket/a".into()), false), (Some("x".into()), true)]
        {
            let (address, key) = ("restate://a:8080".into(), key.clone());
            let on = Some(RemoteService { address, key, blobs, bundle, replicated: bundle });
            let (kind, payload) =
                wire::encode(&EventKind::RunStarted(RunStarted { on: on.clone(), ..started() }));
            assert_eq!(read(kind, &payload).on, on);
        }
    }
}

#[test]
fn what_becomes_of_exchanges_is_read_as_it_was_written() {
    let record = ExchangeMode::Record { folder: "calls".into() };
    let replay = ExchangeMode::Replay { folder: "/tmp/calls".into(), live: vec!["a".into()] };
    for mode in [record, replay] {
        let (kind, payload) =
            wire::encode(&EventKind::RunStarted(RunStarted { exchanges: Some(mode.clone()), ..started() }));
        assert_eq!(read(kind, &payload).exchanges, Some(mode));
    }
}

/// Whoever reads kinds and no payloads takes an event for what it is.
#[test]
fn the_kind_of_a_stored_event_tells_its_sort() {
    let output = || Output {
        status: Status::Completed,
        value: Datum::Here(Value::NULL),
        output: None,
        stderr: None,
        meta: Value::NULL,
        spent: None,
        thread: None,
        exact: None,
    };
    let (computed, exports) = (Vec::new, || Datum::Here(Value::NULL));
    let (ended, failed_items, spent) = (None, None, None);
    let outcome = threadline_engine::machine::Outcome::Completed;
    let events = [
        EventKind::RunStarted(started()),
        EventKind::Finished { output: output(), results: None, kept: None },
        EventKind::Unresolved { as_of: 1, computed: computed(), output: output() },
        EventKind::Skipped { as_of: 1, computed: computed(), output: output() },
        EventKind::Retrying { output: output(), until: 1, keeps_exchanges: false },
        EventKind::Decided { as_of: 1, computed: computed() },
        EventKind::OutcomeKnown { outcome, run: exports() },
        EventKind::RunEnded { outcome, exports: exports(), ended, failed_items, spent },
        EventKind::Resumed { failed: false, budgets: Vec::new(), jobs: None },
        EventKind::Paused { reason: "".into(), failed_items: None, spent: None },
    ];
    for event in events {
        let (kind, _) = wire::encode(&event);
        assert_eq!(wire::sort_of(kind), EventSort::of(&event), "{kind}");
    }
    assert_eq!(wire::sort_of("judged"), EventSort::Judges);
}
