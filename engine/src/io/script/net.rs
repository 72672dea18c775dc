//! The scripted network: listeners and streams by address in memory, bytes in order, bounded buffers. No packet is
//! lost; ends that close, reset, never read or never answer are the test's to play, with [`Client`].

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet, VecDeque},
    future::poll_fn,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    rc::Rc,
    task::{Poll, Waker},
};

use super::World;
use crate::io::{Listener, Stream};

pub use client::{Client, ScriptNet};

mod client;

pub(super) struct Net {
    listeners: BTreeMap<SocketAddr, Rc<RefCell<Accepting>>>,
    silent: BTreeSet<SocketAddr>,
    port_next: u16,
    socket_buffer_bytes: usize,
}

/// Connections that wait to be accepted.
#[derive(Default)]
struct Accepting {
    streams: VecDeque<ScriptStream>,
    waiting: Vec<Waker>,
}

/// One direction of a connection.
struct Pipe {
    bytes: VecDeque<u8>,
    capacity: usize,
    /// The writer is done: the end of the stream follows the bytes.
    ended: bool,
    /// The reader is gone: writing is an error.
    unread: bool,
    /// The connection was torn: an error follows the bytes.
    reset: bool,
    readers: Vec<Waker>,
    writers: Vec<Waker>,
}

impl Net {
    pub(super) fn new() -> Net {
        Net {
            listeners: BTreeMap::new(),
            silent: BTreeSet::new(),
            port_next: 40_000,
            socket_buffer_bytes: 64 * 1024,
        }
    }

    fn free_port(&mut self) -> u16 {
        loop {
            let port = self.port_next;
            self.port_next = self.port_next.checked_add(1).expect("a test uses fewer than 25,000 ports");
            if self.listeners.keys().all(|address| address.port() != port) {
                return port;
            }
        }
    }

    fn listen(&mut self, address: SocketAddr) -> io::Result<(SocketAddr, Rc<RefCell<Accepting>>)> {
        let port = if address.port() == 0 { self.free_port() } else { address.port() };
        let address = SocketAddr::new(address.ip(), port);
        let clash = |other: &SocketAddr| {
            other.port() == port
                && (other.ip() == address.ip()
                    || other.ip().is_unspecified()
                    || address.ip().is_unspecified())
        };
        if self.listeners.keys().any(clash) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let accepting = Rc::new(RefCell::default());
        self.listeners.insert(address, Rc::clone(&accepting));
        Ok((address, accepting))
    }

    fn listener(&self, address: SocketAddr) -> Option<Rc<RefCell<Accepting>>> {
        let any = |ip: IpAddr| ip.is_unspecified() && ip.is_ipv4() == address.is_ipv4();
        let answers =
            |at: &SocketAddr| at.port() == address.port() && (at.ip() == address.ip() || any(at.ip()));
        self.listeners.iter().find(|listener| answers(listener.0)).map(|listener| Rc::clone(listener.1))
    }

    /// `None` when nobody would ever answer.
    fn connect(&mut self, address: SocketAddr) -> io::Result<Option<ScriptStream>> {
        if self.silent.contains(&address) {
            return Ok(None);
        }
        let accepting = self.listener(address).ok_or(io::ErrorKind::ConnectionRefused)?;
        let near = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), self.free_port());
        let there = Rc::new(RefCell::new(Pipe::new(self.socket_buffer_bytes)));
        let back = Rc::new(RefCell::new(Pipe::new(self.socket_buffer_bytes)));
        let stream = ScriptStream {
            incoming: Rc::clone(&back),
            outgoing: Rc::clone(&there),
            local: near,
            peer: address,
        };
        let accepted = ScriptStream { incoming: there, outgoing: back, local: address, peer: near };
        let mut accepting = accepting.borrow_mut();
        accepting.streams.push_back(accepted);
        accepting.waiting.drain(..).for_each(Waker::wake);
        Ok(Some(stream))
    }
}

impl Pipe {
    fn new(capacity: usize) -> Pipe {
        Pipe {
            bytes: VecDeque::new(),
            capacity,
            ended: false,
            unread: false,
            reset: false,
            readers: Vec::new(),
            writers: Vec::new(),
        }
    }

    fn wake(&mut self) {
        self.readers.drain(..).for_each(Waker::wake);
        self.writers.drain(..).for_each(Waker::wake);
    }

    fn is_readable(&self) -> bool {
        !self.bytes.is_empty() || self.ended || self.unread || self.reset
    }

    fn is_writable(&self) -> bool {
        self.bytes.len() < self.capacity || self.ended || self.unread || self.reset
    }

    fn receive(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if self.unread {
            return Ok(0);
        }
        if self.bytes.is_empty() && self.reset {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        if self.bytes.is_empty() && !self.ended {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = room.len().min(self.bytes.len());
        for (place, byte) in room.iter_mut().zip(self.bytes.drain(..count)) {
            *place = byte;
        }
        self.writers.drain(..).for_each(Waker::wake);
        Ok(count)
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.reset {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        if self.ended || self.unread {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let count = bytes.len().min(self.capacity - self.bytes.len());
        if count == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.bytes.extend(&bytes[..count]);
        self.readers.drain(..).for_each(Waker::wake);
        Ok(count)
    }
}

/// One end of a connection.
pub struct ScriptStream {
    incoming: Rc<RefCell<Pipe>>,
    outgoing: Rc<RefCell<Pipe>>,
    local: SocketAddr,
    peer: SocketAddr,
}

impl ScriptStream {
    fn reset(&self) {
        for pipe in [&self.incoming, &self.outgoing] {
            let mut pipe = pipe.borrow_mut();
            pipe.reset = true;
            pipe.wake();
        }
    }
}

impl Stream for ScriptStream {
    fn try_receive(&self, room: &mut [u8]) -> io::Result<usize> {
        self.incoming.borrow_mut().receive(room)
    }

    async fn readable(&self) -> io::Result<()> {
        poll_fn(|context| {
            let mut pipe = self.incoming.borrow_mut();
            if pipe.is_readable() {
                return Poll::Ready(Ok(()));
            }
            remember(&mut pipe.readers, context.waker());
            Poll::Pending
        })
        .await
    }

    fn try_send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.outgoing.borrow_mut().send(bytes)
    }

    async fn writable(&self) -> io::Result<()> {
        poll_fn(|context| {
            let mut pipe = self.outgoing.borrow_mut();
            if pipe.is_writable() {
                return Poll::Ready(Ok(()));
            }
            remember(&mut pipe.writers, context.waker());
            Poll::Pending
        })
        .await
    }

    fn shut_down(&self) {
        let mut outgoing = self.outgoing.borrow_mut();
        outgoing.ended = true;
        outgoing.wake();
        drop(outgoing);
        let mut incoming = self.incoming.borrow_mut();
        incoming.unread = true;
        incoming.wake();
    }

    fn peer_address(&self) -> SocketAddr {
        self.peer
    }

    fn local_address(&self) -> SocketAddr {
        self.local
    }
}

impl Drop for ScriptStream {
    /// As the kernel does: closed with bytes unread, the peer sees a reset.
    fn drop(&mut self) {
        let unread = {
            let incoming = self.incoming.borrow();
            !incoming.bytes.is_empty() && !incoming.unread
        };
        if unread {
            self.reset();
        }
        self.shut_down();
    }
}

fn remember(waiting: &mut Vec<Waker>, waker: &Waker) {
    if !waiting.iter().any(|other| other.will_wake(waker)) {
        waiting.push(waker.clone());
    }
}

/// A listening socket of the scripted network; dropping it refuses and resets what waits.
pub struct ScriptListener {
    world: Rc<World>,
    address: SocketAddr,
    accepting: Rc<RefCell<Accepting>>,
}

impl ScriptListener {
    pub(super) fn new(world: &Rc<World>, address: SocketAddr) -> io::Result<ScriptListener> {
        let (address, accepting) = world.net.borrow_mut().listen(address)?;
        Ok(ScriptListener { world: Rc::clone(world), address, accepting })
    }
}

impl Listener for ScriptListener {
    type Stream = ScriptStream;

    async fn accept(&self) -> io::Result<ScriptStream> {
        poll_fn(|context| {
            let mut accepting = self.accepting.borrow_mut();
            match accepting.streams.pop_front() {
                Some(stream) => Poll::Ready(Ok(stream)),
                None => {
                    remember(&mut accepting.waiting, context.waker());
                    Poll::Pending
                }
            }
        })
        .await
    }

    fn local_address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for ScriptListener {
    fn drop(&mut self) {
        self.world.net.borrow_mut().listeners.remove(&self.address);
        for stream in self.accepting.borrow_mut().streams.drain(..) {
            stream.reset();
        }
    }
}
