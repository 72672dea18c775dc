//! The RingMQ process.
#![forbid(unsafe_code)]

pub mod config;
pub mod placement;
pub mod doctor;
pub mod table_text;
pub mod topic;
pub mod group;
pub mod namesrv;
