//! Tools of MCP servers: a client for what a workflow needs of the protocol, over stdio and over HTTP.
//!
//! A server is started or greeted when one of its tools is first called, serves all steps of the run, and is ended with
//! it. One that ended meanwhile is started again by the next call. Only tools are asked for: nothing is offered to a
//! server, and what it asks of us is refused.

mod listings;
mod message;
mod stdio;
mod web;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use threadline_engine::evaluate::{ResolvedReach, ResolvedServer, ResolvedToolCall};
use threadline_engine::execute::effect::{EffectLimits, ToolAnswer};
use threadline_expect::JsonSchema;
use threadline_flow::fields::{Failure, FailureKind};
use threadline_lang::Value;
use threadline_lang::diag::{nearest, words};

use crate::process::{Control, Environment};
use crate::secrets::masks::Masks;
use message::ExchangeError;

pub use listings::KeptListings;

/// The version of the protocol that we ask for. A server may answer with an older one; what we use is the same in all.
const PROTOCOL: &str = "2025-06-18";

/// How long a server may take to say who it is: the first start of one may fetch it from a registry.
const GREETING: Duration = Duration::from_mins(2);

/// So many pages of a list of tools are read.
const MAX_PAGES: usize = 100;

/// That the parameters of a tool cannot be checked, and why.
pub fn unchecked_parameters(tool: &str, why: &str) -> String {
    format!("the parameters of `{tool}` are not checked: its server sends {why}")
}

/// What servers run in.
#[derive(Clone)]
pub struct ServerSurroundings {
    /// Their environment, before what each adds to it.
    pub env: Environment,
    /// The run that they belong to, for their mark.
    pub run: String,
    /// The folder they run in.
    pub here: PathBuf,
    /// The folder for what is too large for memory.
    pub spool: PathBuf,
    /// Ends the servers when it is cancelled.
    pub control: Control,
    /// What masks what they print to standard error.
    pub masks: Option<Arc<Masks>>,
    /// Where to keep what they say of their tools, if there is a store.
    pub kept: Option<KeptListings>,
}

/// The servers of a run.
pub struct Servers {
    surroundings: ServerSurroundings,
    known: Mutex<BTreeMap<ResolvedServer, Arc<Slot>>>,
}

/// A server, while it lives. Who starts it holds the lock, so that it is started once.
type Slot = Mutex<Option<Arc<Client>>>;

/// A tool as its server describes it.
#[derive(Debug, Clone)]
pub struct Tool {
    /// The name of the tool.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// The JSON Schema of its parameters.
    pub parameters: Value,
    /// The JSON Schema of its result, if it has one.
    pub result: Option<Value>,
}

/// What a server says of itself.
#[derive(Debug, Clone)]
pub struct Listing {
    /// Its own name.
    pub title: Option<String>,
    /// The version that the server reports.
    pub version: Option<String>,
    /// Its tools, in its order.
    pub tools: Vec<Tool>,
}

/// What came of calling a tool.
pub(crate) struct CalledTool {
    pub(crate) answer: ToolAnswer,
    /// Why its parameters were not checked, if they could not be.
    pub(crate) unchecked: Option<String>,
}

/// A server that was greeted.
struct Client {
    connection: Connection,
    listing: Listing,
}

enum Connection {
    Stdio(stdio::Stdio),
    Web(web::Web),
}

impl Servers {
    /// No server yet.
    pub fn new(surroundings: ServerSurroundings) -> Self {
        Self { surroundings, known: Mutex::default() }
    }

    /// What a server says of itself; starts it if need be.
    pub fn listing(&self, server: &ResolvedServer) -> Result<Listing, Failure> {
        let client = self.client(server, None).map_err(|failed| failed.failure(server, None, None))?;
        Ok(client.listing.clone())
    }

    /// The tools of a server as it describes them, as a value; starts it if need be.
    pub(crate) fn described(&self, server: &ResolvedServer, limits: EffectLimits) -> Result<Value, Failure> {
        let deadline = limits.timeout.map(|timeout| Instant::now() + timeout);
        let client = self.client(server, deadline);
        let client = client.map_err(|failed| failed.failure(server, None, limits.timeout))?;
        Ok(listings::described(&client.listing))
    }

    /// Calls a tool and waits for its answer.
    pub(crate) fn call(&self, call: &ResolvedToolCall, limits: EffectLimits) -> CalledTool {
        let deadline = limits.timeout.map(|timeout| Instant::now() + timeout);
        let (mut version, mut unchecked) = (None, None);
        let called = self.client(&call.server, deadline).and_then(|client| {
            version.clone_from(&client.listing.version);
            client.call(call, deadline, &mut unchecked)
        });
        let failed = |failed: ExchangeError| failed.failure(&call.server, Some(&call.tool), limits.timeout);
        CalledTool { answer: ToolAnswer { result: called.map_err(failed), version }, unchecked }
    }

    /// A server that lives.
    fn client(
        &self,
        server: &ResolvedServer,
        deadline: Option<Instant>,
    ) -> Result<Arc<Client>, ExchangeError> {
        let slot = Arc::clone(lock(&self.known).entry(server.clone()).or_default());
        let mut slot = lock(&slot);
        if let Some(client) = slot.as_ref().filter(|client| client.connection.lives()) {
            return Ok(Arc::clone(client));
        }
        *slot = None;
        let connection = match &server.reach {
            ResolvedReach::Program { command, env, cwd } => Connection::Stdio(stdio::Stdio::start(
                &self.surroundings,
                &server.name,
                command,
                env,
                cwd.as_deref(),
            )?),
            ResolvedReach::Url { url, headers, hosts } => Connection::Web(web::Web::new(url, headers, hosts)),
        };
        let greeting = Instant::now() + GREETING;
        let client =
            Client::greet(connection, Some(deadline.map_or(greeting, |deadline| deadline.min(greeting))))?;
        if let Some(kept) = &self.surroundings.kept {
            kept.keep(server, &client.listing, self.surroundings.masks.as_ref());
        }
        Ok(Arc::clone(slot.insert(Arc::new(client))))
    }

    /// Ends all servers.
    pub fn end(&self) {
        let known = std::mem::take(&mut *lock(&self.known));
        // One that is being greeted, for a call that nobody waits for any more, is ended by the control.
        let clients: Vec<Arc<Client>> =
            known.values().filter_map(|slot| slot.try_lock().ok()?.take()).collect();
        // All are asked before any is waited for.
        for client in &clients {
            client.connection.ask_to_end();
        }
        for client in &clients {
            client.connection.wait_for_end();
        }
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.end();
    }
}

impl Client {
    /// Says who we are, and asks for the tools.
    fn greet(connection: Connection, deadline: Option<Instant>) -> Result<Self, ExchangeError> {
        let us =
            Value::record([("name", "threadline".into()), ("version", env!("CARGO_PKG_VERSION").into())]);
        let params = Value::record([
            ("protocolVersion", PROTOCOL.into()),
            ("capabilities", Value::empty_object()),
            ("clientInfo", us),
        ]);
        let greeted = connection.request("initialize", params, deadline)?;
        connection.greeted(&greeted);
        connection.notify("notifications/initialized", Value::empty_object());
        let of_server = |key: &str| {
            let found = greeted.get("serverInfo").and_then(|info| info.get(key));
            found.and_then(Value::as_str).map(str::to_owned)
        };
        let mut listing =
            Listing { title: of_server("name"), version: of_server("version"), tools: Vec::new() };
        let mut cursor: Option<Value> = None;
        for _ in 0..MAX_PAGES {
            let params =
                cursor.take().map_or_else(Value::empty_object, |cursor| Value::record([("cursor", cursor)]));
            let page = connection.request("tools/list", params, deadline)?;
            listing
                .tools
                .extend(page.get("tools").and_then(Value::as_list).into_iter().flatten().filter_map(tool));
            cursor = page.get("nextCursor").filter(|cursor| cursor.as_str().is_some()).cloned();
            if cursor.is_none() {
                break;
            }
        }
        Ok(Self { connection, listing })
    }

    fn call(
        &self,
        call: &ResolvedToolCall,
        deadline: Option<Instant>,
        unchecked: &mut Option<String>,
    ) -> Result<Value, ExchangeError> {
        let tools = &self.listing.tools;
        let Some(tool) = tools.iter().find(|tool| tool.name == call.tool.as_str()) else {
            let names = tools.iter().map(|tool| tool.name.as_str());
            let near = nearest(&call.tool, names.clone()).map(|near| format!("; did you mean `{near}`"));
            let all = || format!("; it has {}", words::names(names.map(|name| format!("`{name}`"))));
            return Err(ExchangeError::NoTool(near.unwrap_or_else(all)));
        };
        // A schema that is none is the server's affair, but whoever relies on it has to know.
        let schema = JsonSchema::compile(&tool.parameters);
        let name = || format!("{}.{}", call.server.name, call.tool);
        let schema = schema.map_err(|why| *unchecked = Some(unchecked_parameters(&name(), &why))).ok();
        let problems = schema.map(|schema| schema.problems(&call.params)).unwrap_or_default();
        if !problems.is_empty() {
            return Err(ExchangeError::Params(problems.join("; ")));
        }
        let params = Value::record([("name", call.tool.clone().into()), ("arguments", call.params.clone())]);
        self.connection.request("tools/call", params, deadline)
    }
}

fn tool(described: &Value) -> Option<Tool> {
    let text = |key: &str| described.get(key).and_then(Value::as_str).map(str::to_owned);
    let parameters = described.get("inputSchema").cloned().unwrap_or_else(Value::empty_object);
    let result = described.get("outputSchema").cloned();
    Some(Tool { name: text("name")?, description: text("description"), parameters, result })
}

impl Connection {
    fn request(
        &self,
        method: &str,
        params: Value,
        deadline: Option<Instant>,
    ) -> Result<Value, ExchangeError> {
        match self {
            Self::Stdio(stdio) => stdio.request(method, params, deadline),
            Self::Web(web) => web.request(method, params, deadline),
        }
    }

    fn notify(&self, method: &str, params: Value) {
        match self {
            Self::Stdio(stdio) => stdio.notify(method, params),
            Self::Web(web) => web.notify(method, params),
        }
    }

    /// The server has said who it is.
    fn greeted(&self, greeted: &Value) {
        if let (Self::Web(web), Some(version)) =
            (self, greeted.get("protocolVersion").and_then(Value::as_str))
        {
            web.speaks(version);
        }
    }

    fn lives(&self) -> bool {
        match self {
            Self::Stdio(stdio) => stdio.lives(),
            Self::Web(web) => web.lives(),
        }
    }

    fn ask_to_end(&self) {
        match self {
            Self::Stdio(stdio) => stdio.ask_to_end(),
            Self::Web(web) => web.end(),
        }
    }

    fn wait_for_end(&self) {
        if let Self::Stdio(stdio) = self {
            stdio.wait_for_end();
        }
    }
}

impl ExchangeError {
    /// As the failure of a step.
    fn failure(self, server: &ResolvedServer, tool: Option<&str>, timeout: Option<Duration>) -> Failure {
        let name = &server.name;
        let tool = tool.unwrap_or_default();
        match self {
            Self::Failure(failure) => {
                Failure::new(failure.kind, format!("server `{name}`: {}", failure.message))
            }
            Self::Timeout => {
                let time = timeout.map_or_else(
                    || format!(": no greeting in {}", words::duration(GREETING)),
                    |time| format!(" after {}", words::duration(time)),
                );
                Failure::new(FailureKind::Timeout, format!("timed out{time}"))
            }
            Self::Ended(how) => Failure::new(FailureKind::Tool, format!("the server `{name}` ended, {how}")),
            Self::Error(message) => Failure::new(FailureKind::Tool, message),
            Self::NoTool(rest) => {
                Failure::new(FailureKind::Tool, format!("the server `{name}` has no tool `{tool}`{rest}"))
            }
            Self::Unreadable(why) => Failure::new(
                FailureKind::Format,
                format!("the answer of the server `{name}` cannot be read: {why}"),
            ),
            Self::TooLarge(limit) => {
                Failure::new(FailureKind::OutputTooLarge, format!("the answer is larger than {limit} bytes"))
            }
            Self::Params(problems) => Failure::new(
                FailureKind::Tool,
                format!("`params` are not what `{name}.{tool}` takes: {problems}"),
            ),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
