//! `loadgen verify`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::{CarriedArgs, Common};
use crate::audit;
use crate::carried::{Backend, Flush};
use crate::client::control::resolve;
use crate::error::{Error, Result};
use crate::floor;
use crate::plan::{BodySize, Pacing, Roles, Workload};
use crate::report::write_file;
use crate::terminal::say;
use crate::units::{bytes, parse_duration};

#[derive(Debug, Args)]
pub(super) struct VerifyArgs {
    /// Name server of the brokers to audit, HOST:PORT; without it the carried server is started
    #[arg(long, value_name = "ADDR", conflicts_with = "kill")]
    namesrv: Option<String>,
    /// Rounds: kill -9 of the carried server under load, restart, read back; one kill in five comes during recovery
    #[arg(long)]
    kill: bool,
    /// Rounds that must count [default: 10 with --kill, else 1]
    #[arg(long)]
    rounds: Option<u32>,
    /// Plant a lost, a duplicated and a swapped message into the evidence: the audit must find them
    #[arg(long)]
    self_test: bool,
    /// Flush mode of the carried server
    #[arg(long, value_enum, default_value_t = Flush::Sync)]
    flush: Flush,
    /// Storage backend of the carried server
    #[arg(long, value_enum, default_value_t = Backend::Direct)]
    backend: Backend,
    /// Connections
    #[arg(long, default_value_t = 16)]
    connections: u32,
    /// Outstanding sends per connection
    #[arg(long, default_value_t = 32)]
    depth: u32,
    /// Queues of the topic on each broker
    #[arg(long, default_value_t = 4)]
    queues: u32,
    /// Body size, as in `run`; at least 48 bytes, for the identity
    #[arg(long, value_name = "SIZE", default_value = "uniform:48-2000")]
    body: BodySize,
    /// Load of each round; with --kill the kill comes at a moment within it
    #[arg(long, value_parser = parse_duration, value_name = "TIME", default_value = "1s")]
    duration: Duration,
    /// Messages of one round at most
    #[arg(long, default_value_t = 50_000)]
    messages: u64,
    /// Allowance for the clocks when ASYNC_FLUSH on `direct` is judged by its last 20 ms
    #[arg(long, value_parser = parse_duration, value_name = "TIME", default_value = "2ms")]
    margin: Duration,
    /// Write the figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Repeats the moments of the kills
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    carried: CarriedArgs,
}

impl VerifyArgs {
    pub(super) fn run(self) -> Result<bool> {
        let style = self.common.style(self.namesrv.is_none(), "loadgen-audit")?;
        let workload = Workload {
            topics: 1,
            queues: self.queues,
            body: self.body.clone(),
            connections: self.connections,
            depth: self.depth,
            pacing: Pacing::Closed,
            roles: Roles { producers: true, consumers: false },
            warmup: Duration::ZERO,
            duration: self.duration,
            messages_max: Some(self.messages),
        };
        workload.check().map_err(Error::Usage)?;
        if (self.body.min() as usize) < audit::identity::IDENTITY_BYTES {
            return Err(Error::Usage(format!(
                "--body {}: the audit needs at least {} bytes for a message's identity",
                self.body,
                audit::identity::IDENTITY_BYTES
            )));
        }
        let rounds = self.rounds.unwrap_or(if self.kill { 10 } else { 1 });
        let plan = audit::Plan {
            workload,
            rounds,
            kill: self.kill,
            self_test: self.self_test,
            margin: self.margin,
            seed: self.seed,
            verbose: self.common.verbose,
        };
        let audited = match &self.namesrv {
            Some(text) => {
                let namesrv = resolve(text).map_err(|e| Error::Usage(format!("--namesrv {text}: {e}")))?;
                audit::external(&plan, &style, text, namesrv)?
            }
            None => {
                floor::require_writable(&self.carried.data)?;
                let needed = plan.bytes_max() + 4 * self.carried.segment;
                say(&format!("Needs up to {} in {}.", bytes(needed), self.carried.data.display()));
                floor::require_room(
                    &self.carried.data,
                    needed,
                    "give --data another disk, or fewer --rounds or --messages",
                )?;
                let server = self.carried.plan(self.flush, self.backend, &style, "verify");
                crate::compare::remove_store(&server.data)?;
                let audited = audit::carried(&plan, &style, &server);
                // The evidence of a failed audit is worth more than the room it takes.
                match &audited {
                    Ok(audited) if audited.passed => self.carried.clean(&server)?,
                    _ => say(&format!("The store is kept for inspection in {}.", server.data.display())),
                }
                audited?
            }
        };
        audited.show();
        if let Some(path) = &self.json {
            let mut text = serde_json::to_string_pretty(&audited)
                .map_err(|e| Error::Data(format!("cannot write the audit as JSON: {e}")))?;
            text.push('\n');
            write_file(path, text.as_bytes())?;
            say(&format!("Figures: {}", path.display()));
        }
        Ok(audited.passed)
    }
}
