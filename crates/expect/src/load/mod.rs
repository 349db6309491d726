//! Reading: a tree with places in, expectations or every problem at once out.
//!
//! Whatever can be known to be wrong without an actual document is found here, so that evaluation has nothing left to
//! refuse but data.

mod comparison;
mod expectation;
mod fields;

use std::collections::BTreeSet;

use ecow::{EcoString, eco_format};
use threadline_lang::diag::{Diagnostic, Severity, Span, nearest, words};
use threadline_lang::source::{Field, SourceFile, TreeNode, in_order, of_language, place_in};
use threadline_lang::{
    Document, DocumentError, Expression, Origin, Promise, PromisedShape, Scope, ScopeEntry, Syntax, Type,
    Types, Value,
};

use crate::actual::DocumentKind;
use crate::checks::Check;
use crate::model::{Dynamic, Expectation, Expectations, Operand};
use crate::operand::{self, TypeName};
use crate::table::{self, ExpectationKey, NamedOperator};

/// How deep logic may be nested when a file does not say.
pub const DEPTH: usize = 5;
/// What an expectation is called that stands alone and has no name.
pub const ALONE: &str = "expectation";
/// How deep a file may allow.
const MAX_DEPTH: usize = 50;
/// So many problems are looked for: nobody reads more.
const MAX_PROBLEMS: usize = 200;

/// What an unknown key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unknown {
    /// The check reports an error.
    #[default]
    Error,
    /// A warning; what it asks is left out.
    Warn,
}

/// What is known about expectations beside their text.
#[derive(Debug, Clone)]
pub struct LoadContext<'c> {
    /// What the actual document will be of, where that is known.
    pub kind: Option<DocumentKind>,
    /// The language of references.
    pub syntax: &'c Syntax,
    /// What an unknown key is.
    pub unknown: Unknown,
    /// How deep logic may be nested.
    pub depth: usize,
}

impl LoadContext<'static> {
    /// Nothing is known.
    pub const DEFAULT: Self =
        Self { kind: None, syntax: &Syntax::DEFAULT, unknown: Unknown::Error, depth: DEPTH };
}

/// Reads the expectations of a file: one, a list, or `expectations` with names. Without them there is at least one
/// error among the problems.
pub fn load(file: &SourceFile, context: &LoadContext<'_>) -> (Option<Expectations>, Vec<Diagnostic>) {
    let tree = match file.read_tree(&context.syntax.limits) {
        Ok(tree) => tree,
        Err(error) => {
            let mut problem = Check::Unreadable.at(error.span, error.to_string());
            problem.hints.extend(error.advice());
            problem.fix = error.fix.as_deref().cloned();
            return (None, vec![problem]);
        }
    };
    let mut loader = ExpectationLoader::new(file.text(), context);
    let expectations = loader.file(&tree);
    if let Some(expectations) = &expectations {
        loader.names(expectations);
    }
    loader.finish(expectations)
}

/// Reads the expectations of a part of a file; `at` are the keys that lead there. Names that they read beside those of
/// the actual document are left to the caller to check. With an error among the problems they are not all there is.
pub fn load_part(
    node: &TreeNode,
    at: &str,
    text: &str,
    context: &LoadContext<'_>,
) -> (Expectations, Vec<Diagnostic>) {
    let mut loader = ExpectationLoader::new(text, context);
    let members = loader.members(&TreeCursor { node, path: at.into() });
    (Expectations { members, distinct: false, facts: Vec::new() }, in_order(loader.problems))
}

/// A place in a file, and the keys that lead there.
struct TreeCursor<'n> {
    node: &'n TreeNode,
    path: EcoString,
}

impl<'n> TreeCursor<'n> {
    fn origin(&self) -> Origin {
        let style = self.node.style.unwrap_or(threadline_lang::data::Style::Plain);
        Origin { path: self.path.clone(), span: self.node.span, style }
    }

    fn key(&self, key: &str, node: &'n TreeNode) -> Self {
        let mut path = self.path.to_string();
        threadline_lang::push_key(&mut path, key);
        Self { node, path: path.into() }
    }

    fn items(&self) -> impl Iterator<Item = Self> {
        self.node
            .items()
            .iter()
            .enumerate()
            .map(|(at, node)| Self { node, path: eco_format!("{}[{at}]", self.path) })
    }
}

struct ExpectationLoader<'c> {
    text: &'c str,
    context: &'c LoadContext<'c>,
    unknown: Unknown,
    depth: usize,
    facts: Option<Vec<(EcoString, Option<TypeName>)>>,
    problems: Vec<Diagnostic>,
}

impl<'c> ExpectationLoader<'c> {
    fn new(text: &'c str, context: &'c LoadContext<'c>) -> Self {
        let (unknown, depth) = (context.unknown, context.depth);
        Self { text, context, unknown, depth, facts: None, problems: Vec::new() }
    }

    fn finish(self, expectations: Option<Expectations>) -> (Option<Expectations>, Vec<Diagnostic>) {
        let problems = in_order(self.problems);
        let sound = !problems.iter().any(Diagnostic::is_error);
        (expectations.filter(|_| sound), problems)
    }

    fn problem(&mut self, problem: Diagnostic) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem);
        }
    }

    fn wrong_type(&mut self, key: &str, expected: &str, node: &TreeNode) {
        // The type of a list or object is enough; of what is too large or too short the value says more.
        let found = match node.value.kind() {
            kind @ (Type::List | Type::Object) => kind.with_article().to_owned(),
            _ => shown(&node.value),
        };
        self.problem(Check::WrongType.at(node.span, format!("`{key}` takes {expected}, not {found}")));
    }

    // ---- files ------------------------------------------------------------------------------------------

    fn file(&mut self, tree: &TreeNode) -> Option<Expectations> {
        if tree.value.is_null() {
            self.problem(Check::NoMembers.at(tree.span, "there is no expectation in this file"));
            return None;
        }
        let root = TreeCursor { node: tree, path: EcoString::new() };
        let Some(expectations) = tree.get("expectations") else {
            let members = self.members(&root);
            return Some(Expectations { members, distinct: false, facts: Vec::new() });
        };
        let mut distinct = false;
        for (key, entry) in tree.entries() {
            let node = &entry.node;
            match key {
                "expectations" => {}
                "facts" => self.facts = Some(self.declared(node)),
                "distinct" => distinct = self.bool(key, node).unwrap_or_default(),
                "unknown" => match node.value.as_str() {
                    Some("error") => self.unknown = Unknown::Error,
                    Some("warn") => self.unknown = Unknown::Warn,
                    _ => self.wrong_type(key, "`error` or `warn`", node),
                },
                "depth" => match node.value.as_i64().and_then(|depth| usize::try_from(depth).ok()) {
                    Some(depth @ 1..=MAX_DEPTH) => self.depth = depth,
                    _ => self.wrong_type(key, "a whole number from 1 to 50", node),
                },
                "name" | "description" => {
                    if node.value.as_str().is_none() {
                        self.wrong_type(key, "text", node);
                    }
                }
                _ => self.unknown_file_key(key, entry.key_span),
            }
        }
        let at = root.key("expectations", expectations);
        let members =
            if expectations.value.as_object().is_some() { self.named(&at) } else { self.members(&at) };
        let facts = self.facts.iter().flatten();
        let facts = facts.filter_map(|(name, kind)| Some((name.clone(), (*kind)?))).collect();
        Some(Expectations { members, distinct, facts })
    }

    fn unknown_file_key(&mut self, key: &str, span: Span) {
        let names = table::FILE.iter().map(|key| key.name);
        let problem = Check::UnknownField.at(span, format!("a file of expectations has no key `{key}`"));
        let problem = match nearest(key, names.clone()) {
            Some(near) => problem.did_you_mean(near),
            None => problem.hint(format!("its keys are {}", words::names(names))),
        };
        self.problem(problem);
    }

    /// The facts that a file declares.
    fn declared(&mut self, node: &TreeNode) -> Vec<(EcoString, Option<TypeName>)> {
        let mut facts = Vec::new();
        match node.value.kind() {
            Type::List => {
                for item in node.items() {
                    match item.value.as_str() {
                        Some(name) => facts.push((name.into(), None)),
                        None => self.wrong_type("facts", "a list of names", item),
                    }
                }
            }
            Type::Object => {
                for (name, entry) in node.entries() {
                    let kind = entry.node.value.as_str().and_then(TypeName::of);
                    if kind.is_none() && entry.node.value.as_str() != Some("any") {
                        let message = format!("{} is no type of a fact", shown(&entry.node.value));
                        let hint = "types are any, null, bool, int, decimal, number, text, list, object";
                        self.problem(Check::WrongType.at(entry.node.span, message).hint(hint));
                    }
                    facts.push((name.into(), kind));
                }
            }
            _ => self.wrong_type("facts", "names with types, or a list of names", node),
        }
        facts
    }

    /// One expectation or a list of them.
    fn members(&mut self, at: &TreeCursor<'_>) -> Vec<Expectation> {
        if at.node.value.as_list().is_none() {
            return self.expectation(at, ALONE).into_iter().collect();
        }
        if at.node.items().is_empty() {
            self.problem(Check::NoMembers.at(at.node.span, "there is no expectation in this list"));
        }
        let mut members: Vec<Expectation> = Vec::new();
        let mut names = BTreeSet::new();
        for (index, item) in at.items().enumerate() {
            let member = self.expectation(&item, &(index + 1).to_string());
            if let Some(member) = &member
                && !names.insert(member.name.clone())
            {
                let message = format!("there is another expectation called `{}`", member.name);
                self.problem(Check::DuplicateName.at(item.node.span, message));
            }
            members.extend(member);
        }
        members
    }

    fn named(&mut self, at: &TreeCursor<'_>) -> Vec<Expectation> {
        if at.node.entries().next().is_none() {
            self.problem(Check::NoMembers.at(at.node.span, "there is no expectation in this object"));
        }
        let entries: Vec<_> = at.node.entries().collect();
        entries
            .into_iter()
            .filter_map(|(name, entry)| self.expectation(&at.key(name, &entry.node), name))
            .collect()
    }

    fn expectation(&mut self, at: &TreeCursor<'_>, name: &str) -> Option<Expectation> {
        let node = self.root(at)?;
        let text = |key: &str| at.node.get(key).and_then(|node| node.value.as_str()).map(EcoString::from);
        Some(Expectation {
            name: text("name").unwrap_or_else(|| name.into()),
            description: text("description"),
            span: at.node.span,
            node,
        })
    }

    // ---- scalars ----------------------------------------------------------------------------------------

    fn bool(&mut self, key: &str, node: &TreeNode) -> Option<bool> {
        let bool = node.value.as_bool();
        if bool.is_none() {
            self.wrong_type(key, "`true` or `false`", node);
        }
        bool
    }

    /// What stands behind an operator.
    fn operand(&mut self, named: NamedOperator, at: &TreeCursor<'_>) -> Option<Operand> {
        let (document, sound) = self.document(at)?;
        let value = match document.as_fixed() {
            Some(value) if sound => value,
            _ => return Some(Operand::Dynamic(Field { value: document, origin: at.origin() }.into())),
        };
        match operand::prepare(named, value) {
            Ok(prepared) => Some(Operand::Fixed(prepared.into(), value.clone())),
            Err(unfit) => {
                let span = match unfit.at {
                    Some(part) => place_in(&at.origin(), Span::new(part.start, part.end), self.text),
                    None => at.node.span,
                };
                let mut problem = unfit.check.at(span, unfit.message);
                problem.hints.extend(unfit.hint);
                self.problem(problem);
                None
            }
        }
    }

    /// A value with the templates in it compiled, and whether all of them could be. What could be is checked further.
    fn document(&mut self, at: &TreeCursor<'_>) -> Option<(Document, bool)> {
        match Document::compile(self.context.syntax, |sink| at.node.feed(sink)) {
            Ok(document) => Some((document, true)),
            Err(DocumentError::Templates { errors, rest }) => {
                for error in &errors {
                    self.problem(of_language(error, &at.origin(), self.text));
                }
                Some((rest, false))
            }
            Err(DocumentError::Read(error)) => {
                self.problem(Check::Unreadable.at(error.span, error.to_string()));
                None
            }
        }
    }

    fn condition(&mut self, at: &TreeCursor<'_>) -> Option<Field<Expression>> {
        let Some(text) = at.node.value.as_str() else {
            self.wrong_type("expr", "an expression", at.node);
            return None;
        };
        match Expression::parse(text.trim_end_matches('\n'), self.context.syntax) {
            Ok(expression) => Some(Field { value: expression, origin: at.origin() }),
            Err(error) => {
                self.problem(of_language(&error, &at.origin(), self.text));
                None
            }
        }
    }

    // ---- names ------------------------------------------------------------------------------------------

    /// Every name that an expected value or an expression reads is one of the actual document.
    fn names(&mut self, expectations: &Expectations) {
        let scope = with_promised(self.context.kind, &Scope::new());
        for dynamic in expectations.dynamics() {
            let (errors, origin, references) = match dynamic {
                Dynamic::Value(field) => {
                    let references: Vec<_> =
                        field.value.references().into_iter().map(|(_, reference)| reference).collect();
                    (field.value.check(&scope), &field.origin, references)
                }
                Dynamic::Expression(field) => {
                    (field.value.infer_condition(&scope).errors, &field.origin, field.value.references())
                }
            };
            let mut errors = errors;
            if let Dynamic::Expression(field) = dynamic {
                let found = field.value.check(&scope);
                errors.retain(|error| !found.iter().any(|other| other.span() == error.span()));
                errors.extend(found);
            }
            for error in &errors {
                self.problem(of_language(error, origin, self.text));
            }
            for reference in references.iter().filter(|reference| reference.root == "facts") {
                if let Some(name) = &reference.first {
                    let span = place_in(origin, reference.span, self.text);
                    self.declared_fact(name, span);
                }
            }
        }
    }

    /// A fact that is read has to be declared, where facts are.
    fn declared_fact(&mut self, name: &str, span: Span) {
        let Some(facts) = &self.facts else { return };
        if facts.iter().any(|(known, _)| known == name) {
            return;
        }
        let names = facts.iter().map(|(name, _)| name.as_str());
        let problem = Check::UndeclaredFact.at(span, format!("the fact `{name}` is not declared"));
        let problem = match nearest(name, names.clone()) {
            Some(near) => problem.hint(words::did_you_mean(near)),
            None if facts.is_empty() => problem.hint("`facts` declares none"),
            None => problem.hint(format!("declared are {}", words::names(names))),
        };
        self.problem(problem);
    }

    /// A key that is not known: an error, or a warning where the file says so.
    fn unknown(&mut self, mut problem: Diagnostic) {
        if self.unknown == Unknown::Warn {
            problem.severity = Severity::Warning;
        }
        self.problem(problem);
    }
}

/// The names of an actual document that is not there yet, in front of others.
pub fn with_promised(kind: Option<DocumentKind>, outer: &Scope) -> Scope {
    let why = "it is known when the expectation is evaluated";
    let roots = table::ROOTS.iter().filter(|root| kind.is_none_or(|kind| root.kinds.contains(&kind)));
    let entry = |name: &str| {
        let types = Types::named(match name {
            "text" | "type" | "output" => Some(Type::Text),
            "plan" => Some(Type::List),
            "exit_code" => Some(Type::Int),
            "facts" | "usage" | "meta" => Some(Type::Object),
            _ => None,
        });
        let shape = PromisedShape::Value(types.into());
        (EcoString::from(name), ScopeEntry::Promised(Promise { why: why.into(), shape }.into()))
    };
    // The names of the table differ.
    outer.with_entries("actual", roots.map(|root| entry(root.name))).unwrap_or_default()
}

fn known<'k>(keys: &'k [ExpectationKey], name: &str) -> Option<&'k ExpectationKey> {
    keys.iter().find(|key| key.name == name)
}

/// A value as JSON, in a hint.
fn shown(value: &Value) -> String {
    threadline_lang::diag::excerpt(value)
}
