//! Expectations evaluated by Threadline. The document is prepared; everything else is made for each operation.

use std::process::ExitCode;

use threadline_bench_shared::{self as shared, Contestant, Json, json};
use threadline_expect::{
    Actual, Evaluation, ExpectationAnswer, ExpectationOutcome, Expectations, LoadContext, NoJudge, load,
};
use threadline_lang::source::SourceFile;
use threadline_lang::{Limits, NoWorld, Scope, Session, data};

fn main() -> ExitCode {
    shared::serve(|workload, _| match workload {
        "E1" => Some(answered(shared::FLAT, &shared::answer())),
        "E1wide" => Some(answered(shared::FLAT, &shared::wide_answer())),
        "E2" => Some(answered(shared::LOGICAL, &shared::answer())),
        "E3" => Some(answered(&many(), &shared::answer())),
        "E4" => Some(explained(shared::FLAT)),
        "E5" => Some(loaded(shared::FLAT)),
        _ => None,
    })
}

fn read(text: &str) -> Expectations {
    let file = SourceFile::with_format("sample.yaml", text, data::DataFormat::Yaml);
    let (expectations, problems) = load(&file, &LoadContext::DEFAULT);
    assert!(problems.is_empty(), "{problems:?}");
    expectations.expect("the samples are expectations")
}

/// E3, as a file.
fn many() -> String {
    let one = |index| {
        let (word, low, high) = shared::one_of_many(index);
        json!({
            "responseType": "execution",
            "expectedFunction": "transfer",
            "expectedParams": {"recipient": "Alice"},
            "facts.contextBalance": {"gte": low, "lte": high},
            "shouldContain": [word],
            "shouldNotContain": ["error", "failed"],
        })
    };
    (0..shared::MANY).map(one).collect::<Json>().to_string()
}

fn actual(document: &Json) -> Actual {
    let value =
        data::json::read_value(&document.to_string(), &Limits::DEFAULT).expect("the samples are JSON");
    Actual::detect(value).expect("the samples are small")
}

/// What a caller does who wants to know whether all is met.
fn answer(expectations: &Expectations, actual: &Actual) -> bool {
    let (scope, mut world, mut judge) = (Scope::new(), NoWorld, NoJudge);
    let mut session = Session::new(&mut world);
    Evaluation::new(actual, &scope, &mut session, &mut judge).answer_all(expectations)
        == ExpectationAnswer::Met
}

/// What a caller does who wants to know why.
fn explain(expectations: &Expectations, actual: &Actual) -> Vec<ExpectationOutcome> {
    let (scope, mut world, mut judge) = (Scope::new(), NoWorld, NoJudge);
    let mut session = Session::new(&mut world);
    Evaluation::new(actual, &scope, &mut session, &mut judge).explain_all(expectations)
}

/// What is said of every document.
fn said(mut of: impl FnMut(&Actual) -> bool) -> Json {
    shared::documents().iter().map(|document| of(&actual(document))).collect()
}

/// E1, E2, E3: read once, only the answer.
fn answered(text: &str, document: &Json) -> Contestant {
    let (expectations, document) = (read(text), actual(document));
    assert!(answer(&expectations, &document), "the answer meets everything");
    let checked = expectations.clone();
    Contestant::new(move || answer(&expectations, &document), move || said(|actual| answer(&checked, actual)))
}

/// E4: read once, unmet, with its tree.
fn explained(text: &str) -> Contestant {
    let (expectations, document) = (read(text), actual(&shared::documents()[shared::UNMET]));
    let checked = expectations.clone();
    let is_met = move |actual: &Actual| {
        explain(&checked, actual).iter().all(|outcome| outcome.answer == ExpectationAnswer::Met)
    };
    Contestant::new(move || explain(&expectations, &document), move || said(&is_met))
}

/// E5: from text.
fn loaded(text: &'static str) -> Contestant {
    Contestant::new(move || read(text), move || said(|actual| answer(&read(text), actual)))
}
