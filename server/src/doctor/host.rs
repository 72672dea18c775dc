//! Verdicts on kernel, limits, processors and memory. Pure functions of the facts.

use super::facts::{HostFacts, Probe};
use super::{Finding, Level};

pub(super) fn findings(facts: &HostFacts) -> Vec<Finding> {
    vec![
        kernel(&facts.kernel_release),
        io_uring(facts),
        memlock(facts),
        open_files(facts),
        cores(facts),
        cpu_limit(facts),
        governor(&facts.governors),
        clock(facts.clock_source.as_deref()),
        memory(facts),
        swappiness(facts),
        huge_pages(facts.huge_pages.as_deref()),
        dirty_pages(facts),
    ]
}

/// A fault of io_uring, in kernels from `bad` to before `good`.
struct Fault {
    bad: Version,
    good: Version,
    what: &'static str,
}

/// Major, minor, patch.
type Version = (u32, u32, u32);

const FAULTS: &[Fault] = &[
    Fault { bad: (5, 8, 0), good: (5, 10, 186), what: "an idle ring can loop and take a whole core" },
    Fault { bad: (5, 16, 0), good: (6, 1, 0), what: "requests on a ring can hang" },
    Fault { bad: (6, 11, 0), good: (6, 12, 0), what: "requests on a ring can hang" },
];
/// The executor's rings need operations that came with this one.
const KERNEL_OLDEST: Version = (5, 8, 0);
/// Since this one a thread that waits on a ring counts as waiting for I/O.
const KERNEL_IOWAIT: Version = (6, 5, 0);

fn kernel(release: &str) -> Finding {
    let finding = |level, means: String| Finding::new("kernel", level, release, means);
    let Some(version) = version(release) else {
        return finding(
            Level::Note,
            "its version can't be read from its name, so known faults can't be looked up".to_owned(),
        );
    };
    if version < KERNEL_OLDEST {
        return finding(Level::Impossible, "too old: io_uring of kernel 5.8 or newer is needed".to_owned())
            .fix("run a kernel of a current long-term series (6.1, 6.6, 6.12 or newer)");
    }
    if let Some(fault) = FAULTS.iter().find(|fault| (fault.bad..fault.good).contains(&version)) {
        return finding(Level::Hurts, format!("its io_uring has a known fault: {}", fault.what))
            .fix("run a kernel of a current long-term series (6.1, 6.6, 6.12 or newer)")
            .undo("boot the previous kernel");
    }
    let idle = if version >= KERNEL_IOWAIT {
        "; tools show the cores of an idle broker as waiting for I/O, which is how it counts a waiting ring, not load"
    } else {
        ""
    };
    finding(Level::Ok, format!("no known fault of io_uring{idle}"))
}

/// The first three numbers of `6.1.0-18-amd64`; missing ones are 0.
pub(super) fn version(release: &str) -> Option<Version> {
    let numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut numbers = numbers.map(|digits| digits.parse::<u32>().unwrap_or(0));
    let major = numbers.next().filter(|major| *major > 0)?;
    Some((major, numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)))
}

fn io_uring(facts: &HostFacts) -> Finding {
    let finding = |level, found: &str, means: &str| Finding::new("io_uring", level, found, means);
    match (&facts.io_uring, facts.io_uring_disabled) {
        (Probe::Works, _) => finding(Level::Ok, "a ring was set up", "reads and writes go around the page cache without threads"),
        (_, Some(2)) => finding(
            Level::Impossible,
            "kernel.io_uring_disabled is 2",
            "nobody may use io_uring on this host, and the broker's cores run on it",
        )
        .fix("sysctl -w kernel.io_uring_disabled=0")
        .undo("sysctl -w kernel.io_uring_disabled=2"),
        (_, Some(1)) => finding(
            Level::Impossible,
            "kernel.io_uring_disabled is 1",
            "only privileged processes and one group may use io_uring, and this one isn't among them",
        )
        .fix("add the user to the group of kernel.io_uring_group, or: sysctl -w kernel.io_uring_disabled=0")
        .undo("sysctl -w kernel.io_uring_disabled=1"),
        (Probe::Refused(why), _) if facts.seccomp_filter => finding(
            Level::Impossible,
            &format!("setting up a ring was refused ({why}), and a seccomp filter is in force"),
            "container runtimes forbid io_uring by default, and the broker's cores run on it",
        )
        .fix("start the container with a seccomp profile that allows io_uring_setup, io_uring_enter and io_uring_register")
        .undo("start it with the runtime's own profile again"),
        (Probe::Refused(why), _) => finding(
            Level::Impossible,
            &format!("setting up a ring was refused ({why})"),
            "the broker's cores run on io_uring",
        )
        .fix("run on a kernel built with CONFIG_IO_URING, with enough locked memory (see memlock)"),
        (Probe::NotTried, Some(_)) => finding(Level::Ok, "kernel.io_uring_disabled is 0", "io_uring is allowed"),
        (Probe::NotTried, None) => {
            finding(Level::Note, "not tried", "this kernel has no switch to look at; the start will tell")
        }
    }
}

/// The executor refuses to start below this.
const MEMLOCK_BYTES_MIN: u64 = 512 << 10;

fn memlock(facts: &HostFacts) -> Finding {
    let soft = facts.memlock.soft;
    let found = format!("locked memory may be {}", soft.map_or("unlimited".to_owned(), size));
    if soft.is_none_or(|bytes| bytes >= MEMLOCK_BYTES_MIN) {
        return Finding::new("memlock", Level::Ok, found, "enough for the rings of every core");
    }
    Finding::new("memlock", Level::Impossible, found, "rings need at least 512 KiB of locked memory")
        .fix("ulimit -l unlimited (as root), LimitMEMLOCK=infinity in the service's unit, or --ulimit memlock=-1 of the container")
        .undo("take that line out again")
}

/// The default of `maxConnections`, and room for segments, queues and rings.
const OPEN_FILES_WANTED: u64 = 20_000;
const OPEN_FILES_MIN: u64 = 1_024;

fn open_files(facts: &HostFacts) -> Finding {
    let hard = facts.open_files.hard;
    let found =
        format!("at most {} open files", hard.map_or("any number of".to_owned(), |count| count.to_string()));
    let (level, means) = match hard {
        Some(count) if count < OPEN_FILES_MIN => {
            (Level::Hurts, "a few hundred clients and queues use them up; further connections are refused")
        }
        Some(count) if count < OPEN_FILES_WANTED => {
            (Level::Note, "fewer connections than maxConnections (16384) fit")
        }
        _ => {
            return Finding::new("nofile", Level::Ok, found, "room for maxConnections and the store's files");
        }
    };
    Finding::new("nofile", level, found, means)
        .fix("ulimit -n 65536, or LimitNOFILE=65536 in the service's unit")
        .undo("take that line out again")
}

fn cores(facts: &HostFacts) -> Finding {
    let found = format!("{} cores", facts.cores_allowed);
    match facts.cores_allowed {
        0 | 1 => Finding::new(
            "cores",
            Level::Hurts,
            "one core",
            "the shard shares it with the name server, logging and the kernel's own work: latency has long tails",
        )
        .fix("give the process two cores or more"),
        count => Finding::new(
            "cores",
            Level::Ok,
            found,
            format!("a new store gets a shard on {} of them, one is left to the other threads", count - 1),
        ),
    }
}

fn cpu_limit(facts: &HostFacts) -> Finding {
    let Some(millis) = facts.cgroup_cpu_millis else {
        return Finding::new("cpu-limit", Level::Ok, "none", "the control group doesn't stop the cores");
    };
    let found = format!("the control group allows {}.{:02} cores", millis / 1000, millis % 1000 / 10);
    if millis >= facts.cores_allowed as u64 * 1000 {
        return Finding::new("cpu-limit", Level::Ok, found, "as much as there are cores");
    }
    Finding::new(
        "cpu-limit",
        Level::Hurts,
        found,
        "when it is used up every core stands still for the rest of the period, up to 100 ms: that is the p99",
    )
    .fix("give whole cores (a CPU set) instead of a quota, or a quota of at least the number of cores")
    .undo("set the quota again")
}

fn governor(governors: &[String]) -> Finding {
    let found = governors.join(", ");
    match governors {
        [] => Finding::new(
            "governor",
            Level::Ok,
            "not shown",
            "usual on virtual machines: the host decides the frequency",
        ),
        [only] if only == "performance" => {
            Finding::new("governor", Level::Ok, found, "cores keep their full frequency")
        }
        _ => Finding::new(
            "governor",
            Level::Hurts,
            found.clone(),
            "a core that was idle starts slowly: tens of µs on each wake-up at low load",
        )
        .fix("cpupower frequency-set -g performance")
        .undo(format!("cpupower frequency-set -g {}", governors[0])),
    }
}

/// Read without a system call.
const CLOCKS_FAST: &[&str] = &["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"];

fn clock(source: Option<&str>) -> Finding {
    match source {
        Some(source) if CLOCKS_FAST.contains(&source) => {
            Finding::new("clock", Level::Ok, source, "reading the time costs no system call")
        }
        Some(source) => Finding::new(
            "clock",
            Level::Note,
            source,
            "each reading of the time is a system call or worse, and every message needs one",
        )
        .fix("if /sys/devices/system/clocksource/clocksource0/available_clocksource lists tsc, write it to current_clocksource beside it")
        .undo(format!("write {source} to it")),
        None => Finding::new("clock", Level::Note, "not shown", "can't be judged"),
    }
}

/// Resident memory of one shard at its defaults, and some room.
const MEMORY_BYTES_WANTED: u64 = 512 << 20;

fn memory(facts: &HostFacts) -> Finding {
    let usable = facts.cgroup_memory.into_iter().chain(facts.memory).min();
    let Some(bytes) = usable else {
        return Finding::new("memory", Level::Note, "not shown", "can't be judged");
    };
    let limited = facts.cgroup_memory == Some(bytes);
    let found = format!("{}{}", size(bytes), if limited { " (the control group's limit)" } else { "" });
    if bytes >= MEMORY_BYTES_WANTED {
        return Finding::new(
            "memory",
            Level::Ok,
            found,
            "enough for a shard; tailCacheBytes and readCacheBytes count per shard",
        );
    }
    Finding::new(
        "memory",
        Level::Hurts,
        found,
        "less than a shard takes at its defaults; the kernel may end the process",
    )
    .fix("raise the limit, or lower tailCacheBytes, readCacheBytes and maxConnections")
    .undo("set them back")
}

fn swappiness(facts: &HostFacts) -> Finding {
    let found = format!(
        "swappiness {}, swap {}",
        facts.swappiness.map_or("unknown".to_owned(), |value| value.to_string()),
        facts.swap.map_or("unknown".to_owned(), size)
    );
    match (facts.swap, facts.swappiness) {
        (Some(0), _) => Finding::new("swap", Level::Ok, found, "memory stays in memory"),
        (_, Some(value)) if value > 10 => Finding::new(
            "swap",
            Level::Note,
            found,
            "memory of the broker that rests may be written out, and the next message waits for it to come back",
        )
        .fix("sysctl -w vm.swappiness=1")
        .undo(format!("sysctl -w vm.swappiness={value}")),
        _ => Finding::new("swap", Level::Ok, found, "the kernel swaps only in need"),
    }
}

fn huge_pages(selected: Option<&str>) -> Finding {
    match selected {
        Some("always") => Finding::new(
            "huge-pages",
            Level::Note,
            "always",
            "the kernel gathers pages into large ones on its own: stalls of some ms, and more memory than asked for",
        )
        .fix("echo madvise > /sys/kernel/mm/transparent_hugepage/enabled")
        .undo("echo always > /sys/kernel/mm/transparent_hugepage/enabled"),
        Some(word) => Finding::new("huge-pages", Level::Ok, word, "large pages only where a program asks for them"),
        None => Finding::new("huge-pages", Level::Ok, "not built in", "no stalls from them"),
    }
}

/// More than this many dirty bytes take a usual disk many seconds.
const DIRTY_BYTES_MAX: u64 = 4 << 30;

fn dirty_pages(facts: &HostFacts) -> Finding {
    let (Some(memory), Some(ratio), Some(background)) =
        (facts.memory, facts.dirty_ratio, facts.dirty_background_ratio)
    else {
        return Finding::new("dirty-pages", Level::Note, "not shown", "can't be judged");
    };
    let bytes = memory / 100 * ratio;
    if ratio == 0 {
        return Finding::new("dirty-pages", Level::Ok, "bounded in bytes", "unwritten pages stay few");
    }
    let found = format!("up to {} of unwritten pages ({ratio} % of memory)", size(bytes));
    if bytes <= DIRTY_BYTES_MAX {
        return Finding::new("dirty-pages", Level::Ok, found, "unwritten pages stay few");
    }
    Finding::new(
        "dirty-pages",
        Level::Note,
        found,
        "other programs (and backend=mapped) can pile up so much that a flush of ours waits behind it for seconds",
    )
    .fix("sysctl -w vm.dirty_background_bytes=268435456 vm.dirty_bytes=1073741824")
    .undo(format!("sysctl -w vm.dirty_background_ratio={background} vm.dirty_ratio={ratio}"))
}

/// A size for people.
pub(super) fn size(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.iter().find(|(shift, _)| bytes >> shift > 0) {
        Some((shift, unit)) => {
            let tenths = ((bytes >> (shift - 10)) * 10) >> 10;
            format!("{}.{} {unit}", tenths / 10, tenths % 10)
        }
        None => format!("{bytes} B"),
    }
}
