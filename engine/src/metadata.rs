//! Small files that are replaced whole: topics, groups, consumer offsets, the checkpoint.
//!
//! [`replace`] keeps one promise: at every instant, through kill and power cut, the file itself is complete, the
//! old text or the new one. It also leaves RocketMQ's `.bak` (the text before), so that every version reads the
//! result. [`load`] reads what any version left, with its rules for `.bak`. [`MetadataWriter`] keeps several
//! such files up to date in the background, writing each newest text once, however often it was asked.
//!
//! It never knows what the texts mean, and never touches a data directory.

use std::{
    cell::RefCell,
    ffi::OsString,
    fmt, io,
    path::{Path, PathBuf},
    rc::Rc,
    time::Duration,
};

use crate::{
    error::StoreError,
    io::{Runtime, event::Event},
};

/// How long a writer waits before it tries a file again that couldn't be written.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The name of the backup of the file at `path`.
#[must_use]
pub fn backup_path(path: &Path) -> PathBuf {
    with_suffix(path, ".bak")
}

/// Replaces the file at `path` by `bytes`, durably, and keeps what it was as its backup.
///
/// ```text
/// write X.tmp, sync                X = old
/// link X -> X.bak.tmp              X = old
/// rename X.bak.tmp -> X.bak        X = old, X.bak = old
/// rename X.tmp -> X                X = new, X.bak = old
/// sync the directory               ... and durable
/// ```
///
/// X never lacks its name, so it doesn't matter which of the unsynced names a power cut keeps.
///
/// # Errors
/// What the system refused. X is then the old text or the new one; calling again is fine.
pub async fn replace<R: Runtime>(runtime: &R, path: &Path, bytes: Vec<u8>) -> Result<(), StoreError> {
    let temporary = with_suffix(path, ".tmp");
    runtime.write_file(&temporary, bytes).await.map_err(StoreError::io("writing", &temporary))?;
    keep_backup(runtime, path).await?;
    runtime.rename(&temporary, path).await.map_err(StoreError::io("replacing", path))?;
    sync_parent(runtime, path).await
}

/// Replaces the file at `path` by `bytes`, durably, without a backup: for files that can be lost, as the
/// checkpoint, whose temporary file must not stand beside them. `temporary` is on the same file system.
///
/// # Errors
/// What the system refused; the file is then the old or the new one.
pub async fn replace_via<R: Runtime>(
    runtime: &R,
    path: &Path,
    temporary: &Path,
    bytes: Vec<u8>,
) -> Result<(), StoreError> {
    runtime.write_file(temporary, bytes).await.map_err(StoreError::io("writing", temporary))?;
    runtime.rename(temporary, path).await.map_err(StoreError::io("replacing", path))?;
    sync_parent(runtime, path).await
}

async fn keep_backup<R: Runtime>(runtime: &R, path: &Path) -> Result<(), StoreError> {
    let linked = with_suffix(path, ".bak.tmp");
    // Left by a crash, or by a rename between two names of one file, which does nothing.
    match runtime.remove(&linked).await {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(source) => return Err(StoreError::Io { doing: "removing", path: linked, source }),
    }
    match runtime.hard_link(path, &linked).await {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        // A file system without hard links: the old text is small, copy it.
        Err(_) => {
            let read = runtime.read_file(path).await.map_err(StoreError::io("reading", path))?;
            let Some(old) = read else { return Ok(()) };
            runtime.write_file(&linked, old).await.map_err(StoreError::io("writing", &linked))?;
        }
    }
    let backup = backup_path(path);
    runtime.rename(&linked, &backup).await.map_err(StoreError::io("replacing", &backup))
}

/// Reads the file at `path`, or its backup by RocketMQ's rules: when the file is missing, empty or can't be
/// parsed the backup counts, and the file is then put right from it (so that the next [`replace`] doesn't make
/// the bad text the backup). `None` when both are missing or empty.
///
/// # Errors
/// When something exists that neither the file nor its backup lets us read; what the system refused.
pub async fn load<R: Runtime, T, E: fmt::Display>(
    runtime: &R,
    path: &Path,
    parse: impl Fn(&[u8]) -> Result<T, E>,
) -> Result<Option<T>, StoreError> {
    let mut complaint = None;
    if let Some(bytes) = read_unless_empty(runtime, path).await? {
        match parse(&bytes) {
            Ok(value) => return Ok(Some(value)),
            Err(error) => complaint = Some(error.to_string()),
        }
    }
    let backup = backup_path(path);
    if let Some(bytes) = read_unless_empty(runtime, &backup).await? {
        match parse(&bytes) {
            Ok(value) => {
                replace_via(runtime, path, &with_suffix(path, ".tmp"), bytes).await?;
                return Ok(Some(value));
            }
            Err(error) => complaint = complaint.or(Some(error.to_string())),
        }
    }
    match complaint {
        None => Ok(None),
        Some(what) => Err(StoreError::Metadata { path: path.to_path_buf(), backup, what }),
    }
}

async fn read_unless_empty<R: Runtime>(runtime: &R, path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    let bytes = runtime.read_file(path).await.map_err(StoreError::io("reading", path))?;
    Ok(bytes.filter(|bytes| !bytes.is_empty()))
}

/// Syncs the directory that holds `path`.
pub(crate) async fn sync_parent<R: Runtime>(runtime: &R, path: &Path) -> Result<(), StoreError> {
    let directory = path.parent().expect("a file of the store lies in a directory");
    runtime.sync_directory(directory).await.map_err(StoreError::io("syncing the directory", directory))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

/// One of a [`MetadataWriter`]'s files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadataFile(usize);

/// A state of one file's content; later ones are greater. The first request makes generation 1; 0 is what was
/// there at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Generation(u64);

/// Keeps a few files up to date with state that changes often.
///
/// Whoever changes the state calls [`request`](Self::request) and may wait until
/// [`durable_generation`](Self::durable_generation) has reached what it got, looking again whenever
/// [`durable`](Self::durable) is set. One task runs [`run`], which writes one file at a time; everything that
/// was requested before a text is made is in that text.
#[derive(Default)]
pub struct MetadataWriter {
    files: Vec<FileState>,
    next: usize,
    writing: bool,
    stopping: bool,
    wanted: Event,
    durable: Event,
}

struct FileState {
    path: PathBuf,
    requested: Generation,
    durable: Generation,
    failure: Option<StoreError>,
    /// It couldn't be written while stopping: not tried again.
    given_up: bool,
}

/// What to write next, see [`MetadataWriter::begin`].
#[derive(Debug)]
pub struct MetadataPlan {
    /// Which file.
    pub file: MetadataFile,
    /// Where it is.
    pub path: PathBuf,
    /// What the text made now covers.
    pub generation: Generation,
}

impl MetadataWriter {
    /// A writer without files.
    #[must_use]
    pub fn new() -> MetadataWriter {
        MetadataWriter::default()
    }

    /// Adds the file at `path`.
    pub fn add(&mut self, path: PathBuf) -> MetadataFile {
        self.files.push(FileState {
            path,
            requested: Generation(0),
            durable: Generation(0),
            failure: None,
            given_up: false,
        });
        MetadataFile(self.files.len() - 1)
    }

    /// Asks for `file` to be written as its state is now, or later.
    pub fn request(&mut self, file: MetadataFile) -> Generation {
        let state = &mut self.files[file.0];
        state.requested.0 += 1;
        self.wanted.set();
        state.requested
    }

    /// What of `file` survives a power cut.
    #[must_use]
    pub fn durable_generation(&self, file: MetadataFile) -> Generation {
        self.files[file.0].durable
    }

    /// Set whenever a file became durable, or couldn't be written. One task waits for it.
    #[must_use]
    pub fn durable(&self) -> Event {
        self.durable.clone()
    }

    /// Why the last attempt to write `file` failed; `None` once it has been written. It is tried again.
    #[must_use]
    pub fn failure(&self, file: MetadataFile) -> Option<&StoreError> {
        self.files[file.0].failure.as_ref()
    }

    /// Lets [`run`] end when everything that was requested is durable, or can't be written.
    pub fn stop(&mut self) {
        self.stopping = true;
        self.wanted.set();
    }

    /// The next file to write, in turn; `None` when all are up to date.
    pub fn begin(&mut self) -> Option<MetadataPlan> {
        assert!(!self.writing, "one file is written at a time");
        let count = self.files.len();
        let turn = (0..count).map(|step| (self.next + step) % count);
        let index = turn.into_iter().find(|&index| {
            let state = &self.files[index];
            state.durable < state.requested && !state.given_up
        })?;
        self.writing = true;
        self.next = index + 1;
        let state = &self.files[index];
        Some(MetadataPlan {
            file: MetadataFile(index),
            path: state.path.clone(),
            generation: state.requested,
        })
    }

    /// Takes the outcome of what [`begin`](Self::begin) said.
    pub fn complete(&mut self, plan: &MetadataPlan, outcome: Result<(), StoreError>) {
        assert!(self.writing, "a write that ends has begun");
        self.writing = false;
        let state = &mut self.files[plan.file.0];
        assert!(state.durable < plan.generation, "a generation is written once");
        match outcome {
            Ok(()) => {
                state.durable = plan.generation;
                state.failure = None;
            }
            Err(error) => {
                state.failure = Some(error);
                state.given_up = self.stopping;
            }
        }
        self.durable.set();
    }
}

/// Writes what is requested until [`MetadataWriter::stop`]. `text` makes the newest text of a file.
///
/// A file that can't be written is tried again after a second: its temporary file is written anew each time,
/// so no sync is ever repeated on pages that a failed one may have dropped.
pub async fn run<R: Runtime>(
    runtime: R,
    writer: Rc<RefCell<MetadataWriter>>,
    text: impl Fn(MetadataFile) -> Vec<u8>,
) {
    let wanted = writer.borrow().wanted.clone();
    loop {
        let plan = writer.borrow_mut().begin();
        let Some(plan) = plan else {
            if writer.borrow().stopping {
                return;
            }
            wanted.wait().await;
            continue;
        };
        let outcome = replace(&runtime, &plan.path, text(plan.file)).await;
        let failed = outcome.is_err();
        writer.borrow_mut().complete(&plan, outcome);
        let stopping = writer.borrow().stopping;
        if failed && !stopping {
            runtime.sleep(RETRY_AFTER).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_requests_are_one_write() {
        let mut writer = MetadataWriter::new();
        let topics = writer.add(PathBuf::from("config/topics.json"));
        let first = writer.request(topics);
        let second = writer.request(topics);
        assert!(first < second);
        let plan = writer.begin().unwrap();
        assert_eq!(plan.generation, second);
        writer.complete(&plan, Ok(()));
        assert_eq!(writer.durable_generation(topics), second);
        assert!(writer.begin().is_none());
    }

    #[test]
    fn a_request_during_a_write_needs_another_write() {
        let mut writer = MetadataWriter::new();
        let topics = writer.add(PathBuf::from("config/topics.json"));
        let first = writer.request(topics);
        let plan = writer.begin().unwrap();
        let second = writer.request(topics);
        writer.complete(&plan, Ok(()));
        assert_eq!(writer.durable_generation(topics), first);
        assert_eq!(writer.begin().unwrap().generation, second);
    }

    #[test]
    fn a_failed_write_is_not_durable_and_comes_again() {
        let mut writer = MetadataWriter::new();
        let topics = writer.add(PathBuf::from("config/topics.json"));
        let offsets = writer.add(PathBuf::from("config/consumerOffset.json"));
        writer.request(topics);
        writer.request(offsets);
        let plan = writer.begin().unwrap();
        assert_eq!(plan.file, topics);
        let error = io::Error::from(io::ErrorKind::StorageFull);
        writer.complete(&plan, Err(StoreError::io("writing", "config/topics.json")(error)));
        assert_eq!(writer.durable_generation(topics), Generation(0));
        assert!(writer.failure(topics).is_some());
        // The other file isn't starved by the one that fails.
        let plan = writer.begin().unwrap();
        assert_eq!(plan.file, offsets);
        writer.complete(&plan, Ok(()));
        assert_eq!(writer.begin().unwrap().file, topics);
    }
}
