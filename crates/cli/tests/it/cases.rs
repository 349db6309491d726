//! Every file below `cases/` is a case: command lines and exactly what they print. `THREADLINE_UPDATE=1` writes
//! the expected parts anew; read the change before you commit it. `support/case.rs` has the format.

use std::path::{Path, PathBuf};

use crate::support::{self, case};

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases")
}

fn run(folder: &str) {
    let cases = case::all(&cases().join(folder));
    assert!(!cases.is_empty(), "no cases in {folder}");
    let failures: Vec<String> = cases.iter().filter_map(|case| case.check().err()).collect();
    support::report(&failures, cases.len());
}

macro_rules! folders {
    ($($name:ident)*) => {
        const FOLDERS: &[&str] = &[$(stringify!($name)),*];
        $(
            #[test]
            fn $name() {
                run(stringify!($name));
            }
        )*
    };
}

folders! {
    agents assertions check clean computed defaults diff edited envelopes errors expect expectations explain failures grammar graph
    limits load loop_interpolation loops machines mapreduce mapreduce_variables node_outputs older provenance retry_on run_end running
    runs scenarios secrets shell_safety tools trace trust types undefined workflow
}

#[test]
fn every_folder_is_run() {
    let entries = std::fs::read_dir(cases()).expect("the folder of cases");
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    assert_eq!(names, FOLDERS);
}
