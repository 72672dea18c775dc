//! The open loop's timetable. Message `k` is due at `start + k × interval`, whatever the server does: what is late is
//! sent late but measured from when it was due. The backlog costs no memory, it is the distance of two counters.

use crate::plan::Pacing;

/// Intended send times of one generator thread.
#[derive(Clone, Debug)]
pub struct Timetable {
    start_ns: u64,
    interval_ns: f64,
    next: u64,
}

impl Timetable {
    /// The share of `thread` out of `threads` of a rate over all of them; the threads' messages interleave.
    /// `None` for a closed loop, which has no timetable.
    pub fn new(pacing: Pacing, start_ns: u64, thread: usize, threads: usize) -> Option<Timetable> {
        assert!(thread < threads, "thread {thread} of {threads}");
        let Pacing::Open { per_second } = pacing else { return None };
        let interval_all_ns = 1e9 / per_second;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below one interval")]
        let phase_ns = (interval_all_ns * thread as f64) as u64;
        Some(Timetable {
            start_ns: start_ns + phase_ns,
            interval_ns: interval_all_ns * threads as f64,
            next: 0,
        })
    }

    /// When the next message is due.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a run lasts hours, not centuries"
    )]
    pub fn next_due_ns(&self) -> u64 {
        self.start_ns + (self.next as f64 * self.interval_ns) as u64
    }

    /// Takes the next message when it is due: its intended send time.
    pub fn take(&mut self, now_ns: u64) -> Option<u64> {
        let due_ns = self.next_due_ns();
        if due_ns > now_ns {
            return None;
        }
        self.next += 1;
        Some(due_ns)
    }

    /// How many messages are due and not taken.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, far below 2^53")]
    pub fn backlog(&self, now_ns: u64) -> u64 {
        if now_ns < self.start_ns {
            return 0;
        }
        let due = ((now_ns - self.start_ns) as f64 / self.interval_ns) as u64 + 1;
        due.saturating_sub(self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_due_at_even_distances_and_late_ones_keep_their_time() {
        let pacing = Pacing::Open { per_second: 1000.0 };
        let mut table = Timetable::new(pacing, 5_000, 0, 1).unwrap();
        assert_eq!(table.take(4_999), None);
        assert_eq!(table.take(5_000), Some(5_000));
        assert_eq!(table.take(5_001), None);
        // Nobody looked for 3 ms: three messages are late, each from its own intended time.
        assert_eq!(table.backlog(3_005_000), 3);
        let late: Vec<u64> = std::iter::from_fn(|| table.take(3_005_000)).collect();
        assert_eq!(late, [1_005_000, 2_005_000, 3_005_000]);
        assert_eq!(table.backlog(3_005_000), 0);
    }

    #[test]
    fn threads_share_the_rate_and_interleave() {
        let pacing = Pacing::Open { per_second: 1000.0 };
        let mut first = Timetable::new(pacing, 0, 0, 2).unwrap();
        let mut second = Timetable::new(pacing, 0, 1, 2).unwrap();
        let due = |table: &mut Timetable| table.take(u64::MAX / 2).unwrap();
        assert_eq!(
            [due(&mut first), due(&mut second), due(&mut first), due(&mut second)],
            [0, 1_000_000, 2_000_000, 3_000_000]
        );
    }

    #[test]
    fn a_closed_loop_has_no_timetable() {
        assert!(Timetable::new(Pacing::Closed, 0, 0, 1).is_none());
    }
}
