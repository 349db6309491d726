//! Inputs that are too large, too deep or too greedy: named errors or the right answer, in bounded memory. What
//! hangs is killed and fails.

use std::fmt::Write as _;

use crate::support::{Outcome, Project};

/// KiB of address space that every monster has to do with.
const MEMORY: u64 = 1_500_000;

fn run(project: &Project, arguments: &[&str]) -> Outcome {
    project.run_bounded(MEMORY, arguments, b"")
}

/// Runs an expression from a file, since arguments are limited by the system.
fn eval(expression: &str) -> Outcome {
    let project = Project::new();
    project.write("e.txt", expression.as_bytes());
    run(&project, &["eval", "--file", "e.txt"])
}

fn render(template: &[u8]) -> Outcome {
    let project = Project::new();
    project.write("t.txt", template);
    run(&project, &["render", "--file", "t.txt"])
}

fn data(name: &str, content: &[u8]) -> Outcome {
    let project = Project::new();
    project.write(name, content);
    run(&project, &["eval", "--data", name, "1"])
}

/// The first line of what went wrong, and the exit code.
fn failed(outcome: &Outcome, message: &str, exit: i32) {
    assert_eq!(outcome.stderr.lines().next().unwrap_or_default(), message, "{}", shown(outcome));
    assert_eq!(outcome.exit, exit, "{}", shown(outcome));
    assert_eq!(outcome.stdout, "", "{}", shown(outcome));
    assert!(outcome.stderr.len() < 4096, "a message of {} bytes", outcome.stderr.len());
}

fn gave(outcome: &Outcome, stdout: &str) {
    assert!(outcome.stdout == stdout, "{}", shown(outcome));
    assert_eq!((outcome.stderr.as_str(), outcome.exit), ("", 0), "{}", shown(outcome));
}

fn shown(outcome: &Outcome) -> String {
    let cut = |text: &str| text.chars().take(1000).collect::<String>();
    format!("exit {}\n{}\n{}", outcome.exit, cut(&outcome.stdout), cut(&outcome.stderr))
}

const DEPTH: &str = "error[limit]: over the limit: nesting of an expression, at most 128";
const EXPRESSION: &str = "error[limit]: over the limit: expression size, at most 64 KiB";

#[test]
fn nesting_within_the_size_limit() {
    let nested = |open: &str, inside: &str, close: &str, count: usize| {
        format!("{}{inside}{}", open.repeat(count), close.repeat(count))
    };
    for (open, inside, close) in [
        ("(", "1", ")"),
        ("[", "", "]"),
        ("not ", "true", ""),
        ("!", "true", ""),
        ("-", "1", ""),
        ("{a:", "1", "}"),
        ("abs(", "1", ")"),
        ("1 if true else ", "1", ""),
        ("2**", "1", ""),
        ("\"${=", "1", "}\""),
        ("${=", "1", "}"),
        ("[1][", "0", "]"),
    ] {
        let count = 60_000 / (open.len() + close.len());
        failed(&eval(&nested(open, inside, close, count)), DEPTH, 1);
        // Unclosed, the nesting is found before the end is missed.
        failed(&eval(&nested(open, inside, "", count)), DEPTH, 1);
    }
}

#[test]
fn a_hundred_thousand_levels() {
    for (open, close) in [("(", ")"), ("[", "]"), ("not ", "")] {
        let expression = format!("{}true{}", open.repeat(100_000), close.repeat(100_000));
        failed(&eval(&expression), EXPRESSION, 1);
        let template = format!("${{= {expression} }}");
        failed(&render(template.as_bytes()), DEPTH, 1);
    }
    failed(&render("${a:-".repeat(100_000).as_bytes()), DEPTH, 1);
}

#[test]
fn expressions_that_are_too_long() {
    failed(&eval(&"1 + ".repeat(2_500_000)), EXPRESSION, 1);
    failed(&eval(&"a".repeat(10_000_000)), EXPRESSION, 1);
    failed(&eval(&format!("\"{}\"", "a".repeat(10_000_000))), EXPRESSION, 1);
    let template = format!("${{= {}1 }}", "1 + ".repeat(2_500_000));
    failed(&render(template.as_bytes()), EXPRESSION, 1);
    gave(&eval(&format!("{}1", "1 +".repeat(21_000))), "21001\n");
}

#[test]
fn numbers() {
    let digits = "error[limit]: over the limit: digits of a number, at most 10000";
    for expression in ["2**100000000", "10**9999*10**9999", "1e1000000000", "9**9**9**9", "1.5**99999999"] {
        failed(&eval(expression), digits, 1);
    }
    failed(&eval(&"9".repeat(60_000)), digits, 1);
    gave(&eval(&"9".repeat(10_000)), &format!("{}\n", "9".repeat(10_000)));
}

#[test]
fn texts() {
    let size = "error[limit]: over the limit: size of a text or list, at most 64 MiB";
    failed(&eval("\"a\"*10**10"), size, 1);
    failed(&eval("\"a\"*10**100"), size, 1);
    // 60 MB each, made of few repetitions.
    let a = format!("(\"{}\"*6000)", "a".repeat(10_000));
    let spaces = format!("(\"{}\"*6000)", " ".repeat(10_000));
    for expression in [
        format!("{a}+{a}"),
        format!("join([{a}, {a}], \"\")"),
        format!("url({spaces})"),
        format!("base64({a})"),
        format!("replace({a}, \"a\", \"bb\")"),
        format!("to_json([{a}, {a}])"),
        format!("\"${{= {} }}${{= {} }}\"", a.replace('"', "'"), a.replace('"', "'")),
    ] {
        failed(&eval(&expression), size, 1);
    }
}

#[test]
fn patterns() {
    let size = "error[limit]: over the limit: size of a compiled pattern, at most 1 MiB";
    failed(&eval("matches(\"a\", \"(((a{100}){100}){100})\")"), size, 1);
    failed(&eval("matches(\"a\", \"\\\\w{100000}\")"), size, 1);
    gave(&eval("matches(\"a\"*1000000 + \"!\", \"(a+)+$\")"), "false\n");
    gave(&eval("matches(\"a\"*1000000 + \"!\", \"(a|aa)+$\")"), "false\n");
    gave(&eval("matches(\"a\"*1000000, \"(.*)*(.*)*x\")"), "false\n");
}

#[test]
fn operations() {
    let project = Project::new();
    let list = format!("{{\"xs\": [{}0]}}", "0,".repeat(20_000));
    project.write("data.json", list.as_bytes());
    for expression in [
        "xs | each(\"count(${xs})\") | each(\"${xs} | sum\")",
        "xs | each(\"${xs} | each('it + 1')\")",
        "xs | where(\"it in (${xs} | each('it'))\") | count",
    ] {
        let outcome = run(&project, &["eval", "--data", "data.json", expression]);
        let message = outcome.stderr.lines().next().unwrap_or_default();
        assert!(message.starts_with("error[limit]: "), "{}", shown(&outcome));
        assert!(
            message.ends_with("over the limit: operations per evaluation, at most 1000000"),
            "{}",
            shown(&outcome)
        );
        assert_eq!((outcome.stdout.as_str(), outcome.exit), ("", 1), "{}", shown(&outcome));
    }
}

#[test]
fn templates_that_are_too_large() {
    let size = "error: `t.txt` is over the limit: template or document size, at most 64 MiB";
    failed(&render(&vec![b'a'; 100_000_000]), size, 3);
    failed(&render("${a}".repeat(25_000_000).as_bytes()), size, 3);
    let plain = "a".repeat(60_000_000);
    gave(&render(plain.as_bytes()), &plain);
}

#[test]
fn documents_that_are_too_large() {
    let project = Project::new();
    let mut document = b"[\"".to_vec();
    document.resize(100_000_000, b'a');
    document.extend(b"\"]");
    project.write("doc.json", &document);
    let outcome = run(&project, &["resolve", "doc.json"]);
    failed(&outcome, "error: `doc.json` is over the limit: template or document size, at most 64 MiB", 3);
    let outcome = project.run_bounded(MEMORY, &["resolve", "-"], &document);
    failed(&outcome, "error: `<stdin>` is over the limit: template or document size, at most 64 MiB", 3);
}

#[test]
fn data_nested_ten_thousand_deep() {
    let deep = "error: over the limit: nesting of data, at most 200";
    let (open, close) = ("[".repeat(10_000), "]".repeat(10_000));
    failed(&data("data.json", format!("{{\"a\": {open}{close}}}").as_bytes()), deep, 3);
    failed(&data("data.yaml", format!("a: {open}{close}\n").as_bytes()), deep, 3);
    failed(&data("data.txt", format!("{{\"a\": {open}{close}}}").as_bytes()), deep, 3);
    failed(&data("data.json", "{\"a\":".repeat(10_000).as_bytes()), deep, 3);
    failed(&data("data.json", "[".repeat(10_000_000).as_bytes()), deep, 3);
    let mut block = String::new();
    for depth in 0..2_000 {
        block.push_str(&" ".repeat(depth));
        block.push_str("a:\n");
    }
    failed(&data("data.yaml", block.as_bytes()), deep, 3);
    failed(&data("data.yaml", format!("a:\n  {}x\n", "- ".repeat(10_000)).as_bytes()), deep, 3);
}

#[test]
fn deep_json_in_a_text() {
    let deep = "error[limit]: over the limit: nesting of data, at most 200";
    for function in ["from_json", "from_yaml"] {
        failed(&eval(&format!("{function}(\"[\" * 1000000)")), deep, 1);
    }
    failed(&eval("json(\"a\", \"[\" * 1000000)"), deep, 1);
}

#[test]
fn alias_bombs() {
    let bomb = "error: the aliases repeat more than a document may hold";
    let lists = |levels: usize, width: usize| {
        let mut text = "a0: &a0 [x]\n".to_owned();
        for level in 1..levels {
            let aliases = vec![format!("*a{}", level - 1); width].join(", ");
            // Writing into a text cannot fail.
            let _ = writeln!(text, "a{level}: &a{level} [{aliases}]");
        }
        text
    };
    failed(&data("data.yaml", lists(100, 2).as_bytes()), bomb, 3);
    failed(&data("data.yaml", lists(10, 100).as_bytes()), bomb, 3);
    let wide = format!("a: &a \"{}\"\nb: [{}]\n", "x".repeat(1_000_000), vec!["*a"; 1000].join(", "));
    let outcome = data("data.yaml", wide.as_bytes());
    assert!(outcome.exit == 0 || outcome.exit == 3, "{}", shown(&outcome));
}

#[test]
fn numbers_of_files() {
    let digits = "error: over the limit: digits of a number, at most 10000";
    for number in ["1e1000000000".to_owned(), "9".repeat(1_000_000), format!("0.{}", "1".repeat(1_000_000))] {
        failed(&data("data.json", format!("{{\"a\": {number}}}").as_bytes()), digits, 3);
        failed(&data("data.yaml", format!("a: {number}\n").as_bytes()), digits, 3);
    }
}

#[test]
fn many_names() {
    let project = Project::new();
    let entries: Vec<String> = (0..200_000).map(|at| format!("\"name{at}\": {at}")).collect();
    project.write("data.json", format!("{{{}}}", entries.join(",")).as_bytes());
    let outcome = run(&project, &["eval", "--data", "data.json", "name199999"]);
    gave(&outcome, "199999\n");
    let outcome = run(&project, &["eval", "--data", "data.json", "nam199999"]);
    failed(&outcome, "error[unknown-root]: unknown name `nam199999`", 1);
    assert!(outcome.stderr.contains("and 199980 more"), "{}", shown(&outcome));
}

#[test]
fn a_document_with_many_references() {
    let project = Project::new();
    let entries = vec!["\"${n}\""; 300_000].join(",");
    project.write("doc.json", format!("[{entries}]").as_bytes());
    let outcome = run(&project, &["resolve", "--set-json", "n=1", "doc.json"]);
    gave(&outcome, &format!("[\n{}\n]\n", vec!["  1"; 300_000].join(",\n")));
}

#[test]
fn a_document_with_many_errors() {
    let project = Project::new();
    let entries = vec!["\"${zzz}\""; 5_000].join(",\n");
    project.write("doc.json", format!("[{entries}]").as_bytes());
    let outcome = run(&project, &["resolve", "--set-json", "n=1", "doc.json"]);
    assert_eq!(outcome.exit, 1, "{}", shown(&outcome));
    assert!(outcome.stderr.starts_with("error[unknown-root]: unknown name `zzz`\n"), "{}", shown(&outcome));
}

#[test]
fn a_value_of_many_megabytes() {
    let project = Project::new();
    project.write("a.txt", &vec![b'a'; 60_000_000]);
    let outcome = run(&project, &["eval", "file(\"a.txt\") | len"]);
    gave(&outcome, "60000000\n");
    project.write("a.txt", &vec![b'a'; 70_000_000]);
    let outcome = run(&project, &["eval", "file(\"a.txt\") | len"]);
    failed(&outcome, "error[computed]: `file`: `a.txt` is larger than 64 MiB", 1);
}

#[test]
fn a_command_that_never_stops_printing() {
    let project = Project::new();
    let outcome = run(&project, &["render", "--allow-commands", "${cmd:yes}"]);
    failed(&outcome, "error[computed]: `cmd`: `yes` failed, it printed more than 64 MiB", 1);
}

#[test]
fn invalid_utf8_everywhere() {
    let project = Project::new();
    project.write("bad", b"a\xff");
    for arguments in [
        ["render", "--file", "bad"],
        ["eval", "--file", "bad"],
        ["resolve", "--format=json", "bad"],
        ["render", "--data=bad", "x"],
        ["render", "--outputs=bad", "x"],
    ] {
        let outcome = run(&project, &arguments);
        assert_eq!(outcome.exit, 3, "{arguments:?}: {}", shown(&outcome));
        assert!(outcome.stderr.contains("UTF-8"), "{arguments:?}: {}", shown(&outcome));
    }
}

#[test]
fn an_expression_of_many_megabytes_in_a_template() {
    failed(&render(format!("${{= {}1 }}", "1+".repeat(30_000_000)).as_bytes()), EXPRESSION, 1);
    failed(&render(format!("${{= [{}1] }}", "a,".repeat(30_000_000)).as_bytes()), EXPRESSION, 1);
}

#[test]
fn messages_are_short() {
    for template in ["${n ", "${", "${a:b", "${file:x|", "${1"] {
        let outcome = render(template.repeat(1_000_000).as_bytes());
        assert_eq!(outcome.exit, 1, "{}", shown(&outcome));
        assert!(outcome.stderr.len() < 100_000, "{template}: a message of {} bytes", outcome.stderr.len());
    }
    let expression = eval(&format!("{}-b", "a".repeat(60_000)));
    assert!(expression.stderr.len() < 4096, "a message of {} bytes", expression.stderr.len());
}

#[test]
fn many_errors_in_one_line() {
    assert_eq!(render("${}".repeat(1_000_000).as_bytes()).exit, 1);
    let project = Project::new();
    project.write("doc.json", format!("[{}]", vec!["\"${zzz}\""; 100_000].join(",")).as_bytes());
    assert_eq!(run(&project, &["resolve", "doc.json"]).exit, 1);
}

/// The places of many references in one text take one walk over it.
#[test]
fn references_in_one_quoted_text() {
    let project = Project::new();
    let references = "${inputs.a} ".repeat(200_000);
    let file = format!("inputs: {{a: {{type: text, default: x}}}}\nsteps:\n  - value: \"{references}\"\n");
    project.write("w.yaml", file.as_bytes());
    gave(&run(&project, &["check", "w.yaml"]), "w.yaml: ok, 1 step\n");
}
