//! Opening stores: clean, torn, damaged, in the middle of being opened, and RocketMQ's.

mod scan;
mod opening;
mod tails;
mod damage;
mod queues;
mod crashes;
mod power_cuts;
mod golden;
mod real_disk;
