//! The binary: arguments in, results to stdout, everything else to stderr, an exit code from a closed set.
//!
//! It is the only crate that prints.

mod arguments;
mod commands;
mod exit;
mod failed;
mod inputs;
mod live;
mod progress;
mod remarks;
mod report;
mod reporter;
mod screen;
mod stats;
mod stream;
mod table;
mod turns;

use std::process::ExitCode;

use arguments::Arguments;

fn main() -> ExitCode {
    let arguments = match Arguments::read() {
        Ok(arguments) => arguments,
        Err(error) => return exit::of_usage(&error),
    };
    let result = match &arguments.command {
        arguments::Command::Run(run) => commands::run::run(run),
        arguments::Command::Resume(resume) => commands::run::resume(resume),
        arguments::Command::Runs(runs) => commands::runs::runs(runs),
        arguments::Command::Show(show) => commands::show::show(show),
        arguments::Command::Explain(explain) => commands::explain::explain(explain),
        arguments::Command::Vars(vars) => commands::vars::vars(vars),
        arguments::Command::Preview(preview) => commands::preview::preview(preview),
        arguments::Command::Simulate(simulate) => commands::simulate::simulate(simulate),
        arguments::Command::Tools(tools) => commands::tools::tools(tools),
        arguments::Command::Render(render) => commands::render(render),
        arguments::Command::Resolve(resolve) => commands::resolve(resolve),
        arguments::Command::Eval(eval) => commands::eval(eval),
        arguments::Command::Check(check) => commands::check::check(check),
        arguments::Command::Expect(expect) => commands::expect::expect(expect),
        arguments::Command::Graph(graph) => commands::graph::graph(graph),
        arguments::Command::Init(init) => commands::init::init(init),
        arguments::Command::Migrate(migrate) => commands::migrate::migrate(migrate),
        arguments::Command::Schema(schema) => commands::schema::schema(schema),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
