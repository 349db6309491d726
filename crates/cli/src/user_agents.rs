//! The user-wide file of agents: `agents.yaml` in the folder `threadline` of the user's configuration, another one, or none.

use std::ffi::OsString;
use std::path::PathBuf;

use threadline_flow::files::{USER_AGENTS, Unread, no_user_agents};
use threadline_flow::load::user_agents_of;
use threadline_lang::source::SourceFile;

use crate::inputs::read_called;

/// The variable that names another file; an empty one stands for none.
const VARIABLE: &str = "THREADLINE_AGENTS";

/// The file, empty where there is none. A file that is named must be there.
pub(crate) fn read() -> Result<SourceFile, Unread> {
    let given = std::env::var_os(VARIABLE);
    let path = match &given {
        Some(given) => Some(PathBuf::from(given)).filter(|_| !given.is_empty()),
        None => usual().filter(|path| path.exists()),
    };
    let Some(path) = path else { return Ok(no_user_agents()) };
    let path = path.display().to_string();
    let file = read_called(&path).map_err(|unread| {
        let hint = given.map(|_| format!("`{VARIABLE}` names it; an empty one stands for no file"));
        Unread { hint: unread.hint.or(hint), ..unread }
    })?;
    Ok(SourceFile::with_format(&format!("{USER_AGENTS}{path}"), file.own_text(), file.format()))
}

/// Where settings of agents come from, where a file has agents and there is a user-wide file.
pub(crate) fn note(file: &SourceFile) -> Option<String> {
    let user = user_agents_of(file)?;
    let path = user.name().strip_prefix(USER_AGENTS).unwrap_or(user.name()).to_owned();
    Some(format!("settings of agents come from `{path}`, too"))
}

/// Where the file is if nobody says anything else.
fn usual() -> Option<PathBuf> {
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    let config = std::env::var_os("XDG_CONFIG_HOME").and_then(absolute);
    let config = config.or_else(|| Some(std::env::var_os("HOME").and_then(absolute)?.join(".config")));
    Some(config?.join("threadline").join("agents.yaml"))
}
