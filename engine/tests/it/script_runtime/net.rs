//! Listeners and streams.

use std::{
    cell::{Cell, RefCell},
    io,
    net::SocketAddr,
    rc::Rc,
    time::Duration,
};

use engine::io::{
    Listener, Runtime, Stream,
    script::{Client, ScriptRuntime, ScriptStream},
};

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// A world that listens on a port of its own; `serve` gets each connection.
fn serving<F: Future<Output = ()> + 'static>(
    serve: impl Fn(ScriptRuntime, ScriptStream) -> F + 'static,
) -> (ScriptRuntime, SocketAddr) {
    let runtime = ScriptRuntime::new(3);
    let listener = runtime.listen(address("127.0.0.1:0")).unwrap();
    let at = listener.local_address();
    let world = runtime.clone();
    runtime.spawn(async move {
        loop {
            let stream = listener.accept().await.unwrap();
            world.spawn(serve(world.clone(), stream));
        }
    });
    (runtime, at)
}

/// Sends back what it receives, until the end of the stream; an error ends it too.
async fn echo(stream: ScriptStream) -> io::Result<()> {
    let mut room = [0; 100];
    loop {
        stream.readable().await?;
        let count = match stream.try_receive(&mut room) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            other => other?,
        };
        if count == 0 {
            return Ok(());
        }
        let mut sent = 0;
        while sent < count {
            match stream.try_send(&room[sent..count]) {
                Ok(some) => sent += some,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => stream.writable().await?,
                Err(error) => return Err(error),
            }
        }
    }
}

async fn echo_quietly(_: ScriptRuntime, stream: ScriptStream) {
    // Peers that go away are what these tests are about.
    drop(echo(stream).await);
}

/// An echo server's last result.
type Ended = Rc<RefCell<Option<io::Result<()>>>>;

fn echo_with_end() -> (ScriptRuntime, Client, Ended) {
    let ended = Ended::default();
    let note = Rc::clone(&ended);
    let (runtime, at) = serving(move |_, stream| {
        let note = Rc::clone(&note);
        async move {
            let result = echo(stream).await;
            *note.borrow_mut() = Some(result);
        }
    });
    let client = runtime.net().connect(at).unwrap();
    (runtime, client, ended)
}

#[test]
fn what_is_sent_arrives_in_order_whatever_the_buffers() {
    for socket_buffer_bytes in [1, 7, 1000, 1 << 20] {
        let (runtime, at) = serving(echo_quietly);
        runtime.net().set_socket_buffer_bytes(socket_buffer_bytes);
        let client = runtime.net().connect(at).unwrap();
        let bytes: Vec<u8> = (0..255).collect();
        // Never more than a bufferful on its way: an echo that can't answer doesn't read on.
        for half in bytes.chunks(socket_buffer_bytes.min(50)) {
            client.send(half).unwrap();
            assert_eq!(client.receive(half.len()).unwrap(), half);
        }
        assert!(client.receive_some().unwrap().is_empty());
    }
}

#[test]
fn half_a_frame_waits_for_the_other_half() {
    let (runtime, at) = serving(|_, stream| async move {
        let mut frame = Vec::new();
        while frame.len() < 8 {
            stream.readable().await.unwrap();
            let mut room = [0; 8];
            let count = stream.try_receive(&mut room).unwrap();
            frame.extend_from_slice(&room[..count]);
        }
        stream.try_send(b"whole").unwrap();
    });
    let client = runtime.net().connect(at).unwrap();
    client.send(b"1234").unwrap();
    assert!(client.receive_some().unwrap().is_empty());
    assert_eq!(client.unread_by_peer(), 0);
    client.send(b"5678").unwrap();
    assert_eq!(client.receive(5).unwrap(), b"whole");
}

#[test]
fn a_peer_that_never_reads_fills_its_buffer_and_stops_the_sender() {
    let sent = Rc::new(Cell::new(0));
    let count = Rc::clone(&sent);
    let (runtime, at) = serving(move |_, stream| {
        let count = Rc::clone(&count);
        async move {
            loop {
                match stream.try_send(&[1; 100]) {
                    Ok(some) => count.set(count.get() + some),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        stream.writable().await.unwrap()
                    }
                    Err(_) => return,
                }
            }
        }
    });
    runtime.net().set_socket_buffer_bytes(1000);
    let client = runtime.net().connect(at).unwrap();
    runtime.run_until_idle();
    assert_eq!(sent.get(), 1000);
    assert_eq!(client.receive(150).unwrap(), [1; 150]);
    runtime.run_until_idle();
    assert_eq!(sent.get(), 1150);
}

#[test]
fn a_server_that_never_reads_takes_a_bufferful() {
    let (runtime, at) = serving(|_, stream| async move {
        std::future::pending::<()>().await;
        drop(stream);
    });
    runtime.net().set_socket_buffer_bytes(10);
    let client = runtime.net().connect(at).unwrap();
    assert_eq!(client.send_some(&[0; 25]).unwrap(), 10);
    assert_eq!(client.send_some(&[0; 15]).unwrap(), 0);
    assert_eq!(client.unread_by_peer(), 10);
    assert_eq!(client.send(&[0; 15]).unwrap_err().kind(), io::ErrorKind::TimedOut);
}

#[test]
fn a_closed_connection_ends_the_stream() {
    let (runtime, client, ended) = echo_with_end();
    client.send(b"bye").unwrap();
    client.finish();
    assert_eq!(client.receive(3).unwrap(), b"bye", "what was sent before the end arrives");
    assert!(client.is_ended());
    assert_eq!(client.receive(1).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    assert!(ended.take().is_some_and(|result| result.is_ok()));
    drop((runtime, client));
}

#[test]
fn a_reset_connection_is_an_error_at_the_other_end() {
    let (runtime, client, ended) = echo_with_end();
    runtime.run_until_idle();
    client.reset();
    runtime.run_until_idle();
    assert_eq!(ended.take().unwrap().unwrap_err().kind(), io::ErrorKind::ConnectionReset);
}

#[test]
fn closing_with_bytes_unread_resets() {
    let (runtime, client, ended) = echo_with_end();
    client.send(b"hello").unwrap();
    runtime.run_until_idle();
    drop(client);
    runtime.run_until_idle();
    assert_eq!(ended.take().unwrap().unwrap_err().kind(), io::ErrorKind::ConnectionReset);
}

#[test]
fn sending_to_a_peer_that_has_closed_is_a_broken_pipe() {
    let (runtime, at) = serving(|_, stream| async move { drop(stream) });
    let client = runtime.net().connect(at).unwrap();
    assert!(client.is_ended());
    assert_eq!(client.send(b"x").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
}

#[test]
fn shutting_down_ends_both_directions_and_every_wait() {
    let ends = Rc::new(Cell::new(0));
    let count = Rc::clone(&ends);
    let (runtime, at) = serving(move |world, stream| {
        let (count, stream) = (Rc::clone(&count), Rc::new(stream));
        let reading = Rc::clone(&stream);
        let (read, written) = (Rc::clone(&count), Rc::clone(&count));
        world.spawn(async move {
            reading.readable().await.unwrap();
            assert_eq!(reading.try_receive(&mut [0; 4]).unwrap(), 0);
            read.set(read.get() + 1);
        });
        let writing = Rc::clone(&stream);
        world.spawn(async move {
            writing.try_send(&[1; 8]).unwrap();
            writing.writable().await.unwrap();
            assert_eq!(writing.try_send(&[1]).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
            written.set(written.get() + 1);
        });
        async move {
            world.sleep(Duration::from_millis(5)).await;
            assert_eq!(count.get(), 0, "both directions wait at the same time");
            stream.shut_down();
        }
    });
    runtime.net().set_socket_buffer_bytes(8);
    let client = runtime.net().connect(at).unwrap();
    runtime.advance(Duration::from_millis(10));
    assert_eq!(ends.get(), 2);
    assert_eq!(client.receive(8).unwrap(), [1; 8]);
    assert!(client.is_ended());
}

#[test]
fn addresses_tell_who_is_who() {
    let (runtime, at) = serving(|_, stream| async move {
        stream.try_send(stream.peer_address().to_string().as_bytes()).unwrap();
        stream.try_send(b" ").unwrap();
        stream.try_send(stream.local_address().to_string().as_bytes()).unwrap();
    });
    let [one, two] = [0, 1].map(|_| runtime.net().connect(at).unwrap());
    assert_ne!(one.address(), two.address());
    for client in [one, two] {
        assert_eq!(client.receive_some().unwrap(), format!("{} {at}", client.address()).into_bytes());
    }
}

#[test]
fn a_taken_port_is_refused_until_its_listener_is_gone() {
    let runtime = ScriptRuntime::new(1);
    let first = runtime.listen(address("127.0.0.1:9876")).unwrap();
    for taken in ["127.0.0.1:9876", "0.0.0.0:9876"] {
        assert_eq!(runtime.listen(address(taken)).err().unwrap().kind(), io::ErrorKind::AddrInUse);
    }
    let waiting = runtime.net().connect(address("127.0.0.1:9876")).unwrap();
    drop(first);
    assert_eq!(waiting.receive(1).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    let refused = runtime.net().connect(address("127.0.0.1:9876")).err().unwrap();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    let any = runtime.listen(address("0.0.0.0:9876")).unwrap();
    runtime.net().connect(address("127.0.0.1:9876")).unwrap();
    runtime.block_on(any.accept()).unwrap();
}

#[test]
fn the_world_connects_too_and_a_silent_address_times_out() {
    let (runtime, at) = serving(echo_quietly);
    let second = Duration::from_secs(1);
    let stream = runtime.block_on(runtime.connect(at, second)).unwrap();
    assert_eq!(stream.peer_address(), at);
    runtime.block_on(async {
        stream.try_send(b"hi").unwrap();
        stream.readable().await.unwrap();
    });
    let mut room = [0; 9];
    assert_eq!(stream.try_receive(&mut room).unwrap(), 2);
    runtime.net().silence(at);
    let timed_out = runtime.block_on(runtime.connect(at, second)).err().unwrap();
    assert_eq!(timed_out.kind(), io::ErrorKind::TimedOut);
    assert_eq!(runtime.elapsed(), second);
    runtime.net().unsilence(at);
    runtime.block_on(runtime.connect(at, second)).unwrap();
}
