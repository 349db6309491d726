//! The supervisor: it starts the server, and puts right what a server that was killed has left.

use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use threadline_runner::process;

use super::WorkerSettings;

/// The time that programs have to end which a killed server has left.
const GRACE: Duration = Duration::from_secs(1);

/// A server that ends earlier than this is not started again at once.
const SOON: Duration = Duration::from_secs(1);

/// Keeps a server running until somebody wants the worker to end. `server` makes the command that starts one; it finds
/// the port in place of its standard input.
pub fn supervise(
    settings: &WorkerSettings,
    server: &dyn Fn() -> io::Result<Command>,
    tell: &dyn Fn(&str),
) -> Result<(), String> {
    let listener = TcpListener::bind(settings.listen)
        .map_err(|error| format!("nothing can listen at `{}`: {error}", settings.listen))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    process::belong_to(settings.identity(address));
    // Where orphans cannot be adopted they are found by their marks.
    let _ = process::adopt_orphans();
    let mut signals = Signals::new([SIGCHLD, SIGTERM, SIGINT, SIGHUP]).map_err(|error| error.to_string())?;
    // Whoever listened here before is dead: nobody waits for what it was performing.
    process::end_all_left_over(GRACE);
    tell(&format!("worker `{}` listens at `{address}`, {} slots", settings.name, settings.slots));
    let mut listener = Some(listener);
    let start = |listener: &TcpListener| -> io::Result<Child> {
        let port = OwnedFd::from(listener.try_clone()?);
        server()?.process_group(0).stdin(Stdio::from(port)).spawn()
    };
    let cannot_start = |error: io::Error| format!("the server of the worker cannot be started: {error}");
    let mut began = Instant::now();
    let mut child = listener.as_ref().map(&start).transpose().map_err(cannot_start)?;
    for signal in signals.forever() {
        let Some(running) = &mut child else { break };
        if signal != SIGCHLD {
            if listener.take().is_some() {
                tell(
                    "the worker finishes what it performs, and takes nothing new; a second signal ends it at once",
                );
                send(running, Signal::TERM);
            } else {
                send(running, Signal::KILL);
            }
            continue;
        }
        let Some(status) = running.try_wait().map_err(|error| error.to_string())? else { continue };
        process::end_all_left_over(GRACE);
        let Some(port) = &listener else { break };
        // One that was killed is started again, one that ends by itself would only do so again.
        if status.code().is_some() && began.elapsed() < SOON {
            return Err(format!("the server of the worker ended at once ({})", ended(status)));
        }
        tell(&format!("the server of the worker died ({}); what it performed was ended", ended(status)));
        began = Instant::now();
        child = Some(start(port).map_err(cannot_start)?);
    }
    Ok(())
}

fn send(child: &Child, signal: Signal) {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // It has not been waited for, so the number is its own.
        let _ = kill_process(pid, signal);
    }
}

fn ended(status: ExitStatus) -> String {
    status.to_string()
}
