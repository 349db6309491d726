//! The cases again, through the library instead of the binary: both give the same values and the same errors.
//!
//! Left out are cases with several commands, wrong calls, flags that only the binary has, and those that ask the world for
//! more than the environment.

use std::path::Path;

use crate::support;
use crate::support::case::{self, Case};
use threadline_lang::data::{self, DataFormat};
use threadline_lang::value::JsonStyle;
use threadline_lang::{
    ComputeError, Document, DocumentError, Envelope, Error, Expression, Limits, NoWorld, Scope, ScopeEntry,
    Session, Syntax, Template, Undefined, Value, World, parse_path,
};

/// So many cases at least must not be left out.
const LEAST: usize = 700;

#[test]
fn library_and_binary_agree() {
    let cases = case::all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases"));
    let answers: Vec<Result<(), String>> = cases.iter().filter_map(check).collect();
    let failures: Vec<String> = answers.iter().filter_map(|answer| answer.clone().err()).collect();
    support::report(&failures, answers.len());
    assert!(answers.len() >= LEAST, "only {} of {} cases were checked", answers.len(), cases.len());
}

/// Nothing when the case is not for the library.
fn check(case: &Case) -> Option<Result<(), String>> {
    if case.commands.len() != 1 || case.varies() || case.is_misuse() {
        return None;
    }
    let call = Call::parse(&case.commands[0])?;
    let mut world = Environment { asked: false };
    let answer = call.answer(case, &mut world)?;
    if world.asked {
        return None;
    }
    let (expected, actual) = match &answer {
        Answer::Text(text) => (case.expected_stdout().to_owned(), text.clone()),
        Answer::Errors(lines) => {
            let expected = case.expected_stderr().lines().find(|line| line.starts_with("error"));
            let expected = expected.unwrap_or("no error").to_owned();
            let found = lines.iter().find(|line| **line == expected).or(lines.first());
            (expected, found.cloned().unwrap_or_default())
        }
    };
    Some(match support::difference("binary and library", &expected, &actual) {
        Some(difference) => Err(format!("{}\n  $ {}\n{difference}", case.name(), case.commands[0])),
        None => Ok(()),
    })
}

/// What a call came to.
enum Answer {
    /// What the binary prints.
    Text(String),
    /// The first lines of the errors.
    Errors(Vec<String>),
}

/// The environment that the binary is run in, and nothing else.
struct Environment {
    /// Whether something else was asked for.
    asked: bool,
}

impl World for Environment {
    fn compute(&mut self, name: &str, args: &[Value]) -> Result<Value, ComputeError> {
        let variable = args.first().and_then(Value::as_str).unwrap_or_default();
        match (name, variable) {
            ("env", "HOME") => Ok("/home/user".into()),
            ("env", "GREETING") => Ok("hello".into()),
            ("env", "NO_COLOR") => Ok("1".into()),
            ("env", variable) if variable != "PATH" => Err(ComputeError::Missing { nearest: None }),
            _ => {
                self.asked = true;
                Ok(Value::NULL)
            }
        }
    }
}

/// A command line of the binary, as far as the library has the same.
#[derive(Default)]
struct Call {
    command: String,
    data: Option<String>,
    outputs: Option<String>,
    settings: Vec<(String, bool)>,
    undefined: Undefined,
    subject: String,
}

impl Call {
    fn parse(line: &str) -> Option<Self> {
        let (words, stdin) = support::command_line(line).ok()?;
        if stdin.is_some() {
            return None;
        }
        let mut words = words.into_iter().skip(1);
        let mut call = Self { command: words.next()?, ..Self::default() };
        let (mut subject, mut behind) = (None, false);
        while let Some(word) = words.next() {
            match word.as_str() {
                "--" if !behind => behind = true,
                "--data" if !behind => call.data = Some(words.next()?),
                "--outputs" if !behind => call.outputs = Some(words.next()?),
                "--set" if !behind => call.settings.push((words.next()?, false)),
                "--set-json" if !behind => call.settings.push((words.next()?, true)),
                "--undefined" if !behind => {
                    call.undefined = match words.next()?.as_str() {
                        "keep" => Undefined::Keep,
                        "empty" => Undefined::Empty,
                        _ => Undefined::Error,
                    }
                }
                flag if flag.starts_with('-') && !behind => return None,
                _ if subject.is_some() => return None,
                _ => subject = Some(word),
            }
        }
        call.subject = subject?;
        Some(call)
    }

    fn answer(&self, case: &Case, world: &mut Environment) -> Option<Answer> {
        let mut document = match self.command.as_str() {
            "resolve" => match self.document(case)? {
                Ok(document) => Some(document),
                Err(answer) => return Some(answer),
            },
            _ => None,
        };
        let scope = match self.scope(case, document.as_mut())? {
            Ok(scope) => scope,
            Err(answer) => return Some(answer),
        };
        let mut session = Session::new(world).undefined(self.undefined);
        // As the commands do: names that do not exist end the matter before anything is evaluated.
        let unknown = |checked: Vec<Error>| {
            let all: Vec<Error> =
                checked.into_iter().filter(|error| !self.undefined.tolerates(error)).collect();
            all.iter().any(Error::is_unknown_name).then(|| errors(&all))
        };
        Some(match (self.command.as_str(), document) {
            ("eval", _) => match Expression::parse(self.subject.as_str(), &Syntax::DEFAULT) {
                Err(error) => errors(&[error]),
                Ok(expression) => unknown(expression.check(&scope)).unwrap_or_else(|| {
                    match expression.value(&scope, &mut session) {
                        Ok(value) => Answer::Text(format!("{}\n", value.to_json(JsonStyle::Compact))),
                        Err(error) => errors(&[error]),
                    }
                }),
            },
            ("render", _) => match Template::parse_all(self.subject.as_str(), &Syntax::DEFAULT) {
                (template, mut all) if !all.is_empty() => {
                    all.extend(template.check(&scope));
                    all.sort_by_key(|error| error.span().start);
                    errors(&all)
                }
                (template, _) => unknown(template.check(&scope)).unwrap_or_else(|| {
                    let mut out = String::new();
                    match template.text(&scope, &mut session, &mut out) {
                        Ok(()) => Answer::Text(out),
                        Err(error) => errors(&[error]),
                    }
                }),
            },
            ("resolve", Some(document)) => unknown(document.check(&scope)).unwrap_or_else(|| match document
                .resolve(&scope, &mut session)
            {
                Ok(value) => Answer::Text(format!("{}\n", value.to_json(JsonStyle::Pretty))),
                Err(all) => errors(&all),
            }),
            _ => return None,
        })
    }

    fn document(&self, case: &Case) -> Option<Result<Document, Answer>> {
        let (text, format) = source(case, &self.subject)?;
        Some(match Document::read(&text, format, &Syntax::DEFAULT) {
            Ok(document) => Ok(document),
            Err(DocumentError::Read(error)) => Err(Answer::Errors(vec![format!("error: {error}")])),
            Err(DocumentError::Templates { errors: all, .. }) => Err(errors(&all)),
        })
    }

    /// The names of the call, and the definitions of the document. Wrong calls are for the binary.
    fn scope(&self, case: &Case, document: Option<&mut Document>) -> Option<Result<Scope, Answer>> {
        let mut values = Document::fixed(Value::NULL);
        if let Some(name) = &self.data {
            values = match read(case, name)? {
                Ok(value) => Document::fixed(value),
                Err(answer) => return Some(Err(answer)),
            };
        }
        let mut document = document;
        for (setting, json) in &self.settings {
            let (path, text) = setting.split_once('=').filter(|_| !setting.contains('"'))?;
            let value =
                if *json { data::json::read_value(text, &Limits::DEFAULT).ok()? } else { text.into() };
            let steps = parse_path(path).ok()?;
            let own = path.starts_with("context") && document.as_ref().is_some_and(|own| own.has("context"));
            let target = document.as_deref_mut().filter(|_| own).unwrap_or(&mut values);
            target.set(&steps, value).ok()?;
        }
        let values = values.resolve(&Scope::new(), &mut Session::new(&mut NoWorld)).ok()?;
        let mut scope = Scope::new();
        if let Some(object) = values.as_object() {
            scope = scope.with_values("data", object.clone());
        }
        if let Some(name) = &self.outputs {
            let outputs = match read(case, name)? {
                Ok(outputs) => Envelope::all_from_outside(outputs.as_object()?).ok()?,
                Err(answer) => return Some(Err(answer)),
            };
            let entries = outputs.into_iter().map(|(id, envelope)| (id, ScopeEntry::Output(envelope)));
            scope = scope.with_entries("outputs", entries).ok()?;
        }
        // A context that is no object is a wrong file, which only the binary knows.
        let defined = document.map_or(Ok(None), |document| document.define("context")).ok()?;
        if let Some(definitions) = defined {
            let entry = ("context".into(), ScopeEntry::Definitions(definitions));
            scope = scope.with_entries("context", [entry]).ok()?;
        }
        let built_in = threadline_lang::BUILT_IN_ROOTS.iter().any(|root| values.get(root).is_some());
        (!built_in).then_some(Ok(scope))
    }
}

/// The text of a file of the case, and what it is written in.
fn source(case: &Case, name: &str) -> Option<(String, DataFormat)> {
    let format = match name.rsplit_once('.')?.1 {
        "json" => DataFormat::Json,
        "yaml" => DataFormat::Yaml,
        _ => return None,
    };
    Some((String::from_utf8(case.file(name)?).ok()?, format))
}

fn read(case: &Case, name: &str) -> Option<Result<Value, Answer>> {
    let (text, format) = source(case, name)?;
    let value = data::read_value(&text, format, &Limits::DEFAULT);
    let value = value.map_err(|error| Answer::Errors(vec![format!("error: {error}")]));
    // What is no object is a wrong call, which only the binary knows.
    value.as_ref().map_or(true, |value| value.as_object().is_some()).then_some(value)
}

fn errors(errors: &[Error]) -> Answer {
    Answer::Errors(errors.iter().map(|error| format!("error[{}]: {error}", error.id())).collect())
}
