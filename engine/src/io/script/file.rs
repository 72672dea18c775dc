//! What the process under test holds of the scripted disk: buffers, open files, maps, the lock. Each checks what the
//! kernel would check, submits an operation and gives its claim back when dropped.

use std::{io, path::PathBuf, rc::Rc};

use memmap2::MmapMut;

use super::{
    World,
    disk::{EBADF, EINVAL, Effect, FileId, errno, is_direct},
    plan::Kind,
};
use crate::io::{Access, BLOCK_BYTES, Buffer, File, Mapping};

/// Memory to write from. New ones are full of [`ScriptBuffer::GARBAGE`], so that what nobody filled shows.
#[derive(Debug)]
pub struct ScriptBuffer {
    pub(super) bytes: Vec<u8>,
}

impl ScriptBuffer {
    /// What a new buffer holds.
    pub const GARBAGE: u8 = 0xA5;

    pub(super) fn new(len: usize) -> ScriptBuffer {
        assert!(len.is_multiple_of(BLOCK_BYTES), "a buffer of {len} bytes is not whole blocks");
        ScriptBuffer { bytes: vec![ScriptBuffer::GARBAGE; len] }
    }
}

impl Buffer for ScriptBuffer {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    fn truncate(&mut self, len: usize) {
        assert!(len.is_multiple_of(BLOCK_BYTES), "{len} bytes are not whole blocks");
        assert!(len <= self.bytes.len(), "a buffer of {} bytes cut to {len}", self.bytes.len());
        self.bytes.truncate(len);
    }
}

/// An open file of the scripted disk.
pub struct ScriptFile {
    world: Rc<World>,
    file: FileId,
    opened_as: PathBuf,
    access: Access,
}

impl ScriptFile {
    pub(super) fn open(world: &Rc<World>, path: PathBuf, access: Access) -> io::Result<ScriptFile> {
        let file = world.disk.borrow_mut().open(&path, access)?;
        Ok(ScriptFile { world: Rc::clone(world), file, opened_as: path, access })
    }

    fn name(&self) -> PathBuf {
        self.world.disk.borrow().name_of(self.file, &self.opened_as)
    }

    async fn write(&self, bytes: Rc<ScriptBuffer>, position: u64) -> io::Result<usize> {
        let path = self.name();
        let len = bytes.bytes.len() as u64;
        self.world.disk.borrow().check_write(self.file, &path, position, len);
        let durable = self.access == Access::DirectSync;
        let effect = Effect::Write { file: self.file, position, bytes, durable };
        self.world.change((Kind::Write, path, position, len), effect).await
    }
}

impl File for ScriptFile {
    type Buffer = ScriptBuffer;

    async fn write_buffer(&self, buffer: Rc<ScriptBuffer>, position: u64) -> io::Result<usize> {
        if self.access == Access::ReadOnly {
            return Err(errno(EBADF));
        }
        if !position.is_multiple_of(BLOCK_BYTES as u64) || !buffer.bytes.len().is_multiple_of(BLOCK_BYTES) {
            return Err(errno(EINVAL));
        }
        self.write(buffer, position).await
    }

    async fn write_bytes(&self, bytes: Vec<u8>, position: u64) -> io::Result<()> {
        match self.access {
            Access::Buffered => {}
            Access::ReadOnly => return Err(errno(EBADF)),
            Access::Direct | Access::DirectSync => return Err(errno(EINVAL)),
        }
        let buffer = Rc::new(ScriptBuffer { bytes });
        let mut written = 0;
        // A short write goes on, until it is done or there is an error: the disk is full.
        while written < buffer.bytes.len() {
            let rest = if written == 0 {
                Rc::clone(&buffer)
            } else {
                Rc::new(ScriptBuffer { bytes: buffer.bytes[written..].to_vec() })
            };
            let count = self.write(rest, position + written as u64).await?;
            if count == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            written += count;
        }
        Ok(())
    }

    async fn read(&self, position: u64, len: usize) -> io::Result<Vec<u8>> {
        let file = self.file;
        let query = move |world: &Rc<World>| Ok(world.disk.borrow().read(file, position, len));
        self.world.query((Kind::Read, self.name(), position, len as u64), query).await
    }

    async fn sync_data(&self) -> io::Result<()> {
        let end = self.world.disk.borrow_mut().changes_end(self.file);
        let effect = Effect::SyncData { file: self.file, end };
        self.world.change((Kind::SyncData, self.name(), 0, 0), effect).await?;
        Ok(())
    }
}

impl Drop for ScriptFile {
    fn drop(&mut self) {
        self.world.disk.borrow_mut().close(self.file, self.access);
    }
}

impl std::fmt::Debug for ScriptFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let direct = is_direct(self.access);
        f.debug_struct("ScriptFile").field("path", &self.opened_as).field("direct", &direct).finish()
    }
}

/// A mapped file of the scripted disk. What is written to it the process's other reads see at once; a kill keeps it,
/// a power cut may not.
pub struct ScriptMapping {
    world: Rc<World>,
    file: FileId,
    map: MmapMut,
}

impl ScriptMapping {
    pub(super) fn new(world: &Rc<World>, path: &std::path::Path) -> io::Result<ScriptMapping> {
        let (file, map) = world.disk.borrow_mut().map(path)?;
        Ok(ScriptMapping { world: Rc::clone(world), file, map })
    }
}

impl Mapping for ScriptMapping {
    fn bytes(&self) -> &[u8] {
        &self.map
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.map
    }
}

impl Drop for ScriptMapping {
    fn drop(&mut self) {
        self.world.disk.borrow_mut().unmap(self.file);
    }
}

/// The lock of a store on the scripted disk.
pub struct ScriptLock {
    world: Rc<World>,
    file: FileId,
}

impl ScriptLock {
    pub(super) fn take(world: &Rc<World>, path: &std::path::Path) -> io::Result<ScriptLock> {
        let file = world.disk.borrow_mut().lock(path)?;
        Ok(ScriptLock { world: Rc::clone(world), file })
    }
}

impl Drop for ScriptLock {
    fn drop(&mut self) {
        self.world.disk.borrow_mut().unlock(self.file);
    }
}
