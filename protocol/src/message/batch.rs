//! The body of SEND_BATCH_MESSAGE: items one after the other (remoting protocol, 2.5; store, 2.7).
//!
//! ```text
//! i32 size of the item | i32 magic, 0 | i32 CRC, 0 | i32 flag | i32 length, body | i16 length, properties
//! ```
//!
//! Magic and CRC are ignored on input. The same form is used inside inner batches.

use std::fmt;

use crate::limits::PROPERTIES_BYTES_MAX;

/// Bytes of an item without body and properties.
pub const ITEM_BYTES_MIN: usize = 22;

/// One message of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchItem<'a> {
    /// The user's flag.
    pub flag: i32,
    /// The body.
    pub body: &'a [u8],
    /// The properties string as the client wrote it.
    pub properties: &'a str,
}

/// Why a batch can't be taken apart; the byte at which the bad item begins is in each variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchError {
    /// Fewer bytes are left than the smallest item has.
    CutShort {
        /// Where the item begins.
        at: usize,
        /// Bytes that are left.
        available_bytes: usize,
    },
    /// The body's or the properties' length is negative or reaches beyond the batch.
    LengthOutOfBounds {
        /// Where the item begins.
        at: usize,
        /// The length.
        length: i32,
    },
    /// The item's size isn't what its parts add up to.
    SizeMismatch {
        /// Where the item begins.
        at: usize,
        /// The size it says.
        size: i32,
        /// What its parts add up to.
        parts_bytes: usize,
    },
    /// The properties aren't UTF-8.
    PropertiesNotUtf8 {
        /// Where the item begins.
        at: usize,
    },
}

/// Walks over a batch; ends after the first error.
#[derive(Clone, Debug)]
pub struct BatchItems<'a> {
    body: &'a [u8],
    at: usize,
}

/// The items of a batch's body, in order. An empty body has none.
pub fn batch_items(body: &[u8]) -> BatchItems<'_> {
    BatchItems { body, at: 0 }
}

impl<'a> Iterator for BatchItems<'a> {
    type Item = Result<BatchItem<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at == self.body.len() {
            return None;
        }
        let item = self.item();
        if item.is_err() {
            self.at = self.body.len();
        }
        Some(item)
    }
}

impl<'a> BatchItems<'a> {
    fn item(&mut self) -> Result<BatchItem<'a>, BatchError> {
        let (body, at) = (self.body, self.at);
        let available_bytes = body.len() - at;
        if available_bytes < ITEM_BYTES_MIN {
            return Err(BatchError::CutShort { at, available_bytes });
        }
        let int = |offset: usize| {
            let chunk = body[offset..].first_chunk::<4>().expect("the smallest item fits, as was checked");
            i32::from_be_bytes(*chunk)
        };
        let (size, flag, body_len) = (int(at), int(at + 12), int(at + 16));
        let (message, rest) = take(&body[at + 20..], body_len, 2, at)?;
        let (length_word, rest) = rest.split_first_chunk::<2>().expect("take leaves two bytes");
        let properties_len = i16::from_be_bytes(*length_word);
        let (properties, rest) = take(rest, properties_len.into(), 0, at)?;
        let parts_bytes = available_bytes - rest.len();
        if usize::try_from(size) != Ok(parts_bytes) {
            return Err(BatchError::SizeMismatch { at, size, parts_bytes });
        }
        let properties = std::str::from_utf8(properties).map_err(|_| BatchError::PropertiesNotUtf8 { at })?;
        self.at += parts_bytes;
        Ok(BatchItem { flag, body: message, properties })
    }
}

/// The first `length` of `bytes` and the rest, which must have `rest_min` bytes.
fn take(bytes: &[u8], length: i32, rest_min: usize, at: usize) -> Result<(&[u8], &[u8]), BatchError> {
    let out_of_bounds = BatchError::LengthOutOfBounds { at, length };
    let length = usize::try_from(length).map_err(|_| out_of_bounds)?;
    let split = bytes.split_at_checked(length).ok_or(out_of_bounds)?;
    if split.1.len() < rest_min {
        return Err(out_of_bounds);
    }
    Ok(split)
}

/// Appends one item to a batch's body. The properties have at most [`PROPERTIES_BYTES_MAX`] bytes, the body fits a frame.
pub fn write_batch_item(out: &mut Vec<u8>, item: &BatchItem<'_>) {
    let (body_len, properties_len) = (item.body.len(), item.properties.len());
    assert!(properties_len <= PROPERTIES_BYTES_MAX, "properties of {properties_len} bytes");
    let word = |length: usize| i32::try_from(length).expect("a body fits a frame").to_be_bytes();
    out.extend_from_slice(&word(ITEM_BYTES_MIN + body_len + properties_len));
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&item.flag.to_be_bytes());
    out.extend_from_slice(&word(body_len));
    out.extend_from_slice(item.body);
    let properties_word = i16::try_from(properties_len).expect("checked above");
    out.extend_from_slice(&properties_word.to_be_bytes());
    out.extend_from_slice(item.properties.as_bytes());
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CutShort { at, available_bytes } => {
                write!(f, "batch item at byte {at} cut short: {available_bytes} bytes are left")
            }
            Self::LengthOutOfBounds { at, length } => {
                write!(f, "batch item at byte {at}: length {length} is out of bounds")
            }
            Self::SizeMismatch { at, size, parts_bytes } => {
                write!(f, "batch item at byte {at}: size {size}, but its parts add up to {parts_bytes}")
            }
            Self::PropertiesNotUtf8 { at } => {
                write!(f, "batch item at byte {at}: the properties are not UTF-8")
            }
        }
    }
}

impl std::error::Error for BatchError {}
