//! Finds secrets in whatever comes in, in every form that programs commonly print them in, and puts a mask in their place.
//!
//! What comes in is read as it is and, beside that, as what it would be once escapes are undone: so it does not matter
//! which characters a program escapes and how. In each reading one automaton looks for the secrets, and another one,
//! which does not see line breaks, for their base64, because programs wrap that. A stream is masked as it arrives: only
//! what may be the beginning of a secret is held back. Nothing here knows where the bytes come from or go to.

mod escapes;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
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
use threadline_lang::value::JsonStyle;

use escapes::{EscapeStyle, PlacedByte, READINGS, Unescape};

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
    fn start_of(
        &self,
        text: impl DoubleEndedIterator<Item = u8> + ExactSizeIterator,
        length: usize,
    ) -> usize {
        let size = text.len();
        if !self.skips_breaks {
            return size - length.min(size);
        }
        let counted = text.enumerate().rev().filter(|(_, byte)| !self.skips(*byte));
        counted.take(length).last().map_or(size, |(at, _)| at)
    }

    /// Where what was read last may be the beginning of a form.
    fn open_from(
        &self,
        text: impl DoubleEndedIterator<Item = u8> + ExactSizeIterator,
        state: StateID,
    ) -> usize {
        self.start_of(text, self.depths.get(&state).copied().unwrap_or(0))
    }

    fn next(&self, state: StateID, byte: u8) -> StateID {
        self.automaton.next_state(Anchored::No, state, byte)
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
            base64_forms(value, &mut |form| {
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
    /// What is looked for in what comes in as it is.
    states: SearchStates,
    readings: Vec<StreamReading>,
    /// Whether one of them differs from the text as it is.
    differs: bool,
    /// What was read and may be, or is, a part of a secret that goes on.
    held: Vec<u8>,
    /// How many bytes came before those.
    before: u64,
    /// What of it is to be masked, in order. Two may touch and never overlap.
    covered: Vec<Range<usize>>,
    /// Whether the first of these began before, and its mask was written.
    is_masked: bool,
    found: BTreeSet<usize>,
}

/// How far both searches have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SearchStates {
    plain: StateID,
    base64: StateID,
}

impl SearchStates {
    fn start(masks: &Masks) -> Self {
        Self { plain: masks.plain.start, base64: masks.base64.start }
    }

    /// Where what was read last may be the beginning of a form.
    fn open_from(
        self,
        masks: &Masks,
        text: impl DoubleEndedIterator<Item = u8> + ExactSizeIterator + Clone,
    ) -> usize {
        masks.plain.open_from(text.clone(), self.plain).min(masks.base64.open_from(text, self.base64))
    }

    /// Reads one more byte, and says where the longest form begins that ends with it. `text` ends with this byte.
    fn read(
        &mut self,
        masks: &Masks,
        text: impl DoubleEndedIterator<Item = u8> + ExactSizeIterator + Clone,
        byte: u8,
        secrets: &mut BTreeSet<usize>,
    ) -> Option<usize> {
        self.plain = masks.plain.next(self.plain, byte);
        let plain = masks.plain.found(self.plain, secrets);
        let plain = plain.map(|length| masks.plain.start_of(text.clone(), length));
        if masks.base64.skips(byte) {
            return plain;
        }
        self.base64 = masks.base64.next(self.base64, byte);
        let base64 = masks.base64.found(self.base64, secrets);
        let base64 = base64.map(|length| masks.base64.start_of(text, length));
        plain.into_iter().chain(base64).min()
    }
}

/// What comes in, read with escapes undone. From one escape to the next this is mostly what comes in as it is: then
/// nothing is done.
#[derive(Debug)]
struct StreamReading {
    steps: Vec<Unescape>,
    /// What the byte that is taken stands for.
    given: Vec<PlacedByte>,
    /// Set while this reading differs from the text as it is.
    own: Option<OwnReading>,
}

/// A reading while it differs.
#[derive(Debug)]
struct OwnReading {
    states: SearchStates,
    /// What was read last: at least what may be the beginning of a form.
    read: VecDeque<PlacedByte>,
    /// The length at which what is no longer needed is dropped.
    full: usize,
}

/// So much of a reading is kept at least before it is cut.
const LEAST_KEPT: usize = 4_096;

impl OwnReading {
    fn bytes(&self) -> impl DoubleEndedIterator<Item = u8> + ExactSizeIterator + Clone {
        self.read.iter().map(|placed| placed.byte)
    }

    /// Where in the stream a byte of this reading begins. `end` is where the stream ends.
    fn place(&self, at: usize, end: u64) -> u64 {
        self.read.get(at).map_or(end, |placed| placed.start)
    }

    /// Drops what can be no part of a form any more.
    fn cut(&mut self, masks: &Masks) {
        let open = self.states.open_from(masks, self.bytes());
        self.read.drain(..open);
        self.full = self.read.len() * 2 + LEAST_KEPT;
    }
}

impl StreamReading {
    /// Takes the byte that ends `held`. `states` is how far the searches had come before it in the text as it is. Gives
    /// where in the stream a form begins that ends here.
    fn push(
        &mut self,
        masks: &Masks,
        (held, before): (&[u8], u64),
        states: SearchStates,
        secrets: &mut BTreeSet<usize>,
    ) -> Option<u64> {
        let (byte, earlier) = held.split_last()?;
        let place = |at: usize| before + at as u64;
        if self.own.is_none() && self.steps[0].is_begun_by(*byte) {
            let open = states.open_from(masks, earlier.iter().copied());
            let earlier = earlier.iter().enumerate().skip(open);
            let read = earlier.map(|(at, byte)| PlacedByte { start: place(at), byte: *byte }).collect();
            self.own = Some(OwnReading { states, read, full: LEAST_KEPT });
        }
        let own = self.own.as_mut()?;
        self.given.clear();
        self.given.push(PlacedByte { start: place(held.len() - 1), byte: *byte });
        if !self.steps.iter().all(|step| step.passes(*byte)) {
            for step in &mut self.steps {
                for placed in std::mem::take(&mut self.given) {
                    step.push(placed, &mut self.given);
                }
            }
        }
        let mut first: Option<u64> = None;
        for placed in self.given.drain(..) {
            own.read.push_back(placed);
            let mut states = own.states;
            if let Some(at) = states.read(masks, own.bytes(), placed.byte, secrets) {
                let start = own.place(at, place(held.len()));
                first = Some(first.map_or(start, |first| first.min(start)));
            }
            own.states = states;
        }
        if own.read.len() >= own.full {
            own.cut(masks);
        }
        first
    }

    /// Ends the difference from the text as it is, if there is none any more.
    fn settle(&mut self, masks: &Masks, (held, before): (&[u8], u64), states: SearchStates) {
        let Some(own) = &self.own else { return };
        if own.states != states || self.steps.iter().any(|step| step.open_from().is_some()) {
            return;
        }
        let end = before + held.len() as u64;
        let plain = before + states.open_from(masks, held.iter().copied()) as u64;
        if own.place(own.states.open_from(masks, own.bytes()), end) == plain {
            self.own = None;
        }
    }

    /// Where in the stream begins what may be a part of a secret.
    fn open_from(&self, masks: &Masks, end: u64) -> u64 {
        let Some(own) = &self.own else { return end };
        let open = own.place(own.states.open_from(masks, own.bytes()), end);
        self.steps.iter().filter_map(Unescape::open_from).fold(open, u64::min)
    }
}

impl MaskStream {
    /// A stream that has read nothing.
    pub fn new(masks: Arc<Masks>) -> Self {
        let states = SearchStates::start(&masks);
        let reading = |escapes: &&[EscapeStyle]| {
            let steps = escapes.iter().map(|escape| Unescape::new(*escape)).collect();
            StreamReading { steps, given: Vec::new(), own: None }
        };
        let readings = READINGS.iter().map(reading).collect();
        let (held, covered, found) = (Vec::new(), Vec::new(), BTreeSet::new());
        Self { masks, states, readings, differs: false, held, before: 0, covered, is_masked: false, found }
    }

    /// Takes a piece, and gives what is settled.
    pub fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        let masks = Arc::clone(&self.masks);
        for byte in piece {
            self.held.push(*byte);
            let (earlier, mut start) = (self.states, None::<usize>);
            let text = self.held.iter().copied();
            if let Some(at) = self.states.read(&masks, text, *byte, &mut self.found) {
                start = Some(at);
            }
            // Mostly nothing is escaped.
            let readings =
                if self.differs || escapes::begins_one(*byte) { &mut *self.readings } else { &mut [] };
            self.differs = false;
            for reading in readings {
                let text = (&*self.held, self.before);
                let found = reading.push(&masks, text, earlier, &mut self.found);
                // What is held goes back at least to where any form may begin.
                let found = found.and_then(|found| usize::try_from(found - self.before).ok());
                start = start.into_iter().chain(found).min();
                reading.settle(&masks, text, self.states);
                self.differs |= reading.own.is_some();
            }
            if let Some(start) = start {
                self.cover(start);
            }
        }
        let end = self.before + self.held.len() as u64;
        let plain = self.before + self.states.open_from(&masks, self.held.iter().copied()) as u64;
        let open = self.readings.iter().map(|reading| reading.open_from(&masks, end)).fold(plain, u64::min);
        self.release(usize::try_from(open - self.before).unwrap_or(0))
    }

    /// Gives what was held back: nothing follows it.
    pub fn finish(&mut self) -> Vec<u8> {
        let rest = self.release(self.held.len());
        let next = Self::new(Arc::clone(&self.masks));
        (self.states, self.readings, self.differs) = (next.states, next.readings, false);
        rest
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
        self.before += settled as u64;
        self.is_masked = covered.first().is_some_and(|(start, _, is_masked)| *start == 0 && *is_masked);
        self.covered = covered.into_iter().map(|(start, end, _)| start..end).collect();
        out
    }
}

/// What a secret looks like where no character is escaped by itself.
fn plain_forms(value: &str, add: &mut dyn FnMut(Vec<u8>)) {
    let mut add = |form: String| {
        if form.len() >= SHORTEST_FORM {
            add(form.into_bytes());
        }
    };
    let lines = value.lines().map(str::trim);
    let lines: Vec<&str> = if value.trim().contains(['\n', '\r']) {
        // The first and last line of a key in PEM are no secret.
        lines.filter(|line| line.len() >= SHORTEST_LINE && !line.starts_with("-----")).collect()
    } else {
        Vec::new()
    };
    for text in std::iter::once(value).chain(lines) {
        add(text.to_owned());
        // Inside quotes of a shell, as `set -x` and others print it, and doubled as in SQL and CSV.
        for quote in ["'\\''", "'\"'\"'", "''"] {
            add(text.replace('\'', quote));
        }
        add(text.replace('"', "\"\""));
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
pub(super) fn json_escaped(text: &str) -> String {
    let quoted = Value::from(text).to_json(JsonStyle::Compact);
    quoted[1..quoted.len() - 1].to_owned()
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
            // `encodeURI`, every byte escaped, `urllib.parse.quote`, a form.
            "p@ss/w%22%C3%B6'rd+1",
            "%70%40%73%73%2f%77%22%c3%b6%27%72%64%2b%31",
            "p%40ss/w%22%C3%B6%27rd%2B1",
            "p%2540ss%252Fw%2522%25C3%25B6%2527rd%252B1",
            // PHP, a shell's `%q` and `$'...'`, Python, Rust, HTML, SQL, CSV.
            "p@ss\\/w\\\"\\u00F6'rd+1",
            "p@ss/w\\\"ö\\'rd+1",
            "p@ss/w\"\\303\\266\\'rd+1",
            "p@ss/w\"\\xc3\\xb6\\'rd+1",
            "p@ss/w\\\"\\u{f6}\\'rd+1",
            "p@ss/w\"\\xf6'rd+1",
            "p@ss/w&quot;&#246;&#x27;rd+1",
            "p@ss/w\"ö''rd+1",
            "p@ss/w\"\"ö'rd+1",
        ] {
            assert_eq!(masked(&masks, &format!("a {form} b")), "a *** b", "{form}");
        }
    }

    #[test]
    fn every_reading_begins_where_one_is_looked_for() {
        for byte in 0..=255 {
            let begun = READINGS.iter().any(|escapes| Unescape::new(escapes[0]).is_begun_by(byte));
            assert_eq!(escapes::begins_one(byte), begun, "{byte}");
        }
    }

    #[test]
    fn what_only_looks_like_an_escape_is_left_alone() {
        let masks = masks(&["s3cret&more%41"]);
        for text in [
            "%",
            "a%2",
            "%zz",
            "\\",
            "\\u12",
            "\\ud83d",
            "\\ud83d\\u0041",
            "&amp",
            "&;",
            "&#xx;",
            "100% & more",
        ] {
            assert_eq!(masked(&masks, text), text);
            assert_eq!(
                masked(&masks, &format!("{text} s3cret&more%41{text}")),
                format!("{text} ***{text}"),
                "{text}"
            );
        }
        assert_eq!(masked(&masks, "s3cret&amp;more%41"), "***");
        assert_eq!(masked(&masks, "s3cret%26more%2541"), "***");
    }

    #[test]
    fn base64_in_escapes_is_found() {
        let secret = "~~~???>>>horse~battery?staple";
        let masks = masks(&[secret]);
        let encoded = BASE64_STANDARD_NO_PAD.encode(secret);
        assert!(encoded.contains(['+', '/']), "{encoded}");
        for form in [
            encoded.replace('+', "%2B").replace('/', "%2F"),
            encoded.replace('/', "\\/"),
            encoded
                .as_bytes()
                .chunks(8)
                .map(|line| std::str::from_utf8(line).unwrap())
                .collect::<Vec<_>>()
                .join("\\n"),
        ] {
            assert_eq!(masks.mask_text(&form).1, ["S0"], "{form}");
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

    /// A character in one of the ways that a sort of escape has for it, or as it is.
    fn escaped(escape: EscapeStyle, way: u8, character: char) -> String {
        let each = |write: fn(u8) -> String| character.to_string().bytes().map(write).collect::<String>();
        let code = u32::from(character);
        match (escape, way % 5) {
            (EscapeStyle::Form, _) if character == ' ' => "+".to_owned(),
            (EscapeStyle::Form, 0) if character != '%' && character != '+' => character.to_string(),
            (EscapeStyle::Percent, 0) if character != '%' => character.to_string(),
            (EscapeStyle::Percent | EscapeStyle::Form, 1) => each(|byte| format!("%{byte:02X}")),
            (EscapeStyle::Percent | EscapeStyle::Form, _) => each(|byte| format!("%{byte:02x}")),
            (EscapeStyle::Backslash | EscapeStyle::Point, 0) if character != '\\' => character.to_string(),
            (EscapeStyle::Backslash | EscapeStyle::Point, 1) if !character.is_alphanumeric() => {
                format!("\\{character}")
            }
            (EscapeStyle::Backslash, 2) => each(|byte| format!("\\x{byte:02x}")),
            (EscapeStyle::Point, 2) if code < 256 => format!("\\x{code:02x}"),
            (EscapeStyle::Backslash | EscapeStyle::Point, 3) => each(|byte| format!("\\{byte:03o}")),
            (EscapeStyle::Backslash | EscapeStyle::Point, _) => {
                let units = character.encode_utf16(&mut [0; 2]).to_vec();
                units.iter().fold(String::new(), |text, unit| text + &format!("\\u{unit:04x}"))
            }
            (EscapeStyle::Entity, 0) if character != '&' => character.to_string(),
            (EscapeStyle::Entity, 1) => format!("&#{code};"),
            (EscapeStyle::Entity, _) => match character {
                '&' => "&amp;".to_owned(),
                '<' => "&lt;".to_owned(),
                _ => format!("&#x{code:x};"),
            },
        }
    }

    proptest! {
        #[test]
        fn whatever_is_escaped_and_however_it_is_found(
            secret in "[a-z&%+\\\\\"'/<> öß🦀]{4,12}",
            before in "[a-z&%\\\\+;u0]{0,6}",
            ways in proptest::collection::vec(0..5_u8, 24),
            reading in 0..READINGS.len(),
            cut in 0..200_usize,
        ) {
            let masks = masks(&[&secret]);
            let mut text = secret.clone();
            for escape in READINGS[reading].iter().rev() {
                let ways = ways.iter().cycle();
                text = text.chars().zip(ways).map(|(character, way)| escaped(*escape, *way, character)).collect();
            }
            // An escape that began before is closed by a space.
            let text = format!("{before} {text}");
            let bytes = text.as_bytes();
            let cut = cut.min(bytes.len());
            let mut stream = MaskStream::new(Arc::clone(&masks));
            let mut out = stream.push(&bytes[..cut]);
            out.extend(stream.push(&bytes[cut..]));
            out.extend(stream.finish());
            prop_assert_eq!(stream.found(), ["S0"], "{}", text);
            prop_assert_eq!(masks.mask_bytes(bytes).0, out.clone());
            prop_assert!(out.ends_with(SECRET_MASK.as_bytes()), "{} became {}", text, String::from_utf8_lossy(&out));
        }

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
