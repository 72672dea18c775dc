//! RocketMQ's `abort`: a file that is there while a broker runs, so that one found at start means a kill.

use std::{
    io,
    path::{Path, PathBuf},
};

use crate::{error::StoreError, io::Runtime, metadata::sync_parent};

/// The file's path in the store at `root`.
#[must_use]
pub fn path(root: &Path) -> PathBuf {
    root.join("abort")
}

/// Makes the file, durably: before the first change to the store.
///
/// # Errors
/// What the system refused.
pub async fn create<R: Runtime>(runtime: &R, root: &Path) -> Result<(), StoreError> {
    let path = path(root);
    // Empty as 4.9's; only its existence matters to any version.
    runtime.write_file(&path, Vec::new()).await.map_err(StoreError::io("creating", &path))?;
    sync_parent(runtime, &path).await
}

/// Removes the file, durably: the last act of a clean stop, when everything else has been synced.
///
/// # Errors
/// What the system refused; the next start is then one after a kill, which is safe.
pub async fn remove<R: Runtime>(runtime: &R, root: &Path) -> Result<(), StoreError> {
    let path = path(root);
    match runtime.remove(&path).await {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(StoreError::Io { doing: "removing", path, source: error })
        }
        _ => sync_parent(runtime, &path).await,
    }
}
