//! Samples of a piece of work: how long it took per message, what it allocated, what it copied.
//!
//! A sample is a group of messages, so that reading the clock costs each of them little. Allocations are counted on the
//! calling thread and only inside [`Meter::time`], so making the next input costs nothing. Nothing is subtracted.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use crate::SAMPLES_WARMING;

/// Takes samples; see the module.
pub struct Meter {
    name: String,
    seen: usize,
    kept: Vec<f64>,
    elapsed: Duration,
    totals: Totals,
    checksum: Checksum,
}

/// Sums over the samples that are kept.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    messages: u64,
    allocations: u64,
    allocated_bytes: u64,
    copied_bytes: u64,
}

/// What was measured.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The benchmark's name, and its variant's.
    pub name: String,
    /// Nanoseconds per message: median over the samples.
    pub median_ns: f64,
    /// The same, 10th and 90th percentile.
    pub spread_ns: (f64, f64),
    /// Bytes written to memory per message, as the results tell.
    pub copied_bytes: f64,
    /// Allocations in all kept samples; growing counts.
    pub allocations: u64,
    /// Bytes of those.
    pub allocated_bytes: u64,
    /// Messages in all kept samples.
    pub messages: u64,
    /// Of the results, warm-up included; equal whenever the same work was done.
    pub checksum: u64,
    /// Whether an allocation is a failure.
    pub must_not_allocate: bool,
}

impl Figure {
    /// Allocated where it must not.
    #[must_use]
    pub fn is_failed(&self) -> bool {
        self.must_not_allocate && self.allocations > 0
    }
}

impl Meter {
    /// A meter without samples.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Meter {
        Meter {
            name: name.into(),
            seen: 0,
            kept: Vec::new(),
            elapsed: Duration::ZERO,
            totals: Totals::default(),
            checksum: Checksum::default(),
        }
    }

    /// Does `work`, whose time and allocations belong to the current sample.
    pub fn time<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let mut done = None;
        let counted = allocation_counter::measure(|| {
            let begun = Instant::now();
            let result = black_box(work());
            done = Some((result, begun.elapsed()));
        });
        let (result, took) = done.expect("the counter runs what it is given");
        self.elapsed += took;
        if self.is_warm() {
            self.totals.allocations += counted.count_total;
            self.totals.allocated_bytes += counted.bytes_total;
        }
        result
    }

    /// The current sample wrote so many bytes to memory.
    pub fn copied(&mut self, bytes: usize) {
        if self.is_warm() {
            self.totals.copied_bytes += bytes as u64;
        }
    }

    /// Takes a piece of the result into the checksum.
    pub fn check(&mut self, bytes: &[u8]) {
        self.checksum.add(bytes);
    }

    /// As [`Meter::check`], of a number.
    pub fn check_number(&mut self, number: u64) {
        self.checksum.add(&number.to_le_bytes());
    }

    /// Ends the current sample, which was of so many messages.
    pub fn end_sample(&mut self, messages: usize) {
        assert!(messages > 0, "a sample is of at least one message");
        let elapsed = std::mem::take(&mut self.elapsed);
        if self.is_warm() {
            self.kept.push(elapsed.as_nanos() as f64 / messages as f64);
            self.totals.messages += messages as u64;
        }
        self.seen += 1;
    }

    /// What the samples say. `must_not_allocate`: see [`Figure::is_failed`].
    #[must_use]
    pub fn figure(mut self, must_not_allocate: bool) -> Figure {
        assert!(!self.kept.is_empty(), "more samples are taken than are thrown away");
        self.kept.sort_by(f64::total_cmp);
        let at = |share: f64| self.kept[((self.kept.len() - 1) as f64 * share).round() as usize];
        Figure {
            median_ns: at(0.5),
            spread_ns: (at(0.1), at(0.9)),
            copied_bytes: self.totals.copied_bytes as f64 / self.totals.messages as f64,
            allocations: self.totals.allocations,
            allocated_bytes: self.totals.allocated_bytes,
            messages: self.totals.messages,
            checksum: self.checksum.0,
            must_not_allocate,
            name: self.name,
        }
    }

    fn is_warm(&self) -> bool {
        self.seen >= SAMPLES_WARMING
    }
}

/// FNV-1a, 64 bits: small, and good enough to tell results apart.
#[derive(Clone, Copy, Debug)]
struct Checksum(u64);

impl Default for Checksum {
    fn default() -> Checksum {
        Checksum(0xCBF2_9CE4_8422_2325)
    }
}

impl Checksum {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter_of(samples: usize, mut work: impl FnMut(usize)) -> Figure {
        let mut meter = Meter::new("test");
        for sample in 0..SAMPLES_WARMING + samples {
            meter.time(|| work(sample));
            meter.end_sample(4);
        }
        meter.figure(true)
    }

    #[test]
    fn one_allocation_in_one_sample_is_a_failure() {
        let figure = meter_of(10, |sample| {
            if sample == SAMPLES_WARMING + 7 {
                black_box(Box::new(sample));
            }
        });
        assert_eq!((figure.allocations, figure.allocated_bytes, figure.messages), (1, 8, 40));
        assert!(figure.is_failed());
    }

    #[test]
    fn growing_counts_and_allocations_while_warming_do_not() {
        let mut memory = Vec::new();
        let figure = meter_of(3, |sample| {
            memory = if sample < SAMPLES_WARMING { vec![0u8; 64] } else { std::mem::take(&mut memory) };
        });
        assert!(!figure.is_failed(), "{figure:?}");
        let mut growing = Vec::new();
        let figure = meter_of(SAMPLES_WARMING, |sample| growing.push(sample));
        assert!(growing.capacity() > SAMPLES_WARMING && figure.is_failed(), "{figure:?}");
    }

    #[test]
    fn what_is_done_outside_of_time_is_not_counted() {
        let mut meter = Meter::new("test");
        for sample in 0..=SAMPLES_WARMING {
            let input = vec![sample; 100];
            let sum: usize = meter.time(|| input.iter().sum());
            meter.check_number(sum as u64);
            meter.copied(6);
            meter.end_sample(2);
        }
        let figure = meter.figure(true);
        assert_eq!((figure.allocations, figure.messages), (0, 2));
        assert!((figure.copied_bytes - 3.0).abs() < f64::EPSILON, "{figure:?}");
    }

    #[test]
    fn checksums_tell_results_and_their_order_apart() {
        let of = |pieces: &[&[u8]]| {
            let mut checksum = Checksum::default();
            pieces.iter().for_each(|piece| checksum.add(piece));
            checksum.0
        };
        assert_ne!(of(&[b"ab"]), of(&[b"ba"]));
        assert_eq!(of(&[b"ab"]), of(&[b"a", b"b"]));
    }
}
