//! What the operator typed, to checked settings.
//!
//! Three forms, each its own type: the command line as typed ([`Cli`]), the list of `key = text` entries with where
//! each came from ([`Entry`]), and the checked [`Settings`]. Order of precedence: defaults, file, flags, `--set`.
//!
//! Owns names, defaults, bounds and the relations between settings. Never looks at the host or the store, and never
//! writes a log line: what should be said is returned as [`Note`]s.

pub mod cli;
pub mod docs;
pub mod settings;
pub mod value;
mod check;
mod error;
mod file;
mod known;

#[cfg(test)]
mod tests;

use std::fmt;
use std::path::Path;

pub use cli::{Cli, Command, DoctorArgs, NamesrvArgs, ServeArgs};
pub use error::ConfigError;
pub use settings::{NAMESRV_PORT_DEFAULT, Settings};
pub use value::{
    Backend, BrokerRole, ByteSize, Cores, EmbeddedNamesrv, FlushDiskType, FlushMethod, PrepareMode, Shards,
};

use settings::{KEYS, Key, OLD_SPELLINGS};

/// Settings that are in force, and what the operator should hear about them.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Checked settings.
    pub settings: Settings,
    /// Warnings and clamps, to be logged once at start.
    pub notes: Vec<Note>,
}

/// One `key = text` that somebody wrote.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The name as written.
    pub key: String,
    /// The text as written.
    pub value: String,
    /// Where.
    pub origin: Origin,
}

/// Where a value was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// In a settings file.
    File {
        /// As given.
        path: String,
        /// 1 for the first.
        line: usize,
    },
    /// As a flag.
    Flag(&'static str),
    /// As `--set`.
    Set,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File { path, line } => write!(f, "{path} line {line}"),
            Origin::Flag(flag) => f.write_str(flag),
            Origin::Set => f.write_str("--set"),
        }
    }
}

/// Something that the operator should hear, though it stops nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Note {
    /// A setting of RocketMQ that has no effect here.
    Ignored {
        /// RocketMQ's name.
        key: String,
        /// Where it stands.
        origin: Origin,
    },
    /// A value was moved into bounds.
    Clamped {
        /// The setting.
        key: &'static str,
        /// What was asked for.
        asked: String,
        /// What is in force.
        used: String,
        /// Why.
        reason: &'static str,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::Ignored { key, origin } => {
                write!(f, "{origin}: {key} is a setting of RocketMQ that has no effect in RingMQ")
            }
            Note::Clamped { key, asked, used, reason } => {
                write!(f, "{key} = {asked} was moved to {used}: {reason}")
            }
        }
    }
}

/// Reads the file (if one is named), the flags and `--set`, in that order, and checks the result.
///
/// # Errors
///
/// The first thing that is refused, with where it stands and the remedy.
pub fn load(args: &ServeArgs) -> Result<Loaded, ConfigError> {
    let mut entries = match &args.config {
        Some(path) => file_entries(path)?,
        None => Vec::new(),
    };
    for (flag, key, value) in args.settings() {
        entries.push(Entry { key: key.to_owned(), value, origin: Origin::Flag(flag) });
    }
    for argument in &args.set {
        let (key, value) =
            argument.split_once('=').ok_or_else(|| ConfigError::SetSyntax { argument: argument.clone() })?;
        entries.push(Entry {
            key: key.trim().to_owned(),
            value: value.trim().to_owned(),
            origin: Origin::Set,
        });
    }
    resolve(&entries)
}

/// Applies `entries` to the defaults, later ones over earlier ones, and checks the result.
///
/// # Errors
///
/// The first entry or contradiction that is refused.
pub fn resolve(entries: &[Entry]) -> Result<Loaded, ConfigError> {
    let mut settings = Settings::default();
    let mut notes = Vec::new();
    let mut part_paths = Vec::new();
    for entry in entries {
        refuse_unbuilt(entry)?;
        if let Some(key) = Key::find(&entry.key) {
            (key.read)(&mut settings, &entry.value).map_err(|accepted| value_error(entry, accepted))?;
        } else if STORE_PARTS.iter().any(|(name, _)| *name == entry.key) {
            part_paths.push(entry);
        } else if known::is_known(&entry.key) {
            note_ignored(entry, &mut notes);
        } else {
            return Err(ConfigError::Unknown {
                key: entry.key.clone(),
                origin: entry.origin.clone(),
                nearest: nearest(&entry.key),
            });
        }
    }
    for entry in part_paths {
        refuse_part_elsewhere(&settings, entry)?;
    }
    check::check(&mut settings, &mut notes)?;
    Ok(Loaded { settings, notes })
}

fn file_entries(path: &Path) -> Result<Vec<Entry>, ConfigError> {
    let shown = path.to_string_lossy().into_owned();
    let refuse = |problem: String| ConfigError::File { path: shown.clone(), problem };
    let bytes = std::fs::metadata(path).map_err(|error| refuse(format!("can't be read: {error}")))?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(refuse(format!("has {bytes} bytes, which no settings file has; is it another file?")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| refuse(format!("can't be read: {error}")))?;
    file::parse(&shown, &text)
}

fn refuse_unbuilt(entry: &Entry) -> Result<(), ConfigError> {
    match known::unbuilt(&entry.key) {
        Some(unbuilt) if !unbuilt.harmless.contains(&entry.value.as_str()) => Err(ConfigError::Unbuilt {
            key: entry.key.clone(),
            value: entry.value.clone(),
            origin: entry.origin.clone(),
            remedy: unbuilt.remedy.to_owned(),
        }),
        _ => Ok(()),
    }
}

/// RocketMQ can keep parts of a store outside its root; we can't, and ignoring that would open another store.
fn refuse_part_elsewhere(settings: &Settings, entry: &Entry) -> Result<(), ConfigError> {
    let usual = STORE_PARTS.iter().find(|(name, _)| *name == entry.key).map(|(_, usual)| *usual);
    let usual = settings.store_path_root_dir.join(usual.unwrap_or_default());
    if Path::new(&entry.value) == usual {
        return Ok(());
    }
    Err(ConfigError::Unbuilt {
        key: entry.key.clone(),
        value: entry.value.clone(),
        origin: entry.origin.clone(),
        remedy: format!(
            "all of a store lies under storePathRootDir; remove this line or make it {}",
            usual.display()
        ),
    })
}

fn note_ignored(entry: &Entry, notes: &mut Vec<Note>) {
    let harmless = known::unbuilt(&entry.key).is_some();
    let said = notes.iter().any(|note| matches!(note, Note::Ignored { key, .. } if *key == entry.key));
    if !harmless && !said {
        notes.push(Note::Ignored { key: entry.key.clone(), origin: entry.origin.clone() });
    }
}

fn value_error(entry: &Entry, accepted: String) -> ConfigError {
    ConfigError::Value {
        key: entry.key.clone(),
        value: entry.value.clone(),
        origin: entry.origin.clone(),
        accepted,
    }
}

/// The existing name most like `key`, ours before RocketMQ's, unless none is like it.
fn nearest(key: &str) -> Option<&'static str> {
    let typed = key.to_ascii_lowercase();
    let ours = KEYS.iter().map(|key| key.name);
    let all = ours.chain(OLD_SPELLINGS.iter().map(|(old, _)| *old)).chain(known::known_names());
    let scored =
        all.map(|name| (strsim::normalized_damerau_levenshtein(&typed, &name.to_ascii_lowercase()), name));
    // Strictly greater: of equally near names the first, ours, stays.
    let best =
        scored.fold(
            (NEAREST_SCORE_MIN, None),
            |best, (score, name)| {
                if score > best.0 { (score, Some(name)) } else { best }
            },
        );
    best.1
}

/// Settings that place a part of the store, and where under the root that part is.
const STORE_PARTS: &[(&str, &str)] = &[
    ("storePathCommitLog", "commitlog"),
    ("storePathConsumeQueue", "consumequeue"),
    ("storePathIndex", "index"),
    ("storeCheckpoint", "checkpoint"),
    ("abortFile", "abort"),
];

/// A settings file is a few kilobytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Below this a suggestion would only puzzle.
const NEAREST_SCORE_MIN: f64 = 0.55;
