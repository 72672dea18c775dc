//! The benchmark programs at toy size, as processes: that they run, end well, and keep what they promise.
#![allow(clippy::unwrap_used, reason = "tests")]

mod micro;
mod null_server;
mod sync_floor;
