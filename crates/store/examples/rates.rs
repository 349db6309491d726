//! How fast this machine appends: `cargo run --release -p threadline-store --example rates [FOLDER]`.
//!
//! Each row is steps of two events, of which the second is on disk before the next step starts. The folder should be
//! on the disk that is to be measured, and is left with a journal in it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use threadline_store::{
    Durability, EventDraft, Lease, MemoryDisk, NewRun, RunId, Store, StoreError, StoreOptions,
};

fn main() -> Result<(), StoreError> {
    let folder = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("target/rates"), PathBuf::from);
    report("one thread, each step waits", &open(&folder, "single")?, 1, 5_000, step)?;
    report("two threads, each step waits", &open(&folder, "double")?, 2, 5_000, step)?;
    report("16 threads, each step waits", &open(&folder, "many")?, 16, 2_000, step)?;
    report("one thread, nothing waits", &open(&folder, "later")?, 1, 200_000, free_step)?;
    report("two threads, nothing waits", &open(&folder, "later-double")?, 2, 100_000, free_step)?;
    report("one thread, with a value of 2 KiB", &open(&folder, "values")?, 1, 5_000, value_step)?;
    let memory = Store::in_memory(&MemoryDisk::new()?, StoreOptions::default())?;
    report("one thread, in memory", &memory, 1, 20_000, step)
}

fn open(folder: &Path, name: &str) -> Result<Store, StoreError> {
    let folder = folder.join(name);
    // What an earlier measurement left would be measured with it.
    let _ = std::fs::remove_dir_all(&folder);
    Store::open(&folder)
}

type TimedWrite = fn(&Store, &Lease, u64) -> Result<(), StoreError>;

fn report(what: &str, store: &Store, threads: u64, steps: u64, step: TimedWrite) -> Result<(), StoreError> {
    let start = Instant::now();
    std::thread::scope(|scope| {
        let drive = |thread| move || drive(store, thread, steps, step);
        let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(drive(thread))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Err(StoreError::Crashed)))
    })?;
    print_row(what, start.elapsed(), threads * steps, store);
    Ok(())
}

fn drive(store: &Store, thread: u64, steps: u64, step: TimedWrite) -> Result<(), StoreError> {
    let started_at = String::from("2026-01-01T00:00:00.000Z");
    let id = RunId::new(&format!("run-{thread}"))?;
    let lease =
        store.create_run(NewRun { id, name: "rates".into(), file: "rates.yaml".into(), started_at })?;
    (0..steps).try_for_each(|number| step(store, &lease, number))?;
    lease.wait_synced(lease.next_seq() - 1)
}

#[expect(clippy::print_stdout, reason = "it is what the example is for")]
#[expect(clippy::cast_precision_loss, reason = "a rate is printed without decimals")]
fn print_row(what: &str, time: Duration, steps: u64, store: &Store) {
    let stats = store.stats();
    let per_second = stats.events as f64 / time.as_secs_f64();
    let per_step = stats.commits as f64 / steps as f64;
    println!(
        "{what:<34} {per_second:>8.0} events/s, {per_step:.3} commits per step, largest group {}, {} checkpoints",
        stats.largest_group, stats.checkpoints
    );
}

fn started(number: u64) -> EventDraft {
    EventDraft::new("started", "2026-01-01T00:00:00.001Z")
        .at(format!("item[{number}]"))
        .with(r#"{"attempt":1}"#)
}

fn finished(number: u64) -> EventDraft {
    let payload =
        format!(r#"{{"value":{{"output":"line {number}"}},"meta":{{"status":"completed","exit_code":0}}}}"#);
    EventDraft::new("finished", "2026-01-01T00:00:00.002Z").at(format!("item[{number}]")).with(payload)
}

fn step(_: &Store, lease: &Lease, number: u64) -> Result<(), StoreError> {
    lease.append(vec![started(number)], Durability::Later)?;
    lease.append(vec![finished(number)], Durability::Now)?.wait()
}

fn free_step(_: &Store, lease: &Lease, number: u64) -> Result<(), StoreError> {
    lease.append(vec![started(number)], Durability::Later)?;
    lease.append(vec![finished(number)], Durability::Now)?;
    Ok(())
}

fn value_step(store: &Store, lease: &Lease, number: u64) -> Result<(), StoreError> {
    lease.append(vec![started(number)], Durability::Later)?;
    let hash = store.put_value(format!("{number:02048}").into_bytes())?;
    lease.append(vec![finished(number).with(format!(r#"{{"value":"{hash}"}}"#))], Durability::Now)?.wait()
}
