//! A worker: it performs programs that coordinators ask for, and knows no workflow.
//!
//! A worker is two processes. The supervisor holds the port, and waits. The server performs programs; when it is killed,
//! the supervisor ends what it was performing before it starts another one, since nobody else knows these programs, and
//! the Restate server has them performed again elsewhere.

mod act;
mod coordinate;
mod limits;
mod secrets;
mod serve;
mod slots;
mod supervise;

use std::net::SocketAddr;
use std::path::PathBuf;

use threadline_flow::worker_labels::WorkerLabels;
use threadline_store::RunId;

use crate::key::SharedKey;
use crate::remote::MEMORY;

pub use coordinate::CoordinatorCommand;
pub use serve::serve;
pub use supervise::supervise;

/// What a worker is told.
#[derive(Debug, Clone)]
pub struct WorkerSettings {
    /// Where it listens.
    pub listen: SocketAddr,
    /// The URL under which the Restate server reaches it, or the balancer in front of it.
    pub advertised: Option<String>,
    /// How many programs it performs at once.
    pub slots: usize,
    /// The folder of the project, which all machines share.
    pub project: PathBuf,
    /// The URL of the blob store, when it is not in that folder.
    pub blobs: Option<String>,
    /// The folder for files of projects that are not shared.
    pub cache: PathBuf,
    /// The URL of the admin port of a Restate server, where it registers.
    pub register: Option<String>,
    /// The key that requests must be signed with.
    pub key: SharedKey,
    /// The variable that holds the key, which no program is given.
    pub key_variable: Option<String>,
    /// Its name in results.
    pub name: String,
    /// What it has that steps may ask for.
    pub labels: WorkerLabels,
}

/// The name of this machine.
pub fn machine_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "worker".to_owned() } else { name.to_owned() }
}

/// The folder for files of projects where nobody says another one.
pub fn usual_cache() -> PathBuf {
    let of_user = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = of_user("XDG_CACHE_HOME").or_else(|| of_user("HOME").map(|home| home.join(".cache")));
    caches.unwrap_or_else(std::env::temp_dir).join("threadline-worker")
}

/// The folder for the journal of a run that a worker of this user coordinates on this machine. It can be made anew.
pub fn coordinator_journal(run: &RunId) -> PathBuf {
    coordinator_journals().join(run.as_str())
}

fn coordinator_journals() -> PathBuf {
    std::env::temp_dir().join(format!("threadline-coordinators-{}", rustix::process::getuid().as_raw()))
}

/// Removes journals of runs that went on elsewhere so long ago that nobody brings them back here.
fn sweep_journals() {
    for entry in std::fs::read_dir(coordinator_journals()).into_iter().flatten().flatten() {
        let age = entry.metadata().and_then(|of| of.modified()).ok().and_then(|time| time.elapsed().ok());
        if age.is_some_and(|age| age > MEMORY) {
            // What stays only takes up space.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Lets this process end with the worker that started it: another worker goes on with what it does.
pub fn end_with_worker() {
    // Without it the run is taken away from this process when it writes next.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
}

impl WorkerSettings {
    /// What the marks of its programs begin with: a worker that listens here after it finds them.
    fn identity(&self, address: SocketAddr) -> String {
        let place = format!("{}\n{address}\n{}", machine_name(), self.name);
        let hash = blake3::hash(place.as_bytes()).to_hex();
        format!("worker-{}", &hash[..24])
    }
}
