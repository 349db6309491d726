//! The large values of an act and of its result: each stands in the blob store, as the bytes that it is, and the message
//! names it.

use threadline_engine::execute::effect::{EffectResult, EffectText, Pieces, ProcessSpec};

use crate::blobs::{BlobError, BlobRef, BlobStore};

/// A text that is larger stands in the blob store: several of this size still fit into a message.
const MOST_IN_MESSAGE: usize = 64 << 10;

/// A value in the blob store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LargeValue {
    /// Where it belongs: `stdin`, `file/0/2`, `stdout`.
    pub(crate) place: String,
    /// The value.
    pub(crate) blob: BlobRef,
}

/// A text of a program, by its place.
fn file_place(file: usize, piece: usize) -> String {
    format!("file/{file}/{piece}")
}

/// The program without its large values, which are put into the store.
pub(crate) fn of_program(
    spec: &ProcessSpec,
    store: &BlobStore,
) -> Result<(ProcessSpec, Vec<LargeValue>), BlobError> {
    let mut values = Vec::new();
    let mut small = |text: &str, place: String| {
        if text.len() <= MOST_IN_MESSAGE {
            return Ok(text.to_owned());
        }
        values.push(LargeValue { place, blob: store.put(text.as_bytes())? });
        Ok(String::new())
    };
    let mut files = Vec::new();
    for (file, pieces) in spec.files.iter().enumerate() {
        let mut kept = Pieces::new();
        for (piece, content) in pieces.iter().enumerate() {
            kept.push(match content {
                EffectText::Text(text) => EffectText::Text(small(text, file_place(file, piece))?),
                path => path.clone(),
            });
        }
        files.push(kept);
    }
    let stdin = spec.stdin.as_deref().map(|text| small(text, "stdin".to_owned())).transpose()?;
    let spec = ProcessSpec {
        program: spec.program.clone(),
        arguments: spec.arguments.clone(),
        files,
        env: spec.env.clone(),
        cwd: spec.cwd.clone(),
        stdin,
        reports_usage: spec.reports_usage,
        limits: spec.limits,
    };
    Ok((spec, values))
}

/// Gives a program its large values again.
pub(crate) fn into_program(
    spec: &mut ProcessSpec,
    values: &[LargeValue],
    store: &BlobStore,
) -> Result<(), String> {
    for LargeValue { place, blob } in values {
        let text = store.get(blob).map_err(|error| error.to_string())?;
        let text = String::from_utf8(text).map_err(|_| format!("the value at `{place}` is no text"))?;
        let files = spec.files.iter_mut().enumerate().flat_map(|(file, pieces)| {
            let pieces = pieces.iter_mut().enumerate();
            pieces.filter(move |(piece, _)| *place == file_place(file, *piece)).map(|(_, content)| content)
        });
        let target = match files.into_iter().next() {
            Some(EffectText::Text(target)) => Some(target),
            None if place == "stdin" => spec.stdin.as_mut(),
            Some(_) | None => None,
        };
        *target.ok_or_else(|| format!("there is no place `{place}` for a value"))? = text;
    }
    Ok(())
}

/// What a result has in bytes, by its places.
fn bytes_of(result: &mut EffectResult) -> Vec<(&'static str, &mut Vec<u8>)> {
    match result {
        EffectResult::Process(Ok(end)) => {
            let stdout = end.stdout.as_mut().ok().map(|stdout| ("stdout", stdout));
            stdout.into_iter().chain([("stderr", &mut end.stderr)]).collect()
        }
        EffectResult::Response(Ok(response), _) => vec![("body", &mut response.body)],
        _ => Vec::new(),
    }
}

/// Whether a result has large values.
pub(crate) fn has_large(result: &mut EffectResult) -> bool {
    bytes_of(result).iter().any(|(_, bytes)| bytes.len() > MOST_IN_MESSAGE)
}

/// Takes the large values out of a result, and puts them into the store. After an error it is as it was, and can be tried
/// again.
pub(crate) fn of_result(result: &mut EffectResult, store: &BlobStore) -> Result<Vec<LargeValue>, BlobError> {
    let mut values = Vec::new();
    let mut large = bytes_of(result);
    large.retain(|(_, bytes)| bytes.len() > MOST_IN_MESSAGE);
    for (place, bytes) in &large {
        values.push(LargeValue { place: (*place).to_owned(), blob: store.put(bytes)? });
    }
    for (_, bytes) in large {
        *bytes = Vec::new();
    }
    Ok(values)
}

/// Gives a result its large values again.
pub(crate) fn into_result(
    result: &mut EffectResult,
    values: &[LargeValue],
    store: &BlobStore,
) -> Result<(), BlobError> {
    let mut places = bytes_of(result);
    for LargeValue { place, blob } in values {
        let Some((_, target)) = places.iter_mut().find(|(name, _)| name == place) else {
            return Err(BlobError::Damaged(format!("the place `{place}`")));
        };
        **target = store.get(blob)?;
    }
    Ok(())
}
