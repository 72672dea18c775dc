#![no_main]
//! See `protocol::fuzz::fuzz_lenient_json`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| protocol::fuzz::fuzz_lenient_json(data));
