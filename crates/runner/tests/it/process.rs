//! Running children that behave: what they get, what they give, and what is said when they cannot start.

#![expect(clippy::unwrap_used, reason = "the lint sees only functions that are tests themselves")]

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use threadline_runner::process::{
    Asked, Captured, ChildEnding, Control, EndedChild, Environment, Spec, Stdin, Stream, run,
};

fn spec(program: &str, args: &[&str]) -> Spec {
    let mut env = Environment::inherited();
    env.mark("run-of-process-tests", "step");
    Spec {
        program: program.into(),
        args: args.iter().map(OsString::from).collect(),
        env,
        cwd: std::env::temp_dir(),
        stdin: Stdin::Null,
        timeout: Some(Duration::from_mins(10)),
        idle_timeout: None,
        max_output: 1 << 30,
        grace: Duration::from_millis(200),
        spool: std::env::temp_dir(),
        masks: None,
    }
}

fn bash(script: &str) -> Spec {
    spec("bash", &["-c", script])
}

fn ended(spec: &Spec) -> EndedChild {
    run(spec, &Control::new(), &mut |_, _| {}).unwrap()
}

fn stdout(spec: &Spec) -> String {
    String::from_utf8(ended(spec).stdout.read().unwrap()).unwrap()
}

/// A folder that is removed at the end of a test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("threadline-process-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    fn files(&self) -> usize {
        fs::read_dir(&self.0).unwrap().count()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_child_gives_its_output_and_its_code() {
    let ended = ended(&bash("printf out; printf err >&2; exit 7"));
    assert_eq!(ended.how, ChildEnding::Exited(7));
    assert_eq!(ended.stdout.read().unwrap(), b"out");
    assert_eq!(ended.stderr.read().unwrap(), b"err");
    assert!(ended.finished >= ended.started);
    assert!(ended.usage.max_memory > 0);
    assert!(ended.survivors.is_empty());
}

#[test]
fn output_comes_in_pieces_as_it_is_written() {
    let folder = Folder::new("pieces");
    let mut spec = bash("echo first; while [ ! -e go ]; do sleep 0.01; done; echo second >&2");
    spec.cwd = folder.0.clone();
    let mut seen = Vec::new();
    let ended = run(&spec, &Control::new(), &mut |stream, piece| {
        seen.push((stream, piece.to_vec()));
        fs::write(folder.0.join("go"), "").unwrap();
    });
    assert_eq!(ended.unwrap().how, ChildEnding::Exited(0));
    assert_eq!(seen, [(Stream::Stdout, b"first\n".to_vec()), (Stream::Stderr, b"second\n".to_vec())]);
}

#[test]
fn input_comes_back_to_the_byte() {
    let every_byte: Vec<u8> = (0..=255).cycle().take(3_000_001).collect();
    for bytes in [&b""[..], b"x", b"\0\n\xff", &every_byte] {
        let mut spec = spec("cat", &[]);
        spec.stdin = Stdin::Bytes(Arc::from(bytes));
        assert!(ended(&spec).stdout.read().unwrap() == bytes, "{} bytes", bytes.len());
    }
}

#[test]
fn arguments_arrive_as_they_are() {
    let odd = ["", " ", "$(touch x)", "'", "*", "--", "a\nb", "\u{1f600}"];
    let mut spec = spec("printf", &["%s\\0"]);
    spec.args.extend(odd.iter().map(OsString::from));
    spec.args.push(OsString::from_vec(vec![0xff, 0xfe]));
    let output = ended(&spec).stdout.read().unwrap();
    let expected: Vec<u8> =
        odd.iter().flat_map(|arg| [arg.as_bytes(), b"\0"].concat()).chain(*b"\xff\xfe\0").collect();
    assert_eq!(output, expected);
}

#[test]
fn a_program_sees_the_name_that_it_was_called_by() {
    assert_eq!(stdout(&bash("echo $0")), "bash\n");
}

#[test]
fn the_environment_is_what_was_inherited_without_bound_values_and_with_changes() {
    let inherited =
        [("PATH", "/usr/bin:/bin"), ("TL_1", "old"), ("TLX", "kept"), ("GONE", "1"), ("KEPT", "1")];
    let mut env: Environment =
        inherited.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    env.remove("GONE");
    env.set("TL_2", "new");
    env.set("KEPT", "2");
    env.set("KEPT", "3");
    env.mark("r1", "s1");
    assert_eq!(env.get("KEPT".as_ref()), Some("3".as_ref()));
    assert_eq!(env.get("GONE".as_ref()), None);
    assert_eq!(env.get("TL_1".as_ref()), None);
    let mut spec = spec("env", &[]);
    spec.env = env;
    let output = stdout(&spec);
    let mut lines: Vec<&str> = output.lines().filter(|line| !line.starts_with("THREADLINE_CHILD=")).collect();
    lines.sort_unstable();
    let expected =
        ["KEPT=3", "PATH=/usr/bin:/bin", "THREADLINE_RUN=r1", "THREADLINE_STEP=s1", "TLX=kept", "TL_2=new"];
    assert_eq!(lines, expected);
}

#[test]
fn a_program_is_looked_for_on_the_path_of_the_child_and_relative_to_its_folder() {
    let folder = Folder::new("path");
    fs::create_dir(folder.0.join("tools")).unwrap();
    folder.file("tools/tool", "#!/bin/sh\necho tool in $PWD", 0o755);
    for (program, path) in [("tool", "/nowhere:tools"), ("./tools/tool", "/nowhere"), ("tools/tool", "")] {
        let mut spec = spec(program, &[]);
        spec.cwd = folder.0.clone();
        spec.env.set("PATH", path);
        assert_eq!(stdout(&spec), format!("tool in {}\n", folder.0.display()), "{program}");
    }
}

#[test]
fn what_a_process_substitution_writes_after_the_end_is_not_lost() {
    let spec = bash("exec > >(while read -r line; do echo \"[$line]\"; done); echo one; echo two");
    assert_eq!(stdout(&spec), "[one]\n[two]\n");
}

#[test]
fn output_goes_to_a_file_when_it_is_large_and_the_file_goes_with_it() {
    let folder = Folder::new("spool");
    for (size, in_file) in [(64 * 1024, false), (64 * 1024 + 1, true), (5_000_000, true)] {
        let mut spec = bash(&format!("head -c {size} /dev/zero; head -c {size} /dev/zero | tr '\\0' e >&2"));
        spec.spool.clone_from(&folder.0);
        let mut seen = 0;
        let ended = run(&spec, &Control::new(), &mut |_, piece| seen += piece.len()).unwrap();
        assert_eq!(seen, 2 * size);
        assert!(ended.stdout.read().unwrap() == vec![0; size]);
        assert!(ended.stderr.read().unwrap() == vec![b'e'; size]);
        assert_eq!(matches!(ended.stdout, Captured::File(_)), in_file);
        assert_eq!(folder.files(), if in_file { 2 } else { 0 });
        drop(ended);
        assert_eq!(folder.files(), 0);
    }
}

#[test]
fn a_spooled_file_can_be_taken() {
    let folder = Folder::new("taken");
    let mut spec = bash("head -c 100000 /dev/zero");
    spec.spool.clone_from(&folder.0);
    let Captured::File(spooled) = ended(&spec).stdout else { panic!("it is large") };
    let path = spooled.take();
    assert_eq!(fs::metadata(&path).unwrap().len(), 100_000);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

/// Set in the process that measures itself.
const MEASURES: &str = "THREADLINE_PROCESS_TEST_MEASURES";

/// Measured in a process of its own: what other tests hold at the same time must not count.
#[test]
fn memory_stays_flat_under_much_output() {
    if std::env::var_os(MEASURES).is_some() {
        return measure_much_output();
    }
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "process::memory_stays_flat_under_much_output", "--nocapture"])
        .env(MEASURES, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("1 passed"), "{said}");
}

fn measure_much_output() {
    let mut spec = bash("head -c 300000000 /dev/zero & head -c 200000000 /dev/zero >&2; wait");
    let folder = Folder::new("flat");
    spec.spool.clone_from(&folder.0);
    let before = resident_bytes();
    let mut most = 0;
    let mut pieces = 0u32;
    let ended = run(&spec, &Control::new(), &mut |_, _| {
        pieces += 1;
        if pieces.is_multiple_of(100) {
            most = most.max(resident_bytes());
        }
    })
    .unwrap();
    assert_eq!((ended.stdout.len(), ended.stderr.len()), (300_000_000, 200_000_000));
    assert!(most < before + (16 << 20), "from {before} to {most} bytes");
}

fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[test]
fn too_much_output_ends_the_child_and_says_so() {
    for (script, stream, small) in [
        ("yes", Stream::Stdout, false),
        ("yes >&2", Stream::Stderr, false),
        ("printf 1234567890x; sleep 1000", Stream::Stdout, true),
    ] {
        let mut spec = bash(script);
        spec.max_output = if small { 10 } else { 1_000_000 };
        let ended = ended(&spec);
        assert_eq!(ended.how, ChildEnding::OutputTooLarge(stream), "{script}");
        let kept = if stream == Stream::Stdout { &ended.stdout } else { &ended.stderr };
        assert_eq!(kept.len(), spec.max_output);
    }
    let mut exact = bash("printf 1234567890");
    exact.max_output = 10;
    assert_eq!(ended(&exact).how, ChildEnding::Exited(0));
}

#[test]
fn output_that_cannot_be_kept_ends_the_child_and_says_so() {
    let mut spec = bash("head -c 1000000 /dev/zero; sleep 1000");
    spec.spool = PathBuf::from("/dev/null/folder");
    assert_eq!(
        ended(&spec).how,
        ChildEnding::OutputNotKept(Stream::Stdout, std::io::ErrorKind::NotADirectory)
    );
}

#[test]
fn nothing_starts_under_a_control_that_was_asked_to_end() {
    let folder = Folder::new("asked");
    for ask in [Control::cancel, Control::kill] {
        let parent = Control::new();
        let control = parent.child();
        ask(&parent);
        assert_ne!(control.asked(), Asked::Nothing);
        let mut spec = bash("touch started");
        spec.cwd = folder.0.clone();
        let ended = run(&spec, &control, &mut |_, _| {}).unwrap();
        assert_eq!((ended.how, folder.files()), (ChildEnding::Cancelled, 0));
    }
}

#[test]
fn one_control_ends_many_children_and_a_child_of_it_ends_only_its_own() {
    let all = Control::new();
    let one = all.child();
    let (ready, is_ready) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let start = |control: Control| {
            let ready = ready.clone();
            scope.spawn(move || {
                run(&bash("echo ready; sleep 1000"), &control, &mut |_, _| ready.send(()).unwrap())
                    .unwrap()
                    .how
            })
        };
        let alone = start(one.clone());
        let others = [start(all.child()), start(all.child()), start(all.clone())];
        for _ in 0..4 {
            is_ready.recv().unwrap();
        }
        one.cancel();
        assert_eq!(alone.join().unwrap(), ChildEnding::Cancelled);
        assert!(others.iter().all(|other| !other.is_finished()));
        all.cancel();
        for other in others {
            assert_eq!(other.join().unwrap(), ChildEnding::Cancelled);
        }
    });
}

#[test]
fn a_limit_of_time_that_no_clock_can_hold_is_no_limit() {
    let mut spec = spec("true", &[]);
    spec.timeout = Some(Duration::MAX);
    spec.grace = Duration::MAX;
    assert_eq!(ended(&spec).how, ChildEnding::Exited(0));
}

#[test]
fn a_child_that_writes_nothing_for_too_long_is_ended() {
    for script in ["echo begun; sleep 1000", "echo begun >&2; sleep 1000", "exec sleep 1000"] {
        let mut spec = bash(script);
        spec.idle_timeout = Some(Duration::from_millis(100));
        let ended = ended(&spec);
        assert_eq!(ended.how, ChildEnding::Silent, "{script}");
        assert!(ended.survivors.is_empty());
    }
}

/// Whatever it writes, and wherever, makes the time begin anew.
#[test]
fn a_child_that_goes_on_writing_may_take_longer() {
    let mut spec = bash("for i in 1 2 3 4 5 6; do sleep 0.4; printf . >&$((1 + i % 2)); done");
    spec.idle_timeout = Some(Duration::from_secs(2));
    let ended = ended(&spec);
    assert_eq!(ended.how, ChildEnding::Exited(0));
    assert!(ended.elapsed > Duration::from_secs(2), "it took {:?}", ended.elapsed);
}

/// The limit that is over first is the one that is named.
#[test]
fn silence_and_time_are_told_apart() {
    for (timeout, idle, how) in [(50, 60_000, ChildEnding::TimedOut), (60_000, 50, ChildEnding::Silent)] {
        let mut spec = spec("sleep", &["1000"]);
        spec.timeout = Some(Duration::from_millis(timeout));
        spec.idle_timeout = Some(Duration::from_millis(idle));
        assert_eq!(ended(&spec).how, how);
    }
}

#[test]
fn many_children_at_a_time_do_not_hold_up_each_other() {
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for number in 0..20 {
                    let mut spec = bash(&format!("cat; echo {number}"));
                    spec.stdin = Stdin::Bytes(Arc::from(vec![b'x'; 1000]));
                    assert_eq!(stdout(&spec), format!("{}{number}\n", "x".repeat(1000)));
                }
            });
        }
    });
}

/// What is changed in a specification, and what is said then.
type Refusal = (fn(&Folder, &mut Spec), &'static str, &'static str);

/// In the texts `@` is the folder of the test.
const REFUSALS: &[Refusal] = &[
    (
        |_, spec| spec.program = "no-such-program".into(),
        "cannot find the program `no-such-program`",
        "no folder of `PATH` has it",
    ),
    (|_, spec| spec.program = OsString::new(), "cannot find the program ``", "no folder of `PATH` has it"),
    (
        |folder, spec| {
            folder.file("tool", "#!/bin/sh", 0o755);
            spec.program = "tool".into();
        },
        "cannot find the program `tool`",
        "a file of the step's folder is named with its path: `./tool`",
    ),
    (
        |folder, spec| {
            folder.file("tool", "#!/bin/sh", 0o644);
            spec.program = "tool".into();
            spec.env.set("PATH", &folder.0);
        },
        "cannot run `tool`: `@/tool` is not executable",
        "make it executable: `chmod +x @/tool`",
    ),
    (|_, spec| spec.program = "./gone".into(), "cannot run `@/./gone`: there is no such file", ""),
    (|_, spec| spec.program = "/".into(), "cannot run `/`: it is a folder", ""),
    (
        |folder, spec| spec.program = folder.file("tool", "#!/bin/sh", 0o644).into(),
        "cannot run `@/tool`: it is not executable",
        "make it executable: `chmod +x @/tool`",
    ),
    (
        |folder, spec| spec.program = folder.file("tool", "#! /no/such/interpreter -x\n", 0o755).into(),
        "cannot run `@/tool`: its interpreter `/no/such/interpreter` is not there",
        "",
    ),
    (
        |folder, spec| spec.program = folder.file("tool", "echo", 0o755).into(),
        "cannot run `@/tool`: it is neither a program nor a script with a `#!` line",
        "a script names its interpreter in its first line: `#!/bin/sh`",
    ),
    (
        |folder, spec| spec.cwd = folder.0.join("gone"),
        "the folder `@/gone` is not there",
        "create it in an earlier step, or correct `cwd`",
    ),
    (
        |folder, spec| spec.cwd = folder.file("file", "", 0o644),
        "the folder `@/file` is not there",
        "create it in an earlier step, or correct `cwd`",
    ),
    (|_, spec| spec.args.push("a\0b".into()), "an argument holds a zero byte", ""),
    (
        |_, spec| spec.env.set("A=B", "1"),
        "the variable `A=B` has a name or a value that no environment can hold",
        "",
    ),
    (
        |_, spec| spec.env.set("A", "1\x002"),
        "the variable `A` has a name or a value that no environment can hold",
        "",
    ),
    (
        |_, spec| {
            spec.env = [("A".into(), "1".into())].into_iter().collect();
            spec.args = vec!["x".repeat(1_000_000).into()];
        },
        "the arguments (1000006 bytes) and the environment (4 bytes) are more than the system takes",
        "give large values with `| as_file`, or through standard input",
    ),
];

#[test]
fn what_cannot_start_is_explained() {
    for (number, (change, message, hint)) in REFUSALS.iter().enumerate() {
        let folder = Folder::new(&format!("refusal-{number}"));
        let mut spec = spec("true", &[]);
        spec.cwd = folder.0.clone();
        spec.env = [("PATH".into(), "/usr/bin:/bin".into())].into_iter().collect();
        change(&folder, &mut spec);
        let error = run(&spec, &Control::new(), &mut |_, _| {}).unwrap_err();
        let shown = |text: &str| text.replace(&*folder.0.to_string_lossy(), "@");
        assert_eq!(shown(&error.to_string()), *message);
        assert_eq!(shown(&error.hint().unwrap_or_default()), *hint, "{message}");
        assert!(!error.is_temporary());
    }
}
