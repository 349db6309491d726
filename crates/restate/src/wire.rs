//! What a coordinator and a worker say to each other, as JSON with a version.
//!
//! A key, a word or a version that is not known is an error, never ignored. A message is an envelope: the text of what is
//! said, and what proves that it comes from somebody with the key.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ecow::EcoString;
use threadline_engine::event::Millis;
use threadline_engine::execute::effect::{Effect, EffectKey, EffectResult};
use threadline_engine::execute::wire::{decode_effect, decode_result, encode_effect, encode_result};
use threadline_flow::fields::ProviderName;
use threadline_flow::model::SecretSource;
use threadline_lang::value::JsonStyle;
use threadline_lang::{Limits, Value, data};
use threadline_runner::secrets::lookup::SecretReference;

use crate::blobs::BlobRef;
use crate::bundle::{BundleChange, SentBundle, change_value, read_change};
use crate::key::SharedKey;
use crate::remote::MEMORY;
use crate::values::LargeValue;

/// The version of what is said.
const VERSION: i64 = 1;

/// How far the clocks of a coordinator and a worker may differ.
const CLOCKS: Duration = Duration::from_hours(1);

pub(crate) type FormResult<T> = Result<T, String>;

/// Why nothing is performed that a message asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequestRefusal {
    /// It was signed so long ago that the server may have forgotten what came of it: whoever sends it now may have recorded
    /// it then.
    Expired,
    /// It is nothing to perform.
    Wrong(String),
}

impl From<String> for RequestRefusal {
    fn from(why: String) -> Self {
        Self::Wrong(why)
    }
}

impl From<RequestRefusal> for String {
    fn from(refusal: RequestRefusal) -> Self {
        match refusal {
            RequestRefusal::Expired => "it was signed too long ago".to_owned(),
            RequestRefusal::Wrong(why) => why,
        }
    }
}

/// The time now.
pub(crate) fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}

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
    /// What to perform, with words in place of secrets.
    pub(crate) effect: Effect,
    /// Whose model a request asks.
    pub(crate) model: Option<ProviderName>,
    /// The secrets of the run.
    pub(crate) secrets: Option<SentSecrets>,
    /// What of it stands in the blob store.
    pub(crate) values: Vec<LargeValue>,
    /// The project, where the worker does not share its folder.
    pub(crate) bundle: Option<SentBundle>,
}

/// The secrets of a run, without their values.
#[derive(Debug, Clone)]
pub(crate) struct SentSecrets {
    /// What words begin with that stand for them.
    pub(crate) nonce: String,
    /// All of them, by their numbers in words.
    pub(crate) list: Vec<SentSecret>,
}

/// A secret without its value.
#[derive(Debug, Clone)]
pub(crate) struct SentSecret {
    /// What it is called, and where it is looked up.
    pub(crate) reference: SecretReference,
    /// What shows whether the value that is found is the one that is meant. It needs the key, so it tells nobody else
    /// anything about the value.
    pub(crate) proof: String,
    /// Whether a word stands for it.
    pub(crate) is_needed: bool,
}

impl SentSecret {
    /// What shows that this is the value of a secret.
    pub(crate) fn proof_of(key: &SharedKey, name: &str, value: &str) -> String {
        key.sign(format!("secret\n{name}\n{value}").as_bytes())
    }
}

/// What is read of a request before anybody trusts it: it decides what is recorded of it, and that has to be the same
/// wherever and however often it is read.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestHead {
    /// The limit that holds for it.
    pub(crate) limit: Option<LimitedAct>,
    /// Whether the program may begin at most once.
    pub(crate) once: bool,
    /// The process that asked.
    pub(crate) session: String,
    /// The service that is asked.
    pub(crate) service: String,
    /// What the server knows it by.
    pub(crate) key: String,
}

/// An act of which only so many may be performed at once, for all coordinators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LimitedAct {
    /// What is counted together.
    pub(crate) name: String,
    /// The run that somebody started: runs take turns.
    pub(crate) run: String,
    /// How many may be performed at once.
    pub(crate) most: u64,
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
    /// It was not performed, because it was asked for too long ago.
    Expired,
}

/// What came of an act.
#[derive(Debug, Clone)]
pub(crate) struct DoneAct {
    /// The name of the worker.
    pub(crate) worker: String,
    /// The result.
    pub(crate) result: EffectResult,
    /// The secrets that were masked in it.
    pub(crate) leaked: Vec<EcoString>,
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
    signed_at(signer, head, request, now())
}

fn signed_at(signer: &SharedKey, head: &RequestHead, request: &WorkerRequest, at: Millis) -> String {
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
        ("service", head.service.as_str().into()),
        ("limit", head.limit.as_ref().map_or(Value::NULL, limit_value)),
        ("at", at.into()),
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
        let (session, service, key) = (word("session")?, word("service")?, word("key")?);
        let limit = text.get("limit").filter(|limit| !limit.is_null()).map(read_limit).transpose().ok()?;
        Some(RequestHead { limit, once, session, service, key })
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

/// The request in a message, if it was signed with the key, for this service, for what the server knows it by, and not
/// longer ago than the server remembers what came of it. So one that is sent a second time finds the result of the first,
/// or is refused.
pub(crate) fn verified(
    signer: &SharedKey,
    service: &str,
    key: &str,
    message: &[u8],
) -> Result<WorkerRequest, RequestRefusal> {
    let text = unsealed(signer, message)?;
    let [signed_for, _, _, of_service, _, at, kind, what] =
        fields(&text, ["key", "once", "session", "service", "limit", "at", "kind", "what"])?;
    if text_of(signed_for, "key")? != key || text_of(of_service, "service")? != service {
        return Err("it was signed for something else".to_owned().into());
    }
    let age = now().saturating_sub(at.as_i64().ok_or("`at` is no time".to_owned())?);
    if age > millis(MEMORY.saturating_sub(CLOCKS)) {
        return Err(RequestRefusal::Expired);
    }
    if age < -millis(CLOCKS) {
        let why = "it was signed in the future: the clocks of the coordinator and of this worker differ";
        return Err(why.to_owned().into());
    }
    Ok(match text_of(kind, "kind")? {
        "act" => WorkerRequest::Act(Box::new(read_act(what)?)),
        "blob" => WorkerRequest::Blob(read_blob(what)?),
        "abandoned" => WorkerRequest::Abandoned,
        "cancel" => WorkerRequest::Cancel(text_of(what, "what")?.to_owned()),
        other => return Err(format!("unknown request `{other}`").into()),
    })
}

fn limit_value(limit: &LimitedAct) -> Value {
    let LimitedAct { name, run, most } = limit;
    Value::record([("name", name.as_str().into()), ("run", run.as_str().into()), ("most", (*most).into())])
}

fn read_limit(value: &Value) -> FormResult<LimitedAct> {
    let [name, run, most] = fields(value, ["name", "run", "most"])?;
    let most = most.as_i64().and_then(|most| u64::try_from(most).ok()).ok_or("`most` is no number")?;
    Ok(LimitedAct { name: text_of(name, "name")?.to_owned(), run: text_of(run, "run")?.to_owned(), most })
}

fn millis(time: Duration) -> Millis {
    Millis::try_from(time.as_millis()).unwrap_or(Millis::MAX)
}

fn act_value(act: &ActRequest) -> Value {
    let effect = encode_effect(&act.key, &act.effect).unwrap_or_default();
    let fields = [
        ("started", act.started.as_str().into()),
        ("not_after", act.not_after.map_or(Value::NULL, Value::from)),
        ("folder", act.folder.as_str().into()),
        ("effect", effect),
    ];
    let bundle = act.bundle.as_ref().map(|SentBundle { name, list }| {
        ("bundle", Value::record([("name", name.as_str().into()), ("list", blob_value(list))]))
    });
    let model = act.model.map(|model| ("model", model.word().into()));
    let secrets = act.secrets.as_ref().map(|secrets| ("secrets", secrets_value(secrets)));
    let more = values_field(&act.values).into_iter().chain(bundle).chain(model).chain(secrets);
    Value::record(fields.into_iter().chain(more))
}

fn secrets_value(secrets: &SentSecrets) -> Value {
    let words = |words: &[EcoString]| Value::sequence(words.iter().map(|word| Value::from(word.as_str())));
    let list = secrets.list.iter().map(|secret| {
        let SecretReference { name, source, env_files } = &secret.reference;
        let source = match source {
            SecretSource::Variable(name) => ("env", name.as_str().into()),
            SecretSource::File(path) => ("file", path.as_str().into()),
            SecretSource::Command(command) => ("command", words(command)),
        };
        Value::record([
            ("name", name.as_str().into()),
            ("source", Value::record([source])),
            ("env_files", words(env_files)),
            ("proof", secret.proof.as_str().into()),
            ("needed", secret.is_needed.into()),
        ])
    });
    Value::record([("nonce", secrets.nonce.as_str().into()), ("list", Value::sequence(list))])
}

fn read_secrets(value: &Value) -> FormResult<SentSecrets> {
    let words = |value: &Value| {
        let list = value.as_list().ok_or("it is no list of words")?;
        list.iter().map(|word| text_of(word, "word").map(EcoString::from)).collect::<FormResult<Vec<_>>>()
    };
    let [nonce, list] = fields(value, ["nonce", "list"])?;
    let list = list.as_list().ok_or("`list` is no list")?.iter().map(|secret| {
        let [name, source, env_files, proof, needed] =
            fields(secret, ["name", "source", "env_files", "proof", "needed"])?;
        let source = match fields_with(source, [], ["env", "file", "command"])?.1 {
            [Some(name), None, None] => SecretSource::Variable(text_of(name, "env")?.into()),
            [None, Some(path), None] => SecretSource::File(text_of(path, "file")?.into()),
            [None, None, Some(command)] => SecretSource::Command(words(command)?),
            _ => return Err("a secret has one source".to_owned()),
        };
        let (name, env_files) = (text_of(name, "name")?.into(), words(env_files)?);
        Ok(SentSecret {
            reference: SecretReference { name, source, env_files },
            proof: text_of(proof, "proof")?.to_owned(),
            is_needed: needed.as_bool().ok_or("`needed` is neither true nor false")?,
        })
    });
    Ok(SentSecrets { nonce: text_of(nonce, "nonce")?.to_owned(), list: list.collect::<FormResult<_>>()? })
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
    let ([started, not_after, folder, effect], [values, bundle, model, secrets]) = fields_with(
        value,
        ["started", "not_after", "folder", "effect"],
        ["values", "bundle", "model", "secrets"],
    )?;
    let bundle = bundle.map(|bundle| {
        let [name, list] = fields(bundle, ["name", "list"])?;
        Ok::<_, String>(SentBundle { name: text_of(name, "name")?.to_owned(), list: read_blob(list)? })
    });
    let (key, effect) = decode_effect(effect).map_err(|error| error.to_string())?;
    if !effect.is_act() {
        return Err("a worker performs programs and requests".to_owned());
    }
    let model = model.map(|model| {
        let word = text_of(model, "model")?;
        ProviderName::of_word(word).ok_or_else(|| format!("the provider `{word}` is not known"))
    });
    let not_after =
        if not_after.is_null() { None } else { Some(not_after.as_i64().ok_or("`not_after` is no time")?) };
    Ok(ActRequest {
        started: text_of(started, "started")?.to_owned(),
        not_after,
        folder: text_of(folder, "folder")?.to_owned(),
        key,
        effect,
        model: model.transpose()?,
        secrets: secrets.map(read_secrets).transpose()?,
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
            let leaked = done.leaked.iter().map(|name| Value::from(name.as_str()));
            let leaked = (!done.leaked.is_empty()).then(|| ("leaked", Value::sequence(leaked)));
            let more = values_field(&done.values).into_iter().chain(change).chain(leaked);
            ("done", Value::record(fields.into_iter().chain(more)))
        }
        WorkerAnswer::Blob(blob) => ("blob", blob_value(blob)),
        WorkerAnswer::Interrupted(session) => ("interrupted", session.as_str().into()),
        WorkerAnswer::Cancelled => ("cancelled", Value::NULL),
        WorkerAnswer::Refused(why) => ("refused", why.as_str().into()),
        WorkerAnswer::Expired => ("expired", Value::NULL),
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
            let ([worker, result], [values, change, leaked]) =
                fields_with(what, ["worker", "result"], ["values", "change", "leaked"])?;
            let leaked = leaked.map_or(Some(&[][..]), Value::as_list).ok_or("`leaked` is no list")?;
            let leaked = leaked.iter().map(|name| text_of(name, "leaked").map(EcoString::from));
            WorkerAnswer::Done(Box::new(DoneAct {
                worker: text_of(worker, "worker")?.to_owned(),
                result: decode_result(result).map_err(|error| error.to_string())?,
                leaked: leaked.collect::<FormResult<_>>()?,
                values: read_values(values)?,
                change: change.map(read_change).transpose()?.unwrap_or_default(),
            }))
        }
        "blob" => WorkerAnswer::Blob(read_blob(what)?),
        "interrupted" => WorkerAnswer::Interrupted(text_of(what, "what")?.to_owned()),
        "cancelled" => WorkerAnswer::Cancelled,
        "refused" => WorkerAnswer::Refused(text_of(what, "what")?.to_owned()),
        "expired" => WorkerAnswer::Expired,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_stands_for_one_act_of_one_service_and_grows_old() {
        let signer = SharedKey::of_bytes(b"0123456789abcdef").unwrap();
        let word = str::to_owned;
        let (session, service, key) = (word("s"), word("ThreadlineAct"), word("r/1"));
        let head = RequestHead { limit: None, once: false, session, service, key };
        let asked = |service: &str, key: &str, age: Duration| {
            let at = now() - millis(age);
            let message = signed_at(&signer, &head, &WorkerRequest::Abandoned, at);
            verified(&signer, service, key, message.as_bytes()).map(drop)
        };
        let other = Err(RequestRefusal::Wrong(word("it was signed for something else")));
        assert_eq!(asked("ThreadlineAct", "r/1", Duration::ZERO), Ok(()));
        assert_eq!(asked("ThreadlineAct", "r/1", Duration::from_hours(6 * 24)), Ok(()));
        assert_eq!(asked("ThreadlineAct", "r/1", MEMORY), Err(RequestRefusal::Expired));
        assert_eq!(asked("ThreadlineAct", "r/2", Duration::ZERO), other);
        assert_eq!(asked("ThreadlineAct", "", Duration::ZERO), other);
        assert_eq!(asked("ThreadlineAct.gpu-true.0", "r/1", Duration::ZERO), other);
        let ahead = signed_at(&signer, &head, &WorkerRequest::Abandoned, now() + millis(2 * CLOCKS));
        let ahead = verified(&signer, "ThreadlineAct", "r/1", ahead.as_bytes()).map(drop);
        assert!(matches!(ahead, Err(RequestRefusal::Wrong(why)) if why.contains("clocks")));
    }
}
