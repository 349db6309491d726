//! Checks where secrets are read.
//!
//! A secret is only read by what acts: it goes to a program, a server or a file, and what is recorded of that field has
//! a mask in its place. A field whose value is recorded, compared or passed on cannot read one. Nothing here knows the
//! value of a secret.

use std::sync::Arc;

use ecow::EcoString;
use threadline_lang::diag::Span;
use threadline_lang::{Binding, Origin, Reference, ReferenceKind};

use super::check::{Checked, Checker, Readable, readable};
use crate::checks::Check;
use crate::files::is_user_agents;
use crate::forms;
use crate::model::{
    Field, FieldKind, FieldOwner, Moment, SECRETS_ROOT, SOURCE, Secret, SecretSource, StepField,
    agent_fields, limit_fields, server_fields, step_fields,
};

/// What may be made of a secret: whatever it gives can be masked like the secret itself.
const MASKABLE_USES: [&str; 6] = ["+", "{}", "default", "base64", "url", "to_json"];

/// What a field does with a secret.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SecretField {
    /// It hands it to a program, a server or a file.
    Uses,
    /// It makes it an argument of a program.
    Argument,
    /// It records it, or decides something by it.
    Records,
}

impl SecretField {
    fn of(field: &StepField<'_>) -> Self {
        let acts = matches!(field.moment, Moment::Attempt | Moment::Judgement);
        match field.kind {
            FieldKind::Argv(_) | FieldKind::Command(_) => Self::Argument,
            FieldKind::Script { .. } | FieldKind::Variable(_) => Self::Uses,
            FieldKind::Url(_)
            | FieldKind::Header { .. }
            | FieldKind::Query(_)
            | FieldKind::Params(_)
            | FieldKind::Content(..)
                if acts =>
            {
                Self::Uses
            }
            FieldKind::Value(_) if acts && field.key == "body" => Self::Uses,
            // These go into the requests of a provider, and nowhere else.
            FieldKind::Text(_) | FieldKind::Value(_)
                if field.owner == FieldOwner::Agent && matches!(field.key, "api_key" | "headers") =>
            {
                Self::Uses
            }
            FieldKind::Text(_) if acts && matches!(field.key, "message" | "evaluate.prompt") => Self::Uses,
            _ => Self::Records,
        }
    }
}

impl Checker<'_> {
    /// Checks every field that reads a secret, and finds out when the fields of each step do.
    pub(super) fn secrets(&mut self, found: &[Checked]) -> Vec<Vec<Moment>> {
        let workflow = Arc::clone(&self.plan.workflow);
        for entry in workflow.context.iter().flat_map(|context| &context.entries) {
            self.recorded_secrets("context", Readable::Value(&entry.written));
        }
        for lock in &workflow.locks {
            self.recorded_secrets("locks", Readable::Text(lock));
        }
        for (_, value) in &workflow.exports {
            self.recorded_secrets("exports", Readable::Value(value));
        }
        let limits = limit_fields(&workflow);
        let variables = workflow.env.iter().map(|variable| StepField {
            key: "env",
            name: "env".into(),
            kind: FieldKind::Variable(variable),
            moment: Moment::Attempt,
            owner: FieldOwner::Workflow,
        });
        let agents = workflow.agents.iter().flat_map(agent_fields);
        let servers = workflow.servers.iter().flat_map(server_fields);
        for field in variables.chain(agents).chain(servers).chain(limits) {
            self.secret_field(&field, None);
        }
        let steps = self.plan.steps.iter().map(|planned| Arc::clone(&planned.step)).collect::<Vec<_>>();
        let mut moments = Vec::with_capacity(steps.len());
        for (step, checked) in steps.iter().zip(found) {
            let mut when = Vec::new();
            for field in step_fields(&workflow, step) {
                // What all steps share was looked at above.
                let reads = if field.owner == FieldOwner::Step {
                    self.secret_field(&field, Some(checked))
                } else {
                    field_references(&field, None).iter().any(|(_, reference)| is_secret(reference))
                };
                if reads && !when.contains(&field.moment) {
                    when.push(field.moment);
                }
            }
            moments.push(when);
        }
        moments
    }

    /// Checks what one field reads. Whether it reads a secret.
    fn secret_field(&mut self, field: &StepField<'_>, checked: Option<&Checked>) -> bool {
        let mut reads = false;
        for (origin, reference) in field_references(field, checked) {
            self.secret_variable(&origin, &reference);
            if !self.is_declared(&reference) {
                continue;
            }
            reads = true;
            if self.is_of_user(&origin, &reference) {
                self.secret_of_user(&origin, &reference);
                continue;
            }
            match SecretField::of(field) {
                SecretField::Records => {
                    let name = if field.key == SOURCE { field.name.as_str() } else { field.key };
                    self.recorded(name, &origin, &reference);
                }
                SecretField::Argument => {}
                SecretField::Uses => self.secret_use(&origin, &reference),
            }
        }
        for (origin, reference) in argument_references(field, checked) {
            if self.is_declared(&reference) && !self.is_of_user(&origin, &reference) {
                self.secret_argument(&origin, &reference);
            }
        }
        if let (FieldKind::Script { text, .. }, Some(script)) =
            (field.kind, checked.and_then(|checked| checked.script.as_ref()))
        {
            for reference in script.bound_as(Binding::Raw) {
                if self.is_declared(&reference) {
                    self.used(&text.origin, &reference, "raw");
                }
            }
        }
        reads
    }

    /// Whether a reference reads a secret. One that is not declared is reported as an unknown name.
    fn is_declared(&self, reference: &Reference) -> bool {
        let declared = &self.plan.workflow.secrets;
        let is_known = |name: &EcoString| declared.iter().any(|secret| secret.name == *name);
        is_secret(reference) && !declared.is_empty() && reference.first.as_ref().is_none_or(is_known)
    }

    /// Refuses secrets in a field outside of steps that is recorded.
    fn recorded_secrets(&mut self, key: &'static str, field: Readable<'_>) {
        for (origin, reference) in field.references() {
            self.secret_variable(&origin, &reference);
            if self.is_of_user(&origin, &reference) {
                self.secret_of_user(&origin, &reference);
            } else if self.is_declared(&reference) {
                self.recorded(key, &origin, &reference);
            }
        }
    }

    /// Whether a reference outside of the user-wide file reads a secret that only that file declares.
    fn is_of_user(&mut self, origin: &Origin, reference: &Reference) -> bool {
        let workflow = Arc::clone(&self.plan.workflow);
        let stands_there = |span: Span| is_user_agents(workflow.file.placed(span.range().start).name);
        let named = |secret: &&Secret| reference.first.as_ref() == Some(&secret.name);
        let secret = workflow.secrets.iter().find(named).filter(|_| is_secret(reference));
        secret.is_some_and(|secret| stands_there(secret.span))
            && !stands_there(self.place(origin, reference.span))
    }

    fn secret_of_user(&mut self, origin: &Origin, reference: &Reference) {
        let name = secret_name(reference);
        let span = self.place(origin, reference.span);
        let message = format!(
            "the secret `{name}` is declared in the user-wide file of agents, and only settings in that file read it"
        );
        let hint = format!("declare it here, as in `secrets: {{{name}: {{env: {name}}}}}`");
        self.problem(Check::SecretPlace.at(span, message).hint(hint));
    }

    fn recorded(&mut self, key: &str, origin: &Origin, reference: &Reference) {
        let name = secret_name(reference);
        let span = self.place(origin, reference.span);
        let key = key.rsplit('.').next().unwrap_or(key);
        let message =
            format!("`{key}` is recorded or decides something, so it cannot read the secret `{name}`");
        let hint = match key {
            "with" => {
                format!("declare it in the called workflow: `secrets: {{{name}: VARIABLE}}`")
            }
            "expect" | "when" | "condition" | "filter" | "route" => {
                "decide in a step that gets the secret in `env:`, by its exit code".to_owned()
            }
            _ => format!(
                "read `${{secrets.{name}}}` where it is used: in shell text, `env`, `http`, `params`, `message` or \
                 the content of a file"
            ),
        };
        self.problem(Check::SecretPlace.at(span, message).hint(hint));
    }

    fn secret_argument(&mut self, origin: &Origin, reference: &Reference) {
        let name = secret_name(reference);
        let span = self.place(origin, reference.span);
        let message = format!(
            "the secret `{name}` would be an argument of a program, which every user of the computer can see"
        );
        let hint = format!("pass it in the environment: `env: {{{name}: \"${{secrets.{name}}}\"}}`");
        self.problem(Check::SecretArgument.at(span, message).hint(hint));
    }

    /// Checks what is made of a secret in a field that may read it.
    fn secret_use(&mut self, origin: &Origin, reference: &Reference) {
        if reference.first.is_none() {
            let span = self.place(origin, reference.span);
            let message = "`secrets` cannot be read as a whole";
            self.problem(Check::SecretUse.at(span, message).hint("name one: `${secrets.NAME}`"));
        } else if let Some(used) = reference.uses.iter().find(|used| !MASKABLE_USES.contains(&used.as_str()))
        {
            self.used(origin, reference, used);
        }
    }

    fn used(&mut self, origin: &Origin, reference: &Reference, used: &str) {
        let name = secret_name(reference);
        let span = self.place(origin, reference.span);
        let used = if used == "[]" { "[...]" } else { used };
        let message = format!("`{used}` makes something of the secret `{name}` that could not be masked");
        let hint = "join it with text, or use `base64`, `url`, `to_json` or `default`";
        self.problem(Check::SecretUse.at(span, message).hint(hint));
    }

    /// Warns of a variable that looks like a secret: what is read from the environment is recorded.
    fn secret_variable(&mut self, origin: &Origin, reference: &Reference) {
        let Some(name) = reference.first.as_ref().filter(|_| reference.root == "env") else { return };
        if reference.kind != ReferenceKind::Path || !forms::is_secret_name(name) {
            return;
        }
        let source = SecretSource::Variable(name.clone());
        let declared = self.plan.workflow.secrets.iter().find(|secret| secret.source == source);
        let declared = declared.map(|secret| format!("read `${{secrets.{}}}`", secret.name));
        let span = self.place(origin, reference.span);
        let message = format!("`{name}` looks like a secret, and what `env.{name}` gives is recorded");
        let hint = declared.unwrap_or_else(|| {
            format!("declare it with `secrets: {{{name}: {name}}}`, and read `${{secrets.{name}}}`")
        });
        self.problem(Check::SecretInEnv.at(span, message).hint(hint));
    }
}

fn is_secret(reference: &Reference) -> bool {
    reference.kind == ReferenceKind::Path && reference.root == SECRETS_ROOT
}

fn secret_name(reference: &Reference) -> EcoString {
    reference.first.clone().unwrap_or_else(|| "NAME".into())
}

/// What a field puts into the arguments of a program, and where.
fn argument_references(field: &StepField<'_>, checked: Option<&Checked>) -> Vec<(Origin, Reference)> {
    match field.kind {
        FieldKind::Argv(words) => {
            let argv = checked.and_then(|checked| checked.argv.as_ref());
            let references = argv.map(crate::shell::Argv::visible_references).unwrap_or_default();
            references.into_iter().map(|(at, reference)| (words[at].origin.clone(), reference)).collect()
        }
        FieldKind::Command(_) => field_references(field, checked),
        _ => Vec::new(),
    }
}

/// Everything that a field reads, and where.
fn field_references(field: &StepField<'_>, checked: Option<&Checked>) -> Vec<(Origin, Reference)> {
    let texts = |words: &[Field<threadline_lang::Template>]| {
        let of = |word: &Field<threadline_lang::Template>| Readable::Text(word).references();
        words.iter().flat_map(of).collect()
    };
    match field.kind {
        FieldKind::Script { text, .. } => {
            let script = checked.and_then(|checked| checked.script.as_ref());
            let references = script.map(crate::shell::ShellScript::references).unwrap_or_default();
            references.into_iter().map(|reference| (text.origin.clone(), reference)).collect()
        }
        FieldKind::Argv(words) => match checked.and_then(|checked| checked.argv.as_ref()) {
            Some(argv) => {
                let placed = |(at, reference): (usize, Reference)| (words[at].origin.clone(), reference);
                argv.references().into_iter().map(placed).collect()
            }
            None => texts(words),
        },
        FieldKind::Given(given) => Readable::Value(&given.value).references(),
        FieldKind::Expectations(expectations, _) => {
            let of = |dynamic: threadline_expect::Dynamic<'_>| match dynamic {
                threadline_expect::Dynamic::Value(field) => Readable::Expected(field).references(),
                threadline_expect::Dynamic::Expression(field) => {
                    Readable::ExpectedCondition(field).references()
                }
            };
            expectations.value.dynamics().into_iter().flat_map(of).collect()
        }
        kind => readable(kind).into_iter().flat_map(Readable::references).collect(),
    }
}
