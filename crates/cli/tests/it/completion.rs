//! Completion in a real bash and a real zsh, with runs, steps and inputs as they are in the project.

#![expect(clippy::unwrap_used, reason = "a shell that does not start fails the test")]

use std::process::Command;

use crate::support::Project;

const WORK: &str = "inputs:
  city: {type: text, default: Bonn}
  count: {type: int, default: 3}
steps:
  - {id: build, shell: echo built, capture: greeting}
  - {id: test, shell: echo tested}
  - shell: echo without a name
";

/// The `PATH` on which the program is found.
fn path() -> String {
    let folder = std::path::Path::new(env!("CARGO_BIN_EXE_threadline")).parent().unwrap();
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap())
}

/// What bash offers for the last of these words.
fn offered(project: &Project, words: &[&str]) -> Vec<String> {
    let script = r#"source <(threadline completions bash)
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_TYPE=9
        _clap_complete_threadline threadline "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let mut bash = Command::new("bash");
    let bash = bash.args(["-c", script, "bash"]).args(words).env("PATH", path()).current_dir(project.path());
    let output = bash.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let mut lines: Vec<String> =
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    lines.retain(|line| !line.starts_with("--"));
    lines
}

#[test]
fn the_project_is_known_to_the_shell() {
    let project = Project::new();
    project.write("work.yaml", WORK.as_bytes());
    let ran = project.run(&["run", "work.yaml"], b"");
    let run = ran.stdout.lines().next().unwrap().rsplit(' ').next().unwrap().to_owned();
    assert_eq!(offered(&project, &["threadline", "logs", ""]), ["last", &run]);
    assert_eq!(offered(&project, &["threadline", "logs", &run[..3]]), [run.as_str()]);
    assert_eq!(offered(&project, &["threadline", "explain", "last", ""]), ["build", "test", "3"]);
    assert_eq!(offered(&project, &["threadline", "rerun", "--from", ""]), ["build", "test", "3"]);
    assert_eq!(offered(&project, &["threadline", "man", "exp"]), ["explain", "expect"]);
    assert_eq!(offered(&project, &["threadline", "init", "st"]), ["steps", "step"]);
    assert_eq!(offered(&project, &["threadline", "logs", &run, "build", "t"]), ["test"]);
    assert_eq!(offered(&project, &["threadline", "run", "work.yaml", "--input", "c"]), ["city=", "count="]);
    assert_eq!(offered(&project, &["threadline", "exp"]), ["explain", "expect"]);
    assert_eq!(offered(&project, &["threadline", "graph", "w"]), ["work.yaml"]);
    assert_eq!(offered(&project, &["threadline", "graph", "la"]), ["last"]);
    assert_eq!(offered(&project, &["threadline", "runs", "--workflow", ""]), ["work"]);
    let names = ["inputs.city", "inputs.count", "build", "greeting", "test"];
    assert_eq!(offered(&project, &["threadline", "vars", "last", ""]), names);
    project.write("reads.yaml", b"imports: {built: work}\nsteps:\n  - value: ${imports.built}\n");
    assert_eq!(offered(&project, &["threadline", "run", "reads.yaml", "--import", ""]), ["built="]);
    assert_eq!(offered(&project, &["threadline", "runs", "--status", "comp"]), ["completed"]);
}

#[test]
fn a_folder_without_runs_is_no_error() {
    let project = Project::new();
    assert_eq!(offered(&project, &["threadline", "logs", "nope"]), [""]);
    assert_eq!(offered(&project, &["threadline", "logs", "last", "b"]), [""]);
}

/// A package puts the script into a folder of `fpath`, from where zsh runs it at the first completion.
#[test]
fn zsh_completes_at_once_from_a_folder() {
    let project = Project::new();
    let script = r#"threadline completions zsh > _threadline
        compdef() { print -r -- "compdef $*" }
        _describe() { print -rl -- "${(@P)@[-1]}" }
        fpath=("$PWD" $fpath); autoload -Uz _threadline
        words=(threadline expl); CURRENT=2
        _threadline"#;
    let mut zsh = Command::new("zsh");
    let zsh = zsh.args(["-f", "-c", script]).env("PATH", path()).current_dir(project.path());
    let output = match zsh.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return println!("there is no zsh"),
        output => output.unwrap(),
    };
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = printed.lines().map(|line| line.split(':').next().unwrap()).collect();
    assert_eq!(lines, ["explain", "compdef _clap_dynamic_completer_threadline threadline"]);
}
