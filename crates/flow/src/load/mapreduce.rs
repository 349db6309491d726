//! Reads maps: the source of the items, how they are selected, and the steps before, for and after them.

use std::sync::Arc;

use ecow::EcoString;
use threadline_expect::Expectations;
use threadline_lang::diag::Span;
use threadline_lang::{Document, Expression, Template};

use super::StepList;
use super::read::{LocatedNode, ObjectFields, WorkflowLoader, head, shown, span_of};
use crate::checks::Check;
use crate::fields::{ActionName, CAPTURED_OUTPUT, ERROR_POLICY, MAP, PHASE, SOURCE, STEP};
use crate::forms;
use crate::json_path::JsonPath;
use crate::model::{
    Action, Field, Filter, ForEach, ItemPool, OnItemFailure, Phase, PhaseKind, Policy, Setting, Shape,
    SortKey, Source, SourceFormat, Step,
};
use crate::problem::{self, Problem};

/// The keys that make a file a map-reduce.
pub(super) const KEYS: [&str; 7] = ["mode", "setup", "map", "reduce", "merge", "aggregates", "error_policy"];

impl WorkflowLoader {
    /// Reads the phases of a map-reduce, each as a step.
    pub(super) fn read_phases(&mut self, fields: &ObjectFields<'_>) -> StepList {
        let mut steps = Vec::new();
        // There is only one mode, so its value is not needed; any other word is reported.
        let _ = self.read_choice(fields, "mode");
        steps.extend(self.read_phase(fields, PhaseKind::Setup));
        if let Some(place) = fields.get("map") {
            steps.extend(self.read_map_phase(fields, &place));
        } else if !fields.misspelt("map") {
            let message = "a map-reduce needs `map`: the source of its items, and the steps for each";
            self.report(Check::MissingKey.at(head(fields.place.node), message));
        }
        steps.extend(self.read_phase(fields, PhaseKind::Reduce));
        steps.extend(self.read_phase(fields, PhaseKind::Merge));
        steps
    }

    /// Reads the aggregates of the results.
    pub(super) fn read_map_reduce(&mut self, fields: &ObjectFields<'_>) -> Shape {
        let mut aggregates = Vec::new();
        if let Some(place) = self.read_map(fields, "aggregates") {
            for (name, entry, at) in place.entries() {
                if self.check_name(name, entry.key_span)
                    && let Some(document) = self.read_document(&at)
                {
                    aggregates.push((name.into(), document));
                }
            }
        }
        Shape::MapReduce { aggregates }
    }

    // ---- phases ----------------------------------------------------------------------------------------

    fn read_phase(&mut self, fields: &ObjectFields<'_>, kind: PhaseKind) -> Option<Arc<Step>> {
        let key = kind.key();
        let place = fields.get(key)?;
        // A single step in place of a list has the key of an action.
        let is_phase = !place.node.entries().any(|(key, _)| is_action(key));
        let mut phase =
            Phase { kind, steps: Vec::new(), variables: Vec::new(), exports: Vec::new(), timeout: None };
        if place.node.value.as_object().is_some() && is_phase {
            let inner = self.read_fields(place.clone(), &PHASE)?;
            phase.steps = self.read_steps_of(&inner, "steps");
            phase.timeout = self.read_fixed_duration(&inner, "timeout");
            phase.variables = self.read_phase_variables(&inner);
            phase.exports = self.read_phase_exports(&inner);
            self.read_capture_outputs(&inner, &mut phase.steps);
        } else {
            phase.steps = self.read_steps(&place, key);
        }
        Some(Arc::new(self.phase_step(&place, key, Action::Phase(phase))))
    }

    fn read_phase_variables(&mut self, fields: &ObjectFields<'_>) -> Vec<(EcoString, Field<Document>)> {
        let Some(place) = self.read_map(fields, "variables") else { return Vec::new() };
        let mut variables = Vec::new();
        for (name, entry, at) in place.entries() {
            if self.check_name(name, entry.key_span)
                && let Some(document) = self.read_document(&at)
            {
                variables.push((name.into(), document));
            }
        }
        variables
    }

    fn read_phase_exports(&mut self, fields: &ObjectFields<'_>) -> Vec<Field<EcoString>> {
        let Some(place) = fields.get("exports") else { return Vec::new() };
        if self.check_list(&place, "exports").is_none() {
            return Vec::new();
        }
        let names: Vec<_> =
            place.items().map(|item| Some(item.field(self.read_scalar_text(&item, "exports")?))).collect();
        names.into_iter().flatten().collect()
    }

    /// Reads `capture_outputs: {NAME: 0}`, which names the output of the first step.
    fn read_capture_outputs(&mut self, fields: &ObjectFields<'_>, steps: &mut [Arc<Step>]) {
        let Some(place) = self.read_map(fields, "capture_outputs") else { return };
        for (name, entry, at) in place.entries() {
            if !self.check_name(name, entry.key_span) {
                continue;
            }
            let (node, format) = if at.node.value.as_object().is_some() {
                let Some(inner) = self.read_fields(at.clone(), &CAPTURED_OUTPUT) else { continue };
                if inner.found("command_index").is_none() {
                    continue;
                }
                let format = inner.found("format").map(|_| self.read_capture_format_of(&inner, "format"));
                self.read_choice(&inner, "source");
                (inner.get("command_index").map(|index| index.node), format)
            } else {
                (Some(at.node), None)
            };
            let index = node.and_then(|node| usize::try_from(node.value.as_i64()?).ok());
            let count = steps.len();
            let step = index.and_then(|index| steps.get_mut(index)).and_then(Arc::get_mut);
            let Some(step) = step else {
                let message =
                    format!("`{name}` takes the number of a step between 0 and {}", count.max(1) - 1);
                self.report(Check::WrongType.at(span_of(node.unwrap_or(at.node)), message));
                continue;
            };
            if let Some(known) = step.capture.as_ref().filter(|known| known.value != name) {
                let message = format!("the output of this step is already captured as `{}`", known.value);
                let hint = "remove one of the names";
                self.report(Check::ConflictingKeys.at(entry.key_span, message).hint(hint));
                continue;
            }
            let mut field = at.field(EcoString::from(name));
            field.origin.span = entry.key_span;
            step.capture = Some(field);
            step.format = format.unwrap_or(step.format);
        }
    }

    // ---- the map ---------------------------------------------------------------------------------------

    fn read_map_phase(&mut self, workflow: &ObjectFields<'_>, place: &LocatedNode<'_>) -> Option<Arc<Step>> {
        let fields = self.read_fields(place.clone(), &MAP)?;
        let source = fields.get("input").and_then(|input| self.read_source(&input, "input", true));
        let steps = match fields.get("steps") {
            // Older files have `agent_template: {commands: [...]}`.
            Some(template) if template.node.get("commands").is_some() => {
                let inner = self.read_fields(template, &PHASE);
                for other in
                    inner.iter().flat_map(ObjectFields::all).filter(|found| found.key.name != "steps")
                {
                    let message = format!("`{}` does not apply to the steps of `map`", other.written);
                    self.report(Check::KeyNotHere.at(other.entry.key_span, message));
                }
                inner.map_or_else(Vec::new, |inner| self.read_steps_of(&inner, "steps"))
            }
            Some(template) => self.read_steps(&template, "steps"),
            None => {
                if !fields.misspelt("steps") {
                    let message = "`map` needs `steps`: the steps for each item";
                    self.report(Check::MissingKey.at(head(fields.place.node), message));
                }
                Vec::new()
            }
        };
        if fields.found("input").is_none() && !fields.misspelt("input") {
            let message = "`map` needs `input`: the source of its items";
            self.report(Check::MissingKey.at(head(fields.place.node), message));
        }
        let mut policy = self.read_policy(workflow);
        policy.timeout = self.read_time_limit(&fields, "timeout");
        policy.retry = self.read_retry_of(&fields, &MAP);
        let worktree = self.read_bool(&fields, "worktree");
        let each = self.read_selection(&fields, source?, "max_parallel");
        let each = ForEach { steps, policy, worktree, is_map: true, ..each };
        let is_alone = each.parallel.as_ref().and_then(Setting::known) == Some(1);
        if !worktree && !is_alone && fields.found("worktree").is_none() {
            self.warn_of_commits(&each.steps);
        }
        let (budget, labels) = (self.read_budget(&fields), self.read_labels(&fields));
        let step = self.phase_step(place, "map", Action::ForEach(Box::new(each)));
        Some(Arc::new(Step { budget, labels, ..step }))
    }

    /// Warns of steps that commit in a folder in which other items work at the same time.
    fn warn_of_commits(&mut self, steps: &[Arc<Step>]) {
        for step in steps {
            let Action::Shell { text, .. } = &step.action else { continue };
            if ["git commit", "git add"].iter().any(|command| text.value.contains(command)) {
                let message =
                    "items that run at once share one folder, so a commit of one holds what others wrote";
                let hint = "write `worktree: true` under `map:`, so that each item has a folder and a branch of its own";
                self.report(Check::SharedFolder.at(text.origin.span, message).hint(hint));
                return;
            }
        }
    }

    /// Reads how items are selected, and how many are processed at once. The caller adds the steps.
    pub(super) fn read_selection(
        &mut self,
        fields: &ObjectFields<'_>,
        source: Source,
        parallel: &str,
    ) -> ForEach {
        ForEach {
            source,
            json_path: self.read_json_path(fields),
            filter: self.read_filter(fields),
            named: None,
            sort_by: self.read_sort_by(fields),
            distinct: self.read_expression(fields, "distinct"),
            offset: self.read_count(fields, "offset"),
            max_items: self.read_count(fields, "max_items"),
            parallel: self.read_count(fields, parallel),
            pool: ItemPool::Own,
            steps: Vec::new(),
            policy: Policy {
                retry: None,
                timeout: None,
                on_item_failure: OnItemFailure::Stop,
                continue_on_failure: false,
                max_failures: None,
                failure_threshold: None,
            },
            worktree: false,
            is_map: false,
        }
    }

    /// Reads the source of items. For a map, a text is the path of a file.
    pub(super) fn read_source(
        &mut self,
        place: &LocatedNode<'_>,
        name: &str,
        is_map: bool,
    ) -> Option<Source> {
        let value = &place.node.value;
        if value.as_object().is_some() {
            let fields = self.read_fields(place.clone(), &SOURCE)?;
            let format = self.read_choice(&fields, "format").and_then(|format| match format {
                "json" => Some(SourceFormat::Json),
                "jsonl" => Some(SourceFormat::JsonLines),
                "lines" => Some(SourceFormat::Lines),
                "csv" => Some(SourceFormat::Csv),
                _ => None,
            });
            let (file, files, shell) = (fields.get("file"), fields.get("files"), fields.get("shell"));
            return match (file, files, shell) {
                (Some(file), None, None) => {
                    Some(Source::File { path: self.read_template(&file, "file")?, format })
                }
                (None, Some(files), None) => {
                    if let Some(format) = fields.found("format") {
                        let message = "`format` does not apply to `files`: each file is read by its name";
                        self.report(Check::KeyNotHere.at(format.entry.key_span, message));
                    }
                    Some(Source::Files(self.read_template(&files, "files")?))
                }
                (None, None, Some(shell)) => {
                    let text = self.read_scalar_text(&shell, "shell")?;
                    Some(Source::Shell { text: shell.field(text), format })
                }
                (file, files, _) => {
                    let message = format!("`{name}` takes either `file`, `files` or `shell`");
                    let first = file.or(files);
                    let span = first.map_or(head(place.node), |first| span_of(first.node));
                    self.report(Check::MissingKey.at(span, message));
                    None
                }
            };
        }
        let before = self.problems.len();
        let document = self.read_document(place)?;
        // Of a text with a mistake in it only the mistake is told.
        if self.problems.len() == before
            && let Some(fixed) = document.value.as_fixed()
            && fixed.as_list().is_none()
        {
            if let (Some(path), true) = (fixed.as_str(), is_map) {
                let template = Template::parse_all(path, &self.syntax).0;
                return Some(Source::File { path: place.field(template), format: None });
            }
            self.report_not_a_list(place, name);
        }
        Some(Source::Value(document))
    }

    fn report_not_a_list(&mut self, place: &LocatedNode<'_>, name: &str) {
        let value = &place.node.value;
        let message = format!("`{name}` takes a list, not {}", shown(value));
        let problem = Check::WrongType.at(span_of(place.node), message);
        self.report(match value.as_str() {
            Some(text) => problem.hint(format!(
                "what a command prints, line by line: `{name}: {{shell: {text}}}`; what stands in a file: \
                 `{name}: {{file: {text}}}`"
            )),
            None => problem,
        });
    }

    fn read_json_path(&mut self, fields: &ObjectFields<'_>) -> Option<Field<JsonPath>> {
        let place = fields.get("json_path")?;
        let text = self.read_scalar_text(&place, "json_path")?;
        match JsonPath::parse(&text) {
            Ok(path) => Some(place.field(path)),
            Err(error) => {
                let at = self.place_inside(&place.origin(), error.offset.min(text.len()), 1);
                let problem = Check::BadJsonPath.at(at.span, format!("`json_path`: {}", error.message));
                self.report(error.hint.into_iter().fold(problem, Problem::hint));
                None
            }
        }
    }

    /// Reads a condition or an expectation.
    fn read_filter(&mut self, fields: &ObjectFields<'_>) -> Option<Filter> {
        let place = fields.get("filter")?;
        if matches!(place.node.value.kind(), threadline_lang::Type::Object | threadline_lang::Type::List) {
            let context = threadline_expect::LoadContext {
                kind: Some(threadline_expect::DocumentKind::Plain),
                syntax: &self.syntax,
                ..threadline_expect::LoadContext::DEFAULT
            };
            let (expectations, problems): (Expectations, _) =
                threadline_expect::load_part(place.node, &place.path, self.file.text(), &context);
            for problem in problems {
                self.report(problem);
            }
            return Some(Filter::Expectation(place.field(Arc::new(expectations))));
        }
        self.read_expression(fields, "filter").map(Filter::Condition)
    }

    /// Reads `item.priority DESC NULLS LAST, item.name`, or a list of such keys.
    fn read_sort_by(&mut self, fields: &ObjectFields<'_>) -> Vec<SortKey> {
        let Some(place) = fields.get("sort_by") else { return Vec::new() };
        let places: Vec<LocatedNode<'_>> =
            if place.node.value.as_list().is_some() { place.items().collect() } else { vec![place] };
        let mut keys = Vec::new();
        for place in places {
            let Some(text) = self.read_scalar_text(&place, "sort_by") else { continue };
            for (key, at) in forms::sort_keys(&text) {
                let parsed = Expression::parse(key.by, &self.syntax);
                match parsed {
                    Ok(expression) => {
                        let mut by = place.field(Arc::new(expression));
                        by.origin = self.place_inside(&by.origin, at, key.by.len());
                        let (descending, nulls_first) = (key.descending, key.nulls_first);
                        keys.push(SortKey { by, descending, nulls_first });
                    }
                    Err(error) => {
                        let origin = self.place_inside(&place.origin(), at, key.by.len());
                        let problem = problem::of_language(&error, &origin, self.file.text());
                        self.report(problem.hint(
                            "after a sort key write `ASC` or `DESC`, then `NULLS FIRST` or `NULLS LAST`",
                        ));
                    }
                }
            }
        }
        keys
    }

    /// A part of a scalar with its own span. If the scalar is quoted or escaped, the span is that of the
    /// whole scalar.
    fn place_inside(
        &self,
        origin: &threadline_lang::Origin,
        at: usize,
        len: usize,
    ) -> threadline_lang::Origin {
        let text = self.file.text();
        let place = problem::place_in(origin, Span::new(at, at + len), text);
        threadline_lang::Origin { span: place, style: threadline_lang::data::Style::Plain, ..origin.clone() }
    }

    /// Reads the error policy.
    pub(super) fn read_policy(&mut self, fields: &ObjectFields<'_>) -> Policy {
        let mut policy = Policy {
            retry: None,
            timeout: None,
            on_item_failure: OnItemFailure::Skip,
            continue_on_failure: false,
            max_failures: None,
            failure_threshold: None,
        };
        let Some(place) = fields.get("error_policy") else { return policy };
        let Some(fields) = self.read_fields(place, &ERROR_POLICY) else { return policy };
        policy.on_item_failure = match self.read_choice(&fields, "on_item_failure") {
            Some("retry") => OnItemFailure::Retry,
            Some("stop") => OnItemFailure::Stop,
            _ => OnItemFailure::Skip,
        };
        policy.continue_on_failure = self.read_bool(&fields, "continue_on_failure");
        if policy.continue_on_failure
            && policy.on_item_failure == OnItemFailure::Stop
            && let Some(place) = fields.get("continue_on_failure")
        {
            let message =
                "with `on_item_failure: stop` the first failure ends the run, so it cannot continue";
            let hint = "write `on_item_failure: skip` to continue, or remove `continue_on_failure`";
            self.report(Check::ConflictingKeys.at(span_of(place.node), message).hint(hint));
        }
        policy.max_failures = self.read_count(&fields, "max_failures");
        policy.failure_threshold = self.read_fraction(&fields, "failure_threshold");
        policy
    }

    /// The step that represents a phase: one without any key.
    fn phase_step(&mut self, place: &LocatedNode<'_>, name: &str, action: Action) -> Step {
        let fields = ObjectFields::none(place.clone(), &STEP);
        let step = self.read_step_with(&fields, place.origin(), Some(action));
        Step { id: Some(place.field(name.into())), ..step }
    }
}

/// Whether a key selects the action of a step.
fn is_action(key: &str) -> bool {
    let name = STEP.key(key).map(|key| key.name);
    name.is_some_and(|name| name == "claude" || ActionName::ALL.iter().any(|action| action.key() == name))
}
