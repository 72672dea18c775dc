//! Record: a message to the bytes that are stored, the CRC of its body included. The one copy of a body that the broker
//! makes. A part of `append`, measured alone to tell the copying and the checksum from the bookkeeping.

use engine::{
    commit_log::record::Assigned,
    offset::{LogOffset, QueueOffset},
};

use crate::{
    GROUP, Problem, Run, SAMPLES_WARMING,
    meter::{Figure, Meter},
    requests::{Requests, TIME_MS},
};

/// One figure.
///
/// # Errors
/// Never: it touches memory alone.
pub fn run(run: &Run) -> Result<Vec<Figure>, Problem> {
    let requests = Requests::new();
    let mut room = vec![0; GROUP * requests.message(0).record_bytes()];
    let mut meter = Meter::new("record");
    for sample in 0..SAMPLES_WARMING + run.samples {
        let first = sample * GROUP;
        let end = meter.time(|| {
            (first..first + GROUP).fold(0, |at, number| {
                let message = requests.message(number);
                let len = message.record_bytes();
                let assigned = Assigned {
                    queue_offset: QueueOffset::new(number as u64),
                    log_offset: LogOffset::new(at as u64),
                    store_timestamp_ms: TIME_MS,
                };
                message.encode(assigned, &mut room[at..at + len]);
                at + len
            })
        });
        meter.copied(end);
        meter.check(&room[..end]);
        meter.end_sample(GROUP);
    }
    Ok(vec![meter.figure(true)])
}
