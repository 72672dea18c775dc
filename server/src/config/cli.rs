//! The command line of `ringmq`, as typed.
//!
//! Owns the flags and their help. Never checks a value: a flag is another way to write a setting, and is read and
//! bounded where the setting is.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// A RocketMQ-compatible broker in which every core is a broker.
#[derive(Parser, Debug)]
#[command(name = "ringmq", version, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What `ringmq` can do.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Run a broker
    ///
    /// Without any argument: one broker per core (all but one of them) on the ports from 10911 of 127.0.0.1, with a
    /// name server inside it on 127.0.0.1:9876, and its data in ./ringmq-data. RocketMQ clients that use the name
    /// server 127.0.0.1:9876 work with it unchanged.
    ///
    /// When it accepts requests it prints one line to stdout that begins with `ready` and names every broker and
    /// its address. Everything else it has to say goes to stderr. SIGTERM and Ctrl-C stop it cleanly.
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(Box<ServeArgs>),
    /// Run a name server on its own
    ///
    /// Brokers (ours and Apache RocketMQ's) register with it, clients ask it where a topic is. It keeps everything
    /// in memory.
    Namesrv(NamesrvArgs),
    /// Show what of this host and directory helps or hurts a broker
    ///
    /// Changes nothing. Each finding says what it means, what would mend it, and how to undo that. Exits with 1
    /// only when a broker could not run at all.
    Doctor(DoctorArgs),
}

/// Arguments of `ringmq serve`. Later in this list wins: defaults, the file, the flags, `--set`.
#[derive(Args, Debug, Default, Clone)]
pub struct ServeArgs {
    /// Settings file: TOML, or a broker.conf of RocketMQ; both have the same names
    #[arg(short = 'c', long = "config", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Directory of the store (storePathRootDir) [default: ./ringmq-data]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Address that clients are told, and listened on unless --bind is given (brokerIP1) [default: 127.0.0.1]
    #[arg(long, value_name = "ADDR")]
    pub ip: Option<String>,
    /// Address to listen on, 0.0.0.0 for all (bindAddress) [default: the one of --ip]
    #[arg(long, value_name = "ADDR")]
    pub bind: Option<String>,
    /// Port of the first shard, each further one 10 higher; 0: ports that the kernel gives (listenPort) [default: 10911]
    #[arg(long, value_name = "PORT")]
    pub port: Option<String>,
    /// Number of brokers in this process, each on a core of its own (shards) [default: auto]
    #[arg(long, value_name = "auto|N")]
    pub shards: Option<String>,
    /// Cores that the shards are pinned to, like 0,2-3 (cores) [default: auto]
    #[arg(long, value_name = "LIST")]
    pub cores: Option<String>,
    /// How bytes reach the disk, `direct` or `mapped` (backend) [default: direct]
    #[arg(long, value_name = "BACKEND")]
    pub backend: Option<String>,
    /// Acknowledge once the disk has it (sync) or once it is in memory (async) (flushDiskType) [default: async]
    #[arg(long, value_name = "sync|async")]
    pub flush: Option<String>,
    /// Name servers to register with instead of the embedded one (namesrvAddr)
    #[arg(long, value_name = "ADDR[;ADDR]", conflicts_with = "embedded_namesrv")]
    pub namesrv: Option<String>,
    /// Port of the name server inside this process; 0: one that the kernel gives (embeddedNamesrvPort) [default: 9876]
    #[arg(long, value_name = "PORT")]
    pub embedded_namesrv: Option<String>,
    /// Any setting by its name, as often as needed
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Print the settings that would be in force, as a file that -c takes, and exit
    #[arg(long)]
    pub check: bool,
}

/// Arguments of `ringmq namesrv`.
#[derive(Args, Debug, Clone)]
pub struct NamesrvArgs {
    /// Address to listen on
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1")]
    pub ip: std::net::IpAddr,
    /// Port to listen on; 0: one that the kernel gives, told in the `ready` line
    #[arg(long, value_name = "PORT", default_value_t = super::settings::NAMESRV_PORT_DEFAULT)]
    pub port: u16,
}

/// Arguments of `ringmq doctor`.
#[derive(Args, Debug, Clone)]
pub struct DoctorArgs {
    /// Directory that the store is, or would be, in
    #[arg(long, value_name = "DIR", default_value = "ringmq-data")]
    pub data: PathBuf,
    /// Port that the broker would listen on
    #[arg(long, value_name = "PORT", default_value_t = 10_911)]
    pub port: u16,
    /// Print the findings as JSON
    #[arg(long)]
    pub json: bool,
}

impl ServeArgs {
    /// The flags as (flag, setting, text), in the order in which they are applied.
    pub(super) fn settings(&self) -> Vec<(&'static str, &'static str, String)> {
        let mut typed = Vec::new();
        let mut put = |flag, key, value: Option<String>| typed.extend(value.map(|value| (flag, key, value)));
        put("--data", "storePathRootDir", self.data.as_ref().map(|dir| dir.to_string_lossy().into_owned()));
        put("--ip", "brokerIP1", self.ip.clone());
        put("--bind", "bindAddress", self.bind.clone());
        put("--port", "listenPort", self.port.clone());
        put("--shards", "shards", self.shards.clone());
        put("--cores", "cores", self.cores.clone());
        put("--backend", "backend", self.backend.clone());
        put("--flush", "flushDiskType", self.flush.as_deref().map(flush_word));
        // The two exclude each other: naming one on the command line takes back the other from the file.
        put("--namesrv", "embeddedNamesrvPort", self.namesrv.as_ref().map(|_| "auto".to_owned()));
        put("--namesrv", "namesrvAddr", self.namesrv.clone());
        put("--embedded-namesrv", "namesrvAddr", self.embedded_namesrv.as_ref().map(|_| String::new()));
        put("--embedded-namesrv", "embeddedNamesrvPort", self.embedded_namesrv.clone());
        typed
    }
}

/// The short words of `--flush`; anything else is left to be refused with RocketMQ's words.
fn flush_word(text: &str) -> String {
    match text {
        "sync" => "SYNC_FLUSH".to_owned(),
        "async" => "ASYNC_FLUSH".to_owned(),
        other => other.to_owned(),
    }
}

const SERVE_EXAMPLES: &str = "\
Examples:
  ringmq serve                                     everything on its defaults, to try it
  ringmq serve --flush sync --data /var/lib/mq     nothing acknowledged is lost in a power cut
  ringmq serve -c broker.conf                      an existing RocketMQ broker's settings
  ringmq serve --ip 10.0.0.5 --namesrv '10.0.0.1:9876;10.0.0.2:9876'
                                                   one more broker of an existing cluster
  ringmq serve -c tuning/durable-low-latency.toml --check
                                                   see what a profile sets";
