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

use std::{
    cell::{Cell, RefCell},
    future::{Future, poll_fn},
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    pin::{Pin, pin},
    rc::Rc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use super::{Access, DirectoryEntry, DiskSpace, Runtime, Space};
use disk::{Disk, Effect, absolute, errno};
use executor::{Executor, Ready, Timer, TimerKey};
use net::Net;
use plan::{Outcome, PlanState, When, Work};

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

/// Everything there is; tasks, files and streams point to it.
struct World {
    seed: u64,
    executor: Executor,
    plan: RefCell<PlanState>,
    disk: RefCell<Disk>,
    net: RefCell<Net>,
    began: Instant,
    wall_clock_began_ms: Cell<i64>,
    patience: Cell<Duration>,
    running: Cell<bool>,
}

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

/// Ends `running` when dropped, also by a panic.
struct Running<'a>(&'a Cell<bool>);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// What names an operation: its kind, path, position and length.
type Draft = (Kind, PathBuf, u64, u64);

impl World {
    fn is_stopped(&self) -> bool {
        self.plan.borrow().stopped
    }

    fn start_running(&self) -> Running<'_> {
        assert!(!self.running.replace(true), "a task can't run the world it runs in");
        Running(&self.running)
    }

    fn run_ready(self: &Rc<World>) {
        while !self.is_stopped() {
            match self.executor.next_ready() {
                Some(ready) => self.run(ready),
                None => return,
            }
        }
    }

    fn run(self: &Rc<World>, ready: Ready) {
        match ready {
            Ready::Task(waker) => self.executor.poll(&waker),
            Ready::Operation(sequence) => self.complete(sequence),
        }
    }

    /// A new process on `disk`, at the same time.
    fn reborn(&self, disk: Disk) -> ScriptRuntime {
        let elapsed = self.executor.elapsed();
        let wall_clock_ms = self.wall_clock_began_ms.get() + millis(elapsed);
        ScriptRuntime::with(self.seed.wrapping_add(1), disk, self.began + elapsed, wall_clock_ms)
    }

    /// An operation that changes the disk by `effect`; gives the bytes written.
    async fn change(self: &Rc<World>, draft: Draft, effect: Effect) -> io::Result<usize> {
        let effect = Rc::new(effect);
        let done = Rc::clone(&effect);
        let work = move |world: &Rc<World>, limit| world.disk.borrow_mut().apply(&done, limit);
        self.submit(draft, Some(effect), work).await
    }

    /// An operation that changes nothing a crash image could show.
    async fn query<T: 'static>(
        self: &Rc<World>,
        draft: Draft,
        query: impl FnOnce(&Rc<World>) -> io::Result<T> + 'static,
    ) -> io::Result<T> {
        self.submit(draft, None, move |world, _| query(world)).await
    }

    /// Submits an operation. `work` is done when it completes, unless it is to fail, and gets the number of bytes it
    /// may write at most.
    fn submit<T: 'static>(
        self: &Rc<World>,
        (kind, path, position, len): Draft,
        effect: Option<Rc<Effect>>,
        work: impl FnOnce(&Rc<World>, usize) -> io::Result<T> + 'static,
    ) -> Completion<T> {
        let slot = Rc::new(RefCell::new(Slot { result: None, waiting: None }));
        let filled = Rc::clone(&slot);
        let failing = effect.clone();
        let target = match effect.as_deref() {
            Some(Effect::Rename { target, .. } | Effect::HardLink { target, .. }) => Some(target.clone()),
            _ => None,
        };
        let work: Work = Box::new(move |world, outcome| {
            let result = match outcome {
                Outcome::Success => work(world, usize::MAX),
                Outcome::Shorten(limit) => {
                    assert!(kind == Kind::Write, "only a write can be short, not {kind:?}");
                    work(world, limit)
                }
                Outcome::Fail { errno: number, dirty } => {
                    if let Some(effect) = failing {
                        world.disk.borrow_mut().fail(&effect, dirty);
                    }
                    Err(errno(number))
                }
            };
            let number = |error: &io::Error| error.raw_os_error().expect("errors of the disk are errnos");
            let summary = result.as_ref().map(|_| ()).map_err(number);
            let waiting = {
                let mut slot = filled.borrow_mut();
                slot.result = Some(result);
                slot.waiting.take()
            };
            if let Some(waker) = waiting {
                waker.wake();
            }
            summary
        });
        let mut plan = self.plan.borrow_mut();
        let sequence = plan.submitted + 1;
        let operation = Operation { sequence, kind, path, target, position, len };
        match plan.submit(operation, effect, work) {
            When::Soon => self.executor.queue_operation(sequence),
            When::After(duration) => {
                self.executor.add_timer(self.executor.elapsed() + duration, Timer::Complete(sequence));
            }
            When::Held => {}
        }
        Completion { slot }
    }

    fn complete(self: &Rc<World>, sequence: u64) {
        // Gone when the world ended meanwhile.
        let Some(flight) = self.plan.borrow_mut().in_flight.remove(&sequence) else { return };
        let result = (flight.work)(self, flight.outcome);
        self.plan.borrow_mut().log.push(Done { operation: flight.operation, result });
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).expect("virtual time is short")
}

struct Slot<T> {
    result: Option<io::Result<T>>,
    waiting: Option<Waker>,
}

/// Waits for an operation. Dropping it changes nothing about the operation.
struct Completion<T> {
    slot: Rc<RefCell<Slot<T>>>,
}

impl<T> Future for Completion<T> {
    type Output = io::Result<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        let mut slot = self.slot.borrow_mut();
        if let Some(result) = slot.result.take() {
            return Poll::Ready(result);
        }
        slot.waiting = Some(context.waker().clone());
        Poll::Pending
    }
}

/// Waits for a moment. Dropping it takes its timer away, so that nobody moves the clock for it.
struct Sleep {
    world: Rc<World>,
    deadline: Duration,
    timer: Option<TimerKey>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if let Some(timer) = self.timer.take() {
            self.world.executor.remove_timer(timer);
        }
        if self.deadline <= self.world.executor.elapsed() {
            return Poll::Ready(());
        }
        self.timer = Some(self.world.executor.add_timer(self.deadline, Timer::Wake(context.waker().clone())));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer.take() {
            self.world.executor.remove_timer(timer);
        }
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
