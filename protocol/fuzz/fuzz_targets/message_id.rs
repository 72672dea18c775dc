#![no_main]
//! See `protocol::fuzz::fuzz_message_id`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| protocol::fuzz::fuzz_message_id(data));
