//! Streams cut anywhere, refusals that last, and memory that follows what was received.

use protocol::error::FrameError;
use protocol::frame::FRAME_BYTES_MAX;
use protocol::limits::SESSION_RETAINED_BYTES;
use protocol::{Error, Serialization, Session, write_request, write_response};

use crate::support::{Random, decode_all, drain};

/// Frames of both serialisations, with and without body, remark and fields.
fn sample_stream() -> Vec<u8> {
    let mut out = Vec::new();
    for serialization in [Serialization::Json, Serialization::RocketMq] {
        write_request(&mut out, serialization, 310, -1, 2)
            .field("i", "A\x01b\x02\"\\é")
            .finish_with_body(b"hello");
        write_response(&mut out, serialization, 19, i32::MIN)
            .remark("none\nyet")
            .field_int("min", i64::MIN)
            .finish();
        write_request(&mut out, serialization, 34, 7, 0).finish_with_body_len(3);
        out.extend_from_slice(b"{}\n");
    }
    out
}

#[test]
fn a_stream_cut_at_every_byte_gives_the_same_commands() {
    let stream = sample_stream();
    let whole = decode_all(&stream);
    assert_eq!(whole.len(), 6);
    for cut in 0..=stream.len() {
        let mut session = Session::new(FRAME_BYTES_MAX);
        session.on_bytes(&stream[..cut]);
        let mut commands = drain(&mut session).unwrap();
        session.on_bytes(&stream[cut..]);
        commands.extend(drain(&mut session).unwrap());
        assert_eq!(commands, whole, "cut at {cut}");
    }
}

#[test]
fn a_stream_in_single_bytes_and_in_random_pieces_gives_the_same_commands() {
    let stream = sample_stream().repeat(3);
    let whole = decode_all(&stream);
    for seed in 0..50 {
        let mut random = Random(seed);
        let mut session = Session::new(FRAME_BYTES_MAX);
        let mut commands = Vec::new();
        let mut rest = &stream[..];
        while !rest.is_empty() {
            let room = session.receive_room(1);
            let len = if seed == 0 { 1 } else { 1 + random.below(40) }.min(rest.len()).min(room.len());
            room[..len].copy_from_slice(&rest[..len]);
            session.on_received(len);
            rest = &rest[len..];
            commands.extend(drain(&mut session).unwrap());
        }
        assert_eq!(commands, whole, "seed {seed}");
    }
}

#[test]
fn a_length_that_is_too_long_is_refused_at_its_fourth_byte_and_for_ever() {
    let word = (17 * 1024 * 1024_i32).to_be_bytes();
    let mut session = Session::new(FRAME_BYTES_MAX);
    session.on_bytes(&word[..3]);
    assert_eq!(session.poll_command(), Ok(None));
    session.on_bytes(&word[3..]);
    let refusal = session.poll_command().unwrap_err();
    assert!(matches!(refusal, Error::Frame(FrameError::TooLong { .. })), "{refusal}");
    session.on_bytes(&sample_stream());
    assert_eq!(session.poll_command(), Err(refusal));
}

#[test]
fn a_bad_header_behind_good_frames_costs_only_what_follows() {
    let mut stream = sample_stream();
    stream.extend_from_slice(&[0, 0, 0, 6, 0, 0, 0, 2, b'[', b']']);
    stream.extend_from_slice(&sample_stream());
    let mut session = Session::new(FRAME_BYTES_MAX);
    session.on_bytes(&stream);
    for _ in 0..6 {
        assert!(session.poll_command().unwrap().is_some());
    }
    let refusal = session.poll_command().unwrap_err();
    assert!(matches!(refusal, Error::Json(_)), "{refusal}");
    assert_eq!(session.poll_command(), Err(refusal));
}

#[test]
fn memory_follows_what_arrived_not_what_a_length_word_claims() {
    let mut session = Session::new(FRAME_BYTES_MAX);
    assert_eq!(session.memory_bytes(), 0);
    session.on_bytes(&(FRAME_BYTES_MAX as i32 - 4).to_be_bytes());
    assert_eq!(session.poll_command(), Ok(None));
    assert!(session.receive_room(4096).len() >= 4096);
    assert!(session.memory_bytes() < 16 * 1024, "{}", session.memory_bytes());
}

#[test]
fn the_longest_frame_passes_and_its_memory_is_given_back() {
    let mut frame = Vec::new();
    write_request(&mut frame, Serialization::Json, 10, 1, 0).finish_with_body(&[]);
    let body_len = FRAME_BYTES_MAX - frame.len();
    frame.clear();
    write_request(&mut frame, Serialization::Json, 10, 1, 0).finish_with_body(&vec![7; body_len]);
    assert_eq!(frame.len(), FRAME_BYTES_MAX);

    let mut session = Session::new(FRAME_BYTES_MAX);
    for piece in frame.chunks(60_000) {
        assert_eq!(session.poll_command(), Ok(None));
        let room = session.receive_room(64 * 1024);
        room[..piece.len()].copy_from_slice(piece);
        session.on_received(piece.len());
        assert!(session.memory_bytes() <= FRAME_BYTES_MAX + 128 * 1024, "{}", session.memory_bytes());
    }
    let command = session.poll_command().unwrap().unwrap();
    assert_eq!(command.body.len(), body_len);
    assert!(session.receive_room(64 * 1024).len() >= 64 * 1024);
    assert!(session.memory_bytes() <= SESSION_RETAINED_BYTES, "{}", session.memory_bytes());
}

#[test]
fn a_steady_stream_takes_no_more_memory_after_its_first_pieces() {
    let stream = sample_stream();
    let mut session = Session::new(FRAME_BYTES_MAX);
    let feed = |session: &mut Session| {
        for piece in stream.chunks(100) {
            session.receive_room(1024)[..piece.len()].copy_from_slice(piece);
            session.on_received(piece.len());
            while session.poll_command().unwrap().is_some() {}
        }
        session.memory_bytes()
    };
    let grown = feed(&mut session);
    for _ in 0..1000 {
        assert_eq!(feed(&mut session), grown);
    }
}

#[test]
fn codes_above_16_bits_are_written_in_json() {
    let mut out = Vec::new();
    write_request(&mut out, Serialization::RocketMq, 200_050, 1, 0).field("topic", "T").finish();
    let commands = decode_all(&out);
    assert_eq!((commands[0].code, commands[0].serialization), (200_050, Serialization::Json));
}

#[test]
fn random_commands_survive_the_round_trip() {
    for seed in 0..2_000 {
        let mut random = Random(seed);
        let serialization = if seed % 2 == 0 { Serialization::Json } else { Serialization::RocketMq };
        let fields: Vec<_> = (0..random.below(20)).map(|_| (random.text(12), random.text(40))).collect();
        let remark = random.text(30);
        let body = random.text(50);
        let (code, opaque, flag) = (random.below(400) as i32, random.next() as i32, random.next() as i32 & 3);
        let mut out = Vec::new();
        let mut writer = write_request(&mut out, serialization, code, opaque, flag);
        for (name, value) in &fields {
            writer = writer.field(name, value);
        }
        if !remark.is_empty() {
            writer = writer.remark(&remark);
        }
        writer.finish_with_body(body.as_bytes());
        let command = &decode_all(&out)[0];
        assert_eq!((command.code, command.opaque, command.flag), (code, opaque, flag), "seed {seed}");
        assert_eq!(command.fields, fields, "seed {seed}");
        assert_eq!(command.remark.as_deref().unwrap_or(""), remark, "seed {seed}");
        assert_eq!(command.body, body.as_bytes(), "seed {seed}");
    }
}
