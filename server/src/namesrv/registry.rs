//! Which brokers there are, and which topics each of them has.
//!
//! Four tables that agree with each other at all times (`assert_consistent`, run by the tests after every step):
//! brokers by name with the addresses of their replicas; broker names by cluster; topics with each broker's queues; and
//! live addresses with the connection they registered on. Whatever can be refused is refused before the first change.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use protocol::body::topic::perm;
use protocol::body::{
    BrokerData, ClusterInfo, DataVersion, QueueData, RegisterBrokerBody, TopicConfig, TopicRouteData,
};

use super::{ConnectionId, NamesrvOptions};

/// The route registry.
#[derive(Default)]
pub struct Registry {
    brokers: BTreeMap<String, BrokerData>,
    clusters: BTreeMap<String, BTreeSet<String>>,
    topics: BTreeMap<String, BTreeMap<String, QueueData>>,
    live: BTreeMap<LiveKey, Live>,
    /// Entries of `topics`' inner maps, all together.
    queue_data_count: usize,
}

/// Cluster and address: what a broker process is known by.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct LiveKey {
    cluster: String,
    address: String,
}

#[derive(Clone, Debug)]
struct Live {
    broker_name: String,
    connection: ConnectionId,
    last_seen: Duration,
    timeout: Duration,
    data_version: DataVersion,
    ha_address: String,
}

/// Who registers.
#[derive(Clone, Copy, Debug)]
pub struct Registrant<'a> {
    /// Its cluster.
    pub cluster: &'a str,
    /// The name it shares with its replicas.
    pub broker_name: &'a str,
    /// `ip:port` for clients.
    pub address: &'a str,
    /// `ip:port` for slaves.
    pub ha_address: &'a str,
    /// 0 is the master.
    pub broker_id: i64,
    /// Silence after which it counts as gone.
    pub timeout: Duration,
    /// Whether a slave may stand in for it; `None` before 5.0.
    pub enable_acting_master: Option<bool>,
    /// Its zone.
    pub zone_name: Option<&'a str>,
}

/// What a slave learns from registering.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Registered {
    /// The live master's address.
    pub master_address: Option<String>,
    /// Where it lets slaves connect.
    pub ha_address: Option<String>,
}

/// Why a registration is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RegisterRefusal {
    /// One topic, from a broker that hasn't registered all of its topics yet.
    NotFull,
    /// A name or an address is empty or longer than [`NAME_BYTES_MAX`].
    Name,
    /// There would be more brokers than [`BROKER_COUNT_MAX`].
    TooManyBrokers,
    /// There would be more entries than [`QUEUE_DATA_COUNT_MAX`].
    TooManyTopics,
}

impl fmt::Display for RegisterRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RegisterRefusal::NotFull => f.write_str("register broker failed"),
            RegisterRefusal::Name => {
                write!(f, "register broker failed: names and addresses must have 1 to {NAME_BYTES_MAX} bytes")
            }
            RegisterRefusal::TooManyBrokers => {
                write!(f, "register broker failed: the name server has {BROKER_COUNT_MAX} brokers")
            }
            RegisterRefusal::TooManyTopics => write!(
                f,
                "register broker failed: the name server has {QUEUE_DATA_COUNT_MAX} entries of topics and brokers"
            ),
        }
    }
}

/// A broker that is no longer registered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Departed {
    /// Its cluster.
    pub cluster: String,
    /// Its name.
    pub broker_name: String,
    /// Its address.
    pub address: String,
}

impl Registry {
    /// A broker says who it is and which topics it has (103).
    ///
    /// # Errors
    ///
    /// When it is refused; then nothing has changed.
    pub fn register(
        &mut self,
        who: Registrant<'_>,
        body: &RegisterBrokerBody,
        connection: ConnectionId,
        now: Duration,
        options: &NamesrvOptions,
    ) -> Result<Registered, RegisterRefusal> {
        let known = self.brokers.get(who.broker_name);
        let address_before = known.and_then(|broker| broker.broker_addrs.get(&who.broker_id)).cloned();
        if self.is_held_by_newer(&who, address_before.as_deref(), body.data_version) {
            // RocketMQ answers success and forgets the loser, whatever id it had.
            self.live.remove(&who.key());
            self.remove_address(who.broker_name, who.address);
            self.assert_consistent_in_tests();
            return Ok(Registered::default());
        }
        self.check(&who, address_before.is_some(), body)?;
        self.forget_earlier_names(&who);
        let first = address_before.is_none();
        let lowest = self.put_broker(&who);
        let is_master = who.broker_id == MASTER_ID;
        // Without a master the lowest slave of a 5.x group speaks for it, read-only.
        let is_prime_slave = !is_master && who.enable_acting_master.is_some() && lowest == who.broker_id;
        if is_master || is_prime_slave {
            let changed = first || self.data_version(who.cluster, who.address) != Some(body.data_version);
            if options.delete_topic_with_broker_registration {
                self.retain_topics(who.broker_name, &body.topic_config_table);
            }
            for (topic, config) in &body.topic_config_table {
                self.put_queue_data(who.broker_name, topic, config, changed, is_prime_slave);
            }
        }
        self.put_live(&who, body.data_version, connection, now);
        self.assert_consistent_in_tests();
        Ok(if is_master { Registered::default() } else { self.master_of(&who) })
    }

    /// A broker leaves (104): its address is taken from its name, under whatever id it stands.
    pub fn unregister(&mut self, cluster: &str, broker_name: &str, address: &str) {
        let key = LiveKey { cluster: cluster.to_owned(), address: address.to_owned() };
        if self.live.get(&key).is_some_and(|live| live.broker_name == broker_name) {
            self.live.remove(&key);
        }
        self.remove_address(broker_name, address);
        self.assert_consistent_in_tests();
    }

    /// Everything that registered on this connection leaves.
    pub fn unregister_connection(&mut self, connection: ConnectionId) -> Vec<Departed> {
        let gone = self.live.iter().filter(|(_, live)| live.connection == connection);
        let gone = gone.map(|(key, live)| departed(key, live)).collect();
        self.unregister_all(gone)
    }

    /// Everything that has been silent for longer than it promised leaves.
    pub fn unregister_expired(&mut self, now: Duration) -> Vec<(ConnectionId, Departed)> {
        let expired = self.live.iter().filter(|(_, live)| live.last_seen + live.timeout < now);
        let (connections, gone): (Vec<_>, Vec<_>) =
            expired.map(|(key, live)| (live.connection, departed(key, live))).unzip();
        connections.into_iter().zip(self.unregister_all(gone)).collect()
    }

    /// A sign of life (322, 904).
    pub fn touch(&mut self, cluster: &str, address: &str, now: Duration) {
        let key = LiveKey { cluster: cluster.to_owned(), address: address.to_owned() };
        if let Some(live) = self.live.get_mut(&key) {
            live.last_seen = now;
        }
    }

    /// The version of the topics that a live broker last registered.
    pub fn data_version(&self, cluster: &str, address: &str) -> Option<DataVersion> {
        let key = LiveKey { cluster: cluster.to_owned(), address: address.to_owned() };
        self.live.get(&key).map(|live| live.data_version)
    }

    /// Where a topic is (105); `None` when no registered broker has it.
    pub fn route(&self, topic: &str, options: &NamesrvOptions) -> Option<TopicRouteData> {
        let queues = self.topics.get(topic)?;
        let broker_datas = queues.values().filter_map(|queue| {
            let mut broker = self.brokers.get(&queue.broker_name)?.clone();
            let acting = options.support_acting_master && !topic.starts_with(SYNC_BROKER_MEMBER_PREFIX);
            if acting && queue.perm & perm::WRITE == 0 {
                show_acting_master(&mut broker);
            }
            Some(broker)
        });
        let broker_datas: Vec<BrokerData> = broker_datas.collect();
        if broker_datas.is_empty() {
            return None;
        }
        Some(TopicRouteData {
            broker_datas,
            queue_datas: queues.values().cloned().collect(),
            order_topic_conf: None,
        })
    }

    /// All brokers (106).
    pub fn cluster_info(&self) -> ClusterInfo {
        ClusterInfo { broker_addr_table: self.brokers.clone(), cluster_addr_table: self.clusters.clone() }
    }

    /// The addresses of one broker's replicas (901).
    pub fn broker(&self, broker_name: &str) -> Option<&BrokerData> {
        self.brokers.get(broker_name)
    }

    /// Names of all topics (206).
    pub fn topics(&self) -> Vec<String> {
        self.topics.keys().cloned().collect()
    }

    /// Names of the topics that some broker of this cluster has (224).
    pub fn topics_of_cluster(&self, cluster: &str) -> Vec<String> {
        let Some(brokers) = self.clusters.get(cluster) else { return Vec::new() };
        self.topics_where(|queues| queues.keys().any(|broker| brokers.contains(broker)))
    }

    /// Names of the topics whose flags, at the first broker, satisfy `accepts` (311, 312, 313).
    pub fn topics_by_flag(&self, accepts: impl Fn(i32) -> bool) -> Vec<String> {
        self.topics_where(|queues| queues.values().next().is_some_and(|queue| accepts(queue.topic_sys_flag)))
    }

    /// Cluster and broker names, which are topics too, and one broker's address (304).
    pub fn system_topics(&self) -> (Vec<String>, Option<String>) {
        let names =
            self.clusters.iter().flat_map(|(cluster, brokers)| std::iter::once(cluster).chain(brokers));
        let address = self.brokers.values().find_map(BrokerData::master_addr);
        (names.cloned().collect(), address.map(str::to_owned))
    }

    /// Takes the write bit from all topics of a broker (205). Returns how many it has.
    pub fn wipe_write_perm(&mut self, broker_name: &str) -> usize {
        self.set_perm(broker_name, |perm| perm & !perm::WRITE)
    }

    /// Makes all topics of a broker readable and writable (327). Returns how many it has.
    pub fn add_write_perm(&mut self, broker_name: &str) -> usize {
        self.set_perm(broker_name, |_| perm::READ | perm::WRITE)
    }

    /// Forgets a topic, of one cluster's brokers or of all (216).
    pub fn delete_topic(&mut self, topic: &str, cluster: Option<&str>) {
        let brokers = match cluster {
            Some(cluster) => Some(self.clusters.get(cluster).cloned().unwrap_or_default()),
            None => None,
        };
        if let Some(queues) = self.topics.get_mut(topic) {
            let before = queues.len();
            queues.retain(|broker, _| brokers.as_ref().is_some_and(|brokers| !brokers.contains(broker)));
            self.queue_data_count -= before - queues.len();
            if queues.is_empty() {
                self.topics.remove(topic);
            }
        }
        self.assert_consistent_in_tests();
    }

    /// Says which brokers have a topic (217). Nothing happens when one of them isn't registered, as in RocketMQ, or
    /// when the table is full.
    pub fn put_topic(&mut self, topic: &str, queues: Vec<QueueData>) {
        let known = queues.iter().all(|queue| self.brokers.contains_key(&queue.broker_name));
        let fits = self.queue_data_count + queues.len() <= QUEUE_DATA_COUNT_MAX && is_name(topic);
        if !known || !fits || queues.is_empty() {
            return;
        }
        let entry = self.topics.entry(topic.to_owned()).or_default();
        for queue in queues {
            self.queue_data_count += usize::from(!entry.contains_key(&queue.broker_name));
            entry.insert(queue.broker_name.clone(), queue);
        }
        self.assert_consistent_in_tests();
    }

    /// Everything that can be refused, before anything changes.
    fn check(
        &self,
        who: &Registrant<'_>,
        is_known: bool,
        body: &RegisterBrokerBody,
    ) -> Result<(), RegisterRefusal> {
        if ![who.cluster, who.broker_name, who.address].into_iter().all(is_name) {
            return Err(RegisterRefusal::Name);
        }
        if who.ha_address.len() > NAME_BYTES_MAX
            || !body.topic_config_table.keys().all(|topic| is_name(topic))
        {
            return Err(RegisterRefusal::Name);
        }
        if !is_known && body.topic_config_table.len() == 1 {
            return Err(RegisterRefusal::NotFull);
        }
        if !is_known && self.live.len() >= BROKER_COUNT_MAX {
            return Err(RegisterRefusal::TooManyBrokers);
        }
        let has = |topic: &String| self.topics.get(topic).is_some_and(|of| of.contains_key(who.broker_name));
        let new = body.topic_config_table.keys().filter(|topic| !has(topic)).count();
        if self.queue_data_count + new > QUEUE_DATA_COUNT_MAX {
            return Err(RegisterRefusal::TooManyTopics);
        }
        Ok(())
    }

    /// Whether another address holds this id with a later state of the group (after a change of master).
    fn is_held_by_newer(&self, who: &Registrant<'_>, holder: Option<&str>, version: DataVersion) -> bool {
        let Some(holder) = holder.filter(|holder| *holder != who.address) else { return false };
        self.data_version(who.cluster, holder).is_some_and(|held| held.state_version > version.state_version)
    }

    /// Enters the broker's address. Returns the lowest id of its group.
    fn put_broker(&mut self, who: &Registrant<'_>) -> i64 {
        let broker = self.brokers.entry(who.broker_name.to_owned()).or_insert_with(|| BrokerData {
            broker_name: who.broker_name.to_owned(),
            cluster: who.cluster.to_owned(),
            ..BrokerData::default()
        });
        if broker.cluster != who.cluster {
            // A broker that changed its cluster belongs to the new one only.
            let before = std::mem::replace(&mut broker.cluster, who.cluster.to_owned());
            remove_from_cluster(&mut self.clusters, &before, who.broker_name);
        }
        broker.enable_acting_master = who.enable_acting_master.unwrap_or(false);
        broker.zone_name = who.zone_name.map(str::to_owned);
        // A slave that became master keeps its address and changes its id.
        broker.broker_addrs.retain(|id, address| *id == who.broker_id || address != who.address);
        broker.broker_addrs.insert(who.broker_id, who.address.to_owned());
        self.clusters.entry(who.cluster.to_owned()).or_default().insert(who.broker_name.to_owned());
        broker.broker_addrs.keys().next().copied().unwrap_or(who.broker_id)
    }

    /// An address is one broker: what it was called before (another name, another cluster) is forgotten, or it would
    /// never be unregistered.
    fn forget_earlier_names(&mut self, who: &Registrant<'_>) {
        let earlier = self.live.iter().filter(|(key, live)| {
            key.address == who.address && (live.broker_name != who.broker_name || key.cluster != who.cluster)
        });
        let earlier: Vec<Departed> = earlier.map(|(key, live)| departed(key, live)).collect();
        for departed in earlier {
            self.live.remove(&LiveKey { cluster: departed.cluster, address: departed.address });
            if departed.broker_name != who.broker_name {
                self.remove_address(&departed.broker_name, who.address);
            }
        }
    }

    fn put_queue_data(
        &mut self,
        broker_name: &str,
        topic: &str,
        config: &TopicConfig,
        changed: bool,
        read_only: bool,
    ) {
        let queues = self.topics.entry(topic.to_owned()).or_default();
        let is_new = !queues.contains_key(broker_name);
        if !is_new && !changed {
            return;
        }
        let perm = if read_only { config.perm & !perm::WRITE } else { config.perm };
        let queue = QueueData {
            broker_name: broker_name.to_owned(),
            perm,
            read_queue_nums: config.read_queue_nums,
            topic_sys_flag: config.topic_sys_flag,
            write_queue_nums: config.write_queue_nums,
        };
        queues.insert(broker_name.to_owned(), queue);
        self.queue_data_count += usize::from(is_new);
    }

    fn retain_topics(&mut self, broker_name: &str, kept: &BTreeMap<String, TopicConfig>) {
        let removed = &mut self.queue_data_count;
        self.topics.retain(|topic, queues| {
            if !kept.contains_key(topic) && queues.remove(broker_name).is_some() {
                *removed -= 1;
            }
            !queues.is_empty()
        });
    }

    fn put_live(
        &mut self,
        who: &Registrant<'_>,
        version: DataVersion,
        connection: ConnectionId,
        now: Duration,
    ) {
        let live = Live {
            broker_name: who.broker_name.to_owned(),
            connection,
            last_seen: now,
            timeout: who.timeout,
            data_version: version,
            ha_address: who.ha_address.to_owned(),
        };
        self.live.insert(who.key(), live);
    }

    fn master_of(&self, who: &Registrant<'_>) -> Registered {
        let master = self.brokers.get(who.broker_name).and_then(BrokerData::master_addr);
        let Some(address) = master else { return Registered::default() };
        let key = LiveKey { cluster: who.cluster.to_owned(), address: address.to_owned() };
        match self.live.get(&key) {
            Some(live) => Registered {
                master_address: Some(address.to_owned()),
                ha_address: Some(live.ha_address.clone()),
            },
            None => Registered::default(),
        }
    }

    fn unregister_all(&mut self, gone: Vec<Departed>) -> Vec<Departed> {
        for departed in &gone {
            self.unregister(&departed.cluster, &departed.broker_name, &departed.address);
        }
        gone
    }

    fn remove_address(&mut self, broker_name: &str, address: &str) {
        let Some(broker) = self.brokers.get_mut(broker_name) else { return };
        let before = broker.broker_addrs.len();
        broker.broker_addrs.retain(|_, known| known != address);
        if broker.broker_addrs.len() == before {
            return;
        }
        if broker.broker_addrs.is_empty() {
            let cluster = broker.cluster.clone();
            self.brokers.remove(broker_name);
            remove_from_cluster(&mut self.clusters, &cluster, broker_name);
            self.retain_topics(broker_name, &BTreeMap::new());
        } else if broker.enable_acting_master && !broker.broker_addrs.contains_key(&MASTER_ID) {
            self.set_perm(broker_name, |perm| perm & !perm::WRITE);
        }
    }

    fn set_perm(&mut self, broker_name: &str, change: impl Fn(i32) -> i32) -> usize {
        let queues = self.topics.values_mut().filter_map(|queues| queues.get_mut(broker_name));
        queues.map(|queue| queue.perm = change(queue.perm)).count()
    }

    fn topics_where(&self, accepts: impl Fn(&BTreeMap<String, QueueData>) -> bool) -> Vec<String> {
        self.topics.iter().filter(|(_, queues)| accepts(queues)).map(|(topic, _)| topic.clone()).collect()
    }

    /// The whole check walks all tables, so it is for tests, and for tables as small as theirs.
    fn assert_consistent_in_tests(&self) {
        #[cfg(test)]
        if self.live.len() + self.queue_data_count < 100 {
            self.assert_consistent();
        }
    }

    #[cfg(test)]
    fn assert_consistent(&self) {
        for (name, broker) in &self.brokers {
            assert!(!broker.broker_addrs.is_empty() && broker.broker_name == *name, "{broker:?}");
            assert!(self.clusters[&broker.cluster].contains(name), "{name} is in no cluster");
            for address in broker.broker_addrs.values() {
                let is_it =
                    |(key, live): (&LiveKey, &Live)| key.address == *address && live.broker_name == *name;
                assert!(self.live.iter().any(is_it), "{address} of {name} can never expire");
            }
        }
        for (cluster, names) in &self.clusters {
            assert!(!names.is_empty(), "{cluster} is empty");
            assert!(names.iter().all(|name| self.brokers[name].cluster == *cluster), "{cluster}: {names:?}");
        }
        for (topic, queues) in &self.topics {
            assert!(!queues.is_empty(), "{topic} has no broker");
            assert!(queues.keys().all(|name| self.brokers.contains_key(name)), "{topic}: {queues:?}");
        }
        let count: usize = self.topics.values().map(BTreeMap::len).sum();
        assert_eq!(count, self.queue_data_count, "entries of topics");
    }
}

impl Registrant<'_> {
    fn key(&self) -> LiveKey {
        LiveKey { cluster: self.cluster.to_owned(), address: self.address.to_owned() }
    }
}

fn departed(key: &LiveKey, live: &Live) -> Departed {
    Departed {
        cluster: key.cluster.clone(),
        broker_name: live.broker_name.clone(),
        address: key.address.clone(),
    }
}

fn remove_from_cluster(clusters: &mut BTreeMap<String, BTreeSet<String>>, cluster: &str, broker_name: &str) {
    if let Some(names) = clusters.get_mut(cluster) {
        names.remove(broker_name);
        if names.is_empty() {
            clusters.remove(cluster);
        }
    }
}

/// Shows the lowest slave as the master, where there is none and the group allows it.
fn show_acting_master(broker: &mut BrokerData) {
    if broker.enable_acting_master
        && !broker.broker_addrs.contains_key(&MASTER_ID)
        && let Some((_, address)) = broker.broker_addrs.pop_first()
    {
        broker.broker_addrs.insert(MASTER_ID, address);
    }
}

fn is_name(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len())
}

/// Slaves find each other by topics of this name, whose routes must show them as they are.
const SYNC_BROKER_MEMBER_PREFIX: &str = "rmq_sys_SYNC_BROKER_MEMBER_";
/// The broker id of masters.
pub const MASTER_ID: i64 = 0;
/// Silence after which a broker that promised nothing else counts as gone.
pub const BROKER_TIMEOUT_DEFAULT: Duration = Duration::from_secs(120);
/// Longest name of a cluster, broker or topic, and longest address.
pub const NAME_BYTES_MAX: usize = 512;
/// Most live brokers, slaves included.
pub const BROKER_COUNT_MAX: usize = 4_096;
/// Most pairs of topic and broker; a pair takes about 300 bytes.
pub const QUEUE_DATA_COUNT_MAX: usize = 1_000_000;
