//! The fuzz targets without a fuzzer: the committed corpus is replayed, and changed at random with fixed seeds.
//!
//! The corpus begins with seeds written here; what a fuzzer finds is added beside them. To write the seeds anew after a
//! change: `RINGMQ_WRITE_CORPUS=1 cargo test -p protocol fuzz`.

use std::fs;
use std::path::PathBuf;

use protocol::body::{DataVersion, RegisterBrokerBody, TopicConfig};
use protocol::fuzz::TARGETS;
use protocol::message::{BatchItem, write_batch_item};
use protocol::{Serialization, write_request, write_response};

use crate::support::Random;
use crate::{body, record, vectors};

fn folder(target: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus")).join(target)
}

/// Everything in the corpus of one target, in the order of its names.
fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let mut paths: Vec<_> =
        fs::read_dir(folder(target)).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// The first seeds of every target, by target and name.
fn seeds() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let mut seeds = Vec::new();
    let in_pieces = |piece: u8, stream: &[u8]| [&[piece], stream].concat();
    for (name, serialization) in
        [("send_json", Serialization::Json), ("send_binary", Serialization::RocketMq)]
    {
        let mut stream = Vec::new();
        write_request(&mut stream, serialization, 310, 2, 0)
            .field("a", "PG")
            .field("i", "TAGS\x01TagA\x02")
            .finish_with_body(b"hello");
        write_response(&mut stream, serialization, 19, -1)
            .field_int("minOffset", 0)
            .remark("none\nyet")
            .finish();
        seeds.push(("session", name, in_pieces(3, &stream)));
    }
    let lenient = "{\"code\":310,\"extFields\":{\"d\":4,\"k\":true,\"z\":null,\"o\":{\"a\":[1.5e3]}},\"language\":9,\"remark\":\"\\ud83d\\ude00\\ud800\"}\n";
    seeds.push(("session", "lenient_json", in_pieces(1, &vectors::framed(lenient))));
    seeds.push(("session", "too_long", in_pieces(1, &(17 * 1024 * 1024_i32).to_be_bytes())));
    seeds.push(("session", "header_beyond_frame", in_pieces(9, &[0, 0, 0, 8, 0, 0, 0, 5, 1, 2, 3, 4])));
    seeds.push(("stored_message", "v1", record::vector()));
    seeds.push(("stored_message", "v2_with_long_hosts", record::v2_record()));
    seeds.push(("lenient_json", "heartbeat", body::HEARTBEAT.into()));
    seeds.push(("lenient_json", "route", body::ROUTE_STANDARD.into()));
    seeds.push(("lenient_json", "cluster", body::CLUSTER.into()));
    seeds.push(("lenient_json", "object_keys", br#"{"offsetTable":{{"queueId":0,"topic":"T"}:3}}"#.to_vec()));
    seeds.push(("lenient_json", "offsets", b"{\"offsetTable\":{\"T@G\":{0:1,\"1\":2}}}\n".to_vec()));
    seeds.push(("lenient_json", "topic_list", br#"{"topicList":["T"],"brokerAddr":null}"#.to_vec()));
    let mut registration = RegisterBrokerBody {
        data_version: DataVersion { counter: 1, state_version: 0, timestamp: 2 },
        ..RegisterBrokerBody::default()
    };
    registration.topic_config_table.insert("T".to_owned(), TopicConfig::new("T", 4));
    seeds.push(("register_body", "plain", in_pieces(0x20, &registration.encode_plain())));
    seeds.push(("register_body", "plain_before_37", in_pieces(0x00, &registration.encode_plain_before_37())));
    seeds.push(("register_body", "compressed", in_pieces(0x21, &registration.encode_compressed(479))));
    seeds.push(("register_body", "inflated", in_pieces(0x22, &registration.encode_inflated(479))));
    seeds.push(("register_body", "inflated_4_9", in_pieces(0x12, &registration.encode_inflated(407))));
    seeds.push(("properties", "usual", b"KEYS\x01k1\x02WAIT\x01true\x02TAGS\x01TagA\x02".to_vec()));
    seeds.push(("properties", "dropped", b"A\x011\x02B\x01\x02\x02C\x02A\x01x".to_vec()));
    let mut batch = Vec::new();
    for item in [("one", "KEYS\x01k1\x02"), ("", "")] {
        write_batch_item(&mut batch, &BatchItem { flag: 7, body: item.0.as_bytes(), properties: item.1 });
    }
    seeds.push(("batch", "two_items", batch));
    seeds.push(("message_id", "v4", b"0A00000100002A9F000000000000012C".to_vec()));
    seeds.push(("message_id", "v6", b"000000000000000000000000000000010000FFFF7FFFFFFFFFFFFFFF".to_vec()));
    seeds
}

#[test]
fn every_seed_is_in_the_corpus() {
    let write = std::env::var_os("RINGMQ_WRITE_CORPUS").is_some();
    for (target, name, bytes) in seeds() {
        let path = folder(target).join(name);
        if write {
            fs::create_dir_all(folder(target)).unwrap();
            fs::write(&path, &bytes).unwrap();
        }
        let found = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(found, bytes, "{}", path.display());
    }
}

#[test]
fn corpus_replays() {
    for (target, run) in TARGETS {
        let corpus = corpus(target);
        assert!(!corpus.is_empty(), "{target} has no corpus");
        for (path, bytes) in corpus {
            println!("{}", path.display());
            run(&bytes);
        }
    }
}

#[test]
fn corpus_changed_at_random_holds_every_property() {
    for (target, run) in TARGETS {
        let seeds: Vec<_> = corpus(target).into_iter().map(|(_, bytes)| bytes).collect();
        for seed in 0..4_000 {
            let mut random = Random(seed);
            let mut bytes = seeds[random.below(seeds.len())].clone();
            for _ in 0..1 + random.below(4) {
                change(&mut bytes, &seeds, &mut random);
            }
            println!("{target} seed {seed}: {bytes:02x?}");
            run(&bytes);
        }
    }
}

/// One change, as fuzzers make them.
fn change(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut Random) {
    const INTERESTING: [&[u8]; 8] =
        [&[0xff; 4], &[0; 4], &[0x7f, 0xff, 0xff, 0xff], &[0x80], b"\"", b"\\u", b"{\"a\":", &[1, 2]];
    let at = random.below(bytes.len() + 1);
    match random.below(6) {
        0 => bytes.truncate(at),
        1 => bytes.insert(at, random.next() as u8),
        2 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
        3 => {
            let piece = INTERESTING[random.below(INTERESTING.len())];
            let end = (at + piece.len()).min(bytes.len());
            bytes[at..end].copy_from_slice(&piece[..end - at]);
        }
        4 => {
            let piece = INTERESTING[random.below(INTERESTING.len())];
            bytes.splice(at..at, piece.iter().copied());
        }
        _ => {
            let other = &seeds[random.below(seeds.len())];
            let start = random.below(other.len() + 1);
            bytes.splice(at.., other[start..].iter().copied());
        }
    }
}
