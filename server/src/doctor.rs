//! `ringmq doctor`: what of this host and directory helps or hurts a broker.
//!
//! Two halves: [`HostFacts::gather`] reads (from `/proc`, `/sys` and the directory), [`diagnose`] judges, as a pure
//! function, so that every verdict is tested without such a host. Changes nothing: the one file it opens for writing
//! has no name and is gone when closed (on file systems that can't do that, it is removed at once).

mod facts;
mod host;
mod network;
mod print;
mod storage;

use serde::Serialize;

pub use facts::{Device, Directory, HostFacts, Limit, Probe};
pub use print::{run, to_json, to_text};

/// How much a finding matters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// Worth knowing; may matter to some.
    Note,
    /// Costs latency, throughput or durability.
    Hurts,
    /// A broker can't run here.
    Impossible,
}

/// One thing that was looked at.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// What was looked at; a stable name for machines.
    pub name: &'static str,
    /// How much it matters.
    pub level: Level,
    /// What was found.
    pub found: String,
    /// What that means for a broker.
    pub means: String,
    /// What would mend it: a command, or what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// How to take the fix back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undo: Option<String>,
}

impl Finding {
    fn new(name: &'static str, level: Level, found: impl Into<String>, means: impl Into<String>) -> Finding {
        Finding { name, level, found: found.into(), means: means.into(), fix: None, undo: None }
    }

    fn fix(mut self, fix: impl Into<String>) -> Finding {
        self.fix = Some(fix.into());
        self
    }

    fn undo(mut self, undo: impl Into<String>) -> Finding {
        self.undo = Some(undo.into());
        self
    }
}

/// Judges the facts: one finding per thing looked at, in a fixed order.
pub fn diagnose(facts: &HostFacts) -> Vec<Finding> {
    let mut findings = host::findings(facts);
    findings.extend(storage::findings(&facts.directory));
    findings.extend(network::findings(facts));
    findings
}

/// Whether some finding says that a broker can't run here.
pub fn is_impossible(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| finding.level == Level::Impossible)
}

#[cfg(test)]
mod tests;
