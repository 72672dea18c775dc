//! From an accepted message to a kept promise: [`flush`] makes the log durable, [`ack`] answers who waits,
//! [`age`] bounds what a kill may cost where nobody waits.

pub mod ack;
pub mod age;
pub mod flush;
