//! How values travel: the environment and its limits, private files, what descendants see, line numbers.

use threadline_flow::shell::{BoundScript, Delivery, Dialect, ENVIRONMENT_LIMIT, STRING_LIMIT};
use threadline_lang::Value;

use super::shells::{Folder, Shell, bind, installed};

fn named(values: &[&str]) -> Vec<(String, Value)> {
    values.iter().enumerate().map(|(at, value)| (format!("v{at}"), Value::from(*value))).collect()
}

fn bound(text: &str, dialect: Dialect, values: &[&str]) -> BoundScript {
    bind(text, dialect, &named(values)).unwrap_or_else(|problems| panic!("{text}: {problems:?}"))
}

/// What a script prints; it must say nothing on stderr.
fn printed(shell: Shell, bound: &BoundScript) -> String {
    let output = shell.run_bound(bound, &Folder::new().0);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{}", shell.name);
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn values_of_any_size_arrive_to_the_byte() {
    let line = "it's $(touch hit) é\n";
    // A variable arrives under a name of its own, which counts.
    let room = STRING_LIMIT - "TL_IN_1=".len();
    for size in [0, 1, room - 1, room, room + 1, STRING_LIMIT, STRING_LIMIT + 1, 1 << 20] {
        let mut value = line.repeat(size / line.len() + 1);
        value.truncate(value.floor_char_boundary(size));
        value.extend(std::iter::repeat_n('\n', size - value.len()));
        for shell in installed() {
            let bound = bound("printf '%s' ${v0}", shell.dialect, &[&value]);
            let expected = if size > room { Delivery::File } else { Delivery::Environment };
            assert_eq!(bound.variables[0].delivery, expected, "{size}");
            assert!(printed(shell, &bound) == value, "{} bytes in {}", size, shell.name);
        }
    }
}

#[test]
fn many_values_share_the_environment() {
    let value = "x".repeat(100_000) + "\n\n";
    let values: Vec<&str> = (0..12).map(|_| value.as_str()).collect();
    let pieces: Vec<String> = (0..12).map(|at| format!("printf '%s,' ${{v{at}}}\n")).collect();
    let text = pieces.concat();
    for shell in installed() {
        let bound = bound(&text, shell.dialect, &values);
        let sum: usize = bound.environment().map(|(name, value)| name.len() + value.len() + 2).sum();
        assert!(sum <= ENVIRONMENT_LIMIT && bound.files().count() > 0);
        assert!(printed(shell, &bound) == format!("{value},").repeat(12), "{}", shell.name);
    }
}

#[test]
fn an_argument_of_a_program_is_limited() {
    let value = "x".repeat(STRING_LIMIT + 1);
    for refused in ["cat ${v0}", "X=${v0} cat", "cat \"a ${v0}\"", "nosuch a b '${v0}'"] {
        let problems = bind(refused, Dialect::Bash, &named(&[&value])).unwrap_err();
        assert_eq!(problems[0].id, "shell-size", "{refused}");
        assert!(problems[0].hint.as_deref().unwrap().contains("as_file"), "{refused}");
    }
    for taken in
        ["printf '%s' ${v0}", "X=${v0}", "cat <<< ${v0}", "cat <<EOF\n${v0}\nEOF", "f() { :; }; f ${v0}"]
    {
        assert!(bind(taken, Dialect::Bash, &named(&[&value])).is_ok(), "{taken}");
    }
}

#[test]
fn a_file_holds_the_value() {
    let large = "it's\n".repeat(100_000);
    for shell in installed() {
        for value in ["it's $(touch hit)\n\n", "", &large] {
            let bound = bound(
                "cat ${v0 | as_file}; printf '%s' \"${v0 | as_file}\" | wc -l",
                shell.dialect,
                &[value],
            );
            let output = printed(shell, &bound);
            assert!(
                output.strip_suffix("0\n").is_some_and(|text| text.trim_end_matches(' ') == value),
                "{}",
                shell.name
            );
        }
    }
}

#[test]
fn descendants_see_no_value() {
    for shell in installed() {
        let bound = bound(
            "printf '%s\\n' ${v0}; env | grep -c secret; sh -c 'set' | grep TL_; :",
            shell.dialect,
            &["secret"],
        );
        assert_eq!(printed(shell, &bound), "secret\n0\n", "{}", shell.name);
    }
}

#[test]
fn line_numbers_stay_right() {
    for shell in installed() {
        let text = "echo ${v0}\n\nnosuch-program ${v1}\n";
        let bound = bound(text, shell.dialect, &["a", &"b\n".repeat(100_000)[..131_000]]);
        let folder = Folder::new();
        let ours = shell.run_bound(&bound, &folder.0);
        let theirs = shell.run("echo a\n\nnosuch-program b\n", &[], &folder.0);
        assert!(!theirs.stderr.is_empty());
        assert_eq!(
            String::from_utf8_lossy(&ours.stderr),
            String::from_utf8_lossy(&theirs.stderr),
            "{}",
            shell.name
        );
    }
}

#[test]
fn strict_shells_read_the_prelude() {
    let large = "x\n".repeat(100_000);
    for shell in installed() {
        let bound = bound("printf '%s' ${v0} ${v1} \"${NONE:-none}\"", shell.dialect, &["", &large]);
        let mut strict = bound.clone();
        strict.text.insert_str(0, "set -eu;");
        assert!(printed(shell, &strict) == format!("{large}none"), "{}", shell.name);
    }
}

#[test]
fn a_file_that_is_gone_stops_the_script() {
    let large = "x".repeat(STRING_LIMIT + 1);
    for shell in installed() {
        let bound = bound("echo ran ${v0}", shell.dialect, &[&large]);
        let script = bound.script(|_| "/nonexistent/it's".to_owned());
        let output = shell.run(&script, &[], &Folder::new().0);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(125), 0), "{}", shell.name);
    }
}
