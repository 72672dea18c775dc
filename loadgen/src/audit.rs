//! The acknowledgement audit: what was acknowledged must be there. Every message carries who it is, the producers
//! remember what was acknowledged, everything is read back from every queue, and the two are set against each other
//! and against what the server's mode promises.
//!
//! With kills, all rounds go to one store. A round reads back what is new, so that its losses are known while the
//! acknowledgements' times are; at the end everything is read once more from the beginning, and only that counts for
//! the totals.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub mod evidence;
pub mod identity;
pub mod reader;
mod rounds;

pub use rounds::{carried, external};

use crate::plan::Workload;
use crate::terminal::say;
use crate::units::whole;
use evidence::{Bitmap, Counts, Found, ProducerLog};

/// What is audited.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The load of one round.
    pub workload: Workload,
    /// Rounds that must count.
    pub rounds: u32,
    /// Each round ends with kill -9.
    pub kill: bool,
    /// Faults are planted, and must be found.
    pub self_test: bool,
    /// Allowance for clocks.
    pub margin: Duration,
    /// Moments of the kills follow from it.
    pub seed: u64,
    /// Progress even without a terminal.
    pub verbose: bool,
}

/// Requests that must be outstanding when the server is killed.
pub const OUTSTANDING_MIN: u64 = 200;

/// What ASYNC_FLUSH on `direct` may lose when its process is killed.
pub const DIRECT_LOSS: Duration = Duration::from_millis(20);

impl Plan {
    /// Rounds that are tried before the audit gives up on those that do not count.
    pub fn attempts_max(&self) -> u32 {
        if self.kill { self.rounds + self.rounds / 2 + 5 } else { self.rounds }
    }

    /// Kills that must come during recovery: one in five.
    fn recovery_kills(&self) -> usize {
        self.rounds.div_ceil(5) as usize
    }

    /// Bytes that the store may come to.
    pub fn bytes_max(&self) -> u64 {
        let message = self.workload.body.mean() + 300.0;
        let messages = self.workload.messages_max.unwrap_or(0) as f64;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, below 2^63")]
        let round = (messages * message) as u64;
        round * u64::from(self.attempts_max())
    }
}

/// What a mode promises when its process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Promise {
    /// Everything acknowledged survives.
    All,
    /// Everything but what was acknowledged within this many milliseconds before the kill.
    AllButLast {
        /// The milliseconds.
        ms: u64,
    },
}

/// The result of an audit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Audited {
    /// `ringmq-loadgen-audit/1`.
    pub format: String,
    /// Who was audited.
    pub server: String,
    /// What it promises.
    pub promise: Promise,
    /// The promise was kept and enough rounds counted; for a self-test: the planted faults were found.
    pub passed: bool,
    /// Why, in sentences.
    pub verdict: Vec<String>,
    /// The totals, from the last reading of everything.
    pub totals: Totals,
    /// Round by round.
    pub rounds: Vec<RoundSeen>,
}

/// Figures of the audit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as in evidence::Counts, where each is explained")]
pub struct Totals {
    pub sent: u64,
    pub acked: u64,
    pub found: u64,
    pub lost: u64,
    /// Of the lost ones, those that the promise does not excuse.
    pub lost_beyond_promise: u64,
    pub duplicated: u64,
    pub out_of_order: u64,
    pub unacked_present: u64,
    pub damaged: u64,
    pub foreign: u64,
}

impl Totals {
    fn new(counts: &Counts, lost_beyond_promise: u64) -> Totals {
        Totals {
            sent: counts.sent,
            acked: counts.acked,
            found: counts.found,
            lost: counts.lost,
            lost_beyond_promise,
            duplicated: counts.duplicated,
            out_of_order: counts.out_of_order,
            unacked_present: counts.unacked_present,
            damaged: counts.damaged,
            foreign: counts.foreign,
        }
    }
}

/// One round.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RoundSeen {
    /// From 1.
    pub number: u32,
    /// Acknowledged in it.
    pub acked: u64,
    /// Sends outstanding when the server was killed.
    pub outstanding_at_kill: Option<u64>,
    /// It was killed once more while it recovered.
    pub killed_in_recovery: bool,
    /// Unclean bytes that the restarted server recovered.
    pub unclean_bytes: Option<u64>,
    /// From its start to `ready`, milliseconds.
    pub restart_ms: Option<u64>,
    /// Acknowledged in it and missing after the restart.
    pub lost: u64,
    /// Of those, the ones that the promise does not excuse.
    pub lost_beyond_promise: u64,
    /// The oldest lost one was acknowledged this many microseconds before the kill, as far as times were kept.
    pub oldest_lost_us: Option<u64>,
    /// Sends refused with a code other than SUCCESS.
    pub refused: u64,
    /// It counts; else why not.
    pub counts: bool,
    /// Why it does not count.
    pub reason: Option<String>,
}

/// Which losses are already judged, so that a later reading does not judge them again.
#[derive(Debug, Default)]
struct Judged {
    lost: HashMap<u32, Bitmap>,
    beyond_promise: u64,
}

/// Losses of one reading.
#[derive(Debug, Default, PartialEq, Eq)]
struct Losses {
    lost: u64,
    beyond_promise: u64,
    oldest_us: Option<u64>,
}

impl Judged {
    /// Judges the acknowledged messages that are missing and were not judged before. Without a kill nothing excuses one.
    fn judge(
        &mut self,
        logs: &[ProducerLog],
        found: &Found,
        promise: Promise,
        margin: Duration,
        killed_ns: Option<u64>,
    ) -> Losses {
        let mut losses = Losses::default();
        let ended_ns = killed_ns.map(|killed_ns| acknowledging_ended_ns(logs, killed_ns));
        let allowance_us = match promise {
            Promise::All => None,
            Promise::AllButLast { ms } => {
                Some(ms * 1_000 + u64::try_from(margin.as_micros()).unwrap_or(u64::MAX / 2))
            }
        };
        for log in logs {
            let missing: Vec<u64> = found.lost(log).collect();
            let known = self.lost.entry(log.producer).or_default();
            let new: Vec<u64> = missing.into_iter().filter(|sequence| known.insert(*sequence)).collect();
            if new.is_empty() {
                continue;
            }
            let ages_us = ages_us(log, ended_ns);
            for sequence in new {
                let age_us = ages_us.get(&sequence).copied();
                losses.lost += 1;
                let is_excused = age_us.zip(allowance_us).is_some_and(|(age, allowance)| age <= allowance);
                losses.beyond_promise += u64::from(!is_excused);
                losses.oldest_us = losses.oldest_us.max(age_us);
            }
        }
        self.beyond_promise += losses.beyond_promise;
        losses
    }
}

/// When the server stopped acknowledging: at the kill, or before it, when its disk stalled. A stalled server that
/// acknowledges nothing more adds nothing to what a kill may cost, however long the stall lasts.
fn acknowledging_ended_ns(logs: &[ProducerLog], killed_ns: u64) -> u64 {
    let last_ns = logs.iter().flat_map(ProducerLog::recent).map(|acked| acked.at_ns).max();
    last_ns.map_or(killed_ns, |last_ns| last_ns.min(killed_ns))
}

/// How long before the end of acknowledging recent messages were acknowledged, in microseconds; none without a kill.
fn ages_us(log: &ProducerLog, ended_ns: Option<u64>) -> HashMap<u64, u64> {
    let Some(ended_ns) = ended_ns else { return HashMap::new() };
    log.recent().map(|acked| (acked.sequence, ended_ns.saturating_sub(acked.at_ns) / 1_000)).collect()
}

impl Audited {
    /// Writes the figures and the verdict for people.
    pub fn show(&self) {
        for round in self.rounds.iter().filter(|round| round.outstanding_at_kill.is_some()) {
            say(&round_line(round));
        }
        let t = &self.totals;
        let figures = [
            ("acknowledged", t.acked),
            ("found", t.found),
            ("lost", t.lost),
            ("duplicated", t.duplicated),
            ("out of order", t.out_of_order),
            ("unacknowledged but present", t.unacked_present),
            ("damaged", t.damaged),
        ];
        let figures: Vec<String> =
            figures.iter().map(|(name, value)| format!("{name} {}", whole(*value))).collect();
        say(&format!("{}: {}", self.server, figures.join(", ")));
        for sentence in &self.verdict {
            say(sentence);
        }
        say(if self.passed { "PASSED" } else { "FAILED" });
    }
}

fn round_line(round: &RoundSeen) -> String {
    let number = |value: Option<u64>| value.map_or_else(|| "not available".to_owned(), whole);
    let mut line = format!(
        "round {}: {} acknowledged, {} outstanding at the kill, {} unclean bytes, ready after {} ms",
        round.number,
        whole(round.acked),
        number(round.outstanding_at_kill),
        number(round.unclean_bytes),
        number(round.restart_ms)
    );
    if round.killed_in_recovery {
        line.push_str(", killed in recovery too");
    }
    if round.lost > 0 {
        line.push_str(&format!(
            ", lost {} ({} beyond the promise",
            whole(round.lost),
            whole(round.lost_beyond_promise)
        ));
        if let Some(oldest) = round.oldest_lost_us {
            line.push_str(&format!(
                "; the oldest was acknowledged {:.1} ms before the kill",
                oldest as f64 / 1e3
            ));
        }
        line.push(')');
    }
    if let Some(reason) = &round.reason {
        line.push_str(&format!("; does not count: {reason}"));
    }
    line
}

/// What is wrong with the totals, in sentences; none when the promise is kept.
fn faults(totals: &Totals, promise: Promise, judge_order: bool) -> Vec<String> {
    let mut faults = Vec::new();
    let mut fault = |number: u64, what: &str| {
        if number > 0 {
            faults.push(format!("{} {what}.", whole(number)));
        }
    };
    let beyond = match promise {
        Promise::All => "acknowledged messages are lost; the mode promises to keep all".to_owned(),
        Promise::AllButLast { ms } => {
            format!(
                "lost messages were acknowledged more than {ms} ms before the last acknowledgement ahead of the kill; the mode promises to keep those"
            )
        }
    };
    fault(totals.lost_beyond_promise, &beyond);
    fault(totals.duplicated, "messages are in a queue twice, or in a wrong queue");
    if judge_order {
        fault(totals.out_of_order, "messages stand behind a later one of the same producer and queue");
    }
    fault(totals.damaged, "messages came back with changed bytes");
    faults
}

/// Who is audited and by which rules.
struct Audit<'a> {
    plan: &'a Plan,
    server: String,
    promise: Promise,
    /// Pipelined sends of one connection keep their order; not every broker promises that.
    judge_order: bool,
    run: u64,
}

impl Audit<'_> {
    /// Checks everything and finds the words.
    fn conclude(&self, totals: Totals, rounds: Vec<RoundSeen>) -> Audited {
        let mut verdict = faults(&totals, self.promise, self.judge_order);
        let counted = rounds.iter().filter(|round| round.counts).count();
        if self.plan.kill {
            let in_recovery = rounds.iter().filter(|round| round.counts && round.killed_in_recovery).count();
            let needed = self.plan.recovery_kills();
            if counted < self.plan.rounds as usize {
                verdict.push(format!(
                    "Only {counted} of {} rounds count after {} attempts: too few for a verdict.",
                    self.plan.rounds,
                    rounds.len()
                ));
            } else if in_recovery < needed {
                verdict.push(format!("Only {in_recovery} kills came during recovery; {needed} are needed."));
            }
        }
        if totals.acked == 0 {
            verdict.push("Nothing was acknowledged: there is nothing to judge.".to_owned());
        }
        let passed = verdict.is_empty();
        if passed {
            verdict.push(self.praise(&totals, counted));
        }
        if !self.judge_order && totals.out_of_order > 0 {
            verdict.push(
                "Order is not judged: with several sends outstanding on a connection this broker does not promise it; --depth 1 judges it."
                    .to_owned(),
            );
        }
        let format = "ringmq-loadgen-audit/1".to_owned();
        Audited {
            format,
            server: self.server.clone(),
            promise: self.promise,
            passed,
            verdict,
            totals,
            rounds,
        }
    }

    fn praise(&self, totals: &Totals, counted: usize) -> String {
        let kills = if self.plan.kill { format!(" after {counted} kills") } else { String::new() };
        let all = whole(totals.acked);
        match self.promise {
            Promise::AllButLast { ms } if totals.lost > 0 => format!(
                "Of {all} acknowledged messages {}{kills} are missing, all acknowledged within the last {ms} ms (and a margin of {} ms) in which anything was acknowledged before a kill, as the mode allows.",
                whole(totals.lost),
                self.plan.margin.as_millis()
            ),
            _ => format!(
                "All {all} acknowledged messages are there{kills}, each once, in order and unchanged."
            ),
        }
    }
}

/// Resolves nothing; names the server by its address.
fn external_name(text: &str, namesrv: SocketAddr) -> String {
    if text == namesrv.to_string() { text.to_owned() } else { format!("{text} ({namesrv})") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(acked_at_ms: &[u64]) -> ProducerLog {
        let mut log = ProducerLog::new(1);
        for at_ms in acked_at_ms {
            let sequence = log.take_sequence();
            log.on_acked(sequence, at_ms * 1_000_000);
        }
        log
    }

    fn judge(promise: Promise, killed_ms: Option<u64>) -> Losses {
        let log = log(&[70, 78, 81, 99]);
        let killed_ns = killed_ms.map(|ms| ms * 1_000_000);
        let found = Found::new(1);
        Judged::default().judge(&[log], &found, promise, Duration::ZERO, killed_ns)
    }

    #[test]
    fn only_the_last_milliseconds_of_acknowledging_are_excused() {
        let losses = judge(Promise::AllButLast { ms: 20 }, Some(100));
        assert_eq!(losses, Losses { lost: 4, beyond_promise: 2, oldest_us: Some(29_000) });
        assert_eq!(
            judge(Promise::AllButLast { ms: 20 }, Some(5_000)),
            losses,
            "a stall before the kill adds nothing"
        );
        assert_eq!(judge(Promise::All, Some(100)).beyond_promise, 4);
        assert_eq!(judge(Promise::AllButLast { ms: 20 }, None).beyond_promise, 4);
    }

    #[test]
    fn a_loss_is_judged_once() {
        let logs = [log(&[1, 2])];
        let mut judged = Judged::default();
        let found = Found::new(1);
        assert_eq!(judged.judge(&logs, &found, Promise::All, Duration::ZERO, None).lost, 2);
        assert_eq!(judged.judge(&logs, &found, Promise::All, Duration::ZERO, None).lost, 0);
        assert_eq!(judged.beyond_promise, 2);
    }

    #[test]
    fn every_fault_fails_the_audit() {
        let clean = Totals { acked: 5, found: 5, ..Totals::default() };
        assert!(faults(&clean, Promise::All, true).is_empty());
        let excused = Totals { lost: 3, ..clean };
        assert!(faults(&excused, Promise::AllButLast { ms: 20 }, true).is_empty());
        for wrong in [
            Totals { lost_beyond_promise: 1, ..clean },
            Totals { duplicated: 1, ..clean },
            Totals { out_of_order: 1, ..clean },
            Totals { damaged: 1, ..clean },
        ] {
            assert_eq!(faults(&wrong, Promise::All, true).len(), 1, "{wrong:?}");
        }
        let unordered = Totals { out_of_order: 1, ..clean };
        assert!(faults(&unordered, Promise::All, false).is_empty());
    }
}
