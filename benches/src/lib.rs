//! Micro-benchmarks.
#![forbid(unsafe_code)]
