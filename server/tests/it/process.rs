//! A real `ringmq` in a temporary directory, that ends with its test: only the child is ever killed.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Condvar, Mutex},
    time::{Duration, Instant},
};

use crate::wire::{PATIENCE, TcpPeer};

/// The program under test.
pub const RINGMQ: &str = env!("CARGO_BIN_EXE_ringmq");

/// Small files, so that a test's store costs little; the rest is the default.
const SMALL: [&str; 4] = ["--set", "mappedFileSizeCommitLog=8MiB", "--set", "flushMethod=fdatasync"];

/// What the child has written to one of its outputs.
#[derive(Clone, Default)]
struct Output(Arc<(Mutex<Written>, Condvar)>);

#[derive(Default)]
struct Written {
    text: String,
    is_closed: bool,
}

impl Output {
    /// Collects until the child closes it.
    fn of(source: impl Read + Send + 'static) -> Output {
        let output = Output::default();
        let writing = output.clone();
        std::thread::spawn(move || {
            let (written, changed) = &*writing.0;
            for line in BufReader::new(source).lines() {
                let Ok(line) = line else { break };
                let mut written = written.lock().unwrap();
                written.text.push_str(&line);
                written.text.push('\n');
                changed.notify_all();
            }
            written.lock().unwrap().is_closed = true;
            changed.notify_all();
        });
        output
    }

    fn text(&self) -> String {
        self.0.0.lock().unwrap().text.clone()
    }

    /// Waits until the text is as wanted, at most [`PATIENCE`], and not beyond its end.
    fn wait_for(&self, wanted: impl Fn(&str) -> bool) -> bool {
        let (written, changed) = &*self.0;
        let is_waiting = |written: &mut Written| !wanted(&written.text) && !written.is_closed;
        let (written, _) = changed.wait_timeout_while(written.lock().unwrap(), PATIENCE, is_waiting).unwrap();
        wanted(&written.text)
    }
}

/// The child; killed when dropped.
pub struct Process {
    child: Child,
    stdout: Output,
    stderr: Output,
}

impl Process {
    /// Runs `command`, whose outputs are collected.
    pub fn spawn(command: &mut Command) -> Process {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let stdout = Output::of(child.stdout.take().expect("piped"));
        let stderr = Output::of(child.stderr.take().expect("piped"));
        Process { child, stdout, stderr }
    }

    /// Waits for the `ready` line and gives it.
    pub fn ready(&mut self) -> String {
        let is_ready = self.stdout.wait_for(|text| text.contains('\n'));
        let text = self.stdout.text();
        assert!(is_ready && text.starts_with("ready "), "not ready: {text:?}\n{}", self.stderr.text());
        text.trim_end().to_owned()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn log(&self) -> String {
        self.stderr.text()
    }

    /// Waits until the log has `words`.
    pub fn wait_for_log(&self, words: &str) {
        assert!(self.stderr.wait_for(|text| text.contains(words)), "no {words:?} in:\n{}", self.log());
    }

    /// Sends `signal` (a name without SIG).
    pub fn signal(&self, signal: &str) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.pid()).unwrap()).unwrap();
        let signal = match signal {
            "TERM" => rustix::process::Signal::TERM,
            "INT" => rustix::process::Signal::INT,
            other => panic!("no test sends SIG{other}"),
        };
        rustix::process::kill_process(pid, signal).expect("the child is there");
    }

    /// kill -9, and waits until it is gone.
    pub fn kill(&mut self) {
        self.child.kill().expect("the child is there");
        self.child.wait().expect("the child is ours");
    }

    /// Waits until it ends by itself.
    pub fn wait(&mut self) -> ExitStatus {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("the child is ours") {
                // What is left in the pipes belongs to it.
                self.stdout.wait_for(|_| false);
                self.stderr.wait_for(|_| false);
                return status;
            }
            assert!(Instant::now() < until, "it doesn't end:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// SIGTERM, and that it ends well.
    pub fn stop(&mut self) {
        self.signal("TERM");
        let status = self.wait();
        assert!(status.success(), "{status}\n{}", self.log());
    }

    /// A field of /proc/PID/status, in kB.
    pub fn memory_kb(&self, field: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("it runs");
        let line = status.lines().find(|line| line.starts_with(field)).expect("the field is there");
        line.split_whitespace().nth(1).expect("a number").parse().expect("a number")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

/// A broker with its embedded name server on ports that the kernel gave.
pub struct Server {
    pub process: Process,
    /// The brokers, in the order of the `ready` line.
    pub brokers: Vec<(String, SocketAddr)>,
    pub name_server: Option<SocketAddr>,
}

impl Server {
    /// `ringmq serve` on `data` with one shard and small files.
    pub fn start(data: &Path) -> Server {
        Server::start_with(data, &[])
    }

    /// The same with further arguments, which win.
    pub fn start_with(data: &Path, more: &[&str]) -> Server {
        let mut command = serve(data, more);
        Server::of(Process::spawn(&mut command))
    }

    /// Waits until `process` is ready, and reads whom it names.
    pub fn of(mut process: Process) -> Server {
        let line = process.ready();
        let mut server = Server { process, brokers: Vec::new(), name_server: None };
        for word in line.split_whitespace().skip(1) {
            let (name, address) = word.split_once('=').expect("name=address");
            let address = address.parse().expect("an address");
            if name == "namesrv" {
                server.name_server = Some(address);
            } else {
                server.brokers.push((name.to_owned(), address));
            }
        }
        server
    }

    /// A connection to the first broker.
    pub fn connect(&self) -> TcpPeer {
        TcpPeer::connect(self.brokers[0].1)
    }

    /// A connection to the name server in the process.
    pub fn connect_to_names(&self) -> TcpPeer {
        TcpPeer::connect(self.name_server.expect("it has one"))
    }
}

/// `ringmq serve` with small files, on ports that the kernel gives.
pub fn serve(data: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(RINGMQ);
    command.arg("serve").arg("--data").arg(data).args(SMALL);
    if !more.contains(&"--port") {
        command.args(["--port", "0"]);
    }
    let names_given = more.iter().any(|argument| argument.contains("namesrv"));
    if !names_given {
        command.args(["--embedded-namesrv", "0"]);
    }
    if !more.contains(&"--shards") {
        command.args(["--shards", "1"]);
    }
    command.args(more);
    command
}

/// What a process that refuses to start says, and that it fails.
pub fn refusal(command: &mut Command) -> String {
    let mut process = Process::spawn(command);
    let status = process.wait();
    assert!(!status.success(), "it should have refused to start: {}", process.stdout.text());
    assert!(process.stderr.wait_for(|text| text.contains("ringmq: ")), "no message: {:?}", process.log());
    assert_eq!(process.stdout.text(), "", "nothing on stdout");
    let log = process.log();
    let messages: Vec<&str> = log.lines().filter(|line| line.starts_with("ringmq: ")).collect();
    assert_eq!(messages.len(), 1, "one clear line, not:\n{log}");
    assert!(!log.contains("panicked"), "{log}");
    messages[0].to_owned()
}

/// Says something to whoever runs the tests, also when the test passes.
pub fn say(line: &str) {
    // Not captured, as `eprintln!` would be. Nobody is told when stderr is gone.
    let _unsaid = writeln!(std::io::stderr(), "{line}");
}

/// Whether this test may do what only root may; says so when not.
pub fn is_root(what: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        say(&format!("SKIPPED: {what} needs root"));
    }
    is_root
}

/// Whether `program` is there; says so when not.
pub fn has_program(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|directory| directory.join(program).is_file());
    if !found {
        say(&format!("SKIPPED: there is no {program} here"));
    }
    found
}

/// A directory for a test, and a store's place in it.
pub fn scratch() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let data = directory.path().join("data");
    (directory, data)
}
