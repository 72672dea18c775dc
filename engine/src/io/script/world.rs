//! The world itself: what tasks, files and streams share, and how an operation goes from its submission through the
//! plan to its effect on the disk.

use std::{
    cell::{Cell, RefCell},
    future::Future,
    io,
    path::PathBuf,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use super::{
    ScriptRuntime,
    disk::{Disk, Effect, errno},
    executor::{Executor, Ready, Timer, TimerKey},
    net::Net,
    plan::{Done, Kind, Operation, Outcome, PlanState, When, Work},
};

/// Everything there is; tasks, files and streams point to it.
pub(super) struct World {
    pub(super) seed: u64,
    pub(super) executor: Executor,
    pub(super) plan: RefCell<PlanState>,
    pub(super) disk: RefCell<Disk>,
    pub(super) net: RefCell<Net>,
    pub(super) began: Instant,
    pub(super) wall_clock_began_ms: Cell<i64>,
    pub(super) patience: Cell<Duration>,
    pub(super) running: Cell<bool>,
}

/// Ends `running` when dropped, also by a panic.
pub(super) struct Running<'a>(&'a Cell<bool>);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// What names an operation: its kind, path, position and length.
pub(super) type Draft = (Kind, PathBuf, u64, u64);

impl World {
    pub(super) fn is_stopped(&self) -> bool {
        self.plan.borrow().stopped
    }

    pub(super) fn start_running(&self) -> Running<'_> {
        assert!(!self.running.replace(true), "a task can't run the world it runs in");
        Running(&self.running)
    }

    pub(super) fn run_ready(self: &Rc<World>) {
        while !self.is_stopped() {
            match self.executor.next_ready() {
                Some(ready) => self.run(ready),
                None => return,
            }
        }
    }

    pub(super) fn run(self: &Rc<World>, ready: Ready) {
        match ready {
            Ready::Task(waker) => self.executor.poll(&waker),
            Ready::Operation(sequence) => self.complete(sequence),
        }
    }

    /// A new process on `disk`, at the same time.
    pub(super) fn reborn(&self, disk: Disk) -> ScriptRuntime {
        let elapsed = self.executor.elapsed();
        let wall_clock_ms = self.wall_clock_began_ms.get() + millis(elapsed);
        ScriptRuntime::with(self.seed.wrapping_add(1), disk, self.began + elapsed, wall_clock_ms)
    }

    /// An operation that changes the disk by `effect`; gives the bytes written.
    pub(super) async fn change(self: &Rc<World>, draft: Draft, effect: Effect) -> io::Result<usize> {
        let effect = Rc::new(effect);
        let done = Rc::clone(&effect);
        let work = move |world: &Rc<World>, limit| world.disk.borrow_mut().apply(&done, limit);
        self.submit(draft, Some(effect), work).await
    }

    /// An operation that changes nothing a crash image could show.
    pub(super) async fn query<T: 'static>(
        self: &Rc<World>,
        draft: Draft,
        query: impl FnOnce(&Rc<World>) -> io::Result<T> + 'static,
    ) -> io::Result<T> {
        self.submit(draft, None, move |world, _| query(world)).await
    }

    /// Submits an operation. `work` is done when it completes, unless it is to fail, and gets the number of bytes it
    /// may write at most.
    pub(super) fn submit<T: 'static>(
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
                // What the test has chosen to say, whatever came of it.
                Outcome::FailDone(number) => work(world, usize::MAX).and(Err(errno(number))),
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

pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).expect("virtual time is short")
}

struct Slot<T> {
    result: Option<io::Result<T>>,
    waiting: Option<Waker>,
}

/// Waits for an operation. Dropping it changes nothing about the operation.
pub(super) struct Completion<T> {
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
pub(super) struct Sleep {
    pub(super) world: Rc<World>,
    pub(super) deadline: Duration,
    pub(super) timer: Option<TimerKey>,
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
