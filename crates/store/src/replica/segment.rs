//! The bytes of a segment. They say which run it is of, its number and the hash of the one before, and end with a hash of
//! all of it: one that was altered, cut off, moved or is of another run is noticed.
//!
//! Texts stand behind their lengths, numbers are little-endian. A version that is not known is refused.

use std::borrow::Cow;

use super::SegmentNumber;
use crate::names::{Hash, RunId, Seq};
use crate::stored_event::{EventDraft, NewRun};

/// What a segment begins with: what it is, and the version of its format.
const HEAD: &[u8] = b"threadline segment 1\n";

/// The bytes of a hash.
const HASH: usize = 32;

/// What one group commit writes of a run and of those that it called.
#[derive(Debug)]
pub(super) struct Segment<'s> {
    /// The run that somebody started.
    pub(super) run: Cow<'s, RunId>,
    pub(super) number: SegmentNumber,
    /// The process that made it: no two have the same name, so no two make the same segment.
    pub(super) writer: Cow<'s, str>,
    /// The hash of the segment before.
    pub(super) before: Hash,
    /// Nothing where a process begins to drive the run.
    pub(super) parts: Vec<SegmentPart<'s>>,
}

/// One thing in a segment, in the order in which it was written.
#[derive(Debug)]
pub(super) enum SegmentPart<'s> {
    Run(Cow<'s, NewRun>),
    Events { run: Cow<'s, RunId>, first: Seq, events: Cow<'s, [(EventDraft, Hash)]> },
    Value { hash: Hash, data: Cow<'s, [u8]> },
    LargeValue { hash: Hash, length: u64 },
}

impl Segment<'_> {
    /// The bytes, and their hash.
    pub(super) fn to_bytes(&self) -> (Vec<u8>, Hash) {
        let mut writer = SegmentWriter(HEAD.to_vec());
        writer.text(self.run.as_str());
        writer.number(self.number);
        writer.text(&self.writer);
        writer.hash(&self.before);
        writer.number(self.parts.len() as u64);
        for part in &self.parts {
            writer.part(part);
        }
        let hash = Hash::of(&writer.0);
        writer.hash(&hash);
        (writer.0, hash)
    }
}

impl Segment<'static> {
    /// The segment that these bytes are, and its hash; or what is wrong with them.
    pub(super) fn read(bytes: &[u8]) -> Result<(Self, Hash), &'static str> {
        let Some(rest) = bytes.strip_prefix(HEAD) else {
            return Err(if bytes.starts_with(b"threadline segment ") {
                "was written by a newer threadline"
            } else {
                "is not a segment"
            });
        };
        let Some(body) = rest.len().checked_sub(HASH) else { return Err("is cut off") };
        let hash = Hash::of(&bytes[..HEAD.len() + body]);
        if rest[body..] != hash.as_bytes()[..] {
            return Err("was altered or cut off");
        }
        let mut reader = SegmentReader(&rest[..body]);
        let segment = reader.segment().filter(|_| reader.0.is_empty());
        Ok((segment.ok_or("cannot be read")?, hash))
    }
}

struct SegmentWriter(Vec<u8>);

impl SegmentWriter {
    fn part(&mut self, part: &SegmentPart<'_>) {
        match part {
            SegmentPart::Run(run) => {
                self.0.push(b'r');
                let NewRun { id, name, file, started_at } = &**run;
                for text in [id.as_str(), name, file, started_at] {
                    self.text(text);
                }
            }
            SegmentPart::Events { run, first, events } => {
                self.0.push(b'e');
                self.text(run.as_str());
                self.number(*first);
                self.number(events.len() as u64);
                for (draft, hash) in &**events {
                    let EventDraft { kind, address, time, payload, status } = draft;
                    for text in [kind, &**address, time, payload] {
                        self.text(text);
                    }
                    self.0.push(u8::from(status.is_some()));
                    if let Some(status) = status {
                        self.text(status);
                    }
                    self.hash(hash);
                }
            }
            SegmentPart::Value { hash, data } => {
                self.0.push(b'v');
                self.hash(hash);
                self.bytes(data);
            }
            SegmentPart::LargeValue { hash, length } => {
                self.0.push(b'l');
                self.hash(hash);
                self.number(*length);
            }
        }
    }

    fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn hash(&mut self, hash: &Hash) {
        self.0.extend_from_slice(hash.as_bytes());
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }
}

/// What is left to read. Each method takes something from the beginning; none if it is not there.
struct SegmentReader<'b>(&'b [u8]);

impl SegmentReader<'_> {
    fn segment(&mut self) -> Option<Segment<'static>> {
        let run = Cow::Owned(self.run_id()?);
        let (number, writer) = (self.number()?, Cow::Owned(self.text()?));
        let (before, count) = (self.hash()?, self.number()?);
        // The count is not believed before the parts are there.
        let parts = (0..count).map(|_| self.part()).collect::<Option<Vec<_>>>()?;
        Some(Segment { run, number, writer, before, parts })
    }

    fn part(&mut self) -> Option<SegmentPart<'static>> {
        Some(match self.byte()? {
            b'r' => SegmentPart::Run(Cow::Owned(NewRun {
                id: self.run_id()?,
                name: self.text()?,
                file: self.text()?,
                started_at: self.text()?,
            })),
            b'e' => {
                let (run, first, count) = (self.run_id()?, self.number()?, self.number()?);
                let events = (0..count).map(|_| self.event()).collect::<Option<Vec<_>>>()?;
                SegmentPart::Events { run: Cow::Owned(run), first, events: Cow::Owned(events) }
            }
            b'v' => SegmentPart::Value { hash: self.hash()?, data: Cow::Owned(self.bytes()?.to_vec()) },
            b'l' => SegmentPart::LargeValue { hash: self.hash()?, length: self.number()? },
            _ => return None,
        })
    }

    fn event(&mut self) -> Option<(EventDraft, Hash)> {
        let (kind, address, time, payload) = (self.text()?, self.text()?, self.text()?, self.text()?);
        let status = match self.byte()? {
            0 => None,
            1 => Some(self.text()?.into()),
            _ => return None,
        };
        Some((EventDraft { kind: kind.into(), address, time, payload, status }, self.hash()?))
    }

    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    fn number(&mut self) -> Option<u64> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*bytes))
    }

    fn hash(&mut self) -> Option<Hash> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(Hash::from_bytes(*bytes))
    }

    fn bytes(&mut self) -> Option<&[u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    fn text(&mut self) -> Option<String> {
        self.bytes().and_then(|bytes| String::from_utf8(bytes.to_vec()).ok())
    }

    fn run_id(&mut self) -> Option<RunId> {
        RunId::new(&self.text()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment() -> Vec<u8> {
        let run = RunId::new("r1").unwrap();
        let new = NewRun {
            id: run.clone(),
            name: "deploy".into(),
            file: "deploy.yaml".into(),
            started_at: "2026-01-01T00:00:00.000Z".into(),
        };
        let draft = EventDraft::new("run_started", "1").at("a").with("{}").status("running");
        let hash = draft.chained(&new.root(), 1);
        let parts = vec![
            SegmentPart::Run(Cow::Owned(new)),
            SegmentPart::Value { hash: Hash::of(b"x"), data: Cow::Borrowed(b"x") },
            SegmentPart::LargeValue { hash: Hash::of(b"y"), length: 7 },
            SegmentPart::Events {
                run: Cow::Borrowed(&run),
                first: 1,
                events: Cow::Owned(vec![(draft, hash)]),
            },
        ];
        Segment { run: Cow::Borrowed(&run), number: 3, writer: "w".into(), before: Hash::of(b"2"), parts }
            .to_bytes()
            .0
    }

    /// Segments of this version have this hash. If it changes, so must the version.
    #[test]
    fn the_bytes_of_version_1_stay_as_they_are() {
        let bytes = segment();
        let (read, hash) = Segment::read(&bytes).unwrap();
        assert_eq!(read.to_bytes(), (bytes, hash));
        assert_eq!(hash.to_string(), "58e0bef983a4f76dd27aaa8e3b03383efd7a5789efc6d9836b969efa3a3438d7");
    }

    #[test]
    fn what_was_altered_or_cut_off_is_refused() {
        let bytes = segment();
        for at in 0..bytes.len() {
            assert!(Segment::read(&bytes[..at]).is_err(), "cut at {at}");
            let mut altered = bytes.clone();
            altered[at] ^= 1;
            assert!(Segment::read(&altered).is_err(), "altered at {at}");
        }
        assert_eq!(
            Segment::read(b"threadline segment 2\n").unwrap_err(),
            "was written by a newer threadline"
        );
    }

    /// Lengths and counts are not believed, whoever made the hash.
    #[test]
    fn any_bytes_are_read_or_refused() {
        let bytes = segment();
        let body = bytes.len() - HASH;
        for at in HEAD.len()..body {
            for byte in [0, 0x7F, 0xFF] {
                let mut altered = bytes[..body].to_vec();
                altered[at] = byte;
                let hash = Hash::of(&altered);
                altered.extend_from_slice(hash.as_bytes());
                // What is read of them does not matter: that it ends does.
                let _ = Segment::read(&altered);
            }
        }
    }
}
