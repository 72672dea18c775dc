#![no_main]
//! See `protocol::fuzz::fuzz_register_body`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| protocol::fuzz::fuzz_register_body(data));
