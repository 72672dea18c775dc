//! What one generator thread has seen: latencies, counts, failures, the rate over time. Filled by that thread alone and
//! merged when it has ended; the few numbers that others watch meanwhile are in [`Gauge`].

use std::sync::atomic::{AtomicU64, Ordering};

use crate::histogram::Latency;
use crate::report::Moment;

/// The measured window; monotonic nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Everything before is warm-up.
    pub start_ns: u64,
    /// Nothing new is sent from here on.
    pub end_ns: u64,
}

impl Window {
    fn holds(&self, at_ns: u64) -> bool {
        (self.start_ns..self.end_ns).contains(&at_ns)
    }
}

/// Length of one stretch of the timeline.
pub const MOMENT_NS: u64 = 100_000_000;

/// Everything that a thread counts.
#[derive(Clone, Debug)]
pub struct Tally {
    /// What is measured; its end moves forward when the cap on messages is reached.
    pub window: Window,
    /// The cap on messages ended the window.
    pub capped: bool,
    /// Latency of successful sends whose intended time lies in the window, and how long those without an answer were
    /// waited for.
    pub latency: Latency,
    /// From intended send to receipt, of messages whose intended time lies in the window.
    pub end_to_end: Latency,
    /// Successful sends answered inside the window.
    pub done: u64,
    /// Their bodies' bytes.
    pub done_bytes: u64,
    /// Successful sends answered before the window.
    pub warmup_done: u64,
    /// Messages received inside the window.
    pub received: u64,
    /// Their bodies' bytes.
    pub received_bytes: u64,
    /// Failed requests by code, all of the run.
    pub failures: Vec<Failed>,
    /// Requests without an answer at the end.
    pub unanswered: u64,
    /// Connections that the server closed or that failed.
    pub connections_lost: u64,
    /// Messages due inside the window and never sent (open loop).
    pub unsent: u64,
    /// Rate over time.
    pub timeline: Vec<Slice>,
}

/// Failures of one code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The response code.
    pub code: i32,
    /// How often.
    pub count: u64,
    /// The first remark.
    pub remark: String,
}

/// A stretch of the timeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// Messages completed.
    pub messages: u64,
    /// The slowest, microseconds.
    pub max_us: u64,
}

impl Tally {
    /// An empty one; allocates all that the window can need.
    pub fn new(window: Window) -> Tally {
        let slices = window.end_ns.saturating_sub(window.start_ns).div_ceil(MOMENT_NS);
        Tally {
            window,
            capped: false,
            latency: Latency::new(),
            end_to_end: Latency::new(),
            done: 0,
            done_bytes: 0,
            warmup_done: 0,
            received: 0,
            received_bytes: 0,
            failures: Vec::new(),
            unanswered: 0,
            connections_lost: 0,
            unsent: 0,
            timeline: vec![Slice::default(); usize::try_from(slices).expect("a window has few slices")],
        }
    }

    /// A send succeeded.
    pub fn on_sent(&mut self, intended_ns: u64, body_len: u32, now_ns: u64) {
        let took_ns = now_ns.saturating_sub(intended_ns);
        if self.window.holds(intended_ns) {
            self.latency.record_ns(took_ns);
        }
        if self.window.holds(now_ns) {
            self.done += 1;
            self.done_bytes += u64::from(body_len);
            self.on_moment(took_ns, now_ns);
        } else if now_ns < self.window.start_ns {
            self.warmup_done += 1;
        }
    }

    /// A message arrived at a consumer. `intended_ns` is of our own messages only.
    pub fn on_received(&mut self, intended_ns: Option<u64>, body_len: usize, now_ns: u64, moments: bool) {
        let took_ns = intended_ns.map(|intended| now_ns.saturating_sub(intended));
        if let (Some(intended_ns), Some(took_ns)) = (intended_ns, took_ns)
            && self.window.holds(intended_ns)
        {
            self.end_to_end.record_ns(took_ns);
        }
        if self.window.holds(now_ns) {
            self.received += 1;
            self.received_bytes += body_len as u64;
            if moments {
                self.on_moment(took_ns.unwrap_or(0), now_ns);
            }
        }
    }

    /// A request failed.
    pub fn on_failure(&mut self, code: i32, remark: Option<&str>) {
        match self.failures.iter_mut().find(|failed| failed.code == code) {
            Some(failed) => failed.count += 1,
            None => {
                self.failures.push(Failed { code, count: 1, remark: remark.unwrap_or_default().to_owned() });
            }
        }
    }

    /// A request will not be answered. It is counted with the time that it was waited for, which is a lower bound.
    pub fn on_unanswered(&mut self, intended_ns: u64, waited_until_ns: Option<u64>) {
        self.unanswered += 1;
        if let Some(until_ns) = waited_until_ns.filter(|_| self.window.holds(intended_ns)) {
            self.latency.record_ns(until_ns.saturating_sub(intended_ns));
        }
    }

    /// A message was due and never found a place; counted as [`Tally::on_unanswered`] does.
    pub fn on_unsent(&mut self, intended_ns: u64, waited_until_ns: u64) {
        self.unsent += 1;
        if self.window.holds(intended_ns) {
            self.latency.record_ns(waited_until_ns.saturating_sub(intended_ns));
        }
    }

    /// Ends the window now: the cap on messages is reached.
    pub fn cap(&mut self, now_ns: u64) {
        if now_ns < self.window.end_ns {
            // What was sent at this very moment still belongs to the window.
            self.window.end_ns = (now_ns + 1).max(self.window.start_ns);
            self.capped = true;
        }
    }

    /// Length of the window in seconds, as far as it came.
    pub fn seconds(&self) -> f64 {
        (self.window.end_ns - self.window.start_ns) as f64 / 1e9
    }

    fn on_moment(&mut self, took_ns: u64, now_ns: u64) {
        let index = usize::try_from((now_ns - self.window.start_ns) / MOMENT_NS).unwrap_or(usize::MAX);
        if let Some(slice) = self.timeline.get_mut(index) {
            slice.messages += 1;
            slice.max_us = slice.max_us.max(took_ns / 1_000);
        }
    }

    /// Adds what another thread of the same run saw.
    pub fn merge(&mut self, other: Tally) {
        self.latency.add(&other.latency);
        self.end_to_end.add(&other.end_to_end);
        self.done += other.done;
        self.done_bytes += other.done_bytes;
        self.warmup_done += other.warmup_done;
        self.received += other.received;
        self.received_bytes += other.received_bytes;
        self.unanswered += other.unanswered;
        self.connections_lost += other.connections_lost;
        self.unsent += other.unsent;
        self.capped |= other.capped;
        // Threads reach the cap a moment apart: rates count over the longest of their windows.
        self.window.end_ns = self.window.end_ns.max(other.window.end_ns);
        for failed in other.failures {
            match self.failures.iter_mut().find(|own| own.code == failed.code) {
                Some(own) => own.count += failed.count,
                None => self.failures.push(failed),
            }
        }
        for (own, other) in self.timeline.iter_mut().zip(other.timeline) {
            own.messages += other.messages;
            own.max_us = own.max_us.max(other.max_us);
        }
    }

    /// The timeline as reports keep it: whole slices, and the rest of the last one.
    pub fn moments(&self) -> Vec<Moment> {
        let len_ns = self.window.end_ns - self.window.start_ns;
        let slice = |(index, slice): (usize, &Slice)| {
            let at_ns = index as u64 * MOMENT_NS;
            let slice_ns = len_ns.saturating_sub(at_ns).min(MOMENT_NS);
            Moment {
                at_ms: at_ns / 1_000_000,
                len_ms: slice_ns / 1_000_000,
                messages: slice.messages,
                max_us: slice.max_us,
            }
        };
        // A rest of a few milliseconds would plot as noise.
        self.timeline.iter().enumerate().map(slice).filter(|moment| moment.len_ms >= 20).collect()
    }
}

/// Counters that other threads may read at any time; updated once per batch.
#[derive(Debug, Default)]
pub struct Gauge {
    sent: AtomicU64,
    ended: AtomicU64,
    acked: AtomicU64,
    failed: AtomicU64,
    received: AtomicU64,
}

/// One look at a [`Gauge`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Requests handed to the kernel.
    pub sent: u64,
    /// Requests answered, or lost with their connection.
    pub ended: u64,
    /// Successful answers.
    pub acked: u64,
    /// Failed answers.
    pub failed: u64,
    /// Messages received by consumers.
    pub received: u64,
}

impl Reading {
    /// Sends without an answer yet.
    pub fn outstanding(&self) -> u64 {
        self.sent.saturating_sub(self.ended)
    }

    /// The sum of both.
    pub fn and(self, other: Reading) -> Reading {
        Reading {
            sent: self.sent + other.sent,
            ended: self.ended + other.ended,
            acked: self.acked + other.acked,
            failed: self.failed + other.failed,
            received: self.received + other.received,
        }
    }
}

impl Gauge {
    /// Publishes the thread's counters.
    pub fn publish(&self, reading: &Reading) {
        // `sent` first: an outstanding count that is read between the two is then never too small by a whole batch of answers.
        self.sent.store(reading.sent, Ordering::Release);
        self.ended.store(reading.ended, Ordering::Release);
        self.acked.store(reading.acked, Ordering::Relaxed);
        self.failed.store(reading.failed, Ordering::Relaxed);
        self.received.store(reading.received, Ordering::Relaxed);
    }

    /// Reads them.
    pub fn read(&self) -> Reading {
        let ended = self.ended.load(Ordering::Acquire);
        Reading {
            ended,
            sent: self.sent.load(Ordering::Acquire),
            acked: self.acked.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            received: self.received.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window { start_ns: 1_000_000_000, end_ns: 2_000_000_000 };

    #[test]
    fn warm_up_is_counted_apart_and_in_no_figure() {
        let mut tally = Tally::new(WINDOW);
        tally.on_sent(500_000_000, 100, 900_000_000);
        tally.on_sent(950_000_000, 100, 1_000_000_000);
        tally.on_sent(1_000_000_000, 100, 1_050_000_000);
        assert_eq!((tally.warmup_done, tally.done, tally.latency.len()), (1, 2, 1));
        assert_eq!(
            tally.latency.summary().unwrap().max_us,
            50_015,
            "only the message sent inside the window"
        );
    }

    #[test]
    fn an_answer_behind_the_window_counts_its_latency_but_not_its_rate() {
        let mut tally = Tally::new(WINDOW);
        tally.on_sent(1_900_000_000, 100, 2_500_000_000);
        assert_eq!((tally.done, tally.latency.len()), (0, 1));
    }

    #[test]
    fn the_cap_shortens_the_window() {
        let mut tally = Tally::new(WINDOW);
        tally.on_sent(1_100_000_000, 1, 1_240_000_000);
        tally.cap(1_250_000_000);
        assert!(tally.capped && (tally.seconds() - 0.25).abs() < 1e-6);
        let moments = tally.moments();
        assert_eq!(moments.iter().map(|m| m.len_ms).collect::<Vec<_>>(), [100, 100, 50]);
        assert_eq!(moments.iter().map(|m| m.messages).collect::<Vec<_>>(), [0, 0, 1]);
    }

    #[test]
    fn failures_are_counted_by_code_with_their_first_remark() {
        let mut tally = Tally::new(WINDOW);
        tally.on_failure(2, Some("busy"));
        tally.on_failure(10, None);
        tally.on_failure(2, Some("busy again"));
        let mut other = Tally::new(WINDOW);
        other.on_failure(2, Some("other"));
        tally.merge(other);
        let failed = |code, count, remark: &str| Failed { code, count, remark: remark.to_owned() };
        assert_eq!(tally.failures, [failed(2, 3, "busy"), failed(10, 1, "")]);
    }
}
