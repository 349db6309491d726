//! Decides whether a `${` is a reference of the workflow or a parameter of the shell.

use ecow::EcoString;
use threadline_lang::diag::{Fix, Severity, nearest, words};
use threadline_lang::{BUILT_IN_KINDS, BUILT_IN_ROOTS};

use super::options::{any_option, has_option, operands, takes_value};
use super::reader::ScriptReader;
use super::tree::Word;
use super::{Dialect, ShellProblem};

/// Commands whose arguments declare variables.
pub(super) const DECLARES: &[&str] =
    &["export", "local", "declare", "typeset", "readonly", "integer", "float"];

/// Who reads the text in the braces.
pub(super) enum Owner {
    Workflow,
    Shell,
    /// Reported, and then read as a parameter of the shell.
    Unclear(ShellProblem),
}

/// Maximum length of a message; a longer one is shortened.
const MAX_MESSAGE: usize = 400;

/// Lower-case names that systems and shells set.
const SYSTEM_NAMES: &[&str] = &["http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy", "_"];

/// Lower-case names that zsh sets.
#[rustfmt::skip]
const ZSH_NAMES: &[&str] = &[
    "argv", "status", "pipestatus", "options", "aliases", "functions", "commands", "parameters", "match",
    "mbegin", "mend", "path", "fpath", "cdpath", "funcstack", "terminfo", "signals", "history", "words",
];

impl ScriptReader<'_> {
    /// Decides who owns a `${` with a single dollar.
    pub(super) fn find_owner(&self, at: usize) -> Owner {
        if self.is_inner {
            return Owner::Shell;
        }
        let inside = &self.text[at + 2..self.end];
        let trimmed = inside.trim_start();
        if trimmed.starts_with('=') {
            return Owner::Workflow;
        }
        let name = path_name(trimmed);
        let shell = shell_name(trimmed);
        if let Some(owner) = self.owner_of_prefixed(at, inside) {
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
            return Owner::Workflow;
        }
        if self.is_kind(name) && next == Some(b':') && rest.as_bytes().get(1) != Some(&b'-') {
            return self.owner_of_kind(at, name, rest, set);
        }
        let is_table = self.context.tables.contains(&shell) && self.names.set.contains(shell);
        if is_table {
            return Owner::Shell;
        }
        if known && set {
            return self.report_clash(at, name);
        }
        if known {
            return self.owner_of_root(at, name, rest);
        }
        if name != shell && self.is_root(shell) && !shell.is_empty() {
            return if self.names.set.contains(shell) {
                self.report_clash(at, shell)
            } else {
                self.report_operator(at, shell)
            };
        }
        self.owner_of_shell_name(at, name, shell, rest)
    }

    /// Decides who owns `${#item}` and `${!item}`, with an operator before the name.
    fn owner_of_prefixed(&self, at: usize, inside: &str) -> Option<Owner> {
        let behind = inside.strip_prefix(['#', '!'])?;
        let name = shell_name(behind);
        if !name.is_empty() && self.is_root(name) && !self.names.set.contains(name) {
            return Some(self.report_operator(at, name));
        }
        Some(Owner::Shell)
    }

    fn is_root(&self, name: &str) -> bool {
        BUILT_IN_ROOTS.contains(&name) || (self.context.roots)(name)
    }

    fn is_kind(&self, name: &str) -> bool {
        BUILT_IN_KINDS.contains(&name) || self.context.syntax.kinds.iter().any(|kind| kind == name)
    }

    /// A kind of computed value with raw text, unless the script sets a variable of this name.
    fn owner_of_kind(&self, at: usize, name: &str, rest: &str, set: bool) -> Owner {
        if set {
            return Owner::Shell;
        }
        let numbers =
            rest[1..].trim_start_matches(|char: char| char.is_ascii_digit() || " :-".contains(char));
        if numbers.starts_with('}') {
            return self.unclear_owner(
                at,
                name.len() + 2,
                "shell-operator",
                &format!("`{name}:` with numbers looks like a substring of a variable that nothing sets"),
                format!("set `{name}` in the script, or write `$${{{name}:...}}`"),
            );
        }
        Owner::Workflow
    }

    /// A root: a reference of the workflow, unless an operator of the shell follows.
    fn owner_of_root(&self, at: usize, name: &str, rest: &str) -> Owner {
        let bytes = rest.as_bytes();
        match bytes.first() {
            None | Some(b'}' | b'.' | b'|') => Owner::Workflow,
            Some(b':') if bytes.get(1) == Some(&b'-') => Owner::Workflow,
            Some(byte) if byte.is_ascii_whitespace() => Owner::Workflow,
            Some(b'[') if !matches!(bytes.get(1), Some(b'@' | b'*' | b'$')) => Owner::Workflow,
            Some(byte) if !byte.is_ascii() => Owner::Workflow,
            _ => self.report_operator(at, name),
        }
    }

    fn report_operator(&self, at: usize, name: &str) -> Owner {
        let inside = self.text_in_braces(at);
        let ours = match inside.trim_start_matches(['#', '!']).strip_prefix(name) {
            Some(default) if default.starts_with(['-', '=']) => format!("${{{name}:-{}}}", &default[1..]),
            Some(default) if default.starts_with(":=") => format!("${{{name}:-{}}}", &default[2..]),
            _ if inside.starts_with('#') => format!("${{{name} | len}}"),
            Some("[@]" | "[*]") => format!("${{{name} | words}}"),
            _ => format!("${{{name} | ...}}"),
        };
        self.unclear_owner(
            at,
            inside.len() + 3,
            "shell-operator",
            &format!("`{name}` is a name of the workflow, but has an operator of the shell"),
            format!("write `{ours}` for the value, or `$${{{inside}}}` for a variable of the shell"),
        )
    }

    fn report_clash(&self, at: usize, name: &str) -> Owner {
        self.unclear_owner(
            at,
            name.len() + 3,
            "shell-clash",
            &format!("`{name}` is both set by the script and a name of the workflow"),
            format!("rename one of them, or write `$${{{name}}}` for the variable of the shell"),
        )
    }

    /// A name that is no root: a variable of the shell if something sets it or it is upper-case.
    fn owner_of_shell_name(&self, at: usize, name: &str, shell: &str, rest: &str) -> Owner {
        let dotted = rest.starts_with('.') && name == shell || name != shell && rest.starts_with('.');
        if !dotted {
            let conventional = SYSTEM_NAMES.contains(&shell)
                || self.dialect() == Dialect::Zsh && ZSH_NAMES.contains(&shell)
                || !shell.is_empty() && !shell.bytes().any(|byte| byte.is_ascii_lowercase());
            if self.names.set.contains(shell) || conventional {
                return Owner::Shell;
            }
        }
        let known = self.suggestions.get_or_init(self.context.known).iter().map(EcoString::as_str);
        let names = known.chain(self.names.set.iter().map(EcoString::as_str)).chain(BUILT_IN_ROOTS);
        let takes_kind = rest.starts_with(':') && !rest.starts_with(":-");
        let kinds = BUILT_IN_KINDS.into_iter().filter(|_| takes_kind);
        let near = nearest(name, names.chain(kinds)).map(str::to_owned);
        let hint = near.as_ref().map_or_else(
            || {
                if dotted {
                    "name a step, a capture, or another root that is in scope here".to_owned()
                } else {
                    format!("set `{name}` in the script or in `env:`, or write `$${{{name}}}` for the shell")
                }
            },
            words::did_you_mean,
        );
        let message = if dotted {
            format!("unknown name `{name}`")
        } else {
            format!("unknown name `{name}`: it is not a root of the workflow, and the script does not set it")
        };
        let mut owner = self.unclear_owner(at, 2, "unknown-root", &message, hint);
        if let Owner::Unclear(problem) = &mut owner {
            let start = at + 2 + (self.text[at + 2..].len() - self.text[at + 2..].trim_start().len());
            problem.span = self.span(start, start + name.len());
            problem.fix = near.map(|near| Box::new(Fix::new(problem.span, near)));
            // After text of unknown content the shell may know the name.
            if !dotted && self.names.unknown_from.is_some_and(|from| from <= at) {
                problem.severity = Severity::Warning;
            }
        }
        owner
    }

    fn unclear_owner(
        &self,
        at: usize,
        length: usize,
        id: &'static str,
        message: &str,
        hint: String,
    ) -> Owner {
        let span = self.span(at, (at + length).min(self.end));
        let message = words::shorten(message, MAX_MESSAGE).into_owned();
        let hint = Some(hint).filter(|hint| hint.len() <= MAX_MESSAGE);
        Owner::Unclear(ShellProblem { id, severity: Severity::Error, span, message, hint, fix: None })
    }

    /// The text in the braces, up to the first closing brace.
    fn text_in_braces(&self, at: usize) -> &str {
        let most = self.text.floor_char_boundary(self.end.min(at + 120)).max(at + 2);
        let inside = &self.text[at + 2..most];
        let end = inside.find('}').unwrap_or(0);
        &inside[..end]
    }

    /// Notes the names that a command sets or declares.
    pub(super) fn note_declared_names(&mut self, words: &[Word]) {
        let Some(name) = words[0].text() else { return };
        match name {
            "source" | "." | "eval" | "emulate" => {
                let from = self.found.unknown_from.get_or_insert(words[0].range.start);
                *from = (*from).min(words[0].range.start);
            }
            "let" => {
                for word in &words[1..] {
                    self.note_arithmetic_names(word.range.start, word.range.end);
                }
            }
            "printf" | "wait" => {
                let options: &[&str] = if name == "printf" { &["-v"] } else { &["-p"] };
                if let Some(at) = words.iter().position(|word| has_option(word, options)) {
                    self.note_set_by_word(words.get(at + 1));
                }
            }
            "getopts" => self.note_set_by_word(words.get(2)),
            "zparseopts" | "vared" => words[1..].iter().for_each(|word| self.note_set_by_word(Some(word))),
            "read" | "mapfile" | "readarray" => {
                let values = |option: &str| usize::from(takes_value(name, option) && !option.ends_with('a'));
                for at in operands(&words[1..], values) {
                    self.note_set_by_word(words.get(at + 1));
                }
            }
            _ if DECLARES.contains(&name) => {
                let exported = name == "export" || any_option(&words[1..], &["-x"]);
                if exported && any_option(&words[1..], &["-f"]) {
                    self.exports = Some(words[0].range.clone());
                }
                let keyed = any_option(&words[1..], &["-A"]);
                for word in &words[1..] {
                    if keyed {
                        self.found.associative.insert(shell_name(&word.literal).into());
                    }
                    self.note_set_by_word(Some(word));
                }
            }
            _ => {}
        }
    }

    fn note_set_by_word(&mut self, word: Option<&Word>) {
        if let Some(word) = word {
            let name = shell_name(&word.literal).to_owned();
            self.note_set(&name);
        }
    }

    /// Notes that the script sets a variable.
    pub(super) fn note_set(&mut self, name: &str) {
        if !name.is_empty() && shell_name(name) == name {
            self.found.set.insert(name.into());
        }
    }
}

/// The name at the start of a reference. It may contain `-` and letters of any language.
fn path_name(text: &str) -> &str {
    if text.starts_with('-') {
        return "";
    }
    let end =
        text.find(|char: char| !(char.is_alphanumeric() || char == '_' || char == '-')).unwrap_or(text.len());
    &text[..end]
}

/// The name of a shell variable at the start of a text.
pub(super) fn shell_name(text: &str) -> &str {
    if text.starts_with(|char: char| char.is_ascii_digit()) {
        return "";
    }
    let end = text.find(|char: char| !(char.is_ascii_alphanumeric() || char == '_')).unwrap_or(text.len());
    &text[..end]
}
