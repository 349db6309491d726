//! Any text as an expression: no panic, no hang, no stack overflow, no limit passed.
//!
//! What parses prints to a text that parses, prints the same and has the same value, and explains itself.

#![no_main]

use libfuzzer_sys::fuzz_target;
use threadline_fuzz::prepare;
use threadline_lang::{Expression, Session, Syntax};

mod fixture;

use fixture::{FakeWorld, check_spans, is_depth, is_limit, scope, small_limits};

fuzz_target!(init: prepare(), |data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let syntax = Syntax { kinds: vec!["ticket".into()], ..Syntax::DEFAULT };
    let expression = match Expression::parse(text, &syntax) {
        Ok(expression) => expression,
        Err(error) => return check_spans(text, &[error]),
    };
    let scope = scope();
    let mut world = FakeWorld;
    let mut session = Session::new(&mut world).limits(small_limits());
    let value = expression.value(&scope, &mut session);
    if let Err(error) = &value {
        check_spans(text, std::slice::from_ref(error));
        let _ = error.diagnostic();
    }
    let printed = expression.print();
    match Expression::parse(printed.as_str(), &syntax) {
        Ok(again) => {
            assert_eq!(again.print(), printed, "printing {text:?} again differs");
            let mut session = Session::new(&mut world).limits(small_limits());
            let other = again.value(&scope, &mut session);
            match (&value, &other) {
                (Ok(value), Ok(other)) => assert_eq!(value, other, "{text:?} printed as {printed:?}"),
                (Err(error), Err(other)) if !is_limit(error) && !is_limit(other) => {
                    assert_eq!(error.id(), other.id(), "{text:?} printed as {printed:?}");
                }
                // The printed form may cost more operations.
                (Err(error), _) | (_, Err(error)) => assert!(is_limit(error), "{text:?}: {value:?}, {other:?}"),
            }
        }
        // The printed form may need parentheses where the depth was just allowed.
        Err(error) => assert!(is_depth(&error), "{text:?} printed as {printed:?}: {error:?}"),
    }
    let mut session = Session::new(&mut world).limits(small_limits());
    let explained = expression.explain(&scope, &mut session).outcome;
    match (&value, explained) {
        (Ok(value), Some(Ok(explained))) => assert_eq!(value, &explained),
        (Err(error), Some(Err(explained))) => assert_eq!(error.id(), explained.id()),
        // Explaining counts every path as an operation.
        (value, Some(Err(explained))) => assert!(is_limit(&explained), "{value:?}, {explained:?}"),
        (value, explained) => panic!("{text:?}: {value:?}, explained as {explained:?}"),
    }
    let mut session = Session::new(&mut world).limits(small_limits());
    let _ = expression.condition(&scope, &mut session);
    assert!(expression.references().iter().all(|reference| text.get(reference.span.range()).is_some()));
    check_spans(text, &expression.check(&scope));
});
