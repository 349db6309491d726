//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use threadline_lang::Undefined;

/// Typed, checked, safe values: `${...}` in templates, documents and expressions.
#[derive(Parser)]
#[command(name = "threadline", version, arg_required_else_help = true, disable_help_subcommand = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Print a text with its references resolved
    #[command(after_help = EXAMPLE_RENDER)]
    Render(Render),
    /// Print a YAML or JSON document with its references resolved, types kept
    #[command(after_help = EXAMPLE_RESOLVE)]
    Resolve(Resolve),
    /// Print the value of an expression as JSON
    #[command(after_help = EXAMPLE_EVAL)]
    Eval(Eval),
}

const EXAMPLE_RENDER: &str = "\
Example:
  threadline render --set name=World 'Hello ${name}!'

Exit codes: 0 well · 1 a reference failed · 2 wrong usage · 3 a file could not be read";
const EXAMPLE_RESOLVE: &str = "\
Example:
  threadline resolve --outputs outputs.json request.yaml

Exit codes: 0 well · 1 a reference failed · 2 wrong usage · 3 a file could not be read";
const EXAMPLE_EVAL: &str = "\
Example:
  threadline eval --set-json score=85 'score >= 80'

Exit codes: 0 well · 1 the expression failed · 2 wrong usage · 3 a file could not be read";

#[derive(Args)]
pub(crate) struct Render {
    #[command(flatten)]
    pub(crate) names: Names,
    /// What to do about a reference that has no value
    #[arg(long, value_name = "POLICY", default_value = "error")]
    pub(crate) undefined: Policy,
    /// Read the template from a file, `-` for stdin
    #[arg(long, value_name = "FILE", conflicts_with = "template")]
    pub(crate) file: Option<PathBuf>,
    /// The text to render
    #[arg(value_name = "TEMPLATE", required_unless_present = "file")]
    pub(crate) template: Option<String>,
}

#[derive(Args)]
pub(crate) struct Resolve {
    #[command(flatten)]
    pub(crate) names: Names,
    /// What to do about a reference that has no value
    #[arg(long, value_name = "POLICY", default_value = "error")]
    pub(crate) undefined: Policy,
    /// How to print the document
    #[arg(long, value_name = "FORMAT", default_value = "json")]
    pub(crate) format: Format,
    /// The YAML or JSON document, `-` for stdin; a top-level `context:` holds definitions
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

#[derive(Args)]
pub(crate) struct Eval {
    #[command(flatten)]
    pub(crate) names: Names,
    /// Show what every part of the expression came to
    #[arg(long)]
    pub(crate) explain: bool,
    /// Read the expression from a file, `-` for stdin
    #[arg(long, value_name = "FILE", conflicts_with = "expression")]
    pub(crate) file: Option<PathBuf>,
    /// The expression
    #[arg(value_name = "EXPRESSION", required_unless_present = "file")]
    pub(crate) expression: Option<String>,
}

/// Where names come from, and how their reading is shown.
#[derive(Args)]
pub(crate) struct Names {
    /// A JSON or YAML object whose keys become names, `-` for stdin
    #[arg(long, value_name = "FILE")]
    pub(crate) data: Option<PathBuf>,
    /// Outputs of nodes by id, as envelopes or in an older shape, `-` for stdin
    #[arg(long, value_name = "FILE")]
    pub(crate) outputs: Option<PathBuf>,
    /// Set a name, or a place in one, to a text
    #[arg(long, value_name = "PATH=TEXT")]
    pub(crate) set: Vec<String>,
    /// Set a name, or a place in one, to a JSON value
    #[arg(long, value_name = "PATH=JSON")]
    pub(crate) set_json: Vec<String>,
    /// Let `cmd:` run commands
    #[arg(long)]
    pub(crate) allow_commands: bool,
    /// Show every resolved reference on stderr, as text or JSON lines
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "text")]
    pub(crate) trace: Option<Trace>,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Policy {
    /// It is an error
    Error,
    /// Leave the reference as it is written
    Keep,
    /// Put nothing, or null, in its place
    Empty,
}

impl From<Policy> for Undefined {
    fn from(policy: Policy) -> Self {
        match policy {
            Policy::Error => Self::Error,
            Policy::Keep => Self::Keep,
            Policy::Empty => Self::Empty,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Indented JSON
    Json,
    /// YAML
    Yaml,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Trace {
    /// A line for people
    Text,
    /// A JSON object a line
    Json,
}
