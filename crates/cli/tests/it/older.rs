//! Files of older systems through the binary: what `migrate` changes, what stays, and that a second time changes nothing.

use std::path::{Path, PathBuf};

use threadline_engine::random::Random;

use crate::support::{Project, is_long, seed};

/// One of several texts.
fn one<'a>(random: &mut Random, of: &[&'a str]) -> &'a str {
    of[below(random, of.len())]
}

fn below(random: &mut Random, end: usize) -> usize {
    usize::try_from(random.below(end as u64)).expect("a small number")
}

/// A loop in some layout, with some spellings of an older system in it.
fn older_loop(random: &mut Random) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut comments = 0;
    let mut comment = |random: &mut Random, indent: &str, lines: &mut Vec<String>| {
        if below(random, 3) == 0 {
            comments += 1;
            lines.push(format!("{indent}# remark {comments}"));
        }
        if below(random, 4) == 0 {
            lines.push(String::new());
        }
    };
    let behind = |random: &mut Random, text: &str| {
        let gap = one(random, &["", "", "  # beside it", " # a: b"]);
        format!("{text}{gap}")
    };
    let mut keys = vec!["name: polish", "max_steps: 20"];
    for key in [
        "category: text",
        "visibility: 'internal'",
        "scope: [src/, \"docs\"]",
        "scope:\n  - src/   # the sources\n  - docs",
        "on_handoff: spawn",
        "circuit:\n  repeated_failure:\n    window: 3",
        "meta_self_eval_ok: false",
        "artifact_versioning: true",
    ] {
        let is_second = key.starts_with("scope") && keys.iter().any(|known| known.starts_with("scope"));
        if random.percent(50) && !is_second {
            let at = below(random, keys.len() + 1);
            keys.insert(at, key);
        }
    }
    for key in keys {
        comment(random, "", &mut lines);
        let text = if key.contains('\n') { key.to_owned() } else { behind(random, key) };
        lines.push(text);
    }
    lines.push(behind(random, "initial: look"));
    comment(random, "", &mut lines);
    let indent = one(random, &["  ", "    "]);
    lines.push("states:".to_owned());
    let deeper = indent.repeat(2);
    for (name, action) in [("look", "test -e \"${context.word:default=none}\""), ("again", "test -e b")] {
        comment(random, indent, &mut lines);
        if random.percent(50) {
            let to = one(random, &["$current", "look"]);
            lines.push(format!(
                "{indent}{name}: {{action: '{action}', on_yes: done, on_no: {to}, on_error: gave_up}}"
            ));
            continue;
        }
        lines.push(behind(random, &format!("{indent}{name}:")));
        let mut own =
            vec![format!("action: {action}"), "on_yes: done".to_owned(), "on_error: gave_up".to_owned()];
        own.push(format!("on_no: {}", one(random, &["$current", "again", "look"])));
        for key in
            ["description: what it does", "pruning_profile: {enabled: true}", "throttle:\n{}  hard_max: 3"]
        {
            if random.percent(50) {
                let at = 1 + below(random, own.len());
                own.insert(at, key.replace("{}", &deeper));
            }
        }
        for key in own {
            comment(random, &deeper, &mut lines);
            let text = if key.contains('\n') { key } else { behind(random, &key) };
            lines.push(format!("{deeper}{text}"));
        }
    }
    comment(random, indent, &mut lines);
    lines.push(format!("{indent}done: {{terminal: true}}"));
    match below(random, 3) {
        0 => lines.push(format!("{indent}gave_up: {{terminal: true, failure: true}}")),
        1 => lines.push(format!("{indent}gave_up: {{failure: true, terminal: true}}")),
        _ => {
            lines.push(format!("{indent}gave_up:"));
            lines.push(behind(random, &format!("{deeper}terminal: true")));
            lines.push(behind(random, &format!("{deeper}failure: true")));
        }
    }
    let end = one(random, &["\n", ""]);
    let line_break = "\n";
    format!("{}{end}", lines.join(line_break))
}

/// The comments that the author wrote, in order.
fn remarks(text: &str) -> Vec<String> {
    let marks = ["# remark", "# beside it", "# a: b", "# the sources"];
    let of_line = |line: &str| {
        let at = marks.iter().filter_map(|mark| line.rfind(mark)).max()?;
        Some(line[at..].to_owned())
    };
    text.lines().filter_map(of_line).collect()
}

/// The lines of a file that say the same in both, without what became a comment.
fn untouched<'t>(old: &'t str, new: &str) -> Vec<&'t str> {
    old.lines().filter(|line| new.lines().any(|other| other == *line)).collect()
}

#[test]
fn comments_and_layout_stay_and_twice_is_once() {
    let seed = seed();
    let count = if is_long() { 400 } else { 25 };
    let project = Project::new();
    for number in 0..count {
        let mut random = Random::new(seed.wrapping_add(number));
        let old = older_loop(&mut random);
        let shown = || format!("THREADLINE_SEED={seed}, number {number}:\n{old}");
        project.write("loop.yaml", old.as_bytes());
        let before = project.run(&["check", "loop.yaml"], b"");
        assert_eq!(before.exit, 0, "{}\n{}", shown(), before.stderr);
        let first = project.run(&["migrate", "--write", "loop.yaml"], b"");
        assert_eq!(first.exit, 0, "{}\n{}{}", shown(), first.stdout, first.stderr);
        let new = project.read("loop.yaml").expect("the file");
        assert_eq!(remarks(&old), remarks(&new), "{}\n{new}", shown());
        let after = project.run(&["check", "loop.yaml"], b"");
        assert_eq!(after.exit, 0, "{}\n{new}\n{}", shown(), after.stderr);
        assert!(!after.stderr.contains("old-spelling"), "{}\n{new}\n{}", shown(), after.stderr);
        // Every line without an older spelling is as it was, in the same order.
        let kept = untouched(&old, &new);
        for line in ["initial: look", "states:", "name: polish"] {
            assert!(kept.iter().any(|kept| kept.starts_with(line)), "{line} of {}\n{new}", shown());
        }
        let second = project.run(&["migrate", "--write", "loop.yaml"], b"");
        assert_eq!(project.read("loop.yaml").as_deref(), Some(&*new), "{}\n{}", shown(), second.stdout);
        assert!(
            second.stdout.starts_with("loop.yaml: nothing to change\n"),
            "{}\n{}",
            shown(),
            second.stdout
        );
    }
}

/// A list of commands in some layout, with some spellings of an older system in it.
fn older_list(random: &mut Random) -> String {
    let mut lines: Vec<String> = vec!["name: commands".to_owned(), "mode: standard".to_owned()];
    let mut comments = 0;
    let mut comment = |random: &mut Random, indent: &str, lines: &mut Vec<String>| {
        if below(random, 3) == 0 {
            comments += 1;
            lines.push(format!("{indent}# remark {comments}"));
        }
    };
    let behind = |random: &mut Random, text: &str| {
        let gap = one(random, &["", "", "  # beside it", " # a: b"]);
        format!("{text}{gap}")
    };
    if random.percent(50) {
        lines.push("env:".to_owned());
        lines.push(behind(random, "  WHO: \"Ada\""));
    } else {
        lines.push("context: {WHO: Ada}".to_owned());
    }
    let has_env = lines.iter().any(|line| line == "env:");
    let key = one(random, &["commands:", "steps:"]);
    lines.push(key.to_owned());
    let dash = one(random, &["", "  "]);
    let indent = format!("{dash}  ");
    for number in 0..=below(random, 4) {
        comment(random, &indent, &mut lines);
        lines.push(behind(random, &format!("{dash}- shell: test -e file-{number}")));
        for flag in ["commit_required: false", "description: looks", "capture_output: true"] {
            if random.percent(25) {
                lines.push(behind(random, &format!("{indent}{flag}")));
            }
        }
        if random.percent(60) {
            lines.push(behind(random, &format!("{indent}on_failure:")));
            let mut keys =
                vec![one(random, &["shell: \"echo ${shell.output}\"", "claude: \"/mend ${shell.stderr}\""])];
            keys.push(one(random, &["max_attempts: 2", "max_attempts: 3"]));
            for key in ["fail_workflow: true", "fail_workflow: false", "commit_required: true"] {
                let is_second = key.starts_with("fail") && keys.iter().any(|known| known.starts_with("fail"));
                if random.percent(40) && !is_second {
                    let at = below(random, keys.len() + 1);
                    keys.insert(at, key);
                }
            }
            for key in keys {
                comment(random, &format!("{indent}  "), &mut lines);
                lines.push(behind(random, &format!("{indent}  {key}")));
            }
        }
        if has_env && random.percent(40) {
            lines.push(format!("{dash}- claude: \"Hello ${{WHO}} of $WHO\""));
        }
    }
    lines.join("\n") + "\n"
}

#[test]
fn lists_keep_comments_and_layout_and_twice_is_once() {
    let seed = seed();
    let count = if is_long() { 400 } else { 25 };
    let project = Project::new();
    for number in 0..count {
        let mut random = Random::new(seed.wrapping_add(number));
        let old = older_list(&mut random);
        let shown = || format!("THREADLINE_SEED={seed}, number {number}:\n{old}");
        project.write("list.yaml", old.as_bytes());
        let before = project.run(&["check", "list.yaml"], b"");
        assert_eq!(before.exit, 0, "{}\n{}", shown(), before.stderr);
        let first = project.run(&["migrate", "--write", "list.yaml"], b"");
        assert_eq!(first.exit, 0, "{}\n{}{}", shown(), first.stdout, first.stderr);
        let new = project.read("list.yaml").expect("the file");
        // A comment may move with what it stands beside; none is lost.
        let sorted = |text: &str| {
            let mut remarks = remarks(text);
            remarks.sort();
            remarks
        };
        assert_eq!(sorted(&old), sorted(&new), "{}\n{new}", shown());
        let after = project.run(&["check", "list.yaml"], b"");
        assert_eq!(after.exit, 0, "{}\n{new}\n{}", shown(), after.stderr);
        for id in ["old-spelling", "deprecated-spelling", "max_attempts"] {
            assert!(!after.stderr.contains(id), "{}\n{new}\n{}", shown(), after.stderr);
        }
        let second = project.run(&["migrate", "--write", "list.yaml"], b"");
        assert_eq!(project.read("list.yaml").as_deref(), Some(&*new), "{}\n{}", shown(), second.stdout);
    }
}

/// The workflow files below a folder.
fn workflows(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).expect("the folder of the examples");
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            workflows(&path, found);
        } else if path.extension().is_some_and(|end| end == "yaml" || end == "yml") {
            found.push(path);
        }
    }
}

#[test]
fn sound_examples_come_out_byte_for_byte() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut files = Vec::new();
    workflows(&folder, &mut files);
    files.sort();
    assert!(!files.is_empty(), "no examples");
    let project = Project::new();
    for path in &files {
        let name = path.strip_prefix(&folder).expect("a file below").display().to_string();
        project.write(&name, &std::fs::read(path).expect("an example"));
    }
    for path in &files {
        let name = path.strip_prefix(&folder).expect("a file below").display().to_string();
        let before = project.read(&name);
        if project.run(&["check", &name], b"").exit != 0 {
            continue;
        }
        let outcome = project.run(&["migrate", "--write", &name], b"");
        assert_eq!(project.read(&name), before, "{name}: {}", outcome.stdout);
    }
}
