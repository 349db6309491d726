//! URLs with values in them. Each value is encoded for its position, so that it stays one part of the URL.
//!
//! A value at the start is the base of the URL and used as is. A value in the path or the query is
//! percent-encoded, so it can neither start another segment nor be `..`. A value in the host may only contain
//! characters of a host.

use std::ops::Range;

use threadline_lang::func::percent_encode;

use crate::model::SECRET_MASK;

/// A piece of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UrlPiece<'p> {
    /// Text that the author wrote.
    Written(&'p str),
    /// The value of a reference.
    Value(&'p str),
}

/// Why a URL is not valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadUrl {
    /// The problem, in words.
    pub message: String,
    /// How to fix it.
    pub hint: Option<&'static str>,
}

impl BadUrl {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    fn hint(self, hint: &'static str) -> Self {
        Self { hint: Some(hint), ..self }
    }
}

/// The part of a URL that the next character belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UrlPart {
    Scheme,
    Host,
    Path,
    Rest,
}

/// The range of the host, once there is one.
fn host(url: &str) -> Option<Range<usize>> {
    let start = url.find("://")? + 3;
    let length = url[start..].find(['/', '?', '#']).unwrap_or(url.len() - start);
    Some(start..start + length)
}

/// The host of a URL, without user, port and brackets; none if it is no URL of `http` or `https`.
pub fn host_name(url: &str) -> Option<&str> {
    let host = &url[host(url).filter(|_| has_scheme(url))?];
    let host = host.rsplit('@').next().unwrap_or(host);
    let name = match host.strip_prefix('[') {
        Some(address) => address.split(']').next()?,
        None => host.split(':').next()?,
    };
    (!name.is_empty()).then_some(name)
}

fn place(url: &str) -> UrlPart {
    if url.starts_with(SECRET_MASK) {
        return if url.contains(['?', '#']) { UrlPart::Rest } else { UrlPart::Path };
    }
    let Some(host) = host(url) else { return UrlPart::Scheme };
    match &url[host.end..] {
        "" => UrlPart::Host,
        rest if rest.contains(['?', '#']) => UrlPart::Rest,
        _ => UrlPart::Path,
    }
}

/// Joins the pieces of a URL.
pub fn build<'p>(pieces: impl IntoIterator<Item = UrlPiece<'p>>) -> Result<String, BadUrl> {
    let mut url = String::new();
    let mut values: Vec<Range<usize>> = Vec::new();
    for piece in pieces {
        match piece {
            UrlPiece::Written(text) => push_written(text, &mut url)?,
            UrlPiece::Value(text) if url.is_empty() => push_base(text, &mut url)?,
            UrlPiece::Value(text) => {
                let start = url.len();
                match place(&url) {
                    UrlPart::Scheme => {
                        return Err(BadUrl::new("the URL has a value before its host")
                            .hint("start with `http://` or `https://`, or with the reference"));
                    }
                    UrlPart::Host => push_host(text, &mut url)?,
                    UrlPart::Path | UrlPart::Rest => percent_encode(text, &mut url),
                }
                values.push(start..url.len());
            }
        }
    }
    if url.starts_with(SECRET_MASK) {
        // The secret behind the mask is looked at when it takes its place.
        return Ok(url);
    }
    let host = host(&url).filter(|_| has_scheme(&url));
    let Some(host) = host else {
        return Err(BadUrl::new(format!("`{url}` does not start with `http://` or `https://`")));
    };
    if url[host.clone()].is_empty() {
        return Err(BadUrl::new(format!("`{url}` has no host")));
    }
    segments(&url, host.end, &values)?;
    Ok(url)
}

/// Adds parameters to the query of a URL.
pub fn add_query<'q>(url: &mut String, query: impl IntoIterator<Item = (&'q str, String)>) {
    let fragment = url.find('#').map_or(String::new(), |at| url.split_off(at));
    for (name, value) in query {
        let separator = match url.find('?') {
            None => "?",
            Some(at) if at + 1 == url.len() || url.ends_with('&') => "",
            Some(_) => "&",
        };
        url.push_str(separator);
        percent_encode(name, url);
        url.push('=');
        percent_encode(&value, url);
    }
    url.push_str(&fragment);
}

/// Whether a name is a valid header name.
pub fn is_header_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(fits)
}

/// Whether a text is a valid header value: a single line.
pub fn is_header_value(text: &str) -> bool {
    text.chars().all(|character| character == '\t' || !character.is_control())
}

fn has_scheme(url: &str) -> bool {
    let scheme = url.split("://").next().unwrap_or_default();
    scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
}

/// Whether a character is reserved or unreserved in URLs.
fn is_legal(character: char) -> bool {
    character.is_ascii_alphanumeric() || "-._~:/?#[]@!$&'()*+,;=%".contains(character)
}

fn push_written(text: &str, url: &mut String) -> Result<(), BadUrl> {
    for character in text.chars() {
        if character.is_control() {
            return Err(BadUrl::new("the URL contains a line break or another control character"));
        }
        if is_legal(character) {
            url.push(character);
        } else if matches!(place(url), UrlPart::Scheme | UrlPart::Host) {
            return Err(BadUrl::new(format!("`{character}` is not allowed in the host of a URL")));
        } else {
            percent_encode(character.encode_utf8(&mut [0; 4]), url);
        }
    }
    Ok(())
}

fn push_base(text: &str, url: &mut String) -> Result<(), BadUrl> {
    if let Some(character) = text.chars().find(|character| !is_legal(*character)) {
        let shown = character.escape_debug();
        return Err(BadUrl::new(format!(
            "the value at the start of the URL contains `{shown}`, which is not allowed in a URL"
        ))
        .hint("it is used as is: encode its parts with `| url` at their source"));
    }
    url.push_str(text);
    Ok(())
}

/// Checks a value in the host: a host, a part of one, or a port.
fn push_host(text: &str, url: &mut String) -> Result<(), BadUrl> {
    let fits = |character: char| character.is_ascii_alphanumeric() || "-._:[]".contains(character);
    match text.chars().find(|character| !fits(*character)) {
        Some('/') => Err(BadUrl::new("a value in the host of a URL contains `/`")
            .hint("write a `/` before the reference if it is part of the path")),
        Some(character) => {
            let shown = character.escape_debug();
            Err(BadUrl::new(format!("a value in the host of a URL contains `{shown}`")))
        }
        None => {
            url.push_str(text);
            Ok(())
        }
    }
}

/// Checks that a segment of the path with a value is a name: neither empty, nor `.` or `..`.
fn segments(url: &str, from: usize, values: &[Range<usize>]) -> Result<(), BadUrl> {
    let until = url[from..].find(['?', '#']).map_or(url.len(), |length| from + length);
    let mut start = from;
    for segment in url[from..until].split('/') {
        let range = start..start + segment.len();
        start = range.end + 1;
        if !values
            .iter()
            .any(|value| range.start <= value.start && value.end <= range.end && value.start > from)
        {
            continue;
        }
        match segment.to_ascii_lowercase().replace("%2e", ".").as_str() {
            "" => {
                return Err(BadUrl::new("a value leaves a segment of the path of the URL empty")
                    .hint("the request would go to a different address than intended"));
            }
            dots @ ("." | "..") => {
                return Err(BadUrl::new(format!(
                    "a value makes the segment `{dots}` in the path of the URL"
                )));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::UrlPiece::{Value, Written};
    use super::*;

    fn refused(pieces: &[UrlPiece<'_>]) -> String {
        build(pieces.iter().copied()).expect_err("not a URL").message
    }

    fn url(pieces: &[UrlPiece<'_>]) -> String {
        build(pieces.iter().copied()).expect("a URL")
    }

    #[test]
    fn a_value_stays_one_part() {
        let cases: [(&[UrlPiece<'_>], &str); 8] = [
            (
                &[Written("https://a.example/u/"), Value("a/b?c#d&e=%2f ü")],
                "https://a.example/u/a%2Fb%3Fc%23d%26e%3D%252f%20%C3%BC",
            ),
            (&[Written("http://a/?q="), Value("a b&c=d")], "http://a/?q=a%20b%26c%3Dd"),
            (&[Value("http://a:1/x"), Written("/y/"), Value("z/")], "http://a:1/x/y/z%2F"),
            (&[Written("http://"), Value("a.example:80"), Written("/x")], "http://a.example:80/x"),
            (&[Written("http://a/v"), Value("..")], "http://a/v.."),
            (&[Written("http://a/x y/ü")], "http://a/x%20y/%C3%BC"),
            (&[Written("http://a/x?"), Value(""), Written("=1")], "http://a/x?=1"),
            (&[Written("HTTP://a/#"), Value("a/..")], "HTTP://a/#a%2F.."),
        ];
        for (pieces, expected) in cases {
            assert_eq!(url(pieces), expected, "{pieces:?}");
        }
    }

    #[test]
    fn a_value_cannot_lead_elsewhere() {
        let cases: [&[UrlPiece<'_>]; 12] = [
            &[Written("http://a/"), Value("..")],
            &[Written("http://a/x/"), Value("."), Value("."), Written("/y")],
            &[Written("http://a/%2E"), Value(".")],
            &[Written("http://a/x/"), Value("")],
            &[Written("http://"), Value("user@evil.example"), Written("/")],
            &[Written("http://a"), Value("/x")],
            &[Written("http://"), Value("")],
            &[Value("file:///etc/passwd")],
            &[Value("http://a/\nHost: b")],
            &[Written("ftp://a")],
            &[Written("http"), Value("s"), Written("://a")],
            &[Written("http://a/\n")],
        ];
        for pieces in cases {
            refused(pieces);
        }
    }

    /// Whatever a value holds, what stands around it stays, and it can be read back.
    #[test]
    fn any_value_can_be_read_back() {
        let hostile = (0..=0x2ff_u32).filter_map(char::from_u32).chain("\u{2028}\u{ffff}😀".chars());
        let values =
            hostile.flat_map(|character| [format!("{character}"), format!("a{character}/../{character}b")]);
        for value in values.filter(|value| value != ".") {
            for (before, after) in [("http://h/a/", "/b?c#d"), ("http://h/a?x=", "&y=1"), ("http://h/#", "")]
            {
                let url = url(&[Written(before), Value(&value), Written(after)]);
                let part = url
                    .strip_prefix(before)
                    .and_then(|rest| rest.strip_suffix(after))
                    .expect("what is around it");
                assert!(!part.contains(['/', '?', '#', '&', '=']), "{url}");
                let mut bytes = Vec::new();
                let mut rest = part.bytes();
                while let Some(byte) = rest.next() {
                    let digit = |byte: Option<u8>| {
                        byte.and_then(|byte| char::from(byte).to_digit(16)).expect("a digit")
                    };
                    bytes.push(match byte {
                        b'%' => u8::try_from(digit(rest.next()) * 16 + digit(rest.next())).expect("a byte"),
                        byte => byte,
                    });
                }
                assert_eq!(String::from_utf8(bytes).expect("UTF-8"), value);
            }
        }
    }

    #[test]
    fn a_query_is_added_before_the_fragment() {
        for (start, expected) in [
            ("http://a/", "http://a/?a=1%202&b%26=c"),
            ("http://a/?", "http://a/?a=1%202&b%26=c"),
            ("http://a/?x=1#f", "http://a/?x=1&a=1%202&b%26=c#f"),
        ] {
            let mut url = start.to_owned();
            add_query(&mut url, [("a", "1 2".to_owned()), ("b&", "c".to_owned())]);
            assert_eq!(url, expected);
        }
    }
}
