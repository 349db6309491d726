//! Requests and tools, through the binary.

#[allow(dead_code, reason = "every test program uses a part of this")]
#[path = "acceptance/harness.rs"]
mod harness;
#[path = "tools/http.rs"]
mod http;
#[path = "tools/mcp.rs"]
mod mcp;
#[path = "tools/server.rs"]
mod server;
mod support;
