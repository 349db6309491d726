//! Checks items and phases: what the fields that select items may read, and which results each phase can
//! read.

use threadline_lang::Reference;
use threadline_lang::diag::{Span, words};

use super::check::{Checker, Makers, Readable, Reader};
use super::{Part, Read, StepNumber};
use crate::checks::Check;
use crate::model::{Filter, ForEach, Phase, Shape};

/// The field of the map that its own items may read.
const READABLE_BY_ITEMS: &str = "total";

impl Checker<'_> {
    /// Checks `filter`, `sort_by` and `distinct`, which read the item and everything that the step may read.
    pub(super) fn elements(
        &mut self,
        reader: Reader,
        number: StepNumber,
        each: &ForEach,
        reads: &mut Vec<Read>,
    ) {
        let Some(list) = self.plan.part(number, Part::Do) else { return };
        let inner = Reader { scope: self.names.of(list), ..reader };
        let mut of_elements = Vec::new();
        self.of_elements = true;
        if let Some(Filter::Condition(filter)) = &each.filter {
            self.field(inner, Readable::Condition(filter), &mut of_elements);
        }
        let keys = each.sort_by.iter().map(|key| &key.by).chain(&each.distinct);
        for key in keys {
            self.field(inner, Readable::Expression(key), &mut of_elements);
        }
        self.of_elements = false;
        reads.extend(of_elements.into_iter().filter(|read| *read != Read::Item));
    }

    /// Checks the variables and exports of a phase, which read the results of its steps.
    pub(super) fn phase(&mut self, number: StepNumber, phase: &Phase, reads: &mut Vec<Read>) {
        let list = self.plan.part(number, Part::Do);
        let scope = list.map_or(0, |list| self.names.of(list));
        let reader = Reader { step: Some(number), scope, is_when: false, judges: None };
        for (_, value) in &phase.variables {
            self.field(reader, Readable::Value(value), reads);
        }
        for name in &phase.exports {
            let names = &self.names.scopes[scope].names;
            if scope == 0 || !names.contains_key(&name.value) {
                let key = phase.kind.key();
                let message = format!("no step of `{key}` defines `{}`", name.value);
                let hint = words::suggest(&name.value, names.keys().map(ecow::EcoString::as_str));
                let hint = hint.filter(|_| scope != 0);
                let problem = Check::UnknownExport.at(name.origin.span, message);
                self.problem(
                    problem.hint(hint.as_deref().unwrap_or("add an `id` or `capture: NAME` to the step")),
                );
            }
        }
    }

    /// Checks `aggregates`, which are evaluated after the map.
    pub(super) fn aggregates(&mut self, number: StepNumber, reads: &mut Vec<Read>) {
        let workflow = std::sync::Arc::clone(&self.plan.workflow);
        let Shape::MapReduce { aggregates } = &workflow.shape else { return };
        let reader = Reader { step: Some(number), scope: 0, is_when: false, judges: None };
        for (_, value) in aggregates {
            self.field(reader, Readable::Value(value), reads);
        }
    }

    /// Checks a reference to the results of a phase. Returns whether a problem was reported.
    pub(super) fn reads_phase(
        &mut self,
        reader: Reader,
        span: Span,
        root: &str,
        reference: &Reference,
        reads: &mut Vec<Read>,
    ) -> bool {
        if root == "merge" {
            let message = "`merge` is the last phase, so its results cannot be read";
            self.problem(
                Check::NotKnownHere.at(span, message).hint("read the branch of the items as `${map.branch}`"),
            );
            return true;
        }
        let is_map = matches!(root, "map" | "aggregates");
        reads.push(if is_map { Read::Map } else { Read::Phase(root.into()) });
        let name = if is_map { "map" } else { root };
        let position = self.plan.lists[0].position(name);
        let makes_none = root == "aggregates" && !self.has_aggregates();
        let Some(position) = position.filter(|_| !makes_none) else {
            let message = format!("this file has no `{root}`");
            self.problem(Check::NotKnownHere.at(span, message));
            return true;
        };
        let maker = self.plan.lists[0].steps[position];
        let first = reference.first.as_deref();
        // The fields that select the items are evaluated before there are any.
        let in_item = self.inside(reader, maker) && reader.step != Some(maker);
        if root == "map" && first == Some(READABLE_BY_ITEMS) && in_item {
            return false;
        }
        // `aggregates` belong to the map and read its results.
        if root == "map" && reader.step == Some(maker) && self.of_aggregates {
            return false;
        }
        if self.inside(reader, maker) || self.before_phase(reader, position) {
            let path = &reference.path;
            let (what, known) = match (root, first) {
                ("setup", _) => ("after `setup`", "in `map`, `reduce`, `merge` and `exports`"),
                ("reduce", _) => ("after `reduce`", "in `merge` and `exports`"),
                ("aggregates", _) => ("after `map`", "in `reduce`, `merge` and `exports`"),
                (_, Some(READABLE_BY_ITEMS)) => {
                    ("once the items are selected", "in the steps of `map`, and after them")
                }
                _ => ("after `map`", "in `reduce`, `merge`, `aggregates` and `exports`"),
            };
            let problem = Check::NotKnownHere.at(span, format!("`{path}` is available {what}: {known}"));
            self.problem(if root == "map" && first.is_some() && in_item {
                problem.note("the items can only read `map.total` of the map")
            } else {
                problem
            });
            return true;
        }
        let makers = Makers { is_id: false, steps: vec![maker] };
        self.set_before(reader, span, &root.into(), &makers, reference)
    }

    /// Whether a reader runs after the map.
    pub(super) fn knows_results(&self, reader: Reader) -> bool {
        let Some(position) = self.plan.lists[0].position("map") else { return false };
        let maker = self.plan.lists[0].steps[position];
        self.of_aggregates || !self.inside(reader, maker) && !self.before_phase(reader, position)
    }

    /// Whether the file has `aggregates`.
    fn has_aggregates(&self) -> bool {
        matches!(&self.plan.workflow.shape, Shape::MapReduce { aggregates } if !aggregates.is_empty())
    }

    /// Whether a reader is a phase or inside it.
    fn inside(&self, reader: Reader, phase: StepNumber) -> bool {
        let mut step = reader.step;
        while let Some(number) = step {
            if number == phase {
                return true;
            }
            step = self.plan.lists[self.plan.steps[number as usize].list as usize]
                .parent
                .map(|(owner, _)| owner);
        }
        false
    }

    /// Whether a reader is in an earlier phase.
    fn before_phase(&self, reader: Reader, position: usize) -> bool {
        self.plan.lists[0].steps[..position].iter().any(|phase| self.inside(reader, *phase))
    }
}
