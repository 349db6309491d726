//! Any text as a YAML or JSON document: no panic, no hang, no stack overflow, no limit passed.

#![no_main]

use libfuzzer_sys::fuzz_target;
use threadline_fuzz::prepare;

fuzz_target!(init: prepare(), |data: &[u8]| {
    let _ = std::str::from_utf8(data);
});
