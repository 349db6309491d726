//! How events stand in the journal: a kind and a JSON object each. This is the stored format; the engine's types may
//! change without it.
//!
//! Keys that a reader does not know are an error: a journal that says more than this program understands is not read
//! as if it said less.

use std::fmt;
use std::time::Duration;

use ecow::EcoString;
use threadline_engine::Hash;
use threadline_engine::evaluate::RetryPlan;
use threadline_engine::event::{
    Address, Caller, Computed, Datum, EventKind, Form, ItemEnded, JudgedEvent, Listed, LoopEnd, LoopLimits,
    LoopReason, Output, Rules, RunStarted, Status,
};
use threadline_engine::machine::Outcome;
use threadline_flow::model::Backoff;
use threadline_lang::value::JsonStyle;
use threadline_lang::{ComputeError, Limits, Object, Value, data};

/// Why a stored event cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireError {
    /// The kind of the event.
    pub kind: String,
    /// What is wrong, in words.
    pub why: String,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an event `{}` of the journal cannot be read: {}", self.kind, self.why)
    }
}

impl std::error::Error for WireError {}

/// Every kind of event, with what it says, for the published schema.
pub const KINDS: [(&str, &str); 17] = [
    (
        "run_started",
        "the run began: its id, the workflow, the file and the hash of its text, inputs, settings, folder",
    ),
    ("decided", "a `when` is true"),
    ("skipped", "a `when` is false: the step does not run"),
    ("expanded", "the items of a `foreach` or a map are known"),
    ("item_retrying", "an item failed and begins again later"),
    ("item_begun", "an item that failed begins again"),
    ("item_ended", "an item is over: its result, its error, its attempts"),
    ("started", "an attempt of a step begins"),
    ("defined", "an entry of `context` was evaluated, for the whole run"),
    ("retrying", "an attempt failed, another begins later"),
    ("unresolved", "a condition, list or field has no value: the step failed before it began"),
    ("finished", "a step is done: its value and meta data"),
    ("bounded", "what holds for a loop is known: it begins"),
    ("judged", "a state was judged: its verdict, why, and the state that follows"),
    ("paused", "the run stopped before its end"),
    ("resumed", "the run goes on"),
    ("run_ended", "the run is over"),
];

/// The kind and the payload of what happened.
pub fn encode(what: &EventKind) -> (&'static str, String) {
    let (kind, entries) = match what {
        EventKind::RunStarted(started) => ("run_started", run_started(started)),
        EventKind::Decided { as_of, computed } => {
            ("decided", vec![("as_of", Value::from(*as_of)), ("computed", all_computed(computed))])
        }
        EventKind::Skipped { as_of, computed, output } => (
            "skipped",
            vec![
                ("as_of", Value::from(*as_of)),
                ("computed", all_computed(computed)),
                ("output", output_value(output)),
            ],
        ),
        EventKind::Expanded { as_of, computed, items, count, parallel, rules } => {
            let mut entries = vec![
                ("as_of", Value::from(*as_of)),
                ("computed", all_computed(computed)),
                match items {
                    Listed::Whole(items) => ("items", datum(items)),
                    Listed::Chunks(index) => ("chunks", datum(index)),
                },
                ("count", Value::from(*count)),
                ("parallel", Value::from(*parallel)),
            ];
            if *rules != Rules::STRICT {
                entries.push(("rules", rules_value(rules)));
            }
            ("expanded", entries)
        }
        EventKind::ItemRetrying { error, until } => {
            ("item_retrying", vec![("error", Value::from(error)), ("until", Value::from(*until))])
        }
        EventKind::ItemBegun { attempt } => ("item_begun", vec![("attempt", Value::from(*attempt))]),
        EventKind::ItemEnded(ended) => ("item_ended", item_ended(ended)),
        EventKind::Started { as_of, attempt, rerun, computed, fields } => (
            "started",
            vec![
                ("as_of", Value::from(*as_of)),
                ("attempt", Value::from(*attempt)),
                ("rerun", (*rerun).into()),
                ("computed", all_computed(computed)),
                ("fields", hash(fields)),
            ],
        ),
        EventKind::Defined { name, value, computed } => (
            "defined",
            vec![("name", Value::from(name)), ("value", datum(value)), ("computed", all_computed(computed))],
        ),
        EventKind::Retrying { output, until } => {
            ("retrying", vec![("output", output_value(output)), ("until", Value::from(*until))])
        }
        EventKind::Unresolved { as_of, computed, output } => (
            "unresolved",
            vec![
                ("as_of", Value::from(*as_of)),
                ("computed", all_computed(computed)),
                ("output", output_value(output)),
            ],
        ),
        EventKind::Finished { output, results } => {
            let mut entries = vec![("output", output_value(output))];
            entries.extend(results.as_ref().map(|results| ("results", datum(results))));
            ("finished", entries)
        }
        EventKind::Paused { reason } => ("paused", vec![("reason", Value::from(reason))]),
        EventKind::Resumed { failed } => {
            ("resumed", if *failed { vec![("failed", true.into())] } else { Vec::new() })
        }
        EventKind::LimitsResolved { computed, limits } => {
            ("bounded", vec![("computed", all_computed(computed)), ("bounds", limits_value(limits))])
        }
        EventKind::Judged(judged) => ("judged", judged_entries(judged)),
        EventKind::RunEnded { outcome, exports, ended } => {
            let mut entries = vec![("outcome", Value::from(outcome.name())), ("exports", datum(exports))];
            if let Some(LoopEnd { reason, state, limit }) = ended {
                entries.extend([("reason", Value::from(reason.name())), ("state", Value::from(state))]);
                entries.extend(limit.map(|limit| ("limit", Value::from(limit))));
            }
            ("run_ended", entries)
        }
    };
    (kind, Value::record(entries).to_json(JsonStyle::Compact))
}

/// What a stored event says.
pub fn decode(kind: &str, payload: &str) -> Result<EventKind, WireError> {
    let failed = |why: String| WireError { kind: kind.to_owned(), why };
    let value =
        data::json::read_value(payload, &Limits::DEFAULT).map_err(|error| failed(error.to_string()))?;
    let reader = Reader::new(&value).map_err(failed)?;
    let mut reader = reader;
    let what = read(kind, &mut reader).map_err(failed)?;
    reader.finish().map_err(failed)?;
    Ok(what)
}

type Entries = Vec<(&'static str, Value)>;

fn hash(hash: &Hash) -> Value {
    Value::from(hash.to_string().as_str())
}

fn run_started(started: &RunStarted) -> Entries {
    let set = started
        .set
        .iter()
        .map(|(path, value)| Value::record([("path", Value::from(path)), ("value", datum(value))]));
    let mut entries = vec![
        ("run", Value::from(&started.run)),
        ("workflow", Value::from(&started.workflow)),
        ("file", Value::from(&started.file)),
        ("text", hash(&started.text)),
        ("inputs", datum(&started.inputs)),
        ("imports", datum(&started.imports)),
        ("set", Value::sequence(set)),
        ("trust_set", started.trust_set.into()),
        ("folder", Value::from(&started.folder)),
        ("program", Value::from(&started.program)),
        ("jobs", started.jobs.map_or(Value::NULL, Value::from)),
    ];
    // Runs of earlier versions have none.
    if !matches!(&started.payload, Datum::Here(value) if value.is_null()) {
        entries.push(("payload", datum(&started.payload)));
    }
    if !started.files.is_empty() {
        let file = |(name, text_hash): &(EcoString, Hash)| {
            Value::record([("file", Value::from(name)), ("text", hash(text_hash))])
        };
        let files = started.files.iter().map(file);
        entries.push(("files", Value::sequence(files)));
    }
    if let Some(Caller { run, at, attempt }) = &started.caller {
        let caller = vec![
            ("run", Value::from(run)),
            ("at", Value::from(at.as_str())),
            ("attempt", Value::from(*attempt)),
        ];
        entries.push(("caller", Value::record(caller)));
    }
    entries
}

fn limits_value(limits: &LoopLimits) -> Value {
    let millis = |time: Duration| Value::from(i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
    let mut entries = vec![("max_steps", Value::from(limits.max_steps))];
    entries.extend(limits.max_iterations.map(|most| ("max_iterations", Value::from(most))));
    entries.extend(limits.max_edge_revisits.map(|most| ("max_edge_revisits", Value::from(most))));
    entries.extend(limits.max_stall.map(|most| ("max_stall", Value::from(most))));
    entries.extend(limits.timeout.map(|time| ("timeout_ms", millis(time))));
    entries.extend(limits.backoff.map(|time| ("backoff_ms", millis(time))));
    Value::record(entries)
}

fn read_limits(value: &Value) -> Read<LoopLimits> {
    let mut reader = Reader::new(value)?;
    let limits = LoopLimits {
        max_steps: reader.count("max_steps")?,
        max_iterations: reader.optional_count("max_iterations")?,
        max_edge_revisits: reader.optional_count("max_edge_revisits")?,
        max_stall: reader.optional_count("max_stall")?,
        timeout: reader.optional_count("timeout_ms")?.map(Duration::from_millis),
        backoff: reader.optional_count("backoff_ms")?.map(Duration::from_millis),
    };
    reader.finish()?;
    Ok(limits)
}

fn judged_entries(judged: &JudgedEvent) -> Entries {
    let mut entries = vec![
        ("as_of", Value::from(judged.as_of)),
        ("computed", all_computed(&judged.computed)),
        ("verdict", Value::from(&judged.verdict)),
        ("reason", Value::from(&judged.reason)),
        ("details", datum(&judged.details)),
        ("print", hash(&judged.fingerprint)),
    ];
    entries.extend(judged.confidence.as_ref().map(|sure| ("confidence", datum(&Datum::Here(sure.clone())))));
    entries.extend(judged.measured.as_ref().map(|one| ("measured", datum(&Datum::Here(one.clone())))));
    entries.extend(judged.to.as_ref().map(|to| ("to", Value::from(to))));
    entries
}

fn read_judged(reader: &mut Reader<'_>) -> Read<JudgedEvent> {
    let words = |value: &Value| value.as_str().map(EcoString::from).ok_or("it is not a text".to_owned());
    let here = |datum: Datum| match datum {
        Datum::Here(value) => Ok(value),
        Datum::Stored { .. } => Err("a number is not here".to_owned()),
    };
    Ok(JudgedEvent {
        as_of: reader.count("as_of")?,
        computed: reader.computed()?,
        verdict: reader.text("verdict")?.into(),
        confidence: reader.optional("confidence").map(read_datum).transpose()?.map(here).transpose()?,
        reason: reader.text("reason")?.into(),
        details: read_datum(reader.value("details")?)?,
        measured: reader.optional("measured").map(read_datum).transpose()?.map(here).transpose()?,
        to: reader.optional("to").map(words).transpose()?,
        fingerprint: reader.hash("print")?,
    })
}

fn read_loop_end(reader: &mut Reader<'_>) -> Read<Option<LoopEnd>> {
    let Some(reason) = reader.optional("reason") else { return Ok(None) };
    let known = LoopReason::ALL.into_iter().find(|known| Some(known.name()) == reason.as_str());
    let reason = known.ok_or_else(|| "the loop ended for no known reason".to_owned())?;
    Ok(Some(LoopEnd { reason, state: reader.text("state")?.into(), limit: reader.optional_count("limit")? }))
}

fn rules_value(rules: &Rules) -> Value {
    let millis = |time: Duration| Value::from(i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
    let mut entries = vec![("goes_on", rules.goes_on.into())];
    entries.extend(rules.most_failed.map(|most| ("most_failed", Value::from(most))));
    entries.extend(rules.timeout.map(|timeout| ("timeout_ms", millis(timeout))));
    let RetryPlan { attempts, backoff, delay, max_delay, jitter } = rules.retry;
    if rules.retry != RetryPlan::ONCE {
        let retry = vec![
            ("attempts", Value::from(attempts)),
            ("backoff", Value::from(backoff_name(backoff))),
            ("delay_ms", millis(delay)),
            ("max_delay_ms", millis(max_delay)),
            ("jitter", jitter.into()),
        ];
        entries.push(("retry", Value::record(retry)));
    }
    Value::record(entries)
}

fn read_rules(value: &Value) -> Read<Rules> {
    let mut reader = Reader::new(value)?;
    let millis = |value: &Value| {
        let millis = value.as_i64().and_then(|millis| u64::try_from(millis).ok());
        millis.map(Duration::from_millis).ok_or_else(|| "a time is not a number".to_owned())
    };
    let retry = match reader.optional("retry") {
        None => RetryPlan::ONCE,
        Some(value) => {
            let mut retry = Reader::new(value)?;
            let backoff = retry.text("backoff")?;
            let known = [Backoff::Fixed, Backoff::Linear, Backoff::Exponential];
            let plan = RetryPlan {
                attempts: retry.count("attempts")?,
                backoff: known
                    .into_iter()
                    .find(|known| backoff_name(*known) == backoff)
                    .ok_or_else(|| format!("there is no backoff `{backoff}`"))?,
                delay: millis(retry.value("delay_ms")?)?,
                max_delay: millis(retry.value("max_delay_ms")?)?,
                jitter: retry.bool("jitter")?,
            };
            retry.finish()?;
            plan
        }
    };
    let rules = Rules {
        retry,
        timeout: reader.optional("timeout_ms").map(millis).transpose()?,
        most_failed: reader.optional_count("most_failed")?,
        goes_on: reader.bool("goes_on")?,
    };
    reader.finish()?;
    Ok(rules)
}

fn backoff_name(backoff: Backoff) -> &'static str {
    match backoff {
        Backoff::Fixed => "fixed",
        Backoff::Linear => "linear",
        Backoff::Exponential => "exponential",
    }
}

fn item_ended(ended: &ItemEnded) -> Entries {
    let mut entries = vec![("status", Value::from(ended.status.name())), ("value", datum(&ended.value))];
    entries.extend(ended.error.as_ref().map(|error| ("error", Value::from(error))));
    entries.push(("attempts", Value::from(ended.attempts)));
    entries.push(("duration_ms", Value::from(ended.duration_ms)));
    entries.extend(ended.branch.as_ref().map(|branch| ("branch", Value::from(branch))));
    entries
}

fn read_item_ended(reader: &mut Reader<'_>) -> Read<ItemEnded> {
    let words = |value: &Value| value.as_str().map(EcoString::from).ok_or("it is not a text".to_owned());
    Ok(ItemEnded {
        status: reader.status("status")?,
        value: read_datum(reader.value("value")?)?,
        error: reader.optional("error").map(words).transpose()?,
        attempts: reader.attempt("attempts")?,
        duration_ms: reader.count("duration_ms")?,
        branch: reader.optional("branch").map(words).transpose()?,
    })
}

fn output_value(output: &Output) -> Value {
    let mut entries = vec![("status", Value::from(output.status.name())), ("value", datum(&output.value))];
    entries.extend(output.output.as_ref().map(|output| ("output", datum(output))));
    entries.extend(output.stderr.as_ref().map(|stderr| ("stderr", datum(stderr))));
    entries.push(("meta", output.meta.clone()));
    Value::record(entries)
}

/// A datum as a value: what stands in an event.
pub fn datum(datum: &Datum) -> Value {
    match datum {
        Datum::Here(value) if has_float(value) => Value::record([("tagged", tagged(value))]),
        Datum::Here(value) => Value::record([("here", value.clone())]),
        Datum::Stored { hash: of, len, form } => Value::record([
            ("hash", hash(of)),
            ("bytes", Value::from(*len)),
            ("form", Value::from(form_name(*form))),
        ]),
    }
}

fn all_computed(computed: &[Computed]) -> Value {
    Value::sequence(computed.iter().map(computed_value))
}

fn computed_value(computed: &Computed) -> Value {
    let answer = match &computed.answer {
        Ok(value) => ("value", datum(value)),
        Err(ComputeError::Missing { nearest }) => {
            ("missing", nearest.as_ref().map_or(Value::NULL, |nearest| Value::from(nearest)))
        }
        Err(ComputeError::Failed { message, hint }) => (
            "failed",
            Value::record([
                ("message", Value::from(message.as_str())),
                ("hint", hint.as_ref().map_or(Value::NULL, |hint| Value::from(hint.as_str()))),
            ]),
        ),
    };
    Value::record([("name", Value::from(&computed.name)), ("args", datum(&computed.args)), answer])
}

/// The entries of a stored object, each taken once.
struct Reader<'v> {
    object: &'v Object,
    taken: usize,
}

type Read<T> = Result<T, String>;

impl<'v> Reader<'v> {
    fn new(value: &'v Value) -> Read<Self> {
        let object = value.as_object().ok_or("it is not an object")?;
        Ok(Self { object, taken: 0 })
    }

    fn optional(&mut self, key: &str) -> Option<&'v Value> {
        let value = self.object.get_str(key);
        self.taken += usize::from(value.is_some());
        value
    }

    fn value(&mut self, key: &str) -> Read<&'v Value> {
        self.optional(key).ok_or_else(|| format!("it has no `{key}`"))
    }

    fn text(&mut self, key: &str) -> Read<&'v str> {
        self.value(key)?.as_str().ok_or_else(|| format!("`{key}` is not a text"))
    }

    fn int(&mut self, key: &str) -> Read<i64> {
        self.value(key)?.as_i64().ok_or_else(|| format!("`{key}` is not an int"))
    }

    fn count(&mut self, key: &str) -> Read<u64> {
        u64::try_from(self.int(key)?).map_err(|_| format!("`{key}` is below 0"))
    }

    fn optional_count(&mut self, key: &str) -> Read<Option<u64>> {
        if self.has(key) { self.count(key).map(Some) } else { Ok(None) }
    }

    fn count_or_null(&mut self, key: &str) -> Read<Option<u64>> {
        if self.object.get_str(key).is_some_and(Value::is_null) {
            self.taken += 1;
            return Ok(None);
        }
        self.count(key).map(Some)
    }

    fn has(&self, key: &str) -> bool {
        self.object.get_str(key).is_some()
    }

    fn attempt(&mut self, key: &str) -> Read<u32> {
        u32::try_from(self.count(key)?).map_err(|_| format!("`{key}` is too large"))
    }

    fn bool(&mut self, key: &str) -> Read<bool> {
        self.value(key)?.as_bool().ok_or_else(|| format!("`{key}` is not a bool"))
    }

    fn list(&mut self, key: &str) -> Read<&'v [Value]> {
        self.value(key)?.as_list().ok_or_else(|| format!("`{key}` is not a list"))
    }

    fn hash(&mut self, key: &str) -> Read<Hash> {
        self.text(key)?.parse().map_err(|_| format!("`{key}` is not a hash"))
    }

    fn status(&mut self, key: &str) -> Read<Status> {
        let status = self.text(key)?;
        let known = Status::ALL.into_iter().find(|known| known.name() == status);
        known.ok_or_else(|| format!("there is no status `{status}`"))
    }

    fn output(&mut self, key: &str) -> Read<Output> {
        let mut reader = Reader::new(self.value(key)?)?;
        let output = Output {
            status: reader.status("status")?,
            value: read_datum(reader.value("value")?)?,
            output: reader.optional("output").map(read_datum).transpose()?,
            stderr: reader.optional("stderr").map(read_datum).transpose()?,
            meta: reader.value("meta")?.clone(),
        };
        reader.finish()?;
        Ok(output)
    }

    fn computed(&mut self) -> Read<Vec<Computed>> {
        self.list("computed")?.iter().map(read_computed).collect()
    }

    /// Whether everything that stands there was read.
    fn finish(&self) -> Read<()> {
        if self.taken == self.object.len() {
            Ok(())
        } else {
            Err("it holds a key that is not known".to_owned())
        }
    }
}

fn read(kind: &str, reader: &mut Reader<'_>) -> Read<EventKind> {
    Ok(match kind {
        "run_started" => EventKind::RunStarted(RunStarted {
            run: reader.text("run")?.into(),
            workflow: reader.text("workflow")?.into(),
            file: reader.text("file")?.into(),
            text: reader.hash("text")?,
            inputs: read_datum(reader.value("inputs")?)?,
            imports: read_datum(reader.value("imports")?)?,
            payload: reader.optional("payload").map_or(Ok(Datum::Here(Value::NULL)), read_datum)?,
            set: reader.list("set")?.iter().map(read_setting).collect::<Read<_>>()?,
            trust_set: reader.bool("trust_set")?,
            folder: reader.text("folder")?.into(),
            program: reader.text("program")?.into(),
            jobs: reader.count_or_null("jobs")?,
            files: if reader.has("files") {
                reader.list("files")?.iter().map(read_file).collect::<Read<_>>()?
            } else {
                Vec::new()
            },
            caller: reader.optional("caller").map(read_caller).transpose()?,
        }),
        "decided" => EventKind::Decided { as_of: reader.count("as_of")?, computed: reader.computed()? },
        "skipped" => EventKind::Skipped {
            as_of: reader.count("as_of")?,
            computed: reader.computed()?,
            output: reader.output("output")?,
        },
        "expanded" => EventKind::Expanded {
            as_of: reader.count("as_of")?,
            computed: reader.computed()?,
            items: match reader.optional("chunks") {
                Some(index) => Listed::Chunks(read_datum(index)?),
                None => Listed::Whole(read_datum(reader.value("items")?)?),
            },
            count: reader.count("count")?,
            parallel: reader.count("parallel")?,
            rules: reader.optional("rules").map_or(Ok(Rules::STRICT), read_rules)?,
        },
        "item_retrying" => {
            EventKind::ItemRetrying { error: reader.text("error")?.into(), until: reader.int("until")? }
        }
        "item_begun" => EventKind::ItemBegun { attempt: reader.attempt("attempt")? },
        "item_ended" => EventKind::ItemEnded(read_item_ended(reader)?),
        "started" => EventKind::Started {
            as_of: reader.count("as_of")?,
            attempt: reader.attempt("attempt")?,
            rerun: reader.bool("rerun")?,
            computed: reader.computed()?,
            fields: reader.hash("fields")?,
        },
        "defined" => EventKind::Defined {
            name: reader.text("name")?.into(),
            value: read_datum(reader.value("value")?)?,
            computed: reader.computed()?,
        },
        "retrying" => EventKind::Retrying { output: reader.output("output")?, until: reader.int("until")? },
        "unresolved" => EventKind::Unresolved {
            as_of: reader.count("as_of")?,
            computed: reader.computed()?,
            output: reader.output("output")?,
        },
        "finished" => EventKind::Finished {
            output: reader.output("output")?,
            results: reader.optional("results").map(read_datum).transpose()?,
        },
        "paused" => EventKind::Paused { reason: reader.text("reason")?.into() },
        "resumed" => EventKind::Resumed { failed: reader.has("failed") && reader.bool("failed")? },
        "run_ended" => EventKind::RunEnded {
            outcome: {
                let name = reader.text("outcome")?;
                let known = Outcome::ALL.into_iter().find(|outcome| outcome.name() == name);
                known.ok_or_else(|| format!("there is no outcome `{name}`"))?
            },
            exports: read_datum(reader.value("exports")?)?,
            ended: read_loop_end(reader)?,
        },
        "bounded" => EventKind::LimitsResolved {
            computed: reader.computed()?,
            limits: read_limits(reader.value("bounds")?)?,
        },
        "judged" => EventKind::Judged(Box::new(read_judged(reader)?)),
        _ => return Err("this program does not know the kind".to_owned()),
    })
}

fn read_file(value: &Value) -> Read<(EcoString, Hash)> {
    let mut reader = Reader::new(value)?;
    let file = (reader.text("file")?.into(), reader.hash("text")?);
    reader.finish()?;
    Ok(file)
}

fn read_caller(value: &Value) -> Read<Caller> {
    let mut reader = Reader::new(value)?;
    let caller = Caller {
        run: reader.text("run")?.into(),
        at: Address::parse(reader.text("at")?).map_err(|error| error.to_string())?,
        attempt: u32::try_from(reader.count("attempt")?).map_err(|_| "`attempt` is too large")?,
    };
    reader.finish()?;
    Ok(caller)
}

fn read_setting(value: &Value) -> Read<(EcoString, Datum)> {
    let mut reader = Reader::new(value)?;
    let setting = (reader.text("path")?.into(), read_datum(reader.value("value")?)?);
    reader.finish()?;
    Ok(setting)
}

/// The datum that [`datum`] was given.
pub fn read_datum(value: &Value) -> Result<Datum, String> {
    let mut reader = Reader::new(value)?;
    let datum = if let Some(value) = reader.optional("here") {
        Datum::Here(value.clone())
    } else if let Some(value) = reader.optional("tagged") {
        Datum::Here(untagged(value)?)
    } else {
        let (hash, len, form) = (reader.hash("hash")?, reader.count("bytes")?, reader.text("form")?);
        let known =
            [Form::Text, Form::Json, Form::Tagged].into_iter().find(|known| form_name(*known) == form);
        Datum::Stored { hash, len, form: known.ok_or_else(|| format!("there is no form `{form}`"))? }
    };
    reader.finish()?;
    Ok(datum)
}

fn read_computed(value: &Value) -> Read<Computed> {
    let mut reader = Reader::new(value)?;
    let (name, args) = (reader.text("name")?.into(), read_datum(reader.value("args")?)?);
    let answer = if let Some(value) = reader.optional("value") {
        Ok(read_datum(value)?)
    } else if let Some(nearest) = reader.optional("missing") {
        Err(ComputeError::Missing { nearest: text_or_null(nearest)?.map(Into::into) })
    } else {
        let mut failed = Reader::new(reader.value("failed")?)?;
        let message = failed.text("message")?.to_owned();
        let hint = text_or_null(failed.value("hint")?)?.map(ToOwned::to_owned);
        failed.finish()?;
        Err(ComputeError::Failed { message, hint })
    };
    reader.finish()?;
    Ok(Computed { name, args, answer })
}

fn text_or_null(value: &Value) -> Read<Option<&str>> {
    if value.is_null() { Ok(None) } else { value.as_str().map(Some).ok_or("it is not a text".to_owned()) }
}

fn form_name(form: Form) -> &'static str {
    match form {
        Form::Text => "text",
        Form::Json => "json",
        Form::Tagged => "tagged",
    }
}

/// An event nests a value a few levels, and floats are told apart at twice the depth; a value that is deeper than half
/// of this is stored apart.
pub(crate) const SHALLOW: u8 = 100;

/// What was once a value is read again, whatever the limits for what people write are.
const STORED: Limits = Limits { source: 1 << 30, ..Limits::DEFAULT };

/// A value as the text that is stored, and how to read it; [`value_of`] gives the same value again.
pub fn value_text(value: &Value) -> (Form, String) {
    match value.as_str() {
        Some(text) => (Form::Text, text.to_owned()),
        None => container_text(value, value.to_json(JsonStyle::Compact)),
    }
}

/// The text of a value that is no text, whose JSON is known.
pub(crate) fn container_text(value: &Value, json: String) -> (Form, String) {
    if has_float(value) && value.depth() <= SHALLOW {
        (Form::Tagged, tagged(value).to_json(JsonStyle::Compact))
    } else {
        (Form::Json, json)
    }
}

/// The value of a text that was stored.
pub fn value_of(form: Form, text: String) -> Result<Value, String> {
    if form == Form::Text {
        return Ok(Value::from(text));
    }
    let value = data::json::read_value(&text, &STORED).map_err(|error| error.to_string())?;
    if form == Form::Json { Ok(value) } else { untagged(&value) }
}

/// Whether there is a binary float in a value. Its text would read back as a decimal, which is not quite the same.
fn has_float(value: &Value) -> bool {
    if let Some(items) = value.as_list() {
        return items.iter().any(has_float);
    }
    if let Some(object) = value.as_object() {
        return object.values().iter().any(has_float);
    }
    value.as_number().is_some_and(|number| number.as_binary_float().is_some())
}

/// A value with its binary floats as `{"float": "0.1"}`, and each of its objects as `{"object": {...}}`.
fn tagged(value: &Value) -> Value {
    if let Some(items) = value.as_list() {
        return Value::sequence(items.iter().map(tagged));
    }
    if let Some(entries) = value.as_object() {
        let entries = entries.iter().map(|(key, value)| (key.name().clone(), tagged(value)));
        return Value::record([("object", Value::record(entries))]);
    }
    match value.as_number().and_then(threadline_lang::Number::as_binary_float) {
        Some(_) => Value::record([("float", Value::from(value.to_string()))]),
        None => value.clone(),
    }
}

/// The value that [`tagged`] was given.
fn untagged(value: &Value) -> Read<Value> {
    let oversized = |_| "it is too large".to_owned();
    if let Some(items) = value.as_list() {
        return Value::list(items.iter().map(untagged).collect::<Read<_>>()?).map_err(oversized);
    }
    if value.as_object().is_none() {
        return Ok(value.clone());
    }
    let mut reader = Reader::new(value)?;
    if let Some(entries) = reader.optional("object") {
        reader.finish()?;
        let entries = entries.as_object().ok_or("`object` is not an object")?;
        let entries = entries.iter().map(|(key, value)| Ok((key.name().clone(), untagged(value)?)));
        return Value::object(entries.collect::<Read<Vec<_>>>()?).map_err(oversized);
    }
    let float: f64 = reader.text("float")?.parse().map_err(|_| "it is not a float")?;
    reader.finish()?;
    threadline_lang::Number::float(float).map(Value::from).map_err(|_| "it is not a float".to_owned())
}
