//! The network as the test holds it: its settings, and the peer's end of a connection without async.

use std::{future::Future, io, net::SocketAddr, rc::Rc};

use super::ScriptStream;
use crate::io::{
    Stream,
    script::{ScriptRuntime, World},
};

/// The network of a world, for its test.
#[derive(Clone)]
pub struct ScriptNet {
    pub(in crate::io::script) world: Rc<World>,
}

impl ScriptNet {
    /// Sets how many bytes each direction of later connections holds that nobody has read; 64 KiB at first.
    pub fn set_socket_buffer_bytes(&self, bytes: usize) {
        assert!(bytes > 0, "a socket takes at least a byte");
        self.world.net.borrow_mut().socket_buffer_bytes = bytes;
    }

    /// From now on nobody answers at `address`: connecting there times out instead of being refused.
    pub fn silence(&self, address: SocketAddr) {
        self.world.net.borrow_mut().silent.insert(address);
    }

    /// Undoes [`ScriptNet::silence`].
    pub fn unsilence(&self, address: SocketAddr) {
        self.world.net.borrow_mut().silent.remove(&address);
    }

    /// Connects the test to a listener.
    ///
    /// # Errors
    /// `ConnectionRefused` when nobody listens at `address`, `TimedOut` when it is silent.
    pub fn connect(&self, address: SocketAddr) -> io::Result<Client> {
        let stream = self.open(address)?.ok_or(io::ErrorKind::TimedOut)?;
        Ok(Client { runtime: ScriptRuntime { world: Rc::clone(&self.world) }, stream })
    }

    pub(in crate::io::script) fn open(&self, address: SocketAddr) -> io::Result<Option<ScriptStream>> {
        self.world.net.borrow_mut().connect(address)
    }
}

/// The test's end of a connection. Not for use inside tasks: its methods run the world.
pub struct Client {
    runtime: ScriptRuntime,
    stream: ScriptStream,
}

impl Client {
    /// Sends all of `bytes`, running the world until the other end has taken what doesn't fit.
    ///
    /// # Errors
    /// `TimedOut` when the world comes to rest before; what a socket says when the other end is gone.
    pub fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let sent = self.retry(self.stream.try_send(rest), self.stream.writable())?;
            rest = &rest[sent.unwrap_or(0)..];
        }
        Ok(())
    }

    /// Sends what fits of `bytes` without running the world; says how much.
    ///
    /// # Errors
    /// What a socket says when the other end is gone.
    pub fn send_some(&self, bytes: &[u8]) -> io::Result<usize> {
        match self.stream.try_send(bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            other => other,
        }
    }

    /// Receives exactly `len` bytes, running the world (and its clock) until they are there.
    ///
    /// # Errors
    /// `UnexpectedEof` when the stream ends before, `ConnectionReset`, or `TimedOut` when the world comes to rest.
    pub fn receive(&self, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        let mut filled = 0;
        while filled < len {
            let received = self.stream.try_receive(&mut bytes[filled..]);
            match self.retry(received, self.stream.readable())? {
                Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Some(count) => filled += count,
                None => {}
            }
        }
        Ok(bytes)
    }

    /// Runs what is ready in the world, without moving its clock, and receives what is there then.
    ///
    /// # Errors
    /// `ConnectionReset`.
    pub fn receive_some(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        loop {
            self.runtime.run_until_idle();
            let mut room = [0; 4096];
            match self.stream.try_receive(&mut room) {
                Ok(0) => return Ok(bytes),
                Ok(count) => bytes.extend_from_slice(&room[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(bytes),
                Err(error) => return Err(error),
            }
        }
    }

    /// Runs what is ready in the world; whether the other end has ended or torn the stream and nothing is left.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.runtime.run_until_idle();
        let pipe = self.stream.incoming.borrow();
        pipe.bytes.is_empty() && (pipe.reset || pipe.ended)
    }

    /// Bytes on their way to the other end that it hasn't read.
    #[must_use]
    pub fn unread_by_peer(&self) -> usize {
        self.stream.outgoing.borrow().bytes.len()
    }

    /// Says that nothing more will be sent; still receives.
    pub fn finish(&self) {
        let mut outgoing = self.stream.outgoing.borrow_mut();
        outgoing.ended = true;
        outgoing.wake();
    }

    /// Tears the connection: the other end gets `ConnectionReset`. To close it orderly, drop it.
    pub fn reset(self) {
        self.stream.reset();
    }

    /// This end's address, which is the other end's peer address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.stream.local
    }

    /// The result, or `None` after the world ran until it is worth another try.
    fn retry(
        &self,
        result: io::Result<usize>,
        wait: impl Future<Output = io::Result<()>>,
    ) -> io::Result<Option<usize>> {
        match result {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.runtime.try_block_on(wait).ok_or(io::ErrorKind::TimedOut)??;
                Ok(None)
            }
            other => other.map(Some),
        }
    }
}
