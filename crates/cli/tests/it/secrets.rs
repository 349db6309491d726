//! A secret reaches no sink: canaries go through every sort of step, and are looked for in everything that was written.
//!
//! The short form uses fixed secrets and one round of random ones; `THREADLINE_LONG=1` uses twenty rounds, of a seed that
//! a failure prints.

#![expect(
    clippy::print_stdout,
    reason = "the counts are what it shows, and a seed must be known to be repeated"
)]

use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::harness::{Workflow, workflow};
use crate::support::{is_long, seed};
use crate::tools::server::{Server, json, text};

/// An MCP server with one tool, which says what it was given, on stdout and on stderr.
const SERVER: &str = r#"
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
while read -r line; do
  id=${line#*'"id":'}
  id=${id%%,*}
  case $line in
    *'"method":"initialize"'*)
      answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}' ;;
    *'"method":"tools/list"'*)
      answer '{"tools":[{"name":"echo","inputSchema":{"type":"object"}},{"name":"die","inputSchema":{"type":"object"}}]}' ;;
    *'"name":"echo"'*)
      printf '%s\n' "$line" >> given.txt
      printf 'given %s\n' "$IN_ENV" >> given.txt
      given=${line#*'"arguments":'}
      given=${given%%\}*}
      answer "{\"content\":[],\"structuredContent\":$given}}" ;;
    *'"name":"die"'*) printf 'server says %s\n' "$IN_ENV" >&2; exit 3 ;;
  esac
done
"#;

/// The main workflow. Files that are meant to hold a secret have names that begin with `given`.
const WORKFLOW: &str = r#"
name: canaries
env_file: .env
allow: {hosts: [127.0.0.1], commands: true}
inputs: {api: {}}
secrets:
  IN_ENV: CANARY_VARIABLE
  IN_FILE: {file: given-key.txt}
  PRINTED: {command: [cat, given-printed.txt]}
  DOTENV: {env: CANARY_DOTENV}
env: {EVERY_STEP: "${secrets.IN_FILE}"}
servers:
  s: {command: [sh, server.sh], env: {IN_ENV: "${secrets.IN_ENV}"}}
agents:
  mirror: {command: [cat]}
  judge: {command: [sh, judge.sh]}
steps:
  - id: bound
    shell: |
      printf '%s %s' ${secrets.IN_ENV} "$DIRECT" > given-bound.txt
      { cat /proc/[0-9]*/cmdline 2>/dev/null || true; } | tr '\0' ' ' > cmdlines.txt
      printf '%s' ${secrets.PRINTED} | wc -c
    env: {DIRECT: "${secrets.DOTENV}"}
  - id: traced
    shell: 'set -x; : ${secrets.IN_ENV} ${secrets.PRINTED}; export COPY=${secrets.IN_FILE}; echo done'
  - id: refused
    shell: echo ${secrets.IN_ENV}
    continue_on_error: true
  - id: masked
    shell: |
      echo "plain ${secrets.IN_ENV}"
      printf 'u:%s' ${secrets.IN_ENV} | base64
      printf 'us:%s' ${secrets.IN_FILE} | base64 -w 0
      printf '%s' ${secrets.PRINTED} | base64
      for piece in 1 2 3; do printf '%s' ${secrets.IN_FILE}; done
      env
    secret_output: mask
    capture: printed
  - id: escaped
    shell: sh escape.sh; python3 escape.py
    env:
      A: "${secrets.IN_ENV}"
      B: "${secrets.IN_FILE}"
      C: "${secrets.PRINTED}"
      D: "${secrets.DOTENV}"
    secret_output: mask
  - id: split
    shell: |
      printf '%s' ${secrets.IN_ENV} | while IFS= read -r -n 1 one; do printf '%s' "$one"; done
    secret_output: mask
  - id: read_back
    value: "${printed}"
  - id: failing
    shell: 'echo "cannot log in with ${secrets.IN_ENV}" >&2; exit 7'
    retry: 2
    continue_on_error: true
  - id: slow
    shell: 'echo "waiting with ${secrets.PRINTED}" >&2; sleep 600'
    timeout: 300ms
    continue_on_error: true
  - id: written
    write_file: {path: given-file.json, content: {token: "${secrets.IN_ENV}"}, format: json}
  - id: sent
    http:
      method: POST
      url: "${inputs.api}/echo/${secrets.IN_FILE}"
      query: {key: "${secrets.PRINTED}"}
      headers: {Authorization: "Bearer ${secrets.IN_ENV}", X-Basic: "Basic ${= ('u:' + secrets.DOTENV) | base64}"}
      body: {token: "${secrets.IN_ENV}"}
    continue_on_error: true
  - id: sent_masked
    http: {method: POST, url: "${inputs.api}/echo", body: "t=${secrets.PRINTED}"}
    secret_output: mask
  - id: unreachable
    http: {url: "http://127.0.0.1:1/${secrets.IN_ENV}"}
    continue_on_error: true
  - id: called_tool
    tool: s.echo
    params: {token: "${secrets.PRINTED}"}
    secret_output: mask
  - id: dead_server
    tool: s.die
    continue_on_error: true
  - id: asked
    agent: mirror
    message: "say ${secrets.DOTENV}"
    secret_output: mask
  - id: asked_refused
    agent: mirror
    message: "say ${secrets.DOTENV}"
    continue_on_error: true
  - id: command
    value: "${cmd:cat given-printed.txt}"
    continue_on_error: true
  - id: file
    value: "${file:given-key.txt}"
    continue_on_error: true
  - id: variable
    value: "${env.CANARY_DOTENV:-none}"
    continue_on_error: true
  - id: each
    foreach: [1, 2]
    do:
      - shell: 'printf "%s" "$EVERY_STEP" | wc -c; echo ${secrets.IN_ENV} >&2'
  - id: called
    workflow: callee.yaml
    env: {FROM_CALLER: "${secrets.PRINTED}"}
    continue_on_error: true
  - id: last
    shell: 'cat given-key.txt given-printed.txt; exit 1'
"#;

/// What programs of all sorts make of a text.
const ESCAPES: &str = r#"
import html, json, os, urllib.parse
for name in "ABCD":
    text = os.environ[name]
    quoted = urllib.parse.quote(text)
    print(quoted, urllib.parse.quote(text, safe=""), urllib.parse.quote_plus(text), urllib.parse.quote(quoted))
    print(urllib.parse.quote(text, safe="!#$&'()*+,/:;=?@[]~"), "".join(f"%{byte:02x}" for byte in text.encode()))
    dumped = json.dumps(text)
    print(dumped, json.dumps(text, ensure_ascii=False), json.dumps(dumped), dumped.replace("/", "\\/"))
    print(dumped.replace("<", "\\u003c").replace("&", "\\u0026"), repr(text), ascii(text), text.encode())
    print("".join(f"\\{byte:03o}" for byte in text.encode()), "".join(f"\\u{{{ord(c):x}}}" for c in text))
    print(html.escape(text), "".join(f"&#{ord(c)};" for c in text), text.replace("'", "''"))
"#;

const CALLEE: &str = r#"
secrets: {OWN: CANARY_CALLEE}
exports: {length: "${length}", shown: "${shown}"}
steps:
  - {id: length, shell: 'printf %s ${secrets.OWN} | wc -c; echo "$FROM_CALLER" >&2'}
  - {id: shown, shell: 'echo "$FROM_CALLER" ${secrets.OWN}', secret_output: mask}
  - {shell: 'echo ${secrets.OWN}'}
"#;

const LOOP: &str = r#"
name: judged
secrets: {IN_ENV: CANARY_VARIABLE}
agents: {judge: {command: [sh, judge.sh]}}
max_steps: 3
initial: act
states:
  act:
    action: 'echo working; echo ${secrets.IN_ENV} >&2'
    env: {TOKEN: "${secrets.IN_ENV}"}
    secret_output: mask
    evaluate: {type: agent, agent: judge, prompt: "is it good? the token is ${secrets.IN_ENV}"}
    on_yes: end
    on_no: end
    on_error: end
  end: {terminal: success}
"#;

const MAP: &str = r#"
mode: mapreduce
secrets: {IN_ENV: CANARY_VARIABLE}
map:
  input: {shell: 'printf "%s\n" a b; echo ${secrets.IN_ENV} >&2', format: lines}
  steps:
    - {shell: 'echo "${item} ${secrets.IN_ENV}"', secret_output: mask}
reduce:
  - {value: "${map.results}"}
"#;

/// Items with a worktree each, of which one fails and one cannot be merged. Each keeps a secret in a file that git does
/// not see, and prints what git says about it.
const TREES: &str = r#"
name: trees
secrets:
  IN_ENV: CANARY_VARIABLE
  PRINTED: {command: [cat, given-printed.txt]}
error_policy: {continue_on_failure: true}
map:
  input: [a, b, c]
  worktree: true
  max_parallel: 3
  steps:
    - shell: |
        printf '%s' ${secrets.IN_ENV} | wc -c > length-${item}
        echo ${item} > shared.txt
        echo "committing with ${secrets.PRINTED}" >&2
        git add -A
        git commit -qm "item ${item}"
      env: {TOKEN: "${secrets.IN_ENV}"}
    - write_file: {path: "given-${item}", content: "${secrets.PRINTED}"}
    - {shell: 'cat given-*; git status --ignored; printenv TOKEN CANARY_VARIABLE', env: {TOKEN: "${secrets.IN_ENV}"}, secret_output: mask}
    - {shell: 'cat given-*', continue_on_error: true}
    - shell: 'test ${item} != b || { echo "refused: ${secrets.IN_ENV}" >&2; exit 1; }'
reduce:
  - {shell: 'git log --all -p; printenv CANARY_VARIABLE', secret_output: mask}
merge:
  - {shell: 'echo "merging with ${secrets.PRINTED}" >&2; git merge -q -- ${map.branch}'}
"#;

/// A secret, and the name it is reported by.
struct Canary {
    name: &'static str,
    value: String,
}

/// What must not be found: the secret as it is, and the part of its base64 that its neighbours do not change.
fn forms(canary: &str) -> Vec<String> {
    let quoted = threadline_lang::Value::from(canary).to_string();
    let json = threadline_lang::Value::from(canary).to_json(threadline_lang::value::JsonStyle::Compact);
    let mut forms = vec![quoted, json[1..json.len() - 1].to_owned()];
    let percent: String = canary
        .bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                char::from(byte).to_string()
            }
            byte => format!("%{byte:02X}"),
        })
        .collect();
    forms.push(percent);
    for before in 0..3 {
        let encoded = BASE64_STANDARD.encode([&b"xyz"[..before], canary.as_bytes()].concat());
        forms.push(encoded[4..encoded.len() - 4].to_owned());
    }
    // What no escape of single characters changes but one that escapes all.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
    forms.extend(canary.split(|c| !is_plain(c)).filter(|part| part.len() >= 8).map(str::to_owned));
    for all in [
        |byte: u8| format!("%{byte:02x}"),
        |byte: u8| format!("\\{byte:03o}"),
        |byte: u8| format!("&#{byte};"),
        |byte: u8| format!("\\u{{{byte:x}}}"),
    ] {
        forms.push(canary.bytes().take_while(u8::is_ascii).take(8).map(all).collect());
    }
    forms.sort();
    forms.dedup();
    forms
}

fn canaries(round: u64) -> Vec<Canary> {
    let names = ["CANARY_VARIABLE", "given-key.txt", "given-printed.txt", "CANARY_DOTENV", "CANARY_CALLEE"];
    let fixed = [
        "k7-Canary_Variable/+'q\"",
        "line-one-of-a-key\nline-two-of-a-key",
        "prntd.canary %41 é&?",
        "dot.env.canary=$HOME",
        "callee:canary:0123456789",
    ];
    let mut state = round.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut random = |bound: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % bound as u64).expect("it is small")
    };
    let characters: Vec<char> =
        "abcXYZ0189-_/+='\"\\$`%&? <>;|(){}[]#~*!,.:@^éß日本語Ж\u{301}🔑".chars().collect();
    let one = |name: &'static str, fixed: &str, random: &mut dyn FnMut(usize) -> usize| {
        let value = if round == 0 {
            fixed.to_owned()
        } else {
            let mut line = || {
                let length = 12 + random(40);
                // One of them is sent as a header, which takes no others.
                let is_header = name == "CANARY_VARIABLE";
                let character = |place: usize| Some(characters[place]).filter(|c| !is_header || c.is_ascii());
                let text: String = (0..length).filter_map(|_| character(random(characters.len()))).collect();
                // A blank at the end of a file or a variable is not lost, and this keeps it readable.
                format!("Q{text}Z")
            };
            // What a file or a variable holds may have lines.
            match name {
                "given-key.txt" => [line(), line(), line()].join("\n"),
                "CANARY_CALLEE" => [line(), line()].join("\n"),
                _ => line(),
            }
        };
        Canary { name, value }
    };
    names.into_iter().zip(fixed).map(|(name, fixed)| one(name, fixed, &mut random)).collect()
}

/// A project with every file of these workflows and secrets.
fn project(canaries: &[Canary]) -> Workflow {
    let value = |name: &str| {
        let found = canaries.iter().find(|canary| canary.name == name);
        found.map(|canary| canary.value.as_str()).expect("a canary")
    };
    let escaped = value("CANARY_DOTENV").replace('\\', "\\\\").replace('"', "\\\"").replace('$', "\\$");
    let escaped = escaped.replace('`', "\\`");
    workflow(WORKFLOW)
        .file("callee.yaml", CALLEE)
        .file("loop.yaml", LOOP)
        .file("map.yaml", MAP)
        .file("trees.yaml", TREES)
        .file(".gitignore", ".threadline\ngiven*\n.env\n")
        .file("server.sh", SERVER)
        .file("escape.py", ESCAPES)
        .file("escape.sh", "for value in \"$A\" \"$B\" \"$C\" \"$D\"; do bash -c 'printf \"%q\\n\" \"$1\"; declare -p 1 2>/dev/null; set -x; : \"$1\"' x \"$value\"; done\n")
        .file("judge.sh", "cat > given-question.txt\nprintf '%s' \"$TOKEN\" >> given-question.txt\necho '{\"verdict\": \"yes\", \"confidence\": 1, \"evidence\": \"'\"$TOKEN\"'\"}'\n")
        .file(".env", &format!("# of the tests\nexport CANARY_DOTENV=\"{escaped}\"\n"))
        .file("given-key.txt", &format!("{}\n", value("given-key.txt")))
        .file("given-printed.txt", &format!("{}\n", value("given-printed.txt")))
        .env("CANARY_VARIABLE", value("CANARY_VARIABLE"))
        .env("CANARY_CALLEE", value("CANARY_CALLEE"))
        .repository()
}

/// Looks for secrets in one sink.
fn search(sink: &str, bytes: &[u8], canaries: &[Canary], found: &mut Vec<String>) {
    let text = String::from_utf8_lossy(bytes);
    for Canary { name, value } in canaries {
        for form in forms(value) {
            if text.contains(&form) {
                found.push(format!("{sink}: {name} as {form}\n"));
            }
        }
        for line in value.lines().filter(|line| line.len() >= 8) {
            if text.contains(line) {
                found.push(format!("{sink}: a line of {name}, {line}\n"));
            }
        }
    }
}

/// Every file below a folder, but those that are meant to hold a secret.
fn search_files(folder: &Path, canaries: &[Canary], files: &mut usize, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if path.is_dir() {
            search_files(&path, canaries, files, found);
        } else if !name.starts_with("given") && name != ".env" {
            *files += 1;
            search(&path.display().to_string(), &std::fs::read(&path).expect("a file"), canaries, found);
        }
    }
}

fn no_canary_is_found(round: u64) {
    let canaries = canaries(round);
    let server = Server::new(|received, _| match received.line.as_str() {
        "POST /echo" => text(&received.body),
        _ => json(&format!(
            "{{\"authorization\": \"{}\"}}",
            BASE64_STANDARD.encode(received.header("authorization"))
        )),
    });
    let workflow = project(&canaries);
    let api = format!("api={}", server.url());
    let (mut found, mut outputs) = (Vec::new(), 0);
    let mut commands: Vec<Vec<&str>> = vec![
        vec!["check", "workflow.yaml"],
        vec!["preview", "workflow.yaml", "--input", &api],
        vec!["preview", "--json", "workflow.yaml", "--input", &api],
        vec!["graph", "workflow.yaml"],
        vec!["simulate", "loop.yaml"],
        vec!["run", "loop.yaml", "--json", "--trace-variables=json"],
        vec!["show", "last", "--json"],
        vec!["run", "trees.yaml", "--verbose", "--trace-variables", "--report", "junit=trees.xml"],
        vec!["show", "last", "--failed"],
        vec!["show", "last", "--json"],
        vec!["explain", "last"],
        vec!["explain", "last", "map[0]", "--json"],
        vec!["vars", "last", "--json"],
        vec!["logs", "last"],
        vec!["resume", "last", "--failed", "--verbose"],
        vec!["rerun", "last", "--from", "map[2]", "--yes", "--verbose"],
        vec!["show", "last", "--failed"],
        vec!["run", "map.yaml", "--verbose", "--trace-variables", "--report", "junit=map.xml"],
        vec![
            "run",
            "workflow.yaml",
            "--input",
            &api,
            "--verbose",
            "--trace-variables",
            "--report",
            "junit=r.xml",
        ],
        vec!["resume", "last", "--json"],
        vec!["show", "last"],
        vec!["show", "last", "--json"],
        vec!["vars", "last"],
        vec!["vars", "last", "--json"],
        vec!["logs", "last"],
        vec!["runs", "--json"],
    ];
    let steps = [
        "bound",
        "traced",
        "refused",
        "masked",
        "failing",
        "written",
        "sent",
        "called_tool",
        "asked",
        "called",
    ];
    for step in steps {
        commands.push(vec!["explain", "last", step]);
        commands.push(vec!["explain", "last", step, "--json"]);
    }
    for command in &commands {
        let run = workflow.command(command).wait();
        outputs += 2;
        assert!(matches!(run.exit, 0 | 1), "{command:?} exits with {}: {}", run.exit, run.stderr);
        search(&format!("{command:?} stdout"), run.stdout.as_bytes(), &canaries, &mut found);
        search(&format!("{command:?} stderr"), run.stderr.as_bytes(), &canaries, &mut found);
        assert!(!run.stdout.is_empty() || !run.stderr.is_empty(), "{command:?} says nothing");
    }
    // Objects of git are compressed.
    let objects = workflow.git(&["cat-file", "--batch-all-objects", "--batch"]);
    assert!(objects.contains("item a") && objects.contains("length-b"), "{objects}");
    search("objects of git", objects.as_bytes(), &canaries, &mut found);
    let mut files = 0;
    search_files(workflow.project.path(), &canaries, &mut files, &mut found);
    println!(
        "{} forms of {} secrets in {outputs} outputs and {files} files: {} hits",
        canaries.iter().map(|canary| forms(&canary.value).len()).sum::<usize>(),
        canaries.len(),
        found.len()
    );
    assert!(found.is_empty(), "round {round}:\n{}", found.concat());
    assert!(files > 10, "only {files} files");
    assert_given(&workflow, &server, &canaries, round);
}

/// The secrets were there: whoever was meant to get one got it, to the byte.
fn assert_given(workflow: &Workflow, server: &Server, canaries: &[Canary], round: u64) {
    let [variable, key, printed, dotenv, _] = canaries else { panic!("five secrets") };
    let context = format!("round {round}");
    assert_eq!(workflow.read("given-bound.txt"), format!("{} {}", variable.value, dotenv.value), "{context}");
    let json = threadline_lang::Value::record([("token", variable.value.as_str().into())]);
    let json = json.to_json(threadline_lang::value::JsonStyle::Pretty);
    assert_eq!(workflow.read("given-file.json").trim_end(), json, "{context}");
    let question = workflow.read("given-question.txt");
    assert!(question.contains(&format!("the token is {}", variable.value)), "{context}: {question}");
    assert!(workflow.read("given.txt").contains(&format!("given {}", variable.value)), "{context}");
    let received = server.received();
    let lines: Vec<&str> = received.iter().map(|received| received.line.as_str()).collect();
    let sent = received.iter().find(|received| received.line.starts_with("POST /echo/"));
    let why = || workflow.command(&["explain", "last", "sent"]).wait().stdout;
    let sent = sent.unwrap_or_else(|| panic!("{context}: no request of {lines:?}\n{}", why()));
    let basic = BASE64_STANDARD.encode(format!("u:{}", dotenv.value));
    assert_eq!(sent.header("x-basic"), format!("Basic {basic}"), "{context}");
    assert!(sent.body.contains("token"), "{context}");
    assert!(received.iter().any(|received| received.body == format!("t={}", printed.value)), "{context}");
    assert!(!key.value.is_empty());
}

#[test]
fn a_secret_reaches_no_sink() {
    no_canary_is_found(0);
    let first = seed().max(1);
    println!("THREADLINE_SEED={first}");
    for round in first..first + if is_long() { 20 } else { 1 } {
        no_canary_is_found(round);
    }
}
