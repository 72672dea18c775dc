//! Dispatch: what follows once a promise is kept. The log is confirmed, the waiting senders are taken out in append order,
//! and each message gets its entry in its queue. Copied: the entry.

use engine::{
    derive::consume_queue::Entry,
    io::Runtime,
    write::ack::{Outcome, Receipt, ReplyTo},
};
use protocol::Serialization;

use crate::{
    GROUP, Problem, Run, SAMPLES_WARMING,
    meter::{Figure, Meter},
    requests::{Requests, TIME_MS},
    store::{BenchStore, on_ring},
};

/// Two figures: taking senders in and out, and dispatching.
///
/// # Errors
/// When no store can be made.
pub fn run(run: &Run) -> Result<Vec<Figure>, Problem> {
    let samples = SAMPLES_WARMING + run.samples;
    on_ring(run, move |runtime, root| async move {
        let requests = Requests::new();
        let store = BenchStore::open(&runtime, root).await?;
        let (mut ack, mut dispatch) = (Meter::new("ack"), Meter::new("dispatch"));
        for sample in 0..samples {
            let receipts = append_group(&store, &requests, sample * GROUP, runtime.now());
            let now = runtime.now();
            let answered = ack.time(|| {
                let mut shard = store.shard();
                receipts.into_iter().for_each(|receipt| shard.wait_for_promise(receipt));
                shard.confirm();
                let mut opaques = 0;
                while let Some((receipt, outcome)) = shard.poll_ack(now) {
                    assert_eq!(outcome, Outcome::Stored, "ASYNC_FLUSH confirms at append");
                    opaques += u64::from(receipt.reply_to.opaque.unsigned_abs());
                }
                opaques
            });
            ack.check_number(answered);
            ack.copied(GROUP * size_of::<Receipt>());
            ack.end_sample(GROUP);
            dispatch.time(|| store.shard().dispatch());
            {
                let shard = store.shard();
                assert_eq!(shard.dispatched_end(), shard.log().end(), "everything is dispatched");
                dispatch.check_number(shard.queues().max_offset(store.queue(0)).get());
            }
            dispatch.copied(GROUP * size_of::<Entry>());
            dispatch.end_sample(GROUP);
            store.settle().await;
        }
        store.close().await?;
        Ok(vec![ack.figure(true), dispatch.figure(true)])
    })
}

/// Appends a group, and says who waits for it.
fn append_group(
    store: &BenchStore,
    requests: &Requests,
    first: usize,
    now: std::time::Instant,
) -> [Receipt; GROUP] {
    let mut shard = store.shard();
    std::array::from_fn(|index| {
        let number = first + index;
        let appended = shard.append(store.queue(number), &requests.message(number), TIME_MS);
        let appended = appended.expect("everything was written before");
        Receipt {
            reply_to: ReplyTo {
                connection: 1,
                opaque: i32::try_from(number).expect("far fewer are sent"),
                serialization: Serialization::Json,
            },
            queue_id: Requests::queue_id(number),
            queue_offset: appended.queue_offset,
            log_offset: appended.log_offset,
            rest: Vec::new(),
            end: appended.end,
            deadline: shard.ack_deadline(now),
        }
    })
}
