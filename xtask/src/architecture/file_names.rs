//! File names that a checkout on another system cannot have.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// Names of devices on Windows, whatever extension follows; `COM1` to `LPT9` are tested apart.
const DEVICES: &[&str] = &["aux", "con", "nul", "prn"];

/// Characters that Windows does not allow in a name, beside control characters.
const REFUSED: &[char] = &['"', '*', ':', '<', '>', '?', '\\', '|'];

/// Names that Windows refuses, and names that differ in case only, which macOS and Windows take for one.
pub(super) fn unportable(paths: &[PathBuf]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut by_folded: BTreeMap<String, &Path> = BTreeMap::new();
    for path in paths {
        let folded = path.to_string_lossy().to_lowercase();
        match by_folded.get(&folded) {
            Some(other) => {
                problems.push(format!(
                    "{} and {} differ in the case of letters only",
                    other.display(),
                    path.display()
                ));
            }
            None => drop(by_folded.insert(folded, path)),
        }
        let names = path.components().filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_string_lossy()),
            _ => None,
        });
        problems.extend(
            names
                .filter_map(|name| reason(&name))
                .map(|reason| format!("{}: {reason}; rename it", path.display())),
        );
    }
    problems
}

/// Why Windows refuses a name.
fn reason(name: &str) -> Option<String> {
    let stem = name.split('.').next().unwrap_or(name).trim_end().to_lowercase();
    if DEVICES.contains(&stem.as_str()) || is_port(&stem) {
        return Some(format!("`{stem}` is a device on Windows"));
    }
    if name.ends_with(['.', ' ']) {
        return Some("Windows drops the last character of this name".to_owned());
    }
    let refused = name.chars().find(|char| REFUSED.contains(char) || char.is_control())?;
    Some(format!("Windows refuses {refused:?} in a name"))
}

/// `com0` to `com9` and `lpt0` to `lpt9`.
fn is_port(stem: &str) -> bool {
    let number = stem.strip_prefix("com").or_else(|| stem.strip_prefix("lpt"));
    number.is_some_and(|number| number.len() == 1 && number.chars().all(|char| char.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(names: &[&str]) -> Vec<String> {
        unportable(&names.iter().map(PathBuf::from).collect::<Vec<_>>())
    }

    #[test]
    fn names_of_devices_are_refused() {
        assert_eq!(problems(&["a/nul.yaml"]), ["a/nul.yaml: `nul` is a device on Windows; rename it"]);
        for name in ["CON", "Aux.rs", "prn.tar.gz", "com1", "LPT9.txt", "con/file"] {
            assert_eq!(problems(&[name]).len(), 1, "{name}");
        }
        assert!(problems(&["nulls.yaml", "console.rs", "com10", "lpt", "auxiliary"]).is_empty());
    }

    #[test]
    fn characters_and_endings_are_refused() {
        for name in ["a:b", "a<b", "a>b", "a|b", "what?", "*", "\"a\"", "a\\b", "a\nb", "a.", "a "] {
            assert_eq!(problems(&[name]).len(), 1, "{name:?}");
        }
        assert!(problems(&["a b.c", "2 $(touch hacked)", "é", ".gitignore"]).is_empty());
    }

    #[test]
    fn names_that_differ_in_case_only_are_refused() {
        assert_eq!(problems(&["a/B", "a/b"]), ["a/B and a/b differ in the case of letters only"]);
        assert!(problems(&["a/b", "b/b"]).is_empty());
    }
}
