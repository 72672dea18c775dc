//! Random operations on the registry and on a model of it that is too simple to be wrong; afterwards both must show the
//! same routes. (The registry checks its own consistency after every step, see `assert_consistent_in_tests`.)

use std::collections::BTreeMap;

use super::*;
use crate::namesrv::registry::{Registrant, Registry};

const NAMES: [&str; 3] = ["a", "b", "c"];
const ADDRESSES: [&str; 4] = ["h:1", "h:2", "h:3", "h:4"];
const TOPICS: [&str; 4] = ["T", "U", "V", "W"];
const SECOND: Duration = Duration::from_secs(1);

/// What the registry must show, by the plainest means.
#[derive(Default)]
struct Model {
    /// (name, id) to address.
    members: BTreeMap<(&'static str, i64), &'static str>,
    /// Address to (name, connection, last seen, version).
    live: BTreeMap<&'static str, (&'static str, u64, Duration, i64)>,
    /// (topic, name) to (permission, queues).
    topics: BTreeMap<(&'static str, &'static str), (i32, i32)>,
}

#[derive(Clone, Copy)]
struct Step {
    name: &'static str,
    id: i64,
    address: &'static str,
    connection: u64,
    version: i64,
    /// A bit per topic.
    topics: u64,
    queues: i32,
}

impl Model {
    fn register(&mut self, step: Step, now: Duration) -> bool {
        let known = self.members.contains_key(&(step.name, step.id));
        if !known && step.topics.count_ones() == 1 {
            return false;
        }
        if let Some((name, ..)) = self.live.get(step.address).copied().filter(|(name, ..)| *name != step.name)
        {
            self.live.remove(step.address);
            self.leave(name, step.address);
        }
        let version = self.live.get(step.address).map(|(_, _, _, version)| *version);
        let changed = !known || version != Some(step.version);
        self.members
            .retain(|(name, id), address| *name != step.name || *id == step.id || *address != step.address);
        self.members.insert((step.name, step.id), step.address);
        if step.id == 0 {
            for topic in named(step.topics) {
                let key = (topic, step.name);
                if changed || !self.topics.contains_key(&key) {
                    self.topics.insert(key, (6, step.queues));
                }
            }
        }
        self.live.insert(step.address, (step.name, step.connection, now, step.version));
        true
    }

    fn leave(&mut self, name: &'static str, address: &str) {
        self.members.retain(|(of, _), known| *of != name || *known != address);
        if !self.members.keys().any(|(of, _)| *of == name) {
            self.topics.retain(|(_, of), _| *of != name);
        }
    }

    fn leave_where(&mut self, gone: impl Fn(&(&'static str, u64, Duration, i64)) -> bool) -> usize {
        let leaving: Vec<_> =
            self.live.iter().filter(|(_, live)| gone(live)).map(|(a, l)| (*a, l.0)).collect();
        for (address, name) in &leaving {
            self.live.remove(address);
            self.leave(name, address);
        }
        leaving.len()
    }

    /// Topic to broker name to (permission, queues, addresses by id).
    fn shown(&self) -> Shown {
        let addresses = |name: &'static str| {
            let of = self.members.iter().filter(move |((of, _), _)| *of == name);
            of.map(|((_, id), address)| (*id, (*address).to_owned())).collect::<BTreeMap<_, _>>()
        };
        let mut shown = Shown::new();
        for ((topic, name), (perm, queues)) in &self.topics {
            shown.insert(((*topic).to_owned(), (*name).to_owned()), (*perm, *queues, addresses(name)));
        }
        shown
    }
}

type Shown = BTreeMap<(String, String), (i32, i32, BTreeMap<i64, String>)>;

fn shown(registry: &Registry) -> Shown {
    let mut shown = Shown::new();
    for topic in registry.topics() {
        let route = registry.route(&topic, &NamesrvOptions::default()).expect("a listed topic has a route");
        assert_eq!(route.queue_datas.len(), route.broker_datas.len());
        for (queue, broker) in route.queue_datas.into_iter().zip(route.broker_datas) {
            assert_eq!(queue.broker_name, broker.broker_name);
            let entry = (queue.perm, queue.write_queue_nums, broker.broker_addrs);
            shown.insert((topic.clone(), queue.broker_name), entry);
        }
    }
    shown
}

fn named(bits: u64) -> impl Iterator<Item = &'static str> {
    TOPICS.into_iter().enumerate().filter(move |(index, _)| bits >> index & 1 == 1).map(|(_, topic)| topic)
}

/// xorshift64*: enough to choose by.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % end
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }
}

fn register(registry: &mut Registry, step: Step, now: Duration) -> bool {
    let who = Registrant {
        cluster: "C",
        broker_name: step.name,
        address: step.address,
        ha_address: "",
        broker_id: step.id,
        timeout: 10 * SECOND,
        enable_acting_master: None,
        zone_name: None,
    };
    let configs = named(step.topics).map(|topic| (topic.to_owned(), TopicConfig::new(topic, step.queues)));
    let body = RegisterBrokerBody {
        data_version: DataVersion { counter: step.version, ..DataVersion::default() },
        topic_config_table: configs.collect(),
        ..RegisterBrokerBody::default()
    };
    registry.register(who, &body, ConnectionId(step.connection), now, &NamesrvOptions::default()).is_ok()
}

fn run(seed: u64) {
    let mut random = Random(seed);
    let (mut registry, mut model) = (Registry::default(), Model::default());
    let mut now = Duration::ZERO;
    for index in 0..300 {
        let step = Step {
            name: random.of(&NAMES),
            id: random.of(&[0, 0, 1, 2]),
            address: random.of(&ADDRESSES),
            connection: random.below(5),
            version: i64::try_from(random.below(3)).unwrap(),
            topics: random.below(16),
            queues: 1 + i32::try_from(random.below(3)).unwrap(),
        };
        let at = format!("seed {seed} step {index}");
        match random.below(10) {
            0 => {
                registry.unregister("C", step.name, step.address);
                if model.live.get(step.address).is_some_and(|(name, ..)| *name == step.name) {
                    model.live.remove(step.address);
                }
                model.leave(step.name, step.address);
            }
            1 => {
                let gone = registry.unregister_connection(ConnectionId(step.connection)).len();
                assert_eq!(
                    gone,
                    model.leave_where(|(_, connection, ..)| *connection == step.connection),
                    "{at}"
                );
            }
            2 => {
                now += SECOND * u32::try_from(random.below(12)).unwrap();
                let gone = registry.unregister_expired(now).len();
                assert_eq!(gone, model.leave_where(|(_, _, seen, _)| *seen + 10 * SECOND < now), "{at}");
            }
            3 => {
                let topic = random.of(&TOPICS);
                registry.delete_topic(topic, None);
                model.topics.retain(|(of, _), _| *of != topic);
            }
            4 => {
                let count = registry.wipe_write_perm(step.name);
                let mine = model.topics.iter_mut().filter(|((_, name), _)| *name == step.name);
                assert_eq!(count, mine.map(|(_, (perm, _))| *perm &= !2).count(), "{at}");
            }
            _ => {
                let taken = register(&mut registry, step, now);
                assert_eq!(taken, model.register(step, now), "{at}");
            }
        }
        assert_eq!(shown(&registry), model.shown(), "{at}");
    }
}

#[test]
fn random_operations_show_what_the_model_shows() {
    for seed in 1..=200 {
        run(seed * 0x9e37_79b9);
    }
}
