//! What a step left, where it was made, and what was computed for it.

use threadline_engine::event::{
    Computed, ContinuedThread, Datum, ExactStream, ExactStreams, KeptMaker, KeptResult, Output,
};
use threadline_engine::spend::Spend;
use threadline_lang::{ComputeError, Value};

use super::datum::{DatumForm, read_datum};
use super::fields::{FieldReader, FieldResult, hash};

pub(super) fn output_value<F: DatumForm>(output: &Output, form: &F) -> Result<Value, F::Error> {
    let mut fields =
        vec![("status", Value::from(output.status.name())), ("value", form.value(&output.value)?)];
    for (name, printed) in [("output", &output.output), ("stderr", &output.stderr)] {
        if let Some(printed) = printed {
            fields.push((name, form.value(printed)?));
        }
    }
    fields.push(("meta", output.meta.clone()));
    fields.extend(spent_field(output.spent.as_deref()));
    if let Some(thread) = &output.thread {
        let ContinuedThread { name, conversation } = &**thread;
        let thread = [("name", Value::from(name)), ("conversation", form.value(conversation)?)];
        fields.push(("thread", Value::record(thread)));
    }
    if let Some(exact) = &output.exact {
        let mut streams = Vec::new();
        for (name, stream) in [("stdout", &exact.stdout), ("stderr", &exact.stderr)] {
            let (key, value) = match stream {
                None => continue,
                Some(ExactStream::Ending(ending)) => ("ending", Value::from(ending)),
                Some(ExactStream::Base64(bytes)) => ("base64", form.value(bytes)?),
            };
            streams.push((name, Value::record([(key, value)])));
        }
        fields.push(("exact", Value::record(streams)));
    }
    Ok(Value::record(fields))
}

pub(super) fn read_output(reader: &mut FieldReader<'_>) -> FieldResult<Output> {
    FieldReader::read_all(reader.value("output")?, |reader| {
        Ok(Output {
            status: reader.status("status")?,
            value: read_datum(reader.value("value")?)?,
            output: reader.optional("output").map(read_datum).transpose()?,
            stderr: reader.optional("stderr").map(read_datum).transpose()?,
            meta: reader.value("meta")?.clone(),
            spent: read_spent(reader)?,
            thread: reader.optional("thread").map(read_thread).transpose()?.map(Box::new),
            exact: reader.optional("exact").map(read_exact).transpose()?.map(Box::new),
        })
    })
}

fn read_exact(value: &Value) -> FieldResult<ExactStreams<Datum>> {
    FieldReader::read_all(value, |reader| {
        let mut stream = |name| {
            let Some(stream) = reader.optional(name) else { return Ok(None) };
            FieldReader::read_all(stream, |reader| match reader.optional("base64") {
                Some(bytes) => Ok(ExactStream::Base64(read_datum(bytes)?)),
                None => Ok(ExactStream::Ending(reader.text("ending")?.into())),
            })
            .map(Some)
        };
        Ok(ExactStreams { stdout: stream("stdout")?, stderr: stream("stderr")? })
    })
}

fn read_thread(value: &Value) -> FieldResult<ContinuedThread> {
    FieldReader::read_all(value, |reader| {
        Ok(ContinuedThread {
            name: reader.text("name")?.into(),
            conversation: read_datum(reader.value("conversation")?)?,
        })
    })
}

/// What agents used, where any was asked.
pub(super) fn spent_field(spent: Option<&Spend>) -> Option<(&'static str, Value)> {
    spent.map(|spent| ("spent", spent.value()))
}

pub(super) fn read_spent(reader: &mut FieldReader<'_>) -> FieldResult<Option<Box<Spend>>> {
    let Some(value) = reader.optional("spent") else { return Ok(None) };
    let spent = Spend::of_value(value).filter(|spent| spent.value() == *value);
    spent.map(|spent| Some(Box::new(spent))).ok_or_else(|| "`spent` is not what agents used".to_owned())
}

pub(super) fn kept_value<F: DatumForm>(kept: &KeptResult, form: &F) -> Result<Value, F::Error> {
    Ok(Value::record([
        ("as_of", Value::from(kept.as_of)),
        ("maker", maker_value(&kept.maker)),
        ("computed", computed_list(&kept.computed, form)?),
        ("fields", hash(&kept.fields)),
        ("work", hash(&kept.work)),
    ]))
}

pub(super) fn read_kept(value: &Value) -> FieldResult<KeptResult> {
    FieldReader::read_all(value, |reader| {
        Ok(KeptResult {
            as_of: reader.count("as_of")?,
            maker: read_maker(reader.value("maker")?)?,
            computed: read_computed_list(reader)?,
            fields: reader.hash("fields")?,
            work: reader.hash("work")?,
        })
    })
}

pub(super) fn maker_value(maker: &KeptMaker) -> Value {
    Value::record([("run", Value::from(&maker.run)), ("event", Value::from(maker.event))])
}

pub(super) fn read_maker(value: &Value) -> FieldResult<KeptMaker> {
    FieldReader::read_all(value, |reader| {
        Ok(KeptMaker { run: reader.text("run")?.into(), event: reader.count("event")? })
    })
}

pub(super) fn computed_list<F: DatumForm>(computed: &[Computed], form: &F) -> Result<Value, F::Error> {
    let computed = computed.iter().map(|computed| computed_value(computed, form));
    Ok(Value::sequence(computed.collect::<Result<Vec<_>, _>>()?))
}

pub(super) fn read_computed_list(reader: &mut FieldReader<'_>) -> FieldResult<Vec<Computed>> {
    reader.list("computed")?.iter().map(read_computed).collect()
}

fn computed_value<F: DatumForm>(computed: &Computed, form: &F) -> Result<Value, F::Error> {
    let answer = match &computed.answer {
        Ok(value) => ("value", form.value(value)?),
        Err(ComputeError::Missing { nearest }) => {
            ("missing", nearest.as_ref().map_or(Value::NULL, Value::from))
        }
        Err(ComputeError::Failed { message, hint }) => (
            "failed",
            Value::record([
                ("message", Value::from(message.as_str())),
                ("hint", hint.as_ref().map_or(Value::NULL, |hint| Value::from(hint.as_str()))),
            ]),
        ),
    };
    Ok(Value::record([("name", Value::from(&computed.name)), ("args", form.value(&computed.args)?), answer]))
}

fn read_computed(value: &Value) -> FieldResult<Computed> {
    FieldReader::read_all(value, |reader| {
        let (name, args) = (reader.text("name")?.into(), read_datum(reader.value("args")?)?);
        let answer = if let Some(value) = reader.optional("value") {
            Ok(read_datum(value)?)
        } else if reader.has("missing") {
            Err(ComputeError::Missing { nearest: reader.text_or_null("missing")?.map(Into::into) })
        } else {
            let (message, hint) = FieldReader::read_all(reader.value("failed")?, |failed| {
                let hint = failed.text_or_null("hint")?.map(ToOwned::to_owned);
                Ok((failed.text("message")?.to_owned(), hint))
            })?;
            Err(ComputeError::Failed { message, hint })
        };
        Ok(Computed { name, args, answer })
    })
}
