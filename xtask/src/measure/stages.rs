//! How long each stage of the last `cargo xtask test` took, kept in the target folder.

use std::fs;
use std::path::Path;
use std::time::Duration;

/// A stage that was run.
#[derive(Debug, PartialEq)]
pub(crate) struct Stage {
    pub(crate) name: String,
    /// `passed`, `failed` or `skipped`.
    pub(crate) outcome: String,
    pub(crate) time: Duration,
}

const FILE: &str = "stages.txt";

/// Keeps the stages, a line for each. What cannot be written is not worth a failed test.
pub(crate) fn write_stages(target: &Path, stages: &[Stage]) {
    let lines = stages
        .iter()
        .map(|stage| format!("{}\t{}\t{:.1}\n", stage.name, stage.outcome, stage.time.as_secs_f64()));
    let _ = fs::write(target.join(FILE), lines.collect::<String>());
}

/// The stages that were kept; none where there was no test.
pub(super) fn read_stages(target: &Path) -> Vec<Stage> {
    let text = fs::read_to_string(target.join(FILE)).unwrap_or_default();
    text.lines().filter_map(parse).collect()
}

fn parse(line: &str) -> Option<Stage> {
    let mut parts = line.split('\t');
    let (name, outcome, seconds) = (parts.next()?, parts.next()?, parts.next()?);
    let time = Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?;
    Some(Stage { name: name.to_owned(), outcome: outcome.to_owned(), time })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_read_back() {
        let folder = std::env::temp_dir().join(format!("threadline-stages-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let stage = |name: &str, tenths: u64| Stage {
            name: name.to_owned(),
            outcome: "passed".to_owned(),
            time: Duration::from_millis(tenths * 100),
        };
        let stages = [stage("format", 12), stage("tests", 3456)];
        write_stages(&folder, &stages);
        assert_eq!(read_stages(&folder), stages);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(read_stages(&folder), []);
    }
}
