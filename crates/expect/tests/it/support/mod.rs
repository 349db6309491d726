//! What the tests of this crate share.
use threadline_expect::{
    Actual, Evaluation, ExpectationAnswer, ExpectationOutcome, Expectations, LoadContext, NoJudge, load,
};
use threadline_lang::data::{DataFormat, read_value};
use threadline_lang::diag::Diagnostic;
use threadline_lang::source::SourceFile;
use threadline_lang::{Limits, NoWorld, Scope, Session, Value};

pub(crate) fn json(text: &str) -> Value {
    read_value(text, DataFormat::Json, &Limits::DEFAULT).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// What a text is as a file of expectations.
pub(crate) fn loaded(text: &str, format: DataFormat) -> (Option<Expectations>, Vec<Diagnostic>) {
    load(&SourceFile::with_format("expectations", text, format), &LoadContext::DEFAULT)
}

/// Expectations that have no problem but warnings.
#[track_caller]
pub(crate) fn sound(text: &str) -> Expectations {
    let (expectations, problems) = loaded(text, DataFormat::Json);
    expectations.unwrap_or_else(|| panic!("{problems:#?}\n{text}"))
}

pub(crate) fn detected(text: &str) -> Actual {
    Actual::detect(json(text)).unwrap_or_else(|_| panic!("too deep"))
}

/// Does something with an evaluation that has neither a world nor a judge.
pub(crate) fn evaluating<T>(actual: &Actual, action: impl FnOnce(&mut Evaluation<'_, '_>) -> T) -> T {
    let (scope, mut world, mut judge) = (Scope::new(), NoWorld, NoJudge);
    let mut session = Session::new(&mut world);
    action(&mut Evaluation::new(actual, &scope, &mut session, &mut judge))
}

pub(crate) fn answer(expectations: &Expectations, actual: &Actual) -> ExpectationAnswer {
    evaluating(actual, |evaluation| evaluation.answer_all(expectations))
}

pub(crate) fn outcomes(expectations: &Expectations, actual: &Actual) -> Vec<ExpectationOutcome> {
    evaluating(actual, |evaluation| evaluation.explain_all(expectations))
}
