//! The `Runtime` on glommio: one pinned io_uring executor per core.
//!
//! Owns how an executor is started and where its helper threads run. Files are in [`mod@file`], names in [`names`],
//! sockets in [`net`]. Nothing here decides anything about the store.
//!
//! glommio's rings carry file I/O and the waiting for sockets; receiving and sending themselves are direct
//! non-blocking system calls. What the kernel may block on (names, allocation, look-ups) runs on a pool of
//! ordinary threads that belongs to the executor; they start with the core's affinity, which [`RingOptions`]
//! replaces by that of the helper cores.

use std::{
    cell::Cell,
    future::Future,
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    rc::Rc,
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use glommio::{LocalExecutorBuilder, Placement, PoolPlacement, io::DmaBuffer};

use super::{Access, DirectoryEntry, DiskSpace, Runtime, Space, event::Event};

mod file;
mod names;
mod net;
mod readiness;

pub use file::{RingFile, RingMapping};
pub use names::StoreLock;
pub use net::{RingListener, RingStream};
use readiness::Readiness;

/// How many ordinary threads serve one executor's blocking calls. Two, so that a slow directory sync does not
/// keep a short one waiting.
const HELPER_THREADS: usize = 2;

/// How an executor is set up.
#[derive(Clone, Debug)]
pub struct RingOptions {
    /// Name of its thread.
    pub name: String,
    /// The core it is pinned to; `None` leaves it to the scheduler.
    pub core: Option<usize>,
    /// The cores its helper threads may use; empty leaves them where the executor is.
    pub helper_cores: Vec<usize>,
    /// Memory registered with the ring for direct writes, in bytes. Counts as locked memory.
    pub buffer_bytes: usize,
    /// How long the executor polls for completions before it sleeps: a core's idle time for wake-up latency.
    pub spin_before_park: Duration,
}

/// Starts an executor on a thread of its own and runs `task` on it; the thread ends when `task` does.
///
/// # Errors
/// When the executor cannot be made: io_uring is forbidden, or less than 512 KiB of memory may be locked.
pub fn start<Task, Running, Output>(
    options: RingOptions,
    task: Task,
) -> io::Result<thread::JoinHandle<io::Result<Output>>>
where
    Task: FnOnce(RingRuntime) -> Running + Send + 'static,
    Running: Future<Output = Output> + 'static,
    Output: Send + 'static,
{
    let placement = match options.core {
        Some(core) => Placement::Fixed(core),
        None => Placement::Unbound,
    };
    let name = options.name.clone();
    thread::Builder::new().name(name.clone()).spawn(move || {
        let executor = LocalExecutorBuilder::new(placement)
            .name(&name)
            .io_memory(options.buffer_bytes)
            .spin_before_park(options.spin_before_park)
            .blocking_thread_pool_placement(PoolPlacement::Unbound(HELPER_THREADS))
            .make()
            .map_err(|error| io::Error::other(error.to_string()))?;
        let calls = Rc::new(BlockingCalls::default());
        let helper_cores = options.helper_cores.into();
        executor.run(async move {
            let runtime =
                RingRuntime { helper_cores, calls: Rc::clone(&calls), readiness: Readiness::start()? };
            let output = task(runtime).await;
            // A helper thread whose executor is gone has nobody to report to and panics.
            while calls.running.get() > 0 {
                calls.ended.wait().await;
            }
            Ok(output)
        })
    })
}

/// Tries to set up a ring, and lets it go again: whether io_uring may be used at all.
///
/// # Errors
/// Why it may not.
pub fn probe() -> io::Result<()> {
    let made = LocalExecutorBuilder::new(Placement::Unbound).name("probe").make();
    made.map(drop).map_err(|error| io::Error::other(error.to_string()))
}

/// The calls that helper threads are at.
#[derive(Default)]
struct BlockingCalls {
    running: Cell<usize>,
    /// Set when one ended.
    ended: Event,
}

/// The handle; see [`Runtime`]. Valid on the thread of its executor only.
#[derive(Clone)]
pub struct RingRuntime {
    helper_cores: Rc<[usize]>,
    calls: Rc<BlockingCalls>,
    readiness: Readiness,
}

impl RingRuntime {
    /// Runs `call`, which may block, on a helper thread. It runs to its end, and is waited for at the executor's end,
    /// whether or not anybody awaits it that long.
    async fn blocking<Output: Send + 'static>(
        &self,
        call: impl FnOnce() -> io::Result<Output> + Send + 'static,
    ) -> io::Result<Output> {
        let cores = self.helper_cores.to_vec();
        let calls = Rc::clone(&self.calls);
        calls.running.set(calls.running.get() + 1);
        let running = glommio::spawn_local(async move {
            let on_helper = move || {
                names::move_to_cores(&cores)?;
                call()
            };
            let outcome = glommio::executor().spawn_blocking(on_helper).await;
            calls.running.set(calls.running.get() - 1);
            calls.ended.set();
            outcome
        });
        running.detach().await.expect("nobody cancels a detached task")
    }
}

impl Runtime for RingRuntime {
    type Buffer = DmaBuffer;
    type File = RingFile;
    type Mapping = RingMapping;
    type Lock = StoreLock;
    type Stream = RingStream;
    type Listener = RingListener;

    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        glommio::spawn_local(task).detach();
    }

    fn now(&self) -> Instant {
        Instant::now()
    }

    fn wall_clock_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    async fn sleep(&self, duration: Duration) {
        glommio::timer::sleep(duration).await;
    }

    async fn yield_now(&self) {
        glommio::executor().yield_now().await;
    }

    fn allocate(&self, len: usize) -> DmaBuffer {
        file::allocate(len)
    }

    async fn open(&self, path: &Path, access: Access) -> io::Result<RingFile> {
        RingFile::open(path, access).await
    }

    async fn create(&self, path: &Path, len: u64, space: Space) -> io::Result<()> {
        let path = path.to_path_buf();
        self.blocking(move || names::create(&path, len, space)).await
    }

    async fn write_file(&self, path: &Path, bytes: Vec<u8>) -> io::Result<()> {
        let path = path.to_path_buf();
        self.blocking(move || names::write_file(&path, &bytes)).await
    }

    async fn read_file(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        let path = path.to_path_buf();
        self.blocking(move || names::read_file(&path)).await
    }

    async fn rename(&self, source: &Path, target: &Path) -> io::Result<()> {
        let (source, target) = (source.to_path_buf(), target.to_path_buf());
        self.blocking(move || std::fs::rename(source, target)).await
    }

    async fn hard_link(&self, source: &Path, target: &Path) -> io::Result<()> {
        let (source, target) = (source.to_path_buf(), target.to_path_buf());
        self.blocking(move || std::fs::hard_link(source, target)).await
    }

    async fn remove(&self, path: &Path) -> io::Result<()> {
        let path = path.to_path_buf();
        self.blocking(move || std::fs::remove_file(path)).await
    }

    async fn create_directory(&self, path: &Path) -> io::Result<()> {
        let path = path.to_path_buf();
        self.blocking(move || std::fs::create_dir_all(path)).await
    }

    async fn list(&self, path: &Path) -> io::Result<Option<Vec<DirectoryEntry>>> {
        let path = path.to_path_buf();
        self.blocking(move || names::list(&path)).await
    }

    async fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let path = path.to_path_buf();
        self.blocking(move || std::fs::File::open(path)?.sync_all()).await
    }

    async fn lock(&self, path: &Path) -> io::Result<StoreLock> {
        let path = path.to_path_buf();
        self.blocking(move || StoreLock::take(&path)).await
    }

    async fn map(&self, path: &Path) -> io::Result<RingMapping> {
        let path: PathBuf = path.to_path_buf();
        self.blocking(move || RingMapping::new(&path)).await
    }

    async fn disk_space(&self, path: &Path) -> io::Result<DiskSpace> {
        let path = path.to_path_buf();
        self.blocking(move || names::disk_space(&path)).await
    }

    async fn resolve(&self, name: &str) -> io::Result<SocketAddr> {
        let name = name.to_owned();
        self.blocking(move || {
            let mut addresses = std::net::ToSocketAddrs::to_socket_addrs(name.as_str())?;
            addresses.next().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the name has no address"))
        })
        .await
    }

    fn listen(&self, address: SocketAddr) -> io::Result<RingListener> {
        RingListener::bind(address, self.readiness.clone())
    }

    async fn connect(&self, address: SocketAddr, timeout: Duration) -> io::Result<RingStream> {
        let stream = self.blocking(move || std::net::TcpStream::connect_timeout(&address, timeout)).await?;
        RingStream::new(stream, &self.readiness)
    }
}
