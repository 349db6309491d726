//! The binary: it reads the arguments, runs one command, prints results to stdout and everything else to stderr, and
//! exits with a code from a closed set.
//!
//! This is the only crate that prints.

mod arguments;
mod commands;
mod completion;
mod exit;
mod failure_output;
mod inputs;
mod junit;
mod live;
mod loop_progress;
mod prepare;
mod printing;
mod progress;
mod remarks;
mod report;
mod reporter;
mod screen;
mod stats;
mod stream;
mod table;
mod user_agents;

use std::process::ExitCode;

use threadline_runner::signals;

use arguments::Arguments;

/// That of musl takes twice the processor time for many small values, and more where there are threads.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    completion::answer();
    // Without it a run can still be killed and resumed.
    let _ = signals::survive_file_limit();
    let arguments = match Arguments::read() {
        Ok(arguments) => arguments,
        Err(error) => return exit::of_usage(&error),
    };
    let result = match &arguments.command {
        arguments::CliCommand::Run(run) => commands::run::run(run),
        arguments::CliCommand::Test(test) => commands::test::test(test),
        arguments::CliCommand::Resume(resume) => commands::run::resume(resume),
        arguments::CliCommand::Rerun(rerun) => commands::continued::rerun(rerun),
        arguments::CliCommand::Serve(serve) => commands::serve::serve(serve),
        arguments::CliCommand::Runs(runs) => commands::runs::runs(runs),
        arguments::CliCommand::Show(show) => commands::show::show(show),
        arguments::CliCommand::Explain(explain) => commands::explain::explain(explain),
        arguments::CliCommand::Diff(diff) => commands::diff::diff(diff),
        arguments::CliCommand::Report(report) => commands::run_report::run_report(report),
        arguments::CliCommand::Vars(vars) => commands::vars::vars(vars),
        arguments::CliCommand::Stop(stop) => commands::stop::stop(stop),
        arguments::CliCommand::Attach(attach) => commands::attach::attach(attach),
        arguments::CliCommand::Clean(clean) => commands::clean::clean(clean),
        arguments::CliCommand::Rm(rm) => commands::clean::rm(rm),
        arguments::CliCommand::Logs(logs) => commands::logs::logs(logs),
        arguments::CliCommand::Preview(preview) => commands::preview::preview(preview),
        arguments::CliCommand::Simulate(simulate) => commands::simulate::simulate(simulate),
        arguments::CliCommand::Tools(tools) => commands::tools::tools(tools),
        arguments::CliCommand::Render(render) => commands::render(render),
        arguments::CliCommand::Resolve(resolve) => commands::resolve(resolve),
        arguments::CliCommand::Eval(eval) => commands::eval(eval),
        arguments::CliCommand::Check(check) => commands::check::check(check),
        arguments::CliCommand::Expect(expect) => commands::expect::expect(expect),
        arguments::CliCommand::Graph(graph) => commands::graph::graph(graph),
        arguments::CliCommand::Init(init) => commands::init::init(init),
        arguments::CliCommand::Migrate(migrate) => commands::migrate::migrate(migrate),
        arguments::CliCommand::Completions(completions) => completion::completions(completions),
        arguments::CliCommand::Man(man) => commands::manual::man(man),
        arguments::CliCommand::Worker(worker) => commands::elsewhere::worker(worker),
        arguments::CliCommand::Schema(schema) => commands::schema::schema(schema),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
