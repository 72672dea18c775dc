//! The RingMQ process.
#![forbid(unsafe_code)]
