//! Torn, zeroed, misplaced and stale tails of every length: the log ends before them and they are zeroed.

use crate::stored::{
    Log, SEGMENT_BYTES, assert_log_is, assert_queues_are, clean_store, killed_store, open_now,
    put_checkpoint, segment_path,
};
use engine::io::script::ScriptRuntime;

/// Opens the store and expects the log `expected`, by the case `how`.
fn check(runtime: &ScriptRuntime, expected: &Log, how: &str, what: &str) {
    let found = runtime.disk().files();
    let nonzero = |file: &Vec<u8>| file.iter().filter(|&&byte| byte != 0).count() as u64;
    let of_log = |files: &std::collections::BTreeMap<_, Vec<u8>>| -> u64 {
        let in_log =
            files.iter().filter(|(path, _): &(&std::path::PathBuf, _)| path.starts_with("/store/commitlog"));
        in_log.map(|(_, file)| nonzero(file)).sum()
    };
    let mut opened = open_now(runtime).unwrap_or_else(|error| panic!("{what}: {error}"));
    let cut = of_log(&found) - of_log(&runtime.disk().files());
    assert!(opened.recovered.cut_bytes >= cut && (cut > 0 || opened.recovered.cut_bytes == 0), "{what}");
    assert_eq!(opened.recovered.log_end.get(), expected.end, "{what}");
    assert_eq!(opened.recovered.how, how, "{what}");
    assert_log_is(runtime, expected);
    assert_queues_are(runtime, &mut opened.queues, expected);
    drop(opened);
    // What was cut doesn't come back, and there is nothing to cut any more.
    let again = open_now(runtime).unwrap();
    assert_eq!((again.recovered.log_end.get(), again.recovered.unclean_bytes), (expected.end, 0), "{what}");
}

/// Overwrites bytes of the log.
fn damage(runtime: &ScriptRuntime, at: u64, bytes: &[u8]) {
    runtime.disk().damage(segment_path(at / SEGMENT_BYTES * SEGMENT_BYTES), at % SEGMENT_BYTES, bytes);
}

#[test]
fn a_record_torn_at_any_byte_is_cut() {
    let log = Log::of(12);
    let last = log.last().clone();
    let before = log.cut(11);
    for kept in 0..u64::from(last.entry.size) {
        let runtime = killed_store(&log);
        let zeros = vec![0; usize::try_from(last.end() - last.start() - kept).unwrap()];
        damage(&runtime, last.start() + kept, &zeros);
        // The first bytes of a size are zero anyway.
        let at = usize::try_from(last.start()).unwrap();
        let is_zero = log.bytes[at..].iter().take(kept as usize).all(|&byte| byte == 0);
        let how = if is_zero { "killed_at_end" } else { "torn_tail" };
        check(&runtime, &before, how, &format!("{kept} bytes of the last record"));
    }
}

#[test]
fn rubbish_of_any_length_behind_the_end_is_zeroed() {
    let log = Log::of(12);
    for len in [1, 2, 3, 4, 7, 8, 9, 35, 36, 37, 90, 91, 92, 511, 512, 513, 4095, 4096, 5000] {
        for byte in [0xFF, 0xA5, 1] {
            let runtime = killed_store(&log);
            damage(&runtime, log.end, &vec![byte; len]);
            check(&runtime, &log, "torn_tail", &format!("{len} bytes {byte:#x}"));
            let runtime = clean_store(&log);
            damage(&runtime, log.end, &vec![byte; len]);
            check(&runtime, &log, "clean_tail_damaged", &format!("{len} bytes {byte:#x}, clean"));
        }
    }
}

#[test]
fn rubbish_far_behind_the_end_is_zeroed() {
    let log = Log::of(12);
    let runtime = killed_store(&log);
    damage(&runtime, SEGMENT_BYTES - 1, &[7]);
    check(&runtime, &log, "torn_tail", "the segment's last byte");
}

#[test]
fn a_misplaced_record_is_no_record() {
    let log = Log::of(12);
    let first = &log.messages[0];
    let copy = log.bytes[..usize::try_from(first.end()).unwrap()].to_vec();
    for gap in [0, 1, 100] {
        let runtime = killed_store(&log);
        damage(&runtime, log.end + gap, &copy);
        check(&runtime, &log, "torn_tail", &format!("an old record {gap} bytes behind the end"));
    }
}

#[test]
fn stale_records_at_their_own_place_do_not_come_back() {
    // RocketMQ cuts without zeroing: an earlier, longer log, cut at message 5, then one new message, smaller than the
    // one that was there.
    let old = Log::of(12);
    let mut new = old.cut(5);
    new.append("Topic", 0, 5);
    let last = new.messages.last_mut().unwrap();
    last.store_timestamp_ms += 1000;
    let at = usize::try_from(last.start()).unwrap() + 56;
    let stored_ms = last.store_timestamp_ms;
    new.bytes[at..at + 8].copy_from_slice(&stored_ms.to_be_bytes());
    for killed in [true, false] {
        let runtime = if killed { killed_store(&new) } else { clean_store(&new) };
        let from = usize::try_from(new.end).unwrap();
        damage(&runtime, new.end, &old.bytes[from..usize::try_from(old.end).unwrap()]);
        let how = if killed { "torn_tail" } else { "clean_tail_damaged" };
        check(&runtime, &new, how, "stale records");
    }
}

#[test]
fn a_zero_segment_behind_the_end_goes() {
    let log = Log::of(12);
    let runtime = killed_store(&log);
    for number in 1..3 {
        runtime
            .disk()
            .put(segment_path(number * SEGMENT_BYTES), &vec![0; usize::try_from(SEGMENT_BYTES).unwrap()]);
    }
    check(&runtime, &log, "killed_at_end", "two prepared segments");
    assert!(runtime.disk().read(segment_path(SEGMENT_BYTES)).is_none());
    assert!(runtime.disk().read(segment_path(2 * SEGMENT_BYTES)).is_none());
}

#[test]
fn a_segment_torn_at_its_blank_goes_on_there() {
    // The last record of the first segment, and whatever part of the blank.
    let log = Log::of(90);
    let second = log.messages.iter().position(|message| message.start() >= SEGMENT_BYTES).unwrap();
    let before = log.cut(second);
    let blank_at = log.messages[second - 1].end();
    let mut expected = before.clone();
    expected.end = blank_at;
    expected.bytes.truncate(usize::try_from(SEGMENT_BYTES).unwrap());
    expected.bytes[usize::try_from(blank_at).unwrap()..].fill(0);
    for kept in 0..8 {
        let runtime = killed_store(&expected);
        let blank = &log.bytes[usize::try_from(blank_at).unwrap()..][..kept];
        damage(&runtime, blank_at, blank);
        let how = if blank.iter().all(|&byte| byte == 0) { "killed_at_end" } else { "torn_tail" };
        check(&runtime, &expected, how, &format!("{kept} bytes of a blank"));
    }
    // With all of it the log goes on in the next segment, whether it is there or not.
    let runtime = killed_store(&expected);
    damage(&runtime, blank_at, &log.bytes[usize::try_from(blank_at).unwrap()..][..8]);
    let opened = open_now(&runtime).unwrap();
    assert_eq!(
        (opened.recovered.log_end.get(), opened.recovered.how),
        (SEGMENT_BYTES, "log_ends_with_segment")
    );
    drop(opened);
    runtime.disk().put(segment_path(SEGMENT_BYTES), &vec![0; usize::try_from(SEGMENT_BYTES).unwrap()]);
    let opened = open_now(&runtime).unwrap();
    assert_eq!((opened.recovered.log_end.get(), opened.recovered.how), (SEGMENT_BYTES, "killed_at_end"));
    assert_eq!(opened.recovered.segments.len(), 2);
}

#[test]
fn properties_that_end_in_zeros_are_torn_only_at_the_end_after_a_kill() {
    let mut log = Log::of(5);
    log.append_with("Topic", 0, b"body", "TAGS\u{1}TagA\u{2}ODD\u{1}\0");
    let torn = log.cut(5);
    check(&killed_store(&log), &torn, "torn_tail", "last");
    let opened = open_now(&clean_store(&log)).unwrap();
    assert_eq!((opened.recovered.log_end.get(), opened.recovered.how), (log.end, "clean_end"));
    log.append("Topic", 0, 40);
    check(&killed_store(&log), &log, "killed_at_end", "not last");
}

#[test]
fn a_power_cut_that_lost_sectors_in_the_middle_of_unsynced_writes_cuts_there() {
    // Records of 1,300 bytes: each has a whole sector inside.
    let mut log = Log::default();
    for _ in 0..6 {
        log.append("Topic", 0, 1200);
    }
    for lost in 2..5 {
        let message = log.messages[lost].clone();
        let expected = log.cut(lost);
        let sector = message.start().next_multiple_of(512);
        let runtime = killed_store(&log);
        // Only the first two messages were known to be durable.
        put_checkpoint(&runtime, log.messages[1].store_timestamp_ms);
        damage(&runtime, sector, &[0; 512]);
        check(&runtime, &expected, "write_with_hole", &format!("message {lost}"));
    }
}
