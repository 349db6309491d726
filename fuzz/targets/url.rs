//! Any pieces as a URL: no panic; and whatever a value holds, the URL has the parts that its author wrote.
//!
//! Lines are pieces, written and from a value in turns. The first is written: a value there would be the base, as it is.

#![no_main]

use libfuzzer_sys::fuzz_target;
use threadline_flow::url::{UrlPiece, add_query, build, is_header_name, is_header_value};
use threadline_fuzz::prepare;

fuzz_target!(init: prepare(), |data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let lines: Vec<&str> = text.split('\n').collect();
    let _ = (is_header_name(text), is_header_value(text));
    let with = |other: Option<&'static str>| {
        let pieces = lines.iter().enumerate().map(|(at, line)| match other {
            _ if at.is_multiple_of(2) => UrlPiece::Written(line),
            other => UrlPiece::Value(other.unwrap_or(line)),
        });
        build(pieces)
    };
    let Ok(mut url) = with(None) else { return };
    // Without anything written before it a value is the base of the URL.
    if let (Ok(plain), false) = (with(Some("x")), lines[0].is_empty()) {
        for mark in ['/', '?', '#', '&', '=', '@'] {
            let count = |url: &str| url.matches(mark).count();
            assert_eq!(count(&url), count(&plain), "`{mark}` in {url:?}, and in {plain:?}: {lines:?}");
        }
    }
    assert!(!url.contains(char::is_whitespace), "{url:?} of {lines:?}");
    add_query(&mut url, [("name", text.to_owned())]);
    assert!(!url.contains(char::is_whitespace), "{url:?} of {lines:?}");
});
