//! The engine's tests, by theme.

#![expect(
    clippy::unwrap_used,
    reason = "the whole crate is tests; clippy only exempts their outermost functions"
)]

mod script_runtime;
mod metadata;
mod stored;
mod consume_queue;
mod recover;
mod rig;
mod oracle;
mod flush;
mod async_flush;
mod pull;
mod ordering;
mod roll;
mod fence;
mod crash;
