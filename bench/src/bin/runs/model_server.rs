//! A server on loopback that speaks Chat Completions and answers at once: what is measured is not the model.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

/// The size of the text that it streams where the message asks for a long one.
pub(crate) const LONG: usize = 10 << 20;

/// Starts it. It serves until the process ends, and gives its address.
pub(crate) fn start() -> Result<String, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that leaves fails its own measurement.
            std::thread::spawn(move || drop(answer(stream)));
        }
    });
    Ok(format!("http://{address}"))
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut line, mut length) = (String::new(), 0);
    let mut first = String::new();
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        if first.is_empty() {
            first.clone_from(&line);
        }
        if line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let asks = String::from_utf8_lossy(&body);
    if !first.contains("/chat/completions") {
        return respond(&mut stream, "application/json", b"{\"ok\": true}");
    }
    let text = if asks.contains("a long text") { "word ".repeat(LONG / 5) } else { "fine".to_owned() };
    let mut events = Vec::new();
    for piece in text.as_bytes().chunks(40) {
        let piece = String::from_utf8_lossy(piece);
        writeln!(
            events,
            "data: {{\"model\":\"m\",\"choices\":[{{\"delta\":{{\"content\":\"{piece}\"}}}}]}}\n"
        )?;
    }
    writeln!(events, "data: {{\"choices\":[{{\"delta\":{{}},\"finish_reason\":\"stop\"}}]}}\n")?;
    writeln!(events, "data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":9,\"completion_tokens\":3}}}}\n")?;
    writeln!(events, "data: [DONE]\n")?;
    respond(&mut stream, "text/event-stream", &events)
}

fn respond(stream: &mut TcpStream, kind: &str, body: &[u8]) -> std::io::Result<()> {
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)
}
