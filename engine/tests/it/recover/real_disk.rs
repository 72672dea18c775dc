//! The same on a real disk, through the runtime that serves.

use std::{path::PathBuf, time::Duration};

use engine::{
    error::StoreError,
    io::{
        Runtime,
        ring::{RingOptions, RingRuntime, start},
    },
    metadata,
    recover::{Recovered, abort, open_store},
};

use super::golden::{manifest, unpack};

/// Runs `task` on a ring.
fn on_ring<Output: Send + 'static, Running: Future<Output = Output> + 'static>(
    task: impl FnOnce(RingRuntime) -> Running + Send + 'static,
) -> Output {
    let options = RingOptions {
        name: "test".to_owned(),
        core: None,
        helper_cores: Vec::new(),
        buffer_bytes: 512 * 1024,
        spin_before_park: Duration::ZERO,
    };
    start(options, task).unwrap().join().unwrap().unwrap()
}

async fn open(runtime: &RingRuntime, root: PathBuf) -> Result<(Recovered, u64), StoreError> {
    let opened = open_store(runtime, &root, 65_536, 2000, &mut |_| {}).await?;
    // A second opening is refused while the first holds the lock.
    let second = open_store(runtime, &root, 65_536, 2000, &mut |_| {}).await;
    assert!(matches!(second.err(), Some(StoreError::InUse { .. })));
    let messages = opened.queues.iter().map(|queue| opened.queues.max_offset(queue).get()).sum();
    abort::remove(runtime, &root).await?;
    Ok((opened.recovered, messages))
}

#[test]
fn golden_stores_open_on_a_real_disk() {
    for (archive, name) in [
        ("store-4.9.7-clean/store.tar.xz", "store-4.9.7-clean/manifest.json"),
        ("store-4.9.7-killed/sync-store.tar.xz", "store-4.9.7-killed/sync-after-java-recovery.json"),
        ("store-4.9.7-killed/async-store.tar.xz", "store-4.9.7-killed/async-after-java-recovery.json"),
        ("store-5.1.4-clean/store.tar.xz", "store-5.1.4-clean/manifest.json"),
    ] {
        let directory = unpack(archive);
        let manifest = manifest(name);
        // Twice: what the first opening left is a clean store.
        for killed in [archive.contains("killed"), false] {
            let root = directory.path().join("store");
            let (recovered, messages) = on_ring(|runtime| async move { open(&runtime, root).await })
                .unwrap_or_else(|error| {
                    panic!("{archive}: {error}");
                });
            assert_eq!(recovered.log_end.get(), manifest["lastRecordEnd"].as_u64().unwrap(), "{archive}");
            assert_eq!((recovered.killed, recovered.queues_rebuilt), (killed, false), "{archive}");
            assert!(messages >= manifest["messageCount"].as_u64().unwrap(), "{archive}");
        }
    }
}

#[test]
fn a_new_store_is_made_on_a_real_disk() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("deep/store");
    let at = root.clone();
    let (recovered, messages) = on_ring(|runtime| async move { open(&runtime, at).await }).unwrap();
    assert_eq!((recovered.log_end.get(), messages), (0, 0));
    assert!(root.join("checkpoint").exists() && !root.join("abort").exists());
}

#[test]
fn small_files_are_replaced_on_a_real_disk() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("topics.json");
    let at = path.clone();
    let read = on_ring(|runtime| async move {
        for text in ["one", "two", "three"] {
            metadata::replace(&runtime, &at, text.as_bytes().to_vec()).await.unwrap();
        }
        let mut names: Vec<String> = runtime
            .list(at.parent().unwrap())
            .await
            .unwrap()
            .unwrap()
            .into_iter()
            .map(|entry| entry.name)
            .collect();
        names.sort();
        names
    });
    assert_eq!(read, ["topics.json", "topics.json.bak"]);
    assert_eq!(std::fs::read(&path).unwrap(), b"three");
    assert_eq!(std::fs::read(directory.path().join("topics.json.bak")).unwrap(), b"two");
}
