//! Shows runs in a browser, and answers programs over HTTP: `threadline serve`.
//!
//! A request passes the gate, is looked up in the one table of routes, and has its parameters checked by that table; then a
//! handler reads a journal, and answers with data of `threadline-inspect` as JSON or as a page. The pages are made of what
//! the documented routes answer, and use nothing else.
//!
//! - `gate`: who is let in, before anything else. `token`, `public_url`: what it goes by.
//! - `routes`: the table, from which the description of the API is made, too (`openapi`).
//! - `parameters`: paths and queries, read as the table says.
//! - `server`, `connection`: what happens to a request, and the limits of a connection.
//! - `answer`, `problem`: answers with all their header fields, and why there is none.
//! - `projects`: the stores that are shown.
//! - `live`: the events of runs as they come. `whole`: large values, and the whole of one.
//! - `api`: the handlers that answer with data. `views`, `assets`: pages, and the files that they load.
//!
//! A run is never changed here, and nothing about one is decided: what is to be done is done by the same program as on a
//! command line. Nothing is asked of any other server.

mod answer;
mod api;
mod assets;
#[cfg(feature = "testing")]
mod attempt;
mod connection;
mod gate;
mod live;
mod openapi;
mod parameters;
mod problem;
mod projects;
mod public_url;
mod routes;
mod server;
mod token;
mod views;
mod whole;

#[cfg(feature = "testing")]
pub use attempt::{TRIED_HOST, TriedRequest, encoded_and_decoded, try_request};
pub use openapi::description;
pub use public_url::PublicUrl;
pub use server::{ServeSettings, WorkflowReader, serve};
pub use token::Token;
pub use views::run::report::report;
