//! The results that the user invents for states: `--verdicts`, `--numbers` and `--script`. An unknown state, a verdict
//! that a state cannot have and an unknown key are errors.

use std::collections::BTreeMap;

use ecow::EcoString;
use threadline_engine::event::ERROR;
use threadline_engine::rehearsal::{Scripted, ScriptedOutput};
use threadline_flow::model::{Action, Evaluator, Step, Verdicts};
use threadline_flow::plan::Plan;
use threadline_lang::Value;
use threadline_lang::diag::{nearest, preview};
use threadline_lang::value::Number;

use super::shown;
use crate::arguments::SimulateArguments;
use crate::exit::CommandFailure;
use crate::inputs;

type ScriptedStates = BTreeMap<EcoString, Vec<Scripted>>;

/// The keys of an invented output.
const KEYS: [&str; 3] = ["output", "exit_code", "error"];

/// The results that the user invents for states.
pub(super) fn states(call: &SimulateArguments, plan: &Plan) -> Result<ScriptedStates, CommandFailure> {
    let mut states = ScriptedStates::new();
    let mut add = |place: &str, name: &str, row: Vec<Scripted>| -> Result<(), CommandFailure> {
        if states.insert(name.into(), row).is_some() {
            return Err(CommandFailure::Usage(format!("{place}: `{name}` is said twice")));
        }
        Ok(())
    };
    for (flag, given) in [("--verdicts", &call.verdicts), ("--numbers", &call.numbers)] {
        for (name, words) in given.iter().flat_map(|text| text.split(';')).map(named) {
            let step = state(plan, flag, name)?;
            let words = words.ok_or_else(|| {
                CommandFailure::Usage(format!("{flag}: `{name}` takes a list: `{flag} {name}=A,B`"))
            })?;
            let row = words.split(',').map(str::trim).map(|word| match flag {
                "--verdicts" => verdict(step, flag, name, word),
                _ if Number::parse(word).is_err() => {
                    Err(CommandFailure::Usage(format!("{flag}: `{name}` takes numbers, not `{word}`")))
                }
                _ => left(step, flag, name, word, 0, None),
            });
            let row = row.collect::<Result<Vec<_>, CommandFailure>>()?;
            add(flag, name, row)?;
        }
    }
    let Some(path) = &call.script else { return Ok(states) };
    let script = inputs::read_object(path, "--script")?;
    let place = shown(path);
    for (name, said) in script.as_object().into_iter().flat_map(|script| script.iter()) {
        let name = name.as_str();
        let step = state(plan, &place, name)?;
        let one = [said.clone()];
        let row = said.as_list().map_or_else(|| one.to_vec(), <[Value]>::to_vec);
        if row.is_empty() {
            return Err(CommandFailure::Usage(format!("{place}: `{name}` has an empty list")));
        }
        let row = row.iter().map(|said| one_of(step, &place, name, said));
        add(&place, name, row.collect::<Result<Vec<_>, CommandFailure>>()?)?;
    }
    Ok(states)
}

/// Splits `check=no,yes` into a state and the rest.
fn named(text: &str) -> (&str, Option<&str>) {
    match text.split_once('=') {
        Some((name, words)) => (name.trim(), Some(words)),
        None => (text.trim(), None),
    }
}

fn state<'p>(plan: &'p Plan, place: &str, name: &str) -> Result<&'p Step, CommandFailure> {
    let names = &plan.lists[0].names;
    if let Some(at) = names.iter().position(|known| known == name) {
        return Ok(&plan.steps[plan.lists[0].steps[at] as usize].step);
    }
    let hint = match nearest(name, names.iter().map(EcoString::as_str)) {
        Some(near) => format!("; did you mean `{near}`"),
        None => format!("; states: {}", names.join(", ")),
    };
    Err(CommandFailure::Usage(format!("{place}: there is no state `{name}`{hint}")))
}

/// A verdict, or the output of a state.
fn one_of(step: &Step, place: &str, name: &str, said: &Value) -> Result<Scripted, CommandFailure> {
    if let Some(word) = said.as_str() {
        return verdict(step, place, name, word);
    }
    let Some(object) = said.as_object() else {
        return Err(CommandFailure::Usage(format!(
            "{place}: `{name}` takes verdicts, and objects of `output`, `exit_code` and `error`, not {}",
            preview(said)
        )));
    };
    if let Some((key, _)) = object.iter().find(|(key, _)| !KEYS.contains(&key.as_str())) {
        let key = key.as_str();
        let hint = match nearest(key, KEYS) {
            Some(near) => format!("did you mean `{near}`"),
            None => format!("keys: {}", KEYS.join(", ")),
        };
        return Err(CommandFailure::Usage(format!("{place}: `{name}` has an unknown key `{key}`; {hint}")));
    }
    let output = said.get("output").map_or(String::new(), ToString::to_string);
    let exit_code = match said.get("exit_code") {
        None => 0,
        Some(code) => code.as_i64().and_then(|code| i32::try_from(code).ok()).ok_or_else(|| {
            CommandFailure::Usage(format!(
                "{place}: `exit_code` of `{name}` takes a whole number, not {}",
                preview(code)
            ))
        })?,
    };
    let error = said.get("error").map(|error| EcoString::from(error.to_string()));
    left(step, place, name, &output, exit_code, error)
}

fn verdict(step: &Step, place: &str, name: &str, word: &str) -> Result<Scripted, CommandFailure> {
    let known = step.evaluator().map(Evaluator::verdicts);
    if let Some(Verdicts::Known(words)) = known
        && word != ERROR
        && !words.iter().any(|known| known == word)
    {
        let message =
            format!("{place}: `{name}` cannot come to `{word}`: it comes to {}, {ERROR}", words.join(", "));
        return Err(CommandFailure::Usage(message));
    }
    if word.is_empty() {
        return Err(CommandFailure::Usage(format!("{place}: a verdict of `{name}` is empty")));
    }
    Ok(Scripted::Verdict(word.into()))
}

fn left(
    step: &Step,
    place: &str,
    name: &str,
    output: &str,
    exit_code: i32,
    error: Option<EcoString>,
) -> Result<Scripted, CommandFailure> {
    if matches!(step.action, Action::Nothing) {
        let message = format!("{place}: `{name}` does nothing and prints nothing: give it a verdict");
        return Err(CommandFailure::Usage(message));
    }
    Ok(Scripted::Output(ScriptedOutput { output: output.into(), exit_code, error }))
}
