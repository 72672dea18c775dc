//! Answer: the frame that a sender gets, written as the broker writes it, many into one buffer. Copied: the frame.

use protocol::{Serialization, code::response, message::offset_message_id, write_response};

use crate::{
    GROUP, Problem, Run, SAMPLES_WARMING,
    meter::{Figure, Meter},
    requests::{BROKER, Requests, SERIALIZATIONS},
};

/// One figure per serialisation.
///
/// # Errors
/// Never: it touches memory alone.
pub fn run(run: &Run) -> Result<Vec<Figure>, Problem> {
    Ok(SERIALIZATIONS.map(|(serialization, name)| answer(run, serialization, name)).into())
}

fn answer(run: &Run, serialization: Serialization, name: &str) -> Figure {
    let mut out = Vec::new();
    let mut meter = Meter::new(format!("answer {name}"));
    for sample in 0..SAMPLES_WARMING + run.samples {
        let first = sample * GROUP;
        out.clear();
        meter.time(|| {
            for number in first..first + GROUP {
                write_answer(&mut out, serialization, number);
            }
        });
        meter.copied(out.len());
        meter.check(&out);
        meter.end_sample(GROUP);
    }
    meter.figure(true)
}

fn write_answer(out: &mut Vec<u8>, serialization: Serialization, number: usize) {
    let number = i64::try_from(number).expect("far fewer are sent");
    let opaque = i32::try_from(number).expect("far fewer are sent");
    let id = offset_message_id(BROKER.ip(), BROKER.port(), number * 1_300);
    write_response(out, serialization, response::SUCCESS, opaque)
        .field_int("queueId", Requests::queue_id(opaque.unsigned_abs() as usize).into())
        .field_int("queueOffset", number)
        .field("MSG_REGION", "DefaultRegion")
        .field("TRACE_ON", "true")
        .field("msgId", id.as_str())
        .finish();
}
