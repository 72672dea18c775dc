//! Numbers as people write and read them: sizes, durations, counts, core lists. Parsing refuses what it does not
//! understand; formatting keeps three significant digits and is never parsed again.

use std::time::Duration;

/// `64MiB`, `1g`, `4096` to bytes. Decimal suffixes are binary too, as RocketMQ operators mean them.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let (number, suffix) = split_suffix(text);
    let factor: u64 = match suffix.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1 << 40,
        _ => return Err(format!("`{text}` is not a size; write for example 512MiB or 4GiB")),
    };
    let value: u64 =
        number.parse().map_err(|_| format!("`{text}` is not a size; write for example 512MiB"))?;
    value.checked_mul(factor).ok_or_else(|| format!("`{text}` is too large"))
}

/// `2s`, `500ms`, `1.5m`, `30` (seconds) to a duration.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, suffix) = split_suffix(text);
    let seconds = match suffix {
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("`{text}` is not a duration; write for example 500ms, 2s or 1m")),
    };
    let value: f64 =
        number.parse().map_err(|_| format!("`{text}` is not a duration; write for example 2s"))?;
    Duration::try_from_secs_f64(value * seconds).map_err(|_| format!("`{text}` is out of range"))
}

/// `0`, `0-3`, `0,2,4-5` to core numbers, in the order given.
pub fn parse_cores(text: &str) -> Result<Cores, String> {
    let mut cores = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let wrong = || format!("`{text}` is not a list of cores; write for example 1 or 0,2-3");
        let first: usize = first.trim().parse().map_err(|_| wrong())?;
        let last: usize = last.trim().parse().map_err(|_| wrong())?;
        if first > last || last >= CORES_MAX {
            return Err(wrong());
        }
        cores.extend(first..=last);
    }
    Ok(Cores(cores))
}

/// Core numbers, as given on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores(pub Vec<usize>);

impl std::fmt::Display for Cores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, core) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            write!(f, "{core}")?;
        }
        Ok(())
    }
}

/// What the kernel's fixed-size affinity mask can name.
const CORES_MAX: usize = 1024;

fn split_suffix(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    text.split_at(end)
}

/// `1.2 GiB`.
pub fn bytes(count: u64) -> String {
    const NAMES: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < NAMES.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", significant(value), NAMES[unit])
}

/// A rate or a mean as `12,345`, rounded to whole numbers (one digit behind the point below 10).
pub fn count(value: f64) -> String {
    if value.is_nan() {
        return "–".to_owned();
    }
    if value > 0.0 && value < 10.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    match digits.strip_prefix('-') {
        Some(digits) => format!("-{}", separated(digits)),
        None => separated(&digits),
    }
}

/// A number of things as `12,345`.
pub fn whole(value: u64) -> String {
    separated(&value.to_string())
}

fn separated(digits: &str) -> String {
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Microseconds as `350 µs`, `1.24 ms`, `2.5 s`.
pub fn micros(value: f64) -> String {
    if value < 1_000.0 {
        format!("{value:.0} µs")
    } else if value < 1_000_000.0 {
        format!("{} ms", significant(value / 1e3))
    } else {
        format!("{} s", significant(value / 1e6))
    }
}

/// Three significant digits, without an exponent.
pub fn significant(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        0.0 => "0".to_owned(),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_durations_are_read_with_their_units() {
        assert_eq!(parse_bytes("64MiB"), Ok(64 << 20));
        assert_eq!(parse_bytes("4096"), Ok(4096));
        assert!(parse_bytes("12parsecs").is_err());
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("1.5m"), Ok(Duration::from_secs(90)));
        assert!(parse_duration("soon").is_err());
        assert_eq!(parse_cores("0,2-3"), Ok(Cores(vec![0, 2, 3])));
        assert!(parse_cores("3-1").is_err());
        assert!(parse_cores("").is_err());
    }

    #[test]
    fn numbers_are_written_for_reading() {
        assert_eq!(count(1_234_567.4), "1,234,567");
        assert_eq!(count(999.0), "999");
        assert_eq!(count(0.0), "0");
        assert_eq!(count(4.25), "4.2");
        assert_eq!((whole(1), whole(1_000)), ("1".to_owned(), "1,000".to_owned()));
        assert_eq!(bytes(1536), "1.50 KiB");
        assert_eq!(micros(1_240.0), "1.24 ms");
    }
}
