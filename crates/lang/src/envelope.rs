//! What every step leaves: a value, and data about how it came about. Older shapes are read as that too.

use std::sync::Arc;

use ecow::EcoString;

use crate::value::{Object, Oversized, Value};

/// The output of a node or step.
#[derive(Debug, Clone)]
pub struct Envelope {
    /// The primary result.
    pub value: Value,
    /// An object: status, times, and what the kind of node adds.
    pub meta: Value,
    /// The output as it was written, when it was not an envelope: its fields can still be read by their old
    /// names.
    pub legacy: Option<Value>,
    /// An object of fields that can be read beside `value` and `meta`, such as `output` and `exit_code`.
    pub also: Option<Value>,
}

impl Envelope {
    /// An output of this value and meta.
    pub fn new(value: Value, meta: Value) -> Self {
        Self { value, meta, legacy: None, also: None }
    }
}

/// Fields of `meta` that may be left out: they read as null.
pub(crate) const OPTIONAL_META: [&str; 5] =
    ["error", "error_type", "retry_count", "memory_usage_mb", "cpu_time_ms"];

/// Fields of `meta` that used to stand beside the result.
pub const MOVED_TO_META: [&str; 3] = ["status", "tool_name", "agent_id"];

impl Envelope {
    /// Reads an output that came from outside: an envelope when its keys are exactly `value` and `meta`, else one
    /// of the four older shapes, else a plain value.
    pub fn from_outside(output: &Value) -> Result<Self, Oversized> {
        let Some(object) = output.as_object() else {
            return Ok(Self::plain(output.clone()));
        };
        if object.len() == 2
            && let (Some(value), Some(meta)) = (object.get_str("value"), object.get_str("meta"))
        {
            return Ok(Self::new(value.clone(), meta.clone()));
        }
        let (value, meta) = if object.get_str("tool_name").is_some() && object.get_str("result").is_some() {
            tool(object)?
        } else if object.get_str("agent_id").is_some() {
            agent(object)?
        } else if object.get_str("condition_result").is_some() {
            conditional(object)?
        } else if let Some(trigger_config) = object.get_str("config").and_then(|config| config.get("trigger"))
        {
            trigger(object, trigger_config)?
        } else {
            return Ok(Self { legacy: Some(output.clone()), ..Self::plain(output.clone()) });
        };
        Ok(Self { legacy: Some(output.clone()), ..Self::new(value, meta) })
    }

    fn plain(value: Value) -> Self {
        // An object without entries is never too deep.
        let meta = Value::empty_object();
        Self::new(value, meta)
    }

    /// Every output of a document of outputs by id.
    pub fn all_from_outside(outputs: &Object) -> Result<Vec<(EcoString, Arc<Self>)>, Oversized> {
        outputs
            .iter()
            .map(|(id, output)| Ok((id.name().clone(), Arc::new(Self::from_outside(output)?))))
            .collect()
    }
}

type ValueAndMeta = (Value, Value);

fn entry(name: &str, value: Value) -> (EcoString, Value) {
    (name.into(), value)
}

fn status(object: &Object) -> (EcoString, Value) {
    entry("status", object.get_str("status").cloned().unwrap_or_else(|| "completed".into()))
}

/// The entries of these names, those that are there.
fn taken(object: &Object, names: &[&str]) -> Vec<(EcoString, Value)> {
    names.iter().filter_map(|name| Some(entry(name, object.get_str(name)?.clone()))).collect()
}

fn meta(kind: &str, object: &Object, own: &[&str]) -> Result<Value, Oversized> {
    let mut entries = vec![entry("node_type", kind.into()), status(object)];
    entries.extend(taken(object, own));
    Value::object(entries)
}

fn tool(object: &Object) -> Result<ValueAndMeta, Oversized> {
    let value = object.get_str("result").cloned().unwrap_or_default();
    Ok((value, meta("tool", object, &["tool_name", "parameters"])?))
}

fn agent(object: &Object) -> Result<ValueAndMeta, Oversized> {
    let others = object.iter().filter(|(key, _)| !matches!(key.as_str(), "agent_id" | "status"));
    let value = Value::object(others.map(|(key, value)| (key.name().clone(), value.clone())))?;
    Ok((value, meta("agent", object, &["agent_id"])?))
}

fn conditional(object: &Object) -> Result<ValueAndMeta, Oversized> {
    let value = Value::object(taken(object, &["condition_result", "branch"]))?;
    Ok((value, meta("conditional", object, &["condition"])?))
}

fn trigger(object: &Object, config: &Value) -> Result<ValueAndMeta, Oversized> {
    let triggered = object.get_str("status").and_then(Value::as_str) == Some("triggered");
    let value = Value::object([entry("triggered", triggered.into()), entry("trigger_data", Value::NULL)])?;
    let status = if triggered { "completed".into() } else { status(object).1 };
    let meta = Value::object([
        entry("node_type", "trigger".into()),
        entry("status", status),
        entry("trigger_type", config.get("type").cloned().unwrap_or_default()),
        entry("trigger_config", config.get("config").cloned().unwrap_or_default()),
    ])?;
    Ok((value, meta))
}
