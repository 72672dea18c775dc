//! The calls that may block, as helper threads run them: names, whole small files, allocation, the store's lock.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::fd::AsRawFd,
    path::Path,
};

use rustix::{
    fs::{FallocateFlags, fallocate, statvfs},
    thread::{CpuSet, sched_setaffinity},
};

use crate::io::{DirectoryEntry, DiskSpace, Space};

/// Moves the calling thread to `cores`, unless there are none.
pub(super) fn move_to_cores(cores: &[usize]) -> io::Result<()> {
    if cores.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for core in cores {
        set.set(*core);
    }
    Ok(sched_setaffinity(None, &set)?)
}

pub(super) fn create(path: &Path, len: u64, space: Space) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).open(path)?;
    let sized = match space {
        Space::Sparse => file.set_len(len),
        Space::Allocated => fallocate(&file, FallocateFlags::empty(), 0, len).map_err(io::Error::from),
    };
    if let Err(error) = sized.and_then(|()| file.sync_all()) {
        // A file of the wrong length must not stay behind under a name that somebody may open.
        std::fs::remove_file(path)?;
        return Err(error);
    }
    Ok(())
}

pub(super) fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

pub(super) fn read_file(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn list(path: &Path) -> io::Result<Option<Vec<DirectoryEntry>>> {
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        let metadata = std::fs::metadata(entry.path())?;
        let is_directory = metadata.is_dir();
        found.push(DirectoryEntry {
            name: entry.file_name().to_string_lossy().into_owned(),
            len: if is_directory { 0 } else { metadata.len() },
            is_directory,
        });
    }
    found.sort();
    Ok(Some(found))
}

pub(super) fn disk_space(path: &Path) -> io::Result<DiskSpace> {
    let facts = statvfs(path)?;
    Ok(DiskSpace { total: facts.f_blocks * facts.f_frsize, available: facts.f_bavail * facts.f_frsize })
}

/// The exclusive lock of a store, held as long as this lives.
pub struct StoreLock {
    _file: File,
}

impl StoreLock {
    /// Locks byte 0 as RocketMQ does (a POSIX record lock), but owned by the open file, so that a second store in
    /// this process is refused too; the two kinds conflict with each other.
    pub(super) fn take(path: &Path) -> io::Result<StoreLock> {
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        // SAFETY: all-zero is a valid `flock`: a plain C struct of integers.
        let mut range: libc::flock = unsafe { std::mem::zeroed() };
        range.l_type = i16::try_from(libc::F_WRLCK).expect("a lock type fits");
        range.l_whence = i16::try_from(libc::SEEK_SET).expect("a whence fits");
        range.l_len = 1;
        // SAFETY: the descriptor is open for the whole call and `range` is a valid `flock` that outlives it.
        let status = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const range) };
        if status != 0 {
            let error = io::Error::last_os_error();
            return Err(match error.raw_os_error() {
                Some(libc::EACCES | libc::EAGAIN) => io::ErrorKind::WouldBlock.into(),
                _ => error,
            });
        }
        // RocketMQ's content, for whoever looks.
        if file.metadata()?.len() == 0 {
            file.write_all(b"lock")?;
        }
        Ok(StoreLock { _file: file })
    }
}
