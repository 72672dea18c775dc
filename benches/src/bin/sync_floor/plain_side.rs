//! The plain side: a file that was written before, and one thread that writes and syncs it.
//!
//! It writes the blocks that the engine writes for the same records: from the block that the last group ended in to the
//! block that this one ends in.

use std::{
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    time::Instant,
};

use engine::{io::BLOCK_BYTES, write::flush::SyncMethod};
use rustix::fs::{Mode, OFlags};

use super::{GROUP_MAX, Load, Measured, Plan, Problem, engine_side::record_bytes};

/// See the module.
pub struct Plain {
    path: PathBuf,
    file: OwnedFd,
    plan: Plan,
    /// Where the records written so far end.
    end: u64,
    /// Length of the file.
    len: u64,
}

impl Plain {
    /// Writes the file from end to end.
    pub fn prepare(path: &Path, plan: Plan) -> Result<Plain, Problem> {
        let failed = |error: rustix::io::Errno| format!("cannot write {}: {error}", path.display());
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::DIRECT | OFlags::CLOEXEC;
        let flags = if plan.method == SyncMethod::Dsync { flags | OFlags::DSYNC } else { flags };
        let filling =
            rustix::fs::open(path, flags - OFlags::DSYNC, Mode::RUSR | Mode::WUSR).map_err(failed)?;
        let len = (plan.bytes_max + PIECE_BYTES as u64).next_multiple_of(PIECE_BYTES as u64);
        let zeros = Blocks::new(PIECE_BYTES);
        for piece in 0..len / PIECE_BYTES as u64 {
            write_all(&filling, zeros.first(PIECE_BYTES), piece * PIECE_BYTES as u64).map_err(failed)?;
        }
        rustix::fs::fsync(&filling).map_err(failed)?;
        let file = rustix::fs::open(path, flags, Mode::empty()).map_err(failed)?;
        Ok(Plain { path: path.to_path_buf(), file, plan, end: 0, len })
    }

    /// One measurement, on a thread of its own: this one isn't pinned.
    pub fn measure(&mut self, load: Load) -> Result<Measured, Problem> {
        std::thread::scope(|scope| scope.spawn(|| self.measure_here(load)).join())
            .unwrap_or_else(|_| Err("the plain thread ended by a panic".to_owned()))
    }

    /// The file, and how it is made durable.
    pub fn file(&self) -> (&Path, SyncMethod) {
        (&self.path, self.plan.method)
    }

    /// Length of the file.
    pub fn len(&self) -> u64 {
        self.len
    }

    fn measure_here(&mut self, load: Load) -> Result<Measured, Problem> {
        let failed = |error: rustix::io::Errno| format!("cannot write the plain file: {error}");
        if let Some(core) = self.plan.core {
            let mut cores = rustix::thread::CpuSet::new();
            cores.set(core);
            rustix::thread::sched_setaffinity(None, &cores).map_err(failed)?;
        }
        let blocks = Blocks::new(GROUP_MAX * record_bytes() + 2 * BLOCK_BYTES);
        let until = Instant::now() + load.at_most;
        let bytes_end = self.end + load.bytes_max;
        let mut took = Vec::new();
        while Instant::now() < until && self.end < bytes_end {
            let begun = Instant::now();
            let start = self.end / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
            self.end += (load.group * record_bytes()) as u64;
            let len =
                usize::try_from(self.end.next_multiple_of(BLOCK_BYTES as u64) - start).expect("a few blocks");
            write_all(&self.file, blocks.first(len), start).map_err(failed)?;
            if self.plan.method == SyncMethod::Fdatasync {
                rustix::fs::fdatasync(&self.file).map_err(failed)?;
            }
            took.push(begun.elapsed());
        }
        assert!(self.end <= self.len, "the file has room for every measurement");
        Ok(Measured::of(took))
    }
}

fn write_all(file: &OwnedFd, mut bytes: &[u8], mut position: u64) -> Result<(), rustix::io::Errno> {
    while !bytes.is_empty() {
        let written = rustix::io::pwrite(file, bytes, position)?;
        if written == 0 {
            return Err(rustix::io::Errno::IO);
        }
        bytes = &bytes[written..];
        position += written as u64;
    }
    Ok(())
}

/// Zeros that begin on a block, made without unsafe code: a larger vector, entered later.
struct Blocks {
    memory: Vec<u8>,
    start: usize,
}

impl Blocks {
    fn new(len: usize) -> Blocks {
        let memory = vec![0; len + BLOCK_BYTES];
        let start = memory.as_ptr().align_offset(BLOCK_BYTES);
        Blocks { memory, start }
    }

    fn first(&self, len: usize) -> &[u8] {
        &self.memory[self.start..self.start + len]
    }
}

const PIECE_BYTES: usize = 1 << 20;
