//! Whose is a `${`: a reference of the language, or a parameter of the shell.

use ecow::EcoString;
use threadline_lang::diag::{Severity, nearest};
use threadline_lang::{BUILT_IN_KINDS, BUILT_IN_ROOTS};

use super::reader::Reader;
use super::{Dialect, Problem};

/// Who reads what stands in the braces.
pub(super) enum Owner {
    Ours,
    Shell,
    /// Read as the shell's, and reported.
    Unclear(Problem),
}

/// Lower-case names that systems and shells set themselves.
const SYSTEM_NAMES: &[&str] = &["http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy", "_"];

/// Lower-case names that zsh sets itself.
const ZSH_NAMES: &[&str] = &[
    "argv",
    "status",
    "pipestatus",
    "options",
    "aliases",
    "functions",
    "commands",
    "parameters",
    "match",
    "mbegin",
    "mend",
    "path",
    "fpath",
    "cdpath",
    "funcstack",
    "terminfo",
    "signals",
    "history",
    "words",
];

impl Reader<'_> {
    /// At `${`, whose dollar stands alone.
    pub(super) fn owner(&self, at: usize) -> Owner {
        let inside = &self.text[at + 2..self.end];
        let trimmed = inside.trim_start();
        if trimmed.starts_with('=') {
            return Owner::Ours;
        }
        let name = path_name(trimmed);
        let shell = shell_name(trimmed);
        if let Some(owner) = self.prefixed(at, inside) {
            return owner;
        }
        if name.is_empty() || name.bytes().all(|byte| byte.is_ascii_digit()) {
            return Owner::Shell;
        }
        let rest = &trimmed[name.len()..];
        let known = self.is_root(name);
        let set = name == shell && self.names.set.contains(name);
        let next = rest.bytes().next();
        // No shell has a parameter with a dot, a call or a filter in it.
        if rest.starts_with('(') || known && (next == Some(b'.') || rest.trim_start().starts_with('|')) {
            return Owner::Ours;
        }
        if self.is_kind(name) && next == Some(b':') && rest.as_bytes().get(1) != Some(&b'-') {
            return self.kind(at, name, rest, set);
        }
        let is_table = self.setting.tables.contains(&shell) && self.names.set.contains(shell);
        if is_table {
            return Owner::Shell;
        }
        if known && set {
            return self.clash(at, name);
        }
        if known {
            return self.root(at, name, rest);
        }
        if name != shell && self.is_root(shell) && !shell.is_empty() {
            return if self.names.set.contains(shell) {
                self.clash(at, shell)
            } else {
                self.operator(at, shell)
            };
        }
        self.shell_name(at, name, shell, rest)
    }

    /// `${#item}` and `${!item}`: an operator before the name.
    fn prefixed(&self, at: usize, inside: &str) -> Option<Owner> {
        let behind = inside.strip_prefix(['#', '!'])?;
        let name = shell_name(behind);
        if !name.is_empty() && self.is_root(name) && !self.names.set.contains(name) {
            return Some(self.operator(at, name));
        }
        Some(Owner::Shell)
    }

    fn is_root(&self, name: &str) -> bool {
        BUILT_IN_ROOTS.contains(&name) || (self.setting.roots)(name)
    }

    fn is_kind(&self, name: &str) -> bool {
        BUILT_IN_KINDS.contains(&name) || self.setting.syntax.kinds.iter().any(|kind| kind == name)
    }

    /// A kind with raw text, unless the script has a variable of this name.
    fn kind(&self, at: usize, name: &str, rest: &str, set: bool) -> Owner {
        if set {
            return Owner::Shell;
        }
        let numbers =
            rest[1..].trim_start_matches(|char: char| char.is_ascii_digit() || " :-".contains(char));
        if numbers.starts_with('}') {
            return self.unclear(
                at,
                name.len() + 2,
                "shell-operator",
                format!("`{name}:` with numbers looks like a part of a variable that nothing sets"),
                format!("set `{name}` in the script, or write `$${{{name}:...}}`"),
            );
        }
        Owner::Ours
    }

    /// A root: ours, unless an operator of the shell follows.
    fn root(&self, at: usize, name: &str, rest: &str) -> Owner {
        let bytes = rest.as_bytes();
        match bytes.first() {
            None | Some(b'}' | b'.' | b'|') => Owner::Ours,
            Some(b':') if bytes.get(1) == Some(&b'-') => Owner::Ours,
            Some(byte) if byte.is_ascii_whitespace() => Owner::Ours,
            Some(b'[') if !matches!(bytes.get(1), Some(b'@' | b'*' | b'$')) => Owner::Ours,
            Some(byte) if !byte.is_ascii() => Owner::Ours,
            _ => self.operator(at, name),
        }
    }

    fn operator(&self, at: usize, name: &str) -> Owner {
        let inside = self.inside(at);
        let ours = match inside.trim_start_matches(['#', '!']).strip_prefix(name) {
            Some(default) if default.starts_with(['-', '=']) => format!("${{{name}:-{}}}", &default[1..]),
            Some(default) if default.starts_with(":=") => format!("${{{name}:-{}}}", &default[2..]),
            _ if inside.starts_with('#') => format!("${{{name} | len}}"),
            Some("[@]" | "[*]") => format!("${{{name} | words}}"),
            _ => format!("${{{name} | ...}}"),
        };
        self.unclear(
            at,
            inside.len() + 3,
            "shell-operator",
            format!("`{name}` is a name of the workflow, with an operator of the shell"),
            format!("write `{ours}` for the value, `$${{{inside}}}` for a variable of the shell"),
        )
    }

    fn clash(&self, at: usize, name: &str) -> Owner {
        self.unclear(
            at,
            name.len() + 3,
            "shell-clash",
            format!("`{name}` is set by the script and is a name of the workflow, too"),
            format!("give one of them another name, or write `$${{{name}}}` for the variable of the shell"),
        )
    }

    /// A name that is no root: the shell's when something sets it or it is upper-case.
    fn shell_name(&self, at: usize, name: &str, shell: &str, rest: &str) -> Owner {
        let dotted = rest.starts_with('.') && name == shell || name != shell && rest.starts_with('.');
        if !dotted {
            let conventional = SYSTEM_NAMES.contains(&shell)
                || self.dialect() == Dialect::Zsh && ZSH_NAMES.contains(&shell)
                || !shell.is_empty() && !shell.bytes().any(|byte| byte.is_ascii_lowercase());
            if self.names.set.contains(shell) || conventional {
                return Owner::Shell;
            }
        }
        let known = self.setting.known.iter().map(EcoString::as_str);
        let names = known.chain(self.names.set.iter().map(EcoString::as_str)).chain(BUILT_IN_ROOTS);
        let near = if rest.starts_with(':') && !rest.starts_with(":-") {
            nearest(name, names.chain(BUILT_IN_KINDS))
        } else {
            nearest(name, names)
        };
        let hint = match near {
            Some(near) => format!("did you mean `{near}`"),
            None if dotted => "name a step, a capture, or another root that is in scope here".to_owned(),
            None => format!(
                "set `{name}` in the script or in `env:`, or write `$${{{name}}}` for the shell's own"
            ),
        };
        let message = if dotted {
            format!("unknown name `{name}`")
        } else {
            format!("unknown name `{name}`: no root of the workflow, and nothing sets it in the script")
        };
        let mut owner = self.unclear(at, 2, "unknown-root", message, hint);
        if let Owner::Unclear(problem) = &mut owner {
            let start = at + 2 + (self.text[at + 2..].len() - self.text[at + 2..].trim_start().len());
            problem.span = self.span(start, start + name.len());
            // Behind text of unknown content the shell may know the name.
            if !dotted && self.names.unknown_from.is_some_and(|from| from <= at) {
                problem.severity = Severity::Warning;
            }
        }
        owner
    }

    fn unclear(&self, at: usize, length: usize, id: &'static str, message: String, hint: String) -> Owner {
        let span = self.span(at, (at + length).min(self.end));
        let (message, hint) = (shortened(message), Some(hint).filter(|hint| hint.len() <= 400));
        Owner::Unclear(Problem { id, severity: Severity::Error, span, message, hint })
    }

    /// The inside of the braces, as well as it can be told.
    fn inside(&self, at: usize) -> &str {
        let most = self.text.floor_char_boundary(self.end.min(at + 120)).max(at + 2);
        let inside = &self.text[at + 2..most];
        let end = inside.find('}').unwrap_or(0);
        &inside[..end]
    }

    /// The script sets a variable.
    pub(super) fn sets(&mut self, name: &str) {
        if !name.is_empty() && shell_name(name) == name {
            self.found.set.insert(name.into());
        }
    }
}

fn shortened(message: String) -> String {
    if message.len() <= 400 {
        return message;
    }
    format!("{}…", &message[..message.floor_char_boundary(400)])
}

/// The name at the beginning of a reference; names may hold `-` and letters of any language.
fn path_name(text: &str) -> &str {
    if text.starts_with('-') {
        return "";
    }
    let end =
        text.find(|char: char| !(char.is_alphanumeric() || char == '_' || char == '-')).unwrap_or(text.len());
    &text[..end]
}

/// The name of a variable at the beginning of a text.
pub(super) fn shell_name(text: &str) -> &str {
    if text.starts_with(|char: char| char.is_ascii_digit()) {
        return "";
    }
    let end = text.find(|char: char| !(char.is_ascii_alphanumeric() || char == '_')).unwrap_or(text.len());
    &text[..end]
}
