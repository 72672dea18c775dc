//! Peers that are broken or malicious, against a real process: its memory stays bounded and others are served.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    process::Command,
    time::{Duration, Instant},
};

use crate::{
    ask,
    process::{Process, Server, has_program, say, scratch, serve},
    wire::{PATIENCE, TcpPeer},
};

/// Longest that a well-behaved client may wait meanwhile, on a machine that runs other tests too.
const SERVED_WITHIN: Duration = Duration::from_millis(1_000);

/// Sends and pulls one message each; how long that took.
fn serve_somebody(peer: &mut TcpPeer) -> Duration {
    let began = Instant::now();
    let offset = peer.call(&ask::send("Other", "", "m")).expect_code(0).int("queueOffset");
    peer.call(&ask::pull("Other", 0, offset)).expect_code(0);
    began.elapsed()
}

fn stream(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the server listens");
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Whether the server ends the connection, by an end or a reset.
fn is_ended_by_server(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0; 64]) {
        Ok(received) => received == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn garbage_is_refused_and_half_frames_cost_what_has_arrived() {
    let (_scratch, data) = scratch();
    let server = Server::start(&data);
    let address = server.brokers[0].1;
    let mut somebody = server.connect();
    serve_somebody(&mut somebody);
    let before = server.process.memory_kb("VmRSS");
    // Length words of 17 MiB, and bytes that are no frame: closed at once, and said.
    let mut malformed = Vec::new();
    let mut state = 1_u64;
    for number in 0..50 {
        let mut bad = stream(address);
        let mut bytes = vec![0; 4096];
        for byte in &mut bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = u8::try_from(state >> 56).unwrap();
        }
        // The length word decides: too long, or a short frame whose header is noise.
        let length: u32 = if number % 2 == 0 { 17 << 20 } else { 1_000 };
        bytes[..4].copy_from_slice(&length.to_be_bytes());
        bad.write_all(&bytes).unwrap();
        malformed.push(bad);
    }
    for bad in &mut malformed {
        assert!(is_ended_by_server(bad), "garbage keeps its connection");
    }
    server.process.wait_for_log("closing the connection from 127.0.0.1:");
    // 200 frames that claim 16 MiB and bring 1 KiB: nobody reserves what is only claimed.
    let half: Vec<TcpStream> = (0..200)
        .map(|_| {
            let mut half = stream(address);
            let mut bytes = vec![b' '; 1_024];
            bytes[..4].copy_from_slice(&(16_u32 << 20).to_be_bytes());
            bytes[4..8].copy_from_slice(&200_u32.to_be_bytes());
            half.write_all(&bytes).unwrap();
            half
        })
        .collect();
    let took = serve_somebody(&mut somebody);
    assert!(took < SERVED_WITHIN, "{took:?}");
    let grown = server.process.memory_kb("VmRSS").saturating_sub(before);
    assert!(grown < 48 << 10, "{grown} kB more for 200 half frames");
    drop(half);
}

#[test]
fn ten_thousand_idle_connections_cost_little_memory_and_nobody_time() {
    let (_scratch, data) = scratch();
    // Each connection takes a descriptor here and one there; the child inherits the limit.
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let allowed = limit.maximum.unwrap_or(u64::MAX).min(1 << 20);
    let raised = rustix::process::Rlimit { current: Some(allowed), maximum: limit.maximum };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).expect("up to the hard limit");
    let count = usize::try_from(allowed.saturating_sub(1_000).min(10_000)).unwrap();
    if count < 10_000 {
        say(&format!("only {count} connections: this user may not open more files"));
    }
    let server = Server::start(&data);
    let address = server.brokers[0].1;
    let mut somebody = server.connect();
    serve_somebody(&mut somebody);
    let before = server.process.memory_kb("VmRSS");
    let mut idle: Vec<TcpPeer> = Vec::with_capacity(count);
    let question = ask::query_offset("G", "Other", 0);
    for number in 0..count {
        let mut peer = TcpPeer::connect(address);
        // Half of them have said something once.
        if number % 2 == 0 {
            peer.call(&question);
        }
        idle.push(peer);
    }
    let open = |peer: &mut TcpPeer| {
        let info = peer.call(&ask::runtime_info()).expect_code(0);
        let table = protocol::body::kv::KvTable::from_json(&info.body).unwrap().table;
        table["ringmq.connections.open"].parse::<usize>().unwrap()
    };
    let until = Instant::now() + PATIENCE;
    while open(&mut somebody) < count {
        assert!(Instant::now() < until, "{} of {count} were accepted", open(&mut somebody));
    }
    let per_connection = server.process.memory_kb("VmRSS").saturating_sub(before) * 1024 / count as u64;
    assert!(per_connection < 16 << 10, "{per_connection} bytes each");
    let took = serve_somebody(&mut somebody);
    assert!(took < SERVED_WITHIN, "{took:?}");
    // None was dropped meanwhile.
    let last = idle.last_mut().expect("there are some");
    last.call(&question);
}

#[test]
fn a_reader_that_never_reads_and_a_producer_that_never_reads_its_answers() {
    let (_scratch, data) = scratch();
    let limits = ["--set", "maxConnectionMemory=5MiB"];
    let server = Server::start_with(&data, &limits);
    let address = server.brokers[0].1;
    let mut somebody = server.connect();
    for _ in 0..32 {
        somebody.call(&ask::send("T", "", vec![b'x'; 8 << 10])).expect_code(0);
    }
    serve_somebody(&mut somebody);
    let before = server.process.memory_kb("VmRSS");
    // Each asks for answers of 256 KiB, or sends without end, until the server takes no more from it.
    let deaf: Vec<TcpStream> = (0..6)
        .map(|number| {
            let stream = TcpStream::connect(address).unwrap();
            stream.set_nonblocking(true).unwrap();
            let request = if number < 4 { ask::pull("T", 0, 0) } else { ask::send("T", "", "unheard") };
            push_until_full(&stream, &request.frame(1));
            stream
        })
        .collect();
    let mut slowest = Duration::ZERO;
    for _ in 0..20 {
        slowest = slowest.max(serve_somebody(&mut somebody));
    }
    assert!(slowest < SERVED_WITHIN, "{slowest:?}");
    let grown = server.process.memory_kb("VmRSS").saturating_sub(before);
    // 5 MiB each, one answer more, and what vectors keep in reserve.
    assert!(grown < (6 * (2 * 5 + 1)) << 10, "{grown} kB more for 6 peers that don't read");
    drop(deaf);
    // When they are gone their memory is, and the broker goes on.
    serve_somebody(&mut somebody);
}

/// Writes `frame` again and again until the socket has taken nothing for a while.
fn push_until_full(stream: &TcpStream, frame: &[u8]) {
    let mut at = 0;
    let mut stuck_since = None;
    let until = Instant::now() + PATIENCE;
    loop {
        match (&*stream).write(&frame[at..]) {
            Ok(written) => {
                at = (at + written) % frame.len();
                stuck_since = None;
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                let since = *stuck_since.get_or_insert_with(Instant::now);
                if since.elapsed() > Duration::from_millis(300) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(error) => panic!("{error}"),
        }
        assert!(Instant::now() < until, "the server reads for ever from a peer that reads nothing");
    }
}

#[test]
fn clients_cannot_take_the_files_that_the_store_needs() {
    if !has_program("prlimit") {
        return;
    }
    let (_scratch, data) = scratch();
    let typed = serve(&data, &[]);
    let mut command = Command::new("prlimit");
    command.arg("--nofile=700:700").arg(typed.get_program()).args(typed.get_args());
    let server = Server::of(Process::spawn(&mut command));
    server.process.wait_for_log("this process may open 700 files: maxConnections is 350 instead of 16384");
    let mut somebody = server.connect();
    let many: Vec<TcpStream> = (0..800).map(|_| stream(server.brokers[0].1)).collect();
    server.process.wait_for_log("connections were closed as they came: 350 are open");
    // A new topic, a new group, a new file of each.
    somebody.call(&ask::heartbeat("c1", "New", "New")).expect_code(0);
    serve_somebody(&mut somebody);
    drop(many);
    let until = Instant::now() + PATIENCE;
    let mut late = loop {
        let mut late = TcpPeer::connect(server.brokers[0].1);
        late.send(&ask::runtime_info());
        if late.receive().is_ok() {
            break late;
        }
        assert!(Instant::now() < until, "no place becomes free");
    };
    serve_somebody(&mut late);
}
