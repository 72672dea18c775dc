//! RocketMQ remoting.
#![forbid(unsafe_code)]
