//! What a load needs before it begins: connections dealt out to threads, queues dealt out to consumers, encoded
//! requests, bytes for the bodies, threads pinned. Nothing here runs while the load does.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::thread::set_current_timer_slack;

use super::Lane;
use super::generator::{GROUP, Setup};
use super::receiver::{QUEUES_MAX, Receiver};
use super::sender::Sender;
use super::template::Template;
use crate::audit::evidence::ProducerLog;
use crate::error::{Error, Result};
use crate::plan::{Random, Workload};
use crate::process::pin_thread;

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// One thread's connections.
pub(super) struct Part {
    pub(super) senders: Vec<Sender>,
    pub(super) receivers: Vec<Receiver>,
}

/// Opens all connections, evenly over brokers and threads.
pub(super) fn connect(workload: &Workload, setup: &Setup, threads: usize) -> Result<Vec<Part>> {
    let mut parts: Vec<Part> =
        (0..threads).map(|_| Part { senders: Vec::new(), receivers: Vec::new() }).collect();
    let brokers = setup.topology.brokers.len();
    for number in 0..workload.connections {
        let index = number as usize;
        let broker = index % brokers;
        let lanes = setup.topology.lanes_of(broker);
        if workload.roles.producers {
            let log = setup.audit.get(index).cloned().unwrap_or_else(|| ProducerLog::new(number));
            let stream = open(setup.topology.brokers[broker].address)?;
            // Connections of one broker begin at different queues.
            let sender =
                Sender::new(stream, workload.depth, lanes, index / brokers, log, !setup.audit.is_empty());
            parts[index % threads].senders.push(sender);
        }
    }
    if workload.roles.consumers {
        for (index, queues) in shares(workload, setup).into_iter().enumerate() {
            let address = setup.topology.brokers[queues[0].0.broker].address;
            if queues.len() > QUEUES_MAX {
                return Err(Error::Usage(format!(
                    "one consumer connection would read {} queues; give more --connections or fewer --queues",
                    queues.len()
                )));
            }
            parts[index % threads].receivers.push(Receiver::new(open(address)?, queues));
        }
    }
    Ok(parts)
}

/// Queues by consumer connection: the connections of a broker share its queues; those without any are not opened.
fn shares(workload: &Workload, setup: &Setup) -> Vec<Vec<(Lane, i64)>> {
    let brokers = setup.topology.brokers.len();
    let mut shares: Vec<Vec<(Lane, i64)>> = vec![Vec::new(); (workload.connections as usize).max(brokers)];
    for broker in 0..brokers {
        let owners: Vec<usize> = (0..shares.len()).filter(|index| index % brokers == broker).collect();
        for (place, lane) in setup.topology.lanes_of(broker).into_iter().enumerate() {
            let offset = setup.start_offsets.get(lane as usize).copied().unwrap_or(0);
            let lane = setup.topology.lanes[lane as usize].clone();
            shares[owners[place % owners.len()]].push((lane, offset));
        }
    }
    shares.retain(|queues| !queues.is_empty());
    shares
}

fn open(address: SocketAddr) -> Result<TcpStream> {
    let wrong = |e: std::io::Error| Error::os(format!("cannot connect to the broker at {address}"), e);
    let stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).map_err(wrong)?;
    stream.set_nodelay(true).map_err(wrong)?;
    stream.set_nonblocking(true).map_err(wrong)?;
    Ok(stream)
}

/// Requests of all queues.
pub(super) fn templates(setup: &Setup) -> Vec<Template> {
    let template = |lane: &Lane| Template::new(setup.serialization, GROUP, &lane.topic, lane.queue_id);
    setup.topology.lanes.iter().map(template).collect()
}

/// Bytes for the bodies: random, so that no layer below compresses them away.
pub(super) fn filler(workload: &Workload) -> Vec<u8> {
    let mut random = Random::new(0x00B0_D1E5);
    let words = workload.body.max() as usize / 8 + 1;
    std::iter::repeat_with(|| random.next_u64().to_le_bytes()).take(words).flatten().collect()
}

/// Pins the thread and lets its timers be exact.
pub(super) fn prepare_thread(core: Option<usize>) -> Result<()> {
    if let Some(core) = core {
        pin_thread(core)?;
    }
    set_current_timer_slack(std::num::NonZeroU64::new(1_000))
        .map_err(|e| Error::os("cannot set the timer slack of a generator thread", e))
}
