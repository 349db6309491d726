//! Requests and tools, through the binary.

mod http;
mod mcp;
pub(crate) mod server;
