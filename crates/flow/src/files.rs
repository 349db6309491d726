//! Plans a workflow together with all workflows that it calls. Each file is read once, and its problems refer
//! to its own text.
//!
//! No file is opened here: the caller provides a function that reads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ecow::EcoString;
use threadline_lang::Syntax;
use threadline_lang::data::DataFormat;
use threadline_lang::diag::{Span, words};
use threadline_lang::source::{Lacking, SourceFile, TreeNode};

use crate::checks::Check;
use crate::load::{load, named_parts, without_misplaced};
use crate::model::{Action, AgentTool, Field, Workflow};
use crate::plan::{Called, Callee, Plan, plan_calling};
use crate::problem::Problem;

/// Maximum depth of workflows that call each other.
const MAX_DEPTH: usize = 64;

/// Maximum number of files that one workflow consists of.
const MAX_PARTS: usize = 256;

/// Maximum size of these files in total, in bytes.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// The name by which the user-wide file of agents is asked for, and with which its own name begins.
pub const USER_AGENTS: &str = "user:";

/// Whether a part is the user-wide file of agents.
pub fn is_user_agents(part: &str) -> bool {
    part.starts_with(USER_AGENTS)
}

/// What stands for the user-wide file of agents where there is none.
pub fn no_user_agents() -> SourceFile {
    SourceFile::with_format(USER_AGENTS, "", DataFormat::Yaml)
}

/// Reads the file of a name. The user-wide file of agents is empty where there is none.
pub type FileReader<'r> = dyn Fn(&str) -> Result<SourceFile, Unread> + 'r;

/// Why a file cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// The reason, in words.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// The closest name in the same folder.
    pub nearest: Option<String>,
}

/// Makes the plan of a workflow and of all workflows that it calls. The problems of its own file come first,
/// in order; those of other files name their file.
pub fn plan(workflow: Arc<Workflow>, read: &FileReader<'_>) -> (Option<Plan>, Vec<Problem>) {
    let name = name_from("", workflow.file.name());
    let mut files = Files {
        read,
        known: BTreeMap::new(),
        chain: vec![name],
        problems: Vec::new(),
        named_above: Vec::new(),
    };
    let rewritten = workflow.rewritten.clone();
    let (plan, mut problems, _) = files.plan(workflow);
    without_misplaced(&mut problems, &rewritten);
    problems.append(&mut files.problems);
    (plan, problems)
}

/// Adds the texts of all parts to a file: those that it names with `from` and `import`, and those that these
/// name.
pub fn assemble(file: SourceFile, read: &FileReader<'_>) -> SourceFile {
    let mut known = BTreeSet::from([name_from("", file.name())]);
    let (mut parts, mut lacking): (Vec<SourceFile>, Vec<Lacking>) = (Vec::new(), Vec::new());
    let mut size = file.own_text().len();
    if let Some(below) = file.below().filter(|below| known.insert(name_from("", below))) {
        match read(below) {
            Ok(part) => {
                size = size.saturating_add(part.own_text().len());
                parts.push(part);
            }
            Err(unread) => {
                let (message, hints) = unread.told(below);
                lacking.push(Lacking { name: below.to_owned(), message, hints });
            }
        }
    }
    let mut next = 0;
    while let Some(looked_at) = if next == 0 { Some(&file) } else { parts.get(next - 1) } {
        next += 1;
        // Most files have no parts, and need not be parsed twice to find out.
        let text = looked_at.own_text();
        if !text.contains("from") && !text.contains("import") {
            continue;
        }
        let Ok(root) = looked_at.read_tree(&Syntax::DEFAULT.limits) else { continue };
        let including = looked_at.name().to_owned();
        for path in named_parts(&root) {
            let name = name_from(&including, &path);
            if !known.insert(name.clone()) {
                continue;
            }
            let (name, found) = if known.len() > MAX_PARTS {
                let message = format!("more than {MAX_PARTS} files are included");
                (name, Err(Unread { message, hint: None, nearest: None }))
            } else {
                match (read(&name), name_above(&including, &path)) {
                    (Err(unread), Some(above)) if !known.contains(&above) => match read(&above) {
                        Ok(part) => {
                            known.insert(above.clone());
                            (above, Ok(part))
                        }
                        Err(_) => (name, Err(unread)),
                    },
                    (found, _) => (name, found),
                }
            };
            let found = found.and_then(|part| {
                size = size.saturating_add(part.own_text().len());
                let message = || "the included files are larger than 64 MiB in total".to_owned();
                let large = || Unread { message: message(), hint: None, nearest: None };
                if size > MAX_BYTES { Err(large()) } else { Ok(part) }
            });
            match found {
                Ok(part) => parts.push(part),
                Err(unread) => {
                    let (message, hints) = unread.told(&path);
                    lacking.push(Lacking { name, message, hints });
                }
            }
        }
    }
    // What needs no agent need not know of any.
    let all = std::iter::once(&file).chain(&parts);
    if all.map(SourceFile::own_text).any(|text| text.contains("agents")) {
        match read(USER_AGENTS) {
            Ok(user) if user.own_text().trim().is_empty() => {}
            Ok(user) => parts.push(user),
            Err(unread) => {
                let hints = unread.hint.into_iter().collect();
                lacking.push(Lacking { name: USER_AGENTS.to_owned(), message: unread.message, hints });
            }
        }
    }
    if parts.is_empty() && lacking.is_empty() { file } else { file.with_parts(&parts, lacking) }
}

impl Unread {
    /// The hint for a path that leads to the missing file.
    fn told(self, path: &str) -> (String, Vec<String>) {
        let nearest = self.nearest.map(|near| {
            let folder = path.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
            words::did_you_mean(format_args!("{folder}{near}"))
        });
        (self.message, self.hint.into_iter().chain(nearest).collect())
    }
}

/// The name of a file that another one calls: its path, resolved from the folder of that file.
pub fn name_from(caller: &str, path: &str) -> String {
    let folder =
        caller.rsplit_once('/').map_or("", |(folder, _)| if folder.is_empty() { "/" } else { folder });
    let joined = if path.starts_with('/') || folder.is_empty() {
        path.to_owned()
    } else {
        format!("{}/{path}", folder.trim_end_matches('/'))
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in joined.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if joined.starts_with('/') => {}
            part => parts.push(part),
        }
    }
    let root = if joined.starts_with('/') { "/" } else { "" };
    format!("{root}{}", parts.join("/"))
}

/// The name of a file that is not there beside the one that names it, but may be in the folder above: older loops name
/// files from the folder of all loops, also from a folder in it.
pub(crate) fn name_above(caller: &str, path: &str) -> Option<String> {
    let is_plain = path.contains('/') && !path.starts_with(['/', '.']);
    is_plain.then(|| name_from(caller, &format!("../{path}")))
}

/// That a file is named from the folder above, and how it is named from its own.
pub(crate) fn named_from_above(path: &str, span: Span) -> Problem {
    let message = format!("`{path}` is not here, but in the folder above, as older systems name it");
    let written = format!("../{path}");
    Check::OldSpelling.at(span, message).replace(format!("write `{written}`"), written)
}

/// The path from the folder of one file to another, so that [`name_from`] gives its name again.
pub(crate) fn path_from(caller: &str, name: &str) -> String {
    let caller = name_from("", caller);
    if name.starts_with('/') != caller.starts_with('/') {
        return name.to_owned();
    }
    let folder: Vec<&str> =
        caller.rsplit_once('/').map_or(Vec::new(), |(folder, _)| folder.split('/').collect());
    let parts: Vec<&str> = name.split('/').collect();
    let common = folder.iter().zip(&parts).take_while(|(a, b)| a == b).count();
    let up = folder[common..].iter().map(|_| "..");
    up.chain(parts[common..].iter().copied()).collect::<Vec<_>>().join("/")
}

struct Files<'r> {
    read: &'r FileReader<'r>,
    /// The files read so far, and the depth of the calls below each.
    known: BTreeMap<String, (Callee, usize)>,
    /// The files on the path to the current one.
    chain: Vec<String>,
    /// The problems of called files.
    problems: Vec<Problem>,
    /// The calls of files that are in the folder above.
    named_above: Vec<Problem>,
}

/// Whether a part of a file ends with a text, as it is written.
fn is_written(file: &SourceFile, span: Span, end: &str) -> bool {
    file.text().get(span.range()).is_some_and(|text| text.trim_end_matches(['"', '\'']).ends_with(end))
}

impl Files<'_> {
    /// The plan of a workflow, the problems of its own file, and the depth of the calls below it.
    fn plan(&mut self, workflow: Arc<Workflow>) -> (Option<Plan>, Vec<Problem>, usize) {
        let mut called = Called::new();
        let outer = std::mem::take(&mut self.named_above);
        let (mut problems, mut deepest) = (Vec::new(), 0);
        let steps = workflow.all_steps();
        let by_steps = steps.iter().filter_map(|step| match &step.action {
            Action::Workflow(call) => Some(&call.path),
            _ => None,
        });
        let by_agents = workflow.agents.iter().flat_map(|agent| &agent.tools).filter_map(|tool| match tool {
            AgentTool::Workflow { path, .. } => Some(path),
            _ => None,
        });
        for path in by_steps.chain(by_agents) {
            match self.callee(&workflow.file, path) {
                Ok((found, depth)) => {
                    deepest = deepest.max(depth);
                    called.insert(path.value.clone(), found);
                }
                Err(problem) => problems.push(*problem),
            }
        }
        let (plan, found) = plan_calling(workflow, &called);
        problems.extend(found);
        problems.append(&mut self.named_above);
        self.named_above = outer;
        problems.sort_by_key(|problem| problem.span.start);
        (plan, problems, deepest + 1)
    }

    /// The name of a called file, and the file where it had to be read to know that name. It may be in the folder above.
    fn located(
        &mut self,
        caller: &SourceFile,
        path: &Field<EcoString>,
    ) -> (String, Option<Result<SourceFile, Unread>>) {
        let name = name_from(caller.name(), &path.value);
        let is_known =
            |files: &Self, name: &String| files.known.contains_key(name) || files.chain.contains(name);
        let Some(above) = name_above(caller.name(), &path.value).filter(|_| !is_known(self, &name)) else {
            return (name, None);
        };
        let own = (self.read)(&name);
        if own.is_ok() {
            return (name, Some(own));
        }
        let found = if is_known(self, &above) { None } else { Some((self.read)(&above)) };
        if matches!(found, Some(Err(_))) {
            return (name, Some(own));
        }
        let span = path.origin.span;
        let written = path.value.strip_suffix(".yaml").filter(|_| !is_written(caller, span, ".yaml"));
        self.named_above.push(named_from_above(written.unwrap_or(&path.value), span));
        (above, found)
    }

    fn callee(
        &mut self,
        caller: &SourceFile,
        path: &Field<EcoString>,
    ) -> Result<(Callee, usize), Box<Problem>> {
        let span = path.origin.span;
        let (name, file) = self.located(caller, path);
        if let Some(first) = self.chain.iter().position(|on_the_way| *on_the_way == name) {
            let around: Vec<&str> =
                self.chain[first..].iter().map(String::as_str).chain([name.as_str()]).collect();
            let message = format!("`{}` calls itself", path.value);
            return Err(Box::new(Check::CallCycle.at(span, message).note(around.join(" → "))));
        }
        let known = self.known.get(&name).cloned();
        let depth = known.as_ref().map_or(1, |(_, depth)| *depth);
        if self.chain.len() + depth > MAX_DEPTH {
            let message = format!("calls are nested more than {MAX_DEPTH} levels deep");
            return Err(Box::new(Check::CallCycle.at(span, message)));
        }
        if let Some(known) = known {
            return Ok(known);
        }
        let file = file.unwrap_or_else(|| (self.read)(&name)).map_err(|unread| {
            let (message, hints) = unread.told(&path.value);
            Box::new(hints.into_iter().fold(Check::UnreadableCall.at(span, message), Problem::hint))
        })?;
        let is_object = |tree: TreeNode| tree.value.as_object().is_some();
        if is_foreign(caller.name(), &name) && !file.read_tree(&Syntax::DEFAULT.limits).is_ok_and(is_object) {
            return Err(Box::new(foreign(&name, span)));
        }
        let file = assemble(file, self.read);
        let (workflow, mut problems) = load(file.clone());
        let workflow = workflow.map(Arc::new);
        self.chain.push(name.clone());
        let sound = !problems.iter().any(Problem::is_error);
        let mut depth = 1;
        let plan = workflow.as_ref().and_then(|workflow| {
            let (plan, found, deepest) = self.plan(Arc::clone(workflow));
            problems.extend(found);
            depth = deepest;
            plan.filter(|_| sound).map(Arc::new)
        });
        self.chain.pop();
        problems.sort_by_key(|problem| problem.span.start);
        let (line, column) = caller.line_column(span.range().start);
        let note = format!("called from {}:{line}:{column}", caller.placed(span.range().start).name);
        self.problems.extend(problems.into_iter().map(|problem| {
            let file = problem.file.clone().unwrap_or_else(|| file.clone());
            Problem { file: Some(file), ..problem.note(&note) }
        }));
        let found = (Callee { workflow, plan }, depth);
        self.known.insert(name, found.clone());
        Ok(found)
    }
}

/// The problem of a foreign file that is no workflow. The path may lead to any file of the machine, and a
/// report is read by more people than that file, so nothing of its text is shown.
pub(crate) fn foreign(name: &str, span: Span) -> Problem {
    let hint = "the files of a workflow are objects in YAML or JSON, and end with `.yaml`, `.yml` or `.json`";
    Check::Unreadable.at(span, format!("`{name}` is not a file of a workflow")).hint(hint)
}

/// Whether a file lies outside of the folder of the workflow and is not named as one of its files.
pub(crate) fn is_foreign(workflow: &str, name: &str) -> bool {
    let folder = workflow.rsplit_once('/').map_or("", |(folder, _)| folder);
    let is_below = if folder.is_empty() {
        !name.starts_with("../") && !name.starts_with('/')
    } else {
        name.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
    };
    let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    !is_below && !extension.is_some_and(|extension| matches!(&*extension, "yaml" | "yml" | "json"))
}

/// Reads texts that are known by name, such as those of a journal.
pub fn known(texts: &BTreeMap<EcoString, SourceFile>) -> impl Fn(&str) -> Result<SourceFile, Unread> {
    |name| {
        if name == USER_AGENTS {
            let user = texts.iter().find(|(name, _)| is_user_agents(name)).map(|(_, user)| user.clone());
            return Ok(user.unwrap_or_else(no_user_agents));
        }
        let message = || format!("the text of `{name}` is missing");
        let missing = || Unread { message: message(), hint: None, nearest: None };
        texts.get(name).cloned().ok_or_else(missing)
    }
}
