//! The project's own tasks; `cargo xtask help` lists them.
//!
//! A task starts other programs and reads the source tree. It writes to the target folder only, says so
//! before it installs anything, and needs nothing but Rust and a C++ compiler to begin with.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "talking to the person who started it is what a task does"
)]

mod architecture;
mod arguments;
mod coverage;
mod dependencies;
mod failure;
mod fuzz;
mod licence;
mod measure;
mod newcomer;
mod older;
mod project;
mod source;
mod steps;

use std::process::ExitCode;

use crate::arguments::{HELP, Task};
use crate::failure::Failure;
use crate::project::Project;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let task = match Task::parse(&arguments) {
        Ok(task) => task,
        Err(failure) => return report(&failure, 2),
    };
    match perform(&task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report(&failure, 1),
    }
}

fn perform(task: &Task) -> Result<(), Failure> {
    let project = Project::find()?;
    match task {
        Task::Help => print!("{HELP}"),
        Task::Test(effort) => steps::run(&project, *effort)?,
        Task::Architecture => architecture::check(&project)?,
        Task::Newcomer(effort) => newcomer::check(&project, *effort)?,
        Task::Fuzz { target, amount } => fuzz::run(&project, target.as_deref(), *amount)?,
        Task::Measure { path, json } => measure::run(&project, path.as_deref(), *json)?,
        Task::Older { folder, list } => older::run(&project, folder, *list)?,
        Task::Coverage(name) => coverage::run(&project, name.as_deref())?,
    }
    Ok(())
}

fn report(failure: &Failure, code: u8) -> ExitCode {
    eprintln!("error: {failure}");
    ExitCode::from(code)
}
