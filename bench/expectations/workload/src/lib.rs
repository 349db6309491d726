//! What the programs of the benchmark share: the allocator that counts, and expectations.
//!
//! Expectations are evaluated by two programs of their own, Threadline and its peers apart: one build of
//! `serde_json` serves a whole program, and the features that Threadline needs for exact numbers would slow its peers
//! down. Each is driven through its standard input, a line for a batch, so that the benchmark times them in turns like
//! everybody else.

pub mod allocations;

use std::hint::black_box;
use std::io::{BufRead as _, Write as _};
use std::process::ExitCode;
use std::time::Instant;

pub use serde_json::{Value as Json, json};

#[global_allocator]
static ALLOCATOR: allocations::Counting = allocations::Counting;

/// E1, E4 and E5, as it is written in a file.
pub const FLAT: &str = include_str!("../../sample/flat.yaml");
/// E2: logic 5 deep with comparisons.
pub const LOGICAL: &str = include_str!("../../sample/logical.yaml");
/// How many expectations E3 has.
pub const MANY: u32 = 1_000;
/// The document of [`documents`] that E4 explains.
pub const UNMET: usize = 5;

/// The typical answer, which meets everything.
pub fn answer() -> Json {
    serde_json::from_str(include_str!("../../sample/answer.json")).expect("the sample is JSON")
}

/// The same with signs beyond ASCII, as models like to write them.
pub fn wide_answer() -> Json {
    let mut answer = answer();
    let text = answer["text"].as_str().expect("the sample has a text");
    answer["text"] = text.replace(" and the", " – and the").replace("Shall I", "✅ Shall I").into();
    answer
}

/// The answer, and others that differ from it in one place: what each contestant says of them is compared.
pub fn documents() -> Vec<Json> {
    let changed = |pointer: &str, value: Json| {
        let mut document = answer();
        *document.pointer_mut(pointer).expect("the sample has this place") = value;
        document
    };
    vec![
        answer(),
        changed("/type", json!("text")),
        changed("/plan/1/agent", json!("SwapAgent")),
        changed("/plan/1/function", json!("estimate")),
        changed("/plan/1/params/amount", json!("0.2")),
        changed("/plan/1/params/recipient", json!("Bob")),
        changed("/plan", json!([])),
        changed("/text", json!("Your balance is low")),
        changed("/text", json!("The transfer of DOT failed, your balance is the same")),
        changed("/facts/contextBalance", json!(0.5)),
        changed("/facts/contextBalance", json!(5)),
        changed("/facts/network", json!("westend")),
        changed("/usage/cost", json!(0.02)),
    ]
}

/// What is to be said of [`documents`] by a workload.
pub fn expected(workload: &str) -> Json {
    let met: &[usize] = match workload {
        "E2" => &[0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
        "E3" => &[0, 2, 4, 9, 10, 11, 12],
        _ => &[0, 9, 10, 11, 12],
    };
    (0..documents().len()).map(|document| met.contains(&document)).collect()
}

/// What an expectation of E3 asks beside what all of them do: a word, and a range of the balance.
pub fn one_of_many(index: u32) -> (&'static str, f64, f64) {
    let word = ["balance", "DOT", "Alice", "fee"][index as usize % 4];
    (word, 0.1 + f64::from(index) / 10_000.0, 100.0 + f64::from(index))
}

/// One way of doing a workload, set up and ready to repeat.
pub struct Contestant {
    batch: Box<dyn FnMut(u64)>,
    output: Box<dyn FnMut() -> Json>,
}

impl Contestant {
    /// An operation, and what it gives, for the check.
    pub fn new<R>(
        mut operation: impl FnMut() -> R + 'static,
        output: impl FnMut() -> Json + 'static,
    ) -> Self {
        let batch = move |operations| {
            for _ in 0..operations {
                black_box(operation());
            }
        };
        Self { batch: Box::new(batch), output: Box::new(output) }
    }
}

/// Does what standard input says: a number of operations, answered with their allocations and nanoseconds, or
/// `output`.
///
/// The arguments are a workload and a contestant.
pub fn serve(find: impl FnOnce(&str, &str) -> Option<Contestant>) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [workload, name] = &arguments[..] else {
        eprintln!("error: expected a workload and a contestant");
        return ExitCode::FAILURE;
    };
    let Some(mut contestant) = find(workload, name) else {
        eprintln!("error: `{name}` does not take part in {workload}");
        return ExitCode::FAILURE;
    };
    let mut stdout = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("the benchmark writes text");
        let said = match line.parse() {
            Ok(operations) => {
                let (before, start) = (allocations::count(), Instant::now());
                (contestant.batch)(operations);
                let elapsed = start.elapsed();
                format!("{} {}", allocations::count() - before, elapsed.as_nanos())
            }
            Err(_) => (contestant.output)().to_string(),
        };
        // A benchmark that is gone has no use for an answer.
        if writeln!(stdout, "{said}").and_then(|()| stdout.flush()).is_err() {
            break;
        }
    }
    ExitCode::SUCCESS
}
