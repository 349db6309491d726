//! Checks items and phases: what the fields that select items may read, and which results each phase can
//! read.

use threadline_lang::Reference;
use threadline_lang::diag::{Span, nearest};

use super::check::{Checker, Makers, Reader};
use super::{Part, Read, StepNumber};
use crate::checks::Check;
use crate::model::{Moment, Phase, Shape};

/// The field of the map that its own items may read.
const READABLE_BY_ITEMS: &str = "total";

impl Checker<'_> {
    /// The names that a phase exports are names of its steps.
    pub(super) fn phase_exports(&mut self, number: StepNumber, phase: &Phase) {
        let scope = self.plan.part(number, Part::Do).map_or(0, |list| self.names.of(list));
        for name in &phase.exports {
            let names = &self.names.scopes[scope].names;
            if scope == 0 || !names.contains_key(&name.value) {
                let key = phase.kind.key();
                let message = format!("no step of `{key}` defines `{}`", name.value);
                let near = nearest(&name.value, names.keys().map(ecow::EcoString::as_str));
                let problem = Check::UnknownExport.at(name.origin.span, message);
                let problem = match near.filter(|_| scope != 0) {
                    Some(near) => problem.did_you_mean(near),
                    None => problem.hint("add an `id` or `capture: NAME` to the step"),
                };
                self.problem(problem);
            }
        }
    }

    /// What a phase left. Whether a problem was reported that the language would report again.
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
        // At its end the map reads its own results.
        if root == "map" && reader.step == Some(maker) && reader.moment == Moment::End {
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
        reader.moment == Moment::End && reader.step == Some(maker)
            || !self.inside(reader, maker) && !self.before_phase(reader, position)
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
