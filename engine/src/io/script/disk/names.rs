//! The names on a scripted disk: what the process sees, what is durable, and the changes between the two, in
//! order. Owns no bytes. Directories are never renamed or removed, as the `Runtime` has no way to.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Component, Path, PathBuf},
};

use super::{EEXIST, EISDIR, ENOENT, ENOTDIR, FileId, errno};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    File(FileId),
    Directory,
}

#[derive(Clone, Default)]
struct Directory {
    visible: BTreeMap<String, Entry>,
    durable: BTreeMap<String, Entry>,
}

/// One name that was set or removed and whose directory has not been synced since.
#[derive(Clone)]
struct Change {
    directory: PathBuf,
    name: String,
    entry: Option<Entry>,
    /// Of a rename: the old name doesn't go before the new one is there.
    requires: Option<u64>,
}

#[derive(Clone)]
pub(super) struct Names {
    directories: BTreeMap<PathBuf, Directory>,
    changes: BTreeMap<u64, Change>,
    change_next: u64,
}

impl Names {
    pub(super) fn new() -> Names {
        let directories = BTreeMap::from([(PathBuf::from("/"), Directory::default())]);
        Names { directories, changes: BTreeMap::new(), change_next: 0 }
    }

    pub(super) fn find(&self, path: &Path) -> Option<Entry> {
        if self.directories.contains_key(path) {
            return Some(Entry::Directory);
        }
        let (directory, name) = parts(path);
        self.directories.get(directory)?.visible.get(name).copied()
    }

    pub(super) fn file(&self, path: &Path) -> io::Result<FileId> {
        match self.find(path) {
            Some(Entry::File(file)) => Ok(file),
            Some(Entry::Directory) => Err(errno(EISDIR)),
            None => Err(errno(ENOENT)),
        }
    }

    /// Fails unless a file can be called `path`: its directory exists and it isn't one itself.
    pub(super) fn expect_place(&self, path: &Path) -> io::Result<()> {
        let (directory, _) = parts(path);
        match (self.find(directory), self.find(path)) {
            (_, Some(Entry::Directory)) => Err(errno(EISDIR)),
            (Some(Entry::Directory), _) => Ok(()),
            (Some(Entry::File(_)), _) => Err(errno(ENOTDIR)),
            (None, _) => Err(errno(ENOENT)),
        }
    }

    pub(super) fn set(&mut self, path: &Path, file: FileId) -> u64 {
        self.change(path, Some(Entry::File(file)), None)
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.file(path)?;
        self.change(path, None, None);
        Ok(())
    }

    pub(super) fn rename(&mut self, source: &Path, target: &Path) -> io::Result<()> {
        let file = self.file(source)?;
        self.expect_place(target)?;
        if self.find(target) == Some(Entry::File(file)) {
            // Two names of one file: POSIX does nothing.
            return Ok(());
        }
        let set = self.set(target, file);
        self.change(source, None, Some(set));
        Ok(())
    }

    pub(super) fn hard_link(&mut self, source: &Path, target: &Path) -> io::Result<()> {
        let file = self.file(source)?;
        self.expect_place(target)?;
        if self.find(target).is_some() {
            return Err(errno(EEXIST));
        }
        self.set(target, file);
        Ok(())
    }

    pub(super) fn create_directory(&mut self, path: &Path) -> io::Result<()> {
        let mut missing = Vec::new();
        for directory in path.ancestors() {
            match self.find(directory) {
                Some(Entry::Directory) => break,
                Some(Entry::File(_)) => return Err(errno(ENOTDIR)),
                None => missing.push(directory),
            }
        }
        for directory in missing.into_iter().rev() {
            self.change(directory, Some(Entry::Directory), None);
            self.directories.insert(directory.to_owned(), Directory::default());
        }
        Ok(())
    }

    pub(super) fn list(&self, path: &Path) -> io::Result<Option<&BTreeMap<String, Entry>>> {
        match self.find(path) {
            Some(Entry::Directory) => Ok(Some(&self.directories[path].visible)),
            Some(Entry::File(_)) => Err(errno(ENOTDIR)),
            None => Ok(None),
        }
    }

    /// Every file the process sees, by path.
    pub(super) fn files(&self) -> BTreeMap<PathBuf, FileId> {
        let mut files = BTreeMap::new();
        for (path, directory) in &self.directories {
            for (name, entry) in &directory.visible {
                if let Entry::File(file) = entry {
                    files.insert(path.join(name), *file);
                }
            }
        }
        files
    }

    /// Every file that has a name.
    pub(super) fn named(&self) -> BTreeSet<FileId> {
        self.directories
            .values()
            .flat_map(|d| d.visible.values())
            .filter_map(|entry| entry.as_file())
            .collect()
    }

    /// Every file that some name means, now or after any crash.
    pub(super) fn referenced(&self) -> BTreeSet<FileId> {
        let layers =
            self.directories.values().flat_map(|d| d.visible.values().chain(d.durable.values())).copied();
        let changes = self.changes.values().filter_map(|change| change.entry);
        layers.chain(changes).filter_map(Entry::as_file).collect()
    }

    /// The number that the next change will have: earlier ones have happened.
    pub(super) fn change_next(&self) -> u64 {
        self.change_next
    }

    /// The changes in a directory below `end`, with what they require.
    pub(super) fn changes_in(&self, directory: &Path, end: u64) -> BTreeSet<u64> {
        let mut ids: BTreeSet<u64> = self
            .changes
            .range(..end)
            .filter(|change| change.1.directory == directory)
            .map(|c| *c.0)
            .collect();
        self.close(&mut ids, false);
        ids
    }

    /// All changes that are not durable, as one list per name, in order.
    pub(super) fn changes_by_name(&self) -> Vec<Vec<u64>> {
        let mut by_name: BTreeMap<(&Path, &str), Vec<u64>> = BTreeMap::new();
        for (id, change) in &self.changes {
            by_name.entry((&change.directory, &change.name)).or_default().push(*id);
        }
        by_name.into_values().collect()
    }

    /// Adds what the changes `ids` can't be without: earlier ones of the same name, a rename's new name before the
    /// old one goes and, when renames are atomic, the reverse.
    pub(super) fn close(&self, ids: &mut BTreeSet<u64>, atomic_renames: bool) {
        loop {
            let mut more = BTreeSet::new();
            for (id, change) in &self.changes {
                let Some(required) = change.requires else { continue };
                if ids.contains(id) && self.changes.contains_key(&required) {
                    more.insert(required);
                }
                if atomic_renames && ids.contains(&required) {
                    more.insert(*id);
                }
            }
            for id in &*ids {
                let change = &self.changes[id];
                let same = |other: &Change| other.directory == change.directory && other.name == change.name;
                more.extend(self.changes.range(..*id).filter(|other| same(other.1)).map(|other| *other.0));
            }
            let before = ids.len();
            ids.extend(more);
            if ids.len() == before {
                return;
            }
        }
    }

    /// Makes the changes `ids` durable.
    pub(super) fn make_durable(&mut self, ids: &BTreeSet<u64>) {
        for id in ids {
            let change = self.changes.remove(id).expect("a change that isn't durable yet");
            let directory = self.directories.get_mut(&change.directory).expect("directories stay");
            put(&mut directory.durable, change.name, change.entry);
        }
    }

    /// Forgets that the changes `ids` happened, but for the process, which goes on seeing them.
    pub(super) fn drop_changes(&mut self, ids: &BTreeSet<u64>) {
        self.changes.retain(|id, _| !ids.contains(id));
    }

    pub(super) fn make_all_durable(&mut self) {
        let all = self.changes.keys().copied().collect();
        self.make_durable(&all);
    }

    /// What is found after the power went: the durable names that a path of durable names leads to.
    pub(super) fn durable_only(&self) -> Names {
        let mut names = Names { change_next: self.change_next, ..Names::new() };
        names.directories.clear();
        let mut todo = vec![PathBuf::from("/")];
        while let Some(path) = todo.pop() {
            let durable = self.directories[&path].durable.clone();
            let subdirectories = durable.iter().filter(|entry| *entry.1 == Entry::Directory);
            todo.extend(subdirectories.map(|entry| path.join(entry.0)));
            names.directories.insert(path, Directory { visible: durable.clone(), durable });
        }
        names
    }

    fn change(&mut self, path: &Path, entry: Option<Entry>, requires: Option<u64>) -> u64 {
        let (directory, name) = parts(path);
        let node = self.directories.get_mut(directory).expect("the directory was looked up");
        put(&mut node.visible, name.to_owned(), entry);
        let id = self.change_next;
        self.change_next += 1;
        let change = Change { directory: directory.to_owned(), name: name.to_owned(), entry, requires };
        self.changes.insert(id, change);
        id
    }
}

impl Entry {
    pub(super) fn as_file(self) -> Option<FileId> {
        match self {
            Entry::File(file) => Some(file),
            Entry::Directory => None,
        }
    }
}

fn put(map: &mut BTreeMap<String, Entry>, name: String, entry: Option<Entry>) {
    match entry {
        Some(entry) => map.insert(name, entry),
        None => map.remove(&name),
    };
}

/// `path` as a scripted disk knows it: absolute, without `.`.
///
/// # Panics
/// When it contains `..` or isn't UTF-8.
pub(in crate::io::script) fn absolute(path: &Path) -> PathBuf {
    let mut absolute = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => {
                absolute.push(name.to_str().expect("paths on a scripted disk are UTF-8"))
            }
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => {
                panic!("a scripted disk has no {}", path.display())
            }
        }
    }
    absolute
}

/// Directory and name of a path that [`absolute`] made; the root has itself as directory and no name.
fn parts(path: &Path) -> (&Path, &str) {
    let name = path.file_name().map_or("", |name| name.to_str().expect("checked by absolute"));
    (path.parent().unwrap_or(path), name)
}
