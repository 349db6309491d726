//! One expectation: logic, fields, paths and options side by side.

use ecow::EcoString;
use threadline_lang::diag::{Span, nearest, words};
use threadline_lang::source::{TreeEntry, TreeNode};
use threadline_lang::{Number, Value};

use super::{ExpectationLoader, TreeCursor, known};
use crate::checks::Check;
use crate::load::fields::StepChecks;
use crate::model::{ExpectationLine, LineKind, MemberGroup, Operand, Score, Test, WeightedMember, When};
use crate::path::ActualPath;
use crate::table::{self, CHECKS, FIELDS, FILE, LOGIC, OPTIONS, Op, ROOTS};

const EXPECTATIONS: &str = "a list of expectations";

/// The options of an expectation that say how it counts.
#[derive(Default)]
struct MemberOptions {
    weight: Option<Number>,
    must: bool,
    threshold: Option<Number>,
    distinct: bool,
    /// Whether a member of its `all` has a weight.
    weighed: bool,
}

/// Where an expectation stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ExpectationPlace {
    /// At the top of a file or part.
    Top,
    /// As a member of `all`.
    InAll,
    /// Below other logic, such as `any` or `not`.
    Below,
}

impl ExpectationLoader<'_> {
    /// An expectation at the top.
    pub(super) fn root(&mut self, at: &TreeCursor<'_>) -> Option<ExpectationLine> {
        let mut bound = StepChecks::default();
        let (node, _) = self.level(at, 0, ExpectationPlace::Top, &mut bound)?;
        self.with_step(node, bound)
    }

    /// An expectation below logic: what it asks of a step of the plan is its own.
    fn below(&mut self, at: &TreeCursor<'_>, depth: usize) -> Option<ExpectationLine> {
        let mut bound = StepChecks::default();
        let (node, _) = self.level(at, depth, ExpectationPlace::Below, &mut bound)?;
        self.with_step(node, bound)
    }

    /// What was asked of one step of the plan stands where its first check stood.
    fn with_step(&mut self, nodes: Vec<ExpectationLine>, bound: StepChecks) -> Option<ExpectationLine> {
        let mut nodes = nodes;
        if let Some((position, step)) = self.step_of(bound) {
            nodes.insert(position.min(nodes.len()), step);
        }
        joined(nodes)
    }

    /// The lines of one expectation, and how it counts. What it asks of a step of the plan goes to `bound`.
    fn level(
        &mut self,
        at: &TreeCursor<'_>,
        depth: usize,
        stands: ExpectationPlace,
        bound: &mut StepChecks,
    ) -> Option<(Vec<ExpectationLine>, WeightedMember)> {
        if depth > self.depth {
            let message = format!("logic is nested {depth} deep; {} is the most", self.depth);
            let hint = "name a part and check it as an expectation of its own, or raise `depth` of the file";
            self.problem(Check::TooDeep.at(at.node.span, message).hint(hint));
            return None;
        }
        if at.node.value.as_object().is_none() {
            let found = at.node.value.kind().with_article();
            let message = format!("an expectation is an object of checks, this is {found}");
            self.problem(Check::NotAnExpectation.at(at.node.span, message));
            return None;
        }
        let asks = |name: &str| known(OPTIONS, name).is_none();
        if !at.node.entries().any(|(key, _)| asks(key)) {
            self.problem(Check::NotAnExpectation.at(at.node.span, "this expectation checks nothing"));
            return None;
        }
        let options = self.options(at, stands);
        let mut nodes = Vec::new();
        // Its own checks of a step and those of its `all` go together; an `all` alone keeps its own.
        let own_step = stands == ExpectationPlace::InAll
            || at.node.entries().any(|(key, _)| table::field(key).is_some_and(super::fields::is_of_step));
        for (key, entry) in at.node.entries() {
            let child = at.key(key, &entry.node);
            let before = nodes.len();
            bound.here = before;
            match key {
                "all" if own_step && options.plain() => {
                    nodes.extend(self.all(
                        &child,
                        depth,
                        entry.key_span,
                        &options,
                        Some((&mut *bound, before)),
                    ));
                }
                "all" => nodes.extend(self.all(&child, depth, entry.key_span, &options, None)),
                "any" => nodes.extend(self.any(&child, depth, entry.key_span)),
                "not" => nodes.extend(self.not(&child, depth, entry.key_span)),
                "when" => nodes.extend(self.when(at, &child, depth, entry.key_span)),
                "then" | "else" if at.node.get("when").is_none() => {
                    self.without_when(key, entry.key_span);
                    self.below(&child, depth + 1);
                }
                "then" | "else" => {}
                "expr" => {
                    let condition = self.condition(&child);
                    let what = condition.map(|field| LineKind::Expression(field.into()));
                    nodes.extend(what.map(|what| node(key, entry.key_span, what)));
                }
                "judge" => nodes.extend(self.judge(&child, entry.key_span)),
                _ if known(OPTIONS, key).is_some() => {}
                _ => match table::field(key) {
                    Some(field) => nodes.extend(self.field(field, &child, entry.key_span, depth, bound)),
                    None => nodes.extend(self.path(key, entry, &child, depth)),
                },
            }
        }
        let member = WeightedMember {
            node: node("", at.node.span, LineKind::Together(Vec::new())),
            weight: options.weight.unwrap_or_else(|| Number::int(1)),
            must: options.must,
        };
        Some((nodes, member))
    }

    fn options(&mut self, at: &TreeCursor<'_>, stands: ExpectationPlace) -> MemberOptions {
        let members = at.node.get("all").map_or(&[][..], TreeNode::items);
        let weighed = members.iter().any(|member| member.get("weight").is_some());
        let mut options = MemberOptions { weighed, ..MemberOptions::default() };
        for (key, entry) in at.node.entries() {
            let (value, node) = (&entry.node.value, &entry.node);
            match key {
                "name" | "description" | "rejectionReason" if value.as_str().is_none() => {
                    self.wrong_type(key, "text", node);
                }
                "weight" => {
                    let number =
                        value.as_number().filter(|number| !number.is_negative() && !number.is_zero());
                    options.weight = number.cloned();
                    if number.is_none_or(|number| *number > Number::int(1_000_000_000)) {
                        self.wrong_type(key, "a number above 0, up to 1000000000", node);
                    }
                    self.member_only(key, entry.key_span, stands);
                }
                "must" => {
                    options.must = self.bool(key, node).unwrap_or_default();
                    self.member_only(key, entry.key_span, stands);
                }
                "threshold" => {
                    let one = Number::int(1);
                    let number = value.as_number().filter(|number| !number.is_negative() && **number <= one);
                    options.threshold = number.cloned();
                    if number.is_none() {
                        self.wrong_type(key, "a number from 0 to 1", node);
                    }
                    self.beside_all(key, entry.key_span, at.node);
                }
                "distinct" => {
                    options.distinct = self.bool(key, node).unwrap_or_default();
                    self.beside_all(key, entry.key_span, at.node);
                }
                _ => {}
            }
        }
        options
    }

    fn member_only(&mut self, key: &str, span: Span, stands: ExpectationPlace) {
        if stands != ExpectationPlace::InAll {
            let message = format!("`{key}` says something only of a member of `all`");
            let hint = "put the expectations that are weighed into one `all`, with `threshold` beside it";
            self.problem(Check::OptionNotHere.at(span, message).hint(hint));
        }
    }

    fn beside_all(&mut self, key: &str, span: Span, node: &TreeNode) {
        if node.get("all").is_none() {
            let message = format!("`{key}` says something only beside `all`");
            self.problem(Check::OptionNotHere.at(span, message));
        }
    }

    // ---- logic ------------------------------------------------------------------------------------------

    /// Whether something is a list with members.
    pub(super) fn list(&mut self, key: &str, of: &str, at: &TreeCursor<'_>) -> bool {
        if at.node.value.as_list().is_none() {
            self.wrong_type(key, of, at.node);
            return false;
        }
        if at.node.items().is_empty() {
            let always = if key == "all" { "always" } else { "never" };
            let message = format!("`{key}` without a member would {always} be met");
            self.problem(Check::NoMembers.at(at.node.span, message));
            return false;
        }
        true
    }

    pub(super) fn without_when(&mut self, key: &str, span: Span) {
        let problem = Check::WithoutWhen.at(span, format!("`{key}` without `when`"));
        self.problem(problem.hint("write the condition beside it, as `when`"));
    }

    pub(super) fn asks_nothing(&mut self, span: Span) {
        let problem = Check::WithoutWhen.at(span, "`when` without `then` and without `else` asks nothing");
        self.problem(problem.hint("write `then` beside it: what must be met when the condition is"));
    }

    fn all(
        &mut self,
        at: &TreeCursor<'_>,
        depth: usize,
        span: Span,
        options: &MemberOptions,
        shared: Option<(&mut StepChecks, usize)>,
    ) -> Option<ExpectationLine> {
        if !self.list("all", EXPECTATIONS, at) {
            return None;
        }
        let joint = options.plain();
        let (mut own, mut members) = (StepChecks::default(), Vec::new());
        let alone = shared.is_none();
        let (bound, outer) = match shared {
            Some((bound, position)) => (bound, Some(position)),
            None => (&mut own, None),
        };
        for item in at.items() {
            let mut of_member = StepChecks::default();
            let to = if joint { &mut *bound } else { &mut of_member };
            let first = to.is_empty();
            let Some((nodes, member)) = self.level(&item, depth + 1, ExpectationPlace::InAll, to) else {
                continue;
            };
            if joint && first {
                to.position = Some(outer.unwrap_or(members.len()));
            }
            if item.node.get("must").is_some() && options.threshold.is_none() {
                let message = "`must` says something only where `all` has a `threshold`: without one every member must be met";
                let place = item.node.entry("must").map_or(item.node.span, |entry| entry.key_span);
                self.problem(Check::OptionNotHere.at(place, message));
            }
            let node = if joint { joined(nodes) } else { self.with_step(nodes, of_member) };
            members.extend(node.map(|node| WeightedMember { node: titled(node, item.node), ..member }));
        }
        if alone && let Some((position, step)) = self.step_of(own) {
            let member = WeightedMember { node: step, weight: Number::int(1), must: false };
            members.insert(position.min(members.len()), member);
        }
        let scored = options.weighed || options.threshold.is_some();
        let score = scored.then(|| Score { threshold: options.threshold.clone() });
        let group = MemberGroup { members, score, distinct: options.distinct };
        (!group.members.is_empty()).then(|| node("all", span, LineKind::All(group)))
    }

    fn any(&mut self, at: &TreeCursor<'_>, depth: usize, span: Span) -> Option<ExpectationLine> {
        if !self.list("any", EXPECTATIONS, at) {
            return None;
        }
        let mut members = Vec::new();
        for item in at.items() {
            members.extend(self.below(&item, depth + 1).map(|node| titled(node, item.node)));
        }
        (!members.is_empty()).then(|| node("any", span, LineKind::Any(members)))
    }

    fn not(&mut self, at: &TreeCursor<'_>, depth: usize, span: Span) -> Option<ExpectationLine> {
        if at.node.value.as_list().is_some() {
            let problem = Check::WrongType.at(at.node.span, "`not` takes an expectation, this is a list");
            self.problem(problem.hint("write `not: {any: [...]}` or `not: {all: [...]}`"));
            return None;
        }
        let inner = self.below(at, depth + 1)?;
        self.several_words(&inner, span);
        Some(node("not", span, LineKind::Not(inner.into())))
    }

    /// `not` of several words is met when one is missing, which hardly anybody means.
    fn several_words(&mut self, inner: &ExpectationLine, span: Span) {
        let (of, test) = match &inner.what {
            LineKind::At(_, child) => match &child.what {
                LineKind::Test(test) => (&inner.written, test),
                _ => return,
            },
            _ => return,
        };
        let words = match &test.operand {
            Operand::Fixed(_, value) => value.as_list().map_or(1, <[Value]>::len),
            Operand::Dynamic(_) => 0,
        };
        if test.named.operator.op == Op::ContainsAll && !test.named.negated && words > 1 {
            let message = format!("`not` of `{of}` is met as soon as one of the {words} words is missing");
            let hint = match table::field(of) {
                Some(_) => "to forbid all of them write `shouldNotContain`".to_owned(),
                None => "to forbid all of them write `not-containsAny`".to_owned(),
            };
            self.problem(Check::NotOfSeveral.at(span, message).hint(hint));
        }
    }

    fn when(
        &mut self,
        at: &TreeCursor<'_>,
        condition: &TreeCursor<'_>,
        depth: usize,
        span: Span,
    ) -> Option<ExpectationLine> {
        let branch = |loader: &mut Self, key: &str| {
            let found = at.node.get(key)?;
            Some(loader.below(&at.key(key, found), depth + 1).map(|node| renamed(node, key)))
        };
        let condition = self.below(condition, depth + 1);
        let (then, otherwise) = (branch(self, "then"), branch(self, "else"));
        if then.is_none() && otherwise.is_none() {
            self.asks_nothing(span);
            return None;
        }
        let (then, otherwise) = (then.unwrap_or(None), otherwise.unwrap_or(None));
        Some(node("when", span, LineKind::When(When { condition: condition?, then, otherwise }.into())))
    }

    fn judge(&mut self, at: &TreeCursor<'_>, span: Span) -> Option<ExpectationLine> {
        if at.node.value.as_str().is_none_or(|text| text.trim().is_empty()) {
            self.wrong_type("judge", "a question in words", at.node);
            return None;
        }
        let operand = self.text_operand(at)?;
        Some(node("judge", span, LineKind::Judge(operand)))
    }

    // ---- paths ------------------------------------------------------------------------------------------

    /// A path into the actual document, or a bare fact.
    fn path(
        &mut self,
        key: &str,
        entry: &TreeEntry,
        at: &TreeCursor<'_>,
        depth: usize,
    ) -> Option<ExpectationLine> {
        let span = entry.key_span;
        if self.is_fact(key) {
            self.declared_fact(key, span);
            let check = self.comparison(at, "eq", depth)?;
            return Some(node(key, span, LineKind::At(ActualPath::of(&["facts", key]), check.into())));
        }
        let path = match ActualPath::parse(key) {
            Ok(path) if path.root().is_some_and(|root| table::root(root).is_some()) => path,
            Ok(path) => {
                self.unknown_field(key, path.root().unwrap_or(key), span);
                return self.left_out(key, span);
            }
            Err(why) => {
                let name = key.split(['.', '[']).next().unwrap_or_default();
                if table::root(name).is_none() {
                    self.unknown_field(key, key, span);
                    return self.left_out(key, span);
                }
                let problem = Check::BadPath.at(span, format!("`{key}` is no path: {why}"));
                self.problem(problem.hint("paths are written like `value.a[0]` or `value[\"any key\"]`"));
                return None;
            }
        };
        let root = path.root().unwrap_or_default();
        if let Some(kind) = self.context.kind
            && !kind.roots().any(|known| known == root)
        {
            let known = words::names(kind.roots());
            let problem = Check::UnknownField.at(span, format!("{} has no `{root}`", kind.with_article()));
            self.problem(problem.hint(format!("it has {known}")));
            return None;
        }
        if root == "facts" {
            self.facts_of(&path, &entry.node, span);
        }
        let check = self.comparison(at, "eq", depth)?;
        Some(node(key, span, LineKind::At(path, check.into())))
    }

    /// The facts that `facts.x` or `facts: {x: ...}` reads.
    fn facts_of(&mut self, path: &ActualPath, node: &TreeNode, span: Span) {
        if let Some(name) = path.second() {
            return self.declared_fact(name, span);
        }
        let is_path = |key: &str| table::named(key).is_none() && known(LOGIC, key).is_none();
        for (key, entry) in node.entries().filter(|(key, _)| is_path(key)) {
            let name = ActualPath::parse(key).ok().and_then(|path| path.root().map(EcoString::from));
            self.declared_fact(name.as_deref().unwrap_or(key), entry.key_span);
        }
    }

    /// A fact may stand without `facts.` when it is declared, or when its name begins with `context` as facts of older
    /// files do.
    fn is_fact(&self, key: &str) -> bool {
        let declared = self.facts.iter().flatten().any(|(name, _)| name == key);
        let context = key.strip_prefix("context").and_then(|rest| rest.chars().next());
        (declared && table::root(key).is_none()) || context.is_some_and(char::is_uppercase)
    }

    fn left_out(&mut self, key: &str, span: Span) -> Option<ExpectationLine> {
        let why = format!("not evaluated: `{key}` is not known");
        (self.unknown == super::Unknown::Warn).then(|| node(key, span, LineKind::LeftOut(why.into())))
    }

    fn unknown_field(&mut self, key: &str, root: &str, span: Span) {
        if table::named(key).is_some() {
            let message = format!("`{key}` is an operator: it stands behind a field or a path");
            let problem = Check::UnknownField.at(span, message);
            return self.problem(problem.hint(format!("write `value: {{{key}: ...}}`, or another path")));
        }
        if known(FILE, key).is_some() {
            let message = format!("`{key}` is a key of a file, not of an expectation");
            let hint = "it stands at the top, beside `expectations`";
            return self.unknown(Check::UnknownField.at(span, message).hint(hint));
        }
        if key == "customValidator" {
            let message = "`customValidator` is code of another program, which nobody runs here";
            let hint = "say with `expr` what it tests, or let a step of a scenario run it and compare what that leaves: \
                        `assert: {value: ..., expect: ...}`";
            return self.unknown(Check::UnknownField.at(span, message).hint(hint));
        }
        let facts: Vec<EcoString> = self.facts.iter().flatten().map(|(name, _)| name.clone()).collect();
        let fields = FIELDS.iter().map(|field| field.name);
        let keys = [LOGIC, CHECKS, OPTIONS].into_iter().flatten().map(|key| key.name);
        let names = fields.chain(keys).chain(ROOTS.iter().map(|root| root.name));
        let names = names.chain(facts.iter().map(EcoString::as_str));
        let logic = table::ELSEWHERE.iter().filter(|(_, to)| known(LOGIC, to).is_some());
        let elsewhere = logic.chain(table::OTHER_FIELDS).find(|(name, _)| *name == key);
        let near = elsewhere.map(|(_, to)| *to).or_else(|| nearest(root, names));
        let message = format!("`{key}` is neither a field nor a path into the actual document");
        let problem = Check::UnknownField.at(span, message);
        self.unknown(match near {
            Some(near) if root == key => problem.did_you_mean(near),
            Some(near) => problem.did_you_mean(key.replacen(root, near, 1)),
            None if self.facts.is_some() => {
                problem.hint("a fact is read as `facts.NAME` and declared in `facts`")
            }
            None if key.starts_with('[') => {
                let path = format!("value{key}");
                problem.replace(format!("to look into the actual document write `{path}`"), path)
            }
            None => {
                problem.hint(format!("to look into the actual document write `value.{key}` or `facts.{key}`"))
            }
        });
    }
}

impl MemberOptions {
    /// Whether the members of `all` are just met together; those that are weighed count each on its own.
    fn plain(&self) -> bool {
        self.threshold.is_none() && !self.distinct && !self.weighed
    }
}

pub(super) fn node(written: &str, span: Span, what: LineKind) -> ExpectationLine {
    ExpectationLine { written: written.into(), span, what }
}

/// Several lines as one; nothing when there is none.
fn joined(mut nodes: Vec<ExpectationLine>) -> Option<ExpectationLine> {
    if nodes.len() <= 1 {
        return nodes.pop();
    }
    let written: Vec<&str> = nodes.iter().map(|node| node.written.as_str()).collect();
    let written = written.join(", ");
    let span = nodes.iter().fold(nodes[0].span, |span, node| span.to(node.span));
    Some(node(&written, span, LineKind::Together(nodes)))
}

/// A member that has a name is called so.
fn titled(member: ExpectationLine, source: &TreeNode) -> ExpectationLine {
    match source.get("name").and_then(|name| name.value.as_str()) {
        Some(name) if matches!(member.what, LineKind::Together(_)) => renamed(member, name),
        _ => member,
    }
}

fn renamed(member: ExpectationLine, name: &str) -> ExpectationLine {
    match member.what {
        LineKind::Together(_) => ExpectationLine { written: name.into(), ..member },
        _ => member,
    }
}

/// The test of an operator that is known to be in the table.
pub(super) fn test(named: table::NamedOperator, operand: Operand) -> LineKind {
    LineKind::Test(Test { named, operand })
}
