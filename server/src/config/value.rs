//! The kinds of value a setting can have: how each is read from text, bounded and printed.
//!
//! Owns the typed sizes, durations and choices. Never knows a setting's name: the table in `settings.rs` gives
//! every key its [`Shape`], and reading, printing and documenting all go by that one shape.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A number of bytes. Read as a plain number (RocketMQ's way) or with `KiB`, `MiB`, `GiB`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ByteSize(pub u64);

/// What a plain number means where a duration is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeUnit {
    /// Microseconds.
    Micros,
    /// Milliseconds, RocketMQ's usual unit.
    Millis,
    /// Seconds.
    Seconds,
}

/// What values a setting accepts: used to read, to refuse and to document it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// Letters, digits, `_`, `-`, `%` and `|`, because it becomes part of topic and broker names.
    Name {
        /// Most characters.
        len_max: usize,
    },
    /// `true` or `false`.
    Switch,
    /// A whole number.
    Count {
        /// Smallest accepted.
        min: u64,
        /// Largest accepted.
        max: u64,
    },
    /// A size in bytes.
    Bytes {
        /// Smallest accepted.
        min: u64,
        /// Largest accepted.
        max: u64,
    },
    /// A span of time.
    Time {
        /// Unit of a plain number.
        unit: TimeUnit,
        /// Smallest accepted, in `unit`.
        min: u64,
        /// Largest accepted, in `unit`.
        max: u64,
    },
    /// One of these words.
    Choice(&'static [&'static str]),
    /// An IP address that others can reach.
    Address,
    /// `auto` or an IP address.
    AddressOrAuto,
    /// `;`-separated `host:port`.
    AddressList,
    /// A directory.
    Directory,
    /// `auto` or a whole number.
    CountOrAuto {
        /// Smallest accepted.
        min: u64,
        /// Largest accepted.
        max: u64,
    },
    /// `auto` or a list of processors like `0,2-3`.
    CoreList,
    /// `auto`, `off` or a port.
    PortOrOff,
}

/// A setting's value: text to value and back.
pub trait Value: Sized {
    /// Reads `text`; the error says what is accepted, without naming the key.
    fn read(text: &str, shape: &Shape) -> Result<Self, String>;
    /// As a TOML value that [`Value::read`] takes back.
    fn toml(&self, shape: &Shape) -> String;
}

/// A choice of words: an enum whose variants have RocketMQ's (or our) spelling.
macro_rules! choice {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum $name { $($(#[$variant_meta])* $variant),+ }

        impl $name {
            /// Every accepted word.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// The word as it is written in a settings file.
            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl Value for $name {
            fn read(text: &str, _shape: &Shape) -> Result<Self, String> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(format!("must be one of {}", Self::WORDS.join(", "))),
                }
            }

            fn toml(&self, _shape: &Shape) -> String {
                quote(self.word())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.word())
            }
        }
    };
}

choice! {
    /// When a message counts as stored.
    FlushDiskType {
        /// Acknowledged once the device has it.
        SyncFlush = "SYNC_FLUSH",
        /// Acknowledged once it is in the log's memory; the device follows.
        AsyncFlush = "ASYNC_FLUSH",
    }
}

choice! {
    /// The broker's part in replication. Only the one that is built.
    BrokerRole {
        /// A master that does not wait for slaves.
        AsyncMaster = "ASYNC_MASTER",
    }
}

choice! {
    /// How bytes reach the commit log's files.
    Backend {
        /// Aligned buffers, O_DIRECT writes on io_uring.
        Direct = "direct",
        /// Memory-mapped files, RocketMQ's classic way.
        Mapped = "mapped",
    }
}

choice! {
    /// How a group of messages is made durable on the `direct` backend.
    FlushMethod {
        /// Measured at start; the faster of the two wins.
        Auto = "auto",
        /// A write, then fdatasync.
        Fdatasync = "fdatasync",
        /// One O_DSYNC write.
        Dsync = "dsync",
    }
}

choice! {
    /// What is done to a commit-log segment before the first message is written into it.
    PrepareMode {
        /// Its blocks are allocated.
        Allocate = "allocate",
        /// Its blocks are allocated, zero-filled and synced.
        Zero = "zero",
    }
}

/// How many shards the process runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shards {
    /// As many as the store has; for a new store, by the processors available.
    Auto,
    /// Exactly this many.
    Count(u32),
}

/// Which processors shards are pinned to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cores {
    /// Chosen from those that the process may use.
    Auto,
    /// These, ascending and without repetition.
    List(Vec<usize>),
}

/// Whether a name server runs inside this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EmbeddedNamesrv {
    /// On the default port when no external name server is named.
    Auto,
    /// Never.
    Off,
    /// On this port; 0 takes one that the kernel gives.
    Port(u16),
}

impl Value for String {
    fn read(text: &str, shape: &Shape) -> Result<Self, String> {
        let Shape::Name { len_max } = shape else { return Ok(text.to_owned()) };
        let ok = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '%' | '|');
        if text.is_empty() || text.len() > *len_max || !text.chars().all(ok) {
            return Err(format!("must be 1 to {len_max} letters, digits, `_`, `-`, `%` or `|`"));
        }
        Ok(text.to_owned())
    }

    fn toml(&self, _shape: &Shape) -> String {
        quote(self)
    }
}

impl Value for bool {
    fn read(text: &str, _shape: &Shape) -> Result<Self, String> {
        match text {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err("must be true or false".to_owned()),
        }
    }

    fn toml(&self, _shape: &Shape) -> String {
        self.to_string()
    }
}

impl Value for u32 {
    fn read(text: &str, shape: &Shape) -> Result<Self, String> {
        let Shape::Count { min, max } = *shape else { return Err("is not a count".to_owned()) };
        let refuse = || format!("must be a whole number from {min} to {max}");
        let number: u32 = text.parse().map_err(|_| refuse())?;
        if (min..=max).contains(&u64::from(number)) { Ok(number) } else { Err(refuse()) }
    }

    fn toml(&self, _shape: &Shape) -> String {
        self.to_string()
    }
}

impl Value for u16 {
    fn read(text: &str, shape: &Shape) -> Result<Self, String> {
        let wide = u32::read(text, shape)?;
        u16::try_from(wide).map_err(|_| "must be at most 65535".to_owned())
    }

    fn toml(&self, _shape: &Shape) -> String {
        self.to_string()
    }
}

impl Value for ByteSize {
    fn read(text: &str, shape: &Shape) -> Result<Self, String> {
        let Shape::Bytes { min, max } = *shape else { return Err("is not a size".to_owned()) };
        let refuse = || {
            format!(
                "must be a size from {} to {}, in bytes or with KiB, MiB or GiB",
                ByteSize(min),
                ByteSize(max)
            )
        };
        let bytes = parse_scaled(text, BYTE_SUFFIXES).ok_or_else(refuse)?;
        if (min..=max).contains(&bytes) { Ok(ByteSize(bytes)) } else { Err(refuse()) }
    }

    fn toml(&self, _shape: &Shape) -> String {
        let text = self.to_string();
        if text.ends_with('B') { quote(&text) } else { text }
    }
}

/// Prints the largest unit that divides the size: what is printed reads back as the same number.
impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = BYTE_SUFFIXES.iter().rev().find(|(suffix, scale)| {
            *scale > 1 && suffix.len() == 3 && self.0 > 0 && self.0.is_multiple_of(*scale)
        });
        match whole {
            Some((suffix, scale)) => write!(f, "{}{suffix}", self.0 / scale),
            None => write!(f, "{}", self.0),
        }
    }
}

impl Value for Duration {
    fn read(text: &str, shape: &Shape) -> Result<Self, String> {
        let Shape::Time { unit, min, max } = *shape else { return Err("is not a time".to_owned()) };
        let micros = match text.parse::<u64>() {
            Ok(plain) => plain.checked_mul(unit.micros()),
            Err(_) => parse_scaled(text, TIME_SUFFIXES),
        };
        let bounds = min * unit.micros()..=max * unit.micros();
        match micros {
            Some(micros) if bounds.contains(&micros) => Ok(Duration::from_micros(micros)),
            _ => Err(format!(
                "must be a time from {min} to {max} {} (a plain number), or with us, ms, s, m or h",
                unit.word()
            )),
        }
    }

    fn toml(&self, shape: &Shape) -> String {
        let micros = u64::try_from(self.as_micros()).unwrap_or(u64::MAX);
        match *shape {
            Shape::Time { unit, .. } if micros.is_multiple_of(unit.micros()) => {
                (micros / unit.micros()).to_string()
            }
            _ => quote(&format!("{micros}us")),
        }
    }
}

impl TimeUnit {
    fn micros(self) -> u64 {
        match self {
            TimeUnit::Micros => 1,
            TimeUnit::Millis => 1_000,
            TimeUnit::Seconds => 1_000_000,
        }
    }

    /// The unit's name in a sentence.
    pub fn word(self) -> &'static str {
        match self {
            TimeUnit::Micros => "µs",
            TimeUnit::Millis => "ms",
            TimeUnit::Seconds => "s",
        }
    }
}

impl Value for IpAddr {
    fn read(text: &str, _shape: &Shape) -> Result<Self, String> {
        let address: IpAddr = text.parse().map_err(|_| {
            "must be an IP address, because it is sent to clients as it stands (names are not looked up)"
                .to_owned()
        })?;
        if address.is_unspecified() || address.is_multicast() {
            return Err("must be an address that clients can connect to; to listen on all addresses keep a \
                        reachable one here and set bindAddress (--bind) to 0.0.0.0"
                .to_owned());
        }
        Ok(address)
    }

    fn toml(&self, _shape: &Shape) -> String {
        quote(&self.to_string())
    }
}

impl Value for Option<IpAddr> {
    fn read(text: &str, _shape: &Shape) -> Result<Self, String> {
        if text == "auto" {
            return Ok(None);
        }
        text.parse().map(Some).map_err(|_| "must be `auto` or an IP address".to_owned())
    }

    fn toml(&self, _shape: &Shape) -> String {
        match self {
            Some(address) => quote(&address.to_string()),
            None => quote("auto"),
        }
    }
}

/// Addresses of name servers, `host:port` each.
impl Value for Vec<String> {
    fn read(text: &str, _shape: &Shape) -> Result<Self, String> {
        let mut addresses: Vec<String> = Vec::new();
        for address in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
            let port = address.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port);
            if !port.is_some_and(|port| port.parse::<u16>().is_ok_and(|port| port != 0)) {
                return Err(format!("must be `host:port;host:port…`, but holds `{address}`"));
            }
            if !addresses.iter().any(|known| known == address) {
                addresses.push(address.to_owned());
            }
        }
        if addresses.len() > NAMESRV_COUNT_MAX {
            return Err(format!("must name at most {NAMESRV_COUNT_MAX} name servers"));
        }
        Ok(addresses)
    }

    fn toml(&self, _shape: &Shape) -> String {
        quote(&self.join(";"))
    }
}

impl Value for PathBuf {
    fn read(text: &str, _shape: &Shape) -> Result<Self, String> {
        if text.is_empty() {
            return Err("must be a directory, not an empty text".to_owned());
        }
        Ok(PathBuf::from(text))
    }

    fn toml(&self, _shape: &Shape) -> String {
        quote(&self.to_string_lossy())
    }
}

impl Value for Shards {
    fn read(text: &str, shape: &Shape) -> Result<Self, String> {
        let Shape::CountOrAuto { min, max } = *shape else { return Err("is not a count".to_owned()) };
        match text {
            "auto" => Ok(Shards::Auto),
            _ => u32::read(text, &Shape::Count { min, max })
                .map(Shards::Count)
                .map_err(|_| format!("must be `auto` or a whole number from {min} to {max}")),
        }
    }

    fn toml(&self, _shape: &Shape) -> String {
        match self {
            Shards::Auto => quote("auto"),
            Shards::Count(count) => count.to_string(),
        }
    }
}

impl Value for Cores {
    fn read(text: &str, _shape: &Shape) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Cores::Auto);
        }
        parse_core_list(text).map(Cores::List).ok_or_else(|| "must be `auto` or a list like 0,2-3".to_owned())
    }

    fn toml(&self, _shape: &Shape) -> String {
        match self {
            Cores::Auto => quote("auto"),
            Cores::List(cores) => quote(&cores.iter().map(usize::to_string).collect::<Vec<_>>().join(",")),
        }
    }
}

impl Value for EmbeddedNamesrv {
    fn read(text: &str, _shape: &Shape) -> Result<Self, String> {
        match text {
            "auto" => Ok(EmbeddedNamesrv::Auto),
            "off" => Ok(EmbeddedNamesrv::Off),
            _ => text
                .parse()
                .map(EmbeddedNamesrv::Port)
                .map_err(|_| "must be `auto`, `off` or a port from 0 to 65535".to_owned()),
        }
    }

    fn toml(&self, _shape: &Shape) -> String {
        match self {
            EmbeddedNamesrv::Auto => quote("auto"),
            EmbeddedNamesrv::Off => quote("off"),
            EmbeddedNamesrv::Port(port) => port.to_string(),
        }
    }
}

/// Reads the kernel's list format, `0,2-3`: ascending, without repetition; `None` when it isn't one.
pub fn parse_core_list(text: &str) -> Option<Vec<usize>> {
    let mut cores = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= CORE_INDEX_END {
            return None;
        }
        cores.extend(first..=last);
    }
    cores.sort_unstable();
    cores.dedup();
    Some(cores)
}

/// A TOML basic string.
fn quote(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// `12MiB` by a table of suffixes: the number times the suffix's scale, `None` when it isn't one or overflows.
fn parse_scaled(text: &str, suffixes: &[(&str, u64)]) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let scale = suffixes.iter().find(|(known, _)| *known == suffix.trim_start()).map(|(_, scale)| *scale)?;
    number.parse::<u64>().ok()?.checked_mul(scale)
}

/// More name servers than anybody runs; bounds what a registration round costs.
pub const NAMESRV_COUNT_MAX: usize = 16;
/// The kernel's own limit of processors (CONFIG_NR_CPUS) is 8,192 on the largest builds.
const CORE_INDEX_END: usize = 8_192;
const BYTE_SUFFIXES: &[(&str, u64)] =
    &[("", 1), ("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];
const TIME_SUFFIXES: &[(&str, u64)] =
    &[("us", 1), ("µs", 1), ("ms", 1_000), ("s", 1_000_000), ("m", 60_000_000), ("h", 3_600_000_000)];
