//! The command line.

use std::path::{Component, Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use clap_complete::engine::ArgValueCompleter;
use threadline_flow::model::ScenarioSelection;
use threadline_inspect::run_state::Standing;
use threadline_inspect::runs::RunStatus;
use threadline_lang::diag::words;
use threadline_lang::{Undefined, Value};
use threadline_runner::locks::Patience;

use crate::completion;

/// Run YAML workflows that combine shell commands and AI agents.
#[derive(Parser)]
#[command(name = "threadline", version, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

impl Arguments {
    /// Reads the command line. An expression or template may begin with a minus, which is no flag where no letter
    /// follows.
    pub(crate) fn read() -> Result<Self, clap::Error> {
        let arguments = std::env::args_os().map(|argument| match argument.to_str() {
            Some(text) if is_negative(text) => format!("{SHIELD}{text}").into(),
            _ => argument,
        });
        let matches = Self::command().try_get_matches_from(arguments)?;
        let mut read = Self::from_arg_matches(&matches)?;
        if let (Some((_, matches)), Some(settings)) = (matches.subcommand(), read.command.settings_mut()) {
            settings.order(matches);
        }
        match &mut read.command {
            CliCommand::Render(render) => unshield(&mut render.template),
            CliCommand::Eval(eval) => unshield(&mut eval.expression),
            _ => {}
        }
        Ok(read)
    }
}

/// Put before an argument that begins with a minus and is no flag, and taken away again.
const SHIELD: char = ' ';

fn is_negative(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next() == Some('-') && chars.next().is_some_and(|next| next != '-' && !next.is_ascii_alphabetic())
}

fn unshield(text: &mut Option<String>) {
    if let Some(shielded) = text.as_deref().and_then(|text| text.strip_prefix(SHIELD))
        && is_negative(shielded)
    {
        *text = Some(shielded.to_owned());
    }
}

impl SettingArguments {
    /// Brings the settings of both sorts into the order they were given in.
    fn order(&mut self, matches: &ArgMatches) {
        let positions = |id: &str| matches.indices_of(id).into_iter().flatten().collect::<Vec<usize>>();
        let texts = positions("set").into_iter().zip(std::mem::take(&mut self.set));
        let jsons = positions("set_json").into_iter().zip(std::mem::take(&mut self.set_json));
        let mut settings: Vec<(usize, SetFlag, String)> = texts
            .map(|(at, argument)| (at, SetFlag::Text, argument))
            .chain(jsons.map(|(at, argument)| (at, SetFlag::Json, argument)))
            .collect();
        settings.sort_by_key(|(at, ..)| *at);
        self.given = settings.into_iter().map(|(_, flag, argument)| (flag, argument)).collect();
    }
}

impl CliCommand {
    fn settings_mut(&mut self) -> Option<&mut SettingArguments> {
        match self {
            Self::Render(render) => Some(&mut render.names.settings),
            Self::Resolve(resolve) => Some(&mut resolve.names.settings),
            Self::Eval(eval) => Some(&mut eval.names.settings),
            Self::Run(run) => Some(&mut run.what.settings),
            Self::Test(test) => Some(&mut test.settings),
            Self::Preview(preview) => Some(&mut preview.what.settings),
            Self::Simulate(simulate) => Some(&mut simulate.what.settings),
            Self::Tools(tools) => Some(&mut tools.what.settings),
            Self::Check(_)
            | Self::Expect(_)
            | Self::Graph(_)
            | Self::Init(_)
            | Self::Migrate(_)
            | Self::Resume(_)
            | Self::Rerun(_)
            | Self::Runs(_)
            | Self::Stop(_)
            | Self::Attach(_)
            | Self::Clean(_)
            | Self::Rm(_)
            | Self::Show(_)
            | Self::Logs(_)
            | Self::Explain(_)
            | Self::Diff(_)
            | Self::Report(_)
            | Self::Vars(_)
            | Self::Worker(_)
            | Self::Serve(_)
            | Self::Completions(_)
            | Self::Man(_)
            | Self::Schema(_) => None,
        }
    }
}

#[derive(Subcommand)]
pub(crate) enum CliCommand {
    /// Run a workflow. A run can be killed at any time and resumed
    #[command(after_help = EXAMPLE_RUN)]
    Run(RunArguments),
    /// Try the scenarios of files: what agents, workflows, programs and servers answer
    #[command(after_help = EXAMPLE_TEST)]
    Test(TestArguments),
    /// Continue a run that stopped, was killed or failed
    #[command(after_help = EXAMPLE_RESUME)]
    Resume(ResumeArguments),
    /// Run a step of a run again, and everything that follows it
    #[command(after_help = EXAMPLE_RERUN)]
    Rerun(RerunArguments),
    /// Stop a run that another process drives
    #[command(after_help = EXAMPLE_STOP)]
    Stop(StopArguments),
    /// Show a run that another process drives, until it ends
    #[command(after_help = EXAMPLE_ATTACH)]
    Attach(AttachArguments),
    /// Show the runs of projects in a browser, and answer programs over HTTP
    #[command(after_help = EXAMPLE_SERVE)]
    Serve(ServeArguments),
    /// List the runs of the project, the newest first
    #[command(after_help = EXAMPLE_RUNS)]
    Runs(RunsArguments),
    /// Remove old runs, with all that belongs to them
    #[command(after_help = EXAMPLE_CLEAN)]
    Clean(CleanArguments),
    /// Remove runs by their ids
    #[command(after_help = EXAMPLE_RM)]
    Rm(RmArguments),
    /// Print a run and the results of its steps
    #[command(after_help = EXAMPLE_SHOW)]
    Show(ShowArguments),
    /// Print what the steps of a run printed, in full
    #[command(after_help = EXAMPLE_LOGS)]
    Logs(LogsArguments),
    /// Explain what a step read, where it came from, and why the step ran or not
    #[command(after_help = EXAMPLE_EXPLAIN)]
    Explain(ExplainArguments),
    /// Compare two runs of a workflow, and say why they differ
    #[command(after_help = EXAMPLE_DIFF)]
    Diff(DiffArguments),
    /// Write a run into one HTML file, with its values
    #[command(after_help = EXAMPLE_REPORT)]
    Report(ReportArguments),
    /// List the names of a run, or the history of one name
    #[command(after_help = EXAMPLE_VARS)]
    Vars(VarsArguments),
    /// Show what each step would do, without running anything
    #[command(after_help = EXAMPLE_PREVIEW)]
    Preview(PreviewArguments),
    /// Walk through a loop with simulated results
    #[command(after_help = EXAMPLE_SIMULATE)]
    Simulate(SimulateArguments),
    /// List the servers of a workflow with their tools and parameters
    #[command(after_help = EXAMPLE_TOOLS)]
    Tools(ToolsArguments),
    /// Print a text with its references resolved
    #[command(after_help = EXAMPLE_RENDER)]
    Render(RenderArguments),
    /// Print a YAML or JSON document with its references resolved, keeping types
    #[command(after_help = EXAMPLE_RESOLVE)]
    Resolve(ResolveArguments),
    /// Print the value of an expression as JSON
    #[command(after_help = EXAMPLE_EVAL)]
    Eval(EvalArguments),
    /// Report every problem in workflow files, without running them
    #[command(after_help = EXAMPLE_CHECK)]
    Check(CheckArguments),
    /// Check a document against expectations, with a reason for every result
    #[command(after_help = EXAMPLE_EXPECT)]
    Expect(ExpectArguments),
    /// Draw a workflow, or a run with the outcome of its steps
    #[command(after_help = EXAMPLE_GRAPH)]
    Graph(GraphArguments),
    /// Write starter files: workflows, and expectations for common patterns
    #[command(after_help = EXAMPLE_INIT)]
    Init(InitArguments),
    /// Convert files of older systems to the current spelling
    #[command(after_help = EXAMPLE_MIGRATE)]
    Migrate(MigrateArguments),
    /// Run programs of workflows that are driven on other machines
    #[command(after_help = EXAMPLE_WORKER)]
    Worker(WorkerArguments),
    /// Print the JSON Schema of a kind of file
    Schema(SchemaArguments),
    /// Print the script that makes a shell complete commands, runs, steps and inputs
    #[command(after_help = EXAMPLE_COMPLETIONS)]
    Completions(CompletionsArguments),
    /// Print the manual page of the program or of a command
    #[command(after_help = EXAMPLE_MAN)]
    Man(ManArguments),
}

const EXAMPLE_RENDER: &str = "\
Example:
  threadline render --set name=World 'Hello ${name}!'

Exit codes:
  0    success
  1    a reference failed
  2    wrong usage
  3    a file could not be read";
const EXAMPLE_RESOLVE: &str = "\
Example:
  threadline resolve --outputs outputs.json request.yaml

Exit codes:
  0    success
  1    a reference failed
  2    wrong usage
  3    a file could not be read";
const EXAMPLE_EVAL: &str = "\
Example:
  threadline eval --set-json score=85 'score >= 80'

Exit codes:
  0    success
  1    the expression failed
  2    wrong usage
  3    a file could not be read";

const EXAMPLE_RUN: &str = "\
Example:
  threadline run release.yaml --input version=1.2.3

Exit codes:
  0    success
  1    a step failed
  2    wrong usage
  3    could not start
  4    stopped, can be resumed
  130  interrupted, can be resumed";
const EXAMPLE_TEST: &str = "\
Examples:
  threadline test support.test.yaml --tag jailbreak
  threadline test --report html=report.html --report json=now.json --baseline before.json
  threadline test support.test.yaml --failed

Exit codes:
  0    every case passed
  1    a case failed, or it could not be decided whether it passed
  2    wrong usage, or no scenario was chosen
  3    could not start
  4    stopped before the end; `threadline test --resume RUN` goes on
  130  interrupted; `threadline test --resume RUN` goes on";
const EXAMPLE_SERVE: &str = "\
Examples:
  threadline serve
  threadline serve --open --dir ~/work/shop --dir ~/work/site
  threadline serve --listen 127.0.0.1:8080 --public-url https://ci.example.org/runs --token-file token.txt

The address that is printed has a token in it: whoever has it sees every value of every run, and can start runs.

Exit codes:
  2    wrong usage
  3    it could not start
  130  interrupted";

const EXAMPLE_RUNS: &str = "\
Example:
  threadline runs

Exit codes:
  0    success
  2    wrong usage
  3    the store could not be read";
const EXAMPLE_CLEAN: &str = "\
Examples:
  threadline clean --keep 50
  threadline clean --older-than 30d --status completed
  threadline clean --workflow nightly --keep 7 --dry-run

A run goes if all conditions say so. Runs that can be continued go only if `--status` names their status.

Exit codes:
  0    success, also if no run was removed
  2    wrong usage
  3    the store could not be read or written";
const EXAMPLE_RM: &str = "\
Example:
  threadline rm kr7pk4zw

Exit codes:
  0    the runs are gone
  2    wrong usage
  3    no such run, or a run has to stay: then nothing was removed";
const EXAMPLE_SHOW: &str = "\
Examples:
  threadline show last
  threadline show last review
  threadline show last --failed

Exit codes:
  0    success
  2    wrong usage
  3    no such run, or the store could not be read";
const EXAMPLE_EXPLAIN: &str = "\
Example:
  threadline explain last build.shell

STEP is one of:
  build, 3, 5.do.1, map.2  a step: its id, capture, label or number
  build[17], map.2[17]     a step of one item
  map[17]                  all steps of one item
  setup                    all steps of a phase
  5[17]/1                  one execution, by its address
Without STEP, the failed steps are explained.

Exit codes:
  0    success
  1    the step was not evaluated
  2    wrong usage
  3    no such run or step";
const EXAMPLE_DIFF: &str = "\
Examples:
  threadline diff 5wrgarz7 t5xwqyg2
  threadline diff last

The first value that differs comes first, with the chain behind it, then every other difference with its
reason. Times, durations and ids are no differences.

Exit codes:
  0    nothing differs
  1    something differs
  2    wrong usage
  3    no such run, or the runs have no common step";
const EXAMPLE_REPORT: &str = "\
Example:
  threadline report last -o run.html

The file asks nobody for anything, has no script, and opens from disk. Secrets are masked in it as everywhere.

Exit codes:
  0    success
  2    wrong usage
  3    no such run, or the file cannot be written";
const EXAMPLE_COMPLETIONS: &str = "\
Examples:
  echo 'source <(threadline completions bash)' >> ~/.bashrc
  echo 'source <(threadline completions zsh)' >> ~/.zshrc
  threadline completions fish > ~/.config/fish/completions/threadline.fish

Exit codes:
  0    success
  2    wrong usage";
const EXAMPLE_WORKER: &str = "\
Example:
  threadline worker --listen 10.0.0.7:9080 --dir /shared/project --key-file key --register http://10.0.0.1:9070

The folder is the same on all machines. A first signal lets running programs finish, a second one ends
them.

Exit codes:
  0    ended by a signal
  2    wrong usage
  3    could not start";
const EXAMPLE_MAN: &str = "\
Examples:
  threadline man | man -l -
  threadline man run > /usr/local/share/man/man1/threadline-run.1

Exit codes:
  0    success
  2    wrong usage";
const EXAMPLE_ATTACH: &str = "\
Example:
  threadline attach last

What has happened is shown first. Ctrl-C ends the view and leaves the run as it is.

Exit codes are those of the run:
  0    completed
  1    failed
  2    wrong usage
  3    there is no such run
  4    stopped before the end, can be resumed
  130  interrupted, can be resumed";

const EXAMPLE_STOP: &str = "\
Example:
  threadline stop last

Running steps finish first, and nothing new starts. The command waits until the run has stopped.

Exit codes:
  0    the run has stopped
  2    wrong usage
  3    no such run, or no process that can be asked drives it";
const EXAMPLE_LOGS: &str = "\
Example:
  threadline logs last build

Lines of stdout are marked with `|` and those of stderr with `!` after the name of their step. What one
execution printed is not marked: `threadline logs last 'build[17]' > build.log`.

Exit codes:
  0    success
  2    wrong usage
  3    no such run or step";
const EXAMPLE_VARS: &str = "\
Example:
  threadline vars last version

Exit codes:
  0    success
  2    wrong usage
  3    no such run or name";
const EXAMPLE_PREVIEW: &str = "\
Example:
  threadline preview release.yaml --input version=1.2.3

Files and the environment are read. Nothing is run or written.

Exit codes:
  0    success
  2    wrong usage
  3    the file cannot run";
const EXAMPLE_SIMULATE: &str = "\
Examples:
  threadline simulate loop.yaml
  threadline simulate loop.yaml --all no
  threadline simulate loop.yaml --verdicts 'check=no,no,yes;fix=yes' --numbers 'measure=10,7,3'

Nothing is run or written. Limits, retries and routes work as in a run. Every state takes one
simulated second. A script is an object keyed by state. Each entry is a list of verdicts, or of
results (`{output: 7}`, `{exit_code: 1}`, `{error: text}`), which are judged as in a run. The last
one repeats.

Exit codes:
  0    every walk reached a state that ends the loop
  1    a verdict had no route
  2    wrong usage
  3    the file cannot run
  4    a limit ended a walk";
const EXAMPLE_TOOLS: &str = "\
Example:
  threadline tools release.yaml files.read_text_file

The servers are started and then ended; no tool is called. Literal parameters of steps are checked.

Exit codes:
  0    success
  1    a server does not answer, or a step has invalid parameters
  2    wrong usage
  3    the file cannot run";
const EXAMPLE_RESUME: &str = "\
Examples:
  threadline resume last
  threadline resume last --failed
  threadline resume last --edited --dry-run
  threadline resume last --edited --yes

Exit codes:
  0    success
  1    a step failed
  2    wrong usage
  3    could not start
  4    stopped, can be resumed
  130  interrupted, can be resumed";
const EXAMPLE_RERUN: &str = "\
Examples:
  threadline rerun last --from build
  threadline rerun last --from 'map[3]' --dry-run

Exit codes:
  0    success
  1    a step failed
  2    wrong usage
  3    could not start
  4    not confirmed, or stopped and can be resumed
  130  interrupted, can be resumed";
const EXAMPLE_CHECK: &str = "\
Example:
  threadline check workflow.yaml

Exit codes:
  0    success, possibly with warnings
  1    errors
  2    wrong usage
  3    a file could not be read";
const EXAMPLE_GRAPH: &str = "\
Examples:
  threadline graph workflow.yaml
  threadline graph last --format svg > run.svg

Exit codes:
  0    success
  2    wrong usage
  3    the file cannot run, or no such run";
const EXAMPLE_MIGRATE: &str = "\
Examples:
  threadline migrate workflow.yaml
  threadline migrate --write workflow.yaml outputs.json

Exit codes:
  0    success
  2    wrong usage
  3    a file could not be read, has errors, or cannot be written";
const EXAMPLE_INIT: &str = "\
Examples:
  threadline init
  threadline init steps --into workflows

Exit codes:
  0    success
  2    wrong usage, or no such template
  3    a file exists already, or cannot be written";
const EXAMPLE_EXPECT: &str = "\
Examples:
  threadline expect transfer.yaml --actual answer.json
  threadline expect --check transfer.yaml refusal.yaml

Exit codes:
  0    all met
  1    one is unmet or not evaluable, or `--check` found errors
  2    wrong usage
  3    could not start";

#[derive(Args)]
pub(crate) struct CheckArguments {
    /// Also start the servers of the files, and check their tools and the literal parameters
    #[arg(long)]
    pub(crate) tools: bool,
    /// Print one JSON object per file, with every problem, as `--format json` does
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// How problems are printed
    #[arg(long, value_name = "FORMAT", default_value = "text", value_enum)]
    format: CheckFormat,
    /// The workflow files, `-` for stdin
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
}

impl CheckArguments {
    /// How problems are printed.
    pub(crate) fn format(&self) -> CheckFormat {
        if self.json { CheckFormat::Json } else { self.format }
    }
}

/// How the problems of files are printed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CheckFormat {
    /// Text with excerpts, on stderr
    Text,
    /// One JSON object per file
    Json,
    /// Annotations of GitHub Actions, which are also added to `text` in a job of GitHub
    Github,
    /// SARIF 2.1.0, for code scanning
    Sarif,
    /// The XML of `JUnit`, a case per file
    Junit,
}

#[derive(Args)]
pub(crate) struct ExpectArguments {
    /// The document to check, `-` for stdin
    #[arg(long, value_name = "FILE", required_unless_present = "check")]
    pub(crate) actual: Option<PathBuf>,
    /// Additional facts: an object keyed by name
    #[arg(long, value_name = "FILE", conflicts_with = "check")]
    pub(crate) facts: Option<PathBuf>,
    /// The kind of the document. Default: decided by its keys
    #[arg(long = "as", value_name = "KIND")]
    pub(crate) kind: Option<ActualKind>,
    /// Answers of a judge to the questions that no rule decides: an object keyed by question
    #[arg(long, value_name = "FILE", conflicts_with = "check")]
    pub(crate) rulings: Option<PathBuf>,
    /// The output format
    #[arg(long, value_enum, default_value = "text", conflicts_with = "check")]
    pub(crate) format: OutcomeFormat,
    /// Show every check, including those that are met and those that were not evaluated
    #[arg(long, conflicts_with = "check")]
    pub(crate) explain: bool,
    /// Only validate the files
    #[arg(long, conflicts_with = "actual")]
    pub(crate) check: bool,
    /// The same as `--format json`. With `--check`: one JSON object per file, with every problem
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,
    /// The expectations: one, a list, or `expectations` with names; `-` for stdin
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum ActualKind {
    /// The answer of an agent: `{text, type, plan, facts, usage}`
    Answer,
    /// The result of a step: `{value, output, exit_code, meta}`
    Step,
    /// Anything else: the document is the `value`
    Value,
}

impl From<ActualKind> for threadline_expect::DocumentKind {
    fn from(kind: ActualKind) -> Self {
        match kind {
            ActualKind::Answer => Self::Answer,
            ActualKind::Step => Self::Step,
            ActualKind::Value => Self::Plain,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutcomeFormat {
    /// Sentences, with the reason of every expectation that is not met
    Text,
    /// An array with the tree of every expectation
    Json,
    /// The XML of `JUnit`, for CI systems
    Junit,
}

#[derive(Args)]
pub(crate) struct GraphArguments {
    /// The output format
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: GraphFormat,
    /// Draw the run as it was after this event
    #[arg(long, value_name = "EVENT")]
    pub(crate) at: Option<u64>,
    /// The folder of the project that has the run
    #[arg(long, value_name = "FOLDER")]
    pub(crate) dir: Option<PathBuf>,
    /// A workflow file, or a run: its id, a prefix of it, or `last`
    #[arg(value_name = "FILE|RUN", add = ArgValueCompleter::new(completion::files_and_runs))]
    pub(crate) what: String,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum GraphFormat {
    /// One line per node, with what it waits for
    Text,
    /// A diagram for Mermaid
    Mermaid,
    /// A graph for Graphviz
    Dot,
    /// A picture; needs no other program
    Svg,
}

#[derive(Args)]
pub(crate) struct MigrateArguments {
    /// Change the files instead of only showing the changes
    #[arg(long)]
    pub(crate) write: bool,
    /// Workflows, or outputs of nodes keyed by id
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
}

#[derive(Args)]
pub(crate) struct InitArguments {
    /// The folder to write to; created if it does not exist
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub(crate) into: PathBuf,
    /// The templates to write. Without NAME, list all templates
    #[arg(value_name = "NAME", add = ArgValueCompleter::new(completion::starter_files))]
    pub(crate) names: Vec<String>,
}

#[derive(Args)]
pub(crate) struct SchemaArguments {
    /// The kind of file or output
    #[arg(value_name = "KIND")]
    pub(crate) kind: SchemaKind,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum SchemaKind {
    /// Workflow files
    Workflow,
    /// The envelope that a step leaves
    Envelope,
    /// The lines of `run --json` and `show --json`
    Events,
    /// Files of expectations
    Expectations,
    /// What `expect --format json` prints
    Outcomes,
    /// The lines of `show --failed --json`
    Failures,
    /// What `show --at EVENT --json` prints
    State,
    /// What `show --items STEP --json` prints
    Items,
    /// What `show --source --json` prints
    Source,
    /// What `simulate --json` prints
    Simulation,
    /// What `runs --json` prints
    Runs,
    /// What `explain --json` prints
    Explanation,
    /// What `show RUN STEP --json` prints
    Conversations,
    /// What `explain --back --json` and `explain --forward --json` print
    Chain,
    /// What `diff --json` prints
    Diff,
    /// What `vars --json` prints
    Names,
    /// What `preview --json` prints
    Preview,
    /// The lines of `check --json` and `expect --check --json`
    Problems,
    /// What `tools --json` prints
    Tools,
    /// The lines of `logs --json`
    Logs,
    /// What `clean --json` and `rm --json` print
    Cleaning,
    /// What `resume --edited --dry-run --json` and `rerun --dry-run --json` print
    Continuation,
    /// What `test --format json` prints
    Tests,
    /// The HTTP API of `serve`, as `OpenAPI` describes one
    Openapi,
}

/// A run of a project.
#[derive(Args)]
pub(crate) struct StoredRunArguments {
    /// The folder of the project
    #[arg(long, value_name = "FOLDER")]
    pub(crate) dir: Option<PathBuf>,
    /// The run: its id, a prefix of it, or `last`
    #[arg(value_name = "RUN", add = ArgValueCompleter::new(completion::runs))]
    pub(crate) run: String,
    #[command(flatten)]
    pub(crate) kept: KeptArguments,
}

/// Where runs are kept that were started on any machine.
#[derive(Args, Clone, Default)]
pub(crate) struct KeptArguments {
    /// Ask this Restate server which runs of the blob store workers drive: `restate://HOST:PORT`
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) on: Option<String>,
    /// Take runs from this blob store, whichever machine they were started on: `file:///FOLDER`, `s3://BUCKET/PREFIX`,
    /// `gs://BUCKET/PREFIX` or `az://CONTAINER/PREFIX`
    #[arg(long, value_name = "URL")]
    pub(crate) blobs: Option<String>,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
}

/// Reads the name of a status of a run.
fn run_status() -> impl TypedValueParser<Value = RunStatus> {
    let names = PossibleValuesParser::new(RunStatus::ALL.map(RunStatus::name));
    names.try_map(|name| RunStatus::named(&name).ok_or("no such status"))
}

/// Reads the name of how an item stands.
fn item_standing() -> impl TypedValueParser<Value = Standing> {
    let names = PossibleValuesParser::new(Standing::ALL.map(Standing::name));
    names.try_map(|name| {
        Standing::ALL.into_iter().find(|standing| standing.name() == name).ok_or("no such standing")
    })
}

#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct RunsArguments {
    /// The folder of the project
    #[arg(long, value_name = "FOLDER")]
    pub(crate) dir: Option<PathBuf>,
    /// Use a store that another user or a repository may have made, from now on
    #[arg(long)]
    pub(crate) trust_store: bool,
    /// Include runs that were called by steps of other runs
    #[arg(long)]
    pub(crate) all: bool,
    /// Only runs with this status, or with one of several: `failed,paused`
    #[arg(long, value_name = "STATUS", value_parser = run_status(), value_delimiter = ',')]
    pub(crate) status: Vec<RunStatus>,
    /// Only runs of this workflow: its name or its file
    #[arg(long, value_name = "NAME", add = ArgValueCompleter::new(completion::workflows))]
    pub(crate) workflow: Option<String>,
    /// Only runs that began in this time, such as `12h` or `7d`, or since this date, such as `2026-01-31`
    #[arg(long, value_name = "WHEN")]
    pub(crate) since: Option<String>,
    /// Only runs with this text in their id, or in the name or file of their workflow
    #[arg(long, value_name = "TEXT")]
    pub(crate) search: Option<String>,
    /// At most this many runs, the newest
    #[arg(long, short = 'n', value_name = "COUNT")]
    pub(crate) count: Option<usize>,
    /// Only runs behind this one in the list, which are older: the next page
    #[arg(long, value_name = "RUN")]
    pub(crate) after: Option<String>,
    /// Also say which step failed first, and how many steps and items ended in which way: reads all events
    #[arg(long, requires = "json")]
    pub(crate) details: bool,
    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) kept: KeptArguments,
}

/// How runs are removed.
#[derive(Args)]
pub(crate) struct RemovalArguments {
    /// The folder of the project
    #[arg(long, value_name = "FOLDER")]
    pub(crate) dir: Option<PathBuf>,
    /// Also remove branches and worktrees of the runs with work that is nowhere else
    #[arg(long)]
    pub(crate) branches: bool,
}

#[derive(Args)]
pub(crate) struct CleanArguments {
    #[command(flatten)]
    pub(crate) removal: RemovalArguments,
    /// Keep this many runs, the newest
    #[arg(long, value_name = "COUNT")]
    pub(crate) keep: Option<usize>,
    /// Only runs that began longer ago than this, such as `12h` or `30d`
    #[arg(long, value_name = "DURATION")]
    pub(crate) older_than: Option<String>,
    /// Only runs with this status, or with one of several: `failed,stopped`; without it completed and failed ones
    #[arg(long, value_name = "STATUS", value_parser = run_status(), value_delimiter = ',')]
    pub(crate) status: Vec<RunStatus>,
    /// Only runs of this workflow: its name or its file
    #[arg(long, value_name = "NAME", add = ArgValueCompleter::new(completion::workflows))]
    pub(crate) workflow: Option<String>,
    /// List the runs that would go, and remove nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask on a terminal
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
    /// Print a JSON object, and do not ask
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct RmArguments {
    #[command(flatten)]
    pub(crate) removal: RemovalArguments,
    /// Also remove a run that can be continued, or that other runs import from
    #[arg(long)]
    pub(crate) force: bool,
    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// The runs: their ids, prefixes of them, or `last`
    #[arg(value_name = "RUN", required = true, add = ArgValueCompleter::new(completion::runs))]
    pub(crate) runs: Vec<String>,
}

#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct ShowArguments {
    #[command(flatten)]
    pub(crate) which: StoredRunArguments,
    /// Show only what failed: items and steps, with their errors
    #[arg(long)]
    pub(crate) failed: bool,
    /// Print a file instead of a run, as YAML with its short forms and imports expanded
    #[arg(long, conflicts_with = "failed")]
    pub(crate) expanded: bool,
    /// Print the text of the workflow as it was when the run began
    #[arg(long, conflicts_with_all = ["failed", "expanded", "step"])]
    pub(crate) source: bool,
    /// Show the run as it was after this event: how each step stood, and how many items
    #[arg(long, value_name = "EVENT", conflicts_with_all = ["failed", "expanded", "source", "step", "stored"])]
    pub(crate) at: Option<u64>,
    /// List the items of this step, those that failed first; with `--at`, as they were then
    #[arg(long, value_name = "STEP", conflicts_with_all = ["failed", "expanded", "source", "step", "stored"],
        add = ArgValueCompleter::new(completion::steps))]
    pub(crate) items: Option<String>,
    /// Only items that stand like this, or in one of several ways: `failed,running`
    #[arg(long, value_name = "STANDING", requires = "items", value_parser = item_standing(), value_delimiter = ',')]
    pub(crate) standing: Vec<Standing>,
    /// At most this many items
    #[arg(long, short = 'n', value_name = "COUNT", requires = "items", default_value_t = 50)]
    pub(crate) count: usize,
    /// Only items behind this one in the list: the next page
    #[arg(long, value_name = "INDEX", requires = "items")]
    pub(crate) after: Option<u64>,
    /// Print one line of JSON per event; with `--failed`, per failed item and step; with `--expanded`, the file; with
    /// `--source`, `--at` and `--items`, an object
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the values of events as the journal stores them
    #[arg(long, requires = "json", conflicts_with_all = ["failed", "expanded"])]
    pub(crate) stored: bool,
    /// A step whose agent was asked: print what was said, instead of the run
    #[arg(value_name = "STEP", conflicts_with_all = ["failed", "expanded", "stored"],
        add = ArgValueCompleter::new(completion::steps))]
    pub(crate) step: Option<String>,
}

#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct ExplainArguments {
    #[command(flatten)]
    pub(crate) which: StoredRunArguments,
    /// Do not shorten values
    #[arg(long)]
    pub(crate) full: bool,
    /// Explain every step of the run, and not only those that failed
    #[arg(long, conflicts_with_all = ["step", "back", "forward"])]
    pub(crate) all: bool,
    /// Print a JSON object, with full values
    #[arg(long)]
    pub(crate) json: bool,
    /// Follow the values that the step read to the steps that produced them
    #[arg(long, conflicts_with = "forward", requires = "step")]
    pub(crate) back: bool,
    /// Follow the value of the step to the steps that read it
    #[arg(long, requires = "step")]
    pub(crate) forward: bool,
    /// The step, optionally with a field: `build`, `build.shell`, `build[3].env.NAME`
    #[arg(value_name = "STEP[.FIELD]", add = ArgValueCompleter::new(completion::steps))]
    pub(crate) step: Option<String>,
}

#[derive(Args)]
pub(crate) struct DiffArguments {
    /// Do not shorten values, and show every item
    #[arg(long)]
    pub(crate) full: bool,
    /// Print a JSON object, with full values
    #[arg(long)]
    pub(crate) json: bool,
    /// The folder of the project that has the runs
    #[arg(long, value_name = "FOLDER")]
    pub(crate) dir: Option<PathBuf>,
    /// The runs: their ids, prefixes of them, or `last`; a single one is compared with the run of the same workflow before it
    #[arg(value_name = "RUN", num_args = 1..=2, required = true, add = ArgValueCompleter::new(completion::runs))]
    pub(crate) runs: Vec<String>,
}

#[derive(Args)]
pub(crate) struct ReportArguments {
    #[command(flatten)]
    pub(crate) which: StoredRunArguments,
    /// The file; `-` for stdout
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
}

#[derive(Args)]
pub(crate) struct CompletionsArguments {
    /// The shell that completes the command line
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}

#[derive(Args)]
pub(crate) struct ManArguments {
    /// The command that the page is about
    #[arg(value_name = "COMMAND", add = ArgValueCompleter::new(completion::commands))]
    pub(crate) command: Option<String>,
}

#[derive(Args)]
pub(crate) struct AttachArguments {
    #[command(flatten)]
    pub(crate) which: StoredRunArguments,
}

#[derive(Args)]
pub(crate) struct StopArguments {
    #[command(flatten)]
    pub(crate) which: StoredRunArguments,
    /// End the running steps instead of letting them finish
    #[arg(long)]
    pub(crate) now: bool,
}

#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct LogsArguments {
    #[command(flatten)]
    pub(crate) which: StoredRunArguments,
    /// Print only what went to stdout
    #[arg(long)]
    pub(crate) stdout: bool,
    /// Print only what went to stderr
    #[arg(long)]
    pub(crate) stderr: bool,
    /// Print this attempt of each step instead of the last
    #[arg(long, value_name = "N")]
    pub(crate) attempt: Option<u32>,
    /// Go on while the run is driven by another process, and print what each attempt printed when it ends
    #[arg(long, conflicts_with = "attempt")]
    pub(crate) follow: bool,
    /// Print one line of JSON per attempt
    #[arg(long)]
    pub(crate) json: bool,
    /// Only these steps: an id, a number, a step of one item `build[17]`, a visit of a state `check#3`
    #[arg(value_name = "STEP", add = ArgValueCompleter::new(completion::steps))]
    pub(crate) steps: Vec<String>,
}

#[derive(Args)]
pub(crate) struct VarsArguments {
    #[command(flatten)]
    pub(crate) which: StoredRunArguments,
    /// Do not shorten values
    #[arg(long)]
    pub(crate) full: bool,
    /// Print a JSON object, with full values
    #[arg(long)]
    pub(crate) json: bool,
    /// Show the history of one name: `version`, `inputs.target`, `context.greeting`; of one item: `tested[17]`
    #[arg(value_name = "NAME", add = ArgValueCompleter::new(completion::names))]
    pub(crate) name: Option<String>,
}

#[derive(Args)]
pub(crate) struct PreviewArguments {
    /// The folder that steps would run in
    #[arg(long, value_name = "FOLDER")]
    pub(crate) dir: Option<PathBuf>,
    /// Do not shorten values
    #[arg(long)]
    pub(crate) full: bool,
    /// Print a JSON object, with full values
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) what: WorkflowArguments,
}

#[derive(Args)]
pub(crate) struct SimulateArguments {
    /// Use the same verdict for every state
    #[arg(long, value_name = "VERDICT", conflicts_with_all = ["alternating", "random", "seed", "runs"])]
    pub(crate) all: Option<InventedResult>,
    /// Use `no` and `yes` in turn
    #[arg(long, conflicts_with_all = ["random", "seed", "runs"])]
    pub(crate) alternating: bool,
    /// Use random verdicts, repeatable with the same seed. This is the default
    #[arg(long)]
    pub(crate) random: bool,
    /// The seed of the random verdicts
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
    /// The number of walks with random verdicts. Default: 100
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) runs: Option<u64>,
    /// The verdicts of states, one per visit: `check=no,no,yes;fix=yes`. The last one repeats
    #[arg(long, value_name = "STATE=VERDICT,...")]
    pub(crate) verdicts: Vec<String>,
    /// The output of states, one number per visit, judged as in a run: `measure=10,7,3`
    #[arg(long, value_name = "STATE=NUMBER,...")]
    pub(crate) numbers: Vec<String>,
    /// A YAML or JSON object with verdicts or results, keyed by state
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,
    /// The folder that the loop would run in
    #[arg(long, value_name = "FOLDER")]
    pub(crate) dir: Option<PathBuf>,
    /// Print a JSON object with every walk
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) what: WorkflowArguments,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum InventedResult {
    /// The check passes, or the action succeeds
    Yes,
    /// The check does not pass
    No,
    /// There is no verdict: the action fails
    Error,
}

#[derive(Args)]
pub(crate) struct ToolsArguments {
    /// The folder that servers run in
    #[arg(long, value_name = "FOLDER")]
    pub(crate) dir: Option<PathBuf>,
    /// Print a JSON object with the schemas of all parameters
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) what: WorkflowArguments,
    /// Only this server, or this tool of one: `SERVER.TOOL`
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
}

#[derive(Args)]
pub(crate) struct RenderArguments {
    #[command(flatten)]
    pub(crate) names: ScopeArguments,
    /// How to treat a reference without a value
    #[arg(long, value_name = "POLICY", default_value = "error")]
    pub(crate) undefined: UndefinedPolicy,
    /// Read the template from a file, `-` for stdin
    #[arg(long, value_name = "FILE", conflicts_with = "template")]
    pub(crate) file: Option<PathBuf>,
    /// The text to render
    #[arg(value_name = "TEMPLATE", required_unless_present = "file")]
    pub(crate) template: Option<String>,
}

#[derive(Args)]
pub(crate) struct ResolveArguments {
    #[command(flatten)]
    pub(crate) names: ScopeArguments,
    /// How to treat a reference without a value
    #[arg(long, value_name = "POLICY", default_value = "error")]
    pub(crate) undefined: UndefinedPolicy,
    /// The output format
    #[arg(long, value_name = "FORMAT", default_value = "json")]
    pub(crate) format: OutputFormat,
    /// The YAML or JSON document, `-` for stdin; a top-level `context:` holds definitions
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

#[derive(Args)]
pub(crate) struct EvalArguments {
    #[command(flatten)]
    pub(crate) names: ScopeArguments,
    /// How to treat a reference without a value. In an expression it is always an error
    #[arg(long, value_name = "POLICY", default_value = "error", hide_possible_values = true)]
    pub(crate) undefined: UndefinedPolicy,
    /// Show the value of every part of the expression
    #[arg(long)]
    pub(crate) explain: bool,
    /// Read the expression from a file, `-` for stdin
    #[arg(long, value_name = "FILE", conflicts_with = "expression")]
    pub(crate) file: Option<PathBuf>,
    /// The expression to evaluate
    #[arg(value_name = "EXPRESSION", required_unless_present = "file")]
    pub(crate) expression: Option<String>,
}

/// Where names come from, and how their reading is shown.
#[derive(Args)]
pub(crate) struct ScopeArguments {
    /// A JSON or YAML object whose keys become names, `-` for stdin
    #[arg(long, value_name = "FILE")]
    pub(crate) data: Option<PathBuf>,
    /// Outputs of nodes keyed by id, as envelopes or in an older shape, `-` for stdin
    #[arg(long, value_name = "FILE")]
    pub(crate) outputs: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) settings: SettingArguments,
    /// Allow `cmd:` to run commands
    #[arg(long)]
    pub(crate) allow_commands: bool,
    /// Show every resolved reference on stderr, as text or JSON lines
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "text")]
    pub(crate) trace: Option<TraceFormat>,
}

/// Values set on the command line.
#[derive(Args, Clone, Default)]
pub(crate) struct SettingArguments {
    /// Set a name, or a path inside one, to a text
    #[arg(long, value_name = "PATH=TEXT")]
    set: Vec<String>,
    /// Set a name, or a path inside one, to a JSON value
    #[arg(long, value_name = "PATH=JSON")]
    set_json: Vec<String>,
    /// Both sorts of settings, in the order they were given
    #[arg(skip)]
    pub(crate) given: Vec<(SetFlag, String)>,
}

/// A workflow and the caller's values.
#[derive(Args)]
pub(crate) struct WorkflowArguments {
    /// Set an input. The value is read as the type that the workflow declares
    #[arg(long, value_name = "NAME=VALUE", add = ArgValueCompleter::new(completion::inputs_of_file))]
    pub(crate) input: Vec<String>,
    /// A JSON or YAML object of inputs
    #[arg(long, value_name = "FILE")]
    pub(crate) inputs: Option<PathBuf>,
    /// The payload that starts a graph, read as `${trigger}`: JSON, or a file after `@`
    #[arg(long, value_name = "JSON|@FILE")]
    pub(crate) payload: Option<String>,
    #[command(flatten)]
    pub(crate) settings: SettingArguments,
    /// Allow values from `--set` as code in shell text
    #[arg(long)]
    pub(crate) trust_set: bool,
    /// The workflow, a YAML or JSON file, `-` for stdin
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// What is tried of the scenarios of the file.
    #[arg(skip)]
    pub(crate) scenarios: Option<ScenarioSelection>,
}

/// How a run is driven and shown.
#[derive(Args, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct WatchArguments {
    /// The maximum number of steps that run at once. Default for a graph: one per processor, at least 4
    #[arg(long, short, value_name = "COUNT", value_parser = parse_jobs)]
    pub(crate) jobs: Option<usize>,
    /// Show what steps print
    #[arg(long, short, conflicts_with = "json")]
    pub(crate) verbose: bool,
    /// Show every resolved reference on stderr, as text or JSON lines
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "text")]
    pub(crate) trace_variables: Option<TraceFormat>,
    /// Wait for `locks` that other runs hold, without limit or for at most DURATION
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true, value_parser = parse_wait,
        default_missing_value = "")]
    pub(crate) wait: Option<Patience>,
    /// Print one line of JSON per event
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the values of events as the journal stores them
    #[arg(long, requires = "json")]
    pub(crate) stored: bool,
    /// Use a store that another user or a repository may have made, from now on
    #[arg(long)]
    pub(crate) trust_store: bool,
    /// Print statistics of the run at the end, as a line of JSON on stderr: events, CPU time, memory
    #[arg(long)]
    pub(crate) stats: bool,
    /// Write a report of the steps and items for CI systems: `junit=FILE`
    #[arg(long, value_name = "FORMAT=FILE", value_parser = parse_report)]
    pub(crate) report: Option<JunitPath>,
}

/// Where the key is that requests to workers are signed with.
#[derive(Args, Clone, Default)]
pub(crate) struct KeyArguments {
    /// The file with the key that coordinators and workers share
    #[arg(long, value_name = "FILE", conflicts_with = "key_variable")]
    pub(crate) key_file: Option<PathBuf>,
    /// The environment variable with that key
    #[arg(long, value_name = "NAME")]
    pub(crate) key_variable: Option<String>,
}

#[derive(Args)]
pub(crate) struct ServeArguments {
    /// A folder of a project. Can be given several times. Default: the current folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) dir: Vec<PathBuf>,
    /// The address to listen at; with port 0, a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7117")]
    pub(crate) listen: std::net::SocketAddr,
    /// The URL where browsers find the page, if a proxy stands before it
    #[arg(long, value_name = "URL")]
    pub(crate) public_url: Option<String>,
    /// A file with the token, of 32 to 512 letters, digits and `-._~`. Default: a new one each time
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Open the page in a browser
    #[arg(long)]
    pub(crate) open: bool,
    /// Let nobody start, stop or resume a run
    #[arg(long)]
    pub(crate) read_only: bool,
}

#[derive(Args)]
pub(crate) struct WorkerArguments {
    /// The address to listen at
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9080")]
    pub(crate) listen: std::net::SocketAddr,
    /// The URL where the Restate server reaches the worker, or the balancer in front of several. Default: the address
    #[arg(long, value_name = "URL")]
    pub(crate) advertise: Option<String>,
    /// The maximum number of programs and requests at once. Default: one per processor
    #[arg(long, value_name = "COUNT", value_parser = parse_jobs)]
    pub(crate) slots: Option<usize>,
    /// What it has that steps ask for with `on`, such as `gpu=true`. It performs only what asks for some of its labels
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) label: Vec<String>,
    /// The folder of the project, which all machines share
    #[arg(long, value_name = "FOLDER")]
    pub(crate) dir: Option<PathBuf>,
    /// The blob store of the runs: `file:///FOLDER`, `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX` or
    /// `az://CONTAINER/PREFIX`. Default: the folder `.threadline/blobs` of the project
    #[arg(long, value_name = "URL")]
    pub(crate) blobs: Option<String>,
    /// The folder for files of projects that are not shared. Default: `threadline-worker` in the user's folder for caches
    #[arg(long, value_name = "FOLDER")]
    pub(crate) cache: Option<PathBuf>,
    /// Register at the Restate server with this admin URL
    #[arg(long, value_name = "URL")]
    pub(crate) register: Option<String>,
    /// The name of the worker in results. Default: the name of the machine
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
    /// Be the server that a supervisor starts
    #[arg(long, hide = true)]
    pub(crate) serving: bool,
}

/// The file of a `JUnit` report.
#[derive(Clone)]
pub(crate) struct JunitPath(pub(crate) PathBuf);

fn parse_report(text: &str) -> Result<JunitPath, String> {
    match text.split_once('=') {
        Some(("junit", file)) if !file.is_empty() => Ok(JunitPath(PathBuf::from(file))),
        _ => Err("a format and a file: `junit=report.xml`".to_owned()),
    }
}

fn parse_wait(text: &str) -> Result<Patience, String> {
    if text.is_empty() {
        return Ok(Patience::Forever);
    }
    let time = threadline_flow::forms::duration(&Value::from(text));
    time.map(Patience::For).ok_or_else(|| "a duration such as `30s` or `5m`".to_owned())
}

fn parse_jobs(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("a whole number of at least 1".to_owned()),
        Ok(jobs) => Ok(jobs),
    }
}

#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct TestArguments {
    /// Try only scenarios whose name, id or target contains TEXT, and cases whose name does. Can be repeated
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Vec<String>,
    /// Try only scenarios with this tag. Can be repeated
    #[arg(long, value_name = "TAG")]
    pub(crate) tag: Vec<String>,
    /// Try one part of the cases: `2/5` is the second of five
    #[arg(long, value_name = "PART/PARTS", value_parser = parse_shard)]
    pub(crate) shard: Option<(u64, u64)>,
    /// Continue a run of scenarios that stopped, and report it; one that has ended is only reported. Can be repeated
    #[arg(long, value_name = "RUN", conflicts_with_all = ["filter", "tag", "shard", "files", "target", "record", "replay",
        "failed", "watch"],
        add = ArgValueCompleter::new(completion::runs))]
    pub(crate) resume: Vec<String>,
    /// What to do with steps that were running when Threadline was killed. Overrides their `on_crash`
    #[arg(long, value_name = "WHAT", requires = "resume")]
    pub(crate) in_flight: Option<InFlightDecision>,
    /// How the results are printed
    #[arg(long, value_enum, default_value_t = TestFormat::Text)]
    pub(crate) format: TestFormat,
    /// Write a report to a file besides: `html=FILE`, `junit=FILE`, or another format. Can be repeated
    #[arg(long, value_name = "FORMAT=FILE", value_parser = parse_test_report)]
    pub(crate) report: Vec<TestReportPath>,
    /// Say what has changed since an earlier report, which `--report json=FILE` wrote
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline: Option<PathBuf>,
    /// Try only the cases that failed when the file was tried last
    #[arg(long)]
    pub(crate) failed: bool,
    /// Try a file again when it changes, or a file that it names, until Ctrl-C
    #[arg(long)]
    pub(crate) watch: bool,
    /// The files, or folders of files whose names end with `.test.yaml`, `.test.yml` or `.test.json`. Default: all below the
    /// current folder
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// A file with `target` or `targets`, and agents and judges, for scenarios that name none
    #[arg(long, value_name = "FILE")]
    pub(crate) target: Option<PathBuf>,
    /// The maximum number of steps that run at once. Default: 8
    #[arg(long, short, value_name = "COUNT", value_parser = parse_jobs)]
    pub(crate) jobs: Option<usize>,
    /// Write every exchange with an agent to files in FOLDER, in a folder for each file, to replay them
    #[arg(long, value_name = "FOLDER", conflicts_with = "replay")]
    pub(crate) record: Option<PathBuf>,
    /// Answer in place of agents and their tools what is recorded in FOLDER
    #[arg(long, value_name = "FOLDER")]
    pub(crate) replay: Option<PathBuf>,
    /// Set a budget of agents for each file: `cost=5`, `tokens=100000`. Can be given several times
    #[arg(long, value_name = "LIMIT")]
    pub(crate) budget: Vec<String>,
    /// Set an input. The value is read as the type that the file declares
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) input: Vec<String>,
    /// A JSON or YAML object of inputs
    #[arg(long, value_name = "FILE")]
    pub(crate) inputs: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) settings: SettingArguments,
    /// The folder that steps run in
    #[arg(long, value_name = "FOLDER")]
    pub(crate) dir: Option<PathBuf>,
    /// Use a store that another user or a repository may have made, from now on
    #[arg(long)]
    pub(crate) trust_store: bool,
    /// Print statistics of each run at its end, as a line of JSON on stderr: events, CPU time, memory
    #[arg(long)]
    pub(crate) stats: bool,
}

impl TestArguments {
    /// How a run of scenarios is continued.
    pub(crate) fn resume_of(&self, run: String) -> ResumeArguments {
        ResumeArguments {
            dir: self.dir.clone(),
            in_flight: self.in_flight,
            budget: self.budget.clone(),
            failed: false,
            edited: false,
            confirm: ConfirmArguments { dry_run: false, yes: false },
            detach: false,
            kept: KeptArguments::default(),
            journal: None,
            since: None,
            watch: WatchArguments {
                jobs: self.jobs,
                trust_store: self.trust_store,
                ..WatchArguments::default()
            },
            run,
        }
    }

    /// How a file is run whose scenarios are tried.
    pub(crate) fn run_of(&self, file: PathBuf, scenarios: ScenarioSelection) -> RunArguments {
        RunArguments {
            import: Vec::new(),
            budget: self.budget.clone(),
            dir: self.dir.clone(),
            record: self.record.as_deref().map(|folder| folder_of(folder, &file)),
            replay: self.replay.as_deref().map(|folder| folder_of(folder, &file)),
            live: Vec::new(),
            on: None,
            key: KeyArguments::default(),
            blobs: None,
            bundle: false,
            replicate: false,
            detach: false,
            watch: WatchArguments {
                jobs: Some(self.jobs.unwrap_or(TEST_JOBS)),
                trust_store: self.trust_store,
                ..WatchArguments::default()
            },
            what: WorkflowArguments {
                input: self.input.clone(),
                inputs: self.inputs.clone(),
                payload: None,
                settings: self.settings.clone(),
                trust_set: false,
                file,
                scenarios: Some(scenarios),
            },
        }
    }
}

/// The folder of the exchanges of a file, below that of all files.
fn folder_of(folder: &Path, file: &Path) -> PathBuf {
    let names = file.components().filter(|part| matches!(part, Component::Normal(_)));
    names.fold(folder.to_owned(), |folder, name| folder.join(name))
}

/// So many steps of scenarios run at once when nobody says otherwise: most of them wait for an answer.
const TEST_JOBS: usize = 8;

/// How the results of scenarios are printed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TestFormat {
    /// Lines for people
    Text,
    /// One JSON document, which `--baseline` reads
    Json,
    /// The XML of `JUnit`, a case per case
    Junit,
    /// One page with everything that was said
    Html,
    /// Annotations of GitHub Actions, which are also added to `text` in a job of GitHub
    Github,
}

/// A report of scenarios in a file.
#[derive(Clone)]
pub(crate) struct TestReportPath {
    pub(crate) format: TestFormat,
    pub(crate) path: PathBuf,
}

fn parse_test_report(text: &str) -> Result<TestReportPath, String> {
    let expected = || "a format and a file, such as `html=report.html`".to_owned();
    let (format, file) = text.split_once('=').ok_or_else(expected)?;
    if file.is_empty() {
        return Err(expected());
    }
    let format = TestFormat::from_str(format, false).map_err(|_| {
        let names = TestFormat::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        let names: Vec<String> = names.map(|value| value.get_name().to_owned()).collect();
        format!("`{format}` is no format: it is {}", words::code_list(names, "or"))
    })?;
    Ok(TestReportPath { format, path: PathBuf::from(file) })
}

fn parse_shard(text: &str) -> Result<(u64, u64), String> {
    let expected = || "a part and the number of parts, such as `2/5`".to_owned();
    let (part, parts) = text.split_once('/').ok_or_else(expected)?;
    match (part.trim().parse(), parts.trim().parse()) {
        (Ok(part), Ok(parts)) if (1..=parts).contains(&part) => Ok((part, parts)),
        _ => Err(expected()),
    }
}

#[derive(Args)]
pub(crate) struct RunArguments {
    /// Read an import from this run instead of the latest run of its workflow
    #[arg(long, value_name = "NAME=RUN", add = ArgValueCompleter::new(completion::imports_of_file))]
    pub(crate) import: Vec<String>,
    /// Set a budget of agents, in place of that of the file: `cost=5`, `tokens=100000`, `turns=20`, `time=30m`; that
    /// of a step with its name, as in `review.cost=1`. Can be given several times
    #[arg(long, value_name = "LIMIT")]
    pub(crate) budget: Vec<String>,
    /// The folder that steps run in
    #[arg(long, value_name = "FOLDER")]
    pub(crate) dir: Option<PathBuf>,
    /// Write every exchange with an agent to files in FOLDER, to replay them
    #[arg(long, value_name = "FOLDER", conflicts_with = "replay")]
    pub(crate) record: Option<PathBuf>,
    /// Answer in place of agents and their tools what is recorded in FOLDER. Nothing else is asked or started
    /// for them
    #[arg(long, value_name = "FOLDER")]
    pub(crate) replay: Option<PathBuf>,
    /// Ask the agents of this step all the same. Can be repeated
    #[arg(long, value_name = "STEP", requires = "replay")]
    pub(crate) live: Vec<String>,
    /// Run the programs of steps on other machines, by workers behind a Restate server: `restate://HOST:PORT`
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) on: Option<String>,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
    /// Keep what is too large for a message in this blob store: `file:///FOLDER`, `s3://BUCKET/PREFIX`,
    /// `gs://BUCKET/PREFIX` or `az://CONTAINER/PREFIX`. Default: the folder `.threadline/blobs`
    #[arg(long, value_name = "URL", requires = "on")]
    pub(crate) blobs: Option<String>,
    /// Send workers copies of the project, and apply what programs change in them. Without it, all machines share the
    /// folder of the project
    #[arg(long, requires = "blobs")]
    pub(crate) bundle: bool,
    /// Keep the journal in the blob store, too: the run goes on elsewhere if the disk of this machine is lost
    #[arg(long, requires = "blobs")]
    pub(crate) replicate: bool,
    /// Hand the run over to the workers, one of which drives it, and print its id. The journal is in the blob store
    #[arg(long, requires = "blobs", conflicts_with_all = DRIVEN_HERE)]
    pub(crate) detach: bool,
    #[command(flatten)]
    pub(crate) watch: WatchArguments,
    #[command(flatten)]
    pub(crate) what: WorkflowArguments,
}

#[derive(Args)]
pub(crate) struct ResumeArguments {
    /// The folder of the project
    #[arg(long, value_name = "FOLDER")]
    pub(crate) dir: Option<PathBuf>,
    /// What to do with steps that were running when Threadline was killed. Overrides their `on_crash`
    #[arg(long, value_name = "WHAT")]
    pub(crate) in_flight: Option<InFlightDecision>,
    /// Set a budget of agents, in place of that of the file: `cost=5`, `tokens=100000`, `turns=20`, `time=30m`; that
    /// of a step with its name, as in `review.cost=1`. Can be given several times
    #[arg(long, value_name = "LIMIT")]
    pub(crate) budget: Vec<String>,
    /// Rerun the failed items of a finished run, and the steps after them. Has no effect on a run that
    /// stopped before its end
    #[arg(long, conflicts_with = "edited")]
    pub(crate) failed: bool,
    /// Continue with the file as it is now, in a new run that keeps the results of unchanged steps
    #[arg(long)]
    pub(crate) edited: bool,
    #[command(flatten)]
    pub(crate) confirm: ConfirmArguments,
    /// Hand the run over to the workers, one of which drives it from now on
    #[arg(long, conflicts_with_all = DRIVEN_HERE, conflicts_with_all = ["in_flight", "budget", "edited", "jobs"])]
    pub(crate) detach: bool,
    #[command(flatten)]
    pub(crate) kept: KeptArguments,
    /// The folder of the journal, where a worker drives the run
    #[arg(long, value_name = "FOLDER", hide = true, requires = "blobs")]
    pub(crate) journal: Option<PathBuf>,
    /// Do nothing if the run has stopped behind this event
    #[arg(long, value_name = "EVENT", hide = true, requires = "journal")]
    pub(crate) since: Option<u64>,
    #[command(flatten)]
    pub(crate) watch: WatchArguments,
    /// The run: its id, a prefix of it, or `last`
    #[arg(value_name = "RUN", default_value = "last", add = ArgValueCompleter::new(completion::runs))]
    pub(crate) run: String,
}

/// What only a process can do that drives a run itself.
const DRIVEN_HERE: [&str; 6] = ["verbose", "trace_variables", "wait", "json", "stats", "report"];

/// What happens after the plan of a run is printed that keeps results of another one.
#[derive(Args)]
pub(crate) struct ConfirmArguments {
    /// Print what is kept and what runs again, and run nothing
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
    /// Do not ask
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Args)]
pub(crate) struct RerunArguments {
    /// The folder of the project
    #[arg(long, value_name = "FOLDER")]
    pub(crate) dir: Option<PathBuf>,
    /// The step to run again: an id, a number, an item such as `map[3]`, a visit such as `check#2`
    #[arg(
        long,
        value_name = "STEP",
        required = true,
        add = ArgValueCompleter::new(completion::steps)
    )]
    pub(crate) from: Vec<String>,
    /// What to do with steps that were running when Threadline was killed. Overrides their `on_crash`
    #[arg(long, value_name = "WHAT")]
    pub(crate) in_flight: Option<InFlightDecision>,
    #[command(flatten)]
    pub(crate) confirm: ConfirmArguments,
    #[command(flatten)]
    pub(crate) watch: WatchArguments,
    /// The run: its id, a prefix of it, or `last`
    #[arg(value_name = "RUN", default_value = "last", add = ArgValueCompleter::new(completion::runs))]
    pub(crate) run: String,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum InFlightDecision {
    /// Run them again
    Rerun,
    /// Mark them as failed
    Fail,
}

/// Which flag a setting came with.
#[derive(Clone, Copy)]
pub(crate) enum SetFlag {
    Text,
    Json,
}

impl SetFlag {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Text => "--set",
            Self::Json => "--set-json",
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum UndefinedPolicy {
    /// Report an error
    Error,
    /// Keep the reference as written
    Keep,
    /// Replace it by nothing, or by null
    Empty,
}

impl From<UndefinedPolicy> for Undefined {
    fn from(policy: UndefinedPolicy) -> Self {
        match policy {
            UndefinedPolicy::Error => Self::Error,
            UndefinedPolicy::Keep => Self::Keep,
            UndefinedPolicy::Empty => Self::Empty,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    Json,
    Yaml,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TraceFormat {
    /// One line of text
    Text,
    /// One JSON object per line
    Json,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What has no help, by the names of the commands that lead to it.
    fn unexplained(command: &clap::Command, names: &str, found: &mut Vec<String>) {
        let is_blank = |help: Option<&clap::builder::StyledStr>| {
            help.is_none_or(|help| help.to_string().lines().next().is_none_or(|line| line.trim().is_empty()))
        };
        if is_blank(command.get_about()) {
            found.push(names.to_owned());
        }
        for argument in command.get_arguments() {
            let name = format!("{names} {}", argument.get_id());
            if is_blank(argument.get_help())
                || argument.get_long_help().is_some_and(|long| is_blank(Some(long)))
            {
                found.push(name.clone());
            }
            let values = argument.get_possible_values();
            let (with, without): (Vec<_>, Vec<_>) =
                values.iter().partition(|value| value.get_help().is_some());
            if !with.is_empty() {
                found.extend(without.iter().map(|value| format!("{name} {}", value.get_name())));
            }
        }
        for inner in command.get_subcommands() {
            unexplained(inner, &format!("{names} {}", inner.get_name()), found);
        }
    }

    #[test]
    fn every_argument_has_help() {
        let mut command = Arguments::command();
        command.build();
        let mut found = Vec::new();
        unexplained(&command, "threadline", &mut found);
        assert!(found.is_empty(), "without help, or with a blank first line:\n{}", found.join("\n"));
    }
}
