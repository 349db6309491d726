//! `threadline serve`: shows the runs of projects in a browser.

use threadline_lang::Value;

use crate::arguments::ServeArguments;
use crate::exit::CommandFailure;

/// Answers until the process ends.
pub(crate) fn serve(call: &ServeArguments) -> Result<(), CommandFailure> {
    built::serve(call)
}

/// The description of the API; nothing where the program was built without its server.
pub(super) fn openapi() -> Value {
    built::openapi()
}

#[cfg(feature = "serve")]
mod built {
    use std::fs::OpenOptions;
    use std::io::{self, Write as _};
    use std::os::unix::fs::OpenOptionsExt as _;
    use std::path::{Path, PathBuf};
    use std::process::{Command, Stdio};

    use threadline_flow::load::load;
    use threadline_lang::Value;
    use threadline_runner::project::{Project, plain};
    use threadline_runner::trust::StoreUse;
    use threadline_serve::{PublicUrl, ServeSettings, Token};

    use crate::arguments::{SchemaKind, ServeArguments};
    use crate::commands::history::{cannot_start, project, store_of};
    use crate::commands::schema::schema_of;
    use crate::commands::{output_schemas, print};
    use crate::exit::CommandFailure;
    use crate::inputs;
    use crate::report::{self, Report};

    /// The program that opens an address in the browser of the user.
    const OPENER: &str = "xdg-open";

    pub(super) fn serve(call: &ServeArguments) -> Result<(), CommandFailure> {
        let usage = CommandFailure::Usage;
        let public_url = call.public_url.as_deref().map(PublicUrl::parse).transpose();
        let public_url = public_url.map_err(|why| usage(format!("`--public-url`: {why}")))?;
        if call.listen.ip().is_unspecified() && public_url.is_none() {
            let message = format!(
                "a server that listens at `{}` has no name of its own: give it one with `--public-url`",
                call.listen
            );
            return Err(usage(message));
        }
        let projects = projects(&call.dir)?;
        let (token, is_new) = match &call.token_file {
            Some(file) => (token_of(file)?, false),
            None => (Token::new(), true),
        };
        let is_public = !call.listen.ip().is_loopback();
        let settings = ServeSettings {
            projects,
            listen: call.listen,
            public_url,
            token,
            read_only: call.read_only,
            read_workflow: |path| load(inputs::read_workflow(path).ok()?).0,
            schemas: schemas(),
        };
        let ready = |page: &str, with_token: &str| {
            // Somebody who chose the token has it, and what is printed may be kept.
            let _ = print(&format!("{}\n", if is_new { with_token } else { page }));
            if is_public {
                report::print_note(
                    "whoever reaches this address can read what is sent: let a proxy with TLS stand before it",
                );
            }
            if call.open
                && let Err(error) = open(with_token)
            {
                report::print_note(&format!("no browser could be opened: {}", plain(&error)));
            }
        };
        threadline_serve::serve(settings, ready).map_err(|why| cannot_start(&why))
    }

    /// The description of the API.
    pub(super) fn openapi() -> Value {
        threadline_serve::description(&schemas())
    }

    /// The schemas of what commands print, and the server answers, too.
    fn schemas() -> Vec<(&'static str, Value)> {
        let kinds = [
            ("state", SchemaKind::State),
            ("items", SchemaKind::Items),
            ("source", SchemaKind::Source),
            ("explanation", SchemaKind::Explanation),
            ("chain", SchemaKind::Chain),
            ("diff", SchemaKind::Diff),
            ("names", SchemaKind::Names),
            ("conversations", SchemaKind::Conversations),
            ("failure", SchemaKind::Failures),
        ];
        let of_commands = kinds.into_iter().map(|(name, kind)| (name, schema_of(kind)));
        std::iter::once(("run", output_schemas::run())).chain(of_commands).collect()
    }

    /// The projects of folders, each once, whose stores may be read.
    fn projects(folders: &[PathBuf]) -> Result<Vec<Project>, CommandFailure> {
        let folders: Vec<Option<&Path>> = match folders {
            [] => vec![None],
            folders => folders.iter().map(|folder| Some(folder.as_path())).collect(),
        };
        let mut projects: Vec<Project> = Vec::new();
        for folder in folders {
            let found = project(folder)?;
            store_of(&found, StoreUse::Read, false)?;
            if !projects.iter().any(|known| known.root() == found.root()) {
                projects.push(found);
            }
        }
        Ok(projects)
    }

    fn token_of(file: &Path) -> Result<Token, CommandFailure> {
        let shown = file.display();
        let text = std::fs::read_to_string(file)
            .map_err(|error| cannot_start(&format!("cannot read `{shown}`: {}", plain(&error))))?;
        Token::given(&text).map_err(|why| {
            let hint =
                format!("`head -c 32 /dev/urandom | base64 -w0 | tr '+/=' '-_~' > {shown}` makes a good one");
            CommandFailure::NotStarted(vec![Report::with_hint(format!("{shown}: {why}"), &hint)])
        })
    }

    /// Opens an address in a browser. It stands in a file that only the user can read: arguments of programs are seen by
    /// everybody on the machine.
    fn open(address: &str) -> io::Result<()> {
        let path = std::env::temp_dir().join(format!("threadline-{}.html", uuid::Uuid::new_v4().simple()));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let page = format!(
            "<!doctype html>\n<meta charset=\"utf-8\">\n<meta http-equiv=\"refresh\" content=\"0; url={address}\">\n\
             <title>Threadline</title>\n"
        );
        file.write_all(page.as_bytes())?;
        let mut command = Command::new(OPENER);
        let opener = command.arg(&path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut opener = opener.spawn().inspect_err(|_| drop(std::fs::remove_file(&path)))?;
        std::thread::spawn(move || {
            // Whether it found a browser is seen on the screen. A browser that starts reads the file a little later.
            let _ = opener.wait();
            std::thread::sleep(std::time::Duration::from_secs(30));
            let _ = std::fs::remove_file(&path);
        });
        Ok(())
    }
}

#[cfg(not(feature = "serve"))]
mod built {
    use threadline_lang::Value;

    use crate::arguments::ServeArguments;
    use crate::exit::CommandFailure;
    use crate::report::Report;

    pub(super) fn openapi() -> Value {
        Value::NULL
    }

    pub(super) fn serve(_call: &ServeArguments) -> Result<(), CommandFailure> {
        let message = "this program was built without its server";
        let hint = "build it with the feature `serve`, which is on by default";
        Err(CommandFailure::NotStarted(vec![Report::with_hint(message, hint)]))
    }
}
