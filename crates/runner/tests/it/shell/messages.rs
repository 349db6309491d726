//! What is refused, where, and in which words: cases as data.
//!
//! A case in `messages.txt` is a line `SHELL: TEXT`; `⏎` stands for a line break, `⇥` for a tab. Below it stand the text
//! as it is bound, or what is said about it. A new case is such a line; `THREADLINE_UPDATE=1 cargo test
//! -p threadline-runner --test it messages::` writes the rest, and the difference is to be read. `argv: [...]` is a list without a shell.

use std::fmt::Write;
use std::path::Path;

use ecow::EcoString;
use threadline_flow::shell::{
    AnalysisContext, Argv, BindError, Delivery, Dialect, EnvironmentName, ShellProblem, analyse,
};
use threadline_lang::data::json::read_value;
use threadline_lang::diag::Severity;
use threadline_lang::{Limits, NoWorld, Scope, Session, Syntax, Value};

const VALUES: &str = r#"{"item": "a b", "version": "1.2", "n": 5, "xs": ["a b", "-c"], "none": [], "dash": "-x", "nul": "a\u0000b",
  "object": {"k": 1}, "nothing": null, "yes": true, "tool-1": {"score": 9}, "context": {"cmd": "wc -l", "text": "t"}}"#;

fn json(text: &str) -> Value {
    read_value(text, &Limits::DEFAULT).unwrap()
}

/// What is said about a text.
fn told(shell: &str, text: &str) -> String {
    let values = json(VALUES);
    let object = values.as_object().unwrap();
    let scope = Scope::new().with_values("data", object.clone());
    let mut world = NoWorld;
    let mut session = Session::new(&mut world);
    if shell == "argv" {
        return told_argv(text, &scope, &mut session);
    }
    let dialect = Dialect::of_program(shell).unwrap_or_else(|| panic!("no shell `{shell}`"));
    let known: Vec<EcoString> = object.iter().map(|(key, _)| key.as_str().into()).collect();
    let syntax = Syntax { kinds: vec!["ticket".into()], ..Syntax::DEFAULT };
    let roots = |name: &str| values.get(name).is_some();
    let setting = AnalysisContext {
        known: &|| known.clone(),
        environment: &[EnvironmentName { name: "given".into(), holds_value: false, secret: None }],
        literal: &|name| (name == "cmd").then(|| "wc -l".into()),
        ..AnalysisContext::new(dialect, &syntax, &roots)
    };
    let (script, problems) = analyse(text, &setting);
    let mut out = String::new();
    for problem in &problems {
        say(&mut out, text, problem);
    }
    match script.bind(&scope, &mut session) {
        Ok(bound) => {
            writeln!(out, "  bound: {}", encoded(&bound.text)).unwrap();
            bound.warnings.iter().for_each(|warning| say(&mut out, text, warning));
            let files = bound.variables.iter().filter(|variable| variable.delivery == Delivery::Path);
            for variable in files {
                writeln!(out, "  file: {} holds {:?}", variable.name, variable.value).unwrap();
            }
        }
        Err(errors) => errors.iter().for_each(|error| say_error(&mut out, text, error, &problems)),
    }
    out
}

fn told_argv(text: &str, scope: &Scope, session: &mut Session<'_>) -> String {
    let list = json(text);
    let entries: Vec<&str> = list.as_list().unwrap().iter().map(|entry| entry.as_str().unwrap()).collect();
    let (argv, problems) =
        Argv::analyse(&entries, &AnalysisContext::new(Dialect::Posix, &Syntax::DEFAULT, &|_| true));
    let mut out = String::new();
    for (at, problem) in &problems {
        say(&mut out, entries[*at], problem);
    }
    match argv.bind(scope, session, |_, _| ()) {
        Ok(arguments) => {
            let shown = arguments.iter().map(|argument| {
                if argument.is_file {
                    format!("file of {:?}", argument.value)
                } else {
                    format!("{:?}", argument.value)
                }
            });
            writeln!(out, "  bound: {}", shown.collect::<Vec<_>>().join(" ")).unwrap();
        }
        Err(errors) => {
            let known: Vec<_> = problems.into_iter().map(|(_, problem)| problem).collect();
            for (at, error) in &errors {
                say_error(&mut out, entries[*at], error, &known);
            }
        }
    }
    out
}

fn say_error(out: &mut String, text: &str, error: &BindError, known: &[ShellProblem]) {
    match error {
        BindError::Refused(problem) if known.contains(problem) => {}
        BindError::Refused(problem) => say(out, text, problem),
        BindError::Evaluation(error) => {
            writeln!(out, "  evaluation `{}`: {error}", encoded(&text[error.span().range()])).unwrap();
        }
    }
}

fn say(out: &mut String, text: &str, problem: &ShellProblem) {
    let severity = if problem.severity == Severity::Error { "error" } else { "warning" };
    let place = text.get(problem.span.range()).unwrap_or_else(|| panic!("{problem:?} in {text:?}"));
    writeln!(out, "  {severity}[{}] `{}`: {}", problem.id, encoded(place), encoded(&problem.message))
        .unwrap();
    if let Some(hint) = &problem.hint {
        writeln!(out, "    hint: {}", encoded(hint)).unwrap();
    }
}

fn decoded(text: &str) -> String {
    text.replace('⏎', "\n").replace('⇥', "\t")
}

fn encoded(text: &str) -> String {
    text.replace('\n', "⏎").replace('\t', "⇥")
}

#[test]
fn every_message() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/shell/messages.txt");
    let expected = std::fs::read_to_string(&path).unwrap();
    let mut actual = String::new();
    for line in expected.lines().filter(|line| !line.starts_with(' ')) {
        writeln!(actual, "{line}").unwrap();
        if let Some((shell, text)) = line.split_once(": ")
            && !line.starts_with('#')
        {
            actual.push_str(&told(shell, &decoded(text)));
        }
    }
    if std::env::var_os("THREADLINE_UPDATE").is_some() {
        std::fs::write(&path, &actual).unwrap();
    }
    for (actual, expected) in actual.lines().zip(expected.lines()) {
        assert_eq!(actual, expected);
    }
    assert_eq!(actual, expected);
}
