//! G3: every place that evaluates again is refused, takes only an int, or is warned about, before a child starts; and
//! the safe spelling of each runs right.

use std::collections::BTreeSet;

use threadline_flow::shell::{
    AnalysisContext, ArgSelector, BindError, CARRIERS, Dialect, HAZARDS, Hazard, HazardRule, ShellProblem,
    analyse, is_code_variable,
};
use threadline_flow::{load, plan};
use threadline_lang::diag::Severity;
use threadline_lang::source::SourceFile;
use threadline_lang::{NoWorld, Session, Syntax, Value};

use super::shells::{Folder, SHELLS, bind, found, scope};

const ATTACKS: &str = include_str!("../../shell/attacks.txt");
const SAFE: &str = include_str!("../../shell/safe.txt");

/// A value that runs in every place that evaluates it.
const HOSTILE: &str = "a[$(touch hit)];touch hit;`touch hit`";

/// Values for the safe spellings.
const VALUES: [&str; 4] =
    ["it's \"x\" $(touch hit) `touch hit` \\n %s ${HOME} *", HOSTILE, "é\t😀 ; && | > < # ~", "a b"];

fn lines(cases: &str) -> impl Iterator<Item = (&str, String)> {
    let cases = cases.lines().filter(|line| !line.starts_with('#'));
    cases.map(|line| {
        let (head, command) =
            line.split_once(": ").unwrap_or_else(|| panic!("a case is `ID: COMMAND`: {line}"));
        (head, command.replace('⏎', "\n"))
    })
}

fn row(id: &str) -> &'static Hazard {
    HAZARDS.iter().find(|place| place.id == id).unwrap_or_else(|| panic!("no row {id}"))
}

/// The problems before binding, and those of binding a value.
fn problems(text: &str, dialect: Dialect, value: &Value) -> (Vec<ShellProblem>, Vec<ShellProblem>) {
    let syntax = Syntax::DEFAULT;
    let names = [("v".to_owned(), value.clone())];
    let (script, before) = analyse(text, &AnalysisContext::new(dialect, &syntax, &|name| name == "v"));
    let mut world = NoWorld;
    let bound = script.bind(&scope(&names), &mut Session::new(&mut world));
    let when_bound = bound.err().unwrap_or_default().into_iter().map(|error| match error {
        BindError::Refused(problem) => problem,
        BindError::Evaluation(error) => panic!("{error:?}"),
    });
    (before, when_bound.collect())
}

/// What is wrong when a row of the table must be about the command.
fn check(place: &Hazard, dialect: Dialect, command: &str) -> Option<String> {
    let told = |found: &[ShellProblem], id: &str, severity| {
        found.iter().any(|problem| {
            problem.id == id && problem.severity == severity && problem.hint.as_deref() == Some(place.fix)
        })
    };
    let with = |value: &Value| problems(command, dialect, value).1;
    let (before, when_bound) = problems(command, dialect, &Value::from(HOSTILE));
    let right = match place.rule {
        HazardRule::Refuse => told(&before, "shell-evaluates", Severity::Error),
        HazardRule::Int => {
            told(&when_bound, "shell-int", Severity::Error)
                && [Value::from(5), Value::from("5"), Value::from(-3)]
                    .iter()
                    .all(|value| with(value).is_empty())
                && NOT_INTS.iter().all(|value| !with(&Value::from(*value)).is_empty())
        }
        HazardRule::Dash => {
            let dashes = ["-x", "-", "--help"];
            told(&before, "shell-option", Severity::Warning)
                && when_bound.is_empty()
                && dashes
                    .iter()
                    .all(|value| told(&with(&Value::from(*value)), "shell-option", Severity::Error))
        }
        HazardRule::Warn => told(&before, "shell-altered", Severity::Warning),
    };
    (!right).then(|| format!("{}: {command}\nbefore: {before:?}\nwhen bound: {when_bound:?}", place.id))
}

const NOT_INTS: [&str; 11] =
    ["", " 5", "08", "5 ", "0x10", "1.5", "a", "9223372036854775808", "+5", "--5", "5\n"];

fn dialect(place: &Hazard) -> Dialect {
    if matches!(place.id, "echo" | "regex" | "printf-number") { Dialect::Zsh } else { Dialect::Bash }
}

fn report(failures: &[String]) {
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n\n"));
}

#[test]
fn every_attack_falls_under_its_row() {
    let mut attacked = BTreeSet::new();
    let mut failures = Vec::new();
    for (head, command) in lines(ATTACKS) {
        let (id, dialect) = match head.split_once(' ') {
            Some((id, "zsh")) => (id, Dialect::Zsh),
            _ => (head, Dialect::Bash),
        };
        attacked.insert(id);
        failures.extend(check(row(id), dialect, &command));
    }
    report(&failures);
    let all: BTreeSet<_> = HAZARDS.iter().map(|place| place.id).collect();
    assert_eq!(attacked, all, "every row has attacks");
}

/// The same in a loop: what a state printed, in what the next one does.
#[test]
fn every_attack_is_refused_in_a_state() {
    let mut failures = Vec::new();
    for (head, command) in lines(ATTACKS) {
        if head.contains(' ') || row(head).rule != HazardRule::Refuse {
            continue;
        }
        let lines: Vec<String> = command.lines().map(|line| format!("      {line}")).collect();
        let text = format!(
            "initial: make\nstates:\n  make: {{action: cat, capture: v, next: act}}\n  act:\n    action: |\n{}\n    \
             next: done\n  done: {{terminal: true}}\n",
            lines.join("\n")
        );
        let file = SourceFile::new("w.yaml", text.into_bytes()).unwrap();
        let (workflow, loaded) = load::load(file);
        let planned = workflow.map(|workflow| plan::plan(workflow.into()).1);
        let found: Vec<_> = loaded.into_iter().chain(planned.into_iter().flatten()).collect();
        if !found.iter().any(|problem| problem.id == "shell-evaluates" && problem.is_error()) {
            failures.push(format!("{command}\n{found:?}"));
        }
    }
    report(&failures);
}

#[test]
fn every_example_falls_under_its_row() {
    let failures = HAZARDS.iter().filter_map(|place| check(place, dialect(place), place.example));
    report(&failures.collect::<Vec<_>>());
}

/// A row holds for each of its programs, under any path.
#[test]
fn every_program_of_a_row_counts() {
    let mut failures = Vec::new();
    for place in
        HAZARDS.iter().filter(|place| place.selector != ArgSelector::Syntax && place.rule != HazardRule::Int)
    {
        for program in place.programs.iter().filter(|program| !matches!(**program, "[" | "[[" | "test")) {
            for called in [(*program).to_owned(), format!("/usr/bin/{program}")] {
                let command = match place.selector {
                    ArgSelector::Options(options) => format!("{called} {} \"${{v}}\"", options[0]),
                    ArgSelector::Input { .. } => format!("echo \"${{v}}\" | {called}"),
                    ArgSelector::FileInput(options) => format!("echo \"${{v}}\" | {called} {} -", options[0]),
                    ArgSelector::Operands { from, .. } => format!("{called} {}${{v}}", "a ".repeat(from)),
                    ArgSelector::After(marks) => format!("{called} . {} ${{v}}", marks[0]),
                    ArgSelector::CommandWord { operands, .. } => {
                        format!("{called} {}${{v}}", "5 ".repeat(operands))
                    }
                    _ => format!("{called} ${{v}}"),
                };
                // Some programs read their first words as something else, too.
                let other = format!("{called} a b c d ${{v}}");
                let wrong = check(place, dialect(place), &command);
                let refused = || {
                    let before = problems(&command, dialect(place), &Value::from(HOSTILE)).0;
                    before.iter().any(|problem| problem.severity == Severity::Error)
                };
                let excused = place.rule == HazardRule::Dash
                    && (check(place, dialect(place), &other).is_none() || refused());
                failures.extend(wrong.filter(|_| !excused));
            }
        }
    }
    report(&failures);
}

#[test]
fn variables_that_are_code() {
    for name in [
        "PATH",
        "IFS",
        "LD_PRELOAD",
        "BASH_ENV",
        "GIT_SSH_COMMAND",
        "NODE_OPTIONS",
        "BASH_FUNC_x%%",
        "HOME",
        "TAR_OPTIONS",
        "NPM_CONFIG_SCRIPT_SHELL",
        "npm_config_shell",
        "RSYNC_RSH",
        "GH_PAGER",
        "CFLAGS",
    ] {
        assert!(is_code_variable(name), "{name}");
    }
    for name in ["X", "GIT_AUTHOR_NAME", "MY_PATH", "COUNT", "TITLE"] {
        assert!(!is_code_variable(name), "{name}");
    }
}

#[test]
fn every_safe_spelling_runs_right() {
    let bash = SHELLS[0];
    let folder = Folder::new();
    let mut shown = BTreeSet::new();
    for (head, case) in lines(SAFE) {
        let (id, programs) = head.trim_end_matches(']').split_once(" [").unwrap_or((head, ""));
        let place = row(id);
        shown.insert(place.id);
        if programs.split_whitespace().any(|program| !found(program)) {
            continue;
        }
        let (command, printed) = case.split_once(" ⇒ ").unwrap();
        let values = if place.rule == HazardRule::Int { &["5"][..] } else { &VALUES[..] };
        for value in values {
            let bound = bind(command, bash.dialect, &[("v".to_owned(), Value::from(*value))])
                .unwrap_or_else(|problems| panic!("{id}: {command}\n{problems:?}"));
            let output = bash.run_bound(&bound, &folder.0);
            let expected = printed.replace("VALUE", value).replace("BYTES", &value.len().to_string());
            assert_eq!(String::from_utf8_lossy(&output.stdout), expected + "\n", "{id}: {command}");
            assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{id}: {command}");
            assert_eq!(folder.files(), Vec::<std::ffi::OsString>::new(), "{id}: {command}");
        }
    }
    let all: BTreeSet<_> = HAZARDS.iter().map(|place| place.id).collect();
    assert_eq!(shown, all, "every row shows its safe spelling");
}

/// A value is not lost on its way: what each carrier takes to a place that evaluates is refused there.
#[test]
fn every_carrier_is_followed() {
    let failures = CARRIERS.iter().filter_map(|carrier| {
        let (before, _) = problems(carrier.example, Dialect::Bash, &Value::from(HOSTILE));
        let refused = before.iter().any(|problem| problem.id == "shell-evaluates");
        (!refused).then(|| format!("{}: {}\n{before:?}", carrier.name, carrier.example))
    });
    report(&failures.collect::<Vec<_>>());
}
