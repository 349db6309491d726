//! The step `http`.

use super::server::{Reply, Server, json, status, text};
use crate::harness::{Run, workflow};

/// Runs a workflow that reads the server as `${inputs.api}`.
fn run(server: &Server, steps: &str) -> Run {
    let api = format!("api={}", server.url());
    workflow(&format!("inputs: {{api: {{}}}}\nallow: {{hosts: [127.0.0.1]}}\n{steps}"))
        .run_with(&["--input", &api])
}

#[test]
fn a_value_leads_to_no_private_address() {
    let server = Server::new(|_, _| text("ok"));
    let port = server.url().rsplit(':').next().expect("a port").to_owned();
    let hosts = ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]"];
    let steps = "inputs: {host: {}}\nsteps:\n  - {id: a, http: {url: 'http://${inputs.host}/x'}}\n";
    for host in hosts {
        let run = workflow(steps).run_with(&["--input", &format!("host={host}:{port}")]).exits(1);
        let error = run.error("a");
        assert!(error.contains("private address") || error.contains("not a host"), "{host}: {error}");
    }
    assert!(server.received().is_empty());
    let api = format!("api={}", server.url());
    let url = server.url();
    // A base is a value, too; what stands in the file or in the environment is not.
    let base = "steps:\n  - {id: a, http: {url: '${inputs.api}/x'}}\n";
    let refused = workflow(&format!("inputs: {{api: {{}}}}\n{base}")).run_with(&["--input", &api]).exits(1);
    assert!(refused.error("a").ends_with("`allow: {hosts: [...]}` permits it"), "{}", refused.error("a"));
    assert!(server.received().is_empty());
    workflow(&format!("inputs: {{api: {{default: '{url}'}}}}\n{base}")).run().well();
    workflow(&format!("context: {{api: '{url}'}}\n{}", base.replace("inputs", "context"))).run().well();
    workflow(&base.replace("inputs.api", "env.API")).env("API", &url).run().well();
    workflow(&format!("context: {{x: ../y}}\nsteps:\n  - http: {{url: '{url}/${{context.x}}'}}\n"))
        .run()
        .well();
    assert_eq!(server.received().len(), 4);
}

#[test]
fn headers_stay_with_the_origin_that_they_were_written_for() {
    let other = Server::new(|received, _| text(&received.line));
    let away = other.url();
    let server = Server::new(move |received, _| {
        let to = |place: &str| Reply::Answer(302, vec![("location", place.to_owned())], String::new());
        match received.line.as_str() {
            "GET /away" => to(&format!("{away}/there")),
            "POST /away" => to(&format!("{away}/posted")),
            "GET /near" => to("far/../here"),
            "GET /file" => to("file:///etc/passwd"),
            "GET /name" => to(&format!("{}/there", away.replace("127.0.0.1", "localhost"))),
            _ => text(&received.line),
        }
    });
    let run = run(
        &server,
        r#"
steps:
  - {id: away, http: {url: "${inputs.api}/away", headers: {X-Api-Key: k, Authorization: a, Cookie: c, Accept: text/plain}}}
  - {id: posted, http: {method: POST, url: "${inputs.api}/away", body: {a: 1}, headers: {X-Api-Key: k}}}
  - {id: near, http: {url: "${inputs.api}/near", headers: {X-Api-Key: k, Authorization: a}}}
  - {id: file, http: {url: "${inputs.api}/file"}, continue_on_error: true}
  - {id: name, http: {url: "${inputs.api}/name"}, continue_on_error: true}
"#,
    )
    .well();
    assert_eq!(run.value("away"), r#""GET /there""#);
    assert_eq!(run.value("posted"), r#""GET /posted""#);
    assert_eq!(run.value("near"), r#""GET /here""#);
    let scheme = "Http: the server redirects to `file:///etc/passwd`, which is no URL of `http` or `https`";
    assert_eq!(run.error("file"), scheme);
    assert!(run.error("name").contains("private address"), "{}", run.error("name"));
    for received in other.received() {
        for header in ["x-api-key", "authorization", "cookie", "content-type"] {
            assert_eq!(received.header(header), "", "{header} of {}", received.line);
        }
    }
    let here = server.received().into_iter().find(|received| received.line == "GET /here").expect("it came");
    assert_eq!((here.header("x-api-key"), here.header("authorization")), ("k", ""));
    assert_eq!(server.received().iter().filter(|received| received.line.contains("file")).count(), 1);
}

#[test]
fn a_request_arrives_with_every_value_in_its_place() {
    let server = Server::new(|_, _| text("ok"));
    let steps = r#"
context: {hostile: "a/../b?x=1&y#z %2e é"}
steps:
  - http: "nothing"
"#;
    // A request is an object.
    run(&server, steps).exits(3).says("`http` is an object, not the text `nothing`");
    let steps = r#"
context: {hostile: "a/../b?x=1&y#z %2e é"}
steps:
  - id: one
    http:
      url: ${inputs.api}/files/${context.hostile}/raw?name=${context.hostile}
      query: {q: "${context.hostile}", many: [1, 2.50, true], none: null}
      headers: {X-Title: "${context.hostile}", Accept: application/json}
  - id: two
    http:
      method: post
      url: ${inputs.api}/new
      body: {title: "${context.hostile}", count: "${= 1 + 1}", exact: 1.10}
  - id: three
    http: {method: PUT, url: "${inputs.api}/text", body: "a ${context.hostile}"}
  - id: four
    http: {method: PATCH, url: "${inputs.api}/typed", body: [1], headers: {Content-Type: application/merge-patch+json}}
"#;
    run(&server, steps).well();
    let received = server.received();
    let encoded = "a%2F..%2Fb%3Fx%3D1%26y%23z%20%252e%20%C3%A9";
    assert_eq!(
        received[0].line,
        format!("GET /files/{encoded}/raw?name={encoded}&q={encoded}&many=1&many=2.50&many=true")
    );
    assert_eq!(received[0].header("x-title"), "a/../b?x=1&y#z %2e é");
    assert_eq!(received[0].header("accept"), "application/json");
    assert_eq!(received[1].line, "POST /new");
    assert_eq!(received[1].header("content-type"), "application/json");
    assert_eq!(received[1].body, r#"{"title":"a/../b?x=1&y#z %2e é","count":2,"exact":1.10}"#);
    assert_eq!(received[2].header("content-type"), "text/plain; charset=utf-8");
    assert_eq!(received[2].body, "a a/../b?x=1&y#z %2e é");
    assert_eq!(received[3].header("content-type"), "application/merge-patch+json");
    assert_eq!(received[3].body, "[1]");
}

#[test]
fn an_answer_is_typed() {
    let server = Server::new(|received, _| match received.line.as_str() {
        "GET /json" => json(r#"{"price": 1.50000000000000000001, "n": 9007199254740993}"#),
        "GET /problem" => {
            Reply::Answer(200, vec![("content-type", "Application/X+JSON; v=1".into())], "[1]".into())
        }
        "DELETE /gone" => {
            Reply::Answer(204, vec![("content-type", "application/json".into())], String::new())
        }
        _ => text("1.5\n"),
    });
    let run = run(
        &server,
        r#"
steps:
  - {id: typed, http: {url: "${inputs.api}/json"}}
  - {id: suffix, http: {url: "${inputs.api}/problem"}}
  - {id: empty, http: {method: DELETE, url: "${inputs.api}/gone"}}
  - {id: plain, http: {url: "${inputs.api}/text"}, expect: {value: {eq: "1.5\n"}, output: {startsWith: "1"}, meta: {status_code: {eq: 200}}}}
  - {id: read, value: "${= typed.result.n + 1}"}
"#,
    )
    .well();
    assert_eq!(run.value("typed"), r#"{"price":1.50000000000000000001,"n":9007199254740993}"#);
    assert_eq!(run.value("suffix"), "[1]");
    assert_eq!(run.value("empty"), "null");
    assert_eq!(run.value("plain"), r#""1.5\n""#);
    assert_eq!(run.value("read"), "9007199254740994");
    assert_eq!(run.meta("typed", "node_type"), r#""http""#);
    assert_eq!(run.meta("typed", "tool_name"), r#""http""#);
    assert_eq!(run.meta("empty", "status_code"), "204");
    assert!(run.meta("typed", "headers").contains(r#""content-type":"application/json""#));
    assert_eq!(run.meta("typed", "exit_code"), "");
}

#[test]
fn another_status_than_2xx_fails() {
    let long = "x".repeat(300);
    let server = Server::new(move |received, _| match received.line.as_str() {
        "GET /long" => status(500, &long),
        "GET /quiet" => status(418, ""),
        _ => status(404, "no such thing"),
    });
    let run = run(
        &server,
        r#"
steps:
  - {id: missing, http: {url: "${inputs.api}/a"}, continue_on_error: true}
  - {id: said, value: "${missing.output} ${missing.meta.status_code}"}
  - {id: long, http: {url: "${inputs.api}/long"}, continue_on_error: true}
  - {id: quiet, http: {url: "${inputs.api}/quiet"}}
"#,
    )
    .exits(1);
    assert_eq!(run.error("missing"), "Http: the server answered 404 Not Found: no such thing");
    assert_eq!(run.value("said"), r#""no such thing 404""#);
    let shown = "x".repeat(200);
    assert_eq!(run.error("long"), format!("Http: the server answered 500 Internal Server Error: {shown}..."));
    assert_eq!(run.error("quiet"), "Http: the server answered 418 I'm a teapot");
}

#[test]
fn what_goes_wrong_has_a_name() {
    let server = Server::new(|received, _| match received.line.as_str() {
        "GET /slow" => Reply::Silence,
        "GET /large" => text(&"x".repeat(2000)),
        "GET /broken" => json("{"),
        _ => Reply::Close,
    });
    let run = run(
        &server,
        r#"
steps:
  - {id: slow, http: {url: "${inputs.api}/slow", timeout: 200ms}, continue_on_error: true}
  - {id: also, http: {url: "${inputs.api}/slow"}, timeout: 0.2, continue_on_error: true}
  - {id: large, http: {url: "${inputs.api}/large"}, max_output: 1KiB, continue_on_error: true}
  - {id: broken, http: {url: "${inputs.api}/broken"}, continue_on_error: true}
  - {id: closed, http: {url: "${inputs.api}/closed"}, continue_on_error: true}
  - {id: nobody, http: {url: "http://127.0.0.1:1/"}, continue_on_error: true}
  - {id: nowhere, http: {url: "http://nowhere.invalid/"}, continue_on_error: true}
"#,
    )
    .well();
    assert_eq!(run.error("slow"), "Timeout: timed out after 200ms");
    assert_eq!(run.error("also"), "Timeout: timed out after 200ms");
    assert_eq!(run.error("large"), "OutputTooLarge: the answer is larger than 1024 bytes");
    assert!(run.error("broken").starts_with("Format: the answer is not JSON: "), "{}", run.error("broken"));
    assert!(run.error("closed").starts_with("Http: no "), "{}", run.error("closed"));
    assert_eq!(run.error("nobody"), "Http: no connection to `127.0.0.1:1`: connection refused");
    assert!(run.error("nowhere").starts_with("Http: "), "{}", run.error("nowhere"));
}

#[test]
fn redirects_are_followed_up_to_ten() {
    let to = |place: String| Reply::Answer(302, vec![("location", place)], String::new());
    let server = Server::new(move |received, _| {
        let count = received.line.rsplit('/').next().and_then(|count| count.parse::<u32>().ok());
        match count {
            Some(0) | None => text(&received.line),
            Some(count) => to(format!("/{}", count - 1)),
        }
    });
    let run = run(
        &server,
        r#"
steps:
  - {id: ten, http: {url: "${inputs.api}/10"}}
  - {id: posted, http: {method: POST, url: "${inputs.api}/1", body: a}}
  - {id: eleven, http: {url: "${inputs.api}/11"}, continue_on_error: true}
"#,
    )
    .well();
    assert_eq!(run.value("ten"), r#""GET /0""#);
    assert_eq!(run.value("posted"), r#""GET /0""#);
    assert_eq!(run.error("eleven"), "Http: more than 10 redirects");
}

#[test]
fn a_request_is_tried_again() {
    let server = Server::new(|_, before| if before < 2 { status(503, "busy") } else { json("1") });
    let steps = "steps:\n  - {id: a, http: {url: '${inputs.api}'}, retry: {attempts: 3, delay: 1ms}}\n";
    let run = run(&server, steps).well();
    assert_eq!((run.value("a"), run.count("retrying", "a")), ("1".to_owned(), 2));
    assert_eq!(run.meta("a", "retry_count"), "2");
}

/// How often each request is sent is counted where it arrives.
#[test]
fn only_what_may_succeed_is_asked_again() {
    let server = Server::new(|received, _| match received.line.trim_start_matches("GET /") {
        line if line.starts_with("close") => Reply::Close,
        line => status(line.get(..3).and_then(|code| code.parse().ok()).expect("a status"), "no"),
    });
    let expected = [
        // Without conditions, a mistake of the request is not repeated.
        ("404", "", 1),
        ("400", "", 1),
        ("408", "", 3),
        ("425", "", 3),
        ("429", "", 3),
        ("500", "", 3),
        ("503", "", 3),
        ("close", "", 3),
        // What `on` names is, and nothing else.
        ("404-on", "on: http 404", 3),
        ("404-on-class", "on: [http 4xx]", 3),
        ("404-on-kind", "on: Http", 3),
        ("503-on-other", "on: [http 502, Timeout]", 1),
        ("close-on-kind", "on: Http", 3),
        ("close-on-other", "on: [http 5xx]", 1),
        // What `not_on` names is not, whatever `on` says.
        ("404-not-on", "not_on: [http 404]", 1),
        ("503-not-on", "not_on: http 503", 1),
        ("503-not-on-class", "not_on: [http 5xx]", 1),
        ("503-not-on-kind", "on: http 503, not_on: Http", 1),
        ("503-not-on-other", "not_on: [http 502]", 3),
        ("close-not-on", "not_on: Http", 1),
    ];
    let step = |(path, conditions, _): &(&str, &str, usize)| {
        let retry = format!("retry: {{attempts: 3, delay: 1ms, {conditions}}}");
        format!(
            "  - {{id: s{path}, http: {{url: '${{inputs.api}}/{path}'}}, {retry}, continue_on_error: true}}\n"
        )
    };
    let steps: String = expected.iter().map(step).collect();
    let run = run(&server, &format!("steps:\n{steps}")).well();
    let received = server.received();
    for (path, conditions, count) in expected {
        let line = format!("GET /{path}");
        let seen = received.iter().filter(|received| received.line == line).count();
        assert_eq!(seen, count, "{path} with `{conditions}`");
        let id = format!("s{path}");
        assert_eq!(run.meta(&id, "retry_count"), (count - 1).to_string(), "{id}");
        assert_eq!(run.meta(&id, "not_retried").is_empty(), count == 3, "{id}");
    }
}

#[test]
fn every_shape_sends_requests() {
    let server = Server::new(|received, _| text(&received.line));
    let each = run(
        &server,
        "steps:\n  - {id: all, foreach: [a, b/c], parallel: 2, do: {http: {url: '${inputs.api}/${item}'}}}\n",
    );
    assert_eq!(each.well().value("all"), r#"["GET /a","GET /b%2Fc"]"#);
    let graph = run(
        &server,
        "nodes:\n  first: {http: {url: '${inputs.api}/1'}}\n  second: {http: {url: '${inputs.api}/2', query: {q: '${first}'}}}\n",
    );
    assert_eq!(graph.well().value("second"), r#""GET /2?q=GET%20%2F1""#);
}

#[test]
fn a_value_cannot_lead_elsewhere() {
    let server = Server::new(|_, _| text("reached"));
    let run = run(
        &server,
        r#"
context: {up: "..", nothing: "", evil: "user@evil.example", lines: "a\r\nHost: b", file: "file:///etc/passwd"}
steps:
  - {id: up, http: {url: "${inputs.api}/a/${context.up}/b"}, continue_on_error: true}
  - {id: nothing, http: {method: DELETE, url: "${inputs.api}/a/${context.nothing}"}, continue_on_error: true}
  - {id: host, http: {url: "http://${context.evil}/"}, continue_on_error: true}
  - {id: glued, http: {url: "${inputs.api}${context.up}"}, continue_on_error: true}
  - {id: header, http: {url: "${inputs.api}", headers: {X-A: "${context.lines}"}}, continue_on_error: true}
  - {id: scheme, http: {url: "${context.file}"}, continue_on_error: true}
  - {id: query, http: {url: "${inputs.api}", query: {q: {a: "${context.up}"}}}, continue_on_error: true}
"#,
    )
    .well();
    assert_eq!(run.error("up"), "Evaluation: a value makes the segment `..` in the path of the URL");
    assert_eq!(run.error("nothing"), "Evaluation: a value leaves a segment of the path of the URL empty");
    assert_eq!(run.error("host"), "Evaluation: a value in the host of a URL contains `@`");
    assert_eq!(
        run.error("header"),
        "Evaluation: the header `x-a` contains a line break or another control character"
    );
    assert_eq!(
        run.error("scheme"),
        "Evaluation: `file:///etc/passwd` does not start with `http://` or `https://`"
    );
    assert_eq!(run.error("query"), "Evaluation: `q` of the query is an object");
    // `127.0.0.1:PORT..` is no port.
    assert!(run.error("glued").starts_with("Http: "), "{}", run.error("glued"));
    assert!(server.received().is_empty());
}

#[test]
fn a_second_signal_does_not_wait_for_an_answer() {
    let server = Server::new(|_, before| if before == 0 { Reply::Silence } else { text("at last") });
    let api = format!("api={}", server.url());
    let workflow = workflow(
        "inputs: {api: {}}\nallow: {hosts: [127.0.0.1]}\nsteps:\n  - {id: a, http: {url: '${inputs.api}', timeout: 1h}}\n",
    );
    let running = workflow.start(&["--input", &api]);
    server.wait();
    running.signal("INT");
    running.until("stopping:");
    running.signal("INT");
    running.wait().exits(130);
    let run = workflow.resume().well();
    assert_eq!(run.value("a"), r#""at last""#);
}

#[test]
fn a_request_under_way_at_a_crash_follows_on_crash() {
    for (on_crash, exit, requests) in [("rerun", 0, 2), ("fail", 1, 1)] {
        let server = Server::new(|_, before| if before == 0 { Reply::Silence } else { text("at last") });
        let api = format!("api={}", server.url());
        let text = format!(
            "inputs: {{api: {{}}}}\nallow: {{hosts: [127.0.0.1]}}\nsteps:\n  - {{id: a, http: {{url: '${{inputs.api}}'}}, on_crash: {on_crash}}}\n"
        );
        let workflow = workflow(&text);
        let running = workflow.start(&["--input", &api]);
        server.wait();
        running.kill();
        workflow.resume().exits(exit);
        assert_eq!(server.received().len(), requests, "{on_crash}");
    }
}

#[test]
fn preview_and_explain_show_the_request() {
    let server = Server::new(|_, _| text("ok"));
    let steps = "steps:\n  - {id: a, http: {method: POST, url: '${inputs.api}/${workflow.name}', body: {n: '${= 1 + 1}'}}}\n";
    let workflow =
        workflow(&format!("inputs: {{api: {{}}}}\nallow: {{hosts: [127.0.0.1]}}\nname: a b\n{steps}"));
    let api = format!("api={}", server.url());
    let shown = workflow.command(&["preview", "workflow.yaml", "--input", &api]).wait().well().stdout;
    assert!(server.received().is_empty());
    let line = format!("http.url \"POST {}/a%20b\"", server.url());
    assert!(shown.contains(&line) && shown.contains("http.body {\"n\":2}"), "{shown}");
    workflow.run_with(&["--input", &api]).well();
    let told = workflow.command(&["explain", "last", "a"]).wait().well().stdout;
    assert!(told.contains(&line) && told.contains("http.body \"{\\\"n\\\":2}\""), "{told}");
}

#[test]
fn the_example_uses_the_answer_of_a_service() {
    let server = Server::new(|received, _| match received.line.as_str() {
        "GET /rates/EUR%2FUSD?precision=4&sources=bank&sources=market" => json(r#"{"rate": 1.0912}"#),
        "POST /reports" => Reply::Answer(201, Vec::new(), String::new()),
        line => status(404, line),
    });
    let text = include_str!("../../../../../examples/http-with-a-fallback/workflow.yaml");
    let run = workflow(text).run_with(&["--input", &format!("api={}", server.url())]).well();
    assert_eq!(run.value("used"), r#"{"currency":"EUR/USD","rate":1.0912,"from":"the service"}"#);
    assert_eq!(server.received()[1].body, run.value("used"));
}
