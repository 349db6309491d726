//! What steps leave, before they have run: the shapes of values, items and exports, found out in the order of the steps.
//!
//! A scope promises a cell for each name; here the cells are filled. What is not filled yet when it is read is not known,
//! so a shape never says more than is true.

use ecow::EcoString;
use threadline_lang::{Document, Error, ErrorKind, Type, Types, Undefined, ValueShape};

use super::check::{Checker, Readable, Reader, Written};
use super::names::{StepShapes, object_of};
use super::order::StepOrder;
use super::{ListNumber, Part, StepNumber};
use crate::fields::field_names;
use crate::fields::outputs::{RESULT_FIELDS, TOOL_CALL_FIELDS};
use crate::model::{Action, CaptureFormat, Field, ForEach, Moment, Shape, Source, Step};

impl Checker<'_> {
    /// Finds out what each step leaves.
    pub(super) fn fill_shapes(&self) {
        self.fill_list(0);
        for (_, list) in &self.plan.run_parts {
            self.fill_list(*list);
        }
        for scope in &self.names.scopes {
            for named in scope.names.values().filter(|named| named.captures.len() > 1) {
                let shapes =
                    named.captures.iter().map(|step| self.names.shapes[*step as usize].captured.get());
                let shared = shapes.cloned().reduce(|all, shape| all.or(&shape));
                named.shared.set(shared.unwrap_or(ValueShape::ANY));
            }
        }
    }

    fn fill_list(&self, list: ListNumber) {
        for step in &self.plan.lists[list as usize].steps {
            self.fill_step(*step);
        }
    }

    fn fill_step(&self, number: StepNumber) {
        let planned = &self.plan.steps[number as usize];
        let step = &planned.step;
        if let (Action::ForEach(each), Some(list)) = (&step.action, self.plan.part(number, Part::Do)) {
            self.names.scopes[self.names.of(list)].item.set(self.item_shape(number, each));
        }
        if let Some(list) = self.plan.part(number, Part::Do) {
            self.fill_list(list);
        }
        if let Action::ForEach(each) = &step.action
            && each.is_map
        {
            self.fill_results(number);
        }
        let shape = self.left_by(number, step);
        let StepShapes { value, captured, .. } = &self.names.shapes[number as usize];
        let of_run = if step.continue_on_error { shape.nullable() } else { shape };
        value.set(if step.when.is_some() { of_run.clone().optional() } else { of_run.clone() });
        captured.set(of_run);
        for (part, list) in &planned.parts {
            if *part != Part::Do {
                self.fill_list(*list);
            }
        }
    }

    /// What a step leaves that has run and gone well.
    fn left_by(&self, number: StepNumber, step: &Step) -> ValueShape {
        let output = step.action.node_type().output();
        match &step.action {
            Action::Shell { .. } | Action::Argv(_) => of_format(step.format),
            Action::Value(document) => self.document_shape(self.reader(number, Moment::Attempt), document),
            Action::Agent { answer: format, .. } => {
                let answer = match format {
                    Some(format) => format.shape().clone(),
                    None => of_format(step.format).nullable(),
                };
                let calls = ValueShape::list_of(object_of(TOOL_CALL_FIELDS.iter()));
                let field = |name: &EcoString, shape: &ValueShape| match name.as_str() {
                    field_names::OUTPUT => answer.clone(),
                    field_names::TOOL_CALLS => calls.clone(),
                    _ => shape.clone(),
                };
                let known = object_of(output.value.iter());
                let fields = known.fields().unwrap_or_default().iter();
                ValueShape::object(fields.map(|(name, shape)| (name.clone(), field(name, shape))).collect())
            }
            Action::Workflow(call) => {
                let callee = self.called.get(&call.path.value).and_then(|callee| callee.plan.as_ref());
                callee.map_or(ValueShape::one(Type::Object), |plan| plan.export_shape.clone())
            }
            Action::Tool(_) if step.format != CaptureFormat::Text => of_format(step.format),
            Action::Tool(call) => {
                let server = self.plan.workflow.servers.iter().find(|server| server.name == call.server);
                let result = server.and_then(|server| server.results.get(&call.tool));
                result.cloned().unwrap_or(ValueShape::ANY)
            }
            Action::ForEach(each) if !each.is_map => ValueShape::list_of(self.item_value(number)),
            Action::Condition(_)
            | Action::Trigger(_)
            | Action::WriteFile(_)
            | Action::Assert(_)
            | Action::Wait(_) => object_of(output.value.iter()),
            _ => ValueShape::of_types(Types::named(output.kind)),
        }
    }

    /// What each item of a list leaves: the value of its last step, or null if it fails.
    fn item_value(&self, number: StepNumber) -> ValueShape {
        let steps = self.plan.part(number, Part::Do).map(|list| &self.plan.lists[list as usize].steps);
        let shape = |step: &StepNumber| self.names.shapes[*step as usize].value.get().clone();
        steps.and_then(|steps| steps.last()).map_or(ValueShape::ANY, shape).nullable().tolerant()
    }

    fn fill_results(&self, number: StepNumber) {
        let item = self.plan.part(number, Part::Do).map(|list| &self.names.scopes[self.names.of(list)].item);
        let known = object_of(RESULT_FIELDS.iter());
        let fields = known.fields().unwrap_or_default().iter().map(|(name, shape)| {
            let shape = match (name.as_str(), item) {
                (field_names::ITEM, Some(item)) => item.get().clone(),
                (field_names::VALUE, _) => self.item_value(number),
                _ => shape.clone(),
            };
            (name.clone(), shape)
        });
        self.names.result.set(ValueShape::list_of(ValueShape::object(fields.collect())));
        let Shape::MapReduce { aggregates } = &self.plan.workflow.shape else { return };
        for ((_, document), cell) in aggregates.iter().zip(&self.names.aggregates) {
            cell.set(self.document_shape(self.reader(number, Moment::End), document));
        }
    }

    /// What is known of an item of a list.
    fn item_shape(&self, number: StepNumber, each: &ForEach) -> ValueShape {
        let Source::Value(document) = &each.source else { return ValueShape::ANY };
        let list = self.document_shape(self.reader(number, Moment::List), document);
        // Text is the name of a file, and a path leads into any value.
        let is_list = list.types.without(Types::NULL) == Types::one(Type::List);
        if !is_list || each.json_path.is_some() {
            return ValueShape::ANY;
        }
        list.element().tolerant()
    }

    /// What is known of a field; nothing where something else may stand in the place of what is missing.
    pub(super) fn document_shape(&self, reader: Reader, document: &Field<Document>) -> ValueShape {
        if document.value.as_fixed().is_none() && self.plan.workflow.undefined != Undefined::Error {
            return ValueShape::ANY;
        }
        let inferred = document.value.infer(&self.scope(reader, true));
        if inferred.errors.is_empty() { inferred.shape } else { ValueShape::ANY }
    }

    /// What is known of the exports.
    pub(super) fn export_shape(&self) -> ValueShape {
        let reader = Reader { step: None, scope: 0, moment: Moment::End, written: Written::Text };
        let exports = self.plan.workflow.exports.iter();
        let fields = exports.map(|(name, document)| (name.clone(), self.document_shape(reader, document)));
        ValueShape::object(fields.collect())
    }

    // ---- what may be null ------------------------------------------------------------------------------

    /// Whether an error says that a value may be null where a condition around has asked for it.
    pub(super) fn is_asked(&self, reader: Reader, error: &Error) -> bool {
        match error.kind() {
            ErrorKind::MayBe { path, kind: Type::Null, .. } => {
                let is_name = |char: char| char.is_alphanumeric() || matches!(char, '_' | '-');
                // The path is an expression: any of its names will do.
                path.split(|char| !is_name(char)).any(|name| self.asks_for(reader, name))
            }
            ErrorKind::Element { cause, .. } => self.is_asked(reader, cause),
            _ => false,
        }
    }

    /// Whether a condition around a reader has asked for what a field reads.
    pub(super) fn asks(&self, reader: Reader, field: Readable<'_>) -> bool {
        field.references().iter().any(|(_, reference)| {
            let first = reference.first.as_deref().unwrap_or_default();
            self.asks_for(reader, &reference.root) || self.asks_for(reader, first)
        })
    }

    /// Whether a condition around a reader reads a name, or is the one that the step of this name runs under.
    fn asks_for(&self, reader: Reader, name: &str) -> bool {
        let Some(step) = reader.step else { return false };
        let made_if = self.names.find(reader.scope, name).and_then(|named| named.id);
        let made_if = made_if.and_then(|id| self.plan.steps[id as usize].step.when.as_ref());
        let around = StepOrder::conditions(self.plan, step, !reader.is_when());
        around.iter().filter_map(|step| self.plan.steps[*step as usize].step.when.as_ref()).any(|when| {
            let same = made_if.is_some_and(|made| made.value.source().trim() == when.value.source().trim());
            same || when.value.references().iter().any(|reference| {
                let is_table = matches!(reference.root.as_str(), "inputs" | "context" | "captured" | "nodes");
                if is_table { reference.first.as_deref() == Some(name) } else { reference.root == name }
            })
        })
    }
}

/// What a program prints, as the format reads it.
fn of_format(format: CaptureFormat) -> ValueShape {
    match format {
        CaptureFormat::Text => ValueShape::one(Type::Text),
        CaptureFormat::Json => ValueShape::ANY,
        CaptureFormat::Lines => ValueShape::list_of(ValueShape::one(Type::Text)),
        CaptureFormat::Number => ValueShape::of_types(Types::NUMBER),
        CaptureFormat::Boolean => ValueShape::one(Type::Bool),
    }
}
