//! Consume queues on a disk: written behind, never lost, found again.

use std::path::Path;

use engine::{
    derive::consume_queue::{
        ConsumeQueues, Entry, FileTable, Lookup, QueueIndex, load::load, perform_cold, perform_persist,
        perform_sync,
    },
    error::StoreError,
    io::script::{EIO, ENOSPC, InFlightFate, Kind, PowerCut, Rule, ScriptRuntime},
    offset::{LogOffset, QueueOffset},
};

use crate::stored::{QUEUE_FILE_BYTES, ROOT, entries_of, queue_path};

fn world() -> ScriptRuntime {
    let runtime = ScriptRuntime::new(5);
    for directory in ["consumequeue", "ringmq"] {
        runtime.disk().create_directory(Path::new(ROOT).join(directory));
    }
    runtime
}

fn queues() -> ConsumeQueues {
    ConsumeQueues::new(Path::new(ROOT), QUEUE_FILE_BYTES).unwrap()
}

fn entry(number: u64) -> Entry {
    Entry {
        log_offset: LogOffset::new(number * 100),
        size: 100,
        tags_code: i64::try_from(number).unwrap() - 5,
    }
}

/// Pushes entries to `queue` until it has `end` of them; entry n is stored at n ms.
fn fill(queues: &mut ConsumeQueues, queue: QueueIndex, end: u64) {
    for number in queues.max_offset(queue).get()..end {
        queues.push(queue, QueueOffset::new(number), entry(number));
        queues.on_dispatched(i64::try_from(number).unwrap());
    }
}

async fn persist(
    runtime: &ScriptRuntime,
    files: &FileTable<ScriptRuntime>,
    queues: &mut ConsumeQueues,
    bytes_max: usize,
) -> Result<(), StoreError> {
    while let Some(plan) = queues.begin_persist(bytes_max) {
        let outcome = perform_persist(runtime, files, plan).await;
        queues.complete_persist(outcome)?;
    }
    Ok(())
}

async fn sync(
    runtime: &ScriptRuntime,
    files: &FileTable<ScriptRuntime>,
    queues: &mut ConsumeQueues,
) -> Result<(), StoreError> {
    while let Some(plan) = queues.begin_sync() {
        let outcome = perform_sync(runtime, files, plan).await;
        queues.complete_sync(outcome)?;
    }
    Ok(())
}

/// The first file of the queue used below holds these entries, then zeros.
fn file_entries(runtime: &ScriptRuntime, base: u64) -> Option<Vec<Entry>> {
    let bytes = runtime.disk().read(queue_path("T", 0, base))?;
    assert_eq!(bytes.len() as u64, QUEUE_FILE_BYTES);
    let slots = bytes.as_chunks::<20>().0;
    let entries: Vec<Entry> = slots.iter().map_while(Entry::decode).collect();
    assert!(bytes[entries.len() * 20..].iter().all(|&byte| byte == 0));
    Some(entries)
}

#[test]
fn files_have_their_full_length_and_every_entry_its_slot() {
    let runtime = world();
    let files = FileTable::new(2);
    let mut queues = queues();
    let queue = queues.open("T", 0);
    runtime.block_on(async {
        for end in [1, 3, 9, 10, 11, 29, 30, 57] {
            fill(&mut queues, queue, end);
            persist(&runtime, &files, &mut queues, usize::MAX).await.unwrap();
            let written: Vec<Entry> =
                (0..).map_while(|file| file_entries(&runtime, file * QUEUE_FILE_BYTES)).flatten().collect();
            assert_eq!(written, (0..end).map(entry).collect::<Vec<_>>());
            assert_eq!(queues.behind().entries, 0);
        }
    });
    let names = runtime.disk().files().into_keys().map(|path| path.display().to_string()).collect::<Vec<_>>();
    let expected: Vec<String> =
        (0..6).map(|file| format!("/store/consumequeue/T/0/{:020}", file * 200)).collect();
    assert_eq!(names, expected, "no other file is left");
}

#[test]
fn plans_are_bounded_and_take_turns() {
    let runtime = world();
    let files = FileTable::new(2);
    let mut queues = queues();
    let (one, two) = (queues.open("A", 0), queues.open("B", 0));
    fill(&mut queues, one, 100);
    fill(&mut queues, two, 5);
    runtime.block_on(async {
        let mut plans = 0;
        while let Some(plan) = queues.begin_persist(400) {
            assert!(plan.bytes() <= 400, "{}", plan.bytes());
            let outcome = perform_persist(&runtime, &files, plan).await;
            queues.complete_persist(outcome).unwrap();
            plans += 1;
            if plans == 2 {
                assert_eq!(
                    entries_in(&runtime, "/store/consumequeue/B/0"),
                    5,
                    "the short queue isn't starved"
                );
            }
        }
        assert_eq!(plans, 6);
    });
    assert_eq!(entries_in(&runtime, "/store/consumequeue/A/0"), 100);
}

fn entries_in(runtime: &ScriptRuntime, directory: &str) -> usize {
    let files = runtime.disk().files();
    let of_queue = files.iter().filter(|(path, _)| path.starts_with(directory));
    of_queue
        .flat_map(|(_, bytes)| bytes.as_chunks::<20>().0)
        .filter(|slot| Entry::decode(slot).is_some())
        .count()
}

#[test]
fn a_full_disk_loses_nothing() {
    let runtime = world();
    let files = FileTable::new(2);
    let mut queues = queues();
    let queue = queues.open("T", 0);
    runtime.block_on(async {
        fill(&mut queues, queue, 15);
        persist(&runtime, &files, &mut queues, usize::MAX).await.unwrap();
        for kind in [Kind::Write, Kind::Create] {
            let end = queues.max_offset(queue).get() + 12;
            fill(&mut queues, queue, end);
            let rule = runtime.plan().add(Rule::of(kind).fail(ENOSPC));
            for _ in 0..3 {
                assert!(persist(&runtime, &files, &mut queues, usize::MAX).await.is_err());
            }
            assert!(queues.behind().entries > 0);
            // Everything is still there to be pulled.
            runtime.plan().remove(rule);
            let Lookup::Memory(entries) = queues.lookup(queue, QueueOffset::new(end - 12), 100) else {
                panic!("unwritten entries are in memory")
            };
            assert!(entries.eq((end - 12..end).map(entry)));
            persist(&runtime, &files, &mut queues, usize::MAX).await.unwrap();
            assert_eq!(queues.behind().entries, 0);
        }
    });
    let end = queues.max_offset(queue).get();
    let written: Vec<Entry> =
        (0..).map_while(|file| file_entries(&runtime, file * QUEUE_FILE_BYTES)).flatten().collect();
    assert_eq!(written, (0..end).map(entry).collect::<Vec<_>>());
}

#[test]
fn a_time_counts_as_durable_only_when_written_and_then_synced() {
    let runtime = world();
    let files = FileTable::new(2);
    let mut queues = queues();
    let queue = queues.open("T", 0);
    runtime.block_on(async {
        fill(&mut queues, queue, 11);
        assert!(queues.begin_sync().is_none(), "nothing is written");
        assert_eq!(queues.durable_timestamp_ms(), 0);
        persist(&runtime, &files, &mut queues, usize::MAX).await.unwrap();
        assert_eq!(queues.durable_timestamp_ms(), 0);
        let plan = queues.begin_sync().unwrap();
        // Written while the sync runs: not covered by it.
        fill(&mut queues, queue, 25);
        persist(&runtime, &files, &mut queues, usize::MAX).await.unwrap();
        let outcome = perform_sync(&runtime, &files, plan).await;
        queues.complete_sync(outcome).unwrap();
        assert_eq!(queues.durable_timestamp_ms(), 10);
        assert!(!queues.is_durable());
        sync(&runtime, &files, &mut queues).await.unwrap();
        assert_eq!(queues.durable_timestamp_ms(), 24);
        assert!(queues.is_durable());
        // A part of what waits covers no time.
        fill(&mut queues, queue, 60);
        let plan = queues.begin_persist(100).unwrap();
        let outcome = perform_persist(&runtime, &files, plan).await;
        queues.complete_persist(outcome).unwrap();
        sync(&runtime, &files, &mut queues).await.unwrap();
        assert_eq!(queues.durable_timestamp_ms(), 24);
    });
}

#[test]
fn after_a_failed_sync_nothing_becomes_durable_any_more() {
    let runtime = world();
    let files = FileTable::new(2);
    let mut queues = queues();
    let queue = queues.open("T", 0);
    runtime.block_on(async {
        fill(&mut queues, queue, 3);
        persist(&runtime, &files, &mut queues, usize::MAX).await.unwrap();
        runtime.plan().add(Rule::of(Kind::SyncData).nth(1).fail(EIO));
        assert!(sync(&runtime, &files, &mut queues).await.is_err());
        fill(&mut queues, queue, 6);
        persist(&runtime, &files, &mut queues, usize::MAX).await.unwrap();
        sync(&runtime, &files, &mut queues).await.unwrap();
        assert_eq!(queues.durable_timestamp_ms(), 0);
        assert!(!queues.is_durable(), "a clean stop isn't possible");
    });
}

#[test]
fn old_entries_are_read_back() {
    let runtime = world();
    let files = FileTable::new(2);
    let mut queues = queues();
    let queue = queues.open("T", 0);
    runtime.block_on(async {
        fill(&mut queues, queue, 5000);
        persist(&runtime, &files, &mut queues, usize::MAX).await.unwrap();
    });
    let cold = match queues.lookup(queue, QueueOffset::new(7), 3) {
        Lookup::Cold(cold) => cold,
        Lookup::Memory(_) => panic!("a queue doesn't keep 5,000 entries in memory"),
    };
    let bytes = runtime.block_on(perform_cold(&runtime, &files, &cold)).unwrap();
    // A file that is damaged is noticed.
    assert!(matches!(
        queues.on_cold_loaded(&cold, &[0; 200]),
        Err(StoreError::QueueEntry { position: 0, .. })
    ));
    queues.on_cold_loaded(&cold, &bytes).unwrap();
    let Lookup::Memory(entries) = queues.lookup(queue, QueueOffset::new(7), 2) else {
        panic!("it was loaded")
    };
    assert!(entries.eq([entry(7), entry(8)]));
    let all = entries_of(&runtime, &mut queues, queue);
    assert_eq!(all, (0..5000).map(entry).collect::<Vec<_>>());
}

#[test]
fn idle_queues_give_their_memory_back_and_are_still_read() {
    let runtime = world();
    let files = FileTable::new(2);
    let mut queues = queues();
    let queue = queues.open("T", 0);
    runtime.block_on(async {
        fill(&mut queues, queue, 900);
        persist(&runtime, &files, &mut queues, usize::MAX).await.unwrap();
    });
    assert!(matches!(queues.lookup(queue, QueueOffset::ZERO, 1), Lookup::Memory(_)));
    queues.trim_idle();
    assert!(matches!(queues.lookup(queue, QueueOffset::ZERO, 1), Lookup::Memory(_)), "it was just used");
    queues.trim_idle();
    assert!(matches!(queues.lookup(queue, QueueOffset::ZERO, 1), Lookup::Cold(_)));
    assert!(matches!(queues.lookup(queue, QueueOffset::new(899), 1), Lookup::Memory(_)));
    let all = entries_of(&runtime, &mut queues, queue);
    assert_eq!(all, (0..900).map(entry).collect::<Vec<_>>());
    fill(&mut queues, queue, 905);
    runtime.block_on(persist(&runtime, &files, &mut queues, usize::MAX)).unwrap();
    assert_eq!(entries_of(&runtime, &mut queues, queue), (0..905).map(entry).collect::<Vec<_>>());
}

#[test]
fn a_crash_at_any_operation_leaves_a_prefix_that_contains_what_was_synced() {
    for number in 1.. {
        let runtime = world();
        runtime.plan().stop_at(number);
        let files = FileTable::new(2);
        let mut queues = queues();
        let queue = queues.open("T", 0);
        let finished = runtime.try_block_on(async {
            for end in [3, 12, 25, 31] {
                fill(&mut queues, queue, end);
                persist(&runtime, &files, &mut queues, 300).await.unwrap();
                sync(&runtime, &files, &mut queues).await.unwrap();
            }
        });
        let durable_end = queues.durable_timestamp_ms() + i64::from(queues.durable_timestamp_ms() > 0);
        let kills = [InFlightFate::Absent, InFlightFate::Whole, InFlightFate::Seed(number)];
        let cuts = [PowerCut::nothing(), PowerCut::seed(number), PowerCut::seed(number + 1000)];
        let images = kills.map(|fate| runtime.disk().kill_image(fate)).into_iter();
        let images = images.chain(cuts.map(|cut| runtime.disk().power_cut_image(cut)));
        for image in images {
            let loaded = image.block_on(load(&image, Path::new(ROOT), QUEUE_FILE_BYTES, false)).unwrap();
            let mut loaded = loaded.queues;
            let Some(queue) = loaded.find("T", 0) else {
                assert_eq!(durable_end, 0, "operation {number}: the queue is gone");
                continue;
            };
            let found = entries_of(&image, &mut loaded, queue);
            assert!(
                found.len() as i64 >= durable_end,
                "operation {number}: {} of {durable_end}",
                found.len()
            );
            // The last one may be torn, and is cut with all that the checkpoint doesn't cover.
            let whole = &found[..found.len().saturating_sub(1).max(usize::try_from(durable_end).unwrap())];
            assert!(whole.iter().copied().eq((0..whole.len() as u64).map(entry)), "operation {number}");
        }
        runtime.end();
        if finished.is_some() {
            assert!(number > 20);
            return;
        }
    }
}
