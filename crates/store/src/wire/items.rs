//! The items of a list: the rules that hold for them, and how each of them ended.

use std::time::Duration;

use threadline_engine::evaluate::{Backoff, RetryPlan};
use threadline_engine::event::{ItemEnded, Rules};
use threadline_lang::Value;

use super::datum::{DatumForm, read_datum};
use super::fields::{FieldReader, FieldResult, StoredFields};

pub(super) fn rules_value(rules: &Rules) -> Value {
    let mut fields = vec![("goes_on", rules.goes_on.into())];
    fields.extend(rules.most_failed.map(|most| ("most_failed", Value::from(most))));
    fields.extend(rules.timeout.map(|timeout| ("timeout_ms", millis(timeout))));
    if rules.retry != RetryPlan::ONCE {
        fields.push(("retry", retry_value(rules.retry)));
    }
    Value::record(fields)
}

pub(super) fn read_rules(value: &Value) -> FieldResult<Rules> {
    FieldReader::read_all(value, |reader| {
        Ok(Rules {
            retry: reader.optional("retry").map_or(Ok(RetryPlan::ONCE), read_retry)?,
            timeout: reader.optional_count("timeout_ms")?.map(Duration::from_millis),
            most_failed: reader.optional_count("most_failed")?,
            goes_on: reader.bool("goes_on")?,
        })
    })
}

fn retry_value(retry: RetryPlan) -> Value {
    let RetryPlan { attempts, backoff, delay, max_delay, jitter } = retry;
    Value::record([
        ("attempts", Value::from(attempts)),
        ("backoff", Value::from(backoff_name(backoff))),
        ("delay_ms", millis(delay)),
        ("max_delay_ms", millis(max_delay)),
        ("jitter", jitter.into()),
    ])
}

fn read_retry(value: &Value) -> FieldResult<RetryPlan> {
    FieldReader::read_all(value, |reader| {
        let backoff = reader.text("backoff")?;
        let mut known = [Backoff::Fixed, Backoff::Linear, Backoff::Exponential].into_iter();
        Ok(RetryPlan {
            attempts: reader.count("attempts")?,
            backoff: known
                .find(|known| backoff_name(*known) == backoff)
                .ok_or_else(|| format!("there is no backoff `{backoff}`"))?,
            delay: Duration::from_millis(reader.count("delay_ms")?),
            max_delay: Duration::from_millis(reader.count("max_delay_ms")?),
            jitter: reader.bool("jitter")?,
        })
    })
}

/// A duration as stored: milliseconds.
pub(super) fn millis(time: Duration) -> Value {
    Value::from(i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
}

fn backoff_name(backoff: Backoff) -> &'static str {
    match backoff {
        Backoff::Fixed => "fixed",
        Backoff::Linear => "linear",
        Backoff::Exponential => "exponential",
    }
}

pub(super) fn item_ended_fields<F: DatumForm>(ended: &ItemEnded, form: &F) -> Result<StoredFields, F::Error> {
    let mut fields = vec![("status", Value::from(ended.status.name())), ("value", form.value(&ended.value)?)];
    fields.extend(ended.error.as_ref().map(|error| ("error", Value::from(error))));
    fields.push(("attempts", Value::from(ended.attempts)));
    fields.push(("duration_ms", Value::from(ended.duration_ms)));
    fields.extend(ended.branch.as_ref().map(|branch| ("branch", Value::from(branch))));
    fields.extend(ended.not_retried.as_ref().map(|why| ("not_retried", Value::from(why))));
    Ok(fields)
}

pub(super) fn read_item_ended(reader: &mut FieldReader<'_>) -> FieldResult<ItemEnded> {
    Ok(ItemEnded {
        status: reader.status("status")?,
        value: read_datum(reader.value("value")?)?,
        error: reader.optional_text("error")?,
        attempts: reader.attempt("attempts")?,
        duration_ms: reader.count("duration_ms")?,
        branch: reader.optional_text("branch")?,
        not_retried: reader.optional_text("not_retried")?,
    })
}
