//! A machine cut off from power while groups of records are being written: whichever sectors arrived, the store
//! opens by itself, with everything that was synced, and nothing that wasn't written.

use engine::io::{
    Access, File, Runtime,
    script::{PowerCut, ScriptRuntime},
};

use crate::stored::{Log, SEGMENT_BYTES, clean_store, killed_store, open_now, put_checkpoint, segment_path};

/// Writes the bytes of `log` from `start` to `end` into its segments, as a group write does, without a sync.
fn write_group(runtime: &ScriptRuntime, log: &Log, start: u64, end: u64) {
    let mut at = start;
    while at < end {
        let base = at / SEGMENT_BYTES * SEGMENT_BYTES;
        let to = end.min(base + SEGMENT_BYTES);
        let bytes = log.bytes[usize::try_from(at).unwrap()..usize::try_from(to).unwrap()].to_vec();
        runtime.block_on(async {
            let file = runtime.open(&segment_path(base), Access::Buffered).await.unwrap();
            file.write_bytes(bytes, at - base).await.unwrap();
        });
        at = to;
    }
}

#[test]
fn whatever_arrives_of_unsynced_groups_the_store_opens_with_all_that_was_synced() {
    let log = Log::of(120);
    let mut cases = std::collections::BTreeSet::new();
    for seed in 0..600_u64 {
        let synced = usize::try_from(20 + seed % 60).unwrap();
        let durable = log.cut(synced);
        let runtime = killed_store(&durable);
        // The segments that the groups go into are there, zeroed, and named.
        for base in (0..log.bytes.len() as u64).step_by(usize::try_from(SEGMENT_BYTES).unwrap()) {
            if runtime.disk().read(segment_path(base)).is_none() {
                runtime.disk().put(segment_path(base), &vec![0; usize::try_from(SEGMENT_BYTES).unwrap()]);
            }
        }
        put_checkpoint(&runtime, durable.last().store_timestamp_ms);
        let mut start = durable.end;
        for group in [synced + 1, synced + 6, synced + 30] {
            let end = log.messages[group].start();
            write_group(&runtime, &log, start, end);
            start = end;
        }
        let image = runtime.disk().power_cut_image(PowerCut::seed(seed));
        let opened = open_now(&image).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let end = opened.recovered.log_end.get();
        cases.insert(opened.recovered.how);
        assert!(end >= durable.end && end <= start, "seed {seed}: {} {end} {start}", durable.end);
        // What is there is a prefix of what was written, but for properties, which no checksum covers.
        let found = log.messages.iter().filter(|message| message.end() <= end).count();
        let mut entries = 0;
        for queue in opened.queues.iter() {
            entries += opened.queues.max_offset(queue).get();
        }
        assert_eq!(entries, found as u64, "seed {seed}");
        let read = |base: u64| image.disk().read(segment_path(base));
        for message in &log.messages[..synced] {
            let base = message.start() / SEGMENT_BYTES * SEGMENT_BYTES;
            let bytes = read(base).unwrap();
            let (from, to) = (message.start() - base, message.end() - base);
            let stored = &bytes[usize::try_from(from).unwrap()..usize::try_from(to).unwrap()];
            let start = usize::try_from(message.start()).unwrap();
            assert!(*stored == log.bytes[start..start + stored.len()], "seed {seed}");
        }
        runtime.end();
    }
    // The seeds reach the ends that a power cut can leave.
    assert!(cases.contains("write_with_hole") && cases.contains("killed_at_end"), "{cases:?}");
}

#[test]
fn nothing_of_a_clean_store_changes_when_it_is_opened_again_and_again() {
    let log = Log::of(60);
    let runtime = clean_store(&log);
    drop(open_now(&runtime).unwrap());
    let first = runtime.disk().durable_files();
    for _ in 0..3 {
        drop(open_now(&runtime).unwrap());
        assert!(runtime.disk().durable_files() == first);
    }
}
