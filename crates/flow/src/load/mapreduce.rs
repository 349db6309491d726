//! Work items of a file: where they come from, which are taken, what is done before, for and after them.

use std::sync::Arc;

use ecow::EcoString;
use threadline_expect::Expectations;
use threadline_lang::diag::Span;
use threadline_lang::{Document, Expression, Template};

use super::Steps;
use super::read::{Fields, Loader, Place, head, shown, span_of};
use crate::checks::Check;
use crate::fields::{ActionName, CAPTURED_OUTPUT, ERROR_POLICY, MAP, PHASE, SOURCE, STEP};
use crate::forms;
use crate::json_path::JsonPath;
use crate::model::{
    Action, CaptureFormat, Field, Filter, ForEach, OnCrash, OnItemFailure, Phase, PhaseKind, Policy, Shape,
    SortKey, Source, SourceFormat, Step,
};
use crate::problem::{self, Problem};

/// The keys that make a file a map-reduce.
pub(super) const KEYS: [&str; 7] = ["mode", "setup", "map", "reduce", "merge", "aggregates", "error_policy"];

impl Loader {
    /// The phases of a map-reduce, each a step.
    pub(super) fn phases(&mut self, fields: &Fields<'_>) -> Steps {
        let mut steps = Vec::new();
        // There is one mode, so it says nothing; another word is a mistake.
        let _ = self.choice(fields, "mode");
        steps.extend(self.phase(fields, PhaseKind::Setup));
        if let Some(place) = fields.get("map") {
            steps.extend(self.map_phase(fields, &place));
        } else if !fields.misspelt("map") {
            let message = "a map-reduce needs `map`: where its items come from, and what is done for each";
            self.problem(Check::MissingKey.at(head(fields.place.node), message));
        }
        steps.extend(self.phase(fields, PhaseKind::Reduce));
        steps.extend(self.phase(fields, PhaseKind::Merge));
        steps
    }

    /// What is made of the results.
    pub(super) fn map_reduce(&mut self, fields: &Fields<'_>) -> Shape {
        let mut aggregates = Vec::new();
        if let Some(place) = self.map(fields, "aggregates") {
            for (name, entry, at) in place.entries() {
                if self.check_name(name, entry.key_span)
                    && let Some(document) = self.document(&at)
                {
                    aggregates.push((name.into(), document));
                }
            }
        }
        Shape::MapReduce { aggregates }
    }

    // ---- phases ----------------------------------------------------------------------------------------

    fn phase(&mut self, fields: &Fields<'_>, kind: PhaseKind) -> Option<Arc<Step>> {
        let key = kind.key();
        let place = fields.get(key)?;
        // One step in place of a list of one says what it does.
        let is_phase = !place.node.entries().any(|(key, _)| is_action(key));
        let mut phase =
            Phase { kind, steps: Vec::new(), variables: Vec::new(), exports: Vec::new(), timeout: None };
        if place.node.value.as_object().is_some() && is_phase {
            let inner = self.fields(place.clone(), &PHASE)?;
            phase.steps = self.steps_of(&inner, "steps");
            phase.timeout = self.fixed_duration(&inner, "timeout");
            phase.variables = self.phase_variables(&inner);
            phase.exports = self.phase_exports(&inner);
            self.capture_outputs(&inner, &mut phase.steps);
        } else {
            phase.steps = self.steps(&place, key);
        }
        Some(Arc::new(synthetic(&place, key, Action::Phase(phase))))
    }

    fn phase_variables(&mut self, fields: &Fields<'_>) -> Vec<(EcoString, Field<Document>)> {
        let Some(place) = self.map(fields, "variables") else { return Vec::new() };
        let mut variables = Vec::new();
        for (name, entry, at) in place.entries() {
            if self.check_name(name, entry.key_span)
                && let Some(document) = self.document(&at)
            {
                variables.push((name.into(), document));
            }
        }
        variables
    }

    fn phase_exports(&mut self, fields: &Fields<'_>) -> Vec<Field<EcoString>> {
        let Some(place) = fields.get("exports") else { return Vec::new() };
        if self.list(&place, "exports").is_none() {
            return Vec::new();
        }
        let names: Vec<_> =
            place.items().map(|item| Some(item.field(self.scalar_text(&item, "exports")?))).collect();
        names.into_iter().flatten().collect()
    }

    /// `capture_outputs: {NAME: 0}`: the output of the first step by this name.
    fn capture_outputs(&mut self, fields: &Fields<'_>, steps: &mut [Arc<Step>]) {
        let Some(place) = self.map(fields, "capture_outputs") else { return };
        for (name, entry, at) in place.entries() {
            if !self.check_name(name, entry.key_span) {
                continue;
            }
            let (node, format) = if at.node.value.as_object().is_some() {
                let Some(inner) = self.fields(at.clone(), &CAPTURED_OUTPUT) else { continue };
                if inner.found("command_index").is_none() {
                    continue;
                }
                let format = inner.found("format").map(|_| self.capture_format_of(&inner, "format"));
                self.choice(&inner, "source");
                (inner.get("command_index").map(|index| index.node), format)
            } else {
                (Some(at.node), None)
            };
            let index = node.and_then(|node| usize::try_from(node.value.as_i64()?).ok());
            let count = steps.len();
            let step = index.and_then(|index| steps.get_mut(index)).and_then(Arc::get_mut);
            let Some(step) = step else {
                let message = format!("`{name}` takes the number of a step, from 0 to {}", count.max(1) - 1);
                self.problem(Check::WrongType.at(span_of(node.unwrap_or(at.node)), message));
                continue;
            };
            if let Some(known) = step.capture.as_ref().filter(|known| known.value != name) {
                let message = format!("the output of this step is captured as `{}` already", known.value);
                let hint = "leave out the one name or the other";
                self.problem(Check::ConflictingKeys.at(entry.key_span, message).hint(hint));
                continue;
            }
            let mut field = at.field(EcoString::from(name));
            field.origin.span = entry.key_span;
            step.capture = Some(field);
            step.format = format.unwrap_or(step.format);
        }
    }

    // ---- the map ---------------------------------------------------------------------------------------

    fn map_phase(&mut self, workflow: &Fields<'_>, place: &Place<'_>) -> Option<Arc<Step>> {
        let fields = self.fields(place.clone(), &MAP)?;
        let source = fields.get("input").and_then(|input| self.source(&input, "input", true));
        let steps = match fields.get("steps") {
            // `agent_template: {commands: [...]}`, as older files have it.
            Some(template) if template.node.get("commands").is_some() => {
                let inner = self.fields(template, &PHASE);
                for other in inner.iter().flat_map(Fields::all).filter(|found| found.key.name != "steps") {
                    let message = format!("`{}` does not go with the steps of `map`", other.written);
                    self.problem(Check::KeyNotHere.at(other.entry.key_span, message));
                }
                inner.map_or_else(Vec::new, |inner| self.steps_of(&inner, "steps"))
            }
            Some(template) => self.steps(&template, "steps"),
            None => {
                if !fields.misspelt("steps") {
                    let message = "`map` needs `steps`: what is done for each item";
                    self.problem(Check::MissingKey.at(head(fields.place.node), message));
                }
                Vec::new()
            }
        };
        if fields.found("input").is_none() && !fields.misspelt("input") {
            let message = "`map` needs `input`: where its items come from";
            self.problem(Check::MissingKey.at(head(fields.place.node), message));
        }
        let mut policy = self.policy(workflow);
        policy.timeout = self.time_limit(&fields, "timeout");
        policy.retry = self.retry_of(&fields, &MAP);
        let worktree = self.bool(&fields, "worktree");
        let each = self.selection(&fields, source?, "max_parallel");
        let each = ForEach { steps, policy, worktree, is_map: true, ..each };
        Some(Arc::new(synthetic(place, "map", Action::ForEach(Box::new(each)))))
    }

    /// Which elements of a source are taken, and how many at once; the steps are the caller's.
    pub(super) fn selection(&mut self, fields: &Fields<'_>, source: Source, parallel: &str) -> ForEach {
        ForEach {
            source,
            json_path: self.json_path(fields),
            filter: self.filter(fields),
            sort_by: self.sort_by(fields),
            distinct: self.expression(fields, "distinct"),
            offset: self.count(fields, "offset"),
            max_items: self.count(fields, "max_items"),
            parallel: self.count(fields, parallel),
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

    /// Where elements come from. Of a map a text is the name of a file.
    pub(super) fn source(&mut self, place: &Place<'_>, name: &str, is_map: bool) -> Option<Source> {
        let value = &place.node.value;
        if value.as_object().is_some() {
            let fields = self.fields(place.clone(), &SOURCE)?;
            let format = self.choice(&fields, "format").and_then(|format| match format {
                "json" => Some(SourceFormat::Json),
                "jsonl" => Some(SourceFormat::JsonLines),
                "lines" => Some(SourceFormat::Lines),
                _ => None,
            });
            return match (fields.get("file"), fields.get("shell")) {
                (Some(file), None) => Some(Source::File { path: self.template(&file, "file")?, format }),
                (None, Some(shell)) => {
                    let text = self.scalar_text(&shell, "shell")?;
                    Some(Source::Shell { text: shell.field(text), format })
                }
                (file, _) => {
                    let message = format!("`{name}` takes `file` or `shell`: where the items come from");
                    let span = file.map_or(head(place.node), |file| span_of(file.node));
                    self.problem(Check::MissingKey.at(span, message));
                    None
                }
            };
        }
        let document = self.document(place)?;
        if let Some(fixed) = document.value.as_fixed()
            && fixed.as_list().is_none()
        {
            if let (Some(path), true) = (fixed.as_str(), is_map) {
                let template = Template::parse_all(path, &self.syntax).0;
                return Some(Source::File { path: place.field(template), format: None });
            }
            self.not_a_list(place, name);
        }
        Some(Source::Value(document))
    }

    fn not_a_list(&mut self, place: &Place<'_>, name: &str) {
        let value = &place.node.value;
        let message = format!("`{name}` takes a list, not {}", shown(value));
        let problem = Check::WrongType.at(span_of(place.node), message);
        self.problem(match value.as_str() {
            Some(text) => problem.hint(format!(
                "what a command prints, line by line: `{name}: {{shell: {text}}}`; what stands in a file: \
                 `{name}: {{file: {text}}}`"
            )),
            None => problem,
        });
    }

    fn json_path(&mut self, fields: &Fields<'_>) -> Option<Field<JsonPath>> {
        let place = fields.get("json_path")?;
        let text = self.scalar_text(&place, "json_path")?;
        match JsonPath::parse(&text) {
            Ok(path) => Some(place.field(path)),
            Err(error) => {
                let at = self.inside(&place.origin(), error.offset.min(text.len()), 1);
                let problem = Check::BadJsonPath.at(at.span, format!("`json_path`: {}", error.message));
                self.problem(error.hint.into_iter().fold(problem, Problem::hint));
                None
            }
        }
    }

    /// A condition, or an expectation.
    fn filter(&mut self, fields: &Fields<'_>) -> Option<Filter> {
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
                self.problem(problem);
            }
            return Some(Filter::Expectation(place.field(Arc::new(expectations))));
        }
        self.expression(fields, "filter").map(Filter::Condition)
    }

    /// `item.priority DESC NULLS LAST, item.name`, or a list of such keys.
    fn sort_by(&mut self, fields: &Fields<'_>) -> Vec<SortKey> {
        let Some(place) = fields.get("sort_by") else { return Vec::new() };
        let places: Vec<Place<'_>> =
            if place.node.value.as_list().is_some() { place.items().collect() } else { vec![place] };
        let mut keys = Vec::new();
        for place in places {
            let Some(text) = self.scalar_text(&place, "sort_by") else { continue };
            for (key, at) in forms::sort_keys(&text) {
                let parsed = Expression::parse(key.by, &self.syntax);
                match parsed {
                    Ok(expression) => {
                        let mut by = place.field(Arc::new(expression));
                        by.origin = self.inside(&by.origin, at, key.by.len());
                        let (descending, nulls_first) = (key.descending, key.nulls_first);
                        keys.push(SortKey { by, descending, nulls_first });
                    }
                    Err(error) => {
                        let origin = self.inside(&place.origin(), at, key.by.len());
                        let problem = problem::of_language(&error, &origin, self.file.text());
                        self.problem(problem.hint(
                            "behind a key stands `ASC` or `DESC`, then `NULLS FIRST` or `NULLS LAST`, if anything",
                        ));
                    }
                }
            }
        }
        keys
    }

    /// A part of a scalar as a place of its own. What is written otherwise than it reads is pointed at as a whole.
    fn inside(&self, origin: &threadline_lang::Origin, at: usize, len: usize) -> threadline_lang::Origin {
        let text = self.file.text();
        let place = problem::place_in(origin, Span::new(at, at + len), text);
        threadline_lang::Origin { span: place, style: threadline_lang::data::Style::Plain, ..origin.clone() }
    }

    /// What becomes of items that fail.
    pub(super) fn policy(&mut self, fields: &Fields<'_>) -> Policy {
        let mut policy = Policy {
            retry: None,
            timeout: None,
            on_item_failure: OnItemFailure::Skip,
            continue_on_failure: false,
            max_failures: None,
            failure_threshold: None,
        };
        let Some(place) = fields.get("error_policy") else { return policy };
        let Some(fields) = self.fields(place, &ERROR_POLICY) else { return policy };
        policy.on_item_failure = match self.choice(&fields, "on_item_failure") {
            Some("retry") => OnItemFailure::Retry,
            Some("stop") => OnItemFailure::Stop,
            _ => OnItemFailure::Skip,
        };
        policy.continue_on_failure = self.bool(&fields, "continue_on_failure");
        if policy.continue_on_failure
            && policy.on_item_failure == OnItemFailure::Stop
            && let Some(place) = fields.get("continue_on_failure")
        {
            let message = "with `on_item_failure: stop` the first failure ends the run, so it cannot go on";
            let hint = "write `on_item_failure: skip` to go on, or leave out `continue_on_failure`";
            self.problem(Check::ConflictingKeys.at(span_of(place.node), message).hint(hint));
        }
        policy.max_failures = self.count(&fields, "max_failures");
        policy.failure_threshold = self.fraction(&fields, "failure_threshold");
        policy
    }
}

/// Whether a key says what a step does.
fn is_action(key: &str) -> bool {
    let name = STEP.key(key).map(|key| key.name);
    name.is_some_and(|name| name == "claude" || ActionName::ALL.iter().any(|action| action.key() == name))
}

/// A step that stands for a phase.
fn synthetic(place: &Place<'_>, name: &str, action: Action) -> Step {
    let origin = place.origin();
    let id = Field { value: EcoString::from(name), origin: origin.clone() };
    Step {
        id: Some(id),
        name: None,
        origin,
        action,
        tool: None,
        when: None,
        capture: None,
        format: CaptureFormat::Text,
        timeout: None,
        idle_timeout: None,
        retry: None,
        on_crash: OnCrash::Rerun,
        on_failure: Vec::new(),
        on_success: Vec::new(),
        finally: Vec::new(),
        continue_on_error: false,
        env: Vec::new(),
        cwd: None,
        shell_program: None,
        strict_shell: true,
        max_output: None,
        expect: None,
        needs: Vec::new(),
        state: None,
    }
}
