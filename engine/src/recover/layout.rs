//! Whether a directory is a store, a place for a new one, or something else; and its lock.

use std::{io, path::Path};

use super::abort;
use crate::{
    error::StoreError,
    io::{DirectoryEntry, Runtime},
    metadata::sync_parent,
};

/// Names that only a store has.
const MARKS: [&str; 5] = ["commitlog", "consumequeue", "checkpoint", "ringmq", "ringmq.json"];
/// Names that a store may have and others, too; they don't make a directory alien.
const NEUTRAL: [&str; 6] = ["config", "lock", "abort", "abort.bak", "index", "lost+found"];
/// The directories of a store.
const DIRECTORIES: [&str; 4] = ["commitlog", "consumequeue", "config", "ringmq"];

/// Refuses what is no store and no place for a new one; changes nothing. Tells whether the directory doesn't
/// exist yet.
///
/// # Errors
/// What it is instead.
pub async fn check<R: Runtime>(runtime: &R, root: &Path) -> Result<bool, StoreError> {
    let listed = runtime.list(root).await.map_err(StoreError::io("listing", root))?;
    let Some(entries) = listed else { return Ok(true) };
    if let Some(found) = other_layout(runtime, root, &entries).await? {
        return Err(StoreError::OtherLayout { path: root.to_path_buf(), found });
    }
    if entries.iter().any(|entry| MARKS.contains(&&*entry.name)) {
        return Ok(false);
    }
    let alien = entries.iter().find(|entry| !NEUTRAL.contains(&&*entry.name) && !entry.name.starts_with('.'));
    match alien {
        Some(alien) => Err(StoreError::NotAStore { path: root.to_path_buf(), found: alien.name.clone() }),
        None => Ok(false),
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

/// Makes the store's directories, durably; also the root, when it `is_new`.
///
/// # Errors
/// What the system refused.
pub async fn create<R: Runtime>(runtime: &R, root: &Path, is_new: bool) -> Result<(), StoreError> {
    for name in DIRECTORIES {
        let path = root.join(name);
        runtime.create_directory(&path).await.map_err(StoreError::io("creating the directory", path))?;
    }
    runtime.sync_directory(root).await.map_err(StoreError::io("syncing the directory", root))?;
    match root.parent() {
        Some(parent) if is_new && !parent.as_os_str().is_empty() => sync_parent(runtime, root).await,
        _ => Ok(()),
    }
}

/// Takes the store's lock.
///
/// # Errors
/// When another process has it.
pub async fn lock<R: Runtime>(runtime: &R, root: &Path) -> Result<R::Lock, StoreError> {
    let path = root.join("lock");
    runtime.lock(&path).await.map_err(|source| match source.kind() {
        io::ErrorKind::WouldBlock => StoreError::InUse { path: path.clone() },
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
