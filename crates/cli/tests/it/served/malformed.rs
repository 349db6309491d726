//! Requests that are broken in every way that chance finds: each is refused or answered, nothing changes, and the server
//! is as well as before.

use super::{Reply, Served, routes};
use crate::power_loss::Random;
use crate::support::{is_long, seed};

/// How many requests are sent.
const SHORT: u32 = 10_000;
const LONG: u32 = 200_000;

/// Pieces that requests are made of, beside those of sound ones.
const PIECES: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b" ",
    b"\t",
    b"%",
    b"%00",
    b"%zz",
    b"%c0%ae",
    b"..",
    b"//",
    b"?",
    b"&",
    b"=",
    b"#",
    b"HTTP/1.0",
    b"HTTP/2.0",
    b"HTTP/9",
    b"Host: evil\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Content-Length: -1\r\n",
    b"Content-Length: 99999999999999999999\r\n",
    b"Content-Length: 5\r\n",
    b"Expect: 100-continue\r\n",
    b"Upgrade: h2c\r\n",
    b"Connection: upgrade\r\n",
    b"Range: bytes=0-\r\n",
    b"Last-Event-ID: 99999999999999999999\r\n",
    b"Last-Event-ID: x\r\n",
    b"Origin: null\r\n",
    b"Cookie: threadline=\r\n",
    b"Authorization: Bearer\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"CONNECT evil:443 HTTP/1.1\r\n",
    b"GET http://evil/ HTTP/1.1\r\n",
    b"\xff\xfe",
    "\u{202e}".as_bytes(),
    b"5\r\nhello\r\n0\r\n\r\n",
    b"ffffffffffffffff\r\n",
    b"{\"workflow\":",
    b"[[[[[[[[",
    b"at=18446744073709551616",
    b"count=-1",
    b"pointer=/a/b",
    b"items=1.2.3",
    b"step=map[9]",
    b"since=never",
    b"status=,",
];

#[test]
fn ten_thousand_broken_requests_change_nothing() {
    let served = Served::new(&[]);
    let client = &served.server;
    let (run, before) = (served.last(), served.store());
    let sound = client.json(&served.run());
    let mut random = Random(seed());
    let routes = routes();
    let count = if is_long() { LONG } else { SHORT };
    for number in 0..count {
        let route = &routes[random.below(routes.len())];
        let mut bytes = request(&mut random, &route.method, &route.path_of(&run), client);
        for _ in 0..=random.below(4) {
            broken(&mut random, &mut bytes);
        }
        // A stream that is asked for in the right way after all does not end.
        if route.streams() && bytes.windows(16).any(|part| part == b"HTTP/1.1\r\nhost: 1") {
            continue;
        }
        let answer = client.send(&bytes, true);
        if let Some(reply) = Reply::read(&answer) {
            assert!(reply.status < 500, "request {number}: {bytes:?}\n{}", String::from_utf8_lossy(&answer));
        }
    }
    assert_eq!(client.json(&served.run())["events"], sound["events"]);
    assert_eq!(served.store(), before, "nothing was changed");
    let said = served.server.end();
    assert!(!said.contains("panicked"), "{said}");
}

/// A request as it should be.
fn request(random: &mut Random, method: &str, path: &str, client: &super::Server) -> Vec<u8> {
    let base = if random.below(2) == 0 { "" } else { client.base.as_str() };
    let query = ["", "?at=3", "?count=2&after=1", "?text=a%20b", "?step=greet", "?token=0"][random.below(6)];
    let (host, bearer) = (&client.host, client.bearer());
    let mut text =
        format!("{method} {base}{path}{query} HTTP/1.1\r\nhost: {host}\r\nauthorization: {bearer}\r\n");
    text.push_str("connection: close\r\n\r\n");
    text.into_bytes()
}

/// Breaks a request somewhere.
fn broken(random: &mut Random, bytes: &mut Vec<u8>) {
    let at = random.below(bytes.len() + 1);
    match random.below(6) {
        0 => bytes.truncate(at),
        1 => {
            let piece = PIECES[random.below(PIECES.len())];
            bytes.splice(at..at, piece.iter().copied());
        }
        2 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
        3 if at < bytes.len() => drop(bytes.remove(at)),
        4 => {
            let end = (at + random.below(20)).min(bytes.len());
            let piece = bytes[at..end].to_vec();
            bytes.splice(at..at, piece);
        }
        _ => {
            let piece = PIECES[random.below(PIECES.len())];
            let end = (at + piece.len()).min(bytes.len());
            bytes.splice(at..end, piece.iter().copied());
        }
    }
}
