//! Append: what the shard does for a message before its promise can be kept. Offsets are assigned, the record is encoded
//! into the log's tail, the entry waits to be dispatched. Copied: the record.

use crate::{
    GROUP, Problem, Run, SAMPLES_WARMING,
    meter::{Figure, Meter},
    requests::{Requests, TIME_MS},
    store::{BenchStore, on_ring},
};

/// One figure.
///
/// # Errors
/// When no store can be made.
pub fn run(run: &Run) -> Result<Vec<Figure>, Problem> {
    let samples = SAMPLES_WARMING + run.samples;
    on_ring(run, move |runtime, root| async move {
        let requests = Requests::new();
        let store = BenchStore::open(&runtime, root).await?;
        let mut meter = Meter::new("append");
        for sample in 0..samples {
            let before = store.shard().log().end();
            let first = sample * GROUP;
            let last = meter.time(|| {
                let mut shard = store.shard();
                let mut last = None;
                for number in first..first + GROUP {
                    let appended = shard.append(store.queue(number), &requests.message(number), TIME_MS);
                    last = Some(appended.expect("everything was written before"));
                }
                last
            });
            let last = last.expect("a group isn't empty");
            meter.check_number(last.log_offset.get());
            meter.check_number(last.queue_offset.get());
            meter.copied(usize::try_from(last.end.since(before)).expect("a group is in memory"));
            meter.end_sample(GROUP);
            store.settle().await;
        }
        store.close().await?;
        Ok(vec![meter.figure(true)])
    })
}
