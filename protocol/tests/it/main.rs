//! The protocol from outside: bytes of the specification and of real clients, streams cut anywhere, malformed input.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests too")]

mod support;
mod vectors;
mod session;
mod json_header;
mod binary_header;
mod header;
mod record;
mod body;
mod golden;
mod fuzz;
