//! What the API answers is what its description says, and what the commands print.

use super::{RUNS, Served, description, routes};

/// The schema of what a route answers, as a schema of its own.
fn schema_of(name: &str) -> jsonschema::Validator {
    let description = description();
    let mut schema = description["components"]["schemas"][name].clone();
    assert!(!schema.is_null(), "there is no schema `{name}`");
    schema["components"] = description["components"].clone();
    jsonschema::validator_for(&schema).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The query that a route needs.
fn query_of(path: &str, event: u64, run: &str) -> String {
    match path.rsplit('/').next().unwrap_or_default() {
        "diff" => format!("?run={run}&run={run}"),
        "items" => "?step=each".to_owned(),
        "chain" => "?step=last".to_owned(),
        "lines" => format!("?event={event}"),
        _ => String::new(),
    }
}

#[test]
fn every_route_that_reads_answers_as_it_is_described() {
    let served = Served::new(&[]);
    let run = served.last();
    let logs = served.server.json(&format!("{}/logs", served.run()));
    let event = logs["attempts"][0]["event"].as_u64().expect("an event");
    let mut tried = 0;
    for route in routes().into_iter().filter(|route| route.method == "GET" && !route.streams()) {
        if route.is_entry() || route.path == "/" {
            continue;
        }
        let path = route.path_of(&run) + &query_of(&route.path, event, &run);
        let reply = served.server.get(&path);
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        let content = route.operation["responses"]["200"]["content"].as_object().expect("content").clone();
        let (kind, content) = content.iter().next().expect("a media type");
        assert_eq!(reply.field("content-type").as_deref(), Some(kind.as_str()), "{path}");
        if let Some(schema) = content["schema"]["$ref"].as_str() {
            let schema = schema_of(schema.rsplit('/').next().unwrap_or_default());
            let answer = reply.json();
            let errors: Vec<String> = schema.iter_errors(&answer).map(|error| error.to_string()).collect();
            assert_eq!(errors, Vec::<String>::new(), "{path}: {answer}");
            tried += 1;
        }
    }
    assert!(tried > 10, "{tried} answers have a schema");
}

#[test]
fn every_problem_is_one_as_described() {
    let served = Served::new(&[]);
    let schema = schema_of("problem");
    for path in [
        "/nothing",
        "/api/projects/other/runs",
        "/api/projects/project/runs/none",
        "/api/projects/project/runs?count=0",
        "/api/projects/project/runs?after=none",
    ] {
        let reply = served.server.get(path);
        assert!(reply.status >= 400, "{path}");
        assert_eq!(reply.field("content-type").as_deref(), Some("application/problem+json"), "{path}");
        assert!(schema.is_valid(&reply.json()), "{path}: {}", reply.text());
        assert_eq!(reply.json()["status"].as_u64(), Some(reply.status.into()));
    }
}

/// What a command prints, as JSON.
fn printed(served: &Served, arguments: &[&str]) -> serde_json::Value {
    let outcome = served.project.run(arguments, b"");
    serde_json::from_str(&outcome.stdout)
        .unwrap_or_else(|error| panic!("{arguments:?}: {error}\n{}", outcome.stderr))
}

#[test]
fn the_api_says_what_the_commands_say() {
    let served = Served::new(&[]);
    let (run, path) = (served.last(), served.run());
    let run = run.as_str();
    let answered = |query: &str| served.server.json(&format!("{path}{query}"));
    let same = [
        ("/state".to_owned(), vec!["show", run, "--at", "9", "--json"], "?at=9"),
        ("/source".to_owned(), vec!["show", run, "--source", "--json"], ""),
        ("/items".to_owned(), vec!["show", run, "--items", "each", "--json"], "?step=each"),
        ("/conversations".to_owned(), vec!["show", run, "greet", "--json"], "?step=greet"),
        ("/explanation".to_owned(), vec!["explain", run, "greet", "--json"], "?step=greet"),
        ("/chain".to_owned(), vec!["explain", run, "called", "--back", "--json"], "?step=called"),
        (
            "/chain".to_owned(),
            vec!["explain", run, "greet", "--forward", "--json"],
            "?step=greet&way=forward",
        ),
    ];
    for (route, command, query) in same {
        assert_eq!(answered(&format!("{route}{query}")), printed(&served, &command), "{command:?}");
    }
    // Large values are cut, and the whole of each is what the command says.
    let all = printed(&served, &["explain", run, "--all", "--json"]);
    assert_same_where_not_cut(&served, &format!("{path}/explanation"), &answered("/explanation"), &all, run);
    let names = printed(&served, &["vars", run, "--json"]);
    assert_same_where_not_cut(&served, &format!("{path}/names"), &answered("/names"), &names, run);
    let svg = served.server.get(&format!("{path}/graph")).text();
    assert_eq!(svg, served.project.run(&["graph", run, "--format", "svg"], b"").stdout);
    let failed: Vec<serde_json::Value> = served
        .project
        .run(&["show", run, "--failed", "--json"], b"")
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(answered("/failures")["failures"], serde_json::Value::Array(failed));
}

/// Asserts that an answer is what a command printed, and that what is cut is found whole.
fn assert_same_where_not_cut(
    served: &Served,
    path: &str,
    answer: &serde_json::Value,
    printed: &serde_json::Value,
    run: &str,
) {
    let mut cuts = 0;
    let mut pairs = vec![(answer, printed)];
    while let Some((answer, printed)) = pairs.pop() {
        if let Some(cut) = answer.get("$cut") {
            let pointer = cut["pointer"].as_str().expect("a pointer").replace('/', "%2F");
            let whole = served.server.get(&format!("{path}?pointer={pointer}"));
            assert_eq!(whole.status, 200);
            assert!(whole.field("content-disposition").is_some_and(|field| field.starts_with("attachment")));
            let text = printed.as_str().map_or_else(|| printed.to_string(), str::to_owned);
            assert_eq!(whole.text(), text, "{run} {pointer}");
            assert_eq!(cut["length"].as_u64(), Some(text.chars().count() as u64));
            let preview = cut["preview"].as_str().expect("a preview");
            assert!(text.starts_with(preview.trim_end_matches('…')) && preview.chars().count() <= 201);
            cuts += 1;
            continue;
        }
        match (answer, printed) {
            (serde_json::Value::Object(answer), serde_json::Value::Object(printed)) => {
                assert_eq!(answer.keys().collect::<Vec<_>>(), printed.keys().collect::<Vec<_>>());
                pairs.extend(answer.values().zip(printed.values()));
            }
            (serde_json::Value::Array(answer), serde_json::Value::Array(printed)) => {
                // With no item chosen, what stands in items is left out.
                let printed: Vec<_> = printed.iter().filter(|one| !is_in_items(one)).collect();
                assert_eq!(answer.len(), printed.len());
                pairs.extend(answer.iter().zip(printed));
            }
            _ => assert_eq!(answer, printed),
        }
    }
    assert!(cuts > 0, "{path} has a large value");
}

/// Whether an evaluation stands in an item.
fn is_in_items(one: &serde_json::Value) -> bool {
    one.get("evaluated").is_some() && one["at"].as_str().is_some_and(|at| at.contains('['))
}

#[test]
fn lists_go_on_where_they_ended() {
    let served = Served::new(&[]);
    for _ in 0..4 {
        assert_eq!(served.project.run(&["run", "part.yaml", "--input", "text=x"], b"").exit, 0);
    }
    let all = served.server.json(&format!("{RUNS}?called=true"));
    let ids = |page: &serde_json::Value| -> Vec<String> {
        let runs = page["runs"].as_array().expect("runs").iter();
        runs.map(|run| run["run"].as_str().expect("an id").to_owned()).collect()
    };
    assert_eq!(ids(&all).len(), 6, "{all}");
    for query in ["called=true&", ""] {
        let (mut found, mut after) = (Vec::new(), String::new());
        loop {
            let page = served.server.json(&format!("{RUNS}?{query}count=2{after}"));
            found.extend(ids(&page));
            let Some(next) = page["next"].as_str() else { break };
            after = format!("&after={next}");
        }
        let expected = ids(&served.server.json(&format!("{RUNS}?{query}")));
        assert_eq!(found, expected);
    }
    let chosen = |query: &str| ids(&served.server.json(&format!("{RUNS}?{query}"))).len();
    assert_eq!((chosen("workflow=part"), chosen("text=WORK"), chosen("status=failed")), (4, 1, 0));
    assert_eq!(
        (chosen("status=completed,failed&workflow=part.yaml"), chosen("since=1h"), chosen("until=1h")),
        (4, 5, 0)
    );
}

#[test]
fn lines_of_a_log_come_some_at_a_time() {
    let served = Served::new(&[]);
    let many = "steps: [{id: many, shell: 'seq 1 100000'}]\n";
    served.project.write("many.yaml", many.as_bytes());
    assert_eq!(served.project.run(&["run", "many.yaml"], b"").exit, 0);
    let logs = served.server.json(&format!("{}/logs", served.run()));
    let attempt = &logs["attempts"][0];
    assert_eq!(attempt["stdout"]["lines"], 100_000);
    let lines = |query: &str| {
        served.server.json(&format!("{}/lines?event={}&{query}", served.run(), attempt["event"]))
    };
    let last = lines("");
    assert_eq!(
        (last["lines"].as_array().map(Vec::len), last["lines"][199]["text"].as_str()),
        (Some(200), Some("100000"))
    );
    let some = lines("from=41&count=2");
    assert_eq!(
        (some["lines"][0]["line"].as_u64(), some["lines"][1]["text"].as_str()),
        (Some(42), Some("43"))
    );
    let found = lines("search=9999&from=0");
    assert_eq!(found["found"], 19, "{found}");
    let whole = served.server.get(&format!("{}/lines?event={}&whole", served.run(), attempt["event"]));
    assert_eq!(whole.text().lines().count(), 100_000);
    assert!(whole.field("content-disposition").is_some_and(|field| field.contains("many.txt")));
    assert!(lines("stream=stderr")["lines"].as_array().is_some_and(Vec::is_empty));
}

#[test]
fn values_of_a_run_are_text_on_a_page_and_nothing_else() {
    let served = Served::new(&[]);
    let hostile = [
        "</td><script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "'><svg/onload=alert(1)>",
        "javascript:alert(1)",
        "</style><script>",
        "<!--",
        "]]>",
        "{{7*7}}",
        "\u{202e}detelpmoc",
        "&lt;b&gt;",
    ];
    for text in hostile {
        let input = format!("who={text}");
        assert_eq!(served.project.run(&["run", "work.yaml", "--input", &input], b"").exit, 0, "{text}");
    }
    let name = "name: '<script>alert(1)</script>'\nsteps: [{id: a, name: '<b onclick=x>', shell: exit 1}]\n";
    served.project.write("<script>.yaml", name.as_bytes());
    assert_eq!(served.project.run(&["run", "<script>.yaml"], b"").exit, 1);
    let quoted = regex::Regex::new("\"[^\"]*\"").expect("a pattern");
    let attribute = regex::Regex::new(r"<[^>]*\s(on\w+|style)\s*=").expect("a pattern");
    for query in
        ["", "?text=%22%3E%3Cscript%3Ealert(1)%3C/script%3E", "?workflow=%27%22%3E%3Csvg%20onload=x%3E"]
    {
        let reply = served.server.get(&format!("{}/projects/project/runs{query}", served.server.base));
        assert_eq!(reply.status, 200);
        let page = reply.text();
        for part in
            ["<script>alert", "<img", "<svg/", "<svg onload", "onerror=alert(1)>", "<b onclick", "<!--"]
        {
            assert!(!page.contains(part), "{part}\n{page}");
        }
        let scripts: Vec<&str> = page.match_indices("<script").map(|(at, _)| &page[at..]).collect();
        assert!(scripts.iter().all(|script| script.starts_with("<script type=\"module\" src=\"/")), "{page}");
        let unquoted = quoted.replace_all(&page, "\"\"");
        let found = attribute.find(&unquoted).map(|found| found.as_str());
        assert_eq!(found, None, "nothing runs or looks otherwise");
    }
}

#[test]
fn several_projects_are_served_beside_each_other() {
    let (one, other) = (Served::new(&[]), Served::new(&[]));
    let folder = other.project.path().to_string_lossy().into_owned();
    let server = super::Server::start(one.project.path(), &["--dir", ".", "--dir", &folder, "--dir", "."]);
    let projects = server.json("/api/projects");
    let names: Vec<&str> = projects["projects"]
        .as_array()
        .expect("projects")
        .iter()
        .map(|project| project["project"].as_str().expect("a name"))
        .collect();
    assert_eq!(names, ["project", "project-2"]);
    let run = other.last();
    assert_eq!(server.get(&format!("/api/projects/project-2/runs/{run}")).status, 200);
    assert_eq!(server.get(&format!("/api/projects/project/runs/{run}")).status, 404);
}

#[test]
fn a_project_without_a_run_is_an_empty_list_until_there_is_one() {
    let project = crate::support::Project::new();
    let server = super::Server::start(project.path(), &[]);
    let runs = "/api/projects/project/runs";
    assert_eq!(server.json(runs), serde_json::json!({"runs": [], "next": null}));
    assert_eq!(server.get(&format!("{runs}/abcd")).status, 404);
    project.write("part.yaml", super::PART.as_bytes());
    assert_eq!(project.run(&["run", "part.yaml", "--input", "text=x"], b"").exit, 0);
    assert_eq!(server.json(runs)["runs"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_store_that_is_removed_and_made_anew_is_the_one_that_is_shown() {
    let served = Served::new(&[]);
    let before = served.last();
    assert_eq!(served.server.get(&format!("{RUNS}/{before}/state")).status, 200);
    let store = served.project.path().join(".threadline");
    for entry in std::fs::read_dir(&store).expect("the store") {
        let path = entry.expect("an entry").path();
        let removed =
            if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
        removed.expect("it is removed");
    }
    assert_eq!(served.server.json(RUNS)["runs"].as_array().map(Vec::len), Some(0));
    assert_eq!(served.project.run(&["run", "part.yaml", "--input", "text=x"], b"").exit, 0);
    assert_ne!(served.last(), before);
    assert_eq!(served.server.get(&format!("{RUNS}/{before}/state")).status, 404);
    assert_eq!(served.project.run(&["show", "last"], b"").exit, 0, "the new journal is whole");
}
