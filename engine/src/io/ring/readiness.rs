//! Which sockets of an executor are ready: one epoll descriptor for all of them, itself waited for through the ring.
//!
//! A poll operation per socket is completed by an interrupt of the core per packet, whose price was a third of a message
//! at 64 connections. An epoll descriptor collects what becomes ready while the core is at work, and completes one poll
//! for all of it.
//!
//! Sockets are watched edge-triggered from their first moment to their last: a readiness is told once and remembered here
//! until it is waited for. So a reader waits only after the socket gave less than there was room for, or nothing.

use std::{
    cell::{Cell, RefCell},
    io,
    os::fd::{AsFd, OwnedFd},
    rc::Rc,
    task::{Poll, Waker},
};

use glommio::io::PollableFd;
use rustix::{
    buffer::spare_capacity,
    event::{Timespec, epoll},
};

/// Readiness fetched by one call.
const EVENTS_MAX: usize = 256;
const NO_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// The sockets that are watched; a cheap handle.
#[derive(Clone)]
pub(super) struct Readiness {
    shared: Rc<Shared>,
}

struct Shared {
    epoll: PollableFd<OwnedFd>,
    /// Places are used again: an event meant for the previous socket wakes the next one for nothing, once.
    places: RefCell<Vec<Option<Rc<Watch>>>>,
    free: RefCell<Vec<usize>>,
}

/// What is known of one socket.
#[derive(Default)]
struct Watch {
    reading: Side,
    writing: Side,
    /// The peer has ended its half, or the socket is broken: reading will say so, now and always.
    is_ended: Cell<bool>,
}

#[derive(Default)]
struct Side {
    is_ready: Cell<bool>,
    waiting: RefCell<Option<Waker>>,
}

impl Side {
    fn on_ready(&self) {
        self.is_ready.set(true);
        if let Some(waker) = self.waiting.borrow_mut().take() {
            waker.wake();
        }
    }
}

/// A socket's place among those that are watched; given back when dropped.
pub(super) struct Watched {
    readiness: Readiness,
    place: usize,
    watch: Rc<Watch>,
}

impl Readiness {
    /// Watches nothing yet. Runs on the executor that it is made on.
    pub(super) fn start() -> io::Result<Readiness> {
        let epoll = PollableFd::new(epoll::create(epoll::CreateFlags::CLOEXEC)?)?;
        let shared = Rc::new(Shared { epoll, places: RefCell::default(), free: RefCell::default() });
        let readiness = Readiness { shared };
        let driver = readiness.clone();
        glommio::spawn_local(async move { driver.run().await }).detach();
        Ok(readiness)
    }

    /// Watches `socket` until the answer is dropped, which is before the socket is closed.
    pub(super) fn watch(&self, socket: impl AsFd) -> io::Result<Watched> {
        let watch = Rc::new(Watch::default());
        let place = {
            let mut places = self.shared.places.borrow_mut();
            let place = self.shared.free.borrow_mut().pop().unwrap_or_else(|| {
                places.push(None);
                places.len() - 1
            });
            places[place] = Some(Rc::clone(&watch));
            place
        };
        let watched = Watched { readiness: self.clone(), place, watch };
        let flags =
            epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        let data = epoll::EventData::new_u64(place as u64);
        epoll::add(self.shared.epoll.get_ref(), socket, data, flags)?;
        Ok(watched)
    }

    /// Tells the sockets of their readiness, as long as the executor runs.
    async fn run(self) {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        loop {
            if let Err(error) = self.shared.epoll.readable().await {
                // Only a descriptor that isn't ours any more could fail: every socket would wait for ever.
                panic!("the readiness of sockets can't be waited for: {error}");
            }
            loop {
                events.clear();
                let fetched =
                    epoll::wait(self.shared.epoll.get_ref(), spare_capacity(&mut events), Some(&NO_WAIT));
                if fetched.is_err_and(|error| error != rustix::io::Errno::INTR) {
                    panic!("the readiness of sockets can't be fetched");
                }
                for event in &events {
                    self.tell(event);
                }
                if events.len() < EVENTS_MAX {
                    break;
                }
            }
        }
    }

    fn tell(&self, event: &epoll::Event) {
        let place = usize::try_from(event.data.u64()).expect("a place is an index");
        let watch = self.shared.places.borrow().get(place).and_then(Clone::clone);
        let Some(watch) = watch else { return };
        let flags = event.flags;
        let ended = epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
        if flags.intersects(ended) {
            watch.is_ended.set(true);
        }
        if flags.intersects(epoll::EventFlags::IN | ended) {
            watch.reading.on_ready();
        }
        if flags.intersects(epoll::EventFlags::OUT | epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
            watch.writing.on_ready();
        }
    }
}

impl Watched {
    /// Waits until the socket has something to read, its end, or an error.
    pub(super) async fn readable(&self) {
        std::future::poll_fn(|context| {
            if self.watch.reading.is_ready.replace(false) || self.watch.is_ended.get() {
                return Poll::Ready(());
            }
            *self.watch.reading.waiting.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Waits until the socket takes more, or is broken.
    pub(super) async fn writable(&self) {
        std::future::poll_fn(|context| {
            if self.watch.writing.is_ready.replace(false) {
                return Poll::Ready(());
            }
            *self.watch.writing.waiting.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // The kernel forgets the socket itself when it is closed, which follows.
        self.readiness.shared.places.borrow_mut()[self.place] = None;
        self.readiness.shared.free.borrow_mut().push(self.place);
    }
}
