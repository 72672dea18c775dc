//! From an accepted message to a kept promise: [`flush`] makes the log durable, [`ack`] answers who waits.

pub mod ack;
pub mod flush;
