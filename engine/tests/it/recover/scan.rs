//! The scanner sees the same records however its bytes are cut into pieces.

use std::ops::ControlFlow;

use engine::{
    offset::LogOffset,
    recover::scan::{Invalid, Scanned, Scanner},
};

use crate::stored::{Log, SEGMENT_BYTES};

/// Feeds `bytes` in pieces of `piece`; returns the positions of the records and how it ended.
fn scan(base: u64, bytes: &[u8], piece: usize) -> (Vec<u64>, Scanned, u64) {
    let mut scanner = Scanner::new(LogOffset::new(base), SEGMENT_BYTES, true);
    let mut found = Vec::new();
    for piece in bytes.chunks(piece) {
        let scanned = scanner.on_bytes(piece, &mut |at, message| {
            assert_eq!(message.physical_offset, at.as_i64());
            found.push(at.get());
            ControlFlow::<()>::Continue(())
        });
        match scanned {
            ControlFlow::Continue(Scanned::NeedsMore) => {}
            ControlFlow::Continue(ended) => return (found, ended, scanner.position().get()),
            ControlFlow::Break(()) => unreachable!("the visitor never breaks"),
        }
    }
    (found, Scanned::NeedsMore, scanner.position().get())
}

#[test]
fn a_segment_is_the_same_in_pieces_of_any_size() {
    let log = Log::of(90);
    for (base, bytes) in (0..).map(|number| number * SEGMENT_BYTES).zip(log.bytes.chunks(16_384)) {
        let whole = scan(base, bytes, bytes.len());
        let complete = base + SEGMENT_BYTES <= log.end;
        let expected = if complete { Scanned::SegmentEnd } else { Scanned::Invalid(Invalid::Unwritten) };
        assert_eq!(whole.1, expected);
        for piece in (1..700).chain([1023, 4096, 5000]) {
            assert_eq!(scan(base, bytes, piece), whole, "pieces of {piece} bytes");
        }
    }
}

#[test]
fn a_segment_cut_at_any_byte_needs_more() {
    let log = Log::of(8);
    let end = usize::try_from(log.end).unwrap();
    for len in 0..end {
        let (found, ended, position) = scan(0, &log.bytes[..len], 4096);
        let whole = log.messages.iter().filter(|message| message.end() <= len as u64).count();
        assert_eq!((found.len(), ended), (whole, Scanned::NeedsMore), "{len} bytes");
        assert_eq!(position, log.messages[..whole].last().map_or(0, |message| message.end()));
    }
}

#[test]
fn a_segment_at_another_place_has_no_records() {
    let log = Log::of(8);
    let (found, ended, _) = scan(SEGMENT_BYTES, &log.bytes, 4096);
    assert!(found.is_empty());
    assert_eq!(ended, Scanned::Invalid(Invalid::Misplaced { physical_offset: 0 }));
}
