//! Several shards in one process: brokers of their own, threads where they belong.

use std::{collections::BTreeSet, fs};

use protocol::body::{cluster::ClusterInfo, route::TopicRouteData};

use crate::{
    ask,
    process::{Server, say, scratch},
    wire::{Request, TcpPeer},
};

#[test]
fn two_shards_are_two_brokers_and_each_owns_what_it_is_sent() {
    let (_scratch, data) = scratch();
    let mut server = Server::start_with(&data, &["--shards", "2"]);
    let names: Vec<&str> = server.brokers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["broker-a-0", "broker-a-1"]);
    let mut directory = server.connect_to_names();
    let cluster = directory.call(&Request::new(protocol::code::request::GET_BROKER_CLUSTER_INFO));
    let cluster = ClusterInfo::from_json(&cluster.expect_code(0).body).unwrap();
    assert_eq!(cluster.broker_addr_table.len(), 2);
    for (number, (name, address)) in server.brokers.iter().enumerate() {
        assert_eq!(cluster.broker_addr_table[name].broker_addrs[&0], address.to_string());
        let mut peer = TcpPeer::connect(*address);
        for _ in 0..=number {
            peer.call(&ask::send("T", "", format!("for {name}"))).expect_code(0);
        }
        assert_eq!(peer.call(&ask::max_offset("T", 0)).int("offset"), i64::try_from(number).unwrap() + 1);
    }
    let route = directory.call(&ask::route("T")).expect_code(0);
    let route = TopicRouteData::from_json(&route.body).unwrap();
    assert_eq!((route.broker_datas.len(), route.queue_datas.len()), (2, 2));
    server.process.stop();
    for number in 0..2 {
        let shard = data.join(format!("shard-{number}"));
        assert!(shard.join("commitlog").is_dir() && !shard.join("abort").exists());
    }
    // Started again, auto is what the store was made with.
    let again = Server::start_with(&data, &["--shards", "auto"]);
    assert_eq!(again.brokers.len(), 2);
    let mut second = TcpPeer::connect(again.brokers[1].1);
    assert_eq!(second.call(&ask::max_offset("T", 0)).int("offset"), 2);
}

/// Cpus_allowed_list of every thread of the process, by name.
fn threads(server: &Server) -> Vec<(String, String)> {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.process.pid())).expect("it runs");
    let mut found = Vec::new();
    for task in tasks {
        let path = task.unwrap().path();
        // A thread may end while it is looked at.
        let Ok(status) = fs::read_to_string(path.join("status")) else { continue };
        let field = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).expect("the kernel tells it");
            line.split_once(':').unwrap().1.trim().to_owned()
        };
        found.push((field("Name"), field("Cpus_allowed_list")));
    }
    found
}

fn cores() -> Vec<usize> {
    let set = rustix::thread::sched_getaffinity(None).unwrap();
    (0..rustix::thread::CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect()
}

#[test]
fn only_the_shard_runs_on_its_core() {
    let cores = cores();
    if cores.len() < 2 {
        say("SKIPPED: one core has to do for everything");
        return;
    }
    let (_scratch, data) = scratch();
    let server = Server::start_with(&data, &["--flush", "sync"]);
    let mut peer = server.connect();
    // Something that makes the helpers work: topics, groups, files.
    peer.call(&ask::heartbeat("c1", "G", "T")).expect_code(0);
    peer.call(&ask::send("T", "", "m")).expect_code(0);
    let shard_core = cores[cores.len() - 1];
    let mut on_its_core = Vec::new();
    let mut elsewhere = BTreeSet::new();
    for (name, allowed) in threads(&server) {
        // The kernel's own workers for io_uring count as threads of the process; they go where the ring is.
        if name.starts_with("iou-") {
            continue;
        }
        if expand(&allowed).contains(&shard_core) {
            on_its_core.push((name, allowed));
        } else {
            elsewhere.insert(name);
        }
    }
    assert_eq!(on_its_core, [("broker-a".to_owned(), shard_core.to_string())]);
    for helper in ["ringmq", "log", "signals", "namesrv", "broker-a-end"] {
        assert!(elsewhere.contains(helper), "{helper} is none of {elsewhere:?}");
    }
}

#[test]
fn helpers_share_the_cores_when_every_core_has_a_shard() {
    let cores = cores();
    let (_scratch, data) = scratch();
    let count = cores.len().min(4).to_string();
    let list = cores[..cores.len().min(4)].iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    let server = Server::start_with(&data, &["--shards", &count, "--cores", &list]);
    if cores.len() <= 4 {
        server.process.wait_for_log("every core is a shard's: helper threads share them");
    }
    let shards = threads(&server);
    for (number, core) in cores.iter().take(4).enumerate() {
        let name = if cores.len() == 1 { "broker-a".to_owned() } else { format!("broker-a-{number}") };
        let found =
            shards.iter().find(|thread| thread.0 == name).unwrap_or_else(|| panic!("{name}: {shards:?}"));
        assert_eq!(found.1, core.to_string());
    }
}

/// The numbers of a list like `0,2-3`.
fn expand(list: &str) -> Vec<usize> {
    list.split(',')
        .flat_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            first.parse().unwrap()..=last.parse::<usize>().unwrap()
        })
        .collect()
}
