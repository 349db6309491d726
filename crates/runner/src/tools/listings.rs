//! What servers said of their tools when they were last greeted, kept in the store, so that `check` can use it without
//! starting a server.
//!
//! What is kept belongs to the command or URL of a server: another one has nothing kept. Headers and variables, in
//! which secrets stand, are not part of it, and a command is only kept as a hash.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use threadline_engine::evaluate::{ResolvedReach, ResolvedServer};
use threadline_lang::value::JsonStyle;
use threadline_lang::{Limits, Value, data};

use super::{Listing, tool};
use crate::secrets::masks::Masks;

/// The kept listings of a store.
#[derive(Debug, Clone)]
pub struct KeptListings {
    folder: PathBuf,
}

impl KeptListings {
    /// Those of a store.
    pub fn of_store(store: &Path) -> Self {
        Self { folder: store.join("tools") }
    }

    /// What a server said when it was last greeted, if it was.
    pub fn read(&self, server: &ResolvedServer) -> Option<Listing> {
        let text = fs::read_to_string(self.file(server)).ok()?;
        // A file that cannot be read says nothing; the next greeting writes it again.
        let kept = data::json::read_value(&text, &Limits::DEFAULT).ok()?;
        let text = |key: &str| kept.get(key).and_then(Value::as_str).map(str::to_owned);
        let tools = kept.get("tools")?.as_list()?.iter().filter_map(tool).collect();
        Some(Listing { title: text("name"), version: text("version"), tools })
    }

    /// Keeps what a server said. It is only a help for `check`, so a store that cannot be written changes nothing.
    pub(super) fn keep(&self, server: &ResolvedServer, listing: &Listing, masks: Option<&Arc<Masks>>) {
        let text = |text: &Option<String>| text.as_deref().map_or(Value::NULL, Value::from);
        let kept = Value::record([
            ("name", text(&listing.title)),
            ("version", text(&listing.version)),
            ("tools", described(listing)),
        ]);
        let kept = masks.map_or(kept.clone(), |masks| masks.mask_value(&kept).0);
        let file = self.file(server);
        let new = file.with_extension(format!("{}.new", std::process::id()));
        let written = fs::create_dir_all(&self.folder)
            .and_then(|()| fs::write(&new, kept.to_json(JsonStyle::Compact)))
            .and_then(|()| fs::rename(&new, &file));
        if written.is_err() {
            let _ = fs::remove_file(&new);
        }
    }

    fn file(&self, server: &ResolvedServer) -> PathBuf {
        let parts: Vec<&str> = match &server.reach {
            ResolvedReach::Program { command, cwd, .. } => {
                let program = command.iter().map(String::as_str);
                ["program", cwd.as_deref().unwrap_or_default()].into_iter().chain(program).collect()
            }
            ResolvedReach::Url { url, .. } => vec!["url", url],
        };
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            // The length keeps parts apart.
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        self.folder.join(format!("{}.json", &hasher.finalize().to_hex()[..32]))
    }
}

/// The tools of a server, as it describes them.
pub(super) fn described(listing: &Listing) -> Value {
    let tools = listing.tools.iter().map(|tool| {
        let mut fields =
            vec![("name", Value::from(tool.name.as_str())), ("inputSchema", tool.parameters.clone())];
        fields.extend(tool.description.as_deref().map(|text| ("description", Value::from(text))));
        fields.extend(tool.result.clone().map(|schema| ("outputSchema", schema)));
        Value::record(fields)
    });
    // They came out of one answer or a few, so they fit into a list.
    Value::list(tools.collect::<Vec<_>>()).unwrap_or_default()
}
