//! Whether a directory is a store, a place for a new one, or something else; and its lock.

use std::{io::ErrorKind, path::Path};

use super::abort;
use crate::{
    error::StoreError,
    io::{DirectoryEntry, Runtime},
};

/// Names that only a store has.
const MARKS: [&str; 5] = ["commitlog", "consumequeue", "checkpoint", "ringmq", "ringmq.json"];
/// Names that a store may have and others, too; they don't make a directory alien.
const NEUTRAL: [&str; 6] = ["config", "lock", "abort", "abort.bak", "index", "lost+found"];
/// The directories of a store.
const DIRECTORIES: [&str; 4] = ["commitlog", "consumequeue", "config", "ringmq"];

/// Refuses what is no store and no place for a new one; changes nothing.
///
/// # Errors
/// What it is instead.
pub async fn check<R: Runtime>(runtime: &R, root: &Path) -> Result<(), StoreError> {
    let listed = runtime.list(root).await.map_err(StoreError::io("listing", root))?;
    let Some(entries) = listed else { return Ok(()) };
    if let Some(found) = other_layout(runtime, root, &entries).await? {
        return Err(StoreError::OtherLayout { path: root.to_path_buf(), found });
    }
    if entries.iter().any(|entry| MARKS.contains(&&*entry.name)) {
        return Ok(());
    }
    let alien = entries.iter().find(|entry| !NEUTRAL.contains(&&*entry.name) && !entry.name.starts_with('.'));
    match alien {
        Some(alien) => Err(StoreError::NotAStore { path: root.to_path_buf(), found: alien.name.clone() }),
        None => Ok(()),
    }
}

async fn other_layout<R: Runtime>(
    runtime: &R,
    root: &Path,
    entries: &[DirectoryEntry],
) -> Result<Option<&'static str>, StoreError> {
    for entry in entries.iter().filter(|entry| entry.is_directory) {
        if entry.name.starts_with("shard-") {
            return Ok(Some("one store per shard"));
        }
        if entry.name.starts_with("dledger-") {
            return Ok(Some("a DLedger log"));
        }
        let batches = entry.name == "batchconsumequeue";
        if batches && !list(runtime, &root.join(&entry.name)).await?.is_empty() {
            return Ok(Some("queues of inner batches (batchconsumequeue/)"));
        }
    }
    Ok(None)
}

/// Makes the store's directories, durably. As long as the log has no file the directories above the root are made
/// durable, too: a process that made them may have been killed before it did so itself.
///
/// # Errors
/// What the system refused.
pub async fn create<R: Runtime>(runtime: &R, root: &Path) -> Result<(), StoreError> {
    for name in DIRECTORIES {
        let path = root.join(name);
        runtime.create_directory(&path).await.map_err(StoreError::io("creating the directory", path))?;
    }
    runtime.sync_directory(root).await.map_err(StoreError::io("syncing the directory", root))?;
    if !list(runtime, &root.join("commitlog")).await?.is_empty() {
        return Ok(());
    }
    for above in root.ancestors().skip(1) {
        let directory = if above.as_os_str().is_empty() { Path::new(".") } else { above };
        match runtime.sync_directory(directory).await {
            Ok(()) => {}
            // One that we may not open, or that can't be synced, isn't one that we made.
            Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::InvalidInput) => {}
            Err(source) => {
                let path = directory.to_path_buf();
                return Err(StoreError::Io { doing: "syncing the directory", path, source });
            }
        }
    }
    Ok(())
}

/// Takes the store's lock.
///
/// # Errors
/// When another process has it.
pub async fn lock<R: Runtime>(runtime: &R, root: &Path) -> Result<R::Lock, StoreError> {
    let path = root.join("lock");
    runtime.lock(&path).await.map_err(|source| match source.kind() {
        ErrorKind::WouldBlock => StoreError::InUse { path: path.clone() },
        _ => StoreError::Io { doing: "locking", path: path.clone(), source },
    })
}

/// Whether `abort` is there.
pub(crate) async fn has_abort<R: Runtime>(runtime: &R, root: &Path) -> Result<bool, StoreError> {
    let path = abort::path(root);
    let found = runtime.read_file(&path).await.map_err(StoreError::io("reading", path))?;
    Ok(found.is_some())
}

async fn list<R: Runtime>(runtime: &R, path: &Path) -> Result<Vec<DirectoryEntry>, StoreError> {
    let entries = runtime.list(path).await.map_err(StoreError::io("listing", path))?;
    Ok(entries.unwrap_or_default())
}
