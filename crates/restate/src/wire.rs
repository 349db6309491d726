//! What a coordinator and a worker say to each other, as JSON with a version.
//!
//! A key, a word or a version that is not known is an error, never ignored. A message is an envelope: the text of what is
//! said, and what proves that it comes from somebody with the key.

use threadline_engine::event::Millis;
use threadline_engine::execute::effect::{Effect, EffectKey, EffectResult, ProcessSpec};
use threadline_engine::execute::wire::{decode_effect, decode_result, encode_effect, encode_result};
use threadline_lang::value::JsonStyle;
use threadline_lang::{Limits, Value, data};

use crate::blobs::BlobRef;
use crate::bundle::{BundleChange, SentBundle, change_value, read_change};
use crate::key::SharedKey;
use crate::values::LargeValue;

/// The version of what is said.
const VERSION: i64 = 1;

pub(crate) type FormResult<T> = Result<T, String>;

/// What a coordinator asks a worker for.
#[derive(Debug, Clone)]
pub(crate) enum WorkerRequest {
    /// Perform a program.
    Act(Box<ActRequest>),
    /// The same, which stands in a file.
    Blob(BlobRef),
    /// Perform nothing: whoever asked has given up before the program began.
    Abandoned,
    /// End what this invocation performs.
    Cancel(String),
}

/// A program to perform.
#[derive(Debug, Clone)]
pub(crate) struct ActRequest {
    /// The run that somebody started.
    pub(crate) started: String,
    /// The time that it may not outlast.
    pub(crate) not_after: Option<Millis>,
    /// The folder of the run, relative to the project.
    pub(crate) folder: String,
    /// Names it in its run.
    pub(crate) key: EffectKey,
    /// What to run.
    pub(crate) spec: ProcessSpec,
    /// What of it stands in the blob store.
    pub(crate) values: Vec<LargeValue>,
    /// The project, where the worker does not share its folder.
    pub(crate) bundle: Option<SentBundle>,
}

/// What is read of a request before anybody trusts it: it decides what is recorded of it, and that has to be the same
/// wherever and however often it is read.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestHead {
    /// Whether the program may begin at most once.
    pub(crate) once: bool,
    /// The process that asked.
    pub(crate) session: String,
    /// What the server knows it by.
    pub(crate) key: String,
}

/// What a worker answers.
#[derive(Debug, Clone)]
pub(crate) enum WorkerAnswer {
    /// What came of it.
    Done(Box<DoneAct>),
    /// The same, which stands in a file.
    Blob(BlobRef),
    /// It may have begun, its worker died, and it may not begin twice; the process that had asked for it.
    Interrupted(String),
    /// It was given up before it began.
    Cancelled,
    /// It was not performed, for this reason.
    Refused(String),
}

/// What came of an act.
#[derive(Debug, Clone)]
pub(crate) struct DoneAct {
    /// The name of the worker.
    pub(crate) worker: String,
    /// The result.
    pub(crate) result: EffectResult,
    /// What of it stands in the blob store.
    pub(crate) values: Vec<LargeValue>,
    /// What it changed in its copy of the project.
    pub(crate) change: BundleChange,
}

pub(crate) fn json(value: &Value) -> String {
    value.to_json(JsonStyle::Compact)
}

pub(crate) fn parse(text: &str) -> FormResult<Value> {
    data::json::read_value(text, &Limits::DEFAULT).map_err(|_| "it is no JSON".to_owned())
}

/// A message with its signature. The key of its act is signed, too, so that it stands for nothing else.
pub(crate) fn signed(signer: &SharedKey, head: &RequestHead, request: &WorkerRequest) -> String {
    let (kind, what) = match request {
        WorkerRequest::Act(act) => ("act", act_value(act)),
        WorkerRequest::Blob(blob) => ("blob", blob_value(blob)),
        WorkerRequest::Abandoned => ("abandoned", Value::NULL),
        WorkerRequest::Cancel(invocation) => ("cancel", invocation.as_str().into()),
    };
    let request = Value::record([
        ("key", head.key.as_str().into()),
        ("once", head.once.into()),
        ("session", head.session.as_str().into()),
        ("kind", kind.into()),
        ("what", what),
    ]);
    sealed(signer, &request)
}

/// The envelope of what is said: its text, the version, and what proves that it comes from somebody with the key.
pub(crate) fn sealed(signer: &SharedKey, said: &Value) -> String {
    let text = json(said);
    let signature = signer.sign(text.as_bytes());
    json(&Value::record([
        ("v", VERSION.into()),
        ("signature", signature.as_str().into()),
        ("text", text.as_str().into()),
    ]))
}

/// What is said in an envelope, if it was signed with the key.
pub(crate) fn unsealed(signer: &SharedKey, message: &[u8]) -> FormResult<Value> {
    let message = std::str::from_utf8(message).map_err(|_| "it is no text".to_owned())?;
    let message = parse(message)?;
    let [version, signature, text] = fields(&message, ["v", "signature", "text"])?;
    if version.as_i64() != Some(VERSION) {
        return Err(format!("version {} is not known to this worker", json(version)));
    }
    let (signature, text) = (text_of(signature, "signature")?, text_of(text, "text")?);
    if !signer.has_signed(text.as_bytes(), signature) {
        return Err("it is not signed with the key of this worker".to_owned());
    }
    parse(text)
}

/// The text of a request for a program, when it stands in a file.
pub(crate) fn act_text(act: &ActRequest) -> String {
    json(&act_value(act))
}

/// The request that [`act_text`] wrote.
pub(crate) fn read_act_text(text: &str) -> FormResult<ActRequest> {
    read_act(&parse(text)?)
}

/// What a message begins with, whoever sent it.
pub(crate) fn head(message: &[u8]) -> RequestHead {
    let read = || {
        let message = parse(std::str::from_utf8(message).ok()?).ok()?;
        let text = parse(message.get("text")?.as_str()?).ok()?;
        let once = text.get("once")?.as_bool()?;
        let word = |key: &str| Some(text.get(key)?.as_str()?.to_owned());
        Some(RequestHead { once, session: word("session")?, key: word("key")? })
    };
    read().unwrap_or_default()
}

/// The invocation that a message wants to end, whoever sent it.
pub(crate) fn named_invocation(message: &[u8]) -> String {
    let read = || {
        let message = parse(std::str::from_utf8(message).ok()?).ok()?;
        let text = parse(message.get("text")?.as_str()?).ok()?;
        Some(text.get("what")?.as_str()?.to_owned())
    };
    read().unwrap_or_default()
}

/// The request in a message, if it was signed with the key and for what the server knows it by.
pub(crate) fn verified(signer: &SharedKey, key: &str, message: &[u8]) -> FormResult<WorkerRequest> {
    let text = unsealed(signer, message)?;
    let [signed_for, _, _, kind, what] = fields(&text, ["key", "once", "session", "kind", "what"])?;
    if text_of(signed_for, "key")? != key {
        return Err("it was signed for something else".to_owned());
    }
    Ok(match text_of(kind, "kind")? {
        "act" => WorkerRequest::Act(Box::new(read_act(what)?)),
        "blob" => WorkerRequest::Blob(read_blob(what)?),
        "abandoned" => WorkerRequest::Abandoned,
        "cancel" => WorkerRequest::Cancel(text_of(what, "what")?.to_owned()),
        other => return Err(format!("unknown request `{other}`")),
    })
}

fn act_value(act: &ActRequest) -> Value {
    let effect = encode_effect(&act.key, &Effect::Process(act.spec.clone())).unwrap_or_default();
    let fields = [
        ("started", act.started.as_str().into()),
        ("not_after", act.not_after.map_or(Value::NULL, Value::from)),
        ("folder", act.folder.as_str().into()),
        ("effect", effect),
    ];
    let bundle = act.bundle.as_ref().map(|SentBundle { name, list }| {
        ("bundle", Value::record([("name", name.as_str().into()), ("list", blob_value(list))]))
    });
    Value::record(fields.into_iter().chain(values_field(&act.values)).chain(bundle))
}

/// A field that is there only where it says something: who does not know it refuses what needs it and nothing else.
fn values_field(values: &[LargeValue]) -> Option<(&'static str, Value)> {
    let value = |LargeValue { place, blob }: &LargeValue| {
        Value::record([("place", place.as_str().into()), ("blob", blob_value(blob))])
    };
    (!values.is_empty()).then(|| ("values", Value::sequence(values.iter().map(value))))
}

fn read_values(value: Option<&Value>) -> FormResult<Vec<LargeValue>> {
    let Some(value) = value else { return Ok(Vec::new()) };
    let values = value.as_list().ok_or("`values` is no list")?;
    let read = |value: &Value| {
        let [place, blob] = fields(value, ["place", "blob"])?;
        Ok(LargeValue { place: text_of(place, "place")?.to_owned(), blob: read_blob(blob)? })
    };
    values.iter().map(read).collect()
}

fn read_act(value: &Value) -> FormResult<ActRequest> {
    let ([started, not_after, folder, effect], [values, bundle]) =
        fields_with(value, ["started", "not_after", "folder", "effect"], ["values", "bundle"])?;
    let bundle = bundle.map(|bundle| {
        let [name, list] = fields(bundle, ["name", "list"])?;
        Ok::<_, String>(SentBundle { name: text_of(name, "name")?.to_owned(), list: read_blob(list)? })
    });
    let (key, effect) = decode_effect(effect).map_err(|error| error.to_string())?;
    let Effect::Process(spec) = effect else { return Err("a worker performs only programs".to_owned()) };
    let not_after =
        if not_after.is_null() { None } else { Some(not_after.as_i64().ok_or("`not_after` is no time")?) };
    Ok(ActRequest {
        started: text_of(started, "started")?.to_owned(),
        not_after,
        folder: text_of(folder, "folder")?.to_owned(),
        key,
        spec,
        values: read_values(values)?,
        bundle: bundle.transpose()?,
    })
}

/// An answer as text.
pub(crate) fn answer_text(answer: &WorkerAnswer) -> String {
    let (kind, what) = match answer {
        WorkerAnswer::Done(done) => {
            let fields = [
                ("worker", done.worker.as_str().into()),
                ("result", encode_result(&done.result).unwrap_or_default()),
            ];
            let change = (!done.change.is_empty()).then(|| ("change", change_value(&done.change)));
            ("done", Value::record(fields.into_iter().chain(values_field(&done.values)).chain(change)))
        }
        WorkerAnswer::Blob(blob) => ("blob", blob_value(blob)),
        WorkerAnswer::Interrupted(session) => ("interrupted", session.as_str().into()),
        WorkerAnswer::Cancelled => ("cancelled", Value::NULL),
        WorkerAnswer::Refused(why) => ("refused", why.as_str().into()),
    };
    json(&Value::record([("v", VERSION.into()), ("kind", kind.into()), ("what", what)]))
}

/// The answer that [`answer_text`] wrote.
pub(crate) fn read_answer(text: &str) -> FormResult<WorkerAnswer> {
    let value = parse(text)?;
    let [version, kind, what] = fields(&value, ["v", "kind", "what"])?;
    if version.as_i64() != Some(VERSION) {
        return Err(format!("version {} of an answer is not known", json(version)));
    }
    Ok(match text_of(kind, "kind")? {
        "done" => {
            let ([worker, result], [values, change]) =
                fields_with(what, ["worker", "result"], ["values", "change"])?;
            WorkerAnswer::Done(Box::new(DoneAct {
                worker: text_of(worker, "worker")?.to_owned(),
                result: decode_result(result).map_err(|error| error.to_string())?,
                values: read_values(values)?,
                change: change.map(read_change).transpose()?.unwrap_or_default(),
            }))
        }
        "blob" => WorkerAnswer::Blob(read_blob(what)?),
        "interrupted" => WorkerAnswer::Interrupted(text_of(what, "what")?.to_owned()),
        "cancelled" => WorkerAnswer::Cancelled,
        "refused" => WorkerAnswer::Refused(text_of(what, "what")?.to_owned()),
        other => return Err(format!("unknown answer `{other}`")),
    })
}

pub(crate) fn blob_value(blob: &BlobRef) -> Value {
    Value::record([("hash", blob.hash.as_str().into()), ("length", blob.length.into())])
}

pub(crate) fn read_blob(value: &Value) -> FormResult<BlobRef> {
    let [hash, length] = fields(value, ["hash", "length"])?;
    let length = length.as_i64().and_then(|length| u64::try_from(length).ok());
    Ok(BlobRef {
        hash: text_of(hash, "hash")?.to_owned(),
        length: length.ok_or("`length` is no number of bytes")?,
    })
}

/// The values of an object that has exactly these keys.
pub(crate) fn fields<'v, const N: usize>(value: &'v Value, keys: [&str; N]) -> FormResult<[&'v Value; N]> {
    fields_with(value, keys, []).map(|(found, [])| found)
}

/// The values of an object that has exactly these keys, and none but these besides.
pub(crate) fn fields_with<'v, const N: usize, const M: usize>(
    value: &'v Value,
    keys: [&str; N],
    more: [&str; M],
) -> FormResult<([&'v Value; N], [Option<&'v Value>; M])> {
    let Some(object) = value.as_object() else { return Err("expected an object".to_owned()) };
    let is_known = |key: &str| keys.contains(&key) || more.contains(&key);
    if let Some((key, _)) = object.iter().find(|(key, _)| !is_known(key.as_str())) {
        return Err(format!("unknown key `{}`", key.as_str()));
    }
    let mut found = [value; N];
    for (place, key) in found.iter_mut().zip(keys) {
        *place = value.get(key).ok_or_else(|| format!("`{key}` is missing"))?;
    }
    Ok((found, more.map(|key| value.get(key))))
}

pub(crate) fn text_of<'v>(value: &'v Value, key: &str) -> FormResult<&'v str> {
    value.as_str().ok_or_else(|| format!("`{key}` is no text"))
}
