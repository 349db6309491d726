//! Nobody is let in who does not know the token, whose request is meant for another host, or who comes from another site:
//! on every route. Two servers of another program were found to forget one of these on some routes.

use super::{RUNS, Reply, Served, Server, routes};

/// Asserts that a reply refuses and says nothing of any run.
fn is_refusal(name: &str, reply: &Reply, expected: u16) -> Option<String> {
    let body = reply.text();
    let is_silent = !body.contains("greet") && !body.contains("project") && !body.contains("work.yaml");
    let is_guarded =
        reply.field("set-cookie").is_none() && reply.field("access-control-allow-origin").is_none();
    (reply.status != expected || !is_silent || !is_guarded)
        .then(|| format!("{name}: expected {expected}\n{}\n{body}", reply.head))
}

/// The fields of one way to ask, and the status that answers it.
struct Attempt<'a> {
    name: &'a str,
    fields: Vec<(&'a str, &'a str)>,
    expected: u16,
}

#[test]
fn every_route_refuses_whoever_is_not_meant() {
    let served = Served::new(&[]);
    let client = &served.server;
    let (run, before) = (served.last(), served.store());
    let (host, bearer) = (client.host.as_str(), client.bearer());
    let known = ("authorization", bearer.as_str());
    let cookie = cookie_of(client);
    let (port, own) = (host.rsplit(':').next().expect("a port"), format!("http://{host}"));
    let (rebound, other_port) = (format!("evil.example:{port}"), format!("http://127.0.0.1:1{port}"));
    let right = ("host", host);
    let json = ("content-type", "application/json");
    let attempts = [
        Attempt { name: "no token", fields: vec![right, json], expected: 401 },
        Attempt {
            name: "a wrong token",
            fields: vec![right, json, ("authorization", "Bearer 0123456789")],
            expected: 401,
        },
        Attempt {
            name: "an empty token",
            fields: vec![right, json, ("authorization", "Bearer ")],
            expected: 401,
        },
        Attempt { name: "basic", fields: vec![right, json, ("authorization", "Basic eDp5")], expected: 401 },
        Attempt { name: "a cookie elsewhere", fields: vec![right, json, ("cookie", &cookie)], expected: 401 },
        Attempt { name: "another host", fields: vec![("host", &rebound), json, known], expected: 421 },
        Attempt {
            name: "a host without port",
            fields: vec![("host", "127.0.0.1"), json, known],
            expected: 421,
        },
        Attempt { name: "no host", fields: vec![json, known], expected: 421 },
        Attempt {
            name: "two hosts",
            fields: vec![right, ("host", "evil.example"), json, known],
            expected: 400,
        },
        Attempt {
            name: "a foreign origin",
            fields: vec![right, json, known, ("origin", "http://evil.example")],
            expected: 403,
        },
        Attempt {
            name: "another port",
            fields: vec![right, json, known, ("origin", &other_port)],
            expected: 403,
        },
        Attempt {
            name: "a null origin",
            fields: vec![right, json, known, ("origin", "null")],
            expected: 403,
        },
        Attempt {
            name: "two origins",
            fields: vec![right, json, known, ("origin", &own), ("origin", "null")],
            expected: 400,
        },
        Attempt {
            name: "another site",
            fields: vec![right, json, known, ("sec-fetch-site", "cross-site")],
            expected: 403,
        },
        Attempt {
            name: "the same site",
            fields: vec![right, json, known, ("sec-fetch-site", "same-site")],
            expected: 403,
        },
    ];
    let mut failures = Vec::new();
    for route in routes() {
        let path = route.path_of(&run);
        for Attempt { name, fields, expected } in &attempts {
            let reply = client.request(&route.method, &path, fields, b"");
            failures.extend(is_refusal(&format!("{}, {name}", route.name()), &reply, *expected));
        }
        // Below the segment of the browser, only the cookie counts.
        let below = format!("{}{path}", client.base);
        let reply = client.request(&route.method, &below, &[right, json, ("cookie", "threadline=0")], b"");
        let expected = if route.is_entry() && route.method == "POST" { 415 } else { 401 };
        failures.extend(is_refusal(&format!("{}, a wrong cookie", route.name()), &reply, expected));
        if route.method == "POST" && !route.is_entry() {
            let fields = [right, json, ("cookie", cookie.as_str())];
            let reply = client.request("POST", &below, &fields, b"{}");
            failures.extend(is_refusal(&format!("{}, without its origin", route.name()), &reply, 403));
        }
    }
    assert_eq!(failures, Vec::<String>::new());
    assert_eq!(served.store(), before, "nothing was changed");
}

/// The cookie that a browser is given.
fn cookie_of(client: &Server) -> String {
    let path = format!("{}/open?token={}", client.base, client.token);
    // Somebody follows the address that was printed, wherever it was found.
    let fields = [("host", client.host.as_str()), ("sec-fetch-site", "cross-site")];
    let reply = client.request("GET", &path, &fields, b"");
    assert_eq!(reply.status, 200, "{}", reply.text());
    let cookie = reply.field("set-cookie").expect("a cookie");
    for part in ["HttpOnly", "SameSite=Strict", &format!("Path={}/", client.base)] {
        assert!(cookie.split("; ").any(|known| known == part), "{part} in {cookie}");
    }
    assert!(!cookie.contains(&client.token) && !cookie.contains("Domain"), "{cookie}");
    cookie.split(';').next().expect("a value").to_owned()
}

#[test]
fn a_browser_is_let_in_by_the_printed_address_and_by_the_form() {
    let served = Served::new(&[]);
    let client = &served.server;
    let (host, cookie) = (("host", client.host.as_str()), cookie_of(client));
    let page = format!("{}/projects/project/runs", client.base);
    let reply =
        client.request("GET", &page, &[host, ("cookie", &cookie), ("sec-fetch-site", "same-origin")], b"");
    assert_eq!(reply.status, 200);
    assert!(reply.text().contains("work.yaml") || reply.text().contains("work"), "{}", reply.text());
    // Whoever has no cookie is asked for the token, and gets in with it.
    let asked = client.request("GET", &page, &[host], b"");
    assert_eq!(asked.status, 401);
    assert!(asked.text().contains("<form method=\"post\""), "{}", asked.text());
    let origin = format!("http://{}", client.host);
    let form = [host, ("origin", origin.as_str()), ("content-type", "application/x-www-form-urlencoded")];
    let open = format!("{}/open", client.base);
    let opened = client.request("POST", &open, &form, format!("token={}", client.token).as_bytes());
    assert_eq!(opened.status, 200);
    assert!(opened.field("set-cookie").expect("a cookie").starts_with(&cookie));
    for body in ["token=wrong", "token=", "", "tok=a", "token=%ff%fe"] {
        assert_eq!(client.request("POST", &open, &form, body.as_bytes()).status, 401, "{body}");
    }
    let wrong = client.request("GET", &format!("{open}?token=0123"), &[host], b"");
    assert_eq!((wrong.status, wrong.field("set-cookie")), (401, None));
    // The segment is not told to anybody who does not know it.
    let stranger = client.request("GET", "/", &[host], b"");
    assert!(!stranger.text().contains(&client.base) && !stranger.head.contains(&client.base));
}

#[test]
fn wrong_methods_and_sizes_are_refused_on_every_route() {
    let served = Served::new(&[]);
    let client = &served.server;
    let (run, before) = (served.last(), served.store());
    let (host, bearer) = (("host", client.host.as_str()), client.bearer());
    let known = ("authorization", bearer.as_str());
    let large = vec![b'x'; (1 << 20) + 1];
    let routes = routes();
    for route in &routes {
        let path = format!("{}{}", client.base, route.path_of(&run));
        let there: Vec<&str> = routes
            .iter()
            .filter(|other| other.path == route.path)
            .map(|other| other.method.as_str())
            .collect();
        for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "get"]
        {
            if there.contains(&method) {
                continue;
            }
            let reply = client.request(method, &path, &[host, known], b"");
            assert_eq!(reply.status, 405, "{method} {path}");
            assert_eq!(reply.field("allow").as_deref(), Some(there.join(", ").as_str()), "{method} {path}");
        }
        let kind = if route.is_entry() { "application/x-www-form-urlencoded" } else { "application/json" };
        let with_body = client.request(&route.method, &path, &[host, known, ("content-type", kind)], &large);
        let expected = if route.method == "POST" { 413 } else { 400 };
        assert_eq!(with_body.status, expected, "{}: a large body", route.name());
        if route.method == "POST" {
            let untyped =
                client.request("POST", &path, &[host, known, ("content-type", "text/plain")], b"{}");
            assert_eq!(untyped.status, 415, "{}: a body that a form could send", route.name());
        }
        let query = format!("{path}?text={}", "x".repeat(9_000));
        let long = client.request(&route.method, &query, &[host, known, ("content-type", kind)], b"");
        assert_eq!(long.status, 400, "{}: a long query", route.name());
        let huge = client.request(&route.method, &path, &[host, known, ("x", &"x".repeat(100_000))], b"");
        assert_eq!(huge.status, 431, "{}: a large head", route.name());
        let many: Vec<(&str, &str)> = [host, known].into_iter().chain([("x", "y"); 100]).collect();
        assert_eq!(
            client.request(&route.method, &path, &many, b"").status,
            431,
            "{}: many fields",
            route.name()
        );
        let unknown = client.request(&route.method, &format!("{path}?nonsense=1"), &[host, known], b"");
        assert_eq!(unknown.status, 400, "{}: an unknown parameter", route.name());
    }
    assert_eq!(served.store(), before, "nothing was changed");
}

/// CVE-2026-31882: a server of another program asked for no credentials on its routes of events.
#[test]
fn events_are_told_to_nobody_without_the_token() {
    let served = Served::new(&[]);
    let streams: Vec<_> = routes().into_iter().filter(super::DescribedRoute::streams).collect();
    assert!(!streams.is_empty());
    for route in streams {
        let path = route.path_of(&served.last());
        for path in [path.clone(), format!("{}{path}", served.server.base), format!("{path}?after=1")] {
            let host = ("host", served.server.host.as_str());
            let accept = ("accept", "text/event-stream");
            let reply = served.server.request("GET", &path, &[host, accept], b"");
            assert_eq!(reply.status, 401, "{path}");
            assert!(
                !reply.text().contains("data:") && !reply.head.contains("event-stream"),
                "{}",
                reply.text()
            );
            let token =
                format!("{path}{}token={}", if path.contains('?') { '&' } else { '?' }, served.server.token);
            assert_eq!(served.server.request("GET", &token, &[host], b"").status, 401, "no token in a query");
        }
    }
}

/// CVE-2026-31886: a server of another program made a path of the id of a run, and removed the folder that it led to.
#[test]
fn ids_and_names_never_become_paths() {
    let served = Served::new(&[]);
    let client = &served.server;
    let outside = served.project.path().parent().expect("a folder above").join("precious");
    std::fs::write(&outside, "canary-from-outside").expect("a file");
    let before = served.store();
    let names = [
        "..",
        ".",
        "%2e%2e",
        "..%2f..%2fprecious",
        "%2e%2e%2fprecious",
        "..%5cprecious",
        "%2fetc%2fpasswd",
        "%00",
        "a%00b",
        "last",
        "-",
        "-x",
        "a/../b",
        "precious",
        "%252e%252e",
        "A",
        "ü",
        "%c3%bc",
        "%ff",
        "a%0d%0ab",
        &"a".repeat(65),
    ];
    for route in routes() {
        let parameters = route.operation["parameters"].as_array().expect("parameters");
        for parameter in parameters.iter().filter(|parameter| parameter["in"] == "path") {
            let own = format!("{{{}}}", parameter["name"].as_str().expect("a name"));
            for name in names {
                let path = route.path.replace(&own, name).replace("{project}", "project");
                let path = path.replace("{run}", &served.last()).replace("{asset}", "style.css");
                let reply = if route.method == "POST" { client.post(&path, "{}") } else { client.get(&path) };
                let is_refused = matches!(reply.status, 400 | 404 | 405);
                assert!(is_refused, "{} {path}: {}\n{}", route.method, reply.status, reply.text());
                assert!(!reply.text().contains("canary"), "{path}");
            }
        }
    }
    for file in ["../precious", "/etc/passwd", "..", "", "work.yaml/../work.yaml", "./work.yaml", "precious"]
    {
        let body = serde_json::json!({"workflow": file}).to_string();
        let reply = client.post(RUNS, &body);
        assert_eq!(reply.status, 404, "{file}: {}", reply.text());
    }
    assert_eq!(std::fs::read_to_string(&outside).expect("it is there"), "canary-from-outside");
    assert_eq!(served.store(), before, "nothing was changed");
}

#[test]
fn what_is_served_to_everybody_needs_a_name_and_a_long_token() {
    let served = Served::new(&[]);
    let refused = |arguments: &[&str]| {
        let outcome = served.project.run(&[&["serve"], arguments].concat(), b"");
        (outcome.exit, outcome.stderr)
    };
    let (exit, said) = refused(&["--listen", "0.0.0.0:0"]);
    assert!(exit == 2 && said.contains("--public-url"), "{said}");
    let (exit, said) = refused(&["--public-url", "ci.example.org"]);
    assert!(exit == 2 && said.contains("--public-url"), "{said}");
    served.project.write("token", b"secret\n");
    let (exit, said) = refused(&["--token-file", "token"]);
    assert!(exit == 3 && said.contains("32 to 512"), "{said}");
    let (exit, said) = refused(&["--listen", served.server.host.as_str()]);
    assert!(exit == 3 && said.contains("cannot listen"), "{said}");
}

#[test]
fn every_answer_says_what_a_browser_may_do_with_it() {
    let served = Served::new(&[]);
    let run = served.last();
    for route in routes().into_iter().filter(|route| !route.streams() && !route.is_entry()) {
        let reply = match route.method.as_str() {
            "POST" => served.server.post(&route.path_of("none"), "{}"),
            _ => served.server.get(&route.path_of(&run)),
        };
        let policy = reply.field("content-security-policy").unwrap_or_default();
        for part in ["default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"]
        {
            assert!(policy.contains(part), "{}: {part}", route.name());
        }
        assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
        let field = |name: &str| reply.field(name).unwrap_or_default();
        assert_eq!(field("x-content-type-options"), "nosniff", "{}", route.name());
        assert_eq!(field("referrer-policy"), "no-referrer", "{}", route.name());
        assert_eq!(field("cache-control"), "no-store", "{}", route.name());
        assert!(!field("content-type").is_empty(), "{}", route.name());
    }
}
