//! The short forms of loops: a goal, convergence, invariants, and steps until a condition holds. Each is
//! expanded to the states that it stands for; `states` next to it overrides those with the same name.

use ecow::{EcoString, eco_format};
use threadline_lang::diag::{Span, nearest, words};
use threadline_lang::source::{TreeEntry, TreeNode};

use super::{Expander, NodeEntries, entries, text};
use crate::checks::Check;
use crate::fields::{CONSTRAINT, ObjectSpec, UNTIL, WORKFLOW};
use crate::load::read::{head, shown, span_of, unknown_key};
use crate::problem::Problem;

/// A short form of a loop.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ShortForm {
    Goal,
    Convergence,
    Invariants,
    Imperative,
}

/// Keys that other shapes have, too.
const SHARED: [&str; 2] = ["steps", "commands"];

impl ShortForm {
    /// All forms. Of several marks in one file, the first form wins.
    const ALL: [Self; 4] = [Self::Convergence, Self::Invariants, Self::Imperative, Self::Goal];

    fn name(self) -> &'static str {
        match self {
            Self::Convergence => "convergence",
            Self::Invariants => "invariants",
            Self::Imperative => "imperative",
            Self::Goal => "goal",
        }
    }

    /// The key that identifies the form.
    fn mark(self) -> &'static str {
        match self {
            Self::Convergence => "toward",
            Self::Invariants => "constraints",
            Self::Imperative => "until",
            Self::Goal => "goal",
        }
    }

    /// The other keys of the form.
    fn other_keys(self) -> &'static [&'static str] {
        match self {
            Self::Convergence => &["check", "using", "tolerance", "direction"],
            Self::Invariants => &[],
            Self::Imperative => &["steps", "commands"],
            Self::Goal => &["tools", "check", "fix", "evaluate", "evaluator"],
        }
    }

    fn keys(self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.mark()).chain(self.other_keys().iter().copied())
    }

    /// Whether a key belongs to this form.
    fn has(self, key: &str) -> bool {
        self.keys().any(|known| known == key)
    }
}

/// Whether a key belongs to short forms only.
fn is_short(key: &str) -> bool {
    key == "paradigm" || !SHARED.contains(&key) && ShortForm::ALL.iter().any(|form| form.has(key))
}

impl Expander<'_> {
    /// Replaces the keys of a short form by its states.
    pub(super) fn expand_short_form(&mut self, root: TreeNode) -> TreeNode {
        if !root.entries().any(|(key, _)| is_short(key)) {
            return root;
        }
        let form = self.find_form(&root);
        let used = |key: &str| form.is_some_and(|form| form.has(key));
        // A conflict between two forms was already reported.
        let marks = |key: &str| {
            root.get("paradigm").is_none()
                && form.is_some()
                && ShortForm::ALL.iter().any(|form| form.mark() == key)
        };
        let misplaced = |key: &str| is_short(key) && key != "paradigm" && !used(key) && !marks(key);
        for (key, entry) in root.entries().filter(|(key, _)| misplaced(key)) {
            let problem = misplaced_key(key, entry, form);
            self.report(problem);
        }
        // The direction is checked as part of the evaluation.
        self.check_removed_keys(&root, &WORKFLOW, |key| used(key.name) && key.name != "direction");
        let kept = root.entries().filter(|(key, _)| !is_short(key) && !used(key));
        let mut kept: NodeEntries = kept.map(|(key, entry)| (EcoString::from(key), entry.clone())).collect();
        let Some((form, (initial, states))) =
            form.and_then(|form| Some((form, self.expand_form(form, &root)?)))
        else {
            // Without states nothing more can be checked; a file with states in full is no short form.
            self.incomplete |= root.get("states").is_none();
            return self.make_object(kept, root.span);
        };
        let span = mark_span(form, &root);
        if root.get("initial").is_none() {
            kept.push(text("initial", &initial, span));
        }
        let in_words = |goal: &&TreeEntry| goal.node.value.as_str().is_some();
        if let Some(goal) = root.entry("goal").filter(in_words).filter(|_| root.get("description").is_none())
        {
            kept.push(("description".into(), goal.clone()));
        }
        let mut states = self.make_object(states, span);
        if let Some(written) = root.get("states") {
            states = self.merge(&states, written);
            kept.retain(|(key, _)| key != "states");
        }
        kept.push(("states".into(), TreeEntry::made(span, states)));
        self.make_object(kept, root.span)
    }

    /// Determines the form: as named, or by the key that identifies it.
    fn find_form(&mut self, root: &TreeNode) -> Option<ShortForm> {
        if let Some(written) = root.entry("paradigm") {
            let name = written.node.value.as_str().unwrap_or_default();
            let form = ShortForm::ALL.into_iter().find(|form| form.name() == name);
            if form.is_none() && name != "fsm" {
                let key = WORKFLOW.known("paradigm");
                let message =
                    format!("`paradigm` takes {}, not {}", key.form().expected(), shown(&written.node.value));
                let near = nearest(name, key.choices().iter().map(|choice| choice.name));
                let problem = Check::UnknownChoice.at(span_of(&written.node), message);
                self.report(near.into_iter().fold(problem, Problem::did_you_mean));
            }
            return form;
        }
        let mut marked = ShortForm::ALL.into_iter().filter(|form| root.get(form.mark()).is_some());
        let first = marked.next();
        if let (Some(form), Some(other)) = (first, marked.next())
            && let Some(entry) = root.entry(other.mark())
        {
            let (form, other) = ((form.mark(), form.name()), (other.mark(), other.name()));
            let message = format!("`{}` means `{}`, but `{}` means `{}`", form.0, form.1, other.0, other.1);
            self.report(Check::ConflictingKeys.at(entry.key_span, message).hint("keep one of them"));
        }
        // A check with a fix is a goal, even without a description.
        let unnamed = root.get("check").is_some() && root.get("fix").is_some() || root.get("tools").is_some();
        first.or_else(|| unnamed.then_some(ShortForm::Goal))
    }

    /// The initial state of a form, and all its states.
    fn expand_form(&mut self, form: ShortForm, root: &TreeNode) -> Option<(EcoString, NodeEntries)> {
        match form {
            ShortForm::Goal => self.expand_goal(root),
            ShortForm::Convergence => self.expand_convergence(root),
            ShortForm::Invariants => self.expand_invariants(root),
            ShortForm::Imperative => self.expand_imperative(root),
        }
    }

    fn expand_goal(&mut self, root: &TreeNode) -> Option<(EcoString, NodeEntries)> {
        let (check, fix) = match root.entry("tools") {
            None => (self.require_key(root, "check", "goal"), self.require_key(root, "fix", "goal")),
            Some(tools) => {
                for other in ["check", "fix"].iter().filter_map(|key| root.entry(key)) {
                    let message = "`tools` replaces `check` and `fix`, so it cannot be combined with them";
                    self.report(Check::ConflictingKeys.at(other.key_span, message));
                }
                self.read_tools(tools)?
            }
        };
        let (check, fix) = (check?, fix?);
        let (of_check, of_fix) = (check.key_span, fix.key_span);
        let mut evaluate = action(&check);
        evaluate.extend(evaluator(root));
        // Any failure of the check leads to the fix.
        evaluate.extend(
            [("on_yes", "done"), ("on_no", "fix"), ("on_error", "fix")]
                .map(|(key, to)| text(key, to, of_check)),
        );
        let mut fixing = action(&fix);
        fixing.push(text("next", "evaluate", of_fix));
        let states = vec![
            self.make_state("evaluate", evaluate, &check),
            self.make_state("fix", fixing, &fix),
            self.make_end("done", "success", of_check),
        ];
        Some(("evaluate".into(), states))
    }

    /// Reads `tools`: the check and the fix; a single tool does both.
    fn read_tools(&mut self, tools: &TreeEntry) -> Option<(Option<TreeEntry>, Option<TreeEntry>)> {
        let one = |node: &TreeNode| Some(TreeEntry::made(tools.key_span, node.clone()));
        match tools.node.items() {
            [check] => Some((one(check), one(check))),
            [check, fix] => Some((one(check), one(fix))),
            _ => {
                let message = "`tools` takes a list of two actions: the check and the fix";
                let hint = "write more than two actions as `steps:` with `until:`";
                self.report(Check::WrongType.at(span_of(&tools.node), message).hint(hint));
                None
            }
        }
    }

    fn expand_convergence(&mut self, root: &TreeNode) -> Option<(EcoString, NodeEntries)> {
        let check = self.require_key(root, "check", "convergence");
        let toward = self.require_key(root, "toward", "convergence");
        let using = self.require_key(root, "using", "convergence");
        let (check, toward, using) = (check?, toward?, using?);
        let span = toward.key_span;
        let mut evaluate = vec![text("type", "convergence", span), ("target".into(), toward.clone())];
        let more = ["tolerance", "direction"].into_iter();
        evaluate.extend(more.filter_map(|key| Some((key.into(), root.entry(key)?.clone()))));
        let ways = [("target", "done"), ("progress", "apply"), ("stall", "stalled")];
        let route = self.make_object(ways.map(|(verdict, to)| text(verdict, to, span)).into(), span);
        let evaluate = self.make_object(evaluate, span);
        let mut measure = action(&check);
        measure.push(("evaluate".into(), TreeEntry::made(span, evaluate)));
        measure.push(("route".into(), TreeEntry::made(span, route)));
        let mut apply = action(&using);
        apply.push(text("next", "measure", using.key_span));
        let states = vec![
            self.make_state("measure", measure, &check),
            self.make_state("apply", apply, &using),
            self.make_end("done", "success", span),
            self.make_end("stalled", "failure", span),
        ];
        Some(("measure".into(), states))
    }

    fn expand_invariants(&mut self, root: &TreeNode) -> Option<(EcoString, NodeEntries)> {
        let constraints = self.require_key(root, "constraints", "invariants")?;
        let items = constraints.node.items();
        if items.is_empty() {
            let message = "`constraints` takes a list of `{name, check, fix}`";
            self.report(Check::WrongType.at(span_of(&constraints.node), message));
            return None;
        }
        let mut rows: Vec<(&str, &TreeEntry, &TreeEntry, &TreeNode)> = Vec::new();
        for item in items {
            if !self.check_keys(item, &CONSTRAINT) {
                continue;
            }
            let (name, check, fix) = (item.entry("name"), item.entry("check"), item.entry("fix"));
            let (Some(name), Some(check), Some(fix)) = (name, check, fix) else { continue };
            let Some(written) = name.node.value.as_str() else {
                let message = format!("`name` takes a name, not {}", shown(&name.node.value));
                self.report(Check::WrongType.at(span_of(&name.node), message));
                continue;
            };
            if !crate::forms::is_name(&format!("check_{written}")) {
                let message = format!("`{written}` is not a valid name");
                let hint = "use letters, digits, `_` and `-`";
                self.report(Check::BadName.at(name.node.span, message).hint(hint));
                continue;
            }
            if rows.iter().any(|(known, ..)| *known == written) {
                let message = format!("the constraint `{written}` is defined twice");
                self.report(Check::DuplicateName.at(name.node.span, message));
                continue;
            }
            rows.push((written, check, fix, item));
        }
        let initial = eco_format!("check_{}", rows.first()?.0);
        let mut states = NodeEntries::new();
        for (at, (name, check, fix, item)) in rows.iter().enumerate() {
            let after = rows.get(at + 1).map_or("all_valid".into(), |(next, ..)| eco_format!("check_{next}"));
            let (check_state, fix_state) = (eco_format!("check_{name}"), eco_format!("fix_{name}"));
            let mut checking = action(check);
            checking.extend(evaluator(item));
            checking.push(text("on_yes", &after, check.key_span));
            checking.push(text("on_no", &fix_state, check.key_span));
            let mut fixing = action(fix);
            fixing.push(text("next", &check_state, fix.key_span));
            states.push(self.make_state(&check_state, checking, check));
            states.push(self.make_state(&fix_state, fixing, fix));
        }
        states.push(self.make_end("all_valid", "success", constraints.key_span));
        Some((initial, states))
    }

    fn expand_imperative(&mut self, root: &TreeNode) -> Option<(EcoString, NodeEntries)> {
        let until = self.require_key(root, "until", "imperative");
        let steps = root.entry("steps").or_else(|| root.entry("commands")).cloned();
        let steps = steps.or_else(|| self.require_key(root, "steps", "imperative"));
        let (until, steps) = (until?, steps?);
        let items = steps.node.items();
        if items.is_empty() {
            let message = "`steps` takes a list of actions to repeat before `until` is checked";
            self.report(Check::WrongType.at(span_of(&steps.node), message));
            return None;
        }
        let is_command = until.node.value.as_str().is_some();
        let check = match until.node.entry("check") {
            _ if is_command => until.clone(),
            Some(check) if self.check_keys(&until.node, &UNTIL) => check.clone(),
            Some(_) => return None,
            None => {
                self.check_keys(&until.node, &UNTIL);
                return None;
            }
        };
        let mut states = NodeEntries::new();
        for (at, item) in items.iter().enumerate() {
            let name = eco_format!("step_{}", at + 1);
            let after =
                if at + 1 < items.len() { eco_format!("step_{}", at + 2) } else { "check_done".into() };
            let entry = TreeEntry::made(steps.key_span, item.clone());
            let mut step = action(&entry);
            step.push(text("next", &after, steps.key_span));
            states.push(self.make_state(&name, step, &entry));
        }
        let passes = until.node.get("passes").and_then(|passes| passes.value.as_bool()).unwrap_or(true);
        let (yes, no) = if passes { ("done", "step_1") } else { ("step_1", "done") };
        let mut checking = action(&check);
        if !is_command {
            checking.extend(evaluator(&until.node));
        }
        checking.push(text("on_yes", yes, check.key_span));
        checking.push(text("on_no", no, check.key_span));
        states.push(self.make_state("check_done", checking, &check));
        states.push(self.make_end("done", "success", until.key_span));
        Some(("step_1".into(), states))
    }

    // ---- parts of them ---------------------------------------------------------------------------------

    /// Reads a key that a form requires.
    fn require_key(&mut self, root: &TreeNode, key: &str, form: &str) -> Option<TreeEntry> {
        let found = root.entry(key).cloned();
        if found.is_none() {
            let message = format!("`{form}` needs `{key}`");
            self.report(Check::MissingKey.at(head(root), message));
        }
        found
    }

    /// Checks the keys of an object against its table, as far as possible here.
    fn check_keys(&mut self, node: &TreeNode, object: &'static ObjectSpec) -> bool {
        if node.value.as_object().is_none() {
            let message = format!("{} is an object, not {}", object.title, shown(&node.value));
            self.report(Check::WrongType.at(span_of(node), message));
            return false;
        }
        let before = self.problems.len();
        for (key, entry) in node.entries().filter(|(key, _)| object.key(key).is_none()) {
            let problem = unknown_key(object, key, entry.key_span, self.problems.len());
            self.report(problem);
        }
        self.check_removed_keys(node, object, |_| true);
        let told = self.problems.len() > before;
        for key in object.all_keys().filter(|key| key.required && node.get(key.name).is_none() && !told) {
            let message = format!("{} needs `{}`: {}", object.title, key.name, key.doc);
            self.report(Check::MissingKey.at(head(node), message));
        }
        self.problems.len() == before
    }

    /// A state of a form. Keys that the author wrote take precedence.
    fn make_state(&mut self, name: &str, keys: NodeEntries, origin: &TreeEntry) -> (EcoString, TreeEntry) {
        let mut once = NodeEntries::new();
        for (key, entry) in keys {
            if !once.iter().any(|(known, _)| *known == key) {
                once.push((key, entry));
            }
        }
        let node = self.make_object(once, origin.node.span);
        (name.into(), TreeEntry::made(origin.key_span, node))
    }

    fn make_end(&mut self, name: &str, how: &str, span: Span) -> (EcoString, TreeEntry) {
        let node = self.make_object(vec![text("terminal", how, span)], span);
        (name.into(), TreeEntry::made(span, node))
    }
}

/// The span of the key that identifies a form, for states that nobody wrote.
fn mark_span(form: ShortForm, root: &TreeNode) -> Span {
    let found = form.keys().chain(["paradigm"]).find_map(|key| root.entry(key));
    found.map_or(head(root), |entry| entry.key_span)
}

/// The problem of a key that belongs to another short form, or to none.
fn misplaced_key(key: &str, entry: &TreeEntry, form: Option<ShortForm>) -> Problem {
    let with_key = || ShortForm::ALL.into_iter().filter(|form| form.has(key));
    let forms = words::code_list(with_key().map(ShortForm::name), "and");
    if let Some(form) = form {
        let message = format!("`{key}` only applies to {forms}, but this is `{}`", form.name());
        let keys = words::names(form.keys());
        return Check::KeyNotHere.at(entry.key_span, message).note(format!("keys: {keys}"));
    }
    let message = format!("`{key}` only applies to the short form {forms}, which this file is not");
    let marks = words::code_list(with_key().map(ShortForm::mark), "or");
    Check::KeyNotHere.at(entry.key_span, message).hint(format!("add {marks}"))
}

/// The action of a state: a command, or the keys of a state.
fn action(entry: &TreeEntry) -> NodeEntries {
    if entry.node.value.as_object().is_none() {
        return vec![("action".into(), TreeEntry { ..entry.clone() })];
    }
    let mut keys = entries(&entry.node);
    // In older files, `tool` next to `action_type` is the action.
    if entry.node.get("action_type").is_some() && entry.node.get("action").is_none() {
        for (key, _) in keys.iter_mut().filter(|(key, _)| key == "tool") {
            *key = "action".into();
        }
    }
    keys
}

fn evaluator(node: &TreeNode) -> Option<(EcoString, TreeEntry)> {
    let found = node.entry("evaluate").or_else(|| node.entry("evaluator"))?;
    Some(("evaluate".into(), found.clone()))
}
