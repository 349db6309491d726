//! Folders that no step writes in by the path of a file: programs run what stands there, so a path that is
//! data could choose a program.
//!
//! Names are compared as the most lenient file system would compare them: a repository is checked out on
//! others, too. It reads no file and follows no link.

use std::path::{Component, Path};

/// A folder with a meaning of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProtectedFolder {
    /// The folder, file or link `.git`, which says which programs git runs.
    Git,
    /// A store, whose journal says what a resumed run does.
    Store,
}

impl ProtectedFolder {
    /// The first such folder on the way to a file.
    pub(crate) fn on_way(path: &Path) -> Option<Self> {
        let names = path.components().filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_string_lossy()),
            _ => None,
        });
        names.into_iter().find_map(|name| name.split(['\\', '/']).find_map(Self::named))
    }

    fn named(name: &str) -> Option<Self> {
        // NTFS has streams behind a colon and drops spaces and dots at the end; HFS+ drops characters without
        // a width.
        let name = name.split(':').next().unwrap_or_default();
        let seen: String =
            name.chars().filter(|char| !is_ignored(*char)).flat_map(char::to_lowercase).collect();
        let seen = seen.trim_end_matches([' ', '.']);
        match seen {
            ".git" => Some(Self::Git),
            ".threadline" => Some(Self::Store),
            seen => {
                let number = seen.strip_prefix("git~")?;
                let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
                is_number.then_some(Self::Git)
            }
        }
    }
}

/// The characters that HFS+ does not see in a name.
fn is_ignored(char: char) -> bool {
    matches!(char, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_git_is_found() {
        for path in [
            ".git",
            ".git/config",
            "a/.git/hooks/pre-commit",
            ".GIT/config",
            ".gIt",
            ".git./config",
            ".git ",
            ".git . .",
            "git~1/config",
            "GIT~2",
            ".git::$INDEX_ALLOCATION/config",
            ".git:x",
            ".g\u{200c}it/config",
            "\u{feff}.git",
            ".gi\u{202e}t",
            "a\\.git\\config",
            "a/b\\.GIT. ",
            "/x/.git/../y",
        ] {
            assert_eq!(ProtectedFolder::on_way(Path::new(path)), Some(ProtectedFolder::Git), "{path:?}");
        }
        for path in [".threadline/journal.db", "sub/.Threadline/x", ".threadline."] {
            assert_eq!(ProtectedFolder::on_way(Path::new(path)), Some(ProtectedFolder::Store), "{path:?}");
        }
    }

    #[test]
    fn names_that_only_resemble_it_are_free() {
        for path in [
            ".gitignore",
            ".gitattributes",
            ".github/workflows/ci.yaml",
            "git",
            "git/config",
            "a.git",
            ".git-x",
            "git~",
            "git~x",
            "..git",
            ".gi",
            "threadline",
            ".threadline-1",
            "x.threadline",
            "git~1.txt",
            "",
            "/",
            "..",
        ] {
            assert_eq!(ProtectedFolder::on_way(Path::new(path)), None, "{path:?}");
        }
    }
}
