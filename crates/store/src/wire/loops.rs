//! Loops: their limits, their judgements and their ends.

use std::time::Duration;

use threadline_engine::event::{Datum, JudgeReply, JudgedEvent, LoopEnd, LoopLimits, LoopReason};
use threadline_lang::Value;

use super::datum::{DatumForm, read_datum};
use super::fields::{FieldReader, FieldResult, StoredFields, hash};
use super::items::millis;
use super::step::{computed_list, maker_value, read_computed_list, read_maker, read_spent, spent_field};

pub(super) fn limits_value(limits: &LoopLimits) -> Value {
    let mut fields = vec![("max_steps", Value::from(limits.max_steps))];
    fields.extend(limits.max_iterations.map(|most| ("max_iterations", Value::from(most))));
    fields.extend(limits.max_edge_revisits.map(|most| ("max_edge_revisits", Value::from(most))));
    fields.extend(limits.max_stall.map(|most| ("max_stall", Value::from(most))));
    fields.extend(limits.timeout.map(|time| ("timeout_ms", millis(time))));
    fields.extend(limits.backoff.map(|time| ("backoff_ms", millis(time))));
    Value::record(fields)
}

pub(super) fn read_limits(value: &Value) -> FieldResult<LoopLimits> {
    FieldReader::read_all(value, |reader| {
        Ok(LoopLimits {
            max_steps: reader.count("max_steps")?,
            max_iterations: reader.optional_count("max_iterations")?,
            max_edge_revisits: reader.optional_count("max_edge_revisits")?,
            max_stall: reader.optional_count("max_stall")?,
            timeout: reader.optional_count("timeout_ms")?.map(Duration::from_millis),
            backoff: reader.optional_count("backoff_ms")?.map(Duration::from_millis),
        })
    })
}

pub(super) fn judged_fields<F: DatumForm>(judged: &JudgedEvent, form: &F) -> Result<StoredFields, F::Error> {
    let number = |number: &Option<Value>| {
        let number = number.as_ref().map(|number| form.value(&Datum::Here(number.clone())));
        number.transpose()
    };
    let mut fields = vec![
        ("as_of", Value::from(judged.as_of)),
        ("computed", computed_list(&judged.computed, form)?),
        ("verdict", Value::from(&judged.verdict)),
        ("reason", Value::from(&judged.reason)),
        ("details", form.value(&judged.details)?),
        ("print", hash(&judged.fingerprint)),
    ];
    fields.extend(number(&judged.confidence)?.map(|number| ("confidence", number)));
    fields.extend(number(&judged.measured)?.map(|number| ("measured", number)));
    fields.extend(judged.to.as_ref().map(|to| ("to", Value::from(to))));
    if let Some(reply) = &judged.reply {
        fields.push(("reply", reply_value(reply, form)?));
    }
    fields.extend(judged.kept.as_ref().map(|maker| ("kept", maker_value(maker))));
    Ok(fields)
}

pub(super) fn read_judged(reader: &mut FieldReader<'_>) -> FieldResult<JudgedEvent> {
    Ok(JudgedEvent {
        as_of: reader.count("as_of")?,
        computed: read_computed_list(reader)?,
        verdict: reader.text("verdict")?.into(),
        confidence: reader.optional("confidence").map(read_number).transpose()?,
        reason: reader.text("reason")?.into(),
        details: read_datum(reader.value("details")?)?,
        measured: reader.optional("measured").map(read_number).transpose()?,
        to: reader.optional_text("to")?,
        fingerprint: reader.hash("print")?,
        reply: reader.optional("reply").map(read_reply).transpose()?,
        kept: reader.optional("kept").map(read_maker).transpose()?,
    })
}

fn reply_value<F: DatumForm>(reply: &JudgeReply, form: &F) -> Result<Value, F::Error> {
    let mut fields = vec![("elapsed_ms", Value::from(reply.elapsed_ms))];
    for (name, printed) in [("answer", &reply.answer), ("stderr", &reply.stderr)] {
        if let Some(printed) = printed {
            fields.push((name, form.value(printed)?));
        }
    }
    fields.extend(reply.asked.as_ref().map(|asked| ("asked", hash(asked))));
    fields.extend(spent_field(reply.spent.as_deref()));
    Ok(Value::record(fields))
}

fn read_reply(value: &Value) -> FieldResult<JudgeReply> {
    FieldReader::read_all(value, |reader| {
        Ok(JudgeReply {
            answer: reader.optional("answer").map(read_datum).transpose()?,
            stderr: reader.optional("stderr").map(read_datum).transpose()?,
            elapsed_ms: reader.count("elapsed_ms")?,
            asked: reader.optional_hash("asked")?,
            spent: read_spent(reader)?,
        })
    })
}

fn read_number(value: &Value) -> FieldResult<Value> {
    match read_datum(value)? {
        Datum::Here(number) => Ok(number),
        Datum::Stored { .. } => Err("a number is not here".to_owned()),
    }
}

pub(super) fn loop_end_fields(end: &LoopEnd) -> StoredFields {
    let LoopEnd { reason, state, limit } = end;
    let mut fields = vec![("reason", Value::from(reason.name())), ("state", Value::from(state))];
    fields.extend(limit.map(|limit| ("limit", Value::from(limit))));
    fields
}

pub(super) fn read_loop_end(reader: &mut FieldReader<'_>) -> FieldResult<Option<LoopEnd>> {
    let Some(reason) = reader.optional("reason") else { return Ok(None) };
    let known = LoopReason::ALL.into_iter().find(|known| Some(known.name()) == reason.as_str());
    let reason = known.ok_or_else(|| "the loop ended for no known reason".to_owned())?;
    Ok(Some(LoopEnd { reason, state: reader.text("state")?.into(), limit: reader.optional_count("limit")? }))
}
