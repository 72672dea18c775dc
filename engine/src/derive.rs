//! What is derived from the commit log and can be made again from it at any time.
//!
//! Never on the way of an acknowledgement: written in batches behind the log, rebuilt when it disagrees with it.

pub mod consume_queue;
pub mod describe;
