//! Reports of `threadline test`: for programs, for CI systems, and what has changed since an earlier one.

#![expect(clippy::unwrap_used, reason = "a report that cannot be read fails the test")]

use std::process::{Command, Output};

use serde_json::Value;

use crate::support::{Outcome, Project, junit_schema};

/// Scenarios that come to each result, with repetitions and judges of which one is flaky.
pub(crate) const SCENARIOS: &str = r#"name: Support
agents:
  judge: {command: [sh, judge.sh]}
  coin: {command: [sh, coin.sh]}
targets:
  polite: {shell: 'printf "Hello, %s" ${prompt}'}
  short: {argv: [echo, "No."]}
scenarios:
  greets:
    name: Greets
    description: Every answer begins with a greeting.
    tags: [happy-path, tone]
    targets: [polite, short]
    prompt: What is open?
    expectations:
      - shouldContain: Hello
      - text: {length: {lte: 200}}
  cases:
    name: Says the name
    target: polite
    cases: [{name: ann, who: Ann}, {name: bob, who: Bob}]
    prompt: "${case.who}"
    expectations: {shouldContain: "${case.who}"}
  judged:
    name: Is friendly
    tags: [tone]
    target: polite
    prompt: Hi
    judges: [judge, {agent: coin, repeat: 2}]
    expectations: {judge: is it friendly?}
  repeated:
    name: Never fails
    target: {shell: 'echo x >> count; wc -l < count | grep -v 2'}
    repeat: {times: 3, pass: 60%}
    prompt: Go
    expectations: {shouldNotContain: "2"}
  broken:
    name: Cannot be asked
    target: {argv: [sh, -c, "echo no connection >&2; exit 3"]}
    prompt: Go
    expectations: {shouldContain: "yes"}
  later:
    name: Comes later
    skip: not ready
    target: polite
    prompt: Go
    expectations: {shouldContain: "yes"}
"#;

const JUDGE: &str = r#"cat > /dev/null; echo '{"met": true, "reason": "it greets", "evidence": ["Hello"]}'"#;
const COIN: &str = r#"echo x >> coin; if [ $(wc -l < coin) = 2 ]; then met=true; else met=false; fi
echo "{\"met\": $met, \"reason\": \"a guess\", \"evidence\": []}""#;

pub(crate) fn support() -> Project {
    let project = Project::new();
    project.write("support.test.yaml", SCENARIOS.as_bytes());
    project.write("judge.sh", JUDGE.as_bytes());
    project.write("coin.sh", COIN.as_bytes());
    project
}

fn tested(project: &Project, arguments: &[&str], exit: i32) -> Outcome {
    let all: Vec<&str> = ["test", "--jobs", "1"].iter().chain(arguments).copied().collect();
    let outcome = project.run(&all, b"");
    assert_eq!(outcome.exit, exit, "{arguments:?}: {}{}", outcome.stdout, outcome.stderr);
    outcome
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// The cases of a document by the name of the scenario, the target and the case.
fn case_of<'v>(document: &'v Value, name: &str, part: &str) -> &'v Value {
    let cases =
        document["files"].as_array().unwrap().iter().flat_map(|file| file["cases"].as_array().unwrap());
    let is_it = |case: &&Value| {
        case["name"] == name && (part.is_empty() || case["target"] == part || case["case"] == part)
    };
    cases.into_iter().find(is_it).unwrap()
}

#[test]
fn the_document_is_as_its_schema_says_and_has_every_result() {
    let project = support();
    let printed = tested(&project, &["--format", "json", "support.test.yaml"], 1).stdout;
    let document = json(&printed);
    let schema = json(&project.run(&["schema", "tests"], b"").stdout);
    let schema = jsonschema::validator_for(&schema).unwrap();
    let problems: Vec<String> =
        schema.iter_errors(&document).map(|error| format!("{error} at {}", error.instance_path())).collect();
    assert!(problems.is_empty(), "{problems:#?}");
    let counts = &document["counts"];
    let count = |name: &str| counts[name].as_u64().unwrap();
    let found = ["cases", "passed", "failed", "not_evaluable", "errored", "skipped", "not_run"].map(count);
    assert_eq!(found, [8, 4, 1, 1, 1, 1, 0], "{counts}");
    let repeated = case_of(&document, "Never fails", "");
    assert_eq!((&repeated["passed"], &repeated["tried"]), (&2.into(), &3.into()), "{repeated}");
    assert_eq!(repeated["pass_rate"].to_string(), "0.6667");
    assert_eq!(repeated["interval"].to_string(), "[0.2077,0.9385]");
    let judged = case_of(&document, "Is friendly", "");
    assert_eq!(judged["flaky"].to_string(), r#"["coin"]"#);
    let check = &judged["executions"][0]["checks"][0];
    assert_eq!(check["opinions"].as_array().unwrap().len(), 2, "{check}");
    let failed = case_of(&document, "Greets", "short");
    let turn = &failed["executions"][0]["turns"][0];
    assert_eq!(turn["prompt"], "What is open?");
    assert_eq!(turn["answer"].to_string(), "\"No.\"");
    let expectation = &failed["executions"][0]["checks"][0]["expectations"][0];
    assert_eq!(
        (&expectation["result"], &expectation["line"], &expectation["file"]),
        (&"unmet".into(), &16.into(), &"support.test.yaml".into())
    );
    let broken = &case_of(&document, "Cannot be asked", "")["executions"][0]["turns"][0];
    assert_eq!(broken["answer"], Value::Null);
    assert!(broken["printed"].to_string().contains("no connection"), "{broken}");
    assert_eq!(case_of(&document, "Comes later", "")["reason"], "not ready");
}

#[test]
fn several_reports_are_written_beside_the_text() {
    let project = support();
    let reports = ["--report", "json=a.json", "--report", "junit=a.xml", "--report", "html=a.html"];
    let all: Vec<&str> = reports.iter().chain(&["--report", "text=a.txt"]).copied().collect();
    let outcome = tested(&project, &all, 1);
    assert!(outcome.stdout.contains("8 cases: 4 passed, 1 failed, 1 not evaluable"), "{}", outcome.stdout);
    assert_eq!(json(&project.read("a.json").unwrap())["counts"]["passed"], 4);
    assert!(project.read("a.xml").unwrap().contains("<testsuite name=\"Support\" tests=\"8\""));
    assert!(project.read("a.html").unwrap().starts_with("<!doctype html>"));
    let text = project.read("a.txt").unwrap();
    assert!(text.contains("8 cases: 4 passed") && !text.contains('\u{1b}'), "{text}");
}

#[test]
fn a_report_that_cannot_be_written_is_refused_before_anything_is_asked() {
    let project = support();
    let refused = tested(&project, &["--report", "html=none/a.html"], 3);
    assert!(refused.stderr.contains("cannot write the report `none/a.html`"), "{}", refused.stderr);
    assert!(project.read("count").is_none());
    let refused = tested(&project, &["--report", "pdf=a.pdf"], 2);
    assert!(refused.stderr.contains("`pdf` is no format: it is `text`, `json`, "), "{}", refused.stderr);
}

/// An element, its attributes, those of them that it needs, and the elements in it.
type ElementRule = (&'static str, &'static [&'static str], &'static [&'static str], &'static [&'static str]);

/// What the schema that Jenkins publishes for `JUnit` allows: an element, its attributes, those of them that it
/// needs, and the elements in it.
const JUNIT: [ElementRule; 10] = [
    ("testsuites", &["name", "time", "tests", "failures", "errors"], &[], &["testsuite"]),
    (
        "testsuite",
        &["name", "tests", "failures", "errors", "group", "time", "skipped", "timestamp", "hostname", "id"],
        &["name", "tests", "failures", "errors"],
        &["testsuite", "properties", "testcase", "system-out", "system-err"],
    ),
    (
        "testcase",
        &["name", "time", "classname", "group"],
        &["name"],
        &["skipped", "error", "failure", "system-out", "system-err"],
    ),
    ("properties", &[], &[], &["property"]),
    ("property", &["name", "value"], &["name", "value"], &[]),
    ("system-out", &[], &[], &[]),
    ("system-err", &[], &[], &[]),
    ("failure", &["type", "message"], &[], &[]),
    ("error", &["type", "message"], &[], &[]),
    ("skipped", &[], &[], &[]),
];

/// Holds a document against the schema.
fn check_junit(xml: &str) {
    junit_schema::check(xml);
    let tag = regex::Regex::new(r#"<(/?)([a-z-]+)((?: [a-z]+="[^"<>]*")*)\s*(/?)>"#).unwrap();
    let attribute = regex::Regex::new(r#" ([a-z]+)="([^"]*)""#).unwrap();
    let reference = regex::Regex::new("&(amp|lt|gt|quot|apos);").unwrap();
    // What XML 1.0 lets nobody write, not even escaped.
    let has_control =
        |char: char| char.is_control() && !matches!(char, '\n' | '\t' | '\r' | '\u{7f}'..='\u{9f}');
    assert!(!xml.contains(has_control), "{xml:?}");
    let body = xml.strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n").unwrap();
    let mut open: Vec<&str> = Vec::new();
    let mut end = 0;
    for found in tag.captures_iter(body) {
        let whole = found.get(0).unwrap();
        let between = &body[end..whole.start()];
        assert!(!between.contains(['<', '>']), "{between}");
        assert!(reference.replace_all(between, "").find('&').is_none(), "{between}");
        assert!(reference.replace_all(whole.as_str(), "").find('&').is_none(), "{}", whole.as_str());
        let takes_text =
            matches!(open.last(), Some(&"failure" | &"error" | &"skipped" | &"system-out" | &"system-err"));
        assert!(takes_text || between.trim().is_empty(), "text in {open:?}: {between}");
        end = whole.end();
        let name = found.get(2).unwrap().as_str();
        if &found[1] == "/" {
            assert_eq!(open.pop(), Some(name));
            continue;
        }
        let known = |name: &str| JUNIT.iter().find(|(known, ..)| *known == name);
        let (_, allowed, required, _) = known(name).unwrap_or_else(|| panic!("`{name}` is not known"));
        match open.last().map(|outer| known(outer).unwrap()) {
            Some((outer, _, _, inner)) => assert!(inner.contains(&name), "`{name}` in `{outer}`"),
            None => assert_eq!(name, "testsuites"),
        }
        let attributes: Vec<(String, String)> = attribute
            .captures_iter(&found[3])
            .map(|found| (found[1].to_owned(), found[2].to_owned()))
            .collect();
        for (key, value) in &attributes {
            assert!(allowed.contains(&key.as_str()), "`{key}` of `{name}`");
            let is_time = value.chars().all(|char| char.is_ascii_digit() || char == '.');
            assert!(key != "time" || is_time, "{value}");
        }
        for key in *required {
            assert!(attributes.iter().any(|(known, _)| known == key), "`{name}` without `{key}`");
        }
        if &found[4] != "/" {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn the_report_for_ci_systems_is_as_jenkins_wants_it() {
    let project = support();
    let xml = tested(&project, &["--format", "junit"], 1).stdout;
    check_junit(&xml);
    let head = "<testsuite name=\"Support\" tests=\"8\" failures=\"1\" errors=\"2\" skipped=\"1\">";
    assert!(xml.contains(head), "{xml}");
    assert!(xml.contains("name=\"Greets · short\""), "{xml}");
    assert!(xml.contains("<failure message=\"`text` does not contain &quot;Hello&quot;"), "{xml}");
    assert!(xml.contains("support.test.yaml:16:9: unmet: "), "{xml}");
    assert!(xml.contains("<skipped>not ready</skipped>"), "{xml}");
    // What could not be evaluated, and what could not be asked, is no failure of the target.
    assert_eq!(xml.matches("<error message=").count(), 2, "{xml}");
    assert!(xml.contains("│ no connection"), "{xml}");
    assert!(xml.contains("<property name=\"file\" value=\"support.test.yaml\"/>"), "{xml}");
    assert!(xml.contains("<property name=\"run\" value=\""), "{xml}");
    assert!(
        xml.contains("<system-out>prompt: What is open?\nanswer: Hello, What is open?\n</system-out>"),
        "{xml}"
    );
}

/// Whatever a target says, in every place that a report has for it.
#[test]
fn hostile_texts_are_texts_in_the_report_for_ci_systems() {
    let project = Project::new();
    let hostile = "</system-out></failure>]]>&amp;<!-- \"'\u{1b}[31m\u{0}\u{7}\u{fffe}\r\n--> end";
    project.write("answer", hostile.as_bytes());
    let name = serde_json::to_string("<a & \"b\">").unwrap();
    let text = format!(
        "name: {name}\ntarget: {{argv: [cat, answer]}}\nscenarios:\n  good: {{name: {name}, prompt: {name}, expectations: \
         {{shouldContain: end}}}}\n  bad: {{name: {name}, cases: [{{name: {name}}}], prompt: {name}, expectations: \
         {{shouldContain: {name}}}}}\n  broken: {{target: {{shell: \"cat answer >&2; exit 1\"}}, prompt: {name}, \
         expectations: {{shouldContain: x}}}}\n  later: {{skip: {name}, prompt: x, expectations: {{shouldContain: x}}}}\n"
    );
    project.write("h.test.yaml", text.as_bytes());
    let xml = tested(&project, &["--format", "junit"], 1).stdout;
    check_junit(&xml);
    for element in ["<system-out>", "<failure ", "<error ", "<skipped>", "<property "] {
        assert!(xml.contains(element), "no {element}: {xml}");
    }
    assert!(xml.contains("&lt;a &amp; &quot;b&quot;&gt;") && xml.contains("]]&gt;&amp;amp;&lt;!--"), "{xml}");
}

fn on_github(project: &Project, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_threadline"));
    command.env("GITHUB_ACTIONS", "true").env("GITHUB_STEP_SUMMARY", project.path().join("summary.md"));
    command.args(arguments).current_dir(project.path()).output().unwrap()
}

#[test]
fn annotations_stand_beside_the_expectation() {
    let project = support();
    let printed = tested(&project, &["--format", "github"], 1).stdout;
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), 3, "{printed}");
    assert!(
        lines[0].starts_with(
            "::error file=support.test.yaml,line=16,col=9,title=Greets · short::unmet: `text` does not contain \
             \"Hello\": it is \"No.\"%0Aanswer: No.%0Athreadline explain "
        ),
        "{printed}"
    );
    assert!(lines[1].contains("line=30,col=19,title=Is friendly::not evaluable: "), "{printed}");
    // Nothing was answered, so the scenario is to blame and no expectation.
    assert!(lines[2].contains("line=37,col=3,title=Cannot be asked::exit code 3"), "{printed}");
}

#[test]
fn a_job_of_github_gets_annotations_and_a_summary_without_being_asked() {
    let project = support();
    project.write("summary.md", b"before\n");
    let output = on_github(&project, &["test", "--jobs", "1", "--filter", "greets"]);
    assert_eq!(output.status.code(), Some(1));
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(
        printed.contains("2 cases: 1 passed, 1 failed") && printed.contains("::error file="),
        "{printed}"
    );
    let summary = project.read("summary.md").unwrap();
    assert!(summary.starts_with("before\n### Scenarios: 1 of 2 passed\n\n1 passed, 1 failed, "), "{summary}");
    let row = "| Greets · short | failed | support.test.yaml:9 | \\`text\\` does not contain \"Hello\"";
    assert!(summary.contains(row), "{summary}");
    // A program that reads a document gets nothing else.
    let output = on_github(&project, &["test", "--format", "json"]);
    json(&String::from_utf8(output.stdout).unwrap());
}

/// A job may work in a folder of the repository, and GitHub looks for files by their paths in the repository.
#[test]
fn annotations_name_files_as_the_repository_does() {
    let project = Project::new();
    for (name, content) in [("support.test.yaml", SCENARIOS), ("judge.sh", JUDGE), ("coin.sh", COIN)] {
        project.write(&format!("parts/bot/{name}"), content.as_bytes());
    }
    for (workspace, file) in [(".", "parts/bot/support.test.yaml"), ("parts", "bot/support.test.yaml")] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_threadline"));
        command.env("GITHUB_ACTIONS", "true").env("GITHUB_WORKSPACE", project.path().join(workspace));
        command.args(["test", "--filter", "greets"]).current_dir(project.path().join("parts/bot"));
        let printed = String::from_utf8(command.output().unwrap().stdout).unwrap();
        assert!(printed.contains(&format!("::error file={file},line=16,col=9,")), "{printed}");
    }
}

/// What judges said stands below what is unmet because of it.
#[test]
fn a_failure_has_what_judges_said() {
    let project = support();
    let outcome = tested(&project, &["support.test.yaml", "--filter", "friendly"], 1);
    let judges = "  judges  judge on “is it friendly?”: yes: it greets\n          coin on “is it friendly?”: yes 1, no 1, flaky";
    assert!(outcome.stdout.contains(judges), "{}", outcome.stdout);
}

/// Cases that answer what a file says, so that another time another answer comes.
const CHANGING: &str = r#"
name: Changing
target: {argv: [cat, --, "${prompt}"]}
scenarios:
  fails: {prompt: a, expectations: {shouldContain: good}}
  passes: {prompt: b, expectations: {shouldContain: good}}
  differs: {prompt: c, expectations: {shouldContain: good}}
  stays: {prompt: d, expectations: {shouldContain: good}}
"#;

fn answers(project: &Project, answers: [&str; 4]) {
    for (name, answer) in ["a", "b", "c", "d"].iter().zip(answers) {
        project.write(name, answer.as_bytes());
    }
}

#[test]
fn a_baseline_says_what_has_changed() {
    let project = Project::new();
    let gone = format!("{CHANGING}  gone: {{prompt: d, expectations: {{shouldContain: good}}}}\n");
    project.write("c.test.yaml", gone.as_bytes());
    answers(&project, ["good", "bad", "good one", "good"]);
    tested(&project, &["--report", "json=before.json"], 1);
    let fresh = format!("{CHANGING}  fresh: {{prompt: d, expectations: {{shouldContain: good}}}}\n");
    project.write("c.test.yaml", fresh.as_bytes());
    answers(&project, ["bad", "good", "good two", "good"]);
    let reports = ["--baseline", "before.json", "--report", "json=now.json", "--report", "html=now.html"];
    let printed = tested(&project, &reports, 1).stdout;
    let section = printed.split("compared with before.json\n").nth(1).unwrap();
    let section = section.split("\n\n").next().unwrap();
    assert_eq!(
        section,
        "  newly failing   fails\n  newly passing   passes\n  changed answer  differs\n                  before  good \
         one\n                  now     good two\n  new             fresh\n  missing         gone"
    );
    let document = json(&project.read("now.json").unwrap());
    let baseline = &document["baseline"];
    assert_eq!(
        baseline.to_string(),
        r#"{"file":"before.json","newly_failing":1,"newly_passing":1,"changed_answer":1,"new":1,"missing":["gone"]}"#
    );
    assert_eq!(case_of(&document, "fails", "")["change"], "newly_failing");
    assert_eq!(case_of(&document, "stays", "")["change"], Value::Null);
    let page = project.read("now.html").unwrap();
    for text in ["newly failing</span> <a href=\"#case-1-1\">fails</a>", "Answer before", "good one"] {
        assert!(page.contains(text), "no `{text}`");
    }
    // The exit code is about the results, and not about changes.
    answers(&project, ["good", "good", "good three", "good"]);
    tested(&project, &["--baseline", "before.json"], 0);
}

#[test]
fn what_was_not_chosen_is_not_missing() {
    let project = Project::new();
    project.write("c.test.yaml", CHANGING.as_bytes());
    project.write("d.test.yaml", CHANGING.replace("Changing", "Other").as_bytes());
    answers(&project, ["good", "good", "good", "good"]);
    tested(&project, &["--report", "json=before.json"], 0);
    for chosen in [&["--filter", "stays"][..], &["c.test.yaml"], &["--shard", "1/2"]] {
        let arguments: Vec<&str> = ["--baseline", "before.json"].iter().chain(chosen).copied().collect();
        let printed = tested(&project, &arguments, 0).stdout;
        assert!(printed.contains("  nothing has changed\n"), "{chosen:?}: {printed}");
    }
    std::fs::remove_file(project.path().join("d.test.yaml")).unwrap();
    let printed = tested(&project, &["--baseline", "before.json"], 0).stdout;
    assert_eq!(printed.matches("  missing  ").count(), 4, "{printed}");
}

#[test]
fn a_file_that_is_no_report_is_no_baseline() {
    let project = support();
    for text in ["{}", "[1]", r#"{"files": [{"file": "a", "cases": [{"name": "x"}]}]}"#] {
        project.write("base.json", text.as_bytes());
        let refused = tested(&project, &["--baseline", "base.json"], 3);
        assert!(refused.stderr.contains("is no report of `threadline test`"), "{text}: {}", refused.stderr);
        assert!(refused.stderr.contains("hint: `threadline test --report json=FILE` writes one"));
    }
    let refused = tested(&project, &["--baseline", "none.json"], 3);
    assert!(refused.stderr.contains("none.json"), "{}", refused.stderr);
}

#[test]
fn only_what_failed_last_is_tried_again() {
    let project = support();
    let first = tested(&project, &["--failed", "support.test.yaml"], 1);
    let all = "note: `support.test.yaml` was not tried before: all of it is tried";
    assert!(first.stderr.contains(all), "{}", first.stderr);
    assert!(first.stdout.contains("8 cases: "), "{}", first.stdout);
    let again = tested(&project, &["--failed", "./support.test.yaml"], 1).stdout;
    assert!(again.contains("3 cases: "), "{again}");
    assert!(again.contains("Greets · short") && !again.contains("Greets · polite"), "{again}");
    // What is well now is not tried any more.
    let fixed = SCENARIOS.replace("[echo, \"No.\"]", "[echo, \"Hello.\"]").replace("exit 3", "echo yes");
    project.write("support.test.yaml", fixed.as_bytes());
    let fixed = tested(&project, &["--failed", "--filter", "greets", "support.test.yaml"], 0).stdout;
    assert!(fixed.contains("1 case: 1 passed"), "{fixed}");
    let none = tested(&project, &["--failed", "support.test.yaml"], 0);
    assert!(none.stderr.contains("note: no case of `support.test.yaml` failed in its last run, "));
    assert_eq!(none.stdout, "\n0 cases: 0 passed (0ms)\n");
}

/// Of several cases only those are tried again that failed.
#[test]
fn cases_that_failed_are_chosen_by_their_values() {
    let project = Project::new();
    let text = "name: Words\ntarget: {argv: [echo, \"${prompt}\"]}\nprompt: ${case.word}\ncases: [{word: good}, \
                {word: bad}, {word: \"it's \\\"bad\\\"\"}]\nexpectations: {shouldContain: good}\n";
    project.write("w.test.yaml", text.as_bytes());
    let first = tested(&project, &[], 1).stdout;
    assert!(first.contains("3 cases: 1 passed, 2 failed"), "{first}");
    let again = tested(&project, &["--failed"], 1).stdout;
    assert!(again.contains("2 cases: 0 passed, 2 failed"), "{again}");
}
