//! The files that a file consists of: `from`, a loop that it overrides, and `import`, whose fragments it
//! uses.

use ecow::EcoString;
use threadline_lang::Syntax;
use threadline_lang::diag::Span;
use threadline_lang::source::{TreeEntry, TreeNode};

use super::{Expander, Fragments, MAX_DEPTH, without};
use crate::checks::Check;
use crate::files::{self, is_foreign, name_from};
use crate::load::read::{shown, span_of};
use crate::problem::{self, Problem};

/// The keys that name other files, or contain fragments.
const KEYS: [&str; 3] = ["from", "import", "fragments"];

/// The keys that only files of scenarios have.
const OF_SCENARIOS: [&str; 7] = ["scenarios", "steps", "prompt", "expectations", "expect", "nodes", "states"];

/// The paths of the files that a file names as its parts.
pub fn named_parts(root: &TreeNode) -> Vec<String> {
    let named = root.get("from").into_iter().chain(import_nodes(root));
    named.filter_map(|node| node.value.as_str()).map(path_of).collect()
}

/// The path that a path or a bare name means: without an extension, it is a file that ends with `.yaml`.
pub(super) fn path_of(written: &str) -> String {
    let last = written.rsplit('/').next().unwrap_or(written);
    if last.is_empty() || last.contains('.') { written.to_owned() } else { format!("{written}.yaml") }
}

/// The paths of `import`: one file, or a list of files.
fn import_nodes(root: &TreeNode) -> impl Iterator<Item = &TreeNode> {
    root.get("import").into_iter().flat_map(|node| match node.value.as_str() {
        Some(_) => std::slice::from_ref(node),
        None => node.items(),
    })
}

/// A file in a chain of inclusions, and where it is named.
struct Chain<'c> {
    name: String,
    before: Option<&'c Chain<'c>>,
}

impl Chain<'_> {
    /// The names of the files, from the first one.
    fn names(&self) -> Vec<String> {
        let mut names = self.before.map_or(Vec::new(), Chain::names);
        names.push(self.name.clone());
        names
    }
}

impl Expander<'_> {
    /// Merges a file over the one that it inherits from, without the keys that name other files. Returns all
    /// fragments, too.
    pub(super) fn include_parts(&mut self, root: &TreeNode) -> (TreeNode, Fragments) {
        if KEYS.iter().all(|key| root.get(key).is_none()) {
            return (root.clone(), Fragments::new());
        }
        let chain = Chain { name: name_from("", self.file.name()), before: None };
        self.include_parts_of(root, &chain)
    }

    /// Merges a file over the one that its caller put below it: one with targets, judges and agents, but no scenarios.
    pub(super) fn put_over_targets(&mut self, root: TreeNode) -> TreeNode {
        let Some(name) = self.file.below().map(str::to_owned) else { return root };
        let Some(below) = self.read_tree(&name, root.span) else {
            self.incomplete = true;
            return root;
        };
        if below.value.as_object().is_none() {
            let message = format!("`{name}` is not an object with `target` or `targets`");
            self.report(Check::WrongType.at(span_of(&below), message));
            return root;
        }
        let chain = Chain { name, before: None };
        let (below, _) = self.include_parts_of(&below, &chain);
        for key in OF_SCENARIOS {
            if let Some(found) = below.entry(key) {
                let message = format!("`{key}` does not apply to a file of targets");
                let hint = "move it to a file of scenarios; a file of targets has `target`, `targets`, `judges`, `facts`, \
                            `agents` and other keys that hold for all of them";
                self.report(Check::KeyNotHere.at(found.key_span, message).hint(hint));
            }
        }
        let mut left_out: Vec<&str> =
            OF_SCENARIOS.iter().chain(&["id", "name", "description"]).copied().collect();
        for either in [["target", "targets"], ["judge", "judges"]] {
            // A file that names one of several `targets` needs them.
            let is_name = root.get("target").is_some_and(|target| target.value.as_str().is_some());
            let keeps = either[0] == "target" && is_name && root.get("targets").is_none();
            if either.iter().any(|key| root.get(key).is_some()) {
                left_out.push(either[0]);
                left_out.extend(Some(either[1]).filter(|_| !keeps));
            }
        }
        let below = self.make_object(without(&below, &left_out), below.span);
        self.merge(&below, &root)
    }

    fn include_parts_of(&mut self, root: &TreeNode, chain: &Chain<'_>) -> (TreeNode, Fragments) {
        let (mut below, mut fragments) = (None, Fragments::new());
        if let Some(from) = root.entry("from") {
            match self.read_part(&from.node, "from", chain) {
                Some((base, chain)) => {
                    let (base, inherited) = self.include_parts_of(&base, &chain);
                    below = Some(base);
                    fragments = inherited;
                }
                None => self.incomplete = true,
            }
        }
        self.add_fragments(root, chain, &mut fragments);
        let own = self.make_object(without(root, &KEYS), root.span);
        let whole = match below {
            Some(below) => self.merge(&below, &own),
            None => own,
        };
        (whole, fragments)
    }

    /// Adds the fragments of a file: those that it imports, then its own. Of two with the same name, the
    /// later wins.
    fn add_fragments(&mut self, root: &TreeNode, chain: &Chain<'_>, fragments: &mut Fragments) {
        if let Some(import) = root.get("import")
            && import.value.as_str().is_none()
            && import.value.as_list().is_none()
        {
            let message = format!("`import` takes a list of files, not {}", shown(&import.value));
            self.report(Check::WrongType.at(span_of(import), message));
        }
        for path in import_nodes(root) {
            let Some((part, chain)) = self.read_part(path, "import", chain) else {
                self.incomplete = true;
                continue;
            };
            if self.imported.contains(&chain.name) {
                continue;
            }
            self.imported.push(chain.name.clone());
            if part.get("fragments").is_none() && part.get("import").is_none() {
                let message = format!("`{}` has no `fragments`", path.value);
                self.report(Check::NoFragments.at(path.span, message));
            }
            self.add_fragments(&part, &chain, fragments);
        }
        let Some(own) = root.get("fragments") else { return };
        if own.value.as_object().is_none() && !own.value.is_null() {
            let message = format!("`fragments` takes an object, not {}", shown(&own.value));
            self.report(Check::WrongType.at(span_of(own), message));
        }
        if !self.count_inherited(own.entries().count(), own.span) {
            return;
        }
        fragments.extend(own.entries().map(|(name, entry)| (EcoString::from(name), entry.clone())));
    }

    /// Reads the tree of a file that another one names.
    fn read_part<'c>(
        &mut self,
        path: &TreeNode,
        key: &str,
        chain: &'c Chain<'c>,
    ) -> Option<(TreeNode, Chain<'c>)> {
        let Some(written) = path.value.as_str().filter(|path| !path.is_empty()) else {
            let message = format!("`{key}` takes the path of a file, not {}", shown(&path.value));
            self.report(Check::WrongType.at(span_of(path), message));
            return None;
        };
        let mut name = name_from(&chain.name, &path_of(written));
        if self.file.read_part(&name, &Syntax::DEFAULT.limits).is_none()
            && let Some(above) = files::name_above(&chain.name, &path_of(written))
            && self.file.read_part(&above, &Syntax::DEFAULT.limits).is_some()
        {
            if chain.before.is_none() {
                self.report(files::named_from_above(written, path.span));
            }
            name = above;
        }
        let names = chain.names();
        if let Some(first) = names.iter().position(|known| *known == name) {
            let around: Vec<&str> =
                names[first..].iter().map(String::as_str).chain([name.as_str()]).collect();
            let message = format!("`{written}` includes itself");
            self.report(Check::ImportCycle.at(path.span, message).note(around.join(" → ")));
            return None;
        }
        if names.len() > MAX_DEPTH {
            let message = format!("files are nested more than {MAX_DEPTH} levels deep");
            self.report(Check::ImportCycle.at(path.span, message).note(names.join(" → ")));
            return None;
        }
        let tree = self.read_tree(&name, path.span)?;
        if tree.value.as_object().is_none() {
            // What else it is stays there: the path may lead to any file of the machine.
            let found = tree.value.kind().with_article();
            let message = format!("`{written}` is not an object with the keys of a workflow, but {found}");
            self.report(Check::WrongType.at(path.span, message));
            return None;
        }
        let tree = self.with_present_spellings(tree);
        Some((tree, Chain { name, before: Some(chain) }))
    }

    fn read_tree(&mut self, name: &str, span: Span) -> Option<TreeNode> {
        match self.file.read_part(name, &Syntax::DEFAULT.limits) {
            Some(Ok(tree)) => Some(tree),
            // The path may lead to any file of the machine, and a report is read by more people than that
            // file.
            Some(Err(_)) if is_foreign(self.file.name(), name) => {
                self.report(files::foreign(name, span));
                None
            }
            Some(Err(error)) => {
                let file = self.file.parts().find(|part| part.name() == name);
                let (line, column) = self.file.line_column(span.range().start);
                let including = self.file.placed(span.range().start).name;
                let note = format!("included from {including}:{line}:{column}");
                self.report(Problem { file, ..problem::of_reading(&error).note(note) });
                None
            }
            None => {
                let lacking = self.file.lacking(name);
                let message = lacking.map_or_else(
                    || format!("the text of `{name}` is missing"),
                    |lacking| lacking.message.clone(),
                );
                let hints = lacking.map_or(Vec::new(), |lacking| lacking.hints.clone());
                let problem = Check::UnreadableCall.at(span, message);
                self.report(hints.into_iter().fold(problem, Problem::hint));
                None
            }
        }
    }
}

/// An entry with another node.
pub(super) fn with_node(entry: &TreeEntry, node: TreeNode) -> TreeEntry {
    TreeEntry { node, ..entry.clone() }
}
