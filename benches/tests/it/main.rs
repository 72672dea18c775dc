//! Rules of the project that need code to check. They look at the sources of all crates, not at their behaviour.

#![expect(clippy::unwrap_used, reason = "tests; clippy sees only functions marked as tests as such")]

mod dependencies;
mod documents;
mod sources;
mod tidy;
