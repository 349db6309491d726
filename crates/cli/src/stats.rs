//! The cost of a run: the journal it wrote, and the processor time of Threadline and of the programs it ran.

use threadline_lang::Value;
use threadline_lang::value::JsonStyle;
use threadline_store::Store;

/// Processor time in milliseconds.
struct ProcessorTime {
    own: u64,
    children: u64,
}

/// Prints the cost to stderr as a line of JSON, for programs that measure.
pub(crate) fn print(store: &Store) {
    let stats = store.stats();
    let mut entries = vec![
        ("events", Value::from(stats.events)),
        ("commits", Value::from(stats.commits)),
        ("syncs", Value::from(stats.syncs)),
        ("checkpoints", Value::from(stats.checkpoints)),
        ("bytes", Value::from(stats.bytes)),
    ];
    if let Some(processor) = processor() {
        entries.push(("own_cpu_ms", Value::from(processor.own)));
        entries.push(("children_cpu_ms", Value::from(processor.children)));
    }
    if let Some(peak) = peak_memory() {
        entries.push(("peak_memory_kib", Value::from(peak)));
    }
    let line = Value::record(entries).to_json(JsonStyle::Compact);
    anstream::eprintln!("{line}");
}

/// The peak memory of this process, in KiB.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// The processor time of this process and of those it has waited for, as Linux reports it.
fn processor() -> Option<ProcessorTime> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program stands in parentheses and may contain anything.
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields: Vec<u64> = rest.split(' ').skip(11).take(4).filter_map(|field| field.parse().ok()).collect();
    let [user, system, children_user, children_system] = fields[..] else { return None };
    // Linux counts in hundredths of a second here, on every machine.
    Some(ProcessorTime { own: (user + system) * 10, children: (children_user + children_system) * 10 })
}
