//! Server-sent events: the lines in which the answers of models arrive, piece by piece.
//!
//! Bytes may be cut anywhere. What an event means is the business of whoever asked for it.

/// Reads events out of bytes as they arrive.
#[derive(Debug, Default)]
pub(crate) struct EventReader {
    line: Vec<u8>,
    data: String,
    /// Whether the line before ended with a carriage return, so that a line feed belongs to it.
    after_return: bool,
}

impl EventReader {
    /// Takes more bytes, and gives the data of each event that they complete.
    pub(crate) fn push(&mut self, bytes: &[u8], mut event: impl FnMut(&str)) {
        for byte in bytes {
            match byte {
                b'\n' if std::mem::take(&mut self.after_return) => {}
                b'\n' | b'\r' => {
                    self.after_return = *byte == b'\r';
                    let line = std::mem::take(&mut self.line);
                    self.take_line(&line, &mut event);
                }
                byte => {
                    self.after_return = false;
                    self.line.push(*byte);
                }
            }
        }
    }

    /// The data of every event of a whole body. An event that is not closed by an empty line counts, too: servers leave
    /// out the last one.
    pub(crate) fn read_all(bytes: &[u8], mut event: impl FnMut(&str)) {
        let mut reader = Self::default();
        reader.push(bytes, &mut event);
        reader.push(b"\n\n", &mut event);
    }

    fn take_line(&mut self, line: &[u8], event: &mut impl FnMut(&str)) {
        if line.is_empty() {
            let data = std::mem::take(&mut self.data);
            if !data.is_empty() {
                event(&data);
            }
            return;
        }
        // Comments, the names of events and their ids say nothing that the data do not.
        let Some(data) = line.strip_prefix(b"data:") else { return };
        let data = String::from_utf8_lossy(data);
        if !self.data.is_empty() {
            self.data.push('\n');
        }
        self.data.push_str(data.strip_prefix(' ').unwrap_or(&data));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_do_not_depend_on_where_bytes_are_cut() {
        let text =
            "event: a\r\ndata: {\"x\": \"é\"}\r\n\r\n: ping\n\ndata:1\ndata: 2\n\nretry: 3\rdata: last";
        let expected = ["{\"x\": \"é\"}", "1\n2", "last"];
        for size in 1..=text.len() {
            let (mut reader, mut found) = (EventReader::default(), Vec::new());
            for piece in text.as_bytes().chunks(size) {
                reader.push(piece, |data| found.push(data.to_owned()));
            }
            reader.push(b"\n\n", |data| found.push(data.to_owned()));
            assert_eq!(found, expected, "pieces of {size} bytes");
        }
    }
}
