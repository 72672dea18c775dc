//! Latencies of one kind: 1 µs to 60 s with three significant digits, the percentiles that reports show, the curve
//! that they draw, and the `.hlog` that other tools read.

use std::io::Write;
use std::time::{Duration, UNIX_EPOCH};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Longer latencies are counted as this much.
pub const LATENCY_MICROS_MAX: u64 = 60_000_000;

/// A histogram of latencies in microseconds.
#[derive(Clone, Debug)]
pub struct Latency(Histogram<u64>);

impl Default for Latency {
    fn default() -> Self {
        Latency::new()
    }
}

impl Latency {
    /// Allocates all that it will ever need: recording never allocates.
    pub fn new() -> Latency {
        Latency(
            Histogram::new_with_bounds(1, LATENCY_MICROS_MAX, 3)
                .expect("1..60s with 3 digits is a legal range"),
        )
    }

    /// Records one latency; rounded to microseconds, at least 1.
    pub fn record_ns(&mut self, ns: u64) {
        self.0.saturating_record(((ns + 500) / 1_000).max(1));
    }

    /// Adds all samples of another histogram.
    pub fn add(&mut self, other: &Latency) {
        self.0.add(&other.0).expect("all our histograms have the same range");
    }

    /// How many samples were recorded.
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value in microseconds at a quantile between 0 and 1.
    pub fn quantile_micros(&self, quantile: f64) -> u64 {
        if self.is_empty() { 0 } else { self.0.value_at_quantile(quantile) }
    }

    /// The percentiles that tables show; `None` when nothing was recorded.
    pub fn summary(&self) -> Option<Summary> {
        if self.is_empty() {
            return None;
        }
        Some(Summary {
            samples: self.len(),
            mean_us: self.0.mean(),
            min_us: self.0.min(),
            p50_us: self.quantile_micros(0.50),
            p90_us: self.quantile_micros(0.90),
            p99_us: self.quantile_micros(0.99),
            p999_us: self.quantile_micros(0.999),
            max_us: self.0.max(),
        })
    }

    /// The curve of latency over percentile: points get denser towards the slowest, and end where a further nine
    /// would describe less than one sample.
    pub fn curve(&self) -> Vec<CurvePoint> {
        let mut points = Vec::new();
        if self.is_empty() {
            return points;
        }
        let samples = self.len() as f64;
        // Four points for each halving of what is above, as HdrHistogram's own plots have it.
        for step in 0..=4 * 24 {
            let above = 0.5_f64.powf(f64::from(step) / 4.0);
            points.push(CurvePoint { above, micros: self.quantile_micros(1.0 - above) });
            if above * samples < 1.0 {
                break;
            }
        }
        points
    }
}

/// One point of a percentile curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// The share of samples above: 0.01 is the 99th percentile.
    pub above: f64,
    /// Latency in microseconds.
    pub micros: u64,
}

/// What a table shows of a distribution; microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it: a percentile in microseconds")]
pub struct Summary {
    pub samples: u64,
    pub mean_us: f64,
    pub min_us: u64,
    pub p50_us: u64,
    pub p90_us: u64,
    pub p99_us: u64,
    pub p999_us: u64,
    pub max_us: u64,
}

/// One interval of an `.hlog`: which cell, when, how long, and its latencies.
#[derive(Debug)]
pub struct Interval<'a> {
    /// The cell; letters that the format forbids are replaced.
    pub tag: String,
    /// Wall clock at its start, milliseconds since 1970.
    pub start_wall_ms: u64,
    /// How long it was measured.
    pub duration: Duration,
    /// What was recorded.
    pub latency: &'a Latency,
}

/// Writes HdrHistogram's interval log; values are microseconds.
pub fn write_hlog<W: Write>(out: &mut W, intervals: &[Interval<'_>]) -> Result<()> {
    let wrong = |what: String| Error::Data(format!("cannot write the .hlog: {what}"));
    let base_ms = intervals.iter().map(|i| i.start_wall_ms).min().unwrap_or(0);
    let base = UNIX_EPOCH + Duration::from_millis(base_ms);
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("loadgen: latencies in microseconds; one interval per cell and round")
        .with_start_time(base)
        .with_base_time(base)
        .with_max_value_divisor(1_000.0)
        .begin_log_with(out, &mut serializer)
        .map_err(|e| wrong(e.to_string()))?;
    for interval in intervals {
        let tag: String =
            interval.tag.chars().map(|c| if c.is_whitespace() || c == ',' { '_' } else { c }).collect();
        let since_base = Duration::from_millis(interval.start_wall_ms - base_ms);
        log.write_histogram(&interval.latency.0, since_base, interval.duration, Tag::new(&tag))
            .map_err(|e| wrong(format!("{e:?}")))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    fn one_to(micros: u64) -> Latency {
        let mut latency = Latency::new();
        for value in 1..=micros {
            latency.record_ns(value * 1_000);
        }
        latency
    }

    #[test]
    fn percentiles_are_of_the_recorded_values() {
        let summary = one_to(1_000).summary().unwrap();
        assert_eq!((summary.samples, summary.min_us, summary.max_us), (1_000, 1, 1_000));
        assert_eq!((summary.p50_us, summary.p90_us, summary.p99_us, summary.p999_us), (500, 900, 990, 999));
    }

    #[test]
    fn out_of_range_latencies_are_kept_at_the_bounds() {
        let mut latency = Latency::new();
        latency.record_ns(0);
        latency.record_ns(3_600_000_000_000);
        let summary = latency.summary().unwrap();
        assert_eq!(summary.min_us, 1);
        assert!(summary.max_us >= LATENCY_MICROS_MAX);
        assert!(Latency::new().summary().is_none());
    }

    #[test]
    fn the_curve_rises_and_stops_at_the_last_sample() {
        let curve = one_to(10_000).curve();
        assert!(
            curve.windows(2).all(|pair| pair[0].micros <= pair[1].micros && pair[0].above > pair[1].above)
        );
        let last = curve.last().unwrap().micros;
        assert!((10_000..=10_010).contains(&last), "three digits of 10,000, not {last}");
        assert!(curve.len() < 60);
    }

    #[test]
    fn the_hlog_reads_back_with_its_tags() {
        let (first, second) = (one_to(100), one_to(50));
        let interval = |tag: &str, start_wall_ms, latency| Interval {
            tag: tag.to_owned(),
            start_wall_ms,
            duration: Duration::from_secs(2),
            latency,
        };
        let mut bytes = Vec::new();
        write_hlog(&mut bytes, &[interval("sync 1x1", 5_000, &first), interval("async", 7_000, &second)])
            .unwrap();
        let mut read = Vec::new();
        for entry in IntervalLogIterator::new(&bytes) {
            if let Ok(LogEntry::Interval(interval)) = entry {
                let encoded = interval.encoded_histogram();
                let packed = decode_base64(encoded);
                let histogram: Histogram<u64> = Deserializer::new().deserialize(&mut &packed[..]).unwrap();
                read.push((
                    interval.tag().unwrap().as_str().to_owned(),
                    histogram.len(),
                    interval.start_timestamp(),
                ));
            }
        }
        let expected =
            [("sync_1x1".to_owned(), 100, Duration::ZERO), ("async".to_owned(), 50, Duration::from_secs(2))];
        assert_eq!(read, expected);
    }

    fn decode_base64(text: &str) -> Vec<u8> {
        const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut out = Vec::new();
        let (mut bits, mut held) = (0u32, 0u32);
        for byte in text.bytes().filter(|b| *b != b'=') {
            let value = ALPHABET.iter().position(|a| *a == byte).unwrap();
            bits = bits << 6 | u32::try_from(value).unwrap();
            held += 6;
            if held >= 8 {
                held -= 8;
                out.push(u8::try_from(bits >> held & 0xFF).unwrap());
            }
        }
        out
    }
}
