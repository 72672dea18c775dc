//! Telling every core to stop, from an ordinary thread.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, Waker},
};

/// Set once; every clone sees it.
#[derive(Clone, Default)]
pub struct StopSignal {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    is_set: bool,
    waiting: Vec<Waker>,
}

impl StopSignal {
    /// One that isn't set.
    #[must_use]
    pub fn new() -> StopSignal {
        StopSignal::default()
    }

    /// Sets it and wakes everyone who waits, on whichever core.
    pub fn set(&self) {
        let waiting = {
            let mut state = self.lock();
            state.is_set = true;
            std::mem::take(&mut state.waiting)
        };
        for waker in waiting {
            waker.wake();
        }
    }

    /// Whether it is set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.lock().is_set
    }

    /// Waits until it is set.
    pub fn wait(&self) -> impl Future<Output = ()> + use<> {
        Wait { signal: self.clone() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // A holder that panicked left two plain fields, which are always consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Wait {
    signal: StopSignal,
}

impl Future for Wait {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.signal.lock();
        if state.is_set {
            return Poll::Ready(());
        }
        if !state.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
            state.waiting.push(context.waker().clone());
        }
        Poll::Pending
    }
}
