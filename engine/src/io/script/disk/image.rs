//! What a crash leaves. A restarted process finds one of many possible disks; here a seed picks which. Works on
//! copies only.

use std::{collections::BTreeSet, path::Path, rc::Rc};

use super::{
    Disk, Effect, Opens,
    blocks::{Blocks, pieces},
    contents::{Contents, What},
};
use crate::io::script::random::Random;

/// What of the operations in flight a kill leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InFlightFate {
    /// Nothing.
    Absent,
    /// All of it.
    Whole,
    /// Each not at all, in part (any sectors of a write, the start of a new file) or whole, drawn from this seed.
    Seed(u64),
}

/// What of everything that isn't durable, completed or in flight, a power cut leaves.
///
/// Whatever it picks is allowed by the rules: of each name's changes the first few, of a rename never the loss of
/// both names, of each write any of its sectors, in any version since the last sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerCut {
    kept: Kept,
    sector_bytes: u64,
    atomic_renames: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    Nothing,
    Everything,
    Seed(u64),
}

impl PowerCut {
    /// Only what is durable.
    #[must_use]
    pub fn nothing() -> PowerCut {
        PowerCut { kept: Kept::Nothing, sector_bytes: 512, atomic_renames: false }
    }

    /// Everything, as if it had been synced at the last moment.
    #[must_use]
    pub fn everything() -> PowerCut {
        PowerCut { kept: Kept::Everything, ..PowerCut::nothing() }
    }

    /// A subset drawn from `seed`, and with it whether writes tear at 512 or 4,096 bytes.
    #[must_use]
    pub fn seed(seed: u64) -> PowerCut {
        let sector_bytes = if Random::new(!seed).flip() { 512 } else { 4096 };
        PowerCut { kept: Kept::Seed(seed), sector_bytes, ..PowerCut::nothing() }
    }

    /// Writes tear at multiples of `bytes`.
    #[must_use]
    pub fn sector_bytes(self, bytes: u64) -> PowerCut {
        assert!(bytes.is_power_of_two(), "sectors of {bytes} bytes");
        PowerCut { sector_bytes: bytes, ..self }
    }

    /// Renames happen as a whole or not at all, as on a journaling file system; otherwise both names may be there.
    #[must_use]
    pub fn atomic_renames(self) -> PowerCut {
        PowerCut { atomic_renames: true, ..self }
    }
}

impl Disk {
    /// A copy that no process has open, with what mappings hold.
    pub(super) fn copy_closed(&mut self) -> Disk {
        for node in self.nodes.values_mut() {
            node.contents.notice_mapped(&mut self.change_next);
        }
        let mut copy = self.clone();
        for node in copy.nodes.values_mut() {
            node.contents.unmap();
            node.opens = Opens::default();
            node.locked = false;
        }
        copy
    }

    pub(super) fn after_kill(mut self, in_flight: &[Rc<Effect>], fate: InFlightFate) -> Disk {
        let mut random = match fate {
            InFlightFate::Seed(seed) => Random::new(seed),
            InFlightFate::Absent | InFlightFate::Whole => Random::new(0),
        };
        for effect in in_flight {
            let part = match fate {
                InFlightFate::Absent => Part::None,
                InFlightFate::Whole => Part::Whole,
                InFlightFate::Seed(_) => Part::any(&mut random),
            };
            self.land(effect, part, &mut random);
        }
        self.forget_nameless();
        self
    }

    pub(super) fn after_power_cut(mut self, in_flight: &[Rc<Effect>], cut: PowerCut) -> Disk {
        let mut random = Random::new(match cut.kept {
            Kept::Seed(seed) => seed,
            Kept::Nothing | Kept::Everything => 0,
        });
        if cut.kept != Kept::Nothing {
            // Landed whole but not durable: what is kept of them is drawn below, as of everything else.
            for effect in in_flight {
                self.land(effect, Part::Whole, &mut random);
            }
        }
        let (names, bytes) = match cut.kept {
            Kept::Nothing => (Part::None, Part::None),
            Kept::Everything => (Part::Whole, Part::Whole),
            Kept::Seed(_) => (Part::any(&mut random), Part::any(&mut random)),
        };
        let kept = self.keep_names(names, cut.atomic_renames, &mut random);
        self.names.make_durable(&kept);
        self.names = self.names.durable_only();
        for node in self.nodes.values_mut() {
            node.contents =
                Contents::durable(keep_bytes(&node.contents, bytes, cut.sector_bytes, &mut random));
        }
        self.forget_nameless();
        self
    }

    fn keep_names(&self, part: Part, atomic_renames: bool, random: &mut Random) -> BTreeSet<u64> {
        let mut kept = BTreeSet::new();
        for changes in self.names.changes_by_name() {
            let count = match part {
                Part::None => 0,
                Part::Some => random.below(changes.len() as u64 + 1),
                Part::Whole => changes.len() as u64,
            };
            kept.extend(changes.into_iter().take(usize::try_from(count).expect("below a length")));
        }
        self.names.close(&mut kept, atomic_renames);
        kept
    }

    /// Does what an operation in flight had done when the process died, or a part of it; makes nothing durable.
    /// One that could only have failed does nothing.
    fn land(&mut self, effect: &Effect, part: Part, random: &mut Random) {
        if part == Part::None {
            return;
        }
        match effect {
            Effect::Write { file, position, bytes, .. } if self.nodes.contains_key(file) => {
                for (position, piece) in pieces(*position, &bytes.bytes, 512) {
                    if part == Part::Whole || random.flip() {
                        // Full: the rest isn't there.
                        let _ = self.write(*file, position, piece);
                    }
                }
            }
            Effect::Create { path, len, space } => {
                let len = part.of(*len, random);
                let _ = self.create(path, len, *space);
            }
            Effect::WriteFile { path, bytes } => {
                let len = part.of(bytes.len() as u64, random);
                let _ = self.write_file(path, &bytes[..usize::try_from(len).expect("below a length")]);
            }
            Effect::Rename { source, target } => self.land_name(|disk| disk.names.rename(source, target)),
            Effect::HardLink { source, target } => {
                self.land_name(|disk| disk.names.hard_link(source, target))
            }
            Effect::Remove { path } => self.land_name(|disk| disk.names.remove(path)),
            Effect::CreateDirectory { path } => self.land_name(|disk| disk.names.create_directory(path)),
            Effect::Lock { path } => self.land_name(|disk| disk.create_when_missing(Path::new(path))),
            Effect::Write { .. } | Effect::SyncData { .. } | Effect::SyncDirectory { .. } => {}
        }
    }

    fn land_name(&mut self, change: impl FnOnce(&mut Disk) -> std::io::Result<()>) {
        // Names are set or not; what could only fail changes nothing.
        let _ = change(self);
    }
}

/// The durable bytes of a file and `part` of what isn't durable.
fn keep_bytes(contents: &Contents, part: Part, sector_bytes: u64, random: &mut Random) -> Blocks {
    let mut blocks = contents.durable_layer().clone();
    for change in contents.changes() {
        let part = if part == Part::Some { Part::any(random) } else { part };
        match (&change.what, part) {
            // What follows a change of length needs it.
            (What::Length(_), Part::None) => break,
            (What::Length(_), _) | (_, Part::Whole) => change.what.apply(&mut blocks),
            (_, Part::None) => {}
            (What::Bytes { position, bytes }, Part::Some) => {
                for (position, piece) in pieces(*position, bytes, sector_bytes) {
                    if random.flip() {
                        blocks.write(position, piece);
                    }
                }
            }
        }
    }
    blocks
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    None,
    Some,
    Whole,
}

impl Part {
    fn any(random: &mut Random) -> Part {
        match random.below(3) {
            0 => Part::None,
            1 => Part::Some,
            _ => Part::Whole,
        }
    }

    /// How much of `len`.
    fn of(self, len: u64, random: &mut Random) -> u64 {
        match self {
            Part::None => 0,
            Part::Some => random.below(len + 1),
            Part::Whole => len,
        }
    }
}
