//! The captured heartbeats of seven clients, and what the Java broker made of them.

use std::{fs, path::PathBuf};

use protocol::{
    Session,
    body::ConsumerList,
    code::{request, response},
    frame::FRAME_BYTES_MAX,
    header::group::{ConsumerGroupRequest, UnregisterClientRequest},
};
use serde_json::Value;

use super::*;

/// The registry beside a captured broker. A capture doesn't tell connections apart: each client id has its own.
struct Replay {
    world: World,
    connections: BTreeMap<String, ConnectionKey>,
    changed: BTreeSet<String>,
    /// Groups that some heartbeat in this capture named; few frames of each kind were kept.
    heard: BTreeSet<String>,
    /// Group by opaque of the last 38.
    asked: BTreeMap<i32, String>,
    counts: Counts,
}

#[derive(Debug, Default, PartialEq)]
struct Counts {
    heartbeats: usize,
    leavings: usize,
    notices: usize,
    lists: usize,
}

impl Replay {
    fn connection(&mut self, client_id: &str) -> ConnectionKey {
        let next = ConnectionKey(self.connections.len() as u64);
        *self.connections.entry(client_id.to_owned()).or_insert(next)
    }

    fn on_frame(&mut self, bytes: &[u8]) {
        let mut session = Session::new(FRAME_BYTES_MAX);
        session.on_bytes(bytes);
        let command = session.poll_command().unwrap().expect("a whole frame");
        match (command.is_response(), command.code) {
            (false, request::HEART_BEAT) => {
                self.on_heartbeat(&HeartbeatData::from_json(command.body).unwrap());
            }
            (false, request::UNREGISTER_CLIENT) => {
                let leaving = UnregisterClientRequest::decode(command.fields).unwrap();
                self.on_leaving(&leaving);
            }
            (false, request::NOTIFY_CONSUMER_IDS_CHANGED) => {
                let group = ConsumerGroupRequest::decode(command.fields).unwrap().consumer_group;
                if self.heard.contains(group) {
                    assert!(self.changed.contains(group), "the Java broker told {group}, we wouldn't");
                    self.counts.notices += 1;
                }
            }
            (false, request::GET_CONSUMER_LIST_BY_GROUP) => {
                let group = ConsumerGroupRequest::decode(command.fields).unwrap().consumer_group;
                self.asked.insert(command.opaque, group.to_owned());
            }
            (true, code) => self.on_list(command.opaque, code, command.body),
            _ => {}
        }
    }

    fn on_heartbeat(&mut self, data: &HeartbeatData) {
        let connection = self.connection(&data.client_id);
        let effects = self.world.hear(connection, data);
        assert_eq!(effects.refused, [], "{data:?}");
        self.changed.extend(effects.groups_changed);
        self.counts.heartbeats += 1;
        for consumer in &data.consumer_data {
            let group = &consumer.group_name;
            self.heard.insert(group.clone());
            let ids = self.world.ids(group).expect("the group lives");
            assert!(ids.contains(&data.client_id.as_str()), "{ids:?} without {}", data.client_id);
            for subscribed in &consumer.subscriptions {
                // Every captured subscription of a heartbeat is to all messages, whatever else it leaves out.
                let filter = self.world.registry.filter(group, &subscribed.topic, subscribed.sub_version);
                assert_eq!(filter, Ok(&TagFilter::All), "{subscribed:?}");
            }
            assert_eq!(self.world.topics(group).len(), consumer.subscriptions.len());
        }
        for producer in &data.producer_data {
            assert!(self.world.registry.producer_channel(&producer.group_name).is_some());
        }
    }

    fn on_leaving(&mut self, leaving: &UnregisterClientRequest<'_>) {
        let (producer, consumer) = (leaving.producer_group, leaving.consumer_group);
        let connection = self.connection(leaving.client_id);
        self.world.unregister(connection, leaving.client_id, producer, consumer);
        if let Some(group) = consumer {
            assert!(!self.world.ids(group).unwrap_or_default().contains(&leaving.client_id));
        }
        self.counts.leavings += 1;
    }

    fn on_list(&mut self, opaque: i32, code: i32, body: &[u8]) {
        let Some(group) = self.asked.remove(&opaque).filter(|group| self.heard.contains(group)) else {
            return;
        };
        assert_eq!(code, response::SUCCESS, "{group}");
        let list = ConsumerList::from_json(body).unwrap();
        let ids = self.world.ids(&group).expect("the Java broker lists it");
        assert_eq!(list.consumer_id_list, ids, "{group}");
        self.counts.lists += 1;
    }
}

fn replay(file: &str) -> Counts {
    let directory = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/golden/frames"));
    let path = directory.join(file);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut replay = Replay {
        world: World::new(),
        connections: BTreeMap::new(),
        changed: BTreeSet::new(),
        heard: BTreeSet::new(),
        asked: BTreeMap::new(),
        counts: Counts::default(),
    };
    let codes = [
        request::HEART_BEAT,
        request::UNREGISTER_CLIENT,
        request::GET_CONSUMER_LIST_BY_GROUP,
        request::NOTIFY_CONSUMER_IDS_CHANGED,
    ];
    for line in text.lines() {
        let frame: Value = serde_json::from_str(line).unwrap();
        if codes.iter().any(|code| frame["requestCode"] == *code) {
            replay.on_frame(&from_hex(frame["hex"].as_str().unwrap()));
        }
    }
    replay.counts
}

fn from_hex(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        hex.chars().map(|digit| u8::try_from(digit.to_digit(16).unwrap()).unwrap()).collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

#[test]
fn golden_heartbeats_make_the_groups_the_java_broker_listed_and_told() {
    let of_java = Counts { heartbeats: 4, leavings: 2, notices: 2, lists: 2 };
    assert_eq!(replay("java-4.9.7-json.jsonl"), of_java);
    assert_eq!(replay("java-4.9.7-rocketmq.jsonl"), of_java);
    assert_eq!(replay("java-5.3.3-json-broker-4.9.7.jsonl"), of_java);
    assert_eq!(replay("java-5.3.3-json-broker-5.1.4.jsonl"), of_java);
    assert_eq!(replay("java-5.3.3-rocketmq-broker-5.1.4.jsonl"), of_java);
    let of_others = Counts { heartbeats: 14, leavings: 2, notices: 6, lists: 8 };
    assert_eq!(replay("other-clients.jsonl"), of_others);
}
