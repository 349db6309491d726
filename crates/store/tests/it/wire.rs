//! The stored form of what a run begins with: what later versions added is left out where there is nothing to say.

#![expect(clippy::unwrap_used, reason = "what cannot be read fails the test")]

use threadline_engine::Hash;
use threadline_engine::event::{Address, Caller, Datum, EventKind, RunStarted};
use threadline_lang::Value;
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
        payload: nothing(),
        set: Vec::new(),
        trust_set: false,
        folder: "/".into(),
        program: "0.1.0".into(),
        jobs: None,
        files: Vec::new(),
        caller: None,
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
