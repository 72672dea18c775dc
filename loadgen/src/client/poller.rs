//! epoll as the generator needs it: readiness by connection number, timeouts in nanoseconds.

use std::os::fd::{AsFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use crate::error::{Error, Result};

/// One connection's readiness.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ready {
    /// The number given at registration.
    pub(super) number: u64,
    /// Bytes, an end or an error can be read.
    pub(super) readable: bool,
    /// There is room to write.
    pub(super) writable: bool,
}

/// An epoll instance and its event buffer.
pub(super) struct Poller {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

const EVENTS_MAX: usize = 512;

impl Poller {
    pub(super) fn new() -> Result<Poller> {
        let epoll =
            epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|e| Error::os("cannot create an epoll", e))?;
        Ok(Poller { epoll, events: Vec::with_capacity(EVENTS_MAX) })
    }

    /// Watches a socket for reading.
    pub(super) fn add(&self, socket: impl AsFd, number: u64) -> Result<()> {
        epoll::add(&self.epoll, socket, epoll::EventData::new_u64(number), epoll::EventFlags::IN)
            .map_err(|e| Error::os("cannot watch a connection", e))
    }

    /// Watches for room to write too, or no longer.
    pub(super) fn watch_writes(&self, socket: impl AsFd, number: u64, writes: bool) -> Result<()> {
        let flags =
            if writes { epoll::EventFlags::IN | epoll::EventFlags::OUT } else { epoll::EventFlags::IN };
        epoll::modify(&self.epoll, socket, epoll::EventData::new_u64(number), flags)
            .map_err(|e| Error::os("cannot watch a connection", e))
    }

    /// Stops watching; a closed socket leaves by itself.
    pub(super) fn remove(&self, socket: impl AsFd) -> Result<()> {
        epoll::delete(&self.epoll, socket).map_err(|e| Error::os("cannot forget a connection", e))
    }

    /// Waits until something is ready or `timeout_ns` has passed.
    pub(super) fn wait(&mut self, timeout_ns: u64) -> Result<()> {
        self.events.clear();
        let timeout = Timespec {
            tv_sec: i64::try_from(timeout_ns / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(timeout_ns % 1_000_000_000).expect("below 10^9"),
        };
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(e) => Err(Error::os("cannot wait for connections", e)),
        }
    }

    /// What the last wait found.
    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    /// One of them.
    pub(super) fn ready(&self, index: usize) -> Ready {
        let event = self.events[index];
        let flags = event.flags;
        Ready {
            number: event.data.u64(),
            readable: flags
                .intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR),
            writable: flags.contains(epoll::EventFlags::OUT),
        }
    }
}
