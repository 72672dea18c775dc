//! The connections of one thread: their sockets, what waits to be sent to each, and their bounds.
//!
//! Never receives, never decides what to answer. Keys carry a generation: an answer for a connection that is gone
//! meanwhile reaches nobody, not its successor in the same place.

use std::{cell::RefCell, future::Future, rc::Rc};

use engine::io::{Runtime, Stream, event::Broadcast};

/// Names a connection for as long as the process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionKey(pub u64);

impl ConnectionKey {
    fn new(index: usize, generation: u32) -> ConnectionKey {
        ConnectionKey((u64::from(generation) << 32) | index as u64)
    }

    fn index(self) -> usize {
        usize::try_from(self.0 & 0xFFFF_FFFF).expect("32 bits")
    }

    fn generation(self) -> u32 {
        u32::try_from(self.0 >> 32).expect("32 bits")
    }
}

/// Bounds of the connections of one thread.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// `maxConnections`.
    pub count_max: usize,
    /// Bytes of unsent answers at which a connection is no longer read from.
    pub unsent_bytes_max: usize,
    /// Seconds without anything coming or going after which a connection is closed.
    pub idle_seconds_max: u64,
}

/// Counters; they only grow.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnectionCounters {
    /// Accepted.
    pub opened: u64,
    /// Closed again.
    pub closed: u64,
    /// Turned away, being one too many.
    pub refused: u64,
    /// Closed for bytes that are no command.
    pub malformed: u64,
    /// Closed for saying nothing.
    pub idle: u64,
}

struct Connection<R: Runtime> {
    stream: Rc<R::Stream>,
    outgoing: Rc<RefCell<Outgoing>>,
    drained: Broadcast,
    is_dirty: bool,
    /// Second of the last command or answer.
    active_second: u64,
}

/// Bytes to send: `bytes[sent..]`.
#[derive(Default)]
struct Outgoing {
    bytes: Vec<u8>,
    sent: usize,
    has_writer: bool,
    failed: bool,
}

impl Outgoing {
    fn unsent(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Sends as much as goes now. `false` when some is left.
    fn send_to<S: Stream>(&mut self, stream: &S) -> bool {
        while self.unsent() > 0 && !self.failed {
            match stream.try_send(&self.bytes[self.sent..]) {
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    self.forget_sent();
                    return false;
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => {
                    // The reader learns it too and ends the connection.
                    self.failed = true;
                    stream.shut_down();
                }
            }
        }
        self.bytes.clear();
        self.sent = 0;
        // What one large answer took is given back.
        if self.bytes.capacity() > OUTGOING_RETAINED_BYTES {
            self.bytes.shrink_to(OUTGOING_RETAINED_BYTES);
        }
        true
    }

    /// Drops what was sent, once that is at least as much as what is left: each byte is moved at most once on average,
    /// and a peer that is always a little behind doesn't make the buffer grow.
    fn forget_sent(&mut self) {
        if self.sent >= self.unsent() {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
    }
}

/// Memory that an idle connection keeps for answers.
const OUTGOING_RETAINED_BYTES: usize = 64 * 1024;

struct Slot<R: Runtime> {
    generation: u32,
    connection: Option<Connection<R>>,
}

/// Tells live threads apart for the price of an address: it is checked for every command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadMark(usize);

impl ThreadMark {
    /// The calling thread's.
    #[must_use]
    pub fn here() -> ThreadMark {
        thread_local!(static MARK: u8 = const { 0 });
        MARK.with(|mark| ThreadMark(std::ptr::from_ref(mark).addr()))
    }
}

/// See the module.
pub struct Connections<R: Runtime> {
    slots: Vec<Slot<R>>,
    free: Vec<usize>,
    open_count: usize,
    dirty: Vec<ConnectionKey>,
    limits: ConnectionLimits,
    counters: ConnectionCounters,
    /// Of those refused, how many the log has told of.
    refused_told: u64,
    second: u64,
    owner: ThreadMark,
}

impl<R: Runtime> Connections<R> {
    /// None yet; owned by the calling thread.
    #[must_use]
    pub fn new(limits: ConnectionLimits) -> Connections<R> {
        Connections::owned_by(ThreadMark::here(), limits)
    }

    /// None yet; owned by the thread `owner`, which alone may serve them.
    #[must_use]
    pub fn owned_by(owner: ThreadMark, limits: ConnectionLimits) -> Connections<R> {
        Connections {
            slots: Vec::new(),
            free: Vec::new(),
            open_count: 0,
            dirty: Vec::new(),
            limits,
            counters: ConnectionCounters::default(),
            refused_told: 0,
            second: 0,
            owner,
        }
    }

    /// Takes a new connection; `None` when there are too many.
    pub fn open(&mut self, stream: Rc<R::Stream>) -> Option<ConnectionKey> {
        if self.open_count >= self.limits.count_max {
            self.counters.refused += 1;
            return None;
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, connection: None });
            self.slots.len() - 1
        });
        let slot = &mut self.slots[index];
        slot.connection = Some(Connection {
            stream,
            outgoing: Rc::default(),
            drained: Broadcast::new(),
            is_dirty: false,
            active_second: self.second,
        });
        self.open_count += 1;
        self.counters.opened += 1;
        Some(ConnectionKey::new(index, slot.generation))
    }

    /// Forgets a connection and what was to be sent to it.
    pub fn close(&mut self, key: ConnectionKey) {
        let Some(slot) = self.slots.get_mut(key.index()) else { return };
        if slot.generation != key.generation() {
            return;
        }
        if let Some(connection) = slot.connection.take() {
            connection.stream.shut_down();
            connection.drained.wake_all();
            slot.generation = slot.generation.wrapping_add(1);
            self.free.push(key.index());
            self.open_count -= 1;
            self.counters.closed += 1;
        }
    }

    /// Ends the sockets of all connections; their readers then close them.
    pub fn shut_down_all(&mut self) {
        for slot in &self.slots {
            if let Some(connection) = &slot.connection {
                connection.stream.shut_down();
                connection.drained.wake_all();
            }
        }
    }

    /// Whether the connection is still there.
    #[must_use]
    pub fn is_open(&self, key: ConnectionKey) -> bool {
        self.get(key).is_some()
    }

    /// How many are open.
    #[must_use]
    pub fn len(&self) -> usize {
        self.open_count
    }

    /// Whether none is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.open_count == 0
    }

    /// Whether so much waits to be sent to the peer that nothing more should be made for it.
    #[must_use]
    pub fn is_full(&self, key: ConnectionKey) -> bool {
        self.get(key)
            .is_some_and(|connection| connection.outgoing.borrow().unsent() >= self.limits.unsent_bytes_max)
    }

    /// Memory that answers take, sent or not, over all connections.
    #[must_use]
    pub fn answer_bytes(&self) -> usize {
        let connections = self.slots.iter().filter_map(|slot| slot.connection.as_ref());
        connections.map(|connection| connection.outgoing.borrow().bytes.capacity()).sum()
    }

    /// The other end's address.
    #[must_use]
    pub fn peer_address(&self, key: ConnectionKey) -> Option<std::net::SocketAddr> {
        self.get(key).map(|connection| connection.stream.peer_address())
    }

    /// The counters.
    #[must_use]
    pub fn counters(&self) -> ConnectionCounters {
        self.counters
    }

    /// Asserts that the calling thread is the one that owns these connections: requests never cross cores.
    ///
    /// # Panics
    /// When it isn't.
    pub fn assert_owned_here(&self) {
        let here = ThreadMark::here();
        assert!(self.owner == here, "a connection of {:?} is served on {here:?}: mis-routed", self.owner);
    }

    /// A command of this connection is served.
    pub fn on_activity(&mut self, key: ConnectionKey) {
        let second = self.second;
        if let Some(connection) = self.get_mut(key) {
            connection.active_second = second;
        }
    }

    /// Lets `write` append an answer for the connection, unless it is gone.
    pub fn answer(&mut self, key: ConnectionKey, write: impl FnOnce(&mut Vec<u8>)) {
        let second = self.second;
        let Some(connection) = self.get_mut(key) else { return };
        connection.active_second = second;
        write(&mut connection.outgoing.borrow_mut().bytes);
        if !connection.is_dirty {
            connection.is_dirty = true;
            self.dirty.push(key);
        }
    }

    /// Appends a request of ours (never needed for an answer), unless the peer has too much unsent already.
    pub fn push(&mut self, key: ConnectionKey, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        let is_full = !self.is_open(key) || self.is_full(key);
        if !is_full {
            self.answer(key, write);
        }
        !is_full
    }

    /// A connection with something new to send.
    pub fn next_dirty(&mut self) -> Option<ConnectionKey> {
        self.dirty.pop()
    }

    /// Sends what goes now. What doesn't is sent by the future that is returned, unless one is at it.
    pub fn send(&mut self, key: ConnectionKey) -> Option<impl Future<Output = ()> + use<R>> {
        let connection = self.get_mut(key)?;
        connection.is_dirty = false;
        let mut outgoing = connection.outgoing.borrow_mut();
        if outgoing.has_writer || outgoing.send_to(connection.stream.as_ref()) {
            return None;
        }
        outgoing.has_writer = true;
        drop(outgoing);
        let (stream, outgoing) = (Rc::clone(&connection.stream), Rc::clone(&connection.outgoing));
        Some(write_rest::<R>(stream, outgoing, connection.drained.clone()))
    }

    /// What to wait for before more is read, when the peer doesn't take its answers.
    #[must_use]
    pub fn wait_if_full(&self, key: ConnectionKey) -> Option<Broadcast> {
        let connection = self.get(key)?;
        let outgoing = connection.outgoing.borrow();
        (outgoing.unsent() >= self.limits.unsent_bytes_max && !outgoing.failed)
            .then(|| connection.drained.clone())
    }

    /// The connection sent bytes that are no command; it is going to be closed.
    pub fn on_malformed(&mut self, key: ConnectionKey, error: &protocol::Error) {
        self.counters.malformed += 1;
        let peer = self.peer_address(key).map_or_else(|| "?".to_owned(), |peer| peer.to_string());
        crate::log::warn(&format!("closing the connection from {peer}: {error}"));
    }

    /// A second passed: closes the sockets of those that were idle too long.
    pub fn on_second(&mut self) {
        self.second += 1;
        let refused = self.counters.refused - self.refused_told;
        if refused > 0 {
            self.refused_told = self.counters.refused;
            crate::log::warn(&format!(
                "{refused} connections were closed as they came: {} are open, no more are accepted; see maxConnections",
                self.open_count
            ));
        }
        let Some(limit) = self.second.checked_sub(self.limits.idle_seconds_max) else { return };
        for slot in &self.slots {
            if let Some(connection) = &slot.connection
                && connection.active_second <= limit
            {
                self.counters.idle += 1;
                connection.stream.shut_down();
                connection.drained.wake_all();
            }
        }
    }

    fn get(&self, key: ConnectionKey) -> Option<&Connection<R>> {
        let slot = self.slots.get(key.index())?;
        if slot.generation == key.generation() { slot.connection.as_ref() } else { None }
    }

    fn get_mut(&mut self, key: ConnectionKey) -> Option<&mut Connection<R>> {
        let slot = self.slots.get_mut(key.index())?;
        if slot.generation == key.generation() { slot.connection.as_mut() } else { None }
    }
}

/// Sends the rest as the socket takes it.
async fn write_rest<R: Runtime>(stream: Rc<R::Stream>, outgoing: Rc<RefCell<Outgoing>>, drained: Broadcast) {
    loop {
        if stream.writable().await.is_err() {
            outgoing.borrow_mut().failed = true;
            stream.shut_down();
        }
        if outgoing.borrow_mut().send_to(stream.as_ref()) {
            outgoing.borrow_mut().has_writer = false;
            drained.wake_all();
            return;
        }
    }
}
