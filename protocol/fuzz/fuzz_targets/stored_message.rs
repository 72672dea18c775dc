#![no_main]
//! See `protocol::fuzz::fuzz_stored_message`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| protocol::fuzz::fuzz_stored_message(data));
