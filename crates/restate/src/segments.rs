//! The segments of runs in a blob store: `runs/RUN/log/NUMBER`, each created once and signed, and large values beside them
//! in pieces.
//!
//! A journal decides what a resumed run does, so a segment is signed with the key of the coordinators, and so is its
//! name: whoever can write into the blob store and has no key can remove a run, and make none.

use std::io::{self, Read, Write};
use std::time::Duration;

use threadline_lang::Value;
use threadline_store::{Hash, RunId, SegmentCreation, SegmentError, SegmentNumber, SegmentStore};
use url::Url;

use crate::blobs::{BlobError, BlobStore, Creation};
use crate::key::SharedKey;
use crate::wire;

/// The folder of all segments.
const RUNS: &str = "runs";

/// The folder with one small blob per run, so that runs can be listed.
const INDEX: &str = "index";

/// The length of a signature, in hexadecimal digits.
const SIGNATURE: usize = 64;

/// A large value is kept in pieces of this size.
const PIECE: usize = 8 << 20;

/// The segments of one run in a blob store.
pub struct BlobSegments {
    blobs: BlobStore,
    key: SharedKey,
    run: RunId,
}

/// Whether there can be runs at a URL: a folder that is not there has none, and looking does not make it.
pub fn can_have_runs(url: &str) -> bool {
    let folder = Url::parse(url).ok().filter(|url| url.scheme() == "file");
    folder.and_then(|url| url.to_file_path().ok()).is_none_or(|folder| folder.is_dir())
}

/// The runs that have segments, the newest first.
pub fn kept_runs(blobs: &BlobStore) -> Result<Vec<RunId>, BlobError> {
    let found = blobs.list(INDEX)?.into_iter();
    let mut runs: Vec<(Duration, RunId)> = found
        .filter_map(|blob| {
            let run = RunId::new(blob.name.strip_prefix(INDEX)?.strip_prefix('/')?).ok()?;
            Some((blob.age, run))
        })
        .collect();
    runs.sort();
    Ok(runs.into_iter().map(|(_, run)| run).collect())
}

impl BlobSegments {
    /// Those of a run.
    pub fn new(blobs: BlobStore, key: SharedKey, run: RunId) -> Self {
        Self { blobs, key, run }
    }

    /// Makes it known that the run has segments. It is made before the first of them.
    pub fn announce(&self) -> Result<(), BlobError> {
        self.blobs.create(&format!("{INDEX}/{}", self.run), Vec::new()).map(|_| ())
    }

    fn folder(&self) -> String {
        format!("{RUNS}/{}/log", self.run)
    }

    fn name(&self, number: SegmentNumber) -> String {
        format!("{}/{number:020}", self.folder())
    }

    fn piece_name(&self, hash: &Hash, piece: u64) -> String {
        format!("{RUNS}/{}/values/{hash}/{piece:06}", self.run)
    }

    /// What is signed: the name as well, so that nothing stands for something else.
    fn signed_text(name: &str, bytes: &[u8]) -> String {
        let hash = blake3::hash(bytes).to_hex();
        wire::json(&Value::record([("name", name.into()), ("hash", hash.as_str().into())]))
    }

    fn create_signed(&self, name: &str, bytes: &[u8]) -> Result<Creation, BlobError> {
        let mut signed = self.key.sign(Self::signed_text(name, bytes).as_bytes()).into_bytes();
        signed.extend_from_slice(bytes);
        self.blobs.create(name, signed)
    }

    fn read_signed(&self, name: &str) -> Result<Option<Vec<u8>>, SegmentError> {
        let mut signed = match self.blobs.read(name) {
            Ok(signed) => signed,
            Err(BlobError::Missing(_)) => return Ok(None),
            Err(error) => return Err(failed(&error)),
        };
        let wrong = || SegmentError::Damaged(format!("`{name}` is not signed with this key"));
        if signed.len() < SIGNATURE {
            return Err(wrong());
        }
        let bytes = signed.split_off(SIGNATURE);
        let signature = std::str::from_utf8(&signed).map_err(|_| wrong())?;
        if self.key.has_signed(Self::signed_text(name, &bytes).as_bytes(), signature) {
            Ok(Some(bytes))
        } else {
            Err(wrong())
        }
    }
}

fn failed(error: &BlobError) -> SegmentError {
    match error {
        BlobError::Missing(_) | BlobError::Damaged(_) => SegmentError::Damaged(error.to_string()),
        BlobError::Address(_) | BlobError::Unavailable(_) | BlobError::File(_) => {
            SegmentError::Unavailable(error.to_string())
        }
    }
}

fn broken(error: &io::Error) -> SegmentError {
    SegmentError::Unavailable(error.to_string())
}

impl SegmentStore for BlobSegments {
    fn create(&self, number: SegmentNumber, bytes: &[u8]) -> Result<SegmentCreation, SegmentError> {
        if number == 1 {
            self.announce().map_err(|error| failed(&error))?;
        }
        match self.create_signed(&self.name(number), bytes) {
            Ok(Creation::Created) => Ok(SegmentCreation::Created),
            Ok(Creation::AlreadyThere) => Ok(SegmentCreation::AlreadyThere),
            Err(error) => Err(failed(&error)),
        }
    }

    fn read(&self, number: SegmentNumber) -> Result<Option<Vec<u8>>, SegmentError> {
        self.read_signed(&self.name(number))
    }

    fn numbers(&self) -> Result<Vec<SegmentNumber>, SegmentError> {
        let folder = self.folder();
        let found = self.blobs.list(&folder).map_err(|error| failed(&error))?;
        let number = |name: &str| {
            let number = name.strip_prefix(&folder)?.strip_prefix('/')?;
            // One number has one name.
            number.parse().ok().filter(|parsed| self.name(*parsed) == name)
        };
        found
            .iter()
            .map(|blob| {
                let what = || SegmentError::Damaged(format!("`{}` is no segment", blob.name));
                number(&blob.name).ok_or_else(what)
            })
            .collect()
    }

    fn keep_value(&self, hash: &Hash, _length: u64, value: &mut dyn Read) -> Result<(), SegmentError> {
        for piece in 0.. {
            let mut bytes = Vec::new();
            value.take(PIECE as u64).read_to_end(&mut bytes).map_err(|error| broken(&error))?;
            // One that ends with a whole piece has an empty one behind it.
            let is_last = bytes.len() < PIECE;
            self.create_signed(&self.piece_name(hash, piece), &bytes).map_err(|error| failed(&error))?;
            if is_last {
                break;
            }
        }
        Ok(())
    }

    fn read_value(&self, hash: &Hash, to: &mut dyn Write) -> Result<(), SegmentError> {
        for piece in 0.. {
            let bytes = self.read_signed(&self.piece_name(hash, piece))?;
            let bytes = bytes.ok_or_else(|| SegmentError::Damaged(format!("value `{hash}` is missing")))?;
            to.write_all(&bytes).map_err(|error| broken(&error))?;
            if bytes.len() < PIECE {
                break;
            }
        }
        Ok(())
    }
}
