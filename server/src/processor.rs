//! What each request code does, one file per family.

pub mod admin;
pub mod group;
pub mod offset;
pub mod pull;
pub mod send;
