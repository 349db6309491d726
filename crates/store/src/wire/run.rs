//! The beginning of a run.

use ecow::EcoString;
use threadline_engine::Hash;
use threadline_engine::event::{
    Address, Budget, BudgetChange, BudgetKey, Caller, Continued, Datum, ExchangeMode, KeySource,
    RemoteService, RerunTarget, RunStarted,
};

use threadline_lang::Value;

use super::datum::{DatumForm, read_datum};
use super::fields::{FieldReader, FieldResult, StoredFields, hash};

pub(super) fn run_started_fields<F: DatumForm>(
    started: &RunStarted,
    form: &F,
) -> Result<StoredFields, F::Error> {
    let set = started.set.iter().map(|setting| setting_value(setting, form));
    let set = set.collect::<Result<Vec<_>, _>>()?;
    let mut fields = vec![
        ("run", Value::from(&started.run)),
        ("workflow", Value::from(&started.workflow)),
        ("file", Value::from(&started.file)),
        ("text", hash(&started.text)),
        ("inputs", form.value(&started.inputs)?),
        ("imports", form.value(&started.imports)?),
        ("set", Value::sequence(set)),
        ("trust_set", started.trust_set.into()),
        ("folder", Value::from(&started.folder)),
        ("program", Value::from(&started.program)),
        ("jobs", started.jobs.map_or(Value::NULL, Value::from)),
    ];
    // Runs of earlier versions have none.
    if !matches!(&started.payload, Datum::Here(value) if value.is_null()) {
        fields.push(("payload", form.value(&started.payload)?));
    }
    if !started.imported.is_empty() {
        let imported = started.imported.iter().map(import_value);
        fields.push(("imported", Value::sequence(imported)));
    }
    if !started.files.is_empty() {
        let files = started.files.iter().map(file_value);
        fields.push(("files", Value::sequence(files)));
    }
    fields.extend(budgets_field(&started.budgets));
    fields.extend(started.caller.as_ref().map(|caller| ("caller", caller_value(caller))));
    fields.extend(started.continues.as_ref().map(|continued| ("continues", continued_value(continued))));
    fields.extend(started.exchanges.as_ref().map(|mode| ("exchanges", mode_value(mode))));
    fields.extend(started.on.as_ref().map(|on| ("on", service_value(on))));
    Ok(fields)
}

pub(super) fn read_run_started(reader: &mut FieldReader<'_>) -> FieldResult<RunStarted> {
    Ok(RunStarted {
        run: reader.text("run")?.into(),
        workflow: reader.text("workflow")?.into(),
        file: reader.text("file")?.into(),
        text: reader.hash("text")?,
        inputs: read_datum(reader.value("inputs")?)?,
        imports: read_datum(reader.value("imports")?)?,
        imported: if reader.has("imported") {
            reader.list("imported")?.iter().map(read_import).collect::<FieldResult<_>>()?
        } else {
            Vec::new()
        },
        payload: reader.optional("payload").map_or(Ok(Datum::Here(Value::NULL)), read_datum)?,
        set: reader.list("set")?.iter().map(read_setting).collect::<FieldResult<_>>()?,
        trust_set: reader.bool("trust_set")?,
        folder: reader.text("folder")?.into(),
        program: reader.text("program")?.into(),
        jobs: reader.count_or_null("jobs")?,
        budgets: read_budgets(reader)?,
        files: if reader.has("files") {
            reader.list("files")?.iter().map(read_file).collect::<FieldResult<_>>()?
        } else {
            Vec::new()
        },
        caller: reader.optional("caller").map(read_caller).transpose()?,
        continues: reader.optional("continues").map(read_continued).transpose()?,
        exchanges: reader.optional("exchanges").map(read_mode).transpose()?,
        on: reader.optional("on").map(read_service).transpose()?,
    })
}

fn service_value(service: &RemoteService) -> Value {
    let RemoteService { address, key, blobs, bundle, replicated } = service;
    let key = match key {
        KeySource::File(path) => ("key_file", Value::from(path)),
        KeySource::Variable(name) => ("key_variable", Value::from(name)),
    };
    let blobs = blobs.as_ref().map(|url| ("blobs", Value::from(url)));
    let bundle = bundle.then(|| ("bundle", Value::from(true)));
    let replicated = replicated.then(|| ("replicated", Value::from(true)));
    let more = blobs.into_iter().chain(bundle).chain(replicated);
    Value::record([("address", Value::from(address)), key].into_iter().chain(more))
}

fn read_service(value: &Value) -> FieldResult<RemoteService> {
    FieldReader::read_all(value, |reader| {
        let address = reader.text("address")?.into();
        let key = match reader.optional_text("key_file")? {
            Some(path) => KeySource::File(path),
            None => KeySource::Variable(reader.text("key_variable")?.into()),
        };
        let blobs = reader.optional_text("blobs")?;
        let bundle = reader.optional("bundle").and_then(Value::as_bool) == Some(true);
        let replicated = reader.has("replicated") && reader.bool("replicated")?;
        Ok(RemoteService { address, key, blobs, bundle, replicated })
    })
}

/// The budgets that somebody set, where there are any.
pub(super) fn budgets_field(changes: &[BudgetChange]) -> Option<(&'static str, Value)> {
    let change = |BudgetChange { step, budget }: &BudgetChange| {
        let step = step.as_ref().map(|step| ("step", Value::from(step)));
        let limits = budget.entries().map(|(key, limit)| (key.name(), limit));
        Value::record(step.into_iter().chain(limits))
    };
    (!changes.is_empty()).then(|| ("budgets", Value::sequence(changes.iter().map(change))))
}

pub(super) fn read_budgets(reader: &mut FieldReader<'_>) -> FieldResult<Vec<BudgetChange>> {
    if !reader.has("budgets") {
        return Ok(Vec::new());
    }
    let read = |value: &Value| {
        FieldReader::read_all(value, |reader| {
            let (step, mut budget) = (reader.optional_text("step")?, Budget::default());
            for key in BudgetKey::ALL {
                let limit = reader.optional(key.name());
                if limit.is_some_and(|limit| !budget.set(key, limit)) {
                    return Err(format!("`{}` is not {}", key.name(), key.expected()));
                }
            }
            Ok(BudgetChange { step, budget })
        })
    };
    reader.list("budgets")?.iter().map(read).collect()
}

fn setting_value<F: DatumForm>((path, value): &(EcoString, Datum), form: &F) -> Result<Value, F::Error> {
    Ok(Value::record([("path", Value::from(path)), ("value", form.value(value)?)]))
}

fn read_setting(value: &Value) -> FieldResult<(EcoString, Datum)> {
    FieldReader::read_all(value, |reader| {
        Ok((reader.text("path")?.into(), read_datum(reader.value("value")?)?))
    })
}

fn import_value((name, run): &(EcoString, EcoString)) -> Value {
    Value::record([("name", Value::from(name)), ("run", Value::from(run))])
}

fn read_import(value: &Value) -> FieldResult<(EcoString, EcoString)> {
    FieldReader::read_all(value, |reader| Ok((reader.text("name")?.into(), reader.text("run")?.into())))
}

fn file_value((name, text_hash): &(EcoString, Hash)) -> Value {
    Value::record([("file", Value::from(name)), ("text", hash(text_hash))])
}

fn read_file(value: &Value) -> FieldResult<(EcoString, Hash)> {
    FieldReader::read_all(value, |reader| Ok((reader.text("file")?.into(), reader.hash("text")?)))
}

fn caller_value(caller: &Caller) -> Value {
    let Caller { run, at, attempt } = caller;
    Value::record([
        ("run", Value::from(run)),
        ("at", Value::from(at.as_str())),
        ("attempt", Value::from(*attempt)),
    ])
}

fn read_caller(value: &Value) -> FieldResult<Caller> {
    FieldReader::read_all(value, |reader| {
        Ok(Caller {
            run: reader.text("run")?.into(),
            at: Address::parse(reader.text("at")?).map_err(|error| error.to_string())?,
            attempt: reader.attempt("attempt")?,
        })
    })
}

fn continued_value(continued: &Continued) -> Value {
    let Continued { run, first, start_time, from, keeps_commits, stopped_after } = continued;
    let mut fields = vec![
        ("run", Value::from(run)),
        ("first", Value::from(first)),
        ("start_time", Value::from(start_time)),
    ];
    if !from.is_empty() {
        fields.push(("from", Value::sequence(from.iter().map(target_value))));
    }
    if *keeps_commits {
        fields.push(("keeps_commits", true.into()));
    }
    fields.extend(stopped_after.map(|steps| ("stopped_after", Value::from(steps))));
    Value::record(fields)
}

fn read_continued(value: &Value) -> FieldResult<Continued> {
    FieldReader::read_all(value, |reader| {
        Ok(Continued {
            run: reader.text("run")?.into(),
            first: reader.text("first")?.into(),
            start_time: reader.text("start_time")?.into(),
            from: if reader.has("from") {
                reader.list("from")?.iter().map(read_target).collect::<FieldResult<_>>()?
            } else {
                Vec::new()
            },
            keeps_commits: reader.has("keeps_commits") && reader.bool("keeps_commits")?,
            stopped_after: reader.optional_count("stopped_after")?,
        })
    })
}

fn mode_value(mode: &ExchangeMode) -> Value {
    match mode {
        ExchangeMode::Record { folder } => Value::record([("record", Value::from(folder))]),
        ExchangeMode::Replay { folder, live } => Value::record([
            ("replay", Value::from(folder)),
            ("live", Value::sequence(live.iter().map(Value::from))),
        ]),
    }
}

fn read_mode(value: &Value) -> FieldResult<ExchangeMode> {
    FieldReader::read_all(value, |reader| {
        if reader.has("record") {
            return Ok(ExchangeMode::Record { folder: reader.text("record")?.into() });
        }
        let live = reader.list("live")?.iter().map(|step| {
            step.as_str().map(EcoString::from).ok_or_else(|| "a live step has no name".to_owned())
        });
        let live = live.collect::<FieldResult<_>>()?;
        Ok(ExchangeMode::Replay { folder: reader.text("replay")?.into(), live })
    })
}

fn target_value(target: &RerunTarget) -> Value {
    let RerunTarget { step, items, visit } = target;
    let mut fields =
        vec![("step", Value::from(step)), ("items", Value::sequence(items.iter().copied().map(Value::from)))];
    fields.extend(visit.map(|visit| ("visit", Value::from(visit))));
    Value::record(fields)
}

fn read_target(value: &Value) -> FieldResult<RerunTarget> {
    FieldReader::read_all(value, |reader| {
        let index = |item: &Value| {
            let index = item.as_i64().and_then(|index| u64::try_from(index).ok());
            index.ok_or_else(|| "an item has no index".to_owned())
        };
        Ok(RerunTarget {
            step: reader.text("step")?.into(),
            items: reader.list("items")?.iter().map(index).collect::<FieldResult<_>>()?,
            visit: reader.optional_count("visit")?,
        })
    })
}
