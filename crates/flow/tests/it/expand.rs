//! What files are short for: expanding twice changes nothing, and no file makes more of itself than the limits allow.

use std::collections::BTreeMap;

use threadline_flow::files::{USER_AGENTS, Unread, assemble, no_user_agents};
use threadline_flow::load::expanded;
use threadline_flow::problem::Problem;
use threadline_lang::Value;
use threadline_lang::data::{DataFormat, yaml};
use threadline_lang::source::SourceFile;

fn file(name: &str, text: &str) -> SourceFile {
    SourceFile::with_format(name, text, DataFormat::Yaml)
}

/// The first of these files, put together with the others.
fn assembled(texts: &BTreeMap<String, String>, name: &str) -> SourceFile {
    let read = |name: &str| {
        let missing = || Unread { message: format!("no {name}"), hint: None, nearest: None };
        let user = (name == USER_AGENTS).then(no_user_agents);
        texts.get(name).map(|text| file(name, text)).or(user).ok_or_else(missing)
    };
    assemble(file(name, &texts[name]), &read)
}

fn ids(problems: &[Problem]) -> Vec<&'static str> {
    problems.iter().filter(|problem| problem.is_error()).map(|problem| problem.id).collect()
}

/// What a text is short for, when there is no error in it.
fn once(text: &str) -> Option<Value> {
    let (tree, problems) = expanded(&file("loop.yaml", text));
    tree.filter(|_| ids(&problems).is_empty()).map(|tree| tree.value)
}

fn written(value: &Value) -> String {
    let mut out = String::new();
    yaml::write(value, &mut out);
    out
}

/// Keys with values, of which files are made at random.
const ENTRIES: &[&str] = &[
    "goal: all is well",
    "paradigm: goal",
    "paradigm: imperative",
    "paradigm: fsm",
    "check: test -e x",
    "check: {shell: test -e x, timeout: 3s}",
    "fix: /team:fix it",
    "fix: {claude: fix it}",
    "tools: [a, {tool: b, action_type: shell}]",
    "evaluator: {type: exit_code}",
    "toward: 0.50",
    "using: echo 1",
    "tolerance: ${context.near}",
    "direction: maximize",
    "constraints: [{name: a, check: b, fix: c}, {name: d, check: e, fix: f, evaluate: exit_code}]",
    "until: {check: a, passes: false}",
    "until: a",
    "steps: [a, {shell: b}]",
    "maintain: true",
    "context: {near: 1, word: 'yes', text: \"a\\nb\\n\"}",
    "fragments: {one: {parameters: {x: {default: 'on'}, y: {required: false}}, action: 'echo ${param.x}', env: {A: null}}}",
    "states: {fix: {timeout: 1m}, more: {fragment: one, with: {x: '${context.near}'}, next: done}}",
    "states: {done: {loop: other, with: {a: 1}}, evaluate: null}",
    "states: {a: {fragment: one, param: {z: 1}, action: null}}",
    "initial: a",
];

#[test]
fn expanding_twice_changes_nothing() {
    let mut state = 7_u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    let mut sound = 0;
    for _ in 0..4_000 {
        let mut chosen: Vec<&str> = Vec::new();
        for _ in 0..=next(6) {
            let entry = ENTRIES[next(ENTRIES.len())];
            let key = |entry: &str| entry.split(':').next().unwrap_or_default().to_owned();
            if !chosen.iter().any(|known| key(known) == key(entry)) {
                chosen.push(entry);
            }
        }
        let text = chosen.join("\n");
        let Some(first) = once(&text) else { continue };
        sound += 1;
        let again = written(&first);
        let second = once(&again).unwrap_or_else(|| panic!("{text}\n---\n{again}"));
        assert_eq!(written(&second), again, "{text}");
    }
    assert!(sound > 400, "{sound} files were sound");
}

#[test]
fn files_one_behind_the_other_have_an_end() {
    let texts: BTreeMap<String, String> =
        (0..40).map(|at| (format!("{at}.yaml"), format!("from: {}.yaml\nname: a", at + 1))).collect();
    let (tree, problems) = expanded(&assembled(&texts, "0.yaml"));
    assert!(tree.is_none());
    assert_eq!(ids(&problems), ["import-cycle"]);
    assert!(problems[0].message.contains("more than 16"), "{problems:?}");
    assert_eq!(assembled(&texts, "0.yaml").placed(problems[0].span.range().start).name, "16.yaml");
}

#[test]
fn a_file_is_imported_once_however_often_it_is_named() {
    let level = |at: usize| {
        let paths: Vec<String> =
            (0..8).flat_map(|_| [format!("a{}.yaml", at + 1), format!("b{}.yaml", at + 1)]).collect();
        format!("import: [{}]\nfragments: {{f{at}: {{action: echo {at}}}}}", paths.join(", "))
    };
    let mut texts: BTreeMap<String, String> =
        (0..14).flat_map(|at| ["a", "b"].map(|letter| (format!("{letter}{at}.yaml"), level(at)))).collect();
    for letter in ["a", "b"] {
        texts.insert(format!("{letter}14.yaml"), "fragments: {last: {action: echo last}}".to_owned());
    }
    let states = "initial: x\nstates: {x: {fragment: last}}";
    texts.insert("a0.yaml".to_owned(), format!("{}\n{states}", level(0)));
    let (tree, problems) = expanded(&assembled(&texts, "a0.yaml"));
    assert_eq!(ids(&problems), [""; 0]);
    let action = tree.unwrap().value.get("states").and_then(|states| states.get("x")?.get("action").cloned());
    assert_eq!(action, Some(Value::from("echo last")));
}

#[test]
fn no_more_files_are_put_together_than_the_limit() {
    let paths: Vec<String> = (0..400).map(|at| format!("{at}.yaml")).collect();
    let mut texts: BTreeMap<String, String> =
        paths.iter().map(|path| (path.clone(), "fragments: {}".to_owned())).collect();
    texts.insert("all.yaml".to_owned(), format!("import: [{}]", paths.join(", ")));
    let file = assembled(&texts, "all.yaml");
    assert_eq!(file.parts().count(), 255);
    let (tree, problems) = expanded(&file);
    assert!(tree.is_none() && ids(&problems).len() == 145, "{problems:?}");
}

#[test]
fn a_large_fragment_in_many_states_is_refused() {
    use std::fmt::Write as _;
    let mut text = "initial: s0\nfragments:\n  large:\n    env:\n".to_owned();
    for at in 0..2_000 {
        writeln!(text, "      V{at}: a").unwrap();
    }
    text.push_str("states:\n");
    for at in 0..2_000 {
        writeln!(text, "  s{at}: {{fragment: large, env: {{X: a}}}}").unwrap();
    }
    let (_, problems) = expanded(&file("loop.yaml", &text));
    assert_eq!(ids(&problems), ["unreadable"]);
    assert!(problems[0].message.starts_with("more than 1000000 keys are inherited"), "{problems:?}");
}

#[test]
fn every_place_of_a_part_leads_to_it() {
    let texts: BTreeMap<String, String> = [
        ("main.yaml", "from: base.yaml\nname: ä\n"),
        ("base.yaml", "# é\ninitial: one\nstates:\n  one: {terminal: true}\n"),
    ]
    .map(|(name, text)| (name.to_owned(), text.to_owned()))
    .into();
    let file = assembled(&texts, "main.yaml");
    let (tree, _) = expanded(&file);
    let tree = tree.unwrap();
    let place = |key: &str| {
        let span = tree.entry(key).unwrap().key_span;
        assert_eq!(&file.text()[span.range()], key);
        (file.placed(span.range().start).name.to_owned(), file.line_column(span.range().start))
    };
    assert_eq!(place("name"), ("main.yaml".to_owned(), (2, 1)));
    assert_eq!(place("initial"), ("base.yaml".to_owned(), (2, 1)));
    assert_eq!(place("states"), ("base.yaml".to_owned(), (3, 1)));
    assert_eq!(file.own_text(), texts["main.yaml"]);
    let parts: Vec<SourceFile> = file.parts().collect();
    assert_eq!((parts[0].name(), parts[0].text()), ("base.yaml", texts["base.yaml"].as_str()));
}
