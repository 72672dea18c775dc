//! From a pull to its answer: [`pull`] selects what to send, [`cold`] brings old bytes into memory, [`hold`] keeps
//! the pulls that wait for messages, [`time`] searches by store time.

pub mod cold;
pub mod hold;
pub mod pull;
pub mod time;
