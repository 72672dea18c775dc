//! Cuts a byte stream into frames by their two length words (remoting protocol, 1.1), and refuses lengths that make no
//! sense as soon as they can be read. Never copies, never looks into header or body.

use crate::command::Serialization;
use crate::error::FrameError;

pub use crate::limits::FRAME_BYTES_MAX;

/// Bytes of the first length word.
pub const LENGTH_BYTES: usize = 4;
/// Bytes before the header: the frame's length, then serialisation and header length in one word.
pub const PREFIX_BYTES: usize = 8;

/// One whole frame, borrowed from the receive buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// How the header is written.
    pub serialization: Serialization,
    /// The header's bytes, at least one.
    pub header: &'a [u8],
    /// Everything behind the header; empty when there is no body.
    pub body: &'a [u8],
}

/// The first frame of `buffer` and how many bytes it took; `None` when more bytes are needed.
///
/// A length word that can't be right is refused once its own bytes are there, so no peer makes us wait for, or hold,
/// more than `frame_bytes_max` (whole frame, its length word included).
pub fn split(buffer: &[u8], frame_bytes_max: usize) -> Result<Option<(Frame<'_>, usize)>, FrameError> {
    let Some((total_word, rest)) = buffer.split_first_chunk::<4>() else { return Ok(None) };
    let frame_bytes = frame_bytes(i32::from_be_bytes(*total_word), frame_bytes_max)?;
    let Some((header_word, _)) = rest.split_first_chunk::<4>() else { return Ok(None) };
    let [kind, high, middle, low] = *header_word;
    let serialization = Serialization::from_byte(kind).ok_or(FrameError::UnknownSerialization { kind })?;
    let header_bytes = u32::from_be_bytes([0, high, middle, low]) as usize;
    let available_bytes = frame_bytes - PREFIX_BYTES;
    if header_bytes > available_bytes {
        return Err(FrameError::HeaderBeyondFrame { header_bytes, available_bytes });
    }
    if header_bytes == 0 {
        return Err(FrameError::EmptyHeader);
    }
    let Some(content) = buffer.get(PREFIX_BYTES..frame_bytes) else { return Ok(None) };
    let (header, body) = content.split_at(header_bytes);
    Ok(Some((Frame { serialization, header, body }, frame_bytes)))
}

/// Bytes of the whole frame whose length word says `total`.
fn frame_bytes(total: i32, frame_bytes_max: usize) -> Result<usize, FrameError> {
    let content = usize::try_from(total).map_err(|_| FrameError::NegativeLength { total })?;
    let frame_bytes = content.saturating_add(LENGTH_BYTES);
    if frame_bytes > frame_bytes_max {
        return Err(FrameError::TooLong { frame_bytes, frame_bytes_max });
    }
    if frame_bytes < PREFIX_BYTES {
        return Err(FrameError::TooShort { total });
    }
    Ok(frame_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], expected: Result<Option<usize>, FrameError>) {
        let found = split(bytes, FRAME_BYTES_MAX).map(|frame| frame.map(|(_, consumed)| consumed));
        assert_eq!(found, expected, "{bytes:02x?}");
    }

    #[test]
    fn lengths_are_judged_as_soon_as_they_are_there() {
        check(&[], Ok(None));
        check(&[0, 0, 0], Ok(None));
        check(&[0xff, 0xff, 0xff, 0xff], Err(FrameError::NegativeLength { total: -1 }));
        let seventeen_mib = 17 * 1024 * 1024;
        check(
            &i32::to_be_bytes(seventeen_mib),
            Err(FrameError::TooLong {
                frame_bytes: seventeen_mib as usize + 4,
                frame_bytes_max: FRAME_BYTES_MAX,
            }),
        );
        check(&[0, 0, 0, 3], Err(FrameError::TooShort { total: 3 }));
        check(&[0, 0, 0, 4, 0, 0, 0, 0], Err(FrameError::EmptyHeader));
        check(&[0, 0, 0, 9, 2, 0, 0, 0], Err(FrameError::UnknownSerialization { kind: 2 }));
        check(
            &[0, 0, 0, 9, 0, 0, 0, 6],
            Err(FrameError::HeaderBeyondFrame { header_bytes: 6, available_bytes: 5 }),
        );
    }

    #[test]
    fn longest_frame_is_accepted_and_one_byte_more_is_not() {
        let longest = i32::try_from(FRAME_BYTES_MAX - LENGTH_BYTES).unwrap();
        check(&longest.to_be_bytes(), Ok(None));
        let too_long =
            FrameError::TooLong { frame_bytes: FRAME_BYTES_MAX + 1, frame_bytes_max: FRAME_BYTES_MAX };
        check(&(longest + 1).to_be_bytes(), Err(too_long));
    }

    #[test]
    fn header_and_body_are_cut_apart_and_the_next_frame_is_left() {
        let bytes = [0, 0, 0, 7, 1, 0, 0, 2, b'h', b'd', b'B', 0xaa];
        let (frame, consumed) = split(&bytes, FRAME_BYTES_MAX).unwrap().unwrap();
        assert_eq!(consumed, 11);
        assert_eq!(frame, Frame { serialization: Serialization::RocketMq, header: b"hd", body: b"B" });
        for cut in 0..11 {
            check(&bytes[..cut], Ok(None));
        }
    }
}
