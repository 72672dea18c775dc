//! The scripted `Runtime`: a world in memory for tests, deterministic and on the calling thread.
//!
//! A test builds a [`ScriptRuntime`], runs production code on it, and decides what happens to it: [`ScriptPlan`] holds,
//! delays, fails, shortens or stops any operation by name and number; [`ScriptDisk`] prepares files and takes crash
//! images, each a fresh world with what a restarted process would find; [`ScriptNet`] plays the peers. Time is virtual
//! and only moves when nothing is ready. The same seed gives the same run.
//!
//! Compiled always, not only for this crate's tests: those of the server and the load generator use it too. Nothing
//! that serves uses it. An operation is submitted when its future is first polled; from then on it happens whether or
//! not anybody waits for it, as on a ring.
//!
//! A held write, overtaken:
//!
//! ```
//! use engine::io::{Access, File, Runtime, script::{Kind, PowerCut, Rule, ScriptRuntime}};
//! use std::{path::Path, rc::Rc};
//!
//! let runtime = ScriptRuntime::new(1);
//! runtime.disk().put("/store/commitlog/0", &[0; 8192]);
//! runtime.plan().add(Rule::of(Kind::Write).under("commitlog").nth(1).hold());
//! let path = Path::new("/store/commitlog/0");
//! let file = Rc::new(runtime.block_on(runtime.open(path, Access::DirectSync)).unwrap());
//! for position in [0, 4096] {
//!     let (file, buffer) = (Rc::clone(&file), Rc::new(runtime.allocate(4096)));
//!     runtime.spawn(async move { assert_eq!(file.write_buffer(buffer, position).await.unwrap(), 4096) });
//! }
//! runtime.run_until_idle();
//! let after = runtime.disk().power_cut_image(PowerCut::nothing()).disk().read(path).unwrap();
//! assert_eq!((after[0], after[4096]), (0, 0xA5));
//! ```
//!
//! A crash at every operation: run the same code with [`ScriptPlan::stop_at`] 1, 2, 3 … until the world no longer
//! stops, and look at [`ScriptDisk::kill_image`] and [`ScriptDisk::power_cut_image`] of each.

use std::{
    cell::{Cell, RefCell},
    future::{Future, poll_fn},
    io,
    net::SocketAddr,
    path::Path,
    pin::pin,
    rc::Rc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use super::{Access, DirectoryEntry, DiskSpace, Runtime, Space};
use disk::{Disk, Effect, absolute};
use executor::{Executor, Ready};
use net::Net;
use world::{Sleep, World, millis};

mod world;
mod executor;
mod plan;
mod disk;
mod file;
mod net;
mod random;

pub use disk::{
    EACCES, EAGAIN, EBADF, EEXIST, EINVAL, EIO, EISDIR, ENOENT, ENOSPC, ENOTDIR, EROFS, InFlightFate,
    PowerCut, ScriptDisk,
};
pub use file::{ScriptBuffer, ScriptFile, ScriptLock, ScriptMapping};
pub use net::{Client, ScriptListener, ScriptNet, ScriptStream};
pub use plan::{Dirty, Done, Kind, Operation, Rule, RuleId, ScriptPlan};

/// A world for tests; see the module. Clones are the same world.
///
/// Tasks own clones of it, so a world with tasks that never end is never freed: [`ScriptRuntime::end`] drops them.
#[derive(Clone)]
pub struct ScriptRuntime {
    world: Rc<World>,
}

impl ScriptRuntime {
    /// A world with an empty disk, a silent network and no tasks.
    #[must_use]
    pub fn new(seed: u64) -> ScriptRuntime {
        ScriptRuntime::with(seed, Disk::new(), Instant::now(), 1_700_000_000_000)
    }

    fn with(seed: u64, disk: Disk, began: Instant, wall_clock_began_ms: i64) -> ScriptRuntime {
        let world = World {
            seed,
            executor: Executor::new(seed),
            plan: RefCell::default(),
            disk: RefCell::new(disk),
            net: RefCell::new(Net::new()),
            began,
            wall_clock_began_ms: Cell::new(wall_clock_began_ms),
            patience: Cell::new(Duration::from_secs(3600)),
            running: Cell::new(false),
        };
        ScriptRuntime { world: Rc::new(world) }
    }

    /// What happens to operations.
    #[must_use]
    pub fn plan(&self) -> ScriptPlan {
        ScriptPlan { world: Rc::clone(&self.world) }
    }

    /// Its disk.
    #[must_use]
    pub fn disk(&self) -> ScriptDisk {
        ScriptDisk { world: Rc::clone(&self.world) }
    }

    /// Its network.
    #[must_use]
    pub fn net(&self) -> ScriptNet {
        ScriptNet { world: Rc::clone(&self.world) }
    }

    /// Whether what is ready at one time runs, and completes, in an order drawn from the seed; at first it is first
    /// in, first out.
    pub fn set_shuffled(&self, shuffled: bool) {
        self.world.executor.set_shuffled(shuffled);
    }

    /// Runs the world until `future` is done; whenever nothing is ready the clock moves on to the next timer.
    ///
    /// # Panics
    /// When it never will be: nothing is ready and no timer set, the world has stopped, or an hour of virtual time
    /// has passed ([`ScriptRuntime::set_patience`]). Also when called from within a task.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.try_block_on(future).unwrap_or_else(|| {
            let plan = self.plan();
            panic!(
                "the future can't finish: stopped {}, {} tasks, in flight {:#?}",
                plan.is_stopped(),
                self.world.executor.task_count(),
                plan.in_flight()
            )
        })
    }

    /// As [`ScriptRuntime::block_on`], but `None` when `future` will never be done; it is dropped then.
    ///
    /// # Panics
    /// When called from within a task.
    pub fn try_block_on<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let executor = &self.world.executor;
        let mut future = pin!(future);
        let task = executor.new_waker();
        let waker = Waker::from(std::sync::Arc::clone(&task));
        let give_up = executor.elapsed() + self.world.patience.get();
        let _running = self.world.start_running();
        while !self.world.is_stopped() {
            match executor.next_ready() {
                Some(Ready::Task(ready)) if ready.id == task.id => {
                    if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                        return Some(value);
                    }
                }
                Some(ready) => self.world.run(ready),
                None => match executor.next_deadline() {
                    Some(deadline) if deadline <= give_up => executor.move_clock(deadline),
                    _ => return None,
                },
            }
        }
        None
    }

    /// Runs everything that is ready, and what that makes ready, without moving the clock.
    ///
    /// # Panics
    /// When called from within a task.
    pub fn run_until_idle(&self) {
        let _running = self.world.start_running();
        self.world.run_ready();
    }

    /// Moves the clock by `duration`, running at each moment what is ready then.
    ///
    /// # Panics
    /// When called from within a task.
    pub fn advance(&self, duration: Duration) {
        let executor = &self.world.executor;
        let _running = self.world.start_running();
        let end = executor.elapsed() + duration;
        self.world.run_ready();
        while let Some(deadline) = executor.next_deadline().filter(|deadline| *deadline <= end) {
            if self.world.is_stopped() {
                return;
            }
            executor.move_clock(deadline);
            self.world.run_ready();
        }
        executor.move_clock(end);
    }

    /// Sets how much virtual time [`ScriptRuntime::block_on`] lets pass; an hour at first.
    pub fn set_patience(&self, patience: Duration) {
        self.world.patience.set(patience);
    }

    /// Virtual time since the world began.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.world.executor.elapsed()
    }

    /// Makes the host's clock jump: it says `now_ms` now and goes on from there. [`Runtime::now`] doesn't jump.
    pub fn set_wall_clock_ms(&self, now_ms: i64) {
        self.world.wall_clock_began_ms.set(now_ms - millis(self.elapsed()));
    }

    /// How many tasks have not ended.
    #[must_use]
    pub fn task_count(&self) -> usize {
        self.world.executor.task_count()
    }

    /// Stops the world for good and drops its tasks, and with them their files, locks and connections.
    pub fn end(&self) {
        self.world.plan.borrow_mut().stopped = true;
        self.world.executor.end();
        let in_flight = std::mem::take(&mut self.world.plan.borrow_mut().in_flight);
        // Dropped without the borrow: results may own files.
        drop(in_flight);
    }
}

impl Runtime for ScriptRuntime {
    type Buffer = ScriptBuffer;
    type File = ScriptFile;
    type Mapping = ScriptMapping;
    type Lock = ScriptLock;
    type Stream = ScriptStream;
    type Listener = ScriptListener;

    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.world.executor.spawn(task);
    }

    fn now(&self) -> Instant {
        self.world.began + self.world.executor.elapsed()
    }

    fn wall_clock_ms(&self) -> i64 {
        self.world.wall_clock_began_ms.get() + millis(self.world.executor.elapsed())
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> {
        let deadline = self.world.executor.elapsed() + duration;
        Sleep { world: Rc::clone(&self.world), deadline, timer: None }
    }

    async fn yield_now(&self) {
        let executor = &self.world.executor;
        let generation = executor.generation_after_ready();
        poll_fn(|context| {
            if executor.generation() >= generation {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    fn allocate(&self, len: usize) -> ScriptBuffer {
        ScriptBuffer::new(len)
    }

    async fn open(&self, path: &Path, access: Access) -> io::Result<ScriptFile> {
        let path = absolute(path);
        let named = path.clone();
        let query = move |world: &Rc<World>| ScriptFile::open(world, path, access);
        self.world.query((Kind::Open, named, 0, 0), query).await
    }

    async fn create(&self, path: &Path, len: u64, space: Space) -> io::Result<()> {
        let path = absolute(path);
        let draft = (Kind::Create, path.clone(), 0, len);
        self.world.change(draft, Effect::Create { path, len, space }).await.map(drop)
    }

    async fn write_file(&self, path: &Path, bytes: Vec<u8>) -> io::Result<()> {
        let path = absolute(path);
        let draft = (Kind::WriteFile, path.clone(), 0, bytes.len() as u64);
        self.world.change(draft, Effect::WriteFile { path, bytes }).await.map(drop)
    }

    async fn read_file(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        let path = absolute(path);
        let named = path.clone();
        let query = move |world: &Rc<World>| world.disk.borrow().read_file(&path);
        self.world.query((Kind::ReadFile, named, 0, 0), query).await
    }

    async fn rename(&self, source: &Path, target: &Path) -> io::Result<()> {
        let (source, target) = (absolute(source), absolute(target));
        let draft = (Kind::Rename, source.clone(), 0, 0);
        self.world.change(draft, Effect::Rename { source, target }).await.map(drop)
    }

    async fn hard_link(&self, source: &Path, target: &Path) -> io::Result<()> {
        let (source, target) = (absolute(source), absolute(target));
        let draft = (Kind::HardLink, source.clone(), 0, 0);
        self.world.change(draft, Effect::HardLink { source, target }).await.map(drop)
    }

    async fn remove(&self, path: &Path) -> io::Result<()> {
        let path = absolute(path);
        let draft = (Kind::Remove, path.clone(), 0, 0);
        self.world.change(draft, Effect::Remove { path }).await.map(drop)
    }

    async fn create_directory(&self, path: &Path) -> io::Result<()> {
        let path = absolute(path);
        let draft = (Kind::CreateDirectory, path.clone(), 0, 0);
        self.world.change(draft, Effect::CreateDirectory { path }).await.map(drop)
    }

    async fn list(&self, path: &Path) -> io::Result<Option<Vec<DirectoryEntry>>> {
        let path = absolute(path);
        let named = path.clone();
        let query = move |world: &Rc<World>| world.disk.borrow().list(&path);
        self.world.query((Kind::List, named, 0, 0), query).await
    }

    async fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let path = absolute(path);
        let end = self.world.disk.borrow().name_changes_end();
        let draft = (Kind::SyncDirectory, path.clone(), 0, 0);
        self.world.change(draft, Effect::SyncDirectory { path, end }).await.map(drop)
    }

    async fn lock(&self, path: &Path) -> io::Result<ScriptLock> {
        let path = absolute(path);
        let draft = (Kind::Lock, path.clone(), 0, 0);
        let effect = Rc::new(Effect::Lock { path: path.clone() });
        let created = Rc::clone(&effect);
        let work = move |world: &Rc<World>, limit| {
            world.disk.borrow_mut().apply(&created, limit)?;
            ScriptLock::take(world, &path)
        };
        self.world.submit(draft, Some(effect), work).await
    }

    async fn map(&self, path: &Path) -> io::Result<ScriptMapping> {
        let path = absolute(path);
        let named = path.clone();
        let query = move |world: &Rc<World>| ScriptMapping::new(world, &path);
        self.world.query((Kind::Map, named, 0, 0), query).await
    }

    async fn disk_space(&self, path: &Path) -> io::Result<DiskSpace> {
        let path = absolute(path);
        let named = path.clone();
        let query = move |world: &Rc<World>| world.disk.borrow().space_at(&path);
        self.world.query((Kind::DiskSpace, named, 0, 0), query).await
    }

    fn listen(&self, address: SocketAddr) -> io::Result<ScriptListener> {
        ScriptListener::new(&self.world, address)
    }

    /// Numbers only: the scripted world has no names.
    async fn resolve(&self, name: &str) -> io::Result<SocketAddr> {
        name.parse().map_err(|_| io::Error::new(io::ErrorKind::NotFound, "no such name"))
    }

    async fn connect(&self, address: SocketAddr, timeout: Duration) -> io::Result<ScriptStream> {
        match self.net().open(address)? {
            Some(stream) => Ok(stream),
            None => {
                self.sleep(timeout).await;
                Err(io::ErrorKind::TimedOut.into())
            }
        }
    }
}
