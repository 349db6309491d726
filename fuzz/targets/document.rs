//! Any text as a YAML or JSON document: no panic, no hang, no stack overflow, no limit passed.
//!
//! What is read prints to a text that reads back equal; what is resolved does too.

#![no_main]

use libfuzzer_sys::fuzz_target;
use threadline_fuzz::prepare;
use threadline_lang::data::locate::locate;
use threadline_lang::data::{DataFormat, read_value, yaml};
use threadline_lang::value::JsonStyle;
use threadline_lang::{Document, DocumentError, Error, Limits, Origin, ScopeEntry, Session, Syntax, Value};

mod fixture;

use fixture::{FakeWorld, scope, small_limits};

fuzz_target!(init: prepare(), |data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for format in [DataFormat::Json, DataFormat::Yaml] {
        match read_value(text, format, &Limits::DEFAULT) {
            Ok(value) => reads_back(&value),
            Err(error) => {
                assert!(text.get(error.span.range()).is_some(), "{error:?} in {text:?}");
                assert!(text.is_char_boundary(error.offset()));
                let _ = error.to_string();
            }
        }
        document(text, format);
    }
});

fn document(text: &str, format: DataFormat) {
    let read = Document::read(text, format, &Syntax::DEFAULT);
    // A value has a document, and nothing else has.
    let value = read_value(text, format, &Limits::DEFAULT);
    let mut document = match read {
        Ok(document) => document,
        Err(DocumentError::Read(_)) => return assert!(value.is_err(), "{text:?}: a value, but no document"),
        Err(DocumentError::Templates { errors, rest }) => {
            for error in &errors {
                located(text, error);
            }
            rest
        }
    };
    for (origin, reference) in document.references() {
        inside(text, &origin, reference.span.start as usize);
        inside(text, &origin, reference.span.end as usize);
    }
    let mut world = FakeWorld;
    let mut scope = scope();
    for error in &document.check(&scope) {
        located(text, error);
    }
    if let Ok(Some(definitions)) = document.define("context") {
        let entry = ScopeEntry::Definitions(definitions);
        scope = scope.with_entries("context", [("context".into(), entry)]).ok().expect("one name");
    }
    let mut session = Session::new(&mut world).limits(small_limits());
    match document.resolve(&scope, &mut session) {
        Ok(value) => {
            // A value may hold one part many times over.
            if text.len() < 512 && !text.contains("${") {
                reads_back(&value);
            }
        }
        Err(errors) => {
            assert!(!errors.is_empty());
            for error in &errors {
                located(text, error);
            }
        }
    }
    for warning in session.take_warnings() {
        if let Some(origin) = &warning.origin {
            inside(text, origin, warning.span.start as usize);
        }
    }
}

fn reads_back(value: &Value) {
    // Aliases repeat; a text of all that they repeat would only be slow.
    let json = value.to_json(JsonStyle::Compact);
    if json.len() > 1 << 16 {
        return;
    }
    let again = read_value(&json, DataFormat::Json, &Limits::DEFAULT).expect("printed JSON reads back");
    assert_eq!(&again, value);
    assert_eq!(again.to_json(JsonStyle::Compact), json);
    let mut written = String::new();
    yaml::write(value, &mut written);
    let again = read_value(&written, DataFormat::Yaml, &Limits::DEFAULT)
        .unwrap_or_else(|error| panic!("{error:?} in {written:?}"));
    assert_eq!(&again, value, "{written}");
    assert_eq!(again.to_json(JsonStyle::Compact), json, "{written}");
}

fn located(text: &str, error: &Error) {
    let _ = error.diagnostic();
    if let Some(origin) = error.origin() {
        inside(text, origin, error.span().start as usize);
        inside(text, origin, error.span().end as usize);
    }
}

fn inside(text: &str, origin: &Origin, offset: usize) {
    let at = locate(text, origin.span, origin.style, offset);
    assert!(text.is_char_boundary(at), "{at} of {text:?}");
    let span = origin.span.range();
    assert!(span.start <= at && at <= span.end, "{at} is not in {span:?} of {text:?}");
}
