//! Settings of agents and prices that hold for every workflow of a user: what they do, what is wrong with them, and that a
//! run keeps those with which it began.

use serde_json::json;

use crate::agent_spend::{listed, rules};
use crate::models::ModelServer;
use crate::support::{Outcome, Project};

/// Runs a command with a user-wide file.
fn run(project: &Project, arguments: &[&str]) -> (i32, String) {
    let Outcome { exit, stdout, stderr } =
        project.run_with(&[("XDG_CONFIG_HOME", &config(project)), ("USER_KEY", "sk-canary-42af")], arguments);
    (exit, format!("{stdout}{stderr}"))
}

fn config(project: &Project) -> String {
    project.path().join("config").display().to_string()
}

/// Writes the user-wide file.
fn write(project: &Project, text: &str) {
    project.write("config/threadline/agents.yaml", text.as_bytes());
}

fn user_file(server: &ModelServer) -> String {
    format!(
        "providers:\n  anthropic: {{model: big, base_url: \"{}\", api_key: \"${{secrets.KEY}}\", max_tokens: 77}}\nprices: \
         {{big: {{input: 3, output: 15}}}}\nsecrets: {{KEY: {{env: USER_KEY}}}}\n",
        server.url()
    )
}

const WORKFLOW: &str = "agents: {model: {provider: anthropic, system: Be brief.}}\nsteps:\n  - {id: ask, agent: model, \
                        message: First}\n  - {id: gate, fail: not yet, when: \"${= ask.result.final_response == 'fine'}\"}\n";

#[test]
fn an_agent_has_the_settings_of_the_user_that_it_does_not_set() {
    let project = Project::new();
    let server = ModelServer::start(&project, &rules("fine"));
    write(&project, &user_file(&server));
    project.write("w.yaml", WORKFLOW.as_bytes());
    let (exit, checked) = run(&project, &["check", "w.yaml"]);
    assert_eq!(exit, 0, "{checked}");
    assert!(
        checked.contains("settings of agents come from `") && checked.contains("agents.yaml`"),
        "{checked}"
    );
    let (_, foreseen) = run(&project, &["preview", "w.yaml"]);
    assert!(foreseen.contains("settings of agents come from `"), "{foreseen}");
    let (_, screen) = run(&project, &["run", "w.yaml"]);
    assert!(screen.contains("(1100 tokens, $0.0045)"), "the price is that of the model: {screen}");
    let request = &server.requests()[0];
    assert_eq!(request["headers"]["x-api-key"], "sk-canary-42af");
    assert_eq!(request["body"]["max_tokens"], 77);
    assert_eq!(request["body"]["model"], "big");
    assert_eq!(request["body"]["system"], "Be brief.");
    let (_, explained) = run(&project, &["explain", "last", "ask"]);
    assert!(explained.contains("max_tokens 77"), "{explained}");
    assert!(!explained.contains("sk-canary"), "{explained}");
}

#[test]
fn a_run_keeps_the_settings_with_which_it_began() {
    let project = Project::new();
    let rules = json!([
        {"when": {"call": 1}, "answer": {"error": 400}},
        {"answer": {"text": "good", "usage": {"input": 1000, "output": 100}}}
    ]);
    let server = ModelServer::start(&project, &rules.to_string());
    write(&project, &user_file(&server));
    project.write("w.yaml", WORKFLOW.as_bytes());
    let (exit, screen) = run(&project, &["run", "w.yaml"]);
    assert_eq!(exit, 1, "{screen}");
    write(&project, &user_file(&server).replace("77", "88").replace("input: 3", "input: 300"));
    let (exit, screen) = run(&project, &["resume", "last"]);
    assert_eq!(exit, 0, "{screen}");
    assert!(screen.contains("agents.yaml` has changed since"), "{screen}");
    let sent: Vec<_> =
        server.requests().iter().map(|request| request["body"]["max_tokens"].clone()).collect();
    assert_eq!(sent, [77, 77]);
    assert_eq!(listed(&project)["spent"]["cost_usd"].to_string(), "0.0045");
}

#[test]
fn the_key_of_an_address_is_sent_nowhere_else() {
    let project = Project::new();
    let server = ModelServer::start(&project, &rules("fine"));
    write(&project, &user_file(&server));
    // The address of somebody else, who would like to have the key.
    let file = WORKFLOW
        .replace("provider: anthropic", &format!("provider: anthropic, base_url: \"{}\"", server.url()));
    project.write("w.yaml", file.as_bytes());
    let (exit, screen) = run(&project, &["run", "w.yaml"]);
    assert!(exit == 3 && screen.contains("needs `api_key`"), "{exit} {screen}");
    assert!(server.requests().is_empty());
    let openai = file.replace("anthropic", "openai").replace("system", "model: m, system");
    write(&project, &user_file(&server).replace("anthropic", "openai"));
    project.write("w.yaml", openai.as_bytes());
    let (_, screen) = run(&project, &["run", "w.yaml"]);
    for request in server.requests() {
        assert!(!request.to_string().contains("sk-canary"), "{screen} {request}");
    }
}

/// A secret of the user is for the settings of the user: no workflow can read it and send it anywhere.
#[test]
fn only_settings_of_the_user_read_secrets_of_the_user() {
    let project = Project::new();
    let server = ModelServer::start(&project, &rules("fine"));
    write(&project, &user_file(&server));
    let url = server.url();
    let agent = "agents: {model: {provider: anthropic}}\n";
    for (what, file) in [
        ("shell", format!("{agent}steps:\n  - shell: 'echo ${{secrets.KEY}}'\n")),
        ("env", format!("{agent}steps:\n  - {{shell: env, env: {{K: '${{secrets.KEY}}'}}}}\n")),
        ("http", format!("{agent}steps:\n  - http: {{url: '{url}', headers: {{x: '${{secrets.KEY}}'}}}}\n")),
        ("message", format!("{agent}steps:\n  - {{agent: model, message: '${{secrets.KEY}}'}}\n")),
        ("export", format!("{agent}steps:\n  - {{value: 1}}\nexports: {{k: '${{secrets.KEY}}'}}\n")),
        ("run", format!("{agent}env: {{K: '${{secrets.KEY}}'}}\nsteps:\n  - {{shell: env}}\n")),
        (
            "agent",
            format!(
                "agents: {{model: {{provider: anthropic}}, other: {{provider: openai, model: m, base_url: '{url}/v1', api_key: \
                 '${{secrets.KEY}}'}}}}\nsteps:\n  - {{agent: other, message: hi}}\n"
            ),
        ),
    ] {
        project.write("w.yaml", file.as_bytes());
        let (exit, screen) = run(&project, &["run", "w.yaml"]);
        assert!(
            exit == 3 && screen.contains("only settings in that file read it"),
            "{what}: {exit} {screen}"
        );
        assert!(
            screen.contains("hint: declare it here, as in `secrets: {KEY: {env: KEY}}`"),
            "{what}: {screen}"
        );
        assert!(screen.contains("w.yaml:"), "{what}: {screen}");
    }
    assert!(server.requests().is_empty());
    // One that the workflow declares itself is its own.
    let own = format!(
        "secrets: {{KEY: {{env: USER_KEY}}}}\n{agent}steps:\n  - {{shell: 'test -n ${{secrets.KEY}}'}}\n"
    );
    project.write("w.yaml", own.as_bytes());
    let (exit, screen) = run(&project, &["run", "w.yaml"]);
    assert_eq!(exit, 0, "{screen}");
}

#[test]
fn what_is_wrong_with_the_file_is_said_with_its_place() {
    let project = Project::new();
    project.write("w.yaml", WORKFLOW.as_bytes());
    for (text, says, place) in [
        ("provider: {}", "the file of a user's agents has no key `provider`", "agents.yaml:1:1"),
        ("providers: {anthropic: {modle: m}}", "an `anthropic` agent has no key `modle`", "agents.yaml:1:25"),
        ("providers: {anthropc: {}}", "there is no provider `anthropc`", "agents.yaml:1:13"),
        ("providers: {anthropic: {tools: [read_file]}}", "`tools` has no default", "agents.yaml:1:25"),
        ("prices: {m: {input: 3}}", "the price of `m` is two numbers", "agents.yaml:1:14"),
        (
            "providers:\n  anthropic: {model: m, api_key: sk-1}",
            "`api_key` must be read from a secret",
            "agents.yaml:2:34",
        ),
        (
            "providers: {anthropic: {model: m, max_tokens: lots, api_key: '${secrets.K}'}}",
            "`max_tokens` takes a whole number",
            "agents.yaml:1:47",
        ),
        ("- a", "the file of a user's agents is an object, not a list", "agents.yaml:1:1"),
        ("providers: {", "`{` is not closed", "agents.yaml:1:12"),
    ] {
        write(&project, text);
        let (exit, screen) = run(&project, &["check", "w.yaml"]);
        assert!(exit == 1 && screen.contains(says) && screen.contains(place), "{text}: {exit}\n{screen}");
    }
}

#[test]
fn another_file_can_be_named_or_none() {
    let project = Project::new();
    write(&project, "providers: {anthropic: {nothing: 1}}");
    project.write("mine.yaml", b"providers: {openai: {model: mine}}\n");
    let file = "agents: {model: {provider: openai}}\nsteps: [{agent: model, message: First}]\n";
    project.write("w.yaml", file.as_bytes());
    let check = |named: &str| {
        let config = config(&project);
        let variables = [("XDG_CONFIG_HOME", config.as_str()), ("THREADLINE_AGENTS", named)];
        let Outcome { exit, stdout, stderr } = project.run_with(&variables, &["check", "w.yaml"]);
        (exit, format!("{stdout}{stderr}"))
    };
    let (exit, screen) = check("mine.yaml");
    assert!(exit == 0 && screen.contains("`mine.yaml`"), "{screen}");
    let (exit, screen) = check("");
    assert!(exit == 1 && screen.contains("needs `model`") && !screen.contains("nothing"), "{screen}");
    let (exit, screen) = check("gone.yaml");
    assert!(
        exit == 1
            && screen.contains("cannot read `gone.yaml`")
            && screen.contains("`THREADLINE_AGENTS` names it"),
        "{screen}"
    );
}
