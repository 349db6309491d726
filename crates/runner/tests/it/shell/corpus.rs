//! Commands as people write them, bound and run: the output is that of the same command with the values written in by
//! hand.
//!
//! A case in `corpus/*.txt` begins with `== TITLE`, where only some shells read it `== TITLE (bash zsh)`. Then come its
//! references, `INSIDE OF THE BRACES: JSON`, all of them harmless words, and the command. Programs of the network and
//! of clusters are scripts that print their arguments.

use std::path::Path;

use threadline_lang::data::json::read_value;
use threadline_lang::{Limits, Value};

use super::shells::{Folder, Shell, bind, installed};

struct Case {
    title: String,
    shells: Vec<String>,
    references: Vec<(String, Value)>,
    command: String,
}

/// Programs that stand in for those that need a network.
const STAND_INS: [&str; 9] =
    ["docker", "kubectl", "helm", "curl", "npm", "gh", "claude", "upload", "pg_dump"];

const STAND_IN: &str = "#!/bin/sh\nprintf '%s' \"${0##*/}\"\nprintf ' [%s]' \"$@\"\necho\n";

fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/shell/corpus");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let texts = files.iter().map(|file| std::fs::read_to_string(file).unwrap());
    texts.flat_map(|text| text.split("\n== ").skip(1).map(case).collect::<Vec<_>>()).collect()
}

fn case(text: &str) -> Case {
    let (title, body) = text.split_once('\n').unwrap();
    let shells =
        title.strip_suffix(')').and_then(|title| title.rsplit_once('(')).map_or("", |(_, shells)| shells);
    let mut references = Vec::new();
    let mut command = body;
    while let Some((line, rest)) = command.split_once('\n')
        && let Some((inside, json)) = line.split_once(": ")
        && let Ok(value) = read_value(json, &Limits::DEFAULT)
    {
        references.push((inside.to_owned(), value));
        command = rest;
    }
    Case {
        title: title.to_owned(),
        shells: shells.split_whitespace().map(str::to_owned).collect(),
        references,
        command: command.to_owned(),
    }
}

impl Case {
    /// The command with its values written in by hand.
    fn by_hand(&self) -> String {
        let mut command = self.command.clone();
        for (inside, value) in &self.references {
            let text = match value.as_list() {
                Some(items) => items.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
                None => value.to_string(),
            };
            command = command.replace(&format!("${{{inside}}}"), &text);
            // A default of the language is not used where there is a value.
            while let Some((before, rest)) = command.split_once(&format!("${{{inside}:-")) {
                let (_, behind) = rest.split_once('}').unwrap();
                command = format!("{before}{text}{behind}");
            }
        }
        command.replace("$${", "${")
    }

    /// The names that the references need.
    fn names(&self) -> Vec<(String, Value)> {
        let mut names: Vec<(String, Value)> = Vec::new();
        for (inside, value) in &self.references {
            let path = inside.trim_start_matches('=').split(['|', '*', '+']).next().unwrap().trim();
            let (root, steps) = path.split_once(['.', '[']).unwrap_or((path, ""));
            let value = if inside.starts_with('=') { Value::from(4) } else { value.clone() };
            let keys =
                steps.split(['.', ']', '[']).map(|key| key.trim_matches('"')).filter(|key| !key.is_empty());
            let keys: Vec<&str> = keys.collect();
            let known = names.iter().position(|(name, _)| name == root);
            let old = known.map(|at| names.remove(at).1);
            names.push((root.to_owned(), placed(old.as_ref(), &keys, value)));
        }
        names
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
        let path = folder.0.join(name);
        std::fs::write(&path, STAND_IN).unwrap();
        let mut permissions = std::fs::metadata(&path).unwrap().permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o755);
        std::fs::set_permissions(&path, permissions).unwrap();
    }
    folder
}

fn check(case: &Case, shell: Shell, programs: &Path) -> Result<(), String> {
    let names = case.names();
    let mut bound = bind(&case.command, shell.dialect, &names).map_err(|problems| {
        format!("{} in {}: {:?}\n{}", case.title, shell.name, problems[0], case.command)
    })?;
    // The stand-ins come first for both.
    let path = format!("PATH={}:$PATH;", programs.display());
    bound.text.insert_str(0, &path);
    let ours = shell.run_bound(&bound, &working_folder().0);
    let theirs = shell.run(&(path + &case.by_hand()), &[], &working_folder().0);
    if ours == theirs && !theirs.stdout.is_empty() {
        return Ok(());
    }
    let shown = |output: &std::process::Output| {
        let (stdout, stderr) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        format!("{:?}\n{stdout}{stderr}", output.status.code())
    };
    Err(format!(
        "{} in {}\nbound: {}\ngave {}\nby hand: {}\ngave {}",
        case.title,
        shell.name,
        bound.text,
        shown(&ours),
        case.by_hand(),
        shown(&theirs)
    ))
}

#[test]
fn commands_as_people_write_them() {
    let cases = cases();
    assert!(cases.len() >= 150, "{} cases", cases.len());
    let programs = stand_ins();
    let failures: Vec<String> = std::thread::scope(|threads| {
        let running: Vec<_> = installed()
            .into_iter()
            .enumerate()
            .map(|(number, shell)| {
                let (cases, programs) = (&cases, &programs.0);
                threads.spawn(move || {
                    let meant = cases.iter().filter(|case| {
                        case.shells.is_empty() || case.shells.iter().any(|name| name == shell.name)
                    });
                    // Spread over the whole corpus, from another case on in each shell.
                    let step = cases.len() / shell.share(cases.len());
                    let meant = meant.skip(number % step).step_by(step);
                    meant.filter_map(|case| check(case, shell, programs).err()).collect::<Vec<_>>()
                })
            })
            .collect();
        running.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n\n"));
}
