//! Pull: 32 messages of one queue, selected and copied into an answer, from the log's tail in memory. Copied: the records.
//!
//! Not on the path of a send; the buffers it uses are kept as well, and the figure says so.

use engine::read::pull::{Filter, Pull, PullStatus};
use protocol::message::StoredMessage;

use crate::{
    GROUP, Problem, Run, SAMPLES_WARMING,
    meter::{Figure, Meter},
    requests::{QUEUES, Requests, TIME_MS},
    store::{BenchStore, on_ring},
};

/// Two figures: all messages, and those of a tag.
///
/// # Errors
/// When no store can be made.
pub fn run(run: &Run) -> Result<Vec<Figure>, Problem> {
    let samples = SAMPLES_WARMING + run.samples;
    on_ring(run, move |runtime, root| async move {
        let store = BenchStore::open(&runtime, root).await?;
        append_messages(&store, &Requests::new());
        store.settle().await;
        let tag = Filter::TagCodes(vec![protocol::properties::java_string_hash("TagA")]);
        let figures =
            vec![pull(&store, samples, "pull all", Filter::All), pull(&store, samples, "pull by tag", tag)];
        store.close().await?;
        Ok(figures)
    })
}

/// Fills each queue with a pull's worth, all of which the tail keeps.
fn append_messages(store: &BenchStore, requests: &Requests) {
    let mut shard = store.shard();
    for number in 0..GROUP * QUEUES as usize {
        let appended = shard.append(store.queue(number), &requests.message(number), TIME_MS);
        appended.expect("a new store has room");
    }
    shard.confirm();
    shard.dispatch();
}

fn pull(store: &BenchStore, samples: usize, name: &str, filter: Filter) -> Figure {
    let mut meter = Meter::new(name);
    let mut out = Vec::new();
    for sample in 0..samples {
        let queue = store.queue(sample);
        let pull = Pull {
            queue,
            queue_offset: store.shard().queues().min_offset(queue),
            message_count_max: GROUP,
            bytes_max: 256 * 1024,
            cold_message_count_max: GROUP,
            cold_bytes_max: 256 * 1024,
            filter: filter.clone(),
        };
        out.clear();
        let status = meter.time(|| {
            let mut shard = store.shard();
            let pulled = shard.pull(&pull).expect("everything is in memory");
            out.reserve(shard.selected_bytes());
            shard.copy_selected(&mut out);
            pulled.status
        });
        assert_eq!(status, PullStatus::Found, "the queue has messages");
        let mut rest = out.as_slice();
        let mut count = 0;
        while !rest.is_empty() {
            let (message, len) = StoredMessage::decode(rest).expect("records come as they are stored");
            meter.check(message.body);
            rest = &rest[len..];
            count += 1;
        }
        assert_eq!(count, GROUP, "a pull takes what it asked for");
        meter.copied(out.len());
        meter.end_sample(GROUP);
    }
    meter.figure(false)
}
