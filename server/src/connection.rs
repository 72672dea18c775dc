//! Connections: from a listening socket to whole commands, and from answers to the socket.
//!
//! Owns the loops; what a command means is the [`Service`]'s business. Everything of a connection happens on the thread
//! that accepted it. A service is called for one step at a time and never awaits: it leaves answers in the
//! [`table::Connections`], and what could not be sent at once is sent by a writer task of that connection.
//!
//! Back-pressure is by not reading: a connection isn't read from while its service has no room, or while its peer
//! doesn't take its answers, so a slow or silent peer costs its own bounded buffer and nobody else anything.

use std::{cell::RefCell, rc::Rc, time::Duration};

use engine::io::{Listener, Runtime, Stream, event::Broadcast};
use protocol::{Command, Session, frame::FRAME_BYTES_MAX};

pub mod table;

use table::{ConnectionKey, Connections};

/// What became of a command.
pub enum Step {
    /// It was taken: answered, or going to be.
    Done,
    /// It can't be taken at this moment: wait for this, then bring it again.
    Later(Broadcast),
}

/// What answers the commands of connections.
pub trait Service<R: Runtime>: 'static {
    /// The connections it serves.
    fn connections(&mut self) -> &mut Connections<R>;
    /// One command, on the thread that owns the connection.
    fn on_command(&mut self, connection: ConnectionKey, command: &Command<'_>) -> Step;
    /// Everything that was received together has been taken: do what is done once for all of it.
    fn after_commands(&mut self);
    /// The connection is gone.
    fn on_disconnected(&mut self, connection: ConnectionKey);
}

/// A service as its connections share it. Borrowed for one step, never over an await.
pub type Shared<S> = Rc<RefCell<S>>;

/// Least room offered to one receive of a connection whose requests come one by one: there may be many, mostly idle.
const RECEIVE_BYTES_MIN: usize = 8 * 1024;
/// The same once a receive has filled its room: a deep pipeline comes in few calls.
const RECEIVE_BYTES_DEEP: usize = 64 * 1024;
/// How long a port that is in use is waited for, and how often it is tried.
const LISTEN_PATIENCE: Duration = Duration::from_secs(1);
const LISTEN_RETRY: Duration = Duration::from_millis(10);
/// How long accepting rests after the process ran out of descriptors.
const ACCEPT_REST: Duration = Duration::from_millis(100);
/// A command that had to wait is brought again at least this often, whoever forgets to wake it.
const LATER_RETRY: Duration = Duration::from_millis(50);

/// Listens on `address`. Where it is in use this waits a little before it says so: the kernel closes the sockets of a
/// process that was killed with a ring a moment after the process is gone, and a restart must find its port free.
///
/// # Errors
/// Why not.
pub async fn listen<R: Runtime>(runtime: &R, address: std::net::SocketAddr) -> std::io::Result<R::Listener> {
    let until = runtime.now() + LISTEN_PATIENCE;
    loop {
        match runtime.listen(address) {
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && runtime.now() < until => {
                runtime.sleep(LISTEN_RETRY).await;
            }
            outcome => return outcome,
        }
    }
}

/// Accepts connections until `stopped`, and serves each.
pub async fn accept_loop<R: Runtime, S: Service<R>>(
    runtime: R,
    listener: R::Listener,
    service: Shared<S>,
    stopped: engine::io::event::Event,
) {
    let accepting = async {
        let mut is_warned = false;
        loop {
            match listener.accept().await {
                Ok(stream) => {
                    is_warned = false;
                    admit(&runtime, &service, stream);
                }
                // Out of descriptors, or the peer is gone already: the next one may do better.
                Err(error) => {
                    if !std::mem::replace(&mut is_warned, true) {
                        let address = listener.local_address();
                        crate::log::warn(&format!(
                            "cannot accept connections on {address}: {error}; trying again"
                        ));
                    }
                    runtime.sleep(ACCEPT_REST).await;
                }
            }
        }
    };
    engine::io::event::first(accepting, stopped.wait()).await;
}

fn admit<R: Runtime, S: Service<R>>(runtime: &R, service: &Shared<S>, stream: R::Stream) {
    let stream = Rc::new(stream);
    let Some(key) = service.borrow_mut().connections().open(Rc::clone(&stream)) else {
        // Full: closing is the clearest answer that costs nothing; it is counted.
        stream.shut_down();
        return;
    };
    let (runtime, service) = (runtime.clone(), Rc::clone(service));
    runtime.clone().spawn(async move {
        read_loop(&runtime, &service, key, &stream).await;
        stream.shut_down();
        let mut service = service.borrow_mut();
        service.on_disconnected(key);
        service.connections().close(key);
        service.after_commands();
        send_dirty(&runtime, service.connections());
    });
}

/// Reads and serves one connection until it ends.
async fn read_loop<R: Runtime, S: Service<R>>(
    runtime: &R,
    service: &Shared<S>,
    key: ConnectionKey,
    stream: &Rc<R::Stream>,
) {
    let mut session = Session::new(FRAME_BYTES_MAX);
    let mut room_bytes = RECEIVE_BYTES_MIN;
    loop {
        if stream.readable().await.is_err() {
            return;
        }
        loop {
            let room = session.receive_room(room_bytes);
            let room_len = room.len();
            let received = match stream.try_receive(room) {
                Ok(0) => return,
                Ok(received) => received,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(_) => return,
            };
            session.on_received(received);
            if !serve_received(runtime, service, key, &mut session).await {
                return;
            }
            if received < room_len {
                // The socket is empty by now: another call would only say so.
                break;
            }
            room_bytes = RECEIVE_BYTES_DEEP;
            runtime.yield_now().await;
        }
    }
}

/// Takes every whole command received so far. `false` when the connection is to be closed.
async fn serve_received<R: Runtime, S: Service<R>>(
    runtime: &R,
    service: &Shared<S>,
    key: ConnectionKey,
    session: &mut Session,
) -> bool {
    loop {
        let command = match session.poll_command() {
            Ok(Some(command)) => command,
            Ok(None) => break,
            Err(error) => {
                service.borrow_mut().connections().on_malformed(key, &error);
                return false;
            }
        };
        loop {
            let step = service.borrow_mut().on_command(key, &command);
            let Step::Later(wake) = step else { break };
            finish_batch(runtime, service);
            engine::io::event::first(wake.wait(), runtime.sleep(LATER_RETRY)).await;
            if !service.borrow_mut().connections().is_open(key) {
                return false;
            }
        }
        // One receive may hold many requests with large answers: the bound is kept after each.
        if service.borrow_mut().connections().is_full(key) && !wait_for_peer(runtime, service, key).await {
            return false;
        }
    }
    finish_batch(runtime, service);
    wait_for_peer(runtime, service, key).await
}

/// Waits until the peer has taken enough of its answers: until then no more of its requests are taken. `false` when the
/// connection is to be closed.
async fn wait_for_peer<R: Runtime, S: Service<R>>(
    runtime: &R,
    service: &Shared<S>,
    key: ConnectionKey,
) -> bool {
    loop {
        let drained = {
            let mut service = service.borrow_mut();
            if !service.connections().is_open(key) {
                return false;
            }
            if service.connections().is_full(key) {
                send_dirty(runtime, service.connections());
            }
            service.connections().wait_if_full(key)
        };
        match drained {
            None => return true,
            Some(drained) => drained.wait().await,
        }
    }
}

fn finish_batch<R: Runtime, S: Service<R>>(runtime: &R, service: &Shared<S>) {
    let mut service = service.borrow_mut();
    service.after_commands();
    send_dirty(runtime, service.connections());
}

/// Sends what waits on connections that have new answers; hands the rest to writer tasks.
pub fn send_dirty<R: Runtime>(runtime: &R, connections: &mut Connections<R>) {
    while let Some(key) = connections.next_dirty() {
        if let Some(writer) = connections.send(key) {
            runtime.spawn(writer);
        }
    }
}
