//! Records that wait on disk: written once, read once, in files that nobody else can read and that have no name.
//!
//! A file loses its name as soon as it is open, so nothing is left of it whatever happens to this process.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use threadline_engine::event::ValueEncoding;
use threadline_lang::Value;
use threadline_store::wire;

/// The bytes that a file has in memory while it is written or read.
const BUFFER: usize = 64 << 10;

/// A file that is being written.
pub(super) struct SpoolWriter(BufWriter<File>);

impl SpoolWriter {
    pub(super) fn create(folder: &Path) -> io::Result<Self> {
        let path = folder.join(format!("items-{}", uuid::Uuid::new_v4().simple()));
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        fs::remove_file(&path)?;
        Ok(Self(BufWriter::with_capacity(BUFFER, file)))
    }

    pub(super) fn number(&mut self, number: u64) -> io::Result<()> {
        self.0.write_all(&number.to_le_bytes())
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.number(bytes.len() as u64)?;
        self.0.write_all(bytes)
    }

    /// Goes back to the beginning, to read.
    pub(super) fn finish(self) -> io::Result<SpoolReader> {
        let mut file = self.0.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.seek(SeekFrom::Start(0))?;
        Ok(SpoolReader(BufReader::with_capacity(BUFFER, file)))
    }
}

/// A file that is being read.
pub(super) struct SpoolReader(BufReader<File>);

impl SpoolReader {
    /// The next number; nothing at the end of the file.
    pub(super) fn next_number(&mut self) -> io::Result<Option<u64>> {
        let mut bytes = [0; 8];
        if self.0.read(&mut bytes[..1])? == 0 {
            return Ok(None);
        }
        self.0.read_exact(&mut bytes[1..])?;
        Ok(Some(u64::from_le_bytes(bytes)))
    }

    pub(super) fn number(&mut self) -> io::Result<u64> {
        self.next_number()?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    pub(super) fn bytes(&mut self) -> io::Result<Vec<u8>> {
        let len = usize::try_from(self.number()?).map_err(io::Error::other)?;
        let mut bytes = vec![0; len];
        self.0.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

/// Appends a value: how to read it, then its text.
pub(crate) fn encode(value: &Value, out: &mut Vec<u8>) {
    let (form, text) = wire::value_text(value);
    out.push(match form {
        ValueEncoding::Text => b't',
        ValueEncoding::Json => b'j',
        ValueEncoding::Tagged => b'g',
    });
    out.extend_from_slice(text.as_bytes());
}

/// The value of these bytes.
pub(crate) fn decode(bytes: &[u8]) -> io::Result<Value> {
    let (form, text) = match bytes {
        [b't', text @ ..] => (ValueEncoding::Text, text),
        [b'j', text @ ..] => (ValueEncoding::Json, text),
        [b'g', text @ ..] => (ValueEncoding::Tagged, text),
        _ => return Err(io::Error::other("a record is not what was written")),
    };
    let text = String::from_utf8(text.to_vec()).map_err(io::Error::other)?;
    wire::value_of(form, text).map_err(io::Error::other)
}
