//! The short forms of loops: a goal, a number that converges, invariants, and steps until something holds. Each becomes
//! the states that it is short for; `states` beside it change those by their names.

use ecow::{EcoString, eco_format};
use threadline_lang::diag::Span;
use threadline_lang::source::{TreeEntry, TreeNode};

use super::{Entries, Expander, entries, text};
use crate::checks::Check;
use crate::fields::{CONSTRAINT, ObjectSpec, UNTIL, WORKFLOW};
use crate::load::read::{head, shown, span_of, unknown_key};
use crate::problem::Problem;

/// A short form.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Goal,
    Convergence,
    Invariants,
    Imperative,
}

/// Every short form with its name, the key that it is known by, and the other keys that only it and its like have.
const FORMS: [(Form, &str, &str, &[&str]); 4] = [
    (Form::Convergence, "convergence", "toward", &["check", "using", "tolerance", "direction"]),
    (Form::Invariants, "invariants", "constraints", &[]),
    (Form::Imperative, "imperative", "until", &["steps", "commands"]),
    (Form::Goal, "goal", "goal", &["tools", "check", "fix", "evaluate", "evaluator"]),
];

/// Keys that other shapes have too.
const SHARED: [&str; 2] = ["steps", "commands"];

impl Form {
    fn row(self) -> &'static (Self, &'static str, &'static str, &'static [&'static str]) {
        // Every form has its row.
        FORMS.iter().find(|(form, ..)| *form == self).unwrap_or(&FORMS[0])
    }

    fn name(self) -> &'static str {
        self.row().1
    }

    /// Whether a key says something about this form.
    fn has(self, key: &str) -> bool {
        let (_, _, mark, others) = self.row();
        *mark == key || others.contains(&key)
    }
}

/// Whether only short forms have a key.
fn is_short(key: &str) -> bool {
    key == "paradigm" || !SHARED.contains(&key) && FORMS.iter().any(|(form, ..)| form.has(key))
}

impl Expander<'_> {
    /// The states of a short form in place of its keys.
    pub(super) fn short(&mut self, root: TreeNode) -> TreeNode {
        if !root.entries().any(|(key, _)| is_short(key)) {
            return root;
        }
        let form = self.form(&root);
        let used = |key: &str| form.is_some_and(|form| form.has(key));
        // Two that make it two forms were told of.
        let marks = |key: &str| {
            root.get("paradigm").is_none()
                && form.is_some()
                && FORMS.iter().any(|(_, _, mark, _)| *mark == key)
        };
        let misplaced = |key: &str| is_short(key) && key != "paradigm" && !used(key) && !marks(key);
        for (key, entry) in root.entries().filter(|(key, _)| misplaced(key)) {
            let problem = misplaced_key(key, entry, form);
            self.problem(problem);
        }
        // The direction goes on into an evaluation, which is looked at.
        self.check_fixed(&root, &WORKFLOW, |key| used(key.name) && key.name != "direction");
        let kept = root.entries().filter(|(key, _)| !is_short(key) && !used(key));
        let mut kept: Entries = kept.map(|(key, entry)| (EcoString::from(key), entry.clone())).collect();
        let Some((form, (initial, states))) = form.and_then(|form| Some((form, self.compiled(form, &root)?)))
        else {
            // Without its states there is nothing more to say; what has some in full is no short form.
            self.incomplete |= root.get("states").is_none();
            return self.object(kept, root.span);
        };
        let span = mark(form, &root);
        if root.get("initial").is_none() {
            kept.push(text("initial", &initial, span));
        }
        let in_words = |goal: &&TreeEntry| goal.node.value.as_str().is_some();
        if let Some(goal) = root.entry("goal").filter(in_words).filter(|_| root.get("description").is_none())
        {
            kept.push(("description".into(), goal.clone()));
        }
        let mut states = self.object(states, span);
        if let Some(written) = root.get("states") {
            states = self.over(&states, written);
            kept.retain(|(key, _)| key != "states");
        }
        kept.push(("states".into(), TreeEntry::made(span, states)));
        self.object(kept, root.span)
    }

    /// Which form it is: as it says, or by the key that only one has.
    fn form(&mut self, root: &TreeNode) -> Option<Form> {
        let named = |name: &str| FORMS.iter().find(|(_, known, ..)| *known == name).map(|(form, ..)| *form);
        if let Some(written) = root.entry("paradigm") {
            let name = written.node.value.as_str().unwrap_or_default();
            let form = named(name);
            if form.is_none() && name != "fsm" {
                let key = WORKFLOW.known("paradigm");
                let message =
                    format!("`paradigm` takes {}, not {}", key.form().expected(), shown(&written.node.value));
                let near =
                    threadline_lang::diag::nearest(name, key.choices().iter().map(|choice| choice.name));
                let problem = Check::UnknownChoice.at(span_of(&written.node), message);
                self.problem(
                    near.iter().fold(problem, |problem, near| problem.hint(format!("did you mean `{near}`"))),
                );
            }
            return form;
        }
        let mut marked = FORMS.iter().filter(|(_, _, mark, _)| root.get(mark).is_some());
        let first = marked.next();
        if let (Some((form, _, mark, _)), Some((_, name, other, _))) = (first, marked.next())
            && let Some(entry) = root.entry(other)
        {
            let message = format!("`{mark}` makes this `{}`, and `{other}` `{name}`", form.name());
            self.problem(Check::ConflictingKeys.at(entry.key_span, message).hint("keep one of them"));
        }
        // What is checked and fixed is a goal, whether it is put in words or not.
        let unnamed = root.get("check").is_some() && root.get("fix").is_some() || root.get("tools").is_some();
        first.map(|(form, ..)| *form).or_else(|| unnamed.then_some(Form::Goal))
    }

    /// The state that a form begins with, and all its states.
    fn compiled(&mut self, form: Form, root: &TreeNode) -> Option<(EcoString, Entries)> {
        match form {
            Form::Goal => self.goal(root),
            Form::Convergence => self.convergence(root),
            Form::Invariants => self.invariants(root),
            Form::Imperative => self.imperative(root),
        }
    }

    fn goal(&mut self, root: &TreeNode) -> Option<(EcoString, Entries)> {
        let (check, fix) = match root.entry("tools") {
            None => (self.needed(root, "check", "goal"), self.needed(root, "fix", "goal")),
            Some(tools) => {
                for other in ["check", "fix"].iter().filter_map(|key| root.entry(key)) {
                    let message = "`tools` are the check and the fix: they cannot stand beside it";
                    self.problem(Check::ConflictingKeys.at(other.key_span, message));
                }
                self.tools(tools)?
            }
        };
        let (check, fix) = (check?, fix?);
        let (of_check, of_fix) = (check.key_span, fix.key_span);
        let mut evaluate = action(&check);
        evaluate.extend(evaluator(root));
        // However the check fails, fixing is the answer.
        evaluate.extend(
            [("on_yes", "done"), ("on_no", "fix"), ("on_error", "fix")]
                .map(|(key, to)| text(key, to, of_check)),
        );
        let mut fixing = action(&fix);
        fixing.push(text("next", "evaluate", of_fix));
        let states = vec![
            self.made("evaluate", evaluate, &check),
            self.made("fix", fixing, &fix),
            self.end("done", "success", of_check),
        ];
        Some(("evaluate".into(), states))
    }

    /// `tools`: what checks, and what fixes; one alone does both.
    fn tools(&mut self, tools: &TreeEntry) -> Option<(Option<TreeEntry>, Option<TreeEntry>)> {
        let one = |node: &TreeNode| Some(TreeEntry::made(tools.key_span, node.clone()));
        match tools.node.items() {
            [check] => Some((one(check), one(check))),
            [check, fix] => Some((one(check), one(fix))),
            _ => {
                let message = "`tools` takes a list of what checks and what fixes";
                let hint = "of more steps than these make `steps:` with `until:`";
                self.problem(Check::WrongType.at(span_of(&tools.node), message).hint(hint));
                None
            }
        }
    }

    fn convergence(&mut self, root: &TreeNode) -> Option<(EcoString, Entries)> {
        let check = self.needed(root, "check", "convergence");
        let toward = self.needed(root, "toward", "convergence");
        let using = self.needed(root, "using", "convergence");
        let (check, toward, using) = (check?, toward?, using?);
        let span = toward.key_span;
        let mut evaluate = vec![text("type", "convergence", span), ("target".into(), toward.clone())];
        let more = ["tolerance", "direction"].into_iter();
        evaluate.extend(more.filter_map(|key| Some((key.into(), root.entry(key)?.clone()))));
        let ways = [("target", "done"), ("progress", "apply"), ("stall", "stalled")];
        let route = self.object(ways.map(|(verdict, to)| text(verdict, to, span)).into(), span);
        let evaluate = self.object(evaluate, span);
        let mut measure = action(&check);
        measure.push(("evaluate".into(), TreeEntry::made(span, evaluate)));
        measure.push(("route".into(), TreeEntry::made(span, route)));
        let mut apply = action(&using);
        apply.push(text("next", "measure", using.key_span));
        let states = vec![
            self.made("measure", measure, &check),
            self.made("apply", apply, &using),
            self.end("done", "success", span),
            self.end("stalled", "failure", span),
        ];
        Some(("measure".into(), states))
    }

    fn invariants(&mut self, root: &TreeNode) -> Option<(EcoString, Entries)> {
        let constraints = self.needed(root, "constraints", "invariants")?;
        let items = constraints.node.items();
        if items.is_empty() {
            let message = "`constraints` takes a list of what must hold: `{name, check, fix}`";
            self.problem(Check::WrongType.at(span_of(&constraints.node), message));
            return None;
        }
        let mut rows: Vec<(&str, &TreeEntry, &TreeEntry, &TreeNode)> = Vec::new();
        for item in items {
            if !self.known_keys(item, &CONSTRAINT) {
                continue;
            }
            let (name, check, fix) = (item.entry("name"), item.entry("check"), item.entry("fix"));
            let (Some(name), Some(check), Some(fix)) = (name, check, fix) else { continue };
            let Some(written) = name.node.value.as_str() else {
                let message = format!("`name` takes a name, not {}", shown(&name.node.value));
                self.problem(Check::WrongType.at(span_of(&name.node), message));
                continue;
            };
            if !crate::forms::is_name(&format!("check_{written}")) {
                let message = format!("`{written}` cannot be a name");
                let hint = "letters, digits, `_` and `-`";
                self.problem(Check::BadName.at(name.node.span, message).hint(hint));
                continue;
            }
            if rows.iter().any(|(known, ..)| *known == written) {
                let message = format!("there are two constraints `{written}`");
                self.problem(Check::DuplicateName.at(name.node.span, message));
                continue;
            }
            rows.push((written, check, fix, item));
        }
        let initial = eco_format!("check_{}", rows.first()?.0);
        let mut states = Entries::new();
        for (at, (name, check, fix, item)) in rows.iter().enumerate() {
            let after = rows.get(at + 1).map_or("all_valid".into(), |(next, ..)| eco_format!("check_{next}"));
            let (check_state, fix_state) = (eco_format!("check_{name}"), eco_format!("fix_{name}"));
            let mut checking = action(check);
            checking.extend(evaluator(item));
            checking.push(text("on_yes", &after, check.key_span));
            checking.push(text("on_no", &fix_state, check.key_span));
            let mut fixing = action(fix);
            fixing.push(text("next", &check_state, fix.key_span));
            states.push(self.made(&check_state, checking, check));
            states.push(self.made(&fix_state, fixing, fix));
        }
        states.push(self.end("all_valid", "success", constraints.key_span));
        Some((initial, states))
    }

    fn imperative(&mut self, root: &TreeNode) -> Option<(EcoString, Entries)> {
        let until = self.needed(root, "until", "imperative");
        let steps = root.entry("steps").or_else(|| root.entry("commands")).cloned();
        let steps = steps.or_else(|| self.needed(root, "steps", "imperative"));
        let (until, steps) = (until?, steps?);
        let items = steps.node.items();
        if items.is_empty() {
            let message = "`steps` takes a list of what is done before `until` is looked at";
            self.problem(Check::WrongType.at(span_of(&steps.node), message));
            return None;
        }
        let is_command = until.node.value.as_str().is_some();
        let check = match until.node.entry("check") {
            _ if is_command => until.clone(),
            Some(check) if self.known_keys(&until.node, &UNTIL) => check.clone(),
            Some(_) => return None,
            None => {
                self.known_keys(&until.node, &UNTIL);
                return None;
            }
        };
        let mut states = Entries::new();
        for (at, item) in items.iter().enumerate() {
            let name = eco_format!("step_{}", at + 1);
            let after =
                if at + 1 < items.len() { eco_format!("step_{}", at + 2) } else { "check_done".into() };
            let entry = TreeEntry::made(steps.key_span, item.clone());
            let mut step = action(&entry);
            step.push(text("next", &after, steps.key_span));
            states.push(self.made(&name, step, &entry));
        }
        let passes = until.node.get("passes").and_then(|passes| passes.value.as_bool()).unwrap_or(true);
        let (yes, no) = if passes { ("done", "step_1") } else { ("step_1", "done") };
        let mut checking = action(&check);
        if !is_command {
            checking.extend(evaluator(&until.node));
        }
        checking.push(text("on_yes", yes, check.key_span));
        checking.push(text("on_no", no, check.key_span));
        states.push(self.made("check_done", checking, &check));
        states.push(self.end("done", "success", until.key_span));
        Some(("step_1".into(), states))
    }

    // ---- parts of them ---------------------------------------------------------------------------------

    /// A key that a form needs.
    fn needed(&mut self, root: &TreeNode, key: &str, form: &str) -> Option<TreeEntry> {
        let found = root.entry(key).cloned();
        if found.is_none() {
            let message = format!("`{form}` needs `{key}`");
            self.problem(Check::MissingKey.at(head(root), message));
        }
        found
    }

    /// Whether an object has the keys of its table, as far as that can be told here.
    fn known_keys(&mut self, node: &TreeNode, object: &'static ObjectSpec) -> bool {
        if node.value.as_object().is_none() {
            let message = format!("{} is an object, not {}", object.title, shown(&node.value));
            self.problem(Check::WrongType.at(span_of(node), message));
            return false;
        }
        let before = self.problems.len();
        for (key, entry) in node.entries().filter(|(key, _)| object.key(key).is_none()) {
            let problem = unknown_key(object, key, entry.key_span);
            self.problem(problem);
        }
        self.check_fixed(node, object, |_| true);
        let told = self.problems.len() > before;
        for key in object.all_keys().filter(|key| key.required && node.get(key.name).is_none() && !told) {
            let message = format!("{} needs `{}`: {}", object.title, key.name, key.doc);
            self.problem(Check::MissingKey.at(head(node), message));
        }
        self.problems.len() == before
    }

    /// A state of a form. A key that the author has given to what it does wins.
    fn made(&mut self, name: &str, keys: Entries, of: &TreeEntry) -> (EcoString, TreeEntry) {
        let mut once = Entries::new();
        for (key, entry) in keys {
            if !once.iter().any(|(known, _)| *known == key) {
                once.push((key, entry));
            }
        }
        let node = self.object(once, of.node.span);
        (name.into(), TreeEntry::made(of.key_span, node))
    }

    fn end(&mut self, name: &str, how: &str, span: Span) -> (EcoString, TreeEntry) {
        let node = self.object(vec![text("terminal", how, span)], span);
        (name.into(), TreeEntry::made(span, node))
    }
}

/// The key that a form is known by, for what nobody wrote.
fn mark(form: Form, root: &TreeNode) -> Span {
    let (_, _, mark, others) = form.row();
    let mut keys = [*mark].into_iter().chain(others.iter().copied()).chain(["paradigm"]);
    let found = keys.find_map(|key| root.entry(key));
    found.map_or(head(root), |entry| entry.key_span)
}

/// A key of a short form in a file that is none, or another.
fn misplaced_key(key: &str, entry: &TreeEntry, form: Option<Form>) -> Problem {
    let of: Vec<String> =
        FORMS.iter().filter(|(form, ..)| form.has(key)).map(|(_, name, ..)| format!("`{name}`")).collect();
    let of = of.join(" and ");
    if let Some(form) = form {
        let message = format!("`{key}` belongs to {of}, and this is `{}`", form.name());
        let (_, _, mark, others) = form.row();
        let keys: Vec<&str> = [*mark].into_iter().chain(others.iter().copied()).collect();
        return Check::KeyNotHere.at(entry.key_span, message).note(format!("keys: {}", keys.join(", ")));
    }
    let message = format!("`{key}` belongs to the short form {of}, and this file is none");
    let marks = FORMS.iter().filter(|(form, ..)| form.has(key));
    let marks: Vec<String> = marks.map(|(_, _, mark, _)| format!("`{mark}`")).collect();
    let hint = format!("it is one when it has {}", marks.join(" or "));
    Check::KeyNotHere.at(entry.key_span, message).hint(hint)
}

/// What a state does: a command, or the keys of a state.
fn action(entry: &TreeEntry) -> Entries {
    if entry.node.value.as_object().is_none() {
        return vec![("action".into(), TreeEntry { ..entry.clone() })];
    }
    let mut keys = entries(&entry.node);
    // Of older files: what is done stands beside how it is done.
    if entry.node.get("action_type").is_some() && entry.node.get("action").is_none() {
        for (key, _) in keys.iter_mut().filter(|(key, _)| key == "tool") {
            *key = "action".into();
        }
    }
    keys
}

fn evaluator(of: &TreeNode) -> Option<(EcoString, TreeEntry)> {
    let found = of.entry("evaluate").or_else(|| of.entry("evaluator"))?;
    Some(("evaluate".into(), found.clone()))
}
