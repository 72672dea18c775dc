//! Verdicts on the directory, its file system and its device. Pure functions of the facts.

use super::facts::{Device, Directory, Probe};
use super::host::size;
use super::{Finding, Level};

pub(super) fn findings(directory: &Directory) -> Vec<Finding> {
    vec![
        writable(directory),
        file_system(directory.file_system.as_deref()),
        mount_options(&directory.mount_options),
        direct(directory),
        space(directory),
        scheduler(directory.device.as_ref()),
        write_cache(directory.device.as_ref()),
    ]
}

fn writable(directory: &Directory) -> Finding {
    let looked = directory.looked_at.display();
    match &directory.writable {
        Probe::Works if directory.asked.is_dir() => Finding::new(
            "directory",
            Level::Ok,
            format!("{looked} can be written"),
            "the store can live here",
        ),
        Probe::Works | Probe::NotTried => Finding::new(
            "directory",
            Level::Ok,
            format!("{} doesn't exist yet; {looked} can be written", directory.asked.display()),
            "it is made at the first start",
        ),
        Probe::Refused(why) => Finding::new(
            "directory",
            Level::Impossible,
            format!("{looked} can't be written: {why}"),
            "a broker has nowhere to put its store",
        )
        .fix("choose another --data, or give this user the right to write there"),
    }
}

fn file_system(name: Option<&str>) -> Finding {
    let finding = |level, means: &str| Finding::new("file-system", level, name.unwrap_or("unknown"), means);
    match name {
        Some("ext4" | "xfs") => finding(Level::Ok, "direct writes and syncs behave as the broker expects"),
        Some("tmpfs" | "ramfs") => finding(Level::Hurts, "it is memory: nothing in it survives a reboot or a power cut, SYNC_FLUSH included")
            .fix("choose a --data on a disk (ext4 or xfs)"),
        Some("overlay" | "aufs") => finding(Level::Hurts, "it is a container's layered image: slow, and gone with the container")
            .fix("mount a volume of ext4 or xfs into the container and choose it with --data"),
        Some(remote) if remote.starts_with("nfs") || remote.starts_with("fuse") || REMOTE.contains(&remote) => {
            finding(Level::Hurts, "it isn't a local disk: a sync is a round trip, and locks and syncs may promise less")
                .fix("choose a --data on a local disk (ext4 or xfs)")
        }
        Some("btrfs" | "zfs" | "bcachefs") => finding(
            Level::Note,
            "it copies on write: rewriting the last block of the log, as direct writes do, costs more and fragments",
        )
        .fix("choose ext4 or xfs; on btrfs `chattr +C` on the empty directory helps")
        .undo("chattr -C on the empty directory"),
        _ => finding(Level::Note, "not one that the broker is tested on (ext4, xfs)"),
    }
}

const REMOTE: &[&str] = &["cifs", "smb3", "9p", "virtiofs", "ceph", "glusterfs", "afs"];

fn mount_options(options: &str) -> Finding {
    let unsafe_options = ["nobarrier", "barrier=0"];
    match options.split(',').find(|option| unsafe_options.contains(option)) {
        Some(option) => Finding::new(
            "mount-options",
            Level::Hurts,
            option,
            "the device's cache isn't flushed at a sync: acknowledged messages can be lost in a power cut",
        )
        .fix("remount with barrier (the default)")
        .undo(format!("remount with {option}")),
        None if options.split(',').any(|option| option == "ro") => Finding::new(
            "mount-options",
            Level::Impossible,
            "ro",
            "mounted read-only: by intention, or by the kernel after an error of the device (see its log)",
        )
        .fix("look for the device's errors first; then remount read-write"),
        None => {
            Finding::new("mount-options", Level::Ok, "write barriers are on", "a sync reaches the device")
        }
    }
}

fn direct(directory: &Directory) -> Finding {
    match &directory.direct {
        Probe::Works => {
            Finding::new("direct-io", Level::Ok, "a direct write worked", "backend=direct can be used")
        }
        Probe::NotTried => Finding::new("direct-io", Level::Note, "not tried", "the start will tell"),
        Probe::Refused(why) if matches!(directory.writable, Probe::Refused(_)) => Finding::new(
            "direct-io",
            Level::Note,
            format!("not to be seen: {why}"),
            "the directory can't be written",
        ),
        Probe::Refused(why) => Finding::new(
            "direct-io",
            Level::Hurts,
            format!("refused: {why}"),
            "backend=direct, the default, can't be used on this file system",
        )
        .fix("choose a --data on ext4 or xfs, or set --backend mapped")
        .undo("set --backend direct"),
    }
}

/// Two segments of the default size, the queues, and room to notice.
const SPACE_BYTES_WANTED: u64 = 4 << 30;
/// Less than the smallest useful store with small segments.
const SPACE_BYTES_MIN: u64 = 64 << 20;

fn space(directory: &Directory) -> Finding {
    let (Some(free), Some(total)) = (directory.bytes_free, directory.bytes_total) else {
        return Finding::new("space", Level::Note, "not shown", "can't be judged");
    };
    let found = format!("{} free of {}", size(free), size(total));
    let (level, means) = match free {
        0..SPACE_BYTES_MIN => (Level::Impossible, "not even a store of small segments fits"),
        SPACE_BYTES_MIN..SPACE_BYTES_WANTED => (
            Level::Hurts,
            "commit-log files of the default size (1 GiB, the next one made ahead) soon don't fit",
        ),
        _ => return Finding::new("space", Level::Ok, found, "room for commit-log files of the default size"),
    };
    Finding::new("space", level, found, means)
        .fix("free space, choose another --data, or set a smaller mappedFileSizeCommitLog (a new store only)")
}

fn scheduler(device: Option<&Device>) -> Finding {
    let name = "io-scheduler";
    let Some((device, scheduler)) = device.and_then(|device| Some((device, device.scheduler.as_deref()?)))
    else {
        return Finding::new(name, Level::Note, "no block device to be seen", "can't be judged");
    };
    let found = format!("{}: {scheduler}", device.name);
    match scheduler {
        "none" | "noop" => Finding::new(name, Level::Ok, found, "requests go to the device as they come"),
        "mq-deadline" | "deadline" => Finding::new(name, Level::Ok, found, "little in the way"),
        other => {
            let file = format!("/sys/block/{}/queue/scheduler", device.name);
            let better = if device.rotational { "mq-deadline" } else { "none" };
            Finding::new(
                name,
                Level::Hurts,
                found,
                "it holds small syncs back to be fair to others or to gather them",
            )
            .fix(format!("echo {better} > {file}"))
            .undo(format!("echo {other} > {file}"))
        }
    }
}

fn write_cache(device: Option<&Device>) -> Finding {
    let name = "write-cache";
    let Some(device) = device else {
        return Finding::new(name, Level::Note, "no block device to be seen", "can't be judged");
    };
    let turns = if device.rotational { ", says that it turns" } else { "" };
    let found = format!("{}: {}{turns}", device.name, device.write_cache.as_deref().unwrap_or("unknown"));
    match device.write_cache.as_deref() {
        _ if device.rotational => Finding::new(
            name,
            Level::Note,
            found,
            "virtual disks often say so; if it does, a sync waits for the platter: some 100 a second, shared by all who wait",
        )
        .fix("`loadgen compare` measures the syncs per second; for SYNC_FLUSH use a solid-state disk"),
        Some("write back") => Finding::new(
            name,
            Level::Ok,
            found,
            "every sync flushes the device's cache: this is what SYNC_FLUSH waits for; ASYNC_FLUSH doesn't",
        ),
        Some("write through") => Finding::new(
            name,
            Level::Ok,
            found,
            "the device says that a finished write is durable, so a sync costs little; true with a battery or capacitors",
        ),
        _ => Finding::new(name, Level::Note, found, "can't be judged"),
    }
}
