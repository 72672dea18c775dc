//! Sockets: non-blocking system calls, and the ring to wait for readiness.
//!
//! Receiving first tries the call and waits only when there is nothing, so a busy connection costs no round trip
//! through the ring. Streams are waited for together ([`super::readiness`]), the listener by the executor's own poll
//! operation. Neither holds a buffer: dropping a wait loses nothing.

use std::{
    io,
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
};

use glommio::io::PollableFd;
use rustix::net::{RecvFlags, SendFlags};
use socket2::{Domain, Protocol, Socket, Type};

use super::readiness::{Readiness, Watched};
use crate::io::{Listener, Stream};

/// Connections that may wait to be accepted; the kernel lowers it to its own limit.
const BACKLOG: i32 = 4096;

/// A listening socket.
pub struct RingListener {
    socket: PollableFd<TcpListener>,
    address: SocketAddr,
    readiness: Readiness,
}

impl RingListener {
    /// Binds with SO_REUSEADDR, so that a restart after kill -9 with open connections binds at once, and without
    /// SO_REUSEPORT, with which a second server would start on the same port and take clients away.
    pub(super) fn bind(address: SocketAddr, readiness: Readiness) -> io::Result<RingListener> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        let listener = TcpListener::from(socket);
        let address = listener.local_addr()?;
        Ok(RingListener { socket: PollableFd::new(listener)?, address, readiness })
    }
}

impl Listener for RingListener {
    type Stream = RingStream;

    async fn accept(&self) -> io::Result<RingStream> {
        loop {
            match self.socket.get_ref().accept() {
                Ok((stream, _)) => return RingStream::new(stream, &self.readiness),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.socket.readable().await?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn local_address(&self) -> SocketAddr {
        self.address
    }
}

/// A connected socket.
pub struct RingStream {
    /// Dropped before the socket.
    watched: Watched,
    socket: TcpStream,
    local_address: SocketAddr,
    peer_address: SocketAddr,
}

impl RingStream {
    pub(super) fn new(stream: TcpStream, readiness: &Readiness) -> io::Result<RingStream> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let (local_address, peer_address) = (stream.local_addr()?, stream.peer_addr()?);
        Ok(RingStream { watched: readiness.watch(&stream)?, socket: stream, local_address, peer_address })
    }
}

impl Stream for RingStream {
    fn try_receive(&self, room: &mut [u8]) -> io::Result<usize> {
        let (received, _) = rustix::net::recv(&self.socket, room, RecvFlags::DONTWAIT)?;
        Ok(received)
    }

    async fn readable(&self) -> io::Result<()> {
        self.watched.readable().await;
        Ok(())
    }

    fn try_send(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(&self.socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?)
    }

    async fn writable(&self) -> io::Result<()> {
        self.watched.writable().await;
        Ok(())
    }

    fn shut_down(&self) {
        // Fails only when the peer is already gone, which is what is wanted.
        let _gone = self.socket.shutdown(Shutdown::Both);
    }

    fn peer_address(&self) -> SocketAddr {
        self.peer_address
    }

    fn local_address(&self) -> SocketAddr {
        self.local_address
    }
}
