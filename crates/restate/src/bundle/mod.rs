//! The folder of a project, for workers that do not have it: what is in it as data, and how that changes.
//!
//! A bundle lists the files, links and folders of a project. The content of each file stands in the blob store, and so
//! does the list. A worker makes a private copy of it for each act; what the act changes in the copy is a
//! [`BundleChange`], and the coordinator makes the same change in the project.
//!
//! - `scan`: a project becomes a bundle.
//! - `copy`: a bundle becomes a private copy, and what was done there a change.
//! - `apply`: a change is made in a project.
//! - `project`: the project of a run at its coordinator, which sends bundles and takes changes.

pub(crate) mod apply;
pub(crate) mod copy;
pub(crate) mod project;
pub(crate) mod scan;

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use threadline_lang::value::JsonStyle;
use threadline_lang::{Limits, Value, data};
use threadline_runner::worktrees::CarriedRepository;

use crate::blobs::BlobRef;
use crate::wire::{blob_value, fields, fields_with, read_blob, text_of};

/// The version of a list.
const VERSION: i64 = 1;

/// A bundle has at most so many entries.
pub(crate) const MOST_ENTRIES: usize = 100_000;

/// The files of a bundle have at most so many bytes.
pub(crate) const MOST_BYTES: u64 = 8 << 30;

/// What a project holds under one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BundleEntry {
    /// A folder, with its permissions.
    Folder { mode: u32 },
    /// A file, with its permissions and the time when it was changed, in nanoseconds.
    File { mode: u32, content: BlobRef, changed: i64 },
    /// A link, and where it leads.
    Link { target: String },
}

impl BundleEntry {
    /// Whether both are the same for whoever reads them. Nobody asks when a file was written.
    pub(crate) fn reads_as(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::File { mode, content, .. },
                Self::File { mode: other_mode, content: other_content, .. },
            ) => mode == other_mode && content == other_content,
            (one, other) => one == other,
        }
    }
}

/// What a project holds, by paths from its folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Bundle {
    pub(crate) entries: BTreeMap<String, BundleEntry>,
    /// What git knows of it, where it is a working tree.
    pub(crate) repository: Option<SentRepository>,
}

/// A repository, and where its objects are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SentRepository {
    pub(crate) carried: CarriedRepository,
    /// All of its objects.
    pub(crate) packs: Vec<BlobRef>,
}

/// What an act changed in a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RepositoryChange {
    /// What git knew before; nothing where there was no repository.
    pub(crate) before: Option<CarriedRepository>,
    pub(crate) after: CarriedRepository,
    /// The objects that are new.
    pub(crate) pack: Option<BlobRef>,
}

/// A bundle in the blob store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SentBundle {
    /// The name of the folder.
    pub(crate) name: String,
    /// The list.
    pub(crate) list: BlobRef,
}

/// What an act changed under one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EntryChange {
    pub(crate) path: String,
    /// What was there when it began.
    pub(crate) before: Option<BundleEntry>,
    /// What is there now.
    pub(crate) after: Option<BundleEntry>,
}

/// What an act changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BundleChange {
    /// Sorted by path.
    pub(crate) entries: Vec<EntryChange>,
    /// What no message can carry: sockets, pipes and devices.
    pub(crate) left_out: Vec<String>,
    /// What was changed in the repository.
    pub(crate) repository: Option<RepositoryChange>,
}

impl BundleChange {
    /// Whether there is nothing to tell.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.left_out.is_empty() && self.repository.is_none()
    }
}

/// Names that stay where they are: the store, and what git keeps.
pub(crate) fn stays(name: &str) -> bool {
    matches!(name, ".git" | threadline_runner::project::STORE)
}

/// Fails for a path that leads out of the folder, or to what stays where it is.
pub(crate) fn check_path(path: &str) -> Result<(), String> {
    let is_plain = |part: &str| !matches!(part, "" | "." | "..") && !stays(part) && !part.contains('\0');
    if path.len() <= 4096 && path.split('/').all(is_plain) {
        return Ok(());
    }
    Err(format!("`{}` is no path in a project", path.escape_debug()))
}

impl Bundle {
    /// The list as text.
    pub(crate) fn text(&self) -> String {
        let entries = self.entries.iter().map(|(path, entry)| {
            Value::record([("path", path.as_str().into()), ("is", entry_value(Some(entry)))])
        });
        let repository = self.repository.as_ref().map(|SentRepository { carried, packs }| {
            let packs = Value::sequence(packs.iter().map(blob_value));
            ("repository", Value::record([("carried", repository_value(carried)), ("packs", packs)]))
        });
        let fields = [("v", VERSION.into()), ("entries", Value::sequence(entries))];
        Value::record(fields.into_iter().chain(repository)).to_json(JsonStyle::Compact)
    }

    /// The bundle of a list. All of its paths stay in the folder, and each is in a folder that the list has, too: so none
    /// leads through a link.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let value = data::json::read_value(text, &Limits::DEFAULT).map_err(|_| "it is no JSON".to_owned())?;
        let ([version, list], [repository]) = fields_with(&value, ["v", "entries"], ["repository"])?;
        if version.as_i64() != Some(VERSION) {
            return Err("the version of a bundle is not known".to_owned());
        }
        let mut entries = BTreeMap::new();
        for value in list.as_list().ok_or("`entries` is no list")? {
            let [path, entry] = fields(value, ["path", "is"])?;
            let path = text_of(path, "path")?;
            check_path(path)?;
            let entry = read_entry(entry)?.ok_or_else(|| format!("`{path}` is nothing"))?;
            if let Some((folder, _)) = path.rsplit_once('/')
                && !matches!(entries.get(folder), Some(BundleEntry::Folder { .. }))
            {
                return Err(format!("`{folder}` is no folder of the bundle"));
            }
            entries.insert(path.to_owned(), entry);
        }
        let repository = repository.map(|value| {
            let [carried, packs] = fields(value, ["carried", "packs"])?;
            let packs = packs.as_list().ok_or("`packs` is no list")?.iter().map(read_blob);
            let packs = packs.collect::<Result<_, _>>()?;
            Ok::<_, String>(SentRepository { carried: read_repository(carried)?, packs })
        });
        Ok(Self { entries, repository: repository.transpose()? })
    }
}

fn repository_value(carried: &CarriedRepository) -> Value {
    let text = |text: &Option<String>| text.as_deref().map_or(Value::NULL, Value::from);
    let refs = carried.refs.iter().map(|(name, object)| {
        Value::record([("name", name.as_str().into()), ("object", object.as_str().into())])
    });
    Value::record([
        ("format", carried.format.as_str().into()),
        ("head", carried.head.as_str().into()),
        ("refs", Value::sequence(refs)),
        ("index", text(&carried.index)),
        ("name", text(&carried.user[0])),
        ("email", text(&carried.user[1])),
    ])
}

fn read_repository(value: &Value) -> Result<CarriedRepository, String> {
    let [format, head, refs, index, name, email] =
        fields(value, ["format", "head", "refs", "index", "name", "email"])?;
    let optional = |value: &Value| value.as_str().map(str::to_owned);
    // What is written into files of git is one line there.
    let line = |text: &str| {
        let is_plain = !text.contains(|c: char| c.is_control() || c == ' ') && !text.starts_with('-');
        is_plain
            .then(|| text.to_owned())
            .ok_or_else(|| format!("`{}` is no name of git", text.escape_debug()))
    };
    let head = text_of(head, "head")?;
    line(head.strip_prefix("ref: ").unwrap_or(head))?;
    let format = line(text_of(format, "format")?)?;
    let mut found = BTreeMap::new();
    for value in refs.as_list().ok_or("`refs` is no list")? {
        let [name, object] = fields(value, ["name", "object"])?;
        found.insert(line(text_of(name, "name")?)?, line(text_of(object, "object")?)?);
    }
    let index = optional(index).map(|index| line(&index)).transpose()?;
    let user = [optional(name), optional(email)];
    Ok(CarriedRepository { format, head: head.to_owned(), refs: found, index, user })
}

fn entry_value(entry: Option<&BundleEntry>) -> Value {
    match entry {
        None => Value::NULL,
        Some(BundleEntry::Folder { mode }) => Value::record([("folder", u64::from(*mode).into())]),
        Some(BundleEntry::File { mode, content, changed }) => Value::record([
            ("file", u64::from(*mode).into()),
            ("content", blob_value(content)),
            ("changed", (*changed).into()),
        ]),
        Some(BundleEntry::Link { target }) => Value::record([("link", target.as_str().into())]),
    }
}

fn read_entry(value: &Value) -> Result<Option<BundleEntry>, String> {
    if value.is_null() {
        return Ok(None);
    }
    let ([], [folder, file, content, changed, link]) =
        fields_with(value, [], ["folder", "file", "content", "changed", "link"])?;
    let mode = |value: &Value| {
        let mode = value.as_i64().and_then(|mode| u32::try_from(mode).ok());
        mode.filter(|mode| mode & !0o7777 == 0).ok_or_else(|| "there are no such permissions".to_owned())
    };
    Ok(Some(match (folder, file, content, changed, link) {
        (Some(folder), None, None, None, None) => BundleEntry::Folder { mode: mode(folder)? },
        (None, Some(file), Some(content), Some(changed), None) => BundleEntry::File {
            mode: mode(file)?,
            content: read_blob(content)?,
            changed: changed.as_i64().ok_or("`changed` is no time")?,
        },
        (None, None, None, None, Some(link)) => {
            BundleEntry::Link { target: text_of(link, "link")?.to_owned() }
        }
        _ => return Err("an entry is a folder, a file or a link".to_owned()),
    }))
}

/// A change as data.
pub(crate) fn change_value(change: &BundleChange) -> Value {
    let entries = change.entries.iter().map(|EntryChange { path, before, after }| {
        Value::record([
            ("path", path.as_str().into()),
            ("before", entry_value(before.as_ref())),
            ("after", entry_value(after.as_ref())),
        ])
    });
    let left_out = change.left_out.iter().map(|path| path.as_str().into());
    let repository = change.repository.as_ref().map(|RepositoryChange { before, after, pack }| {
        let value = Value::record([
            ("before", before.as_ref().map_or(Value::NULL, repository_value)),
            ("after", repository_value(after)),
            ("pack", pack.as_ref().map_or(Value::NULL, blob_value)),
        ]);
        ("repository", value)
    });
    let fields = [("entries", Value::sequence(entries)), ("left_out", Value::sequence(left_out))];
    Value::record(fields.into_iter().chain(repository))
}

/// The change that [`change_value`] wrote.
pub(crate) fn read_change(value: &Value) -> Result<BundleChange, String> {
    let ([entries, left_out], [repository]) = fields_with(value, ["entries", "left_out"], ["repository"])?;
    let mut change = BundleChange::default();
    for value in entries.as_list().ok_or("`entries` is no list")? {
        let [path, before, after] = fields(value, ["path", "before", "after"])?;
        let path = text_of(path, "path")?.to_owned();
        check_path(&path)?;
        change.entries.push(EntryChange { path, before: read_entry(before)?, after: read_entry(after)? });
    }
    for path in left_out.as_list().ok_or("`left_out` is no list")? {
        change.left_out.push(text_of(path, "left_out")?.to_owned());
    }
    if let Some(repository) = repository {
        let [before, after, pack] = fields(repository, ["before", "after", "pack"])?;
        let before = (!before.is_null()).then(|| read_repository(before)).transpose()?;
        let pack = (!pack.is_null()).then(|| read_blob(pack)).transpose()?;
        change.repository = Some(RepositoryChange { before, after: read_repository(after)?, pack });
    }
    Ok(change)
}

/// What tells whether a file was written since somebody looked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileStamp {
    length: u64,
    inode: u64,
    changed: (i64, i64),
    mode: u32,
    noted: (i64, i64),
}

impl FileStamp {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self {
            length: metadata.len(),
            inode: metadata.ino(),
            changed: (metadata.mtime(), metadata.mtime_nsec()),
            mode: metadata.mode(),
            noted: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// When it was changed, in nanoseconds.
    pub(crate) fn changed(&self) -> i64 {
        self.changed.0.saturating_mul(1_000_000_000).saturating_add(self.changed.1)
    }
}

/// What stands in a folder, as the system tells it.
pub(crate) enum FoundEntry {
    Folder {
        mode: u32,
    },
    File(FileStamp, u32),
    Link {
        target: String,
    },
    /// A socket, a pipe or a device.
    Other,
}

/// Looks at everything in a folder, folders before what is in them. `leaves_out` says what is not looked at. Nothing is
/// followed, and what is gone by the time that somebody looks is not there.
pub(crate) fn look(
    root: &Path,
    leaves_out: &dyn Fn(&str) -> bool,
    see: &mut dyn FnMut(String, FoundEntry) -> Result<(), String>,
) -> Result<(), String> {
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let failed = |error: &io::Error| format!("`{folder}`: {error}");
        let listed = match fs::read_dir(root.join(&folder)) {
            Ok(listed) => listed,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !folder.is_empty() => continue,
            Err(error) => return Err(failed(&error)),
        };
        for entry in listed {
            let entry = entry.map_err(|error| failed(&error))?;
            let name = entry.file_name().into_string().map_err(|name| {
                format!("the name `{}` in `{folder}` is not UTF-8, and cannot travel", name.display())
            })?;
            if stays(&name) {
                continue;
            }
            let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            if leaves_out(&path) {
                continue;
            }
            let metadata = match entry.metadata() {
                Ok(metadata) => metadata,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(format!("`{path}`: {error}")),
            };
            let mode = metadata.mode() & 0o7777;
            if metadata.is_dir() {
                see(path.clone(), FoundEntry::Folder { mode })?;
                folders.push(path);
            } else if metadata.is_file() {
                see(path, FoundEntry::File(FileStamp::of(&metadata), mode))?;
            } else if metadata.is_symlink() {
                match fs::read_link(entry.path()) {
                    Ok(target) => {
                        let target = target.into_os_string().into_string();
                        let target = target
                            .map_err(|_| format!("the link `{path}` leads to a name that is not UTF-8"))?;
                        see(path, FoundEntry::Link { target })?;
                    }
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(format!("`{path}`: {error}")),
                }
            } else {
                see(path, FoundEntry::Other)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
