//! The pages as a reader has them, in a browser.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::Server;
use super::browser::Browser;
use crate::support::{Project, updates};

const LETTER: &str = r#"name: send a letter
inputs:
  urgent: {type: bool, default: false}
  host: {type: text, default: archive.internal}
nodes:
  text: {shell: 'echo "the invoice of May"'}
  gate: {condition: "inputs.urgent"}
  call: {needs: gate.true, shell: 'echo "called about ${text}"'}
  draft: {needs: gate.false, shell: 'echo "draft of ${text}"'}
  send: {value: "${draft}, sent"}
  archive:
    needs: [send]
    write_file:
      path: archive.json
      format: json
      content: {called: "${call:-not called}", sent: "${send:-not sent}"}
  upload:
    retry: {attempts: 3, backoff: fixed, delay: 1ms}
    shell: |
      echo "PUT ${archive.result.path} (${archive.result.bytes} bytes) to ${inputs.host}" >&2
      exit 7
  tell: {shell: 'echo "uploaded ${upload}"'}
"#;

const LINKS: &str = r#"name: check links
map:
  input: {shell: seq 0 59, format: lines}
  max_parallel: 4
  steps:
  - {id: target, value: "${= number(item) % 20 }"}
  - id: there
    when: target == 7
    retry: {attempts: 2, backoff: fixed, delay: 1ms}
    shell: 'echo "pages/${item}.md does not exist" >&2; exit 1'
error_policy: {failure_threshold: 50%}
"#;

const FIX: &str = r#"name: fix until green
initial: check
max_iterations: 10
states:
  check:
    action: 'n=$(cat state 2>/dev/null || echo 0); echo "$((2 - n)) left"; test $n -ge 2'
    capture: findings
    on_yes: done
    on_no: mend
  mend:
    action: 'n=$(cat state 2>/dev/null || echo 0); echo $((n + 1)) > state; echo "mended ${captured.findings.output}"'
    next: check
  done: {terminal: true}
"#;

const REVIEW: &str = r#"name: review a change
agents: {reviewer: {provider: command, command: [echo, "It is fine."]}}
steps:
- {id: read, value: "a change"}
- {id: review, agent: reviewer, message: "Review ${read}"}
- {id: part, workflow: part.yaml, with: {text: "${review.result.final_response}"}}
"#;

const PART: &str = "name: summarise\ninputs: {text: {type: text}}\nsteps: [{id: short, shell: 'echo ${inputs.text}'}]\nexports: {out: \"${short}\"}\n";

/// A project with a run of each shape, a server and a browser.
struct Reader {
    project: Project,
    server: Server,
    browser: Browser,
}

impl Reader {
    /// Nothing where there is no browser.
    fn new(files: &[(&str, &str)]) -> Option<Self> {
        let mut browser = Browser::start()?;
        let project = Project::new();
        for (name, text) in files {
            project.write(name, text.as_bytes());
        }
        let server = Server::start(project.path(), &[]);
        browser.enter(&server);
        Some(Self { project, server, browser })
    }

    fn run(&self, arguments: &[&str]) -> String {
        self.project.run(&[&["run"], arguments].concat(), b"");
        self.last()
    }

    fn last(&self) -> String {
        let printed = self.printed(&["runs", "--json"]);
        printed["runs"][0]["run"].as_str().expect("a run").to_owned()
    }

    fn printed(&self, arguments: &[&str]) -> Value {
        let printed = self.project.run(arguments, b"");
        serde_json::from_str(&printed.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
    }

    fn address(&self, path: &str) -> String {
        format!("http://{}{}/projects/project/{path}", self.server.host, self.server.base)
    }

    fn go(&mut self, path: &str) {
        let address = self.address(path);
        self.browser.go(&address);
    }
}

/// All pages in light and dark, wide and narrow: nothing goes wrong, nothing has to be scrolled sideways, and axe finds
/// nothing.
#[test]
fn every_page_is_narrow_and_accessible() {
    let files = [
        ("letter.yaml", LETTER),
        ("links.yaml", LINKS),
        ("fix.yaml", FIX),
        ("review.yaml", REVIEW),
        ("part.yaml", PART),
    ];
    let Some(mut reader) = Reader::new(&files) else { return };
    let letter = reader.run(&["letter.yaml"]);
    let urgent = reader.run(&["letter.yaml", "--input", "urgent=true"]);
    let links = reader.run(&["links.yaml"]);
    let fix = reader.run(&["fix.yaml"]);
    let review = reader.run(&["review.yaml"]);
    reader.go(&format!("runs/{letter}"));
    let value = reader.browser.js("document.querySelector('.ref').getAttribute('href')");
    let pages = [
        ("runs", "runs".to_owned()),
        ("run", format!("runs/{letter}")),
        ("value", format!("runs/{letter}{}", value.as_str().expect("a link"))),
        ("scrub", format!("runs/{letter}?at=9")),
        ("steps", format!("runs/{letter}?pane=steps&step=7")),
        ("log", format!("runs/{letter}?pane=log")),
        ("map", format!("runs/{links}")),
        ("item", format!("runs/{links}?pane=items&item=7")),
        ("loop", format!("runs/{fix}?visit=mend%232")),
        ("agent", format!("runs/{review}?pane=agents")),
        ("called", format!("runs/{review}?pane=called")),
        ("diff", format!("diff?run={letter}&run={urgent}")),
        ("start", "start?workflow=letter.yaml".to_owned()),
    ];
    let mut found = Vec::new();
    for (name, page) in &pages {
        for (width, is_dark) in [(1440, false), (1440, true), (400, false), (400, true)] {
            reader.browser.view(width, 900, is_dark);
            reader.go(page);
            let scheme = if is_dark { "dark" } else { "light" };
            let wide = reader.browser.js("document.documentElement.scrollWidth");
            if wide.as_u64() != Some(width.into()) {
                found.push(format!("{name} {width}: it is {wide} wide"));
            }
            let problems = reader.browser.problems();
            found.extend(problems.into_iter().map(|problem| format!("{name} {width} {scheme}: {problem}")));
            let wrong = reader.browser.axe();
            found.extend(wrong.into_iter().map(|wrong| format!("{name} {width} {scheme}: {wrong}")));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    if updates() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/pictures");
        std::fs::create_dir_all(&folder).expect("a folder");
        for (picture, name, width, is_dark) in [
            ("page-run", "value", 1440, false),
            ("page-map", "map", 1440, true),
            ("page-diff", "diff", 1440, false),
            ("page-narrow", "value", 400, false),
        ] {
            let page = pages.iter().find(|(known, _)| *known == name).expect("a page");
            reader.browser.view(width, 860, is_dark);
            reader.go(&page.1);
            reader.browser.picture(&folder.join(format!("{picture}.png")));
        }
    }
}

/// The values that stand in the source, by their places.
fn shown(reader: &mut Reader, page: &str) -> BTreeMap<String, String> {
    reader.go(page);
    let found = reader.browser.js(
        "Object.fromEntries([...document.querySelectorAll('#src .at')].filter(at => at.querySelector('.inl')).map(at => \
         [new URL(at.querySelector('a').href).searchParams.get('value'), (at.querySelector('.inl .val') ?? \
         at.querySelector('.inl')).textContent]))",
    );
    serde_json::from_value(found).expect("places with values")
}

/// What `explain` says of the same, for evaluations that are chosen.
fn explained(reader: &Reader, run: &str, chosen: impl Fn(&Value) -> bool) -> BTreeMap<String, String> {
    let explained = reader.printed(&["explain", run, "--all", "--json"]);
    let mut found = BTreeMap::new();
    for told in explained["evaluations"].as_array().expect("evaluations").iter().filter(|told| chosen(told)) {
        for field in told["fields"].as_array().expect("fields") {
            let mut covered = Vec::new();
            for of in field["expressions"].as_array().into_iter().flatten() {
                let place = |line: &str, column: &str| {
                    (of[line].as_u64().unwrap_or(0), of[column].as_u64().unwrap_or(0))
                };
                covered.push((place("line", "column"), place("end_line", "end_column")));
                found.insert(format!("{}:{}", of["line"], of["column"]), text_of(&of["value"]));
            }
            for of in field["references"].as_array().into_iter().flatten() {
                let at = (of["line"].as_u64().unwrap_or(0), of["column"].as_u64().unwrap_or(0));
                if !covered.iter().any(|(from, to)| *from <= at && at < *to) {
                    found.insert(format!("{}:{}", of["line"], of["column"]), text_of(&of["value"]));
                }
            }
        }
    }
    found
}

/// A value as the page has it beside a reference, where it is short.
fn text_of(value: &Value) -> String {
    value.to_string()
}

/// Whether a page has what was explained, and nothing else; long values are cut on the page.
fn assert_same(page: &BTreeMap<String, String>, explained: &BTreeMap<String, String>, about: &str) {
    let places = |values: &BTreeMap<String, String>| values.keys().cloned().collect::<Vec<_>>();
    assert_eq!(places(page), places(explained), "{about}");
    for (place, value) in page {
        let known = &explained[place];
        let is_same = value == known || value.strip_suffix('…').is_some_and(|cut| known.starts_with(cut));
        assert!(is_same, "{about} {place}: `{value}` on the page, `{known}` explained");
    }
}

#[test]
fn the_values_in_the_source_are_those_that_explain_says() {
    let flaky = "name: flaky\nsteps:\n- {id: n, value: 4}\n- id: work\n  retry: {attempts: 3, delay: 1ms}\n  shell: 'echo \
                 x >> tries; test $(wc -l < tries) -ge ${n}'\n- {id: end, value: \"${work}!\"}\n";
    let Some(mut reader) = Reader::new(&[
        ("letter.yaml", LETTER),
        ("links.yaml", LINKS),
        ("fix.yaml", FIX),
        ("flaky.yaml", flaky),
    ]) else {
        return;
    };
    let letter = reader.run(&["letter.yaml"]);
    let last = |told: &Value| told["attempt"].is_null() || told["attempt"] != 1 || told["step"] != "upload";
    let all = explained(&reader, &letter, last);
    assert!(all.len() >= 8, "{all:?}");
    let page = shown(&mut reader, &format!("runs/{letter}?pane=source"));
    assert_same(&page, &all, "a graph");
    for attempt in 1..=3 {
        let of = |told: &Value| told["step"] != "upload" || told["attempt"] == attempt;
        let page = shown(&mut reader, &format!("runs/{letter}?pane=source&step=7&attempt={attempt}"));
        assert_same(&page, &explained(&reader, &letter, of), &format!("attempt {attempt}"));
    }
    // Before a step begins it has no value.
    let page = shown(&mut reader, &format!("runs/{letter}?pane=source&at=6"));
    assert_same(&page, &explained(&reader, &letter, |told| told["event"].as_u64() <= Some(6)), "event 6");

    let links = reader.run(&["links.yaml"]);
    for item in [0, 7, 59] {
        let within = format!("map[{item}]");
        let of = |told: &Value| {
            let at = told["at"].as_str().unwrap_or_default();
            !at.contains('[') || at.starts_with(&within)
        };
        let page = shown(&mut reader, &format!("runs/{links}?pane=source&item={item}"));
        assert_same(&page, &explained(&reader, &links, of), &within);
    }

    let fix = reader.run(&["fix.yaml"]);
    for visit in ["mend", "mend#2", "check", "check#2"] {
        let (state, _) = visit.split_once('#').unwrap_or((visit, ""));
        let address = if visit.contains('#') { visit.to_owned() } else { format!("{visit}#1") };
        let last = BTreeMap::from([("mend", "mend#2"), ("check", "check#3"), ("done", "done#1")]);
        let of = |told: &Value| {
            let at = told["at"].as_str().unwrap_or_default();
            let own = at.split('#').next().unwrap_or_default();
            if own == state { at == address } else { last.get(own) == Some(&at) }
        };
        let page =
            shown(&mut reader, &format!("runs/{fix}?pane=source&visit={}", address.replace('#', "%23")));
        assert_same(&page, &explained(&reader, &fix, of), visit);
    }

    // A run that failed and was resumed: the values of what ran last.
    let flaky = reader.run(&["flaky.yaml"]);
    assert_eq!(reader.project.run(&["resume", &flaky], b"").exit, 0);
    let told = reader.printed(&["explain", &flaky, "work", "--json"]);
    let last =
        told["evaluations"].as_array().expect("evaluations").iter().map(|told| told["event"].as_u64()).max();
    let of = |told: &Value| told["step"] != "work" || told["event"].as_u64() == last.flatten();
    let page = shown(&mut reader, &format!("runs/{flaky}?pane=source"));
    assert_same(&page, &explained(&reader, &flaky, of), "a resumed run");
}

/// Of each shape a run from its start to its end, in a page that is never loaded again.
#[test]
fn a_run_is_seen_as_it_goes_on() {
    let wait = |name: &str| format!("until test -e {name}; do sleep 0.02; done");
    let steps = format!(
        "name: one\nsteps:\n- {{id: a, shell: '{}; echo A'}}\n- {{id: b, shell: '{}; echo B'}}\n",
        wait("a"),
        wait("b")
    );
    let graph = format!(
        "name: two\nnodes:\n  a: {{shell: '{}; echo A'}}\n  b: {{needs: [a], shell: '{}; echo B'}}\n",
        wait("a"),
        wait("b")
    );
    let map = "name: three\nmap:\n  input: [a, b]\n  max_parallel: 1\n  steps: [{id: a, shell: 'until test -e ${item}; do sleep 0.02; done; echo A'}]\n".to_owned();
    let states = format!(
        "name: four\ninitial: a\nstates:\n  a: {{shell: '{}; echo A', next: b}}\n  b: {{shell: '{}; echo B', next: done}}\n  done: {{terminal: true}}\n",
        wait("a"),
        wait("b")
    );
    for text in [steps, graph, map, states] {
        let Some(mut reader) = Reader::new(&[("w.yaml", &text)]) else { return };
        let mut running = Command::new(env!("CARGO_BIN_EXE_threadline"))
            .args(["run", "w.yaml"])
            .current_dir(reader.project.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a run");
        // The list has the run as soon as there is one.
        reader.go("runs");
        reader
            .browser
            .wait("document.querySelector('#runs tbody .st.running') || (location.reload(), false)");
        let run = reader.last();
        reader.go(&format!("runs/{run}?pane=steps"));
        reader.browser.js("window.mark = 1");
        reader.browser.wait("document.querySelector('.pill.running') && document.querySelector('.now')");
        reader.project.write("a", b"");
        reader.browser.wait("document.querySelector('.cards .val, .node.completed, .node.visited[data-step=b], .prog .completed')");
        assert!(reader.browser.js("document.querySelector('.pill').textContent.trim()") == "Running");
        reader.project.write("b", b"");
        reader.browser.wait("document.querySelector('.pill.completed')");
        reader.browser.wait("document.querySelector('[data-region=live].off')");
        assert!(running.wait().expect("the run ends").success());
        assert_eq!(reader.browser.js("window.mark"), 1, "the page was not loaded again");
        let events = reader.printed(&["runs", "--json"])["runs"][0]["events"].clone();
        assert_eq!(reader.browser.js("Number(document.getElementById('run').dataset.last)"), events);
        assert_eq!(reader.browser.problems(), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn a_bar_goes_through_the_journal() {
    let Some(mut reader) = Reader::new(&[("letter.yaml", LETTER)]) else { return };
    let run = reader.run(&["letter.yaml"]);
    reader.go(&format!("runs/{run}"));
    let last = reader.browser.js("Number(document.getElementById('scrub').max)").as_u64().expect("a number");
    for at in (last - 6..last).rev() {
        reader.browser.press("[");
        reader
            .browser
            .wait(&format!("document.getElementById('evname').textContent.startsWith('event {at} ')"));
        let address = reader.browser.js("location.search");
        assert_eq!(address.as_str(), Some(format!("?at={at}").as_str()));
        let state = reader.printed(&["show", &run, "--at", &at.to_string(), "--json"]);
        let known: BTreeMap<String, String> = state["steps"]
            .as_array()
            .expect("steps")
            .iter()
            .map(|step| {
                let text = |key: &str| step[key].as_str().unwrap_or_default().to_owned();
                (text("number"), text("standing"))
            })
            .collect();
        let drawn = reader.browser.js(
            "Object.fromEntries([...document.querySelectorAll('svg.drawing .node')].map(node => [node.dataset.number, \
             node.dataset.standing]))",
        );
        let drawn: BTreeMap<String, String> = serde_json::from_value(drawn).expect("steps");
        assert_eq!(drawn, known, "event {at}");
    }
    assert!(
        reader.browser.js("!!document.querySelector('[data-act]')") == false,
        "the past cannot be resumed"
    );
    reader.browser.press("Escape");
    reader.browser.wait("location.search === '' && document.querySelector('.pill.failed') && document.querySelector('[data-act]')");
    assert_eq!(reader.browser.problems(), Vec::<String>::new());
}

#[test]
fn ten_thousand_items_are_one_node_and_a_page_of_rows() {
    let text = "name: many\nmap:\n  input: {shell: seq 0 9999, format: lines}\n  max_parallel: 2\n  steps:\n  - {id: \
                twice, value: \"${= number(item) * 2 }\", when: \"number(item) % 2500 != 7\"}\n  - {id: fit, when: \
                \"number(item) % 2500 == 7\", fail: {error: \"no ${item}\"}}\nerror_policy: {failure_threshold: 50%}\n";
    let text =
        text.replace("fail: {error: \"no ${item}\"}", "value: \"${= 1 / (number(item) - number(item)) }\"");
    let Some(mut reader) = Reader::new(&[("many.yaml", &text)]) else { return };
    let run = reader.run(&["many.yaml"]);
    reader.go(&format!("runs/{run}?pane=items"));
    let node = reader.browser.js("document.querySelectorAll('svg.drawing .node').length");
    assert_eq!(node, 1);
    let data = reader.browser.js("Object.assign({}, document.querySelector('svg.drawing .node').dataset)");
    assert_eq!((data["items"].as_str(), data["failed"].as_str()), (Some("10000"), Some("4")), "{data}");
    let rows = "[...document.querySelectorAll('#items tbody tr')].map(row => row.dataset.item)";
    let found = reader.browser.js(rows);
    let found: Vec<String> = serde_json::from_value(found).expect("rows");
    assert_eq!(found.len(), 50);
    assert_eq!(found[..5], ["7", "2507", "5007", "7507", "0"], "those that failed come first");
    assert!(reader.browser.js("document.querySelectorAll('*').length").as_u64() < Some(4_000));
    reader.browser.js("document.querySelector('[rel=next]').click()");
    reader.browser.wait("document.querySelector('#items tbody tr').dataset.item === '47'");
    reader.browser.js("document.querySelector('#items tbody a').click()");
    reader.browser.wait("document.querySelector('.detail') && location.search.includes('item=47')");
    let made = reader.browser.js("document.querySelector('.detail').innerText");
    assert!(made.as_str().is_some_and(|made| made.contains("94")), "{made}");
    assert_eq!(reader.browser.problems(), Vec::<String>::new());
}

#[test]
fn a_form_starts_a_run_and_two_runs_are_compared() {
    let Some(mut reader) = Reader::new(&[("letter.yaml", LETTER)]) else { return };
    reader.run(&["letter.yaml"]);
    reader.go("start");
    reader.browser.js("setTimeout(() => { const choice = document.getElementById('workflow'); choice.value = 'letter.yaml'; choice.dispatchEvent(new Event('change')); }); 1");
    reader.browser.wait("document.querySelector('#start [name=urgent]')");
    reader.browser.js("document.querySelector('#start [name=urgent]').click(); document.querySelector('#start [name=host]').value = '=\"><b>x'; setTimeout(() => document.querySelector('#start button').click()); 1");
    reader.browser.wait("document.getElementById('run')");
    reader.browser.wait("document.querySelector('.pill.completed')");
    let given =
        reader.browser.js("[...document.querySelectorAll('.meta .chip')].map(chip => chip.textContent)");
    assert_eq!(given, serde_json::json!(["urgenttrue", "host\"=\\\"><b>x\""]));
    reader.go("runs");
    for _ in 0..2 {
        reader.browser.press("j");
        reader.browser.press("x");
    }
    // The page goes while the key is down, so nobody would say that it is up again.
    reader.browser.js("setTimeout(() => document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'd', bubbles: true }))); 1");
    reader.browser.wait("document.getElementById('diff')");
    let first = reader.browser.js("document.querySelector('.first header').innerText");
    assert!(first.as_str().is_some_and(|first| first.contains("inputs.")), "{first}");
    let runs = reader.printed(&["runs", "--json"]);
    let of = |at: usize| runs["runs"][at]["run"].as_str().expect("a run").to_owned();
    let printed = reader.printed(&["diff", &of(0), &of(1), "--json"]);
    let rows = reader.browser.js("document.querySelectorAll('.dt tbody tr:not(.sep)').length + 1");
    assert_eq!(rows.as_u64(), printed["differences"].as_array().map(|all| all.len() as u64));
    assert_eq!(reader.browser.problems(), Vec::<String>::new());
}

/// Values full of markup, escapes, and more text than fits: they are text, and the page stays what it is.
#[test]
fn a_hostile_run_changes_nothing_but_text() {
    let hostile = "</script></style></textarea></title><script>document.title='owned'</script><img src=x onerror=alert(1)>\u{202e}detelpmoc\u{1b}[31m\"'&#39;`${x}";
    let quoted = serde_json::to_string(hostile).expect("text");
    let text = format!(
        "name: {quoted}\ninputs: {{who: {{type: text, default: {quoted}}}}}\nsteps:\n- {{id: said, value: \"${{inputs.who}}\"}}\n- \
         {{id: many, shell: 'seq 100000'}}\n- {{id: large, shell: \"head -c 10000000 /dev/zero | tr '\\\\0' x\"}}\n- {{id: \
         each, foreach: [\"${{said}}\"], do: [{{id: one, value: \"${{item}}\"}}]}}\n- {{id: bad, shell: 'printf %s ${{said}} >&2; exit 1'}}\n"
    )
    .replace("${x}", "$${x}");
    let Some(mut reader) = Reader::new(&[("h.yaml", &text)]) else { return };
    let run = reader.run(&["h.yaml"]);
    let steps = reader.printed(&["show", &run, "--at", "1", "--json"]);
    assert_eq!(steps["run"].as_str(), Some(run.as_str()));
    for query in [
        "",
        "?pane=source&value=4:22",
        "?pane=steps&step=1",
        "?pane=steps&step=3",
        "?pane=items&item=0",
        "?pane=log&step=2",
        "?pane=log",
        "?pane=steps",
    ] {
        reader.go(&format!("runs/{run}{query}"));
        let title = reader.browser.js("document.title");
        assert!(title.as_str().is_some_and(|title| title.ends_with("· Threadline")), "{title}");
        let made = reader.browser.js("[...document.querySelectorAll('main img, main script, main style, main iframe, [onerror], [style]')].map(part => part.outerHTML.slice(0, 200))");
        assert_eq!(made, serde_json::json!([]), "{query}");
        assert_eq!(reader.browser.problems(), Vec::<String>::new(), "{query}");
        let steering =
            reader.browser.js("/[\\u202e\\u001b\\u0000]/.test(document.documentElement.outerHTML)");
        assert_eq!(steering, false, "{query}");
        let parts = reader.browser.js("document.querySelectorAll('*').length").as_u64();
        assert!(parts < Some(4_000), "{query}: {parts:?}");
        assert!(
            reader.browser.js("document.documentElement.outerHTML.length").as_u64() < Some(400_000),
            "{query}"
        );
        let wide = reader.browser.js("document.documentElement.scrollWidth");
        assert_eq!(wide.as_u64(), Some(1440), "{query}");
    }
    reader.go("runs");
    assert_eq!(reader.browser.js("document.querySelectorAll('main img, main script').length"), 0);
}

/// A report is one file that asks nobody for anything.
#[test]
fn a_report_is_a_file_with_the_same_views() {
    let Some(mut reader) = Reader::new(&[("letter.yaml", LETTER), ("links.yaml", LINKS)]) else { return };
    for file in ["letter.yaml", "links.yaml"] {
        let run = reader.run(&[file]);
        let written = reader.project.run(&["report", &run, "-o", "run.html"], b"");
        assert_eq!(written.exit, 0, "{}", written.stderr);
        let address = format!("file://{}", reader.project.path().join("run.html").display());
        for width in [1440, 400] {
            reader.browser.view(width, 900, false);
            reader.browser.go(&address);
            assert_eq!(
                reader.browser.js("document.documentElement.scrollWidth").as_u64(),
                Some(width.into())
            );
            assert_eq!(reader.browser.problems(), Vec::<String>::new());
            assert_eq!(reader.browser.axe(), Vec::<String>::new());
            assert_eq!(reader.browser.requests(), std::slice::from_ref(&address));
        }
        let broken = reader.browser.js(
            "[...document.querySelectorAll('main a')].map(link => link.getAttribute('href')).filter(href => \
             !href.startsWith('#') || !document.getElementById(href.slice(1)))",
        );
        assert_eq!(broken, serde_json::json!([]), "every link leads somewhere");
        reader.browser.js("location.hash = new URL(document.querySelector('.ref').href).hash");
        reader.browser.wait("[...document.querySelectorAll('.insp')].filter(part => getComputedStyle(part).display !== 'none').length === 1");
        let chosen = reader.browser.js("document.querySelector('.insp:target .name').textContent");
        assert!(chosen.as_str().is_some_and(|text| !text.is_empty()));
    }
}

/// Every view is there without scripts: links and forms lead to it.
#[test]
fn pages_work_without_scripts() {
    let Some(mut reader) = Reader::new(&[("letter.yaml", LETTER)]) else { return };
    let run = reader.run(&["letter.yaml"]);
    reader.browser.scripts(false);
    reader.go(&format!("runs/{run}"));
    let page = reader.server.get(&format!("{}/projects/project/runs/{run}", reader.server.base)).text();
    let links = regex::Regex::new("href=\"(\\?[^\"]+)\"").expect("a pattern");
    let mut tried = 0;
    for link in links.captures_iter(&page).map(|found| found[1].replace("&amp;", "&").replace("&#38;", "&")) {
        let path = format!("{}/projects/project/runs/{run}{link}", reader.server.base);
        let reply = reader.server.get(&path);
        assert_eq!(reply.status, 200, "{link}: {}", reply.text());
        assert!(!reply.text().contains("Nothing was evaluated there"), "{link}");
        tried += 1;
    }
    assert!(tried > 20, "{tried}");
    assert!(
        !page.contains("data-act=\"resume\" hidden") && page.contains("<span class=\"acts\" hidden>"),
        "what needs scripts is not there"
    );
    reader.browser.scripts(true);
}
