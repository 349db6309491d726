//! Commands as people write them, bound and run: the output is that of the same command with the values written in by
//! hand.
//!
//! A case in `corpus/*.txt` begins with `== TITLE`, where only some shells read it `== TITLE (bash zsh)`. Then come its
//! references, `INSIDE OF THE BRACES: JSON`, all of them harmless words, its entries of `env:`, `env NAME: JSON`, and the
//! command. Programs of the network and of clusters are scripts that print their arguments.
//!
//! The command must pass `check`, and no value may run in it. The line `refused: HAZARD` says the opposite: the command
//! runs its data, `check` refuses it, and what stands below `-- instead` is an ordinary case with the same meaning.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use threadline_lang::data::json::read_value;
use threadline_lang::{Limits, Value};

use super::random::is_long;
use super::shells::{Folder, SHELLS, Shell, installed, write_program};
use super::steps::ShellStep;

#[derive(Clone)]
struct Case {
    title: String,
    shells: Vec<String>,
    references: Vec<(String, Value)>,
    environment: Vec<(String, String)>,
    /// The hazard, if the command runs its data.
    refused: Option<String>,
    command: String,
}

/// Programs that stand in for those that need a network, or that are rarely installed.
#[rustfmt::skip]
const STAND_INS: &[&str] = &[
    "docker", "kubectl", "helm", "curl", "npm", "gh", "claude", "upload", "pg_dump", "aws", "gcloud", "az",
    "terraform", "ssh", "scp", "rsync", "systemctl", "redis-cli", "psql", "mysql", "wget", "cargo", "go",
    "twine", "pytest", "node", "python3.11",
];

const STAND_IN: &str = "#!/bin/sh\nprintf '%s' \"${0##*/}\"\nprintf ' [%s]' \"$@\"\necho\n";

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/shell")
}

fn cases() -> Vec<Case> {
    let folder = data().join("corpus");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let texts = files.iter().map(|file| std::fs::read_to_string(file).unwrap());
    texts.flat_map(|text| text.split("\n== ").skip(1).flat_map(read_case).collect::<Vec<_>>()).collect()
}

/// A case, and the one with its safe spelling.
fn read_case(text: &str) -> Vec<Case> {
    let (title, body) = text.split_once('\n').unwrap();
    let shells =
        title.strip_suffix(')').and_then(|title| title.rsplit_once('(')).map_or("", |(_, shells)| shells);
    let mut case = Case {
        title: title.to_owned(),
        shells: shells.split_whitespace().map(str::to_owned).collect(),
        references: Vec::new(),
        environment: Vec::new(),
        refused: None,
        command: String::new(),
    };
    let mut command = body;
    while let Some((line, rest)) = command.split_once('\n')
        && let Some((inside, json)) = line.split_once(": ")
        && let Ok(value) = read_value(json, &Limits::DEFAULT)
        && !inside.is_empty()
    {
        if inside == "refused" {
            case.refused = Some(value.to_string());
        } else if let Some(name) = inside.strip_prefix("env ") {
            case.environment.push((name.to_owned(), value.to_string()));
        } else {
            case.references.push((inside.to_owned(), value));
        }
        command = rest;
    }
    let Some((command, instead)) = command.split_once("-- instead\n") else {
        assert!(case.refused.is_none(), "{title} has no safe spelling");
        return vec![Case { command: command.to_owned(), ..case }];
    };
    let safe = Case {
        title: format!("{title}, instead"),
        refused: None,
        command: instead.to_owned(),
        ..case.clone()
    };
    vec![Case { command: command.to_owned(), ..case }, safe]
}

impl Case {
    /// A text with the values of its references written in by hand; files hold what is passed `as_file`.
    fn write_in(&self, text: &str, folder: &Path) -> String {
        let mut text = text.to_owned();
        for (index, (inside, value)) in self.references.iter().enumerate() {
            let json = ["| to_json", "| as_file"].iter().any(|filter| inside.ends_with(filter));
            let mut by_hand = match value.as_list().filter(|_| !json) {
                Some(items) => items.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
                None => value.to_string(),
            };
            if inside.ends_with("| as_file") {
                let path = folder.join(format!(".value{index}"));
                std::fs::write(&path, &by_hand).unwrap();
                path.to_str().unwrap().clone_into(&mut by_hand);
            }
            text = text.replace(&format!("${{{inside}}}"), &by_hand);
            // A default of the language is not used where there is a value.
            while let Some((before, rest)) = text.split_once(&format!("${{{inside}:-")) {
                let (_, behind) = rest.split_once('}').unwrap();
                text = format!("{before}{by_hand}{behind}");
            }
        }
        text.replace("$${", "${")
    }

    /// The names that the references need, with other values in place of their own if some are given.
    fn names(&self, other: Option<&str>) -> Vec<(String, Value)> {
        let mut names: Vec<(String, Value)> = Vec::new();
        for (inside, value) in &self.references {
            let path = inside.trim_start_matches('=').split(['|', '*', '+']).next().unwrap().trim();
            let (root, steps) = path.split_once(['.', '[']).unwrap_or((path, ""));
            let value = if inside.starts_with('=') { Value::from(4) } else { replaced(value, other) };
            let keys =
                steps.split(['.', ']', '[']).map(|key| key.trim_matches('"')).filter(|key| !key.is_empty());
            let keys: Vec<&str> = keys.collect();
            let known = names.iter().position(|(name, _)| name == root);
            let old = known.map(|at| names.remove(at).1);
            names.push((root.to_owned(), placed(old.as_ref(), &keys, value)));
        }
        names
    }

    fn step(&self, shell: Shell) -> ShellStep<'_> {
        ShellStep { text: &self.command, environment: &self.environment, outer: &[], shell }
    }

    fn is_for(&self, shell: Shell) -> bool {
        self.shells.is_empty() || self.shells.iter().any(|name| name == shell.name)
    }
}

/// Another text in place of every text and number of a value.
fn replaced(value: &Value, other: Option<&str>) -> Value {
    match (other, value.as_list(), value.as_object()) {
        (Some(other), Some(items), _) => {
            Value::list(items.iter().map(|_| Value::from(other)).collect()).unwrap()
        }
        (Some(other), None, None) => Value::from(other),
        _ => value.clone(),
    }
}

/// An object with a value under some keys, beside what it had.
fn placed(old: Option<&Value>, keys: &[&str], value: Value) -> Value {
    let Some((key, rest)) = keys.split_first() else { return value };
    let mut entries: Vec<(_, Value)> = Vec::new();
    if let Some(object) = old.and_then(Value::as_object) {
        entries.extend(object.iter().map(|(key, value)| (key.as_str().into(), value.clone())));
    }
    let inner =
        entries.iter().position(|(known, _): &(_, Value)| known == key).map(|at| entries.remove(at).1);
    entries.push(((*key).into(), placed(inner.as_ref(), rest, value)));
    Value::object(entries).unwrap()
}

/// A folder with the files that the commands read.
fn working_folder() -> Folder {
    let folder = Folder::new();
    let write = |name: &str, text: &str| std::fs::write(folder.0.join(name), text).unwrap();
    std::fs::create_dir(folder.0.join("src")).unwrap();
    write("a.txt", "alpha\nbeta\ngamma\n");
    write("b.txt", "delta\n");
    write("numbers.txt", "1\n2\n39\n");
    write("dup.txt", "x\ny\nx\n");
    write("src/main.rs", "fn main() {}\n");
    write("src/lib.rs", "\n");
    folder
}

fn stand_ins() -> Folder {
    let folder = Folder::new();
    for name in STAND_INS {
        write_program(&folder.0.join(name), STAND_IN);
    }
    folder
}

/// What `check` says that is not what the case says.
fn find_disagreement(case: &Case, shell: Shell) -> Option<String> {
    let checked = case.step(shell).check(&case.names(None));
    let errors: Vec<_> = checked.errors().collect();
    match &case.refused {
        None if errors.is_empty() => {
            let refused = checked.bind(&case.names(None)).err()?;
            Some(format!("its own values are refused when they are bound:\n  {}", refused.join(" ")))
        }
        None => {
            let said: Vec<String> = errors
                .iter()
                .map(|problem| {
                    format!("  {}: {} (hint: {})", problem.id, problem.message, problem.hints.join("; "))
                })
                .collect();
            Some(format!("refused, but nothing in it runs:\n{}", said.join("\n")))
        }
        Some(_) if !errors.is_empty() => None,
        Some(hazard) => Some(format!("accepted, but it runs data ({hazard})")),
    }
}

/// Runs a case bound, and with its values written in by hand.
fn compare_outputs(case: &Case, shell: Shell, programs: &Path) -> Result<(), String> {
    let names = case.names(None);
    let checked = case.step(shell).check(&names);
    // What is refused by mistake is listed as a disagreement.
    if checked.errors().next().is_some() {
        return Ok(());
    }
    let Ok(mut bound) = checked.bind(&names) else { return Ok(()) };
    // The stand-ins come first for both.
    let path = format!("PATH={}:$PATH;", programs.display());
    bound.script.text.insert_str(0, &path);
    let ours = shell.run_bound_in(&bound.script, &bound.environment, &working_folder().0);
    let folder = working_folder();
    let by_hand = case.write_in(&case.command, &folder.0);
    let environment =
        case.environment.iter().map(|(name, text)| (name.clone(), case.write_in(text, &folder.0)));
    let environment: Vec<_> = environment.collect();
    let environment: Vec<_> = environment.iter().map(|(name, text)| (name.clone(), text.as_str())).collect();
    let theirs = shell.run(&(path + &by_hand), &environment, &folder.0);
    if ours == theirs && !theirs.stdout.is_empty() {
        return Ok(());
    }
    let shown = |output: &std::process::Output| {
        let (stdout, stderr) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        format!("{:?}\n{stdout}{stderr}", output.status.code())
    };
    Err(format!(
        "{} in {}\nbound: {}\ngave {}\nby hand: {by_hand}\ngave {}",
        case.title,
        shell.name,
        bound.script.text,
        shown(&ours),
        shown(&theirs)
    ))
}

/// Calls `try_case` for the share of each shell, and gathers what it says.
fn try_all(cases: &[Case], try_case: impl Fn(&Case, Shell) -> Option<String> + Sync) -> Vec<String> {
    std::thread::scope(|threads| {
        let running: Vec<_> = installed()
            .into_iter()
            .enumerate()
            .map(|(number, shell)| {
                let try_case = &try_case;
                threads.spawn(move || {
                    // Spread over the whole corpus, from another case on in each shell.
                    let step = cases.len() / shell.share(cases.len());
                    let meant =
                        cases.iter().filter(|case| case.is_for(shell)).skip(number % step).step_by(step);
                    meant.filter_map(|case| try_case(case, shell)).collect::<Vec<_>>()
                })
            })
            .collect();
        running.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn titles_are_unique() {
    let mut seen = BTreeSet::new();
    for case in cases() {
        assert!(seen.insert(case.title.clone()), "two cases are called `{}`", case.title);
    }
}

#[test]
fn commands_as_people_write_them() {
    let cases: Vec<Case> = cases().into_iter().filter(|case| case.refused.is_none()).collect();
    assert!(cases.len() >= 600, "{} cases", cases.len());
    let programs = stand_ins();
    let failures = try_all(&cases, |case, shell| compare_outputs(case, shell, &programs.0).err());
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n\n"));
}

/// `check` says of every command what the case says.
#[test]
fn check_agrees_with_the_corpus() {
    let mut shown = String::new();
    for case in cases() {
        let shell = SHELLS.into_iter().find(|shell| case.is_for(*shell)).unwrap();
        if let Some(said) = find_disagreement(&case, shell) {
            writeln!(shown, "== {}\n{}{said}\n", case.title, case.command).unwrap();
        }
    }
    assert!(shown.is_empty(), "\n{shown}");
}

/// Values that run wherever they are evaluated, and leave a file then.
const HOSTILE: &[&str] = &[
    "a[$(>hit)]",
    "$(>hit)",
    "x;>hit;`>hit`",
    "';>hit;'",
    "\";>hit;\"",
    "x\n>hit\n",
    "./pwn",
    "x|>hit",
    "-I./pwn",
    "--upload-pack=>hit;",
    "x\");open(\"hit\",\"w\");(\"",
    "X=$(shell >hit)",
];

/// Whatever passes `check` runs no value, however hostile.
fn find_execution(case: &Case, shell: Shell, programs: &Path) -> Option<String> {
    let checked = case.step(shell).check(&case.names(None));
    if checked.errors().next().is_some() {
        return None;
    }
    // By default each case gets a few of the values, another few than its neighbours.
    let first = case.title.len() % 3;
    let values =
        HOSTILE.iter().skip(if is_long() { 0 } else { first }).step_by(if is_long() { 1 } else { 3 });
    for value in values {
        let Ok(mut bound) = checked.bind(&case.names(Some(value))) else { continue };
        let folder = working_folder();
        write_program(&folder.0.join("pwn"), "#!/bin/sh\n>hit\n");
        bound.script.text.insert_str(0, &format!("PATH={}:$PATH;", programs.display()));
        bound.run_silently(shell, &folder.0);
        if folder.0.join("hit").exists() {
            return Some(format!("{} in {} ran {value:?}\n{}", case.title, shell.name, case.command));
        }
    }
    None
}

#[test]
fn no_command_runs_its_values() {
    let cases = cases();
    let programs = stand_ins();
    let failures = try_all(&cases, |case, shell| find_execution(case, shell, &programs.0));
    assert!(failures.is_empty(), "{} ran\n{}", failures.len(), failures.join("\n\n"));
}
