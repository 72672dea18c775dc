//! Decode: received bytes to typed send requests, in both header serialisations.
//!
//! The stream is cut wherever a receive of 64 KiB ends, so a frame that comes in two pieces is moved to the front of the
//! receive buffer, as on a busy connection. What the kernel copies in isn't counted. Copied: the text of the ext fields,
//! into the session's table; header and body stay where they were received.

use protocol::{Serialization, Session, frame::FRAME_BYTES_MAX, header::send::SendRequest};

use crate::{
    GROUP, Problem, Run, SAMPLES_WARMING,
    meter::{Figure, Meter},
    requests::{Requests, SERIALIZATIONS},
};

const RECEIVE_BYTES: usize = 64 * 1024;

/// One figure per serialisation.
///
/// # Errors
/// Never: it touches memory alone.
pub fn run(run: &Run) -> Result<Vec<Figure>, Problem> {
    Ok(SERIALIZATIONS.map(|(serialization, name)| decode(run, serialization, name)).into())
}

fn decode(run: &Run, serialization: Serialization, name: &str) -> Figure {
    let requests = Requests::new();
    let mut stream = Vec::new();
    for number in 0..GROUP {
        requests.write(&mut stream, serialization, number);
    }
    let mut stream = stream.iter().copied().cycle();
    let mut session = Session::new(FRAME_BYTES_MAX);
    let mut meter = Meter::new(format!("decode {name}"));
    for _ in 0..SAMPLES_WARMING + run.samples {
        let room = meter.time(|| session.receive_room(RECEIVE_BYTES));
        room[..RECEIVE_BYTES].iter_mut().zip(&mut stream).for_each(|(place, byte)| *place = byte);
        session.on_received(RECEIVE_BYTES);
        let decoded = meter.time(|| take_all(&mut session));
        meter.check_number(decoded.sum);
        meter.copied(decoded.text_bytes);
        meter.end_sample(decoded.count);
    }
    meter.figure(true)
}

/// What was read, boiled down.
#[derive(Default)]
struct Decoded {
    count: usize,
    sum: u64,
    text_bytes: usize,
}

fn take_all(session: &mut Session) -> Decoded {
    let mut decoded = Decoded::default();
    while let Some(command) = session.poll_command().expect("the stream is well-formed") {
        let send = SendRequest::decode(command.code, command.fields).expect("the request is complete");
        decoded.count += 1;
        decoded.sum += u64::from(send.queue_id.unsigned_abs()) + send.born_timestamp_ms.unsigned_abs();
        decoded.sum += (send.topic.len() + send.properties.len() + command.body.len()) as u64;
        decoded.text_bytes +=
            command.fields.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
    }
    decoded
}
