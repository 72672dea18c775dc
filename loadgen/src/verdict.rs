//! Conclusions in plain sentences, and the refusal to conclude. Rounds are interleaved, so values of one round belong
//! together: two servers are compared round by round, and the comparison counts only when it is larger than what the
//! rounds differ among themselves.

use serde::{Deserialize, Serialize};

use crate::report::Cell;
use crate::units::{count, micros, significant, whole};

mod sentences;

/// Fewer rounds than this never support a conclusion.
pub const ROUNDS_MIN: usize = 3;

/// What the figures say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// One sentence that answers the question of the run.
    pub headline: String,
    /// The reasons and the advice.
    pub sentences: Vec<Sentence>,
}

/// One statement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sentence {
    /// What kind of statement it is.
    pub kind: Kind,
    /// The statement.
    pub text: String,
}

/// Kinds of statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The figures support it.
    Finding,
    /// The spread is larger than the difference: no conclusion.
    Undecided,
    /// Why it is so.
    Reason,
    /// What to choose when.
    Advice,
    /// Something went wrong; the figures beside it are not to be trusted.
    Warning,
}

/// Two servers under one load, compared round by round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// The middle of `a / b` over the rounds.
    pub ratio: f64,
    /// The smallest and the largest `a / b`.
    pub bounds: [f64; 2],
    /// The difference is larger than the spread.
    pub decided: bool,
}

/// Compares the values of the same rounds by their ratios. The difference is the distance of the middle ratio from 1, the
/// spread the distance between the smallest and the largest ratio; both with the faster one above, so that `a / b` and
/// `b / a` lead to the same conclusion.
pub fn compare(a: &[f64], b: &[f64]) -> Option<Comparison> {
    let ratios: Vec<f64> =
        a.iter().zip(b).filter(|(a, b)| **a > 0.0 && **b > 0.0).map(|(a, b)| a / b).collect();
    let ratio = median(&ratios)?;
    let min = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let max = ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (difference, spread) =
        if ratio >= 1.0 { (ratio - 1.0, max - min) } else { (1.0 / ratio - 1.0, 1.0 / min - 1.0 / max) };
    Some(Comparison { ratio, bounds: [min, max], decided: ratios.len() >= ROUNDS_MIN && spread < difference })
}

/// The middle value; of an even number, the mean of the two in the middle.
pub fn median(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    Some(if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 })
}

/// The verdict on flush modes: what SYNC_FLUSH costs, why, and when each is the right choice.
pub fn of_flush_modes(cells: &[Cell]) -> Verdict {
    sentences::flush_modes(cells)
}

/// The verdict on servers side by side, against the first one.
pub fn of_servers(cells: &[Cell]) -> Verdict {
    sentences::servers(cells)
}

/// The verdict on a single workload: what it reached, and whether anything failed.
pub fn of_run(cell: &Cell) -> Verdict {
    let rate = &cell.messages_per_second;
    let latency = cell.latency.or(cell.end_to_end).map_or_else(String::new, |l| {
        format!(", half of them within {}, 99 % within {}", micros(l.p50_us as f64), micros(l.p99_us as f64))
    });
    let mut verdict = Verdict {
        headline: format!(
            "{} handled {} messages/s at {}{latency}.",
            cell.server,
            count(rate.median),
            cell.load
        ),
        sentences: Vec::new(),
    };
    if let Some(asked) = cell.rate
        && rate.median < asked * 0.99
    {
        verdict.sentences.push(Sentence {
            kind: Kind::Warning,
            text: format!(
                "It did not keep up with the {} messages/s asked for: latencies grow with the length of such a run.",
                count(asked)
            ),
        });
    }
    warn(cell, &mut verdict);
    verdict
}

/// Adds a warning when requests of a cell failed.
fn warn(cell: &Cell, verdict: &mut Verdict) {
    if cell.is_clean() {
        return;
    }
    let mut what: Vec<String> = cell
        .failures
        .iter()
        .map(|f| {
            let remark = if f.remark.is_empty() { String::new() } else { format!(": {}", f.remark) };
            format!("{} × code {} {}{remark}", whole(f.count), f.code, f.name)
        })
        .collect();
    if cell.unanswered > 0 {
        what.push(format!("{} never answered", whole(cell.unanswered)));
    }
    if cell.unsent > 0 {
        what.push(format!("{} due and never sent", whole(cell.unsent)));
    }
    if cell.connections_lost > 0 {
        what.push(format!("{} connections closed by the server", whole(cell.connections_lost)));
    }
    let text = format!(
        "Not every request of {} at {} succeeded ({}). Refused ones are in no latency figure.",
        cell.server,
        cell.load,
        what.join("; ")
    );
    verdict.sentences.push(Sentence { kind: Kind::Warning, text });
}

/// `2.4 times (rounds 2.1 to 2.6)`.
fn times(comparison: &Comparison) -> String {
    let [min, max] = comparison.bounds;
    format!("{} times (rounds {} to {})", significant(comparison.ratio), significant(min), significant(max))
}
