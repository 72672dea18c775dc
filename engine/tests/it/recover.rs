//! Opening stores: clean, torn, damaged, in the middle of being opened, and RocketMQ's.

mod opening;
mod tails;
mod damage;
mod queues;
mod crashes;
mod golden;
