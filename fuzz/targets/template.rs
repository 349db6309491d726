//! Any text as a template: no panic, no hang, no stack overflow, no limit passed.
//!
//! What parses prints to a text that parses and prints the same, evaluates within its limits, and lists its references.

#![no_main]

use libfuzzer_sys::fuzz_target;
use threadline_fuzz::prepare;
use threadline_lang::{Session, Syntax, Template, render};

mod fixture;

use fixture::{FakeWorld, check_spans, is_depth, scope, small_limits};

fuzz_target!(init: prepare(), |data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let syntax = Syntax { kinds: vec!["ticket".into()], ..Syntax::DEFAULT };
    let template = match Template::parse(text, &syntax) {
        Ok(template) => template,
        Err(errors) => return check_spans(text, &errors),
    };
    let printed = template.print();
    match Template::parse(printed.as_str(), &syntax) {
        Ok(again) => assert_eq!(again.print(), printed, "printing {text:?} again differs"),
        // The printed form may need parentheses where the depth was just allowed.
        Err(errors) => assert!(errors.iter().all(is_depth), "{text:?} printed as {printed:?}: {errors:?}"),
    }
    let scope = scope();
    let mut world = FakeWorld;
    let mut session = Session::new(&mut world).limits(small_limits());
    let mut out = String::from("kept");
    let rendered = template.text(&scope, &mut session, &mut out);
    match &rendered {
        Ok(()) => assert!(out.starts_with("kept")),
        Err(error) => {
            assert_eq!(out, "kept");
            check_spans(text, std::slice::from_ref(error));
            let _ = error.diagnostic();
        }
    }
    let mut session = Session::new(&mut world).limits(small_limits());
    let value = template.value(&scope, &mut session);
    assert!(rendered.is_err() || value.is_ok(), "{text:?}: a text, but no value");
    if let (Ok(()), Ok(value)) = (&rendered, &value)
        && !text.contains("uuid")
    {
        assert_eq!(&out["kept".len()..], value.to_string());
    }
    let references = template.references();
    assert!(references.iter().all(|reference| text.get(reference.span.range()).is_some()));
    check_spans(text, &template.check(&scope));
    let mut session = Session::new(&mut world).limits(small_limits()).traced();
    let _ = render(text, &scope, &mut session);
    let _ = session.take_trace();
});
