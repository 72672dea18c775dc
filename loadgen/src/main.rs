//! The load generator.
#![forbid(unsafe_code)]
fn main() {}
