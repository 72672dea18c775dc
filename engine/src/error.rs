//! What can be wrong with a store, as values: what, where, and what to do about it.
//!
//! Callers branch on the variant; people read the message, which stands alone (it names the path and the
//! remedy). Nothing here is about a request or a peer.

use std::{error::Error, fmt, io, path::PathBuf};

use crate::{
    offset::{LogOffset, QueueOffset},
    recover::scan::Invalid,
};

/// Why a store can't be opened, read or written.
#[derive(Debug)]
pub enum StoreError {
    /// The operating system refused an operation.
    Io {
        /// What was being done, as "reading a segment".
        doing: &'static str,
        /// To which file or directory.
        path: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
    /// The directory holds files, none of which belong to a store.
    NotAStore {
        /// The store's root.
        path: PathBuf,
        /// One of the alien names.
        found: String,
    },
    /// The directory holds a store of a kind that this engine doesn't open.
    OtherLayout {
        /// The store's root.
        path: PathBuf,
        /// What shows it.
        found: &'static str,
    },
    /// Another process holds the store's lock.
    InUse {
        /// The lock's file.
        path: PathBuf,
    },
    /// A size that the operator chose can't be used.
    BadSize {
        /// The setting, as RocketMQ names it.
        setting: &'static str,
        /// Its value.
        value: u64,
        /// What it must be.
        rule: &'static str,
    },
    /// A file in a data directory whose name isn't 20 digits, a multiple of its length.
    FileName {
        /// The file.
        path: PathBuf,
    },
    /// A data file whose length isn't that of its neighbours.
    FileLength {
        /// The file.
        path: PathBuf,
        /// The length of the others, in bytes.
        expected: u64,
        /// Its own length, in bytes.
        found: u64,
    },
    /// A data file is missing between two others.
    FileGap {
        /// The file behind the gap.
        path: PathBuf,
        /// The first position that no file holds.
        expected: u64,
    },
    /// The log is damaged before its end: cutting it there would discard messages that are intact.
    DamagedLog {
        /// The segment.
        path: PathBuf,
        /// Where the first record that isn't valid begins.
        position: LogOffset,
        /// What is wrong with it.
        what: Invalid,
        /// The label of the recovery case that decided.
        case: &'static str,
        /// Where the next valid record stands.
        valid_at: LogOffset,
        /// How many valid records stand behind the damage.
        valid_count: u64,
    },
    /// The queues name records beyond the end of the last segment: the last segments are missing.
    MissingSegments {
        /// Where the missing segment should be.
        path: PathBuf,
        /// Where the log ends.
        log_end: LogOffset,
        /// Where the last record that a queue names ends.
        named_end: LogOffset,
    },
    /// The store couldn't be stopped cleanly; nothing is lost.
    NotClean {
        /// The store's root.
        root: PathBuf,
    },
    /// A small file can't be read, and neither can its backup.
    Metadata {
        /// The file.
        path: PathBuf,
        /// Its backup.
        backup: PathBuf,
        /// What the reader said about the newer one that exists.
        what: String,
    },
    /// Two records of a queue that follow one another have numbers too far apart.
    QueueGap {
        /// The topic.
        topic: String,
        /// The queue.
        queue_id: u32,
        /// Where the later record is.
        position: LogOffset,
        /// The number it should have.
        expected: QueueOffset,
        /// The number it has.
        found: QueueOffset,
    },
    /// A consume-queue file holds something else than entries where entries were written.
    QueueEntry {
        /// The file.
        path: PathBuf,
        /// Position of the entry in the file, in bytes.
        position: u64,
    },
}

impl StoreError {
    /// An adapter for `map_err`.
    pub fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> StoreError {
        let path = path.into();
        move |source| StoreError::Io { doing, path, source }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Io { doing, path, source } => {
                write!(f, "{doing} failed at {}: {source}", path.display())?;
                match source.kind() {
                    io::ErrorKind::PermissionDenied => {
                        f.write_str("; give the broker's user the right to read and write there")
                    }
                    io::ErrorKind::StorageFull => f.write_str("; make room on this disk"),
                    io::ErrorKind::ReadOnlyFilesystem => {
                        f.write_str("; mount it writable or choose another directory")
                    }
                    _ => Ok(()),
                }
            }
            StoreError::NotAStore { path, found } => write!(
                f,
                "{} is neither empty nor a store: it holds \"{found}\"; name an empty directory or one that a \
                 RocketMQ broker or ringmq wrote",
                path.display()
            ),
            StoreError::OtherLayout { path, found } => write!(
                f,
                "{} holds {found}, which this version doesn't open; start the broker that wrote it, or name \
                 another directory",
                path.display()
            ),
            StoreError::InUse { path } => write!(
                f,
                "the store is in use: another process holds {}; stop that broker or name another directory",
                path.display()
            ),
            StoreError::BadSize { setting, value, rule } => {
                write!(f, "{setting} = {value} can't be used: it must be {rule}")
            }
            StoreError::FileName { path } => write!(
                f,
                "{} doesn't belong here: data files are named by 20 digits, the position \
                 of their first byte; move it out of the store",
                path.display()
            ),
            StoreError::FileLength { path, expected, found } => write!(
                f,
                "{} is {found} bytes long, the others are {expected}; restore it from a copy, or move it away \
                 if the messages in it may be lost",
                path.display()
            ),
            StoreError::FileGap { path, expected } => write!(
                f,
                "the file {expected:020} is missing before {}; restore it from a copy, or move away the files \
                 on one side of the gap if their messages may be lost",
                path.display()
            ),
            StoreError::DamagedLog { path, position, what, case, valid_at, valid_count } => write!(
                f,
                "the log is damaged at {position} in {} ({what}) and {valid_count} valid record(s) stand behind \
                 it, the first at {valid_at}; nothing was changed ({case}): restore the segment from a copy; cutting \
                 the log there would give these messages up, and isn't offered yet",
                path.display()
            ),
            StoreError::MissingSegments { path, log_end, named_end } => write!(
                f,
                "the log ends at {log_end} but its queues name records up to {named_end}: {} is missing; \
                 restore it from a copy, or delete consumequeue/ if its messages may be lost",
                path.display()
            ),
            StoreError::NotClean { root } => write!(
                f,
                "the store in {} wasn't stopped cleanly, because not everything could be written and synced; the \
                 next start recovers it",
                root.display()
            ),
            StoreError::Metadata { path, backup, what } => write!(
                f,
                "neither {} nor {} can be read ({what}); restore one of them from a copy, or delete both if \
                 what they hold may be lost",
                path.display(),
                backup.display()
            ),
            StoreError::QueueGap { topic, queue_id, position, expected, found } => write!(
                f,
                "the record at {position} is number {found} of queue {queue_id} of topic {topic}, where number \
                 {expected} should follow; restore the log from a copy"
            ),
            StoreError::QueueEntry { path, position } => write!(
                f,
                "{} holds no entry at byte {position}, where one was written; stop the broker, remove consumequeue/ \
                 and start it again: the queues are made anew from the log",
                path.display()
            ),
        }
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            StoreError::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
