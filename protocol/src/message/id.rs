//! Offset message ids: where a message is stored, as text (remoting protocol, 2.8). Upper-case hexadecimal of the store
//! host's address, its port in 32 bits and the log offset in 64: 32 characters, or 56 with a 16-byte address. Clients
//! connect to the address in it and send the offset back.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const TEXT_BYTES_MAX: usize = 56;

/// What an offset message id says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetMessageId {
    /// The broker's advertised address.
    pub ip: IpAddr,
    /// Its port.
    pub port: i32,
    /// The log offset of the record.
    pub physical_offset: i64,
}

/// The text of an offset message id, without an allocation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct MessageIdText {
    text: [u8; TEXT_BYTES_MAX],
    len: usize,
}

/// Not an offset message id: clients may send any string as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageIdError {
    /// Neither 32 nor 56 characters.
    WrongLength {
        /// Its bytes.
        len: usize,
    },
    /// A character that isn't hexadecimal.
    NotHex {
        /// Where.
        at: usize,
    },
}

/// The id of the record at `physical_offset` of the broker at this address.
pub fn offset_message_id(ip: IpAddr, port: u16, physical_offset: i64) -> MessageIdText {
    let mut id = MessageIdText { text: [0; TEXT_BYTES_MAX], len: 0 };
    match ip {
        IpAddr::V4(ip) => id.push(&ip.octets()),
        IpAddr::V6(ip) => id.push(&ip.octets()),
    }
    id.push(&u32::from(port).to_be_bytes());
    id.push(&physical_offset.to_be_bytes());
    id
}

/// Reads an offset message id; lower-case digits too.
pub fn parse_offset_message_id(text: &str) -> Result<OffsetMessageId, MessageIdError> {
    let bytes = text.as_bytes();
    if bytes.len() != 32 && bytes.len() != 56 {
        return Err(MessageIdError::WrongLength { len: bytes.len() });
    }
    let mut raw = [0; TEXT_BYTES_MAX / 2];
    for (at, &byte) in bytes.iter().enumerate() {
        let digit = char::from(byte).to_digit(16).ok_or(MessageIdError::NotHex { at })?;
        raw[at / 2] = raw[at / 2] << 4 | digit as u8;
    }
    let raw = &raw[..bytes.len() / 2];
    let (address, rest) = raw.split_at(raw.len() - 12);
    let (port, offset) = rest.split_at(4);
    let ip = match address.first_chunk::<16>() {
        Some(octets) => IpAddr::V6(Ipv6Addr::from(*octets)),
        None => {
            IpAddr::V4(Ipv4Addr::from(*address.first_chunk::<4>().expect("4 bytes: the length was checked")))
        }
    };
    Ok(OffsetMessageId {
        ip,
        port: i32::from_be_bytes(*port.first_chunk().expect("4 bytes: the length was checked")),
        physical_offset: i64::from_be_bytes(*offset.first_chunk().expect("8 bytes: the length was checked")),
    })
}

impl MessageIdText {
    /// The text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.text[..self.len]).expect("hexadecimal digits are ASCII")
    }

    fn push(&mut self, bytes: &[u8]) {
        const HEX: &[u8; 16] = b"0123456789ABCDEF";
        for byte in bytes {
            self.text[self.len] = HEX[usize::from(byte >> 4)];
            self.text[self.len + 1] = HEX[usize::from(byte & 15)];
            self.len += 2;
        }
    }
}

impl fmt::Display for MessageIdText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for MessageIdText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for MessageIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongLength { len } => write!(f, "an offset message id of {len} characters"),
            Self::NotHex { at } => write!(f, "character {at} of the message id is not hexadecimal"),
        }
    }
}

impl std::error::Error for MessageIdError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_written_and_read_back() {
        let check = |ip: &str, port: u16, physical_offset: i64, expected: &str| {
            let ip: IpAddr = ip.parse().unwrap();
            assert_eq!(offset_message_id(ip, port, physical_offset).as_str(), expected);
            let parsed = parse_offset_message_id(expected);
            assert_eq!(parsed, Ok(OffsetMessageId { ip, port: port.into(), physical_offset }));
            assert_eq!(parse_offset_message_id(&expected.to_lowercase()), parsed);
        };
        check("10.0.0.1", 10911, 300, "0A00000100002A9F000000000000012C");
        check("127.0.0.1", 10911, 0, "7F00000100002A9F0000000000000000");
        check("::1", 65535, i64::MAX, "000000000000000000000000000000010000FFFF7FFFFFFFFFFFFFFF");
    }

    #[test]
    fn other_texts_are_refused() {
        assert_eq!(parse_offset_message_id(""), Err(MessageIdError::WrongLength { len: 0 }));
        let sixteen_umlauts = "ä".repeat(16);
        assert_eq!(parse_offset_message_id(&sixteen_umlauts), Err(MessageIdError::NotHex { at: 0 }));
        let bad = "0A00000100002A9F000000000000012G";
        assert_eq!(parse_offset_message_id(bad), Err(MessageIdError::NotHex { at: 31 }));
    }
}
