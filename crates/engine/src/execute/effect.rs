//! What the world is asked to do for a command, and what it answers.
//!
//! Both are plain data: they hold no plan, no scope and no open file, so that a worker elsewhere can perform an effect.
//! Nothing is performed here, and nothing is concluded from an answer.

use std::fmt;
use std::time::Duration;

use ecow::EcoString;
use threadline_lang::Value;

use threadline_flow::fields::{Failure, FailureKind};

use super::result::Timing;
use crate::evaluate::{FieldErrors, Request, ResolvedCall, ResolvedServer, ResolvedToolCall};
use crate::event::{Address, Datum, Listed, Seq};
use crate::select::{Expansion, ResolvedSource};
use crate::spend::Spend;
use crate::world::Answer;

/// Names an effect among all effects of a run: the same key is the same effect, also after a crash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectKey {
    /// The execution it belongs to.
    pub at: Address,
    /// The event that made that execution ready. An item that begins again starts the same address with attempt 1 again.
    pub as_of: Seq,
    /// The attempt, from 1.
    pub attempt: u32,
    /// What the effect is for.
    pub role: Role,
    /// Which exchange of the attempt it is for, from 0: an agent may be asked several times.
    pub exchange: u32,
}

/// What an effect is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The action of a step.
    Act,
    /// The items of a list.
    Items,
    /// The judgement of a state.
    Judge,
    /// The worktree of an item.
    Worktree,
}

impl Role {
    /// Every role, in no particular order.
    pub const ALL: [Self; 4] = [Self::Act, Self::Items, Self::Judge, Self::Worktree];

    /// The role as it stands in a key.
    pub fn name(self) -> &'static str {
        match self {
            Self::Act => "act",
            Self::Items => "items",
            Self::Judge => "judge",
            Self::Worktree => "worktree",
        }
    }
}

impl fmt::Display for EffectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}/{}", self.at, self.as_of, self.attempt, self.role.name())?;
        if self.exchange == 0 { Ok(()) } else { write!(f, "/{}", self.exchange) }
    }
}

/// Something that only the world can do.
#[derive(Debug, Clone)]
pub enum Effect {
    /// Nothing: what the attempt leaves is known already.
    Nothing,
    /// Let time pass.
    Pause(Duration),
    /// Run a program to its end.
    Process(ProcessSpec),
    /// Send a request and read the whole response.
    Request(RequestSpec),
    /// Call a tool of a server.
    Tool(ToolSpec),
    /// Ask a server which tools it has.
    ListTools(ListingSpec),
    /// Read a file of the project.
    ReadFile(ReadSpec),
    /// Write a file of the project.
    WriteFile(FileSpec),
    /// Drive a run of another workflow to its end.
    Workflow(CallSpec),
    /// Read the source of a list, choose its items and store them.
    ReadItems(Box<ItemsSpec>),
    /// Enter the worktree of an item.
    EnterWorktree {
        /// The index of the item.
        item: u64,
        /// What becomes of the files in it.
        entry: WorktreeEntry,
    },
    /// Merge the commits of an item into the branch of the run.
    MergeItem(u64),
    /// Free the worktree of an item that failed.
    AbandonItem {
        /// The index of the item.
        item: u64,
        /// Whether a branch keeps its commits.
        keep: bool,
    },
    /// Close the worktrees of a map whose items are all over.
    CloseWorktrees,
    /// An effect with masks in place of secrets. Whoever has the secrets makes it again with their values, by
    /// [`super::Executor::reveal`], and performs that; nobody else can.
    WithSecrets(Box<Effect>),
}

impl Effect {
    /// Whether a worker elsewhere performs it, in a run that has some.
    pub fn is_act(&self) -> bool {
        match self {
            Self::Process(_) | Self::Request(_) => true,
            Self::WithSecrets(effect) => effect.is_act(),
            _ => false,
        }
    }
}

/// What becomes of the files of a worktree that is entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorktreeEntry {
    /// Nothing: no attempt begins, or several may change them at once.
    AsTheyAre,
    /// They are remembered, because an attempt begins.
    Save,
    /// They are put back as they were when the attempt began that a crash cut off.
    Restore,
}

/// Text whose pieces may be the paths of private files, which are known only where the effect is performed.
pub type Pieces = Vec<EffectText>;

/// A piece of an argument or of a private file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EffectText {
    /// Text as it stands.
    Text(String),
    /// The path of the private file at this index.
    PathOf(usize),
    /// The same path in single quotes, as a word of a shell.
    QuotedPathOf(usize),
}

impl EffectText {
    /// About how many bytes it takes.
    pub fn length(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::PathOf(_) | Self::QuotedPathOf(_) => PATH,
        }
    }
}

/// The length that is assumed of the path of a private file.
const PATH: usize = 256;

/// A program to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessSpec {
    /// The program: a path, or a name to look for on `PATH`.
    pub program: Pieces,
    /// The arguments of the program.
    pub arguments: Vec<Pieces>,
    /// Private files to write before it starts and to remove after it ended. A file may name those before it.
    pub files: Vec<Pieces>,
    /// Variables to set in the environment of the run, or to remove from it.
    pub env: Vec<(EcoString, Option<String>)>,
    /// The folder to run in, relative to the folder of the run.
    pub cwd: Option<String>,
    /// The bytes of its standard input; without them it has none.
    pub stdin: Option<String>,
    /// Whether it may report what it used, in a private file that is named by [`USAGE_VARIABLE`] in its environment.
    pub reports_usage: bool,
    /// How long it may run and how much it may print.
    pub limits: EffectLimits,
}

impl ProcessSpec {
    /// Every text that a value can stand in, always in the same order.
    pub fn texts_mut(&mut self) -> Vec<&mut String> {
        let Self { program, arguments, files, env, cwd, stdin, reports_usage: _, limits: _ } = self;
        let pieces = std::iter::once(program).chain(arguments).chain(files).flatten();
        let pieces = pieces.filter_map(|piece| match piece {
            EffectText::Text(text) => Some(text),
            EffectText::PathOf(_) | EffectText::QuotedPathOf(_) => None,
        });
        let variables = env.iter_mut().filter_map(|(_, value)| value.as_mut());
        pieces.chain(variables).chain(cwd).chain(stdin).collect()
    }
}

/// The variable that names the file in which a program reports what it used.
pub const USAGE_VARIABLE: &str = "THREADLINE_USAGE";

/// The most bytes that such a report may have.
pub const MAX_USAGE_REPORT: u64 = 64 << 10;

/// Bounds on an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EffectLimits {
    /// The longest time it may take.
    pub timeout: Option<Duration>,
    /// The longest time it may print nothing.
    pub idle_timeout: Option<Duration>,
    /// The maximum number of bytes of each stream, or of an answer.
    pub max_output: u64,
}

/// A request to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestSpec {
    /// The request to send.
    pub request: Request,
    /// Bounds on the response.
    pub limits: EffectLimits,
}

impl RequestSpec {
    /// Every text that a value can stand in, always in the same order.
    pub fn texts_mut(&mut self) -> Vec<&mut String> {
        let Request { method: _, url, headers, body, hosts: _ } = &mut self.request;
        std::iter::once(url).chain(headers.iter_mut().map(|(_, value)| value)).chain(body).collect()
    }
}

/// A tool to call.
#[derive(Debug, Clone)]
pub struct ToolSpec {
    /// The server, the tool and its parameters.
    pub call: ResolvedToolCall,
    /// Bounds on the answer.
    pub limits: EffectLimits,
}

/// A server to ask for its tools.
#[derive(Debug, Clone)]
pub struct ListingSpec {
    /// The server to ask.
    pub server: ResolvedServer,
    /// Bounds on the answer.
    pub limits: EffectLimits,
}

/// A file to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadSpec {
    /// The path, relative to the folder of the run.
    pub path: String,
}

/// A file to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSpec {
    /// The path, relative to `cwd`.
    pub path: String,
    /// The content of the file.
    pub content: String,
    /// The permissions, where they are not the usual ones.
    pub mode: Option<u32>,
    /// Whether missing folders are created.
    pub create_dirs: bool,
    /// The folder of the step, relative to the folder of the run.
    pub cwd: Option<String>,
}

/// A workflow to call.
#[derive(Debug, Clone)]
pub struct CallSpec {
    /// The file and its inputs.
    pub call: ResolvedCall,
    /// Which attempt calls it.
    pub attempt: Attempt,
    /// Variables for everything that the called run starts.
    pub env: Vec<(EcoString, Option<String>)>,
    /// The folder of its steps, relative to the folder of the run.
    pub cwd: Option<String>,
    /// The longest time it may take.
    pub timeout: Option<Duration>,
}

/// An attempt of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// Its number, from 1.
    pub number: u32,
    /// The number of attempts before the last resume after a failure, which do not count for `retry`.
    pub base: u32,
    /// Whether it was running when Threadline was killed.
    pub rerun: bool,
    /// The event that began the attempt before, or this one when it was running.
    pub began: Option<Seq>,
}

impl Attempt {
    /// The number of attempts before this one.
    pub fn retries(self) -> u32 {
        self.number.saturating_sub(1)
    }
}

/// The items to read.
#[derive(Debug, Clone)]
pub struct ItemsSpec {
    /// What is taken of the source.
    pub expansion: Expansion,
    /// The source; that of a command is what it printed.
    pub source: ItemsSource,
    /// Values that were computed before: they are the same again.
    pub earlier: Vec<Answer>,
}

/// Where items are read from.
#[derive(Debug, Clone)]
pub enum ItemsSource {
    /// A list or a file.
    Resolved(ResolvedSource),
    /// What a command printed.
    Printed(String),
}

/// What came of an effect.
#[derive(Debug, Clone)]
pub enum EffectResult {
    /// It was not performed, or ended early, because Threadline was told to end.
    Cancelled,
    /// It was not performed, for this reason.
    Refused(Failure),
    /// It may have begun, was cut off where it was performed, for this reason, and may not begin twice.
    Interrupted(String),
    /// What came of it held these secrets, which are masked now.
    Leaked(Box<EffectResult>, Vec<EcoString>),
    /// Nothing had to be done.
    Nothing,
    /// How a program ended, or why it did not start.
    Process(Result<ProcessEnd, StartFailure>),
    /// The response to a request, or why there is none.
    Response(Result<Response, NoResponse>, Timing),
    /// The answer of a tool.
    Tool(ToolAnswer, Timing),
    /// The tools of a server as it describes them, or why they are not known.
    Tools(Result<Value, Failure>, Timing),
    /// The text of a file, or why it could not be read.
    Read(Result<String, Failure>, Timing),
    /// Whether a file was written.
    Written(Result<(), Failure>, Timing),
    /// What a called run came to.
    Called(CallEnd, Timing),
    /// The items that were chosen.
    Items(Result<ChosenItems, NotChosen>),
    /// Whether the worktree of an item can be used, or its commits were merged.
    Worktree(Result<(), Failure>),
    /// The branch that keeps commits, if there is one.
    Branch(Option<EcoString>),
}

impl EffectResult {
    /// The result by itself, and the secrets that were masked in it.
    pub fn split_leaked(self) -> (Self, Vec<EcoString>) {
        match self {
            Self::Leaked(result, secrets) => (*result, secrets),
            result => (result, Vec::new()),
        }
    }
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessEnd {
    /// What ended it.
    pub ending: ProcessEnding,
    /// What it wrote to standard output, or why that cannot be read.
    pub stdout: Result<Vec<u8>, String>,
    /// What it wrote to standard error.
    pub stderr: Vec<u8>,
    /// The processor time it used.
    pub cpu_time: Duration,
    /// The most memory that it held, in bytes.
    pub max_memory: u64,
    /// What it reported of what it used, or why that cannot be read.
    pub usage: Option<Result<String, String>>,
    /// When it ran.
    pub timing: Timing,
    /// Which worker ran it; none where the run itself did. Whoever asked that worker says it.
    pub worker: Option<EcoString>,
}

impl ProcessEnd {
    /// The end of a program that was never run and printed this.
    pub(crate) fn printed(ending: ProcessEnding, stdout: &str, timing: Timing) -> Self {
        let (stdout, stderr) = (Ok(stdout.into()), Vec::new());
        let (cpu_time, max_memory, usage, worker) = (Duration::ZERO, 0, None, None);
        Self { ending, stdout, stderr, cpu_time, max_memory, usage, timing, worker }
    }
}

/// What ended a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessEnding {
    /// It exited with this code.
    Exited(i32),
    /// A signal that was not ours.
    Signalled(i32),
    /// It ran longer than its `timeout`.
    TimedOut,
    /// It printed nothing for its `idle_timeout`.
    Silent,
    /// Threadline was told to end.
    Cancelled,
    /// It wrote more than `max_output` to this stream.
    OutputTooLarge(Stream),
    /// What it wrote to this stream could not be kept, for this reason.
    OutputNotKept(Stream, String),
    /// It asked the terminal for input.
    NeedsTerminal,
}

/// One of the two streams that a program writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// The standard output of the program.
    Stdout,
    /// The standard error of the program.
    Stderr,
}

impl Stream {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Stdout, Self::Stderr];

    /// Its usual name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// Why a program could not be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartFailure {
    /// The reason in words.
    pub message: String,
    /// How to mend it.
    pub hint: Option<String>,
    /// Whether no program of that name is on `PATH`.
    pub is_missing: bool,
    /// `Start`, or `File` where a value for the program could not be written.
    pub kind: FailureKind,
}

/// What a server responded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// What the status code is called.
    pub reason: Option<String>,
    /// The header lines in the order of their first occurrence; several of one name are joined.
    pub headers: Vec<(EcoString, String)>,
    /// The body as it was received.
    pub body: Vec<u8>,
    /// Which worker sent the request; none where the run itself did. Whoever asked that worker says it.
    pub worker: Option<EcoString>,
}

impl Response {
    /// Whether the status code is 2xx.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The value of a header line. Names are in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Why there is no response, and how far the request came: whoever is asked for an answer that breaks off is paid for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoResponse {
    /// The reason.
    pub failure: Failure,
    /// Whether the server may have heard of the request.
    pub is_sent: bool,
    /// The response as far as it came.
    pub received: Option<Box<Response>>,
}

impl NoResponse {
    /// The server has not heard of the request.
    pub fn unsent(failure: Failure) -> Self {
        Self { failure, is_sent: false, received: None }
    }
}

/// What a tool answered.
#[derive(Debug, Clone)]
pub struct ToolAnswer {
    /// The result of the protocol, or why there is none.
    pub result: Result<Value, Failure>,
    /// The version of the server, if it says one.
    pub version: Option<String>,
}

/// What a called run came to.
#[derive(Debug, Clone)]
pub struct CallEnd {
    /// What it exports, or why it failed.
    pub value: Result<Value, Failure>,
    /// Meta data about it.
    pub meta: Vec<(&'static str, Value)>,
    /// What it spent on agents.
    pub spent: Spend,
}

/// The items that were chosen.
#[derive(Debug, Clone)]
pub struct ChosenItems {
    /// Where they are stored.
    pub items: Listed,
    /// The number of items that were chosen.
    pub count: u64,
    /// The number of elements that were read.
    pub read: u64,
    /// Whether the source was read to its end and `json_path` found nothing in it.
    pub leads_nowhere: bool,
    /// What choosing them had to compute.
    pub computed: Vec<Answer>,
}

impl ChosenItems {
    /// A few items that need not be stored.
    pub(crate) fn whole(items: Vec<Value>) -> Self {
        let count = items.len() as u64;
        // A few values are never too many.
        let items = Listed::Whole(Datum::Here(Value::list(items).unwrap_or_default()));
        Self { items, count, read: count, leads_nowhere: false, computed: Vec::new() }
    }
}

/// Why no items were chosen.
#[derive(Debug, Clone)]
pub enum NotChosen {
    /// A field that is evaluated for each of them has no value.
    Fields(FieldErrors),
    /// The source cannot be read.
    Failed(Failure),
}
