//! The one clock of a measurement: CLOCK_MONOTONIC in nanoseconds, comparable between threads of one run.
//! Wall time is only read to name a report and to stamp requests as RocketMQ asks.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of CLOCK_MONOTONIC.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // Both parts are non-negative on Linux: the clock starts at boot.
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// Milliseconds since 1970, as `bornTimestamp` wants them.
pub fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// `2026-12-01T14:05:09Z`, for reports.
pub fn rfc3339(wall_ms: u64) -> String {
    let seconds = wall_ms / 1000;
    let (year, month, day) = civil_from_days(seconds / 86_400);
    let of_day = seconds % 86_400;
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", of_day / 3600, of_day / 60 % 60, of_day % 60)
}

/// Gregorian date of a day count since 1970-01-01. Years are counted from March, so that the leap day comes last.
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_time_is_written_as_rfc3339() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(1_709_210_096_000), "2024-02-29T12:34:56Z");
        assert_eq!(rfc3339(1_796_134_607_123), "2026-12-01T14:16:47Z");
    }

    #[test]
    fn the_clock_does_not_step_back() {
        let first = now_ns();
        assert!(now_ns() >= first);
    }
}
