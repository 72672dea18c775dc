//! The files under `tuning/`: every profile is accepted, every host script checks, applies and takes back.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::*;

fn tuning() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tuning")
}

fn files(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|found| found == extension)).collect();
    files.sort();
    files
}

#[test]
fn every_profile_is_accepted_says_why_and_changes_something() {
    let profiles = files(&tuning(), "toml");
    assert!(profiles.len() >= 4, "{profiles:?}");
    for path in profiles {
        let loaded = load(&serve(&["-c", path.to_str().unwrap()])).unwrap();
        assert_eq!(loaded.notes, [], "{path:?}");
        assert_ne!(loaded.settings, Settings::default(), "{path:?}");
        let text = std::fs::read_to_string(&path).unwrap();
        // A block of settings stands under the comment that gives its reason.
        for block in text.split("\n\n") {
            assert!(block.starts_with('#'), "{path:?}: without a reason: {block}");
        }
        let readme = std::fs::read_to_string(tuning().join("README.md")).unwrap();
        assert!(
            readme.contains(path.file_name().unwrap().to_str().unwrap()),
            "{path:?} is not in the README"
        );
    }
}

#[test]
fn the_profiles_promise_what_their_names_say() {
    let profile = |name: &str| load(&serve(&["-c", tuning().join(name).to_str().unwrap()])).unwrap().settings;
    let durable = profile("durable-low-latency.toml");
    assert_eq!((durable.flush_disk_type, durable.backend), (FlushDiskType::SyncFlush, Backend::Direct));
    assert_eq!(profile("throughput.toml").flush_disk_type, FlushDiskType::AsyncFlush);
    let classic = profile("rocketmq-classic.toml");
    assert_eq!((classic.backend, classic.shards), (Backend::Mapped, Shards::Count(1)));
    assert!(profile("laptop-ci.toml").mapped_file_size_commit_log.0 <= 64 << 20);
}

/// A host in a directory: the files that the scripts read and write.
struct Host {
    root: tempfile::TempDir,
}

impl Host {
    fn new() -> Host {
        let host = Host { root: tempfile::tempdir().unwrap() };
        for (file, value) in BEFORE {
            host.write(file, value);
        }
        host.write("sys/block/nvme0n1/queue/rotational", "0");
        host.write("sys/block/sdb/queue/rotational", "1");
        host.write("sys/block/sdb/queue/scheduler", "none [bfq]");
        host
    }

    fn write(&self, file: &str, value: &str) {
        let path = self.root.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("{value}\n")).unwrap();
    }

    fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.root.path().join(file)).unwrap().trim().to_owned()
    }

    /// (exit status, output).
    fn run(&self, script: &str, command: &str) -> (i32, String) {
        let script = tuning().join("host").join(script);
        let output = Command::new("sh")
            .arg(script)
            .arg(command)
            .env("RINGMQ_TUNING_ROOT", self.root.path())
            .env_remove("RINGMQ_DEVICES")
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    }
}

/// Files as they are before the tuning.
const BEFORE: &[(&str, &str)] = &[
    ("proc/sys/vm/swappiness", "60"),
    ("proc/sys/vm/dirty_bytes", "0"),
    ("proc/sys/vm/dirty_ratio", "20"),
    ("proc/sys/vm/dirty_background_bytes", "0"),
    ("proc/sys/vm/dirty_background_ratio", "10"),
    ("proc/sys/net/core/somaxconn", "128"),
    ("proc/sys/net/ipv4/tcp_max_syn_backlog", "512"),
    ("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never"),
    ("sys/kernel/mm/transparent_hugepage/defrag", "always defer [defer+madvise] madvise never"),
    ("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "powersave"),
    ("sys/block/nvme0n1/queue/scheduler", "none [mq-deadline] kyber"),
];

/// Script, a file it sets, what it sets it to, and (file, value) that its undo writes.
const SCRIPTS: &[(&str, &str, &str, (&str, &str))] = &[
    ("sysctl.sh", "proc/sys/vm/swappiness", "1", ("proc/sys/vm/swappiness", "60")),
    ("sysctl.sh", "proc/sys/vm/dirty_bytes", "1073741824", ("proc/sys/vm/dirty_ratio", "20")),
    (
        "huge-pages.sh",
        "sys/kernel/mm/transparent_hugepage/enabled",
        "madvise",
        ("sys/kernel/mm/transparent_hugepage/enabled", "always"),
    ),
    (
        "governor.sh",
        "sys/devices/system/cpu/cpufreq/policy0/scaling_governor",
        "performance",
        ("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "powersave"),
    ),
    (
        "io-scheduler.sh",
        "sys/block/nvme0n1/queue/scheduler",
        "none",
        ("sys/block/nvme0n1/queue/scheduler", "mq-deadline"),
    ),
];

#[test]
fn host_scripts_apply_and_take_back_exactly_what_they_changed() {
    for (script, file, wanted, (back_file, back)) in SCRIPTS {
        let host = Host::new();
        let (status, output) = host.run(script, "check");
        assert_eq!(status, 1, "{script}: {output}");
        assert!(output.contains("differs"), "{script}: {output}");
        assert_eq!(host.run(script, "apply").0, 0, "{script}");
        assert_eq!(host.read(file), *wanted, "{script}");
        assert_eq!(host.run(script, "check").0, 0, "{script}: applied");
        // Somebody changes it meanwhile and applies again: undo still goes back to before the first time.
        host.write(file, "0");
        host.write(back_file, "7");
        assert_eq!(host.run(script, "apply").0, 0, "{script}");
        assert_eq!(host.run(script, "undo").0, 0, "{script}");
        assert_eq!(host.read(back_file), *back, "{script}");
        let (status, output) = host.run(script, "undo");
        assert_eq!(status, 0);
        assert!(output.contains("nothing to undo"), "{script}: {output}");
    }
}

#[test]
fn disks_that_turn_and_settings_that_are_absent_are_left_alone() {
    let host = Host::new();
    assert_eq!(host.run("io-scheduler.sh", "apply").0, 0);
    assert_eq!(host.read("sys/block/sdb/queue/scheduler"), "none [bfq]");
    std::fs::remove_file(host.root.path().join("proc/sys/net/core/somaxconn")).unwrap();
    assert!(host.run("sysctl.sh", "check").1.contains("absent   /proc/sys/net/core/somaxconn"));
    assert_eq!(host.run("sysctl.sh", "apply").0, 0);
    assert!(!host.root.path().join("proc/sys/net/core/somaxconn").exists());
}

#[test]
fn limits_are_a_file_of_our_own_and_nobody_elses_is_touched() {
    let host = Host::new();
    let file = "etc/security/limits.d/90-ringmq.conf";
    assert_eq!(host.run("limits.sh", "check").0, 1);
    assert_eq!(host.run("limits.sh", "apply").0, 0);
    assert!(host.read(file).contains("* hard memlock unlimited"));
    assert_eq!(host.run("limits.sh", "check").0, 0);
    assert_eq!(host.run("limits.sh", "undo").0, 0);
    assert!(!host.root.path().join(file).exists());
    host.write(file, "somebody else's");
    assert!(host.run("limits.sh", "undo").1.contains("nothing to undo"));
    let script = tuning().join("host/limits.sh");
    let refused = Command::new("sh")
        .arg(script)
        .arg("apply")
        .env("RINGMQ_TUNING_ROOT", host.root.path())
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(host.read(file), "somebody else's");
}

#[test]
fn checks_run_on_this_host_and_change_nothing() {
    let scripts = files(&tuning().join("host"), "sh");
    assert_eq!(scripts.len(), 6);
    for script in scripts.iter().filter(|path| !path.ends_with("lib.sh")) {
        let check = Command::new("sh").arg(script).arg("check").output().unwrap();
        assert!(matches!(check.status.code(), Some(0 | 1)), "{script:?}: {check:?}");
        assert!(check.stderr.is_empty(), "{script:?}: {check:?}");
        let usage = Command::new("sh").arg(script).output().unwrap();
        assert_eq!(usage.status.code(), Some(2), "{script:?}");
        assert!(String::from_utf8_lossy(&usage.stderr).contains("check|apply|undo"), "{script:?}");
    }
}
