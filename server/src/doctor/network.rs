//! Verdicts on sockets and ports. Pure functions of the facts.

use super::facts::{HostFacts, Probe};
use super::{Finding, Level};

pub(super) fn findings(facts: &HostFacts) -> Vec<Finding> {
    vec![
        backlog("somaxconn", "net.core.somaxconn", facts.somaxconn),
        backlog("syn-backlog", "net.ipv4.tcp_max_syn_backlog", facts.syn_backlog),
        port(facts),
        local_ports(facts),
    ]
}

/// RocketMQ's `serverSocketBacklog`; a broker of ours asks for more, and gets what these allow.
const BACKLOG_WANTED: u64 = 1_024;

fn backlog(name: &'static str, sysctl: &str, value: Option<u64>) -> Finding {
    match value {
        Some(value) if value >= BACKLOG_WANTED => {
            Finding::new(name, Level::Ok, format!("{sysctl} is {value}"), "a rush of clients is queued")
        }
        Some(value) => Finding::new(
            name,
            Level::Note,
            format!("{sysctl} is {value}"),
            "when many clients connect at once (after a restart) some wait a second or more and try again",
        )
        .fix(format!("sysctl -w {sysctl}=4096"))
        .undo(format!("sysctl -w {sysctl}={value}")),
        None => Finding::new(name, Level::Note, "not shown", "can't be judged"),
    }
}

fn port(facts: &HostFacts) -> Finding {
    let port = facts.port;
    match &facts.port_free {
        Probe::Works => {
            Finding::new("port", Level::Ok, format!("{port} is free"), "a broker can listen on it")
        }
        Probe::NotTried => {
            Finding::new("port", Level::Note, format!("{port} was not tried"), "the start will tell")
        }
        Probe::Refused(why) => Finding::new(
            "port",
            Level::Note,
            format!("{port} can't be listened on: {why}"),
            "right if a broker runs there already; another one would be refused",
        )
        .fix("choose another --port, or stop what listens there"),
    }
}

fn local_ports(facts: &HostFacts) -> Finding {
    match facts.local_ports {
        Some((first, last)) if (first..=last).contains(&facts.port) => Finding::new(
            "local-ports",
            Level::Note,
            format!("outgoing connections use {first} to {last}"),
            format!("one may hold port {} just when the broker starts", facts.port),
        )
        .fix(format!("sysctl -w net.ipv4.ip_local_reserved_ports={}", facts.port))
        .undo("sysctl -w net.ipv4.ip_local_reserved_ports="),
        Some((first, last)) => Finding::new(
            "local-ports",
            Level::Ok,
            format!("outgoing connections use {first} to {last}"),
            "none takes the broker's port",
        ),
        None => Finding::new("local-ports", Level::Note, "not shown", "can't be judged"),
    }
}
