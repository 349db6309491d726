//! Checks whether the write-ahead log beside a journal is whole.
//!
//! SQLite believes a log up to its first frame that does not fit, and forgets the rest: right after a power loss,
//! where transactions that were not synced can be torn, and wrong after damage, where transactions that were synced
//! would vanish in silence. A transaction that began when everything before it was synced changes a certain page. So
//! one that stands behind a frame that does not fit, with the end of a transaction in between, means damage. Damage to
//! the transactions since the last mark cannot be told from torn ones.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::Path;

use crate::error::StoreError;
use crate::schema::META_PAGE;

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;

/// The number of times to read a log that seems damaged: if another process writes it meanwhile, no two readings agree.
const READINGS: usize = 4;

/// Fails if transactions that were synced could be lost by opening the journal.
pub(crate) fn check(log: &Path) -> Result<(), StoreError> {
    let mut last = None;
    for _ in 0..READINGS {
        let broken = match File::open(log).and_then(find_broken_frame) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            found => found.map_err(|error| StoreError::io(log, &error))?,
        };
        if broken.is_none() {
            return Ok(());
        }
        if broken == last {
            return Err(StoreError::damaged(format!("`{}` is broken within", log.display())));
        }
        last = broken;
    }
    Ok(())
}

/// The first broken frame of a log, and the generation of the log.
#[derive(Clone, Copy, PartialEq, Eq)]
struct BrokenFrame {
    salts: [u8; 8],
    frame: u64,
}

/// The checksum over all frames so far.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FrameChecksum {
    big_endian: bool,
    words: [u32; 2],
}

impl FrameChecksum {
    fn add(&mut self, bytes: &[u8]) {
        let [mut first, mut second] = self.words;
        for pair in bytes.chunks_exact(8) {
            first = first.wrapping_add(self.word(&pair[..4])).wrapping_add(second);
            second = second.wrapping_add(self.word(&pair[4..])).wrapping_add(first);
        }
        self.words = [first, second];
    }

    fn word(&self, bytes: &[u8]) -> u32 {
        let bytes = [bytes[0], bytes[1], bytes[2], bytes[3]];
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    fn matches(&self, written: &[u8]) -> bool {
        written[..4] == self.words[0].to_be_bytes() && written[4..8] == self.words[1].to_be_bytes()
    }
}

fn find_broken_frame(file: File) -> io::Result<Option<BrokenFrame>> {
    let mut log = BufReader::with_capacity(1 << 16, file);
    let mut header = [0; HEADER];
    if !fill(&mut log, &mut header)? || header == [0; HEADER] {
        return Ok(None);
    }
    let mut salts = [0; 8];
    salts.copy_from_slice(&header[16..24]);
    let mut sum = FrameChecksum { big_endian: header[3] & 1 == 1, words: [0; 2] };
    sum.add(&header[..24]);
    let page = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
    if !sum.matches(&header[24..]) || !(512..=65_536).contains(&page) {
        return Ok(Some(BrokenFrame { salts, frame: 0 }));
    }
    let mut frame = vec![0; FRAME_HEADER + page as usize];
    let mut number = 1;
    while fill(&mut log, &mut frame)? {
        sum.add(&frame[..8]);
        sum.add(&frame[FRAME_HEADER..]);
        if frame[8..16] != salts || !sum.matches(&frame[16..]) {
            let lost = synced_behind(&mut log, &mut frame, salts)?;
            return Ok(lost.then_some(BrokenFrame { salts, frame: number }));
        }
        number += 1;
    }
    Ok(None)
}

/// Whether this frame, or one after it, ends a transaction of this generation that one with a mark follows.
fn synced_behind(log: &mut impl Read, frame: &mut [u8], salts: [u8; 8]) -> io::Result<bool> {
    let mut is_complete = false;
    loop {
        if frame[8..16] == salts {
            if is_complete && frame[..4] == META_PAGE.to_be_bytes() {
                return Ok(true);
            }
            is_complete |= frame[4..8] != [0; 4];
        }
        if !fill(log, frame)? {
            return Ok(false);
        }
    }
}

/// Fills the buffer; returns `false` if the file ends before.
fn fill(log: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match log.read_exact(buffer) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| true),
    }
}
