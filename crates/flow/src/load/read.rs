//! Reads one object of a file by its table: unknown keys, aliases, scalars, and templates with their origins.

use std::sync::Arc;
use std::time::Duration;

use ecow::{EcoString, eco_format};
use threadline_lang::data::Style;
use threadline_lang::diag::{Span, nearest, words};
use threadline_lang::{Document, DocumentError, Expression, Number, Origin, Syntax, Template, Type, Value};

use crate::checks::Check;
use crate::fields::{
    ActionName, Choice, DEFAULTS, Form, KeySpec, ObjectSpec, STEP, UnsupportedKey, hint_for_setting,
    hint_for_word, with_underscores,
};
use crate::forms;
use crate::model::{Field, Setting, Variable};
use crate::problem::{self, Problem};
use crate::worker_labels::WorkerLabels;
use threadline_lang::source::{SourceFile, TreeEntry, TreeNode};

/// So many problems of a file get a suggestion of what was meant.
const MAX_SUGGESTIONS: usize = 200;

/// Loads one file and collects its problems.
pub(super) struct WorkflowLoader {
    pub(super) file: SourceFile,
    pub(super) syntax: Syntax,
    pub(super) problems: Vec<Problem>,
    /// `defaults`, as they are written.
    pub(super) defaults: Option<Arc<TreeNode>>,
    /// `on` of `defaults`.
    pub(super) default_labels: Option<WorkerLabels>,
}

/// A node with the path of keys that lead to it.
#[derive(Clone)]
pub(super) struct LocatedNode<'n> {
    pub(super) node: &'n TreeNode,
    pub(super) path: EcoString,
}

/// An object of a file whose keys were found in its table.
pub(super) struct ObjectFields<'n> {
    pub(super) object: &'static ObjectSpec,
    /// The node of the whole object.
    pub(super) place: LocatedNode<'n>,
    found: Vec<FoundKey<'n>>,
    /// The variables of `defaults` that hold beside those of the object.
    pub(super) default_env: Option<&'n TreeEntry>,
}

/// A key that was found in the file.
pub(super) struct FoundKey<'n> {
    pub(super) key: &'static KeySpec,
    /// The name as written, which may be an alias.
    pub(super) written: &'n str,
    pub(super) entry: &'n TreeEntry,
}

impl<'n> LocatedNode<'n> {
    pub(super) fn key(&self, name: &str, entry: &'n TreeEntry) -> Self {
        let path = if self.path.is_empty() { name.into() } else { eco_format!("{}.{name}", self.path) };
        Self { node: &entry.node, path }
    }

    pub(super) fn item(&self, at: usize, node: &'n TreeNode) -> Self {
        Self { node, path: eco_format!("{}[{at}]", self.path) }
    }

    pub(super) fn origin(&self) -> Origin {
        Origin {
            path: self.path.clone(),
            span: self.node.span,
            style: self.node.style.unwrap_or(Style::Plain),
        }
    }

    pub(super) fn field<T>(&self, value: T) -> Field<T> {
        Field { value, origin: self.origin() }
    }

    /// The entries of an object, each with its path.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'n str, &'n TreeEntry, Self)> {
        self.node.entries().map(|(name, entry)| (name, entry, self.key(name, entry)))
    }

    pub(super) fn items(&self) -> impl Iterator<Item = Self> {
        self.node.items().iter().enumerate().map(|(at, node)| self.item(at, node))
    }
}

impl<'n> ObjectFields<'n> {
    /// An object without keys, for which only defaults apply.
    pub(super) fn none(place: LocatedNode<'n>, object: &'static ObjectSpec) -> Self {
        Self { object, place, found: Vec::new(), default_env: None }
    }

    /// Finds a key, if the file has it.
    pub(super) fn found(&self, name: &str) -> Option<&FoundKey<'n>> {
        self.found.iter().find(|found| found.key.name == name)
    }

    pub(super) fn get(&self, name: &str) -> Option<LocatedNode<'n>> {
        self.found(name).map(|found| self.place.key(found.written, found.entry))
    }

    /// Whether the file has an unknown key that is close to this one.
    pub(super) fn misspelt(&self, name: &str) -> bool {
        let keys = self.place.node.entries().map(|(key, _)| key);
        keys.filter(|key| self.object.key(key).is_none()).any(|key| nearest(key, [name]).is_some())
    }

    /// Adds a key that the object itself does not have.
    pub(super) fn add(&mut self, key: FoundKey<'n>) {
        self.found.push(key);
    }

    pub(super) fn all(&self) -> &[FoundKey<'n>] {
        &self.found
    }
}

impl WorkflowLoader {
    /// Reports a problem. Its span is extended to whole characters.
    pub(super) fn report(&mut self, mut problem: Problem) {
        if problem.file.is_none() {
            let end = self.file.text().ceil_char_boundary(problem.span.range().end);
            problem.span = Span::new(problem.span.range().start, end);
        }
        self.problems.push(problem);
    }

    /// The text of a node as written in the file.
    pub(super) fn written_text(&self, node: &TreeNode) -> &str {
        self.file.text().get(node.span.range()).unwrap_or("")
    }

    // ---- objects ---------------------------------------------------------------------------------------

    /// Reads an object by its table. Unknown keys are reported and skipped.
    pub(super) fn read_fields<'n>(
        &mut self,
        place: LocatedNode<'n>,
        object: &'static ObjectSpec,
    ) -> Option<ObjectFields<'n>> {
        if place.node.value.as_object().is_none() {
            let message = format!("{} is an object, not {}", object.title, shown(&place.node.value));
            let problem = Check::WrongType.at(span_of(place.node), message);
            let keys = words::names(object.all_keys().map(|key| key.name));
            self.report(problem.note(format!("keys: {keys}")));
            return None;
        }
        let mut found: Vec<FoundKey<'n>> = Vec::with_capacity(place.node.entries().count());
        let mut misspelt: Vec<&KeySpec> = Vec::new();
        for (written, entry) in place.node.entries() {
            let Some(key) = object.key(written) else {
                let renamed = match object.find_unsupported(written) {
                    Some(UnsupportedKey::Renamed(ours)) => Some(ours),
                    _ => nearest(written, object.names()),
                };
                misspelt.extend(renamed.and_then(|near| object.key(near)));
                let problem = unknown_key(object, written, entry.key_span, self.problems.len());
                self.report(unless_present(problem, place.node));
                continue;
            };
            let repeats = |found: &&FoundKey<'_>| found.key.name == key.name && key.prefix().is_none();
            if let Some(first) = found.iter().find(repeats) {
                let message = format!("`{}` and `{written}` are the same key", first.written);
                self.report(Check::ConflictingKeys.at(entry.key_span, message).hint("keep one of them"));
                continue;
            }
            found.push(FoundKey { key, written, entry });
        }
        let fields = ObjectFields { object, place, found, default_env: None };
        for key in object.all_keys().filter(|key| key.required) {
            // A misspelt key was already reported.
            let told = misspelt.iter().any(|near| near.name == key.name);
            if fields.found(key.name).is_none() && !told {
                let message = format!("{} needs `{}`: {}", object.title, key.name, key.summary());
                self.report(Check::MissingKey.at(head(fields.place.node), message));
            }
        }
        Some(fields)
    }

    // ---- scalars ---------------------------------------------------------------------------------------

    fn report_wrong_type(&mut self, node: &TreeNode, name: &str, expected: &str) {
        let got = node.value.kind();
        let mut problem = Check::WrongType
            .at(span_of(node), format!("`{name}` takes {expected}, not {}", got.with_article()));
        if node.value.as_object().is_some() && self.written_text(node).starts_with('{') {
            problem = problem.hint("quote this value");
        }
        self.report(problem);
    }

    /// Reads a scalar as text. A number or a bool is read as written.
    pub(super) fn read_scalar_text(&mut self, place: &LocatedNode<'_>, name: &str) -> Option<EcoString> {
        let value = &place.node.value;
        if let Some(text) = value.as_str() {
            return Some(text.into());
        }
        if matches!(value.kind(), Type::Bool | Type::Int | Type::Decimal) {
            return Some(self.written_text(place.node).trim().into());
        }
        self.report_wrong_type(place.node, name, "text");
        None
    }

    pub(super) fn read_text(&mut self, fields: &ObjectFields<'_>, name: &str) -> Option<EcoString> {
        let place = fields.get(name)?;
        self.read_scalar_text(&place, name)
    }

    /// Reads a bool, with the default of the table.
    pub(super) fn read_bool(&mut self, fields: &ObjectFields<'_>, name: &str) -> bool {
        let default = fields.object.known(name).default == Some("true");
        self.read_given_bool(fields, name).unwrap_or(default)
    }

    pub(super) fn read_given_bool(&mut self, fields: &ObjectFields<'_>, name: &str) -> Option<bool> {
        let place = fields.get(name)?;
        let found = place.node.value.as_bool();
        if found.is_none() {
            self.report(no_bool(name, place.node));
        }
        found
    }

    /// Reads one of the choices of a key, with the default of the table.
    pub(super) fn read_choice(&mut self, fields: &ObjectFields<'_>, name: &str) -> Option<&'static str> {
        self.read_given_choice(fields, name).or(fields.object.known(name).default)
    }

    fn read_given_choice(&mut self, fields: &ObjectFields<'_>, name: &str) -> Option<&'static str> {
        let place = fields.get(name)?;
        self.read_choice_at(&place, name, fields.object.known(name).choices())
    }

    /// Reads one of these choices.
    pub(super) fn read_choice_at(
        &mut self,
        place: &LocatedNode<'_>,
        name: &str,
        choices: &'static [Choice],
    ) -> Option<&'static str> {
        let text = self.read_scalar_text(place, name)?;
        let found =
            choices.iter().find(|choice| choice.name == text || choice.aliases.contains(&text.as_str()));
        if found.is_none() {
            let expected = Form::OneOf(choices).expected();
            let message = format!("`{name}` takes {expected}, not `{text}`");
            let problem = Check::UnknownChoice.at(place.node.span, message);
            self.report(if let Some(hint) = hint_for_word(name, &text) {
                problem.hint(hint)
            } else {
                let near = nearest(&text, choices.iter().flat_map(Choice::spellings));
                near.into_iter().fold(problem, Problem::did_you_mean)
            });
        }
        found.map(|choice| choice.name)
    }

    /// Reads a name that the author chooses.
    pub(super) fn read_name(&mut self, fields: &ObjectFields<'_>, name: &str) -> Option<Field<EcoString>> {
        let place = fields.get(name)?;
        let text = self.read_scalar_text(&place, name)?;
        self.check_name(&text, place.node.span).then(|| place.field(text))
    }

    /// Reads the name of an agent. Older systems have numbers there.
    pub(super) fn read_agent_name(&mut self, fields: &ObjectFields<'_>) -> Option<Field<EcoString>> {
        let place = fields.get("agent")?;
        let text = self.read_scalar_text(&place, "agent")?;
        self.check_agent_name(&text, place.node.span).then(|| place.field(text))
    }

    pub(super) fn check_agent_name(&mut self, text: &str, span: Span) -> bool {
        let is_number =
            !text.is_empty() && text.len() <= 100 && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number || self.check_name(text, span)
    }

    pub(super) fn check_name(&mut self, text: &str, span: Span) -> bool {
        let fits = forms::is_name(text);
        if !fits {
            let message = format!("`{text}` is not a valid name");
            let hint = "use letters, digits, `_` and `-`, but not only digits, and no word of the language";
            self.report(Check::BadName.at(span, message).hint(hint));
        }
        fits
    }

    // ---- settings --------------------------------------------------------------------------------------

    pub(super) fn read_duration(
        &mut self,
        fields: &ObjectFields<'_>,
        name: &str,
    ) -> Option<Setting<Duration>> {
        self.read_setting(fields, name, Check::BadDuration, Form::Duration, forms::duration)
    }

    /// Reads a duration that must not be 0.
    pub(super) fn read_time_limit(
        &mut self,
        fields: &ObjectFields<'_>,
        name: &str,
    ) -> Option<Setting<Duration>> {
        let given = self.read_duration(fields, name);
        let known = given.as_ref().and_then(Setting::known);
        if let (Some(Duration::ZERO), Some(place)) = (known, fields.get(name)) {
            let message = format!("`{name}` cannot be 0");
            let without = fields.object.known(name).default.unwrap_or("no limit");
            let hint = format!("remove it to get the default: {without}");
            self.report(Check::BadDuration.at(span_of(place.node), message).hint(hint));
        }
        given
    }

    pub(super) fn read_size(&mut self, fields: &ObjectFields<'_>, name: &str) -> Option<Setting<u64>> {
        self.read_setting(fields, name, Check::BadSize, Form::Size, forms::size)
    }

    /// Reads a fraction.
    pub(super) fn read_fraction(&mut self, fields: &ObjectFields<'_>, name: &str) -> Option<Setting<Number>> {
        self.read_setting(fields, name, Check::WrongType, Form::Fraction, forms::fraction)
    }

    pub(super) fn read_count(&mut self, fields: &ObjectFields<'_>, name: &str) -> Option<Setting<u64>> {
        let form = fields.object.known(name).form();
        self.read_setting(fields, name, Check::WrongType, form, |value| form.count(value))
    }

    pub(super) fn read_count_at(&mut self, place: &LocatedNode<'_>, key: &KeySpec) -> Option<Setting<u64>> {
        let form = key.form();
        self.read_setting_at(place, key.name, Check::WrongType, form, |value| form.count(value))
    }

    /// Reads a small number that cannot be a reference.
    pub(super) fn read_fixed_count(&mut self, fields: &ObjectFields<'_>, name: &str) -> Option<u32> {
        let place = fields.get(name)?;
        let form = fields.object.known(name).form();
        let read = form.count(&place.node.value).and_then(|count| u32::try_from(count).ok());
        if read.is_none() {
            let problem = bad_form(Check::WrongType, place.node, name, form);
            self.report(problem);
        }
        read
    }

    /// Reads a duration that cannot be a reference.
    pub(super) fn read_fixed_duration(&mut self, fields: &ObjectFields<'_>, name: &str) -> Option<Duration> {
        let place = fields.get(name)?;
        let read = forms::duration(&place.node.value);
        if read.is_none() {
            let problem = bad_form(Check::BadDuration, place.node, name, Form::Duration);
            self.report(problem);
        }
        read
    }

    fn read_setting<T>(
        &mut self,
        fields: &ObjectFields<'_>,
        name: &str,
        check: Check,
        form: Form,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Option<Setting<T>> {
        match fields.get(name) {
            Some(place) => self.read_setting_at(&place, name, check, form, read),
            // A missing key has the default of the table.
            None => {
                fields.object.known(name).default.and_then(|text| read(&text.into())).map(Setting::Default)
            }
        }
    }

    fn read_setting_at<T>(
        &mut self,
        place: &LocatedNode<'_>,
        name: &str,
        check: Check,
        form: Form,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Option<Setting<T>> {
        if matches!(place.node.value.kind(), Type::List | Type::Object) {
            self.report(bad_form(check, place.node, name, form));
            return None;
        }
        let document = self.read_document(place)?;
        let Some(value) = document.value.as_fixed() else { return Some(Setting::Dynamic(document)) };
        let found = read(value);
        if found.is_none() {
            self.report(bad_form(check, place.node, name, form));
        }
        found.map(|value| Setting::Fixed(place.field(value)))
    }

    // ---- the language ----------------------------------------------------------------------------------

    /// Reads a value with references, and compiles its templates.
    pub(super) fn read_document(&mut self, place: &LocatedNode<'_>) -> Option<Field<Document>> {
        match Document::compile(&self.syntax, |sink| place.node.feed(sink)) {
            Ok(document) => Some(place.field(document)),
            Err(DocumentError::Templates { errors, rest }) => {
                let origin = place.origin();
                for error in &errors {
                    self.report(problem::of_language(error, &origin, self.file.text()));
                }
                // The rest of the document is still checked.
                Some(place.field(rest))
            }
            Err(DocumentError::Read(error)) => {
                self.report(problem::of_reading(&error));
                None
            }
        }
    }

    /// Reads text with references. A number or a bool is read as its text.
    pub(super) fn read_template(&mut self, place: &LocatedNode<'_>, name: &str) -> Option<Field<Template>> {
        let text = self.read_scalar_text(place, name)?;
        let (template, errors) = Template::parse_all(text, &self.syntax);
        let origin = place.origin();
        for error in &errors {
            self.report(problem::of_language(error, &origin, self.file.text()));
        }
        Some(place.field(template))
    }

    pub(super) fn read_template_of(
        &mut self,
        fields: &ObjectFields<'_>,
        name: &str,
    ) -> Option<Field<Template>> {
        let place = fields.get(name)?;
        self.read_template(&place, name)
    }

    pub(super) fn read_document_of(
        &mut self,
        fields: &ObjectFields<'_>,
        name: &str,
    ) -> Option<Field<Document>> {
        let place = fields.get(name)?;
        self.read_document(&place)
    }

    /// Reads a condition.
    pub(super) fn read_expression(
        &mut self,
        fields: &ObjectFields<'_>,
        name: &str,
    ) -> Option<Field<Arc<Expression>>> {
        let place = fields.get(name)?;
        let text = self.read_scalar_text(&place, name)?;
        // The final line break of a YAML block is not part of the expression.
        match Expression::parse(text.trim_end_matches('\n'), &self.syntax) {
            Ok(expression) => Some(place.field(Arc::new(expression))),
            Err(error) => {
                let problem = problem::of_language(&error, &place.origin(), self.file.text());
                self.report(problem);
                None
            }
        }
    }

    /// Reads a list of templates: a program and its arguments.
    pub(super) fn read_templates(
        &mut self,
        fields: &ObjectFields<'_>,
        name: &str,
    ) -> Option<Vec<Field<Template>>> {
        let place = fields.get(name)?;
        self.check_list(&place, name)?;
        let items: Vec<_> = place.items().map(|item| self.read_template(&item, name)).collect();
        items.into_iter().collect()
    }

    /// Reads the arguments of a program. The plan reports those that do not parse, because it analyses them
    /// as arguments, where more filters are allowed.
    pub(super) fn read_arguments(
        &mut self,
        fields: &ObjectFields<'_>,
        name: &str,
    ) -> Option<Vec<Field<Template>>> {
        let place = fields.get(name)?;
        self.check_list(&place, name)?;
        let items: Vec<_> = place
            .items()
            .map(|item| {
                let text = self.read_scalar_text(&item, name)?;
                Some(item.field(Template::parse_all(text, &self.syntax).0))
            })
            .collect();
        items.into_iter().collect()
    }

    /// Reads a list of literal texts.
    pub(super) fn read_texts(&mut self, fields: &ObjectFields<'_>, name: &str) -> Option<Vec<EcoString>> {
        let place = fields.get(name)?;
        self.check_list(&place, name)?;
        let items: Vec<_> = place.items().map(|item| self.read_scalar_text(&item, name)).collect();
        items.into_iter().collect()
    }

    pub(super) fn check_list(&mut self, place: &LocatedNode<'_>, name: &str) -> Option<()> {
        let is_list = place.node.value.as_list().is_some();
        if !is_list {
            let message = format!("`{name}` takes a list, not {}", shown(&place.node.value));
            let mut problem = Check::WrongType.at(span_of(place.node), message);
            if place.node.value.as_str().is_some() {
                problem = problem.hint(format!("write one element per word: `{name}: [program, argument]`"));
            }
            self.report(problem);
        }
        is_list.then_some(())
    }

    /// Reads an object whose keys are names that the author chooses.
    pub(super) fn read_map<'n>(&mut self, fields: &ObjectFields<'n>, name: &str) -> Option<LocatedNode<'n>> {
        let place = fields.get(name)?;
        if place.node.value.is_null() {
            return None;
        }
        if place.node.value.as_object().is_none() {
            self.report_wrong_type(place.node, name, "an object");
            return None;
        }
        Some(place)
    }

    /// Reads environment variables.
    pub(super) fn read_variables(&mut self, fields: &ObjectFields<'_>) -> Vec<Variable> {
        let Some(place) = self.read_map(fields, "env") else { return Vec::new() };
        let default = fields.default_env.map(|entry| fields.place.key("env", entry));
        let below = default.iter().flat_map(LocatedNode::entries);
        let below = below.filter(|(name, ..)| place.node.get(name).is_none());
        let mut variables = Vec::new();
        for (name, entry, at) in below.chain(place.entries()) {
            if !forms::is_variable(name) {
                let message = format!("`{name}` is not a valid name for an environment variable");
                self.report(Check::BadName.at(entry.key_span, message));
                continue;
            }
            if entry.node.get("secret").is_some() {
                let message = format!("`{name}` takes text, and cannot be marked as a secret here");
                let hint =
                    format!("declare it under `secrets:`, and write `{name}: \"${{secrets.{name}}}\"`");
                self.report(Check::OldKey.at(entry.key_span, message).hint(hint));
                continue;
            }
            let is_null = entry.node.value.is_null();
            let value = if is_null { None } else { self.read_template(&at, name) };
            if is_null || value.is_some() {
                variables.push(Variable { name: name.into(), span: entry.key_span, value });
            }
        }
        variables
    }

    /// Reads `on`: labels of workers, which are written out.
    pub(super) fn read_labels(&mut self, fields: &ObjectFields<'_>) -> Option<WorkerLabels> {
        let place = self.read_map(fields, "on")?;
        let mut labels = WorkerLabels::default();
        for (name, entry, at) in place.entries() {
            let Some(value) = self.read_scalar_text(&at, name) else { continue };
            let problem = if value.contains('$') {
                let message = format!("the label `{name}` is written out, and takes no reference");
                Check::WrongType.at(span_of(at.node), message)
            } else if let Err(message) = labels.add(name, &value) {
                Check::BadName.at(entry.key_span, message)
            } else {
                continue;
            };
            self.report(problem);
        }
        Some(labels)
    }

    /// Reports keys that do not apply to the action of a step.
    pub(super) fn check_applies(&mut self, fields: &ObjectFields<'_>, action: ActionName) {
        for found in fields.all() {
            let on = found.key.on;
            if on.is_empty() || on.contains(&action) {
                continue;
            }
            // Other systems have a key of that name, for every step.
            if fields.object.find_unsupported(found.written).is_some() {
                let problem = unknown_key(fields.object, found.written, found.entry.key_span, 0);
                self.report(unless_present(problem, fields.place.node));
                continue;
            }
            let actions = words::code_list(on.iter().map(|action| action.key()), "and");
            let message = format!("`{}` does not apply to `{}`", found.written, action.key());
            let note = format!("it applies to {actions}");
            self.report(Check::KeyNotHere.at(found.entry.key_span, message).note(note));
        }
    }
}

/// The span of the first key of an object, so that an excerpt points at one line.
pub(super) fn head(node: &TreeNode) -> Span {
    match node.entries().next() {
        // An alias has the keys of another place; only the alias itself is here.
        Some((_, entry))
            if node.span.start <= entry.key_span.start && entry.key_span.end <= node.span.end =>
        {
            entry.key_span
        }
        _ => Span { end: node.span.end.min(node.span.start + 1), ..node.span },
    }
}

/// The span to point at; of an object only its first key.
pub(super) fn span_of(node: &TreeNode) -> Span {
    if node.value.as_object().is_some() { head(node) } else { node.span }
}

fn bad_form(check: Check, node: &TreeNode, name: &str, form: Form) -> Problem {
    check.at(span_of(node), format!("`{name}` takes {}, not {}", form.expected(), shown(&node.value)))
}

/// A value in a message: a scalar as it is, anything else by its type.
pub(super) fn shown(value: &Value) -> String {
    match value.kind() {
        Type::List | Type::Object | Type::Null => value.kind().with_article().to_owned(),
        Type::Text => format!("the text `{}`", threadline_lang::diag::excerpt(value).trim_matches('"')),
        _ => format!("`{}`", threadline_lang::diag::excerpt(value)),
    }
}

/// The problem of a value that is not a bool.
pub(super) fn no_bool(name: &str, node: &TreeNode) -> Problem {
    let message = format!("`{name}` takes `true` or `false`, not {}", shown(&node.value));
    let problem = Check::WrongType.at(span_of(node), message);
    match node.value.as_str().unwrap_or_default().to_ascii_lowercase().as_str() {
        "yes" | "on" | "true" => problem.replace("write `true`, without quotes", "true"),
        "no" | "off" | "false" => problem.replace("write `false`, without quotes", "false"),
        _ => problem,
    }
}

/// A problem whose suggestion is not a key that the object has already: to follow it would be the next mistake.
pub(super) fn unless_present(problem: Problem, object: &TreeNode) -> Problem {
    match &problem.fix {
        Some(fix) if object.get(&fix.text).is_some() => {
            let hints = vec![format!("`{}` is there already: remove one of them", fix.text)];
            Problem { hints, fix: None, ..problem }
        }
        _ => problem,
    }
}

/// The problem of a key that an object does not have. To find the one that was meant takes its time, so that
/// is done for the first problems of a file only; nobody reads more.
pub(super) fn unknown_key(object: &'static ObjectSpec, key: &str, span: Span, known: usize) -> Problem {
    match object.find_unsupported(key) {
        Some(UnsupportedKey::Renamed(ours)) => Check::OldKey
            .at(span, format!("{} has no key `{key}`", object.title))
            .replace(format!("write it as `{ours}:`"), ours),
        Some(UnsupportedKey::Replaced(instead)) => {
            Check::OldKey.at(span, format!("{} has no key `{key}` here", object.title)).hint(instead)
        }
        Some(UnsupportedKey::NotYet(meanwhile)) => {
            let problem = Check::NotInVersion.at(span, format!("`{key}` is not supported in this version"));
            meanwhile.into_iter().fold(problem, Problem::hint)
        }
        None if object.name == DEFAULTS.name && STEP.key(key).is_some() => {
            let message = format!("`{key}` cannot have a default: {}", why_not_shared(key));
            Check::KeyNotHere.at(span, message).hint("write it on each step that needs it")
        }
        None => {
            let problem = Check::UnknownKey.at(span, format!("{} has no key `{key}`", object.title));
            if known >= MAX_SUGGESTIONS {
                problem
            } else if let Some(hint) = hint_for_setting(object, key) {
                problem.hint(hint)
            } else if let Some(ours) = object.key(&with_underscores(key)) {
                problem.did_you_mean(ours.name)
            } else if let Some(near) = nearest(key, object.names()) {
                problem.did_you_mean(near)
            } else {
                let keys = words::names(object.all_keys().map(|key| key.name));
                problem.note(format!("keys: {keys}"))
            }
        }
    }
}

/// Why a key of a step holds for one step only.
fn why_not_shared(key: &str) -> &'static str {
    match key {
        "id" | "name" | "capture" | "capture_output" => "it names one step",
        "when" | "needs" => "it decides when one step runs",
        "on_failure" | "on_success" | "finally" => {
            "it would run around every step; for the whole run, write it at the top of the file"
        }
        "continue_on_error" => "a failure is only ignored where a step says so",
        "expect" => "it is about the result of one step",
        "trust" => "its reason is about one command",
        _ => "it is part of what one step does",
    }
}
