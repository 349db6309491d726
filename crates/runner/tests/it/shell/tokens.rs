//! Any text: the reader neither panics nor hangs, its spans lie in the text, and what it binds holds no reference more.

use std::time::{Duration, Instant};

use threadline_flow::shell::{AnalysisContext, Dialect, analyse};
use threadline_lang::diag::Severity;
use threadline_lang::{NoWorld, Session, Syntax, Value};

use super::random::{Random, is_long, seed};
use super::shells::scope;

/// Pieces that mean something to a shell or to us.
const TOKENS: &[&str] = &[
    "${v}",
    "${v | words}",
    "${v | raw}",
    "${v.x}",
    "${n}",
    "${nope}",
    "${= n + 1}",
    "$${v}",
    "$$${v}",
    "\\${v}",
    "${",
    "}",
    "${HOME}",
    "${HOME:-",
    "${#A[@]}",
    "${A[",
    "${V#",
    "${V/",
    "${V:",
    "$(",
    ")",
    "$((",
    "))",
    "((",
    "`",
    "\\`",
    "\\",
    "'",
    "\"",
    "$'",
    "$\"",
    "$[",
    "]",
    "[[ ",
    " ]]",
    "[ ",
    "{",
    "{1..",
    "~",
    "#",
    " # ",
    "\n",
    " ",
    ";",
    ";;",
    "&",
    "&&",
    "|",
    "||",
    "<",
    ">",
    "<<EOF\n",
    "<<'EOF'\n",
    "<<-EOF\n",
    "\nEOF\n",
    "<<<",
    "<(",
    ">&",
    "if ",
    "then ",
    "fi",
    "for x in ",
    "do ",
    "done",
    "case x in ",
    "esac",
    "a) ",
    "x=",
    "A=(",
    "A[",
    "]=",
    "eval ",
    "sh -c ",
    "echo ",
    "printf %s ",
    "awk ",
    "export ",
    "read ",
    "let ",
    "function f ",
    "f() ",
    "é",
    "😀",
    "\t",
    "\r\n",
    "\u{0}",
    "-c",
    "--",
    "=",
    "=~",
    "@(",
    "!",
    "%",
    "in ",
    "(",
    "TL_1",
    "${context.cmd}",
    "${v:-${v}}",
    "${file:x}",
    "${date:0:4}",
    "$1",
    "$x",
    "x",
];

fn check(text: &str, dialect: Dialect) {
    let syntax = Syntax::DEFAULT;
    let names = [("v".to_owned(), Value::from("a b")), ("n".to_owned(), Value::from(5))];
    let roots = |name: &str| matches!(name, "v" | "n" | "context");
    let literal = |name: &str| (name == "cmd").then(|| "wc -l; x '".into());
    let setting = AnalysisContext { literal: &literal, ..AnalysisContext::new(dialect, &syntax, &roots) };
    let (script, problems) = analyse(text, &setting);
    for problem in &problems {
        assert!(text.get(problem.span.range()).is_some(), "{problem:?} in {text:?}");
    }
    for reference in script.references() {
        assert!(text.get(reference.span.range()).is_some(), "{reference:?} in {text:?}");
    }
    let mut world = NoWorld;
    let refused = problems.iter().any(|problem| problem.severity == Severity::Error);
    let bound = script.bind(&scope(&names), &mut Session::new(&mut world));
    assert!(!(refused && bound.is_ok()), "{text:?} is refused and bound");
    let Ok(bound) = bound else { return };
    if !text.contains("$${") && !text.contains("context") {
        let (again, _) = analyse(&bound.text, &setting);
        assert_eq!(again.references(), [], "{dialect:?} {text:?} is bound as {:?}", bound.text);
    }
}

#[test]
fn any_text() {
    let mut random = Random::new(seed("tokens"));
    let count = if is_long() { 2_000_000 } else { 40_000 };
    for number in 0..count {
        let length = random.below(14);
        let text: String = (0..length).map(|_| *random.choose(TOKENS)).collect();
        check(&text, [Dialect::Bash, Dialect::Posix, Dialect::Zsh][number % 3]);
    }
}

/// Nesting is bounded, so the stack is, too.
#[test]
fn deep_nesting() {
    let openings = [
        "$(",
        "\"$(",
        "\"${V:-",
        "${V#",
        "${A[",
        "$((",
        "(",
        "{ ",
        "case x in a) ",
        "if [[ \"$(",
        "A=(\"$(",
        "`",
        "<(",
        "cat <<EOF\n$(",
        "x=\"${V:-$(case \"${A[$((",
        "f() { \"$(",
        "for x in \"$(",
        "[[ a == @(\"$(",
    ];
    for first in openings {
        for second in openings {
            let text = format!("{first}{second}").repeat(300) + "${v}";
            for dialect in [Dialect::Bash, Dialect::Posix, Dialect::Zsh] {
                check(&text, dialect);
            }
        }
    }
}

/// Eight times the text takes about eight times the time, whatever is repeated.
#[test]
fn time_grows_with_the_text() {
    for token in TOKENS {
        for around in [["", ""], ["echo \"$(", ")\""], ["a[", "]=x"], ["cat <<EOF\n", "\nEOF\n"]] {
            let time = |count: usize| {
                let text = format!("{}{}{}", around[0], token.repeat(count), around[1]);
                let start = Instant::now();
                check(&text, Dialect::Bash);
                start.elapsed().max(Duration::from_millis(2))
            };
            // A busy machine may be slow once; what grows with the square is slow each time.
            let grows = (0..5).all(|_| time(1_600) > time(200) * 40);
            assert!(
                !grows,
                "{token:?} in {around:?} takes much more than eight times the time for eight times the text"
            );
        }
    }
}
