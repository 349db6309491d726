//! Names never leave their folder: every name that tries to, through every entry where a text becomes a path. One
//! table of names, one of entries, and the same assertions for all: no file outside of the project is made, changed or
//! removed, nothing of the repository or of the store either, and what a file outside says is nowhere.
//!
//! The short form tries every third name with each entry, beginning with another one for each; `THREADLINE_LONG=1` tries
//! all of them.

mod names;

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use names::{Name, names};
use threadline_lang::Value;
use threadline_lang::value::JsonStyle;

use crate::harness::{Workflow, workflow};
use crate::support::{Outcome, is_long};

/// What files outside of the project hold, and how it looks when a step turned it round.
const CANARY: [&str; 2] = ["canary-from-outside", "edistuo-morf-yranac"];

/// What an entry may do with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// It stays in the project.
    Project,
    /// The author or the user names a file, wherever it is, and it is read. Nothing is written.
    Read,
    /// The user names a place where something is written, wherever it is. What is there stays as it is.
    New,
}

/// Where a text becomes a path.
struct Entry {
    name: &'static str,
    reach: Reach,
    /// The file outside that fits, or nothing for the folder that it is in.
    file: &'static str,
    /// A name that does well, so that it is known that the entry takes names at all; nothing where all are refused.
    honest: &'static str,
    way: Way,
}

enum Way {
    /// In a workflow, quoted, in the place of `NAME`.
    Text(&'static str),
    /// As a value: all names are the items `${item}` of these steps.
    Value(&'static str),
    /// On the command line, in the place of `NAME`, with this workflow.
    Arguments(&'static [&'static str], &'static str),
    /// In the text, with this command line.
    TextWith(&'static [&'static str], &'static str),
}

const PLAIN: &str = "steps: [{id: one, value: 1}]\n";

/// Every entry. One that is new has a line here.
const ENTRIES: &[Entry] = &[
    text("a called workflow", Reach::Read, "call.yaml", "steps: [{workflow: NAME}]\n"),
    text(
        "a called loop",
        Reach::Read,
        "call.yaml",
        "initial: a\nstates: {a: {loop: NAME, next: b}, b: {terminal: true}}\n",
    ),
    text("`from`", Reach::Read, "call.yaml", "from: NAME\n"),
    text("`import`", Reach::Read, "part.yaml", IMPORTING),
    text("a list of `import`", Reach::Read, "part.yaml", IMPORTING_LIST),
    text("a workflow as a tool", Reach::Read, "call.yaml", TOOL),
    text(
        "`env_file`",
        Reach::Project,
        "secret.env",
        "env_file: NAME\nsteps: [{shell: 'echo \"$OUTSIDE\"'}]\n",
    ),
    text("the file of a secret", Reach::Project, "secret.txt", SECRET),
    text("a file to write, in the text", Reach::Project, "secret.txt", WRITE),
    text("a file of items, in the text", Reach::Project, "items.json", ITEMS),
    text("the input of a map", Reach::Project, "items.json", MAP),
    text("a pattern of files, in the text", Reach::Project, "secret.txt", PATTERN),
    text("a lock", Reach::Project, "secret.txt", "locks: [NAME]\nsteps: [{value: 1}]\n"),
    refused(text("the schema that a schema refers to", Reach::Project, "schema.json", SCHEMA)),
    refused(text(
        "an import of a run",
        Reach::Project,
        "call.yaml",
        "imports: {a: NAME}\nsteps: [{value: \"${imports.a}\"}]\n",
    )),
    text("the name of a workflow", Reach::Project, "", "name: NAME\nsteps: [{value: 1}]\n"),
    with("the cases of scenarios", "items.json", &["test", "-j", "1", "cases.test.yaml"], CASES),
    with("a pattern of cases", "object.json", &["test", "-j", "1", "cases.test.yaml"], CASE_FILES),
    with(
        "the id of a recorded step",
        "",
        RECORD,
        "agents: {a: {command: [cat]}}\nsteps: [{id: NAME, agent: a, message: x}]\n",
    ),
    with(
        "the name of a recorded node",
        "",
        RECORD,
        "agents: {a: {command: [cat]}}\nnodes: {NAME: {agent: a, message: x}}\n",
    ),
    with(
        "the name of a recorded state",
        "",
        RECORD,
        "agents: {a: {command: [cat]}}\ninitial: NAME\nstates: {NAME: {agent: a, message: x, next: b}, b: {terminal: true}}\n",
    ),
    with(
        "the name of a recorded agent",
        "",
        RECORD,
        "agents: {NAME: {command: [cat]}}\nsteps: [{agent: NAME, message: x}]\n",
    ),
    value(
        "a file to write",
        "secret.txt",
        "- write_file: {path: \"${item}\", content: written, create_dirs: true}\n",
    ),
    value("a file that is read", "secret.txt", "- value: '${= file(item)}'\n"),
    value("a file of items", "items.json", "- foreach: {file: \"${item}\"}\n  do: [{value: \"${item}\"}]\n"),
    value(
        "a pattern of files",
        "secret.txt",
        "- foreach: {files: \"${item}\"}\n  do: [{value: \"${item}\"}]\n",
    ),
    value("a working folder", "", "- shell: 'touch made-here; cat secret.txt'\n  cwd: \"${item}\"\n"),
    value(
        "the working folder of `argv`",
        "",
        "- argv: [sh, -c, 'touch made-here; cat secret.txt']\n  cwd: \"${item}\"\n",
    ),
    value("a thread", "secret.txt", "- {agent: a, message: x, thread: \"${item}\"}\n"),
    value("an item in a worktree", "", ""),
    named("show", &["show", "NAME"]),
    named("show --json", &["show", "--json", "NAME"]),
    named("resume", &["resume", "NAME"]),
    named("rerun", &["rerun", "--from", "one", "--yes", "NAME"]),
    refused(named("rerun --from", &["rerun", "--from", "NAME", "last"])),
    refused(named("stop", &["stop", "NAME"])),
    refused(named("attach", &["attach", "NAME"])),
    named("logs", &["logs", "NAME"]),
    refused(named("logs of a step", &["logs", "last", "NAME"])),
    named("explain", &["explain", "NAME"]),
    refused(named("explain of a step", &["explain", "last", "NAME"])),
    named("vars", &["vars", "NAME"]),
    refused(named("test --resume", &["test", "--resume", "NAME"])),
    named("clean --workflow", &["clean", "--workflow", "NAME", "--keep", "0", "--dry-run"]),
    named("runs --workflow", &["runs", "--workflow", "NAME"]),
    named("rm", &["rm", "--force", "NAME"]),
    refused(named("an imported run", &["run", "workflow.yaml", "--import", "a=NAME"])),
    refused(named("a schema", &["schema", "NAME"])),
    refused(named("a page of the manual", &["man", "NAME"])),
    refused(named("a page of help", &["help", "NAME"])),
    refused(named("a place of `--set`", &["run", "workflow.yaml", "--set", "context.NAME=1"])),
    Entry { honest: "map", ..named("a starter file", &["init", "NAME"]) },
    Entry { honest: "map", ..named("a starter file in a folder", &["init", "--into", "sub", "NAME"]) },
    place("a workflow to check", Reach::Read, "call.yaml", &["check", "NAME"]),
    place("a workflow to preview", Reach::Read, "call.yaml", &["preview", "NAME"]),
    place("a workflow to draw", Reach::Read, "call.yaml", &["graph", "NAME"]),
    refused(place("inputs", Reach::Read, "object.json", &["run", "workflow.yaml", "--inputs", "NAME"])),
    Entry {
        way: Way::Arguments(&["run", "workflow.yaml", "--payload", "@NAME"], "nodes: {a: {value: 1}}\n"),
        ..place("a payload", Reach::Read, "object.json", &[])
    },
    refused(place("a record to replay", Reach::Read, "", &["run", "workflow.yaml", "--replay", "NAME"])),
    place("the project of `runs`", Reach::Read, "", &["runs", "--dir", "NAME"]),
    refused(place("a record", Reach::New, "", &["run", "workflow.yaml", "--record", "NAME"])),
    place("a report", Reach::New, "new.xml", &["run", "workflow.yaml", "--report", "junit=NAME"]),
    place("the folder of starter files", Reach::New, "", &["init", "--into", "NAME", "map"]),
];

const IMPORTING: &str =
    "import: NAME\ninitial: a\nstates: {a: {fragment: f, next: b}, b: {terminal: true}}\n";
const IMPORTING_LIST: &str =
    "import: [NAME]\ninitial: a\nstates: {a: {fragment: f, next: b}, b: {terminal: true}}\n";
const TOOL: &str = "secrets: {K: HOME}\nagents: {a: {provider: anthropic, model: m, api_key: '${secrets.K}', tools: \
                    [{workflow: NAME}]}}\nsteps: [{value: 1}]\n";
const SECRET: &str = "secrets: {K: {file: NAME}}\nsteps: [{shell: 'printf %s ${secrets.K} | rev'}]\n";
const WRITE: &str = "steps: [{write_file: {path: NAME, content: written, create_dirs: true}}]\n";
const ITEMS: &str = "steps: [{foreach: {file: NAME}, do: [{value: \"${item}\"}]}]\n";
const MAP: &str = "mode: mapreduce\nmap: {input: NAME, steps: [{value: \"${item}\"}]}\n";
const PATTERN: &str = "steps: [{foreach: {files: NAME}, do: [{value: \"${item}\"}]}]\n";
const SCHEMA: &str = "steps: [{value: 1, expect: {json_schema: {$ref: NAME}}}]\n";
const CASES: &str = "target: {argv: [echo, x]}\ncases: {file: NAME}\nprompt: \"${case.name}\"\nexpectations: {text: {eq: x}}\n";
const CASE_FILES: &str = "target: {argv: [echo, x]}\ncases: {files: NAME}\nprompt: \"${case.name}\"\nexpectations: {text: {eq: x}}\n";
const RECORD: &[&str] = &["run", "workflow.yaml", "--record", "rec"];

const TOLD_STEP: &str = "agents: {a: {command: [cat]}}\nsteps: [{agent: a, message: x}]\n";

const INSIDE: &str = "inside";

/// A text of a workflow.
const fn text(name: &'static str, reach: Reach, file: &'static str, text: &'static str) -> Entry {
    Entry { name, reach, file, honest: INSIDE, way: Way::Text(text) }
}

/// A text of a workflow that a command reads.
const fn with(
    name: &'static str,
    file: &'static str,
    arguments: &'static [&'static str],
    text: &'static str,
) -> Entry {
    Entry { name, reach: Reach::Project, file, honest: INSIDE, way: Way::TextWith(arguments, text) }
}

/// A value.
const fn value(name: &'static str, file: &'static str, steps: &'static str) -> Entry {
    Entry { name, reach: Reach::Project, file, honest: INSIDE, way: Way::Value(steps) }
}

/// The name of something that is no file, on the command line.
const fn named(name: &'static str, arguments: &'static [&'static str]) -> Entry {
    Entry {
        name,
        reach: Reach::Project,
        file: "call.yaml",
        honest: "last",
        way: Way::Arguments(arguments, PLAIN),
    }
}

/// A file or folder on the command line.
const fn place(
    name: &'static str,
    reach: Reach,
    file: &'static str,
    arguments: &'static [&'static str],
) -> Entry {
    Entry { name, reach, file, honest: INSIDE, way: Way::Arguments(arguments, TOLD_STEP) }
}

/// One that no name of this project does well with.
const fn refused(entry: Entry) -> Entry {
    Entry { honest: "", ..entry }
}

/// A project with links that lead out of it, and files beside it.
fn project(entry: &Entry) -> Workflow {
    let canary = CANARY[0];
    let workflow = workflow(PLAIN)
        .file(".gitignore", ".threadline\n")
        .file("sub/kept.txt", "kept")
        .file("inside/call.yaml", "steps: [{value: 1}]\n")
        .file("inside/part.yaml", "fragments: {f: {action: 'echo honest'}}\n")
        .file("inside/items.json", "[{\"name\": \"honest\"}]\n")
        .file("inside/object.json", "{\"name\": \"honest\"}\n")
        .file("inside/secret.env", "OUTSIDE=honest\n")
        .file("inside/secret.txt", "honest\n")
        .file("../outside/call.yaml", &format!("steps: [{{value: {canary}}}]\n"))
        .file("../outside/part.yaml", &format!("fragments: {{f: {{action: 'echo {canary}'}}}}\n"))
        .file("../outside/items.json", &format!("[\"{canary}\"]\n"))
        .file("../outside/object.json", &format!("{{\"one\": \"{canary}\"}}\n"))
        .file("../outside/schema.json", &format!("{{\"const\": \"{canary}\"}}\n"))
        .file("../outside/secret.env", &format!("OUTSIDE={canary}\n"))
        .file("../outside/secret.txt", &format!("{canary}\n"));
    for (link, target) in [
        ("link-folder", "../outside".to_owned()),
        ("link-link", "link-folder".to_owned()),
        (&*format!("link-{}", entry.file.replace('/', "-")), format!("../outside/{}", entry.file)),
    ] {
        let at = workflow.project.path().join(link);
        let is_nameless = link == "link-";
        if !at.is_symlink() && !is_nameless {
            symlink(target, at).expect("a link");
        }
    }
    let workflow = workflow.repository();
    workflow.command(&["run", "workflow.yaml"]).wait().well();
    workflow
}

/// Every file below a folder that nobody may change, with its content. Links are not followed.
fn files(folder: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let kind = path.symlink_metadata().expect("it is there").file_type();
        if kind.is_dir() {
            found.insert(path.clone(), Vec::new());
            files(&path, found);
        } else if kind.is_file() {
            found.insert(path.clone(), std::fs::read(&path).expect("a file"));
        } else {
            found.insert(path, b"a link".to_vec());
        }
    }
}

/// What has to stay as it is: everything beside the project, and what git and the store run or read by name.
fn kept(workflow: &Workflow) -> BTreeMap<PathBuf, Vec<u8>> {
    let project = workflow.project.path();
    let elsewhere = project.parent().expect("a folder around it");
    let mut found = BTreeMap::new();
    files(&project.join(".git/hooks"), &mut found);
    for name in [".git/config", ".git/HEAD"] {
        found.insert(project.join(name), std::fs::read(project.join(name)).expect("a file"));
    }
    for entry in std::fs::read_dir(elsewhere).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path != project {
            found.insert(path.clone(), Vec::new());
            if path.is_dir() {
                files(&path, &mut found);
            }
        }
    }
    found
}

/// What must be true after a command, however it ended.
fn check(
    entry: &Entry,
    tries: &str,
    workflow: &Workflow,
    before: &BTreeMap<PathBuf, Vec<u8>>,
    run: &Outcome,
) -> Vec<String> {
    let mut broken = Vec::new();
    let mut say = |what: String| broken.push(format!("{}, {tries}: {what}\n", entry.name));
    if !matches!(run.exit, 0..=4) {
        say(format!("it ends with {}: {}", run.exit, run.stderr));
    }
    let after = kept(workflow);
    for (path, content) in before {
        if after.get(path) != Some(content) {
            say(format!("{} has changed", path.display()));
        }
    }
    let is_new = after.keys().find(|path| !before.contains_key(*path));
    if let (Some(path), Reach::Project | Reach::Read) = (is_new, entry.reach) {
        say(format!("{} is new", path.display()));
    }
    let project = workflow.project.path();
    for evil in [".threadline/evil", ".threadline/leases/evil"] {
        if project.join(evil).exists() {
            say(format!("`{evil}` was made"));
        }
    }
    // Names that are those of git elsewhere.
    for evil in [".Threadline", ".GIT", "git~1"] {
        if project.join(evil).exists() && entry.reach == Reach::Project {
            say(format!("`{evil}` was made"));
        }
    }
    if entry.reach == Reach::Project {
        for text in [&run.stdout, &run.stderr] {
            if CANARY.iter().any(|canary| text.contains(canary)) {
                say(format!("it tells what is outside: {text}"));
            }
        }
    }
    broken
}

/// Whether anything in the project tells what is outside.
fn leaks(entry: &Entry, workflow: &Workflow) -> Vec<String> {
    let mut found = BTreeMap::new();
    if entry.reach == Reach::Project {
        files(workflow.project.path(), &mut found);
    }
    let holds = |content: &[u8]| {
        CANARY.iter().any(|canary| content.windows(canary.len()).any(|part| part == canary.as_bytes()))
    };
    let told = found.into_iter().filter(|(_, content)| holds(content));
    told.map(|(path, _)| format!("{}: {} tells what is outside\n", entry.name, path.display())).collect()
}

/// Runs the command of an entry with a name.
fn run_with(entry: &Entry, workflow: &Workflow, name: &str) -> Option<Outcome> {
    let quoted = Value::from(name).to_json(JsonStyle::Compact);
    let (text, arguments) = match &entry.way {
        Way::Text(text) => (text.replace("NAME", &quoted), &["run", "workflow.yaml"][..]),
        Way::TextWith(arguments, text) => (text.replace("NAME", &quoted), *arguments),
        // No argument of a process holds one.
        Way::Arguments(..) if name.contains('\0') => return None,
        Way::Arguments(arguments, text) => ((*text).to_owned(), *arguments),
        Way::Value(steps) => {
            workflow.project.write("names.json", format!("[{quoted}]\n").as_bytes());
            (of_values(steps), &["run", "workflow.yaml"][..])
        }
    };
    let file = if arguments.contains(&"cases.test.yaml") { "cases.test.yaml" } else { "workflow.yaml" };
    workflow.project.write(file, text.as_bytes());
    let arguments: Vec<String> = arguments.iter().map(|word| word.replace("NAME", name)).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Some(workflow.project.run(&arguments, b""))
}

/// The workflow of steps that take a name as a value. Without steps, the items work in worktrees.
fn of_values(steps: &str) -> String {
    if steps.is_empty() {
        return "mode: mapreduce\nmap:\n  input: names.json\n  worktree: true\n  steps:\n  - write_file: {path: made, \
                content: \"${item}\"}\n  - shell: 'git add -A; git commit -q --allow-empty -m x'\n"
            .to_owned();
    }
    let steps = steps.lines().map(|line| format!("  {line}\n")).collect::<Vec<_>>().concat();
    let head = "steps:\n- foreach: {file: names.json}\n  error_policy: {continue_on_failure: true}\n  do:\n";
    format!("agents: {{a: {{command: [cat]}}}}\n{head}{steps}")
}

/// Tries an entry with every name, and says how many there were and what was broken.
fn attempt(entry: &Entry, begin: usize) -> (usize, Vec<String>) {
    let workflow = project(entry);
    let elsewhere = workflow.project.path().parent().expect("a folder around it").display().to_string();
    let names = names(&elsewhere, entry.file);
    let before = kept(&workflow);
    let (mut tried, mut broken) = (0, Vec::new());
    let (begin, step) = if is_long() { (0, 1) } else { (begin % 3, 3) };
    for Name { tries, text } in names.iter().skip(begin).step_by(step) {
        if let Some(run) = run_with(entry, &workflow, text) {
            broken.extend(check(entry, tries, &workflow, &before, &run));
            tried += 1;
        }
    }
    broken.extend(leaks(entry, &workflow));
    let honest = match entry.honest {
        INSIDE if !entry.file.is_empty() => format!("{INSIDE}/{}", entry.file),
        honest => honest.to_owned(),
    };
    if !honest.is_empty() {
        match run_with(entry, &workflow, &honest) {
            Some(run) if run.exit == 0 => {}
            run => broken.push(format!("{}: not even `{honest}` does well: {run:?}\n", entry.name)),
        }
    }
    (tried, broken)
}

#[test]
fn no_name_leaves_its_folder() {
    let (mut tried, mut broken, mut reaches) = (0, Vec::new(), BTreeMap::new());
    for (place, entry) in ENTRIES.iter().enumerate() {
        let (count, found) = attempt(entry, place);
        println!("{count:5} names  {}", entry.name);
        assert!(count > 0, "{}: no name was tried", entry.name);
        *reaches.entry(format!("{:?}", entry.reach)).or_insert(0_usize) += 1;
        tried += count;
        broken.extend(found);
    }
    println!("{} entries ({reaches:?}), {tried} names tried, {} broken", ENTRIES.len(), broken.len());
    assert!(broken.is_empty(), "{}", broken.concat());
}
