//! Send requests encoded once per queue: per message only the opaque, the born timestamp, the unique key and the
//! frame's length are patched, each in place and of fixed width, and the body copied behind. Nothing is allocated.
//!
//! The places are found by encoding sentinels of the same width and searching for them, so the template stays right
//! whatever order the encoder writes fields in.

use protocol::header::send::SendRequest;
use protocol::{Serialization, properties, write_request};

/// Opaques start here, so that they have ten decimal digits for as long as a run lasts.
pub const OPAQUE_BASE: i32 = 1_000_000_000;

const OPAQUE_SENTINEL: i32 = 1_987_654_321;
const BORN_SENTINEL: i64 = 1_357_924_680_135;
const UNIQUE_SENTINEL: &str = "0F1E2D3C4B5A69788796A5B4C3D2E1F0";
const BORN_DIGITS: usize = 13;
const OPAQUE_DIGITS: usize = 10;

/// What differs from message to message.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Number of the request; at least [`OPAQUE_BASE`].
    pub opaque: i32,
    /// The sender's wall clock in milliseconds.
    pub born_ms: u64,
    /// First half of the message's UNIQ_KEY: who sends.
    pub unique_high: u64,
    /// Second half: which message.
    pub unique_low: u64,
}

/// A send request for one queue, complete but for [`Variable`] and the body.
#[derive(Clone, Debug)]
pub struct Template {
    head: Vec<u8>,
    opaque: OpaqueAt,
    born_at: usize,
    unique_at: usize,
}

#[derive(Clone, Copy, Debug)]
enum OpaqueAt {
    /// Ten digits in a JSON header.
    Decimal(usize),
    /// Four bytes in a binary header.
    Binary(usize),
}

impl Template {
    /// Encodes the request for a topic and queue.
    pub fn new(serialization: Serialization, group: &str, topic: &str, queue_id: i32) -> Template {
        let text = format!("{}\u{1}{UNIQUE_SENTINEL}\u{2}", properties::name::UNIQ_KEY);
        let request = SendRequest {
            producer_group: group,
            topic,
            default_topic: "TBW102",
            default_topic_queue_nums: 4,
            queue_id,
            sys_flag: 0,
            born_timestamp_ms: BORN_SENTINEL,
            flag: 0,
            properties: &text,
            reconsume_times: 0,
            unit_mode: false,
            max_reconsume_times: None,
            batch: false,
        };
        let mut head = Vec::with_capacity(512);
        let code = protocol::code::request::SEND_MESSAGE_V2;
        request.encode(write_request(&mut head, serialization, code, OPAQUE_SENTINEL, 0)).finish();
        let opaque = match serialization {
            Serialization::Json => OpaqueAt::Decimal(find(&head, OPAQUE_SENTINEL.to_string().as_bytes())),
            Serialization::RocketMq => OpaqueAt::Binary(find(&head, &OPAQUE_SENTINEL.to_be_bytes())),
        };
        let born_at = find(&head, BORN_SENTINEL.to_string().as_bytes());
        let unique_at = find(&head, UNIQUE_SENTINEL.as_bytes());
        Template { head, opaque, born_at, unique_at }
    }

    /// Appends a whole request to `out`; `write_body` fills the body of `body_len` bytes.
    pub fn append(
        &self,
        out: &mut Vec<u8>,
        variable: &Variable,
        filler: &[u8],
        write_body: impl FnOnce(&mut [u8]),
    ) {
        assert!(variable.opaque >= OPAQUE_BASE, "opaque {} has fewer than ten digits", variable.opaque);
        let start = out.len();
        out.extend_from_slice(&self.head);
        out.extend_from_slice(filler);
        let frame = &mut out[start..];
        let total = u32::try_from(frame.len() - 4).expect("a frame is at most 16 MiB");
        frame[..4].copy_from_slice(&total.to_be_bytes());
        match self.opaque {
            OpaqueAt::Decimal(at) => {
                put_decimal(&mut frame[at..at + OPAQUE_DIGITS], u64::from(variable.opaque.unsigned_abs()));
            }
            OpaqueAt::Binary(at) => frame[at..at + 4].copy_from_slice(&variable.opaque.to_be_bytes()),
        }
        put_decimal(&mut frame[self.born_at..self.born_at + BORN_DIGITS], variable.born_ms);
        put_hex(&mut frame[self.unique_at..self.unique_at + 16], variable.unique_high);
        put_hex(&mut frame[self.unique_at + 16..self.unique_at + 32], variable.unique_low);
        write_body(&mut frame[self.head.len()..]);
    }

    /// Bytes of a request besides its body.
    pub fn head_len(&self) -> usize {
        self.head.len()
    }
}

/// The one place of `sentinel`; a second one would mean that a patch hits the wrong field.
fn find(head: &[u8], sentinel: &[u8]) -> usize {
    let mut places = head.windows(sentinel.len()).enumerate().filter(|(_, window)| *window == sentinel);
    let place = places.next().expect("the encoder writes every field").0;
    assert!(places.next().is_none(), "a sentinel occurs twice");
    place
}

fn put_decimal(digits: &mut [u8], mut value: u64) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + u8::try_from(value % 10).expect("a digit");
        value /= 10;
    }
}

fn put_hex(digits: &mut [u8], value: u64) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for (index, digit) in digits.iter_mut().enumerate() {
        *digit = HEX[(value >> (60 - 4 * index) & 0xF) as usize];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::{Session, frame::FRAME_BYTES_MAX};

    #[test]
    fn patched_requests_decode_to_what_was_asked_for() {
        for serialization in [Serialization::Json, Serialization::RocketMq] {
            let template = Template::new(serialization, "loadgen", "T-1", 3);
            let mut out = Vec::new();
            for (opaque, len) in [(OPAQUE_BASE, 0usize), (2_147_483_647, 700)] {
                let variable =
                    Variable { opaque, born_ms: 1_796_134_607_123, unique_high: 0xDEAD_BEEF, unique_low: 42 };
                template.append(&mut out, &variable, &vec![7; len], |body| body.fill(9));
            }
            let mut session = Session::new(FRAME_BYTES_MAX);
            session.on_bytes(&out);
            for (opaque, len) in [(OPAQUE_BASE, 0usize), (2_147_483_647, 700)] {
                let command = session.poll_command().unwrap().unwrap();
                assert_eq!((command.code, command.opaque, command.body), (310, opaque, &vec![9u8; len][..]));
                let request = SendRequest::decode(command.code, command.fields).unwrap();
                assert_eq!((request.topic, request.queue_id), ("T-1", 3));
                assert_eq!(request.born_timestamp_ms, 1_796_134_607_123);
                assert_eq!(
                    properties::get(request.properties, "UNIQ_KEY"),
                    Some("00000000DEADBEEF000000000000002A")
                );
            }
            assert!(session.poll_command().unwrap().is_none());
        }
    }
}
