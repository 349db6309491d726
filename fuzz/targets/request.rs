//! Any head of a request: no panic; and whoever does not know the token is not let in.
//!
//! The first line is the method, the second the target, and each other line a field of the head.

#![no_main]

use libfuzzer_sys::fuzz_target;
use threadline_fuzz::prepare;
use threadline_serve::{TRIED_HOST, Token, encoded_and_decoded, try_request};

/// The token, of which no input has all.
const SECRET: &str = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-._~";

fuzz_target!(init: prepare(), |data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    assert_eq!(encoded_and_decoded(text), [Some(text.to_owned()), Some(text.to_owned())]);
    let mut lines = text.split('\n');
    let (Some(method), Some(target)) = (lines.next(), lines.next()) else { return };
    let fields: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(": ")).collect();
    let token = Token::given(SECRET).expect("a token");
    let tried = try_request(&token, method, target, &fields);
    assert!(tried.is_none_or(|tried| !tried.is_admitted || text.contains(SECRET)), "{text:?}");
    // Whoever knows it is let in if the host is that of the server, and nothing says that another site asks.
    let bearer = format!("Bearer {SECRET}");
    let known = [("host", TRIED_HOST), ("authorization", bearer.as_str())];
    let Some(tried) = try_request(&token, method, target, &known) else { return };
    assert!(tried.is_admitted || !target.starts_with('/'), "{text:?}");
    assert!(!tried.is_understood || tried.has_route);
});
