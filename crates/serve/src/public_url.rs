//! The address under which browsers find the server, where that is not the one that it listens at: behind a proxy.

use hyper::Uri;

/// A public address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicUrl {
    scheme: String,
    /// The host, with its port unless that is the usual one.
    pub(crate) authority: String,
    /// The path that all paths begin with, without a slash at its end.
    pub(crate) path: String,
}

impl PublicUrl {
    /// Reads an address; an error says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let expected = || format!("an address is `http` or `https`, a host and perhaps a path, not `{text}`");
        let uri: Uri = text.parse().map_err(|_| expected())?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(expected());
        };
        let path = uri.path().trim_end_matches('/');
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
        let is_known = matches!(scheme, "http" | "https");
        if !is_known
            || uri.query().is_some()
            || authority.as_str().contains('@')
            || !path.bytes().all(is_plain)
        {
            return Err(expected());
        }
        let usual = if scheme == "https" { ":443" } else { ":80" };
        let authority = authority.as_str().to_ascii_lowercase();
        let authority = authority.strip_suffix(usual).unwrap_or(&authority).to_owned();
        Ok(Self { scheme: scheme.to_owned(), authority, path: path.to_owned() })
    }

    /// The origin of its pages.
    pub(crate) fn origin(&self) -> String {
        format!("{}://{}", self.scheme, self.authority)
    }

    /// Whether nobody in between can read what is sent.
    pub(crate) fn is_secure(&self) -> bool {
        self.scheme == "https"
    }
}

#[cfg(test)]
mod tests {
    use super::PublicUrl;

    #[test]
    fn an_address_has_a_scheme_a_host_and_perhaps_a_path() {
        let known = PublicUrl::parse("https://CI.example.org:443/a/b/").expect("an address");
        assert_eq!((known.origin().as_str(), known.path.as_str()), ("https://ci.example.org", "/a/b"));
        for text in ["ci.example.org", "ftp://a/", "https://u@a/", "https://a/?b", "https://a/\"", "/a", ""] {
            assert!(PublicUrl::parse(text).is_err(), "{text}");
        }
    }
}
