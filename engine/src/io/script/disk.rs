//! The scripted disk: files and names in memory, each in three layers, *what the process sees*, *what is durable*
//! and *the changes between the two*. Decides what every effect does to them and keeps the rules of access (blocks,
//! coherence, growth, space). Never decides when an effect happens: that is the plan's.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    rc::Rc,
};

use super::{file::ScriptBuffer, plan::Dirty};
use crate::io::{Access, BLOCK_BYTES, DirectoryEntry, DiskSpace, Space};
use blocks::blocks_for;
use contents::Contents;
use names::{Entry, Names};

pub(super) use names::absolute;

mod names;
mod blocks;
mod mapped;
mod contents;
mod image;
mod handle;

pub use handle::ScriptDisk;
pub use image::{InFlightFate, PowerCut};

/// No such file or directory.
pub const ENOENT: i32 = 2;
/// The device failed.
pub const EIO: i32 = 5;
/// The file is not open for that.
pub const EBADF: i32 = 9;
/// Held by another.
pub const EAGAIN: i32 = 11;
/// Not permitted.
pub const EACCES: i32 = 13;
/// It exists already.
pub const EEXIST: i32 = 17;
/// A directory was expected.
pub const ENOTDIR: i32 = 20;
/// A file was expected.
pub const EISDIR: i32 = 21;
/// Misaligned, or otherwise not acceptable.
pub const EINVAL: i32 = 22;
/// The disk is full.
pub const ENOSPC: i32 = 28;
/// The file system is read-only.
pub const EROFS: i32 = 30;

pub(super) fn errno(errno: i32) -> io::Error {
    io::Error::from_raw_os_error(errno)
}

/// Names a file for as long as it lives, whatever it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileId(u64);

/// What an operation changes. Plain data: a crash image applies a part of it to a copy.
pub(super) enum Effect {
    Write {
        file: FileId,
        position: u64,
        bytes: Rc<ScriptBuffer>,
        durable: bool,
    },
    /// Makes the changes of `file` below `end` durable.
    SyncData {
        file: FileId,
        end: u64,
    },
    Create {
        path: PathBuf,
        len: u64,
        space: Space,
    },
    WriteFile {
        path: PathBuf,
        bytes: Vec<u8>,
    },
    Rename {
        source: PathBuf,
        target: PathBuf,
    },
    HardLink {
        source: PathBuf,
        target: PathBuf,
    },
    Remove {
        path: PathBuf,
    },
    CreateDirectory {
        path: PathBuf,
    },
    /// Makes the changes of names in `path` below `end` durable.
    SyncDirectory {
        path: PathBuf,
        end: u64,
    },
    Lock {
        path: PathBuf,
    },
}

/// One file, whatever its names.
#[derive(Clone, Default)]
struct Node {
    contents: Contents,
    /// Whether its whole length takes space.
    allocated: bool,
    opens: Opens,
    locked: bool,
}

#[derive(Clone, Copy, Default)]
struct Opens {
    direct: u32,
    buffered: u32,
    mapped: u32,
}

#[derive(Clone)]
pub(super) struct Disk {
    names: Names,
    nodes: BTreeMap<FileId, Node>,
    node_next: u64,
    /// Numbers the changes of contents, over all files.
    change_next: u64,
    space_total: u64,
    /// Files under directories of these names never grow by being written.
    fixed_length_under: Vec<String>,
}

impl Disk {
    pub(super) fn new() -> Disk {
        Disk {
            names: Names::new(),
            nodes: BTreeMap::new(),
            node_next: 0,
            change_next: 0,
            space_total: 1 << 40,
            fixed_length_under: ["commitlog", "consumequeue", "index"].map(str::to_owned).into(),
        }
    }

    // What operations do, once they happen.

    /// Does it. Writes do at most the first `limit` bytes; the number of bytes written comes back.
    pub(super) fn apply(&mut self, effect: &Effect, limit: usize) -> io::Result<usize> {
        match effect {
            Effect::Write { file, position, bytes, durable } => {
                let bytes = &bytes.bytes[..limit.min(bytes.bytes.len())];
                let written = self.write(*file, *position, bytes)?;
                if *durable {
                    self.contents(*file).make_range_durable(*position, &bytes[..written]);
                }
                return Ok(written);
            }
            Effect::SyncData { file, end } => self.contents(*file).make_durable(*end),
            Effect::Create { path, len, space } => {
                let file = self.create(path, *len, *space)?;
                self.contents(file).make_durable(u64::MAX);
            }
            Effect::WriteFile { path, bytes } => {
                let file = self.write_file(path, bytes)?;
                self.contents(file).make_durable(u64::MAX);
            }
            Effect::Rename { source, target } => self.names.rename(source, target)?,
            Effect::HardLink { source, target } => self.names.hard_link(source, target)?,
            Effect::Remove { path } => self.names.remove(path)?,
            Effect::CreateDirectory { path } => self.names.create_directory(path)?,
            Effect::SyncDirectory { path, end } => {
                self.expect_directory(path)?;
                let changes = self.names.changes_in(path, *end);
                self.names.make_durable(&changes);
                self.forget_nameless();
            }
            Effect::Lock { path } => self.create_when_missing(path)?,
        }
        Ok(0)
    }

    /// It has failed: nothing happens, except that a failed sync may lose what it was to make durable.
    pub(super) fn fail(&mut self, effect: &Effect, dirty: Dirty) {
        match effect {
            Effect::SyncData { file, end } if dirty == Dirty::Dropped => {
                self.contents(*file).drop_changes(*end)
            }
            Effect::SyncDirectory { path, end } if dirty == Dirty::Dropped => {
                let changes = self.names.changes_in(path, *end);
                self.names.drop_changes(&changes);
            }
            _ => {}
        }
    }

    /// Returns how many bytes there was space for.
    fn write(&mut self, file: FileId, position: u64, bytes: &[u8]) -> io::Result<usize> {
        let mut room = None;
        let node = &self.nodes[&file];
        let allocated_end = if node.allocated { node.contents.len() } else { 0 };
        let mut fits = 0;
        for (position, piece) in blocks::pieces(position, bytes, BLOCK_BYTES as u64) {
            if position >= allocated_end && node.contents.is_hole(position) {
                let room = room.get_or_insert_with(|| self.space().available / BLOCK_BYTES as u64);
                if *room == 0 {
                    break;
                }
                *room -= 1;
            }
            fits += piece.len();
        }
        if fits == 0 && !bytes.is_empty() {
            return Err(errno(ENOSPC));
        }
        let node = self.nodes.get_mut(&file).expect("looked up above");
        node.contents.write(position, &bytes[..fits], &mut self.change_next);
        Ok(fits)
    }

    fn create(&mut self, path: &Path, len: u64, space: Space) -> io::Result<FileId> {
        self.names.expect_place(path)?;
        if self.names.find(path).is_some() {
            return Err(errno(EEXIST));
        }
        let allocated = space == Space::Allocated;
        if allocated && blocks_for(len) > self.space().available / BLOCK_BYTES as u64 {
            return Err(errno(ENOSPC));
        }
        let file = self.add(Node { allocated, ..Node::default() });
        self.nodes.get_mut(&file).expect("just added").contents.set_len(len, &mut self.change_next);
        self.names.set(path, file);
        Ok(file)
    }

    fn write_file(&mut self, path: &Path, bytes: &[u8]) -> io::Result<FileId> {
        self.names.expect_place(path)?;
        let file = match self.names.find(path) {
            Some(entry) => entry.as_file().expect("expect_place refuses directories"),
            None => {
                let file = self.add(Node::default());
                self.names.set(path, file);
                file
            }
        };
        self.expect_coherent(file, path, false);
        self.nodes.get_mut(&file).expect("found or added").contents.set_len(0, &mut self.change_next);
        if self.write(file, 0, bytes)? < bytes.len() {
            return Err(errno(ENOSPC));
        }
        Ok(file)
    }

    fn create_when_missing(&mut self, path: &Path) -> io::Result<()> {
        self.names.expect_place(path)?;
        if self.names.find(path).is_none() {
            let file = self.add(Node::default());
            self.names.set(path, file);
        }
        Ok(())
    }

    fn add(&mut self, node: Node) -> FileId {
        let file = FileId(self.node_next);
        self.node_next += 1;
        self.nodes.insert(file, node);
        file
    }

    // What operations ask.

    pub(super) fn read(&self, file: FileId, position: u64, len: usize) -> Vec<u8> {
        self.nodes[&file].contents.read(position, len)
    }

    pub(super) fn read_file(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        let file = match self.names.file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        self.expect_coherent(file, path, false);
        Ok(Some(self.nodes[&file].contents.all()))
    }

    pub(super) fn list(&self, path: &Path) -> io::Result<Option<Vec<DirectoryEntry>>> {
        let Some(entries) = self.names.list(path)? else { return Ok(None) };
        let entry = |(name, entry): (&String, &Entry)| DirectoryEntry {
            name: name.clone(),
            len: entry.as_file().map_or(0, |file| self.nodes[&file].contents.len()),
            is_directory: *entry == Entry::Directory,
        };
        Ok(Some(entries.iter().map(entry).collect()))
    }

    pub(super) fn space(&self) -> DiskSpace {
        let named: BTreeSet<FileId> = self.names.named();
        let live = self.nodes.iter().filter(|(file, node)| named.contains(file) || node.opens.any());
        let used: u64 = live.map(|(_, node)| node.blocks()).sum::<u64>() * BLOCK_BYTES as u64;
        DiskSpace { total: self.space_total, available: self.space_total.saturating_sub(used) }
    }

    pub(super) fn space_at(&self, path: &Path) -> io::Result<DiskSpace> {
        self.names.find(path).map(|_| self.space()).ok_or(errno(ENOENT))
    }

    /// The number that the next change of `file` will have: earlier ones have happened. What a mapping wrote since
    /// the last look becomes a change now.
    pub(super) fn changes_end(&mut self, file: FileId) -> u64 {
        self.nodes.get_mut(&file).expect("open files exist").contents.notice_mapped(&mut self.change_next);
        self.change_next
    }

    pub(super) fn name_changes_end(&self) -> u64 {
        self.names.change_next()
    }

    /// What `file` is called: still `opened_as`, or another name, or that one again when it has none.
    pub(super) fn name_of(&self, file: FileId, opened_as: &Path) -> PathBuf {
        if self.names.find(opened_as) == Some(Entry::File(file)) {
            return opened_as.to_owned();
        }
        let found = self.names.files().into_iter().find(|named| named.1 == file);
        found.map_or_else(|| opened_as.to_owned(), |named| named.0)
    }

    // Open files, maps and locks.

    pub(super) fn open(&mut self, path: &Path, access: Access) -> io::Result<FileId> {
        let file = self.names.file(path)?;
        let direct = is_direct(access);
        self.expect_coherent(file, path, direct);
        let opens = &mut self.node(file).opens;
        *(if direct { &mut opens.direct } else { &mut opens.buffered }) += 1;
        Ok(file)
    }

    pub(super) fn close(&mut self, file: FileId, access: Access) {
        let opens = &mut self.node(file).opens;
        *(if is_direct(access) { &mut opens.direct } else { &mut opens.buffered }) -= 1;
    }

    pub(super) fn map(&mut self, path: &Path) -> io::Result<(FileId, memmap2::MmapMut)> {
        let file = self.names.file(path)?;
        self.expect_coherent(file, path, false);
        let node = self.node(file);
        assert!(node.opens.mapped == 0, "{} is mapped twice", path.display());
        if node.contents.len() == 0 {
            return Err(errno(EINVAL));
        }
        node.opens.mapped += 1;
        Ok((file, node.contents.map()))
    }

    pub(super) fn unmap(&mut self, file: FileId) {
        let node = self.nodes.get_mut(&file).expect("mapped files exist");
        node.opens.mapped -= 1;
        node.contents.notice_mapped(&mut self.change_next);
        node.contents.unmap();
    }

    pub(super) fn lock(&mut self, path: &Path) -> io::Result<FileId> {
        let file = self.names.file(path)?;
        let node = self.node(file);
        if node.locked {
            return Err(errno(EAGAIN));
        }
        node.locked = true;
        Ok(file)
    }

    pub(super) fn unlock(&mut self, file: FileId) {
        self.node(file).locked = false;
    }

    /// Checks the rules of a write before it is submitted.
    ///
    /// # Panics
    /// When it would make a file grow whose length is fixed: a bug of ours.
    pub(super) fn check_write(&self, file: FileId, path: &Path, position: u64, len: u64) {
        let fixed = path
            .components()
            .any(|part| self.fixed_length_under.iter().any(|n| part.as_os_str() == n.as_str()));
        let end = self.nodes[&file].contents.len();
        assert!(
            !fixed || position + len <= end,
            "a write at {position} of {len} bytes makes {} grow beyond its {end}",
            path.display()
        );
    }

    fn expect_directory(&self, path: &Path) -> io::Result<()> {
        match self.names.find(path) {
            Some(Entry::Directory) => Ok(()),
            Some(Entry::File(_)) => Err(errno(ENOTDIR)),
            None => Err(errno(ENOENT)),
        }
    }

    fn expect_coherent(&self, file: FileId, path: &Path, direct: bool) {
        let opens = self.nodes[&file].opens;
        let clash = if direct { opens.buffered + opens.mapped } else { opens.direct };
        assert!(clash == 0, "{} is open both directly and through the page cache", path.display());
    }

    fn node(&mut self, file: FileId) -> &mut Node {
        self.nodes.get_mut(&file).expect("open and named files exist")
    }

    fn contents(&mut self, file: FileId) -> &mut Contents {
        &mut self.node(file).contents
    }

    /// Frees the files that no name means, in any layer, and nobody has open.
    fn forget_nameless(&mut self) {
        let named = self.names.referenced();
        self.nodes.retain(|file, node| named.contains(file) || node.opens.any() || node.locked);
    }
}

impl Node {
    fn blocks(&self) -> u64 {
        let written = self.contents.block_count();
        if self.allocated { written.max(blocks_for(self.contents.len())) } else { written }
    }
}

impl Opens {
    fn any(self) -> bool {
        self.direct + self.buffered + self.mapped > 0
    }
}

pub(super) fn is_direct(access: Access) -> bool {
    matches!(access, Access::Direct | Access::DirectSync)
}
