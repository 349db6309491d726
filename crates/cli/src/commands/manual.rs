//! `threadline man`: the manual page of the program or of a command, made from the command line itself.

use clap::CommandFactory as _;
use threadline_lang::diag::words;

use super::print;
use crate::arguments::{Arguments, ManArguments};
use crate::exit::CommandFailure;

pub(crate) fn man(call: &ManArguments) -> Result<(), CommandFailure> {
    let mut program = Arguments::command();
    program.build();
    let command = match &call.command {
        None => program,
        Some(name) => {
            let found = program.get_subcommands().find(|command| command.get_name() == name).cloned();
            let command = found.ok_or_else(|| {
                let hint = words::suggest(name, program.get_subcommands().map(clap::Command::get_name));
                let hint = hint.map_or(String::new(), |hint| format!(": {hint}"));
                CommandFailure::Usage(format!("there is no command `{name}`{hint}"))
            })?;
            // The name of the page is that under which it is installed. `help` has a command for each of the others,
            // which have pages of their own.
            command.display_name(format!("threadline-{name}")).mut_subcommands(|command| command.hide(true))
        }
    };
    let mut page = Vec::new();
    // Writing into memory cannot fail.
    let _ = clap_mangen::Man::new(command).render(&mut page);
    print(&String::from_utf8_lossy(&page))
}
