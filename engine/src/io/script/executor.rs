//! Who runs next in a scripted world, and what time it is there. Owns the tasks, the ready queue and the timers;
//! knows nothing of what tasks and operations do, and never looks at the host's clock.
//!
//! What is ready forms a batch; what becomes ready meanwhile forms the next one. A batch runs first in, first
//! out, or in an order drawn from the seed: either way the same seed gives the same run.

use std::{
    cell::RefCell,
    collections::{BTreeMap, VecDeque},
    future::Future,
    mem,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use super::random::Random;

/// Something that can go on.
pub(super) enum Ready {
    /// A task was woken.
    Task(Arc<TaskWaker>),
    /// The operation with this sequence number may complete.
    Operation(u64),
}

/// What a timer does when its time has come.
pub(super) enum Timer {
    Wake(Waker),
    Complete(u64),
}

type Task = Pin<Box<dyn Future<Output = ()>>>;

pub(super) type TimerKey = (Duration, u64);

/// Wakes one task, from any thread because wakers must; everything else stays on one.
pub(super) struct TaskWaker {
    pub(super) id: u64,
    queued: AtomicBool,
    queue: Arc<Mutex<VecDeque<Ready>>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            let queue = Arc::clone(&self.queue);
            queue.lock().expect("nothing panics while it is locked").push_back(Ready::Task(self));
        }
    }
}

pub(super) struct Executor {
    queue: Arc<Mutex<VecDeque<Ready>>>,
    state: RefCell<State>,
}

struct State {
    /// `None` while the task is being polled.
    tasks: BTreeMap<u64, Option<Task>>,
    task_next: u64,
    batch: VecDeque<Ready>,
    generation: u64,
    random: Random,
    shuffled: bool,
    elapsed: Duration,
    turns_since_time_moved: u64,
    timers: BTreeMap<TimerKey, Timer>,
    timer_next: u64,
}

impl Executor {
    pub(super) fn new(seed: u64) -> Executor {
        Executor {
            queue: Arc::default(),
            state: RefCell::new(State {
                tasks: BTreeMap::new(),
                task_next: 0,
                batch: VecDeque::new(),
                generation: 0,
                random: Random::new(seed),
                shuffled: false,
                elapsed: Duration::ZERO,
                turns_since_time_moved: 0,
                timers: BTreeMap::new(),
                timer_next: 0,
            }),
        }
    }

    pub(super) fn set_shuffled(&self, shuffled: bool) {
        self.state.borrow_mut().shuffled = shuffled;
    }

    /// A waker for a task that the caller polls itself when it turns up in the ready queue; it is queued.
    pub(super) fn new_waker(&self) -> Arc<TaskWaker> {
        let mut state = self.state.borrow_mut();
        let id = state.task_next;
        state.task_next += 1;
        let waker =
            Arc::new(TaskWaker { id, queued: AtomicBool::new(false), queue: Arc::clone(&self.queue) });
        Arc::clone(&waker).wake();
        waker
    }

    pub(super) fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        let waker = self.new_waker();
        self.state.borrow_mut().tasks.insert(waker.id, Some(Box::pin(task)));
    }

    pub(super) fn task_count(&self) -> usize {
        self.state.borrow().tasks.len()
    }

    /// Drops every task and timer.
    pub(super) fn end(&self) {
        let (tasks, timers) = {
            let mut state = self.state.borrow_mut();
            (mem::take(&mut state.tasks), mem::take(&mut state.timers))
        };
        // Dropped without the borrow: what tasks own cancels its timers.
        drop((tasks, timers));
    }

    pub(super) fn queue_operation(&self, sequence: u64) {
        self.queue.lock().expect("nothing panics while it is locked").push_back(Ready::Operation(sequence));
    }

    /// Takes what runs next.
    ///
    /// # Panics
    /// When the world spins: ten million turns without time moving on.
    pub(super) fn next_ready(&self) -> Option<Ready> {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        if state.batch.is_empty() {
            state.batch = mem::take(&mut *self.queue.lock().expect("nothing panics while it is locked"));
            state.generation += 1;
            if state.shuffled {
                state.random.shuffle(state.batch.make_contiguous());
            }
        }
        let ready = state.batch.pop_front()?;
        state.turns_since_time_moved += 1;
        assert!(
            state.turns_since_time_moved < TURNS_MAX,
            "tasks spin: {TURNS_MAX} turns and time stands still"
        );
        if let Ready::Task(waker) = &ready {
            waker.queued.store(false, Ordering::Release);
        }
        Some(ready)
    }

    /// Polls a spawned task once; one that has ended meanwhile is left alone.
    pub(super) fn poll(&self, waker: &Arc<TaskWaker>) {
        let Some(slot) = self.state.borrow_mut().tasks.get_mut(&waker.id).map(Option::take) else { return };
        let mut task = slot.expect("a task is polled by one at a time");
        let poll = task.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(waker))));
        match poll {
            Poll::Ready(()) => {
                self.state.borrow_mut().tasks.remove(&waker.id);
            }
            Poll::Pending => {
                // Gone when the task itself ended the world.
                if let Some(slot) = self.state.borrow_mut().tasks.get_mut(&waker.id) {
                    *slot = Some(task);
                }
            }
        }
    }

    /// The generation in which everything that is ready now has run.
    pub(super) fn generation_after_ready(&self) -> u64 {
        let state = self.state.borrow();
        state.generation + if state.shuffled { 2 } else { 1 }
    }

    pub(super) fn generation(&self) -> u64 {
        self.state.borrow().generation
    }

    /// Time since the world began.
    pub(super) fn elapsed(&self) -> Duration {
        self.state.borrow().elapsed
    }

    pub(super) fn add_timer(&self, deadline: Duration, timer: Timer) -> TimerKey {
        let mut state = self.state.borrow_mut();
        let key = (deadline, state.timer_next);
        state.timer_next += 1;
        state.timers.insert(key, timer);
        key
    }

    pub(super) fn remove_timer(&self, key: TimerKey) {
        let timer = self.state.borrow_mut().timers.remove(&key);
        drop(timer);
    }

    pub(super) fn next_deadline(&self) -> Option<Duration> {
        self.state.borrow().timers.keys().next().map(|key| key.0)
    }

    /// Moves the clock forward to `time` and fires what is due then.
    pub(super) fn move_clock(&self, time: Duration) {
        {
            let mut state = self.state.borrow_mut();
            assert!(state.elapsed <= time, "the clock never goes back: {:?} to {time:?}", state.elapsed);
            state.elapsed = time;
            state.turns_since_time_moved = 0;
        }
        loop {
            let timer = {
                let mut state = self.state.borrow_mut();
                match state.timers.first_entry() {
                    Some(first) if first.key().0 <= time => first.remove(),
                    _ => return,
                }
            };
            match timer {
                Timer::Wake(waker) => waker.wake(),
                Timer::Complete(sequence) => self.queue_operation(sequence),
            }
        }
    }
}

/// Far more than a test needs between two moments, and a few seconds of the host's time.
const TURNS_MAX: u64 = 10_000_000;
