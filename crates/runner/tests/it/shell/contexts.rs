//! G1: a bound value is one word, byte for byte, in every context, and never runs.

use threadline_flow::shell::Dialect;
use threadline_lang::Value;

use super::random::{Random, is_long, seed};
use super::shells::{Folder, Shell, bind, installed};

/// A piece of a script that prints a value, `VALUE` standing for the reference.
struct Context {
    name: &'static str,
    /// What stands once before and behind all pieces.
    around: (&'static str, &'static str),
    piece: &'static str,
    /// What each piece prints.
    prints: fn(&str) -> String,
    shells: Shells,
    /// One in so many values is tried: each costs a process.
    every: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Shells {
    All,
    BashAndZsh,
    Bash,
}

const NUL: char = '\0';

fn ended(text: &str) -> String {
    format!("{text}{NUL}")
}

/// A line that no value holds, between the values of one here-document.
const BETWEEN: &str = "=====between-7f3a9c=====";

const fn context(name: &'static str, piece: &'static str, prints: fn(&str) -> String) -> Context {
    Context { name, around: ("", ""), piece, prints, shells: Shells::All, every: 1 }
}

const fn not_posix(mut context: Context) -> Context {
    context.shells = Shells::BashAndZsh;
    context
}

const fn rarely(mut context: Context) -> Context {
    context.every = 10;
    context
}

const fn around(mut context: Context, before: &'static str, after: &'static str) -> Context {
    context.around = (before, after);
    context
}

fn contexts() -> Vec<Context> {
    let between = |text: &str| format!("{text}\n{BETWEEN}\n");
    vec![
        context("plain", "printf '%s\\0' VALUE\n", ended),
        context("several", "printf '%s\\0' VALUE b VALUE\n", |v| format!("{v}\0b\0{v}\0")),
        context("glued", "printf '%s\\0' a/VALUE.b\n", |v| format!("a/{v}.b\0")),
        context("glued to quotes", "printf '%s\\0' \"a\"VALUE'b'VALUE\"c\"\n", |v| format!("a{v}b{v}c\0")),
        context("double quotes", "printf '%s\\0' \"x VALUE y\"\n", |v| format!("x {v} y\0")),
        context("double quotes alone", "printf '%s\\0' \"VALUE\"\n", ended),
        context("single quotes", "printf '%s\\0' 'x VALUE \"y\" $HOME'\n", |v| {
            format!("x {v} \"y\" $HOME\0")
        }),
        not_posix(context("dollar quotes", "printf '%s\\0' $'x\\tVALUE\\'y'\n", |v| format!("x\t{v}'y\0"))),
        context("behind a dollar", "printf '%s\\0' \\$VALUE \"\\$VALUE\"\n", |v| format!("${v}\0${v}\0")),
        context("substitution", "printf '%s\\0' \"$(printf '%s.' VALUE)\"\n", |v| format!("{v}.\0")),
        context(
            "nested substitution",
            "printf '%s\\0' \"$(printf '%s.' \"$(printf '%s.' \"VALUE\")\")\"\n",
            |v| format!("{v}..\0"),
        ),
        context("backquotes", "X=`printf '%s.' VALUE`; printf '%s\\0' \"$X\"\n", |v| format!("{v}.\0")),
        context("assignment", "X=VALUE; printf '%s\\0' \"$X\"\n", ended),
        context("assignment with text", "X=\"a VALUE\"b:VALUE; printf '%s\\0' \"$X\"\n", |v| {
            format!("a {v}b:{v}\0")
        }),
        context("export", "export X=VALUE; printf '%s\\0' \"$X\"; unset X\n", ended),
        context("local", "f() { local x=VALUE; printf '%s\\0' \"$x\"; }; f\n", ended),
        context("for", "for X in VALUE b; do printf '%s\\0' \"$X\"; done\n", |v| format!("{v}\0b\0")),
        context("case", "case VALUE in VALUE) printf 'same\\0' ;; *) printf 'other\\0' ;; esac\n", |_| {
            "same\0".to_owned()
        }),
        context(
            "case with text",
            "case xVALUEx in x\"VALUE\"*) printf 'same\\0' ;; *) printf 'other\\0' ;; esac\n",
            |_| "same\0".to_owned(),
        ),
        context(
            "case in substitution",
            "printf '%s\\0' \"$(case a in a) printf '%s.' VALUE ;; esac)\"\n",
            |v| format!("{v}.\0"),
        ),
        context("default in quotes", "printf '%s\\0' \"${NONE:-VALUE}\" \"${NONE-a VALUE}\"\n", |v| {
            format!("{v}\0a {v}\0")
        }),
        context("default", "printf '%s\\0' ${NONE:-VALUE}\n", ended),
        context("default with quotes", "printf '%s\\0' ${NONE:-'a VALUE b'\"VALUE\"}\n", |v| {
            format!("a {v} b{v}\0")
        }),
        context(
            "comment in a substitution",
            "printf '%s\\0' \"$(# it's ) a comment\nprintf '%s.' VALUE)\"\n",
            |v| format!("{v}.\0"),
        ),
        context("behind a pattern", "S=.x; X=a.x; printf '%s\\0' \"${X%\"$S\"}VALUE${X#?}\"\n", |v| {
            format!("a{v}.x\0")
        }),
        rarely(context(
            "redirection",
            "printf '%s\\0' VALUE > f; while IFS= read -r X; do :; done < f; cat f; rm f\n",
            ended,
        )),
        context("alternative", "printf '%s\\0' \"${HOME:+VALUE}\"\n", ended),
        context("prefix pattern", "X=VALUEz; printf '%s\\0' \"${X#VALUE}\" ${X##VALUE}\n", |_| {
            "z\0z\0".to_owned()
        }),
        context("suffix pattern", "X=zVALUE; printf '%s\\0' \"${X%VALUE}\" ${X%%VALUE}\n", |_| {
            "z\0z\0".to_owned()
        }),
        not_posix(context("replaced pattern", "X=aVALUEz; printf '%s\\0' \"${X/VALUEz/-}\"\n", |_| {
            "a-\0".to_owned()
        })),
        not_posix(context(
            "replacement",
            "X=azb; printf '%s\\0' \"${X/z/VALUE}\" \"${X//z/xVALUE}\"\n",
            |v| format!("a{v}b\0ax{v}b\0"),
        )),
        not_posix(context("array", "A=(VALUE b \"VALUE\"); printf '%s\\0' \"${A[@]}\"\n", |v| {
            format!("{v}\0b\0{v}\0")
        })),
        not_posix(context("appended array", "A=(); A+=(VALUE); printf '%s\\0' \"${A[@]}\"\n", ended)),
        not_posix(context(
            "conditional",
            "if [[ VALUE == VALUE && xVALUE != VALUE ]]; then printf 'same\\0'; fi\n",
            |_| "same\0".to_owned(),
        )),
        context("test", "if [ xVALUE = xVALUE ]; then printf 'same\\0'; fi\n", |_| "same\0".to_owned()),
        context("positional", "set -- VALUE b; printf '%s\\0' \"$1\" \"$#\"\n", |v| format!("{v}\x002\0")),
        context("function", "f() { printf '%s\\0' \"$1\"; }; f VALUE\n", ended),
        context("group", "{ printf '%s\\0' VALUE; } ; ( printf '%s\\0' VALUE )\n", |v| format!("{v}\0{v}\0")),
        context("condition", "if ! false && true; then printf '%s\\0' VALUE; else :; fi\n", ended),
        context("comment", "# VALUE ' \" ` $( ${\nprintf '%s\\0' VALUE # it's VALUE\n", ended),
        context("continued line", "printf '%s\\0' \\\n  VALUE \\\n  b\n", |v| format!("{v}\0b\0")),
        around(
            context("here-document", "VALUE\n=====between-7f3a9c=====\n", between),
            "cat <<EOF\n",
            "EOF\n",
        ),
        around(
            context("quoted here-document", "VALUE\n=====between-7f3a9c=====\n", between),
            "cat <<'EOF'\n",
            "EOF\n",
        ),
        around(
            context(
                "quoted here-document with code",
                "\\$`'\"VALUE$HOME\\\\\n=====between-7f3a9c=====\n",
                |v| format!("\\$`'\"{v}$HOME\\\\\n{BETWEEN}\n"),
            ),
            "cat <<\\EOF\n",
            "EOF\n",
        ),
        around(
            context("here-document with tabs", "\tVALUE\n\t=====between-7f3a9c=====\n", between),
            "cat <<-'EOF'\n",
            "\tEOF\n",
        ),
        around(
            context("here-document in a substitution", "VALUE\n=====between-7f3a9c=====\n", between),
            "printf '%s\\n' \"$(cat <<EOF\n",
            "EOF\n)\"\n",
        ),
        rarely(context(
            "two here-documents",
            "cat <<A; cat <<'B'; printf '\\0'\n1VALUE\nA\n2VALUE\nB\n",
            |v| format!("1{v}\n2{v}\n\0"),
        )),
        rarely(not_posix(context("here-string", "cat <<< VALUE; printf '\\0'\n", |v| format!("{v}\n\0")))),
        rarely(not_posix(context("process", "cat <(printf '%s' VALUE); printf '\\0'\n", ended))),
        rarely(context("environment", "X=VALUE sh -c 'printf \"%s\\0\" \"$X\"'\n", ended)),
        rarely(context("argument of a program", "sh -c 'printf \"%s\\0\" \"$1\"' sh VALUE\n", ended)),
        rarely(context("pipeline", "printf '%s' VALUE | cat; printf '\\0'\n", ended)),
        Context {
            shells: Shells::Bash,
            ..context("regex", "if [[ VALUE =~ ^VALUE$ ]]; then printf 'same\\0'; fi\n", |_| {
                "same\0".to_owned()
            })
        },
    ]
}

fn applies(context: &Context, shell: Shell) -> bool {
    match context.shells {
        Shells::All => true,
        Shells::BashAndZsh => shell.dialect != Dialect::Posix,
        Shells::Bash => shell.dialect == Dialect::Bash,
    }
}

/// Runs a context with some values in one process; gives what went wrong.
fn check(context: &Context, shell: Shell, values: &[String], folder: &Folder) -> Result<(), String> {
    let names: Vec<_> = values
        .iter()
        .enumerate()
        .map(|(at, value)| (format!("v{at}"), Value::from(value.as_str())))
        .collect();
    let mut text = context.around.0.to_owned();
    let mut expected = String::new();
    for (at, value) in values.iter().enumerate() {
        text.push_str(&context.piece.replace("VALUE", &format!("${{v{at}}}")));
        expected.push_str(&(context.prints)(value));
    }
    text.push_str(context.around.1);
    let bound = bind(&text, shell.dialect, &names)
        .map_err(|problems| format!("{} in {}: {:?}", context.name, shell.name, problems[0]))?;
    let output = shell.run_bound(&bound, &folder.0);
    let printed = String::from_utf8_lossy(&output.stdout);
    if printed == expected && output.stderr.is_empty() {
        return Ok(());
    }
    if values.len() > 1 {
        // One of them is at fault: find it, to show only that.
        for value in values {
            check(context, shell, std::slice::from_ref(value), folder)?;
        }
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "{} in {} with {values:?}\nbound: {}\nprinted:  {printed:?}\nexpected: {expected:?}\nstderr: {stderr}",
        context.name, shell.name, bound.text,
    ))
}

/// What went wrong in one shell, at most one thing per context.
fn check_shell(shell: Shell, values: &[String]) -> Vec<String> {
    let folder = Folder::new();
    let mut failures = Vec::new();
    for context in contexts().iter().filter(|context| applies(context, shell)) {
        let tried: Vec<String> = values.iter().step_by(context.every).cloned().collect();
        let result = tried.chunks(100).try_for_each(|batch| check(context, shell, batch, &folder));
        failures.extend(result.err());
    }
    let left = folder.files();
    if !left.is_empty() {
        failures.push(format!("{}: something ran and left {left:?}", shell.name));
    }
    failures
}

#[test]
fn every_value_in_every_context() {
    let mut random = Random::new(seed("values"));
    let count = if is_long() { 100_000 } else { 1_000 };
    let values: Vec<String> = (0..count).map(|_| random.hostile()).collect();
    let failures: Vec<String> = std::thread::scope(|threads| {
        let running: Vec<_> = installed()
            .into_iter()
            .map(|shell| {
                let values = &values[..shell.share(values.len())];
                threads.spawn(move || check_shell(shell, values))
            })
            .collect();
        running.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}
