//! Damage before intact records is refused, and nothing is changed.

use std::path::Path;

use engine::{error::StoreError, io::script::ScriptRuntime};

use crate::stored::{
    Log, ROOT, SEGMENT_BYTES, clean_store, killed_store, open_now, put_checkpoint, segment_path,
};

/// Expects a refusal by the case `label`, with the damage at `position`.
fn check_refused(runtime: &ScriptRuntime, label: &str, position: u64, what: &str) {
    let before = runtime.disk().files();
    match open_now(runtime).err() {
        Some(StoreError::DamagedLog { position: at, case, valid_at, valid_count, .. }) => {
            assert_eq!((case, at.get()), (label, position), "{what}");
            assert!(valid_at > at && valid_count > 0, "{what}");
        }
        Some(other) => panic!("{what}: {other}"),
        None => panic!("{what}: it was opened"),
    }
    let mut after = runtime.disk().files();
    // The lock's file may be new.
    after.retain(|path, _| before.contains_key(path) || path != &Path::new(ROOT).join("lock"));
    assert!(after == before, "{what}: something was changed");
}

#[test]
fn a_flipped_bit_anywhere_in_a_record_is_refused_when_records_stand_behind() {
    let log = Log::of(12);
    let damaged = log.messages[8].clone();
    // Fields that every check must see: size, magic, body checksum, position, body, topic length, properties length.
    let body_at = damaged.start() + 88;
    let size = u64::from(damaged.entry.size);
    let topic_length_at = damaged.start() + size - 2 - 9 - 5 - 1;
    let fields = [0, 3, 4, 8, 28, 35, 84, 87].map(|at| damaged.start() + at);
    for at in fields.into_iter().chain([body_at, body_at + 20, topic_length_at, damaged.start() + size - 10])
    {
        for mask in [0x01, 0x80] {
            for clean in [true, false] {
                let runtime = if clean { clean_store(&log) } else { killed_store(&log) };
                if !clean {
                    put_checkpoint(&runtime, log.messages[3].store_timestamp_ms);
                }
                let byte = log.bytes[usize::try_from(at).unwrap()] ^ mask;
                runtime.disk().damage(segment_path(0), at, &[byte]);
                let label = if clean { "damage_after_clean_stop" } else { "damage_before_end" };
                check_refused(
                    &runtime,
                    label,
                    damaged.start(),
                    &format!("byte {} ^ {mask:#x} of {size}", at - damaged.start()),
                );
            }
        }
    }
}

#[test]
fn a_zeroed_record_is_refused_when_it_was_durable() {
    let log = Log::of(12);
    let lost = log.messages[10].clone();
    for (checkpoint_ms, label) in
        [(log.last().store_timestamp_ms, "damage_in_durable_part"), (0, "damage_in_durable_part")]
    {
        let runtime = killed_store(&log);
        put_checkpoint(&runtime, checkpoint_ms);
        runtime.disk().damage(segment_path(0), lost.start(), &vec![0; lost.entry.size as usize]);
        check_refused(&runtime, label, lost.start(), "a zeroed record");
    }
}

#[test]
fn records_in_a_later_segment_count_too() {
    let log = Log::of(90);
    let second = log.messages.iter().position(|message| message.start() >= SEGMENT_BYTES).unwrap();
    let last = log.messages[second - 1].clone();
    for killed in [true, false] {
        let runtime = if killed { killed_store(&log) } else { clean_store(&log) };
        // So that a scan after a clean stop begins with the first segment.
        if !killed {
            remove_under(&runtime, "/store/consumequeue");
        }
        runtime.disk().damage(segment_path(0), last.start() + 88, &[0xFF]);
        let label = if killed { "damage_before_end" } else { "damage_after_clean_stop" };
        check_refused(&runtime, label, last.start(), "the first segment's last record");
        // The blank's magic.
        let runtime = if killed { killed_store(&log) } else { clean_store(&log) };
        if !killed {
            remove_under(&runtime, "/store/consumequeue");
        }
        runtime.disk().damage(segment_path(0), last.end() + 4, &[0; 4]);
        check_refused(&runtime, label, last.end(), "the first segment's blank");
    }
}

#[test]
fn missing_last_segments_are_noticed() {
    let log = Log::of(90);
    let last_base = log.end / SEGMENT_BYTES * SEGMENT_BYTES;
    for killed in [true, false] {
        let runtime = if killed { killed_store(&log) } else { clean_store(&log) };
        runtime.disk().remove(segment_path(last_base));
        match open_now(&runtime).err() {
            Some(StoreError::MissingSegments { log_end, named_end, .. }) => {
                assert_eq!((log_end.get(), named_end.get()), (last_base, log.end));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_size_beyond_all_bounds_is_invalid() {
    let log = Log::of(12);
    for size in [i32::MAX, -1, i32::MIN, 0, 90] {
        let runtime = killed_store(&log);
        runtime.disk().damage(segment_path(0), log.last().start(), &size.to_be_bytes());
        let opened = open_now(&runtime).unwrap();
        assert_eq!(opened.recovered.log_end.get(), log.last().start(), "{size}");
    }
}

fn remove_under(runtime: &ScriptRuntime, directory: &str) {
    for path in runtime.disk().files().into_keys().filter(|path| path.starts_with(directory)) {
        runtime.disk().remove(path);
    }
}
