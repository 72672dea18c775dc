//! Which core is which broker: names, ports, directories.
//!
//! A shard is a pinned core, a RocketMQ broker identity and a store directory. This module decides how many there are
//! and what each is called, from the settings, the cores this process may use, and what the data directory holds.
//!
//! Owns the rules and the text of the layout file, `<root>/ringmq.json`. The decision ([`place`]) is a pure function
//! of [`Facts`]; [`Facts::gather`] only reads. Never creates, writes or removes a file: whoever starts the shards
//! writes [`Placement::layout_to_write`] first.
//!
//! ```text
//! what the directory holds          shards = auto          shards = 1     shards = N > 1
//! nothing                           by the cores           1, as RocketMQ N under shard-<i>
//! a RocketMQ store, no layout file  1                      1              refused
//! layout file, 1 shard              1                      1              refused
//! layout file, K > 1 shards         K                      refused        N ≥ K: K kept, N − K new; N < K: refused
//! shard-<i>, no layout file         refused                refused        refused
//! only things that no store has     refused                refused        refused
//! ```

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::config::{Cores, Settings, Shards};

/// How a data directory is divided, kept in `<root>/ringmq.json`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Layout {
    /// Version of the layout itself: [`LAYOUT_VERSION`].
    pub version: u32,
    /// How many shards the store was made with.
    pub shards: u32,
}

/// What the data directory holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Found {
    /// No store: the directory is missing or empty.
    Nothing,
    /// No store, but something that no store has: its name. Probably somebody else's directory.
    Foreign(String),
    /// A store in RocketMQ's layout without a layout file of ours.
    RocketMq,
    /// A layout file.
    Layout(Layout),
    /// A layout file that doesn't read, with what is wrong.
    LayoutUnreadable(String),
    /// `shard-<i>` directories without a layout file, and how many.
    ShardsWithoutLayout(u32),
}

/// What the decision goes by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Facts {
    /// Processors this process may run on, ascending.
    pub cores_allowed: Vec<usize>,
    /// What the data directory holds.
    pub found: Found,
}

/// One broker of this process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShardPlace {
    /// 0 for the first.
    pub index: u32,
    /// The processor it is pinned to.
    pub core: usize,
    /// Its broker name.
    pub broker_name: String,
    /// The port it listens on; 0 is one that the kernel gives.
    pub listen_port: u16,
    /// Its port for replication, announced in registrations; 0 with `listen_port`.
    pub ha_port: u16,
    /// RocketMQ's second client port, `listen_port − 2`; 0 with `listen_port`, or when there is no such port.
    pub fast_port: u16,
    /// Its store.
    pub directory: PathBuf,
}

/// The decision.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placement {
    /// At least one, by ascending index.
    pub shards: Vec<ShardPlace>,
    /// The layout file to write (and sync) before any shard starts, when it changes.
    pub layout_to_write: Option<Layout>,
    /// What the operator should hear.
    pub notes: Vec<String>,
}

/// Why the process can't be placed; each says what to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PlacementError {
    /// The layout file doesn't read.
    LayoutUnreadable {
        /// Where it is.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The layout file is from a version that we don't know.
    LayoutVersion {
        /// Where it is.
        path: PathBuf,
        /// What it says.
        version: u32,
    },
    /// Shard directories, but no layout file.
    LayoutMissing {
        /// Where it should be.
        path: PathBuf,
        /// How many shard directories there are.
        shards: u32,
    },
    /// The directory is used for something else.
    NotAStore {
        /// The directory.
        root: PathBuf,
        /// Something in it.
        name: String,
    },
    /// A one-shard store can't be divided.
    OneShardStore {
        /// The store.
        root: PathBuf,
        /// What was asked for.
        asked: u32,
    },
    /// Fewer shards than the store has: the messages of the others would be unreachable.
    FewerShards {
        /// The store.
        root: PathBuf,
        /// What was asked for.
        asked: u32,
        /// What the store has.
        stored: u32,
    },
    /// A core that this process may not use.
    CoreNotAllowed {
        /// The core.
        core: usize,
        /// What it may use.
        allowed: Vec<usize>,
    },
    /// Fewer cores listed than the store has shards.
    FewerCores {
        /// Cores listed.
        cores: usize,
        /// Shards to run.
        shards: u32,
    },
    /// The ports of the last shard would be beyond 65535.
    PortsRunOut {
        /// `listenPort`.
        listen_port: u16,
        /// Shards to run.
        shards: u32,
    },
    /// A shard would listen where the name server in this process does.
    PortTaken {
        /// The port.
        port: u16,
        /// The shard.
        shard: u32,
    },
}

impl fmt::Display for PlacementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use PlacementError as E;
        match self {
            E::LayoutUnreadable { path, problem } => write!(
                f,
                "{} doesn't read ({problem}); it says how many shards the store has: restore it from a copy, or write \
                 {{\"version\":{LAYOUT_VERSION},\"shards\":N}} with N the number of shard-<i> directories (1 without them)",
                path.display()
            ),
            E::LayoutVersion { path, version } => write!(
                f,
                "{} has version {version}, this program knows {LAYOUT_VERSION}: the store was made by a newer one; use that",
                path.display()
            ),
            E::LayoutMissing { path, shards } => write!(
                f,
                "there are {shards} shard-<i> directories but no {}; restore it from a copy, or write \
                 {{\"version\":{LAYOUT_VERSION},\"shards\":{shards}}} if these are all",
                path.display()
            ),
            E::NotAStore { root, name } => write!(
                f,
                "{} isn't a store but isn't empty either (it has `{name}`); choose an empty or a new directory with --data",
                root.display()
            ),
            E::OneShardStore { root, asked } => write!(
                f,
                "{} is a store of one shard and can't be opened with shards={asked}; start it with shards=1 (or auto), \
                 or choose another --data for {asked} shards and let consumers drain this one",
                root.display()
            ),
            E::FewerShards { root, asked, stored } => write!(
                f,
                "{} has {stored} shards; with shards={asked} the messages of the others would be out of reach; start it \
                 with shards={stored} (or auto)",
                root.display()
            ),
            E::CoreNotAllowed { core, allowed } => write!(
                f,
                "core {core} isn't one that this process may use ({}); choose among these, or widen its CPU set",
                list(allowed)
            ),
            E::FewerCores { cores, shards } => write!(
                f,
                "the store has {shards} shards, but `cores` lists {cores}; list {shards} or set cores=auto"
            ),
            E::PortsRunOut { listen_port, shards } => write!(
                f,
                "{shards} shards from port {listen_port}, {PORT_STRIDE} apart, would end beyond 65535; choose a lower \
                 listenPort"
            ),
            E::PortTaken { port, shard } => write!(
                f,
                "shard {shard} would listen on port {port}, which is the embedded name server's; choose another \
                 listenPort or embeddedNamesrvPort"
            ),
        }
    }
}

impl std::error::Error for PlacementError {}

impl Facts {
    /// Reads what [`place`] goes by: the processors this process may use, and the directory.
    ///
    /// # Errors
    ///
    /// When the kernel refuses either, the directory named in the message; a missing directory is no error.
    pub fn gather(root: &Path) -> io::Result<Facts> {
        let set = rustix::thread::sched_getaffinity(None)?;
        let cores_allowed = (0..rustix::thread::CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect();
        let found = find(root).map_err(|error| {
            io::Error::new(error.kind(), format!("data directory {}: {error}", root.display()))
        })?;
        Ok(Facts { cores_allowed, found })
    }
}

impl Layout {
    /// The layout file's text.
    pub fn to_json(self) -> String {
        format!("{{\"version\":{},\"shards\":{}}}\n", self.version, self.shards)
    }
}

/// Decides which shards run where.
///
/// # Errors
///
/// When the store, the cores and the settings don't fit together.
pub fn place(settings: &Settings, facts: &Facts) -> Result<Placement, PlacementError> {
    assert!(!facts.cores_allowed.is_empty(), "a running process runs on some core");
    let root = &settings.store_path_root_dir;
    let stored = stored_shards(root, &facts.found)?;
    let count = shard_count(settings, facts, stored)?;
    let mut notes = Vec::new();
    let cores = choose_cores(settings, facts, count, &mut notes)?;
    check_ports(settings, count)?;
    if let Some(stored) = stored.filter(|stored| *stored < count) {
        notes.push(format!("the store had {stored} shards; {} new ones are added to it", count - stored));
    }
    let layout = Layout { version: LAYOUT_VERSION, shards: count };
    // RocketMQ's own stores are left as they are: without the file they are one shard.
    let kept = facts.found == Found::Layout(layout) || facts.found == Found::RocketMq;
    let shards =
        (0..count).zip(cores).map(|(index, core)| shard_place(settings, count, index, core)).collect();
    Ok(Placement { shards, layout_to_write: (!kept).then_some(layout), notes })
}

/// The number of shards the directory was made with, if it holds a store.
fn stored_shards(root: &Path, found: &Found) -> Result<Option<u32>, PlacementError> {
    let path = root.join(LAYOUT_FILE);
    match found {
        Found::Nothing => Ok(None),
        Found::Foreign(name) => {
            Err(PlacementError::NotAStore { root: root.to_path_buf(), name: name.clone() })
        }
        Found::RocketMq => Ok(Some(1)),
        Found::Layout(layout) if layout.version != LAYOUT_VERSION => {
            Err(PlacementError::LayoutVersion { path, version: layout.version })
        }
        Found::Layout(layout) if !(1..=SHARDS_MAX).contains(&layout.shards) => {
            let problem = format!("{} shards, where 1 to {SHARDS_MAX} are possible", layout.shards);
            Err(PlacementError::LayoutUnreadable { path, problem })
        }
        Found::Layout(layout) => Ok(Some(layout.shards)),
        Found::LayoutUnreadable(problem) => {
            Err(PlacementError::LayoutUnreadable { path, problem: problem.clone() })
        }
        Found::ShardsWithoutLayout(shards) => Err(PlacementError::LayoutMissing { path, shards: *shards }),
    }
}

fn shard_count(settings: &Settings, facts: &Facts, stored: Option<u32>) -> Result<u32, PlacementError> {
    let root = settings.store_path_root_dir.clone();
    match (settings.shards, stored) {
        (Shards::Auto, Some(stored)) => Ok(stored),
        (Shards::Auto, None) => Ok(shards_for_cores(settings, facts)),
        (Shards::Count(asked), Some(1)) if asked > 1 => Err(PlacementError::OneShardStore { root, asked }),
        (Shards::Count(asked), Some(stored)) if asked < stored => {
            Err(PlacementError::FewerShards { root, asked, stored })
        }
        (Shards::Count(asked), _) => Ok(asked),
    }
}

/// A new store's shards: the cores listed, or those this process may use, less one (when there are more) for the name
/// server, signals, logging and every blocking call.
fn shards_for_cores(settings: &Settings, facts: &Facts) -> u32 {
    let cores = match &settings.cores {
        Cores::List(cores) => cores.len(),
        Cores::Auto => facts.cores_allowed.len().saturating_sub(1).max(1),
    };
    u32::try_from(cores).unwrap_or(SHARDS_MAX).min(SHARDS_MAX)
}

fn choose_cores(
    settings: &Settings,
    facts: &Facts,
    count: u32,
    notes: &mut Vec<String>,
) -> Result<Vec<usize>, PlacementError> {
    let allowed = &facts.cores_allowed;
    let count = count as usize;
    match &settings.cores {
        Cores::List(cores) => {
            if let Some(core) = cores.iter().find(|core| !allowed.contains(core)) {
                return Err(PlacementError::CoreNotAllowed { core: *core, allowed: allowed.clone() });
            }
            if cores.len() < count {
                let shards = u32::try_from(count).expect("came from a u32");
                return Err(PlacementError::FewerCores { cores: cores.len(), shards });
            }
            Ok(cores[..count].to_vec())
        }
        Cores::Auto if count > allowed.len() => {
            notes.push(format!(
                "{count} shards share {} cores: it works, but each waits for the others; it is meant for one core each",
                allowed.len()
            ));
            Ok((0..count).map(|index| allowed[index % allowed.len()]).collect())
        }
        // The lowest cores usually serve the devices' interrupts: leave them to the other threads.
        Cores::Auto => Ok(allowed[allowed.len() - count..].to_vec()),
    }
}

fn check_ports(settings: &Settings, count: u32) -> Result<(), PlacementError> {
    let first = settings.listen_port;
    if first == 0 {
        return Ok(());
    }
    // The last shard's replication port is the highest.
    if u32::from(first) + (count - 1) * u32::from(PORT_STRIDE) + 1 > u32::from(u16::MAX) {
        return Err(PlacementError::PortsRunOut { listen_port: first, shards: count });
    }
    let namesrv = settings.namesrv_port_embedded();
    match (0..count).find(|index| Some(port_of(first, *index)) == namesrv) {
        Some(shard) => Err(PlacementError::PortTaken { port: port_of(first, shard), shard }),
        None => Ok(()),
    }
}

fn port_of(first: u16, index: u32) -> u16 {
    let offset = u16::try_from(index).expect("at most SHARDS_MAX shards") * PORT_STRIDE;
    first.checked_add(offset).expect("check_ports has passed")
}

fn shard_place(settings: &Settings, count: u32, index: u32, core: usize) -> ShardPlace {
    let root = &settings.store_path_root_dir;
    let alone = count == 1;
    let listen_port = if settings.listen_port == 0 { 0 } else { port_of(settings.listen_port, index) };
    ShardPlace {
        index,
        core,
        broker_name: if alone {
            settings.broker_name.clone()
        } else {
            format!("{}-{index}", settings.broker_name)
        },
        listen_port,
        ha_port: if listen_port == 0 { 0 } else { listen_port + 1 },
        fast_port: listen_port.saturating_sub(2),
        directory: if alone { root.clone() } else { root.join(format!("{SHARD_DIRECTORY_PREFIX}{index}")) },
    }
}

/// What `root` holds. Only looks.
fn find(root: &Path) -> io::Result<Found> {
    match std::fs::read(root.join(LAYOUT_FILE)) {
        Ok(bytes) => return Ok(read_layout(&bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let names = match std::fs::read_dir(root) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => return Err(error),
    };
    let (mut shards, mut store, mut foreign) = (0, false, None);
    for name in names {
        let name = name?.file_name().to_string_lossy().into_owned();
        let index = name.strip_prefix(SHARD_DIRECTORY_PREFIX);
        if index.is_some_and(|index| index.parse::<u32>().is_ok()) {
            shards += 1;
        } else if STORE_NAMES.contains(&name.as_str()) {
            store = true;
        } else if !name.starts_with('.') && !HARMLESS_NAMES.contains(&name.as_str()) {
            foreign = Some(name);
        }
    }
    Ok(match (shards, store, foreign) {
        (0, true, _) => Found::RocketMq,
        (0, false, None) => Found::Nothing,
        (0, false, Some(name)) => Found::Foreign(name),
        (shards, ..) => Found::ShardsWithoutLayout(shards),
    })
}

fn read_layout(bytes: &[u8]) -> Found {
    match serde_json::from_slice::<Layout>(bytes) {
        Ok(layout) => Found::Layout(layout),
        Err(error) => Found::LayoutUnreadable(error.to_string()),
    }
}

fn list(cores: &[usize]) -> String {
    cores.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

/// The layout file's name under the root. RocketMQ ignores files it doesn't know there.
pub const LAYOUT_FILE: &str = "ringmq.json";
/// The only version of the layout so far.
pub const LAYOUT_VERSION: u32 = 1;
/// Distance of neighbouring shards' ports: room for RocketMQ's replication and second client port.
pub const PORT_STRIDE: u16 = 10;
/// More shards than this would be more cores than any host we know gives one broker.
pub const SHARDS_MAX: u32 = 64;
const SHARD_DIRECTORY_PREFIX: &str = "shard-";
/// Any of these makes a directory a store; the list covers stores that were copied without their larger files.
const STORE_NAMES: &[&str] = &["commitlog", "consumequeue", "checkpoint", "config", "index"];
/// Left by file systems, and by starts that were refused after taking the lock.
const HARMLESS_NAMES: &[&str] = &["lost+found", "lock", "abort", "abort.bak"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::EmbeddedNamesrv;

    fn settings(shards: Shards) -> Settings {
        Settings { shards, store_path_root_dir: PathBuf::from("/root"), ..Settings::default() }
    }

    fn facts(cores: usize, found: Found) -> Facts {
        Facts { cores_allowed: (0..cores).collect(), found }
    }

    fn layout(shards: u32) -> Layout {
        Layout { version: LAYOUT_VERSION, shards }
    }

    /// (shards, cores, layout written), or the refusal.
    fn decide(shards: Shards, facts: &Facts) -> Result<(u32, Vec<usize>, Option<u32>), PlacementError> {
        let placement = place(&settings(shards), facts)?;
        let cores = placement.shards.iter().map(|shard| shard.core).collect();
        let count = u32::try_from(placement.shards.len()).unwrap();
        Ok((count, cores, placement.layout_to_write.map(|layout| layout.shards)))
    }

    #[test]
    fn a_new_store_gets_a_shard_per_core_but_one() {
        let cases = [(1, 1, vec![0]), (2, 1, vec![1]), (3, 2, vec![1, 2]), (8, 7, (1..8).collect())];
        for (cores, shards, pinned) in cases {
            let decided = decide(Shards::Auto, &facts(cores, Found::Nothing)).unwrap();
            assert_eq!(decided, (shards, pinned, Some(shards)), "{cores} cores");
        }
        let decided = decide(Shards::Auto, &facts(200, Found::Nothing)).unwrap();
        assert_eq!(decided.0, SHARDS_MAX);
    }

    #[test]
    fn an_existing_store_decides_when_the_settings_do_not() {
        let cases = [
            (Found::RocketMq, 1, None),
            (Found::Layout(layout(1)), 1, None),
            (Found::Layout(layout(3)), 3, None),
        ];
        for (found, shards, written) in cases {
            let decided = decide(Shards::Auto, &facts(4, found.clone())).unwrap();
            assert_eq!((decided.0, decided.2), (shards, written), "{found:?}");
        }
    }

    #[test]
    fn the_table_of_stores_and_asked_shards_is_kept() {
        let one = |found: Found| decide(Shards::Count(1), &facts(4, found));
        let three = |found: Found| decide(Shards::Count(3), &facts(4, found));
        assert_eq!(one(Found::Nothing).unwrap(), (1, vec![3], Some(1)));
        assert_eq!(one(Found::RocketMq).unwrap(), (1, vec![3], None));
        assert_eq!(one(Found::Layout(layout(1))).unwrap(), (1, vec![3], None));
        let fewer = PlacementError::FewerShards { root: PathBuf::from("/root"), asked: 1, stored: 2 };
        assert_eq!(one(Found::Layout(layout(2))), Err(fewer));
        assert_eq!(three(Found::Nothing).unwrap(), (3, vec![1, 2, 3], Some(3)));
        let single = PlacementError::OneShardStore { root: PathBuf::from("/root"), asked: 3 };
        assert_eq!(three(Found::RocketMq), Err(single.clone()));
        assert_eq!(three(Found::Layout(layout(1))), Err(single));
        assert_eq!(three(Found::Layout(layout(3))).unwrap(), (3, vec![1, 2, 3], None));
        assert_eq!(three(Found::Layout(layout(2))).unwrap(), (3, vec![1, 2, 3], Some(3)));
        let fewer = PlacementError::FewerShards { root: PathBuf::from("/root"), asked: 3, stored: 4 };
        assert_eq!(three(Found::Layout(layout(4))), Err(fewer));
    }

    #[test]
    fn a_store_whose_division_is_unknown_is_refused_whatever_is_asked() {
        for shards in [Shards::Auto, Shards::Count(1), Shards::Count(2)] {
            let message = |found| decide(shards, &facts(4, found)).unwrap_err().to_string();
            let newer = Layout { version: 2, shards: 1 };
            assert!(message(Found::Layout(newer)).contains("newer"));
            assert!(message(Found::Layout(layout(0))).contains("0 shards"));
            assert!(message(Found::Layout(layout(65))).contains("65 shards"));
            assert!(message(Found::LayoutUnreadable("eof".to_owned())).contains("(eof)"));
            assert!(message(Found::ShardsWithoutLayout(2)).contains("\"shards\":2"));
            assert!(message(Found::Foreign("thesis.txt".to_owned())).contains("thesis.txt"));
        }
    }

    #[test]
    fn added_shards_are_said() {
        let placement = place(&settings(Shards::Count(3)), &facts(4, Found::Layout(layout(2)))).unwrap();
        assert_eq!(placement.notes.len(), 1);
        assert!(placement.notes[0].contains("1 new"), "{:?}", placement.notes);
    }

    #[test]
    fn one_shard_is_exactly_a_rocketmq_broker() {
        let placement = place(&settings(Shards::Count(1)), &facts(2, Found::Nothing)).unwrap();
        let expected = ShardPlace {
            index: 0,
            core: 1,
            broker_name: "broker-a".to_owned(),
            listen_port: 10_911,
            ha_port: 10_912,
            fast_port: 10_909,
            directory: PathBuf::from("/root"),
        };
        assert_eq!(placement.shards, [expected]);
    }

    #[test]
    fn several_shards_have_numbered_names_strided_ports_and_directories_of_their_own() {
        let placement = place(&settings(Shards::Count(2)), &facts(4, Found::Nothing)).unwrap();
        let expected = ShardPlace {
            index: 1,
            core: 3,
            broker_name: "broker-a-1".to_owned(),
            listen_port: 10_921,
            ha_port: 10_922,
            fast_port: 10_919,
            directory: PathBuf::from("/root/shard-1"),
        };
        assert_eq!(placement.shards[1], expected);
        assert_eq!(placement.shards[0].broker_name, "broker-a-0");
        assert_eq!(placement.shards[0].directory, PathBuf::from("/root/shard-0"));
    }

    #[test]
    fn port_zero_leaves_every_port_to_the_kernel() {
        let settings = Settings { listen_port: 0, ..settings(Shards::Count(2)) };
        let placement = place(&settings, &facts(4, Found::Nothing)).unwrap();
        let ports: Vec<_> = placement
            .shards
            .iter()
            .map(|shard| (shard.listen_port, shard.ha_port, shard.fast_port))
            .collect();
        assert_eq!(ports, [(0, 0, 0), (0, 0, 0)]);
    }

    #[test]
    fn ports_beyond_the_last_are_refused() {
        let at = |listen_port| {
            place(&Settings { listen_port, ..settings(Shards::Count(3)) }, &facts(4, Found::Nothing)).is_ok()
        };
        assert!(at(65_514));
        assert!(!at(65_515));
        assert!(at(1), "a first port without a second client port still works");
    }

    #[test]
    fn a_shard_on_the_embedded_name_servers_port_is_refused() {
        let mut settings = settings(Shards::Count(3));
        settings.embedded_namesrv_port = EmbeddedNamesrv::Port(10_931);
        let error = place(&settings, &facts(4, Found::Nothing)).unwrap_err();
        assert_eq!(error, PlacementError::PortTaken { port: 10_931, shard: 2 });
        settings.shards = Shards::Count(2);
        assert!(place(&settings, &facts(4, Found::Nothing)).is_ok());
    }

    #[test]
    fn listed_cores_are_used_in_order_and_must_be_allowed_and_enough() {
        let mut settings = settings(Shards::Auto);
        settings.cores = Cores::List(vec![1, 3]);
        let placed = |settings: &Settings, found| {
            let placement = place(settings, &facts(4, found))?;
            Ok(placement.shards.iter().map(|shard| shard.core).collect::<Vec<_>>())
        };
        assert_eq!(placed(&settings, Found::Nothing), Ok(vec![1, 3]));
        assert_eq!(placed(&settings, Found::RocketMq), Ok(vec![1]));
        let fewer = PlacementError::FewerCores { cores: 2, shards: 3 };
        assert_eq!(placed(&settings, Found::Layout(layout(3))), Err(fewer));
        settings.cores = Cores::List(vec![1, 4]);
        let outside = PlacementError::CoreNotAllowed { core: 4, allowed: vec![0, 1, 2, 3] };
        assert_eq!(placed(&settings, Found::Nothing), Err(outside));
    }

    #[test]
    fn more_shards_than_cores_share_them_loudly() {
        let placement = place(&settings(Shards::Count(3)), &facts(2, Found::Nothing)).unwrap();
        let cores: Vec<_> = placement.shards.iter().map(|shard| shard.core).collect();
        assert_eq!(cores, [0, 1, 0]);
        assert!(placement.notes[0].contains("share"));
    }

    #[test]
    fn gathering_tells_stores_apart_and_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("data");
        let found = || Facts::gather(&root).unwrap().found;
        assert_eq!(found(), Found::Nothing);
        assert!(!root.exists());
        std::fs::create_dir_all(root.join("lost+found")).unwrap();
        std::fs::write(root.join("lock"), "lock").unwrap();
        assert_eq!(found(), Found::Nothing);
        std::fs::write(root.join("thesis.txt"), "").unwrap();
        assert_eq!(found(), Found::Foreign("thesis.txt".to_owned()));
        let error = Facts::gather(&root.join("thesis.txt")).unwrap_err().to_string();
        assert!(error.contains("thesis.txt"), "{error}");
        std::fs::create_dir(root.join("commitlog")).unwrap();
        assert_eq!(found(), Found::RocketMq);
        std::fs::create_dir(root.join("shard-0")).unwrap();
        std::fs::create_dir(root.join("shard-1")).unwrap();
        assert_eq!(found(), Found::ShardsWithoutLayout(2));
        std::fs::write(root.join(LAYOUT_FILE), layout(2).to_json()).unwrap();
        assert_eq!(found(), Found::Layout(layout(2)));
        std::fs::write(root.join(LAYOUT_FILE), "{\"version\":1").unwrap();
        assert!(matches!(found(), Found::LayoutUnreadable(_)));
        assert!(!Facts::gather(&root).unwrap().cores_allowed.is_empty());
    }
}
