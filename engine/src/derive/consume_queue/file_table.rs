//! The open consume-queue files of a shard: bounded, because there may be more queues than descriptors.

use std::{
    cell::RefCell,
    path::{Path, PathBuf},
    rc::Rc,
};

use crate::{
    error::StoreError,
    io::{Access, Runtime},
};

/// Open files, the least recently used one makes room. A file stays open while an operation on it runs, also
/// when it has left the table.
pub struct FileTable<R: Runtime> {
    /// Oldest first. A cell because two tasks share it, the one that writes and the ones that read; no borrow
    /// lives through a wait.
    files: RefCell<Vec<(PathBuf, Rc<R::File>)>>,
    count_max: usize,
    access: Access,
}

impl<R: Runtime> FileTable<R> {
    /// A table of at most `count_max` files.
    #[must_use]
    pub fn new(count_max: usize) -> FileTable<R> {
        FileTable::with_access(count_max, Access::Buffered)
    }

    /// A table whose files are opened in another way: a direct log's, to be read.
    #[must_use]
    pub fn with_access(count_max: usize, access: Access) -> FileTable<R> {
        assert!(count_max > 0, "a table has room for one file at least");
        FileTable { files: RefCell::new(Vec::with_capacity(count_max)), count_max, access }
    }

    /// The file at `path`, opened when it isn't open.
    ///
    /// # Errors
    /// What the system refused.
    pub async fn open(&self, runtime: &R, path: &Path) -> Result<Rc<R::File>, StoreError> {
        if let Some(file) = self.recall(path) {
            return Ok(file);
        }
        let opened = runtime.open(path, self.access).await;
        let file = opened.map_err(StoreError::io("opening", path))?;
        // Another task may have opened it meanwhile: both are good, the table keeps one.
        if let Some(file) = self.recall(path) {
            return Ok(file);
        }
        let file = Rc::new(file);
        let mut files = self.files.borrow_mut();
        if files.len() == self.count_max {
            files.remove(0);
        }
        files.push((path.to_path_buf(), file.clone()));
        Ok(file)
    }

    /// Closes the file at `path`, which is about to be removed.
    pub fn forget(&self, path: &Path) {
        self.files.borrow_mut().retain(|(open, _)| open != path);
    }

    /// The file if it is open; it becomes the most recently used one.
    fn recall(&self, path: &Path) -> Option<Rc<R::File>> {
        let mut files = self.files.borrow_mut();
        let place = files.iter().position(|(open, _)| open == path)?;
        files[place..].rotate_left(1);
        files.last().map(|(_, file)| file.clone())
    }
}
