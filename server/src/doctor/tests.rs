//! Every verdict, on facts of hosts we don't have.

use std::path::{Path, PathBuf};

use super::facts::{bracketed, mount_of, port_range};
use super::host::{size, version};
use super::*;

/// A host on which everything is as it should be.
fn good() -> HostFacts {
    HostFacts {
        kernel_release: "6.12.8-generic".to_owned(),
        io_uring: Probe::Works,
        io_uring_disabled: Some(0),
        seccomp_filter: false,
        memlock: Limit { soft: Some(8 << 20), hard: Some(8 << 20) },
        open_files: Limit { soft: Some(1_024), hard: Some(1 << 20) },
        cores_allowed: 4,
        cgroup_cpu_millis: None,
        cgroup_memory: None,
        memory: Some(16 << 30),
        swap: Some(0),
        governors: vec!["performance".to_owned()],
        huge_pages: Some("madvise".to_owned()),
        swappiness: Some(60),
        dirty_ratio: Some(20),
        dirty_background_ratio: Some(10),
        clock_source: Some("tsc".to_owned()),
        somaxconn: Some(4_096),
        syn_backlog: Some(4_096),
        local_ports: Some((32_768, 60_999)),
        port: 10_911,
        port_free: Probe::Works,
        directory: Directory {
            asked: PathBuf::from("/"),
            looked_at: PathBuf::from("/"),
            writable: Probe::Works,
            direct: Probe::Works,
            file_system: Some("ext4".to_owned()),
            mount_options: "rw,relatime,rw".to_owned(),
            bytes_free: Some(100 << 30),
            bytes_total: Some(200 << 30),
            device: Some(Device {
                name: "nvme0n1".to_owned(),
                scheduler: Some("none".to_owned()),
                write_cache: Some("write back".to_owned()),
                rotational: false,
            }),
        },
    }
}

fn refused(why: &str) -> Probe {
    Probe::Refused(why.to_owned())
}

fn words(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn a_good_host_has_nothing_but_ok() {
    for finding in diagnose(&good()) {
        assert_eq!(finding.level, Level::Ok, "{finding:?}");
        assert!(finding.fix.is_none() && finding.undo.is_none(), "{finding:?}");
    }
}

/// Spoils the good host in one place: exactly the named finding changes, to this level, with a fix when it should have.
fn check(name: &str, level: Level, spoil: impl FnOnce(&mut HostFacts)) -> Finding {
    let mut facts = good();
    spoil(&mut facts);
    let findings = diagnose(&facts);
    let changed: Vec<&Finding> = findings
        .iter()
        .zip(diagnose(&good()))
        .filter(|(now, then)| *now != then)
        .map(|(now, _)| now)
        .collect();
    assert_eq!(changed.len(), 1, "{changed:?}");
    assert_eq!((changed[0].name, changed[0].level), (name, level), "{:?}", changed[0]);
    if changed[0].level >= Level::Hurts {
        assert!(changed[0].fix.is_some(), "a fault without a remedy: {:?}", changed[0]);
    }
    assert!(changed[0].undo.is_none() || changed[0].fix.is_some(), "{:?}", changed[0]);
    changed[0].clone()
}

#[test]
fn kernels_with_known_faults_are_named() {
    let cases = [
        ("4.19.0-26", Level::Impossible),
        ("5.7.19", Level::Impossible),
        ("5.8.0", Level::Hurts),
        ("5.10.185", Level::Hurts),
        ("5.10.186", Level::Ok),
        ("5.15.0-91-generic", Level::Ok),
        ("5.16.0", Level::Hurts),
        ("6.0.19", Level::Hurts),
        ("6.1.0-18-amd64", Level::Ok),
        ("6.11.3", Level::Hurts),
        ("6.18.44", Level::Ok),
        ("weird", Level::Note),
    ];
    for (release, level) in cases {
        check("kernel", level, |facts| facts.kernel_release = release.to_owned());
    }
    let idle =
        |release: &str| check("kernel", Level::Ok, |facts| facts.kernel_release = release.to_owned()).means;
    assert!(!idle("6.4.9").contains("idle") && idle("6.5.0").contains("idle"));
}

#[test]
fn a_forbidden_ring_is_explained_by_what_forbids_it() {
    let at = |probe: Probe, disabled, seccomp| {
        move |facts: &mut HostFacts| {
            (facts.io_uring, facts.io_uring_disabled, facts.seccomp_filter) = (probe, disabled, seccomp);
        }
    };
    let found = check("io_uring", Level::Impossible, at(refused("EPERM"), Some(2), false));
    assert_eq!(found.undo.as_deref(), Some("sysctl -w kernel.io_uring_disabled=2"));
    let found = check("io_uring", Level::Impossible, at(refused("EPERM"), Some(1), false));
    assert!(found.fix.unwrap().contains("io_uring_group"));
    let found = check("io_uring", Level::Impossible, at(refused("EPERM"), Some(0), true));
    assert!(found.fix.unwrap().contains("seccomp"));
    let found = check("io_uring", Level::Impossible, at(refused("ENOSYS"), None, false));
    assert!(found.found.contains("ENOSYS"));
    check("io_uring", Level::Note, at(Probe::NotTried, None, false));
    check("io_uring", Level::Ok, at(Probe::NotTried, Some(0), false));
}

#[test]
fn limits_are_judged() {
    let memlock = |soft| move |facts: &mut HostFacts| facts.memlock.soft = soft;
    check("memlock", Level::Impossible, memlock(Some((512 << 10) - 1)));
    check("memlock", Level::Ok, memlock(Some(512 << 10)));
    check("memlock", Level::Ok, memlock(None));
    let files = |hard| move |facts: &mut HostFacts| facts.open_files.hard = hard;
    check("nofile", Level::Hurts, files(Some(1_023)));
    check("nofile", Level::Note, files(Some(4_096)));
    check("nofile", Level::Ok, files(None));
}

#[test]
fn processors_are_judged() {
    check("cores", Level::Hurts, |facts| facts.cores_allowed = 1);
    let limit = |millis| move |facts: &mut HostFacts| facts.cgroup_cpu_millis = Some(millis);
    let found = check("cpu-limit", Level::Hurts, limit(1_500));
    assert!(found.found.contains("1.50 cores"), "{}", found.found);
    check("cpu-limit", Level::Ok, limit(4_000));
    let found = check("governor", Level::Hurts, |facts| facts.governors = vec!["powersave".to_owned()]);
    assert_eq!(found.undo.as_deref(), Some("cpupower frequency-set -g powersave"));
    check("governor", Level::Ok, |facts| facts.governors.clear());
    check("clock", Level::Note, |facts| facts.clock_source = words("hpet"));
    check("clock", Level::Ok, |facts| facts.clock_source = words("kvm-clock"));
    check("clock", Level::Note, |facts| facts.clock_source = None);
}

#[test]
fn memory_is_judged() {
    check("memory", Level::Hurts, |facts| facts.cgroup_memory = Some(256 << 20));
    check("memory", Level::Ok, |facts| facts.cgroup_memory = Some(1 << 30));
    let swap = |value| {
        move |facts: &mut HostFacts| {
            facts.swap = Some(1 << 30);
            facts.swappiness = Some(value);
        }
    };
    assert_eq!(check("swap", Level::Note, swap(60)).undo.as_deref(), Some("sysctl -w vm.swappiness=60"));
    check("swap", Level::Ok, swap(10));
    check("huge-pages", Level::Note, |facts| facts.huge_pages = words("always"));
    check("huge-pages", Level::Ok, |facts| facts.huge_pages = None);
    let found = check("dirty-pages", Level::Note, |facts| facts.dirty_ratio = Some(40));
    assert!(found.undo.unwrap().contains("vm.dirty_ratio=40"));
    check("dirty-pages", Level::Ok, |facts| facts.dirty_ratio = Some(0));
    check("dirty-pages", Level::Note, |facts| facts.dirty_background_ratio = None);
}

#[test]
fn directories_are_judged() {
    check("file-system", Level::Hurts, |facts| facts.directory.file_system = words("tmpfs"));
    check("file-system", Level::Hurts, |facts| facts.directory.file_system = words("overlay"));
    check("file-system", Level::Hurts, |facts| facts.directory.file_system = words("nfs4"));
    check("file-system", Level::Hurts, |facts| facts.directory.file_system = words("fuse.sshfs"));
    check("file-system", Level::Note, |facts| facts.directory.file_system = words("btrfs"));
    check("file-system", Level::Note, |facts| facts.directory.file_system = None);
    check("file-system", Level::Ok, |facts| facts.directory.file_system = words("xfs"));
    check("mount-options", Level::Hurts, |facts| facts.directory.mount_options = "rw,nobarrier".to_owned());
    check("mount-options", Level::Impossible, |facts| {
        facts.directory.mount_options = "ro,relatime,rw".to_owned()
    });
    check("direct-io", Level::Hurts, |facts| facts.directory.direct = refused("EINVAL"));
    let space = |free| move |facts: &mut HostFacts| facts.directory.bytes_free = Some(free);
    check("space", Level::Impossible, space((64 << 20) - 1));
    check("space", Level::Hurts, space(64 << 20));
    check("space", Level::Ok, space(4 << 30));
    let absent = check("directory", Level::Ok, |facts| facts.directory.asked = PathBuf::from("/none/here"));
    assert!(absent.means.contains("first start"));
}

#[test]
fn an_unwritable_directory_makes_running_impossible_once() {
    let mut facts = good();
    facts.directory.writable = refused("EACCES");
    facts.directory.direct = refused("EACCES");
    let findings = diagnose(&facts);
    let bad: Vec<_> = findings.iter().filter(|f| f.level > Level::Ok).map(|f| (f.name, f.level)).collect();
    assert_eq!(bad, [("directory", Level::Impossible), ("direct-io", Level::Note)]);
    assert!(is_impossible(&findings));
}

#[test]
fn devices_are_judged() {
    let device = |change: fn(&mut Device)| {
        move |facts: &mut HostFacts| change(facts.directory.device.as_mut().unwrap())
    };
    let found = check("io-scheduler", Level::Hurts, device(|device| device.scheduler = words("bfq")));
    assert_eq!(found.fix.as_deref(), Some("echo none > /sys/block/nvme0n1/queue/scheduler"));
    assert_eq!(found.undo.as_deref(), Some("echo bfq > /sys/block/nvme0n1/queue/scheduler"));
    check("io-scheduler", Level::Ok, device(|device| device.scheduler = words("mq-deadline")));
    check("write-cache", Level::Note, device(|device| device.rotational = true));
    check("write-cache", Level::Ok, device(|device| device.write_cache = words("write through")));
    check("write-cache", Level::Note, device(|device| device.write_cache = None));
}

#[test]
fn sockets_are_judged() {
    let found = check("somaxconn", Level::Note, |facts| facts.somaxconn = Some(128));
    assert_eq!(found.undo.as_deref(), Some("sysctl -w net.core.somaxconn=128"));
    check("syn-backlog", Level::Note, |facts| facts.syn_backlog = Some(512));
    check("port", Level::Note, |facts| facts.port_free = refused("in use"));
    check("local-ports", Level::Note, |facts| facts.local_ports = Some((1_024, 65_535)));
}

#[test]
fn only_what_makes_running_impossible_fails() {
    let mut facts = good();
    facts.cores_allowed = 1;
    let findings = diagnose(&facts);
    assert!(!is_impossible(&findings));
    assert!(to_text(&findings).contains("with the costs shown"));
    facts.io_uring = refused("EPERM");
    let findings = diagnose(&facts);
    assert!(is_impossible(&findings));
    let json: serde_json::Value = serde_json::from_str(&to_json(&findings)).unwrap();
    assert_eq!(json["possible"], false);
    assert_eq!(json["findings"].as_array().unwrap().len(), findings.len());
    assert!(
        json["findings"]
            .as_array()
            .unwrap()
            .iter()
            .any(|f| f["level"] == "impossible" && f["fix"].is_string())
    );
    let text = to_text(&findings);
    assert!(text.find("IMPOSSIBLE").unwrap() > text.find("HURTS").unwrap(), "the worst comes last");
}

#[test]
fn this_host_is_looked_at_without_leaving_a_trace() {
    let dir = tempfile::tempdir().unwrap();
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = held.local_addr().unwrap().port();
    let asked = dir.path().join("not/yet");
    let facts = HostFacts::gather(&asked, port, || Ok(()));
    assert!(version(&facts.kernel_release).is_some());
    assert!(facts.cores_allowed >= 1 && facts.memory.is_some() && facts.io_uring == Probe::Works);
    assert!(matches!(facts.port_free, Probe::Refused(_)));
    assert_eq!(facts.directory.looked_at, dir.path().canonicalize().unwrap());
    assert_eq!(facts.directory.writable, Probe::Works);
    assert!(facts.directory.bytes_free.unwrap() <= facts.directory.bytes_total.unwrap());
    assert!(facts.directory.file_system.is_some());
    assert!(!asked.exists() && std::fs::read_dir(dir.path()).unwrap().next().is_none());
    assert!(to_text(&diagnose(&facts)).contains("kernel: "));
}

#[test]
fn kernel_texts_are_read() {
    assert_eq!(bracketed("always [madvise] never").as_deref(), Some("madvise"));
    assert_eq!(bracketed("none"), None);
    assert_eq!(port_range("32768\t60999"), Some((32_768, 60_999)));
    assert_eq!(version("6.1"), Some((6, 1, 0)));
    assert_eq!(size(1_536), "1.5 KiB");
    assert_eq!(size(999), "999 B");
    let table = "22 27 0:21 / / rw,relatime - ext4 /dev/a rw\n\
                 23 27 0:22 / /mnt/my\\040disk rw,nobarrier shared:1 - xfs /dev/b rw,noquota\n\
                 24 27 0:23 / /mnt rw - tmpfs none rw\n";
    let mount = |path: &str| mount_of(table, Path::new(path)).unwrap();
    assert_eq!(mount("/mnt/my disk/x"), ("xfs".to_owned(), "rw,nobarrier,rw,noquota".to_owned()));
    assert_eq!(mount("/mnt/other").0, "tmpfs");
    assert_eq!(mount("/mntx").0, "ext4");
}
