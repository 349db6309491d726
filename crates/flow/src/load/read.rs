//! Reading one object of a file by its table: unknown keys, spellings, forms, templates with their places.

use std::sync::Arc;
use std::time::Duration;

use ecow::{EcoString, eco_format};
use threadline_lang::data::Style;
use threadline_lang::diag::{Span, nearest};
use threadline_lang::{Document, DocumentError, Expression, Origin, Syntax, Template, Type, Value};

use crate::checks::Check;
use crate::fields::{ActionName, Choice, Form, KeySpec, ObjectSpec, UnsupportedKey, hint_for_word};
use crate::forms;
use crate::model::{Field, Setting, Variable};
use crate::problem::{self, Problem};
use threadline_lang::source::{SourceFile, TreeEntry, TreeNode};

/// Gathers what is wrong while a file is read.
pub(super) struct Loader {
    pub(super) file: SourceFile,
    pub(super) syntax: Syntax,
    pub(super) problems: Vec<Problem>,
}

/// A node, and the keys that lead to it.
#[derive(Clone)]
pub(super) struct Place<'n> {
    pub(super) node: &'n TreeNode,
    pub(super) path: EcoString,
}

/// An object whose keys are known to the table.
pub(super) struct Fields<'n> {
    pub(super) object: &'static ObjectSpec,
    /// The whole object.
    pub(super) place: Place<'n>,
    found: Vec<Found<'n>>,
}

/// A key of the object, as it stands in the file.
pub(super) struct Found<'n> {
    pub(super) key: &'static KeySpec,
    /// As it is spelt there.
    pub(super) written: &'n str,
    pub(super) entry: &'n TreeEntry,
}

impl<'n> Place<'n> {
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

    pub(super) fn field<T>(&self, of: T) -> Field<T> {
        Field { value: of, origin: self.origin() }
    }

    /// Every entry of an object, and its place.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'n str, &'n TreeEntry, Self)> {
        self.node.entries().map(|(name, entry)| (name, entry, self.key(name, entry)))
    }

    pub(super) fn items(&self) -> impl Iterator<Item = Self> {
        self.node.items().iter().enumerate().map(|(at, node)| self.item(at, node))
    }
}

impl<'n> Fields<'n> {
    /// An object without keys, so that what holds then comes from its table.
    pub(super) fn none(place: Place<'n>, object: &'static ObjectSpec) -> Self {
        Self { object, place, found: Vec::new() }
    }

    /// The key as it stands in the file, when it does.
    pub(super) fn found(&self, name: &str) -> Option<&Found<'n>> {
        self.found.iter().find(|found| found.key.name == name)
    }

    pub(super) fn get(&self, name: &str) -> Option<Place<'n>> {
        self.found(name).map(|found| self.place.key(found.written, found.entry))
    }

    /// Whether a key of the file is nearly this one.
    pub(super) fn misspelt(&self, name: &str) -> bool {
        let keys = self.place.node.entries().map(|(key, _)| key);
        keys.filter(|key| self.object.key(key).is_none()).any(|key| nearest(key, [name]).is_some())
    }

    pub(super) fn all(&self) -> &[Found<'n>] {
        &self.found
    }
}

impl Loader {
    /// Notes a problem. The first byte of something stands for its first character.
    pub(super) fn problem(&mut self, mut problem: Problem) {
        if problem.file.is_none() {
            let end = self.file.text().ceil_char_boundary(problem.span.range().end);
            problem.span = Span::new(problem.span.range().start, end);
        }
        self.problems.push(problem);
    }

    /// The text of a node as it stands in the file.
    pub(super) fn written(&self, node: &TreeNode) -> &str {
        self.file.text().get(node.span.range()).unwrap_or("")
    }

    // ---- objects ---------------------------------------------------------------------------------------

    /// An object by its table. What the table does not know is a problem and otherwise left out.
    pub(super) fn fields<'n>(&mut self, place: Place<'n>, object: &'static ObjectSpec) -> Option<Fields<'n>> {
        if place.node.value.as_object().is_none() {
            let message = format!("{} is an object, not {}", object.title, shown(&place.node.value));
            let problem = Check::WrongType.at(span_of(place.node), message);
            let keys: Vec<&str> = object.all_keys().map(|key| key.name).collect();
            self.problem(problem.note(format!("keys: {}", keys.join(", "))));
            return None;
        }
        let mut found: Vec<Found<'n>> = Vec::with_capacity(place.node.entries().count());
        let mut misspelt = Vec::new();
        for (written, entry) in place.node.entries() {
            let Some(key) = object.key(written) else {
                misspelt.extend(nearest(written, object.names()).and_then(|near| object.key(near)));
                let problem = unknown_key(object, written, entry.key_span);
                self.problem(problem);
                continue;
            };
            let repeats = |found: &&Found<'_>| found.key.name == key.name && key.prefix().is_none();
            if let Some(first) = found.iter().find(repeats) {
                let message = format!("`{}` and `{written}` mean the same", first.written);
                self.problem(Check::ConflictingKeys.at(entry.key_span, message).hint("keep one of them"));
                continue;
            }
            found.push(Found { key, written, entry });
        }
        let fields = Fields { object, place, found };
        for key in object.all_keys().filter(|key| key.required) {
            // One word about a misspelt key is enough.
            let told = misspelt.iter().any(|near| near.name == key.name);
            if fields.found(key.name).is_none() && !told {
                let message = format!("{} needs `{}`: {}", object.title, key.name, key.doc);
                self.problem(Check::MissingKey.at(head(fields.place.node), message));
            }
        }
        Some(fields)
    }

    // ---- scalars ---------------------------------------------------------------------------------------

    fn wrong_type(&mut self, node: &TreeNode, name: &str, expected: &str) {
        let got = node.value.kind();
        let mut problem = Check::WrongType
            .at(span_of(node), format!("`{name}` takes {expected}, not {}", got.with_article()));
        if node.value.as_object().is_some() && self.written(node).starts_with('{') {
            problem = problem.hint("quote this value");
        }
        self.problem(problem);
    }

    /// A scalar as text: a number or bool as it is written.
    pub(super) fn scalar_text(&mut self, place: &Place<'_>, name: &str) -> Option<EcoString> {
        let value = &place.node.value;
        if let Some(text) = value.as_str() {
            return Some(text.into());
        }
        if matches!(value.kind(), Type::Bool | Type::Int | Type::Float) {
            return Some(self.written(place.node).trim().into());
        }
        self.wrong_type(place.node, name, "text");
        None
    }

    pub(super) fn text(&mut self, fields: &Fields<'_>, name: &str) -> Option<EcoString> {
        let place = fields.get(name)?;
        self.scalar_text(&place, name)
    }

    /// A bool, or what the table says when it is left out.
    pub(super) fn bool(&mut self, fields: &Fields<'_>, name: &str) -> bool {
        let default = fields.object.known(name).default == Some("true");
        self.given_bool(fields, name).unwrap_or(default)
    }

    pub(super) fn given_bool(&mut self, fields: &Fields<'_>, name: &str) -> Option<bool> {
        let place = fields.get(name)?;
        let found = place.node.value.as_bool();
        if found.is_none() {
            self.problem(no_bool(name, place.node));
        }
        found
    }

    /// One of the words of the table, or the one that holds when it is left out.
    pub(super) fn choice(&mut self, fields: &Fields<'_>, name: &str) -> Option<&'static str> {
        self.given_choice(fields, name).or(fields.object.known(name).default)
    }

    fn given_choice(&mut self, fields: &Fields<'_>, name: &str) -> Option<&'static str> {
        let place = fields.get(name)?;
        self.choice_at(&place, name, fields.object.known(name).choices())
    }

    /// One of these words.
    pub(super) fn choice_at(
        &mut self,
        place: &Place<'_>,
        name: &str,
        choices: &'static [Choice],
    ) -> Option<&'static str> {
        let text = self.scalar_text(place, name)?;
        let found =
            choices.iter().find(|choice| choice.name == text || choice.aliases.contains(&text.as_str()));
        if found.is_none() {
            let expected = Form::OneOf(choices).expected();
            let near = nearest(&text, choices.iter().flat_map(Choice::spellings));
            let message = format!("`{name}` takes {expected}, not `{text}`");
            let problem = Check::UnknownChoice.at(place.node.span, message);
            self.problem(match near.filter(|_| hint_for_word(name, &text).is_none()) {
                Some(near) => problem.hint(format!("did you mean `{near}`")),
                None => hint_for_word(name, &text).into_iter().fold(problem, Problem::hint),
            });
        }
        found.map(|choice| choice.name)
    }

    /// A name of the author's own.
    pub(super) fn name(&mut self, fields: &Fields<'_>, name: &str) -> Option<Field<EcoString>> {
        let place = fields.get(name)?;
        let text = self.scalar_text(&place, name)?;
        self.check_name(&text, place.node.span).then(|| place.field(text))
    }

    pub(super) fn check_name(&mut self, text: &str, span: Span) -> bool {
        let fits = forms::is_name(text);
        if !fits {
            let message = format!("`{text}` cannot be a name");
            let hint = "letters, digits, `_` and `-`, not digits alone, and no word of the language";
            self.problem(Check::BadName.at(span, message).hint(hint));
        }
        fits
    }

    // ---- settings --------------------------------------------------------------------------------------

    pub(super) fn duration(&mut self, fields: &Fields<'_>, name: &str) -> Option<Setting<Duration>> {
        self.setting(fields, name, Check::BadDuration, Form::Duration, forms::duration)
    }

    /// A duration that must not be over before it begins.
    pub(super) fn time_limit(&mut self, fields: &Fields<'_>, name: &str) -> Option<Setting<Duration>> {
        let given = self.duration(fields, name);
        if let (Some(Setting::Fixed(Duration::ZERO)), Some(place)) = (&given, fields.get(name)) {
            let message = format!("`{name}` is 0: nothing could be done in that time");
            let without = fields.object.known(name).default.unwrap_or("no limit");
            let hint = format!("leave it out for {without}");
            self.problem(Check::BadDuration.at(span_of(place.node), message).hint(hint));
        }
        given
    }

    pub(super) fn size(&mut self, fields: &Fields<'_>, name: &str) -> Option<Setting<u64>> {
        self.setting(fields, name, Check::BadSize, Form::Size, forms::size)
    }

    /// A part of a whole.
    pub(super) fn fraction(&mut self, fields: &Fields<'_>, name: &str) -> Option<Setting<f64>> {
        self.setting(fields, name, Check::WrongType, Form::Fraction, forms::fraction)
    }

    pub(super) fn count(&mut self, fields: &Fields<'_>, name: &str) -> Option<Setting<u64>> {
        let form = fields.object.known(name).form();
        self.setting(fields, name, Check::WrongType, form, |value| form.count(value))
    }

    pub(super) fn count_at(&mut self, place: &Place<'_>, key: &KeySpec) -> Option<Setting<u64>> {
        let form = key.form();
        self.setting_at(place, key.name, Check::WrongType, form, |value| form.count(value))
    }

    /// A duration that no reference may give.
    pub(super) fn fixed_duration(&mut self, fields: &Fields<'_>, name: &str) -> Option<Duration> {
        let place = fields.get(name)?;
        let read = forms::duration(&place.node.value);
        if read.is_none() {
            let problem = bad_form(Check::BadDuration, place.node, name, Form::Duration);
            self.problem(problem);
        }
        read
    }

    fn setting<T>(
        &mut self,
        fields: &Fields<'_>,
        name: &str,
        check: Check,
        form: Form,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Option<Setting<T>> {
        match fields.get(name) {
            Some(place) => self.setting_at(&place, name, check, form, read),
            // What holds when it is left out stands in the table.
            None => fields.object.known(name).default.and_then(|text| read(&text.into())).map(Setting::Fixed),
        }
    }

    fn setting_at<T>(
        &mut self,
        place: &Place<'_>,
        name: &str,
        check: Check,
        form: Form,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Option<Setting<T>> {
        if matches!(place.node.value.kind(), Type::List | Type::Object) {
            self.problem(bad_form(check, place.node, name, form));
            return None;
        }
        let document = self.document(place)?;
        let Some(value) = document.value.as_fixed() else { return Some(Setting::Dynamic(document)) };
        let found = read(value);
        if found.is_none() {
            self.problem(bad_form(check, place.node, name, form));
        }
        found.map(Setting::Fixed)
    }

    // ---- the language ----------------------------------------------------------------------------------

    /// A document at a place, its templates compiled.
    pub(super) fn document(&mut self, place: &Place<'_>) -> Option<Field<Document>> {
        match Document::compile(&self.syntax, |sink| place.node.feed(sink)) {
            Ok(document) => Some(place.field(document)),
            Err(DocumentError::Templates { errors, rest }) => {
                let origin = place.origin();
                for error in &errors {
                    self.problem(problem::of_language(error, &origin, self.file.text()));
                }
                // What parses is checked with the rest of the file.
                Some(place.field(rest))
            }
            Err(DocumentError::Read(error)) => {
                self.problem(problem::of_reading(&error));
                None
            }
        }
    }

    /// Text with references. A number or a bool stands for its text.
    pub(super) fn template(&mut self, place: &Place<'_>, name: &str) -> Option<Field<Template>> {
        let text = self.scalar_text(place, name)?;
        let (template, errors) = Template::parse_all(text, &self.syntax);
        let origin = place.origin();
        for error in &errors {
            self.problem(problem::of_language(error, &origin, self.file.text()));
        }
        Some(place.field(template))
    }

    pub(super) fn template_of(&mut self, fields: &Fields<'_>, name: &str) -> Option<Field<Template>> {
        let place = fields.get(name)?;
        self.template(&place, name)
    }

    pub(super) fn document_of(&mut self, fields: &Fields<'_>, name: &str) -> Option<Field<Document>> {
        let place = fields.get(name)?;
        self.document(&place)
    }

    /// A condition.
    pub(super) fn expression(&mut self, fields: &Fields<'_>, name: &str) -> Option<Field<Arc<Expression>>> {
        let place = fields.get(name)?;
        let text = self.scalar_text(&place, name)?;
        // The final line break of a block is not part of what was meant.
        match Expression::parse(text.trim_end_matches('\n'), &self.syntax) {
            Ok(expression) => Some(place.field(Arc::new(expression))),
            Err(error) => {
                let problem = problem::of_language(&error, &place.origin(), self.file.text());
                self.problem(problem);
                None
            }
        }
    }

    /// A list of templates: a program and its arguments.
    pub(super) fn templates(&mut self, fields: &Fields<'_>, name: &str) -> Option<Vec<Field<Template>>> {
        let place = fields.get(name)?;
        self.list(&place, name)?;
        let items: Vec<_> = place.items().map(|item| self.template(&item, name)).collect();
        items.into_iter().collect()
    }

    /// The arguments of a program. The plan reports what does not parse: there they are analysed as arguments, where
    /// more filters have a meaning.
    pub(super) fn arguments(&mut self, fields: &Fields<'_>, name: &str) -> Option<Vec<Field<Template>>> {
        let place = fields.get(name)?;
        self.list(&place, name)?;
        let items: Vec<_> = place
            .items()
            .map(|item| {
                let text = self.scalar_text(&item, name)?;
                Some(item.field(Template::parse_all(text, &self.syntax).0))
            })
            .collect();
        items.into_iter().collect()
    }

    /// A list of fixed texts.
    pub(super) fn texts(&mut self, fields: &Fields<'_>, name: &str) -> Option<Vec<EcoString>> {
        let place = fields.get(name)?;
        self.list(&place, name)?;
        let items: Vec<_> = place.items().map(|item| self.scalar_text(&item, name)).collect();
        items.into_iter().collect()
    }

    pub(super) fn list(&mut self, place: &Place<'_>, name: &str) -> Option<()> {
        let is_list = place.node.value.as_list().is_some();
        if !is_list {
            let message = format!("`{name}` takes a list, not {}", shown(&place.node.value));
            let mut problem = Check::WrongType.at(span_of(place.node), message);
            if place.node.value.as_str().is_some() {
                problem = problem.hint(format!("one item for each word: `{name}: [program, argument]`"));
            }
            self.problem(problem);
        }
        is_list.then_some(())
    }

    /// An object whose keys are names of the author's own.
    pub(super) fn map<'n>(&mut self, fields: &Fields<'n>, name: &str) -> Option<Place<'n>> {
        let place = fields.get(name)?;
        if place.node.value.is_null() {
            return None;
        }
        if place.node.value.as_object().is_none() {
            self.wrong_type(place.node, name, "an object of names");
            return None;
        }
        Some(place)
    }

    /// Variables of an environment.
    pub(super) fn variables(&mut self, fields: &Fields<'_>) -> Vec<Variable> {
        let Some(place) = self.map(fields, "env") else { return Vec::new() };
        let mut variables = Vec::new();
        for (name, entry, at) in place.entries() {
            if !forms::is_variable(name) {
                let message = format!("`{name}` cannot be the name of an environment variable");
                self.problem(Check::BadName.at(entry.key_span, message));
                continue;
            }
            let is_null = entry.node.value.is_null();
            let value = if is_null { None } else { self.template(&at, name) };
            if is_null || value.is_some() {
                variables.push(Variable { name: name.into(), span: entry.key_span, value });
            }
        }
        variables
    }

    /// Keys that do not go with what the step does.
    pub(super) fn check_applies(&mut self, fields: &Fields<'_>, action: ActionName) {
        for found in fields.all() {
            let on = found.key.on;
            if on.is_empty() || on.contains(&action) {
                continue;
            }
            let goes: Vec<String> = on.iter().map(|action| format!("`{}`", action.key())).collect();
            let message = format!("`{}` does not go with `{}`", found.written, action.key());
            let note = format!("it goes with {}", goes.join(", "));
            self.problem(Check::KeyNotHere.at(found.entry.key_span, message).note(note));
        }
    }
}

/// Where an object begins: its first key, so that an excerpt points at one line.
pub(super) fn head(node: &TreeNode) -> Span {
    match node.entries().next() {
        // Of an alias only the alias stands here.
        Some((_, entry))
            if node.span.start <= entry.key_span.start && entry.key_span.end <= node.span.end =>
        {
            entry.key_span
        }
        _ => Span { end: node.span.end.min(node.span.start + 1), ..node.span },
    }
}

/// The bytes to point at: of an object only its beginning.
pub(super) fn span_of(node: &TreeNode) -> Span {
    if node.value.as_object().is_some() { head(node) } else { node.span }
}

fn bad_form(check: Check, node: &TreeNode, name: &str, form: Form) -> Problem {
    check.at(span_of(node), format!("`{name}` takes {}, not {}", form.expected(), shown(&node.value)))
}

/// A value in a message: what a scalar is, and otherwise its type.
pub(super) fn shown(value: &Value) -> String {
    match value.kind() {
        Type::List | Type::Object | Type::Null => value.kind().with_article().to_owned(),
        Type::Text => format!("the text `{}`", threadline_lang::diag::excerpt(value).trim_matches('"')),
        _ => format!("`{}`", threadline_lang::diag::excerpt(value)),
    }
}

/// What is said of something that is neither `true` nor `false`.
pub(super) fn no_bool(name: &str, node: &TreeNode) -> Problem {
    let message = format!("`{name}` takes `true` or `false`, not {}", shown(&node.value));
    let problem = Check::WrongType.at(span_of(node), message);
    match node.value.as_str().unwrap_or_default().to_ascii_lowercase().as_str() {
        "yes" | "on" | "true" => problem.hint("write `true`, without quotes"),
        "no" | "off" | "false" => problem.hint("write `false`, without quotes"),
        _ => problem,
    }
}

pub(super) fn unknown_key(object: &'static ObjectSpec, key: &str, span: Span) -> Problem {
    match object.find_unsupported(key) {
        Some(UnsupportedKey::Replaced(instead)) => {
            Check::OldKey.at(span, format!("{} has no `{key}` here", object.title)).hint(instead)
        }
        Some(UnsupportedKey::NotYet(meanwhile)) => {
            let problem = Check::NotInVersion.at(span, format!("`{key}` is not in this version"));
            match meanwhile {
                Some(meanwhile) => problem.hint(meanwhile),
                None => problem,
            }
        }
        Some(UnsupportedKey::OtherShape(shape)) => Check::OtherShape
            .at(
                span,
                format!(
                    "`{key}` makes this {shape}: this version runs lists of steps, graphs, map-reduce and loops"
                ),
            )
            .hint("write what is to be done as a list under `steps:`"),
        None => {
            let problem = Check::UnknownKey.at(span, format!("{} has no key `{key}`", object.title));
            if let Some(near) = nearest(key, object.names()) {
                return problem.hint(format!("did you mean `{near}`"));
            }
            let names: Vec<&str> = object.all_keys().map(|key| key.name).collect();
            problem.note(format!("keys: {}", names.join(", ")))
        }
    }
}
