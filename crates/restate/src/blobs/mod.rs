//! A store of blobs: what is too large for a message, and what all machines of a run need.
//!
//! It is a folder, or a bucket of S3, of Google Cloud Storage or of Azure. What is put in by its content has the hash
//! of that as its name, so what is read is what was written. What is put in by a name can be created once: of several
//! that try, one succeeds.
//!
//! Everything here blocks, and may be called from any thread that is not one of an asynchronous runtime.

mod transport;

use std::fs;
use std::future::Future;
use std::io::{self, Read as _, Write};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};

use hyper::body::Bytes;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::local::LocalFileSystem;
use object_store::path::Path as Place;
use object_store::{
    BackoffConfig, Error, ObjectMeta, ObjectStore, ObjectStoreExt as _, ObjectStoreScheme, PutMode,
    PutOptions, PutPayload, RetryConfig,
};
use url::Url;

use self::transport::Transport;

/// The folder for what is named by its content.
const BY_CONTENT: &str = "content";

/// How long a content is kept: a request that names it is remembered for half of that.
const KEPT: Duration = Duration::from_hours(14 * 24);

/// What is older than this is put in anew, so that it is kept for as long as a request names it.
const FRESH: Duration = Duration::from_hours(5 * 24);

/// So much is sent or read at once.
const PIECE: usize = 8 << 20;

/// So many pieces of a blob are under way at once.
const PIECES_AT_ONCE: usize = 4;

/// How long a request is tried before it is an error.
const TRYING: Duration = Duration::from_secs(20);

/// Content in a store.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlobRef {
    /// The hash of the content.
    pub hash: String,
    /// Its length in bytes.
    pub length: u64,
}

impl BlobRef {
    /// That of a content.
    pub fn of(content: &[u8]) -> Self {
        Self { hash: blake3::hash(content).to_hex().to_string(), length: content.len() as u64 }
    }

    /// That of what is read.
    pub fn of_reader(mut from: impl io::Read) -> io::Result<Self> {
        let mut hasher = blake3::Hasher::new();
        let mut piece = vec![0; 256 << 10];
        let mut length = 0;
        loop {
            match from.read(&mut piece) {
                Ok(0) => break,
                Ok(read) => {
                    hasher.update(&piece[..read]);
                    length += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self { hash: hasher.finalize().to_hex().to_string(), length })
    }

    /// Whether its hash is one: nothing else becomes a part of a name.
    pub(crate) fn is_plain(&self) -> bool {
        self.hash.len() == 64 && self.hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    }
}

/// What came of an attempt to create a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Creation {
    /// It is there now, and nobody else created it.
    Created,
    /// There was one of this name. After an answer that was lost on the way it may be one's own: its content tells.
    AlreadyThere,
}

/// A blob with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedBlob {
    /// Its name.
    pub name: String,
    /// Its length in bytes.
    pub length: u64,
    /// How long it has been there.
    pub age: Duration,
}

/// Why a store did not do what it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlobError {
    /// The text that should say where a store is does not.
    Address(String),
    /// The store has no such blob.
    Missing(String),
    /// A blob is not what was put in.
    Damaged(String),
    /// The store cannot be used, now or at all.
    Unavailable(String),
    /// A file on this side.
    File(String),
}

impl std::fmt::Display for BlobError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing(name) => write!(f, "the blob store has no `{name}`"),
            Self::Damaged(name) => write!(f, "`{name}` of the blob store is not what was put in"),
            Self::Unavailable(why) => write!(f, "the blob store cannot be used: {why}"),
            Self::Address(why) | Self::File(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for BlobError {}

type BlobResult<T> = Result<T, BlobError>;

/// What performs the requests. It lives as long as the process.
static RUNTIME: LazyLock<io::Result<tokio::runtime::Runtime>> = LazyLock::new(|| {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).thread_name("blobs").enable_all().build()
});

fn runtime() -> BlobResult<&'static tokio::runtime::Runtime> {
    RUNTIME.as_ref().map_err(|error| BlobError::Unavailable(error.to_string()))
}

/// A store of blobs.
#[derive(Debug, Clone)]
pub struct BlobStore {
    objects: Arc<dyn ObjectStore>,
    /// What all names in it begin with.
    prefix: Place,
    url: String,
}

impl BlobStore {
    /// The store at a URL: `file:///FOLDER`, `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX` or `az://CONTAINER/PREFIX`. Who
    /// may use it is read from the environment, as the tools of these services read it.
    pub fn open(url: &str) -> BlobResult<Self> {
        let wrong = |why: &str| {
            let forms =
                "`file:///FOLDER`, `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX` or `az://CONTAINER/PREFIX`";
            BlobError::Address(format!("`{url}` is no blob store: {why}; write {forms}"))
        };
        let parsed = Url::parse(url).map_err(|error| wrong(&error.to_string()))?;
        if parsed.password().is_some() {
            // It would stand in the journal.
            return Err(BlobError::Address(
                "the URL of a blob store holds no password: the environment has what it needs".to_owned(),
            ));
        }
        let (scheme, prefix) =
            ObjectStoreScheme::parse(&parsed).map_err(|_| wrong("nobody knows such a URL"))?;
        let failed = |error: Error| BlobError::Unavailable(words(&error));
        let objects: Arc<dyn ObjectStore> = match scheme {
            ObjectStoreScheme::Local => {
                let folder = parsed.to_file_path().map_err(|()| wrong("it names no folder"))?;
                return Self::of_folder(&folder);
            }
            ObjectStoreScheme::AmazonS3 => {
                let builder = AmazonS3Builder::from_env().with_url(url).with_retry(retries());
                Arc::new(builder.with_http_connector(Transport::new()).build().map_err(failed)?)
            }
            ObjectStoreScheme::GoogleCloudStorage => {
                let builder = GoogleCloudStorageBuilder::from_env().with_url(url).with_retry(retries());
                Arc::new(builder.with_http_connector(Transport::new()).build().map_err(failed)?)
            }
            ObjectStoreScheme::MicrosoftAzure => {
                let builder = MicrosoftAzureBuilder::from_env().with_url(url).with_retry(retries());
                Arc::new(builder.with_http_connector(Transport::new()).build().map_err(failed)?)
            }
            _ => return Err(wrong("nobody knows such a URL")),
        };
        Ok(Self { objects, prefix, url: url.to_owned() })
    }

    /// The store in a folder, which is made if it is not there. Nobody else can read what it makes.
    pub fn of_folder(folder: &Path) -> BlobResult<Self> {
        let failed = |error: io::Error| {
            BlobError::File(format!("the folder of blobs `{}` cannot be used: {error}", folder.display()))
        };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        let folder = folder.canonicalize().map_err(failed)?;
        let objects = LocalFileSystem::new_with_prefix(&folder);
        let objects = objects.map_err(|error| BlobError::Unavailable(words(&error)))?.with_fsync(true);
        let url = format!("file://{}", folder.display());
        Ok(Self { objects: Arc::new(objects), prefix: Place::default(), url })
    }

    /// Where it is.
    pub fn url(&self) -> &str {
        &self.url
    }

    // ---- by content -----------------------------------------------------------------------------------------

    /// Puts in a content, unless it is there. What is so old that it may be swept soon is put in anew.
    pub fn put(&self, content: &[u8]) -> BlobResult<BlobRef> {
        let blob = BlobRef::of(content);
        if !self.has(&blob)? {
            let mut pieces = content.chunks(PIECE);
            self.write(&blob, || Ok(Bytes::copy_from_slice(pieces.next().unwrap_or_default())))?;
        }
        Ok(blob)
    }

    /// Puts in the content of a file, piece by piece, unless it is there.
    pub fn put_file(&self, path: &Path) -> BlobResult<BlobRef> {
        let failed = |error: io::Error| BlobError::File(format!("`{}`: {error}", path.display()));
        let blob = BlobRef::of_reader(fs::File::open(path).map_err(failed)?).map_err(failed)?;
        if self.has(&blob)? {
            return Ok(blob);
        }
        let mut file = fs::File::open(path).map_err(failed)?;
        let mut hasher = blake3::Hasher::new();
        self.write(&blob, || {
            let mut piece = Vec::new();
            (&mut file).take(PIECE as u64).read_to_end(&mut piece).map_err(failed)?;
            hasher.update(&piece);
            Ok(piece.into())
        })?;
        if *hasher.finalize().to_hex() != *blob.hash {
            // What was put in is not what its name says.
            let _ = self.delete(&by_content(&blob));
            return Err(BlobError::File(format!("`{}` changed while it was read", path.display())));
        }
        Ok(blob)
    }

    /// Whether a content is there, whole, and stays for a while.
    fn has(&self, blob: &BlobRef) -> BlobResult<bool> {
        let place = self.place(&by_content(blob))?;
        match Self::wait(self.objects.head(&place)) {
            Ok(found) => Ok(found.size == blob.length && age(&found) < FRESH),
            Err(Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(BlobError::Unavailable(words(&error))),
        }
    }

    /// Writes what comes in pieces.
    fn write(&self, blob: &BlobRef, mut next: impl FnMut() -> BlobResult<Bytes>) -> BlobResult<()> {
        let failed = |error: Error| BlobError::Unavailable(words(&error));
        let place = self.place(&by_content(blob))?;
        let first = next()?;
        if first.len() as u64 == blob.length {
            return Self::wait(self.objects.put(&place, first.into())).map(|_| ()).map_err(failed);
        }
        let runtime = runtime()?;
        let mut upload = Self::wait(self.objects.put_multipart(&place)).map_err(failed)?;
        let mut under_way = tokio::task::JoinSet::new();
        let mut piece = first;
        let sent = loop {
            if piece.is_empty() {
                break Ok(());
            }
            under_way.spawn_on(upload.put_part(PutPayload::from_bytes(piece)), runtime.handle());
            if under_way.len() >= PIECES_AT_ONCE
                && let Err(why) = ended(runtime.block_on(under_way.join_next()))
            {
                break Err(why);
            }
            match next() {
                Ok(following) => piece = following,
                Err(why) => break Err(why),
            }
        };
        let sent = sent.and_then(|()| {
            while let Some(part) = runtime.block_on(under_way.join_next()) {
                ended(Some(part))?;
            }
            Self::wait(upload.complete()).map(|_| ()).map_err(failed)
        });
        if sent.is_err() {
            // What is left of it has no name; the service removes it by its own rules if this does not.
            let _ = Self::wait(upload.abort());
        }
        sent
    }

    /// The content of a blob.
    pub fn get(&self, blob: &BlobRef) -> BlobResult<Vec<u8>> {
        /// Takes the room for all of it when the first piece is there: until then nothing says that the length is true.
        struct Whole(Vec<u8>, usize);
        impl Write for Whole {
            fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
                if self.0.is_empty() {
                    self.0.try_reserve_exact(self.1).map_err(|_| io::ErrorKind::OutOfMemory)?;
                }
                self.0.extend_from_slice(piece);
                Ok(piece.len())
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut content = Whole(Vec::new(), usize::try_from(blob.length).unwrap_or_default());
        self.get_into(blob, &mut content)?;
        Ok(content.0)
    }

    /// Writes the content of a blob somewhere, piece by piece. After an error it may have written a part.
    pub fn get_into(&self, blob: &BlobRef, into: &mut dyn Write) -> BlobResult<()> {
        if !blob.is_plain() {
            return Err(BlobError::Damaged(blob.hash.clone()));
        }
        let name = by_content(blob);
        let mut hasher = blake3::Hasher::new();
        let length = self.pieces(&name, Some(blob.length), &mut |piece| {
            hasher.update(piece);
            into.write_all(piece).map_err(|error| BlobError::File(error.to_string()))
        })?;
        if length != blob.length || *hasher.finalize().to_hex() != *blob.hash {
            return Err(BlobError::Damaged(name));
        }
        Ok(())
    }

    /// Removes what was put in by its content so long ago that nobody can ask for it any more.
    pub fn sweep(&self) -> BlobResult<()> {
        for old in self.list(BY_CONTENT)?.into_iter().filter(|blob| blob.age > KEPT) {
            self.delete(&old.name)?;
        }
        Ok(())
    }

    // ---- by name --------------------------------------------------------------------------------------------

    /// Creates a blob with a name, whole, unless there is one.
    pub fn create(&self, name: &str, content: impl Into<Bytes>) -> BlobResult<Creation> {
        let place = self.place(name)?;
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match Self::wait(self.objects.put_opts(&place, PutPayload::from_bytes(content.into()), options)) {
            Ok(_) => Ok(Creation::Created),
            Err(Error::AlreadyExists { .. }) => Ok(Creation::AlreadyThere),
            Err(error) => Err(BlobError::Unavailable(words(&error))),
        }
    }

    /// The content of a blob with a name.
    pub fn read(&self, name: &str) -> BlobResult<Vec<u8>> {
        let mut content = Vec::new();
        self.pieces(name, None, &mut |piece| {
            content.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(content)
    }

    /// The blobs whose names begin with a folder, sorted by name.
    pub fn list(&self, folder: &str) -> BlobResult<Vec<NamedBlob>> {
        let place = self.place(folder)?;
        let failed = |error: Error| BlobError::Unavailable(words(&error));
        let mut stream = self.objects.list(Some(&place));
        let mut found = Vec::new();
        while let Some(meta) =
            runtime()?.block_on(std::future::poll_fn(|context| stream.as_mut().poll_next(context)))
        {
            let meta = match meta {
                Ok(meta) => meta,
                // Somebody removed it meanwhile.
                Err(Error::NotFound { .. }) => continue,
                Err(error) => return Err(failed(error)),
            };
            let parts = meta.location.prefix_match(&self.prefix).map(|parts| {
                let parts: Vec<String> = parts.map(|part| part.as_ref().to_owned()).collect();
                parts.join("/")
            });
            if let Some(name) = parts {
                found.push(NamedBlob { name, length: meta.size, age: age(&meta) });
            }
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// Removes a blob. One that is not there is no error.
    pub fn delete(&self, name: &str) -> BlobResult<()> {
        match Self::wait(self.objects.delete(&self.place(name)?)) {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(BlobError::Unavailable(words(&error))),
        }
    }

    // ---------------------------------------------------------------------------------------------------------

    /// Reads a blob piece by piece, and says how long it is.
    fn pieces(
        &self,
        name: &str,
        length: Option<u64>,
        take: &mut dyn FnMut(&[u8]) -> BlobResult<()>,
    ) -> BlobResult<u64> {
        let place = self.place(name)?;
        let failed = |error: Error| match error {
            Error::NotFound { .. } => BlobError::Missing(name.to_owned()),
            error => BlobError::Unavailable(words(&error)),
        };
        let found = Self::wait(self.objects.head(&place)).map_err(failed)?.size;
        if length.is_some_and(|length| length != found) {
            return Err(BlobError::Damaged(name.to_owned()));
        }
        let mut read = 0;
        while read < found {
            let until = found.min(read + PIECE as u64);
            let piece = Self::wait(self.objects.get_range(&place, read..until)).map_err(failed)?;
            if piece.is_empty() {
                return Err(BlobError::Damaged(name.to_owned()));
            }
            take(&piece)?;
            read += piece.len() as u64;
        }
        Ok(found)
    }

    fn place(&self, name: &str) -> BlobResult<Place> {
        let wrong = |error: object_store::path::Error| BlobError::Address(format!("`{name}`: {error}"));
        let name = Place::parse(name).map_err(wrong)?;
        Ok(self.prefix.parts().chain(name.parts()).collect())
    }

    fn wait<T>(request: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        match &*RUNTIME {
            Ok(runtime) => runtime.block_on(request),
            Err(error) => {
                Err(Error::Generic { store: "blobs", source: Box::new(io::Error::from(error.kind())) })
            }
        }
    }
}

/// The name of a content. Folders of S3 and of disks take many names badly, so there are several.
fn by_content(blob: &BlobRef) -> String {
    let hash = &blob.hash;
    format!("{BY_CONTENT}/{}/{hash}", hash.get(..2).unwrap_or_default())
}

fn retries() -> RetryConfig {
    let backoff = BackoffConfig { max_backoff: Duration::from_secs(5), ..BackoffConfig::default() };
    RetryConfig { backoff, max_retries: 8, retry_timeout: TRYING }
}

fn age(meta: &ObjectMeta) -> Duration {
    let changed: SystemTime = meta.last_modified.into();
    SystemTime::now().duration_since(changed).unwrap_or_default()
}

type EndedPart = Result<Result<(), Error>, tokio::task::JoinError>;

fn ended(part: Option<EndedPart>) -> BlobResult<()> {
    match part {
        None | Some(Ok(Ok(()))) => Ok(()),
        Some(Ok(Err(error))) => Err(BlobError::Unavailable(words(&error))),
        Some(Err(error)) => Err(BlobError::Unavailable(error.to_string())),
    }
}

/// An error in one line: it says what is around it, and the library repeats that.
fn words(error: &Error) -> String {
    let text = error.to_string();
    let mut line = String::new();
    for part in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(part);
    }
    line.char_indices().nth(400).map_or(line.clone(), |(end, _)| format!("{}...", &line[..end]))
}

#[cfg(test)]
mod tests;
