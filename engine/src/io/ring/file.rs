//! Files on the ring: direct ones (`DmaFile`), buffered ones (`BufferedFile`), and mapped ones (memmap2).

use std::{io, path::Path, rc::Rc};

use glommio::{
    GlommioError,
    io::{BufferedFile, DmaBuffer, DmaFile, OpenOptions},
};
use memmap2::MmapMut;

use crate::io::{Access, BLOCK_BYTES, Buffer, File, Mapping};

/// One read is at most this long: a huge one has been seen to hang, and to starve others.
const READ_BYTES_MAX: usize = 1024 * 1024;

/// Block-aligned memory, from the ring's registered pool while that lasts.
pub(super) fn allocate(len: usize) -> DmaBuffer {
    assert!(len > 0 && len.is_multiple_of(BLOCK_BYTES), "a buffer is whole blocks, not {len} bytes");
    glommio::allocate_dma_buffer(len)
}

impl Buffer for DmaBuffer {
    fn bytes(&self) -> &[u8] {
        self.as_bytes()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.as_bytes_mut()
    }

    fn truncate(&mut self, len: usize) {
        assert!(len.is_multiple_of(BLOCK_BYTES), "a buffer is whole blocks, not {len} bytes");
        self.trim_to_size(len);
    }
}

/// An open file.
pub struct RingFile(Kind);

enum Kind {
    Direct(DmaFile),
    Buffered(BufferedFile),
}

impl RingFile {
    pub(super) async fn open(path: &Path, access: Access) -> io::Result<RingFile> {
        let mut options = OpenOptions::new();
        options.read(true).write(access != Access::ReadOnly);
        let opened = match access {
            Access::Direct => options.dma_open(path).await.map(Kind::Direct),
            Access::DirectSync => options.custom_flags(libc::O_DSYNC).dma_open(path).await.map(Kind::Direct),
            Access::Buffered | Access::ReadOnly => options.buffered_open(path).await.map(Kind::Buffered),
        };
        opened.map(RingFile).map_err(to_io)
    }
}

impl File for RingFile {
    type Buffer = DmaBuffer;

    async fn write_buffer(&self, buffer: Rc<DmaBuffer>, position: u64) -> io::Result<usize> {
        let Kind::Direct(file) = &self.0 else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a buffer is written to a direct file"));
        };
        file.write_rc_at(buffer, position).await.map_err(to_io)
    }

    async fn write_bytes(&self, mut bytes: Vec<u8>, mut position: u64) -> io::Result<()> {
        let Kind::Buffered(file) = &self.0 else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "bytes are written to a buffered file"));
        };
        while !bytes.is_empty() {
            let rest = bytes.clone();
            let written = file.write_at(rest, position).await.map_err(to_io)?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            bytes.drain(..written);
            position += written as u64;
        }
        Ok(())
    }

    async fn read(&self, position: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(len);
        while bytes.len() < len {
            let piece = (len - bytes.len()).min(READ_BYTES_MAX);
            let at = position + bytes.len() as u64;
            let read = match &self.0 {
                Kind::Direct(file) => file.read_at(at, piece).await,
                Kind::Buffered(file) => file.read_at(at, piece).await,
            }
            .map_err(to_io)?;
            if read.is_empty() {
                break;
            }
            bytes.extend_from_slice(&read);
        }
        Ok(bytes)
    }

    async fn sync_data(&self) -> io::Result<()> {
        match &self.0 {
            Kind::Direct(file) => file.fdatasync().await,
            Kind::Buffered(file) => file.fdatasync().await,
        }
        .map_err(to_io)
    }
}

/// A mapped file.
pub struct RingMapping(MmapMut);

impl RingMapping {
    pub(super) fn new(path: &Path) -> io::Result<RingMapping> {
        let file = std::fs::File::options().read(true).write(true).open(path)?;
        // SAFETY: a mapping is unsound when somebody else truncates the file or writes it as Rust memory. The store's
        // lock keeps other brokers out, our own files keep their length while they have their name, and nothing else
        // in this process maps or writes a file that is mapped (`Access`).
        unsafe { MmapMut::map_mut(&file) }.map(RingMapping)
    }
}

impl Mapping for RingMapping {
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// The error of the system call inside glommio's error, so that its errno is kept.
fn to_io(error: GlommioError<()>) -> io::Error {
    match error.raw_os_error() {
        Some(errno) => io::Error::from_raw_os_error(errno),
        None => io::Error::from(error),
    }
}
