//! A small HTTP server on loopback, on a port that is free, which ends with the test.

use std::io::{BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::support::PATIENCE;

/// What arrived.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    /// `GET /path?query`
    pub(crate) line: String,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }
}

/// What is answered.
pub(crate) enum Reply {
    /// A status, headers and a body.
    Answer(u16, Vec<(&'static str, String)>, String),
    /// Nothing, and the connection stays open.
    Silence,
    /// Nothing, and the connection is closed.
    Close,
}

pub(crate) fn text(body: &str) -> Reply {
    Reply::Answer(200, vec![("content-type", "text/plain".to_owned())], body.to_owned())
}

pub(crate) fn json(body: &str) -> Reply {
    Reply::Answer(200, vec![("content-type", "application/json".to_owned())], body.to_owned())
}

pub(crate) fn status(status: u16, body: &str) -> Reply {
    Reply::Answer(status, vec![("content-type", "text/plain".to_owned())], body.to_owned())
}

#[derive(Default)]
struct Requests {
    all: Mutex<Vec<Received>>,
    more: Condvar,
}

/// A server, and everything it was asked.
pub(crate) struct Server {
    port: u16,
    received: Arc<Requests>,
    is_over: Arc<AtomicBool>,
}

impl Server {
    /// A server that answers so: the closure is told what arrived, and how many requests came before.
    pub(crate) fn new(reply: impl Fn(&Received, usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let (received, is_over) = (Arc::<Requests>::default(), Arc::<AtomicBool>::default());
        let (all, over, reply) = (Arc::clone(&received), Arc::clone(&is_over), Arc::new(reply));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                let (all, reply) = (Arc::clone(&all), Arc::clone(&reply));
                let stream = stream.expect("a connection");
                std::thread::spawn(move || talk(stream, &all, &*reply));
            }
        });
        Self { port, received, is_over }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        lock(&self.received.all).clone()
    }

    /// Waits for the first request.
    pub(crate) fn wait(&self) {
        let all = lock(&self.received.all);
        let waited = self.received.more.wait_timeout_while(all, PATIENCE, |all| all.is_empty());
        let (all, _) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(!all.is_empty(), "nobody asks anything");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // Wakes the listener, which may be gone already.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn talk(stream: TcpStream, requests: &Requests, reply: &dyn Fn(&Received, usize) -> Reply) {
    let mut reader = BufReader::new(stream.try_clone().expect("the same connection"));
    let Some(received) = read(&mut reader) else { return };
    let before = {
        let mut all = lock(&requests.all);
        all.push(received.clone());
        requests.more.notify_all();
        all.len() - 1
    };
    let mut stream = stream;
    match reply(&received, before) {
        Reply::Close => {}
        Reply::Silence => {
            // Until the other side is gone.
            let _ = reader.read_to_end(&mut Vec::new());
        }
        Reply::Answer(status, headers, body) => {
            let lines: Vec<String> =
                headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            let headers = lines.concat();
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n"
            );
            // Who hangs up early is well.
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
        }
    }
}

fn read(reader: &mut impl std::io::BufRead) -> Option<Received> {
    let line = line(reader)?;
    let line = line.strip_suffix(" HTTP/1.1")?.to_owned();
    let mut headers = Vec::new();
    loop {
        let header = self::line(reader)?;
        let Some((name, value)) = header.split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut received = Received { line, headers, body: String::new() };
    let length: u64 = received.header("content-length").parse().unwrap_or(0);
    reader.take(length).read_to_string(&mut received.body).ok()?;
    Some(received)
}

fn line(reader: &mut impl std::io::BufRead) -> Option<String> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
    Some(line.trim_end().to_owned())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
