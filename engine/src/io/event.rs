//! Waiting for one another on one thread: an event that one task of a shard waits for and others set.
//!
//! Runtime-independent. Not a channel: it carries no data, the state it is about lives in the shard.

use std::{
    cell::{Cell, RefCell},
    future::Future,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker},
};

/// Set by anyone, waited for by one task at a time; a set that nobody waits for is remembered once, so nothing
/// is missed between looking at the state and waiting.
#[derive(Clone, Default)]
pub struct Event {
    state: Rc<State>,
}

#[derive(Default)]
struct State {
    set: Cell<bool>,
    waiting: RefCell<Option<Waker>>,
}

impl Event {
    /// An event that is not set.
    #[must_use]
    pub fn new() -> Event {
        Event::default()
    }

    /// Sets it: the task that waits goes on, or else the next one that would wait does.
    pub fn set(&self) {
        self.state.set.set(true);
        // Taken out first: waking may run code that waits again.
        let waiting = self.state.waiting.borrow_mut().take();
        if let Some(waker) = waiting {
            waker.wake();
        }
    }

    /// Waits until it is set, and clears it.
    pub fn wait(&self) -> Wait<'_> {
        Wait { event: self }
    }
}

/// See [`Event::wait`].
pub struct Wait<'a> {
    event: &'a Event,
}

impl Future for Wait<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let state = &self.event.state;
        if state.set.replace(false) {
            return Poll::Ready(());
        }
        let mut waiting = state.waiting.borrow_mut();
        if !waiting.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            *waiting = Some(context.waker().clone());
        }
        Poll::Pending
    }
}

/// Waits for whichever of two futures ends first; the other one is dropped.
pub async fn first(left: impl Future<Output = ()>, right: impl Future<Output = ()>) {
    let mut left = std::pin::pin!(left);
    let mut right = std::pin::pin!(right);
    std::future::poll_fn(|context| {
        if left.as_mut().poll(context).is_ready() || right.as_mut().poll(context).is_ready() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

/// Wakes every task that waits at that moment. Remembers nothing: look at the state, then wait, in one step.
#[derive(Clone, Default)]
pub struct Broadcast {
    state: Rc<BroadcastState>,
}

#[derive(Default)]
struct BroadcastState {
    round: Cell<u64>,
    waiting: RefCell<Vec<Waker>>,
}

impl Broadcast {
    /// One that nobody waits for.
    #[must_use]
    pub fn new() -> Broadcast {
        Broadcast::default()
    }

    /// Wakes everyone who waits.
    pub fn wake_all(&self) {
        self.state.round.set(self.state.round.get() + 1);
        let waiting = std::mem::take(&mut *self.state.waiting.borrow_mut());
        for waker in waiting {
            waker.wake();
        }
    }

    /// Waits for the next [`Broadcast::wake_all`].
    pub async fn wait(&self) {
        let round = self.state.round.get();
        std::future::poll_fn(|context| {
            if self.state.round.get() != round {
                return Poll::Ready(());
            }
            let mut waiting = self.state.waiting.borrow_mut();
            if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                waiting.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }
}
