//! The load generator as a library, so that tests and benches can call what the program calls. In reading order: what is
//! to be measured ([`plan`], [`pace`]), how it is loaded ([`client`]) and counted ([`histogram`]), on which server
//! ([`carried`], [`process`], [`floor`]), the commands ([`run`], [`compare`], [`audit`]), and what they leave
//! ([`verdict`], [`report`]).
//!
//! Everything is measured over the wire. The `server` crate is used for one thing: to become a server in a child
//! process ([`carried`]).
#![forbid(unsafe_code)]

pub mod plan;
pub mod pace;
pub mod clock;
pub mod units;
pub mod client;
pub mod histogram;
pub mod process;
pub mod floor;
pub mod carried;
pub mod run;
pub mod compare;
pub mod audit;
pub mod verdict;
pub mod report;
pub mod terminal;
pub mod cli;
pub mod error;
