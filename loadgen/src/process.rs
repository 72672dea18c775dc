//! What /proc tells of a local process and of this machine: CPU time, memory, kernel, processor. Absent values are
//! absent, never zero.

use std::fs;
use std::path::Path;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// A local process, looked at from outside.
#[derive(Clone, Copy, Debug)]
pub struct Watched {
    /// Its process id.
    pub pid: u32,
}

impl Watched {
    /// CPU time of all its threads so far in nanoseconds: the scheduler's own sum where the kernel gives it (exact),
    /// else user and system ticks (10 ms steps). `None` when the process is gone or not ours to look at.
    pub fn cpu_ns(&self) -> Option<u64> {
        self.scheduled_ns().or_else(|| self.ticks_ns())
    }

    fn scheduled_ns(&self) -> Option<u64> {
        let mut sum = 0;
        for task in fs::read_dir(format!("/proc/{}/task", self.pid)).ok()? {
            let text = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
            sum += text.split_whitespace().next()?.parse::<u64>().ok()?;
        }
        (sum > 0).then_some(sum)
    }

    fn ticks_ns(&self) -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok()?;
        // The name in parentheses may hold anything: fields count from behind it. utime and stime are 14 and 15.
        let mut fields = text.rsplit_once(')')?.1.split_whitespace();
        let user: u64 = fields.nth(11)?.parse().ok()?;
        let system: u64 = fields.next()?.parse().ok()?;
        Some((user + system) * (1_000_000_000 / rustix::param::clock_ticks_per_second()))
    }

    /// Resident memory.
    pub fn memory(&self) -> Option<Memory> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        let kib = |name: &str| -> Option<u64> {
            let line = text.lines().find(|line| line.starts_with(name))?;
            line.split_whitespace().nth(1)?.parse().ok()
        };
        Some(Memory { resident_bytes: kib("VmRSS:")? * 1024, anonymous_bytes: kib("RssAnon:")? * 1024 })
    }
}

/// Memory of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Everything resident, mapped files included.
    pub resident_bytes: u64,
    /// Of that, what no file backs.
    pub anonymous_bytes: u64,
}

/// The machine and the run's place on it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Environment {
    /// Kernel name and release.
    pub kernel: String,
    /// The processor's name.
    pub processor: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// File system of the stores, when the stores are local.
    pub file_system: Option<String>,
    /// Cores that the generator is pinned to; empty: not pinned.
    pub generator_cores: Vec<usize>,
    /// Cores given to carried servers; empty: their own choice, or external servers.
    pub server_cores: Vec<usize>,
    /// Version of this program.
    pub version: String,
}

impl Environment {
    /// Looks at this machine. `directory` is where the stores are, when they are local.
    pub fn look(directory: Option<&Path>) -> Environment {
        let uname = rustix::system::uname();
        let text = |s: &std::ffi::CStr| s.to_string_lossy().into_owned();
        Environment {
            kernel: format!("{} {}", text(uname.sysname()), text(uname.release())),
            processor: processor().unwrap_or_else(|| text(uname.machine())),
            cores: usable_cores().len(),
            memory_bytes: memory_total().unwrap_or(0),
            file_system: directory.and_then(file_system),
            generator_cores: Vec::new(),
            server_cores: Vec::new(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// Cores that this process may run on.
pub fn usable_cores() -> Vec<usize> {
    match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect(),
        Err(_) => (0..std::thread::available_parallelism().map_or(1, usize::from)).collect(),
    }
}

/// Pins the calling thread to one core.
pub fn pin_thread(core: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).map_err(|e| Error::os(format!("cannot pin a thread to core {core}"), e))
}

fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn memory_total() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

/// The type of the file system that holds a directory: the longest mount point above it.
fn file_system(directory: &Path) -> Option<String> {
    let directory = fs::canonicalize(directory).ok()?;
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ');
            let (_, point, kind) = (fields.next()?, fields.next()?, fields.next()?);
            directory.starts_with(point).then_some((point.len(), kind))
        })
        .max_by_key(|(len, _)| *len)
        .map(|(_, kind)| kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_cpu_time_and_memory_are_seen() {
        let own = Watched { pid: std::process::id() };
        let before = own.cpu_ns().unwrap();
        let mut random = crate::plan::Random::new(1);
        while own.cpu_ns().unwrap() < before + 1_000_000 {
            random.next_u64();
        }
        assert!(own.ticks_ns().is_some());
        assert!(own.memory().unwrap().resident_bytes > 0);
    }

    #[test]
    fn a_process_that_is_gone_has_no_figures() {
        let gone = Watched { pid: u32::MAX };
        assert_eq!(gone.cpu_ns(), None);
        assert_eq!(gone.memory(), None);
    }

    #[test]
    fn the_environment_is_described() {
        let environment = Environment::look(Some(Path::new("/")));
        assert!(environment.cores >= 1);
        assert!(environment.kernel.starts_with("Linux"));
        assert!(environment.file_system.is_some());
    }
}
