//! The device's own floor: how often a plain program can sync here, at the sizes that the servers' groups had, and how
//! fast it can write in sequence. Same directory, pre-written file, O_DIRECT, one request at a time: what a single
//! log writer could reach if it did nothing else.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::clock::now_ns;
use crate::error::{Error, Result};

/// Size of the pre-written file. Large enough that a round does not rewrite the same few blocks.
pub const FILE_BYTES: u64 = 256 << 20;
/// O_DIRECT wants buffers, offsets and lengths of this multiple on every disk that we know.
pub const BLOCK_BYTES: usize = 4096;
const CHUNK_BYTES: usize = 1 << 20;
const FILE_NAME: &str = "loadgen-device-floor";

/// How a write is made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// `pwrite` on a file opened with O_DSYNC: the write returns when it is durable.
    Dsync,
    /// `pwrite`, then `fdatasync`.
    Fdatasync,
}

/// One measurement of the device.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct FloorRate {
    /// How it was made durable.
    pub method: Method,
    /// Bytes of each write.
    pub bytes: u64,
    /// Durable writes per second.
    pub syncs_per_second: f64,
    /// The median duration of one in microseconds.
    pub p50_us: u64,
}

/// A pre-written file in the directory of the stores; removed when dropped.
#[derive(Debug)]
pub struct Floor {
    path: PathBuf,
    dsync: OwnedFd,
    plain: OwnedFd,
    buffer: AlignedBuffer,
    offset: u64,
    /// The file system refuses O_DIRECT, so the page cache lies in between.
    pub buffered: bool,
    /// Sequential writing of the file, MB/s, its final sync included.
    pub write_mb_per_second: f64,
}

impl Floor {
    /// Writes the file from end to end, which is also the measurement of sequential throughput.
    pub fn prepare(directory: &Path) -> Result<Floor> {
        let path = directory.join(FILE_NAME);
        let create = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
        let (plain, buffered) = open_direct(&path, create)?;
        let (dsync, _) = open_direct(&path, OFlags::RDWR | OFlags::DSYNC | OFlags::CLOEXEC)?;
        let mut floor = Floor {
            path,
            dsync,
            plain,
            buffer: AlignedBuffer::new(CHUNK_BYTES),
            offset: 0,
            buffered,
            write_mb_per_second: 0.0,
        };
        floor.write_through()?;
        Ok(floor)
    }

    /// Durable writes of `bytes` (rounded up to whole blocks), one after the other, for `duration`.
    pub fn measure(&mut self, method: Method, bytes: u64, duration: Duration) -> Result<FloorRate> {
        let len = usize::try_from(bytes.div_ceil(BLOCK_BYTES as u64))
            .map_or(CHUNK_BYTES, |blocks| (blocks * BLOCK_BYTES).clamp(BLOCK_BYTES, CHUNK_BYTES));
        let mut took_ns = Vec::with_capacity(1 << 16);
        let start_ns = now_ns();
        let end_ns = start_ns + u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 2);
        let mut last_ns = start_ns;
        while last_ns < end_ns {
            self.write_durably(method, len)?;
            let now = now_ns();
            took_ns.push(now - last_ns);
            last_ns = now;
        }
        took_ns.sort_unstable();
        Ok(FloorRate {
            method,
            bytes: len as u64,
            syncs_per_second: took_ns.len() as f64 * 1e9 / (last_ns - start_ns) as f64,
            p50_us: took_ns[took_ns.len() / 2] / 1_000,
        })
    }

    fn write_durably(&mut self, method: Method, len: usize) -> Result<()> {
        if self.offset + len as u64 > FILE_BYTES {
            self.offset = 0;
        }
        let file = match method {
            Method::Dsync => &self.dsync,
            Method::Fdatasync => &self.plain,
        };
        write_all_at(file, &self.buffer.bytes()[..len], self.offset)
            .and_then(|()| if method == Method::Fdatasync { rustix::fs::fdatasync(file) } else { Ok(()) })
            .map_err(|e| Error::path("cannot write the device-floor file", &self.path, e))?;
        self.offset += len as u64;
        Ok(())
    }

    fn write_through(&mut self) -> Result<()> {
        let wrong = |e: Errno| Error::path("cannot write the device-floor file", &self.path, e);
        let start_ns = now_ns();
        for chunk in 0..FILE_BYTES / CHUNK_BYTES as u64 {
            write_all_at(&self.plain, self.buffer.bytes(), chunk * CHUNK_BYTES as u64).map_err(wrong)?;
        }
        rustix::fs::fdatasync(&self.plain).map_err(wrong)?;
        self.write_mb_per_second = FILE_BYTES as f64 / 1e6 / ((now_ns() - start_ns) as f64 / 1e9);
        // The size is metadata: one full sync, so that later fdatasyncs have none to write.
        rustix::fs::fsync(&self.plain).map_err(wrong)
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            eprintln!("loadgen: cannot remove {}: {error}", self.path.display());
        }
    }
}

/// Opens with O_DIRECT, or without where the file system (tmpfs, some network ones) refuses it.
fn open_direct(path: &Path, flags: OFlags) -> Result<(OwnedFd, bool)> {
    let mode = Mode::RUSR | Mode::WUSR;
    match rustix::fs::open(path, flags | OFlags::DIRECT, mode) {
        Ok(file) => Ok((file, false)),
        Err(Errno::INVAL | Errno::OPNOTSUPP) => rustix::fs::open(path, flags, mode)
            .map(|file| (file, true))
            .map_err(|e| Error::path("cannot open the device-floor file", path, e)),
        Err(e) => Err(Error::path("cannot open the device-floor file", path, e)),
    }
}

fn write_all_at(file: &OwnedFd, mut bytes: &[u8], mut offset: u64) -> std::result::Result<(), Errno> {
    while !bytes.is_empty() {
        let written = rustix::io::pwrite(file, bytes, offset)?;
        if written == 0 {
            return Err(Errno::IO);
        }
        offset += written as u64;
        bytes = &bytes[written..];
    }
    Ok(())
}

/// A buffer whose start is a multiple of the block size, made without unsafe code: a larger vector, entered later.
#[derive(Debug)]
struct AlignedBuffer {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuffer {
    fn new(len: usize) -> AlignedBuffer {
        let mut random = crate::plan::Random::new(0x10AD);
        let memory: Vec<u8> = std::iter::repeat_with(|| random.next_u64().to_le_bytes())
            .take((len + BLOCK_BYTES) / 8)
            .flatten()
            .collect();
        let start = memory.as_ptr().align_offset(BLOCK_BYTES);
        assert!(start + len <= memory.len(), "{start} + {len} is outside of {} bytes", memory.len());
        AlignedBuffer { memory, start, len }
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }
}

/// Room on the file system of a directory.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Bytes that an ordinary user may still write.
    pub free: u64,
    /// Bytes of the whole file system.
    pub total: u64,
}

/// Asks the file system of `directory`.
pub fn room(directory: &Path) -> Result<Room> {
    let stat = rustix::fs::statvfs(directory)
        .map_err(|e| Error::path("cannot ask the file system of", directory, e))?;
    Ok(Room { free: stat.f_bavail * stat.f_frsize, total: stat.f_blocks * stat.f_frsize })
}

/// Bytes of it that a plan may use. A tenth stays free: RocketMQ refuses writes on a disk that is more than 90 % full.
pub fn room_to_use(directory: &Path) -> Result<u64> {
    let room = room(directory)?;
    Ok(room.free.saturating_sub(room.total / 10))
}

/// Refuses a plan that would fill the disk, or bring it to the ratio from which RocketMQ refuses writes.
pub fn require_room(directory: &Path, needed: u64, remedy: &str) -> Result<()> {
    if room_to_use(directory)? < needed {
        let room = room(directory)?;
        return Err(Error::Space {
            directory: directory.display().to_string(),
            needed: needed + room.total / 10,
            free: room.free,
            remedy: format!(
                "{remedy} (a tenth of the disk stays free: RocketMQ refuses writes above 90 % used)"
            ),
        });
    }
    Ok(())
}

/// Checks that files can be made in `directory`, creating it when it is missing.
pub fn require_writable(directory: &Path) -> Result<()> {
    std::fs::create_dir_all(directory)
        .map_err(|e| Error::path("cannot create the directory", directory, e))?;
    let probe = directory.join("loadgen-writable");
    File::create(&probe).map_err(|e| Error::path("cannot write into", directory, e))?;
    std::fs::remove_file(&probe).map_err(|e| Error::path("cannot remove", &probe, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_start_at_a_block() {
        for len in [BLOCK_BYTES, CHUNK_BYTES] {
            let buffer = AlignedBuffer::new(len);
            assert_eq!(buffer.bytes().as_ptr().align_offset(BLOCK_BYTES), 0);
            assert_eq!(buffer.bytes().len(), len);
        }
    }

    #[test]
    fn a_plan_larger_than_the_disk_is_refused_with_numbers() {
        let directory = tempfile::tempdir().unwrap();
        require_room(directory.path(), 0, "").unwrap_or_else(|e| panic!("no room for nothing: {e}"));
        let error = require_room(directory.path(), u64::MAX / 4, "give --data another disk").unwrap_err();
        let text = error.to_string();
        assert!(text.contains("needs") && text.contains("give --data another disk"), "{text}");
    }
}
