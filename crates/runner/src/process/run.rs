//! One child from its start to its end, on the calling thread: everything that can happen to it is an event
//! of one `poll`.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Signal;

use crate::clock;
use crate::secrets::masks::MaskStream;

use super::control::{Asked, Control, ControlWaiter};
use super::linux::{self, Family, Started};
use super::mark;
use super::output::{Captured, Collector};
use super::room::ChildSlot;
use super::start::{self, StartError};
use super::{ChildEnding, EndedChild, Spec, Stdin, Stream, Usage};

/// How much is read at a time.
const PIECE: usize = 64 * 1024;

/// How long others may go on writing to the pipes of a child that has ended, such as the `tee` of
/// `exec > >(tee log)`.
const LINGER: Duration = Duration::from_millis(200);

/// How often a silent child is asked whether it waits for the terminal.
const TERMINAL_CHECK: Duration = Duration::from_millis(500);

/// How long a child is tried to be started that the machine has no room for: handles, processes or memory.
const PATIENCE: Duration = Duration::from_secs(10);

/// The first pause between two tries, and the longest: each is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Runs a child and returns when it and all that it started is gone.
///
/// `on_output` sees each piece of output as it arrives.
pub fn run(
    spec: &Spec,
    control: &Control,
    on_output: &mut dyn FnMut(Stream, &[u8]),
) -> Result<EndedChild, StartError> {
    let refused = |error: io::Error| StartError::from_system(&error, spec);
    // A server is there for as long as the run, and nobody may have to wait for that.
    let is_server = matches!(spec.stdin, Stdin::Pipe(_));
    let slot = if is_server { None } else { ChildSlot::take(control) };
    if !is_server && slot.is_none() {
        return Ok(never_started(clock::timestamp()));
    }
    let waiting = control.wait_here().map_err(|error| refused(error.into()))?;
    let name = mark::new_child();
    let Some(mut child) = start_patiently(spec, &name, &waiting)? else {
        return Ok(never_started(clock::timestamp()));
    };
    let started = clock::timestamp();
    let clock = Instant::now();
    let mut running = RunningChild {
        spec,
        waiting,
        outputs: [
            ChildOutput::new(Stream::Stdout, child.child.stdout.take().map(OwnedFd::from), spec),
            ChildOutput::new(Stream::Stderr, child.child.stderr.take().map(OwnedFd::from), spec),
        ],
        child,
        name,
        time_is_up: spec.timeout.map(linux::after),
        patience_is_up: spec.idle_timeout.map(linux::after),
        ending: None,
        exited: None,
        piece: Vec::with_capacity(PIECE),
    };
    while !running.is_over() {
        running.wait_and_handle(on_output);
    }
    running.release_output(on_output);
    running.finish(started, clock).map_err(refused)
}

/// Starts a child; none when somebody asked to end before. What the machine lacks now it may have in a
/// moment, when something else has ended.
fn start_patiently(
    spec: &Spec,
    name: &OsStr,
    waiting: &ControlWaiter<'_>,
) -> Result<Option<Started>, StartError> {
    let mut pause = FIRST_PAUSE;
    let give_up_at = Instant::now() + PATIENCE;
    loop {
        if waiting.asked() != Asked::Nothing {
            return Ok(None);
        }
        let started = start::command(spec, name).and_then(|mut command| {
            linux::start(&mut command, name).map_err(|error| StartError::from_system(&error, spec))
        });
        match started {
            Err(error) if error.is_temporary() && Instant::now() < give_up_at => {}
            started => return started.map(Some),
        }
        // Interrupted, or no memory for a moment: try again.
        let timeout = Timespec::try_from(pause).ok();
        let _ = poll(&mut [PollFd::from_borrowed_fd(waiting.fd(), PollFlags::IN)], timeout.as_ref());
        waiting.clear();
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn never_started(now: Timestamp) -> EndedChild {
    EndedChild {
        how: ChildEnding::Cancelled,
        stdout: Captured::Memory(Vec::new()),
        stderr: Captured::Memory(Vec::new()),
        usage: Usage::default(),
        started: now,
        finished: now,
        elapsed: Duration::ZERO,
        secrets: Vec::new(),
        survivors: Vec::new(),
    }
}

struct RunningChild<'a> {
    spec: &'a Spec,
    waiting: ControlWaiter<'a>,
    child: Started,
    /// The name in its mark.
    name: OsString,
    outputs: [ChildOutput; 2],
    time_is_up: Option<Instant>,
    /// When it has written nothing for too long.
    patience_is_up: Option<Instant>,
    /// Set when we began to end the child.
    ending: Option<EndingChild>,
    /// Set when the child has ended; it is not waited for before `finish`, which keeps its number and group
    /// its own.
    exited: Option<Exited>,
    piece: Vec<u8>,
}

struct EndingChild {
    why: ChildEnding,
    force_at: Instant,
    forced: bool,
}

struct Exited {
    at: Instant,
    finished: Timestamp,
}

/// What woke us up.
#[derive(Default)]
struct Events {
    outputs: [bool; 2],
    exit: bool,
    asked: bool,
}

impl Events {
    fn is_silence(&self) -> bool {
        let Self { outputs: [stdout, stderr], exit, asked } = *self;
        !(stdout || stderr || exit || asked)
    }
}

impl RunningChild<'_> {
    /// Whether the child has ended and its output is complete: all of it was read, or others hold the pipes
    /// too long.
    fn is_over(&self) -> bool {
        let Some(exited) = &self.exited else { return false };
        let complete = self.outputs.iter().all(|output| output.pipe.is_none());
        let enough = self.outputs.iter().all(|output| output.owed == 0);
        complete || (enough && (self.ending.is_some() || exited.at.elapsed() >= LINGER))
    }

    fn wait_and_handle(&mut self, on_output: &mut dyn FnMut(Stream, &[u8])) {
        let events = self.wait();
        for index in 0..self.outputs.len() {
            if events.outputs[index] {
                self.read(index, on_output);
            }
        }
        if events.exit {
            self.note_exit();
        }
        if events.asked {
            self.waiting.clear();
        }
        match self.waiting.asked() {
            Asked::Nothing => {}
            Asked::Cancel => self.end(ChildEnding::Cancelled, self.spec.grace),
            Asked::Kill | Asked::Abandon => self.end(ChildEnding::Cancelled, Duration::ZERO),
        }
        self.watch_clock();
        if events.is_silence() && linux::has_terminal() && linux::wants_terminal(&self.child) {
            self.end(ChildEnding::NeedsTerminal, self.spec.grace);
        }
    }

    fn wait(&self) -> Events {
        let [stdout, stderr] = &self.outputs;
        let sources = [
            (stdout.pipe.as_ref().map(OwnedFd::as_fd), PollFlags::IN),
            (stderr.pipe.as_ref().map(OwnedFd::as_fd), PollFlags::IN),
            (self.exited.is_none().then_some(self.child.handle.as_fd()), PollFlags::IN),
            (Some(self.waiting.fd()), PollFlags::IN),
        ];
        let mut fds = Vec::with_capacity(sources.len());
        let places = sources.map(|(fd, flags)| {
            fds.push(PollFd::from_borrowed_fd(fd?, flags));
            Some(fds.len() - 1)
        });
        let timeout = self.next_deadline().map(|at| at.saturating_duration_since(Instant::now()));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        // Interrupted, or no memory for a moment: the caller looks at the clock and comes back.
        if poll(&mut fds, timeout.as_ref()).is_err() {
            return Events::default();
        }
        let happened = |place: Option<usize>| place.is_some_and(|place| !fds[place].revents().is_empty());
        let [stdout, stderr, exit, asked] = places.map(happened);
        Events { outputs: [stdout, stderr], exit, asked }
    }

    fn next_deadline(&self) -> Option<Instant> {
        if let Some(exited) = &self.exited {
            return Some(exited.at + LINGER);
        }
        if let Some(ending) = &self.ending {
            return (!ending.forced).then_some(ending.force_at);
        }
        let look = linux::has_terminal().then(|| Instant::now() + TERMINAL_CHECK);
        [self.time_is_up, self.patience_is_up, look].into_iter().flatten().min()
    }

    fn watch_clock(&mut self) {
        if self.exited.is_some() {
            return;
        }
        let now = Instant::now();
        if self.time_is_up.is_some_and(|at| now >= at) {
            self.end(ChildEnding::TimedOut, self.spec.grace);
        }
        if self.patience_is_up.is_some_and(|at| now >= at) {
            self.end(ChildEnding::Silent, self.spec.grace);
        }
        if let Some(ending) = &mut self.ending
            && !ending.forced
            && now >= ending.force_at
        {
            ending.forced = true;
            self.family().signal(Signal::KILL);
        }
    }

    /// Begins to end the child, or makes force due earlier. The first reason stays.
    fn end(&mut self, why: ChildEnding, grace: Duration) {
        if self.exited.is_some() {
            return;
        }
        let force_at = linux::after(grace);
        if let Some(ending) = &mut self.ending {
            ending.force_at = ending.force_at.min(force_at);
            return;
        }
        self.ending = Some(EndingChild { why, force_at, forced: false });
        if !grace.is_zero() {
            self.family().signal(Signal::TERM);
        }
    }

    fn family(&self) -> Family<'_> {
        Family::of_child(&self.name, self.child.pid)
    }

    fn note_exit(&mut self) {
        self.exited = Some(Exited { at: Instant::now(), finished: clock::timestamp() });
        for output in &mut self.outputs {
            output.count_owed();
        }
    }

    fn read(&mut self, index: usize, on_output: &mut dyn FnMut(Stream, &[u8])) {
        let output = &mut self.outputs[index];
        let Some(pipe) = &output.pipe else { return };
        self.piece.clear();
        match rustix::io::read(pipe, spare_capacity(&mut self.piece)) {
            Err(Errno::INTR) => {}
            Ok(0) | Err(_) => output.close(),
            Ok(_) => {
                self.patience_is_up = self.spec.idle_timeout.map(linux::after);
                if let Err(why) = output.keep(&self.piece, self.spec, on_output) {
                    output.close();
                    self.end(why, Duration::ZERO);
                }
            }
        }
    }

    /// Keeps what was held back because it might have become a secret.
    fn release_output(&mut self, on_output: &mut dyn FnMut(Stream, &[u8])) {
        for output in &mut self.outputs {
            let held = output.masked.as_mut().map(MaskStream::finish).unwrap_or_default();
            if let Err(why) = output.keep_masked(&held, self.spec, on_output) {
                let ending = EndingChild { why, force_at: Instant::now(), forced: true };
                self.ending.get_or_insert(ending);
            }
        }
    }

    /// Ends what the child left, waits for the child, and tells all.
    fn finish(self, started: Timestamp, clock: Instant) -> io::Result<EndedChild> {
        let family = Family::of_child(&self.name, self.child.pid);
        let mut survivors = Vec::new();
        if family.lives() {
            let force_at = self.ending.as_ref().map(|ending| ending.force_at);
            survivors = family.end(self.spec.grace, force_at, Some(&self.waiting)).survivors;
        }
        let Started { child, pid, .. } = self.child;
        let used = linux::wait_for_exit(child, pid)?;
        survivors.extend(linux::end_strays(self.spec.grace).survivors);
        let status = used.status;
        // A status is an exit code or a signal.
        let natural = status.code().map(ChildEnding::Exited).or(status.signal().map(ChildEnding::Signalled));
        let exited =
            self.exited.unwrap_or_else(|| Exited { at: Instant::now(), finished: clock::timestamp() });
        let secrets = self.outputs[0].masked.as_ref().map(MaskStream::found).unwrap_or_default();
        let [stdout, stderr] = self.outputs.map(|output| output.collected.finish());
        Ok(EndedChild {
            how: self.ending.map(|ending| ending.why).or(natural).unwrap_or(ChildEnding::Cancelled),
            stdout,
            stderr,
            usage: Usage { cpu_time: used.rusage.utime + used.rusage.stime, max_memory: used.rusage.maxrss },
            started,
            finished: exited.finished,
            elapsed: exited.at.duration_since(clock),
            secrets,
            survivors,
        })
    }
}

/// One stream of the child.
struct ChildOutput {
    stream: Stream,
    pipe: Option<OwnedFd>,
    collected: Collector,
    /// What was written before the child ended and is still to be read.
    owed: u64,
    /// Masks what arrives.
    masked: Option<MaskStream>,
}

impl ChildOutput {
    fn new(stream: Stream, pipe: Option<OwnedFd>, spec: &Spec) -> Self {
        // The messages of a server are masked when they are read: nothing of one may be held back.
        let is_message = matches!((stream, &spec.stdin), (Stream::Stdout, Stdin::Pipe(_)));
        let masks = spec.masks.as_ref().filter(|_| !is_message);
        let masked = masks.map(|masks| MaskStream::new(Arc::clone(masks)));
        Self { stream, pipe, collected: Collector::new(), owed: 0, masked }
    }

    fn close(&mut self) {
        self.pipe = None;
        self.owed = 0;
    }

    fn count_owed(&mut self) {
        let ready = self.pipe.as_ref().and_then(|pipe| rustix::io::ioctl_fionread(pipe).ok());
        self.owed = ready.unwrap_or(0);
    }

    /// Keeps a piece, or as much of it as is allowed; then an error says why the child must end.
    fn keep(
        &mut self,
        piece: &[u8],
        spec: &Spec,
        on_output: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<(), ChildEnding> {
        self.owed = self.owed.saturating_sub(piece.len() as u64);
        match &mut self.masked {
            Some(masked) => {
                let piece = masked.push(piece);
                self.keep_masked(&piece, spec, on_output)
            }
            None => self.keep_masked(piece, spec, on_output),
        }
    }

    fn keep_masked(
        &mut self,
        piece: &[u8],
        spec: &Spec,
        on_output: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<(), ChildEnding> {
        if let Stdin::Pipe(_) = spec.stdin {
            on_output(self.stream, piece);
            return Ok(());
        }
        let room = usize::try_from(spec.max_output - self.collected.len()).unwrap_or(usize::MAX);
        let kept = &piece[..piece.len().min(room)];
        if !kept.is_empty() {
            let stored = self.collected.add(kept, &spec.spool);
            stored.map_err(|error| ChildEnding::OutputNotKept(self.stream, error.kind()))?;
            on_output(self.stream, kept);
        }
        if kept.len() < piece.len() { Err(ChildEnding::OutputTooLarge(self.stream)) } else { Ok(()) }
    }
}
