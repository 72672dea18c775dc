//! The protocol from outside: bytes of the specification and of real clients, streams cut anywhere, malformed input.

mod support;
mod vectors;
mod session;
mod json_header;
mod record;
