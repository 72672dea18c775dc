//! Micro-benchmarks: what one message costs at each stage of its journey, in time, in bytes copied and in allocations.
//!
//! In reading order: [`meter`] takes samples, [`requests`] makes the messages, [`store`] opens a store to work on. Then one
//! file per structure, in the order of the journey: [`decode`], [`record`], [`append`], [`answer`], [`dispatch`], [`pull`],
//! and [`journey`], which is the broker's own code from received bytes to answers. [`budget`] lays them side by side.
//!
//! Every benchmark works on the same messages (fixed seed), has a toy size that runs with the tests, and gives a
//! checksum of its result. On the path of a send (everything but `pull`) an allocation after the warm-up is a failure.
//! No figure here includes a system call; what those cost is measured by `loadgen` against the null server.
#![forbid(unsafe_code)]

pub mod meter;
pub mod requests;
pub mod store;
pub mod decode;
pub mod record;
pub mod append;
pub mod answer;
pub mod dispatch;
pub mod pull;
pub mod journey;
pub mod budget;

use std::path::PathBuf;

use meter::Figure;

/// Why a benchmark could not be run, for a person.
pub type Problem = String;

/// How a benchmark is run.
#[derive(Clone, Debug)]
pub struct Run {
    /// How many samples are kept.
    pub samples: usize,
    /// Where stores are made: a directory on the disk that is meant.
    pub directory: PathBuf,
    /// The core that benchmarks of a store are pinned to.
    pub core: Option<usize>,
}

/// One benchmark: its name, and what runs it. One may give several figures.
pub struct Bench {
    /// What a filter is compared with.
    pub name: &'static str,
    /// What it measures, in a line.
    pub about: &'static str,
    /// Runs it.
    pub run: fn(&Run) -> Result<Vec<Figure>, Problem>,
}

/// All of them, in the order of the journey.
pub const BENCHES: [Bench; 7] = [
    Bench { name: "decode", about: "received bytes to typed send requests", run: decode::run },
    Bench { name: "record", about: "a message to the bytes that are stored", run: record::run },
    Bench { name: "append", about: "offsets, record, pending entry: what the shard does", run: append::run },
    Bench { name: "answer", about: "the answer to a send", run: answer::run },
    Bench { name: "dispatch", about: "confirm, senders to answer, queue entries", run: dispatch::run },
    Bench { name: "pull", about: "select 32 messages and copy them into an answer", run: pull::run },
    Bench { name: "journey", about: "the broker from received bytes to answers", run: journey::run },
];

/// Samples at real size.
pub const SAMPLES: usize = 2_000;
/// Samples at toy size.
pub const SAMPLES_TOY: usize = 30;
/// Samples that are thrown away first, at either size: until then tables and pools grow to the size they keep.
pub const SAMPLES_WARMING: usize = 200;
/// Messages that are received, appended and answered together: what a deep pipeline delivers at once.
pub const GROUP: usize = 32;
