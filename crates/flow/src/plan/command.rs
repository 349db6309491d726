//! Checks the commands of steps: shell text and arguments, with the names that are in scope.

use std::sync::Arc;

use ecow::EcoString;
use threadline_lang::diag::{Fix, Severity, Span};
use threadline_lang::{Embedded, Error, Expression, Origin, Reference, Scope, Template, Type};

use super::check::{Checker, Handled, Reader, is_handled};
use super::{LOOP_ROOTS, ROOTS, RUN, Read};
use crate::checks::Check;
use crate::model::{Action, Field, FieldKind, Moment, SECRETS_ROOT, Step, StepField, Variable};
use crate::problem::{self, Problem};
use crate::shell::{
    self, AnalysisContext, Argv, Dialect, EnvironmentName, InferredReference, ShellProblem, ShellScript,
    UnknownPolicy, is_code_variable,
};

/// The roots that are names of the shell where a script sets them.
const RUN_AND_LOOP: [&str; 5] = {
    let [first, second, third, fourth] = LOOP_ROOTS;
    [RUN, first, second, third, fourth]
};

impl Checker<'_> {
    /// Analyses shell text and checks its references.
    pub(super) fn script(
        &mut self,
        reader: Reader,
        step: &Step,
        text: &Field<EcoString>,
        interpolate: bool,
        reads: &mut Vec<Read>,
    ) -> Option<ShellScript> {
        let dialect = self.dialect(step, interpolate)?;
        let (script, problems) = self.analyse(reader, step, dialect, text, interpolate);
        for problem in problems {
            let edits = if problem.id == Check::ShellEvaluates.id() && problem.fix.is_none() {
                let range = problem.span.range();
                let mut edits = script.values_from_environment(&text.value, range.start);
                if edits.is_empty() && dialect == Dialect::Bash {
                    edits.extend(script.checked_numbers(&text.value, &range));
                }
                edits
            } else {
                Vec::new()
            };
            self.shell_problem_with(&problem, &text.origin, edits);
        }
        for path in script.written() {
            if !self.written_files.contains(path) {
                self.written_files.push(path.clone());
            }
        }
        let references = script.references();
        let uses_prev = references.iter().any(|reference| reference.root == "prev");
        let handled = self.references(reader, &text.origin, &references, reads);
        if !self.is_full() {
            let scope = self.scope(reader, uses_prev);
            self.errors(reader, &script.check(&scope), &text.origin, &handled);
            for typed in script.infer(&scope) {
                self.typed(reader, typed, &text.origin, &handled);
            }
        }
        Some(script)
    }

    fn analyse(
        &self,
        reader: Reader,
        step: &Step,
        dialect: Dialect,
        text: &Field<EcoString>,
        interpolate: bool,
    ) -> (ShellScript, Vec<ShellProblem>) {
        let workflow = &self.plan.workflow;
        let environment = self.environment_names(step);
        let scope = self.scope(reader, true);
        let is_plain = |reference: &Embedded| is_plain(reference, &scope);
        let roots =
            |name: &str| name == RUN || self.is_root(name) || self.names.find(reader.scope, name).is_some();
        let literal = |name: &str| {
            if let Some(param) = name.strip_prefix("param.") {
                return self.literal_param(reader, param);
            }
            let entries = workflow.context.as_ref().map(|context| &context.entries)?;
            entries.iter().find(|entry| entry.name == name)?.literal.clone()
        };
        let known = || {
            let mut names = self.names.scopes[reader.scope].scope.names();
            names.extend(ROOTS.map(EcoString::from));
            names
        };
        let context = AnalysisContext {
            dialect,
            syntax: &workflow.syntax,
            roots: &roots,
            tables: if self.is_loop() { &RUN_AND_LOOP } else { &[RUN] },
            known: &known,
            environment: &environment,
            files: &self.written_files,
            is_plain: &is_plain,
            unknown: self.unknown_policy(step),
            is_verbatim: !interpolate,
            literal: &literal,
        };
        shell::analyse(&text.value, &context)
    }

    /// Notes the files that steps write with values in them, so that no script runs one of them.
    pub(super) fn note_written_files(&mut self) {
        for planned in &self.plan.steps {
            let Action::WriteFile(file) = &planned.step.action else { continue };
            let Some(path) = file.path.value.as_plain() else { continue };
            if file.content.value.as_fixed().is_none() {
                self.written_files.push(path.trim_start_matches("./").into());
            }
        }
    }

    /// The variables that `env:` sets for the shell of a step.
    fn environment_names(&self, step: &Step) -> Vec<EnvironmentName> {
        step.env.iter().chain(&self.plan.workflow.env).map(environment_name).collect()
    }

    /// Analyses the commands of agents and servers. Their values are not checked when they start, so what
    /// would need that is refused.
    pub(super) fn shared_commands(&mut self, fields: Vec<StepField<'_>>, variables: &[Variable]) {
        let environment: Vec<EnvironmentName> = variables.iter().map(environment_name).collect();
        let scope = self.names.outer.clone();
        for field in fields {
            let FieldKind::Command(entries) = field.kind else { continue };
            let is_plain = |reference: &Embedded| is_plain(reference, &scope);
            let context = AnalysisContext {
                environment: &environment,
                files: &self.written_files,
                is_plain: &is_plain,
                unknown: self.plan.workflow.unknown_commands,
                ..AnalysisContext::new(Dialect::Posix, &self.plan.workflow.syntax, &|_| true)
            };
            let sources: Vec<&str> = entries.iter().map(|entry| entry.value.source()).collect();
            let (argv, problems) = Argv::analyse(&sources, &context);
            let problems = problems.into_iter().filter(|(_, problem)| problem.severity == Severity::Error);
            for (at, problem) in problems.chain(argv.needed_checks()) {
                if is_reported(&problem, &entries[at]) {
                    continue;
                }
                self.shell_problem(&problem, &entries[at].origin);
            }
        }
    }

    fn unknown_policy(&self, step: &Step) -> UnknownPolicy {
        if step.trust.is_some() { UnknownPolicy::Trust } else { self.plan.workflow.unknown_commands }
    }

    /// The dialect of the shell that runs a step.
    fn dialect(&mut self, step: &Step, interpolate: bool) -> Option<Dialect> {
        let Some(program) = &step.shell_program else { return Some(Dialect::Bash) };
        let dialect = Dialect::of_program(&program.value);
        if dialect.is_none() && interpolate {
            let message =
                format!("references cannot be bound for `{}`, whose quoting is not known", program.value);
            let hint = "use `bash`, `sh` or `zsh`, or set `interpolate: false`";
            self.problem(Check::UnknownShell.at(program.origin.span, message).hint(hint));
        }
        dialect
    }

    /// Analyses a program and its arguments, and checks their references.
    pub(super) fn argv(
        &mut self,
        reader: Reader,
        step: &Step,
        entries: &[Field<Template>],
        reads: &mut Vec<Read>,
    ) -> Argv {
        let sources: Vec<&str> = entries.iter().map(|entry| entry.value.source()).collect();
        let (argv, problems) = self.analyse_argv(reader, step, &sources);
        for (at, problem) in problems {
            if !is_reported(&problem, &entries[at]) {
                self.shell_problem(&problem, &entries[at].origin);
            }
        }
        let references = argv.references();
        let uses_prev = references.iter().any(|(_, reference)| reference.root == "prev");
        let mut handled = Vec::new();
        for (at, reference) in &references {
            let origin = &entries[*at].origin;
            handled.extend(self.references(reader, origin, std::slice::from_ref(reference), reads));
        }
        if !self.is_full() {
            let scope = self.scope(reader, uses_prev);
            for (at, error) in argv.check(&scope) {
                self.errors(reader, &[error], &entries[at].origin, &handled);
            }
            for (at, typed) in argv.infer(&scope) {
                self.typed(reader, typed, &entries[at].origin, &handled);
            }
        }
        argv
    }

    fn analyse_argv(
        &self,
        reader: Reader,
        step: &Step,
        sources: &[&str],
    ) -> (Argv, Vec<(usize, ShellProblem)>) {
        let scope = self.scope(reader, true);
        let is_plain = |reference: &Embedded| is_plain(reference, &scope);
        let environment = self.environment_names(step);
        let context = AnalysisContext {
            environment: &environment,
            files: &self.written_files,
            is_plain: &is_plain,
            unknown: self.unknown_policy(step),
            ..AnalysisContext::new(Dialect::Posix, &self.plan.workflow.syntax, &|_| true)
        };
        Argv::analyse(sources, &context)
    }

    /// Notes what references read. Returns those whose problem was reported.
    fn references(
        &mut self,
        reader: Reader,
        origin: &Origin,
        references: &[Reference],
        reads: &mut Vec<Read>,
    ) -> Vec<Handled> {
        let mut handled = Vec::new();
        for reference in references {
            if self.reference(reader, origin, reference, reads) {
                handled.push((origin.span.start, reference.span));
            }
        }
        handled
    }

    fn errors(&mut self, reader: Reader, errors: &[Error], origin: &Origin, handled: &[Handled]) {
        for error in errors {
            if !is_handled(handled, origin, error) && !self.is_asked(reader, error) {
                let problem = problem::of_language(error, origin, self.plan.workflow.file.text());
                self.problem(problem);
            }
        }
    }

    fn typed(&mut self, reader: Reader, typed: InferredReference, origin: &Origin, handled: &[Handled]) {
        self.errors(reader, &typed.inferred.errors, origin, handled);
        self.warnings(typed.inferred.warnings, origin);
        if let Some(refused) = typed.refused {
            self.shell_problem(&refused, origin);
        }
    }

    /// Analyses the text of `cmd:`, in which references are bound as in a step.
    pub(super) fn bound_command(&mut self, origin: &Origin, reference: &Reference) {
        let Some(text) = reference.path.strip_prefix("cmd:") else {
            return self.command_call(origin, reference);
        };
        let (script, problems) = shell::analyse_command(text, Dialect::Bash, &self.plan.workflow.syntax);
        if script.is_empty() {
            return;
        }
        let from = reference.span.start + 4;
        for problem in problems {
            let span = Span { start: from + problem.span.start, end: from + problem.span.end };
            self.shell_problem(&ShellProblem { span, fix: None, ..problem }, origin);
        }
    }

    /// Analyses `cmd("text", arguments...)`: the text uses its arguments as `$1`, `$2` and so on.
    fn command_call(&mut self, origin: &Origin, reference: &Reference) {
        let workflow = Arc::clone(&self.plan.workflow);
        let Ok(expression) = Expression::parse(reference.path.clone(), &workflow.syntax) else { return };
        let Some((text, arguments)) = expression.command_call() else { return };
        let (_, problems) = shell::analyse_command_call(text, arguments, workflow.unknown_commands);
        for problem in problems {
            self.shell_problem(&ShellProblem { span: reference.span, fix: None, ..problem }, origin);
        }
    }

    fn shell_problem(&mut self, problem: &ShellProblem, origin: &Origin) {
        self.shell_problem_with(problem, origin, Vec::new());
    }

    /// A problem that these changes of the shell text put right.
    fn shell_problem_with(&mut self, problem: &ShellProblem, origin: &Origin, edits: Vec<Fix>) {
        let text = self.plan.workflow.file.text();
        let mut problem = problem::of_shell(problem, origin, text);
        if !edits.is_empty() {
            let edits: Option<Vec<Fix>> =
                edits.into_iter().map(|edit| problem::fix_in(origin, edit, text)).collect();
            problem.fix = edits.and_then(|edits| problem::joined(text, edits));
            if problem.fix.as_ref().is_some_and(|fix| fix.text.contains("environ")) {
                let hint = "let the program read it from its environment: `threadline migrate` writes that";
                problem.hints.push(hint.to_owned());
            }
        }
        if let Some(name) = self.replaced(&problem) {
            let hint = format!(
                "`context.{name}` was set from outside and would run as code: pass `--trust-set` to allow it"
            );
            (problem.hints, problem.fix) = (vec![hint], None);
        }
        self.unknown_root(Moment::Attempt, problem);
    }

    /// The entry of `context` that would be code there if its text had not been replaced.
    fn replaced(&self, problem: &Problem) -> Option<&EcoString> {
        if problem.id != Check::ShellEvaluates.id() {
            return None;
        }
        let text = self.plan.workflow.file.text().get(problem.span.range())?;
        let references = Template::parse_all(text, &self.plan.workflow.syntax).0.references();
        let [reference] = &references[..] else { return None };
        let name = reference.first.as_ref().filter(|_| reference.root == "context")?;
        let mut entries = self.plan.workflow.context.iter().flat_map(|context| &context.entries);
        // A text that comes from the file is a literal.
        let entry = entries.find(|entry| entry.name == *name && entry.literal.is_none())?;
        entry.written.value.as_fixed().filter(|value| value.as_str().is_some()).map(|_| &entry.name)
    }

    /// Refuses references in environment variables whose value is code for some program.
    pub(super) fn code_variables(&mut self, variables: &[Variable]) {
        for variable in variables {
            let Some(value) = &variable.value else { continue };
            if is_code_variable(&variable.name) && value.value.as_plain().is_none() {
                let message =
                    format!("programs run `{}` as code, so it cannot contain a reference", variable.name);
                let hint = "write out the value, or use another variable";
                self.problem(Check::CodeVariable.at(value.origin.span, message).hint(hint));
            }
        }
    }
}

/// Whether a problem is about a secret that stands in the argument itself, which is reported with its place.
fn is_reported(problem: &ShellProblem, entry: &Field<Template>) -> bool {
    problem.id == Check::SecretArgument.id()
        && entry.value.references().iter().any(|reference| reference.root == SECRETS_ROOT)
}

/// Whether a reference can only be a number or a truth value, whose text is never code.
fn is_plain(reference: &Embedded, scope: &Scope) -> bool {
    let inferred = reference.infer(scope);
    inferred.errors.is_empty() && matches!(inferred.types().only(), Some(Type::Int | Type::Bool))
}

fn environment_name(variable: &Variable) -> EnvironmentName {
    let holds_value = variable.value.as_ref().is_some_and(|value| value.value.as_plain().is_none());
    let references = variable.value.iter().flat_map(|value| value.value.references());
    let mut secrets = references.filter(|reference| reference.root == SECRETS_ROOT);
    let secret = secrets.find_map(|reference| reference.first);
    EnvironmentName { name: variable.name.clone(), holds_value, secret }
}
