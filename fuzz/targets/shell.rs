//! Any text as shell text, in every dialect: no panic, no hang; every reference is bound or refused.
//!
//! What is bound holds no reference of ours any more, for its reading again finds none: the quoting around a reference
//! was seen rightly, or at least the same way twice.

#![no_main]

use libfuzzer_sys::fuzz_target;
use threadline_flow::shell::{AnalysisContext, Argv, Dialect, EnvironmentName, analyse};
use threadline_fuzz::prepare;
use threadline_lang::diag::Severity;
use threadline_lang::{Session, Syntax};

mod fixture;

use fixture::{FakeWorld, check_spans, scope, small_limits};

fuzz_target!(init: prepare(), |data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for dialect in [Dialect::Bash, Dialect::Posix, Dialect::Sh, Dialect::Zsh] {
        check(text, dialect);
    }
    let entries: Vec<&str> = text.lines().collect();
    let (argv, problems) = Argv::analyse(&entries, &AnalysisContext::new(Dialect::Posix, &Syntax::DEFAULT, &|_| true));
    for (entry, problem) in &problems {
        assert!(entries[*entry].get(problem.span.range()).is_some(), "{problem:?} in {text:?}");
    }
    let mut world = FakeWorld;
    let _ = argv.bind(&scope(), &mut Session::new(&mut world).limits(small_limits()), |_, _| ());
});

fn check(text: &str, dialect: Dialect) {
    let scope = scope();
    let known = scope.names();
    let syntax = Syntax { kinds: vec!["ticket".into()], ..Syntax::DEFAULT };
    let roots = |name: &str| known.iter().any(|known| known == name);
    let literal = |name: &str| (name == "x").then(|| "echo \"x\" |".into());
    let environment = [EnvironmentName { name: "set".into(), holds_value: true, secret: None }];
    let setting = AnalysisContext {
        known: &|| known.clone(),
        environment: &environment,
        literal: &literal,
        ..AnalysisContext::new(dialect, &syntax, &roots)
    };
    let (script, problems) = analyse(text, &setting);
    for problem in &problems {
        assert!(text.get(problem.span.range()).is_some(), "{problem:?} in {text:?}");
    }
    for reference in script.references() {
        assert!(text.get(reference.span.range()).is_some(), "{reference:?} in {text:?}");
    }
    check_spans(text, &script.check(&scope));
    let refused = problems.iter().any(|problem| problem.severity == Severity::Error);
    let mut world = FakeWorld;
    let bound = script.bind(&scope, &mut Session::new(&mut world).limits(small_limits()));
    assert!(!(refused && bound.is_ok()), "{text:?} is refused and bound");
    let Ok(bound) = bound else { return };
    let _ = bound.script(|index| format!("/private/{index}"));
    // An escape leaves a `${` for the shell; pasted text may hold anything.
    if !["$${", "raw", "context"].iter().any(|word| text.contains(word)) {
        let (again, _) = analyse(&bound.text, &setting);
        assert!(again.references().is_empty(), "{dialect:?} {text:?} is bound as {:?}", bound.text);
    }
}
