//! See `io.rs`.
