//! The queues follow the log, whatever they were like.

use std::path::Path;

use engine::{io::script::ScriptRuntime, recover::abort};

use crate::stored::{
    BEGAN_MS, Log, QUEUE_FILE_BYTES, ROOT, SEGMENT_BYTES, assert_log_is, assert_queues_are, clean_store,
    killed_store, open_now, put_checkpoint, queue_path, segment_path,
};

/// Opens the store and expects that its queues are those of `log`, whether they had to be made anew or not.
fn check(runtime: &ScriptRuntime, log: &Log, rebuilt: bool, what: &str) {
    let mut opened = open_now(runtime).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(opened.recovered.log_end.get(), log.end, "{what}");
    assert_queues_are(runtime, &mut opened.queues, log);
    assert_log_is(runtime, log);
    assert_eq!(opened.recovered.queues_rebuilt, rebuilt, "{what}");
    drop(opened);
    // A clean stop and start find nothing more to do.
    runtime.block_on(abort::remove(runtime, Path::new(ROOT))).unwrap();
    let mut opened = open_now(runtime).unwrap();
    assert!(!opened.recovered.queues_rebuilt, "{what}: again");
    assert_queues_are(runtime, &mut opened.queues, log);
}

fn store(killed: bool, log: &Log) -> ScriptRuntime {
    if killed { killed_store(log) } else { clean_store(log) }
}

fn remove_under(runtime: &ScriptRuntime, directory: &str) {
    for path in runtime.disk().files().into_keys().filter(|path| path.starts_with(directory)) {
        runtime.disk().remove(path);
    }
}

#[test]
fn queues_behind_the_log_are_filled() {
    let log = Log::of(90);
    for dispatched in [0, 1, 40, 89] {
        let runtime = ScriptRuntime::new(1);
        log.put(&runtime.disk());
        log.put_queues(&runtime.disk(), dispatched);
        put_checkpoint(&runtime, 1);
        runtime.disk().put("/store/abort", b"");
        check(&runtime, &log, false, &format!("{dispatched} of 90 dispatched"));
    }
}

#[test]
fn queues_ahead_of_the_log_are_cut() {
    let long = Log::of(90);
    for kept in [0, 1, 30, 60, 89] {
        let log = long.cut(kept);
        for killed in [true, false] {
            let runtime = store(killed, &log);
            long.put_queues(&runtime.disk(), 90);
            check(&runtime, &log, false, &format!("{kept} of 90 in the log, killed {killed}"));
        }
    }
}

#[test]
fn missing_queues_are_made_anew() {
    let log = Log::of(90);
    for killed in [true, false] {
        let runtime = store(killed, &log);
        remove_under(&runtime, "/store/consumequeue");
        check(&runtime, &log, false, &format!("all, killed {killed}"));
        // One of them, and a checkpoint that lets the scan begin late; after a clean stop it begins with the first
        // of so few segments.
        let runtime = store(killed, &log);
        put_checkpoint(&runtime, BEGAN_MS + 1_000_000);
        remove_under(&runtime, "/store/consumequeue/Topic/1");
        check(&runtime, &log, killed, &format!("one, killed {killed}"));
    }
}

#[test]
fn a_hole_in_a_queue_is_found() {
    let log = Log::of(90);
    for killed in [true, false] {
        for (base, at) in [(0, 0), (0, 60), (0, 180), (QUEUE_FILE_BYTES, 20)] {
            let runtime = store(killed, &log);
            put_checkpoint(&runtime, BEGAN_MS + 1_000_000);
            runtime.disk().damage(queue_path("Topic", 1, base), at, &[0; 20]);
            check(&runtime, &log, true, &format!("entry at {at} of file {base}, killed {killed}"));
        }
    }
}

#[test]
fn damage_in_a_queue_file_that_is_not_read_through_is_found_where_it_is_met() {
    // Five files; the first entry of the first one is looked at to find the min offset.
    let mut log = Log::default();
    for _ in 0..45 {
        log.append("Topic", 0, 100);
    }
    let runtime = clean_store(&log);
    runtime.disk().damage(queue_path("Topic", 0, 0), 0, &[0; 20]);
    check(&runtime, &log, true, "the first entry");
}

#[test]
fn a_torn_entry_is_made_anew_after_a_kill() {
    let log = Log::of(90);
    let last =
        log.messages.iter().rfind(|message| message.topic == "Topic" && message.queue_id == 1).unwrap();
    let position = last.queue_offset * 20;
    let base = position / QUEUE_FILE_BYTES * QUEUE_FILE_BYTES;
    for kept in 0..20 {
        let runtime = killed_store(&log);
        runtime.disk().damage(
            queue_path("Topic", 1, base),
            position - base + kept,
            &vec![0; 20 - kept as usize],
        );
        check(&runtime, &log, false, &format!("{kept} bytes of the last entry"));
    }
}

#[test]
fn rubbish_and_stale_entries_behind_a_queue_go() {
    let log = Log::of(90);
    let count =
        log.messages.iter().filter(|message| message.topic == "Other" && message.queue_id == 0).count();
    let position = count as u64 * 20;
    assert!(position < QUEUE_FILE_BYTES - 20, "the queue ends inside its first file");
    let runtime = killed_store(&log);
    runtime.disk().damage(queue_path("Other", 0, 0), QUEUE_FILE_BYTES - 1, &[1]);
    check(&runtime, &log, false, "the file's last byte, killed");
    // An old entry that follows the last one seamlessly: a record of another queue.
    let mut stale = Vec::new();
    log.messages[88].entry.encode(&mut stale);
    for killed in [true, false] {
        let runtime = store(killed, &log);
        runtime.disk().damage(queue_path("Other", 0, 0), position, &stale);
        check(&runtime, &log, !killed, &format!("a stale entry, killed {killed}"));
    }
}

#[test]
fn a_log_whose_first_segment_is_gone_keeps_its_numbers() {
    let log = Log::of(120);
    for killed in [true, false] {
        for queues in [true, false] {
            let runtime = store(killed, &log);
            runtime.disk().remove(segment_path(0));
            if !queues {
                remove_under(&runtime, "/store/consumequeue");
            }
            let opened = open_now(&runtime).unwrap();
            assert_eq!(opened.recovered.log_min.get(), SEGMENT_BYTES);
            assert_eq!(opened.recovered.queues_rebuilt, !queues, "killed {killed}");
            for queue in opened.queues.iter() {
                let (topic, queue_id) = (opened.queues.topic_of(queue), opened.queues.queue_id_of(queue));
                let of_queue = |message: &&crate::stored::Written| {
                    message.topic == topic && message.queue_id == queue_id
                };
                let all = log.messages.iter().filter(of_queue).count() as u64;
                let first =
                    log.messages.iter().filter(of_queue).find(|message| message.start() >= SEGMENT_BYTES);
                assert_eq!(opened.queues.max_offset(queue).get(), all, "{topic} {queue_id}");
                assert_eq!(opened.queues.next_offset(queue).get(), all, "{topic} {queue_id}");
                let min = first.map_or(all, |message| message.queue_offset);
                assert_eq!(opened.queues.min_offset(queue).get(), min, "{topic} {queue_id}");
            }
            drop(opened);
            runtime.block_on(abort::remove(&runtime, Path::new(ROOT))).unwrap();
            assert!(!open_now(&runtime).unwrap().recovered.queues_rebuilt, "killed {killed} queues {queues}");
        }
    }
}

#[test]
fn a_queue_whose_records_are_all_gone_keeps_its_number() {
    let mut log = Log::default();
    for _ in 0..15 {
        log.append("Old", 0, 100);
    }
    while log.end < 2 * SEGMENT_BYTES + 4000 {
        log.append("New", 0, 300);
    }
    for killed in [true, false] {
        for holed in [true, false] {
            let runtime = store(killed, &log);
            runtime.disk().remove(segment_path(0));
            if holed {
                // All queues are made anew, but the log knows nothing of this one.
                runtime.disk().damage(queue_path("New", 0, 0), 20, &[0; 20]);
            }
            let opened = open_now(&runtime).unwrap();
            let old = opened.queues.find("Old", 0).unwrap();
            assert_eq!(opened.queues.next_offset(old).get(), 15, "killed {killed} holed {holed}");
            assert_eq!(opened.queues.min_offset(old).get(), 15);
            assert_eq!(opened.queues.max_offset(old).get(), 15);
        }
    }
}

#[test]
fn numbers_that_rocketmq_gave_twice_or_never_do_not_move_others() {
    // After losing a queue's tail 4.9.7 gives its numbers again; a failed append may have left one out.
    let mut log = Log::default();
    for _ in 0..6 {
        log.append("Topic", 0, 50);
    }
    let renumber = |log: &mut Log, number: usize, queue_offset: u64| {
        let at = usize::try_from(log.messages[number].start()).unwrap() + 20;
        log.bytes[at..at + 8].copy_from_slice(&queue_offset.to_be_bytes());
    };
    // 0 1 2 1 2 5
    renumber(&mut log, 3, 1);
    renumber(&mut log, 4, 2);
    let runtime = killed_store(&log);
    remove_under(&runtime, "/store/consumequeue");
    let mut opened = open_now(&runtime).unwrap();
    assert!(opened.recovered.queues_rebuilt);
    let queue = opened.queues.find("Topic", 0).unwrap();
    let entries = crate::stored::entries_of(&runtime, &mut opened.queues, queue);
    let at = |number: usize| log.messages[number].entry;
    let hole = engine::derive::consume_queue::Entry::HOLE;
    assert_eq!(entries, [at(0), at(1), at(2), hole, hole, at(5)]);
}
