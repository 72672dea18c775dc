//! The stored record: how a message is encoded into the log, in the form a pull sends.
//!
//! RocketMQ's layout, field for field (store format, section 2.1); `protocol::message` documents and decodes it.
//! What each field defends against: TOTALSIZE and the three inner lengths against a cut record, MAGIC against
//! anything that is no record, BODYCRC against damage to the body, PHYSICALOFFSET against a record in the wrong
//! place, QUEUEOFFSET against a lost or doubled one.

use std::net::{IpAddr, SocketAddr};

use protocol::message::{MAGIC_BLANK, MAGIC_V1, MAGIC_V2, body_crc, sys_flag};

use crate::offset::{LogOffset, QueueOffset};

/// Bytes of the blank that ends a file: its length and [`MAGIC_BLANK`]. At least this many bytes stay free behind
/// the last record of a file.
pub const BLANK_BYTES: usize = 8;

/// Bytes of a record around host addresses, body, topic and properties: everything of fixed length, with a
/// one-byte topic length.
const FIXED_BYTES: usize = 75;

/// The longest topic, in bytes, that the one-byte topic length of a V1 record can hold.
const TOPIC_BYTES_MAX_V1: usize = 127;

/// A message as it is stored, without what the append assigns.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Topic, at most 255 bytes.
    pub topic: &'a str,
    /// Queue of the topic.
    pub queue_id: u32,
    /// The producer's flag, stored as it is.
    pub flag: i32,
    /// RocketMQ's sysFlag; the two address-family bits are set by the encoder.
    pub sys_flag: i32,
    /// When the producer made it, milliseconds since 1970, by the producer's clock.
    pub born_timestamp_ms: i64,
    /// The producer's address.
    pub born_host: SocketAddr,
    /// The broker's advertised address: message ids are made from it.
    pub store_host: SocketAddr,
    /// How often it was consumed in vain.
    pub reconsume_times: i32,
    /// Log offset of the half message that this one commits; 0 otherwise.
    pub prepared_transaction_offset: i64,
    /// Body as received, compressed or not.
    pub body: &'a [u8],
    /// Properties, `name 0x01 value 0x02 ...`, at most 32,767 bytes.
    pub properties: &'a str,
}

/// What the append assigns to a record, all at the same point.
#[derive(Clone, Copy, Debug)]
pub struct Assigned {
    /// Its ordinal in the queue.
    pub queue_offset: QueueOffset,
    /// Its place in the log.
    pub log_offset: LogOffset,
    /// Milliseconds since 1970; never before the previous record's.
    pub store_timestamp_ms: i64,
}

impl Message<'_> {
    /// Length of its record in bytes.
    ///
    /// # Panics
    /// When topic or properties are longer than their documented bounds: the caller has refused those.
    #[must_use]
    pub fn record_bytes(&self) -> usize {
        assert!(self.topic.len() <= 255, "a topic is at most 255 bytes, not {}", self.topic.len());
        assert!(
            self.properties.len() <= i16::MAX as usize,
            "properties are at most 32767 bytes, not {}",
            self.properties.len()
        );
        FIXED_BYTES
            + host_bytes(self.born_host)
            + host_bytes(self.store_host)
            + self.body.len()
            + usize::from(self.is_v2())
            + self.topic.len()
            + self.properties.len()
    }

    /// Encodes its record into `room`, which is exactly [`Message::record_bytes`] long.
    ///
    /// # Panics
    /// When `room` has another length, or the record's doesn't fit an `i32`.
    pub fn encode(&self, assigned: Assigned, room: &mut [u8]) {
        let total = i32::try_from(room.len()).expect("a record is bounded by the message size limit");
        let mut family = 0;
        if self.born_host.is_ipv6() {
            family |= sys_flag::BORNHOST_V6;
        }
        if self.store_host.is_ipv6() {
            family |= sys_flag::STOREHOST_V6;
        }
        let kept = self.sys_flag & !(sys_flag::BORNHOST_V6 | sys_flag::STOREHOST_V6);
        let mut out = Out { room, at: 0 };
        out.i32(total);
        out.i32(if self.is_v2() { MAGIC_V2 } else { MAGIC_V1 });
        out.i32(body_crc(self.body));
        out.i32(self.queue_id.cast_signed());
        out.i32(self.flag);
        out.i64(assigned.queue_offset.as_i64());
        out.i64(assigned.log_offset.as_i64());
        out.i32(kept | family);
        out.i64(self.born_timestamp_ms);
        out.host(self.born_host);
        out.i64(assigned.store_timestamp_ms);
        out.host(self.store_host);
        out.i32(self.reconsume_times);
        out.i64(self.prepared_transaction_offset);
        out.i32(i32::try_from(self.body.len()).expect("a body is bounded by the message size limit"));
        out.bytes(self.body);
        if self.is_v2() {
            out.bytes(&u16::try_from(self.topic.len()).expect("at most 255").to_be_bytes());
        } else {
            out.bytes(&[u8::try_from(self.topic.len()).expect("at most 127")]);
        }
        out.bytes(self.topic.as_bytes());
        out.bytes(&u16::try_from(self.properties.len()).expect("at most 32767").to_be_bytes());
        out.bytes(self.properties.as_bytes());
        assert_eq!(out.at, out.room.len(), "a record fills exactly the room its length asked for");
    }

    /// V1 records have a one-byte topic length; longer topics need V2.
    fn is_v2(&self) -> bool {
        self.topic.len() > TOPIC_BYTES_MAX_V1
    }
}

/// Encodes the blank that ends a file with `left` bytes left, of which `room` is the first [`BLANK_BYTES`].
///
/// # Panics
/// When fewer than [`BLANK_BYTES`] are left.
pub fn encode_blank(left: u64, room: &mut [u8]) {
    assert!(left >= BLANK_BYTES as u64, "an append leaves room for the blank, not {left} bytes");
    let mut out = Out { room, at: 0 };
    out.i32(i32::try_from(left).expect("a file is at most 2 GiB"));
    out.i32(MAGIC_BLANK);
}

fn host_bytes(host: SocketAddr) -> usize {
    if host.is_ipv6() { 20 } else { 8 }
}

/// Big-endian writing, in order.
struct Out<'a> {
    room: &'a mut [u8],
    at: usize,
}

impl Out<'_> {
    fn bytes(&mut self, bytes: &[u8]) {
        self.room[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    fn i32(&mut self, value: i32) {
        self.bytes(&value.to_be_bytes());
    }

    fn i64(&mut self, value: i64) {
        self.bytes(&value.to_be_bytes());
    }

    fn host(&mut self, host: SocketAddr) {
        match host.ip() {
            IpAddr::V4(ip) => self.bytes(&ip.octets()),
            IpAddr::V6(ip) => self.bytes(&ip.octets()),
        }
        self.i32(i32::from(host.port()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector() -> Message<'static> {
        Message {
            topic: "TopicTest",
            queue_id: 1,
            flag: 0,
            sys_flag: 0,
            born_timestamp_ms: 1_700_000_000_000,
            born_host: "127.0.0.1:50000".parse().unwrap(),
            store_host: "127.0.0.1:10911".parse().unwrap(),
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body: b"hello",
            properties: "TAGS\u{1}TagA\u{2}",
        }
    }

    fn encode(message: &Message, queue_offset: u64) -> Vec<u8> {
        let mut room = vec![0xA5; message.record_bytes()];
        let assigned = Assigned {
            queue_offset: QueueOffset::new(queue_offset),
            log_offset: LogOffset::ZERO,
            store_timestamp_ms: 1_700_000_000_123,
        };
        message.encode(assigned, &mut room);
        room
    }

    /// The vector of the store format, section 6, which RocketMQ's own bytes confirm.
    #[test]
    fn a_record_is_rocketmqs_byte_for_byte() {
        let hex: String = encode(&vector(), 3).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex,
            "00000073daa320a73610a68600000001000000000000000000000003000000000000000000000000\
             0000018bcfe568007f0000010000c3500000018bcfe5687b7f00000100002a9f0000000000000000\
             000000000000000568656c6c6f09546f70696354657374000a54414753015461674102"
        );
    }

    #[test]
    fn every_mix_of_address_families_and_topic_lengths_decodes_to_itself() {
        let long = "t".repeat(200);
        for born in ["127.0.0.1:1", "[::1]:1"] {
            for store in ["10.0.0.1:2", "[fe80::2]:2"] {
                for topic in ["T", long.as_str()] {
                    let message = Message {
                        topic,
                        born_host: born.parse().unwrap(),
                        store_host: store.parse().unwrap(),
                        body: b"",
                        properties: "",
                        ..vector()
                    };
                    let bytes = encode(&message, 0);
                    let (stored, len) = protocol::message::StoredMessage::decode(&bytes).unwrap();
                    assert_eq!((len, stored.topic, stored.body_crc), (bytes.len(), topic, 0));
                    assert_eq!(stored.sys_flag & sys_flag::BORNHOST_V6 != 0, born.starts_with('['));
                    assert_eq!(stored.sys_flag & sys_flag::STOREHOST_V6 != 0, store.starts_with('['));
                }
            }
        }
    }

    #[test]
    fn a_blank_names_the_bytes_left() {
        let mut room = [0; BLANK_BYTES];
        encode_blank(300, &mut room);
        assert_eq!(room, [0, 0, 1, 0x2C, 0xCB, 0xD4, 0x31, 0x94]);
    }
}
