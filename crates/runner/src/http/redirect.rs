//! Where a redirect leads. It sends nothing.

use ureq::http::Uri;

/// Whether a status asks for another request.
pub(super) fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// The URL that a `Location` means where it was answered; the error says why it is none.
pub(super) fn target(base: &str, location: &str) -> Result<String, String> {
    let location = location.trim();
    let location = location.split('#').next().unwrap_or_default();
    let refused = || format!("the server redirects to `{location}`, which is no URL of `http` or `https`");
    if let Some(scheme) = scheme_of(location) {
        let is_known = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
        let is_url = is_known && location[scheme.len()..].starts_with("://");
        return if is_url && origin(location).is_some() { Ok(location.to_owned()) } else { Err(refused()) };
    }
    let uri: Uri = base.parse().map_err(|_| refused())?;
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else { return Err(refused()) };
    let url = if let Some(rest) = location.strip_prefix("//") {
        format!("{scheme}://{rest}")
    } else if location.starts_with('/') {
        format!("{scheme}://{authority}{}", without_dots(location))
    } else if location.is_empty() || location.starts_with('?') {
        let query = if location.is_empty() {
            uri.query().map_or(String::new(), |query| format!("?{query}"))
        } else {
            location.to_owned()
        };
        format!("{scheme}://{authority}{}{query}", uri.path())
    } else {
        let folder = uri.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        format!("{scheme}://{authority}{}", without_dots(&format!("{folder}/{location}")))
    };
    if origin(&url).is_some() { Ok(url) } else { Err(refused()) }
}

/// What makes two URLs those of one server: scheme, host and port.
pub(super) fn origin(url: &str) -> Option<(String, String, u16)> {
    let uri: Uri = url.parse().ok()?;
    let scheme = uri.scheme_str()?.to_ascii_lowercase();
    let host = uri.host().filter(|host| !host.is_empty())?.to_ascii_lowercase();
    let usual = match &*scheme {
        "http" => 80,
        "https" => 443,
        _ => return None,
    };
    Some((scheme, host, uri.port_u16().unwrap_or(usual)))
}

/// What stands before the first colon, if that is a scheme.
fn scheme_of(location: &str) -> Option<&str> {
    let (scheme, _) = location.split_once(':')?;
    let mut bytes = scheme.bytes();
    let is_scheme = bytes.next().is_some_and(|first| first.is_ascii_alphabetic())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    is_scheme.then_some(scheme)
}

/// A path, with its query, without `.` and `..`.
fn without_dots(path: &str) -> String {
    let (path, query) = match path.find('?') {
        Some(at) => path.split_at(at),
        None => (path, ""),
    };
    let mut kept: Vec<&str> = Vec::new();
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    for (at, part) in parts.iter().enumerate() {
        let is_last = at + 1 == parts.len();
        match *part {
            "." | ".." => {
                if *part == ".." {
                    kept.pop();
                }
                if is_last {
                    kept.push("");
                }
            }
            part => kept.push(part),
        }
    }
    format!("/{}{query}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_read_as_a_browser_reads_it() {
        let base = "http://a.example:8080/b/c/d?q";
        for (location, url) in [
            ("http://g.example/x", "http://g.example/x"),
            ("HTTPS://g.example", "HTTPS://g.example"),
            ("//g.example/x", "http://g.example/x"),
            ("/g", "http://a.example:8080/g"),
            ("g", "http://a.example:8080/b/c/g"),
            ("./g", "http://a.example:8080/b/c/g"),
            ("../g", "http://a.example:8080/b/g"),
            ("../../../g", "http://a.example:8080/g"),
            ("..", "http://a.example:8080/b/"),
            ("g?y=/../x", "http://a.example:8080/b/c/g?y=/../x"),
            ("?y", "http://a.example:8080/b/c/d?y"),
            ("", "http://a.example:8080/b/c/d?q"),
            ("g#s", "http://a.example:8080/b/c/g"),
            ("g:8", ""),
        ] {
            let found = target(base, location);
            if url.is_empty() {
                assert!(found.is_err(), "{location}");
            } else {
                assert_eq!(found.as_deref(), Ok(url), "{location}");
            }
        }
        for location in [
            "file:///etc/passwd",
            "ftp://a.example/",
            "javascript:alert(1)",
            "http:g",
            "http://",
            "http:///x",
            "//",
            "http://a b/",
        ] {
            assert!(target(base, location).is_err(), "{location}");
        }
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        assert_eq!(origin("http://A.example/x"), origin("http://a.example:80/"));
        assert_ne!(origin("http://a.example/"), origin("https://a.example/"));
        assert_ne!(origin("http://a.example/"), origin("http://a.example:81/"));
        assert_ne!(origin("http://a.example/"), origin("http://b.example/"));
        assert_eq!(origin("http://u:p@a.example/"), origin("http://a.example/"));
    }
}
