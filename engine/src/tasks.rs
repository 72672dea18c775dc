//! Tasks that somebody waits for at a stop: how many of them still run.

use std::{cell::Cell, future::Future, rc::Rc, time::Duration};

use crate::{
    io::{Runtime, event::Event},
    stages::wait_or_timeout,
};

/// See the module.
pub struct Tasks<R: Runtime> {
    runtime: R,
    running: Rc<Cell<usize>>,
    ended: Event,
}

impl<R: Runtime> Tasks<R> {
    /// None yet; they will run on `runtime`.
    pub fn new(runtime: R) -> Tasks<R> {
        Tasks { runtime, running: Rc::new(Cell::new(0)), ended: Event::new() }
    }

    /// Runs `task` until it ends.
    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.running.set(self.running.get() + 1);
        let (running, ended) = (Rc::clone(&self.running), self.ended.clone());
        self.runtime.spawn(async move {
            task.await;
            running.set(running.get() - 1);
            ended.set();
        });
    }

    /// How many haven't ended.
    pub fn running(&self) -> usize {
        self.running.get()
    }

    /// Waits until one has ended since the last call, at most for `patience`.
    pub async fn one_ended_or(&self, patience: Duration) {
        wait_or_timeout(&self.runtime, &self.ended, Some(patience)).await;
    }
}
