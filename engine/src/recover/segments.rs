//! The commit log's files as an opening finds them: names, lengths, first records, and reading them through.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use protocol::message::{MAGIC_V1, MAGIC_V2, StoredMessage, sys_flag};

use super::scan::{Invalid, Scanned, Scanner, properties_torn};
use crate::{
    derive::consume_queue::load::parse_name,
    error::StoreError,
    io::{Access, File, Runtime},
    offset::LogOffset,
};

/// The log is read in pieces of this size.
pub(crate) const PIECE_BYTES: usize = 1024 * 1024;
/// Enough of a record to see when it was stored.
const HEAD_BYTES: usize = 76;

/// One file of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentFile {
    /// Log offset of its first byte.
    pub base: LogOffset,
    /// Its length in bytes.
    pub len: u64,
}

impl SegmentFile {
    /// Log offset behind its last byte.
    #[must_use]
    pub fn end(self) -> LogOffset {
        self.base.plus(self.len)
    }
}

/// The files of a log, in order, without a gap.
pub(crate) struct Segments {
    pub directory: PathBuf,
    pub files: Vec<SegmentFile>,
    /// Length of each, or what a new one shall have.
    pub segment_bytes: u64,
    /// Empty files behind the last one, to be removed.
    pub empty: Vec<PathBuf>,
}

impl Segments {
    /// Lists the log of the store at `root`. The length of the files that exist wins over `segment_bytes`.
    pub async fn list<R: Runtime>(
        runtime: &R,
        root: &Path,
        segment_bytes: u64,
    ) -> Result<Segments, StoreError> {
        let directory = root.join("commitlog");
        let listed = runtime.list(&directory).await.map_err(StoreError::io("listing", &directory))?;
        let mut entries: Vec<_> =
            listed.unwrap_or_default().into_iter().filter(|entry| !entry.is_directory).collect();
        let mut empty = Vec::new();
        while let Some(last) = entries.pop_if(|last| last.len == 0 && parse_name(&last.name).is_some()) {
            empty.push(directory.join(last.name));
        }
        let segment_bytes = entries.first().map_or(segment_bytes, |first| first.len);
        let mut files: Vec<SegmentFile> = Vec::with_capacity(entries.len());
        for entry in entries {
            let path = directory.join(&entry.name);
            let Some(base) = parse_name(&entry.name) else { return Err(StoreError::FileName { path }) };
            if entry.len != segment_bytes {
                return Err(StoreError::FileLength { path, expected: segment_bytes, found: entry.len });
            }
            if !base.is_multiple_of(segment_bytes) {
                return Err(StoreError::FileName { path });
            }
            if let Some(before) = files.last()
                && before.end().get() != base
            {
                return Err(StoreError::FileGap { path, expected: before.end().get() });
            }
            files.push(SegmentFile { base: LogOffset::new(base), len: entry.len });
        }
        Ok(Segments { directory, files, segment_bytes, empty })
    }

    pub fn path(&self, file: SegmentFile) -> PathBuf {
        self.directory.join(format!("{:020}", file.base))
    }

    /// Where the log begins.
    pub fn log_min(&self) -> LogOffset {
        self.files.first().map_or(LogOffset::ZERO, |first| first.base)
    }

    /// Where the last file ends.
    pub fn end(&self) -> LogOffset {
        self.files.last().map_or(LogOffset::ZERO, |last| last.end())
    }

    pub async fn open<R: Runtime>(
        &self,
        runtime: &R,
        file: SegmentFile,
        access: Access,
    ) -> Result<R::File, StoreError> {
        let path = self.path(file);
        runtime.open(&path, access).await.map_err(StoreError::io("opening a segment", path))
    }

    /// When the first record of `file` was stored; `None` when it doesn't begin with a record of its own.
    pub async fn first_timestamp_ms<R: Runtime>(
        &self,
        runtime: &R,
        file: SegmentFile,
    ) -> Result<Option<i64>, StoreError> {
        let open = self.open(runtime, file, Access::ReadOnly).await?;
        let read = open.read(0, HEAD_BYTES).await;
        let bytes = read.map_err(StoreError::io("reading a segment", self.path(file)))?;
        Ok(head_timestamp_ms(&bytes, file.base))
    }

    /// Reads the log from file number `first` on, record by record, until something isn't a valid record, the files
    /// end, or `visit` breaks.
    pub async fn scan<R: Runtime>(
        &self,
        runtime: &R,
        first: usize,
        check_body: bool,
        visit: &mut impl Visit,
    ) -> Result<ScanEnd, StoreError> {
        let mut end = ScanEnd {
            position: self.files.get(first).map_or(self.end(), |file| file.base),
            invalid: None,
            broken: false,
            last_store_timestamp_ms: 0,
            torn_at: None,
            records: 0,
        };
        for &file in self.files.get(first..).unwrap_or_default() {
            match self.scan_file(runtime, file, check_body, visit, &mut end).await? {
                // The blank took the rest of the segment.
                FileEnd::Complete => end.position = file.end(),
                FileEnd::Broken => {
                    end.broken = true;
                    break;
                }
                FileEnd::Invalid(invalid) => {
                    end.invalid = Some(invalid);
                    break;
                }
            }
        }
        Ok(end)
    }

    async fn scan_file<R: Runtime>(
        &self,
        runtime: &R,
        file: SegmentFile,
        check_body: bool,
        visit: &mut impl Visit,
        end: &mut ScanEnd,
    ) -> Result<FileEnd, StoreError> {
        let open = self.open(runtime, file, Access::ReadOnly).await?;
        let mut scanner = Scanner::new(file.base, file.len, check_body);
        let mut position = 0;
        loop {
            let read = open.read(position, PIECE_BYTES).await;
            let bytes = read.map_err(StoreError::io("reading a segment", self.path(file)))?;
            if bytes.is_empty() {
                // A record never reaches beyond its segment, so the file became shorter under our hands.
                let path = self.path(file);
                return Err(StoreError::FileLength { path, expected: file.len, found: position });
            }
            position += bytes.len() as u64;
            let scanned = scanner.on_bytes(&bytes, &mut |at, message: &StoredMessage<'_>| {
                end.on_record(at, message, file);
                visit.on_record(at, message)
            });
            end.position = scanner.position();
            visit.on_piece(end.position).await?;
            match scanned {
                ControlFlow::Break(()) => return Ok(FileEnd::Broken),
                ControlFlow::Continue(Scanned::SegmentEnd) => return Ok(FileEnd::Complete),
                ControlFlow::Continue(Scanned::Invalid(invalid)) => return Ok(FileEnd::Invalid(invalid)),
                ControlFlow::Continue(Scanned::NeedsMore) => {}
            }
        }
    }
}

/// How a file's scan ended.
enum FileEnd {
    Complete,
    Broken,
    Invalid(Invalid),
}

/// What a scan came to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScanEnd {
    /// Behind the last valid record, or its blank.
    pub position: LogOffset,
    /// What is wrong there; `None` when the files end.
    pub invalid: Option<Invalid>,
    /// The visitor broke.
    pub broken: bool,
    /// The latest store time seen.
    pub last_store_timestamp_ms: i64,
    /// Where the last valid record begins, if its properties look torn.
    pub torn_at: Option<LogOffset>,
    /// Valid records seen.
    pub records: u64,
}

impl ScanEnd {
    fn on_record(&mut self, at: LogOffset, message: &StoredMessage<'_>, file: SegmentFile) {
        let end = at.plus(u64::from(message.total_size.unsigned_abs()));
        self.torn_at = properties_torn(message, end.since(file.base)).then_some(at);
        self.last_store_timestamp_ms = self.last_store_timestamp_ms.max(message.store_timestamp_ms);
        self.records += 1;
    }
}

/// What goes along with a scan.
pub(crate) trait Visit {
    /// A valid record; breaking ends the scan.
    fn on_record(&mut self, at: LogOffset, message: &StoredMessage<'_>) -> ControlFlow<()>;
    /// Everything up to `position` has been seen.
    async fn on_piece(&mut self, position: LogOffset) -> Result<(), StoreError>;
}

/// When the record was stored whose first bytes are `bytes`; `None` unless it is one of the position `at`.
fn head_timestamp_ms(bytes: &[u8], at: LogOffset) -> Option<i64> {
    let int = |from: usize| bytes.get(from..)?.first_chunk().map(|field| i32::from_be_bytes(*field));
    let long = |from: usize| bytes.get(from..)?.first_chunk().map(|field| i64::from_be_bytes(*field));
    let magic = int(4)?;
    if (magic != MAGIC_V1 && magic != MAGIC_V2) || long(28)? != at.as_i64() {
        return None;
    }
    let born_host_bytes = if int(36)? & sys_flag::BORNHOST_V6 == 0 { 8 } else { 20 };
    long(48 + born_host_bytes).filter(|&timestamp_ms| timestamp_ms > 0)
}
