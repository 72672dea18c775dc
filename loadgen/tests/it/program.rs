//! The program from outside: exit status, messages, files, and the server that it carries.

use std::path::Path;
use std::process::{Command, Output};

use loadgen::report::Report;

use crate::scripted::{Script, Scripted};

fn loadgen(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_loadgen")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn help_says_how_to_begin() {
    let output = loadgen(&["--help"]);
    assert!(output.status.success());
    let help = text(&output.stdout);
    for expected in ["compare --quick", "verify --kill", "run", "report"] {
        assert!(help.contains(expected), "`{expected}` is not in\n{help}");
    }
    assert!(!help.contains("__server"));
}

#[test]
fn what_cannot_be_done_is_said_in_one_line_with_status_2() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let cases: [(&[&str], &str); 7] = [
        (&["run", "--namesrv", &free], "cannot connect to 127.0.0.1:"),
        (&["run", "--namesrv", "nowhere"], "--namesrv nowhere"),
        (&["run", "--namesrv", &free, "--depth", "0"], "--depth must be between 1 and"),
        (&["run", "--namesrv", &free, "--cores", "1000"], "this process may use"),
        (&["compare", "--namesrv", "a=127.0.0.1:1"], "repeat --namesrv"),
        (&["verify", "--namesrv", &free, "--body", "20"], "at least 48 bytes"),
        (&["report", "missing.json"], "cannot read missing.json"),
    ];
    for (arguments, expected) in cases {
        let output = loadgen(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.starts_with("loadgen: ") && said.contains(expected), "{arguments:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn too_little_room_is_refused_before_anything_is_started() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let output = loadgen(&["compare", "--data", data.to_str().unwrap(), "--bytes-per-round", "900TiB"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stdout).contains("Needs up to 900 TiB"), "{}", text(&output.stdout));
    let said = text(&output.stderr);
    assert!(said.contains("not enough room") && said.contains("--bytes-per-round"), "{said}");
    assert_eq!(names(&data), Vec::<String>::new());
}

#[test]
fn exit_status_tells_whether_every_request_succeeded() {
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("run.json");
    for (script, code) in
        [(Script::default(), 0), (Script { refuse: Some((50, 14)), ..Script::default() }, 1)]
    {
        let broker = Scripted::start(script);
        let address = broker.address.to_string();
        let output = loadgen(&[
            "run",
            "--namesrv",
            &address,
            "--duration",
            "300ms",
            "--warmup",
            "50ms",
            "--json",
            json.to_str().unwrap(),
        ]);
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
        let cell = &Report::read(&json).unwrap().cells[0];
        assert!(cell.messages_per_second.median > 0.0);
        assert_eq!(cell.failures.first().map(|f| f.code), (code == 1).then_some(14));
        assert_eq!(cell.cpu_us_per_message, None, "nobody said which process it is");
    }
}

#[test]
fn servers_side_by_side_leave_a_report() {
    let directory = tempfile::tempdir().unwrap();
    let html = directory.path().join("r.html");
    let slow = Script { delay: std::time::Duration::from_millis(20), ..Script::default() };
    let (slow, fast) = (Scripted::start(slow), Scripted::start(Script::default()));
    let named = |name: &str, broker: &Scripted| format!("{name}={}", broker.address);
    let output = loadgen(&[
        "compare",
        "--quick",
        "--duration",
        "200ms",
        "--warmup",
        "20ms",
        "--namesrv",
        &named("slow", &slow),
        "--namesrv",
        &named("fast", &fast),
        "--report",
        html.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report = Report::read(&html.with_extension("json")).unwrap();
    assert_eq!(report.cells.len(), 6);
    assert!(report.cells.iter().all(|cell| cell.rounds.len() == 3));
    assert!(report.verdict.headline.starts_with("Against slow:"), "{}", report.verdict.headline);
    assert!(html.exists() && html.with_extension("hlog").exists());
}

/// The whole way: this program as the server in a child process, loaded over the wire, stopped, its store removed.
#[test]
fn the_carried_server_is_measured_and_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let json = directory.path().join("run.json");
    let output = loadgen(&[
        "run",
        "--data",
        data.to_str().unwrap(),
        "--connections",
        "2",
        "--depth",
        "4",
        "--duration",
        "500ms",
        "--warmup",
        "100ms",
        "--json",
        json.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report = Report::read(&json).unwrap();
    let cell = &report.cells[0];
    assert!(cell.messages_per_second.median > 0.0 && cell.is_clean());
    assert!(cell.cpu_us_per_message.is_some() && cell.memory.is_some());
    let flushes = cell.flushes.expect("the carried server gives its flush counters");
    assert!(flushes.messages_per_sync >= 0.5, "{flushes:?}");
    assert!(!data.exists(), "{:?}", names(directory.path()));
}

/// Kills of the real process lose nothing that SYNC_FLUSH acknowledged. (Whether a kill met unclean bytes is the
/// disk's affair: a round that did not is not counted, so the exit status is not looked at here.)
#[test]
fn kills_lose_nothing_that_sync_flush_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let json = directory.path().join("audit.json");
    let output = loadgen(&[
        "verify",
        "--kill",
        "--rounds",
        "1",
        "--messages",
        "4000",
        "--data",
        data.to_str().unwrap(),
        "--json",
        json.to_str().unwrap(),
    ]);
    assert_ne!(output.status.code(), Some(2), "{}", text(&output.stderr));
    let audited: loadgen::audit::Audited = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let totals = audited.totals;
    assert!(totals.acked > 0);
    assert_eq!(
        (totals.lost, totals.duplicated, totals.out_of_order, totals.damaged, totals.foreign),
        (0, 0, 0, 0, 0),
        "{audited:?}"
    );
    assert!(audited.rounds.iter().any(|round| round.outstanding_at_kill >= Some(200)), "{audited:?}");
}

#[test]
fn a_reader_that_goes_away_does_not_cost_the_report() {
    let directory = tempfile::tempdir().unwrap();
    let html = directory.path().join("r.html");
    let (first, second) = (Scripted::start(Script::default()), Scripted::start(Script::default()));
    let mut child = Command::new(env!("CARGO_BIN_EXE_loadgen"))
        .args(["compare", "--quick", "--rounds", "1", "--duration", "100ms", "--warmup", "10ms"])
        .args(["--namesrv", &format!("a={}", first.address), "--namesrv", &format!("b={}", second.address)])
        .args(["--report", html.to_str().unwrap()])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
    assert!(html.exists());
}
