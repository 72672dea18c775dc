//! The disk as the test holds it: preparing, looking, damaging, importing, and asking for crash images.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    rc::Rc,
};

use super::{Disk, Effect, InFlightFate, Node, PowerCut, absolute, blocks::Blocks, contents::Contents};
use crate::io::{
    DiskSpace,
    script::{ScriptRuntime, World},
};

/// The disk of a world, for its test. What it changes happens at once and is durable at once.
#[derive(Clone)]
pub struct ScriptDisk {
    pub(in crate::io::script) world: Rc<World>,
}

impl ScriptDisk {
    fn state(&self) -> &RefCell<Disk> {
        &self.world.disk
    }

    /// Creates a directory and its parents, durably.
    pub fn create_directory(&self, path: impl AsRef<Path>) {
        let mut state = self.state().borrow_mut();
        state.names.create_directory(&absolute(path.as_ref())).expect("no file is in the way");
        state.names.make_all_durable();
    }

    /// Creates or replaces a file, and the directories above it, durably. Blocks of zeros take no space. All name
    /// changes of the process that are not durable yet become so: meant for before it starts or after a crash.
    pub fn put(&self, path: impl AsRef<Path>, bytes: &[u8]) {
        let path = absolute(path.as_ref());
        self.create_directory(path.parent().expect("a file is not the root"));
        let mut state = self.state().borrow_mut();
        if state.names.find(&path).is_some() {
            state.names.remove(&path).expect("it is a file");
        }
        let file =
            state.add(Node { contents: Contents::durable(Blocks::from_bytes(bytes)), ..Node::default() });
        state.names.set(&path, file);
        state.names.make_all_durable();
    }

    /// Overwrites bytes of a file in every layer, as a failing medium or a vandal does.
    ///
    /// # Panics
    /// When the file does not exist or is shorter.
    pub fn damage(&self, path: impl AsRef<Path>, position: u64, bytes: &[u8]) {
        let mut state = self.state().borrow_mut();
        let file = state.names.file(&absolute(path.as_ref())).expect("a file to damage");
        let end = state.nodes[&file].contents.len();
        assert!(position + bytes.len() as u64 <= end, "the file has {end} bytes");
        let state = &mut *state;
        let contents = &mut state.nodes.get_mut(&file).expect("named files exist").contents;
        contents.write(position, bytes, &mut state.change_next);
        contents.make_range_durable(position, bytes);
    }

    /// Removes a file durably.
    ///
    /// # Panics
    /// When it does not exist.
    pub fn remove(&self, path: impl AsRef<Path>) {
        let mut state = self.state().borrow_mut();
        state.names.remove(&absolute(path.as_ref())).expect("a file to remove");
        state.names.make_all_durable();
        state.forget_nameless();
    }

    /// What the process sees in a file; `None` when there is none.
    #[must_use]
    pub fn read(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let state = self.state().borrow();
        let file = state.names.find(&absolute(path.as_ref()))?.as_file()?;
        Some(state.nodes[&file].contents.all())
    }

    /// Every file with the bytes that the process sees, by absolute path.
    #[must_use]
    pub fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let state = self.state().borrow();
        let files = state.names.files().into_iter();
        files.map(|(path, file)| (path, state.nodes[&file].contents.all())).collect()
    }

    /// Every file that a power cut can't take away any more, with the bytes that are durable.
    #[must_use]
    pub fn durable_files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let state = self.state().borrow();
        let files = state.names.durable_only().files().into_iter();
        files.map(|(path, file)| (path, state.nodes[&file].contents.durable_bytes())).collect()
    }

    /// Sets the size of the disk in bytes; 1 TiB at first. It may be less than is used: then nothing is available.
    pub fn set_space_total(&self, bytes: u64) {
        self.state().borrow_mut().space_total = bytes;
    }

    /// Size and available bytes.
    #[must_use]
    pub fn space(&self) -> DiskSpace {
        self.state().borrow().space()
    }

    /// Sets the names of the directories, at any depth, whose files must not grow by being written: a write that
    /// would is a panic. At first `commitlog`, `consumequeue` and `index`.
    pub fn set_fixed_length_under(&self, names: &[&str]) {
        self.state().borrow_mut().fixed_length_under = names.iter().map(|name| (*name).to_owned()).collect();
    }

    /// Takes the lock at `path` as another process does; creates the file when missing. Held until
    /// [`ScriptDisk::unlock`].
    ///
    /// # Panics
    /// When it is held.
    pub fn lock(&self, path: impl AsRef<Path>) {
        let path = absolute(path.as_ref());
        let mut state = self.state().borrow_mut();
        state.create_when_missing(&path).expect("a place for a lock file");
        state.lock(&path).expect("nobody holds the lock");
    }

    /// Releases the lock at `path`, whoever holds it.
    ///
    /// # Panics
    /// When the file does not exist.
    pub fn unlock(&self, path: impl AsRef<Path>) {
        let mut state = self.state().borrow_mut();
        let file = state.names.file(&absolute(path.as_ref())).expect("a lock file");
        state.unlock(file);
    }

    /// Copies a real directory, with all that is in it, to `target`, durably.
    ///
    /// # Errors
    /// What reading it meets; names that aren't UTF-8 are `InvalidData`.
    pub fn import(&self, real: &Path, target: impl AsRef<Path>) -> io::Result<()> {
        let target = absolute(target.as_ref());
        self.create_directory(&target);
        for entry in fs::read_dir(real)? {
            let entry = entry?;
            let name = entry.file_name().into_string().map_err(|_| io::ErrorKind::InvalidData)?;
            if entry.file_type()?.is_dir() {
                self.import(&entry.path(), target.join(name))?;
            } else {
                self.put(target.join(name), &fs::read(entry.path())?);
            }
        }
        Ok(())
    }

    /// Copies what the process sees under `source` to the real directory `real`, creating what is missing.
    ///
    /// # Errors
    /// What writing it meets; a `source` that is no directory is `NotFound`.
    pub fn export(&self, source: impl AsRef<Path>, real: &Path) -> io::Result<()> {
        let source = absolute(source.as_ref());
        let entries = self.state().borrow().list(&source)?.ok_or(io::ErrorKind::NotFound)?;
        fs::create_dir_all(real)?;
        for entry in entries {
            let path = source.join(&entry.name);
            if entry.is_directory {
                self.export(&path, &real.join(&entry.name))?;
            } else {
                fs::write(real.join(&entry.name), self.read(&path).ok_or(io::ErrorKind::NotFound)?)?;
            }
        }
        Ok(())
    }

    /// The world after `kill -9` now: everything completed is there, durable or not, what is in flight is there as
    /// `fate` says, locks are free. This world goes on unharmed.
    #[must_use]
    pub fn kill_image(&self, fate: InFlightFate) -> ScriptRuntime {
        self.image(|disk, effects| disk.after_kill(effects, fate))
    }

    /// The world after a power cut now: durable bytes and names, and of the others what `cut` says. This world goes
    /// on unharmed.
    #[must_use]
    pub fn power_cut_image(&self, cut: PowerCut) -> ScriptRuntime {
        self.image(|disk, effects| disk.after_power_cut(effects, cut))
    }

    fn image(&self, make: impl FnOnce(Disk, &[Rc<Effect>]) -> Disk) -> ScriptRuntime {
        let plan = self.world.plan.borrow();
        let effects: Vec<_> = plan.in_flight.values().filter_map(|flight| flight.effect.clone()).collect();
        let copy = self.state().borrow_mut().copy_closed();
        self.world.reborn(make(copy, &effects))
    }
}
