//! Rules of the project that need code to check. They look at the sources of all crates, not at their behaviour.

mod dependencies;
mod documents;
mod sources;
mod tidy;
