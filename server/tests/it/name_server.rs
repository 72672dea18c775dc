//! Brokers and name servers as processes of their own.

use std::{
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
    os::fd::OwnedFd,
    process::Command,
    time::{Duration, Instant},
};

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with};

use crate::{
    ask,
    process::{Process, RINGMQ, Server, scratch},
    wire::{PATIENCE, TcpPeer},
};

/// `ringmq namesrv` on `port`, and its address.
fn name_server(port: u16) -> (Process, SocketAddr) {
    let mut process = Process::spawn(Command::new(RINGMQ).args(["namesrv", "--port", &port.to_string()]));
    let line = process.ready();
    let address = line.strip_prefix("ready namesrv=").expect("it says where").parse().unwrap();
    (process, address)
}

/// A port where connecting is refused, and what keeps it from everybody else.
fn port_that_nobody_listens_on() -> (OwnedFd, u16) {
    // The children must not keep it too.
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = SocketAddrV4::try_from(getsockname(&socket).unwrap()).unwrap();
    (socket, address.port())
}

/// Waits until the code of the route of `topic` is `code`; how long that took.
fn wait_for_route(peer: &mut TcpPeer, topic: &str, code: i32) -> Duration {
    let began = Instant::now();
    while peer.call(&ask::route(topic)).code != code {
        assert!(began.elapsed() < PATIENCE, "{topic} doesn't get {code}");
        std::thread::sleep(Duration::from_millis(1));
    }
    began.elapsed()
}

#[test]
fn a_broker_registers_elsewhere_tells_changes_within_milliseconds_and_says_good_bye() {
    let (_scratch, data) = scratch();
    let (mut names, address) = name_server(0);
    let mut server = Server::start_with(&data, &["--namesrv", &address.to_string()]);
    assert_eq!(server.name_server, None, "no embedded one");
    let mut directory = TcpPeer::connect(address);
    directory.call(&ask::route("TBW102")).expect_code(0);
    let mut peer = server.connect();
    peer.call(&ask::send("Fresh", "", "m")).expect_code(0);
    let took = wait_for_route(&mut directory, "Fresh", 0);
    assert!(took < Duration::from_millis(500), "{took:?}");
    server.process.stop();
    // The good-bye was answered before the process ended.
    directory.call(&ask::route("Fresh")).expect_code(17);
    names.stop();
}

#[test]
fn a_broker_that_is_killed_is_forgotten_when_its_connection_ends() {
    let (_scratch, data) = scratch();
    let (_names, address) = name_server(0);
    let mut server = Server::start_with(&data, &["--namesrv", &address.to_string()]);
    let mut directory = TcpPeer::connect(address);
    directory.call(&ask::route("TBW102")).expect_code(0);
    server.process.kill();
    wait_for_route(&mut directory, "TBW102", 17);
}

#[test]
fn an_unreachable_name_server_is_warned_about_once_and_tried_again() {
    let (_scratch, data) = scratch();
    let (kept_free, port) = port_that_nobody_listens_on();
    let server = Server::start_with(&data, &["--namesrv", &format!("127.0.0.1:{port}")]);
    let mut peer = server.connect();
    peer.call(&ask::send("T", "", "served all the same")).expect_code(0);
    let warning = format!("WARN name server 127.0.0.1:{port}");
    server.process.wait_for_log(&warning);
    drop(kept_free);
    let (mut names, address) = name_server(port);
    let mut directory = TcpPeer::connect(address);
    wait_for_route(&mut directory, "T", 0);
    server.process.wait_for_log("registered");
    assert_eq!(server.process.log().matches(&warning).count(), 1, "{}", server.process.log());
    // It is told again when it comes back without memory.
    names.kill();
    let (_names, address) = name_server(port);
    wait_for_route(&mut TcpPeer::connect(address), "T", 0);
}

#[test]
fn several_name_servers_all_learn_and_one_that_is_down_delays_nobody() {
    let (_scratch, data) = scratch();
    let (_first, first) = name_server(0);
    let (_second, second) = name_server(0);
    let (_kept_free, down) = port_that_nobody_listens_on();
    let list = format!("127.0.0.1:{down};{first};{second}");
    let server = Server::start_with(&data, &["--namesrv", &list]);
    server.connect().call(&ask::send("T", "", "m")).expect_code(0);
    for address in [first, second] {
        let took = wait_for_route(&mut TcpPeer::connect(address), "T", 0);
        assert!(took < Duration::from_millis(500), "{took:?}");
    }
}

#[test]
fn a_stop_is_clean_while_a_name_server_is_being_connected_to() {
    let (_scratch, data) = scratch();
    // Nobody ever answers there: the address is reserved for documentation.
    let mut server = Server::start_with(&data, &["--namesrv", "192.0.2.1:9876"]);
    server.connect().call(&ask::send("T", "", "m")).expect_code(0);
    server.process.stop();
    let log = server.process.log();
    assert!(log.contains("the store is clean") && !log.contains("panicked"), "{log}");
}
