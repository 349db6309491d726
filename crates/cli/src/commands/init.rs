//! `threadline init`: writes starter files. An existing file is never overwritten.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

use threadline_lang::diag::nearest;
use threadline_runner::project::plain;

use super::print_styled;
use crate::arguments::InitArguments;
use crate::exit::CommandFailure;
use crate::report::Report;
use crate::table::Table;

/// A file that `init` can write.
struct StarterFile {
    name: &'static str,
    /// What the name of the file ends with.
    ending: &'static str,
    text: &'static str,
}

macro_rules! templates {
    ($($kind:literal $ending:literal: $($name:literal)*;)*) => {
        &[$($(StarterFile {
            name: $name,
            ending: $ending,
            text: include_str!(concat!("../../templates/", $kind, "/", $name, $ending)),
        },)*)*]
    };
}

/// Every template, in the order they are listed.
static TEMPLATES: &[StarterFile] = templates! {
    "workflows" ".yaml": "steps" "map" "loop";
    "tests" ".test.yaml": "support" "coding" "search" "triage" "extraction" "summary" "safety" "tool-use" "translation"
        "wallet";
    "expectations" ".yaml": "transfer" "refusal" "clarification" "injection" "insufficient-balance" "multi-step" "knowledge"
        "conditional" "step";
};

impl StarterFile {
    /// The description of the file, which is its first line.
    fn about(&self) -> &'static str {
        self.text.lines().next().unwrap_or_default().trim_start_matches(['#', ' '])
    }
}

/// The name and the description of every template.
pub(crate) fn starter_files() -> impl Iterator<Item = (&'static str, &'static str)> {
    TEMPLATES.iter().map(|template| (template.name, template.about()))
}

pub(crate) fn init(call: &InitArguments) -> Result<(), CommandFailure> {
    if call.names.is_empty() {
        let mut table = Table::default();
        for (name, about) in starter_files() {
            let plain = anstyle::Style::new();
            table.row([(plain, name.to_owned()), (plain, about.to_owned())]);
        }
        return print_styled(&format!(
            "{}\n`threadline init NAME` writes one as NAME.yaml, a test as NAME.test.yaml\n",
            table.text("  ")
        ));
    }
    let found: Result<Vec<&StarterFile>, CommandFailure> = call.names.iter().map(|name| find(name)).collect();
    for template in found? {
        let path = call.into.join(format!("{}{}", template.name, template.ending));
        write(&path, template.text)?;
        print_styled(&format!("{}\n", path.display()))?;
    }
    Ok(())
}

fn find(name: &str) -> Result<&'static StarterFile, CommandFailure> {
    TEMPLATES.iter().find(|template| template.name == name).ok_or_else(|| {
        let message = format!("there is no template `{name}`");
        let near = nearest(name, TEMPLATES.iter().map(|template| template.name));
        let hint = match near {
            Some(near) => format!("did you mean `{near}`"),
            None => "`threadline init` lists them".to_owned(),
        };
        CommandFailure::Inputs(vec![Report::with_hint(message, &hint)])
    })
}

/// Writes a file that does not exist yet.
fn write(path: &Path, text: &str) -> Result<(), CommandFailure> {
    let refused = |error: std::io::Error| {
        let message = if error.kind() == std::io::ErrorKind::AlreadyExists {
            format!("`{}` is there already", path.display())
        } else {
            format!("cannot write `{}`: {}", path.display(), plain(&error))
        };
        CommandFailure::NotStarted(vec![Report::plain(message)])
    };
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(refused)?;
    }
    let mut file = OpenOptions::new().write(true).create_new(true).open(path).map_err(refused)?;
    file.write_all(text.as_bytes()).map_err(refused)
}
