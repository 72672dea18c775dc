#![no_main]
//! See `protocol::fuzz::fuzz_properties`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| protocol::fuzz::fuzz_properties(data));
