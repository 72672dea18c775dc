//! The benchmark programs at toy size, as processes: that they run, end well, and keep what they promise. And rules of
//! the project that need code to check: those look at the sources of all crates, not at their behaviour.
#![allow(clippy::unwrap_used, reason = "tests")]

mod micro;
mod null_server;
mod sync_floor;
mod dependencies;
mod documents;
mod sources;
mod tidy;
