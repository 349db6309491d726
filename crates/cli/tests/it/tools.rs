//! Requests and tools, through the binary.

mod http;
mod mcp;
mod server;
