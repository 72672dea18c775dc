//! The `Runtime`: everything a shard may ask of the world, and nothing else.
//!
//! Clock and timers, tasks, files *and their names*, sockets. The engine and the server are generic over it,
//! so the code that ships is the code that is tested on a scripted disk. This folder holds its implementations
//! and is the only place with `unsafe` and the only place that names glommio:
//!
//! - [`ring`]: glommio, one pinned io_uring executor per core.
//! - [`script`]: in memory, for tests: hold, delay, fail or shorten a named operation, take a crash image.
//!
//! Rules that every implementation keeps and every caller relies on:
//!
//! - Single-threaded. Futures are polled on the shard's thread only; nothing here is `Send`.
//! - Nothing blocks the thread. Operations on names (create, rename, remove, list, directory sync) and every
//!   other call that the kernel may block on run elsewhere and are awaited.
//! - From submission to completion the runtime owns the buffer: writes take it by `Rc`, which nobody can
//!   change, reads give a new one back. Dropping a future never frees memory that the kernel still uses, but it
//!   loses the outcome: an operation whose fate matters is awaited by a task that nobody cancels.
//! - A name is durable only after [`Runtime::sync_directory`] of its directory, bytes after
//!   [`File::sync_data`] (or a write to a file opened with [`Access::DirectSync`]).

use std::{
    future::Future,
    io,
    net::SocketAddr,
    path::Path,
    rc::Rc,
    time::{Duration, Instant},
};

pub mod event;
pub mod ring;
pub mod script;

/// The unit of direct writes: position, length and memory of a write are multiples of it.
pub const BLOCK_BYTES: usize = 4096;

/// How a file is accessed. No file is ever open in two incoherent ways at once: direct and buffered (or mapped)
/// access of one file exclude each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// O_DIRECT, reads and writes in whole blocks; durable after [`File::sync_data`].
    Direct,
    /// O_DIRECT and O_DSYNC: a completed write is durable.
    DirectSync,
    /// Through the page cache, any position and length.
    Buffered,
    /// As [`Access::Buffered`], for reading only (works on a store one may not write to).
    ReadOnly,
}

/// How the space of a new file is provided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Full length, no blocks: for derived files, which stay sparse.
    Sparse,
    /// Full length, blocks allocated (fallocate): a later write does not meet a full disk.
    Allocated,
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirectoryEntry {
    /// The last component of its path.
    pub name: String,
    /// Length in bytes; 0 for a directory.
    pub len: u64,
    /// Whether it is a directory.
    pub is_directory: bool,
}

/// Space on the file system that holds a path, in bytes, as an unprivileged process sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    /// Size of the file system.
    pub total: u64,
    /// Bytes that may still be written.
    pub available: u64,
}

/// A buffer that files are written from: block-aligned memory, a whole number of blocks.
pub trait Buffer: 'static {
    /// Its bytes.
    fn bytes(&self) -> &[u8];
    /// Its bytes, to be filled.
    fn bytes_mut(&mut self) -> &mut [u8];
    /// Forgets everything from `len` on; `len` is a multiple of [`BLOCK_BYTES`] and not larger than the length.
    fn truncate(&mut self, len: usize);
}

/// An open file.
pub trait File: 'static {
    /// The buffers it is written from.
    type Buffer: Buffer;

    /// Writes all of `buffer` at `position`, a multiple of [`BLOCK_BYTES`]. Returns how many bytes were written:
    /// fewer than all is possible and for the caller to go on from.
    fn write_buffer(
        &self,
        buffer: Rc<Self::Buffer>,
        position: u64,
    ) -> impl Future<Output = io::Result<usize>>;

    /// Writes all of `bytes` at `position`, for files opened [`Access::Buffered`].
    fn write_bytes(&self, bytes: Vec<u8>, position: u64) -> impl Future<Output = io::Result<()>>;

    /// Reads up to `len` bytes at `position`, of any alignment; fewer only at the end of the file.
    fn read(&self, position: u64, len: usize) -> impl Future<Output = io::Result<Vec<u8>>>;

    /// fdatasync: when it succeeds, every write that had completed before this call is durable.
    fn sync_data(&self) -> impl Future<Output = io::Result<()>>;
}

/// A file mapped into memory, shared and writable.
pub trait Mapping: 'static {
    /// Its bytes. Cold pages must not be touched on a shard's core.
    fn bytes(&self) -> &[u8];
    /// Its bytes, to be changed.
    fn bytes_mut(&mut self) -> &mut [u8];
}

/// A listening socket.
pub trait Listener: 'static {
    /// The connections it accepts.
    type Stream: Stream;
    /// The next connection, set up for us (no delay, non-blocking).
    fn accept(&self) -> impl Future<Output = io::Result<Self::Stream>>;
    /// The address it listens on; tells the port the kernel gave.
    fn local_address(&self) -> SocketAddr;
}

/// A connected socket. Both directions may be waited for at the same time.
pub trait Stream: 'static {
    /// Receives what is there without waiting; `WouldBlock` when nothing is, 0 at the end of the stream.
    fn try_receive(&self, room: &mut [u8]) -> io::Result<usize>;
    /// Waits until there is something to receive (or the end, or an error).
    fn readable(&self) -> impl Future<Output = io::Result<()>>;
    /// Sends what the socket takes without waiting; `WouldBlock` when it takes nothing.
    fn try_send(&self, bytes: &[u8]) -> io::Result<usize>;
    /// Waits until the socket takes more.
    fn writable(&self) -> impl Future<Output = io::Result<()>>;
    /// Ends both directions; pending waits return.
    fn shut_down(&self);
    /// The other end.
    fn peer_address(&self) -> SocketAddr;
    /// This end.
    fn local_address(&self) -> SocketAddr;
}

/// What a shard may ask of the world. A cheap handle; clones mean the same world.
pub trait Runtime: Clone + 'static {
    /// Buffers for direct writes.
    type Buffer: Buffer;
    /// Open files.
    type File: File<Buffer = Self::Buffer>;
    /// Mapped files.
    type Mapping: Mapping;
    /// The lock of a store; dropping it releases the lock.
    type Lock: 'static;
    /// Connections.
    type Stream: Stream;
    /// Listening sockets.
    type Listener: Listener<Stream = Self::Stream>;

    /// Runs `task` on this thread until it ends.
    fn spawn(&self, task: impl Future<Output = ()> + 'static);
    /// A clock that never goes back.
    fn now(&self) -> Instant;
    /// Milliseconds since 1970, as the host's clock says; may jump either way.
    fn wall_clock_ms(&self) -> i64;
    /// Waits for `duration`.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()>;
    /// Lets every other task that is ready run once before going on.
    fn yield_now(&self) -> impl Future<Output = ()>;

    /// A buffer of `len` bytes, a multiple of [`BLOCK_BYTES`], with any content.
    fn allocate(&self, len: usize) -> Self::Buffer;

    /// Opens the existing file at `path`.
    fn open(&self, path: &Path, access: Access) -> impl Future<Output = io::Result<Self::File>>;
    /// Creates a file of `len` zero bytes at `path`, which must not exist; its bytes are synced, its name isn't.
    fn create(&self, path: &Path, len: u64, space: Space) -> impl Future<Output = io::Result<()>>;
    /// Creates or replaces the file at `path` with `bytes` and syncs them; its name isn't synced.
    fn write_file(&self, path: &Path, bytes: Vec<u8>) -> impl Future<Output = io::Result<()>>;
    /// The whole file at `path`; `None` when there is none.
    fn read_file(&self, path: &Path) -> impl Future<Output = io::Result<Option<Vec<u8>>>>;
    /// Renames, replacing what `target` names.
    fn rename(&self, source: &Path, target: &Path) -> impl Future<Output = io::Result<()>>;
    /// Gives the file at `source` a second name, `target`, replacing nothing: fails when `target` exists.
    fn hard_link(&self, source: &Path, target: &Path) -> impl Future<Output = io::Result<()>>;
    /// Removes a file. Not finding it is an error.
    fn remove(&self, path: &Path) -> impl Future<Output = io::Result<()>>;
    /// Creates a directory and its parents; existing ones are fine.
    fn create_directory(&self, path: &Path) -> impl Future<Output = io::Result<()>>;
    /// What a directory holds, sorted by name; `None` when there is no such directory.
    fn list(&self, path: &Path) -> impl Future<Output = io::Result<Option<Vec<DirectoryEntry>>>>;
    /// Makes the names in a directory durable.
    fn sync_directory(&self, path: &Path) -> impl Future<Output = io::Result<()>>;
    /// Takes the store's lock: a POSIX record lock (fcntl) on byte 0 of the file at `path`, created when missing,
    /// as RocketMQ takes it. `WouldBlock` when another process (or this one) holds it.
    fn lock(&self, path: &Path) -> impl Future<Output = io::Result<Self::Lock>>;
    /// Maps the existing file at `path`, all of it.
    fn map(&self, path: &Path) -> impl Future<Output = io::Result<Self::Mapping>>;
    /// Space on the file system that holds `path`.
    fn disk_space(&self, path: &Path) -> impl Future<Output = io::Result<DiskSpace>>;

    /// The first address of `host:port`, which may be a name.
    fn resolve(&self, name: &str) -> impl Future<Output = io::Result<SocketAddr>>;
    /// Listens on `address` alone: a second listener on the same port is refused.
    fn listen(&self, address: SocketAddr) -> io::Result<Self::Listener>;
    /// Connects to `address`.
    fn connect(
        &self,
        address: SocketAddr,
        timeout: Duration,
    ) -> impl Future<Output = io::Result<Self::Stream>>;
}
