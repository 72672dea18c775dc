//! What one core stores: plain state, moved by short loops.
//!
//! The modules in the order of a message's journey:
//! `append -> flush -> ack -> dispatch -> pull`, then how a store is opened again.

pub mod offset;
pub mod io;
pub mod limits;
pub mod error;
pub mod commit_log;
pub mod write;
pub mod derive;
pub mod read;
pub mod shard;
pub mod stages;
pub mod tasks;
pub mod metadata;
pub mod recover;
pub mod store;
