//! What the doctor looks at, and how it is read. Every read may fail on some host: then the fact is absent, and the
//! verdict says that it couldn't be seen. Judges nothing.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::process::Resource;

/// Facts about this host, this process's limits, and one directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostFacts {
    /// As `uname -r` prints it.
    pub kernel_release: String,
    /// Whether a ring could be set up.
    pub io_uring: Probe,
    /// `kernel.io_uring_disabled`: 0 allowed, 1 for some, 2 for nobody. Absent before kernel 6.6.
    pub io_uring_disabled: Option<u64>,
    /// Whether a seccomp filter is in force (containers usually have one).
    pub seccomp_filter: bool,
    /// Locked memory, bytes.
    pub memlock: Limit,
    /// Open files.
    pub open_files: Limit,
    /// Processors this process may run on.
    pub cores_allowed: usize,
    /// CPU time the control group allows, in thousandths of a core; `None` without a limit.
    pub cgroup_cpu_millis: Option<u64>,
    /// Memory the control group allows, bytes; `None` without a limit.
    pub cgroup_memory: Option<u64>,
    /// Memory of the host, bytes.
    pub memory: Option<u64>,
    /// Swap of the host, bytes.
    pub swap: Option<u64>,
    /// Frequency governors in use, each once; empty when the host shows none (most virtual machines).
    pub governors: Vec<String>,
    /// The selected word of transparent huge pages.
    pub huge_pages: Option<String>,
    /// `vm.swappiness`.
    pub swappiness: Option<u64>,
    /// `vm.dirty_ratio`; 0 when `vm.dirty_bytes` is in force.
    pub dirty_ratio: Option<u64>,
    /// `vm.dirty_background_ratio`; 0 when `vm.dirty_background_bytes` is in force.
    pub dirty_background_ratio: Option<u64>,
    /// The kernel's clock source.
    pub clock_source: Option<String>,
    /// `net.core.somaxconn`.
    pub somaxconn: Option<u64>,
    /// `net.ipv4.tcp_max_syn_backlog`.
    pub syn_backlog: Option<u64>,
    /// `net.ipv4.ip_local_port_range`.
    pub local_ports: Option<(u16, u16)>,
    /// The port a broker would listen on.
    pub port: u16,
    /// Whether it can be bound on the loopback address.
    pub port_free: Probe,
    /// The store's directory.
    pub directory: Directory,
}

/// The outcome of trying something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Probe {
    /// Nobody tried.
    NotTried,
    /// It works.
    Works,
    /// It doesn't, and why.
    Refused(String),
}

/// A resource limit; `None` is unlimited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limit {
    /// In force now.
    pub soft: Option<u64>,
    /// What the process may raise it to.
    pub hard: Option<u64>,
}

/// The directory of the store, or the nearest existing one above it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Directory {
    /// The one asked about.
    pub asked: PathBuf,
    /// The one looked at.
    pub looked_at: PathBuf,
    /// Whether a file can be made in it.
    pub writable: Probe,
    /// Whether a block can be written around the page cache.
    pub direct: Probe,
    /// The file system's name, as the kernel shows it.
    pub file_system: Option<String>,
    /// Its mount options.
    pub mount_options: String,
    /// Bytes free to this user.
    pub bytes_free: Option<u64>,
    /// Bytes in all.
    pub bytes_total: Option<u64>,
    /// The block device, when the file system is on one.
    pub device: Option<Device>,
}

/// A block device's queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Device {
    /// As under `/sys/block`.
    pub name: String,
    /// The selected scheduler.
    pub scheduler: Option<String>,
    /// `write back` or `write through`.
    pub write_cache: Option<String>,
    /// A disk that turns.
    pub rotational: bool,
}

impl HostFacts {
    /// Looks at this host and `directory`. `io_uring` tries to set up a ring (the engine owns how that is done).
    pub fn gather(directory: &Path, port: u16, io_uring: impl FnOnce() -> io::Result<()>) -> HostFacts {
        let cores_allowed =
            rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count().try_into().unwrap_or(1));
        HostFacts {
            kernel_release: rustix::system::uname().release().to_string_lossy().into_owned(),
            io_uring: io_uring().into(),
            io_uring_disabled: number("/proc/sys/kernel/io_uring_disabled"),
            seccomp_filter: status_field("Seccomp").is_some_and(|mode| mode == "2"),
            memlock: Limit::of(Resource::Memlock),
            open_files: Limit::of(Resource::Nofile),
            cores_allowed,
            cgroup_cpu_millis: cgroup_cpu_millis(),
            cgroup_memory: cgroup_number(&[("", "memory.max"), ("memory", "memory.limit_in_bytes")])
                .filter(|bytes| *bytes < CGROUP_V1_UNLIMITED),
            memory: meminfo("MemTotal"),
            swap: meminfo("SwapTotal"),
            governors: governors(),
            huge_pages: text("/sys/kernel/mm/transparent_hugepage/enabled").and_then(|text| bracketed(&text)),
            swappiness: number("/proc/sys/vm/swappiness"),
            dirty_ratio: number("/proc/sys/vm/dirty_ratio"),
            dirty_background_ratio: number("/proc/sys/vm/dirty_background_ratio"),
            clock_source: text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            somaxconn: number("/proc/sys/net/core/somaxconn"),
            syn_backlog: number("/proc/sys/net/ipv4/tcp_max_syn_backlog"),
            local_ports: text("/proc/sys/net/ipv4/ip_local_port_range").and_then(|text| port_range(&text)),
            port,
            port_free: bind(port).into(),
            directory: Directory::gather(directory),
        }
    }
}

impl From<io::Result<()>> for Probe {
    fn from(result: io::Result<()>) -> Probe {
        match result {
            Ok(()) => Probe::Works,
            Err(error) => Probe::Refused(error.to_string()),
        }
    }
}

impl Limit {
    fn of(resource: Resource) -> Limit {
        let limit = rustix::process::getrlimit(resource);
        Limit { soft: limit.current, hard: limit.maximum }
    }
}

impl Directory {
    /// Looks at `asked`, or at the nearest directory above it that exists.
    pub fn gather(asked: &Path) -> Directory {
        let absolute = std::path::absolute(asked).unwrap_or_else(|_| asked.to_path_buf());
        let existing = absolute.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("/"));
        let looked_at = existing.canonicalize().unwrap_or_else(|_| existing.to_path_buf());
        let space = rustix::fs::statvfs(&looked_at).ok();
        let mount = text("/proc/self/mountinfo").and_then(|table| mount_of(&table, &looked_at));
        let (file_system, mount_options) = mount.unzip();
        Directory {
            asked: asked.to_path_buf(),
            writable: probe_file(&looked_at, false).into(),
            direct: probe_file(&looked_at, true).into(),
            file_system,
            mount_options: mount_options.unwrap_or_default(),
            bytes_free: space.as_ref().map(|space| space.f_bavail * space.f_frsize),
            bytes_total: space.as_ref().map(|space| space.f_blocks * space.f_frsize),
            device: std::fs::metadata(&looked_at).ok().and_then(|meta| Device::gather(meta.dev())),
            looked_at,
        }
    }
}

impl Device {
    fn gather(device: u64) -> Option<Device> {
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let mut place = Path::new("/sys/dev/block").join(format!("{major}:{minor}")).canonicalize().ok()?;
        if place.join("partition").exists() {
            place.pop();
        }
        let queue = |name: &str| text(place.join("queue").join(name));
        Some(Device {
            name: place.file_name()?.to_string_lossy().into_owned(),
            scheduler: queue("scheduler").map(|text| bracketed(&text).unwrap_or(text)),
            write_cache: queue("write_cache"),
            rotational: queue("rotational").is_some_and(|text| text == "1"),
        })
    }
}

/// Makes a file without a name and writes a block to it; with `direct`, around the page cache.
fn probe_file(directory: &Path, direct: bool) -> io::Result<()> {
    let flags = if direct { OFlags::RDWR | OFlags::DIRECT } else { OFlags::RDWR };
    let mode = Mode::RUSR | Mode::WUSR;
    let file = match rustix::fs::open(directory, flags | OFlags::TMPFILE, mode) {
        // These file systems need a name; it is taken away again before anything is written.
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR) => {
            let path = directory.join(format!(".ringmq-doctor-{}", std::process::id()));
            let file = rustix::fs::open(&path, flags | OFlags::CREATE | OFlags::EXCL, mode);
            // Some refuse O_DIRECT only after the name exists.
            let removed = std::fs::remove_file(&path);
            let file = file?;
            removed?;
            file
        }
        file => file?,
    };
    let memory = vec![0u8; 2 * PROBE_BYTES];
    let start = memory.as_ptr().align_offset(PROBE_BYTES);
    let written = rustix::io::pwrite(&file, &memory[start..start + PROBE_BYTES], 0)?;
    if written == PROBE_BYTES { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// std binds with SO_REUSEADDR, so only a listening socket is in the way.
fn bind(port: u16) -> io::Result<()> {
    TcpListener::bind(SocketAddr::new(IpAddr::from([127, 0, 0, 1]), port)).map(drop)
}

fn text(path: impl AsRef<Path>) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn number(path: impl AsRef<Path>) -> Option<u64> {
    text(path)?.parse().ok()
}

fn status_field(name: &str) -> Option<String> {
    let status = text("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

/// A line of `/proc/meminfo`, in bytes.
fn meminfo(name: &str) -> Option<u64> {
    let info = text("/proc/meminfo")?;
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib << 10)
}

fn governors() -> Vec<String> {
    let Ok(policies) = std::fs::read_dir("/sys/devices/system/cpu/cpufreq") else { return Vec::new() };
    let read = |policy: io::Result<std::fs::DirEntry>| text(policy.ok()?.path().join("scaling_governor"));
    let mut governors: Vec<String> = policies.filter_map(read).collect();
    governors.sort_unstable();
    governors.dedup();
    governors
}

/// `[word]` out of `one [word] other`, the kernel's way to show a selection.
pub(super) fn bracketed(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    rest.split_once(']').map(|(word, _)| word.to_owned())
}

pub(super) fn port_range(text: &str) -> Option<(u16, u16)> {
    let mut ends = text.split_whitespace().map(str::parse);
    Some((ends.next()?.ok()?, ends.next()?.ok()?))
}

/// (file system, options) of the mount that `path` is in: the longest mount point above it, the last of equals.
pub(super) fn mount_of(table: &str, path: &Path) -> Option<(String, String)> {
    let mut best: Option<(usize, (String, String))> = None;
    for line in table.lines() {
        let (left, right) = line.split_once(" - ")?;
        let left: Vec<&str> = left.split(' ').collect();
        let mut right = right.split(' ');
        let (Some(point), Some(options)) = (left.get(4), left.get(5)) else { continue };
        let point = unescape(point);
        let longer = best.as_ref().is_none_or(|(length, _)| point.len() >= *length);
        if longer && path.starts_with(&point) {
            let file_system = right.next()?.to_owned();
            let super_options = right.nth(1).unwrap_or_default();
            best = Some((point.len(), (file_system, format!("{options},{super_options}"))));
        }
    }
    best.map(|(_, mount)| mount)
}

/// `/proc` writes a blank in a mount point as `\040`.
fn unescape(point: &str) -> String {
    point.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
}

/// The smallest CPU limit of this process's group and those above it.
fn cgroup_cpu_millis() -> Option<u64> {
    let modern = cgroup_directories("").filter_map(|directory| {
        let limit = text(directory.join("cpu.max"))?;
        let (quota, period) = limit.split_once(' ')?;
        cpu_millis(quota.parse().ok()?, period.parse().ok()?)
    });
    let old = cgroup_directories("cpu").filter_map(|directory| {
        cpu_millis(number(directory.join("cpu.cfs_quota_us"))?, number(directory.join("cpu.cfs_period_us"))?)
    });
    modern.chain(old).min()
}

fn cpu_millis(quota: u64, period: u64) -> Option<u64> {
    quota.checked_mul(1000)?.checked_div(period)
}

/// The smallest number in these files (controller, file) of this process's group and those above it.
fn cgroup_number(files: &[(&str, &str)]) -> Option<u64> {
    let read = |(controller, file): &(&str, &str)| {
        cgroup_directories(controller).filter_map(|directory| number(directory.join(file))).min()
    };
    files.iter().filter_map(read).min()
}

/// The directories of this process's control group and those above it, for a controller of version 1, or `""` for
/// version 2.
fn cgroup_directories(controller: &str) -> impl Iterator<Item = PathBuf> {
    let groups = text("/proc/self/cgroup").unwrap_or_default();
    let own = groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        controllers.split(',').any(|known| known == controller).then(|| path.to_owned())
    });
    let root = Path::new("/sys/fs/cgroup").join(controller);
    let below = own.unwrap_or_default();
    let deepest = root.join(below.trim_start_matches('/'));
    let count = deepest.components().count() - root.components().count() + 1;
    deepest.ancestors().take(count).map(Path::to_path_buf).collect::<Vec<_>>().into_iter()
}

/// The largest block that a device asks direct writes to be aligned to.
const PROBE_BYTES: usize = 4_096;
/// Version 1 writes "no limit" as the largest multiple of a page.
const CGROUP_V1_UNLIMITED: u64 = 1 << 62;
