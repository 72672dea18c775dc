//! Stores that Apache RocketMQ wrote: every message that it served is found, its queue files are made anew byte
//! for byte, and its damaged stores are put right or refused.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

use engine::{
    io::script::ScriptRuntime,
    recover::{OpenedStore, open_store},
};
use serde_json::Value;

use crate::stored::entries_of;

/// Of the stores in the archives: when the queues are gone, nothing tells it.
const QUEUE_FILE_BYTES: u64 = 2000;
const DAMAGED_QUEUE_FILE_BYTES: u64 = 800;

fn open(
    runtime: &ScriptRuntime,
    queue_file_bytes: u64,
) -> Result<OpenedStore<ScriptRuntime>, engine::error::StoreError> {
    runtime.block_on(open_store(runtime, Path::new("/store"), 262_144, queue_file_bytes, &mut |_| {}))
}

fn golden(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/golden")).join(name)
}

/// The store in an archive, unpacked to `store/` of a directory.
pub fn unpack(archive: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let status = Command::new("tar").arg("xf").arg(golden(archive)).arg("-C").arg(directory.path()).status();
    assert!(status.unwrap().success(), "{archive} is unpacked");
    directory
}

/// A world with the store in an archive at `/store`.
fn unpacked(archive: &str) -> ScriptRuntime {
    let directory = unpack(archive);
    let runtime = ScriptRuntime::new(1);
    runtime.disk().import(&directory.path().join("store"), "/store").unwrap();
    runtime
}

pub fn manifest(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(golden(name)).unwrap()).unwrap()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is a number"))
}

fn queue_of(value: &Value) -> (String, u32) {
    (value["topic"].as_str().unwrap().to_owned(), u32::try_from(number(&value["queueId"])).unwrap())
}

/// The store holds what the manifest says the broker served.
fn assert_is(runtime: &ScriptRuntime, opened: &mut OpenedStore<ScriptRuntime>, manifest: &Value, what: &str) {
    assert_eq!(opened.recovered.log_end.get(), number(&manifest["lastRecordEnd"]), "{what}");
    let mut entries = BTreeMap::new();
    for found in manifest["queues"].as_array().unwrap() {
        let (topic, queue_id) = queue_of(found);
        let max = number(&found["max"]);
        let Some(queue) = opened.queues.find(&topic, queue_id) else {
            assert_eq!(max, 0, "{what}: {topic} {queue_id} is missing");
            continue;
        };
        assert_eq!(
            opened.queues.min_offset(queue).get(),
            number(&found["min"]),
            "{what}: {topic} {queue_id}"
        );
        assert_eq!(opened.queues.max_offset(queue).get(), max, "{what}: {topic} {queue_id}");
        assert_eq!(opened.queues.next_offset(queue).get(), max, "{what}: {topic} {queue_id}");
        let of_queue = entries_of(runtime, &mut opened.queues, queue);
        assert_eq!(of_queue.len() as u64, max - number(&found["min"]));
        entries.insert((topic, queue_id), of_queue);
    }
    let mut compared = 0;
    for message in manifest["messages"].as_array().unwrap() {
        if message["servedByQueue"] == Value::Bool(false) {
            continue;
        }
        let queue = queue_of(message);
        let of_queue = entries.get(&queue).unwrap_or_else(|| panic!("{queue:?} of {message} is there"));
        let entry = of_queue[usize::try_from(number(&message["queueOffset"])).unwrap()];
        assert_eq!(entry.log_offset.get(), number(&message["phy"]), "{message}");
        assert_eq!(u64::from(entry.size), number(&message["recordSize"]), "{message}");
        compared += 1;
    }
    assert_eq!(compared, number(&manifest["messageCount"]));
}

const CLEAN: [(&str, &str); 2] = [
    ("store-4.9.7-clean/store.tar.xz", "store-4.9.7-clean/manifest.json"),
    ("store-5.1.4-clean/store.tar.xz", "store-5.1.4-clean/manifest.json"),
];

#[test]
fn golden_clean_stores_open_as_they_were_served() {
    for (archive, name) in CLEAN {
        let runtime = unpacked(archive);
        let before = runtime.disk().files();
        let mut opened = open(&runtime, QUEUE_FILE_BYTES).unwrap();
        assert_eq!(
            (opened.recovered.how, opened.recovered.queues_rebuilt),
            ("clean_end", false),
            "{archive}"
        );
        assert_is(&runtime, &mut opened, &manifest(name), archive);
        // Nothing that RocketMQ wrote was changed but the checkpoint.
        let after = runtime.disk().files();
        for (path, bytes) in before.iter().filter(|(path, _)| !path.ends_with("checkpoint")) {
            assert!(after.get(path) == Some(bytes), "{} is as it was", path.display());
        }
    }
}

#[test]
fn golden_queue_files_are_made_anew_byte_for_byte() {
    for (archive, name) in CLEAN {
        for killed in [false, true] {
            let runtime = unpacked(archive);
            let before = runtime.disk().files();
            let in_queues = |path: &Path| path.starts_with("/store/consumequeue");
            for path in before.keys().filter(|path| in_queues(path)) {
                runtime.disk().remove(path);
            }
            if killed {
                runtime.disk().put("/store/abort", b"");
                runtime.disk().put("/store/checkpoint", &[0; 4096]);
            }
            let mut opened = open(&runtime, QUEUE_FILE_BYTES).unwrap();
            assert_is(&runtime, &mut opened, &manifest(name), archive);
            let after = runtime.disk().files();
            let mut compared = 0;
            for (path, bytes) in before.iter().filter(|(path, _)| in_queues(path)) {
                // A queue of RocketMQ's may have files without entries.
                if bytes.iter().any(|&byte| byte != 0) {
                    let differs =
                        after.get(path).map(|found| found.iter().zip(bytes).position(|(a, b)| a != b));
                    assert_eq!(differs, Some(None), "{} is as RocketMQ wrote it", path.display());
                    compared += 1;
                }
            }
            assert!(compared > 30, "{archive}: {compared} files compared");
        }
    }
}

#[test]
fn golden_killed_stores_open_with_all_that_was_acknowledged() {
    for (archive, name) in [
        ("store-4.9.7-killed/sync-store.tar.xz", "store-4.9.7-killed/sync-after-java-recovery.json"),
        ("store-4.9.7-killed/async-store.tar.xz", "store-4.9.7-killed/async-after-java-recovery.json"),
    ] {
        let runtime = unpacked(archive);
        let mut opened = open(&runtime, QUEUE_FILE_BYTES).unwrap();
        assert!(opened.recovered.killed && !opened.recovered.queues_rebuilt, "{archive}");
        assert_eq!(opened.recovered.how, "killed_at_end", "{archive}");
        assert_is(&runtime, &mut opened, &manifest(name), archive);
        drop(opened);
        let again = open(&runtime, QUEUE_FILE_BYTES).unwrap();
        assert_eq!(again.recovered.unclean_bytes, 0);
    }
}

/// Applies a recipe of `damaged/cases.json`.
fn apply(runtime: &ScriptRuntime, edit: &Value) {
    let disk = runtime.disk();
    let target = edit["path"].as_str().or(edit["file"].as_str()).unwrap();
    let path = Path::new("/store").join(target);
    let at = || number(&edit["at"]);
    let hex = || {
        let text = edit["hex"].as_str().unwrap();
        let pairs = text.as_bytes().chunks(2);
        pairs
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect::<Vec<u8>>()
    };
    let zeros = |value: &Value| vec![0; usize::try_from(number(value)).unwrap()];
    match edit["op"].as_str().unwrap() {
        "create" if edit["zeros"].is_u64() => disk.put(&path, &zeros(&edit["zeros"])),
        "create" => disk.put(&path, &hex()),
        "delete" => {
            for found in disk.files().into_keys().filter(|found| found.starts_with(&path)) {
                disk.remove(found);
            }
        }
        "truncate" => {
            let mut bytes = disk.read(&path).unwrap();
            bytes.truncate(usize::try_from(number(&edit["size"])).unwrap());
            disk.put(&path, &bytes);
        }
        "append" => {
            let mut bytes = disk.read(&path).unwrap();
            bytes.extend(zeros(&edit["zeros"]));
            disk.put(&path, &bytes);
        }
        "write" => disk.damage(&path, at(), &hex()),
        "fill" => {
            let byte = u8::try_from(number(&edit["byte"])).unwrap();
            disk.damage(&path, at(), &vec![byte; usize::try_from(number(&edit["length"])).unwrap()]);
        }
        other => panic!("{other} is an edit"),
    }
}

/// What we make of each damaged store.
enum Expected {
    /// It opens, and its log ends here.
    Opens(u64),
    /// It opens, and nothing is missing in any queue.
    OpensWhole,
    /// It is refused with a message that says this.
    Refused(&'static str),
}

fn expected(name: &str) -> Option<Expected> {
    use Expected::{Opens, OpensWhole, Refused};
    Some(match name {
        // Damage at the end of the log: cut there, as Java does, or better.
        "torn-size-field"
        | "torn-size-field-clean"
        | "torn-mid-header"
        | "torn-mid-body"
        | "torn-last-byte"
        | "torn-topic-length"
        | "crc-last"
        | "crc-last-clean"
        | "huge-size-last"
        | "zero-size-last" => Opens(83_590),
        "cq-longer-than-log" | "cq-longer-than-log-abort" => Opens(82_577),
        // No checksum covers it, and a clean stop leaves nothing torn.
        "torn-last-byte-clean" => OpensWhole,
        // Damage before intact records.
        "crc-middle-of-last-file" => Refused("the log is damaged at 74559"),
        "half-overwritten-tail" => Refused("the log is damaged at 83291"),
        "crc-first-file-no-checkpoint" => Refused("the log is damaged at 1647"),
        "blank-magic-zeroed-abort" => Refused("the log is damaged at 32559"),
        "crc-first-file-clean" => Refused("the log is damaged at 1647"),
        "zero-4k-middle-clean" => Refused("the log is damaged at 45"),
        "blank-magic-zeroed" => Refused("the log is damaged at 32559"),
        // In files that the checkpoint covers: the scan after a kill has no reason to read them.
        "crc-first-file" | "zero-4k-middle" => OpensWhole,
        "missing-last-file" | "missing-last-file-abort" => Refused("00000000000000065536 is missing"),
        "missing-middle-file" | "missing-middle-file-abort" => Refused("00000000000000032768 is missing"),
        "missing-first-file" => Opens(83_885),
        // All records of that queue are in files that the checkpoint covers: the scan can't notice it.
        "one-queue-missing-abort" => Opens(83_885),
        "short-last-file" => Refused("is 20000 bytes long"),
        "long-last-file" => Refused("is 33280 bytes long"),
        "alien-file-in-commitlog" => Refused("tmp.swp"),
        "cq-file-short" => Refused("is 100 bytes long"),
        // Read by the server, not here.
        "offsets-both-broken" | "topics-both-broken" | "index-alien-name" | "index-short" => return None,
        _ => OpensWhole,
    })
}

#[test]
fn golden_damaged_stores_are_put_right_or_refused() {
    let cases = manifest("damaged/cases.json");
    let cases = cases.as_array().or(cases["cases"].as_array()).unwrap();
    let whole = manifest("damaged/base-manifest.json");
    let base = unpacked("damaged/base.tar.xz");
    let mut checked = 0;
    for case in cases {
        let name = case["name"].as_str().unwrap();
        let Some(expected) = expected(name) else { continue };
        let runtime = base.disk().kill_image(engine::io::script::InFlightFate::Absent);
        for edit in case["edits"].as_array().unwrap() {
            apply(&runtime, edit);
        }
        let opened = open(&runtime, DAMAGED_QUEUE_FILE_BYTES);
        match (expected, opened) {
            (Expected::Opens(end), Ok(opened)) => {
                assert_eq!(opened.recovered.log_end.get(), end, "{name}: {}", opened.recovered.how);
            }
            (Expected::OpensWhole, Ok(mut opened)) => assert_is(&runtime, &mut opened, &whole, name),
            (Expected::Refused(message), Err(error)) => {
                assert!(error.to_string().contains(message), "{name}: {error}");
            }
            (Expected::Refused(message), Ok(opened)) => {
                panic!("{name}: opened ({}), where \"{message}\" was expected", opened.recovered.how)
            }
            (_, Err(error)) => panic!("{name}: {error}"),
        }
        checked += 1;
    }
    assert!(checked > 50, "{checked} cases");
}
