//! The beginning of a run.

use ecow::EcoString;
use threadline_engine::Hash;
use threadline_engine::event::{Address, Caller, Continued, Datum, RerunTarget, RunStarted};
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
    fields.extend(started.caller.as_ref().map(|caller| ("caller", caller_value(caller))));
    fields.extend(started.continues.as_ref().map(|continued| ("continues", continued_value(continued))));
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
        files: if reader.has("files") {
            reader.list("files")?.iter().map(read_file).collect::<FieldResult<_>>()?
        } else {
            Vec::new()
        },
        caller: reader.optional("caller").map(read_caller).transpose()?,
        continues: reader.optional("continues").map(read_continued).transpose()?,
    })
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
    let Continued { run, first, start_time, from, keeps_commits } = continued;
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
        })
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
