//! Timing that survives a noisy machine.
//!
//! A [`Workload`] has an expected output and contestants. Every output is checked once. Then each round runs every
//! contestant of every workload for a batch of a few milliseconds, in an order that is rotated from round to round, so
//! that a disturbance meets all of them alike; the figure is the median over the rounds. Allocations are counted in a
//! pass of their own. The cost of dropping what an operation returns belongs to the operation.

use std::hint::black_box;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value as Json;

use threadline_bench_shared::allocations;

const BATCH: Duration = Duration::from_millis(3);
const COUNTED_OPERATIONS: u32 = 16;

/// One way of doing a workload, set up and ready to repeat.
pub(crate) trait Run {
    fn batch(&mut self, operations: u64);
    /// What one operation gives, as JSON, for the check.
    fn output(&mut self) -> Json;
    /// How long so many operations take.
    fn timed(&mut self, operations: u64) -> Duration {
        let start = Instant::now();
        self.batch(operations);
        start.elapsed()
    }
    /// How many allocations so many operations make.
    fn allocations(&mut self, operations: u64) -> u64 {
        let before = allocations::count();
        self.batch(operations);
        allocations::count() - before
    }
}

/// An operation that appends text to a reused buffer.
pub(crate) fn text(render: impl FnMut(&mut String) + 'static) -> impl Run {
    Text { render, buffer: String::new() }
}

/// The same for what writes to an [`std::io::Write`].
pub(crate) fn bytes(render: impl FnMut(&mut Vec<u8>) + 'static) -> impl Run {
    Bytes { render, buffer: Vec::new() }
}

/// An operation that returns something serde can show.
pub(crate) fn value<R: Serialize>(compute: impl FnMut() -> R + 'static) -> impl Run {
    shown(compute, |result| serde_json::to_value(result).expect("a result is plain data"))
}

/// An operation that returns something of its own, and how to show it.
pub(crate) fn shown<R>(compute: impl FnMut() -> R + 'static, show: fn(&R) -> Json) -> impl Run {
    Computation { compute, show }
}

/// Keeps what contestants share for the rest of the process, so that they may borrow it.
pub(crate) fn keep<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// The same for what a contestant changes and keeps for itself.
pub(crate) fn keep_mut<T>(value: T) -> &'static mut T {
    Box::leak(Box::new(value))
}

struct Text<F> {
    render: F,
    buffer: String,
}

impl<F: FnMut(&mut String)> Run for Text<F> {
    fn batch(&mut self, operations: u64) {
        for _ in 0..operations {
            self.buffer.clear();
            (self.render)(&mut self.buffer);
            black_box(&self.buffer);
        }
    }

    fn output(&mut self) -> Json {
        self.batch(1);
        self.buffer.clone().into()
    }
}

struct Bytes<F> {
    render: F,
    buffer: Vec<u8>,
}

impl<F: FnMut(&mut Vec<u8>)> Run for Bytes<F> {
    fn batch(&mut self, operations: u64) {
        for _ in 0..operations {
            self.buffer.clear();
            (self.render)(&mut self.buffer);
            black_box(&self.buffer);
        }
    }

    fn output(&mut self) -> Json {
        self.batch(1);
        String::from_utf8_lossy(&self.buffer).into()
    }
}

struct Computation<F, R> {
    compute: F,
    show: fn(&R) -> Json,
}

impl<R, F: FnMut() -> R> Run for Computation<F, R> {
    fn batch(&mut self, operations: u64) {
        for _ in 0..operations {
            black_box((self.compute)());
        }
    }

    fn output(&mut self) -> Json {
        (self.show)(&(self.compute)())
    }
}

/// One piece of work and those who do it.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    about: &'static str,
    references: u32,
    expected: Json,
    only: Option<String>,
    programs: bool,
    contestants: Vec<Contestant>,
}

struct Contestant {
    name: &'static str,
    run: Box<dyn Run>,
}

impl Workload {
    pub(crate) fn new(name: &'static str, about: &'static str, expected: impl Into<Json>) -> Self {
        Self {
            name,
            about,
            references: 0,
            expected: expected.into(),
            only: None,
            programs: false,
            contestants: Vec::new(),
        }
    }

    /// How many references one operation resolves, where the cost of one is of interest.
    pub(crate) fn references(self, references: u32) -> Self {
        Self { references, ..self }
    }

    /// Sets up this contestant only.
    pub(crate) fn only(self, contestant: Option<&str>) -> Self {
        Self { only: contestant.map(str::to_owned), ..self }
    }

    /// Its contestants are programs, to be built before.
    pub(crate) fn programs(self) -> Self {
        Self { programs: true, ..self }
    }

    pub(crate) fn has_programs(&self) -> bool {
        self.programs
    }

    /// Adds a contestant; `make` is its set-up, which is not timed.
    pub(crate) fn add<R: Run + 'static>(&mut self, name: &'static str, make: impl FnOnce() -> R) {
        if self.only.as_deref().is_none_or(|only| only == name) {
            self.contestants.push(Contestant { name, run: Box::new(make()) });
        }
    }

    pub(crate) fn contestants(&self) -> impl Iterator<Item = &'static str> {
        self.contestants.iter().map(|contestant| contestant.name)
    }

    /// A line for every contestant whose output is not the expected one.
    pub(crate) fn mismatches(&mut self) -> Vec<String> {
        let (name, expected) = (self.name, &self.expected);
        let lines = self.contestants.iter_mut().filter_map(|contestant| {
            let output = contestant.run.output();
            (output != *expected).then(|| mismatch(name, contestant.name, expected, &output))
        });
        lines.collect()
    }

    /// Repeats the first contestant, which `only` may have made the only one.
    pub(crate) fn repeat_first(&mut self, operations: u64) -> bool {
        let first = self.contestants.first_mut();
        first.map(|contestant| contestant.run.batch(operations)).is_some()
    }

    /// How many operations of the first contestant fill a batch.
    pub(crate) fn calibrate_first(&mut self) -> u64 {
        self.contestants.first_mut().map_or(1, |contestant| calibrate(&mut *contestant.run))
    }
}

/// Both outputs from a little before the place where they part.
fn mismatch(workload: &str, contestant: &str, expected: &Json, output: &Json) -> String {
    let (expected, output) = (expected.to_string(), output.to_string());
    let same = expected.chars().zip(output.chars()).take_while(|(a, b)| a == b).count();
    let part = |text: &str| text.chars().skip(same.saturating_sub(30)).take(90).collect::<String>();
    format!("{workload} {contestant}\n  expected ...{}\n  but got  ...{}", part(&expected), part(&output))
}

/// A workload after measuring.
pub(crate) struct Measured {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) references: u32,
    pub(crate) figures: Vec<Figures>,
}

/// What one contestant costs per operation.
pub(crate) struct Figures {
    pub(crate) contestant: &'static str,
    /// Median and quartiles, in nanoseconds.
    pub(crate) ns: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) allocations: f64,
}

impl Measured {
    pub(crate) fn figures(&self, contestant: &str) -> Option<&Figures> {
        self.figures.iter().find(|figures| figures.contestant == contestant)
    }
}

/// Counts allocations, then times everything in interleaved rounds.
pub(crate) fn measure(workloads: Vec<Workload>, rounds: usize) -> Vec<Measured> {
    let mut fields: Vec<Field> = workloads.into_iter().map(Field::new).collect();
    for round in 0..rounds {
        for field in &mut fields {
            field.round(round);
        }
    }
    fields.into_iter().map(Field::finish).collect()
}

/// A workload whose contestants are calibrated and on their way.
struct Field {
    workload: Workload,
    lanes: Vec<Lane>,
}

struct Lane {
    allocations: f64,
    operations: u64,
    samples: Vec<f64>,
}

impl Field {
    fn new(mut workload: Workload) -> Self {
        let lanes =
            workload.contestants.iter_mut().map(|contestant| Lane::new(&mut *contestant.run)).collect();
        Self { workload, lanes }
    }

    fn round(&mut self, round: usize) {
        let count = self.lanes.len();
        for place in 0..count {
            let next = (round + place) % count;
            self.lanes[next].sample(&mut *self.workload.contestants[next].run);
        }
    }

    fn finish(self) -> Measured {
        let Workload { name, about, references, contestants, .. } = self.workload;
        let figures =
            contestants.iter().zip(self.lanes).map(|(contestant, lane)| lane.finish(contestant.name));
        Measured { name, about, references, figures: figures.collect() }
    }
}

impl Lane {
    fn new(run: &mut dyn Run) -> Self {
        Self { operations: calibrate(run), allocations: allocations_per_operation(run), samples: Vec::new() }
    }

    /// One untimed operation first: what ran in between had the caches.
    fn sample(&mut self, run: &mut dyn Run) {
        run.batch(1);
        self.samples.push(run.timed(self.operations).as_nanos() as f64 / self.operations as f64);
    }

    fn finish(mut self, contestant: &'static str) -> Figures {
        self.samples.sort_by(f64::total_cmp);
        let at = |part: usize| self.samples[(self.samples.len() - 1) * part / 4];
        Figures { contestant, ns: at(2), low: at(1), high: at(3), allocations: self.allocations }
    }
}

/// A disturbance makes one attempt too low, so there are several.
fn calibrate(run: &mut dyn Run) -> u64 {
    (0..3).map(|_| calibrate_once(run)).max().unwrap_or(1)
}

fn calibrate_once(run: &mut dyn Run) -> u64 {
    let mut operations = 1;
    loop {
        let elapsed = run.timed(operations);
        if elapsed >= BATCH / 4 {
            let wanted = operations as f64 * BATCH.as_secs_f64() / elapsed.as_secs_f64();
            return (wanted as u64).max(1);
        }
        operations *= 2;
    }
}

fn allocations_per_operation(run: &mut dyn Run) -> f64 {
    run.allocations(COUNTED_OPERATIONS.into()) as f64 / f64::from(COUNTED_OPERATIONS)
}
