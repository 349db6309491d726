//! Finds secrets in whatever comes in, in every form that programs commonly print them in, and puts a mask in their place.
//!
//! One automaton looks for the plain, quoted and escaped forms; another one, which does not see line breaks, for base64,
//! because programs wrap that. Both read each byte once, so a stream is masked as it arrives: only what may be the
//! beginning of a secret is held back. Nothing here knows where the bytes come from or go to.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::nfa::contiguous::NFA;
use aho_corasick::{Anchored, MatchKind};
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD};
use ecow::EcoString;
use threadline_flow::model::SECRET_MASK;
use threadline_lang::Value;
use threadline_lang::func::percent_encode;
use threadline_lang::value::JsonStyle;

/// A form that is shorter would be found everywhere.
const SHORTEST_FORM: usize = 4;

/// A line of a secret is looked for by itself from this length on.
const SHORTEST_LINE: usize = 8;

/// All forms of some secrets.
pub struct Masks {
    /// The secrets, in no particular order.
    names: Vec<EcoString>,
    plain: FormSearch,
    base64: FormSearch,
}

/// Looks for some forms.
struct FormSearch {
    automaton: NFA,
    start: StateID,
    /// The secret of each form.
    owners: Vec<usize>,
    /// How many bytes of a form have been read in each state: the longest that may become one.
    depths: HashMap<StateID, usize>,
    /// Whether line breaks are passed over.
    skips_breaks: bool,
}

/// Why secrets cannot be looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TooManyForms;

impl FormSearch {
    fn new(forms: &BTreeMap<Vec<u8>, usize>, skips_breaks: bool) -> Result<Self, TooManyForms> {
        let built = NFA::builder().match_kind(MatchKind::Standard).prefilter(false).build(forms.keys());
        let automaton = built.map_err(|_| TooManyForms)?;
        let start = automaton.start_state(Anchored::No).map_err(|_| TooManyForms)?;
        let mut depths = HashMap::new();
        for form in forms.keys() {
            let mut state = start;
            for (at, byte) in form.iter().enumerate() {
                state = automaton.next_state(Anchored::No, state, *byte);
                depths.insert(state, at + 1);
            }
        }
        Ok(Self { automaton, start, owners: forms.values().copied().collect(), depths, skips_breaks })
    }

    fn skips(&self, byte: u8) -> bool {
        self.skips_breaks && matches!(byte, b'\n' | b'\r')
    }

    /// The longest form that ends in a state, and the secrets of all that do.
    fn found(&self, state: StateID, secrets: &mut BTreeSet<usize>) -> Option<usize> {
        if !self.automaton.is_match(state) {
            return None;
        }
        let forms = (0..self.automaton.match_len(state)).map(|at| self.automaton.match_pattern(state, at));
        let lengths = forms.map(|form| {
            secrets.insert(self.owners[form.as_usize()]);
            self.automaton.pattern_len(form)
        });
        lengths.max()
    }

    /// Where so many bytes begin that end a text, not counting what is passed over.
    fn start_of(&self, text: &[u8], length: usize) -> usize {
        if !self.skips_breaks {
            return text.len() - length.min(text.len());
        }
        let counted = text.iter().enumerate().rev().filter(|(_, byte)| !self.skips(**byte));
        counted.take(length).last().map_or(text.len(), |(at, _)| at)
    }
}

impl Masks {
    /// Looks for these secrets: names and values.
    pub fn new<'s>(
        secrets: impl IntoIterator<Item = (&'s EcoString, &'s str)>,
    ) -> Result<Self, TooManyForms> {
        let (mut names, mut plain, mut base64) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        for (name, value) in secrets {
            let owner = names.len();
            names.push(name.clone());
            plain_forms(value, &mut |form| {
                plain.entry(form).or_insert(owner);
            });
            base64_forms(value, &mut |form: Vec<u8>| {
                // In a URL the characters of base64 are escaped.
                let escaped = percent_encoded(&String::from_utf8_lossy(&form)).into_bytes();
                if escaped != form {
                    plain.entry(escaped).or_insert(owner);
                }
                base64.entry(form).or_insert(owner);
            });
        }
        Ok(Self { names, plain: FormSearch::new(&plain, false)?, base64: FormSearch::new(&base64, true)? })
    }

    /// A text with masks, and the secrets that it held.
    pub fn mask_bytes<'t>(self: &Arc<Self>, text: &'t [u8]) -> (Cow<'t, [u8]>, Vec<EcoString>) {
        let mut stream = MaskStream::new(Arc::clone(self));
        let mut masked = stream.push(text);
        masked.extend(stream.finish());
        let found = stream.found();
        (if found.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(masked) }, found)
    }

    /// A text with masks, and the secrets that it held.
    pub fn mask_text<'t>(self: &Arc<Self>, text: &'t str) -> (Cow<'t, str>, Vec<EcoString>) {
        match self.mask_bytes(text.as_bytes()) {
            (Cow::Borrowed(_), found) => (Cow::Borrowed(text), found),
            // A form of a text is whole characters, so what is left is, too.
            (Cow::Owned(masked), found) => (String::from_utf8_lossy(&masked).into_owned().into(), found),
        }
    }

    /// A value with masks in its texts and keys, and the secrets that it held.
    pub fn mask_value(self: &Arc<Self>, value: &Value) -> (Value, Vec<EcoString>) {
        // Its JSON holds every form of it that its texts hold, so most values are looked through once.
        let (_, mut found) = self.mask_text(&value.to_json(JsonStyle::Compact));
        let masked = self.masked(value, &mut found);
        found.sort();
        found.dedup();
        (masked, found)
    }

    fn masked(self: &Arc<Self>, value: &Value, found: &mut Vec<EcoString>) -> Value {
        if let Some(text) = value.as_str() {
            let (text, secrets) = self.mask_text(text);
            found.extend(secrets);
            return Value::from(&*text);
        }
        if let Some(list) = value.as_list() {
            let elements = list.iter().map(|element| self.masked(element, found)).collect();
            // It is no deeper than before, and hardly larger.
            return Value::list(elements).unwrap_or_default();
        }
        if let Some(object) = value.as_object() {
            let entries: Vec<(EcoString, Value)> = object
                .iter()
                .map(|(key, value)| {
                    let (key, secrets) = self.mask_text(key.name());
                    found.extend(secrets);
                    (EcoString::from(&*key), self.masked(value, found))
                })
                .collect();
            return Value::object(entries).unwrap_or_default();
        }
        value.clone()
    }
}

impl std::fmt::Debug for Masks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Masks").field("names", &self.names).finish_non_exhaustive()
    }
}

/// Masks bytes as they arrive. However they are cut into pieces, the same comes of them.
#[derive(Debug)]
pub struct MaskStream {
    masks: Arc<Masks>,
    plain: StateID,
    base64: StateID,
    /// What was read and may be, or is, a part of a secret that goes on.
    held: Vec<u8>,
    /// What of it is to be masked, in order. Two may touch and never overlap.
    covered: Vec<Range<usize>>,
    /// Whether the first of these began before, and its mask was written.
    is_masked: bool,
    found: BTreeSet<usize>,
}

impl MaskStream {
    /// A stream that has read nothing.
    pub fn new(masks: Arc<Masks>) -> Self {
        let (plain, base64) = (masks.plain.start, masks.base64.start);
        let (held, covered, found) = (Vec::new(), Vec::new(), BTreeSet::new());
        Self { masks, plain, base64, held, covered, is_masked: false, found }
    }

    /// Takes a piece, and gives what is settled.
    pub fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        let masks = Arc::clone(&self.masks);
        for byte in piece {
            self.held.push(*byte);
            self.plain = masks.plain.automaton.next_state(Anchored::No, self.plain, *byte);
            if let Some(length) = masks.plain.found(self.plain, &mut self.found) {
                self.cover(masks.plain.start_of(&self.held, length));
            }
            if masks.base64.skips(*byte) {
                continue;
            }
            self.base64 = masks.base64.automaton.next_state(Anchored::No, self.base64, *byte);
            if let Some(length) = masks.base64.found(self.base64, &mut self.found) {
                self.cover(masks.base64.start_of(&self.held, length));
            }
        }
        let open = |search: &FormSearch, state: StateID| {
            search.start_of(&self.held, search.depths.get(&state).copied().unwrap_or(0))
        };
        let settled = open(&masks.plain, self.plain).min(open(&masks.base64, self.base64));
        self.release(settled)
    }

    /// Gives what was held back: nothing follows it.
    pub fn finish(&mut self) -> Vec<u8> {
        (self.plain, self.base64) = (self.masks.plain.start, self.masks.base64.start);
        self.release(self.held.len())
    }

    /// The secrets that were found.
    pub fn found(&self) -> Vec<EcoString> {
        self.found.iter().map(|owner| self.masks.names[*owner].clone()).collect()
    }

    /// Notes that everything held from here on is a part of a secret.
    fn cover(&mut self, start: usize) {
        let mut start = start;
        while let Some(last) = self.covered.last().filter(|last| last.end > start) {
            start = start.min(last.start);
            self.covered.pop();
        }
        self.covered.push(start..self.held.len());
    }

    fn release(&mut self, settled: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(settled);
        let (mut at, mut covered) = (0, Vec::new());
        let mut is_masked = self.is_masked;
        for range in std::mem::take(&mut self.covered) {
            if range.start < settled {
                out.extend_from_slice(&self.held[at..range.start]);
                if !(is_masked && range.start == 0) {
                    out.extend_from_slice(SECRET_MASK.as_bytes());
                }
                at = range.end.min(settled);
            }
            if range.end > settled {
                let start = range.start.saturating_sub(settled);
                is_masked = range.start < settled || is_masked && settled == 0 && range.start == 0;
                covered.push((start, range.end - settled, is_masked));
            }
        }
        out.extend_from_slice(&self.held[at..settled]);
        self.held.drain(..settled);
        self.is_masked = covered.first().is_some_and(|(start, _, is_masked)| *start == 0 && *is_masked);
        self.covered = covered.into_iter().map(|(start, end, _)| start..end).collect();
        out
    }
}

/// What a secret looks like where it is not encoded: as it is, quoted, escaped.
fn plain_forms(value: &str, add: &mut dyn FnMut(Vec<u8>)) {
    let mut add = |form: String| {
        if form.len() >= SHORTEST_FORM {
            add(form.into_bytes());
        }
    };
    add(value.to_owned());
    let lines = value.lines().map(str::trim);
    let lines: Vec<&str> = if value.trim().contains(['\n', '\r']) {
        // The first and last line of a key in PEM are no secret.
        lines.filter(|line| line.len() >= SHORTEST_LINE && !line.starts_with("-----")).collect()
    } else {
        Vec::new()
    };
    for text in std::iter::once(value).chain(lines) {
        add(text.to_owned());
        let json = json_escaped(text);
        add(json_escaped(&json));
        add(ascii_escaped(&json));
        add(json.replace('/', "\\/"));
        add(json);
        // As `set -x` and `declare -p` print it.
        add(text.replace('\'', "'\\''"));
        add(double_quoted(text));
        let percent = percent_encoded(text);
        add(percent.replace("%20", "+"));
        add(lower_case_escapes(&percent));
        add(percent);
    }
}

/// What a secret looks like in base64, wherever it stands in what was encoded. What of it shares a character with its
/// neighbours is left out.
fn base64_forms(value: &str, add: &mut dyn FnMut(Vec<u8>)) {
    let json = json_escaped(value);
    let texts = if json == value { vec![value] } else { vec![value, &json] };
    for text in texts {
        for before in 0..3_usize {
            let mut bytes = vec![0; before];
            bytes.extend_from_slice(text.as_bytes());
            let (first, end) = ((before * 8).div_ceil(6), bytes.len() * 8 / 6);
            for encoded in [BASE64_STANDARD_NO_PAD.encode(&bytes), BASE64_URL_SAFE_NO_PAD.encode(&bytes)] {
                if end >= first + SHORTEST_FORM {
                    add(encoded.as_bytes()[first..end].to_vec());
                }
            }
        }
    }
}

/// A text inside the quotes of JSON.
fn json_escaped(text: &str) -> String {
    let quoted = Value::from(text).to_json(JsonStyle::Compact);
    quoted[1..quoted.len() - 1].to_owned()
}

/// The same, by programs that write nothing but ASCII.
fn ascii_escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for character in json.chars() {
        if character.is_ascii() {
            out.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            // Writing into a text cannot fail.
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
    out
}

fn percent_encoded(text: &str) -> String {
    let mut out = String::new();
    percent_encode(text, &mut out);
    out
}

/// `%2F` as `%2f`.
fn lower_case_escapes(percent: &str) -> String {
    let mut out = String::with_capacity(percent.len());
    let mut escaped = 0;
    for character in percent.chars() {
        out.push(if escaped > 0 { character.to_ascii_lowercase() } else { character });
        escaped = if character == '%' { 2_u8 } else { escaped.saturating_sub(1) };
    }
    out
}

/// A text inside the double quotes of a shell.
fn double_quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, '"' | '$' | '`' | '\\') {
            out.push('\\');
        }
        out.push(character);
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn masks(values: &[&str]) -> Arc<Masks> {
        let names: Vec<EcoString> = (0..values.len()).map(|at| EcoString::from(format!("S{at}"))).collect();
        Arc::new(Masks::new(names.iter().zip(values.iter().copied())).unwrap())
    }

    fn masked(masks: &Arc<Masks>, text: &str) -> String {
        masks.mask_text(text).0.into_owned()
    }

    #[test]
    fn every_form_is_found_and_what_is_around_it_stays() {
        let secret = "p@ss/w\"ö'rd+1";
        let masks = masks(&[secret]);
        let json = json_escaped(secret);
        for form in [
            secret,
            &json,
            &json_escaped(&json),
            "p@ss/w\\\"\\u00f6'rd+1",
            "p%40ss%2Fw%22%C3%B6%27rd%2B1",
            "p%40ss%2fw%22%c3%b6%27rd%2b1",
            "p@ss/w\"ö'\\''rd+1",
            "p@ss/w\\\"ö'rd+1",
        ] {
            assert_eq!(masked(&masks, &format!("a {form} b")), "a *** b", "{form}");
        }
    }

    #[test]
    fn base64_is_found_at_every_alignment_and_across_lines() {
        let secret = "correct-horse-battery-staple";
        let masks = masks(&[secret]);
        for before in 0..7 {
            for after in 0..4 {
                let text = format!("{}{secret}{}", "u".repeat(before), "v".repeat(after));
                let encoded = BASE64_STANDARD_NO_PAD.encode(&text);
                let (shown, found) = masks.mask_text(&encoded);
                assert_eq!(found, ["S0"], "{before} {after}: {encoded}");
                assert!(shown.len() < encoded.len() - 20, "{shown}");
                for width in [1, 4, 10, 19] {
                    let lines: Vec<&str> = encoded
                        .as_bytes()
                        .chunks(width)
                        .map(|line| std::str::from_utf8(line).unwrap())
                        .collect();
                    assert_eq!(masks.mask_text(&lines.join("\r\n")).1, ["S0"], "{before} {after} {width}");
                }
            }
        }
    }

    #[test]
    fn secrets_that_overlap_or_touch_are_all_masked() {
        let masks = masks(&["abcdef", "defghi", "abcd"]);
        assert_eq!(masked(&masks, "-abcdefghi-"), "-***-");
        assert_eq!(masked(&masks, "abcdefabcdef"), "******");
        assert_eq!(masked(&masks, "abcdabc"), "***abc");
        assert_eq!(masked(&masks, "xabcx"), "xabcx");
    }

    #[test]
    fn the_lines_of_a_key_are_masked_by_themselves_but_not_its_frame() {
        let key = "-----BEGIN KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQ\n-----END KEY-----";
        let masks = masks(&[key]);
        let text = "-----BEGIN KEY-----\n  MIIEvQIBADANBg\n  kqhkiG9w0BAQ\n-----END KEY-----";
        assert_eq!(masked(&masks, text), "-----BEGIN KEY-----\n  ***\n  ***\n-----END KEY-----");
    }

    #[test]
    fn values_are_masked_in_texts_and_keys() {
        let masks = masks(&["s3cret"]);
        let value = Value::record([("s3cret", Value::list(vec!["a s3cret".into(), 1.into()]).unwrap())]);
        let (value, found) = masks.mask_value(&value);
        assert_eq!(value.to_json(JsonStyle::Compact), r#"{"***":["a ***",1]}"#);
        assert_eq!(found, ["S0"]);
    }

    proptest! {
        #[test]
        fn pieces_change_nothing(
            secrets in proptest::collection::vec("[ab]{4,7}|[a-c\\n]{9,14}", 1..4),
            text in "[abc\\n]{0,60}",
            cuts in proptest::collection::vec(0..60_usize, 0..8),
        ) {
            let secrets: Vec<&str> = secrets.iter().map(String::as_str).collect();
            let masks = masks(&secrets);
            let whole = masks.mask_bytes(text.as_bytes());
            let mut stream = MaskStream::new(Arc::clone(&masks));
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let mut out: Vec<u8> =
                cuts.windows(2).flat_map(|pair| stream.push(&text.as_bytes()[pair[0]..pair[1]])).collect();
            out.extend(stream.finish());
            prop_assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(&whole.0));
            prop_assert_eq!(stream.found(), whole.1);
            for secret in secrets {
                prop_assert!(!String::from_utf8_lossy(&out).contains(secret));
            }
        }
    }
}
