//! Finding the queues of a store and where each of them ends. Reads only.

use std::path::{Path, PathBuf};

use super::{ConsumeQueues, DIRECTORY, ENTRY_BYTES, Entry, QueueIndex};
use crate::{
    error::StoreError,
    io::{Access, File, Runtime},
    offset::{LogOffset, QueueOffset},
};

/// The end is looked for in this many files, the last ones, as RocketMQ does.
const FILES_SCANNED: usize = 3;
/// The first read of a file, then doubling: most queues are short.
const READ_BYTES_MIN: usize = 200 * ENTRY_BYTES as usize;
const READ_BYTES_MAX: usize = 12_800 * ENTRY_BYTES as usize;

/// The queues as found, see [`load`].
pub struct Loaded {
    /// The queues, each ending before its first slot that holds no entry.
    pub queues: ConsumeQueues,
    /// Where the last record that each queue names ends, by queue.
    pub named_ends: Vec<LogOffset>,
    /// Queues that have something behind their end: a hole, or files that don't follow one another. After a clean
    /// stop that is damage.
    pub holed: Vec<QueueIndex>,
}

/// One queue's directory.
struct Found {
    topic: String,
    queue_id: u32,
    path: PathBuf,
    /// First byte of each file, in order, without empty last files.
    bases: Vec<u64>,
    /// Empty last files, which a crash of RocketMQ may leave.
    empty: Vec<PathBuf>,
}

/// Loads the queues of the store at `root`. The length of the files that exist wins over `file_bytes`; `synced`
/// says that everything in them survives a power cut, as after a clean stop.
///
/// # Errors
/// When a file has a wrong name or length, or can't be read.
pub async fn load<R: Runtime>(
    runtime: &R,
    root: &Path,
    file_bytes: u64,
    synced: bool,
) -> Result<Loaded, StoreError> {
    let mut found = Vec::new();
    let mut len_found = None;
    for (topic, queue_id, path) in queue_directories(runtime, &root.join(DIRECTORY)).await? {
        found.push(list_files(runtime, topic, queue_id, path, &mut len_found).await?);
    }
    let queues = ConsumeQueues::new(root, len_found.unwrap_or(file_bytes))?;
    let mut loaded = Loaded { queues, named_ends: Vec::new(), holed: Vec::new() };
    for queue in found {
        load_queue(runtime, &mut loaded, queue, synced).await?;
    }
    Ok(loaded)
}

async fn queue_directories<R: Runtime>(
    runtime: &R,
    directory: &Path,
) -> Result<Vec<(String, u32, PathBuf)>, StoreError> {
    let mut found = Vec::new();
    for topic in sub_directories(runtime, directory).await? {
        let path = directory.join(&topic);
        for name in sub_directories(runtime, &path).await? {
            // RocketMQ skips what isn't a number, too; "07" and "+7" are no names that anyone gives.
            match name.parse::<u32>() {
                Ok(queue_id) if queue_id.to_string() == name => {
                    found.push((topic.clone(), queue_id, path.join(name)));
                }
                _ => {}
            }
        }
    }
    Ok(found)
}

async fn sub_directories<R: Runtime>(runtime: &R, path: &Path) -> Result<Vec<String>, StoreError> {
    let entries = runtime.list(path).await.map_err(StoreError::io("listing", path))?.unwrap_or_default();
    Ok(entries.into_iter().filter(|entry| entry.is_directory).map(|entry| entry.name).collect())
}

async fn list_files<R: Runtime>(
    runtime: &R,
    topic: String,
    queue_id: u32,
    path: PathBuf,
    len_found: &mut Option<u64>,
) -> Result<Found, StoreError> {
    let entries = runtime.list(&path).await.map_err(StoreError::io("listing", &path))?.unwrap_or_default();
    let mut entries: Vec<_> = entries.into_iter().filter(|entry| !entry.is_directory).collect();
    let mut empty = Vec::new();
    while let Some(last) = entries.pop_if(|last| last.len == 0) {
        empty.push(path.join(last.name));
    }
    let mut bases = Vec::new();
    for entry in entries {
        let file = path.join(&entry.name);
        let expected = *len_found.get_or_insert(entry.len);
        if entry.len != expected {
            return Err(StoreError::FileLength { path: file, expected, found: entry.len });
        }
        match parse_name(&entry.name) {
            Some(base) if base.is_multiple_of(expected) => bases.push(base),
            _ => return Err(StoreError::FileName { path: file }),
        }
    }
    Ok(Found { topic, queue_id, path, bases, empty })
}

/// The position in a data file's name; `None` when it isn't 20 digits.
pub(crate) fn parse_name(name: &str) -> Option<u64> {
    let digits = name.len() == 20 && name.bytes().all(|byte| byte.is_ascii_digit());
    name.parse().ok().filter(|&base| digits && i64::try_from(base).is_ok())
}

async fn load_queue<R: Runtime>(
    runtime: &R,
    loaded: &mut Loaded,
    found: Found,
    synced: bool,
) -> Result<(), StoreError> {
    let queue = loaded.queues.open(&found.topic, found.queue_id);
    let file_bytes = loaded.queues.file_bytes();
    loaded.queues.queue_mut(queue).stale_files = found.empty;
    loaded.named_ends.push(LogOffset::ZERO);
    assert!(loaded.named_ends.len() == queue.get() + 1, "each directory is one queue");
    // Only files that follow one another from the first one count.
    let follows = found.bases.windows(2).take_while(|pair| pair[1] == pair[0] + file_bytes).count();
    let Some((&first, rest)) = found.bases.split_first() else { return Ok(()) };
    if follows < rest.len() {
        loaded.holed.push(queue);
        // What is behind a gap is of no use: it goes with the next cut.
        let behind = rest[follows..].iter().map(|base| found.path.join(format!("{base:020}")));
        let state = loaded.queues.queue_mut(queue);
        let empty = std::mem::take(&mut state.stale_files);
        state.stale_files = behind.chain(empty).collect();
    }
    let bases = &found.bases[..=follows];
    let scanned = &bases[bases.len().saturating_sub(FILES_SCANNED)..];
    let end = find_end(runtime, &found.path, scanned, file_bytes).await?;
    if end.holed {
        loaded.holed.push(queue);
    }
    loaded.named_ends[queue.get()] = end.named_end;
    let state = loaded.queues.queue_mut(queue);
    state.files_base = first / ENTRY_BYTES;
    state.files_end = (bases[bases.len() - 1] + file_bytes) / ENTRY_BYTES;
    state.min = QueueOffset::new(state.files_base);
    // What a process that was killed wrote may not have been synced: the first sync covers the last files again.
    state.durable_end = if synced { end.number } else { scanned[0] / ENTRY_BYTES };
    state.set_persisted(QueueOffset::new(end.number));
    if state.durable_end < state.persisted_end {
        state.unsynced = true;
        loaded.queues.unsynced.push(queue);
    }
    Ok(())
}

struct QueueEnd {
    number: u64,
    /// Where the last record named by the entries seen ends.
    named_end: LogOffset,
    holed: bool,
}

/// Goes through the entries of the last files until a slot that holds none, or that names an earlier record than
/// the entry before.
async fn find_end<R: Runtime>(
    runtime: &R,
    directory: &Path,
    bases: &[u64],
    file_bytes: u64,
) -> Result<QueueEnd, StoreError> {
    let mut end = QueueEnd { number: bases[0] / ENTRY_BYTES, named_end: LogOffset::ZERO, holed: false };
    for (place, base) in bases.iter().enumerate() {
        let path = directory.join(format!("{base:020}"));
        let opened = runtime.open(&path, Access::ReadOnly).await;
        let file = opened.map_err(StoreError::io("opening a consume queue", &path))?;
        let mut position = 0;
        let mut len = READ_BYTES_MIN;
        while position < file_bytes {
            let read = file.read(position, len).await;
            let bytes = read.map_err(StoreError::io("reading a consume queue", &path))?;
            if bytes.is_empty() {
                return Err(StoreError::QueueEntry { path, position });
            }
            let valid = valid_entries(&bytes, &mut end.named_end);
            end.number += valid;
            let valid_bytes = usize::try_from(valid * ENTRY_BYTES).expect("as many as were read");
            if valid_bytes < bytes.len() {
                end.holed = bytes[valid_bytes..].iter().any(|&byte| byte != 0) || place + 1 < bases.len();
                return Ok(end);
            }
            position += bytes.len() as u64;
            len = (len * 2).min(READ_BYTES_MAX);
        }
    }
    Ok(end)
}

/// How many entries `bytes` begins with, each naming a record behind those before; moves `named_end`.
fn valid_entries(bytes: &[u8], named_end: &mut LogOffset) -> u64 {
    let mut count = 0;
    for entry in Entry::decode_all(bytes) {
        match entry.log_end() {
            Some(_) if entry.log_offset < *named_end => break,
            Some(log_end) => *named_end = log_end,
            None => {}
        }
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_files_are_named_by_twenty_digits() {
        assert_eq!(parse_name("00000000000000002000"), Some(2000));
        for name in ["2000", "0000000000000000200x", "+0000000000000002000", "99999999999999999999", ""] {
            assert_eq!(parse_name(name), None, "{name}");
        }
    }

    #[test]
    fn entries_end_at_zeros_and_where_they_go_back() {
        let check = |places: &[u64], expected: u64| {
            let mut bytes = Vec::new();
            for &place in places {
                Entry { log_offset: LogOffset::new(place), size: 100, tags_code: 0 }.encode(&mut bytes);
            }
            bytes.extend([0; 40]);
            assert_eq!(valid_entries(&bytes, &mut LogOffset::ZERO.plus(0)), expected);
        };
        check(&[], 0);
        check(&[0, 100, 250], 3);
        check(&[0, 100, 50], 2);
        check(&[0, 99], 1);
    }
}
