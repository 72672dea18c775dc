//! The server that this program carries: it starts itself again as a child process that is that server, on its own
//! cores and data directory. So one file measures a host, and the audit can kill a real process. This is the only
//! module that knows the `server` crate, and it uses its entry point alone.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::client::control::resolve;
use crate::error::{Error, Result};
use crate::process::Watched;
use crate::units::Cores;

/// The hidden sub-command that makes this program the server.
pub const SUBCOMMAND: &str = "__server";

/// Becomes the server: runs until it is told to stop.
pub fn become_server(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    // Nobody else would stop it, were the measuring process killed.
    if let Err(error) = rustix::process::set_parent_process_death_signal(Some(Signal::TERM)) {
        eprintln!("loadgen: the server will outlive a killed loadgen: {error}");
    }
    // The server's command line begins with a program's name, as every other.
    server::run(std::iter::once(OsString::from("ringmq")).chain(arguments))
}

/// When a server acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Flush {
    /// SYNC_FLUSH: once the message is durable.
    Sync,
    /// ASYNC_FLUSH: once it is appended.
    Async,
}

impl Flush {
    /// As the command line has it.
    pub fn name(self) -> &'static str {
        match self {
            Flush::Sync => "sync",
            Flush::Async => "async",
        }
    }
}

/// How a server writes its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Backend {
    /// O_DIRECT on io_uring.
    Direct,
    /// A memory-mapped file.
    Mapped,
}

impl Backend {
    /// As the command line has it.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Direct => "direct",
            Backend::Mapped => "mapped",
        }
    }
}

/// How to start a server.
#[derive(Clone, Debug)]
pub struct ServerPlan {
    /// Another program than the carried server; it takes `ringmq`'s command line.
    pub program: Option<PathBuf>,
    /// Its store. The log of what it says is written beside it.
    pub data: PathBuf,
    /// When it acknowledges.
    pub flush: Flush,
    /// How it writes.
    pub backend: Backend,
    /// Cores for its shards; one shard.
    pub cores: Option<Cores>,
    /// Size of a commit-log segment.
    pub segment_bytes: u64,
    /// Further `key=value` settings.
    pub settings: Vec<String>,
}

/// A server that has been started and has not said `ready` yet.
#[derive(Debug)]
pub struct Starting {
    process: Process,
    lines: Receiver<String>,
    since: Instant,
}

/// A server that accepts requests.
#[derive(Debug)]
pub struct Carried {
    process: Process,
    /// Its name server.
    pub namesrv: SocketAddr,
    /// From its start to `ready`.
    pub start_took: Duration,
}

/// A child that is killed when nobody stopped it.
#[derive(Debug)]
struct Process {
    child: Child,
    log: PathBuf,
    data: PathBuf,
    ended: bool,
}

/// A store of many gigabytes may take a while to recover.
const READY_TIMEOUT: Duration = Duration::from_secs(120);
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(5);

impl ServerPlan {
    /// Starts the server and returns at once.
    pub fn spawn(&self) -> Result<Starting> {
        if let Some(parent) = self.data.parent() {
            std::fs::create_dir_all(parent)
                .map_err(|e| Error::path("cannot create the directory", parent, e))?;
        }
        let log = self.data.with_extension("log");
        let said = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .map_err(|e| Error::path("cannot write the server's log", &log, e))?;
        let mut command = self.command()?;
        command.args(self.arguments()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(said);
        let mut child = command
            .spawn()
            .map_err(|e| Error::path("cannot start the server", Path::new(command.get_program()), e))?;
        let out = child.stdout.take().expect("it was piped");
        let (sender, lines) = channel();
        std::thread::Builder::new()
            .name("server-out".to_owned())
            .spawn(move || {
                for line in BufReader::new(out).lines() {
                    // Reading on keeps the server from blocking on a full pipe; nobody need listen any more.
                    let Ok(line) = line else { return };
                    let _unheard = sender.send(line);
                }
            })
            .map_err(|e| Error::os("cannot start a thread", e))?;
        let process = Process { child, log, data: self.data.clone(), ended: false };
        Ok(Starting { process, lines, since: Instant::now() })
    }

    /// Starts the server and waits until it is ready.
    pub fn start(&self) -> Result<Carried> {
        self.spawn()?.wait_ready()
    }

    fn command(&self) -> Result<Command> {
        if let Some(program) = &self.program {
            return Ok(Command::new(program));
        }
        let own = std::env::current_exe().map_err(|e| Error::os("cannot find this program's own file", e))?;
        let mut command = Command::new(own);
        command.arg(SUBCOMMAND);
        Ok(command)
    }

    /// Ports are the kernel's choice: servers stand side by side.
    fn arguments(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec!["serve".into(), "--data".into(), self.data.clone().into()];
        let mut pair = |name: &str, value: &str| arguments.extend([name.into(), value.into()]);
        pair("--port", "0");
        pair("--embedded-namesrv", "0");
        pair("--shards", "1");
        if let Some(cores) = &self.cores {
            pair("--cores", &cores.to_string());
        }
        pair("--backend", self.backend.name());
        pair("--flush", self.flush.name());
        pair("--set", &format!("mappedFileSizeCommitLog={}", self.segment_bytes));
        for setting in &self.settings {
            pair("--set", setting);
        }
        arguments
    }
}

impl Starting {
    /// Waits for the line that begins with `ready` and names the addresses.
    pub fn wait_ready(mut self) -> Result<Carried> {
        while self.since.elapsed() < READY_TIMEOUT {
            match self.lines.recv_timeout(Duration::from_millis(100)) {
                Ok(line) if line.starts_with("ready") => {
                    let namesrv = address_in(&line, "namesrv")
                        .map_err(|what| Error::Server(format!("the server's line `{line}` {what}")))?;
                    return Ok(Carried { process: self.process, namesrv, start_took: self.since.elapsed() });
                }
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let status = self.process.wait(STOP_TIMEOUT)?;
                    return Err(self.process.failed(&format!("ended before it was ready ({status})")));
                }
            }
        }
        Err(self.process.failed(&format!("was not ready after {} s", READY_TIMEOUT.as_secs())))
    }

    /// Kills it while it starts; false when it had become ready before.
    pub fn kill(mut self) -> Result<bool> {
        self.process.kill()?;
        let mut lines = self.lines.try_iter();
        Ok(!lines.any(|line| line.starts_with("ready")))
    }
}

impl Carried {
    /// The process, to be looked at from outside.
    pub fn watched(&self) -> Watched {
        Watched { pid: self.process.child.id() }
    }

    /// SIGKILL: it has no chance to write anything more.
    pub fn kill(mut self) -> Result<()> {
        self.process.kill()
    }

    /// SIGTERM, and waits for a clean end.
    pub fn stop(mut self) -> Result<()> {
        let pid = self.process.pid();
        kill_process(pid, Signal::TERM).map_err(|e| Error::os("cannot stop the server", e))?;
        let status = self.process.wait(STOP_TIMEOUT)?;
        if !status.success() {
            return Err(self.process.failed(&format!("did not stop cleanly ({status})")));
        }
        Ok(())
    }
}

impl Process {
    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn kill(&mut self) -> Result<()> {
        self.child.kill().map_err(|e| Error::os("cannot kill the server", e))?;
        self.child.wait().map_err(|e| Error::os("cannot wait for the server", e))?;
        self.ended = true;
        Ok(())
    }

    fn wait(&mut self, timeout: Duration) -> Result<ExitStatus> {
        let since = Instant::now();
        loop {
            if let Some(status) =
                self.child.try_wait().map_err(|e| Error::os("cannot wait for the server", e))?
            {
                self.ended = true;
                return Ok(status);
            }
            if since.elapsed() > timeout {
                return Err(self.failed(&format!("did not end within {} s", timeout.as_secs())));
            }
            std::thread::sleep(POLL);
        }
    }

    /// What happened, and the last lines of the server's log, which know more.
    fn failed(&self, what: &str) -> Error {
        let said = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = said.lines().collect();
        let last = lines[lines.len().saturating_sub(8)..].join("\n  ");
        let last = if last.is_empty() { String::from(" and said nothing") } else { format!(":\n  {last}") };
        Error::Server(format!("the server on {} {what}{last}", self.data.display()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.ended
            && let Err(error) = self.kill()
        {
            eprintln!("loadgen: {error}");
        }
    }
}

/// `name=ADDR` within a line of words.
fn address_in(line: &str, name: &str) -> std::result::Result<SocketAddr, String> {
    let words = line.split(|c: char| c.is_whitespace() || c == ',');
    let mut pairs = words.filter_map(|word| word.split_once('='));
    let (_, text) =
        pairs.find(|(key, _)| *key == name).ok_or_else(|| format!("does not name `{name}=ADDRESS`"))?;
    resolve(text).map_err(|e| format!("has the address `{text}`: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ready_line_names_the_name_server() {
        let line = "ready broker-a=127.0.0.1:41001 namesrv=127.0.0.1:41002";
        assert_eq!(address_in(line, "namesrv"), Ok("127.0.0.1:41002".parse().unwrap()));
        assert!(address_in("ready broker-a=127.0.0.1:1", "namesrv").is_err());
    }
}
