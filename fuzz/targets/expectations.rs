//! Any text as a file of expectations: no panic, no hang, no stack overflow, and every problem points into the text.
//!
//! What can be read is evaluated against one answer of an agent: explained or not, the answer is the same.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use threadline_expect::{Actual, Evaluation, LoadContext, NoJudge, load};
use threadline_fuzz::prepare;
use threadline_lang::data::{DataFormat, read_value};
use threadline_lang::diag::Diagnostic;
use threadline_lang::source::SourceFile;
use threadline_lang::{Limits, Session};

mod fixture;

use fixture::{FakeWorld, scope, small_limits};

const ANSWER: &str = r#"{
  "text": "I cannot send 5 DOT, because your balance is low. Shall I try 2.50?", "type": "clarification",
  "plan": [
    {"agent": "AssetTransferAgent", "function": "transfer", "params": {"amount": "5 DOT", "recipient": "Alice"}},
    {"agent": "B", "function": "swap", "params": {"amount": 9007199254740993, "type": "x"}},
    {"agent": null}
  ],
  "facts": {"contextBalance": 2.5, "list": [1, 5, "abc"], "x": {"a": {"b": null}}, "handled": ["limits"]},
  "usage": {"cost": "0.01", "at": "2024-05-06T07:08:09Z"}
}"#;

static ACTUAL: LazyLock<Actual> = LazyLock::new(|| {
    let document = read_value(ANSWER, DataFormat::Json, &Limits::DEFAULT).expect("it is JSON");
    Actual::detect(document).expect("it is not deep")
});

fuzz_target!(init: prepare(), |data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for format in [DataFormat::Yaml, DataFormat::Json] {
        expectations(text, &SourceFile::with_format("expectations", text, format));
    }
});

fn expectations(text: &str, file: &SourceFile) {
    let (expectations, problems) = load(file, &LoadContext::DEFAULT);
    for problem in &problems {
        assert!(text.get(problem.span.range()).is_some(), "{problem:?} in {text:?}");
    }
    let Some(expectations) = expectations else {
        return assert!(
            problems.iter().any(Diagnostic::is_error),
            "neither expectations nor an error: {text:?}"
        );
    };
    let (scope, mut world, mut judge) = (scope(), FakeWorld, NoJudge);
    let mut session = Session::new(&mut world).limits(small_limits());
    let mut evaluation = Evaluation::new(&ACTUAL, &scope, &mut session, &mut judge);
    for expectation in expectations.members() {
        let outcome = evaluation.explain(expectation);
        assert_eq!(outcome.answer, evaluation.answer(expectation), "{text:?}");
        assert!(!outcome.reason.is_empty());
    }
    evaluation.answer_all(&expectations);
    evaluation.explain_all(&expectations);
}
