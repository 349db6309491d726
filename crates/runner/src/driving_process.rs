//! Asks the process that drives a run to stop it. It never signals a process that does not hold the lease of the run.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use threadline_store::DrivingProcess;

/// Why a process was not asked.
#[derive(Debug)]
pub enum StopError {
    /// The process that holds the lease is not one that is seen here, such as one of another container.
    Elsewhere,
    /// The system did not let it be asked.
    Refused(io::Error),
}

/// Asks the process that drives a run to stop, as a signal from its terminal does: it lets running steps finish,
/// and ends them when it is asked again.
pub fn ask_to_stop(driving: &DrivingProcess) -> Result<(), StopError> {
    let pid = driving.pid.and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    let pid = pid.ok_or(StopError::Elsewhere)?;
    let handle = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| match error {
        rustix::io::Errno::SRCH => StopError::Elsewhere,
        error => StopError::Refused(error.into()),
    })?;
    // The number may be that of a stranger: of another container, or given anew. The handle stays with the process
    // that is looked at here.
    if !has_open(pid, &driving.lease).map_err(StopError::Refused)? {
        return Err(StopError::Elsewhere);
    }
    pidfd_send_signal(&handle, Signal::TERM).map_err(|error| StopError::Refused(error.into()))
}

/// Whether a process has a file open.
fn has_open(pid: Pid, file: &Path) -> io::Result<bool> {
    let wanted = fs::metadata(file)?;
    for entry in fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero()))? {
        // A file that was closed meanwhile is not the one.
        if let Ok(found) = fs::metadata(entry?.path())
            && (found.dev(), found.ino()) == (wanted.dev(), wanted.ino())
        {
            return Ok(true);
        }
    }
    Ok(false)
}
