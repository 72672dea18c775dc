//! How old the oldest byte is that kill -9 would lose.
//!
//! ASYNC_FLUSH on a direct log acknowledges at append; what isn't written yet is lost with the process. The bound on that
//! loss is a time (20 ms), and a disk can be slower than any pace of ours: so while the oldest unwritten byte is older
//! than [`ASYNC_UNWRITTEN_AGE_MAX`] nothing more is taken, hence nothing more acknowledged.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use crate::{limits::ASYNC_UNWRITTEN_AGE_MAX, offset::LogOffset};

/// How fine the age is: one mark per so much time.
const STEP: Duration = Duration::from_millis(1);

/// Marks of when the log had grown how far, for what isn't written yet.
#[derive(Debug, Default)]
pub struct UnwrittenAge {
    /// Bytes from the offset on were appended at the time or later.
    marks: VecDeque<(LogOffset, Instant)>,
}

impl UnwrittenAge {
    /// Whether nothing more may be acknowledged until something is written. The log is written up to `written_end` and
    /// is about to grow at `end`.
    pub fn is_too_old(&mut self, written_end: LogOffset, end: LogOffset, now: Instant) -> bool {
        if written_end == end {
            self.marks.clear();
        }
        while self.marks.get(1).is_some_and(|(from, _)| *from <= written_end) {
            self.marks.pop_front();
        }
        let age = |(_, time): &(LogOffset, Instant)| now.saturating_duration_since(*time);
        if self.marks.front().is_some_and(|mark| age(mark) > ASYNC_UNWRITTEN_AGE_MAX) {
            return true;
        }
        if self.marks.back().is_none_or(|mark| age(mark) >= STEP) {
            self.marks.push_back((end, now));
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unwritten_for_too_long_stops_the_log_until_it_is_written() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let limit = u64::try_from(ASYNC_UNWRITTEN_AGE_MAX.as_millis()).unwrap();
        let offset = LogOffset::new;
        let mut age = UnwrittenAge::default();
        for ms in 0..=limit {
            assert!(!age.is_too_old(offset(0), offset(ms * 100), at(ms)), "at {ms} ms");
        }
        assert!(age.is_too_old(offset(0), offset(limit * 100), at(limit + 1)));
        assert!(!age.is_too_old(offset(500), offset(limit * 100), at(limit + 1)), "the rest is younger");
        assert!(age.marks.len() <= ASYNC_UNWRITTEN_AGE_MAX.as_millis() as usize + 2);
        assert!(!age.is_too_old(offset(9_000), offset(9_000), at(60_000)), "nothing is unwritten");
        assert!(
            !age.is_too_old(offset(9_000), offset(9_100), at(60_001)),
            "the age counts from the new append"
        );
    }
}
