//! What one core stores: plain state, moved by short loops.
//!
//! The modules in the order of a message's journey:
//! `append -> flush -> ack -> dispatch -> pull`, then how a store is opened again.

pub mod offset;
pub mod io;
pub mod error;
pub mod metadata;
pub mod derive;
