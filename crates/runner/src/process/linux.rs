//! What only Linux offers: process handles, adopting orphans, and finding processes through `/proc`.
//!
//! A process is signalled through a handle (a pidfd) that was checked after it was opened, or through its group while
//! the leader of that group is our own child and not yet waited for. So no signal ever reaches a stranger that was
//! given an old number.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::{LazyLock, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::param::clock_ticks_per_second;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, pidfd_send_signal, waitid,
};
use wait4::{ResUse, Wait4};

use super::brand::{self, Brand};
use super::control::{Asked, ControlWaiter};
use super::mark::{OWN_GIT, ProcessMark, marks_of, step_of};
use super::room;

/// How long force may take before we stop waiting: only a process stuck in the kernel, or one that forks faster than
/// it can be found, survives that long.
const FORCE_TAKES: Duration = Duration::from_secs(10);

/// How often we look again at once because something ended meanwhile. More than that is somebody who starts and ends
/// processes without a pause, and must not keep us here.
const MOST_LOOKS: usize = 100;

/// The instant after this time, or one that nobody lives to see.
pub(super) fn after(time: Duration) -> Instant {
    const CENTURY: Duration = Duration::from_hours(100 * 365 * 24);
    let now = Instant::now();
    now.checked_add(time).unwrap_or(now + CENTURY)
}

/// Makes this process the parent of every descendant that loses its own, so that none escapes unseen.
/// Starting a child does this by itself.
pub fn adopt_orphans() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// The children that [`start`] made and nobody has waited for yet. What else is a child of this process, in a process
/// group that is not ours, was adopted. It counts, because a number may come back in the instant between waiting for
/// a child and forgetting it.
static STARTED: LazyLock<Mutex<HashMap<i32, usize>>> = LazyLock::new(Mutex::default);

/// Held for reading while a child is started, when it exists but is not in `STARTED` yet.
static STARTING: RwLock<()> = RwLock::new(());

/// The children of our first thread: those it started, and all orphans, which the kernel gives to it. Read again from
/// its beginning each time, which costs one call where opening it would cost three.
static CHILDREN: LazyLock<Option<File>> = LazyLock::new(|| {
    let process = std::process::id();
    File::open(format!("/proc/{process}/task/{process}/children")).ok()
});

/// A child in its own process group, not yet waited for.
pub(super) struct Started {
    pub(super) child: Child,
    pub(super) handle: OwnedFd,
    pub(super) pid: Pid,
}

/// Starts a child and remembers it as ours. `name` is the one in its mark.
pub(super) fn start(command: &mut Command, name: &OsStr) -> io::Result<Started> {
    static ADOPTING: LazyLock<Result<(), Option<i32>>> =
        LazyLock::new(|| adopt_orphans().map_err(|error| error.raw_os_error()));
    if let Err(Some(code)) = *ADOPTING {
        return Err(io::Error::from_raw_os_error(code));
    }
    let starting = STARTING.read().unwrap_or_else(PoisonError::into_inner);
    let child = brand::spawn(command, name)?;
    let pid = Pid::from_child(&child);
    *started().entry(pid.as_raw_pid()).or_default() += 1;
    drop(starting);
    room::restore_limit(pid);
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => Ok(Started { child, handle, pid }),
        Err(error) => {
            signal_group(pid, Signal::KILL);
            waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
            wait_for_exit(child, pid)?;
            Err(error.into())
        }
    }
}

/// Takes the status of a child that has ended, and what it used. From then on its number may belong to another.
pub(super) fn wait_for_exit(child: Child, pid: Pid) -> io::Result<ResUse> {
    let result = child.wait4();
    if let Entry::Occupied(mut count) = started().entry(pid.as_raw_pid()) {
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
        }
    }
    result
}

fn started() -> std::sync::MutexGuard<'static, HashMap<i32, usize>> {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Signals a whole group. Its leader must be our child that was not waited for, so that the number is still its own.
pub(super) fn signal_group(leader: Pid, signal: Signal) {
    // The only failure is that nobody is left.
    let _ = kill_process_group(leader, signal);
    if signal != Signal::KILL {
        // A stopped process does not see a request before it goes on.
        let _ = kill_process_group(leader, Signal::CONT);
    }
}

/// Whether a child was stopped because it wanted the terminal.
pub(super) fn wants_terminal(child: &Started) -> bool {
    let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let stopped_by = match waitid(WaitId::PidFd(child.handle.as_fd()), options) {
        Ok(Some(status)) => status.stopping_signal(),
        _ => None,
    };
    stopped_by.is_some_and(|by| [Signal::TTIN, Signal::TTOU].iter().any(|signal| signal.as_raw() == by))
}

/// Whether this process has a terminal that a child could ask.
pub(super) fn has_terminal() -> bool {
    static TERMINAL: LazyLock<bool> = LazyLock::new(|| File::open("/dev/tty").is_ok());
    *TERMINAL
}

/// A process that carries the mark of a run, or was adopted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOver {
    /// Its number, for messages only: it says nothing once the process is gone.
    pub pid: i32,
    /// The step that it belongs to; empty where that is not known.
    pub step: String,
    /// The name of its program.
    pub program: String,
}

/// What became of left-over processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOverEnding {
    /// Those that were asked or forced to end.
    pub ended: Vec<LeftOver>,
    /// Those of them that force could not end in ten seconds.
    pub survivors: Vec<LeftOver>,
}

/// The living processes that carry the mark of this run, whoever started them and whoever is their parent now. This
/// process and those above it are never among them.
///
/// A process that threw away its environment is found by its brand, by its group and by what started it.
pub fn find_left_over(run: &str) -> Vec<LeftOver> {
    Family::of_run(run).members().into_iter().map(|member| member.about).collect()
}

/// Ends the processes that carry the mark of this run: by a request, and by force when the time of grace is over.
///
/// A git that Threadline called is first given the same time to end by itself: it soon does, and one that is
/// asked to end just then leaves the lock that it was about to take.
pub fn end_left_over(run: &str, grace: Duration) -> LeftOverEnding {
    let family = Family::of_run(run);
    let mut own_git = family.members();
    own_git.retain(|member| member.about.step == OWN_GIT && member.about.program.starts_with("git"));
    wait_until_gone(own_git, Some(after(grace)), None);
    family.end(grace, None, None)
}

/// Ends every process that carries the mark of this process' store, of whichever run.
pub fn end_all_left_over(grace: Duration) -> LeftOverEnding {
    let ending = Family { kind: Kind::Store, group: None }.end(grace, None, None);
    // The dead that became ours are waited for.
    adopted();
    ending
}

/// Ends what the programs of a run that this process drove have left, and waits until it is gone.
///
/// All of them were waited for, and whatever they started is below us. So where nothing was adopted nothing is left,
/// and that is known without a look at every process of the computer.
pub fn end_descendants(run: &str, grace: Duration) {
    if !adopted().is_empty() {
        end_left_over(run, grace);
        end_strays(grace);
    }
}

/// Ends the processes that this process adopted, that carry no mark any more, and that no running child can have
/// started. When a child has ended those are its own, unless another runs that could have started them too: then they
/// end with that one.
pub fn end_strays(grace: Duration) -> LeftOverEnding {
    let family = Family { kind: Kind::Strays, group: None };
    if family.lives() { family.end(grace, None, None) } else { LeftOverEnding::default() }
}

/// A program that was alive when it was looked for, through a handle, so that it stays the same one.
#[derive(Debug)]
pub(crate) struct SeenProgram {
    handle: OwnedFd,
    /// When it was started, to about a hundredth of a second; none where that is not shown.
    pub(crate) started: Option<SystemTime>,
    /// The folder it is in; none where that is not shown.
    pub(crate) folder: Option<PathBuf>,
    /// Its arguments, each with a zero byte behind it.
    pub(crate) arguments: Vec<u8>,
    /// Its variables, each with a zero byte behind it.
    pub(crate) environment: Vec<u8>,
}

impl SeenProgram {
    pub(crate) fn has_ended(&self) -> bool {
        let mut fds = [PollFd::new(&self.handle, PollFlags::IN)];
        matches!(poll(&mut fds, Some(&Timespec::default())), Ok(1..))
    }
}

/// The living programs whose names begin like this.
pub(crate) fn find_programs(name: &str) -> Vec<SeenProgram> {
    let see = |pid: Pid| {
        let program = fs::read(format!("/proc/{pid}/comm")).ok()?;
        if !program.starts_with(name.as_bytes()) {
            return None;
        }
        Some(SeenProgram {
            handle: pidfd_open(pid, PidfdFlags::empty()).ok()?,
            started: start_time(pid),
            folder: fs::read_link(format!("/proc/{pid}/cwd")).ok(),
            arguments: fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default(),
            environment: environment(pid),
        })
    };
    let mut seen: Vec<SeenProgram> = all_processes().into_iter().filter_map(see).collect();
    seen.retain(|program| !program.has_ended());
    seen
}

/// The processes that belong together.
pub(super) struct Family<'a> {
    kind: Kind<'a>,
    /// The leader of a group whose members belong too; our child, not waited for.
    group: Option<Pid>,
}

enum Kind<'a> {
    /// All that carry the mark of a run.
    Run(&'a [u8]),
    /// All that carry the mark of any run of the store.
    Store,
    /// All that carry the mark of a child.
    Child(&'a OsStr),
    /// All that we adopted, that carry no mark, and that no running child can have started.
    Strays,
}

/// A process through a handle, so that it stays the same one.
struct Member {
    handle: OwnedFd,
    about: LeftOver,
}

impl<'a> Family<'a> {
    fn of_run(run: &'a str) -> Self {
        Self { kind: Kind::Run(run.as_bytes()), group: None }
    }

    /// All that a child started. It must be ours and not waited for.
    pub(super) fn of_child(name: &'a OsStr, leader: Pid) -> Self {
        Self { kind: Kind::Child(name), group: Some(leader) }
    }

    /// Whether a child that has ended left something. Every process below it that still lives has an ancestor that we
    /// adopted, so this costs one call where nothing was left.
    pub(super) fn lives(&self) -> bool {
        for _ in 0..MOST_LOOKS {
            let adopted = adopted();
            if adopted.iter().any(|pid| self.belongs(*pid)) {
                return true;
            }
            // One that ended while we looked at it left its own children to us.
            if adopted.iter().all(|pid| stat(*pid).is_some_and(|stat| stat.lives())) {
                return false;
            }
        }
        true
    }

    /// Signals everything that belongs here.
    pub(super) fn signal(&self, signal: Signal) {
        self.signal_these(&self.members(), signal);
    }

    fn signal_these(&self, members: &[Member], signal: Signal) {
        if let Some(leader) = self.group {
            signal_group(leader, signal);
        }
        for member in members {
            member.signal(signal);
        }
    }

    /// Ends what belongs here and waits until it is gone. `force_at` is when force is due, if a request was made
    /// before; a control can make it due at once.
    pub(super) fn end(
        &self,
        grace: Duration,
        force_at: Option<Instant>,
        waiting: Option<&ControlWaiter<'_>>,
    ) -> LeftOverEnding {
        let mut force_at = force_at.map_or_else(|| after(grace), |at| at.max(Instant::now()));
        let mut ending = LeftOverEnding::default();
        let mut searches_in_vain = 0;
        loop {
            let members = self.members();
            let now = Instant::now();
            if waiting.is_some_and(|waiting| waiting.asked() >= Asked::Kill) {
                force_at = force_at.min(now);
            }
            let give_up_at = force_at.checked_add(FORCE_TAKES);
            if give_up_at.is_some_and(|at| now >= at) {
                ending.survivors = members.into_iter().map(|member| member.about).collect();
                return ending;
            }
            if members.is_empty() {
                // One that was started behind the back of a search is found by the next one.
                searches_in_vain += 1;
                if searches_in_vain == 1 {
                    continue;
                }
                if !self.lives() {
                    return ending;
                }
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            searches_in_vain = 0;
            let force = now >= force_at;
            self.signal_these(&members, if force { Signal::KILL } else { Signal::TERM });
            for member in &members {
                if !ending.ended.contains(&member.about) {
                    ending.ended.push(member.about.clone());
                }
            }
            wait_until_gone(members, if force { give_up_at } else { Some(force_at) }, waiting);
        }
    }

    /// The living processes that belong here, except the leader of the group.
    fn members(&self) -> Vec<Member> {
        let candidates = match self.kind {
            Kind::Strays => adopted(),
            Kind::Run(_) | Kind::Store | Kind::Child(_) => all_processes(),
        };
        // Whoever resumes a run from a shell that this run had left behind does not want to end that shell.
        let above: Vec<Pid> =
            std::iter::successors(Some(rustix::process::getpid()), |pid| parent(*pid)).collect();
        let mut seen: Vec<(Pid, Stat)> =
            candidates.into_iter().filter_map(|pid| Some((pid, stat(pid)?))).collect();
        seen.retain(|(pid, stat)| stat.lives() && Some(*pid) != self.group && !above.contains(pid));
        let (mut found, mut others): (Vec<_>, Vec<_>) =
            seen.into_iter().partition(|(pid, _)| self.belongs(*pid));
        self.add_relatives(&mut found, &mut others);
        let mut members = Vec::new();
        for (pid, seen) in found {
            match pidfd_open(pid, PidfdFlags::empty()) {
                // Once more, now that the handle cannot become another process.
                Ok(handle) if stat(pid).is_some_and(|now| now.started == seen.started && now.lives()) => {
                    members.push(Member { handle, about: about(pid) });
                }
                // These will do for a start: whoever ends them looks again.
                Err(Errno::MFILE | Errno::NFILE) if !members.is_empty() => break,
                _ => {}
            }
        }
        members
    }

    /// Moves over whoever was started by one that belongs here or by the leader, or shares a group with one.
    fn add_relatives(&self, found: &mut Vec<(Pid, Stat)>, others: &mut Vec<(Pid, Stat)>) {
        if let Kind::Strays = self.kind {
            return;
        }
        let own_group = rustix::process::getpgrp().as_raw_pid();
        let leader = self.group.map(Pid::as_raw_pid);
        found.extend(others.extract_if(.., |(_, other)| Some(other.parent) == leader));
        let mut next = 0;
        while let Some((pid, stat)) = found.get(next) {
            let (pid, group) = (pid.as_raw_pid(), stat.group);
            let is_related = |other: &Stat| other.parent == pid || other.group == group && group != own_group;
            found.extend(others.extract_if(.., |(_, other)| is_related(other)));
            next += 1;
        }
    }

    fn belongs(&self, pid: Pid) -> bool {
        stat(pid).is_some_and(|stat| stat.lives() && (self.has_group(&stat) || self.is_marked(pid, &stat)))
    }

    fn is_marked(&self, pid: Pid, stat: &Stat) -> bool {
        let environment = environment(pid);
        let marks = marks_of(&environment);
        let brand = || Brand::read(pid);
        match self.kind {
            Kind::Run(run) => {
                marks.iter().any(|mark| mark.is_of_run(run))
                    || brand().is_some_and(|brand| brand.is_of_run(run))
            }
            Kind::Store => {
                marks.iter().any(ProcessMark::is_of_store)
                    || brand().is_some_and(|brand| brand.is_of_run(b""))
            }
            Kind::Child(child) => {
                let own = Brand::of_child(child);
                marks.iter().any(|mark| mark.child == child.as_bytes()) || own.is_some() && own == brand()
            }
            Kind::Strays => marks.is_empty() && !is_claimed(brand(), stat),
        }
    }

    fn has_group(&self, stat: &Stat) -> bool {
        self.group.is_some_and(|group| stat.group == group.as_raw_pid())
    }
}

impl Member {
    fn signal(&self, signal: Signal) {
        // The only failures are that it is gone, or became another user's, which nothing here can change.
        let _ = pidfd_send_signal(&self.handle, signal);
        if signal != Signal::KILL {
            let _ = pidfd_send_signal(&self.handle, Signal::CONT);
        }
    }
}

/// Whether a running child of ours can have started a process: the one that its brand names, or where it names none,
/// each that was there before it.
fn is_claimed(brand: Option<Brand>, stray: &Stat) -> bool {
    let running: Vec<i32> = started().keys().copied().collect();
    let mut running = running.into_iter().filter_map(Pid::from_raw);
    match brand.filter(|brand| brand.is_numbered()) {
        Some(brand) => running.any(|pid| Brand::read(pid) == Some(brand)),
        None => running.any(|pid| stat(pid).is_some_and(|child| child.started <= stray.started)),
    }
}

/// Returns when all are gone, at `until`, or when a control asks for something.
fn wait_until_gone(mut members: Vec<Member>, until: Option<Instant>, waiting: Option<&ControlWaiter<'_>>) {
    while !members.is_empty() {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return;
        }
        let mut fds: Vec<PollFd<'_>> =
            members.iter().map(|member| PollFd::new(&member.handle, PollFlags::IN)).collect();
        fds.extend(waiting.map(|waiting| PollFd::from_borrowed_fd(waiting.fd(), PollFlags::IN)));
        match poll(&mut fds, left.and_then(|left| Timespec::try_from(left).ok()).as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
        let gone: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        if let Some(waiting) = waiting
            && gone[members.len()]
        {
            waiting.clear();
            return;
        }
        let mut index = 0;
        members.retain(|_| {
            index += 1;
            !gone[index - 1]
        });
    }
}

/// The living processes that became ours because their parent ended. Usually there are none, and that is known after
/// one call and without a lock that a start would hold. The dead ones are waited for, so that their numbers become
/// free.
fn adopted() -> Vec<Pid> {
    if own_children().is_empty() {
        return Vec::new();
    }
    // Alone, for two reasons: a child that is just being started is not known yet, and the list of the kernel leaves
    // out a process when another one before it disappears while it is read.
    let _alone = STARTING.write().unwrap_or_else(PoisonError::into_inner);
    let own_group = rustix::process::getpgrp().as_raw_pid();
    let mut children = Vec::new();
    for _ in 0..MOST_LOOKS {
        children = settled_children();
        children.retain(|pid| !started().contains_key(&pid.as_raw_pid()));
        children.retain(|pid| stat(*pid).is_some_and(|stat| stat.group != own_group));
        let count = children.len();
        // An orphan is nobody else's to wait for.
        children.retain(|pid| {
            matches!(waitid(WaitId::Pid(*pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG), Ok(None))
        });
        // One that ended left its own children to us, maybe after we had read the list.
        if children.len() == count {
            break;
        }
    }
    children
}

/// The children of our first thread, seen twice the same: that thread itself may wait for one of them meanwhile.
fn settled_children() -> Vec<Pid> {
    let mut children = own_children();
    for _ in 0..MOST_LOOKS {
        let before = std::mem::replace(&mut children, own_children());
        if before == children {
            break;
        }
    }
    children
}

fn own_children() -> Vec<Pid> {
    let Some(file) = &*CHILDREN else {
        let own = rustix::process::getpid().as_raw_pid();
        let ours = |pid: &Pid| stat(*pid).is_some_and(|stat| stat.parent == own);
        return all_processes().into_iter().filter(ours).collect();
    };
    let mut text = Vec::new();
    let mut buffer = [0; 512];
    loop {
        match rustix::io::pread(file, &mut buffer, text.len() as u64) {
            Ok(0) => break,
            Ok(count) => text.extend_from_slice(&buffer[..count]),
            Err(Errno::INTR) => {}
            Err(_) => break,
        }
    }
    text.split(|&byte| byte == b' ').filter_map(parse_pid).collect()
}

fn all_processes() -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| parse_pid(entry.ok()?.file_name().as_bytes())).collect()
}

fn parse_pid(digits: &[u8]) -> Option<Pid> {
    Pid::from_raw(std::str::from_utf8(digits).ok()?.parse().ok()?)
}

/// The environment that a process was started with; empty for one that is gone or not ours to look at.
///
/// A process that is just starting another program, or is just about to end, has neither environment nor arguments for
/// an instant, and would be missed. So an empty one is believed only when it was seen again and again at another time.
fn environment(pid: Pid) -> Vec<u8> {
    const BELIEVED: usize = 3;
    const INSTANT: Duration = Duration::from_secs(1);
    let give_up_at = Instant::now() + INSTANT;
    let mut seen = 0;
    while seen < BELIEVED && Instant::now() < give_up_at {
        match first_environment(pid) {
            Ok(found) if !found.is_empty() => return found,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => break,
            _ => {}
        }
        if is_changing(pid) {
            seen = 0;
            std::thread::yield_now();
        } else {
            seen += 1;
        }
    }
    Vec::new()
}

/// What the first thread of a process shows, or another one where the first has ended.
fn first_environment(pid: Pid) -> io::Result<Vec<u8>> {
    let shown = fs::read(format!("/proc/{pid}/environ"));
    if !stat(pid).is_some_and(|stat| stat.first_thread_ended && stat.lives()) {
        return shown;
    }
    let threads = fs::read_dir(format!("/proc/{pid}/task"))?.filter_map(Result::ok);
    let mut shown = threads.filter_map(|thread| fs::read(thread.path().join("environ")).ok());
    Ok(shown.find(|environment| !environment.is_empty()).unwrap_or_default())
}

/// Whether a process is between two programs, or between its last one and its end. The dead and the kernel's own have no
/// arguments either, and never will.
fn is_changing(pid: Pid) -> bool {
    const KERNEL: i32 = 2;
    let no_arguments = fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|arguments| arguments.is_empty());
    no_arguments
        && stat(pid).is_some_and(|stat| stat.lives() && stat.parent != KERNEL && pid.as_raw_pid() != KERNEL)
}

fn about(pid: Pid) -> LeftOver {
    let environment = environment(pid);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let program = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    LeftOver {
        pid: pid.as_raw_pid(),
        step: text(step_of(&environment)),
        program: text(program.trim_ascii_end()),
    }
}

/// A few fields of `/proc/PID/stat`.
struct Stat {
    first_thread_ended: bool,
    parent: i32,
    group: i32,
    threads: usize,
    /// When it was started, in ticks since the computer was.
    started: u64,
}

impl Stat {
    /// A process ends with its last thread, not with its first.
    fn lives(&self) -> bool {
        !self.first_thread_ended || self.threads > 1
    }
}

/// When a process was started.
fn start_time(pid: Pid) -> Option<SystemTime> {
    let ticks = Duration::from_secs(stat(pid)?.started) / u32::try_from(clock_ticks_per_second()).ok()?;
    let uptime = fs::read_to_string("/proc/uptime").ok()?;
    let uptime = Duration::try_from_secs_f64(uptime.split(' ').next()?.parse().ok()?).ok()?;
    SystemTime::now().checked_sub(uptime.saturating_sub(ticks))
}

fn parent(pid: Pid) -> Option<Pid> {
    Pid::from_raw(stat(pid)?.parent)
}

fn stat(pid: Pid) -> Option<Stat> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program stands in parentheses and may hold anything, so count from the last one.
    let after_name = text.iter().rposition(|&byte| byte == b')')? + 2;
    let fields = std::str::from_utf8(text.get(after_name..)?).ok()?;
    let mut fields = fields.split(' ');
    let first_thread_ended = matches!(fields.next()?, "Z" | "X");
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    // Fourteen fields on.
    let threads = fields.nth(14)?.parse().ok()?;
    let started = fields.nth(1)?.parse().ok()?;
    Some(Stat { first_thread_ended, parent, group, threads, started })
}
