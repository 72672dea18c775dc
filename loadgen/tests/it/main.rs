//! What the load generator promises, against a scripted broker with known delays, in this process.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod audit;
mod load;
mod program;
mod report;
mod scripted;
