//! The messages that every benchmark works on: 1 KiB bodies from a fixed seed, sent as Java's producer sends them, with a
//! unique key, a tag, a key and `WAIT=true`.

use std::net::{Ipv4Addr, SocketAddr};

use engine::commit_log::record::Message;
use protocol::{Serialization, code::request, header::send::SendRequest, write_request};

/// Bytes of each body.
pub const BODY_BYTES: usize = 1_024;
/// The topic that all go to.
pub const TOPIC: &str = "BenchTopic";
/// Its queues; messages take turns.
pub const QUEUES: u32 = 4;
/// Where the broker says it is.
pub const BROKER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 10_911);
/// Where the producer says it is.
const PRODUCER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 50_000);
/// Born and stored then, milliseconds since 1970.
pub const TIME_MS: i64 = 1_796_134_607_123;
const SEED: u64 = 0x0052_494E_474D_5131;
/// Different messages; more than a group, so that no two neighbours are equal.
const COUNT: usize = 64;

/// The two serialisations, with names for figures.
pub const SERIALIZATIONS: [(Serialization, &str); 2] =
    [(Serialization::Json, "json"), (Serialization::RocketMq, "rocketmq")];

/// See the module.
pub struct Requests {
    bodies: Vec<Vec<u8>>,
    properties: Vec<String>,
}

impl Default for Requests {
    fn default() -> Requests {
        Requests::new()
    }
}

impl Requests {
    /// The messages, always the same.
    #[must_use]
    pub fn new() -> Requests {
        let mut random = Random(SEED);
        let body = |random: &mut Random| {
            let words = std::iter::repeat_with(|| random.next().to_le_bytes()).take(BODY_BYTES / 8);
            words.flatten().collect()
        };
        let bodies = std::iter::repeat_with(|| body(&mut random)).take(COUNT).collect();
        let property = |number: usize| {
            let unique = format!("7F0000010A8C18B4AAC2{number:012X}");
            format!(
                "UNIQ_KEY\u{1}{unique}\u{2}KEYS\u{1}order-{number:08}\u{2}WAIT\u{1}true\u{2}TAGS\u{1}TagA\u{2}"
            )
        };
        Requests { bodies, properties: (0..COUNT).map(property).collect() }
    }

    /// The queue of message `number`.
    #[must_use]
    pub fn queue_id(number: usize) -> u32 {
        u32::try_from(number % QUEUES as usize).expect("less than the number of queues")
    }

    /// Message `number` as the broker stores it, but for the properties that it adds.
    #[must_use]
    pub fn message(&self, number: usize) -> Message<'_> {
        Message {
            topic: TOPIC,
            queue_id: Requests::queue_id(number),
            flag: 0,
            sys_flag: 0,
            born_timestamp_ms: TIME_MS,
            born_host: PRODUCER,
            store_host: BROKER,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body: &self.bodies[number % COUNT],
            properties: &self.properties[number % COUNT],
        }
    }

    /// Appends the frame of the request that sends message `number`; `opaque` is its number.
    pub fn write(&self, out: &mut Vec<u8>, serialization: Serialization, number: usize) {
        let opaque = i32::try_from(number).expect("far fewer are sent");
        let send = SendRequest {
            producer_group: "bench-producer",
            topic: TOPIC,
            default_topic: "TBW102",
            default_topic_queue_nums: 4,
            queue_id: i32::try_from(Requests::queue_id(number)).expect("less than the number of queues"),
            sys_flag: 0,
            born_timestamp_ms: TIME_MS,
            flag: 0,
            properties: &self.properties[number % COUNT],
            reconsume_times: 0,
            unit_mode: false,
            max_reconsume_times: None,
            batch: false,
        };
        let writer = write_request(out, serialization, request::SEND_MESSAGE_V2, opaque, 0);
        send.encode(writer).finish_with_body(&self.bodies[number % COUNT]);
    }
}

/// SplitMix64: the same numbers for the same seed, on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}
