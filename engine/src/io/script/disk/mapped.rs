//! The memory behind a mapped file: a memfd, mapped once for the process under test and read by the disk through
//! its descriptor. Slices of a map are handed out as plain references, so sharing them any other way is impossible.

use std::{fs::File, os::unix::fs::FileExt};

use memmap2::MmapMut;
use rustix::fs::{MemfdFlags, memfd_create};

/// See above. Its length is fixed.
pub(super) struct SharedMemory {
    file: File,
}

impl SharedMemory {
    pub(super) fn new(bytes: &[u8]) -> SharedMemory {
        let file = memfd_create("mapped", MemfdFlags::CLOEXEC).expect("a memfd for a mapped file");
        let file = File::from(file);
        file.write_all_at(bytes, 0).expect("memory for a mapped file");
        SharedMemory { file }
    }

    pub(super) fn map(&self) -> MmapMut {
        // SAFETY: the file is a memfd that only `self` has a descriptor of; it is never truncated, so every page of
        // the map stays backed. Its bytes change through this map, of which there is one at a time (`Disk::map`
        // refuses a second), and by `write` below, called by the one thread that also uses the map: it is the
        // buffered write to a mapped file that a real page cache has too, and no caller keeps a slice over an await.
        unsafe { MmapMut::map_mut(&self.file) }.expect("memory for a map")
    }

    pub(super) fn read(&self, position: u64, bytes: &mut [u8]) {
        self.file.read_exact_at(bytes, position).expect("within the memfd");
    }

    pub(super) fn write(&self, position: u64, bytes: &[u8]) {
        self.file.write_all_at(bytes, position).expect("within the memfd");
    }
}
