//! The server through its sockets. Most tests run one shard on the scripted runtime, where time is virtual and the disk
//! obeys; those about processes, signals and the host start the real `ringmq`.
//!
//! Tools first: `wire` is a small remoting client, `ask` the requests that clients send, `world` a broker on the
//! scripted runtime, `process` a real one that ends with its test.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests too")]

mod wire;
mod ask;
mod world;
mod process;

mod frames;
mod route;
mod send;
mod refused_sends;
mod batch;
mod pull;
mod group;
mod offsets;
mod metadata;
mod admin;
mod fence;
mod stop;
mod bounds;
mod ownership;
mod start_refusals;
mod restart;
mod hostile;
mod shards;
mod name_server;
