//! Every refusal to start is one clear line that names the remedy, and a failure to whoever started it.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

use crate::process::{RINGMQ, Server, has_program, is_root, refusal, say, scratch, serve};

/// That `text` says all of this.
fn assert_says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{text:?} should say {word:?}");
    }
}

#[test]
fn a_file_in_place_of_the_data_directory() {
    let (_scratch, data) = scratch();
    fs::write(&data, "not a directory").unwrap();
    assert_says(&refusal(&mut serve(&data, &[])), &[data.to_str().unwrap(), "--data"]);
}

#[test]
fn a_data_directory_that_cannot_be_made() {
    let data = Path::new("/proc/ringmq-test/data");
    assert_says(&refusal(&mut serve(data, &[])), &["/proc/ringmq-test/data", "--data"]);
}

#[test]
fn a_data_directory_that_this_user_may_not_write() {
    let what = "running as another user";
    if !is_root(what) || !has_program("setpriv") {
        return;
    }
    let (scratch, data) = scratch();
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = scratch.path().join("ringmq");
    fs::copy(RINGMQ, &program).unwrap();
    fs::create_dir(&data).unwrap();
    let mut typed = serve(&data, &[]);
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(program)
        .args(typed.get_args());
    assert_says(&refusal(&mut command), &[data.to_str().unwrap(), "writable", "--data"]);
    // A store that exists already, but isn't this user's.
    Server::of(crate::process::Process::spawn(&mut typed)).process.stop();
    assert_says(
        &refusal(&mut command),
        &[data.to_str().unwrap(), "ermission denied", "right to read and write"],
    );
}

#[test]
fn a_directory_that_is_something_else() {
    let (_scratch, data) = scratch();
    fs::create_dir(&data).unwrap();
    fs::write(data.join("thesis.tex"), "").unwrap();
    assert_says(&refusal(&mut serve(&data, &[])), &["isn't a store", "thesis.tex", "--data"]);
    assert_eq!(fs::read_dir(&data).unwrap().count(), 1, "nothing was put there");
}

#[test]
fn a_store_of_another_number_of_shards() {
    let (_scratch, data) = scratch();
    Server::start(&data).process.stop();
    let text = refusal(&mut serve(&data, &["--shards", "2"]));
    assert_says(&text, &["store of one shard", "shards=2", "shards=1"]);
    let two = data.with_file_name("two");
    Server::start_with(&two, &["--shards", "2"]).process.stop();
    assert_says(&refusal(&mut serve(&two, &["--shards", "1"])), &["has 2 shards", "shards=2"]);
    fs::remove_file(two.join("ringmq.json")).unwrap();
    let text = refusal(&mut serve(&two, &["--shards", "2"]));
    assert_says(&text, &["2 shard-<i> directories", "ringmq.json"]);
}

#[test]
fn settings_that_nobody_knows_or_that_contradict_each_other() {
    let (_scratch, data) = scratch();
    let cases: [(&[&str], &[&str]); 7] = [
        (&["--set", "flushDiskTyp=SYNC_FLUSH"], &["flushDiskTyp", "flushDiskType"]),
        (&["--set", "brokerRole=SYNC_MASTER"], &["brokerRole", "ASYNC_MASTER"]),
        (
            &["--set", "mappedFileSizeCommitLog=1MiB"],
            &["maxMessageSize", "mappedFileSizeCommitLog", "larger"],
        ),
        (&["--set", "maxConnections=many"], &["maxConnections", "many"]),
        (&["--backend", "tape"], &["backend", "direct, mapped"]),
        (&["--cores", "0", "--shards", "2"], &["2 cores", "cores"]),
        (&["--set", "brokerPermission=3"], &["brokerPermission", "6 (both)"]),
    ];
    for (arguments, words) in cases {
        assert_says(&refusal(&mut serve(&data, arguments)), words);
        assert!(!data.exists(), "nothing is touched before the settings are right");
    }
}

#[test]
fn an_address_that_is_not_ours_and_a_core_that_is_not_there() {
    let (_scratch, data) = scratch();
    let text = refusal(&mut serve(&data, &["--ip", "192.0.2.1"]));
    assert_says(&text, &["192.0.2.1 is no address of this host", "--ip"]);
    let text = refusal(&mut serve(&data, &["--cores", "1023"]));
    assert_says(&text, &["core 1023 isn't one that this process may use"]);
}

#[test]
fn too_little_locked_memory() {
    if !has_program("prlimit") {
        return;
    }
    let (_scratch, data) = scratch();
    let typed = serve(&data, &[]);
    let mut command = Command::new("prlimit");
    command.arg("--memlock=65536:65536");
    // Root may lock what it likes; without the capability the limit counts.
    if rustix::process::geteuid().is_root() {
        if !has_program("setpriv") {
            return;
        }
        command.args(["setpriv", "--inh-caps", "-ipc_lock", "--bounding-set", "-ipc_lock"]);
    }
    command.arg(RINGMQ).args(typed.get_args());
    assert_says(&refusal(&mut command), &["locked", "ulimit -l", "LimitMEMLOCK"]);
}

#[test]
fn io_uring_forbidden() {
    if !has_program("python3") {
        return;
    }
    let (_scratch, data) = scratch();
    let typed = serve(&data, &[]);
    let mut command = Command::new("python3");
    command.args(["-c", FORBID_IO_URING]).arg(RINGMQ).args(typed.get_args());
    let text = refusal(&mut command);
    assert_says(&text, &["io_uring cannot be used here", "io_uring_disabled", "seccomp", "ringmq doctor"]);
}

/// Installs a seccomp filter that answers EPERM to io_uring_setup, as container runtimes do, and becomes its arguments.
const FORBID_IO_URING: &str = r#"
import ctypes, os, struct, sys
IO_URING_SETUP, EPERM = 425, 1
LOAD_NUMBER, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
program = b"".join(struct.pack("HBBI", *step) for step in [
    (LOAD_NUMBER, 0, 0, 0),
    (JUMP_IF_EQUAL, 0, 1, IO_URING_SETUP),
    (RETURN, 0, 0, ERRNO | EPERM),
    (RETURN, 0, 0, ALLOW),
])
class Filter(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("steps", ctypes.c_char_p)]
steps = ctypes.create_string_buffer(program, len(program))
described = Filter(len(program) // 8, ctypes.cast(steps, ctypes.c_char_p))
prctl = ctypes.CDLL(None, use_errno=True).prctl
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, FILTER = 38, 22, 2
assert prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs"
assert prctl(PR_SET_SECCOMP, FILTER, ctypes.byref(described), 0, 0) == 0, os.strerror(ctypes.get_errno())
os.execv(sys.argv[1], sys.argv[1:])
"#;

#[test]
fn a_disk_that_is_nearly_full() {
    if !is_root("mounting a small file system") || !has_program("unshare") || !has_program("mount") {
        return;
    }
    let (scratch, _) = scratch();
    let mount = scratch.path().join("small");
    fs::create_dir(&mount).unwrap();
    let data = mount.join("data");
    // In a mount name space of its own, which goes with the process.
    let script = "mount -t tmpfs -o size=12m tmpfs \"$1\" || exit 77; shift; exec \"$@\"";
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", script, "sh"])
        .arg(&mount)
        .arg(RINGMQ)
        .args(serve(&data, &[]).get_args());
    let mut probe = Command::new("unshare");
    let status = probe.args(["--mount", "sh", "-c", script, "sh"]).arg(&mount).arg("true").status().unwrap();
    if !status.success() {
        say("SKIPPED: file systems can't be mounted here");
        return;
    }
    let text = refusal(&mut command);
    // Two files of 8 MiB.
    assert_says(&text, &["nearly full", "16777216", "available", "mappedFileSizeCommitLog", "--data"]);
}

#[test]
fn a_name_server_whose_port_is_taken() {
    let (_scratch, data) = scratch();
    let server = Server::start(&data);
    let port = server.name_server.unwrap().port().to_string();
    let text = refusal(Command::new(RINGMQ).args(["namesrv", "--port", &port]));
    assert_says(&text, &["name server", &format!("port {port} of 127.0.0.1 is taken"), "--port"]);
}
