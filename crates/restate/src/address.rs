//! Where a Restate server takes requests.

use std::fmt;

/// The scheme of an address.
const SCHEME: &str = "restate://";

/// The port where a Restate server takes requests if nobody says otherwise.
const USUAL_PORT: u16 = 8080;

/// The host and the port where a Restate server takes requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerAddress {
    host: String,
    port: u16,
}

impl ServerAddress {
    /// Reads `restate://HOST:PORT`; without a port it is the usual one.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no address: write `restate://HOST:PORT`");
        let rest = text.strip_prefix(SCHEME).ok_or_else(wrong)?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if !host.ends_with(':') => (host, port.parse().map_err(|_| wrong())?),
            _ => (rest, USUAL_PORT),
        };
        let is_host = !host.is_empty()
            && host
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']'));
        if is_host { Ok(Self { host: host.to_owned(), port }) } else { Err(wrong()) }
    }

    /// The URL of a path on the server.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}:{}{path}", self.host, self.port)
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_maybe_a_port() {
        let shown = |text: &str| ServerAddress::parse(text).map(|address| address.to_string());
        assert_eq!(shown("restate://a.b:81"), Ok("restate://a.b:81".to_owned()));
        assert_eq!(shown("restate://a/"), Ok("restate://a:8080".to_owned()));
        assert_eq!(shown("restate://[::1]:9"), Ok("restate://[::1]:9".to_owned()));
        for wrong in
            ["", "a:1", "http://a:1", "restate://", "restate://:1", "restate://a:b", "restate://a/b:1"]
        {
            assert_eq!(shown(wrong), Err(format!("`{wrong}` is no address: write `restate://HOST:PORT`")));
        }
    }
}
