//! Exchanges with agents in files: written while a run is recorded, read in place of the agents while it is replayed.
//!
//! A folder has one JSON file for each execution that asks an agent, and a folder for each run that a step calls. The
//! names of files follow from the labels of steps, so they are the same in every run. Whether what is recorded answers
//! a question is the engine's business.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use threadline_engine::agent::exchange::{Answered, ExchangeRecord, ExchangeRequest};
use threadline_engine::event::{Address, ExchangeMode};
use threadline_engine::execute::effect::{EffectKey, Role};
use threadline_flow::model::Action;
use threadline_flow::plan::{Plan, PlannedStep, StepNumber};
use threadline_lang::diag::words;
use threadline_lang::value::JsonStyle;
use threadline_lang::{Limits, Value, data};

/// The file that tells a record from any other folder.
const MARK: &str = "threadline-record.json";

/// The version of the form.
const FORMAT: i64 = 1;

/// The longest part of a file's name that comes from a label.
const LONGEST_LABEL: usize = 80;

/// The record of a run: where it is, and whether it is written or read.
#[derive(Debug)]
pub struct ExchangeFiles {
    /// The folder of the run's own executions.
    folder: PathBuf,
    /// The same, as messages show it.
    shown: String,
    mode: ExchangeMode,
    /// Whether everything in it is asked all the same, because the step that calls it is.
    is_live: bool,
    /// The entries of all files, once somebody looks for a question in all of them.
    all: OnceLock<BTreeMap<String, Vec<Value>>>,
}

impl ExchangeFiles {
    /// The record of a run of the project.
    pub fn of(mode: &ExchangeMode, project: &Path) -> Arc<Self> {
        let (ExchangeMode::Record { folder } | ExchangeMode::Replay { folder, .. }) = mode;
        let shown = folder.to_string();
        Arc::new(Self {
            folder: project.join(&shown),
            shown,
            mode: mode.clone(),
            is_live: false,
            all: OnceLock::new(),
        })
    }

    /// Prepares it for a run that begins. What an earlier run recorded there is removed.
    pub fn begin(&self) -> Result<(), String> {
        let shown = &self.shown;
        let failed = |error: &io::Error| format!("`{shown}`: {}", crate::project::plain(error));
        let mark = self.folder.join(MARK);
        match &self.mode {
            ExchangeMode::Replay { .. } if mark.is_file() => {
                let found = read(&mark).ok().and_then(|mark| mark.get("format").and_then(Value::as_i64));
                match found {
                    Some(FORMAT) => Ok(()),
                    _ => Err(format!("`{shown}` was recorded by another version of Threadline")),
                }
            }
            ExchangeMode::Replay { .. } => Err(format!("`{shown}` holds no record; `--record` makes one")),
            ExchangeMode::Record { .. } => {
                fs::create_dir_all(&self.folder).map_err(|error| failed(&error))?;
                let is_empty = fs::read_dir(&self.folder).map_err(|error| failed(&error))?.next().is_none();
                if !is_empty && !mark.is_file() {
                    return Err(format!("`{shown}` is not empty and holds no record"));
                }
                remove_files(&self.folder).map_err(|error| failed(&error))?;
                let form = Value::record([("format", Value::from(FORMAT))]);
                write(&mark, &form).map_err(|error| failed(&error))
            }
        }
    }

    /// The record of a run that an execution calls.
    pub(crate) fn of_called(&self, plan: &Plan, key: &EffectKey) -> Arc<Self> {
        let mut name = file_stem(plan, &key.at);
        // Writing into a text cannot fail.
        if key.attempt > 1 {
            let _ = write!(name, "+try{}", key.attempt);
        }
        if key.exchange > 0 {
            let _ = write!(name, "+call{}", key.exchange);
        }
        Arc::new(Self {
            folder: self.folder.join(&name),
            shown: format!("{}/{name}", self.shown),
            mode: self.mode.clone(),
            is_live: self.is_live || self.names_live(plan, &key.at),
            all: OnceLock::new(),
        })
    }

    /// Whether the execution or something around it is asked all the same.
    fn names_live(&self, plan: &Plan, at: &Address) -> bool {
        let ExchangeMode::Replay { live, .. } = &self.mode else { return false };
        let steps = at.lineage().filter_map(|around| around.step(plan));
        steps.map(|step| &plan.steps[step as usize]).any(|step| {
            let id = step.step.id.as_ref().map(|id| &id.value);
            live.iter().any(|name| *name == step.label || *name == step.number || Some(name) == id)
        })
    }

    /// What is recorded for an exchange; nothing where the agent is asked.
    pub(crate) fn find(&self, plan: &Plan, key: &EffectKey, item_attempt: u32) -> Option<ExchangeRecord> {
        if !self.is_replayed(plan, &key.at) {
            return None;
        }
        let stem = file_stem(plan, &key.at);
        // The names of the files of scenarios are nothing that anybody wrote.
        let is_of_scenario = scenario_of(plan, &key.at).is_some();
        let place = if is_of_scenario { self.shown.clone() } else { format!("{}/{stem}.json", self.shown) };
        let number = numbers(key, item_attempt);
        let entries = self.entries(&stem);
        // Of the cases of a scenario only some may be tried now, and then they have other numbers.
        let others = self.entries_of_other_cases(plan, &key.at, &stem);
        let entries = match entries {
            Err(_) if !others.is_empty() => Ok(others),
            entries => entries.map(|mut entries| {
                entries.extend(others);
                entries
            }),
        };
        let entries = entries.map(|entries| {
            let fitting =
                entries.iter().filter(|entry| number.iter().all(|(name, is)| entry.get(name) == Some(is)));
            let part = |entry: &Value, name: &str| entry.get(name).cloned().unwrap_or_default();
            let pair = |entry: &Value| {
                (ExchangeRequest::of_value(part(entry, "asked")), Answered::of_value(part(entry, "answered")))
            };
            fitting.map(pair).collect()
        });
        let entries = entries.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound if is_of_scenario => {
                format!(
                    "nothing is recorded in `{place}` for this scenario; `threadline test --record` does it"
                )
            }
            io::ErrorKind::NotFound => format!("nothing is recorded in `{place}`; {}", self.known()),
            _ => format!("`{place}` cannot be read: {}", crate::project::plain(&error)),
        });
        let number = format!("attempt {}, exchange {}", key.attempt, key.exchange + 1);
        Some(ExchangeRecord { place, number, entries })
    }

    /// What is recorded for other cases of the scenario of an execution, where only some of the cases are tried: first
    /// that of the same repetition.
    fn entries_of_other_cases(&self, plan: &Plan, at: &Address, stem: &str) -> Vec<Value> {
        let is_part =
            scenario_of(plan, at).is_some_and(|outer| match &plan.steps[outer as usize].step.action {
                Action::ForEach(each) => each.filter.is_some() || each.named.is_some(),
                _ => false,
            });
        let Some((label, items)) = stem.split_once('@').filter(|_| is_part) else { return Vec::new() };
        let repetition = |items: &str| items.split_once('@').map(|(_, repetition)| repetition.to_owned());
        let own = repetition(items);
        let of_scenario = self.all_entries().iter().filter_map(|(name, entries)| {
            let (known, others) = name.split_once('@')?;
            (known == label && others != items).then(|| (repetition(others) != own, entries))
        });
        let mut found: Vec<_> = of_scenario.collect();
        found.sort_by_key(|(is_other, _)| *is_other);
        found.into_iter().flat_map(|(_, entries)| entries.iter().cloned()).collect()
    }

    /// The entries of every file, by the names of the files. What cannot be read is left out.
    fn all_entries(&self) -> &BTreeMap<String, Vec<Value>> {
        self.all.get_or_init(|| {
            let files = fs::read_dir(&self.folder).into_iter().flatten().flatten();
            let paths = files.map(|file| file.path()).filter(|path| is_json(path));
            let stems = paths.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()));
            stems.filter_map(|stem| Some((stem.clone(), self.entries(&stem).ok()?))).collect()
        })
    }

    /// Whether what an execution asks is answered from the record.
    pub(crate) fn is_replayed(&self, plan: &Plan, at: &Address) -> bool {
        let is_replay = matches!(self.mode, ExchangeMode::Replay { .. });
        is_replay && !self.is_live && !self.names_live(plan, at)
    }

    /// Which executions are recorded.
    fn known(&self) -> String {
        let files = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let names = files.filter(|file| is_json(&file.path()));
        let names = names.filter_map(|file| file.file_name().into_string().ok());
        let mut names: Vec<String> = names.filter(|name| name != MARK).collect();
        names.sort();
        if names.is_empty() {
            return "there is no file of an agent there".to_owned();
        }
        format!("there is {}", words::names(names.iter().map(|name| format!("`{name}`"))))
    }

    /// Records an exchange, in place of one with the same numbers.
    pub(crate) fn keep(
        &self,
        plan: &Plan,
        key: &EffectKey,
        item_attempt: u32,
        exchange: &dyn Fn() -> (ExchangeRequest, Answered),
    ) -> Result<(), String> {
        let ExchangeMode::Record { .. } = &self.mode else { return Ok(()) };
        let (asked, answered) = exchange();
        let parts = [("asked", asked.value().clone()), ("answered", answered.value().clone())];
        self.put(plan, &key.at, &numbers(key, item_attempt), parts)
    }

    /// Puts an entry into the file of an execution, in place of one with the same numbers.
    fn put(
        &self,
        plan: &Plan,
        at: &Address,
        number: &[(&'static str, Value)],
        parts: [(&'static str, Value); 2],
    ) -> Result<(), String> {
        let stem = file_stem(plan, at);
        let entry = Value::record(number.iter().cloned().chain(parts));
        let mut entries = self.entries(&stem).unwrap_or_default();
        entries.retain(|entry| number.iter().any(|(name, is)| entry.get(name) != Some(is)));
        entries.push(entry);
        let label = at.step(plan).map(|step| plan.steps[step as usize].label.clone());
        let whole = Value::record([
            ("step", label.map_or(Value::NULL, Value::from)),
            ("exchanges", Value::sequence(entries)),
        ]);
        let file = self.folder.join(format!("{stem}.json"));
        write(&file, &whole)
            .map_err(|error| format!("the exchange is not recorded in `{}/{stem}.json`: {error}", self.shown))
    }

    fn entries(&self, stem: &str) -> io::Result<Vec<Value>> {
        let whole = read(&self.folder.join(format!("{stem}.json")))?;
        let entries = whole.get("exchanges").and_then(Value::as_list);
        let unfit = || io::Error::new(io::ErrorKind::InvalidData, "it has no list of `exchanges`");
        entries.map(<[Value]>::to_vec).ok_or_else(unfit)
    }
}

/// What a record has of a thread that an attempt continues.
pub(crate) struct ThreadRecord<'r> {
    pub(crate) files: &'r ExchangeFiles,
    pub(crate) plan: &'r Plan,
    pub(crate) at: &'r Address,
    pub(crate) attempt: u32,
    pub(crate) name: &'r str,
}

impl ThreadRecord<'_> {
    fn numbers(&self) -> [(&'static str, Value); 2] {
        [("of", "thread".into()), ("attempt", self.attempt.into())]
    }

    fn asked(&self) -> Value {
        Value::record([("thread", Value::from(self.name))])
    }

    /// What was said in it when the run was recorded; nothing where the run is not replayed.
    pub(crate) fn find(&self) -> Option<Result<Value, String>> {
        if !self.files.is_replayed(self.plan, self.at) {
            return None;
        }
        let stem = file_stem(self.plan, self.at);
        let asked = self.asked();
        let is_it = |entry: &&Value| {
            let mut number = self.numbers().into_iter();
            number.all(|(name, is)| entry.get(name) == Some(&is)) && entry.get("asked") == Some(&asked)
        };
        let entries = self.files.entries(&stem).unwrap_or_default();
        let found =
            entries.iter().find(is_it).map(|entry| entry.get("answered").cloned().unwrap_or_default());
        let place = format!("{}/{stem}.json", self.files.shown);
        Some(found.ok_or_else(|| format!("`{place}` does not have the thread `{}`", self.name)))
    }

    /// Records what was said in it.
    pub(crate) fn keep(&self, before: &Value) -> Result<(), String> {
        let ExchangeMode::Record { .. } = &self.files.mode else { return Ok(()) };
        let parts = [("asked", self.asked()), ("answered", before.clone())];
        self.files.put(self.plan, self.at, &self.numbers(), parts)
    }
}

/// What tells the exchanges of an execution apart.
fn numbers(key: &EffectKey, item_attempt: u32) -> Vec<(&'static str, Value)> {
    let role = if key.role == Role::Judge { "judge" } else { "step" };
    vec![
        ("of", role.into()),
        ("item_attempt", item_attempt.into()),
        ("attempt", key.attempt.into()),
        ("exchange", (key.exchange + 1).into()),
    ]
}

/// Names that some systems keep for devices.
const DEVICES: [&str; 4] = ["con", "prn", "aux", "nul"];

/// The name of the file of an execution, without its ending: the label of its step with its items and visits. Only
/// letters, digits and a few signs stand in it, and two executions never share one.
fn file_stem(plan: &Plan, at: &Address) -> String {
    let label = match at.step(plan) {
        Some(step) if let Some(outer) = scenario_of(plan, at) => label_in_scenario(plan, outer, step),
        Some(step) => {
            let own = safe(&plan.steps[step as usize].label);
            let mut same = plan.steps.iter().filter(|other| safe(&other.label).eq_ignore_ascii_case(&own));
            if same.nth(1).is_some() {
                format!("{own}+{}", safe(&plan.steps[step as usize].number))
            } else {
                own
            }
        }
        None => safe(at.as_str()),
    };
    let around = at.lineage().filter_map(|around| match (around.as_item(), around.visit()) {
        (Some((_, index)), _) => Some(format!("@{index}")),
        (None, Some(visit)) if around.is_visit() => Some(format!("+visit{visit}")),
        _ => None,
    });
    around.fold(label, |name, part| name + &part)
}

/// The step of the scenario that an execution belongs to.
fn scenario_of(plan: &Plan, at: &Address) -> Option<StepNumber> {
    let outer = at.outermost()?.step(plan)?;
    let id = &plan.steps[outer as usize].step.id.as_ref()?.value;
    plan.workflow.scenarios.iter().any(|scenario| scenario.node == *id).then_some(outer)
}

/// The label of a step in its scenario, which stays the same whichever scenarios of the file are tried.
fn label_in_scenario(plan: &Plan, outer: StepNumber, step: StepNumber) -> String {
    let (scenario, planned) = (&plan.steps[outer as usize], &plan.steps[step as usize]);
    let scenario_name = scenario.step.id.as_ref().map_or("", |id| id.value.as_str());
    let inside = format!("{}.", scenario.number);
    let own = safe(&planned.label);
    let is_inside = |other: &&PlannedStep| other.number.starts_with(&inside);
    let mut same =
        plan.steps.iter().filter(is_inside).filter(|other| safe(&other.label).eq_ignore_ascii_case(&own));
    let number = planned.number.strip_prefix(&inside).filter(|_| same.nth(1).is_some());
    let number = number.map_or(String::new(), |number| format!("+{}", safe(number)));
    format!("{}+{own}{number}", safe(scenario_name))
}

fn safe(label: &str) -> String {
    let plain = |char: char| {
        if char.is_ascii_alphanumeric() || matches!(char, '_' | '-' | '.') { char } else { '-' }
    };
    let mut name: String = label.chars().map(plain).take(LONGEST_LABEL).collect();
    let lower = name.to_ascii_lowercase();
    let first = lower.split('.').next().unwrap_or_default();
    let numbered = first.len() == 4 && (first.starts_with("com") || first.starts_with("lpt"));
    if DEVICES.contains(&first) || numbered || first.is_empty() || name.ends_with('.') {
        name = format!("step-{}", name.trim_end_matches('.'));
    }
    name
}

fn read(file: &Path) -> io::Result<Value> {
    let text = fs::read_to_string(file)?;
    data::json::read_value(&text, &Limits::DEFAULT)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))
}

fn is_json(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending == "json")
}

/// Writes a file as a whole: a kill leaves the old one or the new one.
fn write(file: &Path, value: &Value) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    let new = file.with_extension(format!("{}.new", std::process::id()));
    let written = fs::write(&new, value.to_json(JsonStyle::Pretty) + "\n");
    let written = written.and_then(|()| fs::rename(&new, file));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}

/// Removes the files of a record, and the folders that are empty then. Links are not followed.
fn remove_files(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_dir() {
            remove_files(&path)?;
            // One with something else in it stays.
            let _ = fs::remove_dir(&path);
        } else if kind.is_file() && is_json(&path) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}
