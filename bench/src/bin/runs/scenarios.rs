//! Scenarios: what one costs whose answer is recorded, and the same cases beside promptfoo, each with a program that
//! echoes its prompt.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::{Bench, median, per};

const REPLAYED: usize = 1_000;
const CASES: usize = 100;

impl Bench {
    pub(super) fn scenarios(&self, rounds: usize, promptfoo: Option<&Path>) -> Result<(), String> {
        self.replayed(rounds)?;
        self.beside_promptfoo(rounds, promptfoo)
    }

    /// Scenarios whose answers are recorded.
    fn replayed(&self, rounds: usize) -> Result<(), String> {
        let mut recorded = String::new();
        for number in 1..=REPLAYED {
            // Writing into a text cannot fail.
            let _ =
                writeln!(recorded, "{{\"message\": \"Question {number}\", \"answer\": \"Answer {number}\"}}");
        }
        self.write("answers.jsonl", &recorded)?;
        self.write(
            "replayed.test.yaml",
            &format!(
                "agents: {{bot: {{provider: replay, file: answers.jsonl}}}}\ntarget: bot\ncases: {{shell: seq 1 {REPLAYED}}}\n\
                 prompt: Question ${{case}}\nexpectations: {{shouldContain: 'Answer ${{case}}'}}\n"
            ),
        )?;
        let (mut times, mut peak) = (Vec::new(), 0.0_f64);
        for _ in 0..rounds {
            let timed = self.call(&self.binary, &["test", "--stats", "replayed.test.yaml"])?;
            times.push(timed.elapsed);
            peak = peak.max(timed.peak());
        }
        let time = median(times);
        println!("\n{REPLAYED} replayed scenarios, {rounds} rounds");
        println!("{:8.2} ms each, {peak:.1} MiB at most", per(time, REPLAYED));
        Ok(())
    }

    /// The same cases with a program that echoes.
    fn beside_promptfoo(&self, rounds: usize, promptfoo: Option<&Path>) -> Result<(), String> {
        let (mut rows, mut tests) = (String::new(), String::new());
        for number in 1..=CASES {
            let _ = writeln!(rows, "  - {{word: word{number}}}");
            let _ = writeln!(
                tests,
                "  - vars: {{word: word{number}}}\n    assert: [{{type: contains, value: word{number}}}]"
            );
        }
        self.write(
            "echo.test.yaml",
            &format!(
                "target: {{argv: [echo, \"${{prompt}}\"]}}\ncases:\n{rows}prompt: Say ${{case.word}}\n\
                 expectations: {{shouldContain: '${{case.word}}'}}\n"
            ),
        )?;
        self.write(
            "promptfooconfig.yaml",
            &format!("prompts: ['Say {{{{word}}}}']\nproviders: [echo]\ntests:\n{tests}"),
        )?;
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            ours.push(self.call(&self.binary, &["test", "--stats", "echo.test.yaml"])?.elapsed);
            let Some(folder) = promptfoo else { continue };
            let clock = Instant::now();
            let status = Command::new(folder.join("node_modules/.bin/promptfoo"))
                .args(["eval", "--no-cache", "--no-table", "--no-progress-bar", "--no-write"])
                .current_dir(&self.folder)
                .env("PROMPTFOO_DISABLE_TELEMETRY", "1")
                .env("PROMPTFOO_DISABLE_UPDATE", "1")
                .env("PROMPTFOO_CONFIG_DIR", self.folder.join("promptfoo"))
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .map_err(|error| format!("promptfoo: {error}"))?;
            if !status.success() {
                return Err(format!("promptfoo: {status}"));
            }
            theirs.push(clock.elapsed());
        }
        let ours = median(ours);
        println!("{CASES} cases, each a program that echoes: {ours:.1?}");
        if theirs.is_empty() {
            println!("promptfoo was not measured: `--promptfoo FOLDER` names where it is installed");
            return Ok(());
        }
        let theirs = median(theirs);
        println!(
            "promptfoo with its own echo provider: {theirs:.1?}; ratio {:.3}",
            ours.as_secs_f64() / theirs.as_secs_f64()
        );
        Ok(())
    }
}
