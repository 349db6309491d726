//! What is visible of a stream: the bytes from a place on, as many as somebody asks for. It knows the line and column
//! of that place, and nothing about what the bytes mean.

use std::io::{self, Read};

/// The bytes that are read at once, at least.
const BLOCK: usize = 64 << 10;

/// A place in a stream, both from 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamPosition {
    /// The line, counted from 1.
    pub line: u64,
    /// The column in characters, counted from 1.
    pub column: u64,
}

impl StreamPosition {
    /// The place after these bytes.
    pub(super) fn after(self, bytes: &[u8]) -> Self {
        let lines = bytes.split(|byte| *byte == b'\n').count() as u64 - 1;
        let last =
            if lines == 0 { bytes } else { bytes.rsplit(|byte| *byte == b'\n').next().unwrap_or(bytes) };
        // The first byte of each character.
        let characters = last.iter().filter(|byte| **byte & 0xc0 != 0x80).count() as u64;
        let column = if lines == 0 { self.column } else { 1 };
        Self { line: self.line + lines, column: column + characters }
    }
}

pub(super) struct StreamWindow<'a> {
    read: Box<dyn Read + 'a>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    ended: bool,
    place: StreamPosition,
}

impl<'a> StreamWindow<'a> {
    /// At the beginning of a stream, behind its byte order mark.
    pub(super) fn new(read: Box<dyn Read + 'a>) -> io::Result<Self> {
        const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
        let place = StreamPosition { line: 1, column: 1 };
        let mut window = Self { read, buffer: vec![0; BLOCK], start: 0, end: 0, ended: false, place };
        while window.seen().len() < BYTE_ORDER_MARK.len() && window.more()? {}
        if window.seen().starts_with(BYTE_ORDER_MARK) {
            window.start += BYTE_ORDER_MARK.len();
        }
        Ok(window)
    }

    /// Where it begins.
    pub(super) fn place(&self) -> StreamPosition {
        self.place
    }

    /// What has been read and not been passed.
    pub(super) fn seen(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Reads more behind what is seen; false at the end of the stream.
    pub(super) fn more(&mut self) -> io::Result<bool> {
        if self.ended {
            return Ok(false);
        }
        if self.end == self.buffer.len() {
            self.make_room();
        }
        loop {
            match self.read.read(&mut self.buffer[self.end..]) {
                Ok(count) => {
                    self.end += count;
                    self.ended = count == 0;
                    return Ok(!self.ended);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn make_room(&mut self) {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.end > self.buffer.len() / 2 {
            self.buffer.resize(2 * self.buffer.len(), 0);
        }
    }

    /// The first byte, if there is one.
    #[inline]
    pub(super) fn peek(&mut self) -> io::Result<Option<u8>> {
        if self.start == self.end {
            self.more()?;
        }
        Ok(self.seen().first().copied())
    }

    /// Goes past so many bytes that are seen.
    #[inline]
    pub(super) fn pass(&mut self, count: usize) {
        self.place = self.place.after(&self.buffer[self.start..self.start + count]);
        self.start += count;
        if self.start == self.end && self.buffer.len() > 16 * BLOCK {
            // One long line is no reason to keep so much room for the others.
            self.buffer.truncate(BLOCK);
            self.buffer.shrink_to_fit();
            (self.start, self.end) = (0, 0);
        }
    }

    /// Goes past the space that JSON has between its tokens.
    pub(super) fn skip_space(&mut self) -> io::Result<()> {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.peek()? {
            let seen = self.seen();
            let space = |byte: &u8| matches!(byte, b' ' | b'\n' | b'\t' | b'\r');
            let count = seen.iter().position(|byte| !space(byte)).unwrap_or(seen.len());
            self.pass(count);
        }
        Ok(())
    }

    /// Where the first byte is that `found` is for, counted from the beginning; the end of the stream when there is none.
    /// Nothing when it is beyond the limit.
    pub(super) fn find(
        &mut self,
        limit: usize,
        mut found: impl FnMut(u8) -> bool,
    ) -> io::Result<Option<usize>> {
        let mut done = 0;
        loop {
            if let Some(at) = self.seen()[done..].iter().position(|byte| found(*byte)) {
                return Ok((done + at <= limit).then_some(done + at));
            }
            done = self.seen().len();
            if done > limit {
                return Ok(None);
            }
            if !self.more()? {
                return Ok(Some(done));
            }
        }
    }
}
