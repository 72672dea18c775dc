//! Random operations on the registry and on a model that is a flat list: both must say the same after each.

use super::*;

/// A membership of the model.
#[derive(Clone, Debug, PartialEq)]
struct Flat {
    role: Role,
    group: String,
    client_id: String,
    connection: ConnectionKey,
    heard: Duration,
}

/// One list, searched from end to end.
#[derive(Default)]
struct Model {
    flats: Vec<Flat>,
    /// Group, topic, version.
    subscriptions: BTreeMap<(String, String), i64>,
    broadcasting: BTreeMap<String, bool>,
}

impl Model {
    fn hear(&mut self, connection: ConnectionKey, data: &HeartbeatData, heard: Duration) -> Vec<String> {
        let mut told = BTreeSet::new();
        for consumer in &data.consumer_data {
            let group = &consumer.group_name;
            let mut is_changed = self.join(Role::Consumer, group, data, connection, heard);
            let is_broadcasting = consumer.message_model == MessageModel::Broadcasting;
            self.broadcasting.insert(group.clone(), is_broadcasting);
            if !data.without_sub {
                let before = self.topic_names(group);
                for new in &consumer.subscriptions {
                    let version =
                        self.subscriptions.entry((group.clone(), new.topic.clone())).or_insert(i64::MIN);
                    *version = new.sub_version.max(*version);
                }
                let is_named = |topic: &str| consumer.subscriptions.iter().any(|named| named.topic == topic);
                self.subscriptions.retain(|(of, topic), _| of != group || is_named(topic));
                is_changed |= before != self.topic_names(group);
            }
            if is_changed && !is_broadcasting {
                told.insert(group.clone());
            }
        }
        for producer in &data.producer_data {
            self.join(Role::Producer, &producer.group_name, data, connection, heard);
        }
        told.into_iter().collect()
    }

    fn join(
        &mut self,
        role: Role,
        group: &str,
        data: &HeartbeatData,
        connection: ConnectionKey,
        heard: Duration,
    ) -> bool {
        let (group, client_id) = (group.to_owned(), data.client_id.clone());
        let flat = Flat { role, group, client_id, connection, heard };
        let same = |known: &Flat| {
            (known.role, &known.group, &known.client_id) == (flat.role, &flat.group, &flat.client_id)
        };
        let is_known = self.flats.iter().any(|known| same(known) && known.connection == connection);
        self.flats.retain(|known| !same(known));
        self.flats.push(flat);
        !is_known
    }

    fn remove(&mut self, is_gone: impl Fn(&Flat) -> bool) -> Vec<String> {
        let consumers = self.flats.iter().filter(|flat| flat.role == Role::Consumer && is_gone(flat));
        let groups: BTreeSet<String> = consumers.map(|flat| flat.group.clone()).collect();
        self.flats.retain(|flat| !is_gone(flat));
        let flats = &self.flats;
        self.subscriptions.retain(|(group, _), _| has_consumers(flats, group));
        groups
            .into_iter()
            .filter(|group| has_consumers(&self.flats, group) && !self.broadcasting[group])
            .collect()
    }

    fn topic_names(&self, group: &str) -> Vec<String> {
        self.topics(group).into_iter().map(|(topic, _)| topic).collect()
    }

    fn topics(&self, group: &str) -> Vec<(String, i64)> {
        let of_group = self.subscriptions.iter().filter(|((of, _), _)| of == group);
        of_group.map(|((_, topic), version)| (topic.clone(), *version)).collect()
    }
}

fn has_consumers(flats: &[Flat], group: &str) -> bool {
    flats.iter().any(|flat| flat.role == Role::Consumer && flat.group == group)
}

/// xorshift64*: a seed makes the same operations everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }

    fn name(&mut self, prefix: &str, bound: u64) -> String {
        format!("{prefix}{}", self.below(bound))
    }

    fn heartbeat(&mut self) -> HeartbeatData {
        let consumers: Vec<ConsumerData> = (0..self.below(3)).map(|_| self.consumer()).collect();
        let producers: Vec<String> = (0..self.below(3)).map(|_| self.name("G", 4)).collect();
        let producers: Vec<&str> = producers.iter().map(String::as_str).collect();
        let client_id = self.name("c", 6);
        HeartbeatData { without_sub: self.below(5) == 0, ..heartbeat(&client_id, &consumers, &producers) }
    }

    fn consumer(&mut self) -> ConsumerData {
        let subscriptions: Vec<SubscriptionData> = (0..self.below(4))
            .map(|_| {
                let version = i64::try_from(self.below(5)).unwrap();
                subscription(&self.name("T", 3), version)
            })
            .collect();
        let is_broadcasting = self.below(4) == 0;
        let message_model =
            if is_broadcasting { MessageModel::Broadcasting } else { MessageModel::Clustering };
        ConsumerData { message_model, ..consumer(&self.name("G", 4), &subscriptions) }
    }
}

#[test]
fn random_operations_agree_with_a_flat_list() {
    for seed in 1..=40 {
        run(seed, 500);
    }
}

fn run(seed: u64, operation_count: usize) {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let (mut world, mut model) = (World::new(), Model::default());
    for operation in 0..operation_count {
        let connection = ConnectionKey(random.below(5));
        let context = format!("seed {seed}, operation {operation}");
        match random.below(12) {
            0..=6 => {
                let data = random.heartbeat();
                let effects = world.hear(connection, &data);
                assert_eq!(
                    effects.groups_changed,
                    model.hear(connection, &data, world.now),
                    "{context}: {data:?}"
                );
            }
            7..=8 => {
                let (client_id, producer, consumer) =
                    (random.name("c", 6), random.name("G", 4), random.name("G", 4));
                let is_gone = |flat: &Flat| {
                    let group = if flat.role == Role::Producer { &producer } else { &consumer };
                    flat.connection == connection && flat.client_id == client_id && flat.group == *group
                };
                let told = world.unregister(connection, &client_id, Some(&producer), Some(&consumer));
                assert_eq!(told, model.remove(is_gone), "{context}");
            }
            9 => {
                let told = world.disconnect(connection);
                assert_eq!(told, model.remove(|flat| flat.connection == connection), "{context}");
            }
            _ => {
                world.now += seconds(random.below(4));
                let (age_max, now) = (seconds(8), world.now);
                let is_old = |flat: &Flat| now - flat.heard > age_max;
                let lost: BTreeSet<_> =
                    model.flats.iter().filter(|flat| is_old(flat)).map(|flat| flat.connection).collect();
                let told = model.remove(is_old);
                let is_used = |connection| model.flats.iter().any(|flat| flat.connection == connection);
                let idle: Vec<_> = lost.into_iter().filter(|connection| !is_used(*connection)).collect();
                assert_eq!(world.expire(age_max), (told, idle), "{context}");
            }
        }
        compare(&world, &model, &context);
    }
}

fn compare(world: &World, model: &Model, context: &str) {
    assert_eq!(world.registry.membership_count(), model.flats.len(), "{context}");
    for index in 0..4 {
        let group = format!("G{index}");
        for role in [Role::Consumer, Role::Producer] {
            let flats = model.flats.iter().filter(|flat| flat.role == role && flat.group == group);
            let expected: BTreeMap<&str, (ConnectionKey, Duration)> =
                flats.map(|flat| (flat.client_id.as_str(), (flat.connection, flat.heard))).collect();
            let members = world.registry.members(role, &group).into_iter().flat_map(Members::iter);
            let found: BTreeMap<&str, (ConnectionKey, Duration)> =
                members.map(|(id, member)| (id, (member.connection, member.last_heartbeat))).collect();
            assert_eq!(found, expected, "{context}, {role:?} {group}");
            if role == Role::Consumer {
                let channels: BTreeSet<_> = expected.values().map(|(connection, _)| *connection).collect();
                assert_eq!(world.channels(&group), channels.into_iter().collect::<Vec<_>>(), "{context}");
            }
        }
        let versions = |data: &SubscriptionData| (data.topic.clone(), data.sub_version);
        let found: Vec<_> = world.registry.subscriptions(&group).map(versions).collect();
        assert_eq!(found, model.topics(&group), "{context}, {group}");
    }
}
