//! The RingMQ process: sockets and processors around shards, a name server, and checks of the host.
//!
//! In reading order: [`boot`] starts a process from its [`config`] and [`placement`]; [`shard_server`] one shard;
//! [`connection`] turns bytes into commands for the [`broker`], whose [`processor`]s answer them; [`namesrv_service`] is
//! the name server behind sockets and [`registrar`] the broker's side of it.
#![forbid(unsafe_code)]

pub mod boot;
pub mod config;
pub mod placement;
pub mod shard_server;
pub mod flush_method;
pub mod connection;
pub mod broker;
pub mod processor;
pub mod target;
pub mod topic;
pub mod group;
pub mod consumer_offset;
pub mod table_text;
pub mod client_registry;
pub mod subscription;
pub mod response;
pub mod registrar;
pub mod namesrv;
pub mod namesrv_service;
pub mod doctor;
pub mod stop_signal;
pub mod log;

pub use boot::run;
