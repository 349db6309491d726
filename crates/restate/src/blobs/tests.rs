use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// A store in a folder that is removed with it.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("threadline-blobs-{}-{count}", std::process::id())))
    }

    fn store(&self) -> BlobStore {
        BlobStore::open(&format!("file://{}/a folder", self.0.display())).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_is_read_is_what_was_written() {
    let folder = Folder::new();
    let store = folder.store();
    for length in [0, 1, PIECE - 1, PIECE, PIECE + 1, 5 * PIECE + 7] {
        let content: Vec<u8> = (0..=250).cycle().take(length).collect();
        let blob = store.put(&content).unwrap();
        assert_eq!(blob.length, length as u64);
        assert!(store.get(&blob).unwrap() == content, "{length} bytes");
        // What a file holds, after what was put in was lost.
        store.delete(&by_content(&blob)).unwrap();
        let path = folder.0.join("source");
        fs::write(&path, &content).unwrap();
        assert_eq!(store.put_file(&path).unwrap(), blob);
        assert!(store.get(&blob).unwrap() == content, "{length} bytes of a file");
    }
}

#[test]
fn what_was_changed_is_damaged_and_what_is_not_there_is_missing() {
    let folder = Folder::new();
    let store = folder.store();
    let blob = store.put(b"a text").unwrap();
    let name = by_content(&blob);
    fs::write(folder.0.join("a folder").join(&name), "a texu").unwrap();
    assert_eq!(store.get(&blob), Err(BlobError::Damaged(name.clone())));
    fs::write(folder.0.join("a folder").join(&name), "a text and more").unwrap();
    assert_eq!(store.get(&blob), Err(BlobError::Damaged(name.clone())));
    // One of another length is put in again.
    assert_eq!(store.put(b"a text").unwrap(), blob);
    assert_eq!(store.get(&blob).unwrap(), b"a text");
    store.delete(&name).unwrap();
    store.delete(&name).unwrap();
    assert_eq!(store.get(&blob), Err(BlobError::Missing(name)));
    let outside = BlobRef { hash: "../../journal".to_owned(), length: 1 };
    assert_eq!(store.get(&outside), Err(BlobError::Damaged("../../journal".to_owned())));
    assert!(matches!(store.read("../outside"), Err(BlobError::Address(_) | BlobError::Missing(_))));
}

/// Of many that create a name, one does; and all names are found.
fn of_many_one_creates(store: &BlobStore) {
    let created: usize = std::thread::scope(|scope| {
        let creators: Vec<_> = (0..16_u8)
            .map(|number| scope.spawn(move || store.create("runs/a/0001", vec![number; 3]).unwrap()))
            .collect();
        let ended = creators.into_iter().map(|creator| creator.join().unwrap());
        ended.filter(|creation| *creation == Creation::Created).count()
    });
    assert_eq!(created, 1);
    let content = store.read("runs/a/0001").unwrap();
    assert_eq!(content, [content[0]; 3]);
    store.create("runs/a/0002", &b""[..]).unwrap();
    store.create("runs/b/0001", &b"x"[..]).unwrap();
    let names = |folder: &str| -> Vec<String> {
        store.list(folder).unwrap().into_iter().map(|blob| blob.name).collect()
    };
    assert_eq!(names("runs/a"), ["runs/a/0001", "runs/a/0002"]);
    assert_eq!(names("runs"), ["runs/a/0001", "runs/a/0002", "runs/b/0001"]);
    assert_eq!(names("nothing"), Vec::<String>::new());
    assert_eq!(store.read("runs/a/0002").unwrap(), b"");
    assert_eq!(store.read("runs/c"), Err(BlobError::Missing("runs/c".to_owned())));
}

#[test]
fn only_what_is_named_by_its_content_is_swept() {
    let folder = Folder::new();
    let store = folder.store();
    of_many_one_creates(&store);
    let blob = store.put(b"content").unwrap();
    let old = |name: &str, age: Duration| {
        let file = fs::File::options().write(true).open(folder.0.join("a folder").join(name)).unwrap();
        file.set_modified(SystemTime::now() - age).unwrap();
    };
    old("runs/b/0001", KEPT * 2);
    old(&by_content(&blob), FRESH + Duration::from_hours(1));
    store.sweep().unwrap();
    assert_eq!(store.get(&blob).unwrap(), b"content");
    // To put it in again makes it young.
    store.put(b"content").unwrap();
    assert!(store.list(BY_CONTENT).unwrap()[0].age < FRESH);
    old(&by_content(&blob), KEPT + Duration::from_hours(1));
    store.sweep().unwrap();
    assert!(store.get(&blob).is_err());
    assert_eq!(store.list("runs").unwrap().len(), 3);
}

#[test]
fn what_is_no_store_is_an_error_that_says_what_one_looks_like() {
    for wrong in ["blobs", "ftp://host/a", "https://example.com/a", "memory:///", "file://host/a"] {
        let error = BlobStore::open(wrong).unwrap_err();
        assert!(error.to_string().contains("write `file:///FOLDER`, `s3://BUCKET/PREFIX`"), "{error}");
    }
    let error = BlobStore::open("s3://user:word@bucket/a").unwrap_err();
    assert!(error.to_string().contains("holds no password"), "{error}");
}

/// What holds in every store, wherever it is.
fn laws(store: &BlobStore) {
    for length in [0, 1, PIECE - 1, PIECE, PIECE + 1, 5 * PIECE + 7] {
        let content: Vec<u8> = (0..=250).cycle().take(length).collect();
        let blob = store.put(&content).unwrap();
        assert_eq!(blob.length, length as u64);
        assert!(store.get(&blob).unwrap() == content, "{length} bytes");
    }
    of_many_one_creates(store);
}

/// Where an S3 stand-in is installed; none where it is not.
fn moto() -> Option<std::path::PathBuf> {
    let given = std::env::var_os("THREADLINE_OBJECT_STORE").map(std::path::PathBuf::from);
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/object-store");
    let program = given.clone().unwrap_or_else(default).join("bin/moto_server");
    let found = program.exists();
    assert!(given.is_none() || found, "THREADLINE_OBJECT_STORE has no moto_server");
    found.then_some(program)
}

/// The laws in a process that was given the variables of an S3 stand-in: they are read when a store is opened.
#[test]
fn a_bucket_of_s3_keeps_the_same_laws() {
    const URL: &str = "THREADLINE_TEST_BUCKET";
    if let Ok(url) = std::env::var(URL) {
        return laws(&BlobStore::open(&url).unwrap());
    }
    let Some(moto) = moto() else {
        println!("left out: there is no moto_server; .ci/run installs it");
        return;
    };
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut server = std::process::Command::new(moto);
    server.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
    server.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut server = server.spawn().unwrap();
    let endpoint = format!("http://127.0.0.1:{port}");
    let began = std::time::Instant::now();
    while ureq::put(format!("{endpoint}/bucket")).send_empty().is_err() {
        assert!(began.elapsed() < Duration::from_mins(5), "the stand-in takes no requests");
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "blobs::tests::a_bucket_of_s3_keeps_the_same_laws"]);
    child.envs([("AWS_ACCESS_KEY_ID", "x"), ("AWS_SECRET_ACCESS_KEY", "y"), ("AWS_REGION", "us-east-1")]);
    child.env("AWS_ENDPOINT", endpoint).env("AWS_ALLOW_HTTP", "true").env(URL, "s3://bucket/some/prefix");
    let output = child.output().unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
