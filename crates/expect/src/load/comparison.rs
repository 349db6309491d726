//! What stands behind a path or a field: a value, operators, logic about one value, or paths further in.

use std::cmp::Ordering;

use ecow::EcoString;
use threadline_lang::diag::{Span, nearest, words};
use threadline_lang::source::TreeEntry;

use super::expectation::{node, test};
use super::{ExpectationLoader, TreeCursor, known};
use crate::checks::Check;
use crate::model::{
    ExpectationLine, InnerCheck, InnerKind, LineKind, MemberGroup, Operand, Test, WeightedMember, When,
};
use crate::operand::PreparedOperand;
use crate::path::ActualPath;
use crate::quantity::Quantity;
use crate::table::{self, ELSEWHERE, LOGIC, NamedOperator, Op, Takes};

impl ExpectationLoader<'_> {
    /// A check of one value. A bare value stands for equality, called `written`.
    pub(super) fn comparison(
        &mut self,
        at: &TreeCursor<'_>,
        written: &str,
        depth: usize,
    ) -> Option<ExpectationLine> {
        if at.node.value.as_object().is_none() {
            let named = table::named("eq")?;
            let operand = self.operand(named, at)?;
            return Some(node(written, at.node.span, test(named, operand)));
        }
        let entries: Vec<(&str, &TreeEntry)> = at.node.entries().collect();
        let is_operator = |key: &str| table::named(key).is_some() || known(LOGIC, key).is_some();
        let operators = entries.iter().filter(|(key, _)| is_operator(key)).count();
        match operators {
            _ if entries.is_empty() => {
                let problem = Check::NotAnExpectation.at(at.node.span, "an empty object checks nothing");
                self.problem(problem.hint("for an object without keys write `eq: {}` or `empty: true`"));
                None
            }
            0 => self.paths(at, &entries, depth),
            count if count == entries.len() => self.operators(at, &entries, depth),
            _ => {
                let (operators, others): (Vec<_>, Vec<_>) =
                    entries.into_iter().partition(|(key, _)| is_operator(key));
                let mut nodes = Vec::new();
                for (key, entry) in others {
                    self.mixed(key, entry.key_span, at, operators[0].0);
                    nodes.extend(self.left_out_operator(key, entry.key_span));
                }
                nodes.extend(self.operators(at, &operators, depth));
                together(nodes, at.node.span)
            }
        }
    }

    /// Keys that are no operators lead further into the value.
    fn paths(
        &mut self,
        at: &TreeCursor<'_>,
        entries: &[(&str, &TreeEntry)],
        depth: usize,
    ) -> Option<ExpectationLine> {
        let mut nodes = Vec::new();
        for (key, entry) in entries {
            if let Some(meant) = meant(key) {
                let problem = Check::UnknownOperator.at(entry.key_span, format!("`{key}` is no operator"));
                self.unknown(match last_path(at, key) {
                    Some(path) => {
                        let hint = words::did_you_mean(&meant);
                        let hint = format!("{hint}; for a field of that name write `{path}` as one path");
                        problem.replace(hint, meant)
                    }
                    None => problem.did_you_mean(meant),
                });
                nodes.extend(self.left_out_operator(key, entry.key_span));
                continue;
            }
            let path = match ActualPath::parse(key) {
                Ok(path) => path,
                Err(_) => ActualPath::of(&[key]),
            };
            if let Some(check) = self.comparison(&at.key(key, &entry.node), "eq", depth) {
                nodes.push(node(key, entry.key_span, LineKind::At(path, check.into())));
            }
        }
        together(nodes, at.node.span)
    }

    pub(super) fn left_out_operator(&mut self, key: &str, span: Span) -> Option<ExpectationLine> {
        let why: EcoString = format!("not evaluated: `{key}` is not known").into();
        (self.unknown == super::Unknown::Warn).then(|| node(key, span, LineKind::LeftOut(why)))
    }

    /// Operators and other keys side by side.
    fn mixed(&mut self, key: &str, span: Span, at: &TreeCursor<'_>, operator: &str) {
        let names: Vec<String> = table::operator_names().collect();
        let near = meant(key).or_else(|| nearest(key, names.iter().map(String::as_str)).map(str::to_owned));
        if let Some(near) = near {
            let problem = Check::UnknownOperator.at(span, format!("`{key}` is no operator"));
            return self.unknown(problem.did_you_mean(near));
        }
        let message = format!("`{key}` is no operator, but stands beside `{operator}`, which is one");
        let hint = match last_path(at, key) {
            Some(path) => format!("to look into the value write `{path}` as a path of its own"),
            None => format!("to look into the value write `all: [{{{operator}: ...}}, {{{key}: ...}}]`"),
        };
        self.problem(Check::MixedKeys.at(span, message).hint(hint));
    }

    fn operators(
        &mut self,
        at: &TreeCursor<'_>,
        entries: &[(&str, &TreeEntry)],
        depth: usize,
    ) -> Option<ExpectationLine> {
        let mut nodes = Vec::new();
        for (key, entry) in entries {
            let child = at.key(key, &entry.node);
            let found = match table::named(key) {
                Some(named) => self.operator(key, named, &child, entry.key_span, depth),
                None => self.logic(key, at, &child, entry.key_span, depth),
            };
            nodes.extend(found);
        }
        self.bounds(&nodes);
        together(nodes, at.node.span)
    }

    fn operator(
        &mut self,
        key: &str,
        named: NamedOperator,
        at: &TreeCursor<'_>,
        span: Span,
        depth: usize,
    ) -> Option<ExpectationLine> {
        let kind = match named.operator.op {
            Op::Each => InnerKind::Each,
            Op::Some => InnerKind::Some,
            Op::Length => InnerKind::Length,
            Op::AtLeast => return self.at_least(key, named, at, span, depth),
            _ => {
                let operand = self.operand(named, at)?;
                return Some(node(key, span, test(named, operand)));
            }
        };
        let check = self.comparison(at, "eq", depth)?.into();
        Some(node(key, span, LineKind::Inner(InnerCheck { kind, negated: named.negated, check })))
    }

    fn at_least(
        &mut self,
        key: &str,
        named: NamedOperator,
        at: &TreeCursor<'_>,
        span: Span,
        depth: usize,
    ) -> Option<ExpectationLine> {
        let (Some(count), Some(of)) = (at.node.get("count"), at.node.get("of")) else {
            self.wrong_type(key, Takes::Count.expected(), at.node);
            return None;
        };
        let unknown: Vec<_> = at.node.entries().filter(|(key, _)| !matches!(*key, "count" | "of")).collect();
        for (other, entry) in unknown {
            let problem =
                Check::UnknownOperator.at(entry.key_span, format!("`atLeast` has no key `{other}`"));
            self.problem(problem.hint("write `atLeast: {count: 2, of: ...}`"));
        }
        let wanted =
            count.value.as_i64().and_then(|count| u64::try_from(count).ok()).filter(|count| *count > 0);
        if wanted.is_none() {
            self.wrong_type("count", "a whole number from 1 on", count);
        }
        let check = self.comparison(&at.key("of", of), "eq", depth)?.into();
        let kind = InnerKind::AtLeast(wanted?);
        Some(node(key, span, LineKind::Inner(InnerCheck { kind, negated: named.negated, check })))
    }

    /// Logic about one value: its members are checks of the value, not expectations.
    fn logic(
        &mut self,
        key: &str,
        whole: &TreeCursor<'_>,
        at: &TreeCursor<'_>,
        span: Span,
        depth: usize,
    ) -> Option<ExpectationLine> {
        if depth + 1 > self.depth {
            let message = format!("logic is nested {} deep; {} is the most", depth + 1, self.depth);
            self.problem(Check::TooDeep.at(at.node.span, message).hint("raise `depth` of the file"));
            return None;
        }
        let depth = depth + 1;
        match key {
            "all" | "any" => {
                if !self.list(key, "a list of checks", at) {
                    return None;
                }
                let members: Vec<ExpectationLine> =
                    at.items().filter_map(|item| self.comparison(&item, "eq", depth)).collect();
                if key == "any" {
                    return Some(node(key, span, LineKind::Any(members)));
                }
                let weight = threadline_lang::Number::int(1);
                let member = |node| WeightedMember { node, weight: weight.clone(), must: false };
                let members = members.into_iter().map(member).collect();
                Some(node(key, span, LineKind::All(MemberGroup { members, score: None, distinct: false })))
            }
            "not" => {
                let inner = self.comparison(at, "eq", depth)?;
                Some(node(key, span, LineKind::Not(inner.into())))
            }
            "when" => {
                let condition = self.comparison(at, "eq", depth);
                let branch = |loader: &mut Self, key: &str| {
                    let found = whole.node.get(key)?;
                    loader.comparison(&whole.key(key, found), "eq", depth)
                };
                let (then, otherwise) = (branch(self, "then"), branch(self, "else"));
                if whole.node.get("then").is_none() && whole.node.get("else").is_none() {
                    self.asks_nothing(span);
                    return None;
                }
                Some(node(key, span, LineKind::When(When { condition: condition?, then, otherwise }.into())))
            }
            _ if whole.node.get("when").is_none() => {
                self.without_when(key, span);
                self.comparison(at, "eq", depth).and(None)
            }
            _ => None,
        }
    }

    /// A lower bound above an upper one: nothing meets both.
    fn bounds(&mut self, nodes: &[ExpectationLine]) {
        let bound = |lower: bool| {
            nodes.iter().filter_map(move |node| {
                let LineKind::Test(Test { named, operand: Operand::Fixed(prepared, _) }) = &node.what else {
                    return None;
                };
                let PreparedOperand::Number(number) = &**prepared else { return None };
                let is_lower = matches!(named.operator.op, Op::Gt | Op::Gte);
                (is_lower == lower && !named.negated).then_some((node, number, named.operator.op))
            })
        };
        let mut found = Vec::new();
        for (low, low_number, low_op) in bound(true) {
            for (high, high_number, high_op) in bound(false) {
                let strict = low_op == Op::Gt || high_op == Op::Lt;
                let why = match Quantity::order(low_number, high_number) {
                    Err(_) => "the units differ",
                    Ok(Ordering::Greater) => "no number is both",
                    Ok(Ordering::Equal) if strict => "no number is both",
                    Ok(_) => continue,
                };
                let at = if high.span > low.span { high.span } else { low.span };
                found.push(
                    Check::EmptyRange.at(
                        at,
                        format!("`{}` and `{}` cannot both be met: {why}", low.written, high.written),
                    ),
                );
            }
        }
        for problem in found {
            self.problem(problem);
        }
    }
}

/// The operator that a key behind a parameter was meant to be.
pub(super) fn meant_behind_parameter(key: &str) -> Option<String> {
    let bounds =
        [("min", "gte"), ("minimum", "gte"), ("max", "lte"), ("maximum", "lte"), ("like", "iContains")];
    let bound = bounds.iter().find(|(name, _)| *name == key).map(|(_, ours)| (*ours).to_owned());
    bound.or_else(|| meant(key))
}

/// The operator that a key was meant to be, when it is surely none of the value's own.
fn meant(key: &str) -> Option<String> {
    if let Some((_, to)) =
        ELSEWHERE.iter().find(|(name, _)| *name == key || key.strip_prefix('$') == Some(name))
    {
        return Some((*to).to_owned());
    }
    if let Some(name) = key.strip_prefix('$').filter(|name| table::named(name).is_some()) {
        return Some(name.to_owned());
    }
    // `notContains` for `not-contains`, `not_contains`; `not-equals` for `not-eq`.
    let rest = key.strip_prefix("not").map(|rest| rest.trim_start_matches(['_', '-', ' ']));
    if let Some(rest) = rest.filter(|rest| !rest.is_empty()) {
        let mut chars = rest.chars();
        let first = chars.next().map(|first| first.to_ascii_lowercase());
        let name: String = first.into_iter().chain(chars).collect();
        let elsewhere = ELSEWHERE.iter().find(|(other, to)| *other == name && table::named(to).is_some());
        let name = elsewhere.map_or(name, |(_, to)| (*to).to_owned());
        if table::named(&name).is_some() {
            return Some(format!("not-{name}"));
        }
    }
    let names: Vec<String> = table::operator_names().collect();
    let same =
        |name: &&String| name.eq_ignore_ascii_case(key) || name.eq_ignore_ascii_case(&key.replace('_', ""));
    if let Some(name) = names.iter().find(same) {
        return Some(name.clone());
    }
    // One letter too many, too few or wrong; short names are too easily another word.
    (key.len() > 3)
        .then(|| nearest(key, names.iter().map(String::as_str)))?
        .map(str::to_owned)
        .filter(|near| near.len().abs_diff(key.len()) <= 1 && key.is_ascii())
}

/// The last keys of a path, as one path. What is behind a field has none.
fn last_path(at: &TreeCursor<'_>, key: &str) -> Option<String> {
    let in_quotes = at.path.strip_suffix("\"]").and_then(|path| path.rsplit_once("[\""));
    let before = match in_quotes {
        Some((_, name)) => name,
        None => at.path.rsplit(['.', ']']).next().filter(|name| !name.is_empty()).unwrap_or("value"),
    };
    if table::field(before).is_some() {
        return None;
    }
    let mut path = before.to_owned();
    threadline_lang::push_key(&mut path, key);
    Some(path)
}

fn together(mut nodes: Vec<ExpectationLine>, span: Span) -> Option<ExpectationLine> {
    match nodes.len() {
        0 => None,
        1 => nodes.pop(),
        _ => Some(node("", span, LineKind::Together(nodes))),
    }
}
