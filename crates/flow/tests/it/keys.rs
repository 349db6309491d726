//! The table of keys and the loader: every key of the table is read, and every default of it can be.

use threadline_flow::fields::{self, ActionName, Form, KeyKind, KeySpec, ObjectSpec, PROVIDERS};
use threadline_flow::load::load;
use threadline_flow::plan::ROOTS;
use threadline_flow::problem::Problem;
use threadline_lang::data::DataFormat;
use threadline_lang::source::SourceFile;

/// The problems of a text, and the text of each place.
fn problems(text: &str) -> Vec<(Problem, String)> {
    let (_, problems) = load(SourceFile::with_format("test", text, DataFormat::Yaml));
    let place = |problem: &Problem| text.get(problem.span.range()).unwrap_or("outside").to_owned();
    problems.into_iter().map(|problem| (problem.clone(), place(&problem))).collect()
}

/// A map that is well.
const MAP: &str = "map: {input: [1], steps: [{shell: a}]}";

/// The keys of a file that go with a map.
const OF_MAP_REDUCE: [&str; 6] = ["mode", "setup", "reduce", "merge", "aggregates", "error_policy"];

/// The keys of a file with one scenario.
const OF_SCENARIOS: [&str; 20] = [
    "target",
    "targets",
    "facts",
    "tags",
    "cases",
    "repeat",
    "judge",
    "judges",
    "quorum",
    "rubric",
    "prompt",
    "expectations",
    "id",
    "category",
    "skip",
    "environment",
    "entities",
    "walletState",
    "onchainState",
    "localState",
];

/// What a scenario with a key needs beside it.
fn in_scenario(name: &str) -> &'static [&'static str] {
    match name {
        "steps" => &["name: a", "target: claude"],
        "targets" => &["name: a", "prompt: a"],
        "judges" => &["name: a", "target: claude", "prompt: a", "expectations: {judge: a}"],
        "judge" | "quorum" | "rubric" => {
            &["name: a", "target: claude", "prompt: a", "judge: claude", "expectations: {judge: a}"]
        }
        _ => &["name: a", "target: claude", "prompt: a"],
    }
}

/// A key beside those that it needs there.
fn with_needed(key: &str, needed: &[&str], between: &str) -> String {
    let name = |entry: &str| entry.split(':').next().unwrap_or_default().to_owned();
    let others = needed.iter().copied().filter(|other| name(other) != name(key));
    others.chain([key]).collect::<Vec<_>>().join(between)
}

/// What a file with a key of a loop needs beside it, when it is such a key.
fn of_loop(name: &str) -> Option<&'static [&'static str]> {
    Some(match name {
        "states" | "initial" | "max_steps" | "max_iterations" | "max_edge_revisits" | "max_stall"
        | "timeout" | "backoff" | "maintain" => &["initial: a", "states: {a: {terminal: true}}"],
        "fragments" => &["initial: a", "states: {a: {fragment: a}}"],
        "paradigm" | "goal" | "check" | "fix" | "evaluate" => &["goal: a", "check: a", "fix: a"],
        "tools" => &["goal: a"],
        "toward" | "using" | "tolerance" | "direction" => &["check: a", "toward: 1", "using: a"],
        "constraints" => &[],
        "until" => &["steps: [{shell: a}]"],
        _ => return None,
    })
}

/// What an evaluation of a type needs.
fn of_evaluate(kind: &str) -> &'static [&'static str] {
    match kind {
        "expression" => &["type: expression", "expression: true"],
        "output_numeric" => &["type: output_numeric", "target: 1"],
        "output_json" => &["type: output_json", "target: 1"],
        "output_contains" => &["type: output_contains", "pattern: a"],
        "convergence" => &["type: convergence", "target: 1"],
        "classify" => &["type: classify"],
        "expect" => &["type: expect", "expect: {shouldContain: a}"],
        "agent" => &["type: agent"],
        _ => &["type: exit_code"],
    }
}

/// A workflow in which an object has one more key.
fn with(object: &ObjectSpec, key: &KeySpec, value: &str) -> String {
    let (name, on, types) = (key.name, key.on, key.types);
    let key = format!("{name}: {value}");
    match object.name {
        "workflow" if matches!(name, "steps" | "nodes" | "map") => key,
        "workflow" if OF_MAP_REDUCE.contains(&name) => format!("{key}\n{MAP}"),
        "workflow" if let Some(needed) = of_loop(name) => with_needed(&key, needed, "\n"),
        "workflow" if name == "scenarios" => format!("target: claude\n{key}"),
        "workflow" if OF_SCENARIOS.contains(&name) => with_needed(&key, in_scenario(name), "\n"),
        "workflow" => format!("{key}\nsteps: [{{shell: a}}]"),
        "scenario" => format!("scenarios: [{{{}}}]", with_needed(&key, in_scenario(name), ", ")),
        "scenario_step" => {
            let before = if name == "assert" { "{prompt: a}, " } else { "" };
            let step = match name {
                "prompt" | "action" | "wait" | "waitMs" | "assert" | "type" => key,
                "expect" | "delayBefore" | "delayAfter" => format!("prompt: a, {key}"),
                _ => format!("{}{key}", beside(&key, on)),
            };
            format!("scenarios: [{{name: a, target: claude, steps: [{before}{{{step}}}]}}]")
        }
        "target" => {
            let target = format!("{}{key}", beside(&key, on));
            format!("scenarios: [{{name: a, target: {{{target}}}, prompt: a}}]")
        }
        "scenario_judge" => {
            let judge = with_needed(&key, &["agent: claude"], ", ");
            format!(
                "scenarios: [{{name: a, target: claude, prompt: a, judge: {{{judge}}}, expectations: {{judge: a}}}}]"
            )
        }
        "repeat" => {
            let repeat = with_needed(&key, &["times: 2"], ", ");
            format!("scenarios: [{{name: a, target: claude, prompt: a, repeat: {{{repeat}}}}}]")
        }
        "assert" if name == "answer" => format!("[{{assert: {{expect: {{text: a}}, {key}}}}}]"),
        "assert" => {
            let assert = with_needed(&key, &["value: 1", "expect: {value: 1}"], ", ");
            format!("[{{assert: {{{assert}}}}}]")
        }
        "input" => format!("inputs: {{a: {{{key}}}}}\nsteps: [{{shell: a}}]"),
        "agent" => format!("agents: {{a: {{{key}}}}}\nsteps: [{{shell: a}}]"),
        _ if let Some(provider) = PROVIDERS.iter().find(|known| known.object.name == object.name) => {
            let agent = with_needed(&key, &[&format!("provider: {}", provider.word.name)], ", ");
            format!("agents: {{a: {{{agent}}}}}\nsteps: [{{shell: a}}]")
        }
        "computed" => format!("computed: {{a: {{{key}}}}}\nsteps: [{{shell: a}}]"),
        "secret" => format!("secrets: {{a: {{{key}}}}}\nsteps: [{{shell: a}}]"),
        "allow" => format!("allow: {{{key}}}\nsteps: [{{shell: a}}]"),
        "defaults" => format!("defaults: {{{key}}}\nsteps: [{{shell: a}}]"),
        "http" => format!("[{{http: {{{key}}}}}]"),
        "shell_tool" => format!("[{{tool: shell, params: {{{key}}}}}]"),
        "server" if key.starts_with("headers:") => {
            format!("servers: {{a: {{url: 'http://a', {key}}}}}\nsteps: [{{shell: a}}]")
        }
        "server" => format!("servers: {{a: {{{key}}}}}\nsteps: [{{shell: a}}]"),
        "write_file" => format!("[{{write_file: {{{key}}}}}]"),
        "retry" => format!("[{{shell: a, retry: {{{key}}}}}]"),
        "agent_tool" => {
            let needed = if matches!(name, "workflow" | "name" | "description") {
                "workflow: b.yaml"
            } else {
                "server: b"
            };
            let tool = with_needed(&key, &[needed], ", ");
            format!(
                "agents: {{a: {{provider: openai, model: m, tools: [{{{tool}}}]}}}}\nsteps: [{{shell: a}}]"
            )
        }
        "budget" => format!("[{{agent: claude, message: a, budget: {{{key}}}}}]"),
        "map" if name == "input" => format!("map: {{{key}, steps: [{{shell: a}}]}}"),
        "map" if name == "steps" => format!("map: {{input: [1], {key}}}"),
        "map" => format!("map: {{input: [1], steps: [{{shell: a}}], {key}}}"),
        "source" if name == "format" => {
            format!("map: {{input: {{file: a, {key}}}, steps: [{{shell: a}}]}}")
        }
        "source" => format!("map: {{input: {{{key}}}, steps: [{{shell: a}}]}}"),
        "error_policy" => format!("{MAP}\nerror_policy: {{{key}}}"),
        "phase" if name == "steps" => format!("setup: {{{key}}}\n{MAP}"),
        "phase" => format!("setup: {{steps: [{{shell: a}}], {key}}}\n{MAP}"),
        "captured_output" => {
            let beside = if name == "command_index" { "" } else { "command_index: 0, " };
            format!("setup: {{steps: [{{shell: a}}], capture_outputs: {{a: {{{beside}{key}}}}}}}\n{MAP}")
        }
        "node" => format!("nodes: [{{{key}}}]"),
        "edge" => format!("nodes: {{a: {{shell: a}}}}\nedges: [{{{key}}}]"),
        "edge_config" => format!("nodes: {{a: {{shell: a}}}}\nedges: [{{config: {{{key}}}}}]"),
        "trigger" => format!("nodes: {{a: {{trigger: {{{key}}}}}}}"),
        "trigger_config" => format!("nodes: {{a: {{trigger: {{config: {{{key}}}}}}}}}"),
        "step" => format!("[{{{}{key}}}]", beside(&key, on)),
        "state" => format!("initial: a\nstates: {{a: {{{}{key}}}}}", beside_in_state(&key, on)),
        "fragment" => {
            let part = format!("{{{}{key}}}", beside_in_state(&key, on));
            format!("fragments: {{a: {part}}}\ninitial: a\nstates: {{a: {{fragment: a}}}}")
        }
        "evaluate" => {
            let needed = of_evaluate(types.first().unwrap_or(&"exit_code"));
            let evaluate = with_needed(&key, needed, ", ");
            format!("initial: a\nstates: {{a: {{shell: a, next: a, evaluate: {{{evaluate}}}}}}}")
        }
        "route" => {
            let route = with_needed(&key, &["when: true", "to: a"], ", ");
            format!("initial: a\nstates: {{a: {{shell: a, route: [{{{route}}}]}}}}")
        }
        "constraint" => {
            let needed = ["name: a", "check: a", "fix: a"];
            format!("constraints: [{{{}}}]", with_needed(&key, &needed, ", "))
        }
        "until" => format!("until: {{{}}}\nsteps: [{{shell: a}}]", with_needed(&key, &["check: a"], ", ")),
        other => panic!("no file with an object `{other}`"),
    }
}

/// What a step with a key needs beside it.
fn beside(key: &str, on: &[ActionName]) -> &'static str {
    let action = on.first().unwrap_or(&ActionName::Shell);
    match (key.split(':').next().unwrap_or_default(), action) {
        ("agent", _) => "message: a, ",
        ("message", _) => "agent: claude, ",
        ("output" | "ask_again" | "thread" | "cache", _) => "agent: claude, message: a, ",
        ("foreach", _) => "do: {shell: a}, ",
        ("do", _) => "foreach: [1], ",
        (_, ActionName::Condition) if !key.starts_with("condition:") => "condition: true, ",
        ("params", _) => "tool: a.b, ",
        ("with", _) => "workflow: a, ",
        ("claude", _) => "",
        (key, action) if key == action.key() => "",
        (_, ActionName::ForEach) => "foreach: [1], do: {shell: a}, ",
        _ => "shell: a, ",
    }
}

/// What a state with a key needs beside it.
fn beside_in_state(key: &str, on: &[ActionName]) -> &'static str {
    match key.split(':').next().unwrap_or_default() {
        "action" | "loop" | "fragment" => "",
        "action_type" => "action: a, ",
        _ => beside(key, on),
    }
}

fn every_key() -> impl Iterator<Item = (&'static ObjectSpec, &'static KeySpec)> {
    fields::objects().flat_map(|object| object.all_keys().map(move |key| (object, key)))
}

/// What a key never takes, when there is something.
fn never(kind: &KeyKind) -> Option<&'static str> {
    match kind {
        KeyKind::Value | KeyKind::Fixed(Form::Any) => None,
        // One of them may be written without a list.
        KeyKind::List(KeyKind::Either(_) | KeyKind::Fixed(_)) => Some("{wrong: 1}"),
        KeyKind::Object(_) | KeyKind::Map(_) | KeyKind::Steps | KeyKind::Nodes | KeyKind::List(_) => {
            Some("wrong")
        }
        KeyKind::Either(kinds) if kinds.iter().any(|kind| matches!(kind, KeyKind::Value)) => None,
        KeyKind::Either(kinds) if kinds.iter().any(|kind| matches!(kind, KeyKind::List(_))) => {
            Some("{wrong: 1}")
        }
        _ => Some("[wrong]"),
    }
}

#[test]
fn every_key_is_read() {
    let mut unread = Vec::new();
    for (object, key) in every_key() {
        let Some(value) = never(&key.kind) else { continue };
        let text = with(object, key, value);
        let found = problems(&text);
        let told = found.iter().any(|(_, place)| place.contains("wrong"));
        if !told {
            unread.push(format!("{}.{}: {text}\n{found:?}", object.name, key.name));
        }
    }
    assert!(unread.is_empty(), "nobody looks at\n{}", unread.join("\n"));
}

#[test]
fn every_spelling_is_read() {
    for (object, key) in every_key() {
        for alias in key.aliases {
            assert_eq!(object.key(alias).map(|key| key.name), Some(key.name), "{alias}");
        }
        let same = object.all_keys().filter(|other| other.name == key.name).count();
        assert_eq!(same, 1, "{}.{} stands twice", object.name, key.name);
    }
}

#[test]
fn every_default_could_be_written() {
    for (object, key) in every_key() {
        let Some(default) = key.default else { continue };
        let found = problems(&with(object, key, default));
        let refused = found.iter().find(|(_, place)| place == default);
        assert!(refused.is_none(), "{}.{}: {refused:?}", object.name, key.name);
    }
}

#[test]
fn what_is_here_is_not_elsewhere() {
    for (object, key) in every_key() {
        // A key of some steps may be what other systems have on every step: there it has the hint.
        let known = std::iter::once(&key.name).chain(key.aliases).filter(|_| key.on.is_empty());
        for name in known {
            assert_eq!(fields::find_unsupported_key(object.name, name), None, "{}.{name}", object.name);
        }
    }
    for root in ROOTS {
        assert_eq!(fields::hint_for_root(root), None, "{root}");
    }
}

#[test]
fn every_key_is_explained() {
    for (object, key) in every_key() {
        assert!(!key.doc.is_empty() && !key.doc.ends_with('.'), "{}.{}", object.name, key.name);
    }
}
