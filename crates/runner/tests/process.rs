//! Running children that behave: what they get, what they give, and what is said when they cannot start.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use threadline_runner::process::{Control, Ended, Environment, How, Spec, StartError, Stdin, Stream, run};

fn spec(program: &str, args: &[&str]) -> Spec {
    let mut env = Environment::inherited();
    env.mark("run-of-process-tests", "step");
    Spec {
        program: program.into(),
        args: args.iter().map(OsString::from).collect(),
        env,
        cwd: std::env::temp_dir(),
        stdin: Stdin::Null,
        timeout: Some(Duration::from_secs(60)),
        max_output: 64 << 20,
        grace: Duration::from_secs(5),
        spool: std::env::temp_dir(),
    }
}

fn sh(script: &str) -> Spec {
    spec("sh", &["-c", script])
}

fn ended(spec: &Spec) -> Ended {
    run(spec, &Control::new(), &mut |_, _| {}).unwrap()
}

fn stdout(spec: &Spec) -> String {
    String::from_utf8(ended(spec).stdout.read().unwrap()).unwrap()
}

#[test]
fn a_child_gives_its_output_and_its_code() {
    let ended = ended(&sh("printf out; printf err >&2; exit 7"));
    assert_eq!(ended.how, How::Exited(7));
    assert_eq!(ended.stdout.read().unwrap(), b"out");
    assert_eq!(ended.stderr.read().unwrap(), b"err");
    assert!(ended.finished >= ended.started);
    assert!(ended.usage.max_memory > 0);
}
