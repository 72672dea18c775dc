//! One test per rule; [`random`] against a simple model, [`golden`] against what the Java broker did.

use protocol::body::ProducerData;

use super::*;

mod golden;
mod random;

const A: ConnectionKey = ConnectionKey(1);
const B: ConnectionKey = ConnectionKey(2);
const C: ConnectionKey = ConnectionKey(3);

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn subscription(topic: &str, sub_version: i64) -> SubscriptionData {
    SubscriptionData {
        topic: topic.to_owned(),
        sub_string: "*".to_owned(),
        sub_version,
        ..SubscriptionData::default()
    }
}

fn consumer(group: &str, subscriptions: &[SubscriptionData]) -> ConsumerData {
    ConsumerData {
        group_name: group.to_owned(),
        subscriptions: subscriptions.to_vec(),
        ..ConsumerData::default()
    }
}

fn heartbeat(client_id: &str, consumers: &[ConsumerData], producers: &[&str]) -> HeartbeatData {
    HeartbeatData {
        client_id: client_id.to_owned(),
        consumer_data: consumers.to_vec(),
        producer_data: producers
            .iter()
            .map(|group| ProducerData { group_name: (*group).to_owned() })
            .collect(),
        ..HeartbeatData::default()
    }
}

/// A registry and a shorter way to talk to it. Looks at the invariants after every change.
struct World {
    registry: ClientRegistry,
    now: Duration,
}

impl World {
    fn new() -> World {
        World::limited(ClientRegistryLimits::DEFAULT)
    }

    fn limited(limits: ClientRegistryLimits) -> World {
        World { registry: ClientRegistry::new(limits), now: Duration::ZERO }
    }

    fn hear(&mut self, connection: ConnectionKey, data: &HeartbeatData) -> HeartbeatEffects {
        let effects = self.registry.on_heartbeat(connection, data, 479, Language::JAVA, self.now);
        self.registry.check_invariants();
        effects
    }

    /// A member of consumer group `group`, subscribed to topic `T`. Returns the groups that changed.
    fn consume(&mut self, connection: ConnectionKey, client_id: &str, group: &str) -> Vec<String> {
        let effects =
            self.hear(connection, &heartbeat(client_id, &[consumer(group, &[subscription("T", 1)])], &[]));
        assert_eq!(effects.refused, []);
        effects.groups_changed
    }

    fn disconnect(&mut self, connection: ConnectionKey) -> Vec<String> {
        let changed = self.registry.on_disconnected(connection);
        self.registry.check_invariants();
        changed
    }

    fn unregister(
        &mut self,
        connection: ConnectionKey,
        client_id: &str,
        producer_group: Option<&str>,
        consumer_group: Option<&str>,
    ) -> Vec<String> {
        let changed = self.registry.on_unregister(connection, client_id, producer_group, consumer_group);
        self.registry.check_invariants();
        changed
    }

    fn expire(&mut self, age_max: Duration) -> (Vec<String>, Vec<ConnectionKey>) {
        let expired = self.registry.expire(self.now, age_max);
        self.registry.check_invariants();
        expired
    }

    fn ids(&self, group: &str) -> Option<Vec<&str>> {
        self.registry.consumer_ids(group).map(Iterator::collect)
    }

    fn channels(&self, group: &str) -> Vec<ConnectionKey> {
        self.registry.channels(group).collect()
    }

    fn topics(&self, group: &str) -> Vec<&str> {
        self.registry.subscriptions(group).map(|data| data.topic.as_str()).collect()
    }
}

impl ClientRegistry {
    /// Both views of the memberships agree, no group is empty, and the bytes are the sum of what is there.
    fn check_invariants(&self) {
        let everybody = |_: &Member| true;
        let mut memberships = BTreeSet::new();
        for (group, consumers) in &self.consumers {
            assert!(!consumers.members.is_empty(), "{group} is here without members");
            memberships.extend(consumers.members.memberships_where(Role::Consumer, group, everybody));
        }
        for (group, members) in &self.producers {
            assert!(!members.is_empty(), "{group} is here without members");
            memberships.extend(members.memberships_where(Role::Producer, group, everybody));
        }
        assert_eq!(memberships.len(), self.membership_count());
        assert_eq!(memberships, self.index.iter().collect());
        let bytes: usize = self
            .consumers
            .values()
            .map(|group| {
                let subscriptions: Vec<_> = group.subscriptions.iter().cloned().collect();
                assert_eq!(subscriptions::bytes_of_all(&subscriptions), group.subscriptions.bytes());
                group.subscriptions.bytes()
            })
            .sum();
        assert_eq!(bytes, self.subscription_bytes);
    }
}

#[test]
fn asker_is_listed_right_after_its_heartbeat() {
    let mut world = World::new();
    assert_eq!(world.ids("G"), None);
    assert_eq!(world.consume(A, "a", "G"), ["G"]);
    assert_eq!(world.ids("G"), Some(vec!["a"]));
    assert_eq!(world.registry.group_info("G").unwrap().member_count, 1);
}

#[test]
fn ids_are_in_the_same_order_whoever_came_first() {
    let mut world = World::new();
    for (connection, client_id) in [(B, "b"), (C, "10"), (A, "9")] {
        world.consume(connection, client_id, "G");
    }
    assert_eq!(world.ids("G"), Some(vec!["10", "9", "b"]));
}

#[test]
fn second_member_notifies_both() {
    let mut world = World::new();
    world.consume(A, "a", "G");
    assert_eq!(world.consume(B, "b", "G"), ["G"]);
    assert_eq!(world.channels("G"), [A, B]);
}

#[test]
fn heartbeat_without_news_changes_nothing_but_the_time() {
    let mut world = World::new();
    world.consume(A, "a", "G");
    world.now = seconds(30);
    let effects = world.hear(A, &heartbeat("a", &[consumer("G", &[subscription("T", 1)])], &[]));
    assert_eq!(effects, HeartbeatEffects::default());
    let members = world.registry.members(Role::Consumer, "G").unwrap();
    assert_eq!(members.get("a").unwrap().last_heartbeat, seconds(30));
}

#[test]
fn group_is_new_once_until_it_vanishes() {
    let mut world = World::new();
    let unit = ConsumerData { unit_mode: true, ..consumer("G", &[]) };
    let new = vec![NewConsumerGroup { group: "G".to_owned(), unit_mode: true }];
    assert_eq!(world.hear(A, &heartbeat("a", std::slice::from_ref(&unit), &[])).new_consumer_groups, new);
    assert_eq!(world.hear(B, &heartbeat("b", std::slice::from_ref(&unit), &[])).new_consumer_groups, []);
    assert_eq!(world.disconnect(A), ["G"]);
    assert_eq!(world.disconnect(B), [""; 0]);
    assert_eq!(world.ids("G"), None);
    assert_eq!(world.registry.group_info("G"), None);
    assert_eq!(world.hear(A, &heartbeat("a", &[unit], &[])).new_consumer_groups, new);
}

#[test]
fn client_that_comes_by_another_connection_replaces_its_channel() {
    let mut world = World::new();
    world.consume(A, "a", "G");
    assert_eq!(world.consume(B, "a", "G"), ["G"]);
    assert_eq!(world.ids("G"), Some(vec!["a"]));
    assert_eq!(world.channels("G"), [B]);
    // The old connection takes nothing with it.
    assert_eq!(world.disconnect(A), [""; 0]);
    assert_eq!(world.ids("G"), Some(vec!["a"]));
    assert_eq!(world.disconnect(B), [""; 0]);
    assert_eq!(world.ids("G"), None);
}

#[test]
fn lost_connection_takes_all_its_clients_out_of_all_their_groups() {
    let mut world = World::new();
    world.consume(A, "a", "G");
    world.consume(A, "b", "G");
    world.consume(A, "a", "H");
    world.consume(B, "c", "G");
    world.consume(B, "c", "H");
    world.hear(A, &heartbeat("a", &[], &["P"]));
    // Two clients, one connection: told once.
    assert_eq!(world.channels("G"), [A, B]);
    assert_eq!(world.disconnect(A), ["G", "H"]);
    assert_eq!(world.ids("G"), Some(vec!["c"]));
    assert_eq!(world.ids("H"), Some(vec!["c"]));
    assert_eq!(world.registry.producer_channel("P"), None);
    assert_eq!(world.disconnect(A), [""; 0]);
}

#[test]
fn unregistering_leaves_just_the_named_groups() {
    let mut world = World::new();
    for client_id in ["a", "b"] {
        world.consume(A, client_id, "G");
        world.hear(A, &heartbeat(client_id, &[], &["G", "P"]));
    }
    assert_eq!(world.unregister(A, "a", Some(""), Some("G")), ["G"]);
    assert_eq!(world.ids("G"), Some(vec!["b"]));
    assert_eq!(world.registry.members(Role::Producer, "G").unwrap().len(), 2);
    // Producers are told nothing.
    assert_eq!(world.unregister(A, "a", Some("G"), None), [""; 0]);
    assert_eq!(world.registry.members(Role::Producer, "G").unwrap().len(), 1);
    assert_eq!(world.registry.members(Role::Producer, "P").unwrap().len(), 2);
    // Unknown clients and groups, and leaving twice, are nothing.
    assert_eq!(world.unregister(A, "a", Some("?"), Some("G")), [""; 0]);
    assert_eq!(world.unregister(A, "?", Some("P"), Some("?")), [""; 0]);
    assert_eq!(world.unregister(A, "b", Some("G"), Some("G")), [""; 0]);
    assert_eq!(world.ids("G"), None);
    assert_eq!(world.registry.group_count(Role::Consumer), 0);
    assert_eq!(world.registry.group_count(Role::Producer), 1);
}

#[test]
fn unregistering_over_an_old_connection_doesnt_throw_out_the_new_one() {
    let mut world = World::new();
    world.consume(A, "a", "G");
    world.consume(B, "a", "G");
    assert_eq!(world.unregister(A, "a", None, Some("G")), [""; 0]);
    assert_eq!(world.ids("G"), Some(vec!["a"]));
}

#[test]
fn broadcasting_groups_are_never_told() {
    let mut world = World::new();
    let broadcast = |topic: &str| {
        let model = MessageModel::Broadcasting;
        ConsumerData { message_model: model, ..consumer("G", &[subscription(topic, 1)]) }
    };
    for (connection, client_id) in [(A, "a"), (B, "b"), (C, "c")] {
        let effects = world.hear(connection, &heartbeat(client_id, &[broadcast("T")], &[]));
        assert_eq!(effects.groups_changed, [""; 0]);
    }
    assert_eq!(world.hear(A, &heartbeat("a", &[broadcast("U")], &[])).groups_changed, [""; 0]);
    assert_eq!(world.unregister(A, "a", None, Some("G")), [""; 0]);
    assert_eq!(world.disconnect(B), [""; 0]);
    assert_eq!(world.ids("G"), Some(vec!["c"]));
}

#[test]
fn group_is_what_its_last_heartbeat_says() {
    let mut world = World::new();
    world.consume(A, "a", "G");
    let data = ConsumerData {
        consume_type: ConsumeType::Actively,
        message_model: MessageModel::Broadcasting,
        consume_from_where: ConsumeFromWhere::Timestamp,
        ..consumer("G", &[subscription("T", 1)])
    };
    assert_eq!(world.hear(B, &heartbeat("b", &[data], &[])).groups_changed, [""; 0]);
    let info = GroupInfo {
        consume_type: ConsumeType::Actively,
        message_model: MessageModel::Broadcasting,
        consume_from_where: ConsumeFromWhere::Timestamp,
        member_count: 2,
    };
    assert_eq!(world.registry.group_info("G"), Some(info));
}

#[test]
fn newer_subscription_replaces_and_topics_come_and_go() {
    let mut world = World::new();
    let mut changed = |subscriptions: &[SubscriptionData]| {
        let effects = world.hear(A, &heartbeat("a", &[consumer("G", subscriptions)], &[]));
        let versions: Vec<(String, i64)> =
            world.registry.subscriptions("G").map(|data| (data.topic.clone(), data.sub_version)).collect();
        (!effects.groups_changed.is_empty(), versions)
    };
    let is = |topics: &[(&str, i64)]| {
        topics.iter().map(|(topic, version)| ((*topic).to_owned(), *version)).collect::<Vec<_>>()
    };
    assert_eq!(changed(&[subscription("T", 5)]), (true, is(&[("T", 5)])));
    // A new filter for a topic isn't news for the other members; an older one isn't even taken.
    assert_eq!(changed(&[subscription("T", 6)]), (false, is(&[("T", 6)])));
    assert_eq!(changed(&[subscription("T", 5)]), (false, is(&[("T", 6)])));
    assert_eq!(changed(&[subscription("T", 6), subscription("U", 1)]), (true, is(&[("T", 6), ("U", 1)])));
    assert_eq!(changed(&[subscription("V", 1), subscription("U", 0)]), (true, is(&[("U", 1), ("V", 1)])));
    assert_eq!(changed(&[subscription("V", 1)]), (true, is(&[("V", 1)])));
    assert_eq!(changed(&[]), (true, is(&[])));
    // Named twice, the newer one counts.
    assert_eq!(changed(&[subscription("T", 2), subscription("T", 1)]), (true, is(&[("T", 2)])));
}

#[test]
fn heartbeat_without_subscriptions_keeps_those_of_the_group() {
    let mut world = World::new();
    world.consume(A, "a", "G");
    let without = |client_id: &str| HeartbeatData {
        without_sub: true,
        heartbeat_fingerprint: 7,
        ..heartbeat(client_id, &[consumer("G", &[])], &[])
    };
    assert_eq!(world.hear(A, &without("a")).groups_changed, [""; 0]);
    assert_eq!(world.topics("G"), ["T"]);
    assert_eq!(world.hear(B, &without("b")).groups_changed, ["G"]);
    assert_eq!(world.topics("G"), ["T"]);
}

#[test]
fn silent_clients_expire_and_only_idle_connections_are_closed() {
    let mut world = World::new();
    world.consume(A, "a", "G");
    world.consume(B, "b", "G");
    world.hear(B, &heartbeat("b", &[], &["P"]));
    world.now = seconds(120);
    world.consume(C, "c", "G");
    world.hear(B, &heartbeat("b", &[], &["P"]));
    assert_eq!(world.expire(seconds(120)), (vec![], vec![]));
    world.now += Duration::from_nanos(1);
    // `a` and `b` are gone from G, but `b` still produces: its connection lives.
    assert_eq!(world.expire(seconds(120)), (vec!["G".to_owned()], vec![A]));
    assert_eq!(world.ids("G"), Some(vec!["c"]));
    world.now = seconds(241);
    assert_eq!(world.expire(seconds(120)), (vec![], vec![B, C]));
    assert_eq!(world.registry.membership_count(), 0);
    assert_eq!(world.disconnect(B), [""; 0]);
}

#[test]
fn pull_is_filtered_by_the_groups_subscription() {
    let mut world = World::new();
    let filter = |world: &World, group: &str, topic: &str, sub_version: i64| {
        world.registry.filter(group, topic, sub_version).cloned()
    };
    assert_eq!(filter(&world, "G", "T", 0), Err(SubscriptionError::GroupNotOnline));
    let tagged = |sub_string: &str, sub_version: i64| SubscriptionData {
        sub_string: sub_string.to_owned(),
        ..subscription("T", sub_version)
    };
    world.hear(A, &heartbeat("a", &[consumer("G", &[tagged("TagA", 5)])], &[]));
    assert_eq!(filter(&world, "G", "U", 0), Err(SubscriptionError::NotSubscribed));
    assert_eq!(filter(&world, "G", "T", 6), Err(SubscriptionError::NotLatest));
    assert_eq!(filter(&world, "G", "T", 5), Ok(TagFilter::Codes(vec![2_598_919])));
    assert_eq!(filter(&world, "G", "T", 4), Ok(TagFilter::Codes(vec![2_598_919])));
    // What isn't newer isn't taken, be it another text.
    world.hear(A, &heartbeat("a", &[consumer("G", &[tagged("*", 5)])], &[]));
    assert_eq!(filter(&world, "G", "T", 5), Ok(TagFilter::Codes(vec![2_598_919])));
    world.hear(A, &heartbeat("a", &[consumer("G", &[tagged("*", 6)])], &[]));
    assert_eq!(filter(&world, "G", "T", 6), Ok(TagFilter::All));
    assert_eq!(world.registry.subscription("G", "T").unwrap().sub_string, "*");

    let sql = SubscriptionData { expression_type: "SQL92".to_owned(), ..tagged("a > 1", 7) };
    world.hear(A, &heartbeat("a", &[consumer("G", &[sql])], &[]));
    let unsupported = SubscriptionError::TypeNotSupported { expression_type: "SQL92".to_owned() };
    assert_eq!(filter(&world, "G", "T", 8), Err(SubscriptionError::NotLatest));
    assert_eq!(filter(&world, "G", "T", 7), Err(unsupported));
}

#[test]
fn pulls_with_their_own_filter_are_remembered_apart_from_live_groups() {
    let mut world = World::new();
    let pull = PullSubscription {
        group: "G",
        topic: "T",
        expression: Some("TagB || TagA"),
        expression_type: None,
        sub_version: 3,
    };
    world.registry.on_pull_subscription(&pull, seconds(1));
    let data = world.registry.pull_subscription("G", "T").unwrap();
    assert_eq!((data.sub_string.as_str(), data.expression_type.as_str()), ("TagB || TagA", "TAG"));
    assert_eq!(data.tags_set, ["TagB", "TagA"]);
    assert_eq!(data.code_set, [2_598_920, 2_598_919]);
    assert_eq!(world.registry.group_info("G"), None);
    assert_eq!(world.ids("G"), None);
    assert_eq!(world.registry.subscription("G", "T"), None);
    assert_eq!(world.registry.filter("G", "T", 0), Err(SubscriptionError::GroupNotOnline));

    // Another version replaces it, an older one too: the last pull counts.
    let all = PullSubscription { expression: Some(""), sub_version: 2, ..pull };
    world.registry.on_pull_subscription(&all, seconds(2));
    assert_eq!(world.registry.pull_subscription("G", "T").unwrap().sub_string, "*");
    // Repeating it keeps it alive, silence doesn't.
    world.registry.on_pull_subscription(&all, seconds(500));
    world.now = seconds(1100);
    world.expire(seconds(120));
    assert!(world.registry.pull_subscription("G", "T").is_some());
    world.now = seconds(1101);
    world.expire(seconds(120));
    assert!(world.registry.pull_subscription("G", "T").is_none());
    assert_eq!(world.registry.pull_subscriptions_unrecorded(), 0);
}

#[test]
fn pulls_that_dont_fit_are_counted_and_room_comes_back() {
    let limits = ClientRegistryLimits { pull_subscription_bytes_max: 2_000, ..ClientRegistryLimits::DEFAULT };
    let mut world = World::limited(limits);
    let long = "x".repeat(100);
    let mut pull = |topic: &str, now: Duration| {
        let pull = PullSubscription {
            group: "G",
            topic,
            expression: Some(&long),
            expression_type: Some("SQL92"),
            sub_version: 1,
        };
        world.registry.on_pull_subscription(&pull, now);
        world.registry.expire(now, seconds(120));
        world.registry.pull_subscription("G", topic).is_some()
    };
    let taken = (0..100).filter(|index| pull(&format!("T{index}"), seconds(1))).count();
    assert!((1..20).contains(&taken), "{taken} were taken");
    assert!(!pull("U", seconds(601)));
    // The expiry that makes room comes after this one.
    assert!(!pull("U", seconds(602)));
    assert!(pull("U", seconds(602)));
    assert_eq!(world.registry.pull_subscriptions_unrecorded(), 100 - taken as u64 + 2);
}

#[test]
fn transaction_checks_go_round_the_producers() {
    let mut world = World::new();
    assert_eq!(world.registry.producer_channel("P"), None);
    for (connection, client_id) in [(A, "a"), (B, "b"), (C, "c")] {
        world.hear(connection, &heartbeat(client_id, &[], &["P"]));
    }
    let mut next = |count: usize| (0..count).filter_map(|_| world.registry.producer_channel("P")).collect();
    let round: Vec<ConnectionKey> = next(4);
    assert_eq!(round, [A, B, C, A]);
    world.disconnect(A);
    assert_eq!(world.registry.producer_channel("P"), Some(B));
    // Consumers of that name aren't producers.
    world.consume(A, "a", "Q");
    assert_eq!(world.registry.producer_channel("Q"), None);
}

#[test]
fn each_bound_refuses_with_its_reason_and_changes_nothing() {
    let limits = ClientRegistryLimits {
        group_count_max: 3,
        client_count_per_group_max: 2,
        membership_count_max: 5,
        membership_count_per_connection_max: 3,
        name_bytes_max: 4,
        subscription_count_per_group_max: 2,
        subscription_bytes_max: 3_000,
        ..ClientRegistryLimits::DEFAULT
    };
    let refused = |world: &mut World, connection: ConnectionKey, client_id: &str, data: ConsumerData| {
        let effects = world.hear(connection, &heartbeat(client_id, &[data], &[]));
        assert_eq!(effects.groups_changed.is_empty(), !effects.refused.is_empty(), "{effects:?}");
        effects.refused.first().map(|refused| refused.reason)
    };
    let plain = |group: &str| consumer(group, &[subscription("T", 1)]);
    let mut world = World::limited(limits);
    let too_long = Some(RefusalReason::ClientIdLength { bytes: 5, bytes_max: 4 });
    assert_eq!(refused(&mut world, A, "aaaaa", plain("G")), too_long);
    let empty = Some(RefusalReason::ClientIdLength { bytes: 0, bytes_max: 4 });
    assert_eq!(refused(&mut world, A, "", plain("G")), empty);
    let too_long = Some(RefusalReason::GroupNameLength { bytes: 5, bytes_max: 4 });
    assert_eq!(refused(&mut world, A, "a", plain("GGGGG")), too_long);
    assert_eq!(
        refused(&mut world, A, "a", consumer("G", &[subscription("", 1)])),
        Some(RefusalReason::NoTopic)
    );
    let three = [subscription("T", 1), subscription("U", 1), subscription("V", 1)];
    let too_many = Some(RefusalReason::TooManySubscriptions { count: 3, count_max: 2 });
    assert_eq!(refused(&mut world, A, "a", consumer("G", &three)), too_many);
    let large = SubscriptionData { sub_string: "x".repeat(3_000), ..subscription("T", 1) };
    let too_much = Some(RefusalReason::TooManySubscriptionBytes { bytes_max: 3_000 });
    assert_eq!(refused(&mut world, A, "a", consumer("G", &[large])), too_much);
    assert_eq!(world.registry.membership_count(), 0);

    assert_eq!(refused(&mut world, A, "a", plain("G")), None);
    assert_eq!(refused(&mut world, A, "b", plain("G")), None);
    let too_many = Some(RefusalReason::TooManyClients { count_max: 2 });
    assert_eq!(refused(&mut world, A, "c", plain("G")), too_many);
    assert_eq!(refused(&mut world, A, "a", plain("H")), None);
    let too_many = Some(RefusalReason::TooManyMembershipsOfConnection { count_max: 3 });
    assert_eq!(refused(&mut world, A, "a", plain("I")), too_many);
    assert_eq!(refused(&mut world, B, "a", plain("I")), None);
    let too_many = Some(RefusalReason::TooManyGroups { count_max: 3 });
    assert_eq!(refused(&mut world, B, "a", plain("J")), too_many);
    assert_eq!(refused(&mut world, B, "b", plain("I")), None);
    let too_many = Some(RefusalReason::TooManyMemberships { count_max: 5 });
    assert_eq!(refused(&mut world, C, "b", plain("H")), too_many);
    // A member that moves needs room on its new connection, and no other.
    assert_eq!(refused(&mut world, B, "a", plain("H")), None);
    let too_many = Some(RefusalReason::TooManyMembershipsOfConnection { count_max: 3 });
    assert_eq!(refused(&mut world, B, "a", plain("G")), too_many);
    assert_eq!(world.ids("G"), Some(vec!["a", "b"]));
    // Whoever is in stays in.
    let effects = world.hear(A, &heartbeat("a", &[plain("G")], &[]));
    assert_eq!(effects, HeartbeatEffects::default());
}

#[test]
fn refusal_of_one_group_costs_the_others_nothing() {
    let limits = ClientRegistryLimits { group_count_max: 1, ..ClientRegistryLimits::DEFAULT };
    let mut world = World::limited(limits);
    let plain = |group: &str| consumer(group, &[subscription("T", 1)]);
    let effects = world.hear(A, &heartbeat("a", &[plain("G"), plain("H")], &["P", "Q"]));
    assert_eq!(effects.groups_changed, ["G"]);
    let reason = RefusalReason::TooManyGroups { count_max: 1 };
    assert_eq!(
        effects.refused,
        [Refused::new(Role::Consumer, "H", reason), Refused::new(Role::Producer, "Q", reason)]
    );
    assert_eq!(effects.refused[0].to_string(), "consumer group \"H\": the broker has 1 groups, the maximum");
    assert!(world.registry.members(Role::Producer, "P").is_some());
}

#[test]
fn full_subscriptions_may_shrink_and_stay() {
    let large = |topic: &str, version: i64, bytes: usize| SubscriptionData {
        sub_string: "x".repeat(bytes),
        ..subscription(topic, version)
    };
    let bytes = subscriptions::bytes_of(&large("T", 1, 900));
    let limits = ClientRegistryLimits { subscription_bytes_max: bytes, ..ClientRegistryLimits::DEFAULT };
    let mut world = World::limited(limits);
    let mut refused = |data: SubscriptionData| {
        !world.hear(A, &heartbeat("a", &[consumer("G", &[data])], &[])).refused.is_empty()
    };
    assert!(!refused(large("T", 1, 900)));
    assert!(!refused(large("T", 1, 900)));
    assert!(refused(large("T", 2, 901)));
    assert!(!refused(large("T", 2, 900)));
    assert!(!refused(large("T", 3, 10)));
    assert!(!refused(large("T", 4, 900)));
}
